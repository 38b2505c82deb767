pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let mut tokens = vec![config.tokenizer.bos_id];
    let mut state = w.get("model.norm");
    loop {
        let h = w.embed("model.embed_tokens", &tokens, 8).add(&state);
        let next = w.linear(&h, "lm_head", 32).last().sample_greedy();
        state = h.last();
        if next == 2 {
            break;
        }
        tokens.push(next);
    }
    tok.decode(&tokens)
}
