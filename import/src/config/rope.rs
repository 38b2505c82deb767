//! Rotary settings in all their layouts: `rope_theta` and `rope_scaling` of old files, `rope_parameters` of new ones, nested
//! by layer type for gemma 3; resolved into `rope_theta`, `rope_theta_full`, `partial_rotary_factor` and one table
//! `rope_scaling` with Hugging Face's keys.

use serde_json::{Map, Value};

use super::defaults::TypeSpec;
use super::settings::{Reader, count, integer};
use crate::error::{ImportError, Result, clip};

/// Keys that are read here.
pub const KEYS: &[&str] =
    &["rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor", "original_max_position_embeddings"];

/// Gemma 3's old key for the base of its sliding layers.
pub const LOCAL_THETA: &str = "rope_local_base_freq";

/// Base of gemma 3's sliding layers when no key gives one.
const GEMMA3_LOCAL: f64 = 10_000.0;

/// Most rotary divisors a list may hold.
const MAX_FACTORS: usize = 65_536;

/// Resolves the rotary keys into `table`.
pub(super) fn resolve(
    spec: &TypeSpec,
    table: &mut Map<String, Value>,
    reader: &Reader<'_>,
    warnings: &mut Vec<String>,
) -> Result<()> {
    if spec.name == "gemma3" {
        return by_layer(spec, table, reader);
    }
    if spec.name == "gemma4" {
        return nested(table, reader);
    }
    let scaling = object(reader, "rope_scaling")?.filter(|m| !m.is_empty());
    let dict = match scaling {
        Some(map) => Some(map),
        None => object(reader, "rope_parameters")?,
    };
    let empty = Map::new();
    let dict = dict.unwrap_or(&empty);
    if let Some((key, _)) = dict.iter().find(|(_, v)| v.is_object()) {
        return Err(reader.wrong(
            "rope_parameters",
            &Value::Object(dict.clone()),
            &format!("one set of numbers: type `{}` has no layers of kind `{}`", spec.name, clip(key)),
        ));
    }
    let theta = theta(reader, dict, "rope_theta", spec.theta)?;
    let kind = kind(dict);
    // The table has the default of a type that has one.
    let beside = reader.source.get("partial_rotary_factor").or(table.get("partial_rotary_factor"));
    let partial = match dict.get("partial_rotary_factor").or(beside) {
        None | Some(Value::Null) => None,
        Some(v) => Some(
            v.as_f64()
                .filter(|f| (0.0..=1.0).contains(f))
                .ok_or_else(|| reader.wrong("partial_rotary_factor", v, "between 0 and 1"))?,
        ),
    };
    let mut width = count(table, "head_dim").or(count(table, "qk_rope_head_dim")).unwrap_or(0);
    table.insert("rope_theta".into(), theta.into());
    match partial {
        _ if spec.partial_rotary => {
            let factor = partial.unwrap_or(1.0);
            width = (width as f64 * factor) as u64;
            table.insert("partial_rotary_factor".into(), factor.into());
        }
        Some(factor) if factor != 1.0 && kind != "default" => {
            return Err(reader.wrong(
                "partial_rotary_factor",
                &factor.into(),
                &format!("1 beside a rotary scaling: type `{}` always rotates whole heads", spec.name),
            ));
        }
        Some(factor) if factor != 1.0 => warnings.push(format!(
            "`partial_rotary_factor` = {factor} is not read: type `{}` always rotates whole heads.",
            spec.name
        )),
        _ => {}
    }
    let scaling = scaling_table(spec, dict, &kind, table, width, reader)?;
    table.insert("rope_scaling".into(), scaling);
    // It stands in the scaling table, where it has a meaning.
    table.remove("original_max_position_embeddings");
    Ok(())
}

/// Gemma 3: one base for sliding layers, another for full ones, and scaling on full ones only.
fn by_layer(spec: &TypeSpec, table: &mut Map<String, Value>, reader: &Reader<'_>) -> Result<()> {
    let parameters = object(reader, "rope_parameters")?;
    let part = |name: &str| -> Result<Map<String, Value>> {
        match parameters.and_then(|p| p.get(name)) {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(map)) => Ok(map.clone()),
            Some(other) => Err(reader.wrong(&format!("rope_parameters.{name}"), other, "an object")),
        }
    };
    let (mut full, sliding) = (part("full_attention")?, part("sliding_attention")?);
    // The reference adds the old key to what stands for the full layers.
    if let Some(old) = object(reader, "rope_scaling")? {
        full.extend(old.iter().map(|(k, v)| (k.clone(), v.clone())));
    }
    let full_theta = theta(reader, &full, "rope_theta", spec.theta)?;
    let local = theta(reader, &sliding, LOCAL_THETA, GEMMA3_LOCAL)?;
    if kind(&sliding) != "default" {
        return Err(ImportError::unsupported(
            reader.path,
            "setting `rope_parameters.sliding_attention`",
            format!("rotary scaling `{}` on sliding layers is not read", clip(&kind(&sliding))),
            "Scaling is read on the full layers only.",
        ));
    }
    let width = count(table, "head_dim").unwrap_or(0);
    table.insert("rope_theta".into(), local.into());
    table.insert("rope_theta_full".into(), full_theta.into());
    let scaling = scaling_table(spec, &full, &kind(&full), table, width, reader)?;
    table.insert("rope_scaling".into(), scaling);
    Ok(())
}

/// Gemma 4: one dictionary for each kind of layer, taken over as it is; no other key is read.
fn nested(table: &mut Map<String, Value>, reader: &Reader<'_>) -> Result<()> {
    if object(reader, "rope_scaling")?.is_some_and(|old| !old.is_empty()) {
        return Err(ImportError::unsupported(
            reader.path,
            "setting `rope_scaling`",
            "this type does not read it",
            "Write the rotation of each kind of layer in `rope_parameters`.",
        ));
    }
    let Some(parameters) = object(reader, "rope_parameters")? else { return Ok(()) };
    let mut out = Map::new();
    for (kind, value) in parameters {
        let Value::Object(inner) = value else {
            return Err(reader.wrong(&format!("rope_parameters.{kind}"), value, "an object"));
        };
        let known = inner.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), v.clone()));
        out.insert(kind.clone(), Value::Object(known.collect()));
    }
    table.insert("rope_parameters".into(), Value::Object(out));
    Ok(())
}

fn object<'a>(reader: &Reader<'a>, key: &str) -> Result<Option<&'a Map<String, Value>>> {
    match reader.source.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(other) => Err(reader.wrong(key, other, "an object")),
    }
}

fn theta(reader: &Reader<'_>, dict: &Map<String, Value>, top: &str, default: f64) -> Result<f64> {
    let found = [dict.get("rope_theta"), reader.source.get(top)].into_iter().flatten().find(|v| !v.is_null());
    match found {
        None => Ok(default),
        Some(v) => {
            v.as_f64().filter(|t| t.is_finite() && *t > 0.0).ok_or_else(|| reader.wrong(top, v, "a number above 0"))
        }
    }
}

fn kind(dict: &Map<String, Value>) -> String {
    let name = [dict.get("rope_type"), dict.get("type")].into_iter().flatten().find_map(Value::as_str);
    match name {
        None | Some("mrope") if !dict.contains_key("mrope_section") => "default".into(),
        None => "default".into(),
        Some(name) => name.to_owned(),
    }
}

/// The table `rope_scaling`, or null without scaling.
fn scaling_table(
    spec: &TypeSpec,
    dict: &Map<String, Value>,
    kind: &str,
    table: &Map<String, Value>,
    width: u64,
    reader: &Reader<'_>,
) -> Result<Value> {
    // Phi-3 files of different ages call the same thing `su`, `yarn` and `longrope`.
    let kind = match kind {
        "su" | "yarn" if spec.name == "phi3" => "longrope",
        other => other,
    };
    if kind == "default" {
        return Ok(Value::Null);
    }
    if !spec.scalings.contains(&kind) {
        return Err(ImportError::unsupported(
            reader.path,
            "setting `rope_scaling`",
            format!("rotary scaling `{}` is not read for type `{}`", clip(kind), spec.name),
            format!("Read are: {}.", spec.scalings.join(", ")),
        ));
    }
    let numbers: &[&str] = match kind {
        "linear" | "dynamic" => &["factor"],
        "yarn" => &["factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"],
        "llama3" => &["factor", "low_freq_factor", "high_freq_factor"],
        "longrope" => &["factor", "attention_factor"],
        _ => &[],
    };
    let lists: &[&str] = match kind {
        "longrope" => &["short_factor", "long_factor"],
        "factors" => &["factors"],
        _ => &[],
    };
    // Said elsewhere, or notes of whoever wrote the file.
    let known: &[&str] =
        &["rope_type", "type", "rope_theta", "partial_rotary_factor", "original_max_position_embeddings", "finetuned"];
    let truncates = kind == "yarn";
    let mut out = Map::new();
    out.insert("rope_type".into(), kind.into());
    for (key, value) in dict.iter().filter(|(_, v)| !v.is_null()) {
        let path = format!("rope_scaling.{key}");
        if numbers.contains(&key.as_str()) {
            let number = value.as_f64().filter(|x| x.is_finite());
            out.insert(key.clone(), number.ok_or_else(|| reader.wrong(&path, value, "a number"))?.into());
        } else if lists.contains(&key.as_str()) {
            out.insert(key.clone(), factors(reader, &path, value, width)?);
        } else if truncates && key == "truncate" {
            let flag = value.as_bool().ok_or_else(|| reader.wrong(&path, value, "true or false"))?;
            out.insert(key.clone(), flag.into());
        } else if !known.contains(&key.as_str()) {
            return Err(ImportError::unsupported(
                reader.path,
                format!("setting `{}`", clip(&path)),
                format!("rotary scaling `{kind}` does not read it"),
                "Correct the model's config, if the key is a slip.",
            ));
        }
    }
    if matches!(kind, "yarn" | "llama3" | "longrope") {
        let original = original_length(dict, table, reader)?;
        let longest = count(table, "max_position_embeddings").unwrap_or(original);
        if kind == "yarn" && !out.contains_key("factor") {
            out.insert("factor".into(), (longest as f64 / original as f64).into());
        }
        out.insert("original_max_position_embeddings".into(), original.into());
    }
    let needed: &[&str] = match kind {
        "linear" | "dynamic" | "yarn" => &["factor"],
        "llama3" => &["factor", "low_freq_factor", "high_freq_factor"],
        "longrope" => &["short_factor", "long_factor"],
        "factors" => &["factors"],
        _ => &[],
    };
    if let Some(missing) = needed.iter().find(|k| !out.contains_key(**k)) {
        return Err(reader.wrong(
            "rope_scaling",
            &Value::Object(dict.clone()),
            &format!("a table with `{missing}` for scaling `{kind}`"),
        ));
    }
    if out.get("factor").and_then(Value::as_f64).is_some_and(|f| f <= 0.0) {
        return Err(reader.wrong("rope_scaling.factor", &out["factor"], "above 0"));
    }
    Ok(Value::Object(out))
}

/// The length that the model was trained for before it was stretched: the top-level key beats the dictionary's, and without
/// either it is `max_position_embeddings`.
fn original_length(dict: &Map<String, Value>, table: &Map<String, Value>, reader: &Reader<'_>) -> Result<u64> {
    let key = "original_max_position_embeddings";
    let found = [table.get(key), reader.source.get(key), dict.get(key), table.get("max_position_embeddings")]
        .into_iter()
        .flatten()
        .find(|v| !v.is_null());
    match found {
        None => Ok(1),
        Some(v) => integer(v).filter(|&n| n > 0).ok_or_else(|| reader.wrong(key, v, "at least 1")),
    }
}

fn factors(reader: &Reader<'_>, key: &str, value: &Value, width: u64) -> Result<Value> {
    let wanted = (width / 2) as usize;
    let expected = format!("a list of {wanted} numbers above 0, one per rotary pair");
    let list = value.as_array().filter(|l| l.len() == wanted && l.len() <= MAX_FACTORS);
    let numbers = list
        .and_then(|l| l.iter().map(|v| v.as_f64().filter(|x| x.is_finite() && *x > 0.0)).collect::<Option<Vec<_>>>());
    numbers.map(Value::from).ok_or_else(|| reader.wrong(key, value, &expected))
}
