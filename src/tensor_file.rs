//! Tensors from and to files, `.npy` and `.safetensors`, and from text.

mod npy;

use crate::{Error, Result, Tensor};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use tallow_executor::tensors::SafetensorsFile;
use tallow_executor::{Device, ExecutorError};
use tallow_format::atomic::AtomicFile;
use tallow_ir::TensorType;

/// Endings that name a file, so that none of them becomes a folder of that name.
const FILE_ENDINGS: &[&str] =
    &["npy", "npz", "txt", "json", "csv", "tsv", "bin", "pt", "pth", "pkl", "h5", "mat", "png", "wav", "gguf", "model"];

/// Reads a tensor: the array of an `.npy` file, or the tensor `name` of a `.safetensors` file (the
/// only one, where it has a single one). Floats keep their type, truth values and unsigned bytes give
/// `U8`, other integers `I64`.
///
/// # Errors
/// A file that cannot be read, is cut short, lacks the tensor, or holds it in an element type that no
/// input takes.
pub fn read(path: &Path, name: &str) -> Result<Tensor> {
    let fault = |cause: String| Error::Usage(format!("{}: {cause}", path.display()));
    let bytes = || std::fs::read(path).map_err(|source| Error::Io { path: path.to_owned(), source });
    match extension(path).as_str() {
        "npy" => npy::read(&bytes()?).map_err(fault),
        "safetensors" => {
            let bytes = bytes()?;
            let file = SafetensorsFile::parse(&bytes).map_err(fault)?;
            let names = file.names();
            let key = match names.as_slice() {
                [only] => only.as_str(),
                _ => name,
            };
            if !names.iter().any(|n| n == key) {
                return Err(fault(format!("has no tensor `{name}`; it has {}", names.join(", "))));
            }
            file.tensor(key).map_err(|e| fault(e.to_string()))
        }
        _ => Err(fault("is no tensor file; give a .npy or .safetensors file, or numbers as in 1,2,3".into())),
    }
}

/// A tensor from the text `1,2,3`: whole numbers give `I64`, others `F32`; `true,false` gives truth
/// values, `U8`.
pub fn parse_numbers(text: &str) -> Option<Tensor> {
    let items: Vec<&str> = text.split(',').map(str::trim).collect();
    let truth: Option<Vec<u8>> = items.iter().map(|t| t.parse().ok().map(|truth: bool| u8::from(truth))).collect();
    if let Some(values) = truth {
        return Tensor::from_vec(values, items.len(), &Device::Cpu).ok();
    }
    let whole: Option<Vec<i64>> = items.iter().map(|t| t.parse().ok()).collect();
    let tensor = match whole {
        Some(values) => Tensor::from_vec(values, items.len(), &Device::Cpu),
        None => {
            let values: Option<Vec<f32>> = items.iter().map(|t| t.parse().ok()).collect();
            Tensor::from_vec(values?, items.len(), &Device::Cpu)
        }
    };
    tensor.ok()
}

/// The tensor for the input `name` of type `declared` from text: numbers as in `1,2,3`, truth values
/// as in `true,false`, or the path of a file for [`read`]. Numbers take the declared shape where its
/// sizes, all but one, are known.
///
/// # Errors
/// Text that is none of these, numbers that do not fill the shape, or what [`read`] refuses; the
/// message names the input.
pub fn input(name: &str, text: &str, declared: &TensorType) -> Result<Tensor> {
    let fault = |cause: String| Error::Executor(ExecutorError::Input { name: name.into(), cause });
    if let Some(values) = parse_numbers(text) {
        return fit(&values, declared).map_err(fault);
    }
    let path = Path::new(text);
    if !path.exists() || path.is_dir() {
        return Err(fault(format!(
            "`{text}` is no file; give a .npy or .safetensors file, numbers as in 1,2,3, or truth values as in true,false"
        )));
    }
    read(path, name).map_err(|error| match error {
        Error::Usage(cause) => fault(cause),
        Error::Io { path, source } => {
            let source = std::io::Error::new(source.kind(), format!("{source}, for the input `{name}`"));
            Error::Io { path, source }
        }
        other => other,
    })
}

/// A list of numbers in the declared shape, where at most one of several sizes is unknown. With less
/// than two dimensions, or a row of unknown sizes, the list stays: the session gives it its place.
fn fit(values: &Tensor, declared: &TensorType) -> std::result::Result<Tensor, String> {
    let dims = declared.shape.dims();
    let unknown = dims.iter().filter(|d| d.as_const().is_none()).count();
    if dims.len() < 2 || (dims.len() == 2 && unknown == 2) {
        return Ok(values.clone());
    }
    let count = values.elem_count();
    let holds = format!("holds {count} {}, and {declared}", if count == 1 { "number" } else { "numbers" });
    if unknown > 1 {
        return Err(format!("{holds} has {unknown} sizes that a list does not tell; give a .npy file"));
    }
    let known = dims.iter().filter_map(|d| d.as_const());
    let known = known.map(|n| usize::try_from(n).ok()).try_fold(1usize, |all, n| all.checked_mul(n?));
    let known = known.ok_or_else(|| format!("{holds} takes more than can be given"))?;
    let open = match (unknown, known) {
        (0, _) if known == count => 1,
        (1, 1..) if count.is_multiple_of(known) => count / known,
        (0, _) => return Err(format!("{holds} takes {known}; give as many, or a .npy file")),
        _ => return Err(format!("{holds} takes a multiple of {known}; give as many, or a .npy file")),
    };
    let shape: Vec<usize> = dims.iter().map(|d| d.as_const().map_or(open, |n| n as usize)).collect();
    values.reshape(shape).map_err(|e| e.to_string())
}

/// The file of each of the outputs `names` under `path`, in order: `path` itself for all of them if it
/// ends in `.safetensors`, or for a single one if it ends in `.npy`; else `NAME.npy` in the folder
/// `path`.
///
/// # Errors
/// A path with another file's ending that is no folder yet, and two names that give one file.
pub fn files(path: &Path, names: &[&str]) -> Result<Vec<PathBuf>> {
    let ending = extension(path);
    let folder = path.is_dir() || path.to_string_lossy().ends_with(std::path::is_separator);
    match names {
        _ if folder => {}
        _ if ending == "safetensors" => return Ok(vec![path.to_owned(); names.len()]),
        [_] if ending == "npy" => return Ok(vec![path.to_owned()]),
        _ if FILE_ENDINGS.contains(&ending.as_str()) => {
            let what = match ending.as_str() {
                "npy" => format!("one .npy file holds one array, and there are {} outputs", names.len()),
                _ => format!("outputs are not written as .{ending}"),
            };
            let one = if names.len() == 1 { ", or one .npy file" } else { "" };
            return Err(Error::Usage(format!(
                "{}: {what}; give a folder, which gets NAME.npy of each, or one .safetensors file{one}",
                path.display()
            )));
        }
        _ => {}
    }
    let mut files: Vec<PathBuf> = Vec::with_capacity(names.len());
    for name in names {
        let safe = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let file = path.join(format!("{}.npy", name.chars().map(safe).collect::<String>()));
        if let Some(at) = files.iter().position(|f| *f == file) {
            return Err(Error::Usage(format!(
                "{}: the outputs `{}` and `{name}` would both be written there; give one .safetensors file",
                file.display(),
                names[at]
            )));
        }
        files.push(file);
    }
    Ok(files)
}

/// Writes named tensors to their [`files`], and gives those; a folder is made. Each file is written
/// whole or not at all. In `.npy` files truth values and unsigned bytes are `|u1`, integers `<i8`,
/// half floats `<f2`, other floats `<f4`: `bf16` too, which NumPy lacks.
///
/// # Errors
/// What [`files`] refuses, and files that cannot be written.
pub fn write(path: &Path, tensors: &[(String, Tensor)]) -> Result<Vec<PathBuf>> {
    let names: Vec<&str> = tensors.iter().map(|(name, _)| name.as_str()).collect();
    let mut files = files(path, &names)?;
    let single = files.iter().all(|f| f == path);
    if single && extension(path) == "safetensors" {
        write_atomic(path, &tallow_executor::save_safetensors(tensors)?)?;
        files.truncate(1);
        return Ok(files);
    }
    if !single {
        std::fs::create_dir_all(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    }
    for (file, (_, tensor)) in files.iter().zip(tensors) {
        write_atomic(file, &npy::write(tensor)?)?;
    }
    Ok(files)
}

fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    Ok(file.commit()?)
}

fn extension(path: &Path) -> String {
    path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
