//! What builtins of shapes, new tensors, weights and pictures make of their arguments, and what they say of wrong ones.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

use indexmap::IndexMap;
use tallow_format::Config;
use tallow_frontends::program::{Language, Module, Options, compile};

/// The tensors that snippets may name.
const TENSORS: &[(&str, &[u64])] = &[
    ("words.weight", &[50, 8]),
    ("places.weight", &[16, 8]),
    ("full.weight", &[12, 8]),
    ("full.bias", &[12]),
    ("norm.weight", &[8]),
    ("norm.bias", &[8]),
    ("bare.weight", &[8]),
    ("stem.conv.weight", &[6, 3, 3, 3]),
    ("stem.bn.weight", &[6]),
    ("stem.bn.bias", &[6]),
    ("stem.bn.running_mean", &[6]),
    ("stem.bn.running_var", &[6]),
    ("line.weight", &[8, 4, 5]),
    ("cube.weight", &[4, 2, 3, 1, 1]),
    ("up.weight", &[4, 3, 4]),
    ("up.bias", &[6]),
    ("grow.weight", &[3, 5, 2, 2]),
    ("class", &[1, 1, 8]),
];

fn try_compile(params: &str, body: &str) -> Result<Module, String> {
    let source = format!("pub fn forward({params}, config: &Config, w: &Weights) -> Tensor {{\n    {body}\n}}\n");
    let config =
        Config::parse("model_type = \"test\"\n[architecture]\nvocab_size = 50\nbatch_norm_eps = 1e-3\n").unwrap();
    let index: IndexMap<String, Vec<u64>> = TENSORS.iter().map(|(n, s)| ((*n).to_owned(), s.to_vec())).collect();
    compile(&source, Language::Rs, "test.rs", &config, Some(&index), Options::default()).map_err(|e| e.to_string())
}

/// The type of what `body` gives for an input `x: &Tensor`, and the operations on the way.
fn of(body: &str) -> (String, Vec<&'static str>) {
    with("x: &Tensor", body)
}

fn with(params: &str, body: &str) -> (String, Vec<&'static str>) {
    let module = try_compile(params, body).unwrap_or_else(|e| panic!("{body}\n{e}"));
    let graph = module.main().unwrap();
    let (_, value) = graph.outputs().next().unwrap();
    let ops = graph
        .topological()
        .unwrap()
        .into_iter()
        .filter_map(|id| match &graph.node(id).kind {
            tallow_ir::NodeKind::Op(op) => Some(op.name()),
            _ => None,
        })
        .collect();
    tallow_ir::verify(graph.clone()).unwrap_or_else(|e| panic!("{body}\n{e}"));
    (graph.ty(value).to_string(), ops)
}

fn ty(body: &str) -> String {
    of(body).0
}

/// The first line of the error, and what stands under the caret and as help.
fn refused(body: &str) -> String {
    match try_compile("x: &Tensor", body) {
        Ok(_) => panic!("compiled: {body}"),
        Err(text) => text,
    }
}

#[test]
fn the_first_use_of_an_input_tells_its_shape() {
    assert_eq!(ty("x.reshape([-1, 3, 8, -1])"), "f32[x_0, 3, 8, x_3]");
    assert_eq!(ty("w.linear(x, \"full\", 12)"), "f32[S, 12]");
    assert_eq!(ty("x.matmul(&w.get(\"full\"))"), "f32[S, 8]");
    assert_eq!(ty("x.matmul_t(&w.get(\"full\"))"), "f32[S, 12]");
    assert_eq!(ty("w.conv2d(x, \"stem.conv\", 6, 3, 1)"), "f32[x_0, 6, x_2, x_3]");
    assert_eq!(ty("w.conv1d(x, \"line\", 8)"), "f32[x_0, 8, x_2]");
    assert_eq!(ty("w.conv3d(x, \"cube\", 4, [3, 1, 1], 1, [1, 0, 0])"), "f32[x_0, 4, x_2, x_3, x_4]");
    assert!(refused("x.add(1.0)").contains("the shape of the input `x` is not known here"));
}

#[test]
fn reshaping() {
    let at = |body: &str| ty(&format!("let x = x.reshape([-1, 6, 8]); {body}"));
    assert_eq!(at("x.reshape([-1, 48])"), "f32[x_0, 48]");
    assert_eq!(at("x.reshape([x.dim(0) * 6, 2, 4])"), "f32[6*x_0, 2, 4]");
    assert_eq!(at("let [n, a, b] = x.shape(); x.reshape([n, b, a])"), "f32[x_0, 8, 6]");
    assert_eq!(at("x.permute([2, 0, 1])"), "f32[8, x_0, 6]");
    assert_eq!(at("x.transpose()"), "f32[x_0, 8, 6]");
    assert_eq!(at("x.transpose(0, -1)"), "f32[8, 6, x_0]");
    assert_eq!(at("x.unsqueeze(-1).squeeze(3).unsqueeze(0).squeeze()"), "f32[x_0, 6, 8]");
    assert_eq!(at("x.flatten()"), "f32[48*x_0]");
    assert_eq!(at("x.flatten(1)"), "f32[x_0, 48]");
    assert_eq!(at("x.flip([0, 2]).flip(1)"), "f32[x_0, 6, 8]");
    assert_eq!(at("x.pad([1, 2, 0, 3])"), "f32[x_0, 9, 11]");
    assert_eq!(at("x.pad([-1, 2], \"constant\", 0.5)"), "f32[x_0, 6, 9]");
    assert_eq!(at("x.concat(&x, 1)"), "f32[x_0, 12, 8]");
    assert_eq!(at("x.concat(&[&x, &x], -1)"), "f32[x_0, 6, 24]");
    assert_eq!(at("Tensor::stack(&[&x, &x], 0)"), "f32[2, x_0, 6, 8]");
    assert_eq!(at("let [a, b] = x.split([2, 4], 1); b"), "f32[x_0, 4, 8]");
    assert_eq!(at("let parts = x.split(4, 1); parts[1].clone()"), "f32[x_0, 2, 8]");
    assert_eq!(at("let [a, b] = x.chunk(2, -1); a"), "f32[x_0, 6, 4]");
    assert_eq!(at("x.select(1, -1)"), "f32[x_0, 8]");
    assert_eq!(at("x.slice(1, 2, -1)"), "f32[x_0, 3, 8]");
    assert_eq!(at("x.slice(1, -2)"), "f32[x_0, 2, 8]");
    assert_eq!(at("x.slice(1, 2, 100)"), "f32[x_0, 4, 8]");
    assert_eq!(at("x.slice(0, 1, x.dim(0))"), "f32[x_0 - 1, 6, 8]");
    assert_eq!(at("x.slice(0, 0, x.len() - 1)"), "f32[x_0 - 1, 6, 8]");
    assert_eq!(at("x.gather(1, &[0, 3])"), "f32[x_0, 2, 8]");
    assert_eq!(at("x.gather_elements(2, &Tensor::zeros(&x).cast(\"i64\"))"), "f32[x_0, 6, 8]");
    assert_eq!(at("x.cast(\"i64\")"), "i64[x_0, 6, 8]");
}

#[test]
fn sizes_that_only_running_tells() {
    let at = |body: &str| of(&format!("let x = x.reshape([-1, -1, 8]); let (n, s) = (x.dim(0), x.dim(1)); {body}"));
    // A way through several such sizes, one at a time.
    assert_eq!(at("x.reshape([n, s, 2, 4])"), ("f32[x_0, x_1, 2, 4]".into(), vec!["Unflatten"]));
    assert_eq!(at("x.reshape([n * s, 8])"), ("f32[x_0*x_1, 8]".into(), vec!["Reshape"]));
    assert_eq!(at("x.reshape([n, s * 8])"), ("f32[x_0, 8*x_1]".into(), vec!["Flatten"]));
    assert_eq!(at("x.reshape([n, s, 8])").1, Vec::<&str>::new());
    assert_eq!(at("w.get(\"class\").expand([n, 1, 8])").0, "f32[x_0, 1, 8]");
    assert_eq!(at("w.get(\"class\").expand([n, s, 8])").0, "f32[x_0, x_1, 8]");
    assert_eq!(at("Tensor::zeros([n, 4])").0, "f32[x_0, 4]");
    assert_eq!(at("Tensor::zeros(&x)").0, "f32[x_0, x_1, 8]");
    assert_eq!(at("Tensor::arange(s)").0, "i64[x_1]");
    assert_eq!(at("Tensor::arange(4).repeat([s])").0, "i64[4*x_1]");
    assert_eq!(at("Tensor::arange(4).repeat_each(s, 0)").0, "i64[4*x_1]");
    assert_eq!(at("w.get(\"places\").slice(0, 0, s)").0, "f32[x_1, 8]");
    assert_eq!(at("x.select(1, s - 1)").0, "f32[x_0, 8]");
    assert_eq!(at("Tensor::randn([n, 2])").0, "f32[x_0, 2]");
    assert_eq!(at("x.reshape([s, n, 8])").0, "f32[x_1, x_0, 8]");
    let error = refused("let x = x.reshape([-1, -1, 8]); x.reshape([x.dim(1), x.dim(0) * 2, 4])");
    assert!(error.contains("no tensor before this has the size 2*x_0"), "{error}");
    let error = refused("let x = x.reshape([-1, 8]); Tensor::zeros([x.dim(0) * 3])");
    assert!(error.contains("no tensor before this has the size 3*x_0"), "{error}");
}

#[test]
fn new_tensors() {
    let some = |body: &str| ty(&format!("let x = x.reshape([2, 3]); {body}"));
    assert_eq!(some("Tensor::full([1], 7)"), "f32[1]");
    assert_eq!(some("Tensor::ones(&x)"), "f32[2, 3]");
    assert_eq!(some("Tensor::from(&[1, 2, 3, 4], [2, 2])"), "i64[2, 2]");
    assert_eq!(some("Tensor::from(&[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])"), "f32[3, 2]");
    assert_eq!(some("Tensor::arange(2, 7)"), "i64[5]");
    assert_eq!(some("Tensor::randn(&x)"), "f32[2, 3]");
    assert_eq!(some("Tensor::randn_video([1, 4, 2, 3, 3])"), "f32[1, 4, 2, 3, 3]");
    assert_eq!(some("Tensor::timestep(999, 8)"), "f32[1, 8]");
    assert_eq!(some("Tensor::timestep(&x.select(0, 0), 8)"), "f32[3, 8]");
    assert!(refused("Tensor::timestep(1, 7)").contains("expected an even number, found 7"));
    assert!(refused("Tensor::randn_video([4, 4])").contains("expected [N, C, D, H, W], found 2 dimensions"));
    assert!(refused("Tensor::from(&[[1], [2, 3]])").contains("beside each other"));
    assert!(refused("Tensor::arange(0)").contains("a row of 0 numbers"));
}

#[test]
fn weights_and_their_neighbours() {
    let ids = |body: &str| with("ids: &[u32]", body);
    assert_eq!(ids("w.embed(\"words\", ids, 8)").0, "f32[S, 8]");
    assert_eq!(ids("w.embed_positions(\"places\", ids)"), ("f32[S, 8]".into(), vec!["Iota", "Add", "TokenEmbed"]));
    let two = with("ids: &[u32], kinds: &[u32]", "w.embed(\"words\", kinds, 8).concat(&w.embed(\"words\", ids, 8), 0)");
    assert_eq!(two.0, "f32[S + kinds_len, 8]");
    assert_eq!(ids("w.row(\"words\", 3)").0, "f32[8]");
    assert_eq!(ids("w.embed(\"words\", &[49], 8)").0, "f32[1, 8]");
    let rows = |body: &str| of(&format!("let x = x.reshape([-1, 8]); {body}"));
    assert_eq!(rows("w.linear(&x, \"full\", 12)").1, ["Matmul", "Add"]);
    assert_eq!(rows("w.linear_no_bias(&x, \"full.weight\", 12)").1, ["Matmul"]);
    assert_eq!(rows("w.layernorm(&x, \"norm\", 1e-6)").1, ["LayerNorm"]);
    assert_eq!(rows("w.layernorm(&x, \"norm.weight\", \"norm.bias\")").1, ["LayerNorm"]);
    assert_eq!(rows("w.layernorm(&x, \"norm.weight\", \"norm.bias\", 1e-6)").1, ["LayerNorm"]);
    assert_eq!(rows("w.layernorm(&x, \"bare\")").1, ["Constant", "LayerNorm"]);
    assert_eq!(rows("x.layer_norm_plain(1e-5)").1, ["Constant", "Constant", "LayerNorm"]);
    assert_eq!(rows("if w.has(\"norm.bias\") && !w.has(\"absent\") { x } else { x.neg() }").1, Vec::<&str>::new());
    assert_eq!(rows("w.linear(&x, \"full\", w.shape(\"full\")[0])").0, "f32[x_0, 12]");
    assert_eq!(of("w.conv2d(x, \"stem.conv\", 6, 3, 2)").1, ["Conv2d", "BatchNorm"]);
    let line = |body: &str| of(&format!("let x = x.reshape([1, 4, -1]); {body}"));
    assert_eq!(line("w.causal_conv1d(&x, \"line\", 8)").0, "f32[1, 8, x_2]");
    assert_eq!(line("w.conv1d_patch(&x, \"line\", 8, 5)").1, ["Conv1d"]);
    assert_eq!(line("w.conv_transpose1d(&x, \"up\", 6, 2, 1)").0, "f32[1, 6, 2*x_2]");
    assert_eq!(line("x.conv1d(&w.get(\"line\"), None, 1, 2)").0, "f32[1, 8, x_2]");
    let picture = |body: &str| of(&format!("let x = x.reshape([1, 3, 8, 6]); {body}"));
    assert_eq!(picture("w.conv_transpose2d(&x, \"grow\", 5, 2, 2)").0, "f32[1, 5, 16, 12]");
    assert_eq!(picture("x.upsample(2)").0, "f32[1, 3, 16, 12]");
    assert_eq!(picture("x.upsample([1, 3])").1, ["RepeatEach"]);
    assert_eq!(picture("x.interpolate(0.5, \"area\")").0, "f32[1, 3, 4, 3]");
    assert_eq!(picture("x.patchify(2)").0, "f32[1, 12, 12]");
    assert_eq!(picture("x.flatten_patches().unflatten_patches(8, 6)").0, "f32[1, 3, 8, 6]");
    assert_eq!(picture("x.max_pool2d(3, 2, 1)").0, "f32[1, 3, 4, 3]");
    assert_eq!(picture("x.unsqueeze(2).upsample3d([4, 1, 2])").0, "f32[1, 3, 4, 8, 12]");
}

#[test]
fn wrong_arguments_are_named() {
    let cases = [
        (
            "w.conv2d(x, \"stem.conv\", 6, 5, 1)",
            "`stem.conv.weight` has the shape [6, 3, 3, 3], and this call needs [6, 3, 5, 5]",
        ),
        ("let x = x.reshape([4, 8]); w.conv1d(&x, \"line\", 8)", "expected [N, C, L], found 2 dimensions"),
        ("let x = x.reshape([4, 8]); w.conv1d(&x, \"line\", 8)", "`unsqueeze(0)` puts a dimension of 1 in front"),
        ("let x = x.reshape([1, 3, 8]); w.conv1d(&x, \"line\", 8)", "this call needs [8, 3, 5]"),
        ("w.linear(x, \"ful\", 12)", "did you mean `full.weight`?"),
        ("w.conv2d(x, \"stem.con\", 6, 3, 1)", "did you mean `stem.conv.weight`?"),
        ("let x = x.reshape([4, 6]); w.linear(&x, \"full\", 12)", "this call needs [12, 6]"),
        ("let x = x.reshape([4, 6]); w.layernorm(&x, \"norm\")", "this call needs [6]"),
        ("let x = x.reshape([4, 6]); x.select(1, 6)", "there is no element 6 along dimension 1, whose size is 6"),
        ("let x = x.reshape([4, 6]); x.slice(1, 4, 2)", "`4..2` along dimension 1 leaves nothing"),
        ("let x = x.reshape([4, 6]); x.reshape([5, -1])", "24 elements are no multiple of the 5 that [5, -1] tells"),
        ("let x = x.reshape([4, 6]); x.reshape([5, 5])", "a tensor of 24 elements as [5, 5], which has 25"),
        ("let x = x.reshape([4, 6]); x.expand([3, 6])", "Expand: shape is [3, -1]"),
        ("let x = x.reshape([4, 6]); x.transpose(0, 2)", "there is no dimension 2 in a tensor of 2"),
        ("let x = x.reshape([4, 6]); x.concat(&x.transpose(), 0)", "the operands are f32[4, 6], f32[6, 4]"),
        ("let x = x.reshape([4, 6]); x.pad([1])", "expected two for each dimension that is padded"),
        ("let x = x.reshape([4, 6]); x.pad([1, 1], \"mirror\")", "known are constant, reflect and replicate"),
        ("let x = x.reshape([4, 6]); x.cast(\"q8\")", "`q8` is no type"),
        ("let x = x.reshape([4, 6]); x.matmul(&w.get(\"norm\"))", "a matrix is needed"),
        ("let x = x.reshape([4, 6]); x.upsample(2)", "expected [N, C, H, W], found 2 dimensions"),
        ("let x = x.reshape([1, 2, 4, 6]); x.upsample([2, 2, 2])", "expected one number or 2, found 3"),
        ("w.embed(\"words\", &[50], 8)", "there is no row 50 in a table of 50"),
        ("let x = x.reshape([1, 4, 9]); x.conv1d(&w.get(\"line\"), 2)", "the bias stands here"),
        ("let x = x.reshape([4, 6]); x.ddim_step(&x, 1.5, 1.0)", "α is a product of numbers below 1, found 1.5"),
        ("let x = x.reshape([4, 6]); x.split([1, 2], 0)", "add up to 3"),
    ];
    for (body, wanted) in cases {
        let error = refused(body);
        assert!(error.contains(wanted), "{body}\n{error}");
    }
}
