//! Settings of both kinds of source: what is taken over, what is refused by name, what may be left out.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests stop at the first surprise")]

mod common;

use std::path::Path;

use common::{golden, refused, refused_with, tiny_folder, tiny_llama, tiny_tensors};
use serde_json::{Map, Value, json};
use tallow_import::config::defaults::spec;
use tallow_import::config::settings::{Architecture, architecture};
use tallow_import::{EncodingChoice, ImportError, ImportOptions};

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
fn unread_settings_are_refused_by_name_all_at_once() {
    let settings =
        json!({"clip_qkv": 8.0, "new_trick": "yes", "other": null, "off": false, "none": [], "use_cache": true});
    fails("llama", settings.clone(), &["clip_qkv = 8.0", "new_trick = \"yes\"", "--ignore-setting"]);
    let error = read("llama", settings.clone()).unwrap_err();
    assert!(error.is_unsupported() && !error.to_string().contains("use_cache"));
    let map = settings.as_object().unwrap();
    let ignore = ["clip_qkv".to_owned(), "new_trick".to_owned()];
    let read = architecture(spec("llama").unwrap(), map, Path::new("c"), &ignore).unwrap();
    assert_eq!(read.warnings.len(), 2);
    assert!(read.table.get("clip_qkv").is_none());
    fails("llama", json!({"is_causal": false}), &["is_causal = false"]);
    table("llama", json!({"is_causal": true}));
    fails("gemma3", json!({"use_bidirectional_attention": true}), &["use_bidirectional_attention"]);
    fails(
        "llama",
        json!({"quantization_config": {"quant_method": "awq", "bits": 4}}),
        &["quantization_config", "awq", "GGUF"],
    );
}

#[test]
fn wrong_values_are_named_with_what_they_should_be() {
    for (settings, parts) in [
        (json!({"hidden_size": "4096"}), ["`hidden_size`", "integer"]),
        (json!({"hidden_size": null}), ["`hidden_size`", "integer"]),
        (json!({"hidden_size": -1}), ["`hidden_size`", "integer"]),
        (json!({"hidden_size": 0}), ["`hidden_size`", "at least 1"]),
        (json!({"num_hidden_layers": 1_000_000_000_000u64}), ["`num_hidden_layers`", "at most 4096"]),
        (json!({"num_attention_heads": 6, "hidden_size": 64}), ["`hidden_size`", "multiple"]),
        (json!({"num_key_value_heads": 5}), ["`num_attention_heads`", "multiple of `num_key_value_heads`, 5"]),
        (json!({"rms_norm_eps": true}), ["`rms_norm_eps`", "number"]),
        (json!({"rope_theta": 0}), ["`rope_theta`", "above 0"]),
        (json!({"rope_scaling": 3}), ["`rope_scaling`", "object"]),
        (json!({"rope_scaling": {"type": "linear"}}), ["`rope_scaling`", "`factor`"]),
        (json!({"rope_scaling": {"type": "linear", "factor": 0}}), ["factor", "above 0"]),
        (json!({"rope_scaling": {"type": "wild", "factor": 2}}), ["`wild` is not read", "linear"]),
        (json!({"rope_scaling": {"type": "linear", "factor": 2, "twist": 1}}), ["rope_scaling.twist", "does not read"]),
        (json!({"rope_parameters": {"full_attention": {}}}), ["rope_parameters", "full_attention"]),
        (
            json!({"rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [1]}}),
            ["_factor", "64 numbers"],
        ),
        (
            json!({"partial_rotary_factor": 0.5, "rope_scaling": {"type": "linear", "factor": 2}}),
            ["partial_rotary_factor", "whole heads"],
        ),
    ] {
        fails("llama", settings, &parts);
    }
    fails("qwen2", json!({"layer_types": ["full_attention"]}), &["layer_types", "32 entries"]);
    fails(
        "qwen3",
        json!({"num_hidden_layers": 1, "layer_types": ["sliding_attention"]}),
        &["layer_types", "use_sliding_window"],
    );
    fails("smollm3", json!({"no_rope_layers": [1, 2]}), &["no_rope_layers", "36 ones and zeros"]);
    fails("smollm3", json!({"no_rope_layer_interval": 0}), &["no_rope_layer_interval"]);
    fails("gemma3", json!({"sliding_window_pattern": 0}), &["sliding_window_pattern"]);
    fails("gemma", json!({"num_key_value_heads": null}), &["num_key_value_heads"]);
}

#[test]
fn each_type_has_its_own_rules() {
    let t = table("gemma", json!({"hidden_act": "gelu"}));
    assert_eq!(t["hidden_act"], "gelu_pytorch_tanh");
    assert_eq!(t["head_dim"], 256);
    let t = table("llama", json!({"num_key_value_heads": null, "hidden_size": 64, "num_attention_heads": 4}));
    assert_eq!((t["num_key_value_heads"].as_u64(), t["head_dim"].as_u64()), (Some(4), Some(16)));
    let t = table("qwen3", json!({}));
    assert_eq!(t["head_dim"], 128);
    let windows =
        json!({"num_hidden_layers": 3, "use_sliding_window": true, "max_window_layers": 1, "sliding_window": 9});
    let t = table("qwen2", windows);
    assert_eq!(t["layer_types"], json!(["full", "sliding", "sliding"]));
    assert_eq!(t["sliding_window"], 9);
    let smollm =
        json!({"num_hidden_layers": 5, "no_rope_layer_interval": 2, "use_sliding_window": true, "sliding_window": 7});
    let t = table("smollm3", smollm);
    assert_eq!(t["no_rope_layers"], json!([1, 0, 1, 0, 1]));
    assert_eq!(t["layer_types"], json!(["full", "sliding", "full", "sliding", "full"]));
    let t = table("gemma3", json!({"num_hidden_layers": 7, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}));
    assert_eq!(t["layer_types"][5], "full");
    assert_eq!(t["layer_types"][6], "sliding");
    assert_eq!((t["rope_theta"].as_f64(), t["rope_theta_full"].as_f64()), (Some(1e4), Some(1e6)));
    assert_eq!(t["rope_scaling"], json!({"rope_type": "linear", "factor": 8.0}));
    assert!(t.get("final_logit_softcapping").is_none());
    // A flat dictionary is not read by gemma 3; nested ones are.
    let nested = json!({"rope_parameters": {"full_attention": {"rope_theta": 5e5, "rope_type": "default"},
        "sliding_attention": {"rope_theta": 2e4, "rope_type": "default"}}});
    let t = table("gemma3", nested);
    assert_eq!((t["rope_theta"].as_f64(), t["rope_theta_full"].as_f64()), (Some(2e4), Some(5e5)));
    let t = table("phi3", json!({"partial_rotary_factor": 0.75}));
    assert_eq!(t["partial_rotary_factor"], 0.75);
    assert!(t.get("original_max_position_embeddings").is_none());
}

#[test]
fn the_original_length_is_found_where_each_layout_keeps_it() {
    let scaled = |extra: Value, inner: Value| {
        let mut settings = json!({"max_position_embeddings": 900});
        let mut scaling = json!({"rope_type": "yarn", "factor": 4.0});
        settings.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        scaling.as_object_mut().unwrap().extend(inner.as_object().unwrap().clone());
        settings["rope_scaling"] = scaling;
        table("llama", settings)["rope_scaling"]["original_max_position_embeddings"].as_u64()
    };
    let key = "original_max_position_embeddings";
    assert_eq!(scaled(json!({}), json!({})), Some(900));
    assert_eq!(scaled(json!({}), json!({key: 300})), Some(300));
    assert_eq!(scaled(json!({key: 200}), json!({key: 300})), Some(200));
    let su = json!({"head_dim": 4, key: 10, "rope_scaling": {"type": "su", "short_factor": [1, 1.5], "long_factor": [2, 3]}});
    let t = table("phi3", su);
    assert_eq!(t["rope_scaling"]["rope_type"], "longrope");
    assert_eq!(t["rope_scaling"][key], 10);
}

#[test]
fn unknown_types_are_refused_with_the_known_ones() {
    let folder = tempfile::tempdir().unwrap();
    tiny_folder(folder.path(), &tiny_tensors());
    let config = folder.path().join("config.json");
    std::fs::write(&config, "{\"model_type\": \"mamba\"}").unwrap();
    let error = refused(folder.path());
    assert!(error.is_unsupported());
    let text = error.to_string();
    assert!(text.contains("`mamba` is not read") && text.contains("smollm3"), "{text}");
    std::fs::write(&config, "{\"model_type\": ").unwrap();
    assert!(refused(folder.path()).to_string().contains("line 1"), "{text}");
    std::fs::write(&config, "[]").unwrap();
    refused(folder.path());
    std::fs::write(&config, "[".repeat(200_000)).unwrap();
    refused(folder.path());
}

#[test]
fn gguf_keys_that_nothing_reads_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    for (gguf, key) in [
        (tiny_llama().u32("llama.leading_dense_block_count", 8), "llama.leading_dense_block_count = 8"),
        (tiny_llama().f32("llama.attention.clamp_kqv", 8.0), "llama.attention.clamp_kqv"),
        (tiny_llama().text("llama.rope.scaling.type", "wild"), "`wild` is not read"),
        (tiny_llama().f32("llama.rope.scaling.attn_factor", 1.5), "attn_factor"),
        (tiny_llama().u32("llama.rope.dimension_count", 4), "4 of 8 lanes"),
        (tiny_llama().u32("llama.attention.value_length", 4).u32("llama.attention.key_length", 8), "value_length"),
        (tiny_llama().bool("llama.attention.causal", false), "is_causal"),
        (tiny_llama().text("general.type", "adapter"), "`adapter`"),
        (tiny_llama().text("tokenizer.ggml.model", "rwkv"), "`rwkv`"),
    ] {
        gguf.write(&path);
        let error = refused(&path);
        assert!(error.is_unsupported(), "{error}");
        assert!(error.to_string().contains(key), "{error}");
    }
    // What says nothing is no trouble, nor is what is left out on request.
    let neutral = tiny_llama().u32("llama.expert_count", 0).bool("llama.new", false).u32("llama.vocab_size", 160);
    common::imported(&neutral.write(&path), EncodingChoice::Auto);
    let path = tiny_llama().u32("llama.leading_dense_block_count", 8).write(&path);
    let options =
        ImportOptions { ignore_settings: vec!["leading_dense_block_count".into()], ..ImportOptions::default() };
    let out = folder.path().join("o.model");
    let report = tallow_import::import(&path, &out, &options, &mut ()).unwrap();
    assert!(report.warnings.iter().any(|w| w.contains("leading_dense_block_count")));
}

#[test]
fn gguf_scalings_and_windows_take_hugging_face_s_form() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let line = |gguf: common::Gguf, key: &str| {
        let (_, model) = common::imported(&gguf.write(&path), EncodingChoice::Auto);
        let text = model.config().to_text();
        let found = text.lines().find(|l| l.starts_with(&format!("{key} = "))).map(str::to_owned);
        (found.unwrap_or_default(), model.config().model_type().to_owned())
    };
    let yarn = tiny_llama()
        .text("llama.rope.scaling.type", "yarn")
        .f32("llama.rope.scaling.factor", 4.0)
        .u32("llama.rope.scaling.original_context_length", 32);
    assert_eq!(
        line(yarn, "rope_scaling").0,
        "rope_scaling = { rope_type = \"yarn\", factor = 4, original_max_position_embeddings = 32 }"
    );
    let linear = tiny_llama().f32("llama.rope.scaling.factor", 2.0);
    assert_eq!(line(linear, "rope_scaling").0, "rope_scaling = { rope_type = \"linear\", factor = 2 }");
    let none = tiny_llama().tensor("rope_freqs.weight", &[4], &[1.0; 4]);
    assert_eq!(line(none, "rope_scaling").0, "");
    let window = tiny_llama().u32("llama.attention.sliding_window", 64);
    assert_eq!(line(window, "sliding_window"), ("sliding_window = 64".into(), "mistral".into()));
    let sampling = tiny_llama().f32("general.sampling.temp", 0.7).u32("general.sampling.top_k", 20);
    assert_eq!(line(sampling.clone(), "temperature").0, "temperature = 700");
    assert_eq!(line(sampling, "top_k").0, "top_k = 20");
    for divisors in [vec![1.0, 0.0, 2.0, 3.0], vec![f32::NAN; 4], vec![-1.0; 4]] {
        let path = tiny_llama().tensor("rope_freqs.weight", &[4], &divisors).write(&path);
        assert!(refused(&path).to_string().contains("rope_freqs.weight"));
    }
    let path = tiny_llama().tensor("rope_freqs.weight", &[5], &[2.0; 5]).write(&path);
    assert!(refused(&path).to_string().contains("4 numbers"));
}

#[test]
fn a_head_is_tied_as_its_tensors_say() {
    let head = |copy: bool, tie: bool| {
        let folder = tempfile::tempdir().unwrap();
        let mut tensors = tiny_tensors();
        let mut data = tensors[0].data.clone();
        if !copy {
            data[0] ^= 1;
        }
        tensors.push(common::Safe { name: "lm_head.weight", dtype: "F32", shape: &[1024, 32], data });
        tiny_folder(folder.path(), &tensors);
        let config =
            common::TINY_CONFIG.replace("\"tie_word_embeddings\": true", &format!("\"tie_word_embeddings\": {tie}"));
        std::fs::write(folder.path().join("config.json"), config).unwrap();
        let (report, model) = common::imported(folder.path(), EncodingChoice::Auto);
        let tied = model.config().to_text().contains("tie_word_embeddings = true");
        (tied, model.tensor("lm_head.weight").is_some(), report)
    };
    let (tied, there, report) = head(true, true);
    assert!(tied && !there && report.left_out[0].name == "lm_head.weight");
    let (tied, there, report) = head(false, true);
    assert!(!tied && there && report.warnings.iter().any(|w| w.contains("differ")));
    let (tied, there, _) = head(true, false);
    assert!(!tied && there);

    // Only the head: the embedding is taken from it.
    let folder = tempfile::tempdir().unwrap();
    let mut tensors = tiny_tensors();
    tensors[0].name = "lm_head.weight";
    tiny_folder(folder.path(), &tensors);
    let (_, model) = common::imported(folder.path(), EncodingChoice::Auto);
    assert!(model.tensor("model.embed_tokens.weight").is_some());

    // Untied without a head: what is missing is named.
    let folder = tempfile::tempdir().unwrap();
    tiny_folder(folder.path(), &tiny_tensors());
    let config = common::TINY_CONFIG.replace("\"tie_word_embeddings\": true,", "");
    std::fs::write(folder.path().join("config.json"), config).unwrap();
    assert!(refused(folder.path()).to_string().contains("lm_head.weight"));
}

#[test]
fn names_without_their_prefix_and_inside_a_multimodal_file_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut tensors = tiny_tensors();
    for tensor in &mut tensors {
        tensor.name = tensor.name.strip_prefix("model.").unwrap();
    }
    tiny_folder(folder.path(), &tensors);
    let (_, model) = common::imported(folder.path(), EncodingChoice::Auto);
    assert!(model.tensor("model.layers.0.mlp.up_proj.weight").is_some());

    let source = golden("gemma3-plain");
    let folder = tempfile::tempdir().unwrap();
    let inner = std::fs::read_to_string(source.join("config.json")).unwrap();
    let config = format!(
        "{{\"model_type\": \"gemma3\", \"text_config\": {inner}, \"vision_config\": {{}}, \"image_token_index\": 9}}"
    );
    std::fs::write(folder.path().join("config.json"), config).unwrap();
    let bytes = std::fs::read(source.join("model.safetensors")).unwrap();
    let len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Map<String, Value> = serde_json::from_slice(&bytes[8..8 + len]).unwrap();
    let end = bytes.len() - 8 - len;
    header = header
        .into_iter()
        .map(|(k, v)| if k == "__metadata__" { (k, v) } else { (format!("language_model.{k}"), v) })
        .collect();
    header
        .insert("vision_tower.x.weight".into(), json!({"dtype": "F32", "shape": [1], "data_offsets": [end, end + 4]}));
    let text = serde_json::to_vec(&header).unwrap();
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.extend(text);
    out.extend(&bytes[8 + len..]);
    out.extend([0; 4]);
    std::fs::write(folder.path().join("model.safetensors"), out).unwrap();
    let (report, model) = common::imported(folder.path(), EncodingChoice::Auto);
    assert_eq!(model.config().model_type(), "gemma3");
    assert!(model.tensor("model.layers.0.self_attn.q_norm.weight").is_some());
    assert_eq!(report.left_out[0].name, "vision_tower.x.weight");
    assert!(report.warnings.iter().any(|w| w.contains("text part")));
}

#[test]
fn sources_that_are_not_here_say_what_to_do() {
    for (src, part) in [
        ("Qwen/Qwen3-0.6B", "hf download Qwen/Qwen3-0.6B"),
        ("/no/such/file.gguf", "no such file"),
        ("no-such-folder", "no such file"),
    ] {
        let text = refused(Path::new(src)).to_string();
        assert!(text.contains(part), "{text}");
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(refused(empty.path()).to_string().contains("config.json"));
    std::fs::write(empty.path().join("config.json"), common::TINY_CONFIG).unwrap();
    assert!(refused(empty.path()).to_string().contains("model.safetensors"));
    std::fs::write(empty.path().join("pytorch_model.bin"), "x").unwrap();
    let error = refused(empty.path());
    assert!(error.is_unsupported() && error.to_string().contains("pickle"), "{error}");
}

#[test]
fn a_scan_tells_changes_apart_without_reading() {
    let folder = tempfile::tempdir().unwrap();
    let path = tiny_llama().write(&folder.path().join("m.gguf"));
    let first = tallow_import::scan(&path).unwrap();
    assert_eq!(first, tallow_import::scan(&path).unwrap());
    assert_eq!(first.name, "m.gguf");
    let mut longer = std::fs::read(&path).unwrap();
    longer.push(0);
    std::fs::write(&path, longer).unwrap();
    let second = tallow_import::scan(&path).unwrap();
    assert_ne!(first.key(), second.key());
    assert!(second.key().starts_with("m.gguf-"));
    let folder = tallow_import::scan(&golden("llama-sharded")).unwrap();
    let shard = tallow_import::scan(&golden("llama-sharded").join("model-00001-of-00002.safetensors")).unwrap();
    assert_eq!(folder.size, shard.size);
    assert_ne!(folder.key(), shard.key());
    assert!(tallow_import::scan(Path::new("a/b")).is_err());
}

#[test]
fn a_dry_run_writes_nothing_and_reports_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("o.model");
    let src = golden("gguf/llama-mixed.gguf");
    let options = ImportOptions { dry_run: true, ..ImportOptions::default() };
    let dry = tallow_import::import(&src, &out, &options, &mut ()).unwrap();
    assert!(dry.output.is_none() && !out.exists());
    let wet = tallow_import::import(&src, &out, &ImportOptions::default(), &mut ()).unwrap();
    assert_eq!(serde_json::to_value(&dry.tensors).unwrap(), serde_json::to_value(&wet.tensors).unwrap());
    // A second import replaces the first; a failed one leaves it alone.
    let before = std::fs::read(&out).unwrap();
    let broken = tiny_llama().u32("llama.leading_dense_block_count", 8).write(&folder.path().join("m.gguf"));
    tallow_import::import(&broken, &out, &ImportOptions::default(), &mut ()).unwrap_err();
    assert_eq!(std::fs::read(&out).unwrap(), before);
    let _ = refused_with(&broken, &options);
}
