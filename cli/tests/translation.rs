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

#[test]
fn ids_of_a_source_need_no_tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    let golden = repository("goldens-seq2seq/bart-summary");
    let source = golden.display().to_string();
    tallow(folder.path(), &["import", &source, "-o", "m.model", "--encoding", "u32"]).fine();
    let ids = |name: &str| -> Vec<i64> {
        tallow::tensor_file::read(&golden.join("golden.safetensors"), name).unwrap().to_vec1().unwrap()
    };
    let joined = |ids: &[i64], by: &str| ids.iter().map(i64::to_string).collect::<Vec<_>>().join(by);
    for n in 0..3 {
        let source = ids(&format!("source.{n}"));
        let input = format!("input_ids={}", joined(&source, ","));
        let run = |more: &[&str]| tallow(folder.path(), &[&["run", "m.model", "--input", &input], more].concat());
        // The first is what every text begins with.
        let (greedy, searched) = (&ids(&format!("greedy.{n}"))[1..], &ids(&format!("search.{n}"))[1..]);
        assert_eq!(run(&["--beams", "1"]).fine(), format!("{}\n", joined(greedy, " ")));
        assert_eq!(run(&[]).fine(), format!("{}\n", joined(searched, " ")));
        assert_eq!(run(&["--json"]).json()["ids"], serde_json::json!(searched));
        let json = run(&["--json", "--beams", "1"]).json();
        assert_eq!((&json["ids"], &json["text"]), (&serde_json::json!(greedy), &joined(greedy, " ").into()));
        // The source counts, and not what the text begins with.
        assert_eq!(json["prompt_tokens"], source.len());
        assert!(json["prefill_seconds"].as_f64().unwrap() > 0.0, "{json}");
        // The last token is the one that is forced.
        let cut = run(&["--beams", "1", "--max-tokens", "2", "--json"]).json();
        assert_eq!((&cut["ids"], &cut["ended"]), (&serde_json::json!([0, 2]), &"length".into()));
    }
    let refused = tallow(folder.path(), &["run", "m.model", "Hello"]).fails(3);
    assert!(refused.contains("it has no tokenizer, so give it ids instead of text"), "{refused}");
}
