//! What fused operations stand for: the plain operations that they do at once. Their shape rules, the passes that make
//! them and the code that runs them all ask here, so that they agree.

use super::{Activation, Op, Real, Rotary, Scaling};

impl Activation {
    /// The operation that does this alone; `None` for none.
    pub fn op(self) -> Option<Op> {
        Some(match self {
            Activation::Linear => return None,
            Activation::Relu => Op::Relu,
            Activation::Gelu => Op::Gelu { approximate: false },
            Activation::GeluTanh => Op::Gelu { approximate: true },
            Activation::Silu => Op::Silu,
            Activation::QuickGelu => Op::QuickGelu,
            Activation::Sigmoid => Op::Sigmoid,
            Activation::Tanh => Op::Tanh,
            Activation::ReluSquared => Op::ReluSquared,
        })
    }

    /// The activation that an operation of one operand is.
    pub fn of(op: &Op) -> Option<Activation> {
        Some(match op {
            Op::Relu => Activation::Relu,
            Op::Gelu { approximate: false } => Activation::Gelu,
            Op::Gelu { approximate: true } => Activation::GeluTanh,
            Op::Silu => Activation::Silu,
            Op::QuickGelu => Activation::QuickGelu,
            Op::Sigmoid => Activation::Sigmoid,
            Op::Tanh => Activation::Tanh,
            Op::ReluSquared => Activation::ReluSquared,
            _ => return None,
        })
    }

    /// The activation of the gate of an operation `gate up`.
    pub fn of_gate(op: &Op) -> Option<Activation> {
        Some(match op {
            Op::SwiGlu | Op::FusedSwiGlu => Activation::Silu,
            Op::GeGlu => Activation::Gelu,
            Op::Glu => Activation::Sigmoid,
            Op::Gated { activation } => *activation,
            _ => return None,
        })
    }

    /// The operation `gate up` with this activation: that of the gate alone where there is one.
    pub fn gate(self) -> Op {
        match self {
            Activation::Silu => Op::SwiGlu,
            Activation::Gelu => Op::GeGlu,
            Activation::Sigmoid => Op::Glu,
            _ => Op::Gated { activation: self },
        }
    }
}

/// The plain operations of a `CachedAttention`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedParts {
    /// `Attention`.
    pub attention: Op,
    /// `RmsNorm` of each head of queries and keys, if any.
    pub norm: Option<Op>,
    /// `Rope` or `RopeScaled`, if any.
    pub rope: Option<Op>,
}

impl CachedParts {
    /// The parts of `op`; `None` for another operation.
    pub fn of(op: &Op) -> Option<CachedParts> {
        let Op::CachedAttention {
            heads,
            kv_heads,
            head_dim,
            causal,
            window,
            scale,
            softcap,
            norm,
            rotary,
            rope_dim,
            base,
            interleaved,
            scaling,
            factor,
            original,
            low,
            high,
            attention_factor,
            short,
            long,
        } = op
        else {
            return None;
        };
        let (heads, kv_heads, head_dim, rope_dim, base) = (*heads, *kv_heads, *head_dim, *rope_dim, *base);
        let attention = Op::Attention {
            heads,
            kv_heads,
            head_dim,
            causal: *causal,
            window: *window,
            scale: *scale,
            softcap: *softcap,
        };
        let rope = match rotary {
            Rotary::Unturned => None,
            Rotary::Plain => Some(Op::Rope { head_dim, rope_dim, base }),
            Rotary::Scaled => Some(Op::RopeScaled {
                head_dim,
                rope_dim,
                base,
                interleaved: *interleaved,
                scaling: *scaling,
                factor: *factor,
                original: *original,
                low: *low,
                high: *high,
                attention_factor: *attention_factor,
                short: short.clone(),
                long: long.clone(),
            }),
        };
        Some(CachedParts { attention, norm: norm.map(|eps| Op::RmsNorm { eps }), rope })
    }

    /// The operation of these parts; `None` where one of them is another operation than [`CachedParts`] says.
    pub fn op(&self) -> Option<Op> {
        let Op::Attention { heads, kv_heads, head_dim, causal, window, scale, softcap } = self.attention else {
            return None;
        };
        let norm = match self.norm {
            None => None,
            Some(Op::RmsNorm { eps }) => Some(eps),
            Some(_) => return None,
        };
        let (zero, one): (Real, Real) = (0.0.into(), 1.0.into());
        let mut rope_dim_base = (0, one);
        let mut rotary = Rotary::Unturned;
        let (mut interleaved, mut scaling, mut original) = (false, Scaling::Unscaled, 0);
        let (mut factor, mut low, mut high, mut attention_factor) = (one, zero, zero, one);
        let (mut short, mut long) = (Vec::new(), Vec::new());
        match &self.rope {
            None => {}
            Some(Op::Rope { head_dim: dim, rope_dim, base }) if *dim == head_dim => {
                (rotary, rope_dim_base) = (Rotary::Plain, (*rope_dim, *base));
            }
            Some(Op::RopeScaled {
                head_dim: dim,
                rope_dim,
                base,
                interleaved: i,
                scaling: s,
                factor: f,
                original: o,
                low: l,
                high: h,
                attention_factor: a,
                short: near,
                long: far,
            }) if *dim == head_dim => {
                (rotary, rope_dim_base) = (Rotary::Scaled, (*rope_dim, *base));
                (interleaved, scaling, factor, original) = (*i, *s, *f, *o);
                (low, high, attention_factor) = (*l, *h, *a);
                (short, long) = (near.clone(), far.clone());
            }
            Some(_) => return None,
        }
        let (rope_dim, base) = rope_dim_base;
        Some(Op::CachedAttention {
            heads,
            kv_heads,
            head_dim,
            causal,
            window,
            scale,
            softcap,
            norm,
            rotary,
            rope_dim,
            base,
            interleaved,
            scaling,
            factor,
            original,
            low,
            high,
            attention_factor,
            short,
            long,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_and_their_operations_name_each_other() {
        for activation in [
            Activation::Relu,
            Activation::Gelu,
            Activation::GeluTanh,
            Activation::Silu,
            Activation::QuickGelu,
            Activation::Sigmoid,
            Activation::Tanh,
            Activation::ReluSquared,
        ] {
            assert_eq!(activation.op().and_then(|op| Activation::of(&op)), Some(activation));
            assert_eq!(Activation::of_gate(&activation.gate()), Some(activation));
        }
        assert_eq!(Activation::Linear.op(), None);
    }

    #[test]
    fn the_parts_of_cached_attention_give_it_again() {
        let attention = Op::Attention {
            heads: 4,
            kv_heads: 2,
            head_dim: 8,
            causal: true,
            window: 3,
            scale: 0.25.into(),
            softcap: 30.0.into(),
        };
        let rope = Op::Rope { head_dim: 8, rope_dim: 4, base: 1e4.into() };
        let scaled = Op::RopeScaled {
            head_dim: 8,
            rope_dim: 8,
            base: 1e4.into(),
            interleaved: true,
            scaling: Scaling::Yarn,
            factor: 2.0.into(),
            original: 32,
            low: 1.0.into(),
            high: 32.0.into(),
            attention_factor: 1.5.into(),
            short: vec![1.0.into(); 4],
            long: vec![2.0.into(); 4],
        };
        for rope in [None, Some(rope), Some(scaled)] {
            for norm in [None, Some(Op::RmsNorm { eps: 1e-6.into() })] {
                let parts = CachedParts { attention: attention.clone(), norm, rope: rope.clone() };
                assert_eq!(CachedParts::of(&parts.op().unwrap()).unwrap(), parts);
            }
        }
        let other = Some(Op::Rope { head_dim: 16, rope_dim: 4, base: 1e4.into() });
        assert_eq!(CachedParts { attention, norm: None, rope: other }.op(), None);
    }
}
