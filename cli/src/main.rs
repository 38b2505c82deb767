//! The command `tallow`.
//!
//! Each subcommand parses its arguments, calls the library and prints; output for machines goes to
//! stdout, everything else to stderr. Exit codes: 0 fine, 1 the answer is no, 2 usage, 3 bad input
//! file, 4 unsupported, 5 device or memory, 130 interrupted.

mod commands;
mod numeric;
mod options;
mod remarks;
mod source;
mod ui;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Opens, inspects, converts and runs neural networks in single-file .model packages.
#[derive(Parser)]
#[command(name = "tallow", version, propagate_version = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Print nothing but the answer and errors.
    #[arg(long, short, global = true)]
    quiet: bool,
}

#[derive(Subcommand)]
enum Command {
    Run(commands::run::Run),
    Chat(commands::chat::Chat),
    Import(commands::import::Import),
    Inspect(commands::inspect::Inspect),
    Compile(commands::compile::Compile),
    Check(commands::check::Check),
    Diff(Box<commands::diff::Diff>),
    Dump(commands::dump::Dump),
    Bench(commands::bench::Bench),
    Profile(commands::profile::Profile),
    Pack(commands::tools::Pack),
    Cat(commands::tools::Cat),
    Extract(commands::tools::Extract),
    Edit(commands::tools::Edit),
    Upgrade(commands::tools::Upgrade),
    Hash(commands::tools::Hash),
    Verify(commands::tools::Verify),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(e) => {
            // Help and version are answers; everything else is a usage error.
            let _ = e.print();
            return ExitCode::from(if e.use_stderr() { 2 } else { 0 });
        }
    };
    let ui = ui::Ui::new(arguments.quiet);
    ui::watch_interrupt();
    let outcome = match arguments.command {
        Command::Run(c) => c.execute(&ui),
        Command::Chat(c) => c.execute(&ui),
        Command::Import(c) => c.execute(&ui),
        Command::Inspect(c) => c.execute(&ui),
        Command::Compile(c) => c.execute(&ui),
        Command::Check(c) => c.execute(&ui),
        Command::Diff(c) => c.execute(&ui),
        Command::Dump(c) => c.execute(&ui),
        Command::Bench(c) => c.execute(&ui),
        Command::Profile(c) => c.execute(&ui),
        Command::Pack(c) => c.execute(&ui),
        Command::Cat(c) => c.execute(&ui),
        Command::Extract(c) => c.execute(&ui),
        Command::Edit(c) => c.execute(&ui),
        Command::Upgrade(c) => c.execute(&ui),
        Command::Hash(c) => c.execute(&ui),
        Command::Verify(c) => c.execute(&ui),
    };
    match outcome {
        Ok(code) => code,
        Err(e) if ui::is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(_) if ui::interrupted() => {
            eprintln!("interrupted");
            ExitCode::from(130)
        }
        Err(e) => {
            ui.error(&e);
            ExitCode::from(ui::exit_code(&e))
        }
    }
}

/// The command definition, for the tests of this file.
#[allow(dead_code)]
fn definition() -> clap::Command {
    Arguments::command()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_arguments_are_consistent() {
        super::definition().debug_assert();
    }
}
