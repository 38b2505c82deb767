//! The folded structure of a graph: which stretches of operations are turns of a loop.

use super::encodings::Encodings;
use super::kinds::{Block, Kind, Meaning, kinds};
use super::listing::Listing;
use super::repeats::{Repeat, repeats};
use super::scopes::{self, Run};
use std::ops::Range;

/// By how many numbers of a name blocks are looked for: layers, experts in them, and so on.
const MOST_NUMBERS: usize = 4;
/// How many lines a loop must save.
const LEAST_SAVED: usize = 2;

/// A graph's operations with repeated ones folded.
pub(super) struct Fold<'g> {
    pub listing: Listing<'g>,
    pub loops: Vec<Loop>,
    /// Lists of items; the first is the whole graph.
    pub groups: Vec<Vec<Item>>,
    /// For each place the one that stands for it in the folded form.
    pub shown: Vec<usize>,
    /// The encodings of weights that are printed as one.
    pub encodings: Encodings,
    /// The loops with so many around them, in order of place.
    by_depth: Vec<Vec<usize>>,
}

/// Something in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// Operations, by place.
    Operations(Range<usize>),
    /// A loop, by number.
    Loop(usize),
    /// Another list in this place.
    Group(usize),
}

/// Blocks that count up, each of some kind.
pub(super) struct Loop {
    pub blocks: Vec<Block>,
    pub kinds: Vec<Kind>,
    /// The kind of each block.
    pub kind_of: Vec<usize>,
    /// For each kind, the list that is its body.
    pub bodies: Vec<usize>,
    /// What a block is called.
    pub noun: Option<String>,
    /// The variable of the loop; it differs from those of the loops around it.
    pub variable: String,
    /// How many loops are around it.
    pub depth: usize,
}

impl Loop {
    /// The places of all blocks.
    pub fn range(&self) -> Range<usize> {
        self.blocks.first().map_or(0, |b| b.start)..self.blocks.last().map_or(0, |b| b.end)
    }
}

/// Part of the operations, still to be folded.
struct Task {
    range: Range<usize>,
    /// The number of the names to go by next; past the last one it is structure alone.
    stage: usize,
    group: usize,
    /// Variables of the loops around it.
    variables: Vec<String>,
}

impl<'g> Fold<'g> {
    /// Folds nothing: every operation stands for itself.
    pub fn nothing(listing: Listing<'g>) -> Self {
        let all = Item::Operations(0..listing.len());
        let shown = (0..listing.len()).collect();
        let encodings = Encodings::default();
        Fold { groups: vec![vec![all]], loops: Vec::new(), shown, encodings, by_depth: Vec::new(), listing }
    }

    /// Folds what repeats, and inside that what repeats there. O(n log² n) for n operations, in practice
    /// linear; no recursion.
    pub fn new(listing: Listing<'g>) -> Self {
        let whole = 0..listing.len();
        let mut fold = Fold {
            listing,
            loops: Vec::new(),
            groups: vec![Vec::new()],
            shown: whole.clone().collect(),
            encodings: Encodings::default(),
            by_depth: Vec::new(),
        };
        let mut tasks = vec![Task { range: whole, stage: 0, group: 0, variables: Vec::new() }];
        while let Some(task) = tasks.pop() {
            fold.work(task, &mut tasks);
        }
        fold.finish();
        fold
    }

    fn work(&mut self, task: Task, tasks: &mut Vec<Task>) {
        let Task { range, mut stage, group, variables } = task;
        let mut found = Vec::new();
        while found.is_empty() && stage <= MOST_NUMBERS {
            found = self.plan(range.clone(), stage);
            stage += 1;
        }
        let mut at = range.start;
        for plan in found {
            self.gap(at..plan.range().start, stage, group, &variables, tasks);
            at = plan.range().end;
            self.groups[group].push(Item::Loop(self.loops.len()));
            let variable = variable(plan.noun.as_deref(), &variables);
            let inner: Vec<String> = variables.iter().chain([&variable]).cloned().collect();
            let mut bodies = Vec::new();
            for kind in &plan.kinds {
                bodies.push(self.groups.len());
                let model = kind.model.start..kind.model.end;
                // By names, the body goes on with the next number; else it begins anew, half as long.
                let stage = if plan.noun.is_some() { stage } else { 0 };
                tasks.push(Task { range: model, stage, group: self.groups.len(), variables: inner.clone() });
                self.groups.push(Vec::new());
            }
            let Plan { blocks, kinds, noun } = plan;
            let mut kind_of = vec![0; blocks.len()];
            kinds.iter().enumerate().for_each(|(at, k)| k.members.iter().for_each(|&m| kind_of[m] = at));
            self.loops.push(Loop { blocks, kinds, kind_of, bodies, noun, variable, depth: variables.len() });
        }
        self.gap(at..range.end, stage, group, &variables, tasks);
    }

    /// Operations between loops: looked at again by what has not been tried yet.
    fn gap(&mut self, range: Range<usize>, stage: usize, group: usize, variables: &[String], tasks: &mut Vec<Task>) {
        if range.is_empty() {
            return;
        }
        if stage > MOST_NUMBERS || range.len() <= LEAST_SAVED {
            self.groups[group].push(Item::Operations(range));
            return;
        }
        let inner = self.groups.len();
        self.groups[group].push(Item::Group(inner));
        self.groups.push(Vec::new());
        tasks.push(Task { range, stage, group: inner, variables: variables.to_vec() });
    }

    /// The loops of a range that are worth it, in order.
    fn plan(&self, range: Range<usize>, stage: usize) -> Vec<Plan> {
        if stage >= MOST_NUMBERS {
            return self.structural(range);
        }
        let runs = scopes::runs(&self.listing, range.clone(), stage);
        let named: Vec<Plan> = runs.into_iter().map(|run| self.weigh(run)).filter(Plan::pays).collect();
        let covered: usize = named.iter().map(|plan| plan.range().len()).sum();
        let plain = named.iter().all(|plan| plan.kinds.len() == 1);
        if named.is_empty() || (plain && covered > range.len() / 2) {
            return named;
        }
        // Numbers may count something else than what repeats.
        let structural = self.structural(range);
        let saved = |plans: &[Plan]| plans.iter().map(Plan::saved).sum::<usize>();
        if saved(&structural) > saved(&named) { structural } else { named }
    }

    fn weigh(&self, run: Run) -> Plan {
        Plan { kinds: kinds(&self.listing, &run.blocks), blocks: run.blocks, noun: run.noun }
    }

    fn structural(&self, range: Range<usize>) -> Vec<Plan> {
        let found = repeats(&self.listing.looks()[range.clone()]);
        let shifted = found.into_iter().map(|r| Repeat { start: r.start + range.start, ..r });
        let run = |r: Repeat| {
            let start = self.seam(&r);
            let block =
                |i: usize| Block { start: start + i * r.period, end: start + (i + 1) * r.period, number: i as i64 };
            Run { blocks: (0..r.count).map(block).collect(), noun: None }
        };
        shifted.map(|r| self.weigh(run(r))).filter(Plan::pays).collect()
    }

    /// Where a repeat begins best: where the fewest values pass from one turn to the next.
    fn seam(&self, r: &Repeat) -> usize {
        // Values alive before each place of the second turn: born earlier in the repeat, read later.
        let slots = r.slack + 1;
        let first = r.start + r.period;
        let mut change = vec![0i64; slots + 1];
        for place in r.start..first + r.slack {
            let last = self.listing.last_reader(place);
            // It crosses the seams after it up to the last reader; one that lives on and on tells nothing.
            let (from, to) = ((place + 1).max(first) - first, (last + 1).saturating_sub(first));
            if last > place && from < to && from < slots {
                change[from] += 1;
                change[to.min(slots)] -= 1;
            }
        }
        let mut alive = 0;
        let counts = change[..slots].iter().map(|c| {
            alive += c;
            alive
        });
        let best = counts.enumerate().min_by_key(|&(i, n)| (n, i));
        r.start + best.map_or(0, |(i, _)| i)
    }

    fn finish(&mut self) {
        // Loops are numbered from the outside in: those inside find their places already moved.
        for l in self.loops.iter().rev() {
            for kind in &l.kinds {
                for &member in &kind.members {
                    let (block, model) = (l.blocks[member], kind.model.start);
                    (0..block.len()).for_each(|i| self.shown[block.start + i] = self.shown[model + i]);
                }
            }
        }
        for (at, l) in self.loops.iter().enumerate() {
            if self.by_depth.len() <= l.depth {
                self.by_depth.resize(l.depth + 1, Vec::new());
            }
            self.by_depth[l.depth].push(at);
        }
        for all in &mut self.by_depth {
            all.sort_by_key(|&at| self.loops[at].range().start);
        }
        self.encodings = Encodings::of(self);
    }

    /// The loop with `depth` loops around it that a place lies in, and which of its blocks.
    pub fn loop_at(&self, place: usize, depth: usize) -> Option<(usize, usize)> {
        let all = self.by_depth.get(depth)?;
        let after = all.partition_point(|&at| self.loops[at].range().start <= place);
        let at = *all.get(after.checked_sub(1)?)?;
        let l = &self.loops[at];
        l.range().contains(&place).then(|| (at, l.blocks.partition_point(|b| b.end <= place)))
    }
}

/// A loop before its body is folded.
struct Plan {
    blocks: Vec<Block>,
    kinds: Vec<Kind>,
    noun: Option<String>,
}

impl Plan {
    fn range(&self) -> Range<usize> {
        self.blocks.first().map_or(0, |b| b.start)..self.blocks.last().map_or(0, |b| b.end)
    }

    /// Lines that it saves: those of all blocks, less those of the kinds with head, foot and notes.
    fn saved(&self) -> usize {
        let plain: usize = self.blocks.iter().map(Block::len).sum();
        let numbers = |kind: &Kind| kind.members.windows(2).filter(|w| w[1] - w[0] > 1).count();
        let odd = |kind: &Kind| {
            let mut ways: Vec<Meaning> = kind.odd.iter().map(|o| kind.slots[o.slot].meaning()).collect();
            ways.dedup();
            ways.len()
        };
        let folded = |kind: &Kind| 2 + kind.model.len() + numbers(kind) + odd(kind);
        plain.saturating_sub(self.kinds.iter().map(folded).sum())
    }

    fn pays(&self) -> bool {
        self.saved() >= LEAST_SAVED
    }
}

/// A variable for a loop over blocks of this name inside loops over `taken`.
fn variable(noun: Option<&str>, taken: &[String]) -> String {
    let free = |name: &str| !taken.iter().any(|t| t == name);
    let letters = ["i", "j", "k", "l", "m", "n"];
    if let Some(name) = noun.into_iter().chain(letters).find(|name| free(name)) {
        return name.to_owned();
    }
    // Bodies halve, so that so deep nesting is rare and its variables few.
    let numbered = (1..).map(|n| format!("i{n}"));
    numbered.into_iter().find(|name| free(name)).unwrap_or_default()
}
