//! Windows over sizes that only running tells: types hold quotients, and what does not fit is an error then.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use tallow_executor::{
    DType, Device, Engine, Program, ProgramOptions, Rows, Session, Tensor, WeightSource, WeightView,
};
use tallow_ir::ops::{Interpolation, MelLog, MelScale, PoolMode};
use tallow_ir::{Graph, Op, Shape, TensorType, verify};

struct NoWeights;
impl WeightSource for NoWeights {
    fn weight(&self, _: &str) -> Option<WeightView<'_>> {
        None
    }
}

/// The declared type of the result, and the shape or the error of a run with ones of these sizes.
fn run(op: Op, declared: &[&str], sizes: &[&[usize]]) -> (String, Result<Vec<usize>, String>) {
    let mut g = Graph::new();
    let inputs: Vec<_> = (0..)
        .zip(declared)
        .map(|(i, dims)| {
            let dims = dims.split(", ").map(|d| d.parse().unwrap());
            g.input(&format!("x{i}"), TensorType::f32(Shape::new(dims))).unwrap()
        })
        .collect();
    let y = g.op(op, &inputs).unwrap();
    let ty = g.ty(y).to_string();
    g.output("y", y).unwrap();
    let verified = verify::verify(g).unwrap();
    let options = ProgramOptions { engine: Engine::Reference, threads: 1, ..ProgramOptions::default() };
    let program = Arc::new(Program::new(&verified, Arc::new(NoWeights), options).unwrap());
    let ones = |dims: &[usize]| Tensor::ones(dims, DType::F32, &Device::Cpu).unwrap();
    let given: Vec<_> = (0..).zip(sizes).map(|(i, dims)| (format!("x{i}"), ones(dims))).collect();
    let found = Session::new(program).run(&given, Rows::All);
    (ty, found.map(|out| out[0].1.dims().to_vec()).map_err(|e| e.to_string()))
}

#[track_caller]
fn gives(op: Op, declared: &[&str], sizes: &[&[usize]], ty: &str, dims: &[usize]) {
    assert_eq!(run(op, declared, sizes), (ty.to_owned(), Ok(dims.to_vec())));
}

#[track_caller]
fn fails(op: Op, declared: &[&str], sizes: &[&[usize]], message: &str) {
    let error = run(op, declared, sizes).1.unwrap_err();
    assert!(error.contains(message), "{error}");
}

#[test]
fn windows_that_do_not_fit_are_errors() {
    let conv = Op::Conv1d { kernel: 5, stride: 2, padding: 1, dilation: 1, groups: 1 };
    let types = ["1, 2, S", "3, 2, 5"];
    let w: &[usize] = &[3, 2, 5];
    gives(conv.clone(), &types, &[&[1, 2, 8], w], "f32[1, 3, floor((S + 1)/2) - 1]", &[1, 3, 3]);
    gives(conv.clone(), &types, &[&[1, 2, 3], w], "f32[1, 3, floor((S + 1)/2) - 1]", &[1, 3, 1]);
    fails(conv, &types, &[&[1, 2, 2], w], "kernel 5 (dilation 1) is larger than the size 2 with padding 1 and 1");
    let pool = Op::Pool { mode: PoolMode::Max, kernel: [3, 2], stride: [2, 2], padding: [0, 1] };
    gives(
        pool.clone(),
        &["1, 1, H, W"],
        &[&[1, 1, 7, 4]],
        "f32[1, 1, floor((H + 1)/2) - 1, floor(W/2) + 1]",
        &[1, 1, 3, 3],
    );
    fails(pool, &["1, 1, H, W"], &[&[1, 1, 2, 4]], "kernel 3");
    let up = Op::ConvTranspose2d { kernel: [2, 2], stride: [2, 2], padding: [2, 0] };
    gives(
        up.clone(),
        &["1, 1, H, 3", "1, 1, 2, 2"],
        &[&[1, 1, 4, 3], &[1, 1, 2, 2]],
        "f32[1, 1, 2*H - 4, 6]",
        &[1, 1, 4, 6],
    );
    fails(up, &["1, 1, H, 3", "1, 1, 2, 2"], &[&[1, 1, 2, 3], &[1, 1, 2, 2]], "padding 2 leaves nothing of the size 2");
    let size = |scale: f32| Op::Interpolate { mode: Interpolation::Area, scale: scale.into() };
    gives(size(0.5), &["1, 1, H, 9"], &[&[1, 1, 5, 9]], "f32[1, 1, floor(H/2), 4]", &[1, 1, 2, 4]);
    gives(size(0.3), &["1, 1, H, 9"], &[&[1, 1, 10, 9]], "f32[1, 1, ?height, 2]", &[1, 1, 3, 2]);
    fails(size(0.5), &["1, 1, H, 9"], &[&[1, 1, 1, 9]], "scale 0.5 of the size 1 is no size");
    let mel = Op::LogMel {
        sample_rate: 16000,
        fft: 100,
        hop: 30,
        mels: 4,
        low: 0.0.into(),
        high: 8000.0.into(),
        scale: MelScale::Slaney,
        log: MelLog::Whisper,
    };
    gives(mel.clone(), &["N"], &[&[119]], "f32[4, floor(N/30)]", &[4, 3]);
    fails(mel, &["N"], &[&[50]], "50 samples are too few, expected more than 50 (half of fft)");
}

#[test]
fn empty_operands_and_far_sizes_neither_stop_nor_fill_the_machine() {
    let conv = |kernel: [u32; 2], padding: [u32; 2]| Op::Conv2d {
        kernel,
        stride: [1, 1],
        padding,
        dilation: [1, 1],
        groups: 1,
    };
    gives(
        conv([2, 2], [0, 0]),
        &["B, 1, 4, 4", "3, 1, 2, 2"],
        &[&[0, 1, 4, 4], &[3, 1, 2, 2]],
        "f32[B, 3, 3, 3]",
        &[0, 3, 3, 3],
    );
    gives(
        conv([2, 2], [1, 1]),
        &["1, 0, 1, 1", "3, 0, 2, 2", "3"],
        &[&[1, 0, 1, 1], &[3, 0, 2, 2], &[3]],
        "f32[1, 3, 2, 2]",
        &[1, 3, 2, 2],
    );
    let far = "W would have the shape [0, 1, 4294967295, 4294967295]";
    let types = ["1, 1, H, H", "0, 1, 4294967295, 4294967295"];
    fails(conv([u32::MAX; 2], [1 << 31; 2]), &types, &[&[1, 1, 1, 1], &[0, 1, 4294967295, 4294967295]], far);
    fails(
        conv([1, 1], [u32::MAX, 0]),
        &["1, 1, H, 1", "1, 1, 1, 1"],
        &[&[1, 1, 1, 1], &[1, 1, 1, 1]],
        "elements are possible",
    );
    let up = Op::ConvTranspose1d { kernel: 2, stride: 3, padding: 0, output_padding: 2, dilation: 1, groups: 1 };
    gives(up, &["1, 0, L", "0, 2, 2", "2"], &[&[1, 0, 2], &[0, 2, 2], &[2]], "f32[1, 2, 3*L + 1]", &[1, 2, 7]);
    let pool =
        Op::Pool { mode: PoolMode::Average, kernel: [u32::MAX - 1; 2], stride: [1, 1], padding: [(1 << 31) - 1; 2] };
    gives(pool, &["1, 1, H, H"], &[&[1, 1, 2, 2]], "f32[1, 1, H + 1, H + 1]", &[1, 1, 3, 3]);
    let size = Op::Interpolate { mode: Interpolation::Bilinear, scale: 1e12.into() };
    fails(size, &["1, 1, H, H"], &[&[1, 1, 2, 2]], "elements are possible");
}

/// Two counts that only running tells have the same symbol, and need not be equal.
#[test]
fn counts_that_part_when_running_are_refused_by_the_rule() {
    let text = "graph {
      input %boxes: f32[N, 4]
      input %p: f32[N]
      input %q: f32[N]
      input %x: f32[N, 2]
      %i: i64[?kept] = NonMaxSuppression(%boxes, %p) { iou = 0.5, score = 0.1, limit = 0 }
      %j: i64[?kept] = NonMaxSuppression(%boxes, %q) { iou = 0.5, score = 0.1, limit = 0 }
      %a: f32[?kept, 2] = Gather(%x, %i) { axis = 0 }
      %b: f32[?kept, 2] = Gather(%x, %j) { axis = 0 }
      %y: f32[?kept, 2] = SwiGlu(%a, %b)
      output y = %y
    }";
    let graph = tallow_ir::verify::verify(tallow_ir::text::parse(text).unwrap()).unwrap();
    let device = tallow_executor::Device::Cpu;
    let tensor = |values: &[f32], dims: &[usize]| tallow_executor::Tensor::from_slice(values, dims, &device).unwrap();
    for engine in [Engine::Reference, Engine::Cpu] {
        let options = ProgramOptions { engine, threads: 1, ..ProgramOptions::default() };
        let program = std::sync::Arc::new(Program::new(&graph, std::sync::Arc::new(NoWeights), options).unwrap());
        let run = |q: [f32; 2]| {
            let inputs = [
                ("boxes".to_owned(), tensor(&[0.0, 0.0, 1.0, 1.0, 5.0, 5.0, 6.0, 6.0], &[2, 4])),
                ("p".to_owned(), tensor(&[0.9, 0.8], &[2])),
                ("q".to_owned(), tensor(&q, &[2])),
                ("x".to_owned(), tensor(&[1.0, 2.0, 3.0, 4.0], &[2, 2])),
            ];
            Session::new(program.clone()).run(&inputs, Rows::All)
        };
        assert_eq!(run([0.9, 0.8]).unwrap()[0].1.dims(), [2, 2]);
        let error = run([0.9, 0.0]).unwrap_err().to_string();
        assert!(error.starts_with("SwiGlu at `y`: ") && error.contains("sizes that only running told"), "{error}");
    }
}

#[test]
fn parts_of_nothing_are_empty() {
    gives(Op::Slice { axis: 1, start: 5, end: 5 }, &["N, 5, 4"], &[&[0, 5, 4]], "f32[N, 0, 4]", &[0, 0, 4]);
    gives(Op::Slice { axis: 1, start: 4, end: 5 }, &["N, 5, 4"], &[&[0, 5, 4]], "f32[N, 1, 4]", &[0, 1, 4]);
    gives(Op::Slice { axis: 0, start: 3, end: 3 }, &["3, 4"], &[&[3, 4]], "f32[0, 4]", &[0, 4]);
}

/// Candle walks over eight dimensions; more are refused by name where it would have to.
#[test]
fn more_dimensions_than_the_tensor_library_walks_are_refused() {
    let nine = "1, 1, 2, 1, 1, 1, 1, 1, 2";
    let dims = [1, 1, 2, 1, 1, 1, 1, 1, 2];
    for op in [Op::Softmax { dim: -1 }, Op::NanToNum { nan: 0.0.into(), posinf: 0.0.into(), neginf: 0.0.into() }] {
        fails(op, &[nine], &[&dims], "an operand of 9 dimensions is not supported");
    }
    gives(Op::Floor, &[nine], &[&dims], "f32[1, 1, 2, 1, 1, 1, 1, 1, 2]", &dims);
}
