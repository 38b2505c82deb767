//! What the readers of all encoder types share: sizes, activations, prefixes, heads.

use super::{Attention, Counting, Norm, Pooling, Positions, Step};
use crate::families::decoder::{self, Rope};
use crate::families::{FamilyError, MOST_LAYERS, Settings, TensorShapes, ties_by_default};
use tallow_ir::ops::{Activation, Scaling};

/// The settings of sizes, under the names of a type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    pub hidden: &'static str,
    pub layers: &'static str,
    pub heads: &'static str,
    pub width: &'static str,
}

/// The names that most types use.
pub(super) const KEYS: Keys = Keys {
    hidden: "hidden_size",
    layers: "num_hidden_layers",
    heads: "num_attention_heads",
    width: "intermediate_size",
};

/// What missing keys mean for a type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    pub hidden: u32,
    pub layers: u32,
    pub heads: u32,
    pub width: u32,
    pub vocab: u32,
}

/// Sizes of an encoder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub hidden: u32,
    pub layers: u32,
    pub heads: u32,
    pub head_dim: u32,
    pub width: u32,
    pub vocab: u32,
}

/// Reads the sizes. `head_dim` is that of the config where the type honours one.
pub(super) fn sizes(
    settings: &mut Settings<'_>,
    keys: Keys,
    defaults: Defaults,
    head_dim: Option<u32>,
) -> Result<Sizes, FamilyError> {
    let hidden = settings.size(keys.hidden, defaults.hidden)?;
    let layers = settings.size(keys.layers, defaults.layers)?;
    if layers > MOST_LAYERS {
        let cause = format!("a model has at most {MOST_LAYERS} layers");
        return Err(settings.bad(keys.layers, layers, cause, "Correct it"));
    }
    let heads = settings.size(keys.heads, defaults.heads)?;
    let width = settings.size(keys.width, defaults.width)?;
    let vocab = settings.size("vocab_size", defaults.vocab)?;
    let head_dim = match head_dim {
        Some(dim) => dim,
        None if hidden.is_multiple_of(heads) => hidden / heads,
        None => {
            let cause = format!("it must divide `{}` = {hidden}", keys.hidden);
            return Err(settings.bad(keys.heads, heads, cause, "Correct one of them"));
        }
    };
    let lanes = u64::from(heads) * u64::from(head_dim);
    if lanes > 1 << 24 {
        let cause = format!("heads of {head_dim} lanes have {lanes} together");
        return Err(settings.bad(keys.heads, heads, cause, "Correct it"));
    }
    Ok(Sizes { hidden, layers, heads, head_dim, width, vocab })
}

/// Attention with separate projections that have biases.
pub(super) fn plain_attention(sizes: Sizes) -> Attention {
    let scale = (1.0 / f64::from(sizes.head_dim).sqrt()) as f32;
    Attention { heads: sizes.heads, head_dim: sizes.head_dim, fused: false, bias: true, out_bias: true, scale }
}

/// A norm with a bias.
pub(super) fn norm(settings: &Settings<'_>, default: f64) -> Result<Norm, FamilyError> {
    Ok(Norm { eps: settings.epsilon("layer_norm_eps", default)?, bias: true })
}

/// The activation under a key.
pub(in crate::families) fn activation(
    settings: &Settings<'_>,
    key: &str,
    default: &str,
) -> Result<Activation, FamilyError> {
    let name = settings.text(key)?.unwrap_or_else(|| default.to_owned());
    let found = match name.as_str() {
        "tanh" => Some(Activation::Tanh),
        "linear" => Some(Activation::Linear),
        name => decoder::Activation::from_name(name).map(|activation| match activation {
            decoder::Activation::Silu => Activation::Silu,
            decoder::Activation::Gelu => Activation::Gelu,
            decoder::Activation::GeluTanh => Activation::GeluTanh,
            decoder::Activation::QuickGelu => Activation::QuickGelu,
            decoder::Activation::Relu => Activation::Relu,
            decoder::Activation::ReluSquared => Activation::ReluSquared,
        }),
    };
    found.ok_or_else(|| {
        let known: Vec<_> = decoder::Activation::NAMES.iter().map(|(n, _)| *n).chain(["tanh", "linear"]).collect();
        let cause = format!("known activations are {}", known.join(", "));
        let shown: String = name.chars().take(60).collect();
        settings.unsupported(key, format!("\"{shown}\""), cause, "Use a program or a graph section for another one")
    })
}

/// The first of `prefixes` under which the tensor `probe` is there, which may be the empty one; else the first one.
pub(in crate::families) fn prefix(tensors: &dyn TensorShapes, prefixes: &[&str], probe: &str) -> String {
    let found = prefixes.iter().copied().chain([""]).find(|p| tensors.shape(&format!("{p}{probe}.weight")).is_some());
    found.or(prefixes.first().copied()).unwrap_or_default().to_owned()
}

/// The table of positions of a text.
pub(super) fn positions(
    settings: &mut Settings<'_>,
    tensor: String,
    default: u32,
    counting: Counting,
) -> Result<Positions, FamilyError> {
    let kind = settings.text("position_embedding_type")?;
    if let Some(kind) = kind.filter(|kind| kind != "absolute") {
        return Err(settings.unsupported(
            "position_embedding_type",
            format!("\"{}\"", kind.chars().take(60).collect::<String>()),
            "positions relative to each other are not built for this type",
            "Use a program or a graph section",
        ));
    }
    Ok(Positions { tensor, rows: settings.size("max_position_embeddings", default)?, counting })
}

/// Refuses models that see earlier tokens alone.
pub(super) fn both_directions(settings: &Settings<'_>) -> Result<(), FamilyError> {
    match settings.flag("is_decoder", false)? {
        false => Ok(()),
        true => Err(settings.unsupported(
            "is_decoder",
            true,
            "attention to earlier tokens alone is not built for this type",
            "Use a program or a graph section",
        )),
    }
}

/// Refuses rotations that follow the length of a call, which here is that of a whole batch.
pub(super) fn any_length(settings: &Settings<'_>, rope: Rope) -> Result<Rope, FamilyError> {
    match rope.scaling {
        Scaling::Dynamic | Scaling::LongRope => Err(settings.unsupported(
            "rope_scaling",
            if rope.scaling == Scaling::Dynamic { "dynamic" } else { "longrope" },
            "its frequencies would follow the length of a batch, not that of each text",
            "Use another scaling",
        )),
        _ => Ok(rope),
    }
}

/// What the class names of a config say that a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Labels of texts.
    Texts,
    /// Labels of tokens.
    Tokens,
}

/// Refuses classes that answer what is not asked here: which of several texts goes on, or whether one follows another.
pub(super) fn refuse_other_tasks(settings: &Settings<'_>) -> Result<(), FamilyError> {
    let names = settings.texts("architectures")?.unwrap_or_default();
    let other =
        |name: &&String| ["ForMultipleChoice", "ForNextSentencePrediction"].iter().any(|end| name.ends_with(end));
    match names.iter().find(other) {
        Some(name) => Err(settings.unsupported(
            "architectures",
            name,
            "its head is not built",
            "Remove the key to have vectors of texts, or use a program",
        )),
        None => Ok(()),
    }
}

/// The task that `architectures` names, if it is one of labels.
pub(super) fn task(settings: &Settings<'_>) -> Result<Option<Task>, FamilyError> {
    let names = settings.texts("architectures")?.unwrap_or_default();
    Ok(names.iter().find_map(|name| match name {
        n if n.ends_with("ForSequenceClassification") => Some(Task::Texts),
        n if n.ends_with("ForTokenClassification") => Some(Task::Tokens),
        _ => None,
    }))
}

/// The labels of a classifier whose last matrix is `name`: as many as it has rows.
pub(in crate::families) fn labels(
    settings: &Settings<'_>,
    tensors: &dyn TensorShapes,
    name: &str,
) -> Result<u32, FamilyError> {
    let rows = tensors.shape(&format!("{name}.weight")).and_then(|shape| shape.first().copied()).unwrap_or(0);
    let rows = u32::try_from(rows).unwrap_or(0);
    match settings.texts("labels")? {
        Some(labels) if labels.len() != rows as usize => Err(settings.bad(
            "labels",
            format!("a list of {}", labels.len()),
            format!("`{name}.weight` gives {rows} labels"),
            "Correct the list",
        )),
        _ => Ok(rows),
    }
}

/// How texts without a head are pooled, and whether the result is scaled to the length 1.
pub(super) fn pooling(settings: &mut Settings<'_>, has_head: bool) -> Result<(Pooling, bool), FamilyError> {
    let (key, lengths) = ("pooling", "normalize_embeddings");
    if has_head {
        for key in [key, lengths] {
            if settings.contains(key) {
                let path = settings.path(key);
                settings.note(format!("`{path}` has no effect: the model has a head, which gives no embeddings"));
            }
        }
    }
    let pooling = match settings.text(key)?.as_deref() {
        None | Some("mean") => Pooling::Mean,
        Some("cls") => Pooling::First,
        Some("max") => Pooling::Max,
        Some(other) => {
            let shown: String = other.chars().take(60).collect();
            return Err(settings.unsupported(
                key,
                format!("\"{shown}\""),
                "known ways are cls, mean, max",
                "Use a program or a graph section for another one",
            ));
        }
    };
    Ok((pooling, settings.flag(lengths, false)?))
}

/// The last step of a head of words: the matrix `decoder`, or that of the table `words` where they are tied, and the
/// first of `biases` that is there. Gives the step, and the other tensors that say the same.
pub(super) fn words(
    settings: &Settings<'_>,
    tensors: &dyn TensorShapes,
    decoder: &str,
    words: &str,
    shape: [u32; 2],
    biases: &[String],
) -> Result<(Step, Vec<String>), FamilyError> {
    let has = |name: &String| tensors.shape(name).is_some();
    let tied = settings.flag("tie_word_embeddings", ties_by_default(settings.model_type()))?;
    let (own, table) = (format!("{decoder}.weight"), format!("{words}.weight"));
    let weight = if has(&own) || !tied { own } else { table };
    let bias = biases.iter().find(|name| has(name)).or(biases.first()).cloned();
    let idle = biases.iter().filter(|name| has(name) && bias.as_ref() != Some(name)).cloned().collect();
    Ok((Step::Linear { weight, shape, bias }, idle))
}
