//! Tokenizers from other files than `tokenizer.json`: SentencePiece models, `vocab.json` with `merges.txt`, against what
//! `transformers` makes of them (`expected.json`); and such files that are damaged.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::folder;
use common::tokenizers::{ids, of_model};
use serde_json::Value as Json;
use std::path::PathBuf;
use tallow::executor::stream::TextStream;
use tallow::executor::tokenizer::{EncodeOptions, Tokenizer};
use tallow::import::tokenizer::json::read;

const CASES: [&str; 4] = ["m2m_100", "m2m_100-bpe", "marian", "marian-bpe"];

fn at(case: &str) -> PathBuf {
    folder("tests/tokenizer-files").join(case)
}

fn ours(case: &str) -> Tokenizer {
    of_model(&read(&at(case)).unwrap().unwrap(), &at(case))
}

fn expected(case: &str) -> Json {
    serde_json::from_str(&std::fs::read_to_string(at(case).join("expected.json")).unwrap()).unwrap()
}

#[test]
fn every_folder_is_a_case() {
    let entries = std::fs::read_dir(folder("tests/tokenizer-files")).unwrap();
    let mut found: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found, CASES);
}

#[test]
fn awkward_texts_have_the_ids_of_the_reference() {
    let mut faults = Vec::new();
    for case in CASES {
        let (tokenizer, expected) = (ours(case), expected(case));
        let mut judge = |what: String, found: Vec<u32>, wanted: Vec<u32>| {
            if found != wanted {
                faults.push(format!("{case}: {what}: {found:?}, expected {wanted:?}"));
            }
        };
        for entry in expected["texts"].as_array().unwrap() {
            let text = entry[0].as_str().unwrap();
            judge(format!("{text:?}"), tokenizer.encode(text, EncodeOptions::default()).unwrap(), ids(&entry[1]));
        }
        for entry in expected["pairs"].as_array().unwrap() {
            let (a, b) = (entry[0].as_str().unwrap(), entry[1].as_str().unwrap());
            judge(format!("{a:?} {b:?}"), tokenizer.encode_pair(a, b, None).unwrap().ids, ids(&entry[2]));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn ids_decode_to_the_text_of_the_reference() {
    let mut faults = Vec::new();
    for case in CASES {
        let (tokenizer, expected) = (ours(case), expected(case));
        let texts = expected["texts"].as_array().unwrap().iter().zip(expected["decoded"].as_array().unwrap());
        for (entry, wanted) in texts {
            let (ids, wanted) = (ids(&entry[1]), wanted.as_str().unwrap());
            let found = tokenizer.decode(&ids, true);
            if found != wanted {
                faults.push(format!("{case}: {:?} gives {found:?}, expected {wanted:?}", entry[0]));
            }
            let mut stream = TextStream::from_start(true);
            let mut streamed: String = ids.iter().map(|id| stream.push(&tokenizer, *id)).collect();
            streamed += &stream.finish();
            assert_eq!(streamed, found, "{case}: piece by piece");
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
