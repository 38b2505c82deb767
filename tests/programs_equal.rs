//! Programs of the library that describe decoders, against the graphs of their families, node for node.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{folder, import};
use std::path::Path;
use tallow::format::ModelFile;
use tallow::frontends::families;
use tallow::frontends::program::{self, Language, Module, Options};
use tallow::ir::graphs_equal;

const RS: &str = include_str!("../programs/decoder.rs");
const TRI: &str = include_str!("../programs/decoder.tri");
const GEMMA: &str = include_str!("../programs/gemma.rs");
const SEED: &str = include_str!("../frontends/tests/parsers/good/decoder.tri");

fn module(source: &str, language: Language, file: &ModelFile) -> Result<Module, String> {
    program::compile(source, language, "program", file.config(), Some(file.tensors()), Options::default())
        .map_err(|e| e.to_string())
}

/// What is wrong with a program as a description of a model.
fn fault(source: &str, language: Language, file: &ModelFile) -> Option<String> {
    let family = families::build(file.config(), file.tensors()).unwrap();
    let module = match module(source, language, file) {
        Ok(module) => module,
        Err(e) => return Some(e),
    };
    let own = module.main().unwrap();
    if module.graphs.len() != 1 || module.driver.is_none() {
        return Some(format!("{} graphs, driver {:?}", module.graphs.len(), module.driver));
    }
    (!graphs_equal(own, &family.graph)).then(|| format!("{}\n--- the family's:\n{}", text(own), text(&family.graph)))
}

fn text(graph: &tallow::ir::Graph) -> String {
    tallow::ir::text::print(graph)
}

fn opened(name: &str, into: &Path) -> ModelFile {
    ModelFile::open(&import(&folder(&format!("tests/goldens/{name}")), into, "u32")).unwrap()
}

/// Every golden of some types, each against some programs.
fn check(kinds: &[&str], programs: &[(&str, &str, Language)], least: usize) {
    let mut names: Vec<String> = std::fs::read_dir(folder("tests/goldens"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| kinds.iter().any(|k| n.starts_with(&format!("{k}-"))))
        .collect();
    names.sort();
    assert!(names.len() >= least, "only {names:?}");
    let mut faults = Vec::new();
    for name in names {
        let temporary = tempfile::tempdir().unwrap();
        let file = opened(&name, temporary.path());
        for (which, source, language) in programs {
            faults.extend(fault(source, *language, &file).map(|f| format!("{name}, {which}: {f}")));
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n\n"));
}

#[test]
fn the_decoder_programs_are_their_families() {
    let programs =
        [("decoder.rs", RS, Language::Rs), ("decoder.tri", TRI, Language::Tri), ("seed", SEED, Language::Tri)];
    check(&["qwen2", "qwen3", "llama", "mistral", "smollm3"], &programs, 20);
}

#[test]
fn the_roles_of_trident_carry_the_multipliers_of_a_family() {
    check(&["granite", "gemma", "gemma3"], &[("decoder.tri", TRI, Language::Tri)], 8);
}

const TEMPLATE: &str = "module model.pipeline
use vm.io.io
use std.nn.tensor
use std.nn.transformer_llama

pub fn forward(input: Field, output: Field, seq: Field, cfg: Config) {
    let tok = io.bpe_encode(input, seq, cfg.architecture.vocab_size)
    let logits = transformer_llama.forward(tok, seq, cfg)
    let next = tensor.sample_greedy(logits, cfg.architecture.vocab_size)
    io.bpe_decode(next, output)
}
";

#[test]
fn the_template_is_every_family() {
    let all = ["qwen2", "qwen3", "llama", "mistral", "smollm3", "granite", "gemma", "gemma3", "phi3"];
    check(&all, &[("template", TEMPLATE, Language::Tri)], 35);
}

#[test]
fn other_names_of_roles_mean_the_same() {
    let other = SEED
        .replace("tensor.rmsnorm", "tensor.rms_norm")
        .replace("tensor.matvec", "tensor.matmul")
        .replace("tensor.flash_attention", "tensor.attention")
        .replace("tensor.linear", "tensor.lm_head");
    // The feed-forward by the names of its weights.
    let swiglu = "tensor.swiglu(h, l, a.intermediate_size, a.hidden_size)";
    assert!(other.contains(swiglu), "{other}");
    let named = other.replace(
        &format!("        h = {swiglu}\n"),
        "        let gate = tensor.linear_named(name(i, \"gate_proj\"), h, a.intermediate_size)
        let up = tensor.linear_named(name(i, \"up_proj\"), h)
        let down = tensor.linear_named(name(i, \"down_proj\"), tensor.mul(tensor.silu(gate), up), a.hidden_size)
        h = tensor.residual_add(h, down, a.hidden_size)\n",
    );
    assert_ne!(named, other);
    let temporary = tempfile::tempdir().unwrap();
    let file = opened("qwen3-plain", temporary.path());
    assert_eq!(fault(&other, Language::Tri, &file), None);
    // Two layers, whose names are written out: this language puts no texts together.
    let mut function = String::from("\npub fn name(i: Field, part: Field) {\n");
    for i in 0..2 {
        for part in ["gate_proj", "up_proj", "down_proj"] {
            function +=
                &format!("    if i == {i} && part == \"{part}\" {{ return \"model.layers.{i}.mlp.{part}\" }}\n");
        }
    }
    assert_eq!(fault(&format!("{named}{function}    return \"\"\n}}\n"), Language::Tri, &file), None);
}

#[test]
fn the_gemma_program_is_both_of_its_families() {
    check(&["gemma", "gemma3"], &[("gemma.rs", GEMMA, Language::Rs)], 6);
}

#[test]
fn the_storyteller_is_the_decoder_program() {
    let file = ModelFile::open(&folder("models/storyteller.model")).unwrap();
    for (source, language) in [(RS, Language::Rs), (TRI, Language::Tri)] {
        assert_eq!(fault(source, language, &file), None);
    }
}

/// Sizes of an invented qwen3.
#[derive(Clone, Copy)]
struct Sizes {
    hidden: u64,
    layers: u64,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
    wide: u64,
    vocab: u64,
}

impl Sizes {
    fn config(&self) -> tallow::format::Config {
        let Sizes { hidden, layers, heads, kv_heads, head_dim, wide, vocab } = self;
        let text = format!(
            "model_type = \"qwen3\"\n[architecture]\nhidden_size = {hidden}\nnum_hidden_layers = {layers}\n\
             num_attention_heads = {heads}\nnum_key_value_heads = {kv_heads}\nhead_dim = {head_dim}\n\
             intermediate_size = {wide}\nvocab_size = {vocab}\nrms_norm_eps = 1000000\nrope_theta = 1000000\n\
             max_position_embeddings = 64\ntie_word_embeddings = false\n\
             [sampling]\ntemperature = 700\ntop_p = 900\nscale = 1000\n"
        );
        tallow::format::Config::parse(&text).unwrap()
    }

    fn tensors(&self) -> indexmap::IndexMap<String, Vec<u64>> {
        let Sizes { hidden, layers, heads, kv_heads, head_dim, wide, vocab } = *self;
        let mut all = vec![("model.embed_tokens".to_owned(), vec![vocab, hidden])];
        for i in 0..layers {
            for (part, shape) in [
                ("input_layernorm", vec![hidden]),
                ("self_attn.q_proj", vec![heads * head_dim, hidden]),
                ("self_attn.k_proj", vec![kv_heads * head_dim, hidden]),
                ("self_attn.v_proj", vec![kv_heads * head_dim, hidden]),
                ("self_attn.q_norm", vec![head_dim]),
                ("self_attn.k_norm", vec![head_dim]),
                ("self_attn.o_proj", vec![hidden, heads * head_dim]),
                ("post_attention_layernorm", vec![hidden]),
                ("mlp.gate_proj", vec![wide, hidden]),
                ("mlp.up_proj", vec![wide, hidden]),
                ("mlp.down_proj", vec![hidden, wide]),
            ] {
                all.push((format!("model.layers.{i}.{part}"), shape));
            }
        }
        all.push(("model.norm".to_owned(), vec![hidden]));
        all.push(("lm_head".to_owned(), vec![vocab, hidden]));
        all.into_iter().map(|(name, shape)| (format!("{name}.weight"), shape)).collect()
    }

    fn compile(&self, source: &str, language: Language) -> Module {
        let (config, tensors) = (self.config(), self.tensors());
        program::compile(source, language, "program", &config, Some(&tensors), Options::default())
            .unwrap_or_else(|e| panic!("{e}"))
    }
}

#[test]
fn another_config_is_another_model() {
    let large = Sizes { hidden: 24, layers: 5, heads: 6, kv_heads: 2, head_dim: 8, wide: 40, vocab: 70 };
    let small = Sizes { hidden: 16, layers: 2, heads: 2, kv_heads: 1, head_dim: 4, wide: 20, vocab: 30 };
    for (source, language) in [(RS, Language::Rs), (TRI, Language::Tri), (SEED, Language::Tri)] {
        let sizes = [large, small].map(|sizes| {
            let module = sizes.compile(source, language);
            let family = families::build(&sizes.config(), &sizes.tensors()).unwrap();
            assert!(graphs_equal(module.main().unwrap(), &family.graph), "{}", text(module.main().unwrap()));
            let sampling = module.driver.as_ref().unwrap().sampling.clone();
            assert_eq!((sampling.temperature, sampling.p), (0.7, 0.9));
            module.main().unwrap().len()
        });
        // Beside the layers there are ids, position, embeddings, the last norm and the head.
        assert_eq!((sizes[0] - sizes[1]) % 3, 0);
        assert!(sizes[0] > 2 * sizes[1] - 12, "{sizes:?}");
    }
    // The last layer alone is another: it must be in the tensors.
    let more = Sizes { layers: 3, ..small };
    let error =
        program::compile(RS, Language::Rs, "program", &more.config(), Some(&small.tensors()), Options::default());
    let message = error.unwrap_err().to_string();
    assert!(message.contains("model.layers.2.input_layernorm.weight"), "{message}");
    assert!(!message.contains("model.layers.1."), "{message}");
}

#[test]
fn norms_of_heads_that_a_program_writes_itself_are_not_applied_twice() {
    let small = Sizes { hidden: 16, layers: 2, heads: 2, kv_heads: 1, head_dim: 4, wide: 20, vocab: 30 };
    let norms = |source: &str| {
        let module = small.compile(source, Language::Rs);
        let graph = module.main().unwrap();
        let norm = |id: &tallow::ir::NodeId| {
            matches!(graph.node(*id).kind, tallow::ir::NodeKind::Op(tallow::ir::Op::RmsNorm { .. }))
        };
        graph.nodes().filter(norm).count()
    };
    let call = "Tensor::flash_attention(&q, &k, &v, heads, kv_heads, size)";
    let own = "let normed = |x: &Tensor, part: &str| {
        let gain = w.get(format!(\"{layer}.self_attn.{part}_norm\"));
        x.reshape([-1, x.shape()[1] / size, size]).rms_norm(&gain, a.rms_norm_eps).reshape([-1, x.shape()[1]])
    };
    let (q, k) = (normed(&q, \"q\"), normed(&k, \"k\"));
    let mixed = ";
    let literal = RS.replace(&format!("let mixed = {call}"), &format!("{own}{call}"));
    assert_ne!(literal, RS);
    assert_eq!(norms(RS), 9);
    assert_eq!(norms(&literal), 9);
    // A part of a wider product is found, too.
    let part = RS.replace(call, "Tensor::flash_attention(&q.reshape([-1, heads * size]).slice(1, 0, heads * size), &k, &v, heads, kv_heads, size)");
    assert_ne!(part, RS);
    assert_eq!(norms(&part), 9);
}

#[test]
fn the_largest_logit_is_a_sampled_token() {
    use tallow::frontends::program::module::Start;
    use tallow::ir::ops::SampleMethod;
    let small = Sizes { hidden: 16, layers: 2, heads: 2, kv_heads: 1, head_dim: 4, wide: 20, vocab: 30 };
    let step = RS.replace("sample_top_p(s.top_p, s.temperature, s.scale)", "argmax()");
    let ended = "    let next = logits.last().sample_top_p(s.top_p, s.temperature, s.scale);\n    tok.decode(next)\n";
    let begun = "    let ids = tok.encode(text);\n";
    for (before, start, after) in [
        ("    let mut ids = tok.encode(text);\n    loop {\n", Start::Prompt, ""),
        ("    let mut ids = vec![3, 1];\n    while ids.len() < 9 {\n", Start::Ids(vec![3, 1]), ""),
        ("    let mut ids = vec![3, 1];\n    for i in 0..7 {\n", Start::Ids(vec![3, 1]), "ids.len();"),
    ] {
        let stop = "    let next = logits.last().argmax() as u32;\n    if next == 2 {\n        break;\n    }\n";
        let push = format!("{stop}    ids.push(next);\n{after}    }}\n    tok.decode(&ids)\n");
        let source = RS.replace(begun, before).replace(ended, &push);
        let module = small.compile(&source, Language::Rs);
        let driver = module.driver.as_ref().unwrap();
        assert_eq!((driver.sampling.method, &driver.stop, &driver.start), (SampleMethod::Greedy, &vec![2], &start));
        assert_eq!(driver.limit, (start != Start::Prompt).then_some(7));
        assert!(graphs_equal(module.main().unwrap(), small.compile(RS, Language::Rs).main().unwrap()));
    }
    let driver = small.compile(&step, Language::Rs).driver.unwrap();
    assert_eq!((driver.sampling.method, driver.start), (SampleMethod::Greedy, Start::Prompt));
    // A list of other things is no list of tokens.
    let other = RS.replace(begun, &format!("{begun}    let mut n = vec![1];\n    for i in 0..3 {{\n        n.push(i);\n    }}\n    assert!(n.len() == 4);\n"));
    assert_ne!(other, RS);
    small.compile(&other, Language::Rs);
}
