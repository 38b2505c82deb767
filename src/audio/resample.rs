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

/// Changes the rate of a sound that is given piece by piece. The result does not depend on the pieces.
#[derive(Clone, Debug)]
pub struct Resampler {
    /// The rates, to and from, over their common divisor.
    to: u64,
    from: u64,
    /// Samples of a kernel; half of them lie at or before the place of the result.
    width: usize,
    /// A kernel for each of the `to` phases.
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
        let divisor = gcd(from.max(1), to.max(1));
        let (from, to) = (u64::from(from.max(1) / divisor), u64::from(to.max(1) / divisor));
        if from == to {
            let (kernels, held) = (Vec::new(), Vec::new());
            return Resampler { to, from, width: 0, kernels, held, first: 0, given: 0, made: 0 };
        }
        // The cut-off, in periods of the input.
        let band = ROLL_OFF * (to as f64 / from as f64).min(1.0);
        let half = ((ZEROS / band).ceil() as usize).next_multiple_of(LANES / 2);
        let width = 2 * half;
        let mut kernels = Vec::with_capacity(width * to as usize);
        for phase in 0..to {
            let at = phase as f64 / to as f64;
            kernels.extend((0..width).map(|i| kernel((i as f64 - (half - 1) as f64 - at) * band, band)));
        }
        let held = vec![0.0; half - 1];
        Resampler { to, from, width, kernels, held, first: 1 - half as i64, given: 0, made: 0 }
    }

    /// Takes more samples, and appends those that follow from them.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        self.given += samples.len() as u64;
        if self.from == self.to {
            out.extend_from_slice(samples);
            return;
        }
        self.held.extend_from_slice(samples);
        self.advance(u64::MAX, out);
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

    /// Makes samples up to `end` for which enough is held.
    fn advance(&mut self, end: u64, out: &mut Vec<f32>) {
        let half = (self.width / 2) as i64;
        let mut start = 0;
        while self.made < end {
            let (place, phase) = (self.made * self.from / self.to, (self.made * self.from % self.to) as usize);
            start = (place as i64 - half + 1 - self.first) as usize;
            let Some(window) = self.held.get(start..start + self.width) else { break };
            out.push(dot(window, &self.kernels[phase * self.width..][..self.width]));
            self.made += 1;
        }
        let passed = start.min(self.held.len());
        self.held.drain(..passed);
        self.first += passed as i64;
    }
}

/// The sinc at `x` zero crossings from its centre under its window, for a band of this share.
fn kernel(x: f64, band: f64) -> f32 {
    let place = x / ZEROS;
    if place.abs() >= 1.0 {
        return 0.0;
    }
    let turn = std::f64::consts::PI * x;
    let sinc = if x == 0.0 { 1.0 } else { turn.sin() / turn };
    let window = bessel(BETA * (1.0 - place * place).sqrt()) / bessel(BETA);
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
}
