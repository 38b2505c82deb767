//! Blocks by the numbers in names: the operations that read the weights of `model.layers.3` are layer 3.

use super::kinds::Block;
use super::listing::Listing;
use super::names::numbers;
use std::collections::HashMap;
use std::ops::Range;

/// How many numbers of a value's name are looked at.
const MOST_NUMBERS: usize = 4;

/// Consecutive blocks whose numbers count up evenly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub blocks: Vec<Block>,
    /// What a block is called: `layer`; `None` where nothing says.
    pub noun: Option<String>,
}

/// What stands before a number in a name, and the number.
type Key<'a> = (&'a str, i64);

/// Which block an operation belongs to, as far as its names tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim<'a> {
    /// To this one.
    Block(Key<'a>),
    /// To no block: it has names, and they speak of none.
    Apart,
    /// It has no name that says anything.
    Silent,
}

/// The runs of `range` by number `at` of the names (0 is the first number of a name), in order, two or
/// more blocks each. Linear in operations and the lengths of their names.
pub(super) fn runs(listing: &Listing<'_>, range: Range<usize>, at: usize) -> Vec<Run> {
    runs_where(listing, range, at, |first, grown| first == grown)
}

/// As [`runs`], but numbers may be left out: layers 0, 1 and 3 are a run where layer 2 was taken away.
pub(super) fn rising(listing: &Listing<'_>, range: Range<usize>, at: usize) -> Vec<Run> {
    runs_where(listing, range, at, |_, _| true)
}

/// Runs in which the first number grows by the first of two numbers, and a later one may by the second.
fn runs_where(listing: &Listing<'_>, range: Range<usize>, at: usize, goes_on: fn(i64, i64) -> bool) -> Vec<Run> {
    let claims = claims(listing, range.clone(), at);
    let claims = settle(&claims);
    let mut blocks: Vec<(&str, Block)> = Vec::new();
    for (place, claim) in (range.start..).zip(&claims) {
        let &Claim::Block((prefix, number)) = claim else { continue };
        match blocks.last_mut() {
            Some((p, block)) if (*p, block.number, block.end) == (prefix, number, place) => block.end += 1,
            _ => blocks.push((prefix, Block { start: place, end: place + 1, number })),
        }
    }
    let mut out: Vec<Run> = Vec::new();
    let mut from = 0;
    while from < blocks.len() {
        let step = |i: usize| {
            let (a, b) = (blocks.get(i)?, blocks.get(i + 1)?);
            let grown = b.1.number - a.1.number;
            (a.0 == b.0 && a.1.end == b.1.start && grown > 0).then_some(grown)
        };
        let first = step(from);
        let mut to = from + 1;
        while first.zip(step(to - 1)).is_some_and(|(first, grown)| goes_on(first, grown)) {
            to += 1;
        }
        if to - from >= 2 {
            let blocks: Vec<Block> = blocks[from..to].iter().map(|(_, b)| *b).collect();
            out.push(Run { noun: noun(claims_prefix(&claims, &blocks, &range)), blocks });
            out.last_mut().into_iter().for_each(|run| trim(listing, run));
        }
        from = to;
    }
    out
}

fn claims_prefix<'a>(claims: &[Claim<'a>], blocks: &[Block], range: &Range<usize>) -> &'a str {
    match blocks.first().and_then(|b| claims.get(b.start - range.start)) {
        Some(Claim::Block((prefix, _))) => prefix,
        Some(Claim::Apart | Claim::Silent) | None => "",
    }
}

/// What each operation says for itself: by the weights it reads, else by the names of its results, of
/// which those count that stand with the same weights everywhere.
fn claims<'a>(listing: &'a Listing<'_>, range: Range<usize>, at: usize) -> Vec<Claim<'a>> {
    let by_weight = |place: usize| {
        let names = listing.operands(place).iter().filter_map(|&v| listing.weight(v));
        let mut any = false;
        let key = names.inspect(|_| any = true).find_map(|name| key(name, at));
        match (key, any) {
            (Some(key), _) => Claim::Block(key),
            (None, true) => Claim::Apart,
            (None, false) => Claim::Silent,
        }
    };
    let mut claims: Vec<Claim<'a>> = range.clone().map(by_weight).collect();
    // Which block of weights a number in the name of a result goes with; `None` where with several.
    let mut goes_with: HashMap<Key<'a>, Option<Key<'a>>> = HashMap::new();
    for (place, claim) in range.clone().zip(&claims) {
        let &Claim::Block(block) = claim else { continue };
        for own in result_keys(listing, place) {
            goes_with.entry(own).and_modify(|b| *b = b.filter(|b| *b == block)).or_insert(Some(block));
        }
    }
    let by_names_alone = goes_with.is_empty() && claims.iter().all(|c| !matches!(c, Claim::Block(_)));
    for (place, claim) in range.zip(&mut claims) {
        if matches!(claim, Claim::Block(_)) {
            continue;
        }
        let name = listing.name(listing.result(place, 0)).filter(|_| listing.results(place) > 0);
        let told = match by_names_alone {
            true => name.and_then(|name| key(name, at)),
            false => result_keys(listing, place).find_map(|own| goes_with.get(&own).copied().flatten()),
        };
        match (told, name) {
            (Some(key), _) => *claim = Claim::Block(key),
            // Where names are all there is, one that speaks of no block says that too.
            (None, Some(_)) if by_names_alone => *claim = Claim::Apart,
            (None, _) => {}
        }
    }
    claims
}

/// The numbers in the name of an operation's first result, with what stands before each.
fn result_keys<'a>(listing: &'a Listing<'_>, place: usize) -> impl Iterator<Item = Key<'a>> {
    let first = (listing.results(place) > 0).then(|| listing.result(place, 0));
    let name = first.and_then(|value| listing.name(value)).unwrap_or_default();
    (0..MOST_NUMBERS).map_while(move |at| key(name, at))
}

fn key(name: &str, at: usize) -> Option<Key<'_>> {
    numbers(name).nth(at).map(|n| (&name[..n.at], n.value))
}

/// What says nothing goes with the operations around it: between two of one block to that block, and
/// after a block to it, since layers begin with a norm that has a weight. So does what speaks of no block
/// between two of the same.
fn settle<'a>(claims: &[Claim<'a>]) -> Vec<Claim<'a>> {
    let mut out = claims.to_vec();
    let mut at = 0;
    let mut before: Option<Key<'a>> = None;
    while at < out.len() {
        if let Claim::Block(key) = out[at] {
            before = Some(key);
            at += 1;
            continue;
        }
        let end = (at..out.len()).find(|&i| matches!(out[i], Claim::Block(_))).unwrap_or(out.len());
        let after = match out.get(end) {
            Some(Claim::Block(key)) => Some(*key),
            Some(Claim::Apart | Claim::Silent) | None => None,
        };
        let whole = before.is_some() && before == after;
        for slot in &mut out[at..end] {
            match (before, *slot) {
                (Some(key), Claim::Silent) => *slot = Claim::Block(key),
                (Some(key), Claim::Apart) if whole => *slot = Claim::Block(key),
                _ => break,
            }
        }
        at = end;
    }
    out
}

/// Takes from the last block what came to it only because nothing follows: operations beyond those of
/// the block before, where up to there the two look the same.
fn trim(listing: &Listing<'_>, run: &mut Run) {
    if let [.., before, last] = &mut run.blocks[..]
        && last.len() > before.len()
        && listing.looks()[before.start..before.end] == listing.looks()[last.start..last.start + before.len()]
    {
        last.end = last.start + before.len();
    }
}

/// `layer` for `model.layers.`: the last word before the number, in the singular.
pub(crate) fn noun(prefix: &str) -> Option<String> {
    let words = prefix.rsplit(|c: char| !c.is_ascii_alphabetic()).filter(|w| !w.is_empty());
    let word = words.map(str::to_ascii_lowercase).next()?;
    let word = match word.strip_suffix('s') {
        Some(stem) if word.len() > 3 && !stem.ends_with('s') => stem.to_owned(),
        Some(_) | None => word,
    };
    // Short words are abbreviations of a layer, as in `h.3` and `l.3`; long ones make no variable.
    (3..=16).contains(&word.len()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_are_singular_words() {
        for (prefix, want) in [
            ("model.layers.", Some("layer")),
            ("layer", Some("layer")),
            ("transformer.h.", None),
            ("blk.", Some("blk")),
            ("mlp.experts.", Some("expert")),
            ("Res_Blocks_", Some("block")),
            ("class", Some("class")),
            ("", None),
            ("%", None),
        ] {
            assert_eq!(noun(prefix).as_deref(), want, "{prefix}");
        }
    }

    #[test]
    fn silent_operations_join_the_block_before_them() {
        let (a, b) = (Claim::Block(("l", 0)), Claim::Block(("l", 1)));
        use Claim::{Apart, Silent};
        assert_eq!(settle(&[Silent, a, Silent, b, Silent, Apart]), [Silent, a, a, b, b, Apart]);
        assert_eq!(settle(&[a, Apart, a, Apart, b]), [a, a, a, Apart, b]);
        assert_eq!(settle(&[a, Silent, Apart, Silent, b]), [a, a, Apart, Silent, b]);
        assert_eq!(settle(&[]), []);
    }
}
