const N: u32 = 1;
const N: u32 = 2;
struct A { x: u32, x: f32 }
struct A;
enum B { One, One }
fn f(a: u32, (b, a): (u32, u32)) {}
fn f() {}
impl A {
    fn f(&self) {}
    fn f(&self) {}
    const N: u32 = 3;
}
fn g() {
    fn f() {}
    let s = A { x: 1, x: 2 };
}
