//! `tallow bench` and `tallow profile` as a user runs them: what is measured and shown, and what is refused.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::*;
use std::path::Path;

#[test]
fn bench_measures_each_quantity_so_often() {
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        ["bench", "--repetitions", "2", "--prefill", "8", "--decode", "2", "--depth", "0,4", "--threads", "2"];
    let report = tallow(folder.path(), &[&arguments[..], &["--json"]].concat()).json();
    assert_eq!(report["threads"], 2);
    for quantity in [
        &report["load_seconds"],
        &report["first_token_seconds"],
        &report["prefill"][0]["tokens_per_second"],
        &report["prefill"][0]["share_of_peak"],
        &report["decode"][0]["tokens_per_second"],
        &report["decode"][1]["share_of_bandwidth"],
    ] {
        let value = |what: &str| quantity[what].as_f64().unwrap();
        assert!(0.0 < value("min") && value("min") <= value("median") && value("median") <= value("max"), "{quantity}");
        assert_eq!(quantity["values"].as_array().unwrap().len(), 2);
    }
    assert_eq!([&report["decode"][0]["depth"], &report["decode"][1]["depth"]], [0, 4]);
    let read = |i: usize| report["decode"][i]["bytes_per_token"].as_f64().unwrap();
    assert!(read(0) < read(1) && read(1) < report["weight_bytes"].as_f64().unwrap() * 2.0);
    if cfg!(target_os = "linux") {
        assert!(report["peak_memory_bytes"].as_u64().unwrap() > report["weight_bytes"].as_u64().unwrap());
    }
}

#[test]
fn bench_prints_a_table_and_what_it_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        ["bench", "--repetitions", "1", "--prefill", "4", "--decode", "1", "--depth", "0", "--context", "8"];
    let all = tallow(folder.path(), &arguments).fine();
    for line in
        ["load ", "first token ", "prefill of 4 ", "decode of 1 at depth 0 ", "memory bandwidth ", "peak memory "]
    {
        assert!(all.lines().any(|l| l.starts_with(line)), "{line}: {all}");
    }
    assert!(!all.contains("skipped"), "{all}");
    let rest =
        ["bench", "--repetitions", "1", "--prefill", "4,64", "--decode", "1", "--depth", "2048", "--context", "8"];
    let some = tallow(folder.path(), &rest).fine();
    assert!(some.contains("skipped: prefill of 64: needs 64 tokens, and the context holds 8\n"), "{some}");
    assert!(some.contains("skipped: decode of 1 at depth 2048: needs 2049 tokens"), "{some}");
}

#[test]
fn what_continues_no_text_is_not_measured() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/graphs/classifier");
    let (weights, graph) =
        (source.join("weights.safetensors"), format!("--graph={}", source.join("graph.txt").display()));
    let import = ["import", weights.to_str().unwrap(), &graph, "--model-type", "tiny", "-o", "c.model"];
    tallow(folder.path(), &import).fine();
    for command in ["bench", "profile"] {
        let error = tallow(folder.path(), &[command, "c.model"]).fails(2);
        assert!(error.contains("c.model: its graph takes no `input_ids`") && error.contains("--input"), "{error}");
        let error = tallow(folder.path(), &[command, "none.model"]).fails(3);
        assert!(error.contains("none.model"), "{error}");
    }
    for arguments in [&["bench", "--repetitions", "0"][..], &["bench", "--prefill", "a"], &["profile"]] {
        assert_eq!(tallow(folder.path(), arguments).code, 2);
    }
}

#[test]
fn profile_sums_up_by_operation_and_by_place() {
    let folder = tempfile::tempdir().unwrap();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/storyteller.model");
    let model = model.to_str().unwrap();
    let run = |rest: &[&str]| tallow(folder.path(), &[&["profile", model], rest].concat());
    let shown = run(&["--tokens", "5", "--decode", "2"]).fine();
    assert!(shown.starts_with("prefill · 5 tokens in ") && shown.contains("\ndecode · 2 tokens in "), "{shown}");
    assert!(shown.contains("layers 0-"), "{shown}");
    let found = run(&["Tell me a story", "--decode", "3", "--json", "--trace", "trace.json"]).json();
    for (phase, name) in [(0, "prefill"), (1, "decode")] {
        let phase = &found["phases"][phase];
        assert_eq!(phase["name"], name);
        for lines in ["operations", "places"] {
            let shares: f64 = phase[lines].as_array().unwrap().iter().map(|l| l["share"].as_f64().unwrap()).sum();
            let outside = phase["seconds_outside_steps"].as_f64().unwrap() / phase["seconds"].as_f64().unwrap();
            assert!((shares + outside - 1.0).abs() < 1e-6, "{shares} {outside}");
        }
    }
    let trace: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("trace.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert_eq!(events.iter().filter(|e| e["cat"] == "call").count(), 4);
    let error = run(&["--trace", "trace.json"]).fails(2);
    assert!(error.contains("trace.json") && error.contains("--force"), "{error}");
}
