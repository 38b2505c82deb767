//! Literals of `.rs` programs.

use super::Reader;
use crate::program::ast::{IntType, Literal};
use crate::program::{Code, Diagnostic, Span};
use syn::{Lit, LitFloat, LitInt};

impl Reader<'_> {
    /// The value of a literal; an error and something harmless where it has none.
    pub(super) fn literal(&mut self, lit: &Lit) -> Literal {
        let negated = std::mem::take(&mut self.negated);
        let span = self.span(lit.span());
        let suffix = lit.suffix();
        if !suffix.is_empty() && !matches!(lit, Lit::Int(_) | Lit::Float(_)) {
            self.bad_literal(span, format!("a literal of this kind has no suffix `{suffix}`"), "delete the suffix");
        }
        match lit {
            Lit::Str(s) => Literal::Str(s.value().into()),
            Lit::ByteStr(s) => Literal::Bytes(s.value().into()),
            Lit::Byte(b) => Literal::Int(b.value().into(), Some(IntType::U8)),
            Lit::Char(c) => Literal::Char(c.value()),
            Lit::Bool(b) => Literal::Bool(b.value()),
            Lit::Int(n) => self.integer(n, negated, span),
            Lit::Float(x) => self.float(x, span),
            Lit::CStr(_) => {
                self.refuse(span, "texts that end with NUL (`c\"…\"`) are", "write `\"…\"`, or `b\"…\"` for bytes");
                Literal::Bool(false)
            }
            _ => {
                self.bad_literal(span, "this literal cannot be read".into(), "write it as a plain number or text");
                Literal::Bool(false)
            }
        }
    }

    fn integer(&mut self, n: &LitInt, negated: bool, span: Span) -> Literal {
        let digits = n.base10_digits();
        if matches!(n.suffix(), "f32" | "f64") {
            return Literal::Float(digits.parse().unwrap_or(f64::NAN));
        }
        let ty = IntType::from_name(n.suffix());
        if ty.is_none() && !n.suffix().is_empty() {
            let message = format!("`{}` is no type of number", n.suffix());
            self.bad_literal(span, message, "suffixes are the integer types, `f32` and `f64`");
            return Literal::Int(0, None);
        }
        let Ok(value) = digits.parse::<i128>() else {
            let cure = format!("the largest whole number here is {}", i128::MAX);
            self.bad_literal(span, "the number is too large".into(), &cure);
            return Literal::Int(0, ty);
        };
        if let Some(ty) = ty
            && let Some((low, high)) = past(value, negated, ty)
        {
            let message = format!("{value} does not fit `{}`", ty.name());
            self.bad_literal(span, message, &format!("`{}` holds {low} to {high}", ty.name()));
        }
        Literal::Int(value, ty)
    }

    fn float(&mut self, x: &LitFloat, span: Span) -> Literal {
        if !matches!(x.suffix(), "" | "f32" | "f64") {
            let message = format!("`{}` is no type of number with a point", x.suffix());
            self.bad_literal(span, message, "such numbers are `f32` or `f64`");
        }
        match x.base10_digits().parse::<f64>() {
            Ok(value) if value.is_finite() => Literal::Float(value),
            _ => {
                self.bad_literal(span, "the number is too large".into(), "infinity is written `f32::INFINITY`");
                Literal::Float(0.0)
            }
        }
    }

    fn bad_literal(&mut self, span: Span, message: String, help: &str) {
        self.error(Diagnostic::new(Code::Literal, span, message).help(help));
    }
}

/// The limits of a type that does not hold a number, which may stand after `-`.
fn past(value: i128, negated: bool, ty: IntType) -> Option<(i128, i128)> {
    let bits = ty.bits();
    let (low, high) = match (ty.is_signed(), bits) {
        (_, 128) => return None,
        (true, _) => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        (false, _) => (0, (1i128 << bits) - 1),
    };
    let most = if negated && ty.is_signed() { -low } else { high };
    (value < low || value > most).then_some((low, high))
}
