// Overflow, widths that nothing tells, indices, nothing where something is.
use cyb::nn::{Config, Weights};

pub fn forward(config: &Config, w: &Weights) -> usize {
    let a = 250u8 + 10;
    let b = 5u32 - 6;
    let c: u8 = 300;
    let d = config.architecture.hidden_size.wrapping_mul(3);
    let e = 1 / (a - a);
    let f = 7 % 0;
    let g = 2u32.pow(40);
    let list = [1, 2];
    let h = list[2];
    let i = &"é"[0..1];
    let j = None.unwrap();
    let k = "x".parse::<u32>().expect("a number");
    let l = config.architecture.hiden_size.sqrt();
    let m = config.architecture.layers.map(|x| x + 1).unwrap();
    let n = 10.next_power_of_tow();
    let o = i32::MAX + 1;
    let p = (-128i8).abs();
    let q = 3.clamp(5, 1);
    0
}
