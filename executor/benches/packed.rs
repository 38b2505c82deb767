//! Speed of products with packed matrices, by encoding and instruction set, beside the memory bandwidth of the same run.
//!
//! `cargo bench -p tallow-executor --bench packed [-- FILTER]`; `TALLOW_ISA` chooses the instruction set. Matrices are
//! repeated until they exceed the processor's caches.

use std::hint::black_box;
use std::time::{Duration, Instant};
use tallow_executor::kernels::packed::{Packed, Quantized, matmul_packed, pack};
use tallow_executor::kernels::{Isa, KernelError, Team, WeightRows};
use tallow_format::Encoding;

/// Time given to one line of the report.
const TIME: Duration = Duration::from_millis(400);

fn main() -> Result<(), KernelError> {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    let teams = [Team::new(1)?, Team::new(2)?];
    println!("{:?}", Isa::detect());
    let total = 640 << 20;
    let mut memory = memmap2::MmapMut::map_anon(total).map_err(|source| KernelError::Threads { threads: 0, source })?;
    #[cfg(target_os = "linux")]
    let _ = memory.advise(memmap2::Advice::HugePage);
    println!("encoding     M       N     K  threads     GB/s   GMAC/s   pack GB/s");
    for encoding in
        [Encoding::Q8, Encoding::Q4, Encoding::Q4K, Encoding::Q5K, Encoding::Q6K, Encoding::Q3K, Encoding::Q2K]
    {
        if !encoding.name().contains(&filter) {
            continue;
        }
        for (n, k) in [(896, 896), (896, 4864), (4864, 896), (151_936, 896)] {
            let k = if encoding.block_len() == 256 { k / 256 * 256 } else { k };
            let size = Packed::bytes(encoding, n, k)?;
            let copies = ((512 << 20) / size).max(1);
            let source: Vec<u8> =
                (0..n * (k / encoding.block_len()) * encoding.block_bytes()).map(|i| (i * 7) as u8 & 0x3f).collect();
            let w = WeightRows::new(encoding, &source, n, k)?;
            let begun = Instant::now();
            pack(&w, &mut memory[..size], &teams[1])?;
            let packing = size as f64 / begun.elapsed().as_secs_f64() / 1e9;
            let (first, rest) = memory.split_at_mut(size);
            for copy in rest[..(copies - 1) * size].chunks_exact_mut(size) {
                copy.copy_from_slice(first);
            }
            let matrices: Vec<Packed<'_>> = memory[..copies * size]
                .chunks_exact(size)
                .map(|m| Packed::new(encoding, n, k, m))
                .collect::<Result<_, _>>()?;
            for m in [1, 64, 512] {
                if m > 1 && n > 100_000 {
                    continue;
                }
                let x: Vec<f32> = (0..m * k).map(|i| ((i * 37) % 101) as f32 - 50.0).collect();
                let mut quantized = Quantized::default();
                let mut y = vec![0.0; m * n];
                for team in &teams {
                    quantized.quantize(&x, m, k, team)?;
                    let (mut best, mut at) = (f64::MAX, 0);
                    let begun = Instant::now();
                    while begun.elapsed() < TIME {
                        // A step is at least 32 MiB of weights.
                        let steps = if m == 1 { ((32 << 20) / size).max(1) } else { 1 };
                        let start = Instant::now();
                        for _ in 0..steps {
                            matmul_packed(&quantized, &matrices[at % copies], &mut y, team)?;
                            at += 1;
                        }
                        best = best.min(start.elapsed().as_secs_f64() / steps as f64);
                        black_box(&mut y);
                    }
                    println!(
                        "{:8} {m:5} {n:7} {k:5}  {:7} {:8.1} {:8.1} {packing:8.2}",
                        encoding.name(),
                        team.threads(),
                        size as f64 / best / 1e9,
                        (m * n * k) as f64 / best / 1e9,
                    );
                }
            }
        }
    }
    Ok(())
}
