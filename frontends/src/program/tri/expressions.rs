//! Expressions of `.tri` programs.

use super::parser::{Failed, Parser, Read, begins_item};
use super::token::{Key, Kind, Sign, Token};
use crate::program::ast::{Arm, BinaryOp, Block, ExprId, ExprKind, Literal, Name, UnaryOp};
use crate::program::source::MAX_CHAIN;
use crate::program::{Code, Diagnostic, Span};

/// An operator between two values with its strength; comparisons do not follow each other.
fn binary(sign: Sign) -> Option<(BinaryOp, u8)> {
    Some(match sign {
        Sign::OrOr => (BinaryOp::Or, 1),
        Sign::AndAnd => (BinaryOp::And, 2),
        Sign::EqEq => (BinaryOp::Eq, COMPARE),
        Sign::Ne => (BinaryOp::Ne, COMPARE),
        Sign::Lt => (BinaryOp::Lt, COMPARE),
        Sign::Le => (BinaryOp::Le, COMPARE),
        Sign::Gt => (BinaryOp::Gt, COMPARE),
        Sign::Ge => (BinaryOp::Ge, COMPARE),
        Sign::Or => (BinaryOp::BitOr, 4),
        Sign::Caret => (BinaryOp::BitXor, 5),
        Sign::And => (BinaryOp::BitAnd, 6),
        Sign::Shl => (BinaryOp::Shl, 7),
        Sign::Shr => (BinaryOp::Shr, 7),
        Sign::Plus => (BinaryOp::Add, 8),
        Sign::Minus => (BinaryOp::Sub, 8),
        Sign::Star => (BinaryOp::Mul, 9),
        Sign::Slash => (BinaryOp::Div, 9),
        Sign::Percent => (BinaryOp::Rem, 9),
        _ => return None,
    })
}

/// The strength of comparisons.
const COMPARE: u8 = 3;

impl Parser<'_> {
    /// An expression.
    pub fn expr(&mut self) -> Read<ExprId> {
        self.deeper(|p| p.range())
    }

    fn range(&mut self) -> Read<ExprId> {
        let start = self.token();
        let from = match start.kind {
            Kind::Sign(Sign::Dots | Sign::DotsInclusive) => None,
            _ => Some(self.chain()?),
        };
        let token = self.token();
        let inclusive = match token.kind {
            Kind::Sign(Sign::Dots) => false,
            Kind::Sign(Sign::DotsInclusive) => true,
            _ => return from.ok_or(Failed),
        };
        self.advance();
        let end = if self.begins_value() && !self.line_ended() { Some(self.chain()?) } else { None };
        if inclusive && end.is_none() {
            return Err(self.mistake(self.gap(), "`..=` without an end", "write `0..=n`, or `0..` without an end"));
        }
        if let Kind::Sign(Sign::Dots | Sign::DotsInclusive) = self.token().kind {
            return Err(self.mistake(self.token().span(), "a range of ranges", "write `a..b`"));
        }
        let begin = from.map_or(token.span(), |id| self.whole(id));
        let span = begin.to(end.map_or(token.span(), |id| self.whole(id)));
        Ok(self.add(ExprKind::Range { start: from, end, inclusive }, span))
    }

    /// Whether a value can begin with the next token.
    fn begins_value(&self) -> bool {
        match self.token().kind {
            Kind::Name | Kind::Int | Kind::Float | Kind::Str => true,
            Kind::Key(key) => matches!(key, Key::True | Key::False | Key::If | Key::Match),
            Kind::Sign(Sign::BraceOpen) => self.structs,
            Kind::Sign(sign) => {
                matches!(sign, Sign::ParenOpen | Sign::BracketOpen | Sign::Minus | Sign::Bang | Sign::And | Sign::Star)
            }
            Kind::End => false,
        }
    }

    /// Values with operators between. Operators of any strength are one loop over two stacks, so that neither their
    /// number nor their strengths take stack of the machine.
    fn chain(&mut self) -> Read<ExprId> {
        let mut values = vec![self.unary()?];
        let mut waiting: Vec<(BinaryOp, u8)> = Vec::new();
        let mut count = 0usize;
        loop {
            let token = self.token();
            let Kind::Sign(sign) = token.kind else { break };
            let Some((op, strength)) = binary(sign) else { break };
            // At the beginning of a line these would begin a value.
            if token.fresh && !self.free && matches!(sign, Sign::Minus | Sign::Star | Sign::And) {
                break;
            }
            while let Some((before, _)) = waiting.pop_if(|(_, s)| *s >= strength) {
                self.join(&mut values, before);
            }
            if strength == COMPARE
                && let Some(ExprKind::Binary(first, ..)) = values.last().map(|id| &self.tree.expr(*id).kind)
                && compares(*first)
                && !self.bracketed(values.last().copied())
            {
                let help = "write `a < b && b < c`";
                return Err(self.mistake(token.span(), "comparisons do not follow each other", help));
            }
            count += 1;
            if count > MAX_CHAIN {
                return Err(self.long_chain(token));
            }
            self.advance();
            waiting.push((op, strength));
            values.push(self.unary()?);
        }
        while let Some((op, _)) = waiting.pop() {
            self.join(&mut values, op);
        }
        values.pop().ok_or(Failed)
    }

    /// Joins the last two values.
    fn join(&mut self, values: &mut Vec<ExprId>, op: BinaryOp) {
        if let (Some(right), Some(left)) = (values.pop(), values.pop()) {
            let span = self.whole(left).to(self.whole(right));
            let id = self.add(ExprKind::Binary(op, left, right), span);
            values.push(id);
        }
    }

    fn long_chain(&mut self, token: Token) -> Failed {
        let message = format!("more than {MAX_CHAIN} operators, calls and fields follow each other");
        self.error(Diagnostic::new(Code::Nesting, token.span(), message).help("give parts a name with `let`"));
        Failed
    }

    /// A value with operators before it.
    fn unary(&mut self) -> Read<ExprId> {
        let token = self.token();
        let Kind::Sign(sign) = token.kind else { return self.postfix() };
        if !matches!(sign, Sign::Minus | Sign::Bang | Sign::Star | Sign::And | Sign::AndAnd) {
            return self.postfix();
        }
        self.deeper(|p| {
            p.advance();
            let mutable = matches!(sign, Sign::And | Sign::AndAnd) && p.eat_key(Key::Mut);
            let of = p.unary()?;
            let span = token.span().to(p.whole(of));
            let id = match sign {
                Sign::Minus => p.add(ExprKind::Unary(UnaryOp::Neg, of), span),
                Sign::Bang => p.add(ExprKind::Unary(UnaryOp::Not, of), span),
                Sign::Star => p.add(ExprKind::Unary(UnaryOp::Deref, of), span),
                Sign::And => p.add(ExprKind::Ref { mutable, of }, span),
                _ => {
                    let inner = p.add(ExprKind::Ref { mutable, of }, Span { start: span.start + 1, ..span });
                    p.add(ExprKind::Ref { mutable: false, of: inner }, span)
                }
            };
            Ok(id)
        })
    }

    /// A value with calls, fields and indices after it.
    fn postfix(&mut self) -> Read<ExprId> {
        let mut id = self.primary()?;
        let mut count = 0usize;
        loop {
            let token = self.token();
            // A line that begins with a bracket is a new statement; one that begins with `.` goes on.
            let ended = token.fresh && !self.free;
            let start = self.whole(id);
            id = match token.kind {
                Kind::Sign(Sign::Dot) => self.member(id, start)?,
                Kind::Sign(Sign::Colons) => {
                    self.mistake(token.span(), "`::` between names", "write `.`: `tensor.embed(…)`");
                    self.member(id, start)?
                }
                Kind::Sign(Sign::ParenOpen) if !ended => {
                    let (args, end) = self.list(Sign::ParenClose, |p| p.argument())?;
                    self.add(ExprKind::Call(id, args), start.to(end))
                }
                Kind::Sign(Sign::BracketOpen) if !ended => {
                    self.advance();
                    let index = self.lines(true, true, |p| p.expr())?;
                    let closed = self.close(Sign::BracketClose, token)?;
                    self.add(ExprKind::Index(id, index), start.to(closed.span()))
                }
                _ => return Ok(id),
            };
            count += 1;
            if count > MAX_CHAIN {
                return Err(self.long_chain(token));
            }
        }
    }

    /// A value in a list: named arguments are a slip.
    fn argument(&mut self) -> Read<ExprId> {
        let id = self.expr()?;
        let token = self.token();
        if matches!(token.kind, Kind::Sign(Sign::Assign | Sign::Colon)) {
            let help = "arguments are told by their place: write the value alone";
            return Err(self.mistake(token.span(), "an argument with a name", help));
        }
        Ok(id)
    }

    /// `.name`, `.name(…)` or `.0`.
    fn member(&mut self, left: ExprId, start: Span) -> Read<ExprId> {
        self.advance();
        let token = self.token();
        if token.kind == Kind::Int && !token.fresh {
            self.advance();
            let name = self.name_of(token);
            if name.text.bytes().any(|b| !b.is_ascii_digit()) {
                return Err(self.mistake(token.span(), "the number of a field has digits alone", ""));
            }
            let span = start.to(name.span);
            return Ok(self.add(ExprKind::Field(left, name), span));
        }
        // `match` and the like may be names of functions of a module.
        let name = match token.kind {
            Kind::Key(_) if !token.fresh => {
                self.advance();
                self.name_of(token)
            }
            _ => self.name("a name after `.`")?,
        };
        let next = self.token();
        if next.kind == Kind::Sign(Sign::ParenOpen) && (!next.fresh || self.free) {
            let (args, end) = self.list(Sign::ParenClose, |p| p.argument())?;
            let kind = ExprKind::Method { receiver: left, name, types: Vec::new(), args };
            return Ok(self.add(kind, start.to(end)));
        }
        let span = start.to(name.span);
        Ok(self.add(ExprKind::Field(left, name), span))
    }

    fn primary(&mut self) -> Read<ExprId> {
        let token = self.token();
        let span = token.span();
        match token.kind {
            Kind::Name => {
                self.advance();
                let name = self.name_of(token);
                if self.is(Sign::BraceOpen) && self.structs && !self.token().fresh {
                    return self.struct_literal(name);
                }
                Ok(self.add(ExprKind::Path(vec![name], Vec::new()), span))
            }
            Kind::Int | Kind::Float | Kind::Str | Kind::Key(Key::True | Key::False) => {
                self.advance();
                let literal = self.literal(token)?;
                Ok(self.add(ExprKind::Literal(literal), span))
            }
            Kind::Sign(Sign::ParenOpen) => self.parens(),
            Kind::Sign(Sign::BracketOpen) => self.bracket_list(),
            Kind::Sign(Sign::BraceOpen) => self.block(),
            Kind::Key(Key::If) => self.branch(),
            Kind::Key(Key::Match) => self.choice(),
            Kind::Key(Key::Return) => {
                self.advance();
                let value = self.rest_of_line()?;
                let span = value.map_or(span, |id| span.to(self.whole(id)));
                Ok(self.add(ExprKind::Return(value), span))
            }
            Kind::Key(Key::Break) => {
                self.advance();
                let value = self.rest_of_line()?;
                let span = value.map_or(span, |id| span.to(self.whole(id)));
                Ok(self.add(ExprKind::Break { label: None, value }, span))
            }
            Kind::Key(Key::Continue) => {
                self.advance();
                Ok(self.add(ExprKind::Continue(None), span))
            }
            _ => Err(self.no_value(token)),
        }
    }

    /// A value, if one stands on this line.
    fn rest_of_line(&mut self) -> Read<Option<ExprId>> {
        if self.begins_value() && !self.line_ended() { self.expr().map(Some) } else { Ok(None) }
    }

    fn no_value(&mut self, token: Token) -> Failed {
        let message = format!("expected a value, found {}", self.found());
        let help = match token.kind {
            Kind::Sign(Sign::Or | Sign::OrOr) => "there are no closures: write a function",
            Kind::Sign(Sign::Hash) => "comments begin with `//`",
            Kind::Sign(Sign::Dot) => "numbers begin with a digit: `0.5`",
            Kind::Sign(Sign::Assign) => "equality is `==`",
            Kind::Key(Key::For | Key::While | Key::Loop) => "loops are statements, and have no value",
            Kind::Key(Key::Let) => "`let` begins a statement, and is no value",
            Kind::Key(key) if begins_item(key) => "functions stand outside each other",
            Kind::Key(Key::Else) => "`else` stands after the `}` of an `if`",
            _ => "",
        };
        self.mistake(self.gap(), message, help)
    }

    /// `( )`: a value, or a tuple.
    fn parens(&mut self) -> Read<ExprId> {
        let opened = self.advance();
        self.lines(true, true, |p| {
            if p.is(Sign::ParenClose) {
                let span = opened.span().to(p.advance().span());
                return Ok(p.add(ExprKind::Tuple(Vec::new()), span));
            }
            let first = p.expr()?;
            if !p.eat(Sign::Comma) {
                let closed = p.close(Sign::ParenClose, opened)?;
                p.brackets.insert(first, opened.span().to(closed.span()));
                return Ok(first);
            }
            let mut all = vec![first];
            while !p.is(Sign::ParenClose) {
                all.push(p.expr()?);
                if !p.eat(Sign::Comma) {
                    break;
                }
            }
            let closed = p.close(Sign::ParenClose, opened)?;
            Ok(p.add(ExprKind::Tuple(all), opened.span().to(closed.span())))
        })
    }

    /// `[a, b]` or `[x; n]`.
    fn bracket_list(&mut self) -> Read<ExprId> {
        let opened = self.advance();
        self.lines(true, true, |p| {
            let mut all = Vec::new();
            while !p.is(Sign::BracketClose) {
                all.push(p.expr()?);
                if all.len() == 1 && p.eat(Sign::Semicolon) {
                    let count = p.expr()?;
                    let closed = p.close(Sign::BracketClose, opened)?;
                    return Ok(p.add(ExprKind::Repeat(all[0], count), opened.span().to(closed.span())));
                }
                if !p.eat(Sign::Comma) {
                    break;
                }
            }
            let closed = p.close(Sign::BracketClose, opened)?;
            Ok(p.add(ExprKind::List(all), opened.span().to(closed.span())))
        })
    }

    fn struct_literal(&mut self, name: Name) -> Read<ExprId> {
        let start = name.span;
        let mut names = std::collections::HashSet::new();
        let (fields, end) = self.list(Sign::BraceClose, |p| {
            let field = p.name("the name of a field")?;
            if !names.insert(field.text.clone()) {
                let message = format!("the field `{}` is given twice", field.text);
                p.error(Diagnostic::new(Code::Twice, field.span, message).help("delete one of them"));
            }
            if p.eat(Sign::Colon) {
                return Ok((field, p.expr()?));
            }
            if p.is(Sign::Assign) {
                return Err(p.mistake(p.token().span(), "`=` after a field", "write `name: value`"));
            }
            let value = p.add(ExprKind::Path(vec![field.clone()], Vec::new()), field.span);
            Ok((field, value))
        })?;
        Ok(self.add(ExprKind::Struct { path: vec![name], fields, base: None }, start.to(end)))
    }

    /// `if`, with any number of `else if`: read in order, joined from the last.
    fn branch(&mut self) -> Read<ExprId> {
        let mut parts = Vec::new();
        let mut otherwise = None;
        loop {
            let start = self.advance();
            let condition = self.condition()?;
            let then = self.block()?;
            parts.push((start.span(), condition, then));
            if parts.len() > MAX_CHAIN {
                return Err(self.long_chain(start));
            }
            if !self.is_key(Key::Else) {
                break;
            }
            self.advance();
            if self.is_key(Key::If) {
                continue;
            }
            otherwise = Some(self.block()?);
            break;
        }
        for (start, condition, then) in parts.into_iter().rev() {
            let span = start.to(self.whole(otherwise.unwrap_or(then)));
            otherwise = Some(self.add(ExprKind::If { condition, then, otherwise }, span));
        }
        otherwise.ok_or(Failed)
    }

    fn choice(&mut self) -> Read<ExprId> {
        let start = self.advance();
        let of = self.head()?;
        if !self.is(Sign::BraceOpen) {
            let message = format!("expected `{{` and arms, found {}", self.found());
            return Err(self.mistake(self.gap(), message, "write `match x { 0 => …, _ => … }`"));
        }
        let opened = self.advance();
        let mut arms = Vec::new();
        while !self.is(Sign::BraceClose) && self.token().kind != Kind::End {
            arms.push(self.lines(false, true, |p| p.arm())?);
            let token = self.token();
            let block = self.before().is_some_and(|t| t.kind == Kind::Sign(Sign::BraceClose));
            if !self.eat(Sign::Comma) && !token.fresh && !block && !self.is(Sign::BraceClose) {
                let message = format!("expected `,` after the arm, found {}", self.found());
                return Err(self.mistake(token.span(), message, "arms have a `,` or a new line between them"));
            }
        }
        let closed = self.close(Sign::BraceClose, opened)?;
        Ok(self.add(ExprKind::Match(of, arms), start.span().to(closed.span())))
    }

    fn arm(&mut self) -> Read<Arm> {
        let pattern = self.pattern()?;
        let guard = if self.eat_key(Key::If) { Some(self.condition()?) } else { None };
        if !self.is(Sign::FatArrow) {
            let message = format!("expected `=>` after the pattern, found {}", self.found());
            let help = match self.token().kind {
                Kind::Sign(Sign::Arrow | Sign::Colon | Sign::Assign) => "arms are written `pattern => value`",
                _ => "patterns are literals, names, `_`, tuples, and several of them with `|` between",
            };
            return Err(self.mistake(self.gap(), message, help));
        }
        self.advance();
        let (value, assigns) = self.assignment()?;
        if !assigns {
            return Ok(Arm { pattern, guard, value });
        }
        // An assignment is a statement, and has no value.
        let span = self.whole(value);
        let statements = vec![crate::program::ast::Statement::Expr(value)];
        let value = self.add(ExprKind::Block(Block { label: None, statements, value: None }), span);
        Ok(Arm { pattern, guard, value })
    }

    /// The value of a literal.
    pub fn literal(&mut self, token: Token) -> Read<Literal> {
        let text = self.text(token);
        match token.kind {
            Kind::Key(key) => Ok(Literal::Bool(key == Key::True)),
            Kind::Int => self.integer(text, token.span()),
            Kind::Float => {
                let plain: String = text.chars().filter(|c| *c != '_').collect();
                match plain.parse::<f64>() {
                    Ok(value) if value.is_finite() => Ok(Literal::Float(value)),
                    _ => {
                        Err(self.bad_literal(token.span(), "the number cannot be read", "numbers are `0.5` and `1e-6`"))
                    }
                }
            }
            _ => self.string(text, token.span()),
        }
    }

    fn integer(&mut self, text: &str, span: Span) -> Read<Literal> {
        let (digits, radix) = match text.get(..2) {
            Some("0x") => (&text[2..], 16),
            Some("0b") => (&text[2..], 2),
            Some("0o") => (&text[2..], 8),
            _ => (text, 10),
        };
        let digits: String = digits.chars().filter(|c| *c != '_').collect();
        if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
            let help = "numbers are `12`, `1_000`, `0xff` and `0b101`, without a type after them";
            return Err(self.bad_literal(span, "the number cannot be read", help));
        }
        match i128::from_str_radix(&digits, radix) {
            Ok(value) => Ok(Literal::Int(value, None)),
            Err(_) => {
                let help = format!("the largest whole number here is {}", i128::MAX);
                Err(self.bad_literal(span, "the number is too large", &help))
            }
        }
    }

    /// The text between quotes, with its escapes.
    fn string(&mut self, text: &str, span: Span) -> Read<Literal> {
        let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).filter(|_| text.len() >= 2);
        // A text without an end was reported when its token was read.
        let Some(inner) = inner else { return Ok(Literal::Str(text.into())) };
        let mut out = String::with_capacity(inner.len());
        let mut chars = inner.char_indices();
        while let Some((at, c)) = chars.next() {
            if c != '\\' {
                out.push(c);
                continue;
            }
            let place = span.start as usize + 1 + at;
            let escape = chars.next().map_or('\0', |(_, c)| c);
            match escape {
                'n' => out.push('\n'),
                'r' => out.push('\r'),
                't' => out.push('\t'),
                '0' => out.push('\0'),
                '\\' | '"' | '\'' => out.push(escape),
                'u' => {
                    let rest = chars.as_str();
                    let read = rest.strip_prefix('{').and_then(|r| r.split_once('}'));
                    let c = read.and_then(|(digits, _)| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
                    let Some((c, (digits, _))) = c.zip(read) else {
                        let at = Span::new(place, place + 2);
                        return Err(self.bad_literal(
                            at,
                            "the escape cannot be read",
                            "write `\\u{e9}`, with 1 to 6 digits",
                        ));
                    };
                    out.push(c);
                    chars.nth(digits.len() + 1);
                }
                other => {
                    let at = Span::new(place, place + 1 + other.len_utf8());
                    let message = format!("`\\{other}` is no escape");
                    let help = "escapes are `\\n`, `\\r`, `\\t`, `\\0`, `\\\\`, `\\\"` and `\\u{e9}`";
                    return Err(self.bad_literal(at, &message, help));
                }
            }
        }
        Ok(Literal::Str(out.into()))
    }

    fn bad_literal(&mut self, span: Span, message: &str, help: &str) -> Failed {
        self.error(Diagnostic::new(Code::Literal, span, message).help(help));
        Failed
    }

    /// Whether brackets stand around an expression.
    fn bracketed(&self, id: Option<ExprId>) -> bool {
        id.is_some_and(|id| self.brackets.contains_key(&id))
    }
}

fn compares(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge)
}
