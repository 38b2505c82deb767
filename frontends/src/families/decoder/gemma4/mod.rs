//! gemma4 (text): full layers with heads of their own, values that are normalised, layers that share keys and values,
//! an input for each layer and token, and experts beside the feed-forward.

mod build;

use super::read::{Defaults, causal, llama_names, tables};
use super::rope::Rope;
use super::{Activation, Embedding, Head, Names, windows};
use crate::families::experts::{ExpertNames, Experts, Router, Scores};
use crate::families::{Build, FamilyError, Settings, TensorShapes};
use tallow_ir::Op;
use tallow_ir::ops::Scaling;

/// A decoder of this type.
#[derive(Clone, Debug, PartialEq)]
pub struct Gemma4 {
    /// Rows of the embedding and of the logits.
    pub vocab: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Names of tensors: prefix and layers.
    pub names: Names,
    /// From ids to the residual stream.
    pub embedding: Embedding,
    /// From the residual stream to logits.
    pub head: Head,
    /// ε of all norms.
    pub eps: f32,
    /// The activation of all feed-forwards.
    pub activation: Activation,
    /// Query heads of every layer.
    pub heads: u32,
    /// Whether the projections of attention have biases.
    pub bias: bool,
    /// Whether a query sees no key after itself.
    pub causal: bool,
    /// An input for each layer and token.
    pub per_layer: Option<PerLayer>,
    /// Experts beside the feed-forward of every layer.
    pub experts: Option<Experts>,
    /// What differs from layer to layer.
    pub layers: Vec<Gemma4Layer>,
}

/// The input that each layer gets for each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerLayer {
    /// Its width.
    pub width: u32,
    /// Rows of its table.
    pub vocab: u32,
}

/// A layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Gemma4Layer {
    /// How many keys a query sees, itself included; `None` for all.
    pub window: Option<u32>,
    /// Size of a head.
    pub head_dim: u32,
    /// Key/value heads.
    pub kv_heads: u32,
    /// Where keys and values come from.
    pub keys: Keys,
    /// Width of the feed-forward.
    pub width: u32,
    /// The rotation of queries and keys; `None` where no lane turns.
    pub rope: Option<Op>,
}

/// Where keys and values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// A projection each.
    Own,
    /// One projection for both.
    Joint,
    /// Those of an earlier layer.
    Of(usize),
}

const DEFAULTS: Defaults = Defaults {
    hidden: 2304,
    width: 9216,
    layers: 30,
    heads: 8,
    kv_heads: 4,
    head_dim: 256,
    vocab: 262_144,
    eps: 1e-6,
    theta: 1_000_000.0,
    max_positions: 131_072,
    activation: ("hidden_activation", Activation::GeluTanh),
};

/// Reads the settings of gemma4.
///
/// # Errors
/// Settings that are wrong or not supported.
pub fn gemma4(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<Box<dyn Build>, FamilyError> {
    let names = llama_names(tensors);
    let (mut embedding, mut head) = tables(s, &names, tensors)?;
    let hidden = s.size("hidden_size", DEFAULTS.hidden)?;
    embedding.scale = f64::from(hidden).sqrt() as f32;
    head.softcap = s.softcap("final_logit_softcapping", None)?;
    let layers = s.layers(DEFAULTS.layers)?;
    let activation = s.activation(DEFAULTS.activation.0, DEFAULTS.activation.1)?;
    let mut windows = windows::by_layer(s, layers, Some(512), |i| (i + 1) % 6 != 0)?;
    // The last layer is full, whatever the list says.
    windows.iter_mut().rev().take(1).for_each(|window| *window = None);
    let heads = s.size("num_attention_heads", DEFAULTS.heads)?;
    let layers = read_layers(s, heads, windows)?;
    let causal = both_ways(s, &layers)?;
    let width = s.count("hidden_size_per_layer_input", 256)?;
    let vocab = s.size("vocab_size_per_layer_input", 262_144)?;
    Ok(Box::new(Gemma4 {
        vocab: s.size("vocab_size", DEFAULTS.vocab)?,
        hidden,
        names,
        embedding,
        head,
        eps: s.epsilon("rms_norm_eps", DEFAULTS.eps)?,
        activation,
        heads,
        bias: s.flag("attention_bias", false)?,
        causal,
        per_layer: (width > 0).then_some(PerLayer { width, vocab }),
        experts: experts(s, activation)?,
        layers,
    }))
}

/// Whether attention is causal.
fn both_ways(s: &Settings<'_>, layers: &[Gemma4Layer]) -> Result<bool, FamilyError> {
    let windows: Vec<_> = layers.iter().map(|layer| layer.window).collect();
    let causal = causal(s, &windows)?;
    let key = "use_bidirectional_attention";
    match s.text(key)?.as_deref() {
        // Blocks of pictures alone see both ways, and texts have none.
        None | Some("" | "vision") => Ok(causal),
        Some("all") if windows.iter().all(Option::is_none) => Ok(false),
        Some("all") => {
            let cause = "windows that reach in both directions are not built";
            Err(s.unsupported(key, "\"all\"", cause, "Use a program"))
        }
        Some(other) => {
            let found = format!("\"{}\"", other.chars().take(60).collect::<String>());
            Err(s.bad(key, found, "expected \"all\" or \"vision\"", "Correct it"))
        }
    }
}

fn experts(s: &mut Settings<'_>, activation: Activation) -> Result<Option<Experts>, FamilyError> {
    let on = s.flag("enable_moe_block", false)?;
    let keys = ["num_experts", "top_k_experts", "moe_intermediate_size"];
    let mut numbers = [0; 3];
    for (number, key) in numbers.iter_mut().zip(keys) {
        *number = match s.optional_size(key)? {
            None if on => return Err(s.bad(key, "nothing", "`enable_moe_block` is true", "Add it")),
            n => n.unwrap_or(0),
        };
    }
    let [experts, chosen, width] = numbers;
    if !on {
        return Ok(None);
    }
    let router = Router { experts, chosen, scores: Scores::Softmax, groups: None, renormalise: Some(0.0), scale: 1.0 };
    router.check(s, [keys[0], keys[1], "", ""])?;
    Ok(Some(Experts { router, width, activation, names: ExpertNames::GEMMA4, shared: None }))
}

/// The layers, whose windows are known.
fn read_layers(s: &mut Settings<'_>, heads: u32, windows: Vec<Option<u32>>) -> Result<Vec<Gemma4Layer>, FamilyError> {
    let width = s.size("intermediate_size", DEFAULTS.width)?;
    let joint = s.flag("attention_k_eq_v", false)?;
    let sizes = head_sizes(s, &windows, joint)?;
    let (sliding, full) = rotations(s)?;
    let shared = s.count("num_kv_shared_layers", 0)? as usize;
    let wide = s.flag("use_double_wide_mlp", false)?;
    let Some(first_shared) = windows.len().checked_sub(shared).filter(|n| *n > 0) else {
        let cause = format!("of {} layers at least one must have keys of its own", windows.len());
        return Err(s.bad("num_kv_shared_layers", shared, cause, "Correct it"));
    };
    let mut layers: Vec<Gemma4Layer> = Vec::with_capacity(windows.len());
    for (i, (window, (head_dim, kv_heads))) in windows.into_iter().zip(sizes).enumerate() {
        if !heads.is_multiple_of(kv_heads) || u64::from(heads) * u64::from(head_dim) > 1 << 28 {
            let cause = format!("layer {i} has {kv_heads} key/value heads of {head_dim} lanes");
            return Err(s.bad("num_attention_heads", heads, cause, "Make it a multiple, of a possible size"));
        }
        let full_layer = window.is_none();
        let keys = match (i < first_shared, full_layer && joint) {
            (true, true) => Keys::Joint,
            (true, false) => Keys::Own,
            (false, _) => {
                let like = |l: &Gemma4Layer| l.window.is_none() == full_layer;
                match layers[..first_shared].iter().rposition(like) {
                    Some(of) if (layers[of].head_dim, layers[of].kv_heads) == (head_dim, kv_heads) => Keys::Of(of),
                    _ => {
                        let cause = format!("no layer before {first_shared} has keys of the kind of layer {i}");
                        return Err(s.bad("num_kv_shared_layers", shared, cause, "Correct it"));
                    }
                }
            }
        };
        let width = if wide && i >= first_shared { 2 * width } else { width };
        let rope = if full_layer { &full } else { &sliding }.op(head_dim);
        layers.push(Gemma4Layer { window, head_dim, kv_heads, keys, width, rope });
    }
    Ok(layers)
}

/// Head size and key/value heads of each layer: by `per_layer_config`, else by the two keys for full layers, of which the
/// second counts only where keys and values are joint.
fn head_sizes(s: &mut Settings<'_>, windows: &[Option<u32>], joint: bool) -> Result<Vec<(u32, u32)>, FamilyError> {
    let plain = (s.size("head_dim", DEFAULTS.head_dim)?, s.size("num_key_value_heads", DEFAULTS.kv_heads)?);
    let global = s.optional_size("global_head_dim")?.unwrap_or(512);
    let global_kv = s.optional_size("num_global_key_value_heads")?.filter(|_| joint).unwrap_or(plain.1);
    let Some(mut table) = s.table("per_layer_config")? else {
        let of = |window: &Option<u32>| if window.is_some() { plain } else { (global, global_kv) };
        return Ok(windows.iter().map(of).collect());
    };
    let mut sizes = Vec::with_capacity(windows.len());
    for i in 0..windows.len() {
        let Some(layer) = table.table(&i.to_string())? else {
            sizes.push(plain);
            continue;
        };
        let (head_dim, kv_heads) = (layer.optional_size("head_dim")?, layer.optional_size("num_key_value_heads")?);
        sizes.push((head_dim.unwrap_or(plain.0), kv_heads.unwrap_or(plain.1)));
        table.absorb(layer, &[]);
    }
    s.absorb(table, &[]);
    Ok(sizes)
}

/// A rotation before the size of heads is known.
#[derive(Clone, Copy, Debug)]
struct Turning {
    theta: f64,
    /// The share of the pairs of a head that turn: the leading ones, with the frequencies that they have in a whole head.
    share: f64,
    /// Frequencies are divided by this.
    factor: f64,
}

impl Turning {
    /// The operation on heads of `head_dim` lanes; `None` where nothing turns.
    fn op(&self, head_dim: u32) -> Option<Op> {
        let pairs = (self.share * f64::from(head_dim) / 2.0).floor() as u32;
        if pairs == 0 {
            return None;
        }
        let base = self.theta as f32;
        if self.factor == 1.0 {
            return Some(Op::Rope { head_dim, rope_dim: 2 * pairs, base: base.into() });
        }
        // Pairs that do not turn: a divisor beyond which no frequency is left.
        let divisor = |pair| if pair < pairs { self.factor as f32 } else { f32::MAX };
        let short = (0..head_dim / 2).map(divisor).collect();
        Some(Rope { scaling: Scaling::Factors, short, ..Rope::plain(head_dim, base) }.op(head_dim))
    }
}

/// The rotations of sliding and of full layers. Without `rope_parameters` a quarter of the pairs of full layers turn; where
/// they are there, both kinds must be.
fn rotations(s: &mut Settings<'_>) -> Result<(Turning, Turning), FamilyError> {
    let Some(mut nested) = s.table("rope_parameters")? else {
        let sliding = Turning { theta: 10_000.0, share: 1.0, factor: 1.0 };
        return Ok((sliding, Turning { theta: DEFAULTS.theta, share: 0.25, factor: 1.0 }));
    };
    let sliding = turning(&mut nested, "sliding_attention", &["default"])?;
    let full = turning(&mut nested, "full_attention", &["proportional", "default"])?;
    s.absorb(nested, &[]);
    Ok((sliding, full))
}

fn turning(nested: &mut Settings<'_>, kind: &str, known: &[&str]) -> Result<Turning, FamilyError> {
    let Some(table) = nested.table(kind)? else {
        return Err(nested.bad(kind, "nothing", "each kind of layer has a rotation of its own", "Add it"));
    };
    let name = table.text("rope_type")?.unwrap_or_else(|| "default".to_owned());
    if !known.contains(&name.as_str()) {
        return Err(table.unsupported(
            "rope_type",
            format!("\"{}\"", name.chars().take(60).collect::<String>()),
            format!("known here are {}", known.join(", ")),
            "Use a program or a graph section for another scaling",
        ));
    }
    let Some(theta) = table.positive("rope_theta")? else {
        return Err(table.bad("rope_theta", "nothing", "the rotation needs it", "Add it"));
    };
    // Both are without effect in the plain form.
    let (share, factor) = (table.number("partial_rotary_factor")?, table.positive("factor")?);
    let turning = match name.as_str() {
        "proportional" => Turning { theta, share: share.unwrap_or(1.0), factor: factor.unwrap_or(1.0) },
        _ => Turning { theta, share: 1.0, factor: 1.0 },
    };
    if !(0.0..=1.0).contains(&turning.share) {
        let cause = "expected a share from 0 to 1";
        return Err(table.bad("partial_rotary_factor", turning.share, cause, "Correct it"));
    }
    nested.absorb(table, &[]);
    Ok(turning)
}
