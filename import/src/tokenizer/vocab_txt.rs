//! `vocab.txt`, a WordPiece vocabulary before `tokenizer.json`: one token a line. With what the folder says of special tokens
//! and the flags of `tokenizer_config.json` it is said in the words of `tokenizer.json`, as the library's class makes it.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::specials::{Specials, Token};
use super::value::{Added, class_of, unknown_class};
use super::{TokenizerText, json as hugging_face};
use crate::error::{ImportError, Result, clip};

/// The file.
pub(super) const FILE: &str = "vocab.txt";

/// What a class makes of the file.
struct Class {
    /// Its names; that of older, faster forms has `Fast` behind.
    names: &'static [&'static str],
    /// Types whose folders do not name a class.
    types: &'static [&'static str],
    /// Its special tokens.
    usual: &'static [(&'static str, &'static str)],
    /// What puts tokens around texts.
    around: &'static str,
    /// Whether a mask that comes without flags takes the spaces before it along.
    mask_takes_spaces: bool,
}

const CLASSES: [Class; 2] = [
    Class {
        names: &["BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"],
        types: &["bert", "distilbert", "electra", "nomic_bert"],
        usual: &[
            ("unk_token", "[UNK]"),
            ("sep_token", "[SEP]"),
            ("pad_token", "[PAD]"),
            ("cls_token", "[CLS]"),
            ("mask_token", "[MASK]"),
        ],
        around: "BertProcessing",
        mask_takes_spaces: false,
    },
    Class {
        names: &["MPNetTokenizer"],
        types: &["mpnet"],
        usual: &[
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
            ("unk_token", "[UNK]"),
            ("sep_token", "</s>"),
            ("pad_token", "<pad>"),
            ("cls_token", "<s>"),
            ("mask_token", "<mask>"),
        ],
        around: "RobertaProcessing",
        mask_takes_spaces: true,
    },
];

/// The tokenizer of a folder that has the file.
pub(super) fn read(folder: &Path, model_type: &str) -> Result<TokenizerText> {
    let specials = Specials::read(folder)?;
    let types: Vec<(&str, &[&str])> = CLASSES.iter().map(|class| (class.names[0], class.types)).collect();
    let name = class_of(&specials, model_type, &types, FILE)?;
    let Some(class) = CLASSES.iter().find(|class| class.names.contains(&name.as_str())) else {
        return Err(unknown_class(&specials, &name, FILE));
    };
    let path = folder.join(FILE);
    let text = std::fs::read_to_string(&path).map_err(|e| ImportError::io(&path, "read the file", e))?;
    let mut vocab = Map::new();
    for (id, line) in text.lines().enumerate() {
        // Of two lines with one text the later holds, as in the original.
        vocab.insert(line.to_owned(), id.into());
    }
    let making = Making { class, name: &name, specials: &specials, path: &path };
    // A token that only the class names and the lines lack is left out: no row of the model is its own.
    let there = |(_, text): &&(&str, &str)| vocab.contains_key(*text);
    let usual: Vec<(&str, &str)> = class.usual.iter().filter(there).copied().collect();
    let config = specials.config(&usual);
    hugging_face::read_value(&path, &making.value(vocab, &usual)?, &config)
}

/// A tokenizer in the making.
struct Making<'a> {
    class: &'a Class,
    name: &'a str,
    specials: &'a Specials,
    path: &'a Path,
}

impl Making<'_> {
    fn value(&self, vocab: Map<String, Value>, usual: &[(&str, &str)]) -> Result<Value> {
        let specials = self.specials;
        let normalizer = self.normalizer()?;
        let [unk, cls, sep] =
            [self.needed(&vocab, "unk_token")?, self.needed(&vocab, "cls_token")?, self.needed(&vocab, "sep_token")?];
        let mut added = Added::new(vocab.iter().filter_map(|(text, id)| Some((text.as_str(), id.as_u64()?))));
        if let Some(mask) = self.mask(usual)? {
            added.add(&mask);
        }
        added.add_all(specials, usual)?;
        let [begin, end] = [(&cls, added.id(&cls)), (&sep, added.id(&sep))];
        let around = json!({ "type": self.class.around, "cls": begin, "sep": end });
        Ok(json!({
            "added_tokens": added.entries(), "normalizer": normalizer, "pre_tokenizer": { "type": "BertPreTokenizer" },
            "post_processor": around,
            "decoder": { "type": "WordPiece", "prefix": "##",
                "cleanup": specials.flag("clean_up_tokenization_spaces", true)? },
            "model": { "type": "WordPiece", "unk_token": unk, "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100, "vocab": vocab }
        }))
    }

    /// The text of a special token, which must be a token. Errors: it is none.
    fn needed(&self, vocab: &Map<String, Value>, key: &str) -> Result<String> {
        let text = self.specials.text_of(key, self.class.usual)?;
        if vocab.contains_key(&text) || self.specials.added.values().any(|token| token.text == text) {
            return Ok(text);
        }
        Err(ImportError::malformed(
            self.path,
            format!("token `{}`", clip(&text)),
            format!("it is not among the lines, and {} needs it", self.name),
            format!("If another token stands for it, name that as `{key}` in tokenizer_config.json."),
        ))
    }

    /// The mask of a class whose masks take spaces along, where no flags come with it.
    fn mask(&self, usual: &[(&str, &str)]) -> Result<Option<Token>> {
        let own = usual.iter().find(|(key, _)| *key == "mask_token").map(|(_, text)| *text);
        let plain = |token: &Token| {
            let object = self.specials.setting("mask_token").is_some_and(Value::is_object);
            !object && self.specials.added.values().all(|listed| listed.text != token.text)
        };
        let mask = self.specials.named("mask_token", own)?.filter(|token| self.class.mask_takes_spaces && plain(token));
        Ok(mask.map(|token| Token { lstrip: true, normalized: false, ..token }))
    }

    fn normalizer(&self) -> Result<Value> {
        let specials = self.specials;
        let unread = |key: &str| {
            ImportError::unsupported(
                self.path,
                format!("setting `{key}` of tokenizer_config.json"),
                "what it says is not read",
                "`AutoTokenizer.from_pretrained(folder).save_pretrained(folder)` writes a tokenizer.json, which says more.",
            )
        };
        if !specials.flag("do_basic_tokenize", true)? {
            return Err(unread("do_basic_tokenize"));
        }
        if specials.setting("never_split").is_some_and(|v| v.as_array().is_none_or(|list| !list.is_empty())) {
            return Err(unread("never_split"));
        }
        let accents = match specials.setting("strip_accents") {
            None => Value::Null,
            Some(_) => specials.flag("strip_accents", false)?.into(),
        };
        Ok(json!({ "type": "BertNormalizer", "clean_text": true,
            "handle_chinese_chars": specials.flag("tokenize_chinese_chars", true)?, "strip_accents": accents,
            "lowercase": specials.flag("do_lower_case", true)? }))
    }
}
