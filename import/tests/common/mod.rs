//! Builders of small source files, and a way to read back what was imported.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::path::{Path, PathBuf};

use tallow_format::{Encoding, ModelFile};
use tallow_import::{EncodingChoice, ImportError, ImportOptions, ImportReport, import};

/// A folder of the goldens.
pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens").join(name)
}

/// A file beside the tests.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Imports into `out.model` of a fresh folder and opens the result.
pub fn imported(src: &Path, encoding: EncodingChoice) -> (ImportReport, ModelFile) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.model");
    let options = ImportOptions { encoding, ..ImportOptions::default() };
    let report = import(src, &out, &options, &mut ()).unwrap_or_else(|e| panic!("{}: {e}", src.display()));
    let model = ModelFile::open(&out).unwrap();
    (report, model)
}

/// Imports, expects an error, and checks that nothing was left behind.
pub fn refused(src: &Path) -> ImportError {
    refused_with(src, &ImportOptions::default())
}

/// As [`refused`], with options.
pub fn refused_with(src: &Path, options: &ImportOptions) -> ImportError {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.model");
    let error = import(src, &out, options, &mut ()).expect_err("the import must fail");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{error}: left behind {left:?}");
    error
}

/// Decoded values of a tensor.
pub fn values(model: &ModelFile, name: &str) -> Vec<f32> {
    let view = model.tensor(name).unwrap_or_else(|| panic!("no tensor {name}"));
    let mut out = vec![0.0; view.shape.iter().product::<u64>() as usize];
    view.encoding.decode(view.bytes, &mut out).unwrap();
    out
}

/// Forces an encoding.
pub fn force(encoding: Encoding) -> EncodingChoice {
    EncodingChoice::Force(encoding)
}

/// Reproducible numbers in −1 … 1.
pub struct Numbers(pub u64);

impl Numbers {
    /// The next 32 bits.
    pub fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 32) as u32
    }

    /// The next number.
    pub fn next(&mut self) -> f32 {
        self.bits() as f32 / u32::MAX as f32 * 2.0 - 1.0
    }

    /// So many numbers.
    pub fn take(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.next()).collect()
    }
}

/// Bytes of singles.
pub fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Writes GGUF files, sound and otherwise.
#[derive(Clone)]
pub struct Gguf {
    pub magic: [u8; 4],
    pub version: u32,
    pub entries: Vec<u8>,
    pub entry_count: u64,
    pub tensors: Vec<GgufTensor>,
    pub tensor_count: Option<u64>,
    pub align: usize,
}

#[derive(Clone)]
pub struct GgufTensor {
    pub name: String,
    pub dims: Vec<u64>,
    pub tag: u32,
    pub data: Vec<u8>,
    pub offset: Option<u64>,
}

impl Gguf {
    pub fn new() -> Self {
        Self {
            magic: *b"GGUF",
            version: 3,
            entries: Vec::new(),
            entry_count: 0,
            tensors: Vec::new(),
            tensor_count: None,
            align: 32,
        }
    }

    pub fn string(out: &mut Vec<u8>, text: &[u8]) {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text);
    }

    /// An entry with its value bytes, kind tag in front.
    pub fn raw(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        Self::string(&mut self.entries, key.as_bytes());
        self.entries.extend(kind.to_le_bytes());
        self.entries.extend(value);
        self.entry_count += 1;
        self
    }

    pub fn u32(self, key: &str, value: u32) -> Self {
        self.raw(key, 4, &value.to_le_bytes())
    }

    pub fn f32(self, key: &str, value: f32) -> Self {
        self.raw(key, 6, &value.to_le_bytes())
    }

    pub fn bool(self, key: &str, value: bool) -> Self {
        self.raw(key, 7, &[u8::from(value)])
    }

    pub fn text(self, key: &str, value: &str) -> Self {
        let mut bytes = Vec::new();
        Self::string(&mut bytes, value.as_bytes());
        self.raw(key, 8, &bytes)
    }

    pub fn texts(self, key: &str, values: &[&str]) -> Self {
        let mut bytes = Vec::new();
        bytes.extend(8u32.to_le_bytes());
        bytes.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|v| Self::string(&mut bytes, v.as_bytes()));
        self.raw(key, 9, &bytes)
    }

    pub fn i32s(self, key: &str, values: &[i32]) -> Self {
        let mut bytes = Vec::new();
        bytes.extend(5u32.to_le_bytes());
        bytes.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|v| bytes.extend(v.to_le_bytes()));
        self.raw(key, 9, &bytes)
    }

    pub fn f32s(self, key: &str, values: &[f32]) -> Self {
        let mut bytes = Vec::new();
        bytes.extend(6u32.to_le_bytes());
        bytes.extend((values.len() as u64).to_le_bytes());
        bytes.extend(f32s(values));
        self.raw(key, 9, &bytes)
    }

    /// A tensor of singles; dimensions as GGUF has them, fastest first.
    pub fn tensor(mut self, name: &str, dims: &[u64], values: &[f32]) -> Self {
        self.tensors.push(GgufTensor {
            name: name.into(),
            dims: dims.to_vec(),
            tag: 0,
            data: f32s(values),
            offset: None,
        });
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.magic);
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.entry_count.to_le_bytes());
        out.extend(&self.entries);
        let mut data: Vec<u8> = Vec::new();
        for tensor in &self.tensors {
            while !data.len().is_multiple_of(self.align) {
                data.push(0);
            }
            Self::string(&mut out, tensor.name.as_bytes());
            out.extend((tensor.dims.len() as u32).to_le_bytes());
            tensor.dims.iter().for_each(|d| out.extend(d.to_le_bytes()));
            out.extend(tensor.tag.to_le_bytes());
            out.extend(tensor.offset.unwrap_or(data.len() as u64).to_le_bytes());
            data.extend(&tensor.data);
        }
        while !out.len().is_multiple_of(self.align) {
            out.push(0);
        }
        out.extend(data);
        out
    }

    pub fn write(&self, path: &Path) -> PathBuf {
        std::fs::write(path, self.bytes()).unwrap();
        path.to_owned()
    }
}

/// Width of the tiny llama.
pub const HIDDEN: u64 = 32;
/// Rows of its vocabulary.
pub const VOCAB: u64 = 160;

/// A sound llama of one layer, in singles, without a tokenizer.
pub fn tiny_llama() -> Gguf {
    let mut n = Numbers(7);
    let mut matrix = |rows: u64, cols: u64| n.take((rows * cols) as usize);
    let (h, kv, inner) = (HIDDEN, 16, 64);
    let ones = vec![1.0; h as usize];
    Gguf::new()
        .text("general.architecture", "llama")
        .text("general.name", "tiny")
        .u32("llama.embedding_length", h as u32)
        .u32("llama.block_count", 1)
        .u32("llama.context_length", 128)
        .u32("llama.feed_forward_length", inner as u32)
        .u32("llama.attention.head_count", 4)
        .u32("llama.attention.head_count_kv", 2)
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-5)
        .f32("llama.rope.freq_base", 10000.0)
        .tensor("token_embd.weight", &[h, VOCAB], &matrix(VOCAB, h))
        .tensor("output_norm.weight", &[h], &ones)
        .tensor("blk.0.attn_norm.weight", &[h], &ones)
        .tensor("blk.0.attn_q.weight", &[h, h], &matrix(h, h))
        .tensor("blk.0.attn_k.weight", &[h, kv], &matrix(kv, h))
        .tensor("blk.0.attn_v.weight", &[h, kv], &matrix(kv, h))
        .tensor("blk.0.attn_output.weight", &[h, h], &matrix(h, h))
        .tensor("blk.0.ffn_norm.weight", &[h], &ones)
        .tensor("blk.0.ffn_gate.weight", &[h, inner], &matrix(inner, h))
        .tensor("blk.0.ffn_up.weight", &[h, inner], &matrix(inner, h))
        .tensor("blk.0.ffn_down.weight", &[inner, h], &matrix(h, inner))
}

/// One tensor of a safetensors file.
pub struct Safe<'a> {
    pub name: &'a str,
    pub dtype: &'a str,
    pub shape: &'a [u64],
    pub data: Vec<u8>,
}

/// The bytes of a safetensors file.
pub fn safetensors(tensors: &[Safe<'_>]) -> Vec<u8> {
    let mut header = String::from("{");
    let mut at = 0;
    for (n, t) in tensors.iter().enumerate() {
        if n > 0 {
            header.push(',');
        }
        let end = at + t.data.len();
        header.push_str(&format!(
            "\"{}\":{{\"dtype\":\"{}\",\"shape\":{:?},\"data_offsets\":[{at},{end}]}}",
            t.name, t.dtype, t.shape
        ));
        at = end;
    }
    header.push('}');
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    tensors.iter().for_each(|t| out.extend(&t.data));
    out
}

/// The config of the tiny Hugging Face model of [`tiny_tensors`].
pub const TINY_CONFIG: &str = r#"{
  "model_type": "qwen3", "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
  "num_hidden_layers": 1, "intermediate_size": 64, "vocab_size": 1024, "tie_word_embeddings": true,
  "rope_theta": 10000.0, "eos_token_id": 883, "bos_token_id": 881, "pad_token_id": 881
}"#;

/// Its tensors in singles.
pub fn tiny_tensors() -> Vec<Safe<'static>> {
    let mut n = Numbers(11);
    let mut t = |name, shape: &'static [u64]| Safe {
        name,
        dtype: "F32",
        shape,
        data: f32s(&n.take(shape.iter().product::<u64>() as usize)),
    };
    vec![
        t("model.embed_tokens.weight", &[1024, 32]),
        t("model.layers.0.input_layernorm.weight", &[32]),
        t("model.layers.0.self_attn.q_proj.weight", &[32, 32]),
        t("model.layers.0.self_attn.k_proj.weight", &[16, 32]),
        t("model.layers.0.self_attn.v_proj.weight", &[16, 32]),
        t("model.layers.0.self_attn.q_norm.weight", &[8]),
        t("model.layers.0.self_attn.k_norm.weight", &[8]),
        t("model.layers.0.self_attn.o_proj.weight", &[32, 32]),
        t("model.layers.0.post_attention_layernorm.weight", &[32]),
        t("model.layers.0.mlp.gate_proj.weight", &[64, 32]),
        t("model.layers.0.mlp.up_proj.weight", &[64, 32]),
        t("model.layers.0.mlp.down_proj.weight", &[32, 64]),
        t("model.norm.weight", &[32]),
    ]
}

/// Writes the tiny Hugging Face model into a folder.
pub fn tiny_folder(folder: &Path, tensors: &[Safe<'_>]) {
    std::fs::write(folder.join("config.json"), TINY_CONFIG).unwrap();
    std::fs::write(folder.join("model.safetensors"), safetensors(tensors)).unwrap();
}
