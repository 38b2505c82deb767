//! Opens a source of either kind: tensors under their Hugging Face names, settings, tokenizer, chat template.

mod verbatim;

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use serde_json::Value;
use tallow_format::encoding::gguf::GgmlType;

use crate::chat;
use crate::config::gguf::{TensorFacts, arch_of, heads};
use crate::config::{self, SourceConfig};
use crate::error::{ImportError, Result, clip, names};
use crate::experts;
use crate::gguf::{Gguf, type_name};
use crate::names::{self, GgufArch, Mapped, RopeFactors};
use crate::safetensors::find_weights;
use crate::scheme::{self, Scheme};
use crate::sentences;
use crate::source::{LeftOut, Piece, RowOrder, Source, SourceTensor};
use crate::tokenizer::{self, TokenizerText};

/// Why a tensor is left out.
const PAST: &str = "it belongs to a layer past the last";

/// A source, read but for its weights.
#[derive(Debug)]
pub struct Opened {
    /// Tensors and their files.
    pub source: Source,
    /// Settings.
    pub config: SourceConfig,
    /// `None` for a model without a tokenizer.
    pub tokenizer: Option<TokenizerText>,
    /// Chat template in Jinja.
    pub template: Option<String>,
}

/// Opens a GGUF file and its shards.
pub fn gguf(path: &Path, ignore: &[String]) -> Result<Opened> {
    let gguf = Gguf::open(path)?;
    let meta = gguf.meta();
    let arch = arch_of(meta)?;
    if arch.verbatim.is_some() {
        return verbatim::open(gguf, arch, path, ignore);
    }
    let latent = arch.name == "deepseek2";
    let ordered = arch.interleaved || arch.by_head || latent;
    let (query_heads, key_heads) = if ordered { heads(meta, arch)? } else { (0, 0) };
    let layers = meta.uint(&format!("{}.block_count", arch.name))?.unwrap_or(0);
    let scheme = scheme::of_type(arch.model_type);
    let mut facts = TensorFacts::default();
    let (mut tensors, mut left_out, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for (file, tensor) in gguf.tensors() {
        let mut leave_out = |reason: &str| {
            left_out.push(LeftOut {
                name: tensor.name.clone(),
                source_type: type_name(tensor.tag),
                reason: reason.to_owned(),
            });
        };
        let name = match names::hugging_face_name(arch, &tensor.name, false) {
            Mapped::Tensor(name) => name,
            Mapped::Harmless => {
                leave_out("readers compute it");
                continue;
            }
            Mapped::RopeFactors(which) => {
                let shard = &gguf.shards()[file];
                let list = small_floats(shard.path(), shard.file().bytes(), &tensor.name, tensor.ty, &tensor.bytes)?;
                let slot = match which {
                    RopeFactors::Always => &mut facts.rope.always,
                    RopeFactors::Long => &mut facts.rope.long,
                    RopeFactors::Short => &mut facts.rope.short,
                };
                *slot = Some(list);
                leave_out("its numbers stand in the config, as rotary scaling");
                continue;
            }
            Mapped::Unknown if tensor.ty.is_none() => {
                leave_out("integers, which carry no weights");
                continue;
            }
            Mapped::Unknown if ignore.contains(&tensor.name) => {
                leave_out("as asked");
                continue;
            }
            Mapped::Unknown => {
                unknown.push(tensor.name.as_str());
                continue;
            }
        };
        let Some(ty) = tensor.ty else {
            leave_out("integers, which carry no weights");
            continue;
        };
        if scheme.layer_of(&name).is_some_and(|n| n >= layers) {
            // Layers that foretell more tokens stand behind the others; of those files tell.
            if meta.uint(&format!("{}.nextn_predict_layers", arch.name))?.unwrap_or(0) == 0 {
                return Err(ImportError::malformed(
                    path,
                    format!("tensor `{}`", tensor.name),
                    format!("it belongs to a layer past the last, as key `{}.block_count` is {layers}", arch.name),
                    "Convert the model again with a current converter.",
                ));
            }
            leave_out(PAST);
            continue;
        }
        let order = match names::rotary_projection(&name).filter(|_| arch.interleaved) {
            Some(true) => RowOrder::Interleaved { heads: query_heads },
            Some(false) => RowOrder::Interleaved { heads: key_heads },
            None if arch.by_head && tensor.name.contains(".attn_qkv.") => RowOrder::ByHead { heads: query_heads },
            None if latent && name.ends_with(names::deepseek::KEYS) => RowOrder::TurnedHeads { heads: query_heads },
            None => RowOrder::Plain,
        };
        let shift = if arch.norms_plus_one && names::is_norm(&name) { -1.0 } else { 0.0 };
        let mut shape: Vec<u64> = tensor.dims.iter().rev().copied().collect();
        // A linear map of one row is a vector there.
        if shape.len() == 1 && name.ends_with("shared_expert_gate.weight") {
            shape.insert(0, 1);
        }
        // The heads of one matrix.
        match (order, shape.as_slice()) {
            (RowOrder::TurnedHeads { .. }, &[heads, rank, size]) => shape = vec![heads.saturating_mul(size), rank],
            (_, &[heads, size, rank]) if latent && name.ends_with(names::deepseek::VALUES) => {
                shape = vec![heads.saturating_mul(size), rank];
            }
            _ => {}
        }
        tensors.push(SourceTensor {
            name,
            source_name: tensor.name.clone(),
            shape,
            ty,
            shift,
            order,
            pieces: vec![Piece { file, bytes: tensor.bytes.clone() }],
        });
    }
    if !unknown.is_empty() {
        return Err(unknown_tensors(path, arch, &unknown));
    }
    let has = |name: &str| tensors.iter().any(|t: &SourceTensor| t.name == name);
    facts.has_head = has(&scheme.head_weight());
    let in_layer = |part: &str| has(&format!("{}{}.0.{part}", scheme.prefix, scheme.layers));
    facts.attention_bias = in_layer("self_attn.q_proj.bias")
        || in_layer("attention.query_key_value.bias")
        || in_layer("self_attn.kv_a_proj_with_mqa.bias");
    facts.mlp_bias = in_layer("mlp.down_proj.bias");
    facts.qk_norms = in_layer("self_attn.q_norm.weight");
    facts.keys_are_values = tensors.iter().any(|t| {
        let value =
            t.name.strip_suffix("self_attn.k_proj.weight").map(|layer| format!("{layer}self_attn.v_proj.weight"));
        value.is_some_and(|value| !has(&value))
    });
    let per_layer = format!("{}embed_tokens_per_layer.weight", scheme.prefix);
    facts.per_layer_rows = tensors.iter().find(|t| t.name == per_layer).and_then(|t| t.shape.first().copied());
    let table = scheme.embedding_weight();
    let embedding = tensors.iter().find(|t| t.name == table);
    let Some(embedding) = embedding else {
        return Err(missing_embedding(path, "token_embd.weight"));
    };
    facts.vocab_rows = embedding.shape.first().copied().unwrap_or(0);
    let mut config = config::gguf::read(meta, arch, &facts, ignore)?;
    let tokenizer = tokenizer::gguf::read(meta)?;
    let template = chat::template_of_gguf(meta, &mut config.warnings)?;
    let files = gguf.into_shards().into_iter().map(|s| s.into_file()).collect();
    let mut source = Source::new(files, in_order(tensors, scheme), left_out)?;
    if config.spec.name == "gemma4" {
        leave_shared_keys(&mut source, &config, scheme);
    }
    settle_head(&mut source, &mut config, path)?;
    Ok(Opened { source, config, tokenizer, template })
}

/// Opens a Hugging Face folder; its weights are those of `named`, a file in it, if one is given.
pub fn folder(path: &Path, named: Option<&Path>, ignore: &[String]) -> Result<Opened> {
    let mut config = config::hf::read(path)?;
    let verbatim = config.towers.is_some();
    let scheme = scheme::of_type(config.spec.name);
    let weights = find_weights(path, named)?;
    let layers = config.settings.get("num_hidden_layers").and_then(Value::as_u64).filter(|_| !verbatim);
    let layers = layers.unwrap_or(u64::MAX);
    let (mut tensors, mut left_out) = (Vec::new(), Vec::new());
    let mut seen: HashMap<String, String> = HashMap::new();
    let mut past = 0_usize;
    for (file, weights) in weights.files.iter().enumerate() {
        for tensor in weights.tensors() {
            let mut leave_out = |reason: &str| {
                left_out.push(LeftOut {
                    name: tensor.name.clone(),
                    source_type: tensor.dtype.name().to_owned(),
                    reason: reason.to_owned(),
                });
            };
            // Programs call tensors what their files do, but for what old files call the parameters of a norm.
            let name = match verbatim {
                true => names::family_name(config.spec.name, &tensor.name),
                false => scheme.usual_name(&tensor.name),
            };
            let Some(ty) = tensor.dtype.float() else {
                leave_out("a buffer of integers or truth values");
                continue;
            };
            if scheme.is_leftover(&name) {
                leave_out("a buffer that readers compute");
                continue;
            }
            if config.multimodal && scheme::is_other_tower(&tensor.name) {
                leave_out("it belongs to the part that sees pictures");
                continue;
            }
            if scheme.layer_of(&name).is_some_and(|n| n >= layers) {
                leave_out(PAST);
                past += 1;
                continue;
            }
            if ignore.contains(&tensor.name) || ignore.contains(&name) {
                leave_out("as asked");
                continue;
            }
            if let Some(other) = seen.insert(name.clone(), tensor.name.clone()) {
                return Err(ImportError::malformed(
                    weights.path(),
                    format!("tensor `{}`", clip(&tensor.name)),
                    format!("`{}` means the same, `{name}`", clip(&other)),
                    "Save the model again with a current library.",
                ));
            }
            let mut shape = if tensor.shape.is_empty() { vec![1] } else { tensor.shape.clone() };
            let turned = !verbatim && shape.len() == 2 && scheme.is_transposed(&name);
            if turned {
                shape.reverse();
            }
            tensors.push(SourceTensor {
                name,
                source_name: tensor.name.clone(),
                shape,
                ty,
                shift: 0.0,
                order: if turned { RowOrder::Transposed } else { RowOrder::Plain },
                pieces: vec![Piece { file, bytes: tensor.bytes.clone() }],
            });
        }
    }
    if past > 0 {
        config.warnings.push(format!(
            "`num_hidden_layers` is {layers}, and {past} tensors of layers past that are left out, as the library does."
        ));
    }
    let mut tokenizer = match tokenizer::json::read(path) {
        // Such a model works on ids, pictures or sound too.
        Err(error) if verbatim && error.is_unsupported() => {
            config.warnings.push(format!("The tokenizer is not taken over, so that the model takes ids: {error}"));
            None
        }
        read => read?,
    };
    if let Some(architecture) = &mut config.towers {
        sentences::apply(path, architecture, tokenizer.as_mut(), &mut config.warnings)?;
    } else if path.join("modules.json").is_file() {
        config.warnings.push(
            "What modules.json says about the vectors of texts is not read: this type of model continues texts.".into(),
        );
    }
    let template = chat::template_of_folder(path, &mut config.warnings)?;
    let files = weights.files.into_iter().map(|f| f.into_file()).collect();
    // Graphs take the experts of a layer as one tensor; programs call tensors what their files do.
    let tensors = if verbatim { tensors } else { experts::stacked(tensors, path)? };
    let mut source = Source::new(files, in_order(tensors, scheme), left_out)?;
    if config.spec.name == "gemma4" {
        leave_shared_keys(&mut source, &config, scheme);
    }
    if !verbatim {
        settle_head(&mut source, &mut config, path)?;
    }
    Ok(Opened { source, config, tokenizer, template })
}

/// A head that is tied: absent, the same bytes as the embedding, or, when it differs, not tied after all. A file with only
/// the head gives the embedding its values.
fn settle_head(source: &mut Source, config: &mut SourceConfig, path: &Path) -> Result<()> {
    let tied = match config.settings.get("tie_word_embeddings").and_then(Value::as_bool) {
        Some(tied) => tied,
        None => config
            .spec
            .keys
            .iter()
            .any(|(k, d)| *k == "tie_word_embeddings" && *d == config::defaults::Missing::Bool(true)),
    };
    let scheme = scheme::of_type(config.spec.name);
    let (table, matrix) = (scheme.embedding_weight(), scheme.head_weight());
    match (source.tensor(&table), source.tensor(&matrix)) {
        (Some(embedding), Some(head)) if tied => {
            if source.same(embedding, head) {
                source.leave_out(&matrix, "the same as the embedding, to which it is tied");
            } else {
                config.settings.insert("tie_word_embeddings".into(), false.into());
                config.warnings.push(
                    "The config ties the head to the embedding, and the file holds two that differ; they have been kept apart."
                        .into(),
                );
            }
            Ok(())
        }
        (Some(_), _) => Ok(()),
        (None, Some(_)) if tied => {
            source.rename(&matrix, &table);
            Ok(())
        }
        (None, _) => Err(missing_embedding(path, &table)),
    }
}

/// Leaves out the keys and values of the last layers of gemma4, which use those of earlier ones.
fn leave_shared_keys(source: &mut Source, config: &SourceConfig, scheme: &Scheme) {
    let number = |key: &str, default| config.settings.get(key).and_then(Value::as_u64).unwrap_or(default);
    let first = number("num_hidden_layers", 30).saturating_sub(number("num_kv_shared_layers", 0));
    let is_shared = |name: &str| {
        let parts = ["k_proj.", "v_proj.", "k_norm.", "v_norm."];
        let attention = name.split_once(".self_attn.");
        scheme.layer_of(name).is_some_and(|n| n >= first)
            && attention.is_some_and(|(_, part)| parts.iter().any(|p| part.starts_with(p)))
    };
    let names: Vec<String> = source.tensors().iter().map(|t| t.name.clone()).filter(|n| is_shared(n)).collect();
    for name in names {
        source.leave_out(&name, "its layer uses the keys and values of an earlier one");
    }
}

fn unknown_tensors(path: &Path, arch: &GgufArch, unknown: &[&str]) -> ImportError {
    ImportError::unsupported(
        path,
        "tensors",
        format!("architecture `{}` has no place here for {} of them: {}", arch.name, unknown.len(), names(unknown, 8)),
        "If the model works without them, leave them out with `--ignore-setting NAME`.",
    )
}

fn missing_embedding(path: &Path, name: &str) -> ImportError {
    ImportError::malformed(
        path,
        format!("tensor `{name}`"),
        "it is missing, and no model works without an embedding",
        "Check that this is the whole model, all of its shards and not an adapter.",
    )
}

/// Embedding first, then the layers by number, then what comes after them: files list tensors in any order.
fn in_order(mut tensors: Vec<SourceTensor>, scheme: &Scheme) -> Vec<SourceTensor> {
    let table = scheme.embedding_weight();
    let place = |t: &SourceTensor| match scheme.layer_of(&t.name) {
        _ if t.name == table => (0, 0),
        Some(layer) => (1, layer),
        None if scheme.is_last_norm(&t.name) => (2, 0),
        None => (3, 0),
    };
    // Within a layer the order of the file stays, which is that of use in most.
    tensors.sort_by_key(place);
    tensors
}

/// The numbers of a small tensor of floats.
fn small_floats(path: &Path, file: &[u8], name: &str, ty: Option<GgmlType>, bytes: &Range<usize>) -> Result<Vec<f32>> {
    let fail = |cause: String| {
        ImportError::malformed(
            path,
            format!("tensor `{}`", clip(name)),
            cause,
            "Convert the model again with a current converter.",
        )
    };
    let Some(ty) = ty else {
        return Err(fail("it holds integers, and must hold numbers".into()));
    };
    let data = file.get(bytes.clone()).unwrap_or(&[]);
    let values = data.len() / ty.block_bytes() * ty.block_len();
    if values > 1 << 16 {
        return Err(fail(format!("{values} rotary divisors are more than any head has")));
    }
    let mut out = vec![0.0; values];
    ty.decode(data, &mut out).map_err(|e| fail(e.to_string()))?;
    if let Some(bad) = out.iter().find(|x| !(x.is_finite() && **x > 0.0)) {
        return Err(fail(format!("{bad} is no rotary divisor: they are above 0")));
    }
    Ok(out)
}
