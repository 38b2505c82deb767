pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let mut tokens = vec![config.tokenizer.bos_id];
    loop {
        let h = w.embed("model.embed", &tokens, 8);
        let next = w.linear(&h, "lm_head", 32).last().sample_greedy();
        if next == config.tokenizer.eos_id {
            break;
        }
        tokens.push(next);
        if tokens.len() > 8 {
            break;
        }
    }
    tok.decode(&tokens)
}
