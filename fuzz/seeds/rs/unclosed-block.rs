fn first(n: u32) -> u32 {
    for i in 0..n {
        if i > 2 {
            return i;
    }
    n
}

fn second() {}
