fn f(x: u32) -> u32 {
    if x = 3 { return 1; }
    while x = 4 {}
    match x {
        n if n = 2 => 1,
        _ => 0,
    }
}
