//! Two runs side by side: the right one goes on where the left has computed what it is compared with.

use super::measure::Measure;
use super::pairs::ValuePair;
use super::region::region;
use super::report::{Compared, Report, Suspect, Unmatched, Verdict};
use super::tolerance::{Other, Tolerances};
use super::{Side, in_side, weights};
use crate::{Error, Result};
use std::collections::{HashMap, HashSet};
use tallow_compiler::Plan;
use tallow_executor::{Session, Tensor, Trace};
use tallow_ir::text::Labels;
use tallow_ir::{NodeKind, Value};

/// How many of the worst values a report explains.
const WORST: usize = 5;

/// Where the reference's values come from.
pub(super) trait Reference {
    /// What `value` of the right graph, which came out as `found`, is compared with, one after another; empty where the
    /// reference has not computed it. Asked for each value once.
    fn take(&mut self, value: Value, found: &Tensor) -> Result<Vec<Wanted>>;
}

/// A value of the reference.
pub(super) struct Wanted {
    /// What the reference calls it.
    pub name: String,
    /// Its other names.
    pub also: Vec<String>,
    /// The values, in the shape of what was found where they can have it.
    pub tensor: Tensor,
    /// The element type that its tolerance follows.
    pub dtype: tallow_ir::DType,
    /// What is said where it is out of tolerance.
    pub hint: Option<String>,
}

/// Runs both sides on `inputs` and compares the values of `pairs`. Inputs that a side does not take are not given to
/// it. `tolerance` replaces the tolerances of real numbers.
///
/// # Errors
/// No pairs; inputs that do not fit a side; what fails while a side runs.
pub fn compare(
    left: &Side,
    right: &Side,
    pairs: &[ValuePair],
    inputs: &[(String, Tensor)],
    tolerance: Option<f64>,
) -> Result<Report> {
    if pairs.is_empty() {
        return Err(Error::Usage(format!(
            "{} and {} have no value in common: no operations that correspond, and no values of equal name and shape; \
             compare graphs of one model",
            left.label, right.label
        )));
    }
    let mut session = Session::new(left.program.clone());
    let trace = begin(left, &mut session, inputs)?;
    let labels = Labels::new(left.graph());
    let partner = pairs.iter().map(|p| (p.right, p.left)).collect();
    let wanted: HashSet<Value> = pairs.iter().map(|p| p.left).collect();
    let mut live = Live { side: left, trace, labels, partner, wanted, held: HashMap::new() };
    let compared: HashSet<Value> = pairs.iter().map(|p| p.right).collect();
    let exact: HashMap<Value, f64> = compared.iter().map(|&v| (v, 0.0)).collect();
    let tolerances = Tolerances::new(right, &Other::Graph(left), &exact, tolerance);
    let mut report = run(right, &mut live, &compared, &tolerances, inputs)?;
    report.left = left.label.clone();
    let matched: HashSet<Value> = pairs.iter().map(|p| p.left).collect();
    report.unmatched.left = unmatched(left, &matched);
    for suspect in &mut report.suspects {
        suspect.weights = weights::differences(left, right, &suspect.reads)?;
    }
    Ok(report)
}

/// Values of the left side while it runs.
struct Live<'a> {
    side: &'a Side,
    trace: Trace<'a>,
    labels: Labels,
    /// The left value of each right one.
    partner: HashMap<Value, Value>,
    /// Left values that will be asked for.
    wanted: HashSet<Value>,
    /// Those that are computed and not asked for yet.
    held: HashMap<Value, Tensor>,
}

impl Reference for Live<'_> {
    fn take(&mut self, value: Value, _found: &Tensor) -> Result<Vec<Wanted>> {
        let Some(&left) = self.partner.get(&value) else { return Ok(Vec::new()) };
        while !self.held.contains_key(&left) {
            let Some(step) = self.trace.advance().map_err(|e| in_side(&self.side.label, e.into()))? else { break };
            for (port, tensor) in (0u32..).zip(step.results) {
                let made = Value { node: step.node, port };
                if self.wanted.contains(&made) {
                    self.held.insert(made, tensor);
                }
            }
        }
        let found = self.held.remove(&left).map(|tensor| Wanted {
            name: self.labels.label(left),
            also: Vec::new(),
            hint: None,
            tensor,
            dtype: self.side.graph().ty(left).dtype,
        });
        Ok(found.into_iter().collect())
    }
}

/// Begins a run of one side with those of the inputs that it takes.
fn begin<'s>(side: &Side, session: &'s mut Session, inputs: &[(String, Tensor)]) -> Result<Trace<'s>> {
    let takes = |name: &String| side.program.plan().inputs.iter().any(|i| i.name == *name);
    let given: Vec<(String, Tensor)> = inputs.iter().filter(|(name, _)| takes(name)).cloned().collect();
    session.trace(&given).map_err(|e| in_side(&side.label, e.into()))
}

/// Runs `side` and compares its values of `compared` with the reference's.
pub(super) fn run(
    side: &Side,
    reference: &mut dyn Reference,
    compared: &HashSet<Value>,
    tolerances: &Tolerances,
    inputs: &[(String, Tensor)],
) -> Result<Report> {
    let graph = side.graph();
    let labels = Labels::new(graph);
    let mut session = Session::new(side.program.clone());
    let mut trace = begin(side, &mut session, inputs)?;
    let mut values: Vec<Compared> = Vec::new();
    let fail = |e: tallow_executor::ExecutorError| in_side(&side.label, e.into());
    while let Some(step) = trace.advance().map_err(fail)? {
        for (port, tensor) in (0u32..).zip(&step.results) {
            let value = Value { node: step.node, port };
            if !compared.contains(&value) {
                continue;
            }
            for (at, wanted) in reference.take(value, tensor)?.into_iter().enumerate() {
                let fits = wanted.tensor.dims() == tensor.dims();
                let measure = match fits {
                    true => Some(Measure::of(&wanted.tensor, tensor)?),
                    false => None,
                };
                let tolerance = tolerances.of(graph, value, wanted.dtype);
                values.push(Compared {
                    value,
                    left: wanted.name,
                    also: wanted.also,
                    hint: wanted.hint,
                    far: tolerances.is_far(value),
                    by_encoding: tolerances.by_encoding(value),
                    right: labels.label(value),
                    op: op_name(side, value),
                    shape: tensor.dims().to_vec(),
                    verdict: Verdict::of(measure.as_ref(), wanted.tensor.dims(), tolerance),
                    measure,
                    tolerance,
                });
                if fits && at == 0 {
                    trace.replace(port as usize, &wanted.tensor).map_err(fail)?;
                }
            }
        }
    }
    if values.is_empty() {
        return Err(Error::Usage(format!(
            "{}: none of the values to compare is computed; outputs need none of them",
            side.label
        )));
    }
    let mut report = Report {
        left: String::new(),
        right: side.label.clone(),
        inputs: inputs.iter().map(|(name, t)| (name.clone(), t.dims().to_vec())).collect(),
        first: values.iter().position(|v| !v.verdict.is_within()),
        values,
        suspects: Vec::new(),
        unmatched: Unmatched { left: Vec::new(), right: unmatched(side, compared) },
        unknown: Vec::new(),
    };
    explain(side, &labels, compared, &mut report);
    Ok(report)
}

/// Says what makes the first value out of tolerance, and the worst ones.
fn explain(side: &Side, labels: &Labels, compared: &HashSet<Value>, report: &mut Report) {
    let graph = side.graph();
    let mut explained: Vec<usize> = report.first.into_iter().collect();
    for at in report.worst(WORST) {
        if !report.values[at].verdict.is_within() && !explained.contains(&at) {
            explained.push(at);
        }
    }
    for at in explained {
        let value = report.values[at].value;
        let found = region(graph, value, compared);
        let line = |id| labels.line(graph, id).text;
        let between = found.operations.iter().filter(|&&id| id != value.node);
        report.suspects.push(Suspect {
            at,
            statement: line(value.node),
            between: between.map(|&id| line(id)).collect(),
            reads: found.weights,
            weights: Vec::new(),
        });
    }
}

fn op_name(side: &Side, value: Value) -> &'static str {
    match &side.graph().node(value.node).kind {
        NodeKind::Op(op) => op.name(),
        NodeKind::Input(_) => "input",
        NodeKind::Weight(_) => "weight",
    }
}

/// The computed values that are not compared, by their labels, in order of the plan.
fn unmatched(side: &Side, compared: &HashSet<Value>) -> Vec<String> {
    let labels = Labels::new(side.graph());
    let plan: &Plan = side.program.plan();
    let steps = plan.prelude.iter().chain(&plan.steps);
    let values = steps.flat_map(|s| (0..s.results.len() as u32).map(|port| Value { node: s.node, port }));
    values.filter(|v| !compared.contains(v)).map(|v| labels.label(v)).collect()
}
