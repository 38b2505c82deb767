//! A run against values that another program wrote to files, named by module path or by value.

use super::inputs::{Given, inputs};
use super::lockstep::{Reference, Wanted, run};
use super::measure::Measure;
use super::modules::{Meant, Modules};
use super::pairs::compiled;
use super::report::{Report, sizes};
use super::tolerance::{Other, Tolerances};
use super::{Side, in_side};
use crate::{Error, Result, tensor_file};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use tallow_executor::tensors::SafetensorsFile;
use tallow_executor::{CandleError, DType, ExecutorError, Tensor};
use tallow_ir::{DType as IrType, POS, Value};

/// Values from outside by name, sorted.
#[derive(Clone, Debug)]
pub struct References {
    /// Where they come from, for messages.
    pub label: String,
    /// The values.
    pub tensors: Vec<(String, Tensor)>,
}

impl References {
    /// Reads a `.safetensors` or `.npy` file, or all such files of a folder. A value of a `.npy` file has the file's name
    /// without its ending.
    ///
    /// # Errors
    /// What cannot be read; a name that two files have; a folder without values.
    pub fn read(path: &Path) -> Result<References> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        let mut files = Vec::new();
        if path.is_dir() {
            for entry in std::fs::read_dir(path).map_err(io)? {
                files.push(entry.map_err(io)?.path());
            }
            files.sort();
            files.retain(|file| is_values(file));
        } else {
            std::fs::metadata(path).map_err(io)?;
            if !is_values(path) {
                return Err(Error::Usage(format!(
                    "{}: holds no values; give a .safetensors or .npy file, or a folder of them",
                    path.display()
                )));
            }
            files.push(path.to_owned());
        }
        let mut tensors: Vec<(String, Tensor)> = Vec::new();
        for file in &files {
            tensors.extend(read_file(file)?);
        }
        tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
        if let Some(pair) = tensors.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::Usage(format!(
                "{}: two files hold the value `{}`; leave one",
                path.display(),
                pair[0].0
            )));
        }
        if tensors.is_empty() {
            return Err(Error::Usage(format!(
                "{}: holds no values; give a folder of .npy files named by module path, or a .safetensors file \
                 (scripts/dump-intermediates.py writes one)",
                path.display()
            )));
        }
        Ok(References { label: path.display().to_string(), tensors })
    }

    /// What `side` is to run on: the inputs of `given`, and those that stand among the references. Nothing is generated,
    /// as the references were computed from these inputs alone.
    ///
    /// # Errors
    /// An input that is in neither, or in both with other numbers; what [`inputs`] refuses.
    pub fn inputs(&self, side: &Side, given: &Given) -> Result<Vec<(String, Tensor)>> {
        let mut all = given.clone();
        let plan = side.program.plan();
        for input in plan.inputs.iter().filter(|i| i.name != POS) {
            let here = given.inputs.iter().any(|(name, _)| *name == input.name)
                || (given.text.is_some() && input.name == "input_ids");
            match self.tensors.iter().find(|(name, _)| *name == input.name) {
                _ if here => {}
                Some(found) => all.inputs.push(found.clone()),
                None => {
                    return Err(Error::Usage(format!(
                        "{}: holds no `{}`, which {} is run on ({}); add what its values were computed from, or give \
                         it with --input{}",
                        self.label,
                        input.name,
                        side.label,
                        plan.signature(),
                        if input.name == "input_ids" { " or --text" } else { "" }
                    )));
                }
            }
        }
        let made = inputs(&[side], &all)?;
        for (name, tensor) in &made {
            let stored = self.tensors.iter().find(|(n, _)| n == name).map(|(_, t)| t);
            if stored.is_some_and(|t| !same_input(t, tensor)) {
                return Err(Error::Usage(format!(
                    "{}: its values were computed from its own `{name}`, and other numbers are given for it; leave out \
                     --{}, or write the values anew",
                    self.label,
                    if given.text.is_some() && name == "input_ids" { "text" } else { "input" }
                )));
            }
        }
        Ok(made)
    }
}

/// Whether two inputs are the same numbers, but for leading dimensions of 1.
fn same_input(a: &Tensor, b: &Tensor) -> bool {
    let bare = |t: &Tensor| t.dims().iter().copied().skip_while(|&n| n == 1).collect::<Vec<_>>();
    let flat = |t: &Tensor| t.flatten_all();
    bare(a) == bare(b) && matches!((flat(a), flat(b)), (Ok(a), Ok(b)) if equal(&a, &b))
}

/// The values of one file by name.
fn read_file(file: &Path) -> Result<Vec<(String, Tensor)>> {
    if ending(file) != "safetensors" {
        let name = file.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let tensor = tensor_file::read(file, &name)?;
        return Ok(vec![(name, tensor)]);
    }
    let bytes = std::fs::read(file).map_err(|source| Error::Io { path: file.to_owned(), source })?;
    let fault = |cause: String| Error::Usage(format!("{}: {cause}", file.display()));
    let parsed = SafetensorsFile::parse(&bytes).map_err(fault)?;
    let names = parsed.names().into_iter();
    names.map(|name| parsed.tensor(&name).map(|t| (name, t)).map_err(|e| fault(e.to_string()))).collect()
}

/// Whether a file's ending is one of tensors.
fn is_values(path: &Path) -> bool {
    matches!(ending(path).as_str(), "npy" | "safetensors")
}

fn ending(path: &Path) -> String {
    path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// Runs `side` on `inputs` and compares its values with those of `references`, found by name or by module path; each is
/// reset to the reference before the graph goes on. A leading dimension of 1 may be there or not. `tolerance` replaces
/// the tolerances of real numbers.
///
/// # Errors
/// References of which none is a value of the graph; inputs that do not fit; what fails while it runs.
pub fn against(
    side: &Side,
    references: &References,
    inputs: &[(String, Tensor)],
    tolerance: Option<f64>,
) -> Result<Report> {
    // Names are those of the graph as written; what the compiler fused has no value of its own.
    let graph = side.source.graph();
    let holds = |name: &str| side.weights.weight(name).is_some();
    let matrices = side.file.iter().flat_map(|file| file.tensors().iter());
    let matrices = matrices.filter(|t| t.shape.len() > 1 && t.name.ends_with(".weight")).map(|t| t.name.clone());
    let modules = Modules::new(graph, &holds, matrices.collect());
    let kept = compiled(side);
    let mut stored = Stored { values: HashMap::new(), misfits: Vec::new(), side };
    let mut unknown = Vec::new();
    // With what the rounding of the file is.
    let mut compared: HashMap<Value, f64> = HashMap::new();
    let mut values: HashSet<Value> = HashSet::new();
    let takes = |name: &str| graph.input_named(name).is_some();
    for (name, tensor) in references.tensors.iter().filter(|(name, _)| !takes(name)) {
        let meant = match modules.resolve(name) {
            Ok(meant) => meant,
            Err(why) => {
                unknown.push((name.clone(), why));
                continue;
            }
        };
        let written = meant.value;
        let Some(&value) = kept.get(&written) else {
            unknown.push((name.clone(), "the graph that runs has no such value: it is fused or not needed".into()));
            continue;
        };
        let instead = modules.alternative(written).filter(|_| graph.name_of(written) != Some(name));
        let instead = instead.and_then(|v| kept.get(&v).copied());
        values.extend([Some(value), instead].into_iter().flatten());
        // Where the value may be a later one, the earlier is not reset.
        let rounding = compared.entry(instead.unwrap_or(value)).or_default();
        *rounding = rounding.max(unit(tensor.dtype()));
        let Meant { hint, guess, .. } = meant;
        stored.values.entry(value).or_default().push(Kept { name, tensor, instead, hint, guess });
    }
    if compared.is_empty() {
        let some: Vec<&str> = references.tensors.iter().map(|(name, _)| name.as_str()).take(5).collect();
        return Err(Error::Usage(format!(
            "{}: none of its names is a value or a module of {}: {}{}; name files by module path \
             (`model.layers.0.self_attn.q_proj`) or by value (`tallow dump --full` shows them)",
            references.label,
            side.label,
            some.join(", "),
            if references.tensors.len() > some.len() { ", …" } else { "" }
        )));
    }
    let tolerances = Tolerances::new(side, &Other::Outside, &compared, tolerance);
    let mut report = run(side, &mut stored, &values, &tolerances, inputs)?;
    report.left = references.label.clone();
    // Found in the graph, and not computed: no output needs them.
    let mut idle: Vec<&String> = stored.values.values().flatten().map(|kept| kept.name).collect();
    idle.sort();
    unknown.extend(
        idle.into_iter().map(|name| (name.clone(), "no output needs this value, so it is not computed".into())),
    );
    unknown.append(&mut stored.misfits);
    report.unknown = unknown;
    Ok(report)
}

/// Values of files by the value of the graph that each is compared with.
struct Stored<'a> {
    values: HashMap<Value, Vec<Kept<'a>>>,
    /// Those that cannot be what their names were taken for, with the reason.
    misfits: Vec<(String, String)>,
    side: &'a Side,
}

/// A value of a file.
struct Kept<'a> {
    name: &'a String,
    tensor: &'a Tensor,
    /// The later value that it may be in place of the one found by its name.
    instead: Option<Value>,
    /// What the report adds where it is out of tolerance.
    hint: Option<String>,
    /// Whether the value was found as the last of a module.
    guess: bool,
}

/// The largest part of a number that rounding to this type changes it by; 0 of single precision.
fn unit(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1.0 / 2048.0,
        DType::BF16 => 1.0 / 256.0,
        _ => 0.0,
    }
}

/// A relative error by which two values are not the same but for rounding.
const OTHER: f64 = 0.01;

impl Reference for Stored<'_> {
    fn take(&mut self, value: Value, found: &Tensor) -> Result<Vec<Wanted>> {
        let mut wanted: Vec<Wanted> = Vec::new();
        for kept in self.values.remove(&value).unwrap_or_default() {
            let ty = self.side.graph().ty(value);
            if ty.dtype.range().is_some() && kept.tensor.dtype().is_float() {
                return Err(Error::Usage(format!(
                    "`{}` holds real numbers, and the value is of {ty}; save it as whole numbers",
                    kept.name
                )));
            }
            let (tensor, off) = fitted(kept.name, kept.tensor, found)?;
            if let Some(instead) = kept.instead.filter(|_| off > OTHER) {
                self.values.entry(instead).or_default().push(Kept { instead: None, ..kept });
                continue;
            }
            if kept.guess && tensor.dims() != found.dims() {
                let (given, here) = (sizes(tensor.dims()), sizes(found.dims()));
                let why =
                    format!("the last weight that the graph reads below this module makes {here}, and this is {given}");
                self.misfits.push((kept.name.clone(), why));
                continue;
            }
            // A module and its last part, a head and the output.
            if let Some(same) =
                wanted.iter_mut().find(|w| w.tensor.dtype() == tensor.dtype() && equal(&w.tensor, &tensor))
            {
                same.also.push(kept.name.clone());
                same.hint = same.hint.take().or(kept.hint);
                continue;
            }
            let dtype = match tensor.dtype() {
                DType::F16 => IrType::F16,
                DType::BF16 => IrType::BF16,
                other if other.is_float() => IrType::F32,
                _ => IrType::I64,
            };
            wanted.push(Wanted { name: kept.name.clone(), also: Vec::new(), tensor, dtype, hint: kept.hint });
        }
        Ok(wanted)
    }
}

/// Whether two tensors hold the same numbers.
fn equal(a: &Tensor, b: &Tensor) -> bool {
    a.dims() == b.dims() && Measure::of(a, b).is_ok_and(|m| m.differing == 0)
}

/// A value of a file in the shape of `found`, and how far it is off. Its rows may have other dimensions, and heads may
/// come before tokens; where both are possible, the nearer one is meant.
fn fitted(name: &str, tensor: &Tensor, found: &Tensor) -> Result<(Tensor, f64)> {
    let fail = |e: CandleError| in_side(name, ExecutorError::from(e).into());
    let dims = found.dims();
    let mut forms = Vec::new();
    if refines(tensor.dims(), dims) {
        forms.push(tensor.reshape(dims).map_err(fail)?);
    }
    let inner: Vec<usize> = match tensor.dims() {
        [1, rest @ ..] if rest.len() == 3 => rest.to_vec(),
        other => other.to_vec(),
    };
    if let [heads, tokens, width] = inner[..]
        && refines(&[tokens, heads, width], dims)
    {
        let turned = tensor.reshape((heads, tokens, width)).and_then(|t| t.transpose(0, 1)?.contiguous());
        forms.push(turned.and_then(|t| t.reshape(dims)).map_err(fail)?);
    }
    let mut best: Option<(Tensor, f64)> = None;
    for form in forms {
        let off = Measure::of(&form, found)?.relative;
        if best.as_ref().is_none_or(|(_, least)| off < *least) {
            best = Some((form, off));
        }
    }
    Ok(best.unwrap_or_else(|| (tensor.clone(), f64::INFINITY)))
}

/// Whether two shapes are the same rows of numbers: equal but for sizes of 1, or with neighbouring dimensions of one
/// merged in the other, as `[S, heads, width]` and `[S, heads * width]`.
fn refines(a: &[usize], b: &[usize]) -> bool {
    let count = |dims: &[usize]| dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    if count(a) != count(b) {
        return false;
    }
    let bounds = |dims: &[usize]| -> Vec<usize> {
        let ends = dims.iter().scan(1usize, |n, &d| {
            *n = n.saturating_mul(d);
            Some(*n)
        });
        let mut ends: Vec<usize> = ends.collect();
        ends.dedup();
        ends.retain(|&n| n != 1);
        ends
    };
    let (x, y) = (bounds(a), bounds(b));
    let within = |small: &[usize], large: &[usize]| small.iter().all(|n| large.contains(n));
    within(&x, &y) || within(&y, &x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_may_differ_by_ones_and_by_merged_dimensions() {
        assert!(refines(&[1, 7, 32], &[7, 32]));
        assert!(refines(&[1, 7, 4, 8], &[7, 32]));
        assert!(refines(&[7, 4, 8], &[28, 8]));
        assert!(refines(&[1], &[]));
        assert!(!refines(&[4, 7, 8], &[7, 32]));
        assert!(!refines(&[7, 32], &[32, 7]));
        assert!(!refines(&[7, 16], &[7, 32]));
    }
}
