//! The `vocab` section: token texts, merges, tokens matched verbatim, scores, and the pieces of a SentencePiece model.
//!
//! A vocabulary of 262,144 tokens with 500,000 merges is some 20 MB of TOML. The shape that writers give it is read line
//! by line; any other TOML goes through a full parser, which also words every error.

mod pieces;
mod read;

use std::fmt::Write as _;

use crate::error::Result;
use crate::toml_text::push_quoted;
pub use pieces::{Piece, PieceKind};

/// A tokenizer's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocab {
    /// The text of each id; `None` for an id that has none.
    pub tokens: Vec<Option<String>>,
    /// Pairs that are joined, by descending priority.
    pub merges: Merges,
    /// Tokens matched verbatim before anything else, by ascending id.
    pub added: Vec<AddedToken>,
    /// For `unigram`, the score of each id × 65536; 0 for an id without text.
    pub scores: Option<Vec<i64>>,
    /// For `sentencepiece`, what text is cut into, whatever ids that has, in the order of the model.
    pub pieces: Vec<Piece>,
}

/// A token that is matched verbatim in the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedToken {
    /// Its id.
    pub id: u32,
    /// The text that it matches.
    pub text: String,
    /// Left out when ids are turned back into text.
    pub special: bool,
    /// Takes white space on its left along.
    pub lstrip: bool,
    /// Takes white space on its right along.
    pub rstrip: bool,
    /// Matched after normalisation instead of before.
    pub normalized: bool,
}

/// Pairs of texts in the order of their ranks, in one block of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merges {
    /// All texts, left and right in turn, without separators.
    text: String,
    /// Where the left and the right text of each pair end in `text`.
    ends: Vec<(u32, u32)>,
}

impl Merges {
    /// The pairs, first rank first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + '_ {
        (0..self.ends.len()).map(|i| self.pair(i))
    }

    /// The pair of a rank.
    pub fn get(&self, rank: usize) -> Option<(&str, &str)> {
        (rank < self.ends.len()).then(|| self.pair(rank))
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds a pair after the others. The texts of all merges together are limited to 4 GiB; a pair beyond is left out,
    /// and `false` is returned.
    #[must_use]
    pub fn push(&mut self, left: &str, right: &str) -> bool {
        let start = self.text.len();
        let ends = u32::try_from(start + left.len()).ok().zip(u32::try_from(start + left.len() + right.len()).ok());
        let Some(ends) = ends else {
            return false;
        };
        self.text.push_str(left);
        self.text.push_str(right);
        self.ends.push(ends);
        true
    }

    /// Makes room for so many more bytes of text and pairs.
    fn reserve(&mut self, text: usize, pairs: usize) {
        self.text.reserve(text);
        self.ends.reserve(pairs);
    }

    fn pair(&self, i: usize) -> (&str, &str) {
        let start = if i == 0 { 0 } else { self.ends[i - 1].1 as usize };
        let (middle, end) = self.ends[i];
        (&self.text[start..middle as usize], &self.text[middle as usize..end as usize])
    }
}

impl<L: AsRef<str>, R: AsRef<str>> FromIterator<(L, R)> for Merges {
    /// Collects pairs; those beyond 4 GiB of text are left out.
    fn from_iter<I: IntoIterator<Item = (L, R)>>(pairs: I) -> Self {
        let mut merges = Self::default();
        for (left, right) in pairs {
            if !merges.push(left.as_ref(), right.as_ref()) {
                break;
            }
        }
        merges
    }
}

impl Vocab {
    /// Parses the text of the section. Errors name the line of `text`.
    pub fn parse(text: &str) -> Result<Self> {
        read::parse(text)
    }

    /// The text of the section: `{}` for a model without a tokenizer.
    pub fn to_text(&self) -> String {
        if self.is_empty() {
            return "{}\n".into();
        }
        let mut out = String::with_capacity(self.tokens.len() * 20 + self.merges.text.len() + self.merges.len() * 20);
        // Writing to a String cannot fail, so the results of `write!` are dropped.
        out.push_str("[tokens]\n");
        for (id, token) in self.tokens.iter().enumerate() {
            if let Some(token) = token {
                let _ = write!(out, "{id} = ");
                push_quoted(&mut out, token);
                out.push('\n');
            }
        }
        if !self.merges.is_empty() {
            out.push_str("\n[merges]\n");
        }
        for (rank, (left, right)) in self.merges.iter().enumerate() {
            let _ = write!(out, "{rank} = [");
            push_quoted(&mut out, left);
            out.push_str(", ");
            push_quoted(&mut out, right);
            out.push_str("]\n");
        }
        if !self.added.is_empty() {
            out.push_str("\n[added]\n");
        }
        for token in &self.added {
            let _ = write!(out, "{} = {{ text = ", token.id);
            push_quoted(&mut out, &token.text);
            let _ = writeln!(
                out,
                ", special = {}, lstrip = {}, rstrip = {}, normalized = {} }}",
                token.special, token.lstrip, token.rstrip, token.normalized
            );
        }
        if let Some(scores) = &self.scores {
            out.push_str("\n[scores]\n");
            for (id, score) in scores.iter().enumerate() {
                if self.tokens.get(id).is_some_and(Option::is_some) {
                    let _ = writeln!(out, "{id} = {score}");
                }
            }
        }
        if !self.pieces.is_empty() {
            pieces::write(&mut out, &self.pieces);
        }
        out
    }

    /// Whether there is no token at all: a model without a tokenizer.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty() && self.added.is_empty()
    }

    /// One more than the greatest id.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The text of an id.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(id as usize)?.as_deref()
    }

    /// The id of a text: an added token if there is one, else the first token. Looks at every token.
    pub fn find(&self, text: &str) -> Option<u32> {
        if let Some(token) = self.added.iter().find(|t| t.text == text) {
            return Some(token.id);
        }
        let at = self.tokens.iter().position(|t| t.as_deref() == Some(text))?;
        u32::try_from(at).ok()
    }

    /// Every token matched verbatim, by ascending id: those of `[added]`, and each token of the form `<|…|>`, which is special.
    pub fn verbatim(&self) -> Vec<AddedToken> {
        let mut all = self.added.clone();
        let declared: std::collections::HashSet<u32> = all.iter().map(|t| t.id).collect();
        for (id, token) in (0u32..).zip(&self.tokens) {
            if let Some(text) = token.as_deref().filter(|t| is_marker(t) && !declared.contains(&id)) {
                all.push(AddedToken { id, text: text.to_owned(), special: true, ..AddedToken::default() });
            }
        }
        all.sort_by_key(|t| t.id);
        all
    }

    /// How many ids below the greatest have no text.
    pub fn gaps(&self) -> usize {
        self.tokens.iter().filter(|t| t.is_none()).count()
    }

    /// What is odd about the vocabulary without making it unusable.
    pub fn warnings(&self) -> Vec<String> {
        let gaps = self.gaps();
        let first = self.tokens.iter().position(Option::is_none);
        first
            .map(|id| format!("{gaps} ids below {} have no token; the first is {id}", self.len()))
            .into_iter()
            .collect()
    }
}

/// `<|…|>` with something in between.
fn is_marker(token: &str) -> bool {
    token.len() > 4 && token.starts_with("<|") && token.ends_with("|>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vocab {
        let texts = ["<unk>", "a", "\u{2581}b", "\"\\\n\u{7f}\u{1}", "<|im_end|>", "日本", ""];
        let mut tokens: Vec<Option<String>> = texts.iter().map(|t| Some((*t).to_owned())).collect();
        tokens.insert(3, None);
        Vocab {
            scores: Some(
                tokens.iter().enumerate().map(|(i, t)| if t.is_some() { -(i as i64) * 65536 } else { 0 }).collect(),
            ),
            tokens,
            merges: [("a", "\u{2581}b"), ("\"", "]"), ("", "x")].into_iter().collect(),
            added: vec![AddedToken {
                id: 1,
                text: "a".into(),
                special: false,
                lstrip: true,
                rstrip: false,
                normalized: true,
            }],
            pieces: PieceKind::ALL
                .map(|kind| Piece { text: format!("\u{2581}\"{}", kind.name()), score: -7, kind })
                .to_vec(),
        }
    }

    #[test]
    fn text_round_trips_through_both_readers() {
        let vocab = sample();
        let text = vocab.to_text();
        assert_eq!(read::parse_lines(&text).as_ref(), Some(&vocab), "{text}");
        assert_eq!(read::parse_full(&text).unwrap(), vocab, "{text}");
        assert_eq!(Vocab::parse(&text).unwrap(), vocab);
        assert_eq!(vocab.warnings(), ["1 ids below 8 have no token; the first is 3"]);
    }

    #[test]
    fn an_empty_vocabulary_has_its_own_spelling() {
        for text in ["{}", "{}\n", "", "\n", "# nothing\n"] {
            assert!(Vocab::parse(text).unwrap().is_empty(), "{text:?}");
        }
        assert_eq!(Vocab::default().to_text(), "{}\n");
    }

    #[test]
    fn markers_are_special_without_being_declared() {
        let all = sample().verbatim();
        let ids: Vec<(u32, bool)> = all.iter().map(|t| (t.id, t.special)).collect();
        assert_eq!(ids, [(1, false), (5, true)]);
        assert!(!is_marker("<||>"));
        assert_eq!(sample().find("<|im_end|>"), Some(5));
        assert_eq!(sample().find("nowhere"), None);
    }

    #[test]
    fn other_spellings_are_read_by_the_full_parser() {
        let text = "tokens.0 = 'a'\ntokens.\"1\" = \"\"\"b\"\"\"\n[merges]\n1 = ['b', 'c']\n0 = [\n 'a',\n 'b' ]\n[added.2]\ntext = \"z\"\nspecial = true\n";
        assert!(read::parse_lines(text).is_none());
        let vocab = Vocab::parse(text).unwrap();
        assert_eq!(vocab.tokens, [Some("a".to_owned()), Some("b".to_owned()), Some("z".to_owned())]);
        assert_eq!(vocab.merges.iter().collect::<Vec<_>>(), [("a", "b"), ("b", "c")]);
        assert!(vocab.added[0].special);
    }

    #[test]
    fn faults_are_named_with_their_lines() {
        let cases = [
            ("[tokens]\n0 = \"a\"\n0 = \"b\"\n", "line 3, column 1: invalid TOML: duplicate key"),
            ("[tokens]\n0 = 5\n", "line 2: the token 0 is integer, not a string"),
            ("[tokens]\nx = \"a\"\n", "line 2: `x` is no token id"),
            ("[tokens]\n4000000000 = \"a\"\n", "line 2: the token id 4000000000 is far beyond"),
            ("[tokens]\n-1 = \"a\"\n", "line 2: `-1` is no token id"),
            ("[merges]\n0 = [\"a\"]\n", "line 2: the merge 0 is not a pair of strings"),
            ("[merges]\n0 = [\"a\", 1]\n", "the merge 0 is not a pair of strings"),
            ("[added]\n0 = { special = true }\n", "line 2: the added token 0 has no `text`"),
            ("[added]\n0 = { text = \"a\", wide = true }\n", "the key `wide` of the added token 0 is not known"),
            ("[added]\n0 = { text = \"a\", special = 1 }\n", "`special` of the added token 0 is integer"),
            (
                "[tokens]\n0 = \"a\"\n[added]\n0 = { text = \"b\" }\n",
                "the added token 0 is \"b\", but `[tokens]` has \"a\"",
            ),
            ("[tokens]\n0 = \"a\"\n1 = \"b\"\n[scores]\n0 = 1\n", "1 tokens have no score; the first is 1"),
            ("[tokens]\n0 = \"a\"\n[scores]\n0 = 1.5\n", "the score 0 is float"),
            ("[pieces]\n0 = [\"a\"]\n", "line 2: the piece 0 is no text with a score"),
            ("[pieces]\n0 = [\"a\", 1, \"odd\"]\n", "line 2: the piece 0 is no text with a score"),
            ("[pieces]\n99999999 = [\"a\", 1]\n", "line 2: the piece 99999999 is no text with a score"),
            ("[words]\n0 = \"a\"\n", "line 1: the table `words` is not known"),
            ("[tokens]\n0 = \"a\n", "line 2"),
            ("tokens = 3\n", "`tokens` is integer, not a table"),
        ];
        for (text, want) in cases {
            let error = Vocab::parse(text).unwrap_err().to_string();
            assert!(error.contains(want), "{error}\n  should hold\n{want}");
        }
    }

    #[test]
    fn scores_of_added_tokens_may_be_left_out() {
        let vocab =
            Vocab::parse("[tokens]\n0 = \"a\"\n1 = \"b\"\n[added]\n1 = { text = \"b\" }\n[scores]\n0 = -65536\n")
                .unwrap();
        assert_eq!(vocab.scores, Some(vec![-65536, 0]));
    }
}
