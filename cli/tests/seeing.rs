//! `run --image` with a model that writes about pictures, as a user calls it.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::tallow;
use std::path::{Path, PathBuf};

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens-vl/qwen2_vl-plain")
}

#[test]
fn pictures_and_a_prompt_become_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| goldens().join(name).display().to_string();
    tallow(folder.path(), &["import", &goldens().display().to_string(), "-o", "m.model", "--encoding", "u32"]).fine();
    let golden: serde_json::Value = serde_json::from_slice(&std::fs::read(path("golden.json")).unwrap()).unwrap();
    let text = |at: usize| golden[at]["text"].as_str().unwrap().to_owned();
    let run = |arguments: &[&str]| tallow(folder.path(), &[&["run", "m.model", "-n", "10"], arguments].concat());
    let (wide, tall) = (path("wide.png"), path("tall.png"));
    let prompt = golden[1]["content"][1]["text"].as_str().unwrap();

    let json = run(&["--image", &wide, prompt, "--json"]).json();
    assert_eq!(json["text"], text(1));
    assert!(json["prompt_tokens"].as_u64().unwrap() > 15 && json["tokens"].as_u64().unwrap() > 0, "{json}");
    // The prompt may come first, and its text streams.
    assert_eq!(run(&[prompt, "--image", &wide]).fine().trim_end_matches('\n'), text(1).trim_end_matches('\n'));
    let mark = "<|vision_start|><|image_pad|><|vision_end|>";
    let between = format!(
        "{mark}{}{mark}{}",
        golden[2]["content"][1]["text"].as_str().unwrap(),
        golden[2]["content"][3]["text"].as_str().unwrap()
    );
    assert_eq!(run(&["--image", &wide, "--image", &tall, "--json", &between]).json()["text"], text(2));
    // A text without a picture is one like any other.
    assert_eq!(run(&["--json", golden[0]["content"].as_str().unwrap()]).json()["text"], text(0));
    run(&["--image", &wide, "--system", "Be brief.", "--json", prompt]).json();
    let tower = tallow(folder.path(), &["dump", "m.model", "--graph", "encoder"]).fine();
    assert!(tower.contains("SegmentAttention") && tower.contains("output picture"), "{tower}");
    let checked = tallow(folder.path(), &["check", "m.model"]).fine();
    assert!(!checked.contains("nothing reads"), "{checked}");
}

#[test]
fn what_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    tallow(folder.path(), &["import", &goldens().display().to_string(), "-o", "m.model", "--encoding", "u32"]).fine();
    let wide = goldens().join("wide.png").display().to_string();
    let run = |arguments: &[&str]| tallow(folder.path(), &[&["run", "m.model"], arguments].concat());
    assert!(run(&["--image", &wide]).fails(2).contains("needs a PROMPT beside --image"));
    assert!(run(&["what?", "--image", "none.png"]).fails(3).contains("none.png"));
    assert!(run(&["<|image_pad|> what?"]).fails(2).contains("--image"));
}

#[test]
fn the_model_the_pictures_and_the_prompt_may_stand_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    tallow(folder.path(), &["import", &goldens().display().to_string(), "-o", "m.model", "--encoding", "u32"]).fine();
    for name in ["wide.png", "tall.png"] {
        std::fs::copy(goldens().join(name), folder.path().join(name)).unwrap();
    }
    let golden = std::fs::read(goldens().join("golden.json")).unwrap();
    let golden: serde_json::Value = serde_json::from_slice(&golden).unwrap();
    let prompt = golden[1]["content"][1]["text"].as_str().unwrap();
    let run = |arguments: &[&str]| {
        let rest = ["-n", "6", "--temperature", "0", "--json"];
        tallow(folder.path(), &[&["run"], arguments, &rest].concat()).json()["ids"].clone()
    };
    let one = run(&["m.model", prompt, "--image", "wide.png"]);
    for order in [
        &["m.model", "--image", "wide.png", prompt][..],
        &["m.model", "--image", "wide.png", "--", prompt],
        &["m.model", "--image=wide.png", prompt],
        &["--image", "wide.png", "--seed", "1", "m.model", prompt],
        &["--image", "wide.png", "m.model", prompt],
        &["m.model", "--image", "wide.png", "--text", prompt],
        &["--image", "wide.png", "--text", prompt, "m.model"],
        &["--text", prompt, "--image", "wide.png", "m.model"],
    ] {
        if order.contains(&"--") {
            let arguments = [&["run", "-n", "6", "--temperature", "0", "--json"], order].concat();
            assert_eq!(tallow(folder.path(), &arguments).json()["ids"], one, "{order:?}");
            continue;
        }
        assert_eq!(run(order), one, "{order:?}");
    }
    let two = run(&["m.model", prompt, "--image", "wide.png", "tall.png"]);
    assert_ne!(two, one);
    for order in [
        &["m.model", prompt, "--image", "wide.png", "--image", "tall.png"][..],
        &["m.model", "--image", "wide.png", "tall.png", prompt],
        &["m.model", "--image", "wide.png", prompt, "--image", "tall.png"],
        &["m.model", "--image", "wide.png", "--image", "tall.png", prompt],
        &["--image", "wide.png", "tall.png", "m.model", prompt],
        &["--image", "wide.png", "--image", "tall.png", "m.model", prompt],
    ] {
        assert_eq!(run(order), two, "{order:?}");
    }
    let error = tallow(folder.path(), &["run", "--image", "m.model"]).fails(2);
    assert!(error.contains("m.model is a model") && error.contains("--image FILE"), "{error}");
}
