//! What one thread does of attention and of what prepares it.

use super::call::{Append, Attend, Call, Grid, Heads, Rope, RopeTable, Source, Turn};
use super::memory::{Hand, Place};
use super::work::{Step, Working, read, read_all, share_rows};
use crate::cache::Part;
use crate::kernels::{AttentionCall, AttentionScratch};
use crate::kernels::norm::rms_row;
use crate::kernels::rope::turn;
use std::ops::Range;
use std::sync::atomic::Ordering;

impl RopeTable {
    /// Turns a head of row `row`.
    fn turn(&self, rope: Rope, row: usize, head: &mut [f32]) {
        let pairs = row * self.frequencies.len()..(row + 1) * self.frequencies.len();
        turn(head, rope.layout, &self.cos[pairs.clone()], &self.sin[pairs]);
    }
}

impl Step<'_> {
    /// Rotary embedding of heads.
    #[allow(clippy::too_many_arguments)]
    pub fn rope(
        &self,
        hand: &Hand<'_>,
        x: &Source,
        heads: Heads,
        rope: Rope,
        rows: usize,
        out: Place,
        scratch: &mut Working,
    ) {
        let width = heads.count * heads.width;
        for row in share_rows(hand, out.own, Grid { rows, width }) {
            for head in heads_of(row, heads) {
                let room = &mut scratch.row[..heads.width];
                room.copy_from_slice(read(hand, x, head.clone()));
                self.tables[rope.table].turn(rope, row, room);
                hand.write(out, head).copy_from_slice(room);
            }
        }
    }

    /// Normalises and turns queries, each thread its share; keys and values for the cache are the work of the first one.
    pub fn append(&self, call: &Call, hand: &Hand<'_>, append: &Append, scratch: &mut Working) {
        let Append { cache, k, v, k_width, v_width, rows, turn } = append;
        if let Some(turn) = turn {
            let grid = Grid { rows: *rows, width: turn.q_heads.count * turn.q_heads.width };
            for row in share_rows(hand, turn.out.own, grid) {
                for head in heads_of(row, turn.q_heads) {
                    let room = &mut scratch.row[..turn.q_heads.width];
                    let gain = turn.norm.as_ref().map(|(q, _, eps)| (q, *eps));
                    self.turn_head(hand, turn, &turn.q, head.clone(), row, gain, room);
                    hand.write(turn.out, head).copy_from_slice(room);
                }
            }
        }
        if hand.member.index != 0 {
            return;
        }
        let cache = hand.cache_mut(*cache);
        let keys = &mut scratch.row[..rows * k_width];
        match turn {
            None => keys.copy_from_slice(read(hand, k, 0..rows * k_width)),
            Some(turn) => {
                for row in 0..*rows {
                    for head in heads_of(row, turn.k_heads) {
                        let gain = turn.norm.as_ref().map(|(_, k, eps)| (k, *eps));
                        self.turn_head(hand, turn, k, head.clone(), row, gain, &mut keys[head]);
                    }
                }
            }
        }
        if let Err(cause) = cache.append_rows(Part::Key, keys, *k_width, self.tokens) {
            self.fail(call, cause);
        }
        let values = read(hand, v, 0..rows * v_width);
        if let Err(cause) = cache.append_rows(Part::Value, values, *v_width, self.tokens) {
            self.fail(call, cause);
        }
    }

    /// One head, normalised and turned.
    #[allow(clippy::too_many_arguments)]
    fn turn_head(
        &self,
        hand: &Hand<'_>,
        turn: &Turn,
        x: &Source,
        head: Range<usize>,
        row: usize,
        gain: Option<(&Source, f32)>,
        room: &mut [f32],
    ) {
        let values = read(hand, x, head);
        match gain {
            None => room.copy_from_slice(values),
            Some((gain, eps)) => rms_row(values, read_all(hand, gain), eps, room),
        }
        if let Some(rope) = turn.rope {
            self.tables[rope.table].turn(rope, row, room);
        }
    }

    /// Attention of queries over all rows of a cache: items, claimed one by one.
    pub fn attend(&self, call: &Call, hand: &Hand<'_>, attend: &Attend, scratch: &mut AttentionScratch) {
        let Attend { spec, q, cache, rows, out, counter } = attend;
        let cache = hand.cache(*cache);
        let (Some(k), Some(v)) = (cache.rows(Part::Key), cache.rows(Part::Value)) else {
            return self.fail(call, "the cache holds no numbers");
        };
        let queries = hand.read(*q, 0..q.len);
        let items = match AttentionCall::new(spec, queries, *rows, k, v, None, hand.member.count) {
            Ok(items) => items,
            Err(e) => return self.fail(call, e),
        };
        loop {
            let item = self.counters[*counter].fetch_add(1, Ordering::Relaxed);
            if item >= items.items() {
                return;
            }
            hand.attend(*out, &items, item, scratch, self.attention);
        }
    }
}

/// The elements of each head of a row.
fn heads_of(row: usize, heads: Heads) -> impl Iterator<Item = Range<usize>> {
    let first = row * heads.count;
    (first..first + heads.count).map(move |head| head * heads.width..(head + 1) * heads.width)
}
