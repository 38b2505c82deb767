//! Operations: the enum [`Op`] and its facts, all from the one table in [`table`].

mod fused;
pub mod payload;
mod table;

pub use fused::CachedParts;
pub use payload::{Payload, Reader, Real, Text};
pub use table::{
    Activation, Comparison, Connective, Interpolation, MelLog, MelScale, Op, PadMode, PoolMode, Reduction, Rotary,
    SampleMethod, Scaling,
};

use crate::{RuleError, TensorType, shape::Context};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The most dimensions that a value may have: no known model needs more, and it bounds what a
/// hostile graph can cost.
pub const MAX_RANK: usize = 16;

/// The most boxes that `NonMaxSuppression` takes: it may compare each with each.
pub const MAX_BOXES: usize = 1 << 16;

/// What an operation does beside computing its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing: equal operands give equal results, and an unread result may be dropped.
    Pure,
    /// Reads and writes state of the session (caches).
    State,
    /// Draws random numbers from the session's generator.
    Random,
    /// Calls a function outside the graph, which may do anything: runs once in every call, even if
    /// nothing reads its result.
    Host,
}

/// One payload field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    /// Name, as the text form writes it.
    pub name: &'static str,
    /// Binary type.
    pub kind: &'static str,
}

/// The rule that gives the types of an operation's results from those of its operands.
pub(crate) type Rule = fn(&Op, &[TensorType], &mut Context) -> Result<Vec<TensorType>, RuleError>;

/// The facts of one operation.
#[derive(Clone, Copy)]
pub struct OpInfo {
    /// Tag in the binary form; stable, never reused.
    pub tag: u16,
    /// Name.
    pub name: &'static str,
    /// Payload fields in order.
    pub fields: &'static [FieldInfo],
    /// Operand names, space-separated: `?` marks an optional one, `*` any number; forms of
    /// different length stand on both sides of `|`.
    pub operands: &'static str,
    /// Result names; `*` any number.
    pub results: &'static str,
    /// Effect.
    pub effect: Effect,
    /// One line of documentation.
    pub doc: &'static str,
    pub(crate) rule: Rule,
}

impl OpInfo {
    /// The facts of every operation, by ascending tag.
    pub fn all() -> &'static [OpInfo] {
        table::INFOS
    }

    /// The facts of the operation with this name.
    pub fn by_name(name: &str) -> Option<&'static OpInfo> {
        static MAP: OnceLock<HashMap<&'static str, &'static OpInfo>> = OnceLock::new();
        MAP.get_or_init(|| Self::all().iter().map(|info| (info.name, info)).collect()).get(name).copied()
    }

    /// The facts of the operation with this tag.
    pub fn by_tag(tag: u16) -> Option<&'static OpInfo> {
        let at = Self::all().binary_search_by_key(&tag, |info| info.tag).ok()?;
        Self::all().get(at)
    }

    /// Whether `n` operands fit, and if not, what would.
    pub fn check_arity(&self, n: usize) -> Result<(), RuleError> {
        if self.form(n).is_some() {
            return Ok(());
        }
        Err(RuleError::new(format!("takes the operands `{}`, found {n}", self.operands)))
    }

    /// The operand names of the form that takes `n` operands, space-separated as in
    /// [`OpInfo::operands`]; `None` where no form does.
    pub fn form(&self, n: usize) -> Option<&'static str> {
        self.operands.split('|').map(str::trim).find(|form| {
            let (mut least, mut most, mut open) = (0, 0, false);
            for name in form.split_whitespace() {
                most += 1;
                open |= name.ends_with('*');
                least += usize::from(!name.ends_with(['?', '*']));
            }
            n >= least && (open || n <= most)
        })
    }

    /// How many results the operation has; `None` where the payload decides.
    pub fn result_count(&self) -> Option<usize> {
        (!self.results.contains('*')).then(|| self.results.split_whitespace().count())
    }
}

impl Op {
    /// The types of the results, or why the operands do not fit. Operand types of weights may be
    /// encodings: they compute as `f32`.
    pub fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, RuleError> {
        let info = self.info();
        info.check_arity(operands.len())?;
        let computed: Cow<'_, [TensorType]> = if operands.iter().all(|t| t.dtype.computes_as() == t.dtype) {
            operands.into()
        } else {
            operands.iter().map(|t| TensorType::new(t.dtype.computes_as(), t.shape.clone())).collect()
        };
        let results = (info.rule)(self, &computed, &mut Context::default())?;
        match results.iter().find(|t| t.shape.rank() > MAX_RANK) {
            Some(t) => Err(RuleError::new(format!(
                "the result has {} dimensions, at most {MAX_RANK} are possible",
                t.shape.rank()
            ))),
            None => Ok(results),
        }
    }

    /// Whether the result holds the elements of the operand in the same order, in another shape.
    pub fn is_view(&self) -> bool {
        matches!(
            self,
            Op::Reshape { .. } | Op::Flatten { .. } | Op::Unflatten { .. } | Op::Squeeze { .. } | Op::Unsqueeze { .. }
        )
    }

    /// How many results the operation has, which its payload settles where the table does not:
    /// known before any type is.
    pub fn result_count(&self) -> usize {
        match self {
            Op::Split { sizes, .. } => sizes.len(),
            Op::Chunk { chunks, .. } => *chunks as usize,
            Op::JoinedMatmul { parts, .. } => *parts as usize,
            // Exhaustiveness comes from the table: only those have `*` results.
            _ => self.info().result_count().unwrap_or(0),
        }
    }

    /// The attributes as the text form writes them: `eps = 1e-6, causal = true`; empty without any.
    pub fn attributes(&self) -> String {
        let fields: Vec<String> = self.fields().into_iter().map(|(name, text)| format!("{name} = {text}")).collect();
        fields.join(", ")
    }
}

/// `⌊n · scale⌋` as `Interpolate` computes it: in single precision, in which the scale is stored, so
/// that 0.7 of 10 is 7; in double precision from 2²⁴ on, where single precision skips numbers.
/// `None` where the size cannot be represented.
pub fn interpolated_size(n: i64, scale: f32) -> Option<i64> {
    const EXACT: i64 = 1 << 24;
    let size = if (0..EXACT).contains(&n) {
        f64::from((n as f32 * scale).floor())
    } else {
        (n as f64 * f64::from(scale)).floor()
    };
    (size >= 0.0 && size < i64::MAX as f64).then_some(size as i64)
}
