//! See `tallow_fuzz::binary`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tallow_fuzz::binary(data));
