//! Items of `.rs` programs: functions, structs, enums, constants, `impl` blocks, `use`.

use super::Reader;
use super::pattern::Kind;
use crate::program::ast::{Const, EnumDef, Function, Name, Param, Pattern, PatternKind, StructDef, Type, TypeKind};
use crate::program::source::MAX_ERRORS;
use crate::program::{Code, Diagnostic, Span};
use std::collections::HashSet;
use std::sync::Arc;
use syn::{Fields, FnArg, Generics, ImplItem, Item, Receiver, ReceiverKind, Signature, UseTree, Visibility};

/// Crates whose names a `use` may bring: what they hold is built in.
const CRATES: [&str; 3] = ["cyb", "std", "core"];

impl Reader<'_> {
    /// Items, in order.
    pub(super) fn items(&mut self, items: &[Item]) {
        items.iter().for_each(|item| self.item(item));
    }

    /// An item, at the top or inside a function.
    pub(super) fn item(&mut self, item: &Item) {
        match item {
            Item::Fn(item) => self.function(&item.vis, &item.sig, &item.block),
            Item::Const(item) => {
                if self.free("constant", &item.ident, None) {
                    self.constant(item.ident.clone(), &item.ty, &item.expr);
                }
            }
            Item::Struct(item) => {
                let name = self.name(&item.ident);
                self.free("type", &item.ident, None);
                let def = self.with_generics(&item.generics, |r| r.fields(name, &item.fields));
                self.tree.structs.push(def);
            }
            Item::Enum(item) => {
                let name = self.name(&item.ident);
                self.free("type", &item.ident, None);
                let variants = self.with_generics(&item.generics, |r| r.variants(item));
                self.tree.enums.push(EnumDef { name, variants });
            }
            Item::Impl(item) => self.implementation(item),
            Item::Use(item) => self.import(&item.tree),
            Item::ExternCrate(item) => {
                let span = self.span(item.extern_token.span);
                self.refuse(span, &format!("the crate `{}` is", item.ident), "programs bring all they need");
            }
            Item::ForeignMod(item) => {
                let span = self.span(item.abi.extern_token.span);
                self.refuse(span, "`extern` blocks are", "programs call nothing outside");
            }
            Item::Macro(item) => {
                let span = self.path(&item.mac.path).2;
                let name = item.mac.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
                let what =
                    if name == "macro_rules" { "definitions of macros are".into() } else { format!("`{name}!` is") };
                self.refuse(span, &what, "write a function");
            }
            Item::Mod(item) => {
                let span = self.span(item.mod_token.span);
                self.refuse(span, "modules are", "a program is one file: put the items at its top");
            }
            Item::Static(item) => {
                let span = self.span(item.static_token.span);
                self.refuse(span, "`static` is", "use `const`");
            }
            Item::Trait(item) => {
                let span = self.span(item.trait_token.span).to(self.span(item.ident.span()));
                self.refuse(span, "traits are", "write functions, or methods in `impl Struct { … }`");
            }
            Item::TraitAlias(item) => {
                let span = self.span(item.trait_token.span).to(self.span(item.ident.span()));
                self.refuse(span, "traits are", "write functions, or methods in `impl Struct { … }`");
            }
            Item::Type(item) => {
                let span = self.span(item.type_token.span).to(self.span(item.ident.span()));
                self.refuse(span, "other names for types are", "write the type itself");
            }
            Item::Union(item) => {
                let span = self.span(item.union_token.span).to(self.span(item.ident.span()));
                self.refuse(span, "unions are", "use an `enum`");
            }
            Item::Verbatim(tokens) => {
                let span = self.tokens_span(tokens);
                self.refuse(
                    span,
                    "items of this kind are",
                    "programs have `fn`, `const`, `struct`, `enum`, `impl`, `use`",
                );
            }
            _ => self.refuse(Span::default(), "items of this kind are", ""),
        }
    }

    /// The span of tokens that `syn` did not look into.
    pub(super) fn tokens_span(&self, tokens: &proc_macro2::TokenStream) -> Span {
        let mut all = tokens.clone().into_iter().map(|t| self.span(t.span()));
        let Some(first) = all.next() else { return Span::default() };
        first.to(all.last().unwrap_or(first))
    }

    /// Whether nothing of this kind has the name yet; an error otherwise.
    fn free(&mut self, kind: &'static str, ident: &syn::Ident, owner: Option<Arc<str>>) -> bool {
        let name = self.name(ident);
        if self.names.insert((kind, owner.clone(), name.text.clone())) {
            return true;
        }
        if self.errors.len() >= MAX_ERRORS {
            return false;
        }
        let first = match kind {
            "constant" => {
                self.tree.consts.iter().find(|c| c.name.text == name.text && c.owner == owner).map(|c| &c.name)
            }
            "type" => {
                let structs = self.tree.structs.iter().map(|s| &s.name);
                structs.chain(self.tree.enums.iter().map(|e| &e.name)).find(|n| n.text == name.text)
            }
            _ => self.tree.functions.iter().find(|f| f.name.text == name.text && f.owner == owner).map(|f| &f.name),
        };
        let first = first.map(|n| n.span);
        let error = Diagnostic::new(Code::Twice, name.span, format!("there are two {kind}s `{}`", name.text));
        let error =
            error.help("give one of them another name; what stands inside a function shares its names with the top");
        self.error(match first {
            Some(first) => error.related(first, "the first"),
            None => error,
        });
        false
    }

    /// Calls `read` with type parameters in scope.
    fn with_generics<T>(&mut self, generics: &Generics, read: impl FnOnce(&mut Self) -> T) -> T {
        let names: HashSet<String> = generics.type_params().map(|p| p.ident.to_string()).collect();
        for param in generics.const_params() {
            let span = self.span(param.const_token.span).to(self.span(param.ident.span()));
            self.refuse(span, "numbers as parameters of types are", "pass the number as an argument");
        }
        self.generics.push(names);
        let out = read(self);
        self.generics.pop();
        out
    }

    fn constant(&mut self, ident: syn::Ident, ty: &syn::Type, value: &syn::Expr) {
        let ty = self.ty(ty);
        let value = self.expr(value);
        let owner = self.owner.clone();
        let name = self.name(&ident);
        self.tree.consts.push(Const { name, owner, ty, value });
    }

    fn fields(&mut self, name: Name, fields: &Fields) -> StructDef {
        let mut out: Vec<(Name, Type)> = Vec::with_capacity(fields.len());
        let mut seen: HashSet<Arc<str>> = HashSet::new();
        for (i, field) in fields.iter().enumerate() {
            let ty = self.ty(&field.ty);
            let field_name = match &field.ident {
                Some(ident) => self.name(ident),
                None => Name { text: i.to_string().into(), span: ty.span },
            };
            if let Some((equals, _)) = &field.default {
                let span = self.span(equals.spans[0]);
                self.refuse(span, "default values of fields are", "give the value where the struct is made");
            }
            if !seen.insert(field_name.text.clone()) {
                let message = format!("`{}` has two fields `{}`", name.text, field_name.text);
                self.error(
                    Diagnostic::new(Code::Twice, field_name.span, message).help("give one of them another name"),
                );
            }
            out.push((field_name, ty));
        }
        StructDef { name, fields: out }
    }

    fn variants(&mut self, item: &syn::ItemEnum) -> Vec<StructDef> {
        let mut out = Vec::with_capacity(item.variants.len());
        let mut seen = HashSet::new();
        for variant in &item.variants {
            let name = self.name(&variant.ident);
            if !seen.insert(name.text.clone()) {
                let message = format!("`{}` has two variants `{}`", item.ident, name.text);
                self.error(Diagnostic::new(Code::Twice, name.span, message).help("give one of them another name"));
            }
            if let Some((equals, _)) = &variant.discriminant {
                let span = self.span(equals.spans[0]);
                self.refuse(span, "numbers of variants are", "write a function that gives the number with `match`");
            }
            out.push(self.fields(name, &variant.fields));
        }
        out
    }

    fn implementation(&mut self, item: &syn::ItemImpl) {
        let head = self.span(item.impl_token.span);
        if let Some((path, _)) = &item.trait_ {
            let name = path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
            let span = head.to(self.type_span(&item.self_ty));
            let help = "write the methods in `impl Struct { … }`, without a trait";
            self.refuse(span, &format!("implementing traits (`{name}`) is"), help);
            return;
        }
        if let Some(token) = item.unsafety {
            let span = self.span(token.span);
            self.refuse(span, "`unsafe` is", "");
        }
        self.with_generics(&item.generics, |r| {
            let ty = r.ty(&item.self_ty);
            let TypeKind::Named(owner, _) = ty.kind else {
                r.refuse(ty.span, "methods of types that are no struct or enum are", "write functions");
                return;
            };
            let outer = r.owner.replace(owner);
            item.items.iter().for_each(|item| r.impl_item(item));
            r.owner = outer;
        });
    }

    fn impl_item(&mut self, item: &ImplItem) {
        match item {
            ImplItem::Fn(item) => self.function(&item.vis, &item.sig, &item.block),
            ImplItem::Const(item) => {
                if self.free("constant", &item.ident, self.owner.clone()) {
                    self.constant(item.ident.clone(), &item.ty, &item.expr);
                }
            }
            ImplItem::Type(item) => {
                let span = self.span(item.type_token.span);
                self.refuse(span, "types inside `impl` are", "write the type itself");
            }
            ImplItem::Macro(item) => {
                let span = self.path(&item.mac.path).2;
                self.refuse(span, "macros inside `impl` are", "write a function");
            }
            ImplItem::Verbatim(tokens) => {
                let span = self.tokens_span(tokens);
                self.refuse(span, "items of this kind are", "`impl` holds `fn` and `const`");
            }
            _ => self.refuse(Span::default(), "items of this kind are", "`impl` holds `fn` and `const`"),
        }
    }

    fn function(&mut self, vis: &Visibility, sig: &Signature, block: &syn::Block) {
        self.signature(sig);
        let owner = self.owner.clone();
        if !self.free("function", &sig.ident, owner.clone()) {
            return;
        }
        // The place is kept, so that functions inside this one follow it.
        let name = self.name(&sig.ident);
        let span = self.span(sig.fn_token.span).to(self.span(sig.paren_token.span.join()));
        let public = matches!(vis, Visibility::Public(_));
        let place = self.tree.functions.len();
        let body = self.nothing(span);
        let function = Function { name, owner, public, params: Vec::new(), result: None, body, span };
        self.tree.functions.push(function);
        self.with_generics(&sig.generics, |r| {
            let params: Vec<Param> = sig.inputs.iter().map(|p| r.param(p)).collect();
            r.distinct_params(&params);
            let result = r.result(&sig.output);
            let body = r.block_expr(block, None);
            if let Some(function) = r.tree.functions.get_mut(place) {
                if let Some(result) = &result {
                    function.span = function.span.to(result.span);
                }
                (function.params, function.result, function.body) = (params, result, body);
            }
        });
    }

    /// Refuses what a signature may not say.
    fn signature(&mut self, sig: &Signature) {
        if let Some(token) = sig.asyncness {
            let span = self.span(token.span);
            self.refuse(span, "`async` is", "write a plain function; calls are in order");
        }
        if let syn::Safety::Unsafe(token) = &sig.safety {
            let span = self.span(token.span);
            self.refuse(span, "`unsafe` is", "write a plain function");
        }
        if let Some(abi) = &sig.abi {
            let span = self.span(abi.extern_token.span);
            self.refuse(span, "`extern` is", "write a plain function");
        }
        if let Some(variadic) = &sig.variadic {
            let span = self.span(variadic.dots.spans[0]);
            self.refuse(span, "functions with any number of arguments are", "take a slice `&[T]`");
        }
    }

    fn param(&mut self, param: &FnArg) -> Param {
        match param {
            FnArg::Receiver(receiver) => self.receiver(receiver),
            FnArg::Typed(typed) => {
                let pattern = self.part(&typed.pat, Kind::Irrefutable);
                let ty = self.ty(&typed.ty);
                let span = pattern.span.to(ty.span);
                Param { pattern, ty, span }
            }
        }
    }

    fn receiver(&mut self, receiver: &Receiver) -> Param {
        let span = self.span(receiver.self_token.span);
        let name = Name { text: "self".into(), span };
        let bind = PatternKind::Bind { name, mutable: receiver.mutability.is_some(), inner: None };
        let pattern = Pattern { kind: bind, span };
        let inferred = Type { kind: TypeKind::Inferred, span };
        let (ty, start) = match &receiver.kind {
            ReceiverKind::Reference(and, _, mutable) => {
                let start = self.span(and.spans[0]);
                let kind = TypeKind::Reference { mutable: mutable.is_some(), of: Box::new(inferred) };
                (Type { kind, span: start.to(span) }, start)
            }
            ReceiverKind::Typed(_, ty) => {
                let ty = self.ty(ty);
                let end = ty.span;
                (ty, end)
            }
            _ => (inferred, span),
        };
        Param { pattern, ty, span: span.to(start) }
    }

    /// Checks the crate that a `use` names.
    fn import(&mut self, tree: &UseTree) {
        let ident = match tree {
            UseTree::Path(path) => &path.ident,
            UseTree::Name(name) => &name.ident,
            UseTree::Rename(rename) => {
                self.renamed(rename);
                &rename.ident
            }
            UseTree::Glob(glob) => {
                let span = self.span(glob.star_token.spans[0]);
                self.refuse(span, "`use *` is", "name the crate: `use cyb::nn::*`");
                return;
            }
            UseTree::Group(group) => return group.items.iter().for_each(|tree| self.import(tree)),
        };
        let name = ident.to_string();
        if CRATES.contains(&name.as_str()) {
            if let UseTree::Path(path) = tree {
                self.imported(&path.tree);
            }
            return;
        }
        let span = self.span(ident.span());
        if matches!(name.as_str(), "self" | "crate" | "super") {
            // Enums of this file: `use Shape::*` has no meaning of its own, since the file is one module.
            self.refuse(
                span,
                "`use` of this file's own items is",
                "write the path where it is needed: `Shape::Square`",
            );
            return;
        }
        let what = format!("the crate `{name}` is");
        self.refuse(span, &what, "programs use `cyb`, and `std` or `core` for what is built in; write a path such as `Shape::Square` in full");
    }

    /// Refuses other names for what a `use` brings: names of what is built in are fixed.
    fn imported(&mut self, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => self.imported(&path.tree),
            UseTree::Rename(rename) => self.renamed(rename),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.imported(tree)),
            UseTree::Name(_) | UseTree::Glob(_) => {}
        }
    }

    fn renamed(&mut self, rename: &syn::UseRename) {
        if rename.rename != "_" {
            let span = self.span(rename.as_token.span).to(self.span(rename.rename.span()));
            self.refuse(span, "`use … as …` is", "use the name as it is");
        }
    }
}
