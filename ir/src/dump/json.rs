//! A graph as JSON.

use super::listing::Listing;
use crate::hint::hint_name;
use crate::ops::Effect;
use crate::ops::Payload;
use crate::ops::payload::Real;
use crate::{Graph, NodeKind, Op, POS, TensorType, Value as GraphValue};
use serde_json::{Map, Value, json};

/// The version of the form.
const VERSION: u32 = 1;

/// Every input, output, weight and operation of `graph`, in the order of the text form:
///
/// ```json
/// {
///   "version": 1,
///   "inputs": [{"name": "x", "value": "%x", "dtype": "f32", "shape": ["S", 8], "injected": false}],
///   "outputs": [{"name": "y", "value": "%0", "dtype": "f32", "shape": ["S", 4]}],
///   "weights": [{"name": "w", "value": "%w", "dtype": "q8", "shape": [4, 8]}],
///   "nodes": [{
///     "id": 0, "op": "Matmul", "attributes": {}, "operands": ["%x", "%w"],
///     "results": [{"value": "%0", "name": null, "dtype": "f32", "shape": ["S", 4]}],
///     "hint": null
///   }]
/// }
/// ```
///
/// - `version` is that of this form; it grows when a reader would have to change.
/// - `effect` is on nodes that do more than compute: `"state"` (caches of the session), `"random"` (numbers
///   drawn from its generator), `"host"` (a function of the running program).
/// - `value` and `operands` are values as the text form writes them, each different from all others.
/// - A dimension is a number, or a text where it has symbols: `"S"`, `"2*S + 1"`.
/// - Attributes are numbers, truth values, lists, names, and null for a bound that is absent. Numbers that
///   JSON has not are texts: `"inf"`, `"-inf"`, `"nan"`.
/// - `hint` is the name of a device, the number of one without a name, or null.
/// - An input that the session fills by itself is `injected`.
///
/// The same value for the same graph; linear.
pub fn json(graph: &Graph) -> Value {
    let listing = Listing::new(graph);
    let typed = |name: Option<&str>, value: GraphValue| typed(&listing, name, value);
    let inputs = graph.inputs().map(|(name, value)| {
        let mut input = typed(Some(name), value);
        input["injected"] = json!(name == POS);
        input
    });
    let weights = graph.weights().map(|(name, value)| typed(Some(name), value));
    let outputs = graph.outputs().map(|(name, value)| typed(Some(name), value));
    let nodes = (0..listing.len()).map(|place| node(&listing, place));
    json!({
        "version": VERSION,
        "inputs": inputs.collect::<Vec<_>>(),
        "outputs": outputs.collect::<Vec<_>>(),
        "weights": weights.collect::<Vec<_>>(),
        "nodes": nodes.collect::<Vec<_>>(),
    })
}

fn node(listing: &Listing<'_>, place: usize) -> Value {
    let graph = listing.graph;
    let id = listing.node(place);
    let (op, attributes, effect) = match &graph.node(id).kind {
        NodeKind::Op(op) => (op.name(), attributes(op), op.info().effect),
        NodeKind::Input(_) | NodeKind::Weight(_) => ("", Map::new(), Effect::Pure),
    };
    let operands: Vec<String> = listing.operands(place).iter().map(|&v| listing.labels.label(v)).collect();
    let results: Vec<Value> = graph.results(id).map(|v| typed(listing, graph.name_of(v), v)).collect();
    let hint = graph.hint(id).map(|hint| hint_name(hint).map_or_else(|| json!(hint), |name| json!(name)));
    let mut node = json!({
        "id": place,
        "op": op,
        "attributes": attributes,
        "operands": operands,
        "results": results,
        "hint": hint,
    });
    let effect = match effect {
        Effect::Pure => return node,
        Effect::State => "state",
        Effect::Random => "random",
        Effect::Host => "host",
    };
    node["effect"] = json!(effect);
    node
}

fn typed(listing: &Listing<'_>, name: Option<&str>, value: GraphValue) -> Value {
    let ty = listing.graph.try_ty(value).ok();
    json!({
        "name": name,
        "value": listing.labels.label(value),
        "dtype": ty.map(|ty| ty.dtype.name()),
        "shape": ty.map(shape),
    })
}

/// A shape as JSON: numbers, and texts for dimensions with symbols.
fn shape(ty: &TensorType) -> Value {
    let dims = ty.shape.dims().iter();
    dims.map(|d| d.as_const().map_or_else(|| json!(d.to_string()), |n| json!(n))).collect()
}

/// The attributes of an operation, in order.
fn attributes(op: &Op) -> Map<String, Value> {
    let mut out = Map::new();
    op.each_field(|field, text| {
        let numeric = [
            u32::KIND,
            i32::KIND,
            i64::KIND,
            Real::KIND,
            bool::KIND,
            Vec::<u32>::KIND,
            Vec::<i64>::KIND,
            Vec::<Real>::KIND,
            <[u32; 2]>::KIND,
            Option::<Real>::KIND,
        ];
        let value = if numeric.contains(&field.kind) { number(&text) } else { name(&text) };
        out.insert(field.name.to_owned(), value);
    });
    out
}

/// A number, a truth value, a list of them, or nothing.
fn number(text: &str) -> Value {
    if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        return inner.split(", ").filter(|item| !item.is_empty()).map(number).collect();
    }
    match text {
        "none" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => {
            let whole = text.parse::<i64>().ok().map(Value::from);
            let real = || text.parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Value::Number);
            whole.or_else(real).unwrap_or_else(|| Value::from(text))
        }
    }
}

/// A name, without the quotes that the text form may give it.
fn name(text: &str) -> Value {
    let quoted = text.starts_with('"').then(|| serde_json::from_str::<String>(text).ok()).flatten();
    quoted.map_or_else(|| Value::from(text), Value::from)
}
