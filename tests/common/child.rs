//! A test in a process of its own, on an instruction set of its own, which a process chooses once.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::process::Command;
use tallow::executor::kernels::Isa;

const GIVEN: &str = "TALLOW_TEST_CHILD";
const ANSWER: &str = "answer ";

/// The instruction sets that this machine has.
pub fn sets() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|&isa| isa <= Isa::best())
}

/// What the test `child` of the same file answers on an instruction set to what it is given.
pub fn ask(isa: Isa, given: &[&str]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(GIVEN, given.join("\n")).env("TALLOW_ISA", isa.name());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}: {text}{}", isa.name(), String::from_utf8_lossy(&output.stderr));
    let found = text.lines().find_map(|line| line.strip_prefix(ANSWER));
    found.unwrap_or_else(|| panic!("{}: no answer in {text}", isa.name())).to_owned()
}

/// The body of the test `child`, which does nothing unless [`ask`] runs it.
pub fn answer<const N: usize>(answer: impl FnOnce([&str; N]) -> String) {
    let Ok(given) = std::env::var(GIVEN) else { return };
    assert_eq!(Isa::detect().name(), std::env::var("TALLOW_ISA").unwrap());
    let lines: Vec<&str> = given.lines().collect();
    println!("\n{ANSWER}{}", answer(lines.try_into().unwrap()));
}

/// A number over the bits of values (FNV-1a).
pub fn digest<'a>(values: impl IntoIterator<Item = &'a f32>) -> u64 {
    let bytes = values.into_iter().flat_map(|x| x.to_bits().to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
