//! From the settings of a source, in Hugging Face's names, to the `[architecture]` table: every key that the type reads,
//! with its value or the type's own default; and an error for any setting that would be without effect.

use std::path::Path;

use serde_json::{Map, Value};
use tallow_frontends::families::MOST_LAYERS;
use tallow_frontends::families::seq2seq::GENERATION;

use super::defaults::{Missing, TypeSpec};
use super::{rope, windows};
use crate::error::{ImportError, Result, clip, names};

/// Keys that say how a model was trained, saved or is usually called, and nothing about its mathematics.
const HARMLESS: &[&str] = &[
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_from_model_config",
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "attn_implementation",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cls_token_id",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "hidden_dropout_prob",
    "id2label",
    "init_std",
    "initializer_range",
    "is_decoder",
    "keys_to_ignore_at_inference",
    "label2id",
    "length_penalty",
    "mask_token_id",
    "max_length",
    "max_new_tokens",
    "min_length",
    "model_type",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "summary_first_dropout",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
];

/// Settings of one value that changes nothing, beside null, false and empty.
const NEUTRAL: &[(&str, Neutral)] = &[
    ("is_causal", Neutral::Bool(true)),
    ("num_experts", Neutral::Zero),
    ("num_local_experts", Neutral::Zero),
    ("expert_count", Neutral::Zero),
];

#[derive(Clone, Copy)]
enum Neutral {
    Bool(bool),
    Zero,
}

/// Whether a setting, perhaps of a tower (`vision.x`), says nothing about the mathematics.
pub(crate) fn is_harmless(key: &str) -> bool {
    let last = key.rsplit('.').next().unwrap_or(key);
    let idle = ["dropout", "initializer", "layerdrop", "_prob", "mask_"];
    HARMLESS.contains(&last) || idle.iter().any(|part| last.contains(part)) || last == "labels"
}

/// The `[architecture]` table and what to tell about it.
#[derive(Debug)]
pub struct Architecture {
    /// `model_type` as it is written.
    pub model_type: &'static str,
    /// Keys and values in the order in which they are written.
    pub table: Map<String, Value>,
    /// One sentence each.
    pub warnings: Vec<String>,
}

/// Works out the table. `source` holds the settings under Hugging Face's names; `ignore` names settings to drop although
/// nothing reads them.
pub fn architecture(
    spec: &'static TypeSpec,
    source: &Map<String, Value>,
    path: &Path,
    ignore: &[String],
) -> Result<Architecture> {
    let mut warnings = Vec::new();
    let renamed = renamed(spec, source, path)?;
    let source = renamed.as_ref().unwrap_or(source);
    refuse_quantised(source, path)?;
    refuse_unread(spec, source, path, ignore, &mut warnings)?;
    let reader = Reader { source, path };
    let mut table = Map::new();
    for &(key, default) in spec.keys {
        let value = reader.value(key, default, spec.nullable.contains(&key))?;
        table.insert(key.to_owned(), value);
    }
    derive(spec, &mut table, &reader)?;
    windows::resolve(spec, &mut table, &reader)?;
    // A type without any scaling has learned positions.
    if !spec.scalings.is_empty() {
        rope::resolve(spec, &mut table, &reader, &mut warnings)?;
    }
    table.retain(|_, v| !v.is_null());
    Ok(Architecture { model_type: spec.name, table, warnings })
}

/// Of the settings that mostly say nothing about the mathematics, those that a family or a program reads.
const READ: &[&str] =
    &["architectures", "bos_token_id", "eos_token_id", "is_decoder", "pad_token_id", "problem_type", "top_k"];

/// The table of a type whose settings are taken over as they are, less what says nothing. `ignore` names settings to drop.
pub fn taken_over(spec: &'static TypeSpec, table: &Map<String, Value>, ignore: &[String]) -> Architecture {
    let (mut table, mut warnings) = (table.clone(), Vec::new());
    for key in ignore {
        if let Some(value) = table.remove(key) {
            warnings.push(left_out(key, &value));
        }
    }
    if spec.name.starts_with("siglip") {
        // Its class writes those of another tokenizer, and nothing reads them.
        table.retain(|key, _| !matches!(key.as_str(), "bos_token_id" | "eos_token_id"));
    }
    let says = |key: &str| key == "labels" || READ.contains(&key) || GENERATION.contains(&key) || !is_harmless(key);
    table.retain(|key, _| says(key));
    // Old files spell out all settings of generation for a tower of pictures too.
    if let Some(Value::Object(tower)) = table.get_mut("vision") {
        tower.retain(|key, _| says(key));
    }
    Architecture { model_type: spec.name, table, warnings }
}

fn left_out(key: &str, value: &Value) -> String {
    format!(
        "Setting `{}` = {} has been left out, as asked; the results may differ from the original's.",
        clip(key),
        clip(&value.to_string())
    )
}

/// Keys whose values are lists.
const LISTS: &[&str] = &["layer_types", "mlp_only_layers", "no_rope_layers"];

/// Keys for which null says that something is switched off, where a missing key says something else: it is written as 0.
const OFF: &[&str] = &["hidden_size_per_layer_input", "q_lora_rank"];

/// Other names of keys, by type: the usual one is read.
const RENAMED: &[(&str, &str, &str)] = &[("qwen3_moe", "num_local_experts", "num_experts")];

/// The settings with usual names, if some have others.
fn renamed(spec: &TypeSpec, source: &Map<String, Value>, path: &Path) -> Result<Option<Map<String, Value>>> {
    let mut out = None;
    for (_, other, usual) in RENAMED.iter().filter(|(name, ..)| *name == spec.name) {
        let Some(value) = source.get(*other) else { continue };
        if source.get(*usual).is_some_and(|v| v != value) {
            let reader = Reader { source, path };
            return Err(reader.wrong(other, value, &format!("the same as `{usual}`, which it is another name for")));
        }
        let map = out.get_or_insert_with(|| source.clone());
        map.remove(*other);
        map.insert((*usual).to_owned(), value.clone());
    }
    Ok(out)
}

/// The sizes of single layers, `{"5": {"head_dim": 512}}`, where it is that.
fn layer_sizes(layers: &Map<String, Value>) -> Option<Value> {
    let sizes = |layer: &Value| -> Option<Value> {
        let known = layer.as_object()?.iter().filter(|(_, v)| !v.is_null());
        known
            .map(|(key, v)| Some((key.clone(), integer(v)?.into())))
            .collect::<Option<Map<String, Value>>>()
            .map(Value::Object)
    };
    let all = layers.iter().map(|(layer, v)| Some((layer.clone(), sizes(v)?)));
    all.collect::<Option<Map<String, Value>>>().map(Value::Object)
}

/// Typed access to the settings of a source.
pub(super) struct Reader<'a> {
    pub source: &'a Map<String, Value>,
    pub path: &'a Path,
}

impl Reader<'_> {
    fn value(&self, key: &str, default: Missing, nullable: bool) -> Result<Value> {
        let found = match self.source.get(key) {
            None => {
                return Ok(match default {
                    Missing::Int(n) => n.into(),
                    Missing::Num(x) => x.into(),
                    Missing::Bool(b) => b.into(),
                    Missing::Text(t) => t.into(),
                    Missing::Null => Value::Null,
                });
            }
            Some(Value::Null) if nullable && OFF.contains(&key) => return Ok(0.into()),
            Some(Value::Null) if nullable => return Ok(Value::Null),
            Some(found) => found,
        };
        let value = match default {
            Missing::Int(_) => integer(found).map(Value::from),
            Missing::Num(_) => found.as_f64().filter(|x| x.is_finite()).map(Value::from),
            Missing::Bool(_) => found.as_bool().map(Value::from),
            Missing::Text(_) => found.as_str().map(Value::from),
            Missing::Null => match key {
                _ if LISTS.contains(&key) => found.is_array().then(|| found.clone()),
                "final_logit_softcapping" => found.as_f64().map(Value::from),
                "per_layer_config" => found.as_object().and_then(layer_sizes),
                "use_bidirectional_attention" => found.as_str().map(Value::from),
                _ => integer(found).map(Value::from),
            },
        };
        value.ok_or_else(|| {
            let expected = match default {
                Missing::Int(_) => "an integer of at least 0",
                Missing::Num(_) => "a number",
                Missing::Bool(_) => "true or false",
                Missing::Text(_) => "text",
                Missing::Null if LISTS.contains(&key) => "a list",
                Missing::Null if key == "per_layer_config" => "a table of sizes for each layer",
                Missing::Null if key == "use_bidirectional_attention" => "text",
                Missing::Null => "a number",
            };
            self.wrong(key, found, expected)
        })
    }

    /// An error about the value of a key.
    pub fn wrong(&self, key: &str, found: &Value, expected: &str) -> ImportError {
        ImportError::malformed(
            self.path,
            format!("setting `{key}`"),
            format!("it is {}, and must be {expected}", clip(&found.to_string())),
            "Correct the model's config.",
        )
    }
}

/// A JSON number as a count: 4096 and 4096.0 alike.
pub(super) fn integer(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let x = value.as_f64()?;
        (x.fract() == 0.0 && (0.0..9e15).contains(&x)).then_some(x as u64)
    })
}

/// An integer of the table; the tables of defaults make sure that it is there.
pub(super) fn count(table: &Map<String, Value>, key: &str) -> Option<u64> {
    table.get(key).and_then(Value::as_u64)
}

fn derive(spec: &TypeSpec, table: &mut Map<String, Value>, reader: &Reader<'_>) -> Result<()> {
    for key in [
        "hidden_size",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "num_hidden_layers",
        "intermediate_size",
        "vocab_size",
        "max_position_embeddings",
    ] {
        if count(table, key) == Some(0) {
            return Err(reader.wrong(key, &0.into(), "at least 1"));
        }
    }
    let layers = count(table, "num_hidden_layers").unwrap_or(0);
    // Lists of one entry per layer are written out below.
    if layers > u64::from(MOST_LAYERS) {
        return Err(reader.wrong("num_hidden_layers", &layers.into(), &format!("at most {MOST_LAYERS}")));
    }
    let heads = count(table, "num_attention_heads").unwrap_or(1);
    let hidden = count(table, "hidden_size").unwrap_or(0);
    if table.get("num_key_value_heads").is_some_and(Value::is_null) {
        table.insert("num_key_value_heads".into(), heads.into());
    }
    if table.get("head_dim").is_some_and(Value::is_null) {
        if !hidden.is_multiple_of(heads) {
            return Err(reader.wrong(
                "hidden_size",
                &hidden.into(),
                &format!("a multiple of `num_attention_heads`, {heads}, as there is no `head_dim`"),
            ));
        }
        table.insert("head_dim".into(), (hidden / heads).into());
    }
    let kv = count(table, "num_key_value_heads").unwrap_or(1);
    if !heads.is_multiple_of(kv) {
        return Err(reader.wrong(
            "num_attention_heads",
            &heads.into(),
            &format!("a multiple of `num_key_value_heads`, {kv}"),
        ));
    }
    // Old gemma files say `gelu` and mean its tanh form; the reference reads them so.
    if spec.name == "gemma" && table.get("hidden_act").and_then(Value::as_str) == Some("gelu") {
        table.insert("hidden_act".into(), "gelu_pytorch_tanh".into());
    }
    if spec.name == "smollm3" {
        no_rope_layers(table, reader, layers)?;
    }
    if table.get("intermediate_size").is_some_and(Value::is_null) {
        table.insert("intermediate_size".into(), (4 * hidden).into());
    }
    if spec.name == "gemma2" {
        // A missing key means a bound, and 0 none.
        for key in ["attn_logit_softcapping", "final_logit_softcapping"] {
            if table.get(key).is_some_and(Value::is_null) {
                table.insert(key.into(), 0.into());
            }
        }
    }
    // Sizes by layer are in place of those of all full layers.
    if table.get("per_layer_config").is_some_and(Value::is_object) {
        for key in ["global_head_dim", "num_global_key_value_heads"] {
            table.insert(key.into(), Value::Null);
        }
    }
    // No layer named is no list.
    if table.get("mlp_only_layers").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        table.insert("mlp_only_layers".into(), Value::Null);
    }
    Ok(())
}

/// SmolLM3: one entry per layer, 1 where the layer rotates.
fn no_rope_layers(table: &mut Map<String, Value>, reader: &Reader<'_>, layers: u64) -> Result<()> {
    let every = count(table, "no_rope_layer_interval").unwrap_or(4);
    table.remove("no_rope_layer_interval");
    let list = match table.get("no_rope_layers") {
        Some(Value::Array(list)) => {
            let fits =
                list.len() as u64 == layers && list.iter().all(|v| matches!(integer(v), Some(0 | 1)) || v.is_boolean());
            if !fits {
                return Err(reader.wrong(
                    "no_rope_layers",
                    &Value::Array(list.clone()),
                    &format!("a list of {layers} ones and zeros, one per layer"),
                ));
            }
            list.iter()
                .map(|v| Value::from(u64::from(v.as_bool().unwrap_or(integer(v) == Some(1)))))
                .collect::<Vec<_>>()
        }
        _ if every == 0 => {
            return Err(reader.wrong("no_rope_layer_interval", &0.into(), "at least 1"));
        }
        _ => (1..=layers).map(|n| Value::from(u64::from(n % every != 0))).collect(),
    };
    table.insert("no_rope_layers".into(), list.into());
    Ok(())
}

/// An error for weights that are stored in a way that is not read.
pub(crate) fn refuse_quantised(source: &Map<String, Value>, path: &Path) -> Result<()> {
    if let Some(quantised) = source.get("quantization_config").filter(|v| !is_neutral("", v)) {
        let method = quantised.get("quant_method").and_then(Value::as_str).unwrap_or("unknown");
        return Err(ImportError::unsupported(
            path,
            "setting `quantization_config`",
            format!("the weights are quantised by {}, which is not read", clip(method)),
            "Take the unquantised model, or a GGUF file of it.",
        ));
    }
    Ok(())
}

fn refuse_unread(
    spec: &TypeSpec,
    source: &Map<String, Value>,
    path: &Path,
    ignore: &[String],
    warnings: &mut Vec<String>,
) -> Result<()> {
    let known = |key: &str| {
        spec.keys.iter().any(|(k, _)| *k == key)
            || spec.unread.contains(&key)
            || (rope::KEYS.contains(&key) && !spec.scalings.is_empty())
            || HARMLESS.contains(&key)
            || (spec.name == "gemma3" && key == rope::LOCAL_THETA)
    };
    let mut unread = Vec::new();
    for (key, value) in source {
        if known(key) || is_neutral(key, value) {
            continue;
        }
        if ignore.iter().any(|i| i == key) {
            warnings.push(left_out(key, value));
        } else {
            unread.push(format!("{} = {}", clip(key), clip(&value.to_string())));
        }
    }
    if unread.is_empty() {
        return Ok(());
    }
    Err(ImportError::unsupported(
        path,
        "settings",
        format!("{} say something that type `{}` does not read here", names(&unread, 8), spec.name),
        "If they change nothing in the model's results, leave them out with `--ignore-setting NAME`.",
    ))
}

fn is_neutral(key: &str, value: &Value) -> bool {
    if let Some((_, neutral)) = NEUTRAL.iter().find(|(k, _)| *k == key) {
        return match neutral {
            Neutral::Bool(b) => value.as_bool() == Some(*b) || value.is_null(),
            Neutral::Zero => integer(value) == Some(0) || value.is_null(),
        };
    }
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}
