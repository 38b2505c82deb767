//! Beam search: of several continuations at once the likeliest, by the rules of `transformers`.

use crate::generation::{ends, limit};
use crate::session::read;
use crate::{Error, GenerateOptions, Result, Rows, Session, Tensor, languages};
use tallow_executor::sampling::penalize;
use tallow_frontends::program::module::Start;
pub use tallow_frontends::program::rules::{BeamOptions, EarlyStopping};
use tallow_frontends::program::rules::{MOST_BEAMS, Unfinished};

/// A text and its score.
#[derive(Clone, Debug)]
struct Scored {
    tokens: Vec<u32>,
    score: f32,
}

/// Where a search begins and ends.
pub(crate) struct Search<'a> {
    pub options: BeamOptions,
    /// What every text begins with.
    pub prompt: &'a [u32],
    /// Ids that end a text.
    pub ends: &'a [u32],
    /// Most tokens of a text, its beginning included.
    pub longest: usize,
}

impl Search<'_> {
    /// The best text, with what it begins with. `step` gives the log probabilities of what may follow, for each of some
    /// texts.
    pub fn run(&self, mut step: impl FnMut(&[Vec<u32>]) -> Result<Vec<Vec<f32>>>) -> Result<Vec<u32>> {
        let n = self.options.beams;
        let kept = (1 + self.ends.len()).max(2) * n;
        let mut running = vec![Scored { tokens: self.prompt.to_vec(), score: 0.0 }];
        let mut finished: Vec<Scored> = Vec::new();
        let mut length = self.prompt.len();
        let mut hopeful = true;
        while length < self.longest {
            let texts: Vec<Vec<u32>> = running.iter().map(|r| r.tokens.clone()).collect();
            let rows = step(&texts)?;
            let candidates = best(&running, rows, kept);
            let ends = |id: u32| self.ends.contains(&id) || length + 1 >= self.longest;
            let full = self.options.early_stopping == EarlyStopping::Full && finished.len() >= n;
            // Only the best n may end; the others are there so that as many go on.
            let normal = ((length + 1 - self.prompt.len()) as f32).powf(self.options.length_penalty);
            for (beam, id, score) in candidates.iter().take(n).filter(|c| ends(c.1)) {
                if !full && hopeful {
                    finished.push(Scored { tokens: with(&running[*beam].tokens, *id), score: score / normal });
                }
            }
            // Stable, so that of equal ones the earlier stays first.
            finished.sort_by(|a, b| b.score.total_cmp(&a.score));
            finished.truncate(n);
            let next: Vec<Scored> = candidates
                .iter()
                .filter(|c| !ends(c.1))
                .take(n)
                .map(|(beam, id, score)| Scored { tokens: with(&running[*beam].tokens, *id), score: *score })
                .collect();
            if next.is_empty() {
                break;
            }
            running = next;
            length += 1;
            hopeful = hopeful && self.may_improve(&running, &finished, length);
            let done = self.options.early_stopping == EarlyStopping::Full && finished.len() >= n;
            if done || !hopeful {
                break;
            }
        }
        let best = finished.into_iter().next().or_else(|| running.into_iter().next());
        Ok(best.map_or_else(|| self.prompt.to_vec(), |b| b.tokens))
    }

    /// Whether what runs may still beat the worst that is finished.
    fn may_improve(&self, running: &[Scored], finished: &[Scored], length: usize) -> bool {
        if finished.len() < self.options.beams {
            return true;
        }
        let penalty = self.options.length_penalty;
        let length = match self.options.early_stopping {
            EarlyStopping::Never if penalty > 0.0 => self.longest,
            _ => length,
        };
        let best = running.first().map_or(f32::NEG_INFINITY, |r| r.score);
        let hoped = best / ((length - self.prompt.len()) as f32).powf(penalty);
        finished.last().is_none_or(|worst| hoped > worst.score)
    }
}

fn with(tokens: &[u32], id: u32) -> Vec<u32> {
    [tokens, &[id]].concat()
}

/// The likeliest `kept` continuations: the text that goes on, the token, and the sum of log probabilities.
fn best(running: &[Scored], rows: Vec<Vec<f32>>, kept: usize) -> Vec<(usize, u32, f32)> {
    let mut all: Vec<(usize, u32, f32)> = Vec::new();
    for (beam, (text, row)) in running.iter().zip(rows).enumerate() {
        let mut own: Vec<(usize, u32, f32)> =
            row.into_iter().enumerate().map(|(id, p)| (beam, id as u32, text.score + p)).collect();
        if own.len() > kept {
            own.select_nth_unstable_by(kept - 1, order);
            own.truncate(kept);
        }
        all.extend(own);
    }
    all.sort_by(order);
    all.truncate(kept);
    all
}

/// The better first; equal ones by text and token.
fn order(a: &(usize, u32, f32), b: &(usize, u32, f32)) -> std::cmp::Ordering {
    b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)).then(a.1.cmp(&b.1))
}

fn log_softmax(row: &mut [f32]) {
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = row.iter().map(|x| f64::from(x - top).exp()).sum();
    let shift = top + sum.ln() as f32;
    row.iter_mut().for_each(|x| *x -= shift);
}

impl Session {
    /// The likeliest text of a beam search that begins with `prompt` (ids that the model begins with, where it reads a
    /// source): all its ids, an end token included.
    ///
    /// # Errors
    /// No beam, or an empty prompt; errors of running the model.
    pub fn beam_search(&mut self, prompt: &[u32], beams: BeamOptions, options: &GenerateOptions) -> Result<Vec<u32>> {
        if !(1..=MOST_BEAMS).contains(&beams.beams) || prompt.is_empty() {
            let found = format!("{} beams and {} tokens", beams.beams, prompt.len());
            return Err(Error::Usage(format!(
                "a beam search needs 1 to {MOST_BEAMS} beams and a token to begin with; there are {found}"
            )));
        }
        let driver = languages::driver(self.model(), options)?;
        let ends = ends(self.model());
        let sampling = options.sampling.map_or_else(|| self.model().sampling(0), Ok)?;
        let penalty = sampling.repetition_penalty;
        let new = limit(options.max_tokens, driver.as_ref(), prompt.len()).unwrap_or(DEFAULT_LENGTH);
        let longest = prompt.len() + new;
        let search = Search { options: beams, prompt, ends: &ends, longest };
        // A session for each text, which keeps what it has in common with the one before.
        let mut sessions = vec![self.clone(); beams.beams - 1];
        search.run(|texts| {
            let mut free: Vec<&mut Session> = std::iter::once(&mut *self).chain(&mut sessions).collect();
            texts
                .iter()
                .map(|text| {
                    let shared = |s: &Session| s.tokens.iter().zip(text).take_while(|(a, b)| a == b).count();
                    let at = (0..free.len()).max_by_key(|&i| (shared(free[i]), free.len() - i)).unwrap_or(0);
                    let session = free.swap_remove(at);
                    let mut row = Vec::new();
                    read(&session.logits(text, Rows::Last)?, &mut row)?;
                    // Rules come behind the softmax here: what they take away does not make the rest likelier.
                    log_softmax(&mut row);
                    if penalty != 1.0 {
                        let logits = row.clone();
                        penalize(&mut row, &logits, penalty, text);
                    }
                    if let Some(driver) = &driver {
                        let begun = prompt.len();
                        let text = Unfinished { tokens: text, begun, ends: &ends, longest: Some(longest) };
                        driver.rules.apply(&mut row, &text);
                    }
                    Ok(row)
                })
                .collect()
        })
    }
}

impl Session {
    /// The likeliest text that follows a prompt, or that a model which reads a source makes of it, by a beam search; with
    /// its ids, an end token included. The prompt is taken as it is.
    ///
    /// # Errors
    /// As [`Session::beam_search`].
    pub fn search(
        &mut self,
        prompt: &str,
        beams: BeamOptions,
        options: &GenerateOptions,
    ) -> Result<(String, Vec<u32>)> {
        let start = match self.model().reads_source() {
            true => self.read_source(prompt, options)?,
            false => self.encode(prompt)?,
        };
        self.search_behind(&start, beams, options)
    }

    /// The same of inputs, as the ids of a source. Without a tokenizer the text is the ids with a space between each two.
    ///
    /// # Errors
    /// As [`Session::begin`] and [`Session::beam_search`]; a model that begins with a prompt.
    pub fn search_from(
        &mut self,
        inputs: &[(String, Tensor)],
        beams: BeamOptions,
        options: &GenerateOptions,
    ) -> Result<(String, Vec<u32>)> {
        let Some(Start::Ids(start)) = languages::driver(self.model(), options)?.map(|driver| driver.start) else {
            let label = self.model().file().label();
            return Err(Error::Usage(format!("{label}: goes on from a prompt; search behind one")));
        };
        self.begin(inputs)?;
        self.search_behind(&start, beams, options)
    }

    /// The text behind the ids that it begins with.
    fn search_behind(
        &mut self,
        start: &[u32],
        beams: BeamOptions,
        options: &GenerateOptions,
    ) -> Result<(String, Vec<u32>)> {
        let ids = self.beam_search(start, beams, options)?.split_off(start.len());
        let text = match self.model().own_tokenizer()? {
            Some(tokenizer) => tokenizer.decode(&ids, true),
            None => ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" "),
        };
        Ok((text, ids))
    }
}

/// Most tokens where nothing limits them.
const DEFAULT_LENGTH: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of two words, a and b, and an end: after `a` the end is near, after `b` it is far but sure.
    fn rows(texts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>> {
        let row = |text: &Vec<u32>| {
            let p: [f32; 3] = match text.as_slice() {
                [9] => [0.0001, 0.55, 0.4499],
                [9, 1] => [0.3, 0.35, 0.35],
                [9, 2] => [0.0001, 0.0099, 0.99],
                [.., 2, 2] => [0.98, 0.01, 0.01],
                _ => [0.3, 0.4, 0.3],
            };
            p.map(f32::ln).to_vec()
        };
        Ok(texts.iter().map(row).collect())
    }

    fn search(beams: usize, length_penalty: f32, early_stopping: EarlyStopping) -> Vec<u32> {
        let options = BeamOptions { beams, length_penalty, early_stopping };
        Search { options, prompt: &[9], ends: &[0], longest: 8 }.run(rows).unwrap()
    }

    #[test]
    fn more_beams_find_a_likelier_text() {
        // Greedy takes 1 first, and never meets the sure end.
        assert_eq!(search(1, 1.0, EarlyStopping::Likely)[..2], [9, 1]);
        for early in [EarlyStopping::Likely, EarlyStopping::Never, EarlyStopping::Full] {
            assert_eq!(search(2, 1.0, early), [9, 2, 2, 0], "{early:?}");
        }
    }

    #[test]
    fn every_text_ends_at_the_limit() {
        let options = BeamOptions { beams: 3, ..BeamOptions::default() };
        let endless = |texts: &[Vec<u32>]| Ok(vec![vec![-2.0, -1.0, -0.5]; texts.len()]);
        let found = Search { options, prompt: &[1, 1], ends: &[7], longest: 5 }.run(endless).unwrap();
        assert_eq!(found, [1, 1, 2, 2, 2]);
    }
}
