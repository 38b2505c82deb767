//! The `tensors` section: where each tensor lies in the weights, and how it is stored.

use std::fmt::Write as _;

use indexmap::IndexMap;

use crate::encoding::Encoding;
use crate::error::{ErrorKind, FormatError, Result, list};
use crate::section::Section;
use crate::toml_text::{self, Line, push_quoted};

/// The largest number of dimensions of a tensor.
pub const MAX_RANK: usize = 16;

/// The longest section that is not written in the usual shape, one `key = value` a line, and still read.
const MAX_FREE_FORM: usize = 16 << 20;

/// One tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorEntry {
    /// Its name, after the convention of Hugging Face files.
    pub name: String,
    /// Row-major, `[out, in]` for matrices; each dimension is at least 1.
    pub shape: Vec<u64>,
    /// How its values are stored.
    pub encoding: Encoding,
    /// First byte, counted from the first byte of the weights.
    pub offset: u64,
    /// Length in bytes.
    pub size: u64,
}

impl TensorEntry {
    /// The number of values; checked when the index was made.
    pub fn values(&self) -> u64 {
        self.shape.iter().product()
    }
}

/// All tensors of a model, in the order of the file. Every rule of the section holds for an index that exists:
/// see [`TensorIndex::new`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorIndex {
    entries: IndexMap<String, TensorEntry>,
}

impl TensorIndex {
    /// Checks entries against each other and against the length of the weights:
    ///
    /// 1. names are not empty and differ;
    /// 2. every dimension is at least 1, and the numbers of values and bytes fit 64 bits;
    /// 3. the last dimension is a multiple of the encoding's block;
    /// 4. `size` is what shape and encoding give;
    /// 5. `offset` is a multiple of the encoding's alignment;
    /// 6. the tensor ends inside the weights;
    /// 7. no two overlap, unless they cover exactly the same bytes.
    pub fn new(entries: Vec<TensorEntry>, weights_len: u64) -> Result<Self> {
        let mut map = IndexMap::with_capacity(entries.len());
        for entry in entries {
            check_entry(&entry, weights_len).map_err(|e| e.or_at(place(&entry.name)))?;
            let name = entry.name.clone();
            if map.insert(name.clone(), entry).is_some() {
                return Err(FormatError::new(ErrorKind::Malformed, format!("two tensors are named `{name}`"))
                    .cure("Give each its own name")
                    .at(place(&name)));
            }
        }
        check_overlap(&map)?;
        Ok(Self { entries: map })
    }

    /// Lays tensors out one after another, each on a page boundary, and gives the index with the length of the weights.
    pub fn from_shapes<'a>(tensors: impl IntoIterator<Item = (&'a str, &'a [u64], Encoding)>) -> Result<(Self, u64)> {
        let mut entries = Vec::new();
        let mut end = 0u64;
        for (name, shape, encoding) in tensors {
            let size = byte_size(shape, encoding).map_err(|e| e.or_at(place(name)))?;
            let too_long =
                || FormatError::new(ErrorKind::TooLarge, "the weights are longer than 2^64 bytes").at(place(name));
            let offset = end.checked_next_multiple_of(crate::PAGE).ok_or_else(too_long)?;
            end = offset.checked_add(size).ok_or_else(too_long)?;
            entries.push(TensorEntry { name: name.to_owned(), shape: shape.to_vec(), encoding, offset, size });
        }
        Ok((Self::new(entries, end)?, end))
    }

    /// Parses the text of the section, and checks it as [`TensorIndex::new`] does.
    pub fn parse(text: &str, weights_len: u64) -> Result<Self> {
        let entries = match parse_lines(text) {
            Some(entries) => entries,
            None => parse_document(text)?,
        };
        Self::new(entries, weights_len)
    }

    /// The text of the section.
    pub fn to_text(&self) -> String {
        let mut out = String::with_capacity(self.entries.len() * 128);
        for entry in self.entries.values() {
            push_entry(&mut out, entry);
        }
        out
    }

    /// The tensors, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &TensorEntry> + '_ {
        self.entries.values()
    }

    /// The tensor of a name.
    pub fn get(&self, name: &str) -> Option<&TensorEntry> {
        self.entries.get(name)
    }

    /// Whether there is a tensor of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Appends one tensor's table.
pub(crate) fn push_entry(out: &mut String, entry: &TensorEntry) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push('[');
    push_quoted(out, &entry.name);
    let shape: Vec<String> = entry.shape.iter().map(u64::to_string).collect();
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "]\nshape = [{}]\nencoding = \"{}\"\noffset = {}\nsize = {}\n",
        shape.join(", "),
        entry.encoding.name(),
        entry.offset,
        entry.size
    );
}

fn place(name: &str) -> String {
    format!("tensor {}", toml_text::quoted(name))
}

/// The number of bytes of a shape in an encoding. Errors where a dimension is 0, the last one is no whole number of
/// blocks, or the product does not fit 64 bits.
pub fn byte_size(shape: &[u64], encoding: Encoding) -> Result<u64> {
    let malformed = |cause: String, cure: &str| Err(FormatError::new(ErrorKind::Malformed, cause).cure(cure));
    if shape.len() > MAX_RANK {
        return malformed(
            format!("the shape has {} dimensions; the limit is {MAX_RANK}", shape.len()),
            "Fold dimensions together",
        );
    }
    if let Some(i) = shape.iter().position(|&n| n == 0) {
        return malformed(format!("dimension {i} of the shape {shape:?} is 0"), "Every dimension is at least 1");
    }
    let block = encoding.block_len() as u64;
    let last = shape.last().copied().unwrap_or(1);
    if last % block != 0 {
        return malformed(
            format!(
                "the last dimension of the shape {shape:?} is {last}, no multiple of the {block} values of a `{}` block",
                encoding.name()
            ),
            "Store it in another encoding, such as `u32`",
        );
    }
    let values = shape.iter().try_fold(1u64, |all, &n| all.checked_mul(n));
    match values.and_then(|n| encoding.byte_len(n)) {
        Some(bytes) => Ok(bytes),
        None => {
            malformed(format!("the number of bytes of the shape {shape:?} does not fit 64 bits"), "Correct the shape")
        }
    }
}

fn check_entry(entry: &TensorEntry, weights_len: u64) -> Result<()> {
    let error = |cause: String, cure: &str| Err(FormatError::new(ErrorKind::Malformed, cause).cure(cure));
    if entry.name.is_empty() {
        return error("a tensor's name is empty".into(), "Name it");
    }
    let bytes = byte_size(&entry.shape, entry.encoding)?;
    if entry.size != bytes {
        return error(
            format!(
                "`size` is {}, but the shape {:?} in `{}` takes {bytes} bytes",
                entry.size,
                entry.shape,
                entry.encoding.name()
            ),
            "Correct the shape, the encoding or the size",
        );
    }
    let alignment = entry.encoding.alignment();
    if !entry.offset.is_multiple_of(alignment) {
        return error(
            format!(
                "`offset` is {}, no multiple of {alignment}, the alignment of `{}`",
                entry.offset,
                entry.encoding.name()
            ),
            "Write the file again: Tallow's writer aligns every tensor",
        );
    }
    match entry.offset.checked_add(bytes) {
        Some(end) if end <= weights_len => Ok(()),
        _ => error(
            format!("it takes {bytes} bytes from offset {}, but the weights end at {weights_len}", entry.offset),
            "The file was cut short, or the offset is wrong: fetch or write it again",
        ),
    }
}

fn check_overlap(entries: &IndexMap<String, TensorEntry>) -> Result<()> {
    let mut sorted: Vec<&TensorEntry> = entries.values().collect();
    sorted.sort_by_key(|e| (e.offset, e.size));
    let Some(mut furthest) = sorted.first().copied() else {
        return Ok(());
    };
    for pair in sorted.windows(2) {
        let (before, entry) = (pair[0], pair[1]);
        let same = (before.offset, before.size) == (entry.offset, entry.size);
        // Ends were checked against the length of the weights, so the sums do not overflow.
        if !same && entry.offset < furthest.offset + furthest.size {
            return Err(FormatError::new(
                ErrorKind::Malformed,
                format!(
                    "its bytes {}..{} overlap bytes {}..{} of `{}`",
                    entry.offset,
                    entry.offset + entry.size,
                    furthest.offset,
                    furthest.offset + furthest.size,
                    furthest.name
                ),
            )
            .cure("Two tensors may share exactly the same bytes, or none")
            .at(place(&entry.name)));
        }
        if entry.offset + entry.size > furthest.offset + furthest.size {
            furthest = entry;
        }
    }
    Ok(())
}

/// Reads the shape that writers give the section. `None` for any other TOML, which [`parse_document`] then reads.
fn parse_lines(text: &str) -> Option<Vec<TensorEntry>> {
    #[derive(Default)]
    struct Partial {
        name: String,
        shape: Option<Vec<u64>>,
        encoding: Option<Encoding>,
        offset: Option<u64>,
        size: Option<u64>,
    }
    let finish = |p: Partial| {
        Some(TensorEntry { name: p.name, shape: p.shape?, encoding: p.encoding?, offset: p.offset?, size: p.size? })
    };
    let set = |slot: &mut Option<u64>, line: &mut Line<'_>| slot.replace(line.number()?).is_none().then_some(());
    let mut out = Vec::new();
    let mut current: Option<Partial> = None;
    for text in text.split('\n') {
        let mut line = Line::new(text);
        if line.end().is_some() {
            continue;
        }
        if line.take(b'[').is_some() {
            if let Some(done) = current.take() {
                out.push(finish(done)?);
            }
            let partial = Partial { name: line.text()?.into_owned(), ..Partial::default() };
            line.take(b']')?;
            current = Some(partial);
        } else {
            let partial = current.as_mut()?;
            let key = line.word()?;
            line.take(b'=')?;
            match key {
                "shape" => partial.shape.replace(line.numbers()?).is_none().then_some(())?,
                "encoding" => {
                    let encoding = Encoding::from_name(&line.text()?)?;
                    partial.encoding.replace(encoding).is_none().then_some(())?;
                }
                "offset" => set(&mut partial.offset, &mut line)?,
                "size" => set(&mut partial.size, &mut line)?,
                _ => return None,
            }
        }
        line.end()?;
    }
    if let Some(done) = current {
        out.push(finish(done)?);
    }
    Some(out)
}

fn parse_document(text: &str) -> Result<Vec<TensorEntry>> {
    if text.trim() == "{}" {
        return Ok(Vec::new());
    }
    let doc = toml_text::parse_up_to(text, MAX_FREE_FORM)?;
    let mut out = Vec::with_capacity(doc.len());
    for (name, item) in doc.iter() {
        let table = item.as_table_like().ok_or_else(|| {
            FormatError::new(ErrorKind::Malformed, format!("`{name}` is {}, not a table", item.type_name()))
                .cure("Write one table for each tensor, its name in quotes: [\"NAME\"]")
                .at(place(name))
        })?;
        out.push(read_table(name, &Section::new(name, table)).map_err(|e| e.or_at(place(name)))?);
    }
    Ok(out)
}

fn read_table(name: &str, table: &Section<'_>) -> Result<TensorEntry> {
    let missing = |key: &str| {
        FormatError::new(ErrorKind::Missing, format!("the tensor has no `{key}`"))
            .cure("A tensor has `shape`, `encoding`, `offset` and `size`; a name with dots needs quotes")
    };
    let encoding = table.str("encoding")?.ok_or_else(|| missing("encoding"))?;
    let encoding = Encoding::from_name(encoding).ok_or_else(|| {
        FormatError::new(ErrorKind::Unsupported, format!("the encoding `{encoding}` is not known"))
            .cure(format!("Known are {}", list(&Encoding::ALL.map(Encoding::name), 20)))
    })?;
    let entry = TensorEntry {
        name: name.to_owned(),
        shape: match table.item("shape") {
            Some(item) if item.is_array() => table.u64s("shape")?.unwrap_or_default(),
            Some(item) => {
                return Err(table.invalid("shape", item.type_name(), "a list of integers"));
            }
            None => return Err(missing("shape")),
        },
        encoding,
        offset: table.u64("offset")?.ok_or_else(|| missing("offset"))?,
        size: table.u64("size")?.ok_or_else(|| missing("size"))?,
    };
    match table.unread().as_slice() {
        [] => Ok(entry),
        unread => Err(FormatError::new(
            ErrorKind::Unsupported,
            format!("the tensor has keys that are not known: {}", list(unread, 10)),
        )
        .cure("A tensor has `shape`, `encoding`, `offset` and `size`; a name with dots needs quotes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, shape: &[u64], encoding: &str, offset: u64, size: u64) -> String {
        format!("[\"{name}\"]\nshape = {shape:?}\nencoding = \"{encoding}\"\noffset = {offset}\nsize = {size}\n")
    }

    fn fails(text: &str, weights: u64) -> String {
        TensorIndex::parse(text, weights).unwrap_err().to_string()
    }

    #[test]
    fn both_readers_agree_and_text_round_trips() {
        let text = "[\"a.weight\"]\nshape    = [2, 32] # rows, cols\nencoding = \"q4\"\noffset   = 0\nsize     = 36\n\n[\"b\\\"\"]\nshape = [5]\nencoding = \"u32\"\noffset = 4096\nsize = 20\n";
        let fast = parse_lines(text).unwrap();
        assert_eq!(fast, parse_document(text).unwrap());
        assert_eq!(fast[1].name, "b\"");
        let index = TensorIndex::parse(text, 5000).unwrap();
        assert_eq!(TensorIndex::parse(&index.to_text(), 5000).unwrap(), index);
        assert_eq!(index.get("a.weight").unwrap().values(), 64);
        let inline = "\"a.weight\" = { shape = [2, 32], encoding = \"q4\", offset = 0, size = 36 }\n";
        assert_eq!(TensorIndex::parse(inline, 36).unwrap().len(), 1);
        assert!(TensorIndex::parse("{}", 0).unwrap().is_empty());
        assert!(TensorIndex::parse("", 0).unwrap().is_empty());
    }

    #[test]
    fn bad_tensors_are_named_with_both_numbers() {
        let cases = [
            (entry("a", &[0, 4], "u32", 0, 0), "tensor \"a\": dimension 0 of the shape [0, 4] is 0"),
            (entry("a", &[33], "q8", 0, 34), "is 33, no multiple of the 32 values of a `q8` block"),
            (entry("a", &[1 << 40, 1 << 40], "u32", 0, 8), "does not fit 64 bits"),
            (entry("a", &[1 << 62], "u32", 0, 8), "does not fit 64 bits"),
            (entry("a", &[4], "u32", 0, 15), "`size` is 15, but the shape [4] in `u32` takes 16 bytes"),
            (entry("a", &[4], "u32", 2, 16), "`offset` is 2, no multiple of 4"),
            (entry("a", &[32], "q4", 1, 18), "`offset` is 1, no multiple of 2"),
            (entry("a", &[4], "u32", 96, 16), "takes 16 bytes from offset 96, but the weights end at 100"),
            (entry("", &[4], "u32", 0, 16), "a tensor's name is empty"),
            (entry("a", &[4], "u32", (i64::MAX - 3) as u64, 16), "but the weights end at 100"),
            (entry("a", &[4], "f32", 0, 16), "the encoding `f32` is not known"),
            (entry("a", &[4], "u32", 0, 16) + "scale = 2\n", "keys that are not known: `scale`"),
            ("[a.b]\nshape = [4]\n".into(), "tensor \"a\": the tensor has no `encoding`"),
            ("a = 3\n".into(), "`a` is integer, not a table"),
            (entry("a", &[1; 17], "u32", 0, 4), "17 dimensions; the limit is 16"),
            ("[\"a\"]\nshape = 4\nencoding = \"u32\"\noffset = 0\nsize = 16\n".into(), "`a.shape` is integer"),
            ("[\"a\"]\nshape = [-4]\nencoding = \"u32\"\noffset = 0\nsize = 16\n".into(), "entry 0 is -4"),
            (entry("a", &[4], "u32", 0, 16) + &entry("a", &[4], "u32", 16, 16), "two tensors are named `a`"),
        ];
        for (text, want) in cases {
            let error = fails(&text, 100);
            assert!(error.contains(want), "{error}\n  should hold\n{want}");
        }
    }

    #[test]
    fn tensors_overlap_only_when_they_are_the_same_bytes() {
        let shared = entry("k", &[8], "u32", 0, 32) + &entry("v", &[2, 4], "u32", 0, 32);
        assert_eq!(TensorIndex::parse(&shared, 32).unwrap().len(), 2);
        let inside = shared.clone() + &entry("x", &[1], "u32", 8, 4);
        assert!(fails(&inside, 32).contains("tensor \"x\": its bytes 8..12 overlap bytes 0..32 of `"));
        let prefix = shared + &entry("y", &[4], "u32", 0, 16);
        assert!(fails(&prefix, 32).contains("overlap"));
        let partial = entry("a", &[8], "u32", 0, 32) + &entry("b", &[8], "u32", 16, 32);
        assert!(fails(&partial, 48).contains("tensor \"b\": its bytes 16..48 overlap bytes 0..32 of `a`"));
        let long =
            entry("a", &[100], "u32", 0, 400) + &entry("b", &[1], "u32", 400, 4) + &entry("c", &[1], "u32", 404, 4);
        assert!(TensorIndex::parse(&long, 408).is_ok());
    }

    #[test]
    fn layout_is_page_aligned() {
        let (index, len) =
            TensorIndex::from_shapes([("a", &[3][..], Encoding::U32), ("b", &[2, 32][..], Encoding::Q8)]).unwrap();
        assert_eq!(index.get("b").unwrap().offset, 4096);
        assert_eq!(len, 4096 + 68);
    }
}
