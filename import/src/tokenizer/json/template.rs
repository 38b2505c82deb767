//! Post-processors: what stands around a text, or around two.

use serde_json::Value;
use tallow_format::Vocab;

use super::{Reader, Settings, describe, type_of};
use crate::error::{Result, clip};

/// A text or a token, and the type of its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Text(char, u64),
    Token(u32, u64),
}

/// What encoding makes of a text, and of two.
#[derive(Debug)]
pub(super) struct Template {
    single: Vec<Part>,
    pair: Vec<Part>,
}

impl Template {
    /// The one token before a text.
    pub(super) fn begin(&self) -> Option<u32> {
        match self.single.as_slice() {
            [Part::Token(id, 0), Part::Text(..), ..] => Some(*id),
            _ => None,
        }
    }

    /// The one token behind a text.
    pub(super) fn end(&self) -> Option<u32> {
        match self.single.as_slice() {
            [.., Part::Text(..), Part::Token(id, 0)] => Some(*id),
            _ => None,
        }
    }

    /// Whether a token stands around a text.
    pub(super) fn has(&self, id: u32) -> bool {
        self.single.iter().any(|part| matches!(part, Part::Token(token, _) if *token == id))
    }

    /// True where a text stands alone or with one token before it: generation goes on behind it.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.single.as_slice(), [Part::Text(_, 0)] | [Part::Token(_, 0), Part::Text(_, 0)])
    }
}

impl Reader<'_> {
    /// The template of the post-processor; a text alone where there is none.
    pub(super) fn template(&self, vocab: &Vocab) -> Result<Template> {
        let mut template = Template { single: vec![Part::Text('A', 0)], pair: Vec::new() };
        for part in self.parts("post_processor", "processors")? {
            match type_of(part) {
                "ByteLevel" => {}
                "TemplateProcessing" => {
                    template.single = self.template_parts(part, "single")?;
                    template.pair = self.template_parts(part, "pair")?;
                }
                "BertProcessing" => {
                    let [cls, sep] = self.processing_tokens(part, vocab)?;
                    let token = |id| Part::Token(id, 0);
                    template.single = vec![token(cls), Part::Text('A', 0), token(sep)];
                    template.pair = [&template.single[..], &[Part::Text('B', 1), Part::Token(sep, 1)]].concat();
                }
                "RobertaProcessing" => {
                    let [cls, sep] = self.processing_tokens(part, vocab)?;
                    let token = |id| Part::Token(id, 0);
                    template.single = vec![token(cls), Part::Text('A', 0), token(sep)];
                    template.pair = [&template.single[..], &[token(sep), Part::Text('B', 0), token(sep)]].concat();
                }
                _ => return Err(self.unknown("post_processor", &describe(part))),
            }
        }
        let texts = template.single.iter().filter(|part| matches!(part, Part::Text('A', _))).count();
        if texts != 1 || template.single.iter().any(|part| matches!(part, Part::Text('B', _))) {
            return Err(self.unknown("post_processor", "TemplateProcessing whose `single` is not one text with tokens"));
        }
        Ok(template)
    }

    /// The templates as `[tokenizer]` spells them.
    pub(super) fn template_settings(&self, template: &Template, vocab: &Vocab) -> Result<Settings> {
        let mut settings = Vec::new();
        for (key, parts) in [("template", &template.single), ("pair_template", &template.pair)] {
            if parts.is_empty() {
                continue;
            }
            let entries = parts.iter().map(|part| self.entry(*part, vocab)).collect::<Result<Vec<_>>>()?;
            settings.push((key.to_owned(), entries.into()));
        }
        Ok(settings)
    }

    fn entry(&self, part: Part, vocab: &Vocab) -> Result<String> {
        let (name, of_type) = match part {
            Part::Text(name, of_type) => (format!("${name}"), of_type),
            Part::Token(id, of_type) => match vocab.token(id) {
                Some(text) if vocab.find(text) == Some(id) => (text.to_owned(), of_type),
                _ => return Err(self.broken("post_processor", &format!("the vocabulary has no token of its own {id}"))),
            },
        };
        // `:N` behind a text is its type, so that one that ends so needs another.
        let ambiguous = name.rsplit_once(':').is_some_and(|(_, n)| n.parse::<u32>().is_ok());
        Ok(if of_type != 0 || ambiguous { format!("{name}:{of_type}") } else { name })
    }

    fn template_parts(&self, part: &Value, key: &str) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        for piece in part[key].as_array().into_iter().flatten() {
            if let Some(sequence) = piece.get("Sequence") {
                let name = match sequence["id"].as_str() {
                    Some("A") => 'A',
                    Some("B") => 'B',
                    _ => return Err(self.broken("post_processor", &format!("`{key}` has a text that is not A or B"))),
                };
                parts.push(Part::Text(name, sequence["type_id"].as_u64().unwrap_or(0)));
                continue;
            }
            let token = &piece["SpecialToken"];
            let name = token["id"].as_str().unwrap_or_default();
            let Some(ids) = part["special_tokens"][name]["ids"].as_array() else {
                return Err(self.broken("post_processor", &format!("`special_tokens` has no `{}`", clip(name))));
            };
            for id in ids {
                parts.push(Part::Token(self.id(id, "post_processor")?, token["type_id"].as_u64().unwrap_or(0)));
            }
        }
        Ok(parts)
    }

    /// The tokens `cls` and `sep`, each a text with its id.
    fn processing_tokens(&self, part: &Value, vocab: &Vocab) -> Result<[u32; 2]> {
        let token = |key: &str| -> Result<u32> {
            let id = self.id(&part[key][1], "post_processor")?;
            match part[key][0].as_str() {
                Some(text) if vocab.token(id) == Some(text) => Ok(id),
                _ => Err(self.broken("post_processor", &format!("`{key}` is not token {id} of the vocabulary"))),
            }
        };
        Ok([token("cls")?, token("sep")?])
    }
}
