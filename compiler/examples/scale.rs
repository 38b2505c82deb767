//! How long the compiler takes: a decoder of 28 layers from IR to plan, and a graph of a million nodes.
//!
//! `cargo run --release -p tallow-compiler --example scale`

use std::error::Error;
use std::time::Instant;
use tallow_compiler::{Options, lower_with, optimise};
use tallow_ir::verify::{Verified, verify};
use tallow_ir::{DType, Dim, Graph, Op, Shape, TensorType, Value};

/// A decoder: norms, q/k/v with biases, rotary embedding, cache, attention, gated feed-forward.
fn decoder(layers: usize) -> Result<Verified, Box<dyn Error>> {
    let (hidden, inner, head) = (896, 4864, 64);
    let mut g = Graph::new();
    let ids = g.input("input_ids", TensorType::i64(Shape::new([Dim::symbol("S")])))?;
    let pos = g.pos()?;
    let matrix = |g: &mut Graph, name: String, n: i64, k: i64| {
        g.weight(&name, TensorType::new(DType::Q8, Shape::fixed(&[n, k])))
    };
    let vector = |g: &mut Graph, name: String, n: i64| g.weight(&name, TensorType::new(DType::U32, Shape::fixed(&[n])));
    let table = matrix(&mut g, "embed".into(), 1024, hidden)?;
    let mut h = g.op(Op::TokenEmbed, &[ids, table])?;
    for layer in 0..layers {
        let gain = vector(&mut g, format!("layers.{layer}.norm"), hidden)?;
        let x = g.op(Op::RmsNorm { eps: 1e-6.into() }, &[h, gain])?;
        let mut parts: Vec<Value> = Vec::new();
        for (part, heads) in [("q", 14), ("k", 2), ("v", 2)] {
            let w = matrix(&mut g, format!("layers.{layer}.{part}"), heads * head, hidden)?;
            let b = vector(&mut g, format!("layers.{layer}.{part}.bias"), heads * head)?;
            let y = g.op(Op::Matmul, &[x, w])?;
            let y = g.op(Op::Add, &[y, b])?;
            let turned = match part {
                "v" => y,
                _ => {
                    let split = g.op(Op::Reshape { shape: vec![-1, heads, head] }, &[y])?;
                    let rope = Op::Rope { head_dim: 64, rope_dim: 64, base: 1e6.into() };
                    let split = g.op(rope, &[split, pos])?;
                    g.op(Op::Reshape { shape: vec![-1, heads * head] }, &[split])?
                }
            };
            parts.push(turned);
        }
        let cache = g.op_many(Op::KvCache, &parts[1..])?;
        let sdpa = Op::Sdpa { heads: 14, kv_heads: 2, head_dim: 64, causal: true };
        let y = g.op(sdpa, &[parts[0], cache[0], cache[1]])?;
        let w = matrix(&mut g, format!("layers.{layer}.o"), hidden, 14 * head)?;
        let y = g.op(Op::Matmul, &[y, w])?;
        h = g.op(Op::Add, &[h, y])?;
        let gain = vector(&mut g, format!("layers.{layer}.post"), hidden)?;
        let x = g.op(Op::RmsNorm { eps: 1e-6.into() }, &[h, gain])?;
        let gate = matrix(&mut g, format!("layers.{layer}.gate"), inner, hidden)?;
        let up = matrix(&mut g, format!("layers.{layer}.up"), inner, hidden)?;
        let gate = g.op(Op::Matmul, &[x, gate])?;
        let up = g.op(Op::Matmul, &[x, up])?;
        let y = g.op(Op::SwiGlu, &[gate, up])?;
        let down = matrix(&mut g, format!("layers.{layer}.down"), hidden, inner)?;
        let y = g.op(Op::Matmul, &[y, down])?;
        h = g.op(Op::Add, &[h, y])?;
    }
    let gain = vector(&mut g, "norm".into(), hidden)?;
    let x = g.op(Op::RmsNorm { eps: 1e-6.into() }, &[h, gain])?;
    let logits = g.op(Op::Matmul, &[x, table])?;
    g.output("logits", logits)?;
    Ok(verify(g)?)
}

/// Many operations that all read one value, each of which goes.
fn fan(nodes: usize) -> Result<Verified, Box<dyn Error>> {
    let mut g = Graph::new();
    let x = g.input("x", TensorType::f32(Shape::fixed(&[4])))?;
    let mut sum = x;
    for at in 0..nodes / 2 {
        let same = g.op(Op::AddScalar { value: if at % 3 == 0 { -0.0 } else { 1.0 }.into() }, &[x])?;
        sum = g.op(Op::Sub, &[sum, same])?;
    }
    g.output("y", sum)?;
    Ok(verify(g)?)
}

fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|l| l.strip_prefix("VmHWM:")).map_or("unknown".into(), |l| l.trim().to_owned())
}

fn main() -> Result<(), Box<dyn Error>> {
    let layers = decoder(28)?;
    let mut best = f64::MAX;
    for _ in 0..10 {
        let start = Instant::now();
        let made = optimise(&layers, &Options::default())?;
        let plan = lower_with(&made.graph, &made.caches)?;
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
        std::hint::black_box(plan);
    }
    println!("28 layers, {} nodes: IR to plan in {best:.2} ms (best of 10)", layers.graph().len());
    for (name, graph) in [("layers", decoder(27_000)?), ("fan", fan(1_000_000)?)] {
        let start = Instant::now();
        let made = optimise(&graph, &Options::default())?;
        let passes = start.elapsed().as_secs_f64();
        let plan = lower_with(&made.graph, &made.caches)?;
        let all = start.elapsed().as_secs_f64();
        println!(
            "{name}, {} nodes: passes {passes:.2} s, with the plan {all:.2} s, {} steps, {} patches, peak {}",
            graph.graph().len(),
            plan.steps.len(),
            made.remarks.iter().filter(|r| r.is_applied()).count(),
            peak()
        );
        for pass in &made.passes {
            println!("    {:20} {:>8.0} ms", pass.name, pass.time.as_secs_f64() * 1e3);
        }
    }
    Ok(())
}
