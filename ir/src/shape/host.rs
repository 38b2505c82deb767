//! Calls of functions outside the graph.

use super::{Context, Types, bail};
use crate::ops::MAX_RANK;
use crate::{Dim, Op, Shape, TensorType};

/// Operands of any type; the payload says what comes back. Dimension `i` of -1 is the symbol `?FUNCTION.i`.
pub(crate) fn host_call(op: &Op, _: &[TensorType], _: &mut Context) -> Types {
    let Op::HostCall { function, dtype, shape } = op else { bail!("not HostCall") };
    if dtype.is_encoding() {
        bail!("dtype is {dtype}, an encoding of weights; expected numbers or bool, for example f32");
    }
    if shape.len() > MAX_RANK {
        bail!("shape has {} dimensions, at most {MAX_RANK} are possible", shape.len());
    }
    if let Some(n) = shape.iter().find(|&&n| n < -1) {
        bail!("shape has the size {n}, expected sizes, or -1 where only running tells");
    }
    let dims = shape.iter().enumerate().map(|(i, &n)| match n {
        -1 => Dim::symbol(&symbol(function.as_str(), i)),
        n => Dim::constant(n),
    });
    Ok(vec![TensorType::new(*dtype, Shape::new(dims))])
}

/// `?FUNCTION.i` with `_` for what a symbol cannot have, and a long name cut.
fn symbol(function: &str, i: usize) -> String {
    const KEPT: usize = 40;
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
    let name: String = function.chars().take(KEPT).map(plain).collect();
    format!("?{name}.{i}")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;
    use crate::DType;
    use crate::ops::Text;

    #[test]
    fn the_payload_is_the_type() {
        let op = |function: &str, dtype, shape: &[i64]| Op::HostCall {
            function: Text::new(function).unwrap(),
            dtype,
            shape: shape.to_vec(),
        };
        assert_eq!(good(op("sum", DType::F32, &[]), &[]), "f32[]");
        let made = good(op("tts::split é", DType::I64, &[-1, 3, -1]), &[f("S"), t(DType::Bool, "2")]);
        assert_eq!(made, "i64[?tts__split__.0, 3, ?tts__split__.2]");
        assert!(made[4..made.find(',').unwrap()].parse::<Dim>().is_ok());
        assert!(good(op(&"n".repeat(256), DType::Bool, &[-1]), &[]).len() < 60);
        bad(op("f", DType::Q8, &[1]), &[], "dtype is q8, an encoding");
        bad(op("f", DType::F32, &[2, -2]), &[], "shape has the size -2");
        bad(op("f", DType::F32, &[1; 17]), &[], "shape has 17 dimensions");
    }
}
