//! A traced run: one call that stops after every step, shows what the step gave, and lets it be replaced before later
//! steps read it. What finds the first operation where two computations part is built on it.

use crate::cache::Part;
use crate::error::{ExecutorError, Result};
use crate::interpreter::random::RandomState;
use crate::interpreter::{self, Frame};
use crate::program::Program;
use crate::session::{self, Rows, Session};
use crate::value::Val;
use candle_core::{DType, Tensor};
use std::sync::Arc;
use tallow_compiler::{Buffer, Step};
use tallow_ir::NodeId;

/// What a step gave.
#[derive(Clone, Debug)]
pub struct Traced {
    /// The node of the graph that the program was made of.
    pub node: NodeId,
    /// The results in order: weights decoded, caches with all their rows.
    pub results: Vec<Tensor>,
    /// Whether the step reads weights alone, so that it ran when the program was loaded.
    pub once: bool,
}

/// One call of a session, step by step, in the order of the plan: what runs once comes first, as it was computed on
/// loading. The session is as it was until [`Trace::finish`]; a trace that is dropped leaves nothing behind.
pub struct Trace<'s> {
    session: &'s mut Session,
    program: Arc<Program>,
    buffers: Vec<Option<Val>>,
    /// Steps of the prelude that have been shown, then steps of the call that have run.
    shown: usize,
    /// What the last step gave, as far as it may be replaced: sizes, type, and where it is.
    last: Vec<Place>,
    tokens: usize,
    random: RandomState,
    finished: bool,
}

/// Where a result is.
struct Place {
    buffer: Buffer,
    dims: Vec<usize>,
    dtype: DType,
    /// The side of a cache that it refers to.
    cache: Option<(u32, Part)>,
    /// Nothing reads it.
    unread: bool,
}

impl Session {
    /// Begins a traced call on named inputs, which computes every row of every output and runs at once, not in chunks.
    ///
    /// # Errors
    /// Inputs that do not fit, among them several tokens for a graph that takes one a call; a full context.
    pub fn trace(&mut self, inputs: &[(String, Tensor)]) -> Result<Trace<'_>> {
        let (given, bindings) = self.bind(inputs, Rows::All)?;
        let tokens = session::tokens(&bindings);
        self.check_room(tokens)?;
        let program = self.program().clone();
        let plan = program.plan();
        let mut buffers: Vec<Option<Val>> = vec![None; plan.buffers as usize];
        for (input, tensor) in plan.inputs.iter().zip(given) {
            buffers[input.buffer.0 as usize] = Some(Val::Tensor(tensor));
        }
        let random = self.random;
        Ok(Trace { session: self, program, buffers, shown: 0, last: Vec::new(), tokens, random, finished: false })
    }
}

impl Trace<'_> {
    /// The node of the step that [`Trace::advance`] runs next; `None` after the last.
    pub fn next_node(&self) -> Option<NodeId> {
        let plan = self.program.plan();
        match plan.prelude.get(self.shown) {
            Some(step) => Some(step.node),
            None => plan.steps.get(self.shown - plan.prelude.len()).map(|step| step.node),
        }
    }

    /// Runs the next step; `None` after the last.
    ///
    /// # Errors
    /// Those of running the step.
    pub fn advance(&mut self) -> Result<Option<Traced>> {
        let program = self.program.clone();
        let loaded = program.loaded(Rows::All);
        let plan = &loaded.plan;
        let (once, step) = match plan.prelude.get(self.shown) {
            Some(step) => (true, step),
            None => match plan.steps.get(self.shown - plan.prelude.len()) {
                Some(step) => (false, step),
                None => return Ok(None),
            },
        };
        let values = if once { self.constant(&program, step)? } else { self.run(&program, step)? };
        self.shown += 1;
        self.last.clear();
        let mut results = Vec::with_capacity(values.len());
        for (buffer, value) in step.results.iter().zip(values) {
            let tensor = value.tensor(&self.session.caches)?;
            self.last.push(Place {
                buffer: *buffer,
                dims: tensor.dims().to_vec(),
                dtype: tensor.dtype(),
                cache: match &value {
                    Val::Cache(cache, part) => Some((*cache, *part)),
                    Val::Tensor(_) | Val::Weight(_) => None,
                },
                unread: step.frees.contains(buffer),
            });
            if !step.frees.contains(buffer) {
                self.buffers[buffer.0 as usize] = Some(value);
            }
            results.push(tensor);
        }
        Ok(Some(Traced { node: step.node, results, once }))
    }

    /// Puts `tensor` in the place of result `port` of the step that ran last. The rows of a cache are overwritten in
    /// the cache, in its element type, so that a cache of half precision rounds them as it rounds all rows.
    ///
    /// # Errors
    /// No such result; another shape than the result has.
    pub fn replace(&mut self, port: usize, tensor: &Tensor) -> Result<()> {
        let fault = |cause: String| ExecutorError::Input { name: format!("result {port}"), cause };
        let place = self.last.get(port).ok_or_else(|| fault("is no result of the step that ran last".into()))?;
        if tensor.dims() != place.dims {
            return Err(fault(format!("is replaced by shape {:?}, and has {:?}", tensor.dims(), place.dims)));
        }
        if place.unread {
            return Ok(());
        }
        let tensor = tensor.to_dtype(place.dtype)?;
        match place.cache {
            Some((cache, part)) => {
                self.session.caches[cache as usize].overwrite(part, &tensor)?;
            }
            None => self.buffers[place.buffer.0 as usize] = Some(Val::Tensor(tensor)),
        }
        Ok(())
    }

    /// Runs what remains, and gives the outputs; the session has seen the call.
    ///
    /// # Errors
    /// Those of running; the session is then as it was.
    pub fn finish(mut self) -> Result<Vec<(String, Tensor)>> {
        while self.advance()?.is_some() {}
        let program = self.program.clone();
        let outputs = session::outputs(program.loaded(Rows::All), &self.buffers, &self.session.caches)?;
        if !self.session.caches.is_empty() {
            self.session.past += self.tokens;
        }
        self.finished = true;
        Ok(outputs)
    }

    /// A step that ran on loading; again where something that it reads was replaced since.
    fn constant(&mut self, program: &Program, step: &Step) -> Result<Vec<Val>> {
        let fixed = &program.loaded(Rows::All).fixed;
        if step.operands.iter().all(|b| self.buffers[b.0 as usize].is_none()) {
            return Ok(step.results.iter().filter_map(|b| fixed[b.0 as usize].clone()).collect());
        }
        let at = |b: &Buffer| self.buffers[b.0 as usize].clone().or_else(|| fixed[b.0 as usize].clone());
        let operands: Vec<Val> = step.operands.iter().filter_map(at).collect();
        interpreter::alone(step, &operands)
    }

    fn run(&mut self, program: &Program, step: &Step) -> Result<Vec<Val>> {
        let length = self.session.past + self.tokens;
        let Session { caches, random, .. } = &mut *self.session;
        let mut frame = Frame { caches, tokens: self.tokens, length, random, host: program.host.as_deref() };
        let mut operands = Vec::new();
        session::run_step(program, program.loaded(Rows::All), step, &mut self.buffers, &mut operands, &mut frame)
    }
}

impl Drop for Trace<'_> {
    fn drop(&mut self) {
        if !self.finished {
            let past = self.session.past;
            self.session.caches.iter_mut().for_each(|cache| cache.truncate(past));
            self.session.random = self.random;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::{WeightSource, WeightView};
    use crate::{CacheType, Engine, ProgramOptions};
    use candle_core::Device;
    use tallow_format::Encoding;
    use tallow_ir::text;
    use tallow_ir::verify::verify;

    /// The weight `w`, two numbers.
    struct Two(Vec<u8>);

    impl WeightSource for Two {
        fn weight(&self, name: &str) -> Option<WeightView<'_>> {
            (name == "w").then_some(WeightView { shape: &[2], encoding: Encoding::U32, bytes: &self.0 })
        }
    }

    const GRAPH: &str = "graph {
        input %x: f32[S, 2]
        weight %w = \"w\": u32[2]
        %gain: f32[2] = AddScalar(%w) { value = 1 }
        %twice: f32[2] = MulScalar(%gain) { value = 2 }
        %y: f32[S, 2] = Mul(%x, %twice)
        %keys: f32[S + P, 2], %values: f32[S + P, 2] = KvCache(%y, %x)
        %sum: f32[S + P, 2] = Add(%keys, %values)
        output sum = %sum
    }";

    fn session(engine: Engine, cache: CacheType) -> Session {
        let graph = verify(text::parse(GRAPH).unwrap()).unwrap();
        let weights = Two([65536i32, 2 * 65536].iter().flat_map(|v| v.to_le_bytes()).collect());
        let options = ProgramOptions { engine, cache, threads: 1, ..ProgramOptions::default() };
        Session::new(Arc::new(Program::new(&graph, Arc::new(weights), options).unwrap()))
    }

    fn row(values: [f32; 2]) -> Tensor {
        Tensor::from_slice(&values, (1, 2), &Device::Cpu).unwrap()
    }

    fn values(tensor: &Tensor) -> Vec<f32> {
        tensor.flatten_all().unwrap().to_vec1().unwrap()
    }

    #[test]
    fn every_step_is_shown_and_later_steps_read_what_replaced_it() {
        for engine in [Engine::Cpu, Engine::Reference] {
            let mut session = session(engine, CacheType::F32);
            let inputs = [("x".to_owned(), row([1.0, 10.0]))];
            let plain = session.clone().run(&inputs, Rows::All).unwrap();
            let mut trace = session.trace(&inputs).unwrap();
            let mut seen = Vec::new();
            while let Some(step) = trace.advance().unwrap() {
                seen.push((step.once, step.results.iter().map(values).collect::<Vec<_>>()));
            }
            assert_eq!(seen[0], (true, vec![vec![2.0, 3.0]]));
            assert_eq!(seen[1], (true, vec![vec![4.0, 6.0]]));
            assert_eq!(seen[2], (false, vec![vec![4.0, 60.0]]));
            assert_eq!(seen[3], (false, vec![vec![4.0, 60.0], vec![1.0, 10.0]]));
            assert_eq!(values(&trace.finish().unwrap()[0].1), values(&plain[0].1));
            assert_eq!(session.past(), 1);

            // What runs once runs again on a replaced operand; rows of a cache are overwritten where they lie.
            session.reset();
            let mut trace = session.trace(&inputs).unwrap();
            trace.advance().unwrap();
            trace.replace(0, &Tensor::from_slice(&[1f32, 1.0], 2, &Device::Cpu).unwrap()).unwrap();
            assert_eq!(values(&trace.advance().unwrap().unwrap().results[0]), [2.0, 2.0]);
            assert_eq!(values(&trace.advance().unwrap().unwrap().results[0]), [2.0, 20.0]);
            trace.advance().unwrap();
            assert!(trace.replace(2, &row([0.0, 0.0])).is_err());
            assert!(trace.replace(0, &Tensor::zeros(3, DType::F32, &Device::Cpu).unwrap()).is_err());
            trace.replace(0, &row([7.0, 8.0])).unwrap();
            assert_eq!(values(&trace.finish().unwrap()[0].1), [8.0, 18.0]);
            // The next call reads the rows as they were replaced.
            let next = session.run(&[("x".to_owned(), row([0.0, 0.0]))], Rows::All).unwrap();
            assert_eq!(values(&next[0].1), [8.0, 18.0, 0.0, 0.0]);
        }
    }

    #[test]
    fn a_dropped_trace_leaves_nothing_behind() {
        let mut session = session(Engine::Cpu, CacheType::F16);
        let inputs = [("x".to_owned(), row([1.0, 10.0]))];
        session.run(&inputs, Rows::All).unwrap();
        let held = session.cache_bytes();
        let mut trace = session.trace(&inputs).unwrap();
        while trace.next_node().is_some() {
            trace.advance().unwrap();
        }
        assert!(trace.advance().unwrap().is_none());
        drop(trace);
        assert_eq!((session.past(), session.cache_bytes()), (1, held));
        // Half precision rounds what replaces its rows.
        let mut trace = session.trace(&inputs).unwrap();
        (0..4).for_each(|_| drop(trace.advance().unwrap()));
        let rows = Tensor::from_slice(&[0.1f32; 4], (2, 2), &Device::Cpu).unwrap();
        trace.replace(0, &rows).unwrap();
        trace.replace(1, &rows).unwrap();
        let rounded = half::f16::from_f32(0.1).to_f32();
        assert_eq!(values(&trace.finish().unwrap()[0].1), [2.0 * rounded; 4]);
    }
}
