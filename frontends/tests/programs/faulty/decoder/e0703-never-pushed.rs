pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let mut tokens = vec![config.tokenizer.bos_id];
    loop {
        let logits = w.linear(&w.embed("model.embed_tokens", &tokens, 8), "lm_head", 32);
        let next = logits.last().sample_greedy();
        if next == 2 {
            break;
        }
    }
    tok.decode(&tokens)
}
