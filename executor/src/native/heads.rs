//! What one thread does of attention and of what prepares it.

use super::call::{Append, Attend, Call, Grid, Heads, Rope, Source};
use super::memory::{Hand, Place};
use super::work::{Step, Working, read, read_all, share_rows};
use crate::cache::Part;
use crate::kernels::{AttentionCall, AttentionScratch, RopeLayout, turn_heads};
use std::sync::atomic::Ordering;

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
        let room = &mut scratch.row[..width];
        for row in share_rows(hand, out.own, Grid { rows, width }) {
            let range = row * width..(row + 1) * width;
            room.copy_from_slice(read(hand, x, range.clone()));
            self.turn(room, heads.width, None, Some(rope), row);
            hand.write(out, range).copy_from_slice(room);
        }
    }

    /// Normalises and turns the heads of a row.
    fn turn(&self, row: &mut [f32], width: usize, norm: Option<(&[f32], f32)>, rope: Option<Rope>, token: usize) {
        let (layout, (cos, sin)) = match rope {
            Some(rope) => (rope.layout, self.tables[rope.table].table.token(token)),
            None => (RopeLayout::HalfSplit, (&[][..], &[][..])),
        };
        turn_heads(row, width, norm, layout, cos, sin);
    }

    /// Normalises and turns queries, each thread its share; keys and values for the cache are the work of the first one.
    pub fn append(&self, call: &Call, hand: &Hand<'_>, append: &Append, scratch: &mut Working) {
        let Append { cache, k, v, widths: [k_width, v_width], rows, turn } = append;
        if let Some(turn) = turn {
            let heads = turn.q_heads;
            let width = heads.count * heads.width;
            let room = &mut scratch.row[..width];
            for row in share_rows(hand, turn.out.own, Grid { rows: *rows, width }) {
                let range = row * width..(row + 1) * width;
                room.copy_from_slice(read(hand, &turn.q, range.clone()));
                let norm = turn.norm.as_ref().map(|(q, _, eps)| (read_all(hand, q), *eps));
                self.turn(room, heads.width, norm, turn.rope, row);
                hand.write(turn.out, range).copy_from_slice(room);
            }
        }
        if hand.member.index != 0 {
            return;
        }
        let room = &mut scratch.row[..*k_width];
        for row in 0..*rows {
            room.copy_from_slice(read(hand, k, row * k_width..(row + 1) * k_width));
            if let Some(turn) = turn {
                let norm = turn.norm.as_ref().map(|(_, k, eps)| (read_all(hand, k), *eps));
                self.turn(room, turn.k_heads.width, norm, turn.rope, row);
            }
            let values = read(hand, v, row * v_width..(row + 1) * v_width);
            if !hand.write_cache(*cache, self.past + row, room, values) {
                return self.fail(call, "the cache holds no numbers");
            }
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
