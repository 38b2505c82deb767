//! The cache of a session: rows of all layouts over several calls, compressed rows, and what is
//! refused.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use tallow_executor::{
    CacheType, Device, Engine, Program, ProgramOptions, Rows, Session, Tensor, WeightSource, WeightView,
};
use tallow_ir::{text, verify};

struct NoWeights;
impl WeightSource for NoWeights {
    fn weight(&self, _: &str) -> Option<WeightView<'_>> {
        None
    }
}

fn session(graph: &str, engine: Engine, cache: CacheType) -> Session {
    let graph = text::parse(graph).unwrap();
    let options = ProgramOptions { engine, cache, threads: 2, ..ProgramOptions::default() };
    let program = Program::new(&verify::verify(graph).unwrap(), Arc::new(NoWeights), options).unwrap();
    Session::new(Arc::new(program))
}

fn tensor(dims: &[usize], seed: usize) -> Tensor {
    let n = dims.iter().product::<usize>();
    let values: Vec<f32> = (0..n).map(|i| ((i * 37 + seed * 11) % 19) as f32 / 8.0 - 1.0).collect();
    Tensor::from_vec(values, dims, &Device::Cpu).unwrap()
}

fn values(t: &Tensor) -> Vec<f32> {
    t.flatten_all().unwrap().to_vec1().unwrap()
}

fn run(session: &mut Session, inputs: &[(&str, Tensor)]) -> Vec<Tensor> {
    let given: Vec<_> = inputs.iter().map(|(n, t)| ((*n).to_owned(), t.clone())).collect();
    session.run(&given, Rows::All).unwrap().into_iter().map(|(_, t)| t).collect()
}

const ROWS: &str = "graph {
  input %k: f32[S, 6]
  input %v: f32[2*S, 3]
  %ka: f32[P + S, 6], %va: f32[2*P + 2*S, 3] = KvCache(%k, %v)
  output ka = %ka
  output va = %va
}";

const BATCH: &str = "graph {
  input %k: f32[B, 2, S, 4]
  %ka: f32[B, 2, P + S, 4], %va: f32[B, 2, P + S, 4] = KvCache(%k, %k)
  %y: f32[B, 2, S, 4] = Sdpa(%k, %ka, %va) { heads = 2, kv_heads = 2, head_dim = 4, causal = true }
  output ka = %ka
  output y = %y
}";

#[test]
fn rows_of_all_calls_come_back_in_order_and_go_by_token() {
    for engine in [Engine::Reference, Engine::Cpu] {
        let mut s = session(ROWS, engine, CacheType::Auto);
        let (first, second) = (tensor(&[2, 6], 1), tensor(&[1, 6], 2));
        run(&mut s, &[("k", first.clone()), ("v", tensor(&[4, 3], 3))]);
        let made = run(&mut s, &[("k", second.clone()), ("v", tensor(&[2, 3], 4))]);
        assert_eq!(s.past(), 3);
        assert_eq!(values(&made[0]), [values(&first), values(&second)].concat());
        assert_eq!(values(&made[1]), [values(&tensor(&[4, 3], 3)), values(&tensor(&[2, 3], 4))].concat());
        // Back to one token, and on from there.
        s.truncate(1);
        let made = run(&mut s, &[("k", second.clone()), ("v", tensor(&[2, 3], 5))]);
        assert_eq!(values(&made[0]), [values(&first)[..6].to_vec(), values(&second)].concat());
        assert_eq!(made[1].dims(), [4, 3]);
        s.reset();
        assert_eq!((s.past(), s.cache_bytes()), (0, 0));
    }
}

#[test]
fn a_batch_grows_along_its_tokens_and_attends_as_at_once() {
    for engine in [Engine::Reference, Engine::Cpu] {
        let whole = tensor(&[3, 2, 5, 4], 7);
        let at_once = run(&mut session(BATCH, engine, CacheType::Auto), &[("k", whole.clone())]);
        let mut s = session(BATCH, engine, CacheType::Auto);
        let mut parts = Vec::new();
        let mut last = Vec::new();
        for (from, n) in [(0, 2), (2, 1), (3, 2)] {
            last = run(&mut s, &[("k", whole.narrow(2, from, n).unwrap())]);
            parts.push(last[1].clone());
        }
        assert_eq!(values(&last[0]), values(&whole));
        let y = Tensor::cat(&parts, 2).unwrap();
        for (a, b) in values(&y).iter().zip(values(&at_once[1])) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
        // Another batch cannot follow; the session stays as it was.
        let error = s.run(&[("k".into(), tensor(&[1, 2, 1, 4], 0))], Rows::All).unwrap_err().to_string();
        assert!(error.contains("KvCache at `ka`") && error.contains("after rows that came as"), "{error}");
        assert_eq!(s.past(), 5);
    }
}

#[test]
fn compressed_rows_take_a_fraction_and_stay_close() {
    for (bits, bytes, tolerance) in [(8, 8 + 4, 0.01), (4, 4 + 4, 0.16)] {
        let graph = format!(
            "graph {{
              input %k: f32[S, 16]
              %s: u8[S, {w}] = KvCompress(%k) {{ head_dim = 8, bits = {bits} }}
              %a: u8[P + S, {w}], %b: u8[P + S, {w}] = KvCache(%s, %s)
              %y: f32[P + S, 16] = KvDecompress(%a) {{ head_dim = 8, bits = {bits} }}
              output y = %y
            }}",
            w = 2 * bytes
        );
        let mut s = session(&graph, Engine::Cpu, CacheType::F16);
        let (first, second) = (tensor(&[3, 16], 1), tensor(&[2, 16], 5));
        run(&mut s, &[("k", first.clone())]);
        let made = run(&mut s, &[("k", second.clone())]);
        assert_eq!(s.cache_bytes(), 2 * 5 * 2 * bytes);
        for (a, b) in values(&made[0]).iter().zip([values(&first), values(&second)].concat()) {
            assert!((a - b).abs() <= tolerance, "{bits} bits: {a} {b}");
        }
    }
}

#[test]
fn half_precision_rounds_before_anything_reads() {
    let mut s = session(ROWS, Engine::Cpu, CacheType::F16);
    let made = run(&mut s, &[("k", tensor(&[1, 6], 1).affine(0.1, 0.0).unwrap()), ("v", tensor(&[2, 3], 1))]);
    let half = tensor(&[1, 6], 1).affine(0.1, 0.0).unwrap().to_dtype(tallow_executor::DType::F16).unwrap();
    assert_eq!(values(&made[0]), values(&half.to_dtype(tallow_executor::DType::F32).unwrap()));
}

#[test]
fn inputs_that_do_not_fit_are_named_with_what_was_expected() {
    let error = |inputs: &[(&str, Tensor)]| {
        let given: Vec<_> = inputs.iter().map(|(n, t)| ((*n).to_owned(), t.clone())).collect();
        session(ROWS, Engine::Cpu, CacheType::Auto).run(&given, Rows::All).unwrap_err().to_string()
    };
    let k = || tensor(&[2, 6], 0);
    assert_eq!(error(&[("k", k())]), "input `v`: is missing; the graph takes k: f32[S, 6], v: f32[2*S, 3]");
    let text = error(&[("k", k()), ("v", tensor(&[3, 3], 0))]);
    assert!(text.contains("input `v`: has shape [3, 3], expected f32[2*S, 3] where P = 0, S = 2"), "{text}");
    let text = error(&[("k", tensor(&[2, 5], 0)), ("v", tensor(&[4, 3], 0))]);
    assert_eq!(text, "input `k`: has shape [2, 5], expected f32[S, 6]");
    let text = error(&[("k", k()), ("v", tensor(&[4, 3], 0)), ("z", k())]);
    assert!(text.starts_with("input `z`: is no input of this graph; it takes k: f32[S, 6], v:"), "{text}");
    let text = error(&[("k", k()), ("v", tensor(&[4, 3], 0)), ("k", k())]);
    assert_eq!(text, "input `k`: is given twice; give it once");
    // A size that only a product fixes binds its symbol.
    let graph = "graph { input %a: f32[3*N + 1, 2] input %b: f32[N] output a = %a output b = %b }";
    let mut s = session(graph, Engine::Cpu, CacheType::Auto);
    let given = |a: usize, b: usize| [("a".to_owned(), tensor(&[a, 2], 0)), ("b".to_owned(), tensor(&[b], 0))];
    assert!(s.run(&given(7, 2), Rows::All).is_ok());
    let text = s.run(&given(7, 3), Rows::All).unwrap_err().to_string();
    assert!(text.contains("input `a`: has shape [7, 2], expected f32[3*N + 1, 2] where N = 3"), "{text}");
}

#[test]
fn the_injected_position_may_stand_anywhere_and_is_one_number() {
    let graph = "graph { input %pos: i64[] input %x: f32[S] %y: i64[] = Neg(%pos) output y = %y output x = %x }";
    let mut s = session(graph, Engine::Cpu, CacheType::Auto);
    let made = run(&mut s, &[("x", tensor(&[3], 1))]);
    assert_eq!((made[0].to_scalar::<i64>().unwrap(), made[1].dims()), (0, &[3][..]));
    let graph = "graph { input %pos: i64[3] input %x: f32[S] %y: i64[3] = Neg(%pos) output y = %y output x = %x }";
    let error = session(graph, Engine::Cpu, CacheType::Auto).run(&[("x".into(), tensor(&[3], 1))], Rows::All);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("input `pos`: is declared as i64[3]"), "{error}");
}
