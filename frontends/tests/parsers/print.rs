//! A compact form of trees, in which goldens are written.

use std::fmt::Write as _;
use tallow_frontends::program::ast::*;

/// The tree of a program: items, one expression after its operator in brackets, a line for each statement.
pub fn print(tree: &Tree) -> String {
    let mut printer = Printer { tree, out: String::new(), indent: 0 };
    for def in &tree.structs {
        printer.line(&format!("struct {}", fields(tree, def)));
    }
    for def in &tree.enums {
        let variants: Vec<String> = def.variants.iter().map(|v| fields(tree, v)).collect();
        printer.line(&format!("enum {} = {}", def.name.text, variants.join(" | ")));
    }
    for constant in &tree.consts {
        let name = owned(&constant.owner, &constant.name);
        let value = printer.expr(constant.value);
        printer.line(&format!("const {name}: {} = {value}", ty(tree, &constant.ty)));
    }
    for f in &tree.functions {
        let params: Vec<String> = f.params.iter().map(|p| param(tree, p)).collect();
        let result = f.result.as_ref().map(|t| format!(" -> {}", ty(tree, t))).unwrap_or_default();
        let public = if f.public { "pub " } else { "" };
        printer.line(&format!("{public}fn {}({}){result}", owned(&f.owner, &f.name), params.join(", ")));
        printer.body(f.body);
    }
    printer.out
}

fn owned(owner: &Option<std::sync::Arc<str>>, name: &Name) -> String {
    owner.as_ref().map_or(name.text.to_string(), |owner| format!("{owner}::{}", name.text))
}

fn fields(tree: &Tree, def: &StructDef) -> String {
    let all: Vec<String> = def.fields.iter().map(|(n, t)| format!("{}: {}", n.text, ty(tree, t))).collect();
    format!("{} {{{}}}", def.name.text, all.join(", "))
}

fn param(tree: &Tree, param: &Param) -> String {
    match &param.ty.kind {
        TypeKind::Inferred => pattern(&param.pattern),
        _ => format!("{}: {}", pattern(&param.pattern), ty(tree, &param.ty)),
    }
}

fn ty(tree: &Tree, t: &Type) -> String {
    let list = |all: &[Type]| all.iter().map(|t| ty(tree, t)).collect::<Vec<_>>().join(", ");
    match &t.kind {
        TypeKind::Inferred => "_".into(),
        TypeKind::Named(name, args) if args.is_empty() => name.to_string(),
        TypeKind::Named(name, args) => format!("{name}<{}>", list(args)),
        TypeKind::Reference { mutable, of } => format!("&{}{}", if *mutable { "mut " } else { "" }, ty(tree, of)),
        TypeKind::Slice(of) => format!("[{}]", ty(tree, of)),
        TypeKind::Array(of, n) => {
            let mut printer = Printer { tree, out: String::new(), indent: 0 };
            format!("[{}; {}]", ty(tree, of), printer.expr(*n))
        }
        TypeKind::Tuple(all) => format!("({})", list(all)),
        TypeKind::Opaque => "opaque".into(),
    }
}

fn path(names: &[Name]) -> String {
    names.iter().map(|n| &*n.text).collect::<Vec<_>>().join("::")
}

fn literal(l: &Literal) -> String {
    match l {
        Literal::Int(n, None) => n.to_string(),
        Literal::Int(n, Some(t)) => format!("{n}{}", t.name()),
        Literal::Float(x) => format!("{x:?}"),
        Literal::Str(s) => format!("{s:?}"),
        Literal::Bytes(b) => format!("b{:?}", String::from_utf8_lossy(b)),
        Literal::Char(c) => format!("{c:?}"),
        Literal::Bool(b) => b.to_string(),
    }
}

fn pattern(p: &Pattern) -> String {
    let list = |all: &[Pattern]| all.iter().map(pattern).collect::<Vec<_>>().join(", ");
    match &p.kind {
        PatternKind::Wildcard => "_".into(),
        PatternKind::Bind { name, mutable, inner } => {
            let inner = inner.as_ref().map(|p| format!(" @ {}", pattern(p))).unwrap_or_default();
            format!("{}{}{inner}", if *mutable { "mut " } else { "" }, name.text)
        }
        PatternKind::Literal(l) => literal(l),
        PatternKind::Range { start, end, inclusive } => {
            let [start, end] = [start, end].map(|l| l.as_ref().map(literal).unwrap_or_default());
            format!("{start}..{}{end}", if *inclusive { "=" } else { "" })
        }
        PatternKind::Path(names) => format!("'{}", path(names)),
        PatternKind::TupleStruct(names, all) => format!("{}({})", path(names), list(all)),
        PatternKind::Struct { path: names, fields, rest } => {
            let fields: Vec<String> = fields.iter().map(|(n, p)| format!("{}: {}", n.text, pattern(p))).collect();
            format!("{} {{{}{}}}", path(names), fields.join(", "), if *rest { ", .." } else { "" })
        }
        PatternKind::Tuple(all) => format!("({})", list(all)),
        PatternKind::Slice(all) => format!("[{}]", list(all)),
        PatternKind::Rest(name) => name.as_ref().map_or("..".into(), |n| format!("{} @ ..", n.text)),
        PatternKind::Or(all) => all.iter().map(pattern).collect::<Vec<_>>().join(" | "),
    }
}

struct Printer<'a> {
    tree: &'a Tree,
    out: String,
    indent: usize,
}

impl Printer<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", self.indent * 2);
    }

    /// The statements of a block, one a line, one level deeper.
    fn body(&mut self, block: ExprId) {
        let text = self.block(block);
        self.out.push_str(&text);
    }

    fn block(&mut self, block: ExprId) -> String {
        let ExprKind::Block(block) = &self.tree.expr(block).kind else { return format!("?{}", self.expr(block)) };
        let mut inner = Printer { tree: self.tree, out: String::new(), indent: self.indent + 1 };
        if let Some(label) = &block.label {
            inner.line(&format!("label {}", label.text));
        }
        for statement in &block.statements {
            let text = match statement {
                Statement::Expr(id) => inner.expr(*id),
                Statement::Let { pattern: p, ty: t, value, otherwise, .. } => {
                    let t = t.as_ref().map(|t| format!(": {}", ty(self.tree, t))).unwrap_or_default();
                    let value = value.map(|v| format!(" = {}", inner.expr(v))).unwrap_or_default();
                    let otherwise = otherwise.map(|o| format!(" else{}", inner.nested(o))).unwrap_or_default();
                    format!("let {}{t}{value}{otherwise}", pattern(p))
                }
            };
            inner.line(&text);
        }
        if let Some(value) = block.value {
            let text = format!("=> {}", inner.expr(value));
            inner.line(&text);
        }
        inner.out
    }

    /// A block inside an expression.
    fn nested(&mut self, block: ExprId) -> String {
        let text = self.block(block);
        if text.is_empty() { " {}".into() } else { format!(" {{\n{text}{:1$}}}", "", self.indent * 2) }
    }

    fn list(&mut self, head: &str, all: &[ExprId]) -> String {
        let all: Vec<String> = all.iter().map(|e| self.expr(*e)).collect();
        if all.is_empty() { format!("({head})") } else { format!("({head} {})", all.join(" ")) }
    }

    fn maybe(&mut self, e: Option<ExprId>) -> String {
        e.map_or("_".into(), |e| self.expr(e))
    }

    fn expr(&mut self, id: ExprId) -> String {
        let label = |l: &Option<Name>| l.as_ref().map(|l| format!(" '{}", l.text)).unwrap_or_default();
        let tree = self.tree;
        let types = |all: &[Type]| {
            let all: Vec<String> = all.iter().map(|t| ty(tree, t)).collect();
            if all.is_empty() { String::new() } else { format!("<{}>", all.join(", ")) }
        };
        match &tree.expr(id).kind {
            ExprKind::Literal(l) => literal(l),
            ExprKind::Path(names, t) => format!("{}{}", path(names), types(t)),
            ExprKind::Field(e, name) => format!("{}.{}", self.expr(*e), name.text),
            ExprKind::Index(a, b) => self.list("index", &[*a, *b]),
            ExprKind::Call(f, args) => {
                let f = self.expr(*f);
                self.list(&format!("call {f}"), args)
            }
            ExprKind::Method { receiver, name, types: t, args } => {
                let receiver = self.expr(*receiver);
                self.list(&format!("{receiver} .{}{}", name.text, types(t)), args)
            }
            ExprKind::Unary(op, e) => {
                let op = match op {
                    UnaryOp::Neg => "-",
                    UnaryOp::Not => "!",
                    UnaryOp::Deref => "deref",
                };
                self.list(op, &[*e])
            }
            ExprKind::Ref { mutable, of } => self.list(if *mutable { "ref mut" } else { "ref" }, &[*of]),
            ExprKind::Binary(op, a, b) => self.list(op.symbol(), &[*a, *b]),
            ExprKind::Assign(a, b) => self.list("=", &[*a, *b]),
            ExprKind::AssignOp(op, a, b) => self.list(&format!("{}=", op.symbol()), &[*a, *b]),
            ExprKind::Cast(e, t) => format!("({} as {})", self.expr(*e), ty(tree, t)),
            ExprKind::Range { start, end, inclusive } => {
                let (start, end) = (self.maybe(*start), self.maybe(*end));
                format!("({} {start} {end})", if *inclusive { "..=" } else { ".." })
            }
            ExprKind::Let(p, e) => format!("(let {} {})", pattern(p), self.expr(*e)),
            ExprKind::If { condition, then, otherwise } => {
                let condition = self.expr(*condition);
                let then = self.nested(*then);
                let otherwise = otherwise.map(|o| match &tree.expr(o).kind {
                    ExprKind::Block(_) => format!(" else{}", self.nested(o)),
                    _ => format!(" else {}", self.expr(o)),
                });
                format!("if {condition}{then}{}", otherwise.unwrap_or_default())
            }
            ExprKind::Match(e, arms) => {
                let mut out = format!("match {} {{\n", self.expr(*e));
                self.indent += 1;
                for arm in arms {
                    let guard = arm.guard.map(|g| format!(" if {}", self.expr(g))).unwrap_or_default();
                    let value = self.expr(arm.value);
                    let _ = writeln!(out, "{:2$}{}{guard} => {value}", "", pattern(&arm.pattern), self.indent * 2);
                }
                self.indent -= 1;
                format!("{out}{:1$}}}", "", self.indent * 2)
            }
            ExprKind::Block(_) => format!("do{}", self.nested(id)),
            ExprKind::For { label: l, pattern: p, iter, bound, body } => {
                let iter = self.expr(*iter);
                let bound = bound.map(|b| format!(" bounded {}", self.expr(b))).unwrap_or_default();
                format!("for{} {} in {iter}{bound}{}", label(l), pattern(p), self.nested(*body))
            }
            ExprKind::While { label: l, condition, body } => {
                format!("while{} {}{}", label(l), self.expr(*condition), self.nested(*body))
            }
            ExprKind::Loop { label: l, body } => format!("loop{}{}", label(l), self.nested(*body)),
            ExprKind::Break { label: l, value } => {
                let value = value.map(|v| format!(" {}", self.expr(v))).unwrap_or_default();
                format!("(break{}{value})", label(l))
            }
            ExprKind::Continue(l) => format!("(continue{})", label(l)),
            ExprKind::Return(value) => {
                format!("(return{})", value.map(|v| format!(" {}", self.expr(v))).unwrap_or_default())
            }
            ExprKind::Closure { params, body } => {
                let params: Vec<String> = params.iter().map(|p| param(tree, p)).collect();
                format!("(|{}| {})", params.join(", "), self.expr(*body))
            }
            ExprKind::Tuple(all) => self.list("tuple", all),
            ExprKind::List(all) => self.list("list", all),
            ExprKind::Repeat(e, n) => self.list("repeat", &[*e, *n]),
            ExprKind::Struct { path: names, fields, base } => {
                let mut all: Vec<String> =
                    fields.iter().map(|(n, e)| format!("{}: {}", n.text, self.expr(*e))).collect();
                all.extend(base.map(|b| format!("..{}", self.expr(b))));
                format!("(struct {} {{{}}})", path(names), all.join(", "))
            }
            ExprKind::Macro { kind, subjects, pieces } => {
                let name = match kind {
                    MacroKind::Format => "format!",
                    MacroKind::Panic => "panic!",
                    MacroKind::Assert => "assert!",
                    MacroKind::AssertEq => "assert_eq!",
                    MacroKind::AssertNe => "assert_ne!",
                };
                let mut all: Vec<String> = subjects.iter().map(|e| self.expr(*e)).collect();
                all.extend(pieces.iter().map(|piece| match piece {
                    Piece::Text(text) => format!("{text:?}"),
                    Piece::Value { value, spec } => format!("{{{}{}}}", self.expr(*value), show_spec(spec)),
                }));
                format!("({name} {})", all.join(" ")).replace(" )", ")")
            }
            ExprKind::Try(e) => self.list("?", &[*e]),
        }
    }
}

fn show_spec(spec: &FormatSpec) -> String {
    if *spec == FormatSpec::default() {
        return String::new();
    }
    let mut out = String::from(":");
    out.extend(spec.fill);
    out.extend(spec.align);
    for (set, c) in [(spec.plus, '+'), (spec.alternate, '#'), (spec.zero, '0')] {
        out.extend(set.then_some(c));
    }
    let _ = write!(out, "{}", spec.width.map(|w| w.to_string()).unwrap_or_default());
    let _ = write!(out, "{}", spec.precision.map(|p| format!(".{p}")).unwrap_or_default());
    out.extend(spec.kind);
    out
}
