//! Types with experts: settings under all their names, the matrices of a layer's experts as one tensor, and what is refused.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests stop at the first surprise")]

mod common;

use std::path::Path;

use common::{Numbers, Safe, f32s, force, golden, imported, refused, safetensors, values};
use serde_json::{Map, Value, json};
use tallow_format::Encoding;
use tallow_import::config::defaults::spec;
use tallow_import::config::settings::{Architecture, architecture};
use tallow_import::{EncodingChoice, ImportError};

fn read(kind: &str, settings: Value) -> Result<Architecture, ImportError> {
    let map: Map<String, Value> = settings.as_object().unwrap().clone();
    architecture(spec(kind).unwrap(), &map, Path::new("config.json"), &[])
}

fn table(kind: &str, settings: Value) -> Map<String, Value> {
    read(kind, settings).unwrap().table
}

#[track_caller]
fn fails(kind: &str, settings: Value, parts: &[&str]) {
    let text = read(kind, settings).unwrap_err().to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn each_type_has_its_own_names_and_defaults() {
    let mixtral = table("mixtral", json!({"router_jitter_noise": 0.1, "output_router_logits": true}));
    assert_eq!(mixtral["num_local_experts"], 8);
    assert_eq!(mixtral["rope_theta"], 1_000_000.0);
    assert!(!mixtral.contains_key("sliding_window"));
    // Both names of one number.
    for key in ["num_experts", "num_local_experts"] {
        let table = table("qwen3_moe", json!({key: 16, "max_window_layers": 3}));
        assert_eq!((table["num_experts"].clone(), table.get("num_local_experts")), (16.into(), None));
    }
    fails(
        "qwen3_moe",
        json!({"num_experts": 16, "num_local_experts": 8}),
        &["num_local_experts", "the same as `num_experts`"],
    );
    fails("mixtral", json!({"num_experts": 16}), &["num_experts = 16"]);
    fails("qwen2_moe", json!({"mlp_only_layers": 3}), &["`mlp_only_layers`", "a list"]);
    // Even layers below a bound slide, and a list replaces the rule.
    let slides =
        json!({"num_hidden_layers": 4, "use_sliding_window": true, "sliding_window": 9, "max_window_layers": 3});
    assert_eq!(table("qwen2_moe", slides.clone())["layer_types"], json!(["sliding", "full", "sliding", "full"]));
    let every = table("qwen3_moe", slides);
    assert_eq!((every["sliding_window"].clone(), every.get("layer_types")), (9.into(), None));
}

#[test]
fn deepseek_says_null_where_a_rank_is_missing() {
    assert_eq!(table("deepseek_v2", json!({"q_lora_rank": null}))["q_lora_rank"], 0);
    assert_eq!(table("deepseek_v2", json!({}))["q_lora_rank"], 1536);
    assert_eq!(table("deepseek_v2", json!({"num_attention_heads": 6}))["num_key_value_heads"], 6);
    // What the reference does not read is dropped, head sizes that it derives too.
    let idle = json!({"head_dim": 64, "scoring_func": "sigmoid", "moe_layer_freq": 2, "topk_method": "noaux_tc",
                      "num_nextn_predict_layers": 1, "aux_loss_alpha": 0.001, "seq_aux": true, "ep_size": 1});
    let table = table("deepseek_v3", idle);
    for key in ["head_dim", "scoring_func", "moe_layer_freq", "topk_method", "num_nextn_predict_layers"] {
        assert!(!table.contains_key(key), "{key}");
    }
    fails("deepseek_v3", json!({"mlp_bias": true}), &["mlp_bias = true"]);
}

#[test]
fn gemma4_keeps_its_nested_tables() {
    let table = |extra: Value| {
        let mut settings = json!({"num_hidden_layers": 3});
        settings.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        table("gemma4", settings)
    };
    assert_eq!(table(json!({}))["layer_types"], json!(["sliding", "sliding", "full"]));
    assert_eq!(table(json!({"hidden_size_per_layer_input": null}))["hidden_size_per_layer_input"], 0);
    let rope = json!({"full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "factor": null},
                      "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}});
    let written = table(json!({"rope_parameters": rope}));
    assert!(written["rope_parameters"]["full_attention"].get("factor").is_none());
    let sizes = json!({"2": {"head_dim": 512, "num_key_value_heads": null}});
    assert_eq!(table(json!({"per_layer_config": sizes}))["per_layer_config"], json!({"2": {"head_dim": 512}}));
    fails("gemma4", json!({"per_layer_config": {"2": 5}}), &["`per_layer_config`", "sizes for each layer"]);
    fails("gemma4", json!({"rope_scaling": {"type": "linear", "factor": 2}}), &["`rope_scaling`", "`rope_parameters`"]);
    fails("gemma4", json!({"use_bidirectional_attention": true}), &["`use_bidirectional_attention`", "text"]);
}

/// A mixtral of one layer with four experts, of rows long enough for blocks.
fn sparse(skip: &str) -> Vec<Safe<'static>> {
    let mut n = Numbers(5);
    let mut t = |name: String, shape: &'static [u64]| Safe {
        name: Box::leak(name.into_boxed_str()),
        dtype: "F32",
        shape,
        data: f32s(&n.take(shape.iter().product::<u64>() as usize)),
    };
    let mut out = vec![
        t("model.embed_tokens.weight".into(), &[16, 1024]),
        t("lm_head.weight".into(), &[16, 1024]),
        t("model.norm.weight".into(), &[1024]),
    ];
    let layer = |part: &str| format!("model.layers.0.{part}.weight");
    for norm in ["input_layernorm", "post_attention_layernorm"] {
        out.push(t(layer(norm), &[1024]));
    }
    for (part, shape) in
        [("q", &[32, 1024]), ("k", &[32, 1024]), ("v", &[32, 1024]), ("o", &[1024, 32])] as [(&str, &[u64]); 4]
    {
        out.push(t(layer(&format!("self_attn.{part}_proj")), shape));
    }
    out.push(t(layer("block_sparse_moe.gate"), &[4, 1024]));
    // In any order.
    for expert in [2, 0, 3, 1] {
        for (part, shape) in [("w1", &[32, 1024]), ("w3", &[32, 1024]), ("w2", &[1024, 32])] as [(&str, &[u64]); 3] {
            out.push(t(layer(&format!("block_sparse_moe.experts.{expert}.{part}")), shape));
        }
    }
    out.retain(|t| skip.is_empty() || !t.name.contains(skip));
    out
}

fn folder(tensors: &[Safe<'_>]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"model_type": "mixtral", "hidden_size": 1024, "num_attention_heads": 1, "num_key_value_heads": 1,
        "head_dim": 32, "num_hidden_layers": 1, "intermediate_size": 32, "vocab_size": 16, "num_local_experts": 4});
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    std::fs::write(folder.path().join("model.safetensors"), safetensors(tensors)).unwrap();
    folder
}

#[test]
fn experts_stand_in_one_tensor_whatever_the_encoding() {
    let tensors = sparse("");
    let folder = folder(&tensors);
    for choice in [EncodingChoice::Auto, force(Encoding::U32), force(Encoding::Q4)] {
        let (report, model) = imported(folder.path(), choice);
        for part in ["w1", "w2", "w3"] {
            let stack = format!("model.layers.0.block_sparse_moe.experts.{part}.weight");
            let found = values(&model, &stack);
            let each = found.len() / 4;
            for expert in 0..4 {
                let name = format!("model.layers.0.block_sparse_moe.experts.{expert}.{part}.weight");
                let data = &tensors.iter().find(|t| t.name == name).unwrap().data;
                let wanted: Vec<f32> = data.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
                let error = tallow_format::encoding::relative_rms_error(&wanted, &found[expert * each..][..each]);
                assert!(error < 0.1, "{stack}, expert {expert}: {error}");
            }
            let line = report.tensors.iter().find(|t| t.name == stack).unwrap();
            assert_eq!((line.shape.len(), line.shape[0]), (3, 4));
        }
        // The router is not rounded unless everything is.
        let router = report.tensors.iter().find(|t| t.name.ends_with("gate.weight")).unwrap();
        let expected = if choice == force(Encoding::Q4) { "q4" } else { "u32" };
        assert_eq!(router.encoding, expected);
    }
}

#[test]
fn an_expert_that_is_missing_is_named() {
    let text = |skip: &str| refused(folder(&sparse(skip)).path()).to_string();
    let hole = text("experts.1.w3");
    assert!(hole.contains("tensor `model.layers.0.block_sparse_moe.experts.1.w3.weight`"), "{hole}");
    // Of the last one nothing tells but the number in the config.
    let last = text("experts.3.");
    assert!(last.contains("experts.w1.weight` has shape [3, 32, 1024], expected [4, 32, 1024]"), "{last}");
}

#[test]
fn shared_keys_of_gemma4_are_left_out() {
    let (report, _) = imported(&golden("gemma4-shared"), force(Encoding::U32));
    assert!(report.left_out.is_empty());
    let copy = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(golden("gemma4-shared").join(file), copy.path().join(file)).unwrap();
    }
    // A second shard with keys that no layer reads.
    let more = [Safe {
        name: "model.layers.4.self_attn.k_proj.weight",
        dtype: "F32",
        shape: &[2, 32],
        data: f32s(&Numbers(3).take(64)),
    }];
    std::fs::rename(copy.path().join("model.safetensors"), copy.path().join("model-00001-of-00002.safetensors"))
        .unwrap();
    std::fs::write(copy.path().join("model-00002-of-00002.safetensors"), safetensors(&more)).unwrap();
    let mut map = Map::new();
    for tensor in &report.tensors {
        map.insert(tensor.name.clone(), "model-00001-of-00002.safetensors".into());
    }
    map.insert(more[0].name.into(), "model-00002-of-00002.safetensors".into());
    let index = json!({"metadata": {}, "weight_map": map});
    std::fs::write(copy.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
    let (report, _) = imported(copy.path(), force(Encoding::U32));
    assert_eq!(report.left_out.len(), 1);
    assert_eq!(report.left_out[0].name, more[0].name);
}
