//! Texts with pictures in them: pictures as the input of a model that sees, their places in a prompt, and what it writes
//! about them.

mod patches;
mod places;

pub use patches::Patches;

use crate::picture::{Picture, Processor};
use crate::{Error, GenerateOptions, Generation, Message, Model, Result, Rows, Session, Tensor};
use tallow_executor::{Device, ExecutorError};
use tallow_frontends::families::PROCESSOR;
use tallow_frontends::families::vision_language::Sight;

/// Most pixels of all pictures of a text together, once resized.
const MOST_PIXELS: usize = 1 << 26;

/// The prompt that a session has seen pictures with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Looked {
    /// Its tokens, one for each row of a picture; empty where there are no pictures.
    ids: Vec<u32>,
    /// Of each picture the rows of the text that it is, down and across.
    cells: Vec<[usize; 2]>,
}

impl Model {
    /// The settings of a model that sees pictures in a text.
    fn sees(&self) -> Result<&Sight> {
        self.sight().ok_or_else(|| {
            let (label, kind) = (self.file().label(), self.file().config().model_type());
            Error::Usage(format!(
                "{label}: sees no pictures in a text: it is a `{kind}`, and those that do are of the types qwen2_vl and qwen2_5_vl"
            ))
        })
    }

    /// Pictures as the inputs of the part that sees: resized to whole patches, scaled and cut.
    ///
    /// # Errors
    /// A model that sees no pictures in a text; a config that does not say how pictures are prepared, or other patches than
    /// the model has; pictures that are too large together.
    pub fn patches(&self, pictures: &[Picture]) -> Result<Patches> {
        let sight = self.sees()?;
        let processor = self.processor(sight)?;
        let (mut values, mut grids, mut pixels) = (Vec::new(), Vec::new(), 0);
        for picture in pictures {
            let prepared = processor.pixels(picture)?;
            let (_, _, height, width) = prepared.dims4().map_err(ExecutorError::from)?;
            let side = sight.cell() as usize;
            if height % side != 0 || width % side != 0 {
                return Err(Error::Usage(format!(
                    "{}: a picture of {width} × {height} does not divide into squares of {side} pixels, and its config does not resize (`{PROCESSOR}.least_pixels`)",
                    self.file().label()
                )));
            }
            pixels += height * width;
            if pixels > MOST_PIXELS {
                return Err(Error::Usage(format!(
                    "the pictures have more than {MOST_PIXELS} pixels together; give fewer or smaller ones"
                )));
            }
            let planes = prepared.flatten_all().and_then(|p| p.to_vec1::<f32>()).map_err(ExecutorError::from)?;
            let (own, grid) = patches::cut(sight, &planes, [height, width]);
            values.extend(own);
            grids.push(grid);
        }
        Patches::new(sight, &values, &grids)
    }

    /// How pictures are prepared, checked against the sizes of the model.
    fn processor(&self, sight: &Sight) -> Result<Processor> {
        let (label, config) = (self.file().label(), self.file().config());
        let (Some(processor), Some(table)) = (Processor::of(config)?, config.architecture().table(PROCESSOR)?) else {
            return Err(Error::Usage(format!(
                "{label}: its config does not say how pictures are prepared (`[architecture.{PROCESSOR}]`, from the file \
                 preprocessor_config.json of the source)"
            )));
        };
        for (key, own) in [("patch", sight.patch), ("merge", sight.merge), ("frames", sight.frames)] {
            let found = table.u64(key)?;
            if found.is_some_and(|n| n != u64::from(own)) {
                let found = found.unwrap_or_default();
                return Err(Error::Usage(format!(
                    "{label}: `{PROCESSOR}.{key}` is {found}, and the model sees with {own}; correct the config"
                )));
            }
        }
        Ok(processor)
    }

    /// What the part that sees makes of pictures: f32 `[M, hidden]`, a row for each square of patches, picture by picture
    /// and row by row.
    ///
    /// # Errors
    /// A model that sees no pictures in a text; errors of running it.
    pub fn picture_rows(&self, patches: &Patches) -> Result<Tensor> {
        self.sees()?;
        let missing = || Error::Graph { file: self.file().label(), source: "it has no part that sees".into() };
        let program = self.once_program().cloned().ok_or_else(missing)?;
        let made = tallow_executor::Session::new(program).run(patches.inputs(), Rows::All)?;
        made.into_iter().find(|(name, _)| name == PICTURE).map(|(_, rows)| rows).ok_or_else(missing)
    }
}

/// The input of rows of pictures.
const PICTURE: &str = "picture";

/// The inputs of a text beside its tokens.
fn fixed(picture: Tensor, (places, rows): (Vec<i64>, Vec<i64>)) -> Result<Vec<(String, Tensor)>> {
    let made = || {
        let count = rows.len();
        let places = Tensor::from_vec(places, (3, count), &Device::Cpu)?;
        Ok([(PICTURE, picture), ("places", places), ("picture_rows", Tensor::from_vec(rows, count, &Device::Cpu)?)])
    };
    let made: std::result::Result<[(&str, Tensor); 3], tallow_executor::CandleError> = made();
    Ok(made.map_err(ExecutorError::from)?.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect())
}

impl Session {
    /// Answers a prompt about pictures, which stand before it in order; where the prompt itself holds the model's mark for a
    /// picture, as `<|image_pad|>`, they stand there. It goes through the chat template where the model has one.
    ///
    /// # Errors
    /// As [`Session::look`] and [`Session::generate_with`].
    pub fn generate_about(
        &mut self,
        pictures: &[Picture],
        prompt: &str,
        options: &GenerateOptions,
    ) -> Result<Generation<'_>> {
        let sight = self.model().sees()?.clone();
        if pictures.is_empty() {
            return self.generate_with(prompt, options);
        }
        let marked = self.encode(prompt)?.contains(&sight.image);
        if !options.raw && self.model().has_chat()? {
            let count = if marked { 0 } else { pictures.len() };
            return self.reply_about(pictures, &[Message::new("user", prompt).with_pictures(count)], options);
        }
        // A token that every text begins with stays in front.
        let begin = self.encode("")?;
        let mut ids = self.encode(prompt)?;
        if !marked {
            let at = begin.iter().zip(&ids).take_while(|(a, b)| a == b).count();
            let [before, after] = sight.around;
            let places = pictures.iter().flat_map(|_| [before, sight.image, after]);
            ids.splice(at..at, places);
        }
        let patches = self.model().patches(pictures)?;
        let ids = self.look(&patches, &ids)?;
        self.continue_ids(&ids, options)
    }

    /// Answers a conversation whose messages have pictures ([`Message::with_pictures`]), given here in order. Later answers
    /// of the same conversation come from [`Session::reply`], which sees the same pictures.
    ///
    /// # Errors
    /// As [`Session::look`] and [`Session::reply`].
    pub fn reply_about(
        &mut self,
        pictures: &[Picture],
        messages: &[Message],
        options: &GenerateOptions,
    ) -> Result<Generation<'_>> {
        self.model().sees()?;
        if pictures.is_empty() {
            return self.reply(messages, options);
        }
        let ids = self.encode_chat(messages)?;
        let patches = self.model().patches(pictures)?;
        self.look(&patches, &ids)?;
        self.reply(messages, options)
    }

    /// Looks at pictures for a prompt that holds the token of pictures once for each of them, or once for each of their
    /// rows. Gives the prompt with one for each row, which [`Session::continue_ids`] and [`Session::logits`] then take.
    /// What the session has seen before is forgotten.
    ///
    /// # Errors
    /// A model that sees no pictures in a text; places in the prompt for more or fewer pictures, or for videos; a prompt
    /// that the context does not hold; errors of running the model.
    pub fn look(&mut self, patches: &Patches, ids: &[u32]) -> Result<Vec<u32>> {
        let model = self.model().clone();
        let sight = model.sees()?;
        let label = model.file().label();
        let ids = places::spread(sight, ids, patches.cells()).map_err(|e| Error::Usage(format!("{label}: {e}")))?;
        if let Some(limit) = model.program().options().context.filter(|limit| ids.len() > *limit) {
            let rows: usize = patches.cells().iter().map(|[down, across]| down * across).sum();
            return Err(Error::Usage(format!(
                "{label}: the prompt has {} tokens, {rows} of them for pictures, and the context holds {limit}; give smaller pictures or a longer context (`--context`)",
                ids.len()
            )));
        }
        let picture = model.picture_rows(patches)?;
        let tables = places::tables(sight, &ids, patches.cells());
        let looked = Looked { ids: ids.clone(), cells: patches.cells().to_vec() };
        self.set_looked(fixed(picture, tables)?, looked);
        Ok(ids)
    }

    /// The tokens of a prompt with one for each row of the pictures that the session has looked at.
    pub(crate) fn spread(&self, ids: &[u32]) -> Vec<u32> {
        let spread = self.model().sight().map(|sight| places::spread(sight, ids, &self.looked().cells));
        spread.and_then(std::result::Result::ok).unwrap_or_else(|| ids.to_vec())
    }

    /// Makes sure that the session has looked at the pictures of a text, or of its beginning, as [`Session::look`] does; one
    /// without pictures needs none.
    pub(crate) fn check_looked(&mut self, ids: &[u32]) -> Result<()> {
        let model = self.model().clone();
        let Some(sight) = model.sight() else { return Ok(()) };
        let sees = |ids: &[u32]| ids.contains(&sight.image) || ids.contains(&sight.video);
        let looked = &self.looked().ids;
        match ids.strip_prefix(looked.as_slice()) {
            Some(rest) if !sees(rest) => return Ok(()),
            None if looked.starts_with(ids) && sees(ids) => return Ok(()),
            _ => {}
        }
        if sees(ids) {
            let label = model.file().label();
            let count = |token: u32| ids.iter().filter(|&&id| id == token).count();
            let (pictures, videos) = (count(sight.image), count(sight.video));
            return Err(Error::Usage(format!(
                "{label}: the text has {pictures} tokens for pictures and {videos} for videos, and the session has not looked at such pictures with this text; give them beside the prompt (`tallow run MODEL --image FILE \"…\"`)",
            )));
        }
        self.set_looked(nothing(&model)?, Looked::default());
        Ok(())
    }
}

/// The inputs of a text without pictures.
pub(crate) fn nothing(model: &Model) -> Result<Vec<(String, Tensor)>> {
    let input = model.program().plan().inputs.iter().find(|input| input.name == PICTURE);
    let width = input.and_then(|input| input.ty.shape.dims().last()?.as_const()).unwrap_or(1);
    let none = Tensor::zeros((1, width as usize), tallow_executor::DType::F32, &Device::Cpu);
    fixed(none.map_err(ExecutorError::from)?, (vec![0; 3], vec![0]))
}
