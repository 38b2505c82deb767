//! Operations with effects: calls of the host, and random numbers.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::{Arc, Mutex};
use tallow_executor::{
    DType as Element, Device, Engine, HostFunctions, Program, ProgramOptions, Rows, Session, Tensor, WeightSource,
    WeightView,
};
use tallow_ir::ops::{SampleMethod, Text};
use tallow_ir::{DType, Dim, Graph, Op, Shape, TensorType, verify};

/// One weight `w` of two values, 1 and 2.
struct Weights;
impl WeightSource for Weights {
    fn weight(&self, name: &str) -> Option<WeightView<'_>> {
        (name == "w").then_some(WeightView {
            shape: &[2],
            encoding: tallow_format::Encoding::U32,
            bytes: &[0, 0, 1, 0, 0, 0, 2, 0],
        })
    }
}

/// Functions that note what they were called with.
#[derive(Default)]
struct Host(Mutex<Vec<String>>);
impl HostFunctions for Host {
    fn call(&self, name: &str, operands: &[Tensor]) -> Result<Tensor, String> {
        let types: Vec<_> = operands.iter().map(|t| format!("{:?}{:?}", t.dtype(), t.dims())).collect();
        self.0.lock().unwrap().push(format!("{name}({})", types.join(", ")));
        let made = match name {
            "double" => &operands[0] * 2.0,
            "count" => Tensor::new(vec![operands.len() as i64, 300], &Device::Cpu),
            "truth" => Tensor::new(vec![0u8, 2], &Device::Cpu),
            _ => return Err(format!("there is no function {name}")),
        };
        made.map_err(|e| e.to_string())
    }
}

fn call(function: &str, dtype: DType, shape: &[i64]) -> Op {
    Op::HostCall { function: Text::new(function).unwrap(), dtype, shape: shape.to_vec() }
}

fn program(g: Graph, engine: Engine, threads: usize) -> Program {
    let options = ProgramOptions { engine, threads, ..ProgramOptions::default() };
    Program::new(&verify(g).unwrap(), Arc::new(Weights), options).unwrap()
}

fn floats(t: &Tensor) -> Vec<f32> {
    t.flatten_all().unwrap().to_vec1().unwrap()
}

fn rows(dims: &str) -> TensorType {
    TensorType::f32(Shape::new(dims.split(',').map(|d| d.trim().parse::<Dim>().unwrap())))
}

#[test]
fn the_host_is_called_once_in_every_call_whoever_reads_the_result() {
    let mut g = Graph::new();
    let x = g.input("x", rows("S, 2")).unwrap();
    let w = g.weight("w", rows("2")).unwrap();
    // Operands that never change, and a result that nothing reads.
    g.op(call("double", DType::F32, &[2]), &[w]).unwrap();
    let y = g.op(call("double", DType::F32, &[-1, 2]), &[x]).unwrap();
    let z = g.op(Op::Add, &[y, w]).unwrap();
    g.output("z", z).unwrap();
    let host = Arc::new(Host::default());
    let program = Arc::new(program(g, Engine::Cpu, 1).with_host(host.clone()));
    let mut session = Session::new(program);
    for _ in 0..2 {
        let x = Tensor::new(&[[1f32, 2.0], [3.0, 4.0], [5.0, 6.0]], &Device::Cpu).unwrap();
        let out = session.run(&[("x".into(), x)], Rows::All).unwrap();
        assert_eq!(floats(&out[0].1), [3.0, 6.0, 7.0, 10.0, 11.0, 14.0]);
    }
    let mut calls = host.0.lock().unwrap().clone();
    calls.sort();
    assert_eq!(calls, ["double(F32[2])", "double(F32[2])", "double(F32[3, 2])", "double(F32[3, 2])"]);
}

#[test]
fn what_the_host_gives_is_held_against_the_graph() {
    let run = |op: Op, host: bool| {
        let mut g = Graph::new();
        let x = g.input("x", rows("2")).unwrap();
        let flag = g.input("flag", TensorType::new(DType::Bool, Shape::default())).unwrap();
        let y = g.op(op, &[x, flag]).unwrap();
        g.name(y, "reply");
        g.output("y", y).unwrap();
        let mut program = program(g, Engine::Reference, 1);
        if host {
            program = program.with_host(Arc::new(Host::default()));
        }
        let x = Tensor::new(&[1f32, 2.0], &Device::Cpu).unwrap();
        let flag = Tensor::new(1u8, &Device::Cpu).unwrap();
        let out = Session::new(Arc::new(program)).run(&[("x".into(), x), ("flag".into(), flag)], Rows::All);
        out.map(|out| out[0].1.clone()).map_err(|e| (e.is_unsupported(), e.to_string()))
    };
    let count = run(call("count", DType::I64, &[-1]), true).unwrap();
    assert_eq!(count.to_vec1::<i64>().unwrap(), [2, 300]);
    assert_eq!(run(call("count", DType::I32, &[2]), true).unwrap().dtype(), Element::I64);
    let error = |op, host| run(op, host).unwrap_err().1;
    let (unsupported, text) = run(call("count", DType::I64, &[2]), false).unwrap_err();
    assert!(unsupported);
    assert!(text.starts_with("HostCall at `reply`: a call of the unregistered function \"count\""), "{text}");
    assert!(text.contains("Program::with_host"), "{text}");
    assert_eq!(
        error(call("shout", DType::F32, &[2]), true),
        "HostCall at `reply`: the function \"shout\" failed: there is no function shout"
    );
    for (op, cause) in [
        (call("double", DType::F32, &[3]), "gave F32 [2], the graph declares F32 [3]"),
        (call("double", DType::F32, &[-1, -1]), "gave F32 [2], the graph declares F32 [-1, -1]"),
        (call("double", DType::I64, &[2]), "gave F32 [2], the graph declares I64 [2]"),
        (call("count", DType::I8, &[2]), "gave the value 300, which i8 does not hold"),
        (call("count", DType::U8, &[2]), "gave I64 [2], the graph declares U8 [2]"),
        (call("truth", DType::Bool, &[2]), "gave the value 2, which bool does not hold"),
    ] {
        let text = error(op, true);
        assert!(text.contains(cause), "{text}");
    }
}

/// Two random steps after a call of the host that fails for a name it does not know.
fn noise(function: &str) -> Graph {
    let mut g = Graph::new();
    let x = g.input("x", rows("S, 2")).unwrap();
    let a = g.op(Op::RandomNormal { seed: 1 }, &[x]).unwrap();
    let b = g.op(Op::RandomNormal { seed: 1 }, &[a]).unwrap();
    let c = g.op(call(function, DType::F32, &[-1, 2]), &[b]).unwrap();
    g.output("a", a).unwrap();
    g.output("c", c).unwrap();
    g
}

fn draw(session: &mut Session) -> Result<Vec<f32>, String> {
    let x = Tensor::zeros((3, 2), Element::F32, &Device::Cpu).unwrap();
    let out = session.run(&[("x".into(), x)], Rows::All).map_err(|e| e.to_string())?;
    Ok(out.iter().flat_map(|(_, t)| floats(t)).collect())
}

#[test]
fn random_numbers_follow_from_seed_and_calls() {
    let session = |threads, engine| {
        let program = program(noise("double"), engine, threads).with_host(Arc::new(Host::default()));
        Session::new(Arc::new(program))
    };
    let mut one = session(1, Engine::Cpu);
    let (first, second) = (draw(&mut one).unwrap(), draw(&mut one).unwrap());
    assert_ne!(first, second);
    // Two steps with the same seed in their payload are two draws.
    assert!(first[..6].iter().zip(&first[6..]).all(|(a, b)| 2.0 * a != *b));
    for mut other in [session(2, Engine::Cpu), session(1, Engine::Reference)] {
        assert_eq!(draw(&mut other).unwrap(), first);
        let mut branch = other.clone();
        assert_eq!(draw(&mut branch).unwrap(), second);
        assert_eq!(draw(&mut other).unwrap(), second);
    }
    one.reset();
    assert_eq!(draw(&mut one).unwrap(), first);
    one.truncate(0);
    assert_eq!(draw(&mut one).unwrap(), first);
    one.set_seed(7);
    let other = draw(&mut one).unwrap();
    assert!(other != first && other != second);
    one.set_seed(0);
    assert_eq!(draw(&mut one).unwrap(), first);
}

#[test]
fn a_call_that_fails_draws_nothing() {
    struct Moody(Mutex<u32>);
    impl HostFunctions for Moody {
        fn call(&self, _: &str, operands: &[Tensor]) -> Result<Tensor, String> {
            let mut left = self.0.lock().unwrap();
            *left = left.checked_sub(1).ok_or("not now")?;
            if *left == 1 { Err("not now".into()) } else { Ok(operands[0].clone()) }
        }
    }
    let session = |good| {
        let program = program(noise("f"), Engine::Cpu, 1).with_host(Arc::new(Moody(Mutex::new(good))));
        Session::new(Arc::new(program))
    };
    let mut sound = session(10);
    let (first, second) = (draw(&mut sound).unwrap(), draw(&mut sound).unwrap());
    let mut broken = session(3);
    assert_eq!(draw(&mut broken).unwrap(), first);
    assert!(draw(&mut broken).unwrap_err().contains("not now"));
    assert_eq!(draw(&mut broken).unwrap(), second);
}

/// How often each token of `logits` is chosen in 20000 rows.
fn shares(method: SampleMethod, temperature: f32, p: f32, k: u32, logits: [f32; 4]) -> [f64; 4] {
    const N: usize = 20_000;
    let mut g = Graph::new();
    let x = g.input("x", rows("N, 4")).unwrap();
    let op = Op::Sample { method, temperature: temperature.into(), p: p.into(), k };
    let token = g.op(op, &[x]).unwrap();
    g.output("token", token).unwrap();
    let mut session = Session::new(Arc::new(program(g, Engine::Cpu, 1)));
    let x = Tensor::from_vec(logits.repeat(N), (N, 4), &Device::Cpu).unwrap();
    let out = session.run(&[("x".into(), x.clone())], Rows::All).unwrap();
    let again = session.run(&[("x".into(), x)], Rows::All).unwrap();
    let ids = out[0].1.to_vec1::<i64>().unwrap();
    let certain = ids.iter().all(|&id| id == ids[0]);
    assert_eq!(certain, ids == again[0].1.to_vec1::<i64>().unwrap());
    let mut counts = [0u32; 4];
    ids.into_iter().for_each(|id| counts[id as usize] += 1);
    counts.map(|n| f64::from(n) / N as f64)
}

#[test]
fn tokens_are_chosen_as_often_as_their_method_says() {
    // Of every 16: 8, 4, 1, 3.
    let logits = [8f32.ln(), 4f32.ln(), 0.0, 3f32.ln()];
    let near = |found: [f64; 4], parts: [f64; 4]| {
        let sum: f64 = parts.iter().sum();
        for (found, part) in found.into_iter().zip(parts) {
            let share = part / sum;
            // Four standard errors of 20000 draws; what cannot be chosen never is.
            assert!((found - share).abs() <= 4.0 * (share * (1.0 - share) / 2e4).sqrt(), "{found}, expected {share}");
        }
    };
    use SampleMethod::{Greedy, MinP, Temperature, TopK, TopP};
    near(shares(Temperature, 1.0, 0.0, 0, logits), [8.0, 4.0, 1.0, 3.0]);
    near(shares(Temperature, 0.5, 0.0, 0, logits), [64.0, 16.0, 1.0, 9.0]);
    near(shares(Temperature, 0.0, 0.0, 0, logits), [1.0, 0.0, 0.0, 0.0]);
    near(shares(Greedy, 1.0, 0.5, 3, logits), [1.0, 0.0, 0.0, 0.0]);
    near(shares(TopK, 1.0, 0.0, 0, logits), [8.0, 4.0, 1.0, 3.0]);
    near(shares(TopK, 1.0, 0.0, 2, logits), [8.0, 4.0, 0.0, 0.0]);
    near(shares(TopK, 2.0, 0.0, 1, logits), [1.0, 0.0, 0.0, 0.0]);
    near(shares(TopK, 1.0, 0.0, 9, logits), [8.0, 4.0, 1.0, 3.0]);
    near(shares(TopP, 1.0, 0.8, 1, logits), [8.0, 4.0, 0.0, 3.0]);
    near(shares(TopP, 1.0, 1e-6, 0, logits), [1.0, 0.0, 0.0, 0.0]);
    near(shares(MinP, 1.0, 0.4, 1, logits), [8.0, 4.0, 0.0, 0.0]);
    near(shares(MinP, 1.0, 1.0, 0, logits), [1.0, 0.0, 0.0, 0.0]);
    // Of equals, the lowest ids.
    near(shares(TopK, 1.0, 0.0, 2, [0.0, 1.0, 1.0, 1.0]), [0.0, 1.0, 1.0, 0.0]);
    near(shares(Greedy, 1.0, 0.0, 0, [0.0, 1.0, 1.0, 1.0]), [0.0, 1.0, 0.0, 0.0]);
}
