//! A session: the state of one conversation over a shared program.

mod decode;
mod inputs;

use crate::cache::Cache;
use crate::cpu;
use crate::error::{ExecutorError, Result};
use crate::interpreter::layout::operand;
use crate::interpreter::random::RandomState;
use crate::interpreter::{self, Frame};
use crate::native::{Order, Runner};
use crate::profile::Recorder;
use crate::program::{Engine, LOGITS, Loaded, Program};
use crate::value::Val;
use candle_core::{DType, Device, Tensor};
use std::sync::Arc;
use std::time::Instant;
use tallow_compiler::Step;
use tallow_ir::{Bindings, DType as IrType, Dim, SEQUENCE, Shape, TensorType};

/// Which rows of the logits to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// One per token of the call.
    All,
    /// That of the last token.
    Last,
}

/// Runs calls of a program one after another; its cache holds what earlier calls saw. Cloning makes
/// a branch.
#[derive(Clone)]
pub struct Session {
    program: Arc<Program>,
    pub(crate) caches: Vec<Cache>,
    pub(crate) past: usize,
    pub(crate) random: RandomState,
    /// Inputs of every call of [`Session::forward`] beside the ids.
    fixed: Vec<(String, Tensor)>,
    /// Whether a text with them must run at once.
    whole: bool,
    runner: Runner,
    /// The sizes of [`Session::decode`].
    sizes: Bindings,
    /// Logits of [`Session::decode`] where they do not lie in the runner's memory.
    logits: Vec<f32>,
    /// Where the times of calls go.
    recorder: Option<Recorder>,
}

impl Session {
    /// An empty session.
    pub fn new(program: Arc<Program>) -> Self {
        let caches = vec![Cache::new(program.cache); program.plan().caches as usize];
        let (fixed, sizes, logits) = Default::default();
        let (random, runner, recorder) = (RandomState::default(), Runner::default(), None);
        Session { program, caches, past: 0, random, fixed, whole: false, runner, sizes, logits, recorder }
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Number of tokens in the cache.
    pub fn past(&self) -> usize {
        self.past
    }

    /// Whether calls leave nothing behind: the graph has no cache, so that each call must hold the
    /// whole text.
    pub fn is_stateless(&self) -> bool {
        self.caches.is_empty()
    }

    /// From now on the times of calls go to this recorder, or nowhere; gives the one before.
    pub fn set_recorder(&mut self, recorder: Option<Recorder>) -> Option<Recorder> {
        std::mem::replace(&mut self.recorder, recorder)
    }

    /// Bytes that the cache holds.
    pub fn cache_bytes(&self) -> usize {
        self.caches.iter().map(Cache::bytes).sum()
    }

    /// Makes room for `tokens` tokens in the cache, as far as the form of its rows is known: after the first call.
    /// Calls up to there need not make more.
    pub fn reserve(&mut self, tokens: usize) -> Result<()> {
        let fault = |cause| ExecutorError::Input { name: "input_ids".into(), cause };
        self.caches.iter_mut().try_for_each(|c| c.reserve(tokens)).map_err(fault)
    }

    /// What [`Session::forward`] gives the graph beside the ids, in every call: the results of a graph that runs once
    /// before a text. With such inputs a text runs at once, and not in chunks. The cache is emptied.
    pub fn set_fixed(&mut self, inputs: Vec<(String, Tensor)>) {
        self.reset();
        self.fixed = inputs;
        self.whole = true;
    }

    /// The same, with inputs in which the graph finds by the place of a token in the text what belongs to it, so that a long
    /// text runs in chunks.
    pub fn set_fixed_by_place(&mut self, inputs: Vec<(String, Tensor)>) {
        self.set_fixed(inputs);
        self.whole = false;
    }

    /// Begins the random numbers of the graph anew, from this seed; a session begins with the seed 0. The
    /// same seed and the same calls give the same results.
    pub fn set_seed(&mut self, seed: u64) {
        self.random = RandomState { seed, draws: 0 };
    }

    /// Empties the cache and begins the random numbers anew.
    pub fn reset(&mut self) {
        self.truncate(0);
    }

    /// Forgets everything past the first `tokens` tokens, so that a new text with the same beginning
    /// need not start anew. With 0 tokens the random numbers begin anew.
    pub fn truncate(&mut self, tokens: usize) {
        if tokens == 0 {
            self.random.draws = 0;
        }
        if tokens < self.past {
            self.caches.iter_mut().for_each(|c| c.truncate(tokens));
            self.past = tokens;
        }
    }

    /// The logits for `ids`, which follow what the cache holds: `f32` `[tokens, vocab]`, or
    /// `[1, vocab]` for [`Rows::Last`]. A long call runs in chunks; the result does not depend on
    /// them. On an error the session is as it was.
    pub fn forward(&mut self, ids: &[u32], rows: Rows) -> Result<Tensor> {
        if ids.is_empty() {
            return Err(ExecutorError::Input {
                name: "input_ids".into(),
                cause: "is empty; give at least one token".into(),
            });
        }
        self.check_room(ids.len())?;
        let start = self.past;
        let random = self.random;
        let length = start + ids.len();
        let run = |session: &mut Self| -> Result<Tensor> {
            let mut parts = Vec::new();
            let chunk = match session.program.one_token_inputs() {
                [] if session.is_stateless() || session.whole => ids.len(),
                [] => session.program.options.chunk.max(1),
                _ => 1,
            };
            for chunk in ids.chunks(chunk) {
                let values: Vec<i64> = chunk.iter().map(|&i| i64::from(i)).collect();
                let tensor = Tensor::from_vec(values, chunk.len(), &Device::Cpu)?;
                let mut inputs = session.fixed.clone();
                inputs.push(("input_ids".into(), tensor));
                let out = session.call(&inputs, rows, length)?;
                let logits = out.into_iter().find(|(name, _)| name == LOGITS);
                let missing = || ExecutorError::Input {
                    name: LOGITS.into(),
                    cause: "is no output of this graph; run it by its inputs".into(),
                };
                let logits = logits.ok_or_else(missing)?.1;
                let wanted = if rows == Rows::All { chunk.len() } else { 1 };
                let last = logits.dims().first().copied().unwrap_or(0);
                if logits.rank() != 2 || last < wanted || logits.dtype() != DType::F32 {
                    let found = format!("is {:?} {:?}", logits.dtype(), logits.dims());
                    return Err(ExecutorError::Input {
                        name: LOGITS.into(),
                        cause: format!(
                            "{found}, where text needs f32 [tokens, vocabulary]; run the graph by its inputs"
                        ),
                    });
                }
                parts.push(logits);
            }
            match (rows, parts.pop()) {
                (Rows::All, Some(last)) if !parts.is_empty() => {
                    parts.push(last);
                    Ok(Tensor::cat(&parts, 0)?)
                }
                (_, Some(last)) => Ok(last),
                (_, None) => Err(ExecutorError::Input { name: "input_ids".into(), cause: "is empty".into() }),
            }
        };
        let result = run(self);
        if result.is_err() {
            self.truncate(start);
            self.random = random;
        }
        result
    }

    /// Runs the graph on named inputs and gives every output. A graph for one token a call runs once
    /// for each token of `input_ids`: outputs that hold one token's part come one after another for
    /// [`Rows::All`], the others, and all for [`Rows::Last`], as the last call gives them. On an error
    /// the session is as it was.
    pub fn run(&mut self, inputs: &[(String, Tensor)], rows: Rows) -> Result<Vec<(String, Tensor)>> {
        let (start, random) = (self.past, self.random);
        let calls = self.calls(inputs)?;
        let mut parts = Vec::with_capacity(calls.len());
        for inputs in &calls {
            let tokens = self.bind(inputs, rows).map(|(_, bindings)| tokens(&bindings));
            let made = tokens.and_then(|tokens| {
                self.check_room(tokens)?;
                self.call(inputs, rows, start + tokens.max(calls.len()))
            });
            match made {
                Ok(outputs) => parts.push(outputs),
                Err(error) => {
                    self.truncate(start);
                    self.random = random;
                    return Err(error);
                }
            }
        }
        let Some(last) = parts.pop() else {
            return Err(ExecutorError::Input { name: "input_ids".into(), cause: "is empty".into() });
        };
        if parts.is_empty() || rows == Rows::Last {
            return Ok(last);
        }
        let types: Vec<_> = self.program.output_types(rows).collect();
        last.into_iter()
            .enumerate()
            .map(|(i, (name, tensor))| {
                let by_token = types[i].and_then(|t| t.shape.dims().first()).is_some_and(|d| d.as_const() == Some(1));
                if !by_token {
                    return Ok((name, tensor));
                }
                let all: Vec<&Tensor> = parts.iter().map(|p| &p[i].1).chain([&tensor]).collect();
                Ok((name, Tensor::cat(&all, 0)?))
            })
            .collect()
    }

    /// The inputs of each call: one call, but for a graph that takes one token in each.
    fn calls(&self, inputs: &[(String, Tensor)]) -> Result<Vec<Vec<(String, Tensor)>>> {
        let single = self.program.one_token_inputs();
        let long = |name: &str, t: &Tensor| single.iter().any(|n| n == name) && t.elem_count() > 1;
        let Some((first, count)) = inputs.iter().find(|(n, t)| long(n, t)).map(|(n, t)| (n.clone(), t.elem_count()))
        else {
            return Ok(vec![inputs.to_vec()]);
        };
        (0..count)
            .map(|at| {
                inputs
                    .iter()
                    .map(|(name, tensor)| {
                        if !single.iter().any(|n| n == name) {
                            return Ok((name.clone(), tensor.clone()));
                        }
                        if tensor.elem_count() != count {
                            return Err(ExecutorError::Input {
                                name: name.clone(),
                                cause: format!(
                                    "holds {} values, and `{first}` {count}; both hold one a token",
                                    tensor.elem_count()
                                ),
                            });
                        }
                        Ok((name.clone(), tensor.flatten_all()?.narrow(0, at, 1)?))
                    })
                    .collect()
            })
            .collect()
    }

    pub(crate) fn check_room(&self, tokens: usize) -> Result<()> {
        match self.program.options.context {
            Some(limit) if self.past + tokens > limit => {
                Err(ExecutorError::ContextFull { tokens, used: self.past, limit })
            }
            _ => Ok(()),
        }
    }

    /// One call; `length` is the number of tokens once the whole text that it is part of has run.
    fn call(&mut self, inputs: &[(String, Tensor)], rows: Rows, length: usize) -> Result<Vec<(String, Tensor)>> {
        let (given, bindings) = self.bind(inputs, rows)?;
        let tokens = tokens(&bindings);
        let random = self.random;
        let result = self.walk(given, rows, &bindings, length);
        match result {
            Ok(_) if self.caches.is_empty() => {}
            Ok(_) => self.past += tokens,
            Err(_) => {
                self.caches.iter_mut().for_each(|c| c.truncate(self.past));
                self.random = random;
            }
        }
        result
    }

    fn walk(
        &mut self,
        given: Vec<Tensor>,
        rows: Rows,
        bindings: &Bindings,
        length: usize,
    ) -> Result<Vec<(String, Tensor)>> {
        let program = self.program.clone();
        let tokens = tokens(bindings);
        let (loaded, variant) = program.for_call(rows, tokens);
        let plan = &loaded.plan;
        if program.runs_whole() {
            let order = Order { program: &program, loaded, variant, bindings, tokens, rows, past: self.past };
            let host = program.host.as_deref();
            let mut frame = Frame { caches: &mut self.caches, tokens, length, random: &mut self.random, host };
            if let Some(outputs) = self.runner.run(&order, &given, &mut frame, self.recorder.as_mut())? {
                return Ok(outputs);
            }
        }
        let mut buffers: Vec<Option<Val>> = vec![None; plan.buffers as usize];
        for (input, tensor) in plan.inputs.iter().zip(given) {
            buffers[input.buffer.0 as usize] = Some(Val::Tensor(tensor));
        }
        let host = program.host.as_deref();
        let mut frame = Frame { caches: &mut self.caches, tokens, length, random: &mut self.random, host };
        let mut operands = Vec::new();
        let mut recorder = self.recorder.as_mut();
        if let Some(recorder) = &mut recorder {
            recorder.begin(rows, tokens, self.past, plan.steps.len());
        }
        for (index, step) in plan.steps.iter().enumerate() {
            let started = recorder.is_some().then(Instant::now);
            let results = run_step(&program, loaded, step, &mut buffers, &mut operands, &mut frame)?;
            for (b, value) in step.results.iter().zip(results) {
                if !step.frees.contains(b) {
                    buffers[b.0 as usize] = Some(value);
                }
            }
            if let (Some(recorder), Some(started)) = (&mut recorder, started) {
                recorder.step(index, started, Instant::now());
            }
        }
        let outputs = outputs(loaded, &buffers, frame.caches);
        if let Some(recorder) = recorder {
            recorder.end();
        }
        outputs
    }
}

/// Runs a step on what the buffers hold and empties those that nothing reads after it. `operands` is storage that is
/// used again from step to step.
pub(crate) fn run_step(
    program: &Program,
    loaded: &Loaded,
    step: &Step,
    buffers: &mut [Option<Val>],
    operands: &mut Vec<Val>,
    frame: &mut Frame<'_>,
) -> Result<Vec<Val>> {
    operands.clear();
    for b in &step.operands {
        let at = b.0 as usize;
        operands.extend(buffers[at].clone().or_else(|| loaded.fixed[at].clone()));
    }
    if let Some(types) = &loaded.unsettled {
        refit(step, operands, types, frame.caches)?;
    }
    // Dropped before the step runs, so that its storage can be used again.
    for b in &step.frees {
        buffers[b.0 as usize] = None;
    }
    if program.options.engine == Engine::Cpu
        && let Some(results) = cpu::step(&program.team, step, operands, frame)?
    {
        return Ok(results);
    }
    interpreter::step(step, operands, frame)
}

/// The outputs once every step has run.
pub(crate) fn outputs(loaded: &Loaded, buffers: &[Option<Val>], caches: &[Cache]) -> Result<Vec<(String, Tensor)>> {
    let outputs = loaded.plan.outputs.iter();
    outputs
        .map(|(name, b)| {
            let at = b.0 as usize;
            let value = buffers[at].clone().or_else(|| loaded.fixed[at].clone());
            let missing = || ExecutorError::Input { name: name.clone(), cause: "was not computed".into() };
            Ok((name.clone(), value.ok_or_else(missing)?.tensor(caches)?))
        })
        .collect()
}

/// Asks the rule of a step again, with the sizes that running told.
fn refit(step: &Step, operands: &[Val], dtypes: &[IrType], caches: &[Cache]) -> Result<()> {
    let types = operands
        .iter()
        .zip(&step.operands)
        .map(|(value, buffer)| {
            let dims = value.dims(caches)?.into_iter().map(|n| Dim::constant(n as i64));
            Ok(TensorType::new(dtypes[buffer.0 as usize], Shape::new(dims)))
        })
        .collect::<Result<Vec<_>>>()?;
    match step.op.infer(&types) {
        Ok(_) => Ok(()),
        Err(cause) => Err(operand(step, format!("{cause} (sizes that only running told)"))),
    }
}

/// Tokens of a call: the sequence length, or one where the graph has none.
pub(crate) fn tokens(bindings: &Bindings) -> usize {
    bindings.get(SEQUENCE).copied().unwrap_or(1).max(0) as usize
}
