//! Reading the vocabulary of a model: once, and a large one while the rest of the model is opened.

use crate::text::IDS;
use crate::{Error, Model, Result};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tallow_compiler::Plan;

use tallow_executor::WeightSource;
use tallow_executor::tokenizer::{EncodeOptions, SpecialIds, Tokenizer};
use tallow_format::{ModelFile, Vocab};
use tallow_ir::Op;

/// A shorter section is read in a millisecond, when it is needed.
const WORTH_A_THREAD: usize = 256 << 10;

/// A vocabulary that a thread may be reading.
pub(crate) struct Reading {
    end_ids: Sent<Vec<u32>>,
    tokenizer: Sent<Arc<Tokenizer>>,
}

/// What a thread sends once, if there is one and it does not fail.
struct Sent<T> {
    from: Mutex<Option<Receiver<T>>>,
    value: OnceLock<Option<T>>,
}

impl<T: Clone> Sent<T> {
    fn new(from: Option<Receiver<T>>) -> Self {
        Self { from: Mutex::new(from), value: OnceLock::new() }
    }

    /// The value, waited for.
    fn get(&self) -> Option<T> {
        let receive = || {
            let from = self.from.lock().unwrap_or_else(PoisonError::into_inner).take();
            from.and_then(|from| from.recv().ok())
        };
        self.value.get_or_init(receive).clone()
    }
}

impl Reading {
    /// Begins to read the vocabulary of `file`, if that takes a while.
    pub(crate) fn begin(file: &Arc<ModelFile>) -> Self {
        let idle = Self { end_ids: Sent::new(None), tokenizer: Sent::new(None) };
        if file.container().entry("vocab").is_none_or(|e| e.range.len() < WORTH_A_THREAD) {
            return idle;
        }
        let (send_ids, end_ids) = channel();
        let (send_tokenizer, tokenizer) = channel();
        let file = file.clone();
        // What fails here fails again, with its error, where it is asked for; an end that no one waits for is no failure.
        let read = move || {
            let Ok(vocab) = file.vocab() else { return };
            let Ok(ids) = end_ids_of(&file, &vocab) else { return };
            let _ = send_ids.send(ids.clone());
            if let Ok(tokenizer) = tokenizer_of(&file, &vocab, &ids) {
                let _ = send_tokenizer.send(Arc::new(tokenizer));
            }
        };
        match std::thread::Builder::new().name("vocabulary".into()).spawn(read) {
            Ok(_) => Self { end_ids: Sent::new(Some(end_ids)), tokenizer: Sent::new(Some(tokenizer)) },
            Err(_) => idle,
        }
    }

    /// Ids that end a sequence.
    pub(crate) fn end_ids(&self, file: &ModelFile) -> Result<Vec<u32>> {
        if file.config().tokenizer()?.eos_token.is_none() {
            return Ok(file.config().end_ids()?);
        }
        match self.end_ids.get() {
            Some(ids) => Ok(ids),
            None => Ok(file.end_ids(&file.vocab()?)?),
        }
    }

    /// The tokenizer; `end_ids` are those of [`Reading::end_ids`].
    pub(crate) fn tokenizer(&self, file: &ModelFile, end_ids: &[u32]) -> Result<Arc<Tokenizer>> {
        match self.tokenizer.get() {
            Some(tokenizer) => Ok(tokenizer),
            None => Ok(Arc::new(tokenizer_of(file, &file.vocab()?, end_ids)?)),
        }
    }
}

fn end_ids_of(file: &ModelFile, vocab: &Vocab) -> Result<Vec<u32>> {
    match file.config().tokenizer()?.eos_token {
        Some(_) => Ok(file.end_ids(vocab)?),
        None => Ok(file.config().end_ids()?),
    }
}

fn tokenizer_of(file: &ModelFile, vocab: &Vocab, end_ids: &[u32]) -> Result<Tokenizer> {
    let config = file.config();
    let special = SpecialIds { bos: config.bos_id()?, eos: end_ids.first().copied() };
    Tokenizer::with_ids(vocab, &config.tokenizer()?, special)
        .map_err(|source| Error::Tokenizer { file: file.label(), source })
}

/// The ids of a raw text, begun as the model of this file wants.
pub(crate) fn encode(file: &ModelFile, text: &str) -> Result<Vec<u32>> {
    let options = EncodeOptions { add_special: true, parse_special: true };
    let vocab = file.vocab()?;
    let encoded = tokenizer_of(file, &vocab, &end_ids_of(file, &vocab)?)?.encode(text, options);
    encoded.map_err(|source| Error::Tokenizer { file: file.label(), source })
}

/// Makes sure that the model has a row for each token of a text.
///
/// # Errors
/// A tokenizer that is larger than the table of tokens.
pub(crate) fn check_rows(model: &Model, tokenizer: &Tokenizer, ids: &[u32]) -> Result<()> {
    let plan = match model.once().filter(|_| model.reads_source()) {
        Some(once) => once,
        None => model.program().plan(),
    };
    let Some(rows) = table_rows(plan, &*model.weights()) else { return Ok(()) };
    let Some((at, id)) = ids.iter().enumerate().find(|(_, id)| u64::from(**id) >= rows) else { return Ok(()) };
    let token = tokenizer.token_text(*id).unwrap_or_default();
    Err(Error::Usage(format!(
        "{}: token {} of the text, `{}`, has the id {id}, and the model's table of tokens has {rows} rows: its tokenizer is \
         larger; import the model again with the tokenizer's files that belong to it, or write the text without this token",
        model.file().label(),
        at + 1,
        token.chars().take(60).collect::<String>()
    )))
}

/// Rows of the table in which the ids of a text are looked up; none where they go another way.
fn table_rows(plan: &Plan, weights: &dyn WeightSource) -> Option<u64> {
    let ids = plan.inputs.iter().find(|input| input.name == IDS)?.buffer;
    let reads = plan.steps.iter().filter(|step| step.op == Op::TokenEmbed && step.operands.first() == Some(&ids));
    let tables = reads.filter_map(|step| plan.weights.iter().find(|table| step.operands.get(1) == Some(&table.buffer)));
    tables.filter_map(|table| weights.weight(&table.name)?.shape.first().copied()).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallow_format::{Container, ReadOptions};

    /// The storyteller with more in its vocabulary section.
    fn with_vocabulary(more: &str) -> Arc<ModelFile> {
        let file = crate::model::storyteller_file().unwrap();
        let end = file.container().entry("vocab").unwrap().range.end;
        let (before, after) = file.container().bytes().split_at(end);
        let bytes = [before, b"\n", more.as_bytes(), after].concat();
        let container = Container::from_vec(bytes, "changed", &ReadOptions::default()).unwrap();
        Arc::new(ModelFile::from_container(container).unwrap())
    }

    fn comment() -> String {
        "# nothing\n".repeat(WORTH_A_THREAD / 10 + 1)
    }

    #[test]
    fn a_thread_gives_the_tokenizer_that_a_call_gives() {
        let (short, long) = (with_vocabulary(""), with_vocabulary(&comment()));
        let ids = |file: &Arc<ModelFile>| {
            let reading = Reading::begin(file);
            let end_ids = reading.end_ids(file).unwrap();
            let options = EncodeOptions { add_special: true, parse_special: true };
            let encode = || reading.tokenizer(file, &end_ids).unwrap().encode("Tell me of a fox.", options).unwrap();
            let first = encode();
            assert_eq!(first, encode(), "a second call");
            (first, end_ids, reading.tokenizer.get().is_some())
        };
        let (short, long) = (ids(&short), ids(&long));
        assert_eq!((short.2, long.2), (false, true), "a long section has a thread");
        assert_eq!((short.0, short.1), (long.0, long.1));
    }

    #[test]
    fn what_fails_on_a_thread_is_the_error_of_a_call() {
        let file = with_vocabulary(&format!("{}[words]\n0 = 1\n", comment()));
        let reading = Reading::begin(&file);
        let error = |result: Result<Arc<Tokenizer>>| result.map(|_| ()).unwrap_err().to_string();
        let first = error(reading.tokenizer(&file, &[]));
        assert!(first.contains("the table `words` is not known") && first.contains("line"), "{first}");
        assert_eq!(first, error(reading.tokenizer(&file, &[])), "each call has it");
        assert_eq!(first, file.vocab().unwrap_err().to_string());
    }
}
