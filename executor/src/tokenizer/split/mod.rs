//! Pre-tokenisers: cutting text into the words inside which merges happen.
//!
//! A pre-tokeniser is a list of stages. Each stage cuts every piece of the stage before it: what its pattern matches becomes a
//! piece, and so does each stretch between two matches. The patterns are those that models were trained with; well-known ones
//! run as hand-written [`rules`], the others on the `fancy-regex` engine.

mod class_table;
mod classes;
mod rules;

use super::TokenizerError;
use classes::Classes;
use fancy_regex::Regex;
use rules::{After, Rule, match_at};

/// Cuts text into words.
#[derive(Debug)]
pub(super) struct PreTokenizer {
    stages: Vec<Stage>,
    /// A word that is a token as it stands is that token, whatever the merges would make of it.
    pub(super) whole_words: bool,
    /// White space is left out: pieces of nothing else do not become words.
    drops_space: bool,
}

#[derive(Debug)]
enum Stage {
    Rules(&'static [Rule]),
    Pattern(Box<Regex>),
}

/// Steps that one match of a pattern may take back before it is given up.
const BACKTRACK_LIMIT: usize = 10_000_000;

impl PreTokenizer {
    /// The pre-tokeniser that cuts nothing.
    pub(super) fn none() -> Self {
        Self { stages: Vec::new(), whole_words: false, drops_space: false }
    }

    /// The pre-tokeniser of that name. Errors: no such name; it is known but not supported.
    pub(super) fn named(name: &str) -> Result<Self, TokenizerError> {
        let (parts, whole_words) =
            stages_of(name).ok_or_else(|| TokenizerError::UnknownPre { name: name.to_owned() })?;
        let stages = parts
            .iter()
            .map(|part| match part {
                Part::Rules(rules) => Ok(Stage::Rules(rules)),
                Part::Pattern(pattern) => compile(pattern),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { stages, whole_words, drops_space: name == "clip" })
    }

    /// A pre-tokeniser with one explicit regular expression. Errors: it does not compile.
    pub(super) fn from_pattern(pattern: &str) -> Result<Self, TokenizerError> {
        let stage = match rules_of_pattern(pattern) {
            Some(rules) => Stage::Rules(rules),
            None => compile(pattern)?,
        };
        Ok(Self { stages: vec![stage], whole_words: false, drops_space: false })
    }

    /// Calls `word` with each piece of `text` in order; the pieces are not empty and together are `text`, less white space
    /// where it is left out.
    /// Errors: those of `word`; a pattern needs more steps than it may take.
    pub(super) fn split(
        &self,
        text: &str,
        word: &mut dyn FnMut(&str) -> Result<(), TokenizerError>,
    ) -> Result<(), TokenizerError> {
        if !self.drops_space {
            return split_stages(&self.stages, text, word);
        }
        split_stages(&self.stages, text, &mut |piece| match piece.trim().is_empty() {
            true => Ok(()),
            false => word(piece),
        })
    }
}

fn split_stages(
    stages: &[Stage],
    text: &str,
    word: &mut dyn FnMut(&str) -> Result<(), TokenizerError>,
) -> Result<(), TokenizerError> {
    if text.is_empty() {
        return Ok(());
    }
    let Some((stage, rest)) = stages.split_first() else {
        return word(text);
    };
    let mut done = 0;
    match stage {
        Stage::Rules(rules) => {
            let mut at = 0;
            while let Some(c) = text[at..].chars().next() {
                let Some(end) = match_at(rules, text, at) else {
                    at += c.len_utf8();
                    continue;
                };
                split_stages(rest, &text[done..at], word)?;
                split_stages(rest, &text[at..end], word)?;
                (at, done) = (end, end);
            }
        }
        Stage::Pattern(regex) => {
            for found in regex.find_iter(text) {
                let found = found.map_err(|error| TokenizerError::PatternLimit {
                    pattern: regex.as_str().to_owned(),
                    at: done,
                    message: error.to_string(),
                })?;
                split_stages(rest, &text[done..found.start()], word)?;
                split_stages(rest, found.as_str(), word)?;
                done = found.end();
            }
        }
    }
    split_stages(rest, &text[done..], word)
}

fn compile(pattern: &str) -> Result<Stage, TokenizerError> {
    fancy_regex::RegexBuilder::new(pattern)
        .backtrack_limit(BACKTRACK_LIMIT)
        .build()
        .map(|regex| Stage::Pattern(Box::new(regex)))
        .map_err(|error| TokenizerError::BadPattern { pattern: pattern.to_owned(), message: error.to_string() })
}

enum Part {
    Rules(&'static [Rule]),
    Pattern(&'static str),
}

const LETTER_OR_NUMBER: Classes = Classes::LETTER.or(Classes::NUMBER);
const LETTER_OR_MARK: Classes = Classes::LETTER.or(Classes::MARK);
/// `[^\s\p{L}\p{N}]`
const SYMBOLS: Classes = LETTER_OR_NUMBER.or(Classes::SPACE).not();

const fn spaced(body: Classes, after: After) -> Rule {
    Rule::Spaced { body, after }
}

const fn word(no_prefix: Classes, letters: Classes) -> Rule {
    Rule::Word { no_prefix, letters }
}

const FOLDED: Rule = Rule::Contraction { fold: true };

static GPT2: [Rule; 6] = [
    Rule::Contraction { fold: false },
    spaced(Classes::LETTER, After::Nothing),
    spaced(Classes::NUMBER, After::Nothing),
    spaced(SYMBOLS, After::Nothing),
    Rule::SpacesBeforeWord,
    Rule::Spaces,
];

static QWEN2: [Rule; 7] = [
    FOLDED,
    word(LETTER_OR_NUMBER, Classes::LETTER),
    Rule::Digits(1),
    spaced(SYMBOLS, After::Newlines),
    Rule::Newlines,
    Rule::SpacesBeforeWord,
    Rule::Spaces,
];

static LLAMA3: [Rule; 7] = [
    FOLDED,
    word(LETTER_OR_NUMBER, Classes::LETTER),
    Rule::Digits(3),
    spaced(SYMBOLS, After::Newlines),
    Rule::Newlines,
    Rule::SpacesBeforeWord,
    Rule::Spaces,
];

/// Llama 3's, with digits of any number: only used after a stage that has cut them into threes.
static MINICPM5: [Rule; 7] = [
    FOLDED,
    word(LETTER_OR_NUMBER, Classes::LETTER),
    Rule::Digits(usize::MAX),
    spaced(SYMBOLS, After::Newlines),
    Rule::Newlines,
    Rule::SpacesBeforeWord,
    Rule::Spaces,
];

static SEED_CODER: [Rule; 7] = [
    FOLDED,
    word(LETTER_OR_NUMBER, Classes::LETTER),
    Rule::Digits(1),
    spaced(SYMBOLS, After::Nothing),
    Rule::Newlines,
    Rule::SpacesBeforeWord,
    Rule::Spaces,
];

static QWEN35: [Rule; 7] = [
    FOLDED,
    word(LETTER_OR_NUMBER, LETTER_OR_MARK),
    Rule::Digits(1),
    spaced(LETTER_OR_NUMBER.or(Classes::MARK).or(Classes::SPACE).not(), After::Newlines),
    Rule::Newlines,
    Rule::SpacesBeforeWord,
    Rule::Spaces,
];

static TEKKEN: [Rule; 6] = [
    Rule::CasedWord { contraction: false },
    Rule::Digits(1),
    spaced(SYMBOLS, After::NewlinesAndSlashes),
    Rule::Newlines,
    Rule::SpacesBeforeWord,
    Rule::Spaces,
];

static GPT4O: [Rule; 6] = [
    Rule::CasedWord { contraction: true },
    Rule::Digits(3),
    spaced(SYMBOLS, After::NewlinesAndSlashes),
    Rule::Newlines,
    Rule::SpacesBeforeWord,
    Rule::Spaces,
];

static DEEPSEEK3: [Rule; 6] = [
    Rule::PunctuatedWord,
    word(Classes::LETTER.or(Classes::PUNCTUATION_OR_SYMBOL), LETTER_OR_MARK),
    spaced(Classes::PUNCTUATION_OR_SYMBOL, After::Newlines),
    Rule::Newlines,
    Rule::SpacesBeforeWord,
    Rule::Spaces,
];

static DIGIT: [Rule; 1] = [Rule::Digits(1)];
static THREE_DIGITS: [Rule; 1] = [Rule::Digits(3)];
static ALL_DIGITS: [Rule; 1] = [Rule::Digits(usize::MAX)];

/// The stages of a named pre-tokeniser, and whether a word that is a token as it stands is taken whole.
/// The names are those of the model families and those that GGUF files carry in `tokenizer.ggml.pre`.
fn stages_of(name: &str) -> Option<(Vec<Part>, bool)> {
    use Part::{Pattern, Rules};
    let cut = |parts: Vec<Part>| Some((parts, false));
    let whole = |parts: Vec<Part>| Some((parts, true));
    match name {
        "gpt2" | "gpt-2" | "phi-2" | "jina-es" | "jina-de" | "jina-v1-en" | "jina-v2-es" | "jina-v2-de"
        | "jina-v2-code" | "gigachat" | "a.x-4.0" | "mellum" | "modern-bert" | "roberta-bpe" | "mpt" | "olmo"
        | "jais" | "trillion" | "granite-docling" | "exaone4" => cut(vec![Rules(&GPT2)]),
        "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" | "minerva-7b" | "mellum2" => {
            cut(vec![Rules(&DIGIT), Rules(&GPT2)])
        }
        "qwen2" | "stablelm2" | "hunyuan" | "solar-open" | "deepseek-r1-qwen" | "kormo" | "f2llmv2" | "megrez"
        | "grok-2" => cut(vec![Rules(&QWEN2)]),
        "clip" => cut(vec![Pattern(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+")]),
        "qwen35" => cut(vec![Rules(&QWEN35)]),
        "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0" | "lfm2"
        | "jina-v5-nano" | "glm4" | "glm5" => whole(vec![Rules(&LLAMA3)]),
        "dbrx" | "smaug-bpe" | "chatglm-bpe" => cut(vec![Rules(&LLAMA3)]),
        "minicpm5" => whole(vec![Rules(&THREE_DIGITS), Rules(&MINICPM5)]),
        "seed-coder" => cut(vec![Rules(&SEED_CODER)]),
        "tekken" => whole(vec![Rules(&TEKKEN)]),
        "gpt-4o" | "gpt4o" | "llama4" | "kanana2" | "talkie" | "minimax-m2" => cut(vec![Rules(&GPT4O)]),
        "deepseek-v3" | "hunyuan-dense" | "joyai-llm" | "hy_v4" => {
            cut(vec![Rules(&THREE_DIGITS), Pattern("[一-龥぀-ゟ゠-ヿ]+"), Rules(&DEEPSEEK3)])
        }
        "deepseek-coder" => cut(vec![
            Pattern(r"[\r\n]"),
            Pattern(r"\s?\p{L}+"),
            Pattern(r"\s?\p{P}+"),
            Pattern("[一-龥ࠀ-一가-퟿]+"),
            Rules(&DIGIT),
        ]),
        "falcon" => cut(vec![Pattern(r"[\p{P}\$\+<=>\^~\|`]+"), Rules(&GPT2), Pattern("[0-9][0-9][0-9]")]),
        "default" => {
            cut(vec![Pattern(r"[\p{P}\$\+<=>\^~\|]+"), Rules(&GPT2), Rules(&ALL_DIGITS), Pattern("[0-9][0-9][0-9]")])
        }
        "poro-chat" | "bloom" | "gpt3-finnish" => cut(vec![Pattern(r" ?[^(\s|.,!?…。，、।۔،)]+")]),
        "viking" => cut(vec![Pattern(r" ?[^(\s|.,!?…。，、।۔،)]+"), Rules(&DIGIT)]),
        "gemma4" | "granite-embed-multi-311m" | "sarvam-moe" => cut(vec![Pattern(r"[^\n]+|[\n]+")]),
        _ => None,
    }
}

/// The rules that stand for a well-known pattern written out in full.
fn rules_of_pattern(pattern: &str) -> Option<&'static [Rule]> {
    PATTERNS.iter().find(|(known, _)| *known == pattern).map(|&(_, rules)| rules)
}

/// Well-known patterns, as tokenizer files spell them, and the rules that do the same.
static PATTERNS: [(&str, &[Rule]); 9] = [
    (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", &GPT2),
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        &QWEN2,
    ),
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        &LLAMA3,
    ),
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        &MINICPM5,
    ),
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
        &SEED_CODER,
    ),
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        &QWEN35,
    ),
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        &TEKKEN,
    ),
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        &GPT4O,
    ),
    (
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        &DEEPSEEK3,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(pre: &PreTokenizer, text: &str) -> Vec<String> {
        let mut out = Vec::new();
        pre.split(text, &mut |word| {
            out.push(word.to_owned());
            Ok(())
        })
        .unwrap();
        out
    }

    /// A small deterministic generator: the strings are the same in every run.
    fn random_text(state: &mut u64, alphabet: &[char]) -> String {
        let mut next = || {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*state >> 33) as usize
        };
        let length = next() % 24;
        (0..length).map(|_| alphabet[next() % alphabet.len()]).collect()
    }

    #[test]
    fn rules_agree_with_their_patterns() {
        let alphabet: Vec<char> = "  \t\n\r\u{a0}\u{3000}aZsStTrReEvVlLmMdD''''ſéÉßǅʰªא中あ한\u{301}\u{5bf}0129٣½Ⅷ.,!?/_-$+<=>^`|~…«€😀\u{200d}\u{7f}\u{0}"
            .chars()
            .collect();
        let mut state = 7;
        for (pattern, _) in &PATTERNS {
            let ours = PreTokenizer::from_pattern(pattern).unwrap();
            assert!(matches!(ours.stages[0], Stage::Rules(_)));
            let theirs =
                PreTokenizer { stages: vec![compile(pattern).unwrap()], whole_words: false, drops_space: false };
            for _ in 0..4000 {
                let text = random_text(&mut state, &alphabet);
                assert_eq!(pieces(&ours, &text), pieces(&theirs, &text), "{text:?} by {pattern}");
            }
        }
    }

    #[test]
    fn every_name_compiles_and_keeps_the_text() {
        let text = "It's 12345 o'clock,\r\n\n  中文かな한글 été $5.00!  \t";
        for name in [
            "gpt2",
            "smollm",
            "qwen2",
            "qwen35",
            "llama3",
            "dbrx",
            "minicpm5",
            "seed-coder",
            "tekken",
            "gpt-4o",
            "deepseek-v3",
            "deepseek-coder",
            "falcon",
            "default",
            "bloom",
            "viking",
            "gemma4",
        ] {
            let pre = PreTokenizer::named(name).unwrap();
            assert_eq!(pieces(&pre, text).concat(), text, "{name}");
        }
        assert!(matches!(PreTokenizer::named("no-such"), Err(TokenizerError::UnknownPre { .. })));
    }

    #[test]
    fn stages_cut_the_pieces_of_the_stage_before() {
        let pre = PreTokenizer::named("smollm").unwrap();
        assert_eq!(pieces(&pre, "a 12b"), ["a", " ", "1", "2", "b"]);
        let pre = PreTokenizer::named("default").unwrap();
        assert_eq!(pieces(&pre, "x 12345!?"), ["x", " ", "123", "45", "!?"]);
    }

    #[test]
    fn long_runs_take_linear_time() {
        for name in ["gpt2", "qwen2", "llama3", "tekken", "gpt-4o", "deepseek-v3"] {
            let pre = PreTokenizer::named(name).unwrap();
            for unit in [" ", "a", "A", "\n", "1", "!", "\u{301}", "ªA", " \n", "\t"] {
                let text = unit.repeat(1 << 20);
                assert_eq!(pieces(&pre, &text).concat(), text, "{name} {unit:?}");
                let text = text + "x";
                assert_eq!(pieces(&pre, &text).concat(), text, "{name} {unit:?}");
            }
        }
    }

    #[test]
    fn a_bad_pattern_is_an_error() {
        let error = PreTokenizer::from_pattern("(").unwrap_err().to_string();
        assert!(error.contains("pattern"), "{error}");
    }
}
