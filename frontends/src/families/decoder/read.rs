//! What the readers of all decoder types share: sizes, head sizes, names, the head, activations.

use super::{
    Activation, Attention, DecoderSpec, Embedding, FeedForward, Gate, Head, HeadNorm, Names, Norm, NormPlaces,
    Projections,
};
use crate::families::{FamilyError, Settings, TensorShapes, ties_by_default};

/// What missing keys mean for a type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    pub hidden: u32,
    /// Width of the feed-forward; 0 for four times `hidden_size`.
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
    let width = settings.size("intermediate_size", if defaults.width == 0 { 4 * hidden } else { defaults.width })?;
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
    let prefixes = ["", "language_model.model.", "model.language_model."];
    with_prefix(Names::llama("model."), &prefixes, tensors)
}

/// Names under whichever of their own prefix and `others` the tensors have.
pub(super) fn with_prefix(names: Names, others: &[&str], tensors: &dyn TensorShapes) -> Names {
    let known = |p: &&str| {
        [names.embedding, names.final_norm].iter().any(|n| tensors.shape(&format!("{p}{n}.weight")).is_some())
    };
    let prefix = [names.prefix.as_str()].iter().chain(others).find(|p| known(p)).map(|p| (*p).to_owned());
    match prefix {
        Some(prefix) => Names { prefix, ..names },
        None => names,
    }
}

/// An error where heads are not `hidden_size` / `num_attention_heads` wide, or key/value heads not as many as query
/// heads although `all` are: types that know no other ones.
pub(super) fn plain_heads(settings: &Settings<'_>, sizes: Sizes, all: bool) -> Result<(), FamilyError> {
    if u64::from(sizes.heads) * u64::from(sizes.head_dim) != u64::from(sizes.hidden) {
        return Err(settings.bad(
            "head_dim",
            sizes.head_dim,
            format!("this type splits `hidden_size` = {} into {} heads", sizes.hidden, sizes.heads),
            "Correct one of them",
        ));
    }
    if all && sizes.kv_heads != sizes.heads {
        return Err(settings.bad(
            "num_key_value_heads",
            sizes.kv_heads,
            format!("this type has as many as query heads, {}", sizes.heads),
            "Remove the key",
        ));
    }
    Ok(())
}

/// The embedding table and the head matrix: a head that is present is used, a missing one is the
/// embedding if the config ties them, and a missing embedding is then the head.
pub(super) fn tables(
    settings: &Settings<'_>,
    names: &Names,
    tensors: &dyn TensorShapes,
) -> Result<(Embedding, Head), FamilyError> {
    let tied = settings.flag("tie_word_embeddings", ties_by_default(settings.model_type()))?;
    let embed = format!("{}{}.weight", names.prefix, names.embedding);
    let has = |n: &str| tensors.shape(n).is_some();
    let own = format!("{}.weight", names.head);
    let heads = [own.as_str(), "lm_head.weight", "language_model.lm_head.weight"];
    let head = heads.into_iter().find(|n| has(n)).map(str::to_owned);
    let (embed, head) = match (head, tied) {
        (Some(head), true) if !has(&embed) => (head.clone(), head),
        (Some(head), _) => (embed, head),
        (None, true) => (embed.clone(), embed),
        // Named as missing by the builder, with everything else that is.
        (None, false) => (embed, own),
    };
    let embedding = Embedding { tensor: embed, scale: 1.0, positions: None };
    let head = Head { tensor: head, bias: None, scale: 1.0, softcap: None };
    Ok((embedding, head))
}

/// What all types share: no biases, no norms of heads, one gated feed-forward in matrices of its own, norms before the
/// branches; layers are still to come.
pub(super) fn plain(
    s: &mut Settings<'_>,
    tensors: &dyn TensorShapes,
    defaults: Defaults,
    names: Names,
    norm: Norm,
) -> Result<(DecoderSpec, Sizes), FamilyError> {
    let sizes = sizes(s, defaults, &names, tensors)?;
    Ok((of_sizes(s, tensors, defaults, names, sizes, norm)?, sizes))
}

/// The same of sizes that have been read.
pub(super) fn of_sizes(
    s: &mut Settings<'_>,
    tensors: &dyn TensorShapes,
    defaults: Defaults,
    names: Names,
    sizes: Sizes,
    norm: Norm,
) -> Result<DecoderSpec, FamilyError> {
    let (embedding, head) = tables(s, &names, tensors)?;
    Ok(DecoderSpec {
        model_type: s.model_type(),
        vocab: sizes.vocab,
        hidden: sizes.hidden,
        names,
        embedding,
        norm,
        places: NormPlaces::Before,
        residual_scale: 1.0,
        attention: Attention {
            heads: sizes.heads,
            kv_heads: sizes.kv_heads,
            head_dim: sizes.head_dim,
            projections: Projections::Separate,
            qkv_bias: false,
            out_bias: false,
            head_norm: HeadNorm::Off,
            scale: None,
            scale_by_depth: false,
            softcap: None,
            causal: true,
            latent: None,
        },
        feed_forward: FeedForward {
            width: sizes.width,
            gate: Gate::Separate,
            activation: s.activation(defaults.activation.0, defaults.activation.1)?,
            bias: false,
        },
        layers: Vec::new(),
        head,
    })
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
