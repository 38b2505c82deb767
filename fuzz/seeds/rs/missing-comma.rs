fn f(a: u32 b: u32) {
    g(a b);
}
