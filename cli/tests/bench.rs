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
        assert!(error.contains("What can be measured: "), "{error}");
        let error = tallow(folder.path(), &[command, "none.model"]).fails(3);
        assert!(error.contains("none.model"), "{error}");
    }
}

#[test]
fn values_that_no_run_can_have_are_errors_that_name_the_option() {
    let folder = tempfile::tempdir().unwrap();
    let huge = usize::MAX.to_string();
    let refused = |arguments: &[&str], parts: &[&str]| {
        let ran = tallow(folder.path(), arguments);
        let error = ran.fails(2);
        assert!(parts.iter().all(|part| error.contains(part)), "{arguments:?}: {error}");
    };
    for (option, value, why) in [
        ("--prefill", "4,", "a number is missing"),
        ("--prefill", "", "a number is missing"),
        ("--depth", "0,,1", "a number is missing"),
        ("--depth", "1.5", "invalid digit"),
        ("--repetitions", "0", "give 1 or more"),
        ("--threads", "1025", "give at most 1024"),
        ("--threads", "x", "invalid digit"),
        ("--context", "0", "give 1 or more"),
        ("--cache", "f64", "possible values"),
        ("--packed-cache", "yes", "possible values"),
    ] {
        refused(&["bench", &format!("{option}={value}")], &[option, why]);
    }
    for (options, parts) in [
        (&["--tokens", "0"][..], &["--tokens", "give 1 or more"][..]),
        (&["--tokens", &huge], &["--tokens", "the context holds 1024"]),
        (&["--tokens", "1000", "--decode", "25"], &["need 1025", "--context"]),
        (&["--decode", &huge], &["--decode", "the context holds 1024"]),
        (&["--force"], &["--trace"]),
    ] {
        refused(&[&["profile"], options].concat(), parts);
    }
    // What does not fit is said at the end of a measurement, and the rest is measured.
    for depth in [huge.as_str(), "1023"] {
        let all = ["bench", "--repetitions", "1", "--prefill", &huge, "--decode", &huge, "--depth", depth];
        let shown = tallow(folder.path(), &all).fine();
        assert_eq!(shown.matches("the context holds 1024\n").count(), 2, "{shown}");
    }
    assert_eq!(listing(folder.path()), [""; 0], "nothing is left behind");
}

#[test]
fn reports_say_what_ran_and_which_peak_is_meant() {
    let folder = tempfile::tempdir().unwrap();
    fn arguments(cache: &str) -> [&str; 11] {
        ["bench", "--repetitions", "1", "--prefill", "4", "--decode", "1", "--depth", "0,900", "--cache", cache]
    }
    let report = |cache: &str| tallow(folder.path(), &[&arguments(cache)[..], &["--json"]].concat()).json();
    let read = |cache: &str| {
        let report = report(cache);
        assert_eq!(report["cache"], cache);
        assert_eq!(report["packed"]["matrices"], report["packed"]["packed"]);
        report["decode"][1]["bytes_per_token"].as_f64().unwrap()
    };
    let (exact, half, small) = (read("f32"), read("f16"), read("q8"));
    assert!(exact > half && half > small, "{exact} {half} {small}");
    let shown = tallow(folder.path(), &arguments("q8")).fine();
    let (first, last) = (shown.lines().next().unwrap(), shown.lines().find(|l| l.starts_with("the peak is")).unwrap());
    let found = report("q8");
    let name = |what: &str| found[what].as_str().unwrap().to_owned();
    assert!(first.contains(&name("instruction_set")) && first.contains("q8 cache · 1 repetition"), "{first}");
    assert!(last.contains(&name("peak_instruction")), "{last}");
    for depth in [0, 900] {
        assert!(shown.lines().any(|l| l.starts_with("a token reads ") && l.ends_with(&format!("depth {depth}"))));
    }
    let found = tallow(folder.path(), &["profile", "--tokens", "1", "--decode", "0", "--json"]).json();
    assert_eq!([&found["instruction_set"], &found["cache"]], [&name("instruction_set"), "f16"]);
}

#[test]
fn a_trace_replaces_nothing_but_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let original = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/storyteller.model")).unwrap();
    let model = folder.path().join("s.model");
    std::fs::write(&model, &original).unwrap();
    let run = |rest: &[&str]| {
        tallow(folder.path(), &[&["profile", "s.model", "--tokens", "1", "--decode", "1"], rest].concat())
    };
    for trace in ["s.model", "./cache/../s.model"] {
        std::fs::create_dir_all(folder.path().join("cache")).unwrap();
        let error = run(&["--trace", trace, "--force"]).fails(2);
        assert!(error.contains("belongs to the model") && error.contains("--trace"), "{error}");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("s.model", folder.path().join("link.json")).unwrap();
        assert!(run(&["--trace", "link.json", "--force"]).fails(2).contains("belongs to the model"));
        std::fs::remove_file(folder.path().join("link.json")).unwrap();
        assert!(run(&["--trace", "/dev/null", "--force"]).fails(2).contains("--trace"));
    }
    assert!(std::fs::read(&model).unwrap() == original, "the model is as it was");
    assert!(run(&["--trace", "none/t.json"]).fails(2).contains("none/t.json"));
    assert!(run(&["--trace", "cache", "--force"]).fails(2).contains("folder"));
    // A run that fails leaves the old trace.
    std::fs::write(folder.path().join("t.json"), "old").unwrap();
    run(&["--trace", "t.json", "--force", "--context", "1"]).fails(2);
    assert_eq!(std::fs::read(folder.path().join("t.json")).unwrap(), b"old");
    run(&["--trace", "t.json", "--force"]).fine();
    let trace: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("t.json")).unwrap()).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 10);
    assert_eq!(listing(folder.path()), ["cache", "s.model", "t.json"]);
}

#[test]
fn who_asked_for_packed_files_is_told_that_there_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/storyteller.model");
    std::fs::copy(original, folder.path().join("s.model")).unwrap();
    let bench = ["bench", "s.model", "--repetitions", "1", "--prefill", "2", "--decode", "0"];
    let profile = ["profile", "s.model", "--tokens", "2", "--decode", "0"];
    let run = ["run", "s.model", "Once", "-n", "1", "--temperature", "0"];
    for arguments in [&bench[..], &profile, &run] {
        let with =
            |choice, json: &[&str]| tallow(folder.path(), &[arguments, &["--packed-cache", choice], json].concat());
        let packed = folder.path().join("cache/packed");
        let _ = std::fs::remove_dir_all(folder.path().join("cache"));
        std::fs::create_dir(folder.path().join("cache")).unwrap();
        // True also for a user who may write everywhere.
        std::fs::write(&packed, "mine").unwrap();
        let told = with("on", &[]);
        assert_eq!(told.code, 0);
        assert!(["warning: ", "not kept", "TALLOW_CACHE"].iter().all(|p| told.stderr.contains(p)), "{}", told.stderr);
        let report = with("on", &["--json"]).json();
        assert!(report["packed"]["warnings"][0].as_str().unwrap().contains("not kept"), "{report}");
        assert!(!with("off", &[]).stderr.contains("warning"));
        assert!(!with("auto", &[]).stderr.contains("warning"));
        assert_eq!(std::fs::read(&packed).unwrap(), b"mine");
        std::fs::remove_file(&packed).unwrap();
        assert!(!with("on", &[]).stderr.contains("warning"));
        let report = with("on", &["--json"]).json();
        assert!(report["packed"]["mapped"] == report["packed"]["matrices"], "{report}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_limit_on_file_sizes_ends_no_run_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/storyteller.model");
    std::fs::copy(original, folder.path().join("s.model")).unwrap();
    let line = format!(
        "ulimit -f 500; exec '{}' run s.model Once -n 1 --packed-cache on --temperature 0",
        env!("CARGO_BIN_EXE_tallow")
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &line]).current_dir(folder.path()).env("TALLOW_CACHE", folder.path().join("cache"));
    let ran = command.output().unwrap();
    let error = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success() && error.contains("not kept") && error.contains("ulimit"), "{error}");
    assert_eq!(listing(&folder.path().join("cache/packed")), [""; 0]);
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

/// What tiny models of each kind are called here, the folder of their case, and what their `bench` measures.
const KINDS: [(&str, &str, &[&str]); 8] = [
    ("bert", "goldens-encoder/bert-bare", &["texts of 8, 3 a call"]),
    ("t5", "goldens-seq2seq/t5-plain", &["source of 8", "decode of 2 at depth 0"]),
    ("bart", "goldens-seq2seq/bart-plain", &["source of 8", "decode of 2 at depth 4"]),
    (
        "whisper",
        "goldens-speech/english",
        &["window of 1 s", "decode of 2 at depth 0", "real-time factor, 2 tokens a window"],
    ),
    ("vit", "goldens-vision/vit-labels", &["picture of 24 × 24"]),
    ("resnet", "goldens-vision/resnet-bottleneck", &["picture of "]),
    ("clip", "goldens-vision/clip-pair", &["picture of 24 × 24", "texts of 8, 3 a call"]),
    ("qwen2_vl", "goldens-vl/qwen2_vl-plain", &["picture of ", "prefill of 4", "decode of 2 at depth 4"]),
];

fn case(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests").join(path).display().to_string()
}

#[test]
fn bench_measures_every_kind_of_model() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, path, lines) in KINDS {
        let arguments = |more: &[&'static str]| -> Vec<String> {
            let first = ["bench", "--repetitions", "1", "--length", "8", "--batch", "24", "--prefill", "4"];
            let rest = ["--decode", "2", "--depth", "0,4"];
            first.iter().chain(&rest).chain(more).map(|s| (*s).to_owned()).chain([case(path)]).collect()
        };
        let run = |more: &[&'static str]| {
            tallow(folder.path(), &arguments(more).iter().map(String::as_str).collect::<Vec<_>>())
        };
        // Measuring takes a moment, and these have all kinds of lines.
        if ["bert", "resnet", "whisper"].contains(&kind) {
            let ran = run(&[]);
            let told = |option: &str| ran.stderr.contains(&format!("{option} has no effect"));
            assert!(told("--prefill") && told("--length") == (kind != "bert"), "{kind}: {}", ran.stderr);
            assert!(told("--depth") == (kind != "whisper"), "{kind}: {}", ran.stderr);
            let shown = ran.fine();
            for line in lines {
                assert!(shown.lines().any(|l| l.starts_with(line)), "{kind}: {line}: {shown}");
            }
        }
        let json = run(&["--json"]).json();
        let encode = json["encode"].as_array().unwrap();
        let whole = lines.iter().filter(|l| ["texts", "source", "window", "picture"].iter().any(|w| l.starts_with(w)));
        assert_eq!(encode.len(), whole.count(), "{kind}: {json}");
        for part in encode {
            let median = |key: &str| part[key]["median"].as_f64().unwrap();
            assert!(median("seconds") > 0.0 && part["multiply_adds"].as_f64().unwrap() > 0.0, "{kind}: {part}");
            assert!(median("share_of_peak") > 0.0);
            let counted = part["multiply_adds"].as_f64().unwrap();
            match kind {
                // 24 tokens of 4 · 48² + 2 · 48², three texts of 2 · 8² · 48, three times the pooler.
                "bert" => assert_eq!(counted, (24 * 6 * 48 * 48 + 3 * 2 * 64 * 48 + 3 * 48 * 48) as f64),
                // 9 patches of 3 · 8² numbers; two layers with 10 tokens of 18, inside of 26; five labels.
                "vit" => assert_eq!(
                    counted,
                    (9 * 18 * 192 + 2 * (10 * (4 * 18 * 18 + 2 * 18 * 26) + 2 * 100 * 18) + 5 * 18) as f64
                ),
                "resnet" => assert!(counted > 10_000.0, "convolutions count, {counted}"),
                _ => {}
            }
            match part["what"].as_str().unwrap() {
                "texts" => {
                    assert_eq!((part["texts"].as_u64(), part["length"].as_u64()), (Some(3), Some(8)));
                    assert!((median("tokens_per_second") / median("texts_per_second") - 8.0).abs() < 1e-6);
                }
                "source" => assert!(median("tokens_per_second") > 0.0),
                "picture" => assert!((median("pictures_per_second") * median("seconds") - 1.0).abs() < 1e-6),
                "window" => assert_eq!(part["sound_seconds"], 1.0),
                other => panic!("{other}"),
            }
        }
        let writes = lines.iter().any(|l| l.starts_with("decode"));
        assert_eq!(json["decode"].as_array().unwrap().len(), if writes { 2 } else { 0 }, "{kind}");
        let first = if writes { "first_token_seconds" } else { "first_result_seconds" };
        assert!(json[first]["median"].as_f64().unwrap() > 0.0, "{kind}");
        assert_eq!(json["real_time_factor"].is_null(), kind != "whisper");
    }
}

#[test]
fn profile_shows_every_kind_of_model() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, path, lines) in KINDS {
        let run = |more: &[&str]| {
            tallow(folder.path(), &[&["profile", &case(path), "--tokens", "8", "--decode", "3"], more].concat())
        };
        let json = run(&["--json", "--trace", &format!("{kind}.json")]).json();
        let phases = json["phases"].as_array().unwrap();
        let names: Vec<&str> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
        let wanted: &[&str] = match kind {
            "clip" => &["encode", "encode"],
            "t5" | "bart" | "whisper" => &["encode", "decode"],
            "qwen2_vl" => &["encode", "prefill", "decode"],
            _ => &["encode"],
        };
        assert_eq!(names, wanted, "{kind}");
        for phase in phases {
            let lines = phase["operations"].as_array().unwrap();
            assert!(lines.iter().any(|l| l["multiply_adds_per_second"].as_f64().is_some_and(|r| r > 0.0)), "{phase}");
            let shares: f64 = lines.iter().map(|l| l["share"].as_f64().unwrap()).sum();
            let outside = phase["seconds_outside_steps"].as_f64().unwrap() / phase["seconds"].as_f64().unwrap();
            assert!((shares + outside - 1.0).abs() < 1e-6, "{kind}: {shares} {outside}");
        }
        let trace = std::fs::read(folder.path().join(format!("{kind}.json"))).unwrap();
        let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
        assert!(trace["traceEvents"].as_array().unwrap().len() > 10);
        let shown = run(&[]).fine();
        assert!(shown.starts_with(&format!("encode · {}", lines[0].split(',').next().unwrap())), "{kind}: {shown}");
    }
}

#[test]
fn what_is_too_long_for_a_model_is_said() {
    let folder = tempfile::tempdir().unwrap();
    for (path, what) in [
        ("goldens-encoder/bert-bare", "texts of 100000: the model takes"),
        ("goldens-seq2seq/bart-plain", "a source of 100000: the model takes"),
    ] {
        let path = case(path);
        let bench = ["bench", &path, "--repetitions", "1", "--length", "100000", "--decode", "1", "--depth", "0"];
        let shown = tallow(folder.path(), &bench).fine();
        assert!(shown.contains(&format!("skipped: {what}")), "{shown}");
        let error = tallow(folder.path(), &["profile", &path, "--tokens", "100000"]).fails(2);
        assert!(error.contains(what) && error.contains("--tokens"), "{error}");
    }
    // A picture of any size, by a model that does not say which.
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens-vision/resnet-basic");
    for command in ["bench", "profile"] {
        let from = from.display().to_string();
        tallow(folder.path(), &["import", &from, "-o", "r.model", "--force"]).fine();
        let error = tallow(folder.path(), &[command, "r.model"]).fails(2);
        assert!(error.contains("`[architecture.processor]`, which is missing here"), "{error}");
    }
}
