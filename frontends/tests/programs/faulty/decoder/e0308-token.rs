pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let logits = w.linear(&w.embed("model.embed_tokens", &tok.encode(text), 8), "lm_head", 32);
    let next = logits.last().sample_greedy();
    w.get(format!("model.layers.{}.input_layernorm", next));
    tok.decode(next)
}
