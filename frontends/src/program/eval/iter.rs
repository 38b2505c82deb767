//! Iterators.

use super::{Eval, Evaluator};
use crate::program::ast::Span;
use crate::program::value::Value;
use std::sync::{Arc, Mutex, PoisonError};

/// An iterator, shared by whoever holds it.
#[derive(Clone, Debug)]
pub struct Iter(Arc<Mutex<State>>);

/// Where an iterator stands.
#[derive(Clone, Debug)]
pub enum State {
    /// The elements that are left, last first.
    Left(Vec<Value>),
}

impl Evaluator<'_> {
    /// What a `for` or an adapter walks over.
    pub(crate) fn iterate(&mut self, value: Value, span: Span) -> Eval<Iter> {
        match self.deref(value) {
            Value::Iter(iter) => Ok(iter),
            Value::List(items) => {
                let mut left = items.to_vec();
                left.reverse();
                Ok(Iter(Arc::new(Mutex::new(State::Left(left)))))
            }
            other => Err(self.mismatch(&other, "something to walk over", span)),
        }
    }

    /// The next element.
    pub(crate) fn next(&mut self, iter: &Iter, span: Span) -> Eval<Option<Value>> {
        self.tick(span)?;
        match &mut *iter.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Left(left) => Ok(left.pop()),
        }
    }
}
