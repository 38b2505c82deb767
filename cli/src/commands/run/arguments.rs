//! Which arguments of `run` are the model and the prompt.

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use tallow::Error;

/// Model and prompt from the positional arguments, and from the values of `--image` and `--text`, which take all that stands
/// behind them: a model among those is taken out, if none is given elsewhere.
pub fn of(
    given: &[String],
    images: &mut Vec<PathBuf>,
    texts: &mut Vec<String>,
) -> Result<(Option<PathBuf>, Option<String>)> {
    let (source, prompt) = match given {
        // Whatever it looks like: the texts stand elsewhere.
        [model] if !texts.is_empty() => (Some(PathBuf::from(model)), None),
        given => arguments(given)?,
    };
    if source.is_some() {
        return Ok((source, prompt));
    }
    let model = match images.iter().position(|file| is_model(file)) {
        Some(at) => Some((images.remove(at), images.is_empty(), "--image FILE")),
        None => texts.iter().rposition(|text| is_model(Path::new(text))).map(|at| {
            let model = PathBuf::from(texts.remove(at));
            (model, texts.is_empty(), "--text TEXT")
        }),
    };
    match model {
        Some((model, true, option)) => bail!(Error::Usage(format!(
            "{} is a model, and {option} names nothing else; give it as `tallow run {0} {option}`",
            model.display()
        ))),
        Some((model, ..)) => Ok((Some(model), prompt)),
        None => Ok((None, prompt)),
    }
}

/// Whether a path is a model that is there, which no picture and hardly a text is.
fn is_model(path: &Path) -> bool {
    let ending =
        path.extension().is_some_and(|end| end.eq_ignore_ascii_case("model") || end.eq_ignore_ascii_case("gguf"));
    if path.is_dir() { path.join("config.json").is_file() } else { ending && path.is_file() }
}

/// Model and prompt from the positional arguments alone.
fn arguments(given: &[String]) -> Result<(Option<PathBuf>, Option<String>)> {
    match given {
        [] => Ok((None, None)),
        [one] if looks_like_model(one) => Ok((Some(PathBuf::from(one)), None)),
        [one] => Ok((None, Some(one.clone()).filter(|p| p != "-"))),
        [model, prompt] => Ok((Some(PathBuf::from(model)), Some(prompt.clone()).filter(|p| p != "-"))),
        more => bail!("{} arguments given; at most MODEL and PROMPT are taken, quote the prompt", more.len()),
    }
}

/// An existing path, a name with a model's ending, or a path without white space; anything else is
/// a prompt, so that a sentence with a slash in it stays one.
fn looks_like_model(text: &str) -> bool {
    let lower = text.to_lowercase();
    Path::new(text).exists()
        || lower.ends_with(".model")
        || lower.ends_with(".gguf")
        || (text.contains('/') && !text.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_argument_is_a_model_only_where_it_looks_like_one() {
        let prompt = |t: &str| arguments(&[t.to_owned()]).unwrap().1;
        assert_eq!(prompt("a.model"), None);
        assert_eq!(prompt("x/y"), None);
        assert_eq!(prompt("What is 1/2 + 1/4?").as_deref(), Some("What is 1/2 + 1/4?"));
        assert_eq!(prompt("Hello").as_deref(), Some("Hello"));
        assert!(arguments(&["a".into(), "b".into(), "c".into()]).is_err());
    }
}
