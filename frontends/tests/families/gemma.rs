//! gemma and gemma3.

use crate::tiny::*;
use tallow_frontends::families;
use tallow_ir::Op;

fn gemma(extra: &'static str) -> Tiny {
    Tiny { tied: true, ..Tiny::with("gemma", extra) }
}

fn gemma3(extra: &'static str) -> Tiny {
    Tiny { layers: 7, tied: true, head_norms: true, post_norms: true, ..Tiny::with("gemma3_text", extra) }
}

/// Thetas by layer.
fn thetas(tiny: &Tiny) -> Vec<f32> {
    let family = tiny.build();
    (0..tiny.layers)
        .map(|i| match op(&family.graph, &format!("layer{i}.q_rope")) {
            Op::Rope { base, .. } | Op::RopeScaled { base, .. } => base.get(),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn gemma_scales_embeddings_and_adds_one_to_norms() {
    let family = gemma("").build();
    let g = &family.graph;
    assert_eq!(factors(g), [8f32.sqrt()]);
    assert_eq!(count(g, "AddScalar"), 5);
    let norm = g.operands(value(g, "layer0.attn_norm").node);
    assert_eq!(g.name_of(norm[1]), Some("layer0.attn_norm_gain"));
    assert!(matches!(op(g, "layer0.attn"), Op::Sdpa { .. }));
    assert!(ops(g).contains(&&Op::Gelu { approximate: true }));
    assert!(!has(g, "layer0.attn_post_norm"));
    // The old files' `gelu` means the tanh form; `hidden_activation` is not read.
    let family = gemma("hidden_act = \"gelu\"\nhidden_activation = \"relu\"").build();
    assert!(ops(&family.graph).contains(&&Op::Gelu { approximate: true }));
    let error = gemma("use_bidirectional_attention = true").error();
    assert!(error.contains("architecture.use_bidirectional_attention"), "{error}");
}

#[test]
fn gemma3_has_four_norms_head_norms_and_every_sixth_layer_full() {
    let family = gemma3("sliding_window = 3").build();
    let g = &family.graph;
    assert_eq!(family.model_type, "gemma3");
    assert_eq!(windows(&family), [3, 3, 3, 3, 3, 0, 3]);
    assert_eq!(count(g, "RmsNorm"), 7 * 6 + 1);
    assert_eq!(count(g, "AddScalar"), 7 * 6 + 1);
    let sum = g.operands(value(g, "layer0.attn_residual").node);
    assert_eq!(g.name_of(sum[1]), Some("layer0.attn_post_norm"));
    let gain = |name: &str| {
        let gain = g.operands(value(g, name).node)[1];
        g.name_of(g.operands(gain.node)[0]).unwrap()
    };
    assert_eq!(gain("layer0.attn_post_norm"), "model.layers.0.post_attention_layernorm.weight");
    assert_eq!(gain("layer0.ffn_norm"), "model.layers.0.pre_feedforward_layernorm.weight");
    assert_eq!(gain("layer0.ffn_post_norm"), "model.layers.0.post_feedforward_layernorm.weight");
    // The scale is 256^-0.5 whatever the head size.
    assert!(matches!(op(g, "layer5.attn"), Op::Attention { scale, window: 0, softcap, .. }
        if scale.get() == 0.0625 && softcap.get() == 0.0));
    assert_eq!(windows(&gemma3("sliding_window_pattern = 2").build())[..3], [4096, 0, 4096]);
    let plain = gemma3("query_pre_attn_scalar = 4").build();
    assert!(matches!(op(&plain.graph, "layer5.attn"), Op::Sdpa { .. }));
}

#[test]
fn gemma3_thetas_differ_by_layer() {
    let by_layer = |sliding: f32, full: f32| {
        let mut list = vec![sliding; 7];
        list[5] = full;
        list
    };
    assert_eq!(thetas(&gemma3("")), by_layer(1e4, 1e6));
    assert_eq!(thetas(&gemma3("rope_theta = 5000\nrope_theta_full = 7000")), by_layer(5e3, 7e3));
    assert_eq!(thetas(&gemma3("rope_theta_full = 7000")), by_layer(1e4, 7e3));
    assert_eq!(thetas(&gemma3("rope_theta = 5000")), by_layer(5e3, 5e3));
    assert_eq!(thetas(&gemma3("rope_theta = 5000\nrope_local_base_freq = 70")), by_layer(70.0, 5e3));
    assert_eq!(
        thetas(&gemma3(
            "rope_parameters = { full_attention = { rope_theta = 9, rope_type = \"default\" }, sliding_attention = { rope_theta = 8 } }"
        )),
        by_layer(8.0, 9.0)
    );
    let error = gemma3("rope_theta_full = 1\nrope_local_base_freq = 2").error();
    assert!(error.contains("rope_theta_full"), "{error}");
    let error = gemma3("rope_parameters = { rope_theta = 9 }").error();
    assert!(error.contains("`architecture.rope_parameters.rope_theta`"), "{error}");
}

#[test]
fn gemma3_scaling_changes_full_layers_only() {
    let family = gemma3("rope_scaling = { rope_type = \"linear\", factor = 8.0 }").build();
    assert!(matches!(op(&family.graph, "layer0.q_rope"), Op::Rope { .. }));
    assert!(matches!(op(&family.graph, "layer5.q_rope"), Op::RopeScaled { factor, .. } if factor.get() == 8.0));
}

#[test]
fn gemma3_caps_logits_and_never_scores() {
    let family = gemma3("final_logit_softcapping = 30.0\nattn_logit_softcapping = 50.0").build();
    let g = &family.graph;
    assert_eq!(factors(g)[1..], [1.0 / 30.0, 30.0]);
    assert_eq!(count(g, "Tanh"), 1);
    assert!(matches!(op(g, "layer0.attn"), Op::Attention { softcap, .. } if softcap.get() == 0.0));
    assert!(matches!(op(g, "logits"), Op::MulScalar { .. }));
    assert_eq!(count(&gemma3("final_logit_softcapping = 0").build().graph, "Tanh"), 0);
}

#[test]
fn gemma3_reads_layer_types_and_refuses_wrong_ones() {
    let types = |list: &str| -> &'static str { format!("layer_types = {list}").leak() };
    let mut tiny = gemma3(types("[\"full\", \"sliding\", \"full_attention\"]"));
    tiny.layers = 3;
    assert_eq!(windows(&tiny.build()), [0, 4096, 0]);
    tiny.extra = types("[\"full\", \"sliding\"]");
    assert!(tiny.error().contains("`num_hidden_layers` is 3"), "{}", tiny.error());
    tiny.extra = types("[\"full\", \"sliding\", \"chunked\"]");
    let error = families::build(&tiny.config(), &tiny.shapes()).unwrap_err();
    assert!(error.is_unsupported());
    assert!(error.to_string().contains("\"chunked\" for layer 2"), "{error}");
    tiny.extra = "sliding_window = 0";
    assert!(tiny.error().contains("have no window to slide"), "{}", tiny.error());
}

#[test]
fn gemma3_both_ways_without_windows_only() {
    let error = gemma3("use_bidirectional_attention = true").error();
    assert!(error.contains("both directions"), "{error}");
    let mut tiny = gemma3("use_bidirectional_attention = true\nlayer_types = [\"full\"]");
    tiny.layers = 1;
    let family = tiny.build();
    assert_eq!(count(&family.graph, "KvCache"), 0);
    assert!(matches!(op(&family.graph, "layer0.attn"), Op::Attention { causal: false, .. }));
}

#[test]
fn hidden_act_of_gemma3_is_noted() {
    let family = gemma3("hidden_act = \"relu\"").build();
    assert!(family.notes[0].contains("`hidden_act` = \"relu\" has no effect"), "{:?}", family.notes);
    assert!(gemma3("hidden_act = \"gelu_pytorch_tanh\"").build().notes.is_empty());
}
