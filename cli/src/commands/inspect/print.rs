//! The facts as a page for people. Whatever comes from the file is cleaned of control characters.

use super::facts::{Facts, ModelFacts, PathFacts, Port, Signature, TokenizerFacts, flatten};
use crate::commands::tools::{clean, hash};
use crate::ui;
use serde_json::{Map, Value};
use tallow::format::SamplingConfig;

/// How many characters of a value are shown.
const SHORT: usize = 76;
/// How many lines of the card are shown.
const CARD_LINES: usize = 6;
/// Tables of the config that have a block of their own on the page.
const TYPED: [&str; 2] = ["sampling", "tokenizer"];

/// The page; values at full length where `full` says so, tensors one by one where `tensors` does.
pub fn page(facts: &Facts, full: bool, tensors: bool) -> String {
    let mut page = Page { out: String::new(), full };
    page.head(facts);
    if let Some(card) = facts.card() {
        page.card(card);
    }
    if let Some(model) = &facts.model {
        page.config(model);
    }
    page.sections(facts);
    if let Some(model) = &facts.model {
        page.model(model, facts);
    }
    if tensors {
        page.tensors(facts);
    }
    if !facts.warnings.is_empty() {
        page.heading("warnings");
        facts.warnings.iter().for_each(|w| page.line(w));
    }
    page.out
}

struct Page {
    out: String,
    full: bool,
}

impl Page {
    fn head(&mut self, facts: &Facts) {
        let container = facts.container();
        self.out.push_str(&format!("{}\n", clean(&container.label())));
        let mut pairs = Vec::new();
        let mut pair = |key: &str, value: String| pairs.push((key.to_owned(), value));
        if let Some(name) = container.name() {
            pair("name", name.to_owned());
        }
        pair("size", ui::bytes(container.bytes().len() as u64));
        let types = container.types();
        if !types.is_empty() {
            pair("types", types.join(", "));
        }
        if let Some(version) = facts.format_version {
            pair("format version", version.to_string());
        }
        if let Some(model) = &facts.model {
            pair("parameters", count(model.parameters));
            let plain = |value: &Value| !value.is_object();
            for (key, value) in model.config.iter().filter(|(k, v)| plain(v) && *k != "parameters") {
                pair(key, show(value));
            }
        }
        if let Some(digests) = &facts.digests {
            for (name, digest) in hash::lines(digests) {
                pair(name, digest.to_owned());
            }
        }
        self.pairs(&pairs);
    }

    fn card(&mut self, card: &str) {
        self.heading("card");
        let lines: Vec<&str> = card.lines().filter(|l| self.full || !l.trim().is_empty()).collect();
        let shown = if self.full { lines.len() } else { CARD_LINES };
        lines.iter().take(shown).for_each(|l| self.line(l));
        if lines.len() > shown {
            self.line(&format!("… {} more lines; --full shows them", lines.len() - shown));
        }
    }

    fn config(&mut self, model: &ModelFacts) {
        let tables = model.config.iter().filter(|(name, _)| !TYPED.contains(&name.as_str()));
        for (name, table) in tables.filter_map(|(name, value)| Some((name, value.as_object()?))) {
            self.heading(name);
            let pairs = leaves(table);
            self.pairs(&pairs);
        }
    }

    fn sections(&mut self, facts: &Facts) {
        self.heading("sections");
        let mut rows = vec![row(["section", "format", "size", "bytes"])];
        for e in facts.container().entries() {
            let size = ui::bytes(e.range.len() as u64);
            rows.push(vec![clean(&e.name), clean(&e.format), size, e.range.len().to_string()]);
        }
        self.table(&rows);
    }

    fn model(&mut self, model: &ModelFacts, facts: &Facts) {
        self.heading("tensors by encoding");
        let mut rows = vec![row(["encoding", "tensors", "values", "size", "bits per weight"])];
        for e in &model.encodings {
            let bits = format!("{:.2}", e.bits());
            rows.push(vec![
                e.encoding.name().into(),
                e.tensors.to_string(),
                e.values.to_string(),
                ui::bytes(e.bytes),
                bits,
            ]);
        }
        self.table(&rows);

        self.heading("tokenizer");
        let mut keys = model.config.get("tokenizer").and_then(Value::as_object).map(leaves).unwrap_or_default();
        match &model.tokenizer {
            Ok(tokenizer) => keys.extend(vocabulary(tokenizer)),
            Err(error) => keys.push(("problem".into(), error.clone())),
        }
        self.pairs(&keys);

        self.heading("sampling");
        match &model.sampling {
            Ok(settings) => self.pairs(&sampling(settings)),
            Err(error) => self.line(error),
        }

        self.heading("chat");
        match facts.chat() {
            None => self.line("none: a prompt is taken as it is"),
            Some(chat) => {
                let mut pairs = Vec::new();
                let mut pair = |key: &str, value: String| pairs.push((key.to_owned(), value));
                if let Some(format) = chat.format {
                    pair("format", format.name().into());
                }
                if let Some(template) = &chat.template {
                    let text =
                        if self.full { template.clone() } else { format!("{} characters", template.chars().count()) };
                    pair("template", text);
                }
                if let Some(system) = &chat.system_default {
                    pair("system", system.clone());
                }
                if !chat.eos_sequences.is_empty() {
                    pair("ends at", chat.eos_sequences.join(" "));
                }
                self.pairs(&pairs);
            }
        }

        if !model.scores.is_empty() || !model.benchmarks.is_empty() {
            self.heading("eval");
            let rows: Vec<Vec<String>> = model.scores.iter().map(score).collect();
            self.table(&rows);
            if !model.benchmarks.is_empty() {
                self.line(&format!("benchmarks: {}", model.benchmarks.join(", ")));
            }
        }
        self.paths(model);
        self.signature(&model.signature);
    }

    fn paths(&mut self, model: &ModelFacts) {
        self.heading("ways to run it");
        let family = model.family_type.map(|t| format!(" as `{t}`")).unwrap_or_default();
        let program = model.program_text.map(|(format, bytes)| format!(" in {}, {bytes} bytes", format.name()));
        let program = path(&model.program, &program.unwrap_or_default());
        // Why a path fails is what one looks for here: never shortened.
        let rows = [("graph", path(&model.graph, "")), ("family", path(&model.family, &family)), ("program", program)];
        for (name, text) in rows {
            let mut name = name;
            for line in text.lines() {
                self.line(&format!("{name:<7}  {line}"));
                name = "";
            }
        }
        for facts in [&model.graph, &model.family, &model.program] {
            if let PathFacts::Ready { notes, .. } = facts {
                notes.iter().for_each(|n| self.line(&format!("note: {n}")));
            }
        }
    }

    fn signature(&mut self, signature: &Result<Signature, String>) {
        self.heading("signature");
        let s = match signature {
            Ok(signature) => signature,
            Err(why) => return self.line(&format!("none: {why}")),
        };
        let by = match (s.path, s.by_default) {
            ("graph", _) => "of the graph section",
            ("program", _) => "of the program's graph",
            (_, true) => "of the family's graph",
            (_, false) => "of the family's graph (--path family); by default the graph section is taken, which fails",
        };
        let many = |n: usize, what: &str| if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") };
        let caches = if s.caches == 0 { "no cache: every call stands alone".into() } else { many(s.caches, "cache") };
        let (nodes, operations) = (many(s.nodes, "node"), many(s.operations, "operation"));
        let sizes = format!("{nodes}: {operations}, {}; {caches}", many(s.weights, "weight"));
        self.line(&format!("{by}, {sizes}"));
        let side = |what: &'static str, all: &[Port]| -> Vec<Vec<String>> {
            let injected = |p: &Port| if p.injected { "the session fills it in" } else { "" };
            all.iter().map(|p| vec![what.into(), clean(&p.name), p.ty.to_string(), injected(p).into()]).collect()
        };
        if !s.first.is_empty() {
            self.table(&side("in", &s.first));
            self.line("then, with what a first graph makes of these:");
        }
        let mut rows = side("in", &s.inputs);
        rows.extend(side("out", &s.outputs));
        self.table(&rows);
    }

    fn tensors(&mut self, facts: &Facts) {
        let mut rows = vec![row(["tensor", "encoding", "shape", "offset", "bytes"])];
        for t in facts.tensors() {
            let shape = format!("{:?}", t.shape);
            rows.push(vec![clean(&t.name), t.encoding.name().into(), shape, t.offset.to_string(), t.size.to_string()]);
        }
        if rows.len() > 1 {
            self.heading("tensors");
            self.table(&rows);
        }
    }

    fn heading(&mut self, text: &str) {
        self.out.push_str(&format!("\n{}\n", clean(text)));
    }

    fn line(&mut self, text: &str) {
        let text = format!("  {}", clean(text));
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    /// Keys and values. A value of several lines is shown so in full, below its key.
    fn pairs(&mut self, pairs: &[(String, String)]) {
        let keys: Vec<String> = pairs.iter().map(|(key, _)| clean(key)).collect();
        let width = keys.iter().map(|k| k.chars().count()).max().unwrap_or(0);
        for (key, (_, value)) in keys.iter().zip(pairs) {
            if self.full && value.contains('\n') {
                self.line(key);
                value.lines().for_each(|l| self.line(&format!("  {l}")));
            } else {
                let value = if self.full { clean(value) } else { shorten(&clean(value)) };
                self.line(&format!("{key:<width$}  {value}"));
            }
        }
    }

    fn table(&mut self, rows: &[Vec<String>]) {
        for line in ui::table(rows).lines() {
            self.line(line);
        }
    }
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(String::from).to_vec()
}

fn leaves(table: &Map<String, Value>) -> Vec<(String, String)> {
    let mut flat = Vec::new();
    flatten(table, "", &mut flat);
    flat.into_iter().map(|(name, value)| (name, show(&value))).collect()
}

/// A value without the quotes around a text; equal neighbours in a list once, with their number.
fn show(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            let mut shown: Vec<(String, usize)> = Vec::new();
            for value in values {
                let text = show(value);
                match shown.last_mut() {
                    Some((last, n)) if *last == text => *n += 1,
                    _ => shown.push((text, 1)),
                }
            }
            let one = |(text, n): (String, usize)| if n == 1 { text } else { format!("{text} ×{n}") };
            shown.into_iter().map(one).collect::<Vec<_>>().join(", ")
        }
        value => value.to_string(),
    }
}

/// At most [`SHORT`] characters.
fn shorten(text: &str) -> String {
    let length = text.chars().count();
    if length <= SHORT {
        return text.to_owned();
    }
    let kept: String = text.chars().take(SHORT - 1).collect();
    format!("{kept}…")
}

/// `494032768` as `494.0 M (494032768)`.
fn count(n: u64) -> String {
    let (unit, size) = match n {
        0..1_000 => return n.to_string(),
        1_000..1_000_000 => ("k", 1e3),
        1_000_000..1_000_000_000 => ("M", 1e6),
        1_000_000_000.. => ("B", 1e9),
    };
    format!("{:.1} {unit} ({n})", n as f64 / size)
}

fn vocabulary(t: &TokenizerFacts) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut pair = |key: &str, value: String| pairs.push((key.to_owned(), value));
    match &t.counts {
        Some(counts) => {
            pair("tokens", counts.tokens.to_string());
            pair("merges", counts.merges.to_string());
            pair("verbatim tokens", counts.verbatim.to_string());
        }
        None => pair("tokens", "counted with --full only".into()),
    }
    pairs
}

fn sampling(s: &SamplingConfig) -> Vec<(String, String)> {
    let greedy = if s.temperature == 0.0 { " (always the likeliest token)" } else { "" };
    let or_off = |off: bool, text: String| if off { "off".into() } else { text };
    let pairs = [
        ("temperature", format!("{}{greedy}", s.temperature)),
        ("top_p", or_off(s.top_p >= 1.0, s.top_p.to_string())),
        ("top_k", or_off(s.top_k == 0, s.top_k.to_string())),
        ("min_p", or_off(s.min_p <= 0.0, s.min_p.to_string())),
        ("repetition_penalty", or_off(s.repetition_penalty == 1.0, s.repetition_penalty.to_string())),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A score as it is stored and, where it may be per-mille, in percent.
fn score((name, value): &(String, Value)) -> Vec<String> {
    let percent = match value.as_i64() {
        Some(n @ 0..=1000) => format!("{}.{} %", n / 10, n % 10),
        _ => String::new(),
    };
    vec![clean(name), clean(&show(value)), percent]
}

fn path(facts: &PathFacts, by: &str) -> String {
    match facts {
        PathFacts::Absent => "not present".into(),
        PathFacts::Ready { nodes, .. } => format!("yes{by}, {nodes} nodes"),
        PathFacts::Fails { why, unsupported: true } => format!("not in this version: {why}"),
        PathFacts::Fails { why, unsupported: false } => format!("no: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_shown_short_and_runs_once() {
        assert_eq!(show(&json!(["a", "a", "b", "a"])), "a ×2, b, a");
        assert_eq!(show(&json!("text")), "text");
        assert_eq!(show(&json!(1.5)), "1.5");
        assert_eq!(shorten(&"é".repeat(100)).chars().count(), SHORT);
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(999), "999");
        assert_eq!(count(494_032_768), "494.0 M (494032768)");
        assert_eq!(score(&("a".into(), json!(991))), ["a", "991", "99.1 %"]);
        assert_eq!(score(&("a".into(), json!(1000))), ["a", "1000", "100.0 %"]);
        assert_eq!(score(&("a".into(), json!(104_000))), ["a", "104000", ""]);
    }

    #[test]
    fn nothing_from_a_file_steers_the_terminal() {
        let mut page = Page { out: String::new(), full: false };
        page.pairs(&[("k\u{1b}[2J".into(), "v\r\n\u{7}".into())]);
        page.line("\u{9b}31m");
        assert!(!page.out.chars().any(|c| c.is_control() && c != '\n'), "{:?}", page.out);
    }
}
