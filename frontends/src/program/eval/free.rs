//! Which variables a piece of program reads, binds and changes, and whether it leaves itself: by the syntax alone.

use crate::program::ast::{ExprId, ExprKind, Pattern, PatternKind, Piece, Statement, Tree};
use indexmap::IndexSet;
use std::sync::Arc;

/// Methods that change what they are called on.
pub const CHANGING: &[&str] = &[
    "and_modify",
    "append",
    "as_mut",
    "by_ref",
    "chunks_exact_mut",
    "chunks_mut",
    "clear",
    "clone_from_slice",
    "copy_from_slice",
    "dedup",
    "dedup_by_key",
    "drain",
    "entry",
    "extend",
    "extend_from_slice",
    "extend_from_within",
    "fill",
    "first_mut",
    "get_mut",
    "get_or_insert",
    "get_or_insert_with",
    "insert",
    "insert_str",
    "iter_mut",
    "last_mut",
    "make_ascii_lowercase",
    "make_ascii_uppercase",
    "next",
    "next_back",
    "next_if",
    "next_if_eq",
    "nth",
    "nth_back",
    "or_default",
    "or_insert",
    "or_insert_with",
    "peek",
    "pop",
    "pop_back",
    "pop_first",
    "pop_front",
    "pop_last",
    "push",
    "push_back",
    "push_front",
    "push_str",
    "remove",
    "resize",
    "resize_with",
    "retain",
    "retain_mut",
    "reverse",
    "rotate_left",
    "rotate_right",
    "sort",
    "sort_by",
    "sort_by_cached_key",
    "sort_by_key",
    "sort_unstable",
    "sort_unstable_by",
    "sort_unstable_by_key",
    "split_at_mut",
    "split_off",
    "swap",
    "swap_remove",
    "take",
    "truncate",
    "values_mut",
];

type Names = IndexSet<Arc<str>>;

/// Calls `f` with every expression inside `id`, itself included, in no particular order. Iterative.
pub fn walk(tree: &Tree, id: ExprId, mut f: impl FnMut(ExprId, &ExprKind)) {
    let mut open = vec![id];
    while let Some(id) = open.pop() {
        let kind = &tree.expr(id).kind;
        f(id, kind);
        children(kind, &mut open);
    }
}

/// The expressions right inside one.
fn children(kind: &ExprKind, out: &mut Vec<ExprId>) {
    match kind {
        ExprKind::Literal(_) | ExprKind::Path(..) | ExprKind::Continue(_) => {}
        ExprKind::Field(a, _)
        | ExprKind::Unary(_, a)
        | ExprKind::Ref { of: a, .. }
        | ExprKind::Cast(a, _)
        | ExprKind::Let(_, a)
        | ExprKind::Try(a)
        | ExprKind::Closure { body: a, .. }
        | ExprKind::Loop { body: a, .. } => out.push(*a),
        ExprKind::Index(a, b)
        | ExprKind::Binary(_, a, b)
        | ExprKind::Assign(a, b)
        | ExprKind::AssignOp(_, a, b)
        | ExprKind::Repeat(a, b)
        | ExprKind::While { condition: a, body: b, .. } => out.extend([*a, *b]),
        ExprKind::Call(a, rest) => {
            out.push(*a);
            out.extend(rest);
        }
        ExprKind::Method { receiver, args, .. } => {
            out.push(*receiver);
            out.extend(args);
        }
        ExprKind::Range { start, end, .. } => out.extend(start.iter().chain(end)),
        ExprKind::If { condition, then, otherwise } => {
            out.extend([*condition, *then]);
            out.extend(otherwise);
        }
        ExprKind::Match(of, arms) => {
            out.push(*of);
            for arm in arms {
                out.extend(arm.guard);
                out.push(arm.value);
            }
        }
        ExprKind::Block(block) => {
            for statement in &block.statements {
                match statement {
                    Statement::Let { value, otherwise, .. } => out.extend(value.iter().chain(otherwise)),
                    Statement::Expr(id) => out.push(*id),
                }
            }
            out.extend(block.value);
        }
        ExprKind::For { iter, bound, body, .. } => {
            out.extend([*iter, *body]);
            out.extend(bound);
        }
        ExprKind::Break { value, .. } | ExprKind::Return(value) => out.extend(value),
        ExprKind::Tuple(items) | ExprKind::List(items) => out.extend(items),
        ExprKind::Struct { fields, base, .. } => {
            out.extend(fields.iter().map(|(_, id)| *id));
            out.extend(base);
        }
        ExprKind::Macro { subjects, pieces, .. } => {
            out.extend(subjects);
            out.extend(pieces.iter().filter_map(|p| match p {
                Piece::Value { value, .. } => Some(*value),
                Piece::Text(_) => None,
            }));
        }
    }
}

/// The names that a pattern binds.
pub fn bound(pattern: &Pattern) -> Vec<Arc<str>> {
    let mut names = Vec::new();
    let mut open = vec![pattern];
    while let Some(pattern) = open.pop() {
        match &pattern.kind {
            PatternKind::Bind { name, inner, .. } => {
                names.push(name.text.clone());
                open.extend(inner.as_deref());
            }
            PatternKind::Rest(Some(name)) => names.push(name.text.clone()),
            PatternKind::TupleStruct(_, inner)
            | PatternKind::Tuple(inner)
            | PatternKind::Slice(inner)
            | PatternKind::Or(inner) => open.extend(inner),
            PatternKind::Struct { fields, .. } => open.extend(fields.iter().map(|(_, p)| p)),
            PatternKind::Wildcard
            | PatternKind::Literal(_)
            | PatternKind::Range { .. }
            | PatternKind::Path(_)
            | PatternKind::Rest(None) => {}
        }
    }
    names
}

/// Every name that is read as a variable could be.
pub fn read(tree: &Tree, id: ExprId) -> Names {
    let mut names = Names::new();
    walk(tree, id, |_, kind| {
        if let ExprKind::Path(path, _) = kind
            && let [name] = path.as_slice()
        {
            names.insert(name.text.clone());
        }
    });
    names
}

/// Every name that some pattern inside binds.
pub fn bound_inside(tree: &Tree, id: ExprId) -> Names {
    let mut names = Names::new();
    walk(tree, id, |_, kind| match kind {
        ExprKind::Let(pattern, _) | ExprKind::For { pattern, .. } => names.extend(bound(pattern)),
        ExprKind::Match(_, arms) => arms.iter().for_each(|arm| names.extend(bound(&arm.pattern))),
        ExprKind::Closure { params, .. } => params.iter().for_each(|p| names.extend(bound(&p.pattern))),
        ExprKind::Block(block) => {
            for statement in &block.statements {
                if let Statement::Let { pattern, .. } = statement {
                    names.extend(bound(pattern));
                }
            }
        }
        _ => {}
    });
    names
}

/// The variables that are assigned to, or changed through a method or a `&mut`.
pub fn changed(tree: &Tree, id: ExprId) -> Names {
    let mut names = Names::new();
    walk(tree, id, |_, kind| {
        let place = match kind {
            ExprKind::Assign(place, _)
            | ExprKind::AssignOp(_, place, _)
            | ExprKind::Ref { mutable: true, of: place } => *place,
            ExprKind::Method { receiver, name, .. } => {
                let own = || tree.functions.iter().any(|f| f.owner.is_some() && f.name.text == name.text);
                if !CHANGING.contains(&&*name.text) && !own() {
                    return;
                }
                *receiver
            }
            _ => return,
        };
        let mut open = vec![place];
        while let Some(id) = open.pop() {
            match &tree.expr(id).kind {
                ExprKind::Path(path, _) if path.len() == 1 => {
                    names.insert(path[0].text.clone());
                }
                ExprKind::Field(of, _)
                | ExprKind::Index(of, _)
                | ExprKind::Unary(_, of)
                | ExprKind::Ref { of, .. }
                | ExprKind::Method { receiver: of, .. } => open.push(*of),
                ExprKind::Tuple(items) => open.extend(items),
                _ => {}
            }
        }
    });
    names
}

/// Whether control may leave `id` by `return`, or by a `break` or `continue` of a loop around it.
pub fn escapes(tree: &Tree, id: ExprId) -> bool {
    // (expression, loops around it inside `id`, labels of those)
    let mut open: Vec<(ExprId, usize, Vec<Arc<str>>)> = vec![(id, 0, Vec::new())];
    while let Some((id, loops, labels)) = open.pop() {
        let kind = &tree.expr(id).kind;
        let (mut inner_loops, mut inner_labels) = (loops, labels.clone());
        match kind {
            ExprKind::Return(_) | ExprKind::Try(_) => return true,
            ExprKind::Break { label: Some(label), .. } | ExprKind::Continue(Some(label))
                if !labels.contains(&label.text) =>
            {
                return true;
            }
            ExprKind::Break { label: None, .. } | ExprKind::Continue(None) if loops == 0 => return true,
            ExprKind::For { label, .. } | ExprKind::While { label, .. } | ExprKind::Loop { label, .. } => {
                inner_loops += 1;
                inner_labels.extend(label.as_ref().map(|l| l.text.clone()));
            }
            ExprKind::Block(block) => inner_labels.extend(block.label.as_ref().map(|l| l.text.clone())),
            // What a closure returns stays inside it.
            ExprKind::Closure { .. } => continue,
            _ => {}
        }
        let mut inside = Vec::new();
        children(kind, &mut inside);
        open.extend(inside.into_iter().map(|id| (id, inner_loops, inner_labels.clone())));
    }
    false
}
