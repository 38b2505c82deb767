//! The `chat` section: the model's own template, and the preset it is like.

use std::path::Path;

use serde_json::Value;
use tallow_format::{ChatFormat, ChatSection, Vocab};

use crate::error::{ImportError, Result};
use crate::gguf::GgufFile;
use crate::json;

/// Largest template that is taken over.
const MAX_TEMPLATE: u64 = 4 << 20;

/// The template of a folder: `chat_template.jinja`, else `chat_template.json`, else `tokenizer_config.json`, where it is a
/// text or a list of named texts of which `default` counts.
pub fn template_of_folder(folder: &Path) -> Result<Option<String>> {
    let file = folder.join("chat_template.jinja");
    if file.is_file() {
        let size = std::fs::metadata(&file).map_err(|e| ImportError::io(&file, "read its size", e))?.len();
        if size > MAX_TEMPLATE {
            return Err(ImportError::refused(
                file.display().to_string(),
                format!("{size} bytes are too much for a chat template; at most {MAX_TEMPLATE} are read"),
                "Check that this is the file you meant.",
            ));
        }
        let text = std::fs::read_to_string(&file).map_err(|e| ImportError::io(&file, "read the file", e))?;
        return Ok(Some(text).filter(|t| !t.is_empty()));
    }
    for name in ["chat_template.json", "tokenizer_config.json"] {
        if let Some(value) = json::read_optional(&folder.join(name))?
            && let Some(text) = value.get("chat_template").and_then(pick)
        {
            return Ok(Some(text.to_owned()));
        }
    }
    Ok(None)
}

/// The template of a GGUF file.
pub fn template_of_gguf(file: &GgufFile) -> Result<Option<String>> {
    Ok(file.text("tokenizer.chat_template")?.filter(|t| !t.is_empty()).map(str::to_owned))
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
