//! Loops over generated tokens.
//!
//! A loop that samples a token, appends it to a list and ends by comparisons is no loop to unroll: its body is
//! evaluated once, on tokens that are known only when running, and becomes the graph that a driver runs for each
//! token. What the body computes from anything but the tokens is moved out of it afterwards (`super::split`).

use super::ast::{BinaryOp, ExprId, ExprKind, Name, Pattern, Span, Statement};
use super::builtins::Args;
use super::codes::Code;
use super::diagnostic::Diagnostic;
use super::eval::{Eval, Evaluator, Flow, free};
use super::module::Start;
use super::value::{Cell, Place, Range, Value};
use std::collections::HashSet;
use std::sync::Arc;
use tallow_ir::{Op, Value as Node};

/// A condition on the token that was sampled last, or on how many there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Stop {
    /// The token is one of these.
    pub tokens: Vec<u32>,
    /// A counter has reached a number.
    pub reached: Vec<Reached>,
    /// The condition is that none of this holds.
    pub negated: bool,
}

impl Stop {
    /// The opposite.
    pub fn negated(mut self) -> Stop {
        self.negated = !self.negated;
        self
    }
}

/// `counter >= least`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    counter: Counter,
    least: i128,
    /// Whether this round's token had been appended where it was asked.
    pushed: bool,
}

/// A number that changes from token to token: what a variable held when the round began, and something more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counter {
    /// Which variable, by its number in [`Generation::counters`].
    pub variable: usize,
    /// What is added.
    pub add: i128,
}

/// A loop over generated tokens while its body is evaluated, and what came of it.
#[derive(Clone, Debug)]
pub struct Generation {
    /// The list that tokens are appended to.
    list: Arc<str>,
    /// What the list held before.
    pub start: Start,
    /// Variables whose number may grow; the first stands for the length of the list.
    counters: Vec<CounterVariable>,
    /// The variable that holds the last token, where the body reads that one instead of the list.
    current: Option<usize>,
    /// The token that the body samples.
    pub sampled: Option<usize>,
    /// The tokens that conditions ask about, with their places.
    asked: Vec<(usize, Span)>,
    pushed: bool,
    /// Ids that end the loop.
    pub stop: Vec<u32>,
    reached: Vec<Reached>,
    /// Most rounds.
    pub limit: Option<usize>,
    /// Most tokens in all.
    pub total: Option<usize>,
    /// Whether the body is being evaluated.
    active: bool,
    /// Whether it samples by `argmax`.
    by_argmax: bool,
}

#[derive(Clone, Debug)]
struct CounterVariable {
    name: Arc<str>,
    /// Before the loop; `None` where only running tells.
    initial: Option<i128>,
}

/// The counter of the list's length.
const LENGTH: usize = 0;

impl Evaluator<'_> {
    /// The list that a loop's body appends sampled tokens to, if it is a loop over generated tokens. Tokens are sampled
    /// by a method of that name; or by `argmax`, where its result is appended to a list of ids. Of several lists it is
    /// the one that is read for more than that.
    pub(super) fn token_list(&mut self, body: ExprId) -> Option<Arc<str>> {
        let build = self.build.as_ref()?;
        if build.generation.as_ref().is_some_and(|g| g.active) {
            return None;
        }
        // What the syntax says is looked for once, since inner loops are met again and again.
        let sampled = match self.picks.get(&body) {
            Some(None) => return None,
            Some(Some(sampled)) => *sampled,
            None => {
                let sampled = self.samples(body);
                let mut argmax = false;
                free::walk(self.tree, body, |_, kind| {
                    argmax |= matches!(kind, ExprKind::Method { name, .. } if &*name.text == "argmax");
                });
                let picks = (sampled || argmax).then_some(sampled);
                self.picks.insert(body, picks);
                picks?
            }
        };
        let lists = self.pushed_lists(body, sampled);
        if lists.len() < 2 {
            return lists.into_iter().next();
        }
        let mut uses = vec![0i32; lists.len()];
        free::walk(self.tree, body, |id, kind| match kind {
            ExprKind::Path(..) => {
                if let Some(at) = self.variable(id).and_then(|name| lists.iter().position(|l| *l == name)) {
                    uses[at] += 1;
                }
            }
            ExprKind::Method { receiver, .. } => {
                if let Some(at) = self.variable(*receiver).and_then(|name| lists.iter().position(|l| *l == name)) {
                    uses[at] -= 1;
                }
            }
            _ => {}
        });
        let most = uses.iter().copied().max()?;
        lists.into_iter().zip(uses).find(|(_, n)| *n == most).map(|(list, _)| list)
    }

    /// The lists that a piece of program appends to; where it does not sample, those of ids that the likeliest token goes
    /// into.
    fn pushed_lists(&self, body: ExprId, sampled: bool) -> Vec<Arc<str>> {
        let mut found = Vec::new();
        free::walk(self.tree, body, |_, kind| {
            let ExprKind::Method { receiver, name, args, .. } = kind else { return };
            if !matches!(&*name.text, "push" | "push_back") {
                return;
            }
            let Some(list) = self.variable(*receiver).filter(|list| !found.contains(list)) else { return };
            let holds_tokens = match self.lookup(&list).map(|c| self.deref(c.get())) {
                Some(Value::Tokens) => true,
                Some(Value::List(items)) => {
                    sampled || !items.is_empty() && items.iter().all(|v| matches!(v, Value::Int(_)))
                }
                _ => false,
            };
            if holds_tokens && (sampled || args.iter().any(|&a| self.likeliest(body, a))) {
                found.push(list);
            }
        });
        found.sort();
        found
    }

    /// Whether an expression in a loop's body is what `argmax` gives, or a variable that holds that.
    fn likeliest(&self, body: ExprId, id: ExprId) -> bool {
        let has_argmax = |id: ExprId| {
            let mut found = false;
            let is_it = |kind: &ExprKind| matches!(kind, ExprKind::Method { name, .. } if &*name.text == "argmax");
            free::walk(self.tree, id, |_, kind| found |= is_it(kind));
            found
        };
        let mut inner = id;
        while let ExprKind::Cast(of, _) | ExprKind::Unary(_, of) | ExprKind::Ref { of, .. } =
            &self.tree.expr(inner).kind
        {
            inner = *of;
        }
        let Some(name) = self.variable(inner) else { return has_argmax(id) };
        let mut found = false;
        free::walk(self.tree, body, |_, kind| match kind {
            ExprKind::Block(block) => {
                for statement in &block.statements {
                    if let Statement::Let { pattern, value: Some(value), .. } = statement
                        && free::bound(pattern).contains(&name)
                    {
                        found |= has_argmax(*value);
                    }
                }
            }
            ExprKind::Assign(to, value) if self.variable(*to).as_ref() == Some(&name) => found |= has_argmax(*value),
            _ => {}
        });
        found
    }

    /// Whether `argmax` of a row of logits is a sampled token here.
    pub(crate) fn samples_by_argmax(&self) -> bool {
        let generation = self.build.as_ref().and_then(|b| b.generation.as_ref());
        generation.is_some_and(|g| g.active && g.by_argmax)
    }

    fn variable(&self, id: ExprId) -> Option<Arc<str>> {
        match &self.tree.expr(id).kind {
            ExprKind::Path(path, _) if path.len() == 1 => Some(path[0].text.clone()),
            _ => None,
        }
    }

    /// Whether a piece of program, or a function that it calls, samples a token.
    fn samples(&self, id: ExprId) -> bool {
        let mut seen = HashSet::new();
        let mut open = vec![id];
        let mut found = false;
        while let Some(id) = open.pop() {
            free::walk(self.tree, id, |_, kind| {
                let name = match kind {
                    ExprKind::Method { name, .. } => name,
                    ExprKind::Path(path, _) if !path.is_empty() => &path[path.len() - 1],
                    _ => return,
                };
                found |= name.text.starts_with("sample_");
                let functions = self.tree.functions.iter().filter(|f| f.name.text == name.text);
                for function in functions {
                    if seen.insert(function.body) {
                        open.push(function.body);
                    }
                }
            });
            if found {
                return true;
            }
        }
        false
    }

    /// Whether the program samples tokens.
    pub(crate) fn samples_anywhere(&self) -> bool {
        self.tree.functions.iter().any(|f| self.samples(f.body))
    }

    /// A `for` over a known number of rounds that generates tokens.
    pub(super) fn generate_for(
        &mut self,
        list: Arc<str>,
        pattern: &Pattern,
        walked: &Value,
        iter: ExprId,
        body: ExprId,
        span: Span,
    ) -> Eval {
        let Value::Range(Range { start, end: Some(end), .. }) = walked else {
            let d = Diagnostic::new(
                Code::Generation,
                self.span(iter),
                format!("a loop over {} that generates tokens", walked.kind()),
            );
            return Err(d.help("walk over a range of numbers").into());
        };
        let rounds = usize::try_from(end.value - start.value).unwrap_or(0);
        let names = free::bound(pattern);
        self.scoped(|e| {
            for name in &names {
                e.bind(name.clone(), Value::Int(*start));
            }
            e.generate_body(list, None, body, &names, Some(rounds), span)
        })
    }

    /// A `loop`, or a `while` with its condition, that generates tokens.
    pub(super) fn generate(&mut self, list: Arc<str>, condition: Option<ExprId>, body: ExprId, span: Span) -> Eval {
        // How long a prompt is only running tells; its driver counts.
        let prompt = self.lookup(&list).is_some_and(|cell| matches!(self.deref(cell.get()), Value::Tokens));
        if let Some(condition) = condition.filter(|_| !prompt) {
            match self.eval(condition)? {
                Value::Bool(true) => {}
                Value::Bool(false) => return Ok(Value::Unit),
                Value::Stop(_) => {}
                other => return Err(self.mismatch(&other, "a truth value", self.span(condition))),
            }
        }
        self.generate_body(list, condition, body, &[], None, span)
    }

    fn generate_body(
        &mut self,
        list: Arc<str>,
        condition: Option<ExprId>,
        body: ExprId,
        rounds_of: &[Arc<str>],
        limit: Option<usize>,
        span: Span,
    ) -> Eval {
        let Some(cell) = self.lookup(&list).cloned() else { return Err(Flow::Poisoned) };
        let place = Place::variable(cell);
        let (start, length) = match place.load() {
            Value::Tokens => (Start::Prompt, None),
            Value::List(items) => {
                let mut ids = Vec::with_capacity(items.len());
                for item in items.iter() {
                    ids.push(self.token_id(item, span)?);
                }
                let length = ids.len() as i128;
                (Start::Ids(ids), Some(length))
            }
            other => return Err(self.mismatch(&other, "a list of tokens", span)),
        };
        // Integers that the body changes, and the variable of a `for`, count rounds.
        let mut counters = vec![CounterVariable { name: list.clone(), initial: length }];
        let mut names: Vec<Arc<str>> = rounds_of.to_vec();
        names.extend(free::changed(self.tree, body).into_iter().filter(|n| !rounds_of.contains(n)));
        let mut before: Vec<(Arc<str>, Cell, Value)> = Vec::new();
        for name in names.iter().filter(|n| **n != list) {
            let Some(cell) = self.lookup(name).cloned() else { continue };
            let value = cell.get();
            if let Value::Int(n) = value {
                counters.push(CounterVariable { name: name.clone(), initial: Some(n.value) });
                cell.set(Value::Counter(Counter { variable: counters.len() - 1, add: 0 }));
            }
            before.push((name.clone(), cell, value));
        }
        // Other lists that the token goes into hold what is generated, too.
        for name in self.pushed_lists(body, true).iter().filter(|n| **n != list) {
            if let Some(cell) = self.lookup(name) {
                Place::variable(cell.clone()).with(|slot| *slot = Value::Generated);
            }
        }
        place.with(|slot| *slot = Value::Tokens);
        let by_argmax = !self.samples(body);
        let build = self.build(span)?;
        if build.generation.is_some() {
            let d = Diagnostic::new(Code::Generation, span, "a second loop over generated tokens");
            return Err(d.help("a program generates one text").into());
        }
        build.generation = Some(Generation {
            list,
            start,
            counters,
            current: None,
            sampled: None,
            asked: Vec::new(),
            pushed: false,
            stop: Vec::new(),
            reached: Vec::new(),
            limit,
            total: None,
            active: true,
            by_argmax,
        });
        let errors = self.errors.len();
        let result = self.eval(body);
        let result = match (result, condition) {
            (Ok(_) | Err(Flow::Continue(None)), Some(condition)) => {
                self.eval(condition).and_then(|value| match value {
                    Value::Stop(stop) => self.note_stop(stop.negated(), self.span(condition)),
                    Value::Bool(true) => Ok(()),
                    Value::Bool(false) => Err(self.single_round(span)),
                    other => Err(self.mismatch(&other, "a truth value", self.span(condition))),
                })
            }
            (Ok(_) | Err(Flow::Continue(None)), None) => Ok(()),
            (Err(Flow::Break(None, _)), _) => Err(self.single_round(span)),
            (Err(flow), _) => Err(flow),
        };
        let done = result.and_then(|()| self.finish_generation(rounds_of, &before, errors, body, span));
        if let Some(generation) = self.build.as_mut().and_then(|b| b.generation.as_mut()) {
            generation.active = false;
        }
        place.with(|slot| *slot = Value::Generated);
        done.map(|()| Value::Unit)
    }

    fn single_round(&self, span: Span) -> Flow {
        Diagnostic::new(Code::Generation, span, "this loop ends in its first round, whatever is sampled")
            .help("end it where the token is one that ends the text: `if next == END { break; }`")
            .into()
    }

    /// Checks what the body has left, and settles the limits.
    fn finish_generation(
        &mut self,
        rounds_of: &[Arc<str>],
        before: &[(Arc<str>, Cell, Value)],
        errors: usize,
        body: ExprId,
        span: Span,
    ) -> Eval<()> {
        if self.errors.len() > errors {
            return Err(Flow::Poisoned);
        }
        let Some(generation) = self.build.as_ref().and_then(|b| b.generation.clone()) else { return Ok(()) };
        if generation.sampled.is_none() || !generation.pushed {
            let d = Diagnostic::new(
                Code::Generation,
                span,
                format!("no sampled token is appended to `{}` in every round", generation.list),
            );
            return Err(d.help("push the token after the comparison that ends the loop").into());
        }
        if let Some((_, at)) = generation.asked.iter().find(|(token, _)| Some(*token) != generation.sampled) {
            let d =
                Diagnostic::new(Code::Generation, *at, "this asks about another token than the one that is appended");
            return Err(d.help("a round samples one token, which is compared and appended").into());
        }
        // How much each counter grows in a round.
        let mut steps = vec![None; generation.counters.len()];
        steps[LENGTH] = Some(1);
        let held = |now: Node, name: &Arc<str>| {
            let then = before.iter().find(|(n, _, _)| n == name).map(|(_, _, value)| value);
            matches!(then, Some(Value::Tensor(then)) if *then == now)
        };
        for (name, cell, _) in before {
            let found = generation.counters.iter().skip(1).position(|c| c.name == *name).map(|i| i + 1);
            match (cell.get(), found) {
                (_, Some(variable)) if rounds_of.contains(name) => steps[variable] = Some(1),
                (Value::Counter(counter), Some(variable)) if counter.variable == variable => {
                    steps[variable] = Some(counter.add);
                }
                (Value::Sampled(_), Some(variable)) if generation.current == Some(variable) => {}
                (Value::Sampled(_), Some(_)) => {}
                (Value::Tensor(now), None) if !held(now, name) => {
                    let message = format!("`{name}` carries a tensor from token to token");
                    let at = self.assigned_at(body, name).unwrap_or(span);
                    let d = Diagnostic::new(Code::Generation, at, message).label("read in the next round");
                    let help = "attention keeps its own cache of earlier tokens; compute the rest anew in each round";
                    return Err(d.help(help).into());
                }
                _ => {}
            }
        }
        if let Some(current) = generation.current {
            let name = &generation.counters[current].name;
            let last = before.iter().find(|(n, _, _)| n == name).map(|(_, cell, _)| cell.get());
            if !matches!(last, Some(Value::Sampled(_))) {
                let d = Diagnostic::new(
                    Code::Generation,
                    span,
                    format!("`{name}` is read as a token, and no sampled token is assigned to it"),
                );
                return Err(d.into());
            }
        }
        let mut limit = generation.limit;
        let mut total = None;
        for reached in &generation.reached {
            let variable = reached.counter.variable;
            let Some(step) = steps[variable].filter(|s| *s > 0) else {
                let name = &generation.counters[variable].name;
                let d = Diagnostic::new(
                    Code::Generation,
                    span,
                    format!("`{name}` does not grow by a known number in every round"),
                );
                return Err(d.into());
            };
            let missing = reached.least - reached.counter.add;
            match generation.counters[variable].initial {
                Some(initial) => {
                    let round = (missing - initial).max(0);
                    let round = (round + step - 1) / step;
                    let tokens = round + i128::from(reached.pushed);
                    let tokens = usize::try_from(tokens).unwrap_or(usize::MAX);
                    limit = Some(limit.map_or(tokens, |l| l.min(tokens)));
                }
                None => {
                    // The length of the list, which began with the prompt.
                    let most = usize::try_from(missing + i128::from(reached.pushed)).unwrap_or(0);
                    total = Some(total.map_or(most, |t: usize| t.min(most)));
                }
            }
        }
        if let Some(build) = &mut self.build
            && let Some(own) = &mut build.generation
        {
            own.limit = limit;
            own.total = total;
            if let Some(current) = generation.current
                && let Some(first) = generation.counters[current].initial.and_then(|n| u32::try_from(n).ok())
            {
                own.start = Start::Ids(vec![first]);
            }
        }
        Ok(())
    }

    /// Where a piece of program assigns to a variable first.
    fn assigned_at(&self, body: ExprId, name: &Arc<str>) -> Option<Span> {
        let mut places = Vec::new();
        free::walk(self.tree, body, |id, kind| {
            if let ExprKind::Assign(place, _) | ExprKind::AssignOp(_, place, _) = kind
                && self.variable(*place).as_ref() == Some(name)
            {
                places.push(self.span(id));
            }
        });
        places.into_iter().min_by_key(|s| s.start)
    }

    /// A known token id.
    fn token_id(&self, value: &Value, span: Span) -> Eval<u32> {
        let n = self.known_int(value, span)?.value;
        u32::try_from(n).map_err(|_| Diagnostic::new(Code::Type, span, format!("{n} is no token id")).into())
    }

    /// Methods of token lists, sampled tokens and inputs that no table holds; `None` for all others.
    pub(crate) fn special_method(&mut self, value: &Value, name: &Name, args: &Args, span: Span) -> Option<Eval> {
        match (value, &*name.text) {
            (
                Value::Tokens | Value::Sampled(_) | Value::Generated | Value::Decoded,
                "clone" | "to_vec" | "iter" | "to_owned" | "into" | "to_string" | "as_slice" | "unwrap" | "trim",
            ) => Some(Ok(value.clone())),
            (Value::Tokens, "push" | "push_back" | "append" | "extend") => Some(self.push_token(args, span)),
            (Value::Generated, "push" | "push_back") if self.generates() => Some(match args.values.first() {
                Some(Value::Sampled(_)) => Ok(Value::Unit),
                other => {
                    let what = other.map_or("nothing", Value::kind);
                    let d = Diagnostic::new(Code::Generation, span, format!("{what} is appended to the tokens"));
                    Err(d.help("append the token that was sampled in this round").into())
                }
            }),
            (Value::Generated, "len") if self.generates() => {
                let d = Diagnostic::new(Code::Generation, span, "the length of a second list of tokens");
                Some(Err(d.help("count the list that is embedded, or count rounds").into()))
            }
            (Value::Tokens, "len") => {
                let active = self.build.as_ref().and_then(|b| b.generation.as_ref()).filter(|g| g.active);
                let add = match active {
                    Some(generation) => i128::from(generation.pushed),
                    None => return Some(Ok(Value::Size(tallow_ir::Dim::symbol(tallow_ir::SEQUENCE)))),
                };
                Some(Ok(Value::Counter(Counter { variable: LENGTH, add })))
            }
            (Value::List(items), "contains") if matches!(args.values.first(), Some(Value::Sampled(_))) => {
                if let Some(Value::Sampled(sampled)) = args.values.first() {
                    self.note_asked(*sampled, span);
                }
                let mut tokens = Vec::new();
                for item in items.iter() {
                    match self.token_id(item, span) {
                        Ok(id) => tokens.push(id),
                        Err(flow) => return Some(Err(flow)),
                    }
                }
                Some(Ok(Value::Stop(Stop { tokens, reached: Vec::new(), negated: false })))
            }
            // Tensor code reads them as ids.
            (Value::Tokens, name) if crate::program::builtins::method(value, name).is_some() => None,
            (Value::Tokens | Value::Generated, _) => {
                let d = Diagnostic::new(
                    Code::Generation,
                    name.span,
                    format!("`{}` of tokens that are known only when running", name.text),
                );
                let help = match value {
                    Value::Generated => {
                        "after the loop the tokens can only be decoded; end the loop where they are enough"
                    }
                    _ => "tokens are embedded, counted with `len`, appended to with `push`, and decoded",
                };
                Some(Err(d.help(help).into()))
            }
            _ => None,
        }
    }

    /// Whether the body of a loop over generated tokens is being evaluated.
    fn generates(&self) -> bool {
        self.build.as_ref().and_then(|b| b.generation.as_ref()).is_some_and(|g| g.active)
    }

    /// Appends the sampled token of this round.
    fn push_token(&mut self, args: &Args, span: Span) -> Eval {
        let sampled = match args.values.first() {
            Some(Value::Sampled(sampled)) => *sampled,
            Some(other) => {
                let d = Diagnostic::new(Code::Generation, span, format!("{} is appended to the tokens", other.kind()));
                return Err(d.help("append the token that was sampled in this round").into());
            }
            None => return Err(Diagnostic::new(Code::Arity, span, "`push` takes a token").into()),
        };
        let build = self.build(span)?;
        match &mut build.generation {
            Some(generation) if generation.active => {
                if generation.pushed {
                    let d = Diagnostic::new(Code::Generation, span, "a second token is appended in one round");
                    return Err(d.help("each round samples and appends one token").into());
                }
                generation.pushed = true;
                generation.sampled = Some(sampled);
                Ok(Value::Unit)
            }
            _ => Err(Diagnostic::new(
                Code::Generation,
                span,
                "a token is appended outside of a loop that generates tokens",
            )
            .into()),
        }
    }

    /// A counter that tensor code reads as a token: the variable of the last token.
    pub(crate) fn counter_node(&mut self, counter: Counter, span: Span) -> Eval<Node> {
        let build = self.build(span)?;
        if let Some(generation) = &mut build.generation
            && counter.add == 0
            && counter.variable != LENGTH
        {
            generation.current = Some(counter.variable);
            return self.token_input(span);
        }
        Err(Diagnostic::new(Code::Generation, span, "a number that grows from token to token in tensor code").into())
    }

    /// Notes that a condition is about a token.
    fn note_asked(&mut self, sampled: usize, span: Span) {
        if let Some(generation) = self.build.as_mut().and_then(|b| b.generation.as_mut()).filter(|g| g.active) {
            generation.asked.push((sampled, span));
        }
    }

    /// Operators on sampled tokens, counters and conditions on them.
    pub(super) fn token_binary(&mut self, op: BinaryOp, a: &Value, b: &Value, span: Span) -> Eval {
        match (op, a, b) {
            (BinaryOp::Eq | BinaryOp::Ne, Value::Sampled(sampled), other)
            | (BinaryOp::Eq | BinaryOp::Ne, other, Value::Sampled(sampled)) => {
                let token = self.token_id(other, span)?;
                self.note_asked(*sampled, span);
                let stop = Stop { tokens: vec![token], reached: Vec::new(), negated: op == BinaryOp::Ne };
                Ok(Value::Stop(stop))
            }
            (BinaryOp::Add | BinaryOp::Sub, Value::Counter(counter), Value::Int(n)) => {
                let by = if op == BinaryOp::Add { n.value } else { -n.value };
                Ok(Value::Counter(Counter { add: counter.add + by, ..*counter }))
            }
            (BinaryOp::Add, Value::Int(n), Value::Counter(counter)) => {
                Ok(Value::Counter(Counter { add: counter.add + n.value, ..*counter }))
            }
            (_, Value::Counter(counter), Value::Int(n)) => self.counter_compare(op, *counter, n.value, span),
            (_, Value::Int(n), Value::Counter(counter)) => {
                let mirrored = match op {
                    BinaryOp::Lt => BinaryOp::Gt,
                    BinaryOp::Le => BinaryOp::Ge,
                    BinaryOp::Gt => BinaryOp::Lt,
                    BinaryOp::Ge => BinaryOp::Le,
                    other => other,
                };
                self.counter_compare(mirrored, *counter, n.value, span)
            }
            (_, a, b) if self.is_tensor(a) || self.is_tensor(b) => {
                let tensor = |e: &mut Self, v: &Value| -> Eval {
                    match v {
                        Value::Sampled(_) | Value::Counter(_) => Ok(Value::Tensor(e.to_node(v, span)?)),
                        other => Ok(other.clone()),
                    }
                };
                let (a, b) = (tensor(self, a)?, tensor(self, b)?);
                self.tensor_binary(op, &a, &b, span)
            }
            _ => {
                let message = format!("`{}` does not work on {} and {}", op.symbol(), a.kind(), b.kind());
                Err(Diagnostic::new(Code::Generation, span, message)
                    .help("tokens are compared with `==` and `!=`, counts with `<`, `<=`, `>`, `>=`")
                    .into())
            }
        }
    }

    fn counter_compare(&mut self, op: BinaryOp, counter: Counter, n: i128, span: Span) -> Eval {
        let (least, negated) = match op {
            BinaryOp::Ge | BinaryOp::Eq => (n, false),
            BinaryOp::Gt => (n + 1, false),
            BinaryOp::Lt | BinaryOp::Ne => (n, true),
            BinaryOp::Le => (n + 1, true),
            _ => {
                let d = Diagnostic::new(
                    Code::Generation,
                    span,
                    format!("`{}` of a number that grows from token to token", op.symbol()),
                );
                return Err(d.help("such numbers are compared, and grow by a known number in each round").into());
            }
        };
        let pushed = self.build.as_ref().and_then(|b| b.generation.as_ref()).is_some_and(|g| g.pushed);
        Ok(Value::Stop(Stop { tokens: Vec::new(), reached: vec![Reached { counter, least, pushed }], negated }))
    }

    /// `a && b`, `a || b` where at least one is a condition on tokens.
    pub(super) fn join_stops(&mut self, op: BinaryOp, a: Value, b: Value, span: Span) -> Eval {
        match (op, a, b) {
            (BinaryOp::Or, Value::Bool(false), stop) | (BinaryOp::Or, stop, Value::Bool(false)) => Ok(stop),
            (BinaryOp::And, Value::Bool(true), stop) | (BinaryOp::And, stop, Value::Bool(true)) => Ok(stop),
            (BinaryOp::Or, Value::Bool(true), _) | (BinaryOp::Or, _, Value::Bool(true)) => Ok(Value::Bool(true)),
            (BinaryOp::And, Value::Bool(false), _) | (BinaryOp::And, _, Value::Bool(false)) => Ok(Value::Bool(false)),
            (op, Value::Stop(mut a), Value::Stop(b))
                if a.negated == b.negated && a.negated == (op == BinaryOp::And) =>
            {
                a.tokens.extend(b.tokens);
                a.reached.extend(b.reached);
                Ok(Value::Stop(a))
            }
            _ => {
                let d =
                    Diagnostic::new(Code::Generation, span, "this condition cannot end a loop over generated tokens");
                Err(d.help("a loop ends when the token is one of several (`||`), or when a count is reached").into())
            }
        }
    }

    /// `if` on a condition on tokens: one branch leaves the loop.
    pub(super) fn stop_branch(&mut self, stop: Stop, then: ExprId, otherwise: Option<ExprId>, span: Span) -> Eval {
        if !self.build.as_ref().and_then(|b| b.generation.as_ref()).is_some_and(|g| g.active) {
            return self.note_stop(Stop { negated: false, ..stop }, span).map(|()| Value::Unit);
        }
        let (leaving, going) = if stop.negated { (otherwise, Some(then)) } else { (Some(then), otherwise) };
        let leaves = leaving.is_some_and(|id| self.only_breaks(id));
        if !leaves {
            let at = leaving.map_or(span, |id| self.span(id));
            let d = Diagnostic::new(Code::Generation, at, "what depends on a generated token can only leave the loop")
                .label("not just `break`");
            return Err(d.help("`if next == END { break; }`, then go on with the token").into());
        }
        self.note_stop(Stop { negated: false, ..stop }, span)?;
        match going {
            Some(going) => self.eval(going),
            None => Ok(Value::Unit),
        }
    }

    /// Whether a block holds nothing but `break`.
    fn only_breaks(&self, id: ExprId) -> bool {
        let is_break = |id: ExprId| matches!(self.tree.expr(id).kind, ExprKind::Break { label: None, value: None });
        match &self.tree.expr(id).kind {
            ExprKind::Block(block) => match (block.statements.as_slice(), block.value) {
                ([], Some(value)) => is_break(value),
                ([Statement::Expr(only)], None) => is_break(*only),
                _ => false,
            },
            _ => is_break(id),
        }
    }

    fn note_stop(&mut self, stop: Stop, span: Span) -> Eval<()> {
        if stop.negated {
            let d = Diagnostic::new(Code::Generation, span, "this loop goes on only while a token is the same");
            return Err(d.into());
        }
        let build = self.build(span)?;
        match &mut build.generation {
            Some(generation) if generation.active => {
                generation.stop.extend(stop.tokens);
                generation.reached.extend(stop.reached);
                Ok(())
            }
            _ => {
                let d = Diagnostic::new(
                    Code::Generation,
                    span,
                    "a condition on a sampled token outside of a loop over generated tokens",
                );
                Err(d.help("append sampled tokens to a list in a loop; `forward` without a loop is one step, which is repeated").into())
            }
        }
    }

    /// A sampled token as a tensor of the graph.
    pub(crate) fn sampled_node(&mut self, sampled: usize, span: Span) -> Eval<Node> {
        let build = self.build(span)?;
        let found = build.sampled[sampled].clone();
        if let Some(node) = found.node {
            return Ok(node);
        }
        let how = &found.how;
        let op = Op::Sample {
            method: how.method,
            temperature: (how.temperature as f32).into(),
            p: (how.p as f32).into(),
            k: how.k,
        };
        let node = self.op(op, &[found.row], span)?;
        if let Some(build) = &mut self.build {
            build.sampled[sampled].node = Some(node);
        }
        Ok(node)
    }
}
