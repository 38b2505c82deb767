//! The `chat` section: the model's own template, and the preset it is like.

use std::path::Path;

use serde_json::Value;
use tallow_format::{ChatFormat, ChatSection, Vocab};

use crate::error::{ImportError, Result};
use crate::gguf::GgufFile;
use crate::json;

/// The template of a folder: `chat_template.jinja`, else `chat_template.json`, else `tokenizer_config.json`, where it is a
/// text or a list of named texts of which `default` counts. One that is too long to be used is left out with a warning.
pub fn template_of_folder(folder: &Path, warnings: &mut Vec<String>) -> Result<Option<String>> {
    let file = folder.join("chat_template.jinja");
    if crate::files::is_there(&file)? {
        let size = std::fs::metadata(&file).map_err(|e| ImportError::io(&file, "read its size", e))?.len();
        if is_too_long(size, warnings) {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&file).map_err(|e| ImportError::io(&file, "read the file", e))?;
        return Ok(Some(text).filter(|t| !t.is_empty()));
    }
    for name in ["chat_template.json", "tokenizer_config.json"] {
        if let Some(value) = json::read_optional(&folder.join(name))?
            && let Some(text) = value.get("chat_template").and_then(pick)
        {
            return Ok(usable(text, warnings));
        }
    }
    Ok(None)
}

/// The template of a GGUF file. One that is too long to be used is left out with a warning.
pub fn template_of_gguf(file: &GgufFile, warnings: &mut Vec<String>) -> Result<Option<String>> {
    let text = file.text("tokenizer.chat_template")?.filter(|t| !t.is_empty());
    Ok(text.and_then(|text| usable(text, warnings)))
}

fn usable(text: &str, warnings: &mut Vec<String>) -> Option<String> {
    (!is_too_long(text.len() as u64, warnings)).then(|| text.to_owned())
}

/// Whether a template of so many bytes cannot be used, of which a warning tells.
fn is_too_long(bytes: u64, warnings: &mut Vec<String>) -> bool {
    let limit = ChatSection::MAX_TEMPLATE;
    let long = bytes > limit as u64;
    if long {
        warnings.push(format!(
            "The chat template has {bytes} bytes, and at most {limit} can be used, so it has been left out: the model takes plain prompts only. `tallow edit` can give it a chat section."
        ));
    }
    long
}

fn pick(template: &Value) -> Option<&str> {
    match template {
        Value::String(text) => Some(text.as_str()),
        Value::Array(list) => {
            let named = |name: &str| list.iter().find(|t| t["name"].as_str() == Some(name));
            named("default").or(list.first())?["template"].as_str()
        }
        _ => None,
    }
    .filter(|t| !t.is_empty())
}

/// The text of the section, or none for a model without a template. `eos` are the ids that end a turn.
pub fn section(template: Option<&str>, vocab: &Vocab, eos: &[u32]) -> Option<String> {
    let template = template?;
    let format = [
        ("<|im_start|>", ChatFormat::ChatMl),
        ("<|start_header_id|>", ChatFormat::Llama3),
        ("<start_of_turn>", ChatFormat::Gemma),
    ]
    .into_iter()
    .find(|(mark, _)| template.contains(mark))
    .map(|(_, format)| format);
    // Only the ends that the template itself writes: the others end a text, not a turn.
    let eos_sequences = eos
        .iter()
        .filter_map(|&id| vocab.token(id))
        .filter(|text| template.contains(text))
        .map(str::to_owned)
        .collect();
    let section = ChatSection { format, template: Some(template.to_owned()), system_default: None, eos_sequences };
    Some(section.to_text())
}
