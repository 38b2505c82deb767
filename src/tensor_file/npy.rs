//! NumPy's array files, versions 1 to 3: a header that is a Python literal, then the values.

use crate::Result;
use tallow_executor::Tensor;
use tallow_executor::tensors::{Element, encode};

/// Most dimensions that NumPy gives an array.
const MAX_RANK: usize = 64;

/// The file of a tensor, version 1: `|u1`, `<i8`, `<f2` and `<f4` for what Candle calls `U8`, `I64`,
/// `F16` and `F32`; `BF16`, which NumPy lacks, as `<f4`.
pub(super) fn write(tensor: &Tensor) -> Result<Vec<u8>> {
    let dims: Vec<String> = tensor.dims().iter().map(|d| format!("{d},")).collect();
    let (element, bytes) = encode(tensor)?;
    let code = match element {
        Element::U8 => "|u1",
        Element::I64 => "<i8",
        Element::F16 => "<f2",
        Element::F64 => "<f8",
        _ => "<f4",
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

/// The array of a file: truth values, integers and real numbers in either byte order, row-major or
/// in Fortran order.
///
/// # Errors
/// What is no such file, is cut short, or holds other elements; the text follows the file's name.
pub(super) fn read(bytes: &[u8]) -> std::result::Result<Tensor, String> {
    let (header, data) = parts(bytes).ok_or("is no .npy file, or is cut short; write one with numpy.save")?;
    let entry = |key: &str| header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
    let (Some(descr), Some(order), Some(shape)) = (entry("descr"), entry("fortran_order"), entry("shape")) else {
        return Err("has no header with descr, fortran_order and shape; write one with numpy.save".into());
    };
    let inside = shape.trim_start_matches('(').split(')').next().unwrap_or_default();
    let sizes = inside.split(',').map(str::trim).filter(|t| !t.is_empty());
    let dims: Option<Vec<usize>> = sizes.map(|t| t.parse().ok()).collect();
    let dims = dims.ok_or_else(|| format!("has the shape ({inside}), which is not a list of sizes"))?;
    if dims.len() > MAX_RANK {
        return Err(format!("has {} dimensions; at most {MAX_RANK} are read", dims.len()));
    }
    let (element, swap) = element(descr)?;
    let swapped: Vec<u8>;
    let data = match swap {
        true => {
            swapped = data.chunks(element.bytes()).flat_map(|value| value.iter().rev().copied()).collect();
            &swapped
        }
        false => data,
    };
    if order.starts_with("False") {
        return element.decode(data, &dims);
    }
    if !order.starts_with("True") {
        return Err("has a fortran_order that is neither True nor False; write one with numpy.save".into());
    }
    let reversed: Vec<usize> = dims.iter().rev().copied().collect();
    let tensor = element.decode(data, &reversed)?;
    let axes: Vec<usize> = (0..dims.len()).rev().collect();
    tensor.permute(axes).and_then(|t| t.contiguous()).map_err(|e| e.to_string())
}

/// The element type that begins a `descr`, as in `'<f4'`, and whether its bytes are to be swapped.
fn element(descr: &str) -> std::result::Result<(Element, bool), String> {
    let Some(kind) = descr.strip_prefix('\'').and_then(|rest| rest.split('\'').next()) else {
        return Err("holds records with fields; save the array of one field".into());
    };
    let (order, code) = match kind.strip_prefix(['<', '>', '|']) {
        Some(code) => (kind.as_bytes()[0], code),
        None => (b'?', kind),
    };
    let element = match code {
        "b1" => Element::Bool,
        "i1" => Element::I8,
        "i2" => Element::I16,
        "i4" => Element::I32,
        "i8" => Element::I64,
        "u1" => Element::U8,
        "u2" => Element::U16,
        "u4" => Element::U32,
        "u8" => Element::U64,
        "f2" => Element::F16,
        "f4" => Element::F32,
        "f8" => Element::F64,
        _ => {
            let what = match code.as_bytes().first() {
                Some(b'c') => "complex numbers",
                Some(b'U' | b'S' | b'a') => "strings",
                Some(b'O') => "Python objects",
                Some(b'M' | b'm') => "dates or times",
                Some(b'V') => "raw bytes",
                _ => "elements",
            };
            return Err(format!(
                "holds {what} of type `{kind}`; save it as bool, int8 to int64, uint8 to uint64, or float16 to float64"
            ));
        }
    };
    match (order, element.bytes()) {
        (_, 1) | (b'<', _) => Ok((element, false)),
        (b'>', _) => Ok((element, true)),
        _ => Err(format!("holds elements of type `{kind}` without a byte order; write it with numpy.save")),
    }
}

/// Header text and data.
fn parts(bytes: &[u8]) -> Option<(&str, &[u8])> {
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
