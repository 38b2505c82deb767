//! How deep the expressions of a tree lie in each other.

use super::ast::{Block, ExprId, ExprKind, Piece, Statement, Tree, Type, TypeKind};
use super::source::{MAX_CHAIN, MAX_NESTING};
use super::{Code, Diagnostic};

/// The most expressions from one that stands alone down to its innermost part: a chain as long as chains may be,
/// inside the deepest nesting. Who walks a tree by recursion needs a stack for so many.
pub const MAX_HEIGHT: usize = MAX_CHAIN + 4 * MAX_NESTING;

/// The first expression that is too high.
pub fn check(tree: &Tree) -> Result<(), Diagnostic> {
    // Parts are added to a tree before what they are part of.
    let mut heights: Vec<u32> = Vec::with_capacity(tree.exprs.len());
    for expr in &tree.exprs {
        let mut most = 0;
        parts(&expr.kind, &mut |id| most = most.max(heights.get(id.0 as usize).copied().unwrap_or(0)));
        if most as usize >= MAX_HEIGHT {
            let message = format!("more than {MAX_HEIGHT} expressions lie in each other");
            return Err(Diagnostic::new(Code::Nesting, expr.span, message).help("give parts a name with `let`"));
        }
        heights.push(most + 1);
    }
    Ok(())
}

/// Calls `f` on every expression that is directly part of one.
fn parts(kind: &ExprKind, f: &mut dyn FnMut(ExprId)) {
    match kind {
        ExprKind::Literal(_) | ExprKind::Continue(_) => {}
        ExprKind::Path(_, types) => types.iter().for_each(|t| of_type(t, f)),
        ExprKind::Field(of, _)
        | ExprKind::Unary(_, of)
        | ExprKind::Ref { of, .. }
        | ExprKind::Let(_, of)
        | ExprKind::Try(of)
        | ExprKind::Loop { body: of, .. } => f(*of),
        ExprKind::Index(a, b)
        | ExprKind::Binary(_, a, b)
        | ExprKind::Assign(a, b)
        | ExprKind::AssignOp(_, a, b)
        | ExprKind::Repeat(a, b)
        | ExprKind::While { condition: a, body: b, .. } => {
            f(*a);
            f(*b);
        }
        ExprKind::Call(of, args) => {
            f(*of);
            args.iter().for_each(|a| f(*a));
        }
        ExprKind::Method { receiver, types, args, .. } => {
            f(*receiver);
            types.iter().for_each(|t| of_type(t, f));
            args.iter().for_each(|a| f(*a));
        }
        ExprKind::Cast(of, ty) => {
            f(*of);
            of_type(ty, f);
        }
        ExprKind::Range { start, end, .. } => [start, end].into_iter().flatten().for_each(|e| f(*e)),
        ExprKind::If { condition, then, otherwise } => {
            f(*condition);
            f(*then);
            otherwise.iter().for_each(|e| f(*e));
        }
        ExprKind::Match(of, arms) => {
            f(*of);
            for arm in arms {
                arm.guard.iter().for_each(|e| f(*e));
                f(arm.value);
            }
        }
        ExprKind::Block(block) => of_block(block, f),
        ExprKind::For { iter, bound, body, .. } => {
            f(*iter);
            bound.iter().for_each(|e| f(*e));
            f(*body);
        }
        ExprKind::Break { value, .. } | ExprKind::Return(value) => value.iter().for_each(|e| f(*e)),
        ExprKind::Closure { params, body } => {
            params.iter().for_each(|p| of_type(&p.ty, f));
            f(*body);
        }
        ExprKind::Tuple(all) | ExprKind::List(all) => all.iter().for_each(|e| f(*e)),
        ExprKind::Struct { fields, base, .. } => {
            fields.iter().for_each(|(_, e)| f(*e));
            base.iter().for_each(|e| f(*e));
        }
        ExprKind::Macro { subjects, pieces, .. } => {
            subjects.iter().for_each(|e| f(*e));
            for piece in pieces {
                if let Piece::Value { value, .. } = piece {
                    f(*value);
                }
            }
        }
    }
}

fn of_block(block: &Block, f: &mut dyn FnMut(ExprId)) {
    for statement in &block.statements {
        match statement {
            Statement::Expr(e) => f(*e),
            Statement::Let { ty, value, otherwise, .. } => {
                ty.iter().for_each(|t| of_type(t, f));
                [value, otherwise].into_iter().flatten().for_each(|e| f(*e));
            }
        }
    }
    block.value.iter().for_each(|e| f(*e));
}

/// Types hold expressions in the lengths of arrays. They nest no deeper than [`MAX_NESTING`].
fn of_type(ty: &Type, f: &mut dyn FnMut(ExprId)) {
    match &ty.kind {
        TypeKind::Inferred | TypeKind::Opaque => {}
        TypeKind::Named(_, all) | TypeKind::Tuple(all) => all.iter().for_each(|t| of_type(t, f)),
        TypeKind::Reference { of, .. } | TypeKind::Slice(of) => of_type(of, f),
        TypeKind::Array(of, length) => {
            of_type(of, f);
            f(*length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Language, parse};

    #[test]
    fn chains_inside_each_other_are_measured() {
        let inner = format!("(x{})", " + x".repeat(6000));
        for language in [Language::Rs, Language::Tri] {
            assert!(parse(&format!("fn f() {{ let y = 1 + {inner}; }}"), language).is_ok());
            let twice = format!("fn f() {{ let y = 1 + (2 * {inner}{}); }}", " + x".repeat(6000));
            let errors = parse(&twice, language).unwrap_err();
            assert_eq!(errors[0].code, Code::Nesting, "{errors:?}");
        }
    }
}
