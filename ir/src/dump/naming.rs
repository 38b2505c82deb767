//! How values are called inside the loops of a folded graph.

use super::encodings::joined;
use super::fold::{Fold, Loop};
use super::kinds::{Kind, Meaning, Slot, Strides};
use super::names::{Growth, Quotes, pattern};
use crate::Value;

/// The loops around a place, from the outside in: the number of each loop, and of the kind in it.
pub(super) type Around = [(usize, usize)];

impl Kind {
    /// The slot of operand, or then result, `at` of the operation at `place` of the block that is printed.
    pub fn slot(&self, place: usize, at: usize) -> Option<&Slot> {
        let start = *self.starts.get(place.checked_sub(self.model.start)?)?;
        self.slots.get(start as usize + at)
    }

    /// The operation of the block that a slot belongs to, and the number of the slot there.
    pub fn owner(&self, slot: usize) -> (usize, usize) {
        let operation = self.starts.partition_point(|&start| start as usize <= slot).saturating_sub(1);
        (operation, slot - self.starts.get(operation).map_or(0, |&start| start as usize))
    }
}

impl Fold<'_> {
    /// The loop and the kind of a frame.
    pub fn frame(&self, frame: (usize, usize)) -> (&Loop, &Kind) {
        let loop_ = &self.loops[frame.0];
        (loop_, &loop_.kinds[frame.1])
    }

    /// Operand, or then result, `at` of the operation at `place`.
    pub fn value_at(&self, place: usize, at: usize) -> Value {
        let operands = self.listing.operands(place);
        operands.get(at).copied().unwrap_or_else(|| self.listing.result(place, at - operands.len()))
    }

    /// How operand, or then result, `at` of the operation at `place` is written: `%layer{layer}.q`, or
    /// `prev %12` for a value without a name of the turn before; weights with their type and all encodings.
    pub fn called(&self, place: usize, at: usize, around: &Around) -> String {
        let value = self.value_at(place, at);
        let growths = match self.growths(place, at, around) {
            Ok(growths) => growths,
            Err(before) => return before,
        };
        match (self.listing.weight(value), self.listing.name(value)) {
            (Some(name), _) => {
                format!("{}: {}", pattern(name, &growths, Quotes::Always), self.typed(place, at))
            }
            (None, Some(name)) => format!("%{}", pattern(name, &growths, Quotes::Needed)),
            (None, None) => self.numbered(value, around),
        }
    }

    /// The type of operand, or then result, `at` of the operation at `place`; that of weights of several
    /// encodings has them all: `q4k|q6k[896, 4864]`.
    pub fn typed(&self, place: usize, at: usize) -> String {
        let Ok(ty) = self.listing.graph.try_ty(self.value_at(place, at)) else { return String::new() };
        match self.encodings.several(place, at) {
            Some(all) => format!("{}{}", joined(all), ty.shape),
            None => ty.to_string(),
        }
    }

    /// A value that has a number only. Of a loop that is not around, it is printed in one block for all:
    /// `last %12` is that of the last block, `%12 of turn 3` that of another.
    pub fn numbered(&self, value: Value, around: &Around) -> String {
        let plain = |value| self.listing.labels.label(value);
        let Some(place) = self.listing.place(value) else { return plain(value) };
        for depth in 0.. {
            let Some((at, member)) = self.loop_at(place, depth) else { break };
            let l = &self.loops[at];
            let kind = &l.kinds[l.kind_of[member]];
            let inside = around.get(depth) == Some(&(at, l.kind_of[member])) && kind.model == l.blocks[member];
            // A block of a kind of its own has its numbers to itself.
            if inside || kind.members.len() == 1 {
                continue;
            }
            let shown = plain(self.listing.result(self.shown[place], value.port as usize));
            return match member + 1 == l.blocks.len() {
                true => format!("last {shown}"),
                false => format!("{shown} of {} {}", l.noun.as_deref().unwrap_or("turn"), l.blocks[member].number),
            };
        }
        plain(value)
    }

    /// The name of a weight that is operand `at` of the operation at `place`, without quotes.
    pub fn weight_called(&self, place: usize, at: usize, around: &Around) -> String {
        let name = self.listing.weight(self.value_at(place, at)).unwrap_or_default();
        pattern(name, &self.growths(place, at, around).unwrap_or_default(), Quotes::Never)
    }

    /// How the numbers in the name of an operand or result grow in the loops around it; as an error the
    /// whole text for a value of the turn before whose name tells nothing.
    fn growths<'s>(&'s self, place: usize, at: usize, around: &'s Around) -> Result<Vec<Growth<'s>>, String> {
        let mut growths: Vec<Growth<'_>> = Vec::new();
        let mut even = true;
        for (depth, &frame) in around.iter().enumerate() {
            let (loop_, kind) = self.frame(frame);
            let Some(slot) = kind.slot(place, at) else { continue };
            let growth = match slot.meaning() {
                Meaning::Inside(operation, port) => {
                    let from = kind.model.start + operation as usize;
                    let result = kind.slot(from, self.listing.operands(from).len() + port as usize);
                    result.map_or(&Strides::None, |s| &s.growth)
                }
                Meaning::Back(back) => {
                    if slot.growth == Strides::None
                        && let Some(own) = self.own(kind, back.from_end as usize, back.port as usize)
                    {
                        let before = ["prev "].repeat(back.turns.min(8) as usize).concat();
                        return Err(format!("{before}{}", self.called(own.0, own.1, &around[..=depth])));
                    }
                    &slot.growth
                }
                Meaning::Value(_) => &slot.growth,
            };
            match growth {
                Strides::Even(strides) => {
                    growths.push(Growth { variable: &loop_.variable, turn: kind.model.number, strides });
                }
                // The same value everywhere, or one block alone: it is called as in the graph.
                Strides::Unknown => {}
                Strides::None => even = false,
            }
        }
        if !even {
            growths.clear();
        }
        Ok(growths)
    }

    /// The result of the block that stands so many operations before its end.
    fn own(&self, kind: &Kind, from_end: usize, port: usize) -> Option<(usize, usize)> {
        let place = kind.model.end.checked_sub(from_end).filter(|&p| p >= kind.model.start)?;
        (port < self.listing.results(place)).then(|| (place, self.listing.operands(place).len() + port))
    }
}

/// Ascending numbers for people: `0..28` up to 27, `[0..5, 6..11]`, `[5, 11, 17]`; long lists are cut in
/// the middle.
pub(super) fn turns(numbers: &[i64]) -> String {
    /// Longer lists are cut.
    const SHOWN: usize = 12;
    const FIRST: usize = 8;
    let step = numbers.windows(2).map(|w| w[1] - w[0]).min().unwrap_or(1).max(1);
    let mut parts: Vec<(i64, i64)> = Vec::new();
    for &n in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + step == n => *last = n,
            _ => parts.push((n, n)),
        }
    }
    let by = if step == 1 { String::new() } else { format!(" step {step}") };
    let part = |&(from, to): &(i64, i64)| if from == to { from.to_string() } else { format!("{from}..{}{by}", to + 1) };
    let mut shown: Vec<String> = parts.iter().map(part).collect();
    if shown.len() > SHOWN {
        shown.splice(FIRST..shown.len() - 2, [String::from("…")]);
    }
    match parts.as_slice() {
        [(from, to)] if from != to => shown.concat(),
        _ => format!("[{}]", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::turns;

    #[test]
    fn turns_read_as_ranges() {
        assert_eq!(turns(&[0, 1, 2]), "0..3");
        assert_eq!(turns(&[7]), "[7]");
        assert_eq!(turns(&[0, 1, 3, 4, 9]), "[0..2, 3..5, 9]");
        assert_eq!(turns(&[5, 11, 17]), "5..18 step 6");
        assert_eq!(turns(&[0, 2, 4, 8]), "[0..5 step 2, 8]");
        let odd: Vec<i64> = (0..100).filter(|n| n % 3 != 0).collect();
        assert_eq!(turns(&odd), "[1..3, 4..6, 7..9, 10..12, 13..15, 16..18, 19..21, 22..24, …, 94..96, 97..99]");
    }
}
