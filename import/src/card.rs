//! The `card` section: what a person wants to know first.

use crate::config::SourceConfig;

/// Facts for the card.
#[derive(Debug)]
pub(crate) struct CardFacts<'a> {
    pub name: &'a str,
    pub file: &'a str,
    pub model_type: &'a str,
    pub parameters: u64,
    pub layers: u64,
    pub context: u64,
    pub source_types: &'a [String],
    pub encoding: &'a str,
    pub has_tokenizer: bool,
    pub has_chat: bool,
    pub takes_ids: bool,
    /// Whether it takes pictures, and says how they are prepared.
    pub sees: bool,
}

/// The text of the section.
pub(crate) fn card(facts: &CardFacts<'_>, source: &SourceConfig) -> String {
    let mut out = format!("# {}\n\n", facts.name);
    out.push_str(&format!(
        "A `{}` model of {} parameters{}.\n\n",
        facts.model_type,
        human(facts.parameters),
        sizes(facts)
    ));
    for (key, value) in &source.lineage {
        out.push_str(&format!("- {key}: {}\n", one_line(value)));
    }
    if let Some(license) = &source.license {
        out.push_str(&format!("- licence: {}\n", one_line(license)));
    }
    if !source.languages.is_empty() {
        out.push_str(&format!("- languages: {}\n", one_line(&source.languages.join(", "))));
    }
    let how = match facts.encoding {
        "auto" => "chosen by tensor".to_owned(),
        one => format!("matrices in {one}"),
    };
    out.push_str(&format!(
        "- encodings: {how}, from {}; the `tensors` section lists them\n\n",
        facts.source_types.join(", ")
    ));
    out.push_str("```sh\n");
    match (facts.has_tokenizer, facts.has_chat) {
        (true, _) if facts.sees => {
            let texts = "--text \"a photo of a cat\" \"a photo of a dog\"";
            out.push_str(&format!("tallow run {} --image picture.jpg {texts}\n", facts.file));
        }
        (false, _) if facts.sees => out.push_str(&format!("tallow run {} --image picture.jpg\n", facts.file)),
        (true, true) => {
            out.push_str(&format!("tallow chat {}\n", facts.file));
            out.push_str(&format!("tallow run {} \"Hello\"\n", facts.file));
        }
        (true, false) => out.push_str(&format!("tallow run {} \"Once upon a time\"\n", facts.file)),
        (false, _) => out.push_str(&format!("tallow inspect {}\n", facts.file)),
    }
    out.push_str("```\n");
    if !facts.has_tokenizer && facts.takes_ids {
        out.push_str("\nThe model has no tokenizer: it takes token ids, not text.\n");
    }
    out
}

/// Layers and tokens, where there are some.
fn sizes(facts: &CardFacts<'_>) -> String {
    let tokens = if facts.takes_ids { format!("up to {} tokens", facts.context) } else { String::new() };
    let layers = if facts.layers > 0 || facts.takes_ids { format!("{} layers", facts.layers) } else { String::new() };
    let said: Vec<String> = [layers, tokens].into_iter().filter(|part| !part.is_empty()).collect();
    if said.is_empty() { String::new() } else { format!(": {}", said.join(", ")) }
}

/// 494032768 as `494.0 M`.
fn human(n: u64) -> String {
    match n {
        0..1_000_000 => n.to_string(),
        1_000_000..1_000_000_000 => format!("{:.1} M", n as f64 / 1e6),
        _ => format!("{:.2} G", n as f64 / 1e9),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
