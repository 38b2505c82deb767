//! Encodings against llama.cpp: bytes and values that `scripts/make-encoding-goldens.py` had its
//! library make.

use std::fs;
use std::path::PathBuf;

use tallow_format::encoding::gguf::GgmlType;
use tallow_format::encoding::{Encoding, relative_rms_error};

const K_QUANTS: [(Encoding, &str); 5] = [
    (Encoding::Q2K, "q2_k"),
    (Encoding::Q3K, "q3_k"),
    (Encoding::Q4K, "q4_k"),
    (Encoding::Q5K, "q5_k"),
    (Encoding::Q6K, "q6_k"),
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/goldens")
}

fn bytes(name: &str) -> Vec<u8> {
    let path = folder().join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn values(name: &str) -> Vec<f32> {
    let bytes = bytes(name);
    assert!(bytes.len().is_multiple_of(4), "{name}");
    let chunks = bytes.as_chunks::<4>().0.iter();
    chunks.map(|raw| f32::from_le_bytes(*raw)).collect()
}

/// Compares bit by bit, so that also the sign of zeros and the payload of NaN count.
#[track_caller]
fn assert_same_bits(name: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.to_bits(), expected.to_bits(), "{name}: value {index} is {found}, llama.cpp has {expected}");
    }
}

#[test]
fn encoding_k_quants_gives_the_bytes_of_llama_cpp() {
    let source = values("source.f32");
    for (encoding, name) in K_QUANTS {
        let mut found = Vec::new();
        encoding.encode(&source, &mut found).unwrap();
        let expected = bytes(&format!("{name}.bytes"));
        assert_eq!(found.len(), expected.len(), "{name}");
        let blocks = found.chunks(encoding.block_bytes()).zip(expected.chunks(encoding.block_bytes()));
        for (block, (found, expected)) in blocks.enumerate() {
            assert_eq!(found, expected, "{name}: super-block {block}");
        }
    }
}

#[test]
fn encoding_k_quants_decode_to_the_bits_of_llama_cpp() {
    for (encoding, name) in K_QUANTS {
        for golden in [name.to_owned(), format!("{name}.random")] {
            let file = if golden == name { format!("{name}.bytes") } else { golden.clone() };
            let stored = bytes(&file);
            let expected = values(&format!("{golden}.f32"));
            let mut found = vec![0.0; expected.len()];
            encoding.check(&stored).unwrap();
            encoding.decode(&stored, &mut found).unwrap();
            assert_same_bits(&golden, &found, &expected);
        }
    }
}

#[test]
fn encoding_gguf_types_decode_to_the_bits_of_llama_cpp() {
    for ty in GgmlType::ALL {
        if ty == GgmlType::F32 {
            continue;
        }
        let name = ty.name().to_lowercase();
        let stored = bytes(&format!("{name}.random"));
        let expected = values(&format!("{name}.random.f32"));
        let mut found = vec![0.0; expected.len()];
        ty.decode(&stored, &mut found).unwrap();
        assert_same_bits(&name, &found, &expected);
    }
}

#[test]
fn encoding_goldens_are_as_near_as_their_width_allows() {
    let source = values("source.f32");
    // The first super-block is like the weights of a trained matrix.
    let expected = [0.35, 0.18, 0.09, 0.05, 0.025];
    for ((encoding, name), most) in K_QUANTS.into_iter().zip(expected) {
        let decoded = values(&format!("{name}.f32"));
        let error = relative_rms_error(&source[..256], &decoded[..256]);
        assert!(error > 0.0 && error < most, "{encoding}: {error}");
    }
}

/// Every file of the folder belongs to a test above.
#[test]
fn encoding_goldens_hold_no_other_files() {
    let mut known = vec!["source.f32".to_owned()];
    for ty in GgmlType::ALL {
        let name = ty.name().to_lowercase();
        known.push(format!("{name}.random"));
        known.push(format!("{name}.random.f32"));
        if ty.same_bytes().is_some() {
            known.push(format!("{name}.bytes"));
            known.push(format!("{name}.f32"));
        }
    }
    for entry in fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&name), "no test reads tests/goldens/{name}");
    }
}
