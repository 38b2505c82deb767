//! `diff` by numbers, as a user runs it: reports, exit codes, and what is refused; the commands of `docs/debugging.md`.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::*;
use std::path::{Path, PathBuf};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// A folder with the storyteller and its graph, one epsilon of which is another.
fn changed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(repository("models/storyteller.model"), folder.path().join("story.model")).unwrap();
    let full = tallow(folder.path(), &["compile", "story.model"]).fine();
    let line = full.lines().find(|l| l.trim_start().starts_with("%layer2.ffn_norm:")).unwrap().to_owned();
    assert!(line.contains("eps = 1e-6"), "{line}");
    std::fs::write(folder.path().join("changed.txt"), full.replace(&line, &line.replace("1e-6", "0.01"))).unwrap();
    std::fs::write(folder.path().join("same.txt"), full).unwrap();
    folder
}

#[test]
fn the_first_operation_out_of_tolerance_is_named() {
    let folder = changed();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let same = run(&["diff", "story.model", "same.txt", "--numeric", "--text", "A fox."]).fine();
    assert!(same.contains("all within tolerance"), "{same}");
    for more in [&["--text", "A fox."][..], &["--input", "input_ids=1,5,9"], &[], &["--size", "S=1"], &["--reference"]]
    {
        let ran = run(&[&["diff", "story.model", "changed.txt", "--numeric"], more].concat());
        assert_eq!(ran.code, 1, "{more:?}: {}{}", ran.text(), ran.stderr);
        assert_eq!(ran.stderr, "", "{more:?}");
        let text = ran.text();
        let at = text.find("first out of tolerance\n  %layer2.ffn_norm: f32[S, 256] = RmsNorm(").unwrap_or(0);
        assert!(at > 0 && text.contains("1 out of tolerance"), "{text}");
    }
    let tolerant = run(&["diff", "story.model", "changed.txt", "--numeric", "--tolerance", "0.5"]).fine();
    assert!(tolerant.contains("all within tolerance") && tolerant.contains("5.0e-1"), "{tolerant}");
    let all = run(&["diff", "same.txt", "story.model", "--model", "story.model", "--numeric", "--all"]).fine();
    assert!(all.lines().filter(|l| l.ends_with("  ok")).count() > 90, "{all}");
    // Columns line up.
    let table: Vec<&str> = all.lines().filter(|l| l.ends_with("  ok")).collect();
    assert!(table.iter().all(|l| l.chars().count() == table[0].chars().count()), "{all}");

    let ran = run(&["diff", "story.model", "changed.txt", "--numeric", "--json"]);
    let json = ran.json();
    let first = &json["values"][json["first"].as_u64().unwrap() as usize];
    assert_eq!((ran.code, first["value"].as_str()), (1, Some("%layer2.ffn_norm")));
    assert_eq!((&json["within"], &first["verdict"]), (&false.into(), &"beyond".into()));
    assert_eq!(ran.stdout, run(&["diff", "story.model", "changed.txt", "--numeric", "--json"]).stdout);
}

#[test]
fn values_of_transformers_are_read_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let golden = repository("tests/goldens/qwen3-plain");
    run(&["import", golden.to_str().unwrap(), "-o", "qwen.model", "--encoding", "u32", "--quiet"]).fine();
    let values = repository("tests/references/qwen3-plain.safetensors");
    let values = values.to_str().unwrap();
    let text = run(&["diff", "qwen.model", "--against", values]).fine();
    assert!(text.contains("compared   27 values, all within tolerance"), "{text}");
    let full = run(&["compile", "qwen.model"]).fine();
    let swapped = full.replace("SwiGlu(%layer1.gate, %layer1.up)", "SwiGlu(%layer1.up, %layer1.gate)");
    assert_ne!(full, swapped);
    std::fs::write(folder.path().join("swapped.txt"), swapped).unwrap();
    let ran = run(&["diff", "swapped.txt", "--model", "qwen.model", "--against", values]);
    assert_eq!(ran.code, 1, "{}{}", ran.text(), ran.stderr);
    let text = ran.text();
    assert!(text.contains("first out of tolerance\n  %layer1.ffn_out:"), "{text}");
    assert!(text.contains("      %layer1.gated: f32[S, 64] = SwiGlu(%layer1.up, %layer1.gate)"), "{text}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let folder = changed();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    for (arguments, part) in [
        (&["diff", "story.model", "--numeric"][..], "--numeric compares two graphs"),
        (&["diff", "story.model", "same.txt", "--against", "x"], "--against compares one graph"),
        (&["diff", "story.model", "same.txt", "--numeric", "--against", "x"], "give one of them"),
        (&["diff", "story.model", "same.txt", "--text", "A"], "--text is of a comparison by numbers"),
        (&["diff", "story.model", "same.txt", "--numeric", "--tolerance", "x"], "not negative"),
        (&["diff", "story.model", "same.txt", "--numeric", "--input", "x=1"], "`x`: is no input here"),
        (&["diff", "story.model", "same.txt", "--numeric", "--size", "N=3"], "they have"),
        (&["diff", "story.model", "same.txt", "--numeric", "--input", "input_ids=99999"], "99999"),
        (&["diff", "same.txt", "same.txt", "--numeric"], "no model holds them; give --model"),
        (&["diff", "story.model", "same.txt", "--numeric", "--size", "S=99999"], "--context"),
        (&["diff", "story.model", "same.txt", "--numeric", "--text", ""], "no tokens"),
        (&["diff", "story.model", "--against", "story.model"], "holds no values; give a .safetensors"),
        (&["diff", "story.model", "--against", "absent"], "absent"),
        (&["diff", "story.model", "--against", ".", "--seed", "1"], "--size and --seed"),
        (&["diff", "story.model", "--against", "cache"], "cache"),
    ] {
        let error = run(arguments);
        assert!(error.code >= 2, "{arguments:?}: {}{}", error.text(), error.stderr);
        assert!(error.stderr.contains(part), "{arguments:?}: {}", error.stderr);
        assert!(!error.stderr.contains("panicked"), "{arguments:?}: {}", error.stderr);
    }
}
