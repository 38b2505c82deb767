//! Speed of the matrix products and of attention, beside the memory bandwidth of the same run.
//!
//! `cargo bench -p tallow-executor --bench kernels [-- FILTER]` prints, for each encoding, shape
//! and number of threads, the bytes of weights read per second and the multiply-adds per second,
//! each from the best of many repetitions. Matrices are repeated until they exceed the processor's
//! caches, so that decode figures (M = 1) are those of weights that come from memory.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tallow_executor::kernels::{AttentionSpec, KernelError, Team, WeightRows, attention, matmul, matmul_f32};
use tallow_format::Encoding;

/// Bytes of weights that one round passes over at least.
const ROUND: usize = 96 << 20;
/// Bytes of weights per measurement at least.
const STEP: usize = 16 << 20;
/// Time given to one line of the report.
const TIME: Duration = Duration::from_millis(250);

fn main() -> Result<(), KernelError> {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    let teams = [Team::new(1)?, Team::new(2)?];
    // Read in steps as large as those over the matrices, for the same chance of a quiet moment.
    let memory: Vec<u64> = vec![0x3b3a_1938_2b11_0a09; ROUND / 8];
    let step = STEP / 8;
    for team in &teams {
        let mut at = 0;
        let seconds = best(|| {
            let part = &memory[at..at + step];
            at = (at + step) % (memory.len() / step * step);
            let total = AtomicU64::new(0);
            team.run_chunks(step, 1 << 15, |range| {
                let sum = part[range].iter().fold(0_u64, |a, b| a.wrapping_add(*b));
                total.fetch_add(sum, Ordering::Relaxed);
            });
            black_box(total);
            Ok(())
        })?;
        let rate = STEP as f64 / seconds / 1e9;
        println!("memory read, {} threads: {rate:6.1} GB/s", team.threads());
    }
    drop(memory);

    println!("encoding    M       N     K  threads     GB/s   GMAC/s");
    for encoding in [Encoding::U32, Encoding::U16, Encoding::Ternary] {
        if !encoding.name().contains(&filter) {
            continue;
        }
        for (n, k) in [(896, 896), (896, 4864), (4864, 896), (151_936, 896)] {
            // K-quant rows are whole super-blocks.
            let k = if encoding.block_len() == 256 { k / 256 * 256 } else { k };
            for m in [1, 64] {
                if m > 1 && n > 100_000 {
                    continue;
                }
                for team in &teams {
                    encoded(encoding, m, n, k, team)?;
                }
            }
        }
    }
    if "f32".contains(&filter) {
        for team in &teams {
            computed(64, 896, 896, team)?;
        }
    }
    if "attention".contains(&filter) {
        for team in &teams {
            for (s, t) in [(1, 1024), (512, 512)] {
                attend(s, t, team)?;
            }
        }
    }
    Ok(())
}

/// Seconds of the fastest repetition.
fn best(mut f: impl FnMut() -> Result<(), KernelError>) -> Result<f64, KernelError> {
    let start = Instant::now();
    let mut best = f64::INFINITY;
    let mut count = 0;
    while count < 3 || start.elapsed() < TIME {
        let one = Instant::now();
        f()?;
        best = best.min(one.elapsed().as_secs_f64());
        count += 1;
    }
    Ok(best)
}

/// Numbers between −1 and 1.
fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919) % 1009) as f32 / 504.5 - 1.0).collect()
}

fn encoded(encoding: Encoding, m: usize, n: usize, k: usize, team: &Team) -> Result<(), KernelError> {
    let size = n * k / encoding.block_len() * encoding.block_bytes();
    let copies = if m == 1 { ROUND.div_ceil(size) } else { 1 };
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let bytes: Vec<u8> = (0..copies * size)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Leaves half-precision scales finite.
            (state >> 32) as u8 & 0x3b
        })
        .collect();
    let matrices =
        bytes.chunks_exact(size).map(|bytes| WeightRows::new(encoding, bytes, n, k)).collect::<Result<Vec<_>, _>>()?;
    let x = numbers(m * k);
    let mut y = vec![0.0; m * n];
    // A few matrices at a time, so that the best repetition is not the luckiest whole round.
    let step = STEP.div_ceil(size).min(copies);
    let mut next = 0;
    let seconds = best(|| {
        for _ in 0..step {
            matmul(&x, m, k, &matrices[next % copies], &mut y, team)?;
            next += 1;
        }
        black_box(&mut y);
        Ok(())
    })?;
    let bytes = (step * size) as f64 / seconds / 1e9;
    let products = (step * m * n * k) as f64 / seconds / 1e9;
    println!("{:8} {m:4} {n:7} {k:5} {:8} {bytes:8.1} {products:8.1}", encoding.name(), team.threads());
    Ok(())
}

fn computed(m: usize, n: usize, k: usize, team: &Team) -> Result<(), KernelError> {
    let (x, w) = (numbers(m * k), numbers(n * k));
    let mut y = vec![0.0; m * n];
    let seconds = best(|| {
        matmul_f32(&x, m, k, &w, n, &mut y, team)?;
        black_box(&mut y);
        Ok(())
    })?;
    let bytes = (n * k * 4) as f64 / seconds / 1e9;
    let products = (m * n * k) as f64 / seconds / 1e9;
    println!("{:8} {m:4} {n:7} {k:5} {:8} {bytes:8.1} {products:8.1}", "f32", team.threads());
    Ok(())
}

fn attend(s: usize, t: usize, team: &Team) -> Result<(), KernelError> {
    let spec = AttentionSpec {
        heads: 14,
        kv_heads: 2,
        head_dim: 64,
        causal: true,
        window: None,
        scale: 0.125,
        softcap: None,
        reach: None,
    };
    let q = numbers(s * 14 * 64);
    let k: Vec<half::f16> = numbers(t * 2 * 64).into_iter().map(half::f16::from_f32).collect();
    let mut out = vec![0.0; q.len()];
    let seconds = best(|| {
        attention(&spec, &q, s, &k, &k, None, &mut out, team)?;
        black_box(&mut out);
        Ok(())
    })?;
    println!(
        "attention f16, 14 heads of 64 on 2, S = {s}, T = {t}, {} threads: {:.3} ms",
        team.threads(),
        seconds * 1e3
    );
    Ok(())
}
