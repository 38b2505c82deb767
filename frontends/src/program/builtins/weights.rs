//! Methods of the weight store.
//!
//! Names come with or without the suffix `.weight`. A linear map or convolution adds the sibling `.bias` where the
//! tensor index has one.

use super::{Args, Builtin};
use crate::program::ast::Span;
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::{Eval, Evaluator};
use crate::program::value::Value;
use tallow_ir::{Op, Value as Node};

/// The methods.
pub static METHODS: &[Builtin] = &[
    Builtin {
        name: "embed",
        params: "name, ids, dim",
        doc: "The rows of a table `[rows, dim]` that ids name: `[S]` → `[S, dim]`.",
        lower: embed,
    },
    Builtin {
        name: "linear",
        params: "x, name, out",
        doc: "`x · Wᵀ`, and the sibling bias where there is one: `[…, in]` → `[…, out]`.",
        lower: |e, a| linear(e, a, true),
    },
    Builtin {
        name: "linear_no_bias",
        params: "x, name, out",
        doc: "`x · Wᵀ`, whatever lies beside W: `[…, in]` → `[…, out]`.",
        lower: |e, a| linear(e, a, false),
    },
    Builtin {
        name: "rmsnorm",
        params: "x, name, eps",
        doc: "`x / √(mean(x²) + ε) · g` over the last dimension; an ε of at least 1 means 1/ε.",
        lower: rmsnorm,
    },
];

impl Evaluator<'_> {
    /// The name of a weight: as given where the index has it, else with `.weight`.
    pub(crate) fn weight_name(&self, name: &str) -> String {
        if name.ends_with(".weight") || self.has_weight(name) {
            name.to_owned()
        } else {
            format!("{name}.weight")
        }
    }

    /// The name of the bias beside a weight, where the index has one.
    pub(crate) fn bias_name(&self, weight: &str) -> Option<String> {
        let bias = format!("{}.bias", weight.strip_suffix(".weight")?);
        self.has_weight(&bias).then_some(bias)
    }

    /// The known size of the last dimension.
    pub(crate) fn width(&mut self, node: Node, span: Span) -> Eval<i64> {
        let ty = self.ty(node);
        match ty.shape.last().map(|d| (d, d.as_const())) {
            Some((_, Some(n))) => Ok(n),
            Some((dim, None)) => {
                let d = Diagnostic::new(Code::RunTimeSize, span, format!("the last dimension is {dim}, and its size is needed here"));
                Err(d.label(format!("this is {ty}")).into())
            }
            None => Err(Diagnostic::new(Code::Rank, span, format!("a number ({ty}) where rows are needed")).into()),
        }
    }

    /// `x · Wᵀ`, plus the bias beside it where `bias` asks for it and the index has one.
    pub(crate) fn matmul_by_name(&mut self, x: Node, name: &str, out: i64, bias: bool, at: Span, span: Span) -> Eval<Node> {
        let width = self.width(x, span)?;
        let w = self.weight(name, Some(&[out, width]), at)?;
        let mut y = self.op(Op::Matmul, &[x, w], span)?;
        if bias && let Some(bias) = self.bias_name(name) {
            let b = self.weight(&bias, Some(&[out]), at)?;
            y = self.op(Op::Add, &[y, b], span)?;
        }
        self.build(span)?.projections.insert(y, name.to_owned());
        Ok(y)
    }
}

fn embed(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let name = e.weight_name(&a.text(e, 0)?);
    let dim = i64::from(a.count(e, 2)?);
    let ids = match a.value(1) {
        // A list of numbers that only running tells holds ids.
        value @ (Value::Host(_) | Value::List(_)) if e.is_host(value) => {
            e.host_tensor(value, Some(tallow_ir::DType::I64), 1, a.at(1))?
        }
        _ => a.tensor(e, 1)?,
    };
    let rows = match e.build(a.span)?.tensors.and_then(|t| t.shape(&name)) {
        Some(shape) => shape.first().map_or(0, |&n| n as i64),
        None => i64::from(e.vocab_size(a.span)?),
    };
    let table = e.weight(&name, Some(&[rows, dim]), a.at(0))?;
    Ok(Value::Tensor(e.op(Op::TokenEmbed, &[ids, table], a.span)?))
}

fn linear(e: &mut Evaluator<'_>, a: &Args, bias: bool) -> Eval {
    let x = a.tensor(e, 0)?;
    let name = e.weight_name(&a.text(e, 1)?);
    let out = i64::from(a.count(e, 2)?);
    Ok(Value::Tensor(e.matmul_by_name(x, &name, out, bias, a.at(1), a.span)?))
}

fn rmsnorm(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.tensor(e, 0)?;
    let name = e.weight_name(&a.text(e, 1)?);
    let eps = a.epsilon(e, 2, 1e-6)?.into();
    let width = e.width(x, a.at(0))?;
    let g = e.weight(&name, Some(&[width]), a.at(1))?;
    Ok(Value::Tensor(e.op(Op::RmsNorm { eps }, &[x, g], a.span)?))
}
