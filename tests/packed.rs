//! Packed matrices kept for other runs: the same bits cold, warm and from memory, and pages that processes share.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{folder, ids, import, values};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tallow::{Model, ModelOptions, PackedCache, PackedReport, Rows};

fn open(path: &Path, packed: &Path, cache: PackedCache) -> Model {
    let mut options = ModelOptions::default();
    options.program.threads = 2;
    options.program.packed_cache = cache;
    let model = Model::open_with(path, &options).unwrap();
    model.set_packed_folder(packed);
    model
}

/// Logits of all rows, and what became of the matrices once their file is whole.
fn run(model: &Model, ids: &[u32]) -> (Vec<f32>, PackedReport) {
    model.program().pack().unwrap();
    let logits = values(&model.session().unwrap().logits(ids, Rows::All).unwrap());
    model.program().packed().finish();
    (logits, model.program().packed().report())
}

#[test]
fn logits_have_the_same_bits_cold_warm_from_memory_and_with_a_damaged_file() {
    let temporary = tempfile::tempdir().unwrap();
    let golden = folder("tests/goldens/llama-plain");
    let ids = ids(&golden.join("golden.safetensors"), "input_ids").unwrap();
    for encoding in ["q8", "q4"] {
        let into = temporary.path().join(encoding);
        std::fs::create_dir(&into).unwrap();
        let path = import(&golden, &into, encoding);
        // What changed a moment ago is not remembered.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let packed = into.join("packed");
        let (memory, report) = run(&open(&path, &packed, PackedCache::Off), &ids);
        assert!(report.matrices > 5 && report.packed == report.matrices && report.file.is_none(), "{report:?}");
        assert!(!packed.exists());
        let (cold, report) = run(&open(&path, &packed, PackedCache::On), &ids);
        assert_eq!((report.packed, report.mapped), (report.matrices, 0), "{report:?}");
        let (warm, report) = run(&open(&path, &packed, PackedCache::On), &ids);
        assert_eq!((report.packed, report.mapped), (0, report.matrices), "{report:?}");
        assert!(memory == cold && memory == warm, "{encoding}: the cache changes bits");
        let file = report.file.unwrap();
        let mut bytes = std::fs::read(&file).unwrap();
        let at = bytes.len() - 4096;
        bytes[at] ^= 1;
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, bytes).unwrap();
        let (damaged, report) = run(&open(&path, &packed, PackedCache::On), &ids);
        assert_eq!(report.warnings.len(), 1, "{report:?}");
        assert!(memory == damaged, "{encoding}: a damaged file changes bits");
        let (_, report) = run(&open(&path, &packed, PackedCache::On), &ids);
        assert_eq!((report.packed, report.mapped), (0, report.matrices), "{report:?}");
    }
}

#[test]
fn small_models_and_embedded_ones_are_kept_only_on_request() {
    let temporary = tempfile::tempdir().unwrap();
    let path = import(&folder("tests/goldens/llama-plain"), temporary.path(), "q8");
    let packed = temporary.path().join("packed");
    open(&path, &packed, PackedCache::Auto).program().pack().unwrap();
    let mut options = ModelOptions::default();
    options.program.packed_cache = PackedCache::On;
    let storyteller = Model::storyteller_with(&options).unwrap();
    storyteller.set_packed_folder(&packed);
    storyteller.program().pack().unwrap();
    storyteller.program().packed().finish();
    assert!(!packed.exists());
}

const CHILD: &str = "TALLOW_TEST_PACKED_CHILD";

/// What another process does for [`processes_share_packed_pages`]: it maps all matrices, says so, and waits.
#[test]
fn child() {
    let Some(given) = std::env::var_os(CHILD) else { return };
    let given = PathBuf::from(given);
    let model = open(&given, &given.with_extension("packed"), PackedCache::On);
    model.program().pack().unwrap();
    model.program().packed().finish();
    let report = model.program().packed().report();
    eprintln!(
        "packing {:.3} s, checking {:.3} s, writing {:?}",
        report.packing.as_secs_f64(),
        report.checking.as_secs_f64(),
        report.writing
    );
    println!("\nready {} {} {}", report.packed, report.mapped, report.bytes);
    std::io::stdout().flush().unwrap();
    // Until the other end is closed.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    model.program().pack().unwrap();
}

/// Two processes with all matrices of a model packed or mapped: how many each packed and mapped, and their bytes.
fn two(model: &Path) -> [(Child, [u64; 3]); 2] {
    [begin(model), begin(model)].map(ready)
}

fn begin(model: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(CHILD, model);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

fn ready(mut child: Child) -> (Child, [u64; 3]) {
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    let numbers = loop {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "the process ended early");
        if let Some(numbers) = line.trim().strip_prefix("ready ") {
            break numbers.split(' ').map(|n| n.parse().unwrap()).collect::<Vec<u64>>();
        }
    };
    // Read on, so that the process is not stopped by a pipe without a reader.
    std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    (child, numbers.try_into().unwrap())
}

/// The fields of a process's map of a packed file, in KiB.
fn smaps(child: &Child) -> impl Fn(&str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/smaps", child.id())).unwrap();
    let start = text
        .lines()
        .position(|l| l.ends_with(".tallowpack"))
        .unwrap_or_else(|| panic!("no packed file is mapped:\n{text}"));
    let lines: Vec<String> = text.lines().skip(start + 1).take(25).map(str::to_owned).collect();
    move |field| {
        let value = lines.iter().find_map(|l| l.strip_prefix(field)?.strip_prefix(':'));
        value.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
    }
}

/// `TALLOW_PACKED_MODEL=FILE.model cargo test --test packed processes -- --nocapture` shows the figures of a large model.
#[test]
fn processes_share_packed_pages() {
    if !cfg!(target_os = "linux") {
        println!("skipped: only Linux tells which pages processes share");
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let model = match std::env::var_os("TALLOW_PACKED_MODEL") {
        Some(path) => {
            let link = temporary.path().join("given.model");
            std::fs::hard_link(&path, &link).or_else(|_| std::fs::copy(&path, &link).map(|_| ())).unwrap();
            link
        }
        None => import(&folder("tests/goldens/llama-plain"), temporary.path(), "q8"),
    };
    std::thread::sleep(std::time::Duration::from_millis(100));
    let end = |(mut child, _): (Child, [u64; 3])| {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    };
    // Two that begin at once pack both, and write one file.
    two(&model).into_iter().for_each(end);
    let warm = two(&model);
    for (child, [packed, mapped, bytes]) in &warm {
        assert!(*packed == 0 && *mapped > 0, "packed {packed}, mapped {mapped}");
        let field = smaps(child);
        let shared = field("Shared_Clean") + field("Shared_Dirty");
        println!(
            "process {}: {bytes} packed bytes; KiB: Rss {}, Pss {}, shared {shared}, private {}, by huge pages {}",
            child.id(),
            field("Rss"),
            field("Pss"),
            field("Private_Clean") + field("Private_Dirty"),
            field("FilePmdMapped"),
        );
        assert!(shared * 1024 >= *bytes, "{shared} KiB of {bytes} bytes are shared");
        assert!(field("Pss") <= field("Rss") / 2 + 64, "each counts for half");
    }
    // One that ends takes nothing from the other, nor does the removal of the file.
    let [first, second] = warm;
    end(first);
    std::fs::remove_dir_all(model.with_extension("packed")).unwrap();
    end(second);
}
