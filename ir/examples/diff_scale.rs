//! How long differences of large graphs take: `cargo run --release -p tallow-ir --example diff_scale` prints seconds and
//! the peak memory of each case, which runs in a process of its own. With the name of a case only that one.

use std::error::Error;
use std::process::Command;
use std::time::Instant;
use tallow_ir::diff::diff;
use tallow_ir::{Graph, IrError, Op, Shape, TensorType, Value};

const LINKS: usize = 850_000;
const LAYERS: usize = 10_000;

/// The name of a case, and its two graphs.
type Case = (&'static str, fn() -> Result<(Graph, Graph), IrError>);

const CASES: &[Case] = &[
    ("a million nodes, the same", || Ok((chain(LINKS, &[])?, chain(LINKS, &[])?))),
    ("a million nodes, three edits", || {
        Ok((chain(LINKS, &[])?, chain(LINKS, &[LINKS / 4, LINKS / 2, LINKS / 4 * 3])?))
    }),
    ("layers with own weights, one edit", || pair(Weights::Own, &|i| i == LAYERS / 2, LAYERS)),
    ("layers with own weights, all changed", || pair(Weights::Own, &|_| true, LAYERS)),
    ("layers with own weights, one more", || pair(Weights::Own, &|_| false, LAYERS + 1)),
    ("layers with the same weights, one edit", || pair(Weights::Same, &|i| i == LAYERS / 2, LAYERS)),
    ("layers with the same weights, all changed", || pair(Weights::Same, &|_| true, LAYERS)),
    ("layers with the same weights, three edits and one more", || {
        pair(Weights::Same, &|i| [LAYERS / 4, LAYERS / 2, LAYERS / 4 * 3].contains(&i), LAYERS + 1)
    }),
    ("layers without weights, one edit", || pair(Weights::None, &|i| i == LAYERS / 2, LAYERS)),
    ("layers without weights, all changed", || pair(Weights::None, &|_| true, LAYERS)),
    ("layers without weights, every second changed", || pair(Weights::None, &|i| i % 2 == 0, LAYERS)),
    ("layers without weights, one more", || pair(Weights::None, &|_| false, LAYERS + 1)),
    ("nothing in common", || Ok((chain(LINKS, &[])?, layers(LINKS / 10, Weights::None, &|_| false)?))),
];

fn main() -> Result<(), Box<dyn Error>> {
    let asked = std::env::args().nth(1);
    if let Some(name) = asked {
        let case = CASES.iter().find(|(n, _)| *n == name).ok_or("there is no such case")?;
        let (a, b) = case.1()?;
        let before = peak();
        let begin = Instant::now();
        let found = diff(&a, &b)?;
        let seconds = begin.elapsed().as_secs_f64();
        println!(
            "{name:56} {:8} {:8} {seconds:8.2} {before:8} {:8} {:6}",
            a.len(),
            b.len(),
            peak(),
            found.entries.len()
        );
        for entry in found.entries.iter().take(4) {
            println!("    {}", entry.text.chars().take(150).collect::<String>());
        }
        return Ok(());
    }
    println!("{:56} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6}", "", "left", "right", "s", "MiB", "peak", "found");
    for (name, _) in CASES {
        let status = Command::new(std::env::current_exe()?).arg(name).status()?;
        if !status.success() {
            return Err(format!("{name}: {status}").into());
        }
    }
    Ok(())
}

/// A chain that also looks back, otherwise at the links `edits`.
fn chain(links: usize, edits: &[usize]) -> Result<Graph, IrError> {
    let mut g = Graph::new();
    let x = g.input("x", TensorType::f32(Shape::fixed(&[8, 8])))?;
    let mut values = vec![x];
    let mut at = x;
    for i in 0..links {
        let edited = edits.contains(&i);
        at = match i % 5 {
            0 if edited => g.op(Op::Gelu { approximate: true }, &[at])?,
            0 => {
                let w = g.weight(&format!("w{}", i % 1000), TensorType::f32(Shape::fixed(&[8, 8])))?;
                g.op(Op::Matmul, &[at, w])?
            }
            1 => g.op(Op::Add, &[at, values[i / 2]])?,
            2 => {
                let value = if edited { 9.0 } else { (i % 7) as f32 };
                g.op(Op::AddScalar { value: value.into() }, &[at])?
            }
            3 => {
                let parts = g.op_many(Op::Split { axis: 1, sizes: vec![3, 5] }, &[at])?;
                g.op(Op::Concat { axis: 1 }, &parts)?
            }
            _ => g.op(if edited { Op::Tanh } else { Op::Silu }, &[at])?,
        };
        values.push(at);
    }
    g.output("y", at)?;
    Ok(g)
}

#[derive(Clone, Copy)]
enum Weights {
    Own,
    Same,
    None,
}

/// Layers against as many or more of them, some with another activation.
fn pair(weights: Weights, edited: &dyn Fn(usize) -> bool, others: usize) -> Result<(Graph, Graph), IrError> {
    Ok((layers(LAYERS, weights, &|_| false)?, layers(others, weights, edited)?))
}

fn layers(count: usize, weights: Weights, edited: &dyn Fn(usize) -> bool) -> Result<Graph, IrError> {
    let ty = TensorType::f32(Shape::fixed(&[8, 8]));
    let mut g = Graph::new();
    let mut h = g.input("x", ty.clone())?;
    let gain = g.weight("gain", TensorType::f32(Shape::fixed(&[8])))?;
    for i in 0..count {
        let product = |g: &mut Graph, x: Value, part: &str| match weights {
            Weights::Own => {
                let w = g.weight(&format!("model.layers.{i}.{part}.weight"), ty.clone())?;
                g.op(Op::Matmul, &[x, w])
            }
            Weights::Same => {
                let w = g.weight(part, ty.clone())?;
                g.op(Op::Matmul, &[x, w])
            }
            Weights::None => g.op(Op::Exp, &[x]),
        };
        let x = g.op(Op::RmsNorm { eps: 1e-6.into() }, &[h, gain])?;
        let (q, k, v) = (product(&mut g, x, "q")?, product(&mut g, x, "k")?, product(&mut g, x, "v")?);
        let a = g.op(Op::Sdpa { heads: 2, kv_heads: 2, head_dim: 4, causal: true }, &[q, k, v])?;
        let a = product(&mut g, a, "o")?;
        h = g.op(Op::Add, &[h, a])?;
        let x = g.op(Op::RmsNorm { eps: 1e-6.into() }, &[h, gain])?;
        let (gate, up) = (product(&mut g, x, "gate")?, product(&mut g, x, "up")?);
        let gate = g.op(if edited(i) { Op::Gelu { approximate: true } } else { Op::Silu }, &[gate])?;
        let x = g.op(Op::Mul, &[gate, up])?;
        let x = product(&mut g, x, "down")?;
        h = g.op(Op::Add, &[h, x])?;
    }
    g.output("y", h)?;
    Ok(g)
}

/// The most memory that this process has held, in MiB; 0 where the system does not say.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}
