//! What a folder of `sentence-transformers` says beside the model: how token vectors become the vector of a text, and what
//! the score of two texts is.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{ImportError, Result, clip};
use crate::json;
use crate::tokenizer::TokenizerText;

/// Reads what the config says for a `CrossEncoder`, then `modules.json` and what it names, and adds `label_score`, `pooling`
/// and `normalize_embeddings` to the settings, and the length and the lower case of texts to the tokenizer. A folder without
/// any of it changes nothing. What would give other vectors or scores and is not read is an error; prompts, which stand
/// before some texts, are a warning.
pub fn apply(
    folder: &Path,
    architecture: &mut Map<String, Value>,
    tokenizer: Option<&mut TokenizerText>,
    warnings: &mut Vec<String>,
) -> Result<()> {
    label_score(&folder.join("config.json"), architecture)?;
    let path = folder.join("modules.json");
    let Some(modules) = json::read_optional(&path)? else { return Ok(()) };
    let unread = |what: String| {
        ImportError::unsupported(
            &path,
            "modules",
            what,
            "Move modules.json away to import the model without them; then the mean of its token vectors is given.",
        )
    };
    for module in modules.as_array().into_iter().flatten() {
        let of_type = module["type"].as_str().unwrap_or_default();
        let inner = module["path"].as_str().unwrap_or_default();
        match of_type.rsplit('.').next().unwrap_or_default() {
            "Transformer" if inner.is_empty() || inner == "." => {}
            "Transformer" => {
                return Err(unread(format!("the model lies in `{}`, and only its folder is read", clip(inner))));
            }
            "Pooling" => {
                let path = folder.join(inner).join("config.json");
                let pooling = pooling(&path, &json::read(&path)?)?;
                architecture.insert("pooling".into(), pooling.into());
            }
            "Normalize" => {
                architecture.insert("normalize_embeddings".into(), true.into());
            }
            _ => return Err(unread(format!("the module `{}` is not read", clip(of_type)))),
        }
    }
    if let Some(settings) = json::read_optional(&folder.join("sentence_bert_config.json"))?
        && let Some(tokenizer) = tokenizer
    {
        if let Some(length) = settings["max_seq_length"].as_u64().filter(|n| *n > 0) {
            set(tokenizer, "max_length", length.into());
        }
        if settings["do_lower_case"] == true {
            let steps = tokenizer.settings.iter().find(|(key, _)| key == "normalizer");
            let steps =
                steps.and_then(|(_, steps)| steps.as_str()).map(|steps| format!(",{steps}")).unwrap_or_default();
            set(tokenizer, "normalizer", format!("lowercase{steps}").into());
        }
    }
    let prompts = json::read_optional(&folder.join("config_sentence_transformers.json"))?.unwrap_or_default();
    if let Some(name) = prompts["default_prompt_name"].as_str() {
        warnings.push(format!(
            "The folder puts its prompt `{}` before every text, which is not done here: write it before the texts.",
            clip(name)
        ));
    }
    Ok(())
}

fn set(tokenizer: &mut TokenizerText, key: &str, value: Value) {
    tokenizer.settings.retain(|(k, _)| k != key);
    tokenizer.settings.push((key.to_owned(), value));
}

/// The last step of a `CrossEncoder`, which its configs name by a class of PyTorch, as `label_score`.
fn label_score(path: &Path, architecture: &mut Map<String, Value>) -> Result<()> {
    let old = architecture.remove("sbert_ce_default_activation_function");
    let new = match architecture.remove("sentence_transformers") {
        Some(Value::Object(mut table)) => {
            table.remove("version");
            let activation = table.remove("activation_fn");
            if let Some(key) = table.keys().next() {
                let cause = format!("`{}` is not read", clip(key));
                let cure = "Remove the key if it does not change the scores.";
                return Err(ImportError::unsupported(path, "sentence_transformers", cause, cure));
            }
            activation
        }
        Some(other) => Some(other),
        None => None,
    };
    let Some(class) = new.or(old).filter(|class| !class.is_null()) else { return Ok(()) };
    let score = match class.as_str().and_then(|class| class.rsplit('.').next()) {
        Some("Sigmoid") => "sigmoid",
        Some("Identity") => "logit",
        _ => {
            let cause = format!(
                "the scores of texts go through {}, and only Sigmoid and Identity are read",
                clip(&class.to_string())
            );
            let cure = "Remove the key to have logits and their probabilities.";
            return Err(ImportError::unsupported(path, "activation_fn", cause, cure));
        }
    };
    architecture.insert("label_score".into(), score.into());
    Ok(())
}

/// The one manner of pooling that a config switches on.
fn pooling(path: &Path, config: &Value) -> Result<&'static str> {
    const KNOWN: [(&str, &str); 3] =
        [("pooling_mode_cls_token", "cls"), ("pooling_mode_mean_tokens", "mean"), ("pooling_mode_max_tokens", "max")];
    let flags = config.as_object().into_iter().flatten();
    let mut on: Vec<&str> = flags
        .filter(|(key, value)| key.starts_with("pooling_mode_") && **value == true)
        .map(|(key, _)| &**key)
        .collect();
    on.extend(config["pooling_mode"].as_str());
    let known = |on: &str| KNOWN.iter().find(|(flag, name)| *flag == on || *name == on).map(|(_, name)| *name);
    match on.as_slice() {
        [one] => known(one),
        _ => None,
    }
    .ok_or_else(|| {
        let found = if on.is_empty() { "none".to_owned() } else { on.join(", ") };
        ImportError::unsupported(
            path,
            "pooling",
            format!("it is {}, and only one of cls, mean and max is read", clip(&found)),
            "Move modules.json away to import the model without it; then the mean of its token vectors is given.",
        )
    })
}
