//! Which encodings the weights have that one printed operand stands for.

use super::fold::Fold;
use super::names::{quoted, short};
use crate::DType;
use indexmap::IndexMap;
use std::collections::{BTreeMap, HashMap};

/// Into how many groups the blocks of a loop may fall for a note to say which has what.
const MOST_GROUPS: usize = 4;
/// How many weights stand in one note.
const MOST_NAMES: usize = 6;

/// An operand that is printed, by the place of its operation and its number there.
type Operand = (usize, usize);
/// A loop, and the kind of block in it.
type Frame = (usize, usize);

/// The encodings of weights that are printed as one; nothing of those that have one encoding.
#[derive(Default)]
pub(super) struct Encodings {
    /// All of an operand, in order of first occurrence.
    several: HashMap<Operand, Vec<DType>>,
    /// For each kind of block and each operand in it what the blocks have, by their numbers.
    by_block: HashMap<Frame, BTreeMap<Operand, BTreeMap<i64, Vec<DType>>>>,
}

impl Encodings {
    /// Linear in operands, times the number of loops around them.
    pub fn of(fold: &Fold<'_>) -> Self {
        let mut found = Encodings::default();
        each(fold, |operand, dtype, _| add(found.several.entry(operand).or_default(), dtype));
        found.several.retain(|_, all| all.len() > 1);
        if found.several.is_empty() {
            return found;
        }
        each(fold, |operand, dtype, around| {
            if !found.several.contains_key(&operand) {
                return;
            }
            for &(frame, number) in around {
                let blocks = found.by_block.entry(frame).or_default().entry(operand).or_default();
                add(blocks.entry(number).or_default(), dtype);
            }
        });
        found
    }

    /// The encodings of an operand that is printed, where it stands for weights of several.
    pub fn several(&self, place: usize, at: usize) -> Option<&[DType]> {
        self.several.get(&(place, at)).map(Vec::as_slice)
    }

    /// What each block of a kind has, in order of the operands.
    #[cfg(test)]
    pub fn blocks(&self, frame: Frame) -> impl Iterator<Item = (Operand, &BTreeMap<i64, Vec<DType>>)> {
        self.by_block.get(&frame).into_iter().flatten().map(|(&operand, blocks)| (operand, blocks))
    }

    /// Which blocks of a kind have which encodings, a line for each way in which they are spread:
    /// `v_proj.weight, down_proj.weight: q6k in layers 0..2, 5; q4k in the others`. Nothing of a weight
    /// whose encodings do not depend on the block, or in too many ways for a line. `called` gives the name
    /// of an operand as a pattern, `turns` ascending numbers with the noun of the loop.
    pub fn notes(
        &self,
        frame: Frame,
        called: impl Fn(usize, usize) -> String,
        turns: impl Fn(&[i64]) -> String,
    ) -> Vec<String> {
        let mut spreads: IndexMap<String, Vec<String>> = IndexMap::new();
        for (operand, blocks) in self.by_block.get(&frame).into_iter().flatten() {
            let Some(spread) = self.spread(*operand, blocks, &turns) else { continue };
            let name = called(operand.0, operand.1);
            let names = spreads.entry(spread).or_default();
            if !names.contains(&name) && names.len() <= MOST_NAMES {
                names.push(name);
            }
        }
        let note = |(spread, names): (String, Vec<String>)| {
            let shorts: Vec<String> = names.iter().map(|name| short(name)).collect();
            // Short names only where they tell the weights apart.
            let alike = shorts.iter().enumerate().any(|(i, name)| shorts[..i].contains(name));
            let mut names = if alike { names.iter().map(|name| quoted(name)).collect() } else { shorts };
            let more = if names.len() > MOST_NAMES { " and others" } else { "" };
            names.truncate(MOST_NAMES);
            format!("{}{more}: {spread}", names.join(", "))
        };
        spreads.into_iter().map(note).collect()
    }

    /// Which blocks have which encodings of one operand.
    fn spread(
        &self,
        operand: Operand,
        blocks: &BTreeMap<i64, Vec<DType>>,
        turns: impl Fn(&[i64]) -> String,
    ) -> Option<String> {
        let order = self.several.get(&operand)?;
        let mut groups: Vec<(String, Vec<i64>)> = Vec::new();
        for (&number, dtypes) in blocks {
            let text = joined(order.iter().filter(|dtype| dtypes.contains(dtype)));
            match groups.iter().position(|(had, _)| *had == text) {
                Some(at) => groups[at].1.push(number),
                None if groups.len() == MOST_GROUPS => return None,
                None => groups.push((text, vec![number])),
            }
        }
        // The last of the largest groups goes without its numbers.
        let (others, _) = groups.iter().enumerate().max_by_key(|(_, (_, numbers))| numbers.len())?;
        let (text, numbers) = groups.remove(others);
        if groups.is_empty() {
            return None;
        }
        let mut parts: Vec<String> =
            groups.iter().map(|(text, numbers)| format!("{text} in {}", turns(numbers))).collect();
        parts.push(format!("{text} in the {}", if numbers.len() == 1 { "other" } else { "others" }));
        Some(parts.join("; "))
    }
}

/// Encodings as types write them: `q4k|q6k`.
pub(super) fn joined<'a>(dtypes: impl IntoIterator<Item = &'a DType>) -> String {
    let names: Vec<&str> = dtypes.into_iter().map(|dtype| dtype.name()).collect();
    names.join("|")
}

fn add(dtypes: &mut Vec<DType>, dtype: DType) {
    if !dtypes.contains(&dtype) {
        dtypes.push(dtype);
    }
}

/// Calls `f` with every weight that is an operand, in order of place: the operand that stands for it in
/// the folded form, its encoding, and the loops around that operand with the numbers of the blocks that the
/// weight is of.
fn each(fold: &Fold<'_>, mut f: impl FnMut(Operand, DType, &[(Frame, i64)])) {
    let listing = &fold.listing;
    let mut frames: Vec<(Frame, i64)> = Vec::new();
    // For each loop around, the place in it before it becomes that in the block that is printed.
    let mut steps: Vec<(usize, usize)> = Vec::new();
    for place in 0..listing.len() {
        let operands = listing.operands(place);
        if !operands.iter().any(|&v| listing.weight(v).is_some()) {
            continue;
        }
        frames.clear();
        steps.clear();
        let mut shown = place;
        while let Some((at, member)) = fold.loop_at(shown, frames.len()) {
            let l = &fold.loops[at];
            let (block, kind) = (l.blocks[member], l.kind_of[member]);
            frames.push(((at, kind), block.number));
            steps.push((shown, member));
            shown = l.kinds[kind].model.start + (shown - block.start);
        }
        for (at, &value) in operands.iter().enumerate().filter(|(_, v)| listing.weight(**v).is_some()) {
            let Ok(ty) = listing.graph.try_ty(value) else { continue };
            // What a single block reads in place of something else is printed by itself.
            let odd = steps.iter().zip(&frames).position(|(&(place, member), &((l, kind), _))| {
                let l = &fold.loops[l];
                let (kind, offset) = (&l.kinds[kind], place - l.blocks[member].start);
                let slot = kind.starts.get(offset).map_or(0, |&start| start as usize) + at;
                kind.odd.binary_search_by_key(&(slot, member), |o| (o.slot, o.member)).is_ok()
            });
            match odd {
                Some(depth) => f((steps[depth].0, at), ty.dtype, &frames[..depth]),
                None => f((shown, at), ty.dtype, &frames),
            }
        }
    }
}
