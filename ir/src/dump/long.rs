//! Long lists of operations and groups made short: what repeats becomes turns, the rest parts.

use super::listing::Listing;
use super::repeats::{Repeat, repeats};
use super::tree::{Group, GroupKind, look};
use std::collections::HashMap;
use std::ops::Range;

/// From how many things in a list on it is looked at what repeats in it.
const LONG: usize = 48;
/// The most that stands in one group directly; more is cut into parts, so that drawing stays linear.
const MOST_CHILDREN: usize = 240;
/// How many children such a part has.
const PART: usize = 120;
/// The fewest things that make a turn.
const LEAST_TURN: usize = 3;

/// What stands in a list: an operation, or a group with what is in it.
struct Item {
    range: Range<usize>,
    /// Of a group its kind, label and look.
    group: Option<(GroupKind, String, u32)>,
    /// Of a group that was found by names its number.
    found: Option<usize>,
    inside: Vec<Item>,
}

impl Item {
    fn operation(place: usize) -> Self {
        Item { range: place..place + 1, group: None, found: None, inside: Vec::new() }
    }

    /// A group of these items; there is one at least.
    fn around(kind: GroupKind, label: String, look: u32, inside: Vec<Item>) -> Self {
        let range = inside.first().map_or(0, |i| i.range.start)..inside.last().map_or(0, |i| i.range.end);
        Item { range, group: Some((kind, label, look)), found: None, inside }
    }
}

/// The groups with long lists made shorter: what repeats in them becomes turns, and lists that are long
/// still are cut into parts.
pub(super) fn shaped(listing: &Listing<'_>, groups: Vec<Group>, looks: &mut HashMap<Vec<u32>, u32>) -> Vec<Group> {
    let mut inside: Vec<Vec<usize>> = vec![Vec::new(); groups.len() + 1];
    for (at, group) in groups.iter().enumerate() {
        inside[group.parent.map_or(0, |p| p + 1)].push(at);
    }
    inside.iter_mut().for_each(|all| all.sort_by_key(|&g| groups[g].range.start));
    // The items of a list by the groups found; groups in it are opened when they are listed themselves.
    let items = |range: Range<usize>, list: usize| {
        let mut out = Vec::new();
        let mut at = range.start;
        for &child in &inside[list] {
            let Group { range, kind, label, look, .. } = &groups[child];
            out.extend((at..range.start).map(Item::operation));
            let group = Some((*kind, label.clone(), *look));
            out.push(Item { range: range.clone(), group, found: Some(child), inside: Vec::new() });
            at = range.end;
        }
        out.extend((at..range.end).map(Item::operation));
        out
    };
    let mut out: Vec<Group> = Vec::with_capacity(groups.len());
    let mut todo: Vec<(Vec<Item>, Option<usize>)> = vec![(items(0..listing.len(), 0), None)];
    while let Some((mut list, parent)) = todo.pop() {
        if list.len() > LONG {
            list = turned(list, listing, looks);
        }
        if list.len() > MOST_CHILDREN {
            list = parted(list);
        }
        for item in list {
            let Some((kind, label, look)) = item.group else { continue };
            let at = Some(out.len());
            let inner = item.found.map_or(item.inside, |found| items(item.range.clone(), found + 1));
            todo.push((inner, at));
            out.push(Group { parent, kind, label, range: item.range, look });
        }
    }
    out
}

/// A list in which stretches that repeat, by structure alone, are turns: consecutive ones that are the same in
/// a stack.
fn turned(list: Vec<Item>, listing: &Listing<'_>, looks: &mut HashMap<Vec<u32>, u32>) -> Vec<Item> {
    let symbol = |item: &Item| match &item.group {
        None => 2 * listing.looks()[item.range.start],
        Some((_, _, look)) => look.saturating_mul(2).saturating_add(1),
    };
    let symbols: Vec<u32> = list.iter().map(symbol).collect();
    let mut items = list.into_iter();
    let mut out: Vec<Item> = Vec::new();
    let mut at = 0;
    for Repeat { start, period, count, .. } in repeats(&symbols) {
        if period < LEAST_TURN {
            continue;
        }
        out.extend(items.by_ref().take(start - at));
        at = start + period * count;
        let mut turns: Vec<Item> = Vec::new();
        for n in 0..count {
            let inside: Vec<Item> = items.by_ref().take(period).collect();
            let mut turn = Item::around(GroupKind::Layer, format!("turn {n}"), 0, inside);
            let look = look(listing, turn.range.clone(), looks);
            turn.group = turn.group.map(|(kind, label, _)| (kind, label, look));
            turns.push(turn);
        }
        out.extend(stacked(turns, listing, looks));
    }
    out.extend(items);
    out
}

/// Turns with consecutive equal ones in stacks.
fn stacked(turns: Vec<Item>, listing: &Listing<'_>, looks: &mut HashMap<Vec<u32>, u32>) -> Vec<Item> {
    let mut out = Vec::new();
    let mut turns = turns.into_iter().enumerate().peekable();
    while let Some((first, turn)) = turns.next() {
        let mut same = vec![turn];
        while let Some((_, next)) =
            turns.next_if(|(_, next)| next.group.as_ref().map(|g| g.2) == same[0].group.as_ref().map(|g| g.2))
        {
            same.push(next);
        }
        match same.len() {
            1 => out.extend(same),
            n => {
                let label = format!("turn {first}–{}", first + n - 1);
                let mut stack = Item::around(GroupKind::Stack, label, 0, same);
                let look = look(listing, stack.range.clone(), looks);
                stack.group = stack.group.map(|(kind, label, _)| (kind, label, look));
                out.push(stack);
            }
        }
    }
    out
}

/// A list in parts, so few that they make no long list.
fn parted(list: Vec<Item>) -> Vec<Item> {
    let mut size = PART;
    while list.len() / size > MOST_CHILDREN {
        size *= PART;
    }
    let mut parts = Vec::new();
    let mut items = list.into_iter().peekable();
    while items.peek().is_some() {
        let inside: Vec<Item> = items.by_ref().take(size).collect();
        parts.push(Item::around(GroupKind::Part, format!("part {}", parts.len() + 1), u32::MAX, inside));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut_into_parts_of_parts() {
        let list: Vec<Item> = (0..40_000).map(Item::operation).collect();
        let parts = parted(list);
        assert!((2..=MOST_CHILDREN).contains(&parts.len()), "{}", parts.len());
        assert_eq!(parts.iter().map(|p| p.inside.len()).sum::<usize>(), 40_000);
        assert_eq!((parts[0].range.start, parts[parts.len() - 1].range.end), (0, 40_000));
    }
}
