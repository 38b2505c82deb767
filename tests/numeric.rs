//! Comparison by numbers: the first operation where two computations part.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{folder, import};
use std::path::Path;
use tallow::compiler::Stage;
use tallow::executor::tensors::SafetensorsFile;
use tallow::executor::{DType, Device, ProgramOptions, save_safetensors};
use tallow::format::encoding::Encoding;
use tallow::ir::text;
use tallow::ir::verify::verify;
use tallow::numeric::{self, Given, References, Report, Side};
use tallow::{CacheType, Engine, Model, ModelOptions, PackedCache, Tensor};

/// As written, so that every operation is its own.
fn raw(engine: Engine) -> ModelOptions {
    let mut options = ModelOptions::default();
    options.program.engine = engine;
    options.program.stage = Some(Stage::Raw);
    options
}

fn open(path: &Path, engine: Engine) -> Model {
    Model::open_with(path, &raw(engine)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The graph of a model with one part of its text replaced, over the model's weights.
fn edited(model: &Model, from: &str, to: &str) -> Side {
    let plain = text::print(model.program().compiled().graph.graph());
    assert_eq!(plain.matches(from).count(), 1, "{from:?} in\n{plain}");
    let graph = verify(text::parse(&plain.replace(from, to)).unwrap()).unwrap();
    Side::of_graph("edited", &graph, model.weights(), *model.program().options()).unwrap()
}

fn given(text: &str) -> Given {
    Given { text: Some(text.to_owned()), ..Given::default() }
}

fn compare(left: &Side, right: &Side, given: &Given) -> Report {
    let inputs = numeric::inputs(&[left, right], given).unwrap();
    let pairs = numeric::pairs(left, right).unwrap();
    numeric::compare(left, right, &pairs, &inputs, None).unwrap()
}

/// The value that a report names first.
fn first(report: &Report) -> &str {
    &report.values[report.first.unwrap_or_else(|| panic!("all within:\n{}", report.text(true)))].right
}

fn golden(name: &str, engine: Engine) -> (Model, tempfile::TempDir) {
    let temporary = tempfile::tempdir().unwrap();
    let path = import(&folder("tests/goldens").join(name), temporary.path(), "u32");
    (open(&path, engine), temporary)
}

fn qwen(engine: Engine) -> (Model, tempfile::TempDir) {
    golden("qwen3-plain", engine)
}

#[test]
fn a_model_agrees_with_itself_value_by_value() {
    let model = Model::storyteller().unwrap();
    let side = Side::of_model(&model);
    let report = compare(&side, &side, &given("Tell me a story about a fox."));
    assert!(report.is_within(), "{}", report.text(false));
    assert_eq!((report.worst(3), report.unknown.len()), (vec![], 0));
    let operations = model.program().plan().prelude.len() + model.program().plan().steps.len();
    assert!(report.values.len() >= operations, "{} of {operations}", report.values.len());
    assert!(report.unmatched.left.is_empty() && report.unmatched.right.is_empty());
    assert!(report.text(false).contains("all within tolerance"), "{}", report.text(false));
}

#[test]
fn every_stage_agrees_with_the_graph_as_written() {
    let left = Side::of_model(&Model::storyteller_with(&raw(Engine::Cpu)).unwrap());
    for stage in [Stage::Portable, Stage::Target] {
        let mut options = raw(Engine::Cpu);
        options.program.stage = Some(stage);
        let right = Side::of_model(&Model::storyteller_with(&options).unwrap());
        let report = compare(&left, &right, &given("Once upon a time a fox"));
        assert!(report.is_within(), "{stage:?}\n{}", report.text(true));
        // What fusions leave: at least what enters and leaves each layer.
        assert!(report.values.len() > 20, "{stage:?}\n{}", report.text(true));
    }
}

#[test]
fn the_engines_agree_within_what_rounding_of_activations_makes() {
    let mut options = ModelOptions::default();
    options.program.engine = Engine::Reference;
    let oracle = Model::storyteller_with(&options).unwrap();
    let fast = Model::storyteller().unwrap();
    let report = compare(&Side::of_model(&oracle), &Side::of_model(&fast), &given("Once upon a time a fox"));
    assert!(report.is_within(), "{}", report.text(true));
    assert!(!report.worst(1).is_empty());
}

/// One change of the graph of the tiny Qwen 3, and the value that must be blamed.
const BUGS: &[(&str, &str, &str, &str)] = &[
    (
        "wrong epsilon",
        "RmsNorm(%layer0.out, %model.layers.1.input_layernorm.weight) { eps = 1e-6 }",
        "RmsNorm(%layer0.out, %model.layers.1.input_layernorm.weight) { eps = 1e-3 }",
        "%layer1.attn_norm",
    ),
    (
        "the norm of the queries is missing",
        "Rope(%layer0.q_norm, %pos)",
        "Rope(%layer0.q_heads, %pos)",
        "%layer0.q_rope",
    ),
    (
        "another base",
        "Rope(%layer1.k_norm, %pos) { head_dim = 16, rope_dim = 16, base = 1000000 }",
        "Rope(%layer1.k_norm, %pos) { head_dim = 16, rope_dim = 16, base = 10000 }",
        "%layer1.k_rope",
    ),
    (
        "gate and up are swapped",
        "SwiGlu(%layer0.gate, %layer0.up)",
        "SwiGlu(%layer0.up, %layer0.gate)",
        "%layer0.gated",
    ),
    (
        "later tokens are seen",
        "Sdpa(%layer1.q_rows, %layer1.k_all, %layer1.v_all) { heads = 4, kv_heads = 2, head_dim = 16, causal = true }",
        "Sdpa(%layer1.q_rows, %layer1.k_all, %layer1.v_all) { heads = 4, kv_heads = 2, head_dim = 16, causal = false }",
        "%layer1.attn",
    ),
];

#[test]
fn each_planted_bug_is_charged_to_its_operation() {
    for engine in [Engine::Cpu, Engine::Reference] {
        let (model, _folder) = qwen(engine);
        let left = Side::of_model(&model);
        for (what, from, to, blamed) in BUGS {
            let right = edited(&model, from, to);
            let report = compare(&left, &right, &Given::default());
            assert_eq!(first(&report), *blamed, "{what}:\n{}", report.text(true));
            let wrong = report.values.iter().filter(|v| !v.verdict.is_within()).count();
            assert_eq!(wrong, 1, "{what}: resetting keeps errors apart\n{}", report.text(true));
        }
    }
}

fn reference(name: &str) -> References {
    References::read(&folder("tests/references").join(format!("{name}.safetensors"))).unwrap()
}

/// `scripts/dump-intermediates.py` wrote the references. Those of Gemma 3 have heads before tokens, and embeddings that
/// are scaled already.
#[test]
fn correct_models_pass_all_that_transformers_computed() {
    for (name, engine) in
        [("qwen3-plain", Engine::Cpu), ("qwen3-plain", Engine::Reference), ("gemma3-plain", Engine::Cpu)]
    {
        let (model, folder) = golden(name, engine);
        let side = Side::of_model(&model);
        let reference = reference(name);
        let inputs = reference.inputs(&side, &Given::default()).unwrap();
        let report = numeric::against(&side, &reference, &inputs, None).unwrap();
        assert!(report.is_within(), "{}", report.text(true));
        assert_eq!(report.unknown, [], "{}", report.text(true));
        // Everything but the ids.
        assert_eq!(report.values.iter().map(|v| 1 + v.also.len()).sum::<usize>(), reference.tensors.len() - 1);
        assert!(report.values.iter().any(|v| v.left.ends_with("mlp") && v.also[0].ends_with("mlp.down_proj")));
        // Of what the CPU runs, what fusions leave.
        let mut options = raw(engine);
        options.program.stage = Some(Stage::Target);
        let fused = Side::of_model(&Model::open_with(folder.path().join("model.model"), &options).unwrap());
        let report = numeric::against(&fused, &reference, &inputs, None).unwrap();
        assert!(report.is_within(), "{}", report.text(true));
        assert!(report.values.len() > 10 && !report.unknown.is_empty(), "{}", report.text(true));
    }
}

#[test]
fn planted_bugs_are_found_against_transformers() {
    let (model, _folder) = qwen(Engine::Cpu);
    let reference = reference("qwen3-plain");
    // The first value of the reference after the bug.
    let shown = ["%layer1.attn_norm", "%layer0.attn_out", "%layer1.attn_out", "%layer0.ffn_out", "%layer1.attn_out"];
    for ((what, from, to, blamed), shown) in BUGS.iter().zip(shown) {
        let side = edited(&model, from, to);
        let report =
            numeric::against(&side, &reference, &reference.inputs(&side, &Given::default()).unwrap(), None).unwrap();
        assert_eq!(first(&report), shown, "{what}:\n{}", report.text(true));
        let wrong = report.values.iter().filter(|v| !v.verdict.is_within()).map(|v| &v.right);
        assert!(wrong.clone().all(|v| v == shown), "{what}:\n{}", report.text(true));
        // The operation itself is that value, or listed as what it is made by.
        let suspect = &report.suspects[0];
        let lines = [&suspect.statement].into_iter().chain(&suspect.between);
        assert!(lines.clone().any(|line| line.starts_with(&format!("{blamed}:"))), "{what}:\n{}", report.text(true));
    }
}

/// The tiny model of `name` with weights that fixed point rounds, little and much.
fn rounded(name: &str) -> (Model, Model, tempfile::TempDir) {
    let temporary = tempfile::tempdir().unwrap();
    let source = folder("tests/goldens").join(name);
    let bytes = std::fs::read(source.join("model.safetensors")).unwrap();
    let parsed = SafetensorsFile::parse(&bytes).unwrap();
    let mut state = 1u32;
    let noisy = |name: String| {
        let tensor = parsed.tensor(&name).unwrap().to_dtype(DType::F32).unwrap();
        let values = tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap().into_iter().map(|v| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            v + (state >> 8) as f32 / 1e9
        });
        let values: Vec<f32> = values.collect();
        (name, Tensor::from_vec(values, tensor.dims(), &Device::Cpu).unwrap())
    };
    let tensors: Vec<(String, Tensor)> = parsed.names().into_iter().map(noisy).collect();
    let folder = temporary.path().join("source");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("model.safetensors"), save_safetensors(&tensors).unwrap()).unwrap();
    std::fs::copy(source.join("config.json"), folder.join("config.json")).unwrap();
    let made = |encoding: &str| {
        let into = temporary.path().join(encoding);
        std::fs::create_dir(&into).unwrap();
        open(&import(&folder, &into, encoding), Engine::Cpu)
    };
    (made("u32"), made("u16"), temporary)
}

#[test]
fn tolerances_grow_with_what_lies_between() {
    for name in ["qwen3-plain", "gemma3-plain"] {
        let (exact, model, _folder) = rounded(name);
        let (left, right) = (Side::of_model(&exact), Side::of_model(&model));
        let all = numeric::pairs(&left, &right).unwrap();
        let inputs = numeric::inputs(&[&left, &right], &Given::default()).unwrap();
        let run = |right: &Side, ends: &[&str]| {
            let graph = right.graph();
            let named = |v| graph.name_of(v).is_some_and(|name| ends.iter().any(|end| name.ends_with(end)));
            let some: Vec<_> = all.iter().copied().filter(|pair| named(pair.right)).collect();
            numeric::compare(&left, right, &some, &inputs, None).unwrap()
        };
        let mut last = 0.0;
        for ends in [&[""][..], &[".out", "logits"], &["logits"]] {
            let report = run(&right, ends);
            assert!(report.is_within(), "{name} {ends:?}\n{}", report.text(true));
            let logits = report.values.last().unwrap();
            assert!(logits.measure.unwrap().relative > 1e-4 && logits.tolerance < 2.0, "{}", report.text(true));
            assert!(logits.tolerance >= last, "{ends:?}: {} after {last}", logits.tolerance);
            last = logits.tolerance;
        }
        let report = run(&right, &["logits"]);
        assert!(report.values[0].far && report.text(false).contains("too far from the last"), "{}", report.text(false));
    }
}

#[test]
fn references_of_half_precision_are_rounded() {
    for name in ["qwen3-plain", "gemma3-plain"] {
        for dtype in [DType::F16, DType::BF16] {
            for end in ["", "_proj", "lm_head"] {
                let (model, folder) = golden(name, Engine::Cpu);
                let mut reference = reference(name);
                reference.tensors.retain(|(name, _)| name.ends_with(end) || name == "input_ids");
                for (_, tensor) in reference.tensors.iter_mut().filter(|(_, t)| t.dtype().is_float()) {
                    *tensor = tensor.to_dtype(dtype).unwrap();
                }
                let mut options = raw(Engine::Cpu);
                options.program.stage = Some(Stage::Target);
                let fused = Model::open_with(folder.path().join("model.model"), &options).unwrap();
                for side in [Side::of_model(&model), Side::of_model(&fused)] {
                    let inputs = reference.inputs(&side, &Given::default()).unwrap();
                    let report = numeric::against(&side, &reference, &inputs, None).unwrap();
                    assert!(report.is_within(), "{name} {dtype:?} {end}\n{}", report.text(true));
                }
            }
        }
    }
    // And bugs are found still.
    let (model, _folder) = qwen(Engine::Cpu);
    let mut reference = reference("qwen3-plain");
    for (_, tensor) in reference.tensors.iter_mut().filter(|(_, t)| t.dtype().is_float()) {
        *tensor = tensor.to_dtype(DType::BF16).unwrap();
    }
    let (_, from, to, _) = BUGS[3];
    let side = edited(&model, from, to);
    let inputs = reference.inputs(&side, &Given::default()).unwrap();
    assert_eq!(first(&numeric::against(&side, &reference, &inputs, None).unwrap()), "%layer0.ffn_out");
}

#[test]
fn references_are_of_their_own_inputs() {
    let (model, _folder) = qwen(Engine::Cpu);
    let (side, reference) = (Side::of_model(&model), reference("qwen3-plain"));
    let mut given = Given::default();
    given.add_input("input_ids=1,2,3", &[&side]).unwrap();
    let error = reference.inputs(&side, &given).unwrap_err().to_string();
    assert!(error.contains("computed from its own `input_ids`"), "{error}");
    let own = reference.tensors.iter().find(|(name, _)| name == "input_ids").unwrap().clone();
    reference.inputs(&side, &Given { inputs: vec![own], ..Given::default() }).unwrap();
}

#[test]
fn values_far_above_those_of_other_layers_stand_out() {
    let model = Model::storyteller().unwrap();
    let side = Side::of_model(&model);
    let mut report = compare(&side, &side, &given("A fox."));
    let at = report.values.iter().position(|v| v.right == "%layer2.ffn_out").unwrap();
    report.values[at].measure.as_mut().unwrap().relative = 0.01;
    report.values[at].tolerance = 0.3;
    assert_eq!(report.standing_out(), [at]);
    let shown = report.text(false);
    assert!(shown.contains("stands out"), "{shown}");
    // The largest error is shown, however far within its tolerance.
    for other in report.values.iter_mut().filter(|v| v.right != "%layer2.ffn_out") {
        other.measure.as_mut().unwrap().relative = 0.9 * other.tolerance;
    }
    let shown = report.text(false);
    let table = shown.split("stands out").next().unwrap();
    assert!(table.contains("%layer2.ffn_out"), "{shown}");
}

/// A copy of a model file in which one scale of the tensor is another.
fn with_flipped_scale(model: &Model, path: &Path, tensor: &str, block: usize) {
    let file = model.file();
    let entry = file.tensors().iter().find(|t| t.name == tensor).unwrap();
    let range = file.range_of(entry);
    let encoding = file.tensor(tensor).unwrap().encoding;
    let size = encoding.block_bytes();
    let mut bytes = file.container().bytes().to_vec();
    let block = &mut bytes[range][block * size..][..size];
    match encoding {
        Encoding::Q8 | Encoding::Q4 => block[0] ^= 0xff,
        // The sign of the half-precision scale of scales.
        Encoding::Q4K | Encoding::Q5K => block[1] ^= 0x80,
        Encoding::Q2K => block[81] ^= 0x80,
        Encoding::Q3K | Encoding::Q6K => block[size - 1] ^= 0x80,
        other => panic!("{tensor} has no scales: {other:?}"),
    }
    std::fs::write(path, bytes).unwrap();
}

/// One flipped scale in one tensor is found: the product that reads it comes first, alone, with the tensor's name.
fn check_flipped(model: &Model, tensor: &str, blamed: &str, text: &str) {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("flipped.model");
    with_flipped_scale(model, &path, tensor, 7);
    let copy = open(&path, Engine::Cpu);
    let report = compare(&Side::of_model(model), &Side::of_model(&copy), &given(text));
    println!("{}", report.text(false));
    assert_eq!(first(&report), blamed, "{}", report.text(false));
    assert_eq!(report.values.iter().filter(|v| !v.verdict.is_within()).count(), 1, "{}", report.text(false));
    let weights = &report.suspects[0].weights;
    assert_eq!(weights.len(), 1);
    assert_eq!(weights[0].name, tensor);
    let block = model.file().tensor(tensor).unwrap().encoding.block_len();
    assert!(weights[0].differing > 0 && weights[0].differing <= block, "{weights:?}");
    assert!(report.text(false).contains(tensor));
}

#[test]
fn a_flipped_scale_of_the_storyteller_is_found() {
    let model = Model::storyteller().unwrap();
    let tensor = "model.layers.2.mlp.down_proj.weight";
    check_flipped(&model, tensor, "%layer2.ffn_out", "Tell me a story about a fox.");
}

#[test]
fn a_flipped_scale_of_a_real_model_is_found() {
    let Some((path, _folder)) = common::real_model("qwen2.5-coder-0.5b.gguf") else { return };
    let model = open(&path, Engine::Cpu);
    let tensor = "model.layers.11.self_attn.o_proj.weight";
    check_flipped(&model, tensor, "%layer11.attn_out", "Write a function that reverses a list.");
}

#[test]
fn the_engines_agree_on_real_models() {
    for file in ["qwen2.5-coder-0.5b.gguf", "gemma3-270m-q4_k_m.gguf"] {
        let Some((path, _folder)) = common::real_model(file) else { continue };
        let mut options = ModelOptions::default();
        options.program.engine = Engine::Reference;
        let oracle = Model::open_with(&path, &options).unwrap();
        for cache in [CacheType::F32, CacheType::F16] {
            options.program = ProgramOptions {
                engine: Engine::Cpu,
                cache,
                packed_cache: PackedCache::Off,
                ..ProgramOptions::default()
            };
            let fast = Model::open_with(&path, &options).unwrap();
            let (left, right) = (Side::of_model(&oracle), Side::of_model(&fast));
            let report = compare(&left, &right, &given("Write a function that reverses a list."));
            println!("{}", report.text(false));
            assert!(report.is_within(), "{file}:\n{}", report.text(false));
        }
    }
}
