//! The table against its list of cases, and against a matcher too simple to be wrong.
use std::collections::BTreeSet;

use contract::exchange::Captures;
use http::Method;

use super::{
    build::{Conflict, Entry, Reason},
    path,
    pattern::{Host, Pattern, Segment},
    table::{Ask, Found, Table},
};

type Answer = (String, Vec<String>);

fn entry(pattern: &str, value: usize) -> Entry<usize> {
    Entry { pattern: Pattern::parse(pattern).unwrap_or_else(|it| panic!("{pattern}: {it:?}")), has_when: false, order: 0.0, value }
}

fn answer(table: &Table<usize>, ask: &Ask<'_>, accept: impl FnMut(&usize, &[(u32, u32)]) -> bool) -> Answer {
    let mut captures = Captures::new();
    match table.find(ask, &mut captures, accept) {
        Found::Route { value, head_as_get, preflight } => {
            let spans = captures.iter().map(|(from, to)| ask.path[*from as usize..*to as usize].to_owned());
            let flags = format!("{}{}", if head_as_get { " as-get" } else { "" }, if preflight { " preflight" } else { "" });
            (format!("{value}{flags}"), spans.collect())
        }
        Found::MethodNotAllowed { allow } => (format!("405 {}", allow.to_str().unwrap()), Vec::new()),
        Found::NotFound => ("404".into(), Vec::new()),
        Found::BadPath(_) => ("400".into(), Vec::new()),
    }
}

#[test]
fn every_case_of_the_list_is_answered_as_it_says() {
    let mut ran = 0;
    for block in include_str!("table_cases.txt").split("\n== ").skip(1) {
        let (title, lines) = block.split_once('\n').unwrap();
        let mut entries = Vec::new();
        let mut passes = Vec::new();
        let mut asks = Vec::new();
        for line in lines.lines().filter(|it| !it.trim().is_empty()) {
            match line.strip_prefix("> ") {
                Some(ask) => asks.push(ask),
                None => {
                    let (pattern, options) = line.split_once(" | ").unwrap_or((line, ""));
                    let (number, pattern) = pattern.split_once(' ').unwrap();
                    assert_eq!(number, entries.len().to_string(), "{title}");
                    let mut it = entry(pattern, entries.len());
                    it.has_when = options.contains("when");
                    it.order = options.split_once("order ").map_or(0.0, |(_, order)| order.parse().unwrap());
                    passes.push(options.contains("when yes"));
                    entries.push(it);
                }
            }
        }
        let table = Table::build(entries).unwrap_or_else(|it| panic!("{title}: {it:?}"));
        for line in asks {
            let (ask, expected) = line.split_once(" => ").unwrap();
            let words: Vec<&str> = ask.split(' ').collect();
            let method = words[0].parse().unwrap();
            let preflight: Option<Method> = (words.len() > 3).then(|| words[4].parse().unwrap());
            let host = if words[1] == "-" { "" } else { words[1] };
            let ask = Ask { method: &method, preflight: preflight.as_ref(), host, path: words[2] };
            let (found, captures) = answer(&table, &ask, |value, _| passes[*value]);
            let (value, flags) = found.split_once(' ').unwrap_or((&found, ""));
            let captures = captures.join(",");
            let said: Vec<&str> = [value, &captures, flags].into_iter().filter(|it| !it.is_empty()).collect();
            assert_eq!(said.join(" "), expected, "{title}: {line}");
            ran += 1;
        }
    }
    assert!(ran > 130, "the list lost cases: {ran}");
}

#[test]
fn a_condition_is_asked_with_the_captures_of_its_own_pattern_and_only_where_there_is_one() {
    let mut entries = vec![entry("/a/{x}", 0), entry("/{y}/{z}", 1), entry("/{rest...}", 2)];
    entries[0].has_when = true;
    entries[1].has_when = true;
    let table = Table::build(entries).unwrap();
    let mut asked = Vec::new();
    let ask = Ask { method: &Method::GET, preflight: None, host: "", path: "/a/b" };
    let found = answer(&table, &ask, |value, captures| {
        asked.push((*value, captures.to_vec()));
        false
    });
    assert_eq!(found, ("2".into(), vec!["a/b".into()]));
    assert_eq!(asked, [(0, vec![(3, 4)]), (1, vec![(1, 2), (3, 4)])]);
}

#[test]
fn every_conflict_is_listed_with_both_entries() {
    let mut entries = vec![
        entry("GET /a/{x}", 0),
        entry("GET,POST /a/{y}", 1),
        entry("/a/{z}", 2),
        entry("POST h.org/b", 3),
        entry("POST H.org./%62", 4),
        entry("/c", 5),
        entry("/c", 6),
        entry("/c", 7),
        entry("/c", 8),
        entry("/a/{x...}", 9),
        entry("/c", 10),
        entry("PUT,POST /d", 11),
        entry("POST,PUT /d", 12),
    ];
    for (at, order) in [(5, 1.0), (6, 2.0), (7, 1.0), (8, 0.0)] {
        entries[at].has_when = true;
        entries[at].order = order;
    }
    let expected = [(0, 1, Reason::NoCondition), (3, 4, Reason::NoCondition), (5, 7, Reason::EqualOrder), (11, 12, Reason::NoCondition)];
    let found = Table::build(entries).unwrap_err();
    assert_eq!(found, expected.map(|(first, second, reason)| Conflict { first, second, reason }));
}

#[test]
fn a_table_of_nothing_answers_404() {
    let ask = Ask { method: &Method::GET, preflight: None, host: "a.b", path: "/a" };
    assert_eq!(answer(&Table::build(Vec::new()).unwrap(), &ask, |_, _| true).0, "404");
}

/// A table in which each segment fits a literal and a capture, and that has no answer: the worst that a search can meet.
#[test]
fn a_hostile_table_costs_a_lookup_no_more_than_its_own_size() {
    let levels = 12;
    let mut entries = Vec::new();
    for bits in 0..1usize << levels {
        let mut text = String::from("GET ");
        for level in 0..levels {
            text.push_str(if bits >> level & 1 == 1 { "/a" } else { "/{x" });
            if bits >> level & 1 == 0 {
                text.push_str(&format!("{level}}}"));
            }
        }
        let mut it = entry(&text, bits);
        it.has_when = true;
        entries.push(it);
    }
    let table = Table::build(entries).unwrap();
    let mut asked = 0;
    for (path, expected) in [("/a".repeat(levels), 1 << levels), ("/a".repeat(30_000), 0), ("/a".repeat(levels - 1) + "/", 0)] {
        asked = 0;
        let ask = Ask { method: &Method::GET, preflight: None, host: "", path: &path };
        let found = table.find(&ask, &mut Captures::new(), |_, _| {
            asked += 1;
            false
        });
        assert!(matches!(found, Found::NotFound));
        // Once to find it, once to see which methods are allowed.
        assert_eq!(asked, 2 * expected, "{}", path.len());
    }
    assert_eq!(asked, 0);
}

/// Many slashes, dots and labels cost time in proportion to their number, whatever the table.
#[test]
fn a_hostile_path_or_host_is_answered() {
    let table = Table::build(vec![entry("*.d/{a}/{b...}", 0), entry("/{a}/{b}/c", 1)]).unwrap();
    for (host, path) in [("a.".repeat(20_000) + "d", "/".repeat(60_000)), (".".repeat(9_000), "/a/%2F".repeat(9_000))] {
        let ask = Ask { method: &Method::GET, preflight: None, host: &host, path: &path };
        assert_eq!(answer(&table, &ask, |_, _| true).0, "404");
    }
}

// === The simple matcher ===

/// Which kind of segment a pattern has at each place; smaller is more specific.
fn shape(pattern: &Pattern) -> Vec<u8> {
    let kind = |it: &Segment| match it {
        Segment::Literal(_) => 0,
        Segment::Capture(_) => 1,
        Segment::Rest(_) => 2,
    };
    pattern.segments().iter().map(kind).collect()
}

fn host_fits(pattern: &Host, host: &str) -> Option<usize> {
    match pattern {
        Host::Exact(name) => (**name == *host).then_some(0),
        Host::Below(name) => host.ends_with(&format!(".{name}")).then(|| 1000 - name.len()),
        Host::Any => Some(1000),
    }
}

fn path_fits(pattern: &Pattern, path: &str) -> Option<Vec<String>> {
    let pieces: Vec<&str> = path[1..].split('/').collect();
    let mut captures = Vec::new();
    for (at, segment) in pattern.segments().iter().enumerate() {
        let piece = *pieces.get(at)?;
        match segment {
            Segment::Literal(plain) => {
                let mut decoded = Vec::new();
                path::decode(piece.as_bytes(), &mut decoded).ok()?;
                if decoded[..] != plain[..] {
                    return None;
                }
            }
            _ if piece.is_empty() => return None,
            Segment::Capture(_) => captures.push(piece.to_owned()),
            Segment::Rest(_) => {
                captures.push(pieces[at..].join("/"));
                return Some(captures);
            }
        }
    }
    (pattern.segments().len() == pieces.len()).then_some(captures)
}

fn naive(entries: &[Entry<usize>], ask: &Ask<'_>, passes: &[bool]) -> Answer {
    let mut fitting: Vec<_> = entries
        .iter()
        .filter(|it| !it.has_when || passes[it.value])
        .filter_map(|it| Some((host_fits(it.pattern.host(), ask.host)?, it, path_fits(&it.pattern, ask.path)?)))
        .collect();
    fitting.sort_by(|(host_a, a, _), (host_b, b, _)| {
        host_a
            .cmp(host_b)
            .then_with(|| shape(&a.pattern).cmp(&shape(&b.pattern)))
            .then_with(|| a.pattern.methods().is_empty().cmp(&b.pattern.methods().is_empty()))
            .then_with(|| b.has_when.cmp(&a.has_when))
            .then_with(|| a.order.total_cmp(&b.order))
    });
    let names = |method: &Method| fitting.iter().any(|(_, it, _)| it.pattern.methods().contains(method));
    let (mut method, mut flags) = (ask.method, "");
    if let Some(asked) = ask.preflight
        && *method == Method::OPTIONS
        && !names(&Method::OPTIONS)
    {
        (method, flags) = (asked, " preflight");
    }
    let head = *method == Method::HEAD && !names(&Method::HEAD);
    if head {
        method = &Method::GET;
    }
    let found = fitting.iter().find(|(_, it, _)| it.pattern.methods().is_empty() || it.pattern.methods().contains(method));
    if let Some((_, it, captures)) = found {
        let as_get = if head && !it.pattern.methods().is_empty() { " as-get" } else { "" };
        return (format!("{}{as_get}{flags}", it.value), captures.clone());
    }
    let mut allow: Vec<&str> = Vec::new();
    for method in ["GET", "HEAD", "POST", "OPTIONS", "PURGE"] {
        let known = |method: &str| fitting.iter().any(|(_, it, _)| it.pattern.methods().iter().any(|it| it.as_str() == method));
        if known(method) || (method == "HEAD" && known("GET")) {
            allow.push(method);
        }
    }
    if allow.is_empty() { ("404".into(), Vec::new()) } else { (format!("405 {}", allow.join(", ")), Vec::new()) }
}

fn clash(a: &Entry<usize>, b: &Entry<usize>) -> bool {
    let same = |a: &Segment, b: &Segment| match (a, b) {
        (Segment::Literal(a), Segment::Literal(b)) => a == b,
        (Segment::Capture(_), Segment::Capture(_)) | (Segment::Rest(_), Segment::Rest(_)) => true,
        _ => false,
    };
    let (m, n) = (a.pattern.methods(), b.pattern.methods());
    a.pattern.host() == b.pattern.host()
        && a.pattern.segments().len() == b.pattern.segments().len()
        && a.pattern.segments().iter().zip(b.pattern.segments()).all(|(a, b)| same(a, b))
        && (m.is_empty() && n.is_empty() || m.iter().any(|it| n.contains(it)))
        && a.has_when == b.has_when
        && (!a.has_when || a.order == b.order)
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn pattern(&mut self) -> String {
        let methods = self.one(&["", "", "GET ", "GET ", "POST ", "HEAD ", "OPTIONS ", "GET,POST ", "GET,PURGE ", "GET,HEAD "]);
        let host = self.one(&["", "", "", "d", "a.d", "b.a.d", "*.d", "*.a.d"]);
        let mut text = format!("{methods}{host}");
        let count = 1 + self.below(4);
        for at in 0..count {
            let last = at + 1 == count;
            text += &match self.below(if last { 9 } else { 6 }) {
                0 | 1 => "/a".to_owned(),
                2 => "/b".to_owned(),
                3 => "/%2F".to_owned(),
                4 | 5 => format!("/{{x{at}}}"),
                6 | 7 => "/{rest...}".to_owned(),
                _ => "/".to_owned(),
            };
        }
        text
    }

    fn path(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..1 + self.below(5) {
            text += self.one(&["/a", "/a", "/b", "/c", "/%61", "/%2f", "/", "/%2F%62"]);
        }
        text
    }
}

#[test]
fn the_table_answers_as_a_sorted_list_of_patterns_would() {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut seen = BTreeSet::new();
    for _ in 0..1_500 {
        let mut entries = Vec::new();
        for _ in 0..1 + dice.below(40) {
            let mut it = entry(&dice.pattern(), 0);
            it.has_when = dice.below(3) == 0;
            it.order = dice.below(6) as f64 - 2.0;
            entries.push(it);
        }
        let expected: BTreeSet<usize> = (0..entries.len()).filter(|at| entries[..*at].iter().any(|it| clash(it, &entries[*at]))).collect();
        let told: BTreeSet<usize> = match Table::build(entries.clone()) {
            Ok(_) => BTreeSet::new(),
            Err(conflicts) => {
                assert!(conflicts.iter().all(|it| it.first < it.second && clash(&entries[it.first], &entries[it.second])));
                conflicts.iter().map(|it| it.second).collect()
            }
        };
        assert_eq!(told, expected);

        let mut at = 0;
        entries.retain(|_| (!expected.contains(&at), at += 1).0);
        for (at, it) in entries.iter_mut().enumerate() {
            it.value = at;
        }
        let passes: Vec<bool> = entries.iter().map(|_| dice.below(2) == 0).collect();
        let table = Table::build(entries.clone()).unwrap();
        for _ in 0..60 {
            let method: Method =
                dice.one(&["GET", "GET", "POST", "HEAD", "OPTIONS", "OPTIONS", "PURGE", "DELETE", "BREW"]).parse().unwrap();
            let preflight: Option<Method> = (dice.below(2) == 0).then(|| dice.one(&["GET", "POST", "HEAD", "DELETE"]).parse().unwrap());
            let (host, path) = (dice.one(&["", "d", "a.d", "b.a.d", "c.b.a.d", "x.d", "e"]), dice.path());
            let ask = Ask { method: &method, preflight: preflight.as_ref(), host, path: &path };
            let found = answer(&table, &ask, |value, _| passes[*value]);
            let patterns = || entries.iter().map(|it| it.pattern.to_string()).collect::<Vec<_>>();
            assert_eq!(found, naive(&entries, &ask, &passes), "{ask:?} {:?} {passes:?}", patterns());
            seen.insert(found.0.split(' ').skip(1).collect::<Vec<_>>().join(" "));
        }
    }
    assert!(seen.len() > 10, "the tables are too tame: {seen:?}");
}
