//! Normalisers, step by step.

use serde_json::Value;

use super::{Reader, Settings, describe, is_replace, type_of};
use crate::error::Result;

/// Steps under the names that `[tokenizer]` has for them.
#[derive(Debug, Default)]
pub(super) struct Steps {
    names: Vec<&'static str>,
    /// The map of the step `precompiled`, in base64.
    charsmap: Option<String>,
}

impl Steps {
    /// The keys that say them.
    pub(super) fn settings(self) -> Settings {
        let mut settings = Vec::new();
        if !self.names.is_empty() {
            settings.push(("normalizer".to_owned(), self.names.join(",").into()));
        }
        if let Some(map) = self.charsmap {
            settings.push(("charsmap".to_owned(), map.into()));
        }
        settings
    }
}

impl Reader<'_> {
    /// All steps of the normaliser.
    pub(super) fn steps(&self) -> Result<Steps> {
        let mut steps = Steps::default();
        for part in self.parts("normalizer", "normalizers")? {
            self.step(part, &mut steps)?;
        }
        Ok(steps)
    }

    /// One step more.
    pub(super) fn step(&self, part: &Value, steps: &mut Steps) -> Result<()> {
        let flag = |key: &str| self.flag(part, key, "normalizer");
        let name = match type_of(part) {
            "NFC" => "nfc",
            "NFD" => "nfd",
            "NFKC" => "nfkc",
            "NFKD" => "nfkd",
            "Nmt" => "nmt",
            "Lowercase" => "lowercase",
            "StripAccents" => "strip_marks",
            "Strip" => match (flag("strip_left")?, flag("strip_right")?) {
                (true, true) => "strip",
                (true, false) => "strip_left",
                (false, true) => "strip_right",
                (false, false) => return Ok(()),
            },
            "Replace" if is_replace(part, r"\s+", " ") => "white_space",
            "Replace" if is_replace(part, r"\s{2,}|[\n\r\t]", " ") => "white_runs",
            "Replace" if is_replace(part, " {2,}", " ") => "single_space",
            "Replace" if is_replace(part, " {2,}", "▁") => "space_sign",
            "Replace" if is_replace(part, "``", "\"") => "back_quotes",
            "Replace" if is_replace(part, "''", "\"") => "apostrophes",
            "Replace" if removes_punctuation(part) => "no_punctuation",
            "BertNormalizer" => {
                let lowercase = flag("lowercase")?;
                // Null: as `lowercase`.
                let accents = part["strip_accents"].as_bool().unwrap_or(lowercase);
                let all = [
                    ("clean_text", flag("clean_text")?),
                    ("chinese_chars", flag("handle_chinese_chars")?),
                    ("strip_accents", accents),
                    ("lowercase", lowercase),
                ];
                steps.names.extend(all.iter().filter(|(_, on)| *on).map(|(name, _)| name));
                return Ok(());
            }
            "Precompiled" => match part["precompiled_charsmap"].as_str() {
                // An empty map changes nothing.
                Some("") => return Ok(()),
                Some(map) if steps.charsmap.as_deref().is_none_or(|other| other == map) => {
                    steps.charsmap = Some(map.to_owned());
                    "precompiled"
                }
                _ => return Err(self.unknown("normalizer", "Precompiled without a map, or with several")),
            },
            _ => return Err(self.unknown("normalizer", &describe(part))),
        };
        steps.names.push(name);
        Ok(())
    }

    /// Where the pre-tokenizer `Metaspace` puts a space before text: `missing`, `first` or nowhere.
    pub(super) fn metaspace_prefix(&self, part: &Value) -> Result<Option<&'static str>> {
        if part["replacement"].as_str() != Some("▁") {
            return Err(self.unknown("pre_tokenizer", &describe(part)));
        }
        match part["prepend_scheme"].as_str() {
            Some("always") => Ok(Some("missing")),
            Some("first") => Ok(Some("first")),
            Some("never") => Ok(None),
            Some(_) => Err(self.unknown("pre_tokenizer", &describe(part))),
            None => Ok(part["add_prefix_space"].as_bool().unwrap_or(true).then_some("missing")),
        }
    }
}

/// Whether a step removes the punctuation marks of ASCII: a class of all of them, in any order, perhaps with backslashes.
fn removes_punctuation(part: &Value) -> bool {
    let class = part["pattern"]["Regex"].as_str().and_then(|regex| regex.strip_prefix('[')?.strip_suffix(']'));
    let Some(class) = class.filter(|_| part["content"].as_str() == Some("")) else { return false };
    let (mut marks, mut chars) = (Vec::new(), class.chars().peekable());
    while let Some(c) = chars.next() {
        // An escaped mark stands for itself.
        match chars.next_if(|next| c == '\\' && next.is_ascii_punctuation()) {
            Some(escaped) => marks.push(escaped),
            // A bare one may mean a range, or another class inside.
            None if matches!(c, '-' | '[' | ']' | '\\') => return false,
            None => marks.push(c),
        }
    }
    marks.sort_unstable();
    marks.dedup();
    marks.into_iter().eq((0..128_u8).map(char::from).filter(char::is_ascii_punctuation))
}

/// The keys that say where a space is put before text.
pub(super) fn prefix_settings(prefix: Option<&str>) -> Settings {
    let mut settings = vec![("add_prefix_space".to_owned(), Value::from(prefix.is_some()))];
    if let Some(prefix) = prefix.filter(|prefix| *prefix != "always") {
        settings.push(("prefix_space".to_owned(), prefix.into()));
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_class_of_all_punctuation_is_known() {
        let of =
            |regex: &str, content: &str| removes_punctuation(&json!({"pattern": {"Regex": regex}, "content": content}));
        let all = r#"[!"\#\$%\&'\(\)\*\+,\-\./:;<=>\?@\[\\\]\^_`\{\|\}\~]"#;
        assert!(of(all, ""));
        assert!(!of(all, " ") && !of(&all.replace('!', ""), "") && !of(&all.replace('!', "!a"), ""));
        assert!(!of(&all.replace(r"\-", "-"), "") && !of("[^a]", "") && !of("[", "") && !of("", ""));
    }
}
