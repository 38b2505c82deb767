//! Merges for a SentencePiece vocabulary, which has scores instead.

use std::collections::HashMap;

use tallow_format::vocab::Merges;

/// All splits of each token of `normal` into two tokens, by descending score of the result, then by ids: of the result, of
/// the left part, of the right part. `texts` holds every token that may be a part. `None` when the texts of all merges
/// together pass what the format holds, 4 GiB.
pub(super) fn from_scores(normal: &[(u32, &str, f32)], texts: &HashMap<&str, u32>) -> Option<Merges> {
    struct Split<'a> {
        score: f32,
        ids: [u32; 3],
        parts: [&'a str; 2],
    }
    let mut splits = Vec::new();
    for &(id, text, score) in normal {
        for (at, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(at);
            if let (Some(&l), Some(&r)) = (texts.get(left), texts.get(right)) {
                splits.push(Split { score, ids: [id, l, r], parts: [left, right] });
            }
        }
    }
    splits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.ids.cmp(&b.ids)));
    let mut merges = Merges::default();
    for split in splits {
        if !merges.push(split.parts[0], split.parts[1]) {
            return None;
        }
    }
    Some(merges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_come_by_score_then_by_ids() {
        let tokens = ["a", "b", "ab", "aba", "ba", "é", "aé"];
        let texts: HashMap<&str, u32> = tokens.iter().copied().zip(0..).collect();
        let normal =
            [(0, "a", -5.0), (1, "b", -5.0), (2, "ab", -1.0), (3, "aba", -2.0), (4, "ba", -1.0), (6, "aé", -2.0)];
        let merges = from_scores(&normal, &texts).unwrap();
        let got: Vec<(&str, &str)> = merges.iter().collect();
        assert_eq!(got, [("a", "b"), ("b", "a"), ("a", "ba"), ("ab", "a"), ("a", "é")]);
    }
}
