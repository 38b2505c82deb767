//! Speed of attention over caches of each kind, beside the speed of the arithmetic alone.
//!
//! `cargo bench -p tallow-executor --bench attention [-- FILTER]` prints, for prompts, the fused
//! multiplications and additions per second and their share of what the processor does with all
//! operands in registers, and for single tokens the time and the bytes of cache read per second. Each
//! is the best of many repetitions. The caches of single tokens rotate among as many as exceed the
//! processor's second-level cache.

#![allow(unsafe_code, reason = "calls of functions that are compiled for a found instruction set")]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::hint::black_box;
use std::time::{Duration, Instant};
use tallow_executor::kernels::{AttentionSpec, Isa, KvEncoding, KvLayout, KvStore, Team, attend};

/// Time given to one line of the report.
const TIME: Duration = Duration::from_millis(400);
/// Bytes of caches of single tokens.
const CACHES: usize = 24 << 20;

/// Heads, key heads, elements of a head, window.
const MODELS: [(&str, usize, usize, usize, Option<usize>); 3] = [
    ("14 x 64 on 2", 14, 2, 64, None),
    ("4 x 256 on 1", 4, 1, 256, None),
    ("4 x 256 on 1, window 512", 4, 1, 256, Some(512)),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    let teams = [Team::new(1)?, Team::new(2)?];
    for team in &teams {
        let peak = peak(team);
        println!("{} threads: {:.0} G multiply-adds per second in registers", team.threads(), peak / 1e9);
        for (name, heads, kv_heads, head_dim, window) in MODELS {
            let scale = 1.0 / (head_dim as f32).sqrt();
            let spec =
                AttentionSpec { heads, kv_heads, head_dim, causal: true, window, scale, softcap: None, reach: None };
            for encoding in [KvEncoding::F32, KvEncoding::F16, KvEncoding::Q8] {
                for (s, t) in [(512, 512), (512, 2048), (64, 64), (1, 128), (1, 2048)] {
                    let line = format!("{name}, {encoding:?}, S = {s}, T = {t}");
                    if line.contains(&filter) {
                        measure(&line, &spec, encoding, s, t, team, peak)?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Numbers between −1 and 1.
fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919) % 1009) as f32 / 504.5 - 1.0).collect()
}

fn measure(
    line: &str,
    spec: &AttentionSpec,
    encoding: KvEncoding,
    s: usize,
    t: usize,
    team: &Team,
    peak: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let width = spec.kv_heads * spec.head_dim;
    let rows = numbers(t * width);
    let filled = |layout| -> Result<KvStore, std::collections::TryReserveError> {
        let mut store = KvStore::new(encoding, layout, width);
        store.append(&rows)?;
        Ok(store)
    };
    let one = (filled(KvLayout::Lanes)?, filled(KvLayout::Rows)?);
    let bytes = one.0.bytes() + one.1.bytes();
    let copies = if s == 1 { CACHES.div_ceil(bytes) } else { 1 };
    let caches = vec![one; copies];
    let q = numbers(s * spec.heads * spec.head_dim);
    let mut out = vec![0.0; q.len()];
    let mut best = f64::INFINITY;
    let start = Instant::now();
    let mut next = 0;
    while start.elapsed() < TIME || next < 3 {
        for (k, v) in &caches {
            let begin = Instant::now();
            attend(spec, &q, s, k.view(), v.view(), None, &mut out, team)?;
            black_box(&mut out);
            best = best.min(begin.elapsed().as_secs_f64());
        }
        next += 1;
    }
    let seen: usize = (0..s).map(|row| (t - s + row + 1).min(spec.window.unwrap_or(t))).sum();
    let rate = (2 * seen * spec.heads * spec.head_dim) as f64 / best;
    if s == 1 {
        let read = bytes as f64 * seen as f64 / t as f64 / best / 1e9;
        println!("{line}, {} threads: {:8.1} µs, {read:5.1} GB/s", team.threads(), best * 1e6);
    } else {
        let share = 100.0 * rate / peak;
        println!("{line}, {} threads: {:8.3} ms, {:6.1} G/s, {share:4.1} %", team.threads(), best * 1e3, rate / 1e9);
    }
    Ok(())
}

/// Fused multiplications and additions per second of sums in registers; zero where this does not know
/// how to find out.
fn peak(team: &Team) -> f64 {
    const STEPS: usize = 400_000;
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let begin = Instant::now();
        team.run(&|_| {
            #[cfg(target_arch = "x86_64")]
            match Isa::detect() {
                Isa::Portable => {}
                // SAFETY: the instruction set was found.
                Isa::Avx2 => unsafe { sums_avx2(STEPS) },
                // SAFETY: as above.
                Isa::Avx512 | Isa::Amx => unsafe { sums_avx512(STEPS) },
            }
        });
        best = best.min(begin.elapsed().as_secs_f64());
    }
    let lanes = match Isa::detect() {
        Isa::Portable => 0,
        Isa::Avx2 => 8,
        Isa::Avx512 | Isa::Amx => 16,
    };
    (team.threads() * STEPS * SUMS * lanes) as f64 / best
}

/// Sums that grow together, enough to hide the latency of each.
const SUMS: usize = 12;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn sums_avx512(steps: usize) {
    let mut sums = [_mm512_set1_ps(1.0); SUMS];
    let by = black_box(_mm512_set1_ps(0.999));
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(*sum, by, by);
        }
    }
    black_box(sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn sums_avx2(steps: usize) {
    let mut sums = [_mm256_set1_ps(1.0); SUMS];
    let by = black_box(_mm256_set1_ps(0.999));
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(*sum, by, by);
        }
    }
    black_box(sums);
}
