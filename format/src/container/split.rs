//! Finds the files in the bytes of a container, and words what is wrong where they are not to be found.

use std::collections::HashSet;
use std::ops::Range;

use toml_edit::DocumentMut;

use super::Entry;
use crate::error::{ErrorKind, FormatError, Result};
use crate::frontmatter::{self, Declared};
use crate::toml_text::line_of;

/// A container taken apart.
pub(super) struct Split {
    pub(super) doc: DocumentMut,
    pub(super) frontmatter_len: usize,
    pub(super) entries: Vec<Entry>,
    pub(super) warnings: Vec<String>,
}

/// Finds the frontmatter and every file; at most `max_text` bytes are scanned.
pub(super) fn split(bytes: &[u8], max_text: u64) -> Result<Split> {
    let cap = usize::try_from(max_text).unwrap_or(usize::MAX);
    let frontmatter_len = frontmatter_end(bytes, cap)?;
    let text = frontmatter_str(&bytes[..frontmatter_len])?;
    let doc = frontmatter::parse(text)?;
    let (declared, mut warnings) = frontmatter::declared(&doc, text)?;

    let walk = Walk { bytes, frontmatter_len, cap, declared: &declared };
    let mut budget = cap - frontmatter_len;
    let mut entries: Vec<Entry> = Vec::with_capacity(declared.len());
    let mut at = walk.open_first()?;
    for (index, file) in declared.iter().enumerate() {
        let next = declared.get(index + 1);
        let (range, next_at) = match (file.size, next) {
            (Some(size), next) => walk.binary(file, at, size, next, &mut warnings)?,
            (None, Some(next)) => walk.text(&entries, file, at, next, &mut budget)?,
            (None, None) => (at..bytes.len(), bytes.len()),
        };
        entries.push(Entry {
            name: file.name.clone(),
            format: file.format.clone(),
            size: file.size,
            kind: file.kind.clone(),
            range,
        });
        at = next_at;
    }
    Ok(Split { doc, frontmatter_len, entries, warnings })
}

/// The length of the frontmatter: up to the first line that begins with `~~~`.
fn frontmatter_end(bytes: &[u8], cap: usize) -> Result<usize> {
    let malformed = |cause: &str, cure: &str| Err(FormatError::new(ErrorKind::Malformed, cause).cure(cure));
    if bytes.is_empty() {
        return malformed("the file is empty", "Name a `.cyb` or `.model` file");
    }
    if bytes.starts_with(b"GGUF") {
        return malformed("this is a GGUF file, not a container", "Turn it into a `.model` with `tallow import`");
    }
    if bytes.get(8) == Some(&b'{') && bytes[..8].contains(&0) {
        return malformed(
            "this looks like a safetensors file, not a container",
            "Turn the folder that holds it into a `.model` with `tallow import`",
        );
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return malformed("the file begins with a byte-order mark", "Save it as UTF-8 without BOM");
    }
    if bytes.starts_with(b"~~~") {
        return malformed(
            "there is no frontmatter before the first `~~~` line",
            "Begin the file with TOML that holds `[cyb]` and one `[[files]]` table for each file inside",
        );
    }
    let region = &bytes[..bytes.len().min(cap)];
    match find_line(region, 0, |line| line.starts_with(b"~~~")) {
        Some(at) => Ok(at),
        None if region.len() < bytes.len() => Err(too_much_text(cap, "the frontmatter")),
        None => malformed(
            "no line begins with `~~~`, so nothing ends the frontmatter",
            "Check that this is a whole `.cyb` or `.model` file",
        ),
    }
}

fn frontmatter_str(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|e| {
        FormatError::new(ErrorKind::Malformed, "the frontmatter is not UTF-8")
            .cure("Check that this is a `.cyb` or `.model` file, and save it as UTF-8")
            .at(format!("line {}, byte {}", line_of(bytes, e.valid_up_to()), e.valid_up_to()))
    })
}

fn too_much_text(cap: usize, what: &str) -> FormatError {
    FormatError::new(ErrorKind::TooLarge, format!("{what} does not end within the first {cap} bytes of text"))
        .cure("If the file is sound, raise the limit with `--max-text BYTES` (in the library, `ReadOptions::max_text`)")
}

struct Walk<'a> {
    bytes: &'a [u8],
    frontmatter_len: usize,
    cap: usize,
    declared: &'a [Declared],
}

impl Walk<'_> {
    /// The first content byte of the first file.
    fn open_first(&self) -> Result<usize> {
        let first = &self.declared[0];
        if let Some(at) = self.opens(self.frontmatter_len, &first.name) {
            return Ok(at);
        }
        let line = self.line_at(self.frontmatter_len);
        let place = format!("line {}", line_of(self.bytes, self.frontmatter_len));
        if line == format!("~~~{}\r", first.name) {
            return Err(crlf(&first.name).at(place));
        }
        let named = line.strip_prefix("~~~").unwrap_or_default();
        let cause = format!(
            "the first file declared is `{}`, but the line that ends the frontmatter is {}",
            first.name,
            shown(&line)
        );
        let cure = if self.declared.iter().any(|d| d.name == named) {
            "The files are out of order: declare them in the order in which they stand".into()
        } else {
            format!("Open the file with the line `~~~{}`, or declare the one that stands there", first.name)
        };
        Err(FormatError::new(ErrorKind::Malformed, cause).cure(cure).at(place))
    }

    /// A file of a declared size: its range, and the first content byte of the next file.
    fn binary(
        &self,
        file: &Declared,
        at: usize,
        size: u64,
        next: Option<&Declared>,
        warnings: &mut Vec<String>,
    ) -> Result<(Range<usize>, usize)> {
        let left = self.bytes.len() - at;
        let end = usize::try_from(size).ok().filter(|&n| n <= left).map(|n| at + n).ok_or_else(|| {
            FormatError::new(
                ErrorKind::Malformed,
                format!("`{}` should hold {size} bytes, but only {left} are left in the container", file.name),
            )
            .cure("The file was cut short, or `size` is wrong: fetch or write it again")
            .at(format!("byte {at}"))
        })?;
        let Some(next) = next else {
            return match &self.bytes[end..] {
                [] => Ok((at..end, end)),
                [b'\n'] => {
                    warnings.push(format!("one LF follows the last file `{}`: an editor may have added it", file.name));
                    Ok((at..end, end + 1))
                }
                rest => Err(FormatError::new(
                    ErrorKind::Malformed,
                    format!(
                        "{} bytes are left over after the last file `{}`, whose size is {size}",
                        rest.len(),
                        file.name
                    ),
                )
                .cure("Correct `size`, or declare the file that they belong to")
                .at(format!("byte {end}"))),
            };
        };
        for start in [end, end + 1] {
            let lf = start == end || self.bytes.get(end) == Some(&b'\n');
            if let (true, Some(content)) = (lf, self.opens(start, &next.name)) {
                return Ok((at..end, content));
            }
        }
        let rest = &self.bytes[end..];
        let tail = rest.strip_prefix(b"\r\n").or(rest.strip_prefix(b"\n")).unwrap_or(rest);
        if tail.starts_with(format!("~~~{}\r\n", next.name).as_bytes()) || rest.starts_with(b"\r\n~~~") {
            return Err(crlf(&next.name).at(format!("byte {end}")));
        }
        Err(FormatError::new(
            ErrorKind::Malformed,
            format!(
                "after the {size} bytes of `{}` there should be the line `~~~{}`, but there is {}",
                file.name,
                next.name,
                shown(&self.line_at(end))
            ),
        )
        .cure(format!("Correct the size of `{}`, or the order of the files", file.name))
        .at(format!("byte {end}")))
    }

    /// A text file: its range, and the first content byte of the next file.
    fn text(
        &self,
        before: &[Entry],
        file: &Declared,
        at: usize,
        next: &Declared,
        budget: &mut usize,
    ) -> Result<(Range<usize>, usize)> {
        let limit = self.bytes.len().min(at.saturating_add(*budget));
        if let Some(end) = find_delimiter(&self.bytes[..limit], at, &next.name) {
            *budget -= end - at;
            let content = end + "~~~".len() + next.name.len() + 1;
            return Ok((at..end, content));
        }
        Err(self.never_opens(before, file, at, next, limit))
    }

    /// Finds out why the delimiter of `next` is not between `at` and `limit`.
    fn never_opens(&self, before: &[Entry], file: &Declared, at: usize, next: &Declared, limit: usize) -> FormatError {
        let bytes = &self.bytes[..limit];
        let line = |at| format!("line {}", line_of(bytes, at));
        let name = &next.name;
        let delimiter = format!("~~~{name}");
        let is_crlf = |l: &[u8]| l.strip_suffix(b"\r") == Some(delimiter.as_bytes());
        if let Some(at) = find_line(bytes, at, is_crlf) {
            return crlf(name).at(line(at));
        }
        if let Some(early) = find_delimiter(&bytes[..at], self.frontmatter_len, name) {
            let whose = before.iter().find(|e| e.range.contains(&early));
            return FormatError::new(
                ErrorKind::Malformed,
                format!(
                    "the files are out of order: `{name}` opens here{}, but is declared after `{}`, which opens on {}",
                    whose.map_or(String::new(), |e| format!(" (inside `{}`)", e.name)),
                    file.name,
                    line(at.saturating_sub(1))
                ),
            )
            .cure("Declare the files in the order in which they stand")
            .at(line(early));
        }
        let missing = FormatError::new(
            ErrorKind::Missing,
            format!("the file `{name}` is declared, but no line `{delimiter}` opens it after `{}`", file.name),
        );
        let near = |l: &[u8]| l.strip_prefix(b"~~~").is_some_and(|rest| rest.trim_ascii() == name.as_bytes());
        if let Some(at) = find_line(bytes, at, near) {
            let cure = if bytes[at..].len() == delimiter.len() {
                "Its line is the last of the container and has no LF: add one"
            } else {
                "This line has white space around the name: remove it"
            };
            return missing.cure(cure).at(line(at));
        }
        let later: HashSet<&[u8]> = self.declared.iter().map(|d| d.name.as_bytes()).collect();
        let other = |l: &[u8]| l.strip_prefix(b"~~~").is_some_and(|rest| later.contains(rest));
        if limit < self.bytes.len() && find_line(bytes, at, other).is_none() {
            return too_much_text(self.cap, &format!("`{}`", file.name));
        }
        missing.cure("Add the line, or remove the entry; if the file was cut short, fetch it again").at(line(at))
    }

    /// The byte after the delimiter line of `name`, if that line stands at `at`.
    fn opens(&self, at: usize, name: &str) -> Option<usize> {
        let rest = self.bytes.get(at..)?.strip_prefix(b"~~~")?;
        let rest = rest.strip_prefix(name.as_bytes())?.strip_prefix(b"\n")?;
        Some(self.bytes.len() - rest.len())
    }

    /// The line at a byte, for a message: cut at 60 bytes.
    fn line_at(&self, at: usize) -> String {
        let rest = &self.bytes[at..];
        let end = rest.iter().take(60).position(|&b| b == b'\n');
        String::from_utf8_lossy(&rest[..end.unwrap_or(rest.len().min(60))]).into_owned()
    }
}

fn shown(line: &str) -> String {
    if line.is_empty() { "an empty line or the end of the file".into() } else { format!("`{}`", line.escape_debug()) }
}

fn crlf(name: &str) -> FormatError {
    FormatError::new(
        ErrorKind::Malformed,
        format!(
            "the line `~~~{name}` ends in CR LF: a tool has converted the line endings, and may have damaged binary files too"
        ),
    )
    .cure("Get the file again without conversion (in git: `*.cyb -text` and `*.model -text` in .gitattributes)")
}

/// The start of the line `~~~NAME` + LF at or after `from`, which must begin a line.
pub(crate) fn find_delimiter(bytes: &[u8], from: usize, name: &str) -> Option<usize> {
    let mut at = from;
    loop {
        at += find_tilde(bytes.get(at..)?)?;
        if at == from || bytes[at - 1] == b'\n' {
            let rest = bytes[at..].strip_prefix(b"~~~");
            let rest = rest.and_then(|r| r.strip_prefix(name.as_bytes()));
            if rest.is_some_and(|r| r.first() == Some(&b'\n')) {
                return Some(at);
            }
        }
        at += 1;
    }
}

/// The start of the first line from `from` on that begins with `~` and for which `accept` holds; it is given the line without its LF.
fn find_line(bytes: &[u8], from: usize, accept: impl Fn(&[u8]) -> bool) -> Option<usize> {
    let mut at = from;
    loop {
        at += find_tilde(bytes.get(at..)?)?;
        if at == from || bytes[at - 1] == b'\n' {
            let rest = &bytes[at..];
            let line = rest.iter().position(|&b| b == b'\n').map_or(rest, |n| &rest[..n]);
            if accept(line) {
                return Some(at);
            }
        }
        at += 1;
    }
}

/// The first `~`. Written in chunks so that the compiler uses vector instructions: text sections run to tens of megabytes.
fn find_tilde(bytes: &[u8]) -> Option<usize> {
    const CHUNK: usize = 64;
    let mut at = 0;
    for chunk in bytes.chunks_exact(CHUNK) {
        if chunk.iter().fold(false, |hit, &b| hit | (b == b'~')) {
            break;
        }
        at += CHUNK;
    }
    bytes[at..].iter().position(|&b| b == b'~').map(|n| at + n)
}
