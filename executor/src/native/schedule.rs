//! Making the instructions of a plan, for given sizes.

use super::barriers;
use super::call::{Attend, Call, Grid, Segment, Turning, Work};
use super::lower::{Lowered, Lowering};
use super::memory::Place;
use crate::cache::Part;
use crate::error::Result;
use crate::interpreter::limits::MAX_ELEMENTS;
use crate::program::Loaded;
use std::collections::HashMap;
use tallow_ir::{Bindings, PAST, TensorType};

/// The largest block of intermediates, in elements, that a schedule plans: as much as logits of a long text need. A
/// graph is foreign input.
const MOST: usize = 4 * MAX_ELEMENTS;

/// Where the content of a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// A weight, or computed from weights alone.
    Fixed,
    /// An input, by its number.
    Input(usize),
    /// In memory that the plan lays out.
    Place(Place),
    /// Rows of a cache.
    Cache(u32, Part),
    /// A value of a step that ran by itself.
    Alone,
}

/// The instructions of a plan.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// The sizes that it is for; without the number of cached tokens where no intermediate depends on it.
    pub sizes: Bindings,
    pub(super) calls: Vec<Call>,
    pub(super) segments: Vec<Segment>,
    /// Buffers that are copied to a place before each segment.
    pub(super) imports: Vec<Vec<(u32, Place)>>,
    pub(super) locations: Vec<Location>,
    /// Elements of the block that threads share, and of each thread's own.
    pub(super) block: usize,
    pub(super) own: usize,
    pub(super) tables: Vec<Turning>,
    /// Quantised operands that threads share.
    pub(super) codes: Vec<Grid>,
    /// The longest row that a thread quantises for itself.
    pub(super) own_codes: usize,
    pub(super) counters: usize,
    /// The input with the ids of the call, and the rows of the smallest table that they name.
    pub(super) ids: Option<(usize, usize)>,
    pub(super) tokens: usize,
    /// Cached tokens count among the sizes.
    past: bool,
}

impl Schedule {
    /// The schedule of a plan; `None` where it has none: sizes that only running tells, no elements at all, or more than
    /// can be.
    ///
    /// # Errors
    /// Weights that do not decode.
    pub fn new(loaded: &Loaded, bindings: &Bindings, tokens: usize) -> Result<Option<Schedule>> {
        let plan = &loaded.plan;
        if loaded.unsettled.is_some() {
            return Ok(None);
        }
        let mut types: Vec<Option<&TensorType>> = vec![None; plan.buffers as usize];
        let made = plan.prelude.iter().chain(&plan.steps).flat_map(|s| s.results.iter().zip(&s.types));
        let inputs = plan.inputs.iter().map(|i| (&i.buffer, &i.ty));
        let weights = plan.weights.iter().map(|w| (&w.buffer, &w.ty));
        inputs.chain(weights).chain(made).for_each(|(b, ty)| types[b.0 as usize] = Some(ty));
        let empty = |ty: &TensorType| ty.shape.evaluate(bindings).is_none_or(|dims| dims.contains(&0));
        if plan.steps.iter().flat_map(|s| &s.types).any(empty) || plan.inputs.iter().any(|i| empty(&i.ty)) {
            return Ok(None);
        }
        let Some(memory) = plan.memory_after(bindings, 1).filter(|m| m.block / 4 <= MOST as u64) else {
            return Ok(None);
        };
        // Rows of caches are no intermediates.
        let placed = plan.steps.iter().flat_map(|s| s.results.iter().zip(&s.types));
        let mut placed = placed.filter(|(b, _)| memory.places[b.0 as usize].is_some());
        let past = placed.any(|(_, ty)| ty.shape.dims().iter().any(|d| d.symbols().contains(&PAST)));
        let mut locations = vec![Location::Alone; plan.buffers as usize];
        let fixed = loaded.fixed.iter().enumerate().filter(|(_, value)| value.is_some());
        fixed.for_each(|(at, _)| locations[at] = Location::Fixed);
        plan.inputs.iter().enumerate().for_each(|(i, input)| locations[input.buffer.0 as usize] = Location::Input(i));
        let mut lowering = Lowering {
            loaded,
            memory: &memory,
            types: &types,
            bindings,
            tokens,
            locations,
            works: Vec::new(),
            imports: Vec::new(),
            tables: Vec::new(),
            codes: Vec::new(),
            own_codes: 0,
            counters: 0,
            ids: None,
            end: (memory.block / 4) as usize,
            extra: HashMap::new(),
            prepared: None,
        };
        let (mut segments, mut imports) = (Vec::new(), Vec::new());
        let mut begun = 0;
        for (at, step) in plan.steps.iter().enumerate() {
            if let Lowered::Alone = lowering.step(at, step)? {
                if lowering.works.len() > begun {
                    segments.push(Segment::Team(begun..lowering.works.len()));
                    imports.push(std::mem::take(&mut lowering.imports));
                    begun = lowering.works.len();
                }
                segments.push(Segment::Alone(at));
                imports.push(Vec::new());
            }
        }
        if lowering.works.len() > begun {
            segments.push(Segment::Team(begun..lowering.works.len()));
            imports.push(std::mem::take(&mut lowering.imports));
        }
        let Lowering { locations, works, tables, codes, own_codes, counters, ids, end, .. } = lowering;
        let own = works.iter().filter_map(|(_, work)| own_end(work)).max().unwrap_or(0);
        let mut calls: Vec<Call> = works.into_iter().map(|(step, work)| Call { step, wait: false, work }).collect();
        for segment in &segments {
            if let Segment::Team(range) = segment {
                barriers::place(&mut calls[range.clone()]);
            }
        }
        let mut sizes = bindings.clone();
        if !past {
            sizes.remove(PAST);
        }
        Ok(Some(Schedule {
            sizes,
            calls,
            segments,
            imports,
            locations,
            block: end,
            own,
            tables,
            codes,
            own_codes,
            counters,
            ids,
            tokens,
            past,
        }))
    }

    /// Whether it is for these sizes.
    pub fn fits(&self, bindings: &Bindings) -> bool {
        let same = |(symbol, size): (&String, &i64)| self.sizes.get(symbol) == Some(size);
        let counted = |symbol: &str| self.past || symbol != PAST;
        bindings.iter().filter(|(symbol, _)| counted(symbol)).all(same)
            && self.sizes.len() == bindings.keys().filter(|symbol| counted(symbol)).count()
    }

    /// Whether sizes depend on the number of cached tokens alone or not at all, and every step has instructions.
    pub fn is_whole(&self) -> bool {
        !self.past && matches!(self.segments.as_slice(), [Segment::Team(_)]) && self.imports.iter().all(Vec::is_empty)
    }
}

/// The end of what an instruction writes in memory of a thread's own.
fn own_end(work: &Work) -> Option<usize> {
    let end = |place: &Place| place.own.then_some(place.at + place.len);
    match work {
        Work::Norm { skip, out, .. } => end(out).max(skip.as_ref().and_then(|(_, sum)| end(sum))),
        Work::Embed { out, .. }
        | Work::Pair { out, .. }
        | Work::Affine { out, .. }
        | Work::Activate { out, .. }
        | Work::Gate { out, .. }
        | Work::Copy { out, .. }
        | Work::Rope { out, .. }
        | Work::Attend(Attend { out, .. }) => end(out),
        Work::Prepare(p) => p.values.as_ref().and_then(end),
        Work::Product(_) => None,
        Work::Append(a) => a.turn.as_ref().and_then(|t| end(&t.out)),
    }
}
