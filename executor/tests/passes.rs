//! Random graphs through random passes in random order: every pass leaves a sound graph with the same outputs.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::HashMap;
use std::sync::Arc;
use tallow_compiler::passes::PASSES;
use tallow_compiler::{Options, Stage, optimise};
use tallow_executor::{
    Device, Engine, Interpreter, Program, ProgramOptions, Rows, Session, Tensor, WeightSource, WeightView,
};
use tallow_ir::ops::Reduction;
use tallow_ir::verify::{Verified, verify};
use tallow_ir::{DType, Dim, Graph, Op, Shape, TensorType, Value, text};

/// Numbers that follow from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// A number with few bits from -1 to 1.
    fn number(&mut self) -> f32 {
        self.below(257) as f32 / 128.0 - 1.0
    }
}

/// Weights as 16.16 fixed point.
#[derive(Default)]
struct Weights(HashMap<String, (Vec<u64>, Vec<u8>)>);

impl WeightSource for Weights {
    fn weight(&self, name: &str) -> Option<WeightView<'_>> {
        let (shape, bytes) = self.0.get(name)?;
        Some(WeightView { shape, encoding: tallow_format::Encoding::U32, bytes })
    }
}

/// A graph being grown by chance.
struct Growth {
    dice: Dice,
    graph: Graph,
    values: Vec<Value>,
    weights: Weights,
}

impl Growth {
    fn new(seed: u64) -> Self {
        let mut graph = Graph::new();
        let rows = TensorType::f32(Shape::new([Dim::symbol("S"), 8.into()]));
        let picture = TensorType::f32(Shape::fixed(&[1, 4, 6]));
        let values = vec![graph.input("x", rows.clone()).unwrap(), graph.input("y", rows).unwrap()];
        let picture = graph.input("z", picture).unwrap();
        let mut made = Growth { dice: Dice(seed), graph, values, weights: Weights::default() };
        made.values.push(picture);
        made
    }

    fn weight(&mut self, shape: &[i64], positive: bool) -> Value {
        // A few weights are read again.
        let name = format!("w{}.{shape:?}.{positive}", self.dice.below(4));
        let count = shape.iter().product::<i64>() as usize;
        let mut values = Dice(name.len() as u64 * 77 + name.as_bytes()[1] as u64);
        let number = |_| {
            let v = values.number();
            ((if positive { v.abs() + 0.25 } else { v }) * 65536.0) as i32
        };
        let bytes = (0..count).map(number).flat_map(|n| n.to_le_bytes()).collect();
        self.weights.0.insert(name.clone(), (shape.iter().map(|&n| n as u64).collect(), bytes));
        self.graph.weight(&name, TensorType::new(DType::U32, Shape::fixed(shape))).unwrap()
    }

    fn try_op(&mut self, op: Op, operands: &[Value]) -> Option<Value> {
        let all = self.graph.op_many(op, operands).ok()?;
        self.values.extend(&all);
        all.first().copied()
    }

    fn value(&mut self) -> Value {
        // Late values are likelier, so that chains grow long.
        let n = self.values.len();
        let at = n - 1 - self.dice.below(n).min(self.dice.below(n));
        self.values[at]
    }

    fn like(&mut self, x: Value) -> Value {
        let ty = self.graph.ty(x).clone();
        let same: Vec<Value> = self.values.iter().copied().filter(|&v| *self.graph.ty(v) == ty).collect();
        self.dice.of(&same)
    }

    fn last(&self, x: Value) -> Option<i64> {
        self.graph.ty(x).shape.last()?.as_const().filter(|&n| n > 0 && n <= 64)
    }

    fn grow(&mut self) -> Option<()> {
        let x = self.value();
        if self.graph.ty(x).dtype != DType::F32 {
            return None;
        }
        let rank = self.graph.ty(x).shape.rank();
        if rank == 0 {
            return None;
        }
        let value = self.dice.of(&[0.0, -0.0, 1.0, 0.5, -2.0]).into();
        match self.dice.below(25) {
            0 | 1 => {
                let op = self.dice.of(&[0, 1, 2, 3, 4, 5]);
                let op =
                    [Op::Neg, Op::Tanh, Op::Silu, Op::Sigmoid, Op::Abs, Op::Gelu { approximate: true }][op].clone();
                self.try_op(op, &[x])?;
            }
            2 => drop(self.try_op(Op::AddScalar { value }, &[x])?),
            3 => drop(self.try_op(Op::MulScalar { value }, &[x])?),
            4..=6 => {
                let y = self.like(x);
                let op = [Op::Add, Op::Sub, Op::Mul, Op::Maximum][self.dice.below(4)].clone();
                self.try_op(op, &[x, y])?;
            }
            7 => {
                let n = self.last(x)?;
                let shape = if self.dice.below(2) == 0 { vec![] } else { vec![n] };
                let constant = Op::Constant { dtype: DType::F32, shape, values: vec![value] };
                let c = self.try_op(constant, &[])?;
                let op = [Op::Add, Op::Mul, Op::Sub, Op::Div][self.dice.below(4)].clone();
                if matches!(op, Op::Div) && (value == 0.0f32.into() || value == (-0.0f32).into()) {
                    return None;
                }
                self.try_op(op, &[x, c])?;
            }
            8 | 9 => {
                let mut dims: Vec<u32> = (0..rank as u32).collect();
                (0..rank).for_each(|i| dims.swap(i, self.dice.below(rank)));
                self.try_op(Op::Permute { dims }, &[x])?;
            }
            10 => {
                let n = self.last(x)?;
                let shape = self.dice.of(&[[-1, n], [-1, 2], [2, -1], [-1, 4]]);
                self.try_op(Op::Reshape { shape: shape.to_vec() }, &[x])?;
            }
            11 => {
                let axes = vec![self.dice.below(rank + 1) as i64];
                self.try_op(Op::Unsqueeze { axes }, &[x])?;
            }
            12 => {
                let axes = vec![self.dice.below(rank.max(1)) as i64];
                self.try_op(Op::Squeeze { axes }, &[x])?;
            }
            13 => drop(self.try_op(Op::Flatten { start: 0, end: -1 }, &[x])?),
            14 => {
                let n = self.last(x)?;
                let start = self.dice.below(n as usize) as i64;
                let op = Op::Slice { axis: rank as u32 - 1, start, end: self.dice.of(&[n, i64::MAX, -1]) };
                self.try_op(op, &[x])?;
            }
            15 => {
                let axis = rank as u32 - 1;
                let parts = self.graph.op_many(Op::Chunk { axis, chunks: 2 }, &[x]).ok()?;
                self.values.extend(&parts);
                self.try_op(Op::Concat { axis }, &parts)?;
            }
            16 => {
                let y = self.like(x);
                let axis = self.dice.below(rank.max(1)) as u32;
                let joined = self.try_op(Op::Concat { axis }, &[x, y])?;
                self.try_op(Op::Chunk { axis, chunks: 2 }, &[joined])?;
            }
            17 => drop(self.try_op(Op::Flip { axes: vec![0] }, &[x])?),
            // Projections of one value, perhaps normalised, with biases and activations.
            18 | 19 => {
                let n = self.last(x)?;
                let x = match self.dice.below(3) {
                    0 => {
                        let gain = self.weight(&[n], true);
                        self.try_op(Op::RmsNorm { eps: 1e-5.into() }, &[x, gain])?
                    }
                    _ => x,
                };
                for _ in 0..=self.dice.below(3) {
                    let w = self.weight(&[8, n], false);
                    let mut y = self.try_op(Op::Matmul, &[x, w])?;
                    if self.dice.below(2) == 0 {
                        let bias = self.weight(&[8], false);
                        y = self.try_op(Op::Add, &[y, bias])?;
                    }
                    if self.dice.below(3) == 0 {
                        self.try_op(Op::Gelu { approximate: false }, &[y])?;
                    }
                }
            }
            20 => {
                let n = self.last(x)?;
                let (w, v) = (self.weight(&[6, n], false), self.weight(&[6, n], true));
                let gate = self.try_op(Op::Matmul, &[x, w])?;
                let up = self.try_op(Op::Matmul, &[x, v])?;
                if self.dice.below(2) == 0 {
                    self.try_op(Op::SwiGlu, &[gate, up])?;
                } else {
                    let gate = self.try_op(Op::Gelu { approximate: true }, &[gate])?;
                    self.try_op(Op::Mul, &[gate, up])?;
                }
            }
            21 => {
                let n = self.last(x)?;
                let y = self.like(x);
                let sum = self.try_op(Op::Add, &[x, y])?;
                let gain = self.weight(&[n], true);
                if self.dice.below(2) == 0 {
                    self.try_op(Op::RmsNorm { eps: 1e-5.into() }, &[sum, gain])?;
                } else {
                    let bias = self.weight(&[n], false);
                    self.try_op(Op::LayerNorm { eps: 1e-5.into() }, &[sum, gain, bias])?;
                }
            }
            22 => {
                let dims = self.graph.ty(x).shape.dims().to_vec();
                let [_, channels, _] = dims.as_slice() else { return None };
                let c = channels.as_const().filter(|&c| c <= 16)?;
                let w = self.weight(&[4, c, 3], false);
                let op = Op::Conv1d { kernel: 3, stride: 1, padding: 1, dilation: 1, groups: 1 };
                let y = self.try_op(op, &[x, w])?;
                let (g, b) = (self.weight(&[4], true), self.weight(&[4], false));
                let v = self.weight(&[4], true);
                self.try_op(Op::BatchNorm { eps: 1e-5.into(), momentum: 0.1.into() }, &[y, g, b, b, v])?;
            }
            // Two of four experts for each row.
            23 => {
                let n = self.last(x).filter(|_| rank == 2)?;
                let router = self.weight(&[4, n], false);
                let scores = self.try_op(Op::Matmul, &[x, router])?;
                let chosen = self.graph.op_many(Op::TopK { axis: -1, k: 2 }, &[scores]).ok()?;
                let (w, v, back) =
                    (self.weight(&[4, 6, n], false), self.weight(&[4, 6, n], false), self.weight(&[4, 5, 6], false));
                let gate = self.try_op(Op::ExpertMatmul, &[x, w, chosen[1]])?;
                let up = self.try_op(Op::ExpertMatmul, &[x, v, chosen[1]])?;
                let y = self.try_op(Op::SwiGlu, &[gate, up])?;
                let y = self.try_op(Op::ExpertMatmul, &[y, back, chosen[1]])?;
                let column = self.try_op(Op::Unsqueeze { axes: vec![2] }, &[chosen[0]])?;
                let y = self.try_op(Op::Mul, &[y, column])?;
                self.try_op(Op::Reduce { how: Reduction::Sum, axes: vec![1], keep: false }, &[y])?;
            }
            _ => {
                let size = self.try_op(Op::Size { axis: -1 }, &[x])?;
                let size = self.try_op(Op::Cast { dtype: DType::F32 }, &[size])?;
                let total = self.try_op(Op::Reduce { how: Reduction::Mean, axes: vec![-1], keep: true }, &[x])?;
                self.try_op(Op::Mul, &[total, size])?;
            }
        }
        Some(())
    }

    fn finish(mut self) -> (Verified, Arc<Weights>) {
        let mut outputs = vec![*self.values.last().unwrap()];
        for _ in 0..3 {
            outputs.push(self.value());
        }
        for (i, v) in outputs.into_iter().enumerate() {
            self.graph.output(&format!("out{i}"), v).unwrap();
        }
        (verify(self.graph).unwrap(), Arc::new(self.weights))
    }
}

fn run(graph: &Verified, weights: &Arc<Weights>, engine: Engine, s: usize) -> Result<Vec<(String, Tensor)>, String> {
    let options = ProgramOptions { engine, threads: 1, stage: Some(Stage::Raw), ..ProgramOptions::default() };
    let program = Program::new(graph, weights.clone(), options).map_err(|e| e.to_string())?;
    let mut dice = Dice(s as u64 + 1);
    let mut rows = |dims: &[usize]| {
        let values: Vec<f32> = (0..dims.iter().product()).map(|_| dice.number()).collect();
        Tensor::from_vec(values, dims, &Device::Cpu).unwrap()
    };
    let (x, y, z) = (rows(&[s, 8]), rows(&[s, 8]), rows(&[1, 4, 6]));
    let inputs = [("x".to_owned(), x), ("y".to_owned(), y), ("z".to_owned(), z)];
    Session::new(Arc::new(program)).run(&inputs, Rows::All).map_err(|e| e.to_string())
}

#[track_caller]
fn same(a: &[(String, Tensor)], b: &[(String, Tensor)], about: &str) {
    for ((name, a), (_, b)) in a.iter().zip(b) {
        assert_eq!(a.dims(), b.dims(), "{name}: {about}");
        let all = |t: &Tensor| -> Vec<f64> {
            t.to_dtype(tallow_executor::DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
        };
        let (a, b) = (all(a), all(b));
        let scale = a.iter().filter(|v| v.is_finite()).fold(1e-3f64, |m, v| m.max(v.abs()));
        for (i, (a, b)) in a.iter().zip(&b).enumerate() {
            let close = (a - b).abs() <= 2e-4 * scale || a == b || (a.is_nan() && b.is_nan());
            assert!(close, "{name}[{i}] is {a} and became {b}: {about}");
        }
    }
}

#[test]
fn random_passes_in_random_order_keep_random_graphs() {
    let mut applied: HashMap<&str, u32> = HashMap::new();
    for seed in 0..250u64 {
        let mut growth = Growth::new(seed * 7919);
        for _ in 0..40 {
            let _ = growth.grow();
        }
        let mut dice = Dice(seed ^ 0xabcd);
        let (graph, weights) = growth.finish();
        let order: Vec<String> = (0..12).map(|_| PASSES[dice.below(PASSES.len())].name.to_owned()).collect();
        let before = format!("seed {seed}, passes {order:?}\n{}", text::print(graph.graph()));
        let options = Options {
            passes: Some(order),
            stop_after: (dice.below(4) == 0).then(|| dice.below(20) as u32),
            verify: true,
            evaluate: Some(&Interpreter),
            ..Options::default()
        };
        let made = optimise(&graph, &options).unwrap_or_else(|e| panic!("{e}\n{before}"));
        made.remarks.iter().filter(|r| r.is_applied()).for_each(|r| *applied.entry(r.pass).or_default() += 1);
        let about = format!("{before}\nbecame\n{}", text::print(made.graph.graph()));
        let again = optimise(&graph, &options).unwrap();
        assert_eq!(text::print(again.graph.graph()), text::print(made.graph.graph()), "twice the same");
        for (engine, s) in [(Engine::Reference, 1), (Engine::Reference, 5), (Engine::Cpu, 3)] {
            match (run(&graph, &weights, engine, s), run(&made.graph, &weights, engine, s)) {
                (Ok(a), Ok(b)) => same(&a, &b, &about),
                // A size that only running tells, or a value that no operation takes: for both the same.
                (Err(_), Err(_)) => {}
                (a, b) => panic!("{:?} and {:?}: {about}", a.err(), b.err()),
            }
        }
    }
    // Every pass but those for caches and sampling has had something to do.
    for pass in PASSES.iter().filter(|p| !["cached-attention", "sampling-tail"].contains(&p.name)) {
        assert!(applied.get(pass.name).is_some_and(|&n| n >= 3), "{}: {applied:?}", pass.name);
    }
}
