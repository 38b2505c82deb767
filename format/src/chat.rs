//! The `chat` section: how a conversation becomes a prompt.

use crate::error::{ErrorKind, FormatError, Result, list};
use crate::section::Section;
use crate::toml_text::{self, push_quoted};

/// A preset of turn markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChatFormat {
    /// `<|im_start|>role … <|im_end|>`
    ChatMl,
    /// `<|start_header_id|>role<|end_header_id|> … <|eot_id|>`
    Llama3,
    /// `<start_of_turn>role … <end_of_turn>`
    Gemma,
    /// The contents alone, one after another.
    Plain,
}

impl ChatFormat {
    /// Every preset.
    pub const ALL: [Self; 4] = [Self::ChatMl, Self::Llama3, Self::Gemma, Self::Plain];

    /// The value of `format`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ChatMl => "chatml",
            Self::Llama3 => "llama3",
            Self::Gemma => "gemma",
            Self::Plain => "plain",
        }
    }

    /// The preset of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// The section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatSection {
    /// The preset; a template wins over it.
    pub format: Option<ChatFormat>,
    /// A Jinja template.
    pub template: Option<String>,
    /// The system message where the conversation has none.
    pub system_default: Option<String>,
    /// Texts that end an answer.
    pub eos_sequences: Vec<String>,
}

impl ChatSection {
    /// Bytes of the longest template that is used; the longest known ones have some 30 KB.
    pub const MAX_TEMPLATE: usize = 1 << 20;

    /// Parses the text of the section. A preset that is not known is an error, unless a template makes it needless.
    pub fn parse(text: &str) -> Result<Self> {
        let doc = toml_text::parse(text)?;
        let section = Section::new("", doc.as_table());
        let template = section.str("template")?.filter(|t| !t.is_empty()).map(str::to_owned);
        let format = match section.str("format")? {
            None => None,
            Some(name) => match ChatFormat::from_name(name) {
                None if template.is_none() => {
                    return Err(FormatError::new(
                        ErrorKind::Unsupported,
                        format!("the chat format `{name}` is not known"),
                    )
                    .cure(format!(
                        "Choose one of {}, or give a `template`",
                        list(&ChatFormat::ALL.map(ChatFormat::name), 9)
                    )));
                }
                known => known,
            },
        };
        Ok(Self {
            format,
            template,
            system_default: section.str("system_default")?.map(str::to_owned),
            eos_sequences: section.strings("eos_sequences")?.unwrap_or_default(),
        })
    }

    /// The text of the section.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let mut put = |key: &str, value: &str| {
            out.push_str(key);
            out.push_str(" = ");
            push_quoted(&mut out, value);
            out.push('\n');
        };
        if let Some(format) = self.format {
            put("format", format.name());
        }
        if let Some(template) = &self.template {
            put("template", template);
        }
        if let Some(system) = &self.system_default {
            put("system_default", system);
        }
        if !self.eos_sequences.is_empty() {
            let all: Vec<String> = self.eos_sequences.iter().map(|s| toml_text::quoted(s)).collect();
            out.push_str(&format!("eos_sequences = [{}]\n", all.join(", ")));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_round_trips() {
        let chat = ChatSection {
            format: Some(ChatFormat::ChatMl),
            template: Some("{% for m in messages %}\n\"{{ m.content }}\"\\{% endfor %}".into()),
            system_default: Some("Be brief.".into()),
            eos_sequences: vec!["<|im_end|>".into(), "\u{7f}".into()],
        };
        assert_eq!(ChatSection::parse(&chat.to_text()).unwrap(), chat);
        assert_eq!(ChatSection::parse("").unwrap(), ChatSection::default());
    }

    #[test]
    fn a_multi_line_template_is_read_and_an_unknown_preset_is_not() {
        let chat = ChatSection::parse("format = \"mine\"\ntemplate = \"\"\"\na\nb\"\"\"\n").unwrap();
        assert_eq!((chat.format, chat.template.as_deref()), (None, Some("a\nb")));
        let error = ChatSection::parse("format = \"mine\"\n").unwrap_err();
        assert!(error.is_unsupported());
        assert!(error.to_string().contains("`mine` is not known. Choose one of `chatml`"), "{error}");
    }
}
