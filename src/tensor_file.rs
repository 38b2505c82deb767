//! Tensors from and to files: `.npy` and `.safetensors`.

use crate::{Error, Result, Tensor};
use std::io::Write as _;
use std::path::Path;
use tallow_executor::{DType, Device, ExecutorError};
use tallow_format::atomic::AtomicFile;

/// Reads a tensor: the array of an `.npy` file, or the tensor `name` of a `.safetensors` file (the
/// only one, where it has a single one).
///
/// # Errors
/// A file that cannot be read, is cut short, or holds an element type that no input takes.
pub fn read(path: &Path, name: &str) -> Result<Tensor> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let bytes = std::fs::read(path).map_err(io)?;
    match extension(path).as_str() {
        "npy" => read_npy(path, &bytes),
        "safetensors" => {
            let fault = |cause: String| Error::Usage(format!("{}: {cause}", path.display()));
            let tensors = tallow_executor::load_safetensors(&bytes).map_err(|e| fault(e.to_string()))?;
            let mut names: Vec<_> = tensors.keys().cloned().collect();
            names.sort();
            let key = match names.as_slice() {
                [only] => only.clone(),
                _ => name.to_owned(),
            };
            let known = names.join(", ");
            tensors.get(&key).cloned().ok_or_else(|| fault(format!("has no tensor `{name}`; it has {known}")))
        }
        other => Err(Error::Usage(format!(
            "{}: `.{other}` is no tensor file; give a .npy or .safetensors file, or numbers as in 1,2,3",
            path.display()
        ))),
    }
}

/// A tensor from the text `1,2,3`: whole numbers give i64, others f32.
pub fn parse_numbers(text: &str) -> Option<Tensor> {
    let items: Vec<&str> = text.split(',').map(str::trim).collect();
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

/// Writes tensors: into one `.safetensors` file if `path` ends so, else one `NAME.npy` each into
/// the folder `path`, which is made. Each file is written whole or not at all.
pub fn write(path: &Path, tensors: &[(String, Tensor)]) -> Result<Vec<std::path::PathBuf>> {
    if extension(path) == "safetensors" {
        let bytes = tallow_executor::save_safetensors(tensors)?;
        write_atomic(path, &bytes)?;
        return Ok(vec![path.to_owned()]);
    }
    std::fs::create_dir_all(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    tensors
        .iter()
        .map(|(name, tensor)| {
            let file = path_of(path, name);
            write_atomic(&file, &npy(tensor)?)?;
            Ok(file)
        })
        .collect()
}

/// The file that [`write`] puts the tensor `name` into.
pub fn path_of(path: &Path, name: &str) -> std::path::PathBuf {
    if extension(path) == "safetensors" {
        return path.to_owned();
    }
    let safe: String = name.chars().map(|c| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
    path.join(format!("{safe}.npy"))
}

fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    Ok(file.commit()?)
}

fn extension(path: &Path) -> String {
    path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// Version 1.0 of the format: magic, header length, a Python literal, little-endian values.
fn npy(tensor: &Tensor) -> Result<Vec<u8>> {
    let dims: Vec<String> = tensor.dims().iter().map(|d| format!("{d},")).collect();
    let tensor = tensor.flatten_all().map_err(ExecutorError::from)?;
    let (code, bytes): (&str, Vec<u8>) = match tensor.dtype() {
        DType::I64 => (
            "<i8",
            tensor.to_vec1::<i64>().map_err(ExecutorError::from)?.iter().flat_map(|v| v.to_le_bytes()).collect(),
        ),
        _ => {
            let values = tensor.to_dtype(DType::F32).and_then(|t| t.to_vec1::<f32>()).map_err(ExecutorError::from)?;
            ("<f4", values.iter().flat_map(|v| v.to_le_bytes()).collect())
        }
    };
    let mut header = format!("{{'descr': '{code}', 'fortran_order': False, 'shape': ({}), }}", dims.join(" "));
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend_from_slice(&(header.len() as u16).to_le_bytes());
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(&bytes);
    Ok(out)
}

/// Reads versions 1 to 3 of the format: little-endian, row-major arrays of whole or real numbers.
fn read_npy(path: &Path, bytes: &[u8]) -> Result<Tensor> {
    let fault = |cause: &str| Error::Usage(format!("{}: {cause}", path.display()));
    let (header, data) =
        npy_parts(bytes).ok_or_else(|| fault("is no .npy file, or is cut short; write one with numpy.save"))?;
    let entry = |key: &str| header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
    let (Some(descr), Some(order), Some(shape)) = (entry("descr"), entry("fortran_order"), entry("shape")) else {
        return Err(fault("has no header with descr, fortran_order and shape"));
    };
    let kind = descr.trim_start_matches('\'').split('\'').next().unwrap_or_default();
    let inside = shape.trim_start_matches('(').split(')').next().unwrap_or_default();
    let dims: Option<Vec<usize>> =
        inside.split(',').map(str::trim).filter(|t| !t.is_empty()).map(|t| t.parse().ok()).collect();
    let dims = dims.ok_or_else(|| fault(&format!("has the shape ({inside}), which is not a list of sizes")))?;
    if order.starts_with("True") && dims.len() > 1 {
        return Err(fault("is in Fortran order; save it with numpy.ascontiguousarray"));
    }
    let width = match kind {
        "<i8" | "<f8" => 8,
        "<i4" | "<f4" => 4,
        _ => {
            return Err(fault(&format!(
                "holds elements of type `{kind}`; int64, int32, float32 and float64, little-endian, are read"
            )));
        }
    };
    let need = dims.iter().try_fold(width, |n: usize, &d| n.checked_mul(d));
    if need != Some(data.len()) {
        return Err(fault(&format!("declares the shape {dims:?} of {kind}, and holds {} bytes of data", data.len())));
    }
    let tensor = match kind {
        "<i8" => Tensor::from_vec(numbers(data, i64::from_le_bytes), dims, &Device::Cpu),
        "<i4" => Tensor::from_vec(numbers(data, |b| i64::from(i32::from_le_bytes(b))), dims, &Device::Cpu),
        "<f4" => Tensor::from_vec(numbers(data, f32::from_le_bytes), dims, &Device::Cpu),
        _ => Tensor::from_vec(numbers(data, |b| f64::from_le_bytes(b) as f32), dims, &Device::Cpu),
    };
    Ok(tensor.map_err(ExecutorError::from)?)
}

/// Header text and data.
fn npy_parts(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let rest = bytes.strip_prefix(b"\x93NUMPY")?;
    let (&[major, _], rest) = rest.split_first_chunk::<2>()?;
    let (length, rest) = match major {
        1 => rest.split_first_chunk::<2>().map(|(n, rest)| (usize::from(u16::from_le_bytes(*n)), rest))?,
        2 | 3 => rest.split_first_chunk::<4>().map(|(n, rest)| (u32::from_le_bytes(*n) as usize, rest))?,
        _ => return None,
    };
    let (header, data) = rest.split_at_checked(length)?;
    Some((std::str::from_utf8(header).ok()?, data))
}

fn numbers<T, const N: usize>(data: &[u8], from: impl Fn([u8; N]) -> T) -> Vec<T> {
    data.as_chunks::<N>().0.iter().map(|b| from(*b)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npy_round_trips_and_hostile_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let t = Tensor::from_vec(vec![1f32, -2.5, 3.0, 4.0, 5.0, 6.0], (2, 3), &Device::Cpu).unwrap();
        let ids = Tensor::from_vec(vec![1i64, 2, 3], 3, &Device::Cpu).unwrap();
        let files = write(folder.path(), &[("a/b".into(), t.clone()), ("ids".into(), ids)]).unwrap();
        assert_eq!(read(&files[0], "x").unwrap().to_vec2::<f32>().unwrap(), t.to_vec2::<f32>().unwrap());
        assert_eq!(read(&files[1], "x").unwrap().to_vec1::<i64>().unwrap(), [1, 2, 3]);

        let mut bytes = std::fs::read(&files[0]).unwrap();
        bytes.truncate(bytes.len() - 3);
        std::fs::write(&files[0], &bytes).unwrap();
        assert!(read(&files[0], "x").is_err());
        let huge = String::from_utf8_lossy(&bytes[10..]).replace("(2, 3,)", "(1152921504606846976, 16,)");
        let header = huge.split_inclusive('\n').next().unwrap().as_bytes().to_vec();
        let mut file = bytes[..8].to_vec();
        file.extend_from_slice(&(header.len() as u16).to_le_bytes());
        file.extend_from_slice(&header);
        std::fs::write(&files[0], &file).unwrap();
        let message = read(&files[0], "x").unwrap_err().to_string();
        assert!(message.contains("declares the shape"), "{message}");
    }

    #[test]
    fn numbers_parse_as_ids_or_floats() {
        assert_eq!(parse_numbers("1, 2,3").unwrap().dtype(), DType::I64);
        assert_eq!(parse_numbers("1.5,2").unwrap().dtype(), DType::F32);
        assert!(parse_numbers("a.npy").is_none());
    }
}
