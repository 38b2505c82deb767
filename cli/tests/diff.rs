//! `diff` as a user runs it, on the graphs of the folder `diff` and on models.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::*;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diff").join(name)
}

/// A folder with `tiny.model` and the committed graphs.
fn folder() -> TempDir {
    let (folder, _) = tiny();
    for name in ["old.txt", "new.txt", "renamed.txt"] {
        std::fs::copy(file(name), folder.path().join(name)).unwrap();
    }
    folder
}

#[test]
fn graphs_are_equal_or_differ() {
    let folder = folder();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let different = run(&["diff", "old.txt", "new.txt"]);
    assert_eq!((different.code, different.stderr.as_str()), (1, ""));
    assert_eq!(different.text(), std::fs::read_to_string(file("expected.txt")).unwrap());
    for (a, b) in [("old.txt", "old.txt"), ("old.txt", "renamed.txt"), ("renamed.txt", "old.txt")] {
        assert_eq!(run(&["diff", a, b]).fine(), "the graphs are equal: 25 nodes\n");
    }
    let back = run(&["diff", "new.txt", "old.txt"]);
    assert_eq!(back.code, 1);
    assert!(back.text().contains("in layers 0-2: Gelu { approximate = true } becomes Silu"), "{}", back.text());
}

#[test]
fn quiet_is_the_exit_code_alone_and_json_is_for_machines() {
    let folder = folder();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    for (b, code) in [("renamed.txt", 0), ("new.txt", 1)] {
        for arguments in [&["diff", "--quiet", "old.txt", b][..], &["diff", "old.txt", b, "-q", "--json"]] {
            let ran = run(arguments);
            assert_eq!((ran.code, ran.text(), ran.stderr.as_str()), (code, "", ""));
        }
    }
    let ran = run(&["diff", "old.txt", "new.txt", "--json"]);
    assert_eq!(ran.code, 1);
    let json = ran.json();
    assert_eq!((json["version"].as_u64(), json["equal"].as_bool()), (Some(1), Some(false)));
    assert_eq!((json["left"].as_str(), json["right"].as_str()), (Some("old.txt"), Some("new.txt")));
    let entry = &json["entries"][0];
    assert_eq!((entry["kind"].as_str(), entry["count"].as_u64()), (Some("replaced"), Some(3)));
    assert_eq!(entry["layers"], serde_json::json!({"prefix": "model.layers.", "numbers": [0, 1, 2], "of": 3}));
    assert_eq!(entry["places"][2], serde_json::json!({"left": ["%layer2.act"], "right": ["%t23"]}));
    let equal = run(&["diff", "old.txt", "renamed.txt", "--json"]);
    assert_eq!((equal.code, equal.json()["entries"].as_array().unwrap().len()), (0, 0));
}

#[test]
fn all_that_becomes_a_graph_is_compared() {
    let folder = folder();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    for name in ["g.txt", "g.hex", "g.toml"] {
        run(&["compile", "tiny.model", "-o", name]).fine();
        // What a section leaves out comes from the model on the other side.
        for (a, b) in [("tiny.model", name), (name, "tiny.model")] {
            assert!(run(&["diff", a, b]).fine().starts_with("the graphs are equal"), "{a} {b}");
        }
        assert!(run(&["diff", "g.txt", name, "--model", "tiny.model"]).fine().starts_with("the graphs are equal"));
        assert!(run(&["diff", "tiny.model", name, "--model", "tiny.model"]).fine().starts_with("the graphs are equal"));
    }
    // The graph of one side of the same model, and the family of the other.
    run(&["edit", "tiny.model", "--graph", "g.txt", "-o", "both.model"]).fine();
    let ways = ["diff", "both.model", "both.model", "--left-path", "graph", "--right-path", "family"];
    assert!(run(&ways).fine().starts_with("the graphs are equal"));
    assert!(run(&["diff", "both.model", "g.txt", "--path", "family"]).fine().starts_with("the graphs are equal"));
    // What the passes do to it.
    let stages = run(&["diff", "tiny.model", "tiny.model", "--right-stage", "target"]);
    assert_eq!(stages.code, 1, "{}{}", stages.text(), stages.stderr);
    assert!(stages.text().starts_with("--- tiny.model\n+++ tiny.model (target)\n"), "{}", stages.text());
    assert!(run(&["diff", "tiny.model", "tiny.model", "--stage", "target"]).fine().starts_with("the graphs are equal"));
}

#[test]
fn a_program_is_compiled_for_the_model_of_the_other_side() {
    let folder = folder();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs");
    for name in ["decoder.rs", "decoder.tri"] {
        std::fs::copy(programs.join(name), folder.path().join(name)).unwrap();
    }
    for (a, b) in [("decoder.rs", "tiny.model"), ("tiny.model", "decoder.tri")] {
        assert!(run(&["diff", a, b]).fine().starts_with("the graphs are equal"), "{a} {b}");
    }
    let both = run(&["diff", "decoder.rs", "decoder.tri", "--model", "tiny.model"]);
    assert!(both.fine().starts_with("the graphs are equal"));
    std::fs::write(folder.path().join("broken.tri"), "fn (").unwrap();
    assert_eq!(run(&["diff", "broken.tri", "tiny.model"]).code, 2);
}

/// Whatever the cause, trouble is 2, so that scripts can tell it from a difference.
#[test]
fn trouble_is_two() {
    let folder = folder();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    std::fs::write(folder.path().join("broken.txt"), "graph {\n  output y = %nothing\n}\n").unwrap();
    std::fs::write(folder.path().join("broken.model"), "no model\n").unwrap();
    let long = "x".repeat(5000);
    for (arguments, told) in [
        (&["diff", "old.txt", "none.txt"][..], "none.txt"),
        (&["diff", "none.model", "old.txt"], "none.model"),
        (&["diff", "broken.txt", "old.txt"], "broken.txt"),
        (&["diff", "broken.model", "old.txt"], "broken.model"),
        (&["diff", "old.txt", &long], "xxx"),
        (&["diff", "old.txt", "new.txt", "--path", "family"], "--path is for models"),
        (&["diff", "old.txt", "new.txt", "--config", "config.toml"], "--config goes with a program"),
        (&["diff", "tiny.model", "tiny.model", "--model", "tiny.model"], "--model goes with"),
        (&["diff", "old.txt", "new.txt", "--graph", "main"], "--graph goes with a program"),
        (&["diff", "old.txt", "new.txt", "--left-path", "family"], "--path is for models"),
        (&["diff", "tiny.model", "tiny.model", "--right-path", "graph"], "graph"),
        (&["diff", "tiny.model", "tiny.model", "--right-graph", "encoder"], "encoder"),
    ] {
        assert!(run(arguments).fails(2).contains(told), "{arguments:?}");
    }
    // Wrong usage as clap says it.
    for arguments in
        [&["diff", "old.txt"][..], &["diff"], &["diff", "a", "b", "c"], &["diff", "a", "b", "--stage", "x"]]
    {
        assert_eq!(run(arguments).code, 2, "{arguments:?}");
    }
}

#[test]
fn the_answer_is_the_same_in_every_process() {
    let folder = folder();
    let run = |stage: &str| {
        let ran = tallow(folder.path(), &["diff", "tiny.model", "tiny.model", "--right-stage", stage, "--json"]);
        ran.stdout
    };
    let (text, json) = (tallow(folder.path(), &["diff", "old.txt", "new.txt"]).stdout, run("target"));
    for _ in 0..20 {
        assert_eq!(tallow(folder.path(), &["diff", "old.txt", "new.txt"]).stdout, text);
    }
    for _ in 0..5 {
        assert_eq!(run("target"), json);
    }
}
