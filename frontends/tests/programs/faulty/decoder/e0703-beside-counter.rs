pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let mut tokens = vec![config.tokenizer.bos_id];
    let mut n = 1;
    loop {
        let logits = w.linear(&w.embed("model.embed_tokens", &tokens, 8), "lm_head", 32);
        tokens.push(logits.last().sample_greedy());
        n *= 2;
        if n > 64 {
            break;
        }
    }
    tok.decode(&tokens)
}
