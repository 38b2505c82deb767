//! Sources that are cut short, forged, foreign or incomplete: each gives an error that names the trouble, and nothing is
//! left on disk.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests stop at the first surprise")]

mod common;

use std::path::{Path, PathBuf};

use common::{Gguf, Safe, VOCAB, f32s, golden, refused, refused_with, tiny_folder, tiny_llama, tiny_tensors};
use tallow_import::gguf::GgufFile;
use tallow_import::safetensors::SafetensorsFile;
use tallow_import::{EncodingChoice, ImportOptions};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

fn refused_gguf(gguf: &Gguf) -> tallow_import::ImportError {
    let folder = Folder::new();
    refused(&gguf.write(&folder.file("m.gguf")))
}

#[track_caller]
fn says(error: &tallow_import::ImportError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
    assert!(text.ends_with('.') || text.ends_with('`'), "{text}");
}

#[test]
fn the_sound_file_imports() {
    let folder = Folder::new();
    let path = tiny_llama().write(&folder.file("m.gguf"));
    let (report, model) = common::imported(&path, EncodingChoice::Auto);
    assert_eq!(report.tensors.len(), 11);
    assert_eq!(model.name(), "tiny");
    assert_eq!(model.tensor("model.embed_tokens.weight").unwrap().shape, [VOCAB, 32]);
}

#[test]
fn files_cut_anywhere_are_refused() {
    let folder = Folder::new();
    let whole = std::fs::read(golden("gguf/qwen2-plain.gguf")).unwrap();
    for percent in [0, 1, 25, 50, 90, 99] {
        let path = folder.file("cut.gguf");
        std::fs::write(&path, &whole[..whole.len() * percent / 100]).unwrap();
        says(&refused(&path), &["cut.gguf"]);
    }
    let source = golden("qwen2-plain");
    let weights = std::fs::read(source.join("model.safetensors")).unwrap();
    for percent in [0, 1, 25, 50, 90, 99] {
        let hf = Folder::new();
        std::fs::copy(source.join("config.json"), hf.file("config.json")).unwrap();
        std::fs::write(hf.file("model.safetensors"), &weights[..weights.len() * percent / 100]).unwrap();
        says(&refused(hf.path()), &["model.safetensors"]);
    }
}

#[test]
fn sixty_bytes_cannot_declare_a_world() {
    for (entries, tensors) in [(1u64 << 60, 0), (0, 1u64 << 60), (u64::MAX, u64::MAX)] {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3u32.to_le_bytes());
        bytes.extend(tensors.to_le_bytes());
        bytes.extend(entries.to_le_bytes());
        bytes.resize(60, 0);
        let folder = Folder::new();
        std::fs::write(folder.file("m.gguf"), &bytes).unwrap();
        says(&refused(&folder.file("m.gguf")), &["are declared", "bytes remain"]);
    }
    // The same inside: a list, a string.
    let mut list = 4u32.to_le_bytes().to_vec();
    list.extend((1u64 << 62).to_le_bytes());
    says(&refused_gguf(&tiny_llama().raw("a", 9, &list)), &["key `a`", "4611686018427387904"]);
    let huge = u64::MAX.to_le_bytes();
    says(&refused_gguf(&tiny_llama().raw("a", 8, &huge)), &["key `a`", "text of 18446744073709551615 bytes"]);
    let mut names = 8u32.to_le_bytes().to_vec();
    names.extend(1u64.to_le_bytes());
    names.extend(huge);
    says(&refused_gguf(&tiny_llama().raw("a", 9, &names)), &["key `a`"]);
}

#[test]
fn lists_of_lists_are_read_to_a_depth() {
    let nest = |depth: usize| {
        let mut bytes = Vec::new();
        for _ in 1..depth {
            bytes.extend(9u32.to_le_bytes());
            bytes.extend(1u64.to_le_bytes());
        }
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes.push(7);
        bytes
    };
    let folder = Folder::new();
    let path = tiny_llama().raw("general.nested", 9, &nest(4)).write(&folder.file("m.gguf"));
    GgufFile::open(&path).unwrap();
    says(&refused_gguf(&tiny_llama().raw("a", 9, &nest(5))), &["key `a`", "nested more than 4"]);
    says(&refused_gguf(&tiny_llama().raw("a", 9, &nest(100_000))), &["nested"]);
}

#[test]
fn shapes_that_overflow_are_refused() {
    for dims in [
        vec![1 << 32, 1 << 32],
        vec![u64::MAX],
        vec![u64::MAX, u64::MAX, u64::MAX, u64::MAX],
        vec![1 << 20, 1 << 20, 1 << 20, 8],
    ] {
        let mut gguf = tiny_llama();
        gguf.tensors[0].dims.clone_from(&dims);
        let error = refused_gguf(&gguf);
        says(&error, &["`token_embd.weight`"]);
        assert!(!error.is_unsupported());
    }
    let mut gguf = tiny_llama();
    gguf.tensors[0].dims = vec![32, 0];
    says(&refused_gguf(&gguf), &["a dimension is 0"]);
    gguf.tensors[0].dims = vec![];
    says(&refused_gguf(&gguf), &["0 dimensions"]);
    gguf.tensors[0].dims = vec![1; 5];
    says(&refused_gguf(&gguf), &["5 dimensions"]);
    // Rows that are no whole blocks.
    let mut gguf = tiny_llama();
    gguf.tensors[0].tag = 12;
    says(&refused_gguf(&gguf), &["not whole blocks of 256", "Q4_K"]);
}

#[test]
fn data_lies_inside_the_file() {
    for offset in [1 << 40, u64::MAX - 31, 1 << 63] {
        let mut gguf = tiny_llama();
        gguf.tensors[3].offset = Some(offset);
        says(&refused_gguf(&gguf), &["blk.0.attn_q.weight"]);
    }
    let mut gguf = tiny_llama();
    gguf.tensors[3].offset = Some(7);
    says(&refused_gguf(&gguf), &["no multiple of the alignment, 32"]);
    for alignment in [0, 3, 24, 1 << 31] {
        let error = refused_gguf(&tiny_llama().u32("general.alignment", alignment));
        says(&error, &["general.alignment", "power of two"]);
    }
    says(&refused_gguf(&tiny_llama().text("general.alignment", "64")), &["general.alignment"]);
    let mut sound = tiny_llama().u32("general.alignment", 64);
    sound.align = 64;
    let folder = Folder::new();
    common::imported(&sound.write(&folder.file("m.gguf")), EncodingChoice::Auto);
}

#[test]
fn names_stand_once() {
    let error = refused_gguf(&tiny_llama().u32("llama.block_count", 1));
    says(&error, &["key `llama.block_count`", "twice"]);
    let mut gguf = tiny_llama();
    gguf.tensors[2].name = gguf.tensors[1].name.clone();
    says(&refused_gguf(&gguf), &["`output_norm.weight`", "twice"]);
}

#[test]
fn foreign_files_are_called_by_their_name() {
    let mut gguf = tiny_llama();
    gguf.version = 1;
    let error = refused_gguf(&gguf);
    says(&error, &["GGUF version 1"]);
    assert!(error.is_unsupported());
    gguf.version = 3u32.swap_bytes();
    says(&refused_gguf(&gguf), &["big-endian"]);
    gguf.version = 9;
    says(&refused_gguf(&gguf), &["version 9", "2 and 3"]);
    gguf.version = 2;
    let folder = Folder::new();
    common::imported(&gguf.write(&folder.file("two.gguf")), EncodingChoice::Auto);
    gguf.magic = *b"GGML";
    says(&refused_gguf(&gguf), &["not a GGUF file"]);
    let other = Gguf::new().text("general.architecture", "rwkv7").tensor("x", &[32], &[0.0; 32]);
    let error = refused_gguf(&other);
    says(&error, &["architecture `rwkv7` is not read", "llama", "qwen3", "gemma3"]);
    assert!(error.is_unsupported());
    says(&refused_gguf(&Gguf::new()), &["general.architecture", "missing"]);
    let mut gguf = tiny_llama();
    gguf.tensors[4].tag = 20;
    let error = refused_gguf(&gguf);
    says(&error, &["`blk.0.attn_k.weight`", "IQ4_NL"]);
    assert!(error.is_unsupported());
    gguf.tensors[4].tag = 777;
    says(&refused_gguf(&gguf), &["777"]);
}

#[test]
fn missing_and_extra_tensors_are_named() {
    let mut gguf = tiny_llama();
    gguf.tensors.remove(4);
    says(&refused_gguf(&gguf), &["model.layers.0.self_attn.k_proj.weight", "[16, 32]"]);
    let mut gguf = tiny_llama();
    gguf.tensors.remove(0);
    says(&refused_gguf(&gguf), &["token_embd.weight", "missing"]);

    let extra = tiny_llama().tensor("blk.0.attn_sinks.weight", &[32], &[1.0; 32]);
    let error = refused_gguf(&extra);
    says(&error, &["blk.0.attn_sinks.weight", "--ignore-setting"]);
    assert!(error.is_unsupported());
    let folder = Folder::new();
    let path = extra.write(&folder.file("m.gguf"));
    let options = ImportOptions { ignore_settings: vec!["blk.0.attn_sinks.weight".into()], ..ImportOptions::default() };
    let report = tallow_import::import(&path, &folder.file("m.model"), &options, &mut ()).unwrap();
    assert_eq!(report.left_out[0].name, "blk.0.attn_sinks.weight");

    // A known name that this type does not read: a norm of q in a llama.
    let folder = Folder::new();
    let mut tensors = tiny_tensors();
    tensors.push(Safe { name: "model.layers.0.self_attn.sinks", dtype: "F32", shape: &[4], data: f32s(&[0.0; 4]) });
    tiny_folder(folder.path(), &tensors);
    says(&refused(folder.path()), &["model.layers.0.self_attn.sinks", "qwen3"]);
    // Buffers of integers, and those that readers compute, are no trouble.
    let folder = Folder::new();
    let mut tensors = tiny_tensors();
    tensors.push(Safe { name: "model.position_ids", dtype: "I64", shape: &[2], data: vec![0; 16] });
    tensors.push(Safe {
        name: "model.layers.0.self_attn.rotary_emb.inv_freq",
        dtype: "F32",
        shape: &[4],
        data: f32s(&[1.0; 4]),
    });
    tensors.push(Safe { name: "model.layers.1.enorm.weight", dtype: "F32", shape: &[4], data: f32s(&[1.0; 4]) });
    tiny_folder(folder.path(), &tensors);
    let (report, _) = common::imported(folder.path(), EncodingChoice::Auto);
    assert_eq!(report.left_out.len(), 3, "{:?}", report.left_out);
}

#[test]
fn numbers_that_are_none_are_named_with_their_place() {
    for (bad, name, at, place) in [
        (f32::NAN, "blk.0.attn_norm.weight", 5, "place 5"),
        (f32::INFINITY, "token_embd.weight", 64 * 32 + 3, "row 64, column 3"),
        (f32::NEG_INFINITY, "blk.0.ffn_up.weight", 32, "row 1, column 0"),
    ] {
        let mut gguf = tiny_llama();
        let tensor = gguf.tensors.iter_mut().find(|t| t.name == name).unwrap();
        tensor.data[at * 4..at * 4 + 4].copy_from_slice(&bad.to_le_bytes());
        let folder = Folder::new();
        let path = gguf.write(&folder.file("m.gguf"));
        for encoding in ["auto", "q8", "u32", "ternary", "q4"] {
            let options = ImportOptions { encoding: encoding.parse().unwrap(), ..ImportOptions::default() };
            let error = refused_with(&path, &options);
            says(&error, &[name, place, "no finite number"]);
        }
    }
    // Rows of q are reordered: the place is that of the result.
    let mut gguf = tiny_llama();
    let tensor = gguf.tensors.iter_mut().find(|t| t.name == "blk.0.attn_q.weight").unwrap();
    tensor.data[32 * 4..33 * 4].copy_from_slice(&f32::NAN.to_le_bytes());
    says(&refused_gguf(&gguf), &["model.layers.0.self_attn.q_proj.weight", "row 4, column 0"]);
    let folder = Folder::new();
    let mut tensors = tiny_tensors();
    tensors[0].data[40..44].copy_from_slice(&f32::NAN.to_le_bytes());
    tiny_folder(folder.path(), &tensors);
    says(&refused(folder.path()), &["model.embed_tokens.weight", "row 0, column 10", "NaN"]);
}

#[test]
fn a_value_out_of_range_is_no_silent_limit() {
    let mut gguf = tiny_llama();
    gguf.tensors[2].data[0..4].copy_from_slice(&40_000.0f32.to_le_bytes());
    says(&refused_gguf(&gguf), &["blk.0.attn_norm.weight", "40000", "beyond what `u32` holds"]);
}

#[test]
fn forged_safetensors_headers_are_refused() {
    let folder = Folder::new();
    let open = |header: &str, data: usize| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        let path = folder.file("x.safetensors");
        std::fs::write(&path, bytes).unwrap();
        SafetensorsFile::open(&path)
    };
    let entry = |shape: &str, from: u64, to: u64| {
        format!("{{\"a\":{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":[{from},{to}]}}}}")
    };
    assert!(open(&entry("[2]", 0, 8), 8).is_ok());
    for (header, data, part) in [
        (entry("[3]", 0, 8), 8, "takes 12 bytes"),
        (entry("[2]", 0, 8), 7, "bytes 0 to 8 of 7"),
        (entry("[2]", 8, 0), 8, "bytes 8 to 0"),
        (entry("[4294967296, 4294967296]", 0, 8), 8, "more than 2^64"),
        (entry("[-1]", 0, 8), 8, "header"),
        (entry("[2]", 0, 8).replace("F32", "F8_E4M3"), 8, "F8_E4M3 is not read"),
        (entry("[1]", 0, 8).replace("F32", "F64"), 8, "F64 is not read"),
        ("[]".into(), 0, "header"),
        ("{} {}".into(), 0, "header"),
        ("[".repeat(100_000), 0, "header"),
        (
            "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}".into(),
            8,
            "twice",
        ),
        (
            "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}".into(),
            8,
            "overlaps",
        ),
    ] {
        let error = open(&header, data).expect_err(&header);
        assert!(error.to_string().contains(part), "`{part}` is not in: {error}");
    }
    let path = folder.file("y.safetensors");
    std::fs::write(&path, u64::MAX.to_le_bytes()).unwrap();
    assert!(SafetensorsFile::open(&path).unwrap_err().to_string().contains("18446744073709551615"));
}

#[test]
fn of_several_files_without_an_index_the_one_that_is_named_is_taken() {
    let folder = Folder::new();
    tiny_folder(folder.path(), &tiny_tensors());
    std::fs::rename(folder.file("model.safetensors"), folder.file("a.safetensors")).unwrap();
    let other = [Safe { name: "adapter", dtype: "F32", shape: &[4], data: f32s(&[0.0; 4]) }];
    std::fs::write(folder.file("b.safetensors"), common::safetensors(&other)).unwrap();
    says(&refused(folder.path()), &["2 safetensors files", "name it instead of the folder", "a.safetensors`"]);
    let (report, _) = common::imported(&folder.file("a.safetensors"), EncodingChoice::Auto);
    assert_eq!(report.tensors.len(), tiny_tensors().len());
    says(&refused(&folder.file("b.safetensors")), &["embedding"]);
    // Also where the folder has a `model.safetensors`.
    std::fs::copy(folder.file("a.safetensors"), folder.file("model.safetensors")).unwrap();
    says(&refused(&folder.file("b.safetensors")), &["embedding"]);
    common::imported(folder.path(), EncodingChoice::Auto);
    // A shard stands for all.
    let shard = golden("llama-sharded").join("model-00002-of-00002.safetensors");
    let (all, _) = common::imported(&golden("llama-sharded"), EncodingChoice::Auto);
    assert_eq!(common::imported(&shard, EncodingChoice::Auto).0.tensors.len(), all.tensors.len());
}

#[test]
fn a_chat_template_too_long_for_its_reader_is_left_out() {
    let long = "x".repeat(tallow_format::ChatSection::MAX_TEMPLATE + 1);
    let folder = Folder::new();
    tiny_folder(folder.path(), &tiny_tensors());
    let told = |path: &Path| {
        let (report, model) = common::imported(path, EncodingChoice::Auto);
        assert!(model.chat().is_none());
        report.warnings.iter().any(|w| w.contains("1048577 bytes, and at most 1048576"))
    };
    assert!(!told(folder.path()));
    std::fs::write(folder.file("chat_template.jinja"), &long).unwrap();
    assert!(told(folder.path()));
    std::fs::remove_file(folder.file("chat_template.jinja")).unwrap();
    std::fs::write(folder.file("chat_template.json"), format!("{{\"chat_template\": \"{long}\"}}")).unwrap();
    assert!(told(folder.path()));
    let gguf = tiny_llama().text("tokenizer.chat_template", &long);
    assert!(told(&gguf.write(&folder.file("m.gguf"))));
}

#[test]
fn missing_shards_are_named() {
    let source = golden("llama-sharded");
    let folder = Folder::new();
    for entry in std::fs::read_dir(&source).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.file(path.file_name().unwrap().to_str().unwrap())).unwrap();
    }
    std::fs::remove_file(folder.file("model-00002-of-00002.safetensors")).unwrap();
    says(&refused(folder.path()), &["1 of 2", "model-00002-of-00002.safetensors"]);
    // A path out of the folder is refused, whatever it leads to.
    let index = folder.file("model.safetensors.index.json");
    let text = std::fs::read_to_string(&index).unwrap();
    std::fs::write(&index, text.replace("model-00002", "../model-00002")).unwrap();
    says(&refused(folder.path()), &["file name in this folder"]);

    // GGUF: the same model in two files.
    let folder = Folder::new();
    let whole = tiny_llama();
    let (mut first, mut second) = (whole.clone(), Gguf::new());
    second.tensors = first.tensors.split_off(5);
    let first = first.raw("split.count", 2, &2u16.to_le_bytes());
    let second = second.raw("split.no", 2, &1u16.to_le_bytes());
    let one = first.write(&folder.file("m-00001-of-00002.gguf"));
    says(&refused(&one), &["m-00002-of-00002.gguf"]);
    let two = second.write(&folder.file("m-00002-of-00002.gguf"));
    for shard in [&one, &two, &folder.path().to_owned()] {
        let (report, _) = common::imported(shard, EncodingChoice::Auto);
        assert_eq!(report.tensors.len(), 11);
    }
    // Shards under other names do not pass for a whole model.
    let renamed = folder.file("renamed.gguf");
    std::fs::copy(&one, &renamed).unwrap();
    says(&refused(&renamed), &["split.count", "2 files"]);
}

#[test]
fn flipped_bytes_never_panic() {
    let mut numbers = common::Numbers(3);
    let folder = Folder::new();
    let whole = std::fs::read(golden("gguf/qwen3-plain.gguf")).unwrap();
    let header = 8192.min(whole.len());
    let path = folder.file("m.gguf");
    for _ in 0..500 {
        let mut bytes = whole.clone();
        for _ in 0..1 + numbers.bits() % 4 {
            let at = numbers.bits() as usize % header;
            bytes[at] = numbers.bits() as u8;
        }
        std::fs::write(&path, &bytes).unwrap();
        if GgufFile::open(&path).is_ok() && numbers.bits().is_multiple_of(8) {
            let options = ImportOptions { dry_run: true, ..ImportOptions::default() };
            let _ = tallow_import::import(&path, &folder.file("m.model"), &options, &mut ());
        }
    }
    let whole = std::fs::read(golden("qwen3-plain").join("model.safetensors")).unwrap();
    let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let path = folder.file("m.safetensors");
    for _ in 0..500 {
        let mut bytes = whole.clone();
        for _ in 0..1 + numbers.bits() % 4 {
            let at = numbers.bits() as usize % header;
            bytes[at] = numbers.bits() as u8;
        }
        std::fs::write(&path, &bytes).unwrap();
        let _ = SafetensorsFile::open(&path);
    }
}

#[test]
fn layers_past_the_last_are_refused_unless_the_file_foretells_tokens() {
    let file = common::tiny_llama().tensor("blk.7.attn_norm.weight", &[8], &[1.0; 8]);
    let folder = tempfile::tempdir().unwrap();
    let path = file.write(&folder.path().join("m.gguf"));
    let text = refused(&path).to_string();
    for part in ["`blk.7.attn_norm.weight`", "past the last", "`llama.block_count`"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_does_not_count_as_absent() {
    for name in ["generation_config.json", "tokenizer_config.json", "tokenizer.json", "chat_template.jinja"] {
        let folder = tempfile::tempdir().unwrap();
        common::tiny_folder(folder.path(), &common::tiny_tensors());
        let file = folder.path().join(name);
        let _ = std::fs::remove_file(&file);
        std::os::unix::fs::symlink("/nowhere/at/all", &file).unwrap();
        let text = refused(folder.path()).to_string();
        assert!(text.contains(name) && text.contains("follow the link"), "{name}: {text}");
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        let text = refused(folder.path()).to_string();
        assert!(text.contains(name) && text.contains("no regular file"), "{name}: {text}");
    }
}

#[test]
fn a_setting_of_generation_is_called_by_its_file() {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(common::golden("../goldens-seq2seq/marian-plain")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    std::fs::write(folder.path().join("generation_config.json"), "{\"num_beams\": 2147483648}").unwrap();
    let text = refused(folder.path()).to_string();
    assert!(text.contains("generation_config.json: key `num_beams`"), "{text}");
}
