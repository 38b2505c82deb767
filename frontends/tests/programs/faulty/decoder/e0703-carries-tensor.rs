pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let mut tokens = vec![config.tokenizer.bos_id];
    let mut state = w.get("model.norm");
    loop {
        let h = w.embed("model.embed_tokens", &tokens, 8).add(&state);
        let next = w.linear(&h, "lm_head", 32).last().sample_greedy();
        if next == config.tokenizer.eos_id { break; }
        tokens.push(next);
        state = h.last();
    }
    tok.decode(&tokens)
}
