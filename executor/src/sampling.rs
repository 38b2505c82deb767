//! Choosing the next token from logits.
//!
//! The steps and their order are those of Hugging Face's `generate`: repetition penalty, then temperature, top-k, top-p, min-p,
//! then one draw. A seed makes a run repeatable: the generator is xoshiro256++ (Blackman and Vigna, 2019) seeded by
//! splitmix64, one draw a token, which falls on the tokens in the order of their ids; none of it depends on the machine.

mod exp;
pub(crate) mod rng;

use exp::exp_negative;
use rng::Xoshiro256;
use std::cmp::Ordering;
use thiserror::Error;

/// How tokens are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits; 0 always takes the likeliest token, and then no setting below but the penalty has an effect.
    pub temperature: f32,
    /// Only this many of the likeliest tokens are kept; 0 keeps all.
    pub top_k: usize,
    /// Only the likeliest tokens are kept that together have this probability, in (0, 1]; 1 keeps all.
    pub top_p: f32,
    /// Only tokens at least this fraction as likely as the likeliest are kept, in [0, 1]; 0 keeps all.
    pub min_p: f32,
    /// Positive logits of tokens seen before are divided by this, negative ones multiplied (Keskar et al., 2019); 1 is off.
    pub repetition_penalty: f32,
    /// The start of the random sequence.
    pub seed: u64,
}

impl Default for SamplingParams {
    /// Greedy.
    fn default() -> Self {
        Self { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, repetition_penalty: 1.0, seed: 0 }
    }
}

impl SamplingParams {
    /// The settings of a model's `[sampling]`, with a seed.
    pub fn from_config(config: &tallow_format::SamplingConfig, seed: u64) -> Self {
        Self {
            temperature: config.temperature,
            top_k: config.top_k as usize,
            top_p: config.top_p,
            min_p: config.min_p,
            repetition_penalty: config.repetition_penalty,
            seed,
        }
    }
}

/// A setting out of range, or logits from which nothing can be chosen.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum SamplingError {
    /// A setting is outside its range.
    #[error("{name} = {value} is out of range: it must be {range}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: f32,
        /// What it may be.
        range: &'static str,
    },
    /// A logit is not a number, or is plus infinity.
    #[error(
        "the logit of token {id} is {value}: the model's numbers went wrong before sampling; run it with --reference to see whether its weights or a kernel are at fault"
    )]
    BadLogit {
        /// The token.
        id: u32,
        /// Its logit.
        value: f32,
    },
    /// No token may be chosen.
    #[error("none of {count} logits belongs to a token that may be chosen")]
    NoCandidate {
        /// How many logits there were.
        count: usize,
    },
}

/// Chooses tokens, one after another. A clone continues the same random sequence on its own.
#[derive(Clone, Debug)]
pub struct Sampler {
    params: SamplingParams,
    rng: Xoshiro256,
    allowed: AllowedIds,
    /// Scratch: logits after the penalty, tokens that are still in question, and some of them.
    row: Vec<f32>,
    candidates: Vec<Candidate>,
    ranked: Vec<Candidate>,
}

/// A token in question: its logit, later its weight, and its id.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    value: f32,
    id: u32,
}

impl Candidate {
    /// The weight as a whole number: sums of these are exact, whatever their order.
    fn weight(&self) -> u64 {
        (self.value * UNIT) as u64
    }
}

/// The whole number for the weight of the likeliest token.
const UNIT: f32 = (1_u64 << 38) as f32;

/// Candidates by descending value, then by ascending id.
fn by_rank(a: &Candidate, b: &Candidate) -> Ordering {
    b.value.total_cmp(&a.value).then(a.id.cmp(&b.id))
}

/// Which rows of the logits are tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedIds {
    len: usize,
    /// Sorted.
    holes: Vec<u32>,
}

impl AllowedIds {
    /// Every row.
    pub fn all() -> Self {
        Self { len: usize::MAX, holes: Vec::new() }
    }

    /// The rows below `len` for which `has_token` says yes: other rows are padding.
    pub fn new(len: usize, has_token: impl Fn(u32) -> bool) -> Self {
        let len = len.min(u32::MAX as usize);
        Self { len, holes: (0..len as u32).filter(|&id| !has_token(id)).collect() }
    }

    /// The rows of a tokenizer's tokens.
    pub fn of(tokenizer: &crate::tokenizer::Tokenizer) -> Self {
        Self::new(tokenizer.vocab_len(), |id| tokenizer.has_token(id))
    }

    /// True if this row is a token.
    pub fn contains(&self, id: u32) -> bool {
        (id as usize) < self.len && self.holes.binary_search(&id).is_err()
    }
}

/// A weight below e to this power, relative to the likeliest, is less than one [`UNIT`]th: such tokens are dropped at once. All
/// of a vocabulary of 262,144 together have less than a millionth of the probability.
const NEGLIGIBLE: f32 = -26.4;

/// Rows beyond this many are not looked at: no vocabulary is so large, and weights of so many tokens add up in 64 bits.
const MAX_ROW: usize = 1 << 25;

impl Sampler {
    /// A sampler over every row of the logits. Errors: a setting that is used is out of range.
    pub fn new(params: SamplingParams) -> Result<Self, SamplingError> {
        check(&params)?;
        Ok(Self {
            params,
            rng: Xoshiro256::new(params.seed),
            allowed: AllowedIds::all(),
            row: Vec::new(),
            candidates: Vec::new(),
            ranked: Vec::new(),
        })
    }

    /// The same, over these rows only.
    pub fn with_allowed(mut self, allowed: AllowedIds) -> Self {
        self.allowed = allowed;
        self
    }

    /// The settings.
    pub fn params(&self) -> &SamplingParams {
        &self.params
    }

    /// The next token: `logits` is one row, the logit of every id; `history` holds the ids seen so far, to be penalised.
    /// Errors: a logit that is not a number or plus infinity; no token that may be chosen.
    pub fn sample(&mut self, logits: &[f32], history: &[u32]) -> Result<u32, SamplingError> {
        if self.params.temperature == 0.0 {
            return self.greedy(logits, history);
        }
        let total = self.weigh(logits, history)?;
        // A number below the total.
        let mut left = (u128::from(self.rng.next_u64()) * u128::from(total)) >> 64;
        for candidate in &self.candidates {
            let weight = u128::from(candidate.weight());
            if left < weight {
                return Ok(candidate.id);
            }
            left -= weight;
        }
        Err(SamplingError::NoCandidate { count: logits.len() })
    }

    /// The tokens that [`Sampler::sample`] would draw from and their probabilities, without drawing; one token with
    /// probability 1 at temperature 0. The order is by id. Errors as there.
    pub fn distribution(&mut self, logits: &[f32], history: &[u32]) -> Result<Vec<(u32, f64)>, SamplingError> {
        if self.params.temperature == 0.0 {
            return Ok(vec![(self.greedy(logits, history)?, 1.0)]);
        }
        let total = self.weigh(logits, history)?;
        let probability = |c: &Candidate| (c.id, c.weight() as f64 / total as f64);
        Ok(self.candidates.iter().map(probability).filter(|&(_, p)| p > 0.0).collect())
    }

    fn greedy(&mut self, logits: &[f32], history: &[u32]) -> Result<u32, SamplingError> {
        let none = SamplingError::NoCandidate { count: logits.len() };
        let row = penalized(&mut self.row, &self.params, &self.allowed, logits, history);
        let max = checked_max(row)?;
        let at = row.iter().position(|&logit| logit == max);
        at.filter(|_| max > f32::NEG_INFINITY).map(|id| id as u32).ok_or(none)
    }

    /// Leaves in `candidates`, by id, the tokens that pass every filter, with weights in place of logits; the sum of the
    /// weights.
    fn weigh(&mut self, logits: &[f32], history: &[u32]) -> Result<u64, SamplingError> {
        let SamplingParams { temperature, top_k, top_p, min_p, .. } = self.params;
        let row = penalized(&mut self.row, &self.params, &self.allowed, logits, history);
        let max = checked_max(row)?;
        if max == f32::NEG_INFINITY {
            return Err(SamplingError::NoCandidate { count: logits.len() });
        }
        let candidates = &mut self.candidates;
        collect(candidates, row, max + NEGLIGIBLE * temperature, top_k);
        let mut total = 0;
        for candidate in candidates.iter_mut() {
            candidate.value = exp_negative((candidate.value - max) / temperature);
            total += candidate.weight();
        }
        if top_p < 1.0 {
            let last = last_of_nucleus(&mut self.ranked, candidates, total, f64::from(top_p));
            candidates.retain(|candidate| last.is_none_or(|last| by_rank(candidate, &last).is_le()));
        }
        if min_p > 0.0 {
            // The likeliest token has weight 1.
            candidates.retain(|candidate| candidate.value >= min_p);
        }
        if top_p < 1.0 || min_p > 0.0 {
            total = mass(candidates);
        }
        Ok(total)
    }
}

/// The rows that are tokens, after the repetition penalty: `logits` itself where nothing is to be done, else a copy in which
/// rows without a token are minus infinity.
fn penalized<'a>(
    row: &'a mut Vec<f32>,
    params: &SamplingParams,
    allowed: &AllowedIds,
    logits: &'a [f32],
    history: &[u32],
) -> &'a [f32] {
    let logits = &logits[..logits.len().min(allowed.len).min(MAX_ROW)];
    let penalty = params.repetition_penalty;
    if allowed.holes.is_empty() && (penalty == 1.0 || history.is_empty()) {
        return logits;
    }
    row.clear();
    row.extend_from_slice(logits);
    if penalty != 1.0 {
        penalize(row, logits, penalty, history);
    }
    for &hole in &allowed.holes {
        if let Some(value) = row.get_mut(hole as usize) {
            *value = f32::NEG_INFINITY;
        }
    }
    row
}

/// Makes tokens that occurred less likely: `row` is a copy of `logits`, so that a token seen twice is penalised once.
pub fn penalize(row: &mut [f32], logits: &[f32], penalty: f32, history: &[u32]) {
    for &id in history {
        if let (Some(value), Some(&logit)) = (row.get_mut(id as usize), logits.get(id as usize)) {
            *value = if logit > 0.0 { logit / penalty } else { logit * penalty };
        }
    }
}

/// Collects by id the rows of at least `least`; with `top_k` above 0, only that many of the highest.
fn collect(candidates: &mut Vec<Candidate>, row: &[f32], least: f32, top_k: usize) {
    candidates.clear();
    let rows = (0..).zip(row).map(|(id, &value)| Candidate { value, id });
    if top_k == 0 || top_k >= row.len() {
        candidates.extend(rows.filter(|row| row.value >= least && row.value > f32::NEG_INFINITY));
        return;
    }
    let room = top_k.saturating_mul(2).max(64);
    // A later row that only equals one of the best so far ranks after it.
    let mut above = f32::NEG_INFINITY;
    for candidate in rows {
        if candidate.value > above && candidate.value >= least {
            candidates.push(candidate);
            if candidates.len() == room {
                let (_, worst, _) = candidates.select_nth_unstable_by(top_k - 1, by_rank);
                above = worst.value;
                candidates.truncate(top_k);
            }
        }
    }
    if candidates.len() > top_k {
        candidates.select_nth_unstable_by(top_k - 1, by_rank);
        candidates.truncate(top_k);
    }
    candidates.sort_unstable_by_key(|candidate| candidate.id);
}

/// The last by rank of the likeliest candidates that together have the share `top_p` of `total`: a candidate belongs to them
/// if those before it have less. None if all do.
fn last_of_nucleus(ranked: &mut Vec<Candidate>, candidates: &[Candidate], total: u64, top_p: f64) -> Option<Candidate> {
    let enough = top_p * total as f64;
    // All candidates below this together are less than half of what may be left out, so none of them belongs.
    let least = (1.0 - top_p) * total as f64 / (2 * candidates.len()) as f64;
    ranked.clear();
    ranked.extend(candidates.iter().filter(|candidate| candidate.weight() as f64 >= least));
    let mut rest = ranked.as_mut_slice();
    let mut before = 0;
    // Halve: is there enough without the lower half?
    while rest.len() > 32 {
        let middle = rest.len() / 2;
        rest.select_nth_unstable_by(middle, by_rank);
        let (upper, lower) = rest.split_at_mut(middle);
        let with_upper = before + mass(upper);
        if with_upper as f64 >= enough {
            rest = upper;
        } else {
            before = with_upper;
            rest = lower;
        }
    }
    rest.sort_unstable_by(by_rank);
    for candidate in rest {
        before += candidate.weight();
        if before as f64 >= enough {
            return Some(*candidate);
        }
    }
    None
}

/// The sum of weights.
fn mass(candidates: &[Candidate]) -> u64 {
    candidates.iter().map(Candidate::weight).sum()
}

fn check(params: &SamplingParams) -> Result<(), SamplingError> {
    let require = |good: bool, name, value, range| match good {
        true => Ok(()),
        false => Err(SamplingError::OutOfRange { name, value, range }),
    };
    let (t, penalty) = (params.temperature, params.repetition_penalty);
    require(t >= 0.0 && t.is_finite(), "temperature", t, "0 or a number above it")?;
    require(penalty > 0.0 && penalty.is_finite(), "repetition_penalty", penalty, "a number above 0; 1 is off")?;
    if t == 0.0 {
        return Ok(());
    }
    let (p, min_p) = (params.top_p, params.min_p);
    require(p > 0.0 && p <= 1.0, "top_p", p, "above 0 and at most 1; 1 is off")?;
    require((0.0..=1.0).contains(&min_p), "min_p", min_p, "from 0 to 1; 0 is off")
}

/// The largest logit; minus infinity if there are none. Errors: one is not a number or plus infinity.
fn checked_max(logits: &[f32]) -> Result<f32, SamplingError> {
    const LANES: usize = 16;
    let mut max = [f32::NEG_INFINITY; LANES];
    let mut nan = [false; LANES];
    let (chunks, rest) = logits.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            let logit = chunk[lane];
            max[lane] = if logit > max[lane] { logit } else { max[lane] };
            nan[lane] |= logit.is_nan();
        }
    }
    let mut bad = nan.contains(&true);
    let mut best = max.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for &logit in rest {
        bad |= logit.is_nan();
        best = best.max(logit);
    }
    if bad || best == f32::INFINITY {
        let at = logits.iter().position(|l| l.is_nan() || *l == f32::INFINITY);
        let at = at.unwrap_or_default();
        return Err(SamplingError::BadLogit { id: at as u32, value: logits[at] });
    }
    Ok(best)
}

#[cfg(test)]
mod tests;
