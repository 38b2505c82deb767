//! What both sides are run on: inputs that were given, a text, and generated numbers for the rest.

use super::{Side, in_side};
use crate::{Error, Result, tensor_file};
use std::collections::HashSet;
use tallow_executor::{DType, Device, ExecutorError, Tensor};
use tallow_ir::diff::diff;
use tallow_ir::{Bindings, DType as IrType, Dim, Graph, NodeKind, Op, PAST, POS, SEQUENCE, TensorType, Value};

/// Tokens, and sizes of other symbols, where nothing tells them: small, odd and different, so that no two are mistaken.
const SEQUENCE_SIZE: i64 = 7;
const OTHER_SIZES: [i64; 4] = [3, 5, 4, 6];
/// The most elements of a generated input.
const MOST: usize = 1 << 28;

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Inputs by name.
    pub inputs: Vec<(String, Tensor)>,
    /// A text for `input_ids`, which the first side's tokenizer encodes, begun as its model wants.
    pub text: Option<String>,
    /// Sizes of symbols, for inputs that are generated.
    pub sizes: Vec<(String, usize)>,
    /// Of the generated numbers.
    pub seed: u64,
}

impl Given {
    /// Adds the input of `NAME=VALUE`, where the value is as [`tensor_file::input`] reads it.
    ///
    /// # Errors
    /// Another form; a name that no side takes; a value that cannot be read.
    pub fn add_input(&mut self, text: &str, sides: &[&Side]) -> Result<()> {
        let Some((name, value)) = text.split_once('=') else {
            return Err(Error::Usage(format!(
                "--input {text}: expected NAME=FILE.npy, NAME=FILE.safetensors, NAME=1,2,3 or NAME=true,false"
            )));
        };
        let ty = declared(sides, name).ok_or_else(|| unknown(name, sides))?;
        self.inputs.push((name.to_owned(), tensor_file::input(name, value, &ty)?));
        Ok(())
    }

    /// Adds the size of `SYMBOL=NUMBER`.
    ///
    /// # Errors
    /// Another form.
    pub fn add_size(&mut self, text: &str) -> Result<()> {
        let size = text.split_once('=').and_then(|(name, n)| Some((name.trim().to_owned(), n.trim().parse().ok()?)));
        let size = size
            .ok_or_else(|| Error::Usage(format!("--size {text}: expected SYMBOL=NUMBER, as in --size {SEQUENCE}=7")))?;
        self.sizes.push(size);
        Ok(())
    }
}

/// One tensor for every input that a side takes, in the order of the sides. What is not given is generated: ids within
/// the table that they look up, other whole numbers 0 or 1, real numbers from -1 to 1. The same seed gives the same.
///
/// # Errors
/// An input that no side takes, or that is given twice; a text without a tokenizer or without `input_ids`; sides that
/// take different shapes; sizes that nothing tells.
pub fn inputs(sides: &[&Side], given: &Given) -> Result<Vec<(String, Tensor)>> {
    let renamed = renamed(sides)?;
    let mut fixed = given.inputs.clone();
    if let Some(text) = &given.text {
        fixed.push(("input_ids".to_owned(), encoded(sides, text)?));
    }
    let mut names = HashSet::new();
    for (name, _) in &fixed {
        if declared(sides, name).is_none() {
            return Err(unknown(name, sides));
        }
        if !names.insert(name.as_str()) {
            return Err(Error::Usage(format!("input `{name}`: is given twice; give it once")));
        }
    }
    // What one name is given, the other side's name for it is given too.
    for (left, right) in &renamed {
        for (name, other) in [(left, right), (right, left)] {
            if let Some((_, tensor)) = fixed.iter().find(|(n, _)| n == name)
                && !fixed.iter().any(|(n, _)| n == other)
            {
                fixed.push((other.clone(), tensor.clone()));
            }
        }
    }
    let wanted = wanted(sides);
    lone(sides, &renamed, &fixed)?;
    let bindings = bind(sides, &wanted, &fixed, &given.sizes)?;
    let mut out: Vec<(String, Tensor)> = Vec::new();
    for (name, _) in &wanted {
        let here =
            fixed.iter().chain(&out).find(|(n, _)| n == name || renamed.iter().any(|(l, r)| r == name && l == n));
        let tensor = match here {
            Some((_, tensor)) => tensor.clone(),
            None => {
                let other = renamed.iter().find(|(left, _)| left == name).map_or(name, |(_, right)| right);
                generated(sides, [name, other], &bindings, given.seed)?
            }
        };
        out.push((name.clone(), tensor));
    }
    Ok(out)
}

/// Names of inputs that stand for the same in two graphs and differ: the left one's, the right one's.
///
/// # Errors
/// Graphs that cannot be walked; types that no input fits.
fn renamed(sides: &[&Side]) -> Result<Vec<(String, String)>> {
    let &[left, right] = sides else { return Ok(Vec::new()) };
    let takes = |side: &Side, name: &str| side.program.plan().inputs.iter().any(|i| i.name == name && name != POS);
    let same = |a: &Side, b: &Side| {
        a.program.plan().inputs.iter().all(|i| b.program.plan().inputs.iter().any(|j| i.name == j.name))
    };
    if same(left, right) || same(right, left) {
        return Ok(Vec::new());
    }
    let (a, b) = (left.source.graph(), right.source.graph());
    let label = || format!("{} and {}", left.label, right.label);
    let pairs = diff(a, b).map_err(|e| Error::Graph { file: label(), source: Box::new(e) })?.pairs;
    let mut found = Vec::new();
    for pair in pairs {
        let (NodeKind::Input(p), NodeKind::Input(q)) = (&a.node(pair.left).kind, &b.node(pair.right).kind) else {
            continue;
        };
        if p == q || !takes(left, p) || !takes(right, q) || takes(right, p) || takes(left, q) {
            continue;
        }
        let (own, there) = (&a.node(pair.left).results[0], &b.node(pair.right).results[0]);
        if !agree(own, there) {
            return Err(Error::Usage(format!(
                "input `{p}` of {} stands for `{q}` of {}: one takes {own}, and the other {there}; no input fits both",
                left.label, right.label
            )));
        }
        found.push((p.clone(), q.clone()));
    }
    Ok(found)
}

/// Refuses inputs of each of two sides that the other lacks, and that are not given: numbers made for one would not be
/// those of the other.
fn lone(sides: &[&Side], renamed: &[(String, String)], fixed: &[(String, Tensor)]) -> Result<()> {
    let &[left, right] = sides else { return Ok(()) };
    let lone = |side: &Side, other: &Side| {
        let takes = |name: &str| other.program.plan().inputs.iter().any(|i| i.name == name);
        let known = |name: &str| {
            takes(name) || renamed.iter().any(|(l, r)| l == name || r == name) || fixed.iter().any(|(n, _)| n == name)
        };
        let names = side.program.plan().inputs.iter().filter(|i| i.name != POS && !known(&i.name));
        names.map(|i| i.name.clone()).collect::<Vec<_>>()
    };
    match (lone(left, right).first(), lone(right, left).first()) {
        (Some(p), Some(q)) => Err(Error::Usage(format!(
            "input `{p}`: {} has none that stands for it, and {} has none for `{q}`; give both the same numbers, --input \
             {p}=VALUE --input {q}=VALUE",
            right.label, left.label
        ))),
        _ => Ok(()),
    }
}

/// The names of all inputs, and the side that has each first.
fn wanted<'s>(sides: &[&'s Side]) -> Vec<(String, &'s Side)> {
    let mut out: Vec<(String, &Side)> = Vec::new();
    let mut seen = HashSet::new();
    for side in sides {
        for input in side.program.plan().inputs.iter().filter(|i| i.name != POS) {
            if seen.insert(input.name.as_str()) {
                out.push((input.name.clone(), side));
            }
        }
    }
    out
}

/// The type of an input on the first side that has it.
fn declared(sides: &[&Side], name: &str) -> Option<TensorType> {
    let mut inputs = sides.iter().flat_map(|s| &s.program.plan().inputs).filter(|i| i.name != POS);
    inputs.find(|i| i.name == name).map(|i| i.ty.clone())
}

fn unknown(name: &str, sides: &[&Side]) -> Error {
    let takes: Vec<String> =
        sides.iter().map(|s| format!("{} takes {}", s.label, s.program.plan().signature())).collect();
    Error::Usage(format!("input `{name}`: is no input here; {}", takes.join("; ")))
}

/// The ids of a text.
fn encoded(sides: &[&Side], text: &str) -> Result<Tensor> {
    if declared(sides, "input_ids").is_none() {
        let takes = sides.first().map(|s| s.program.plan().signature()).unwrap_or_default();
        return Err(Error::Usage(format!(
            "a text becomes `input_ids`, which the graph does not take; it takes {takes}"
        )));
    }
    let Some(encoded) = sides.iter().find_map(|s| s.encode(text)) else {
        return Err(Error::Usage(
            "a text needs a tokenizer, and no side is a model; give --input input_ids=1,2,3".into(),
        ));
    };
    let ids: Vec<i64> = encoded?.into_iter().map(i64::from).collect();
    if ids.is_empty() {
        return Err(Error::Usage("the text has no tokens; give a longer one".into()));
    }
    let count = ids.len();
    Ok(Tensor::from_vec(ids, count, &Device::Cpu).map_err(ExecutorError::from)?)
}

/// Sizes of the symbols: as given inputs have them, as they are asked for, as a side that has a number in their place
/// has it, and at last some small ones.
fn bind(
    sides: &[&Side],
    wanted: &[(String, &Side)],
    fixed: &[(String, Tensor)],
    sizes: &[(String, usize)],
) -> Result<Bindings> {
    let mut bindings = Bindings::from([(PAST.to_owned(), 0)]);
    let types = || sides.iter().flat_map(|s| s.program.plan().inputs.iter().map(move |i| (*s, i)));
    let mut known: Vec<&str> = types().flat_map(|(_, i)| i.ty.shape.dims()).flat_map(Dim::symbols).collect();
    known.sort_unstable();
    known.dedup();
    for (symbol, size) in sizes {
        if !known.contains(&symbol.as_str()) {
            let list =
                if known.is_empty() { "they have none".to_owned() } else { format!("they have {}", known.join(", ")) };
            return Err(Error::Usage(format!("--size {symbol}={size}: no input has a size of that name; {list}")));
        }
        bindings.insert(symbol.clone(), *size as i64);
    }
    for (_, input) in types() {
        let Some((_, tensor)) = fixed.iter().find(|(name, _)| *name == input.name) else { continue };
        let dims = input.ty.shape.dims();
        // A leading 1 may be there or not.
        let skip = tensor.rank().saturating_sub(dims.len());
        for (dim, &size) in dims.iter().zip(&tensor.dims()[skip..]).filter(|_| tensor.rank() >= dims.len()) {
            if let Some((symbol, n)) = dim.solve(size as i64) {
                bindings.entry(symbol).or_insert(n);
            }
        }
    }
    for (name, first) in wanted {
        let of = |side: &Side| side.program.plan().inputs.iter().find(|i| i.name == *name).map(|i| i.ty.clone());
        let Some(own) = of(first) else { continue };
        for other in sides {
            let Some(ty) = of(other) else { continue };
            if !agree(&own, &ty) {
                return Err(Error::Usage(format!(
                    "input `{name}`: {} takes {own}, and {} takes {ty}; no input fits both",
                    first.label, other.label
                )));
            }
            for (p, q) in own.shape.dims().iter().zip(ty.shape.dims()) {
                let told = match (p.as_const(), q.as_const()) {
                    (None, Some(n)) => p.solve(n),
                    (Some(n), None) => q.solve(n),
                    _ => None,
                };
                if let Some((symbol, n)) = told {
                    bindings.entry(symbol).or_insert(n);
                }
            }
        }
    }
    if known.contains(&SEQUENCE) {
        bindings.entry(SEQUENCE.to_owned()).or_insert(SEQUENCE_SIZE);
    }
    let mut others = OTHER_SIZES.iter().cycle();
    for symbol in known {
        if !bindings.contains_key(symbol) {
            bindings.insert(symbol.to_owned(), others.next().copied().unwrap_or(SEQUENCE_SIZE));
        }
    }
    Ok(bindings)
}

/// Whether one tensor can be of both types.
fn agree(a: &TensorType, b: &TensorType) -> bool {
    let (x, y) = (a.shape.dims(), b.shape.dims());
    let equal = |(p, q): (&Dim, &Dim)| p.as_const().zip(q.as_const()).is_none_or(|(p, q)| p == q);
    x.len() == y.len() && x.iter().zip(y).all(equal) && a.dtype.range().is_some() == b.dtype.range().is_some()
}

/// A tensor of numbers that the seed and the name settle; the other name is that of the same input on the other side.
fn generated(sides: &[&Side], [name, other]: [&String; 2], bindings: &Bindings, seed: u64) -> Result<Tensor> {
    let Some(ty) = declared(sides, name) else { return Err(unknown(name, sides)) };
    let dims = ty.shape.dims().iter().map(|d| d.evaluate(bindings).and_then(|n| usize::try_from(n).ok()));
    let dims: Option<Vec<usize>> = dims.collect();
    let count = dims.as_ref().and_then(|d| d.iter().try_fold(1usize, |n, &d| n.checked_mul(d)));
    let (Some(dims), Some(count)) = (dims, count.filter(|&n| n <= MOST)) else {
        let bound: Vec<String> = bindings.iter().map(|(s, n)| format!("{s} = {n}")).collect();
        return Err(Error::Usage(format!(
            "input `{name}`: no tensor of {ty} is made where {}; choose sizes with --size, or give the input",
            bound.join(", ")
        )));
    };
    let mut state =
        name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let made = match ty.dtype.range() {
        Some(_) if sides.iter().any(|s| are_starts(s.graph(), name) || are_starts(s.graph(), other)) => {
            Tensor::from_vec::<_, i64>((0..count as i64).collect(), dims, &Device::Cpu)
        }
        Some((least, most)) => {
            let bounds = sides.iter().flat_map(|s| [table(s.graph(), name), table(s.graph(), other)]).flatten();
            let end = bounds.min().unwrap_or(2).min(most.saturating_add(1)).max(1);
            let values = (0..count).map(|_| (next(&mut state) % end as u64) as i64 + least.max(0)).collect();
            Tensor::from_vec::<_, i64>(values, dims, &Device::Cpu)
        }
        None => {
            let unit = |bits: u64| (bits >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
            let values = (0..count).map(|_| unit(next(&mut state))).collect();
            Tensor::from_vec::<_, f32>(values, dims, &Device::Cpu)
        }
    };
    let typed = made.and_then(|t| match ty.dtype {
        IrType::Bool | IrType::U8 => t.to_dtype(DType::U8),
        _ => Ok(t),
    });
    typed.map_err(|e| in_side(name, ExecutorError::from(e).into()))
}

/// Whether an input tells where segments begin: 0, and then ascending numbers.
fn are_starts(graph: &Graph, name: &str) -> bool {
    let Some(input) = graph.input_named(name) else { return false };
    let begins = |op: &Op, operand: usize| matches!(op, Op::SegmentReduce { .. }) && operand == 1;
    graph.readers(input).into_iter().any(|(node, number)| match &graph.node(node).kind {
        NodeKind::Op(op) => begins(op, number as usize),
        _ => false,
    })
}

/// One more than the largest number that the input `name` may hold, where it looks up rows of a table of known size:
/// the smallest of them. The input may be seen through operations that only change its form.
fn table(graph: &Graph, name: &str) -> Option<i64> {
    let input = graph.input_named(name)?;
    let mut least: Option<i64> = None;
    let mut seen: HashSet<Value> = HashSet::from([input]);
    let mut open = vec![input];
    while let Some(value) = open.pop() {
        for (node, number) in graph.readers(value) {
            let NodeKind::Op(op) = &graph.node(node).kind else { continue };
            let rows = |operand: usize, axis: i64| {
                let table = graph.operands(node).get(operand).copied()?;
                let dims = graph.ty(table).shape.dims();
                let axis = if axis < 0 { axis + dims.len() as i64 } else { axis };
                dims.get(usize::try_from(axis).ok()?)?.as_const()
            };
            let size = match op {
                Op::TokenEmbed if number == 0 => rows(1, 0),
                Op::Gather { axis } if number == 1 => rows(0, i64::from(*axis)),
                Op::Reshape { .. }
                | Op::Flatten { .. }
                | Op::Unflatten { .. }
                | Op::Squeeze { .. }
                | Op::Unsqueeze { .. }
                | Op::Slice { .. }
                | Op::Cast { .. } => {
                    open.extend(graph.results(node).filter(|v| seen.insert(*v)));
                    None
                }
                _ => None,
            };
            least = size.into_iter().chain(least).min();
        }
    }
    least
}

/// The next number of SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
