//! Families: builders from a config, and the tensors beside it, to a graph.
//!
//! A family is chosen by `model_type` alone ([`canonical_type`]); every other key refines it. All
//! decoders share one description, [`decoder::DecoderSpec`], and one builder. Missing keys take the
//! default of the type, as the `transformers` library has it. A key that is present, may change the
//! result and is not read is an error, not a surprise in the output.

pub mod decoder;
pub mod encoder;
mod error;
pub mod experts;
pub mod parts;
pub mod seq2seq;
mod settings;
mod shapes;
pub mod vision;
pub mod vision_language;

pub use error::{FamilyError, Misshapen, TensorFaults};
pub use settings::{MOST_LAYERS, PROCESSOR, Settings};
pub use shapes::{TensorShapes, dtype_of};

use crate::nearest::nearest;
use crate::program::module::Driver;
use decoder::{
    DecoderSpec, cohere, deepseek, gemma, gemma4, gpt_neox, gpt2, llama, olmo2, phi, sparse, stablelm, starcoder2,
};
use encoder::{bert, deberta, modern};
use parts::Parts;
use seq2seq::{Speech, bart, t5, whisper};
use std::collections::HashSet;
use tallow_format::Config;
use tallow_ir::{DType, Graph, IrError, Value};
use vision::{convnext, dinov2, pair, resnet, vit};
use vision_language::Sight;

/// A graph built from a config, and what the builder noticed on the way.
#[derive(Clone, Debug)]
pub struct Family {
    /// The canonical type that built it.
    pub model_type: &'static str,
    /// The graph as built: logits for every position, nothing fused.
    pub graph: Graph,
    /// The graph that runs once before a text, whose outputs are inputs of the other.
    pub once: Option<Graph>,
    /// How text is generated, where it does not simply go on from a prompt.
    pub driver: Option<Driver>,
    /// How sound becomes text, where it hears.
    pub speech: Option<Speech>,
    /// How pictures become part of a text, where it sees.
    pub sight: Option<Sight>,
    /// Things worth telling: keys without effect, tensors that are not read.
    pub notes: Vec<String>,
    /// Tensors that the graph does not read, apart from buffers that carry nothing.
    pub unread_tensors: Vec<String>,
}

impl Family {
    /// The weights that the graph reads, in order of first use.
    pub fn weights(&self) -> impl Iterator<Item = (&str, Value)> {
        let once = self.once.iter().flat_map(Graph::weights);
        once.chain(self.graph.weights())
    }
}

/// Builds the graph of a config whose tensors have these shapes.
///
/// The graph of a decoder maps `input_ids` (i64 `[S]`) to `logits` (f32 `[S, vocab]`); [`encoder`] and [`vision`] say what those
/// of encoders and of models of pictures do.
///
/// # Errors
/// An unknown type; a setting that is wrong, not supported or not read; tensors that are missing or
/// do not fit, all of them in one error.
pub fn build(config: &Config, tensors: &dyn TensorShapes) -> Result<Family, FamilyError> {
    let family = family_of(config.model_type())?;
    let (described, mut settings) = read(family, config, tensors)?;
    settings.finish(family.ignored)?;
    let (mut once, mut driver, mut speech, mut sight, mut passed) = (None, None, None, None, HashSet::new());
    let graph = match described {
        Described::Decoder(spec) => decoder::build(&spec, tensors, settings.defaulted())?,
        Described::Other(model) => {
            let fault = |source| FamilyError::Graph { model_type: family.name.to_owned(), source };
            let mut parts = Parts::new(family.name, tensors);
            if model.once(&mut parts).map_err(fault)? {
                once = Some(parts.take_graph());
            }
            model.build(&mut parts).map_err(fault)?;
            driver = model.driver();
            speech = model.speech();
            sight = model.sight();
            passed = parts.passed().clone();
            parts.finish(settings.defaulted())?
        }
    };
    let mut notes: Vec<String> = Vec::new();
    for note in settings.take_notes() {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let graphs = [Some(&graph), once.as_ref()];
    let (unread_tensors, idle_biases) = unread(graphs.into_iter().flatten(), &passed, tensors);
    if !idle_biases.is_empty() {
        notes.push(format!(
            "the config of this `{}` says that there are no such biases: {}",
            family.name,
            listed(&idle_biases)
        ));
    }
    if !unread_tensors.is_empty() {
        let s = if unread_tensors.len() == 1 { " is" } else { "s are" };
        notes.push(format!("{} tensor{s} not read: {}", unread_tensors.len(), listed(&unread_tensors)));
    }
    Ok(Family { model_type: family.name, graph, once, driver, speech, sight, notes, unread_tensors })
}

/// Reads a config into the description that [`build`] works from.
///
/// # Errors
/// As [`build`], apart from unread settings and from tensors.
pub fn describe(config: &Config, tensors: &dyn TensorShapes) -> Result<Described, FamilyError> {
    Ok(read(family_of(config.model_type())?, config, tensors)?.0)
}

/// The description of a decoder, by the rules of llama where the type has none: keys that llama does not know are not
/// read.
///
/// # Errors
/// As [`describe`].
pub(crate) fn describe_any(config: &Config, tensors: &dyn TensorShapes) -> Result<DecoderSpec, FamilyError> {
    let reader = family_of(config.model_type()).map(|family| (family.name, &family.reader));
    let (name, read) = match reader {
        Ok((name, Reader::Decoder(read))) => (name, *read),
        _ => ("llama", llama::llama as ReadDecoder),
    };
    let mut settings = Settings::new(config.architecture(), name);
    let spec = read(&mut settings, tensors)?;
    if spec.attention.latent.is_some() {
        return Err(settings.unsupported(
            "kv_lora_rank",
            "a size",
            "a program has no call for attention whose keys and values come from narrow rows",
            "Write its projections out, or leave the program away: the family of this type has them",
        ));
    }
    Ok(spec)
}

/// What a config describes.
pub enum Described {
    /// A decoder that [`DecoderSpec`] can say.
    Decoder(Box<DecoderSpec>),
    /// Another network, with a builder of its own.
    Other(Box<dyn Build>),
}

/// A network whose settings have been read.
pub trait Build {
    /// Puts its graph together: inputs, operations, outputs.
    ///
    /// # Errors
    /// Operations that do not fit together. Missing tensors are none: [`Parts::weight`] gathers those.
    fn build(&self, parts: &mut Parts<'_>) -> Result<(), IrError>;

    /// Puts the graph together that runs once before a text, and gives its outputs to inputs of the same names of the
    /// other; `false` for a network without one.
    ///
    /// # Errors
    /// As [`Build::build`].
    fn once(&self, parts: &mut Parts<'_>) -> Result<bool, IrError> {
        let _ = parts;
        Ok(false)
    }

    /// How it generates text, where it does not simply go on from a prompt.
    fn driver(&self) -> Option<Driver> {
        None
    }

    /// How sound becomes text, where it hears.
    fn speech(&self) -> Option<Speech> {
        None
    }

    /// How pictures become part of a text, where it sees.
    fn sight(&self) -> Option<Sight> {
        None
    }
}

/// The canonical name of a `model_type`, which may be an alias; `None` for an unknown one.
pub fn canonical_type(model_type: &str) -> Option<&'static str> {
    TYPES.iter().find(|t| t.name == model_type || t.aliases.contains(&model_type)).map(|t| t.name)
}

/// Every `model_type` that has a family, aliases included, sorted.
pub fn known_types() -> Vec<&'static str> {
    let mut names: Vec<_> = TYPES.iter().flat_map(|t| t.aliases.iter().copied().chain([t.name])).collect();
    names.sort_unstable();
    names
}

/// Whether a type's output head is its table of embeddings when the config does not say; false for
/// an unknown type.
pub fn ties_by_default(model_type: &str) -> bool {
    TYPES.iter().any(|t| t.tied && (t.name == model_type || t.aliases.contains(&model_type)))
}

/// One type: how its config is read.
struct FamilyType {
    name: &'static str,
    aliases: &'static [&'static str],
    /// Whether the output head is the table of embeddings unless the config says otherwise.
    tied: bool,
    reader: Reader,
    /// Keys that this type is known not to read, whatever they say.
    ignored: &'static [&'static str],
}

type ReadDecoder = fn(&mut Settings<'_>, &dyn TensorShapes) -> Result<DecoderSpec, FamilyError>;

type ReadOther = fn(&mut Settings<'_>, &dyn TensorShapes) -> Result<Box<dyn Build>, FamilyError>;

/// What reads the settings of a type.
enum Reader {
    Decoder(ReadDecoder),
    Other(ReadOther),
}

/// Every type.
const TYPES: &[FamilyType] = &[
    FamilyType { name: "bart", aliases: &[], tied: true, reader: Reader::Other(bart::bart), ignored: seq2seq::IGNORED },
    FamilyType { name: "bert", aliases: &[], tied: true, reader: Reader::Other(bert::bert), ignored: encoder::IGNORED },
    FamilyType { name: "clip", aliases: &[], tied: false, reader: Reader::Other(pair::clip), ignored: vision::IGNORED },
    FamilyType {
        name: "clip_text_model",
        aliases: &[],
        tied: false,
        reader: Reader::Other(pair::clip_text),
        ignored: vision::IGNORED,
    },
    FamilyType {
        name: "clip_vision_model",
        aliases: &[],
        tied: false,
        reader: Reader::Other(pair::clip_vision),
        ignored: vision::IGNORED,
    },
    FamilyType { name: "cohere", aliases: &[], tied: true, reader: Reader::Decoder(cohere::cohere), ignored: &[] },
    FamilyType {
        name: "convnext",
        aliases: &[],
        tied: false,
        reader: Reader::Other(convnext::convnext),
        ignored: vision::IGNORED,
    },
    FamilyType {
        name: "deberta-v2",
        aliases: &[],
        tied: true,
        reader: Reader::Other(deberta::deberta_v2),
        ignored: encoder::IGNORED,
    },
    FamilyType {
        name: "deepseek_v2",
        aliases: &[],
        tied: false,
        reader: Reader::Decoder(deepseek::deepseek_v2),
        ignored: &["head_dim", "moe_layer_freq", "norm_topk_prob", "rope_interleave", "scoring_func"],
    },
    FamilyType {
        name: "deepseek_v3",
        aliases: &[],
        tied: false,
        reader: Reader::Decoder(deepseek::deepseek_v3),
        ignored: &["head_dim", "moe_layer_freq", "num_nextn_predict_layers", "scoring_func", "topk_method"],
    },
    FamilyType { name: "deit", aliases: &[], tied: false, reader: Reader::Other(vit::deit), ignored: vision::IGNORED },
    FamilyType {
        name: "dinov2",
        aliases: &[],
        tied: false,
        reader: Reader::Other(dinov2::dinov2),
        ignored: vision::IGNORED,
    },
    FamilyType {
        name: "distilbert",
        aliases: &[],
        tied: true,
        reader: Reader::Other(bert::distilbert),
        ignored: encoder::IGNORED,
    },
    FamilyType {
        name: "electra",
        aliases: &[],
        tied: true,
        reader: Reader::Other(bert::electra),
        ignored: encoder::IGNORED,
    },
    FamilyType {
        name: "gemma",
        aliases: &[],
        tied: true,
        reader: Reader::Decoder(gemma::gemma),
        ignored: &["hidden_activation"],
    },
    FamilyType { name: "gemma2", aliases: &[], tied: true, reader: Reader::Decoder(gemma::gemma2), ignored: &[] },
    FamilyType {
        name: "gemma3",
        aliases: &["gemma3_text"],
        tied: true,
        reader: Reader::Decoder(gemma::gemma3),
        ignored: &["attn_logit_softcapping", "hidden_act"],
    },
    FamilyType {
        name: "gemma4",
        aliases: &["gemma4_text"],
        tied: true,
        reader: Reader::Other(gemma4::gemma4),
        ignored: &["rope_theta"],
    },
    FamilyType {
        name: "gpt2",
        aliases: &[],
        tied: true,
        reader: Reader::Decoder(gpt2::gpt2),
        // In single precision another order of the same computation.
        ignored: &["reorder_and_upcast_attn"],
    },
    FamilyType {
        name: "gpt_neox",
        aliases: &[],
        tied: false,
        reader: Reader::Decoder(gpt_neox::gpt_neox),
        ignored: &[],
    },
    FamilyType { name: "granite", aliases: &[], tied: false, reader: Reader::Decoder(llama::granite), ignored: &[] },
    FamilyType {
        name: "llama",
        aliases: &[],
        tied: false,
        reader: Reader::Decoder(llama::llama),
        ignored: &["rope_interleaved"],
    },
    FamilyType {
        name: "m2m_100",
        aliases: &[],
        tied: true,
        reader: Reader::Other(bart::m2m_100),
        ignored: seq2seq::IGNORED,
    },
    FamilyType {
        name: "marian",
        aliases: &[],
        tied: true,
        reader: Reader::Other(bart::marian),
        ignored: seq2seq::IGNORED,
    },
    FamilyType {
        name: "mbart",
        aliases: &[],
        tied: true,
        reader: Reader::Other(bart::mbart),
        ignored: seq2seq::IGNORED,
    },
    FamilyType {
        name: "mistral",
        aliases: &[],
        tied: false,
        reader: Reader::Decoder(llama::mistral),
        ignored: &["layer_types", "max_window_layers", "use_sliding_window"],
    },
    FamilyType {
        name: "mixtral",
        aliases: &[],
        tied: false,
        reader: Reader::Decoder(sparse::mixtral),
        ignored: &["router_jitter_noise"],
    },
    FamilyType {
        name: "modernbert",
        aliases: &[],
        tied: true,
        reader: Reader::Other(modern::modernbert),
        ignored: encoder::IGNORED,
    },
    FamilyType {
        name: "mpnet",
        aliases: &[],
        tied: true,
        reader: Reader::Other(bert::mpnet),
        ignored: encoder::IGNORED,
    },
    FamilyType { name: "mt5", aliases: &[], tied: false, reader: Reader::Other(t5::mt5), ignored: seq2seq::IGNORED },
    FamilyType {
        name: "nomic_bert",
        aliases: &[],
        tied: true,
        reader: Reader::Other(modern::nomic_bert),
        ignored: encoder::IGNORED,
    },
    FamilyType { name: "olmo2", aliases: &[], tied: false, reader: Reader::Decoder(olmo2::olmo2), ignored: &[] },
    FamilyType { name: "phi", aliases: &[], tied: false, reader: Reader::Decoder(phi::phi), ignored: &[] },
    FamilyType { name: "phi3", aliases: &[], tied: false, reader: Reader::Decoder(llama::phi3), ignored: &[] },
    FamilyType {
        name: "qwen2",
        aliases: &[],
        tied: false,
        reader: Reader::Decoder(llama::qwen2),
        ignored: &["use_mrope"],
    },
    FamilyType {
        name: "qwen2_5_vl",
        aliases: &[],
        tied: false,
        reader: Reader::Other(vision_language::qwen2_5_vl),
        ignored: vision_language::IGNORED,
    },
    FamilyType {
        name: "qwen2_moe",
        aliases: &[],
        tied: false,
        reader: Reader::Decoder(sparse::qwen2_moe),
        ignored: &["router_aux_loss_coef"],
    },
    FamilyType {
        name: "qwen2_vl",
        aliases: &[],
        tied: false,
        reader: Reader::Other(vision_language::qwen2_vl),
        ignored: vision_language::IGNORED,
    },
    FamilyType { name: "qwen3", aliases: &[], tied: false, reader: Reader::Decoder(llama::qwen3), ignored: &[] },
    FamilyType {
        name: "qwen3_moe",
        aliases: &[],
        tied: false,
        reader: Reader::Decoder(sparse::qwen3_moe),
        ignored: &["layer_types", "max_window_layers", "router_aux_loss_coef"],
    },
    FamilyType {
        name: "resnet",
        aliases: &[],
        tied: false,
        reader: Reader::Other(resnet::resnet),
        ignored: vision::IGNORED,
    },
    FamilyType {
        name: "roberta",
        aliases: &["xlm-roberta"],
        tied: true,
        reader: Reader::Other(bert::roberta),
        ignored: encoder::IGNORED,
    },
    FamilyType {
        name: "siglip",
        aliases: &[],
        tied: false,
        reader: Reader::Other(pair::siglip),
        ignored: vision::IGNORED,
    },
    FamilyType {
        name: "siglip_text_model",
        aliases: &[],
        tied: false,
        reader: Reader::Other(pair::siglip_text),
        ignored: vision::IGNORED,
    },
    FamilyType {
        name: "siglip_vision_model",
        aliases: &[],
        tied: false,
        reader: Reader::Other(pair::siglip_vision),
        ignored: vision::IGNORED,
    },
    FamilyType {
        name: "smollm3",
        aliases: &[],
        tied: true,
        reader: Reader::Decoder(llama::smollm3),
        ignored: &["max_window_layers"],
    },
    FamilyType {
        name: "stablelm",
        aliases: &[],
        tied: false,
        reader: Reader::Decoder(stablelm::stablelm),
        ignored: &[],
    },
    FamilyType {
        name: "starcoder2",
        aliases: &[],
        tied: true,
        reader: Reader::Decoder(starcoder2::starcoder2),
        ignored: &["layer_types", "residual_dropout", "embedding_dropout"],
    },
    FamilyType { name: "t5", aliases: &[], tied: true, reader: Reader::Other(t5::t5), ignored: seq2seq::IGNORED },
    FamilyType { name: "vit", aliases: &[], tied: false, reader: Reader::Other(vit::vit), ignored: vision::IGNORED },
    FamilyType {
        name: "whisper",
        aliases: &[],
        tied: true,
        reader: Reader::Other(whisper::whisper),
        // Of training, of classifiers over the encoder, and of times by word.
        ignored: &[
            "apply_spec_augment",
            "classifier_proj_size",
            "init_std",
            "length_penalty",
            "median_filter_width",
            "num_hidden_layers",
            "use_weighted_layer_sum",
        ],
    },
];

fn family_of(model_type: &str) -> Result<&'static FamilyType, FamilyError> {
    TYPES.iter().find(|t| t.name == model_type || t.aliases.contains(&model_type)).ok_or_else(|| {
        FamilyError::UnknownType {
            found: model_type.chars().take(100).collect(),
            nearest: nearest(model_type, &known_types()).map(str::to_owned),
            known: known_types().into_iter().map(str::to_owned).collect(),
        }
    })
}

fn read<'a>(
    family: &'static FamilyType,
    config: &'a Config,
    tensors: &dyn TensorShapes,
) -> Result<(Described, Settings<'a>), FamilyError> {
    let mut settings = Settings::new(config.architecture(), family.name);
    let described = match family.reader {
        Reader::Decoder(read) => Described::Decoder(Box::new(read(&mut settings, tensors)?)),
        Reader::Other(read) => Described::Other(read(&mut settings, tensors)?),
    };
    Ok((described, settings))
}

/// Tensors without a reader, apart from stored buffers that carry nothing and from those that were passed over; and those of them that are
/// the bias of a weight which is read. The sibling scale of a ternary tensor is read along with it.
fn unread<'a>(
    graphs: impl Iterator<Item = &'a Graph>,
    passed: &HashSet<String>,
    tensors: &dyn TensorShapes,
) -> (Vec<String>, Vec<String>) {
    let read: HashSet<&str> =
        graphs.flat_map(Graph::weights).map(|(n, _)| n).chain(passed.iter().map(String::as_str)).collect();
    let empty = ["inv_freq", "position_ids", "num_batches_tracked"];
    let is_scale = |name: &str| {
        name.strip_suffix(".scale").is_some_and(|of| read.contains(of) && tensors.dtype(of) == Some(DType::Ternary))
    };
    let mut names = tensors.names();
    names.retain(|n| !read.contains(n.as_str()) && !is_scale(n) && !empty.iter().any(|end| n.ends_with(end)));
    let is_idle =
        |n: &&String| n.strip_suffix(".bias").is_some_and(|map| read.contains(format!("{map}.weight").as_str()));
    let idle = names.iter().filter(is_idle).cloned().collect();
    (names, idle)
}

/// Names for a message: at most ten, then how many more there are.
fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(10).map(|n| format!("`{n}`")).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_unique_and_resolve() {
        let names = known_types();
        assert!(names.windows(2).all(|w| w[0] < w[1]), "{names:?}");
        assert!(names.iter().all(|n| canonical_type(n).is_some()));
        assert_eq!(canonical_type("gemma3_text"), Some("gemma3"));
        assert_eq!(canonical_type("Llama"), None);
    }
}
