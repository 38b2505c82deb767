//! Tensors as files hold them: elements little-endian one after another, and safetensors files.

use crate::error::{ExecutorError, Result};
use candle_core::{DType, Device, Tensor};
use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};
use std::collections::HashMap;

/// The element type of a tensor in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// IEEE double precision.
    F64,
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// Brain float, 16 bits.
    BF16,
    /// Signed 64-bit integer.
    I64,
    /// Signed 32-bit integer.
    I32,
    /// Signed 16-bit integer.
    I16,
    /// Signed byte.
    I8,
    /// Unsigned 64-bit integer.
    U64,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned byte.
    U8,
    /// Truth value: a byte that is 0 or 1.
    Bool,
}

impl Element {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Element::F64 | Element::I64 | Element::U64 => 8,
            Element::F32 | Element::I32 | Element::U32 => 4,
            Element::F16 | Element::BF16 | Element::I16 | Element::U16 => 2,
            Element::I8 | Element::U8 | Element::Bool => 1,
        }
    }

    /// The tensor of shape `dims` whose row-major elements are `bytes`, little-endian. Floats keep
    /// their type, unsigned bytes and truth values become `U8`, all other integers `I64`.
    ///
    /// # Errors
    /// Another number of bytes than the shape takes; a truth value that is neither 0 nor 1; an
    /// integer above the range of `I64`.
    pub fn decode(self, bytes: &[u8], dims: &[usize]) -> std::result::Result<Tensor, String> {
        // An empty tensor may declare sizes whose product overflows in the strides, so zeros count as ones here.
        let room = dims.iter().try_fold(self.bytes(), |n, &d| n.checked_mul(d.max(1)));
        let need = if dims.contains(&0) { room.map(|_| 0) } else { room };
        if need != Some(bytes.len()) {
            let name = format!("{self:?}").to_lowercase();
            return Err(format!("declares the shape {dims:?} of {name}, and holds {} bytes of data", bytes.len()));
        }
        let cpu = &Device::Cpu;
        let tensor = match self {
            Element::F64 => Tensor::from_vec(each(bytes, f64::from_le_bytes), dims, cpu),
            Element::F32 => Tensor::from_vec(each(bytes, f32::from_le_bytes), dims, cpu),
            Element::F16 => Tensor::from_vec(each(bytes, f16::from_le_bytes), dims, cpu),
            Element::BF16 => Tensor::from_vec(each(bytes, bf16::from_le_bytes), dims, cpu),
            Element::I64 => Tensor::from_vec(each(bytes, i64::from_le_bytes), dims, cpu),
            Element::I32 => Tensor::from_vec(each(bytes, |b| i64::from(i32::from_le_bytes(b))), dims, cpu),
            Element::I16 => Tensor::from_vec(each(bytes, |b| i64::from(i16::from_le_bytes(b))), dims, cpu),
            Element::I8 => Tensor::from_vec(each(bytes, |b| i64::from(i8::from_le_bytes(b))), dims, cpu),
            Element::U32 => Tensor::from_vec(each(bytes, |b| i64::from(u32::from_le_bytes(b))), dims, cpu),
            Element::U16 => Tensor::from_vec(each(bytes, |b| i64::from(u16::from_le_bytes(b))), dims, cpu),
            Element::U64 => {
                let values = each(bytes, u64::from_le_bytes);
                if let Some(large) = values.iter().find(|&&v| i64::try_from(v).is_err()) {
                    return Err(format!("holds {large}, above the largest integer that is read, {}", i64::MAX));
                }
                Tensor::from_vec(values.into_iter().map(|v| v as i64).collect(), dims, cpu)
            }
            Element::U8 => Tensor::from_vec(bytes.to_vec(), dims, cpu),
            Element::Bool => {
                if let Some(other) = bytes.iter().find(|&&b| b > 1) {
                    return Err(format!("holds {other} as a truth value; 0 and 1 are truth values"));
                }
                Tensor::from_vec(bytes.to_vec(), dims, cpu)
            }
        };
        tensor.map_err(|e| e.to_string())
    }

    fn of_safetensors(dtype: Dtype) -> Option<Element> {
        match dtype {
            Dtype::F64 => Some(Element::F64),
            Dtype::F32 => Some(Element::F32),
            Dtype::F16 => Some(Element::F16),
            Dtype::BF16 => Some(Element::BF16),
            Dtype::I64 => Some(Element::I64),
            Dtype::I32 => Some(Element::I32),
            Dtype::I16 => Some(Element::I16),
            Dtype::I8 => Some(Element::I8),
            Dtype::U32 => Some(Element::U32),
            Dtype::U16 => Some(Element::U16),
            Dtype::U8 => Some(Element::U8),
            Dtype::BOOL => Some(Element::Bool),
            _ => None,
        }
    }
}

/// The row-major elements of a tensor, little-endian, and their type: unsigned bytes, `I64`, `F16`
/// and `F64` as they are, every other type as `F32`.
///
/// # Errors
/// A type that Candle does not convert to `F32`.
pub fn encode(tensor: &Tensor) -> Result<(Element, Vec<u8>)> {
    let flat = tensor.flatten_all()?;
    Ok(match flat.dtype() {
        DType::U8 => (Element::U8, flat.to_vec1::<u8>()?),
        DType::I64 => (Element::I64, flat.to_vec1::<i64>()?.iter().flat_map(|v| v.to_le_bytes()).collect()),
        DType::F16 => (Element::F16, flat.to_vec1::<f16>()?.iter().flat_map(|v| v.to_le_bytes()).collect()),
        DType::F64 => (Element::F64, flat.to_vec1::<f64>()?.iter().flat_map(|v| v.to_le_bytes()).collect()),
        _ => {
            let values = flat.to_dtype(DType::F32)?.to_vec1::<f32>()?;
            (Element::F32, values.iter().flat_map(|v| v.to_le_bytes()).collect())
        }
    })
}

fn each<T, const N: usize>(bytes: &[u8], from: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|b| from(*b)).collect()
}

/// A safetensors file in memory. Its header is checked as a whole, its tensors are decoded one at a
/// time, so that one of an unknown element type does not stand in the way of the others.
pub struct SafetensorsFile<'a>(SafeTensors<'a>);

impl<'a> SafetensorsFile<'a> {
    /// The file with these bytes.
    ///
    /// # Errors
    /// Bytes that are no such file.
    pub fn parse(bytes: &'a [u8]) -> std::result::Result<Self, String> {
        let file = SafeTensors::deserialize(bytes);
        file.map(SafetensorsFile).map_err(|e| format!("is no safetensors file, or is cut short: {e}"))
    }

    /// Names of the tensors, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.0.names().into_iter().map(str::to_owned).collect();
        names.sort();
        names
    }

    /// The tensor `name`, as [`Element::decode`] gives it.
    ///
    /// # Errors
    /// A tensor that is missing, or whose element type is none of F64, F32, F16, BF16, I64, I32, I16,
    /// I8, U32, U16, U8 and BOOL.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let fault = |cause| ExecutorError::Weight { name: name.into(), cause };
        let view = self.0.tensor(name).map_err(|e| fault(e.to_string()))?;
        let element = Element::of_safetensors(view.dtype()).ok_or_else(|| {
            fault(format!(
                "holds elements of type {:?}; store it as one of \
                 F64, F32, F16, BF16, I64, I32, I16, I8, U32, U16, U8 and BOOL",
                view.dtype()
            ))
        })?;
        element.decode(view.data(), view.shape()).map_err(fault)
    }
}

/// The tensors of a safetensors file in memory, as [`Element::decode`] gives them.
///
/// # Errors
/// Bytes that are no such file, or hold a tensor that [`SafetensorsFile::tensor`] refuses.
pub fn load_safetensors(bytes: &[u8]) -> Result<HashMap<String, Tensor>> {
    let file = SafetensorsFile::parse(bytes).map_err(candle_core::Error::Msg)?;
    let names = file.names().into_iter();
    names.map(|name| file.tensor(&name).map(|tensor| (name, tensor))).collect()
}

/// The bytes of a safetensors file with these tensors, in order of their names.
///
/// # Errors
/// An element type that the format lacks.
pub fn save_safetensors(tensors: &[(String, Tensor)]) -> Result<Vec<u8>> {
    let mut sorted: Vec<_> = tensors.iter().map(|(n, t)| (n.as_str(), t)).collect();
    sorted.sort_by_key(|(n, _)| *n);
    let bytes = safetensors::serialize(sorted, None).map_err(|e| candle_core::Error::Msg(e.to_string()))?;
    Ok(bytes)
}
