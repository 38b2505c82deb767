//! The compiler as a user sees it: stages, remarks, patches one by one, plans, pages.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::*;

#[test]
fn remarks_tell_what_was_done_and_what_not() {
    let (folder, _) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let text = run(&["compile", "tiny.model", "--remarks"]).fine();
    assert!(text.contains("joined-projections\n") && text.contains("norm-matmul\n"), "{text}");
    assert!(text.contains("pass ") && text.contains(" applied ") && !text.contains(" ms\n"), "{text}");
    assert!(run(&["compile", "tiny.model", "--remarks", "--timings"]).fine().contains(" ms\n"));
    let json = run(&["compile", "tiny.model", "--remarks", "--json"]).json();
    let remarks = json["remarks"].as_array().unwrap();
    let applied: Vec<u64> = remarks.iter().filter_map(|r| r["patch"].as_u64()).collect();
    assert_eq!(applied, (1..=applied.len() as u64).collect::<Vec<_>>(), "patches are numbered over all passes");
    assert!(remarks.iter().all(|r| r["applied"].as_bool() == Some(r["missed"].is_null())));
    let total: u64 = json["passes"].as_array().unwrap().iter().map(|p| p["applied"].as_u64().unwrap()).sum();
    assert_eq!(total, applied.len() as u64);
    // Beside remarks, the graph goes to a file.
    run(&["compile", "tiny.model", "--remarks", "-o", "target.txt"]).fine();
    let target = run(&["compile", "tiny.model", "--stage", "target"]).fine();
    assert_eq!(std::fs::read_to_string(folder.path().join("target.txt")).unwrap(), target);
}

#[test]
fn patches_apply_one_by_one_and_each_pass_can_be_written_out() {
    let (folder, _) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let raw = run(&["compile", "tiny.model"]).fine();
    assert_eq!(run(&["compile", "tiny.model", "--stop-after", "0"]).fine(), raw);
    let target = run(&["compile", "tiny.model", "--stage", "target", "--verify"]).fine();
    assert_eq!(run(&["compile", "tiny.model", "--stop-after", "9999"]).fine(), target);
    let one = run(&["compile", "tiny.model", "--stop-after", "1"]).fine();
    assert!(one != raw && one != target);
    let note = run(&["compile", "tiny.model", "--emit-each", "each"]);
    assert!(note.stderr.contains("graphs to each"), "{}", note.stderr);
    let files = listing(&folder.path().join("each"));
    assert_eq!(files[0], "00-raw.txt");
    let last = std::fs::read_to_string(folder.path().join("each").join(files.last().unwrap())).unwrap();
    assert_eq!(last, target);
    assert!(run(&["compile", "tiny.model", "--emit-each", "each"]).fails(2).contains("not empty"));
    // What is written is a graph like any other.
    for file in &files {
        run(&["dump", &format!("each/{file}"), "--model", "tiny.model"]).fine();
    }
}

#[test]
fn passes_are_listed_chosen_and_refused_by_name() {
    let (folder, _) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let list = run(&["compile", "--passes", "list"]).fine();
    assert!(list.lines().any(|l| l.starts_with("norm-matmul ") && l.contains(" target ")), "{list}");
    let some = run(&["compile", "tiny.model", "--passes", "norm-matmul"]).fine();
    assert!(some.contains("FusedNormMatmul") && !some.contains("JoinedMatmul"), "{some}");
    let error = run(&["compile", "tiny.model", "--passes", "norm-matmul,magic"]).fails(2);
    assert!(error.contains("`magic`") && error.contains("joined-projections"), "{error}");
    assert_eq!(run(&["compile", "tiny.model", "--passes", "dead", "--stage", "raw"]).code, 2);
    for wrong in [
        &["compile", "tiny.model", "--json"][..],
        &["compile", "tiny.model", "--timings"],
        &["compile", "tiny.model", "--stage", "raw", "--remarks"],
        &["compile", "tiny.model", "--remarks", "--format", "hex"],
    ] {
        assert_eq!(run(wrong).code, 2, "{wrong:?}");
    }
    // What fails leaves nothing behind, and what is written is not written over.
    assert_eq!(run(&["compile", "tiny.model", "--passes", "magic", "--emit-each", "none"]).code, 2);
    assert!(!folder.path().join("none").exists());
    run(&["compile", "tiny.model", "--emit-each", "e", "-o", "e/00-raw.txt"]).fails(2);
}

#[test]
fn every_stage_is_shown() {
    let (folder, _) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    assert_eq!(run(&["dump", "tiny.model", "--stage", "raw"]).fine(), run(&["dump", "tiny.model"]).fine());
    assert!(run(&["dump", "tiny.model", "--stage", "target"]).fine().contains("JoinedMatmul"));
    let plan = run(&["dump", "tiny.model", "--stage", "plan", "--size", "S=7"]).fine();
    assert!(plan.contains("# plan of a prompt") && plan.contains("# plan of one token"), "{plan}");
    assert!(plan.contains("# memory at S = 7: ") && plan.contains("every call:"), "{plan}");
    for wrong in [
        &["dump", "tiny.model", "--stage", "plan", "--json"][..],
        &["dump", "tiny.model", "--size", "S=7"],
        &["dump", "tiny.model", "--stage", "plan", "--size", "Q=7"],
        &["check", "target.txt"],
        &["dump", "tiny.model", "--stage", "plan", "--size", "S"],
        &["dump", "tiny.model", "--stage", "plan", "--size", "S=-1"],
        &["dump", "tiny.model", "--html", "--json"],
    ] {
        assert_eq!(run(wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn a_page_is_one_file_with_remarks_and_source() {
    let (folder, _) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let page = run(&["dump", "tiny.model", "--html"]).fine();
    assert!(page.starts_with("<!doctype html>") && page.contains("default-src 'none'"));
    assert!(page.contains("norm-matmul"), "remarks are in the page");
    run(&["dump", "tiny.model", "-o", "page.html"]).fine();
    assert_eq!(std::fs::read_to_string(folder.path().join("page.html")).unwrap(), page);
    run(&["dump", "tiny.model", "--stage", "target", "-o", "target.html"]).fine();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../programs/decoder.rs");
    let page = run(&["dump", program, "--model", "tiny.model", "--html"]).fine();
    assert!(page.contains("fn forward"), "the program is in the page");
}

#[test]
fn twenty_processes_write_the_same_bytes() {
    let (folder, _) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    run(&["compile", "tiny.model", "-o", "a.txt"]).fine();
    let text = std::fs::read_to_string(folder.path().join("a.txt")).unwrap();
    std::fs::write(folder.path().join("b.txt"), text.replace("eps = 1e-6", "eps = 1e-5")).unwrap();
    for command in [
        &["dump", "tiny.model", "--stage", "target"][..],
        &["dump", "tiny.model", "--html"],
        &["dump", "tiny.model", "--stage", "plan"],
        &["compile", "tiny.model", "--stage", "target", "--format", "hex"],
        &["compile", "tiny.model", "--remarks", "--json"],
        &["diff", "a.txt", "b.txt"],
    ] {
        let first = run(command);
        assert!(first.code <= 1 && !first.stdout.is_empty(), "{command:?}: {}", first.stderr);
        for _ in 1..20 {
            assert_eq!(run(command).stdout, first.stdout, "{command:?}");
        }
    }
}
