//! Measuring, with the embedded model and with tiny ones.

use super::*;

#[derive(Default)]
struct Seen {
    total: usize,
    begun: usize,
    limit: Option<usize>,
}

impl Progress for Seen {
    fn start(&mut self, parts: usize) {
        self.total += parts;
    }

    fn part(&mut self, _what: &str) {
        self.begun += 1;
    }

    fn cancelled(&self) -> bool {
        self.limit == Some(self.begun)
    }
}

fn small() -> BenchOptions {
    BenchOptions {
        repetitions: 2,
        prefill: vec![4, 1 << 40],
        decode: 2,
        depth: vec![0, 3, 1 << 40],
        memory: 1 << 16,
        ..BenchOptions::default()
    }
}

#[test]
fn everything_that_fits_is_measured_so_often() {
    let mut seen = Seen::default();
    let report = run(&mut Model::storyteller, &small(), &mut seen).unwrap();
    let counts = |m: &Measurements| m.values().len();
    assert_eq!([counts(&report.load_seconds), counts(&report.first_token_seconds)], [2, 2]);
    assert_eq!(report.prefill.iter().map(|p| (p.tokens, counts(&p.share))).collect::<Vec<_>>(), [(4, 2)]);
    assert_eq!(report.decode.iter().map(|d| (d.depth, counts(&d.share))).collect::<Vec<_>>(), [(0, 2), (3, 2)]);
    assert!(report.decode[1].bytes > report.decode[0].bytes, "a deeper text reads more of the cache");
    // The limits stand before and after each measurement.
    assert_eq!([counts(&report.bandwidth), counts(&report.peak)], [8, 4]);
    let skipped = report.skipped.join("\n");
    assert!(skipped.contains("prefill of 1099511627776") && skipped.contains("at depth 1099511627776"), "{skipped}");
    assert_eq!(seen.begun, seen.total);
    assert!(report.load_seconds.max() <= report.first_token_seconds.max());
}

#[test]
fn lengths_beyond_all_bounds_are_skipped() {
    let mut open = || {
        let mut options = crate::ModelOptions::default();
        options.program.context = Some(usize::MAX);
        Model::storyteller_with(&options)
    };
    let lengths = |decode: usize, n: usize| BenchOptions {
        repetitions: 1,
        prefill: vec![n],
        decode,
        depth: vec![n, 1],
        memory: 1 << 16,
        ..BenchOptions::default()
    };
    for options in [lengths(usize::MAX, usize::MAX), lengths(usize::MAX, 1 << 40), lengths(1 << 40, usize::MAX)] {
        let report = run(&mut open, &options, &mut Seen::default()).unwrap();
        assert_eq!((report.prefill.len(), report.decode.len(), report.skipped.len()), (0, 0, 3), "{options:?}");
        assert!(report.skipped.iter().all(|s| s.contains("longer than 16777216")), "{:?}", report.skipped);
    }
}

#[test]
fn what_a_token_reads_is_less_with_a_smaller_cache() {
    let read = |cache| {
        let mut options = crate::ModelOptions::default();
        options.program.cache = cache;
        let mut open = || Model::storyteller_with(&options);
        let report = run(&mut open, &small(), &mut Seen::default()).unwrap();
        assert_eq!(report.cache, cache);
        report.decode[1].bytes
    };
    use tallow_executor::CacheType::{F16, F32, Q8};
    let [exact, half, small] = [F32, F16, Q8].map(read);
    assert!(exact > half && half > small, "{exact} {half} {small}");
    // A value takes 4 bytes, 2, and 1 with two more for each 32: the matrices are the rest.
    assert!(((exact - half) * 15.0 - (half - small) * 32.0).abs() < 1e-3 * exact, "{exact} {half} {small}");
}

#[test]
fn a_cancelled_measurement_is_an_error() {
    let mut seen = Seen { limit: Some(5), ..Seen::default() };
    assert!(run(&mut Model::storyteller, &small(), &mut seen).is_err());
    assert_eq!(seen.begun, 5);
}

#[test]
fn ids_are_the_same_each_time_and_inside_the_vocabulary() {
    let many = ids(1000, 10);
    assert_eq!(many[..100], ids(100, 10));
    assert!((0..10).all(|id| many.contains(&id)) && many.iter().all(|&id| id < 10));
    assert_eq!(ids(3, 0), [0, 0, 0]);
}
