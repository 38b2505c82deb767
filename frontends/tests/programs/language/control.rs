// Control flow, closures, patterns, structs.

use cyb::nn::Weights;

const TEXT: &str = "héllo wörld 42";
const LIMIT: usize = 3;

pub fn forward(text: &str, _w: &Weights) -> bool {
    all(TEXT) && all(text)
}

fn all(text: &str) -> bool {
    loops(text);
    closures(text);
    patterns(text);
    structs(text);
    shadows(text);
    recursion();
    true
}

fn loops(text: &str) {
    let mut found = None;
    'outer: for (i, word) in text.split(' ').enumerate() {
        for c in word.chars() {
            if c == 'ö' {
                found = Some(i);
                break 'outer;
            }
            if c == '!' {
                continue 'outer;
            }
        }
    }
    assert_eq!(found, Some(1));
    let mut n = 0;
    let last = loop {
        n += 7;
        if n > 30 {
            break n;
        }
    };
    assert_eq!(last, 35);
    let mut k = 10;
    while k > LIMIT {
        k -= 2;
    }
    assert_eq!(k, 2);
    let value = 'block: {
        if text.is_empty() {
            break 'block 0;
        }
        text.len()
    };
    assert_eq!(value, 16);
    let mut stack = vec![1, 2, 3];
    let mut order = vec![];
    while let Some(top) = stack.pop() {
        order.push(top);
        if top == 3 {
            stack.push(9);
        }
    }
    assert_eq!(order, [3, 9, 2, 1]);
}

fn apply(f: impl Fn(usize) -> usize, n: usize) -> usize {
    f(f(n))
}

fn make_adder(by: usize) -> impl Fn(usize) -> usize {
    move |x| x + by
}

fn closures(text: &str) {
    let len = text.len();
    let add = |x: usize| x + len;
    assert_eq!(apply(add, 1), 33);
    assert_eq!(apply(make_adder(2), 1), 5);
    let mut count = 0;
    let mut tick = || {
        count += 1;
        count
    };
    tick();
    assert_eq!(tick(), 2);
    assert_eq!(count, 2);
    let compose = |f: fn(f64) -> f64, g: fn(f64) -> f64, x: f64| g(f(x));
    assert_eq!(compose(f64::sqrt, f64::floor, 10.0), 3.0);
    let table: Vec<(&str, fn(i32) -> i32)> = vec![("double", |x| x * 2), ("square", |x| x * x)];
    assert_eq!(table.iter().map(|(_, f)| f(5)).collect::<Vec<_>>(), [10, 25]);
    fn inner(x: usize) -> usize {
        x * 10
    }
    assert_eq!([1, 2].iter().map(|&x| inner(x)).sum::<usize>(), 30);
    assert_eq!(["a", "b"].iter().map(|s| s.to_string()).map(Some).count(), 2);
}

fn patterns(text: &str) {
    let kind = |n: i32| match n {
        ..=-1 => "negative",
        0 => "zero",
        1 | 2 | 3 => "few",
        n if n % 2 == 0 => "even",
        _ => "odd",
    };
    assert_eq!([-5, 0, 2, 8, 9].map(kind), ["negative", "zero", "few", "even", "odd"]);
    let (a, (b, _), [c, .., d]) = (1, (2, 3), [4, 5, 6]);
    assert_eq!(a + b + c + d, 13);
    match text.split(' ').collect::<Vec<_>>().as_slice() {
        [] => panic!("empty"),
        [one] => panic!("{one}"),
        [first, rest @ ..] => assert_eq!((first.len(), rest.len()), (6, 2)),
    }
    let n @ 1..=20 = text.len() else { panic!("long") };
    assert_eq!(n, 16);
    assert!(matches_two((1, Some("x"))));
    if let (Some(x), true) = (Some(3), n > 2) {
        assert_eq!(x, 3);
    } else {
        panic!("both");
    }
}

fn matches_two(pair: (i32, Option<&str>)) -> bool {
    match pair {
        (1, Some(name)) if name.len() == 1 => true,
        (_, None) | (0, _) => false,
        _ => false,
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
struct Layer {
    name: String,
    width: usize,
    scale: Option<f64>,
}

impl Layer {
    const WIDEST: usize = 64;

    fn new(name: &str, width: usize) -> Self {
        Self { name: name.to_string(), width: width.min(Self::WIDEST), scale: None }
    }

    fn wider(mut self, by: usize) -> Self {
        self.width += by;
        self
    }

    fn grow(&mut self) {
        self.width *= 2;
        self.scale = Some(self.width as f64 / 2.0);
    }

    fn area(&self) -> usize {
        self.width * self.width
    }
}

struct Counter {
    items: Vec<u32>,
    sum: u32,
}

impl Counter {
    fn add(&mut self, x: u32) -> &mut Self {
        self.items.push(x);
        self.sum += x;
        self
    }
}

enum Op {
    Push(i64),
    Add,
    Scale { by: i64 },
}

fn run(ops: &[Op]) -> i64 {
    let mut stack = Vec::new();
    for op in ops {
        match op {
            Op::Push(n) => stack.push(*n),
            Op::Add => {
                let (a, b) = (stack.pop().unwrap(), stack.pop().unwrap());
                stack.push(a + b);
            }
            Op::Scale { by } => {
                if let Some(top) = stack.last_mut() {
                    *top *= by;
                }
            }
        }
    }
    stack[0]
}

struct Pair(i32, i32);

fn structs(text: &str) {
    let mut layer = Layer::new("q", text.len()).wider(4);
    assert_eq!((layer.width, layer.area()), (20, 400));
    layer.grow();
    assert_eq!(layer.scale, Some(20.0));
    let other = Layer { name: "k".to_string(), ..layer.clone() };
    assert_eq!(other.width, 40);
    assert!(other != layer);
    assert_eq!(Layer::default(), Layer { name: String::new(), width: 0, scale: None });
    assert_eq!(Layer::new("w", 1000).width, 64);
    let mut counter = Counter { items: vec![], sum: 0 };
    counter.add(1).add(2).add(3);
    assert_eq!((counter.items.len(), counter.sum), (3, 6));
    counter.items[1] = 7;
    assert_eq!(counter.items, [1, 7, 3]);
    assert_eq!(run(&[Op::Push(2), Op::Push(3), Op::Add, Op::Scale { by: 10 }]), 50);
    let Pair(x, y) = Pair(1, 2);
    assert_eq!(x + y, 3);
    let layers: Vec<Layer> = (1..=3).map(|i| Layer::new(&format!("l{i}"), i)).collect();
    let Layer { name, width: w, .. } = &layers[1];
    assert_eq!((name.as_str(), *w), ("l2", 2));
    assert_eq!(layers.iter().map(Layer::area).sum::<usize>(), 14);
    assert_eq!(format!("{:?}", Layer::default()), "Layer { name: \"\", width: 0, scale: None }");
    let mut all = layers.clone();
    for l in all.iter_mut() {
        l.width += 1;
        l.grow();
    }
    assert_eq!(all[2].width, 8);
    assert_eq!(layers[2].width, 3);
}

fn shadows(text: &str) {
    let x = text.len();
    let x = x * 2;
    {
        let x = "inner";
        assert_eq!(x.len(), 5);
    }
    let mut sum = 0;
    for x in 0..3 {
        let x = x * 10;
        sum += x;
    }
    assert_eq!((x, sum), (32, 30));
    let (mut a, mut b) = (0, 1);
    for _ in 0..10 {
        (a, b) = (b, a + b);
    }
    assert_eq!(a, 55);
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn permutations(items: &mut Vec<i32>, from: usize, out: &mut Vec<Vec<i32>>) {
    if from == items.len() {
        out.push(items.clone());
        return;
    }
    for i in from..items.len() {
        items.swap(from, i);
        permutations(items, from + 1, out);
        items.swap(from, i);
    }
}

fn recursion() {
    assert_eq!(gcd(48, 36), 12);
    let mut out = vec![];
    permutations(&mut vec![1, 2, 3], 0, &mut out);
    assert_eq!(out.len(), 6);
    assert_eq!(out[5], [3, 1, 2]);
}
