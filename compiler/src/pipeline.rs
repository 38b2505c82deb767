//! The compiler's driver: passes in their order, patches with numbers, remarks, timings.

use crate::body::{Body, Made};
use crate::passes::{self, PASSES};
use crate::patch::{Applied, Patch, apply};
use crate::remark::{Outcome, Remark};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};
use tallow_ir::verify::{Verified, VerifyError, verify};
use tallow_ir::{Evaluate, Graph, IrError, NodeId};
use thiserror::Error;

/// A form of a graph, by what it promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// As the front end made it.
    Raw,
    /// Simplified; the same on every device, and still a graph that can be written to a file.
    Portable,
    /// Fused for one device.
    #[default]
    Target,
}

impl Stage {
    /// As the command line says it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Raw => "raw",
            Stage::Portable => "portable",
            Stage::Target => "target",
        }
    }
}

/// What a device can run beside the operations that every device runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What remarks call it.
    pub name: &'static str,
    /// Whether it runs the fused operations.
    pub fused: bool,
}

impl Facts {
    /// The CPU engine.
    pub fn cpu() -> Self {
        Facts { name: "cpu", fused: true }
    }

    /// A device that runs plain operations alone.
    pub fn plain(name: &'static str) -> Self {
        Facts { name, fused: false }
    }
}

/// Passes that look at one node after another.
pub(crate) trait Rule: Sync {
    /// Looks at a node: the patch that begins there, if any. Candidates that fail a guard are noted.
    fn visit(&self, body: &Body, at: NodeId, cx: &mut Context<'_>) -> Option<Patch>;
}

/// How a pass goes over a graph.
pub(crate) enum Way {
    /// Node by node, until nothing is left to do.
    Rule(&'static dyn Rule),
    /// All at once: patches to apply one after another, found without applying any.
    Whole(fn(&Body, &mut Context<'_>) -> Vec<(NodeId, Patch)>),
}

/// A pass.
pub struct Pass {
    /// Its name on the command line.
    pub name: &'static str,
    /// The stage that it is of.
    pub stage: Stage,
    /// One line of documentation.
    pub doc: &'static str,
    pub(crate) way: Way,
}

/// What a pass may ask, and where it notes what it missed.
pub struct Context<'a> {
    /// The device.
    pub facts: Facts,
    pub(crate) evaluate: Option<&'a dyn Evaluate>,
    missed: BTreeMap<(NodeId, &'static str), String>,
}

impl Context<'_> {
    /// Notes that a candidate was left alone, and why.
    pub(crate) fn missed(&mut self, at: NodeId, what: &'static str, why: impl Into<String>) {
        self.missed.insert((at, what), why.into());
    }

    /// Drops what was noted of a node, which is looked at again.
    fn forget(&mut self, at: NodeId) {
        while let Some((&key, _)) = self.missed.range((at, "")..).next().filter(|((id, _), _)| *id == at) {
            self.missed.remove(&key);
        }
    }
}

/// Is shown what a pass did, and the graph after it.
pub type Observer<'a> = &'a dyn Fn(&PassReport, &Graph);

/// How to compile.
#[derive(Clone, Default)]
pub struct Options<'a> {
    /// How far.
    pub stage: Stage,
    /// The device.
    pub facts: Option<Facts>,
    /// These passes in this order, whatever the stage; without, all passes up to the stage in their own order.
    pub passes: Option<Vec<String>>,
    /// Applies no more than so many patches.
    pub stop_after: Option<u32>,
    /// Verifies the graph after each pass.
    pub verify: bool,
    /// What computes constants; without, none are folded.
    pub evaluate: Option<&'a dyn Evaluate>,
    /// Is shown the graph after each pass that changed it.
    pub observe: Option<Observer<'a>>,
}

/// What one pass did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassReport {
    /// Its number in the run, from 1.
    pub number: usize,
    /// The pass.
    pub name: &'static str,
    /// How many patches it applied.
    pub patches: u32,
    /// How many candidates it missed.
    pub missed: u32,
    /// Nodes before.
    pub before: usize,
    /// Nodes after.
    pub after: usize,
    /// How long it took, without verifying and looking on.
    pub time: Duration,
}

/// A compiled graph, with how it came about.
#[derive(Clone, Debug)]
pub struct Optimised {
    /// The graph.
    pub graph: Verified,
    /// For each node number of the graph: the nodes of the first graph that it stands for.
    pub origin: Vec<Vec<NodeId>>,
    /// The number of the cache of each node that keeps state: the same for all variants of one graph.
    pub caches: HashMap<NodeId, u32>,
    /// Every candidate, by pass and place.
    pub remarks: Vec<Remark>,
    /// Every pass, in order.
    pub passes: Vec<PassReport>,
}

/// Why a graph was not compiled.
#[derive(Debug, Error)]
pub enum CompileError {
    /// No such pass.
    #[error("there is no pass `{name}`; there are {}", known.join(", "))]
    UnknownPass {
        /// The name asked for.
        name: String,
        /// The passes.
        known: Vec<&'static str>,
    },
    /// A pass made a graph that breaks the rules.
    #[error("pass `{pass}` made a faulty graph; please report this, and go on with `--stop-after {before}`\\n{source}")]
    Verify {
        /// The pass.
        pass: &'static str,
        /// How many patches there were before it.
        before: u32,
        /// The faults.
        source: Box<VerifyError>,
    },
    /// A verified graph without an order, or with a name used twice: a fault of this crate.
    #[error("a verified graph could not be walked; please report this: {0}")]
    Graph(#[from] IrError),
}

/// A graph through the passes.
///
/// # Errors
/// A pass that is not known, and faults of passes.
pub fn optimise(graph: &Verified, options: &Options<'_>) -> Result<Optimised, CompileError> {
    let wanted = selected(options)?;
    let mut body = Body::new(graph.graph())?;
    let mut run = Run { number: 0, limit: options.stop_after.unwrap_or(u32::MAX), remarks: Vec::new() };
    let mut reports = Vec::new();
    let mut last = "none";
    for (number, pass) in (1..).zip(wanted) {
        if run.number >= run.limit {
            break;
        }
        let (before, first, start) = (body.len(), run.number, Instant::now());
        let mut cx = Context {
            facts: options.facts.unwrap_or_else(Facts::cpu),
            evaluate: options.evaluate,
            missed: BTreeMap::new(),
        };
        match &pass.way {
            Way::Rule(rule) => run.rule(&mut body, pass, *rule, &mut cx),
            Way::Whole(find) => run.whole(&mut body, pass, *find, &mut cx),
        }
        let missed = run.note_missed(&body, pass, cx);
        let patches = run.number - first;
        let time = start.elapsed();
        let report = PassReport { number, name: pass.name, patches, missed, before, after: body.len(), time };
        if patches > 0 {
            last = pass.name;
        }
        if patches > 0 && (options.verify || options.observe.is_some()) {
            let made = body.graph()?;
            if let Some(observe) = options.observe {
                observe(&report, &made.graph);
            }
            if options.verify {
                verified(made.graph, pass.name, first)?;
            }
        }
        reports.push(report);
    }
    let Made { graph, origin, caches } = body.graph()?;
    Ok(Optimised { graph: verified(graph, last, 0)?, origin, caches, remarks: run.remarks, passes: reports })
}

fn verified(graph: Graph, pass: &'static str, before: u32) -> Result<Verified, CompileError> {
    verify(graph).map_err(|source| CompileError::Verify { pass, before, source: Box::new(source) })
}

/// The passes that the options ask for, in order.
fn selected(options: &Options<'_>) -> Result<Vec<&'static Pass>, CompileError> {
    match &options.passes {
        Some(names) => passes::named(names),
        None => Ok(PASSES.iter().filter(|p| p.stage <= options.stage).collect()),
    }
}

/// The patches of one run.
struct Run {
    /// How many were applied.
    number: u32,
    limit: u32,
    remarks: Vec<Remark>,
}

impl Run {
    /// Visits nodes in order, and again whatever a patch touched.
    fn rule(&mut self, body: &mut Body, pass: &Pass, rule: &dyn Rule, cx: &mut Context<'_>) {
        let mut open: VecDeque<NodeId> = body.by_rank().into();
        let mut waits = vec![false; body.bound()];
        open.iter().for_each(|id| waits[id.index()] = true);
        // Each patch leaves a graph no costlier, so that an end comes; this bounds a fault in a rule.
        let mut left = 64 * body.len() + 1024;
        while let Some(id) = open.pop_front() {
            waits[id.index()] = false;
            if !body.has(id) || body.is_dead(id) || self.number >= self.limit || left == 0 {
                continue;
            }
            left -= 1;
            cx.forget(id);
            let Some(patch) = rule.visit(body, id, cx) else { continue };
            let Some(applied) = self.apply(body, pass, id, &patch, cx) else { continue };
            waits.resize(body.bound(), false);
            for id in applied.added.into_iter().chain(applied.touched) {
                if !std::mem::replace(&mut waits[id.index()], true) {
                    open.push_back(id);
                }
            }
        }
    }

    fn whole(
        &mut self,
        body: &mut Body,
        pass: &Pass,
        find: fn(&Body, &mut Context<'_>) -> Vec<(NodeId, Patch)>,
        cx: &mut Context<'_>,
    ) {
        for (id, patch) in find(body, cx) {
            if self.number >= self.limit {
                break;
            }
            if body.has(id) {
                self.apply(body, pass, id, &patch, cx);
            }
        }
    }

    fn apply(
        &mut self,
        body: &mut Body,
        pass: &Pass,
        at: NodeId,
        patch: &Patch,
        cx: &mut Context<'_>,
    ) -> Option<Applied> {
        let (place, nodes) = (body.place(at), body.entry(at).origin.clone());
        match apply(body, patch) {
            Ok(applied) => {
                self.number += 1;
                let what = patch.label.clone();
                let outcome = Outcome::Applied(self.number);
                self.remarks.push(Remark { pass: pass.name, stage: pass.stage, place, nodes, what, outcome });
                Some(applied)
            }
            Err(error) => {
                cx.missed(at, "patch", error.to_string());
                None
            }
        }
    }

    /// Remarks of what was missed and is still there; how many.
    fn note_missed(&mut self, body: &Body, pass: &Pass, cx: Context<'_>) -> u32 {
        let mut count = 0;
        for ((at, what), why) in cx.missed {
            if !body.has(at) {
                continue;
            }
            count += 1;
            self.remarks.push(Remark {
                pass: pass.name,
                stage: pass.stage,
                place: body.place(at),
                nodes: body.entry(at).origin.clone(),
                what: what.to_owned(),
                outcome: Outcome::Missed(why),
            });
        }
        count
    }
}
