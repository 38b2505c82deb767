//! `dump`, `compile` and the graphs that go into models, as a user runs them; the commands of
//! `docs/graphs.md` too.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::*;
use std::path::{Path, PathBuf};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn read(folder: &tempfile::TempDir, name: &str) -> String {
    std::fs::read_to_string(folder.path().join(name)).unwrap()
}

#[test]
fn a_dump_folds_and_a_full_one_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let text = run(&["dump"]).fine();
    assert!(text.starts_with("// 4 layers folded; --full prints every node\n"), "{text}");
    assert!(text.contains("  for layer in 0..4 {\n"), "{text}");
    assert_eq!(text.matches("q_proj.weight").count(), 1, "{text}");
    let full = run(&["dump", "--full"]).fine();
    assert!(full.starts_with("graph {") && full.matches("q_proj.weight\"").count() == 4, "{full}");
    assert_eq!(run(&["compile"]).fine(), full);
    std::fs::write(folder.path().join("full.txt"), &full).unwrap();
    assert_eq!(run(&["dump", "full.txt"]).fine(), text);
    // What is folded says so, and is refused where a graph is read.
    std::fs::write(folder.path().join("folded.txt"), &text).unwrap();
    let error = run(&["dump", "folded.txt"]).fails(3);
    assert!(error.contains("folded.txt: this is a folded dump") && error.contains("dump --full"), "{error}");
}

#[test]
fn the_forms_of_a_dump() {
    let (folder, _) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let json = run(&["dump", "tiny.model", "--json"]).json();
    let matmul = json["nodes"].as_array().unwrap().iter().find(|n| n["op"] == "Rope").unwrap().clone();
    assert_eq!(matmul["attributes"]["head_dim"], 16);
    assert_eq!(json["inputs"][0]["shape"], serde_json::json!(["S"]));
    assert!(run(&["dump", "tiny.model", "--dot"]).fine().contains("digraph {"));
    assert!(run(&["dump", "tiny.model", "--mermaid", "--full"]).fine().starts_with("flowchart TD\n"));
    for (name, begins) in [("g.dot", "// "), ("g.mmd", "flowchart"), ("g.json", "{"), ("g.txt", "// ")] {
        run(&["dump", "tiny.model", "-o", name]).fine();
        assert!(read(&folder, name).starts_with(begins), "{name}");
        let error = run(&["dump", "tiny.model", "-o", name]).fails(2);
        assert!(error.contains(&format!("{name} exists")) && error.contains("--force"), "{error}");
    }
    run(&["dump", "tiny.model", "--json", "-o", "g.dot", "--force"]).fine();
    assert!(read(&folder, "g.dot").starts_with('{'));
    for wrong in [
        &["dump", "tiny.model", "--json", "--dot"][..],
        &["dump", "tiny.model", "-o", "g.hex"],
        &["dump", "tiny.model", "-o", "g.png"],
        &["dump", "tiny.model", "--model", "tiny.model"],
        &["dump", "--model", "tiny.model"],
        &["dump", "g.txt", "--path", "family"],
        &["dump", "tiny.model", "--path", "graph"],
    ] {
        assert_eq!(run(wrong).code, 2, "{wrong:?}");
    }
    assert!(run(&["dump", "none.model"]).fails(3).contains("none.model"));
    assert!(run(&["dump", "none.txt"]).fails(3).contains("none.txt"));
}

#[test]
fn graph_files_are_shown_by_themselves_or_with_their_model() {
    let (folder, _) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let text = run(&["dump", "tiny.model"]).fine();
    for name in ["g.txt", "g.hex", "g.toml"] {
        run(&["compile", "tiny.model", "-o", name]).fine();
        assert_eq!(run(&["dump", name, "--model", "tiny.model"]).fine(), text, "{name}");
    }
    assert_eq!(run(&["dump", "g.txt"]).fine(), text);
    for name in ["g.hex", "g.toml"] {
        let error = run(&["dump", name]).fails(3);
        assert!(error.contains("model.embed_tokens.weight") && error.contains("--model MODEL"), "{error}");
    }
    // A graph without weights needs no model.
    let toml = "outputs = [\"y\"]\n[[inputs]]\nname = \"x\"\nshape = [-1, 4]\n[[nodes]]\nid = 0\nop = \"Silu\"\ninputs = [\"x\"]\noutputs = [\"y\"]\n";
    std::fs::write(folder.path().join("own.toml"), toml).unwrap();
    assert!(run(&["dump", "own.toml"]).fine().contains("%y: f32[S, 4] = Silu(%x)"));
    // One that does not fit shows where.
    std::fs::write(
        folder.path().join("bad.toml"),
        toml.replace("\"Silu\"", "\"Matmul\"")
            .replace("[\"x\"]\nout", "[\"x\", \"v\"]\nout")
            .replace("[[nodes]]", "[[inputs]]\nname = \"v\"\nshape = [3, 5]\n[[nodes]]"),
    )
    .unwrap();
    let error = run(&["dump", "bad.toml"]).fails(3);
    assert!(error.contains("%y = Matmul(%x: f32[S, 4], %v: f32[3, 5])\n") && error.contains("^^^^"), "{error}");
}

#[test]
fn compile_writes_six_formats() {
    let (folder, _) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    for (name, format, begins) in [
        ("g.txt", "txt", "graph {\n"),
        ("g.hex", "hex", "1f000000"),
        ("g.toml", "toml", "outputs = [\"logits\"]\n"),
        ("g.json", "json", "{\n  \"version\": 1,\n  \"inputs\""),
        ("g.dot", "dot", "// "),
        ("g.mmd", "mmd", "flowchart TD\n"),
    ] {
        run(&["compile", "tiny.model", "-o", name]).fine();
        let by_ending = read(&folder, name);
        assert_eq!(run(&["compile", "tiny.model", "--format", format]).fine(), by_ending);
        let begins = if format == "hex" { &by_ending[..8] } else { begins };
        assert!(by_ending.starts_with(begins), "{name}: {}", &by_ending[..80]);
        if format == "hex" {
            assert!(by_ending.trim_end().bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
        }
    }
    let error = run(&["compile", "tiny.model", "-o", "g.svg"]).fails(2);
    assert!(error.contains("g.svg") && error.contains(".mmd"), "{error}");
    run(&["compile", "tiny.model", "--format", "dot", "-o", "g.graph"]).fine();
}

#[test]
fn edit_takes_three_forms_and_refuses_what_does_not_fit() {
    let (folder, path) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let full = run(&["compile", "tiny.model"]).fine();
    for name in ["g.txt", "g.hex", "g.toml"] {
        run(&["compile", "tiny.model", "-o", name]).fine();
        run(&["edit", "tiny.model", "--graph", name, "-o", "with.model", "--force"]).fine();
        assert_eq!(run(&["compile", "with.model", "--path", "graph"]).fine(), full, "{name}");
    }
    run(&["edit", "with.model", "--graph", "none", "--in-place"]).fine();
    assert_eq!(run(&["compile", "with.model", "--path", "graph"]).code, 2);

    let before = std::fs::read(&path).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    run(&["compile", "tiny.model", "-o", "g.json"]).fine();
    // A weight that the model holds otherwise, an operation that does not fit, a name that nothing has.
    write("type.txt", &full.replace("= \"model.norm.weight\": u32[32]", "= \"model.norm.weight\": f32[33]"));
    // The encoding of a weight is the model's affair.
    write("plain.txt", &full.replace("= \"model.norm.weight\": u32[32]", "= \"model.norm.weight\": f32[32]"));
    run(&["edit", "tiny.model", "--graph", "plain.txt", "-o", "plain.model"]).fine();
    write("rule.txt", &full.replace("{ head_dim = 16, rope_dim = 16,", "{ head_dim = 16, rope_dim = 99,"));
    write("name.toml", &read(&folder, "g.toml").replace("model.norm.weight", "model.nrom.weight"));
    write("shape.toml", &read(&folder, "g.toml").replace("shape = [-1, 2, 16]", "shape = [-1, 2, 17]"));
    for (name, code, want) in [
        ("g.json", 2, "cannot be read back"),
        ("g.dot", 2, "cannot be read back"),
        ("g.model", 2, "a graph is read from a .txt, .hex or .toml file"),
        (
            "type.txt",
            3,
            "is stated as f32[33], and the model holds u32[32]; correct the text\n    weight %model.norm.weight = \"model.norm.weight\": f32[33]\n",
        ),
        ("rule.txt", 3, "^^^^"),
        ("name.toml", 3, "`model.nrom.weight`"),
        ("shape.toml", 3, "^^^^"),
    ] {
        let error = run(&["edit", "tiny.model", "--graph", name, "--in-place"]).fails(code);
        assert!(error.contains(name) && error.contains(want), "{name}: {error}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "{name}");
    }
}

#[test]
fn import_writes_the_graph_where_asked() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let golden = repository("tests/goldens/qwen3-plain");
    let golden = golden.to_str().unwrap();
    run(&["import", golden, "--encoding", "u32", "--graph", "-o", "with.model"]).fine();
    run(&["import", golden, "--encoding", "u32", "-o", "without.model"]).fine();
    assert_eq!(run(&["compile", "with.model", "--path", "graph"]).fine(), run(&["compile", "without.model"]).fine());
    let facts = run(&["inspect", "with.model", "--json"]).json();
    assert_eq!(facts["model"]["signature"]["path"], "graph");
    for (model, out) in [("with.model", "a.safetensors"), ("without.model", "b.safetensors")] {
        run(&["run", model, "--input", "input_ids=1,2,3,4,5", "--all-logits", "--output", out]).fine();
    }
    let bytes = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert_eq!(bytes("a.safetensors"), bytes("b.safetensors"));
    // A type that nothing knows runs all the same.
    let config = run(&["cat", "with.model", "config"]).fine().replace("\"qwen3\"", "\"unheard-of\"");
    std::fs::write(folder.path().join("config.toml"), config).unwrap();
    run(&["edit", "with.model", "--set", "config=config.toml", "-o", "own.model"]).fine();
    run(&["run", "own.model", "--input", "input_ids=1,2,3,4,5", "--all-logits", "--output", "c.safetensors"]).fine();
    assert_eq!(bytes("a.safetensors"), bytes("c.safetensors"));
    run(&["import", golden, "--graph", "--dry-run"]).fine();
}

/// The fenced blocks of a page: the words after the fence, and the text.
fn fences(page: &str) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        if let Some(words) = line.strip_prefix("```") {
            inside = !inside;
            if inside {
                out.push((words.to_owned(), String::new()));
            }
        } else if inside {
            let text = &mut out.last_mut().unwrap().1;
            text.push_str(line);
            text.push('\n');
        }
    }
    out
}

/// Files first (their fences name them), then the commands in order of the page.
#[test]
#[cfg(unix)]
fn the_commands_of_the_page_about_graphs_run() {
    let page = std::fs::read_to_string(repository("docs/graphs.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("models")).unwrap();
    std::fs::copy(repository("models/storyteller.model"), folder.path().join("models/storyteller.model")).unwrap();
    std::fs::create_dir(folder.path().join("tests")).unwrap();
    std::os::unix::fs::symlink(repository("tests/graphs"), folder.path().join("tests/graphs")).unwrap();
    let fences = fences(&page);
    let mut ran = 0;
    for (words, text) in &fences {
        if let Some((_, name)) = words.split_once(' ') {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }
    let binaries = Path::new(env!("CARGO_BIN_EXE_tallow")).parent().unwrap().to_owned();
    let path = std::env::join_paths(
        [binaries].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )
    .unwrap();
    for (_, commands) in fences.iter().filter(|(words, _)| words == "sh") {
        for line in commands.lines().filter(|l| !l.trim().is_empty()) {
            // Drawing needs Graphviz, which a test cannot ask for.
            let line = line.split(" | dot ").next().unwrap();
            let output = std::process::Command::new("sh")
                .args(["-e", "-c", line])
                .current_dir(folder.path())
                .env("PATH", &path)
                .env("TALLOW_CACHE", folder.path().join("cache"))
                .output()
                .unwrap();
            assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
            ran += usize::from(line.contains("tallow "));
        }
    }
    assert!(ran >= 10, "only {ran} commands on the page");
}
