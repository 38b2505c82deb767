//! Languages: of a sound that is heard, of a text that is translated, and of what is written.

mod names;

use crate::{Error, GenerateOptions, Model, Result};
use tallow_executor::tokenizer::Languages;
use tallow_frontends::nearest::nearest;
use tallow_frontends::program::Driver;
use tallow_frontends::program::module::Start;

/// What stands around codes in tokens.
const SIGNS: [(&str, &str); 3] = [("<|", "|>"), ("__", "__"), (">>", "<<")];

/// The code in a token, as `ro` in `__ro__` and `<|ro|>`, and all of `ro_RO`.
pub(crate) fn code_of(token: &str) -> &str {
    let inner = |(open, close): &(&str, &str)| token.strip_prefix(open)?.strip_suffix(close);
    SIGNS.iter().find_map(inner).unwrap_or(token)
}

/// The token of a language among those of a model, by the token itself, its code, a plain code (`ro` for `ro_RO`), a code with
/// a region (`pt-BR` for `pt`) or an English name; or what is wrong with it.
pub(crate) fn find(tokens: &[(String, u32)], wanted: &str) -> std::result::Result<u32, String> {
    let lower = wanted.trim().to_lowercase();
    let same = lower.replace('-', "_");
    let exact = tokens.iter().find(|(token, _)| token.to_lowercase() == lower);
    if let Some((_, id)) = exact.or_else(|| tokens.iter().find(|(token, _)| code_of(token).to_lowercase() == same)) {
        return Ok(*id);
    }
    let whole = names::codes(wanted);
    let (language, region) = match same.split_once('_') {
        Some((language, region)) if whole.is_empty() => (language, Some(region)),
        _ => (same.as_str(), None),
    };
    let known = if region.is_some() { names::codes(language) } else { whole };
    let is = |own: &str| own == language || known.contains(&own);
    let fits = |token: &str| {
        let code = code_of(token).to_lowercase();
        match code.split_once('_') {
            None => is(&code),
            Some((own, place)) => is(own) && region.is_none_or(|region| agree(region, place)),
        }
    };
    match tokens.iter().filter(|(token, _)| fits(token)).collect::<Vec<_>>().as_slice() {
        [(_, id)] => Ok(*id),
        [] => Err(unknown(tokens, wanted, region, &known)),
        several => {
            let several: Vec<&str> = several.iter().map(|(token, _)| code_of(token)).collect();
            Err(format!("the language `{}` may be {}", shown(wanted), several.join(" or ")))
        }
    }
}

/// Whether what stands behind two codes does not tell them apart: `XX` is any place, and a place says nothing of a script.
fn agree(one: &str, other: &str) -> bool {
    one == other || one == "xx" || other == "xx" || one.len() != other.len()
}

fn shown(wanted: &str) -> String {
    wanted.chars().take(60).collect()
}

/// What is said of a language that is none of a model; `region` is that of its code, and `known` has the codes of the language.
fn unknown(tokens: &[(String, u32)], wanted: &str, region: Option<&str>, known: &[&str]) -> String {
    let own: Vec<&str> = tokens.iter().map(|(token, _)| code_of(token)).collect();
    let (shown, all) = (shown(wanted), own.join(", "));
    if region.is_none() && !known.is_empty() {
        return format!("it does not know the language `{shown}`; it knows {all}");
    }
    let language = |code: &str| code.split('_').next().is_some_and(|language| known.contains(&language));
    let code = region.and_then(|_| own.iter().copied().find(|code| language(code)).or_else(|| nearest(&shown, &own)));
    let has = |code: &str| own.iter().any(|own| own.split('_').next() == Some(code));
    let near = code.or_else(|| names::near(wanted, &has).filter(|_| known.is_empty()));
    let near = near.map_or(String::new(), |name| format!(" (did you mean `{name}`?)"));
    format!("there is no language `{shown}`{near}; it knows {all}")
}

/// The languages of a model that reads texts and writes others; none for any other model.
///
/// # Errors
/// A caller chooses languages where the model has none.
fn of(model: &Model, options: &GenerateOptions) -> Result<Languages> {
    let has = model.reads_source() && model.file().config().tokenizer()?.languages.is_some();
    let languages = if has { model.tokenizer()?.languages().clone() } else { Languages::default() };
    let chosen = [("--source-language", &options.source_language), ("--target-language", &options.target_language)];
    match chosen.iter().find(|(_, language)| language.is_some()) {
        Some((name, _)) if languages.tokens.is_empty() => {
            // A model without a tokenizer might have languages: what it lacks is the tokenizer.
            model.tokenizer()?;
            Err(refused(model, format!("it has no languages to choose from; leave `{name}` out")))
        }
        _ => Ok(languages),
    }
}

fn refused(model: &Model, cause: String) -> Error {
    Error::Usage(format!("{}: {cause}", model.file().label()))
}

/// The language that a caller chooses, else `own`.
fn chosen(model: &Model, languages: &Languages, wanted: Option<&str>, own: Option<u32>) -> Result<Option<u32>> {
    match wanted {
        Some(wanted) => find(&languages.tokens, wanted).map(Some).map_err(|cause| refused(model, cause)),
        None => Ok(own),
    }
}

fn missing(model: &Model, languages: &Languages, option: &str, what: &str) -> Error {
    let known: Vec<&str> = languages.tokens.iter().map(|(token, _)| code_of(token)).collect();
    refused(model, format!("the language {what} is not said; give `{option} CODE`, one of {}", known.join(", ")))
}

/// The token of the language that a text is in; `None` where the model has no languages.
///
/// # Errors
/// A language that the model does not know, or none said where it has no usual one.
pub(crate) fn source(model: &Model, options: &GenerateOptions) -> Result<Option<u32>> {
    let languages = of(model, options)?;
    if languages.tokens.is_empty() {
        return Ok(None);
    }
    match chosen(model, &languages, options.source_language.as_deref(), languages.source)? {
        None => Err(missing(model, &languages, "--source-language", "of the text")),
        id => Ok(id),
    }
}

/// How a text is generated, in the language that a caller chooses: it is the first token behind those that every text begins
/// with, or one of these where the model begins with a language.
///
/// # Errors
/// A language that the model does not know.
pub(crate) fn driver(model: &Model, options: &GenerateOptions) -> Result<Option<Driver>> {
    let languages = of(model, options)?;
    let Some(mut driver) = model.driver().cloned() else { return Ok(None) };
    let Some(id) = chosen(model, &languages, options.target_language.as_deref(), languages.target)? else {
        return Ok(Some(driver));
    };
    let first = match &mut driver.start {
        Start::Ids(ids) => ids.iter_mut().find(|id| languages.has(**id)),
        Start::Prompt => None,
    };
    let forced = driver.rules.first.is_some_and(|first| languages.has(first));
    match first {
        Some(first) => {
            *first = id;
            driver.rules.first = if forced { Some(id) } else { driver.rules.first };
        }
        None => driver.rules.first = Some(id),
    }
    Ok(Some(driver))
}

/// What a text to be translated begins with, once it is said which language that is in.
///
/// # Errors
/// A language that the model does not know, or none said where it has no usual one.
pub(crate) fn start(model: &Model, options: &GenerateOptions) -> Result<Vec<u32>> {
    let languages = of(model, options)?;
    let Some(driver) = driver(model, options)? else { return Ok(Vec::new()) };
    let ids = match driver.start {
        Start::Ids(ids) => ids,
        Start::Prompt => Vec::new(),
    };
    let says = ids.iter().copied().chain(driver.rules.first).any(|id| languages.has(id));
    match says || languages.tokens.is_empty() {
        true => Ok(ids),
        false => Err(missing(model, &languages, "--target-language", "to write")),
    }
}

impl Model {
    /// The codes of the languages that texts can be in and that can be written ([`GenerateOptions::source_language`]); empty
    /// for a model without such a choice.
    ///
    /// # Errors
    /// A tokenizer that cannot be read.
    pub fn languages(&self) -> Result<Vec<String>> {
        let languages = of(self, &GenerateOptions::default())?;
        Ok(languages.tokens.iter().map(|(token, _)| code_of(token).to_owned()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(codes: &'a [&'a str], wanted: &str) -> std::result::Result<&'a str, String> {
        let tokens: Vec<(String, u32)> = codes.iter().map(|code| (*code).to_owned()).zip(0..).collect();
        find(&tokens, wanted).map(|id| codes[id as usize])
    }

    #[test]
    fn names_and_other_codes_find_the_token() {
        let plain = [
            "__en__", "__zh__", "__pt__", "__ga__", "__jv__", "__ns__", "__ff__", "__or__", "__tl__", "__fa__",
            "__sl__",
        ];
        for (wanted, token) in [
            ("en_XX", "__en__"),
            ("zh-CN", "__zh__"),
            ("pt-BR", "__pt__"),
            ("por_Latn", "__pt__"),
            ("Irish", "__ga__"),
            ("jw", "__jv__"),
            ("javanese", "__jv__"),
            ("Northern Sotho", "__ns__"),
            ("nso", "__ns__"),
            ("Fulah", "__ff__"),
            ("Odia", "__or__"),
            ("Filipino", "__tl__"),
            ("Farsi", "__fa__"),
            ("Slovene", "__sl__"),
        ] {
            assert_eq!(of(&plain, wanted), Ok(token), "{wanted}");
        }
        let scripts = ["eng_Latn", "zho_Hans", "zho_Hant", "ibo_Latn", "nob_Latn", "nno_Latn", "pes_Arab"];
        for (wanted, token) in [
            ("en", "eng_Latn"),
            ("Igbo", "ibo_Latn"),
            ("no", "nob_Latn"),
            ("nynorsk", "nno_Latn"),
            ("en_XX", "eng_Latn"),
            ("farsi", "pes_Arab"),
            ("zho-hant", "zho_Hant"),
        ] {
            assert_eq!(of(&scripts, wanted), Ok(token), "{wanted}");
        }
        assert_eq!(of(&scripts, "zh-CN").unwrap_err(), "the language `zh-CN` may be zho_Hans or zho_Hant");
        let places = ["en_XX", "zh_CN", "ro_RO"];
        assert_eq!((of(&places, "zh-CN"), of(&places, "en-GB")), (Ok("zh_CN"), Ok("en_XX")));
        assert_eq!((of(&places, "zho_Hans"), of(&["<|jw|>"], "jv")), (Ok("zh_CN"), Ok("<|jw|>")));
    }

    #[test]
    fn a_language_that_is_none_of_the_model_is_said_with_what_was_meant() {
        for (codes, wanted, part) in [
            (&["en_XX", "ro_RO"][..], "ro_MD", "there is no language `ro_MD` (did you mean `ro_RO`?)"),
            (&["__ga__", "__en__"], "Irsh", "(did you mean `irish`?)"),
            (&["__ga__", "__en__"], "Welsh", "it does not know the language `Welsh`; it knows ga, en"),
            (&["__en__"], "tlh", "there is no language `tlh`; it knows en"),
        ] {
            let error = of(codes, wanted).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
