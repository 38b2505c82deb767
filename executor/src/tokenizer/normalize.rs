//! Normalisation of text before it is cut into words.

use super::charsmap::Charsmap;
use super::{SPACE_SIGN, TokenizerError};
use std::borrow::Cow;
use tokenizers::normalizers::{BertNormalizer, NFC, NFD, NFKC, NFKD, Nmt, NormalizerWrapper, StripAccents};
use tokenizers::{NormalizedString, Normalizer as _};

/// Normalisation steps, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Normalizer {
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    /// A step of the library, and what it leaves as it is.
    Library(Box<NormalizerWrapper>, Unchanged),
    Lowercase,
    /// White space at the beginning or the end goes.
    Strip {
        left: bool,
        right: bool,
    },
    /// White space of any kind and length becomes a space.
    WhiteSpace,
    /// White space of two characters and more becomes a space, and so do ends of lines and tabs.
    WhiteRuns,
    /// Several spaces in a row become this.
    Spaces(char),
    /// Punctuation of ASCII goes.
    NoPunctuation,
    /// This becomes that.
    Replace(&'static str, &'static str),
    Charsmap(Charsmap),
}

/// Text that a step of the library does not change, and that need not be given to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unchanged {
    Ascii,
    /// ASCII without control characters.
    PrintableAscii,
}

impl Unchanged {
    fn holds(self, text: &str) -> bool {
        match self {
            Unchanged::Ascii => text.is_ascii(),
            Unchanged::PrintableAscii => text.bytes().all(|b| b.is_ascii() && !b.is_ascii_control()),
        }
    }
}

/// The names of all steps.
pub(super) const STEPS: &str = "none, nfc, nfd, nfkc, nfkd, nmt, lowercase, clean_text, chinese_chars, strip_accents, strip_marks, strip, strip_left, strip_right, white_space, white_runs, single_space, space_sign, back_quotes, apostrophes, no_punctuation, precompiled";

impl Normalizer {
    /// The normaliser that `name` describes: `none`, one of [`STEPS`], or several joined by commas. `charsmap` is the map of
    /// the step `precompiled`. Errors: a name that is none of these; no map, or a broken one.
    pub(super) fn named(name: &str, charsmap: Option<&str>) -> Result<Self, TokenizerError> {
        let library = |step: NormalizerWrapper, unchanged| Step::Library(Box::new(step), unchanged);
        // One of the four things that BERT's normaliser may do.
        let bert = |clean: bool, chinese: bool, accents: bool| {
            let step = BertNormalizer::new(clean, chinese, Some(accents), false);
            library(step.into(), Unchanged::PrintableAscii)
        };
        let mut steps = Vec::new();
        for part in name.split(',').map(str::trim) {
            steps.push(match part.to_ascii_lowercase().as_str() {
                "none" | "" => continue,
                "nfc" => library(NFC.into(), Unchanged::Ascii),
                "nfd" => library(NFD.into(), Unchanged::Ascii),
                "nfkc" => library(NFKC.into(), Unchanged::Ascii),
                "nfkd" => library(NFKD.into(), Unchanged::Ascii),
                "nmt" => library(Nmt.into(), Unchanged::PrintableAscii),
                "lowercase" => Step::Lowercase,
                "clean_text" => bert(true, false, false),
                "chinese_chars" => bert(false, true, false),
                "strip_accents" => bert(false, false, true),
                "strip_marks" => library(StripAccents.into(), Unchanged::Ascii),
                "strip" => Step::Strip { left: true, right: true },
                "strip_left" => Step::Strip { left: true, right: false },
                "strip_right" => Step::Strip { left: false, right: true },
                "white_space" => Step::WhiteSpace,
                "white_runs" => Step::WhiteRuns,
                "single_space" => Step::Spaces(' '),
                "space_sign" => Step::Spaces(SPACE_SIGN),
                "back_quotes" => Step::Replace("``", "\""),
                "apostrophes" => Step::Replace("''", "\""),
                "no_punctuation" => Step::NoPunctuation,
                "precompiled" => Step::Charsmap(Charsmap::from_base64(charsmap.ok_or_else(|| {
                    TokenizerError::BadCharsmap { cause: "is missing, and `normalizer` wants it".to_owned() }
                })?)?),
                _ => {
                    return Err(TokenizerError::UnknownNormalizer { name: part.to_owned() });
                }
            });
        }
        Ok(Self { steps })
    }

    /// The normalised text. Errors: none but of the library, which gives none on these steps.
    pub(super) fn apply<'a>(&self, text: &'a str) -> Result<Cow<'a, str>, TokenizerError> {
        let mut text = Cow::Borrowed(text);
        for step in &self.steps {
            if let Some(changed) = step.apply(&text)? {
                text = Cow::Owned(changed);
            }
        }
        Ok(text)
    }
}

impl Step {
    /// What the step makes of a text; none where it stays as it is.
    fn apply(&self, text: &str) -> Result<Option<String>, TokenizerError> {
        let changed = |new: &str| (new != text).then(|| new.to_owned());
        Ok(match self {
            Step::Lowercase => text
                .chars()
                .any(|c| !c.to_lowercase().eq([c]))
                .then(|| text.chars().flat_map(char::to_lowercase).collect()),
            Step::Strip { left, right } => {
                let text = if *left { text.trim_start() } else { text };
                changed(if *right { text.trim_end() } else { text })
            }
            Step::WhiteSpace => changed(&joined_white_space(text, |_| true)),
            Step::WhiteRuns => {
                changed(&joined_white_space(text, |run| run.len() > 1 || matches!(run, [c] if "\n\r\t".contains(*c))))
            }
            Step::Spaces(by) => text.contains("  ").then(|| joined_spaces(text, *by)),
            Step::NoPunctuation => {
                let mark = |c: char| c.is_ascii_punctuation();
                text.contains(mark).then(|| text.replace(mark, ""))
            }
            Step::Replace(from, to) => text.contains(from).then(|| text.replace(from, to)),
            Step::Charsmap(map) => match map.apply(text) {
                Cow::Borrowed(_) => None,
                Cow::Owned(new) => Some(new),
            },
            Step::Library(_, unchanged) if unchanged.holds(text) => None,
            Step::Library(step, _) => {
                let mut string = NormalizedString::from(text);
                step.normalize(&mut string).map_err(|e| TokenizerError::Library { message: e.to_string() })?;
                changed(string.get())
            }
        })
    }
}

/// The text with one space in the place of white space of any length, where it `goes`.
fn joined_white_space(text: &str, goes: impl Fn(&[char]) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut run: Vec<char> = Vec::new();
    let end = |out: &mut String, run: &mut Vec<char>| {
        match !run.is_empty() && goes(run) {
            true => out.push(' '),
            false => out.extend(run.iter()),
        }
        run.clear();
    };
    for c in text.chars() {
        if c.is_whitespace() {
            run.push(c);
            continue;
        }
        end(&mut out, &mut run);
        out.push(c);
    }
    end(&mut out, &mut run);
    out
}

/// The text with one `by` in the place of two and more spaces in a row.
fn joined_spaces(text: &str, by: char) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("  ") {
        out.push_str(&rest[..at]);
        out.push(by);
        rest = rest[at..].trim_start_matches(' ');
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalises_as_named() {
        let apply = |name, text| Normalizer::named(name, None).unwrap().apply(text).unwrap().into_owned();
        assert_eq!(apply("none", "e\u{301}"), "e\u{301}");
        assert_eq!(apply("nfc", "e\u{301}"), "é");
        assert_eq!(apply("NFD", "é"), "e\u{301}");
        assert_eq!(apply("nfkc", "ﬁ"), "fi");
        assert_eq!(apply("nfkc, lowercase", "ﬁX"), "fix");
        assert_eq!(apply("clean_text", "a\tb\u{0}\u{200b}c\u{a0}d"), "a bc d");
        assert_eq!(apply("chinese_chars", "a日b"), "a 日 b");
        assert_eq!(apply("strip_accents,lowercase", "Ångström"), "angstrom");
        assert_eq!(apply("strip_marks", "é e\u{301}"), "é e");
        assert_eq!(apply("strip_right", " a \n"), " a");
        assert_eq!(apply("strip", " a \n"), "a");
        assert_eq!(apply("white_space", "\t a\u{a0}\nb"), " a b");
        assert_eq!(apply("white_runs", "a\u{a0}b \u{a0} c\nd  "), "a\u{a0}b c d ");
        assert_eq!(apply("single_space", "a   b  c d "), "a b c d ");
        assert_eq!(apply("space_sign", "a   b c  "), "a▁b c▁");
        assert_eq!(apply("no_punctuation", "a-b, «c»! (d_e)"), "ab «c» de");
        assert_eq!(apply("back_quotes,apostrophes", "``a''"), "\"a\"");
    }

    #[test]
    fn unknown_steps_and_missing_maps_are_errors() {
        let error = |name| Normalizer::named(name, None).unwrap_err();
        assert_eq!(error("nfc,stemming"), TokenizerError::UnknownNormalizer { name: "stemming".into() });
        assert!(matches!(error("precompiled"), TokenizerError::BadCharsmap { .. }));
        for step in STEPS.split(", ").filter(|step| *step != "precompiled") {
            assert!(Normalizer::named(step, None).is_ok(), "{step}");
        }
    }
}
