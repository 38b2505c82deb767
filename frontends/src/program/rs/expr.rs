//! Expressions and statements of `.rs` programs.

use super::Reader;
use super::pattern::Kind;
use crate::program::ast::{
    Arm, BinaryOp, Block, ExprId, ExprKind, Literal, Name, Pattern, PatternKind, Statement, UnaryOp,
};
use crate::program::source::MAX_CHAIN;
use crate::program::{Code, Diagnostic, Span};
use syn::{BinOp, Expr, Label, Lifetime, Pat, RangeLimits, Stmt, UnOp};

impl Reader<'_> {
    /// An expression.
    pub(super) fn expr(&mut self, expr: &Expr) -> ExprId {
        self.spanned(expr).0
    }

    /// An expression and all that it covers: brackets around it are no expression of their own.
    ///
    /// Operators, calls and fields that follow each other are one loop, so that their number takes no stack.
    pub(super) fn spanned(&mut self, expr: &Expr) -> (ExprId, Span) {
        let mut links = Vec::new();
        let mut base = expr;
        while let Some(inner) = left(base) {
            links.push(base);
            base = inner;
        }
        let at = self.first_span(base);
        if links.len() > MAX_CHAIN {
            let message =
                format!("{} operators, calls and fields follow each other; the most is {MAX_CHAIN}", links.len());
            let help = "give parts a name with `let`";
            self.error(Diagnostic::new(Code::Nesting, at, message).help(help));
            return (self.nothing(at), at);
        }
        let read = self.deeper(at, |r| {
            let base = r.base(base);
            links.into_iter().rev().fold(base, |(left, span), link| r.link(link, left, span))
        });
        match read {
            Some(read) => read,
            None => (self.nothing(at), at),
        }
    }

    /// Adds a link of a chain whose left part is read.
    fn link(&mut self, link: &Expr, left: ExprId, start: Span) -> (ExprId, Span) {
        match link {
            Expr::Binary(e) => {
                let (right, end) = self.spanned(&e.right);
                let span = start.to(end);
                let (op, assigns) = binary(&e.op);
                let kind = match (op, assigns) {
                    (Some(op), false) => ExprKind::Binary(op, left, right),
                    (Some(op), true) => ExprKind::AssignOp(op, left, right),
                    (None, _) => {
                        self.refuse(span, "this operator is", "");
                        ExprKind::Tuple(Vec::new())
                    }
                };
                (self.tree.add(kind, span), span)
            }
            Expr::MethodCall(e) => {
                let span = start.to(self.span(e.paren_token.span.join()));
                let name = self.name(&e.method);
                let types = e.turbofish.as_ref().map(|list| self.listed(list)).unwrap_or_default();
                let args = e.args.iter().map(|a| self.expr(a)).collect();
                (self.tree.add(ExprKind::Method { receiver: left, name, types, args }, span), span)
            }
            Expr::Call(e) => {
                let span = start.to(self.span(e.paren_token.span.join()));
                let args = e.args.iter().map(|a| self.expr(a)).collect();
                (self.tree.add(ExprKind::Call(left, args), span), span)
            }
            Expr::Field(e) => {
                let name = self.member(&e.member);
                let span = start.to(name.span);
                (self.tree.add(ExprKind::Field(left, name), span), span)
            }
            Expr::Index(e) => {
                let index = self.expr(&e.index);
                let span = start.to(self.span(e.bracket_token.span.join()));
                (self.tree.add(ExprKind::Index(left, index), span), span)
            }
            Expr::Cast(e) => {
                let ty = self.ty(&e.ty);
                let span = start.to(ty.span);
                (self.tree.add(ExprKind::Cast(left, ty), span), span)
            }
            Expr::Try(e) => {
                let span = start.to(self.span(e.question_token.spans[0]));
                (self.tree.add(ExprKind::Try(left), span), span)
            }
            Expr::Await(e) => {
                let span = self.span(e.await_token.span);
                self.refuse(span, "`await` is", "calls are in order, and wait by themselves");
                (left, start.to(span))
            }
            Expr::Paren(e) => (left, self.span(e.paren_token.span.join())),
            // `left` gives no other.
            _ => (left, start),
        }
    }

    /// What is no link of a chain.
    fn base(&mut self, expr: &Expr) -> (ExprId, Span) {
        let (kind, span) = match expr {
            Expr::Lit(e) => {
                let value = self.literal(&e.lit);
                (ExprKind::Literal(value), self.span(e.lit.span()))
            }
            Expr::Path(e) => {
                let (names, types, span) = self.path(&e.path);
                if e.qself.is_some() {
                    self.refuse(span, "paths through traits (`<T as Trait>::name`) are", "name the type: `T::name`");
                }
                (ExprKind::Path(names, types), span)
            }
            Expr::Macro(e) => return self.macro_expr(&e.mac),
            Expr::Array(e) => {
                let elements = e.elems.iter().map(|x| self.expr(x)).collect();
                (ExprKind::List(elements), self.span(e.bracket_token.span.join()))
            }
            Expr::Tuple(e) => {
                let elements = e.elems.iter().map(|x| self.expr(x)).collect();
                (ExprKind::Tuple(elements), self.span(e.paren_token.span.join()))
            }
            Expr::Repeat(e) => {
                let kind = ExprKind::Repeat(self.expr(&e.expr), self.expr(&e.len));
                (kind, self.span(e.bracket_token.span.join()))
            }
            Expr::Unary(e) => {
                self.negated = matches!((&e.op, &*e.expr), (UnOp::Neg(_), Expr::Lit(_)));
                let (of, end) = self.spanned(&e.expr);
                let (op, start) = match &e.op {
                    UnOp::Neg(t) => (UnaryOp::Neg, t.spans[0]),
                    UnOp::Not(t) => (UnaryOp::Not, t.spans[0]),
                    UnOp::Deref(t) => (UnaryOp::Deref, t.spans[0]),
                    _ => {
                        self.refuse(end, "this operator is", "");
                        return (of, end);
                    }
                };
                (ExprKind::Unary(op, of), self.span(start).to(end))
            }
            Expr::Reference(e) => {
                let (of, end) = self.spanned(&e.expr);
                (ExprKind::Ref { mutable: e.mutability.is_some(), of }, self.span(e.and_token.spans[0]).to(end))
            }
            Expr::Assign(e) => return self.assignment(e),
            Expr::Range(e) => return self.range(e),
            Expr::Let(e) => {
                let pattern = self.pattern(&e.pat, Kind::Refutable);
                let (value, end) = self.spanned(&e.expr);
                (ExprKind::Let(pattern, value), self.span(e.let_token.span).to(end))
            }
            Expr::If(e) => return self.branch(e),
            Expr::Match(e) => {
                let (of, _) = self.spanned(&e.expr);
                let arms = e.arms.iter().map(|a| self.arm(a)).collect();
                let span = self.span(e.match_token.span).to(self.span(e.brace_token.span.join()));
                (ExprKind::Match(of, arms), span)
            }
            Expr::Block(e) => {
                let id = self.block_expr(&e.block, e.label.as_ref());
                return (id, self.tree.expr(id).span);
            }
            Expr::Loop(_) | Expr::While(_) | Expr::ForLoop(_) => self.repetition(expr),
            Expr::Break(e) => {
                let label = e.label.as_ref().map(|l| self.lifetime(l));
                let mut span = self.span(e.break_token.span);
                span = label.as_ref().map_or(span, |l| span.to(l.span));
                let value = e.expr.as_ref().map(|x| self.spanned(x));
                span = value.map_or(span, |(_, end)| span.to(end));
                (ExprKind::Break { label, value: value.map(|v| v.0) }, span)
            }
            Expr::Continue(e) => {
                let label = e.label.as_ref().map(|l| self.lifetime(l));
                let span = self.span(e.continue_token.span);
                let span = label.as_ref().map_or(span, |l| span.to(l.span));
                (ExprKind::Continue(label), span)
            }
            Expr::Return(e) => {
                let value = e.expr.as_ref().map(|x| self.spanned(x));
                let span = self.span(e.return_token.span);
                (ExprKind::Return(value.map(|v| v.0)), value.map_or(span, |(_, end)| span.to(end)))
            }
            Expr::Closure(e) => self.closure(e),
            Expr::Struct(e) => self.struct_literal(e),
            other => {
                let span = self.first_span(other);
                let (what, help) = refused(other);
                self.refuse(span, what, help);
                (ExprKind::Tuple(Vec::new()), span)
            }
        };
        (self.tree.add(kind, span), span)
    }

    fn assignment(&mut self, e: &syn::ExprAssign) -> (ExprId, Span) {
        if let Expr::Infer(blank) = &*e.left {
            // `_ = x` evaluates x alone.
            let (value, end) = self.spanned(&e.right);
            let start = self.span(blank.underscore_token.spans[0]);
            let span = start.to(end);
            let pattern = Pattern { kind: PatternKind::Wildcard, span: start };
            let statement = Statement::Let { pattern, ty: None, value: Some(value), otherwise: None, span };
            let block = Block { label: None, statements: vec![statement], value: None };
            return (self.tree.add(ExprKind::Block(block), span), span);
        }
        let (to, start) = self.spanned(&e.left);
        let (value, end) = self.spanned(&e.right);
        let span = start.to(end);
        (self.tree.add(ExprKind::Assign(to, value), span), span)
    }

    fn range(&mut self, e: &syn::ExprRange) -> (ExprId, Span) {
        let (mut span, inclusive) = match &e.limits {
            RangeLimits::HalfOpen(t) => (self.span(t.spans[0]).to(self.span(t.spans[1])), false),
            RangeLimits::Closed(t) => (self.span(t.spans[0]).to(self.span(t.spans[2])), true),
        };
        let mut ends = [&e.start, &e.end].map(|end| end.as_ref().map(|x| self.spanned(x)));
        for (_, end) in ends.iter_mut().flatten() {
            span = span.to(*end);
        }
        let [start, end] = ends.map(|end| end.map(|(id, _)| id));
        (self.tree.add(ExprKind::Range { start, end, inclusive }, span), span)
    }

    /// `if`, with any number of `else if`: read in order, joined from the last.
    fn branch(&mut self, first: &syn::ExprIf) -> (ExprId, Span) {
        let mut parts = Vec::new();
        let mut at = first;
        let mut otherwise = loop {
            if parts.len() > MAX_CHAIN {
                let span = self.span(at.if_token.span);
                let message = format!("more than {MAX_CHAIN} `else if` follow each other");
                self.error(Diagnostic::new(Code::Nesting, span, message).help("use `match`, or a list"));
                break None;
            }
            let condition = self.condition(&at.cond);
            let then = self.block_expr(&at.then_branch, None);
            parts.push((self.span(at.if_token.span), condition, then));
            match at.else_branch.as_ref().map(|(_, e)| &**e) {
                Some(Expr::If(next)) => at = next,
                Some(other) => break Some(self.expr(other)),
                None => break None,
            }
        };
        let mut span = Span::default();
        for (start, condition, then) in parts.into_iter().rev() {
            span = start.to(self.tree.expr(otherwise.unwrap_or(then)).span);
            otherwise = Some(self.tree.add(ExprKind::If { condition, then, otherwise }, span));
        }
        (otherwise.unwrap_or_else(|| self.nothing(span)), span)
    }

    /// The condition of an `if`, `while` or guard.
    pub(super) fn condition(&mut self, expr: &Expr) -> ExprId {
        if let Expr::Assign(e) = expr {
            let span = self.span(e.eq_token.spans[0]);
            let error = Diagnostic::new(Code::Syntax, span, "`=` in a condition");
            self.error(error.help("`==` compares; `=` assigns"));
        }
        self.expr(expr)
    }

    fn arm(&mut self, arm: &syn::Arm) -> Arm {
        let (pattern, guard) = match &arm.pat {
            Pat::Guard(guarded) => (self.pattern(&guarded.pat, Kind::Refutable), Some(self.condition(&guarded.guard))),
            pat => (self.pattern(pat, Kind::Refutable), None),
        };
        Arm { pattern, guard, value: self.expr(&arm.body) }
    }

    fn repetition(&mut self, expr: &Expr) -> (ExprKind, Span) {
        let (label, start, kind, body) = match expr {
            Expr::Loop(e) => {
                let label = self.label(e.label.as_ref());
                let body = self.block_expr(&e.body, None);
                (label.clone(), self.span(e.loop_token.span), ExprKind::Loop { label, body }, body)
            }
            Expr::While(e) => {
                let label = self.label(e.label.as_ref());
                let condition = self.condition(&e.cond);
                let body = self.block_expr(&e.body, None);
                (label.clone(), self.span(e.while_token.span), ExprKind::While { label, condition, body }, body)
            }
            Expr::ForLoop(e) => {
                let label = self.label(e.label.as_ref());
                let pattern = self.pattern(&e.pat, Kind::Irrefutable);
                let iter = self.expr(&e.expr);
                let body = self.block_expr(&e.body, None);
                let kind = ExprKind::For { label: label.clone(), pattern, iter, bound: None, body };
                (label, self.span(e.for_token.span), kind, body)
            }
            _ => return (ExprKind::Tuple(Vec::new()), Span::default()),
        };
        let span = label.map_or(start, |l| l.span.to(start)).to(self.tree.expr(body).span);
        (kind, span)
    }

    fn closure(&mut self, e: &syn::ExprClosure) -> (ExprKind, Span) {
        let start = self.span(e.inputs_begin.spans[0]);
        for token in e.asyncness.map(|t| t.span).into_iter().chain(e.constness.map(|t| t.span)) {
            let span = self.span(token);
            self.refuse(span, "`async` and `const` closures are", "write a plain closure");
        }
        let params: Vec<_> = e.inputs.iter().map(|p| self.closure_param(p)).collect();
        self.distinct_params(&params);
        let ty = self.result(&e.output);
        let (mut body, end) = self.spanned(&e.body);
        if let Some(ty) = ty {
            // `|x| -> T { … }` is `|x| { let result: T = { … }; result }`: closures of the tree have no type.
            let name = Name { text: "result".into(), span: end };
            let pattern =
                Pattern { kind: PatternKind::Bind { name: name.clone(), mutable: false, inner: None }, span: end };
            let value = Some(self.tree.add(ExprKind::Path(vec![name], Vec::new()), end));
            let statement = Statement::Let { pattern, ty: Some(ty), value: Some(body), otherwise: None, span: end };
            body = self.tree.add(ExprKind::Block(Block { label: None, statements: vec![statement], value }), end);
        }
        (ExprKind::Closure { params, body }, start.to(end))
    }

    fn struct_literal(&mut self, e: &syn::ExprStruct) -> (ExprKind, Span) {
        let (path, _, start) = self.path(&e.path);
        let span = start.to(self.span(e.brace_token.span.join()));
        if e.qself.is_some() {
            self.refuse(start, "paths through traits (`<T as Trait>::name`) are", "name the type");
        }
        let mut fields: Vec<(Name, ExprId)> = Vec::with_capacity(e.fields.len());
        let mut seen = std::collections::HashSet::new();
        for field in &e.fields {
            let name = self.member(&field.member);
            if !seen.insert(name.text.clone()) {
                let message = format!("the field `{}` is given twice", name.text);
                self.error(Diagnostic::new(Code::Twice, name.span, message).help("delete one of them"));
            }
            fields.push((name, self.expr(&field.expr)));
        }
        if let (Some(dots), None) = (&e.dot2_token, &e.rest) {
            let at = self.span(dots.spans[0]).to(self.span(dots.spans[1]));
            let error = Diagnostic::new(Code::Syntax, at, "`..` without a struct after it");
            self.error(error.help("write `..base`, the struct that the other fields come from"));
        }
        let base = e.rest.as_ref().map(|x| self.expr(x));
        (ExprKind::Struct { path, fields, base }, span)
    }

    fn label(&mut self, label: Option<&Label>) -> Option<Name> {
        label.map(|l| self.lifetime(&l.name))
    }

    /// A label, without its apostrophe.
    fn lifetime(&mut self, lifetime: &Lifetime) -> Name {
        Name { text: lifetime.ident.to_string().into(), span: self.span(lifetime.span()) }
    }

    /// A block.
    pub(super) fn block_expr(&mut self, block: &syn::Block, label: Option<&Label>) -> ExprId {
        let label = self.label(label);
        let span = self.span(block.brace_token.span.join());
        let (statements, value) = self.block(block);
        self.tree.add(ExprKind::Block(Block { label, statements, value }), span)
    }

    fn block(&mut self, block: &syn::Block) -> (Vec<Statement>, Option<ExprId>) {
        let mut statements = Vec::with_capacity(block.stmts.len());
        let mut value = None;
        // Constants of a block are known from its beginning.
        for stmt in &block.stmts {
            if let Stmt::Item(syn::Item::Const(item)) = stmt {
                statements.push(self.local_const(item));
            }
        }
        let last = block.stmts.len().saturating_sub(1);
        for (i, stmt) in block.stmts.iter().enumerate() {
            match stmt {
                Stmt::Local(local) => statements.push(self.local(local)),
                Stmt::Item(syn::Item::Const(_)) => {}
                Stmt::Item(item) => {
                    let owner = self.owner.take();
                    self.item(item);
                    self.owner = owner;
                }
                Stmt::Expr(Expr::Verbatim(tokens), _) if tokens.is_empty() => {}
                Stmt::Expr(expr, semicolon) => {
                    let id = self.expr(expr);
                    if i == last && semicolon.is_none() {
                        value = Some(id);
                    } else {
                        statements.push(Statement::Expr(id));
                    }
                }
                Stmt::Macro(stmt) => {
                    let (id, _) = self.macro_expr(&stmt.mac);
                    if i == last && stmt.semi_token.is_none() {
                        value = Some(id);
                    } else {
                        statements.push(Statement::Expr(id));
                    }
                }
            }
        }
        (statements, value)
    }

    fn local_const(&mut self, item: &syn::ItemConst) -> Statement {
        let name = self.name(&item.ident);
        let pattern = Pattern { span: name.span, kind: PatternKind::Bind { name, mutable: false, inner: None } };
        let ty = Some(self.ty(&item.ty));
        let value = Some(self.expr(&item.expr));
        let span = self.span(item.const_token.span).to(self.span(item.semi_token.spans[0]));
        Statement::Let { pattern, ty, value, otherwise: None, span }
    }

    fn local(&mut self, local: &syn::Local) -> Statement {
        let diverges = local.init.as_ref().is_some_and(|init| init.diverge.is_some());
        let kind = if diverges { Kind::Refutable } else { Kind::Irrefutable };
        let (pattern, ty) = match &local.pat {
            Pat::Type(typed) => (self.pattern(&typed.pat, kind), Some(self.ty(&typed.ty))),
            pat => (self.pattern(pat, kind), None),
        };
        let value = local.init.as_ref().map(|init| self.expr(&init.expr));
        let otherwise = local.init.as_ref().and_then(|i| i.diverge.as_ref()).map(|(_, e)| self.expr(e));
        let span = self.span(local.let_token.span).to(self.span(local.semi_token.spans[0]));
        Statement::Let { pattern, ty, value, otherwise, span }
    }

    /// The first token of an expression that is no chain: where it is shown when it is refused.
    fn first_span(&self, expr: &Expr) -> Span {
        let span = match expr {
            Expr::Array(e) => e.bracket_token.span.join(),
            Expr::Async(e) => e.async_token.span,
            Expr::Block(e) => e.block.brace_token.span.open(),
            Expr::Break(e) => e.break_token.span,
            Expr::Closure(e) => e.inputs_begin.spans[0],
            Expr::Const(e) => e.const_token.span,
            Expr::Continue(e) => e.continue_token.span,
            Expr::ForLoop(e) => e.for_token.span,
            Expr::If(e) => e.if_token.span,
            Expr::Infer(e) => e.underscore_token.spans[0],
            Expr::Let(e) => e.let_token.span,
            Expr::Lit(e) => e.lit.span(),
            Expr::Loop(e) => e.loop_token.span,
            Expr::Macro(e) => e.mac.bang_token.spans[0],
            Expr::Match(e) => e.match_token.span,
            Expr::Path(e) => return self.first_segment(&e.path),
            Expr::Struct(e) => return self.first_segment(&e.path),
            Expr::Range(e) => match &e.limits {
                RangeLimits::HalfOpen(t) => t.spans[0],
                RangeLimits::Closed(t) => t.spans[0],
            },
            Expr::RawAddr(e) => e.and_token.spans[0],
            Expr::Reference(e) => e.and_token.spans[0],
            Expr::Repeat(e) => e.bracket_token.span.open(),
            Expr::Return(e) => e.return_token.span,
            Expr::TryBlock(e) => e.try_token.span,
            Expr::Tuple(e) => e.paren_token.span.open(),
            Expr::Unary(e) => match &e.op {
                UnOp::Neg(t) => t.spans[0],
                UnOp::Not(t) => t.spans[0],
                UnOp::Deref(t) => t.spans[0],
                _ => return Span::default(),
            },
            Expr::Unsafe(e) => e.unsafe_token.span,
            Expr::Verbatim(tokens) => return self.tokens_span(tokens),
            Expr::While(e) => e.while_token.span,
            Expr::Yield(e) => e.yield_token.span,
            Expr::Assign(e) => e.eq_token.spans[0],
            _ => return Span::default(),
        };
        self.span(span)
    }

    fn first_segment(&self, path: &syn::Path) -> Span {
        path.segments.first().map(|s| self.span(s.ident.span())).unwrap_or_default()
    }
}

/// The left part of what continues a chain.
fn left(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Binary(e) => Some(&e.left),
        Expr::MethodCall(e) => Some(&e.receiver),
        Expr::Call(e) => Some(&e.func),
        Expr::Field(e) => Some(&e.base),
        Expr::Index(e) => Some(&e.expr),
        Expr::Cast(e) => Some(&e.expr),
        Expr::Try(e) => Some(&e.expr),
        Expr::Await(e) => Some(&e.base),
        Expr::Paren(e) => Some(&e.expr),
        Expr::Group(e) => Some(&e.expr),
        _ => None,
    }
}

/// The operator, and whether it assigns.
fn binary(op: &BinOp) -> (Option<BinaryOp>, bool) {
    use BinaryOp as B;
    let (op, assigns) = match op {
        BinOp::Add(_) => (B::Add, false),
        BinOp::Sub(_) => (B::Sub, false),
        BinOp::Mul(_) => (B::Mul, false),
        BinOp::Div(_) => (B::Div, false),
        BinOp::Rem(_) => (B::Rem, false),
        BinOp::And(_) => (B::And, false),
        BinOp::Or(_) => (B::Or, false),
        BinOp::BitXor(_) => (B::BitXor, false),
        BinOp::BitAnd(_) => (B::BitAnd, false),
        BinOp::BitOr(_) => (B::BitOr, false),
        BinOp::Shl(_) => (B::Shl, false),
        BinOp::Shr(_) => (B::Shr, false),
        BinOp::Eq(_) => (B::Eq, false),
        BinOp::Lt(_) => (B::Lt, false),
        BinOp::Le(_) => (B::Le, false),
        BinOp::Ne(_) => (B::Ne, false),
        BinOp::Ge(_) => (B::Ge, false),
        BinOp::Gt(_) => (B::Gt, false),
        BinOp::AddAssign(_) => (B::Add, true),
        BinOp::SubAssign(_) => (B::Sub, true),
        BinOp::MulAssign(_) => (B::Mul, true),
        BinOp::DivAssign(_) => (B::Div, true),
        BinOp::RemAssign(_) => (B::Rem, true),
        BinOp::BitXorAssign(_) => (B::BitXor, true),
        BinOp::BitAndAssign(_) => (B::BitAnd, true),
        BinOp::BitOrAssign(_) => (B::BitOr, true),
        BinOp::ShlAssign(_) => (B::Shl, true),
        BinOp::ShrAssign(_) => (B::Shr, true),
        _ => return (None, false),
    };
    (Some(op), assigns)
}

/// What an expression is that programs have not, and what to write.
fn refused(expr: &Expr) -> (&'static str, &'static str) {
    match expr {
        Expr::Async(_) => ("`async` is", "calls are in order, and wait by themselves"),
        Expr::Unsafe(_) => ("`unsafe` is", "programs touch no memory"),
        Expr::Const(_) => ("`const` blocks are", "everything that can be known while compiling is: delete `const`"),
        Expr::Yield(_) => ("`yield` is", "push the value to a list"),
        Expr::TryBlock(_) => ("`try` blocks are", "write a function, and `?` inside it"),
        Expr::RawAddr(_) => ("raw pointers are", "write `&x`"),
        Expr::Infer(_) => ("`_` as a value is", "`_` stands in patterns and as the left side of `=` alone"),
        _ => ("expressions of this kind are", ""),
    }
}

/// A true or false value, for patterns that macros make.
pub(super) fn truth(value: bool) -> ExprKind {
    ExprKind::Literal(Literal::Bool(value))
}
