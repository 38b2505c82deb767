//! Greedy text is the same, token for token and bit for bit, whatever the threads, the prompt's chunks, the cache, the
//! packed file and the instruction set.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{child, folder, values};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tallow::executor::sampling::{AllowedIds, Sampler, SamplingParams};
use tallow::executor::stream::TextStream;
use tallow::executor::{Program, Session};
use tallow::ir::binary::RawGraph;
use tallow::ir::verify::verify;
use tallow::ir::{Graph, Op};
use tallow::{CacheType, GenerateOptions, Model, ModelOptions, PackedCache, Rows};

/// One thing that may vary, each at its base value.
#[derive(Clone, Copy)]
struct Setting<'a> {
    threads: usize,
    chunk: usize,
    cache: CacheType,
    packed: Option<&'a Path>,
}

const BASE: Setting = Setting { threads: 2, chunk: 512, cache: CacheType::Auto, packed: None };

impl Setting<'_> {
    fn open(self, path: &Path) -> Model {
        let mut options = ModelOptions::default();
        options.program.threads = self.threads;
        options.program.chunk = self.chunk;
        options.program.cache = self.cache;
        options.program.packed_cache = if self.packed.is_some() { PackedCache::On } else { PackedCache::Off };
        let model = Model::open_with(path, &options).unwrap();
        if let Some(folder) = self.packed {
            model.set_packed_folder(folder);
        }
        model
    }
}

/// A greedy text and the logits that chose its tokens; the first are the last of the prompt.
struct Text {
    ids: Vec<u32>,
    text: String,
    logits: Vec<Vec<f32>>,
}

impl Text {
    /// Asserts the same text, and the same bits of all logits.
    fn assert_is(&self, wanted: &Text, what: &str) {
        assert_eq!(self.ids, wanted.ids, "{what}");
        assert_eq!(self.text, wanted.text, "{what}");
        for (at, (found, wanted)) in self.logits.iter().zip(&wanted.logits).enumerate() {
            let same = found.len() == wanted.len() && found.iter().zip(wanted).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{what}: the logits of token {at} differ by {:e}", common::error(found, wanted));
        }
    }
}

/// How a token that was chosen becomes part of the text.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    /// It follows what the cache holds.
    Cached,
    /// The whole text runs anew, in a new session.
    Anew,
}

fn sampling(model: &Model) -> SamplingParams {
    SamplingParams { temperature: 0.0, ..model.sampling(0).unwrap() }
}

/// `count` tokens after a prompt, end tokens or not.
fn greedy(model: &Model, program: &Arc<Program>, prompt: &[u32], count: usize, next: Next) -> Text {
    let tokenizer = model.tokenizer().unwrap();
    let mut sampler = Sampler::new(sampling(model)).unwrap().with_allowed(AllowedIds::of(&tokenizer));
    let mut stream = TextStream::continuing(true);
    let mut session = Session::new(program.clone());
    let mut whole = prompt.to_vec();
    let mut made = Text { ids: Vec::new(), text: String::new(), logits: Vec::new() };
    while made.ids.len() < count {
        let row = match made.ids.last() {
            Some(&last) if next == Next::Cached => session.decode(last).unwrap().to_vec(),
            _ => {
                session.reset();
                values(&session.forward(&whole, Rows::Last).unwrap())
            }
        };
        let id = sampler.sample(&row, &whole).unwrap();
        made.text += &stream.push(&tokenizer, id);
        made.ids.push(id);
        made.logits.push(row);
        whole.push(id);
    }
    made.text += &stream.finish();
    made
}

fn cached(model: &Model, prompt: &[u32], count: usize) -> Text {
    greedy(model, model.program(), prompt, count, Next::Cached)
}

/// A model's graph without its caches: each call stands alone.
fn without_cache(model: &Model) -> Graph {
    let graph = model.graph().graph();
    let mut raw = RawGraph::from_graph(graph).unwrap();
    let mut renamed = std::collections::HashMap::new();
    raw.nodes.retain(|node| {
        let is_cache = matches!(node.op, Op::KvCache);
        if is_cache {
            renamed.extend(node.outputs.iter().cloned().zip(node.inputs.iter().cloned()));
        }
        !is_cache
    });
    assert!(!renamed.is_empty());
    for input in raw.nodes.iter_mut().flat_map(|node| &mut node.inputs) {
        if let Some(name) = renamed.get(input) {
            input.clone_from(name);
        }
    }
    raw.to_graph(&|name| Some(graph.ty(graph.weight_named(name)?).clone()), false).unwrap()
}

/// All of it for one model.
fn check(name: &str, path: &Path, prompt: &[u32], count: usize) {
    let start = Instant::now();
    let said = |what: &str| println!("{name}: {what} at {:.1} s", start.elapsed().as_secs_f64());
    let model = BASE.open(path);
    let base = cached(&model, prompt, count);
    println!("{name}: {} tokens, then {count}: {:?}", prompt.len(), base.text);
    assert!(!base.text.trim().is_empty());
    said("base");

    // Generation is what this file's own loop is.
    let options = GenerateOptions {
        sampling: Some(sampling(&model)),
        max_tokens: Some(count),
        ignore_end: true,
        ..GenerateOptions::default()
    };
    let mut session = model.session().unwrap();
    let mut generation = session.continue_ids(prompt, &options).unwrap();
    let text: String = generation.by_ref().map(Result::unwrap).collect();
    assert_eq!((generation.ids(), text), (base.ids.as_slice(), base.text.clone()));
    said("generation");

    // The packed file, as it is made and as it is mapped.
    let temporary = tempfile::tempdir().unwrap();
    let packed = Setting { packed: Some(temporary.path()), ..BASE };
    let model = packed.open(path);
    cached(&model, prompt, count).assert_is(&base, "cold");
    model.program().pack().unwrap();
    model.program().packed().finish();
    let cold = model.program().packed().report();
    assert!(cold.matrices > 0 && cold.packed == cold.matrices && cold.mapped == 0, "{cold:?}");
    assert!(cold.file.as_ref().unwrap().exists(), "{cold:?}");
    drop(model);
    let model = packed.open(path);
    cached(&model, prompt, count).assert_is(&base, "warm");
    let warm = model.program().packed().report();
    assert_eq!((warm.packed, warm.mapped, &warm.file), (0, warm.matrices, &cold.file), "{warm:?}");
    drop(model);
    said("packed file");

    // Instruction sets, each in a process of its own, on the one mapped file. Portable code is slow on a large model,
    // which gets a part of the prompt.
    let large = path.metadata().unwrap().len() > 1 << 26;
    let (part, count_of_part) = if large { (&prompt[..20], 6) } else { (prompt, count) };
    let wanted = line(&cached(&packed.open(path), part, count_of_part));
    let ids: Vec<String> = part.iter().map(u32::to_string).collect();
    let given =
        [path.to_str().unwrap(), temporary.path().to_str().unwrap(), &count_of_part.to_string(), &ids.join(",")];
    for isa in child::sets() {
        assert_eq!(child::ask(isa, &given), wanted, "{}", isa.name());
        said(isa.name());
    }

    // Crossed on the small model; on large ones each number of threads and each length of chunks.
    let all = prompt.len();
    let crossed = [1, 2].into_iter().flat_map(|threads| [1, 7, 64, all].map(|chunk| (threads, chunk)));
    let pairs: Vec<_> = if large { vec![(1, 1), (1, 64), (2, 7), (2, all)] } else { crossed.collect() };
    for (threads, chunk) in pairs {
        let what = format!("{threads} threads, chunks of {chunk}");
        cached(&Setting { threads, chunk, ..packed }.open(path), prompt, count).assert_is(&base, &what);
        said(&what);
    }

    // An exact cache against none: a graph without caches runs the whole text for each token.
    let exact = Setting { cache: CacheType::F32, ..packed }.open(path);
    let count = if large { 8 } else { count };
    let with = cached(&exact, prompt, count);
    assert!(with.logits != base.logits[..count], "block-encoded models have an f16 cache by default");
    let graph = verify(without_cache(&exact)).unwrap();
    let program = Arc::new(Program::new(&graph, exact.weights(), *exact.program().options()).unwrap());
    program.packed().set_folder(temporary.path().to_owned());
    assert!(Session::new(program.clone()).is_stateless());
    greedy(&exact, &program, prompt, count, Next::Anew).assert_is(&with, "a graph without caches");
    said("a graph without caches");

    // A cache that each token finds empty; one that rounds rounds the same rows.
    if !large {
        greedy(&exact, exact.program(), prompt, count, Next::Anew).assert_is(&with, "f32, anew");
        let half = Setting { cache: CacheType::F16, ..packed }.open(path);
        cached(&half, prompt, count).assert_is(&base, "f16");
        greedy(&half, half.program(), prompt, count, Next::Anew).assert_is(&base, "f16, anew");
        said("anew");
    }
}

/// What a process says of a text.
fn line(text: &Text) -> String {
    format!("{:?} {:?} {:016x}", text.ids, text.text, child::digest(text.logits.iter().flatten()))
}

/// What another process does for [`check`].
#[test]
fn child() {
    child::answer(|[path, packed, count, ids]| {
        let prompt: Vec<u32> = ids.split(',').map(|id| id.parse().unwrap()).collect();
        let model = Setting { packed: Some(Path::new(packed)), ..BASE }.open(Path::new(path));
        let text = cached(&model, &prompt, count.parse().unwrap());
        let report = model.program().packed().report();
        assert_eq!((report.packed, report.mapped), (0, report.matrices), "{report:?}");
        line(&text)
    });
}

#[test]
fn the_storyteller_tells_the_same_text() {
    let path = folder("models/storyteller.model");
    let text = "Once upon a time, a gentle fox named Poppy lived in a garden behind an old mill. Each morning she \
                walked to the pond, and each evening she told the owl what she had seen. One day the rain did not \
                stop, and the pond grew until it stood before the door of the mill. Poppy called her friends, the \
                otter and the bear, and they built a small boat of bark.";
    let mut prompt = Model::storyteller().unwrap().session().unwrap().encode(text).unwrap();
    assert!(prompt.len() >= 90, "{}", prompt.len());
    prompt.truncate(100);
    check("storyteller", &path, &prompt, 40);
}

/// Real models run one after another, so that they have the processor and the memory to themselves.
static ONE: Mutex<()> = Mutex::new(());

fn real(file: &str) {
    let _one = ONE.lock();
    let Some((path, _folder)) = common::real_model(file) else { return };
    let text = std::fs::read_to_string(folder("tests/references/text.txt")).unwrap();
    let mut prompt = BASE.open(&path).session().unwrap().encode(&text).unwrap();
    prompt.truncate(100);
    check(file, &path, &prompt, 24);
}

#[test]
fn gemma_3_270m_writes_the_same_text() {
    real("gemma3-270m-q4_k_m.gguf");
}

#[test]
fn qwen_2_5_coder_writes_the_same_text() {
    real("qwen2.5-coder-0.5b.gguf");
}
