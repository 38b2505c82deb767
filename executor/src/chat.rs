//! Conversations as prompts: presets and Jinja templates.
//!
//! Templates run as Hugging Face runs them: `trim_blocks` and `lstrip_blocks`, Python's string methods, `raise_exception`,
//! `strftime_now`, `tojson` with Python's spacing, `namespace`, `break` and `continue`; `true` and `none` print as `True` and
//! `None`. Variables are `messages`, `add_generation_prompt`, `bos_token`, `eos_token`, `unk_token`, `pad_token`, `tools` and
//! `documents` (none unless given) and whatever the caller adds. A template is data from a file: the number of its steps, the
//! length of its output and the depth of its calls are limited.

mod date;
mod python;

use crate::tokenizer::{EncodeOptions, Tokenizer, TokenizerError};
use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value, context};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::SystemTime;
use tallow_format::{ChatFormat, ChatSection};
use thiserror::Error;

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, or what else the template knows.
    pub role: String,
    /// The text.
    pub content: String,
    /// Pictures that stand before the text; templates see a list of them and the text where there are some.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pictures: usize,
}

/// Whether there are none.
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Message {
    /// A turn of this role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into(), pictures: 0 }
    }

    /// The turn with so many pictures before its text.
    pub fn with_pictures(self, pictures: usize) -> Self {
        Self { pictures, ..self }
    }

    /// What a template sees: the text, or the list of pictures and text.
    fn value(&self) -> Value {
        if self.pictures == 0 {
            return context! { role => self.role, content => self.content };
        }
        let pictures = std::iter::repeat_n(context! { type => "image" }, self.pictures);
        let text = context! { type => "text", text => self.content };
        context! { role => self.role, content => pictures.chain([text]).collect::<Vec<_>>() }
    }
}

/// The texts of special tokens that templates write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Begins a sequence: `bos_token`.
    pub bos: Option<String>,
    /// Ends a sequence: `eos_token`.
    pub eos: Option<String>,
    /// Stands for unknown text: `unk_token`.
    pub unk: Option<String>,
    /// Fills up: `pad_token`.
    pub pad: Option<String>,
}

impl SpecialTokens {
    /// Those that a tokenizer knows: begin and end.
    pub fn of(tokenizer: &Tokenizer) -> Self {
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id)).map(str::to_owned);
        Self { bos: text(tokenizer.bos()), eos: text(tokenizer.eos()), unk: None, pad: None }
    }
}

/// Variables that a caller adds to a template's own, such as `tools` or `enable_thinking`.
pub type Variables = serde_json::Map<String, serde_json::Value>;

/// What can go wrong with a template.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The section gives neither a template nor a preset.
    #[error("chat: the section has neither `template` nor `format`; give one of them")]
    NoTemplate,
    /// The template is longer than a template is.
    #[error("chat: the template is {bytes} bytes long, above the limit of {limit}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The most that is accepted.
        limit: usize,
    },
    /// The template is built to exhaust the engine.
    #[error("chat: the template has {what}, above the limit of {limit}; shorten it")]
    TooDeep {
        /// What there is too much of.
        what: &'static str,
        /// The most that is accepted.
        limit: usize,
    },
    /// The template is not Jinja, or uses what is not supported.
    #[error("chat: template, line {line}: {message}")]
    Syntax {
        /// Line in the template, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The template refused the conversation (`raise_exception`).
    #[error("chat: the model's template refuses this conversation: {message}")]
    Refused {
        /// In the template's words.
        message: String,
    },
    /// The template went wrong on this conversation.
    #[error("chat: template, line {line}: {message}, with this conversation")]
    Render {
        /// Line in the template, from 1.
        line: usize,
        /// What went wrong.
        message: String,
    },
    /// The template did not come to an end.
    #[error("chat: the template takes more than {STEPS} steps; it does not seem to end")]
    OutOfSteps,
    /// The prompt is longer than a prompt is.
    #[error("chat: the template writes more than {MAX_PROMPT} bytes")]
    PromptTooLong,
    /// A variable of the caller bears the name of one of the template's own.
    #[error("chat: the variable `{name}` is set by the renderer; give it another name")]
    ReservedVariable {
        /// Its name.
        name: String,
    },
}

/// Steps of the template engine for one prompt: a conversation of a thousand turns takes some ten thousand.
const STEPS: u64 = 20_000_000;
/// Bytes of one prompt.
const MAX_PROMPT: usize = 64 << 20;
/// Depth of nested calls and includes in a template.
const MAX_DEPTH: usize = 100;
/// Tags of a template, and words and signs in one tag: the engine recurses over both, and real templates have hundreds.
const MAX_TAGS: usize = 4_000;
const MAX_TAG_PARTS: usize = 2_000;
/// Stack for compiling a template within these limits.
const COMPILE_STACK: usize = 512 << 20;
const NAME: &str = "chat";
const RESERVED: [&str; 2] = ["messages", "add_generation_prompt"];

/// A template that is ready for use. It is immutable and may be shared between threads.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    special: SpecialTokens,
    system_default: Option<String>,
    stops: Vec<String>,
    now: Option<SystemTime>,
}

impl ChatTemplate {
    /// The template of a model's `chat` section, or its preset. Errors: it has neither; the template is not Jinja.
    pub fn from_section(section: &ChatSection, special: &SpecialTokens) -> Result<Self, ChatError> {
        let source = match (&section.template, section.format) {
            (Some(template), _) => template.as_str(),
            (None, Some(format)) => preset_source(format),
            (None, None) => return Err(ChatError::NoTemplate),
        };
        let mut template = Self::from_source(source, special)?;
        template.system_default = section.system_default.clone();
        template.stops = match (section.eos_sequences.is_empty(), section.format) {
            (true, Some(format)) => preset_stops(format),
            _ => section.eos_sequences.clone(),
        };
        Ok(template)
    }

    /// A preset.
    pub fn preset(format: ChatFormat, special: &SpecialTokens) -> Result<Self, ChatError> {
        let section = ChatSection { format: Some(format), ..ChatSection::default() };
        Self::from_section(&section, special)
    }

    /// A template in Jinja. Errors: it is not Jinja, or too long.
    pub fn from_source(source: &str, special: &SpecialTokens) -> Result<Self, ChatError> {
        if source.len() > ChatSection::MAX_TEMPLATE {
            return Err(ChatError::TooLong { bytes: source.len(), limit: ChatSection::MAX_TEMPLATE });
        }
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_recursion_limit(MAX_DEPTH);
        environment.set_fuel(Some(STEPS));
        python::install(&mut environment);
        check_size(source)?;
        let text = without_generation_tags(source);
        let environment = compile(environment, text)?;
        Ok(Self { environment, special: special.clone(), system_default: None, stops: Vec::new(), now: None })
    }

    /// Fixes the time that `strftime_now` tells, which is the time of rendering in UTC otherwise.
    pub fn at_time(mut self, now: SystemTime) -> Self {
        self.now = Some(now);
        self
    }

    /// Strings that end an answer: the section's `eos_sequences`, else the preset's end of turn.
    pub fn stops(&self) -> &[String] {
        &self.stops
    }

    /// The prompt for a conversation. `add_generation_prompt` ends it where the answer begins. The section's default system
    /// message is put first if the conversation begins with none. Errors: the template refuses the conversation, goes wrong,
    /// or exceeds a limit; `variables` holds `messages` or `add_generation_prompt`.
    pub fn render(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
        variables: &Variables,
    ) -> Result<String, ChatError> {
        if let Some(name) = RESERVED.iter().find(|&&name| variables.contains_key(name)) {
            return Err(ChatError::ReservedVariable { name: (*name).to_owned() });
        }
        let has_system = messages.first().is_some_and(|first| matches!(first.role.as_str(), "system" | "developer"));
        let system = self.system_default.as_ref().filter(|_| !has_system);
        let system = system.map(|content| Message::new("system", content));
        let messages: Vec<Value> = system.iter().chain(messages).map(Message::value).collect();
        let special = |text: &Option<String>| text.as_deref().map_or(Value::UNDEFINED, Value::from);
        let now = self.now.unwrap_or_else(SystemTime::now);
        let base = context! {
            tools => Value::from(()),
            documents => Value::from(()),
            bos_token => special(&self.special.bos),
            eos_token => special(&self.special.eos),
            unk_token => special(&self.special.unk),
            pad_token => special(&self.special.pad),
            strftime_now => date::function(now),
        };
        let fixed = context! { messages, add_generation_prompt };
        let context = context! { ..fixed, ..Value::from_serialize(variables), ..base };
        let template = self.environment.get_template(NAME).map_err(render_error)?;
        let mut out = Limited::default();
        // The engine panics on some faults of a template, such as `loop.cycle()` without arguments.
        let render = std::panic::AssertUnwindSafe(|| template.render_captured_to(context, &mut out).map(drop));
        let result = std::panic::catch_unwind(render)
            .map_err(|_| ChatError::Render { line: 0, message: "the template engine failed on it".into() })?;
        if out.full {
            return Err(ChatError::PromptTooLong);
        }
        result.map_err(render_error)?;
        String::from_utf8(out.bytes).map_err(|error| ChatError::Render { line: 0, message: error.to_string() })
    }
}

/// The ids of a rendered prompt: special tokens in it are seen, and it begins with exactly one begin token if the template
/// wrote one or the model's configuration asks for one. No end token is added.
pub fn encode_prompt(tokenizer: &Tokenizer, rendered: &str) -> Result<Vec<u32>, TokenizerError> {
    let options = EncodeOptions { add_special: false, parse_special: true };
    let mut ids = tokenizer.encode(rendered, options)?;
    if let Some(bos) = tokenizer.bos() {
        let written = ids.iter().take_while(|&&id| id == bos).count();
        if written > 1 {
            ids.drain(1..written);
        }
        if written == 0 && tokenizer.adds_bos() {
            ids.insert(0, bos);
        }
    }
    Ok(ids)
}

/// Compiles on a thread with a stack that the size limits cannot exhaust.
fn compile(mut environment: Environment<'static>, text: String) -> Result<Environment<'static>, ChatError> {
    let work = move || match environment.add_template_owned(NAME, text) {
        Ok(()) => Ok(environment),
        Err(error) => Err(ChatError::Syntax { line: error.line().unwrap_or(0), message: describe(&error) }),
    };
    let failed = |message: &str| ChatError::Syntax { line: 0, message: message.to_owned() };
    let thread = std::thread::Builder::new().stack_size(COMPILE_STACK).spawn(work);
    thread
        .map_err(|error| failed(&format!("no thread to compile it on: {error}")))?
        .join()
        .unwrap_or_else(|_| Err(failed("the template engine failed on it")))
}

/// Refuses templates with more tags, or parts in one tag, than a template has. Strings count as one part.
fn check_size(source: &str) -> Result<(), ChatError> {
    let mut tags = 0;
    let mut rest = source;
    while let Some(at) = rest.find("{{").into_iter().chain(rest.find("{%")).min() {
        tags += 1;
        let end = if rest[at..].starts_with("{{") { "}}" } else { "%}" };
        let inside = &rest[at + 2..];
        let mut parts = 0;
        let mut length = inside.len();
        let mut quote = None;
        let mut word = false;
        for (i, c) in inside.char_indices() {
            match quote {
                Some(open) if c == open => quote = None,
                Some(_) => {}
                None if inside[i..].starts_with(end) => {
                    length = i;
                    break;
                }
                None if c == '"' || c == '\'' => {
                    quote = Some(c);
                    parts += 1;
                }
                None => {
                    let wordy = c.is_alphanumeric() || c == '_';
                    let goes_on = c.is_whitespace() || (wordy && word);
                    parts += usize::from(!goes_on);
                    word = wordy;
                }
            }
        }
        if parts > MAX_TAG_PARTS {
            return Err(ChatError::TooDeep { what: "too many words and signs in one tag", limit: MAX_TAG_PARTS });
        }
        rest = inside.get(length + 2..).unwrap_or_default();
    }
    match tags > MAX_TAGS {
        true => Err(ChatError::TooDeep { what: "too many tags", limit: MAX_TAGS }),
        false => Ok(()),
    }
}

/// Collects output up to [`MAX_PROMPT`] bytes.
#[derive(Default)]
struct Limited {
    bytes: Vec<u8>,
    full: bool,
}

impl std::io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + bytes.len() > MAX_PROMPT {
            self.full = true;
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What `raise_exception` was given.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

fn render_error(error: minijinja::Error) -> ChatError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(Raised(message)) = error.downcast_ref() {
            return ChatError::Refused { message: message.clone() };
        }
        let kind = error.downcast_ref().map(minijinja::Error::kind);
        if kind == Some(ErrorKind::OutOfFuel) {
            return ChatError::OutOfSteps;
        }
        cause = error.source();
    }
    ChatError::Render { line: error.line().unwrap_or(0), message: describe(&error) }
}

fn describe(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

/// `{% generation %} … {% endgeneration %}`, which mark the model's own words for training, as a condition that always holds.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        out.push_str(before);
        rest = tag;
        let Some(end) = tag.find("%}") else { break };
        let inner = &tag[..end];
        let word = inner.trim_matches(['-', '+']).trim();
        let instead = match word {
            "generation" => "if true",
            "endgeneration" => "endif",
            _ => continue,
        };
        out.push_str(&inner.replacen(word, instead, 1));
        rest = &tag[end..];
    }
    out + rest
}

fn preset_stops(format: ChatFormat) -> Vec<String> {
    let stop = match format {
        ChatFormat::ChatMl => "<|im_end|>",
        ChatFormat::Llama3 => "<|eot_id|>",
        ChatFormat::Gemma => "<end_of_turn>",
        ChatFormat::Plain => return Vec::new(),
    };
    vec![stop.to_owned()]
}

fn preset_source(format: ChatFormat) -> &'static str {
    match format {
        ChatFormat::ChatMl => CHATML,
        ChatFormat::Llama3 => LLAMA3,
        ChatFormat::Gemma => GEMMA,
        ChatFormat::Plain => PLAIN,
    }
}

const CHATML: &str = r"
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}";

const LLAMA3: &str = r"{{- bos_token }}
{%- for message in messages %}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}";

/// Gemma has no system turn: the system message begins the first turn of the user.
const GEMMA: &str = r"{{- bos_token }}
{%- set turns = messages %}
{%- set prefix = '' %}
{%- if messages and messages[0].role == 'system' %}
{%- set turns = messages[1:] %}
{%- set prefix = messages[0].content | trim + '\n\n' %}
{%- if not turns %}{{- raise_exception('a system message alone is no conversation') }}{%- endif %}
{%- endif %}
{%- for message in turns %}
{%- set role = 'model' if message.role == 'assistant' else message.role %}
{{- '<start_of_turn>' + role + '\n' + (prefix if loop.first else '') + message.content | trim + '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\n' }}{%- endif %}";

const PLAIN: &str =
    r"{%- for message in messages %}{{- message.content }}{%- if not loop.last %}{{- '\n' }}{%- endif %}{%- endfor %}";

#[cfg(test)]
mod tests;
