fn depth(n: usize) -> usize {
    depth(n + 1)
}

pub fn forward(text: &str, w: &Weights) -> usize {
    text.len() + depth(0)
}
