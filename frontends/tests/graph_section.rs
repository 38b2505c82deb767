//! Graph sections: both spellings give the graph that a family built, and hostile text an error.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure is a failed test")]

use indexmap::IndexMap;
use tallow_format::{Config, GraphFormat};
use tallow_frontends::graph_section::{from_section, parse, to_text};
use tallow_frontends::{Family, families};
use tallow_ir::{RawGraph, graphs_equal};

fn config(tied: &str) -> Config {
    let text = format!(
        "model_type = \"llama\"\n[architecture]\nhidden_size = 4\nnum_attention_heads = 1\nnum_hidden_layers = 1\nintermediate_size = 4\nvocab_size = 5\n{tied}\nrope_scaling = {{ rope_type = \"longrope\", short_factor = [1.0, 1.3], long_factor = [2, 2.7], factor = 4, original_max_position_embeddings = 8 }}\n"
    );
    Config::parse(&text).unwrap()
}

fn shapes(head: bool) -> IndexMap<String, Vec<u64>> {
    let mut out: IndexMap<String, Vec<u64>> = IndexMap::new();
    out.insert("model.embed_tokens.weight".into(), vec![5, 4]);
    out.insert("model.norm.weight".into(), vec![4]);
    if head {
        out.insert("lm_head.weight".into(), vec![5, 4]);
    }
    for name in ["self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "mlp.gate", "mlp.up", "mlp.down"] {
        out.insert(format!("model.layers.0.{name}_proj.weight"), vec![4, 4]);
    }
    for name in ["input", "post_attention"] {
        out.insert(format!("model.layers.0.{name}_layernorm.weight"), vec![4]);
    }
    out
}

fn family() -> Family {
    families::build(&config(""), &shapes(true)).unwrap()
}

fn raw() -> RawGraph {
    RawGraph::from_graph(&family().graph).unwrap()
}

#[test]
fn both_spellings_give_the_same_nodes_and_the_graph_back() {
    let raw = raw();
    for format in [GraphFormat::Hex, GraphFormat::Toml] {
        let text = to_text(format, &raw);
        assert_eq!(parse(format, &text).unwrap(), raw, "{text}");
        let graph = from_section(format, &text, &config(""), &shapes(true)).unwrap();
        assert!(graphs_equal(&graph, &family().graph));
        assert_eq!(to_text(format, &parse(format, &text).unwrap()), text);
    }
}

#[test]
fn bare_graphs_hints_and_odd_values_survive_the_tables() {
    use tallow_ir::Op;
    use tallow_ir::binary::{HintForm, Input, Interface, RawNode};
    let call = |name: &str| Op::HostCall {
        function: tallow_ir::ops::Text::new(name).unwrap(),
        dtype: tallow_ir::DType::F32,
        shape: vec![-1],
    };
    let node = |id, op| RawNode { id, op, inputs: vec!["a".into()], outputs: vec![format!("b{id}")], hint: None };
    let mut raw = RawGraph {
        nodes: vec![
            node(7, Op::Clamp { min: None, max: Some((-0.0).into()) }),
            node(8, Op::Clamp { min: Some(f32::NEG_INFINITY.into()), max: Some(f32::NAN.into()) }),
            node(9, Op::Reshape { shape: vec![] }),
            node(10, Op::MulScalar { value: 16_777_217e3.into() }),
            node(11, Op::MulScalar { value: 1.1754944e-38.into() }),
            node(12, Op::Slice { axis: 0, start: 1, end: i64::MAX }),
            node(13, Op::Tanh),
            node(14, call("resample")),
            node(15, call("\"a\", dtype = [1]\n\\")),
        ],
        interface: None,
        hints: HintForm::Byte,
    };
    raw.nodes[0].hint = Some(5);
    raw.nodes[1].hint = Some(77);
    let text = to_text(GraphFormat::Toml, &raw);
    assert!(text.contains("function = \"resample\", dtype = \"f32\""), "{text}");
    assert!(text.contains("hint = \"cuda\"") && text.contains("hint_form = \"byte\""), "{text}");
    assert_eq!(parse(GraphFormat::Toml, &text).unwrap(), raw);
    raw.interface = Some(Interface::default());
    raw.hints = HintForm::Flagged;
    assert_eq!(parse(GraphFormat::Toml, &to_text(GraphFormat::Toml, &raw)).unwrap(), raw);
    raw.interface = Some(Interface {
        inputs: vec![Input { name: "a".into(), dims: vec![-1, 3], dtype: tallow_ir::DType::I64, place: Some((4, 5)) }],
        outputs: vec!["b7".into(), "quote \" and\nline".into()],
    });
    assert_eq!(parse(GraphFormat::Toml, &to_text(GraphFormat::Toml, &raw)).unwrap(), raw);
}

#[test]
fn a_missing_head_is_the_embedding_where_the_config_ties_them() {
    let text = to_text(GraphFormat::Hex, &raw());
    let graph = from_section(GraphFormat::Hex, &text, &config("tie_word_embeddings = true"), &shapes(false)).unwrap();
    assert!(graph.weights().all(|(name, _)| name != "lm_head.weight"));
    let error = from_section(GraphFormat::Hex, &text, &config(""), &shapes(false)).unwrap_err();
    assert!(error.to_string().contains("lm_head.weight"), "{error}");
    assert!(!error.is_unsupported());
    let error = from_section(GraphFormat::Hex, &text, &config("tie_word_embeddings = 3"), &shapes(false));
    assert!(error.unwrap_err().to_string().contains("tie_word_embeddings"));
}

#[test]
fn faults_are_named_all_at_once() {
    let error = |text: &str| {
        let error = parse(GraphFormat::Toml, text).unwrap_err();
        (error.to_string(), error.is_unsupported())
    };
    let (text, unsupported) = error(
        "what = 1\n[[nodes]]\nid = 0\nop = \"Tahn\"\n[[nodes]]\nop = \"Tanh\"\n[[nodes]]\nid = 2\nop = \"RmsNorm\"\n[[nodes]]\nid = 3\nop = \"Tanh\"\nattrs = { eps = 1 }\n[[inputs]]\nname = \"a\"\n",
    );
    assert_eq!(
        text,
        "graph section: `nodes[1].id` is missing\n\
         `nodes[2].attrs` does not fit RmsNorm: `eps` is missing\n\
         key `eps` of `nodes[3].attrs` has no meaning; remove it\n\
         `inputs[0].shape` is missing\n\
         key `what` has no meaning; remove it\n\
         `nodes[0].op` is \"Tahn\", an operation that this version does not know"
    );
    assert!(!unsupported);
    let text =
        error("[[nodes]]\nid = 0\nop = \"HostCall\"\nattrs = { function = \"\", dtype = \"f32\", shape = [] }").0;
    assert!(text.contains("does not fit HostCall: `function`: the text is empty"), "{text}");
    assert!(error("[[nodes]]\nid = 0\nop = \"Tahn\"\n").1);
    assert!(!error("nodes = 3").1);
    assert!(!error("nodes = [").1);
    assert!(error("[[nodes]]\nid = 5000000000\nop = \"Tanh\"").0.contains("below 2^32"));
    assert!(error("[[inputs]]\nname = \"a\"\nshape = [-2]\n").0.contains("`inputs[0].shape`"));
    let (text, unsupported) = error(&" ".repeat(tallow_frontends::graph_section::tables::MAX_TEXT + 1));
    assert!(unsupported && text.contains("over the limit of 33554432; use `format = \"hex\"`"), "{text}");
    let deep = format!("a = {}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(!error(&deep).0.is_empty());
    for hex in ["zz", "0", "ffffffff", "01000000"] {
        assert!(parse(GraphFormat::Hex, hex).is_err(), "{hex}");
    }
}
