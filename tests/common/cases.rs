//! Models of the program library: each folder of `tests/programs` is one, with a config, weights, inputs and what the
//! reference gives for them.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use super::{folder, values};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tallow::compiler::Stage;
use tallow::executor::{Program, ProgramOptions, Session, WeightSource, WeightView, load_safetensors};
use tallow::format::{Config, Encoding};
use tallow::frontends::program::build::InputKind;
use tallow::frontends::program::{Language, Module, Options, compile};
use tallow::ir::Graph;
use tallow::ir::verify::verify;
use tallow::program::ProgramHost;
use tallow::{Engine, Rows, Tensor};

/// Files that a case may have.
const FILES: [&str; 5] = ["case.safetensors", "config.toml", "model.safetensors", "strings.json", "vocab.toml"];
/// One folder.
pub struct Case {
    pub name: String,
    pub program: String,
    pub source: String,
    pub config: Config,
    pub weights: Arc<Weights>,
    pub inputs: BTreeMap<String, Tensor>,
    pub wanted: BTreeMap<String, Tensor>,
}

/// The tensors of a model, encoded.
pub struct Weights(pub Vec<(String, Vec<u64>, Vec<u8>)>);

impl WeightSource for Weights {
    fn weight(&self, name: &str) -> Option<WeightView<'_>> {
        let (_, shape, bytes) = self.0.iter().find(|(n, _, _)| n == name)?;
        Some(WeightView { shape, encoding: Encoding::U32, bytes })
    }
}

impl Weights {
    pub fn read(path: &Path) -> Weights {
        let mut all: Vec<_> = load_safetensors(&std::fs::read(path).unwrap()).unwrap().into_iter().collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let one = |(name, t): (String, Tensor)| {
            let shape = t.dims().iter().map(|&n| n as u64).collect();
            // Values are multiples of 1/65536, which this encoding holds exactly.
            let mut bytes = Vec::new();
            Encoding::U32.encode(&values(&t), &mut bytes).unwrap();
            (name, shape, bytes)
        };
        Weights(all.into_iter().map(one).collect())
    }
}

impl Case {
    /// Reads a folder.
    pub fn read(path: &Path) -> Case {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        for entry in std::fs::read_dir(path).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            assert!(FILES.contains(&&*file), "{name}: `{file}` is no file of a case; known are {FILES:?}");
        }
        let program = name.split('-').next().unwrap().to_owned();
        let source = std::fs::read_to_string(folder("programs").join(format!("{program}.rs"))).unwrap();
        let config = Config::parse(&std::fs::read_to_string(path.join("config.toml")).unwrap()).unwrap();
        let weights = Arc::new(Weights::read(&path.join("model.safetensors")));
        let (mut inputs, mut wanted) = (BTreeMap::new(), BTreeMap::new());
        for (key, tensor) in load_safetensors(&std::fs::read(path.join("case.safetensors")).unwrap()).unwrap() {
            match key.split_once('.') {
                Some(("in", input)) => inputs.insert(input.to_owned(), tensor),
                Some(("out", output)) => wanted.insert(output.to_owned(), tensor),
                _ => panic!("{name}: `{key}` is neither `in.…` nor `out.…`"),
            };
        }
        Case { name, program, source, config, weights, inputs, wanted }
    }

    /// Its program, compiled to graphs.
    pub fn compile(&self) -> Result<Module, String> {
        let index = self.weights.0.iter().map(|(name, shape, _)| (name.clone(), shape.clone())).collect();
        let index: indexmap::IndexMap<String, Vec<u64>> = index;
        let label = format!("{}.rs", self.program);
        compile(&self.source, Language::Rs, &label, &self.config, Some(&index), Options::default())
            .map_err(|e| e.to_string())
    }

    /// The inputs of a graph, by its names for them; `made` has those that come from another graph.
    pub fn given(
        &self,
        module: &Module,
        graph: &Graph,
        made: &[(String, Tensor)],
    ) -> Result<Vec<(String, Tensor)>, String> {
        let mut found = Vec::new();
        for (name, _) in graph.inputs().filter(|(n, _)| *n != tallow::ir::POS) {
            let ids = || module.inputs.iter().filter(|i| i.kind == InputKind::Ids).any(|i| i.name == name);
            let of_case = || self.inputs.get(name).or_else(|| self.inputs.values().next().filter(|_| ids()));
            let other = || made.iter().find(|(n, _)| n == name).map(|(_, t)| t);
            let tensor = other().or_else(of_case).ok_or_else(|| format!("nothing for the input `{name}`"))?;
            found.push((name.to_owned(), tensor.clone()));
        }
        Ok(found)
    }

    /// What the graphs call.
    pub fn host(&self, module: &Arc<Module>) -> ProgramHost {
        let words = vocabulary(self);
        ProgramHost::new(module.clone(), format!("{}.rs", self.program), self.source.as_str())
            .with_vocabulary(move |text| words.iter().position(|w| w == text).map(|i| i as u32))
    }

    /// A session of a graph, compiled as far as is usual.
    pub fn session(&self, module: &Arc<Module>, name: &str, engine: Engine) -> Result<Session, String> {
        self.session_at(module, name, engine, None)
    }

    /// A session of a graph, compiled up to a stage.
    pub fn session_at(
        &self,
        module: &Arc<Module>,
        name: &str,
        engine: Engine,
        stage: Option<Stage>,
    ) -> Result<Session, String> {
        let graph = module.graphs.get(name).ok_or_else(|| format!("no graph `{name}`"))?;
        let verified = verify(graph.clone()).map_err(|e| format!("{name}: {e}"))?;
        let options = ProgramOptions { engine, threads: 2, stage, ..ProgramOptions::default() };
        let program = Program::new(&verified, self.weights.clone(), options).map_err(|e| e.to_string())?;
        Ok(Session::new(Arc::new(program.with_host(Arc::new(self.host(module))))))
    }

    /// Runs a graph once; `made` has inputs beside those of the case.
    pub fn call(
        &self,
        module: &Module,
        name: &str,
        mut session: Session,
        made: &[(String, Tensor)],
    ) -> Result<(Session, Vec<(String, Tensor)>), String> {
        let given = self.given(module, &module.graphs[name], made)?;
        let out = session.run(&given, Rows::All).map_err(|e| format!("{name}: {e}"))?;
        Ok((session, out))
    }
}

/// The words of a `vocab.toml`, by number.
fn vocabulary(case: &Case) -> Vec<String> {
    let path = folder("tests/programs").join(&case.name).join("vocab.toml");
    let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
    let words = text.lines().filter_map(|line| line.split_once(" = "));
    words.map(|(_, word)| serde_json::from_str(word).unwrap()).collect()
}
