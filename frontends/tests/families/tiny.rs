//! Small models: a config and the shapes of its tensors, and ways to ask a graph about itself.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure is a failed test")]

use indexmap::IndexMap;
use tallow_format::Config;
use tallow_frontends::families::{self, Family, FamilyError};
use tallow_ir::{Graph, NodeKind, Op, Value};

/// Hidden 8, 2 heads of 4 over 1 key/value head, feed-forward 16, vocabulary 12.
#[derive(Clone)]
pub struct Tiny {
    pub kind: &'static str,
    pub layers: usize,
    pub tied: bool,
    pub qkv_bias: bool,
    pub out_bias: bool,
    pub mlp_bias: bool,
    pub head_norms: bool,
    pub post_norms: bool,
    pub fused: bool,
    pub prefix: &'static str,
    /// Lines of `[architecture]` beside the sizes.
    pub extra: &'static str,
}

impl Tiny {
    pub fn new(kind: &'static str) -> Self {
        Tiny {
            kind,
            layers: 2,
            tied: false,
            qkv_bias: false,
            out_bias: false,
            mlp_bias: false,
            head_norms: false,
            post_norms: false,
            fused: false,
            prefix: "model.",
            extra: "",
        }
    }

    pub fn with(kind: &'static str, extra: &'static str) -> Self {
        Tiny { extra, ..Tiny::new(kind) }
    }

    pub fn config(&self) -> Config {
        let text = format!(
            "model_type = \"{}\"\n[architecture]\nhidden_size = 8\nnum_attention_heads = 2\nnum_key_value_heads = 1\nnum_hidden_layers = {}\nintermediate_size = 16\nvocab_size = 12\nmax_position_embeddings = 64\n{}\n",
            self.kind, self.layers, self.extra
        );
        Config::parse(&text).unwrap()
    }

    pub fn shapes(&self) -> IndexMap<String, Vec<u64>> {
        let mut out = IndexMap::new();
        let p = self.prefix;
        let mut put = |name: String, shape: &[u64]| {
            out.insert(name, shape.to_vec());
        };
        put(format!("{p}embed_tokens.weight"), &[12, 8]);
        put(format!("{p}norm.weight"), &[8]);
        if !self.tied {
            put("lm_head.weight".into(), &[12, 8]);
        }
        for i in 0..self.layers {
            let mut linear = |name: &str, rows: u64, columns: u64, bias: bool| {
                put(format!("{p}layers.{i}.{name}.weight"), &[rows, columns]);
                if bias {
                    put(format!("{p}layers.{i}.{name}.bias"), &[rows]);
                }
            };
            if self.fused {
                linear("self_attn.qkv_proj", 16, 8, self.qkv_bias);
                linear("mlp.gate_up_proj", 32, 8, self.mlp_bias);
            } else {
                linear("self_attn.q_proj", 8, 8, self.qkv_bias);
                linear("self_attn.k_proj", 4, 8, self.qkv_bias);
                linear("self_attn.v_proj", 4, 8, self.qkv_bias);
                linear("mlp.gate_proj", 16, 8, self.mlp_bias);
                linear("mlp.up_proj", 16, 8, self.mlp_bias);
            }
            linear("self_attn.o_proj", 8, 8, self.out_bias);
            linear("mlp.down_proj", 8, 16, self.mlp_bias);
            let mut norm = |name: &str, width: u64| {
                put(format!("{p}layers.{i}.{name}.weight"), &[width]);
            };
            norm("input_layernorm", 8);
            norm("post_attention_layernorm", 8);
            if self.post_norms {
                norm("pre_feedforward_layernorm", 8);
                norm("post_feedforward_layernorm", 8);
            }
            if self.head_norms {
                norm("self_attn.q_norm", 4);
                norm("self_attn.k_norm", 4);
            }
        }
        out
    }

    pub fn try_build(&self) -> Result<Family, FamilyError> {
        families::build(&self.config(), &self.shapes())
    }

    pub fn build(&self) -> Family {
        self.try_build().unwrap_or_else(|e| panic!("{e}"))
    }

    pub fn error(&self) -> String {
        self.try_build().map(|_| ()).unwrap_err().to_string()
    }
}

/// The value of this name.
pub fn value(graph: &Graph, name: &str) -> Value {
    graph
        .nodes()
        .flat_map(|n| graph.results(n))
        .find(|v| graph.name_of(*v) == Some(name))
        .unwrap_or_else(|| panic!("no value `{name}`"))
}

/// The operation that gives the value of this name.
pub fn op<'a>(graph: &'a Graph, name: &str) -> &'a Op {
    match &graph.node(value(graph, name).node).kind {
        NodeKind::Op(op) => op,
        other => panic!("`{name}` is {other:?}"),
    }
}

/// Every operation.
pub fn ops(graph: &Graph) -> Vec<&Op> {
    graph
        .nodes()
        .filter_map(|n| match &graph.node(n).kind {
            NodeKind::Op(op) => Some(op),
            NodeKind::Input(_) | NodeKind::Weight(_) => None,
        })
        .collect()
}

/// How many operations have this name.
pub fn count(graph: &Graph, name: &str) -> usize {
    ops(graph).iter().filter(|op| op.name() == name).count()
}

/// The window of each layer; 0 where it sees everything.
pub fn windows(family: &Family) -> Vec<u32> {
    let layers = (0..).take_while(|i| has(&family.graph, &format!("layer{i}.out")));
    layers
        .map(|i| match op(&family.graph, &format!("layer{i}.attn")) {
            Op::Sdpa { .. } => 0,
            Op::Attention { window, .. } => *window,
            other => panic!("{other:?}"),
        })
        .collect()
}

/// Whether a value of this name exists.
pub fn has(graph: &Graph, name: &str) -> bool {
    graph.nodes().flat_map(|n| graph.results(n)).any(|v| graph.name_of(v) == Some(name))
}

/// Names of the weights.
pub fn weights(family: &Family) -> Vec<&str> {
    family.weights().map(|(n, _)| n).collect()
}

/// The factors of all `MulScalar`.
pub fn factors(graph: &Graph) -> Vec<f32> {
    ops(graph)
        .iter()
        .filter_map(|op| match op {
            Op::MulScalar { value } => Some(value.get()),
            _ => None,
        })
        .collect()
}
