//! Builtins of programs on small numbers, and what they say about wrong calls.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::values;
use std::sync::Arc;
use tallow::executor::{DType, Device, Program, ProgramOptions, Session, WeightSource, WeightView};
use tallow::format::Config;
use tallow::frontends::program::module::MAIN;
use tallow::frontends::program::{Language, Module, Options, compile};
use tallow::ir::verify::verify;
use tallow::{Engine, Rows, Tensor};

struct NoWeights;

impl WeightSource for NoWeights {
    fn weight(&self, _: &str) -> Option<WeightView<'_>> {
        None
    }
}

const CONFIG: &str = "model_type = \"test\"\n[architecture]\nhidden_size = 4\n";

/// A program whose `forward` takes `params` and does `body`.
fn program(params: &str, body: &str) -> Result<Module, String> {
    let source =
        format!("use cyb::nn::{{Tensor, Weights}};\n\npub fn forward({params}) -> Tensor {{\n    {body}\n}}\n");
    let index: indexmap::IndexMap<String, Vec<u64>> =
        [("a.weight".to_owned(), vec![3, 4]), ("a.bias".to_owned(), vec![3])].into_iter().collect();
    let config = Config::parse(CONFIG).unwrap();
    compile(&source, Language::Rs, "test.rs", &config, Some(&index), Options::default()).map_err(|e| e.to_string())
}

fn tensor(values: &[f32], dims: &[usize]) -> Tensor {
    Tensor::from_vec(values.to_vec(), dims, &Device::Cpu).unwrap()
}

/// Shapes and values of what `body` makes of `x` and `y`.
fn outputs(body: &str, x: &Tensor, y: &Tensor) -> Vec<(Vec<usize>, Vec<f32>)> {
    let declared = |name: &str, t: &Tensor| format!("let {name} = {name}.reshape({:?});\n    ", t.dims());
    let body = format!("{}{}{body}", declared("x", x), declared("y", y));
    let module = program("x: &Tensor, y: &Tensor", &body).unwrap_or_else(|e| panic!("{e}"));
    let graph = module.graphs[MAIN].clone();
    let given: Vec<(String, Tensor)> = [("x", x), ("y", y)]
        .into_iter()
        .filter(|(name, _)| graph.input_named(name).is_some())
        .map(|(name, t)| (name.to_owned(), t.clone()))
        .collect();
    let options = ProgramOptions { engine: Engine::Reference, threads: 1, ..ProgramOptions::default() };
    let program = Program::new(&verify(graph).unwrap(), Arc::new(NoWeights), options).unwrap();
    let made = Session::new(Arc::new(program)).run(&given, Rows::All).unwrap_or_else(|e| panic!("{body}: {e}"));
    let one = |(_, t): (String, Tensor)| (t.dims().to_vec(), values(&t.to_dtype(DType::F32).unwrap()));
    made.into_iter().map(one).collect()
}

/// What `body` makes of x = `[[1, -2, 3], [0.5, 0, -1]]` and y = `[2, 2, 0.5]`.
fn check(body: &str, dims: &[usize], wanted: &[f32]) {
    let x = tensor(&[1.0, -2.0, 3.0, 0.5, 0.0, -1.0], &[2, 3]);
    let made = outputs(body, &x, &tensor(&[2.0, 2.0, 0.5], &[3]));
    assert_eq!(made.len(), 1, "{body}");
    near(body, &made[0], dims, wanted);
}

fn near(what: &str, (dims, found): &(Vec<usize>, Vec<f32>), shape: &[usize], wanted: &[f32]) {
    assert_eq!(dims, shape, "{what}");
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs().max(1.0) || a == b;
    assert!(found.len() == wanted.len() && found.iter().zip(wanted).all(close), "{what}: {found:?}, not {wanted:?}");
}

#[test]
fn arithmetic_of_elements() {
    let s = &[2, 3];
    check("x.add(&y)", s, &[3.0, 0.0, 3.5, 2.5, 2.0, -0.5]);
    check("x.add(1)", s, &[2.0, -1.0, 4.0, 1.5, 1.0, 0.0]);
    check("1.0 - &x", s, &[0.0, 3.0, -2.0, 0.5, 1.0, 2.0]);
    check("x.sub(&y)", s, &[-1.0, -4.0, 2.5, -1.5, -2.0, -1.5]);
    check("x.mul(&y) / 2.0", s, &[1.0, -2.0, 0.75, 0.5, 0.0, -0.25]);
    check("x.div(&y)", s, &[0.5, -1.0, 6.0, 0.25, 0.0, -2.0]);
    check("1 / y.scale(2.0)", &[3], &[0.25, 0.25, 1.0]);
    check("x.rem(&y)", s, &[1.0, 0.0, 0.0, 0.5, 0.0, 0.0]);
    check("x.neg().abs().sign()", s, &[1.0, 1.0, 1.0, 1.0, 0.0, 1.0]);
    check("x.square().sqrt()", s, &[1.0, 2.0, 3.0, 0.5, 0.0, 1.0]);
    check("y.log().exp()", &[3], &[2.0, 2.0, 0.5]);
    check("y.rsqrt().mul(&y.sqrt()).recip()", &[3], &[1.0, 1.0, 1.0]);
    check("x.pow(2)", s, &[1.0, 4.0, 9.0, 0.25, 0.0, 1.0]);
    check("x.sin().square() + x.cos().square()", s, &[1.0; 6]);
    check("x.scale(0.5).floor()", s, &[0.0, -1.0, 1.0, 0.0, 0.0, -1.0]);
    check("x.scale(0.5).ceil()", s, &[1.0, -1.0, 2.0, 1.0, 0.0, 0.0]);
    check("x.scale(0.5).round()", s, &[0.0, -1.0, 2.0, 0.0, 0.0, 0.0]);
    check("x.maximum(0.25)", s, &[1.0, 0.25, 3.0, 0.5, 0.25, 0.25]);
    check("x.minimum(&y)", s, &[1.0, -2.0, 0.5, 0.5, 0.0, -1.0]);
    check("x.clamp(-1, 1)", s, &[1.0, -1.0, 1.0, 0.5, 0.0, -1.0]);
    check("x.clamp(f32::NEG_INFINITY, 0.0)", s, &[0.0, -2.0, 0.0, 0.0, 0.0, -1.0]);
    check("x.erf()", s, &[0.842_700_8, -0.995_322_3, 0.999_977_9, 0.520_499_9, 0.0, -0.842_700_8]);
}

#[test]
fn activations() {
    let s = &[2, 3];
    check("x.relu()", s, &[1.0, 0.0, 3.0, 0.5, 0.0, 0.0]);
    check("x.leaky_relu(0.1)", s, &[1.0, -0.2, 3.0, 0.5, 0.0, -0.1]);
    check("x.sigmoid() + x.neg().sigmoid()", s, &[1.0; 6]);
    check("x.silu() - x.sigmoid().mul(&x)", s, &[0.0; 6]);
    check("x.gelu()", s, &[0.841_344_7, -0.045_500_3, 2.995_950_2, 0.345_731_2, 0.0, -0.158_655_3]);
    check("x.gelu_tanh()", s, &[0.841_192, -0.045_402_3, 2.996_362_6, 0.345_714, 0.0, -0.158_808]);
    check("x.quick_gelu() - x.mul(&x.scale(1.702).sigmoid())", s, &[0.0; 6]);
    check("x.tanh()", s, &[0.761_594_2, -0.964_027_6, 0.995_054_8, 0.462_117_2, 0.0, -0.761_594_2]);
    check("x.softplus() - (x.exp() + 1.0).log()", s, &[0.0; 6]);
    check("x.softmax().sum(1)", &[2], &[1.0, 1.0]);
    check("x.softmax(0).sum(0)", &[3], &[1.0, 1.0, 1.0]);
    check("x.log_softmax() - x.softmax().log()", s, &[0.0; 6]);
    // Gates: the fused operations are their products.
    check("x.silu().mul(&y.expand([2, 3])) - x.sigmoid().mul(&x).mul(&y)", s, &[0.0; 6]);
    check(
        "y.expand([2, 3]).mul(&x.gelu())",
        s,
        &[1.682_689_5, -0.091_000_5, 1.497_975_1, 0.691_462_5, 0.0, -0.079_327_6],
    );
}

#[test]
fn gates_become_one_operation_where_nothing_else_reads_them() {
    let ops = |body: &str| {
        let body = format!("let x = x.reshape([2, 3]);\n    {body}");
        let graph = program("x: &Tensor", &body).unwrap().graphs[MAIN].clone();
        let mut names: Vec<_> = graph
            .nodes()
            .filter_map(|id| match &graph.node(id).kind {
                tallow::ir::NodeKind::Op(op) => Some(op.name()),
                _ => None,
            })
            .collect();
        names.sort_unstable();
        names
    };
    assert_eq!(ops("x.silu().mul(&x.neg())"), ["Neg", "SwiGlu"]);
    assert_eq!(ops("x.neg().mul(&x.silu())"), ["Neg", "SwiGlu"]);
    assert_eq!(ops("x.neg() * x.gelu()"), ["GeGlu", "Neg"]);
    assert_eq!(ops("x.gelu_tanh().mul(&x.neg())"), ["Gelu", "Mul", "Neg"]);
    assert_eq!(ops("x.silu().mul(2.0)"), ["MulScalar", "Silu"]);
    assert_eq!(ops("let gate = x.silu();\n    gate.mul(&gate)"), ["Mul", "Silu"]);
    assert_eq!(ops("let gate = x.silu();\n    gate.mul(&x.neg()).add(&gate)"), ["Add", "Neg", "Silu", "SwiGlu"]);
    // A row that broadcasts is no gate of the other's shape.
    assert_eq!(ops("x.silu().mul(&x.sum_keep(0))"), ["Mul", "Reduce", "Silu"]);
    assert_eq!(ops("x.scale(1.0).add(0).div(1)"), ["AddScalar"]);
}

#[test]
fn comparisons_and_choices() {
    let s = &[2, 3];
    check("x.gt(0.0).cast(\"f32\")", s, &[1.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    check("x.ge(0).cast(\"f32\") - x.lt(0).not().cast(\"f32\")", s, &[0.0; 6]);
    check("x.eq(&y.sub(1)).cast(\"i64\")", s, &[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    check("x.ne(1).and(&x.le(0.5)).or(&x.eq(3)).cast(\"f32\")", s, &[0.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    check("x.gt(0).select_from(&x, 7)", s, &[1.0, 7.0, 3.0, 0.5, 7.0, 7.0]);
    check("x.gt(0).select_from(1, &y)", s, &[1.0, 2.0, 1.0, 1.0, 2.0, 0.5]);
    check("x.gt(0).where_(1, 0.5)", s, &[1.0, 0.5, 1.0, 1.0, 0.5, 0.5]);
    check("x.masked_fill(&x.lt(0), 9)", s, &[1.0, 9.0, 3.0, 0.5, 0.0, 9.0]);
    // Whole numbers stay whole.
    check("Tensor::arange(4).sub(1).mul(3).eq(3).cast(\"f32\")", &[4], &[0.0, 0.0, 1.0, 0.0]);
    check("Tensor::arange(5).div(2)", &[5], &[0.0, 0.0, 1.0, 1.0, 2.0]);
    check("Tensor::arange(5).rem(3).maximum(1)", &[5], &[1.0, 1.0, 2.0, 1.0, 1.0]);
    check("(3 - Tensor::arange(3)) * Tensor::arange(3)", &[3], &[0.0, 2.0, 2.0]);
}

#[test]
fn sums_means_and_rows() {
    check("x.sum(0)", &[3], &[1.5, -2.0, 2.0]);
    check("x.sum(-1)", &[2], &[2.0, -0.5]);
    check("x.sum()", &[], &[1.5]);
    check("x.sum([0, 1])", &[], &[1.5]);
    check("x.sum_keep([0, 1])", &[1, 1], &[1.5]);
    check("x.mean(1)", &[2], &[2.0 / 3.0, -0.5 / 3.0]);
    check("x.mean_keep(0)", &[1, 3], &[0.75, -1.0, 1.0]);
    check("x.max(1)", &[2], &[3.0, 0.5]);
    check("x.min_keep(1)", &[2, 1], &[-2.0, -1.0]);
    check("y.prod()", &[], &[2.0]);
    check("x.var(0)", &[3], &[0.0625, 1.0, 4.0]);
    check("x.mean_pool()", &[3], &[0.75, -1.0, 1.0]);
    check("x.last()", &[3], &[0.5, 0.0, -1.0]);
    check("x.first().last()", &[], &[3.0]);
    check("x.unsqueeze(0).last()", &[1, 3], &[0.5, 0.0, -1.0]);
    check("x.cumsum(1)", &[2, 3], &[1.0, -1.0, 2.0, 0.5, 0.5, -0.5]);
    check("y.norm_l2()", &[3], &[0.696_310_6, 0.696_310_6, 0.174_077_7]);
    check("y.scale(0.0).norm_l2(0)", &[3], &[0.0; 3]);
    check("x.argmax()", &[2], &[2.0, 0.0]);
    check("x.argmin(0)", &[3], &[1.0, 0.0, 1.0]);
    check("let (values, index) = x.topk(2);\n    values.add(&index.cast(\"f32\"))", &[2, 2], &[5.0, 1.0, 0.5, 1.0]);
    let x = tensor(&[1.0, 3.0, 2.0], &[3]);
    let pair = outputs("x.topk(2)", &x, &x);
    near("values", &pair[0], &[2], &[3.0, 2.0]);
    near("index", &pair[1], &[2], &[1.0, 2.0]);
}

#[test]
fn sizes_that_only_running_tells_are_numbers() {
    let run = |body: &str| {
        let graph =
            program("x: &Tensor", &format!("let x = x.reshape([-1, 2]);\n    {body}")).unwrap().graphs[MAIN].clone();
        let options = ProgramOptions { engine: Engine::Reference, threads: 1, ..ProgramOptions::default() };
        let program = Program::new(&verify(graph).unwrap(), Arc::new(NoWeights), options).unwrap();
        let x = tensor(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2]);
        values(
            &Session::new(Arc::new(program)).run(&[("x".into(), x)], Rows::All).unwrap()[0]
                .1
                .to_dtype(DType::F32)
                .unwrap(),
        )
    };
    assert_eq!(run("x.sum(0).div(x.len())"), [3.0, 4.0]);
    assert_eq!(run("x.sum(0) / x.len()"), [3.0, 4.0]);
    assert_eq!(run("let [n, d] = x.shape();\n    Tensor::arange(n).mul(d).sub(n)"), [-3.0, -1.0, 1.0]);
    assert_eq!(run("x.len() - Tensor::arange(x.len())"), [3.0, 2.0, 1.0]);
}

#[test]
fn attention_in_all_its_forms() {
    let numbers = |n: usize, by: f32| (0..n).map(|i| (i as f32 * by).sin()).collect::<Vec<_>>();
    // 2 queries and 3 keys, 2 heads of 2.
    let (q, kv) = (tensor(&numbers(8, 0.7), &[2, 4]), tensor(&numbers(24, 1.3), &[2, 3, 4]));
    let literal = "let k = y.select(0, 0).reshape([3, 2, 2]).permute([1, 0, 2]);
    let v = y.select(0, 1).reshape([3, 2, 2]).permute([1, 0, 2]);
    let q = x.reshape([2, 2, 2]).permute([1, 0, 2]);
    let mixed = q.matmul_t(&k).scale(1.0 / 2.0_f64.sqrt()).SCORES.softmax(-1).matmul(&v);
    mixed.permute([1, 0, 2]).reshape([2, 4])";
    let plain = outputs(&literal.replace(".SCORES", ""), &q, &kv).remove(0);
    let cross = "Tensor::attention(&x, &y.select(0, 0), &y.select(0, 1), 2, 2)";
    near(cross, &outputs(cross, &q, &kv)[0], &[2, 4], &plain.1);
    let batch = "Tensor::attention(&x.unsqueeze(0), &y.slice(0, 0, 1), &y.slice(0, 1, 2), 2, 2).squeeze(0)";
    near(batch, &outputs(batch, &q, &kv)[0], &[2, 4], &plain.1);
    // A mask of what is allowed, for all heads.
    let mask = "let mask = Tensor::arange(3).ne(1).select_from(0.0, f32::NEG_INFINITY);\n    ";
    let masked = outputs(&format!("{mask}{}", literal.replace("SCORES", "add(&mask)")), &q, &kv).remove(0);
    assert_ne!(masked.1, plain.1);
    for form in [
        "Tensor::attention(&x, &y.select(0, 0), &y.select(0, 1), 2, 2, &mask)",
        "Tensor::attention(&x.unsqueeze(0), &y.slice(0, 0, 1), &y.slice(0, 1, 2), 2, 2, &mask).squeeze(0)",
    ] {
        near(form, &outputs(&format!("{mask}{form}"), &q, &kv)[0], &[2, 4], &masked.1);
    }
    // Three tokens to themselves, of which none sees a later one, and queries, keys and values side by side.
    let x = tensor(&numbers(36, 0.9), &[3, 12]);
    let causal =
        outputs("let [q, k, v] = x.chunk(3, 1);\n    Tensor::causal_attention(&q, &k, &v, 2, 2)", &x, &x).remove(0);
    let by_mask = "let [q, k, v] = x.chunk(3, 1);
    let place = Tensor::arange(3);
    let mask = place.unsqueeze(0).le(&place.unsqueeze(1)).select_from(0.0, f32::NEG_INFINITY);
    Tensor::attention(&q, &k, &v, 2, 2, &mask)";
    near("causal", &causal, &[3, 4], &outputs(by_mask, &x, &x)[0].1);
    let batched =
        "let [q, k, v] = x.unsqueeze(0).chunk(3, 2);\n    Tensor::causal_attention(&q, &k, &v, 2, 2).squeeze(0)";
    near("causal with a batch", &outputs(batched, &x, &x)[0], &[3, 4], &causal.1);
    let both =
        "let [q, k, v] = x.chunk(3, 1);\n    Tensor::attention(&q, &k, &v, 2, 2) - Tensor::self_attention(&x, 2, 2)";
    near("self_attention", &outputs(both, &x, &x)[0], &[3, 4], &[0.0; 12]);
    // The first token is not turned.
    let turned = outputs("Tensor::rope(&x, 4, 10000.0)", &x, &x).remove(0);
    assert_eq!(turned.1[..12], values(&x)[..12]);
    let (a, b) = (values(&x)[12], values(&x)[14]);
    assert!((turned.1[12] - (a * 1f32.cos() - b * 1f32.sin())).abs() < 1e-5);
}

#[test]
fn sound() {
    let x = tensor(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2]);
    let durations = tensor(&[2.0, 0.0, 1.0], &[3]);
    let rows = outputs("x.expand_by_durations(&y)", &x, &durations).remove(0);
    near("rows", &rows, &[3, 2], &[1.0, 2.0, 1.0, 2.0, 5.0, 6.0]);
    // Twice the same durations give one size, so that the results add up.
    let twice =
        "let c = x.transpose().unsqueeze(0);\n    c.expand_by_durations(&y).add(&c.neg().expand_by_durations(&y))";
    near("twice", &outputs(twice, &x, &durations)[0], &[1, 2, 3], &[0.0; 6]);
    let whole = "x.expand_by_durations(&y.cast(\"i64\"))";
    assert_eq!(outputs(whole, &x, &durations)[0], rows);
    let back = "let z = x.mul(&y.exp()).add(&y);\n    z.affine_coupling_inverse(&y, &y)";
    let y = tensor(&[0.5, -1.0], &[2]);
    near("coupling", &outputs(back, &x, &y)[0], &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let noise: Vec<f32> = (0..3200).map(|i| (i as f32 * 0.37).sin()).collect();
    let samples = tensor(&noise, &[3200]);
    assert_eq!(outputs("Tensor::mel_spectrogram(&x, 80)", &samples, &y)[0].0, [80, 20]);
    let other = "Tensor::mel_spectrogram(&x, 40, 8000, 256, 80, 20.0, 3800.0, \"htk\", \"natural\")";
    assert_eq!(outputs(other, &samples, &y)[0].0, [40, 40]);
}

#[test]
fn tokens_that_are_never_taken() {
    let x = tensor(&[1.0, 3.0, 2.0], &[3]);
    near("masked", &outputs("x.suppress(&[1])", &x, &x)[0], &[3], &[1.0, f32::NEG_INFINITY, 2.0]);
    near("nothing", &outputs("x.suppress(&[])", &x, &x)[0], &[3], &[1.0, 3.0, 2.0]);
    let e = program("x: &Tensor", "let x = x.reshape([3]);\n    x.suppress_first(&[1]).add(1)").unwrap_err();
    assert!(e.contains("E0703") && e.contains("suppress_first"), "{e}");
}

/// What the compiler says about calls that do not fit: parts of the message.
#[test]
fn wrong_calls_are_explained() {
    let mut faults = Vec::new();
    let mut says = |body: &str, wanted: &[&str]| {
        let full = format!("let x = x.reshape([5, 4]);\n    {body}");
        match program("x: &Tensor, w: &Weights", &full) {
            Ok(_) => faults.push(format!("`{body}` compiles")),
            Err(e) => {
                let missing: Vec<_> = wanted.iter().filter(|part| !e.contains(**part)).collect();
                if !missing.is_empty() {
                    faults.push(format!("`{body}` lacks {missing:?}:\n{e}"));
                }
            }
        }
    };
    says("x.add(&x.reshape([2, 10]))", &["E0501", "f32[5, 4]", "f32[2, 10]", "do not broadcast"]);
    says("x.softmax(2)", &["E0503", "no dimension 2 in a tensor of 2"]);
    says("x.sum([0, -2])", &["E0503", "dimension 0 is named twice"]);
    says("x.sum([])", &["E0301", "an empty list"]);
    says("x.add(\"one\")", &["E0301", "expected a tensor, found a text"]);
    says("x.scale(&x)", &["E0301", "expected a number, found a tensor"]);
    says("x.clamp(1, -1)", &["the lower bound is 1 and the upper one -1"]);
    says("x.leaky_relu(f32::NAN)", &["expected a finite number"]);
    says("x.relu(1)", &["E0205", "takes 0 arguments"]);
    says("x.gt(0).exp()", &["E0301", "`exp` takes real numbers, and this is bool[5, 4]"]);
    says("x.argmax().sqrt()", &["i64[5]", ".cast(\"f32\")"]);
    says("x.argmax().mean(0)", &["a mean needs real numbers", "i64[5]"]);
    says("x.gt(0).sum(0)", &["takes numbers", "bool[5, 4]"]);
    says("x.select_from(1, 2)", &["chooses by truth values", "f32[5, 4]", "x.gt(0.0)"]);
    says("x.topk(5)", &["E0501", "the 5 largest of 4 values"]);
    says("x.sum().last()", &["E0502", "`last` works along rows", "f32[]"]);
    says("x.last().mean_pool()", &["E0502", "needs at least 2 dimensions"]);
    says("Tensor::attention(&x, &x, &x, 3, 2)", &["E0501", "`q` is f32[5, 4]", "3 heads of 2 need rows of 6"]);
    says("Tensor::attention(&x, &x.slice(0, 0, 3), &x, 2, 2)", &["3 keys and 5 values"]);
    says("Tensor::attention(&x, &x.unsqueeze(0), &x, 2, 2)", &["E0502", "a batch or none"]);
    says("Tensor::attention(&x, &x, &x, 2, 2, &x.gt(0))", &["a mask is added to the scores", "bool[5, 4]"]);
    says("Tensor::causal_attention(&x, &x.slice(0, 0, 3), &x.slice(0, 0, 3), 2, 2)", &["5 queries and 3 keys"]);
    says("Tensor::self_attention(&x, 2, 2)", &["`qkv` is f32[5, 4]", "rows of 12"]);
    says("Tensor::rope(&x, 3, 10000.0)", &["rows of 4 are no whole heads of 3"]);
    says("Tensor::flash_attention(&x, &x, &x, 2, 2, 2)", &["E0805"]);
    says("x.expand_by_durations(&x)", &["durations are f32[5, 4]", "`[5]`"]);
    says("Tensor::mel_spectrogram(&x.unsqueeze(0), 80)", &["samples are `[N]` or `[B, N]`"]);
    says("Tensor::mel_spectrogram(&x, 80, 16000, 4, 2, 0.0, 8000.0, \"bark\")", &["\"slaney\" or \"htk\""]);
    says("x.suppress(&[4])", &["4 is no token: there are 4 logits"]);
    says("w.linear(&x, \"a\", 4)", &["E0402", "`a.weight` has the shape [3, 4]", "[4, 4]"]);
    says("w.linear(&x, \"b\", 4)", &["E0401", "`b.weight`", "did you mean"]);
    says("w.linear(&x.slice(1, 0, 3), \"a\", 3)", &["E0402", "[3, 3]"]);
    says("x.sofmax(1)", &["E0203", "did you mean `softmax`?"]);
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}
