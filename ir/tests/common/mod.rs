//! Graphs that the tests share.
#![allow(dead_code)]

use tallow_ir::ops::{Real, Scaling};
use tallow_ir::{DType, Dim, Graph, Op, Shape, TensorType, Value};

/// A shape of dimensions in the text form, `"S, 8"`.
pub fn shape(dims: &str) -> Shape {
    let dims = dims.split(',').map(str::trim).filter(|d| !d.is_empty());
    Shape::new(dims.map(|d| d.parse::<Dim>().unwrap()))
}

/// An `f32` type.
pub fn f(dims: &str) -> TensorType {
    TensorType::f32(shape(dims))
}

/// A small decoder as the families build it, over the whole prompt.
pub fn decoder(layers: usize) -> Graph {
    let mut g = Graph::new();
    let ids = g.input("input_ids", TensorType::i64(shape("S"))).unwrap();
    let q8 = |dims: &str| TensorType::new(DType::Q8, shape(dims));
    let embed = g.weight("model.embed_tokens.weight", q8("64, 32")).unwrap();
    let mut h = g.op(Op::TokenEmbed, &[ids, embed]).unwrap();
    let pos = g.pos().unwrap();
    let eps = Op::RmsNorm { eps: 1e-6.into() };
    for i in 0..layers {
        let w = |g: &mut Graph, part: &str, ty: TensorType| {
            g.weight(&format!("model.layers.{i}.{part}.weight"), ty).unwrap()
        };
        let gain = w(&mut g, "input_layernorm", f("32"));
        let x = g.op(eps.clone(), &[h, gain]).unwrap();
        let (wq, wk, wv) = (
            w(&mut g, "self_attn.q_proj", q8("32, 32")),
            w(&mut g, "self_attn.k_proj", q8("16, 32")),
            w(&mut g, "self_attn.v_proj", q8("16, 32")),
        );
        let mut q = g.op(Op::Matmul, &[x, wq]).unwrap();
        let mut k = g.op(Op::Matmul, &[x, wk]).unwrap();
        let v = g.op(Op::Matmul, &[x, wv]).unwrap();
        for (value, heads) in [(&mut q, 4), (&mut k, 2)] {
            let wide = Op::Reshape { shape: vec![-1, heads, 8] };
            let flat = Op::Reshape { shape: vec![-1, heads * 8] };
            let rope = Op::Rope { head_dim: 8, rope_dim: 8, base: 10000.0.into() };
            let split = g.op(wide, &[*value]).unwrap();
            let turned = g.op(rope, &[split, pos]).unwrap();
            *value = g.op(flat, &[turned]).unwrap();
        }
        let kv = g.op_many(Op::KvCache, &[k, v]).unwrap();
        let sdpa = Op::Sdpa { heads: 4, kv_heads: 2, head_dim: 8, causal: true };
        let a = g.op(sdpa, &[q, kv[0], kv[1]]).unwrap();
        let wo = w(&mut g, "self_attn.o_proj", q8("32, 32"));
        let a = g.op(Op::Matmul, &[a, wo]).unwrap();
        h = g.op(Op::Add, &[h, a]).unwrap();
        let gain = w(&mut g, "post_attention_layernorm", f("32"));
        let x = g.op(eps.clone(), &[h, gain]).unwrap();
        let (gate, up, down) = (
            w(&mut g, "mlp.gate_proj", q8("64, 32")),
            w(&mut g, "mlp.up_proj", q8("64, 32")),
            w(&mut g, "mlp.down_proj", q8("32, 64")),
        );
        let gate = g.op(Op::Matmul, &[x, gate]).unwrap();
        let up = g.op(Op::Matmul, &[x, up]).unwrap();
        let x = g.op(Op::SwiGlu, &[gate, up]).unwrap();
        let x = g.op(Op::Matmul, &[x, down]).unwrap();
        h = g.op(Op::Add, &[h, x]).unwrap();
        g.name(h, format!("layer.{i}"));
    }
    let gain = g.weight("model.norm.weight", f("32")).unwrap();
    let x = g.op(eps, &[h, gain]).unwrap();
    let logits = g.op(Op::Matmul, &[x, embed]).unwrap();
    g.set_hint(logits.node, 1);
    g.output("logits", logits).unwrap();
    g
}

/// A chain of `n` operations that also look back, with names on some.
pub fn chain(n: usize) -> Graph {
    let mut g = Graph::new();
    let x = g.input("x", f("S, 8")).unwrap();
    let mut values = vec![x];
    let mut at = x;
    for i in 0..n {
        at = match i % 5 {
            0 => {
                let w = g.weight(&format!("w{}", i % 1000), f("8, 8")).unwrap();
                g.op(Op::Matmul, &[at, w]).unwrap()
            }
            1 => g.op(Op::Add, &[at, values[i / 2]]).unwrap(),
            2 => g.op(Op::AddScalar { value: (i as f32 / 3.0).into() }, &[at]).unwrap(),
            3 => {
                let parts = g.op_many(Op::Split { axis: 1, sizes: vec![3, 5] }, &[at]).unwrap();
                g.op(Op::Concat { axis: 1 }, &parts).unwrap()
            }
            _ => g.op(Op::Silu, &[at]).unwrap(),
        };
        if i % 3 == 0 {
            g.name(at, format!("v{}", i / 30));
        }
        values.push(at);
    }
    g.output("y", at).unwrap();
    g
}

/// A random graph from bytes: each step picks an operation and operands, and keeps what fits.
/// Names are odd on purpose.
pub fn random(bytes: &[u8]) -> Graph {
    let mut g = Graph::new();
    let ids = g.input("input_ids", TensorType::i64(shape("S"))).unwrap();
    let x = g.input("odd \"name\"\n", f("4, 8")).unwrap();
    let mut values: Vec<Value> = vec![ids, x, g.pos().unwrap()];
    let names = ["", "h", "h", "7", "a b", "h.1", "é", "pos", "q\\", "$x-1"];
    for step in bytes.chunks(4) {
        let at = |i: usize| usize::from(step.get(i).copied().unwrap_or(0));
        let pick = |i: usize| values[at(i) % values.len()];
        let real = |i: usize| Real::from(f32::from_bits(u32::from_le_bytes([at(i) as u8, 7, at(3) as u8, 0x3f])));
        let n = at(0) / 24 % 8;
        let made = match at(0) % 24 {
            0 => g.weight(&format!("w.{n}"), TensorType::new(DType::Q4K, shape("8, 8"))).map(|v| vec![v]),
            1 => g.input(&format!("in{n}"), f("S, 8")).map(|v| vec![v]),
            2 => g.op_many(Op::Add, &[pick(1), pick(2)]),
            3 => g.op_many(Op::Matmul, &[pick(1), pick(2)]),
            4 => g.op_many(Op::Split { axis: 1, sizes: vec![n as u32, 8 - n as u32] }, &[pick(1)]),
            5 => g.op_many(Op::Concat { axis: (n % 2) as u32 }, &[pick(1), pick(2), pick(1)]),
            6 => g.op_many(Op::Clamp { min: (n > 3).then(|| real(1)), max: None }, &[pick(1)]),
            7 => g.op_many(
                Op::NanToNum { nan: real(1), posinf: f32::INFINITY.into(), neginf: f32::from_bits(0xffc0_0001).into() },
                &[pick(1)],
            ),
            8 => g.op_many(Op::Reshape { shape: vec![-1, 1 << (n % 4)] }, &[pick(1)]),
            9 => g.op_many(Op::Slice { axis: 0, start: n as i64, end: i64::MAX }, &[pick(1)]),
            10 => g.op_many(Op::KvCache, &[pick(1), pick(1)]),
            11 => g.op_many(Op::Transpose { perm: vec![1, 0] }, &[pick(1)]),
            12 => g.op_many(Op::Quantize { dtype: DType::ALL[n] }, &[pick(1)]),
            13 => g.op_many(Op::Rope { head_dim: 8, rope_dim: 4, base: 1e6.into() }, &[pick(1), pick(2)]),
            14 => g.op_many(
                Op::RopeScaled {
                    head_dim: 8,
                    rope_dim: 4,
                    base: 1e4.into(),
                    interleaved: n > 3,
                    scaling: Scaling::Yarn,
                    factor: 4.0.into(),
                    original: 128,
                    low: 1.0.into(),
                    high: 32.0.into(),
                    attention_factor: real(2),
                    short: vec![real(1), real(2)],
                    long: vec![],
                },
                &[pick(1), pick(2)],
            ),
            15 => g.op_many(Op::Argmax { dim: -1 }, &[pick(1)]),
            16 => g.op_many(Op::FusedSkipNorm { eps: real(1) }, &[pick(1), pick(2), pick(3)]),
            17 => g.op_many(Op::Mul, &[pick(1), pick(1)]),
            _ => g.op_many(Op::MulScalar { value: real(1) }, &[pick(1)]),
        };
        if let Ok(made) = made {
            for (i, &value) in made.iter().enumerate() {
                let name = names[(at(3) + i) % names.len()];
                let source = !matches!(g.node(value.node).kind, tallow_ir::NodeKind::Op(_));
                if !name.is_empty() && !source {
                    g.name(value, name);
                }
                if at(3) % 16 == 0 {
                    g.set_hint(value.node, at(3) as u8 / 16);
                }
            }
            values.extend(made);
        }
    }
    let last = values[values.len() - 1];
    g.output("the end", last).unwrap();
    g
}
