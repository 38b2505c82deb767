//! Reads the keys of one TOML table, says what is wrong with each, and remembers which were asked for.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use toml_edit::{Item, Table, TableLike, Value};

use crate::error::{ErrorKind, FormatError, Result};

/// A reader over one table of the config.
///
/// Each getter gives `Ok(None)` for an absent key, and an error that names the key, what was found and what is expected
/// for one of the wrong type. [`Section::unread`] then lists the keys that nobody asked for, so that no setting is
/// silently without effect.
pub struct Section<'a> {
    path: String,
    table: &'a dyn TableLike,
    read: RefCell<BTreeSet<String>>,
}

impl<'a> Section<'a> {
    /// A reader over `table`; `path` is its dotted name, empty for the root.
    pub fn new(path: impl Into<String>, table: &'a dyn TableLike) -> Self {
        Self { path: path.into(), table, read: RefCell::default() }
    }

    /// A reader over a table without keys, as for one that is missing.
    pub fn empty(path: impl Into<String>) -> Self {
        static EMPTY: LazyLock<Table> = LazyLock::new(Table::new);
        Self::new(path, &*EMPTY)
    }

    /// The dotted name of the table, as in `architecture.vision`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// All keys, in the order of the file.
    pub fn keys(&self) -> Vec<String> {
        self.table.iter().map(|(key, _)| key.to_owned()).collect()
    }

    /// Whether the key is there. Counts as asking for it.
    pub fn contains(&self, key: &str) -> bool {
        self.item(key).is_some()
    }

    /// An integer of 0 or more.
    pub fn u64(&self, key: &str) -> Result<Option<u64>> {
        self.read(key, "an integer of 0 or more", |item| u64::try_from(item.as_integer()?).ok())
    }

    /// An integer of 0 or more that fits this machine's addresses.
    pub fn usize(&self, key: &str) -> Result<Option<usize>> {
        self.read(key, "an integer of 0 or more", |item| usize::try_from(item.as_integer()?).ok())
    }

    /// An integer.
    pub fn i64(&self, key: &str) -> Result<Option<i64>> {
        self.read(key, "an integer", Item::as_integer)
    }

    /// A finite number; integers count.
    pub fn f64(&self, key: &str) -> Result<Option<f64>> {
        self.read(key, "a finite number", |item| number(item.as_value()?))
    }

    /// `true` or `false`.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        self.read(key, "`true` or `false`", Item::as_bool)
    }

    /// A string.
    pub fn str(&self, key: &str) -> Result<Option<&'a str>> {
        self.read(key, "a string", Item::as_str)
    }

    /// A list of strings; a single string is a list of one.
    pub fn strings(&self, key: &str) -> Result<Option<Vec<String>>> {
        self.list(key, "a list of strings", |v| Some(v.as_str()?.to_owned()))
    }

    /// A list of finite numbers; a single number is a list of one.
    pub fn f64s(&self, key: &str) -> Result<Option<Vec<f64>>> {
        self.list(key, "a list of finite numbers", number)
    }

    /// A list of integers; a single integer is a list of one.
    pub fn i64s(&self, key: &str) -> Result<Option<Vec<i64>>> {
        self.list(key, "a list of integers", Value::as_integer)
    }

    /// A list of lists of integers.
    pub fn i64_rows(&self, key: &str) -> Result<Option<Vec<Vec<i64>>>> {
        self.list(key, "a list of lists of integers", |v| v.as_array()?.iter().map(Value::as_integer).collect())
    }

    /// A list of integers of 0 or more; a single one is a list of one.
    pub fn u64s(&self, key: &str) -> Result<Option<Vec<u64>>> {
        self.list(key, "a list of integers of 0 or more", |v| u64::try_from(v.as_integer()?).ok())
    }

    /// A list of booleans; a single one is a list of one.
    pub fn bools(&self, key: &str) -> Result<Option<Vec<bool>>> {
        self.list(key, "a list of `true` and `false`", Value::as_bool)
    }

    /// An ε: a number of at least 1 stands for its reciprocal, a smaller one for itself.
    pub fn epsilon(&self, key: &str) -> Result<Option<f64>> {
        let expected = "a number above 0 (an integer of at least 1 means 1/ε)";
        self.read(key, expected, |item| {
            let value = number(item.as_value()?)?;
            (value > 0.0).then(|| if value >= 1.0 { 1.0 / value } else { value })
        })
    }

    /// A table, written under its own header or inline.
    pub fn table(&self, key: &str) -> Result<Option<Section<'a>>> {
        let path = self.full(key);
        self.read(key, "a table", |item| Some(Section::new(path.clone(), item.as_table_like()?)))
    }

    /// The tables of an array of tables, in order.
    pub fn tables(&self, key: &str) -> Result<Option<Vec<Section<'a>>>> {
        let path = self.full(key);
        self.read(key, "an array of tables", |item| {
            let tables: Vec<&dyn TableLike> = match item {
                Item::ArrayOfTables(all) => all.iter().map(|t| t as _).collect(),
                Item::Value(Value::Array(all)) => {
                    all.iter().map(|v| v.as_inline_table().map(|t| t as _)).collect::<Option<_>>()?
                }
                _ => return None,
            };
            let named = |(i, t)| Section::new(format!("{path}[{i}]"), t);
            Some(tables.into_iter().enumerate().map(named).collect())
        })
    }

    /// The raw item, for values of more than one type.
    pub fn item(&self, key: &str) -> Option<&'a Item> {
        self.read.borrow_mut().insert(key.to_owned());
        self.table.get(key).filter(|item| !item.is_none())
    }

    /// Keys that are present and were never asked for, in the order of the file.
    pub fn unread(&self) -> Vec<String> {
        let read = self.read.borrow();
        self.keys().into_iter().filter(|key| !read.contains(key)).collect()
    }

    /// An error about a key of this section that has the right type and a value that does not do.
    pub fn invalid(&self, key: &str, found: &str, expected: &str) -> FormatError {
        FormatError::new(ErrorKind::Malformed, format!("`{}` is {found}, which should be {expected}", self.full(key)))
            .cure("Correct it in the config")
    }

    /// An error about a key that must be there.
    pub fn missing(&self, key: &str, expected: &str) -> FormatError {
        FormatError::new(ErrorKind::Missing, format!("`{}` is missing", self.full(key)))
            .cure(format!("Add it to the config: {expected}"))
    }

    fn full(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    fn read<T>(&self, key: &str, expected: &str, get: impl FnOnce(&'a Item) -> Option<T>) -> Result<Option<T>> {
        match self.item(key) {
            None => Ok(None),
            Some(item) => get(item).map(Some).ok_or_else(|| self.invalid(key, &found(item), expected)),
        }
    }

    fn list<T>(&self, key: &str, expected: &str, get: impl Fn(&Value) -> Option<T>) -> Result<Option<Vec<T>>> {
        let Some(item) = self.item(key) else {
            return Ok(None);
        };
        let wrong = |found: String| self.invalid(key, &found, expected);
        let value = item.as_value().ok_or_else(|| wrong(found(item)))?;
        match value {
            Value::Array(all) => all
                .iter()
                .enumerate()
                .map(|(i, v)| get(v).ok_or_else(|| wrong(format!("a list whose entry {i} is {}", shown(v)))))
                .collect::<Result<Vec<T>>>()
                .map(Some),
            one => Ok(Some(vec![get(one).ok_or_else(|| wrong(shown(one)))?])),
        }
    }
}

fn number(value: &Value) -> Option<f64> {
    let value = match value {
        Value::Integer(n) => *n.value() as f64,
        Value::Float(x) => *x.value(),
        _ => return None,
    };
    value.is_finite().then_some(value)
}

/// What an item is, for a message.
fn found(item: &Item) -> String {
    match item {
        Item::Value(value) => shown(value),
        other => format!("a {}", other.type_name()),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(s) => format!("the string \"{}\"", cut(s.value())),
        Value::Array(all) => format!("a list of {} entries", all.len()),
        Value::InlineTable(_) => "a table".into(),
        scalar => cut(scalar.to_string().trim()),
    }
}

fn cut(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn getters_read_and_unread_keys_are_listed() {
        let config = Config::parse(
            "model_type = \"m\"\n[architecture]\na = 3\nb = 0.5\nc = true\nd = \"x\"\ne = [1, 2]\nf = { g = 1 }\nz = -1\nunused = 1\n",
        )
        .unwrap();
        let arch = config.architecture();
        assert_eq!(arch.u64("a").unwrap(), Some(3));
        assert_eq!(arch.f64("a").unwrap(), Some(3.0));
        assert_eq!(arch.f64("b").unwrap(), Some(0.5));
        assert_eq!(arch.bool("c").unwrap(), Some(true));
        assert_eq!(arch.str("d").unwrap(), Some("x"));
        assert_eq!(arch.u64s("e").unwrap(), Some(vec![1, 2]));
        assert_eq!(arch.u64s("a").unwrap(), Some(vec![3]));
        assert_eq!(arch.strings("d").unwrap(), Some(vec!["x".to_owned()]));
        let f = arch.table("f").unwrap().unwrap();
        assert_eq!((f.path(), f.i64("g").unwrap()), ("architecture.f", Some(1)));
        assert_eq!(arch.i64("absent").unwrap(), None);
        assert_eq!(arch.unread(), ["z", "unused"]);
        assert_eq!(
            arch.u64("z").unwrap_err().to_string(),
            "`architecture.z` is -1, which should be an integer of 0 or more. Correct it in the config."
        );
        assert_eq!(
            arch.bool("d").unwrap_err().cause(),
            "`architecture.d` is the string \"x\", which should be `true` or `false`"
        );
        assert_eq!(
            arch.strings("e").unwrap_err().cause(),
            "`architecture.e` is a list whose entry 0 is 1, which should be a list of strings"
        );
        assert!(arch.table("a").is_err());
    }

    #[test]
    fn epsilon_has_two_forms() {
        let config = Config::parse(
            "[architecture]\ni = 1000000\nf = 1e-6\ng = 1e5\none = 1\nzero = 0\nneg = -1e-6\nnan = nan\n",
        )
        .unwrap();
        let arch = config.architecture();
        assert_eq!(arch.epsilon("i").unwrap(), Some(1e-6));
        assert_eq!(arch.epsilon("f").unwrap(), Some(1e-6));
        assert_eq!(arch.epsilon("g").unwrap(), Some(1e-5));
        assert_eq!(arch.epsilon("one").unwrap(), Some(1.0));
        for key in ["zero", "neg", "nan"] {
            let error = arch.epsilon(key).unwrap_err().to_string();
            assert!(error.contains("above 0"), "{error}");
        }
    }
}
