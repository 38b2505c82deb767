//! Tokenizers that keep a SentencePiece model beside a vocabulary of their own: marian and m2m_100. The library has them in
//! Python alone, by way of SentencePiece itself, and so are they taken over: pieces with scores, and tokens with ids.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde_json::{Map, Value};
use tallow_format::vocab::{AddedToken, Piece, Vocab};

use super::TokenizerText;
use super::json::{NO_LIMIT, put, scaled_scores};
use super::specials::{Specials, Token};
use super::spm::Spm;
use super::vocab_json;
use crate::config::Ids;
use crate::error::{ImportError, Result, clip};

/// Special tokens of marian's class.
const MARIAN: [(&str, &str); 3] = [("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")];
/// Special tokens of m2m_100's class.
const M2M_100: [(&str, &str); 5] = [
    ("bos_token", "<s>"),
    ("eos_token", "</s>"),
    ("unk_token", "<unk>"),
    ("sep_token", "</s>"),
    ("pad_token", "<pad>"),
];

/// Codes of languages by the value of `language_codes`, in the order of their tokens.
const LANGUAGE_CODES: [(&str, &str); 2] = [
    (
        "m2m100",
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy \
         id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru \
         sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu",
    ),
    ("wmt21", "en ha is ja cs ru zh de"),
];

/// The classes, the types whose folders do not name one, and the files that they read together.
const FILES: [(&str, &str, [&str; 2]); 2] = [
    ("MarianTokenizer", "marian", ["source.spm", "vocab.json"]),
    ("M2M100Tokenizer", "m2m_100", ["sentencepiece.bpe.model", "vocab.json"]),
];

/// An error where one of the files of a folder of such a class is there, and the other is missing. `class` is what the folder
/// names.
pub(super) fn lacking(folder: &Path, class: Option<&str>, model_type: &str) -> Option<ImportError> {
    let has = |name: &str| folder.join(name).is_file();
    let marian = has("source.spm") || has("target.spm");
    let own = |(name, of_type, _): &&(&str, &str, [&str; 2])| match class {
        Some(class) => class == *name,
        None => model_type == *of_type || (*of_type == "marian" && marian),
    };
    let (name, of_type, files) = FILES.iter().find(own)?;
    let missing = *files.iter().find(|name| !has(name))?;
    let there = files.iter().copied().chain(["target.spm"]).find(|name| has(name))?;
    let cause = format!(
        "there is a `{there}` and no `tokenizer.json`, and {of_type}'s other file `{missing}` is missing: {name} reads {} together",
        files.map(|file| format!("`{file}`")).join(" and ")
    );
    let cure = format!(
        "Put the model's `{missing}` into the folder; without its tokenizer files the model is imported to take ids."
    );
    Some(ImportError::unsupported(folder, "tokenizer", cause, cure))
}

/// marian: `source.spm` cuts text, `vocab.json` has ids for the pieces of both sides.
pub(super) fn marian(folder: &Path) -> Result<TokenizerText> {
    let specials = Specials::read(folder)?;
    if specials.flag("separate_vocabs", false)? || folder.join("target_vocab.json").is_file() {
        return Err(ImportError::unsupported(
            folder,
            "setting `separate_vocabs`",
            "a vocabulary of its own for each side is not read",
            "Without its tokenizer files the model is imported to take ids.",
        ));
    }
    let spm = Spm::read(&folder.join("source.spm"))?;
    let mut made = Native::new(folder, &specials, &MARIAN)?;
    // The class refuses files that do not list the token for the unknown; others it adds.
    let unk = made.needed("unk_token")?;
    if !made.lists(&unk) {
        return Err(made.missing(&unk, "unk_token"));
    }
    let end = made.needed("eos_token")?;
    made.around(&["$A", &end], &["$A", "$B", &end]);
    made.set("leading_code", true);
    made.finish(&spm)
}

/// m2m_100: a token for each language behind those of `vocab.json`, of which one stands before a text.
pub(super) fn m2m_100(folder: &Path) -> Result<TokenizerText> {
    let specials = Specials::read(folder)?;
    let which = specials.text("language_codes")?.unwrap_or("m2m100");
    let Some((_, codes)) = LANGUAGE_CODES.iter().find(|(name, _)| *name == which) else {
        let known = LANGUAGE_CODES.map(|(name, _)| name).join(" and ");
        return Err(specials.broken("language_codes", format!("`{}` is not known; known are {known}", clip(which))));
    };
    let spm = Spm::read(&folder.join("sentencepiece.bpe.model"))?;
    let mut made = Native::new(folder, &specials, &M2M_100)?;
    let tokens: Vec<String> = codes.split(' ').map(|code| format!("__{code}__")).collect();
    for (at, token) in tokens.iter().enumerate() {
        made.language(made.listed + at, token)?;
    }
    let end = made.needed("eos_token")?;
    let first = tokens.iter().find(|token| *token == "__en__").unwrap_or(&tokens[0]);
    made.around(&[first, "$A", &end], &[first, "$A", "$B", &end]);
    made.languages(&tokens)?;
    made.finish(&spm)
}

fn id_of((id, text): (usize, &Option<String>)) -> Option<(String, usize)> {
    Some((text.clone()?, id))
}

/// A tokenizer in the making.
struct Native<'a> {
    folder: &'a Path,
    specials: &'a Specials,
    /// How many tokens `vocab.json` lists.
    listed: usize,
    /// What follows its greatest id.
    end: usize,
    vocab: Vocab,
    settings: Vec<(String, Value)>,
    config: Value,
}

impl<'a> Native<'a> {
    /// The tokens of `vocab.json`, and the special ones, which `usual` names where the folder does not.
    fn new(folder: &'a Path, specials: &'a Specials, usual: &[(&str, &str)]) -> Result<Self> {
        let options = specials.setting("sp_model_kwargs").and_then(Value::as_object).map_or(0, Map::len);
        if options > 0 {
            return Err(ImportError::unsupported(
                folder,
                "setting `sp_model_kwargs` of tokenizer_config.json",
                "options of SentencePiece are not read",
                "Empty it; sampling of pieces is for training.",
            ));
        }
        let tokens = vocab_json::by_id(&vocab_json::read(&folder.join("vocab.json"))?);
        let (listed, end) = (tokens.iter().flatten().count(), tokens.len());
        let vocab = Vocab { tokens, ..Vocab::default() };
        let settings = vec![("type".to_owned(), Value::from("sentencepiece"))];
        let mut made = Self { folder, specials, listed, end, vocab, settings, config: specials.config(usual) };
        for (id, token) in &specials.added {
            made.add(*id as usize, token)?;
        }
        // What the vocabulary lacks has ids behind all others.
        let mut behind = made.vocab.tokens.iter().flatten().count();
        let seen: HashSet<String> = made.vocab.added.iter().map(|token| token.text.clone()).collect();
        let ids: HashMap<String, usize> = made.vocab.tokens.iter().enumerate().filter_map(id_of).collect();
        for token in specials.all(usual)?.iter().filter(|token| !seen.contains(&token.text)) {
            let id = ids.get(&token.text).copied().unwrap_or(behind);
            behind += usize::from(id == behind);
            made.add(id, token)?;
        }
        Ok(made)
    }

    fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.settings.push((key.to_owned(), value.into()));
    }

    /// A verbatim token.
    fn add(&mut self, id: usize, token: &Token) -> Result<()> {
        if token.single_word {
            let cause = format!("`single_word` of `{}` is not read", clip(&token.text));
            let cure = "Without its tokenizer files the model is imported to take ids.";
            return Err(ImportError::unsupported(self.folder, "tokenizer_config.json", cause, cure));
        }
        let id = id as u32;
        if let Some(other) = put(&mut self.vocab.tokens, id, &token.text)
            && other != token.text
        {
            let cause = format!("token `{}` has the id {id}, which is that of `{}`", clip(&token.text), clip(&other));
            return Err(self.specials.broken("added tokens", cause));
        }
        let Token { lstrip, rstrip, special, .. } = *token;
        self.vocab.added.push(AddedToken { id, text: token.text.clone(), special, lstrip, rstrip, normalized: false });
        Ok(())
    }

    /// The token of a language, which may be listed already.
    fn language(&mut self, id: usize, text: &str) -> Result<()> {
        match self.vocab.added.iter().find(|token| token.text == text) {
            Some(token) if token.id as usize == id => Ok(()),
            Some(token) => {
                let cause = format!("token `{text}` has the id {}, and its place gives it {id}", token.id);
                Err(self.specials.broken("added tokens", cause))
            }
            None => self.add(id, &Token::special(text)),
        }
    }

    /// The text of a special token that the vocabulary must have.
    fn needed(&self, key: &str) -> Result<String> {
        let text = super::json::token_text(Some(&self.config), key).unwrap_or_default();
        match self.vocab.find(text) {
            Some(_) => Ok(text.to_owned()),
            None => Err(self.missing(text, key)),
        }
    }

    /// Whether `vocab.json` itself lists a token.
    fn lists(&self, text: &str) -> bool {
        self.vocab.find(text).is_some_and(|id| (id as usize) < self.end)
    }

    fn missing(&self, text: &str, key: &str) -> ImportError {
        ImportError::malformed(
            &self.folder.join("vocab.json"),
            format!("token `{}`", clip(text)),
            format!("it is missing, and the tokenizer needs it as `{key}`"),
            "Download the file again.",
        )
    }

    /// What stands around a text, and around two.
    fn around(&mut self, single: &[&str], pair: &[&str]) {
        self.set("add_bos", false);
        self.set("add_eos", true);
        self.set("template", single.to_vec());
        self.set("pair_template", pair.to_vec());
    }

    /// The tokens of languages, and those that the folder chooses.
    fn languages(&mut self, tokens: &[String]) -> Result<()> {
        self.set("languages", tokens.to_vec());
        for (own, key) in [("src_lang", "source_language"), ("tgt_lang", "target_language")] {
            let Some(code) = self.specials.text(own)? else { continue };
            let token = format!("__{code}__");
            if !tokens.contains(&token) {
                return Err(self.specials.broken(own, format!("the model knows no language `{}`", clip(code))));
            }
            self.set(key, token);
        }
        Ok(())
    }

    fn finish(mut self, spm: &Spm) -> Result<TokenizerText> {
        let unk = self.needed("unk_token")?;
        self.set("unk_token", unk.clone());
        self.set("algorithm", if spm.merges { "bpe" } else { "unigram" });
        self.set("byte_fallback", spm.byte_fallback);
        self.set("add_prefix_space", spm.prefix);
        self.set("single_spaces", spm.single_spaces);
        if let Some(map) = spm.charsmap() {
            self.set("charsmap", map);
        }
        let (scores, scale) = scaled_scores(spm.pieces.iter().map(|(_, score, _)| f64::from(*score)));
        if let Some(scale) = scale {
            self.set("score_scale", scale);
        }
        let pieces = spm.pieces.iter().zip(scores);
        self.vocab.pieces =
            pieces.map(|((text, _, kind), score)| Piece { text: text.clone(), score, kind: *kind }).collect();
        if let Some(length) = self.specials.setting("model_max_length").and_then(Value::as_u64)
            && (1..NO_LIMIT).contains(&length)
        {
            self.set("max_length", length);
        }
        self.vocab.added.sort_by_key(|token| token.id);
        let id = |key: &str| super::json::token_text(Some(&self.config), key).and_then(|text| self.vocab.find(text));
        let mut ids = Ids { bos: id("bos_token"), pad: id("pad_token"), unk: self.vocab.find(&unk), eos: Vec::new() };
        if let Some(end) = id("eos_token") {
            ids.add_eos(end);
        }
        let mut warnings = Vec::new();
        if self.specials.flag("clean_up_tokenization_spaces", false)? {
            let what = "`clean_up_tokenization_spaces` has no effect: spaces before punctuation stay in decoded text.";
            warnings.push(what.to_owned());
        }
        Ok(TokenizerText { vocab: self.vocab, settings: self.settings, ids, warnings })
    }
}
