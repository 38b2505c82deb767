#![allow(unused)]
use core::cmp::{max, min};
use cyb::nn::*;

#[derive(Clone, Copy, PartialEq)]
pub struct Size<'a, T> {
    pub name: &'a str,
    items: [(T, u8); 4],
}

fn hash<'a, T>(text: &'a str, seed: Option<u64>, each: &dyn Fn(&T) -> u64) -> u64
where
    T: Clone + PartialOrd<u32>,
{
    let mut h = seed.unwrap_or(0xcbf2_9ce4_8422_2325u64);
    for (i, b) in text.bytes().enumerate().skip(1).step_by(2) {
        h ^= u64::from(b);
        h = h.wrapping_mul(0x100_0000_01b3).rotate_left((i % 7) as u32) >> 1;
    }
    h
}

fn patterns(x: (i32, Option<&str>), list: &[u32]) -> Result<i32, String> {
    let (B, T) = (1, 2);
    let n = match x {
        (-1, None) | (0, _) => 0,
        (-9..=-2, Some("a" | "b")) => 1,
        (k @ 1..=9, Some(ref s)) if s.len() > 2 && k != 3 => k,
        (_, Some(text)) => text.parse::<i32>().map_err(|e| format!("{text:?}: {e}"))?,
        _ => unreachable!("{}", x.0),
    };
    let [first, .., last] = list else { panic!() };
    let tail = if let [a, rest @ ..] = list { rest.len() } else if let Some(&y) = list.first() { y as usize } else { 0 };
    let found = 'search: {
        for v in list.iter().rev() {
            if *v == 3 {
                break 'search Some(v);
            }
        }
        None
    };
    while let Some(top) = stack.pop() {
        if top < 1 || !(top > 2) { continue; }
    }
    let square = |v: f32| v * v;
    let compose = move |f: &dyn Fn(f32) -> f32| move |v| f(square(v));
    let Point { x: px, y, .. } = point;
    let _ = (..3, 1.., ..=4, .., a..b + 1);
    let neg = -x.0.pow(2) as f32 - -1.0e-3 * !0u8 as f32;
    let text = format!("{0:>12}|{0:<5}|{{}}|{n:+08.3}|{name}", 1, name = B).len();
    let v = vec![vec![0f32; 3]; T];
    let (q, r) = { let t = v[0][1]; (t, &v[..2]) };
    _ = q;
    Ok(n << 2 | 1 & 3 ^ 4)
}
