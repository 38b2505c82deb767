//! Items of `.tri` programs: `module`, `use`, `const`, `struct`, `fn`.

use super::parser::{Parser, Read, begins_item};
use super::token::{Key, Kind, Sign, Token};
use super::types::{TYPES, known_types};
use crate::nearest::nearest;
use crate::program::ast::{Const, ExprKind, Function, Name, Param, Pattern, PatternKind, StructDef};
use crate::program::{Code, Diagnostic, Span};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The modules that are built in.
pub const MODULES: [&str; 4] = ["vm.io.io", "vm.core.convert", "std.nn.tensor", "std.nn.transformer_llama"];

/// Words that begin items of other languages.
const FOREIGN: [&str; 10] = ["enum", "trait", "impl", "type", "static", "mod", "import", "program", "def", "class"];

impl Parser<'_> {
    /// The whole program.
    pub fn items(&mut self) {
        let mut module = None;
        loop {
            let token = self.token();
            if token.kind == Kind::End {
                break;
            }
            if self.eat(Sign::Semicolon) {
                continue;
            }
            let place = self.place();
            self.begin = place;
            if self.item(&mut module).is_err() {
                (self.free, self.structs) = (false, true);
                if matches!(token.kind, Kind::Key(Key::Module | Key::Use)) {
                    while !self.token().fresh {
                        self.advance();
                    }
                } else {
                    self.skip_item();
                }
                if self.place() == place {
                    self.advance();
                }
            }
            self.leave(0);
        }
        self.check_types();
        self.check_names();
    }

    /// One item.
    pub fn item(&mut self, module: &mut Option<Span>) -> Read<()> {
        let token = self.token();
        match token.kind {
            Kind::Key(Key::Module) => self.module(module),
            Kind::Key(Key::Use) => self.import(),
            _ => {
                let public = self.eat_key(Key::Pub);
                match self.token().kind {
                    Kind::Key(Key::Fn) => self.function(public),
                    Kind::Key(Key::Struct) => self.structure(),
                    Kind::Key(Key::Const) => self.constant(),
                    _ => self.no_item(token),
                }
            }
        }
    }

    fn no_item(&mut self, token: Token) -> Read<()> {
        let text = self.text(token);
        let items = "a program has `module`, `use`, `const`, `struct`, `fn` and `pub fn`";
        if token.kind == Kind::Name && FOREIGN.contains(&text) {
            return Err(self.refuse(token.span(), &format!("`{text}` is"), items));
        }
        if token.kind == Kind::Sign(Sign::Hash) {
            let help = "comments begin with `//`; attributes are not needed";
            return Err(self.mistake(token.span(), "`#` begins a comment in `use` lines alone", help));
        }
        if token.kind == Kind::Sign(Sign::BraceClose) {
            let help = "delete it, or look for a `{` that is missing before it";
            return Err(self.mistake(token.span(), "`}` closes nothing", help));
        }
        if matches!(token.kind, Kind::Key(_)) && token.kind != Kind::Key(Key::Pub) {
            let help = "move it into a function; constants are written `const NAME: Type = value`";
            return Err(self.mistake(token.span(), format!("`{text}` outside a function"), help));
        }
        let message = format!("expected an item, found {}", self.found().replace("the end of the line, before ", ""));
        Err(self.mistake(self.token().span(), message, items))
    }

    /// Names with dots between, on one line.
    fn dotted(&mut self, what: &str) -> Read<Name> {
        let first = self.name(what)?;
        let (mut text, mut span) = (first.text.to_string(), first.span);
        while !self.token().fresh && (self.is(Sign::Dot) || self.is(Sign::Colons)) {
            let dot = self.advance();
            if dot.kind == Kind::Sign(Sign::Colons) {
                self.mistake(dot.span(), "`::` between names", "write `.`");
            }
            let name = self.name("a name")?;
            text = format!("{text}.{}", name.text);
            span = span.to(name.span);
        }
        Ok(Name { text: text.into(), span })
    }

    fn module(&mut self, module: &mut Option<Span>) -> Read<()> {
        let token = self.advance();
        let name = self.dotted("the name of the module")?;
        if let Some(first) = *module {
            let error =
                Diagnostic::new(Code::Twice, token.span(), "a program is one module").related(first, "the first");
            self.error(error.help("delete one of the lines"));
        }
        *module = Some(token.span().to(name.span));
        self.line_end("the name of the module")
    }

    fn import(&mut self) -> Read<()> {
        self.advance();
        let name = self.dotted("the name of a module")?;
        if MODULES.contains(&&*name.text) {
            self.tree.uses.push(name);
        } else {
            let known = MODULES.map(|m| format!("`{m}`")).join(", ");
            let help = match nearest(&name.text, &MODULES) {
                Some(near) => format!("did you mean `{near}`? There are {known}"),
                None => format!("there are {known}"),
            };
            let message = format!("the module `{}` is not in the language of programs", name.text);
            self.error(Diagnostic::new(Code::NotInLanguage, name.span, message).help(help));
        }
        self.line_end("the name of the module")
    }

    /// The line, or the item, must end here.
    fn line_end(&mut self, after: &str) -> Read<()> {
        let token = self.token();
        if token.fresh || token.kind == Kind::End || self.eat(Sign::Semicolon) {
            return Ok(());
        }
        let message = format!("expected the end of the line after {after}, found {}", self.found());
        Err(self.mistake(token.span(), message, "begin a new line"))
    }

    fn constant(&mut self) -> Read<()> {
        self.advance();
        let name = self.name("the name of the constant")?;
        if !self.is(Sign::Colon) {
            let help = format!("write `const {}: Field = …`", name.text);
            return Err(self.mistake(self.gap(), format!("the constant `{}` has no type", name.text), help));
        }
        self.advance();
        let ty = self.ty()?;
        self.expect(Sign::Assign, "and a value")?;
        let value = self.expr()?;
        self.tree.consts.push(Const { name, owner: None, ty, value });
        self.line_end("the value")
    }

    fn structure(&mut self) -> Read<()> {
        self.advance();
        let name = self.name("the name of the struct")?;
        if !self.is(Sign::BraceOpen) {
            let help = format!("write `struct {} {{ name: Type, … }}`", name.text);
            let message = format!("expected `{{` and fields, found {}", self.found());
            return Err(self.mistake(self.gap(), message, help));
        }
        let opened = self.advance();
        let mut fields = Vec::new();
        let mut names: HashMap<Arc<str>, Span> = HashMap::new();
        while !self.is(Sign::BraceClose) {
            // Fields end with a comma or with their line.
            self.eat_key(Key::Pub);
            let field = self.lines(true, true, |p| {
                let field = p.name("the name of a field")?;
                if !p.is(Sign::Colon) {
                    let help = format!("write `{}: Type`", field.text);
                    return Err(p.mistake(p.gap(), format!("the field `{}` has no type", field.text), help));
                }
                p.advance();
                Ok((field, p.ty()?))
            })?;
            match names.get(&field.0.text) {
                Some(&first) => {
                    let message = format!("`{}` has two fields `{}`", name.text, field.0.text);
                    let error = Diagnostic::new(Code::Twice, field.0.span, message).related(first, "the first");
                    self.error(error.help("give one of them another name"));
                }
                None => {
                    names.insert(field.0.text.clone(), field.0.span);
                }
            }
            fields.push(field);
            let token = self.token();
            if !self.eat(Sign::Comma) && !token.fresh && !self.is(Sign::BraceClose) {
                let message = format!("expected `,` after the field, found {}", self.found());
                return Err(self.mistake(token.span(), message, "fields have a `,` or a new line between them"));
            }
        }
        self.close(Sign::BraceClose, opened)?;
        self.tree.structs.push(StructDef { name, fields });
        Ok(())
    }

    fn function(&mut self, public: bool) -> Read<()> {
        let start = self.advance();
        let name = self.name("the name of the function")?;
        if !self.is(Sign::ParenOpen) {
            let help = format!("write `fn {}(name: Type, …) {{ … }}`", name.text);
            let message = format!("expected `(` and parameters, found {}", self.found());
            return Err(self.mistake(self.gap(), message, help));
        }
        let (params, end) = self.list(Sign::ParenClose, |p| p.param())?;
        self.distinct(&params);
        let mut span = start.span().to(end);
        let result = if self.eat(Sign::Arrow) {
            let ty = self.ty()?;
            span = span.to(ty.span);
            Some(ty)
        } else {
            None
        };
        if !self.is(Sign::BraceOpen) {
            let message = format!("the function `{}` has no body", name.text);
            let mut help = "write `{ … }` after its parameters and result".to_owned();
            if self.is(Sign::Colon) {
                help = "the type of the result is written `-> Type`".into();
            }
            self.mistake(self.gap(), message, help);
            // What follows is an item of its own.
            let goes_on = matches!(self.token().kind, Kind::Key(key) if begins_item(key));
            let body = self.add(ExprKind::Tuple(Vec::new()), span);
            self.tree.functions.push(Function { name, owner: None, public, params, result, body, span });
            return if goes_on { Ok(()) } else { Err(super::parser::Failed) };
        }
        let body = self.lines(false, true, |p| p.block())?;
        self.tree.functions.push(Function { name, owner: None, public, params, result, body, span });
        Ok(())
    }

    fn param(&mut self) -> Read<Param> {
        let pattern = self.binding()?;
        if !self.is(Sign::Colon) {
            let shown = match &pattern.kind {
                PatternKind::Bind { name, .. } => name.text.to_string(),
                _ => "name".into(),
            };
            let help = format!("write `{shown}: Field`, or another type");
            return Err(self.mistake(self.gap(), format!("the parameter `{shown}` has no type"), help));
        }
        self.advance();
        let ty = self.ty()?;
        let span = pattern.span.to(ty.span);
        Ok(Param { pattern, ty, span })
    }

    /// Reports names that parameters share.
    fn distinct(&mut self, params: &[Param]) {
        let mut names = Vec::new();
        params.iter().for_each(|p| bound(&p.pattern, &mut names));
        let mut seen: HashMap<Arc<str>, Span> = HashMap::new();
        for name in names {
            if let Some(&first) = seen.get(&name.text) {
                let message = format!("two parameters are named `{}`", name.text);
                let error = Diagnostic::new(Code::Twice, name.span, message).related(first, "the first");
                self.error(error.help("give one of them another name, or write `_`"));
            } else {
                seen.insert(name.text, name.span);
            }
        }
    }

    /// Reports types that nothing defines.
    fn check_types(&mut self) {
        let structs: HashSet<Arc<str>> = self.tree.structs.iter().map(|s| s.name.text.clone()).collect();
        // Enough to find a slip by; a hostile program has many long ones.
        let near: Vec<Arc<str>> =
            self.tree.structs.iter().take(100).map(|s| s.name.text.clone()).filter(|n| n.len() < 50).collect();
        let near: Vec<&str> = TYPES.into_iter().chain(near.iter().map(|n| &**n)).collect();
        let known = |name: &str| TYPES.contains(&name) || structs.contains(name);
        for name in std::mem::take(&mut self.named) {
            if known(&name.text) {
                continue;
            }
            if self.is_full() {
                return;
            }
            let own = match &*name.text {
                "u32" | "usize" | "i32" | "u64" | "i64" | "int" => Some("U32"),
                "f32" | "f64" | "Tensor" | "String" | "str" | "Str" | "field" => Some("Field"),
                "bool" => Some("Bool"),
                _ => nearest(&name.text, &near),
            };
            let all = format!("types are {}, and the structs of the program", known_types());
            let help = own.map_or(all.clone(), |own| format!("did you mean `{own}`? {}", capital(&all)));
            let error = Diagnostic::new(Code::UnknownName, name.span, format!("there is no type `{}`", name.text));
            self.error(error.help(help));
        }
    }

    /// Reports functions, structs and constants that share names.
    fn check_names(&mut self) {
        let tree = &self.tree;
        let functions: Vec<Name> = tree.functions.iter().map(|f| f.name.clone()).collect();
        let structs: Vec<Name> = tree.structs.iter().map(|s| s.name.clone()).collect();
        let consts: Vec<Name> = tree.consts.iter().map(|c| c.name.clone()).collect();
        for (kind, names) in [("functions", functions), ("structs", structs), ("constants", consts)] {
            let mut seen: HashMap<Arc<str>, Span> = HashMap::new();
            for name in names {
                if let Some(&first) = seen.get(&name.text) {
                    let message = format!("there are two {kind} `{}`", name.text);
                    let error = Diagnostic::new(Code::Twice, name.span, message).related(first, "the first");
                    self.error(error.help("give one of them another name"));
                } else {
                    seen.insert(name.text, name.span);
                }
            }
        }
    }
}

/// A sentence with a capital.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// The names that a pattern binds.
fn bound(pattern: &Pattern, out: &mut Vec<Name>) {
    match &pattern.kind {
        PatternKind::Bind { name, .. } => out.push(name.clone()),
        PatternKind::Tuple(all) => all.iter().for_each(|p| bound(p, out)),
        // The parser makes no others for parameters.
        _ => {}
    }
}
