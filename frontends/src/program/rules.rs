//! What a generated text may hold: rules on the scores of the next token, as `transformers` has them (`LogitsProcessor`),
//! in its order.

/// Rules on the next token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// No run of so many tokens comes twice; 0 for no such rule.
    pub no_repeat: usize,
    /// Sequences of ids that never come.
    pub banned: Vec<Vec<u32>>,
    /// Before so many tokens, those that the text begins with included, it does not end.
    pub least: usize,
    /// Before so many new tokens it does not end.
    pub least_new: usize,
    /// The token behind a beginning of one token.
    pub first: Option<u32>,
    /// The token at the limit of the length.
    pub last: Option<u32>,
    /// Ids that are never taken.
    pub suppress: Vec<u32>,
    /// Ids that are never taken as the first token, or as the one behind `first`.
    pub suppress_first: Vec<u32>,
}

/// A text in the making.
#[derive(Clone, Copy, Debug)]
pub struct Unfinished<'a> {
    /// Its tokens so far.
    pub tokens: &'a [u32],
    /// How many of them it began with.
    pub begun: usize,
    /// Ids that end it.
    pub ends: &'a [u32],
    /// Most tokens of it, where that is known.
    pub longest: Option<usize>,
}

impl Rules {
    /// Takes the scores of ids away that may not follow.
    pub fn apply(&self, scores: &mut [f32], text: &Unfinished<'_>) {
        let (tokens, length) = (text.tokens, text.tokens.len());
        let forbid = |scores: &mut [f32], id: u32| {
            if let Some(score) = scores.get_mut(id as usize) {
                *score = f32::NEG_INFINITY;
            }
        };
        if self.no_repeat > 0 && length + 1 >= self.no_repeat {
            let recent = &tokens[length + 1 - self.no_repeat..];
            for run in tokens.windows(self.no_repeat) {
                if let Some((last, before)) = run.split_last()
                    && before == recent
                {
                    forbid(scores, *last);
                }
            }
        }
        for sequence in &self.banned {
            // What ends a text is never banned by itself.
            let ends = matches!(sequence.as_slice(), [id] if text.ends.contains(id));
            if let Some((last, before)) = sequence.split_last()
                && tokens.ends_with(before)
                && !ends
            {
                forbid(scores, *last);
            }
        }
        if length < self.least || length - text.begun.min(length) < self.least_new {
            text.ends.iter().for_each(|&id| forbid(scores, id));
        }
        let force = |scores: &mut [f32], id: Option<u32>, here: bool| {
            if let Some(id) = id.filter(|&id| here && (id as usize) < scores.len()) {
                scores.fill(f32::NEG_INFINITY);
                scores[id as usize] = 0.0;
            }
        };
        force(scores, self.first, length == 1);
        force(scores, self.last, text.longest == Some(length + 1));
        self.suppress.iter().for_each(|&id| forbid(scores, id));
        let forced = usize::from(self.first.is_some() && text.begun == 1);
        if length == text.begun + forced {
            self.suppress_first.iter().for_each(|&id| forbid(scores, id));
        }
    }
}

/// Most continuations at once, of which each has a cache of its own.
pub const MOST_BEAMS: usize = 256;

/// How to search for the likeliest text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BeamOptions {
    /// Continuations at once.
    pub beams: usize,
    /// The sum of log probabilities of a finished text is divided by its length to this power: above 0 favours long texts.
    pub length_penalty: f32,
    /// When to stop looking for better ones.
    pub early_stopping: EarlyStopping,
}

/// When to stop looking for better texts than those that are finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyStopping {
    /// Once as many as there are beams are finished.
    Full,
    /// Once the best that runs, at its present length, is no better than the worst that is finished.
    Likely,
    /// Once the best that runs could not become better at any length.
    Never,
}

impl Default for BeamOptions {
    fn default() -> Self {
        BeamOptions { beams: 4, length_penalty: 1.0, early_stopping: EarlyStopping::Likely }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ids that may follow, of 0 to 7; 7 ends a text.
    fn allowed(rules: &Rules, tokens: &[u32], begun: usize, longest: Option<usize>) -> Vec<usize> {
        let mut scores = [1.0; 8];
        rules.apply(&mut scores, &Unfinished { tokens, begun, ends: &[7], longest });
        (0..8).filter(|&id| scores[id] > f32::NEG_INFINITY).collect()
    }

    #[test]
    fn no_run_of_tokens_comes_twice() {
        let pairs = Rules { no_repeat: 2, ..Rules::default() };
        assert_eq!(allowed(&pairs, &[1, 2, 1, 3, 1], 1, None), [0, 1, 4, 5, 6, 7]);
        assert_eq!(allowed(&pairs, &[1], 1, None).len(), 8);
        let single = Rules { no_repeat: 1, ..Rules::default() };
        assert_eq!(allowed(&single, &[1, 2], 1, None), [0, 3, 4, 5, 6, 7]);
        let long = Rules { no_repeat: 9, ..Rules::default() };
        assert_eq!(allowed(&long, &[1, 1, 1], 1, None).len(), 8);
    }

    #[test]
    fn banned_words_never_come() {
        let rules = Rules { banned: vec![vec![5], vec![7], vec![2, 3], vec![9, 2, 4], vec![]], ..Rules::default() };
        assert_eq!(allowed(&rules, &[1, 1, 2], 1, None), [0, 1, 2, 4, 6, 7]);
        assert_eq!(allowed(&rules, &[9, 2], 1, None), [0, 1, 2, 6, 7]);
        assert_eq!(allowed(&rules, &[3], 1, None), [0, 1, 2, 3, 4, 6, 7]);
    }

    #[test]
    fn a_text_ends_neither_early_nor_late() {
        let least = Rules { least: 3, least_new: 1, ..Rules::default() };
        assert_eq!(allowed(&least, &[1, 2], 1, None), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(allowed(&least, &[1, 2, 3, 4], 4, None), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(allowed(&least, &[1, 2, 3], 2, None).len(), 8);
        let last = Rules { last: Some(7), ..Rules::default() };
        assert_eq!(allowed(&last, &[1, 2, 3], 1, Some(4)), [7]);
        assert_eq!(allowed(&last, &[1, 2], 1, Some(4)).len(), 8);
    }

    #[test]
    fn the_first_token_may_be_forced_and_others_ruled_out() {
        let rules = Rules { first: Some(6), suppress: vec![2, 99], suppress_first: vec![3], ..Rules::default() };
        assert_eq!(allowed(&rules, &[1], 1, None), [6]);
        assert_eq!(allowed(&rules, &[1, 6], 1, None), [0, 1, 4, 5, 6, 7]);
        assert_eq!(allowed(&rules, &[1, 6, 4], 1, None), [0, 1, 3, 4, 5, 6, 7]);
        // A beginning of several tokens has its own first one.
        assert_eq!(allowed(&rules, &[1, 4], 2, None), [0, 1, 4, 5, 6, 7]);
    }
}
