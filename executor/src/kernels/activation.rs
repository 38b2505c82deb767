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
        apply(activation, part);
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
        part.copy_from_slice(&gate[range.clone()]);
        apply(activation, part);
        multiply(part, &up[range]);
    });
    Ok(())
}

/// Applies an activation in place.
pub(crate) fn apply(activation: Activation, x: &mut [f32]) {
    match activation {
        Activation::Silu => silu(x),
        Activation::Gelu => gelu(x),
        Activation::GeluTanh => gelu_tanh(x),
        Activation::Sigmoid => logistic(x),
        Activation::Tanh => hyperbolic(x),
        Activation::Relu => relu(x),
    }
}

multiversion! {
    fn silu(x: &mut [f32]) {
        for x in x {
            *x /= 1.0 + exp(-*x);
        }
    }
}

multiversion! {
    fn gelu(x: &mut [f32]) {
        for x in x {
            let z = *x * std::f32::consts::FRAC_1_SQRT_2;
            // From 4 on it is 1 in single precision; what little is missing would count times a large x.
            let erf = if z.abs() > 4.0 { z.signum() } else { erf(z) };
            *x = 0.5 * *x * (1.0 + erf);
        }
    }
}

multiversion! {
    fn gelu_tanh(x: &mut [f32]) {
        // (1 + tanh(u)) / 2 = sigmoid(2u), which loses nothing to cancellation.
        const TWICE: f32 = 1.595_769; // 2 · √(2/π)
        for x in x {
            *x /= 1.0 + exp(-TWICE * (*x + 0.044_715 * *x * *x * *x));
        }
    }
}

multiversion! {
    fn logistic(x: &mut [f32]) {
        for x in x {
            *x = sigmoid(*x);
        }
    }
}

multiversion! {
    fn hyperbolic(x: &mut [f32]) {
        for x in x {
            *x = tanh(*x);
        }
    }
}

multiversion! {
    fn relu(x: &mut [f32]) {
        for x in x {
            *x = if *x < 0.0 { 0.0 } else { *x };
        }
    }
}

multiversion! {
    pub(crate) fn multiply(x: &mut [f32], by: &[f32]) {
        for (x, by) in x.iter_mut().zip(by) {
            *x *= by;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_activations_match_their_formulas() {
        let x: Vec<f32> = (-6000..6000).map(|i| i as f32 / 500.0).collect();
        let up: Vec<f32> = x.iter().map(|x| 1.5 - x).collect();
        type Formula = fn(f64) -> f64;
        let cases: [(Activation, Formula); 5] = [
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
