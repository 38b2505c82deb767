// Vectors, arrays, slices and queues.

use cyb::nn::Weights;

use std::collections::VecDeque;

const TEXT: &str = "héllo wörld 42";

pub fn forward(text: &str, _w: &Weights) -> bool {
    all(TEXT) && all(text)
}

fn all(text: &str) -> bool {
    let lengths: Vec<usize> = text.split(' ').map(|w| w.len()).collect();
    looked_at(&lengths);
    changed(lengths.clone());
    sorted(lengths.clone());
    referred_to(lengths);
    queue();
    true
}

fn looked_at(v: &[usize]) {
    assert_eq!(v, [6, 6, 2]);
    assert_eq!(v.len(), 3);
    assert!(!v.is_empty());
    assert_eq!(v.first(), Some(&6));
    assert_eq!(v.last(), Some(&2));
    assert_eq!(v.get(1), Some(&6));
    assert_eq!(v.get(3), None);
    assert_eq!(v.get(1..), Some(&v[1..]));
    assert_eq!(v[..2], [6, 6]);
    assert_eq!(v.split_first(), Some((&6, &v[1..])));
    assert_eq!(v.split_last().unwrap().0, &2);
    assert_eq!(v.split_at(1).1.len(), 2);
    assert!(v.contains(&2) && v.starts_with(&[6]) && v.ends_with(&[6, 2]));
    assert_eq!(v.to_vec().as_slice(), v);
    assert_eq!(v.to_vec().into_boxed_slice().len(), 3);
    assert_eq!([vec![1], vec![2, 3]].concat(), [1, 2, 3]);
    assert_eq!([[1, 2], [3, 4]].join(&0), [1, 2, 0, 3, 4]);
    assert_eq!([1, 2].repeat(2), [1, 2, 1, 2]);
    assert_eq!(v.windows(2).map(|w| w[0] + w[1]).collect::<Vec<_>>(), [12, 8]);
    assert_eq!([1, 2, 3, 4, 5].chunks(2).map(|c| c.len()).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!([1, 2, 3, 4, 5].chunks_exact(2).map(|c| c[1]).collect::<Vec<_>>(), [2, 4]);
    assert_eq!([1, 2, 3, 4, 5].rchunks(2).map(|c| c[0]).collect::<Vec<_>>(), [4, 2, 1]);
    assert_eq!([1, 0, 2, 3].split(|&x| x == 0).map(|p| p.len()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!([1, 3, 5].binary_search(&3), Ok(1));
    assert!([1, 3, 5].binary_search(&4).is_err());
    assert_eq!([1, 3, 5].binary_search_by(|x| x.cmp(&5)), Ok(2));
    assert_eq!([(1, 'a'), (3, 'b')].binary_search_by_key(&3, |&(k, _)| k), Ok(1));
    assert_eq!([1, 3, 5].partition_point(|&x| x < 4), 2);
    assert!([1, 1, 2].is_sorted() && !v.is_sorted());
    assert_eq!([1, 2].map(|x| x * 2), [2, 4]);
    assert!(vec![1, 2] < vec![1, 3] && vec![1] < vec![1, 0]);
    assert_eq!(vec![0; 3], [0, 0, 0]);
    let [a, .., c] = v else { panic!("three") };
    assert_eq!(a + c, 8);
    assert_eq!(v.iter().copied().max(), Some(6));
    let squares: [usize; 3] = std::array::from_fn(|i| i * i);
    assert_eq!(squares, [0, 1, 4]);
}

fn changed(mut v: Vec<usize>) {
    v.push(9);
    assert_eq!(v.pop(), Some(9));
    v.insert(1, 7);
    assert_eq!(v, [6, 7, 6, 2]);
    assert_eq!(v.remove(0), 6);
    assert_eq!(v.swap_remove(0), 7);
    assert_eq!(v, [2, 6]);
    v.extend([1, 2]);
    v.extend_from_slice(&[3]);
    v.extend_from_within(..1);
    assert_eq!(v, [2, 6, 1, 2, 3, 2]);
    let mut more = vec![8];
    v.append(&mut more);
    assert!(more.is_empty());
    assert_eq!(v.drain(1..3).collect::<Vec<_>>(), [6, 1]);
    assert_eq!(v.split_off(3), [2, 8][..]);
    assert_eq!(v, [2, 2, 3]);
    v.dedup();
    v.resize(4, 5);
    v.resize_with(5, || 6);
    assert_eq!(v, [2, 3, 5, 5, 6]);
    v.dedup_by_key(|x| *x / 2);
    assert_eq!(v, [2, 5, 6]);
    v.retain(|&x| x != 5);
    v.retain_mut(|x| {
        *x += 1;
        *x > 3
    });
    assert_eq!(v, [7]);
    v.truncate(0);
    v.resize(3, 1);
    v[1] = 4;
    v[2] += 6;
    v.swap(0, 2);
    assert_eq!(v, [7, 4, 1]);
    v.reverse();
    v.rotate_left(1);
    assert_eq!(v, [4, 7, 1]);
    v.rotate_right(1);
    assert_eq!(v, [1, 4, 7]);
    v.fill(2);
    assert_eq!(v, vec![2; 3]);
    v.copy_from_slice(&[1, 2, 3]);
    v.clone_from_slice(&[3, 2, 1]);
    assert_eq!(v, [3, 2, 1]);
    let copy = v.clone();
    v.clear();
    assert_eq!((v.len(), copy.len()), (0, 3));
    let mut grid = vec![vec![0; 3]; 2];
    grid[1][2] = 5;
    grid[0][1] += 2;
    assert_eq!(grid, [[0, 2, 0], [0, 0, 5]]);
}

fn sorted(v: Vec<usize>) {
    let mut a = v.clone();
    a.sort();
    assert_eq!(a, [2, 6, 6]);
    a.sort_by(|x, y| y.cmp(x));
    assert_eq!(a, [6, 6, 2]);
    a.sort_unstable();
    a.sort_unstable_by(|x, y| y.partial_cmp(x).unwrap());
    let mut words = vec!["ccc", "a", "bb", "b"];
    words.sort_by_key(|w| w.len());
    assert_eq!(words, ["a", "b", "bb", "ccc"]);
    words.sort_unstable_by_key(|w| std::cmp::Reverse(w.len()));
    assert_eq!(words[0], "ccc");
    words.sort_by_cached_key(|w| w.to_string());
    assert_eq!(words, ["a", "b", "bb", "ccc"]);
    let mut pairs = vec![(1, 'b'), (0, 'c'), (1, 'a')];
    pairs.sort_by(|x, y| x.0.cmp(&y.0).then(y.1.cmp(&x.1)));
    assert_eq!(pairs, [(0, 'c'), (1, 'b'), (1, 'a')]);
    pairs.sort_by(|x, y| y.0.cmp(&x.0).then_with(|| x.1.cmp(&y.1)).reverse());
    assert_eq!(pairs, [(0, 'c'), (1, 'b'), (1, 'a')]);
    let mut floats = vec![0.5, -1.0, 0.25];
    floats.sort_by(|a, b| a.partial_cmp(b).unwrap());
    assert_eq!(floats, [-1.0, 0.25, 0.5]);
    let order = 1.cmp(&2);
    assert!(order.is_lt() && order.is_le() && order.is_ne() && !order.is_gt() && !order.is_ge() && !order.is_eq());
}

fn double(v: &mut Vec<usize>) {
    for x in v.iter_mut() {
        *x *= 2;
    }
    v.push(0);
}

fn half(part: &mut [usize]) {
    part[0] /= 2;
    for x in part.iter_mut() {
        *x += 3;
    }
    part.swap(0, 1);
}

fn referred_to(mut v: Vec<usize>) {
    double(&mut v);
    assert_eq!(v, [12, 12, 4, 0]);
    for x in &mut v {
        *x += 1;
    }
    *v.first_mut().unwrap() = 1;
    *v.last_mut().unwrap() += 8;
    if let Some(x) = v.get_mut(1) {
        *x = 5;
    }
    assert_eq!(v, [1, 5, 5, 9]);
    for pair in v.chunks_mut(2) {
        pair.swap(0, 1);
    }
    assert_eq!(v.len(), 4);
    let (left, right) = v.split_at_mut(2);
    left[0] += right[1];
    v.chunks_exact_mut(2).for_each(|c| c[0] += 1);
    v[1..3].reverse();
    v[..2].sort();
    v[2..].iter_mut().for_each(|x| *x += 1);
    half(&mut v[..2]);
    let total: usize = v.as_mut_slice().iter().sum();
    assert_eq!((total, v.clone()), (30, vec![14, 8, 2, 6]));
    let mut a = 1;
    let mut b = 2;
    std::mem::swap(&mut a, &mut b);
    assert_eq!((a, b), (2, 1));
    assert_eq!(std::mem::replace(&mut a, 7), 2);
    assert_eq!(std::mem::take(&mut v).len(), 4);
    assert!(v.is_empty() && a == 7);
    let mut grid = vec![vec![1, 2], vec![3]];
    for row in grid.iter_mut() {
        row.push(0);
        row[0] += 1;
    }
    assert_eq!(grid, [vec![2, 2, 0], vec![4, 0]]);
    let r = &mut grid;
    r[0][1] = 9;
    assert_eq!(grid[0][1], 9);
}

fn queue() {
    let mut q: VecDeque<i32> = VecDeque::new();
    q.push_back(1);
    q.push_back(2);
    q.push_front(0);
    assert_eq!(q.front(), Some(&0));
    assert_eq!(q.back(), Some(&2));
    assert_eq!(q.pop_front(), Some(0));
    assert_eq!(q.pop_back(), Some(2));
    assert_eq!(q.len(), 1);
    let v: Vec<i32> = Vec::from([1, 2]);
    assert_eq!(Vec::from_iter(v.iter().map(|x| x + 1)), [2, 3]);
    let mut w: Vec<i32> = Vec::with_capacity(4);
    w.extend(v.iter());
    assert_eq!(w, v);
}
