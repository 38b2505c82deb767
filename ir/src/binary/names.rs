//! The names of a raw graph as numbers, so that each occurrence is looked up once.

use super::RawGraph;
use std::collections::HashMap;

/// Every name that nodes and the interface mention, numbered in order of first mention.
pub(super) struct Names<'g> {
    raw: &'g RawGraph,
    numbers: HashMap<&'g str, usize>,
    texts: Vec<&'g str>,
    /// What each node reads and then what it writes, one node after another …
    mentions: Vec<usize>,
    /// … and where each node begins.
    start: Vec<usize>,
}

impl<'g> Names<'g> {
    pub fn new(raw: &'g RawGraph) -> Self {
        // Nearly every name is written once.
        let written = raw.nodes.iter().map(|n| n.outputs.len()).sum();
        let mentioned = raw.nodes.iter().map(|n| n.inputs.len() + n.outputs.len()).sum();
        let mut names = Names {
            raw,
            numbers: HashMap::with_capacity(written),
            texts: Vec::with_capacity(written),
            mentions: Vec::with_capacity(mentioned),
            start: Vec::with_capacity(raw.nodes.len()),
        };
        for node in &raw.nodes {
            names.start.push(names.mentions.len());
            for name in node.inputs.iter().chain(&node.outputs) {
                let number = names.add(name);
                names.mentions.push(number);
            }
        }
        if let Some(interface) = &raw.interface {
            for name in interface.inputs.iter().map(|i| &i.name).chain(&interface.outputs) {
                names.add(name);
            }
        }
        names
    }

    fn add(&mut self, name: &'g str) -> usize {
        let next = self.texts.len();
        let number = *self.numbers.entry(name).or_insert(next);
        if number == next {
            self.texts.push(name);
        }
        number
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// The number of a name that is mentioned.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// The name of a number.
    pub fn text(&self, number: usize) -> &'g str {
        self.texts[number]
    }

    /// The numbers of what node `at` reads.
    pub fn read(&self, at: usize) -> &[usize] {
        &self.mentions[self.start[at]..][..self.raw.nodes[at].inputs.len()]
    }

    /// The numbers of what node `at` writes.
    pub fn written(&self, at: usize) -> &[usize] {
        let node = &self.raw.nodes[at];
        &self.mentions[self.start[at] + node.inputs.len()..][..node.outputs.len()]
    }
}
