//! The TOML at the head of a container: what it declares, and edits that leave the rest of it as it was.

use toml_edit::{Array, ArrayOfTables, Document, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use crate::error::{ErrorKind, FormatError, Result};
use crate::toml_text;

/// The comment line that pads the frontmatter: `#pad`, any number of spaces, LF.
const PAD: &str = "#pad";

/// The largest number of files one container may declare.
pub const MAX_FILES: usize = 50_000;

/// One entry of `[[files]]`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Declared {
    /// The name on its `~~~` line.
    pub name: String,
    /// What its content is, as in `toml`; empty when the container does not say.
    pub format: String,
    /// Its length in bytes. Without one it is text that runs to the next delimiter.
    pub size: Option<u64>,
    /// The optional `type` key, which groups files.
    pub kind: Option<String>,
}

/// Parses frontmatter text; errors name the line.
pub fn parse(text: &str) -> Result<DocumentMut> {
    toml_text::parse(text)
}

/// Reads what `[[files]]` (or `[[parts]]`) declares, in order. Also gives warnings.
///
/// `text` is the source of `doc`, for line numbers.
pub fn declared(doc: &DocumentMut, text: &str) -> Result<(Vec<Declared>, Vec<String>)> {
    let key = files_key(doc)?;
    let mut warnings = Vec::new();
    match doc.get("cyb") {
        None => warnings.push("the frontmatter has no `[cyb]` table, which holds `types` and `name`".into()),
        Some(item) if !item.is_table_like() => {
            return Err(FormatError::new(ErrorKind::Malformed, format!("`cyb` is {}, not a table", item.type_name()))
                .cure("Write it as `[cyb]`"));
        }
        Some(item) => check_cyb(item, &mut warnings)?,
    }
    let entries = tables(doc, key)?;
    if entries.is_empty() {
        return Err(no_files());
    }
    if entries.len() > MAX_FILES {
        return Err(FormatError::new(
            ErrorKind::TooLarge,
            format!("{} files are declared; the limit is {MAX_FILES}", entries.len()),
        ));
    }
    let mut out: Vec<Declared> = Vec::with_capacity(entries.len());
    let mut seen = std::collections::HashMap::with_capacity(entries.len());
    for (index, table) in entries.iter().enumerate() {
        let one = read_entry(*table, key, index, &mut warnings).map_err(|e| e.or_at(place(text, key, index)))?;
        if let Some(first) = seen.insert(one.name.clone(), index) {
            return Err(FormatError::new(
                ErrorKind::Malformed,
                format!("two files are named `{}`: the first is at {}", one.name, place(text, key, first)),
            )
            .cure("Give each file a name of its own")
            .at(place(text, key, index)));
        }
        out.push(one);
    }
    Ok((out, warnings))
}

fn no_files() -> FormatError {
    FormatError::new(ErrorKind::Missing, "the frontmatter declares no files")
        .cure("Add a `[[files]]` table with `name` and `format` for each file inside")
}

fn check_cyb(item: &Item, warnings: &mut Vec<String>) -> Result<()> {
    let wrong = |key: &str, found: &Item, want: &str| {
        FormatError::new(ErrorKind::Malformed, format!("`{key}` in `[cyb]` is {}, not {want}", found.type_name()))
            .cure(format!("Write it as {want}"))
    };
    match item.get("name") {
        None => warnings.push("`[cyb]` has no `name`".into()),
        Some(v) if v.as_str().is_none() => return Err(wrong("name", v, "a string")),
        Some(_) => {}
    }
    match item.get("types") {
        None => warnings.push("`[cyb]` has no `types`".into()),
        Some(v) => match v.as_array() {
            Some(all) if all.iter().all(Value::is_str) => {}
            _ => return Err(wrong("types", v, "an array of strings")),
        },
    }
    Ok(())
}

/// `files`, or `parts` where the older spelling is used.
fn files_key(doc: &DocumentMut) -> Result<&'static str> {
    match (doc.contains_key("files"), doc.contains_key("parts")) {
        (true, true) => Err(FormatError::new(
            ErrorKind::Malformed,
            "the frontmatter has both `[[files]]` and `[[parts]]`, which mean the same",
        )
        .cure("Rename every `[[parts]]` to `[[files]]`, in the order of the files")),
        (true, false) => Ok("files"),
        (false, true) => Ok("parts"),
        (false, false) => Err(no_files()),
    }
}

/// The declared entries as tables, whichever of TOML's two spellings of an array of tables is used.
fn tables<'a>(doc: &'a DocumentMut, key: &str) -> Result<Vec<&'a dyn TableLike>> {
    let wrong = |found: &str| {
        FormatError::new(ErrorKind::Malformed, format!("`{key}` is {found}, not an array of tables"))
            .cure("Write one `[[files]]` table for each file")
    };
    let item = &doc[key];
    match item {
        Item::ArrayOfTables(all) => Ok(all.iter().map(|t| t as &dyn TableLike).collect()),
        Item::Value(Value::Array(all)) => all
            .iter()
            .map(|v| {
                v.as_inline_table()
                    .map(|t| t as &dyn TableLike)
                    .ok_or_else(|| wrong(&format!("an array that holds {}", v.type_name())))
            })
            .collect(),
        other => Err(wrong(other.type_name())),
    }
}

fn read_entry(table: &dyn TableLike, key: &str, index: usize, warnings: &mut Vec<String>) -> Result<Declared> {
    let text = |k: &str| -> Result<Option<String>> {
        match table.get(k) {
            None => Ok(None),
            Some(v) => v.as_str().map(|s| Some(s.to_owned())).ok_or_else(|| {
                FormatError::new(ErrorKind::Malformed, format!("`{k}` of a file is {}, not a string", v.type_name()))
                    .cure("Put it in quotes")
            }),
        }
    };
    let name = text("name")?.ok_or_else(|| {
        FormatError::new(ErrorKind::Missing, format!("entry {} of `[[{key}]]` has no `name`", index + 1))
            .cure("Add `name = \"…\"`, as on its `~~~` line")
    })?;
    check_name(&name)?;
    let format = text("format")?;
    if format.is_none() {
        warnings.push(format!("file `{name}` has no `format`"));
    }
    let size = match table.get("size") {
        None => None,
        Some(v) => {
            let wrong = |found: String| {
                FormatError::new(ErrorKind::Malformed, format!("`size` of `{name}` is {found}"))
                    .cure("Write the number of its bytes, 0 or more")
            };
            let n = v.as_integer().ok_or_else(|| wrong(format!("{}, not an integer", v.type_name())))?;
            Some(u64::try_from(n).map_err(|_| wrong(n.to_string()))?)
        }
    };
    Ok(Declared { format: format.unwrap_or_default(), size, kind: text("type")?, name })
}

/// Checks the name of a file: not empty, no line break, no white space at either end.
pub fn check_name(name: &str) -> Result<()> {
    let wrong = |what: &str| {
        Err(FormatError::new(ErrorKind::Malformed, format!("the file name {} {what}", toml_text::quoted(name)))
            .cure("Rename the file here and on its `~~~` line"))
    };
    if name.is_empty() {
        return wrong("is empty");
    }
    if name.contains(['\n', '\r']) {
        return wrong("holds a line break");
    }
    if name.trim() != name {
        return wrong("begins or ends with white space");
    }
    Ok(())
}

/// `line N`, or the number of the entry when the line is not known.
fn place(text: &str, key: &str, index: usize) -> String {
    let span = || {
        let doc = Document::parse(text).ok()?;
        match doc.get(key)? {
            Item::ArrayOfTables(all) => all.get(index)?.span(),
            Item::Value(Value::Array(all)) => all.get(index)?.span(),
            _ => None,
        }
    };
    match span() {
        Some(span) => format!("line {}", toml_text::line_of(text.as_bytes(), span.start)),
        None => format!("entry {} of `[[{key}]]`", index + 1),
    }
}

/// Sets or removes `size` of the file at `index`, in place. Also turns `[[parts]]` into `[[files]]`.
pub fn set_size(doc: &mut DocumentMut, index: usize, size: Option<u64>) -> Result<()> {
    modernise(doc);
    let missing = || FormatError::new(ErrorKind::Missing, format!("no file number {}", index + 1));
    let table: &mut dyn TableLike = match doc.get_mut("files") {
        Some(Item::ArrayOfTables(all)) => all.get_mut(index).ok_or_else(missing)?,
        Some(Item::Value(Value::Array(all))) => {
            all.get_mut(index).and_then(Value::as_inline_table_mut).ok_or_else(missing)?
        }
        _ => return Err(missing()),
    };
    match size {
        None => {
            table.remove("size");
        }
        Some(size) => {
            let number = i64::try_from(size)
                .map_err(|_| FormatError::new(ErrorKind::TooLarge, format!("{size} bytes are too many for TOML")))?;
            match table.get_mut("size") {
                Some(Item::Value(value)) => {
                    // Keeps a comment behind the number.
                    let decor = value.decor().clone();
                    *value = Value::from(number);
                    *value.decor_mut() = decor;
                }
                _ => {
                    table.insert("size", toml_edit::value(number));
                }
            }
        }
    }
    Ok(())
}

/// Declares a file at `index`, among those that are there.
pub fn insert(doc: &mut DocumentMut, index: usize, file: &Declared) -> Result<()> {
    modernise(doc);
    let size = file
        .size
        .map(i64::try_from)
        .transpose()
        .map_err(|_| FormatError::new(ErrorKind::TooLarge, "a file is too long for TOML"))?;
    let mut pairs: Vec<(&str, Value)> = vec![("name", one_line(&file.name)), ("format", one_line(&file.format))];
    if let Some(kind) = &file.kind {
        pairs.push(("type", one_line(kind)));
    }
    if let Some(size) = size {
        pairs.push(("size", size.into()));
    }
    match doc.get_mut("files") {
        Some(Item::Value(Value::Array(all))) => {
            let mut table = InlineTable::new();
            table.extend(pairs);
            let index = index.min(all.len());
            let mut rest: Vec<Value> = Array::clone(all).into_iter().collect();
            rest.insert(index, Value::InlineTable(table).decorated(" ", ""));
            all.clear();
            rest.into_iter().for_each(|v| all.push_formatted(v));
        }
        Some(Item::ArrayOfTables(all)) => {
            let mut table = Table::new();
            for (key, value) in pairs {
                table.insert(key, Item::Value(value));
            }
            table.decor_mut().set_prefix("\n");
            let mut rest: Vec<Table> = all.iter().cloned().collect();
            let index = index.min(rest.len());
            // Tables print in the order of their positions; one that shares a position prints after it.
            let position = match index {
                0 => rest.first().and_then(Table::position),
                i => rest.get(i - 1).and_then(Table::position),
            };
            if let Some(position) = position {
                table.set_position(position);
            }
            rest.insert(index, table);
            let mut rebuilt = ArrayOfTables::new();
            rest.into_iter().for_each(|t| rebuilt.push(t));
            *all = rebuilt;
        }
        _ => {
            let mut table = Table::new();
            for (key, value) in pairs {
                table.insert(key, Item::Value(value));
            }
            table.decor_mut().set_prefix("\n");
            let mut all = ArrayOfTables::new();
            all.push(table);
            doc.insert("files", Item::ArrayOfTables(all));
        }
    }
    Ok(())
}

/// Takes the file at `index` out of the declarations.
pub fn remove(doc: &mut DocumentMut, index: usize) {
    modernise(doc);
    match doc.get_mut("files") {
        Some(Item::ArrayOfTables(all)) if index < all.len() => {
            all.remove(index);
        }
        Some(Item::Value(Value::Array(all))) if index < all.len() => {
            all.remove(index);
        }
        _ => {}
    }
}

/// Turns the older `[[parts]]` into `[[files]]`, which is the only spelling that is written.
pub fn modernise(doc: &mut DocumentMut) {
    if let Some(item) = doc.remove("parts") {
        doc.insert("files", item);
    }
}

/// The frontmatter of a new container.
pub fn new(name: &str, types: &[String], format_version: Option<i64>) -> DocumentMut {
    let mut doc = DocumentMut::new();
    let mut cyb = Table::new();
    cyb.insert("types", Item::Value(Value::Array(types.iter().map(|t| one_line(t)).collect())));
    cyb.insert("name", Item::Value(one_line(name)));
    if let Some(version) = format_version {
        cyb.insert("format_version", toml_edit::value(version));
    }
    doc.insert("cyb", Item::Table(cyb));
    doc
}

/// A string on one line: a line of a longer spelling might begin with `~~~` and end the frontmatter.
fn one_line(text: &str) -> Value {
    toml_text::quoted(text).parse().unwrap_or_else(|_| Value::from(text))
}

/// Removes the padding comment, wherever the last writer left it at the end.
pub fn strip_pad(doc: &mut DocumentMut) {
    let Some(trailing) = doc.trailing().as_str() else {
        return;
    };
    let kept: String = trailing.split_inclusive('\n').filter(|line| !is_pad(line)).collect();
    if kept.len() != trailing.len() {
        doc.set_trailing(kept);
    }
}

fn is_pad(line: &str) -> bool {
    line.trim_end_matches('\n').strip_prefix(PAD).is_some_and(|rest| rest.bytes().all(|b| b == b' '))
}

/// The text of `doc`, ended by a padding comment, so that text and `after` bytes together are a multiple of
/// [`crate::PAGE`] long: the length from the first delimiter to the first byte of the weights is `after`.
pub fn render_aligned(doc: &DocumentMut, after: u64) -> String {
    let text = render(doc);
    let used = text.len() as u64 + after;
    let mut pad = used.next_multiple_of(crate::PAGE) - used;
    if pad < PAD.len() as u64 + 1 {
        pad += crate::PAGE;
    }
    pad_to(text, pad as usize)
}

/// The text of `doc`, ended by a padding comment, exactly `len` bytes long; `None` when that is too short.
pub fn render_exact(doc: &DocumentMut, len: u64) -> Option<String> {
    let text = render(doc);
    let pad = usize::try_from(len).ok()?.checked_sub(text.len())?;
    (pad > PAD.len()).then(|| pad_to(text, pad))
}

/// The text of `doc` without padding, ended by LF.
pub fn render(doc: &DocumentMut) -> String {
    let mut doc = doc.clone();
    strip_pad(&mut doc);
    let mut text = doc.to_string();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn pad_to(mut text: String, pad: usize) -> String {
    text.push_str(PAD);
    text.extend(std::iter::repeat_n(' ', pad - PAD.len() - 1));
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# head\n[cyb]\ntypes = [\"x\"] # t\nname = \"n\"\nmine = 1\n\n# first\n[[files]]\nname = \"a\"\nformat = \"md\"\n\n[[files]]\nformat = \"bin\"\nsize = 3 # three\nname = \"b\"\n\n# tail\n[other]\nk = 1\n# end\n";

    fn file(name: &str) -> Declared {
        Declared { name: name.into(), format: "md".into(), ..Declared::default() }
    }

    #[test]
    fn edits_leave_the_rest_as_it_was() {
        let mut doc = parse(TEXT).unwrap();
        assert_eq!(doc.to_string(), TEXT);
        set_size(&mut doc, 1, Some(77)).unwrap();
        assert_eq!(doc.to_string(), TEXT.replace("size = 3 #", "size = 77 #"));
        insert(&mut doc, 1, &file("c")).unwrap();
        let text = doc.to_string();
        let (all, _) = declared(&doc, &text).unwrap();
        let names: Vec<&str> = all.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["a", "c", "b"]);
        let again = parse(&text).unwrap();
        assert_eq!(declared(&again, &text).unwrap().0, all, "{text}");
        remove(&mut doc, 1);
        assert_eq!(doc.to_string(), TEXT.replace("size = 3 #", "size = 77 #"));
    }

    #[test]
    fn a_file_can_be_inserted_first_and_last() {
        for (at, want) in [(0, ["c", "a", "b"]), (2, ["a", "b", "c"])] {
            let mut doc = parse(TEXT).unwrap();
            insert(&mut doc, at, &file("c")).unwrap();
            let text = doc.to_string();
            let again = parse(&text).unwrap();
            let names: Vec<String> = declared(&again, &text).unwrap().0.into_iter().map(|f| f.name).collect();
            assert_eq!(names, want, "{text}");
        }
    }

    #[test]
    fn inline_spelling_is_read_and_edited() {
        let text = "files = [{ name = \"a\", format = \"md\" }, { name = \"b\", format = \"x\", size = 1 }]\n[cyb]\nname = \"n\"\ntypes = []\n";
        let mut doc = parse(text).unwrap();
        set_size(&mut doc, 1, Some(9)).unwrap();
        insert(&mut doc, 1, &file("c")).unwrap();
        let text = doc.to_string();
        let names: Vec<String> = declared(&doc, &text).unwrap().0.into_iter().map(|f| f.name).collect();
        assert_eq!(names, ["a", "c", "b"], "{text}");
        assert!(text.contains("size = 9"), "{text}");
    }

    #[test]
    fn padding_is_replaced_and_aligns() {
        let doc = parse(TEXT).unwrap();
        for after in [0, 1, 4090, 4096, 5000] {
            let text = render_aligned(&doc, after);
            assert_eq!((text.len() as u64 + after) % 4096, 0);
            let again = parse(&text).unwrap();
            assert_eq!(render(&again), TEXT);
            assert_eq!(render_aligned(&again, after), text);
        }
        assert_eq!(render_exact(&doc, TEXT.len() as u64 + 5).unwrap().len(), TEXT.len() + 5);
        assert!(render_exact(&doc, TEXT.len() as u64 + 4).is_none());
    }

    #[test]
    fn a_new_frontmatter_keeps_odd_names_on_one_line() {
        let mut doc = new("a\n~~~b", &["x".into()], Some(2));
        insert(&mut doc, 0, &file("c\"'")).unwrap();
        let text = render(&doc);
        assert_eq!(
            text,
            "[cyb]\ntypes = [\"x\"]\nname = \"a\\n~~~b\"\nformat_version = 2\n\n[[files]]\nname = \"c\\\"'\"\nformat = \"md\"\n"
        );
    }

    #[test]
    fn parts_become_files() {
        let mut doc = parse(&TEXT.replace("[[files]]", "[[parts]]")).unwrap();
        modernise(&mut doc);
        assert_eq!(doc.to_string(), TEXT);
    }
}
