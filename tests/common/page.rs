//! What the goldens of all types measured, for `docs/families.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where the measured errors lie, a file for each kind of golden: name of the golden, model type, worst error.
fn file(kind: &str) -> PathBuf {
    super::folder("tests/errors").join(format!("{kind}.txt"))
}

/// The recorded errors of a kind: for each golden its type and its worst error.
pub fn recorded(kind: &str) -> BTreeMap<String, (String, f32)> {
    let Ok(text) = std::fs::read_to_string(file(kind)) else { return BTreeMap::new() };
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), (words.next()?.to_owned(), words.next()?.parse().ok()?)))
    };
    text.lines().filter_map(line).collect()
}

/// Compares the worst errors of goldens (name and error) with the recorded ones; `TALLOW_BLESS=1` records them. Errors of
/// the CPU path are the same on every machine, apart from what the reference's own rounding hides.
pub fn record(kind: &str, folder: &Path, errors: &BTreeMap<String, f32>) {
    let types: BTreeMap<&String, String> = errors.keys().map(|name| (name, model_type(&folder.join(name)))).collect();
    if std::env::var_os("TALLOW_BLESS").is_some() {
        let lines: String = errors.iter().map(|(n, e)| format!("{n} {} {e:.1e}\n", types[n])).collect();
        std::fs::create_dir_all(file(kind).parent().unwrap()).unwrap();
        std::fs::write(file(kind), lines).unwrap();
        return;
    }
    let known = recorded(kind);
    let bless = "run the test with TALLOW_BLESS=1, and read the difference";
    assert_eq!(known.keys().collect::<Vec<_>>(), errors.keys().collect::<Vec<_>>(), "{kind}: {bless}");
    for (name, error) in errors {
        let (of, was) = &known[name];
        assert_eq!(of, &types[name], "{name}: {bless}");
        assert!(*error <= was * 2.0 + 1e-6, "{name}: error {error:.1e}, recorded {was:.1e}; {bless}");
    }
}

/// `model_type` of a folder.
fn model_type(folder: &Path) -> String {
    let text = std::fs::read_to_string(folder.join("config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    config["model_type"].as_str().unwrap().to_owned()
}
