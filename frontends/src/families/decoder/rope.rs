//! Rotary embedding: from the settings of a config to the operation of a layer.
//!
//! Formulas of the scalings are those of `tallow_ir::rope`; what stands here is which keys feed
//! them, and what a missing key means.

use crate::families::{FamilyError, Settings};
use tallow_ir::Op;
use tallow_ir::ops::Scaling;

/// The rotation of queries and keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Width of the rotated prefix of each head; even.
    pub width: u32,
    /// The base of the frequencies (theta).
    pub base: f32,
    /// Pairs are `(2j, 2j + 1)` instead of `(j, j + width/2)`.
    pub interleaved: bool,
    /// How the frequencies are stretched.
    pub scaling: Scaling,
    /// By how much.
    pub factor: f32,
    /// The length that the unstretched model was trained for.
    pub original: u32,
    /// Turns below which a band is stretched (yarn), or the divisor of the long wavelength (llama3).
    pub low: f32,
    /// Turns above which a band is kept (yarn), or the divisor of the short wavelength (llama3).
    pub high: f32,
    /// Factor on cosines and sines.
    pub attention_factor: f32,
    /// A divisor per pair, for short calls or for all.
    pub short: Vec<f32>,
    /// A divisor per pair, for calls that reach past `original`.
    pub long: Vec<f32>,
    /// Pairs that turn by each of several positions of a token, in order; empty where a token has one position.
    pub sections: Vec<u32>,
}

impl Rope {
    /// An unscaled rotation of `width` lanes.
    pub fn plain(width: u32, base: f32) -> Self {
        Rope {
            width,
            base,
            interleaved: false,
            scaling: Scaling::Unscaled,
            factor: 1.0,
            original: 0,
            low: 1.0,
            high: 1.0,
            attention_factor: 1.0,
            short: Vec::new(),
            long: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// The operation on heads of `head_dim` lanes: `Rope` where that says it all.
    pub fn op(&self, head_dim: u32) -> Op {
        if !self.sections.is_empty() {
            let (sections, base) = (self.sections.clone(), self.base.into());
            return Op::RopeMulti { head_dim, base, interleaved: self.interleaved, sections, restart: false };
        }
        if *self == Rope::plain(head_dim, self.base) {
            return Op::Rope { head_dim, rope_dim: head_dim, base: self.base.into() };
        }
        let reals = |list: &[f32]| list.iter().map(|&x| x.into()).collect();
        Op::RopeScaled {
            head_dim,
            rope_dim: self.width,
            base: self.base.into(),
            interleaved: self.interleaved,
            scaling: self.scaling,
            factor: self.factor.into(),
            original: self.original,
            low: self.low.into(),
            high: self.high.into(),
            attention_factor: self.attention_factor.into(),
            short: reals(&self.short),
            long: reals(&self.long),
        }
    }
}

/// What a type brings to the reading of its rotary keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Size of a head.
    pub head_dim: u32,
    /// Theta where no key gives one.
    pub theta: f64,
    /// `max_position_embeddings` where the key is missing.
    pub max_positions: u32,
    /// Whether the type rotates the prefix that `partial_rotary_factor` names, and by default.
    pub partial: Option<f64>,
    /// phi3: only `longrope`, under more names, with its own original length where no key gives one.
    pub phi3: bool,
}

/// The rotary kinds that a config may name.
const KINDS: &str = "default, linear, dynamic, yarn, llama3, longrope, factors";

/// Keys of the scaling table, of whatever kind: one that the kind at hand does not use is without
/// effect.
pub(super) const KEYS: &[&str] = &[
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "factor",
    "factors",
    "finetuned",
    "high_freq_factor",
    "long_factor",
    "low_freq_factor",
    "mscale",
    "mscale_all_dim",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "rope_theta",
    "rope_type",
    "short_factor",
    "truncate",
    "type",
];

/// Reads the one rotation of a type: `rope_scaling`, else `rope_parameters`, and the keys beside
/// them. A theta or a partial factor inside the table beats the one beside it.
pub(crate) fn read(settings: &mut Settings<'_>, rules: Rules) -> Result<Rope, FamilyError> {
    let theta = settings.positive("rope_theta")?.unwrap_or(rules.theta);
    // Both keys count as read, whichever gives the table.
    let (scaling, parameters) = (settings.table("rope_scaling")?, settings.table("rope_parameters")?);
    let table = scaling.filter(|t| !t.is_empty()).or(parameters);
    finish(settings, table, theta, rules)
}

/// Reads the two rotations of a type whose sliding and full layers differ: `(sliding, full)`.
///
/// `rope_theta` is the theta of sliding layers and `rope_theta_full` that of full ones; `rope_theta`
/// alone is that of both. Nested `rope_parameters` and `rope_local_base_freq`, with which `rope_theta`
/// belongs to the full layers, are read too. A scaling changes the full layers only.
pub(super) fn read_pair(
    settings: &mut Settings<'_>,
    rules: Rules,
    theta_sliding: f64,
) -> Result<(Rope, Rope), FamilyError> {
    let plain = settings.positive("rope_theta")?;
    let full = settings.positive("rope_theta_full")?;
    let local = settings.positive("rope_local_base_freq")?;
    if let (Some(full), Some(local)) = (full, local) {
        return Err(settings.bad(
            "rope_theta_full",
            full,
            format!("`rope_local_base_freq` = {local} belongs to another way of naming the thetas"),
            "Write `rope_theta` for sliding layers and `rope_theta_full` for full ones",
        ));
    }
    let (theta_sliding, theta_full) = match (plain, full, local) {
        (None, None, None) => (theta_sliding, rules.theta),
        (plain, None, Some(local)) => (local, plain.unwrap_or(rules.theta)),
        (Some(one), None, None) => (one, one),
        (plain, Some(full), _) => (plain.unwrap_or(theta_sliding), full),
    };
    let scaling = settings.table("rope_scaling")?.filter(|t| !t.is_empty());
    let (mut full_table, mut sliding_table) = (scaling, None);
    if let Some(nested) = settings.table("rope_parameters")? {
        sliding_table = nested.table("sliding_attention")?;
        let inner = nested.table("full_attention")?;
        full_table = full_table.or(inner);
        settings.absorb(nested, &[]);
    }
    let sliding = finish(settings, sliding_table, theta_sliding, rules)?;
    let full = finish(settings, full_table, theta_full, rules)?;
    Ok((sliding, full))
}

/// The rotation that a scaling table describes, or the plain one without a table.
pub(crate) fn finish(
    settings: &mut Settings<'_>,
    table: Option<Settings<'_>>,
    theta: f64,
    rules: Rules,
) -> Result<Rope, FamilyError> {
    let beside = settings.number("partial_rotary_factor")?;
    let Some(table) = table else {
        let share = share(settings, beside, rules, "default")?;
        return Ok(Rope::plain(width(settings, share, rules)?, theta as f32));
    };
    let theta = table.positive("rope_theta")?.unwrap_or(theta);
    let inside = table.number("partial_rotary_factor")?.or(beside);
    let kind = match table.text("rope_type")? {
        Some(kind) => kind,
        None => table.text("type")?.unwrap_or_else(|| "default".to_owned()),
    };
    let share = share(settings, inside, rules, &kind)?;
    let width = width(settings, share, rules)?;
    let rope = scaled(settings, &table, &kind, Rope::plain(width, theta as f32), rules)?;
    settings.absorb(table, KEYS);
    Ok(rope)
}

/// The share of each head that is rotated.
fn share(settings: &mut Settings<'_>, found: Option<f64>, rules: Rules, kind: &str) -> Result<f64, FamilyError> {
    let key = "partial_rotary_factor";
    match (found, rules.partial) {
        (found, Some(default)) => {
            let share = found.unwrap_or(default);
            if share > 0.0 && share <= 1.0 {
                Ok(share)
            } else {
                Err(settings.bad(key, share, "expected a share above 0, up to 1", "Correct it"))
            }
        }
        (Some(found), None) if found != 1.0 => {
            let model_type = settings.model_type();
            if kind != "default" {
                return Err(settings.unsupported(
                    key,
                    found,
                    format!("this type rotates whole heads, and with `rope_type` `{kind}` the reference fails"),
                    "Remove the key",
                ));
            }
            let note = format!("`{key}` = {found} has no effect: `{model_type}` rotates whole heads");
            settings.note(note);
            Ok(1.0)
        }
        (_, None) => Ok(1.0),
    }
}

fn width(settings: &Settings<'_>, share: f64, rules: Rules) -> Result<u32, FamilyError> {
    let width = (f64::from(rules.head_dim) * share) as u32;
    if width == 0 || !width.is_multiple_of(2) {
        return Err(settings.bad(
            "head_dim",
            rules.head_dim,
            format!("{width} lanes of each head are rotated, and lanes are rotated in pairs"),
            "Make the rotated width even",
        ));
    }
    Ok(width)
}

/// `plain` with the scaling that `table` describes.
fn scaled(
    settings: &Settings<'_>,
    table: &Settings<'_>,
    kind: &str,
    plain: Rope,
    rules: Rules,
) -> Result<Rope, FamilyError> {
    let kind = match kind {
        "su" | "yarn" if rules.phi3 => "longrope",
        "default" | "longrope" => kind,
        _ if rules.phi3 => {
            return Err(unknown(table, kind, "default and longrope"));
        }
        _ => kind,
    };
    let lengths = Lengths::read(settings, table, rules)?;
    match kind {
        "default" => Ok(plain),
        "linear" => Ok(Rope { scaling: Scaling::Linear, factor: factor(table)?, ..plain }),
        "dynamic" => {
            if plain.width <= 2 {
                return Err(table.unsupported(
                    "rope_type",
                    "dynamic",
                    "it needs a rotated width above 2",
                    "Use another scaling",
                ));
            }
            Ok(Rope { scaling: Scaling::Dynamic, factor: factor(table)?, original: lengths.longest, ..plain })
        }
        "yarn" => yarn(table, lengths, plain),
        "llama3" => {
            let low = required(table, "low_freq_factor")?;
            let high = required(table, "high_freq_factor")?;
            if low == high {
                return Err(table.bad(
                    "high_freq_factor",
                    high,
                    "it must differ from `low_freq_factor`",
                    "Correct one of them",
                ));
            }
            Ok(Rope {
                scaling: Scaling::Llama3,
                factor: factor(table)?,
                original: lengths.original,
                low: low as f32,
                high: high as f32,
                ..plain
            })
        }
        "longrope" => {
            let stretch = table.positive("factor")?.unwrap_or_else(|| lengths.ratio());
            let given = table.number("attention_factor")?;
            let attention_factor = match given {
                Some(a) => a,
                None if stretch <= 1.0 => 1.0,
                None if lengths.original > 1 => (1.0 + stretch.ln() / f64::from(lengths.original).ln()).sqrt(),
                None => {
                    return Err(table.bad(
                        "original_max_position_embeddings",
                        lengths.original,
                        "its logarithm divides",
                        "Correct it, or set `attention_factor`",
                    ));
                }
            };
            Ok(Rope {
                scaling: Scaling::LongRope,
                factor: stretch as f32,
                original: lengths.original,
                attention_factor: attention_factor as f32,
                short: divisors(table, "short_factor", plain.width)?,
                long: divisors(table, "long_factor", plain.width)?,
                ..plain
            })
        }
        "factors" => Ok(Rope {
            scaling: Scaling::Factors,
            attention_factor: table.number("attention_factor")?.unwrap_or(1.0) as f32,
            short: divisors(table, "factors", plain.width)?,
            ..plain
        }),
        other => Err(unknown(table, other, KINDS)),
    }
}

fn yarn(table: &Settings<'_>, lengths: Lengths, plain: Rope) -> Result<Rope, FamilyError> {
    let factor = table.positive("factor")?.unwrap_or_else(|| lengths.ratio());
    let some = |key| Ok::<_, FamilyError>(table.number(key)?.filter(|x| *x != 0.0));
    let gain = |m: f64| {
        if factor <= 1.0 { 1.0 } else { 0.1 * m * factor.ln() + 1.0 }
    };
    let given = table.number("attention_factor")?;
    let attention_factor = match (given, some("mscale")?, some("mscale_all_dim")?) {
        (Some(a), _, _) => a,
        (None, Some(m), Some(all)) => gain(m) / gain(all),
        (None, _, _) => gain(1.0),
    };
    if !(attention_factor as f32).is_finite() {
        return Err(table.bad(
            "mscale_all_dim",
            some("mscale_all_dim")?.unwrap_or(0.0),
            "it makes the factor on cosines and sines infinite",
            "Correct it, or set `attention_factor`",
        ));
    }
    // Zero, as in the reference, means the default.
    let turns = |key, default| match some(key)? {
        Some(_) => Ok(table.positive(key)?.unwrap_or(default)),
        None => Ok::<_, FamilyError>(default),
    };
    let (low, high) = (turns("beta_slow", 1.0)?, turns("beta_fast", 32.0)?);
    if plain.base == 1.0 {
        return Err(table.bad("rope_theta", 1, "its logarithm divides", "Correct it"));
    }
    let exact = !table.flag("truncate", true)?;
    Ok(Rope {
        scaling: if exact { Scaling::YarnExact } else { Scaling::Yarn },
        factor: factor as f32,
        original: lengths.original,
        low: low as f32,
        high: high as f32,
        attention_factor: attention_factor as f32,
        ..plain
    })
}

/// The lengths that scalings compare.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    original: u32,
    longest: u32,
}

impl Lengths {
    /// A top-level `original_max_position_embeddings` beats the one in the table; without either it
    /// is `max_position_embeddings` (phi3: 4096).
    fn read(settings: &Settings<'_>, table: &Settings<'_>, rules: Rules) -> Result<Self, FamilyError> {
        let key = "original_max_position_embeddings";
        let longest = settings.optional_size("max_position_embeddings")?.unwrap_or(rules.max_positions);
        let inside = table.optional_size(key)?;
        let silent = if rules.phi3 { rules.max_positions } else { longest };
        let original = settings.optional_size(key)?.or(inside).unwrap_or(silent);
        Ok(Lengths { original, longest })
    }

    fn ratio(self) -> f64 {
        f64::from(self.longest) / f64::from(self.original)
    }
}

fn factor(table: &Settings<'_>) -> Result<f32, FamilyError> {
    required(table, "factor").map(|x| x as f32)
}

fn required(table: &Settings<'_>, key: &str) -> Result<f64, FamilyError> {
    table.positive(key)?.ok_or_else(|| table.bad(key, "nothing", "the scaling needs it", "Add it"))
}

/// One divisor for each rotated pair.
fn divisors(table: &Settings<'_>, key: &str, width: u32) -> Result<Vec<f32>, FamilyError> {
    let Some(list) = table.numbers(key)? else {
        return Err(table.bad(key, "nothing", "the scaling needs it", "Add it"));
    };
    if list.len() != width as usize / 2 {
        return Err(table.bad(
            key,
            format!("a list of {}", list.len()),
            format!("{} pairs are rotated", width / 2),
            "Give one factor per pair",
        ));
    }
    let fits = |x: f64| x as f32 > 0.0 && (x as f32).is_finite();
    match list.iter().find(|x| !fits(**x)) {
        Some(x) => Err(table.bad(key, x, "expected factors above 0", "Correct it")),
        None => Ok(list.into_iter().map(|x| x as f32).collect()),
    }
}

fn unknown(table: &Settings<'_>, kind: &str, known: &str) -> FamilyError {
    table.unsupported(
        "rope_type",
        format!("\"{}\"", kind.chars().take(60).collect::<String>()),
        format!("known scalings are {known}"),
        "Use a program or a graph section for another scaling",
    )
}
