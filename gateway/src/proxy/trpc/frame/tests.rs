//! Against what a real client and a real server of trpc-go said to each other, recorded between them.
use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::*;

fn recorded(case: &str) -> (Vec<Bytes>, Vec<Bytes>) {
    let all: Value = serde_json::from_str(include_str!("recorded.json")).expect("the recording");
    let frames = all["cases"][case].as_array().unwrap_or_else(|| panic!("{case}"));
    let of = |direction: &str| {
        let own = frames.iter().filter(|it| it["dir"] == direction);
        own.map(|it| {
            let hex = it["hex"].as_str().expect("hex");
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect::<Vec<u8>>().into()
        })
        .collect()
    };
    (of("c2s"), of("s2c"))
}

const UNARY: &[&str] = &[
    "empty",
    "pb",
    "json",
    "gzip",
    "snappy",
    "zlib",
    "biz_error",
    "frame_error",
    "plain_error",
    "panic",
    "timeout",
    "metadata",
    "dyeing",
    "attachment",
    "oneway",
    "nofunc",
    "big_response",
];

/// Fields of a head: whole numbers, and bytes.
type Wholes = Vec<(u64, u64)>;
type Texts<'a> = Vec<(u64, &'a [u8])>;

/// A recorded call, read apart: what it says, so that it can be written again.
fn parts(frame: &[u8]) -> (Wholes, Texts<'_>, &[u8]) {
    let end = FIXED + usize::from(u16::from_be_bytes([frame[8], frame[9]]));
    let mut head = &frame[FIXED..end];
    let (mut wholes, mut texts) = (Vec::new(), Vec::new());
    while !head.is_empty() {
        match field(&mut head).expect("a field") {
            (number, Field::Whole(it)) => wholes.push((number, it)),
            (number, Field::Bytes(it)) => texts.push((number, it)),
            _ => panic!("no such field in a call"),
        }
    }
    (wholes, texts, &frame[end..])
}

#[test]
fn calls_are_written_byte_for_byte_as_they_were_recorded() {
    for case in UNARY {
        for frame in recorded(case).0 {
            let (wholes, texts, rest) = parts(&frame);
            let whole = |number: u64| wholes.iter().find(|it| it.0 == number).map_or(0, |it| it.1 as u32);
            let text = |number: u64| texts.iter().find(|it| it.0 == number).map_or("", |it| std::str::from_utf8(it.1).expect("text"));
            let entries = texts.iter().filter(|it| it.0 == 9).map(|(_, entry)| {
                let mut entry = *entry;
                let (mut name, mut value) = ("", &[][..]);
                while !entry.is_empty() {
                    match field(&mut entry).expect("a field") {
                        (1, Field::Bytes(it)) => name = std::str::from_utf8(it).expect("text"),
                        (2, Field::Bytes(it)) => value = it,
                        _ => panic!("no such field in a map"),
                    }
                }
                (name, value)
            });
            let (body, attachment) = rest.split_at(rest.len() - whole(12) as usize);
            let call = Call {
                request_id: whole(3),
                call_type: whole(2),
                timeout_ms: whole(4),
                caller: text(5),
                callee: text(6),
                func: text(7),
                message_type: whole(8),
                trans_info: entries.collect(),
                content_type: whole(10),
                content_encoding: whole(11),
                attachment,
                body,
            };
            let mut out = BytesMut::new();
            call.write(&mut out).expect("a frame");
            assert_eq!(out, frame, "{case}");
            assert_eq!(length(&out), Ok(Some(frame.len())), "{case}");
        }
    }
}

#[test]
fn answers_are_read_as_they_were_recorded() {
    for (case, id, ret, func_ret, message) in [
        ("empty", 1, 0, 0, ""),
        ("pb", 2, 0, 0, ""),
        ("json", 3, 0, 0, ""),
        ("biz_error", 7, 0, 10001, "business failure"),
        ("frame_error", 8, 41, 0, "auth failed"),
        ("plain_error", 9, 0, 999, "plain go error"),
        ("nofunc", 16, 12, 0, "service handle: rpc name "),
        ("big_response", 17, 2, 0, "frame len is larger than "),
    ] {
        let (_, answers) = recorded(case);
        let it = read(answers[0].clone()).expect(case).expect("an answer");
        assert_eq!((it.request_id, it.ret, it.func_ret), (id, ret, func_ret), "{case}");
        assert!(it.error_msg.starts_with(message.as_bytes()), "{case}: {:?}", it.error_msg);
    }
    let json = read(recorded("json").1[0].clone()).expect("a frame").expect("an answer");
    assert_eq!(json.content_type, JSON);
    let body: Value = serde_json::from_slice(&json.body).expect("JSON");
    assert!(body["payload"]["body"].is_string(), "{body}");
    let beside = read(recorded("metadata").1[0].clone()).expect("a frame").expect("an answer");
    assert!(beside.trans_info.iter().any(|(name, value)| name == "app-user" && &value[..] == b"u1"), "{beside:?}");
    let attached = read(recorded("attachment").1[0].clone()).expect("a frame").expect("an answer");
    assert!(!attached.attachment.is_empty() && !attached.body.is_empty(), "{attached:?}");
}

#[test]
fn compressed_bodies_are_read_and_ours_are_read_back() {
    use std::io::Write;
    for case in ["gzip", "snappy", "zlib"] {
        let (calls, answers) = recorded(case);
        let it = read(answers[0].clone()).expect(case).expect("an answer");
        assert_ne!(it.content_encoding, 0, "{case}");
        let plain = decompress(it.content_encoding, it.body.clone()).unwrap_or_else(|why| panic!("{case}: {why}"));
        assert!(plain.len() > 4, "{case}: {plain:?}");
        let (wholes, _, body) = parts(&calls[0]);
        let encoding = wholes.iter().find(|it| it.0 == 11).expect("an encoding").1 as u32;
        let asked = decompress(encoding, Bytes::copy_from_slice(body)).unwrap_or_else(|why| panic!("{case}: {why}"));
        assert_eq!(&asked[..3], &[8, 2, 16], "{case}: the request is the usual one");
    }
    let text = b"hello hello hello hello".repeat(50);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&text).expect("memory");
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    zlib.write_all(&text).expect("memory");
    let mut stream = snap::write::FrameEncoder::new(Vec::new());
    stream.write_all(&text).expect("memory");
    let block = snap::raw::Encoder::new().compress_vec(&text).expect("memory");
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(&text).expect("memory");
    let stream = stream.into_inner().expect("memory");
    for (encoding, body) in [
        (0, text.clone()),
        (1, gzip.finish().expect("memory")),
        (2, stream.clone()),
        (2, block.clone()),
        (3, zlib.finish().expect("memory")),
        (4, stream),
        (5, block),
        (6, lz4.finish().expect("memory")),
    ] {
        assert_eq!(decompress(encoding, body.into()).as_deref(), Ok(&text[..]), "{encoding}");
    }
    for encoding in [1, 2, 3, 4, 5, 6, 7, 99] {
        assert!(decompress(encoding, Bytes::from_static(b"not this")).is_err(), "{encoding}");
    }
}

#[test]
fn what_is_no_frame_is_told() {
    let good = recorded("json").1[0].clone();
    let with = |at: usize, bytes: &[u8]| {
        let mut it = good.to_vec();
        it[at..at + bytes.len()].copy_from_slice(bytes);
        it
    };
    assert_eq!(length(&good[..15]), Ok(None));
    assert!(length(&with(0, &[9, 0x31])).is_err());
    assert!(length(&with(4, &15u32.to_be_bytes())).is_err());
    assert!(length(&with(4, &(MAX_FRAME as u32 + 1).to_be_bytes())).is_err());
    assert!(read(with(8, &u16::MAX.to_be_bytes()).into()).is_err());
    assert!(read(with(FIXED, &[0xff, 0xff]).into()).is_err());
    assert_eq!(read(with(2, &[1]).into()), Ok(None), "a frame of a stream is nobody's answer");
    // Never a panic, whatever is cut off or changed.
    for at in 0..good.len() {
        let _ = read(good.slice(..at));
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let _ = read(with(at, &[byte]).into());
        }
    }
}
