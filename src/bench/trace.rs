//! Calls as events of the Trace Event Format (Google, 2016), which `chrome://tracing` and <https://ui.perfetto.dev> open.

use super::of_step;
use super::profile::Ran;
use crate::Model;
use serde_json::{Value, json};
use std::time::Instant;

/// The process and the thread that all events name.
const PLACE: (u32, u32) = (1, 1);

/// `{"traceEvents": […]}`: each call is an event around the events of its steps, with times in microseconds from the
/// start of the first call.
pub(super) fn events(model: &Model, calls: &[Ran]) -> Value {
    let (pid, tid) = PLACE;
    let label = model.file().label();
    let mut events = vec![
        json!({ "name": "process_name", "ph": "M", "pid": pid, "tid": tid, "args": { "name": label } }),
        json!({ "name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": { "name": "steps" } }),
    ];
    let zero = calls.first().map(|ran| ran.call.started);
    let micros = |a: Instant, b: Instant| b.saturating_duration_since(a).as_nanos() as f64 / 1e3;
    let mut event = |name: &str, category: &str, times: [Instant; 2], args: Value| {
        let (ts, dur) = (zero.map_or(0.0, |zero| micros(zero, times[0])), micros(times[0], times[1]));
        events.push(json!({
            "name": name, "cat": category, "ph": "X", "ts": ts, "dur": dur, "pid": pid, "tid": tid, "args": args,
        }));
    };
    let weights = model.weights();
    for Ran { call, program, sizes } in calls {
        let name = if call.tokens == 1 { "1 token".to_owned() } else { format!("{} tokens", call.tokens) };
        event(&name, "call", [call.started, call.ended], json!({ "tokens": call.tokens, "past": call.past }));
        let plan = program.call_plan(call.rows, call.tokens);
        for span in &call.steps {
            let Some(step) = plan.steps.get(span.step) else { continue };
            let work = of_step(plan, step, &*weights, sizes);
            let args = json!({
                "operation": step.op.name(), "step": span.step, "bytes": work.bytes, "multiply_adds": work.multiply_adds,
            });
            event(&step.name, step.op.name(), [span.started, span.ended], args);
        }
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": events })
}

#[cfg(test)]
mod tests {
    use crate::Model;
    use crate::bench::{ProfileOptions, profile};

    #[test]
    fn steps_lie_inside_their_calls() {
        let model = Model::storyteller().unwrap();
        let options = ProfileOptions { tokens: 3, decode: 2, ..ProfileOptions::default() };
        let trace = profile(&model, &options, &|| false).unwrap().trace();
        let events = trace["traceEvents"].as_array().unwrap();
        let (mut end, mut call) = (0.0, (0.0, 0.0));
        let mut calls = 0;
        for event in events.iter().filter(|e| e["ph"] == "X") {
            let (start, length) = (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
            // Microseconds with fractions: a nanosecond may be lost in the sum.
            if event["cat"] == "call" {
                assert!(start + 1e-3 >= call.1);
                (call, end, calls) = ((start, start + length), start, calls + 1);
            } else {
                assert!(start + 1e-3 >= end && start + length <= call.1 + 1e-3, "{event}");
                end = start + length;
            }
        }
        assert_eq!(calls, 3);
        assert!(events.len() > 20);
    }
}
