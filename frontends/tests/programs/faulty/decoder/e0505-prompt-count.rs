pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let mut tokens = tok.encode(text);
    if tokens.len() > 20 {
        panic!("too long");
    }
    loop {
        let next = w.linear(&w.embed("model.embed_tokens", &tokens, 8), "lm_head", 32).last().sample_greedy();
        if next == 2 {
            break;
        }
        tokens.push(next);
    }
    tok.decode(&tokens)
}
