//! The binary form and its hexadecimal text: bytes kept, names bound, hostile blobs.

#![allow(clippy::unwrap_used)] // Tests outside `#[test]` functions too.

mod common;

use common::{chain, decoder, f, random, shape};
use proptest::prelude::*;
use std::collections::HashMap;
use tallow_ir::binary::{Binding, HintForm, Input, Interface, RawGraph, RawNode};
use tallow_ir::{DType, Graph, Op, TensorType, graphs_equal, hex, verify};

fn types(g: &Graph) -> HashMap<String, TensorType> {
    g.weights().map(|(n, v)| (n.to_owned(), g.ty(v).clone())).collect()
}

/// Graph, bytes, hexadecimal text and back.
fn round_trip(g: &Graph) -> Graph {
    let raw = RawGraph::from_graph(g).unwrap();
    let bytes = raw.write();
    let read = RawGraph::read(&hex::decode(&hex::encode(&bytes)).unwrap()).unwrap();
    assert_eq!(read, raw);
    assert_eq!(read.write(), bytes);
    let weights = types(g);
    // The form holds no symbols of inputs other than tokens: those are given.
    let own = |name: &str| !matches!(name, "input_ids" | "pos");
    let inputs: Vec<_> = g.inputs().filter(|(n, _)| own(n)).map(|(n, v)| (n, g.ty(v).clone())).collect();
    let binding = Binding { weights: &|name| weights.get(name).cloned(), tie_head: false, inputs: &inputs };
    read.to_graph_with(&binding).unwrap_or_else(|e| panic!("{e}"))
}

fn node(op: Op, inputs: &[&str], outputs: &[&str]) -> RawNode {
    let own = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
    RawNode { id: 0, op, inputs: own(inputs), outputs: own(outputs), hint: None }
}

fn bare(nodes: Vec<RawNode>) -> RawGraph {
    RawGraph {
        nodes: (0..).zip(nodes).map(|(id, n)| RawNode { id, ..n }).collect(),
        interface: None,
        hints: HintForm::Flagged,
    }
}

#[test]
fn the_layout_is_the_documented_one() {
    let raw = RawGraph {
        nodes: vec![RawNode {
            id: 7,
            op: Op::RmsNorm { eps: 1.0.into() },
            inputs: vec!["x".into(), "g".into()],
            outputs: vec!["é".into()],
            hint: Some(5),
        }],
        interface: Some(Interface {
            inputs: vec![Input { name: "x".into(), dims: vec![-1, 4], dtype: DType::F32, place: Some((1, 2)) }],
            outputs: vec!["é".into()],
        }),
        hints: HintForm::Flagged,
    };
    let text = "01000000 07000000 2800 0000803f
        02000000 01000000 78 01000000 67  01000000 02000000 c3a9  01 05
        01000000 01000000 78 02000000 ffffffffffffffff 0400000000000000 00
        01 0100000000000000 0200000000000000
        01000000 02000000 c3a9";
    let bytes = hex::decode(text).unwrap();
    assert_eq!(raw.write(), bytes);
    assert_eq!(RawGraph::read(&bytes).unwrap(), raw);
}

#[test]
fn a_decoder_survives() {
    let g = decoder(2);
    let again = round_trip(&g);
    assert!(graphs_equal(&g, &again));
    let hints = |g: &Graph| g.nodes().filter_map(|n| g.hint(n)).collect::<Vec<_>>();
    assert_eq!(hints(&again), [1]);
    assert_eq!(RawGraph::from_graph(&again).unwrap().write(), RawGraph::from_graph(&g).unwrap().write());
    verify(again).unwrap();
    for n in [1000, 10_000, 100_000] {
        let g = chain(n);
        assert!(graphs_equal(&g, &round_trip(&g)));
    }
}

#[test]
fn bare_and_hint_byte_files_are_told_apart_by_what_consumes_them() {
    let mut raw = bare(vec![node(Op::Neg, &["x"], &["a"]), node(Op::Exp, &["a"], &["b"])]);
    // Without hints both readings consume everything: the normal form wins.
    let bytes = raw.write();
    let read = RawGraph::read(&bytes).unwrap();
    assert!(read.is_bare());
    assert_eq!((read.hints, read.write()), (HintForm::Flagged, bytes));
    // A hint that stands alone.
    raw.hints = HintForm::Byte;
    raw.nodes[0].hint = Some(1);
    raw.nodes[1].hint = Some(4);
    let bytes = raw.write();
    let read = RawGraph::read(&bytes).unwrap();
    assert_eq!(read, raw);
    assert_eq!(read.write(), bytes);
    // The same with inputs and outputs.
    raw.interface = Some(Interface { inputs: vec![], outputs: vec!["b".into()] });
    let bytes = raw.write();
    assert_eq!(RawGraph::read(&bytes).unwrap(), raw);
    // No nodes at all.
    assert_eq!(RawGraph::read(&[0; 4]).unwrap(), RawGraph::default());
    assert_eq!(RawGraph::read(&[0; 12]).unwrap().write(), [0; 12]);
}

#[test]
fn errors_name_byte_node_and_cause() {
    let bytes = bare(vec![node(Op::Neg, &["x"], &["a"])]).write();
    let error = |bytes: &[u8]| RawGraph::read(bytes).unwrap_err();
    assert_eq!(
        error(&bytes[..9]).to_string(),
        "byte 0, number of nodes: declares 1 items of at least 15 bytes, 5 bytes remain; the graph is damaged or of another format"
    );
    let short = error(&bytes[..bytes.len() - 1]);
    assert_eq!((short.offset, short.node), (bytes.len() - 1, Some(0)));
    let mut tag = bytes.clone();
    tag[8..10].copy_from_slice(&9999u16.to_le_bytes());
    let unknown = error(&tag);
    assert!(unknown.is_unsupported());
    assert_eq!(
        unknown.to_string(),
        "byte 8, node 0, operation tag: operation tag 9999 is not supported; a newer version may know it"
    );
    let mut more = bytes.clone();
    more.extend([0; 3]);
    assert!(!error(&more).is_unsupported());
    let mut count = bytes;
    count[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(error(&count).to_string().contains("declares 4294967295 items"));
}

#[test]
fn a_bare_one_token_graph_binds_by_its_names() {
    let rope = || Op::Rope { head_dim: 8, rope_dim: 8, base: 1e4.into() };
    let raw = bare(vec![
        // Out of order: a reader before its producer.
        node(Op::Matmul, &["h", "lm_head.weight"], &["logits"]),
        node(Op::TokenEmbed, &["input_ids", "model.embed_tokens.weight"], &["h"]),
        node(Op::Reshape { shape: vec![-1, 8] }, &["h"], &["heads"]),
        node(rope(), &["heads", "pos"], &["%2.0"]),
    ]);
    let weights = |name: &str| (name == "model.embed_tokens.weight").then(|| f("64, 32"));
    let g = raw.to_graph(&weights, true).unwrap();
    let inputs: Vec<String> = g.inputs().map(|(n, v)| format!("{n}: {}", g.ty(v))).collect();
    assert_eq!(inputs, ["input_ids: f32[1]", "pos: i64[]"]);
    let outputs: Vec<String> = g.outputs().map(|(n, v)| format!("{n}: {}", g.ty(v))).collect();
    assert_eq!(outputs, ["logits: f32[1, 64]", "%2.0: f32[4, 8]"]);
    assert_eq!(g.weights().count(), 1);
    assert_eq!(g.name_of(g.output_named("%2.0").unwrap()), None);
    verify(g).unwrap();
    // A caller that knows better, and one that is mistaken.
    let given = [("input_ids", TensorType::i64(shape("S")))];
    let with = |inputs| raw.to_graph_with(&Binding { weights: &weights, tie_head: true, inputs });
    let g = with(&given).unwrap();
    assert_eq!(g.ty(g.output_named("logits").unwrap()).to_string(), "f32[S, 64]");
    let errors = with(&[("ids", f("1"))]).unwrap_err().to_string();
    assert_eq!(errors, "a type is given for `ids`, which is no input of the graph");
    // Without the tie the head is missing.
    let errors = raw.to_graph(&weights, false).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "node 0 Matmul(h, lm_head.weight) → logits: the model has no tensor `lm_head.weight`"
    );
    // A head of its own is not replaced.
    let both = |name: &str| match name {
        "lm_head.weight" => Some(f("99, 32")),
        other => weights(other),
    };
    let g = raw.to_graph(&both, true).unwrap();
    assert_eq!(g.ty(g.output_named("logits").unwrap()).to_string(), "f32[1, 99]");
}

#[test]
fn every_fault_of_binding_is_reported() {
    let mut raw = bare(vec![
        node(Op::Add, &["x", "nowhere"], &["a"]),
        node(Op::Neg, &["a"], &["b"]),
        node(Op::Neg, &["x"], &["b"]),
        node(Op::Matmul, &["x"], &["c"]),
        node(Op::KvCache, &["x", "x"], &["d"]),
        node(Op::Matmul, &["x", "w"], &["e"]),
        node(Op::Neg, &["g"], &["f"]),
        node(Op::Neg, &["f"], &["g"]),
        node(Op::Neg, &["x"], &["w"]),
        node(Op::Neg, &["x"], &["pos"]),
    ]);
    let input =
        |name: &str, dims: &[i64]| Input { name: name.into(), dims: dims.into(), dtype: DType::F32, place: None };
    let stored = Input { place: Some((0, 4)), ..input("stored", &[1]) };
    raw.interface = Some(Interface {
        inputs: vec![
            input("x", &[-1, 4]),
            input("x", &[4]),
            input("c", &[1]),
            input("wide", &[1; 17]),
            stored,
            input("v", &[5]),
        ],
        outputs: vec!["e".into(), "gone".into(), "f".into(), "x".into(), "x".into()],
    });
    let weights = |name: &str| match name {
        "w" | "v" => Some(f("8, 5")),
        _ => None,
    };
    let errors = raw.to_graph(&weights, false).unwrap_err();
    let text = errors.to_string();
    assert_eq!(
        text,
        "the input `x` is declared twice
the input `c` is written by node 3 as well
the input `wide` has 17 dimensions, at most 16 are possible
the input `stored` stands in the weights, and the tensor index has no tensor of that name
the input `v` is declared with shape [5], the tensor of that name has [8, 5]
2 nodes depend on their own results or on such that do: node 6, node 7
nothing writes the output `gone`
the name `x` is already an output; give one of them another name
node 0 Add(x, nowhere) → a: nothing writes `nowhere`, and it is neither an input of the graph nor a tensor of the model
node 2 Neg(x) → b: `b` is written by node 1 already
node 3 Matmul(x) → c: takes the operands `x W`, found 1
node 4 KvCache(x, x) → d: gives 2 results, 1 are named
node 5 Matmul(x, w) → e: W has the type i64, expected real numbers
node 8 Neg(x) → w: `w` is a weight of the model as well; which one readers mean is not settled
node 9 Neg(x) → pos: `pos` is reserved for the number of cached tokens"
            .replace("node 5 Matmul(x, w) → e: W has the type i64, expected real numbers\n", "")
    );
}

#[test]
fn dynamic_dimensions_become_symbols() {
    let input =
        |name: &str, dims: &[i64]| Input { name: name.into(), dims: dims.into(), dtype: DType::I64, place: None };
    let names = |inputs: Vec<Input>| {
        let raw = RawGraph {
            nodes: vec![],
            interface: Some(Interface { outputs: vec![inputs[0].name.clone()], inputs }),
            hints: HintForm::Flagged,
        };
        let g = raw.to_graph(&|_| None, false).unwrap();
        g.inputs().map(|(_, v)| g.ty(v).shape.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(vec![input("input_ids", &[-1])]), ["[S]"]);
    let encoder =
        vec![input("input_ids", &[-1, -1]), input("attention_mask", &[-1, -1]), input("pixels", &[-1, 3, -1])];
    assert_eq!(names(encoder), ["[B, S]", "[B, S]", "[d1, 3, d2]"]);
    assert_eq!(names(vec![input("x", &[-1, 8]), input("y", &[-1])]), ["[S, 8]", "[d1]"]);
    assert_eq!(names(vec![input("input_ids", &[1, -1]), input("pos", &[])]), ["[1, S]", "[]"]);
}

#[test]
fn outputs_that_share_a_value_or_are_inputs_get_an_alias() {
    let mut g = Graph::new();
    let x = g.input("x", f("S")).unwrap();
    let y = g.op(Op::Neg, &[x]).unwrap();
    g.name(y, "x");
    g.output("y", y).unwrap();
    g.output("z", y).unwrap();
    g.output("same", x).unwrap();
    g.output("x", x).unwrap();
    let again = round_trip(&g);
    verify(again.clone()).unwrap();
    let names: Vec<&str> = again.outputs().map(|(n, _)| n).collect();
    assert_eq!(names, ["y", "z", "same", "x"]);
    assert_eq!(again.len(), 4);
    // One name for two things cannot be written.
    let mut g = Graph::new();
    let x = g.input("x", f("S")).unwrap();
    let y = g.op(Op::Neg, &[x]).unwrap();
    g.output("x", y).unwrap();
    assert!(RawGraph::from_graph(&g).unwrap_err().to_string().contains("`x`"));
}

#[test]
fn every_prefix_is_an_error_and_every_flipped_byte_is_read_or_refused() {
    let g = decoder(1);
    let weights = types(&g);
    let bind = |bytes: &[u8]| {
        if let Ok(raw) = RawGraph::read(bytes) {
            assert_eq!(raw.write(), bytes);
            if let Ok(g) = raw.to_graph(&|name| weights.get(name).cloned(), true) {
                let _ = verify(g);
            }
        }
    };
    let raw = RawGraph::from_graph(&g).unwrap();
    let whole = raw.write();
    let nodes = RawGraph { interface: None, ..raw }.write();
    for end in 0..whole.len() {
        // Only the end of the nodes ends a form; there the last hint, `1 1`, may stand alone.
        let complete = end == nodes.len() || end == nodes.len() - 1;
        assert_eq!(RawGraph::read(&whole[..end]).is_ok(), complete, "{end}");
    }
    for at in 0..whole.len() {
        for mask in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= mask;
            bind(&bytes);
        }
    }
    let text = hex::encode(&whole);
    assert!(hex::decode(&text[1..]).is_err());
    assert!(hex::decode(&format!("{}x{}", &text[..9], &text[10..])).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_graphs_survive(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        // The form holds -1 for symbols of inputs other than the ids: leave those out.
        let bytes: Vec<u8> = bytes.chunks(4).filter(|s| s[0] % 24 != 1).flatten().copied().collect();
        let g = random(&bytes);
        let end = g.output_named("the end").unwrap();
        let again = round_trip(&g);
        if matches!(g.node(end.node).kind, tallow_ir::NodeKind::Op(_)) {
            prop_assert!(graphs_equal(&g, &again));
        }
        prop_assert!(verify(again).is_ok());
    }

    #[test]
    fn random_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), count in 0u32..4) {
        if bytes.len() >= 8 {
            bytes[..4].copy_from_slice(&count.to_le_bytes());
        }
        if let Ok(raw) = RawGraph::read(&bytes) {
            prop_assert_eq!(raw.write(), bytes);
            let _ = raw.to_graph(&|_| None, true);
        }
    }
}
