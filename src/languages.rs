//! Languages: of a sound that is heard, of a text that is translated, and of what is written.

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

/// The token of a language among those of a model, by the token itself, its code, a plain code (`ro` for `ro_RO`) or an English
/// name; or what is wrong with it.
pub(crate) fn find(tokens: &[(String, u32)], wanted: &str) -> std::result::Result<u32, String> {
    let lower = wanted.trim().to_lowercase();
    let by = |fits: &dyn Fn(&str) -> bool| -> Vec<&(String, u32)> {
        tokens.iter().filter(|(token, _)| fits(&code_of(token).to_lowercase())).collect()
    };
    let code = code(wanted);
    let plain = code.unwrap_or(&lower);
    let exact = tokens.iter().find(|(token, _)| token.to_lowercase() == lower);
    let exact = exact.or_else(|| by(&|own| own == lower || own == plain).first().copied());
    if let Some((_, id)) = exact {
        return Ok(*id);
    }
    let known = || tokens.iter().map(|(token, _)| code_of(token)).collect::<Vec<_>>().join(", ");
    let shown: String = wanted.chars().take(60).collect();
    let near = match by(&|own| own.split_once('_').is_some_and(|(language, _)| language == plain)).as_slice() {
        [(_, id)] => return Ok(*id),
        [] if code.is_some() => return Err(format!("it does not know the language `{shown}`; it knows {}", known())),
        [] => near(wanted).map_or(String::new(), |name| format!(" (did you mean `{name}`?)")),
        several => {
            let several: Vec<&str> = several.iter().map(|(token, _)| code_of(token)).collect();
            return Err(format!("the language `{shown}` may be {}", several.join(" or ")));
        }
    };
    Err(format!("there is no language `{shown}`{near}; it knows {}", known()))
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

/// Code and name of each that whisper has.
const LANGUAGES: &[(&str, &str)] = &[
    ("en", "english"),
    ("zh", "chinese"),
    ("de", "german"),
    ("es", "spanish"),
    ("ru", "russian"),
    ("ko", "korean"),
    ("fr", "french"),
    ("ja", "japanese"),
    ("pt", "portuguese"),
    ("tr", "turkish"),
    ("pl", "polish"),
    ("ca", "catalan"),
    ("nl", "dutch"),
    ("ar", "arabic"),
    ("sv", "swedish"),
    ("it", "italian"),
    ("id", "indonesian"),
    ("hi", "hindi"),
    ("fi", "finnish"),
    ("vi", "vietnamese"),
    ("he", "hebrew"),
    ("uk", "ukrainian"),
    ("el", "greek"),
    ("ms", "malay"),
    ("cs", "czech"),
    ("ro", "romanian"),
    ("da", "danish"),
    ("hu", "hungarian"),
    ("ta", "tamil"),
    ("no", "norwegian"),
    ("th", "thai"),
    ("ur", "urdu"),
    ("hr", "croatian"),
    ("bg", "bulgarian"),
    ("lt", "lithuanian"),
    ("la", "latin"),
    ("mi", "maori"),
    ("ml", "malayalam"),
    ("cy", "welsh"),
    ("sk", "slovak"),
    ("te", "telugu"),
    ("fa", "persian"),
    ("lv", "latvian"),
    ("bn", "bengali"),
    ("sr", "serbian"),
    ("az", "azerbaijani"),
    ("sl", "slovenian"),
    ("kn", "kannada"),
    ("et", "estonian"),
    ("mk", "macedonian"),
    ("br", "breton"),
    ("eu", "basque"),
    ("is", "icelandic"),
    ("hy", "armenian"),
    ("ne", "nepali"),
    ("mn", "mongolian"),
    ("bs", "bosnian"),
    ("kk", "kazakh"),
    ("sq", "albanian"),
    ("sw", "swahili"),
    ("gl", "galician"),
    ("mr", "marathi"),
    ("pa", "punjabi"),
    ("si", "sinhala"),
    ("km", "khmer"),
    ("sn", "shona"),
    ("yo", "yoruba"),
    ("so", "somali"),
    ("af", "afrikaans"),
    ("oc", "occitan"),
    ("ka", "georgian"),
    ("be", "belarusian"),
    ("tg", "tajik"),
    ("sd", "sindhi"),
    ("gu", "gujarati"),
    ("am", "amharic"),
    ("yi", "yiddish"),
    ("lo", "lao"),
    ("uz", "uzbek"),
    ("fo", "faroese"),
    ("ht", "haitian creole"),
    ("ps", "pashto"),
    ("tk", "turkmen"),
    ("nn", "nynorsk"),
    ("mt", "maltese"),
    ("sa", "sanskrit"),
    ("lb", "luxembourgish"),
    ("my", "myanmar"),
    ("bo", "tibetan"),
    ("tl", "tagalog"),
    ("mg", "malagasy"),
    ("as", "assamese"),
    ("tt", "tatar"),
    ("haw", "hawaiian"),
    ("ln", "lingala"),
    ("ha", "hausa"),
    ("ba", "bashkir"),
    ("jw", "javanese"),
    ("su", "sundanese"),
    ("yue", "cantonese"),
];

/// Other names, with the codes that they stand for.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("my", "burmese"),
    ("ca", "valencian"),
    ("nl", "flemish"),
    ("ht", "haitian"),
    ("lb", "letzeburgesch"),
    ("ps", "pushto"),
    ("pa", "panjabi"),
    ("ro", "moldavian"),
    ("ro", "moldovan"),
    ("si", "sinhalese"),
    ("es", "castilian"),
    ("zh", "mandarin"),
];

/// The code of a language by its code or its English name, in any case.
fn code(language: &str) -> Option<&'static str> {
    let wanted = language.trim().to_lowercase();
    let fits = |&&(code, name): &&(&str, &str)| code == wanted || name == wanted;
    let other = OTHER_NAMES.iter().find(|(_, name)| *name == wanted);
    LANGUAGES.iter().find(fits).or(other).map(|(code, _)| *code)
}

/// The name that was probably meant.
fn near(language: &str) -> Option<&'static str> {
    let names: Vec<&'static str> = LANGUAGES.iter().chain(OTHER_NAMES).map(|(_, name)| *name).collect();
    nearest(language, &names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_have_codes_and_names() {
        assert_eq!(LANGUAGES.len(), 100);
        assert_eq!((code("de"), code("German"), code(" GERMAN ")), (Some("de"), Some("de"), Some("de")));
        assert_eq!((code("flemish"), code("haitian creole"), code("yue")), (Some("nl"), Some("ht"), Some("yue")));
        assert_eq!((code("klingon"), code("")), (None, None));
        assert_eq!((near("germn"), near("spanisch"), near("qqq")), (Some("german"), Some("spanish"), None));
    }
}
