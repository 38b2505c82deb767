//! Decoders whose files differ from llama's: other names of tensors and settings, matrices stored the other way round,
//! buffers that carry nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests stop at the first surprise")]

mod common;

use std::path::Path;

use common::{Numbers, Safe, f32s, force, imported, refused, safetensors, values};
use serde_json::{Map, Value, json};
use tallow_format::Encoding;
use tallow_import::config::defaults::spec;
use tallow_import::config::settings::architecture;

/// Sizes of a gpt2 of one layer: wide enough that its matrices are read in several stretches.
const GPT2: &str = r#"{"model_type": "gpt2", "n_embd": 64, "n_head": 2, "n_layer": 1, "n_positions": 16, "n_ctx": 16,
    "n_inner": 3000, "vocab_size": 12, "attn_pdrop": 0.1, "summary_type": "cls_index", "summary_use_proj": true}"#;

fn table(kind: &str, settings: Value) -> Map<String, Value> {
    let map = settings.as_object().unwrap();
    architecture(spec(kind).unwrap(), map, Path::new("config.json"), &[]).unwrap_or_else(|e| panic!("{e}")).table
}

/// Names and shapes of the tensors of [`GPT2`] as files have them.
fn gpt2_shapes() -> Vec<(&'static str, Vec<u64>)> {
    vec![
        ("wte.weight", vec![12, 64]),
        ("wpe.weight", vec![16, 64]),
        ("ln_f.weight", vec![64]),
        ("ln_f.bias", vec![64]),
        ("h.0.ln_1.weight", vec![64]),
        ("h.0.ln_1.bias", vec![64]),
        ("h.0.ln_2.weight", vec![64]),
        ("h.0.ln_2.bias", vec![64]),
        ("h.0.attn.c_attn.weight", vec![64, 192]),
        ("h.0.attn.c_attn.bias", vec![192]),
        ("h.0.attn.c_proj.weight", vec![64, 64]),
        ("h.0.attn.c_proj.bias", vec![64]),
        ("h.0.mlp.c_fc.weight", vec![64, 3000]),
        ("h.0.mlp.c_fc.bias", vec![3000]),
        ("h.0.mlp.c_proj.weight", vec![3000, 64]),
        ("h.0.mlp.c_proj.bias", vec![64]),
        // Buffers of old files.
        ("h.0.attn.bias", vec![1, 1, 16, 16]),
        ("h.0.attn.masked_bias", vec![1]),
    ]
}

/// Multiples of 1/128 up to 1, which BF16 and `u32` hold.
fn numbers(shape: &[u64], from: &mut Numbers) -> Vec<f32> {
    from.take(shape.iter().product::<u64>() as usize).iter().map(|x| (x * 128.0).round() / 128.0).collect()
}

/// A folder of these tensors in singles or, if `half`, in BF16; their values by name.
fn folder(at: &Path, config: &str, shapes: &[(&str, Vec<u64>)], half: bool) -> Vec<(String, Vec<f32>)> {
    let mut from = Numbers(5);
    let mut all = Vec::new();
    let tensors: Vec<Safe<'_>> = shapes
        .iter()
        .map(|(name, shape)| {
            let list = numbers(shape, &mut from);
            let data = match half {
                false => f32s(&list),
                true => list.iter().flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect(),
            };
            all.push(((*name).to_owned(), list));
            Safe { name, dtype: if half { "BF16" } else { "F32" }, shape, data }
        })
        .collect();
    std::fs::write(at.join("config.json"), config).unwrap();
    std::fs::write(at.join("model.safetensors"), safetensors(&tensors)).unwrap();
    all
}

#[test]
fn matrices_of_gpt2_are_turned_and_its_buffers_left_out() {
    for half in [false, true] {
        let at = tempfile::tempdir().unwrap();
        let all = folder(at.path(), GPT2, &gpt2_shapes(), half);
        let (report, model) = imported(at.path(), force(Encoding::U32));
        let left: Vec<_> = report.left_out.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(left, ["h.0.attn.bias", "h.0.attn.masked_bias"]);
        for ((name, shape), (_, list)) in gpt2_shapes().iter().zip(&all).filter(|((n, _), _)| !left.contains(n)) {
            let name = format!("transformer.{name}");
            let view = model.tensor(&name).unwrap_or_else(|| panic!("no tensor {name}"));
            let got = values(&model, &name);
            if !name.contains(".c_") || shape.len() == 1 {
                assert_eq!((view.shape, &got), (shape.as_slice(), list), "{name}");
                continue;
            }
            let (rows, columns) = (shape[1] as usize, shape[0] as usize);
            assert_eq!(view.shape, [rows as u64, columns as u64], "{name}");
            let turned: Vec<f32> =
                (0..rows).flat_map(|row| (0..columns).map(move |column| list[column * rows + row])).collect();
            assert!(got == turned, "{name}");
        }
        assert!(report.tensors.iter().all(|t| t.relative_error == 0.0));
    }
}

#[test]
fn gpt_neox_s_head_has_two_names_and_its_buffers_carry_nothing() {
    let config = r#"{"model_type": "gpt_neox", "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1,
        "intermediate_size": 24, "vocab_size": 12, "rotary_pct": 0.25, "rotary_emb_base": 10000, "rope_theta": 10000.0}"#;
    for (prefix, head) in [("gpt_neox.", "embed_out"), ("gpt_neox.", "lm_head"), ("", "embed_out")] {
        let layer = format!("{prefix}layers.0.");
        let mut names: Vec<(String, Vec<u64>)> = vec![
            (format!("{prefix}embed_in.weight"), vec![12, 16]),
            (format!("{head}.weight"), vec![12, 16]),
            (format!("{layer}attention.bias"), vec![1, 1, 4, 4]),
            (format!("{layer}attention.masked_bias"), vec![1]),
            (format!("{layer}attention.rotary_emb.inv_freq"), vec![1]),
        ];
        for norm in ["final_layer_norm", "layers.0.input_layernorm", "layers.0.post_attention_layernorm"] {
            names.push((format!("{prefix}{norm}.weight"), vec![16]));
            names.push((format!("{prefix}{norm}.bias"), vec![16]));
        }
        for (map, rows, columns) in [
            ("attention.query_key_value", 48, 16),
            ("attention.dense", 16, 16),
            ("mlp.dense_h_to_4h", 24, 16),
            ("mlp.dense_4h_to_h", 16, 24),
        ] {
            names.push((format!("{layer}{map}.weight"), vec![rows, columns]));
            names.push((format!("{layer}{map}.bias"), vec![rows]));
        }
        let shapes: Vec<_> = names.iter().map(|(n, s)| (n.as_str(), s.clone())).collect();
        let at = tempfile::tempdir().unwrap();
        let all = folder(at.path(), config, &shapes, false);
        let (report, model) = imported(at.path(), force(Encoding::U32));
        assert_eq!(report.left_out.len(), 3, "{:?}", report.left_out);
        assert_eq!(values(&model, "embed_out.weight"), all[1].1);
        // These are stored as they are meant.
        let map = all.iter().find(|(n, _)| n.ends_with("query_key_value.weight")).unwrap();
        assert_eq!(values(&model, "gpt_neox.layers.0.attention.query_key_value.weight"), map.1);
    }
}

#[test]
fn a_setting_under_two_names_with_two_values_is_refused() {
    let at = tempfile::tempdir().unwrap();
    let config = GPT2.replace("\"n_embd\": 64", "\"n_embd\": 64, \"hidden_size\": 32");
    folder(at.path(), &config, &gpt2_shapes(), false);
    let error = refused(at.path()).to_string();
    assert!(error.contains("`n_embd`") && error.contains("`hidden_size`") && error.contains("32"), "{error}");
    let config = GPT2.replace("\"n_embd\"", "\"hidden_size\": 64.0, \"n_embd\"");
    folder(at.path(), &config, &gpt2_shapes(), false);
    imported(at.path(), force(Encoding::U32));
}

#[test]
fn a_tensor_that_is_missing_and_a_setting_that_nothing_reads_are_named() {
    let at = tempfile::tempdir().unwrap();
    let shapes: Vec<_> = gpt2_shapes().into_iter().filter(|(n, _)| *n != "wpe.weight").collect();
    folder(at.path(), GPT2, &shapes, false);
    let error = refused(at.path()).to_string();
    assert!(error.contains("`transformer.wpe.weight` [16, 64]"), "{error}");
    for extra in ["\"add_cross_attention\": true", "\"rope_theta\": 5000.0"] {
        let config = GPT2.replace("\"n_ctx\"", &format!("{extra}, \"n_ctx\""));
        folder(at.path(), &config, &gpt2_shapes(), false);
        let error = refused(at.path());
        let key = extra.split('"').nth(1).unwrap();
        assert!(error.is_unsupported() && error.to_string().contains(key), "{error}");
    }
}

#[test]
fn each_type_has_its_own_defaults() {
    let phi = table("phi", json!({}));
    assert_eq!(phi["partial_rotary_factor"], 0.5);
    assert_eq!((phi["head_dim"].as_u64(), phi["num_key_value_heads"].as_u64()), (Some(64), Some(32)));
    let inside = json!({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25, "rope_type": "default"}});
    assert_eq!(table("phi", inside)["partial_rotary_factor"], 0.25);
    assert_eq!(table("stablelm", json!({}))["partial_rotary_factor"], 0.25);
    assert_eq!(table("gpt_neox", json!({}))["partial_rotary_factor"], 0.25);
    let cohere = table("cohere", json!({"use_qk_norm": null}));
    assert_eq!((cohere["rope_theta"].as_f64(), cohere["logit_scale"].as_f64()), (Some(5e5), Some(0.0625)));
    assert!(cohere.get("use_qk_norm").is_none() && cohere["tie_word_embeddings"] == true);
    let gpt2 = table("gpt2", json!({"intermediate_size": null}));
    assert_eq!((gpt2["intermediate_size"].as_u64(), gpt2["head_dim"].as_u64()), (Some(3072), Some(64)));
    assert!(gpt2.get("rope_theta").is_none() && gpt2.get("rope_scaling").is_none());
    let starcoder2 = table("starcoder2", json!({"residual_dropout": 0.1, "layer_types": ["full_attention"]}));
    assert!(starcoder2.get("sliding_window").is_none() && starcoder2["use_bias"] == true);
    assert_eq!(table("starcoder2", json!({"sliding_window": 9}))["sliding_window"], 9);
    assert_eq!(table("olmo2", json!({}))["rms_norm_eps"], 1e-5);
    let gemma2 = table("gemma2", json!({"num_hidden_layers": 3, "hidden_act": "gelu", "sliding_window_size": 9}));
    assert_eq!(gemma2["layer_types"], json!(["sliding", "full", "sliding"]));
    assert_eq!(gemma2["attn_logit_softcapping"], 50.0);
    // Null is no bound, and a missing key would mean one.
    let off = table("gemma2", json!({"num_hidden_layers": 1, "final_logit_softcapping": null}));
    assert_eq!(
        (off["final_logit_softcapping"].as_f64(), off["attn_logit_softcapping"].as_f64()),
        (Some(0.0), Some(50.0))
    );
}
