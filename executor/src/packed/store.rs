//! Packing, checking, and who waits for whom.

use super::digest::{self, Key};
use super::file::{PackedFile, Unusable};
use super::folder::Folder;
use super::kernel::{Packed, pack_panels, panels};
use super::layout::{Layout, Slot};
use super::memory::Memory;
use super::{PackedCache, writer};
use crate::error::{ExecutorError, Result};
use crate::kernels::{Team, WeightRows};
use crate::weights::WeightSource;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tallow_format::{Encoding, FileIdentity};

/// Matrices that take fewer bytes than this are packed as quickly as a file with them is opened.
const WORTH_A_FILE: u64 = 64 << 20;
/// Packed bytes that one thread makes at a time.
const CHUNK: usize = 1 << 20;

/// A matrix to pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    /// The name of its tensor.
    pub name: String,
    /// How the source holds it.
    pub encoding: Encoding,
    /// Rows.
    pub rows: usize,
    /// Values per row.
    pub k: usize,
}

/// The packed matrices of one program.
pub struct PackedStore {
    inner: Arc<Inner>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// What the store shares with the thread that writes its file.
pub(super) struct Inner {
    pub(super) layout: Layout,
    pub(super) source: Arc<dyn WeightSource>,
    by_name: HashMap<String, usize>,
    choice: PackedCache,
    folder: Mutex<Option<PathBuf>>,
    /// Where each matrix is, once it is there; or why it is not.
    places: Vec<OnceLock<std::result::Result<Place, String>>>,
    /// How many of them are settled.
    settled: AtomicUsize,
    memory: OnceLock<std::result::Result<Memory, String>>,
    cache: OnceLock<Option<Cache>>,
    /// The file of the cache is not to be used any more.
    damaged: AtomicBool,
    report: Mutex<PackedReport>,
}

/// Where a matrix is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Memory,
    File,
}

/// A folder for a source.
pub(super) struct Cache {
    pub folder: Folder,
    pub identity: FileIdentity,
    pub key: Option<Key>,
    file: Option<PackedFile>,
}

/// What a store did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedReport {
    /// Matrices that have a place.
    pub matrices: usize,
    /// Bytes that they take packed.
    pub bytes: u64,
    /// Matrices packed by this process.
    pub packed: usize,
    /// Matrices taken from a file.
    pub mapped: usize,
    /// How long packing took, all matrices together.
    pub packing: Duration,
    /// How long checking the file took.
    pub checking: Duration,
    /// The file that they came from, or were written to.
    pub file: Option<PathBuf>,
    /// How long writing the file took, beside the running program.
    pub writing: Option<Duration>,
    /// What a user should know.
    pub warnings: Vec<String>,
    /// Why there is no file, and the like: of no consequence for results.
    pub notes: Vec<String>,
}

impl PackedStore {
    /// A store for these matrices in the order of their first use; nothing is packed yet.
    ///
    /// # Errors
    /// A matrix that cannot be packed.
    pub(crate) fn new(matrices: Vec<Matrix>, source: Arc<dyn WeightSource>, choice: PackedCache) -> Result<Self> {
        let layout = Layout::new(matrices)?;
        let by_name = layout.slots.iter().enumerate().map(|(i, s)| (s.matrix.name.clone(), i)).collect();
        let report = PackedReport { matrices: layout.slots.len(), bytes: layout.packed(), ..PackedReport::default() };
        let inner = Inner {
            places: layout.slots.iter().map(|_| OnceLock::new()).collect(),
            layout,
            source,
            by_name,
            choice,
            folder: Mutex::new(None),
            settled: AtomicUsize::new(0),
            memory: OnceLock::new(),
            cache: OnceLock::new(),
            damaged: AtomicBool::new(false),
            report: Mutex::new(report),
        };
        Ok(Self { inner: Arc::new(inner), writer: Mutex::new(None) })
    }

    /// Names the folder that keeps packed matrices for other runs, if the program's options want one. It need not exist. Of no
    /// effect once a matrix has been packed.
    pub fn set_folder(&self, folder: PathBuf) {
        *unpoisoned(&self.inner.folder) = Some(folder);
    }

    /// The number of a matrix; none for a tensor that is not packed.
    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        self.inner.by_name.get(name).copied()
    }

    /// A packed matrix. The first call packs it, or checks what the file has, on the threads of `team`; calls of other threads
    /// wait for that.
    ///
    /// # Errors
    /// A source that is not what it was; no memory.
    pub(crate) fn matrix(&self, index: usize, team: &Team) -> Result<Packed<'_>> {
        let inner = &*self.inner;
        let slot = &inner.layout.slots[index];
        let fault = |cause: String| ExecutorError::Weight { name: slot.matrix.name.clone(), cause };
        let mut first = false;
        let place = inner.places[index].get_or_init(|| {
            first = true;
            inner.settle(index, slot, team)
        });
        if first && inner.settled.fetch_add(1, Ordering::AcqRel) + 1 == inner.places.len() {
            self.begin_writing();
        }
        if let Err(cause) = place {
            return Err(fault(cause.clone()));
        }
        let bytes = inner.bytes(index).unwrap_or_default();
        let m = &slot.matrix;
        Packed::new(m.encoding, m.rows, m.k, bytes).map_err(|e| fault(e.to_string()))
    }

    /// Packs all matrices now, or checks what the file has.
    ///
    /// # Errors
    /// As for a call that needs them.
    pub(crate) fn pack_all(&self, team: &Team) -> Result<()> {
        (0..self.inner.places.len()).try_for_each(|i| self.matrix(i, team).map(|_| ()))
    }

    /// Waits until a file that is being written is whole.
    pub fn finish(&self) {
        let writer = unpoisoned(&self.writer).take();
        if let Some(writer) = writer {
            // A panic of the writer has been reported by its thread and loses no more than the file.
            let _ = writer.join();
        }
    }

    /// What the store has done so far.
    pub fn report(&self) -> PackedReport {
        unpoisoned(&self.inner.report).clone()
    }

    /// The packed bytes of a matrix that is there.
    #[cfg(test)]
    pub(super) fn bytes(&self, index: usize) -> Option<&[u8]> {
        self.inner.bytes(index)
    }

    fn begin_writing(&self) {
        let Some(cache) = self.inner.cache() else { return };
        let whole = self.inner.places.iter().all(|p| matches!(p.get(), Some(Ok(_))));
        let has_file = cache.file.is_some() && !self.inner.damaged.load(Ordering::Acquire);
        if has_file || !whole {
            return;
        }
        let inner = self.inner.clone();
        let thread = std::thread::Builder::new().name("packed-writer".into()).spawn(move || inner.write());
        match thread {
            Ok(thread) => *unpoisoned(&self.writer) = Some(thread),
            Err(e) => self.inner.not_kept(&format!("no thread to write them: {e}")),
        }
    }
}

impl Drop for PackedStore {
    /// Waits for the file, so that the next run finds it.
    fn drop(&mut self) {
        self.finish();
    }
}

impl std::fmt::Debug for PackedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackedStore").field("report", &self.report()).finish_non_exhaustive()
    }
}

impl Inner {
    /// The packed bytes of a matrix that is there.
    pub(super) fn bytes(&self, index: usize) -> Option<&[u8]> {
        let slot = &self.layout.slots[index];
        match self.places[index].get()?.as_ref().ok()? {
            Place::File => Some(self.cache.get()?.as_ref()?.file.as_ref()?.bytes(slot)),
            Place::Memory => self.memory.get()?.as_ref().ok()?.part(index),
        }
    }

    /// Packs a matrix, or finds it in the file.
    fn settle(&self, index: usize, slot: &Slot, team: &Team) -> std::result::Result<Place, String> {
        if let Some(file) = self.file() {
            let start = Instant::now();
            let same = digest::checksum(file.bytes(slot), Some(team)) == file.checksum(index);
            let mut report = unpoisoned(&self.report);
            report.checking += start.elapsed();
            if same {
                report.mapped += 1;
                return Ok(Place::File);
            }
            drop(report);
            self.discard(file, &slot.matrix.name);
        }
        let start = Instant::now();
        self.pack(index, slot, team)?;
        let mut report = unpoisoned(&self.report);
        report.packing += start.elapsed();
        report.packed += 1;
        Ok(Place::Memory)
    }

    fn pack(&self, index: usize, slot: &Slot, team: &Team) -> std::result::Result<(), String> {
        let m = &slot.matrix;
        let view = self.source.weight(&m.name).ok_or("it is gone from its source")?;
        let (k, rows) = view.shape.split_last().map_or((0, 0), |(&k, rows)| (k, rows.iter().product()));
        if view.encoding != m.encoding || (rows, k) != (m.rows as u64, m.k as u64) {
            return Err("it is not what it was when the program was loaded".into());
        }
        let rows = WeightRows::new(m.encoding, view.bytes, m.rows, m.k).map_err(|e| e.to_string())?;
        let memory = self.memory.get_or_init(|| {
            let parts = self.layout.slots.iter().map(Slot::range).collect();
            Memory::new(self.layout.total, parts)
                .map_err(|e| format!("no memory for {} bytes of packed matrices: {e}", self.layout.total))
        });
        let memory = memory.as_ref().map_err(String::clone)?;
        let panel = slot.len / panels(m.rows).max(1);
        let chunk = (CHUNK / panel.max(1)).max(1);
        memory.fill(index, panel, chunk, team, |panels, out| pack_panels(&rows, panels, out));
        self.source.release(&m.name);
        Ok(())
    }

    /// The file, while it may be used.
    fn file(&self) -> Option<&PackedFile> {
        let file = self.cache()?.file.as_ref()?;
        (!self.damaged.load(Ordering::Acquire)).then_some(file)
    }

    /// The folder, if one is wanted and the source is a file.
    fn cache(&self) -> Option<&Cache> {
        self.cache.get_or_init(|| self.open_cache()).as_ref()
    }

    fn open_cache(&self) -> Option<Cache> {
        let wanted = match self.choice {
            PackedCache::Auto => self.layout.packed() >= WORTH_A_FILE,
            PackedCache::On => true,
            PackedCache::Off => false,
        };
        // What is packed is little-endian where the processor is.
        if !wanted || self.layout.slots.is_empty() || cfg!(target_endian = "big") {
            return None;
        }
        let Some(folder) = unpoisoned(&self.folder).clone() else {
            self.not_kept("no folder is known for them; name one by TALLOW_CACHE");
            return None;
        };
        let Some(identity) = self.source.identity() else {
            self.not_kept("the model is no file");
            return None;
        };
        let folder = Folder::new(folder);
        let key = folder.remembered(&self.layout, &identity);
        let mut cache = Cache { folder, identity, key, file: None };
        if let Some(key) = &cache.key {
            let path = cache.folder.file_of(key);
            match PackedFile::open(&path, &self.layout, key) {
                Ok(file) => {
                    cache.file = Some(file);
                    unpoisoned(&self.report).file = Some(path);
                }
                Err(Unusable::Absent) => {}
                Err(Unusable::Io(e)) => self.note(format!("{}: {e}; the matrices are packed again", path.display())),
                Err(Unusable::Damaged(why)) => self.warn(format!(
                    "{}: the file of packed matrices is damaged ({why}); it is made again",
                    path.display()
                )),
            }
        }
        Some(cache)
    }

    /// Gives up a file in which a matrix is not what was written.
    fn discard(&self, file: &PackedFile, name: &str) {
        if !self.damaged.swap(true, Ordering::AcqRel) {
            let _ = std::fs::remove_file(&file.path);
            self.warn(format!(
                "{}: the file of packed matrices is damaged (tensor `{name}` has another checksum); it is made again",
                file.path.display()
            ));
        }
    }

    /// Writes the file; all matrices are there.
    fn write(&self) {
        let Some(cache) = self.cache() else { return };
        let start = Instant::now();
        match writer::write(self, cache) {
            Ok((path, there)) => {
                let mut report = unpoisoned(&self.report);
                report.file = Some(path);
                report.writing = (!there).then(|| start.elapsed());
            }
            Err(why) => self.not_kept(&why),
        }
    }

    /// Whoever asked for a file should know that there is none; who left it open loses nothing that was promised.
    fn not_kept(&self, why: &str) {
        let text = format!("packed matrices are not kept: {why}");
        match self.choice {
            PackedCache::On => self.warn(text),
            PackedCache::Auto | PackedCache::Off => self.note(text),
        }
    }

    fn note(&self, note: String) {
        unpoisoned(&self.report).notes.push(note);
    }

    fn warn(&self, warning: String) {
        unpoisoned(&self.report).warnings.push(warning);
    }
}

/// The value of a lock, whose data no panic can leave half-written.
fn unpoisoned<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
