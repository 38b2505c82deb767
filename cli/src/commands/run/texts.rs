//! `run --text`: vectors, labels, tagged tokens, words for masks.

use super::times::{self, Times};
use crate::ui::{self, Ui};
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::time::Instant;
use tallow::text::{Encoder, Filling, Label, Tag, TextTask};
use tallow::{Error, Model};

/// Values of a vector that are shown.
const SHOWN: usize = 4;
/// Labels of a text, and words for a mask, that are shown.
const BEST: usize = 5;
/// Texts whose cosines are shown.
const COMPARED: usize = 16;
/// Characters of a text that are shown beside its vector.
const WIDTH: usize = 40;

/// The texts that `--text` names: themselves, or the lines of stdin for `-`, blank ones too, so that results have the
/// numbers of lines.
pub fn texts(given: &[String]) -> Result<Vec<String>> {
    if given.len() > 1 && given.iter().any(|text| text == "-") {
        bail!(Error::Usage(
            "--text - reads texts from stdin, and others stand beside it; give `-` alone, or leave it out".into()
        ));
    }
    if given != ["-"] {
        return Ok(given.to_vec());
    }
    let text = super::read_stdin("the text")?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match lines.is_empty() {
        true => bail!("there is no text on stdin; give one a line"),
        false => Ok(lines),
    }
}

/// What a model made of texts, in their order.
enum Made {
    Vectors(Vec<Vec<f32>>),
    Labels(Vec<Vec<Label>>),
    Tags(Vec<Vec<Tag>>),
    Fillings(Vec<Vec<Vec<Filling>>>),
}

/// Runs texts and prints what the model makes of them. With `pairs` each text is two, with a tab between.
pub fn run(model: &Model, texts: &[String], pairs: bool, json: bool, load: f64, ui: &Ui) -> Result<()> {
    let mut encoder = model.encoder()?;
    let started = Instant::now();
    let made = ui::waiting(|| made(&mut encoder, texts, pairs))?;
    let times = Times { load, run: started.elapsed().as_secs_f64() };
    warn_of_cut(&encoder, ui);
    warn_of_unmasked(model, &made, ui)?;
    if json {
        let value = json!({ "task": task_name(encoder.task()), "results": results(texts, &made) });
        let value = times.add_to(times::add_tokens(value, &encoder), model);
        return ui::answer(&format!("{value}\n"));
    }
    ui::answer(&shown(texts, &made))?;
    let rate = encoder.tokens() as f64 / times.run.max(1e-9);
    ui.note(format!("{}, {rate:.0} tokens/s", times.line(&times::texts(texts.len(), &encoder))));
    Ok(())
}

/// Warns of the texts of the last call that were too long.
pub fn warn_of_cut(encoder: &Encoder, ui: &Ui) {
    let limit = encoder.limit().unwrap_or_default();
    for cut in encoder.cut() {
        ui.warn(format!("text {} is longer than {limit} tokens; {} were left out", cut.text + 1, cut.tokens));
    }
}

/// Warns of texts without a mask.
fn warn_of_unmasked(model: &Model, made: &Made, ui: &Ui) -> Result<()> {
    let Made::Fillings(all) = made else { return Ok(()) };
    let tokenizer = model.tokenizer()?;
    let name = tokenizer.mask().and_then(|id| tokenizer.token_text(id)).unwrap_or_default();
    for (n, _) in all.iter().enumerate().filter(|(_, masks)| masks.is_empty()) {
        ui.warn(format!("text {} has no `{name}` to be filled; its result is empty", n + 1));
    }
    Ok(())
}

fn made(encoder: &mut Encoder, texts: &[String], pairs: bool) -> Result<Made> {
    let plain: Vec<&str> = texts.iter().map(String::as_str).collect();
    if pairs {
        let halves = |(n, text): (usize, &&str)| {
            let halves = text.split_once('\t').filter(|(_, second)| !second.contains('\t'));
            halves.map(|(a, b)| (a.to_owned(), b.to_owned())).ok_or_else(|| {
                Error::Usage(format!("--pairs: text {} is no two parts with one tab between them", n + 1))
            })
        };
        let halves = plain.iter().enumerate().map(halves).collect::<Result<Vec<_>, _>>()?;
        let halves: Vec<(&str, &str)> = halves.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        return Ok(Made::Labels(encoder.classify_pairs(&halves)?));
    }
    Ok(match encoder.task() {
        TextTask::Embed => Made::Vectors(encoder.embed(&plain)?),
        TextTask::Classify => Made::Labels(encoder.classify(&plain)?),
        TextTask::Tag => Made::Tags(encoder.tag(&plain)?),
        TextTask::FillMask => Made::Fillings(encoder.fill_mask(&plain, BEST)?),
    })
}

/// The task as JSON names it.
fn task_name(task: TextTask) -> &'static str {
    match task {
        TextTask::Embed => "embed",
        TextTask::Classify => "classify",
        TextTask::Tag => "tag",
        TextTask::FillMask => "fill_mask",
    }
}

/// A label with its probability and its logit.
pub fn label_json(label: &Label) -> Value {
    json!({ "label": label.label, "score": number(label.score), "logit": number(label.logit) })
}

/// A number in the fewest digits that give it back as an `f32`; null for one that JSON lacks.
pub fn number(value: f32) -> Value {
    json!(value.to_string().parse::<f64>().ok().filter(|v| v.is_finite()))
}

fn results(texts: &[String], made: &Made) -> Vec<Value> {
    let tag = |t: &Tag| json!({ "token": t.token, "id": t.id, "label": t.label, "score": number(t.score), "logit": number(t.logit) });
    let filling = |f: &Filling| json!({ "token": f.token, "id": f.id, "score": number(f.score) });
    let fillings = |mask: &Vec<Filling>| mask.iter().map(filling).collect::<Value>();
    let result = |(n, text): (usize, &String)| match made {
        Made::Vectors(all) => {
            json!({ "text": text, "embedding": all[n].iter().copied().map(number).collect::<Value>() })
        }
        Made::Labels(all) => json!({ "text": text, "labels": all[n].iter().map(label_json).collect::<Value>() }),
        Made::Tags(all) => json!({ "text": text, "tokens": all[n].iter().map(tag).collect::<Value>() }),
        Made::Fillings(all) => json!({ "text": text, "masks": all[n].iter().map(fillings).collect::<Value>() }),
    };
    texts.iter().enumerate().map(result).collect()
}

fn shown(texts: &[String], made: &Made) -> String {
    let mut out = String::new();
    match made {
        Made::Vectors(vectors) => return vectors_shown(texts, vectors),
        Made::Labels(all) => {
            for (n, labels) in all.iter().enumerate() {
                let rows = labels.iter().take(BEST).map(|l| (l.label.clone(), l.score));
                block(&mut out, texts, n, rows.map(|(label, score)| vec![label, format!("{score:.4}")]).collect());
            }
        }
        Made::Tags(all) => {
            for (n, tags) in all.iter().enumerate() {
                let row = |t: &Tag| vec![t.token.clone(), t.label.clone(), format!("{:.4}", t.score)];
                block(&mut out, texts, n, tags.iter().map(row).collect());
            }
        }
        Made::Fillings(all) => {
            for (n, masks) in all.iter().enumerate() {
                let row = |f: &Filling| vec![f.token.clone(), format!("{:.4}", f.score)];
                for mask in masks {
                    block(&mut out, texts, n, mask.iter().map(row).collect());
                }
            }
        }
    }
    out
}

/// A text and, indented below it, rows that line up. Of many texts each is cut, and a blank one is its number.
fn block(out: &mut String, texts: &[String], n: usize, rows: Vec<Vec<String>>) {
    match texts {
        [text] => out.push_str(&ui::printable(text)),
        _ if texts[n].trim().is_empty() => out.push_str(&format!("(blank text {})", n + 1)),
        _ => out.push_str(&short(&texts[n])),
    }
    out.push('\n');
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|row| row.iter().map(|cell| ui::printable(cell).into_owned()).collect()).collect();
    for line in ui::table(&rows).lines() {
        out.push_str("  ");
        out.push_str(line);
        out.push('\n');
    }
}

/// Size, norm and first values of each vector, and the cosines between them.
fn vectors_shown(texts: &[String], vectors: &[Vec<f32>]) -> String {
    let head = |name: &str| name.to_owned();
    let mut rows = vec![vec![head(""), head("text"), head("size"), head("norm"), head("first values")]];
    for (n, (text, vector)) in texts.iter().zip(vectors).enumerate() {
        let mut values: Vec<String> = vector.iter().take(SHOWN).map(|v| format!("{v:>8.4}")).collect();
        values.extend((vector.len() > SHOWN).then(|| "…".to_owned()));
        let norm = format!("{:.4}", dot(vector, vector).sqrt());
        rows.push(vec![(n + 1).to_string(), short(text), vector.len().to_string(), norm, values.join(" ")]);
    }
    let mut out = ui::table(&rows);
    if !(2..=COMPARED).contains(&vectors.len()) {
        return out;
    }
    let mut rows =
        vec![std::iter::once("cosine".to_owned()).chain((1..=vectors.len()).map(|n| format!("{n:>7}"))).collect()];
    for (n, a) in vectors.iter().enumerate() {
        let cosine = |b: &Vec<f32>| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(f64::MIN_POSITIVE);
        let cells = vectors.iter().map(|b| format!("{:>7.4}", cosine(b)));
        rows.push(std::iter::once((n + 1).to_string()).chain(cells).collect::<Vec<_>>());
    }
    out.push('\n');
    out.push_str(&ui::table(&rows));
    out
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
}

/// The beginning of a text on one line.
fn short(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = ui::printable(&line).into_owned();
    match line.chars().count() > WIDTH {
        true => line.chars().take(WIDTH - 1).chain(['…']).collect(),
        false => line,
    }
}
