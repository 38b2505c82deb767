//! What the fuzz targets begin from: a decoder, and small graphs with every operation, from the golden cases of
//! the executor; and the programs of the tests of both readers.

use crate::targets::weight;
use indexmap::IndexMap;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tallow_format::{Config, GraphFormat};
use tallow_frontends::families;
use tallow_frontends::graph_section::{parse as section, to_text};
use tallow_ir::binary::HintForm;
use tallow_ir::ops::{CachedParts, Scaling, Text};
use tallow_ir::text::print;
use tallow_ir::{DType, Dim, Graph, Op, OpInfo, RawGraph, Shape, TensorType};

/// Programs of more bytes than this are no seeds of the evaluator's target.
const LONG: usize = 5000;
/// Operations of one graph.
const GROUP: usize = 12;

/// Where the files are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds")
}

/// Files by target and name.
pub type Files = BTreeMap<(String, String), Vec<u8>>;

/// Every seed.
pub fn all() -> Files {
    let mut out = Files::new();
    let mut decoder = decoder();
    put(&mut out, "decoder", &decoder);
    decoder.nodes[0].hint = Some(3);
    decoder.interface = None;
    put(&mut out, "decoder-bare", &decoder);
    decoder.hints = HintForm::Byte;
    put(&mut out, "decoder-bare-byte", &decoder);
    for (i, group) in cases().chunks(GROUP).enumerate() {
        put(&mut out, &format!("operations-{i:02}"), &RawGraph::from_graph(&graph(group, false)).unwrap());
        add(&mut out, "text", &format!("operations-{i:02}-symbols.txt"), print(&graph(group, true)).into_bytes());
    }
    // The operation that no operands fit.
    let mut refused = Graph::new();
    let patches = TensorType::f32(Shape::fixed(&[1, 16, 4]));
    let x = refused.input("x", patches.clone()).unwrap();
    let y = refused.op_unchecked(Op::Unpatchify, &[x], vec![patches]);
    refused.output("y", y[0]).unwrap();
    put(&mut out, "refused", &RawGraph::from_graph(&refused).unwrap());
    add(&mut out, "text", "refused.txt", print(&refused).into_bytes());
    programs(&mut out);
    compiled(&mut out);
    out
}

/// The programs of the tests of the evaluator, but for long ones.
fn compiled(out: &mut Files) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    for part in ["styles", "errors", "language"] {
        for entry in std::fs::read_dir(folder.join(part)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let source = std::fs::read(&path).unwrap();
            if name.ends_with(".rs") && source.len() < LONG {
                add(out, "programs", &format!("{part}-{name}"), source);
            }
        }
    }
}

/// The programs of the tests of both readers.
fn programs(out: &mut Files) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parsers");
    for folder in [folder.join("good"), folder.join("faulty")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if let Some(target @ ("rs" | "tri")) = path.extension().and_then(|e| e.to_str()) {
                add(out, target, name, std::fs::read(&path).unwrap());
            }
        }
    }
}

/// A graph in every spelling.
fn put(out: &mut Files, name: &str, raw: &RawGraph) {
    add(out, "binary", &format!("{name}.bin"), raw.write());
    add(out, "hex", &format!("{name}.hex"), to_text(GraphFormat::Hex, raw).into_bytes());
    add(out, "toml", &format!("{name}.toml"), to_text(GraphFormat::Toml, raw).into_bytes());
    if let Ok(graph) = raw.to_graph(&weight, true) {
        add(out, "text", &format!("{name}.txt"), print(&graph).into_bytes());
    }
}

fn add(out: &mut Files, target: &str, name: &str, bytes: Vec<u8>) {
    out.insert((target.to_owned(), name.to_owned()), bytes);
}

/// The operations of a seed; none of an input that was found.
pub fn operations(name: &str, bytes: &[u8]) -> Vec<&'static str> {
    if name.starts_with("found-") {
        return Vec::new();
    }
    let text = || std::str::from_utf8(bytes).unwrap();
    let raw = match name.rsplit('.').next().unwrap() {
        "bin" => RawGraph::read(bytes).unwrap(),
        "hex" => section(GraphFormat::Hex, text()).unwrap(),
        "toml" => section(GraphFormat::Toml, text()).unwrap(),
        _ => RawGraph::from_graph(&tallow_ir::text::parse(text()).unwrap()).unwrap(),
    };
    raw.nodes.iter().map(|node| node.op.name()).collect()
}

/// A decoder of one layer, whose weights tell their shapes by their names.
fn decoder() -> RawGraph {
    let text = "model_type = \"qwen2\"\n[architecture]\nhidden_size = 4\nnum_attention_heads = 2\n\
                num_key_value_heads = 1\nnum_hidden_layers = 1\nintermediate_size = 6\nvocab_size = 5\n\
                max_position_embeddings = 64\n";
    let mut shapes: IndexMap<String, Vec<u64>> = IndexMap::new();
    for (name, shape) in [("embed_tokens", [5, 4].as_slice()), ("norm", &[4])] {
        shapes.insert(format!("model.{name}.weight"), shape.to_vec());
    }
    shapes.insert("lm_head.weight".into(), vec![5, 4]);
    let layer: [(&str, &[u64]); 12] = [
        ("self_attn.q_proj.weight", &[4, 4]),
        ("self_attn.k_proj.weight", &[2, 4]),
        ("self_attn.v_proj.weight", &[2, 4]),
        ("self_attn.o_proj.weight", &[4, 4]),
        ("self_attn.q_proj.bias", &[4]),
        ("self_attn.k_proj.bias", &[2]),
        ("self_attn.v_proj.bias", &[2]),
        ("mlp.gate_proj.weight", &[6, 4]),
        ("mlp.up_proj.weight", &[6, 4]),
        ("mlp.down_proj.weight", &[4, 6]),
        ("input_layernorm.weight", &[4]),
        ("post_attention_layernorm.weight", &[4]),
    ];
    for (name, shape) in layer {
        shapes.insert(format!("model.layers.0.{name}"), shape.to_vec());
    }
    let graph = families::build(&Config::parse(text).unwrap(), &shapes).unwrap().graph;
    let mut raw = RawGraph::from_graph(&graph).unwrap();
    for name in raw.nodes.iter_mut().flat_map(|n| &mut n.inputs) {
        if let Some(shape) = shapes.get(name) {
            *name = format!("{name}{shape:?}");
        }
    }
    raw
}

/// An operation with the names and types of its operands.
struct Case {
    op: Op,
    operands: Vec<(String, TensorType)>,
}

/// The first golden case of each operation, by tag, and what has none: a call of the host, and attention with a cache.
fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../executor/tests/ops");
    let mut out = Vec::new();
    for info in OpInfo::all() {
        let Ok(text) = std::fs::read(folder.join(format!("{}.json", info.name))) else { continue };
        let cases: Json = serde_json::from_slice(&text).unwrap();
        let shapes = shapes(&folder.join(format!("{}.safetensors", info.name)));
        out.extend(cases["cases"].as_array().unwrap().iter().take(1).map(|case| {
            let fields = case["attributes"].as_object().unwrap();
            let op = Op::from_fields(info.name, |f| Ok(fields[f].as_str().unwrap().to_owned())).unwrap();
            let operands = case["operands"].as_array().unwrap().iter().map(|operand| {
                let (name, dtype) = operand.as_str().unwrap().split_once(": ").unwrap();
                let shape = &shapes[&format!("{}/{name}", case["name"].as_str().unwrap())];
                (format!("{}.{name}", info.name), TensorType::new(DType::from_name(dtype).unwrap(), shape.clone()))
            });
            Case { op, operands: operands.collect() }
        }));
    }
    let function = Text::new("resample \"to\", 2").unwrap();
    let x = TensorType::f32(Shape::fixed(&[3, 2]));
    out.push(Case {
        op: Op::HostCall { function, dtype: DType::F32, shape: vec![-1, 2] },
        operands: vec![("HostCall.x".into(), x)],
    });
    out.push(cached_attention());
    out
}

fn cached_attention() -> Case {
    let (heads, kv_heads, head_dim) = (2, 1, 4);
    let (window, scale, softcap) = (5, 0.5.into(), 30.0.into());
    let rope = Op::RopeScaled {
        head_dim,
        rope_dim: 4,
        base: 1e4.into(),
        interleaved: true,
        scaling: Scaling::LongRope,
        factor: 2.0.into(),
        original: 16,
        low: 1.0.into(),
        high: 4.0.into(),
        attention_factor: 1.25.into(),
        short: vec![1.0.into(), 2.0.into()],
        long: vec![3.0.into(), 4.0.into()],
    };
    let parts = CachedParts {
        attention: Op::Attention { heads, kv_heads, head_dim, causal: true, window, scale, softcap },
        norm: Some(Op::RmsNorm { eps: 1e-6.into() }),
        rope: Some(rope),
    };
    let f32 = |dims: &[i64]| TensorType::f32(Shape::fixed(dims));
    let types = [f32(&[3, 8]), f32(&[3, 4]), f32(&[3, 4]), f32(&[4]), f32(&[4]), TensorType::i64(Shape::fixed(&[]))];
    let names = ["q", "k", "v", "g_q", "g_k", "position"].map(|name| format!("CachedAttention.{name}"));
    Case { op: parts.op().unwrap(), operands: names.into_iter().zip(types).collect() }
}

/// The shapes in the head of a safetensors file.
fn shapes(path: &Path) -> BTreeMap<String, Shape> {
    let bytes = std::fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let head: Json = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let shape =
        |entry: &Json| Shape::new(entry["shape"].as_array().unwrap().iter().map(|n| n.as_i64().unwrap().into()));
    head.as_object().unwrap().iter().map(|(name, entry)| (name.clone(), shape(entry))).collect()
}

/// A graph of these operations, each on its own: the first operand is an input, other real numbers are weights.
/// With `symbols`, all are inputs, and sizes above 1 have names where the operation allows that.
fn graph(cases: &[Case], symbols: bool) -> Graph {
    let mut g = Graph::new();
    for case in cases {
        let named = |t: &TensorType| {
            let dims = t.shape.dims().iter().map(|d| match d.as_const() {
                Some(n) if n > 1 => Dim::symbol(&format!("n{n}")),
                _ => d.clone(),
            });
            TensorType::new(t.dtype, Shape::new(dims))
        };
        let mut types: Vec<TensorType> = case.operands.iter().map(|(_, t)| t.clone()).collect();
        if symbols {
            let wide: Vec<_> = types.iter().map(named).collect();
            if case.op.infer(&wide).is_ok() {
                types = wide;
            }
        }
        let operands = case.operands.iter().zip(&types).enumerate().map(|(i, ((name, _), ty))| {
            if i == 0 || symbols || ty.dtype != DType::F32 {
                g.input(name, ty.clone()).unwrap()
            } else {
                g.weight(&format!("{name}{}", ty.shape), ty.clone()).unwrap()
            }
        });
        let operands: Vec<_> = operands.collect();
        let results = g.op_many(case.op.clone(), &operands).unwrap();
        for (i, value) in results.into_iter().enumerate() {
            g.output(&format!("{}.{i}", case.op.name()), value).unwrap();
        }
    }
    g
}
