//! The program section of a model, compiled.

use crate::{Error, Result};
use std::sync::Arc;
use tallow_executor::sampling::SamplingParams;
use tallow_executor::{Program, ProgramOptions};
use tallow_format::{ModelFile, ProgramFormat};
use tallow_frontends::program::module::{ENCODER, MAIN, Sampling};
use tallow_frontends::program::{self, Driver, Language, Module, Options};
use tallow_ir::Graph;
use tallow_ir::ops::SampleMethod;
use tallow_ir::verify::{Verified, verify};

/// A compiled program section, ready to run.
pub struct Compiled {
    /// What it compiled to.
    pub module: Arc<Module>,
    /// The graph that runs once before a text, where there is one.
    pub(crate) once: Option<Arc<Program>>,
}

impl Compiled {
    /// How tokens are generated, where the program does.
    pub fn driver(&self) -> Option<&Driver> {
        self.module.driver.as_ref()
    }

    pub(crate) fn new(file: &Arc<ModelFile>, module: Module, options: ProgramOptions) -> Result<Self> {
        let module = Arc::new(module);
        let once = match module.graphs.get(ENCODER) {
            Some(graph) => {
                let program = Program::new(&verified(file, graph.clone())?, file.clone(), options)?;
                Some(Arc::new(program.with_host(crate::program::host(&module))))
            }
            None => None,
        };
        Ok(Compiled { module, once })
    }
}

/// Compiles the program section of a model.
///
/// # Errors
/// A model without one, or in a language that is not compiled; everything that is wrong with it.
pub fn module(file: &ModelFile) -> Result<Module> {
    let Some((format, source)) = file.program() else {
        return Err(Error::Usage(format!("{}: has no program section; use --path family or --path graph", file.label())));
    };
    let language = match format {
        ProgramFormat::Rs => Language::Rs,
        ProgramFormat::Tri => Language::Tri,
        ProgramFormat::Nox => {
            return Err(Error::Unsupported(format!(
                "{}: its program is nox bytecode, which is not compiled; use --path family or --path graph",
                file.label()
            )));
        }
    };
    let name = format!("program of {}", file.label());
    compile(source, language, &name, file.config(), Some(file.tensors()))
}

/// Compiles a program for a config and a tensor index.
///
/// # Errors
/// Everything that is wrong with it.
pub fn compile(
    source: &str,
    language: Language,
    name: &str,
    config: &tallow_format::Config,
    tensors: Option<&tallow_format::TensorIndex>,
) -> Result<Module> {
    let tensors = tensors.map(|t| t as &dyn tallow_frontends::TensorShapes);
    program::compile(source, language, name, config, tensors, Options::default())
        .map_err(|e| Error::Program(Box::new(e)))
}

/// The graph of a module that runs for each token, or the only one, verified.
pub(crate) fn main_graph(file: &ModelFile, module: &Module) -> Result<Verified> {
    match module.graphs.get(MAIN) {
        Some(graph) => verified(file, graph.clone()),
        None => Err(Error::Unsupported(format!("{}: its program computes no tensors", file.label()))),
    }
}

fn verified(file: &ModelFile, graph: Graph) -> Result<Verified> {
    verify(graph).map_err(|e| Error::Graph { file: file.label(), source: Box::new(e) })
}

/// Sampling as the program says it.
pub(crate) fn sampling(how: &Sampling, seed: u64) -> SamplingParams {
    let params = SamplingParams { temperature: how.temperature as f32, seed, ..SamplingParams::default() };
    match how.method {
        SampleMethod::Greedy => SamplingParams { temperature: 0.0, ..params },
        SampleMethod::Temperature => params,
        SampleMethod::TopK => SamplingParams { top_k: how.k as usize, ..params },
        SampleMethod::TopP => SamplingParams { top_p: how.p as f32, ..params },
        SampleMethod::MinP => SamplingParams { min_p: how.p as f32, ..params },
    }
}
