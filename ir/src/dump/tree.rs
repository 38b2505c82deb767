//! A graph's operations as a tree: modules, layers in them, modules in those. What a picture folds.

use super::kinds::Block;
use super::listing::Listing;
use super::long::shaped;
use super::names::Piece;
use super::names::pieces;
use super::scopes;
use crate::{NodeId, Value};
use std::collections::HashMap;
use std::ops::Range;

/// By how many numbers of a name layers are looked for: layers, experts in them, and so on.
const MOST_NUMBERS: usize = 4;
/// How many groups may stand in each other; deeper modules are not told apart.
const MOST_DEPTH: usize = 24;
/// The fewest operations of a module, and of a layer on average, that are worth a group.
const LEAST_MODULE: usize = 3;
const LEAST_LAYER: usize = 4;

/// What a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GroupKind {
    /// Operations of one module.
    Module,
    /// One of several numbered blocks.
    Layer,
    /// Consecutive layers that are the same but for names and weights.
    Stack,
    /// A cut of a long list.
    Part,
}

/// Consecutive operations that are shown as one when folded. Since they stand one after the other in an
/// order in which each follows what it reads, no group waits for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The group around it, which stands before it in the tree.
    pub parent: Option<usize>,
    pub kind: GroupKind,
    /// What it is called: `layer 3`, `self_attn`.
    pub label: String,
    /// Its operations, by place.
    pub range: Range<usize>,
    /// Equal for layers with the same operations wired in the same way.
    pub look: u32,
}

/// The operations of a graph in the order of its text, with the groups they stand in.
pub(crate) struct Tree<'g> {
    pub listing: Listing<'g>,
    /// Each after the group around it.
    pub groups: Vec<Group>,
}

/// Operations that are still to be grouped.
struct Task {
    range: Range<usize>,
    parent: Option<usize>,
    step: Step,
    /// How often the operations were parted by module.
    depth: usize,
}

/// By what operations are grouped next.
#[derive(Clone, Copy)]
enum Step {
    /// By the modules of their weights, then by number `.0` of the names.
    Modules(usize),
    /// By number `.0` of the names.
    Layers(usize),
    /// By modules again, numbered ones too: no number counts up evenly there.
    Rest,
}

impl<'g> Tree<'g> {
    /// Groups the operations of a graph. A module that `modules` names for an operation, as in
    /// `model.layers.3.mlp`, goes before that of its weights. Linear in the operations, their names and
    /// the depth of the tree; no recursion.
    pub fn new(listing: Listing<'g>, modules: impl Fn(NodeId) -> Option<&'g str>) -> Self {
        let paths: Vec<Option<&'g str>> = (0..listing.len())
            .map(|place| modules(listing.node(place)).or_else(|| weight_module(&listing, place)))
            .collect();
        let mut builder = Builder { listing: &listing, paths: &paths, groups: Vec::new(), looks: HashMap::new() };
        let mut todo = vec![Task { range: 0..listing.len(), parent: None, step: Step::Modules(0), depth: 0 }];
        while let Some(task) = todo.pop() {
            builder.work(task, &mut todo);
        }
        let Builder { groups, mut looks, .. } = builder;
        let groups = shaped(&listing, groups, &mut looks);
        Tree { listing, groups }
    }
}

/// The module of the first weight that an operation reads: `model.layers.3.mlp.up_proj` for
/// `model.layers.3.mlp.up_proj.weight`; empty where a weight has none.
fn weight_module<'g>(listing: &Listing<'g>, place: usize) -> Option<&'g str> {
    let weight = listing.operands(place).iter().find_map(|&v| listing.weight(v))?;
    Some(weight.rsplit_once('.').map_or("", |(module, _)| module))
}

/// Whether a part of a path counts: `layer3`, or `3` itself.
fn is_numbered(part: &str) -> bool {
    pieces(part).any(|piece| matches!(piece, Piece::Number(_)))
}

/// The first part of `path` behind the first `at` bytes, with the number behind it if there is one:
/// `layers.3` of `layers.3.mlp`.
fn part_at(path: &str, at: usize) -> &str {
    let rest = path.get(at..).unwrap_or_default();
    let mut ends = rest.match_indices('.').map(|(i, _)| i).chain([rest.len()]);
    let first = ends.next().unwrap_or(0);
    match ends.next() {
        Some(second) if rest[first + 1..second].bytes().all(|b| b.is_ascii_digit()) => &rest[..second],
        Some(_) | None => &rest[..first],
    }
}

struct Builder<'a, 'g> {
    listing: &'a Listing<'g>,
    paths: &'a [Option<&'g str>],
    groups: Vec<Group>,
    looks: HashMap<Vec<u32>, u32>,
}

impl Builder<'_, '_> {
    fn group(&mut self, kind: GroupKind, label: String, range: Range<usize>, parent: Option<usize>) -> usize {
        let look = look(self.listing, range.clone(), &mut self.looks);
        self.groups.push(Group { parent, kind, label, range, look });
        self.groups.len() - 1
    }

    fn work(&mut self, task: Task, todo: &mut Vec<Task>) {
        if task.range.len() < 2 || task.depth >= MOST_DEPTH {
            return;
        }
        match task.step {
            Step::Modules(stage) => self.modules(task, Some(stage), todo),
            Step::Rest => self.modules(task, None, todo),
            Step::Layers(stage) if stage < MOST_NUMBERS => self.layers(task, stage, todo),
            Step::Layers(_) => todo.push(Task { step: Step::Rest, ..task }),
        }
    }

    /// Groups by the next part of the modules that operations belong to; `stage` is what numbers to look
    /// for afterwards, `None` where numbered modules are groups like others.
    fn modules(&mut self, task: Task, stage: Option<usize>, todo: &mut Vec<Task>) {
        let Task { range, parent, depth, .. } = task;
        let shared = self.shared(range.clone());
        let part = |place: usize| {
            let path = self.paths[place]?;
            let part = part_at(path, shared);
            Some(if stage.is_some() && is_numbered(part) { "" } else { part })
        };
        let known = range.clone().filter(|&p| part(p).is_some()).count();
        // Up to the last operation of the same module with none of another between.
        let mut segments: Vec<(Range<usize>, String, usize)> = Vec::new();
        for place in range.clone() {
            match (part(place), segments.last_mut()) {
                (None, _) => {}
                (Some(p), Some((segment, name, n))) if p == name => (segment.end, *n) = (place + 1, *n + 1),
                (Some(p), _) => segments.push((place..place + 1, p.to_owned(), 1)),
            }
        }
        segments.retain(|(segment, name, _)| !name.is_empty() && segment.len() >= LEAST_MODULE);
        let task = |range: Range<usize>, parent, step| Task { range, parent, step, depth: depth + 1 };
        let after = |range, parent| task(range, parent, stage.map_or(Step::Rest, Step::Layers));
        let again = |range, parent| task(range, parent, stage.map_or(Step::Rest, Step::Modules));
        if segments.is_empty() {
            // Nothing more to tell them by, unless numbers do.
            todo.extend(stage.map(|_| after(range, parent)));
            return;
        }
        let mut at = range.start;
        for (segment, name, n) in segments {
            todo.extend(stage.map(|_| after(at..segment.start, parent)));
            at = segment.end;
            // What holds nearly everything tells nothing: `model` of a language model.
            let inner = match n * 4 > known * 3 && n > 3 {
                true => parent,
                false => Some(self.group(GroupKind::Module, name, segment.clone(), parent)),
            };
            let whole = inner == parent && segment == range;
            todo.push(if whole { after(segment, inner) } else { again(segment, inner) });
        }
        todo.extend(stage.map(|_| after(at..range.end, parent)));
    }

    /// How many bytes at the beginning of the paths of a range are the same, up to a whole part.
    fn shared(&self, range: Range<usize>) -> usize {
        let mut paths = range.filter_map(|place| self.paths[place]);
        let Some(first) = paths.next() else { return 0 };
        let same = paths.fold(first.len(), |n, path| {
            let equal = first.bytes().zip(path.bytes()).take(n).take_while(|(a, b)| a == b).count();
            // `a.b` and `a.bc` share `a` alone; `a.b` and `a.b.c` share `a.b`.
            let whole = |text: &str| text.len() == equal || text.as_bytes()[equal] == b'.';
            if whole(first) && whole(path) { equal } else { first[..equal].rfind('.').unwrap_or(0) }
        });
        if same == 0 { 0 } else { same + 1 }
    }

    /// Groups by numbers in names that count up, and layers that are the same into stacks.
    fn layers(&mut self, task: Task, stage: usize, todo: &mut Vec<Task>) {
        let Task { range, parent, depth, .. } = task;
        let mut runs = scopes::rising(self.listing, range.clone(), stage);
        // `v1`, `v2` … count values, and `linear1`, `linear2` single ones: no layers.
        runs.retain(|run| run.blocks.iter().map(Block::len).sum::<usize>() >= LEAST_LAYER * run.blocks.len());
        if runs.is_empty() {
            todo.push(Task { range, parent, step: Step::Layers(stage + 1), depth });
            return;
        }
        let mut at = range.start;
        for run in runs {
            let noun = run.noun.as_deref().unwrap_or("block");
            let (Some(first), Some(last)) = (run.blocks.first(), run.blocks.last()) else { continue };
            todo.push(Task { range: at..first.start, parent, step: Step::Layers(stage + 1), depth });
            at = last.end;
            let looks: Vec<u32> =
                run.blocks.iter().map(|b| look(self.listing, b.start..b.end, &mut self.looks)).collect();
            // A stack leaves no number out, so that its label tells which layers it holds.
            let step = run.blocks.windows(2).map(|two| two[1].number - two[0].number).min().unwrap_or(1);
            let mut from = 0;
            while from < looks.len() {
                let even = |at: usize| at == from || run.blocks[at].number - run.blocks[at - 1].number == step;
                let same = (from..looks.len()).take_while(|&at| looks[at] == looks[from] && even(at)).count();
                let blocks = &run.blocks[from..from + same];
                let around = match blocks {
                    [first, .., last] => {
                        let label = format!("{noun} {}–{}", first.number, last.number);
                        Some(self.group(GroupKind::Stack, label, first.start..last.end, parent))
                    }
                    _ => parent,
                };
                for block in blocks {
                    let label = format!("{noun} {}", block.number);
                    let inner = self.group(GroupKind::Layer, label, block.start..block.end, around);
                    let step = Step::Modules(stage + 1);
                    todo.push(Task { range: block.start..block.end, parent: Some(inner), step, depth: depth + 1 });
                }
                from += same;
            }
        }
        todo.push(Task { range: at..range.end, parent, step: Step::Layers(stage + 1), depth });
    }
}

/// A number that is equal for ranges with the same operations, wired in the same way inside; values
/// from outside count in order of first use.
pub(super) fn look(listing: &Listing<'_>, range: Range<usize>, looks: &mut HashMap<Vec<u32>, u32>) -> u32 {
    let mut outside: HashMap<Value, u32> = HashMap::new();
    let mut key = Vec::new();
    for place in range.clone() {
        key.push(listing.looks()[place]);
        for &value in listing.operands(place) {
            if listing.weight(value).is_some() {
                continue;
            }
            match listing.place(value).filter(|p| range.contains(p)) {
                Some(p) => key.extend([(p - range.start) as u32, value.port]),
                None => {
                    let next = outside.len() as u32;
                    key.extend([u32::MAX, *outside.entry(value).or_insert(next)]);
                }
            }
        }
    }
    let next = looks.len() as u32;
    *looks.entry(key).or_insert(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_part_at_dots_with_numbers_joined() {
        assert_eq!(part_at("layers.3.mlp", 0), "layers.3");
        assert_eq!(part_at("layers.3", 0), "layers.3");
        assert_eq!(part_at("model.layers.3.mlp", 6), "layers.3");
        assert_eq!(part_at("mlp.up", 0), "mlp");
        assert_eq!(part_at("mlp", 4), "");
        assert!(is_numbered("layer1") && !is_numbered("mlp"));
    }
}
