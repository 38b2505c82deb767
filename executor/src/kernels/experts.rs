//! Products of rows with the matrices of their experts: rows of one expert are multiplied together, and experts without
//! rows cost nothing.

mod feed_forward;

pub use feed_forward::{ExpertMatrices, Inner, feed_forward_packed};

use super::disjoint::Disjoint;
use super::matmul::{ExactRows, exact_part};
use super::packed::{PANEL, Packed, Quantized, QuantizedRows, Scratch, Target, product};
use super::{Isa, KernelError, Team, check_len, room};
use std::cell::RefCell;
use std::ops::Range;

/// Places of a result `[places, n]`, sorted by their experts.
#[derive(Debug)]
pub struct Grouped {
    /// The places, those of one expert together and in ascending order.
    places: Vec<usize>,
    /// For each expert that has some: its number, and which of `places` are its own.
    groups: Vec<Group>,
}

#[derive(Clone, Debug)]
struct Group {
    expert: usize,
    range: Range<usize>,
}

impl Grouped {
    /// Sorts places by the experts that they name, each below `experts`.
    ///
    /// # Errors
    /// [`KernelError::RowOutOfRange`] for an expert that there is not.
    pub fn new(expert_of: &[u32], experts: usize) -> Result<Self, KernelError> {
        let mut ends = vec![0usize; experts];
        for &expert in expert_of {
            match ends.get_mut(expert as usize) {
                Some(count) => *count += 1,
                None => return Err(KernelError::RowOutOfRange { row: expert.into(), rows: experts }),
            }
        }
        let (mut groups, mut start) = (Vec::new(), 0);
        for (expert, end) in ends.iter_mut().enumerate() {
            let range = start..start + *end;
            start = range.end;
            // From here on where the next place of the expert goes.
            *end = range.start;
            if !range.is_empty() {
                groups.push(Group { expert, range });
            }
        }
        let mut places = vec![0; expert_of.len()];
        for (place, &expert) in expert_of.iter().enumerate() {
            let next = &mut ends[expert as usize];
            places[*next] = place;
            *next += 1;
        }
        Ok(Self { places, groups })
    }
}

/// The rows that are multiplied: one for each place, or one for so many places in a row.
#[derive(Clone, Copy, Debug)]
pub struct ExpertRows<'a> {
    /// `[places / shared_by, k]`.
    pub x: &'a [f32],
    /// Values per row.
    pub k: usize,
    /// Places that share a row.
    pub shared_by: usize,
}

impl<'a> ExpertRows<'a> {
    fn row(&self, place: usize) -> &'a [f32] {
        &self.x[place / self.shared_by * self.k..][..self.k]
    }

    fn check(&self, grouped: &Grouped, n: usize, y: &[f32]) -> Result<(), KernelError> {
        let places = grouped.places.len();
        check_len("input of a product", self.x.len(), places.div_ceil(self.shared_by.max(1)).checked_mul(self.k))?;
        check_len("output of a product", y.len(), places.checked_mul(n))
    }
}

/// `y[place] = row(place) · W[expert]ᵀ` with `y` `[places, n]` and packed matrices `w`, `n` rows for each expert one after
/// another. An output has the bits that a product of its row alone has.
///
/// # Errors
/// [`KernelError::Length`], and [`KernelError::RowNotWholeBlocks`].
pub fn experts_packed(
    rows: ExpertRows<'_>,
    grouped: &Grouped,
    w: &Packed<'_>,
    n: usize,
    y: &mut [f32],
    team: &Team,
) -> Result<(), KernelError> {
    rows.check(grouped, n, y)?;
    check_len("row of the weight matrix", w.k(), Some(rows.k))?;
    if let Some(group) = grouped.groups.iter().find(|g| (g.expert + 1) * n > w.rows()) {
        return Err(KernelError::RowOutOfRange { row: group.expert as u64, rows: w.rows() / n.max(1) });
    }
    let quantized = quantize(rows, grouped, team)?;
    // Panels that hold rows of an expert; the first and last ones may hold rows of its neighbours as well.
    let panels = |expert: usize| expert * n / PANEL..((expert + 1) * n).div_ceil(PANEL);
    let items = items(grouped, |expert| panels(expert).len(), team);
    let (isa, out) = (Isa::detect(), Disjoint::new(y));
    team.run_chunks(items.len(), 1, |range| {
        for item in &items[range] {
            let group = &grouped.groups[item.group];
            let first = panels(group.expert).start;
            let part = first + item.part.start..first + item.part.end;
            let columns = part.start * PANEL..part.end * PANEL;
            let own = group.expert * n..(group.expert + 1) * n;
            let make = |target: Target<'_>, scratch: &mut Scratch| {
                product(isa, &quantized[item.group], w, part.clone(), target, scratch);
            };
            place(grouped, group, columns, own, &out, make);
        }
    });
    Ok(())
}

/// [`experts_packed`] with matrices of exact values, one for each expert.
///
/// # Errors
/// [`KernelError::Length`].
pub fn experts_exact(
    rows: ExpertRows<'_>,
    grouped: &Grouped,
    matrices: &[ExactRows<'_>],
    n: usize,
    y: &mut [f32],
    team: &Team,
) -> Result<(), KernelError> {
    rows.check(grouped, n, y)?;
    for group in &grouped.groups {
        let found = matrices.get(group.expert).map(|m| (m.len(), m.k()));
        if found != Some((n, rows.k)) {
            return Err(KernelError::RowOutOfRange { row: group.expert as u64, rows: matrices.len() });
        }
    }
    if rows.k == 0 {
        y.fill(0.0);
        return Ok(());
    }
    let gathered: Vec<f32> = grouped.places.iter().flat_map(|&place| rows.row(place)).copied().collect();
    let items = items(grouped, |_| n.div_ceil(PANEL), team);
    let out = Disjoint::new(y);
    team.run_chunks(items.len(), 1, |range| {
        for item in &items[range] {
            let group = &grouped.groups[item.group];
            let x = &gathered[group.range.start * rows.k..group.range.end * rows.k];
            let part = item.part.start * PANEL..(item.part.end * PANEL).min(n);
            let make = |target: Target<'_>, _: &mut Scratch| {
                exact_part(x, &matrices[group.expert], part.clone(), target);
            };
            place(grouped, group, part.clone(), 0..n, &out, make);
        }
    });
    Ok(())
}

/// Lets `make` compute `columns` of the products of a group's rows, and copies those that lie in `own`, the columns of its
/// expert, to their places in `y` (`[places, n]`). No other thread has the same columns of the same group.
#[allow(unsafe_code, reason = "threads write disjoint parts of rows")]
fn place(
    grouped: &Grouped,
    group: &Group,
    columns: Range<usize>,
    own: Range<usize>,
    y: &Disjoint<'_, f32>,
    make: impl FnOnce(Target<'_>, &mut Scratch),
) {
    let (width, n) = (columns.len(), own.len());
    SCRATCH.with_borrow_mut(|(scratch, made)| {
        room::grow(made, group.range.len() * width, 0.0);
        let made = &mut made[..group.range.len() * width];
        make(Target::from_column(&Disjoint::new(made), width, columns.start), scratch);
        let kept = columns.start.max(own.start)..columns.end.min(own.end);
        for (&place, row) in grouped.places[group.range.clone()].iter().zip(made.chunks_exact(width)) {
            let at = place * n + kept.start - own.start;
            // SAFETY: every place is in one group, and every column of it in one item.
            let to = unsafe { y.part(at..at + kept.len()) };
            to.copy_from_slice(&row[kept.start - columns.start..][..kept.len()]);
        }
    });
}

thread_local! {
    /// Of products, and for what they make.
    static SCRATCH: RefCell<(Scratch, Vec<f32>)> = RefCell::default();
}

/// The part of a product that a thread takes at a time.
#[derive(Debug)]
struct Item {
    group: usize,
    /// Panels of the expert's matrix.
    part: Range<usize>,
}

/// Cuts the products of all groups into parts, some for each thread: what a thread takes of one matrix is a few panels at
/// least.
fn items(grouped: &Grouped, panels: impl Fn(usize) -> usize, team: &Team) -> Vec<Item> {
    let total: usize = grouped.groups.iter().map(|g| panels(g.expert)).sum();
    let step = match team.threads() {
        1 => usize::MAX,
        threads => total.div_ceil(threads * 16).max(1).next_multiple_of(4),
    };
    let mut items = Vec::new();
    for (number, group) in grouped.groups.iter().enumerate() {
        let all = panels(group.expert);
        let mut start = 0;
        while start < all {
            let end = all.min(start.saturating_add(step));
            items.push(Item { group: number, part: start..end });
            start = end;
        }
    }
    items
}

/// The rows of each group, quantised.
#[allow(unsafe_code, reason = "threads write disjoint rows")]
fn quantize(rows: ExpertRows<'_>, grouped: &Grouped, team: &Team) -> Result<Vec<Quantized>, KernelError> {
    let mut made: Vec<Quantized> = Vec::with_capacity(grouped.groups.len());
    for group in &grouped.groups {
        let mut one = Quantized::default();
        one.resize(group.range.len(), rows.k)?;
        made.push(one);
    }
    let targets: Vec<QuantizedRows<'_>> = made.iter_mut().map(Quantized::rows).collect();
    let mut group_of = vec![0; grouped.places.len()];
    for (number, group) in grouped.groups.iter().enumerate() {
        group_of[group.range.clone()].fill(number);
    }
    team.run_chunks(grouped.places.len(), (8192 / rows.k.max(1)).max(1), |range| {
        for at in range {
            let group = group_of[at];
            // SAFETY: every place is in one range only, and has a row of its own.
            unsafe { targets[group].quantize(at - grouped.groups[group].range.start, rows.row(grouped.places[at])) };
        }
    });
    drop(targets);
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::activation::{Activation, gate_in_place};
    use crate::kernels::packed::{matmul_packed, pack};
    use crate::kernels::{WeightRows, matmul};
    use tallow_format::Encoding;

    /// Values between -1 and 1, each different.
    fn some(count: usize, salt: usize) -> Vec<f32> {
        (0..count).map(|i| (((i + salt) * 7919) % 2003) as f32 / 1001.5 - 1.0).collect()
    }

    /// Bytes that begin at a multiple of 64.
    fn aligned(len: usize) -> (Vec<u8>, usize) {
        let bytes = vec![0u8; len + 64];
        let skip = bytes.as_ptr().align_offset(64);
        (bytes, skip)
    }

    /// Experts of 9 tokens that choose two of five each, one by all and one by none.
    const CHOICES: [u32; 18] = [3, 0, 3, 1, 3, 0, 4, 3, 0, 3, 3, 1, 1, 3, 3, 4, 0, 3];
    const EXPERTS: usize = 5;

    #[test]
    fn places_are_sorted_by_expert() {
        let grouped = Grouped::new(&CHOICES, EXPERTS).unwrap();
        let experts: Vec<_> = grouped.groups.iter().map(|g| (g.expert, g.range.len())).collect();
        assert_eq!(experts, [(0, 4), (1, 3), (3, 9), (4, 2)]);
        assert_eq!(grouped.places[..7], [1, 5, 8, 16, 3, 11, 12]);
        assert!(Grouped::new(&[0, 5], EXPERTS).is_err());
    }

    #[test]
    fn each_place_has_the_bits_of_a_product_on_its_own() {
        // Rows of experts that fill panels, and ones that share them with their neighbours.
        for (n, k) in [(32, 64), (24, 32), (5, 32)] {
            for encoding in [Encoding::Q8, Encoding::Q4, Encoding::U32] {
                let mut bytes = Vec::new();
                encoding.encode(&some(EXPERTS * n * k, 3), &mut bytes).unwrap();
                let each = bytes.len() / EXPERTS;
                let of = |e: usize| WeightRows::new(encoding, &bytes[e * each..(e + 1) * each], n, k).unwrap();
                let all = WeightRows::new(encoding, &bytes, EXPERTS * n, k).unwrap();
                for (shared_by, threads) in [(2, 1), (1, 1), (2, 3), (1, 3)] {
                    let team = Team::new(threads).unwrap();
                    let x = some(CHOICES.len() / shared_by * k, 11);
                    let grouped = Grouped::new(&CHOICES, EXPERTS).unwrap();
                    let rows = ExpertRows { x: &x, k, shared_by };
                    let mut y = vec![0.0; CHOICES.len() * n];
                    if Packed::packs(encoding) {
                        let (mut memory, skip) = aligned(Packed::bytes(encoding, EXPERTS * n, k).unwrap());
                        let end = memory.len() - 64 + skip;
                        pack(&all, &mut memory[skip..end], &team).unwrap();
                        let w = Packed::new(encoding, EXPERTS * n, k, &memory[skip..end]).unwrap();
                        experts_packed(rows, &grouped, &w, n, &mut y, &team).unwrap();
                    } else {
                        let weights: Vec<_> = (0..EXPERTS).map(of).collect();
                        let matrices: Vec<_> = weights.iter().map(|w| ExactRows::of_weights(w).unwrap()).collect();
                        experts_exact(rows, &grouped, &matrices, n, &mut y, &team).unwrap();
                    }
                    for (place, &expert) in CHOICES.iter().enumerate() {
                        let mut alone = vec![0.0; n];
                        let row = rows.row(place);
                        if Packed::packs(encoding) {
                            let (mut memory, skip) = aligned(Packed::bytes(encoding, n, k).unwrap());
                            let end = memory.len() - 64 + skip;
                            pack(&of(expert as usize), &mut memory[skip..end], &team).unwrap();
                            let w = Packed::new(encoding, n, k, &memory[skip..end]).unwrap();
                            let mut q = Quantized::default();
                            q.quantize(row, 1, k, &team).unwrap();
                            matmul_packed(&q, &w, &mut alone, &team).unwrap();
                        } else {
                            matmul(row, 1, k, &of(expert as usize), &mut alone, &team).unwrap();
                        }
                        let got = &y[place * n..][..n];
                        assert_eq!(got, alone, "{encoding}, {n} rows of {k}, place {place}, {threads} threads");
                    }
                }
            }
        }
    }

    /// A packed matrix in memory of its own.
    struct Matrix {
        encoding: Encoding,
        rows: usize,
        k: usize,
        memory: Vec<u8>,
        skip: usize,
    }

    impl Matrix {
        fn new(encoding: Encoding, rows: usize, k: usize, salt: usize, team: &Team) -> Self {
            let mut bytes = Vec::new();
            encoding.encode(&some(rows * k, salt), &mut bytes).unwrap();
            let (mut memory, skip) = aligned(Packed::bytes(encoding, rows, k).unwrap());
            let end = memory.len() - 64 + skip;
            pack(&WeightRows::new(encoding, &bytes, rows, k).unwrap(), &mut memory[skip..end], team).unwrap();
            Self { encoding, rows, k, memory, skip }
        }

        fn packed(&self) -> Packed<'_> {
            let end = self.memory.len() - 64 + self.skip;
            Packed::new(self.encoding, self.rows, self.k, &self.memory[self.skip..end]).unwrap()
        }
    }

    #[test]
    fn a_feed_forward_has_the_bits_of_its_parts() {
        let (k, width, columns, experts, chosen) = (64, 32, 48, 7, 3);
        for tokens in [1, 2, 60] {
            let index: Vec<u32> = (0..tokens * chosen).map(|i| ((i * i + i / 5) % experts) as u32).collect();
            let grouped = Grouped::new(&index, experts).unwrap();
            let (x, weights) = (some(tokens * k, 5), some(tokens * chosen, 17));
            for (inner, back) in [(Encoding::Q8, Encoding::Q4), (Encoding::Q4, Encoding::Q8)] {
                for threads in [1, 3] {
                    let team = Team::new(threads).unwrap();
                    let matrix = |rows, k, salt| Matrix::new(inner, experts * rows, k, salt, &team);
                    let (gate, up, both) = (matrix(width, k, 1), matrix(width, k, 2), matrix(2 * width, k, 3));
                    let down = Matrix::new(back, experts * columns, width, 4, &team);
                    let product = |x: &[f32], k, shared_by, w: &Matrix| {
                        let n = w.rows / experts;
                        let mut y = vec![0.0; index.len() * n];
                        experts_packed(ExpertRows { x, k, shared_by }, &grouped, &w.packed(), n, &mut y, &team)
                            .unwrap();
                        y
                    };
                    for joined in [false, true] {
                        let (gates, ups) = if joined {
                            let both = product(&x, k, chosen, &both);
                            let half = |skip| both.chunks(width).skip(skip).step_by(2).flatten().copied().collect();
                            (half(0), half(1))
                        } else {
                            (product(&x, k, chosen, &gate), product(&x, k, chosen, &up))
                        };
                        let mut between: Vec<f32> = ups;
                        let gates: Vec<f32> = gates;
                        gate_in_place(Activation::Silu, &gates, &mut between);
                        let made = product(&between, width, 1, &down);
                        let mut want = Vec::new();
                        for s in 0..tokens {
                            want.extend((0..columns).map(|n| {
                                let term = |c: usize| made[(s * chosen + c) * columns + n] * weights[s * chosen + c];
                                (0..chosen).map(|c| f64::from(term(c))).sum::<f64>() as f32
                            }));
                        }
                        let inner = match joined {
                            false => Inner::Apart(gate.packed(), up.packed()),
                            true => Inner::Joined(both.packed()),
                        };
                        let all = ExpertMatrices { experts, inner, down: down.packed() };
                        let mut y = vec![0.0; tokens * columns];
                        feed_forward_packed(&x, &grouped, &weights, &all, Activation::Silu, &mut y, &team).unwrap();
                        assert_eq!(y, want, "{inner:?}, {tokens} tokens, {threads} threads, joined: {joined}");
                        let short =
                            feed_forward_packed(&x, &grouped, &weights[1..], &all, Activation::Silu, &mut y, &team);
                        assert!(short.is_err());
                        let fewer = ExpertMatrices { experts: experts + 1, ..all };
                        assert_eq!(fewer.widths(), None);
                    }
                }
            }
        }
    }
}
