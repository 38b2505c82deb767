//! Tokens of languages: which one a text is in, and which one a model is to write.

use super::{Tokenizer, TokenizerError};
use tallow_format::TokenizerConfig;

/// What `[tokenizer]` says about languages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Languages {
    /// The text of each language's token, and its id.
    pub tokens: Vec<(String, u32)>,
    /// The language of texts unless a caller says another.
    pub source: Option<u32>,
    /// The language to write unless a caller says another.
    pub target: Option<u32>,
}

impl Languages {
    /// Errors: a text that is no token; a choice that is none of the languages.
    pub(super) fn new(config: &TokenizerConfig, find: &dyn Fn(&str) -> Option<u32>) -> Result<Self, TokenizerError> {
        let fault =
            |key, text: &str, what| TokenizerError::BadTemplate { key, cause: format!("has \"{text}\", which {what}") };
        let mut languages = Self::default();
        for text in config.languages.iter().flatten() {
            let id = find(text).ok_or_else(|| fault("languages", text, "is no token"))?;
            languages.tokens.push((text.clone(), id));
        }
        let chosen = |key, text: &Option<String>| {
            let Some(text) = text else { return Ok(None) };
            let of = languages.tokens.iter().find(|(token, _)| token == text);
            of.map(|(_, id)| Some(*id)).ok_or_else(|| fault(key, text, "is none of `languages`"))
        };
        let source = chosen("source_language", &config.source_language)?;
        let target = chosen("target_language", &config.target_language)?;
        Ok(Self { source, target, ..languages })
    }

    /// Whether a token is that of a language.
    pub fn has(&self, id: u32) -> bool {
        self.tokens.iter().any(|(_, of)| *of == id)
    }
}

impl Tokenizer {
    /// The languages that a text can be in, and those that can be written.
    pub fn languages(&self) -> &Languages {
        &self.languages
    }

    /// The ids of a text in the language of this token, which stands in the template in place of that of another. Texts of
    /// special tokens are seen. Errors: as [`Tokenizer::encode`].
    pub fn encode_from(&self, text: &str, language: u32) -> Result<Vec<u32>, TokenizerError> {
        let all: Vec<u32> = self.languages.tokens.iter().map(|(_, id)| *id).collect();
        Ok(self.template.with(&all, language).fill(&[self.encode_bare(text, true)?], None).ids)
    }
}
