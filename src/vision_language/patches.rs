//! Pictures cut into patches, in the order in which a tower takes them.

use crate::{Error, Result, Tensor};
use tallow_executor::{Device, ExecutorError};
use tallow_frontends::families::vision_language::Sight;

/// Pictures as the inputs of a tower.
#[derive(Clone, Debug)]
pub struct Patches {
    inputs: Vec<(String, Tensor)>,
    /// Of each picture the rows of the text that it becomes, down and across.
    cells: Vec<[usize; 2]>,
}

/// What becomes one row of the text: a square of patches.
struct Cell {
    /// The picture.
    picture: usize,
    /// Its window, of all in all pictures.
    window: usize,
    /// Its place in the picture, in cells.
    at: [usize; 2],
    /// Its number, of all in all pictures, row by row.
    number: usize,
}

impl Patches {
    /// Patches of pictures one after another. `values` are those of the image processor of `transformers`: of each picture
    /// squares of `merge²` patches, row by row, and of each patch channels, frames, rows and columns. `grids` are the
    /// patches of each picture down and across.
    ///
    /// # Errors
    /// Sizes that do not fit each other.
    pub fn new(sight: &Sight, values: &[f32], grids: &[[usize; 2]]) -> Result<Self> {
        let side = sight.merge as usize;
        let fault = |cause: String| Error::Usage(format!("patches of pictures: {cause}"));
        if let Some([down, across]) = grids.iter().find(|g| g.iter().any(|n| *n == 0 || n % side != 0)) {
            return Err(fault(format!("{down} × {across} of them do not divide into squares of {side} × {side}")));
        }
        let cells: Vec<[usize; 2]> = grids.iter().map(|[down, across]| [down / side, across / side]).collect();
        let count: usize = cells.iter().map(|[down, across]| down * across).sum();
        let of_cell = side * side * sight.patch_values();
        if count == 0 {
            return Err(fault("none are given".into()));
        }
        if values.len() != count * of_cell {
            let wanted = count * of_cell;
            return Err(fault(format!("{} values are given, and {grids:?} of them have {wanted}", values.len())));
        }
        let order = in_order(&cells, sight.window.map(|n| n as usize));
        let made = inputs(&order, values, side, sight);
        Ok(Patches { inputs: made.map_err(ExecutorError::from)?, cells })
    }

    /// The inputs of the tower.
    pub fn inputs(&self) -> &[(String, Tensor)] {
        &self.inputs
    }

    /// Of each picture the rows of the text that it becomes, down and across.
    pub fn cells(&self) -> &[[usize; 2]] {
        &self.cells
    }
}

/// All cells in the order in which the tower takes them: row by row, or window by window.
fn in_order(pictures: &[[usize; 2]], side: Option<usize>) -> Vec<Cell> {
    let mut order: Vec<Cell> = Vec::new();
    let (mut first, mut windows) = (0, 0);
    for (picture, &[down, across]) in pictures.iter().enumerate() {
        let side = side.unwrap_or(down.max(across));
        let places = (0..down).flat_map(|row| (0..across).map(move |column| [row, column]));
        let by_row = places.enumerate().map(|(at, place)| {
            let window = windows + place[0] / side * across.div_ceil(side) + place[1] / side;
            Cell { picture, window, at: place, number: first + at }
        });
        let mut cells: Vec<Cell> = by_row.collect();
        // Stable: inside a window row by row.
        cells.sort_by_key(|cell| cell.window);
        order.extend(cells);
        first += down * across;
        windows += down.div_ceil(side) * across.div_ceil(side);
    }
    order
}

fn inputs(
    order: &[Cell],
    values: &[f32],
    side: usize,
    sight: &Sight,
) -> std::result::Result<Vec<(String, Tensor)>, tallow_executor::CandleError> {
    let of_cell = side * side * sight.patch_values();
    let patches = order.len() * side * side;
    let mut pixels = Vec::with_capacity(values.len());
    let (mut rows, mut columns) = (Vec::with_capacity(2 * patches), Vec::with_capacity(patches));
    let (mut frames, mut windows) = (Vec::with_capacity(patches), Vec::with_capacity(patches));
    let mut back = vec![0_i64; order.len()];
    for (place, cell) in order.iter().enumerate() {
        pixels.extend_from_slice(&values[cell.number * of_cell..][..of_cell]);
        back[cell.number] = place as i64;
        for (row, column) in (0..side).flat_map(|row| (0..side).map(move |column| (row, column))) {
            rows.push((cell.at[0] * side + row) as i64);
            columns.push((cell.at[1] * side + column) as i64);
            frames.push(cell.picture as i64);
            windows.push(cell.window as i64);
        }
    }
    rows.extend(columns);
    let device = &Device::Cpu;
    let mut made = vec![
        ("pixel_values", Tensor::from_vec(pixels, (patches, sight.patch_values()), device)?),
        ("patch_places", Tensor::from_vec(rows, (2, patches), device)?),
        ("frames", Tensor::from_vec(frames, patches, device)?),
    ];
    if sight.window.is_some() {
        made.push(("windows", Tensor::from_vec(windows, patches, device)?));
        made.push(("order", Tensor::from_vec(back, order.len(), device)?));
    }
    Ok(made.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect())
}

/// The values of a prepared picture (`planes`: channels, rows, columns) in the order of [`Patches::new`], and how many
/// patches they are down and across; what is left over at the right and below is cut off.
pub(super) fn cut(sight: &Sight, planes: &[f32], [height, width]: [usize; 2]) -> (Vec<f32>, [usize; 2]) {
    let (patch, cell) = (sight.patch as usize, sight.cell() as usize);
    let (down, across) = (height / cell, width / cell);
    let mut values = Vec::with_capacity(sight.frames as usize * planes.len());
    let side = sight.merge as usize;
    for (row, column) in (0..down).flat_map(|row| (0..across).map(move |column| (row, column))) {
        for (top, left) in (0..side).flat_map(|top| (0..side).map(move |left| (top, left))) {
            let corner = (row * cell + top * patch) * width + column * cell + left * patch;
            for plane in planes.chunks_exact(height * width) {
                // A still picture is the same in all frames.
                for _ in 0..sight.frames {
                    (0..patch).for_each(|y| values.extend_from_slice(&plane[corner + y * width..][..patch]));
                }
            }
        }
    }
    (values, [down * side, across * side])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(window: Option<u32>) -> Sight {
        Sight { channels: 1, patch: 1, frames: 2, merge: 2, window, image: 9, video: 8, around: [6, 7] }
    }

    fn numbers(patches: &Patches, name: &str) -> Vec<i64> {
        let (_, tensor) = patches.inputs().iter().find(|(n, _)| n == name).unwrap();
        tensor.flatten_all().unwrap().to_vec1().unwrap()
    }

    #[test]
    fn a_picture_is_cut_into_squares_of_patches() {
        let planes: Vec<f32> = (0..16).map(|n| n as f32).collect();
        let (values, grid) = cut(&sight(None), &planes, [4, 4]);
        assert_eq!(grid, [4, 4]);
        assert_eq!(values[..8], [0.0, 0.0, 1.0, 1.0, 4.0, 4.0, 5.0, 5.0]);
        assert_eq!(values[8..12], [2.0, 2.0, 3.0, 3.0]);
        let patches = Patches::new(&sight(None), &values, &[grid]).unwrap();
        assert_eq!(patches.cells(), [[2, 2]]);
        assert_eq!(numbers(&patches, "patch_places")[..8], [0, 0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(numbers(&patches, "patch_places")[16..24], [0, 1, 0, 1, 2, 3, 2, 3]);
        assert_eq!(numbers(&patches, "frames"), [0; 16]);
    }

    #[test]
    fn cells_stand_window_by_window_and_go_back_row_by_row() {
        // 1 × 3 and 2 × 1 cells in windows of 2 × 2.
        let grids = [[2, 6], [4, 2]];
        let values: Vec<f32> = (0..2 * 20).map(|n| n as f32).collect();
        let patches = Patches::new(&sight(Some(2)), &values, &grids).unwrap();
        assert_eq!(numbers(&patches, "order"), [0, 1, 2, 3, 4]);
        let windows: Vec<i64> = numbers(&patches, "windows").into_iter().step_by(4).collect();
        assert_eq!(windows, [0, 0, 1, 2, 2]);
        // 2 × 3 cells: the third stands behind the four of the first window.
        let patches = Patches::new(&sight(Some(2)), &[0.0; 48], &[[4, 6]]).unwrap();
        assert_eq!(numbers(&patches, "order"), [0, 1, 4, 2, 3, 5]);
        assert!(Patches::new(&sight(None), &values, &[[2, 3]]).unwrap_err().to_string().contains("2 × 3"));
        assert!(Patches::new(&sight(None), &values[1..], &grids).unwrap_err().to_string().contains("39 values"));
        assert!(Patches::new(&sight(None), &[], &[]).unwrap_err().to_string().contains("none are given"));
    }
}
