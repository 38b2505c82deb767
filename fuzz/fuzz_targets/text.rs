//! See `tallow_fuzz::text`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tallow_fuzz::text(data));
