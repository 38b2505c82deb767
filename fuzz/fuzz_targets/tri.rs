//! See `tallow_fuzz::tri`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tallow_fuzz::tri(data));
