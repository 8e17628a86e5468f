//! The figures that plugins and scripts ask for by name, each known once.
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use contract::meter::{Counter, Gauge, Meter};

use super::exposition::{Exposition, Kind};

/// How long a figure whose last handle is gone stays in `/metrics`: long enough to be scraped once more, and to go on
/// counting when a reload brings it back.
pub const GRACE: Duration = Duration::from_secs(300);

/// Figures by name and labels. One a gateway.
///
/// Only asking for a figure takes the lock; counting never does.
pub struct Registry {
    families: Mutex<BTreeMap<&'static str, Family>>,
    /// Names that the gateway itself writes.
    reserved: BTreeSet<&'static str>,
    most: usize,
    refused: AtomicU64,
}

/// Sorted, no name twice.
type Labels = Box<[(&'static str, Box<str>)]>;

struct Family {
    help: &'static str,
    kind: Kind,
    series: BTreeMap<Labels, Series>,
}

struct Series {
    value: Arc<AtomicU64>,
    /// Since when nobody but us holds it.
    alone: Option<Instant>,
}

impl Registry {
    /// At most `most` figures; beyond, a caller gets a handle that counts for itself alone.
    pub fn new(reserved: impl IntoIterator<Item = &'static str>, most: usize) -> Self {
        Self { families: Mutex::default(), reserved: reserved.into_iter().collect(), most, refused: AtomicU64::new(0) }
    }

    /// How often a figure was refused: a bad name, a name of another kind, or one too many.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Forgets figures whose handles have been gone for [`GRACE`].
    pub fn sweep(&self, now: Instant) {
        let mut families = self.lock();
        for family in families.values_mut() {
            family.series.retain(|_, it| {
                if Arc::strong_count(&it.value) > 1 {
                    it.alone = None;
                    return true;
                }
                now.saturating_duration_since(*it.alone.get_or_insert(now)) < GRACE
            });
        }
        families.retain(|_, it| !it.series.is_empty());
    }

    /// Writes all figures, in the order of their names.
    pub fn write(&self, to: &mut Exposition) {
        for (name, family) in self.lock().iter() {
            to.family(name, family.help, family.kind);
            for (labels, series) in &family.series {
                let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, &**value)).collect();
                to.integer(&labels, series.value.load(Relaxed));
            }
        }
    }

    fn handle(&self, kind: Kind, name: &'static str, help: &'static str, labels: &[(&'static str, &str)]) -> Arc<AtomicU64> {
        let found = self.find(kind, name, help, labels);
        found.unwrap_or_else(|| {
            self.refused.fetch_add(1, Relaxed);
            Arc::default()
        })
    }

    fn find(&self, kind: Kind, name: &'static str, help: &'static str, labels: &[(&'static str, &str)]) -> Option<Arc<AtomicU64>> {
        if !is_name(name) || self.reserved.contains(name) {
            return None;
        }
        let mut key: Labels = labels.iter().map(|(name, value)| (*name, Box::from(*value))).collect();
        key.sort_unstable();
        if !key.iter().all(|(name, _)| is_label(name)) || key.windows(2).any(|it| it[0].0 == it[1].0) {
            return None;
        }
        let mut families = self.lock();
        let full = families.values().map(|it| it.series.len()).sum::<usize>() >= self.most;
        let family = match families.get_mut(name) {
            Some(it) => it,
            None if full => return None,
            None => families.entry(name).or_insert(Family { help, kind, series: BTreeMap::new() }),
        };
        if family.kind != kind {
            return None;
        }
        if let Some(it) = family.series.get(&key) {
            return Some(it.value.clone());
        }
        if full {
            return None;
        }
        let value = Arc::<AtomicU64>::default();
        family.series.insert(key, Series { value: value.clone(), alone: None });
        Some(value)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Family>> {
        self.families.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Meter for Registry {
    fn counter(&self, name: &'static str, help: &'static str, labels: &[(&'static str, &str)]) -> Counter {
        Counter(self.handle(Kind::Counter, name, help, labels))
    }

    fn gauge(&self, name: &'static str, help: &'static str, labels: &[(&'static str, &str)]) -> Gauge {
        Gauge(self.handle(Kind::Gauge, name, help, labels))
    }
}

/// `[a-zA-Z_:][a-zA-Z0-9_:]*`.
fn is_name(text: &str) -> bool {
    let begins = text.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_' || it == ':');
    begins && text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b':')
}

/// `[a-zA-Z_][a-zA-Z0-9_]*`, and none that Prometheus keeps for itself.
fn is_label(text: &str) -> bool {
    is_name(text) && !text.contains(':') && !text.starts_with("__") && !matches!(text, "le" | "quantile")
}

#[cfg(test)]
mod tests {
    use super::{super::exposition::Format, *};

    fn registry() -> Registry {
        Registry::new(["allium_requests_total"], 4)
    }

    fn text(it: &Registry) -> String {
        let mut to = Exposition::new(Format::Prometheus);
        it.write(&mut to);
        to.finish()
    }

    #[test]
    fn the_same_words_give_the_same_figure_whatever_the_order_of_labels() {
        let it = registry();
        it.counter("a_total", "A.", &[("x", "1"), ("y", "2")]).add(2);
        it.counter("a_total", "A.", &[("y", "2"), ("x", "1")]).add(3);
        it.counter("a_total", "A.", &[("x", "2"), ("y", "2")]).add(1);
        assert!(text(&it).contains("a_total{x=\"1\",y=\"2\"} 5\na_total{x=\"2\",y=\"2\"} 1\n"), "{}", text(&it));
    }

    #[test]
    fn what_cannot_be_told_is_refused_and_still_counts_for_its_owner() {
        let it = registry();
        it.gauge("kind", "A gauge.", &[]);
        for (name, labels) in [
            ("1st", &[][..]),
            ("with space", &[]),
            ("", &[]),
            ("allium_requests_total", &[]),
            ("kind", &[]),
            ("b_total", &[("le", "1")]),
            ("b_total", &[("__x", "1")]),
            ("b_total", &[("a:b", "1")]),
            ("b_total", &[("x", "1"), ("x", "2")]),
        ] {
            let before = it.refused();
            let counter = it.counter(name, "Bad.", labels);
            counter.add(1);
            assert_eq!((counter.get(), it.refused() - before), (1, 1), "{name} {labels:?}");
        }
        assert!(!text(&it).contains("b_total"));
    }

    #[test]
    fn there_are_never_more_figures_than_agreed() {
        let it = registry();
        let kept: Vec<_> = ["1", "2", "3", "4", "5"].iter().map(|at| it.counter("a_total", "A.", &[("x", at)])).collect();
        assert_eq!((kept.len(), it.refused()), (5, 1));
        it.counter("a_total", "A.", &[("x", "1")]).add(7);
        assert_eq!(kept[0].get(), 7, "known ones are still found");
        assert_eq!(text(&it).lines().filter(|it| it.starts_with("a_total")).count(), 4);
    }

    #[test]
    fn a_figure_without_owner_goes_on_if_it_comes_back_in_time_and_is_forgotten_if_not() {
        let (it, start) = (registry(), Instant::now());
        it.counter("a_total", "A.", &[]).add(5);
        it.sweep(start);
        let back = it.counter("a_total", "A.", &[]);
        assert_eq!(back.get(), 5);
        it.sweep(start + GRACE);
        assert!(text(&it).contains("a_total 5"), "an owner keeps it");
        drop(back);
        it.sweep(start + GRACE);
        it.sweep(start + GRACE + Duration::from_secs(1));
        assert!(text(&it).contains("a_total 5"), "the last count can still be scraped");
        it.sweep(start + GRACE * 2);
        assert_eq!(text(&it), "");
        assert_eq!(it.counter("a_total", "A.", &[]).get(), 0);
    }
}
