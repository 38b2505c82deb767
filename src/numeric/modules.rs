//! From the path of a module, as `transformers` names it, to the value of the graph that it gives.

use std::collections::HashMap;
use tallow_ir::{Effect, Graph, NodeId, NodeKind, Op, Value};

/// At most so many weights are told apart in one tensor that is computed from weights.
const MOST_WEIGHTS: usize = 8;
/// At most so many operations lie between the last product of a block and the sum that ends it.
const MOST_STEPS: usize = 4;

/// Finds values by name.
pub(super) struct Modules<'g> {
    graph: &'g Graph,
    /// The results of operations and the inputs by name.
    named: HashMap<&'g str, Value>,
    /// Every weight with the first operation that reads it, weights sorted by name.
    readers: Vec<(&'g str, NodeId)>,
    /// The last operation that reads a weight which also is a table of rows: of tied embeddings the output.
    tied: Option<NodeId>,
    /// The place of each node in topological order.
    place: Vec<usize>,
}

impl<'g> Modules<'g> {
    /// Of a graph.
    pub fn new(graph: &'g Graph) -> Modules<'g> {
        let order = graph.topological().unwrap_or_default();
        let mut place = vec![0; graph.node_bound()];
        let mut named = HashMap::new();
        // The weights behind each value that is computed from weights alone.
        let mut constant: HashMap<NodeId, Vec<&str>> = HashMap::new();
        let mut first: HashMap<&str, NodeId> = HashMap::new();
        let mut last: HashMap<&str, NodeId> = HashMap::new();
        let mut tables: Vec<&str> = Vec::new();
        for (at, &id) in order.iter().enumerate() {
            place[id.index()] = at;
            let op = match &graph.node(id).kind {
                NodeKind::Weight(name) => {
                    constant.insert(id, vec![name.as_str()]);
                    continue;
                }
                NodeKind::Input(_) => None,
                NodeKind::Op(op) => Some(op),
            };
            for value in graph.results(id) {
                if let Some(name) = graph.name_of(value) {
                    named.entry(name).or_insert(value);
                }
            }
            let Some(op) = op else { continue };
            let operands = graph.operands(id);
            let mut behind: Vec<&str> =
                operands.iter().filter_map(|v| constant.get(&v.node)).flatten().copied().collect();
            behind.truncate(MOST_WEIGHTS);
            if op.info().effect == Effect::Pure && operands.iter().all(|v| constant.contains_key(&v.node)) {
                constant.insert(id, behind);
                continue;
            }
            for name in behind {
                if !first.contains_key(name) {
                    first.insert(name, id);
                    if matches!(op, Op::TokenEmbed) {
                        tables.push(name);
                    }
                }
                last.insert(name, id);
            }
        }
        let tied = tables.iter().filter_map(|&name| last.get(name).copied().filter(|id| first.get(name) != Some(id)));
        let tied = tied.max_by_key(|id| place[id.index()]);
        let mut readers: Vec<(&str, NodeId)> = first.into_iter().collect();
        readers.sort_unstable();
        Modules { graph, named, readers, tied, place }
    }

    /// The value that a module may give in place of `value`: of a table of embeddings also the rows times a factor,
    /// which some versions count to the module and others to the model.
    pub fn alternative(&self, value: Value) -> Option<Value> {
        if !matches!(self.graph.node(value.node).kind, NodeKind::Op(Op::TokenEmbed)) {
            return None;
        }
        let &[(reader, _)] = self.graph.readers(value).as_slice() else { return None };
        let scales = matches!(self.graph.node(reader).kind, NodeKind::Op(Op::MulScalar { .. }));
        scales.then_some(Value { node: reader, port: 0 })
    }

    /// The value that `name` stands for: a value or an output of this name; else what the module of this path gives,
    /// found by the weights below it.
    ///
    /// # Errors
    /// No such value; why not.
    pub fn resolve(&self, name: &str) -> Result<Value, String> {
        let bare = name.strip_prefix('%').unwrap_or(name);
        let exact = self.named.get(bare).copied().or_else(|| self.graph.output_named(bare));
        if let Some(value) = exact {
            return Ok(value);
        }
        let path = bare.strip_suffix(".weight").unwrap_or(bare);
        let found = self.last_reader(path).or_else(|| {
            // The model within another: `bert.encoder` for the weights of `encoder`.
            path.split_once('.').filter(|(_, rest)| rest.contains('.')).and_then(|(_, rest)| self.last_reader(rest))
        });
        let node = match found {
            Some(node) if is_block(path) => return Ok(self.sum_after(node)),
            Some(node) => node,
            None if path.rsplit('.').next() == Some("lm_head") => {
                return match (self.tied, self.graph.output_named("logits")) {
                    (Some(node), _) => Ok(Value { node, port: 0 }),
                    (None, Some(value)) => Ok(value),
                    (None, None) => Err("the graph has no `lm_head` and no output `logits`".to_owned()),
                };
            }
            None => return Err("no value has this name, and no weight lies below this module".to_owned()),
        };
        Ok(Value { node, port: 0 })
    }

    /// The last of the operations that first read a weight below `path`.
    fn last_reader(&self, path: &str) -> Option<NodeId> {
        let prefix = format!("{path}.");
        let start = self.readers.partition_point(|(name, _)| *name < prefix.as_str());
        let below = self.readers[start..].iter().take_while(|(name, _)| name.starts_with(&prefix));
        below.map(|&(_, node)| node).max_by_key(|id| self.place[id.index()])
    }

    /// The sum that ends a block whose last operation with a weight is `node`: the next one that adds it to something
    /// computed; `node` itself where there is none.
    fn sum_after(&self, node: NodeId) -> Value {
        let own = Value { node, port: 0 };
        let mut value = own;
        for _ in 0..MOST_STEPS {
            let readers = self.graph.readers(value);
            let &[(reader, _)] = readers.as_slice() else { break };
            let NodeKind::Op(op) = &self.graph.node(reader).kind else { break };
            let operands = self.graph.operands(reader);
            let weighted = operands.iter().any(|v| matches!(self.graph.node(v.node).kind, NodeKind::Weight(_)));
            match op {
                Op::Add if !weighted => return Value { node: reader, port: 0 },
                // A factor of the residual branch.
                Op::MulScalar { .. } | Op::Mul => value = Value { node: reader, port: 0 },
                _ => break,
            }
        }
        own
    }
}

/// Whether a path names one of several equal blocks, as in `model.layers.0`.
fn is_block(path: &str) -> bool {
    path.rsplit('.').next().is_some_and(|last| !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallow_ir::text;

    const GRAPH: &str = r#"graph {
        input %input_ids: i64[S]
        weight %embed_w = "model.embed_tokens.weight": u32[9, 4]
        weight %norm_w = "model.layers.0.input_layernorm.weight": u32[4]
        weight %q_w = "model.layers.0.self_attn.q_proj.weight": u32[4, 4]
        weight %q_b = "model.layers.0.self_attn.q_proj.bias": u32[4]
        weight %down_w = "model.layers.0.mlp.down_proj.weight": u32[4, 4]
        weight %last_w = "model.norm.weight": u32[4]
        %gain: f32[4] = AddScalar(%norm_w) { value = 1 }
        %embed: f32[S, 4] = TokenEmbed(%input_ids, %embed_w)
        %norm: f32[S, 4] = RmsNorm(%embed, %gain) { eps = 1e-6 }
        %product: f32[S, 4] = Matmul(%norm, %q_w)
        %q: f32[S, 4] = Add(%product, %q_b)
        %down: f32[S, 4] = Matmul(%q, %down_w)
        %part: f32[S, 4] = MulScalar(%down) { value = 0.5 }
        %out: f32[S, 4] = Add(%embed, %part)
        %final: f32[S, 4] = RmsNorm(%out, %last_w) { eps = 1e-6 }
        %product2: f32[S, 9] = Matmul(%final, %embed_w)
        %scaled: f32[S, 9] = MulScalar(%product2) { value = 2 }
        output logits = %scaled
    }"#;

    #[test]
    fn modules_give_the_values_of_their_last_weights() {
        let graph = text::parse(GRAPH).unwrap();
        let modules = Modules::new(&graph);
        for (path, expected) in [
            ("q", "q"),
            ("%q", "q"),
            ("model.embed_tokens", "embed"),
            ("model.layers.0.input_layernorm", "norm"),
            ("model.layers.0.self_attn.q_proj", "q"),
            ("model.layers.0.self_attn", "q"),
            ("model.layers.0.mlp.down_proj", "down"),
            ("model.layers.0.mlp", "down"),
            ("model.layers.0", "out"),
            ("model.norm", "final"),
            ("model", "final"),
            ("bert.model.norm", "final"),
            ("lm_head", "product2"),
            ("logits", "scaled"),
        ] {
            let value = modules.resolve(path).unwrap_or_else(|e| panic!("{path}: {e}"));
            assert_eq!(graph.name_of(value), Some(expected), "{path}");
        }
        assert_eq!(modules.alternative(modules.resolve("embed").unwrap()), None);
        for path in ["model.rotary_emb", "model.layers.0.mlp.act_fn", "model.layers.1", "", "."] {
            assert!(modules.resolve(path).is_err(), "{path}");
        }
    }
}
