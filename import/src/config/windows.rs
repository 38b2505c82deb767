//! Which layers attend through a window: each type's own rule, resolved into `sliding_window` and, where layers differ,
//! `layer_types`.

use serde_json::{Map, Value};

use super::defaults::TypeSpec;
use super::settings::{Reader, count};
use crate::error::Result;

/// What `sliding_window` is where a type has a window unless told otherwise and the model has none.
pub const NO_WINDOW: u64 = 0;

/// Resolves the window keys of `table` in place.
pub(super) fn resolve(spec: &TypeSpec, table: &mut Map<String, Value>, reader: &Reader<'_>) -> Result<()> {
    let layers = count(table, "num_hidden_layers").unwrap_or(0);
    let window = count(table, "sliding_window").filter(|&w| w > 0);
    let listed = layer_types(table, reader, layers)?;
    match spec.name {
        // One window on every layer.
        "mistral" => {
            table.insert("sliding_window".into(), window.unwrap_or(NO_WINDOW).into());
        }
        "mixtral" | "phi3" | "starcoder2" => {
            table.insert("sliding_window".into(), window.map_or(Value::Null, Value::from));
        }
        // Only when `use_sliding_window` says so; then by the list or from layer `max_window_layers` on.
        "qwen2" | "qwen2_moe" | "qwen3" | "smollm3" => {
            let wanted = table.get("use_sliding_window").and_then(Value::as_bool).unwrap_or(false);
            let first = count(table, "max_window_layers").unwrap_or(0);
            let rotates: Vec<bool> = table
                .get("no_rope_layers")
                .and_then(Value::as_array)
                .map(|l| l.iter().map(|v| v.as_u64() == Some(1)).collect())
                .unwrap_or_default();
            table.remove("max_window_layers");
            let window = window.filter(|_| wanted);
            let by_rule = |n: u64| match spec.name {
                "smollm3" => !rotates.get(n as usize).copied().unwrap_or(true),
                "qwen2_moe" => n.is_multiple_of(2) && n < first,
                _ => n >= first,
            };
            let sliding: Vec<bool> = match (listed, window) {
                (Some(list), _) => list,
                (None, Some(_)) => (0..layers).map(by_rule).collect(),
                (None, None) => Vec::new(),
            };
            match window {
                Some(window) if sliding.contains(&true) => {
                    table.insert("sliding_window".into(), window.into());
                    table.insert("layer_types".into(), words(&sliding));
                }
                None if sliding.contains(&true) => {
                    return Err(reader.wrong(
                        "layer_types",
                        &words(&sliding),
                        "full attention on every layer, as `use_sliding_window` or `sliding_window` gives no window",
                    ));
                }
                _ => {
                    table.insert("use_sliding_window".into(), false.into());
                    table.insert("sliding_window".into(), Value::Null);
                    table.insert("layer_types".into(), Value::Null);
                }
            }
        }
        // On every layer or on none.
        "qwen3_moe" => {
            let wanted = table.get("use_sliding_window").and_then(Value::as_bool).unwrap_or(false);
            let window = window.filter(|_| wanted);
            table.insert("use_sliding_window".into(), window.is_some().into());
            table.insert("sliding_window".into(), window.map_or(Value::Null, Value::from));
        }
        "gemma2" | "gemma3" | "gemma4" => {
            let every = if spec.name == "gemma2" { 2 } else { count(table, "sliding_window_pattern").unwrap_or(6) };
            table.remove("sliding_window_pattern");
            let mut sliding = match (listed, window) {
                (Some(list), _) => list,
                (None, None) => vec![false; layers as usize],
                (None, Some(_)) if every == 0 => {
                    return Err(reader.wrong("sliding_window_pattern", &0.into(), "at least 1"));
                }
                (None, Some(_)) => (1..=layers).map(|n| n % every != 0).collect(),
            };
            // The last layer is full, whatever the list says.
            if let ("gemma4", Some(last)) = (spec.name, sliding.last_mut()) {
                *last = false;
            }
            if window.is_none() && sliding.contains(&true) {
                return Err(reader.wrong(
                    "layer_types",
                    &words(&sliding),
                    "full attention on every layer, as `sliding_window` gives no window",
                ));
            }
            table.insert("sliding_window".into(), window.map_or(Value::Null, Value::from));
            table.insert("layer_types".into(), words(&sliding));
        }
        _ => {}
    }
    Ok(())
}

/// The list as true where a layer slides, in both spellings.
fn layer_types(table: &Map<String, Value>, reader: &Reader<'_>, layers: u64) -> Result<Option<Vec<bool>>> {
    let Some(Value::Array(list)) = table.get("layer_types") else {
        return Ok(None);
    };
    let sliding = list
        .iter()
        .map(|v| match v.as_str()? {
            "sliding_attention" | "sliding" => Some(true),
            "full_attention" | "full" => Some(false),
            _ => None,
        })
        .collect::<Option<Vec<bool>>>()
        .filter(|l| l.len() as u64 == layers);
    match sliding {
        Some(sliding) => Ok(Some(sliding)),
        None => Err(reader.wrong(
            "layer_types",
            &Value::Array(list.clone()),
            &format!("a list of {layers} entries, each `full_attention` or `sliding_attention`"),
        )),
    }
}

fn words(sliding: &[bool]) -> Value {
    sliding.iter().map(|&s| if s { "sliding" } else { "full" }).collect::<Vec<_>>().into()
}
