//! Writes figures as Prometheus and OpenMetrics read them.
use super::histogram::Histogram;

/// Which of the two texts a scraper asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text, version 0.0.4.
    Prometheus,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The one that an `Accept` header asks for; Prometheus' where it asks for neither.
    pub fn of_accept(accept: Option<&str>) -> Self {
        let wanted = |it: &str| {
            let mut parts = it.split(';').map(str::trim);
            let names = parts.next().is_some_and(|it| it.eq_ignore_ascii_case("application/openmetrics-text"));
            names && parts.all(|it| it.replace(' ', "") != "q=0" && !it.starts_with("version=2"))
        };
        match accept {
            Some(it) if it.split(',').any(wanted) => Self::OpenMetrics,
            _ => Self::Prometheus,
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What a family of figures is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
    /// Always 1; its labels are the message. Its name ends in `_info`.
    Info,
}

/// Name and value of each label.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// The text being written.
///
/// Invariant: a family's head is written just before its first sample, so that families without samples leave no trace.
pub struct Exposition {
    format: Format,
    text: String,
    head: Option<(&'static str, &'static str, Kind)>,
    name: &'static str,
    kind: Kind,
}

impl Exposition {
    pub fn new(format: Format) -> Self {
        Self { format, text: String::with_capacity(16 * 1024), head: None, name: "", kind: Kind::Gauge }
    }

    /// Begins the family `name`: all samples up to the next family are its own.
    pub fn family(&mut self, name: &'static str, help: &'static str, kind: Kind) {
        self.head = Some((name, help, kind));
        self.name = name;
        self.kind = kind;
    }

    pub fn integer(&mut self, labels: Labels<'_>, value: u64) {
        self.sample("", labels, None);
        push_integer(&mut self.text, value);
        self.text.push('\n');
    }

    pub fn float(&mut self, labels: Labels<'_>, value: f64) {
        self.sample("", labels, None);
        push_float(&mut self.text, value);
        self.text.push('\n');
    }

    pub fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        let read = histogram.read();
        let bounds = histogram.bounds().seconds().map(Some).chain([None]);
        for (bound, count) in bounds.zip(&read.cumulative) {
            let le = match (bound, self.format) {
                (None, _) => "+Inf".to_owned(),
                (Some(it), Format::Prometheus) => it.to_string(),
                // OpenMetrics 1.0, "Considerations: Canonical Numbers": 1 is spelt 1.0.
                (Some(it), Format::OpenMetrics) => format!("{it:?}"),
            };
            self.sample("_bucket", labels, Some(&le));
            push_integer(&mut self.text, *count);
            self.text.push('\n');
        }
        self.sample("_sum", labels, None);
        push_float(&mut self.text, read.sum);
        self.text.push('\n');
        self.sample("_count", labels, None);
        push_integer(&mut self.text, read.count);
        self.text.push('\n');
    }

    /// The whole text.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    /// Everything of a sample up to its value.
    fn sample(&mut self, suffix: &str, labels: Labels<'_>, le: Option<&str>) {
        self.write_head();
        self.text.push_str(self.name);
        // OpenMetrics: a counter's sample ends in `_total`, whatever its family is called.
        if self.format == Format::OpenMetrics && self.kind == Kind::Counter && !self.name.ends_with("_total") {
            self.text.push_str("_total");
        }
        self.text.push_str(suffix);
        if !labels.is_empty() || le.is_some() {
            self.text.push('{');
            let all = labels.iter().copied().chain(le.map(|it| ("le", it)));
            for (at, (name, value)) in all.enumerate() {
                if at > 0 {
                    self.text.push(',');
                }
                self.text.push_str(name);
                self.text.push_str("=\"");
                push_escaped(&mut self.text, value, true);
                self.text.push('"');
            }
            self.text.push('}');
        }
        self.text.push(' ');
    }

    fn write_head(&mut self) {
        let Some((name, help, kind)) = self.head.take() else { return };
        let open = self.format == Format::OpenMetrics;
        let (family, kind) = match kind {
            Kind::Counter if open => (name.strip_suffix("_total").unwrap_or(name), "counter"),
            Kind::Counter => (name, "counter"),
            Kind::Info if open => (name.strip_suffix("_info").unwrap_or(name), "info"),
            Kind::Info | Kind::Gauge => (name, "gauge"),
            Kind::Histogram => (name, "histogram"),
        };
        self.text.push_str("# HELP ");
        self.text.push_str(family);
        self.text.push(' ');
        // Prometheus' text leaves quotes in help as they are; OpenMetrics escapes them.
        push_escaped(&mut self.text, help, open);
        self.text.push_str("\n# TYPE ");
        self.text.push_str(family);
        self.text.push(' ');
        self.text.push_str(kind);
        self.text.push('\n');
    }
}

fn push_escaped(to: &mut String, text: &str, quotes: bool) {
    for it in text.chars() {
        match it {
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            '"' if quotes => to.push_str("\\\""),
            it => to.push(it),
        }
    }
}

fn push_integer(to: &mut String, value: u64) {
    use std::fmt::Write;
    let _ = write!(to, "{value}");
}

fn push_float(to: &mut String, value: f64) {
    use std::fmt::Write;
    let _ = match value {
        it if it.is_nan() => write!(to, "NaN"),
        it if it.is_infinite() => write!(to, "{}Inf", if it > 0.0 { '+' } else { '-' }),
        it => write!(to, "{it}"),
    };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::histogram::Bounds, *};

    fn example(format: Format) -> String {
        let mut it = Exposition::new(format);
        it.family("a_total", "Counts \"a\"\\b\nc.", Kind::Counter);
        it.integer(&[("x", "q\"u\\o\nte"), ("y", "é")], 3);
        it.family("never", "No sample, no head.", Kind::Gauge);
        it.family("b_seconds", "Times.", Kind::Histogram);
        let times = Histogram::new(Bounds::new([Duration::from_millis(5), Duration::from_secs(1)]).unwrap());
        times.observe(Duration::from_millis(500));
        it.histogram(&[("x", "1")], &times);
        it.family("c_info", "Who.", Kind::Info);
        it.integer(&[("version", "1")], 1);
        it.finish()
    }

    #[test]
    fn prometheus_text_is_spelt_as_the_format_says() {
        let want = r#"# HELP a_total Counts "a"\\b\nc.
# TYPE a_total counter
a_total{x="q\"u\\o\nte",y="é"} 3
# HELP b_seconds Times.
# TYPE b_seconds histogram
b_seconds_bucket{x="1",le="0.005"} 0
b_seconds_bucket{x="1",le="1"} 1
b_seconds_bucket{x="1",le="+Inf"} 1
b_seconds_sum{x="1"} 0.5
b_seconds_count{x="1"} 1
# HELP c_info Who.
# TYPE c_info gauge
c_info{version="1"} 1
"#;
        assert_eq!(example(Format::Prometheus), want);
    }

    #[test]
    fn openmetrics_text_is_spelt_as_the_format_says() {
        let want = r#"# HELP a Counts \"a\"\\b\nc.
# TYPE a counter
a_total{x="q\"u\\o\nte",y="é"} 3
# HELP b_seconds Times.
# TYPE b_seconds histogram
b_seconds_bucket{x="1",le="0.005"} 0
b_seconds_bucket{x="1",le="1.0"} 1
b_seconds_bucket{x="1",le="+Inf"} 1
b_seconds_sum{x="1"} 0.5
b_seconds_count{x="1"} 1
# HELP c Who.
# TYPE c info
c_info{version="1"} 1
# EOF
"#;
        assert_eq!(example(Format::OpenMetrics), want);
    }

    #[test]
    fn the_accept_header_chooses_the_text() {
        for (accept, want) in [
            (None, Format::Prometheus),
            (Some("*/*"), Format::Prometheus),
            (Some("text/plain;version=0.0.4"), Format::Prometheus),
            (Some("application/openmetrics-text; version=1.0.0; charset=utf-8;q=0.5,text/plain;q=0.3"), Format::OpenMetrics),
            (Some("application/openmetrics-text;q=0, text/plain"), Format::Prometheus),
            (Some("application/openmetrics-text;version=2.0.0"), Format::Prometheus),
        ] {
            assert_eq!(Format::of_accept(accept), want, "{accept:?}");
        }
    }
}
