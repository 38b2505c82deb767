//! Types with experts: mixtral, qwen2_moe, qwen3_moe, deepseek_v2 and deepseek_v3.

use crate::tiny::*;
use indexmap::IndexMap;
use tallow_format::Config;
use tallow_frontends::families::{self, Family, FamilyError};
use tallow_ir::Op;

/// Names and shapes.
type Shapes = Vec<(&'static str, Vec<u64>)>;

/// Hidden 8, 2 heads of 4, vocabulary 12; lines of `[architecture]` and the tensors of each layer beside the norms.
struct Sparse {
    kind: &'static str,
    layers: usize,
    extra: String,
    tensors: fn(usize) -> Shapes,
}

impl Sparse {
    fn with(self, extra: &str) -> Self {
        Sparse { extra: format!("{}\n{extra}", self.extra), ..self }
    }

    fn shapes(&self) -> IndexMap<String, Vec<u64>> {
        let mut out = IndexMap::new();
        for (name, shape) in [("model.embed_tokens", vec![12, 8]), ("model.norm", vec![8]), ("lm_head", vec![12, 8])] {
            out.insert(format!("{name}.weight"), shape);
        }
        for i in 0..self.layers {
            for (name, shape) in (self.tensors)(i) {
                out.insert(format!("model.layers.{i}.{name}"), shape);
            }
            for norm in ["input_layernorm", "post_attention_layernorm"] {
                out.insert(format!("model.layers.{i}.{norm}.weight"), vec![8]);
            }
        }
        out
    }

    fn try_with(&self, shapes: &IndexMap<String, Vec<u64>>) -> Result<Family, FamilyError> {
        let text = format!(
            "model_type = \"{}\"\n[architecture]\nhidden_size = 8\nnum_attention_heads = 2\nnum_hidden_layers = {}\nvocab_size = 12\n{}\n",
            self.kind, self.layers, self.extra
        );
        families::build(&Config::parse(&text).unwrap(), shapes)
    }

    fn build(&self) -> Family {
        self.try_with(&self.shapes()).unwrap_or_else(|e| panic!("{e}"))
    }

    fn error(&self) -> String {
        self.try_with(&self.shapes()).map(|_| ()).unwrap_err().to_string()
    }
}

fn plain_attention() -> Vec<(&'static str, Vec<u64>)> {
    vec![
        ("self_attn.q_proj.weight", vec![8, 8]),
        ("self_attn.k_proj.weight", vec![4, 8]),
        ("self_attn.v_proj.weight", vec![4, 8]),
        ("self_attn.o_proj.weight", vec![8, 8]),
    ]
}

fn dense(width: u64) -> Vec<(&'static str, Vec<u64>)> {
    vec![
        ("mlp.gate_proj.weight", vec![width, 8]),
        ("mlp.up_proj.weight", vec![width, 8]),
        ("mlp.down_proj.weight", vec![8, width]),
    ]
}

/// Six experts of width 3.
fn experts() -> Vec<(&'static str, Vec<u64>)> {
    vec![
        ("mlp.gate.weight", vec![6, 8]),
        ("mlp.experts.gate_proj.weight", vec![6, 3, 8]),
        ("mlp.experts.up_proj.weight", vec![6, 3, 8]),
        ("mlp.experts.down_proj.weight", vec![6, 8, 3]),
    ]
}

fn mixtral() -> Sparse {
    let tensors = |_| {
        let own = vec![
            ("block_sparse_moe.gate.weight", vec![6, 8]),
            ("block_sparse_moe.experts.w1.weight", vec![6, 3, 8]),
            ("block_sparse_moe.experts.w3.weight", vec![6, 3, 8]),
            ("block_sparse_moe.experts.w2.weight", vec![6, 8, 3]),
        ];
        [plain_attention(), own].concat()
    };
    let extra = "num_key_value_heads = 1\nintermediate_size = 3\nnum_local_experts = 6".into();
    Sparse { kind: "mixtral", layers: 2, extra, tensors }
}

const QWEN: &str = "num_key_value_heads = 1\nintermediate_size = 5\nnum_experts = 6\nmoe_intermediate_size = 3\n\
                    num_experts_per_tok = 2";

/// Layer 0 dense, all others with experts.
fn qwen3_moe() -> Sparse {
    let tensors = |i| {
        let norms = vec![("self_attn.q_norm.weight", vec![4]), ("self_attn.k_norm.weight", vec![4])];
        [plain_attention(), norms, if i == 0 { dense(5) } else { experts() }].concat()
    };
    Sparse { kind: "qwen3_moe", layers: 3, extra: format!("{QWEN}\nmlp_only_layers = [0]"), tensors }
}

fn qwen2_moe() -> Sparse {
    let tensors = |_| {
        let biases = ["q", "k", "v"].map(|p| match p {
            "q" => ("self_attn.q_proj.bias", vec![8]),
            "k" => ("self_attn.k_proj.bias", vec![4]),
            _ => ("self_attn.v_proj.bias", vec![4]),
        });
        let shared = vec![
            ("mlp.shared_expert.gate_proj.weight", vec![7, 8]),
            ("mlp.shared_expert.up_proj.weight", vec![7, 8]),
            ("mlp.shared_expert.down_proj.weight", vec![8, 7]),
            ("mlp.shared_expert_gate.weight", vec![1, 8]),
        ];
        [plain_attention(), biases.to_vec(), experts(), shared].concat()
    };
    let extra = format!("{QWEN}\nshared_expert_intermediate_size = 7");
    Sparse { kind: "qwen2_moe", layers: 4, extra, tensors }
}

const LATENT: &str = "num_key_value_heads = 2\nintermediate_size = 5\nq_lora_rank = 0\nkv_lora_rank = 6\n\
                      qk_nope_head_dim = 3\nqk_rope_head_dim = 2\nv_head_dim = 4\nn_routed_experts = 6\n\
                      num_experts_per_tok = 2\nmoe_intermediate_size = 3\nn_shared_experts = 2\nfirst_k_dense_replace = 1";

/// Layer 0 dense; queries from the residual stream.
fn deepseek(kind: &'static str) -> Sparse {
    let tensors = |i| {
        let attention = vec![
            ("self_attn.q_proj.weight", vec![10, 8]),
            ("self_attn.kv_a_proj_with_mqa.weight", vec![8, 8]),
            ("self_attn.kv_a_layernorm.weight", vec![6]),
            ("self_attn.kv_b_proj.weight", vec![14, 6]),
            ("self_attn.o_proj.weight", vec![8, 8]),
        ];
        let shared = vec![
            ("mlp.gate.e_score_correction_bias", vec![6]),
            ("mlp.shared_experts.gate_proj.weight", vec![6, 8]),
            ("mlp.shared_experts.up_proj.weight", vec![6, 8]),
            ("mlp.shared_experts.down_proj.weight", vec![8, 6]),
        ];
        [attention, if i == 0 { dense(5) } else { [experts(), shared].concat() }].concat()
    };
    Sparse { kind, layers: 2, extra: LATENT.into(), tensors }
}

/// Layers with experts.
fn sparse(family: &Family) -> Vec<usize> {
    let layers = (0..).take_while(|i| has(&family.graph, &format!("layer{i}.out")));
    layers.filter(|i| has(&family.graph, &format!("layer{i}.experts"))).collect()
}

#[test]
fn mixtral_renormalises_two_experts_on_every_layer() {
    let family = mixtral().build();
    let g = &family.graph;
    assert_eq!(sparse(&family), [0, 1]);
    assert_eq!(count(g, "ExpertMatmul"), 6);
    assert_eq!(op(g, "layer0.expert_scores"), &Op::Softmax { dim: -1 });
    assert_eq!(op(g, "layer0.experts"), &Op::TopK { axis: -1, k: 2 });
    assert_eq!(op(g, "layer0.expert_weights"), &Op::Div);
    assert_eq!(windows(&family), [0, 0]);
    assert_eq!(windows(&mixtral().with("sliding_window = 5").build()), [5, 5]);
    // The same file under the library's own names, with both halves in one tensor.
    let mut shapes = mixtral().shapes();
    shapes.retain(|name, _| !name.contains("block_sparse_moe"));
    for i in 0..2 {
        shapes.insert(format!("model.layers.{i}.mlp.gate.weight"), vec![6, 8]);
        shapes.insert(format!("model.layers.{i}.mlp.experts.gate_up_proj"), vec![6, 6, 8]);
        shapes.insert(format!("model.layers.{i}.mlp.experts.down_proj"), vec![6, 8, 3]);
    }
    let family = mixtral().try_with(&shapes).unwrap();
    assert_eq!(count(&family.graph, "ExpertMatmul"), 4);
    assert!(family.unread_tensors.is_empty());
}

#[test]
fn qwen_layers_have_experts_by_step_and_list() {
    let family = qwen3_moe().build();
    assert_eq!(sparse(&family), [1, 2]);
    assert!(!ops(&family.graph).contains(&&Op::Div), "not renormalised");
    let family = qwen3_moe().with("norm_topk_prob = true").build();
    assert_eq!(op(&family.graph, "layer1.expert_weights"), &Op::Div);
    let step = qwen3_moe().with("decoder_sparse_step = 3");
    assert!(step.error().contains("`model.layers.1.mlp.gate_proj.weight` [5, 8]"), "{}", step.error());
    // A window on every layer; the keys of other types are not read.
    let family = qwen3_moe().with("use_sliding_window = true\nsliding_window = 6\nmax_window_layers = 1").build();
    assert_eq!(windows(&family), [6, 6, 6]);
    let none = Sparse { tensors: |_| [plain_attention(), dense(5)].concat(), ..qwen3_moe() };
    let none = Sparse { extra: none.extra.replace("num_experts = 6", "num_experts = 0"), ..none };
    let error = none.error();
    assert!(error.contains("q_norm") && !error.contains("experts"), "{error}");
}

#[test]
fn qwen2_moe_gates_its_shared_expert() {
    let family = qwen2_moe().build();
    let g = &family.graph;
    assert_eq!(sparse(&family), [0, 1, 2, 3]);
    let sum = g.operands(value(g, "layer0.ffn_out").node);
    assert_eq!(g.name_of(sum[0]), Some("layer0.expert_out"));
    let scaled = g.operands(sum[1].node);
    assert_eq!(g.name_of(scaled[0]), Some("layer0.shared_out"));
    assert_eq!(op(g, "layer0.shared_router"), &Op::Matmul);
    let with = "use_sliding_window = true\nsliding_window = 6\nmax_window_layers = 3";
    assert_eq!(windows(&qwen2_moe().with(with).build()), [6, 0, 6, 0]);
    let error = qwen2_moe().with("qkv_bias = false").build().notes;
    assert!(error[0].contains("there are no such biases"), "{error:?}");
}

#[test]
fn deepseek_attention_is_latent() {
    let family = deepseek("deepseek_v3").with("n_group = 2\ntopk_group = 1").build();
    let g = &family.graph;
    assert_eq!(sparse(&family), [1]);
    let attention = op(g, "layer0.attn");
    assert!(
        matches!(attention, Op::Attention { heads: 2, kv_heads: 2, head_dim: 5, scale, .. }
            if scale.get() == 5f32.powf(-0.5)),
        "{attention:?}"
    );
    let turned = |family: &Family, what: &str| match op(&family.graph, &format!("layer0.{what}_rope")) {
        Op::RopeScaled { head_dim: 2, interleaved, .. } => *interleaved,
        Op::Rope { head_dim: 2, .. } => false,
        other => panic!("{other:?}"),
    };
    assert!(turned(&family, "q") && turned(&family, "k"));
    let halves = deepseek("deepseek_v3").with("n_group = 2\ntopk_group = 1\nrope_interleave = false").build();
    assert!(!turned(&halves, "q"));
    // The two norms of narrow rows have their own ε.
    assert!(matches!(op(g, "layer0.kv_narrow_norm"), Op::RmsNorm { eps } if eps.get() == 1e-6));
    // A scaled rotation changes the scale of scores twice.
    let yarn = "n_group = 2\ntopk_group = 1\nrope_scaling = { rope_type = \"yarn\", factor = 4.0, mscale = 1.0, \
                mscale_all_dim = 2.0, original_max_position_embeddings = 8 }";
    let family = deepseek("deepseek_v3").with(yarn).build();
    let expected = 5f64.powf(-0.5) * (0.2 * 4f64.ln() + 1.0).powi(2);
    assert!(matches!(op(&family.graph, "layer0.attn"), Op::Attention { scale, .. } if scale.get() == expected as f32));
    let error = deepseek("deepseek_v3").with("n_group = 2\ntopk_group = 1").with("kv_heads = 1").error();
    assert!(error.contains("architecture.kv_heads"), "{error}");
    let uneven = deepseek("deepseek_v2");
    let extra = uneven.extra.replace("num_key_value_heads = 2", "num_key_value_heads = 1");
    let error = Sparse { extra, ..uneven }.error();
    assert!(error.contains("`architecture.num_key_value_heads` = 1"), "{error}");
}

#[test]
fn deepseek_chooses_among_groups() {
    let v3 = deepseek("deepseek_v3").with("n_group = 3\ntopk_group = 2").build();
    let g = &v3.graph;
    assert_eq!(op(g, "layer1.expert_scores"), &Op::Sigmoid);
    // The correction counts for the choice alone.
    let bias = g.operands(value(g, "layer1.expert_choice").node)[1];
    assert_eq!(g.name_of(bias), Some("model.layers.1.mlp.gate.e_score_correction_bias"));
    assert!(ops(g).contains(&&Op::GatherElements { axis: 1 }));
    let tops = |family: &Family| -> Vec<u32> {
        let all = ops(&family.graph).into_iter();
        all.filter_map(|op| if let Op::TopK { k, .. } = op { Some(*k) } else { None }).collect()
    };
    assert_eq!(tops(&v3), [2, 2, 2]);
    assert_eq!(factors(g), [2.5]);
    let v2 = deepseek("deepseek_v2");
    let mut shapes = v2.shapes();
    shapes.retain(|name, _| !name.contains("correction"));
    let build = |extra: &str| deepseek("deepseek_v2").with(extra).try_with(&shapes);
    assert_eq!(tops(&build("").unwrap()), [2]);
    let grouped = "topk_method = \"group_limited_greedy\"\nn_group = 3\ntopk_group = 1";
    assert_eq!(tops(&build(grouped).unwrap()), [1, 1, 2]);
    let error = |extra: &str| build(extra).map(|_| ()).unwrap_err().to_string();
    let e = error("topk_method = \"noaux_tc\"");
    assert!(e.contains("`architecture.topk_method` = \"noaux_tc\" is not supported for `deepseek_v2`"), "{e}");
    let e = error("topk_method = \"group_limited_greedy\"");
    assert!(e.contains("`architecture.n_group` = nothing"), "{e}");
    for (extra, expected) in [
        ("n_group = 4\ntopk_group = 2", "`architecture.n_group` = 4"),
        ("n_group = 3\ntopk_group = 4", "`architecture.topk_group` = 4"),
        ("n_group = 6\ntopk_group = 1", "`architecture.num_experts_per_tok` = 2: a token can choose among 1 experts"),
    ] {
        let e = error(&format!("topk_method = \"group_limited_greedy\"\n{extra}"));
        assert!(e.contains(expected), "{extra}: {e}");
    }
}

#[test]
fn what_a_router_cannot_do_is_named() {
    let error = mixtral().with("num_experts_per_tok = 7").error();
    assert!(error.contains("`architecture.num_experts_per_tok` = 7: a token can choose among 6 experts"), "{error}");
    let error = mixtral().with("router_z = 0.5").error();
    assert!(error.contains("`architecture.router_z` is set but not read by the family of `mixtral`"), "{error}");
    let missing = Sparse { extra: LATENT.replace("num_experts_per_tok = 2", ""), ..deepseek("deepseek_v2") }.error();
    assert!(missing.contains("`architecture.num_experts_per_tok` = nothing"), "{missing}");
    let mut shapes = mixtral().shapes();
    shapes.shift_remove("model.layers.1.block_sparse_moe.experts.w3.weight");
    shapes.insert("model.layers.0.block_sparse_moe.experts.w2.weight".into(), vec![5, 8, 3]);
    let error = mixtral().try_with(&shapes).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("`model.layers.1.block_sparse_moe.experts.w3.weight` [6, 3, 8]"), "{error}");
    assert!(error.contains("experts.w2.weight` has shape [5, 8, 3], expected [6, 8, 3]"), "{error}");
}
