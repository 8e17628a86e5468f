//! What no file can do: eat memory or time, crash, or hide its faults.

use std::time::{Duration, Instant};

use schemas::{Input, Loaded, Options, load};

fn loaded(name: &str, bytes: impl Into<Vec<u8>>) -> Loaded {
    load(vec![Input::new(name, bytes)], &Options::default())
}

fn codes(name: &str, bytes: impl Into<Vec<u8>>) -> Vec<String> {
    loaded(name, bytes).faults.iter().map(|fault| format!("{}:{}:{}", fault.line, fault.column, fault.code)).collect()
}

const API: &str = "kind: Plan\nname: a\n";

#[test]
fn aliases_expand_to_a_mebibyte_and_no_further() {
    let mut bomb = String::from("kind: Plan\nname: a\na: &a [x, x, x, x, x, x, x, x, x]\n");
    for (from, to) in ["ab", "bc", "cd", "de", "ef", "fg", "gh", "hi"].iter().map(|pair| pair.split_at(1)) {
        bomb += &format!("{to}: &{to} [*{from}, *{from}, *{from}, *{from}, *{from}, *{from}, *{from}, *{from}, *{from}]\n");
    }
    let start = Instant::now();
    assert!(codes("a.yaml", bomb)[0].ends_with(":too-many-aliases"));
    in_time(start, 2);
    assert!(codes("a.yaml", "kind: Plan\nname: &n a\nsummary: *n\n").is_empty());
    assert_eq!(codes("a.yaml", "kind: Plan\nname: a\nsummary: *n\n").len(), 1);
    assert_eq!(codes("a.yaml", "kind: Preset\nname: a\nplugins: &p [*p]\n")[0], "3:14:bad-alias");
}

#[test]
fn anchors_within_anchors_are_not_copied_over_and_over() {
    let items = "a,".repeat(100_000);
    let anchors: String = (0..60).map(|it| format!("&a{it} [")).collect();
    let text = format!("kind: Plan\nname: a\nx: {anchors}{items}{}\ny: *a0\n", "]".repeat(60));
    let start = Instant::now();
    assert!(codes("a.yaml", text)[0].ends_with(":too-many-aliases"));
    in_time(start, 10);
}

#[test]
fn many_faults_in_one_long_line_are_told_as_fast_as_in_many_lines() {
    let keys = |between: &str| (0..50_000).map(|it| format!("\"k\u{e9}{it}\":1")).collect::<Vec<_>>().join(between);
    let start = Instant::now();
    for (name, text) in [("a.json", format!("{{\"kind\":\"Plan\",{}}}", keys(","))), ("a.yaml", format!("{{kind: Plan, {}}}", keys(", ")))]
    {
        let faults = loaded(name, text).faults;
        let last = faults.iter().rev().find(|it| it.message.contains("49999")).expect("the last key is told");
        let excerpt = last.excerpt.as_ref().expect("a part of the line");
        assert_eq!(excerpt.text.chars().nth((last.column - excerpt.column) as usize + 1), Some('k'), "{last:?}");
        assert_eq!(excerpt.cut, (true, false));
    }
    in_time(start, 20);
}

#[test]
fn keys_that_stand_twice_take_time_that_grows_with_the_file_alone() {
    let text =
        format!("kind: Plan\nname: a\n{}{}", "x: 1\n".repeat(30_000), (0..30_000).map(|it| format!("k{it}: 1\n")).collect::<String>());
    let start = Instant::now();
    let told = codes("a.yaml", text);
    assert_eq!(told.iter().filter(|it| it.ends_with(":repeated-key")).count(), 29_999);
    in_time(start, 20);
}

#[test]
fn merge_keys_give_way_to_keys_that_are_written() {
    let text = "kind: Upstream\nname: a\nnodes: [{address: a}]\nhealth:\n  active: &a {path: /h, interval: 1s, timeout: 2s}\npool: {max_idle: 1}\n---\n\
                kind: Upstream\nname: b\nnodes:\n  - &n {address: a, weight: 1}\n  - {<<: *n, weight: 2}\n  - {<<: [{weight: 3}, *n]}\n";
    let loaded = loaded("a.yaml", text);
    assert!(loaded.faults.is_empty(), "{:?}", loaded.faults);
    let schemas::Definition::Upstream(upstream) = &loaded.documents[1].message else { panic!("not an Upstream") };
    assert_eq!(upstream.nodes.iter().map(|node| node.weight.unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn documents_nest_to_a_limit() {
    let deep = |levels: usize| format!("kind: Preset\nname: a\nplugins: [{{p: {}{}}}]\n", "[".repeat(levels), "]".repeat(levels));
    assert!(codes("a.yaml", deep(50)).is_empty());
    assert_eq!(codes("a.yaml", deep(100)).len(), 1);
    assert!(codes("a.yaml", deep(100))[0].ends_with(":too-deep"));
    let start = Instant::now();
    assert!(codes("a.yaml", deep(1_000_000))[0].ends_with(":too-deep"));
    assert!(codes("a.json", "[".repeat(1_000_000))[0].ends_with(":too-deep"));
    in_time(start, 5);
}

#[test]
fn a_file_has_a_limit() {
    assert_eq!(codes("a.yaml", vec![b' '; (16 << 20) + 1]), ["0:0:too-large"]);
}

#[test]
fn a_byte_that_is_not_utf8_is_told_at_its_place() {
    assert_eq!(codes("a.yaml", b"kind: Plan\nname: \xff\n".to_vec()), ["2:7:bad-utf8"]);
    assert_eq!(codes("a.json", b"{\"kind\": \"\xe4\"}".to_vec()), ["1:11:bad-utf8"]);
}

#[test]
fn line_ends_of_windows_and_a_byte_order_mark_are_read() {
    let text = format!("\u{feff}{}", API.replace('\n', "\r\n"));
    assert!(codes("a.yaml", text.clone()).is_empty());
    assert_eq!(codes("a.yaml", text.replace("name", "nme")), ["2:1:unknown-key"]);
    assert!(codes("a.json", "\u{feff}{\"kind\": \"Plan\", \"name\": \"a\"}").is_empty());
}

#[test]
fn tabs_are_told_as_tabs() {
    assert_eq!(codes("a.yaml", "kind: Plan\nname: a\ninfo:\n\ta: b\n"), ["4:1:tab"]);
}

#[test]
fn a_broken_document_hides_no_other() {
    let loaded = loaded("a.yaml", "kind: Plan\nname: a\n---\nkind: [\n---\nkind: Plan\nname: b\n---\nkind: Plan\nnme: c\n");
    assert_eq!(loaded.documents.iter().map(|document| document.id.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let codes: Vec<_> = loaded.faults.iter().map(|fault| fault.code.as_ref()).collect();
    assert_eq!(codes, ["syntax", "unknown-key"]);
    assert_eq!(loaded.broken.len(), 2);
}

#[test]
fn documents_are_parted_as_yaml_parts_them() {
    let names = |text: &str| loaded("a.yaml", text).documents.iter().map(|document| document.id.name.clone()).collect::<Vec<_>>().join(",");
    assert_eq!(names("---\nkind: Plan\nname: a\n---\n# nothing\n---\nkind: Plan\nname: b\n...\n"), "a,b");
    assert_eq!(names("%YAML 1.2\n---\nkind: Plan\nname: a\n...\n# c\n---\nkind: Plan\nname: b\n"), "a,b");
    assert_eq!(names("kind: Plan\nname: a\nsummary: |\n  ---\n  x\n"), "a");
    assert_eq!(names("--- {kind: Plan, name: a}\n--- {kind: Plan, name: b}\n"), "a,b");
}

#[test]
fn no_pattern_takes_more_than_a_moment() {
    let patterns = [
        "a: ",
        "- ",
        "? ",
        "[",
        "{",
        "{a: ",
        "a\n",
        "a b ",
        "\"a\" ",
        "'",
        "\"",
        "|\n ",
        ">\n",
        "&a ",
        "*a ",
        "!!str ",
        "#\n",
        "# ",
        "\n",
        " ",
        "\t",
        "a: b\n",
        "- a\n",
        "---\n",
        "...\n",
        "%a\n",
        "a: |\n  b\n",
        "a: &a b\n",
        "k: [a, b]\n",
        "a,",
        "[a]: ",
        "\u{e9}",
        "\\",
        "<<: ",
        "a: {b: c}\n",
        "  - a\n",
    ];
    let mut slow = Vec::new();
    for pattern in patterns {
        for before in ["", "kind: Plan\nname: \"", "kind: Plan\nname: [", "kind: Plan\nname: "] {
            let text = format!("{before}{}", pattern.repeat((64 << 10) / pattern.len()));
            for name in ["a.yaml", "a.json"] {
                let start = Instant::now();
                let loaded = loaded(name, text.clone());
                drop(schemas::render::text(&loaded.faults, false));
                let _ = schemas::format::format(&Input::new(name, text.clone()));
                let took = start.elapsed();
                if took > Duration::from_secs(3) && took > Duration::from_secs(3).mul_f64(crowded()) {
                    slow.push(format!("{before:?} {pattern:?} {name} {took:?}"));
                }
            }
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

/// That no more than so many seconds went by, or as many times more as others take of the processor.
fn in_time(start: Instant, seconds: u64) {
    let (took, bound) = (start.elapsed(), Duration::from_secs(seconds));
    if took >= bound {
        let bound = bound.mul_f64(crowded());
        assert!(took < bound, "it took {took:?}, and must take less than {bound:?} on a machine as busy as this one");
    }
}

/// How many times longer work takes here than the processor works for it: 1 on an idle machine.
fn crowded() -> f64 {
    // Nanoseconds on a processor come first (Linux, Documentation/scheduler/sched-stats.rst).
    let used = || std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse::<f64>().ok();
    let (start, before) = (Instant::now(), used());
    let mut seed = 1;
    while start.elapsed() < Duration::from_millis(300) {
        for _ in 0..1000 {
            std::hint::black_box(next(&mut seed));
        }
    }
    match (before, used()) {
        (Some(before), Some(after)) if after > before => (start.elapsed().as_nanos() as f64 / (after - before)).max(1.0),
        _ => 1.0,
    }
}

/// A generator that needs no crate: the same bytes each time.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

#[test]
fn no_bytes_make_it_panic() {
    let seeds: Vec<Vec<u8>> = ["api.yaml", "pipeline.yaml", "rest.yaml"]
        .iter()
        .map(|name| std::fs::read(format!("{}/tests/examples/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap())
        .collect();
    let mut seed = 0x2545_f491_4f6c_dd1d;
    let bits: Vec<&[u8]> = vec![
        b"\n",
        b": ",
        b"- ",
        b"\"",
        b"'",
        b"|",
        b">",
        b"{",
        b"}",
        b"[",
        b"]",
        b"&a ",
        b"*a",
        b"<<: ",
        b"\t",
        b"\xff",
        b"---\n",
        b"#",
        "é".as_bytes(),
        b"!!str ",
        b"? ",
        b"\\u",
        b"\r",
        b"%",
    ];
    for round in 0..1500 {
        let mut bytes = match round % 4 {
            0 => (0..next(&mut seed) % 200).map(|_| next(&mut seed) as u8).collect(),
            1 => (0..next(&mut seed) % 60).flat_map(|_| bits[next(&mut seed) as usize % bits.len()].to_vec()).collect(),
            _ => seeds[round % seeds.len()].clone(),
        };
        for _ in 0..next(&mut seed) % 6 {
            let at = next(&mut seed) as usize % (bytes.len() + 1);
            let bit = bits[next(&mut seed) as usize % bits.len()];
            match next(&mut seed) % 3 {
                0 => drop(bytes.splice(at..at, bit.iter().copied())),
                1 => bytes.truncate(at),
                _ if at < bytes.len() => drop(bytes.remove(at)),
                _ => {}
            }
        }
        for name in ["a.yaml", "a.json", "a.binpb"] {
            let loaded = loaded(name, bytes.clone());
            schemas::render::text(&loaded.faults, true);
            for document in &loaded.documents {
                document.places.fault("/proxy/x", "c", "m");
            }
        }
        let input = Input::new("a.yaml", bytes.clone());
        if let Ok(laid) = schemas::format::format(&input) {
            let again = schemas::format::format(&Input::new("a.yaml", laid.clone()));
            assert_eq!(again.as_ref(), Ok(&laid), "{}", String::from_utf8_lossy(&bytes));
        }
    }
}
