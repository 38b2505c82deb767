//! Imports a model and prints the report, the time it took and the most memory it held.
//!
//! `cargo run --release -p tallow-import --example import -- SRC OUT.model [ENCODING]`

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use tallow_import::{EncodingChoice, ImportOptions, import};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (src, out, encoding) = match args.as_slice() {
        [src, out] => (src, out, "auto"),
        [src, out, encoding] => (src, out, encoding.as_str()),
        _ => {
            eprintln!("usage: import SRC OUT.model [ENCODING]");
            return ExitCode::from(2);
        }
    };
    let start = Instant::now();
    let result = encoding.parse::<EncodingChoice>().and_then(|encoding| {
        let options = ImportOptions { encoding, ..ImportOptions::default() };
        import(Path::new(src), Path::new(out), &options, &mut ())
    });
    match result {
        Ok(report) => {
            print!("{report}");
            eprintln!("{:.2} s", start.elapsed().as_secs_f64());
            if let Some(line) = peak_memory() {
                eprintln!("{line}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(3)
        }
    }
}

/// The line `VmHWM` of the process's status, where the system has one.
fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find(|l| l.starts_with("VmHWM")).map(str::to_owned)
}
