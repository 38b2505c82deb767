//! `tallow run`: text from a prompt, or outputs from inputs.

mod arguments;
mod outputs;
mod pictures;
mod seeing;
mod speech;
mod texts;
mod times;
mod writing;

use crate::commands::tools::refuse_existing;
use crate::options::{LoadOptions, SamplingOptions, warn_of_packed};
use crate::ui::Ui;
use anyhow::{Context, Result, bail};
use clap::Args;
use outputs::Output;
use speech::SpeechOptions;
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use tallow::compiled::Answer;
use tallow::executor::ExecutorError;
use tallow::frontends::program::module::Start;
use tallow::ir::POS;
use tallow::{Error, Model, Rows, Tensor, tensor_file};
use writing::Given;

/// Continue a prompt, give what an encoder makes of texts, or run the graph on given inputs.
///
/// MODEL is a .model file, a GGUF file or a Hugging Face folder (imported once into the cache).
/// Without MODEL the embedded storyteller runs. Text comes on stdout, statistics on stderr.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow run \"Tell me a story about a fox.\"\n  \
    tallow run qwen2.5-coder-0.5b.gguf \"Write hello world in Rust.\" --max-tokens 200\n  \
    tallow run whisper.model --audio speech.wav --timestamps\n  \
    tallow run base.model --raw \"Once upon a time\" --temperature 0\n  \
    tallow run all-MiniLM-L6-v2 --text \"A cat sits outside.\" \"A dog lies in the sun.\"\n  \
    tallow run sentiment.model --text - --json < reviews.txt\n  \
    tallow run ./vit-base-patch16-224 --image cat.jpg dog.png\n  \
    tallow run ./clip-vit-base-patch32 --image cat.jpg --text \"a photo of a cat\" \"a photo of a dog\"\n  \
    tallow run ./clip-vit-base-patch32 --text \"a cat\" --text \"a dog\" --image cat.jpg --image dog.png\n  \
    tallow run ./Qwen2-VL-2B-Instruct --image cat.jpg \"Describe the picture.\"\n  \
    tallow run ./Qwen2-VL-2B-Instruct \"What has changed?\" --image before.jpg after.jpg\n  \
    tallow run some.model --input input_ids=1,2,3 --output out --all-logits")]
pub struct Run {
    /// MODEL and PROMPT; a single one is a MODEL if it exists, looks like a path or ends in .model
    /// or .gguf. PROMPT is read from stdin where it is left out or `-`.
    #[arg(value_name = "MODEL PROMPT", num_args = 0..=2)]
    arguments: Vec<String>,
    /// Take the prompt as it is, without the chat template.
    #[arg(long)]
    raw: bool,
    /// Text of a system message before the prompt.
    #[arg(long, conflicts_with = "raw", value_name = "TEXT")]
    system: Option<String>,
    /// Most tokens to generate; by default what the model is meant for, else 1024, or until the model ends.
    #[arg(long, short = 'n', value_name = "N")]
    max_tokens: Option<usize>,
    /// End before this text; may be given several times.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Go on past the model's end tokens.
    #[arg(long)]
    ignore_end: bool,
    /// Keep this many continuations at once and print the likeliest text (beam search) instead of sampling; the prompt is
    /// taken as it is. By default as many as the model is meant for; 1 takes the likeliest token each time.
    #[arg(long, value_name = "N", conflicts_with_all = ["system", "stop", "ignore_end"])]
    beams: Option<usize>,
    /// The language of the PROMPT, for a model that translates: its code, as `ro_RO` or `ro`, or its English name; by default
    /// what the model's tokenizer says.
    #[arg(long, value_name = "LANGUAGE", conflicts_with_all = ["input", "image", "text"])]
    source_language: Option<String>,
    /// The language to write, likewise.
    #[arg(long, value_name = "LANGUAGE", conflicts_with_all = ["input", "image", "text"])]
    target_language: Option<String>,
    /// Run the graph on this input instead of a prompt: NAME=FILE.npy, NAME=FILE.safetensors,
    /// NAME=1,2,3 or NAME=true,false; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", conflicts_with_all = ["raw", "system", "stop"])]
    input: Vec<String>,
    /// Picture files: prints the likeliest labels, or what stands for each picture; with a PROMPT, before or behind, the
    /// text that a model writes about them; with --text, how well each text fits each picture.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "input")]
    image: Vec<PathBuf>,
    /// Give what an encoder makes of these texts: vectors with their cosines, labels, tagged tokens, or words for its masks;
    /// `-` reads one text a line from stdin, blank lines too.
    #[arg(long, value_name = "TEXT", num_args = 1.., conflicts_with_all = ["raw", "system", "stop", "input", "output"])]
    text: Vec<String>,
    /// Take each text as two with a tab between, for a model that compares them.
    #[arg(long, requires = "text")]
    pairs: bool,
    /// Write every output: into this folder as .npy, or into this .safetensors file; a single one
    /// also into this .npy file.
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Replace outputs that exist.
    #[arg(long, requires = "output")]
    force: bool,
    /// Give the logits of all positions, not only the last: of the output `logits` of a graph that reads
    /// `input_ids` or keeps a cache.
    #[arg(long, requires = "input")]
    all_logits: bool,
    /// Print one JSON object with text, ids and statistics instead of the text; of texts everything, whole vectors too.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    speech: SpeechOptions,
    #[command(flatten)]
    sampling: SamplingOptions,
    #[command(flatten)]
    load: LoadOptions,
}

/// Options that say how tokens are sampled, as messages call them.
const SAMPLING: &str = "an option of sampling (--temperature, --top-k, --top-p, --min-p, --repetition-penalty, --seed)";
/// What is read for a text about pictures.
const WRITES: [&str; 7] = ["--raw", "--system", "--max-tokens", "--stop", "--ignore-end", "--image", SAMPLING];

impl Run {
    pub fn execute(mut self, ui: &Ui) -> Result<ExitCode> {
        self.speech.check_one(&self.arguments)?;
        let (source, mut prompt) = arguments::of(&self.arguments, &mut self.image, &mut self.text)?;
        let started = Instant::now();
        let model = self.load.load(source.as_deref(), ui)?;
        let load = started.elapsed().as_secs_f64();
        if self.speech.is_given() {
            self.refuse_idle("--audio", &["--max-tokens"])?;
            let common = speech::Common { max_tokens: self.max_tokens, json: self.json, load };
            self.speech.check(prompt.as_deref(), &self.sampling)?;
            return self.speech.run(&model, &common, ui);
        }
        // A text beside pictures is the prompt of a model that writes about them.
        if let ([text], true, None) = (self.text.as_slice(), model.sight().is_some() && !self.image.is_empty(), &prompt)
        {
            prompt = Some(text.clone());
            self.text.clear();
        }
        if !self.text.is_empty() && !self.image.is_empty() {
            self.refuse_idle("--image and --text", &["--image", "--text"])?;
            if prompt.is_some() {
                bail!(Error::Usage("give a PROMPT or --text, not both".into()));
            }
            return pictures::compare(&model, &self.image, &texts::texts(&self.text)?, self.json, load, ui);
        }
        if !self.text.is_empty() || (self.input.is_empty() && self.image.is_empty() && model.text_task().is_some()) {
            self.refuse_idle("texts for an encoder", &["--text", "--pairs"])?;
            let texts = match prompt {
                prompt if self.text.is_empty() => vec![prompt.map_or_else(read_prompt, Ok)?],
                None => texts::texts(&self.text)?,
                Some(_) => bail!(Error::Usage("give a PROMPT or --text, not both".into())),
            };
            texts::run(&model, &texts, self.pairs, self.json, load, ui)?;
            warn_of_packed(&model, ui);
            return Ok(ExitCode::SUCCESS);
        }
        let driver = model.driver();
        if !self.image.is_empty() {
            let writes = model.sight().is_some() || driver.is_some();
            match writes {
                true => self.refuse_idle("a text about pictures", &WRITES)?,
                false => self.refuse_idle("labels and vectors of pictures", &["--image"])?,
            }
            if model.sight().is_some() {
                let (pictures, prompt) = seeing::pictures(&model, &self.image, prompt, ui)?;
                return self.run_text(&model, Given::Pictures(&pictures), Some(&prompt), load, ui);
            }
            if model.driver().is_some() {
                let [image] = self.image.as_slice() else {
                    let label = model.file().label();
                    bail!(Error::Usage(format!(
                        "{label}: writes about one picture; give --image one file behind the PROMPT"
                    )));
                };
                let inputs = [model.picture(&pictures::read(image, ui)?)?];
                return self.run_text(&model, Given::Inputs(&inputs), prompt.as_deref(), load, ui);
            }
            if let Some(prompt) = prompt {
                let label = model.file().label();
                let cure = match model.compares() {
                    true => format!("give texts to compare them with by --text, as --text {prompt:?}"),
                    false => "leave the PROMPT out".to_owned(),
                };
                bail!(Error::Usage(format!("{label}: writes no text about pictures; {cure}")));
            }
            return pictures::run(&model, &self.image, self.json, load, ui);
        }
        if !self.input.is_empty() {
            let inputs = self.input.iter().map(|text| given_input(text, &model)).collect::<Result<Vec<_>>>()?;
            let wants_prompt = driver.is_some_and(|d| d.start == Start::Prompt);
            if driver.is_some() && model.once().is_some() {
                if self.output.is_some() {
                    bail!(Error::Usage(
                        "--output is for the outputs of a graph; generated text comes on stdout".into()
                    ));
                }
                if let (true, None, Some(beams)) = (model.reads_source(), &prompt, self.search(&model)) {
                    return self.run_search(&model, Given::Inputs(&inputs), "", beams, load, ui);
                }
                return self.run_text(&model, Given::Inputs(&inputs), prompt.as_deref(), load, ui);
            }
            let mut inputs = inputs;
            match prompt {
                Some(text) if model.compiled().is_some() && driver.is_none() => {
                    inputs.extend(model.text_inputs(&text)?);
                }
                Some(_) if !wants_prompt => bail!("give a PROMPT or --input, not both"),
                _ => {}
            }
            return self.run_inputs(&model, &inputs, ui);
        }
        if model.compiled().is_some() && driver.is_none() {
            // A program that takes no text says so before one is asked for.
            model.text_inputs("")?;
            let text = prompt.map_or_else(read_prompt, Ok)?;
            return self.run_inputs(&model, &model.text_inputs(&text)?, ui);
        }
        if model.speech().is_some() {
            bail!(Error::Usage(format!(
                "{}: hears sound; give it a file, as by --audio FILE.wav",
                model.file().label()
            )));
        }
        if self.output.is_some() {
            bail!(Error::Usage("--output is for the outputs of a graph; generated text comes on stdout".into()));
        }
        if driver.is_some_and(|d| d.start != Start::Prompt) && prompt.is_none() && !model.reads_source() {
            return self.run_text(&model, Given::Inputs(&[]), None, load, ui);
        }
        model.takes_text()?;
        let prompt = prompt.map_or_else(read_prompt, Ok)?;
        if let Some(beams) = self.search(&model) {
            return self.run_search(&model, Given::Nothing, &prompt, beams, load, ui);
        }
        self.run_text(&model, Given::Nothing, Some(&prompt), load, ui)
    }

    /// Refuses options without effect beside `what`, which reads those in `read`.
    fn refuse_idle(&self, what: &str, read: &[&str]) -> Result<()> {
        let given = [
            ("--raw", self.raw),
            ("--system", self.system.is_some()),
            ("--max-tokens", self.max_tokens.is_some()),
            ("--stop", !self.stop.is_empty()),
            ("--ignore-end", self.ignore_end),
            ("--beams", self.beams.is_some()),
            ("--source-language", self.source_language.is_some()),
            ("--target-language", self.target_language.is_some()),
            ("--input", !self.input.is_empty()),
            ("--image", !self.image.is_empty()),
            ("--text", !self.text.is_empty()),
            ("--pairs", self.pairs),
            ("--output", self.output.is_some()),
            ("--all-logits", self.all_logits),
            (SAMPLING, self.sampling.is_given() && !self.speech.is_given()),
        ];
        match given.into_iter().find(|(name, given)| *given && !read.contains(name)) {
            Some((name, _)) => {
                bail!(Error::Usage(format!("{name} has no effect beside {what}; leave one of them out")))
            }
            None => Ok(()),
        }
    }

    /// What the graph, or the program, gives for inputs.
    fn run_inputs(&self, model: &Model, inputs: &[(String, Tensor)], ui: &Ui) -> Result<ExitCode> {
        // Those of a tower that runs first, whose results are inputs of the other.
        let (first, mut rest): (Vec<_>, Vec<_>) = inputs.iter().cloned().partition(|(name, _)| model.takes_once(name));
        let alone = !first.is_empty() && rest.is_empty();
        let plan = model.once().filter(|_| alone).unwrap_or(model.program().plan());
        if let Some(path) = &self.output {
            let names: Vec<_> = plan.outputs.iter().map(|(name, _)| name.as_str()).collect();
            for file in tensor_file::files(path, &names)? {
                refuse_existing(&file, self.force)?;
            }
        }
        let rows = if self.all_logits { Rows::All } else { Rows::Last };
        let mut session = model.session()?;
        session.set_seed(self.sampling.seed().unwrap_or(0));
        let made = if first.is_empty() { Vec::new() } else { session.once(&first)? };
        let outputs = match model.compiled() {
            _ if alone => made,
            Some(_) if model.driver().is_none() => match session.answer(inputs)? {
                Answer::Tensors(outputs) => outputs,
                Answer::Value(value) => {
                    if self.output.is_some() {
                        bail!(Error::Usage("--output is for tensors, and this program gives other values".into()));
                    }
                    let mut out = std::io::stdout().lock();
                    let text = if self.json { value.to_string() } else { format!("{value:#}") };
                    writeln!(out, "{text}")?;
                    return Ok(ExitCode::SUCCESS);
                }
            },
            _ => {
                rest.extend(made);
                session.run(&rest, rows)?
            }
        };
        warn_of_packed(model, ui);
        let files = match &self.output {
            Some(path) => tensor_file::write(path, &outputs)?,
            None => Vec::new(),
        };
        let mut out = std::io::stdout().lock();
        let results = outputs.iter().map(|(name, tensor)| Output::new(plan, name, tensor));
        if self.json {
            let outputs = results.map(|output| output.json()).collect::<Result<Vec<_>>>()?;
            writeln!(out, "{}", serde_json::json!({ "outputs": outputs, "files": files }))?;
            return Ok(ExitCode::SUCCESS);
        }
        for output in results {
            writeln!(out, "{}", output.line()?)?;
        }
        for file in files {
            writeln!(out, "wrote {}", file.display())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Name and tensor of `NAME=VALUE`, an input of what the model runs.
fn given_input(text: &str, model: &Model) -> Result<(String, Tensor)> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    if name.is_empty() || value.is_empty() {
        bail!("--input {text}: expected NAME=FILE.npy, NAME=FILE.safetensors, NAME=1,2,3 or NAME=true,false");
    }
    let main = model.program().plan();
    let once = model.once();
    let mut known = once.into_iter().chain([main]).flat_map(|plan| &plan.inputs);
    let declared = known.find(|input| input.name == name && name != POS).ok_or_else(|| {
        let signature = once.unwrap_or(main).signature();
        let cause = format!("is no input of this graph; it takes {signature}");
        Error::Executor(ExecutorError::Input { name: name.to_owned(), cause })
    })?;
    Ok((name.to_owned(), tensor_file::input(name, value, &declared.ty)?))
}

/// All of stdin, which is `what`.
fn read_stdin(what: &str) -> Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).with_context(|| format!("{what} on stdin cannot be read"))?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Error::Usage(format!("{what} on stdin: byte {at} is not UTF-8; give plain text")).into()
    })
}

/// The prompt from stdin, with one final line end left out.
fn read_prompt() -> Result<String> {
    if std::io::stdin().is_terminal() {
        bail!("no prompt given; add one in quotes, pipe one in, or use `tallow chat` to talk");
    }
    let text = read_stdin("the prompt")?;
    let prompt = text.strip_suffix('\n').unwrap_or(&text);
    if prompt.is_empty() {
        bail!("the prompt on stdin is empty; give some text");
    }
    Ok(prompt.to_owned())
}
