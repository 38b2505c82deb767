//! A graph as boxes, frames and arrows: what Graphviz and Mermaid draw.

use super::counts::Counts;
use super::fold::{Fold, Item};
use super::kinds::{Block, Meaning};
use super::listing::Listing;
use super::names::numbers;
use super::naming::turns;
use super::scopes;
use super::wrap::wrapped;
use crate::{Graph, NodeKind, Value};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// How much of a graph is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Repeated layers as one, with their number.
    #[default]
    Folded,
    /// Every operation.
    Full,
}

/// What a box is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Input,
    Operation,
    Weight,
    Output,
}

/// A box, with the lines in it and the frame that it stands in.
pub(super) struct Part {
    pub role: Role,
    pub lines: Vec<String>,
    /// All attributes, where they are too many for the lines.
    pub more: Option<String>,
    pub frame: Option<usize>,
}

/// A frame around boxes.
pub(super) struct Frame {
    pub label: String,
    pub parent: Option<usize>,
}

/// An arrow between boxes.
pub(super) struct Arrow {
    pub from: usize,
    pub to: usize,
    pub label: String,
    pub way: Way,
}

/// When a value goes along an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Always,
    /// From one turn of a loop to a later one.
    Next,
    /// In one turn only.
    Once,
}

/// Boxes, frames and arrows, in a fixed order; frames stand after those around them.
pub(super) struct Picture {
    /// Lines about the whole.
    pub head: Vec<String>,
    pub parts: Vec<Part>,
    pub frames: Vec<Frame>,
    pub arrows: Vec<Arrow>,
}

impl Picture {
    pub fn of(graph: &Graph, detail: Detail) -> Picture {
        let listing = Listing::new(graph);
        let head = Counts::of(&listing).lines();
        let fold = match detail {
            Detail::Folded => Fold::new(listing),
            Detail::Full => Fold::nothing(listing),
        };
        let mut painter = Painter {
            picture: Picture { head, parts: Vec::new(), frames: Vec::new(), arrows: Vec::new() },
            boxes: vec![usize::MAX; fold.listing.len()],
            sources: HashMap::new(),
            around: Vec::new(),
            drawn: Vec::new(),
            above: above(graph),
            fold: &fold,
        };
        painter.inputs();
        match detail {
            Detail::Folded => painter.folded(),
            Detail::Full => painter.full(),
        }
        painter.arrows(&fold.shown);
        painter.outputs(&fold.shown);
        painter.picture
    }

    /// The frames and boxes that stand in each frame directly, last of all those that stand in none.
    pub fn contents(&self) -> Vec<(Vec<usize>, Vec<usize>)> {
        let outside = self.frames.len();
        let mut contents = vec![(Vec::new(), Vec::new()); outside + 1];
        for (at, frame) in self.frames.iter().enumerate() {
            contents[frame.parent.unwrap_or(outside)].0.push(at);
        }
        for (at, part) in self.parts.iter().enumerate() {
            contents[part.frame.unwrap_or(outside)].1.push(at);
        }
        contents
    }
}

struct Painter<'f, 'g> {
    fold: &'f Fold<'g>,
    picture: Picture,
    /// The box of each operation that is drawn, by place.
    boxes: Vec<usize>,
    /// The boxes of inputs and weights.
    sources: HashMap<Value, usize>,
    /// The loops around what is drawn.
    around: Vec<(usize, usize)>,
    /// Every operation that is drawn, with the loops around it.
    drawn: Vec<(usize, Vec<(usize, usize)>)>,
    /// Modules that have others in them: they are too much for a frame.
    above: HashSet<&'g str>,
}

impl Painter<'_, '_> {
    fn part(&mut self, role: Role, lines: Vec<String>, frame: Option<usize>) -> usize {
        self.picture.parts.push(Part { role, lines, more: None, frame });
        self.picture.parts.len() - 1
    }

    fn frame(&mut self, label: String, parent: Option<usize>) -> usize {
        self.picture.frames.push(Frame { label, parent });
        self.picture.frames.len() - 1
    }

    fn inputs(&mut self) {
        let graph = self.fold.listing.graph;
        for (name, value) in graph.inputs() {
            let part = self.part(Role::Input, vec![name.to_owned(), graph.ty(value).to_string()], None);
            self.sources.insert(value, part);
        }
    }

    /// The folded structure: a frame for each kind of block.
    fn folded(&mut self) {
        enum Todo {
            Group(usize, Option<usize>),
            Operations(Range<usize>, Option<usize>),
            Open((usize, usize), Option<usize>),
            Close,
        }
        let fold = self.fold;
        let mut todo = vec![Todo::Group(0, None)];
        while let Some(next) = todo.pop() {
            match next {
                Todo::Group(group, frame) => {
                    for item in fold.groups[group].iter().rev() {
                        match item {
                            Item::Operations(range) => todo.push(Todo::Operations(range.clone(), frame)),
                            Item::Group(group) => todo.push(Todo::Group(*group, frame)),
                            Item::Loop(at) => {
                                let kinds = 0..fold.loops[*at].kinds.len();
                                todo.extend(kinds.rev().map(|kind| Todo::Open((*at, kind), frame)));
                            }
                        }
                    }
                }
                Todo::Operations(range, frame) => self.operations(range, frame),
                Todo::Open(at, parent) => {
                    let (loop_, kind) = fold.frame(at);
                    let numbers: Vec<i64> = kind.members.iter().map(|&m| loop_.blocks[m].number).collect();
                    let turns = turns(&numbers);
                    let label = match numbers.len() {
                        1 => format!("{} {}", loop_.variable, turns.trim_matches(['[', ']'])),
                        n => format!("{} {turns} × {n}", loop_.variable),
                    };
                    let frame = self.frame(label, parent);
                    self.around.push(at);
                    todo.extend([Todo::Close, Todo::Group(loop_.bodies[at.1], Some(frame))]);
                }
                Todo::Close => {
                    self.around.pop();
                }
            }
        }
    }

    /// Every operation, in frames by the numbers in names: layers, and what is numbered inside them.
    fn full(&mut self) {
        const MOST_NUMBERS: usize = 4;
        let listing = &self.fold.listing;
        let mut todo = vec![(0..listing.len(), 0, None)];
        while let Some((range, stage, frame)) = todo.pop() {
            let runs = if stage < MOST_NUMBERS { scopes::runs(listing, range.clone(), stage) } else { Vec::new() };
            if runs.is_empty() {
                match stage < MOST_NUMBERS {
                    true => todo.push((range, stage + 1, frame)),
                    false => self.operations(range, frame),
                }
                continue;
            }
            let mut parts: Vec<(Range<usize>, usize, Option<usize>)> = Vec::new();
            let mut at = range.start;
            for run in runs {
                for Block { start, end, number } in run.blocks {
                    parts.push((at..start, stage + 1, frame));
                    let label = format!("{} {number}", run.noun.as_deref().unwrap_or("block"));
                    let inner = self.frame(label, frame);
                    parts.push((start..end, stage + 1, Some(inner)));
                    at = end;
                }
            }
            parts.push((at..range.end, stage + 1, frame));
            todo.extend(parts.into_iter().filter(|p| !p.0.is_empty()).rev());
        }
    }

    /// Boxes of consecutive operations, in frames by the modules that their weights belong to.
    fn operations(&mut self, range: Range<usize>, frame: Option<usize>) {
        let listing = &self.fold.listing;
        let mut modules: Vec<Option<&str>> = Vec::new();
        for place in range.clone() {
            let weight = listing.operands(place).iter().find_map(|&v| listing.weight(v));
            modules.push(weight.map(|name| module(name).filter(|m| !self.above.contains(m)).unwrap_or_default()));
        }
        let mut at = 0;
        while at < modules.len() {
            // Up to the last operation of the same module with none of another between.
            let mut end = at + 1;
            if modules[at].is_some_and(|m| !m.is_empty()) {
                for next in at + 1..modules.len() {
                    match modules[next] {
                        Some(m) if Some(m) == modules[at] => end = next + 1,
                        Some(_) => break,
                        None => {}
                    }
                }
            }
            let inner = match modules[at] {
                Some(name) if end - at > 1 => {
                    let label = name.rsplit('.').next().unwrap_or(name).to_owned();
                    Some(self.frame(label, frame))
                }
                Some(_) | None => frame,
            };
            (at..end).for_each(|i| self.operation(range.start + i, inner));
            at = end;
        }
    }

    fn operation(&mut self, place: usize, frame: Option<usize>) {
        let listing = &self.fold.listing;
        let NodeKind::Op(op) = &listing.graph.node(listing.node(place)).kind else { return };
        let reads = listing.operands(place).len();
        let results = (0..listing.results(place)).map(|port| self.fold.called(place, reads + port, &self.around));
        let mut lines = vec![op.name().to_owned(), results.collect::<Vec<_>>().join(", ")];
        let (attributes, whole) = wrapped(&op.fields());
        lines.extend(attributes);
        self.boxes[place] = self.part(Role::Operation, lines, frame);
        self.picture.parts[self.boxes[place]].more = (!whole).then(|| op.attributes());
        self.drawn.push((place, self.around.clone()));
    }

    /// Arrows into every operation that is drawn, and the weights at their tails.
    fn arrows(&mut self, shown: &[usize]) {
        let fold = self.fold;
        let drawn = std::mem::take(&mut self.drawn);
        for (place, around) in &drawn {
            let to = self.boxes[*place];
            for (at, &value) in fold.listing.operands(*place).iter().enumerate() {
                let earlier = self.earlier(*place, at, around, shown);
                if !earlier.is_empty() {
                    let label = ty(fold, value);
                    let arrows =
                        earlier.into_iter().map(|from| Arrow { from, to, label: label.clone(), way: Way::Next });
                    self.picture.arrows.extend(arrows);
                    continue;
                }
                let name = || fold.weight_called(*place, at, around);
                let Some(from) = self.source(value, shown, to, name, || fold.typed(*place, at)) else { continue };
                // The box of a weight has the type.
                let is_weight = fold.listing.weight(value).is_some();
                let label = if is_weight { String::new() } else { ty(fold, value) };
                self.picture.arrows.push(Arrow { from, to, label, way: Way::Always });
            }
        }
        self.odd(shown);
    }

    /// The boxes that give operand `at` of the operation at `place` where it comes from earlier turns: one
    /// for each kind of block that it may come from.
    fn earlier(&self, place: usize, at: usize, around: &[(usize, usize)], shown: &[usize]) -> Vec<usize> {
        let mut found = Vec::new();
        for &frame in around {
            let (l, kind) = self.fold.frame(frame);
            let Some(Meaning::Back(back)) = kind.slot(place, at).map(|slot| slot.meaning()) else { continue };
            for &member in &kind.members {
                // The first blocks have none before them, and read something else.
                let from = member.checked_sub(back.turns as usize).and_then(|m| l.blocks.get(m));
                let from = from.and_then(|b| b.end.checked_sub(back.from_end as usize).filter(|&p| p >= b.start));
                let part = from.and_then(|place| self.boxes.get(*shown.get(place)?)).copied();
                found.extend(part.filter(|&part| part != usize::MAX));
            }
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// Arrows to what single blocks read in place of what their kind does.
    fn odd(&mut self, shown: &[usize]) {
        let fold = self.fold;
        for l in &fold.loops {
            for kind in &l.kinds {
                for odd in &kind.odd {
                    let (operation, at) = kind.owner(odd.slot);
                    let place = kind.model.start + operation;
                    let to = self.boxes[shown[place]];
                    if at >= fold.listing.operands(place).len() || to == usize::MAX {
                        continue;
                    }
                    let name = || fold.listing.weight(odd.value).unwrap_or_default().to_owned();
                    let block = l.blocks[odd.member];
                    let typed = || fold.typed(block.start + operation, at);
                    let Some(from) = self.source(odd.value, shown, to, name, typed) else { continue };
                    let number = block.number;
                    let label = format!("{}, {} {number}", ty(fold, odd.value), l.variable);
                    self.picture.arrows.push(Arrow { from, to, label, way: Way::Once });
                }
            }
        }
    }

    /// The box that gives a value; that of a weight is made on first use, and stands with its reader.
    fn source(
        &mut self,
        value: Value,
        shown: &[usize],
        to: usize,
        name: impl Fn() -> String,
        typed: impl Fn() -> String,
    ) -> Option<usize> {
        if let Some(place) = self.fold.listing.place(value) {
            return self.boxes.get(shown[place]).copied().filter(|&b| b != usize::MAX);
        }
        let frame = self.picture.parts[to].frame;
        if let Some(&part) = self.sources.get(&value) {
            let part_frame = &mut self.picture.parts[part].frame;
            if *part_frame != frame {
                // Read in several frames: it belongs to none of them.
                *part_frame = None;
            }
            return Some(part);
        }
        let part = self.part(Role::Weight, vec![name(), typed()], frame);
        self.sources.insert(value, part);
        Some(part)
    }

    fn outputs(&mut self, shown: &[usize]) {
        let fold = self.fold;
        for (name, value) in fold.listing.graph.outputs() {
            let to = self.part(Role::Output, vec![name.to_owned(), ty(fold, value)], None);
            let name = || fold.listing.weight(value).unwrap_or_default().to_owned();
            if let Some(from) = self.source(value, shown, to, name, || ty(fold, value)) {
                self.picture.arrows.push(Arrow { from, to, label: ty(fold, value), way: Way::Always });
            }
        }
    }
}

fn ty(fold: &Fold<'_>, value: Value) -> String {
    fold.listing.graph.try_ty(value).map(ToString::to_string).unwrap_or_default()
}

/// The module that a weight belongs to, as far as it has a name of its own: `model.layers.3.mlp` for
/// `model.layers.3.mlp.up_proj.weight`, nothing for `model.layers.3.input_layernorm.weight`.
fn module(weight: &str) -> Option<&str> {
    let (layer, _) = weight.rsplit_once('.')?;
    let (module, _) = layer.rsplit_once('.')?;
    let numbered = numbers(module).last().map_or(0, |n| n.at + n.digits);
    (numbered < module.len()).then_some(module)
}

/// Every module that another one lies in.
fn above(graph: &Graph) -> HashSet<&str> {
    let modules = graph.weights().filter_map(|(name, _)| Some(name.rsplit_once('.')?.0.rsplit_once('.')?.0));
    modules.flat_map(|m| m.match_indices('.').map(|(at, _)| &m[..at])).collect()
}

/// A text in which control characters are spelt out.
pub(super) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// Writes frames with what is in them, from the outside in, without recursion: `open` and `close` for a
/// frame, `part` for a box, each with its depth.
pub(super) fn nested(
    picture: &Picture,
    mut open: impl FnMut(usize, usize),
    mut part: impl FnMut(usize, usize),
    mut close: impl FnMut(usize),
) {
    /// `Some` enters a frame, `None` leaves one.
    type Step = Option<usize>;
    let contents = picture.contents();
    let mut depth = 1;
    let mut todo: Vec<Step> = Vec::new();
    let mut enter = |at: usize, depth: usize, todo: &mut Vec<Step>| {
        let (frames, parts) = &contents[at];
        parts.iter().for_each(|&p| part(p, depth));
        todo.extend(frames.iter().rev().flat_map(|&f| [None, Some(f)]));
    };
    enter(picture.frames.len(), depth, &mut todo);
    while let Some(step) = todo.pop() {
        match step {
            Some(frame) => {
                open(frame, depth);
                depth += 1;
                enter(frame, depth, &mut todo);
            }
            None => {
                depth -= 1;
                close(depth);
            }
        }
    }
}
