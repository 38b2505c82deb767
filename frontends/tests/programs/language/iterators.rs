// Iterators: adapters, consumers, laziness.

use cyb::nn::Weights;

const TEXT: &str = "héllo wörld 42";

pub fn forward(text: &str, _w: &Weights) -> bool {
    all(TEXT) && all(text)
}

fn all(text: &str) -> bool {
    adapters(text);
    consumers(text);
    one_by_one(text);
    ranges();
    made();
    true
}

fn adapters(text: &str) {
    let words: Vec<&str> = text.split(' ').collect();
    assert_eq!(words.iter().map(|w| w.len()).collect::<Vec<_>>(), [6, 6, 2]);
    assert_eq!(words.iter().filter(|w| w.len() > 2).count(), 2);
    assert_eq!(words.iter().filter_map(|w| w.parse::<i32>().ok()).collect::<Vec<_>>(), [42]);
    assert_eq!(words.iter().flat_map(|w| w.chars()).count(), 12);
    assert_eq!(vec![vec![1], vec![], vec![2, 3]].into_iter().flatten().collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!([Some(1), None, Some(3)].iter().flatten().sum::<i32>(), 4);
    assert_eq!([1, 2, 9, 3].iter().map_while(|&x| (x < 5).then_some(x * 2)).collect::<Vec<_>>(), [2, 4]);
    assert_eq!([1, 2, 9, 3].iter().take_while(|x| **x < 5).count(), 2);
    assert_eq!([1, 2, 9, 3].iter().skip_while(|x| **x < 5).copied().collect::<Vec<_>>(), [9, 3]);
    let mut seen = vec![];
    assert_eq!([1, 2].iter().inspect(|x| seen.push(**x)).count(), 2);
    assert_eq!(seen, [1, 2]);
    for (i, w) in words.iter().enumerate() {
        assert_eq!(words[i], *w);
    }
    assert_eq!([1, 2, 3].iter().zip("ab".chars()).map(|(n, c)| format!("{n}{c}")).collect::<Vec<_>>().concat(), "1a2b");
    assert_eq!([1].iter().chain(&[2, 3]).copied().collect::<Vec<i32>>(), [1, 2, 3]);
    assert_eq!((0..10).skip(2).take(3).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!((0..10).step_by(4).collect::<Vec<_>>(), [0, 4, 8]);
    assert_eq!(words.iter().rev().cloned().collect::<Vec<_>>().join(" "), "42 wörld héllo");
    assert_eq!([1, 2, 3].iter().scan(0, |sum, &x| { *sum += x; Some(*sum) }).collect::<Vec<_>>(), [1, 3, 6]);
    assert_eq!([1, 2].iter().cycle().take(5).sum::<i32>(), 7);
    assert_eq!((1..=3).map(|x| x * x).rev().collect::<Vec<_>>(), [9, 4, 1]);
    assert_eq!((1..=3).chain(7..9).rev().collect::<Vec<_>>(), [8, 7, 3, 2, 1]);
    assert_eq!((0..5).filter(|x| x % 2 == 0).rev().collect::<Vec<_>>(), [4, 2, 0]);
    assert_eq!(["a", "b"].iter().enumerate().rev().map(|(i, _)| i).collect::<Vec<_>>(), [1, 0]);
    assert_eq!([1, 2, 3, 4].windows(2).rev().map(|w| w[0]).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!([1, 2, 3].chunks(2).rev().map(|c| c.len()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!([3, 1].iter().fuse().count(), 2);
    let lazy = [1, 0].iter().map(|x| 10 / x);
    assert_eq!(lazy.take(1).collect::<Vec<_>>(), [10]);
}

fn consumers(text: &str) {
    let v = [3, 1, 4, 1, 5];
    assert_eq!(v.iter().sum::<i32>(), 14);
    let product: i64 = v.iter().map(|&x| x as i64).product();
    assert_eq!(product, 60);
    assert_eq!((v.iter().min(), v.iter().max()), (Some(&1), Some(&5)));
    assert_eq!(Vec::<i32>::new().iter().max(), None);
    let words = ["bb", "a", "cc", "d"];
    assert_eq!(words.iter().max_by_key(|w| w.len()), Some(&"cc"));
    assert_eq!(words.iter().min_by_key(|w| w.len()), Some(&"a"));
    let floats: [f64; 3] = [0.5, 2.0, -1.0];
    assert_eq!(floats.iter().copied().max_by(|a, b| a.partial_cmp(b).unwrap()), Some(2.0));
    assert_eq!(floats.iter().copied().min_by(|a, b| a.total_cmp(b)), Some(-1.0));
    assert_eq!(v.iter().fold(0, |acc, x| acc * 2 + x), 79);
    assert_eq!(v.iter().rfold(0, |acc, x| acc * 2 + x), 109);
    assert_eq!(v.iter().try_fold(0i32, |acc, &x| acc.checked_add(x)), Some(14));
    assert_eq!(v.iter().copied().reduce(|a, b| a.max(b)), Some(5));
    let mut total = 0;
    v.iter().for_each(|x| total += x);
    assert_eq!(total, 14);
    assert!(v.iter().any(|&x| x == 4) && v.iter().all(|&x| x > 0));
    assert_eq!(v.iter().find(|&&x| x > 3), Some(&4));
    assert_eq!(words.iter().find_map(|w| w.chars().nth(1)), Some('b'));
    assert_eq!(v.iter().position(|&x| x == 1), Some(1));
    assert_eq!(v.iter().rposition(|&x| x == 1), Some(3));
    assert_eq!(v.iter().last(), Some(&5));
    let (a, b): (Vec<i32>, Vec<char>) = [(1, 'a'), (2, 'b')].into_iter().unzip();
    assert_eq!((a, b), (vec![1, 2], vec!['a', 'b']));
    let (even, odd): (Vec<i32>, Vec<i32>) = v.iter().partition(|&&x| x % 2 == 0);
    assert_eq!((even.len(), odd.len()), (1, 4));
    assert!(v.iter().eq([3, 1, 4, 1, 5].iter()) && v.iter().ne([3].iter()));
    assert!([1, 2].iter().lt([1, 3].iter()) && [1].iter().le([1].iter()));
    assert!([2].iter().gt([1, 3].iter()) && [2].iter().ge([2].iter()));
    assert_eq!([1, 2].iter().cmp([1].iter()), std::cmp::Ordering::Greater);
    assert_eq!([1.0].iter().partial_cmp([2.0].iter()), Some(std::cmp::Ordering::Less));
    assert!((0..3).is_sorted() && !v.iter().is_sorted());
    assert_eq!(v.iter().len(), 5);
    assert_eq!(text.chars().filter(|c| *c == 'l').count(), 3);
    let reversed: String = text.chars().rev().collect();
    assert_eq!(reversed, "24 dlröw olléh");
    assert_eq!((1..=4).map(|x| x as f32 * 0.5).sum::<f32>(), 5.0);
}

fn one_by_one(text: &str) {
    let mut it = text.chars();
    assert_eq!(it.next(), Some('h'));
    assert_eq!(it.next_back(), Some('2'));
    assert_eq!(it.nth(1), Some('l'));
    assert_eq!(it.nth_back(1), Some(' '));
    assert_eq!(it.clone().count(), 8);
    assert_eq!(it.as_str(), "lo wörld");
    let mut it = [1, 2, 3, 10, 11].iter().copied().peekable();
    let mut small = 0;
    while let Some(&x) = it.peek() {
        if x > 5 {
            break;
        }
        small += it.next().unwrap();
    }
    assert_eq!((small, it.next()), (6, Some(10)));
    assert_eq!(it.next_if(|x| *x > 50), None);
    assert_eq!(it.next_if_eq(&11), Some(11));
    assert_eq!(it.next(), None);
    let mut rest = (0..6).into_iter();
    let first: Vec<i32> = rest.by_ref().take(2).collect();
    assert_eq!((first, rest.sum::<i32>()), (vec![0, 1], 14));
    let mut range = 0..3;
    range.next();
    assert_eq!(range, 1..3);
    let mut tokens = "12 + 30".split(' ');
    let (a, op, b) = (tokens.next().unwrap(), tokens.next().unwrap(), tokens.next().unwrap());
    let (a, b): (i32, i32) = (a.parse().unwrap(), b.parse().unwrap());
    assert_eq!(if op == "+" { a + b } else { a - b }, 42);
}

fn ranges() {
    assert!((0..5).contains(&4) && !(0..5).contains(&5) && (0..=5).contains(&5));
    assert_eq!((2..7).len(), 5);
    assert!((3..3).is_empty() && !(3..4).is_empty());
    assert_eq!((0..5).rev().step_by(2).collect::<Vec<_>>(), [4, 2, 0]);
    assert_eq!((1..).take(3).collect::<Vec<i32>>(), [1, 2, 3]);
    let r = 2..6;
    assert_eq!((r.start, r.end), (2, 6));
    assert_eq!([0, 1, 2, 3, 4, 5, 6][r.clone()].len(), r.len());
    assert_eq!(*(2..=6).end() - *(2..=6).start(), 4);
    assert_eq!((0..3).flat_map(|i| (0..i).map(move |j| (i, j))).collect::<Vec<_>>(), [(1, 0), (2, 0), (2, 1)]);
    let mut n = 0;
    for i in (0..10).rev() {
        if i % 3 == 0 {
            continue;
        }
        n = n * 10 + i;
    }
    assert_eq!(n, 875421i64);
}

fn made() {
    assert_eq!(std::iter::repeat(1).take(3).collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!(std::iter::repeat_n('x', 2).collect::<String>(), "xx");
    assert_eq!(std::iter::once(1).chain(std::iter::empty()).count(), 1);
    let mut state = 1;
    let powers: Vec<i32> = std::iter::from_fn(|| {
        state *= 2;
        (state < 20).then_some(state)
    })
    .collect();
    assert_eq!(powers, [2, 4, 8, 16]);
    assert_eq!(std::iter::successors(Some(1), |x| (*x < 50).then(|| x * 3)).collect::<Vec<_>>(), [1, 3, 9, 27, 81]);
    let mut n = 0;
    assert_eq!(std::iter::repeat_with(|| { n += 1; n }).take(3).sum::<i32>(), 6);
    assert_eq!(std::iter::zip([1, 2], [3, 4]).map(|(a, b)| a * b).sum::<i32>(), 11);
}
