//! The program library against the libraries that its models come from: each folder of `tests/programs` is one model
//! with a config, weights, inputs and what the reference gives for them. `scripts/make-program-models.py` and
//! `scripts/make-vision-program-models.py` make the folders. `TALLOW_PROGRAM=NAME` runs those that begin with NAME.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::cases::Case;
use common::{error, folder, values};
use std::sync::Arc;
use tallow::frontends::program::Module;
use tallow::frontends::program::module::{ENCODER, MAIN, Start};
use tallow::ir::binary::{Binding, RawGraph};
use tallow::ir::{Graph, graphs_equal};
use tallow::{Engine, HostFunctions, Tensor};

/// Largest difference to the reference, relative to its largest value.
const TOLERANCE: f32 = 1e-4;
/// Values of a case that no output of its program gives: steps on the way to it.
const BETWEEN: [(&str, &str); 4] =
    [("tagger", "logits"), ("vits", "durations"), ("vits-older", "durations"), ("fasttext", "ids")];

impl Case {
    fn run(&self, module: &Arc<Module>, engine: Engine) -> Result<Vec<(String, Tensor)>, String> {
        let mut made = Vec::new();
        for name in [ENCODER, MAIN] {
            if module.graphs.contains_key(name) {
                made = self.call(module, name, self.session(module, name, engine)?, &made)?.1;
            }
        }
        Ok(made)
    }

    /// Compares outputs with the reference; the largest difference.
    fn compare(&self, made: &[(String, Tensor)]) -> Result<f32, String> {
        let between = |name: &str| BETWEEN.contains(&(self.name.as_str(), name));
        let mut left: Vec<&String> = self.wanted.keys().filter(|n| !between(n)).collect();
        let mut worst = 0f32;
        for (name, tensor) in made {
            // A single output is what the case holds, whatever the program calls it.
            let wanted = match left.iter().position(|n| *n == name) {
                Some(at) => left.remove(at),
                None if made.len() == 1 && left.len() == 1 => left.remove(0),
                None => return Err(format!("the output `{name}` is not in the case, which has {left:?}")),
            };
            let reference = &self.wanted[wanted];
            if tensor.dims() != reference.dims() {
                return Err(format!("`{name}` is {:?}, expected {:?}", tensor.dims(), reference.dims()));
            }
            if reference.dtype().is_float() {
                let off = error(&values(tensor), &values(reference));
                worst = worst.max(off);
                if off.is_nan() || off > TOLERANCE {
                    return Err(format!("`{name}` is off by {off:e}"));
                }
            } else {
                let ints = |t: &Tensor| t.flatten_all().unwrap().to_dtype(tallow::executor::DType::I64).unwrap();
                let (found, wanted) =
                    (ints(tensor).to_vec1::<i64>().unwrap(), ints(reference).to_vec1::<i64>().unwrap());
                if found != wanted {
                    return Err(format!("`{name}` is {found:?}, expected {wanted:?}"));
                }
            }
        }
        if left.is_empty() { Ok(worst) } else { Err(format!("no output gives {left:?}")) }
    }

    fn check(&self) -> Result<String, String> {
        let module = Arc::new(self.compile()?);
        for (name, graph) in &module.graphs {
            round_trips(graph).map_err(|e| format!("{name}: {e}"))?;
        }
        if let Some(result) = driven(self, &module) {
            return result;
        }
        let mut worst = Vec::new();
        for engine in [Engine::Reference, Engine::Cpu] {
            let made = self.run(&module, engine).map_err(|e| format!("{engine:?}: {e}"))?;
            let off = self.compare(&made).map_err(|e| format!("{engine:?}: {e}"))?;
            worst.push(format!("{off:.1e}"));
        }
        let nodes: usize = module.graphs.values().map(Graph::len).sum();
        Ok(format!("{nodes} nodes, off by {}", worst.join(" and ")))
    }
}

/// Cases that need more than one run of their graphs: a loop over tokens, or a vocabulary.
fn driven(case: &Case, module: &Arc<Module>) -> Option<Result<String, String>> {
    match case.program.as_str() {
        "whisper" => Some(whisper(case, module)),
        "fasttext" => Some(fasttext(case, module)),
        _ => None,
    }
}

/// What a generated text says: the loop of a driver by hand, on both engines.
fn whisper(case: &Case, module: &Arc<Module>) -> Result<String, String> {
    let driver = module.driver.as_ref().ok_or("no driver")?;
    let Start::Ids(start) = &driver.start else { return Err("the text does not begin with known ids".into()) };
    let wanted: Vec<u32> = ids(&case.wanted["tokens"]);
    let reference = values(&case.wanted["logits"]);
    let mut worst = 0f32;
    for engine in [Engine::Reference, Engine::Cpu] {
        let sounds = case.session(module, ENCODER, engine)?;
        let sounds = case.call(module, ENCODER, sounds, &[])?.1;
        let mut session = case.session(module, MAIN, engine)?;
        let (mut tokens, mut fresh, mut rows) = (start.clone(), start.clone(), Vec::new());
        loop {
            let given: Vec<i64> = fresh.iter().map(|&i| i.into()).collect();
            let mut inputs = sounds.clone();
            inputs.push(("input_ids".into(), Tensor::new(given, &tallow::executor::Device::Cpu).unwrap()));
            let (again, made) = case.call(module, MAIN, session, &inputs)?;
            session = again;
            let logits = values(&made[0].1);
            let width = logits.len() / fresh.len();
            let mut last = logits[logits.len() - width..].to_vec();
            rows.extend(logits);
            let generated = tokens.len() - start.len();
            let first = if generated == 0 { driver.rules.suppress_first.as_slice() } else { &[] };
            driver.rules.suppress.iter().chain(first).for_each(|&id| last[id as usize] = f32::NEG_INFINITY);
            let best = (0..width).max_by(|&a, &b| last[a].total_cmp(&last[b])).unwrap() as u32;
            if driver.stop.contains(&best) {
                break;
            }
            tokens.push(best);
            fresh = vec![best];
            let room = driver.limit.unwrap_or(usize::MAX).min(driver.total.unwrap_or(usize::MAX) - start.len());
            if tokens.len() - start.len() >= room {
                break;
            }
        }
        if tokens != wanted {
            return Err(format!("{engine:?}: says {tokens:?}, expected {wanted:?}"));
        }
        // The last token is not run where the limit ends the text.
        let off = error(&rows, &reference[..rows.len()]);
        if off.is_nan() || off > TOLERANCE {
            return Err(format!("{engine:?}: `logits` are off by {off:e}"));
        }
        worst = worst.max(off);
    }
    let inside = module.graphs[MAIN].weights().filter(|(name, _)| name.contains("encoder_attn.k_proj")).count();
    if inside > 0 {
        return Err("keys of the sound are made for each token".into());
    }
    Ok(format!("{} tokens, off by {worst:.1e}", wanted.len()))
}

/// Labels of a text, and the rows of a thousand texts.
fn fasttext(case: &Case, module: &Arc<Module>) -> Result<String, String> {
    let folder = folder("tests/programs").join(&case.name);
    let strings: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("strings.json")).unwrap()).unwrap();
    let host = Arc::new(case.host(module));
    let graph = &module.graphs[MAIN];
    let calls: Vec<_> = graph
        .nodes()
        .filter_map(|id| match &graph.node(id).kind {
            tallow::ir::NodeKind::Op(tallow::ir::Op::HostCall { function, .. }) => Some(function.as_str().to_owned()),
            _ => None,
        })
        .collect();
    let [rows] = calls.as_slice() else { return Err(format!("the graph calls {calls:?}")) };
    let bytes = |text: &str| Tensor::new(text.as_bytes(), &tallow::executor::Device::Cpu).unwrap();
    let mut texts = 0;
    for pair in strings["strings"].as_array().unwrap() {
        let (text, wanted) = (pair[0].as_str().unwrap(), &pair[1]);
        let wanted: Vec<u32> = wanted.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect();
        let found = ids(&host.call(rows, &[bytes(text)])?);
        if found != wanted {
            return Err(format!("the rows of {text:?} are {found:?}, expected {wanted:?}"));
        }
        texts += 1;
    }
    let text = bytes(strings["text"].as_str().unwrap());
    if ids(&host.call(rows, std::slice::from_ref(&text))?) != ids(&case.wanted["ids"]) {
        return Err("`ids` differ".into());
    }
    let mut worst = 0f32;
    for engine in [Engine::Reference, Engine::Cpu] {
        let session = case.session(module, MAIN, engine)?;
        let made = case.call(module, MAIN, session, &[("text".into(), text.clone())])?.1;
        worst = worst.max(case.compare(&made).map_err(|e| format!("{engine:?}: {e}"))?);
    }
    Ok(format!("{texts} texts, off by {worst:.1e}"))
}

fn ids(tensor: &Tensor) -> Vec<u32> {
    let tensor = tensor.flatten_all().unwrap().to_dtype(tallow::executor::DType::I64).unwrap();
    tensor.to_vec1::<i64>().unwrap().into_iter().map(|i| i as u32).collect()
}

/// The graph is the same after a way through its text and its binary form.
fn round_trips(graph: &Graph) -> Result<(), String> {
    let text = tallow::ir::text::print(graph);
    let read = tallow::ir::text::parse(&text).map_err(|e| format!("text form: {e}"))?;
    if !graphs_equal(graph, &read) {
        return Err("text form: another graph came back".into());
    }
    let bytes = RawGraph::from_graph(graph).map_err(|e| e.to_string())?.write();
    let raw = RawGraph::read(&bytes).map_err(|e| format!("binary form: {e}"))?;
    let weights = |name: &str| graph.weight_named(name).map(|v| graph.ty(v).clone());
    let inputs: Vec<_> = graph.inputs().map(|(name, v)| (name, graph.ty(v).clone())).collect();
    let read = raw
        .to_graph_with(&Binding { weights: &weights, tie_head: false, inputs: &inputs })
        .map_err(|e| format!("binary form: {e}"))?;
    if !graphs_equal(graph, &read) {
        return Err("binary form: another graph came back".into());
    }
    Ok(())
}

#[test]
fn programs_give_what_their_references_give() {
    let wanted = std::env::var("TALLOW_PROGRAM").unwrap_or_default();
    let mut folders: Vec<_> = std::fs::read_dir(folder("tests/programs")).unwrap().map(|e| e.unwrap().path()).collect();
    folders.sort();
    let (mut failed, mut run) = (Vec::new(), 0);
    for path in folders {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(path.is_dir(), "tests/programs/{name} is no folder");
        if !name.starts_with(&wanted) {
            continue;
        }
        run += 1;
        match Case::read(&path).check() {
            Ok(words) => println!("{name}: {words}"),
            Err(cause) => {
                println!("{name}: FAILED\n{cause}\n");
                failed.push(name);
            }
        }
    }
    assert!(run > 0, "no case begins with `{wanted}`");
    assert!(failed.is_empty(), "{} of {run} failed: {failed:?}", failed.len());
}
