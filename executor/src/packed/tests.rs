//! Cold and warm stores, and files of all kinds of damage.

use super::digest;
use super::folder::Folder;
use super::kernel::Packed;
use super::layout::PAGE;
use super::store::{Matrix, PackedReport, PackedStore};
use super::{PackedCache, kernel};
use crate::kernels::{Team, WeightRows};
use crate::weights::{WeightSource, WeightView};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tallow_format::{Encoding, FileIdentity};

/// Matrices of given sizes with bytes from a seed, as if from a file of this number.
struct Matrices {
    tensors: HashMap<String, (Encoding, Vec<u64>, Vec<u8>)>,
    inode: u64,
    reads: AtomicUsize,
    released: AtomicUsize,
}

impl WeightSource for Matrices {
    fn weight(&self, name: &str) -> Option<WeightView<'_>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let (encoding, shape, bytes) = self.tensors.get(name)?;
        Some(WeightView { shape, encoding: *encoding, bytes })
    }

    fn release(&self, _: &str) {
        self.released.fetch_add(1, Ordering::Relaxed);
    }

    fn identity(&self) -> Option<FileIdentity> {
        (self.inode > 0).then_some(FileIdentity {
            device: 1,
            inode: self.inode,
            len: 9,
            modified: 1_000_000_000,
            changed: 1_000_000_000,
        })
    }
}

const SIZES: [(Encoding, usize, usize); 5] = [
    (Encoding::Q8, 17, 64),
    (Encoding::Q4, 1, 32),
    (Encoding::Q6K, 48, 256),
    (Encoding::Q8, 2100, 1024),
    (Encoding::Q4K, 5, 512),
];

fn matrices() -> Vec<Matrix> {
    let matrix = |(i, &(encoding, rows, k)): (usize, &(Encoding, usize, usize))| Matrix {
        name: format!("layers.{i}.weight"),
        encoding,
        rows,
        k,
    };
    SIZES.iter().enumerate().map(matrix).collect()
}

fn source(seed: u64, inode: u64) -> Arc<Matrices> {
    let mut state = seed;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as u8
    };
    let tensors = matrices().into_iter().map(|m| {
        let len = m.rows * (m.k / m.encoding.block_len() * m.encoding.block_bytes());
        (m.name, (m.encoding, vec![m.rows as u64, m.k as u64], (0..len).map(|_| byte()).collect()))
    });
    Arc::new(Matrices { tensors: tensors.collect(), inode, reads: AtomicUsize::new(0), released: AtomicUsize::new(0) })
}

/// A store over `source` that keeps its file in `folder`.
fn store(source: &Arc<Matrices>, folder: Option<&Path>) -> PackedStore {
    let source: Arc<dyn WeightSource> = source.clone();
    let store = PackedStore::new(matrices(), source, PackedCache::On).unwrap();
    if let Some(folder) = folder {
        store.set_folder(folder.to_owned());
    }
    store
}

/// What packing gives, without a store.
fn expected(source: &Matrices) -> Vec<Vec<u8>> {
    let pack = |m: Matrix| {
        let (encoding, _, bytes) = &source.tensors[&m.name];
        let mut out = vec![0; Packed::bytes(*encoding, m.rows, m.k).unwrap()];
        let rows = WeightRows::new(*encoding, bytes, m.rows, m.k).unwrap();
        kernel::pack_panels(&rows, 0..kernel::panels(m.rows), &mut out);
        out
    };
    matrices().into_iter().map(pack).collect()
}

/// Asks for every matrix, compares, waits for the file, and tells what was done.
fn run(source: &Arc<Matrices>, folder: Option<&Path>) -> PackedReport {
    let store = store(source, folder);
    check(&store, source);
    store.finish();
    check(&store, source);
    store.report()
}

fn check(store: &PackedStore, source: &Matrices) {
    let team = Team::new(2).unwrap();
    for (i, want) in expected(source).iter().enumerate() {
        store.matrix(i, &team).unwrap();
        let packed = store.bytes(i).unwrap();
        assert_eq!(packed.as_ptr() as usize % PAGE, 0, "a matrix begins on a page");
        assert!(packed == want, "matrix {i} has other bytes");
    }
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder).into_iter().flatten().map(|e| e.unwrap().path());
    let mut all: Vec<_> = all.filter(|p| p.extension().is_some_and(|e| e == ending)).collect();
    all.sort();
    all
}

/// The one packed file of a folder.
fn file(folder: &Path) -> PathBuf {
    let files = files(folder, "tallowpack");
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[test]
fn cold_warm_and_memory_give_the_same_bytes() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("not/there/yet");
    let source = source(1, 1);
    let alone = run(&source, None);
    assert_eq!((alone.packed, alone.mapped, &alone.file), (5, 0, &None));
    assert_eq!(source.released.load(Ordering::Relaxed), 5, "each source is let go");
    let cold = run(&source, Some(&folder));
    assert_eq!((cold.packed, cold.mapped), (5, 0), "{cold:?}");
    assert!(cold.writing.is_some() && cold.file.as_deref() == Some(&*file(&folder)));
    let before = source.reads.load(Ordering::Relaxed);
    let warm = run(&source, Some(&folder));
    assert_eq!((warm.packed, warm.mapped, warm.writing), (0, 5, None), "{warm:?}");
    assert_eq!(source.reads.load(Ordering::Relaxed), before, "a warm run reads no source");
    for report in [&cold, &warm] {
        assert_eq!((report.matrices, &report.warnings, &report.notes), (5, &vec![], &vec![]), "{report:?}");
    }
    assert!(alone.warnings.len() == 1 && alone.warnings[0].contains("TALLOW_CACHE"), "{alone:?}");
    assert!(files(&folder, "tmp").is_empty(), "no temporary file is left");
    assert_eq!(files(&folder, "key").len(), 1);
}

#[test]
fn many_threads_get_one_packing() {
    let temp = tempfile::tempdir().unwrap();
    let source = source(2, 1);
    for _ in 0..3 {
        let store = store(&source, Some(temp.path()));
        let team = Team::new(2).unwrap();
        let want = expected(&source);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (store, team, want) = (&store, &team, &want);
                scope.spawn(move || {
                    for i in 0..want.len() {
                        let i = (i + thread) % want.len();
                        store.matrix(i, team).unwrap();
                        assert!(store.bytes(i).unwrap() == want[i]);
                    }
                });
            }
        });
        store.finish();
        let report = store.report();
        assert_eq!(report.packed + report.mapped, 5, "each once: {report:?}");
        assert_eq!(report.file.as_deref(), Some(&*file(temp.path())));
    }
}

#[test]
fn writers_that_meet_leave_one_whole_file() {
    let temp = tempfile::tempdir().unwrap();
    let source = source(3, 1);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| run(&source, Some(temp.path())));
        }
    });
    let report = run(&source, Some(temp.path()));
    assert_eq!((report.packed, report.mapped), (0, 5), "{report:?}");
    file(temp.path());
    assert_eq!(files(temp.path(), "tmp").len(), 0);
}

#[test]
fn any_changed_byte_is_found_at_first_use_and_the_file_made_again() {
    let temp = tempfile::tempdir().unwrap();
    let source = source(4, 1);
    run(&source, Some(temp.path()));
    let path = file(temp.path());
    let whole = std::fs::read(&path).unwrap();
    let slots = super::layout::Layout::new(matrices()).unwrap().slots;
    for (number, slot) in slots.iter().enumerate() {
        for at in [slot.offset, slot.offset + slot.len / 2, slot.offset + slot.len - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            replace(&path, &bytes);
            let report = run(&source, Some(temp.path()));
            // Those before were right, and those after are not looked for.
            assert_eq!((report.mapped, report.packed), (number, 5 - number), "{report:?}");
            let [warning] = report.warnings.as_slice() else { panic!("one warning: {report:?}") };
            assert!(
                warning.contains(&format!("layers.{number}.weight")) && warning.contains("made again"),
                "{warning}"
            );
            assert!(std::fs::read(&path).unwrap() == whole, "the file is as it was");
        }
    }
}

/// Replaces a file as another process would; maps of the old one stay.
fn replace(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    std::fs::write(&new, bytes).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[test]
fn files_with_another_head_or_length_are_made_again() {
    let temp = tempfile::tempdir().unwrap();
    let source = source(5, 1);
    run(&source, Some(temp.path()));
    let path = file(temp.path());
    let whole = std::fs::read(&path).unwrap();
    let layout = super::layout::Layout::new(matrices()).unwrap();
    let changed = |at: usize, by: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + by.len()].copy_from_slice(by);
        bytes
    };
    let mut longer = whole.clone();
    longer.push(0);
    let mut cases = vec![Vec::new(), vec![0; 7], whole[..PAGE].to_vec(), whole[..whole.len() - 1].to_vec(), longer];
    cases.push(vec![0; whole.len()]);
    // Versions, total, number of matrices, a length in the table, key, checksums.
    cases.push(changed(8, &7u32.to_le_bytes()));
    cases.push(changed(12, &99u32.to_le_bytes()));
    for at in [16, 24, 32, layout.prefix.len() - 8] {
        cases.push(changed(at, &u64::MAX.to_le_bytes()));
    }
    cases.push(changed(layout.prefix.len() + 5, &[whole[layout.prefix.len() + 5] ^ 1]));
    cases.push(changed(layout.prefix.len() + 33, &[whole[layout.prefix.len() + 33] ^ 1]));
    cases.push(changed(layout.head_len() - 1, &[whole[layout.head_len() - 1] ^ 1]));
    for (number, bytes) in cases.iter().enumerate() {
        replace(&path, bytes);
        let report = run(&source, Some(temp.path()));
        assert_eq!((report.mapped, report.packed), (0, 5), "case {number}: {report:?}");
        assert!(report.warnings.len() == 1 && report.warnings[0].contains("damaged"), "case {number}: {report:?}");
        assert!(std::fs::read(&path).unwrap() == whole, "case {number}: the file is as it was");
    }
}

#[test]
fn what_is_remembered_of_another_file_has_no_effect() {
    let temp = tempfile::tempdir().unwrap();
    let (one, other, copy) = (source(6, 1), source(7, 2), source(6, 3));
    run(&one, Some(temp.path()));
    let report = run(&other, Some(temp.path()));
    assert_eq!((report.mapped, report.packed), (0, 5));
    assert_eq!(files(temp.path(), "tallowpack").len(), 2);
    // A copy has the same content, which is known once it has been read.
    let first = run(&copy, Some(temp.path()));
    assert_eq!((first.packed, first.writing), (5, None), "{first:?}");
    assert_eq!(run(&copy, Some(temp.path())).mapped, 5);
    assert_eq!((files(temp.path(), "tallowpack").len(), files(temp.path(), "key").len()), (2, 3));
    // Keys of files that are there, under the name of another source with the same layout.
    let keys = files(temp.path(), "key");
    let known: Vec<Vec<u8>> = keys.iter().map(|key| std::fs::read(key).unwrap()).collect();
    let swapped = |by: usize| {
        keys.iter().zip(known.iter().cycle().skip(by)).for_each(|(path, text)| std::fs::write(path, text).unwrap());
    };
    for by in [1, 2] {
        for source in [&one, &other, &copy] {
            swapped(by);
            let report = run(source, Some(temp.path()));
            assert_eq!((report.packed, report.writing, report.warnings.len()), (5, None, 0), "{report:?}");
            assert_eq!(run(source, Some(temp.path())).mapped, 5);
        }
    }
    swapped(0);
    assert_eq!(run(&one, Some(temp.path())).mapped, 5);
    let one_changed = |at: usize| {
        let mut text = known[0].clone();
        text[at] = if text[at] == b'0' { b'1' } else { b'0' };
        text
    };
    let garbage = [&b""[..], b"abc\n", &[b'0'; 65], &[b'g'; 140], &[0xff; 130]].map(<[u8]>::to_vec);
    let old = format!("{}\n", "ab".repeat(32)).into_bytes();
    for bytes in garbage.into_iter().chain([old, one_changed(0), one_changed(63), one_changed(70), one_changed(128)]) {
        keys.iter().for_each(|key| std::fs::write(key, &bytes).unwrap());
        let report = run(&one, Some(temp.path()));
        assert_eq!((report.packed, report.warnings.len()), (5, 0), "{report:?}");
    }
    assert_eq!(files(temp.path(), "tallowpack").len(), 2, "no file for a key that is none");
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_not_waited_for() {
    let temp = tempfile::tempdir().unwrap();
    let source = source(11, 1);
    run(&source, Some(temp.path()));
    let pipe = |path: &Path| {
        std::fs::remove_file(path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let packed = file(temp.path());
    pipe(&packed);
    let report = run(&source, Some(temp.path()));
    assert!(report.packed == 5 && report.warnings[0].contains("it is no file"), "{report:?}");
    assert!(packed.is_file(), "a file takes its place");
    pipe(&files(temp.path(), "key")[0]);
    assert_eq!(run(&source, Some(temp.path())).packed, 5);
    assert_eq!(run(&source, Some(temp.path())).mapped, 5);
    // Nothing takes the place of a folder, which is told.
    std::fs::remove_file(&packed).unwrap();
    std::fs::create_dir(&packed).unwrap();
    let report = run(&source, Some(temp.path()));
    assert!(report.packed == 5 && report.file.is_none() && report.warnings[1].contains("not kept"), "{report:?}");
    assert_eq!(files(temp.path(), "tmp").len(), 0);
}

#[test]
fn a_source_that_changed_a_moment_ago_is_not_remembered() {
    let temp = tempfile::tempdir().unwrap();
    let folder = Folder::new(temp.path().to_owned());
    let layout = super::layout::Layout::new(matrices()).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i128;
    let identity = |changed| FileIdentity { device: 1, inode: 2, len: 3, modified: 4, changed };
    let key = [7; 32];
    folder.remember(&layout, &identity(now + 60_000_000_000), &key).unwrap();
    assert_eq!(folder.remembered(&layout, &identity(now + 60_000_000_000)), None);
    folder.remember(&layout, &identity(now - 60_000_000_000), &key).unwrap();
    assert_eq!(folder.remembered(&layout, &identity(now - 60_000_000_000)), Some(key));
    assert_eq!(folder.remembered(&layout, &identity(now - 60_000_000_001)), None);
    assert_eq!(digest::from_hex(&digest::hex(&key)), Some(key));
}

#[test]
fn a_folder_that_cannot_be_used_is_told_and_no_error() {
    let temp = tempfile::tempdir().unwrap();
    let source = source(8, 1);
    // A file stands where the folder should be: true also for a user who may write everywhere.
    let occupied = temp.path().join("file");
    std::fs::write(&occupied, "").unwrap();
    for folder in [occupied.clone(), occupied.join("inside")] {
        let report = run(&source, Some(&folder));
        assert_eq!((report.packed, &report.file, report.notes.len()), (5, &None, 0), "{report:?}");
        let [warning] = report.warnings.as_slice() else { panic!("one warning: {report:?}") };
        let folder = folder.to_str().unwrap();
        assert!(["not kept", folder, "TALLOW_CACHE"].iter().all(|part| warning.contains(part)), "{warning}");
    }
    #[cfg(target_os = "linux")]
    {
        // No file can be made here, whoever asks.
        let report = run(&source, Some(Path::new("/proc/self/packed")));
        assert!(report.warnings.len() == 1 && report.packed == 5, "{report:?}");
    }
}

#[test]
fn off_automatic_and_embedded_sources_write_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let source = source(9, 1);
    for choice in [PackedCache::Off, PackedCache::Auto] {
        let weights: Arc<dyn WeightSource> = source.clone();
        let store = PackedStore::new(matrices(), weights, choice).unwrap();
        store.set_folder(temp.path().join("packed"));
        store.pack_all(&Team::new(1).unwrap()).unwrap();
        check(&store, &source);
        drop(store);
    }
    let embedded = self::source(9, 0);
    let report = run(&embedded, Some(&temp.path().join("packed")));
    assert!(report.warnings[0].contains("no file"), "{report:?}");
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[test]
fn a_source_that_lost_a_matrix_is_an_error_that_names_it() {
    let mut lost = Arc::into_inner(source(10, 1)).unwrap();
    lost.tensors.remove("layers.2.weight");
    lost.tensors.insert("layers.4.weight".into(), (Encoding::Q4K, vec![5, 256], vec![0; 720]));
    let temp = tempfile::tempdir().unwrap();
    let store = store(&Arc::new(lost), Some(temp.path()));
    let team = Team::new(2).unwrap();
    let error = |i| store.matrix(i, &team).unwrap_err().to_string();
    assert_eq!(error(2), "tensor `layers.2.weight`: it is gone from its source");
    assert!(error(4).contains("not what it was when the program was loaded"), "{}", error(4));
    for i in [0, 1, 3] {
        store.matrix(i, &team).unwrap();
    }
    assert!(store.pack_all(&team).is_err());
    store.finish();
    assert_eq!(files(temp.path(), "tallowpack").len(), 0, "only whole files are written");
}
