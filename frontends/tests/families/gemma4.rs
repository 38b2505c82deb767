//! gemma4 (text).

use crate::tiny::*;
use indexmap::IndexMap;
use tallow_format::Config;
use tallow_frontends::families::{self, Family, FamilyError};
use tallow_ir::{NodeKind, Op};

/// Hidden 8, 2 heads of 4 over 1 key/value head, 8 lanes on full layers, feed-forward 6, vocabulary 12; sliding, full,
/// sliding, full.
struct Gemma4 {
    extra: String,
    per_layer: bool,
    joint: bool,
    experts: bool,
    /// Layers from which on there are no keys and values.
    shared_from: usize,
}

impl Gemma4 {
    fn new(extra: &str) -> Self {
        Gemma4 { extra: extra.into(), per_layer: true, joint: false, experts: false, shared_from: 4 }
    }

    fn shapes(&self) -> IndexMap<String, Vec<u64>> {
        let mut out = IndexMap::new();
        let mut put = |name: String, shape: &[u64]| out.insert(name, shape.to_vec());
        put("model.embed_tokens.weight".into(), &[12, 8]);
        put("model.norm.weight".into(), &[8]);
        if self.per_layer {
            put("model.embed_tokens_per_layer.weight".into(), &[12, 12]);
            put("model.per_layer_model_projection.weight".into(), &[12, 8]);
            put("model.per_layer_projection_norm.weight".into(), &[3]);
        }
        for i in 0..4 {
            let mut put = |name: &str, shape: &[u64]| put(format!("model.layers.{i}.{name}"), shape);
            let size = if i % 2 == 0 { 4 } else { 8 };
            put("self_attn.q_proj.weight", &[2 * size, 8]);
            put("self_attn.q_norm.weight", &[size]);
            put("self_attn.o_proj.weight", &[8, 2 * size]);
            if i < self.shared_from {
                put("self_attn.k_proj.weight", &[size, 8]);
                put("self_attn.k_norm.weight", &[size]);
                if i % 2 == 0 || !self.joint {
                    put("self_attn.v_proj.weight", &[size, 8]);
                }
            }
            let width = if i < self.shared_from { 6 } else { 12 };
            put("mlp.gate_proj.weight", &[width, 8]);
            put("mlp.up_proj.weight", &[width, 8]);
            put("mlp.down_proj.weight", &[8, width]);
            for norm in ["input", "post_attention", "pre_feedforward", "post_feedforward"] {
                put(&format!("{norm}_layernorm.weight"), &[8]);
            }
            put("layer_scalar", &[1]);
            if self.per_layer {
                put("per_layer_input_gate.weight", &[3, 8]);
                put("per_layer_projection.weight", &[8, 3]);
                put("post_per_layer_input_norm.weight", &[8]);
            }
            if self.experts {
                put("router.scale", &[8]);
                put("router.proj.weight", &[5, 8]);
                put("router.per_expert_scale", &[5]);
                put("experts.gate_up_proj", &[5, 14, 8]);
                put("experts.down_proj", &[5, 8, 7]);
                for norm in
                    ["post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"]
                {
                    put(&format!("{norm}.weight"), &[8]);
                }
            }
        }
        out
    }

    fn try_build(&self) -> Result<Family, FamilyError> {
        let width = if self.per_layer { 3 } else { 0 };
        let text = format!(
            "model_type = \"gemma4_text\"\n[architecture]\nhidden_size = 8\nnum_attention_heads = 2\n\
             num_key_value_heads = 1\nhead_dim = 4\nglobal_head_dim = 8\nnum_hidden_layers = 4\nintermediate_size = 6\n\
             vocab_size = 12\nvocab_size_per_layer_input = 12\nhidden_size_per_layer_input = {width}\n\
             sliding_window = 5\nlayer_types = [\"sliding\", \"full\", \"sliding\", \"sliding\"]\n{}\n",
            self.extra
        );
        families::build(&Config::parse(&text).unwrap(), &self.shapes())
    }

    fn build(&self) -> Family {
        self.try_build().unwrap_or_else(|e| panic!("{e}"))
    }

    fn error(&self) -> String {
        self.try_build().map(|_| ()).unwrap_err().to_string()
    }
}

#[test]
fn full_layers_have_heads_of_their_own_and_the_last_is_full() {
    let family = Gemma4::new("").build();
    let g = &family.graph;
    assert_eq!(family.model_type, "gemma4");
    assert!(family.unread_tensors.is_empty(), "{:?}", family.unread_tensors);
    assert_eq!(windows(&family), [5, 0, 5, 0]);
    let attention = |i: usize| match op(g, &format!("layer{i}.attn")) {
        Op::Attention { head_dim, scale, .. } => (*head_dim, scale.get()),
        other => panic!("{other:?}"),
    };
    assert_eq!([0, 1, 2, 3].map(attention), [(4, 1.0), (8, 1.0), (4, 1.0), (8, 1.0)]);
    let rope = |i: usize| op(g, &format!("layer{i}.q_rope")).clone();
    assert_eq!(rope(0), Op::Rope { head_dim: 4, rope_dim: 4, base: 1e4.into() });
    // A quarter of the pairs of the whole head.
    assert_eq!(rope(3), Op::Rope { head_dim: 8, rope_dim: 2, base: 1e6.into() });
    // Gains as they are stored, and none on values.
    assert_eq!(count(g, "AddScalar"), 0);
    let gain = g.operands(value(g, "layer0.v_norm").node)[1];
    assert!(matches!(&g.node(gain.node).kind, NodeKind::Op(Op::Constant { .. })));
    let per_layer = "per_layer_config = { 1 = { head_dim = 8 }, 3 = { head_dim = 8 } }";
    assert_eq!(Gemma4::new(per_layer).build().graph.len(), g.len());
    let other = Gemma4::new("per_layer_config = { 1 = { head_dim = 8, rank = 2 } }").error();
    assert!(other.contains("architecture.per_layer_config.1.rank"), "{other}");
}

#[test]
fn keys_serve_as_values_or_come_from_earlier_layers() {
    let joint = Gemma4 { joint: true, ..Gemma4::new("attention_k_eq_v = true\nnum_global_key_value_heads = 1") };
    let family = joint.build();
    let g = &family.graph;
    let source = |name: &str| g.operands(g.operands(value(g, name).node)[0].node)[0];
    assert_eq!(source("layer1.v_norm"), value(g, "layer1.k"), "before its norm");
    assert_eq!(source("layer0.v_norm"), value(g, "layer0.v"));
    let shared = Gemma4 { shared_from: 2, ..Gemma4::new("num_kv_shared_layers = 2\nuse_double_wide_mlp = true") };
    let family = shared.build();
    let g = &family.graph;
    assert_eq!(count(g, "KvCache"), 2);
    for (layer, from) in [(2, 0), (3, 1)] {
        let operands = g.operands(value(g, &format!("layer{layer}.attn")).node);
        assert_eq!(operands[1], value(g, &format!("layer{from}.k_all")));
    }
    let error = Gemma4::new("num_kv_shared_layers = 3").error();
    assert!(error.contains("`architecture.num_kv_shared_layers` = 3"), "{error}");
    assert!(Gemma4::new("num_kv_shared_layers = 4").error().contains("at least one"));
}

#[test]
fn experts_stand_beside_the_feed_forward() {
    let on = "enable_moe_block = true\nnum_experts = 5\ntop_k_experts = 2\nmoe_intermediate_size = 7";
    let family = Gemma4 { experts: true, per_layer: false, ..Gemma4::new(on) }.build();
    let g = &family.graph;
    assert!(family.unread_tensors.is_empty(), "{:?}", family.unread_tensors);
    assert_eq!(count(g, "ExpertMatmul"), 8);
    let sum = g.operands(value(g, "layer0.dense_and_experts").node);
    assert_eq!(g.name_of(sum[1]), Some("layer0.expert_post_norm"));
    // The router reads the residual stream.
    let router = g.operands(value(g, "layer0.router_norm").node);
    assert_eq!(router[0], value(g, "layer0.attn_residual"));
    let error = Gemma4::new("enable_moe_block = true").error();
    assert!(error.contains("`architecture.num_experts` = nothing"), "{error}");
}

#[test]
fn rotations_are_nested_and_both_must_be_there() {
    let of = |full: &str| {
        Gemma4::new(&format!(
            "rope_parameters = {{ sliding_attention = {{ rope_type = \"default\", rope_theta = 100 }}, \
             full_attention = {{ {full} }} }}"
        ))
    };
    let full = |family: &Family| op(&family.graph, "layer1.q_rope").clone();
    let plain = of("rope_type = \"proportional\", rope_theta = 1000");
    assert_eq!(full(&plain.build()), Op::Rope { head_dim: 8, rope_dim: 8, base: 1e3.into() });
    let stretched = of("rope_type = \"proportional\", rope_theta = 1000, partial_rotary_factor = 0.5, factor = 4");
    assert!(matches!(full(&stretched.build()), Op::RopeScaled { short, .. }
        if short.iter().map(|x| x.get()).collect::<Vec<_>>() == [4.0, 4.0, f32::MAX, f32::MAX]));
    let error = of("rope_type = \"yarn\", rope_theta = 1000, factor = 4").error();
    assert!(error.contains("architecture.rope_parameters.full_attention.rope_type"), "{error}");
    let error = of("rope_type = \"proportional\"").error();
    assert!(error.contains("rope_parameters.full_attention.rope_theta` = nothing"), "{error}");
    let error = Gemma4::new("rope_parameters = { full_attention = { rope_theta = 10 } }").error();
    assert!(error.contains("architecture.rope_parameters.sliding_attention"), "{error}");
    // A theta on top is not read.
    Gemma4::new("rope_theta = 7").build();
}

#[test]
fn attention_both_ways_is_refused_where_there_are_windows() {
    let error = Gemma4::new("use_bidirectional_attention = \"all\"").error();
    assert!(error.contains("`architecture.use_bidirectional_attention` = \"all\" is not supported"), "{error}");
    let vision = Gemma4::new("use_bidirectional_attention = \"vision\"").build();
    assert_eq!(windows(&vision), [5, 0, 5, 0]);
    assert!(Gemma4::new("use_bidirectional_attention = \"some\"").error().contains("expected \"all\" or \"vision\""));
}
