//! Types of `.rs` programs.

use super::Reader;
use crate::program::ast::{Name, Type, TypeKind};
use crate::program::{Code, Diagnostic, Span};
use syn::punctuated::Punctuated;
use syn::{GenericArgument, Path, PathArguments, ReturnType, TypeParamBound};

impl Reader<'_> {
    /// A type.
    pub(super) fn ty(&mut self, ty: &syn::Type) -> Type {
        let span = self.type_span(ty);
        let kind = self.deeper(span, |r| r.type_kind(ty, span)).unwrap_or(TypeKind::Opaque);
        Type { kind, span }
    }

    /// The type of a result; nothing where none is written.
    pub(super) fn result(&mut self, output: &ReturnType) -> Option<Type> {
        match output {
            ReturnType::Default => None,
            ReturnType::Type(_, ty) => Some(self.ty(ty)),
        }
    }

    fn type_kind(&mut self, ty: &syn::Type, span: Span) -> TypeKind {
        match ty {
            syn::Type::Path(path) if path.qself.is_none() => self.named(&path.path),
            syn::Type::Reference(reference) => {
                TypeKind::Reference { mutable: reference.mutability.is_some(), of: Box::new(self.ty(&reference.elem)) }
            }
            syn::Type::Slice(slice) => TypeKind::Slice(Box::new(self.ty(&slice.elem))),
            syn::Type::Array(array) => {
                let of = self.ty(&array.elem);
                TypeKind::Array(Box::new(of), self.expr(&array.len))
            }
            syn::Type::Tuple(tuple) => TypeKind::Tuple(tuple.elems.iter().map(|t| self.ty(t)).collect()),
            syn::Type::Paren(paren) => self.ty(&paren.elem).kind,
            syn::Type::Group(group) => self.ty(&group.elem).kind,
            syn::Type::Infer(_) => TypeKind::Inferred,
            syn::Type::ImplTrait(_) | syn::Type::TraitObject(_) | syn::Type::FnPtr(_) | syn::Type::Never(_) => {
                TypeKind::Opaque
            }
            syn::Type::Ptr(_) => {
                self.refuse(span, "raw pointers are", "write `&T` or `&mut T`");
                TypeKind::Opaque
            }
            syn::Type::Path(_) => {
                self.refuse(span, "types of traits (`<T as Trait>::Type`) are", "write the type itself");
                TypeKind::Opaque
            }
            _ => {
                self.refuse(span, "types of this kind are", "write the type itself");
                TypeKind::Opaque
            }
        }
    }

    /// The type that a path names.
    fn named(&mut self, path: &Path) -> TypeKind {
        let Some(last) = path.segments.last() else { return TypeKind::Opaque };
        let name = last.ident.to_string();
        let alone = path.segments.len() == 1;
        if alone && self.generics.iter().any(|names| names.contains(&name)) {
            return TypeKind::Opaque;
        }
        match &last.arguments {
            PathArguments::Parenthesized(_) => TypeKind::Opaque,
            arguments => {
                let types = self.arguments(arguments);
                TypeKind::Named(name.into(), types)
            }
        }
    }

    /// The types among the arguments of a path; lifetimes say nothing here.
    fn arguments(&mut self, arguments: &PathArguments) -> Vec<Type> {
        match arguments {
            PathArguments::AngleBracketed(list) => self.listed(list),
            PathArguments::None | PathArguments::Parenthesized(_) => Vec::new(),
        }
    }

    /// The types of a list `<A, B>`.
    pub(super) fn listed(&mut self, list: &syn::AngleBracketedGenericArguments) -> Vec<Type> {
        list.args.iter().filter_map(|a| self.argument(a)).collect()
    }

    fn argument(&mut self, argument: &GenericArgument) -> Option<Type> {
        match argument {
            GenericArgument::Type(ty) => Some(self.ty(ty)),
            GenericArgument::Lifetime(_) => None,
            GenericArgument::Const(value) => {
                let (_, span) = self.spanned(value);
                self.refuse(span, "numbers as arguments of types are", "keep the number in a value");
                None
            }
            GenericArgument::AssocType(_) | GenericArgument::AssocConst(_) | GenericArgument::Constraint(_) => None,
            _ => None,
        }
    }

    /// The names and the types of a path in an expression or pattern.
    pub(super) fn path(&mut self, path: &Path) -> (Vec<Name>, Vec<Type>, Span) {
        let mut names = Vec::with_capacity(path.segments.len());
        let mut types = Vec::new();
        let mut span: Option<Span> = path.leading_colon.map(|c| self.span(c.spans[0]));
        for segment in &path.segments {
            let name = self.name(&segment.ident);
            span = Some(span.map_or(name.span, |s| s.to(name.span)));
            names.push(name);
            match &segment.arguments {
                PathArguments::None => {}
                PathArguments::AngleBracketed(list) => {
                    span = span.map(|s| s.to(self.span(list.gt_token.spans[0])));
                    types.extend(self.listed(list));
                }
                PathArguments::Parenthesized(list) => {
                    let at = self.span(list.paren_token.span.join());
                    self.error(Diagnostic::new(Code::Syntax, at, "a path in an expression has no `(…)` of a type"));
                }
            }
        }
        (names, types, span.unwrap_or_default())
    }

    pub(super) fn type_span(&self, ty: &syn::Type) -> Span {
        match ty {
            syn::Type::Path(p) => {
                let start = p.qself.as_ref().map(|q| self.span(q.lt_token.spans[0]));
                let path = self.path_span(&p.path);
                start.map_or(path, |s| s.to(path))
            }
            syn::Type::Reference(r) => self.span(r.and_token.spans[0]).to(self.type_span(&r.elem)),
            syn::Type::Ptr(p) => self.span(p.star_token.spans[0]).to(self.type_span(&p.elem)),
            syn::Type::Slice(s) => self.span(s.bracket_token.span.join()),
            syn::Type::Array(a) => self.span(a.bracket_token.span.join()),
            syn::Type::Tuple(t) => self.span(t.paren_token.span.join()),
            syn::Type::Paren(p) => self.span(p.paren_token.span.join()),
            syn::Type::Group(g) => self.type_span(&g.elem),
            syn::Type::Infer(i) => self.span(i.underscore_token.spans[0]),
            syn::Type::Never(n) => self.span(n.bang_token.spans[0]),
            syn::Type::ImplTrait(i) => self.span(i.impl_token.span).to(self.bounds_span(&i.bounds)),
            syn::Type::TraitObject(t) => {
                let bounds = self.bounds_span(&t.bounds);
                t.dyn_token.map_or(bounds, |d| self.span(d.span).to(bounds))
            }
            syn::Type::FnPtr(f) => {
                let head = self.span(f.fn_token.span).to(self.span(f.paren_token.span.join()));
                self.output_span(head, &f.output)
            }
            syn::Type::Macro(m) => self.path_span(&m.mac.path).to(self.span(m.mac.delimiter.span().join())),
            _ => Span::default(),
        }
    }

    fn output_span(&self, head: Span, output: &ReturnType) -> Span {
        match output {
            ReturnType::Default => head,
            ReturnType::Type(_, ty) => head.to(self.type_span(ty)),
        }
    }

    // Spans look at the first and the last part alone, since a type inside another is asked for more than once.

    fn bounds_span<P>(&self, bounds: &Punctuated<TypeParamBound, P>) -> Span {
        let of = |bound: &TypeParamBound| match bound {
            TypeParamBound::Trait(t) => self.path_span(&t.path),
            TypeParamBound::Lifetime(l) => self.span(l.span()),
            _ => Span::default(),
        };
        match (bounds.first(), bounds.last()) {
            (Some(only), _) if bounds.len() == 1 => of(only),
            (Some(first), Some(last)) => of(first).to(of(last)),
            _ => Span::default(),
        }
    }

    fn path_span(&self, path: &Path) -> Span {
        let Some((first, last)) = path.segments.first().zip(path.segments.last()) else { return Span::default() };
        let name = self.span(last.ident.span());
        let end = match &last.arguments {
            PathArguments::None => name,
            PathArguments::AngleBracketed(a) => self.span(a.gt_token.spans[0]),
            PathArguments::Parenthesized(p) => self.output_span(self.span(p.paren_token.span.join()), &p.output),
        };
        let start = path.leading_colon.map_or_else(|| self.span(first.ident.span()), |c| self.span(c.spans[0]));
        start.to(end)
    }
}
