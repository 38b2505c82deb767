//! Walking the instructions of a schedule.

use super::call::{Call, Segment, Turning, Work};
use super::memory::{Block, Codes, Hand, Place, Shared};
use super::schedule::{Location, Schedule};
use super::work::{Scratch, Step};
use crate::cache::Cache;
use crate::error::{ExecutorError, Result};
use crate::interpreter::Frame;
use crate::interpreter::layout::operand;
use crate::kernels::packed::Quantized;
use crate::kernels::{AttentionShared, KernelError};
use crate::program::{Loaded, Program};
use crate::session::run_step;
use crate::value::{Val, with_slice};
use candle_core::{DType, Device, Tensor};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Schedules that a session keeps for each of its plans: for one token, and for the last other size.
const KEPT: usize = 2;

/// Rows up to which threads may share the keys of one attention.
const FEW: usize = 64;
/// Keys for which there is room at a time.
const KEYS: usize = 4096;

/// The memory of a session's steps, and what it runs on it.
#[derive(Default)]
pub(crate) struct Runner {
    /// The schedules of each variant of the plan, the one used last at the front; `None`: such sizes have none.
    schedules: [Vec<(tallow_ir::Bindings, Option<Box<Schedule>>)>; 3],
    block: Block,
    /// What each thread has for itself.
    own: Vec<Mutex<Scratch>>,
    codes: Vec<Quantized>,
    counters: Vec<AtomicUsize>,
    ids: Vec<u32>,
    attention: AttentionShared,
    /// Set while threads run: found set where a panic ended a step.
    running: bool,
    result: Place,
    /// Tensors and values of steps that run by themselves.
    values: Vec<Option<Val>>,
    #[cfg(debug_assertions)]
    log: super::races::Log,
}

/// A branch of a session begins with no memory of its own: it grows with the first step.
impl Clone for Runner {
    fn clone(&self) -> Self {
        Runner::default()
    }
}

/// Which call a runner is to do.
pub(crate) struct Order<'a> {
    pub program: &'a Program,
    pub loaded: &'a Loaded,
    /// The number of the plan's variant.
    pub variant: usize,
    pub bindings: &'a tallow_ir::Bindings,
    pub tokens: usize,
    /// Tokens in the cache.
    pub past: usize,
}

impl Runner {
    /// Runs a call; `None` where the plan has no schedule for these sizes, or the ids name no row of a table. What is
    /// wrong is then for the steps to say.
    ///
    /// # Errors
    /// Those of the steps.
    pub fn run(
        &mut self,
        order: &Order<'_>,
        given: &[Tensor],
        frame: &mut Frame<'_>,
    ) -> Result<Option<Vec<(String, Tensor)>>> {
        let Some(mut schedule) = self.schedule(order)? else { return Ok(None) };
        let done = match self.ids_of(&schedule, given)? {
            false => Ok(None),
            true => self.run_schedule(&mut schedule, order, given, frame).map(Some),
        };
        // The values of this call are over.
        self.values.iter_mut().for_each(|v| *v = None);
        self.keep(order, schedule);
        done
    }

    /// Runs one token after those of the cache, whose buffer `output` then is [`Runner::result`]. `false` where that
    /// needs more than instructions; nothing has then run. Allocates nothing once the first such call has run, but for
    /// caches that grow.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub fn decode(&mut self, order: &Order<'_>, id: u32, output: u32, frame: &mut Frame<'_>) -> Result<bool> {
        let Some(mut schedule) = self.schedule(order)? else { return Ok(false) };
        let known = schedule.ids.is_some_and(|(_, rows)| (id as usize) < rows);
        let place = match schedule.locations[output as usize] {
            Location::Place(place) if known && schedule.is_whole() => place,
            _ => {
                self.keep(order, schedule);
                return Ok(false);
            }
        };
        self.ids.clear();
        self.ids.push(id);
        let done = match self.begin(&mut schedule, order, frame) {
            Ok(()) => self.team(&schedule, &schedule.calls, order, frame.caches),
            Err(e) => Err(e),
        };
        self.keep(order, schedule);
        self.result = place;
        done.map(|()| true)
    }

    /// What the last [`Runner::decode`] gave.
    pub fn result(&mut self) -> &[f32] {
        self.place(self.result)
    }

    /// Takes the schedule of a call out of those that are kept.
    fn schedule(&mut self, order: &Order<'_>) -> Result<Option<Box<Schedule>>> {
        let kept = &mut self.schedules[order.variant];
        let fits = |(sizes, schedule): &(tallow_ir::Bindings, Option<Box<Schedule>>)| match schedule {
            Some(schedule) => schedule.fits(order.bindings),
            None => sizes == order.bindings,
        };
        if let Some(at) = kept.iter().position(fits) {
            return Ok(kept.remove(at).1);
        }
        let made = Schedule::new(order.loaded, order.bindings, order.tokens)?.map(Box::new);
        if made.is_none() {
            kept.insert(0, (order.bindings.clone(), None));
            kept.truncate(KEPT);
        }
        Ok(made)
    }

    fn keep(&mut self, order: &Order<'_>, schedule: Box<Schedule>) {
        let kept = &mut self.schedules[order.variant];
        kept.insert(0, (tallow_ir::Bindings::new(), Some(schedule)));
        kept.truncate(KEPT);
    }

    /// Reads the ids of the call; `false` where one is no row of a table.
    fn ids_of(&mut self, schedule: &Schedule, given: &[Tensor]) -> Result<bool> {
        self.ids.clear();
        let Some((input, rows)) = schedule.ids else { return Ok(true) };
        let ids = given[input].flatten_all()?;
        if ids.dtype() != DType::I64 {
            return Ok(false);
        }
        self.ids.extend(ids.to_vec1::<i64>()?.iter().filter_map(|&i| u32::try_from(i).ok()));
        Ok(self.ids.len() == ids.elem_count() && self.ids.iter().all(|&id| (id as usize) < rows))
    }

    /// Makes room, and fills what depends on the position.
    fn begin(&mut self, schedule: &mut Schedule, order: &Order<'_>, frame: &mut Frame<'_>) -> Result<()> {
        if std::mem::take(&mut self.running) {
            self.attention = AttentionShared::default();
        }
        self.block.grow(schedule.block);
        let threads = order.program.team.threads();
        if self.own.len() < threads {
            self.own.resize_with(threads, Mutex::default);
        }
        let team = &order.program.team;
        for own in &mut self.own {
            own.get_mut().unwrap_or_else(PoisonError::into_inner).reserve(schedule, threads)?;
        }
        if self.codes.len() < schedule.codes.len() {
            self.codes.resize_with(schedule.codes.len(), Quantized::default);
        }
        for (codes, grid) in self.codes.iter_mut().zip(&schedule.codes) {
            codes.resize(grid.rows, grid.width).map_err(kernel)?;
        }
        if self.counters.len() < schedule.counters {
            self.counters.resize_with(schedule.counters, AtomicUsize::default);
        }
        for table in &mut schedule.tables {
            fill(table, order.past, schedule.tokens, frame.length);
        }
        for call in &schedule.calls {
            call.work.pack(team)?;
            match &call.work {
                // In steps, so that not every token makes more room.
                Work::Attend(attend) if attend.rows <= FEW => {
                    self.attention.reserve(&attend.spec, (order.past + attend.rows).next_multiple_of(KEYS));
                }
                Work::Append(append) => {
                    let cache = &mut frame.caches[append.cache];
                    let first = cache.extend(append.widths, append.rows);
                    match first {
                        Ok(first) if first == order.past => {}
                        Ok(first) => {
                            return Err(fault(order, call, format!("{first} cached rows, not {}", order.past)));
                        }
                        Err(cause) => return Err(fault(order, call, cause)),
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn run_schedule(
        &mut self,
        schedule: &mut Schedule,
        order: &Order<'_>,
        given: &[Tensor],
        frame: &mut Frame<'_>,
    ) -> Result<Vec<(String, Tensor)>> {
        self.begin(schedule, order, frame)?;
        let plan = &order.loaded.plan;
        self.values.resize(plan.buffers as usize, None);
        for (input, tensor) in plan.inputs.iter().zip(given) {
            self.values[input.buffer.0 as usize] = Some(Val::Tensor(tensor.clone()));
        }
        let mut operands = Vec::new();
        for (segment, imports) in schedule.segments.iter().zip(&schedule.imports) {
            for (buffer, place) in imports {
                self.import(order, *buffer, *place, frame.caches)?;
            }
            match segment {
                Segment::Team(range) => {
                    self.team(schedule, &schedule.calls[range.clone()], order, frame.caches)?;
                }
                Segment::Alone(at) => self.alone(schedule, order, *at, &mut operands, frame)?,
            }
        }
        plan.outputs
            .iter()
            .map(|(name, b)| Ok((name.clone(), self.value(schedule, order, b.0)?.tensor(frame.caches)?)))
            .collect()
    }

    /// The content of a buffer.
    fn value(&mut self, schedule: &Schedule, order: &Order<'_>, buffer: u32) -> Result<Val> {
        let missing = || ExecutorError::Input { name: format!("%{buffer}"), cause: "was not computed".into() };
        let at = buffer as usize;
        match schedule.locations[at] {
            Location::Fixed => order.loaded.fixed[at].clone().ok_or_else(missing),
            Location::Input(_) | Location::Alone => self.values[at].clone().ok_or_else(missing),
            Location::Cache(cache, part) => Ok(Val::Cache(cache, part)),
            Location::Place(place) => {
                let ty = order.loaded.plan.type_of(tallow_compiler::Buffer(buffer)).ok_or_else(missing)?;
                let dims = ty.shape.evaluate(order.bindings).ok_or_else(missing)?;
                let values = self.place(place);
                Ok(Val::Tensor(Tensor::from_slice(values, dims, &Device::Cpu)?))
            }
        }
    }

    /// The elements of a place, between two calls of the team.
    fn place(&mut self, place: Place) -> &[f32] {
        let block = match place.own {
            true => &self.own[0].get_mut().unwrap_or_else(PoisonError::into_inner).block,
            false => &self.block,
        };
        &block.values()[place.at..place.at + place.len]
    }

    fn import(&mut self, order: &Order<'_>, buffer: u32, place: Place, caches: &[Cache]) -> Result<()> {
        let value = self.values[buffer as usize].as_ref();
        let missing = || ExecutorError::Input { name: format!("%{buffer}"), cause: "was not computed".into() };
        let mut tensor = value.ok_or_else(missing)?.tensor(caches)?;
        if tensor.dtype() != DType::F32 {
            tensor = tensor.to_dtype(DType::F32)?;
        }
        if tensor.elem_count() != place.len {
            let ty = order.loaded.plan.type_of(tallow_compiler::Buffer(buffer)).map(ToString::to_string);
            return Err(ExecutorError::Input {
                name: format!("%{buffer}"),
                cause: format!("has shape {:?}, and the plan {}", tensor.dims(), ty.unwrap_or_default()),
            });
        }
        let target = &mut self.block.values_mut()[place.at..place.at + place.len];
        with_slice(&tensor, |values| target.copy_from_slice(values))
    }

    /// Runs a step that has no instructions.
    fn alone(
        &mut self,
        schedule: &Schedule,
        order: &Order<'_>,
        at: usize,
        operands: &mut Vec<Val>,
        frame: &mut Frame<'_>,
    ) -> Result<()> {
        let step = &order.loaded.plan.steps[at];
        for b in &step.operands {
            // What lies in the block is made a value for this step.
            if matches!(schedule.locations[b.0 as usize], Location::Place(_) | Location::Cache(..)) {
                self.values[b.0 as usize] = Some(self.value(schedule, order, b.0)?);
            }
        }
        let results = run_step(order.program, order.loaded, step, &mut self.values, operands, frame)?;
        for (b, value) in step.results.iter().zip(results) {
            if !step.frees.contains(b) {
                self.values[b.0 as usize] = Some(value);
            }
        }
        operands.clear();
        for b in &step.operands {
            if matches!(schedule.locations[b.0 as usize], Location::Place(_)) {
                self.values[b.0 as usize] = None;
            }
        }
        Ok(())
    }

    /// Runs instructions on all threads.
    fn team(&mut self, schedule: &Schedule, calls: &[Call], order: &Order<'_>, caches: &mut [Cache]) -> Result<()> {
        self.counters.iter().for_each(|c| c.store(0, Ordering::Relaxed));
        // None for one token: an empty list allocates nothing.
        let codes: Vec<Codes<'_>> = self.codes.iter_mut().take(schedule.codes.len()).map(Codes::new).collect();
        #[cfg(debug_assertions)]
        self.log.clear();
        let shared = Shared::of_schedule(
            &mut self.block,
            caches,
            &codes,
            #[cfg(debug_assertions)]
            &self.log,
        );
        let step = Step {
            ids: &self.ids,
            tables: &schedule.tables,
            counters: &self.counters,
            attention: &self.attention,
            past: order.past,
            team: &order.program.team,
            failed: Mutex::new(None),
        };
        let own = &self.own;
        self.running = true;
        order.program.team.together(|member| {
            let mut scratch = own[member.index].lock().unwrap_or_else(PoisonError::into_inner);
            let Scratch { block, work } = &mut *scratch;
            let hand = Hand::new(member, &shared, block);
            for call in calls {
                if call.wait && hand.wait().is_err() {
                    return;
                }
                step.run(call, &hand, work);
            }
        });
        self.running = false;
        match step.failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some((at, cause)) => Err(operand(&order.loaded.plan.steps[at], cause)),
        }
    }
}

/// An error of an instruction.
fn fault(order: &Order<'_>, call: &Call, cause: String) -> ExecutorError {
    operand(&order.loaded.plan.steps[call.step], cause)
}

/// Fills a table for `tokens` positions that follow `past`.
fn fill(turning: &mut Turning, past: usize, tokens: usize, length: usize) {
    if turning.by_length {
        let reach = length.max(past + tokens) as u64;
        if let Some(angles) = tallow_ir::rope::angles(&turning.op, reach) {
            turning.angles = angles;
        }
    }
    turning.table.prepare(&turning.angles.frequencies, turning.angles.factor, past as i64, tokens);
}

/// An error of a kernel outside any step.
pub(super) fn kernel(e: KernelError) -> ExecutorError {
    ExecutorError::Threads(e.to_string())
}
