//! Tiny random models of every supported type against the logits of `transformers`: imported
//! exactly, run at once and token by token, on the oracle and on the CPU path.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{error, folder, ids, import, open, page, values};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use tallow::{Engine, Rows, tensor_file};

/// What the logits may differ by, as `max|a − b| / max|b|`.
const TOLERANCE: f32 = 1e-4;

/// Runs one golden on both engines; the faults found, and the worst error of the CPU path.
fn check(model: &Path, golden: &Path, tolerance: f32) -> (Vec<String>, f32) {
    let mut faults = Vec::new();
    let worst = Cell::new(0.0_f32);
    let reference = open(model, Engine::Reference, 1, 512);
    let cpu = open(model, Engine::Cpu, 2, 512);
    let chunked = open(model, Engine::Cpu, 1, 5);
    for suffix in ["", ".long"] {
        let Some(ids) = ids(golden, &format!("input_ids{suffix}")) else { continue };
        let expected = values(&tensor_file::read(golden, &format!("logits{suffix}")).unwrap());
        let judge = |what: &str, got: &[f32]| {
            let e = error(got, &expected);
            if what.starts_with("cpu") {
                worst.set(worst.get().max(e));
            }
            (e > tolerance).then(|| format!("{what}{suffix}: error {e:.2e}"))
        };
        let whole = |model: &tallow::Model| values(&model.session().unwrap().logits(&ids, Rows::All).unwrap());
        faults.extend(judge("reference at once", &whole(&reference)));
        let at_once = whole(&cpu);
        faults.extend(judge("cpu at once", &at_once));
        if at_once != whole(&chunked) {
            faults.push(format!("{suffix}: chunks and threads change bits"));
        }
        // The last row alone is the last of all rows.
        let last = values(&cpu.session().unwrap().logits(&ids, Rows::Last).unwrap());
        if last != at_once[at_once.len() - last.len()..] {
            faults.push(format!("{suffix}: the last row alone differs"));
        }
        // Frequencies that follow the length of a call make token by token another computation.
        let by_length = golden.to_string_lossy();
        if suffix == ".long" && (by_length.contains("dynamic") || by_length.contains("longrope")) {
            continue;
        }
        for (what, model) in [("reference", &reference), ("cpu", &cpu)] {
            let mut session = model.session().unwrap();
            let mut rows = Vec::new();
            for n in 1..=ids.len() {
                rows.extend(values(&session.logits(&ids[..n], Rows::Last).unwrap()));
            }
            faults.extend(judge(&format!("{what} token by token"), &rows));
            if what == "cpu" && rows != at_once {
                faults.push(format!("{suffix}: token by token changes bits"));
            }
        }
    }
    (faults, worst.get())
}

#[test]
fn hugging_face_folders_give_the_logits_of_transformers() {
    let (mut faults, mut errors) = (Vec::new(), BTreeMap::new());
    let mut names: Vec<_> = std::fs::read_dir(folder("tests/goldens")).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    // While somebody works on one type: the names of its folders begin so.
    let only = std::env::var("TALLOW_GOLDENS").unwrap_or_default();
    names.retain(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&only)));
    for path in names.iter().filter(|p| p.join("config.json").exists()) {
        let temporary = tempfile::tempdir().unwrap();
        let model = import(path, temporary.path(), "u32");
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let (found, worst) = check(&model, &path.join("golden.safetensors"), TOLERANCE);
        faults.extend(found.into_iter().map(|fault| format!("{name}: {fault}")));
        errors.insert(name, worst);
    }
    let cases = errors.len();
    assert!(cases >= if only.is_empty() { 40 } else { 1 }, "only {cases} goldens found");
    assert!(faults.is_empty(), "{} faults in {cases} goldens:\n{}", faults.len(), faults.join("\n"));
    if only.is_empty() {
        page::record("decoder", &folder("tests/goldens"), &errors);
    }
}

#[test]
fn gguf_files_give_the_logits_of_the_folders_they_came_from() {
    let mut cases = 0;
    let mut faults = Vec::new();
    let mut names: Vec<_> =
        std::fs::read_dir(folder("tests/goldens/gguf")).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    for path in names.iter().filter(|p| p.extension().is_some_and(|e| e == "gguf")) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name == "llama-mixed" {
            continue;
        }
        let temporary = tempfile::tempdir().unwrap();
        let model = import(path, temporary.path(), "u32");
        let golden = folder("tests/goldens").join(&name).join("golden.safetensors");
        faults.extend(check(&model, &golden, TOLERANCE).0.into_iter().map(|f| format!("{name}: {f}")));
        cases += 1;
    }
    assert!(cases >= 14, "only {cases} goldens found");
    assert!(faults.is_empty(), "{} faults in {cases} goldens:\n{}", faults.len(), faults.join("\n"));
}

/// A matrix in every block type of GGUF: the oracle on exactly imported values against the exact
/// logits; then on the default encodings, the CPU path against the oracle.
#[test]
fn every_block_type_of_gguf_is_read() {
    let path = folder("tests/goldens/gguf/llama-mixed.gguf");
    let golden = folder("tests/goldens/gguf/llama-mixed.safetensors");
    let temporary = tempfile::tempdir().unwrap();
    let model = import(&path, temporary.path(), "auto");
    let ids = ids(&golden, "input_ids").unwrap();
    let exact = values(&tensor_file::read(&golden, "logits").unwrap());
    let run = |engine| values(&open(&model, engine, 2, 512).session().unwrap().logits(&ids, Rows::All).unwrap());
    let (reference, cpu) = (run(Engine::Reference), run(Engine::Cpu));
    // Q4_0 to Q5_1, F16 and BF16 are encoded anew, each within 2 %: the logits stay near.
    assert!(cosine(&reference, &exact) > 0.999, "cosine {}", cosine(&reference, &exact));
    assert!(cosine(&cpu, &reference) > 0.999, "cosine {}", cosine(&cpu, &reference));
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
