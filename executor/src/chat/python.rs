//! What templates written for Python's Jinja expect of their environment.

use super::Raised;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};
use std::fmt::Write;

/// Python's methods on strings, lists and mappings, its spelling of printed values, `tojson` and `raise_exception`.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(|out, _, value| {
        let written = match value.kind() {
            ValueKind::Undefined => Ok(()),
            ValueKind::String | ValueKind::Number => write!(out, "{value}"),
            _ => {
                let mut text = String::new();
                represent(&mut text, value, 0)?;
                out.write_str(&text)
            }
        };
        written.map_err(|_| Error::new(ErrorKind::WriteFailure, "the prompt could not be written"))
    });
    environment.add_function("raise_exception", |message: Value| -> Result<Value, Error> {
        let message = message.to_string();
        Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
    });
    environment.add_filter("tojson", to_json);
}

/// Depth of nested lists and mappings that are printed.
const MAX_DEPTH: usize = 100;

/// A value as Python prints it inside a list: `None`, `True`, `'text'`, `[1, 2]`, `{'a': 1}`.
fn represent(out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        let message = "lists and mappings are nested too deep to be printed";
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    match value.kind() {
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::String => quote(out, value.as_str().unwrap_or_default()),
        ValueKind::Seq => {
            out.push('[');
            for (i, item) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                represent(out, &item, depth + 1)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                represent(out, &key, depth + 1)?;
                out.push_str(": ");
                represent(out, &value.get_item(&key)?, depth + 1)?;
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

fn quote(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if c == quote => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out.push(quote);
}

/// `json.dumps` with `ensure_ascii=False`: `, ` and `: ` between items unless indented, and no escapes for HTML.
fn to_json(value: &Value, indent: Option<usize>, options: Kwargs) -> Result<Value, Error> {
    let indent = indent.or(options.get("indent")?);
    let sort_keys: Option<bool> = options.get("sort_keys")?;
    options.get::<Option<bool>>("ensure_ascii")?;
    options.get::<Option<Value>>("separators")?;
    options.assert_all_used()?;
    let cannot = |error: serde_json::Error| {
        Error::new(ErrorKind::InvalidOperation, "not a value that JSON can hold").with_source(error)
    };
    let mut json = serde_json::to_value(value).map_err(cannot)?;
    if sort_keys == Some(true) {
        json.sort_all_objects();
    }
    let mut out = String::new();
    write_json(&mut out, &json, indent, 0);
    Ok(Value::from(out))
}

fn write_json(out: &mut String, json: &serde_json::Value, indent: Option<usize>, depth: usize) {
    use serde_json::Value as Json;
    let line = |out: &mut String, depth: usize, first: bool| match indent {
        Some(indent) => {
            out.push_str(if first { "\n" } else { ",\n" });
            out.extend(std::iter::repeat_n(' ', indent.min(16) * depth));
        }
        None if !first => out.push_str(", "),
        None => {}
    };
    match json {
        Json::Array(items) if !items.is_empty() => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                line(out, depth + 1, i == 0);
                write_json(out, item, indent, depth + 1);
            }
            if indent.is_some() {
                line(out, depth, true);
            }
            out.push(']');
        }
        Json::Object(items) if !items.is_empty() => {
            out.push('{');
            for (i, (key, item)) in items.iter().enumerate() {
                line(out, depth + 1, i == 0);
                let _ = write!(out, "{}: ", Json::from(key.as_str()));
                write_json(out, item, indent, depth + 1);
            }
            if indent.is_some() {
                line(out, depth, true);
            }
            out.push('}');
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => {
            let _ = write!(out, "{json}");
        }
    }
}
