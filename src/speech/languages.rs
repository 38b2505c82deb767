//! Languages by the codes that whisper's tokens have.

use tallow_frontends::nearest::nearest;

/// Code and name of each.
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
pub(super) fn code(language: &str) -> Option<&'static str> {
    let wanted = language.trim().to_lowercase();
    let fits = |&&(code, name): &&(&str, &str)| code == wanted || name == wanted;
    let other = OTHER_NAMES.iter().find(|(_, name)| *name == wanted);
    LANGUAGES.iter().find(fits).or(other).map(|(code, _)| *code)
}

/// The name that was probably meant.
pub(super) fn near(language: &str) -> Option<&'static str> {
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
