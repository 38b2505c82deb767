//! Resizing, by the filters and in the order of Pillow: along rows, then along columns, bytes in between.

use image::RgbImage;

/// How a pixel is made from those around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// The nearest.
    Nearest,
    /// Triangles.
    Bilinear,
    /// Keys' cubic with a = −0.5.
    Bicubic,
    /// A sinc in a window of three.
    Lanczos,
}

impl Filter {
    /// How far it reaches.
    fn support(self) -> f64 {
        match self {
            Filter::Nearest => 0.5,
            Filter::Bilinear => 1.0,
            Filter::Bicubic => 2.0,
            Filter::Lanczos => 3.0,
        }
    }

    fn weight(self, x: f64) -> f64 {
        let x = x.abs();
        let sinc = |x: f64| if x == 0.0 { 1.0 } else { (std::f64::consts::PI * x).sin() / (std::f64::consts::PI * x) };
        match self {
            _ if x >= self.support() => 0.0,
            Filter::Nearest => 1.0,
            Filter::Bilinear => 1.0 - x,
            Filter::Bicubic if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
            Filter::Bicubic => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
            Filter::Lanczos => sinc(x) * sinc(x / 3.0),
        }
    }

    /// For each of `to` places the first of `from` places that it is made from, and their shares. The filter is widened where
    /// there are fewer.
    fn shares(self, from: usize, to: usize) -> Vec<(usize, Vec<f64>)> {
        let scale = from as f64 / to as f64;
        if self == Filter::Nearest {
            return (0..to).map(|i| ((((i as f64 + 0.5) * scale) as usize).min(from - 1), vec![1.0])).collect();
        }
        let wide = scale.max(1.0);
        let reach = self.support() * wide;
        (0..to)
            .map(|i| {
                let centre = (i as f64 + 0.5) * scale;
                let first = (centre - reach + 0.5).max(0.0) as usize;
                let last = ((centre + reach + 0.5) as usize).min(from);
                let mut shares: Vec<f64> =
                    (first..last).map(|x| self.weight((x as f64 - centre + 0.5) / wide)).collect();
                let sum: f64 = shares.iter().sum();
                if sum != 0.0 {
                    shares.iter_mut().for_each(|s| *s /= sum);
                }
                (first, shares)
            })
            .collect()
    }
}

/// The picture in another size.
pub(super) fn resize(picture: &RgbImage, width: u32, height: u32, filter: Filter) -> RgbImage {
    let across = filter.shares(picture.width() as usize, width as usize);
    let wide = RgbImage::from_fn(width, picture.height(), |x, y| {
        let (first, shares) = &across[x as usize];
        mix(shares, |i| picture.get_pixel((first + i) as u32, y).0)
    });
    let down = filter.shares(picture.height() as usize, height as usize);
    RgbImage::from_fn(width, height, |x, y| {
        let (first, shares) = &down[y as usize];
        mix(shares, |i| wide.get_pixel(x, (first + i) as u32).0)
    })
}

/// Pixels by their shares, rounded.
fn mix(shares: &[f64], pixel: impl Fn(usize) -> [u8; 3]) -> image::Rgb<u8> {
    let mut sums = [0.0; 3];
    for (i, share) in shares.iter().enumerate() {
        for (sum, byte) in sums.iter_mut().zip(pixel(i)) {
            *sum += share * f64::from(byte);
        }
    }
    image::Rgb(sums.map(|sum| (sum + 0.5).floor().clamp(0.0, 255.0) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sum_to_one_and_the_same_size_is_the_same_picture() {
        for filter in [Filter::Nearest, Filter::Bilinear, Filter::Bicubic, Filter::Lanczos] {
            for (from, to) in [(1, 7), (7, 1), (10, 10), (13, 29), (640, 224)] {
                for (first, shares) in filter.shares(from, to) {
                    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9 && first + shares.len() <= from);
                }
            }
            let picture = RgbImage::from_fn(5, 4, |x, y| image::Rgb([(x * 50) as u8, (y * 60) as u8, 7]));
            assert_eq!(resize(&picture, 5, 4, filter), picture);
        }
    }
}
