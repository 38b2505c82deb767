//! What the compiler did and what it did not, as text and as JSON.

use crate::ui;
use std::collections::HashMap;
use std::fmt::Write as _;
use tallow::compiler::{Optimised, Outcome, Remark};

/// Remarks by pass in their order, then what each pass did, and how long it took if `timings`.
pub fn text(made: &Optimised, timings: bool, colour: bool) -> String {
    let mut out = String::new();
    for of_pass in made.remarks.chunk_by(|a, b| a.pass == b.pass) {
        let _ = writeln!(out, "{}", of_pass[0].pass);
        for remark in of_pass {
            let line = format!("  {remark}");
            let line = ui::printable(&line);
            match (colour, remark.is_applied()) {
                (true, true) => writeln!(out, "\u{1b}[32m{line}\u{1b}[0m"),
                (true, false) => writeln!(out, "\u{1b}[33m{line}\u{1b}[0m"),
                (false, _) => writeln!(out, "{line}"),
            }
            .ok();
        }
        out.push('\n');
    }
    out.push_str(&passes(made, timings));
    out
}

/// What was missed, alike places as one: how often, which pass, what and why, and where first.
pub fn missed(made: &Optimised) -> String {
    let mut kinds: Vec<(String, &Remark, usize)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for remark in &made.remarks {
        let Outcome::Missed(why) = &remark.outcome else { continue };
        // The names of values are those of the place; their number is not.
        let words: String = why.split('`').step_by(2).collect();
        let key = format!("{}: {}: {words}", remark.pass, remark.what);
        match known.get(&key) {
            Some(&at) => kinds[at].2 += 1,
            None => {
                known.insert(key, kinds.len());
                kinds.push((why.clone(), remark, 1));
            }
        }
    }
    if kinds.is_empty() {
        return String::new();
    }
    let mut rows = vec![["places", "pass", "missed", "why", "first at"].map(str::to_owned).to_vec()];
    for (why, remark, count) in kinds {
        rows.push(vec![count.to_string(), remark.pass.to_owned(), remark.what.clone(), why, remark.place.clone()]);
    }
    ui::printable(&ui::table(&rows)).into_owned()
}

/// A table of the passes: patches, misses, nodes, and milliseconds if `timings`.
fn passes(made: &Optimised, timings: bool) -> String {
    let head = ["pass", "applied", "missed", "nodes", "ms"].map(str::to_owned);
    let columns = if timings { 5 } else { 4 };
    let mut rows = vec![head[..columns].to_vec()];
    for p in &made.passes {
        let nodes = if p.before == p.after { p.after.to_string() } else { format!("{} -> {}", p.before, p.after) };
        let time = format!("{:.2}", p.time.as_secs_f64() * 1e3);
        let row = [p.name.to_owned(), p.patches.to_string(), p.missed.to_string(), nodes, time];
        rows.push(row[..columns].to_vec());
    }
    ui::table(&rows)
}

/// The same for machines.
pub fn json(made: &Optimised, timings: bool) -> serde_json::Value {
    let remarks: Vec<_> = made
        .remarks
        .iter()
        .map(|r| {
            let (patch, why) = match &r.outcome {
                Outcome::Applied(number) => (Some(*number), None),
                Outcome::Missed(why) => (None, Some(why)),
            };
            serde_json::json!({
                "pass": r.pass, "stage": r.stage.name(), "place": r.place, "what": r.what,
                "applied": r.is_applied(), "patch": patch, "missed": why,
            })
        })
        .collect();
    let passes: Vec<_> = made
        .passes
        .iter()
        .map(|p| {
            let mut pass = serde_json::json!({
                "pass": p.name, "applied": p.patches, "missed": p.missed,
                "nodes_before": p.before, "nodes_after": p.after,
            });
            if timings {
                pass["milliseconds"] = (p.time.as_secs_f64() * 1e3).into();
            }
            pass
        })
        .collect();
    serde_json::json!({ "remarks": remarks, "passes": passes })
}
