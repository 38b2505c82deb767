use rand::Rng;
use cyb::nn::Tensor as T;
extern crate serde;

static LIMIT: u32 = 3;
type Number = f32;

mod inner {}

trait Shape {
    fn area(&self) -> f32;
}

impl Shape for Square {
    fn area(&self) -> f32 { 1.0 }
}

union Both { a: u32, b: f32 }

extern "C" { fn call(); }

macro_rules! twice { ($x:expr) => { $x * 2 } }

async fn later() {}
unsafe fn danger() {}
fn size<const N: usize>() {}

#[cfg(test)]
fn main() {
    println!("{}", 1);
    unsafe { danger() };
    let p: *const u32 = 0;
    later().await;
}
