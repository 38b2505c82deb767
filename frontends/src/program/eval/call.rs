//! Calls: functions of the program, closures, associated functions and methods.

use super::place::Located;
use super::{Eval, Evaluator, Flow, Frame, MAX_CALLS, free};
use crate::nearest::nearest;
use crate::program::ast::{ExprId, ExprKind, Function, IntType, Name, Span, Type};
use crate::program::builtins::{self, Args};
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::host::Applied;
use crate::program::value::{Cell, Closure, Place, StructValue, Value};
use std::collections::HashMap;
use std::sync::Arc;

impl Evaluator<'_> {
    pub(super) fn call(&mut self, callee: ExprId, args: &[ExprId], span: Span) -> Eval {
        let tree = self.tree;
        if let ExprKind::Path(path, types) = &tree.expr(callee).kind {
            if let [name] = path.as_slice()
                && self.lookup(&name.text).is_none()
                && !self.functions.contains_key(&(None, name.text.clone()))
                && let Some(made) = self.construct(name, args)?
            {
                return Ok(made);
            }
            if let [.., of, name] = path.as_slice() {
                return self.call_associated(callee, of, name, types, args, span);
            }
        }
        let function = match self.eval(callee) {
            Ok(function) => function,
            Err(flow) => return Err(self.after_failure(flow, args)),
        };
        let values = self.eval_all(args)?;
        let spans = args.iter().map(|&id| self.span(id)).collect::<Vec<_>>();
        self.call_value(&function, values, &spans, self.span(callee), span)
    }

    /// What is called has failed: its arguments are evaluated all the same, so that their mistakes are shown too.
    fn after_failure(&mut self, flow: Flow, args: &[ExprId]) -> Flow {
        if !matches!(flow, Flow::Error(_) | Flow::Poisoned) {
            return flow;
        }
        match self.settle(flow).and_then(|()| self.eval_all(args)) {
            Ok(_) => Flow::Poisoned,
            Err(flow) => flow,
        }
    }

    /// `Some(x)`, `Ok(x)`, `Err(x)` and tuple structs.
    fn construct(&mut self, name: &Name, args: &[ExprId]) -> Eval<Option<Value>> {
        match (&*name.text, args) {
            ("Some" | "Ok", [value]) => Ok(Some(Value::some(self.eval(*value)?))),
            ("Reverse", [value]) => Ok(Some(Value::reversed(self.eval(*value)?))),
            ("Err", [value]) => {
                self.eval(*value)?;
                Ok(Some(Value::none()))
            }
            _ => {
                let tree = self.tree;
                let Some(of) = tree.structs.iter().find(|s| s.name.text == name.text) else { return Ok(None) };
                self.tuple_struct(of.name.text.clone(), None, &of.fields, args, name).map(Some)
            }
        }
    }

    fn tuple_struct(
        &mut self,
        name: Arc<str>,
        variant: Option<Arc<str>>,
        declared: &[(Name, Type)],
        args: &[ExprId],
        at: &Name,
    ) -> Eval {
        if declared.len() != args.len() {
            let message = format!("`{}` takes {}, found {}", at.text, builtins::counted(declared.len()), args.len());
            let d = Diagnostic::new(Code::Arity, at.span, message);
            return Err(match declared.first() {
                Some((_, ty)) => d.related(ty.span, "declared here").into(),
                None => d.help(format!("write `{}` alone", at.text)).into(),
            });
        }
        let values = self.eval_all(args)?;
        let mut fields = Vec::with_capacity(values.len());
        for ((value, (field, ty)), &id) in values.into_iter().zip(declared).zip(args) {
            fields.push((field.text.clone(), self.as_type(value, ty, self.span(id))?));
        }
        Ok(Value::Struct(Arc::new(StructValue { name, variant, fields })))
    }

    /// `Type::name(…)`.
    fn call_associated(
        &mut self,
        callee: ExprId,
        of: &Name,
        name: &Name,
        types: &[Type],
        args: &[ExprId],
        span: Span,
    ) -> Eval {
        let tree = self.tree;
        if let Some(en) = tree.enums.iter().find(|e| e.name.text == of.text)
            && let Some(variant) = en.variants.iter().find(|v| v.name.text == name.text)
        {
            let (owner, text) = (en.name.text.clone(), variant.name.text.clone());
            return self.tuple_struct(owner, Some(text), &variant.fields, args, name);
        }
        let function = self.eval(callee)?;
        let spans = args.iter().map(|&id| self.span(id)).collect::<Vec<_>>();
        match function {
            Value::Builtin(owner, _) => {
                let values = self.eval_all(args)?;
                self.call_builtin(&owner, name, types, values, &spans, span)
            }
            function => {
                let values = self.eval_all(args)?;
                self.call_value(&function, values, &spans, name.span, span)
            }
        }
    }

    /// An associated function of the language.
    pub(crate) fn call_builtin(
        &mut self,
        owner: &str,
        name: &Name,
        types: &[Type],
        values: Vec<Value>,
        spans: &[Span],
        span: Span,
    ) -> Eval {
        if let Some(builtin) = builtins::function(owner, &name.text) {
            return builtins::lower(self, builtin, Args::new(None, values, spans, name.span, span));
        }
        if self.run.is_none() && values.iter().any(|v| self.is_host(v)) && !values.iter().any(|v| self.is_tensor(v)) {
            let applied = Applied::Associated(owner.into(), name.clone(), types.to_vec());
            return self.apply_host(applied, values, span);
        }
        if let Some(result) = super::ordinary::associated(self, owner, name, types, &values, spans, span) {
            return result;
        }
        // `Tensor::relu(&x)`, `f32::max(a, b)`: a method by its full name.
        let mut known: Vec<&str> = builtins::functions_of(owner).collect();
        known.extend(super::ordinary::functions_of(owner));
        let method = || super::ordinary::is_method(&name.text) || self.functions.keys().any(|(_, n)| *n == name.text);
        if let Some((receiver, rest)) = values.split_first()
            && (known.is_empty() || method() || builtins::method(receiver, &name.text).is_some())
        {
            let place = Place::variable(Cell::new(receiver.clone()));
            let args = Args::new(None, rest.to_vec(), spans.get(1..).unwrap_or_default(), name.span, span);
            return self.method_on(place, receiver.clone(), name, types, args, spans[0], span);
        }
        let d = Diagnostic::new(Code::UnknownName, name.span, format!("there is no function `{owner}::{}`", name.text))
            .label("unknown");
        Err(match nearest(&name.text, &known) {
            Some(near) => d.help(format!("did you mean `{owner}::{near}`?")).into(),
            None if !known.is_empty() => d.help(format!("known are {}", super::names::listed(&known))).into(),
            None => d.into(),
        })
    }

    /// A function value, applied.
    pub(crate) fn call_value(
        &mut self,
        function: &Value,
        args: Vec<Value>,
        spans: &[Span],
        at: Span,
        span: Span,
    ) -> Eval {
        match function {
            Value::Function(index) => self.call_function(*index, args, at, span),
            Value::Closure(closure) => self.call_closure(closure, args, at, span),
            Value::Ref(place) => self.call_value(&place.load(), args, spans, at, span),
            Value::Builtin(owner, name) => {
                let tree = self.tree;
                if owner.is_empty() {
                    return Ok(if &**name == "Err" {
                        Value::none()
                    } else {
                        Value::some(args.into_iter().next().unwrap_or(Value::Unit))
                    });
                }
                if let Some(en) = tree.enums.iter().find(|e| e.name.text == *owner)
                    && let Some(variant) = en.variants.iter().find(|v| v.name.text == *name)
                    && variant.fields.len() == args.len()
                {
                    let fields = variant.fields.iter().map(|(n, _)| n.text.clone()).zip(args).collect();
                    let of = StructValue { name: owner.clone(), variant: Some(name.clone()), fields };
                    return Ok(Value::Struct(Arc::new(of)));
                }
                let name = Name { text: name.clone(), span: at };
                self.call_builtin(owner, &name, &[], args, spans, span)
            }
            Value::Host(_) => Err(self.mismatch(function, "a function", at)),
            other => {
                let d = Diagnostic::new(Code::Type, at, format!("{} cannot be called", other.kind()));
                Err(d.label("not a function").into())
            }
        }
    }

    /// A function of the program, applied.
    pub(crate) fn call_function(&mut self, index: usize, args: Vec<Value>, at: Span, span: Span) -> Eval {
        let tree = self.tree;
        let function = &tree.functions[index];
        if args.len() != function.params.len() {
            let message = format!(
                "`{}` takes {}, found {}",
                function.name.text,
                builtins::counted(function.params.len()),
                args.len()
            );
            let d = Diagnostic::new(Code::Arity, at, message).related(function.span, "defined here");
            return Err(d.into());
        }
        // Text and numbers that are known only when running, and nothing else: a host function.
        let ordinary = |v: &Value| !self.is_tensor(v) && !matches!(v, Value::Weights | Value::Tokens);
        let looks_up = |e: &Self| !args.iter().any(|v| matches!(v, Value::Tokenizer)) || e.only_looks_up(index);
        if self.run.is_none() && args.iter().any(|v| self.is_host(v)) && args.iter().all(ordinary) && looks_up(self) {
            self.check_methods(function.body);
            return self.apply_host(Applied::Function(index), args, span);
        }
        let mut frame = Frame::default();
        if let Some(owner) = &function.owner {
            frame.vars.push((Arc::from("Self"), Cell::new(Value::Str(owner.clone()))));
        }
        self.enter(frame, at)?;
        let result = self.bind_params(&function.params, args, span).and_then(|()| self.eval(function.body));
        self.frames.pop();
        let value = match result {
            Ok(value) | Err(Flow::Return(value)) => value,
            Err(flow @ (Flow::Break(..) | Flow::Continue(_))) => return Err(self.nowhere(flow, function.name.span)),
            Err(flow) => return Err(flow),
        };
        match &function.result {
            Some(ty) => self.as_type(value, ty, span),
            None => Ok(value),
        }
    }

    /// A closure, applied.
    pub(crate) fn call_closure(&mut self, closure: &Arc<Closure>, args: Vec<Value>, at: Span, span: Span) -> Eval {
        if args.len() != closure.params.len() {
            let message =
                format!("this closure takes {}, found {}", builtins::counted(closure.params.len()), args.len());
            return Err(Diagnostic::new(Code::Arity, at, message).related(self.span(closure.body), "its body").into());
        }
        self.enter(Frame { vars: closure.captured.clone() }, at)?;
        let result = self.bind_params(&closure.params, args, span).and_then(|()| self.eval(closure.body));
        self.frames.pop();
        match result {
            Ok(value) | Err(Flow::Return(value)) => Ok(value),
            Err(flow @ (Flow::Break(..) | Flow::Continue(_))) => Err(self.nowhere(flow, at)),
            Err(flow) => Err(flow),
        }
    }

    fn bind_params(&mut self, params: &[crate::program::ast::Param], args: Vec<Value>, span: Span) -> Eval<()> {
        for (param, arg) in params.iter().zip(args) {
            if let Some(wanted) = self.unfit(&arg, &param.ty) {
                let message = format!("expected {wanted}, found {}", arg.kind());
                let d = Diagnostic::new(Code::Type, span, message).label(format!("{} is given here", arg.kind()));
                return Err(d.related(param.span, "asked for here").into());
            }
            let arg = self.as_type(arg, &param.ty, span)?;
            if !self.matches(&param.pattern, arg)? {
                let d = Diagnostic::new(Code::Pattern, param.pattern.span, "this pattern does not match the argument");
                return Err(d.related(span, "called here").into());
            }
        }
        Ok(())
    }

    /// What the type of a parameter asks for, where a value clearly is something else. Numbers may stand for tensors
    /// and tensors for numbers, and what is known only when running shows its type then.
    fn unfit(&self, value: &Value, ty: &Type) -> Option<String> {
        let name = ty.name()?;
        let own = |of: &Name| &*of.text == name;
        let named = self.tree.structs.iter().map(|s| &s.name).chain(self.tree.enums.iter().map(|e| &e.name)).any(own);
        let text = matches!(value, Value::Str(_) | Value::Char(_));
        let number = matches!(value, Value::Int(_) | Value::Float(_) | Value::Bool(_));
        let whole = matches!(value, Value::List(_) | Value::Tuple(_) | Value::Closure(_) | Value::Struct(_));
        let (fits, wanted) = match (name, value) {
            (_, Value::Struct(of)) if named => (*of.name == *name, format!("a `{name}`")),
            (_, _) if named => (!(text || number || whole), format!("a `{name}`")),
            ("str" | "String", Value::Tensor(_)) => (false, "a text".to_owned()),
            ("str" | "String", _) => (!(number || whole), "a text".to_owned()),
            ("Tensor", _) => (!text, "a tensor".to_owned()),
            (name, _) if IntType::from_name(name).is_some() => (!(text || whole), "an integer".to_owned()),
            ("f32" | "f64", _) => (!(text || whole), "a number".to_owned()),
            _ => return None,
        };
        (!fits).then_some(wanted)
    }

    fn enter(&mut self, frame: Frame, at: Span) -> Eval<()> {
        self.tick(at)?;
        if self.frames.len() > MAX_CALLS {
            let d = Diagnostic::new(Code::CallDepth, at, format!("calls are nested more than {MAX_CALLS} deep"))
                .label("one call too many")
                .help("end the recursion earlier, or write it as a loop");
            return self.abort(d);
        }
        self.frames.push(frame);
        Ok(())
    }

    fn nowhere(&self, flow: Flow, at: Span) -> Flow {
        let what = if matches!(flow, Flow::Break(..)) { "break" } else { "continue" };
        let at = self.left.unwrap_or(at);
        match flow {
            Flow::Break(Some(label), _) | Flow::Continue(Some(label)) => {
                let message = format!("no loop around this `{what}` has the label `'{label}`");
                let d = Diagnostic::new(Code::Escape, at, message).label("nowhere to go");
                d.help(format!("write `'{label}: loop {{ … }}`; a label does not reach out of a function")).into()
            }
            _ => Diagnostic::new(Code::Escape, at, format!("`{what}` outside of a loop"))
                .label("nowhere to go")
                .help("`return` leaves a function")
                .into(),
        }
    }

    pub(super) fn method_call(
        &mut self,
        receiver: ExprId,
        name: &Name,
        types: &[Type],
        args: &[ExprId],
        span: Span,
    ) -> Eval {
        let part = match super::ordinary::changes_part(&name.text) {
            true => self.part(receiver),
            false => Ok(None),
        };
        let located = part.and_then(|part| match part {
            Some(part) => Ok(Located::Is(part)),
            None => self.locate(receiver),
        });
        let located = match located {
            Ok(located) => located,
            Err(flow) => return Err(self.after_failure(flow, args)),
        };
        let (place, value) = match located {
            Located::At(place) => {
                let value = self.loaded(&place)?;
                (place, value)
            }
            Located::Is(value) => (Place::variable(Cell::new(value.clone())), value),
        };
        let values = self.eval_all(args)?;
        let spans = args.iter().map(|&id| self.span(id)).collect::<Vec<_>>();
        let args = Args::new(None, values, &spans, name.span, span);
        self.method_on(place, value, name, types, args, self.span(receiver), span)
    }

    /// A method of a value that stands at a place.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn method_on(
        &mut self,
        place: Place,
        value: Value,
        name: &Name,
        types: &[Type],
        mut args: Args,
        at: Span,
        span: Span,
    ) -> Eval {
        if let Value::Struct(of) = &value
            && let Some(&index) = self.functions.get(&(Some(of.name.clone()), name.text.clone()))
        {
            let tree = self.tree;
            let mutable = tree.functions[index]
                .params
                .first()
                .is_some_and(|p| matches!(p.ty.kind, crate::program::ast::TypeKind::Reference { mutable: true, .. }));
            // A copy of the struct would have its parts copied when they change.
            let this = match mutable {
                true => {
                    drop(value);
                    Value::Ref(Arc::new(place))
                }
                false => value,
            };
            let mut all = vec![this];
            all.append(&mut args.values);
            return self.call_function(index, all, name.span, span);
        }
        // A field that holds a function is called as `(x.f)(y)`; a method wins.
        if let Some(result) = self.special_method(&value, name, &args, span) {
            return result;
        }
        if let Some(builtin) = builtins::method(&value, &name.text) {
            args.receiver = Some((value, at));
            return builtins::lower(self, builtin, args);
        }
        if let Value::Host(_) = value
            && self.run.is_none()
        {
            return self.host_method(&place, value, name, types, args, span);
        }
        // A list that is an input, as ordinary code sees it.
        if let Value::Input(input) = value
            && self.is_list_input(input)
        {
            let list = self.host_input(input, at)?;
            return self.host_method(&place, list, name, types, args, span);
        }
        if super::ordinary::changes(&value, &name.text) {
            return super::ordinary::change(self, &place, value, name, types, &args, span);
        }
        if self.run.is_none() && args.values.iter().any(|v| matches!(v, Value::Host(_))) {
            let mut operands = vec![value];
            operands.append(&mut args.values);
            return self.apply_host(Applied::Method(name.clone(), types.to_vec()), operands, span);
        }
        super::ordinary::method(self, &value, name, types, &args, at, span)
    }

    /// A method of a value that is known only when running.
    fn host_method(
        &mut self,
        place: &Place,
        value: Value,
        name: &Name,
        types: &[Type],
        mut args: Args,
        span: Span,
    ) -> Eval {
        if !super::ordinary::is_method(&name.text) && !self.tree.functions.iter().any(|f| f.name.text == name.text) {
            return Err(self.no_method(&value, name, &super::ordinary::methods()));
        }
        let mut operands = vec![value];
        operands.append(&mut args.values);
        if !free::CHANGING.contains(&&*name.text) {
            return self.apply_host(Applied::Method(name.clone(), types.to_vec()), operands, span);
        }
        // A pair of the result and what the receiver has become.
        let pair = self.apply_host(Applied::Change(name.clone()), operands, span)?;
        let field = |n: &str| Applied::Field(Arc::from(n));
        let after = self.apply_host(field("1"), vec![pair.clone()], span)?;
        let result = self.apply_host(field("0"), vec![pair], span)?;
        match place.with(|slot| *slot = after) {
            Some(()) => Ok(result),
            None => Err(self.mismatch(&result, "a variable", span)),
        }
    }

    /// Reports methods of names that no value has, in code that runs with the model alone and in what it calls.
    pub(crate) fn check_methods(&mut self, code: ExprId) {
        if self.checked.contains(&code) {
            return;
        }
        let tree = self.tree;
        let mut bodies: HashMap<&str, Vec<ExprId>> = HashMap::new();
        for function in &tree.functions {
            bodies.entry(&function.name.text).or_default().push(function.body);
        }
        let mut open = vec![code];
        let mut unknown: Vec<Name> = Vec::new();
        let mut nowhere: Vec<(Name, Vec<Arc<str>>)> = Vec::new();
        while let Some(id) = open.pop() {
            if !self.checked.insert(id) {
                continue;
            }
            if let Some(function) = tree.functions.iter().find(|f| f.body == id) {
                nowhere.extend(self.names_of_nothing(function));
            }
            free::walk(tree, id, |_, kind| {
                let name = match kind {
                    ExprKind::Method { name, .. } => name,
                    ExprKind::Path(path, _) if !path.is_empty() => &path[path.len() - 1],
                    _ => return,
                };
                if let Some(called) = bodies.get(&*name.text) {
                    open.extend(called);
                } else if matches!(kind, ExprKind::Method { .. })
                    && !super::ordinary::is_method(&name.text)
                    && !builtins::is_method(&name.text)
                {
                    unknown.push(name.clone());
                }
            });
        }
        for (name, known) in nowhere {
            let known: Vec<&str> = known.iter().map(|n| &**n).collect();
            let message = format!("there is nothing named `{}` here", name.text);
            let d = Diagnostic::new(Code::UnknownName, name.span, message).label("unknown");
            self.report(match nearest(&name.text, &known) {
                Some(near) => d.help(format!("did you mean `{near}`?")),
                None => d,
            });
        }
        for name in unknown {
            let message = format!("no value has a method `{}`", name.text);
            let d = Diagnostic::new(Code::UnknownMethod, name.span, message).label("no such method");
            self.report(match nearest(&name.text, &super::ordinary::methods()) {
                Some(near) => d.help(format!("did you mean `{near}`?")),
                None => d.help("docs/languages.md lists the methods of each type"),
            });
        }
    }

    /// Names in a function that nothing in it or around it defines, each with what it could have been.
    fn names_of_nothing(&self, function: &Function) -> Vec<(Name, Vec<Arc<str>>)> {
        let tree = self.tree;
        let mut known: Vec<Arc<str>> = function.params.iter().flat_map(|p| free::bound(&p.pattern)).collect();
        known.extend(free::bound_inside(tree, function.body));
        known.extend(tree.functions.iter().map(|f| f.name.text.clone()));
        known.extend(tree.consts.iter().map(|c| c.name.text.clone()));
        let types = tree.structs.iter().map(|s| &s.name).chain(tree.enums.iter().map(|e| &e.name));
        known.extend(types.map(|name| name.text.clone()));
        let own = ["None", "Some", "Ok", "Err", "Self", "self", "_", "tensor", "io", "convert", "transformer_llama"];
        let mut found: Vec<(Name, Vec<Arc<str>>)> = Vec::new();
        free::walk(tree, function.body, |_, kind| {
            if let ExprKind::Path(path, _) = kind
                && let [name] = path.as_slice()
                && !own.contains(&&*name.text)
                && !known.contains(&name.text)
            {
                found.push((name.clone(), known.clone()));
            }
        });
        found
    }

    /// An error where a value has no such method.
    pub(crate) fn no_method(&self, value: &Value, name: &Name, known: &[&str]) -> Flow {
        if let Value::Missing(_) | Value::Poison = value {
            return self.mismatch(value, "a value", name.span);
        }
        let mut all: Vec<&str> = builtins::methods_of(value).collect();
        if let Value::Tri(module) = value
            && !all.is_empty()
        {
            let message = format!("`{}` has no function `{}`", module.name(), name.text);
            let d = Diagnostic::new(Code::UnknownMethod, name.span, message).label("no such function");
            let help = match nearest(&name.text, &all) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it has {}", super::names::listed(&all)),
            };
            return d.help(help).into();
        }
        let message = format!("{} has no method `{}`", value.kind(), name.text);
        let d = Diagnostic::new(Code::UnknownMethod, name.span, message).label("no such method");
        all.extend(known);
        if let Value::Struct(of) = value {
            let own = self.tree.functions.iter().filter(|f| f.owner.as_ref() == Some(&of.name));
            all.extend(own.map(|f| &*f.name.text));
        }
        match nearest(&name.text, &all) {
            Some(near) => d.help(format!("did you mean `{near}`?")).into(),
            None if builtins::is_tensor_method(&name.text) => d.help("it is a method of tensors").into(),
            None => d.help("docs/languages.md lists the methods of each type").into(),
        }
    }
}
