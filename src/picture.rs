//! Pictures in files, and as the input of a model.

mod bytes;
mod compare;
mod file;
mod resize;

pub(crate) use compare::no_picture;
pub use file::Picture;

use crate::text::{Label, Labels};
use crate::{Error, Model, Rows, Tensor};
use image::RgbImage;
use resize::Filter;
use tallow_executor::Device;
use tallow_format::{Config, Section};
use tallow_frontends::families::PROCESSOR;
use tallow_frontends::families::vision::IMAGE_EMBEDS;
use tallow_ir::{DType, Dim};

type Result<T> = crate::Result<T>;

/// No side of a picture may be longer.
const LONGEST_SIDE: u32 = 32_768;
/// No picture that becomes whole patches is longer in one direction by more than this factor.
const MOST_STRETCHED: u32 = 200;
/// Most bytes of a picture, as a file and decoded.
const MOST_BYTES: u64 = 1 << 30;

/// How pictures become the input of a model: resized, cropped, scaled, normalised, as the image processors of
/// `transformers` do.
#[derive(Clone, Debug, PartialEq)]
pub struct Processor {
    resize: Option<(Resize, Filter)>,
    /// Height and width cut out of the middle.
    crop: Option<[u32; 2]>,
    /// Bytes times this.
    factor: f32,
    /// Subtracted from each channel, which is then divided by the deviation.
    mean: Vec<f32>,
    deviation: Vec<f32>,
    /// Whether a transparent picture is put on white; else its colours are taken as if it were opaque.
    white: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Resize {
    /// To this height and width.
    To([u32; 2]),
    /// The shorter side to this, the other in proportion.
    Shortest(u32),
    /// To whole multiples of a length, with at least and at most so many pixels.
    Whole { multiple: u32, least: u64, most: u64 },
}

impl Processor {
    /// Reads `[architecture.processor]`; `None` where a config has none.
    ///
    /// # Errors
    /// Settings that are wrong.
    pub fn of(config: &Config) -> Result<Option<Self>> {
        match config.architecture().table(PROCESSOR)? {
            Some(table) => Self::read(&table).map(Some),
            None => Ok(None),
        }
    }

    fn read(table: &Section<'_>) -> Result<Self> {
        let side = |n: u64| u32::try_from(n).ok().filter(|n| (1..=LONGEST_SIDE).contains(n));
        let wrong = |key: &str, found: String, expected: &str| Error::Format(table.invalid(key, &found, expected));
        let pair = |key: &str| -> Result<Option<[u32; 2]>> {
            let Some(list) = table.u64s(key)? else { return Ok(None) };
            match list.as_slice() {
                [h, w] => side(*h).zip(side(*w)).map(|(h, w)| Some([h, w])),
                _ => None,
            }
            .ok_or_else(|| wrong(key, format!("{list:?}"), "a height and a width in pixels"))
        };
        let resize = match (pair("size")?, table.u64("shortest_edge")?) {
            (Some(size), _) => Some(Resize::To(size)),
            (None, Some(n)) => {
                let edge = side(n).ok_or_else(|| wrong("shortest_edge", n.to_string(), "a length in pixels"))?;
                Some(Resize::Shortest(edge))
            }
            (None, None) => whole(table)?,
        };
        let filter = match table.str("resample")? {
            None | Some("bilinear") => Filter::Bilinear,
            Some("bicubic") => Filter::Bicubic,
            Some("lanczos") => Filter::Lanczos,
            Some("nearest") => Filter::Nearest,
            Some(other) => {
                return Err(wrong("resample", format!("\"{other}\""), "nearest, bilinear, bicubic or lanczos"));
            }
        };
        let numbers = |key: &str| -> Result<Vec<f32>> {
            Ok(table.f64s(key)?.unwrap_or_default().into_iter().map(|x| x as f32).collect())
        };
        let (mean, deviation) = (numbers("mean")?, numbers("deviation")?);
        if ![0, 3].contains(&mean.len()) || mean.len() != deviation.len() || deviation.contains(&0.0) {
            return Err(wrong(
                "mean",
                format!("{mean:?} with deviations {deviation:?}"),
                "three numbers each, none of the latter 0",
            ));
        }
        let white = match table.str("background")? {
            None => false,
            Some("white") => true,
            Some(other) => return Err(wrong("background", format!("\"{other}\""), "white")),
        };
        let factor = table.f64("rescale_factor")?.unwrap_or(1.0) as f32;
        Ok(Processor { resize: resize.map(|r| (r, filter)), crop: pair("crop")?, factor, mean, deviation, white })
    }

    /// The pixels of a picture: `f32` `[1, 3, height, width]`.
    ///
    /// # Errors
    /// A size that is not possible.
    pub fn pixels(&self, picture: &Picture) -> Result<Tensor> {
        let resized = match self.resize {
            Some((resize, filter)) => resized(&picture.pixels(self.white), resize, filter)?,
            None => picture.pixels(self.white).into_owned(),
        };
        let (width, height) = resized.dimensions();
        let [rows, columns] = self.crop.unwrap_or([height, width]);
        // A picture that is too small stands in the middle of black; of an odd rest the larger half comes behind.
        let offset = |inner: u32, outer: u32| (i64::from(outer) - i64::from(inner)) / 2;
        let (top, left) = (offset(rows, height), offset(columns, width));
        let (rows, columns) = (rows as usize, columns as usize);
        let mut values = vec![0.0_f32; 3 * rows * columns];
        for (channel, plane) in values.chunks_exact_mut(rows * columns).enumerate() {
            let (mean, deviation) = match self.mean.get(channel).zip(self.deviation.get(channel)) {
                Some((mean, deviation)) => (*mean, *deviation),
                None => (0.0, 1.0),
            };
            for (y, row) in plane.chunks_exact_mut(columns).enumerate() {
                for (x, value) in row.iter_mut().enumerate() {
                    let at = (x as i64 + left, y as i64 + top);
                    let inside = (0..i64::from(width)).contains(&at.0) && (0..i64::from(height)).contains(&at.1);
                    let byte = if inside { resized.get_pixel(at.0 as u32, at.1 as u32).0[channel] } else { 0 };
                    *value = (f32::from(byte) * self.factor - mean) / deviation;
                }
            }
        }
        let made = Tensor::from_vec(values, (1, 3, rows, columns), &Device::Cpu);
        Ok(made.map_err(tallow_executor::ExecutorError::from)?)
    }
}

/// The resized picture, with the filter widened where it becomes smaller, as Pillow does.
fn resized(picture: &RgbImage, resize: Resize, filter: Filter) -> Result<RgbImage> {
    let (width, height) = picture.dimensions();
    let [to_height, to_width] = match resize {
        Resize::To(size) => size,
        Resize::Shortest(edge) => {
            let long = |long: u32, short: u32| (u64::from(edge) * u64::from(long) / u64::from(short.max(1))) as u32;
            match width <= height {
                true => [long(height, width), edge],
                false => [edge, long(width, height)],
            }
        }
        Resize::Whole { multiple, least, most } => whole_size([height, width], multiple, least, most)?,
    };
    let fault = |cause: String| Error::Usage(format!("a picture of {width} × {height} cannot be resized: {cause}"));
    if to_width > LONGEST_SIDE || to_height > LONGEST_SIDE || to_width == 0 || to_height == 0 {
        return Err(fault(format!("it would be {to_width} × {to_height}")));
    }
    if (to_width, to_height) == (width, height) {
        return Ok(picture.clone());
    }
    Ok(resize::resize(picture, to_width, to_height, filter))
}

/// A resizing to whole squares of patches, of a model that sees pictures in a text.
fn whole(table: &Section<'_>) -> Result<Option<Resize>> {
    let (Some(least), Some(most)) = (table.u64("least_pixels")?, table.u64("most_pixels")?) else { return Ok(None) };
    let sizes = table.u64("patch")?.zip(table.u64("merge")?).and_then(|(patch, merge)| patch.checked_mul(merge));
    let multiple = sizes.and_then(|n| u32::try_from(n).ok()).filter(|n| (1..=LONGEST_SIDE).contains(n));
    let Some(multiple) = multiple else {
        return Err(Error::Format(table.invalid("patch", "sizes of patches", "`patch` and `merge`, lengths above 0")));
    };
    if most == 0 || least > most || most > MOST_BYTES {
        let found = format!("{least} and {most}");
        return Err(Error::Format(table.invalid(
            "most_pixels",
            &found,
            "a number of pixels that `least_pixels` is not above",
        )));
    }
    Ok(Some(Resize::Whole { multiple, least, most }))
}

/// Both sides as whole multiples, halves to the even one, then scaled to have at least and at most so many pixels: the
/// `smart_resize` of Qwen2-VL.
fn whole_size([height, width]: [u32; 2], multiple: u32, least: u64, most: u64) -> Result<[u32; 2]> {
    if height.max(width) > MOST_STRETCHED * height.min(width) {
        return Err(Error::Usage(format!(
            "a picture of {width} × {height} cannot be resized: one side may be at most {MOST_STRETCHED} times the other"
        )));
    }
    let m = f64::from(multiple);
    let sides = [height, width].map(f64::from);
    let pixels = sides[0] * sides[1];
    let whole = sides.map(|n| (n / m).round_ties_even() * m);
    let both = whole[0] * whole[1];
    let sides = if both > most as f64 {
        let by = (pixels / most as f64).sqrt();
        sides.map(|n| ((n / by / m).floor() * m).max(m))
    } else if both < least as f64 {
        let by = (least as f64 / pixels).sqrt();
        sides.map(|n| (n * by / m).ceil() * m)
    } else {
        whole
    };
    Ok(sides.map(|n| n as u32))
}

/// What a model says of a picture.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// Classes with their probabilities, the likeliest first.
    Labels(Vec<Label>),
    /// Numbers that stand for the picture.
    Embedding(Vec<f32>),
}

impl Model {
    /// The input that takes a picture, `[batch, 3, height, width]`, with the height and width that it wants, where they are
    /// fixed; `None` for a model without one.
    pub fn picture_input(&self) -> Option<(String, Option<[u64; 2]>)> {
        let plans = self.once().into_iter().chain([self.program().plan()]);
        plans.flat_map(|plan| &plan.inputs).find_map(|input| {
            let dims = input.ty.shape.dims();
            let fixed = |d: &Dim| d.as_const().and_then(|n| u64::try_from(n).ok());
            match dims {
                [_, channels, h, w] if input.ty.dtype == DType::F32 && fixed(channels).is_none_or(|n| n == 3) => {
                    Some((input.name.clone(), fixed(h).zip(fixed(w)).map(|(h, w)| [h, w])))
                }
                _ => None,
            }
        })
    }

    /// A picture as the input of this model, by its name.
    ///
    /// # Errors
    /// A model that takes no picture, or whose config does not say how pictures are prepared.
    pub fn picture(&self, picture: &Picture) -> Result<(String, Tensor)> {
        let label = self.file().label();
        let Some((name, size)) = self.picture_input() else {
            return Err(Error::Usage(format!("{label}: takes no picture; it takes {}", self.signature())));
        };
        let Some(processor) = Processor::of(self.file().config())? else {
            return Err(Error::Usage(format!(
                "{label}: its config does not say how pictures are prepared (`[architecture.processor]`, from the file \
                 preprocessor_config.json of the source); give prepared pixels: `--input {name}=FILE.npy`"
            )));
        };
        let pixels = processor.pixels(picture)?;
        let found = pixels.dims()[2..].iter().map(|&n| n as u64).collect::<Vec<_>>();
        if let Some(wanted) = size.filter(|wanted| found != *wanted) {
            return Err(Error::Usage(format!(
                "{label}: `[architecture.processor]` makes pictures of {found:?} (height, width), and `{name}` takes {wanted:?}"
            )));
        }
        Ok((name, pixels))
    }

    /// What the part that takes a picture gives for it.
    fn outputs_for(&self, input: (String, Tensor)) -> Result<Vec<(String, Tensor)>> {
        let mut session = self.session()?;
        if self.takes_once(&input.0) {
            return session.once(&[input]);
        }
        Ok(match self.compiled() {
            Some(_) => match session.answer(&[input])? {
                crate::compiled::Answer::Tensors(outputs) => outputs,
                crate::compiled::Answer::Value(_) => Vec::new(),
            },
            None => session.run(&[input], Rows::All)?,
        })
    }

    /// What the model says of a picture: its labels, or the vector that stands for it.
    ///
    /// # Errors
    /// As [`Model::picture`]; a model that gives neither one row of numbers nor needs nothing else beside the picture.
    pub fn see(&self, picture: &Picture) -> Result<Seen> {
        let outputs = self.outputs_for(self.picture(picture)?)?;
        let row = |tensor: &Tensor| match tensor.dims() {
            [_] | [1, _] => Some(tensor.clone()),
            _ => None,
        };
        let named = ["logits", IMAGE_EMBEDS].iter().find_map(|name| outputs.iter().find(|(n, _)| n == name));
        let found = named.or_else(|| outputs.iter().find(|(_, t)| row(t).is_some())).and_then(|(_, t)| row(t));
        let Some(row) = found else {
            return Err(Error::Usage(format!(
                "{}: gives no row of numbers for a picture; run it by its inputs (`--input`)",
                self.file().label()
            )));
        };
        let values =
            row.flatten_all().and_then(|t| t.to_vec1::<f32>()).map_err(tallow_executor::ExecutorError::from)?;
        let labels = Labels::of(self)?;
        let classifies =
            labels.named() == values.len() || self.file().tensors().iter().any(|t| t.name.contains("classifier"));
        if !classifies {
            return Ok(Seen::Embedding(values));
        }
        Ok(Seen::Labels(labels.of_text(&values)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_whole_multiples_within_the_bounds() {
        // As `smart_resize` of transformers has them: height, width, multiple, least, most, and both sides.
        for (height, width, multiple, least, most, wanted) in [
            (45, 27, 8, 256, 1024, [40, 24]),
            (22, 13, 8, 384, 1024, [24, 16]),
            (1080, 1920, 28, 3136, 1_003_520, [728, 1316]),
            (42, 70, 28, 784, 1_000_000, [56, 56]),
            (98, 126, 28, 3136, 1_003_520, [112, 112]),
            (5, 900, 28, 3136, 1_000_000, [28, 756]),
            (1, 150, 28, 3136, 1_003_520, [28, 700]),
            (4000, 3000, 28, 3136, 12_845_056, [4004, 2996]),
        ] {
            assert_eq!(whole_size([height, width], multiple, least, most).unwrap(), wanted, "{height} × {width}");
        }
        let error = whole_size([1, 201], 28, 3136, 1_003_520).unwrap_err().to_string();
        assert!(error.contains("201 × 1") && error.contains("200 times"), "{error}");
    }

    #[test]
    fn sizes_of_patches_that_cannot_be_are_refused_by_name() {
        let read = |lines: &str| {
            let text = format!("model_type = \"qwen2_vl\"\n[architecture.processor]\n{lines}");
            Processor::of(&Config::parse(&text).unwrap()).map(|p| p.unwrap().resize)
        };
        let whole = |least, most| Some((Resize::Whole { multiple: 28, least, most }, Filter::Bicubic));
        let sizes = "patch = 14\nmerge = 2\nresample = \"bicubic\"\n";
        assert_eq!(read(&format!("{sizes}least_pixels = 3136\nmost_pixels = 9999\n")).unwrap(), whole(3136, 9999));
        for (lines, key) in [
            ("patch = 14\nmerge = 0\nleast_pixels = 1\nmost_pixels = 9\n", "patch"),
            ("least_pixels = 1\nmost_pixels = 9\n", "patch"),
            ("patch = 14\nmerge = 2\nleast_pixels = 10\nmost_pixels = 9\n", "most_pixels"),
            ("patch = 14\nmerge = 2\nleast_pixels = 0\nmost_pixels = 9999999999\n", "most_pixels"),
        ] {
            let error = read(lines).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
