//! Settings of encoders of texts and of t5, under the names that their families read.

use serde_json::{Map, Value as Json};

use super::keys::Keys;
use super::{about, spec_of};
use crate::config::SourceConfig;
use crate::error::{ImportError, Result, clip};
use crate::gguf::GgufFile;
use crate::names::GgufArch;

/// Facts that only the tensors tell.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerbatimFacts {
    /// Rows of the embedding.
    pub vocab_rows: u64,
    /// Rows of the table of token types.
    pub type_rows: Option<u64>,
    /// The feed-forwards have gates.
    pub gated: bool,
    /// The head is the embedding.
    pub tied: bool,
}

/// How far apart two tokens have a bias of their own in t5. No key says it: the reader of GGUF knows no other number.
const FARTHEST: u64 = 128;

/// Reads the settings of a file of a type whose settings are taken over as they are.
pub fn read(file: &GgufFile, arch: &'static GgufArch, facts: VerbatimFacts, ignore: &[String]) -> Result<SourceConfig> {
    let keys = Keys::new(file, arch);
    let spec = spec_of(file, arch.model_type)?;
    let mut warnings = Vec::new();
    let mut out = Map::new();
    out.insert("vocab_size".into(), facts.vocab_rows.into());
    keys.uint("vocab_size")?;
    match arch.name {
        "t5" => t5(&mut out, &keys, facts)?,
        _ => {
            encoder(&mut out, &keys, facts)?;
            pooling(&mut out, &keys, &mut warnings)?;
        }
    }
    keys.refuse_unread(ignore, &mut warnings)?;
    about::source_config(file, spec, out.clone(), Some(out), warnings)
}

/// bert, distilbert and nomic_bert. The activation has no key: readers take the usual one of each.
fn encoder(out: &mut Map<String, Json>, keys: &Keys<'_>, facts: VerbatimFacts) -> Result<()> {
    let distilled = keys.arch.model_type == "distilbert";
    let (hidden, heads) = (keys.needed("embedding_length")?, keys.needed("attention.head_count")?);
    let usual = ["hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size"];
    let names = if distilled { ["dim", "n_heads", "n_layers", "hidden_dim"] } else { usual };
    let sizes = [hidden, heads, keys.needed("block_count")?, keys.needed("feed_forward_length")?];
    for (name, size) in names.into_iter().zip(sizes) {
        out.insert(name.into(), size.into());
    }
    out.insert("max_position_embeddings".into(), keys.needed("context_length")?.into());
    same_heads(keys, heads)?;
    let head_dim = super::head_dim(keys, hidden, heads)?;
    if keys.arch.name == "bert" && head_dim.checked_mul(heads) != Some(hidden) {
        let cause = format!("{heads} heads of {head_dim} have not the {hidden} values of the model together");
        return Err(keys.unsupported("attention.key_length", cause));
    }
    if keys.bool("attention.causal")? == Some(true) {
        let cause = "attention to earlier tokens alone is not read for this architecture";
        return Err(keys.unsupported("attention.causal", cause.into()));
    }
    let short = "attention.layer_norm_epsilon";
    let epsilon = keys.needed_float(short)?;
    if distilled {
        if epsilon as f32 != 1e-12 {
            let cause = format!("it is {epsilon}; distilbert, as which a file without token types is read, has 1e-12");
            return Err(keys.unsupported(short, cause));
        }
        out.insert("activation".into(), "gelu".into());
        return Ok(());
    }
    out.insert("layer_norm_eps".into(), epsilon.into());
    out.insert("type_vocab_size".into(), types(keys, facts)?.into());
    if keys.arch.name == "nomic-bert" {
        out.insert("head_dim".into(), head_dim.into());
        // As for decoders: what readers take for a missing key.
        out.insert("rope_theta".into(), keys.float("rope.freq_base")?.unwrap_or(10_000.0).into());
        if let Some(kind) = keys.text("rope.scaling.type")?.filter(|kind| kind != "none") {
            return Err(keys.unsupported("rope.scaling.type", format!("scaling `{}` is not read here", clip(&kind))));
        }
    }
    out.insert("hidden_act".into(), if keys.arch.name == "bert" { "gelu" } else { "silu" }.into());
    Ok(())
}

/// The number of token types.
fn types(keys: &Keys<'_>, facts: VerbatimFacts) -> Result<u64> {
    let Some(rows) = facts.type_rows else {
        let cure = "Check that this is the whole model, all of its shards.";
        return Err(ImportError::malformed(keys.file.path(), "tensor `token_types.weight`", "it is missing", cure));
    };
    let key = "tokenizer.ggml.token_type_count";
    match keys.file.uint(key)?.filter(|&count| count != rows) {
        Some(count) => {
            Err(keys.file.wrong(key, &count.to_string(), &format!("{rows}, the rows of `token_types.weight`")))
        }
        None => Ok(rows),
    }
}

/// Refuses keys and values that several heads of queries share.
fn same_heads(keys: &Keys<'_>, heads: u64) -> Result<()> {
    match keys.uint("attention.head_count_kv")?.filter(|&kv| kv != heads) {
        Some(kv) => {
            Err(keys.unsupported("attention.head_count_kv", format!("it is {kv}, and {heads} heads of queries")))
        }
        None => Ok(()),
    }
}

/// How vectors of texts are made of those of their tokens.
fn pooling(out: &mut Map<String, Json>, keys: &Keys<'_>, warnings: &mut Vec<String>) -> Result<()> {
    let name = match keys.uint("pooling_type")? {
        None | Some(0) => return Ok(()),
        Some(1) => "mean",
        Some(2) => "cls",
        Some(other) => {
            let cause = match other {
                3 => "the vector of the last token is not read".to_owned(),
                4 => "a head that ranks texts is not read from GGUF".to_owned(),
                _ => format!("{other} is no way of pooling that is known"),
            };
            return Err(keys.unsupported("pooling_type", cause));
        }
    };
    out.insert("pooling".into(), name.into());
    warnings.push(
        "A GGUF file does not say whether vectors of texts are scaled to the length 1; they are given as they are."
            .into(),
    );
    Ok(())
}

/// t5, and mt5 under its name. What has no key, gates tell: the activation is relu without them and the tanh form of gelu
/// with them, as in the reader of such files, and only the first t5, which has none, scales what goes into its head.
fn t5(out: &mut Map<String, Json>, keys: &Keys<'_>, facts: VerbatimFacts) -> Result<()> {
    let layers = keys.needed("block_count")?;
    let (hidden, heads) = (keys.needed("embedding_length")?, keys.needed("attention.head_count")?);
    same_heads(keys, heads)?;
    let head_dim = super::head_dim(keys, hidden, heads)?;
    for (key, value) in [
        ("d_model", hidden),
        ("d_kv", head_dim),
        ("d_ff", keys.needed("feed_forward_length")?),
        ("num_heads", heads),
        ("num_layers", layers),
        ("num_decoder_layers", keys.uint("decoder_block_count")?.unwrap_or(layers)),
        ("relative_attention_num_buckets", keys.needed("attention.relative_buckets_count")?),
        ("relative_attention_max_distance", FARTHEST),
        ("decoder_start_token_id", keys.needed("decoder_start_token_id")?),
    ] {
        out.insert(key.into(), value.into());
    }
    // Positions have no table, so that texts may be longer.
    keys.uint("context_length")?;
    out.insert("layer_norm_epsilon".into(), keys.needed_float("attention.layer_norm_rms_epsilon")?.into());
    out.insert("feed_forward_proj".into(), if facts.gated { "gated-gelu" } else { "relu" }.into());
    out.insert("tie_word_embeddings".into(), facts.tied.into());
    out.insert("scale_decoder_outputs".into(), (facts.tied && !facts.gated).into());
    Ok(())
}
