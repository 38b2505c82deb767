//! Hostile graphs in every spelling, and hostile programs: a short run of the fuzz targets of `fuzz/`, the same on every machine.
//!
//! Seeds are the files under `fuzz/seeds/TARGET/`: those that [`seeds`] makes, which `TALLOW_BLESS=1` writes, and
//! inputs named `found-…` that once broke a promise. `TALLOW_FUZZ_ROUNDS` asks for more rounds than the few
//! thousand of every day.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod mutate;
mod seeds;
#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use mutate::{Mutator, Words};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use tallow_ir::OpInfo;

/// The most memory that the whole run may ever hold, in kilobytes: inputs are a few thousand bytes.
const MAX_RESIDENT: u64 = 400 << 10;
/// The most that it may ever ask for, stacks and arenas of threads included.
const MAX_ASKED: u64 = 6 << 20;

/// Every seed that is made is sound, and every operation stands in one of each target.
#[test]
fn seeds_hold_every_operation() {
    let made = seeds::all();
    let folder = seeds::folder();
    if std::env::var_os("TALLOW_BLESS").is_some_and(|v| v == "1") {
        for (target, name) in committed().into_keys().filter(|(_, name)| !name.starts_with("found-")) {
            std::fs::remove_file(folder.join(target).join(name)).unwrap();
        }
        for ((target, name), bytes) in &made {
            std::fs::create_dir_all(folder.join(target)).unwrap();
            std::fs::write(folder.join(target).join(name), bytes).unwrap();
        }
    }
    let found = committed();
    for target in ["binary", "hex", "text", "toml"] {
        let files = found.iter().filter(|((t, _), _)| t == target);
        let known: BTreeSet<_> = files.flat_map(|((_, name), bytes)| seeds::operations(name, bytes)).collect();
        let missing: Vec<_> = OpInfo::all().iter().map(|info| info.name).filter(|n| !known.contains(n)).collect();
        assert!(
            missing.is_empty(),
            "fuzz/seeds/{target} lacks {missing:?}; with golden cases of them in executor/tests/ops run \
             `TALLOW_BLESS=1 cargo test -p tallow-frontends --test fuzz seeds`"
        );
    }
}

/// The files under the folder of seeds, by target and name.
fn committed() -> seeds::Files {
    let list = |path: PathBuf| -> Vec<PathBuf> {
        let mut all: Vec<_> = std::fs::read_dir(path).into_iter().flatten().map(|e| e.unwrap().path()).collect();
        all.sort();
        all
    };
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut out = seeds::Files::new();
    for target in list(seeds::folder()) {
        for file in list(target.clone()) {
            out.insert((name(&target), name(&file)), std::fs::read(&file).unwrap());
        }
    }
    out
}

/// Runs a target on its seeds, on every cut and on single changed bytes of the small ones, and on random mutations.
fn run(name: &str, target: fn(&[u8]), words: Words) {
    let seeds: Vec<Vec<u8>> = committed().into_iter().filter(|((t, _), _)| t == name).map(|(_, bytes)| bytes).collect();
    assert!(seeds.len() > 3, "{name}: {} seeds", seeds.len());
    let check = |input: &[u8]| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
            let path = std::env::temp_dir().join(format!("tallow-fuzz-{name}"));
            let kept = std::fs::write(&path, input).map(|()| format!(", kept as {}", path.display()));
            let shown: String = String::from_utf8_lossy(input).chars().take(2000).collect();
            eprintln!("{name} fails for {shown:?}{}", kept.unwrap_or_default());
            resume_unwind(panic);
        }
    };
    let mut mutator = Mutator::new(words);
    for seed in &seeds {
        check(seed);
        // Every place of a small seed, hundreds of a large one.
        let stride = 1 + seed.len() / 250;
        for at in (0..seed.len()).step_by(stride) {
            check(&seed[..at]);
            let mut changed = seed.clone();
            changed[at] = mutator.byte(seed[at]);
            check(&changed);
        }
    }
    let rounds = std::env::var("TALLOW_FUZZ_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2000u64);
    for _ in 0..rounds {
        check(&mutator.mutate(&seeds));
    }
    memory(name);
}

/// Nothing asked for much memory, as far as this system tells.
fn memory(name: &str) {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return };
    for (key, limit) in [("VmHWM:", MAX_RESIDENT), ("VmPeak:", MAX_ASKED)] {
        let line = status.lines().find_map(|l| l.strip_prefix(key));
        let kilobytes: u64 = line.and_then(|l| l.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0);
        assert!(kilobytes < limit, "{name}: {key} {kilobytes} kB are over {limit}");
    }
}

#[test]
fn binary() {
    run("binary", targets::binary, Words::Bytes);
}

#[test]
fn hex() {
    run("hex", targets::hex, Words::Digits);
}

#[test]
fn text() {
    run("text", targets::text, Words::Text);
}

#[test]
fn toml() {
    run("toml", targets::toml, Words::Text);
}

#[test]
fn rs() {
    run("rs", targets::rs, Words::Program);
}

#[test]
fn programs() {
    run("programs", targets::programs, Words::Program);
}

#[test]
fn tri() {
    run("tri", targets::tri, Words::Program);
}

/// Graphs of many nodes that are wrong, or as awkward as they can be, in each way that grows with their number.
#[test]
fn large_graphs_end() {
    use tallow_ir::binary::{HintForm, Input, Interface, RawNode};
    use tallow_ir::{DType, Op, RawGraph};
    const N: usize = 600;
    let input = |name: String, dims: Vec<i64>| Input { name, dims, dtype: DType::F32, place: None };
    let node = |id: usize, op: Op, inputs: Vec<String>, outputs: Vec<String>| RawNode {
        id: id as u32,
        op,
        inputs,
        outputs,
        hint: None,
    };
    let name = |kind: &str, i: usize| format!("{kind}{i}");
    let graph = |inputs: Vec<Input>, nodes: Vec<RawNode>, outputs: Vec<String>| RawGraph {
        nodes,
        interface: Some(Interface { inputs, outputs }),
        hints: HintForm::Flagged,
    };
    let open = |n: usize, dims: usize| (0..n).map(|i| input(name("x", i), vec![-1; dims])).collect::<Vec<_>>();
    // A sum of all inputs, whose sizes must all be one; forwards, and from both ends.
    let chain = |order: &dyn Fn(usize) -> usize| {
        let nodes = (0..N).map(|i| {
            let first = if i == 0 { name("x", N) } else { name("y", i - 1) };
            node(i, Op::Add, vec![first, name("x", order(i))], vec![name("y", i)])
        });
        graph(open(N + 1, 8), nodes.collect(), vec![name("y", N - 1)])
    };
    // Sums that grow to the most terms, products of them, quotients of those.
    let grow = |dims: usize| {
        let nodes = (0..N).map(|i| {
            let first = if i == 0 { name("x", N) } else { name("y", i - 1) };
            let op = match i % 3 {
                0 => Op::Concat { axis: 0 },
                1 => Op::Kron,
                _ => Op::Add,
            };
            node(i, op, vec![first, name("x", i)], vec![name("y", i)])
        });
        graph(open(N + 1, dims), nodes.collect(), vec![name("y", N - 1)])
    };
    let all = |op: fn(usize) -> Op, reads: &dyn Fn(usize) -> Vec<String>, writes: &dyn Fn(usize) -> Vec<String>| {
        let nodes = (0..N).map(|i| node(i, op(i), reads(i), writes(i)));
        graph(open(1, 2), nodes.collect(), vec!["x0".into()])
    };
    let graphs = [
        chain(&|i| i),
        chain(&|i| if i % 2 == 0 { i / 2 } else { N - 1 - i / 2 }),
        grow(1),
        grow(2),
        grow(16),
        // A cycle, the same name each time, names that nothing binds, and many of one value.
        all(|_| Op::Neg, &|i| vec![name("y", i)], &|i| vec![name("y", (i + 1) % N)]),
        all(|_| Op::Neg, &|_| vec!["x0".into()], &|_| vec!["y".into()]),
        all(|_| Op::Neg, &|i| vec![name("absent", i)], &|i| vec![name("y", i)]),
        all(|_| Op::Concat { axis: 0 }, &|_| vec!["x0".into(); 100], &|i| vec![name("y", i)]),
        all(|_| Op::Split { axis: 0, sizes: vec![0; 100] }, &|_| vec!["x0".into()], &|i| {
            (0..100).map(|j| format!("y{i}.{j}")).collect()
        }),
        all(|_| Op::Chunk { axis: 0, chunks: u32::MAX }, &|_| vec!["x0".into()], &|i| vec![name("y", i)]),
        all(|_| Op::Reshape { shape: vec![1; 100] }, &|_| vec!["x0".into()], &|i| vec![name("y", i)]),
        // Names that the text form makes unique.
        all(|_| Op::Neg, &|_| vec!["x0".into()], &|i| vec![format!("y{}", ".1".repeat(i % 50))]),
    ];
    for raw in graphs {
        targets::raw_graph(&raw);
    }
    memory("large graphs");
}
