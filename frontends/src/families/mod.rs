//! Families: builders from a config, and the tensors beside it, to a graph.
//!
//! A family is chosen by `model_type` alone ([`canonical_type`]); every other key refines it. All
//! decoders share one description, [`decoder::DecoderSpec`], and one builder. Missing keys take the
//! default of the type, as the `transformers` library has it. A key that is present, may change the
//! result and is not read is an error, not a surprise in the output.

pub mod decoder;
pub mod encoder;
mod error;
pub mod parts;
mod settings;
mod shapes;

pub use error::{FamilyError, Misshapen, TensorFaults};
pub use settings::{MOST_LAYERS, Settings};
pub use shapes::{TensorShapes, dtype_of};

use crate::nearest::nearest;
use decoder::{DecoderSpec, gemma, llama};
use encoder::{bert, deberta, modern};
use parts::Parts;
use std::collections::HashSet;
use tallow_format::Config;
use tallow_ir::{DType, Graph, IrError, Value};

/// A graph built from a config, and what the builder noticed on the way.
#[derive(Clone, Debug)]
pub struct Family {
    /// The canonical type that built it.
    pub model_type: &'static str,
    /// The graph as built: logits for every position, nothing fused.
    pub graph: Graph,
    /// Things worth telling: keys without effect, tensors that are not read.
    pub notes: Vec<String>,
    /// Tensors that the graph does not read, apart from buffers that carry nothing.
    pub unread_tensors: Vec<String>,
}

impl Family {
    /// The weights that the graph reads, in order of first use.
    pub fn weights(&self) -> impl Iterator<Item = (&str, Value)> {
        self.graph.weights()
    }
}

/// Builds the graph of a config whose tensors have these shapes.
///
/// The graph of a decoder maps `input_ids` (i64 `[S]`) to `logits` (f32 `[S, vocab]`); [`encoder`] says what that of an
/// encoder does.
///
/// # Errors
/// An unknown type; a setting that is wrong, not supported or not read; tensors that are missing or
/// do not fit, all of them in one error.
pub fn build(config: &Config, tensors: &dyn TensorShapes) -> Result<Family, FamilyError> {
    let family = family_of(config.model_type())?;
    let (described, mut settings) = read(family, config, tensors)?;
    settings.finish(family.ignored)?;
    let (graph, idle) = match described {
        Described::Decoder(spec) => (decoder::build(&spec, tensors, settings.defaulted())?, HashSet::new()),
        Described::Other(model) => {
            let mut parts = Parts::new(family.name, tensors);
            let built = model.build(&mut parts);
            built.map_err(|source| FamilyError::Graph { model_type: family.name.to_owned(), source })?;
            let idle = std::mem::take(&mut parts.idle);
            (parts.finish(settings.defaulted())?, idle)
        }
    };
    let mut notes: Vec<String> = Vec::new();
    for note in settings.take_notes() {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let (unread_tensors, idle_biases) = unread(&graph, tensors, &idle);
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
    Ok(Family { model_type: family.name, graph, notes, unread_tensors })
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
    read(&mut Settings::new(config.architecture(), name), tensors)
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
    FamilyType {
        name: "gemma",
        aliases: &[],
        tied: true,
        reader: Reader::Decoder(gemma::gemma),
        ignored: &["hidden_activation"],
    },
    FamilyType {
        name: "gemma3",
        aliases: &["gemma3_text"],
        tied: true,
        reader: Reader::Decoder(gemma::gemma3),
        ignored: &["attn_logit_softcapping", "hidden_act"],
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
        name: "mistral",
        aliases: &[],
        tied: false,
        reader: Reader::Decoder(llama::mistral),
        ignored: &["layer_types", "max_window_layers", "use_sliding_window"],
    },
    FamilyType { name: "phi3", aliases: &[], tied: false, reader: Reader::Decoder(llama::phi3), ignored: &[] },
    FamilyType {
        name: "qwen2",
        aliases: &[],
        tied: false,
        reader: Reader::Decoder(llama::qwen2),
        ignored: &["use_mrope"],
    },
    FamilyType { name: "qwen3", aliases: &[], tied: false, reader: Reader::Decoder(llama::qwen3), ignored: &[] },
    FamilyType {
        name: "smollm3",
        aliases: &[],
        tied: true,
        reader: Reader::Decoder(llama::smollm3),
        ignored: &["max_window_layers"],
    },
    FamilyType { name: "bert", aliases: &[], tied: true, reader: Reader::Other(bert::bert), ignored: encoder::IGNORED },
    FamilyType {
        name: "deberta-v2",
        aliases: &[],
        tied: true,
        reader: Reader::Other(deberta::deberta_v2),
        ignored: encoder::IGNORED,
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
    FamilyType {
        name: "nomic_bert",
        aliases: &[],
        tied: true,
        reader: Reader::Other(modern::nomic_bert),
        ignored: encoder::IGNORED,
    },
    FamilyType {
        name: "roberta",
        aliases: &["xlm-roberta"],
        tied: true,
        reader: Reader::Other(bert::roberta),
        ignored: encoder::IGNORED,
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

/// Tensors without a reader, apart from stored buffers that carry nothing and from `spare`; and those of them that are
/// the bias of a weight which is read. The sibling scale of a ternary tensor is read along with it.
fn unread(graph: &Graph, tensors: &dyn TensorShapes, spare: &HashSet<String>) -> (Vec<String>, Vec<String>) {
    let read: HashSet<&str> = graph.weights().map(|(n, _)| n).collect();
    let empty = ["inv_freq", "position_ids", "num_batches_tracked"];
    let is_scale = |name: &str| {
        name.strip_suffix(".scale").is_some_and(|of| read.contains(of) && tensors.dtype(of) == Some(DType::Ternary))
    };
    let mut names = tensors.names();
    names.retain(|n| !read.contains(n.as_str()) && !is_scale(n) && !empty.iter().any(|end| n.ends_with(end)));
    names.retain(|n| !spare.contains(n));
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
