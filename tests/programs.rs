//! The program library against the libraries that its models come from: each folder of `tests/programs` is one model
//! with a config, weights, inputs and what the reference gives for them. `scripts/make-program-models.py` and
//! `scripts/make-vision-program-models.py` make the folders. `TALLOW_PROGRAM=NAME` runs those that begin with NAME.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{error, folder, values};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tallow::executor::{Program, ProgramOptions, Session, WeightSource, WeightView, load_safetensors};
use tallow::format::{Config, Encoding};
use tallow::frontends::program::build::InputKind;
use tallow::frontends::program::module::{ENCODER, MAIN, Start};
use tallow::frontends::program::{Language, Module, Options, compile};
use tallow::ir::binary::{Binding, RawGraph};
use tallow::ir::verify::verify;
use tallow::ir::{Graph, graphs_equal};
use tallow::program::ProgramHost;
use tallow::{Engine, HostFunctions, Rows, Tensor};

/// Files that a case may have.
const FILES: [&str; 5] = ["case.safetensors", "config.toml", "model.safetensors", "strings.json", "vocab.toml"];
/// Largest difference to the reference, relative to its largest value.
const TOLERANCE: f32 = 1e-4;
/// Values of a case that no output of its program gives: steps on the way to it.
const BETWEEN: [(&str, &str); 4] =
    [("tagger", "logits"), ("vits", "durations"), ("vits-older", "durations"), ("fasttext", "ids")];

/// One folder.
struct Case {
    name: String,
    program: String,
    source: String,
    config: Config,
    weights: Arc<Weights>,
    inputs: BTreeMap<String, Tensor>,
    wanted: BTreeMap<String, Tensor>,
}

/// The tensors of a model, encoded.
struct Weights(Vec<(String, Vec<u64>, Vec<u8>)>);

impl WeightSource for Weights {
    fn weight(&self, name: &str) -> Option<WeightView<'_>> {
        let (_, shape, bytes) = self.0.iter().find(|(n, _, _)| n == name)?;
        Some(WeightView { shape, encoding: Encoding::U32, bytes })
    }
}

impl Weights {
    fn read(path: &Path) -> Weights {
        let mut all: Vec<_> = load_safetensors(&std::fs::read(path).unwrap()).unwrap().into_iter().collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let one = |(name, t): (String, Tensor)| {
            let shape = t.dims().iter().map(|&n| n as u64).collect();
            // Values are multiples of 1/65536, which this encoding holds exactly.
            let mut bytes = Vec::new();
            Encoding::U32.encode(&values(&t), &mut bytes).unwrap();
            (name, shape, bytes)
        };
        Weights(all.into_iter().map(one).collect())
    }
}

impl Case {
    fn read(path: &Path) -> Case {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        for entry in std::fs::read_dir(path).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            assert!(FILES.contains(&&*file), "{name}: `{file}` is no file of a case; known are {FILES:?}");
        }
        let program = name.split('-').next().unwrap().to_owned();
        let source = std::fs::read_to_string(folder("programs").join(format!("{program}.rs"))).unwrap();
        let config = Config::parse(&std::fs::read_to_string(path.join("config.toml")).unwrap()).unwrap();
        let weights = Arc::new(Weights::read(&path.join("model.safetensors")));
        let (mut inputs, mut wanted) = (BTreeMap::new(), BTreeMap::new());
        for (key, tensor) in load_safetensors(&std::fs::read(path.join("case.safetensors")).unwrap()).unwrap() {
            match key.split_once('.') {
                Some(("in", input)) => inputs.insert(input.to_owned(), tensor),
                Some(("out", output)) => wanted.insert(output.to_owned(), tensor),
                _ => panic!("{name}: `{key}` is neither `in.…` nor `out.…`"),
            };
        }
        Case { name, program, source, config, weights, inputs, wanted }
    }

    fn compile(&self) -> Result<Module, String> {
        let index = self.weights.0.iter().map(|(name, shape, _)| (name.clone(), shape.clone())).collect();
        let index: indexmap::IndexMap<String, Vec<u64>> = index;
        let label = format!("{}.rs", self.program);
        compile(&self.source, Language::Rs, &label, &self.config, Some(&index), Options::default())
            .map_err(|e| e.to_string())
    }

    /// The inputs of a graph, by its names for them; `made` has those that come from another graph.
    fn given(
        &self,
        module: &Module,
        graph: &Graph,
        made: &[(String, Tensor)],
    ) -> Result<Vec<(String, Tensor)>, String> {
        let mut found = Vec::new();
        for (name, _) in graph.inputs().filter(|(n, _)| *n != tallow::ir::POS) {
            let ids = || module.inputs.iter().filter(|i| i.kind == InputKind::Ids).any(|i| i.name == name);
            let of_case = || self.inputs.get(name).or_else(|| self.inputs.values().next().filter(|_| ids()));
            let other = || made.iter().find(|(n, _)| n == name).map(|(_, t)| t);
            let tensor = other().or_else(of_case).ok_or_else(|| format!("nothing for the input `{name}`"))?;
            found.push((name.to_owned(), tensor.clone()));
        }
        Ok(found)
    }

    fn host(&self, module: &Arc<Module>) -> ProgramHost {
        let words = vocabulary(self);
        ProgramHost::new(module.clone(), format!("{}.rs", self.program), self.source.as_str())
            .with_vocabulary(move |text| words.iter().position(|w| w == text).map(|i| i as u32))
    }

    /// A session of a graph.
    fn session(&self, module: &Arc<Module>, name: &str, engine: Engine) -> Result<Session, String> {
        let graph = module.graphs.get(name).ok_or_else(|| format!("no graph `{name}`"))?;
        let verified = verify(graph.clone()).map_err(|e| format!("{name}: {e}"))?;
        let options = ProgramOptions { engine, threads: 2, ..ProgramOptions::default() };
        let program = Program::new(&verified, self.weights.clone(), options).map_err(|e| e.to_string())?;
        Ok(Session::new(Arc::new(program.with_host(Arc::new(self.host(module))))))
    }

    /// Runs a graph once; `made` has inputs beside those of the case.
    fn call(
        &self,
        module: &Module,
        name: &str,
        mut session: Session,
        made: &[(String, Tensor)],
    ) -> Result<(Session, Vec<(String, Tensor)>), String> {
        let given = self.given(module, &module.graphs[name], made)?;
        let out = session.run(&given, Rows::All).map_err(|e| format!("{name}: {e}"))?;
        Ok((session, out))
    }

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
            let first = if generated == 0 { driver.suppress_first.as_slice() } else { &[] };
            driver.suppress.iter().chain(first).for_each(|&id| last[id as usize] = f32::NEG_INFINITY);
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

/// The words of a `vocab.toml`, by number.
fn vocabulary(case: &Case) -> Vec<String> {
    let path = folder("tests/programs").join(&case.name).join("vocab.toml");
    let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
    let words = text.lines().filter_map(|line| line.split_once(" = "));
    words.map(|(_, word)| serde_json::from_str(word).unwrap()).collect()
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
