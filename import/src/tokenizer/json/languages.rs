//! Tokens of languages in the template: mbart's, nllb's and others', of which one stands for the language of the text.

use serde_json::Value;
use tallow_format::Vocab;

use super::template::Template;
use super::{Reader, Settings};
use crate::error::{Result, clip};

impl Reader<'_> {
    /// The tokens of languages, and the chosen ones, where the template has such a token: that of the text, unless `src_lang`
    /// of `tokenizer_config.json` names another.
    pub(super) fn languages(&self, template: &Template, vocab: &Vocab, config: Option<&Value>) -> Result<Settings> {
        let special = vocab.added.iter().filter(|token| token.special && is_language(&token.text));
        let tokens: Vec<(u32, &str)> = special.map(|token| (token.id, token.text.as_str())).collect();
        let Some((_, own)) = tokens.iter().find(|(id, _)| template.has(*id)) else { return Ok(Vec::new()) };
        let texts: Vec<&str> = tokens.iter().map(|(_, text)| *text).collect();
        let mut settings = vec![("languages".to_owned(), texts.clone().into())];
        for (key, name, usual) in [("src_lang", "source_language", Some(*own)), ("tgt_lang", "target_language", None)] {
            let said = config.and_then(|config| config.get(key)).and_then(Value::as_str);
            match said.or(usual) {
                Some(text) if texts.contains(&text) => settings.push((name.to_owned(), text.into())),
                Some(text) => {
                    return Err(self.broken(key, &format!("`{}` is the token of no language", clip(text))));
                }
                None => {}
            }
        }
        Ok(settings)
    }
}

/// A code as `ro_RO`, `en_XX` or `ron_Latn`.
pub(super) fn is_language(text: &str) -> bool {
    let Some((language, place)) = text.split_once('_') else { return false };
    let lower = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase());
    let place = match place.len() {
        2 => place.bytes().all(|b| b.is_ascii_uppercase()),
        4 => place.as_bytes()[0].is_ascii_uppercase() && lower(&place[1..]),
        _ => false,
    };
    place && matches!(language.len(), 2 | 3) && lower(language)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_languages_are_known_by_their_form() {
        assert!(["ro_RO", "en_XX", "ron_Latn", "zho_Hans"].into_iter().all(is_language));
        assert!(!["ro", "ro_", "RO_ro", "<mask>", "a_B", "ro_Latin", "é_RO", "ro_éé"].into_iter().any(is_language));
    }
}
