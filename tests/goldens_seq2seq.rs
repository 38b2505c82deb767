//! Tiny random encoder-decoders against the logits of `transformers`: imported exactly, run at once and token by token,
//! on the oracle and on the CPU path; and the tokens that they generate, greedily and by a beam search.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{error, folder, ids, import, open, page, values};
use std::collections::BTreeMap;
use std::path::Path;
use tallow::frontends::program::module::Start;
use tallow::{BeamOptions, Engine, GenerateOptions, Model, Rows, Session, Tensor, tensor_file};

/// What the logits may differ by, as `max|a − b| / max|b|`.
const TOLERANCE: f32 = 1e-4;
/// Tokens that are generated.
const NEW: usize = 12;

/// A session that has read the source of a golden.
fn begun(model: &Model, golden: &Path) -> Session {
    let source = tensor_file::read(golden, "input_ids").unwrap();
    let mut session = model.session().unwrap();
    session.begin(&[("input_ids".to_owned(), source)]).unwrap();
    session
}

fn largest(logits: &Tensor) -> u32 {
    let row = values(logits);
    let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap();
    best.0 as u32
}

/// The faults found, and the worst error of the CPU path.
fn check(name: &str, golden: &Path, model: &Path) -> (Vec<String>, f32) {
    let (mut faults, mut worst) = (Vec::new(), 0.0_f32);
    let expected = values(&tensor_file::read(golden, "logits").unwrap());
    let target = ids(golden, "decoder_input_ids").unwrap();
    let mut first: Option<Vec<f32>> = None;
    for (engine, threads) in [(Engine::Reference, 1), (Engine::Cpu, 2), (Engine::Cpu, 1)] {
        let model = open(model, engine, threads, 512);
        let whole = values(&begun(&model, golden).logits(&target, Rows::All).unwrap());
        let mut session = begun(&model, golden);
        let mut rows = Vec::new();
        for n in 1..=target.len() {
            rows.extend(values(&session.logits(&target[..n], Rows::Last).unwrap()));
        }
        for (what, got) in [("at once", &whole), ("token by token", &rows)] {
            let e = error(got, &expected);
            if engine == Engine::Cpu {
                worst = worst.max(e);
            }
            if e > TOLERANCE {
                faults.push(format!("{name}: {engine:?} {what}: error {e:.2e}"));
            }
        }
        if engine == Engine::Cpu {
            if rows != whole {
                faults.push(format!("{name}: token by token changes bits"));
            }
            if first.get_or_insert_with(|| whole.clone()) != &whole {
                faults.push(format!("{name}: threads change bits"));
            }
        }
        // From what the model begins with.
        let Start::Ids(start) = model.driver().unwrap().start.clone() else { panic!("{name}") };
        let mut tokens = start.clone();
        let mut session = begun(&model, golden);
        while tokens.len() < start.len() + NEW {
            tokens.push(largest(&session.logits(&tokens, Rows::Last).unwrap()));
            if model.end_ids().contains(&tokens[tokens.len() - 1]) {
                break;
            }
        }
        let mut judge = |what: &str, found: Vec<u32>, expected: Vec<u32>| {
            if found != expected {
                faults.push(format!("{name}: {engine:?} {what} gives {found:?}, expected {expected:?}"));
            }
        };
        judge("greedy", tokens, ids(golden, "generated").unwrap());
        for penalty in ["1.0", "-0.5"] {
            let length_penalty = penalty.parse().unwrap();
            let beams = BeamOptions { beams: 3, length_penalty, ..BeamOptions::default() };
            let options = GenerateOptions { max_tokens: Some(NEW), ..GenerateOptions::default() };
            let found = begun(&model, golden).beam_search(&start, beams, &options).unwrap();
            judge(&format!("beams {penalty}"), found, ids(golden, &format!("beams.{penalty}")).unwrap());
        }
    }
    (faults, worst)
}

#[test]
fn encoder_decoders_give_the_logits_and_tokens_of_transformers() {
    let (mut faults, mut errors) = (Vec::new(), BTreeMap::new());
    let mut names: Vec<_> =
        std::fs::read_dir(folder("tests/goldens-seq2seq")).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    for path in &names {
        let temporary = tempfile::tempdir().unwrap();
        let model = import(path, temporary.path(), "u32");
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let (found, worst) = check(&name, &path.join("golden.safetensors"), &model);
        faults.extend(found);
        errors.insert(name, worst);
    }
    assert!(names.len() >= 8, "only {} goldens found", names.len());
    assert!(faults.is_empty(), "{} faults in {} goldens:\n{}", faults.len(), names.len(), faults.join("\n"));
    page::record("seq2seq", &folder("tests/goldens-seq2seq"), &errors);
}
