//! Chat functions: a program's own way to write a conversation as a prompt.

use super::ast::Span;
use super::builtins::tri::ChatPiece;
use super::codes::Code;
use super::diagnostic::Diagnostic;
use super::eval::{Evaluator, Flow, MAX_STEPS, with_stack};
use super::host::HostRun;
use super::module::Module;
use super::value::{StructValue, Value};
use std::sync::Arc;
use tallow_format::Config;

/// What stands for the content of the answer: a private-use text that no conversation holds.
const ANSWER: &str = "\u{f8ff}\u{e0a5}answer\u{e0a5}\u{f8ff}";

impl Module {
    /// The prompt for a conversation of roles and contents, up to where the answer begins: the chat function called with
    /// a last message of the role `assistant`, and cut before that message's content. `None` without a chat function.
    ///
    /// # Errors
    /// What went wrong in the function, with its place.
    pub fn chat_prompt(
        &self,
        messages: &[(&str, &str)],
        config: &Config,
    ) -> Option<Result<Vec<ChatPiece>, Diagnostic>> {
        let function = self.chat?;
        let work = || self.write_chat(function, messages, config);
        Some(with_stack(work).unwrap_or_else(|error| {
            Err(Diagnostic::new(Code::Memory, Span::default(), format!("no thread for the program: {error}")))
        }))
    }

    fn write_chat(
        &self,
        function: usize,
        messages: &[(&str, &str)],
        config: &Config,
    ) -> Result<Vec<ChatPiece>, Diagnostic> {
        let message = |(role, content): &(&str, &str)| {
            let fields = vec![(Arc::from("role"), Value::str(role)), (Arc::from("content"), Value::str(content))];
            Value::Struct(Arc::new(StructValue { name: Arc::from("Message"), variant: None, fields }))
        };
        let answer = [("assistant", ANSWER)];
        let list = messages.iter().chain(&answer).map(message).collect();
        let mut args = vec![Value::list(list)];
        let declared = &self.tree().functions[function];
        if declared.params.len() > 1 {
            args.push(Value::Config(Arc::new(super::config::with_aliases(config))));
        }
        let leaves = |_: &super::host::Leaf| None;
        let mut run = HostRun::new(&self.host, &leaves);
        run.chat = Some(Vec::new());
        let mut e = Evaluator::new(self.tree(), None, Some(run));
        e.limit_steps(MAX_STEPS);
        let result = e.call_function(function, args, declared.name.span, declared.name.span);
        if let Some(first) = e.errors.into_iter().next() {
            return Err(first);
        }
        match result {
            Ok(_) => {}
            Err(Flow::Error(d)) => return Err(*d),
            Err(_) => return Err(Diagnostic::new(Code::Escape, declared.name.span, "control left the chat function")),
        }
        let pieces = e.run.and_then(|run| run.chat).unwrap_or_default();
        Ok(before_answer(pieces))
    }
}

/// The pieces before the content of the answer.
fn before_answer(pieces: Vec<ChatPiece>) -> Vec<ChatPiece> {
    let mut out = Vec::new();
    for piece in pieces {
        match &piece {
            ChatPiece::Text(text) => match text.find(ANSWER) {
                Some(0) => return out,
                Some(at) => {
                    out.push(ChatPiece::Text(text[..at].to_owned()));
                    return out;
                }
                None => out.push(piece),
            },
            ChatPiece::Token(_) => out.push(piece),
        }
    }
    out
}
