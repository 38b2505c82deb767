//! Settings of types that a program of the library computes, and no family: taken over as they are.
//!
//! The program reads what it needs, under Hugging Face's names. `text_config` becomes the root of `[architecture]`,
//! another tower `x_config` the table `[architecture.x]`; nulls are left out.

use serde_json::{Map, Value};

/// Keys of the root that say nothing about the computation.
const IDLE: &[&str] = &[
    "_name_or_path",
    "architectures",
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

/// Settings of generation that programs read.
const GENERATION: &[&str] =
    &["begin_suppress_tokens", "decoder_start_token_id", "forced_decoder_ids", "suppress_tokens"];

/// The `[architecture]` table of a config; `generation` holds the settings of `generation_config.json`.
pub fn table(root: &Map<String, Value>, generation: &Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    if let Some(Value::Object(text)) = root.get("text_config") {
        plain(text, &mut out);
    }
    plain(root, &mut out);
    for (key, value) in root {
        let (Some(tower), Value::Object(inner)) = (key.strip_suffix("_config"), value) else { continue };
        if matches!(tower, "text" | "quantization") {
            continue;
        }
        let mut table = Map::new();
        plain(inner, &mut table);
        if !table.is_empty() {
            out.insert(tower.to_owned(), Value::Object(table));
        }
    }
    for &key in GENERATION {
        if let Some(value) = generation.get(key).filter(|v| !v.is_null()) {
            out.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(labels) = labels(root) {
        out.insert("labels".to_owned(), labels);
    }
    out
}

/// What is no tower, null or idle.
fn plain(from: &Map<String, Value>, into: &mut Map<String, Value>) {
    for (key, value) in from {
        let tower = key.ends_with("_config") && value.is_object();
        if tower || value.is_null() || IDLE.contains(&key.as_str()) {
            continue;
        }
        into.insert(key.clone(), value.clone());
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
            "text_config": {"hidden_size": 8, "rope_theta": null},
            "vision_config": {"hidden_size": 4, "model_type": "clip"},
            "id2label": {"0": "cat", "1": "dog"},
        });
        let generation = json!({"suppress_tokens": [1], "temperature": 0.5});
        let table = table(root.as_object().unwrap(), generation.as_object().unwrap());
        let expected = json!({
            "hidden_size": 8,
            "image_token_index": 9,
            "vision": {"hidden_size": 4},
            "suppress_tokens": [1],
            "labels": ["cat", "dog"],
        });
        assert_eq!(Value::Object(table), expected);
    }
}
