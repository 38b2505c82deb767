//! modernbert and nomic_bert: rotary positions, gated feed-forward.

use super::bert::{classifier, finish, has, plain, pooler, words_head};
use super::read::{self, Defaults, KEYS, Task};
use super::{EncoderSpec, Gating, Head, Layer, Names, Norm, Places, Rows, Step};
use crate::families::decoder::Rope;
use crate::families::decoder::rope::{self, Rules};
use crate::families::{Build, FamilyError, Settings, TensorShapes};

type Read = Result<Box<dyn Build>, FamilyError>;

/// modernbert.
pub fn modernbert(settings: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    let base = read::prefix(tensors, &["model."], "embeddings.tok_embeddings");
    let defaults = Defaults { hidden: 768, layers: 22, heads: 12, width: 1152, vocab: 50368 };
    let sizes = read::sizes(settings, KEYS, defaults, None)?;
    let norm = Norm { eps: settings.epsilon("norm_eps", 1e-5)?, bias: settings.flag("norm_bias", false)? };
    let activation = read::activation(settings, "hidden_activation", "gelu")?;
    let mut spec = plain(sizes, &base, norm, activation);
    spec.embeddings.words = format!("{base}embeddings.tok_embeddings");
    spec.embeddings.norm = format!("{base}embeddings.norm");
    spec.places = Places::Before;
    spec.final_norm = Some(format!("{base}final_norm"));
    spec.names = Names {
        layers: format!("{base}layers"),
        qkv: "attn.Wqkv",
        out: "attn.Wo",
        attention_norm: "attn_norm",
        up: "mlp.Wi",
        down: "mlp.Wo",
        feed_forward_norm: "mlp_norm",
        ..spec.names
    };
    let bias = settings.flag("attention_bias", false)?;
    (spec.attention.fused, spec.attention.bias, spec.attention.out_bias) = (true, bias, bias);
    spec.feed_forward.gating = Gating::Fused;
    spec.feed_forward.bias = settings.flag("mlp_bias", false)?;

    let [full, sliding] = rotations(settings, sizes.head_dim)?;
    let window = settings.size("local_attention", 128)? / 2;
    for (number, slides) in slide(settings, sizes.layers)?.into_iter().enumerate() {
        if slides && window == 0 {
            return Err(settings.bad("local_attention", 1, "half of it is what a token sees", "Make it at least 2"));
        }
        let rope = if slides { &sliding } else { &full }.clone();
        spec.layers[number] = Layer { attention_norm: number > 0, window: slides.then_some(window), rope: Some(rope) };
    }
    spec.head = head_of_modernbert(settings, tensors, &mut spec)?;
    finish(settings, spec)
}

/// The rotations of full and of sliding layers. A scaling beside the thetas changes both.
fn rotations(settings: &mut Settings<'_>, head_dim: u32) -> Result<[Rope; 2], FamilyError> {
    let rules = Rules { head_dim, theta: 160_000.0, max_positions: 8192, partial: None, phi3: false };
    let thetas = [
        settings.positive("global_rope_theta")?.unwrap_or(rules.theta),
        settings.positive("local_rope_theta")?.unwrap_or(10_000.0),
    ];
    let scaled = settings.table("rope_scaling")?.is_some_and(|t| !t.is_empty());
    let nested = settings.table("rope_parameters")?;
    if scaled && nested.is_some() {
        return Err(settings.unsupported(
            "rope_scaling",
            "a table",
            "`rope_parameters` describes the rotations too",
            "Keep one of them",
        ));
    }
    let mut tables = [None, None];
    if let Some(nested) = nested {
        tables = [nested.table("full_attention")?, nested.table("sliding_attention")?];
        settings.absorb(nested, &[]);
    } else if scaled {
        tables = [settings.table("rope_scaling")?, settings.table("rope_scaling")?];
    }
    let [full, sliding] = tables;
    let full = rope::finish(settings, full, thetas[0], rules)?;
    let sliding = rope::finish(settings, sliding, thetas[1], rules)?;
    Ok([read::any_length(settings, full)?, read::any_length(settings, sliding)?])
}

/// Which layers slide: `layer_types`, else all but each `global_attn_every_n_layers`-th, from the first on.
fn slide(settings: &mut Settings<'_>, layers: u32) -> Result<Vec<bool>, FamilyError> {
    let key = "layer_types";
    let every = settings.size("global_attn_every_n_layers", 3)?;
    let Some(kinds) = settings.texts(key)? else {
        return Ok((0..layers).map(|layer| !layer.is_multiple_of(every)).collect());
    };
    if kinds.len() != layers as usize {
        let cause = format!("there are {layers} layers");
        return Err(settings.bad(key, format!("a list of {}", kinds.len()), cause, "Give one kind for each layer"));
    }
    let kind = |kind: &String| match kind.as_str() {
        "full_attention" => Ok(false),
        "sliding_attention" => Ok(true),
        other => {
            let shown: String = other.chars().take(60).collect();
            let cause = "known kinds are full_attention, sliding_attention";
            Err(settings.unsupported(key, format!("\"{shown}\""), cause, "Correct it"))
        }
    };
    kinds.iter().map(kind).collect()
}

/// The head: `head` and then a matrix, of words or of labels of every token or of the pooled text.
fn head_of_modernbert(
    settings: &Settings<'_>,
    tensors: &dyn TensorShapes,
    spec: &mut EncoderSpec,
) -> Result<Option<Head>, FamilyError> {
    let (hidden, norm) = (spec.hidden, spec.norm);
    let bias = settings.flag("classifier_bias", false)?;
    let activation = read::activation(settings, "classifier_activation", "gelu")?;
    let pooled = match settings.text("classifier_pooling")?.as_deref() {
        None | Some("cls") => Rows::First,
        Some("mean") => Rows::Mean,
        Some(other) => {
            let shown: String = other.chars().take(60).collect();
            let cause = "known ways are cls, mean";
            return Err(settings.unsupported("classifier_pooling", format!("\"{shown}\""), cause, "Correct it"));
        }
    };
    let decoder_bias = settings.flag("decoder_bias", true)?;
    if !has(tensors, "head.dense") {
        return Ok(None);
    }
    let (rows, last) = if has(tensors, "classifier") {
        let labels = read::labels(settings, tensors, "classifier")?;
        let rows = match read::task(settings)? {
            Some(Task::Texts) => pooled,
            Some(Task::Tokens) => Rows::Tokens,
            None => {
                return Err(settings.bad(
                    "architectures",
                    "nothing",
                    "the classifier may be one of texts or one of tokens",
                    "Add the class: `ModernBertForSequenceClassification` or `ModernBertForTokenClassification`",
                ));
            }
        };
        (rows, Step::linear("classifier", [labels, hidden], true))
    } else {
        let biases: &[String] = if decoder_bias { &["decoder.bias".to_owned()] } else { &[] };
        let shape = [spec.vocab, hidden];
        let (last, idle) = read::words(settings, tensors, "decoder", &spec.embeddings.words, shape, biases)?;
        spec.idle.extend(idle);
        (Rows::Tokens, last)
    };
    let steps = vec![
        Step::linear("head.dense", [hidden; 2], bias),
        Step::Activate(activation),
        Step::Norm { name: "head.norm".into(), width: hidden, norm },
        last,
    ];
    Ok(Some(Head { rows, steps }))
}

/// nomic_bert.
pub fn nomic_bert(settings: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    let base = read::prefix(tensors, &["nomic_bert.", "bert."], "embeddings.word_embeddings");
    let defaults = Defaults { hidden: 768, layers: 12, heads: 12, width: 3072, vocab: 30528 };
    let head_dim = settings.optional_size("head_dim")?;
    let sizes = read::sizes(settings, KEYS, defaults, head_dim)?;
    let norm = read::norm(settings, 1e-12)?;
    let activation = read::activation(settings, "hidden_act", "silu")?;
    let mut spec = plain(sizes, &base, norm, activation);
    let types = settings.size("type_vocab_size", 2)?;
    spec.embeddings.types = Some((format!("{base}embeddings.token_type_embeddings"), types));
    spec.embeddings.norm = format!("{base}emb_ln");
    spec.names = Names {
        layers: format!("{base}encoder.layers"),
        qkv: "attn.Wqkv",
        out: "attn.out_proj",
        attention_norm: "norm1",
        gate: "mlp.fc12",
        up: "mlp.fc11",
        down: "mlp.fc2",
        feed_forward_norm: "norm2",
        ..spec.names
    };
    (spec.attention.fused, spec.attention.bias, spec.attention.out_bias) = (true, false, false);
    (spec.feed_forward.gating, spec.feed_forward.bias) = (Gating::Separate, false);
    let rules = Rules { head_dim: sizes.head_dim, theta: 1000.0, max_positions: 2048, partial: None, phi3: false };
    let rope = rope::read(settings, rules)?;
    let rope = read::any_length(settings, rope)?;
    spec.layers.iter_mut().for_each(|layer| layer.rope = Some(rope.clone()));
    spec.pooler = pooler(tensors, &base, spec.hidden);
    let cls = "cls.predictions";
    if has(tensors, &format!("{cls}.transform.dense")) {
        let names = [format!("{cls}.transform.dense"), format!("{cls}.transform.layer_norm"), format!("{cls}.decoder")];
        let biases = [format!("{cls}.decoder.bias"), format!("{cls}.bias")];
        words_head(settings, tensors, &mut spec, names, activation, &biases)?;
    } else if has(tensors, "classifier") {
        let texts = read::task(settings)?.map_or(spec.pooler.is_some(), |task| task == Task::Texts);
        spec.head = Some(classifier(settings, tensors, &base, spec.hidden, texts)?);
    }
    finish(settings, spec)
}
