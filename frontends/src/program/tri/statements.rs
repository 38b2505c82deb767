//! Blocks and statements of `.tri` programs.

use super::parser::{Failed, Parser, Read, begins_item, ends_open};
use super::token::{Key, Kind, Sign, Token};
use crate::program::ast::{BinaryOp, Block, ExprId, ExprKind, Statement};
use crate::program::{Code, Diagnostic, Span};

/// What a line of a block is.
enum Line {
    Statement(Statement),
    /// An expression: the value of the block if nothing follows. Whether it ends with a block.
    Value(ExprId, bool),
}

impl Parser<'_> {
    /// A block. Its line ends count, whatever is around it.
    pub fn block(&mut self) -> Read<ExprId> {
        if !self.is(Sign::BraceOpen) {
            let message = format!("expected `{{` and a block, found {}", self.found());
            let token = self.token();
            let help = match self.text(token) {
                "and" => "write `&&`",
                "or" => "write `||`",
                "then" | "do" => "delete it: blocks are written `{ … }`",
                _ => "blocks are written `{ … }`",
            };
            return Err(self.mistake(self.gap(), message, help));
        }
        self.lines(false, true, |p| p.block_here())
    }

    fn block_here(&mut self) -> Read<ExprId> {
        let opened = self.advance();
        let mut statements = Vec::new();
        let mut value: Option<ExprId> = None;
        loop {
            while self.eat(Sign::Semicolon) {
                statements.extend(value.take().map(Statement::Expr));
            }
            let token = self.token();
            match token.kind {
                Kind::Sign(Sign::BraceClose) => {
                    self.advance();
                    self.compare_indent(opened, token);
                    let span = opened.span().to(token.span());
                    return Ok(self.add(ExprKind::Block(Block { label: None, statements, value }), span));
                }
                Kind::End => return Err(self.not_closed(opened)),
                Kind::Key(key) if token.fresh && begins_item(key) => {
                    if self.indent(token) <= self.indent(opened) || self.inside.is_some() {
                        return Err(self.not_closed(opened));
                    }
                    self.inner_item(token)?;
                    continue;
                }
                _ => {}
            }
            statements.extend(value.take().map(Statement::Expr));
            let open = self.open;
            let place = self.place();
            self.begin = place;
            match self.line() {
                Ok(Line::Statement(statement)) => statements.push(statement),
                Ok(Line::Value(id, _)) => value = Some(id),
                Err(Failed) => {
                    (self.free, self.structs) = (false, true);
                    self.skip_statement(open);
                    if self.place() == place && !self.is(Sign::BraceClose) {
                        self.advance();
                    }
                }
            }
        }
    }

    /// An item inside a block, further right than the block: it was meant to be there.
    fn inner_item(&mut self, token: Token) -> Read<()> {
        let message = format!("`{}` inside a function", self.text(token));
        self.mistake(token.span(), message, "functions, structs and `use` stand outside functions: move it there");
        let mut module = None;
        self.inside = Some(token.span());
        self.begin = self.place();
        let read = self.item(&mut module);
        self.inside = None;
        read
    }

    /// One statement and the end of its line.
    fn line(&mut self) -> Read<Line> {
        let start = self.place();
        let line = self.statement()?;
        let block = match &line {
            Line::Statement(Statement::Expr(_)) => {
                self.before().is_some_and(|t| t.kind == Kind::Sign(Sign::BraceClose))
            }
            Line::Statement(_) => false,
            Line::Value(_, block) => *block,
        };
        let token = self.token();
        let ends = matches!(token.kind, Kind::End | Kind::Sign(Sign::Semicolon | Sign::BraceClose));
        if ends || block {
            return Ok(line);
        }
        if token.fresh {
            return match token.kind {
                Kind::Sign(sign @ (Sign::Minus | Sign::Star | Sign::And)) => Err(self.ambiguous(token, sign)),
                _ => Ok(line),
            };
        }
        Err(self.line_goes_on(token, start))
    }

    /// A line begins with a sign that could go on with the one before, or begin a value.
    fn ambiguous(&mut self, token: Token, sign: Sign) -> Failed {
        let text = sign.text();
        let message = format!("does this line go on with the one before, or does a value begin with `{text}`?");
        let help = format!(
            "to go on, end the line before with `{text}`, or put brackets around all of it; to begin a value, end the line \
             before with `;`"
        );
        self.mistake(token.span(), message, help)
    }

    /// Something stands after a statement on its line.
    fn line_goes_on(&mut self, token: Token, start: usize) -> Failed {
        let first = self.token_at(start);
        let message = format!("expected the end of the line, found {}", self.found());
        let text = self.text(token);
        let help = match token.kind {
            Kind::Sign(Sign::Assign) => "the left side of `=` is a variable, a field or an element".into(),
            Kind::Sign(Sign::Colons) => "write `.` instead of `::`".into(),
            Kind::Sign(Sign::Colon) => "the type of a variable is given by `let`: `let name: Type = …`".into(),
            Kind::Sign(Sign::Question) => "there are no errors to pass on: delete `?`".into(),
            Kind::Sign(Sign::Hash) => "comments begin with `//`".into(),
            Kind::Name if text == "as" => "write `convert.as_field(x)` for another form of a number".into(),
            Kind::Name if text == "and" => "write `&&`".into(),
            Kind::Name if text == "or" => "write `||`".into(),
            Kind::Name if matches!(self.text(first), "var" | "mut" | "auto") => {
                "variables are made with `let`, or `let mut`".into()
            }
            Kind::Sign(Sign::BracketClose | Sign::ParenClose) => format!("delete `{text}`, or look for what it closes"),
            Kind::Key(Key::Else) => "write `else` after the `}` of the `if`".into(),
            _ => "statements have a new line or `;` between them; a value may lack an operator or `,`".to_string(),
        };
        self.mistake(token.span(), message, help)
    }

    fn statement(&mut self) -> Read<Line> {
        let token = self.token();
        match token.kind {
            Kind::Key(Key::Let) => self.variable().map(Line::Statement),
            Kind::Key(Key::For | Key::While | Key::Loop) => {
                let id = self.deeper(|p| p.repetition())?;
                Ok(Line::Statement(Statement::Expr(id)))
            }
            Kind::Key(Key::Const) => {
                let help = "move it before the function, or write `let`";
                Err(self.mistake(token.span(), "`const` inside a function", help))
            }
            Kind::Key(Key::Mut) => Err(self.mistake(token.span(), "`mut` without `let`", "write `let mut name = …`")),
            _ => {
                let block = matches!(token.kind, Kind::Key(Key::If | Key::Match) | Kind::Sign(Sign::BraceOpen));
                let (id, assigns) = self.assignment()?;
                if assigns {
                    return Ok(Line::Statement(Statement::Expr(id)));
                }
                let block = block && self.before().is_some_and(|t| t.kind == Kind::Sign(Sign::BraceClose));
                Ok(Line::Value(id, block))
            }
        }
    }

    /// An expression, or an assignment to one; whether it assigns.
    pub fn assignment(&mut self) -> Read<(ExprId, bool)> {
        let left = self.expr()?;
        let token = self.token();
        if token.fresh && !self.free {
            return Ok((left, false));
        }
        let op = match token.kind {
            Kind::Sign(sign) => match sign {
                Sign::Assign => None,
                Sign::AddAssign => Some(BinaryOp::Add),
                Sign::SubAssign => Some(BinaryOp::Sub),
                Sign::MulAssign => Some(BinaryOp::Mul),
                Sign::DivAssign => Some(BinaryOp::Div),
                Sign::RemAssign => Some(BinaryOp::Rem),
                Sign::AndAssign => Some(BinaryOp::BitAnd),
                Sign::OrAssign => Some(BinaryOp::BitOr),
                Sign::XorAssign => Some(BinaryOp::BitXor),
                Sign::ShlAssign => Some(BinaryOp::Shl),
                Sign::ShrAssign => Some(BinaryOp::Shr),
                _ => return Ok((left, false)),
            },
            _ => return Ok((left, false)),
        };
        let place = matches!(
            self.tree.expr(left).kind,
            ExprKind::Path(..) | ExprKind::Field(..) | ExprKind::Index(..) | ExprKind::Tuple(_) | ExprKind::Unary(..)
        );
        if !place {
            let help = "the left side of `=` is a variable, a field or an element; equality is `==`";
            let left = self.whole(left);
            return Err(self.mistake(left, "this cannot be assigned to", help));
        }
        self.advance();
        let right = self.expr()?;
        let span = self.whole(left).to(self.whole(right));
        let kind = match op {
            None => ExprKind::Assign(left, right),
            Some(op) => ExprKind::AssignOp(op, left, right),
        };
        Ok((self.add(kind, span), true))
    }

    fn variable(&mut self) -> Read<Statement> {
        let start = self.advance();
        let pattern = self.binding()?;
        let ty = if self.eat(Sign::Colon) { Some(self.ty()?) } else { None };
        let value = if self.is(Sign::Assign) {
            self.advance();
            Some(self.expr()?)
        } else {
            let token = self.token();
            if !token.fresh && !matches!(token.kind, Kind::End | Kind::Sign(Sign::Semicolon | Sign::BraceClose)) {
                let message = format!("expected `=` and a value, found {}", self.found());
                let help = match token.kind {
                    Kind::Sign(Sign::EqEq) => "a value is given with `=`; `==` compares",
                    Kind::Name => "names are one word: join them with `_`; the type stands after `:`",
                    _ => "write `let name = value`",
                };
                return Err(self.mistake(token.span(), message, help));
            }
            None
        };
        let end = self.before().map_or(start.span(), |t| t.span());
        Ok(Statement::Let { pattern, ty, value, otherwise: None, span: start.span().to(end) })
    }

    fn repetition(&mut self) -> Read<ExprId> {
        let start = self.advance();
        let kind = match start.kind {
            Kind::Key(Key::For) => {
                let pattern = self.binding()?;
                if !self.is_key(Key::In) {
                    let message = format!("expected `in`, found {}", self.found());
                    return Err(self.mistake(self.gap(), message, "write `for i in 0..n { … }`"));
                }
                self.advance();
                let iter = self.head()?;
                let bound = if self.eat_key(Key::Bounded) { Some(self.head()?) } else { None };
                let body = self.block()?;
                ExprKind::For { label: None, pattern, iter, bound, body }
            }
            Kind::Key(Key::While) => {
                let condition = self.condition()?;
                let body = self.block()?;
                ExprKind::While { label: None, condition, body }
            }
            _ => ExprKind::Loop { label: None, body: self.block()? },
        };
        let end = self.before().map_or(start.span(), |t| t.span());
        Ok(self.add(kind, start.span().to(end)))
    }

    /// An expression before a block: `Name {` begins no struct there.
    pub fn head(&mut self) -> Read<ExprId> {
        self.lines(false, false, |p| p.expr())
    }

    /// The condition of an `if` or `while`.
    pub fn condition(&mut self) -> Read<ExprId> {
        let id = self.head()?;
        let token = self.token();
        if token.kind == Kind::Sign(Sign::Assign) {
            return Err(self.mistake(token.span(), "`=` in a condition", "`==` compares; `=` assigns"));
        }
        Ok(id)
    }

    /// Remembers a block whose end stands further left or right than the line of its beginning.
    fn compare_indent(&mut self, opened: Token, closed: Token) {
        if closed.fresh && self.indent(closed) != self.indent(opened) && self.suspect.is_none() {
            self.suspect = Some((opened.span(), closed.span()));
        }
    }

    /// A block is open where an item begins or the source ends. Said once: the blocks around it lack nothing then.
    fn not_closed(&mut self, opened: Token) -> Failed {
        if self.unclosed {
            return Failed;
        }
        self.unclosed = true;
        let end = self.before().map_or(opened.span(), |t| Span { start: t.end, end: t.end });
        let message = match self.token().kind {
            Kind::End => "the source ends before a block does".to_owned(),
            _ => format!("a block is still open where `{}` begins", self.text(self.token())),
        };
        let error = Diagnostic::new(Code::Syntax, end, message);
        let error = match self.suspect {
            Some((from, to)) => error
                .related(from, "the block that begins here")
                .related(to, "ends here, which is not below its beginning"),
            None => error.related(opened.span(), "opened here"),
        };
        self.error(error.help("write `}` where the block ends"));
        Failed
    }

    fn token_at(&self, place: usize) -> Token {
        self.back(self.place() - place.min(self.place()))
    }

    /// Whether the next token stands on a line of its own, so that nothing belongs to what is before.
    pub fn line_ended(&self) -> bool {
        let token = self.token();
        let open = self.before().is_some_and(|t| ends_open(t.kind));
        token.kind == Kind::End || (token.fresh && !self.free && !open)
    }
}
