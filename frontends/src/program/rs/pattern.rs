//! Patterns of `.rs` programs.

use super::Reader;
use crate::program::ast::{Literal, Name, Param, Pattern, PatternKind, Type, TypeKind};
use crate::program::{Code, Diagnostic, Span};
use std::collections::HashMap;
use std::sync::Arc;
use syn::{Expr, Member, Pat, RangeLimits};

/// Whether a pattern may fail to match. Where it may not, every single name is a variable, as in `let (B, T) = …`;
/// elsewhere a name that begins with a capital is a constant or variant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Refutable,
    Irrefutable,
}

/// What shares a name that it may not.
#[derive(Clone, Copy)]
enum Sharing {
    Parameters,
    Pattern,
}

impl Reader<'_> {
    /// A pattern, whose names differ.
    pub(super) fn pattern(&mut self, pat: &Pat, kind: Kind) -> Pattern {
        let pattern = self.part(pat, kind);
        self.distinct([&pattern], Sharing::Pattern);
        pattern
    }

    /// A pattern inside another one, or one of several parameters.
    pub(super) fn part(&mut self, pat: &Pat, kind: Kind) -> Pattern {
        let span = self.pattern_span(pat);
        let found = self.deeper(span, |r| r.pattern_kind(pat, span, kind)).unwrap_or(PatternKind::Wildcard);
        Pattern { kind: found, span }
    }

    fn patterns<'p>(&mut self, all: impl IntoIterator<Item = &'p Pat>, kind: Kind) -> Vec<Pattern> {
        all.into_iter().map(|p| self.part(p, kind)).collect()
    }

    fn pattern_kind(&mut self, pat: &Pat, span: Span, kind: Kind) -> PatternKind {
        match pat {
            Pat::Wild(_) => PatternKind::Wildcard,
            Pat::Ident(ident) => self.binding(ident, kind),
            Pat::Lit(lit) => PatternKind::Literal(self.literal(&lit.lit)),
            Pat::Range(range) => {
                let inclusive = matches!(range.limits, RangeLimits::Closed(_));
                let start = range.start.as_deref().and_then(|e| self.bound(e));
                let end = range.end.as_deref().and_then(|e| self.bound(e));
                PatternKind::Range { start, end, inclusive }
            }
            Pat::Path(path) => {
                if path.qself.is_some() {
                    self.refuse(span, "paths through traits (`<T as Trait>::NAME`) are", "name it directly");
                }
                PatternKind::Path(self.path(&path.path).0)
            }
            Pat::TupleStruct(tuple) => {
                let (path, _, _) = self.path(&tuple.path);
                PatternKind::TupleStruct(path, self.patterns(&tuple.elems, kind))
            }
            Pat::Struct(pat) => {
                let (path, _, _) = self.path(&pat.path);
                let fields = pat.fields.iter().map(|f| (self.member(&f.member), self.part(&f.pat, kind)));
                PatternKind::Struct { path, fields: fields.collect(), rest: pat.rest.is_some() }
            }
            Pat::Tuple(tuple) => PatternKind::Tuple(self.patterns(&tuple.elems, kind)),
            Pat::Slice(slice) => PatternKind::Slice(self.patterns(&slice.elems, kind)),
            Pat::Rest(_) => PatternKind::Rest(None),
            Pat::Or(or) => PatternKind::Or(self.patterns(&or.cases, kind)),
            Pat::Paren(paren) => self.part(&paren.pat, kind).kind,
            Pat::Reference(reference) => self.part(&reference.pat, kind).kind,
            Pat::Type(typed) => {
                let help = "types stand after the pattern of a `let` or of a parameter";
                self.error(Diagnostic::new(Code::Syntax, span, "a type inside a pattern").help(help));
                self.part(&typed.pat, kind).kind
            }
            Pat::Const(_) => self.refused_pattern(span, "`const` blocks in patterns are"),
            Pat::Macro(_) => self.refused_pattern(span, "macros in patterns are"),
            Pat::Guard(_) => self.refused_pattern(span, "`if` inside a pattern is"),
            _ => self.refused_pattern(span, "patterns of this kind are"),
        }
    }

    fn refused_pattern(&mut self, span: Span, what: &str) -> PatternKind {
        self.refuse(span, what, "bind a variable, and test it with `if` after the pattern of the arm");
        PatternKind::Wildcard
    }

    fn binding(&mut self, ident: &syn::PatIdent, kind: Kind) -> PatternKind {
        let name = self.name(&ident.ident);
        let plain = ident.by_ref.is_none() && ident.mutability.is_none();
        match &ident.subpat {
            Some((_, inner)) if matches!(**inner, Pat::Rest(_)) => PatternKind::Rest(Some(name)),
            Some((_, inner)) => {
                let inner = Some(Box::new(self.part(inner, kind)));
                PatternKind::Bind { name, mutable: ident.mutability.is_some(), inner }
            }
            None if plain && kind == Kind::Refutable && name.text.starts_with(char::is_uppercase) => {
                PatternKind::Path(vec![name])
            }
            None => PatternKind::Bind { name, mutable: ident.mutability.is_some(), inner: None },
        }
    }

    /// A bound of a range.
    fn bound(&mut self, bound: &Expr) -> Option<Literal> {
        if let Expr::Lit(lit) = bound {
            return Some(self.literal(&lit.lit));
        }
        let span = match bound {
            Expr::Path(path) => self.path(&path.path).2,
            _ => Span::default(),
        };
        self.refuse(span, "names as bounds of a range in a pattern are", "test it with `if` after the pattern");
        None
    }

    /// The name of a field; its number for a tuple.
    pub(super) fn member(&self, member: &Member) -> Name {
        match member {
            Member::Named(ident) => self.name(ident),
            Member::Unnamed(index) => Name { text: index.index.to_string().into(), span: self.span(index.span) },
        }
    }

    /// The parameter of a closure.
    pub(super) fn closure_param(&mut self, pat: &Pat) -> Param {
        let span = self.pattern_span(pat);
        let (pattern, ty) = match pat {
            Pat::Type(typed) => (self.part(&typed.pat, Kind::Irrefutable), self.ty(&typed.ty)),
            other => {
                let inferred = Type { kind: TypeKind::Inferred, span: Span::new(span.end as usize, span.end as usize) };
                (self.part(other, Kind::Irrefutable), inferred)
            }
        };
        Param { pattern, ty, span }
    }

    /// Reports names that parameters share.
    pub(super) fn distinct_params(&mut self, params: &[Param]) {
        self.distinct(params.iter().map(|p| &p.pattern), Sharing::Parameters);
    }

    fn distinct<'p>(&mut self, patterns: impl IntoIterator<Item = &'p Pattern>, sharing: Sharing) {
        let mut names = Vec::new();
        patterns.into_iter().for_each(|p| bound_names(p, &mut names));
        let mut seen: HashMap<Arc<str>, Span> = HashMap::new();
        for name in names {
            match seen.get(&name.text) {
                Some(&first) => {
                    let message = match sharing {
                        Sharing::Parameters => format!("two parameters are named `{}`", name.text),
                        Sharing::Pattern => format!("this pattern names `{}` twice", name.text),
                    };
                    let error = Diagnostic::new(Code::Twice, name.span, message).related(first, "the first");
                    self.error(error.help("give one of them another name, or write `_`"));
                }
                None => {
                    seen.insert(name.text.clone(), name.span);
                }
            }
        }
    }

    pub(super) fn pattern_span(&self, pat: &Pat) -> Span {
        match pat {
            Pat::Wild(p) => self.span(p.underscore_token.spans[0]),
            Pat::Ident(p) => {
                let name = self.span(p.ident.span());
                let name = p.mutability.map_or(name, |m| self.span(m.span).to(name));
                let name = p.by_ref.map_or(name, |r| self.span(r.span).to(name));
                p.subpat.as_ref().map_or(name, |(_, inner)| name.to(self.pattern_span(inner)))
            }
            Pat::Lit(p) => self.span(p.lit.span()),
            Pat::Range(p) => {
                let limits = match &p.limits {
                    RangeLimits::HalfOpen(t) => self.span(t.spans[0]).to(self.span(t.spans[1])),
                    RangeLimits::Closed(t) => self.span(t.spans[0]).to(self.span(t.spans[2])),
                };
                let ends = [&p.start, &p.end].into_iter().flatten().map(|e| self.bound_span(e));
                ends.fold(limits, Span::to)
            }
            Pat::Path(p) => self.segments_span(&p.path),
            Pat::TupleStruct(p) => self.segments_span(&p.path).to(self.span(p.paren_token.span.join())),
            Pat::Struct(p) => self.segments_span(&p.path).to(self.span(p.brace_token.span.join())),
            Pat::Tuple(p) => self.span(p.paren_token.span.join()),
            Pat::Slice(p) => self.span(p.bracket_token.span.join()),
            Pat::Rest(p) => self.span(p.dot2_token.spans[0]).to(self.span(p.dot2_token.spans[1])),
            Pat::Or(p) => match (p.cases.first(), p.cases.last()) {
                (Some(first), Some(last)) if p.cases.len() > 1 => self.pattern_span(first).to(self.pattern_span(last)),
                (only, _) => only.map(|p| self.pattern_span(p)).unwrap_or_default(),
            },
            Pat::Paren(p) => self.span(p.paren_token.span.join()),
            Pat::Reference(p) => self.span(p.and_token.spans[0]).to(self.pattern_span(&p.pat)),
            Pat::Type(p) => self.pattern_span(&p.pat).to(self.type_span(&p.ty)),
            Pat::Const(p) => self.span(p.const_token.span),
            Pat::Macro(p) => self.segments_span(&p.mac.path).to(self.span(p.mac.delimiter.span().join())),
            Pat::Guard(p) => self.pattern_span(&p.pat).to(self.span(p.if_token.span)),
            _ => Span::default(),
        }
    }

    fn bound_span(&self, bound: &Expr) -> Span {
        match bound {
            Expr::Lit(lit) => self.span(lit.lit.span()),
            Expr::Path(path) => self.segments_span(&path.path),
            _ => Span::default(),
        }
    }

    fn segments_span(&self, path: &syn::Path) -> Span {
        let ends = path.segments.first().zip(path.segments.last());
        ends.map(|(a, b)| self.span(a.ident.span()).to(self.span(b.ident.span()))).unwrap_or_default()
    }
}

/// The names that a pattern binds.
fn bound_names<'p>(pattern: &'p Pattern, out: &mut Vec<&'p Name>) {
    match &pattern.kind {
        PatternKind::Bind { name, inner, .. } => {
            out.push(name);
            if let Some(inner) = inner {
                bound_names(inner, out);
            }
        }
        PatternKind::Rest(name) => out.extend(name),
        PatternKind::TupleStruct(_, all) | PatternKind::Tuple(all) | PatternKind::Slice(all) => {
            all.iter().for_each(|p| bound_names(p, out));
        }
        PatternKind::Struct { fields, .. } => fields.iter().for_each(|(_, p)| bound_names(p, out)),
        // Every case binds the same names.
        PatternKind::Or(cases) => {
            if let Some(first) = cases.first() {
                bound_names(first, out);
            }
        }
        PatternKind::Wildcard | PatternKind::Literal(_) | PatternKind::Range { .. } | PatternKind::Path(_) => {}
    }
}
