//! What the machine allows, measured: how fast a team reads memory, and how many multiply-adds of small integers it
//! does in a second. Decoding can be no faster than the first, a prompt no faster than the second.
#![allow(
    unsafe_code,
    reason = "instructions that the compiler must neither move nor leave out are written as assembly, behind a check that the machine has them"
)]

#[cfg(target_arch = "x86_64")]
use super::Isa;
use super::Team;
use super::cpu::multiversion;
use memmap2::MmapMut;
use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

/// Bytes that [`Memory`] reads: more than caches of most machines hold.
pub const BYTES: usize = 512 << 20;

/// Streams of addresses that a thread reads at a time; the best count is the rate.
const STREAMS: [usize; 4] = [1, 2, 4, 8];

/// Rounds of the arithmetic loop: some milliseconds on any machine.
const ROUNDS: usize = 1 << 18;

/// A cache line as words.
type Line = [u64; 8];

/// Memory to read, on huge pages where the system has them.
pub struct Memory {
    map: MmapMut,
}

impl Memory {
    /// Takes so many bytes (rounded up to whole lines) and writes each page once, with the threads that will read it.
    ///
    /// # Errors
    /// Those of the system, which may refuse so much memory.
    pub fn new(bytes: usize, team: &Team) -> std::io::Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(size_of::<Line>() * STREAMS[STREAMS.len() - 1] * team.threads());
        let mut map = MmapMut::map_anon(bytes)?;
        // Small pages are slower to read, and no error.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        let all = super::disjoint::Disjoint::new(&mut map[..]);
        team.run(&|thread| {
            // SAFETY: each thread has its own part.
            let part = unsafe { all.part(part(bytes, thread, team.threads())) };
            part.iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
        });
        Ok(Memory { map })
    }

    /// Bytes per second at which the team reads all of it once, each thread its part; the best of several ways.
    pub fn read_rate(&self, team: &Team) -> f64 {
        STREAMS.iter().map(|&streams| self.pass(team, streams)).fold(0.0, f64::max)
    }

    fn pass(&self, team: &Team, streams: usize) -> f64 {
        let bytes = &self.map[..];
        let start = Instant::now();
        team.run(&|thread| {
            let part = &bytes[part(bytes.len(), thread, team.threads())];
            // SAFETY: any eight bytes are a word; what is not aligned is left out.
            let (_, lines, _) = unsafe { part.align_to::<Line>() };
            black_box(match streams {
                1 => read::<1>(lines),
                2 => read::<2>(lines),
                4 => read::<4>(lines),
                _ => read::<8>(lines),
            });
        });
        bytes.len() as f64 / start.elapsed().as_secs_f64()
    }
}

/// The bytes of one of so many threads.
fn part(bytes: usize, thread: usize, threads: usize) -> Range<usize> {
    let each = bytes / threads;
    thread * each..(thread + 1) * each
}

/// Some function of every word of `lines`, read in so many streams.
fn read<const STREAMS: usize>(lines: &[Line]) -> u64 {
    let each = lines.len() / STREAMS;
    let streams: [&[Line]; STREAMS] = std::array::from_fn(|s| &lines[s * each..(s + 1) * each]);
    let mut sums = [[0u64; 8]; 4];
    xor_streams(&streams, each, &mut sums);
    sums.as_flattened().iter().fold(0, |a, b| a ^ b)
}

multiversion! {
    /// Words of the streams, one line of each in turn, into sums that do not wait for each other.
    fn xor_streams(streams: &[&[Line]], each: usize, sums: &mut [Line; 4]) {
        let mut own = *sums;
        for line in 0..each {
            for (s, stream) in streams.iter().enumerate() {
                if let Some(words) = stream.get(line) {
                    let sum = &mut own[s % 4];
                    for (sum, word) in sum.iter_mut().zip(words) {
                        *sum ^= word;
                    }
                }
            }
        }
        *sums = own;
    }
}

/// The instruction whose rate counts as the peak of integer arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dot {
    /// A plain loop over 16-bit integers, as the compiler makes it.
    Portable,
    /// AVX2 `vpmaddwd`: 16 products of 16-bit integers.
    Avx2,
    /// AVX-512 VNNI `vpdpbusd`: 64 products of bytes.
    Vnni,
}

impl Dot {
    /// The best one of this machine that the kernels may use.
    pub fn detect() -> Self {
        match Isa::detect() {
            Isa::Portable => Dot::Portable,
            Isa::Avx2 => Dot::Avx2,
            Isa::Avx512 | Isa::Amx => Dot::Vnni,
        }
    }

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Dot::Portable => "portable loop",
            Dot::Avx2 => "AVX2 vpmaddwd",
            Dot::Vnni => "AVX-512 VNNI vpdpbusd",
        }
    }
}

/// Multiply-adds per second of a team that does nothing else, from registers, with the instruction that
/// [`Dot::detect`] finds.
pub fn multiply_add_rate(team: &Team) -> f64 {
    let dot = Dot::detect();
    let start = Instant::now();
    team.run(&|_| spin(dot));
    (work(dot) * team.threads()) as f64 / start.elapsed().as_secs_f64()
}

/// Multiply-adds of [`spin`].
fn work(dot: Dot) -> usize {
    match dot {
        Dot::Portable => ROUNDS / 16 * LOOP,
        Dot::Avx2 => ROUNDS * 8 * 16,
        Dot::Vnni => ROUNDS * 16 * 64,
    }
}

/// Values of one round of the portable loop.
const LOOP: usize = 512;

/// The arithmetic of one thread.
fn spin(dot: Dot) {
    match dot {
        Dot::Portable => {
            let (a, b) = (black_box([3i16; LOOP]), black_box([-5i16; LOOP]));
            for _ in 0..ROUNDS / 16 {
                black_box(dot_loop(black_box(&a), black_box(&b)));
            }
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Dot::detect` found the instructions; tests ask only for those that are there.
        Dot::Avx2 => unsafe { spin_avx2() },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Dot::Vnni => unsafe { spin_vnni() },
        #[cfg(not(target_arch = "x86_64"))]
        Dot::Avx2 | Dot::Vnni => {}
    }
}

multiversion! {
    /// The sum of products.
    fn dot_loop(a: &[i16; LOOP], b: &[i16; LOOP]) -> i32 {
        a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn spin_avx2() {
    // SAFETY: registers alone, all named; the caller has AVX2.
    unsafe {
        std::arch::asm!(
            "2:",
            "vpmaddwd ymm8, ymm0, ymm0",
            "vpaddd ymm0, ymm0, ymm8",
            "vpmaddwd ymm9, ymm1, ymm1",
            "vpaddd ymm1, ymm1, ymm9",
            "vpmaddwd ymm10, ymm2, ymm2",
            "vpaddd ymm2, ymm2, ymm10",
            "vpmaddwd ymm11, ymm3, ymm3",
            "vpaddd ymm3, ymm3, ymm11",
            "vpmaddwd ymm12, ymm4, ymm4",
            "vpaddd ymm4, ymm4, ymm12",
            "vpmaddwd ymm13, ymm5, ymm5",
            "vpaddd ymm5, ymm5, ymm13",
            "vpmaddwd ymm14, ymm6, ymm6",
            "vpaddd ymm6, ymm6, ymm14",
            "vpmaddwd ymm15, ymm7, ymm7",
            "vpaddd ymm7, ymm7, ymm15",
            "dec {rounds}",
            "jnz 2b",
            rounds = inout(reg) ROUNDS => _,
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
            out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
            out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nomem, nostack),
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
fn spin_vnni() {
    // SAFETY: registers alone, all named; the caller has AVX-512 VNNI.
    unsafe {
        std::arch::asm!(
            "2:",
            "vpdpbusd zmm0, zmm16, zmm17",
            "vpdpbusd zmm1, zmm16, zmm17",
            "vpdpbusd zmm2, zmm16, zmm17",
            "vpdpbusd zmm3, zmm16, zmm17",
            "vpdpbusd zmm4, zmm16, zmm17",
            "vpdpbusd zmm5, zmm16, zmm17",
            "vpdpbusd zmm6, zmm16, zmm17",
            "vpdpbusd zmm7, zmm16, zmm17",
            "vpdpbusd zmm8, zmm16, zmm17",
            "vpdpbusd zmm9, zmm16, zmm17",
            "vpdpbusd zmm10, zmm16, zmm17",
            "vpdpbusd zmm11, zmm16, zmm17",
            "vpdpbusd zmm12, zmm16, zmm17",
            "vpdpbusd zmm13, zmm16, zmm17",
            "vpdpbusd zmm14, zmm16, zmm17",
            "vpdpbusd zmm15, zmm16, zmm17",
            "dec {rounds}",
            "jnz 2b",
            rounds = inout(reg) ROUNDS => _,
            out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _,
            out("zmm4") _, out("zmm5") _, out("zmm6") _, out("zmm7") _,
            out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
            out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _,
            out("zmm16") _, out("zmm17") _,
            options(nomem, nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_machine_reads_every_word_in_any_number_of_streams() {
        let words: Vec<Line> = (0..64).map(|i| std::array::from_fn(|j| (i * 8 + j as u64) * 0x9e37_79b9)).collect();
        let all = words.as_flattened().iter().fold(0, |a, b| a ^ b);
        assert_eq!([read::<1>(&words), read::<2>(&words), read::<4>(&words), read::<8>(&words)], [all; 4]);
    }

    #[test]
    fn kernels_machine_shares_memory_out_whole() {
        for threads in [1, 2, 3] {
            let team = Team::new(threads).unwrap();
            let memory = Memory::new(100_000, &team).unwrap();
            let bytes = memory.map.len();
            assert!(bytes >= 100_000 && bytes.is_multiple_of(threads * 512));
            let parts: Vec<_> = (0..threads).flat_map(|t| part(bytes, t, threads)).collect();
            assert_eq!(parts, (0..bytes).collect::<Vec<_>>());
            let rate = memory.read_rate(&team);
            assert!(rate.is_finite() && rate > 0.0);
        }
    }

    #[test]
    fn kernels_machine_runs_each_instruction_that_is_there() {
        let team = Team::new(2).unwrap();
        let found = Dot::detect();
        let known = match found {
            Dot::Portable => &[Dot::Portable][..],
            Dot::Avx2 => &[Dot::Portable, Dot::Avx2],
            Dot::Vnni => &[Dot::Portable, Dot::Avx2, Dot::Vnni],
        };
        known.iter().for_each(|&dot| spin(dot));
        assert_eq!(dot_loop(&[3; LOOP], &[-5; LOOP]), -15 * LOOP as i32);
        assert!(multiply_add_rate(&team) > 0.0);
    }
}
