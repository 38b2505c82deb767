//! Types and patterns of `.tri` programs.

use super::parser::{Failed, Parser, Read};
use super::token::{Key, Kind, Sign};
use crate::program::Span;
use crate::program::ast::{Literal, Name, Pattern, PatternKind, Type, TypeKind};

/// Types that are built in.
pub const TYPES: [&str; 6] = ["Field", "U32", "Bool", "Digest", "Config", "Message"];

impl Parser<'_> {
    /// A type.
    pub fn ty(&mut self) -> Read<Type> {
        self.deeper(|p| p.type_here())
    }

    fn type_here(&mut self) -> Read<Type> {
        let token = self.token();
        match token.kind {
            Kind::Name => {
                self.advance();
                let name = self.name_of(token);
                if self.is(Sign::Lt) {
                    let help = "lists are `[T; n]` and `&[T]`";
                    return Err(self.refuse(self.token().span(), "types with arguments are", help));
                }
                self.named.push(name.clone());
                Ok(Type { kind: TypeKind::Named(name.text, Vec::new()), span: name.span })
            }
            Kind::Sign(Sign::And | Sign::AndAnd) => {
                self.advance();
                let mutable = self.eat_key(Key::Mut);
                let of = self.ty()?;
                let span = token.span().to(of.span);
                let mut kind = TypeKind::Reference { mutable, of: Box::new(of) };
                if token.kind == Kind::Sign(Sign::AndAnd) {
                    let inner = Type { kind, span: Span { start: span.start + 1, end: span.end } };
                    kind = TypeKind::Reference { mutable: false, of: Box::new(inner) };
                }
                Ok(Type { kind, span })
            }
            Kind::Sign(Sign::BracketOpen) => {
                self.advance();
                self.lines(true, true, |p| {
                    let of = p.ty()?;
                    let length = if p.eat(Sign::Semicolon) { Some(p.expr()?) } else { None };
                    let closed = p.close(Sign::BracketClose, token)?;
                    let kind = match length {
                        Some(length) => TypeKind::Array(Box::new(of), length),
                        None => TypeKind::Slice(Box::new(of)),
                    };
                    Ok(Type { kind, span: token.span().to(closed.span()) })
                })
            }
            Kind::Sign(Sign::ParenOpen) => {
                let (mut all, span) = self.list(Sign::ParenClose, |p| p.ty())?;
                let comma = self.source.get(..span.end as usize - 1).is_some_and(|s| s.trim_end().ends_with(','));
                let kind = match all.pop() {
                    Some(only) if all.is_empty() && !comma => only.kind,
                    last => {
                        all.extend(last);
                        TypeKind::Tuple(all)
                    }
                };
                Ok(Type { kind, span })
            }
            _ => {
                let message = format!("expected a type, found {}", self.found());
                let help = format!("types are {}, `[T; n]`, `&[T]`, `(A, B)`, `&T` and structs", known_types());
                Err(self.mistake(self.gap(), message, help))
            }
        }
    }

    /// The pattern of a `let`, a `for` or a parameter: names, `_`, tuples.
    pub fn binding(&mut self) -> Read<Pattern> {
        self.deeper(|p| p.pattern_here(false))
    }

    /// The pattern of an arm of `match`.
    pub fn pattern(&mut self) -> Read<Pattern> {
        let mut all = vec![self.deeper(|p| p.pattern_here(true))?];
        while self.eat(Sign::Or) {
            all.push(self.deeper(|p| p.pattern_here(true))?);
        }
        let span = all.iter().map(|p| p.span).reduce(Span::to).unwrap_or_default();
        match all.pop() {
            Some(only) if all.is_empty() => Ok(only),
            last => {
                all.extend(last);
                Ok(Pattern { kind: PatternKind::Or(all), span })
            }
        }
    }

    /// A pattern; `values` stand in `match` alone.
    fn pattern_here(&mut self, values: bool) -> Read<Pattern> {
        let token = self.token();
        let span = token.span();
        let kind = match token.kind {
            Kind::Sign(Sign::Underscore) => {
                self.advance();
                PatternKind::Wildcard
            }
            Kind::Key(Key::Mut) => {
                self.advance();
                let name = self.name("a name")?;
                let span = span.to(name.span);
                return Ok(Pattern { kind: PatternKind::Bind { name, mutable: true, inner: None }, span });
            }
            Kind::Name => {
                self.advance();
                let name: Name = self.name_of(token);
                if values && name.text.starts_with(|c: char| c.is_ascii_uppercase()) {
                    PatternKind::Path(vec![name])
                } else {
                    PatternKind::Bind { name, mutable: false, inner: None }
                }
            }
            Kind::Sign(Sign::ParenOpen) => {
                let read = |p: &mut Self| if values { p.pattern() } else { p.binding() };
                let (all, span) = self.list(Sign::ParenClose, read)?;
                return Ok(Pattern { kind: PatternKind::Tuple(all), span });
            }
            Kind::Sign(Sign::Minus) if values => {
                self.advance();
                let number = self.token();
                if !matches!(number.kind, Kind::Int | Kind::Float) {
                    return Err(self.mistake(self.gap(), format!("expected a number, found {}", self.found()), ""));
                }
                self.advance();
                let literal = match self.literal(number)? {
                    Literal::Int(n, ty) => Literal::Int(-n, ty),
                    Literal::Float(x) => Literal::Float(-x),
                    other => other,
                };
                return Ok(Pattern { kind: PatternKind::Literal(literal), span: span.to(number.span()) });
            }
            Kind::Int | Kind::Float | Kind::Str | Kind::Key(Key::True | Key::False) if values => {
                self.advance();
                PatternKind::Literal(self.literal(token)?)
            }
            _ => return Err(self.no_pattern(values)),
        };
        Ok(Pattern { kind, span })
    }

    fn no_pattern(&mut self, values: bool) -> Failed {
        let what = if values { "a pattern" } else { "a name" };
        let message = format!("expected {what}, found {}", self.found());
        let help = match self.token().kind {
            Kind::Key(key) => format!("`{}` is a word of the language: choose another name", key.text()),
            _ if values => "patterns are literals, names, `_`, tuples, and several of them with `|` between".into(),
            _ => "write a name, `_`, or names in `( )`".into(),
        };
        self.mistake(self.gap(), message, help)
    }
}

/// The types that are built in, for messages.
pub fn known_types() -> String {
    TYPES.map(|t| format!("`{t}`")).join(", ")
}
