fn f(x, y: u32) -> u32 {
    x + y
}
