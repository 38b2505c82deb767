//! Activation functions over whole slices, alone and as the gate of a product.

use super::cpu::multiversion;
use super::disjoint::Disjoint;
use super::math::{erf, exp, sigmoid, tanh};
use super::{KernelError, Team, check_len};

/// Elements that one range of a parallel call takes.
const CHUNK: usize = 4096;

/// An activation function of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// `x/2 · (1 + erf(x/√2))`.
    Gelu,
    /// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715·x³)))`.
    GeluTanh,
    /// `1 / (1 + e⁻ˣ)`.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `max(x, 0)`.
    Relu,
    /// `x · sigmoid(1.702 · x)`.
    QuickGelu,
    /// `max(x, 0)²`.
    ReluSquared,
    /// `x`.
    Linear,
}

/// A loop for each activation, whose function stands in it as `$f`: chosen outside the loop, so that the
/// loop has no branch.
macro_rules! for_each {
    ($activation:expr, |$f:ident| $loop:expr) => {
        match $activation {
            Activation::Silu => for_each!(@ silu, $f, $loop),
            Activation::Gelu => for_each!(@ gelu, $f, $loop),
            Activation::GeluTanh => for_each!(@ gelu_tanh, $f, $loop),
            Activation::Sigmoid => for_each!(@ sigmoid, $f, $loop),
            Activation::Tanh => for_each!(@ tanh, $f, $loop),
            Activation::Relu => for_each!(@ relu, $f, $loop),
            Activation::QuickGelu => for_each!(@ |x: f32| x / (1.0 + exp(-1.702 * x)), $f, $loop),
            Activation::ReluSquared => for_each!(@ |x: f32| relu(x) * relu(x), $f, $loop),
            Activation::Linear => for_each!(@ |x: f32| x, $f, $loop),
        }
    };
    (@ $function:expr, $f:ident, $loop:expr) => {{
        let $f = $function;
        $loop
    }};
}

/// `out[i] = activation(x[i])`.
///
/// # Errors
/// [`KernelError::Length`].
#[allow(unsafe_code, reason = "threads write disjoint ranges of the output")]
pub fn activate(activation: Activation, x: &[f32], out: &mut [f32], team: &Team) -> Result<(), KernelError> {
    check_len("output of an activation", out.len(), Some(x.len()))?;
    let out = Disjoint::new(out);
    team.run_chunks(x.len(), CHUNK, |range| {
        // SAFETY: every index is in one range only.
        let part = unsafe { out.part(range.clone()) };
        part.copy_from_slice(&x[range]);
        activate_row(activation, part);
    });
    Ok(())
}

/// `out[i] = activation(gate[i]) · up[i]`.
///
/// # Errors
/// [`KernelError::Length`].
#[allow(unsafe_code, reason = "threads write disjoint ranges of the output")]
pub fn gated(
    activation: Activation,
    gate: &[f32],
    up: &[f32],
    out: &mut [f32],
    team: &Team,
) -> Result<(), KernelError> {
    check_len("second operand of a gate", up.len(), Some(gate.len()))?;
    check_len("output of a gate", out.len(), Some(gate.len()))?;
    let out = Disjoint::new(out);
    team.run_chunks(gate.len(), CHUNK, |range| {
        // SAFETY: every index is in one range only.
        let part = unsafe { out.part(range.clone()) };
        gated_row(activation, &gate[range.clone()], &up[range], part);
    });
    Ok(())
}

multiversion! {
    /// Applies an activation in place, on this thread.
    pub fn activate_row(activation: Activation, x: &mut [f32]) {
        for_each!(activation, |f| for x in x {
            *x = f(*x);
        });
    }
}

multiversion! {
    /// `out = activation(gate) · up`, on this thread. All slices have one length.
    pub fn gated_row(activation: Activation, gate: &[f32], up: &[f32], out: &mut [f32]) {
        for_each!(activation, |f| for ((out, &gate), &up) in out.iter_mut().zip(gate).zip(up) {
            *out = f(gate) * up;
        });
    }
}

multiversion! {
    /// `up = activation(gate) · up`, on this thread. Both slices have one length.
    pub fn gate_in_place(activation: Activation, gate: &[f32], up: &mut [f32]) {
        for_each!(activation, |f| for (&gate, up) in gate.iter().zip(up) {
            *up *= f(gate);
        });
    }
}

#[inline(always)]
fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

#[inline(always)]
fn gelu(x: f32) -> f32 {
    let z = x * std::f32::consts::FRAC_1_SQRT_2;
    // From 4 on it is 1 in single precision; what little is missing would count times a large x.
    let erf = if z.abs() > 4.0 { z.signum() } else { erf(z) };
    0.5 * x * (1.0 + erf)
}

#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    // (1 + tanh(u)) / 2 = sigmoid(2u), which loses nothing to cancellation.
    const TWICE: f32 = 1.595_769; // 2 · √(2/π)
    x / (1.0 + exp(-TWICE * (x + 0.044_715 * x * x * x)))
}

#[inline(always)]
fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_activations_match_their_formulas() {
        let x: Vec<f32> = (-6000..6000).map(|i| i as f32 / 500.0).collect();
        let up: Vec<f32> = x.iter().map(|x| 1.5 - x).collect();
        type Formula = fn(f64) -> f64;
        let cases: [(Activation, Formula); 8] = [
            (Activation::QuickGelu, |x| x / (1.0 + (-1.702 * x).exp())),
            (Activation::ReluSquared, |x| x.max(0.0).powi(2)),
            (Activation::Linear, |x| x),
            (Activation::Silu, |x| x / (1.0 + (-x).exp())),
            (Activation::GeluTanh, |x| {
                let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
                0.5 * x * (1.0 + u.tanh())
            }),
            (Activation::Sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
            (Activation::Tanh, f64::tanh),
            (Activation::Relu, |x| x.max(0.0)),
        ];
        for (activation, want) in cases {
            let mut outs = Vec::new();
            for threads in [1, 2, 3] {
                let team = Team::new(threads).unwrap();
                let mut out = vec![0.0; x.len()];
                activate(activation, &x, &mut out, &team).unwrap();
                for (&x, &y) in x.iter().zip(&out) {
                    let want = want(x.into());
                    let bound = 5e-7 * want.abs().max(1.0);
                    assert!((f64::from(y) - want).abs() < bound, "{activation:?} {x}");
                }
                let mut both = vec![0.0; x.len()];
                gated(activation, &x, &up, &mut both, &team).unwrap();
                for ((y, up), both) in out.iter().zip(&up).zip(&both) {
                    assert_eq!(y * up, *both);
                }
                let mut place = up.clone();
                gate_in_place(activation, &x, &mut place);
                assert_eq!(place, both);
                outs.push(out);
            }
            assert!(outs.windows(2).all(|pair| pair[0] == pair[1]));
        }
    }

    #[test]
    fn kernels_gelu_has_its_known_values() {
        let team = Team::new(1).unwrap();
        let mut out = [0.0; 4];
        let x = [-1.0, 0.0, 0.5, 3.0];
        activate(Activation::Gelu, &x, &mut out, &team).unwrap();
        let want = [-0.158_655_25, 0.0, 0.345_731_23, 2.995_950_3];
        for (out, want) in out.iter().zip(want) {
            assert!((out - want).abs() < 1e-6, "{out} {want}");
        }
    }

    #[test]
    fn kernels_activation_refuses_other_lengths() {
        let team = Team::new(1).unwrap();
        assert!(activate(Activation::Silu, &[1.0], &mut [], &team).is_err());
        assert!(gated(Activation::Silu, &[1.0], &[1.0, 2.0], &mut [0.0], &team).is_err());
    }
}
