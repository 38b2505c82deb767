//! Tiny random encoders of every type and head against `transformers`: imported exactly, all texts in one batch and each
//! alone, on the oracle and on the CPU path.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{error, folder, import, open, page, values};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use tallow::compiled::Answer;
use tallow::executor::load_safetensors;
use tallow::{Engine, Model, Tensor};

/// What an output may differ by, as `max|a − b| / max|b|`.
const TOLERANCE: f32 = 1e-4;
/// What a case gives beside what the model takes.
const OUTPUTS: [&str; 5] = ["embedding", "last_hidden_state", "logits", "pooler_output", "seq_relationship_logits"];

type Tensors = HashMap<String, Tensor>;

/// The outputs of a model for a batch.
fn run(model: &Model, given: &[(String, Tensor)]) -> Tensors {
    let Answer::Tensors(outputs) = model.session().unwrap().answer(given).unwrap() else { panic!("no tensors") };
    outputs.into_iter().collect()
}

/// Tokens `first..end` as a batch of one text.
fn alone(golden: &Tensors, first: usize, end: usize) -> Vec<(String, Tensor)> {
    let starts = Tensor::from_vec(vec![0i64], 1, &tallow::executor::Device::Cpu).unwrap();
    let mut given = vec![("starts".to_owned(), starts)];
    for name in ["input_ids", "token_type_ids"] {
        if let Some(tensor) = golden.get(name) {
            given.push((name.to_owned(), tensor.narrow(0, first, end - first).unwrap()));
        }
    }
    given
}

/// Checks one golden on both engines; the faults found, and the largest error of a batch on the CPU path.
fn check(model: &Path, golden: &Tensors) -> (Vec<String>, f32) {
    let (mut faults, mut worst) = (Vec::new(), 0f32);
    let starts: Vec<i64> = golden["starts"].to_vec1().unwrap();
    let tokens = golden["input_ids"].dim(0).unwrap();
    let mut batch = alone(golden, 0, tokens);
    batch[0].1 = golden["starts"].clone();
    let bounds: Vec<usize> = starts.iter().map(|&s| s as usize).chain([tokens]).collect();
    // The rows of an output that belong to a text.
    let rows = |tensor: &Tensor, text: usize| match tensor.dim(0).unwrap() {
        n if n == tokens => tensor.narrow(0, bounds[text], bounds[text + 1] - bounds[text]).unwrap(),
        _ => tensor.narrow(0, text, 1).unwrap(),
    };
    for (what, engine, threads) in [("reference", Engine::Reference, 1), ("cpu", Engine::Cpu, 2)] {
        let model = open(model, engine, threads, 512);
        let all = run(&model, &batch);
        let mut given: Vec<&str> = all.keys().map(String::as_str).collect();
        let mut wanted: Vec<&str> = golden.keys().map(String::as_str).filter(|k| OUTPUTS.contains(k)).collect();
        given.sort_unstable();
        wanted.sort_unstable();
        if given != wanted {
            faults.push(format!("{what}: outputs {given:?}, expected {wanted:?}"));
            continue;
        }
        for name in &wanted {
            if all[*name].dims() != golden[*name].dims() {
                faults.push(format!("{what}: {name} is {:?}, not {:?}", all[*name].dims(), golden[*name].dims()));
                continue;
            }
            let off = error(&values(&all[*name]), &values(&golden[*name]));
            if engine == Engine::Cpu {
                worst = worst.max(off);
            }
            if off.is_nan() || off > TOLERANCE {
                faults.push(format!("{what}: {name} is off by {off:.2e}"));
            }
        }
        for text in 0..starts.len() {
            let own = run(&model, &alone(golden, bounds[text], bounds[text + 1]));
            for name in &wanted {
                let (own, in_batch) = (values(&own[*name]), values(&rows(&all[*name], text)));
                if engine == Engine::Cpu && own != in_batch {
                    faults.push(format!("{what}: the bits of {name} of text {text} differ alone"));
                }
                let off = error(&own, &values(&rows(&golden[*name], text)));
                // A text may have small values only, where the batch has large ones.
                if off.is_nan() || off > 4.0 * TOLERANCE {
                    faults.push(format!("{what}: {name} of text {text} alone is off by {off:.2e}"));
                }
            }
        }
    }
    (faults, worst)
}

#[test]
fn encoders_give_the_outputs_of_transformers() {
    let (mut faults, mut errors) = (Vec::new(), BTreeMap::new());
    let mut names: Vec<_> =
        std::fs::read_dir(folder("tests/goldens-encoder")).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    for path in names.iter().filter(|p| p.join("config.json").exists()) {
        let temporary = tempfile::tempdir().unwrap();
        let model = import(path, temporary.path(), "u32");
        let golden = load_safetensors(&std::fs::read(path.join("golden.safetensors")).unwrap()).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let golden = golden.into_iter().collect();
        let (found, mut off) = check(&model, &golden);
        faults.extend(found.into_iter().map(|f| format!("{name}: {f}")));
        let gguf = path.join("model.gguf");
        if gguf.exists() {
            let (found, of_gguf) = check(&import(&gguf, temporary.path(), "u32"), &golden);
            faults.extend(found.into_iter().map(|f| format!("{name}, GGUF: {f}")));
            off = off.max(of_gguf);
        }
        errors.insert(name, off);
    }
    let cases = errors.len();
    assert!(cases >= 45, "only {cases} goldens found");
    assert!(faults.is_empty(), "{} faults in {cases} goldens:\n{}", faults.len(), faults.join("\n"));
    page::record("encoder", &folder("tests/goldens-encoder"), &errors);
}
