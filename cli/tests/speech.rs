//! `run --audio` as a user calls it.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::tallow;
use std::path::{Path, PathBuf};

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens-speech")
}

#[test]
fn a_sound_goes_in_and_text_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| goldens().join(name).display().to_string();
    tallow(folder.path(), &["import", &path("multilingual"), "-o", "m.model", "--encoding", "u32"]).fine();
    let golden: serde_json::Value =
        serde_json::from_slice(&std::fs::read(goldens().join("multilingual/golden.json")).unwrap()).unwrap();
    let find = |sound: &str, timed: bool| {
        let fits = |r: &&serde_json::Value| r["sound"] == sound && r["timestamps"].as_bool().unwrap_or(false) == timed;
        golden.as_array().unwrap().iter().find(fits).unwrap().clone()
    };
    let run = |arguments: &[&str]| tallow(folder.path(), &[&["run", "m.model", "--audio"], arguments].concat());

    let wanted = find("short", false);
    let short = path("sounds/short.wav");
    let json = run(&[&short, "--language", "de", "--json"]).json();
    assert_eq!(json["text"], wanted["text"]);
    assert_eq!((json["language"].as_str(), json["ended"].as_str()), (Some("de"), Some("end")));
    assert_eq!(json["segments"][0]["tokens"], wanted["segments"][0]["tokens"]);
    let cut = run(&[&short, "--language", "de", "-n", "3", "--json"]).json();
    assert_eq!((cut["ended"].as_str(), cut["segments"][0]["tokens"].as_array().unwrap().len()), (Some("length"), 3));
    // The same as text, from a FLAC file too.
    // Control characters are written out for people.
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let said: String = wanted["text"].as_str().unwrap().chars().map(shown).collect();
    let said = format!("{}\n", said.trim_start());
    assert_eq!(run(&[&short, "--language", "german"]).fine(), said);
    assert_eq!(run(&[&path("sounds/short.flac"), "--language", "de"]).fine(), said);

    let long = path("sounds/long.wav");
    let wanted = find("long", true);
    let ran = run(&[&long, "--language", "en", "--timestamps"]);
    assert!(ran.stderr.contains("s of sound in") && ran.stderr.contains("language en"), "{}", ran.stderr);
    let lines: Vec<String> = ran.fine().lines().filter(|l| l.contains(" → ")).map(str::to_owned).collect();
    let segments = wanted["segments"].as_array().unwrap();
    assert_eq!(lines.len(), segments.len());
    assert!(lines[0].starts_with("[00:0") && lines.iter().all(|l| l.contains("] ")), "{lines:?}");
}

#[test]
fn what_cannot_be_heard_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| goldens().join(name).display().to_string();
    tallow(folder.path(), &["import", &path("english"), "-o", "m.model", "--encoding", "u32"]).fine();
    let short = path("sounds/short.wav");
    let run = |arguments: &[&str]| tallow(folder.path(), &[&["run"], arguments].concat());
    assert!(run(&["--audio", &short]).fails(2).contains("hears no sound"));
    assert!(run(&["m.model"]).fails(2).contains("--audio"));
    assert!(run(&["m.model", "Hello"]).fails(2).contains("--audio"));
    assert!(run(&["m.model", "Hello", "--audio", &short]).fails(2).contains("not both"));
    assert!(run(&["m.model", "--audio", &short, "--language", "de"]).fails(2).contains("is_multilingual"));
    assert!(run(&["m.model", "--audio", &short, "--temperature", "1"]).fails(2).contains("likeliest"));
    assert!(run(&["m.model", "--audio", "none.wav"]).fails(3).contains("none.wav"));
    assert!(run(&["m.model", "--audio", "m.model"]).fails(4).contains("WAV, FLAC and MP3"));
    // A head that tells a rate of 0 Hz.
    let mut bytes = std::fs::read(&short).unwrap();
    bytes[24..28].fill(0);
    std::fs::write(folder.path().join("hz.wav"), bytes).unwrap();
    assert!(run(&["m.model", "--audio", "hz.wav"]).fails(3).contains("0 Hz"));
    for more in [&["m.model", "--audio", &short, "b.wav"][..], &["--audio", &short, "b.FLAC"]] {
        assert!(run(more).fails(2).contains("one sound at a time"));
    }
    assert!(run(&["m.model", "--audio", &short, "--beams", "2"]).fails(2).contains("cannot be used"));
}

#[test]
fn a_damaged_sound_is_heard_as_far_as_it_goes_and_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| goldens().join(name).display().to_string();
    tallow(folder.path(), &["import", &path("english"), "-o", "m.model", "--encoding", "u32"]).fine();
    let bytes = std::fs::read(path("sounds/short.mp3")).unwrap();
    std::fs::write(folder.path().join("cut.mp3"), &bytes[..bytes.len() / 2]).unwrap();
    let run = |file: &str| tallow(folder.path(), &["run", "m.model", "--audio", file, "--json"]);
    let ran = run("cut.mp3");
    let (json, said) = (ran.json(), ran.stderr.clone());
    let seconds = json["sound_seconds"].as_f64().unwrap();
    assert!(json["damage"].as_str().unwrap().contains("that its head tells"), "{json}");
    assert!(
        said.contains("cut.mp3: ends after") && said.contains(&format!("{seconds:.2} s of sound were read")),
        "{said}"
    );
    let whole = run(&path("sounds/short.mp3")).json();
    assert!(whole["damage"].is_null() && whole["sound_seconds"].as_f64().unwrap() > seconds);
    for key in ["load_seconds", "seconds", "threads", "peak_memory_bytes"] {
        assert!(whole[key].as_f64().unwrap() > 0.0, "{key}: {whole}");
    }
}
