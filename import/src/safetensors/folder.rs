//! Which files of a Hugging Face folder hold the weights.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::header::SafetensorsFile;
use crate::error::{ImportError, Result, clip};
use crate::json;

/// Says which shard holds which tensor.
const INDEX: &str = "model.safetensors.index.json";

/// The weight files of a folder, opened and checked against the index when there is one.
#[derive(Debug)]
pub struct WeightFiles {
    /// In the order of their names.
    pub files: Vec<SafetensorsFile>,
}

/// Finds and opens the weights. Those of a file that is `named`: all shards if the folder's index has it among them, else
/// that file alone. Without one: `model.safetensors`, else the shards that `model.safetensors.index.json` names, else the only
/// `.safetensors` file of the folder.
pub fn find_weights(folder: &Path, named: Option<&Path>) -> Result<WeightFiles> {
    if let Some(file) = named {
        let index = folder.join(INDEX);
        return match crate::files::is_there(&index)? && is_shard(file, &index)? {
            true => from_index(folder, &index),
            false => Ok(WeightFiles { files: vec![SafetensorsFile::open(file)?] }),
        };
    }
    let single = folder.join("model.safetensors");
    if crate::files::is_there(&single)? {
        return Ok(WeightFiles { files: vec![SafetensorsFile::open(&single)?] });
    }
    let index = folder.join(INDEX);
    if crate::files::is_there(&index)? {
        return from_index(folder, &index);
    }
    let found = with_suffix(folder, ".safetensors")?;
    match found.as_slice() {
        [one] => Ok(WeightFiles { files: vec![SafetensorsFile::open(one)?] }),
        [] => {
            let other = with_suffix(folder, ".bin")?;
            let cause = match other.first() {
                Some(bin) => format!(
                    "the folder holds weights as Python pickles ({}), which are not read: they can run code",
                    bin.file_name().unwrap_or_default().to_string_lossy()
                ),
                None => "the folder holds no `model.safetensors`".into(),
            };
            Err(ImportError::unsupported(
                folder,
                "weights",
                cause,
                "Put the weights there as safetensors: `save_pretrained(folder, safe_serialization=True)` writes them.",
            ))
        }
        many => Err(ImportError::unsupported(
            folder,
            "weights",
            format!(
                "there are {} safetensors files, no `model.safetensors` and no `{INDEX}` that says how they belong together",
                many.len()
            ),
            format!(
                "Download the index file too; or, if one of the files is the whole model, name it instead of the folder: {}.",
                crate::error::names(&many.iter().map(|p| p.to_string_lossy()).collect::<Vec<_>>(), 5)
            ),
        )),
    }
}

/// Whether the index puts tensors into a file of this name.
fn is_shard(file: &Path, index: &Path) -> Result<bool> {
    let text = json::read(index)?;
    let name = file.file_name().and_then(|n| n.to_str());
    Ok(weight_map(&text, index)?.values().any(|shard| shard.as_str() == name))
}

/// The file of each tensor, as the index has it.
fn weight_map<'a>(text: &'a Value, index: &Path) -> Result<&'a Map<String, Value>> {
    text.get("weight_map").and_then(Value::as_object).ok_or_else(|| {
        ImportError::malformed(
            index,
            "key `weight_map`",
            "it is missing or no object",
            "Download the index file again.",
        )
    })
}

fn from_index(folder: &Path, index: &Path) -> Result<WeightFiles> {
    let text = json::read(index)?;
    let map = weight_map(&text, index)?;
    let mut shards = BTreeSet::new();
    for (tensor, file) in map {
        // A path that leaves the folder is refused: the index is untrusted input.
        match file.as_str() {
            Some(name) if !name.is_empty() && !name.contains(['/', '\\']) && name != ".." => {
                shards.insert(name);
            }
            _ => {
                return Err(ImportError::malformed(
                    index,
                    format!("tensor `{}`", clip(tensor)),
                    format!("its file is {}, and must be a file name in this folder", clip(&file.to_string())),
                    "Download the index file again.",
                ));
            }
        }
    }
    let missing: Vec<&str> = shards.iter().copied().filter(|s| !folder.join(s).is_file()).collect();
    if !missing.is_empty() {
        return Err(ImportError::refused(
            folder.display().to_string(),
            format!(
                "{} of {} weight files are missing: {}",
                missing.len(),
                shards.len(),
                crate::error::names(&missing, 5)
            ),
            "Download the missing files into the same folder.",
        ));
    }
    let files = shards.iter().map(|s| SafetensorsFile::open(&folder.join(s))).collect::<Result<Vec<_>>>()?;
    let mut place = std::collections::HashMap::new();
    for file in &files {
        for tensor in file.tensors() {
            if let Some(first) = place.insert(tensor.name.as_str(), file.path()) {
                return Err(ImportError::malformed(
                    file.path(),
                    format!("tensor `{}`", clip(&tensor.name)),
                    format!("it is also in {}", first.display()),
                    "Download the shards again; they seem to belong to different models.",
                ));
            }
        }
    }
    for (tensor, file) in map {
        if !place.contains_key(tensor.as_str()) {
            return Err(ImportError::malformed(
                index,
                format!("tensor `{}`", clip(tensor)),
                format!("the index says it is in {}, and it is not", clip(&file.to_string())),
                "Download the shards again.",
            ));
        }
    }
    Ok(WeightFiles { files })
}

/// Files of a folder by their ending, sorted.
pub(crate) fn with_suffix(folder: &Path, suffix: &str) -> Result<Vec<PathBuf>> {
    let list = std::fs::read_dir(folder).map_err(|e| ImportError::io(folder, "list the folder", e))?;
    let mut found = Vec::new();
    for entry in list {
        let path = entry.map_err(|e| ImportError::io(folder, "list the folder", e))?.path();
        let fits = path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.ends_with(suffix));
        if fits && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
