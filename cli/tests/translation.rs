//! `run` with languages: a tiny model that translates, and the options that say between which languages.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::tallow;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests").join(path)
}

/// A folder with the model of a case in it, as `m.model`.
fn model(case: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (from, into) = (repository("translation").join(case), dir.path().join("m"));
    std::fs::create_dir(&into).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), into.join(entry.file_name())).unwrap();
    }
    tallow(dir.path(), &["import", "m", "-o", "m.model"]).fine();
    dir
}

#[test]
fn languages_are_chosen_by_options() {
    let expected = std::fs::read_to_string(repository("translation/m2m_100/expected.json")).unwrap();
    let expected: Vec<Json> = serde_json::from_str(&expected).unwrap();
    let folder = model("m2m_100");
    for entry in expected.iter().step_by(4) {
        let (source, target) = (entry["source"].as_str().unwrap(), entry["target"].as_str().unwrap());
        let text = entry["text"].as_str().unwrap();
        let run =
            ["run", "m.model", text, "--max-tokens", "14", "--source-language", source, "--target-language", target];
        let greedy = tallow(folder.path(), &[&run[..], &["--json"]].concat()).json();
        assert_eq!((&greedy["ids"], &greedy["text"]), (&entry["greedy"][0], &entry["greedy"][1]));
        let searched = tallow(folder.path(), &[&run[..], &["--beams", "3", "--json"]].concat()).json();
        assert_eq!((&searched["ids"], &searched["text"]), (&entry["search"][0], &entry["search"][1]));
    }
}

#[test]
fn languages_that_are_missing_unknown_or_idle_are_refused() {
    let folder = model("m2m_100");
    let refused = |more: &[&str]| tallow(folder.path(), &[&["run", "m.model"], more].concat()).fails(2);
    assert!(refused(&["Hello"]).contains("give `--source-language CODE`, one of af, am"));
    assert!(refused(&["Hello", "--source-language", "en"]).contains("give `--target-language CODE`"));
    let unknown = ["Hello", "--source-language", "en", "--target-language", "tlh"];
    assert!(refused(&unknown).contains("there is no language `tlh`"));
    assert!(refused(&["--input", "input_ids=1", "--target-language", "ro"]).contains("cannot be used"));
    let folder = model("marian");
    let ran = tallow(folder.path(), &["run", "m.model", "Hello", "--target-language", "ro"]).fails(2);
    assert!(ran.contains("it has no languages to choose from; leave `--target-language` out"), "{ran}");
    assert!(!tallow(folder.path(), &["run", "m.model", "Hello"]).fine().is_empty());
}
