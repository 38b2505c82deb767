// Names that are nearly right, wrong numbers and types of arguments.
use cyb::nn::{Config, Weights};

pub fn forward(config: &Config, w: &Weights) -> usize {
    let list = vec![1, 2, 3];
    let a = list.lenght();
    let b = "text".trimm();
    let c = list.iter().filtr(|x| x > 1);
    let d = 5u32.wrapping_ad(1);
    let e = list.map_while(|x| Some(x));
    let f = "a-b".split();
    let g = list.push(1, 2);
    let h = list.contains();
    let i = 'c'.is_alpha();
    let j = Some(3).unwrap_orr(2);
    let k = config.architecture.hidden_size.squrt();
    let l = "abc".repeat("x");
    let m = list.windows(0);
    let n = Vec::new(1);
    let o = HashMap::form([(1, 2)]);
    let p = list.iter().any(|x| x);
    let q = 1.5.sqrt(2);
    0
}
