//! Small containers, and the command run on them.
#![allow(dead_code, clippy::unwrap_used, missing_docs)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tallow::format::{Encoding, ModelParts, ModelWriter, ProgramFormat, TensorPlan};

/// What a run of the command gave.
pub struct Ran {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ran {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", self.text(), self.stderr))
    }

    /// Fine, and the output.
    pub fn fine(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.text(), self.stderr);
        self.text().to_owned()
    }

    /// Failed with this code and one error message, which is given.
    pub fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}{}", String::from_utf8_lossy(&self.stdout), self.stderr);
        assert_eq!(self.stderr.matches("error:").count(), 1, "{}", self.stderr);
        assert!(self.stderr.starts_with("error: ") && self.stderr.ends_with('\n'), "{}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self.stderr
    }
}

/// Runs `tallow` in `folder`.
pub fn tallow(folder: &Path, arguments: &[&str]) -> Ran {
    tallow_with(folder, arguments, b"")
}

/// Runs `tallow` in `folder` with bytes on stdin.
pub fn tallow_with(folder: &Path, arguments: &[&str], stdin: &[u8]) -> Ran {
    let mut child = command(folder, arguments).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The command with pipes on all sides.
pub fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallow"));
    command.args(arguments).current_dir(folder).env("TALLOW_CACHE", folder.join("cache"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The names of everything in a folder, sorted.
pub fn listing(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub const CONFIG: &str = "model_type = \"llama\"\nlicense = \"mit\" # as it says\n\n[architecture]\nhidden_size = 32\nintermediate_size = 64\nnum_attention_heads = 2\nnum_key_value_heads = 1\nnum_hidden_layers = 1\nvocab_size = 8\nmax_position_embeddings = 64\nrope_theta = 10000\nrms_norm_eps = 1e-6\nhidden_act = \"silu\"\ntie_word_embeddings = true\n\n[tokenizer]\ntype = \"bpe\"\neos_token_ids = [2]\n\n[sampling]\ntemperature = 0.7\ntop_p = 0.9\n";

const VOCAB: &str = "[tokens]\n0 = \"a\"\n1 = \"b\"\n2 = \"</s>\"\n3 = \"ab\"\n\n[merges]\n0 = [\"a\", \"b\"]\n";

const EVAL: &str =
    "[mmlu_pro]\nscore = 724\n\n[[benchmarks]]\nname = \"sum\"\nprompt = \"1+1=\"\nexpected_contains = [\"2\"]\n";

pub fn parts() -> ModelParts {
    ModelParts {
        name: "tiny".into(),
        card: "# Tiny\n\nA model for tests.\n\n~~~sh\ntallow run tiny.model\n~~~\n".into(),
        config: CONFIG.into(),
        program: Some((ProgramFormat::Rs, "fn forward() {}\n".into())),
        graph: None,
        chat: Some("format = \"chatml\"\nsystem_default = \"Be brief.\"\n".into()),
        vocab: VOCAB.into(),
        eval: EVAL.into(),
    }
}

/// A folder with `tiny.model` in it, which its family can run.
pub fn tiny() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.model");
    write_tiny(&path, parts());
    (folder, path)
}

pub fn write_tiny(path: &Path, parts: ModelParts) {
    let layer = "model.layers.0.";
    let tensors: Vec<(String, Vec<u64>)> = [
        ("model.embed_tokens.weight", vec![8, 32]),
        ("input_layernorm.weight", vec![32]),
        ("self_attn.q_proj.weight", vec![32, 32]),
        ("self_attn.k_proj.weight", vec![16, 32]),
        ("self_attn.v_proj.weight", vec![16, 32]),
        ("self_attn.o_proj.weight", vec![32, 32]),
        ("post_attention_layernorm.weight", vec![32]),
        ("mlp.gate_proj.weight", vec![64, 32]),
        ("mlp.up_proj.weight", vec![64, 32]),
        ("mlp.down_proj.weight", vec![32, 64]),
        ("model.norm.weight", vec![32]),
    ]
    .into_iter()
    .map(|(name, shape)| (if name.starts_with("model.") { name.into() } else { format!("{layer}{name}") }, shape))
    .collect();
    let encoding = |shape: &[u64]| if shape.len() > 1 { Encoding::Q8 } else { Encoding::U32 };
    let plan = tensors
        .iter()
        .map(|(name, shape)| TensorPlan { name: name.clone(), shape: shape.clone(), candidates: vec![encoding(shape)] })
        .collect();
    let mut writer = ModelWriter::create(path, parts, plan).unwrap();
    for (seed, (name, shape)) in tensors.iter().enumerate() {
        let values: Vec<f32> =
            (0..shape.iter().product::<u64>() as usize).map(|i| ((i * 7 + seed) % 13) as f32 / 16.0 - 0.375).collect();
        let mut bytes = Vec::new();
        encoding(shape).encode(&values, &mut bytes).unwrap();
        writer.begin(name, encoding(shape)).unwrap();
        writer.write(&bytes).unwrap();
    }
    writer.finish().unwrap();
}

/// A model with one tensor, put together by hand: its frontmatter lines, encoding, shape and stored bytes are free.
pub fn bare_model(cyb: &str, encoding: &str, shape: &[u64], bytes: &[u8]) -> Vec<u8> {
    let size = bytes.len();
    let mut out = format!(
        "[cyb]\nname = \"bare\"\ntypes = [\"model\"]\n{cyb}\n\
         [[files]]\nname = \"config\"\nformat = \"toml\"\n\n[[files]]\nname = \"tensors\"\nformat = \"toml\"\n\n\
         [[files]]\nname = \"weights\"\nformat = \"tensors\"\nsize = {size}\n\n\
         ~~~config\nmodel_type = \"own\"\n~~~tensors\n[\"w\"]\nshape = {shape:?}\nencoding = \"{encoding}\"\noffset = 0\nsize = {size}\n\
         ~~~weights\n"
    )
    .into_bytes();
    out.extend_from_slice(bytes);
    out
}

/// A container with a text and a binary file.
pub const NOTES: &[u8] = b"[cyb]\nname = \"notes\"\ntypes = [\"notes\"]\n\n[[files]]\nname = \"text\"\nformat = \"md\"\n\n[[files]]\nname = \"data\"\nformat = \"bin\"\nsize = 5\n\n~~~text\n# Notes\n~~~data\n\x00~~~\xff";
