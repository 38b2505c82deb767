//! Random graphs for one token a call: where one widens to whole prompts, both ways of running it
//! give the same.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use tallow_compiler::passes::whole_prompt;
use tallow_executor::{
    DType as Element, Device, Engine, Program, ProgramOptions, Rows, Session, Tensor, WeightSource, WeightView,
};
use tallow_ir::{DType, Graph, Op, Shape, TensorType, Value, verify};

/// A small generator of numbers: the same on every machine.
struct Numbers(u64);
impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

struct NoWeights;
impl WeightSource for NoWeights {
    fn weight(&self, _: &str) -> Option<WeightView<'_>> {
        None
    }
}

/// A graph under way: what may be read next, and the constants, which are inputs of the caller.
struct Draft {
    graph: Graph,
    values: Vec<Value>,
    constants: Vec<(String, Vec<usize>)>,
}

impl Draft {
    fn constant(&mut self, dims: &[usize]) -> Value {
        let name = format!("c{}", self.constants.len());
        let shape: Vec<i64> = dims.iter().map(|&n| n as i64).collect();
        let value = self.graph.input(&name, TensorType::f32(Shape::fixed(&shape))).unwrap();
        self.constants.push((name, dims.to_vec()));
        value
    }

    fn dims(&self, v: Value) -> Vec<i64> {
        self.graph.ty(v).shape.dims().iter().map(|d| d.as_const().unwrap_or(-1)).collect()
    }

    fn is_real(&self, v: Value) -> bool {
        self.graph.ty(v).dtype == DType::F32
    }

    /// Adds an operation where its operands fit.
    fn add(&mut self, op: Op, operands: &[Value]) {
        if let Ok(made) = self.graph.op_many(op, operands) {
            self.values.extend(made);
        }
    }

    /// One step of any kind, rows on their own or not.
    fn step(&mut self, random: &mut Numbers) {
        let reals: Vec<Value> = self.values.iter().copied().filter(|&v| self.is_real(v)).collect();
        let x = reals[random.below(reals.len())];
        let dims = self.dims(x);
        let rank = dims.len();
        let axis =
            if rank == 0 { 0 } else { random.below(rank) as i32 - if random.below(2) == 0 { rank as i32 } else { 0 } };
        let plain = axis.rem_euclid(rank.max(1) as i32) as u32;
        let width = dims.last().copied().unwrap_or(1).max(1);
        let whole = dims.iter().all(|&n| n > 0).then(|| dims.iter().product::<i64>());
        match random.below(20) {
            0 => self.add(Op::Silu, &[x]),
            1 => self.add(Op::Softmax { dim: axis }, &[x]),
            2 => {
                let y = reals[random.below(reals.len())];
                self.add(if random.below(2) == 0 { Op::Add } else { Op::Mul }, &[x, y]);
            }
            3 => {
                let lead = 1 + random.below(3);
                let shapes =
                    [vec![width as usize], vec![1, width as usize], vec![lead, width as usize], vec![], vec![1]];
                let c = self.constant(&shapes[random.below(5)]);
                self.add(Op::Sub, &[x, c]);
            }
            4 => {
                let g = self.constant(&[width as usize]);
                self.add(Op::RmsNorm { eps: 1e-5.into() }, &[x, g]);
            }
            5 => {
                let n = [4, 8, 12][random.below(3)];
                let w = self.constant(&[n, width as usize]);
                self.add(Op::Matmul, &[x, w]);
            }
            6 => {
                if let Some(n) = whole {
                    let by = [1, 2, 4][random.below(3)];
                    let shapes =
                        [vec![1, n], vec![-1, by], vec![by, -1], vec![n], vec![1, -1, by], vec![1, by, n / by]];
                    self.add(Op::Reshape { shape: shapes[random.below(6)].clone() }, &[x]);
                }
            }
            7 if rank > 1 => {
                let mut perm: Vec<u32> = (0..rank as u32).collect();
                perm.swap(random.below(rank), random.below(rank));
                self.add(Op::Transpose { perm }, &[x]);
            }
            8 => self.add(Op::Chunk { axis: plain, chunks: 2 }, &[x]),
            9 => {
                let y = reals[random.below(reals.len())];
                self.add(Op::Concat { axis: plain }, &[x, y]);
            }
            10 => self.add(Op::Slice { axis: plain, start: 0, end: 1 }, &[x]),
            11 => {
                let pos = self.graph.pos().unwrap();
                self.add(Op::Rope { head_dim: width as u32, rope_dim: width as u32, base: 100.0.into() }, &[x, pos]);
            }
            12 | 13 => {
                // Keys and values of a cache, and queries over it.
                let y = reals[random.below(reals.len())];
                let Ok(kv) = self.graph.op_many(Op::KvCache, &[x, y]) else { return };
                let q = reals[random.below(reals.len())];
                let (heads, head_dim, causal) =
                    ([1, 2, 3][random.below(3)], [2, 4, 8][random.below(3)], random.below(2) == 0);
                let op = match random.below(4) {
                    0 => Op::SdpaWindow { heads, head_dim, window: 2 },
                    1 => Op::FlashAttention { heads, kv_heads: heads, head_dim },
                    2 => Op::SdpaCross { heads, head_dim },
                    _ => Op::Sdpa { heads, kv_heads: heads, head_dim, causal },
                };
                self.add(op, &[q, kv[0], kv[1]]);
            }
            14 => {
                let k = self.constant(&[3, width as usize]);
                self.add(
                    Op::Sdpa { heads: 1, kv_heads: 1, head_dim: width as u32, causal: random.below(2) == 0 },
                    &[x, k, k],
                );
            }
            15 => self.add(Op::Argmax { dim: axis }, &[x]),
            16 => self.add(Op::CumSum { axis }, &[x]),
            17 => self.add(
                Op::Reduce {
                    how: tallow_ir::ops::Reduction::Mean,
                    axes: vec![axis.into()],
                    keep: random.below(2) == 0,
                },
                &[x],
            ),
            18 => self.add(Op::TopK { axis, k: 2 }, &[x]),
            _ => {
                let y = reals[random.below(reals.len())];
                self.add(Op::SwiGlu, &[x, y]);
            }
        }
    }
}

fn draft(random: &mut Numbers) -> Draft {
    let mut d = Draft { graph: Graph::new(), values: Vec::new(), constants: Vec::new() };
    let ids = d.graph.input("input_ids", TensorType::f32(Shape::fixed(&[1]))).unwrap();
    let table = d.constant(&[9, 8]);
    let h = d.graph.op(Op::TokenEmbed, &[ids, table]).unwrap();
    d.values.push(h);
    for _ in 0..2 + random.below(5) {
        d.step(random);
    }
    for (i, &v) in d.values.clone().iter().enumerate() {
        d.graph.output(&format!("y{i}"), v).unwrap();
    }
    d
}

fn session(graph: Graph, engine: Engine) -> Session {
    let options = ProgramOptions { engine, threads: 1, ..ProgramOptions::default() };
    Session::new(Arc::new(Program::new(&verify::verify(graph).unwrap(), Arc::new(NoWeights), options).unwrap()))
}

fn values(t: &Tensor) -> Vec<f32> {
    t.flatten_all().unwrap().to_dtype(Element::F32).unwrap().to_vec1().unwrap()
}

#[test]
fn what_widens_gives_what_single_tokens_give() {
    let mut random = Numbers(0x1234_5678_9abc_def1);
    let (mut widened, mut stayed) = (0, 0);
    for round in 0..1500 {
        let d = draft(&mut random);
        let Ok(wide) = whole_prompt(&d.graph) else {
            stayed += 1;
            continue;
        };
        let constants: Vec<(String, Tensor)> = d
            .constants
            .iter()
            .map(|(name, dims)| {
                let n = dims.iter().product();
                let list: Vec<f32> = (0..n).map(|_| random.below(2001) as f32 / 1000.0 - 1.0).collect();
                (name.clone(), Tensor::from_vec(list, dims.as_slice(), &Device::Cpu).unwrap())
            })
            .collect();
        let inputs = |ids: &[f32]| {
            let mut all = constants.clone();
            all.push(("input_ids".into(), Tensor::new(ids, &Device::Cpu).unwrap()));
            all
        };
        let engine = if round % 2 == 0 { Engine::Reference } else { Engine::Cpu };
        let ids = [3.0, 8.0, 0.0, 3.0, 5.0];
        let mut single = session(d.graph.clone(), engine);
        let calls: Result<Vec<_>, _> = ids.iter().map(|&id| single.run(&inputs(&[id]), Rows::All)).collect();
        let Ok(calls) = calls else { continue };
        // All at once, and in two calls.
        let mut whole = session(wide, engine);
        let first = whole.run(&inputs(&ids[..2]), Rows::All).unwrap();
        let second = whole.run(&inputs(&ids[2..]), Rows::All).unwrap();
        assert_eq!(single.past(), whole.past());
        widened += 1;
        for (i, ((name, a), (_, b))) in first.iter().zip(&second).enumerate() {
            let found = [values(a), values(b)].concat();
            let wanted: Vec<f32> = calls.iter().flat_map(|call| values(&call[i].1)).collect();
            assert_eq!(found.len(), wanted.len(), "{name} of\n{}", d.graph);
            let top = wanted.iter().fold(1f32, |m, v| m.max(v.abs()));
            for (a, b) in found.iter().zip(&wanted) {
                let same = (a - b).abs() <= 1e-5 * top || (a.is_nan() && b.is_nan()) || a == b;
                assert!(same, "{name}: {a} and {b} of\n{}", d.graph);
            }
        }
    }
    println!("{widened} widened, {stayed} stayed");
    assert!(widened > 300 && stayed > 300, "{widened} widened, {stayed} stayed");
}
