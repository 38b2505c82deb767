//! Web pages of graphs, with what is known of where a graph comes from and what the compiler did to it.

use crate::{Opened, Result};
use std::collections::{BTreeMap, HashMap};
use tallow_compiler::{Optimised, Outcome, Stage};
use tallow_ir::verify::Verified;
use tallow_ir::{NodeId, page};

/// A graph at one of its stages, and what a page tells of it.
pub struct Staged {
    /// The graph.
    pub graph: Verified,
    /// Its place in the program, the remarks of the compiler.
    pub about: page::About,
}

/// The graph of `opened` at a stage. The raw graph tells the remarks of all passes as well: what would be done to it.
///
/// # Errors
/// Faults of the compiler alone.
pub fn staged(opened: &Opened, stage: Stage) -> Result<Staged> {
    let until = if stage == Stage::Raw { Stage::Target } else { stage };
    let made = opened.compiled(until)?;
    let about = about(opened, &made, stage);
    let graph = if stage == Stage::Raw { opened.graph.clone() } else { made.graph };
    Ok(Staged { graph, about })
}

fn about(opened: &Opened, made: &Optimised, stage: Stage) -> page::About {
    // Each node of the page with the nodes of the raw graph that it stands for.
    let nodes: Vec<(NodeId, Vec<NodeId>)> = match stage {
        Stage::Raw => opened.graph.graph().nodes().map(|id| (id, vec![id])).collect(),
        Stage::Portable | Stage::Target => {
            made.origin.iter().enumerate().map(|(at, of)| (NodeId::from_index(at), of.clone())).collect()
        }
    };
    let mut by_node: HashMap<NodeId, Vec<usize>> = HashMap::new();
    for (at, remark) in made.remarks.iter().enumerate() {
        remark.nodes.iter().for_each(|&id| by_node.entry(id).or_default().push(at));
    }
    let places = opened.program.as_ref().map(|p| p.places()).unwrap_or_default();
    let mut about = page::About {
        title: opened.label.clone(),
        subtitle: format!("{} graph, {} nodes", stage.name(), nodes.len()),
        source: opened.program.as_ref().map(|p| page::Source { name: p.name.clone(), text: p.source.clone() }),
        remarks: BTreeMap::new(),
        spans: BTreeMap::new(),
        modules: BTreeMap::new(),
    };
    for (id, origin) in nodes {
        let mut told: Vec<usize> = origin.iter().filter_map(|raw| by_node.get(raw)).flatten().copied().collect();
        told.sort_unstable();
        told.dedup();
        if !told.is_empty() {
            about.remarks.insert(id, told.into_iter().map(|at| remark(at, &made.remarks[at])).collect());
        }
        if let Some(&(line, column)) = origin.iter().find_map(|raw| places.get(raw)) {
            about.spans.insert(id, (line as u32, column as u32));
        }
    }
    about
}

fn remark(at: usize, remark: &tallow_compiler::Remark) -> page::Remark {
    let text = match &remark.outcome {
        Outcome::Applied(number) => format!("{} (patch {number})", remark.what),
        Outcome::Missed(why) => format!("{}: {why}", remark.what),
    };
    page::Remark { pass: remark.pass.to_owned(), applied: remark.is_applied(), text, number: Some(at as u32) }
}
