//! deberta-v2 (and v3, which goes by the same name).

use super::bert::{finish, has, plain, words_head};
use super::read::{self, Defaults, KEYS, Task};
use super::{Convolution, Counting, Disentangled, EncoderSpec, Head, Names, Projection, Relative, Rows, Step};
use crate::families::{Build, FamilyError, Settings, TensorShapes};

/// From this distance on no table goes; none of a model in use needs a tenth of it.
const FARTHEST: u32 = 1 << 16;

/// deberta-v2.
pub fn deberta_v2(settings: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<Box<dyn Build>, FamilyError> {
    let base = read::prefix(tensors, &["deberta."], "embeddings.word_embeddings");
    let defaults = Defaults { hidden: 1536, layers: 24, heads: 24, width: 6144, vocab: 128_100 };
    let head_dim = settings.optional_size("attention_head_size")?;
    let sizes = read::sizes(settings, KEYS, defaults, head_dim)?;
    let norm = read::norm(settings, 1e-7)?;
    let activation = read::activation(settings, "hidden_act", "gelu")?;
    let mut spec = plain(sizes, &base, norm, activation);
    spec.names = Names {
        q: "attention.self.query_proj",
        k: "attention.self.key_proj",
        v: "attention.self.value_proj",
        ..spec.names
    };
    let width = settings.optional_size("embedding_size")?.unwrap_or(spec.hidden);
    spec.embeddings.width = width;
    if width != spec.hidden {
        let name = format!("{base}embeddings.embed_proj");
        spec.embeddings.projection = Some(Projection { name, bias: false, before_norm: true });
    }
    let longest = settings.size("max_position_embeddings", 512)?;
    if settings.flag("position_biased_input", true)? {
        let table = format!("{base}embeddings.position_embeddings");
        spec.embeddings.positions = Some(read::positions(settings, table, longest, Counting::Places)?);
    }
    let types = whole(settings, "type_vocab_size", 0)?;
    if types > 0 {
        spec.embeddings.types = Some((format!("{base}embeddings.token_type_embeddings"), types));
    }
    relative(settings, &base, longest, &mut spec)?;
    spec.convolution = convolution(settings, &base)?;
    head(settings, tensors, &mut spec)?;
    spec.idle.extend(tensors.names().into_iter().filter(|name| name.starts_with("mask_predictions.")));
    finish(settings, spec)
}

/// What distances add to scores, and the factor on scores.
fn relative(settings: &mut Settings<'_>, base: &str, longest: u32, spec: &mut EncoderSpec) -> Result<(), FamilyError> {
    let kinds = kinds(settings)?;
    let has_kind = |kind: &str| kinds.iter().any(|k| k == kind);
    let (by_query, by_key) = (has_kind("c2p"), has_kind("p2c"));
    // They count whether or not distances do.
    let terms = 1 + u32::from(by_query) + u32::from(by_key);
    spec.attention.scale = (1.0 / f64::from(spec.attention.head_dim * terms).sqrt()) as f32;

    let span = whole(settings, "max_relative_positions", 0)?;
    let farthest = if span > 0 { span } else { longest };
    let buckets = whole(settings, "position_buckets", 0)?;
    let shared = settings.flag("share_att_key", false)?;
    let norms = settings.text("norm_rel_ebd")?.unwrap_or_else(|| "none".into()).to_lowercase();
    let mut norm = None;
    for kind in norms.split('|').map(str::trim) {
        match kind {
            "none" => {}
            "layer_norm" => norm = Some(format!("{base}encoder.LayerNorm")),
            _ => {
                let shown: String = norms.chars().take(60).collect();
                let cause = "known norms are none, layer_norm";
                return Err(settings.unsupported("norm_rel_ebd", format!("\"{shown}\""), cause, "Correct it"));
            }
        }
    }
    if !settings.flag("relative_attention", false)? {
        spec.idle.extend(norm.iter().flat_map(|n| [format!("{n}.weight"), format!("{n}.bias")]));
        return Ok(());
    }
    if buckets > 0 && (buckets < 4 || farthest <= buckets / 2 + 1) {
        let cause =
            format!("distances up to `max_relative_positions` = {farthest} need from 4 to twice as many buckets");
        return Err(settings.bad("position_buckets", buckets, cause, "Correct one of them"));
    }
    let span = if buckets > 0 { buckets } else { farthest };
    let Some(table) = rows(span, buckets, farthest) else {
        let cause = format!("the buckets reach farther than {FARTHEST} tokens");
        return Err(settings.unsupported("position_buckets", buckets, cause, "Use another number"));
    };
    let (keys, queries) = match shared {
        true => (spec.names.k, spec.names.q),
        false => ("attention.self.pos_key_proj", "attention.self.pos_query_proj"),
    };
    let tensor = format!("{base}encoder.rel_embeddings");
    if !by_query && !by_key {
        spec.idle.push(format!("{tensor}.weight"));
        spec.idle.extend(norm.iter().flat_map(|n| [format!("{n}.weight"), format!("{n}.bias")]));
        return Ok(());
    }
    spec.relative = Some(Relative::Disentangled(Disentangled {
        tensor,
        norm,
        span,
        table,
        keys: by_query.then_some(keys),
        queries: by_key.then_some(queries),
    }));
    Ok(())
}

/// `pos_att_type`, a list or one text as `c2p|p2c`.
fn kinds(settings: &Settings<'_>) -> Result<Vec<String>, FamilyError> {
    let key = "pos_att_type";
    let listed = settings.texts(key)?.unwrap_or_default().join("|").to_lowercase();
    let kinds: Vec<String> =
        listed.split('|').map(|kind| kind.trim().to_owned()).filter(|kind| !kind.is_empty()).collect();
    match kinds.iter().find(|kind| !matches!(kind.as_str(), "c2p" | "p2c")) {
        None => Ok(kinds),
        Some(other) => {
            let shown: String = other.chars().take(60).collect();
            let cause = "known kinds are c2p, p2c";
            Err(settings.unsupported(key, format!("\"{shown}\""), cause, "Use a program for another one"))
        }
    }
}

/// A whole number of at least 0; numbers below, which files have for what is off, are 0.
fn whole(settings: &Settings<'_>, key: &str, default: u32) -> Result<u32, FamilyError> {
    match settings.number(key)? {
        None => Ok(default),
        Some(n) if n < 0.0 => Ok(0),
        Some(n) if n.fract() == 0.0 && n < 16_777_216.0 => Ok(n as u32),
        Some(n) => Err(settings.bad(key, n, "expected a whole number", "Correct it")),
    }
}

/// The row of the table of distances for each distance of a query from a key, as far as it changes: from `-reach` to
/// `reach`. `None` where that is too far.
fn rows(span: u32, buckets: u32, farthest: u32) -> Option<Vec<u32>> {
    let span = i64::from(span);
    let bucket = |distance: i64| if buckets > 0 { bucket(distance, buckets, farthest) } else { distance };
    let reach = (0..=i64::from(FARTHEST)).find(|&distance| bucket(distance) >= span)?;
    Some((-reach..=reach).map(|distance| (bucket(distance) + span).clamp(0, 2 * span - 1) as u32).collect())
}

/// The bucket of a distance: near ones their own, far ones by logarithm. In single precision, as the reference has it,
/// since the steps round up.
fn bucket(distance: i64, buckets: u32, farthest: u32) -> i64 {
    let half = i64::from(buckets / 2);
    let far = distance.abs();
    if far <= half {
        return distance;
    }
    let of_half = |distance: f32| (distance / half as f32).ln();
    let ratio = of_half(far as f32) / of_half(farthest as f32 - 1.0);
    let steps = (ratio * (half - 1) as f32).ceil();
    distance.signum() * (steps as i64 + half)
}

/// The convolution after the first layer.
fn convolution(settings: &mut Settings<'_>, base: &str) -> Result<Option<Convolution>, FamilyError> {
    let kernel = whole(settings, "conv_kernel_size", 0)?;
    let groups = whole(settings, "conv_groups", 1)?;
    let activation = read::activation(settings, "conv_act", "tanh")?;
    if kernel == 0 {
        return Ok(None);
    }
    if kernel.is_multiple_of(2) || kernel > 1024 {
        return Err(settings.bad("conv_kernel_size", kernel, "expected an odd number of tokens", "Correct it"));
    }
    if groups != 1 {
        let cause = "a convolution in groups is not built for this type";
        return Err(settings.unsupported("conv_groups", groups, cause, "Use a program"));
    }
    let (name, norm) = (format!("{base}encoder.conv.conv"), format!("{base}encoder.conv.LayerNorm"));
    Ok(Some(Convolution { name, norm, kernel, activation }))
}

fn head(settings: &mut Settings<'_>, tensors: &dyn TensorShapes, spec: &mut EncoderSpec) -> Result<(), FamilyError> {
    let hidden = spec.hidden;
    let pooler_width = settings.optional_size("pooler_hidden_size")?.unwrap_or(hidden);
    let pooler_activation = read::activation(settings, "pooler_hidden_act", "gelu")?;
    // Which of the heads of words it is, its tensors say.
    settings.flag("legacy", true)?;
    let (cls, lm) = ("cls.predictions", "lm_predictions.lm_head");
    let activation = spec.feed_forward.activation;
    if has(tensors, &format!("{lm}.dense")) {
        let steps = vec![
            Step::linear(&format!("{lm}.dense"), [hidden; 2], true),
            Step::Activate(activation),
            Step::Norm { name: format!("{lm}.LayerNorm"), width: hidden, norm: spec.norm },
            Step::Linear {
                weight: format!("{}.weight", spec.embeddings.words),
                shape: [spec.vocab, spec.embeddings.width],
                bias: Some(format!("{lm}.bias")),
            },
        ];
        spec.head = Some(Head { rows: Rows::Tokens, steps });
    } else if has(tensors, &format!("{cls}.transform.dense")) {
        let names = [format!("{cls}.transform.dense"), format!("{cls}.transform.LayerNorm"), format!("{cls}.decoder")];
        let biases = [format!("{cls}.decoder.bias"), format!("{cls}.bias")];
        words_head(settings, tensors, spec, names, activation, &biases)?;
    } else if has(tensors, "classifier") {
        let labels = read::labels(settings, tensors, "classifier")?;
        let last = Step::linear("classifier", [labels, hidden], true);
        let pooled = has(tensors, "pooler.dense");
        spec.head = Some(match read::task(settings)?.map_or(pooled, |task| task == Task::Texts) {
            false => Head { rows: Rows::Tokens, steps: vec![last] },
            true if pooler_width != hidden => {
                let cause = format!("the pooler reads the first token, which has {hidden} values");
                return Err(settings.bad("pooler_hidden_size", pooler_width, cause, "Correct it"));
            }
            true => Head {
                rows: Rows::First,
                steps: vec![Step::linear("pooler.dense", [hidden; 2], true), Step::Activate(pooler_activation), last],
            },
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_have_the_rows_of_the_reference() {
        // Without buckets: each distance its own, clamped.
        assert_eq!(rows(2, 0, 2).unwrap(), [0, 1, 2, 3, 3]);
        // As `make_log_bucket_position` has them for 8 buckets and distances up to 20.
        let of = |distance| bucket(distance, 8, 20);
        let found: Vec<i64> = [0, 1, 3, 4, 5, 6, 7, 9, 12, 15, 18, 19, 20, 30].map(of).to_vec();
        assert_eq!(found, [0, 1, 3, 4, 5, 5, 6, 6, 7, 7, 7, 7, 8, 8]);
        assert!((1..40).all(|d| of(-d) == -of(d)));
        let table = rows(8, 8, 20).unwrap();
        assert_eq!((table.len(), table[0], *table.last().unwrap()), (41, 0, 15));
        // The buckets that models in use have.
        let table = rows(256, 256, 512).unwrap();
        assert_eq!((table[0], table[table.len() / 2], *table.last().unwrap()), (0, 256, 511));
        assert!(table.windows(2).all(|pair| pair[0] <= pair[1]));
    }
}
