//! See `tallow_fuzz::programs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tallow_fuzz::programs(data));
