//! See `tallow_fuzz::rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tallow_fuzz::rs(data));
