//! Tokenizers from the files that models bring to ids: against those of the `tokenizers` library in its Python form
//! (`expected.json`), and against the library itself on random texts.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::folder;
use common::tokenizers::{ids, of_model};
use proptest::prelude::*;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tallow::executor::tokenizer::{EncodeOptions, Tokenizer};
use tallow::import::gguf::GgufFile;
use tallow::import::tokenizer::TokenizerText;

const CASES: [&str; 9] = [
    "bpe-clip",
    "bpe-first",
    "bpe-roberta",
    "unigram-siglip",
    "unigram-t5",
    "unigram-xlmr",
    "wordpiece-cased",
    "wordpiece-uncased",
    "wordpiece-vocab-txt",
];

fn at(case: &str) -> PathBuf {
    folder("tests/tokenizers").join(case)
}

fn ours(case: &str) -> Tokenizer {
    tokenizer_of(&at(case))
}

/// The tokenizer of a folder as a `.model` holds it.
fn tokenizer_of(folder: &Path) -> Tokenizer {
    of_model(&tallow::import::tokenizer::json::read(folder).unwrap().unwrap(), folder)
}

fn expected(case: &str) -> Json {
    serde_json::from_str(&std::fs::read_to_string(at(case).join("expected.json")).unwrap()).unwrap()
}

fn entries<'a>(expected: &'a Json, key: &str) -> &'a Vec<Json> {
    let entries = expected[key].as_array().unwrap();
    assert!(!entries.is_empty(), "{key}");
    entries
}

#[test]
fn every_folder_is_a_case() {
    let mut found: Vec<String> = std::fs::read_dir(folder("tests/tokenizers"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, CASES);
}

#[test]
fn awkward_texts_have_the_ids_of_the_reference() {
    for case in CASES {
        let (tokenizer, expected) = (ours(case), expected(case));
        for entry in entries(&expected, "texts") {
            let text = entry[0].as_str().unwrap();
            assert_eq!(tokenizer.encode(text, EncodeOptions::default()).unwrap(), ids(&entry[1]), "{case}: {text:?}");
        }
        let bare = EncodeOptions { add_special: false, parse_special: false };
        let (text, wanted) = (expected["bare"][0].as_str().unwrap(), ids(&expected["bare"][1]));
        let got = tokenizer.encode(text, bare).unwrap();
        let unknown = |id: u32| matches!(tokenizer.token_text(id), Some("<unk>" | "[UNK]"));
        let markup = |id: &u32| tokenizer.is_special(*id) && !unknown(*id);
        assert!(!got.iter().any(markup), "{case}: {text:?} is text alone, {got:?}");
        // In a Unigram model the texts of special tokens are words for the library, and not here.
        if !case.starts_with("unigram") {
            assert_eq!(got, wanted, "{case}: {text:?}");
        }
    }
}

/// Folders of tokenizers, and GGUF files that hold the same.
const IN_GGUF: [(&str, &str); 9] = [
    ("goldens-encoder/bert-gguf", "model.gguf"),
    ("goldens-encoder/bert-gguf-cased", "model.gguf"),
    ("goldens-encoder/distilbert-gguf", "model.gguf"),
    ("goldens-encoder/nomic_bert-gguf", "model.gguf"),
    ("goldens-encoder/xlm-roberta-gguf", "model.gguf"),
    ("goldens-seq2seq/mt5-gguf", "model.gguf"),
    ("goldens-seq2seq/t5-gguf", "model.gguf"),
    ("goldens-seq2seq/t5-gguf-gated", "model.gguf"),
    ("goldens/gguf/gemma4-tokenizer", "../gemma4-shared.gguf"),
];

#[test]
fn a_gguf_file_gives_the_ids_of_its_folder() {
    for (case, file) in IN_GGUF {
        let folder = folder("tests").join(case);
        let path = folder.join(file);
        let gguf = tallow::import::tokenizer::gguf::read(&GgufFile::open(&path).unwrap()).unwrap().unwrap();
        let own = tallow::import::tokenizer::json::read(&folder).unwrap().unwrap();
        let setting =
            |of: &TokenizerText, key: &str| of.settings.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
        for key in ["template", "pair_template", "mask_token", "unk_token", "add_bos", "add_eos"] {
            assert_eq!(setting(&gguf, key), setting(&own, key), "{case}: {key}");
        }
        let ids_of = |of: &TokenizerText| (of.ids.eos.first().copied(), of.ids.pad, of.ids.unk);
        assert_eq!(ids_of(&gguf), ids_of(&own), "{case}");
        let text = std::fs::read_to_string(folder.join("expected.json")).unwrap();
        let expected: Json = serde_json::from_str(&text).unwrap();
        for (source, read) in [("GGUF", gguf), ("folder", own)] {
            let tokenizer = of_model(&read, &path);
            for entry in entries(&expected, "texts") {
                let text = entry[0].as_str().unwrap();
                let found = tokenizer.encode(text, EncodeOptions::default()).unwrap();
                assert_eq!(found, ids(&entry[1]), "{case}, {source}: {text:?}");
            }
            // Text goes on behind a prompt, so that a decoder's tokenizer has no word on pairs.
            let pairs = setting(&read, "pair_template").map(|_| entries(&expected, "pairs"));
            for entry in pairs.into_iter().flatten() {
                let made = tokenizer.encode_pair(entry[0].as_str().unwrap(), entry[1].as_str().unwrap(), None).unwrap();
                assert_eq!((made.ids, made.types), (ids(&entry[2]), ids(&entry[3])), "{case}, {source}: {entry}");
            }
        }
    }
}

#[test]
fn pairs_and_lengths_follow_the_templates() {
    for case in CASES {
        let (tokenizer, expected) = (ours(case), expected(case));
        // Text goes on behind a prompt, so that such a tokenizer has no word on pairs.
        if case == "bpe-first" {
            assert!(tokenizer.encode_pair("a", "b", None).unwrap_err().to_string().contains("pair_template"));
            continue;
        }
        for entry in entries(&expected, "pairs") {
            let made = tokenizer.encode_pair(entry[0].as_str().unwrap(), entry[1].as_str().unwrap(), None).unwrap();
            assert_eq!((made.ids, made.types, made.cut), (ids(&entry[2]), ids(&entry[3]), 0), "{case}: {entry}");
        }
        for entry in entries(&expected, "cut") {
            let (text, limit) = (entry[0].as_str().unwrap(), entry[2].as_u64().map(|n| n as usize));
            let made = match entry[1].as_str() {
                Some(second) => tokenizer.encode_pair(text, second, limit).unwrap(),
                None => tokenizer.encode_within(text, limit).unwrap(),
            };
            let cut = entry[4].as_u64().unwrap() as usize;
            assert_eq!((made.ids.len(), made.cut), (limit.unwrap().min(made.ids.len()), cut), "{case}: {entry}");
            assert_eq!((made.ids, cut > 0), (ids(&entry[3]), made.cut > 0), "{case}: {entry}");
        }
    }
}

#[test]
fn ids_decode_to_the_text_of_the_reference() {
    for case in CASES {
        let (tokenizer, expected) = (ours(case), expected(case));
        for (entry, text) in entries(&expected, "texts").iter().zip(entries(&expected, "decoded")) {
            assert_eq!(tokenizer.decode(&ids(&entry[1]), true), text.as_str().unwrap(), "{case}: {entry}");
        }
    }
}

#[test]
fn settings_of_the_files_are_taken_over() {
    let length = |case| ours(case).max_length();
    assert_eq!(length("wordpiece-uncased"), Some(64));
    assert_eq!(length("wordpiece-cased"), None, "10^30 is no length");
    assert_eq!(length("wordpiece-vocab-txt"), Some(32));
    let mask = |case| ours(case).mask().map(|id| ours(case).token_text(id).unwrap().to_owned());
    assert_eq!(mask("wordpiece-vocab-txt").as_deref(), Some("[MASK]"));
    assert_eq!(mask("bpe-roberta").as_deref(), Some("<mask>"));
    assert_eq!(mask("unigram-t5"), None);
    assert_eq!(ours("unigram-xlmr").bos(), Some(0));
}

#[test]
fn real_tokenizers_agree_with_the_library() {
    let models = std::env::var_os("TALLOW_REAL_MODELS").map_or_else(|| folder("models/real"), PathBuf::from);
    let entries = std::fs::read_dir(&models).into_iter().flatten().map(|entry| entry.unwrap().path());
    let folders: Vec<PathBuf> = entries.filter(|path| path.join("tokenizer.json").exists()).collect();
    if folders.is_empty() {
        eprintln!("skipped: no folder with a tokenizer.json in {}", models.display());
    }
    for folder in folders {
        let ours = tokenizer_of(&folder);
        let mut theirs = tokenizers::Tokenizer::from_file(folder.join("tokenizer.json")).unwrap();
        theirs.with_padding(None);
        theirs.with_truncation(None).unwrap();
        for entry in entries_of(CASES[0]) {
            let wanted = theirs.encode(entry.as_str(), true).unwrap().get_ids().to_vec();
            assert_eq!(
                ours.encode(&entry, EncodeOptions::default()).unwrap(),
                wanted,
                "{}: {entry:?}",
                folder.display()
            );
        }
        println!("{}: as the library", folder.display());
    }
}

/// The awkward texts of a case.
fn entries_of(case: &str) -> Vec<String> {
    entries(&expected(case), "texts").iter().map(|entry| entry[0].as_str().unwrap().to_owned()).collect()
}

/// Both tokenizers of every case that has a `tokenizer.json`.
fn both() -> &'static [(&'static str, Tokenizer, tokenizers::Tokenizer)] {
    static BOTH: OnceLock<Vec<(&'static str, Tokenizer, tokenizers::Tokenizer)>> = OnceLock::new();
    BOTH.get_or_init(|| {
        let cases = CASES.into_iter().filter(|case| at(case).join("tokenizer.json").exists());
        cases
            .map(|case| (case, ours(case), tokenizers::Tokenizer::from_file(at(case).join("tokenizer.json")).unwrap()))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_texts_have_the_ids_of_the_library(
        text in any::<String>(),
        spaced in "[ \\t\\na-dä\u{301}ﬁ日😀▁<>s/\\[\\]MASK.,'-]{0,40}",
        words in "([a-zA-Z]{1,12}|<mask>|\\[MASK\\]|</s>|  | ){0,12}",
    ) {
        for (case, ours, theirs) in both() {
            for text in [&text, &spaced, &words] {
                let wanted = theirs.encode(text.as_str(), true).unwrap().get_ids().to_vec();
                prop_assert_eq!(ours.encode(text, EncodeOptions::default()).unwrap(), wanted, "{}: {:?}", case, text);
            }
        }
    }
}
