// Integers: arithmetic by width, bits, powers.

use cyb::nn::Weights;

const TEXT: &str = "héllo wörld 42";

pub fn forward(text: &str, _w: &Weights) -> bool {
    all(TEXT) && all(text)
}

fn all(text: &str) -> bool {
    assert_eq!(text.len(), 16);
    plain(text.len());
    by_width(text.len() as u32);
    bits(text.len() as u8);
    true
}

fn plain(n: usize) {
    let x = n as i64 - 20;
    assert_eq!(x.abs(), 4);
    assert_eq!(x.unsigned_abs(), 4);
    assert_eq!(x.signum(), -1);
    assert!(x.is_negative() && !x.is_positive());
    assert_eq!(7u32.abs_diff(9), 2);
    assert_eq!((-7i32).abs_diff(9), 16);
    assert_eq!(3i32.pow(4), 81);
    assert_eq!(n.pow(2), 256);
    assert_eq!(99u32.isqrt(), 9);
    assert_eq!(1000u32.ilog2(), 9);
    assert_eq!(1000u32.ilog10(), 3);
    assert_eq!(80u32.ilog(3), 3);
    assert_eq!(-7 / 2, -3);
    assert_eq!(-7 % 2, -1);
    assert_eq!((-7i32).div_euclid(2), -4);
    assert_eq!((-7i32).rem_euclid(2), 1);
    assert_eq!(n.div_ceil(5), 4);
    assert_eq!(n.next_multiple_of(5), 20);
    assert!(n.is_multiple_of(4) && !n.is_multiple_of(5));
    assert!(n.is_power_of_two() && !12u8.is_power_of_two());
    assert_eq!((n + 1).next_power_of_two(), 32);
    assert_eq!(3.min(n), 3);
    assert_eq!(n.max(100), 100);
    assert_eq!(n.clamp(1, 9), 9);
    assert_eq!(5.cmp(&n), std::cmp::Ordering::Less);
    assert_eq!(n.partial_cmp(&16), Some(std::cmp::Ordering::Equal));
    assert!(n.eq(&16) && n.ne(&17) && n.lt(&17) && n.le(&16) && n.gt(&15) && n.ge(&16));
    assert_eq!(i32::MAX, 2147483647);
    assert_eq!(u64::MAX as f64, 18446744073709551615.0);
    assert_eq!(i8::MIN, -128);
    assert_eq!(u16::BITS, 16);
    let y: u64 = (n as u32).into();
    assert_eq!(y, 16);
    let z: Result<u8, _> = n.try_into();
    assert!(z.is_ok());
}

fn by_width(n: u32) {
    assert_eq!(n.checked_add(1), Some(17));
    assert_eq!(n.checked_sub(17), None);
    assert_eq!(u32::MAX.checked_mul(n), None);
    assert_eq!(n.checked_div(0), None);
    assert_eq!(n.checked_div(5), Some(3));
    assert_eq!(n.checked_rem(5), Some(1));
    assert_eq!(n.checked_pow(8), None);
    assert_eq!(n.checked_pow(7), Some(268435456));
    assert_eq!(n.checked_neg(), None);
    assert_eq!(n.wrapping_sub(17), u32::MAX);
    assert_eq!(u32::MAX.wrapping_add(n), 15);
    assert_eq!((n * 1000003).wrapping_mul(16777619), 2958358416);
    assert_eq!(2166136261u32.wrapping_mul(16777619), 84696351);
    assert_eq!(n.wrapping_div(3), 5);
    assert_eq!(n.wrapping_rem(3), 1);
    assert_eq!(3u8.wrapping_pow(6), 217);
    assert_eq!(n.wrapping_neg(), 4294967280);
    assert_eq!((-128i8).wrapping_abs(), -128);
    assert_eq!(n.wrapping_shl(33), 32);
    assert_eq!(n.wrapping_shr(33), 8);
    assert_eq!(250u8.saturating_add(n as u8), 255);
    assert_eq!(n.saturating_sub(20), 0);
    assert_eq!((-100i8).saturating_mul(2), -128);
    assert_eq!(n.saturating_pow(9), u32::MAX);
    assert_eq!(250u8.overflowing_add(10), (4, true));
    assert_eq!(n.overflowing_sub(1), (15, false));
    assert_eq!(n.overflowing_mul(0x1000_0000), (0, true));
    assert_eq!(u64::MAX.wrapping_mul(u64::MAX), 1);
    assert_eq!(0x9E3779B97F4A7C15u64.wrapping_mul(0xBF58476D1CE4E5B9), 15452995756747027501);
}

fn bits(n: u8) {
    assert_eq!(n.count_ones(), 1);
    assert_eq!(n.count_zeros(), 7);
    assert_eq!(n.leading_zeros(), 3);
    assert_eq!(n.trailing_zeros(), 4);
    assert_eq!(0u16.trailing_zeros(), 16);
    assert_eq!((-1i8).leading_ones(), 8);
    assert_eq!(7u32.trailing_ones(), 3);
    assert_eq!(0x81u8.rotate_left(1), 0x03);
    assert_eq!(0x81u8.rotate_right(1), 0xc0);
    assert_eq!(0x1234u16.swap_bytes(), 0x3412);
    assert_eq!(n.reverse_bits(), 8);
    assert_eq!(0x12345678u32.to_le_bytes(), [0x78, 0x56, 0x34, 0x12]);
    assert_eq!(0x12345678u32.to_be_bytes()[0], 0x12);
    assert_eq!(0x1234u16.to_ne_bytes().len(), 2);
    assert_eq!(u32::from_le_bytes([0x78, 0x56, 0x34, 0x12]), 0x12345678);
    assert_eq!(i16::from_be_bytes([0xff, 0xfe]), -2);
    assert_eq!(u16::from_ne_bytes(0x1234u16.to_ne_bytes()), 0x1234);
    assert_eq!(!n, 239);
    assert_eq!(n & 0x18 | 3 ^ 1, 0x12);
    assert_eq!(200u8 as i8, -56);
    assert_eq!(-1i32 as u64, u64::MAX);
    assert_eq!(300i32 as u8, 44);
    assert_eq!(3.99f32 as i32, 3);
    assert_eq!(-5.0f64 as u8, 0);
    assert_eq!('é' as u32, 233);
    assert_eq!(n << 3, 128);
    assert_eq!(1u64 << 40 >> 38, 4);
    assert_eq!(u32::from(n) + u32::from('a'), 113);
    assert_eq!(u8::try_from(300i32).is_err(), true);
    assert_eq!(i64::try_from(300u32).unwrap(), 300);
    assert_eq!(u32::from_str_radix("ff", 16), Ok(255));
    assert!(u8::from_str_radix("100000000", 2).is_err());
    assert_eq!(i32::default(), 0);
    assert_eq!(std::cmp::min(n, 3), 3);
    assert_eq!(std::cmp::max(n, 3), 16);
}
