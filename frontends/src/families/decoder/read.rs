//! What the readers of all decoder types share: sizes, head sizes, names, the head, activations.

use super::{Activation, Embedding, Head, Names};
use crate::families::{FamilyError, Settings, TensorShapes, ties_by_default};

/// What missing keys mean for a type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    pub hidden: u32,
    pub width: u32,
    pub layers: u32,
    pub heads: u32,
    /// Key/value heads; 0 for as many as there are query heads.
    pub kv_heads: u32,
    /// Size of a head; 0 for hidden/heads.
    pub head_dim: u32,
    pub vocab: u32,
    /// ε of the norms.
    pub eps: f64,
    /// Theta of the rotation (of full layers, where it differs by layer).
    pub theta: f64,
    pub max_positions: u32,
    /// The key of the activation, and what it is without that key.
    pub activation: (&'static str, Activation),
}

/// Sizes of a decoder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub hidden: u32,
    pub width: u32,
    pub layers: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub vocab: u32,
}

/// Reads the sizes. A head size that the config leaves out follows from the rows of the projection,
/// and so do the key/value heads where the type's default and the number of heads differ.
pub(super) fn sizes(
    settings: &mut Settings<'_>,
    defaults: Defaults,
    names: &Names,
    tensors: &dyn TensorShapes,
) -> Result<Sizes, FamilyError> {
    let hidden = settings.size("hidden_size", defaults.hidden)?;
    let width = settings.size("intermediate_size", defaults.width)?;
    let layers = settings.layers(defaults.layers)?;
    let heads = settings.size("num_attention_heads", defaults.heads)?;
    let vocab = settings.size("vocab_size", defaults.vocab)?;

    let rows = |part: &str| -> Option<u64> {
        let shape = tensors.shape(&format!("{}.weight", names.in_layer(0, part)))?;
        shape.first().copied()
    };
    let given_kv = settings.optional_size("num_key_value_heads")?;
    let given_dim = settings.optional_size("head_dim")?;
    let q_rows = rows(names.q);

    let head_dim = match given_dim {
        Some(d) => {
            check_head_dim(settings, d, heads, q_rows)?;
            d
        }
        None => {
            let fused = rows(names.qkv).map(|n| {
                let kv = given_kv.unwrap_or(heads);
                (n, u64::from(heads) + 2 * u64::from(kv))
            });
            let (n, parts) =
                q_rows.map(|n| (n, u64::from(heads))).or(fused).unwrap_or_else(|| match defaults.head_dim {
                    0 => (hidden.into(), heads.into()),
                    d => (d.into(), 1),
                });
            match u32::try_from(n / parts) {
                Ok(d) if d > 0 && n % parts == 0 => d,
                _ => {
                    return Err(settings.bad(
                        "num_attention_heads",
                        heads,
                        format!("{n} rows of projections, or lanes, are no multiple of {parts} heads"),
                        "Correct it, or set `head_dim`",
                    ));
                }
            }
        }
    };

    let kv_heads = match given_kv {
        Some(n) => n,
        None => {
            let default = if defaults.kv_heads == 0 { heads } else { defaults.kv_heads };
            let fits = |n: u32| rows(names.k) == Some(u64::from(n) * u64::from(head_dim));
            if fits(default) { default } else { heads }
        }
    };
    if heads % kv_heads != 0 {
        return Err(settings.bad(
            "num_key_value_heads",
            kv_heads,
            format!("it must divide `num_attention_heads` = {heads}"),
            "Correct one of them",
        ));
    }
    let widest = u64::from(heads) * u64::from(head_dim);
    if widest > 1 << 28 {
        return Err(settings.bad(
            "head_dim",
            head_dim,
            format!("{heads} heads of this size have {widest} lanes"),
            "Correct it",
        ));
    }
    Ok(Sizes { hidden, width, layers, heads, kv_heads, head_dim, vocab })
}

fn check_head_dim(settings: &Settings<'_>, head_dim: u32, heads: u32, q_rows: Option<u64>) -> Result<(), FamilyError> {
    let wanted = u64::from(heads) * u64::from(head_dim);
    let Some(rows) = q_rows.filter(|n| *n != wanted) else {
        return Ok(());
    };
    let cure = match rows % u64::from(heads) {
        0 => format!("`head_dim` = {} would fit", rows / u64::from(heads)),
        _ => "No `head_dim` fits: correct `num_attention_heads` as well".into(),
    };
    Err(settings.bad(
        "head_dim",
        head_dim,
        format!("with {heads} heads the query projection of layer 0 needs {wanted} rows and has {rows}"),
        cure,
    ))
}

/// The names of the llama scheme under whichever prefix the tensors have.
pub(super) fn llama_names(tensors: &dyn TensorShapes) -> Names {
    let prefixes = ["model.", "", "language_model.model.", "model.language_model."];
    let known =
        |p: &&str| ["embed_tokens.weight", "norm.weight"].iter().any(|n| tensors.shape(&format!("{p}{n}")).is_some());
    Names::llama(prefixes.iter().copied().find(|p| known(p)).unwrap_or("model."))
}

/// The embedding table and the head matrix: a head that is present is used, a missing one is the
/// embedding if the config ties them, and a missing embedding is then the head.
pub(super) fn tables(
    settings: &Settings<'_>,
    names: &Names,
    tensors: &dyn TensorShapes,
) -> Result<(Embedding, Head), FamilyError> {
    let tied = settings.flag("tie_word_embeddings", ties_by_default(settings.model_type()))?;
    let embed = format!("{}embed_tokens.weight", names.prefix);
    let has = |n: &str| tensors.shape(n).is_some();
    let heads = ["lm_head.weight", "language_model.lm_head.weight"];
    let head = heads.into_iter().find(|n| has(n)).map(str::to_owned);
    let (embed, head) = match (head, tied) {
        (Some(head), true) if !has(&embed) => (head.clone(), head),
        (Some(head), _) => (embed, head),
        (None, true) => (embed.clone(), embed),
        // Named as missing by the builder, with everything else that is.
        (None, false) => (embed, heads[0].to_owned()),
    };
    let embedding = Embedding { tensor: embed, scale: 1.0 };
    let head = Head { tensor: head, scale: 1.0, softcap: None };
    Ok((embedding, head))
}

/// Whether queries see only the past: `is_causal`, which any decoder type honours. Windows count
/// differently without it, so both together are refused.
pub(super) fn causal(settings: &Settings<'_>, windows: &[Option<u32>]) -> Result<bool, FamilyError> {
    if settings.flag("is_causal", true)? {
        return Ok(true);
    }
    if windows.iter().all(Option::is_none) {
        return Ok(false);
    }
    Err(settings.unsupported(
        "is_causal",
        false,
        "windows that reach in both directions are not built",
        "Remove the window, or use a program",
    ))
}
