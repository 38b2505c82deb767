// Real numbers.

use cyb::nn::Weights;

const TEXT: &str = "héllo wörld 42";

pub fn forward(text: &str, _w: &Weights) -> bool {
    all(TEXT) && all(text)
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-6, "{a} is not {b}");
}

fn all(text: &str) -> bool {
    let x = text.len() as f64;
    near(x.sqrt(), 4.0);
    near(27f64.cbrt(), 3.0);
    near(x.recip(), 0.0625);
    near(1f64.exp(), std::f64::consts::E);
    near(3f64.exp2(), 8.0);
    near(1e-3f64.exp_m1(), 0.00100050016);
    near(x.ln(), 2.77258872);
    near(0.5f64.ln_1p(), 0.40546511);
    near(x.log(4.0), 2.0);
    near(x.log2(), 4.0);
    near(1000f64.log10(), 3.0);
    near(1f64.sin(), 0.84147098);
    near(1f64.cos(), 0.5403023);
    near(1f64.tan(), 1.55740772);
    let (sine, cosine) = 0.5f64.sin_cos();
    near(sine * sine + cosine * cosine, 1.0);
    near(1f64.asin(), std::f64::consts::FRAC_PI_2);
    near(1f64.acos(), 0.0);
    near(1f64.atan(), std::f64::consts::FRAC_PI_4);
    near(1f64.atan2(-1.0), 2.35619449);
    near(1f64.sinh(), 1.17520119);
    near(1f64.cosh(), 1.54308063);
    near(1f64.tanh(), 0.76159416);
    assert_eq!((-2.5f64).floor(), -3.0);
    assert_eq!((-2.5f64).ceil(), -2.0);
    assert_eq!((-2.5f64).round(), -3.0);
    assert_eq!(2.5f64.round_ties_even(), 2.0);
    assert_eq!((-2.5f64).trunc(), -2.0);
    assert_eq!((-2.5f64).fract(), -0.5);
    assert_eq!((-2.5f64).abs(), 2.5);
    assert_eq!((-2.5f64).signum(), -1.0);
    near(2f64.powi(-3), 0.125);
    near(x.powf(0.25), 2.0);
    near(3f64.hypot(4.0), 5.0);
    near(2f64.mul_add(3.0, 4.0), 10.0);
    near(2f64.copysign(-1.0), -2.0);
    near((-7.5f64).rem_euclid(2.0), 0.5);
    near((-7.5f64).div_euclid(2.0), -4.0);
    near(180f64.to_radians(), std::f64::consts::PI);
    near(std::f64::consts::PI.to_degrees(), 180.0);
    assert_eq!(x.min(2.0), 2.0);
    assert_eq!(x.max(f64::NAN), 16.0);
    assert_eq!(x.clamp(0.0, 1.0), 1.0);
    assert!(f64::NAN.is_nan() && x.is_finite() && f64::INFINITY.is_infinite());
    assert!((-0.0f64).is_sign_negative() && x.is_sign_positive());
    assert_eq!(1f32.to_bits(), 0x3f80_0000);
    assert_eq!(f64::to_bits(1.0), 0x3ff0_0000_0000_0000);
    assert_eq!(f32::from_bits(0x4000_0000), 2.0);
    assert_eq!(f64::from_bits(0x4000_0000_0000_0000), 2.0);
    assert_eq!(f32::from(3u8) + 0.5, 3.5);
    assert_eq!(f64::from(true), 1.0);
    assert_eq!(x.total_cmp(&1.0), std::cmp::Ordering::Greater);
    assert_eq!(x.partial_cmp(&f64::NAN), None);
    assert_eq!(7.0 % 4.0, 3.0);
    assert_eq!(format!("{:.3} {} {:?} {:e}", 1.0 / 3.0, 2.0, 2.0, 1500.0), "0.333 2 2.0 1.5e3");
    assert_eq!(2.5f64.to_string(), "2.5");
    assert_eq!(f32::max(1.0, 2.0), 2.0);
    assert_eq!([1.5f64, 0.5].iter().copied().fold(f64::INFINITY, f64::min), 0.5);
    true
}
