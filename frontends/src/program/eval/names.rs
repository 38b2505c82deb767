//! What paths mean.

use super::{Eval, Evaluator, Flow};
use crate::nearest::nearest;
use crate::program::ast::{IntType, Language, Name, Span, Type};
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::value::{StructValue, TriValue, Value};
use std::sync::Arc;

/// Names for a message: at most twelve, then how many more there are.
pub(crate) fn listed(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(12).map(|n| format!("`{n}`")).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

impl<'t> Evaluator<'t> {
    pub(super) fn path(&mut self, path: &[Name], span: Span) -> Eval {
        match path {
            [] => Err(Diagnostic::new(Code::Syntax, span, "an empty path").into()),
            [name] => self.name(name),
            [.., of, name] => self.associated(of, name, span),
        }
    }

    fn name(&mut self, name: &Name) -> Eval {
        if let Some(cell) = self.lookup(&name.text) {
            return match cell.get() {
                Value::Host(id) if self.run.is_some() => self.resolve(id),
                Value::Ref(place) => match place.load() {
                    Value::Poison => Err(Flow::Poisoned),
                    _ => Ok(Value::Ref(place)),
                },
                value => Ok(value),
            };
        }
        if let Some(value) = self.constant(&name.text)? {
            return Ok(value);
        }
        if let Some(&index) = self.functions.get(&(None, name.text.clone())) {
            return Ok(Value::Function(index));
        }
        if self.tree.language == Language::Tri {
            match &*name.text {
                "tensor" => return Ok(Value::Tri(TriValue::Tensor)),
                "io" => return Ok(Value::Tri(TriValue::Io)),
                "convert" => return Ok(Value::Tri(TriValue::Convert)),
                "transformer_llama" => return Ok(Value::Tri(TriValue::Llama)),
                _ => {}
            }
        }
        if &*name.text == "None" {
            return Ok(Value::none());
        }
        if let Some(unit) = self.tree.structs.iter().find(|s| s.name.text == name.text && s.fields.is_empty()) {
            let of = StructValue { name: unit.name.text.clone(), variant: None, fields: Vec::new() };
            return Ok(Value::Struct(Arc::new(of)));
        }
        if let "Some" | "Ok" | "Err" = &*name.text {
            return Ok(Value::Builtin(Arc::from(""), name.text.clone()));
        }
        Err(self.unknown(name))
    }

    /// An error about a name that means nothing.
    pub(crate) fn unknown(&self, name: &Name) -> Flow {
        let vars = self.frames.last().map(|f| f.vars.iter().map(|(n, _)| &**n).collect()).unwrap_or_default();
        let mut known: Vec<&str> = vars;
        known.extend(self.tree.functions.iter().filter(|f| f.owner.is_none()).map(|f| &*f.name.text));
        known.extend(self.tree.consts.iter().map(|c| &*c.name.text));
        known.extend(self.tree.structs.iter().map(|s| &*s.name.text));
        let d = Diagnostic::new(Code::UnknownName, name.span, format!("there is nothing named `{}` here", name.text))
            .label("unknown");
        match nearest(&name.text, &known) {
            Some(near) => d.help(format!("did you mean `{near}`?")).into(),
            None => d.help("names come from `let`, parameters, `const` and `fn` of this program").into(),
        }
    }

    /// A constant of the program, computed once.
    fn constant(&mut self, name: &Arc<str>) -> Eval<Option<Value>> {
        match self.consts.get(name) {
            Some(Some(Value::Poison)) => return Err(Flow::Poisoned),
            Some(Some(value)) => return Ok(Some(value.clone())),
            Some(None) => {
                let at = self.tree.consts.iter().find(|c| c.name.text == *name).map(|c| c.name.span);
                let message = format!("the constant `{name}` depends on itself");
                return Err(Diagnostic::new(Code::CallDepth, at.unwrap_or_default(), message).into());
            }
            None => {}
        }
        let tree = self.tree;
        let Some(constant) = tree.consts.iter().find(|c| c.name.text == *name) else { return Ok(None) };
        // A constant that reads itself finds this.
        self.consts.insert(name.clone(), None);
        self.frames.push(super::Frame::default());
        let value = self.eval(constant.value).and_then(|v| self.as_type(v, &constant.ty, constant.name.span));
        self.frames.pop();
        self.consts.insert(name.clone(), Some(value.as_ref().map_or(Value::Poison, Clone::clone)));
        value.map(Some)
    }

    /// `Type::name` as a value.
    fn associated(&mut self, of: &Name, name: &Name, span: Span) -> Eval {
        let owner = self.owner(&of.text);
        if let Some(&index) = self.functions.get(&(Some(owner.clone()), name.text.clone())) {
            return Ok(Value::Function(index));
        }
        let tree = self.tree;
        if let Some(en) = tree.enums.iter().find(|e| e.name.text == owner) {
            return match en.variants.iter().find(|v| v.name.text == name.text) {
                Some(variant) if variant.fields.is_empty() => {
                    let fields = Vec::new();
                    let variant = Some(variant.name.text.clone());
                    Ok(Value::Struct(Arc::new(StructValue { name: owner, variant, fields })))
                }
                Some(_) => Ok(Value::Builtin(owner, name.text.clone())),
                None => {
                    let known: Vec<&str> = en.variants.iter().map(|v| &*v.name.text).collect();
                    let d = Diagnostic::new(
                        Code::UnknownName,
                        name.span,
                        format!("`{owner}` has no variant `{}`", name.text),
                    );
                    Err(d.label("no such variant").help(format!("its variants are {}", listed(&known))).into())
                }
            };
        }
        let qualified: Arc<str> = format!("{owner}::{}", name.text).into();
        if let Some(value) = self.constant(&qualified)? {
            return Ok(value);
        }
        if let Some(value) = number_constant(&owner, &name.text) {
            return Ok(value);
        }
        if let Some(value) = super::ordinary::ordering_constant(&owner, &name.text) {
            return Ok(value);
        }
        if let Some(value) = self.constant(&name.text)? {
            return Ok(value);
        }
        let _ = span;
        Ok(Value::Builtin(owner, name.text.clone()))
    }

    /// The type that a name stands for inside an `impl` block.
    fn owner(&self, name: &Arc<str>) -> Arc<str> {
        if &**name != "Self" {
            return name.clone();
        }
        match self.lookup("self").map(super::super::value::Cell::get).map(|v| self.deref(v)) {
            Some(Value::Struct(of)) => of.name.clone(),
            _ => match self.lookup("Self").map(super::super::value::Cell::get) {
                Some(Value::Str(owner)) => owner,
                _ => name.clone(),
            },
        }
    }

    /// The struct or variant that a literal names, with its declared fields.
    #[allow(clippy::type_complexity)]
    pub(super) fn struct_of(&self, path: &[Name]) -> Eval<(Arc<str>, Option<Arc<str>>, &'t [(Name, Type)])> {
        let tree = self.tree;
        if let [.., of, variant] = path
            && let Some(en) = tree.enums.iter().find(|e| e.name.text == self.owner(&of.text))
            && let Some(found) = en.variants.iter().find(|v| v.name.text == variant.text)
        {
            return Ok((en.name.text.clone(), Some(found.name.text.clone()), &found.fields));
        }
        let Some(last) = path.last() else { return Err(Flow::Poisoned) };
        let name = self.owner(&last.text);
        match tree.structs.iter().find(|s| s.name.text == name) {
            Some(found) => Ok((found.name.text.clone(), None, &found.fields)),
            None => {
                let known: Vec<&str> = tree.structs.iter().map(|s| &*s.name.text).collect();
                let d = Diagnostic::new(Code::UnknownName, last.span, format!("there is no struct `{}`", last.text))
                    .label("unknown");
                match nearest(&last.text, &known) {
                    Some(near) => Err(d.help(format!("did you mean `{near}`?")).into()),
                    None => Err(d.help(format!("declare it: `struct {} {{ … }}`", last.text)).into()),
                }
            }
        }
    }
}

/// `f32::MAX`, `consts::PI` and their kin.
fn number_constant(of: &str, name: &str) -> Option<Value> {
    if let Some(ty) = IntType::from_name(of) {
        let bits = ty.bits();
        let most = match (ty.is_signed(), bits) {
            (_, 128) => i128::MAX,
            (true, _) => (1i128 << (bits - 1)) - 1,
            (false, _) => (1i128 << bits) - 1,
        };
        return Some(match name {
            "MAX" => Value::typed(most, ty),
            "MIN" if ty.is_signed() => Value::typed(-most - 1, ty),
            "MIN" => Value::typed(0, ty),
            "BITS" => Value::typed(bits.into(), IntType::U32),
            _ => return None,
        });
    }
    Some(Value::Float(match (of, name) {
        ("f32", "MAX") => f32::MAX.into(),
        ("f32", "MIN") => f32::MIN.into(),
        ("f32", "EPSILON") => f32::EPSILON.into(),
        ("f32", "MIN_POSITIVE") => f32::MIN_POSITIVE.into(),
        ("f64", "MAX") => f64::MAX,
        ("f64", "MIN") => f64::MIN,
        ("f64", "EPSILON") => f64::EPSILON,
        ("f32" | "f64", "INFINITY") => f64::INFINITY,
        ("f32" | "f64", "NEG_INFINITY") => f64::NEG_INFINITY,
        ("f32" | "f64", "NAN") => f64::NAN,
        ("consts", constant) => {
            use std::f64::consts;
            match constant {
                "PI" => consts::PI,
                "TAU" => consts::TAU,
                "E" => consts::E,
                "SQRT_2" => consts::SQRT_2,
                "FRAC_1_SQRT_2" => consts::FRAC_1_SQRT_2,
                "FRAC_PI_2" => consts::FRAC_PI_2,
                "FRAC_PI_4" => consts::FRAC_PI_4,
                "LN_2" => consts::LN_2,
                "LN_10" => consts::LN_10,
                "LOG2_E" => consts::LOG2_E,
                "LOG10_E" => consts::LOG10_E,
                _ => return None,
            }
        }
        _ => return None,
    }))
}
