//! What there is to measure of a model: whole inputs that run at once, as texts, pictures and windows of sound, and tokens
//! one after another, with or without such an input before them.

use super::work::{self, Call};
use super::{LONGEST, ids};
use crate::model::tensor;
use crate::picture::{Picture, Processor, no_picture};
use crate::text::{IDS, STARTS, TYPES, most_tokens, positions};
use crate::vision_language::nothing;
use crate::{Error, Model, Result, Sound};
use std::sync::Arc;
use tallow_executor::{Device, ExecutorError, Program, Rows, Session, Tensor};
use tallow_frontends::families::seq2seq::Speech;
use tallow_frontends::families::vision::IMAGE_EMBEDS;
use tallow_ir::{Op, POS};

/// Most tokens of texts that run together.
const MOST_BATCH: usize = 1 << 16;
/// Most pairs of a token and a text among those: graphs ask of each pair whether they belong together.
const MOST_PAIRS: usize = 1 << 26;
/// Width and height of a picture that is made up, before it is prepared.
const MADE_PICTURE: [u32; 2] = [640, 480];

/// What a model takes, as far as it can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Token ids, and goes on with them.
    Decoder,
    /// The same, with pictures among them.
    Sight,
    /// Whole texts; and pictures, of a model with a tower for each.
    Texts {
        /// Whether there is a tower for pictures.
        pictures: bool,
    },
    /// A text, and writes another one.
    Source,
    /// A window of sound, and writes a text.
    Sound,
    /// Pictures.
    Pictures,
}

impl Subject {
    /// What this model takes.
    ///
    /// # Errors
    /// A model that takes something else, with what it takes and what can be measured.
    pub fn of(model: &Model) -> Result<Self> {
        if model.text_task().is_some() {
            return Ok(Subject::Texts { pictures: model.once().is_some() && model.picture_input().is_some() });
        }
        let given = |name: &str| name == IDS || name == POS;
        let once = |name: &str| model.once().is_some_and(|plan| plan.outputs.iter().any(|(output, _)| output == name));
        let inputs = &model.program().plan().inputs;
        let follows = inputs.iter().all(|input| given(&input.name) || once(&input.name));
        match () {
            () if model.speech().is_some() && follows => Ok(Subject::Sound),
            () if model.reads_source() && follows => Ok(Subject::Source),
            () if model.sight().is_some() => Ok(Subject::Sight),
            () if continues_ids(model).is_ok() => Ok(Subject::Decoder),
            () if model.driver().is_none() && inputs.len() == 1 && has_size(model)? => Ok(Subject::Pictures),
            () => Err(refusal(model)),
        }
    }

    /// Whether tokens follow one after another.
    pub fn writes(self) -> bool {
        !matches!(self, Subject::Texts { .. } | Subject::Pictures)
    }

    /// Whether whole texts go in.
    pub fn reads_texts(self) -> bool {
        matches!(self, Subject::Texts { .. } | Subject::Source)
    }

    /// Whether several texts run in a call.
    pub fn joins_texts(self) -> bool {
        matches!(self, Subject::Texts { .. })
    }

    /// Whether a prompt of any length can stand before them.
    pub fn prompts(self) -> bool {
        matches!(self, Subject::Decoder | Subject::Sight)
    }

    /// The whole inputs of these lengths; what is too long is noted in `skipped`, and where nothing else is left the longest
    /// that fits is taken. Texts run as many at a time as have `batch`
    /// tokens together, at most 65,536, and at least one; fewer where short texts have too many pairs of a token and a text.
    ///
    /// # Errors
    /// A config that does not say how pictures are prepared; errors of preparing them.
    pub(super) fn wholes(
        self,
        model: &Model,
        lengths: &[usize],
        batch: usize,
        skipped: &mut Vec<String>,
    ) -> Result<Vec<Whole>> {
        let mut all = Vec::new();
        match self {
            Subject::Decoder => {}
            Subject::Sight | Subject::Pictures | Subject::Texts { pictures: true } => all.push(picture(model)?),
            Subject::Sound => all.push(window(model)?),
            Subject::Source | Subject::Texts { pictures: false } => {}
        }
        if !matches!(self, Subject::Source | Subject::Texts { .. }) {
            return Ok(all);
        }
        let own = if self == Subject::Source { None } else { positions(model)? };
        let plan = model.once().filter(|_| self == Subject::Source).unwrap_or(model.program().plan());
        let square = most_tokens(plan);
        let set = model.program().options().context;
        let context = [own, square, set].into_iter().flatten().fold(LONGEST, usize::min);
        let most = [square, set].into_iter().flatten().fold(MOST_BATCH, usize::min);
        let (mut fitting, long): (Vec<usize>, Vec<usize>) =
            lengths.iter().filter(|&&n| n > 0).partition(|&&n| n <= context);
        let what = if self == Subject::Source { "a source" } else { "texts" };
        // Something is measured in any case.
        let instead = fitting.is_empty() && !long.is_empty() && context > 0;
        fitting.extend(instead.then_some(context));
        let taken = if instead { ", which are measured instead" } else { "" };
        for length in long {
            skipped.push(format!("{what} of {length}: the model takes {context} tokens at most{taken}"));
        }
        for length in fitting {
            all.push(match self {
                Subject::Source => source(model, &ids(length, vocabulary(model)))?,
                _ => {
                    let count = together(length, batch.min(most));
                    texts(model, count, &ids(count * length, vocabulary(model)))?
                }
            });
        }
        Ok(all)
    }

    /// A session for the tokens that follow `whole`, and its inputs beside them.
    pub(super) fn session(self, model: &Model, whole: Option<&Whole>) -> Result<(Session, Vec<(String, Tensor)>)> {
        let mut session = Session::new(model.program().clone());
        let beside = match (self, whole) {
            (Subject::Sight, _) => nothing(model)?,
            (Subject::Source | Subject::Sound, Some(whole)) => whole.session().run(&whole.inputs, Rows::All)?,
            _ => Vec::new(),
        };
        match self {
            Subject::Sight => session.set_fixed_by_place(beside.clone()),
            Subject::Source | Subject::Sound => session.set_fixed(beside.clone()),
            _ => {}
        }
        Ok((session, beside))
    }
}

/// How many texts of a length run in a call of about so many tokens.
fn together(length: usize, batch: usize) -> usize {
    let pairs = (MOST_PAIRS / length).isqrt();
    (batch.min(MOST_BATCH) / length).min(pairs).max(1)
}

/// Why nothing is measured of a model, and what can be.
fn refusal(model: &Model) -> Error {
    let why = match continues_ids(model) {
        Err(Error::Usage(why)) => why,
        Err(other) => return other,
        Ok(()) => format!("{}: takes more than can be made up", model.file().label()),
    };
    let pictures = match model.picture_input().is_some() && model.driver().is_none() {
        true => " (whose config says how they are prepared: `[architecture.processor]`, which is missing here)",
        false => "",
    };
    Error::Usage(format!(
        "{why}. What can be measured: texts that go on from ids, encoders of texts, encoder-decoders, models of \
         pictures{pictures}, and speech of the type whisper"
    ))
}

/// Whether a picture goes in whose size is known: that of the input, or what the config makes of any.
fn has_size(model: &Model) -> Result<bool> {
    let Some((_, size)) = model.picture_input() else { return Ok(false) };
    Ok(size.is_some() || Processor::of(model.file().config())?.is_some())
}

/// Whether token ids are all that the model needs to continue a text.
///
/// # Errors
/// One that needs more, or continues none, with what to do.
pub(super) fn continues_ids(model: &Model) -> Result<()> {
    model.takes_text()?;
    let plan = model.program().plan();
    let other = plan.inputs.iter().find(|i| i.name != IDS && i.name != POS);
    let once = model.once().map(|once| once.signature());
    match (other, once) {
        (None, None) => Ok(()),
        (other, once) => Err(Error::Usage(format!(
            "{}: needs more than a text: {}. Run it on its inputs (`tallow run MODEL --input NAME=FILE`), which prints how \
             long it took",
            model.file().label(),
            once.unwrap_or_else(|| other.map_or_else(String::new, |i| format!("{}: {}", i.name, i.ty)))
        ))),
    }
}

/// The most tokens of a text that is measured.
pub(super) fn context(model: &Model) -> usize {
    let written = model.driver().and_then(|driver| driver.total).unwrap_or(LONGEST);
    model.program().options().context.unwrap_or(LONGEST).min(LONGEST).min(written)
}

/// What a whole input is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Input {
    /// So many texts in a call.
    Texts {
        /// How many.
        count: usize,
        /// Tokens of each.
        length: usize,
    },
    /// A text that another one is written for.
    Source {
        /// Its tokens.
        tokens: usize,
    },
    /// A picture as the model takes it.
    Picture {
        /// Its height and width in pixels, where they are those of a picture.
        size: [usize; 2],
    },
    /// A window of sound.
    Window {
        /// Its length.
        seconds: f64,
    },
}

impl Input {
    /// Tokens, of texts.
    pub fn tokens(self) -> Option<usize> {
        match self {
            Input::Texts { count, length } => Some(count * length),
            Input::Source { tokens } => Some(tokens),
            Input::Picture { .. } | Input::Window { .. } => None,
        }
    }
}

impl std::fmt::Display for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Input::Texts { count, length } => write!(f, "texts of {length}, {count} a call"),
            Input::Source { tokens } => write!(f, "source of {tokens}"),
            Input::Picture { size: [height, width] } => write!(f, "picture of {width} × {height}"),
            Input::Window { seconds } => write!(f, "window of {seconds:.0} s"),
        }
    }
}

/// A whole input, with the program that takes it.
pub(super) struct Whole {
    pub input: Input,
    pub program: Arc<Program>,
    pub inputs: Vec<(String, Tensor)>,
    /// The sound that the inputs are worked out from, in each run.
    sound: Option<(Model, Sound)>,
}

impl Whole {
    /// A session that runs it.
    pub fn session(&self) -> Session {
        Session::new(self.program.clone())
    }

    /// Runs it; of a sound, with its spectrogram.
    pub fn run(&self, session: &mut Session) -> Result<Vec<(String, Tensor)>> {
        session.reset();
        Ok(match &self.sound {
            Some((model, sound)) => session.run(&[features(model, sound)?], Rows::All)?,
            None => session.run(&self.inputs, Rows::All)?,
        })
    }

    /// The sizes of its call.
    pub fn call(&self) -> Call {
        let tokens = self.input.tokens().unwrap_or(1);
        let texts = if let Input::Texts { count, .. } = self.input { count as u64 } else { 1 };
        Call { texts, ..Call::new(&self.program, tokens, 0, &self.inputs) }
    }

    /// Products with weights and of attention.
    pub fn multiply_adds(&self, model: &Model) -> f64 {
        let call = self.call();
        let plan = self.program.call_plan(Rows::All, call.tokens as usize);
        work::of_plan(plan, &*model.weights(), &call).multiply_adds as f64
    }
}

/// Rows of the table of tokens of what reads ids first.
fn vocabulary(model: &Model) -> usize {
    let weights = model.weights();
    let plans = [model.program().plan()].into_iter().chain(model.once());
    let steps =
        plans.flat_map(|plan| plan.steps.iter().filter(|step| step.op == Op::TokenEmbed).map(move |step| (plan, step)));
    let rows = steps.flat_map(|(plan, step)| {
        let named = plan.weights.iter().filter(|w| step.operands.contains(&w.buffer));
        named.filter_map(|w| weights.weight(&w.name)?.shape.first().copied()).collect::<Vec<_>>()
    });
    rows.min().map_or(2, |rows| rows as usize)
}

/// Texts of equal length, one after another.
pub(super) fn texts(model: &Model, count: usize, ids: &[u32]) -> Result<Whole> {
    let ids: Vec<i64> = ids.iter().map(|&id| i64::from(id)).collect();
    let length = ids.len() / count.max(1);
    let starts: Vec<i64> = (0..count).map(|n| (n * length) as i64).collect();
    let program = model.program().clone();
    let mut inputs = Vec::new();
    for input in &program.plan().inputs {
        let given = match input.name.as_str() {
            IDS => Some(tensor(ids.clone(), ids.len())?),
            STARTS => Some(tensor(starts.clone(), starts.len())?),
            TYPES => Some(tensor(vec![0; ids.len()], ids.len())?),
            IMAGE_EMBEDS => no_picture(model)?,
            _ => None,
        };
        inputs.extend(given.map(|given| (input.name.clone(), given)));
    }
    Ok(Whole { input: Input::Texts { count, length }, program, inputs, sound: None })
}

/// A text for another one.
pub(super) fn source(model: &Model, ids: &[u32]) -> Result<Whole> {
    let program = once(model)?;
    let ids: Vec<i64> = ids.iter().map(|&id| i64::from(id)).collect();
    let tokens = ids.len();
    let inputs = vec![(IDS.to_owned(), tensor(ids, tokens)?)];
    Ok(Whole { input: Input::Source { tokens }, program, inputs, sound: None })
}

/// A picture without meaning, prepared as the config says.
fn picture(model: &Model) -> Result<Whole> {
    let picture = Picture::made(MADE_PICTURE);
    if let Some(sight) = model.sight() {
        let patches = model.patches(std::slice::from_ref(&picture))?;
        let size = patches.cells().first().map_or([0; 2], |cells| cells.map(|n| n * sight.cell() as usize));
        let (program, inputs) = (once(model)?, patches.inputs().to_vec());
        return Ok(Whole { input: Input::Picture { size }, program, inputs, sound: None });
    }
    let prepared = match model.picture_input() {
        // Without a word about how pictures are prepared the size is all that matters.
        Some((name, Some(size))) if Processor::of(model.file().config())?.is_none() => {
            let [height, width] = size.map(|n| n as usize);
            let zeros = Tensor::zeros((1, 3, height, width), tallow_executor::DType::F32, &Device::Cpu);
            (name, zeros.map_err(ExecutorError::from)?)
        }
        _ => model.picture(&picture)?,
    };
    let size = match prepared.1.dims() {
        [.., height, width] => [*height, *width],
        _ => [0; 2],
    };
    let program = if model.takes_once(&prepared.0) { once(model)? } else { model.program().clone() };
    Ok(Whole { input: Input::Picture { size }, program, inputs: vec![prepared], sound: None })
}

/// A window of sound that rises and falls.
fn window(model: &Model) -> Result<Whole> {
    let frames = model.speech().map_or(0, |speech| speech.frames);
    let samples: Vec<f32> = (0..frames * Speech::HOP)
        .map(|i| {
            let seconds = f64::from(i) / f64::from(Speech::SAMPLE_RATE);
            (0.3 * (2000.0 * seconds + 300.0 * (3.0 * seconds).sin()).sin()) as f32
        })
        .collect();
    let sound = Sound::new(&samples, Sound::RATE)?;
    let input = Input::Window { seconds: sound.seconds() };
    let inputs = vec![features(model, &sound)?];
    Ok(Whole { input, program: once(model)?, inputs, sound: Some((model.clone(), sound)) })
}

fn features(model: &Model, sound: &Sound) -> Result<(String, Tensor)> {
    Ok(("input_features".to_owned(), model.sound_features(sound)?))
}

/// The program that runs once before a text.
fn once(model: &Model) -> Result<Arc<Program>> {
    let missing = || Error::Graph { file: model.file().label(), source: "it has no part that runs once".into() };
    model.once_program().cloned().ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_texts_run_together_as_have_so_many_tokens() {
        assert_eq!([together(32, 512), together(256, 512), together(600, 512)], [16, 2, 1]);
        assert_eq!([together(1, usize::MAX), together(256, usize::MAX)], [8192, 256]);
    }
}
