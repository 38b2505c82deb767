//! What distances between tokens add to the scores of attention.
//!
//! Distances are those of places in the batch, which inside a text are those of places in the text.

use super::texts::Texts;
use super::{Disentangled, EncoderSpec, Relative};
use crate::families::parts::{Built, Parts};
use tallow_ir::{DType, IrError, Op, Value};

/// What all layers share.
pub(super) enum Shared<'a> {
    /// The bias itself, `[heads, S, S]`.
    Bias(Value),
    /// What the layers make their own biases of.
    Disentangled {
        /// The description.
        of: &'a Disentangled,
        /// Vectors of distances, `[2 · span, hidden]`.
        vectors: Value,
        /// Their row for each query and key, i64 `[S, S]`.
        rows: Value,
    },
}

/// What the layers of `spec` share.
pub(super) fn shared<'a>(
    parts: &mut Parts<'_>,
    spec: &'a EncoderSpec,
    texts: &Texts,
) -> Result<Option<Shared<'a>>, IrError> {
    match &spec.relative {
        None => Ok(None),
        Some(Relative::Buckets { tensor, rows }) => {
            let mut table = parts.weight(&format!("{tensor}.weight"), &[*rows, spec.attention.heads])?;
            let buckets = Relative::BUCKETS;
            if *rows > buckets {
                table = parts.graph.op(Op::Slice { axis: 0, start: 0, end: buckets.into() }, &[table])?;
            }
            let size = parts.graph.op(Op::Size { axis: 0 }, &[texts.row])?;
            let bias = parts.op(Op::RelativePosEmbedding { buckets }, &[size, size, table], "distance_bias")?;
            Ok(Some(Shared::Bias(bias)))
        }
        Some(Relative::Disentangled(of)) => {
            let mut vectors = parts.weight(&format!("{}.weight", of.tensor), &[2 * of.span, spec.hidden])?;
            if let Some(norm) = &of.norm {
                vectors = parts.layer_norm(vectors, norm, spec.hidden, spec.norm.eps, true, "distances")?;
            }
            let reach = (of.table.len() / 2) as f32;
            let query = parts.graph.op(Op::Unsqueeze { axes: vec![1] }, &[texts.row])?;
            let distance = parts.graph.op(Op::Sub, &[query, texts.row])?;
            let (min, max) = (Some((-reach).into()), Some(reach.into()));
            let distance = parts.graph.op(Op::Clamp { min, max }, &[distance])?;
            let place = parts.graph.op(Op::AddScalar { value: reach.into() }, &[distance])?;
            let values = of.table.iter().map(|&row| (row as f32).into()).collect();
            let shape = vec![of.table.len() as i64];
            let table = parts.graph.op(Op::Constant { dtype: DType::I64, shape, values }, &[])?;
            let rows = parts.op(Op::Gather { axis: 0 }, &[table, place], "distance_rows")?;
            Ok(Some(Shared::Disentangled { of, vectors, rows }))
        }
    }
}

/// The bias of a layer, `[heads, S, S]`, from its queries and keys (`[S, heads · head_dim]`).
pub(super) fn bias(
    parts: &mut Parts<'_>,
    spec: &EncoderSpec,
    layer: usize,
    shared: &Shared<'_>,
    [q, k]: [Value; 2],
) -> Result<Option<Value>, IrError> {
    let (of, vectors, rows) = match *shared {
        Shared::Bias(bias) => return Ok(Some(bias)),
        Shared::Disentangled { of, vectors, rows } => (of, vectors, rows),
    };
    let a = &spec.attention;
    let width = a.heads * a.head_dim;
    let heads = |parts: &mut Parts<'_>, x: Value| {
        let shape = vec![-1, a.heads.into(), a.head_dim.into()];
        let x = parts.graph.op(Op::Reshape { shape }, &[x])?;
        parts.graph.op(Op::Permute { dims: vec![1, 0, 2] }, &[x])
    };
    // Products of `x` with the projected vectors of all distances, then of each pair the one that counts.
    let meet = |parts: &mut Parts<'_>, x: Value, projection: &str, rows: Value, says: &str| -> Built {
        let name = spec.names.in_layer(layer, projection);
        let vectors = parts.linear(vectors, &name, [width, spec.hidden], true, format!("layer{layer}.{says}"))?;
        let (x, vectors) = (heads(parts, x)?, heads(parts, vectors)?);
        let all = parts.graph.op(Op::BatchMatmul { transpose_b: true }, &[x, vectors])?;
        let rows = parts.graph.op(Op::Unsqueeze { axes: vec![0] }, &[rows])?;
        let rows = parts.graph.op(Op::Expand { shape: vec![a.heads.into(), -1, -1] }, &[rows])?;
        parts.graph.op(Op::GatherElements { axis: 2 }, &[all, rows])
    };
    let by_query = match of.keys {
        Some(projection) => Some(meet(parts, q, projection, rows, "distance_keys")?),
        None => None,
    };
    let by_key = match of.queries {
        Some(projection) => {
            let rows = parts.graph.op(Op::Permute { dims: vec![1, 0] }, &[rows])?;
            let by_key = meet(parts, k, projection, rows, "distance_queries")?;
            Some(parts.graph.op(Op::Permute { dims: vec![0, 2, 1] }, &[by_key])?)
        }
        None => None,
    };
    let sum = match (by_query, by_key) {
        (Some(a), Some(b)) => Some(parts.graph.op(Op::Add, &[a, b])?),
        (one, other) => one.or(other),
    };
    let scale = Op::MulScalar { value: a.scale.into() };
    sum.map(|sum| parts.op(scale, &[sum], format!("layer{layer}.distance_bias"))).transpose()
}
