//! `tallow chat`: a conversation, line by line.

use crate::options::{LoadOptions, SamplingOptions, warn_of_packed};
use crate::ui::{self, Ui};
use anyhow::Result;
use clap::Args;
use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use tallow::{GenerateOptions, Message, Session};

/// Talk with a model, one line at a time.
///
/// Lines that begin with a slash are commands: /reset starts anew, /exit (or Ctrl-D) ends. Ctrl-C stops
/// an answer, and ends the chat between answers.
#[derive(Args)]
pub struct Chat {
    /// A .model file, a GGUF file or a Hugging Face folder; without it the storyteller.
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Text of a system message.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Most tokens of one answer.
    #[arg(long, short = 'n', default_value_t = 1024, value_name = "N")]
    max_tokens: usize,
    #[command(flatten)]
    sampling: SamplingOptions,
    #[command(flatten)]
    load: LoadOptions,
}

impl Chat {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        let model = self.load.load(self.model.as_deref(), ui)?;
        model.takes_text()?;
        if !model.has_chat()? {
            return Err(tallow::Error::Usage(format!(
                "{}: has no chat template, so it is not made for conversation; use `tallow run --raw`",
                model.file().label()
            ))
            .into());
        }
        let options = GenerateOptions {
            sampling: Some(self.sampling.over(&model)?),
            max_tokens: Some(self.max_tokens),
            ..GenerateOptions::default()
        };
        let first: Vec<Message> = self.system.iter().map(|text| Message::new("system", text)).collect();
        let mut messages = first.clone();
        let mut session = model.session()?;
        let stdin = std::io::stdin();
        let asks = stdin.is_terminal();
        ui.note(format!("{} · /reset starts anew, /exit ends", model.file().name()));
        let mut line = String::new();
        let mut first_answer = true;
        loop {
            if asks {
                eprint!("> ");
                std::io::stderr().flush()?;
            }
            line.clear();
            if ui::waiting(|| stdin.lock().read_line(&mut line))? == 0 {
                return Ok(ExitCode::SUCCESS);
            }
            match line.trim() {
                "" => continue,
                "/exit" | "/quit" => return Ok(ExitCode::SUCCESS),
                "/reset" => {
                    session.reset();
                    messages.clone_from(&first);
                    ui.note("started anew");
                }
                command if command.starts_with('/') => {
                    ui.warn(format!("{command} is no command; /reset and /exit are"))
                }
                text => {
                    messages.push(Message::new("user", text));
                    let answer = answer(&mut session, &messages, &options);
                    if first_answer {
                        warn_of_packed(&model, ui);
                        first_answer = false;
                    }
                    match answer {
                        Ok(answer) => messages.push(Message::new("assistant", &answer)),
                        Err(e) => {
                            // The conversation goes on without the question that failed.
                            messages.pop();
                            ui.error(&e);
                        }
                    }
                }
            }
        }
    }
}

/// Streams one answer to stdout.
fn answer(session: &mut Session, messages: &[Message], options: &GenerateOptions) -> Result<String> {
    let mut out = std::io::stdout().lock();
    let mut text = String::new();
    let mut generation = session.reply(messages, options)?;
    for piece in generation.by_ref() {
        let piece = piece?;
        out.write_all(piece.as_bytes())?;
        out.flush()?;
        text.push_str(&piece);
        if ui::interrupted() {
            // The answer so far stays in the conversation.
            ui::forget_interrupt();
            break;
        }
    }
    writeln!(out)?;
    if generation.ended() == Some(tallow::Ended::Context) {
        eprintln!("the context is full; /reset starts anew");
    }
    Ok(text)
}
