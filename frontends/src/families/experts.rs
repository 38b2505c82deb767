//! Feed-forwards of experts: a router scores all of them for each token, a few are chosen, and only those are computed.
//!
//! The matrices of all experts of a layer are one tensor `[experts, rows, columns]`, as `ExpertMatmul` takes them.

use super::decoder::{Activation, gated, scaled};
use super::parts::{Built, Parts};
use super::{FamilyError, Settings};
use tallow_ir::ops::{Comparison, Reduction};
use tallow_ir::{DType, IrError, Op, Value};

/// The experts of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Experts {
    /// How a token comes to its experts.
    pub router: Router,
    /// Width between the matrices of each.
    pub width: u32,
    /// The activation.
    pub activation: Activation,
    /// Names of tensors, behind the name of the layer.
    pub names: ExpertNames,
    /// A feed-forward that every token goes through as well.
    pub shared: Option<SharedExpert>,
}

/// From scores of all experts to the chosen ones and their weights. Everything is in single precision.
#[derive(Clone, Debug, PartialEq)]
pub struct Router {
    /// How many experts there are.
    pub experts: u32,
    /// How many a token goes to.
    pub chosen: u32,
    /// From the router's product to a score of each expert.
    pub scores: Scores,
    /// Groups of experts of which only some are looked at.
    pub groups: Option<Groups>,
    /// The weights of the chosen are divided by their sum plus this.
    pub renormalise: Option<f32>,
    /// The weights are multiplied by this at last; 1 does nothing.
    pub scale: f32,
}

/// From the router's product to scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scores {
    /// Softmax over all experts.
    Softmax,
    /// Sigmoid of each; for the choice alone, this tensor `[experts]` is added.
    Sigmoid(&'static str),
}

/// Groups of experts, equal in size and one after another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Groups {
    /// How many there are.
    pub count: u32,
    /// How many stay: those of the highest scores.
    pub kept: u32,
    /// The score of a group is the sum of so many of its best.
    pub best: u32,
    /// The score that experts of other groups get.
    pub others: f32,
}

/// Names of the tensors of experts. A linear map `n` has `n.weight`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertNames {
    /// The router's linear map.
    pub router: &'static str,
    /// The activated half of the gated feed-forward and the other, `[experts, width, hidden]` each, and the last matrix,
    /// `[experts, hidden, width]`; `None` where files have the other form alone.
    pub separate: Option<[&'static str; 3]>,
    /// Both halves in one tensor `[experts, 2 · width, hidden]`, gate rows first, and the last matrix: read where the first is
    /// there.
    pub joined: [&'static str; 2],
}

impl ExpertNames {
    /// The names that most types have.
    pub const MLP: ExpertNames = ExpertNames {
        router: "mlp.gate",
        separate: Some(["mlp.experts.gate_proj.weight", "mlp.experts.up_proj.weight", "mlp.experts.down_proj.weight"]),
        joined: ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
    };
    /// The names of mixtral.
    pub const MIXTRAL: ExpertNames = ExpertNames {
        router: "block_sparse_moe.gate",
        separate: Some([
            "block_sparse_moe.experts.w1.weight",
            "block_sparse_moe.experts.w3.weight",
            "block_sparse_moe.experts.w2.weight",
        ]),
        joined: ["block_sparse_moe.experts.gate_up_proj", "block_sparse_moe.experts.down_proj"],
    };
    /// The names of gemma4, which has no other form than the joined one.
    pub const GEMMA4: ExpertNames =
        ExpertNames { router: "router.proj", separate: None, joined: ["experts.gate_up_proj", "experts.down_proj"] };
}

/// A gated feed-forward beside the experts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedExpert {
    /// Its name, with `gate_proj`, `up_proj` and `down_proj` behind.
    pub name: &'static str,
    /// Width between its matrices.
    pub width: u32,
    /// Whether they have biases.
    pub bias: bool,
    /// A linear map of one row: the result is multiplied by its sigmoid.
    pub gate: Option<&'static str>,
}

/// Where experts stand in a graph.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// What the names of the layer's tensors begin with, as in `model.layers.3.`.
    pub tensors: &'a str,
    /// The layer in the names of values, as in `layer3`.
    pub says: &'a str,
    /// Width of the residual stream.
    pub hidden: u32,
}

impl Place<'_> {
    /// The full name of a tensor of the layer.
    pub(crate) fn tensor(&self, part: &str) -> String {
        format!("{}{part}", self.tensors)
    }

    /// The name of a value of the layer.
    pub(crate) fn value(&self, what: &str) -> String {
        format!("{}.{what}", self.says)
    }
}

/// The experts of each token.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    /// Their numbers, `[S, chosen]`.
    pub index: Value,
    /// Their weights, `[S, chosen]`.
    pub weights: Value,
}

impl Router {
    /// Checks what the numbers have to do with each other; `keys` are those of experts, of the chosen ones, of groups and
    /// of those that are kept.
    ///
    /// # Errors
    /// More chosen than there are; groups that do not divide the experts.
    pub fn check(&self, settings: &Settings<'_>, keys: [&str; 4]) -> Result<(), FamilyError> {
        let [experts, chosen, groups, kept] = keys;
        let mut open = self.experts;
        if let Some(g) = self.groups {
            if !self.experts.is_multiple_of(g.count) || self.experts / g.count < g.best {
                let cause = format!("`{experts}` = {} must be that many groups of {} or more", self.experts, g.best);
                return Err(settings.bad(groups, g.count, cause, "Correct one of them"));
            }
            if g.kept > g.count {
                let cause = format!("there are {} groups", g.count);
                return Err(settings.bad(kept, g.kept, cause, "Correct it"));
            }
            open = self.experts / g.count * g.kept;
        }
        if self.chosen > open {
            let cause = format!("a token can choose among {open} experts");
            return Err(settings.bad(chosen, self.chosen, cause, format!("Correct it, or `{experts}`")));
        }
        Ok(())
    }

    /// The experts of each token, from the router's product `logits` (`[S, experts]`).
    ///
    /// # Errors
    /// Operations that do not fit together.
    pub fn choose(&self, parts: &mut Parts<'_>, at: Place<'_>, logits: Value) -> Result<Chosen, IrError> {
        let (scores, choice) = match self.scores {
            Scores::Softmax => {
                let scores = parts.op(Op::Softmax { dim: -1 }, &[logits], at.value("expert_scores"))?;
                (scores, scores)
            }
            Scores::Sigmoid(bias) => {
                let scores = parts.op(Op::Sigmoid, &[logits], at.value("expert_scores"))?;
                let bias = parts.weight(&at.tensor(bias), &[self.experts])?;
                (scores, parts.op(Op::Add, &[scores, bias], at.value("expert_choice"))?)
            }
        };
        let open = match self.groups {
            None => choice,
            Some(groups) => self.of_best_groups(parts, groups, choice)?,
        };
        let best = parts.graph.op_many(Op::TopK { axis: -1, k: self.chosen }, &[open])?;
        let index = best[1];
        parts.graph.name(index, at.value("experts"));
        let mut weights = match scores == choice {
            true => best[0],
            false => parts.graph.op(Op::GatherElements { axis: 1 }, &[scores, index])?,
        };
        if let Some(eps) = self.renormalise {
            let mut sum = parts.graph.op(Op::Reduce { how: Reduction::Sum, axes: vec![1], keep: true }, &[weights])?;
            if eps != 0.0 {
                sum = parts.graph.op(Op::AddScalar { value: eps.into() }, &[sum])?;
            }
            weights = parts.graph.op(Op::Div, &[weights, sum])?;
        }
        let weights = scaled(&mut parts.graph, weights, self.scale)?;
        parts.graph.name(weights, at.value("expert_weights"));
        Ok(Chosen { index, weights })
    }

    /// The scores `choice` (`[S, experts]`), with those of all but the best groups replaced.
    fn of_best_groups(&self, parts: &mut Parts<'_>, groups: Groups, choice: Value) -> Built {
        let Groups { count, kept, best, others } = groups;
        let graph = &mut parts.graph;
        let shape = vec![-1, count.into(), (self.experts / count).into()];
        let grouped = graph.op(Op::Reshape { shape }, &[choice])?;
        let top = graph.op_many(Op::TopK { axis: -1, k: best }, &[grouped])?[0];
        let of_group = graph.op(Op::Reduce { how: Reduction::Sum, axes: vec![2], keep: false }, &[top])?;
        let index = graph.op_many(Op::TopK { axis: -1, k: kept }, &[of_group])?[1];
        // Whether each group is among the kept ones: [S, kept, 1] against [groups].
        let index = graph.op(Op::Unsqueeze { axes: vec![2] }, &[index])?;
        let values = (0..count).map(|n| (n as f32).into()).collect();
        let numbers = graph.op(Op::Constant { dtype: DType::I64, shape: vec![count.into()], values }, &[])?;
        let same = graph.op(Op::Compare { how: Comparison::Equal }, &[index, numbers])?;
        let same = graph.op(Op::Cast { dtype: DType::F32 }, &[same])?;
        let stays = graph.op(Op::Reduce { how: Reduction::Max, axes: vec![1], keep: false }, &[same])?;
        let stays = graph.op(Op::Unsqueeze { axes: vec![2] }, &[stays])?;
        let stays = graph.op(Op::Cast { dtype: DType::Bool }, &[stays])?;
        let others = graph.op(Op::Constant { dtype: DType::F32, shape: vec![1], values: vec![others.into()] }, &[])?;
        let open = graph.op(Op::Select, &[stays, grouped, others])?;
        graph.op(Op::Reshape { shape: vec![-1, self.experts.into()] }, &[open])
    }
}

impl Experts {
    /// The feed-forward of `x` (`[S, hidden]`): router, chosen experts, and the shared one where there is one.
    ///
    /// # Errors
    /// Operations that do not fit together.
    pub fn build(&self, parts: &mut Parts<'_>, at: Place<'_>, x: Value) -> Built {
        let router = at.tensor(self.names.router);
        let logits = parts.linear(x, &router, [self.router.experts, at.hidden], false, at.value("router"))?;
        let chosen = self.router.choose(parts, at, logits)?;
        let routed = self.apply(parts, at, x, chosen)?;
        let Some(shared) = &self.shared else { return Ok(routed) };
        let shared = self.shared(parts, at, x, shared)?;
        parts.graph.op(Op::Add, &[routed, shared])
    }

    /// The weighted sum of what the chosen experts make of `x` (`[S, hidden]`).
    ///
    /// # Errors
    /// Operations that do not fit together.
    pub fn apply(&self, parts: &mut Parts<'_>, at: Place<'_>, x: Value, chosen: Chosen) -> Built {
        let (names, experts, width, hidden) = (&self.names, self.router.experts, self.width, at.hidden);
        let separate = names.separate.filter(|_| !parts.has(&at.tensor(names.joined[0])));
        let [gate, up] = match separate {
            None => {
                let both = parts.weight(&at.tensor(names.joined[0]), &[experts, 2 * width, hidden])?;
                let both = parts.op(Op::ExpertMatmul, &[x, both, chosen.index], at.value("expert_gate_up"))?;
                let halves = parts.graph.op_many(Op::Split { axis: 2, sizes: vec![width, width] }, &[both])?;
                [halves[0], halves[1]]
            }
            Some([gate, up, _]) => {
                let gate = parts.weight(&at.tensor(gate), &[experts, width, hidden])?;
                let up = parts.weight(&at.tensor(up), &[experts, width, hidden])?;
                [
                    parts.op(Op::ExpertMatmul, &[x, gate, chosen.index], at.value("expert_gate"))?,
                    parts.op(Op::ExpertMatmul, &[x, up, chosen.index], at.value("expert_up"))?,
                ]
            }
        };
        let y = gated(&mut parts.graph, gate, up, self.activation)?;
        let down = separate.map_or(names.joined[1], |[_, _, down]| down);
        let down = parts.weight(&at.tensor(down), &[experts, hidden, width])?;
        let y = parts.op(Op::ExpertMatmul, &[y, down, chosen.index], at.value("expert_down"))?;
        let weights = parts.graph.op(Op::Unsqueeze { axes: vec![2] }, &[chosen.weights])?;
        let y = parts.graph.op(Op::Mul, &[y, weights])?;
        let sum = Op::Reduce { how: Reduction::Sum, axes: vec![1], keep: false };
        parts.op(sum, &[y], at.value("expert_out"))
    }

    fn shared(&self, parts: &mut Parts<'_>, at: Place<'_>, x: Value, shared: &SharedExpert) -> Built {
        let part = |what: &str| at.tensor(&format!("{}.{what}", shared.name));
        let (rows, hidden) = ([shared.width, at.hidden], at.hidden);
        let gate = parts.linear(x, &part("gate_proj"), rows, shared.bias, at.value("shared_gate"))?;
        let up = parts.linear(x, &part("up_proj"), rows, shared.bias, at.value("shared_up"))?;
        let y = gated(&mut parts.graph, gate, up, self.activation)?;
        let y = parts.linear(y, &part("down_proj"), [hidden, shared.width], shared.bias, at.value("shared_out"))?;
        let Some(gate) = shared.gate else { return Ok(y) };
        let share = parts.linear(x, &at.tensor(gate), [1, hidden], false, at.value("shared_router"))?;
        let share = parts.graph.op(Op::Sigmoid, &[share])?;
        parts.graph.op(Op::Mul, &[y, share])
    }
}
