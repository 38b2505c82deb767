//! What encoding puts around a text, or around two, and how texts too long for a model are cut.

use super::{Encoding, TokenizerError};

/// What encoding makes of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Template {
    parts: Vec<Part>,
}

/// A text or a token, and the type of its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The text of this number.
    Text(usize, u32),
    /// A token.
    Token(u32, u32),
}

/// How texts stand in templates.
const TEXTS: [&str; 2] = ["$A", "$B"];

impl Template {
    /// A text between these tokens.
    pub(super) fn around(begin: Option<u32>, end: Option<u32>) -> Self {
        let token = |id| Part::Token(id, 0);
        let parts = begin.map(token).into_iter().chain([Part::Text(0, 0)]).chain(end.map(token));
        Self { parts: parts.collect() }
    }

    /// The template that `entries` spell, of so many texts: `$A`, `$B` and texts of tokens, each with `:N` behind where the
    /// tokens are of type N. Errors: a text that is no token; texts that are not there, or stand twice.
    pub(super) fn new(
        key: &'static str,
        entries: &[String],
        texts: usize,
        find: &dyn Fn(&str) -> Option<u32>,
    ) -> Result<Self, TokenizerError> {
        let fault = |cause: String| TokenizerError::BadTemplate { key, cause };
        let mut parts = Vec::with_capacity(entries.len());
        for entry in entries {
            let (name, of_type) = typed(entry);
            parts.push(match TEXTS[..texts].iter().position(|text| *text == name) {
                Some(n) => Part::Text(n, of_type),
                None => {
                    let id = find(name).ok_or_else(|| fault(format!("has \"{name}\", which is no token")))?;
                    Part::Token(id, of_type)
                }
            });
        }
        for (n, name) in TEXTS[..texts].iter().enumerate() {
            let count = parts.iter().filter(|part| matches!(part, Part::Text(m, _) if *m == n)).count();
            if count != 1 {
                return Err(fault(format!("has {name} {count} times")));
            }
        }
        Ok(Self { parts })
    }

    /// The same with `to` in the place of a token of `from`.
    pub(super) fn with(&self, from: &[u32], to: u32) -> Self {
        let put = |part: &Part| match *part {
            Part::Token(id, of_type) if from.contains(&id) => Part::Token(to, of_type),
            part => part,
        };
        Self { parts: self.parts.iter().map(put).collect() }
    }

    /// The token that it begins with, if that is the same for all texts.
    pub(super) fn begin(&self) -> Option<u32> {
        match self.parts.first() {
            Some(Part::Token(id, _)) => Some(*id),
            Some(Part::Text(..)) | None => None,
        }
    }

    /// The ids of texts, which are cut so that all is `limit` tokens long, if it can be that short.
    pub(super) fn fill(&self, texts: &[Vec<u32>], limit: Option<usize>) -> Encoding {
        let own = self.parts.iter().filter(|part| matches!(part, Part::Token(..))).count();
        let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
        let kept = match limit {
            Some(limit) => within(&lengths, limit.saturating_sub(own)),
            None => lengths.clone(),
        };
        let mut out = Encoding::default();
        for part in &self.parts {
            let (ids, of_type): (&[u32], u32) = match part {
                Part::Token(id, of_type) => (std::slice::from_ref(id), *of_type),
                Part::Text(n, of_type) => match (texts.get(*n), kept.get(*n)) {
                    (Some(ids), Some(&kept)) => (&ids[..kept], *of_type),
                    _ => (&[], *of_type),
                },
            };
            out.ids.extend_from_slice(ids);
            out.types.resize(out.ids.len(), of_type);
            out.around.resize(out.ids.len(), matches!(part, Part::Token(..)));
        }
        out.cut = lengths.iter().sum::<usize>() - kept.iter().sum::<usize>();
        out
    }
}

/// An entry without the `:N` behind it, and N.
fn typed(entry: &str) -> (&str, u32) {
    let parts = entry.rsplit_once(':').filter(|(name, _)| !name.is_empty());
    parts.and_then(|(name, n)| Some((name, n.parse().ok()?))).unwrap_or((entry, 0))
}

/// How much of each text stays so that all together have at most `limit` tokens: tokens are taken from the longer of two
/// texts until both are equally long, as the `tokenizers` library does for `longest_first`.
fn within(lengths: &[usize], limit: usize) -> Vec<usize> {
    if lengths.iter().sum::<usize>() <= limit {
        return lengths.to_vec();
    }
    let &[a, b] = lengths else { return lengths.iter().map(|&n| n.min(limit)).collect() };
    let (short, half) = (a.min(b), limit / 2);
    let (short, long) = match limit.checked_sub(short) {
        Some(long) if long >= short => (short, long),
        _ => (half, half + limit % 2),
    };
    if a > b { vec![long, short] } else { vec![short, long] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str) -> Option<u32> {
        ["[CLS]", "[SEP]", "a:1"].iter().position(|t| *t == text).map(|n| n as u32 + 100)
    }

    fn template(entries: &[&str], texts: usize) -> Result<Template, TokenizerError> {
        let entries: Vec<String> = entries.iter().map(|e| (*e).to_owned()).collect();
        Template::new("template", &entries, texts, &find)
    }

    #[test]
    fn texts_and_tokens_stand_with_their_types() {
        let pair = template(&["[CLS]", "$A", "[SEP]", "$B:1", "[SEP]:1", "a:1:2"], 2).unwrap();
        let filled = pair.fill(&[vec![1, 2], vec![3]], None);
        assert_eq!(filled.ids, [100, 1, 2, 101, 3, 101, 102]);
        assert_eq!(filled.types, [0, 0, 0, 0, 1, 1, 2]);
        assert_eq!(filled.around, [true, false, false, true, false, true, true]);
        assert_eq!((filled.cut, pair.begin()), (0, Some(100)));
        assert_eq!(Template::around(None, Some(9)).fill(&[vec![1]], None).ids, [1, 9]);
    }

    #[test]
    fn long_texts_are_cut() {
        let single = template(&["[CLS]", "$A", "[SEP]"], 1).unwrap();
        let filled = single.fill(&[vec![1, 2, 3, 4]], Some(4));
        assert_eq!((filled.ids, filled.cut), (vec![100, 1, 2, 101], 2));
        assert_eq!(single.fill(&[vec![1]], Some(1)).ids, [100, 101], "no shorter than the template");
        assert_eq!(within(&[5, 2], 6), [4, 2]);
        assert_eq!(within(&[2, 5], 6), [2, 4]);
        assert_eq!(within(&[5, 6], 6), [3, 3]);
        assert_eq!(within(&[5, 6], 7), [3, 4]);
        assert_eq!(within(&[9, 6], 7), [4, 3]);
        assert_eq!(within(&[5, 6], 0), [0, 0]);
    }

    #[test]
    fn mistakes_are_named() {
        for (entries, texts, part) in [
            (&["[CLS]"][..], 1, "has $A 0 times"),
            (&["$A", "$A"], 1, "has $A 2 times"),
            (&["$A"], 2, "has $B 0 times"),
            (&["$A", "$B"], 1, "\"$B\", which is no token"),
            (&["$A", "[MASK]"], 1, "\"[MASK]\", which is no token"),
        ] {
            let error = template(entries, texts).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
