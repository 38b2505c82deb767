//! Tiny random encoder-decoders against the logits of `transformers`: imported exactly, run at once and token by token,
//! on the oracle and on the CPU path; and the tokens that they generate, greedily and by a beam search.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{error, folder, ids, import, open, page, values};
use std::collections::BTreeMap;
use std::path::Path;
use tallow::executor::sampling::penalize;
use tallow::frontends::program::module::Start;
use tallow::frontends::program::rules::Unfinished;
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

fn largest(row: &[f32]) -> u32 {
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
        let driver = model.driver().unwrap();
        let Start::Ids(start) = driver.start.clone() else { panic!("{name}") };
        let mut tokens = start.clone();
        let mut session = begun(&model, golden);
        while tokens.len() < start.len() + NEW {
            let mut row = values(&session.logits(&tokens, Rows::Last).unwrap());
            // Such texts were made before the rules of `ruled` were there.
            if driver.beams.is_none() {
                let text = Unfinished { tokens: &tokens, begun: start.len(), ends: model.end_ids(), longest: None };
                driver.rules.apply(&mut row, &text);
            }
            tokens.push(largest(&row));
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
        if let Some(own) = driver.beams {
            faults.extend(ruled(name, golden, &model, &start, own));
            continue;
        }
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

/// The likeliest token each time, by the rules of the model.
fn likeliest(session: &mut Session, start: &[u32]) -> Vec<u32> {
    let model = session.model().clone();
    let (driver, ends, sampling) = (model.driver().unwrap(), model.end_ids(), model.sampling(0).unwrap());
    let mut tokens = start.to_vec();
    while driver.length.is_none_or(|length| tokens.len() < length) {
        let mut row = values(&session.logits(&tokens, Rows::Last).unwrap());
        let logits = row.clone();
        penalize(&mut row, &logits, sampling.repetition_penalty, &tokens);
        let text = Unfinished { tokens: &tokens, begun: start.len(), ends, longest: driver.length };
        driver.rules.apply(&mut row, &text);
        tokens.push(largest(&row));
        if ends.contains(&tokens[tokens.len() - 1]) {
            break;
        }
    }
    tokens
}

/// The faults of texts that the model's settings of generation make, without a search and with it.
fn ruled(name: &str, golden: &Path, model: &Model, start: &[u32], own: BeamOptions) -> Vec<String> {
    let mut faults = Vec::new();
    let options = GenerateOptions::default();
    let mut count = 0;
    while let Ok(source) = tensor_file::read(golden, &format!("source.{count}")) {
        let given = [("input_ids".to_owned(), source)];
        let mut session = model.session().unwrap();
        session.begin(&given).unwrap();
        let greedy = likeliest(&mut session, start);
        let search = session.beam_search(start, own, &options).unwrap();
        for (what, found) in [("greedy", greedy), ("search", search)] {
            let expected = ids(golden, &format!("{what}.{count}")).unwrap();
            if found != expected {
                faults.push(format!("{name}: {what} {count} gives {found:?}, expected {expected:?}"));
            }
        }
        count += 1;
    }
    assert!(count > 9, "{name}: {count} sources");
    faults
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
        let golden = path.join("golden.safetensors");
        let (found, mut worst) = check(&name, &golden, &model);
        faults.extend(found);
        let gguf = path.join("model.gguf");
        if gguf.exists() {
            let (found, of_gguf) = check(&format!("{name}, GGUF"), &golden, &import(&gguf, temporary.path(), "u32"));
            faults.extend(found);
            worst = worst.max(of_gguf);
        }
        errors.insert(name, worst);
    }
    assert!(names.len() >= 10, "only {} goldens found", names.len());
    assert!(faults.is_empty(), "{} faults in {} goldens:\n{}", faults.len(), names.len(), faults.join("\n"));
    page::record("seq2seq", &folder("tests/goldens-seq2seq"), &errors);
}

#[test]
fn a_source_whose_distances_take_too_much_memory_is_refused_by_its_length() {
    let temporary = tempfile::tempdir().unwrap();
    let model =
        open(&import(&folder("tests/goldens-seq2seq/t5-plain"), temporary.path(), "u32"), Engine::Cpu, 1, 1 << 20);
    let ids =
        |count: usize| Tensor::zeros(count, tallow::executor::DType::I64, &tallow::executor::Device::Cpu).unwrap();
    let mut session = model.session().unwrap();
    let error = session.begin(&[("input_ids".to_owned(), ids(20_000))]).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    let error = error.to_string();
    assert!(error.contains("20000 tokens") && error.contains("by their square; shorten the text"), "{error}");
    // bart has no such thing.
    let bart = tempfile::tempdir().unwrap();
    let model = open(&import(&folder("tests/goldens-seq2seq/bart-plain"), bart.path(), "u32"), Engine::Cpu, 1, 1 << 20);
    let error = model.session().unwrap().begin(&[("input_ids".to_owned(), ids(20_000))]).unwrap_err().to_string();
    assert!(!error.contains("square"), "{error}");
}
