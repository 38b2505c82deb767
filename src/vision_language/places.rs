//! Where pictures stand in a text, and the positions of its tokens.

use tallow_frontends::families::vision_language::Sight;

/// A prompt with the token of pictures once for each row of each, where it may hold it once for each picture; `cells` are
/// the rows of each picture, down and across.
///
/// # Errors
/// What is wrong with a prompt that has places for more or fewer pictures, or for videos.
pub(super) fn spread(sight: &Sight, ids: &[u32], cells: &[[usize; 2]]) -> Result<Vec<u32>, String> {
    if ids.contains(&sight.video) {
        return Err(format!("the prompt has a place for a video (token {}), and videos are not read", sight.video));
    }
    let places = ids.iter().filter(|&&id| id == sight.image).count();
    let rows = cells.iter().map(|[down, across]| down * across);
    if places == cells.len() {
        let mut rows = rows;
        let times = |id: u32, rows: &mut dyn Iterator<Item = usize>| match id == sight.image {
            true => rows.next().unwrap_or(0),
            false => 1,
        };
        return Ok(ids.iter().flat_map(|&id| std::iter::repeat_n(id, times(id, &mut rows))).collect());
    }
    if places == rows.sum::<usize>() && whole_runs(sight, ids, cells) {
        return Ok(ids.to_vec());
    }
    let s = |n: usize| if n == 1 { "" } else { "s" };
    Err(format!(
        "the prompt has {places} place{} for pictures (token {}), and {} picture{} {} given",
        s(places),
        sight.image,
        cells.len(),
        s(cells.len()),
        if cells.len() == 1 { "is" } else { "are" }
    ))
}

/// Whether the tokens of each picture stand together.
fn whole_runs(sight: &Sight, ids: &[u32], cells: &[[usize; 2]]) -> bool {
    let mut at = 0;
    cells.iter().all(|[down, across]| {
        let Some(first) = ids[at..].iter().position(|&id| id == sight.image) else { return false };
        let end = at + first + down * across;
        let whole = ids.get(at + first..end).is_some_and(|run| run.iter().all(|&id| id == sight.image));
        at = end.min(ids.len());
        whole
    })
}

/// The tables of a prompt of L tokens that [`spread`] has made: time, height and width of each token, then those of the
/// next one (`[3, L + 1]`), and the row of the picture for each, counted from 1, or 0 (`[L + 1]`).
pub(super) fn tables(sight: &Sight, ids: &[u32], cells: &[[usize; 2]]) -> (Vec<i64>, Vec<i64>) {
    let mut axes: [Vec<i64>; 3] = std::array::from_fn(|_| Vec::with_capacity(ids.len() + 1));
    let mut rows: Vec<i64> = Vec::with_capacity(ids.len() + 1);
    let mut put = |place: [i64; 3], row: i64| {
        axes.iter_mut().zip(place).for_each(|(axis, at)| axis.push(at));
        rows.push(row);
    };
    let (mut next, mut row, mut left) = (0_i64, 0_i64, 0_usize);
    let mut pictures = cells.iter();
    for &id in ids {
        if id != sight.image {
            put([next; 3], 0);
            next += 1;
        } else if left > 0 {
            left -= 1;
        } else if let Some(&[down, across]) = pictures.next() {
            // All at once; the tokens behind the first only count.
            for (y, x) in (0..down as i64).flat_map(|y| (0..across as i64).map(move |x| (y, x))) {
                row += 1;
                put([next, next + y, next + x], row);
            }
            next += down.max(across) as i64;
            left = down * across - 1;
        }
    }
    put([next; 3], 0);
    (axes.concat(), rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGHT: Sight =
        Sight { channels: 3, patch: 1, frames: 1, merge: 1, window: None, image: 9, video: 8, around: [6, 7] };

    #[test]
    fn each_row_of_a_picture_has_a_token() {
        let spread = |ids: &[u32], cells: &[[usize; 2]]| spread(&SIGHT, ids, cells);
        let cells = [[1, 2], [2, 2]];
        let whole = [1, 9, 9, 2, 9, 9, 9, 9, 3];
        assert_eq!(spread(&[1, 9, 2, 9, 3], &cells).unwrap(), whole);
        assert_eq!(spread(&whole, &cells).unwrap(), whole);
        assert_eq!(spread(&[1, 2], &[]).unwrap(), [1, 2]);
        let error = spread(&[1, 9, 2], &cells).unwrap_err();
        assert!(error.contains("1 place for pictures") && error.contains("2 pictures are given"), "{error}");
        assert!(spread(&[9], &[]).unwrap_err().contains("0 pictures are given"));
        assert!(spread(&[9, 9, 9, 1, 9, 9, 9], &cells).is_err());
        assert!(spread(&[8], &[]).unwrap_err().contains("videos"));
    }

    #[test]
    fn positions_go_on_behind_the_longer_side_of_a_picture() {
        let (places, rows) = tables(&SIGHT, &[1, 9, 9, 9, 9, 9, 9, 2, 3], &[[3, 2]]);
        let axes: Vec<&[i64]> = places.chunks(10).collect();
        assert_eq!(axes[0], [0, 1, 1, 1, 1, 1, 1, 4, 5, 6]);
        assert_eq!(axes[1], [0, 1, 1, 2, 2, 3, 3, 4, 5, 6]);
        assert_eq!(axes[2], [0, 1, 2, 1, 2, 1, 2, 4, 5, 6]);
        assert_eq!(rows, [0, 1, 2, 3, 4, 5, 6, 0, 0, 0]);
        // Two beside each other.
        let (places, rows) = tables(&SIGHT, &[9, 9, 9], &[[1, 1], [1, 2]]);
        assert_eq!(places, [0, 1, 1, 3, 0, 1, 1, 3, 0, 1, 2, 3]);
        assert_eq!(rows, [1, 2, 3, 0]);
        assert_eq!(tables(&SIGHT, &[], &[]), (vec![0, 0, 0], vec![0]));
    }
}
