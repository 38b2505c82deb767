//! Another sampling rate, by a windowed sinc (Smith and Gossett 1984) with a kernel for each phase between two input
//! samples.
//!
//! Written here and not taken from a library, since those choose their instructions, and with them the last bits of the
//! result, by the processor.

/// Zero crossings of the sinc on each side of a sample.
const ZEROS: f64 = 64.0;
/// What is kept, as a share of the band that both rates have.
const ROLL_OFF: f64 = 0.947_593_716_739_96;
/// The form of the Kaiser window.
const BETA: f64 = 14.769_656_459_379_492;
/// Products that are summed beside each other, in a fixed order.
const LANES: usize = 8;

/// The most values of all kernels together that are kept: 8 MiB. Rates with a small common divisor have more.
const MOST_KEPT: usize = 1 << 21;
/// Samples that are gathered where kernels are not kept, so that each is made once for many results.
const GATHERED: usize = 1 << 22;

/// Changes the rate of a sound that is given piece by piece. The result does not depend on the pieces.
#[derive(Clone, Debug)]
pub struct Resampler {
    /// The rates, to and from, over their common divisor.
    to: u64,
    from: u64,
    /// Samples of a kernel; half of them lie at or before the place of the result.
    width: usize,
    /// What both rates have, in periods of the input.
    band: f64,
    /// A kernel for each of the `to` phases; empty where they would be too many to be kept.
    kernels: Vec<f32>,
    /// Samples from the first that the next result needs.
    held: Vec<f32>,
    /// The number of the first of `held`, where samples before 0 are silence.
    first: i64,
    /// Samples given.
    given: u64,
    /// Samples made.
    made: u64,
}

impl Resampler {
    /// From samples of one rate to those of another, both above 0.
    pub fn new(from: u32, to: u32) -> Self {
        Self::keeping(from, to, MOST_KEPT)
    }

    /// The same with at most so many values of kernels kept.
    fn keeping(from: u32, to: u32, most: usize) -> Self {
        let divisor = gcd(from.max(1), to.max(1));
        let (from, to) = (u64::from(from.max(1) / divisor), u64::from(to.max(1) / divisor));
        let band = ROLL_OFF * (to as f64 / from as f64).min(1.0);
        let half = ((ZEROS / band).ceil() as usize).next_multiple_of(LANES / 2);
        let width = if from == to { 0 } else { 2 * half };
        let held = vec![0.0; (width / 2).saturating_sub(1)];
        let first = -(held.len() as i64);
        let mut made = Resampler { to, from, width, band, kernels: Vec::new(), held, first, given: 0, made: 0 };
        if usize::try_from(to).ok().and_then(|to| to.checked_mul(width)).is_some_and(|all| all <= most) {
            let mut kernels = Vec::with_capacity(width * to as usize);
            (0..to).for_each(|phase| made.kernel(phase, &mut kernels));
            made.kernels = kernels;
        }
        made
    }

    /// Appends the kernel of a phase.
    fn kernel(&self, phase: u64, out: &mut Vec<f32>) {
        let (at, half) = (phase as f64 / self.to as f64, self.width / 2);
        let (band, whole) = (self.band, bessel(BETA));
        out.extend((0..self.width).map(|i| kernel((i as f64 - (half - 1) as f64 - at) * band, band, whole)));
    }

    /// Takes more samples, and appends those that follow from them; some of them later.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        self.given += samples.len() as u64;
        if self.from == self.to {
            out.extend_from_slice(samples);
            return;
        }
        let mut rest = samples;
        while !rest.is_empty() {
            let most =
                if self.kernels.is_empty() { GATHERED.saturating_sub(self.held.len()).max(1) } else { rest.len() };
            let (taken, left) = rest.split_at(most.min(rest.len()));
            self.held.extend_from_slice(taken);
            rest = left;
            if !self.kernels.is_empty() || self.held.len() >= GATHERED {
                self.advance(u64::MAX, out);
            }
        }
    }

    /// Appends what is left, as if silence followed: in all as many samples as the duration has.
    pub fn finish(mut self, out: &mut Vec<f32>) {
        if self.from == self.to {
            return;
        }
        let total = (self.given * self.to).div_ceil(self.from);
        self.held.resize(self.held.len() + self.width, 0.0);
        self.advance(total, out);
    }

    /// Where in `held` the samples of a result begin, and its phase.
    fn window(&self, result: u64) -> (usize, u64) {
        let (place, phase) = (result * self.from / self.to, result * self.from % self.to);
        // From the first of `held` on, since no result needs samples before those of the next.
        ((place as i64 - (self.width / 2) as i64 + 1 - self.first) as usize, phase)
    }

    /// Makes samples up to `end` for which enough is held.
    fn advance(&mut self, end: u64, out: &mut Vec<f32>) {
        let begun = self.made;
        while self.made < end && self.window(self.made).0 + self.width <= self.held.len() {
            self.made += 1;
        }
        let base = out.len();
        out.resize(base + (self.made - begun) as usize, 0.0);
        let mut own = Vec::new();
        // Results that are `to` apart have the same phase, and all phases come before one comes again.
        for first in begun..self.made.min(begun + self.to) {
            let (_, phase) = self.window(first);
            let kernel = match self.kernels.get(phase as usize * self.width..(phase as usize + 1) * self.width) {
                Some(kernel) => kernel,
                None => {
                    own.clear();
                    self.kernel(phase, &mut own);
                    &own
                }
            };
            for result in (first..self.made).step_by(self.to as usize) {
                let (start, _) = self.window(result);
                out[base + (result - begun) as usize] = dot(&self.held[start..start + self.width], kernel);
            }
        }
        let passed = self.window(self.made).0.min(self.held.len());
        self.held.drain(..passed);
        self.first += passed as i64;
    }
}

/// The sinc at `x` zero crossings from its centre under its window, whose whole height is `bessel(BETA)`, for a band of this
/// share.
fn kernel(x: f64, band: f64, whole: f64) -> f32 {
    let place = x / ZEROS;
    if place.abs() >= 1.0 {
        return 0.0;
    }
    let turn = std::f64::consts::PI * x;
    let sinc = if x == 0.0 { 1.0 } else { turn.sin() / turn };
    let window = bessel(BETA * (1.0 - place * place).sqrt()) / whole;
    (band * sinc * window) as f32
}

/// The modified Bessel function of the first kind and order 0, by its series.
fn bessel(x: f64) -> f64 {
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while term > 1e-18 * sum {
        term *= (x / (2.0 * k)).powi(2);
        sum += term;
        k += 1.0;
    }
    sum
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; LANES];
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.iter().sum()
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    fn sine(hertz: f64, rate: u32, count: usize) -> Vec<f32> {
        (0..count).map(|i| (0.5 * (TAU * hertz * i as f64 / f64::from(rate)).sin()) as f32).collect()
    }

    fn resampled(samples: &[f32], from: u32, to: u32, piece: usize) -> Vec<f32> {
        let (mut resampler, mut out) = (Resampler::new(from, to), Vec::new());
        samples.chunks(piece).for_each(|piece| resampler.push(piece, &mut out));
        resampler.finish(&mut out);
        out
    }

    #[test]
    fn a_sine_stays_the_same_sine_at_every_rate() {
        for (from, to) in [(44_100, 16_000), (48_000, 16_000), (8_000, 16_000), (11_025, 16_000), (16_001, 16_000)] {
            let hertz = 1000.0;
            let made = resampled(&sine(hertz, from, from as usize / 2), from, to, 1000);
            assert_eq!(made.len(), (u64::from(from / 2) * u64::from(to)).div_ceil(from.into()) as usize, "{from}");
            let wanted = sine(hertz, to, made.len());
            // Away from both ends, where the sine begins and ends abruptly.
            let inner = 400..made.len() - 400;
            let worst = inner.map(|i| (made[i] - wanted[i]).abs()).fold(0f32, f32::max);
            assert!(worst < 1e-4, "{from} to {to}: {worst}");
        }
    }

    #[test]
    fn what_the_new_rate_cannot_hold_is_taken_away() {
        let made = resampled(&sine(11_000.0, 44_100, 22_050), 44_100, 16_000, 4096);
        let loudest = made[400..made.len() - 400].iter().fold(0f32, |m, v| m.max(v.abs()));
        assert!(loudest < 1e-4, "{loudest}");
    }

    #[test]
    fn pieces_change_nothing() {
        let sound: Vec<f32> = (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 1e7 - 0.8).collect();
        let whole = resampled(&sound, 44_100, 16_000, 5000);
        for piece in [1, 7, 441, 1000] {
            assert_eq!(resampled(&sound, 44_100, 16_000, piece), whole, "{piece}");
        }
        assert_eq!(resampled(&sound, 16_000, 16_000, 9), sound);
        assert_eq!(resampled(&[], 44_100, 16_000, 1), Vec::<f32>::new());
        assert_eq!(resampled(&[1.0], 44_100, 16_000, 1).len(), 1);
    }

    #[test]
    fn rates_without_a_common_divisor_keep_no_large_table_and_give_the_same_bits() {
        for (from, kept) in [(44_100, true), (48_000, true), (44_101, false), (383_987, false), (15_999, false)] {
            let resampler = Resampler::new(from, 16_000);
            assert_eq!(!resampler.kernels.is_empty(), kept, "{from}");
            assert!(resampler.kernels.len() <= MOST_KEPT, "{from}");
        }
        let sound = sine(440.0, 9_973, 9_000);
        let of = |most: usize, to: u32, piece: usize| {
            let (mut resampler, mut out) = (Resampler::keeping(9_973, to, most), Vec::new());
            assert_eq!(resampler.kernels.is_empty(), most == 0);
            sound.chunks(piece).for_each(|piece| resampler.push(piece, &mut out));
            resampler.finish(&mut out);
            out
        };
        for to in [499, 16_000] {
            let table = of(usize::MAX, to, 9_000);
            assert_eq!(of(0, to, 700), table, "{to}");
            assert_eq!(table.len(), (9_000 * u64::from(to)).div_ceil(9_973) as usize);
        }
    }
}
