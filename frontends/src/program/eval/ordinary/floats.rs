//! Real numbers. All of them are kept with 64 bits; `as f32` rounds.

use super::{Call, Table};
use crate::program::ast::IntType;
use crate::program::eval::{Eval, Evaluator, Flow};
use crate::program::value::Value;

pub(super) const METHODS: Table = &[
    ("abs", 0),
    ("signum", 0),
    ("sqrt", 0),
    ("cbrt", 0),
    ("recip", 0),
    ("exp", 0),
    ("exp2", 0),
    ("exp_m1", 0),
    ("ln", 0),
    ("ln_1p", 0),
    ("log", 1),
    ("log2", 0),
    ("log10", 0),
    ("sin", 0),
    ("cos", 0),
    ("tan", 0),
    ("sin_cos", 0),
    ("asin", 0),
    ("acos", 0),
    ("atan", 0),
    ("atan2", 1),
    ("sinh", 0),
    ("cosh", 0),
    ("tanh", 0),
    ("floor", 0),
    ("ceil", 0),
    ("round", 0),
    ("round_ties_even", 0),
    ("trunc", 0),
    ("fract", 0),
    ("powi", 1),
    ("powf", 1),
    ("hypot", 1),
    ("mul_add", 2),
    ("copysign", 1),
    ("rem_euclid", 1),
    ("div_euclid", 1),
    ("to_degrees", 0),
    ("to_radians", 0),
    ("is_nan", 0),
    ("is_finite", 0),
    ("is_infinite", 0),
    ("is_sign_negative", 0),
    ("is_sign_positive", 0),
    ("to_bits", 0),
];

pub(super) fn method(e: &mut Evaluator<'_>, x: f64, call: &Call<'_>) -> Eval {
    let name = &*call.name.text;
    let one = |f: fn(f64) -> f64| Ok(Value::Float(f(x)));
    match name {
        "abs" => one(f64::abs),
        "signum" => one(f64::signum),
        "sqrt" => one(f64::sqrt),
        "cbrt" => one(f64::cbrt),
        "recip" => one(f64::recip),
        "exp" => one(f64::exp),
        "exp2" => one(f64::exp2),
        "exp_m1" => one(f64::exp_m1),
        "ln" => one(f64::ln),
        "ln_1p" => one(f64::ln_1p),
        "log2" => one(f64::log2),
        "log10" => one(f64::log10),
        "sin" => one(f64::sin),
        "cos" => one(f64::cos),
        "tan" => one(f64::tan),
        "asin" => one(f64::asin),
        "acos" => one(f64::acos),
        "atan" => one(f64::atan),
        "sinh" => one(f64::sinh),
        "cosh" => one(f64::cosh),
        "tanh" => one(f64::tanh),
        "floor" => one(f64::floor),
        "ceil" => one(f64::ceil),
        "round" => one(f64::round),
        "round_ties_even" => one(f64::round_ties_even),
        "trunc" => one(f64::trunc),
        "fract" => one(f64::fract),
        "to_degrees" => one(f64::to_degrees),
        "to_radians" => one(f64::to_radians),
        "is_nan" => Ok(Value::Bool(x.is_nan())),
        "is_finite" => Ok(Value::Bool(x.is_finite())),
        "is_infinite" => Ok(Value::Bool(x.is_infinite())),
        "is_sign_negative" => Ok(Value::Bool(x.is_sign_negative())),
        "is_sign_positive" => Ok(Value::Bool(x.is_sign_positive())),
        "sin_cos" => Ok(Value::tuple(vec![Value::Float(x.sin()), Value::Float(x.cos())])),
        // Numbers do not keep their width; `f64::to_bits(x)` gives 64 of them.
        "to_bits" => Ok(Value::typed((x as f32).to_bits().into(), IntType::U32)),
        "powi" => {
            let n = call.int(e, 0)?;
            Ok(Value::Float(x.powi(n.clamp(i32::MIN.into(), i32::MAX.into()) as i32)))
        }
        _ => {
            let y = call.float(e, 0)?;
            Ok(Value::Float(match name {
                "log" => x.log(y),
                "atan2" => x.atan2(y),
                "powf" => x.powf(y),
                "hypot" => x.hypot(y),
                "copysign" => x.copysign(y),
                "rem_euclid" => x.rem_euclid(y),
                "div_euclid" => x.div_euclid(y),
                "mul_add" => x.mul_add(y, call.float(e, 1)?),
                _ => return Err(Flow::Poisoned),
            }))
        }
    }
}
