//! Picture files.

use super::{LONGEST_SIDE, MOST_BYTES, bytes};
use crate::{Error, Result};
use image::{DynamicImage, GrayImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage};
use std::borrow::Cow;
use std::io::{Cursor, Read as _};
use std::path::Path;

/// The most pixels of a picture: more is an error to Pillow, and so to the image processors of `transformers`.
const MOST_PIXELS: u64 = 178_956_970;

/// A picture: rows of red, green and blue, and how opaque each pixel is.
#[derive(Clone, Debug)]
pub struct Picture {
    pixels: RgbImage,
    /// How opaque its pixels are, where not all are wholly so.
    alpha: Option<GrayImage>,
    /// Pictures of its file.
    count: usize,
}

impl Picture {
    /// Reads a PNG, JPEG, WebP, GIF or BMP file, upright as its metadata say.
    ///
    /// # Errors
    /// A file that cannot be read, or is no picture that is known, or cut off, or too large.
    pub fn read(path: &Path) -> Result<Self> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        let about = std::fs::metadata(path).map_err(io)?;
        if !about.is_dir() && !about.is_file() {
            return Err(Error::Usage(format!("{}: is no regular file; give a picture file", path.display())));
        }
        if about.is_dir() {
            return Err(Error::Usage(format!("{}: is a folder; give a picture file", path.display())));
        }
        let fault = |cause: String| Error::Graph { file: path.display().to_string(), source: cause.into() };
        // By its content, whatever it is called.
        let mut content = Vec::new();
        std::fs::File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut content)).map_err(io)?;
        if content.len() as u64 > MOST_BYTES {
            return Err(fault(format!("has more than {MOST_BYTES} bytes; give a smaller picture")));
        }
        let mut reader = ImageReader::new(Cursor::new(content.as_slice())).with_guessed_format().map_err(io)?;
        if reader.format().is_none() {
            return Err(fault("is no picture; PNG, JPEG, WebP, GIF and BMP are read".into()));
        }
        // Its decoder fills up what is missing.
        if reader.format() == Some(ImageFormat::Jpeg) && !bytes::jpeg_is_whole(&content) {
            return Err(fault("is cut off: a JPEG file ends with the bytes ff d9 behind its picture".into()));
        }
        let count = reader.format().map_or(1, |format| bytes::count(&content, format));
        let mut limits = Limits::no_limits();
        limits.max_alloc = Some(MOST_BYTES);
        reader.limits(limits);
        let damaged = |e: image::ImageError| fault(format!("cannot be read as a picture: {e}"));
        let mut decoder = reader.into_decoder().map_err(damaged)?;
        let (width, height) = decoder.dimensions();
        if width.max(height) > LONGEST_SIDE {
            let cause = format!("is {width} × {height}, and no side may be longer than {LONGEST_SIDE} pixels");
            return Err(fault(format!("{cause}; give a smaller picture")));
        }
        let pixels = u64::from(width) * u64::from(height);
        if pixels > MOST_PIXELS {
            return Err(fault(format!(
                "has {width} × {height} = {pixels} pixels, and at most {MOST_PIXELS} are read; give a smaller picture"
            )));
        }
        let upright = decoder.orientation().map_err(damaged)?;
        let mut picture = DynamicImage::from_decoder(decoder).map_err(damaged)?;
        picture.apply_orientation(upright);
        let alpha = picture.color().has_alpha().then(|| opacity(&picture)).flatten();
        Ok(Picture { pixels: picture.into_rgb8(), alpha, count })
    }

    /// How many pictures its file holds, of which this is the first: more than one of an animation.
    pub fn count(&self) -> usize {
        self.count
    }

    /// A picture of this width and height without meaning.
    pub(crate) fn made([width, height]: [u32; 2]) -> Self {
        let pixels = RgbImage::from_fn(width, height, |x, y| {
            let wave = |step: u32| (127.0 + 127.0 * f64::from(x * step + y).sin()) as u8;
            image::Rgb([wave(1), wave(2), wave(3)])
        });
        Picture { pixels, alpha: None, count: 1 }
    }

    /// Its pixels: on white, as `convert_to_rgb` of `transformers` puts them, or as if they were opaque.
    pub(super) fn pixels(&self, on_white: bool) -> Cow<'_, RgbImage> {
        let Some(alpha) = self.alpha.as_ref().filter(|_| on_white) else { return Cow::Borrowed(&self.pixels) };
        let mut made = self.pixels.clone();
        for (pixel, alpha) in made.pixels_mut().zip(alpha.pixels()) {
            pixel.0.iter_mut().for_each(|colour| *colour = on_white_of(*colour, alpha.0[0]));
        }
        Cow::Owned(made)
    }

    /// Width and height.
    pub fn size(&self) -> (u32, u32) {
        self.pixels.dimensions()
    }
}

/// How opaque the pixels of a picture are; `None` where all are wholly so.
fn opacity(picture: &DynamicImage) -> Option<GrayImage> {
    let (width, height) = (picture.width(), picture.height());
    let alpha: Vec<u8> = match picture {
        DynamicImage::ImageRgba8(image) => image.pixels().map(|pixel| pixel.0[3]).collect(),
        DynamicImage::ImageLumaA8(image) => image.pixels().map(|pixel| pixel.0[1]).collect(),
        other => other.to_rgba8().pixels().map(|pixel| pixel.0[3]).collect(),
    };
    let opaque = alpha.iter().all(|&a| a == u8::MAX);
    GrayImage::from_vec(width, height, alpha).filter(|_| !opaque)
}

/// A channel of a pixel on white, rounded as Pillow's `alpha_composite` does.
fn on_white_of(colour: u8, alpha: u8) -> u8 {
    let (colour, alpha) = (u32::from(colour), u32::from(alpha));
    let sum = (colour * alpha + 255 * (255 - alpha)) * 128 + (128 << 7);
    ((((sum >> 8) + sum) >> 8) >> 7) as u8
}

#[cfg(test)]
mod tests {
    use super::on_white_of;

    #[test]
    fn what_is_transparent_is_white_and_what_is_opaque_stays() {
        // By Pillow's `alpha_composite`.
        assert_eq!([0, 9, 255].map(|c| on_white_of(c, 0)), [255; 3]);
        assert!((0..=255).all(|c| on_white_of(c, 255) == c));
        assert_eq!([(200, 77), (3, 128), (100, 254)].map(|(c, a)| on_white_of(c, a)), [238, 129, 101]);
    }
}
