//! Blocks, branches and loops.
//!
//! Known conditions pick a branch and known ranges unroll. A condition on tensors selects between the results of
//! both branches. What depends on run-time text and numbers becomes a host function as a whole; and a loop that
//! appends sampled tokens becomes a generation driver (`program::generation`).

use super::{Eval, Evaluator, Flow, free};
use crate::program::ast::{Arm, Block, ExprId, Name, Pattern, PatternKind, Span, Statement, Type};
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::value::{Cell, Int, Range, Value};
use std::sync::Arc;
use tallow_ir::{DType, Op};

/// Whether a loop goes on.
enum Round {
    On,
    Done(Value),
}

impl Evaluator<'_> {
    pub(super) fn block(&mut self, block: &Block, span: Span) -> Eval {
        let result = self.scoped(|e| {
            for statement in &block.statements {
                e.statement(statement)?;
            }
            match block.value {
                Some(value) => {
                    e.tick(span)?;
                    e.eval(value)
                }
                None => Ok(Value::Unit),
            }
        });
        match (result, &block.label) {
            (Err(Flow::Break(Some(label), value)), Some(own)) if label == own.text => Ok(value),
            (result, _) => result,
        }
    }

    /// A statement. One that fails is reported, and what it would have given or changed is poisoned.
    fn statement(&mut self, statement: &Statement) -> Eval<()> {
        match statement {
            Statement::Let { pattern, ty, value, otherwise, span } => {
                self.tick(*span)?;
                if let Err(flow) = self.let_statement(pattern, ty.as_ref(), *value, *otherwise) {
                    self.settle(flow)?;
                    for name in free::bound(pattern) {
                        self.bind(name, Value::Poison);
                    }
                }
            }
            Statement::Expr(id) => {
                self.tick(self.span(*id))?;
                if let Err(flow) = self.eval(*id) {
                    self.settle(flow)?;
                    for name in free::changed(self.tree, *id) {
                        if let Some(cell) = self.lookup(&name) {
                            cell.set(Value::Poison);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn let_statement(
        &mut self,
        pattern: &Pattern,
        ty: Option<&Type>,
        value: Option<ExprId>,
        otherwise: Option<ExprId>,
    ) -> Eval<()> {
        let Some(id) = value else {
            for name in free::bound(pattern) {
                self.bind(name, Value::Unit);
            }
            return Ok(());
        };
        let mut value = self.eval(id)?;
        if let Some(ty) = ty {
            value = self.as_type(value, ty, self.span(id))?;
        }
        let mark = self.frame().vars.len();
        if let PatternKind::Bind { name, .. } = &pattern.kind {
            self.name_value(&name.text, &value);
        }
        if self.matches(pattern, value.clone())? {
            return Ok(());
        }
        self.frame().vars.truncate(mark);
        match otherwise {
            Some(block) => {
                self.eval(block)?;
                let d = Diagnostic::new(Code::Pattern, self.span(block), "the block of `let … else` must leave");
                Err(d.help("end it with `return`, `break`, `continue` or `panic!`").into())
            }
            None => {
                let message = match (&pattern.kind, &value) {
                    (PatternKind::Slice(parts), Value::List(items)) => {
                        format!("a pattern of {} parts for a list of {}", parts.len(), items.len())
                    }
                    _ => format!("this pattern does not match {}", value.kind()),
                };
                Err(Diagnostic::new(Code::Pattern, pattern.span, message).label("does not match").into())
            }
        }
    }

    pub(super) fn branch(
        &mut self,
        id: ExprId,
        condition: ExprId,
        then: ExprId,
        otherwise: Option<ExprId>,
        span: Span,
    ) -> Eval {
        if self.changes_later(condition) {
            return self.residual(id);
        }
        self.scoped(|e| match e.condition(condition)? {
            None => e.residual(id),
            Some(Value::Bool(true)) => e.eval(then),
            Some(Value::Bool(false)) => match otherwise {
                Some(otherwise) => e.eval(otherwise),
                None => Ok(Value::Unit),
            },
            Some(Value::Tensor(node)) => e.select_branch(node, condition, then, otherwise, span),
            Some(Value::Stop(stop)) => e.stop_branch(stop, then, otherwise, span),
            Some(other) => Err(e.mismatch(&other, "a truth value", e.span(condition))),
        })
    }

    /// A condition; `None` where it is decided when running.
    fn condition(&mut self, id: ExprId) -> Eval<Option<Value>> {
        match self.eval(id) {
            Ok(Value::Host(_)) => Ok(None),
            Err(Flow::Error(d)) if d.code == Code::RunTimeBranch && self.run.is_none() => Ok(None),
            result => result.map(Some),
        }
    }

    /// Whether an expression changes a variable that is known only when running: to evaluate it now and again as part
    /// of host code would change it twice.
    fn changes_later(&mut self, id: ExprId) -> bool {
        if self.run.is_some() {
            return false;
        }
        let tree = self.tree;
        let names = self.changed.entry(id).or_insert_with(|| Arc::new(free::changed(tree, id))).clone();
        names.iter().any(|name| self.lookup(name).is_some_and(|c| matches!(self.deref(c.get()), Value::Host(_))))
    }

    /// A method call that failed for want of a value that is known only when running, as host code as a whole; the
    /// error where that is not possible.
    pub(super) fn method_later(&mut self, id: ExprId, error: Box<Diagnostic>) -> Eval {
        let tree = self.tree;
        if self.run.is_some() || !free::changed(tree, id).is_empty() {
            return Err(Flow::Error(error));
        }
        // An iterator may have given elements already, and tokens are no text.
        let spent = |value: &Value| matches!(value, Value::Iter(_) | Value::Tokenizer | Value::Weights);
        let inside = free::bound_inside(tree, id);
        let names = free::read(tree, id);
        let mut names = names.iter().filter(|name| !inside.contains(*name));
        if names.any(|name| self.lookup(name).is_some_and(|c| spent(&self.deref(c.get())))) {
            return Err(Flow::Error(error));
        }
        match self.residual(id) {
            Err(Flow::Error(_)) => Err(Flow::Error(error)),
            result => result,
        }
    }

    /// `if` on a tensor of truth values: both branches are computed, and what they give or assign is selected.
    fn select_branch(
        &mut self,
        condition: tallow_ir::Value,
        at: ExprId,
        then: ExprId,
        otherwise: Option<ExprId>,
        span: Span,
    ) -> Eval {
        let ty = self.ty(condition);
        if ty.dtype != DType::Bool {
            let d = Diagnostic::new(Code::Type, self.span(at), format!("expected truth values, found {ty}"));
            return Err(d.label("a tensor of numbers").help("compare it: `x.gt(0.0)`").into());
        }
        let changed: Vec<(Arc<str>, Cell, Value)> = free::changed(self.tree, then)
            .into_iter()
            .chain(otherwise.map(|o| free::changed(self.tree, o)).unwrap_or_default())
            .filter_map(|name| self.lookup(&name).cloned().map(|cell| (name, cell.clone(), cell.get())))
            .collect();
        if let Some(leaving) = [Some(then), otherwise].into_iter().flatten().find(|&b| free::escapes(self.tree, b)) {
            let d = Diagnostic::new(
                Code::RunTimeBranch,
                self.span(at),
                "this branch depends on a tensor, and leaves the code around it",
            )
            .label("known only when running")
            .related(self.span(leaving), "leaves by `break`, `continue` or `return`");
            return Err(d.help("compute both branches and choose between their results; a loop over generated tokens ends by a comparison of the token").into());
        }
        let yes = self.eval(then)?;
        let yes_vars: Vec<Value> = changed.iter().map(|(_, cell, _)| cell.get()).collect();
        changed.iter().for_each(|(_, cell, before)| cell.set(before.clone()));
        let no = match otherwise {
            Some(otherwise) => self.eval(otherwise)?,
            None => Value::Unit,
        };
        for ((_, cell, _), yes) in changed.iter().zip(yes_vars) {
            let merged = self.select(condition, yes, cell.get(), at, span)?;
            cell.set(merged);
        }
        self.select(condition, yes, no, at, span)
    }

    fn select(&mut self, condition: tallow_ir::Value, yes: Value, no: Value, at: ExprId, span: Span) -> Eval {
        match (&yes, &no) {
            (Value::Unit, Value::Unit) => Ok(Value::Unit),
            (Value::Tensor(a), Value::Tensor(b)) if a == b => Ok(yes),
            (
                Value::Tensor(_) | Value::Float(_) | Value::Int(_),
                Value::Tensor(_) | Value::Float(_) | Value::Int(_),
            ) => {
                if let (Value::Int(a), Value::Int(b)) = (&yes, &no)
                    && a == b
                {
                    return Ok(yes);
                }
                let (a, b) = (self.to_node(&yes, span)?, self.to_node(&no, span)?);
                Ok(Value::Tensor(self.op(Op::Select, &[condition, a, b], span)?))
            }
            _ => {
                let gives = match yes.kind() == no.kind() {
                    true => yes.kind().to_owned(),
                    false => format!("{} or {}", yes.kind(), no.kind()),
                };
                let message = format!("this branch depends on a tensor, and gives {gives}");
                let d = Diagnostic::new(Code::RunTimeBranch, self.span(at), message).label("a tensor");
                Err(d.help("both branches of such an `if` give tensors, between which it selects").into())
            }
        }
    }

    pub(super) fn run_time_branch(&self, span: Span) -> Flow {
        Diagnostic::new(Code::RunTimeBranch, span, "this branch depends on a value that is known only when running")
            .label("known only when running")
            .help("move the code into a function on text and numbers alone; it then runs with the model")
            .into()
    }

    pub(super) fn match_expr(&mut self, id: ExprId, of: ExprId, arms: &[Arm], span: Span) -> Eval {
        if self.changes_later(of) {
            return self.residual(id);
        }
        let value = self.eval(of)?;
        match self.deref(value.clone()) {
            Value::Host(_) => return self.residual(id),
            Value::Poison => return Err(Flow::Poisoned),
            Value::Tensor(_) | Value::Sampled(_) | Value::Stop(_) => {
                let d = Diagnostic::new(Code::RunTimeBranch, self.span(of), format!("`match` on {}", value.kind()));
                return Err(d.label("known only when running").help("use `if` and comparisons").into());
            }
            _ => {}
        }
        for arm in arms {
            let result = self.scoped(|e| {
                if !e.matches(&arm.pattern, value.clone())? {
                    return Ok(None);
                }
                if let Some(guard) = arm.guard {
                    match e.eval(guard)? {
                        Value::Bool(true) => {}
                        Value::Bool(false) => return Ok(None),
                        other => return Err(e.mismatch(&other, "a truth value", e.span(guard))),
                    }
                }
                e.eval(arm.value).map(Some)
            })?;
            if let Some(result) = result {
                return Ok(result);
            }
        }
        let shown = super::text::brief(&value);
        Err(Diagnostic::new(Code::Pattern, span, format!("no arm matches {shown}")).help("add an arm `_ => …`").into())
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn for_loop(
        &mut self,
        id: ExprId,
        label: Option<&Name>,
        pattern: &Pattern,
        iter: ExprId,
        bound: Option<ExprId>,
        body: ExprId,
        span: Span,
    ) -> Eval {
        let given = self.eval(iter)?;
        let walked = self.deref(given.clone());
        if self.is_host(&walked) {
            return self.residual(id);
        }
        if let Some(list) = self.token_list(body) {
            return self.generate_for(list, pattern, &walked, iter, body, span);
        }
        let bound = match bound {
            Some(bound) => {
                let value = self.eval(bound)?;
                Some((self.known_size(&value, self.span(bound))?, self.span(bound)))
            }
            None => None,
        };
        let mut source = match walked {
            Value::Size(dim) => {
                let d = Diagnostic::new(Code::RunTimeLoop, self.span(iter), format!("a loop over {dim} rounds"));
                return Err(d
                    .label("known only when running")
                    .help("a loop is unrolled while compiling; work on the whole tensor at once")
                    .into());
            }
            Value::Range(Range { start, end: None, .. }) => Walk::Range(start, None, false),
            Value::Range(Range { start, end: Some(end), chars, .. }) => Walk::Range(start, Some(end.value), chars),
            _ => Walk::Iter(self.iterate(given, self.span(iter))?),
        };
        let mut rounds = 0usize;
        let failures = self.failures;
        let open = !matches!(source, Walk::Range(_, Some(_), _));
        let layers = self.walks_layers(&source, pattern);
        if layers {
            self.enter_layers();
        }
        let result = loop {
            let next = match &mut source {
                Walk::Range(at, end, chars) => {
                    if end.is_some_and(|end| at.value >= end) {
                        None
                    } else {
                        let now = *at;
                        at.value += 1;
                        let c = u32::try_from(now.value).ok().and_then(char::from_u32);
                        Some(match c {
                            Some(c) if *chars => Value::Char(c),
                            _ => Value::Int(now),
                        })
                    }
                }
                Walk::Iter(iter) => {
                    let iter = iter.clone();
                    self.next(&iter, span)?
                }
            };
            let Some(item) = next else { break Ok(Value::Unit) };
            if open && self.failures > failures {
                // It may have no end but a `break` that failed.
                break Err(Flow::Poisoned);
            }
            rounds += 1;
            if let Some((bound, at)) = bound
                && rounds > bound
            {
                let d = Diagnostic::new(
                    Code::Bounded,
                    at,
                    format!("this loop runs more than {bound} round{}", if bound == 1 { "" } else { "s" }),
                )
                .label(format!("promised here: {bound}"))
                .related(self.span(iter), "what it walks over")
                .help("raise the bound, or make the model smaller");
                break Err(d.into());
            }
            self.tick(span)?;
            if let (true, Value::Int(n)) = (layers, &item) {
                self.set_layer(n.value);
            }
            self.rounds.push(match &item {
                Value::Int(n) => n.value,
                _ => rounds as i128 - 1,
            });
            let round = self.scoped(|e| {
                if !e.matches(pattern, item)? {
                    let d = Diagnostic::new(Code::Pattern, pattern.span, "this pattern does not match an element");
                    return Err(d.into());
                }
                e.eval(body)
            });
            self.rounds.pop();
            match self.round(round, label) {
                Ok(Round::On) => {}
                Ok(Round::Done(_)) => break Ok(Value::Unit),
                Err(flow) => break Err(flow),
            }
        };
        if layers {
            self.leave_layers();
        }
        result
    }

    pub(super) fn while_loop(
        &mut self,
        id: ExprId,
        label: Option<&Name>,
        condition: ExprId,
        body: ExprId,
        span: Span,
    ) -> Eval {
        if let Some(list) = self.token_list(body) {
            return self.generate(list, Some(condition), body, span);
        }
        let failures = self.failures;
        loop {
            if self.failures > failures {
                // What would have ended the loop may be what failed.
                return Err(Flow::Poisoned);
            }
            self.tick(span)?;
            if self.changes_later(condition) {
                return self.residual(id);
            }
            let round = self.scoped(|e| match e.condition(condition)? {
                None => e.residual(id).map(Some),
                Some(Value::Bool(true)) => e.eval(body).map(|_| None),
                Some(Value::Bool(false)) => Ok(Some(Value::Unit)),
                Some(other @ (Value::Tensor(_) | Value::Stop(_))) => Err(e.endless_while(&other, condition)),
                Some(other) => Err(e.mismatch(&other, "a truth value", e.span(condition))),
            });
            match round {
                Ok(Some(value)) => return Ok(value),
                Ok(None) => {}
                Err(flow) => match self.round(Err(flow), label)? {
                    Round::On => {}
                    Round::Done(_) => return Ok(Value::Unit),
                },
            }
        }
    }

    /// An error about a `while` whose condition only running tells.
    fn endless_while(&self, condition: &Value, at: ExprId) -> Flow {
        let message = format!("the rounds of this loop depend on {}", condition.kind());
        let d = Diagnostic::new(Code::RunTimeLoop, self.span(at), message).label("known only when running");
        d.help("give the loop a known number of rounds; one that generates text appends the sampled token to a list")
            .into()
    }

    pub(super) fn endless_loop(&mut self, _id: ExprId, label: Option<&Name>, body: ExprId, span: Span) -> Eval {
        if let Some(list) = self.token_list(body) {
            return self.generate(list, None, body, span);
        }
        let failures = self.failures;
        loop {
            self.tick(span)?;
            let round = self.eval(body);
            if self.failures > failures {
                // What would have ended the loop may be what failed.
                return Err(Flow::Poisoned);
            }
            match self.round(round, label)? {
                Round::On => {}
                Round::Done(value) => return Ok(value),
            }
        }
    }

    /// What a round of a loop asks for.
    fn round(&mut self, result: Eval, label: Option<&Name>) -> Eval<Round> {
        let own = |wanted: &Option<Arc<str>>| match wanted {
            None => true,
            Some(wanted) => label.is_some_and(|l| l.text == *wanted),
        };
        match result {
            Ok(_) => Ok(Round::On),
            Err(Flow::Break(wanted, value)) if own(&wanted) => Ok(Round::Done(value)),
            Err(Flow::Continue(wanted)) if own(&wanted) => Ok(Round::On),
            Err(flow) => Err(flow),
        }
    }
}

/// What a `for` walks over.
pub(crate) enum Walk {
    Range(Int, Option<i128>, bool),
    Iter(super::iter::Iter),
}
