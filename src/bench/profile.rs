//! Where the time of a prompt, or of a whole input, and of the tokens after it goes: by operation and by place in the graph.

use super::phase::phase;
use super::subject::{self, Whole};
use super::{Call as Sizes, Line, Phase, Subject, context, greedy, ids, processor};
use crate::{Error, Model, Result};
use serde_json::{Value, json};
use std::sync::Arc;
use tallow_executor::kernels::Isa;
use tallow_executor::profile::{Call, Recorder};
use tallow_executor::tokenizer::TokenizerError;
use tallow_executor::{Program, Rows, Tensor};

/// What to run.
#[derive(Clone, Debug)]
pub struct ProfileOptions {
    /// Ids of the prompt, of a text or of a source ([`prompt_ids`]); of none, ids without meaning are taken.
    pub prompt: Vec<u32>,
    /// Tokens of it where it is not given.
    pub tokens: usize,
    /// Whether fewer of them are taken, of a model of whole texts that takes no more.
    pub fewer: bool,
    /// Tokens to generate.
    pub decode: usize,
}

impl Default for ProfileOptions {
    fn default() -> Self {
        ProfileOptions { prompt: Vec::new(), tokens: 64, fewer: true, decode: 16 }
    }
}

/// The times of a run.
pub struct Profile {
    /// The model.
    pub model: Model,
    /// Whole inputs, prompt and generation, as far as they were run.
    pub phases: Vec<Phase>,
    /// Every call with its steps.
    pub calls: Vec<Ran>,
}

/// A call with what ran it.
#[derive(Clone)]
pub struct Ran {
    /// The call.
    pub call: Call,
    /// Its program.
    pub program: Arc<Program>,
    /// Its sizes.
    pub sizes: Sizes,
}

impl Profile {
    /// All sums, for machines.
    pub fn json(&self) -> Value {
        let lines = |lines: &[Line]| lines.iter().map(Line::json).collect::<Vec<_>>();
        let phases = self.phases.iter().map(|phase| {
            json!({
                "name": phase.name,
                "input": phase.input.map(|input| input.to_string()),
                "tokens": phase.tokens,
                "calls": phase.calls,
                "seconds": phase.seconds,
                "seconds_outside_steps": phase.outside,
                "operations": lines(&phase.operations),
                "places": lines(&phase.places),
            })
        });
        json!({
            "model": self.model.file().label(),
            "processor": processor(),
            "threads": self.model.program().threads(),
            "instruction_set": Isa::detect().name(),
            "cache": self.model.program().cache_type().name(),
            "phases": phases.collect::<Vec<_>>(),
        })
    }

    /// Every step as an event, in the trace format of Chrome, which Perfetto opens too.
    pub fn trace(&self) -> Value {
        super::trace::events(&self.model, &self.calls)
    }
}

/// The ids of a text as the model takes it: with what stands around a whole text, or with what a prompt begins with.
///
/// # Errors
/// A model without tokenizer, or one that takes no text.
pub fn prompt_ids(model: &Model, text: &str) -> Result<Vec<u32>> {
    let label = model.file().label();
    match Subject::of(model)? {
        Subject::Texts { .. } => {
            let fault = |source: TokenizerError| Error::Tokenizer { file: label, source };
            Ok(model.tokenizer()?.encode_within(text, crate::text::positions(model)?).map_err(fault)?.ids)
        }
        Subject::Pictures | Subject::Sound => {
            Err(Error::Usage(format!("{label}: takes no text; leave the PROMPT out")))
        }
        Subject::Decoder | Subject::Sight | Subject::Source => model.session()?.encode(text),
    }
}

/// Runs a prompt, or a whole input, and some tokens after it twice, the second time with a clock: what is done once is left
/// out.
///
/// `cancelled` is asked before each call of the model, and stops the run.
///
/// # Errors
/// A model that takes what cannot be measured; more tokens than its context holds; being cancelled; those of running it.
pub fn profile(model: &Model, options: &ProfileOptions, cancelled: &dyn Fn() -> bool) -> Result<Profile> {
    let subject = Subject::of(model)?;
    let go_on = || match cancelled() {
        true => Err(Error::Usage("measuring was interrupted".into())),
        false => Ok(()),
    };
    let wholes = wholes(model, subject, options)?;
    let mut phases = Vec::new();
    let mut all = Vec::new();
    for whole in &wholes {
        let ran = whole_calls(whole, &go_on)?;
        phases.push(phase(model, "encode", Some(whole.input), &ran));
        all.extend(ran);
    }
    if subject.writes() {
        for (name, ran) in written(model, subject, wholes.last(), options, &go_on)? {
            phases.push(phase(model, name, None, &ran));
            all.extend(ran);
        }
    }
    Ok(Profile { model: model.clone(), phases, calls: all })
}

/// The whole inputs that are run: the given text, or as many of the wanted length as run in a call.
fn wholes(model: &Model, subject: Subject, options: &ProfileOptions) -> Result<Vec<Whole>> {
    let given = !options.prompt.is_empty();
    let mut skipped = Vec::new();
    let lengths = if given { vec![] } else { vec![options.tokens.max(1)] };
    let batch = super::BenchOptions::default().batch;
    let mut wholes = subject.wholes(model, &lengths, batch, &mut skipped)?;
    match subject {
        Subject::Source if given => wholes.push(subject::source(model, &options.prompt)?),
        Subject::Texts { .. } if given => wholes.push(subject::texts(model, 1, &options.prompt)?),
        _ => {}
    }
    match skipped.pop() {
        Some(why) if !options.fewer => {
            Err(Error::Usage(format!("{}: {why}; ask for fewer (--tokens)", model.file().label())))
        }
        Some(_) | None => Ok(wholes),
    }
}

/// The calls of a whole input, run twice.
fn whole_calls(whole: &Whole, go_on: &dyn Fn() -> Result<()>) -> Result<Vec<Ran>> {
    let mut session = whole.session();
    let mut recorded = Recorder::default();
    for recorder in [None, Some(Recorder::new())] {
        go_on()?;
        session.set_recorder(recorder);
        whole.run(&mut session)?;
        recorded = session.set_recorder(None).unwrap_or_default();
    }
    let ran = |call: Call| Ran { call, program: whole.program.clone(), sizes: whole.call() };
    Ok(recorded.into_calls().into_iter().map(ran).collect())
}

/// The calls of a prompt and those of the tokens after it.
fn written(
    model: &Model,
    subject: Subject,
    whole: Option<&Whole>,
    options: &ProfileOptions,
    go_on: &dyn Fn() -> Result<()>,
) -> Result<Vec<(&'static str, Vec<Ran>)>> {
    // Behind a whole input a text begins with one token.
    let given = if subject.prompts() { options.prompt.as_slice() } else { &[] };
    let count = match (subject.prompts(), given.len()) {
        (false, _) => 1,
        (true, 0) => options.tokens.max(1),
        (true, count) => count,
    };
    let (context, needed) = (context(model), count.saturating_add(options.decode));
    if needed > context {
        return Err(Error::Usage(format!(
            "a prompt of {count} tokens and {} after it (--decode) need {needed}, and the context holds {context}; ask \
             for fewer (--tokens, --decode), or raise the limit (--context) if the model allows more",
            options.decode
        )));
    }
    let (mut session, beside) = subject.session(model, whole)?;
    let prompt = match given {
        [] => {
            let vocabulary = session.forward(&ids(1, 2), Rows::Last)?.dims().last().copied().unwrap_or(1);
            ids(count, vocabulary)
        }
        given => given.to_vec(),
    };
    let mut run = |recorder: Option<Recorder>| -> Result<(Recorder, usize)> {
        session.reset();
        session.set_recorder(recorder);
        go_on()?;
        let mut logits = session.forward(&prompt, Rows::Last)?;
        let before = session.set_recorder(None);
        let prompt_calls = before.as_ref().map_or(0, |r| r.calls().len());
        session.set_recorder(before);
        let mut text = prompt.clone();
        for _ in 0..options.decode {
            let next = greedy(&logits)?;
            text.push(next);
            go_on()?;
            logits = match session.is_stateless() {
                true => session.forward(&text, Rows::Last)?,
                false => session.forward(&[next], Rows::Last)?,
            };
        }
        Ok((session.set_recorder(None).unwrap_or_default(), prompt_calls))
    };
    run(None)?;
    let (recorder, prompt_calls) = run(Some(Recorder::new()))?;
    let mut first = of_tokens(model, recorder.into_calls(), &beside);
    let rest = first.split_off(prompt_calls);
    // The token that a text begins with is one like those that follow.
    let parts = match subject.prompts() {
        true => vec![("prefill", first), ("decode", rest)],
        false => vec![("decode", first.into_iter().chain(rest).collect())],
    };
    Ok(parts.into_iter().filter(|(_, calls)| !calls.is_empty()).collect())
}

fn of_tokens(model: &Model, calls: Vec<Call>, beside: &[(String, Tensor)]) -> Vec<Ran> {
    let program = model.program();
    let ran = |call: Call| {
        let sizes = Sizes::new(program, call.tokens, call.past, beside);
        Ran { call, program: program.clone(), sizes }
    };
    calls.into_iter().map(ran).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_before_it_runs_and_a_run_can_be_stopped() {
        let model = Model::storyteller().unwrap();
        let of = |prompt: Vec<u32>, tokens, decode| {
            profile(&model, &ProfileOptions { prompt, tokens, fewer: false, decode }, &|| panic!("runs"))
                .err()
                .unwrap()
                .to_string()
        };
        for error in
            [of(vec![], usize::MAX, 1), of(vec![], 1 << 40, 0), of(vec![1], 1, usize::MAX), of(vec![1], 1, 1024)]
        {
            assert!(error.contains("the context holds 1024;") && error.contains("--decode"), "{error}");
        }
        let asked = std::cell::Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) == 3;
        let options = ProfileOptions { decode: 100, ..ProfileOptions::default() };
        assert!(profile(&model, &options, &stop).is_err());
        assert_eq!(asked.get(), 4, "stopped at once");
    }

    #[test]
    fn every_step_of_every_call_is_in_both_sums() {
        let model = Model::storyteller().unwrap();
        let options = ProfileOptions { tokens: 5, decode: 3, ..ProfileOptions::default() };
        let profile = profile(&model, &options, &|| false).unwrap();
        let names: Vec<_> = profile.phases.iter().map(|p| (p.name, p.tokens, p.calls)).collect();
        assert_eq!(names, [("prefill", 5, 1), ("decode", 3, 3)]);
        assert_eq!(profile.calls.iter().map(|ran| ran.call.past).collect::<Vec<_>>(), [0, 5, 6, 7]);
        for phase in &profile.phases {
            let tokens = phase.tokens / phase.calls;
            let steps = phase.calls * model.program().call_plan(Rows::Last, tokens).steps.len();
            for lines in [&phase.operations, &phase.places] {
                assert_eq!(lines.iter().map(|l| l.calls).sum::<usize>(), steps);
                let seconds = lines.iter().map(|l| l.seconds).sum::<f64>() + phase.outside;
                assert!((seconds - phase.seconds).abs() < 1e-6, "{seconds} {}", phase.seconds);
                assert!(lines.is_sorted_by(|a, b| a.seconds >= b.seconds));
            }
            let work = phase.operations.iter().map(|l| l.work.multiply_adds).sum::<u64>();
            assert_eq!(work, phase.places.iter().map(|l| l.work.multiply_adds).sum::<u64>());
            assert!(work > 0);
        }
    }
}
