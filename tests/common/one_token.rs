//! Decoder graphs in the bare form, as writers for one token a call make them: ids as floats, heads
//! apart only for the rotary embedding, a literal 1 in the reshapes after it, no declared inputs.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::path::Path;
use tallow::format::tools::{self, Destination, Edit};
use tallow::format::{ModelFile, ReadOptions};
use tallow::ir::Op;
use tallow::ir::binary::{RawGraph, RawNode};

struct Nodes(Vec<RawNode>);

impl Nodes {
    /// Appends an operation; its results are named.
    fn add(&mut self, op: Op, inputs: &[&str], outputs: &[&str]) {
        let names = |list: &[&str]| list.iter().map(|&n| n.to_owned()).collect();
        let id = self.0.len() as u32;
        self.0.push(RawNode { id, op, inputs: names(inputs), outputs: names(outputs), hint: None });
    }

    /// Appends an operation with one result, which is given back.
    fn make(&mut self, op: Op, inputs: &[&str], output: String) -> String {
        self.add(op, inputs, &[&output]);
        output
    }
}

/// The graph of a model of type qwen2 or qwen3.
pub fn decoder(file: &ModelFile) -> RawGraph {
    let config = file.config().architecture();
    let number = |key: &str| config.usize(key).unwrap().unwrap() as u32;
    let (hidden, heads, layers) = (number("hidden_size"), number("num_attention_heads"), number("num_hidden_layers"));
    let kv_heads = config.usize("num_key_value_heads").unwrap().map_or(heads, |n| n as u32);
    let head_dim = config.usize("head_dim").unwrap().map_or(hidden / heads, |n| n as u32);
    let eps = config.f64("rms_norm_eps").unwrap().unwrap();
    let eps = if eps >= 1.0 { 1.0 / eps } else { eps } as f32;
    let base = config.f64("rope_theta").unwrap().unwrap() as f32;
    let norm = || Op::RmsNorm { eps: eps.into() };
    let reshape = |a: i64, b: i64| Op::Reshape { shape: vec![a, b] };
    let (heads_i, kv, d) = (i64::from(heads), i64::from(kv_heads), i64::from(head_dim));

    let mut n = Nodes(Vec::new());
    let mut h = n.make(Op::TokenEmbed, &["input_ids", "model.embed_tokens.weight"], "embeddings".into());
    for layer in 0..layers {
        let weight = |name: &str| format!("model.layers.{layer}.{name}.weight");
        let value = |name: &str| format!("layer{layer}.{name}");
        let normed = n.make(norm(), &[&h, &weight("input_layernorm")], value("norm"));
        let mut parts = Vec::new();
        for part in ["q", "k", "v"] {
            let mut x =
                n.make(Op::Matmul, &[&normed, &weight(&format!("self_attn.{part}_proj"))], value(&format!("{part}0")));
            let bias = format!("model.layers.{layer}.self_attn.{part}_proj.bias");
            if file.tensors().contains(&bias) {
                x = n.make(Op::Add, &[&x, &bias], value(&format!("{part}1")));
            }
            if part != "v" {
                x = n.make(reshape(-1, d), &[&x], value(&format!("{part}2")));
                let head_norm = weight(&format!("self_attn.{part}_norm"));
                if file.tensors().contains(&head_norm) {
                    x = n.make(norm(), &[&x, &head_norm], value(&format!("{part}3")));
                }
                let rope = Op::Rope { head_dim, rope_dim: head_dim, base: base.into() };
                x = n.make(rope, &[&x, "pos"], value(&format!("{part}4")));
            }
            parts.push(x);
        }
        let k = n.make(reshape(1, kv * d), &[&parts[1]], value("k"));
        let (k_all, v_all) = (value("k_all"), value("v_all"));
        n.add(Op::KvCache, &[&k, &parts[2]], &[&k_all, &v_all]);
        // One token sees all that is cached: whether the operation says causal makes no difference.
        let causal = layer % 2 == 0;
        let y =
            n.make(Op::Sdpa { heads, kv_heads, head_dim, causal }, &[&parts[0], &k_all, &v_all], value("attention0"));
        let y = n.make(reshape(1, heads_i * d), &[&y], value("attention1"));
        let y = n.make(Op::Matmul, &[&y, &weight("self_attn.o_proj")], value("attention"));
        h = n.make(Op::Add, &[&h, &y], value("skip"));
        let normed = n.make(norm(), &[&h, &weight("post_attention_layernorm")], value("norm2"));
        let gate = n.make(Op::Matmul, &[&normed, &weight("mlp.gate_proj")], value("gate"));
        let up = n.make(Op::Matmul, &[&normed, &weight("mlp.up_proj")], value("up"));
        let y = n.make(Op::SwiGlu, &[&gate, &up], value("act"));
        let y = n.make(Op::Matmul, &[&y, &weight("mlp.down_proj")], value("down"));
        h = n.make(Op::Add, &[&h, &y], value("out"));
    }
    let h = n.make(norm(), &[&h, "model.norm.weight"], "norm".into());
    n.add(Op::Matmul, &[&h, "lm_head.weight"], &["logits"]);
    RawGraph { nodes: n.0, ..RawGraph::default() }
}

/// A copy of the model at `source` with the graph as its section, in hex, and a model type that no
/// family knows, so that only the graph can run it.
pub fn graph_only(source: &Path, graph: &RawGraph, to: &Path) {
    let hex = tallow::ir::hex::encode(&graph.write());
    let config = ModelFile::open(source).unwrap();
    let known = config.config().model_type().to_owned();
    let config = config.config().to_text().replace(&format!("\"{known}\""), "\"nobody_knows\"");
    let changes = [
        Edit::Add { name: "graph".into(), format: "hex".into(), content: hex },
        Edit::Replace { name: "config".into(), content: config },
    ];
    tools::edit(source, &changes, &Destination::File(to.to_owned()), &ReadOptions::default()).unwrap();
}
