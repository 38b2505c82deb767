//! What a session notes about its calls while it runs them: when each step of the plan began and ended.
//!
//! A [`Recorder`] costs two readings of the clock a step; without one nothing is read. Who runs the steps calls
//! [`Recorder::begin`], [`Recorder::step`] for every step and [`Recorder::end`], from one thread.

use crate::session::Rows;
use std::time::Instant;

/// The time of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its place in the steps of the plan.
    pub step: usize,
    /// When it began.
    pub started: Instant,
    /// When its results were there.
    pub ended: Instant,
}

/// One call of a session, a chunk of a prompt or one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// With `tokens`, which plan ran: [`crate::Program::call_plan`].
    pub rows: Rows,
    /// Tokens of the call.
    pub tokens: usize,
    /// Tokens that the cache held before it.
    pub past: usize,
    /// When it began.
    pub started: Instant,
    /// When it ended.
    pub ended: Instant,
    /// Its steps in the order in which they ran; fewer than the plan has where the call failed.
    pub steps: Vec<Span>,
}

/// Collects the calls of a session.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    calls: Vec<Call>,
}

impl Recorder {
    /// A recorder without calls.
    pub fn new() -> Self {
        Self::default()
    }

    /// The calls so far.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The calls.
    pub fn into_calls(self) -> Vec<Call> {
        self.calls
    }

    /// A call begins, of a plan with `steps` steps.
    pub fn begin(&mut self, rows: Rows, tokens: usize, past: usize, steps: usize) {
        let now = Instant::now();
        self.calls.push(Call { rows, tokens, past, started: now, ended: now, steps: Vec::with_capacity(steps) });
    }

    /// Step `index` of the plan has run.
    pub fn step(&mut self, index: usize, started: Instant, ended: Instant) {
        if let Some(call) = self.calls.last_mut() {
            call.steps.push(Span { step: index, started, ended });
        }
    }

    /// The call has ended.
    pub fn end(&mut self) {
        if let Some(call) = self.calls.last_mut() {
            call.ended = Instant::now();
        }
    }
}
