//! The graph section as tables:
//!
//! ```toml
//! outputs = ["logits"]
//!
//! [[inputs]]
//! name = "input_ids"
//! shape = [-1]
//! dtype = "i64"
//!
//! [[nodes]]
//! id = 0
//! op = "TokenEmbed"
//! inputs = ["input_ids", "model.embed_tokens.weight"]
//! outputs = ["h"]
//!
//! [[nodes]]
//! id = 1
//! op = "RmsNorm"
//! inputs = ["h", "model.norm.weight"]
//! outputs = ["x"]
//! attrs = { eps = 1e-6 }
//! hint = "cuda"
//! ```
//!
//! `attrs` has every field of the operation. A field that is no number, truth value or list of
//! numbers is a text in the spelling of the text form, as in `"none"`; a text such as the name of a
//! function stands as it is. A dimension of -1 is dynamic.
//! Without `inputs` and `outputs` at the top the graph is bare: both follow from the names. An input
//! may have `offset` and `size`, and the whole may say `hint_form = "byte"`; both only keep what the
//! binary form of the same graph holds.

use std::fmt;
use tallow_format::{FormatError, Section};
use tallow_ir::binary::{HintForm, Input, Interface, RawNode};
use tallow_ir::hint::{hint_from_name, hint_name};
use tallow_ir::ops::{FieldInfo, MAX_RANK, Payload, Text};
use tallow_ir::{DType, Op, OpInfo, RawGraph};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value};

/// The longest text that is read: its values take some 40 times as much memory. More than 200,000 nodes fit.
pub const MAX_TEXT: usize = 32 << 20;

/// At most this many errors are listed.
const LISTED: usize = 20;

/// Everything in the tables that is not as it must be.
#[derive(Debug)]
pub struct TableErrors {
    errors: Vec<String>,
    unsupported: bool,
}

impl TableErrors {
    /// True where nothing is wrong but operations or types that this version does not know.
    pub fn is_unsupported(&self) -> bool {
        self.unsupported
    }

    /// One line for each error.
    pub fn lines(&self) -> &[String] {
        &self.errors
    }
}

impl fmt::Display for TableErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.errors[..self.errors.len().min(LISTED)];
        f.write_str(&shown.join("\n"))?;
        match self.errors.len() - shown.len() {
            0 => Ok(()),
            more => write!(f, "\nand {more} more errors"),
        }
    }
}

impl std::error::Error for TableErrors {}

/// Why one node or input cannot be read.
enum Fault {
    Wrong(String),
    Unknown(String),
}

impl From<FormatError> for Fault {
    fn from(error: FormatError) -> Self {
        // The cure that it carries speaks of a config.
        Fault::Wrong(error.cause().to_owned())
    }
}

/// Reads the tables.
///
/// # Errors
/// Every node and input that is not as it must be.
pub fn read(text: &str) -> Result<RawGraph, TableErrors> {
    if text.len() > MAX_TEXT {
        let cause = format!("{} bytes of tables are over the limit of {MAX_TEXT}; use `format = \"hex\"`", text.len());
        return Err(TableErrors { errors: vec![cause], unsupported: true });
    }
    let doc: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| TableErrors {
        errors: vec![e.to_string().trim_end().to_owned()],
        unsupported: false,
    })?;
    let root = Section::new("", doc.as_table());
    let mut errors = Collected::default();

    let hints = errors.take(hint_form(&root)).unwrap_or_default();
    let mut nodes = Vec::new();
    for table in errors.take(tables(&root, "nodes")).unwrap_or_default() {
        nodes.extend(errors.take(node(&table)));
    }
    let outputs = errors.take(root.strings("outputs").map_err(Fault::from));
    let declared = errors.take(tables(&root, "inputs"));
    let bare = !root.contains("inputs") && !root.contains("outputs");
    let mut inputs = Vec::new();
    for table in declared.unwrap_or_default() {
        inputs.extend(errors.take(input(&table)));
    }
    errors.keep(strangers(&root));

    let interface = (!bare).then(|| Interface { inputs, outputs: outputs.flatten().unwrap_or_default() });
    errors.finish(RawGraph { nodes, interface, hints })
}

/// Writes the tables; [`read`] gives the same graph back.
pub fn write(raw: &RawGraph) -> String {
    let mut doc = DocumentMut::new();
    if raw.hints == HintForm::Byte {
        doc.insert("hint_form", "byte".into());
    }
    if let Some(interface) = &raw.interface {
        doc.insert("outputs", list(&interface.outputs).into());
        let mut tables = ArrayOfTables::new();
        for input in &interface.inputs {
            let mut table = Table::new();
            table.insert("name", input.name.as_str().into());
            table.insert("shape", Array::from_iter(input.dims.iter().copied()).into());
            table.insert("dtype", input.dtype.name().into());
            if let Some((offset, size)) = input.place {
                table.insert("offset", whole(offset));
                table.insert("size", whole(size));
            }
            tables.push(table);
        }
        if !tables.is_empty() {
            doc.insert("inputs", Item::ArrayOfTables(tables));
        }
    }
    let mut tables = ArrayOfTables::new();
    for node in &raw.nodes {
        let mut table = Table::new();
        table.insert("id", i64::from(node.id).into());
        table.insert("op", node.op.name().into());
        table.insert("inputs", list(&node.inputs).into());
        table.insert("outputs", list(&node.outputs).into());
        let attrs = attributes(&node.op);
        if !attrs.is_empty() {
            table.insert("attrs", attrs.into());
        }
        if let Some(hint) = node.hint {
            let item = match hint_name(hint) {
                Some(name) => name.into(),
                None => i64::from(hint).into(),
            };
            table.insert("hint", item);
        }
        tables.push(table);
    }
    if !tables.is_empty() {
        doc.insert("nodes", Item::ArrayOfTables(tables));
    }
    doc.to_string()
}

/// Errors as they come up.
#[derive(Default)]
struct Collected {
    wrong: Vec<String>,
    unknown: Vec<String>,
}

impl Collected {
    fn take<T>(&mut self, result: Result<T, Fault>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(fault) => {
                self.keep(vec![fault]);
                None
            }
        }
    }

    fn keep(&mut self, faults: Vec<Fault>) {
        for fault in faults {
            match fault {
                Fault::Wrong(text) => self.wrong.push(text),
                Fault::Unknown(text) => self.unknown.push(text),
            }
        }
    }

    fn finish(mut self, graph: RawGraph) -> Result<RawGraph, TableErrors> {
        let unsupported = self.wrong.is_empty();
        self.wrong.append(&mut self.unknown);
        if self.wrong.is_empty() {
            return Ok(graph);
        }
        Err(TableErrors { errors: self.wrong, unsupported })
    }
}

/// An array of tables; an empty list counts as one without tables.
fn tables<'a>(root: &Section<'a>, key: &str) -> Result<Vec<Section<'a>>, Fault> {
    Ok(root.tables(key)?.unwrap_or_default())
}

fn hint_form(root: &Section<'_>) -> Result<HintForm, Fault> {
    match root.str("hint_form")? {
        None | Some("flagged") => Ok(HintForm::Flagged),
        Some("byte") => Ok(HintForm::Byte),
        Some(other) => Err(root.invalid("hint_form", other, "`flagged` or `byte`").into()),
    }
}

fn node(table: &Section<'_>) -> Result<RawNode, Fault> {
    let id = match table.u64("id")? {
        Some(n) => u32::try_from(n).map_err(|_| table.invalid("id", &n.to_string(), "a number below 2^32"))?,
        None => return Err(table.missing("id", "a number").into()),
    };
    let name = table.str("op")?.ok_or_else(|| table.missing("op", "the name of an operation"))?;
    let Some(info) = OpInfo::by_name(name) else {
        let name: String = name.chars().take(60).collect();
        return Err(Fault::Unknown(format!(
            "`{}.op` is \"{name}\", an operation that this version does not know",
            table.path()
        )));
    };
    let op = operation(table, info)?;
    let hint = hint(table)?;
    let node = RawNode {
        id,
        op,
        inputs: table.strings("inputs")?.unwrap_or_default(),
        outputs: table.strings("outputs")?.unwrap_or_default(),
        hint,
    };
    match strangers(table).pop() {
        Some(fault) => Err(fault),
        None => Ok(node),
    }
}

fn operation(table: &Section<'_>, info: &OpInfo) -> Result<Op, Fault> {
    let attrs = table.table("attrs")?;
    let path = table.path();
    let op = Op::from_fields(info.name, |field| {
        let item = attrs.as_ref().and_then(|a| a.item(field));
        let item = item.ok_or_else(|| format!("`{field}` is missing"))?;
        if info.fields.iter().any(|f| f.name == field && is_text(f))
            && let Some(own) = item.as_str()
        {
            return Text::new(own).map(|text| quoted(&text)).map_err(|cause| format!("`{field}`: {cause}"));
        }
        item.as_value().and_then(text_of).ok_or_else(|| format!("`{field}` is neither a number, a list nor a text"))
    })
    .map_err(|cause| Fault::Wrong(format!("`{path}.attrs` does not fit {}: {cause}", info.name)))?;
    match attrs.and_then(|a| strangers(&a).pop()) {
        Some(fault) => Err(fault),
        None => Ok(op),
    }
}

fn hint(table: &Section<'_>) -> Result<Option<u8>, Fault> {
    let known = "a device such as `cpu`, or a number below 256";
    let Some(item) = table.item("hint") else {
        return Ok(None);
    };
    if let Some(name) = item.as_str() {
        let wrong = || table.invalid("hint", &name.escape_debug().to_string(), known);
        return Ok(Some(hint_from_name(name).ok_or_else(wrong)?));
    }
    match table.u64("hint")?.map(u8::try_from) {
        Some(Ok(n)) => Ok(Some(n)),
        Some(Err(_)) | None => Err(table.invalid("hint", "too large", known).into()),
    }
}

fn input(table: &Section<'_>) -> Result<Input, Fault> {
    let name = table.str("name")?.ok_or_else(|| table.missing("name", "the name of the input"))?;
    let dims = table.i64s("shape")?.ok_or_else(|| table.missing("shape", "a list of sizes, -1 where dynamic"))?;
    if dims.len() > MAX_RANK {
        let found = format!("a list of {}", dims.len());
        return Err(table.invalid("shape", &found, &format!("at most {MAX_RANK} dimensions")).into());
    }
    if let Some(n) = dims.iter().find(|&&n| n < -1) {
        return Err(table.invalid("shape", &format!("a list with {n}"), "sizes, or -1 where dynamic").into());
    }
    let dtype = match table.str("dtype")? {
        None => DType::F32,
        Some(name) => DType::from_name(name).ok_or_else(|| {
            let name: String = name.chars().take(60).collect();
            Fault::Unknown(format!("`{}.dtype` is \"{name}\", a type that this version does not know", table.path()))
        })?,
    };
    let place = match (table.u64("offset")?, table.u64("size")?) {
        (Some(offset), Some(size)) => Some((offset, size)),
        (None, None) => None,
        (Some(_), None) => return Err(table.missing("size", "a number of bytes").into()),
        (None, Some(_)) => return Err(table.missing("offset", "a number of bytes").into()),
    };
    match strangers(table).pop() {
        Some(fault) => Err(fault),
        None => Ok(Input { name: name.to_owned(), dims, dtype, place }),
    }
}

/// An error for each key that nothing reads.
fn strangers(table: &Section<'_>) -> Vec<Fault> {
    let place = match table.path() {
        "" => String::new(),
        path => format!(" of `{path}`"),
    };
    table
        .unread()
        .into_iter()
        .map(|key| {
            let key: String = key.chars().take(60).collect();
            Fault::Wrong(format!("key `{key}`{place} has no meaning; remove it"))
        })
        .collect()
}

/// A value in the spelling of the text form.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(s) => Some(s.value().clone()),
        Value::Integer(n) => Some(n.value().to_string()),
        Value::Float(x) => Some(x.value().to_string()),
        Value::Boolean(b) => Some(b.value().to_string()),
        Value::Array(all) => {
            let items: Option<Vec<String>> = all.iter().map(text_of).collect();
            Some(format!("[{}]", items?.join(", ")))
        }
        Value::Datetime(_) | Value::InlineTable(_) => None,
    }
}

/// The fields of an operation as values.
fn attributes(op: &Op) -> InlineTable {
    let mut out = InlineTable::new();
    for ((name, text), field) in op.fields().into_iter().zip(op.info().fields) {
        let own = is_text(field).then(|| Text::parse(&text).ok()).flatten();
        out.insert(name, own.map_or_else(|| value_of(&text), |own| own.as_str().into()));
    }
    out
}

/// The spelling of the text form.
fn quoted(text: &Text) -> String {
    let mut out = String::new();
    text.print(&mut out);
    out
}

/// Whether the field holds a text of its own, which stands here without the quotes of the text form.
fn is_text(field: &FieldInfo) -> bool {
    field.kind == Text::KIND
}

/// The value whose text, by [`text_of`], means the same; a text where no other kind would.
fn value_of(text: &str) -> Value {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    if let Some(inner) = inner {
        let items = inner.split(", ").filter(|t| !t.is_empty()).map(value_of);
        return Value::Array(items.collect());
    }
    match text {
        "true" => return true.into(),
        "false" => return false.into(),
        _ => {}
    }
    if let Ok(n) = text.parse::<i64>()
        && n.to_string() == text
    {
        return n.into();
    }
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() && x != 0.0 => x.into(),
        _ => text.into(),
    }
}

fn list(names: &[String]) -> Value {
    Value::Array(names.iter().map(String::as_str).collect())
}

/// A number of bytes: sizes past 2^63 do not occur in files that exist, and would not read back.
fn whole(n: u64) -> Item {
    i64::try_from(n).unwrap_or(i64::MAX).into()
}
