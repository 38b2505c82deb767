//! How an encoder-decoder generates text: the settings of `generate`.

use crate::families::{FamilyError, Settings};
use crate::program::module::{Driver, Sampling, Start};
use crate::program::rules::{BeamOptions, EarlyStopping, MOST_BEAMS, Rules};

/// Settings of `generate` that say how a text is searched for and what it may hold. Other networks than encoder-decoders have no
/// use for them, though files spell them out for every type.
pub const GENERATION: &[&str] = &[
    "bad_words_ids",
    "begin_suppress_tokens",
    "decoder_start_token_id",
    "diversity_penalty",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "forced_bos_token_id",
    "forced_decoder_ids",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "suppress_tokens",
];

/// Keys of published encoder-decoders that nothing reads: training, other classes of a model, and what the library no longer
/// looks at.
pub const IGNORED: &[&str] = &[
    "_num_labels",
    "add_bias_logits",
    "add_final_layer_norm",
    "classif_dropout",
    "classifier_dropout",
    "extra_pos_embeddings",
    "is_decoder",
    "n_positions",
    "normalize_before",
    "normalize_embedding",
    "num_hidden_layers",
    "num_labels",
    "output_past",
    "problem_type",
    "save_step",
    "static_position_embeddings",
    "top_k",
];

/// A generation that begins with `decoder_start_token_id`, or with `start` where that is missing, and holds at most `total`
/// tokens.
pub(super) fn driver(
    s: &mut Settings<'_>,
    vocab: u32,
    start: Option<u32>,
    total: Option<u32>,
) -> Result<Driver, FamilyError> {
    let own = s.token_id("decoder_start_token_id")?;
    let Some(first) = own.or(start) else {
        return Err(s.bad(
            "decoder_start_token_id",
            "nothing",
            "the decoder begins with it, and this type has no default",
            "Add it",
        ));
    };
    for key in ["encoder_no_repeat_ngram_size", "diversity_penalty"] {
        if s.number(key)?.is_some_and(|n| n != 0.0) {
            s.note(format!("`{key}` has no effect here; text may differ from that of the reference"));
        }
    }
    if s.optional_size("num_beam_groups")?.is_some_and(|n| n > 1) {
        s.note("`num_beam_groups`: the beams are searched as one group");
    }
    let size = |key: &str| s.count(key, 0).map(|n| n as usize);
    let inside = |key: &str, n: i64| match u32::try_from(n).ok().filter(|&id| id < vocab) {
        Some(id) => Ok(id),
        None => {
            Err(s.bad(key, n, format!("the vocabulary has the ids 0 to {}", vocab.saturating_sub(1)), "Correct it"))
        }
    };
    let ids = |key: &str, list: Vec<i64>| list.into_iter().map(|n| inside(key, n)).collect::<Result<Vec<u32>, _>>();
    let listed = |key: &str| ids(key, s.integers(key)?.unwrap_or_default());
    let one = |key: &str| s.token_id(key)?.map(|id| inside(key, id.into())).transpose();
    own.map(|id| inside("decoder_start_token_id", id.into())).transpose()?;
    let bos = match s.flag("force_bos_token_to_be_generated", false)? {
        true => one("bos_token_id")?,
        false => None,
    };
    let banned = s.rows("bad_words_ids")?.into_iter().map(|list| ids("bad_words_ids", list));
    let rules = Rules {
        no_repeat: size("no_repeat_ngram_size")?,
        banned: banned.collect::<Result<_, _>>()?,
        least: size("min_length")?,
        least_new: size("min_new_tokens")?,
        first: one("forced_bos_token_id")?.or(bos),
        last: listed("forced_eos_token_id")?.first().copied(),
        suppress: listed("suppress_tokens")?,
        suppress_first: listed("begin_suppress_tokens")?,
    };
    // New tokens count for more than all together.
    let new = s.optional_size("max_new_tokens")?.map(|n| n.saturating_add(1));
    let length = new.or(s.optional_size("max_length")?).map(|n| n as usize);
    Ok(Driver {
        start: Start::Ids(vec![first]),
        sampling: Sampling::greedy(),
        rules,
        beams: beams(s)?,
        stop: Vec::new(),
        limit: None,
        length,
        total: total.map(|n| n as usize),
    })
}

/// The search that the settings ask for.
fn beams(s: &Settings<'_>) -> Result<Option<BeamOptions>, FamilyError> {
    let penalty = s.number("length_penalty")?.unwrap_or(1.0);
    let early = match s.text("early_stopping") {
        Ok(Some(text)) if text == "never" => EarlyStopping::Never,
        Ok(Some(text)) => {
            return Err(s.bad("early_stopping", text, "expected true, false or \"never\"", "Correct it"));
        }
        Ok(None) => EarlyStopping::Likely,
        // No text.
        Err(_) if s.flag("early_stopping", false)? => EarlyStopping::Full,
        Err(_) => EarlyStopping::Likely,
    };
    let beams = s.optional_size("num_beams")?.unwrap_or(1) as usize;
    if beams > MOST_BEAMS {
        return Err(s.bad("num_beams", beams, format!("at most {MOST_BEAMS} texts are kept at once"), "Lower it"));
    }
    let options = BeamOptions { beams, length_penalty: penalty as f32, early_stopping: early };
    Ok((beams > 1).then_some(options))
}
