//! Every operation against values from PyTorch, and its types against what running gives.
//!
//! The cases lie in `ops/NAME.json` and `ops/NAME.safetensors`; `scripts/op-goldens/` makes them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tallow_executor::{
    DType as Element, Device, Engine, ExecutorError, Program, ProgramOptions, Rows, Session, Tensor, WeightSource,
    WeightView,
};
use tallow_ir::{Bindings, DType, Dim, Effect, Graph, Op, OpInfo, Shape, TensorType, verify};

/// Operations without a file here, and where they are tested instead.
const ELSEWHERE: &[(&str, &str)] = &[
    ("KvCache", "executor/tests/cache.rs: it has state"),
    ("CachedAttention", "tests/fusions.rs: it has state"),
    ("Unpatchify", "always refused by its rule, so that it has nothing but bad cases"),
    ("RandomNormal", "executor/tests/effects.rs: no reference has the same numbers"),
    ("HostCall", "executor/tests/effects.rs: the caller computes it"),
];

/// Operations that may refuse what their operands hold: rows, places and sizes that data chooses.
const CHECK_DATA: &[&str] = &[
    "TokenEmbed",
    "PosEmbed",
    "Gather",
    "GatherElements",
    "MatrixInverse",
    "Cast",
    "Remainder",
    "Reduce",
    "ExpertMatmul",
    "ExpertFeedForward",
    "Sample",
    "RelativePosEmbedding",
    "NonMaxSuppression",
    "KvDecompress",
    "LogMel",
    "Quantize",
    "Div",
    "SegmentAttention",
    "SegmentReduce",
];

struct NoWeights;
impl WeightSource for NoWeights {
    fn weight(&self, _: &str) -> Option<WeightView<'_>> {
        None
    }
}

/// One operation's cases with their tensors.
struct Goldens {
    op: String,
    cases: Json,
    tensors: HashMap<String, Tensor>,
}

impl Goldens {
    fn all() -> Vec<Goldens> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ops");
        let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        files
            .iter()
            .filter(|f| match f.extension().and_then(|e| e.to_str()) {
                Some("json") => true,
                Some("safetensors") => false,
                _ => panic!("{}: neither .json nor .safetensors", f.display()),
            })
            .map(|f| {
                let cases: Json = serde_json::from_slice(&std::fs::read(f).unwrap()).unwrap();
                let op = cases["op"].as_str().unwrap().to_owned();
                assert_eq!(f.file_stem().unwrap().to_str().unwrap(), op);
                let tensors = std::fs::read(f.with_extension("safetensors"))
                    .map(|bytes| tallow_executor::load_safetensors(&bytes).unwrap())
                    .unwrap_or_default();
                Goldens { op, cases, tensors }
            })
            .collect()
    }

    fn list(&self, key: &str) -> &[Json] {
        self.cases[key].as_array().unwrap()
    }

    /// The operation of a case with its attributes, read as the text form is.
    fn op(&self, case: &Json) -> Result<Op, String> {
        let fields = case["attributes"].as_object().unwrap();
        let known: Vec<_> = OpInfo::by_name(&self.op).unwrap().fields.iter().map(|f| f.name).collect();
        for name in fields.keys() {
            assert!(known.contains(&name.as_str()), "{}: no field `{name}`", self.op);
        }
        Op::from_fields(&self.op, |f| fields.get(f).map(|t| t.as_str().unwrap().to_owned()).ok_or("missing".into()))
    }

    /// Operands of a case: name, element type, tensor.
    fn operands(&self, case: &Json) -> Vec<(String, DType, Tensor)> {
        let name = case["name"].as_str().unwrap();
        case["operands"]
            .as_array()
            .unwrap()
            .iter()
            .map(|o| {
                let (operand, dtype) = o.as_str().unwrap().split_once(": ").unwrap();
                let tensor = self.tensors[&format!("{name}/{operand}")].clone();
                (operand.to_owned(), DType::from_name(dtype).unwrap(), tensor)
            })
            .collect()
    }
}

fn ty(dtype: DType, dims: &[usize]) -> TensorType {
    TensorType::new(dtype, Shape::new(dims.iter().map(|&n| Dim::constant(n as i64))))
}

fn parse_type(text: &str) -> TensorType {
    let (dtype, dims) = text.strip_suffix(']').unwrap().split_once('[').unwrap();
    let dims = dims.split(',').map(str::trim).filter(|d| !d.is_empty());
    TensorType::new(DType::from_name(dtype).unwrap(), Shape::new(dims.map(|d| d.parse().unwrap())))
}

/// Runs one operation on inputs of the given declared types.
fn run(op: &Op, declared: &[TensorType], tensors: &[Tensor], engine: Engine) -> Result<Vec<Tensor>, ExecutorError> {
    let mut g = Graph::new();
    let inputs: Vec<_> = declared.iter().zip(0..).map(|(t, i)| g.input(&format!("x{i}"), t.clone()).unwrap()).collect();
    for (i, value) in g.op_many(op.clone(), &inputs).unwrap().into_iter().enumerate() {
        g.output(&format!("y{i}"), value).unwrap();
    }
    let verified = verify::verify(g).unwrap();
    let options = ProgramOptions { engine, threads: 1, ..ProgramOptions::default() };
    let program = Program::new(&verified, Arc::new(NoWeights), options)?;
    let given: Vec<_> = tensors.iter().enumerate().map(|(i, t)| (format!("x{i}"), t.clone())).collect();
    let outputs = Session::new(Arc::new(program)).run(&given, Rows::All)?;
    Ok(outputs.into_iter().map(|(_, t)| t).collect())
}

/// The Candle element type that holds values of an IR type.
fn element(dtype: DType) -> Element {
    match dtype {
        DType::F16 => Element::F16,
        DType::BF16 => Element::BF16,
        DType::Bool | DType::U8 => Element::U8,
        d if d.is_integer() => Element::I64,
        _ => Element::F32,
    }
}

fn values(t: &Tensor) -> Vec<f64> {
    t.flatten_all().unwrap().to_dtype(Element::F64).unwrap().to_vec1().unwrap()
}

/// max|a − b| / max|b|; infinities and NaNs must agree in place and kind.
fn error(found: &[f64], wanted: &[f64]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    let top = wanted.iter().filter(|v| v.is_finite()).fold(0f64, |m, v| m.max(v.abs()));
    let mut worst = 0f64;
    for (a, b) in found.iter().zip(wanted) {
        if b.is_finite() && a.is_finite() {
            worst = worst.max((a - b).abs());
        } else if !(a == b || (a.is_nan() && b.is_nan())) {
            return f64::INFINITY;
        }
    }
    worst / top.max(1e-30)
}

#[test]
fn every_operation_gives_the_reference_s_values() {
    let mut faults = Vec::new();
    for goldens in Goldens::all() {
        for case in goldens.list("cases") {
            let name = format!("{}/{}", goldens.op, case["name"].as_str().unwrap());
            let op = goldens.op(case).unwrap_or_else(|e| panic!("{name}: {e}"));
            let operands = goldens.operands(case);
            let declared: Vec<_> = operands.iter().map(|(_, d, t)| ty(*d, t.dims())).collect();
            let tensors: Vec<_> = operands.into_iter().map(|(_, _, t)| t).collect();
            let inferred = match op.infer(&declared) {
                Ok(types) => types,
                Err(e) => {
                    faults.push(format!("{name}: refused: {e}"));
                    continue;
                }
            };
            assert_eq!(inferred.len() as u64, case["results"].as_u64().unwrap(), "{name}");
            for engine in [Engine::Reference, Engine::Cpu] {
                let found = match run(&op, &declared, &tensors, engine) {
                    Ok(found) => found,
                    Err(e) => {
                        faults.push(format!("{name}, {engine:?}: {e}"));
                        continue;
                    }
                };
                for (i, (found, ty)) in found.iter().zip(&inferred).enumerate() {
                    let wanted = &goldens.tensors[&format!("{}/result{i}", case["name"].as_str().unwrap())];
                    if found.dims() != wanted.dims() || found.dtype() != element(ty.dtype) {
                        faults.push(format!(
                            "{name}, {engine:?}, result {i}: {:?}{:?}, expected {:?}{:?} ({ty})",
                            found.dtype(),
                            found.dims(),
                            wanted.dtype(),
                            wanted.dims()
                        ));
                        continue;
                    }
                    let off = error(&values(found), &values(wanted));
                    if off > case["tolerance"].as_f64().unwrap() {
                        faults.push(format!("{name}, {engine:?}, result {i}: error {off:.2e}"));
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Whether `found` is what `inferred` says, where symbols that begin with `?` may be anything.
fn fits(found: &Tensor, inferred: &TensorType, bindings: &Bindings) -> bool {
    found.dtype() == element(inferred.dtype)
        && found.rank() == inferred.shape.rank()
        && found
            .dims()
            .iter()
            .zip(inferred.shape.dims())
            .all(|(&n, d)| d.symbols().iter().any(|s| s.starts_with('?')) || d.evaluate(bindings) == Some(n as i64))
}

/// A small generator of numbers: the same on every machine.
struct Numbers(u64);
impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below
    }

    fn tensor(&mut self, dtype: DType, dims: &[usize]) -> Tensor {
        let n = dims.iter().product();
        let whole = !matches!(element(dtype), Element::F32 | Element::F16 | Element::BF16);
        let top = if dtype == DType::Bool { 2 } else { 3 };
        let values: Vec<f32> =
            (0..n).map(|_| if whole { self.next(top) as f32 } else { self.next(4001) as f32 / 1000.0 - 2.0 }).collect();
        Tensor::from_vec(values, dims, &Device::Cpu).unwrap().to_dtype(element(dtype)).unwrap()
    }
}

/// Whatever a rule accepts runs and gives the type that the rule said, with sizes known before or
/// only when running.
#[test]
fn rules_and_running_agree_on_other_shapes() {
    let mut random = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut faults = Vec::new();
    let (mut ran, mut refused) = (BTreeMap::<String, u32>::new(), 0u32);
    for goldens in Goldens::all() {
        for case in goldens.list("cases") {
            let op = goldens.op(case).unwrap();
            let operands = goldens.operands(case);
            for round in 0..6 {
                // Sizes that were equal change together in some rounds, each on its own in others.
                let mut sizes: HashMap<usize, usize> = HashMap::new();
                let mut change = |n: usize, random: &mut Numbers| {
                    if round == 0 {
                        return n;
                    }
                    let fresh = if random.next(40) == 0 { 0 } else { 1 + random.next(6) };
                    match round % 3 {
                        1 => *sizes.entry(n).or_insert(fresh),
                        2 if random.next(3) > 0 => n,
                        _ if random.next(3) > 0 => *sizes.entry(n).or_insert(n),
                        _ => fresh,
                    }
                };
                let shapes: Vec<Vec<usize>> = operands
                    .iter()
                    .map(|(_, _, t)| t.dims().iter().map(|&n| change(n, &mut random)).collect())
                    .collect();
                let declared: Vec<_> = operands.iter().zip(&shapes).map(|((_, d, _), s)| ty(*d, s)).collect();
                let Ok(inferred) = op.infer(&declared) else {
                    refused += 1;
                    continue;
                };
                let tensors: Vec<_> = match round {
                    0 => operands.iter().map(|(_, _, t)| t.clone()).collect(),
                    _ => operands.iter().zip(&shapes).map(|((_, d, _), s)| random.tensor(*d, s)).collect(),
                };
                let empty = tensors.iter().any(|t| t.elem_count() == 0);
                let name = format!("{} {} of {declared:?}", goldens.op, op.attributes());
                match run(&op, &declared, &tensors, Engine::Cpu) {
                    Ok(found) => {
                        *ran.entry(goldens.op.clone()).or_default() += 1;
                        let ok = found.len() == inferred.len()
                            && found.iter().zip(&inferred).all(|(f, t)| fits(f, t, &Bindings::new()));
                        if !ok {
                            let dims: Vec<_> = found.iter().map(|t| (t.dtype(), t.dims())).collect();
                            faults.push(format!("{name}: {dims:?}, inferred {inferred:?}"));
                        }
                    }
                    Err(_) if empty || (round > 0 && CHECK_DATA.contains(&goldens.op.as_str())) => continue,
                    Err(e) => faults.push(format!("{name}: {e}")),
                }
                // The same sizes as symbols: each size above 1 has one of its own, its dimensions share it.
                let mut bindings = Bindings::new();
                let symbolic: Vec<_> = declared
                    .iter()
                    .map(|t| {
                        let dims = t.shape.dims().iter().map(|d| match d.as_const() {
                            Some(n) if n > 1 => {
                                bindings.insert(format!("n{n}"), n);
                                Dim::symbol(&format!("n{n}"))
                            }
                            _ => d.clone(),
                        });
                        TensorType::new(t.dtype, Shape::new(dims))
                    })
                    .collect();
                if let Ok(types) = op.infer(&symbolic) {
                    match run(&op, &symbolic, &tensors, Engine::Reference) {
                        Ok(found) => {
                            if !found.iter().zip(&types).all(|(f, t)| fits(f, t, &bindings)) {
                                let dims: Vec<_> = found.iter().map(|t| (t.dtype(), t.dims())).collect();
                                faults.push(format!("{name} with symbols: {dims:?}, inferred {types:?}"));
                            }
                        }
                        Err(_) if empty || CHECK_DATA.contains(&goldens.op.as_str()) => {}
                        Err(e) => faults.push(format!("{name} with symbols: {e}")),
                    }
                }
            }
        }
    }
    println!("{} runs, {refused} shapes refused", ran.values().sum::<u32>());
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn what_does_not_fit_is_refused_with_its_reason() {
    for goldens in Goldens::all() {
        let name = &goldens.op;
        for case in goldens.list("bad") {
            let wanted = case["error"].as_str().unwrap();
            let operands: Vec<_> =
                case["operands"].as_array().unwrap().iter().map(|t| parse_type(t.as_str().unwrap())).collect();
            let found = match goldens.op(case) {
                Ok(op) => op.infer(&operands).map(|t| format!("{t:?}")).map_err(|e| e.0),
                Err(e) => Err(e),
            };
            match found {
                Err(e) => assert!(e.contains(wanted), "{name}: {e:?} lacks {wanted:?}"),
                Ok(types) => panic!("{name} {} of {operands:?} gives {types}", case["attributes"]),
            }
        }
        for case in goldens.list("faults") {
            let op = goldens.op(case).unwrap();
            let operands = goldens.operands(case);
            let declared: Vec<_> = operands.iter().map(|(_, d, t)| ty(*d, t.dims())).collect();
            let tensors: Vec<_> = operands.into_iter().map(|(_, _, t)| t).collect();
            for engine in [Engine::Reference, Engine::Cpu] {
                let wanted = case["error"].as_str().unwrap();
                match run(&op, &declared, &tensors, engine) {
                    Err(e) => assert!(e.to_string().contains(wanted), "{name}, {engine:?}: {e} lacks {wanted:?}"),
                    Ok(_) => panic!("{name}/{}, {engine:?}: ran", case["name"]),
                }
            }
        }
    }
}

/// Arity and payload of every operation: too few, too many, and every cut of the bytes.
#[test]
fn arity_and_cut_payloads_are_refused() {
    for goldens in Goldens::all() {
        let Some(case) = goldens.list("cases").first() else { continue };
        let op = goldens.op(case).unwrap();
        let operands: Vec<_> = goldens.operands(case).iter().map(|(_, d, t)| ty(*d, t.dims())).collect();
        assert!(operands.is_empty() || op.infer(&[]).is_err(), "{}: takes no operands", goldens.op);
        let more = TensorType::f32(Shape::new([Dim::constant(2)]));
        let many: Vec<_> = operands.iter().chain([&more]).cycle().take(operands.len() + 7).cloned().collect();
        assert!(op.info().operands.contains('*') || op.infer(&many).is_err(), "{}: takes {}", goldens.op, many.len());
        let mut bytes = Vec::new();
        op.write_payload(&mut bytes);
        for cut in 0..bytes.len() {
            let mut reader = tallow_ir::ops::Reader::new(&bytes[..cut]);
            assert!(Op::read_payload(op.tag(), &mut reader).is_err(), "{}: {cut} of {}", goldens.op, bytes.len());
        }
        let mut reader = tallow_ir::ops::Reader::new(&bytes);
        assert_eq!(Op::read_payload(op.tag(), &mut reader).unwrap(), op);
    }
}

#[test]
fn every_operation_has_cases_of_every_kind() {
    let all: HashMap<String, Goldens> = Goldens::all().into_iter().map(|g| (g.op.clone(), g)).collect();
    let mut faults = Vec::new();
    for info in OpInfo::all() {
        if ELSEWHERE.iter().any(|(n, _)| *n == info.name) {
            continue;
        }
        let Some(goldens) = all.get(info.name) else {
            faults.push(format!("{}: no file", info.name));
            continue;
        };
        let kinds: Vec<&str> = goldens
            .list("cases")
            .iter()
            .flat_map(|c| c["kinds"].as_array().unwrap().iter().map(|k| k.as_str().unwrap()))
            .collect();
        for kind in ["ordinary", "size_one", "odd"] {
            if !kinds.contains(&kind) {
                faults.push(format!("{}: no case of kind {kind}", info.name));
            }
        }
        if goldens.list("bad").is_empty() {
            faults.push(format!("{}: nothing bad", info.name));
        }
        if info.effect == Effect::State {
            faults.push(format!("{}: state needs a test of its own", info.name));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
