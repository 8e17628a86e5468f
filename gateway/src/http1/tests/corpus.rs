//! Hostile requests from a table, whole and byte by byte, and random changes to them.
use super::*;

const HOSTILE: &str = include_str!("hostile.txt");

/// The cases of the table: line number, expected statuses, bytes.
fn cases() -> Vec<(usize, Vec<u16>, Vec<u8>)> {
    let lines = HOSTILE.lines().enumerate().filter(|(_, it)| !it.is_empty() && !it.starts_with('#'));
    lines
        .map(|(at, line)| {
            let (statuses, wire) = line.split_once(' ').unwrap();
            let statuses = statuses.split(',').filter_map(|it| it.parse().ok()).collect();
            (at + 1, statuses, plain(wire))
        })
        .collect()
}

fn plain(text: &str) -> Vec<u8> {
    let (mut rest, mut out) = (text.as_bytes(), Vec::new());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let (escape, after) = rest.split_first().unwrap();
        rest = after;
        match escape {
            b'r' => out.push(b'\r'),
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'0' => out.push(0),
            b'\\' => out.push(b'\\'),
            b'x' => {
                out.push(u8::from_str_radix(str::from_utf8(&rest[..2]).unwrap(), 16).unwrap());
                rest = &rest[2..];
            }
            b'{' => {
                let end = rest.iter().position(|it| *it == b'}').unwrap();
                let times: usize = str::from_utf8(&rest[2..end]).unwrap().parse().unwrap();
                out.extend(std::iter::repeat_n(rest[0], times));
                rest = &rest[end + 1..];
            }
            it => panic!("unknown escape {it}"),
        }
    }
    out
}

/// Sends the bytes in pieces and gives what came back, and which requests the handler saw.
async fn exchange(wire: &[u8], cut: usize) -> (String, Vec<String>) {
    talk_with(Limits::default(), if cut == 1 { 1 } else { 64 << 10 }, async |it| {
        let (mut from, mut to) = tokio::io::split(std::mem::replace(&mut it.io, duplex(1).0));
        let writing = async {
            for piece in wire.chunks(cut) {
                if to.write_all(piece).await.is_err() {
                    return;
                }
            }
        };
        let mut got = Vec::new();
        let (_, read) = tokio::join!(writing, from.read_to_end(&mut got));
        read.unwrap();
        drop((from, to));
        (&mut it.server).await.expect("the connection must not panic");
        (String::from_utf8_lossy(&got).into_owned(), it.paths.seen.borrow().clone())
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn hostile_requests_get_the_answer_of_the_table_however_they_arrive() {
    let mut wrong = Vec::new();
    for (line, want, wire) in cases() {
        for cut in [usize::MAX, 1, 3] {
            if cut < 9 && wire.len() > 100_000 {
                continue;
            }
            let (got, seen) = exchange(&wire, cut).await;
            let all = answers(&got, false);
            let statuses: Vec<u16> = all.iter().map(|it| it.0).collect();
            if statuses != want {
                wrong.push(format!("line {line} by {cut}: wanted {want:?}, got {statuses:?}"));
            }
            if seen.iter().any(|it| it.contains("smuggled")) {
                wrong.push(format!("line {line} by {cut}: a smuggled request was served"));
            }
            if let Some((status, head, _)) = all.last()
                && *status >= 400
                && !head.contains("connection: close")
            {
                wrong.push(format!("line {line} by {cut}: the connection goes on after {status}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn random_changes_never_panic_and_read_the_same_however_they_arrive() {
    let all: Vec<Vec<u8>> = cases().into_iter().map(|it| it.2).filter(|it| it.len() < 400).collect();
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    for _ in 0..3000 {
        let mut wire = all[random(all.len())].clone();
        for _ in 0..1 + random(3) {
            let at = random(wire.len());
            match random(4) {
                0 => wire[at] = b"\r\n \t:;,\0\x800aX/*#"[random(15)],
                1 => wire.insert(at, b"\r\n \t:;,\0\x800aX/*#"[random(15)]),
                2 => drop(wire.remove(at)),
                _ => {
                    let other = &all[random(all.len())];
                    wire.truncate(at);
                    wire.extend_from_slice(&other[random(other.len())..]);
                }
            }
            if wire.is_empty() {
                wire.push(b'x');
            }
        }
        let (whole, seen) = exchange(&wire, usize::MAX).await;
        let cut = 1 + random(5);
        let (pieces, seen_too) = exchange(&wire, cut).await;
        assert_eq!((undated(&whole), seen), (undated(&pieces), seen_too), "{:?} by {cut}", String::from_utf8_lossy(&wire));
        assert!(!whole.contains("HTTP/1.1 500 "));
    }
}

/// All that came back but the time of day.
fn undated(wire: &str) -> String {
    wire.split_inclusive("\r\n").filter(|it| !it.starts_with("date: ")).collect()
}
