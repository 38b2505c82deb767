use super::call::Segment;
use super::schedule::{Location, Schedule};
use crate::program::{Program, ProgramOptions, Walk};
use crate::weights::{WeightSource, WeightView};
use crate::{Rows, Session, Tensor};
use candle_core::Device;
use std::collections::HashMap;
use std::sync::Arc;
use tallow_format::Encoding;
use tallow_ir::verify::{Verified, verify};
use tallow_ir::{Bindings, DType, text};

struct Weights(HashMap<String, (Vec<u64>, Encoding, Vec<u8>)>);

impl WeightSource for Weights {
    fn weight(&self, name: &str) -> Option<WeightView<'_>> {
        let (shape, encoding, bytes) = self.0.get(name)?;
        Some(WeightView { shape, encoding: *encoding, bytes })
    }
}

fn number(at: usize) -> f32 {
    ((at * 7919) % 1009) as f32 / 504.5 - 1.0
}

fn weights(graph: &Verified) -> Arc<Weights> {
    let mut all = HashMap::new();
    for (name, value) in graph.graph().weights() {
        let ty = graph.graph().ty(value);
        let shape: Vec<u64> = ty.shape.dims().iter().map(|d| d.as_const().unwrap() as u64).collect();
        let encoding = if ty.dtype == DType::Q8 { Encoding::Q8 } else { Encoding::U32 };
        let values: Vec<f32> = (0..shape.iter().product::<u64>() as usize).map(|i| number(i + name.len())).collect();
        let mut bytes = Vec::new();
        encoding.encode(&values, &mut bytes).unwrap();
        all.insert(name.to_owned(), (shape, encoding, bytes));
    }
    Arc::new(Weights(all))
}

fn program(statements: &str, threads: usize, walk: Walk) -> Arc<Program> {
    let graph = verify(text::parse(&format!("graph {{\n{statements}\n}}")).unwrap()).unwrap();
    let options = ProgramOptions { threads, walk, ..ProgramOptions::default() };
    Arc::new(Program::new(&graph, weights(&graph), options).unwrap())
}

/// A decoder of so many layers; `extra` stands between the last one and the logits, from %x to %z.
fn decoder(layers: usize, extra: &str) -> String {
    let mut text = "input %input_ids: i64[S]
        input %pos: i64[]
        weight %embed = \"embed\": q8[96, 64]
        weight %g = \"g\": u32[64]
        %x0: f32[S, 64] = TokenEmbed(%input_ids, %embed)\n"
        .to_owned();
    for l in 0..layers {
        let next = l + 1;
        let matrix = |name: &str, n, k| format!("weight %{name}{l} = \"{name}{l}\": q8[{n}, {k}]\n");
        text += &[("q", 64, 64), ("k", 32, 64), ("v", 32, 64), ("o", 64, 64), ("up", 96, 64), ("gate", 96, 64)]
            .map(|(name, n, k)| matrix(name, n, k))
            .concat();
        text += &matrix("down", 64, 96);
        text += &format!(
            "%n{l}: f32[S, 64] = RmsNorm(%x{l}, %g) {{ eps = 1e-6 }}
             %qm{l}: f32[S, 64] = Matmul(%n{l}, %q{l})
             %km{l}: f32[S, 32] = Matmul(%n{l}, %k{l})
             %vm{l}: f32[S, 32] = Matmul(%n{l}, %v{l})
             %qh{l}: f32[S, 4, 16] = Reshape(%qm{l}) {{ shape = [-1, 4, 16] }}
             %kh{l}: f32[S, 2, 16] = Reshape(%km{l}) {{ shape = [-1, 2, 16] }}
             %qr{l}: f32[S, 4, 16] = Rope(%qh{l}, %pos) {{ head_dim = 16, rope_dim = 16, base = 100 }}
             %kr{l}: f32[S, 2, 16] = Rope(%kh{l}, %pos) {{ head_dim = 16, rope_dim = 16, base = 100 }}
             %qs{l}: f32[S, 64] = Reshape(%qr{l}) {{ shape = [-1, 64] }}
             %ks{l}: f32[S, 32] = Reshape(%kr{l}) {{ shape = [-1, 32] }}
             %ka{l}: f32[P + S, 32], %va{l}: f32[P + S, 32] = KvCache(%ks{l}, %vm{l})
             %a{l}: f32[S, 64] = Sdpa(%qs{l}, %ka{l}, %va{l}) {{ heads = 4, kv_heads = 2, head_dim = 16, causal = true }}
             %om{l}: f32[S, 64] = Matmul(%a{l}, %o{l})
             %h{l}: f32[S, 64] = Add(%x{l}, %om{l})
             %m{l}: f32[S, 64] = RmsNorm(%h{l}, %g) {{ eps = 1e-6 }}
             %gm{l}: f32[S, 96] = Matmul(%m{l}, %gate{l})
             %um{l}: f32[S, 96] = Matmul(%m{l}, %up{l})
             %s{l}: f32[S, 96] = SwiGlu(%gm{l}, %um{l})
             %dm{l}: f32[S, 64] = Matmul(%s{l}, %down{l})
             %x{next}: f32[S, 64] = Add(%h{l}, %dm{l})\n"
        );
    }
    text + &format!(
        "{}
         %y: f32[S, 64] = RmsNorm(%z, %g) {{ eps = 1e-6 }}
         %logits: f32[S, 96] = Matmul(%y, %embed)
         output logits = %logits",
        extra.replace("%x", &format!("%x{layers}"))
    )
}

const NOTHING: &str = "%z: f32[S, 64] = MulScalar(%x) { value = 0.5 }";

fn schedule(program: &Program, tokens: i64) -> Schedule {
    let (loaded, _) = program.for_call(Rows::All, tokens as usize);
    let bindings = Bindings::from([("S".to_owned(), tokens), ("P".to_owned(), 0)]);
    Schedule::new(loaded, &bindings, tokens as usize).unwrap().unwrap()
}

#[test]
fn a_token_needs_few_barriers_a_layer_and_nothing_but_instructions() {
    let barriers = |layers| {
        let schedule = schedule(&program(&decoder(layers, NOTHING), 2, Walk::Whole), 1);
        assert!(schedule.is_whole());
        assert_eq!(schedule.codes, []);
        schedule.calls.iter().filter(|c| c.wait).count()
    };
    assert_eq!(barriers(3) - barriers(2), 6);
    // Several tokens: what is needed whole is shared.
    let several = schedule(&program(&decoder(2, NOTHING), 2, Walk::Whole), 5);
    assert!(several.is_whole() && several.own == 0);
    assert_eq!(several.codes.len(), 2);
    assert!(several.fits(&Bindings::from([("S".to_owned(), 5), ("P".to_owned(), 9)])));
    assert!(!several.fits(&Bindings::from([("S".to_owned(), 6), ("P".to_owned(), 0)])));
}

#[test]
fn steps_without_instructions_run_between_the_others() {
    // Operations that only the interpreter has; one result has no single-precision numbers.
    let extra = "%e: f32[S, 64] = Exp(%x)
        %w: f32[S, 64] = Sin(%e)
        %most: i64[S] = Argmax(%w) { dim = 1 }
        %t: f32[S, 64] = Tanh(%w)
        %z: f32[S, 64] = Add(%t, %e)
        output most = %most";
    let text = decoder(1, extra);
    let whole = program(&text, 3, Walk::Whole);
    let parts = schedule(&whole, 4);
    assert!(!parts.is_whole());
    assert!(parts.segments.iter().any(|s| matches!(s, Segment::Alone(_))));
    assert!(parts.segments.iter().filter(|s| matches!(s, Segment::Team(_))).count() >= 2);
    assert!(parts.locations.contains(&Location::Alone));
    same(&whole, &program(&text, 1, Walk::Steps), 96);
}

/// Calls of several sizes give the same bits on both.
fn same(whole: &Arc<Program>, steps: &Arc<Program>, ids: usize) {
    let (mut whole, mut steps) = (Session::new(whole.clone()), Session::new(steps.clone()));
    for (at, tokens) in [5, 1, 1, 2, 1].into_iter().enumerate() {
        let values: Vec<i64> = (0..tokens).map(|i| ((i * 31 + at * 7) % ids) as i64).collect();
        let inputs = [("input_ids".to_owned(), Tensor::from_vec(values, tokens, &Device::Cpu).unwrap())];
        let [a, b] = [&mut whole, &mut steps].map(|s| s.run(&inputs, Rows::All).unwrap());
        for ((name, a), (_, b)) in a.iter().zip(&b) {
            let [a, b] = [a, b].map(|t| t.flatten_all().unwrap().to_dtype(candle_core::DType::F32).unwrap());
            assert_eq!(a.to_vec1::<f32>().unwrap(), b.to_vec1::<f32>().unwrap(), "{name} of call {at}");
        }
    }
    assert_eq!(whole.past(), 10);
}

#[test]
fn an_error_in_a_call_leaves_the_session_as_it_was() {
    // The table of places has three rows.
    let extra = "weight %places = \"places\": u32[3, 64]
        %p: f32[S, 64] = TokenEmbed(%input_ids, %places)
        %z: f32[S, 64] = Add(%x, %p)";
    let whole = program(&decoder(2, extra), 2, Walk::Whole);
    let mut session = Session::new(whole.clone());
    let first = session.forward(&[1, 2, 0], Rows::Last).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let bytes = session.cache_bytes();
    for id in [3, 96] {
        let error = session.decode(id).unwrap_err().to_string();
        assert!(error.contains("TokenEmbed") && error.contains("is no row"), "{error}");
        assert!(session.forward(&[1, id], Rows::All).is_err());
        assert_eq!((session.past(), session.cache_bytes()), (3, bytes));
    }
    session.truncate(2);
    assert_eq!(session.decode(0).unwrap(), first);
}

#[test]
fn calls_at_once_on_one_team_give_the_same() {
    let whole = program(&decoder(2, NOTHING), 2, Walk::Whole);
    let alone = Session::new(whole.clone()).forward(&[5, 6, 7], Rows::Last).unwrap();
    let alone = alone.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let mut session = Session::new(whole.clone());
                    session.forward(&[5, 6], Rows::Last).unwrap();
                    assert_eq!(session.decode(7).unwrap(), alone);
                }
            });
        }
    });
}
