//! Settings that are taken over as they are, for a program of the library or a family that knows their defaults.
//!
//! Both read what they need, under Hugging Face's names. `text_config` becomes the root of `[architecture]`,
//! another tower `x_config` the table `[architecture.x]`. TOML has no null: one that says something else than a missing key
//! is written as what it means, others are left out.

use serde_json::{Map, Value};
use tallow_frontends::families::seq2seq::GENERATION;

/// Keys of the root that say nothing about the computation.
const IDLE: &[&str] = &[
    "_name_or_path",
    "auto_map",
    "dtype",
    "id2label",
    "label2id",
    "model_type",
    "return_dict",
    "torch_dtype",
    "transformers_version",
    "use_cache",
];

/// Of the settings of generation, those that any program may read.
const TOKENS: &[&str] = &["begin_suppress_tokens", "decoder_start_token_id", "forced_decoder_ids", "suppress_tokens"];

/// Types that search for a text.
const SEARCHES: &[&str] = &["bart", "m2m_100", "marian", "mbart", "mt5", "t5", "whisper"];

/// Those of speech beside them.
const SPEECH: &[&str] = &[
    "compression_ratio_threshold",
    "condition_on_prev_tokens",
    "is_multilingual",
    "lang_to_id",
    "language",
    "logprob_threshold",
    "max_initial_timestamp_index",
    "no_speech_threshold",
    "no_timestamps_token_id",
    "return_timestamps",
    "task",
    "task_to_id",
];

/// Whether the head is the table of embeddings.
const TIED: &str = "tie_word_embeddings";

/// The `[architecture]` table of a config; `generation` holds the settings of `generation_config.json`.
pub fn table(root: &Map<String, Value>, generation: &Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    if let Some(text) = tower_of(root, "text") {
        plain(text, &mut out);
    }
    let tied = |table: &Map<String, Value>| table.get(TIED).and_then(Value::as_bool) == Some(true);
    let tied = tied(&out) || tied(root);
    plain(root, &mut out);
    if tied {
        // The head is tied if either place says so.
        out.insert(TIED.to_owned(), true.into());
    }
    for key in root.keys() {
        let Some(tower) = key.strip_suffix("_config") else { continue };
        let Some(inner) = tower_of(root, tower) else { continue };
        if matches!(tower, "text" | "quantization") {
            continue;
        }
        let mut table = Map::new();
        plain(inner, &mut table);
        if !table.is_empty() {
            out.insert(tower.to_owned(), Value::Object(table));
        }
    }
    let model_type = root.get("model_type").and_then(Value::as_str).unwrap_or_default();
    let (searches, hears) = (SEARCHES.contains(&model_type), model_type == "whisper");
    if searches && !generation.is_empty() {
        // A folder with settings of generation says there all that is not usual.
        out.retain(|key, _| !GENERATION.contains(&key.as_str()) || TOKENS.contains(&key.as_str()));
    }
    let keys = if searches { GENERATION } else { TOKENS };
    for &key in keys.iter().chain(SPEECH.iter().filter(|_| hears)) {
        if let Some(value) = generation.get(key).filter(|v| !v.is_null()) {
            out.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(Value::Array(pairs)) = out.get_mut("forced_decoder_ids") {
        // A language that is to be found out is null there.
        let parts = pairs.iter_mut().filter_map(Value::as_array_mut).flatten();
        parts.filter(|v| v.is_null()).for_each(|v| *v = (-1).into());
    }
    if let Some(labels) = labels(root) {
        out.insert("labels".to_owned(), labels);
    }
    out
}

/// The settings of a tower: those of `x_config_dict`, which old files of clip have beside `x_config`, count instead.
fn tower_of<'a>(root: &'a Map<String, Value>, tower: &str) -> Option<&'a Map<String, Value>> {
    let named = |end: &str| root.get(&format!("{tower}{end}")).and_then(Value::as_object);
    named(REPLACING).or_else(|| named("_config"))
}

/// The end of the name of a table whose settings count instead of those of `x_config`.
const REPLACING: &str = "_config_dict";

/// What is no tower and not idle.
fn plain(from: &Map<String, Value>, into: &mut Map<String, Value>) {
    for (key, value) in from {
        let tower = (key.ends_with("_config") || key.ends_with(REPLACING)) && value.is_object();
        if tower || IDLE.contains(&key.as_str()) {
            continue;
        }
        let value = if value.is_null() { null(key, from) } else { Some(value.clone()) };
        if let Some(value) = value {
            into.insert(key.clone(), value);
        }
    }
}

/// What null says under a key, where a missing key says something else.
fn null(key: &str, settings: &Map<String, Value>) -> Option<Value> {
    match key {
        "num_key_value_heads" => settings.get("num_attention_heads").cloned(),
        "sliding_window" | "q_lora_rank" | "attn_logit_softcapping" | "final_logit_softcapping" => Some(0.into()),
        _ => None,
    }
}

/// The names of classes by number, where `id2label` has all of them and they are no placeholders.
fn labels(root: &Map<String, Value>) -> Option<Value> {
    let map = root.get("id2label")?.as_object()?;
    let list: Option<Vec<Value>> =
        (0..map.len()).map(|i| map.get(&i.to_string()).filter(|v| v.is_string()).cloned()).collect();
    let list = list.filter(|l| !l.is_empty())?;
    let placeholder = list.iter().enumerate().all(|(i, v)| v.as_str() == Some(&format!("LABEL_{i}")));
    (!placeholder).then_some(Value::Array(list))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn towers_become_tables_and_the_text_the_root() {
        let root = json!({
            "model_type": "llava",
            "image_token_index": 9,
            "tie_word_embeddings": false,
            "text_config": {"hidden_size": 8, "rope_theta": null, "sliding_window": null, "tie_word_embeddings": true},
            "vision_config": {"hidden_size": 4, "model_type": "clip"},
            "id2label": {"0": "cat", "1": "dog"},
        });
        let generation = json!({"suppress_tokens": [1], "temperature": 0.5});
        let table = table(root.as_object().unwrap(), generation.as_object().unwrap());
        let expected = json!({
            "hidden_size": 8,
            "sliding_window": 0,
            "tie_word_embeddings": true,
            "image_token_index": 9,
            "vision": {"hidden_size": 4},
            "suppress_tokens": [1],
            "labels": ["cat", "dog"],
        });
        assert_eq!(Value::Object(table), expected);
    }

    #[test]
    fn a_second_table_of_a_tower_counts_instead_of_the_first() {
        let root = json!({
            "model_type": "clip",
            "text_config": {"hidden_size": 8, "vocab_size": 5},
            "text_config_dict": {"hidden_size": 16},
            "vision_config": {"hidden_size": 4},
            "vision_config_dict": null,
        });
        let table = table(root.as_object().unwrap(), &Map::new());
        assert_eq!(Value::Object(table), json!({"hidden_size": 16, "vision": {"hidden_size": 4}}));
    }

    #[test]
    fn speech_takes_more_settings_and_null_becomes_a_number() {
        let generation = json!({
            "forced_decoder_ids": [[1, null], [2, 9]],
            "lang_to_id": {"<|en|>": 3},
            "no_timestamps_token_id": 12,
            "temperature": 0.5,
        });
        let of = |kind: &str| {
            let root = json!({"model_type": kind, "forced_decoder_ids": [[1, 4]], "max_length": 448});
            Value::Object(table(root.as_object().unwrap(), generation.as_object().unwrap()))
        };
        let forced = json!([[1, -1], [2, 9]]);
        assert_eq!(
            of("whisper"),
            json!({"forced_decoder_ids": forced, "lang_to_id": {"<|en|>": 3}, "no_timestamps_token_id": 12})
        );
        assert_eq!(of("bart"), json!({"forced_decoder_ids": forced}));
    }
}
