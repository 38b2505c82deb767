//! The evaluator: runs a program on ordinary values, and builds the graph where it meets tensors.
//!
//! The same evaluator runs in two places: while compiling, where it has a [`Build`] to add operations to and
//! goes on after an error so that several are shown; and while the model runs, for host functions, where it has
//! none and stops at the first error.
//!
//! | module | does |
//! |---|---|
//! | `expr` | expressions |
//! | `control` | blocks, branches, loops |
//! | `call` | functions, closures, methods |
//! | `place` | what can be assigned to |
//! | `pattern` | patterns |
//! | `arith` | operators and casts |
//! | `names` | what paths mean |
//! | `text` | `format!` and its kin |
//! | `free` | which variables a piece of program reads and changes |
//! | `ordinary` | methods of ordinary values |
//! | [`iter`] | iterators |

mod arith;
mod call;
mod control;
mod expr;
pub(crate) mod free;
pub mod iter;
mod names;
pub(crate) mod ordinary;
mod pattern;
mod place;
mod text;

use super::ast::{ExprId, Param, Span, Tree};
use super::build::Build;
use super::codes::Code;
use super::diagnostic::Diagnostic;
use super::host::HostRun;
use super::value::{Cell, Closure, Value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(crate) use control::Walk;
pub(crate) use expr::missing_key;
pub use ordinary::TABLES as METHODS;

/// Most statements, calls, rounds of loops and elements of iterators.
pub const MAX_STEPS: u64 = 4_000_000;
/// Most calls inside each other.
pub const MAX_CALLS: usize = 256;
/// Most expressions inside each other, over all calls; the stack of [`with_stack`] holds them.
const MAX_DEPTH: usize = 24_000;
/// Most elements of one list, and bytes of one text.
pub const MAX_LENGTH: usize = 1 << 22;
/// Most elements and bytes that a run may make in all.
const MAX_MADE: usize = 1 << 24;
/// The same for each step of a smaller limit.
const MADE_OF_A_STEP: u64 = 64;
/// Elements that are copied or compared at once for one step.
const WORK_OF_A_STEP: u64 = 64;
/// Most parts of values that are gone through between two steps.
const MOST_LOOKED: u64 = 1 << 26;
/// Most errors before the evaluator gives up.
const MAX_ERRORS: usize = 100;
/// Stack of the thread that parses and evaluates.
const STACK: usize = 512 << 20;

/// Why evaluation does not go on to the next expression.
#[derive(Debug)]
pub enum Flow {
    /// An error that nobody has reported yet.
    Error(Box<Diagnostic>),
    /// An operand is the result of something that failed and was reported.
    Poisoned,
    /// Too many errors, or a limit: nothing goes on.
    Abort,
    /// `break`.
    Break(Option<Arc<str>>, Value),
    /// `continue`.
    Continue(Option<Arc<str>>),
    /// `return`.
    Return(Value),
}

impl From<Diagnostic> for Flow {
    fn from(diagnostic: Diagnostic) -> Self {
        Flow::Error(Box::new(diagnostic))
    }
}

/// A value, or why there is none.
pub type Eval<T = Value> = Result<T, Flow>;

/// Variables of one call.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub vars: Vec<(Arc<str>, Cell)>,
}

/// Runs a program.
pub struct Evaluator<'t> {
    pub(crate) tree: &'t Tree,
    /// The graph under construction; `None` in a host function.
    pub(crate) build: Option<Build<'t>>,
    /// The values of one run of host functions; `None` while compiling.
    pub(crate) run: Option<HostRun<'t>>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) functions: HashMap<(Option<Arc<str>>, Arc<str>), usize>,
    /// Constants; `None` while one is computed.
    consts: HashMap<Arc<str>, Option<Value>>,
    pub(crate) errors: Vec<Diagnostic>,
    /// How many pieces of program have failed.
    failures: u64,
    /// The pieces of program whose names of methods are known to be some.
    checked: HashSet<ExprId>,
    /// Where `break` or `continue` was met last.
    left: Option<Span>,
    steps: u64,
    step_limit: u64,
    made: usize,
    made_limit: usize,
    depth: usize,
    /// Work since the last step; see [`Evaluator::looked`].
    looked: std::cell::Cell<u64>,
    /// Whether the body of a loop samples tokens, or takes the likeliest (`None`: neither).
    pub(crate) picks: HashMap<ExprId, Option<bool>>,
    /// The rounds of the loops around, outermost first: names of values tell them.
    pub(crate) rounds: Vec<i128>,
    /// The names that closures read, by their bodies.
    read: HashMap<ExprId, Arc<indexmap::IndexSet<Arc<str>>>>,
    /// The names that conditions change, by the conditions.
    changed: HashMap<ExprId, Arc<indexmap::IndexSet<Arc<str>>>>,
}

impl<'t> Evaluator<'t> {
    /// An evaluator of `tree`.
    pub(crate) fn new(tree: &'t Tree, build: Option<Build<'t>>, run: Option<HostRun<'t>>) -> Self {
        let functions =
            tree.functions.iter().enumerate().map(|(i, f)| ((f.owner.clone(), f.name.text.clone()), i)).collect();
        Evaluator {
            tree,
            build,
            run,
            frames: vec![Frame::default()],
            functions,
            consts: HashMap::new(),
            errors: Vec::new(),
            failures: 0,
            checked: HashSet::new(),
            left: None,
            steps: 0,
            step_limit: MAX_STEPS,
            made: 0,
            made_limit: MAX_MADE,
            depth: 0,
            looked: std::cell::Cell::new(0),
            picks: HashMap::new(),
            rounds: Vec::new(),
            read: HashMap::new(),
            changed: HashMap::new(),
        }
    }

    /// Another limit of steps than [`MAX_STEPS`], with which less may be made.
    pub(crate) fn limit_steps(&mut self, limit: u64) {
        self.step_limit = limit;
        self.made_limit = usize::try_from(limit.saturating_mul(MADE_OF_A_STEP)).unwrap_or(MAX_MADE).min(MAX_MADE);
    }

    /// Counts work that cannot be stopped in the middle: elements that are looked at, bytes that are compared. It counts
    /// with the next step.
    pub(crate) fn looked(&self, n: usize) {
        self.looked.set(self.looked.get().saturating_add(n as u64));
    }

    /// [`Evaluator::looked`], where what is looked at may be shared so often that it has no end.
    pub(crate) fn look(&self, n: usize, span: Span) -> Eval<()> {
        self.looked(n);
        if self.looked.get() <= MOST_LOOKED {
            return Ok(());
        }
        let d = Diagnostic::new(Code::Steps, span, "these values have too many parts to go through");
        Err(d.label("here the limit was reached").into())
    }

    /// Counts a step.
    pub(crate) fn tick(&mut self, span: Span) -> Eval<()> {
        self.steps = self.steps.saturating_add(1 + self.looked.take() / WORK_OF_A_STEP);
        if self.steps <= self.step_limit {
            return Ok(());
        }
        let d = Diagnostic::new(Code::Steps, span, format!("more than {} steps were taken", self.step_limit))
            .label("here the limit was reached")
            .help("give loops a bound that is near what they need; a loop may have no end");
        self.abort(d)
    }

    /// Counts elements or bytes that are made.
    pub(crate) fn make(&mut self, n: usize, span: Span) -> Eval<()> {
        self.made = self.made.saturating_add(n);
        if n <= MAX_LENGTH && self.made <= self.made_limit {
            return Ok(());
        }
        let most = if n > MAX_LENGTH { MAX_LENGTH } else { self.made_limit };
        let what = if n > MAX_LENGTH { format!("a value of {n} elements") } else { "more elements in all".to_owned() };
        let d = Diagnostic::new(Code::Memory, span, format!("{what}; at most {most} are possible"))
            .help("large data belongs into tensors: `Tensor::zeros`, or a weight of the model");
        self.abort(d)
    }

    /// Counts work on many elements or bytes at once, which costs far less for each than a step.
    pub(crate) fn work(&mut self, n: usize, span: Span) -> Eval<()> {
        self.steps = self.steps.saturating_add(n as u64 / WORK_OF_A_STEP);
        self.tick(span)
    }

    /// Reports an error after which nothing goes on.
    pub(crate) fn abort<T>(&mut self, d: Diagnostic) -> Eval<T> {
        self.report(d);
        Err(Flow::Abort)
    }

    /// Notes an error; one at the same place with the same code is not said twice.
    pub(crate) fn report(&mut self, d: Diagnostic) {
        if !self.errors.iter().any(|e| e.code == d.code && e.span == d.span) {
            self.errors.push(d);
        }
    }

    /// Notes the error of a failed piece of program; what else the failure asks for is given back.
    fn settle(&mut self, flow: Flow) -> Eval<()> {
        self.failures += u64::from(matches!(flow, Flow::Error(_) | Flow::Poisoned));
        match flow {
            Flow::Error(d) if self.run.is_none() => {
                self.report(*d);
                if self.errors.len() >= MAX_ERRORS { Err(Flow::Abort) } else { Ok(()) }
            }
            Flow::Error(d) => {
                self.report(*d);
                Err(Flow::Abort)
            }
            Flow::Poisoned => Ok(()),
            other => Err(other),
        }
    }

    pub(crate) fn span(&self, id: ExprId) -> Span {
        self.tree.expr(id).span
    }

    pub(crate) fn frame(&mut self) -> &mut Frame {
        if self.frames.is_empty() {
            self.frames.push(Frame::default());
        }
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    /// The variable of a name.
    pub(crate) fn lookup(&self, name: &str) -> Option<&Cell> {
        self.frames.last()?.vars.iter().rev().find(|(n, _)| &**n == name).map(|(_, cell)| cell)
    }

    /// A new variable.
    pub(crate) fn bind(&mut self, name: Arc<str>, value: Value) {
        self.frame().vars.push((name, Cell::new(value)));
    }

    /// A closure over the variables that it reads.
    fn closure(&mut self, params: &[Param], body: ExprId) -> Value {
        let tree = self.tree;
        let names = self.read.entry(body).or_insert_with(|| Arc::new(free::read(tree, body))).clone();
        let wanted = |name: &str| names.contains(name) || name == "Self" || name == "self";
        let vars = &self.frame().vars;
        let captured = vars.iter().filter(|(name, _)| wanted(name)).cloned().collect();
        Value::Closure(Arc::new(Closure { params: params.into(), body, captured }))
    }

    /// Runs `f`, then forgets the variables that it made.
    pub(crate) fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> Eval<T>) -> Eval<T> {
        let (depth, bound) = (self.frames.len(), self.frame().vars.len());
        let result = f(self);
        self.frames.truncate(depth.max(1));
        self.frame().vars.truncate(bound);
        result
    }

    /// An expression, by value. References are followed.
    pub(crate) fn eval(&mut self, id: ExprId) -> Eval {
        self.depth += 1;
        let result = if self.depth > MAX_DEPTH { self.too_deep(self.span(id)) } else { self.expr(id) };
        self.depth -= 1;
        match result? {
            Value::Poison => Err(Flow::Poisoned),
            value => Ok(value),
        }
    }

    fn too_deep<T>(&mut self, span: Span) -> Eval<T> {
        let d = Diagnostic::new(Code::CallDepth, span, "expressions and calls are nested too deeply")
            .help("split long chains with `let`, or end the recursion earlier");
        self.abort(d)
    }

    /// Several expressions; all are evaluated before the first failure is given back, so that each
    /// is reported.
    pub(crate) fn eval_all(&mut self, ids: &[ExprId]) -> Eval<Vec<Value>> {
        let mut values = Vec::with_capacity(ids.len());
        let mut failed = false;
        for &id in ids {
            match self.eval(id) {
                Ok(value) => values.push(value),
                Err(flow @ (Flow::Error(_) | Flow::Poisoned)) => {
                    self.settle(flow)?;
                    failed = true;
                }
                Err(flow) => return Err(flow),
            }
        }
        if failed { Err(Flow::Poisoned) } else { Ok(values) }
    }
}

/// Runs `f` on a thread whose stack holds the deepest program.
///
/// # Errors
/// The thread could not be made.
pub(crate) fn with_stack<T: Send>(f: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    super::source::on_stack(STACK, "program", f)
}
