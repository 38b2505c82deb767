//! Models of every family and program, compiled up to each stage: the same numbers, from fewer nodes.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::cases::Case;
use common::{error, folder, ids, import, values};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tallow::compiler::Stage;
use tallow::executor::DType;
use tallow::frontends::program::module::{ENCODER, MAIN, Start};
use tallow::{CacheType, Engine, Model, ModelOptions, Rows, Tensor};

/// What a stage may differ by from the graph as it is, relative to the largest value. Passes leave out steps that round,
/// and kernels run some steps that the interpreter ran.
const TOLERANCE: f32 = 2e-5;
const STAGES: [Stage; 3] = [Stage::Raw, Stage::Portable, Stage::Target];

fn open(path: &Path, engine: Engine, stage: Stage) -> Model {
    let mut options = ModelOptions::default();
    options.program.engine = engine;
    options.program.threads = 2;
    options.program.stage = Some(stage);
    options.program.cache = CacheType::F32;
    options.program.context = Some(4096);
    Model::open_with(path, &options).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn folders(of: &str) -> Vec<PathBuf> {
    let mut all: Vec<_> = std::fs::read_dir(folder(of)).unwrap().map(|e| e.unwrap().path()).collect();
    all.retain(|path| path.is_dir());
    all.sort();
    all
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Nodes at each stage, as a line.
fn counts(nodes: &[usize]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" → ")
}

#[test]
fn families_give_the_same_logits_at_every_stage() {
    let (mut faults, mut cases) = (Vec::new(), 0);
    for path in folders("tests/goldens").into_iter().filter(|p| p.join("config.json").exists()) {
        let temporary = tempfile::tempdir().unwrap();
        let model = import(&path, temporary.path(), "u32");
        let ids = ids(&path.join("golden.safetensors"), "input_ids").unwrap();
        for engine in [Engine::Reference, Engine::Cpu] {
            let (mut first, mut nodes): (Option<Vec<f32>>, _) = (None, Vec::new());
            for stage in STAGES {
                let model = open(&model, engine, stage);
                nodes.push(model.program().compiled().graph.graph().len());
                // At once, and all but the last token before that one.
                let mut rows = values(&model.session().unwrap().logits(&ids, Rows::All).unwrap());
                let mut session = model.session().unwrap();
                session.logits(&ids[..ids.len() - 1], Rows::Last).unwrap();
                rows.extend(values(&session.logits(&ids, Rows::Last).unwrap()));
                let off = first.as_ref().map_or(0.0, |first| error(&rows, first));
                if off > TOLERANCE || off.is_nan() {
                    faults.push(format!("{}, {engine:?}, {}: off by {off:e}", name(&path), stage.name()));
                }
                first.get_or_insert(rows);
            }
            if engine == Engine::Cpu {
                println!("{}: {} nodes", name(&path), counts(&nodes));
                if nodes[2] >= nodes[0] {
                    faults.push(format!("{}: {} nodes", name(&path), counts(&nodes)));
                }
            }
        }
        cases += 1;
    }
    assert!(cases >= 40, "only {cases} goldens found");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// The outputs of a case at a stage, and its nodes: what runs once, then a call of all that is known, or of a few
/// tokens after each other.
fn run(case: &Case, engine: Engine, stage: Stage) -> Result<(BTreeMap<String, Tensor>, usize), String> {
    let module = Arc::new(case.compile()?);
    let (mut made, mut nodes) = (Vec::new(), 0);
    let mut all = BTreeMap::new();
    for name in [ENCODER, MAIN] {
        if !module.graphs.contains_key(name) {
            continue;
        }
        let session = case.session_at(&module, name, engine, Some(stage))?;
        nodes += session.program().compiled().graph.graph().len();
        let calls: Vec<Vec<i64>> = match (&module.driver, name) {
            (Some(driver), MAIN) => match &driver.start {
                Start::Ids(start) => vec![start.iter().map(|&i| i.into()).collect(), vec![3], vec![1, 2]],
                _ => vec![vec![]],
            },
            _ => vec![vec![]],
        };
        let mut session = session;
        let before = made.clone();
        for (at, tokens) in calls.into_iter().enumerate() {
            let mut inputs: Vec<(String, Tensor)> = before.clone();
            if !tokens.is_empty() {
                inputs.push(("input_ids".into(), Tensor::new(tokens, &tallow::executor::Device::Cpu).unwrap()));
            }
            (session, made) = case.call(&module, name, session, &inputs)?;
            all.extend(made.iter().map(|(output, t)| (format!("{output} of {name}, call {at}"), t.clone())));
        }
    }
    Ok((all, nodes))
}

#[test]
fn programs_give_the_same_outputs_at_every_stage() {
    let mut faults = Vec::new();
    for path in folders("tests/programs") {
        let mut case = Case::read(&path);
        if case.program == "fasttext" {
            // Its text is beside the case.
            let strings = std::fs::read_to_string(path.join("strings.json")).unwrap();
            let strings: serde_json::Value = serde_json::from_str(&strings).unwrap();
            let text =
                Tensor::new(strings["text"].as_str().unwrap().as_bytes(), &tallow::executor::Device::Cpu).unwrap();
            case.inputs.insert("text".into(), text);
        }
        for engine in [Engine::Reference, Engine::Cpu] {
            let made: Result<Vec<_>, _> = STAGES.iter().map(|&stage| run(&case, engine, stage)).collect();
            let made = match made {
                Ok(made) => made,
                Err(cause) => {
                    faults.push(format!("{}, {engine:?}: {cause}", case.name));
                    continue;
                }
            };
            for (stage, (outputs, _)) in STAGES.iter().zip(&made).skip(1) {
                for (output, tensor) in outputs {
                    let first = &made[0].0[output];
                    let off = difference(tensor, first);
                    if off > TOLERANCE || off.is_nan() {
                        faults.push(format!("{}, {engine:?}, {}: {output} is off by {off:e}", case.name, stage.name()));
                    }
                }
            }
            let nodes: Vec<usize> = made.iter().map(|m| m.1).collect();
            println!("{}, {engine:?}: {} nodes", case.name, counts(&nodes));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// The relative difference of two tensors; infinite where sizes, types or whole numbers differ.
fn difference(a: &Tensor, b: &Tensor) -> f32 {
    if a.dims() != b.dims() || a.dtype() != b.dtype() {
        return f32::INFINITY;
    }
    if a.dtype().is_float() {
        let (a, b) = (values(a), values(b));
        return if a == b { 0.0 } else { error(&a, &b) };
    }
    let whole = |t: &Tensor| t.flatten_all().unwrap().to_dtype(DType::I64).unwrap().to_vec1::<i64>().unwrap();
    if whole(a) == whole(b) { 0.0 } else { f32::INFINITY }
}

#[test]
fn the_storyteller_is_fused() {
    let path = folder("models/storyteller.model");
    let mut nodes = Vec::new();
    for stage in STAGES {
        let model = open(&path, Engine::Cpu, stage);
        let program = model.program();
        let steps = [Some(program.plan()), Some(program.prompt_plan()), program.decode_plan()];
        let steps: Vec<usize> = steps.iter().flatten().map(|p| p.steps.len()).collect();
        let count = program.compiled().graph.graph().len();
        println!("{}: {count} nodes, steps of all rows, the last row, one token: {steps:?}", stage.name());
        nodes.push((count, steps[0]));
        if stage == Stage::Target {
            // In each layer: projections, attention, its product, a sum, gate and up, down, a sum.
            assert_eq!(program.plan().steps.len(), 1 + 4 * 7 + 1, "{}", program.plan());
            let missed: Vec<String> =
                program.compiled().remarks.iter().filter(|r| !r.is_applied()).map(ToString::to_string).collect();
            println!("missed: {missed:?}");
        }
    }
    assert!(nodes.windows(2).all(|pair| pair[1] <= pair[0]), "{nodes:?}");
}
