//! bert and its nearest kin: roberta and xlm-roberta, distilbert, mpnet, electra.

use super::read::{self, Defaults, KEYS, Keys, Sizes, Task};
use super::{
    Counting, Embeddings, EncoderSpec, FeedForward, Gating, Head, Layer, Names, Norm, Places, Projection, Relative,
    Rows, Step,
};
use crate::families::{Build, FamilyError, Settings, TensorShapes};
use tallow_ir::ops::Activation;

type Read = Result<Box<dyn Build>, FamilyError>;

const BASE: Defaults = Defaults { hidden: 768, layers: 12, heads: 12, width: 3072, vocab: 30522 };

/// Names in a layer of bert.
const NAMES: Names = Names {
    layers: String::new(),
    q: "attention.self.query",
    k: "attention.self.key",
    v: "attention.self.value",
    qkv: "",
    out: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    gate: "",
    up: "intermediate.dense",
    down: "output.dense",
    feed_forward_norm: "output.LayerNorm",
};

/// bert.
pub fn bert(settings: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    read::refuse_other_tasks(settings)?;
    let base = read::prefix(tensors, &["bert."], "embeddings.word_embeddings");
    let mut spec = like_bert(settings, &base, BASE, Counting::Places, true)?;
    spec.pooler = pooler(tensors, &base, spec.hidden);
    let cls = "cls.predictions";
    if has(tensors, &format!("{cls}.transform.dense")) {
        let act = spec.feed_forward.activation;
        let names = [format!("{cls}.transform.dense"), format!("{cls}.transform.LayerNorm"), format!("{cls}.decoder")];
        words_head(settings, tensors, &mut spec, names, act, &[format!("{cls}.decoder.bias"), format!("{cls}.bias")])?;
    } else if has(tensors, "classifier") {
        let texts = read::task(settings)?.map_or(spec.pooler.is_some(), |task| task == Task::Texts);
        spec.head = Some(classifier(settings, tensors, &base, spec.hidden, texts)?);
    }
    if has(tensors, "cls.seq_relationship") && spec.pooler.is_some() {
        spec.next_sentence = Some(Step::linear("cls.seq_relationship", [2, spec.hidden], true));
    }
    finish(settings, spec)
}

/// roberta and xlm-roberta, whose positions count words.
pub fn roberta(settings: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    read::refuse_other_tasks(settings)?;
    let base = read::prefix(tensors, &["roberta."], "embeddings.word_embeddings");
    let counting = Counting::Words(padding(settings)?);
    let defaults = Defaults { vocab: 50265, ..BASE };
    let mut spec = like_bert(settings, &base, defaults, counting, true)?;
    spec.pooler = pooler(tensors, &base, spec.hidden);
    heads_of_roberta(settings, tensors, &mut spec, Activation::Tanh)?;
    finish(settings, spec)
}

/// mpnet, with learned biases of distances.
pub fn mpnet(settings: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    let base = read::prefix(tensors, &["mpnet."], "embeddings.word_embeddings");
    // Whatever `pad_token_id` says.
    let counting = Counting::Words(1);
    let defaults = Defaults { vocab: 30527, ..BASE };
    let mut spec = like_bert(settings, &base, defaults, counting, false)?;
    spec.names = Names {
        q: "attention.attn.q",
        k: "attention.attn.k",
        v: "attention.attn.v",
        out: "attention.attn.o",
        attention_norm: "attention.LayerNorm",
        ..spec.names
    };
    let rows = settings.size("relative_attention_num_buckets", Relative::BUCKETS)?;
    if rows < Relative::BUCKETS {
        return Err(settings.bad(
            "relative_attention_num_buckets",
            rows,
            format!("the type always uses {} buckets", Relative::BUCKETS),
            "Correct it",
        ));
    }
    spec.relative = Some(Relative::Buckets { tensor: format!("{base}encoder.relative_attention_bias"), rows });
    spec.pooler = pooler(tensors, &base, spec.hidden);
    heads_of_roberta(settings, tensors, &mut spec, Activation::Tanh)?;
    finish(settings, spec)
}

/// electra: the discriminator and the generator.
pub fn electra(settings: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    let base = read::prefix(tensors, &["electra."], "embeddings.word_embeddings");
    let defaults = Defaults { hidden: 256, layers: 12, heads: 4, width: 1024, vocab: 30522 };
    let mut spec = like_bert(settings, &base, defaults, Counting::Places, true)?;
    let (hidden, norm) = (spec.hidden, spec.norm);
    let width = settings.size("embedding_size", 128)?;
    spec.embeddings.width = width;
    if width != hidden {
        let name = format!("{base}embeddings_project");
        spec.embeddings.projection = Some(Projection { name, bias: true, before_norm: false });
    }
    let act = spec.feed_forward.activation;
    let (generator, discriminator) = ("generator_predictions", "discriminator_predictions");
    if has(tensors, &format!("{generator}.dense")) {
        let decoder = "generator_lm_head";
        let bias = [format!("{decoder}.bias")];
        let words = &spec.embeddings.words;
        let (last, idle) = read::words(settings, tensors, decoder, words, [spec.vocab, width], &bias)?;
        let steps = vec![
            Step::linear(&format!("{generator}.dense"), [width, hidden], true),
            Step::Activate(Activation::Gelu),
            Step::Norm { name: format!("{generator}.LayerNorm"), width, norm },
            last,
        ];
        spec.head = Some(Head { rows: Rows::Tokens, steps });
        spec.idle.extend(idle);
    } else if has(tensors, &format!("{discriminator}.dense")) {
        let steps = vec![
            Step::linear(&format!("{discriminator}.dense"), [hidden; 2], true),
            Step::Activate(act),
            Step::linear(&format!("{discriminator}.dense_prediction"), [1, hidden], true),
        ];
        spec.head = Some(Head { rows: Rows::Tokens, steps });
    } else {
        heads_of_roberta(settings, tensors, &mut spec, Activation::Gelu)?;
    }
    finish(settings, spec)
}

/// distilbert.
pub fn distilbert(settings: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    let base = read::prefix(tensors, &["distilbert."], "embeddings.word_embeddings");
    let keys = Keys { hidden: "dim", layers: "n_layers", heads: "n_heads", width: "hidden_dim" };
    let sizes = read::sizes(settings, keys, Defaults { layers: 6, ..BASE }, None)?;
    let activation = read::activation(settings, "activation", "gelu")?;
    // Fixed, whatever a config says.
    let norm = Norm { eps: 1e-12, bias: true };
    let mut spec = plain(sizes, &base, norm, activation);
    let positions = read::positions(settings, format!("{base}embeddings.position_embeddings"), 512, Counting::Places)?;
    spec.embeddings.positions = Some(positions);
    spec.names = Names {
        layers: format!("{base}transformer.layer"),
        q: "attention.q_lin",
        k: "attention.k_lin",
        v: "attention.v_lin",
        out: "attention.out_lin",
        attention_norm: "sa_layer_norm",
        up: "ffn.lin1",
        down: "ffn.lin2",
        feed_forward_norm: "output_layer_norm",
        ..NAMES
    };
    let hidden = spec.hidden;
    if has(tensors, "vocab_transform") {
        let names = ["vocab_transform", "vocab_layer_norm", "vocab_projector"].map(str::to_owned);
        words_head(settings, tensors, &mut spec, names, activation, &["vocab_projector.bias".to_owned()])?;
    } else if has(tensors, "pre_classifier") {
        let labels = read::labels(settings, tensors, "classifier")?;
        let steps = vec![
            Step::linear("pre_classifier", [hidden; 2], true),
            Step::Activate(Activation::Relu),
            Step::linear("classifier", [labels, hidden], true),
        ];
        spec.head = Some(Head { rows: Rows::First, steps });
    } else if has(tensors, "classifier") {
        spec.head = Some(classifier(settings, tensors, &base, hidden, false)?);
    }
    finish(settings, spec)
}

/// Whether the linear map or norm `name` is there.
pub(super) fn has(tensors: &dyn TensorShapes, name: &str) -> bool {
    tensors.shape(&format!("{name}.weight")).is_some()
}

/// The settings that bert and its kin share.
fn like_bert(
    settings: &mut Settings<'_>,
    base: &str,
    defaults: Defaults,
    counting: Counting,
    types: bool,
) -> Result<EncoderSpec, FamilyError> {
    read::both_directions(settings)?;
    let sizes = read::sizes(settings, KEYS, defaults, None)?;
    let norm = read::norm(settings, 1e-12)?;
    let activation = read::activation(settings, "hidden_act", "gelu")?;
    let mut spec = plain(sizes, base, norm, activation);
    let positions = read::positions(settings, format!("{base}embeddings.position_embeddings"), 512, counting)?;
    spec.embeddings.positions = Some(positions);
    if types {
        let table = format!("{base}embeddings.token_type_embeddings");
        spec.embeddings.types = Some((table, settings.size("type_vocab_size", 2)?));
    }
    Ok(spec)
}

/// An encoder of these sizes under bert's names: words alone, norms behind the sums, no head.
pub(super) fn plain(sizes: Sizes, base: &str, norm: Norm, activation: Activation) -> EncoderSpec {
    EncoderSpec {
        vocab: sizes.vocab,
        hidden: sizes.hidden,
        embeddings: Embeddings {
            words: format!("{base}embeddings.word_embeddings"),
            width: sizes.hidden,
            positions: None,
            types: None,
            norm: format!("{base}embeddings.LayerNorm"),
            projection: None,
        },
        norm,
        places: Places::After,
        names: Names { layers: format!("{base}encoder.layer"), ..NAMES },
        attention: read::plain_attention(sizes),
        relative: None,
        feed_forward: FeedForward { width: sizes.width, activation, gating: Gating::Off, bias: true },
        layers: vec![Layer { attention_norm: true, window: None, rope: None }; sizes.layers as usize],
        convolution: None,
        final_norm: None,
        pooler: None,
        head: None,
        next_sentence: None,
        pooling: super::Pooling::Mean,
        normalize: false,
        idle: Vec::new(),
    }
}

/// The pooler, where it is there: the tangent of a map of the first token.
pub(super) fn pooler(tensors: &dyn TensorShapes, base: &str, hidden: u32) -> Option<Vec<Step>> {
    let name = format!("{base}pooler.dense");
    let steps = || vec![Step::linear(&name, [hidden; 2], true), Step::Activate(Activation::Tanh)];
    has(tensors, &name).then(steps)
}

/// A classifier over every token, or over the pooler of each text.
pub(super) fn classifier(
    settings: &Settings<'_>,
    tensors: &dyn TensorShapes,
    base: &str,
    hidden: u32,
    texts: bool,
) -> Result<Head, FamilyError> {
    let labels = read::labels(settings, tensors, "classifier")?;
    let last = Step::linear("classifier", [labels, hidden], true);
    if !texts {
        return Ok(Head { rows: Rows::Tokens, steps: vec![last] });
    }
    let pooler = Step::linear(&format!("{base}pooler.dense"), [hidden; 2], true);
    Ok(Head { rows: Rows::First, steps: vec![pooler, Step::Activate(Activation::Tanh), last] })
}

/// The head of words made of a map, a norm and a decoder of these names.
pub(super) fn words_head(
    settings: &Settings<'_>,
    tensors: &dyn TensorShapes,
    spec: &mut EncoderSpec,
    [dense, layer_norm, decoder]: [String; 3],
    activation: Activation,
    biases: &[String],
) -> Result<(), FamilyError> {
    let width = spec.embeddings.width;
    let shape = [spec.vocab, width];
    let (last, idle) = read::words(settings, tensors, &decoder, &spec.embeddings.words, shape, biases)?;
    let steps = vec![
        Step::linear(&dense, [width, spec.hidden], true),
        Step::Activate(activation),
        Step::Norm { name: layer_norm, width, norm: spec.norm },
        last,
    ];
    spec.head = Some(Head { rows: Rows::Tokens, steps });
    spec.idle.extend(idle);
    Ok(())
}

/// The heads of roberta and those that took them over; between the matrices of the classifier of texts stands `activation`.
fn heads_of_roberta(
    settings: &Settings<'_>,
    tensors: &dyn TensorShapes,
    spec: &mut EncoderSpec,
    activation: Activation,
) -> Result<(), FamilyError> {
    let hidden = spec.hidden;
    if has(tensors, "lm_head.dense") {
        let names = ["lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"].map(str::to_owned);
        let biases = ["lm_head.decoder.bias", "lm_head.bias"].map(str::to_owned);
        words_head(settings, tensors, spec, names, Activation::Gelu, &biases)?;
    } else if has(tensors, "classifier.dense") {
        let labels = read::labels(settings, tensors, "classifier.out_proj")?;
        let steps = vec![
            Step::linear("classifier.dense", [hidden; 2], true),
            Step::Activate(activation),
            Step::linear("classifier.out_proj", [labels, hidden], true),
        ];
        spec.head = Some(Head { rows: Rows::First, steps });
    } else if has(tensors, "classifier") {
        let labels = read::labels(settings, tensors, "classifier")?;
        let steps = vec![Step::linear("classifier", [labels, hidden], true)];
        spec.head = Some(Head { rows: Rows::Tokens, steps });
    }
    Ok(())
}

/// The id of padding, from which positions count.
fn padding(settings: &Settings<'_>) -> Result<u32, FamilyError> {
    let key = "pad_token_id";
    match settings.number(key)? {
        None => Ok(1),
        Some(id) if id.fract() == 0.0 && (0.0..16_777_216.0).contains(&id) => Ok(id as u32),
        Some(id) => Err(settings.bad(key, id, "expected the id of a token", "Correct it")),
    }
}

/// Reads what is left to all types.
pub(super) fn finish(settings: &mut Settings<'_>, mut spec: EncoderSpec) -> Read {
    (spec.pooling, spec.normalize) = read::pooling(settings, spec.head.is_some())?;
    // Of no effect without a head of words, or of labels.
    settings.flag("tie_word_embeddings", true)?;
    if settings.texts("labels")?.is_some() && spec.head.is_none() {
        settings.note("the config names labels, and the model has no head that gives them");
    }
    Ok(Box::new(spec))
}
