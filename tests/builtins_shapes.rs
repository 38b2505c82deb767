//! Builtins of programs that move elements, make tensors, convolve and resize, on small numbers with sizes that only
//! running tells.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::values;
use std::collections::BTreeMap;
use std::sync::Arc;
use tallow::executor::{DType, Device, Program, ProgramOptions, Session, WeightSource, WeightView};
use tallow::format::{Config, Encoding};
use tallow::frontends::program::module::MAIN;
use tallow::frontends::program::{Language, Options, compile};
use tallow::ir::verify::verify;
use tallow::{Engine, Rows, Tensor};

struct Weights(BTreeMap<&'static str, (Vec<u64>, Vec<u8>)>);

impl WeightSource for Weights {
    fn weight(&self, name: &str) -> Option<WeightView<'_>> {
        let (shape, bytes) = self.0.get(name)?;
        Some(WeightView { shape, encoding: Encoding::U32, bytes })
    }
}

/// Tensors by name: whole numbers 1, 2, 3 … in each, but for the statistics of a batch norm.
fn weights() -> Weights {
    let shapes: [(&str, &[u64]); 13] = [
        ("table.weight", &[6, 2]),
        ("same.weight", &[1, 2, 2]),
        ("late.weight", &[2, 1, 2]),
        ("late.bias", &[2]),
        ("wide.weight", &[2, 1, 2]),
        ("square.conv.weight", &[1, 2, 1, 1]),
        ("square.bn.weight", &[1]),
        ("square.bn.bias", &[1]),
        ("square.bn.running_mean", &[1]),
        ("square.bn.running_var", &[1]),
        ("norm.weight", &[2]),
        ("norm.bias", &[2]),
        ("cube.weight", &[1, 2, 1, 2, 1]),
    ];
    let one = |(name, shape): (&'static str, &[u64])| {
        let count = shape.iter().product::<u64>();
        let numbers: Vec<f32> = (1..=count).map(|n| n as f32).collect();
        let mut bytes = Vec::new();
        Encoding::U32.encode(&numbers, &mut bytes).unwrap();
        (name, (shape.to_vec(), bytes))
    };
    Weights(shapes.into_iter().map(one).collect())
}

/// What `body` makes of x = 0, 1, … 11 in these sizes, on both engines.
fn run(dims: &[usize], body: &str) -> (Vec<usize>, Vec<f32>) {
    let source = format!("pub fn forward(x: &Tensor, config: &Config, w: &Weights) -> Tensor {{\n    {body}\n}}\n");
    let weights = Arc::new(weights());
    let index = weights.0.iter().map(|(name, (shape, _))| ((*name).to_owned(), shape.clone())).collect();
    let index: indexmap::IndexMap<String, Vec<u64>> = index;
    let config = Config::parse("model_type = \"test\"\n[architecture]\nvocab_size = 6\n").unwrap();
    let module = compile(&source, Language::Rs, "test.rs", &config, Some(&index), Options::default())
        .unwrap_or_else(|e| panic!("{e}"));
    let graph = verify(module.graphs[MAIN].clone()).unwrap_or_else(|e| panic!("{body}\n{e}"));
    let count = dims.iter().product::<usize>();
    let numbers: Vec<f32> = (0..count).map(|n| n as f32).collect();
    let x = Tensor::from_vec(numbers, dims, &Device::Cpu).unwrap();
    let inputs: Vec<_> = graph.graph().inputs().map(|(n, _)| n.to_owned()).filter(|n| n == "x").collect();
    let given: Vec<(String, Tensor)> = inputs.into_iter().map(|n| (n, x.clone())).collect();
    let mut found = None;
    for engine in [Engine::Reference, Engine::Cpu] {
        let options = ProgramOptions { engine, threads: 1, ..ProgramOptions::default() };
        let program = Program::new(&graph, weights.clone(), options).unwrap();
        let made = Session::new(Arc::new(program)).run(&given, Rows::All).unwrap_or_else(|e| panic!("{body}\n{e}"));
        let (_, t) = &made[0];
        let now = (t.dims().to_vec(), values(&t.to_dtype(DType::F32).unwrap()));
        // The compiler may compute in another order.
        if let Some((dims, before)) = found.replace(now.clone()) {
            near(body, now, &dims, &before);
        }
    }
    found.unwrap()
}

/// x is `[2, 3, 2]`, of which the first two sizes only running tells: `n` and `s`.
fn check(body: &str, dims: &[usize], wanted: &[f32]) {
    let body = format!("let x = x.reshape([-1, -1, 2]);\n    let (n, s) = (x.dim(0), x.dim(1));\n    {body}");
    near(&body, run(&[2, 3, 2], &body), dims, wanted);
}

fn near(body: &str, (shape, found): (Vec<usize>, Vec<f32>), dims: &[usize], wanted: &[f32]) {
    assert_eq!(shape, dims, "{body}");
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
    assert!(found.len() == wanted.len() && found.iter().zip(wanted).all(close), "{body}: {found:?}, not {wanted:?}");
}

#[test]
fn sizes_that_only_running_tells() {
    check("Tensor::full([1, 1, 1], 5).expand([n, s, 1])", &[2, 3, 1], &[5.0; 6]);
    check("Tensor::full([n, s], 2.5)", &[2, 3], &[2.5; 6]);
    check("Tensor::arange(2).repeat([s])", &[6], &[0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
    check("Tensor::arange(2).repeat([n, s])", &[2, 6], &[0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
    check("Tensor::arange(2).repeat_each(s, 0)", &[6], &[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    check("Tensor::arange(4, s + 4)", &[3], &[4.0, 5.0, 6.0]);
    check("Tensor::arange(9).slice(0, 0, s)", &[3], &[0.0, 1.0, 2.0]);
    check("Tensor::arange(9).slice(0, 2, s + 2)", &[3], &[2.0, 3.0, 4.0]);
    check("x.slice(1, s - 1, s).slice(0, n - 1)", &[1, 1, 2], &[10.0, 11.0]);
    check("x.select(1, s - 1)", &[2, 2], &[4.0, 5.0, 10.0, 11.0]);
    check("let [a, b] = x.split([1, s - 1], 1); b.select(2, 0)", &[2, 2], &[2.0, 4.0, 8.0, 10.0]);
    check("x.reshape([n * s, 2]).select(1, 0)", &[6], &[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    check("x.reshape([n, s * 2]).select(0, 1)", &[6], &[6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
    check("x.reshape([s, n, 2]).select(0, 1)", &[2, 2], &[4.0, 5.0, 6.0, 7.0]);
    let rows = "x.reshape([1, n, s, 2]).permute([0, 3, 1, 2]).flatten_patches()";
    check(
        &format!("{rows}.unflatten_patches(n, s).select(1, 1).squeeze(0)"),
        &[2, 3],
        &[1.0, 3.0, 5.0, 7.0, 9.0, 11.0],
    );
    check("x.reshape([n, s, 2, 1]).squeeze(3).select(0, 0).select(0, 0)", &[2], &[0.0, 1.0]);
}

#[test]
fn elements_in_another_order() {
    check("x.transpose().select(0, 1)", &[2, 3], &[6.0, 8.0, 10.0, 7.0, 9.0, 11.0]);
    check("x.permute([1, 0, 2]).select(0, 2)", &[2, 2], &[4.0, 5.0, 10.0, 11.0]);
    check("x.flip(1).select(0, 0).flatten()", &[6], &[4.0, 5.0, 2.0, 3.0, 0.0, 1.0]);
    check("x.select(0, 0).pad([1, 0])", &[3, 3], &[0.0, 0.0, 1.0, 0.0, 2.0, 3.0, 0.0, 4.0, 5.0]);
    check("x.select(2, 0).select(0, 0).pad([2, 1], \"reflect\")", &[6], &[4.0, 2.0, 0.0, 2.0, 4.0, 2.0]);
    check("x.select(2, 0).select(0, 0).pad([1, 1], \"replicate\")", &[5], &[0.0, 0.0, 2.0, 4.0, 4.0]);
    check("x.select(2, 0).select(0, 0).pad([-1, 1], \"constant\", 7)", &[3], &[2.0, 4.0, 7.0]);
    check("x.gather(1, &[2, 0]).select(0, 0)", &[2, 2], &[4.0, 5.0, 0.0, 1.0]);
    check("Tensor::stack(&[x.select(0, 0), x.select(0, 1)], -1).select(0, 0)", &[2, 2], &[0.0, 6.0, 1.0, 7.0]);
    check("let parts = Tensor::arange(12).split(5, 0); parts[2].clone()", &[2], &[10.0, 11.0]);
    check("x.concat(&[&x, &x], 0).select(0, 5).select(0, 0)", &[2], &[6.0, 7.0]);
}

#[test]
fn new_tensors() {
    check("Tensor::from(&[[1.5, 2.0], [3.0, 4.0]])", &[2, 2], &[1.5, 2.0, 3.0, 4.0]);
    check("Tensor::from(&[1, 2, 3, 4], [2, -1]).cast(\"f32\")", &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    check("Tensor::timestep(0, 4)", &[1, 4], &[1.0, 1.0, 0.0, 0.0]);
    check("Tensor::timestep(2, 4)", &[1, 4], &[2f32.cos(), 0.02f32.cos(), 2f32.sin(), 0.02f32.sin()]);
    check("Tensor::timestep(&Tensor::from(&[2.0, 2.0]), 4) - Tensor::timestep(2, 4)", &[2, 4], &[0.0; 8]);
    check("Tensor::positions(&x.select(0, 0))", &[3], &[0.0, 1.0, 2.0]);
    check("w.embed_positions(\"table\", &x.select(0, 0))", &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    check("w.row(\"table\", 2) + w.embed(\"table\", &[0, 5], 2)", &[2, 2], &[6.0, 8.0, 16.0, 18.0]);
    let (dims, noise) = run(&[2, 3, 2], "Tensor::randn(&x.reshape([-1, 3, 2]))");
    assert!(dims == [2, 3, 2] && noise.iter().any(|v| *v != noise[0]));
}

#[test]
fn convolutions() {
    // One channel, 0 to 5.
    let line = |body: &str, dims: &[usize], wanted: &[f32]| {
        let body = format!("let x = x.reshape([1, 1, -1]); {body}");
        near(&body, run(&[1, 1, 6], &body), dims, wanted);
    };
    line("w.conv1d_patch(&x, \"wide\", 2, 2)", &[1, 2, 3], &[2.0, 8.0, 14.0, 4.0, 18.0, 32.0]);
    line("w.conv1d(&x, \"wide\", 2, 2, 2, 0)", &[1, 2, 3], &[2.0, 8.0, 14.0, 4.0, 18.0, 32.0]);
    // Looks back: the row before the first is nothing.
    line("w.causal_conv1d(&x, \"late\", 2).select(1, 0)", &[1, 6], &[1.0, 3.0, 6.0, 9.0, 12.0, 15.0]);
    line(
        "w.conv_transpose1d(&x.slice(2, 0, 2), \"same\", 2, 2)",
        &[1, 2, 4],
        &[0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 3.0, 4.0],
    );
    line("x.conv1d(&w.get(\"wide\"), &w.get(\"late.bias\"), 3).select(1, 1)", &[1, 2], &[6.0, 27.0]);
    line("x.conv1d(&w.get(\"wide\"), None, 1, 1, 3).select(1, 0)", &[1, 5], &[4.0, 6.0, 9.0, 12.0, 3.0]);
    line("x.conv_transpose1d(&w.get(\"same\"), None, 2).select(1, 0).slice(1, 0, 4)", &[1, 4], &[0.0, 0.0, 1.0, 2.0]);
    // Two channels of 1 × 3: 1·a + 2·b, then the batch norm (y − 1) / √(1 + ε) + 1.
    let picture = |body: &str, dims: &[usize], wanted: &[f32]| {
        let body = format!("let x = x.reshape([1, 2, -1, 3]); {body}");
        near(&body, run(&[1, 2, 1, 3], &body), dims, wanted);
    };
    let normed: Vec<f32> = [6.0, 9.0, 12.0].iter().map(|v| (v - 1.0) / (1.0 + 1e-5f32).sqrt() + 1.0).collect();
    picture("w.conv2d(&x, \"square.conv\", 1, 1, 1)", &[1, 1, 1, 3], &normed);
    picture("w.conv2d(&x, \"square.conv\", 1, 1, [1, 2], 0)", &[1, 1, 1, 2], &[normed[0], normed[2]]);
    let video = "w.conv3d(&x.reshape([1, 2, 1, 3, 1]), \"cube\", 1, [1, 2, 1], 1, 0)";
    near(video, run(&[1, 2, 1, 3, 1], video), &[1, 1, 1, 2, 1], &[27.0, 37.0]);
    let body = "w.groupnorm(&x.reshape([1, 2, 3]), \"norm\", 1, 0.0).sum([0, 1, 2])";
    // Scales 1 and 2 around shifts 1 and 2: 3·1 + 3·2 + the norms, which are odd around the middle.
    let root = (35f32 / 12.0).sqrt();
    near(body, run(&[1, 2, 3], body), &[], &[9.0 + (-4.5 + 2.0 * 4.5) / root]);
}

#[test]
fn pictures() {
    // 1 × 1 × 4 × 6
    let at = |body: &str, dims: &[usize], wanted: &[f32]| {
        let body = format!("let x = x.reshape([1, 1, 4, 6]); {body}");
        near(&body, run(&[1, 1, 4, 6], &body), dims, wanted);
    };
    at("x.patchify(2).select(1, 4)", &[1, 4], &[14.0, 15.0, 20.0, 21.0]);
    at("(x.flatten_patches().unflatten_patches(4, 6) - &x).abs().sum()", &[], &[0.0]);
    at("(x.upsample(2) - x.interpolate(2, \"nearest\")).abs().sum()", &[], &[0.0]);
    at("x.slice(3, 0, 2).slice(2, 0, 1).upsample([1, 3])", &[1, 1, 1, 6], &[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    at("(x.pixel_unshuffle(2).pixel_shuffle(2) - &x).abs().sum()", &[], &[0.0]);
    at("x.interpolate(0.5, \"area\").select(2, 0)", &[1, 1, 3], &[3.5, 5.5, 7.5]);
    at("x.max_pool2d([4, 2], 2)", &[1, 1, 1, 3], &[19.0, 21.0, 23.0]);
    at("x.avg_pool2d(2, 2).select(2, 1)", &[1, 1, 3], &[15.5, 17.5, 19.5]);
    at("x.ddim_step(&x, 0.25, 1.0).sub(&x.sub(&x.scale(0.75_f64.sqrt())).scale(2)).abs().max()", &[], &[0.0]);
    let boxes = "Tensor::from(&[[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0]])";
    at(&format!("{boxes}.non_max_suppression(&Tensor::from(&[0.5, 0.9, 0.7]), 0.5)"), &[2], &[1.0, 2.0]);
    at(&format!("{boxes}.non_max_suppression(&Tensor::from(&[0.5, 0.9, 0.7]), 0.99, 0.6, 1)"), &[1], &[1.0]);
    at("x.reshape([12, 2]).layer_norm_plain(0.0).select(0, 3)", &[2], &[-1.0, 1.0]);
    at("x.reshape([12, 2]).slice(0, 0, 2).matmul(&w.get(\"table\").slice(0, 0, 2))", &[2, 2], &[3.0, 4.0, 11.0, 16.0]);
    at("x.reshape([12, 2]).slice(0, 0, 2).matmul_t(&w.get(\"table\")).slice(1, 0, 2)", &[2, 2], &[2.0, 4.0, 8.0, 18.0]);
}
