//! Results as JUnit's XML, which every CI reads.
use std::sync::Arc;

use super::case::{Case, Ran};

/// One suite an Api.
pub fn write(cases: &[Arc<Case>], ran: &[Ran]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let failed = |it: &[&Ran]| it.iter().filter(|it| !it.faults.is_empty()).count();
    let all: Vec<&Ran> = ran.iter().collect();
    out.push_str(&format!("<testsuites name=\"allium\" tests=\"{}\" failures=\"{}\">\n", all.len(), failed(&all)));
    let mut names: Vec<&str> = cases.iter().map(|it| it.api.as_str()).collect();
    names.dedup();
    for name in names {
        let of_it: Vec<(&Arc<Case>, &Ran)> = cases.iter().zip(ran).filter(|(it, _)| it.api == name).collect();
        let ran: Vec<&Ran> = of_it.iter().map(|it| it.1).collect();
        out.push_str(&format!("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\">\n", escape(name), ran.len(), failed(&ran)));
        for (case, ran) in of_it {
            let head = format!(
                "    <testcase classname=\"{}\" name=\"{}\" file=\"{}\" line=\"{}\" time=\"{:.3}\"",
                escape(&case.api),
                escape(&case.name),
                escape(&case.file),
                case.line,
                ran.took.as_secs_f64()
            );
            out.push_str(&head);
            if ran.faults.is_empty() {
                out.push_str("/>\n");
                continue;
            }
            let told: Vec<String> = ran
                .faults
                .iter()
                .map(|it| match &it.expected {
                    Some(expected) => format!("{}: expected {expected}, got {}", it.at, it.got),
                    None => format!("{}: {}", it.at, it.got),
                })
                .collect();
            let first = told.first().map_or("", String::as_str);
            out.push_str(&format!(
                ">\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n",
                escape(first),
                escape(&told.join("\n"))
            ));
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

/// As XML takes it: what it cannot hold at all becomes U+FFFD.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            it if it.is_control() || matches!(it, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            it => out.push(it),
        }
    }
    out
}
