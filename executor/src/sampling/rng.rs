//! The random numbers of sampling: xoshiro256++ seeded by splitmix64, both public-domain algorithms with published test values.

/// A generator with 256 bits of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Xoshiro256([u64; 4]);

impl Xoshiro256 {
    /// The generator of a seed: every seed gives a good state.
    pub(super) fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(std::array::from_fn(|_| splitmix64(&mut state)))
    }

    /// The next 64 bits.
    pub(super) fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }
}

/// One key from several numbers, which depends on every bit of each and on their order.
pub(crate) fn key(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |key, &part| {
        let mut state = key ^ part;
        splitmix64(&mut state)
    })
}

/// Number `i` of the sequence of splitmix64 that begins at `key`, without those before it.
pub(crate) fn at(key: u64, i: u64) -> u64 {
    let mut state = key.wrapping_add(i.wrapping_mul(GOLDEN));
    splitmix64(&mut state)
}

/// The step of splitmix64.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(GOLDEN);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published values of splitmix64 for seed 1234567, and of xoshiro256++ for the state 1, 2, 3, 4.
    #[test]
    fn published_values() {
        let mut state = 1_234_567;
        assert_eq!(splitmix64(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(splitmix64(&mut state), 3_203_168_211_198_807_973);
        assert_eq!(at(1_234_567, 0), 6_457_827_717_110_365_317);
        assert_eq!(at(1_234_567, 1), 3_203_168_211_198_807_973);
        let mut rng = Xoshiro256([1, 2, 3, 4]);
        assert_eq!(rng.next_u64(), 41_943_041);
        assert_eq!(rng.next_u64(), 58_720_359);
        assert_eq!(rng.next_u64(), 3_588_806_011_781_223);
    }
}
