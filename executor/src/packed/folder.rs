//! The folder of the cache: names, what is remembered of a source, and making room.

use super::digest::{self, Key};
use super::kernel;
use super::layout::Layout;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tallow_format::FileIdentity;

/// The most bytes that the folder holds.
const LIMIT: u64 = 20 << 30;
/// The part of the space of the disk that the folder may take: one in so many.
const SHARE: u64 = 4;
/// How long a file with a temporary name is left alone: whoever writes it may still be at it.
const LEFTOVER: Duration = Duration::from_secs(24 * 3600);
/// How long what is remembered of a source that was not seen again is kept.
const FORGET: Duration = Duration::from_secs(90 * 24 * 3600);
/// The times of files advance in steps; within one a file may change without a trace.
const TICK: Duration = Duration::from_millis(50);

/// Ends the names of packed files.
const PACKED: &str = "tallowpack";
/// Ends the names of files that tell the key of a source.
const KEY: &str = "key";
/// Ends temporary names.
const TEMPORARY: &str = "tmp";

/// A folder of the cache. It need not exist.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where packed matrices of this key are.
    pub(super) fn file_of(&self, key: &Key) -> PathBuf {
        self.path.join(format!("{}-v{}.{PACKED}", digest::hex(key), kernel::VERSION))
    }

    /// Where the key of a source is remembered: reading the whole source for it takes longer than opening the packed file.
    fn memo_of(&self, layout: &Layout, identity: &FileIdentity) -> PathBuf {
        let mut sha = Sha256::new();
        sha.update(layout.digest);
        for n in [identity.device, identity.inode, identity.len] {
            sha.update(n.to_le_bytes());
        }
        for time in [identity.modified, identity.changed] {
            sha.update(time.to_le_bytes());
        }
        self.path.join(format!("{}.{KEY}", digest::hex(&sha.finalize())))
    }

    /// The key of a source, if it was seen before and is still the same.
    pub(super) fn remembered(&self, layout: &Layout, identity: &FileIdentity) -> Option<Key> {
        let path = self.memo_of(layout, identity);
        // Opening a pipe would wait for someone to write into it.
        std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
        // Not read to the end, whatever its length.
        let mut text = [0; 130];
        let mut file = File::open(&path).ok()?;
        io::Read::read_exact(&mut file, &mut text).ok()?;
        let key = digest::from_hex(std::str::from_utf8(&text).ok()?.get(..64)?)?;
        // A file under the name of another, or with a digit changed, would have the matrices of another model used.
        if memo(&path, &key).as_bytes() != text {
            return None;
        }
        let _ = file.set_modified(SystemTime::now());
        Some(key)
    }

    /// Remembers the key of a source, unless that changed a moment ago and may have changed again since.
    pub(super) fn remember(&self, layout: &Layout, identity: &FileIdentity, key: &Key) -> io::Result<()> {
        let changed = SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(identity.changed).unwrap_or(0));
        if changed + TICK > SystemTime::now() {
            return Ok(());
        }
        let mut temporary = self.create_temporary()?;
        let path = self.memo_of(layout, identity);
        temporary.file.write_all(memo(&path, key).as_bytes())?;
        temporary.persist(&path)
    }

    /// A new file under a name that no one else has.
    pub(super) fn temporary(&self) -> Result<Temporary, String> {
        let fault = |e: io::Error| {
            format!(
                "no file can be written in {}: {e}; name another folder by TALLOW_CACHE, or turn this off by \
                 `--packed-cache off`",
                self.path.display()
            )
        };
        self.create_temporary().map_err(fault)
    }

    fn create_temporary(&self) -> io::Result<Temporary> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        std::fs::create_dir_all(&self.path)?;
        // Processes of containers that share a folder may have one number, so the time takes part.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        for _ in 0..16 {
            let count = COUNTER.fetch_add(1, Ordering::Relaxed);
            let path = self.path.join(format!("{}-{now:x}-{count}.{TEMPORARY}", std::process::id()));
            match File::create_new(&path) {
                Ok(file) => return Ok(Temporary { file, path, kept: false }),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(e),
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }

    /// Removes temporary files that were left behind, and what is remembered of sources that were long not seen.
    pub(super) fn tidy(&self) {
        for entry in self.entries() {
            let limit = match entry.ending.as_str() {
                TEMPORARY => LEFTOVER,
                KEY => FORGET,
                _ => continue,
            };
            if entry.used.elapsed().is_ok_and(|age| age > limit) {
                let _ = std::fs::remove_file(&entry.path);
            }
        }
    }

    /// Makes room for a file by removing those that were not used for longest.
    ///
    /// # Errors
    /// The file is longer than all that the folder may hold.
    pub(super) fn make_room(&self, needed: u64) -> Result<(), String> {
        // Writing beyond this limit of the system would end the process.
        if let Some(most) = longest_file().filter(|most| needed > *most) {
            return Err(format!("they take {needed} bytes, and a file may have {most} here (`ulimit -f`)"));
        }
        let mut entries: Vec<Entry> = self.entries().into_iter().filter(|e| e.ending != KEY).collect();
        let mut used: u64 = entries.iter().map(|e| e.len).sum();
        let limit = limit(free(&self.path), used);
        if needed > limit {
            return Err(format!(
                "they take {needed} bytes, and all packed matrices together may take {limit}: at most 20 GiB, and a \
                 quarter of what the disk has left"
            ));
        }
        entries.retain(|e| e.ending == PACKED);
        entries.sort_by_key(|e| e.used);
        for entry in entries {
            if used.saturating_add(needed) <= limit {
                break;
            }
            if std::fs::remove_file(&entry.path).is_ok() {
                used -= entry.len;
            }
        }
        Ok(())
    }

    fn entries(&self) -> Vec<Entry> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let entry = |e: std::fs::DirEntry| {
            let meta = e.metadata().ok().filter(std::fs::Metadata::is_file)?;
            let path = e.path();
            let ending = path.extension()?.to_str()?.to_owned();
            Some(Entry { path, ending, len: meta.len(), used: meta.modified().ok()? })
        };
        entries.filter_map(entry).collect()
    }
}

/// A file of the folder.
struct Entry {
    path: PathBuf,
    ending: String,
    len: u64,
    /// When it was used last.
    used: SystemTime,
}

/// A file that goes again unless it is given its name.
pub(super) struct Temporary {
    pub file: File,
    path: PathBuf,
    kept: bool,
}

impl Temporary {
    /// Gives the file its name, in place of another file that has it.
    pub(super) fn persist(mut self, path: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, path)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// How many bytes the folder may hold, of a disk with so much space left and a folder with so much in it.
fn limit(free: Option<u64>, used: u64) -> u64 {
    free.map_or(LIMIT, |free| LIMIT.min(free.saturating_add(used) / SHARE))
}

/// The most bytes of a file that this process may write, where there is a limit.
fn longest_file() -> Option<u64> {
    #[cfg(unix)]
    {
        rustix::process::getrlimit(rustix::process::Resource::Fsize).current
    }
    #[cfg(not(unix))]
    None
}

/// What a file says that remembers a key: the key, and a digest of that and of the file's own name.
fn memo(path: &Path, key: &Key) -> String {
    let mut sha = Sha256::new();
    sha.update(path.file_name().unwrap_or_default().as_encoded_bytes());
    sha.update(key);
    format!("{}\n{}\n", digest::hex(key), digest::hex(&sha.finalize()))
}

/// The space left on the disk of a folder.
fn free(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let disk = rustix::fs::statvfs(folder).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_twenty_gibibytes_or_a_quarter_of_the_space() {
        assert_eq!(limit(None, 5), LIMIT);
        assert_eq!(limit(Some(1000), 200), 300);
        assert_eq!(limit(Some(u64::MAX), u64::MAX), LIMIT);
        assert!(free(Path::new("/")).is_none_or(|n| n > 0));
    }

    #[test]
    fn the_least_recently_used_go_first_and_leftovers_after_a_day() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::new(temp.path().join("packed"));
        let old = |name: &str, days: u64, len: u64| {
            let path = folder.path.join(name);
            let file = File::create_new(&path).unwrap();
            file.set_len(len).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(days * 24 * 3600)).unwrap();
            path
        };
        drop(folder.temporary().unwrap());
        assert_eq!(std::fs::read_dir(&folder.path).unwrap().count(), 0, "a temporary file goes with its handle");
        let [a, b, c] = [("a", 3), ("b", 9), ("c", 1)].map(|(n, days)| old(&format!("{n}.{PACKED}"), days, 8 << 30));
        let (left, young) = (old(&format!("1-2-3.{TEMPORARY}"), 2, 10), old(&format!("1-2-4.{TEMPORARY}"), 0, 10));
        let (seen, gone) = (old(&format!("e.{KEY}"), 80, 65), old(&format!("f.{KEY}"), 100, 65));
        let other = old("notes.txt", 400, 10);
        folder.tidy();
        assert!([&young, &seen, &other].iter().all(|p| p.exists()) && !left.exists() && !gone.exists());
        // Sparse files: the disk may be smaller than the limit.
        let room = limit(free(&folder.path), 24 << 30);
        if room == LIMIT {
            folder.make_room(10 << 30).unwrap();
            assert!(!b.exists() && !a.exists() && c.exists() && other.exists());
        }
        assert!(folder.make_room(LIMIT + 1).unwrap_err().contains("20 GiB"));
    }
}
