//! The folded text: the text form with loops.

use super::counts::{Counts, plural};
use super::differences::differences;
use super::fold::{Fold, Item};
use super::kinds::{Kind, Meaning};
use super::listing::Listing;
use super::naming::turns;
use crate::hint::hint_name;
use crate::text::name;
use crate::{Graph, NodeKind, Value};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

/// How many unread weights are listed.
const MOST_UNREAD: usize = 8;
/// How many kinds of loops the head speaks of.
const MOST_NOUNS: usize = 6;

/// The text form of `graph` with repeated layers folded, for people: not to be read back.
///
/// ```text
/// for layer in 0..28 {
///   // from the layer before: %layer{layer-1}.out (layer 0: %embed)
///   %layer{layer}.attn_norm: f32[S, 896] = RmsNorm(%layer{layer-1}.out, "model.layers.{layer}.input_layernorm.weight": u32[896]) { eps = 1e-6 }
///   …
/// ```
///
/// - A loop stands for blocks of operations that are equal but for the numbers in names: the same
///   operations, attributes and types, reading values of the same block, of the blocks before, or the
///   same outside. Their weights may differ in encoding: the type has them all (`q4k|q6k[896, 4864]`), and a
///   note below the head says which blocks have which. `{layer}` is the number of the block, `{layer-1}` that of the block before.
/// - Where blocks of several kinds take turns, each kind is printed once with the numbers of its blocks,
///   and with a note on what differs from the kind before.
/// - Notes below the head of a loop say which values come from the block before, and what single blocks
///   read in place of them.
/// - Weights stand where they are read, by the name in the tensor index in quotes.
/// - A number (`%12`) is a value without a name, as it is called in one of the blocks; `prev %12` is that
///   of the block before, `last %12` that of the last block, `%12 of layer 3` that of another.
///
/// The same bytes for the same graph. No recursion; O(n log² n) at most in nodes, in practice linear.
pub fn folded(graph: &Graph) -> String {
    let fold = Fold::new(Listing::new(graph));
    let mut printer = Printer {
        fold: &fold,
        out: String::new(),
        around: Vec::new(),
        outputs: outputs(graph),
        done: HashSet::new(),
        blank: false,
    };
    printer.head();
    printer.out.push_str("graph {\n");
    printer.inputs();
    printer.body();
    printer.rest();
    printer.out.push_str("}\n");
    printer.out
}

/// Names of outputs by value.
fn outputs(graph: &Graph) -> HashMap<Value, Vec<&str>> {
    let mut out: HashMap<Value, Vec<&str>> = HashMap::new();
    graph.outputs().for_each(|(name, value)| out.entry(value).or_default().push(name));
    out
}

struct Printer<'f, 'g> {
    fold: &'f Fold<'g>,
    out: String,
    /// The loops around what is printed.
    around: Vec<(usize, usize)>,
    outputs: HashMap<Value, Vec<&'g str>>,
    /// Outputs that stand in a loop.
    done: HashSet<&'g str>,
    /// Whether an empty line comes before the next.
    blank: bool,
}

/// What is still to be printed; the last comes first.
enum Todo {
    Group(usize),
    Operations(std::ops::Range<usize>),
    Open((usize, usize)),
    Close,
}

impl<'g> Printer<'_, 'g> {
    fn head(&mut self) {
        let fold = self.fold;
        let mut nouns: Vec<(String, usize)> = Vec::new();
        for l in fold.loops.iter().filter(|l| l.depth == 0) {
            let noun = l.noun.clone().unwrap_or_else(|| "repeat".into());
            match nouns.iter_mut().find(|(n, _)| *n == noun) {
                Some((_, n)) => *n += l.blocks.len(),
                None => nouns.push((noun, l.blocks.len())),
            }
        }
        let shown: Vec<String> = nouns.iter().take(MOST_NOUNS).map(|(noun, n)| plural(*n, noun)).collect();
        let more = if nouns.len() > MOST_NOUNS { " and others" } else { "" };
        match shown.is_empty() {
            true => self.out.push_str("// nothing repeats, so nothing is folded\n"),
            false => {
                let _ = writeln!(self.out, "// {}{more} folded; --full prints every node", shown.join(", "));
            }
        }
        for line in Counts::of(&fold.listing).lines() {
            let _ = writeln!(self.out, "// {line}");
        }
    }

    fn inputs(&mut self) {
        let graph = self.fold.listing.graph;
        for (_, value) in graph.inputs() {
            let _ = writeln!(self.out, "  input {}: {}", self.fold.listing.labels.label(value), graph.ty(value));
        }
        let unread: Vec<(&str, Value)> = graph.weights().filter(|(_, v)| !graph.is_read(v.node)).collect();
        for (name, value) in unread.iter().take(MOST_UNREAD) {
            let mut quoted = String::new();
            crate::text::quote(&mut quoted, name);
            let _ = writeln!(self.out, "  weight {quoted}: {} // no operation reads it", graph.ty(*value));
        }
        if unread.len() > MOST_UNREAD {
            let _ = writeln!(self.out, "  // and {} more weights that no operation reads", unread.len() - MOST_UNREAD);
        }
        self.blank = true;
    }

    fn body(&mut self) {
        let fold = self.fold;
        let mut todo = vec![Todo::Group(0)];
        while let Some(next) = todo.pop() {
            match next {
                Todo::Group(group) => {
                    for item in fold.groups[group].iter().rev() {
                        match item {
                            Item::Operations(range) => todo.push(Todo::Operations(range.clone())),
                            Item::Group(group) => todo.push(Todo::Group(*group)),
                            Item::Loop(at) => {
                                for (kind, &body) in fold.loops[*at].bodies.iter().enumerate().rev() {
                                    todo.extend([Todo::Close, Todo::Group(body), Todo::Open((*at, kind))]);
                                }
                            }
                        }
                    }
                }
                Todo::Operations(range) => range.for_each(|place| self.operation(place)),
                Todo::Open(frame) => self.open(frame),
                Todo::Close => {
                    self.around.pop();
                    self.line("}");
                    self.blank = self.around.is_empty();
                }
            }
        }
    }

    fn line(&mut self, text: &str) {
        if std::mem::take(&mut self.blank) {
            self.out.push('\n');
        }
        self.out.extend(std::iter::repeat_n("  ", self.around.len() + 1));
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn open(&mut self, frame: (usize, usize)) {
        let (loop_, kind) = self.fold.frame(frame);
        self.blank |= self.around.is_empty();
        let numbers = |members: &[usize]| turns(&members.iter().map(|&m| loop_.blocks[m].number).collect::<Vec<_>>());
        let noun = loop_.noun.as_deref().unwrap_or("turn");
        if frame.1 == 0 && loop_.kinds.len() > 1 {
            let all: Vec<i64> = loop_.blocks.iter().map(|b| b.number).collect();
            self.line(&format!("// {noun}s {} are of {} kinds, which take turns", turns(&all), loop_.kinds.len()));
        }
        self.line(&format!("for {} in {} {{", loop_.variable, numbers(&kind.members)));
        self.around.push(frame);
        if let Some(before) = frame.1.checked_sub(1).and_then(|k| loop_.kinds.get(k)) {
            let differences = differences(&self.fold.listing, before, kind);
            self.line(&format!("// differs from the loop above: {differences}"));
        }
        if kind.members.len() > 1 {
            self.notes(frame, noun);
            let called = |place, at| self.fold.weight_called(place, at, &self.around);
            let blocks = |numbers: &[i64]| {
                let plural = if numbers.len() > 1 { "s" } else { "" };
                format!("{noun}{plural} {}", turns(numbers).trim_matches(['[', ']']))
            };
            let notes = self.fold.encodings.notes(frame, called, blocks);
            notes.iter().for_each(|note| self.line(&format!("// {note}")));
        }
    }

    /// What comes from the blocks before, and what single blocks do otherwise.
    fn notes(&mut self, frame: (usize, usize), noun: &str) {
        let (loop_, kind) = self.fold.frame(frame);
        let mut carried: Vec<(Meaning, u32, String)> = Vec::new();
        for (at, slot) in kind.slots.iter().enumerate() {
            if let Meaning::Back(back) = slot.meaning()
                && carried.iter().all(|(m, ..)| *m != slot.meaning())
            {
                carried.push((slot.meaning(), back.turns, self.called_in(kind, at)));
            }
        }
        // What each odd block has in place of what, the blocks together.
        let mut odd: Vec<(usize, String, BTreeSet<i64>)> = Vec::new();
        for o in &kind.odd {
            let (operation, at) = kind.owner(o.slot);
            let block = loop_.blocks[o.member];
            let outer = &self.around[..self.around.len() - 1];
            let text = self.fold.called(block.start + operation, at, outer);
            let same = |slot: usize| kind.slots[slot].meaning() == kind.slots[o.slot].meaning();
            match odd.iter_mut().find(|(slot, t, _)| same(*slot) && *t == text) {
                Some((_, _, numbers)) => {
                    numbers.insert(block.number);
                }
                None => odd.push((o.slot, text, BTreeSet::from([block.number]))),
            }
        }
        let blocks = |numbers: &BTreeSet<i64>| {
            let numbers: Vec<i64> = numbers.iter().copied().collect();
            format!("{noun} {}", turns(&numbers).trim_matches(['[', ']']))
        };
        for turns in carried.iter().map(|c| c.1).collect::<BTreeSet<u32>>() {
            let values = carried.iter().filter(|c| c.1 == turns).map(|(meaning, _, text)| {
                let other = odd.iter().filter(|(slot, ..)| kind.slots[*slot].meaning() == *meaning);
                let other: Vec<String> = other.map(|(_, t, numbers)| format!("{}: {t}", blocks(numbers))).collect();
                if other.is_empty() { text.clone() } else { format!("{text} ({})", other.join(", ")) }
            });
            let values: Vec<String> = values.collect();
            let from = if turns == 1 { format!("the {noun} before") } else { format!("{turns} {noun}s before") };
            self.line(&format!("// from {from}: {}", values.join(", ")));
        }
        for (slot, text, numbers) in &odd {
            let what = self.called_in(kind, *slot);
            let (operation, at) = kind.owner(*slot);
            let is_result = at >= self.fold.listing.operands(kind.model.start + operation).len();
            match kind.slots[*slot].meaning() {
                Meaning::Back(_) => {}
                _ if is_result => self.line(&format!("// {}: {text} is {what}", blocks(numbers))),
                Meaning::Inside(..) | Meaning::Value(_) => {
                    self.line(&format!("// {}: {text} in place of {what}", blocks(numbers)));
                }
            }
        }
    }

    /// How a slot is written in the body of its kind.
    fn called_in(&self, kind: &Kind, slot: usize) -> String {
        let (operation, at) = kind.owner(slot);
        self.fold.called(kind.model.start + operation, at, &self.around)
    }

    fn operation(&mut self, place: usize) {
        let listing = &self.fold.listing;
        let node = listing.graph.node(listing.node(place));
        let NodeKind::Op(op) = &node.kind else { return };
        let reads = listing.operands(place).len();
        let called = |at: usize| self.fold.called(place, at, &self.around);
        let results: Vec<String> =
            node.results.iter().enumerate().map(|(port, ty)| format!("{}: {ty}", called(reads + port))).collect();
        let operands: Vec<String> = (0..reads).map(called).collect();
        let mut text = format!("{} = {}({})", results.join(", "), op.name(), operands.join(", "));
        let attributes = op.attributes();
        if !attributes.is_empty() {
            let _ = write!(text, " {{ {attributes} }}");
        }
        if let Some(hint) = listing.graph.hint(listing.node(place)) {
            let _ = match hint_name(hint) {
                Some(name) => write!(text, " @{name}"),
                None => write!(text, " @{hint}"),
            };
        }
        self.line(text.trim_start());
        for port in 0..node.results.len() {
            self.output_in_loop(place, port);
        }
    }

    /// An output for each turn of the one loop around it, if that is what the outputs are.
    fn output_in_loop(&mut self, place: usize, port: usize) {
        let &[frame] = self.around.as_slice() else { return };
        let (loop_, kind) = self.fold.frame(frame);
        let listing = &self.fold.listing;
        if !self.outputs.contains_key(&listing.result(place, port)) || kind.members.len() < loop_.blocks.len() {
            return;
        }
        let offset = place - kind.model.start;
        let mut names: Vec<(i64, &'g str)> = Vec::new();
        for block in &loop_.blocks {
            match self.outputs.get(&listing.result(block.start + offset, port)).map(Vec::as_slice) {
                Some(&[name]) => names.push((block.number, name)),
                Some(_) | None => return,
            }
        }
        let Some(shown) = super::names::counted(&names, &loop_.variable) else { return };
        self.done.extend(names.iter().map(|(_, name)| *name));
        let value = self.fold.called(place, listing.operands(place).len() + port, &self.around);
        self.line(&format!("output {shown} = {value}"));
    }

    /// The outputs that stand in no loop.
    fn rest(&mut self) {
        let graph = self.fold.listing.graph;
        let done = std::mem::take(&mut self.done);
        for (output, value) in graph.outputs().filter(|(name, _)| !done.contains(name)) {
            let mut line = String::from("output ");
            name(&mut line, output);
            let value = match self.fold.listing.weight(value) {
                Some(weight) => super::names::pattern(weight, &[], super::names::Quotes::Always),
                None if self.fold.listing.name(value).is_none() => self.fold.numbered(value, &[]),
                None => self.fold.listing.labels.label(value),
            };
            self.line(&format!("{line} = {value}"));
        }
    }
}
