//! The times of calls, summed up by operation and by place in the graph.

use super::profile::Ran;
use super::{Input, Work, of_step};
use crate::Model;
use indexmap::IndexMap;
use serde_json::{Value, json};
use std::time::Duration;

/// One part of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// `encode`, `prefill` or `decode`.
    pub name: &'static str,
    /// The whole input, of `encode`.
    pub input: Option<Input>,
    /// Tokens; 0 of what has none.
    pub tokens: usize,
    /// Calls.
    pub calls: usize,
    /// Time of all calls.
    pub seconds: f64,
    /// Time of the calls in which no step ran.
    pub outside: f64,
    /// By operation, the longest time first.
    pub operations: Vec<Line>,
    /// By place, the longest time first; the same place of several layers is one.
    pub places: Vec<Line>,
}

/// The time of all steps of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Operation or place.
    pub name: String,
    /// How often it ran.
    pub calls: usize,
    /// For how long.
    pub seconds: f64,
    /// The part of the phase's time.
    pub share: f64,
    /// What it read and multiplied.
    pub work: Work,
}

impl Line {
    /// Bytes of weights and cache per second, where it reads some.
    pub fn bytes_per_second(&self) -> Option<f64> {
        (self.work.bytes > 0 && self.seconds > 0.0).then(|| self.work.bytes as f64 / self.seconds)
    }

    /// Multiply-adds per second, where it multiplies.
    pub fn multiply_adds_per_second(&self) -> Option<f64> {
        (self.work.multiply_adds > 0 && self.seconds > 0.0).then(|| self.work.multiply_adds as f64 / self.seconds)
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "calls": self.calls,
            "seconds": self.seconds,
            "share": self.share,
            "bytes_per_second": self.bytes_per_second(),
            "multiply_adds_per_second": self.multiply_adds_per_second(),
        })
    }
}

/// Sums over calls.
pub(super) fn phase(model: &Model, name: &'static str, input: Option<Input>, calls: &[Ran]) -> Phase {
    let mut all = Duration::ZERO;
    let mut inside = Duration::ZERO;
    let mut operations: IndexMap<String, Sum> = IndexMap::new();
    let mut places: IndexMap<(String, String), Sum> = IndexMap::new();
    let weights = model.weights();
    for Ran { call, program, sizes } in calls {
        all += call.ended - call.started;
        let plan = program.call_plan(call.rows, call.tokens);
        for span in &call.steps {
            let Some(step) = plan.steps.get(span.step) else { continue };
            let time = span.ended - span.started;
            inside += time;
            let work = of_step(plan, step, &*weights, sizes);
            operations.entry(step.op.name().to_owned()).or_default().add(None, time, work);
            let (before, number, after) = split(&step.name);
            places.entry((before.to_owned(), after.to_owned())).or_default().add(number, time, work);
        }
    }
    let seconds = all.as_secs_f64();
    let operations = operations.into_iter().map(|(name, sum)| sum.line(name, seconds));
    let places =
        places.into_iter().map(|((before, after), sum)| sum.line(place(&before, &sum.numbers, &after), seconds));
    let tokens = match input {
        Some(input) => input.tokens().unwrap_or(0),
        None => calls.iter().map(|ran| ran.call.tokens).sum(),
    };
    Phase {
        name,
        input,
        tokens,
        calls: calls.len(),
        seconds,
        outside: all.saturating_sub(inside).as_secs_f64(),
        operations: longest_first(operations),
        places: longest_first(places),
    }
}

fn longest_first(lines: impl Iterator<Item = Line>) -> Vec<Line> {
    let mut lines: Vec<Line> = lines.collect();
    lines.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    lines
}

#[derive(Default)]
struct Sum {
    numbers: std::collections::BTreeSet<u32>,
    calls: usize,
    time: Duration,
    work: Work,
}

impl Sum {
    fn add(&mut self, number: Option<u32>, time: Duration, work: Work) {
        self.numbers.extend(number);
        self.calls += 1;
        self.time += time;
        self.work += work;
    }

    fn line(&self, name: String, whole: f64) -> Line {
        let seconds = self.time.as_secs_f64();
        let share = if whole > 0.0 { seconds / whole } else { 0.0 };
        Line { name, calls: self.calls, seconds, share, work: self.work }
    }
}

/// A name around the number of its layer: the first number that a point, slash or underscore follows.
fn split(name: &str) -> (&str, Option<u32>, &str) {
    let bytes = name.as_bytes();
    let mut at = 0;
    while let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|i| at + i) {
        let end = bytes[start..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |i| start + i);
        if matches!(bytes.get(end), Some(b'.' | b'/' | b'_'))
            && let Ok(number) = name[start..end].parse()
        {
            return (&name[..start], Some(number), &name[end..]);
        }
        at = end;
    }
    (name, None, "")
}

/// `layers 0-23: attn_out` of `layer3.attn_out` and its like; a name of one layer stays as it is.
fn place(before: &str, numbers: &std::collections::BTreeSet<u32>, after: &str) -> String {
    let mut all = numbers.iter().copied();
    let (Some(first), true) = (all.next(), numbers.len() > 1) else {
        let number = numbers.first().map_or_else(String::new, u32::to_string);
        return format!("{before}{number}{after}");
    };
    let mut ranges = vec![(first, first)];
    for number in all {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let ranges: Vec<String> =
        ranges.into_iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") }).collect();
    let before = before.trim_end_matches(['.', '/', '_']);
    let plural = if before.ends_with('s') { "" } else { "s" };
    format!("{before}{plural} {}: {}", ranges.join(","), after.trim_start_matches(['.', '/', '_']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_fold_into_one_place() {
        assert_eq!(split("layer12.attn_out"), ("layer", Some(12), ".attn_out"));
        assert_eq!(split("h1x/blk.3.up"), ("h1x/blk.", Some(3), ".up"));
        assert_eq!(split("v12"), ("v12", None, ""));
        assert_eq!(split("é3"), ("é3", None, ""));
        let named = |numbers: &[u32]| place("layer", &numbers.iter().copied().collect(), ".up");
        assert_eq!(named(&[0, 1, 2, 3]), "layers 0-3: up");
        assert_eq!(named(&[0, 1, 3, 5, 6]), "layers 0-1,3,5-6: up");
        assert_eq!(named(&[7]), "layer7.up");
        assert_eq!(place("model.layers.", &[1, 2].into(), "_out"), "model.layers 1-2: out");
        assert_eq!(place("logits", &[].into(), ""), "logits");
    }
}
