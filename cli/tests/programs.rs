//! Programs as a user compiles, checks and runs them.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::*;
use std::path::{Path, PathBuf};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// A folder with `tiny.model`, its config and tensor index, and the decoders of the library.
fn folder() -> tempfile::TempDir {
    let (folder, _) = tiny();
    for name in ["decoder.rs", "decoder.tri"] {
        std::fs::copy(repository(&format!("programs/{name}")), folder.path().join(name)).unwrap();
    }
    for section in ["config", "tensors"] {
        let text = tallow(folder.path(), &["cat", "tiny.model", section]).fine();
        std::fs::write(folder.path().join(format!("{section}.toml")), text).unwrap();
    }
    folder
}

fn write(folder: &tempfile::TempDir, name: &str, text: &str) {
    std::fs::write(folder.path().join(name), text).unwrap();
}

fn read(folder: &tempfile::TempDir, name: &str) -> String {
    std::fs::read_to_string(folder.path().join(name)).unwrap()
}

#[test]
fn a_program_compiles_to_the_graph_of_its_type() {
    let folder = folder();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let ran = run(&["compile", "decoder.rs", "--config", "config.toml", "--tensors", "tensors.toml", "-o", "a.txt"]);
    assert!(ran.stderr.contains("generates text from the prompt, top-p 0.9 at temperature 0.7"), "{}", ran.stderr);
    ran.fine();
    run(&["compile", "decoder.tri", "--model", "tiny.model", "-o", "b.txt"]).fine();
    run(&["compile", "tiny.model", "-o", "c.txt"]).fine();
    for program in ["decoder.rs", "decoder.tri"] {
        run(&["edit", "tiny.model", "--set", &format!("program={program}"), "-o", "m.model", "--force"]).fine();
        let text = run(&["check", "m.model"]).fine();
        assert!(text.contains("program = family: the same graph"), "{text}");
        let first =
            run(&["run", "m.model", "--path", "program", "ab", "--raw", "--temperature", "0", "-n", "6"]).fine();
        assert_eq!(first, run(&["run", "m.model", "ab", "--raw", "--temperature", "0", "-n", "6"]).fine());
        let graph = run(&["compile", "m.model", "--path", "program", "--format", "json"]).json();
        assert_eq!(
            graph["nodes"].as_array().unwrap().len(),
            run(&["compile", "m.model", "--format", "json"]).json()["nodes"].as_array().unwrap().len()
        );
    }
    // Without an index there are no biases and no checks of shapes, and the graph is the same here.
    run(&["compile", "decoder.rs", "--config", "config.toml", "-o", "d.txt"]).fine();
    let names =
        |text: String| text.lines().filter(|l| !l.trim_start().starts_with("weight")).collect::<Vec<_>>().join("\n");
    assert_eq!(names(read(&folder, "a.txt")), names(read(&folder, "d.txt")));
}

#[test]
fn mistakes_are_shown_on_the_source_with_exit_codes() {
    let folder = folder();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let faulty = read(&folder, "decoder.rs").replace("a.hidden_size);\n    for", "a.hiden_size);\n    for");
    write(&folder, "faulty.rs", &faulty);
    let ran = run(&["compile", "faulty.rs", "--config", "config.toml"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with("error[E0202]: [architecture] of the config has no key `hiden_size`"),
        "{}",
        ran.stderr
    );
    for part in ["--> faulty.rs:", "^^^^^^^^^^ no such key", "= help: did you mean `hidden_size`?"] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    write(&folder, "trait.rs", "trait Shape {}\npub fn forward() {}\n");
    assert_eq!(run(&["compile", "trait.rs", "--config", "config.toml"]).code, 4);
    write(&folder, "loop.rs", "pub fn forward(x: &Tensor) -> Tensor {\n    loop {}\n}\n");
    let ran = run(&["compile", "loop.rs", "--config", "config.toml"]);
    assert!(ran.code == 3 && ran.stderr.contains("E0601"), "{}", ran.stderr);
    for (arguments, part) in [
        (&["compile", "decoder.rs"][..], "--config FILE, or --model MODEL"),
        (&["compile", "decoder.rs", "--config", "none.toml"], "none.toml"),
        (&["compile", "tiny.model", "--config", "config.toml"], "goes with a program"),
        (
            &["compile", "decoder.rs", "--config", "config.toml", "--graph", "encoder"],
            "no graph `encoder`; it has main",
        ),
        (&["compile", "decoder.rs", "--config", "config.toml", "--path", "family"], "--path is for models"),
        (&["compile", "tiny.model", "--graph", "encoder"], "has no graph `encoder`"),
    ] {
        let ran = run(arguments);
        assert!(matches!(ran.code, 2 | 3) && ran.stderr.contains(part), "{arguments:?}: {} {}", ran.code, ran.stderr);
    }
    // A model whose program does not compile still runs by its family; a check says so.
    run(&["edit", "tiny.model", "--set", "program=faulty.rs", "-o", "m.model"]).fine();
    run(&["run", "m.model", "ab", "--raw", "-n", "2"]).fine();
    assert_eq!(run(&["run", "m.model", "ab", "--raw", "--path", "program"]).code, 3);
    let ran = run(&["check", "m.model"]);
    assert!(ran.code == 1 && ran.text().contains("E0202") && ran.text().contains("gives no graph"), "{}", ran.text());
}

#[test]
fn a_check_shows_where_program_section_and_family_part() {
    let folder = folder();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    // Attention added to the normalised stream, as it would be by mistake.
    let text = read(&folder, "decoder.tri");
    let line = text.lines().find(|l| l.contains("residual_add")).unwrap();
    let changed = text.replace(line, &line.replace("residual_add(h, ", "add(h, ").replace(", a.hidden_size)", ")"));
    write(&folder, "changed.tri", &changed);
    run(&["edit", "tiny.model", "--set", "program=changed.tri", "-o", "m.model"]).fine();
    let text = run(&["check", "m.model"]).fine();
    assert!(text.contains("warning: the program is another computation than the family"), "{text}");
    assert!(text.contains("add(h, "), "{text}");
    let json = run(&["check", "m.model", "--json"]).json();
    assert_eq!(json["comparisons"][0]["equal"], false);
    // A graph section that is another computation is wrong, unless it is meant so.
    run(&["compile", "tiny.model", "-o", "g.txt"]).fine();
    write(&folder, "g.txt", &read(&folder, "g.txt").replacen("eps = 1e-6", "eps = 0.001", 1));
    run(&["edit", "tiny.model", "--graph", "g.txt", "--set", "program=decoder.rs", "-o", "s.model"]).fine();
    let ran = run(&["check", "s.model"]);
    assert!(ran.code == 1 && ran.text().contains("error: the graph section is another computation"), "{}", ran.text());
    assert!(ran.text().contains("RmsNorm: eps 0.001 becomes 1e-6 (attn_norm)"), "{}", ran.text());
    assert_eq!(run(&["check", "s.model", "--allow"]).code, 0);
}

#[test]
fn tensors_a_program_and_a_config_are_a_model() {
    let folder = folder();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    // One matrix [2, 3] and its bias, as safetensors.
    let header = r#"{"net.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"net.bias":{"dtype":"F32","shape":[2],"data_offsets":[24,32]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    for value in [1.0f32, 2.0, 3.0, 0.5, 0.25, -1.0, 10.0, 20.0] {
        bytes.extend(value.to_le_bytes());
    }
    std::fs::write(folder.path().join("w.safetensors"), bytes).unwrap();
    write(&folder, "net.toml", "model_type = \"net\"\n\n[architecture]\nclasses = 2\n");
    let source = "use cyb::nn::{Config, Tensor, Weights};\n\npub fn forward(x: &Tensor, config: &Config, w: &Weights) -> Tensor {\n    let y = w.linear(x, \"net\", config.architecture.classes);\n    y\n}\n";
    write(&folder, "net.rs", source);
    run(&["import", "w.safetensors", "--program", "net.rs", "--config", "net.toml", "-o", "net.model"]).fine();
    let text = run(&["run", "net.model", "--input", "x=1,2,3"]).fine();
    assert!(text.contains("y: f32[1, 2] = 24, 18"), "{text}");
    let text = run(&["inspect", "net.model"]).fine();
    assert!(text.contains("program  yes in rs") && text.contains("of the program's graph"), "{text}");
    // What it takes is said where a text is given, or nothing.
    let error = run(&["run", "net.model", "hello"]).fails(2);
    assert!(error.contains("takes no text but inputs: x: f32[S, 3]"), "{error}");
    write(&folder, "net.rs", &source.replace("\"net\"", "\"nett\""));
    let ran = run(&["import", "w.safetensors", "--program", "net.rs", "--config", "net.toml", "-o", "no.model"]);
    assert!(ran.code == 3 && ran.stderr.contains("E0401") && ran.stderr.contains("net.rs"), "{}", ran.stderr);
    assert!(!listing(folder.path()).contains(&"no.model".to_owned()));
}
