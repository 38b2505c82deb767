//! GGUF files of types whose settings are taken over as they are: encoders of texts and t5.

use std::path::Path;

use super::{Opened, missing_embedding, unknown_tensors};
use crate::chat;
use crate::config::gguf::{VerbatimFacts, read_verbatim};
use crate::error::{ImportError, Result};
use crate::gguf::{Gguf, GgufFile, type_name};
use crate::names::{self, GgufArch, Mapped};
use crate::source::{LeftOut, Piece, RowOrder, Source, SourceTensor};
use crate::tokenizer::{self, TokenizerText};

const TABLE: &str = "token_embd.weight";
const HEAD: &str = "output.weight";
const TYPES: &str = "token_types.weight";

/// Opens a file of such a type.
pub(super) fn open(gguf: Gguf, arch: &'static GgufArch, path: &Path, ignore: &[String]) -> Result<Opened> {
    let untyped = arch.name == "bert" && !gguf.tensors().any(|(_, tensor)| tensor.name == TYPES);
    let arch = if untyped { &names::DISTILBERT } else { arch };
    let (tensors, left_out, facts) = tensors(&gguf, arch, path, ignore)?;
    let meta = gguf.meta();
    let mut config = read_verbatim(meta, arch, facts, ignore)?;
    let tokenizer = tokenizer_of(meta, arch)?;
    let template = chat::template_of_gguf(meta, &mut config.warnings)?;
    let files = gguf.into_shards().into_iter().map(GgufFile::into_file).collect();
    let source = Source::new(files, tensors, left_out)?;
    Ok(Opened { source, config, tokenizer, template })
}

type Found = (Vec<SourceTensor>, Vec<LeftOut>, VerbatimFacts);

/// The tensors under their Hugging Face names, in the order of the file, and what they tell.
fn tensors(gguf: &Gguf, arch: &GgufArch, path: &Path, ignore: &[String]) -> Result<Found> {
    let gated = gguf.tensors().any(|(_, tensor)| tensor.name.ends_with(".ffn_gate.weight"));
    let tied = same(gguf, TABLE, HEAD);
    let (mut tensors, mut left_out, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for (file, tensor) in gguf.tensors() {
        let mut leave_out = |reason: &str| {
            let (name, source_type) = (tensor.name.clone(), type_name(tensor.tag));
            left_out.push(LeftOut { name, source_type, reason: reason.to_owned() });
        };
        let Some(ty) = tensor.ty else {
            leave_out("integers, which carry no weights");
            continue;
        };
        match names::hugging_face_name(arch, &tensor.name, gated) {
            Mapped::Tensor(_) if tied && tensor.name == HEAD => {
                leave_out("the same as the embedding, to which it is tied");
            }
            Mapped::Tensor(name) => tensors.push(SourceTensor {
                name,
                source_name: tensor.name.clone(),
                shape: tensor.dims.iter().rev().copied().collect(),
                ty,
                shift: 0.0,
                order: RowOrder::Plain,
                pieces: vec![Piece { file, bytes: tensor.bytes.clone() }],
            }),
            _ if ignore.contains(&tensor.name) => leave_out("as asked"),
            _ => unknown.push(tensor.name.as_str()),
        }
    }
    if !unknown.is_empty() {
        return Err(unknown_tensors(path, arch, &unknown));
    }
    let find = |name: &str| tensors.iter().find(|t: &&SourceTensor| t.source_name == name);
    let rows = |name: &str| find(name).and_then(|t| t.shape.first().copied());
    let Some(vocab_rows) = rows(TABLE) else {
        return Err(missing_embedding(path, TABLE));
    };
    let facts = VerbatimFacts { vocab_rows, type_rows: rows(TYPES), gated, tied: find(HEAD).is_none() };
    Ok((tensors, left_out, facts))
}

/// Whether two tensors are there and hold the same bytes.
fn same(gguf: &Gguf, a: &str, b: &str) -> bool {
    let find = |name: &str| gguf.tensors().find(|(_, tensor)| tensor.name == name);
    let (Some((file_a, a)), Some((file_b, b))) = (find(a), find(b)) else { return false };
    let bytes = |file: usize, range| gguf.shards().get(file).and_then(|shard| shard.file().bytes().get(range));
    (a.tag, &a.dims) == (b.tag, &b.dims) && bytes(file_a, a.bytes.clone()) == bytes(file_b, b.bytes.clone())
}

/// The tokenizer, which for an encoder says what stands around a text and around two.
fn tokenizer_of(meta: &GgufFile, arch: &GgufArch) -> Result<Option<TokenizerText>> {
    let tokenizer = tokenizer::gguf::read(meta)?;
    let model = meta.text("tokenizer.ggml.model")?.unwrap_or_default();
    if tokenizer.is_some() && !matches!(model, "bert" | "t5") {
        return Err(ImportError::unsupported(
            meta.path(),
            "key `tokenizer.ggml.model`",
            format!("a tokenizer of kind `{model}` is not read for architecture `{}`", arch.name),
            "Take the original model as safetensors.",
        ));
    }
    Ok(tokenizer)
}
