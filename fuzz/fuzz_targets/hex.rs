//! See `tallow_fuzz::hex`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tallow_fuzz::hex(data));
