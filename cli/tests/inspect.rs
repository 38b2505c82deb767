//! `inspect` as a user runs it.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::*;

#[test]
fn a_model_is_shown_with_everything_in_it() {
    let (folder, _) = tiny();
    let text = tallow(folder.path(), &["inspect", "tiny.model"]).fine();
    for want in [
        "tiny.model\n",
        "# Tiny",
        "model_type",
        "hidden_size",
        "architecture\n",
        "sections\n",
        "q8",
        "8.50",
        "eos_token_ids",
        "0.7",
        "chatml",
        "mmlu_pro.score  724  72.4 %",
        "benchmarks: sum",
        "family   yes as `llama`",
        "graph    not present",
        "program  no: error[E0705]",
        "input_ids",
        "logits",
        "[S, 8]",
    ] {
        assert!(text.contains(want), "{want} is not in\n{text}");
    }
    assert!(!text.contains("q_proj"), "tensors are listed on request only\n{text}");
    let text = tallow(folder.path(), &["inspect", "tiny.model", "--tensors"]).fine();
    assert!(text.contains("model.layers.0.self_attn.q_proj.weight"), "{text}");
}

#[test]
fn json_holds_the_same_facts() {
    let (folder, path) = tiny();
    let facts = tallow(folder.path(), &["inspect", "tiny.model", "--json"]).json();
    assert_eq!(facts["bytes"], std::fs::metadata(path).unwrap().len());
    assert_eq!(facts["format_version"], 2);
    let model = &facts["model"];
    assert_eq!(model["model_type"], "llama");
    assert_eq!(model["parameters"], 8 * 32 + 3 * 32 + 2 * 32 * 32 + 2 * 16 * 32 + 3 * 64 * 32);
    assert_eq!(model["config"]["architecture"]["hidden_size"], 32);
    assert_eq!(model["sampling"]["temperature"], 0.7);
    assert_eq!(model["tokenizer"]["tokens"], 4);
    assert_eq!(model["tokenizer"]["merges"], 1);
    assert_eq!(model["tokenizer"]["end_ids"], serde_json::json!([2]));
    assert_eq!(model["chat"]["format"], "chatml");
    assert_eq!(model["scores"]["mmlu_pro.score"], 724);
    assert_eq!(model["paths"]["family"]["runs"], true);
    assert_eq!(model["paths"]["program"]["runs"], false);
    assert!(model["paths"]["graph"].is_null() && facts["tensors"].is_null());
    let inputs: Vec<&String> = model["signature"]["inputs"].as_object().unwrap().keys().collect();
    assert!(inputs.iter().any(|n| *n == "input_ids"), "{inputs:?}");
    let bits: Vec<f64> =
        model["encodings"].as_array().unwrap().iter().map(|e| e["bits_per_weight"].as_f64().unwrap()).collect();
    assert_eq!(bits, [8.5, 32.0]);
    let facts = tallow(folder.path(), &["inspect", "tiny.model", "--json", "--tensors"]).json();
    assert_eq!(facts["tensors"].as_array().unwrap().len(), 11);
}

#[test]
fn a_container_that_is_no_model_shows_its_sections() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("n.cyb"), NOTES).unwrap();
    let text = tallow(folder.path(), &["inspect", "n.cyb"]).fine();
    assert!(text.contains("notes") && text.contains("data") && !text.contains("tensors by encoding"), "{text}");
    let facts = tallow(folder.path(), &["inspect", "n.cyb", "--json"]).json();
    assert!(facts["model"].is_null() && facts["problem"].is_null());
    assert_eq!(facts["sections"][1]["bytes"], 5);
}

#[test]
fn a_family_that_is_not_known_is_said_so_and_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = bare_model("format_version = 2", "u16", &[4], &[0; 8]);
    std::fs::write(folder.path().join("own.model"), bytes).unwrap();
    let text = tallow(folder.path(), &["inspect", "own.model"]).fine();
    assert!(text.contains("family   not in this version: ") && text.contains("= \"own\""), "{text}");
    assert!(text.contains("warnings\n") && text.contains("no `card`"), "{text}");
    let facts = tallow(folder.path(), &["inspect", "own.model", "--json"]).json();
    assert_eq!(facts["model"]["paths"]["family"]["unsupported"], true);
    assert!(facts["model"]["signature"].is_null());
}

#[test]
fn a_model_that_cannot_be_used_still_shows_what_could_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = bare_model("format_version = 3", "u16", &[4], &[0; 8]);
    std::fs::write(folder.path().join("newer.model"), bytes).unwrap();
    let ran = tallow(folder.path(), &["inspect", "newer.model"]);
    assert!(ran.text().contains("weights"), "{}", ran.text());
    let error = ran.fails(4);
    assert!(error.contains("newer.model") && error.contains("`format_version` is 3"), "{error}");
    let ran = tallow(folder.path(), &["inspect", "newer.model", "--json"]);
    assert!(ran.json()["problem"].as_str().unwrap().contains("`format_version` is 3"));
    assert_eq!(ran.code, 4);
}

#[test]
fn other_formats_are_pointed_to_import() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str| std::fs::write(folder.path().join(name), b"GGUF\x03\0\0\0").unwrap();
    write("m.gguf");
    write("m.model");
    std::fs::create_dir(folder.path().join("hf")).unwrap();
    for name in ["m.gguf", "m.model", "hf"] {
        let error = tallow(folder.path(), &["inspect", name]).fails(3);
        assert!(error.contains(name) && error.contains("tallow import"), "{error}");
    }
}

#[test]
fn a_file_cannot_steer_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = "[cyb]\nname = \"\\u001b[2Jgone\"\n[[files]]\nname = \"card\"\nformat = \"md\"\n\n~~~card\n\u{1b}]0;title\u{7}\n";
    std::fs::write(folder.path().join("e.cyb"), bytes).unwrap();
    let text = tallow(folder.path(), &["inspect", "e.cyb"]).fine();
    assert!(text.contains("\\u{1b}[2Jgone") && !text.contains('\u{1b}') && !text.contains('\u{7}'), "{text}");
}

#[test]
fn the_signature_is_of_the_graph_that_would_run() {
    let (folder, _) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let text = run(&["inspect", "tiny.model"]).fine();
    assert!(
        text.contains("signature\n  of the family's graph, 36 nodes: 23 operations, 11 weights; 1 cache\n"),
        "{text}"
    );
    assert!(text.contains("in   pos        i64[]      the session fills it in\n"), "{text}");
    let signature = run(&["inspect", "tiny.model", "--json"]).json()["model"]["signature"].clone();
    assert_eq!((&signature["path"], &signature["default"]), (&"family".into(), &true.into()));
    assert_eq!((&signature["nodes"], &signature["caches"]), (&36.into(), &1.into()));
    assert_eq!(
        signature["inputs"]["input_ids"],
        serde_json::json!({ "dtype": "i64", "shape": ["S"], "injected": false })
    );
    assert_eq!(signature["inputs"]["pos"]["injected"], true);
    assert_eq!(signature["outputs"]["logits"], serde_json::json!({ "dtype": "f32", "shape": ["S", 8] }));

    // A graph section runs by default; where it fails the family does not stand in for it by itself.
    run(&["compile", "tiny.model", "-o", "g.toml"]).fine();
    let graph = std::fs::read_to_string(folder.path().join("g.toml")).unwrap();
    let mut with = parts();
    with.graph = Some((tallow::format::GraphFormat::Toml, graph.clone()));
    write_tiny(&folder.path().join("with.model"), with.clone());
    let text = run(&["inspect", "with.model"]).fine();
    assert!(text.contains("signature\n  of the graph section, 36 nodes"), "{text}");
    with.graph = Some((tallow::format::GraphFormat::Toml, graph.replace("shape = [-1, 2, 16]", "shape = [-1, 2, 17]")));
    write_tiny(&folder.path().join("fails.model"), with);
    let text = run(&["inspect", "fails.model"]).fine();
    assert!(
        text.contains("of the family's graph (--path family); by default the graph section is taken, which fails"),
        "{text}"
    );
    assert!(text.contains("\n  graph    no: graph section: node ") && text.contains("^^^^"), "{text}");
    let facts = run(&["inspect", "fails.model", "--json"]).json();
    assert_eq!(facts["model"]["signature"]["default"], false);
}

#[test]
fn a_graph_of_its_own_needs_no_family() {
    let folder = tempfile::tempdir().unwrap();
    let graph = "outputs = [\"y\"]\n[[inputs]]\nname = \"x\"\nshape = [-1, 4]\n[[nodes]]\nid = 0\nop = \"Mul\"\ninputs = [\"x\", \"w\"]\noutputs = [\"y\"]\n";
    let run = |name: &str, graph: &str| {
        let section = "[[files]]\nname = \"graph\"\nformat = \"toml\"\n\n[[files]]\nname = \"tensors\"";
        let model = String::from_utf8(bare_model("format_version = 2", "u16", &[4], &[0; 8])).unwrap();
        let model = model
            .replace("[[files]]\nname = \"tensors\"", section)
            .replace("~~~tensors", &format!("~~~graph\n{graph}~~~tensors"));
        std::fs::write(folder.path().join(name), model).unwrap();
        (tallow(folder.path(), &["inspect", name]).fine(), tallow(folder.path(), &["inspect", name, "--json"]).json())
    };
    let (text, facts) = run("own.model", graph);
    assert!(text.contains("graph    yes, 3 nodes") && text.contains("family   not in this version"), "{text}");
    assert!(text.contains("of the graph section, 3 nodes: 1 operation, 1 weight; no cache"), "{text}");
    assert!(text.contains("out  y  f32[S, 4]"), "{text}");
    assert_eq!(facts["model"]["signature"]["outputs"]["y"]["shape"], serde_json::json!(["S", 4]));
    // Where nothing runs, one line says why, and the rest is shown.
    let (text, facts) = run("broken.model", &graph.replace("\"w\"]", "\"v\"]"));
    assert!(text.contains("signature\n  none: graph section: node 0 Mul(x, v) → y: nothing writes `v`"), "{text}");
    assert!(text.contains("tensors by encoding"), "{text}");
    assert!(facts["model"]["signature"].is_null());
    assert!(facts["model"]["no_signature"].as_str().unwrap().contains("`v`"));
}

#[test]
fn without_a_file_the_embedded_model_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let text = tallow(folder.path(), &["inspect"]).fine();
    assert!(text.starts_with("storyteller.model (embedded)\n") && text.contains("logits"), "{text}");
}
