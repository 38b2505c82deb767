//! Every golden folder and file imports; in `u32`, which holds their weights exactly, nothing is lost; and the two roads, from
//! a folder and from a GGUF file, lead to the same tensors and settings.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests stop at the first surprise")]

mod common;

use std::path::PathBuf;

use common::{force, golden, imported, values};
use tallow_format::Encoding;

/// Golden folders, those that a Hugging Face model is in.
fn folders() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(golden(""))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.join("config.json").is_file())
        .collect();
    found.sort();
    assert!(found.len() > 40, "the goldens are missing");
    found
}

#[test]
fn every_folder_imports_exactly_and_opens_without_a_warning() {
    for folder in folders() {
        let (report, model) = imported(&folder, force(Encoding::U32));
        for tensor in &report.tensors {
            assert_eq!(tensor.relative_error, 0.0, "{}: {}", folder.display(), tensor.name);
            assert_eq!(tensor.encoding, "u32");
        }
        assert!(report.left_out.is_empty(), "{}: {:?}", folder.display(), report.left_out);
        // The folders have no tokenizer, and say so; nothing else is odd about them.
        assert_eq!(report.warnings.len(), 1, "{}: {:?}", folder.display(), report.warnings);
        assert!(report.warnings[0].contains("no tokenizer"));
        assert_eq!(model.vocab().unwrap().len(), 0);
        assert_eq!(model.tensors().len(), report.tensors.len());
        let other: Vec<_> = model.warnings().iter().filter(|w| !w.contains("program")).collect();
        assert!(other.iter().all(|w| w.contains("vocab")), "{}: {other:?}", folder.display());
    }
}

#[test]
fn auto_keeps_small_models_exact() {
    // Matrices below 4,096 values become u32 too.
    let (report, _) = imported(&golden("llama-plain"), Default::default());
    assert!(report.tensors.iter().all(|t| t.encoding == "u32"), "{report}");
}

#[test]
fn a_gguf_file_gives_the_tensors_and_settings_of_its_folder() {
    for name in [
        "cohere-plain",
        "gemma-plain",
        "gemma2-plain",
        "gemma3-linear",
        "gemma4-experts",
        "gemma4-joint-keys",
        "gemma4-shared",
        "gpt2-plain",
        "gpt_neox-plain",
        "granite-bias",
        "granite-plain",
        "llama-linear",
        "llama-llama3",
        "llama-plain",
        "mistral-null-window",
        "mixtral-plain",
        "olmo2-plain",
        "phi-plain",
        "phi3-longrope",
        "phi3-partial",
        "phi3-plain",
        "qwen2-plain",
        "qwen2_moe-plain",
        "qwen3-plain",
        "qwen3_moe-plain",
        "smollm3-plain",
        "stablelm-parallel",
        "stablelm-plain",
        "starcoder2-plain",
    ] {
        let (_, folder) = imported(&golden(name), force(Encoding::U32));
        let (_, gguf) = imported(&golden(&format!("gguf/{name}.gguf")), force(Encoding::U32));
        let names = |m: &tallow_format::ModelFile| {
            let mut all: Vec<String> = m.tensors().iter().map(|t| t.name.clone()).collect();
            all.sort();
            all
        };
        assert_eq!(names(&folder), names(&gguf), "{name}");
        for tensor in names(&folder) {
            let shape = |m: &tallow_format::ModelFile| m.tensor(&tensor).unwrap().shape.to_vec();
            assert_eq!(shape(&folder), shape(&gguf), "{name}: {tensor}");
            assert_eq!(values(&folder, &tensor), values(&gguf, &tensor), "{name}: {tensor}");
        }
        // Mistral comes under llama's name; two kinds of scaling are said in other words.
        if name == "mistral-null-window" {
            continue;
        }
        let (a, b) = (architecture(&folder), architecture(&gguf));
        for (key, value) in &a {
            let other = b.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
            match (name, key.as_str()) {
                ("llama-llama3", "rope_scaling") => {
                    assert!(other.unwrap().contains("rope_type = \"factors\", factors = [1, 3.299539, 8,"));
                }
                // Sizes of single layers, which are those of all full ones.
                ("gemma4-experts" | "gemma4-shared", "per_layer_config") => {
                    assert!(b.contains(&("global_head_dim".to_owned(), "16".to_owned())), "{name}");
                }
                ("phi3-longrope", "rope_scaling") => {
                    assert!(other.unwrap().contains("attention_factor = 1.2247449"));
                }
                _ => assert_eq!(Some(value.as_str()), other, "{name}: {key}"),
            }
        }
        assert_eq!(a.len(), b.len(), "{name}");
    }
}

/// The lines of `[architecture]`.
fn architecture(model: &tallow_format::ModelFile) -> Vec<(String, String)> {
    let text = model.config().to_text();
    let (_, rest) = text.split_once("[architecture]\n").unwrap();
    let table = rest.split("\n[").next().unwrap();
    table.lines().filter_map(|l| l.split_once(" = ")).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn setting(name: &str, key: &str) -> Option<String> {
    let (_, model) = imported(&golden(name), force(Encoding::U32));
    architecture(&model).into_iter().find(|(k, _)| k == key).map(|(_, v)| v)
}

#[test]
fn old_and_new_layouts_give_one_form() {
    for (old, new) in [
        ("llama-llama3-v4", "llama-llama3"),
        ("llama-yarn-v4", "llama-yarn"),
        ("phi3-longrope-v4", "phi3-longrope"),
        ("qwen2-plain-v4", "qwen2-plain"),
        ("qwen2-window-v4", "qwen2-window"),
        ("qwen2_moe-window-v4", "qwen2_moe-window"),
        ("qwen3_moe-plain-v4", "qwen3_moe-plain"),
        ("deepseek_v2-yarn-v4", "deepseek_v2-yarn"),
        ("deepseek_v3-yarn-v4", "deepseek_v3-yarn"),
        ("gemma3-oldkeys", "gemma3-linear"),
        ("gemma3-nosoftcap-v4", "gemma3-nosoftcap"),
        ("gemma2-plain-v4", "gemma2-plain"),
        ("phi-plain-v4", "phi-plain"),
        ("starcoder2-plain-v4", "starcoder2-plain"),
        ("stablelm-plain-v4", "stablelm-plain"),
        ("cohere-plain-v4", "cohere-plain"),
        ("gpt2-plain-v4", "gpt2-plain"),
        ("gpt_neox-plain-v4", "gpt_neox-plain"),
        ("olmo2-bias-v4", "olmo2-bias"),
    ] {
        let sorted = |name: &str| {
            let (_, model) = imported(&golden(name), force(Encoding::U32));
            let mut lines = architecture(&model);
            for (key, value) in &mut lines {
                // The keys of a scaling come in the order of the file.
                if key == "rope_scaling" {
                    let mut parts: Vec<&str> = value.trim_matches(['{', '}', ' ']).split(", ").collect();
                    parts.sort_unstable();
                    *value = parts.join(", ");
                }
            }
            lines.sort();
            lines
        };
        assert_eq!(sorted(old), sorted(new), "{old}");
    }
}

#[test]
fn missing_keys_take_the_defaults_of_the_type() {
    let is = |name: &str, key: &str, value: &str| {
        assert_eq!(setting(name, key).as_deref(), Some(value), "{name}: {key}");
    };
    is("mistral-bare", "sliding_window", "4096");
    is("mistral-null-window", "sliding_window", "0");
    is("mistral-window", "sliding_window", "6");
    is("llama-bare", "num_key_value_heads", "4");
    is("llama-bare", "rope_theta", "10000");
    is("llama-bare", "rms_norm_eps", "1000000");
    is("phi3-bare", "rms_norm_eps", "100000");
    is("smollm3-bare", "rope_theta", "2000000");
    is("gemma3-bare", "rope_theta", "10000");
    is("gemma3-bare", "rope_theta_full", "1000000");
    is("gemma-bare", "tie_word_embeddings", "true");
    is("granite-bare", "attention_multiplier", "1");
    is("phi-bare", "partial_rotary_factor", "0.5");
    is("gpt_neox-bare", "partial_rotary_factor", "0.25");
    is("gpt2-bare", "intermediate_size", "128");
    is("cohere-bare", "logit_scale", "0.0625");
    is("gemma2-bare", "attn_logit_softcapping", "50");
    is("gemma2-nosoftcap", "attn_logit_softcapping", "0");
    is("mixtral-bare", "num_experts_per_tok", "2");
    is("mixtral-bare", "rms_norm_eps", "100000");
    is("qwen2_moe-bare", "qkv_bias", "true");
    is("qwen3_moe-bare", "num_experts_per_tok", "8");
    is("deepseek_v2-plain", "q_lora_rank", "0");
    is("deepseek_v3-bare", "routed_scaling_factor", "2.5");
    assert_eq!(setting("qwen2-plain", "sliding_window"), None);
    assert_eq!(setting("qwen2-plain", "layer_types"), None);
    assert!(setting("qwen2-window", "layer_types").unwrap().contains("\"sliding\""));
    assert!(setting("gemma3-plain", "layer_types").unwrap().ends_with("\"sliding\", \"full\"]"));
}

#[test]
fn a_file_of_every_block_type_keeps_k_quants_byte_for_byte() {
    let path = golden("gguf/llama-mixed.gguf");
    let (report, model) = imported(&path, Default::default());
    let by = |source: &str| report.tensors.iter().find(|t| t.source_type == source).unwrap();
    for (source, encoding) in [("Q2_K", "q2k"), ("Q3_K", "q3k"), ("Q4_K", "q4k"), ("Q5_K", "q5k"), ("Q6_K", "q6k")] {
        let tensor = by(source);
        assert_eq!((tensor.encoding.as_str(), tensor.relative_error), (encoding, 0.0), "{source}");
        let bytes = model.tensor(&tensor.name).unwrap().bytes;
        assert_eq!(bytes.len() as u64, tensor.bytes);
    }
    for source in ["Q5_0", "Q5_1", "Q8_0"] {
        assert_eq!(by(source).encoding, "q8", "{source}");
        assert!(by(source).relative_error < 0.015);
    }
    for source in ["Q4_0", "Q4_1"] {
        let tensor = by(source);
        let fine = tensor.encoding == "q4" && tensor.relative_error < 0.02;
        assert!(fine || tensor.encoding == "q4k", "{source}: {tensor:?}");
    }
    // The same file in u32: what was measured is what is there.
    let (_, exact) = imported(&path, force(Encoding::U32));
    for tensor in report.tensors.iter().filter(|t| t.shape.len() == 2) {
        let (a, b) = (values(&exact, &tensor.name), values(&model, &tensor.name));
        let error = tallow_format::encoding::relative_rms_error(&a, &b);
        assert!((error - tensor.relative_error).abs() < 2e-4, "{}: {error}", tensor.name);
    }
}

#[test]
fn the_bytes_do_not_depend_on_the_thread_count() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("m.model");
        pool.install(|| {
            let options = tallow_import::ImportOptions::default();
            tallow_import::import(&golden("gguf/llama-mixed.gguf"), &out, &options, &mut ()).unwrap();
        });
        std::fs::read(&out).unwrap()
    };
    assert!(run(1) == run(3));
}
