pub fn forward(text: &str) -> usize {
    let words: Vec<&str> = text.split(' ').filtr(|w| !w.is_empty()).collect();
    words.len()
}
