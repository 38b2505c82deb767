// A struct with a builder and methods holds the pieces of a model.
use cyb::nn::{Config, Tensor, Weights};

#[derive(Clone)]
struct Block {
    prefix: String,
    width: usize,
    windowed: bool,
}

impl Block {
    const INNER: usize = 2;

    fn new(index: usize, config: &Config) -> Self {
        let windowed = config.architecture.layer_types[index] == "window";
        Self { prefix: format!("layers.{index}"), width: config.architecture.hidden_size, windowed }
    }

    fn name(&self, part: &str) -> String {
        let mut s = String::from(self.prefix.as_str());
        s.push('.');
        s += part;
        s
    }

    fn apply(&self, h: &Tensor, w: &Weights) -> Tensor {
        let x = w.rmsnorm(h, self.name("norm2"), 1e-6);
        let inner = w.linear(&x, self.name("up"), self.width * Self::INNER);
        let inner = if self.windowed { inner.silu() } else { inner.gelu() };
        h.add(&w.linear(&inner, self.name("down"), self.width))
    }
}

struct Model {
    blocks: Vec<Block>,
    applied: usize,
}

impl Model {
    fn push(&mut self, block: Block) -> &mut Self {
        self.blocks.push(block);
        self
    }

    fn run(&mut self, mut h: Tensor, w: &Weights) -> Tensor {
        for block in self.blocks.iter() {
            h = block.apply(&h, w);
            self.applied += 1;
        }
        assert_eq!(self.applied, self.blocks.len());
        h
    }
}

pub struct Output {
    hidden: Tensor,
    logits: Tensor,
}

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Output {
    let a = &config.architecture;
    let mut model = Model { blocks: vec![], applied: 0 };
    model.push(Block::new(0, config)).push(Block::new(1, config));
    let hidden = model.run(w.embed("embed", ids, a.hidden_size), w);
    let logits = w.linear(&hidden, "head", a.vocab_size);
    Output { hidden, logits }
}
