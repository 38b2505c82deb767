//! See `tallow_fuzz::toml`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tallow_fuzz::toml(data));
