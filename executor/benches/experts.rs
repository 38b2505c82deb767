//! A feed-forward of 64 experts, of which 8 are chosen for each token, beside a dense one of the same active size.
//!
//! `cargo bench -p tallow-executor --bench experts [-- HIDDEN WIDTH]`. Both are several layers deep, with weights that take
//! the same memory, in `q8`, so that neither has its weights in a cache that the other has not. Times are those of a layer,
//! the best of many, measured in turn; the router and the sum of the experts count.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tallow_executor::{Device, Program, ProgramOptions, Rows, Session, Tensor, WeightSource, WeightView};
use tallow_format::Encoding;
use tallow_ir::ops::Reduction;
use tallow_ir::{DType, Dim, Graph, IrError, Op, Shape, TensorType, Value, verify};

/// Experts, and those that a token goes to.
const EXPERTS: u32 = 64;
const CHOSEN: u32 = 8;
/// Layers of experts; dense ones are as many more as there are more experts than chosen ones.
const LAYERS: u32 = 2;
/// Time given to one line of the report.
const TIME: Duration = Duration::from_secs(4);

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<u32> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let (hidden, width) = (numbers.first().copied().unwrap_or(1024), numbers.get(1).copied().unwrap_or(512));
    println!("hidden {hidden}, {EXPERTS} experts of {width}, {CHOSEN} chosen, against dense {}", CHOSEN * width);
    println!("threads  tokens   dense ms  experts ms   ratio");
    let dense_layers = LAYERS * EXPERTS / CHOSEN;
    let layers = |count: u32, one: &dyn Fn(&mut Builder, u32, Value) -> Result<Value, IrError>| {
        let mut made = Builder { graph: Graph::new(), weights: Vec::new() };
        let rows = Shape::new([Dim::symbol("S"), Dim::constant(hidden.into())]);
        let mut x = made.graph.input("x", TensorType::f32(rows))?;
        for layer in 0..count {
            let y = one(&mut made, layer, x)?;
            x = made.graph.op(Op::Add, &[x, y])?;
        }
        made.graph.output("y", x)?;
        Ok::<_, IrError>(made)
    };
    let dense = layers(dense_layers, &|b, layer, x| b.dense(layer, x, [hidden, CHOSEN * width]))?;
    let experts = layers(LAYERS, &|b, layer, x| b.experts(layer, x, [hidden, width]))?;
    for threads in [1, 2] {
        let [mut dense, mut experts] = [dense.session(threads)?, experts.session(threads)?];
        for tokens in [1, 128] {
            let x: Vec<f32> =
                (0..tokens * hidden as usize).map(|i| ((i * 7919) % 2003) as f32 / 1001.0 - 1.0).collect();
            let x = [("x".to_owned(), Tensor::from_vec(x, (tokens, hidden as usize), &Device::Cpu)?)];
            let mut best = [f64::MAX; 2];
            let begun = Instant::now();
            while begun.elapsed() < TIME {
                for (session, best) in [&mut dense, &mut experts].into_iter().zip(&mut best) {
                    let start = Instant::now();
                    session.run(&x, Rows::All)?;
                    *best = best.min(start.elapsed().as_secs_f64() * 1e3);
                }
            }
            let (dense, experts) = (best[0] / f64::from(dense_layers), best[1] / f64::from(LAYERS));
            println!("{threads:7} {tokens:7} {dense:10.3} {experts:11.3} {:7.2}", experts / dense);
        }
    }
    Ok(())
}

/// A graph in the making, and its weights.
struct Builder {
    graph: Graph,
    weights: Vec<(String, Vec<u64>)>,
}

impl Builder {
    fn weight(&mut self, name: String, dims: &[u32]) -> Result<Value, IrError> {
        let shape: Vec<i64> = dims.iter().map(|&n| n.into()).collect();
        self.weights.push((name.clone(), dims.iter().map(|&n| n.into()).collect()));
        self.graph.weight(&name, TensorType::new(DType::Q8, Shape::fixed(&shape)))
    }

    fn dense(&mut self, layer: u32, x: Value, [hidden, width]: [u32; 2]) -> Result<Value, IrError> {
        let gate = self.weight(format!("{layer}.gate"), &[width, hidden])?;
        let up = self.weight(format!("{layer}.up"), &[width, hidden])?;
        let down = self.weight(format!("{layer}.down"), &[hidden, width])?;
        let gate = self.graph.op(Op::Matmul, &[x, gate])?;
        let up = self.graph.op(Op::Matmul, &[x, up])?;
        let y = self.graph.op(Op::SwiGlu, &[gate, up])?;
        self.graph.op(Op::Matmul, &[y, down])
    }

    fn experts(&mut self, layer: u32, x: Value, [hidden, width]: [u32; 2]) -> Result<Value, IrError> {
        let router = self.weight(format!("{layer}.router"), &[EXPERTS, hidden])?;
        let gate = self.weight(format!("{layer}.gate"), &[EXPERTS, width, hidden])?;
        let up = self.weight(format!("{layer}.up"), &[EXPERTS, width, hidden])?;
        let down = self.weight(format!("{layer}.down"), &[EXPERTS, hidden, width])?;
        let g = &mut self.graph;
        let logits = g.op(Op::Matmul, &[x, router])?;
        let scores = g.op(Op::Softmax { dim: -1 }, &[logits])?;
        let best = g.op_many(Op::TopK { axis: -1, k: CHOSEN }, &[scores])?;
        let sum = g.op(Op::Reduce { how: Reduction::Sum, axes: vec![1], keep: true }, &[best[0]])?;
        let weights = g.op(Op::Div, &[best[0], sum])?;
        let gate = g.op(Op::ExpertMatmul, &[x, gate, best[1]])?;
        let up = g.op(Op::ExpertMatmul, &[x, up, best[1]])?;
        let y = g.op(Op::SwiGlu, &[gate, up])?;
        let y = g.op(Op::ExpertMatmul, &[y, down, best[1]])?;
        let weights = g.op(Op::Unsqueeze { axes: vec![2] }, &[weights])?;
        let y = g.op(Op::Mul, &[y, weights])?;
        g.op(Op::Reduce { how: Reduction::Sum, axes: vec![1], keep: false }, &[y])
    }

    fn session(&self, threads: usize) -> Result<Session, Box<dyn Error>> {
        let verified = verify::verify(self.graph.clone())?;
        let options = ProgramOptions { threads, ..ProgramOptions::default() };
        let program = Program::new(&verified, Arc::new(Blocks::new(&self.weights)), options)?;
        program.pack()?;
        Ok(Session::new(Arc::new(program)))
    }
}

/// Weights of invented values.
struct Blocks {
    shapes: Vec<(String, Vec<u64>)>,
    bytes: Vec<u8>,
}

impl Blocks {
    fn new(weights: &[(String, Vec<u64>)]) -> Self {
        let most = weights.iter().map(|(_, shape)| shape.iter().product::<u64>() as usize).max().unwrap_or(0);
        let values: Vec<f32> = (0..most).map(|i| ((i * 7919 + i / 64) % 2003) as f32 / 40_000.0 - 0.025).collect();
        let mut bytes = Vec::new();
        // Values below 1 fit every encoding.
        Encoding::Q8.encode(&values, &mut bytes).unwrap_or_default();
        Blocks { shapes: weights.to_vec(), bytes }
    }
}

impl WeightSource for Blocks {
    fn weight(&self, name: &str) -> Option<WeightView<'_>> {
        let (_, shape) = self.shapes.iter().find(|(n, _)| n == name)?;
        let blocks = shape.iter().product::<u64>() as usize / Encoding::Q8.block_len();
        Some(WeightView { shape, encoding: Encoding::Q8, bytes: &self.bytes[..blocks * Encoding::Q8.block_bytes()] })
    }
}
