//! The two readers of the section.

use std::borrow::Cow;

use toml::de::{DeTable, DeValue};

use super::{AddedToken, Merges, Piece, Vocab, pieces};
use crate::error::{ErrorKind, FormatError, Result, list};
use crate::toml_text::{self, Line};

pub(super) fn parse(text: &str) -> Result<Vocab> {
    let vocab = match parse_lines(text) {
        Some(vocab) => vocab,
        None => parse_full(text)?,
    };
    Ok(vocab)
}

/// Ids that are always allowed; 24 bytes each.
const SMALL_ID: u64 = 1 << 20;

/// Ids are limited by the length of the text, so that a short text cannot claim a large table.
fn id_limit(text: &str) -> u64 {
    SMALL_ID.max(text.len() as u64 / 4)
}

/// Bytes of a line of a large vocabulary, or more.
const LINE: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Tokens,
    Merges,
    Added,
    Scores,
    Pieces,
}

impl Part {
    const ALL: [(&'static str, Part); 5] = [
        ("tokens", Part::Tokens),
        ("merges", Part::Merges),
        ("added", Part::Added),
        ("scores", Part::Scores),
        ("pieces", Part::Pieces),
    ];

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(n, _)| *n == name).map(|(_, part)| *part)
    }
}

/// What has been read, before it is put together.
#[derive(Default)]
struct Builder {
    tokens: Vec<Option<String>>,
    merges: Merges,
    added: Vec<AddedToken>,
    scores: Option<Vec<(u64, i64)>>,
    pieces: Vec<Piece>,
}

impl Builder {
    /// Sets the text of an id that is below the limit. `false` when it has one.
    fn set_token(&mut self, id: u64, text: String) -> bool {
        let at = id as usize;
        if at == self.tokens.len() {
            self.tokens.push(Some(text));
            return true;
        }
        if at > self.tokens.len() {
            self.tokens.resize(at + 1, None);
        }
        self.tokens[at].replace(text).is_none()
    }

    fn finish(mut self) -> Result<Vocab> {
        self.added.sort_by_key(|t| t.id);
        for i in 0..self.added.len() {
            let token = &self.added[i];
            let (id, text) = (token.id, token.text.clone());
            match self.tokens.get(id as usize) {
                Some(Some(known)) if *known != text => {
                    return Err(FormatError::new(
                        ErrorKind::Mismatch,
                        format!(
                            "the added token {id} is {}, but `[tokens]` has {}",
                            toml_text::quoted(&text),
                            toml_text::quoted(known)
                        ),
                    )
                    .cure("Give the id one text"));
                }
                Some(Some(_)) => {}
                _ => {
                    self.set_token(u64::from(id), text);
                }
            }
        }
        let scores = self.scores.take().map(|pairs| self.scores(&pairs)).transpose()?;
        Ok(Vocab { tokens: self.tokens, merges: self.merges, added: self.added, scores, pieces: self.pieces })
    }

    fn scores(&self, pairs: &[(u64, i64)]) -> Result<Vec<i64>> {
        let mut scores = vec![None; self.tokens.len()];
        for &(id, score) in pairs {
            let slot = usize::try_from(id).ok().and_then(|id| scores.get_mut(id));
            match slot {
                Some(slot) => *slot = Some(score),
                None => {
                    return Err(FormatError::new(
                        ErrorKind::Mismatch,
                        format!("there is a score for id {id}, which has no token"),
                    )
                    .cure("Remove the score"));
                }
            }
        }
        for token in &self.added {
            scores[token.id as usize].get_or_insert(0);
        }
        let bare = |id: &usize| self.tokens[*id].is_some() && scores[*id].is_none();
        let missing: Vec<usize> = (0..scores.len()).filter(bare).collect();
        if let Some(first) = missing.first() {
            return Err(FormatError::new(
                ErrorKind::Missing,
                format!("{} tokens have no score; the first is {first}", missing.len()),
            )
            .cure("Give every token a score in `[scores]`, or remove the table"));
        }
        Ok(scores.into_iter().map(Option::unwrap_or_default).collect())
    }
}

/// Reads the shape that writers give the section: one entry per line, ascending. `None` for anything else.
pub(super) fn parse_lines(text: &str) -> Option<Vocab> {
    if text.trim() == "{}" {
        return Some(Vocab::default());
    }
    let limit = id_limit(text);
    let mut out = Builder::default();
    let mut part = None;
    let mut seen = Vec::new();
    let mut next_rank = 0;
    let mut last_score = None;
    for raw in text.split('\n') {
        let mut line = Line::new(raw);
        if line.end().is_some() {
            continue;
        }
        if line.take(b'[').is_some() {
            let found = Part::from_name(line.word()?)?;
            line.take(b']')?;
            if seen.contains(&found) {
                return None;
            }
            let left = text.len() - (raw.as_ptr().addr() - text.as_ptr().addr());
            seen.push(found);
            part = Some(found);
            match found {
                // A guess at the rest of the text, so that growing does not copy it all several times.
                Part::Tokens => out.tokens.reserve(left / LINE),
                Part::Merges => out.merges.reserve(left / 2, left / LINE),
                Part::Scores => out.scores = Some(Vec::new()),
                Part::Pieces => out.pieces.reserve(left / LINE),
                Part::Added => {}
            }
            line.end()?;
            continue;
        }
        let id = line.number()?;
        line.take(b'=')?;
        match part? {
            Part::Tokens => {
                let token = line.text()?;
                if id >= limit || !out.set_token(id, token.into_owned()) {
                    return None;
                }
            }
            Part::Merges => {
                if id < next_rank {
                    return None;
                }
                next_rank = id.checked_add(1)?;
                line.take(b'[')?;
                let left = line.text()?;
                line.take(b',')?;
                let right = line.text()?;
                line.take(b']')?;
                out.merges.push(&left, &right).then_some(())?;
            }
            Part::Added => {
                let last = out.added.last().map(|t| u64::from(t.id));
                if id >= limit || last.is_some_and(|last| last >= id) {
                    return None;
                }
                out.added.push(added_line(u32::try_from(id).ok()?, &mut line)?);
            }
            Part::Scores => {
                let negative = line.take(b'-').is_some();
                let size = i64::try_from(line.number()?).ok()?;
                if last_score.is_some_and(|last| last >= id) {
                    return None;
                }
                last_score = Some(id);
                out.scores.as_mut()?.push((id, if negative { -size } else { size }));
            }
            Part::Pieces => {
                if id != out.pieces.len() as u64 {
                    return None;
                }
                out.pieces.push(pieces::line(&mut line)?);
            }
        }
        line.end()?;
    }
    // The full parser words what is wrong.
    out.finish().ok()
}

/// `{ text = "…", special = true, … }`
fn added_line(id: u32, line: &mut Line<'_>) -> Option<AddedToken> {
    let mut token = AddedToken { id, ..AddedToken::default() };
    let mut keys: Vec<&str> = Vec::new();
    line.take(b'{')?;
    loop {
        let key = line.word()?;
        if keys.contains(&key) {
            return None;
        }
        keys.push(key);
        line.take(b'=')?;
        if key == "text" {
            token.text = line.text()?.into_owned();
        } else {
            let value = match line.word()? {
                "true" => true,
                "false" => false,
                _ => return None,
            };
            *flag(&mut token, key)? = value;
        }
        if line.take(b'}').is_some() {
            return keys.contains(&"text").then_some(token);
        }
        line.take(b',')?;
    }
}

fn flag<'a>(token: &'a mut AddedToken, key: &str) -> Option<&'a mut bool> {
    Some(match key {
        "special" => &mut token.special,
        "lstrip" => &mut token.lstrip,
        "rstrip" => &mut token.rstrip,
        "normalized" => &mut token.normalized,
        _ => return None,
    })
}

/// Reads any TOML; errors name the line.
pub(super) fn parse_full(text: &str) -> Result<Vocab> {
    let root = DeTable::parse(text).map_err(|e| toml_text::syntax_at(e.message(), e.span(), text))?;
    let full = Full { text, limit: id_limit(text) };
    let mut out = Builder::default();
    for (name, item) in root.get_ref() {
        let at = name.span().start;
        let name: &str = name.get_ref();
        let Some(part) = Part::from_name(name) else {
            let known = Part::ALL.map(|(name, _)| name);
            return Err(full
                .error(at, ErrorKind::Unsupported, format!("the table `{name}` is not known"))
                .cure(format!("Known are {}", list(&known, 9))));
        };
        let table = item.get_ref().as_table().ok_or_else(|| {
            full.wrong(at, format!("`{name}` is {}, not a table", item.get_ref().type_str()), "Write a table")
        })?;
        match part {
            Part::Tokens => full.tokens(table, &mut out)?,
            Part::Merges => full.merges(table, &mut out)?,
            Part::Added => full.added(table, &mut out)?,
            Part::Scores => full.scores(table, &mut out)?,
            Part::Pieces => {
                out.pieces = pieces::table(table, full.limit).map_err(|(at, name)| {
                    let cure = "Write it as [\"text\", -1234], with its kind behind where it is not `normal`";
                    full.wrong(at, format!("the piece {name} is no text with a score"), cure)
                })?;
            }
        }
    }
    out.finish()
}

struct Full<'a> {
    text: &'a str,
    limit: u64,
}

type Key<'i> = toml::Spanned<Cow<'i, str>>;

impl Full<'_> {
    fn error(&self, at: usize, kind: ErrorKind, cause: String) -> FormatError {
        let line = toml_text::line_of(self.text.as_bytes(), at);
        FormatError::new(kind, cause).at(format!("line {line}"))
    }

    fn wrong(&self, at: usize, cause: String, cure: &str) -> FormatError {
        self.error(at, ErrorKind::Malformed, cause).cure(cure)
    }

    /// A key as a number.
    fn number(&self, key: &Key<'_>, what: &str) -> Result<u64> {
        let name: &str = key.get_ref();
        let digits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
        match name.parse() {
            Ok(n) if digits => Ok(n),
            _ => Err(self.wrong(key.span().start, format!("`{name}` is no {what}"), "Keys are numbers from 0")),
        }
    }

    /// A key as a token id.
    fn id(&self, key: &Key<'_>) -> Result<u64> {
        let id = self.number(key, "token id")?;
        if id < self.limit && u32::try_from(id).is_ok() {
            return Ok(id);
        }
        Err(self
            .error(
                key.span().start,
                ErrorKind::TooLarge,
                format!("the token id {id} is far beyond the number of tokens; the limit here is {}", self.limit - 1),
            )
            .cure("Number the tokens from 0 without large gaps"))
    }

    fn tokens(&self, table: &DeTable<'_>, out: &mut Builder) -> Result<()> {
        for (key, value) in table {
            let id = self.id(key)?;
            let text = value.get_ref().as_str().ok_or_else(|| {
                let found = value.get_ref().type_str();
                self.wrong(key.span().start, format!("the token {id} is {found}, not a string"), "Put it in quotes")
            })?;
            if !out.set_token(id, text.to_owned()) {
                return Err(self.wrong(
                    key.span().start,
                    format!("the token id {id} is given twice, once with leading zeros"),
                    "Remove one",
                ));
            }
        }
        Ok(())
    }

    fn merges(&self, table: &DeTable<'_>, out: &mut Builder) -> Result<()> {
        let mut pairs = Vec::with_capacity(table.len());
        for (key, value) in table {
            let rank = self.number(key, "rank of a merge")?;
            let pair = || {
                let all = value.get_ref().as_array()?;
                match (all.len(), all.first(), all.get(1)) {
                    (2, Some(l), Some(r)) => Some((l.get_ref().as_str()?, r.get_ref().as_str()?)),
                    _ => None,
                }
            };
            let pair = pair().ok_or_else(|| {
                self.wrong(
                    key.span().start,
                    format!("the merge {rank} is not a pair of strings"),
                    "Write it as [\"left\", \"right\"]",
                )
            })?;
            pairs.push((rank, pair));
        }
        pairs.sort_by_key(|(rank, _)| *rank);
        for (_, (left, right)) in pairs {
            if !out.merges.push(left, right) {
                return Err(self.error(0, ErrorKind::TooLarge, "the merges take more than 4 GiB".into()));
            }
        }
        Ok(())
    }

    fn added(&self, table: &DeTable<'_>, out: &mut Builder) -> Result<()> {
        for (key, value) in table {
            let at = key.span().start;
            let id = self.id(key)?;
            let wrong = |cause: String| {
                self.wrong(
                    at,
                    cause,
                    "Write it as { text = \"…\", special = true, lstrip = false, rstrip = false, normalized = false }",
                )
            };
            let fields = value
                .get_ref()
                .as_table()
                .ok_or_else(|| wrong(format!("the added token {id} is {}, not a table", value.get_ref().type_str())))?;
            let mut token = AddedToken { id: id as u32, ..AddedToken::default() };
            let mut text = None;
            for (key, value) in fields {
                let name: &str = key.get_ref();
                let value = value.get_ref();
                if name == "text" {
                    text = value.as_str().map(str::to_owned);
                    continue;
                }
                let slot = flag(&mut token, name).ok_or_else(|| {
                    self.error(
                        at,
                        ErrorKind::Unsupported,
                        format!("the key `{name}` of the added token {id} is not known"),
                    )
                    .cure("Known are `text`, `special`, `lstrip`, `rstrip` and `normalized`")
                })?;
                *slot = value
                    .as_bool()
                    .ok_or_else(|| wrong(format!("`{name}` of the added token {id} is {}", value.type_str())))?;
            }
            token.text = text.ok_or_else(|| wrong(format!("the added token {id} has no `text`")))?;
            out.added.push(token);
        }
        Ok(())
    }

    fn scores(&self, table: &DeTable<'_>, out: &mut Builder) -> Result<()> {
        let mut scores = Vec::with_capacity(table.len());
        for (key, value) in table {
            let id = self.id(key)?;
            let score = integer(value.get_ref()).ok_or_else(|| {
                let found = value.get_ref().type_str();
                self.wrong(
                    key.span().start,
                    format!("the score {id} is {found}"),
                    "Write the score times 65536 as an integer",
                )
            })?;
            scores.push((id, score));
        }
        out.scores = Some(scores);
        Ok(())
    }
}

pub(super) fn integer(value: &DeValue<'_>) -> Option<i64> {
    let n = value.as_integer()?;
    i64::from_str_radix(n.as_str(), n.radix()).ok()
}
