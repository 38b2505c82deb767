//! Values of a program while it is evaluated.
//!
//! Lists, tuples and structs are values: a copy is independent of its source (they are copied on write).
//! What can be changed from elsewhere is a variable's cell, and a reference is a path that begins at one.

use super::ast::{ExprId, IntType, Param, Span};
use super::generation::{Counter, Stop};
use indexmap::IndexMap;
use std::sync::{Arc, Mutex, PoisonError};
use tallow_ir::{Dim, Value as Node};

/// A variable.
#[derive(Clone, Debug)]
pub struct Cell(Arc<Mutex<Value>>);

impl Cell {
    /// A variable that holds `value`.
    pub fn new(value: Value) -> Self {
        Cell(Arc::new(Mutex::new(value)))
    }

    /// What it holds.
    pub fn get(&self) -> Value {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes it hold `value`.
    pub fn set(&self, value: Value) {
        self.with(|slot| *slot = value);
    }

    /// Works on what it holds.
    pub fn with<T>(&self, f: impl FnOnce(&mut Value) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An integer, and its type where the program says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Int {
    /// The number.
    pub value: i128,
    /// `None`: a literal without suffix, a config number, a size.
    pub ty: Option<IntType>,
}

/// A value.
#[derive(Clone, Debug)]
pub enum Value {
    /// `()`
    Unit,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(Int),
    /// A real number.
    Float(f64),
    /// A character.
    Char(char),
    /// A text.
    Str(Arc<str>),
    /// A size that is known only when running.
    Size(Dim),
    /// A vector, array or slice.
    List(Arc<Items>),
    /// A map or set, by [`Key`].
    Map(Arc<Entries>),
    /// What `entry` of a map gives.
    Entry(Arc<Entry>),
    /// A default whose type its first use tells.
    Default,
    /// A tuple.
    Tuple(Arc<Items>),
    /// A struct, or a variant of an enum with fields.
    Struct(Arc<StructValue>),
    /// `Some(x)`, whose list has one element, and `None`; `Ok(x)` is `Some`, and `Err(…)` is `None`.
    Option(Option<Arc<Items>>),
    /// `a..b`.
    Range(Range),
    /// An iterator, shared by whoever holds it.
    Iter(super::eval::iter::Iter),
    /// A closure.
    Closure(Arc<Closure>),
    /// A function of the program, by its number in the tree.
    Function(usize),
    /// An associated function that is given away, as in `map(f32::sqrt)`.
    Builtin(Arc<str>, Arc<str>),
    /// `&mut x`, and what walks over elements to change them.
    Ref(Arc<Place>),
    /// A table of the config.
    Config(Arc<ConfigTable>),
    /// A key that the config lacks; an error unless the program asks whether it is there.
    Missing(Arc<MissingKey>),
    /// The weight store.
    Weights,
    /// The tokenizer.
    Tokenizer,
    /// A tensor: a value of the graph.
    Tensor(Node),
    /// A tensor input whose shape is not settled yet, by its number among the inputs.
    Input(usize),
    /// An ordinary value that is known only when running.
    Host(super::host::HostId),
    /// The largest values along the last dimension and their indices: a pair of tensors.
    TopK {
        /// The values.
        values: Node,
        /// The indices.
        index: Node,
    },
    /// A sampled token.
    Sampled(usize),
    /// The tokens of a generation loop; or those that `tok.encode` gives, before one.
    Tokens,
    /// What a generation loop leaves: all tokens.
    Generated,
    /// A condition that ends a generation loop.
    Stop(Stop),
    /// A number that grows from token to token.
    Counter(Counter),
    /// `tok.decode` of generated or sampled tokens.
    Decoded,
    /// A matrix product of `.tri` whose role is not known yet.
    Pending(usize),
    /// The parts of the `.tri` standard library, and what its `forward` is given beside the config.
    Tri(TriValue),
    /// What a failed statement would have given; it fails without a word.
    Poison,
}

/// Values of `.tri` that have no other form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriValue {
    /// The prompt.
    Input,
    /// Where text goes.
    Output,
    /// `io`
    Io,
    /// `convert`
    Convert,
    /// `tensor`
    Tensor,
    /// `transformer_llama`
    Llama,
}

impl TriValue {
    /// The name by which programs call it.
    pub fn name(self) -> &'static str {
        match self {
            TriValue::Input => "input",
            TriValue::Output => "output",
            TriValue::Io => "io",
            TriValue::Convert => "convert",
            TriValue::Tensor => "tensor",
            TriValue::Llama => "transformer_llama",
        }
    }
}

/// A struct, or a variant of an enum.
#[derive(Clone, Debug)]
pub struct StructValue {
    /// The struct or enum.
    pub name: Arc<str>,
    /// The variant of an enum.
    pub variant: Option<Arc<str>>,
    /// The fields in declared order.
    pub fields: Vec<(Arc<str>, Value)>,
}

/// `a..b`, `a..=b`; the end is exclusive here, and missing for `a..`.
#[derive(Clone, Debug)]
pub struct Range {
    /// The first number; 0 for `..b`.
    pub start: Int,
    /// One past the last.
    pub end: Option<Int>,
    /// Whether the start was written.
    pub from_start: bool,
    /// Whether it is over characters.
    pub chars: bool,
}

/// A closure with the variables around it.
#[derive(Clone, Debug)]
pub struct Closure {
    /// The parameters.
    pub params: Arc<[Param]>,
    /// The body.
    pub body: ExprId,
    /// Visible variables where it was made.
    pub captured: Vec<(Arc<str>, Cell)>,
}

/// A path to something that can be changed.
#[derive(Clone, Debug)]
pub struct Place {
    /// The variable.
    pub root: Cell,
    /// From there inwards.
    pub path: Vec<Step>,
}

/// One step of a [`Place`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An element of a list or tuple.
    Element(usize),
    /// A field of a struct.
    Field(Arc<str>),
    /// The value behind a key of a map.
    Entry(Key),
}

/// The place of a key in a map, whether it is there or not.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The map.
    pub map: Place,
    /// The key.
    pub key: Key,
    /// The key as a value.
    pub shown: Value,
}

/// What maps and sets are keyed by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// An integer.
    Int(i128),
    /// A truth value.
    Bool(bool),
    /// A character.
    Char(char),
    /// A text.
    Str(Arc<str>),
    /// A tuple or list.
    List(Vec<Key>),
    /// A struct or variant, by its name and fields.
    Struct(Arc<str>, Vec<Key>),
}

/// A table of the config as ordinary values.
#[derive(Clone, Debug)]
pub struct ConfigTable {
    /// Dotted path; empty for the root.
    pub path: String,
    /// Its keys.
    pub keys: IndexMap<Arc<str>, Value>,
}

/// A config key that does not exist.
#[derive(Clone, Debug)]
pub struct MissingKey {
    /// The table.
    pub table: Arc<ConfigTable>,
    /// The key.
    pub key: Arc<str>,
    /// Where the program names it.
    pub span: Span,
}

/// The elements of a list or tuple.
#[derive(Clone, Debug, Default)]
pub struct Items(pub Vec<Value>);

/// The entries of a map or set: key, and the key as a value, and the value.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    /// In the order in which they are walked.
    map: IndexMap<Key, (Value, Value)>,
    /// Whether they stay sorted by key; else they stay as they were inserted.
    pub sorted: bool,
    /// Whether it is a set, whose values are `()`.
    pub set: bool,
}

impl Entries {
    /// No entries.
    pub fn new(sorted: bool, set: bool) -> Self {
        Entries { map: IndexMap::new(), sorted, set }
    }

    /// Puts a value behind a key, and gives the one that was there.
    pub fn put(&mut self, key: Key, shown: Value, value: Value) -> Option<Value> {
        if let Some((_, slot)) = self.map.get_mut(&key) {
            return Some(std::mem::replace(slot, value));
        }
        match self.sorted {
            true => drop(self.map.insert_sorted(key, (shown, value))),
            false => drop(self.map.insert(key, (shown, value))),
        }
        None
    }
}

impl std::ops::Deref for Items {
    type Target = Vec<Value>;

    fn deref(&self) -> &Vec<Value> {
        &self.0
    }
}

impl std::ops::DerefMut for Items {
    fn deref_mut(&mut self) -> &mut Vec<Value> {
        &mut self.0
    }
}

impl std::ops::Deref for Entries {
    type Target = IndexMap<Key, (Value, Value)>;

    fn deref(&self) -> &Self::Target {
        &self.map
    }
}

impl std::ops::DerefMut for Entries {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.map
    }
}

impl Drop for Items {
    fn drop(&mut self) {
        drop_in_turn(std::mem::take(&mut self.0));
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        drop_in_turn(std::mem::take(&mut self.map).into_values().map(|(_, value)| value));
    }
}

impl Drop for StructValue {
    fn drop(&mut self) {
        drop_in_turn(std::mem::take(&mut self.fields).into_iter().map(|(_, value)| value));
    }
}

impl Drop for Closure {
    fn drop(&mut self) {
        let cells = std::mem::take(&mut self.captured);
        drop_in_turn(
            cells
                .into_iter()
                .filter_map(|(_, cell)| Arc::into_inner(cell.0))
                .map(|inner| inner.into_inner().unwrap_or_else(PoisonError::into_inner)),
        );
    }
}

thread_local! {
    /// Parts of values that are being dropped.
    static DROPPING: std::cell::RefCell<Option<Vec<Value>>> = const { std::cell::RefCell::new(None) };
}

/// Drops values one after another instead of inside each other: a program can nest them millions deep.
pub(crate) fn drop_in_turn(values: impl IntoIterator<Item = Value>) {
    let mut values: Vec<Value> = values.into_iter().filter(Value::has_parts).collect();
    if values.is_empty() {
        return;
    }
    // During the end of a thread there is nothing to put them in; then they drop inside each other.
    let outer = DROPPING.try_with(|dropping| match &mut *dropping.borrow_mut() {
        Some(waiting) => {
            waiting.append(&mut values);
            false
        }
        none => {
            *none = Some(std::mem::take(&mut values));
            true
        }
    });
    if !matches!(outer, Ok(true)) {
        return;
    }
    while let Ok(Some(value)) = DROPPING.try_with(|dropping| dropping.borrow_mut().as_mut().and_then(Vec::pop)) {
        drop(value);
    }
    let _ = DROPPING.try_with(|dropping| dropping.borrow_mut().take());
}

impl Value {
    /// Whether other values lie inside this one.
    pub fn has_parts(&self) -> bool {
        matches!(
            self,
            Value::List(_)
                | Value::Tuple(_)
                | Value::Map(_)
                | Value::Struct(_)
                | Value::Option(Some(_))
                | Value::Closure(_)
                | Value::Iter(_)
                | Value::Ref(_)
                | Value::Entry(_)
        )
    }

    /// A variant of `Ordering`.
    pub fn ordering(order: std::cmp::Ordering) -> Value {
        let variant = match order {
            std::cmp::Ordering::Less => "Less",
            std::cmp::Ordering::Equal => "Equal",
            std::cmp::Ordering::Greater => "Greater",
        };
        let of = StructValue { name: "Ordering".into(), variant: Some(variant.into()), fields: Vec::new() };
        Value::Struct(Arc::new(of))
    }

    /// `Reverse(x)`, which is ordered the other way round.
    pub fn reversed(value: Value) -> Value {
        let of = StructValue { name: "Reverse".into(), variant: None, fields: vec![("0".into(), value)] };
        Value::Struct(Arc::new(of))
    }

    /// An integer without a type.
    pub fn int(value: impl Into<i128>) -> Value {
        Value::Int(Int { value: value.into(), ty: None })
    }

    /// An integer of a type.
    pub fn typed(value: i128, ty: IntType) -> Value {
        Value::Int(Int { value, ty: Some(ty) })
    }

    /// A size: a `usize` where it is known.
    pub fn size(dim: &Dim) -> Value {
        match dim.as_const() {
            Some(n) => Value::typed(n.into(), IntType::Usize),
            None => Value::Size(dim.clone()),
        }
    }

    /// A length.
    pub fn len(n: usize) -> Value {
        Value::typed(n as i128, IntType::Usize)
    }

    /// A text.
    pub fn str(text: impl AsRef<str>) -> Value {
        Value::Str(text.as_ref().into())
    }

    /// A list.
    pub fn list(items: Vec<Value>) -> Value {
        Value::List(Arc::new(Items(items)))
    }

    /// A tuple.
    pub fn tuple(items: Vec<Value>) -> Value {
        Value::Tuple(Arc::new(Items(items)))
    }

    /// `Some(x)`.
    pub fn some(value: Value) -> Value {
        Value::Option(Some(Arc::new(Items(vec![value]))))
    }

    /// `None`.
    pub fn none() -> Value {
        Value::Option(None)
    }

    /// What kind of value this is, for messages: with an article.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Unit => "nothing",
            Value::Bool(_) => "a truth value",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Char(_) => "a character",
            Value::Str(_) => "a text",
            Value::Size(_) => "a size that is known only when running",
            Value::List(_) => "a list",
            Value::Map(map) if map.set => "a set",
            Value::Map(_) => "a map",
            Value::Entry(_) => "an entry of a map",
            Value::Default => "a default of a type that nothing tells",
            Value::Tuple(_) => "a tuple",
            Value::Struct(_) => "a struct",
            Value::Option(Some(_)) => "an option",
            Value::Option(None) => "`None`",
            Value::Range(_) => "a range",
            Value::Iter(_) => "an iterator",
            Value::Closure(_) => "a closure",
            Value::Function(_) | Value::Builtin(..) => "a function",
            Value::Ref(_) => "a reference",
            Value::Config(_) => "a table of the config",
            Value::Missing(_) => "a missing key of the config",
            Value::Weights => "the weight store",
            Value::Tokenizer => "the tokenizer",
            Value::Tensor(_) => "a tensor",
            Value::Input(_) => "an input tensor",
            Value::Host(_) => "a value that is known only when running",
            Value::TopK { .. } => "pairs of values and indices",
            Value::Sampled(_) => "a sampled token",
            Value::Tokens => "the tokens of the text",
            Value::Generated => "generated tokens",
            Value::Stop(_) => "a condition on generated tokens",
            Value::Counter(_) => "a number that grows from token to token",
            Value::Decoded => "decoded text",
            Value::Pending(_) => "a matrix product",
            Value::Tri(TriValue::Input) => "the prompt",
            Value::Tri(TriValue::Output) => "the text sink",
            Value::Tri(_) => "a module",
            Value::Poison => "the result of a failed statement",
        }
    }
}
