//! The command end to end: text, graph runs, imports, and what bad input gives.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens").join(name)
}

/// The command with a cache folder of its own.
fn tallow(cache: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallow"));
    command.env("TALLOW_CACHE", cache).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    let cache = tempfile::tempdir().unwrap();
    tallow(cache.path()).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The exit code and what stderr says of an error: exactly one line that begins with `error:`.
fn error(output: &Output) -> (i32, String) {
    let stderr = text(&output.stderr);
    let errors: Vec<_> = stderr.lines().filter(|l| l.starts_with("error:")).collect();
    assert_eq!(errors.len(), 1, "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    (output.status.code().unwrap(), stderr.clone())
}

#[test]
fn stdout_holds_the_story_and_stderr_the_statistics() {
    let out = run(&["run", "Tell me a story about a fox.", "--temperature", "0"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let story = text(&out.stdout);
    assert!(story.starts_with("Once upon a time") && story.ends_with('\n'), "{story}");
    let statistics = text(&out.stderr);
    assert!(statistics.contains("prefill") && statistics.contains("decode"), "{statistics}");
    let quiet = run(&["--quiet", "run", "Tell me a story about a fox.", "--temperature", "0"]);
    assert_eq!((text(&quiet.stdout), text(&quiet.stderr)), (story, String::new()));
}

#[test]
fn a_prompt_may_come_on_stdin_and_json_is_one_object() {
    let cache = tempfile::tempdir().unwrap();
    let mut child = tallow(cache.path())
        .args(["run", "--json", "--seed", "3", "-n", "12"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all("A story about a crow, please.\n".as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(value["tokens"], 12);
    assert_eq!(value["ended"], "length");
    assert_eq!(value["ids"].as_array().unwrap().len(), 12);
}

#[test]
fn chat_keeps_history_and_knows_its_commands() {
    let cache = tempfile::tempdir().unwrap();
    let mut child = tallow(cache.path())
        .args(["chat", "--temperature", "0", "-n", "10"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = "Tell me about Pip the fox.\n/what\n/reset\nTell me about Pip the fox.\n/exit\n";
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success());
    let answers = text(&out.stdout);
    let answers: Vec<_> = answers.lines().collect();
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert_eq!(answers[0], answers[1]);
    assert!(text(&out.stderr).contains("/what is no command"));
}

#[test]
fn a_folder_runs_on_given_ids_and_is_imported_once() {
    let cache = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = golden("qwen3-plain");
    let go = |output: &Path| {
        tallow(cache.path())
            .args(["run", source.to_str().unwrap(), "--input", "input_ids=1,2,3", "--all-logits", "--output"])
            .arg(output)
            .output()
            .unwrap()
    };
    let first = go(folder.path());
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(text(&first.stdout).contains("logits: f32[3, 96] = "), "{}", text(&first.stdout));
    assert!(text(&first.stderr).contains("imported"));
    let second = go(&folder.path().join("all.safetensors"));
    assert!(second.status.success() && !text(&second.stderr).contains("imported"));
    let npy = std::fs::read(folder.path().join("logits.npy")).unwrap();
    assert!(npy.starts_with(b"\x93NUMPY") && npy.len() == 128 + 3 * 96 * 4);
    assert!(folder.path().join("all.safetensors").exists());
    // The same file again as input.
    let ids = folder.path().join("ids.npy");
    let header = "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    for id in [1i64, 2, 3] {
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    std::fs::write(&ids, bytes).unwrap();
    let third = tallow(cache.path())
        .args(["run", source.to_str().unwrap(), "--all-logits", "--output"])
        .arg(folder.path().join("again"))
        .arg("--input")
        .arg(format!("input_ids={}", ids.display()))
        .output()
        .unwrap();
    assert!(third.status.success(), "{}", text(&third.stderr));
    assert_eq!(std::fs::read(folder.path().join("again/logits.npy")).unwrap(), npy);
}

/// A model `x: f32[S, 12], flag: bool[N]` with the outputs `y`, which is `x`, and `other`, which is not `flag`.
fn two_outputs(folder: &Path) -> String {
    let header = r#"{"w":{"dtype":"F32","shape":[12],"data_offsets":[0,48]}}"#;
    let weights = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 48]].concat();
    std::fs::write(folder.join("w.safetensors"), weights).unwrap();
    let graph = "graph {\n  input %x: f32[S, 12]\n  input %flag: bool[N]\n  weight %w = \"w\": f32[12]\n  \
         %y: f32[S, 12] = Add(%x, %w)\n  %other: bool[N] = Not(%flag)\n  output y = %y\n  output other = %other\n}\n";
    std::fs::write(folder.join("graph.txt"), graph).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (graph, model) = (format!("--graph={}", path("graph.txt")), path("two.model"));
    let out = run(&["import", &path("w.safetensors"), &graph, "--model-type", "tiny", "-o", &model]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    model
}

#[test]
fn lists_and_truth_values_are_inputs_and_outputs_show_their_values() {
    let folder = tempfile::tempdir().unwrap();
    let model = two_outputs(folder.path());
    let (x, list) = (format!("x=0.1,1e20{}", ",2.5".repeat(22)), "flag=true,false,true");
    let out = run(&["run", &model, "--input", &x, "--input", list]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(
        text(&out.stdout),
        "y: f32[2, 12] = 0.1, 1e20, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, …\nother: bool[3] = false, true, false\n"
    );
    let out = run(&["run", &model, "--input", &x, "--input", list, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&json["outputs"][0]["dtype"], &json["outputs"][0]["values"][0]), (&"f32".into(), &0.1.into()));
    assert_eq!(json["outputs"][0]["values"].as_array().unwrap().len(), 24);
    assert_eq!(json["outputs"][1]["values"], serde_json::json!([false, true, false]));
    // More values than the object holds.
    let many = format!("x=0{}", ",0".repeat(12 * 342 - 1));
    let out = run(&["run", &model, "--input", &many, "--input", list, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json["outputs"][0]["shape"], serde_json::json!([342, 12]));
    assert!(json["outputs"][0].as_object().unwrap()["values"].is_null());

    for (input, causes) in [
        ("x=1,2,3", &["input `x`: holds 3 numbers", "f32[S, 12]", "multiple of 12", ".npy"][..]),
        ("x=abc", &["input `x`: `abc` is no file", ".safetensors", "1,2,3", "true,false"]),
        ("x=abc.npy", &["input `x`: `abc.npy` is no file"]),
        ("z=abc", &["input `z`: is no input", "flag: bool["]),
        ("x", &["NAME=1,2,3"]),
    ] {
        let (code, message) = error(&run(&["run", &model, "--input", input, "--input", list]));
        assert_eq!(code, 2);
        assert!(causes.iter().all(|cause| message.contains(cause)), "{message}");
    }
    let (code, message) = error(&run(&["run", &model, "--input", &x, "--input", "flag=0,2"]));
    assert_eq!(code, 2);
    assert!(message.contains("input `flag`: holds 2"), "{message}");
}

#[test]
fn outputs_become_files_that_read_back_and_no_folder_with_a_file_s_name() {
    let folder = tempfile::tempdir().unwrap();
    let model = two_outputs(folder.path());
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let x = format!("x={}", ["2.5"; 12].join(","));
    let go = |inputs: [&str; 2], output: &str| {
        run(&["run", &model, "--input", inputs[0], "--input", inputs[1], "--output", output])
    };
    for name in ["y.npy", "y.npz", "y.txt", "y.json", "y.csv", "y.bin", "y.pt"] {
        let (code, message) = error(&go([&x, "flag=true"], &at(name)));
        assert_eq!(code, 2);
        assert!(message.contains("a folder") && message.contains("one .safetensors file"), "{message}");
        assert!(!Path::new(&at(name)).exists());
    }
    assert!(go([&x, "flag=true,false"], &at("out")).status.success());
    let flags = std::fs::read(at("out/other.npy")).unwrap();
    assert!(text(&flags[10..flags.len() - 2]).contains("'|u1'") && flags.ends_with(&[0, 1]));
    let again =
        go([&format!("x={}", at("out/y.npy")), &format!("flag={}", at("out/other.npy"))], &at("all.safetensors"));
    assert!(text(&again.stdout).contains("other: bool[2] = true, false\n"), "{}", text(&again.stderr));
    // Each input out of one file of several tensors; one of an element type that none takes does no harm.
    let header = r#"{"x":{"dtype":"F64","shape":[1,12],"data_offsets":[0,96]},"flag":{"dtype":"BOOL","shape":[2],"data_offsets":[96,98]},"c":{"dtype":"C64","shape":[1],"data_offsets":[98,106]}}"#;
    let mut bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    bytes.extend((0..12).flat_map(|n| f64::from(n).to_le_bytes()));
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    std::fs::write(at("in.safetensors"), bytes).unwrap();
    let both = [format!("x={}", at("in.safetensors")), format!("flag={}", at("in.safetensors"))];
    let out = go([&both[0], &both[1]], &at("third"));
    assert!(text(&out.stdout).contains("y: f32[1, 12] = 0, 1, 2, 3, 4, 5, 6, 7, …\nother: bool[2] = false, true\n"));

    let golden = golden("qwen3-plain");
    let arguments = ["run", golden.to_str().unwrap(), "--input", "input_ids=1,2,3", "--output", &at("logits.npy")];
    let out = run(&arguments);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(std::fs::read(at("logits.npy")).unwrap().starts_with(b"\x93NUMPY"));
    let (code, message) = error(&run(&arguments));
    assert_eq!(code, 2);
    assert!(message.contains("--force") && !message.contains("-o"), "{message}");
}

#[test]
fn inputs_that_do_not_fit_are_named_with_what_is_expected() {
    let (code, message) = error(&run(&["run", golden("qwen3-plain").to_str().unwrap(), "--input", "ids=1,2"]));
    assert_eq!(code, 2);
    assert!(message.contains("`ids`") && message.contains("input_ids: i64[S]"), "{message}");
    let (code, message) = error(&run(&["run", golden("qwen3-plain").to_str().unwrap(), "--input", "input_ids=1,960"]));
    assert_eq!(code, 3);
    assert!(message.contains("960") && message.contains("96"), "{message}");
}

#[test]
fn the_graph_compiles_to_text_and_to_hex() {
    let folder = tempfile::tempdir().unwrap();
    for (name, beginning) in [("g.txt", "graph"), ("g.hex", "")] {
        let path = folder.path().join(name);
        let out = run(&["compile", "-o", path.to_str().unwrap()]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert!(std::fs::read_to_string(&path).unwrap().starts_with(beginning));
    }
    let hex = std::fs::read_to_string(folder.path().join("g.hex")).unwrap();
    assert!(hex.trim().chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c)));
    let (code, message) = error(&run(&["compile", "-o", folder.path().join("g.pdf").to_str().unwrap()]));
    assert_eq!(code, 2);
    assert!(message.contains(".txt, .hex, .toml"), "{message}");
}

#[test]
fn a_model_that_cannot_run_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (code, message) = error(&run(&["run", "/no/such/file.model", "x"]));
    assert_eq!(code, 3);
    assert!(message.contains("/no/such/file.model"), "{message}");
    let (code, _) = error(&run(&["run", &write("empty.model", b""), "x"]));
    assert_eq!(code, 3);
    let (code, message) = error(&run(&["run", &write("tiny.gguf", b"GGUF\x03\0\0\0"), "x"]));
    assert_eq!(code, 3);
    assert!(message.contains("tiny.gguf"), "{message}");
    let (code, message) = error(&run(&["run", "--path", "graph", "Hello"]));
    assert_eq!(code, 2);
    assert!(message.contains("no graph section"), "{message}");
    let (code, message) = error(&run(&["run", "--context", "8", "Tell me a story about a fox and a bear and a crow."]));
    assert_eq!(code, 2);
    assert!(message.contains("context of 8"), "{message}");
    let (code, message) = error(&run(&["run", "--top-p", "1.5", "Hello"]));
    assert_eq!(code, 2);
    assert!(message.contains("1.5"), "{message}");
}

/// The limit on file sizes stands in for a full disk: writing fails in the middle.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_fills_up_while_importing_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "trap '' XFSZ; ulimit -f 20; exec {} import {} -o {}/out.model",
        env!("CARGO_BIN_EXE_tallow"),
        golden("llama-plain").display(),
        folder.path().display()
    );
    let out = Command::new("sh").args(["-c", &script]).output().unwrap();
    let (code, message) = error(&out);
    assert_eq!(code, 3);
    assert!(message.contains("out.model"), "{message}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_import_cut_short_at_any_place_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(golden("gguf/qwen3-plain.gguf")).unwrap();
    for percent in [1, 25, 50, 90, 99] {
        let source = folder.path().join("cut.gguf");
        std::fs::write(&source, &whole[..whole.len() * percent / 100]).unwrap();
        let output = folder.path().join("out");
        std::fs::create_dir_all(&output).unwrap();
        let out = run(&["import", source.to_str().unwrap(), "-o", output.join("x.model").to_str().unwrap()]);
        let (code, message) = error(&out);
        assert_eq!(code, 3, "{message}");
        assert!(message.contains("cut.gguf"), "{message}");
        assert_eq!(std::fs::read_dir(&output).unwrap().count(), 0);
    }
}

#[test]
fn an_existing_output_is_not_replaced_without_force() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("x.model");
    std::fs::write(&output, "mine").unwrap();
    let arguments =
        ["import", golden("qwen3-plain").to_str().unwrap(), "-o", output.to_str().unwrap()].map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (code, message) = error(&run(&arguments));
    assert_eq!(code, 2);
    assert!(message.contains("--force"), "{message}");
    assert_eq!(std::fs::read(&output).unwrap(), b"mine");
    let dry = run(&[&arguments[..], &["--dry-run"]].concat());
    assert!(dry.status.success() && text(&dry.stdout).contains("encoding"));
    assert_eq!(std::fs::read(&output).unwrap(), b"mine");
    assert!(run(&[&arguments[..], &["--force"]].concat()).status.success());
    assert!(std::fs::metadata(&output).unwrap().len() > 1000);
}

#[test]
fn nothing_that_exists_is_overwritten_by_chance() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source.gguf");
    std::fs::copy(golden("gguf/qwen3-plain.gguf"), &source).unwrap();
    let before = std::fs::read(&source).unwrap();
    let name = source.to_str().unwrap();
    let (code, message) = error(&run(&["import", name, "-o", name, "--force"]));
    assert_eq!(code, 2);
    assert!(message.contains("belongs to the source"), "{message}");
    let (code, message) = error(&run(&["compile", name, "--format", "txt", "-o", name]));
    assert_eq!(code, 2);
    assert!(message.contains("--force"), "{message}");
    let output = folder.path().join("out.safetensors");
    let input = ["run", name, "--input", "input_ids=1,2", "--output", output.to_str().unwrap()];
    assert!(run(&input).status.success());
    let (code, message) = error(&run(&input));
    assert_eq!(code, 2);
    assert!(message.contains("--force"), "{message}");
    assert!(run(&[&input[..], &["--force"]].concat()).status.success());
    assert_eq!(std::fs::read(&source).unwrap(), before);
    let (code, message) = error(&run(&["run", name, "--input", "input_ids=1.5"]));
    assert_eq!(code, 2);
    assert!(message.contains("1.5"), "{message}");
}
