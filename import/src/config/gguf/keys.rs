//! The keys of one architecture in a GGUF file, read by name.

use std::collections::BTreeSet;

use crate::error::{ImportError, Result, clip, names};
use crate::gguf::{GgufFile, Value};
use crate::names::GgufArch;

/// Which layers slide, as files say it.
pub(super) enum Pattern {
    /// Every n-th layer is full.
    Every(u64),
    /// One entry per layer, true where it slides.
    List(Vec<bool>),
}

/// The keys of one architecture, with a note of those that were read.
pub(super) struct Keys<'a> {
    /// The file.
    pub file: &'a GgufFile,
    /// The architecture that its keys begin with.
    pub arch: &'a GgufArch,
    read: std::cell::RefCell<BTreeSet<String>>,
}

impl<'a> Keys<'a> {
    /// The keys of a file.
    pub fn new(file: &'a GgufFile, arch: &'a GgufArch) -> Self {
        Self { file, arch, read: std::cell::RefCell::default() }
    }

    fn key(&self, short: &str) -> String {
        let key = format!("{}.{short}", self.arch.name);
        self.read.borrow_mut().insert(key.clone());
        key
    }

    /// An integer, or a list of one and the same integer per layer.
    pub fn uint(&self, short: &str) -> Result<Option<u64>> {
        let key = self.key(short);
        if !matches!(self.file.value(&key), Some(Value::Array { .. })) {
            return self.file.uint(&key);
        }
        let list = self.file.numbers(&key)?.unwrap_or_default();
        let same = list.first().filter(|first| list.iter().all(|x| x == *first));
        match same {
            Some(&x) if x.fract() == 0.0 && (0.0..9e15).contains(&x) => Ok(Some(x as u64)),
            _ => Err(self.unsupported(short, "layers of different sizes are not read".into())),
        }
    }

    /// An integer for each layer; one integer stands for all. It must be there.
    pub fn per_layer(&self, short: &str, layers: usize) -> Result<Vec<u64>> {
        let key = self.key(short);
        if !matches!(self.file.value(&key), Some(Value::Array { .. })) {
            return Ok(vec![self.needed(short)?; layers]);
        }
        let list = self.file.numbers(&key)?.unwrap_or_default();
        let whole = |x: &f64| x.fract() == 0.0 && (0.0..9e15).contains(x);
        if list.len() != layers || !list.iter().all(whole) {
            let expected = format!("a list of {layers} integers, one per layer");
            return Err(self.file.wrong(&key, &format!("a list of {} numbers", list.len()), &expected));
        }
        Ok(list.into_iter().map(|x| x as u64).collect())
    }

    /// An integer that must be there.
    pub fn needed(&self, short: &str) -> Result<u64> {
        self.uint(short)?.ok_or_else(|| self.missing(short))
    }

    /// A number that must be there.
    pub fn needed_float(&self, short: &str) -> Result<f64> {
        self.float(short)?.ok_or_else(|| self.missing(short))
    }

    /// A number.
    pub fn float(&self, short: &str) -> Result<Option<f64>> {
        self.file.float(&self.key(short))
    }

    /// A truth value.
    pub fn bool(&self, short: &str) -> Result<Option<bool>> {
        self.file.bool(&self.key(short))
    }

    /// A text.
    pub fn text(&self, short: &str) -> Result<Option<String>> {
        Ok(self.file.text(&self.key(short))?.map(str::to_owned))
    }

    /// Which layers slide.
    pub fn pattern(&self, short: &str, layers: u64) -> Result<Option<Pattern>> {
        let key = self.key(short);
        match self.file.value(&key) {
            None => Ok(None),
            Some(Value::Array { .. }) => {
                let list = self.file.numbers(&key)?.unwrap_or_default();
                if list.len() as u64 != layers {
                    return Err(self.file.wrong(
                        &key,
                        &format!("a list of {}", list.len()),
                        &format!("a list of {layers}, one entry per layer"),
                    ));
                }
                Ok(Some(Pattern::List(list.into_iter().map(|x| x != 0.0).collect())))
            }
            Some(_) => Ok(self.file.uint(&key)?.filter(|&n| n > 0).map(Pattern::Every)),
        }
    }

    fn missing(&self, short: &str) -> ImportError {
        ImportError::malformed(
            self.file.path(),
            format!("key `{}.{short}`", self.arch.name),
            "it is missing",
            "Convert the model again with a current converter.",
        )
    }

    /// An error about the value of a key.
    pub fn unsupported(&self, short: &str, cause: String) -> ImportError {
        ImportError::unsupported(
            self.file.path(),
            format!("key `{}.{short}`", self.arch.name),
            cause,
            "Take the original model as safetensors, if its type is read.",
        )
    }

    /// An error for keys of the architecture that nothing has read and that say something.
    pub fn refuse_unread(&self, ignore: &[String], warnings: &mut Vec<String>) -> Result<()> {
        // Read by nobody: how the file came about.
        let harmless = ["tensor_data_layout", "rope.scaling.finetuned", "attention.layer_norm_epsilon"];
        let read = self.read.borrow();
        let prefix = format!("{}.", self.arch.name);
        let mut unread = Vec::new();
        for key in self.file.keys() {
            let Some(short) = key.strip_prefix(&prefix) else {
                continue;
            };
            if read.contains(key) || harmless.contains(&short) || self.is_neutral(key) {
                continue;
            }
            let value = self.file.value(key).map(Value::describe).unwrap_or_default();
            if ignore.iter().any(|i| i == key || i == short) {
                warnings.push(format!(
                    "Key `{}` = {value} has been left out, as asked; the results may differ from the original's.",
                    clip(key)
                ));
            } else {
                unread.push(format!("{} = {value}", clip(key)));
            }
        }
        if unread.is_empty() {
            return Ok(());
        }
        Err(ImportError::unsupported(
            self.file.path(),
            "metadata",
            format!("{} say something that is not read here", names(&unread, 8)),
            "If they change nothing in the model's results, leave them out with `--ignore-setting NAME`.",
        ))
    }

    fn is_neutral(&self, key: &str) -> bool {
        match self.file.value(key) {
            None | Some(Value::Bool(false)) | Some(Value::Int(0)) => true,
            Some(Value::Float(x, _)) => *x == 0.0,
            Some(Value::String(range)) => range.is_empty(),
            Some(Value::Array { len, .. }) => *len == 0,
            Some(_) => false,
        }
    }
}
