//! The macros of `.rs` programs.

use super::expr::truth;
use super::pattern::Kind;
use super::{Reader, errors};
use crate::program::ast::{Arm, ExprId, ExprKind, MacroKind, Pattern, PatternKind, Piece};
use crate::program::{Code, Diagnostic, Span};
use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, Macro, Pat, Token};

/// How deep macros may nest: every level reads all that is inside once more.
const MAX_MACROS: usize = 32;

impl Reader<'_> {
    /// A call of a macro.
    pub(super) fn macro_expr(&mut self, call: &Macro) -> (ExprId, Span) {
        let (names, _, head) = self.path(&call.path);
        let span = head.to(self.span(call.delimiter.span().join()));
        if self.macros >= MAX_MACROS {
            let message = format!("macros are nested more than {MAX_MACROS} deep");
            self.error(Diagnostic::new(Code::Nesting, head, message).help("give parts a name with `let`"));
            return (self.nothing(span), span);
        }
        let name = names.last().map(|n| n.text.to_string()).unwrap_or_default();
        let head = Span { end: self.span(call.bang_token.spans[0]).end, ..head };
        self.macros += 1;
        let kind = self.expand(&name, head, span, &call.tokens);
        self.macros -= 1;
        let id = match kind {
            Some(kind) => self.tree.add(kind, span),
            None => self.nothing(span),
        };
        (id, span)
    }

    /// What a macro stands for; nothing after an error.
    fn expand(&mut self, name: &str, head: Span, span: Span, tokens: &TokenStream) -> Option<ExprKind> {
        use MacroKind::*;
        let text = |kind, subjects| Some((kind, subjects));
        let known = match name {
            "vec" => return self.list(span, tokens),
            "matches" => return self.matches(span, tokens),
            "format" => text(Format, 0),
            "panic" | "unreachable" | "todo" | "unimplemented" => text(Panic, 0),
            "assert" | "debug_assert" => text(Assert, 1),
            "assert_eq" | "debug_assert_eq" => text(AssertEq, 2),
            "assert_ne" | "debug_assert_ne" => text(AssertNe, 2),
            _ => None,
        };
        let Some((kind, count)) = known else {
            let help = match name {
                "println" | "eprintln" | "print" | "eprint" | "dbg" | "write" | "writeln" => {
                    "programs print nothing: what `forward` gives is the output"
                }
                "concat" | "format_args" | "stringify" => "use `format!`",
                "include_str" | "include_bytes" | "env" | "option_env" | "include" => {
                    "programs see no files and no environment"
                }
                "macro_rules" => "write a function",
                _ => {
                    "there are `vec!`, `format!`, `matches!`, `assert!`, `assert_eq!`, `assert_ne!`, `panic!`, \
                      `unreachable!`, `todo!` and `unimplemented!`"
                }
            };
            self.refuse(head, &format!("`{name}!` is"), help);
            return None;
        };
        let args = self.macro_args(span, tokens, Punctuated::<Expr, Token![,]>::parse_terminated)?;
        let args: Vec<&Expr> = args.iter().collect();
        if args.len() < count {
            let what = if count == 1 { "a condition" } else { "two values to compare" };
            self.error(Diagnostic::new(Code::Syntax, span, format!("`{name}!` takes {what}")));
            return None;
        }
        let (subjects, rest) = args.split_at(count);
        let subjects = subjects.iter().map(|e| self.condition(e)).collect();
        let pieces = match rest.split_first() {
            Some((format, args)) => self.format(name, format, args)?,
            None if kind == Format => {
                let error = Diagnostic::new(Code::Syntax, span, "`format!` takes a text");
                self.error(error.help("write `format!(\"…{}…\", value)`"));
                return None;
            }
            None => Vec::<Piece>::new(),
        };
        Some(ExprKind::Macro { kind, subjects, pieces })
    }

    /// `vec![a, b]` and `vec![x; n]`.
    fn list(&mut self, span: Span, tokens: &TokenStream) -> Option<ExprKind> {
        enum List {
            Elements(Punctuated<Expr, Token![,]>),
            Repeat(Box<(Expr, Expr)>),
        }
        let read = |input: ParseStream<'_>| -> syn::Result<List> {
            if input.is_empty() {
                return Ok(List::Elements(Punctuated::new()));
            }
            let first: Expr = input.parse()?;
            if input.peek(Token![;]) {
                input.parse::<Token![;]>()?;
                return Ok(List::Repeat(Box::new((first, input.parse()?))));
            }
            let mut all = Punctuated::new();
            all.push_value(first);
            while !input.is_empty() {
                all.push_punct(input.parse()?);
                if !input.is_empty() {
                    all.push_value(input.parse()?);
                }
            }
            Ok(List::Elements(all))
        };
        Some(match self.macro_args(span, tokens, read)? {
            List::Elements(all) => ExprKind::List(all.iter().map(|e| self.expr(e)).collect()),
            List::Repeat(pair) => ExprKind::Repeat(self.expr(&pair.0), self.expr(&pair.1)),
        })
    }

    /// `matches!(x, pattern if guard)`: a `match` that gives true or false.
    fn matches(&mut self, span: Span, tokens: &TokenStream) -> Option<ExprKind> {
        let read = |input: ParseStream<'_>| -> syn::Result<(Expr, Pat, Option<Expr>)> {
            let value = input.parse()?;
            input.parse::<Token![,]>()?;
            let pattern = Pat::parse_multi_with_leading_vert(input)?;
            let guard = match input.parse::<Option<Token![if]>>()? {
                Some(_) => Some(input.parse()?),
                None => None,
            };
            input.parse::<Option<Token![,]>>()?;
            Ok((value, pattern, guard))
        };
        let (value, pattern, guard) = self.macro_args(span, tokens, read)?;
        let value = self.expr(&value);
        let pattern = self.pattern(&pattern, Kind::Refutable);
        let guard = guard.map(|g| self.condition(&g));
        let [yes, no] = [true, false].map(|v| self.tree.add(truth(v), span));
        let otherwise = Pattern { kind: PatternKind::Wildcard, span };
        let arms = vec![Arm { pattern, guard, value: yes }, Arm { pattern: otherwise, guard: None, value: no }];
        Some(ExprKind::Match(value, arms))
    }

    /// Parses what stands between the brackets of a macro.
    fn macro_args<T>(
        &mut self,
        span: Span,
        tokens: &TokenStream,
        read: impl FnOnce(ParseStream<'_>) -> syn::Result<T>,
    ) -> Option<T> {
        match read.parse2(tokens.clone()) {
            Ok(read) => Some(read),
            Err(error) => {
                let end = Span { start: span.end.saturating_sub(1), end: span.end };
                for found in errors::within(&error, &self.positions, end) {
                    self.error(found);
                }
                None
            }
        }
    }
}
