//! Unicode normalisation of text before it is cut into words.

use super::TokenizerError;
use std::borrow::Cow;
use tokenizers::NormalizedString;

/// Normalisation steps, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Normalizer {
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Lowercase,
}

impl Normalizer {
    /// The normaliser that `name` describes: `none`, one of `nfc`, `nfd`, `nfkc`, `nfkd`, `lowercase`, or several joined by
    /// commas. Errors: a name that is none of these.
    pub(super) fn named(name: &str) -> Result<Self, TokenizerError> {
        let mut steps = Vec::new();
        for part in name.split(',').map(str::trim) {
            steps.push(match part.to_ascii_lowercase().as_str() {
                "none" | "" => continue,
                "nfc" => Step::Nfc,
                "nfd" => Step::Nfd,
                "nfkc" => Step::Nfkc,
                "nfkd" => Step::Nfkd,
                "lowercase" => Step::Lowercase,
                _ => {
                    return Err(TokenizerError::UnknownNormalizer { name: part.to_owned() });
                }
            });
        }
        Ok(Self { steps })
    }

    /// The normalised text.
    pub(super) fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for step in &self.steps {
            let mut string = match step {
                Step::Lowercase => {
                    if text.chars().any(|c| !c.to_lowercase().eq([c])) {
                        text = Cow::Owned(text.chars().flat_map(char::to_lowercase).collect());
                    }
                    continue;
                }
                // The other steps leave ASCII as it is.
                _ if text.is_ascii() => continue,
                _ => NormalizedString::from(text.as_ref()),
            };
            match step {
                Step::Nfc => string.nfc(),
                Step::Nfd => string.nfd(),
                Step::Nfkc => string.nfkc(),
                Step::Nfkd => string.nfkd(),
                Step::Lowercase => string.lowercase(),
            };
            text = Cow::Owned(string.get().to_owned());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalises_as_named() {
        let apply = |name, text| Normalizer::named(name).unwrap().apply(text).into_owned();
        assert_eq!(apply("none", "e\u{301}"), "e\u{301}");
        assert_eq!(apply("nfc", "e\u{301}"), "é");
        assert_eq!(apply("NFD", "é"), "e\u{301}");
        assert_eq!(apply("nfkc", "ﬁ"), "fi");
        assert_eq!(apply("nfkc, lowercase", "ﬁX"), "fix");
        assert_eq!(Normalizer::named("nfc,strip"), Err(TokenizerError::UnknownNormalizer { name: "strip".into() }));
    }
}
