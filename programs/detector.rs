//! A one-stage detector of the YOLO kind (version 8's modules and names): a backbone of convolutions with batch norm
//! and silu, a neck that joins three scales, and at each cell of each scale a box and a score for every class. Boxes
//! are distributions over distances from the cell's centre; of those that overlap the best stays.

use cyb::nn::{Config, Tensor, Weights};

/// What was found, best first. A class is a number; boxes of different classes do not displace each other.
pub struct Detections {
    /// `[found, 4]`: x1, y1, x2, y2 in pixels of the input.
    boxes: Tensor,
    /// `[found]`: 0 to 1.
    scores: Tensor,
    /// `[found]`
    classes: Tensor,
}

/// `image`: `[1, 3, image_height, image_width]`, values 0 to 1, sides multiples of 32.
pub fn forward(image: &Tensor, config: &Config, w: &Weights) -> Detections {
    let a = &config.architecture;
    let c = &a.widths;
    let d = &a.depths;
    let image = image.reshape([1, 3, a.image_height, a.image_width]);

    let x = conv(&image, "model.0", c[0], 3, 2, w);
    let x = c2f(&conv(&x, "model.1", c[1], 3, 2, w), "model.2", c[1], d[0], true, w);
    let fine = c2f(&conv(&x, "model.3", c[2], 3, 2, w), "model.4", c[2], d[1], true, w);
    let middle = c2f(&conv(&fine, "model.5", c[3], 3, 2, w), "model.6", c[3], d[2], true, w);
    let coarse = c2f(&conv(&middle, "model.7", c[4], 3, 2, w), "model.8", c[4], d[3], true, w);
    let coarse = pyramid(&coarse, "model.9", c[4], w);

    // Down from the coarse scale, then up again.
    let middle = c2f(&coarse.upsample(2).concat(&middle, 1), "model.12", c[3], d[0], false, w);
    let fine = c2f(&middle.upsample(2).concat(&fine, 1), "model.15", c[2], d[0], false, w);
    let x = conv(&fine, "model.16", c[2], 3, 2, w).concat(&middle, 1);
    let middle = c2f(&x, "model.18", c[3], d[0], false, w);
    let x = conv(&middle, "model.19", c[3], 3, 2, w).concat(&coarse, 1);
    let coarse = c2f(&x, "model.21", c[4], d[0], false, w);

    let mut boxes = vec![];
    let mut scores = vec![];
    for (i, x) in [fine, middle, coarse].iter().enumerate() {
        let stride = 8 << i;
        boxes.push(boxes_of(x, &format!("model.22.cv2.{i}"), stride, config, w));
        scores.push(scores_of(x, &format!("model.22.cv3.{i}"), config, w));
    }
    keep(&Tensor::concat(&boxes, 0), &Tensor::concat(&scores, 0), config)
}

/// Convolution, batch norm (the sibling `bn` of `conv`), silu.
fn conv(x: &Tensor, name: &str, out: usize, kernel: usize, stride: usize, w: &Weights) -> Tensor {
    w.conv2d(x, format!("{name}.conv"), out, kernel, stride).silu()
}

/// Half the channels go through `depth` bottlenecks, and every step of that way goes into the last convolution.
fn c2f(x: &Tensor, name: &str, out: usize, depth: usize, skip: bool, w: &Weights) -> Tensor {
    let mut parts = conv(x, &format!("{name}.cv1"), out, 1, 1, w).chunk(2, 1);
    for i in 0..depth {
        let last = parts[parts.len() - 1].clone();
        let y = conv(&last, &format!("{name}.m.{i}.cv1"), out / 2, 3, 1, w);
        let y = conv(&y, &format!("{name}.m.{i}.cv2"), out / 2, 3, 1, w);
        parts.push(if skip { last.add(&y) } else { y });
    }
    conv(&Tensor::concat(&parts, 1), &format!("{name}.cv2"), out, 1, 1, w)
}

/// Maxima over ever wider windows side by side.
fn pyramid(x: &Tensor, name: &str, out: usize, w: &Weights) -> Tensor {
    let a = conv(x, &format!("{name}.cv1"), out / 2, 1, 1, w);
    let b = a.max_pool2d(5, 1, 2);
    let c = b.max_pool2d(5, 1, 2);
    let d = c.max_pool2d(5, 1, 2);
    conv(&Tensor::concat(&[a, b, c, d], 1), &format!("{name}.cv2"), out, 1, 1, w)
}

/// Two convolutions and a plain one: `[cells, out]`, cells row by row.
fn branch(x: &Tensor, name: &str, out: usize, w: &Weights) -> Tensor {
    let width = w.shape(format!("{name}.0.conv"))[0];
    let x = conv(x, &format!("{name}.0"), width, 3, 1, w);
    let x = conv(&x, &format!("{name}.1"), width, 3, 1, w);
    w.conv2d(&x, format!("{name}.2"), out, 1, 1).flatten_patches().squeeze(0)
}

/// Boxes `[cells, 4]` in pixels. Each distance from the centre (left, top, right, bottom) is the mean of a distribution
/// over 0 … bins − 1 cells.
fn boxes_of(x: &Tensor, name: &str, stride: usize, config: &Config, w: &Weights) -> Tensor {
    let bins = config.architecture.reg_max;
    let (rows, columns) = (x.dim(2), x.dim(3));
    let shares = branch(x, name, 4 * bins, w).reshape([rows * columns, 4, bins]).softmax(-1);
    let distances = shares.mul(&Tensor::arange(bins).cast("f32")).sum(-1);

    let across = Tensor::arange(columns).cast("f32").add(0.5).repeat([rows]);
    let down = Tensor::arange(rows).cast("f32").add(0.5).repeat_each(columns, 0);
    let centres = Tensor::stack(&[across, down], 1);
    let first = centres.sub(&distances.slice(1, 0, 2));
    let second = centres.add(&distances.slice(1, 2, 4));
    first.concat(&second, 1).scale(stride)
}

/// Scores `[cells, classes]`.
fn scores_of(x: &Tensor, name: &str, config: &Config, w: &Weights) -> Tensor {
    branch(x, name, config.architecture.num_classes, w).sigmoid()
}

/// The best class of each cell; of boxes of one class that overlap too much the best.
fn keep(boxes: &Tensor, scores: &Tensor, config: &Config) -> Detections {
    let a = &config.architecture;
    let best = scores.max(-1);
    let classes = scores.argmax(-1);
    // Classes are moved so far apart that their boxes cannot meet.
    let apart = 2 * (a.image_height + a.image_width + 32 * a.reg_max);
    let moved = boxes.add(&classes.cast("f32").scale(apart).unsqueeze(1));
    let kept = moved.non_max_suppression(&best, a.iou_threshold, a.score_threshold, a.max_detections);
    Detections { boxes: boxes.gather(0, &kept), scores: best.gather(0, &kept), classes: classes.gather(0, &kept) }
}
