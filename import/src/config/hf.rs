//! Settings of a Hugging Face folder: `config.json`, `generation_config.json`, the head of `README.md`.

use std::path::Path;

use serde_json::{Map, Value};

use super::{Ids, Sampling, SourceConfig, decoders, defaults, processor, towers};
use crate::error::{ImportError, Result, clip};
use crate::json;
use tallow_frontends::families::PROCESSOR;

/// Reads the settings of a folder.
pub fn read(folder: &Path) -> Result<SourceConfig> {
    let path = folder.join("config.json");
    let root = json::read(&path)?;
    let Value::Object(root) = root else {
        return Err(ImportError::malformed(&path, "line 1", "it holds no object", "Download the file again."));
    };
    check_epsilons(&root, &path)?;
    let mut warnings = Vec::new();
    let outer = root.get("model_type").and_then(Value::as_str).unwrap_or_default();
    let verbatim = defaults::spec(outer).is_some_and(|spec| spec.verbatim);
    let mut settings = if verbatim { root.clone() } else { text_part(&root, &path, &mut warnings)? };
    let model_type =
        settings.get("model_type").or(root.get("model_type")).and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(spec) = defaults::spec(&model_type) else {
        return Err(unknown_type(&path, &model_type));
    };
    if !verbatim {
        decoders::rename(spec.name, &mut settings, &path)?;
    }
    let generation = match json::read_optional(&folder.join("generation_config.json"))? {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let unread: Vec<&str> = UNREAD.iter().copied().filter(|key| says(&generation, key)).collect();
    if !unread.is_empty() {
        warnings.push(format!(
            "generation_config.json: {} not read; generated text may differ from the original's.",
            crate::error::names(&unread, 8)
        ));
    }
    let ids = ids(&[&settings, &root, &generation]);
    let card = readme(folder);
    let name = folder_name(folder);
    let mut lineage = Vec::new();
    let origin = root.get("_name_or_path").and_then(Value::as_str).filter(|s| !s.is_empty());
    let source = match origin {
        // A path on someone else's disk says nothing.
        Some(origin) if !origin.starts_with(['/', '.']) => origin.to_owned(),
        _ => name.clone().unwrap_or_else(|| "unknown".into()),
    };
    lineage.push(("source".to_owned(), source));
    lineage.push(("format".to_owned(), "safetensors".to_owned()));
    if let Some(version) = root.get("transformers_version").and_then(Value::as_str) {
        lineage.push(("transformers_version".to_owned(), version.to_owned()));
    }
    let mut towers = verbatim.then(|| towers::table(&root, &generation));
    if let Some(towers) = &mut towers
        && let Some(table) = processor::read(folder, spec.name)?
    {
        towers.insert(PROCESSOR.into(), Value::Object(table));
    }
    Ok(SourceConfig {
        settings,
        spec,
        multimodal: !verbatim && root.get("text_config").is_some_and(|v| !v.is_null()),
        towers,
        sampling: sampling(&generation, &root, folder)?,
        ids,
        name,
        license: card.license,
        languages: card.languages,
        lineage,
        warnings,
    })
}

/// The error for a type without a table, with the types that have one.
pub(crate) fn unknown_type(path: &Path, found: &str) -> ImportError {
    let known = defaults::names();
    let cause =
        if found.is_empty() { "it is missing".to_owned() } else { format!("type `{}` is not read", clip(found)) };
    ImportError::unsupported(path, "setting `model_type`", cause, format!("Types that are read: {}.", known.join(", ")))
}

/// The settings of the text tower: `text_config` of a multimodal file, else the whole file.
fn text_part(root: &Map<String, Value>, path: &Path, warnings: &mut Vec<String>) -> Result<Map<String, Value>> {
    let Some(text) = root.get("text_config").filter(|v| !v.is_null()) else {
        return Ok(root.clone());
    };
    let Value::Object(text) = text else {
        return Err(ImportError::malformed(
            path,
            "setting `text_config`",
            "it is no object",
            "Download the file again.",
        ));
    };
    let outer = root.get("model_type").and_then(Value::as_str).unwrap_or_default();
    if defaults::spec(outer).is_none() {
        return Err(unknown_type(path, outer));
    }
    let mut text = text.clone();
    if text.get("model_type").and_then(Value::as_str).is_none() {
        text.insert("model_type".into(), outer.into());
    }
    // The head is tied if either place says so.
    if root.get("tie_word_embeddings").and_then(Value::as_bool) == Some(true) {
        text.insert("tie_word_embeddings".into(), true.into());
    }
    // What applies to the whole model is written outside.
    for key in ["quantization_config", "is_causal"] {
        if let Some(value) = root.get(key) {
            text.entry(key).or_insert_with(|| value.clone());
        }
    }
    warnings.push(
        "Only the text part of this multimodal model has been taken over; pictures cannot be given to it.".into(),
    );
    Ok(text)
}

fn ids(places: &[&Map<String, Value>]) -> Ids {
    let id = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
    let first = |key: &str| places.iter().find_map(|m| m.get(key).and_then(id));
    let mut ids = Ids { bos: first("bos_token_id"), pad: first("pad_token_id"), ..Ids::default() };
    // The generation settings list the most, so they come first.
    for map in places.iter().rev() {
        match map.get("eos_token_id") {
            Some(Value::Array(list)) => list.iter().filter_map(id).for_each(|n| ids.add_eos(n)),
            Some(one) => {
                if let Some(n) = id(one) {
                    ids.add_eos(n);
                }
            }
            None => {}
        }
    }
    ids
}

/// Settings of generation that change a text and that nothing reads.
const UNREAD: &[&str] = &[
    "constraints",
    "encoder_repetition_penalty",
    "epsilon_cutoff",
    "eta_cutoff",
    "exponential_decay_length_penalty",
    "force_words_ids",
    "guidance_scale",
    "penalty_alpha",
    "sequence_bias",
    "stop_strings",
    "top_h",
    "typical_p",
];

/// Whether a setting says something: a missing one, null, 0, 1 and what is empty say nothing.
fn says(settings: &Map<String, Value>, key: &str) -> bool {
    match settings.get(key) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Number(n)) => !matches!(n.as_f64(), Some(0.0 | 1.0)),
        Some(Value::Array(list)) => !list.is_empty(),
        Some(_) => true,
    }
}

/// Refuses an ε of 1 and more, which a `.model` file would take for the number that 1 is divided by.
fn check_epsilons(settings: &Map<String, Value>, path: &Path) -> Result<()> {
    for (key, value) in settings {
        if let Value::Object(inner) = value {
            check_epsilons(inner, path)?;
        }
        let epsilon = key.ends_with("eps") || key.ends_with("epsilon");
        if let Some(found) = value.as_f64().filter(|x| epsilon && *x >= 1.0) {
            return Err(ImportError::unsupported(
                path,
                format!("setting `{key}`"),
                format!("{found} is no small number to keep a norm from dividing by 0"),
                "Correct it; usual ones are 1e-12 to 1e-5.",
            ));
        }
    }
    Ok(())
}

/// Sampling as `generate` would do it: none unless `do_sample` says so, or a temperature stands there without that key.
fn sampling(generation: &Map<String, Value>, root: &Map<String, Value>, folder: &Path) -> Result<Sampling> {
    let (place, file) = match generation.is_empty() {
        true => (root, "config.json"),
        false => (generation, "generation_config.json"),
    };
    let wrong = |key: &str, found: &Value, expected: &str| {
        let cause = format!("{} is no {expected}", clip(&found.to_string()));
        ImportError::unsupported(&folder.join(file), format!("setting `{key}`"), cause, "Correct it, or remove it.")
    };
    let number = |key: &str, most: f64| match place.get(key).filter(|v| !v.is_null()) {
        None => Ok(None),
        Some(found) => match found.as_f64().filter(|x| (0.0..=most).contains(x)) {
            Some(x) => Ok(Some(x)),
            None => Err(wrong(key, found, &format!("number from 0 to {most}"))),
        },
    };
    let sampled = match place.get("do_sample").filter(|v| !v.is_null()) {
        None => None,
        Some(found) => Some(found.as_bool().ok_or_else(|| wrong("do_sample", found, "true or false"))?),
    };
    let given = number("temperature", 1000.0)?;
    let temperature = match sampled {
        Some(true) => Some(given.unwrap_or(1.0)),
        Some(false) => None,
        None => given.filter(|_| !generation.is_empty()),
    };
    let repetition_penalty = number("repetition_penalty", 1000.0)?.filter(|&p| p != 1.0 && p > 0.0);
    let (top_p, min_p, top_k) = (number("top_p", 1.0)?, number("min_p", 1.0)?, number("top_k", 1e9)?);
    if temperature.is_none() {
        return Ok(Sampling { repetition_penalty, ..Sampling::default() });
    }
    Ok(Sampling {
        temperature,
        top_p,
        top_k: top_k.map(|k| k as u64),
        min_p: min_p.filter(|p| *p > 0.0),
        repetition_penalty,
    })
}

struct Readme {
    license: Option<String>,
    languages: Vec<String>,
}

/// `license` and `language` from the front matter of the model card; a card that cannot be read says nothing.
fn readme(folder: &Path) -> Readme {
    let mut card = Readme { license: None, languages: Vec::new() };
    let Ok(text) = std::fs::read_to_string(folder.join("README.md")) else {
        return card;
    };
    let Some(rest) = text.strip_prefix("---\n") else {
        return card;
    };
    let front = rest.split("\n---").next().unwrap_or_default();
    let plain = |s: &str| s.trim().trim_matches(['"', '\'']).to_owned();
    let mut in_languages = false;
    for line in front.lines().take(200) {
        if in_languages {
            if let Some(item) = line.trim_start().strip_prefix("- ") {
                card.languages.push(plain(item));
                continue;
            }
            in_languages = false;
        }
        if let Some(value) = line.strip_prefix("license:") {
            card.license = Some(plain(value)).filter(|s| !s.is_empty());
        } else if let Some(value) = line.strip_prefix("language:") {
            let value = value.trim();
            match value.strip_prefix('[').and_then(|v| v.strip_suffix(']')) {
                Some(list) => card.languages.extend(list.split(',').map(plain)),
                None if value.is_empty() => in_languages = true,
                None => card.languages.push(plain(value)),
            }
        }
    }
    card.languages.retain(|l| !l.is_empty());
    card
}

/// The last part of a folder's path; a file-system snapshot's hash gives way to the repository's name above it.
pub(crate) fn folder_name(folder: &Path) -> Option<String> {
    let full = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let own = full.file_name()?.to_str()?.to_owned();
    let hash = own.len() == 40 && own.bytes().all(|b| b.is_ascii_hexdigit());
    if hash {
        for part in full.ancestors().filter_map(|p| p.file_name()?.to_str()) {
            if let Some(repository) = part.strip_prefix("models--") {
                return Some(repository.rsplit("--").next().unwrap_or(repository).to_owned());
            }
        }
    }
    Some(own)
}
