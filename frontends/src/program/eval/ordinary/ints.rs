//! Integers. Methods that depend on the width need an integer whose type the program says.

use super::{Call, Table};
use crate::program::ast::{BinaryOp, IntType};
use crate::program::codes::Code;
use crate::program::eval::arith::wrap;
use crate::program::eval::{Eval, Evaluator};
use crate::program::value::{Int, Value};

pub(super) const METHODS: Table = &[
    ("abs", 0),
    ("unsigned_abs", 0),
    ("abs_diff", 1),
    ("signum", 0),
    ("is_positive", 0),
    ("is_negative", 0),
    ("pow", 1),
    ("isqrt", 0),
    ("ilog2", 0),
    ("ilog10", 0),
    ("ilog", 1),
    ("div_euclid", 1),
    ("rem_euclid", 1),
    ("div_ceil", 1),
    ("next_multiple_of", 1),
    ("is_multiple_of", 1),
    ("is_power_of_two", 0),
    ("next_power_of_two", 0),
    ("checked_add", 1),
    ("checked_sub", 1),
    ("checked_mul", 1),
    ("checked_div", 1),
    ("checked_rem", 1),
    ("checked_pow", 1),
    ("checked_neg", 0),
    ("wrapping_add", 1),
    ("wrapping_sub", 1),
    ("wrapping_mul", 1),
    ("wrapping_div", 1),
    ("wrapping_rem", 1),
    ("wrapping_pow", 1),
    ("wrapping_neg", 0),
    ("wrapping_abs", 0),
    ("wrapping_shl", 1),
    ("wrapping_shr", 1),
    ("saturating_add", 1),
    ("saturating_sub", 1),
    ("saturating_mul", 1),
    ("saturating_pow", 1),
    ("overflowing_add", 1),
    ("overflowing_sub", 1),
    ("overflowing_mul", 1),
    ("count_ones", 0),
    ("count_zeros", 0),
    ("leading_zeros", 0),
    ("trailing_zeros", 0),
    ("leading_ones", 0),
    ("trailing_ones", 0),
    ("rotate_left", 1),
    ("rotate_right", 1),
    ("swap_bytes", 0),
    ("reverse_bits", 0),
    ("to_le_bytes", 0),
    ("to_be_bytes", 0),
    ("to_ne_bytes", 0),
];

pub(super) fn method(e: &mut Evaluator<'_>, n: Int, call: &Call<'_>) -> Eval {
    let name = &*call.name.text;
    let (x, ty) = (n.value, n.ty);
    if let Some((how, op)) = name.split_once('_')
        && let "checked" | "wrapping" | "saturating" | "overflowing" = how
    {
        return overflow(e, n, how, op, call);
    }
    let same = |value: Option<i128>, e: &Evaluator<'_>| e.int(value, ty, name, call.span);
    let count = |n: u32| Ok(Value::typed(n.into(), IntType::U32));
    let divisor = || match call.int(e, 0)? {
        0 => call.fail(Code::Arithmetic, format!("`{name}` of {x} by 0 has no result")),
        y => Ok(y),
    };
    match name {
        "abs" => same(x.checked_abs(), e),
        "unsigned_abs" => e.int(x.checked_abs(), ty.map(unsigned), name, call.span),
        "abs_diff" => {
            let diff = x.checked_sub(call.int(e, 0)?).and_then(i128::checked_abs);
            e.int(diff, other_type(n, call).map(unsigned), name, call.span)
        }
        "signum" => same(Some(x.signum()), e),
        "is_positive" => Ok(Value::Bool(x > 0)),
        "is_negative" => Ok(Value::Bool(x < 0)),
        "pow" => {
            let power = exponent(e, call)?;
            same(x.checked_pow(power), e)
        }
        "isqrt" if x < 0 => call.fail(Code::Arithmetic, "the square root of a negative integer"),
        "isqrt" => same(Some(x.isqrt()), e),
        "ilog2" | "ilog10" | "ilog" => {
            let base = match name {
                "ilog2" => 2,
                "ilog10" => 10,
                _ => call.int(e, 0)?,
            };
            if x <= 0 || base < 2 {
                return call.fail(Code::Arithmetic, format!("{x} has no logarithm to the base {base}"));
            }
            count(x.ilog(base))
        }
        "div_euclid" => same(x.checked_div_euclid(divisor()?), e),
        "rem_euclid" => same(x.checked_rem_euclid(divisor()?), e),
        "div_ceil" => {
            let y = divisor()?;
            let up = i128::from(x % y != 0 && (x < 0) == (y < 0));
            same(x.checked_div(y).map(|q| q + up), e)
        }
        "next_multiple_of" => {
            let y = divisor()?;
            let rest = x.checked_rem_euclid(y).unwrap_or(0);
            same(if rest == 0 { Some(x) } else { y.checked_sub(rest).and_then(|up| x.checked_add(up)) }, e)
        }
        "is_multiple_of" => {
            let y = call.int(e, 0)?;
            Ok(Value::Bool(if y == 0 { x == 0 } else { x.checked_rem(y).unwrap_or(0) == 0 }))
        }
        "is_power_of_two" => Ok(Value::Bool(x > 0 && x & (x - 1) == 0)),
        "next_power_of_two" => {
            let up = u128::try_from(x).unwrap_or(0).checked_next_power_of_two().and_then(|n| i128::try_from(n).ok());
            same(up, e)
        }
        "count_ones" if x >= 0 => count(x.count_ones()),
        "trailing_zeros" if x != 0 => count(x.trailing_zeros()),
        "trailing_ones" if x >= 0 => count(x.trailing_ones()),
        _ => {
            let Some(ty) = ty else { return Err(e.no_width(call.at)) };
            let bits = ty.bits();
            let raw = raw(x, ty);
            let top = raw << (128 - bits);
            let back = |raw: u128| Ok(Value::typed(wrap(raw as i128, ty), ty));
            let rotate = |by: u32| if by == 0 { raw } else { raw << by | raw >> (bits - by) };
            match name {
                "count_ones" => count(raw.count_ones()),
                "count_zeros" => count(bits - raw.count_ones()),
                "leading_zeros" => count(top.leading_zeros().min(bits)),
                "leading_ones" => count(top.leading_ones().min(bits)),
                "trailing_zeros" => count(raw.trailing_zeros().min(bits)),
                "trailing_ones" => count(raw.trailing_ones().min(bits)),
                "rotate_left" => back(rotate(exponent(e, call)? % bits)),
                "rotate_right" => back(rotate((bits - exponent(e, call)? % bits) % bits)),
                "swap_bytes" => back(raw.swap_bytes() >> (128 - bits)),
                "reverse_bits" => back(raw.reverse_bits() >> (128 - bits)),
                _ => {
                    let mut bytes = raw.to_le_bytes()[..(bits / 8) as usize].to_vec();
                    if name == "to_be_bytes" {
                        bytes.reverse();
                    }
                    Ok(Value::list(bytes.into_iter().map(|b| Value::typed(b.into(), IntType::U8)).collect()))
                }
            }
        }
    }
}

/// `checked_add` and its kin.
fn overflow(e: &mut Evaluator<'_>, n: Int, how: &str, op: &str, call: &Call<'_>) -> Eval {
    let x = n.value;
    let ty = if let "pow" | "shl" | "shr" | "neg" | "abs" = op { n.ty } else { other_type(n, call) };
    let y = if let "neg" | "abs" = op { 0 } else { call.int(e, 0)? };
    let power = || u32::try_from(y).unwrap_or(u32::MAX);
    if y == 0
        && let "div" | "rem" = op
    {
        return match how {
            "checked" => Ok(Value::none()),
            _ => call.fail(Code::Arithmetic, format!("`{}` of {x} by 0 has no result", call.name.text)),
        };
    }
    let exact = match op {
        "add" => x.checked_add(y),
        "sub" => x.checked_sub(y),
        "mul" => x.checked_mul(y),
        "div" => x.checked_div(y),
        "rem" => x.checked_rem(y),
        "neg" => x.checked_neg(),
        "abs" => x.checked_abs(),
        "pow" => x.checked_pow(power()),
        _ => None,
    };
    if how == "checked" {
        let fits = exact.filter(|&value| ty.is_none_or(|ty| wrap(value, ty) == value));
        return Ok(fits.map_or(Value::none(), |value| Value::some(Value::Int(Int { value, ty }))));
    }
    let Some(ty) = ty else { return Err(e.no_width(call.at)) };
    if how == "saturating" {
        let (least, most) = range(ty);
        let value = match exact {
            Some(value) => value.clamp(least, most),
            // Past 128 bits: the sign tells the end.
            None if op == "mul" && (x < 0) != (y < 0) => least,
            None if op == "pow" && x < 0 && y % 2 != 0 => least,
            None if op == "add" && x < 0 || op == "sub" && x < y => least,
            None => most,
        };
        return Ok(Value::typed(value, ty));
    }
    // The low bits are right whatever lies above them.
    let value = match op {
        "add" => x.wrapping_add(y),
        "sub" => x.wrapping_sub(y),
        "mul" => x.wrapping_mul(y),
        "div" => x.wrapping_div(y),
        "rem" => x.wrapping_rem(y),
        "neg" => x.wrapping_neg(),
        "abs" => x.wrapping_abs(),
        "pow" => x.wrapping_pow(power()),
        "shl" => x.wrapping_shl((y & i128::from(ty.bits() - 1)) as u32),
        _ => x.wrapping_shr((y & i128::from(ty.bits() - 1)) as u32),
    };
    let wrapped = Value::typed(wrap(value, ty), ty);
    Ok(match how {
        "overflowing" => Value::tuple(vec![wrapped, Value::Bool(exact.is_none_or(|v| wrap(v, ty) != v))]),
        _ => wrapped,
    })
}

/// Sizes that are known only when running.
pub(super) fn size_method(e: &mut Evaluator<'_>, size: &Value, call: &Call<'_>) -> Eval {
    match &*call.name.text {
        "div_ceil" => {
            let by = call.value(e, 0);
            let up = e.binary(BinaryOp::Sub, by.clone(), Value::int(1), call.span)?;
            let sum = e.binary(BinaryOp::Add, size.clone(), up, call.span)?;
            e.binary(BinaryOp::Div, sum, by, call.span)
        }
        name => {
            let message = format!("`{name}` of a size that is known only when running");
            call.fail(Code::RunTimeSize, message)
        }
    }
}

/// The type of the receiver, else that of the argument.
fn other_type(n: Int, call: &Call<'_>) -> Option<IntType> {
    n.ty.or(match call.args.values.first() {
        Some(Value::Int(other)) => other.ty,
        _ => None,
    })
}

fn exponent(e: &Evaluator<'_>, call: &Call<'_>) -> Eval<u32> {
    let n = call.int(e, 0)?;
    match u32::try_from(n) {
        Ok(n) => Ok(n),
        Err(_) => call.fail(Code::Type, format!("expected a `u32`, found {n}")),
    }
}

/// The bits of an integer.
fn raw(x: i128, ty: IntType) -> u128 {
    match ty.bits() {
        128 => x as u128,
        bits => x as u128 & ((1u128 << bits) - 1),
    }
}

fn unsigned(ty: IntType) -> IntType {
    match ty {
        IntType::I8 => IntType::U8,
        IntType::I16 => IntType::U16,
        IntType::I32 => IntType::U32,
        IntType::I64 => IntType::U64,
        IntType::I128 => IntType::U128,
        IntType::Isize => IntType::Usize,
        other => other,
    }
}

/// The least and the most of a type; those of `u128` as far as they are kept.
pub(super) fn range(ty: IntType) -> (i128, i128) {
    match (ty.is_signed(), ty.bits()) {
        (true, 128) => (i128::MIN, i128::MAX),
        (false, 128) => (0, i128::MAX),
        (true, bits) => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        (false, bits) => (0, (1i128 << bits) - 1),
    }
}
