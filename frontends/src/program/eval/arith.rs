//! Operators and casts.

use super::{Eval, Evaluator, Flow};
use crate::program::ast::{BinaryOp, ExprId, IntType, Span, Type, TypeKind, UnaryOp};
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::host::Applied;
use crate::program::value::{Entries, Int, Value};
use std::cmp::Ordering;
use std::sync::Arc;
use tallow_ir::Dim;

/// Most lists and tuples inside each other that are compared.
const MOST_NESTED: usize = 128;

impl Evaluator<'_> {
    pub(super) fn binary_expr(&mut self, op: BinaryOp, left: ExprId, right: ExprId, span: Span) -> Eval {
        if let BinaryOp::And | BinaryOp::Or = op {
            return self.connective(op, left, right, span);
        }
        let mut values = self.eval_all(&[left, right])?.into_iter();
        match (values.next(), values.next()) {
            (Some(a), Some(b)) => self.binary(op, a, b, span),
            _ => Err(Flow::Poisoned),
        }
    }

    fn connective(&mut self, op: BinaryOp, left: ExprId, right: ExprId, span: Span) -> Eval {
        let first = self.eval(left)?;
        let first = self.deref(first);
        match (&first, op) {
            (Value::Bool(false), BinaryOp::And) | (Value::Bool(true), BinaryOp::Or) => return Ok(first),
            (Value::Bool(_) | Value::Tensor(_) | Value::Stop(_), _) => {}
            (Value::Host(_), _) => {
                let second = self.eval(right)?;
                return self.apply_host(Applied::Binary(op), vec![first, second], span);
            }
            _ => return Err(self.mismatch(&first, "a truth value", self.span(left))),
        }
        let second = self.eval(right)?;
        let second = self.deref(second);
        match (first, second) {
            (Value::Bool(_), second @ (Value::Bool(_) | Value::Host(_) | Value::Stop(_) | Value::Tensor(_))) => {
                Ok(second)
            }
            (first @ Value::Stop(_), second) | (first, second @ Value::Stop(_)) => {
                self.join_stops(op, first, second, span)
            }
            (first @ Value::Tensor(_), second) | (first, second @ Value::Tensor(_)) => {
                self.tensor_logical(op, &first, &second, span)
            }
            (_, second) => Err(self.mismatch(&second, "a truth value", self.span(right))),
        }
    }

    pub(crate) fn unary(&mut self, op: UnaryOp, value: Value, span: Span) -> Eval {
        let value = self.deref(value);
        match (op, &value) {
            (UnaryOp::Deref, _) => Ok(value),
            (UnaryOp::Neg, Value::Int(n)) => self.int(n.value.checked_neg(), n.ty, "-", span),
            (UnaryOp::Neg, Value::Float(x)) => Ok(Value::Float(-x)),
            (UnaryOp::Neg, Value::Size(dim)) => self.dim(Dim::constant(0).sub(dim), span),
            (UnaryOp::Not, Value::Bool(b)) => Ok(Value::Bool(!b)),
            (UnaryOp::Not, Value::Stop(stop)) => Ok(Value::Stop(stop.clone().negated())),
            (UnaryOp::Not, Value::Int(n)) => match n.ty {
                Some(ty) => Ok(Value::typed(wrap(!n.value, ty), ty)),
                None => Err(self.no_width(span)),
            },
            (_, Value::Tensor(_) | Value::Input(_)) => self.tensor_unary(op, &value, span),
            (_, Value::Host(_)) => self.apply_host(Applied::Unary(op), vec![value], span),
            _ => Err(self.mismatch(&value, "a number or truth value", span)),
        }
    }

    pub(crate) fn binary(&mut self, op: BinaryOp, a: Value, b: Value, span: Span) -> Eval {
        let (a, b) = (self.deref(a), self.deref(b));
        let a = default_like(a, &b);
        let b = default_like(b, &a);
        if let (Value::Host(_), _) | (_, Value::Host(_)) = (&a, &b) {
            if self.is_tensor(&a) || self.is_tensor(&b) {
                return self.tensor_binary(op, &a, &b, span);
            }
            return self.apply_host(Applied::Binary(op), vec![a, b], span);
        }
        match (&a, &b) {
            (Value::Int(x), Value::Int(y)) => self.int_binary(op, *x, *y, span),
            (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
                self.float_binary(op, number(&a), number(&b), span)
            }
            (Value::Sampled(_) | Value::Stop(_) | Value::Counter(_), _)
            | (_, Value::Sampled(_) | Value::Stop(_) | Value::Counter(_)) => self.token_binary(op, &a, &b, span),
            (
                Value::Str(_) | Value::Char(_) | Value::Unit | Value::Struct(_) | Value::Map(_) | Value::Closure(_),
                x,
            )
            | (
                x,
                Value::Str(_) | Value::Char(_) | Value::Unit | Value::Struct(_) | Value::Map(_) | Value::Closure(_),
            ) if self.is_tensor(x) => Err(self.no_operator(op, &a, &b, span)),
            _ if self.is_tensor(&a) || self.is_tensor(&b) => self.tensor_binary(op, &a, &b, span),
            (Value::Size(_) | Value::Int(_), Value::Size(_) | Value::Int(_)) => self.size_binary(op, &a, &b, span),
            (Value::Bool(x), Value::Bool(y)) if !is_comparison(op) => match op {
                BinaryOp::BitAnd => Ok(Value::Bool(x & y)),
                BinaryOp::BitOr => Ok(Value::Bool(x | y)),
                BinaryOp::BitXor => Ok(Value::Bool(x ^ y)),
                _ => Err(self.no_operator(op, &a, &b, span)),
            },
            (Value::Str(x), Value::Str(y)) if op == BinaryOp::Add => {
                self.make(x.len() + y.len(), span)?;
                Ok(Value::str(format!("{x}{y}")))
            }
            _ if is_comparison(op) => self.compare(op, &a, &b, span),
            _ => Err(self.no_operator(op, &a, &b, span)),
        }
    }

    fn no_operator(&self, op: BinaryOp, a: &Value, b: &Value, span: Span) -> Flow {
        for value in [a, b] {
            if let Value::Missing(_) | Value::Poison = value {
                return self.mismatch(value, "a number", span);
            }
        }
        let message = format!("`{}` does not work on {} and {}", op.symbol(), a.kind(), b.kind());
        let d = Diagnostic::new(Code::Type, span, message);
        match (a, b, op) {
            (Value::List(_), Value::List(_), BinaryOp::Add) => d.help("join lists with `concat` or `extend`").into(),
            (Value::Str(_), _, BinaryOp::Add) => d.help("write values into a text with `format!`").into(),
            _ => d.into(),
        }
    }

    fn compare(&mut self, op: BinaryOp, a: &Value, b: &Value, span: Span) -> Eval {
        Ok(Value::Bool(match op {
            BinaryOp::Eq => self.equal(a, b, span)?,
            BinaryOp::Ne => !self.equal(a, b, span)?,
            _ => {
                let order = self.order_of(a, b, span)?;
                match op {
                    BinaryOp::Lt => order == Some(Ordering::Less),
                    BinaryOp::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    BinaryOp::Gt => order == Some(Ordering::Greater),
                    _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                }
            }
        }))
    }

    /// Whether two known values are equal.
    pub(crate) fn equal(&self, a: &Value, b: &Value, span: Span) -> Eval<bool> {
        self.equal_at(a, b, span, 0)
    }

    fn equal_at(&self, a: &Value, b: &Value, span: Span, depth: usize) -> Eval<bool> {
        if depth > MOST_NESTED {
            return Err(Diagnostic::new(Code::Nesting, span, "these values are nested too deeply to compare").into());
        }
        self.look(1 + text_len(a) / 16, span)?;
        let all = |a: &[Value], b: &[Value]| -> Eval<bool> {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (x, y) in a.iter().zip(b) {
                if !self.equal_at(x, y, span, depth + 1)? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        Ok(match (a, b) {
            (Value::Ref(place), _) => self.equal_at(&place.load(), b, span, depth + 1)?,
            (_, Value::Ref(place)) => self.equal_at(a, &place.load(), span, depth + 1)?,
            (Value::Default, other) if !matches!(other, Value::Default) => {
                self.equal_at(&default_like(Value::Default, other), other, span, depth + 1)?
            }
            (other, Value::Default) if !matches!(other, Value::Default) => {
                self.equal_at(other, &default_like(Value::Default, other), span, depth + 1)?
            }
            (Value::Unit, Value::Unit) => true,
            (Value::Bool(x), Value::Bool(y)) => x == y,
            (Value::Int(x), Value::Int(y)) => x.value == y.value,
            (Value::Range(x), Value::Range(y)) => {
                x.start.value == y.start.value && x.end.map(|e| e.value) == y.end.map(|e| e.value)
            }
            (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => number(a) == number(b),
            (Value::Char(x), Value::Char(y)) => x == y,
            (Value::Str(x), Value::Str(y)) => x == y,
            (Value::Size(x), Value::Size(y)) if x == y => true,
            (Value::List(x), Value::List(y)) | (Value::Tuple(x), Value::Tuple(y)) => all(x, y)?,
            (Value::Option(None) | Value::Missing(_), Value::Option(None) | Value::Missing(_)) => true,
            (Value::Option(Some(x)), Value::Option(Some(y))) => all(x, y)?,
            (Value::Option(_), Value::Option(_)) => false,
            (Value::Map(x), Value::Map(y)) => {
                if x.len() != y.len() {
                    return Ok(false);
                }
                for (key, (_, value)) in x.iter() {
                    match y.get(key) {
                        Some((_, other)) if self.equal_at(value, other, span, depth + 1)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            (Value::Struct(x), Value::Struct(y)) => {
                if x.name != y.name || x.variant != y.variant {
                    return Ok(false);
                }
                for ((_, v), (_, w)) in x.fields.iter().zip(&y.fields) {
                    if !self.equal_at(v, w, span, depth + 1)? {
                        return Ok(false);
                    }
                }
                true
            }
            // A config key that is there stands for `Some` of it.
            (Value::Option(Some(x)), y) if !matches!(y, Value::Missing(_)) => {
                self.equal_at(&x[0], y, span, depth + 1)?
            }
            (x, Value::Option(Some(y))) if !matches!(x, Value::Missing(_)) => {
                self.equal_at(x, &y[0], span, depth + 1)?
            }
            (Value::Option(None), _) | (_, Value::Option(None)) => false,
            (Value::Missing(_) | Value::Poison, other) | (other, Value::Missing(_) | Value::Poison) => {
                let missing = if let Value::Missing(_) | Value::Poison = a { a } else { b };
                return Err(self.mismatch(missing, other.kind(), span));
            }
            _ => {
                let d = Diagnostic::new(Code::Type, span, format!("{} cannot be compared with {}", a.kind(), b.kind()));
                return Err(d.into());
            }
        })
    }

    /// The order of two known values; `None` with NaN.
    pub(crate) fn order_of(&self, a: &Value, b: &Value, span: Span) -> Eval<Option<Ordering>> {
        self.order_at(a, b, span, 0)
    }

    fn order_at(&self, a: &Value, b: &Value, span: Span, depth: usize) -> Eval<Option<Ordering>> {
        if depth > MOST_NESTED {
            return Err(Diagnostic::new(Code::Nesting, span, "these values are nested too deeply to compare").into());
        }
        self.look(1 + text_len(a) / 16, span)?;
        Ok(match (a, b) {
            (Value::Ref(place), _) => self.order_at(&place.load(), b, span, depth + 1)?,
            (_, Value::Ref(place)) => self.order_at(a, &place.load(), span, depth + 1)?,
            (Value::Int(x), Value::Int(y)) => Some(x.value.cmp(&y.value)),
            (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => number(a).partial_cmp(&number(b)),
            (Value::Char(x), Value::Char(y)) => Some(x.cmp(y)),
            (Value::Str(x), Value::Str(y)) => Some(x.cmp(y)),
            (Value::Bool(x), Value::Bool(y)) => Some(x.cmp(y)),
            (Value::List(x), Value::List(y)) | (Value::Tuple(x), Value::Tuple(y)) => {
                for (v, w) in x.iter().zip(y.iter()) {
                    match self.order_at(v, w, span, depth + 1)? {
                        Some(Ordering::Equal) => {}
                        other => return Ok(other),
                    }
                }
                Some(x.len().cmp(&y.len()))
            }
            (Value::Struct(x), Value::Struct(y)) if x.name == y.name => {
                if &*x.name == "Reverse" {
                    return self.order_at(&y.fields[0].1, &x.fields[0].1, span, depth + 1);
                }
                let place = |variant: &Option<Arc<str>>| {
                    let en = self.tree.enums.iter().find(|e| e.name.text == x.name)?;
                    en.variants.iter().position(|v| Some(&v.name.text) == variant.as_ref())
                };
                match place(&x.variant).cmp(&place(&y.variant)) {
                    Ordering::Equal => {}
                    other => return Ok(Some(other)),
                }
                for ((_, v), (_, w)) in x.fields.iter().zip(&y.fields) {
                    match self.order_at(v, w, span, depth + 1)? {
                        Some(Ordering::Equal) => {}
                        other => return Ok(other),
                    }
                }
                Some(Ordering::Equal)
            }
            (Value::Option(None), Value::Option(None)) => Some(Ordering::Equal),
            (Value::Option(None), Value::Option(Some(_))) => Some(Ordering::Less),
            (Value::Option(Some(_)), Value::Option(None)) => Some(Ordering::Greater),
            (Value::Option(Some(x)), Value::Option(Some(y))) => self.order_at(&x[0], &y[0], span, depth + 1)?,
            (Value::Missing(_) | Value::Poison, other) | (other, Value::Missing(_) | Value::Poison) => {
                let missing = if let Value::Missing(_) | Value::Poison = a { a } else { b };
                return Err(self.mismatch(missing, other.kind(), span));
            }
            (known_later @ (Value::Host(_) | Value::Size(_) | Value::Sampled(_) | Value::Counter(_)), _)
            | (_, known_later @ (Value::Host(_) | Value::Size(_) | Value::Sampled(_) | Value::Counter(_))) => {
                return Err(self.mismatch(known_later, "a known value", span));
            }
            _ => {
                let d = Diagnostic::new(Code::Type, span, format!("{} and {} have no order", a.kind(), b.kind()));
                return Err(d.into());
            }
        })
    }

    fn int_binary(&mut self, op: BinaryOp, a: Int, b: Int, span: Span) -> Eval {
        let (x, y) = (a.value, b.value);
        if is_comparison(op) {
            return self.compare(op, &Value::Int(a), &Value::Int(b), span);
        }
        let ty = match op {
            BinaryOp::Shl | BinaryOp::Shr => a.ty,
            _ => a.ty.or(b.ty),
        };
        let by_zero = || {
            Flow::from(
                Diagnostic::new(Code::Arithmetic, span, format!("{x} {} 0 has no result", op.symbol()))
                    .label("division by zero"),
            )
        };
        let result = match op {
            BinaryOp::Add => x.checked_add(y),
            BinaryOp::Sub => x.checked_sub(y),
            BinaryOp::Mul => x.checked_mul(y),
            BinaryOp::Div if y == 0 => return Err(by_zero()),
            BinaryOp::Rem if y == 0 => return Err(by_zero()),
            BinaryOp::Div => x.checked_div(y),
            BinaryOp::Rem => x.checked_rem(y),
            BinaryOp::BitAnd => Some(x & y),
            BinaryOp::BitOr => Some(x | y),
            BinaryOp::BitXor => Some(x ^ y),
            BinaryOp::Shl | BinaryOp::Shr => {
                let bits = ty.map_or(64, IntType::bits);
                let Some(by) = u32::try_from(y).ok().filter(|by| *by < bits) else {
                    let message = format!("a shift by {y} of an integer of {bits} bits");
                    return Err(Diagnostic::new(Code::Arithmetic, span, message).into());
                };
                match (op, ty) {
                    (BinaryOp::Shr, _) => Some(x >> by),
                    (_, Some(ty)) if ty.bits() < 128 => Some(wrap(x << by, ty)),
                    _ => x.checked_mul(1i128.checked_shl(by).unwrap_or(0)),
                }
            }
            _ => None,
        };
        self.int(result, ty, op.symbol(), span)
    }

    /// An integer in its type's range.
    pub(crate) fn int(&self, value: Option<i128>, ty: Option<IntType>, what: &str, span: Span) -> Eval {
        let Some(value) = value else {
            let d = Diagnostic::new(Code::Arithmetic, span, format!("the result of `{what}` is past 128 bits"));
            return Err(d.into());
        };
        if let Some(ty) = ty
            && wrap(value, ty) != value
        {
            let message = format!("{value} is past the range of `{}`", ty.name());
            let d = Diagnostic::new(Code::Arithmetic, span, message).label("overflow");
            return Err(d.help("use the `wrapping_…` methods where overflow is meant, or a wider type").into());
        }
        Ok(Value::Int(Int { value, ty }))
    }

    /// An error where the width of an integer matters and is not known.
    pub(crate) fn no_width(&self, span: Span) -> Flow {
        Diagnostic::new(Code::IntWidth, span, "the width of this integer is not known")
            .label("how many bits?")
            .help("write it as a suffix (`5u32`), with `as u32`, or as the type of the variable")
            .into()
    }

    fn float_binary(&mut self, op: BinaryOp, a: f64, b: f64, span: Span) -> Eval {
        Ok(Value::Float(match op {
            BinaryOp::Add => a + b,
            BinaryOp::Sub => a - b,
            BinaryOp::Mul => a * b,
            BinaryOp::Div => a / b,
            BinaryOp::Rem => a % b,
            _ if is_comparison(op) => return self.compare(op, &Value::Float(a), &Value::Float(b), span),
            _ => return Err(self.no_operator(op, &Value::Float(a), &Value::Float(b), span)),
        }))
    }

    fn size_binary(&mut self, op: BinaryOp, a: &Value, b: &Value, span: Span) -> Eval {
        let (x, y) = (self.to_dim(a, span)?, self.to_dim(b, span)?);
        match op {
            BinaryOp::Add => self.dim(x.add(&y), span),
            BinaryOp::Sub => self.dim(x.sub(&y), span),
            BinaryOp::Mul => self.dim(x.mul(&y), span),
            BinaryOp::Div => {
                let exact = x.div_exact(&y);
                let floor = || y.as_const().filter(|n| *n > 0).and_then(|n| x.div_floor(n));
                self.dim(exact.or_else(floor), span)
            }
            BinaryOp::Eq if x == y => Ok(Value::Bool(true)),
            BinaryOp::Ne if x == y => Ok(Value::Bool(false)),
            BinaryOp::Ge | BinaryOp::Le if x == y => Ok(Value::Bool(true)),
            _ => {
                let message = format!("`{x} {} {y}` is known only when running", op.symbol());
                Err(Diagnostic::new(Code::RunTimeSize, span, message).into())
            }
        }
    }

    fn dim(&self, dim: Option<Dim>, span: Span) -> Eval {
        match dim {
            Some(dim) => Ok(Value::size(&dim)),
            None => Err(Diagnostic::new(Code::RunTimeSize, span, "sizes cannot express this result").into()),
        }
    }

    /// A known or symbolic size.
    pub(crate) fn to_dim(&self, value: &Value, span: Span) -> Eval<Dim> {
        match value {
            Value::Size(dim) => Ok(dim.clone()),
            Value::Ref(place) => self.to_dim(&place.load(), span),
            other => {
                let n = self.known_int(other, span)?.value;
                i64::try_from(n)
                    .map(Dim::constant)
                    .map_err(|_| Diagnostic::new(Code::Arithmetic, span, format!("{n} is no size")).into())
            }
        }
    }

    /// `value as ty`.
    pub(crate) fn cast(&mut self, value: Value, ty: &Type, span: Span) -> Eval {
        let value = self.deref(value);
        let name = ty.name().unwrap_or("_");
        if let Value::Host(_) = value {
            return self.apply_host(Applied::Cast(ty.clone()), vec![value], span);
        }
        if let Some(int) = IntType::from_name(name) {
            return match &value {
                Value::Int(n) => Ok(Value::typed(wrap(n.value, int), int)),
                Value::Float(x) => Ok(Value::typed(saturate(*x, int), int)),
                Value::Char(c) => Ok(Value::typed(wrap(u32::from(*c).into(), int), int)),
                Value::Bool(b) => Ok(Value::typed((*b).into(), int)),
                Value::Size(_) | Value::Sampled(_) | Value::Counter(_) => Ok(value),
                other => Err(self.mismatch(other, "a number", span)),
            };
        }
        match (name, &value) {
            ("f32", Value::Int(_) | Value::Float(_)) => Ok(Value::Float(f64::from(number(&value) as f32))),
            ("f64", Value::Int(_) | Value::Float(_)) => Ok(Value::Float(number(&value))),
            ("char", Value::Int(n)) => match u32::try_from(n.value).ok().and_then(char::from_u32) {
                Some(c) => Ok(Value::Char(c)),
                None => Err(self.mismatch(&value, "the number of a character", span)),
            },
            ("char", Value::Char(_)) => Ok(value),
            ("_", _) if matches!(ty.kind, TypeKind::Inferred) => Ok(value),
            ("f32" | "f64" | "char", other) => Err(self.mismatch(other, "a number", span)),
            _ => {
                let d = Diagnostic::new(Code::Type, ty.span, format!("values are not cast to `{name}`"));
                Err(d.help("casts go to integers, `f32`, `f64` and `char`").into())
            }
        }
    }

    /// `value` where a type is written: integers take its width, numbers become real ones, and a list what `collect`
    /// makes of its elements.
    pub(crate) fn as_type(&mut self, value: Value, ty: &Type, span: Span) -> Eval {
        match (&ty.kind, &value) {
            (TypeKind::Inferred | TypeKind::Opaque, _) => Ok(value),
            (_, Value::Default) => self.default_of(ty, span, 0),
            (TypeKind::Named(name, _), Value::Int(n)) => match (IntType::from_name(name), &**name) {
                (Some(int), _) if n.ty.is_none() => self.int(Some(n.value), Some(int), "a literal", span),
                (None, "f32" | "f64") if n.ty.is_none() => Ok(Value::Float(n.value as f64)),
                _ => Ok(value),
            },
            (TypeKind::Named(name, args), Value::List(items)) => match (&**name, args.as_slice()) {
                ("Vec" | "VecDeque", [of]) => self.each_as_type(value.clone(), items, of, span),
                ("Box" | "Rc" | "Arc", [of]) => self.as_type(value, of, span),
                _ => self.collected_as(&items.clone(), ty, span),
            },
            (TypeKind::Named(name, args), Value::Option(Some(inner))) if matches!(&**name, "Option" | "Result") => {
                match args.first() {
                    Some(of) => Ok(Value::some(self.as_type(inner[0].clone(), of, span)?)),
                    None => Ok(value),
                }
            }
            (TypeKind::Named(name, args), Value::Map(map)) => {
                let (key, of) = match args.as_slice() {
                    [key, of] => (key, Some(of)),
                    [key] => (key, None),
                    _ => return Ok(value),
                };
                let sorted = matches!(&**name, "BTreeMap" | "BTreeSet");
                let open = |v: &Value| matches!(v, Value::Int(Int { ty: None, .. }) | Value::List(_) | Value::Tuple(_));
                if sorted == map.sorted && !map.values().any(|(k, v)| open(k) || open(v)) {
                    return Ok(value);
                }
                let mut out = Entries::new(sorted, map.set);
                for (hashed, (shown, value)) in map.iter() {
                    let shown = self.as_type(shown.clone(), key, span)?;
                    let value = match of {
                        Some(of) => self.as_type(value.clone(), of, span)?,
                        None => value.clone(),
                    };
                    out.put(hashed.clone(), shown, value);
                }
                Ok(Value::Map(Arc::new(out)))
            }
            (TypeKind::Slice(of), Value::List(items)) => self.each_as_type(value.clone(), items, of, span),
            (TypeKind::Array(of, n), Value::Iter(iter)) => {
                let n = self.eval(*n)?;
                let n = self.known_size(&n, span)?;
                let mut out = Vec::new();
                while out.len() < n
                    && let Some(item) = self.next(iter, span)?
                {
                    self.make(1, span)?;
                    out.push(item);
                }
                {
                    let list = Value::list(out.clone());
                    self.each_as_type(list, &out, of, span)
                }
            }
            (TypeKind::Array(of, _), Value::List(items)) => self.each_as_type(value.clone(), items, of, span),
            (TypeKind::Tuple(types), Value::Tuple(items)) if types.len() == items.len() => {
                let mut out = Vec::with_capacity(items.len());
                for (item, ty) in items.iter().zip(types) {
                    out.push(self.as_type(item.clone(), ty, span)?);
                }
                Ok(Value::tuple(out))
            }
            (TypeKind::Reference { of, .. }, _) if !matches!(value, Value::Ref(_)) => self.as_type(value, of, span),
            _ => Ok(value),
        }
    }

    fn each_as_type(&mut self, list: Value, items: &[Value], ty: &Type, span: Span) -> Eval {
        let changes = |v: &Value| {
            let inside =
                matches!(v, Value::List(_) | Value::Tuple(_) | Value::Map(_) | Value::Option(Some(_)) | Value::Default);
            inside || matches!(v, Value::Int(Int { ty: None, .. }))
        };
        self.looked(items.len());
        if !items.iter().any(changes) || matches!(ty.kind, TypeKind::Inferred) {
            return Ok(list);
        }
        let mut out = Vec::with_capacity(items.len());
        for item in items {
            out.push(self.as_type(item.clone(), ty, span)?);
        }
        Ok(Value::list(out))
    }
}

/// A default without a type, beside a value that tells it.
fn default_like(value: Value, other: &Value) -> Value {
    match (value, other) {
        (Value::Default, Value::Int(n)) => Value::Int(Int { value: 0, ty: n.ty }),
        (Value::Default, Value::Float(_)) => Value::Float(0.0),
        (Value::Default, Value::Str(_)) => Value::str(""),
        (Value::Default, Value::Bool(_)) => Value::Bool(false),
        (Value::Default, Value::List(_)) => Value::list(Vec::new()),
        (value, _) => value,
    }
}

/// The bytes of a text.
fn text_len(value: &Value) -> usize {
    match value {
        Value::Str(text) => text.len(),
        _ => 0,
    }
}

pub(crate) fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp::*;
    matches!(op, Eq | Ne | Lt | Le | Gt | Ge)
}

/// A number as a real one; NaN for what is none.
pub(crate) fn number(value: &Value) -> f64 {
    match value {
        Value::Int(n) => n.value as f64,
        Value::Float(x) => *x,
        _ => f64::NAN,
    }
}

/// The low bits of an integer, read in a type.
pub(crate) fn wrap(value: i128, ty: IntType) -> i128 {
    let bits = ty.bits();
    if bits >= 128 {
        return value;
    }
    let low = value & ((1i128 << bits) - 1);
    if ty.is_signed() && low >> (bits - 1) & 1 == 1 { low - (1i128 << bits) } else { low }
}

/// A real number cut towards zero into a type, as `as` does.
fn saturate(x: f64, ty: IntType) -> i128 {
    if x.is_nan() {
        return 0;
    }
    let bits = ty.bits();
    let (least, most) = match ty.is_signed() {
        true if bits >= 128 => (i128::MIN, i128::MAX),
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false if bits >= 128 => (0, i128::MAX),
        false => (0, (1i128 << bits) - 1),
    };
    (x as i128).clamp(least, most)
}
