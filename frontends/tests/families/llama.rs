//! llama and the types that are llama with switches.

use crate::tiny::*;
use tallow_frontends::families;
use tallow_ir::{NodeKind, Op};

#[test]
fn llama_is_a_plain_decoder_over_the_whole_sequence() {
    let family = Tiny::new("llama").build();
    let g = &family.graph;
    let (name, logits) = g.outputs().next().unwrap();
    assert_eq!((name, g.ty(logits).to_string()), ("logits", "f32[S, 12]".into()));
    let inputs: Vec<_> = g.inputs().map(|(n, v)| format!("{n} {}", g.ty(v))).collect();
    assert_eq!(inputs, ["input_ids i64[S]", "pos i64[]"]);
    assert_eq!(count(g, "RmsNorm"), 5);
    assert_eq!(count(g, "Matmul"), 15);
    assert_eq!(count(g, "KvCache"), 2);
    assert_eq!(count(g, "SwiGlu"), 2);
    assert_eq!(count(g, "MulScalar") + count(g, "AddScalar"), 0);
    assert_eq!(op(g, "final_norm"), &Op::RmsNorm { eps: 1e-6.into() });
    assert_eq!(op(g, "layer1.attn"), &Op::Sdpa { heads: 2, kv_heads: 1, head_dim: 4, causal: true });
    let rope = Op::Rope { head_dim: 4, rope_dim: 4, base: 10_000.0.into() };
    assert_eq!(op(g, "layer0.q_rope"), &rope);
    assert_eq!(op(g, "layer0.k_rope"), &rope);
    assert_eq!(g.ty(value(g, "layer0.k_all")).to_string(), "f32[P + S, 4]");
    // What is cached is the rotated key and the raw value.
    let cache = g.operands(value(g, "layer0.k_all").node);
    assert_eq!(cache, [value(g, "layer0.k_rows"), value(g, "layer0.v")]);
    assert_eq!(weights(&family).len(), 3 + 2 * 9);
    assert!(family.notes.is_empty() && family.unread_tensors.is_empty());
    assert!(tallow_ir::verify(family.graph).is_ok());
}

#[test]
fn building_twice_gives_the_same_graph() {
    let tiny = Tiny { head_norms: true, ..Tiny::new("qwen3") };
    let print = || tallow_ir::text::print(&tiny.build().graph);
    assert_eq!(print(), print());
}

#[test]
fn keys_of_llama_change_what_they_name() {
    let family = Tiny {
        qkv_bias: true,
        out_bias: true,
        mlp_bias: true,
        ..Tiny::with(
            "llama",
            "attention_bias = true\nmlp_bias = true\nrope_theta = 500000\nrms_norm_eps = 100000\nhidden_act = \"gelu_new\"",
        )
    }
    .build();
    let g = &family.graph;
    assert_eq!(count(g, "Add"), 2 * (7 + 2));
    assert_eq!(op(g, "layer0.attn_norm"), &Op::RmsNorm { eps: 1e-5.into() });
    assert_eq!(count(g, "SwiGlu"), 0);
    assert!(ops(g).contains(&&Op::Gelu { approximate: true }));
    assert!(matches!(op(g, "layer0.q_rope"), Op::Rope { base, .. } if base.get() == 500_000.0));
    assert!(weights(&family).contains(&"model.layers.1.self_attn.o_proj.bias"));
}

#[test]
fn every_activation_has_its_operation() {
    let built = |name: &str| {
        let extra: &'static str = format!("hidden_act = \"{name}\"").leak();
        let family = Tiny::with("llama", extra).build();
        op(&family.graph, "layer0.gated").name().to_owned()
            + " "
            + &ops(&family.graph)
                .iter()
                .map(|o| o.name())
                .filter(|n| ["Gelu", "QuickGelu", "Relu", "ReluSquared"].contains(n))
                .take(1)
                .collect::<String>()
    };
    assert_eq!(built("silu"), "SwiGlu ");
    assert_eq!(built("swish"), "SwiGlu ");
    assert_eq!(built("gelu"), "GeGlu ");
    for tanh in ["gelu_new", "gelu_pytorch_tanh", "gelu_fast"] {
        assert_eq!(built(tanh), "Mul Gelu");
    }
    assert_eq!(built("quick_gelu"), "Mul QuickGelu");
    assert_eq!(built("relu"), "Mul Relu");
    assert_eq!(built("relu2"), "Mul ReluSquared");
}

#[test]
fn the_head_is_the_tensor_if_there_is_one_else_the_tied_embedding() {
    let head = |tiny: &Tiny| {
        let family = tiny.build();
        let logits = family.graph.outputs().next().unwrap().1;
        let matrix = family.graph.operands(logits.node)[1];
        family.graph.name_of(matrix).unwrap().to_owned()
    };
    assert_eq!(head(&Tiny::with("llama", "tie_word_embeddings = true")), "lm_head.weight");
    let tied = Tiny { tied: true, ..Tiny::with("llama", "tie_word_embeddings = true") };
    assert_eq!(head(&tied), "model.embed_tokens.weight");
    let smollm3 = Tiny { tied: true, ..Tiny::new("smollm3") };
    assert_eq!(head(&smollm3), "model.embed_tokens.weight");
    // Only the head is there: a tied embedding is taken from it.
    let mut shapes = Tiny::new("llama").shapes();
    shapes.shift_remove("model.embed_tokens.weight");
    let family = families::build(&tied.config(), &shapes).unwrap();
    assert!(!weights(&family).contains(&"model.embed_tokens.weight"));
}

#[test]
fn other_prefixes_of_names_are_found() {
    for prefix in ["", "language_model.model.", "model.language_model."] {
        let family = Tiny { prefix, ..Tiny::new("llama") }.build();
        assert!(weights(&family).contains(&format!("{prefix}layers.0.mlp.up_proj.weight").as_str()));
    }
}

#[test]
fn head_size_and_key_value_heads_follow_from_the_tensors_where_the_config_is_silent() {
    let config = |text: &str| tallow_format::Config::parse(text).unwrap();
    let text = "model_type = \"mistral\"\n[architecture]\nhidden_size = 8\nnum_attention_heads = 2\nnum_hidden_layers = 1\nintermediate_size = 16\nvocab_size = 12\nsliding_window = 0\n";
    let mut tiny = Tiny::new("mistral");
    tiny.layers = 1;
    let mut shapes = tiny.shapes();
    for (name, rows, columns) in [("q_proj", 32, 8), ("k_proj", 32, 8), ("v_proj", 32, 8), ("o_proj", 8, 32)] {
        let shape = vec![rows, columns];
        shapes.insert(format!("model.layers.0.self_attn.{name}.weight"), shape);
    }
    let family = families::build(&config(text), &shapes).unwrap();
    let Op::Sdpa { kv_heads, head_dim, .. } = op(&family.graph, "layer0.attn") else { panic!() };
    assert_eq!((*kv_heads, *head_dim), (2, 16));
    // qwen3 has heads of 128 unless the tensors or the config say otherwise.
    let described = families::describe(
        &config(
            "model_type = \"qwen3\"\n[architecture]\nhidden_size = 8\nnum_attention_heads = 2\nnum_hidden_layers = 1\nintermediate_size = 16\nvocab_size = 12\n",
        ),
        &indexmap::IndexMap::<String, Vec<u64>>::new(),
    );
    let families::Described::Decoder(spec) = described.unwrap() else { panic!() };
    assert_eq!(spec.attention.head_dim, 128);
}

#[test]
fn mistral_has_one_window_on_every_layer_and_4096_without_the_key() {
    let windows_with = |extra| windows(&Tiny::with("mistral", extra).build());
    assert_eq!(windows_with(""), [4096, 4096]);
    assert_eq!(windows_with("sliding_window = 3"), [3, 3]);
    assert_eq!(windows_with("sliding_window = 0"), [0, 0]);
    assert_eq!(
        windows_with("sliding_window = 3\nlayer_types = [\"full\", \"sliding\"]\nmax_window_layers = 1"),
        [3, 3]
    );
    let family = Tiny::with("mistral", "sliding_window = 3").build();
    let Op::Attention { scale, softcap, causal, .. } = op(&family.graph, "layer0.attn") else { panic!() };
    assert_eq!((scale.get(), softcap.get(), *causal), (0.5, 0.0, true));
}

#[test]
fn qwen2_has_biases_on_q_k_v_only_and_windows_when_switched_on() {
    let qwen2 = |extra| Tiny { layers: 3, qkv_bias: true, ..Tiny::with("qwen2", extra) };
    let family = qwen2("").build();
    assert_eq!(count(&family.graph, "Add"), 3 * (3 + 2));
    assert_eq!(windows(&family), [0, 0, 0]);
    assert_eq!(windows(&qwen2("sliding_window = 2\nmax_window_layers = 1").build()), [0, 0, 0]);
    assert_eq!(
        windows(&qwen2("use_sliding_window = true\nsliding_window = 2\nmax_window_layers = 1").build()),
        [0, 2, 2]
    );
    assert_eq!(windows(&qwen2("use_sliding_window = true\nmax_window_layers = 0").build()), [4096, 4096, 4096]);
    assert_eq!(
        windows(
            &qwen2("use_sliding_window = true\nsliding_window = 2\nlayer_types = [\"sliding\", \"full_attention\", \"sliding_attention\"]")
                .build()
        ),
        [2, 0, 2]
    );
    let error = qwen2("layer_types = [\"full\", \"sliding\", \"full\"]").error();
    assert!(error.contains("`use_sliding_window` is false"), "{error}");
    let error = Tiny::new("qwen2").error();
    assert!(error.contains("`model.layers.0.self_attn.q_proj.bias` [8]"), "{error}");
}

#[test]
fn qwen3_norms_each_head_before_the_rotation() {
    let family = Tiny { head_norms: true, ..Tiny::with("qwen3", "head_dim = 4") }.build();
    let g = &family.graph;
    assert_eq!(count(g, "RmsNorm"), 5 + 4);
    let rope = g.operands(value(g, "layer0.q_rope").node);
    assert_eq!(g.name_of(rope[0]), Some("layer0.q_norm"));
    assert_eq!(g.ty(rope[0]).to_string(), "f32[S, 2, 4]");
    let norm = g.operands(rope[0].node);
    assert_eq!(g.name_of(norm[1]), Some("model.layers.0.self_attn.q_norm.weight"));
    let error = Tiny::with("qwen3", "head_dim = 4").error();
    assert!(error.contains("k_norm.weight` [4]"), "{error}");
}

#[test]
fn phi3_splits_joined_projections_and_rotates_a_prefix() {
    let phi3 = |extra| Tiny { fused: true, ..Tiny::with("phi3", extra) };
    let family = phi3("partial_rotary_factor = 0.5").build();
    let g = &family.graph;
    let splits: Vec<_> = ops(g).into_iter().filter(|o| matches!(o, Op::Split { .. })).take(2).collect();
    let sizes = |list: &[u32]| Op::Split { axis: 1, sizes: list.to_vec() };
    assert_eq!(splits, [&sizes(&[8, 4, 4]), &sizes(&[16, 16])]);
    let Op::RopeScaled { head_dim, rope_dim, .. } = op(g, "layer0.q_rope") else { panic!() };
    assert_eq!((*head_dim, *rope_dim), (4, 2));
    assert_eq!(op(g, "final_norm"), &Op::RmsNorm { eps: 1e-5.into() });
    assert_eq!(windows(&family), [0, 0]);
    assert_eq!(windows(&phi3("sliding_window = 5").build()), [5, 5]);
    let gate = g.operands(value(g, "layer0.gated").node);
    assert_eq!(gate, [value(g, "layer0.gate"), value(g, "layer0.up")]);
    assert_eq!(gate[0].port, 0);
}

#[test]
fn smollm3_leaves_some_layers_unrotated_and_slides_on_those() {
    let smollm3 = |extra| Tiny { layers: 5, tied: true, ..Tiny::with("smollm3", extra) };
    let rotates = |extra| -> Vec<bool> {
        let family = smollm3(extra).build();
        (0..5).map(|i| has(&family.graph, &format!("layer{i}.k_rope"))).collect()
    };
    assert_eq!(rotates(""), [true, true, true, false, true]);
    assert_eq!(rotates("no_rope_layer_interval = 2"), [true, false, true, false, true]);
    assert_eq!(rotates("no_rope_layers = [0, 1, 1, 0, 1, 1]"), [false, true, true, false, true]);
    let family = smollm3("").build();
    assert!(matches!(op(&family.graph, "layer0.q_rope"), Op::Rope { base, .. } if base.get() == 2e6));
    // Without a rotation the projection goes to the cache as it is.
    let cache = family.graph.operands(value(&family.graph, "layer3.k_all").node);
    assert_eq!(cache[0], value(&family.graph, "layer3.k"));

    assert_eq!(windows(&smollm3("sliding_window = 3").build()), [0; 5]);
    let on = "use_sliding_window = true\nsliding_window = 3";
    assert_eq!(windows(&smollm3(on).build()), [0, 0, 0, 3, 0]);
    let error = smollm3("no_rope_layers = [1, 0]").error();
    assert!(error.contains("a list of 2") && error.contains("`num_hidden_layers` is 5"), "{error}");
    let error = smollm3("no_rope_layers = [1, 0, 2, 1, 1]").error();
    assert!(error.contains("expected 0 or 1"), "{error}");
}

#[test]
fn granite_multiplies_embedding_branches_scores_and_logits() {
    let family = Tiny::with(
        "granite",
        "embedding_multiplier = 12\nresidual_multiplier = 0.22\nattention_multiplier = 0.25\nlogits_scaling = 8",
    )
    .build();
    let g = &family.graph;
    assert_eq!(factors(g), [12.0, 0.22, 0.22, 0.22, 0.22, 0.125]);
    assert!(matches!(op(g, "embed"), Op::MulScalar { .. }));
    assert!(matches!(op(g, "layer0.attn"), Op::Attention { scale, window: 0, .. } if scale.get() == 0.25));
    // All four default to 1, the scale of scores included.
    let family = Tiny::new("granite").build();
    assert!(factors(&family.graph).is_empty());
    assert!(matches!(op(&family.graph, "layer0.attn"), Op::Attention { scale, .. } if scale.get() == 1.0));
}

#[test]
fn attention_both_ways_keeps_no_cache() {
    let family = Tiny::with("llama", "is_causal = false").build();
    assert_eq!(count(&family.graph, "KvCache"), 0);
    assert!(matches!(op(&family.graph, "layer0.attn"), Op::Sdpa { causal: false, .. }));
    let error = Tiny::with("mistral", "is_causal = false\nsliding_window = 3").error();
    assert!(error.contains("architecture.is_causal"), "{error}");
}

#[test]
fn weights_carry_their_encoding() {
    use tallow_format::{Encoding, TensorIndex};
    let tiny = Tiny::new("llama");
    let shapes = tiny.shapes();
    let (index, _) =
        TensorIndex::from_shapes(shapes.iter().map(|(n, s)| (n.as_str(), s.as_slice(), Encoding::U32))).unwrap();
    let family = families::build(&tiny.config(), &index).unwrap();
    let g = &family.graph;
    for node in g.nodes().filter(|n| matches!(g.node(*n).kind, NodeKind::Weight(_))) {
        assert_eq!(g.node(node).results[0].dtype, tallow_ir::DType::U32);
    }
    let logits = g.outputs().next().unwrap().1;
    assert_eq!(g.ty(logits).to_string(), "f32[S, 12]");
}
