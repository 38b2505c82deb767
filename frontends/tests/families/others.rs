//! Decoders that differ from llama in more than switches: phi, starcoder2, stablelm, cohere, gpt2, gpt_neox, olmo2 and
//! gemma2.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure is a failed test")]

use crate::tiny::*;
use indexmap::IndexMap;
use tallow_format::Config;
use tallow_frontends::families::{self, Family, FamilyError};
use tallow_ir::{Graph, NodeKind, Op};

/// Hidden 8, 2 heads of 4, feed-forward 16, vocabulary 12, 2 layers.
fn config(kind: &str, extra: &str) -> Config {
    let text = format!(
        "model_type = \"{kind}\"\n[architecture]\nhidden_size = 8\nnum_attention_heads = 2\nnum_hidden_layers = 2\nintermediate_size = 16\nvocab_size = 12\nmax_position_embeddings = 64\n{extra}\n"
    );
    Config::parse(&text).unwrap()
}

/// The tensors that a config asks for, by what is missing from a model without any.
fn wanted(kind: &str, extra: &str) -> IndexMap<String, Vec<u64>> {
    // Buffers that carry nothing, so that there are tensors at all.
    let none: IndexMap<_, _> = (0..4).map(|i| (format!("{i}.inv_freq"), vec![1])).collect();
    match families::build(&config(kind, extra), &none) {
        Err(FamilyError::Tensors(faults)) => faults.missing.into_iter().collect(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{kind} asks for no tensor"),
    }
}

fn built(kind: &str, extra: &str) -> Family {
    let family = families::build(&config(kind, extra), &wanted(kind, extra)).unwrap_or_else(|e| panic!("{e}"));
    assert!(tallow_ir::verify(family.graph.clone()).is_ok());
    assert!(family.notes.is_empty() && family.unread_tensors.is_empty(), "{:?}", family.notes);
    family
}

fn error(kind: &str, extra: &str) -> String {
    let none = IndexMap::<String, Vec<u64>>::new();
    families::build(&config(kind, extra), &none).map(|_| ()).unwrap_err().to_string()
}

/// The tensors of layer 0, without their prefix, sorted.
fn layer0<'a>(family: &'a Family, prefix: &str) -> Vec<&'a str> {
    let mut names: Vec<_> = weights(family).into_iter().filter_map(|n| n.strip_prefix(prefix)).collect();
    names.sort_unstable();
    names
}

/// Names of the operands of the value with this name.
fn of<'a>(graph: &'a Graph, name: &str) -> Vec<&'a str> {
    graph.operands(value(graph, name).node).iter().map(|v| graph.name_of(*v).unwrap_or_default()).collect()
}

fn rope_of(graph: &Graph) -> (u32, bool, f32) {
    match op(graph, "layer0.q_rope") {
        Op::Rope { rope_dim, base, .. } => (*rope_dim, false, base.get()),
        Op::RopeScaled { rope_dim, interleaved, base, .. } => (*rope_dim, *interleaved, base.get()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn phi_has_one_norm_for_two_branches_and_biases_everywhere() {
    let family = built("phi", "");
    let g = &family.graph;
    assert_eq!(
        layer0(&family, "model.layers.0."),
        [
            "input_layernorm.bias",
            "input_layernorm.weight",
            "mlp.fc1.bias",
            "mlp.fc1.weight",
            "mlp.fc2.bias",
            "mlp.fc2.weight",
            "self_attn.dense.bias",
            "self_attn.dense.weight",
            "self_attn.k_proj.bias",
            "self_attn.k_proj.weight",
            "self_attn.q_proj.bias",
            "self_attn.q_proj.weight",
            "self_attn.v_proj.bias",
            "self_attn.v_proj.weight",
        ]
    );
    for name in ["model.final_layernorm.bias", "lm_head.weight", "lm_head.bias"] {
        assert!(weights(&family).contains(&name), "{name}");
    }
    assert_eq!(count(g, "LayerNorm"), 3);
    assert_eq!(op(g, "layer0.attn_norm"), &Op::LayerNorm { eps: 1e-5.into() });
    assert_eq!(of(g, "layer0.attn_residual"), ["embed", "layer0.attn_out"]);
    assert_eq!(of(g, "layer0.out"), ["layer0.attn_residual", "layer0.ffn_out"]);
    // Both branches read the one norm.
    assert_eq!(g.operands(g.operands(value(g, "layer0.up").node)[0].node)[0], value(g, "layer0.attn_norm"));
    assert_eq!(op(g, "layer0.active"), &Op::Gelu { approximate: true });
    // Half of each head turns.
    assert_eq!(rope_of(g), (2, false, 1e4));
    assert_eq!(rope_of(&built("phi", "partial_rotary_factor = 1.0").graph).0, 4);
    let norms = built("phi", "qk_layernorm = true");
    let names = layer0(&norms, "model.layers.0.self_attn.q_layernorm.");
    assert_eq!(names, ["bias", "weight"]);
    assert_eq!(op(&norms.graph, "layer0.k_norm"), &Op::LayerNorm { eps: 1e-5.into() });
    assert_eq!(of(&norms.graph, "layer0.q_rope")[0], "layer0.q_norm");
}

#[test]
fn starcoder2_reads_its_own_keys() {
    let family = built("starcoder2", "sliding_window = 3\nnum_key_value_heads = 1");
    let g = &family.graph;
    assert_eq!(windows(&family), [3, 3]);
    assert_eq!(count(g, "LayerNorm"), 5);
    assert_eq!(op(g, "layer0.active"), &Op::Gelu { approximate: true });
    assert_eq!(of(g, "layer0.out"), ["layer0.attn_residual", "layer0.ffn_out"]);
    assert!(weights(&family).contains(&"model.layers.1.mlp.c_proj.bias"));
    assert!(!weights(&family).contains(&"lm_head.weight"), "the head is tied");
    let plain = built("starcoder2", "use_bias = false\nnorm_epsilon = 1000");
    let biases: Vec<_> = weights(&plain).into_iter().filter(|n| n.ends_with(".bias") && !n.contains("norm")).collect();
    assert!(biases.is_empty(), "{biases:?}");
    assert_eq!(op(&plain.graph, "final_norm"), &Op::LayerNorm { eps: 1e-3.into() });
    assert_eq!(windows(&plain), [0, 0]);
}

#[test]
fn stablelm_has_a_norm_for_each_head_and_two_arrangements() {
    let text = "partial_rotary_factor = 0.5\n";
    let family = built("stablelm", &format!("{text}use_qkv_bias = true"));
    let g = &family.graph;
    assert!(weights(&family).contains(&"model.layers.0.self_attn.v_proj.bias"));
    assert!(!weights(&family).contains(&"model.layers.0.self_attn.o_proj.bias"));
    assert_eq!(count(g, "LayerNorm"), 5);
    assert_eq!(count(g, "SwiGlu"), 2);
    assert_eq!(of(g, "layer0.ffn_norm")[0], "layer0.attn_residual");
    let heads = built("stablelm", &format!("{text}qk_layernorm = true\nnum_key_value_heads = 1"));
    assert_eq!(layer0(&heads, "model.layers.0.self_attn.q_layernorm."), ["norms.0.weight", "norms.1.weight"]);
    assert_eq!(layer0(&heads, "model.layers.0.self_attn.k_layernorm."), ["norms.0.weight"]);
    assert_eq!(of(&heads.graph, "layer0.q_norm")[1], "layer0.q_norm_gain");
    assert_eq!(rope_of(&heads.graph).0, 2);
    let side = built("stablelm", &format!("{text}use_parallel_residual = true"));
    assert!(!weights(&side).iter().any(|n| n.contains("post_attention")));
    assert_eq!(of(&side.graph, "layer0.attn_residual"), ["embed", "layer0.attn_out"]);
    assert_eq!(count(&side.graph, "LayerNorm"), 3);
    // A quarter of four lanes is one, and lanes turn in pairs.
    assert!(error("stablelm", "").contains("rotated in pairs"));
    assert!(error("stablelm", "head_dim = 8").contains("`architecture.head_dim` = 8"));
    let many = error("stablelm", &format!("{text}qk_layernorm = true"));
    assert!(many.contains("`architecture.qk_layernorm` = true") && many.contains("4 for the queries"), "{many}");
}

#[test]
fn cohere_turns_neighbours_and_scales_logits() {
    let family = built("cohere", "");
    let g = &family.graph;
    assert_eq!(rope_of(g), (4, true, 5e5));
    assert_eq!(factors(g), [0.0625]);
    assert_eq!(count(g, "LayerNorm"), 3);
    assert!(
        !weights(&family).iter().any(|n| n.ends_with("bias") || n.contains("post_attention") || *n == "lm_head.weight")
    );
    // The norm has no shift: zeros stand for it.
    let shift = g.operands(value(g, "layer0.attn_norm").node)[2];
    assert!(matches!(&g.node(shift.node).kind, NodeKind::Op(Op::Constant { values, .. }) if values[0].get() == 0.0));
    assert_eq!(of(g, "layer0.attn_residual"), ["embed", "layer0.attn_out"]);
    let norms = built("cohere", "use_qk_norm = true\nattention_bias = true\nlogit_scale = 1.0");
    let rows = value(&norms.graph, "model.layers.0.self_attn.q_norm.weight");
    assert_eq!(norms.graph.ty(rows).to_string(), "f32[2, 4]");
    assert_eq!(of(&norms.graph, "layer0.q_norm")[1], "model.layers.0.self_attn.q_norm.weight");
    assert!(weights(&norms).contains(&"model.layers.0.self_attn.o_proj.bias"));
    assert!(factors(&norms.graph).is_empty());
}

#[test]
fn gpt2_adds_learned_positions_and_turns_nothing() {
    let family = built("gpt2", "");
    let g = &family.graph;
    let prefix = "transformer.h.0.";
    let maps = layer0(&family, prefix).into_iter().filter(|n| n.ends_with("weight")).collect::<Vec<_>>();
    assert_eq!(
        maps,
        [
            "attn.c_attn.weight",
            "attn.c_proj.weight",
            "ln_1.weight",
            "ln_2.weight",
            "mlp.c_fc.weight",
            "mlp.c_proj.weight"
        ]
    );
    assert_eq!(layer0(&family, prefix).len(), 12);
    assert_eq!(g.ty(value(g, "transformer.h.0.attn.c_attn.weight")).to_string(), "f32[24, 8]");
    assert_eq!(g.ty(value(g, "transformer.wpe.weight")).to_string(), "f32[64, 8]");
    assert_eq!(of(g, "embed_with_positions"), ["embed", "learned_positions"]);
    assert_eq!(of(g, "learned_positions")[0], "positions");
    assert_eq!(count(g, "Rope") + count(g, "RopeScaled"), 0);
    assert_eq!(op(g, "layer1.attn"), &Op::Sdpa { heads: 2, kv_heads: 2, head_dim: 4, causal: true });
    assert_eq!(op(g, "layer0.active"), &Op::Gelu { approximate: true });
    // Scores of layer n are divided by n + 1, beside the usual scale or without it.
    let scales = |extra: &str| -> Vec<f32> {
        let family = built("gpt2", extra);
        let scale = |i| match op(&family.graph, &format!("layer{i}.attn")) {
            Op::Sdpa { .. } => 0.5,
            Op::Attention { scale, .. } => scale.get(),
            other => panic!("{other:?}"),
        };
        vec![scale(0), scale(1)]
    };
    assert_eq!(scales("scale_attn_by_inverse_layer_idx = true\nreorder_and_upcast_attn = true"), [0.5, 0.25]);
    assert_eq!(scales("scale_attn_weights = false"), [1.0, 1.0]);
    assert!(error("gpt2", "num_key_value_heads = 1").contains("as many as query heads, 2"));
    assert!(error("gpt2", "add_cross_attention = true").contains("`architecture.add_cross_attention`"));
    assert!(error("gpt2", "rope_theta = 10000.0").contains("`architecture.rope_theta`"));
    assert!(error("gpt2", "activation_function = \"sine\"").contains("known activations are silu"));
}

#[test]
fn gpt2_is_four_times_as_wide_where_no_key_says_otherwise() {
    let text = "model_type = \"gpt2\"\n[architecture]\nhidden_size = 8\nnum_attention_heads = 2\nnum_hidden_layers = 1\nvocab_size = 12\n";
    let none = IndexMap::<String, Vec<u64>>::new();
    let error = families::build(&Config::parse(text).unwrap(), &none).unwrap_err();
    let FamilyError::Tensors(faults) = error else { panic!() };
    let shape = |name: &str| faults.missing.iter().find(|(n, _)| n == name).unwrap().1.clone();
    assert_eq!(shape("transformer.h.0.mlp.c_fc.weight"), [32, 8]);
    assert_eq!(shape("transformer.wpe.weight"), [1024, 8]);
}

#[test]
fn gpt_neox_takes_queries_keys_and_values_head_by_head() {
    let family = built("gpt_neox", "rotary_pct = 0.5\nrotary_emb_base = 500");
    let g = &family.graph;
    assert_eq!(g.ty(value(g, "gpt_neox.layers.0.attention.query_key_value.weight")).to_string(), "f32[24, 8]");
    let split = g.operands(value(g, "layer0.v").node)[0];
    assert!(matches!(&g.node(split.node).kind, NodeKind::Op(Op::Split { axis: 2, sizes }) if sizes == &[4, 4, 4]));
    assert_eq!(split.port, 2);
    assert_eq!(g.ty(value(g, "layer0.k")).to_string(), "f32[S, 8]");
    assert_eq!(rope_of(g), (2, false, 500.0));
    assert_eq!(op(g, "layer0.active"), &Op::Gelu { approximate: false });
    // Two norms, both of what comes into the layer.
    assert_eq!(of(g, "layer0.attn_norm")[0], "embed");
    assert_eq!(of(g, "layer0.ffn_norm")[0], "embed");
    assert!(weights(&family).contains(&"embed_out.weight"));
    assert!(weights(&family).contains(&"gpt_neox.layers.1.mlp.dense_4h_to_h.bias"));
    let serial = built(
        "gpt_neox",
        "use_parallel_residual = false\nattention_bias = false\npartial_rotary_factor = 1.0\ntie_word_embeddings = true",
    );
    assert_eq!(of(&serial.graph, "layer0.ffn_norm")[0], "layer0.attn_residual");
    assert!(!weights(&serial).iter().any(|n| n.contains("attention.") && n.ends_with(".bias")));
    assert_eq!(rope_of(&serial.graph).0, 4);
    assert!(!weights(&serial).contains(&"embed_out.weight"));
    assert!(error("gpt_neox", "num_key_value_heads = 1\nrotary_pct = 1.0").contains("as many as query heads"));
}

#[test]
fn olmo2_norms_after_the_branches_and_over_all_heads() {
    let family = built("olmo2", "num_key_value_heads = 1");
    let g = &family.graph;
    let norms: Vec<_> = layer0(&family, "model.layers.0.").into_iter().filter(|n| n.contains("norm")).collect();
    assert_eq!(
        norms,
        [
            "post_attention_layernorm.weight",
            "post_feedforward_layernorm.weight",
            "self_attn.k_norm.weight",
            "self_attn.q_norm.weight"
        ]
    );
    assert_eq!(g.ty(value(g, "model.layers.0.self_attn.q_norm.weight")).to_string(), "f32[8]");
    assert_eq!(g.ty(value(g, "model.layers.0.self_attn.k_norm.weight")).to_string(), "f32[4]");
    assert_eq!(op(g, "layer0.q_norm"), &Op::RmsNorm { eps: 1e-5.into() });
    assert_eq!(of(g, "layer0.q_heads"), ["layer0.q_norm"]);
    assert_eq!(of(g, "layer0.attn_residual"), ["embed", "layer0.attn_post_norm"]);
    assert_eq!(of(g, "layer0.out"), ["layer0.attn_residual", "layer0.ffn_post_norm"]);
    assert_eq!(of(g, "layer0.q")[0], "embed");
    assert_eq!(of(g, "layer0.up")[0], "layer0.attn_residual");
}

#[test]
fn gemma2_bounds_scores_and_logits_and_slides_on_even_layers() {
    let family = built("gemma2", "head_dim = 4\nnum_key_value_heads = 1\nsliding_window = 3");
    let g = &family.graph;
    assert_eq!(windows(&family), [3, 0]);
    assert_eq!(count(g, "RmsNorm"), 2 * 4 + 1);
    assert_eq!(count(g, "AddScalar"), 2 * 4 + 1);
    assert_eq!(factors(g), [8f32.sqrt(), 1.0 / 30.0, 30.0]);
    for layer in ["layer0.attn", "layer1.attn"] {
        assert!(matches!(op(g, layer), Op::Attention { scale, softcap, .. }
            if scale.get() == 0.0625 && softcap.get() == 50.0));
    }
    assert_eq!(of(g, "layer0.attn_residual")[1], "layer0.attn_post_norm");
    let off = built(
        "gemma2",
        "head_dim = 4\nnum_key_value_heads = 1\nattn_logit_softcapping = 0\nfinal_logit_softcapping = 0\nquery_pre_attn_scalar = 4\nlayer_types = [\"full\", \"sliding\"]",
    );
    assert_eq!(windows(&off), [0, 4096]);
    assert_eq!(count(&off.graph, "Tanh"), 0);
    assert!(matches!(op(&off.graph, "layer0.attn"), Op::Sdpa { .. }));
    assert!(error("gemma2", "head_dim = 4\nuse_bidirectional_attention = true").contains("different paths"));
}

#[test]
fn settings_of_other_types_are_refused() {
    for (kind, extra) in [
        ("phi", "rms_norm_eps = 1000000"),
        ("phi", "sliding_window = 3"),
        ("starcoder2", "attention_bias = true"),
        ("cohere", "qk_layernorm = true"),
        ("olmo2", "sliding_window = 3"),
        ("gpt_neox", "mlp_bias = true\nrotary_pct = 1.0"),
        ("stablelm", "attention_bias = true\npartial_rotary_factor = 1.0"),
        ("gpt2", "n_embd = 8"),
    ] {
        let key = extra.split(' ').next().unwrap();
        let error = families::build(&config(kind, extra), &IndexMap::<String, Vec<u64>>::new()).unwrap_err();
        assert!(error.is_unsupported() && error.to_string().contains(&format!("architecture.{key}")), "{error}");
    }
}

#[test]
fn a_missing_tensor_and_one_of_another_shape_are_named() {
    let mut shapes = wanted("phi", "");
    shapes.shift_remove("lm_head.bias");
    shapes.insert("model.layers.0.mlp.fc1.weight".into(), vec![16, 9]);
    let error = families::build(&config("phi", ""), &shapes).unwrap_err().to_string();
    assert!(error.contains("`lm_head.bias` [12]"), "{error}");
    assert!(error.contains("`model.layers.0.mlp.fc1.weight` has shape [16, 9], expected [16, 8]"), "{error}");
}
