//! What rows of logits say.

use crate::{Error, Model, Result};
use tallow_executor::tokenizer::Tokenizer;
use tallow_frontends::families::encoder::LABEL_SCORE;

/// A label and its probability.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// Its name; `LABEL_n` where the model names none.
    pub label: String,
    /// Its probability: among all labels, or of this label by itself where several may be right. For a model that gives
    /// one number instead (`problem_type = "regression"`, or `label_score = "logit"` with one label), that number.
    pub score: f32,
    /// What the model gave, before it became a probability.
    pub logit: f32,
}

/// A token with its label.
#[derive(Clone, Debug, PartialEq)]
pub struct Tag {
    /// The token as the vocabulary stores it.
    pub token: String,
    /// Its id.
    pub id: u32,
    /// Its likeliest label.
    pub label: String,
    /// The probability of that label.
    pub score: f32,
    /// What the model gave for it, before it became a probability.
    pub logit: f32,
}

/// A token for the place of a mask.
#[derive(Clone, Debug, PartialEq)]
pub struct Filling {
    /// Its text without spaces around.
    pub token: String,
    /// Its id.
    pub id: u32,
    /// Its probability among all tokens.
    pub score: f32,
}

/// The labels of a model and what its logits mean.
pub(crate) struct Labels {
    names: Vec<String>,
    meaning: Meaning,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// One label is right.
    One,
    /// Each label may be right by itself.
    Each,
    /// Numbers.
    Value,
}

impl Meaning {
    /// What logits mean by the kind of problem and by the score that is asked for, of a model with one label or more.
    fn of(problem: Option<Meaning>, score: Option<Meaning>, single: bool) -> Self {
        match (problem, score) {
            (Some(Meaning::Value), _) => Meaning::Value,
            // One label compares two texts; among itself it would always be certain.
            (_, score) if single => score.unwrap_or(Meaning::Each),
            // Of several, logits alone say less than the shares of the labels.
            (_, Some(Meaning::Each)) => Meaning::Each,
            (problem, _) => problem.unwrap_or(Meaning::One),
        }
    }
}

impl Labels {
    /// The labels that the config of a model names.
    pub(crate) fn of(model: &Model) -> Result<Self> {
        let architecture = model.file().config().architecture();
        let meaning = match architecture.str("problem_type")? {
            Some("multi_label_classification") => Some(Meaning::Each),
            Some("single_label_classification") => Some(Meaning::One),
            Some("regression") => Some(Meaning::Value),
            None => None,
            Some(other) => {
                let expected = "single_label_classification, multi_label_classification or regression";
                return Err(Error::Format(architecture.invalid("problem_type", &format!("`{other}`"), expected)));
            }
        };
        let score = match architecture.str(LABEL_SCORE)? {
            Some("sigmoid") => Some(Meaning::Each),
            Some("logit") => Some(Meaning::Value),
            None => None,
            Some(other) => {
                return Err(Error::Format(architecture.invalid(
                    LABEL_SCORE,
                    &format!("`{other}`"),
                    "sigmoid or logit",
                )));
            }
        };
        let names = architecture.strings("labels")?.unwrap_or_default();
        let columns = model.graph().graph().output_named("logits");
        let columns = columns.and_then(|v| model.graph().graph().ty(v).shape.last().and_then(|d| d.as_const()));
        Ok(Labels { names, meaning: Meaning::of(meaning, score, columns == Some(1)) })
    }

    /// How many the model names.
    pub(crate) fn named(&self) -> usize {
        self.names.len()
    }

    fn name(&self, n: usize) -> String {
        self.names.get(n).cloned().unwrap_or_else(|| format!("LABEL_{n}"))
    }

    /// All labels of a text, or of a picture, the likeliest first; numbers in their order.
    pub(crate) fn of_text(&self, logits: &[f32]) -> Vec<Label> {
        let scores = match self.meaning {
            Meaning::One => softmax(logits),
            Meaning::Each => logits.iter().map(|&x| 1.0 / (1.0 + (-x).exp())).collect(),
            Meaning::Value => logits.to_vec(),
        };
        let label = |(n, (score, &logit)): (usize, (f32, &f32))| Label { label: self.name(n), score, logit };
        let mut labels: Vec<Label> = scores.into_iter().zip(logits).enumerate().map(label).collect();
        if self.meaning != Meaning::Value {
            labels.sort_by(|a, b| b.score.total_cmp(&a.score));
        }
        labels
    }

    /// The likeliest label of a token.
    pub(super) fn of_token(&self, tokenizer: &Tokenizer, id: u32, logits: &[f32]) -> Tag {
        let (best, score) = best(&softmax(logits), 1).first().copied().unwrap_or_default();
        let token = tokenizer.token_text(id).unwrap_or_default().to_owned();
        let logit = logits.get(best).copied().unwrap_or_default();
        Tag { token, id, label: self.name(best), score, logit }
    }
}

/// The `count` likeliest tokens of a row over the vocabulary.
pub(super) fn fillings(tokenizer: &Tokenizer, logits: &[f32], count: usize) -> Vec<Filling> {
    let scores = softmax(logits);
    let filling = |(id, score): (usize, f32)| {
        let id = id as u32;
        Filling { token: tokenizer.decode(&[id], false).trim().to_owned(), id, score }
    };
    best(&scores, count).into_iter().map(filling).collect()
}

/// Places and values of the greatest values, the first of equal ones first.
fn best(scores: &[f32], count: usize) -> Vec<(usize, f32)> {
    let mut places: Vec<usize> = (0..scores.len()).collect();
    let order = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
    if count < places.len() {
        places.select_nth_unstable_by(count, order);
        places.truncate(count);
    }
    places.sort_by(order);
    places.into_iter().map(|at| (at, scores[at])).collect()
}

pub(crate) fn softmax(logits: &[f32]) -> Vec<f32> {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = logits.iter().map(|x| (x - most).exp()).collect();
    let sum: f64 = powers.iter().map(|&p| f64::from(p)).sum();
    powers.iter().map(|&p| (f64::from(p) / sum) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(meaning: Meaning) -> Labels {
        Labels { names: vec!["no".into(), "yes".into()], meaning }
    }

    #[test]
    fn logits_become_probabilities() {
        let of = |meaning, logits: &[f32]| labels(meaning).of_text(logits);
        let one = of(Meaning::One, &[0.0, 2.0]);
        assert_eq!((one[0].label.as_str(), one[1].label.as_str()), ("yes", "no"));
        assert!((one[0].score - 0.880797).abs() < 1e-6 && (one[0].score + one[1].score - 1.0).abs() < 1e-6);
        let each = of(Meaning::Each, &[0.0, 2.0, -1.0]);
        assert_eq!(each[2].label, "LABEL_2");
        assert!((each[0].score - 0.880797).abs() < 1e-6 && (each[1].score - 0.5).abs() < 1e-6);
        assert_eq!(of(Meaning::Value, &[1.5, 2.5])[0], Label { label: "no".into(), score: 1.5, logit: 1.5 });
        assert_eq!([one[0].logit, one[1].logit, each[2].logit], [2.0, 0.0, -1.0]);
    }

    #[test]
    fn one_label_is_a_yes_or_no_unless_its_number_counts() {
        use Meaning::{Each, One, Value};
        // As the pipeline of transformers, and CrossEncoder of sentence-transformers, have it.
        for (problem, score, single, wanted) in [
            (None, None, true, Each),
            (Some(One), None, true, Each),
            (Some(Each), Some(Value), true, Value),
            (None, Some(Value), true, Value),
            (None, Some(Each), true, Each),
            (Some(Value), Some(Each), true, Value),
            (None, None, false, One),
            (Some(Each), None, false, Each),
            (None, Some(Value), false, One),
            (None, Some(Each), false, Each),
            (Some(Value), None, false, Value),
        ] {
            assert_eq!(Meaning::of(problem, score, single), wanted, "{problem:?} {score:?} {single}");
        }
    }

    #[test]
    fn the_greatest_come_first() {
        assert_eq!(best(&[1.0, 3.0, 3.0, 2.0], 3), [(1, 3.0), (2, 3.0), (3, 2.0)]);
        assert_eq!(best(&[1.0], 5), [(0, 1.0)]);
        assert_eq!(best(&[1.0, 2.0], 0), []);
        assert!(softmax(&[1000.0, 1000.0]).iter().all(|p| *p == 0.5));
    }
}
