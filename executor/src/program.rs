//! A program: plans with their weights, ready for sessions.

use crate::error::{ExecutorError, Result};
use crate::host::HostFunctions;
use crate::interpreter::{self, Interpreter};
use crate::kernels::{Isa, KvEncoding, Team};
use crate::packed::{Matrix, Packed, PackedCache, PackedStore};
use crate::value::Val;
use crate::weights::{Weight, WeightSource};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use tallow_compiler::{CompileError, Optimised, Options, Plan, Stage, lower_with, optimise, passes};
use tallow_ir::verify::Verified;
use tallow_ir::{DType, Graph, Op, TensorType};

/// The name of the output that holds logits.
pub const LOGITS: &str = "logits";

/// Which code runs the steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// CPU kernels that multiply by encoded weights; the interpreter where there is none.
    #[default]
    Cpu,
    /// The interpreter alone, in `f32` throughout: the oracle.
    Reference,
}

/// Element type of the key-value cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheType {
    /// `f16` where the model has block-encoded matrices, else `f32`; the reference always `f32`.
    #[default]
    Auto,
    /// Exact.
    F32,
    /// Half precision.
    F16,
    /// 8 bits, with a scale for each 32 values of a row; the reference stays exact.
    Q8,
}

impl CacheType {
    /// The name, as options have it.
    pub const fn name(self) -> &'static str {
        match self {
            CacheType::Auto => "auto",
            CacheType::F32 => "f32",
            CacheType::F16 => "f16",
            CacheType::Q8 => "q8",
        }
    }

    /// Bytes of a cached row of so many values; [`CacheType::Auto`] counts as exact.
    pub const fn row_bytes(self, width: u64) -> u64 {
        match self {
            CacheType::Auto | CacheType::F32 => width.saturating_mul(4),
            CacheType::F16 => width.saturating_mul(2),
            // A scale of half precision for each 32 values.
            CacheType::Q8 => width.saturating_add(width.div_ceil(32).saturating_mul(2)),
        }
    }
}

/// How the CPU engine walks a plan. Results are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Walk {
    /// All steps in one call of the thread team, over planned memory, where the plan allows it.
    #[default]
    Whole,
    /// One step after another.
    Steps,
}

/// How to load and run.
#[derive(Clone, Copy, Debug)]
pub struct ProgramOptions {
    /// Engine.
    pub engine: Engine,
    /// Threads; 0: one per physical core.
    pub threads: usize,
    /// Cache element type.
    pub cache: CacheType,
    /// Tokens that a session may hold; `None`: no limit.
    pub context: Option<usize>,
    /// Tokens of a prompt that run at once; bounds memory and changes no result.
    pub chunk: usize,
    /// How far the graph is compiled; `None`: for the CPU all the way, for the reference not at all.
    pub stage: Option<Stage>,
    /// How steps run.
    pub walk: Walk,
    /// Whether packed matrices are kept for other runs, in the folder that [`PackedStore::set_folder`] names.
    pub packed_cache: PackedCache,
}

impl ProgramOptions {
    /// How far the graph is compiled.
    fn stage_of_engine(&self) -> Stage {
        self.stage.unwrap_or(match self.engine {
            Engine::Cpu => Stage::Target,
            Engine::Reference => Stage::Raw,
        })
    }
}

impl Default for ProgramOptions {
    fn default() -> Self {
        ProgramOptions {
            engine: Engine::Cpu,
            threads: 0,
            cache: CacheType::Auto,
            context: None,
            chunk: 512,
            stage: None,
            walk: Walk::default(),
            packed_cache: PackedCache::Auto,
        }
    }
}

/// A plan with what stays the same from call to call.
pub(crate) struct Loaded {
    pub plan: Plan,
    /// Weights and results of the prelude, by buffer.
    pub fixed: Vec<Option<Val>>,
    /// The element types by buffer, where some sizes are told only by running: rules are then asked
    /// again, with the real sizes.
    pub unsettled: Option<Vec<DType>>,
    /// Decoded operands of the native runner, by buffer.
    pub vectors: Mutex<HashMap<u32, Arc<[f32]>>>,
}

/// A verified graph with its weights, lowered: shared by sessions and threads.
pub struct Program {
    /// The graph of the plan of all rows.
    compiled: Optimised,
    /// Every row of every output.
    all: Arc<Loaded>,
    /// The last row of the logits; other outputs whole.
    last: Arc<Loaded>,
    /// One token that follows others: every row is the last one.
    one: Option<Arc<Loaded>>,
    pub(crate) options: ProgramOptions,
    pub(crate) cache: KvEncoding,
    pub(crate) team: Team,
    one_token: Vec<String>,
    pub(crate) host: Option<Arc<dyn HostFunctions>>,
    packed: Arc<PackedStore>,
}

impl Program {
    /// Lowers `graph` and finds its weights in `source`. No weight is decoded yet, but for those
    /// that are combined before the first call.
    pub fn new(graph: &Verified, source: Arc<dyn WeightSource>, options: ProgramOptions) -> Result<Self> {
        Isa::check().map_err(|e| ExecutorError::InstructionSet(e.to_string()))?;
        let Variants { all, last, one } = Variants::new(graph, options.stage_of_engine())?;
        let mut weights = HashMap::new();
        let mut load = |plan: Plan| load(plan, &source, &mut weights).map(Arc::new);
        let Variant { compiled, plan } = all;
        let all = load(plan)?;
        let last = last.map(|v| load(v.plan)).transpose()?.unwrap_or_else(|| all.clone());
        let one = one.map(|v| load(v.plan)).transpose()?;
        let blocks = weights.values().any(|w: &Arc<Weight>| w.view().is_ok_and(|v| v.encoding.is_block()));
        let cache = match options.cache {
            _ if options.engine == Engine::Reference => KvEncoding::F32,
            CacheType::Auto if blocks => KvEncoding::F16,
            CacheType::Auto | CacheType::F32 => KvEncoding::F32,
            CacheType::F16 => KvEncoding::F16,
            CacheType::Q8 => KvEncoding::Q8,
        };
        let team = match options.threads {
            0 => Team::with_default_threads(),
            n => Team::new(n),
        }
        .map_err(|e| ExecutorError::Threads(e.to_string()))?;
        let one_token = match passes::takes_one_token(graph.graph()) {
            true => passes::token_inputs(graph.graph()),
            false => Vec::new(),
        };
        let plans = [Some(&all), Some(&last), one.as_ref()];
        let matrices = match options.engine {
            Engine::Cpu => matrices(plans.into_iter().flatten()),
            Engine::Reference => Vec::new(),
        };
        let packed = Arc::new(PackedStore::new(matrices, source, options.packed_cache)?);
        weights.values().for_each(|w| w.set_store(&packed));
        Ok(Program { compiled, all, last, one, options, cache, team, one_token, host: None, packed })
    }

    /// The matrices that the CPU path packs: where they are, and what became of them.
    pub fn packed(&self) -> &PackedStore {
        &self.packed
    }

    /// Packs every matrix now, instead of when it is first used.
    ///
    /// # Errors
    /// As the first call that uses it.
    pub fn pack(&self) -> Result<()> {
        self.packed.pack_all(&self.team)
    }

    /// The program with the functions that its graph may call by `HostCall`.
    pub fn with_host(mut self, host: Arc<dyn HostFunctions>) -> Self {
        self.host = Some(host);
        self
    }

    /// The plan of all rows.
    pub fn plan(&self) -> &Plan {
        &self.all.plan
    }

    /// The graph of [`Program::plan`], with what the compiler did to it.
    pub fn compiled(&self) -> &Optimised {
        &self.compiled
    }

    /// The plan of prompts: the last row of the logits alone.
    pub fn prompt_plan(&self) -> &Plan {
        &self.last.plan
    }

    /// The plan of one token that follows others, where the graph continues texts.
    pub fn decode_plan(&self) -> Option<&Plan> {
        self.one.as_ref().map(|one| &one.plan)
    }

    /// The plan that a call of so many tokens runs.
    pub fn call_plan(&self, rows: crate::Rows, tokens: usize) -> &Plan {
        &self.for_call(rows, tokens).0.plan
    }

    /// Inputs that take the entry of one token a call, where the graph was written for that: of shape
    /// `[1]`, `input_ids` among them.
    pub fn one_token_inputs(&self) -> &[String] {
        &self.one_token
    }

    /// Types of the outputs in order, where an operation, an input or a weight makes them.
    pub(crate) fn output_types(&self, rows: crate::Rows) -> impl Iterator<Item = Option<&TensorType>> {
        let plan = &self.loaded(rows).plan;
        plan.outputs.iter().map(|(_, buffer)| plan.type_of(*buffer))
    }

    /// How this program was asked to run.
    pub fn options(&self) -> &ProgramOptions {
        &self.options
    }

    /// Whether sessions round the rows of caches to half precision or less.
    pub fn half_cache(&self) -> bool {
        self.cache != KvEncoding::F32
    }

    /// How sessions keep the rows of caches: never [`CacheType::Auto`].
    pub fn cache_type(&self) -> CacheType {
        match self.cache {
            KvEncoding::F32 => CacheType::F32,
            KvEncoding::F16 => CacheType::F16,
            KvEncoding::Q8 => CacheType::Q8,
        }
    }

    /// Whether plans run whole where they can.
    pub(crate) fn runs_whole(&self) -> bool {
        self.options.engine == Engine::Cpu && self.options.walk == Walk::Whole
    }

    /// The threads that run its steps.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.team.threads()
    }

    pub(crate) fn loaded(&self, rows: crate::Rows) -> &Loaded {
        match rows {
            crate::Rows::All => &self.all,
            crate::Rows::Last => &self.last,
        }
    }

    /// The plan of a call that is bound for [`Program::loaded`], and its number.
    pub(crate) fn for_call(&self, rows: crate::Rows, tokens: usize) -> (&Loaded, usize) {
        match &self.one {
            Some(one) if tokens == 1 => (one, 2),
            _ => (self.loaded(rows), usize::from(rows == crate::Rows::Last)),
        }
    }
}

/// A compiled graph and its plan.
pub struct Variant {
    /// The graph.
    pub compiled: Optimised,
    /// Its plan.
    pub plan: Plan,
}

/// The forms of one graph for the calls of a session. They share weights and caches.
pub struct Variants {
    /// Every row of every output.
    pub all: Variant,
    /// The last row of the logits alone: for prompts. `None`: the graph has no such rows.
    pub last: Option<Variant>,
    /// One token that follows others. `None`: the graph continues no text, or is to stay raw.
    pub one: Option<Variant>,
}

impl Variants {
    /// Compiles a graph up to a stage, for the CPU.
    ///
    /// # Errors
    /// Faults of the compiler alone.
    pub fn new(graph: &Verified, stage: Stage) -> Result<Self> {
        // Every test that runs a model runs the verifier after each pass.
        let verify = cfg!(debug_assertions);
        let options = Options { stage, verify, evaluate: Some(&Interpreter), ..Options::default() };
        let compile = |graph: &Verified| -> Result<Variant> {
            let compiled = optimise(graph, &options)?;
            let plan = lower_with(&compiled.graph, &compiled.caches)?;
            Ok(Variant { compiled, plan })
        };
        let changed = |pass: &'static str, graph: Option<Graph>| -> Result<Option<Variant>> {
            let Some(graph) = graph else { return Ok(None) };
            let fault = |source| CompileError::Verify { pass, before: 0, source: Box::new(source) };
            compile(&tallow_ir::verify::verify(graph).map_err(fault)?).map(Some)
        };
        let one = match stage {
            Stage::Raw => None,
            Stage::Portable | Stage::Target => passes::for_one_token(graph.graph())?,
        };
        Ok(Variants {
            all: compile(graph)?,
            last: changed("last-row", passes::last_row(graph.graph(), LOGITS)?)?,
            one: changed("one-token", one)?,
        })
    }
}

/// The element types by buffer, if a size of the plan is told only by running.
fn unsettled(plan: &Plan) -> Option<Vec<DType>> {
    let made = plan.prelude.iter().chain(&plan.steps).flat_map(|s| s.results.iter().zip(&s.types));
    let inputs = plan.inputs.iter().map(|i| (&i.buffer, &i.ty));
    let all = || inputs.clone().chain(plan.weights.iter().map(|w| (&w.buffer, &w.ty))).chain(made.clone());
    let open = |ty: &TensorType| ty.shape.dims().iter().any(|d| d.symbols().iter().any(|s| s.starts_with('?')));
    if !all().any(|(_, ty)| open(ty)) {
        return None;
    }
    let mut types = vec![DType::F32; plan.buffers as usize];
    all().for_each(|(buffer, ty)| types[buffer.0 as usize] = ty.dtype);
    Some(types)
}

/// Matrices that products multiply by, in the order of their first use.
fn matrices<'a>(plans: impl Iterator<Item = &'a Arc<Loaded>>) -> Vec<Matrix> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for loaded in plans {
        for step in loaded.plan.steps.iter().filter(|s| is_product(&s.op)) {
            for buffer in &step.operands {
                let Some(Val::Weight(weight)) = &loaded.fixed[buffer.0 as usize] else { continue };
                if !seen.contains(weight.name()) {
                    seen.insert(weight.name().to_owned());
                    // Sizes that do not fit are an error where the step runs.
                    found.extend(weight.matrix().filter(|m| Packed::bytes(m.encoding, m.rows, m.k).is_ok()));
                }
            }
        }
    }
    found
}

/// Whether an operation multiplies by the matrices among its operands.
fn is_product(op: &Op) -> bool {
    matches!(
        op,
        Op::Matmul
            | Op::FusedNormMatmul { .. }
            | Op::JoinedMatmul { .. }
            | Op::GatedMatmul { .. }
            | Op::MatmulBias { .. }
            | Op::ExpertMatmul
            | Op::ExpertFeedForward { .. }
    )
}

fn load(plan: Plan, source: &Arc<dyn WeightSource>, known: &mut HashMap<String, Arc<Weight>>) -> Result<Loaded> {
    let mut fixed: Vec<Option<Val>> = vec![None; plan.buffers as usize];
    for w in &plan.weights {
        let weight = match known.get(&w.name) {
            Some(weight) => weight.clone(),
            None => {
                let weight = Arc::new(Weight::new(&w.name, source)?);
                known.insert(w.name.clone(), weight.clone());
                weight
            }
        };
        fixed[w.buffer.0 as usize] = Some(Val::Weight(weight));
    }
    for step in &plan.prelude {
        let operands: Vec<Val> = step.operands.iter().filter_map(|b| fixed[b.0 as usize].clone()).collect();
        for (buffer, value) in step.results.iter().zip(interpreter::alone(step, &operands)?) {
            fixed[buffer.0 as usize] = Some(value);
        }
    }
    let unsettled = unsettled(&plan);
    Ok(Loaded { plan, fixed, unsettled, vectors: Mutex::default() })
}
