fn f(a: u32) -> bool {
    1 < a < 3
}
