//! A session: the state of one conversation over a shared program.

use crate::cache::Cache;
use crate::cpu;
use crate::error::{ExecutorError, Result};
use crate::interpreter::random::RandomState;
use crate::interpreter::{self, Frame};
use crate::program::{Engine, LOGITS, Program};
use crate::value::Val;
use candle_core::{DType, Device, Tensor};
use std::sync::Arc;
use tallow_compiler::PlanInput;
use tallow_ir::{Bindings, PAST, POS, SEQUENCE};

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
    caches: Vec<Cache>,
    past: usize,
    random: RandomState,
}

impl Session {
    /// An empty session.
    pub fn new(program: Arc<Program>) -> Self {
        let caches = vec![Cache::new(program.half_cache); program.plan().caches as usize];
        Session { program, caches, past: 0, random: RandomState::default() }
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

    /// Bytes that the cache holds.
    pub fn cache_bytes(&self) -> usize {
        self.caches.iter().map(Cache::bytes).sum()
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
            let chunk = if session.is_stateless() { ids.len() } else { session.program.options.chunk.max(1) };
            for chunk in ids.chunks(chunk) {
                let values: Vec<i64> = chunk.iter().map(|&i| i64::from(i)).collect();
                let tensor = Tensor::from_vec(values, chunk.len(), &Device::Cpu)?;
                let out = session.call(&[("input_ids".into(), tensor)], rows, length)?;
                let logits = out.into_iter().find(|(name, _)| name == LOGITS);
                let missing = || ExecutorError::Input {
                    name: LOGITS.into(),
                    cause: "is no output of this graph; run it by its inputs".into(),
                };
                parts.push(logits.ok_or_else(missing)?.1);
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

    /// Runs the graph once on named inputs and gives every output. On an error the session is as it
    /// was.
    pub fn run(&mut self, inputs: &[(String, Tensor)], rows: Rows) -> Result<Vec<(String, Tensor)>> {
        let tokens = self.bind(inputs, rows)?.1.get(SEQUENCE).copied().unwrap_or(1).max(0) as usize;
        self.check_room(tokens)?;
        self.call(inputs, rows, self.past + tokens)
    }

    fn check_room(&self, tokens: usize) -> Result<()> {
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
        let tokens = bindings.get(SEQUENCE).copied().unwrap_or(1).max(0) as usize;
        let random = self.random;
        let result = self.walk(given, rows, tokens, length);
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

    fn walk(&mut self, given: Vec<Tensor>, rows: Rows, tokens: usize, length: usize) -> Result<Vec<(String, Tensor)>> {
        let program = self.program.clone();
        let loaded = program.loaded(rows);
        let plan = &loaded.plan;
        let mut buffers: Vec<Option<Val>> = vec![None; plan.buffers as usize];
        for (input, tensor) in plan.inputs.iter().zip(given) {
            buffers[input.buffer.0 as usize] = Some(Val::Tensor(tensor));
        }
        let host = program.host.as_deref();
        let mut frame = Frame { caches: &mut self.caches, tokens, length, random: &mut self.random, host };
        let mut operands = Vec::new();
        for step in &plan.steps {
            operands.clear();
            for b in &step.operands {
                let at = b.0 as usize;
                operands.extend(buffers[at].clone().or_else(|| loaded.fixed[at].clone()));
            }
            // Dropped before the step runs, so that its storage can be used again.
            for b in &step.frees {
                buffers[b.0 as usize] = None;
            }
            let results = match program.options.engine {
                Engine::Cpu => match cpu::step(&program.team, step, &operands, &mut frame)? {
                    Some(results) => results,
                    None => interpreter::step(step, &operands, &mut frame)?,
                },
                Engine::Reference => interpreter::step(step, &operands, &mut frame)?,
            };
            for (b, value) in step.results.iter().zip(results) {
                if !step.frees.contains(b) {
                    buffers[b.0 as usize] = Some(value);
                }
            }
        }
        plan.outputs
            .iter()
            .map(|(name, b)| {
                let at = b.0 as usize;
                let value = buffers[at].clone().or_else(|| loaded.fixed[at].clone());
                let missing = || ExecutorError::Input { name: name.clone(), cause: "was not computed".into() };
                Ok((name.clone(), value.ok_or_else(missing)?.tensor(frame.caches)?))
            })
            .collect()
    }

    /// The inputs in the plan's order, as the plan's types, and the symbols that their shapes bind.
    fn bind(&self, inputs: &[(String, Tensor)], rows: Rows) -> Result<(Vec<Tensor>, Bindings)> {
        let plan = &self.program.loaded(rows).plan;
        let fault = |name: &str, cause: String| ExecutorError::Input { name: name.into(), cause };
        let signature = || {
            let list: Vec<_> =
                plan.inputs.iter().filter(|i| i.name != POS).map(|i| format!("{}: {}", i.name, i.ty)).collect();
            list.join(", ")
        };
        if let Some((name, _)) = inputs.iter().find(|(n, _)| n == POS || !plan.inputs.iter().any(|i| i.name == *n)) {
            return Err(fault(name, format!("is no input of this graph; it takes {}", signature())));
        }
        let mut bindings = Bindings::from([(PAST.to_owned(), self.past as i64)]);
        let mut given = Vec::with_capacity(plan.inputs.len());
        for input in &plan.inputs {
            if input.name == POS {
                given.push(Tensor::new(self.past as i64, &Device::Cpu)?);
                continue;
            }
            let (_, tensor) = inputs
                .iter()
                .find(|(n, _)| *n == input.name)
                .ok_or_else(|| fault(&input.name, format!("is missing; the graph takes {}", signature())))?;
            let tensor = fit(input, tensor, &mut bindings).map_err(|cause| fault(&input.name, cause))?;
            let wanted = if input.ty.dtype.is_integer() { DType::I64 } else { DType::F32 };
            if wanted == DType::I64 && tensor.dtype().is_float() {
                let values = tensor.flatten_all()?.to_dtype(DType::F64)?.to_vec1::<f64>()?;
                if let Some(v) = values.iter().find(|v| v.fract() != 0.0 || v.abs() > 9e15) {
                    return Err(fault(&input.name, format!("holds {v}, where whole numbers are expected")));
                }
            }
            given.push(if tensor.dtype() == wanted { tensor } else { tensor.to_dtype(wanted)? });
        }
        Ok((given, bindings))
    }
}

/// `tensor` in the declared shape, binding symbols that it is the first to fix. One leading 1 too
/// many or too few is accepted.
fn fit(input: &PlanInput, tensor: &Tensor, bindings: &mut Bindings) -> std::result::Result<Tensor, String> {
    let declared = input.ty.shape.dims();
    let tensor = match tensor.rank() as i64 - declared.len() as i64 {
        1 if tensor.dims().first() == Some(&1) => tensor.squeeze(0),
        -1 if declared.first().is_some_and(|d| d.as_const() == Some(1) || d.as_symbol().is_some()) => {
            tensor.unsqueeze(0)
        }
        _ => Ok(tensor.clone()),
    }
    .map_err(|e| e.to_string())?;
    let wrong = |t: &Tensor| format!("has shape {:?}, expected {}", t.dims(), input.ty);
    if tensor.rank() != declared.len() {
        return Err(wrong(&tensor));
    }
    for (&size, dim) in tensor.dims().iter().zip(declared) {
        if let Some(symbol) = dim.as_symbol()
            && !bindings.contains_key(symbol)
        {
            bindings.insert(symbol.to_owned(), size as i64);
        }
        if dim.evaluate(bindings).is_some_and(|n| n != size as i64) {
            let bound: Vec<_> = bindings.iter().map(|(s, n)| format!("{s} = {n}")).collect();
            return Err(format!("{} where {}", wrong(&tensor), bound.join(", ")));
        }
    }
    Ok(tensor)
}
