pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let logits = w.linear(&w.embed("model.embed_tokens", &tok.encode(text), 8), "lm_head", 32);
    let next = logits.last().sample_greedy();
    if next == 2 {
        return tok.decode(2);
    }
    tok.decode(next)
}
