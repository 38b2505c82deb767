// Options and results.

use cyb::nn::Weights;

const TEXT: &str = "héllo wörld 42";

pub fn forward(text: &str, _w: &Weights) -> bool {
    all(TEXT) && all(text)
}

fn number(text: &str) -> Option<u32> {
    let word = text.split(' ').nth(2)?;
    let n = word.parse::<u32>().ok()?;
    Some(n + 1)
}

fn checked(n: i32) -> Result<i32, String> {
    if n < 0 { Err(format!("{n} is negative")) } else { Ok(n) }
}

fn sum(a: i32, b: i32) -> Result<i32, String> {
    Ok(checked(a)? + checked(b)?)
}

fn all(text: &str) -> bool {
    let some = Some(text.len());
    let none: Option<usize> = None;
    assert_eq!(number(text), Some(43));
    assert_eq!(number("one two"), None);
    assert_eq!(sum(1, 2), Ok(3));
    assert!(sum(1, -2).is_err());
    assert_eq!(some.unwrap(), 16);
    assert_eq!(some.expect("there"), 16);
    assert_eq!(none.unwrap_or(1), 1);
    assert_eq!(none.unwrap_or_else(|| 2), 2);
    assert_eq!(none.unwrap_or_default(), 0);
    assert_eq!(some.unwrap_or_default(), 16);
    assert!(some.is_some() && none.is_none() && !none.is_some());
    assert!(some.is_some_and(|n| n > 10) && !none.is_some_and(|n| n > 10));
    assert!(none.is_none_or(|n| n > 99) && !some.is_none_or(|n| n > 99));
    assert_eq!(some.map(|n| n * 2), Some(32));
    assert_eq!(some.map_or(0, |n| n + 1), 17);
    assert_eq!(none.map_or_else(|| 5, |n| n + 1), 5);
    assert_eq!(some.and(Some('x')), Some('x'));
    assert_eq!(some.and_then(|n| n.checked_sub(20)), None);
    assert_eq!(none.or(Some(3)), Some(3));
    assert_eq!(none.or_else(|| Some(4)), Some(4));
    assert_eq!(some.xor(none), Some(16));
    assert_eq!(some.filter(|n| *n < 10), None);
    assert_eq!(some.zip(Some('a')), Some((16, 'a')));
    assert_eq!(some.zip(Some('a')).unzip(), (Some(16), Some('a')));
    assert_eq!(Some(some).flatten(), some);
    assert_eq!(some.inspect(|n| assert_eq!(*n, 16)), some);
    assert_eq!(some.ok_or("none"), Ok(16));
    assert!(none.ok_or_else(|| "none".to_string()).is_err());
    assert_eq!([1, 2].first().copied(), Some(1));
    assert_eq!([1, 2].last().cloned(), Some(2));
    let owned = Some("a".to_string());
    assert_eq!(owned.as_deref(), Some("a"));
    assert_eq!(owned.as_ref().map(|s| s.len()), Some(1));
    assert_eq!(some.iter().count() + none.into_iter().count(), 1);
    assert_eq!(Some(Ok::<i32, String>(3)).transpose(), Ok(Some(3)));

    let good = checked(4);
    assert!(good.is_ok() && good.clone().is_ok_and(|n| n == 4));
    assert_eq!(good.clone().ok(), Some(4));
    assert_eq!(checked(-4).map_err(|m| m.len()).unwrap_or(9), 9);
    match checked(-1) {
        Ok(n) => panic!("{n}"),
        Err(_) => {}
    }

    let mut slot = Some(1);
    assert_eq!(slot.take(), Some(1));
    assert_eq!(slot, None);
    assert_eq!(slot.replace(2), None);
    assert_eq!(*slot.insert(3), 3);
    *slot.get_or_insert(9) += 1;
    assert_eq!(slot, Some(4));
    if let Some(x) = slot.as_mut() {
        *x += 1;
    }
    if let Some(x) = &mut slot {
        *x += 1;
    }
    for x in slot.iter_mut() {
        *x += 1;
    }
    assert_eq!(slot, Some(7));
    let mut empty: Option<Vec<i32>> = None;
    empty.get_or_insert_with(Vec::new).push(1);
    assert_eq!(empty, Some(vec![1]));

    let Some(n) = some else { panic!("there") };
    assert_eq!(n, 16);
    while let Some(x) = slot {
        slot = if x > 8 { None } else { Some(x + 1) };
    }
    let all: Option<Vec<u32>> = ["1", "2"].iter().map(|s| s.parse::<u32>().ok()).collect();
    assert_eq!(all, Some(vec![1, 2]));
    let fails: Result<Vec<u32>, _> = ["1", "x"].iter().map(|s| s.parse::<u32>()).collect();
    assert!(fails.is_err());
    assert!(Some(1) < Some(2) && None < Some(0));
    assert_eq!(true.then(|| 1), Some(1));
    assert_eq!(false.then_some(1), None);
    true
}
