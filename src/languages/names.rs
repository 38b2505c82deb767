//! Codes and English names of languages.

use tallow_frontends::nearest::nearest;

/// Code and name of each that whisper has.
pub(super) const LANGUAGES: &[(&str, &str)] = &[
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

/// Code and name of languages that other models have.
const MORE: &[(&str, &str)] = &[
    ("ast", "asturian"),
    ("ceb", "cebuano"),
    ("ff", "fulah"),
    ("fy", "western frisian"),
    ("ga", "irish"),
    ("gd", "scottish gaelic"),
    ("ig", "igbo"),
    ("ilo", "iloko"),
    ("lg", "ganda"),
    ("ns", "northern sotho"),
    ("or", "oriya"),
    ("ss", "swati"),
    ("tn", "tswana"),
    ("wo", "wolof"),
    ("xh", "xhosa"),
    ("zu", "zulu"),
    ("ak", "akan"),
    ("ay", "aymara"),
    ("ckb", "central kurdish"),
    ("dz", "dzongkha"),
    ("eo", "esperanto"),
    ("fj", "fijian"),
    ("gn", "guarani"),
    ("kmr", "northern kurdish"),
    ("ki", "kikuyu"),
    ("rw", "kinyarwanda"),
    ("ky", "kyrgyz"),
    ("mai", "maithili"),
    ("ny", "nyanja"),
    ("om", "oromo"),
    ("pap", "papiamento"),
    ("prs", "dari"),
    ("qu", "quechua"),
    ("rn", "rundi"),
    ("sm", "samoan"),
    ("scn", "sicilian"),
    ("sc", "sardinian"),
    ("st", "southern sotho"),
    ("ti", "tigrinya"),
    ("ts", "tsonga"),
    ("tw", "twi"),
    ("ug", "uyghur"),
    ("ee", "ewe"),
    ("bm", "bambara"),
    ("kg", "kongo"),
    ("li", "limburgish"),
    ("bho", "bhojpuri"),
    ("awa", "awadhi"),
    ("war", "waray"),
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
    ("fy", "frisian"),
    ("fy", "west frisian"),
    ("nn", "norwegian nynorsk"),
    ("no", "norwegian bokmal"),
    ("no", "norwegian bokmål"),
    ("no", "bokmål"),
    ("no", "bokmal"),
    ("sl", "slovene"),
    ("fa", "farsi"),
    ("tl", "filipino"),
    ("tl", "pilipino"),
    ("or", "odia"),
    ("ns", "sepedi"),
    ("ns", "pedi"),
    ("ff", "fula"),
    ("ff", "fulani"),
    ("ff", "fulfulde"),
    ("ilo", "ilocano"),
    ("ilo", "ilokano"),
    ("lg", "luganda"),
    ("ss", "swazi"),
    ("ss", "siswati"),
    ("tn", "setswana"),
    ("xh", "isixhosa"),
    ("zu", "isizulu"),
    ("km", "central khmer"),
    ("km", "cambodian"),
    ("st", "sesotho"),
    ("ny", "chichewa"),
    ("ny", "chewa"),
    ("rn", "kirundi"),
    ("ky", "kirghiz"),
    ("ckb", "sorani"),
    ("kmr", "kurmanji"),
    ("ug", "uighur"),
    ("mi", "māori"),
    ("bn", "bangla"),
    ("sw", "kiswahili"),
    ("gd", "gaelic"),
];

/// Codes that stand for one language, its own first: those of ISO 639-3, and of the one that models mean by a group of them.
const CODES: &str = "en eng|zh zho|de deu|es spa|ru rus|ko kor|fr fra|ja jpn|pt por|tr tur|pl pol|ca cat|nl nld\
    |ar ara arb|sv swe|it ita|id ind|hi hin|fi fin|vi vie|he heb|uk ukr|el ell|ms msa zsm|cs ces\
    |ro ron|da dan|hu hun|ta tam|no nb nor nob|th tha|ur urd|hr hrv|bg bul|lt lit|la lat|mi mri|ml mal\
    |cy cym|sk slk|te tel|fa fas pes|lv lav lvs|bn ben|sr srp|az aze azj|sl slv|kn kan|et est|mk mkd\
    |br bre|eu eus|is isl|hy hye|ne nep npi|mn mon khk|bs bos|kk kaz|sq sqi als|sw swa swh|gl glg\
    |mr mar|pa pan|si sin|km khm|sn sna|yo yor|so som|af afr|oc oci|ka kat|be bel|tg tgk|sd snd\
    |gu guj|am amh|yi yid ydd|lo lao|uz uzb uzn|fo fao|ht hat|ps pus pbt|tk tuk|nn nno|mt mlt|sa san\
    |lb ltz|my mya|bo bod|tl fil tgl|mg mlg plt|as asm|tt tat|ln lin|ha hau|ba bak|jw jv jav|su sun\
    |ff ful fuv|fy fry|ga gle|gd gla|ig ibo|lg lug|ns nso|or ori ory|ss ssw|tn tsn|wo wol|xh xho\
    |zu zul|ak aka|ay aym ayr|dz dzo|eo epo|fj fij|gn grn|kmr ku kur|ki kik|rw kin|ky kir|ny nya\
    |om orm gaz|qu que quy|rn run|sm smo|sc srd|st sot|ti tir|ts tso|tw twi|ug uig|ee ewe|bm bam\
    |kg kon|li lim";

/// The codes of a language by one of them or by an English name, in any case; none where it is not known.
pub(super) fn codes(language: &str) -> Vec<&'static str> {
    let wanted = language.trim().to_lowercase();
    let name = wanted.replace(['-', '_'], " ");
    let mut known = all().chain(OTHER_NAMES.iter().copied());
    let own =
        |of: &str| CODES.split('|').map(|codes| codes.split(' ')).find(|codes| codes.clone().any(|code| code == of));
    if let Some(codes) = own(&wanted) {
        return codes.collect();
    }
    let Some((code, _)) = known.find(|(code, own)| *code == wanted || *own == name) else { return Vec::new() };
    own(code).map_or_else(|| vec![code], Iterator::collect)
}

/// The name that was probably meant, of a language that `has` knows by its code.
pub(super) fn near(language: &str, has: &dyn Fn(&str) -> bool) -> Option<&'static str> {
    let known = all().chain(OTHER_NAMES.iter().copied());
    let names: Vec<&'static str> =
        known.filter(|(code, _)| codes(code).into_iter().any(has)).map(|(_, name)| name).collect();
    nearest(language, &names)
}

fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    LANGUAGES.iter().chain(MORE).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn languages_have_codes_and_names() {
        assert_eq!(LANGUAGES.len(), 100);
        let first = |language: &str| codes(language).first().copied();
        assert_eq!((first("de"), first("German"), first(" GERMAN ")), (Some("de"), Some("de"), Some("de")));
        assert_eq!((first("flemish"), first("haitian creole"), first("yue")), (Some("nl"), Some("ht"), Some("yue")));
        assert_eq!((first("klingon"), first("")), (None, None));
        assert_eq!((codes("jv"), codes("Javanese")), (vec!["jw", "jv", "jav"], vec!["jw", "jv", "jav"]));
        assert_eq!((first("Northern-Sotho"), first("odia"), first("Farsi")), (Some("ns"), Some("or"), Some("fa")));
        let near = |language: &str| near(language, &|_| true);
        assert_eq!((near("germn"), near("spanisch"), near("qqq")), (Some("german"), Some("spanish"), None));
        assert_eq!((near("Iris"), near("xosa")), (Some("irish"), Some("xhosa")));
        assert_eq!(super::near("Irsh", &|code| code == "de"), None, "a language that the model lacks is no cure");
    }

    #[test]
    fn each_code_and_each_name_stands_once() {
        let mut seen = HashSet::new();
        assert!(all().all(|(code, _)| seen.insert(code)));
        let mut names = HashSet::new();
        for (code, name) in all().chain(OTHER_NAMES.iter().copied()) {
            assert!(names.insert(name), "{name}");
            assert!(seen.contains(code), "{code}");
        }
        let mut listed = HashSet::new();
        for code in CODES.split('|').flat_map(|codes| codes.split(' ')) {
            assert!(listed.insert(code), "{code}");
        }
        assert!(CODES.split('|').all(|codes| codes.split(' ').next().is_some_and(|own| seen.contains(own))));
    }

    #[test]
    fn the_languages_of_translators_have_names() {
        let m2m_100 = "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr \
                       ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or \
                       pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu";
        let named = |code: &str| codes(code).into_iter().any(|code| all().any(|(own, _)| own == code));
        assert!(m2m_100.split(' ').all(named));
    }
}
