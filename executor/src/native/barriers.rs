//! Where the threads of a step must meet: before an instruction that touches what another thread has touched since they
//! last met, if either wrote it.
//!
//! Two instructions that share out the same rows in the same way need no barrier for those: each thread finds its own.

use super::call::{Append, Attend, Call, Codes, Grid, Norm, Source, Work};
use super::memory::Place;
use super::races::{ATTENTION, BLOCK, CACHES, CODES};
use std::ops::Range;

/// What the threads together touch of one space.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Use {
    space: usize,
    range: Range<usize>,
    write: bool,
    /// How threads share it out; `None`: any thread any part.
    split: Option<Grid>,
}

impl Use {
    fn meets(&self, other: &Use) -> bool {
        let overlap = self.range.start < other.range.end && other.range.start < self.range.end;
        let parted = self.split.is_some() && self.split == other.split && self.range == other.range;
        self.space == other.space && overlap && (self.write || other.write) && !parted
    }
}

/// What an instruction touches of the memory that threads share.
#[derive(Default)]
struct Uses(Vec<Use>);

impl Uses {
    fn place(&mut self, place: Place, write: bool, split: Option<Grid>) {
        if !place.own && place.len > 0 {
            self.0.push(Use { space: BLOCK, range: place.at..place.at + place.len, write, split });
        }
    }

    fn source(&mut self, source: &Source, split: Option<Grid>) {
        if let Source::Place(place) = source {
            self.place(*place, false, split);
        }
    }

    fn other(&mut self, space: usize, range: Range<usize>, write: bool, split: Option<Grid>) {
        self.0.push(Use { space, range, write, split });
    }

    fn of(work: &Work) -> Uses {
        let mut uses = Uses::default();
        // Where every thread computes the result for itself, each reads all.
        let share = |out: &Place, grid: &Grid| (!out.own).then_some(*grid);
        // A single row is not shared out where it is needed whole.
        let rows = |out: &Place, grid: &Grid| (!out.own && grid.rows > 1).then_some(*grid);
        match work {
            Work::Embed { grid, out, .. } => uses.place(*out, true, rows(out, grid)),
            Work::Norm { x, skip, norm, grid, out } => {
                let split = rows(out, grid);
                uses.source(x, split);
                if let Some((skip, sum)) = skip {
                    uses.source(skip, split);
                    uses.place(*sum, true, split);
                }
                match norm {
                    Norm::Rms { gain, .. } => uses.source(gain, None),
                    Norm::Layer { gain, bias, .. } => {
                        uses.source(gain, None);
                        uses.source(bias, None);
                    }
                }
                uses.place(*out, true, split);
            }
            Work::Pair { a, b, repeated, grid, out, .. } => {
                let split = share(out, grid);
                uses.source(a, split);
                uses.source(b, split.filter(|g| *repeated == g.rows * g.width));
                uses.place(*out, true, split);
            }
            Work::Affine { x, grid, out, .. } | Work::Activate { x, grid, out, .. } | Work::Copy { x, grid, out } => {
                uses.source(x, share(out, grid));
                uses.place(*out, true, share(out, grid));
            }
            Work::Gate { gate, up, grid, out, .. } => {
                uses.source(gate, share(out, grid));
                uses.source(up, share(out, grid));
                uses.place(*out, true, share(out, grid));
            }
            Work::Prepare(p) => {
                let split = (p.grid.rows > 1).then_some(p.grid);
                uses.source(&p.x, split);
                if let Some((gain, _)) = &p.norm {
                    uses.source(gain, None);
                }
                if let Some(Codes::Shared(index)) = p.codes {
                    uses.other(CODES + index, 0..p.grid.rows, true, split);
                }
                if let Some(values) = p.values {
                    uses.place(values, true, split);
                }
            }
            Work::Product(p) => {
                if let Some(Codes::Shared(index)) = p.codes {
                    uses.other(CODES + index, 0..p.grid.rows, false, None);
                }
                if let Some(values) = &p.values {
                    uses.source(values, None);
                }
                for part in &p.parts {
                    if let Some(bias) = &part.bias {
                        uses.source(bias, None);
                    }
                    uses.place(part.out, true, None);
                }
            }
            Work::Rope { x, heads, rows: tokens, out, .. } => {
                let split = rows(out, &Grid { rows: *tokens, width: heads.count * heads.width });
                uses.source(x, split);
                uses.place(*out, true, split);
            }
            Work::Append(append) => uses.append(append),
            Work::Attend(Attend { q, cache, out, .. }) => {
                uses.place(*q, false, None);
                uses.other(CACHES, *cache..cache + 1, false, None);
                uses.place(*out, true, None);
                // What threads leave for each other.
                uses.other(ATTENTION, 0..1, true, None);
            }
        }
        uses
    }

    fn append(&mut self, append: &Append) {
        self.source(&append.k, None);
        self.source(&append.v, None);
        self.other(CACHES, append.cache..append.cache + 1, true, None);
        if let Some(turn) = &append.turn {
            let heads = turn.q_heads;
            let split = Grid { rows: append.rows, width: heads.count * heads.width };
            let split = (!turn.out.own && split.rows > 1).then_some(split);
            self.source(&turn.q, split);
            self.place(turn.out, true, split);
            if let Some((q_gain, k_gain, _)) = &turn.norm {
                self.source(q_gain, None);
                self.source(k_gain, None);
            }
        }
    }
}

/// Sets [`Call::wait`] in a list that one call of the team runs. At most quadratic in the instructions between two
/// barriers, which are few.
pub(super) fn place(calls: &mut [Call]) {
    let mut since: Vec<Use> = Vec::new();
    for call in calls {
        let Uses(uses) = Uses::of(&call.work);
        call.wait = uses.iter().any(|a| since.iter().any(|b| a.meets(b)));
        if call.wait {
            since.clear();
        }
        since.extend(uses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::activation::Activation;

    fn place_at(at: usize, len: usize, own: bool) -> Place {
        Place { own, at, len }
    }

    fn relu(from: Place, to: Place, rows: usize) -> Work {
        let grid = Grid { rows, width: to.len / rows };
        Work::Activate { kind: Activation::Relu, x: Source::Place(from), grid, out: to }
    }

    fn waits(works: Vec<Work>) -> Vec<bool> {
        let mut calls: Vec<Call> = works.into_iter().map(|work| Call { step: 0, wait: false, work }).collect();
        place(&mut calls);
        calls.iter().map(|c| c.wait).collect()
    }

    #[test]
    fn threads_meet_where_rows_are_shared_out_otherwise() {
        let (a, b, c) = (place_at(0, 64, false), place_at(64, 64, false), place_at(128, 64, false));
        // The same rows: no barrier, also in place.
        assert_eq!(waits(vec![relu(a, b, 4), relu(b, b, 4), relu(b, c, 4)]), [false; 3]);
        // Other rows of the same memory; and writing what was read so.
        assert_eq!(waits(vec![relu(a, b, 4), relu(b, c, 8), relu(c, c, 8)]), [false, true, false]);
        assert_eq!(waits(vec![relu(a, b, 4), relu(c, a, 8)]), [false, true]);
        // Reading the same needs none, whoever reads.
        assert_eq!(waits(vec![relu(a, b, 4), relu(a, c, 8)]), [false, false]);
    }

    #[test]
    fn what_each_thread_has_for_itself_needs_no_barrier() {
        let (own, other, shared) = (place_at(0, 64, true), place_at(64, 64, true), place_at(0, 64, false));
        assert_eq!(waits(vec![relu(own, other, 1), relu(other, own, 1), relu(own, shared, 1)]), [false; 3]);
        // All threads read all of what they shared out.
        assert_eq!(waits(vec![relu(own, shared, 1), relu(shared, other, 1)]), [false, true]);
    }

    #[test]
    fn a_cache_is_read_after_it_was_written() {
        let (k, q, out) = (place_at(0, 64, false), place_at(64, 64, false), place_at(128, 64, false));
        let k = Source::Place(k);
        let append =
            |cache| Work::Append(Append { cache, k: k.clone(), v: k.clone(), widths: [16, 16], rows: 4, turn: None });
        let spec = crate::kernels::AttentionSpec {
            heads: 1,
            kv_heads: 1,
            head_dim: 16,
            causal: true,
            window: None,
            reach: None,
            scale: 1.0,
            softcap: None,
        };
        let attend = |cache| Work::Attend(Attend { spec, q, cache, rows: 4, out, counter: 0 });
        assert_eq!(waits(vec![append(0), attend(0), attend(1)]), [false, true, true]);
        assert_eq!(waits(vec![append(0), attend(1)]), [false, false]);
    }
}
