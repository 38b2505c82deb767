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
    /// The weights behind each value that is computed from weights alone.
    constant: HashMap<NodeId, Vec<&'g str>>,
    /// The model's matrices that nothing in the graph reads, sorted.
    unread: Vec<String>,
    /// Whether the model holds a tensor.
    holds: &'g dyn Fn(&str) -> bool,
}

/// The value that a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meant {
    /// The value.
    pub value: Value,
    /// What the graph does with the module's bias in place of adding it.
    pub hint: Option<String>,
    /// Whether it is what the last part of a module gives: a guess, which a value of another shape refutes.
    pub guess: bool,
}

impl<'g> Modules<'g> {
    /// Of a graph over a model that holds these tensors; `matrices` are the names of those with two dimensions or more.
    pub fn new(graph: &'g Graph, holds: &'g dyn Fn(&str) -> bool, matrices: Vec<String>) -> Modules<'g> {
        let order = graph.topological().unwrap_or_default();
        let mut place = vec![0; graph.node_bound()];
        let mut named = HashMap::new();
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
        let is_read = |name: &str| readers.binary_search_by(|(n, _)| (*n).cmp(name)).is_ok();
        let mut unread: Vec<String> = matrices.into_iter().filter(|name| !is_read(name)).collect();
        unread.sort_unstable();
        Modules { graph, named, readers, tied, place, constant, unread, holds }
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
    pub fn resolve(&self, name: &str) -> Result<Meant, String> {
        let bare = name.strip_prefix('%').unwrap_or(name);
        let sure = |value| Meant { value, hint: None, guess: false };
        let exact = self.named.get(bare).copied().or_else(|| self.graph.output_named(bare));
        if let Some(value) = exact {
            return Ok(sure(value));
        }
        let path = bare.strip_suffix(".weight").unwrap_or(bare);
        // The model within another: `bert.encoder` for the weights of `encoder`.
        let inner = path.split_once('.').map(|(_, rest)| rest).filter(|rest| rest.contains('.'));
        for path in [Some(path), inner].into_iter().flatten() {
            let weight = format!("{path}.weight");
            if let Some(node) = self.reader(&weight) {
                return Ok(if is_block(path) { sure(self.sum_after(node)) } else { self.with_bias(path, node) });
            }
            let ends = self.unread.iter().find(|name| **name == weight || self.ends(name, path));
            if let Some(node) = self.last_reader(path) {
                if let Some(unread) = ends {
                    return Err(format!("nothing in the graph reads `{unread}`, which this module ends with"));
                }
                let own = Value { node, port: 0 };
                let value = if is_block(path) { self.sum_after(node) } else { self.after_bias(node).unwrap_or(own) };
                return Ok(Meant { value, hint: None, guess: true });
            }
            if let Some(unread) = ends.filter(|_| self.tied.is_none() || !is_head(path)) {
                return Err(format!("nothing in the graph reads `{unread}`"));
            }
        }
        if !is_head(path) {
            return Err("no value has this name, and no weight lies below this module".to_owned());
        }
        match (self.tied, self.graph.output_named("logits")) {
            (Some(node), _) => Ok(sure(Value { node, port: 0 })),
            (None, Some(value)) => Ok(sure(value)),
            (None, None) => Err("the graph has no `lm_head` and no output `logits`".to_owned()),
        }
    }

    /// The first operation that reads a weight.
    fn reader(&self, weight: &str) -> Option<NodeId> {
        self.readers.binary_search_by(|(name, _)| (*name).cmp(weight)).ok().map(|at| self.readers[at].1)
    }

    /// What the module of `path`, whose weight `node` reads, gives: with its bias, or with what is added in its place.
    fn with_bias(&self, path: &str, node: NodeId) -> Meant {
        let bias = format!("{path}.bias");
        let meant = |value, hint| Meant { value, hint, guess: false };
        let own = Value { node, port: 0 };
        let at = self.reader(&bias);
        if !(self.holds)(&bias) && at.is_none() {
            return meant(Value { node: self.last_reader(path).unwrap_or(node), port: 0 }, None);
        }
        if at == Some(node) {
            return meant(own, None);
        }
        match (self.after_bias(node), at) {
            (Some(value), _) => {
                let added = self.graph.operands(value.node);
                let added: Vec<&str> =
                    added.iter().filter_map(|v| self.constant.get(&v.node)).flatten().copied().collect();
                let other = (!added.contains(&bias.as_str())).then(|| added.join("`, `"));
                meant(value, other.map(|o| format!("it adds `{o}`, and the bias of `{path}` is `{bias}`")))
            }
            (None, None) => meant(own, Some(format!("the model holds `{bias}`, which nothing in the graph adds"))),
            (None, Some(_)) => meant(Value { node: self.last_reader(path).unwrap_or(node), port: 0 }, None),
        }
    }

    /// The sum of what `node` gives and a bias: numbers that weights alone give.
    fn after_bias(&self, node: NodeId) -> Option<Value> {
        let mut value = Value { node, port: 0 };
        for _ in 0..MOST_STEPS {
            let readers = self.graph.readers(value);
            let &[(reader, _)] = readers.as_slice() else { break };
            let NodeKind::Op(op) = &self.graph.node(reader).kind else { break };
            value = Value { node: reader, port: 0 };
            match op {
                Op::Add => {
                    let operands = self.graph.operands(reader);
                    return operands.iter().any(|v| self.constant.contains_key(&v.node)).then_some(value);
                }
                Op::Reshape { .. } | Op::Cast { .. } => {}
                _ => break,
            }
        }
        None
    }

    /// Whether what lies at `path` ends with the weight `unread`, which nothing reads, as equal modules of other blocks
    /// do with theirs; without others it may.
    fn ends(&self, unread: &str, path: &str) -> bool {
        if !unread.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')) {
            return false;
        }
        let parts = path.split('.').count();
        let mut alone = true;
        for &(name, node) in self.readers.iter().filter(|(name, _)| is_sister(name, unread)) {
            alone = false;
            let sister: Vec<&str> = name.split('.').take(parts).collect();
            let sister = sister.join(".");
            if sister != path && self.last_reader(&sister) == Some(node) {
                return true;
            }
        }
        alone
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

/// Whether two names differ in numbers alone.
pub(super) fn is_sister(a: &str, b: &str) -> bool {
    let number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let (mut x, mut y) = (a.split('.'), b.split('.'));
    loop {
        match (x.next(), y.next()) {
            (None, None) => return true,
            (Some(p), Some(q)) if p == q || (number(p) && number(q)) => {}
            _ => return false,
        }
    }
}

fn is_head(path: &str) -> bool {
    path.rsplit('.').next() == Some("lm_head")
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
        let modules = Modules::new(&graph, &|_| false, Vec::new());
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
            assert_eq!(graph.name_of(value.value), Some(expected), "{path}");
        }
        assert_eq!(modules.alternative(modules.resolve("embed").unwrap().value), None);
        for path in ["model.rotary_emb", "model.layers.0.mlp.act_fn", "model.layers.1", "", "."] {
            assert!(modules.resolve(path).is_err(), "{path}");
        }
    }
    #[test]
    fn biases_and_weights_that_are_not_read_are_told() {
        let wrong = GRAPH.replace("q_proj.bias", "k_proj.bias");
        let graph = text::parse(&wrong).unwrap();
        let holds = |name: &str| name.ends_with("q_proj.bias");
        let modules = Modules::new(&graph, &holds, vec!["model.layers.0.mlp.last.weight".into()]);
        let q = modules.resolve("model.layers.0.self_attn.q_proj").unwrap();
        assert_eq!(graph.name_of(q.value), Some("q"));
        assert!(q.hint.unwrap().contains("it adds `model.layers.0.self_attn.k_proj.bias`"));
        for path in ["model.layers.0.mlp", "model.layers.0.mlp.last"] {
            let why = modules.resolve(path).unwrap_err();
            assert!(why.contains("nothing in the graph reads `model.layers.0.mlp.last.weight`"), "{path}: {why}");
        }
        let missing = GRAPH.replace("%q: f32[S, 4] = Add(%product, %q_b)", "%q: f32[S, 4] = Neg(%product)");
        let graph = text::parse(&missing).unwrap();
        let modules = Modules::new(&graph, &holds, Vec::new());
        let q = modules.resolve("model.layers.0.self_attn.q_proj").unwrap();
        assert_eq!(graph.name_of(q.value), Some("product"));
        assert!(q.hint.unwrap().contains("which nothing in the graph adds"));
    }
}
