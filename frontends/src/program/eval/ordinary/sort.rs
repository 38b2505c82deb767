//! Sorting by an order that may fail or contradict itself.

use crate::program::eval::Eval;
use crate::program::value::Value;
use std::cmp::Ordering;

/// Sorts, stably: a merge sort, which ends whatever the order says.
pub(super) fn sort(items: Vec<Value>, order: &mut dyn FnMut(&Value, &Value) -> Eval<Ordering>) -> Eval<Vec<Value>> {
    let mut from = items;
    let mut width = 1;
    while width < from.len() {
        let mut to = Vec::with_capacity(from.len());
        for part in from.chunks(2 * width) {
            let (a, b) = part.split_at(width.min(part.len()));
            let (mut i, mut j) = (0, 0);
            while i < a.len() && j < b.len() {
                if order(&b[j], &a[i])?.is_lt() {
                    to.push(b[j].clone());
                    j += 1;
                } else {
                    to.push(a[i].clone());
                    i += 1;
                }
            }
            to.extend_from_slice(&a[i..]);
            to.extend_from_slice(&b[j..]);
        }
        from = to;
        width *= 2;
    }
    Ok(from)
}
