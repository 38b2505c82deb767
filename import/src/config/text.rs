//! Writes the `config` section as TOML.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use tallow_format::toml_text::quoted;

use super::settings::Architecture;
use super::{Ids, SourceConfig};
use crate::tokenizer::TokenizerText;

/// The text of the section. `parameters` counts the values of all tensors.
pub fn config_text(
    source: &SourceConfig,
    architecture: &Architecture,
    tokenizer: Option<&TokenizerText>,
    ids: &Ids,
    parameters: u64,
) -> (String, Vec<String>) {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!("model_type = {}", quoted(architecture.model_type)));
    line(format!("parameters = {parameters}"));
    if let Some(license) = &source.license {
        line(format!("license = {}", quoted(license)));
    }
    if !source.languages.is_empty() {
        let list: Vec<String> = source.languages.iter().map(|l| quoted(l)).collect();
        line(format!("languages = [{}]", list.join(", ")));
    }
    line(String::new());
    line("[architecture]".into());
    // The tables of other towers stand apart; those of single settings, as of rotary scaling, do not.
    let apart = |value: &Value| source.towers.is_some() && value.is_object();
    for (key, value) in architecture.table.iter().filter(|(_, v)| !apart(v)) {
        line(format!("{key} = {}", toml(key, value)));
    }
    for (tower, value) in architecture.table.iter().filter(|(_, v)| apart(v)) {
        line(String::new());
        line(format!("[architecture.{tower}]"));
        for (key, value) in value.as_object().into_iter().flatten() {
            line(format!("{} = {}", quoted_key(key), toml(key, value)));
        }
    }
    line(String::new());
    line("[tokenizer]".into());
    if let Some(tokenizer) = tokenizer {
        for (key, value) in &tokenizer.settings {
            line(format!("{key} = {}", toml(key, value)));
        }
    }
    if let Some(bos) = ids.bos {
        line(format!("bos_token_id = {bos}"));
    }
    if !ids.eos.is_empty() {
        let list: Vec<String> = ids.eos.iter().map(u32::to_string).collect();
        line(format!("eos_token_ids = [{}]", list.join(", ")));
    }
    if let Some(pad) = ids.pad {
        line(format!("pad_token_id = {pad}"));
    }
    if let Some(unk) = ids.unk {
        line(format!("unk_token_id = {unk}"));
    }
    line(String::new());
    line("[sampling]".into());
    let (lines, warnings) = source.sampling.lines();
    for (key, value) in lines {
        line(format!("{key} = {value}"));
    }
    line(String::new());
    line("[lineage]".into());
    for (key, value) in &source.lineage {
        line(format!("{key} = {}", quoted(value)));
    }
    (out, warnings)
}

/// A key as TOML wants it.
fn quoted_key(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if bare { key.to_owned() } else { quoted(key) }
}

/// A setting as a TOML value. ε is written as the integer 1/ε where that is exact; whole numbers are integers.
pub(crate) fn toml(key: &str, value: &Value) -> String {
    match value {
        Value::Null => "\"\"".into(),
        Value::Bool(b) => b.to_string(),
        Value::String(text) => quoted(text),
        Value::Number(number) => {
            let x = number.as_f64().unwrap_or(0.0);
            if key.ends_with("_eps") || key.ends_with("_epsilon") {
                return epsilon(x);
            }
            match number.as_i64() {
                Some(n) => n.to_string(),
                None => float(x),
            }
        }
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(|v| toml("", v)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => table(map),
    }
}

fn table(map: &Map<String, Value>) -> String {
    let items: Vec<String> = map.iter().map(|(k, v)| format!("{} = {}", quoted_key(k), toml(k, v))).collect();
    format!("{{ {} }}", items.join(", "))
}

fn float(x: f64) -> String {
    if x.fract() == 0.0 && x.abs() < 9e15 {
        return format!("{}", x as i64);
    }
    // `{:?}` gives the shortest digits that read back as the same number, in TOML's spelling.
    let mut text = String::new();
    let _ = write!(text, "{x:?}");
    text
}

fn epsilon(x: f64) -> String {
    if x <= 0.0 {
        return float(x);
    }
    let inverse = (1.0 / x).round();
    let exact = (1.0..9e15).contains(&inverse) && (1.0 / inverse) as f32 == x as f32;
    if exact { format!("{}", inverse as i64) } else { format!("{x:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_take_their_shortest_exact_form() {
        assert_eq!(toml("rms_norm_eps", &json!(1e-6)), "1000000");
        assert_eq!(toml("rms_norm_eps", &json!(1e-5)), "100000");
        assert_eq!(toml("rms_norm_eps", &json!(0.3)), "0.3");
        assert_eq!(toml("rope_theta", &json!(10000.0)), "10000");
        assert_eq!(toml("embedding_multiplier", &json!(0.0078125)), "0.0078125");
        assert_eq!(toml("x", &json!(1.5e-9)), "1.5e-9");
        assert_eq!(toml("hidden_act", &json!("si\"lu")), "\"si\\\"lu\"");
        assert_eq!(
            toml("rope_scaling", &json!({"rope_type": "linear", "factor": 2.5, "l": [1, 0.5]})),
            "{ rope_type = \"linear\", factor = 2.5, l = [1, 0.5] }"
        );
    }
}
