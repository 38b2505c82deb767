//! Pages of graph texts: `cargo run -p tallow-ir --example page -- graph.txt > graph.html`; two make a page of
//! their difference. A number in place of a file makes a decoder of so many layers, `28-edited` one with some edits,
//! `4-without-2` one without its layer 2.

use std::collections::HashMap;
use std::error::Error;
use tallow_ir::{DType, Dim, Graph, Op, Shape, TensorType, diff, page, text};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let page = match arguments.as_slice() {
        [one] => {
            let (graph, about) = made(one)?;
            page::graph(&graph, &about)
        }
        [left, right] => {
            let ((left, about_left), (right, about_right)) = (made(left)?, made(right)?);
            page::diff(&left, &right, &diff::diff(&left, &right)?, &about_left, &about_right)
        }
        _ => return Err("give one or two of: a graph text, a number of layers".into()),
    };
    print!("{page}");
    Ok(())
}

fn made(what: &str) -> Result<(Graph, page::About), Box<dyn Error>> {
    let (what, without) = match what.split_once("-without-") {
        Some((what, layer)) => (what, Some(layer.parse()?)),
        None => (what, None),
    };
    let (number, edited) = what.strip_suffix("-edited").map_or((what, false), |number| (number, true));
    let (graph, title) = match number.parse::<usize>() {
        Ok(layers) if edited => (decoder(layers, true, without)?, format!("edited decoder of {layers} layers")),
        Ok(layers) => (decoder(layers, false, without)?, format!("decoder of {layers} layers")),
        Err(_) => (text::parse(&std::fs::read_to_string(what)?)?, what.rsplit('/').next().unwrap_or(what).to_owned()),
    };
    let mut about = page::About { subtitle: "raw".into(), ..page::About::titled(title) };
    if number.parse::<usize>().is_ok() {
        told(&graph, &mut about);
    }
    Ok((graph, about))
}

/// A program for the decoder, where in it each value was written, and some remarks.
fn told(graph: &Graph, about: &mut page::About) {
    const PROGRAM: &str = include_str!("page.rs");
    about.source = Some(page::Source { name: "page.rs".into(), text: PROGRAM.into() });
    let lines: Vec<&str> = PROGRAM.lines().collect();
    let from = lines.iter().position(|line| line.starts_with("fn decoder")).unwrap_or(0);
    let mut known: HashMap<&str, Option<(u32, u32)>> = HashMap::new();
    for id in graph.nodes() {
        let Some(name) = graph.results(id).next().and_then(|v| graph.name_of(v)) else { continue };
        let last = name.rsplit('.').next().unwrap_or(name);
        let span = *known.entry(last).or_insert_with(|| {
            let quoted = format!("\"{last}\"");
            let at = (from..lines.len()).find(|&at| lines[at].contains(&quoted))?;
            Some((at as u32 + 1, (lines[at].len() - lines[at].trim_start().len()) as u32 + 1))
        });
        about.spans.extend(span.map(|span| (id, span)));
        let layer = name.strip_prefix("layer").and_then(|rest| rest.split('.').next()?.parse().ok());
        let remark = |pass: &str, applied, text: &str| page::Remark {
            pass: pass.into(),
            applied,
            text: text.into(),
            number: layer.map(|layer: u32| 2 * layer + u32::from(applied)),
        };
        match last {
            "q" | "k" | "v" => {
                about.remarks.insert(id, vec![remark("joined-projections", true, "q, k and v in one product")])
            }
            "act" => {
                let text = "the gate is read by a second operation";
                about.remarks.insert(id, vec![remark("gated-activation", false, text)])
            }
            _ => None,
        };
    }
}

/// A decoder as the families build it. The edited one has another activation, one layer with another epsilon, one
/// without rotation of its keys, and softened logits. Layer `without` is left out.
fn decoder(layers: usize, edited: bool, without: Option<usize>) -> Result<Graph, Box<dyn Error>> {
    let mut g = Graph::new();
    let shape = |dims: &[i64]| Shape::fixed(dims);
    let q8 = |dims: &[i64]| TensorType::new(DType::Q8, shape(dims));
    let f32 = |dims: &[i64]| TensorType::f32(shape(dims));
    let ids = g.input("input_ids", TensorType::i64(Shape::new([Dim::symbol("S")])))?;
    let embed = g.weight("model.embed_tokens.weight", q8(&[32000, 896]))?;
    let mut h = g.op(Op::TokenEmbed, &[ids, embed])?;
    g.name(h, "embed");
    let pos = g.pos()?;
    let norm = Op::RmsNorm { eps: 1e-6.into() };
    for i in (0..layers).filter(|i| Some(*i) != without) {
        let mut weights = Vec::new();
        for (part, ty) in [
            ("input_layernorm", f32(&[896])),
            ("self_attn.q_proj", q8(&[896, 896])),
            ("self_attn.k_proj", q8(&[128, 896])),
            ("self_attn.v_proj", q8(&[128, 896])),
            ("self_attn.o_proj", q8(&[896, 896])),
            ("post_attention_layernorm", f32(&[896])),
            ("mlp.gate_proj", q8(&[4864, 896])),
            ("mlp.up_proj", q8(&[4864, 896])),
            ("mlp.down_proj", q8(&[896, 4864])),
        ] {
            weights.push(g.weight(&format!("model.layers.{i}.{part}.weight"), ty)?);
        }
        let mut named = |op: Op, operands: &[_], name: &str| {
            let value = g.op(op, operands)?;
            g.name(value, format!("layer{i}.{name}"));
            Ok::<_, Box<dyn Error>>(value)
        };
        let x = named(norm.clone(), &[h, weights[0]], "attn_norm")?;
        let mut q = named(Op::Matmul, &[x, weights[1]], "q")?;
        let mut k = named(Op::Matmul, &[x, weights[2]], "k")?;
        let v = named(Op::Matmul, &[x, weights[3]], "v")?;
        for (value, name, heads) in [(&mut q, "q", 14), (&mut k, "k", 2)] {
            let rope = Op::Rope { head_dim: 64, rope_dim: 64, base: 1e6.into() };
            let split = named(Op::Reshape { shape: vec![-1, heads, 64] }, &[*value], &format!("{name}_heads"))?;
            let turned = match edited && i == 9 && name == "k" {
                true => split,
                false => named(rope, &[split, pos], &format!("{name}_rope"))?,
            };
            *value = named(Op::Reshape { shape: vec![-1, heads * 64] }, &[turned], &format!("{name}_rows"))?;
        }
        let kv = g.op_many(Op::KvCache, &[k, v])?;
        let sdpa = Op::Sdpa { heads: 14, kv_heads: 2, head_dim: 64, causal: true };
        let mut named = |op: Op, operands: &[_], name: &str| {
            let value = g.op(op, operands)?;
            g.name(value, format!("layer{i}.{name}"));
            Ok::<_, Box<dyn Error>>(value)
        };
        let a = named(sdpa, &[q, kv[0], kv[1]], "attn")?;
        let a = named(Op::Matmul, &[a, weights[4]], "o")?;
        h = named(Op::Add, &[h, a], "mid")?;
        let odd = Op::RmsNorm { eps: 1e-5.into() };
        let x = named(if edited && i == 5 { odd } else { norm.clone() }, &[h, weights[5]], "mlp_norm")?;
        let gate = named(Op::Matmul, &[x, weights[6]], "gate")?;
        let up = named(Op::Matmul, &[x, weights[7]], "up")?;
        let x = named(if edited { Op::GeGlu } else { Op::SwiGlu }, &[gate, up], "act")?;
        let x = named(Op::Matmul, &[x, weights[8]], "down")?;
        h = named(Op::Add, &[h, x], "out")?;
    }
    let gain = g.weight("model.norm.weight", f32(&[896]))?;
    let x = g.op(norm, &[h, gain])?;
    g.name(x, "final_norm");
    let mut logits = g.op(Op::Matmul, &[x, embed])?;
    if edited {
        logits = g.op(Op::MulScalar { value: 0.5.into() }, &[logits])?;
    }
    g.name(logits, "logits");
    g.output("logits", logits)?;
    Ok(g)
}
