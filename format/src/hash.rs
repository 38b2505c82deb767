//! The identity of a file: SHA-256 of all its bytes, and hemera where the feature `hemera` is on.
//!
//! Both are computed in one pass that reads a chunk at a time. Hemera runs at about 8 MB/s, hence the progress callback.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::error::{ErrorKind, FormatError, Result};

/// Which hashes to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Which {
    /// SHA-256 alone.
    #[default]
    Sha256,
    /// SHA-256 and hemera; an error where the feature `hemera` is off.
    Both,
}

/// The hashes of a file, in lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// The particle of a `.model`.
    pub sha256: String,
    /// The native particle of any `.cyb`, where asked for.
    pub hemera: Option<String>,
    /// The length of the file.
    pub bytes: u64,
}

/// Whether this build has the hemera hash.
pub const HAS_HEMERA: bool = cfg!(feature = "hemera");

/// Hashes a file. `progress` is called with the bytes done and the bytes in all; it can end the work by giving `false`.
pub fn hash_file(path: &Path, which: Which, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Digests> {
    let fail = |e| FormatError::io("cannot read the file", e).with_file(path);
    let file = File::open(path).map_err(fail)?;
    let meta = file.metadata().map_err(fail)?;
    if meta.is_dir() {
        return Err(FormatError::new(ErrorKind::Refused, "this is a folder, which has no hash")
            .cure("Name a file")
            .with_file(path));
    }
    hash_reader(file, meta.len(), which, progress).map_err(|e| e.with_file(path))
}

/// Hashes bytes in memory.
pub fn hash_bytes(bytes: &[u8], which: Which) -> Result<Digests> {
    hash_reader(bytes, bytes.len() as u64, which, &mut |_, _| true)
}

fn hash_reader(
    mut reader: impl Read,
    total: u64,
    which: Which,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Digests> {
    let mut sha = Sha256::new();
    let mut hemera = match which {
        Which::Sha256 => None,
        Which::Both => Some(Hemera::new()?),
    };
    // Hemera takes about 30 ms for this much, so that a progress bar moves smoothly.
    let mut buffer = vec![0u8; 256 << 10];
    let mut done = 0u64;
    loop {
        let n = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(FormatError::io("cannot read the file", e)),
        };
        sha.update(&buffer[..n]);
        if let Some(hemera) = &mut hemera {
            hemera.update(&buffer[..n]);
        }
        done += n as u64;
        if !progress(done, total.max(done)) {
            return Err(FormatError::new(ErrorKind::Refused, "hashing was stopped"));
        }
    }
    Ok(Digests { sha256: hex(&sha.finalize()), hemera: hemera.map(Hemera::finish), bytes: done })
}

/// Bytes in lower-case hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(feature = "hemera")]
struct Hemera(cyber_hemera::Hasher);

#[cfg(feature = "hemera")]
impl Hemera {
    fn new() -> Result<Self> {
        Ok(Self(cyber_hemera::Hasher::new()))
    }

    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self) -> String {
        hex(self.0.finalize().as_bytes())
    }
}

#[cfg(not(feature = "hemera"))]
struct Hemera;

#[cfg(not(feature = "hemera"))]
impl Hemera {
    fn new() -> Result<Self> {
        Err(FormatError::new(ErrorKind::Unsupported, "this build has no hemera hash")
            .cure("Build with the cargo feature `hemera`"))
    }

    fn update(&mut self, _: &[u8]) {}

    fn finish(self) -> String {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_is_that_of_the_standard() {
        let digests = hash_bytes(b"abc", Which::Sha256).unwrap();
        assert_eq!(digests.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!((digests.hemera, digests.bytes), (None, 3));
    }

    #[test]
    fn files_are_hashed_with_progress_that_can_stop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let bytes = vec![7u8; 600 << 10];
        std::fs::write(&path, &bytes).unwrap();
        let mut seen = Vec::new();
        let digests = hash_file(&path, Which::Sha256, &mut |done, total| {
            seen.push((done, total));
            true
        })
        .unwrap();
        assert_eq!(digests, hash_bytes(&bytes, Which::Sha256).unwrap());
        assert_eq!(seen.last(), Some(&(600 << 10, 600 << 10)));
        assert!(seen.len() >= 3);
        let error = hash_file(&path, Which::Sha256, &mut |_, _| false).unwrap_err().to_string();
        assert!(error.contains("hashing was stopped"), "{error}");
    }

    #[cfg(feature = "hemera")]
    #[test]
    fn hemera_is_that_of_its_crate_over_all_bytes() {
        let bytes: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
        let digests = hash_bytes(&bytes, Which::Both).unwrap();
        assert_eq!(digests.hemera, Some(cyber_hemera::hash(&bytes).to_hex()));
    }

    #[cfg(not(feature = "hemera"))]
    #[test]
    fn without_the_feature_hemera_is_a_clear_error() {
        let error = hash_bytes(b"", Which::Both).unwrap_err();
        assert!(error.is_unsupported() && error.to_string().contains("cargo feature `hemera`"), "{error}");
    }
}
