//! The runner of whole plans against the steps run one by one: the same bits, whatever the call, the threads and the
//! chunks.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{folder, ids, import, values};
use std::path::Path;
use tallow::executor::Walk;
use tallow::{Model, ModelOptions, Rows};

fn open(path: &Path, walk: Walk, threads: usize, chunk: usize) -> Model {
    let mut options = ModelOptions::default();
    options.program.walk = walk;
    options.program.threads = threads;
    options.program.chunk = chunk;
    options.program.context = Some(4096);
    Model::open_with(path, &options).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The logits of a text: all rows at once, the last row, and token by token after a part of it.
fn logits(model: &Model, ids: &[u32]) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    for rows in [Rows::All, Rows::Last] {
        let mut session = tallow::executor::Session::new(model.program().clone());
        all.push(values(&session.forward(ids, rows).unwrap()));
        // A branch, and what follows a text that was cut off.
        let mut branch = session.clone();
        session.truncate(ids.len() / 2);
        for &id in &ids[ids.len() / 2..] {
            all.push(values(&session.forward(&[id], rows).unwrap()));
        }
        all.push(branch.decode(ids[0]).unwrap().to_vec());
        all.push(branch.decode(ids[1]).unwrap().to_vec());
        all.push(values(&branch.forward(&ids[..2], rows).unwrap()));
    }
    all
}

fn check(what: &str, path: &Path, ids: &[u32]) {
    let wanted = logits(&open(path, Walk::Steps, 1, 512), ids);
    for (threads, chunk) in [(1, 512), (2, 512), (3, 4)] {
        let found = logits(&open(path, Walk::Whole, threads, chunk), ids);
        assert_eq!(found.len(), wanted.len());
        for (at, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            let same = found.len() == wanted.len() && found.iter().zip(wanted).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{what}: call {at} on {threads} threads in chunks of {chunk}");
        }
    }
}

#[test]
fn the_storyteller_runs_whole_as_it_does_by_steps() {
    let ids: Vec<u32> = (0..21).map(|i| i * 37 % 1000 + 3).collect();
    check("storyteller", &folder("models/storyteller.model"), &ids);
}

#[test]
fn golden_models_run_whole_as_they_do_by_steps() {
    let mut paths: Vec<_> = std::fs::read_dir(folder("tests/goldens")).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.join("config.json").exists());
    paths.sort();
    for path in &paths {
        let temporary = tempfile::tempdir().unwrap();
        let ids = ids(&path.join("golden.safetensors"), "input_ids").unwrap();
        check(&path.display().to_string(), &import(path, temporary.path(), "u32"), &ids);
    }
    let mut paths: Vec<_> =
        std::fs::read_dir(folder("tests/goldens/gguf")).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "gguf"));
    paths.sort();
    for path in &paths {
        let temporary = tempfile::tempdir().unwrap();
        let ids: Vec<u32> = (0..13).map(|i| i * 5 % 60 + 3).collect();
        check(&path.display().to_string(), &import(path, temporary.path(), "auto"), &ids);
    }
}
