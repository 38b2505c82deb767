//! What a GGUF file says about its model beside its architecture: name, licence, languages, origin, sampling.

use serde_json::{Map, Value as Json};

use crate::config::defaults::TypeSpec;
use crate::config::{Ids, Sampling, SourceConfig};
use crate::error::{ImportError, Result};
use crate::gguf::{GgufFile, Value};

/// The settings of a file together with what it says about itself. `towers` is the table of a type whose settings are taken
/// over as they are.
pub(super) fn source_config(
    file: &GgufFile,
    spec: &'static TypeSpec,
    settings: Map<String, Json>,
    towers: Option<Map<String, Json>>,
    warnings: Vec<String>,
) -> Result<SourceConfig> {
    let text = |key: &str| Ok::<_, ImportError>(file.text(key)?.map(str::to_owned));
    let name = text("general.name")?.filter(|n| !n.trim().is_empty());
    let mut lineage = Vec::new();
    let origins = [
        "general.source.huggingface.repository",
        "general.source.repo_url",
        "general.source.url",
        "general.base_model.0.repo_url",
        "general.repo_url",
    ];
    let mut source = None;
    for key in origins {
        if source.is_none() {
            source = text(key)?;
        }
    }
    let stem = file.path().file_stem().and_then(|s| s.to_str()).unwrap_or("unknown").to_owned();
    lineage.push(("source".into(), source.or_else(|| name.clone()).unwrap_or_else(|| stem.clone())));
    lineage.push(("format".into(), "gguf".into()));
    for (key, of) in [("author", "general.author"), ("quantized_by", "general.quantized_by")] {
        if let Some(value) = text(of)? {
            lineage.push((key.into(), value));
        }
    }
    let languages = match file.value("general.languages") {
        Some(Value::Array { .. }) => {
            file.texts("general.languages")?.unwrap_or_default().into_iter().map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    Ok(SourceConfig {
        towers,
        settings,
        spec,
        multimodal: false,
        sampling: sampling(file)?,
        ids: Ids::default(),
        name: name.or(Some(stem)),
        license: text("general.license")?,
        languages,
        lineage,
        warnings,
    })
}

fn sampling(file: &GgufFile) -> Result<Sampling> {
    Ok(Sampling {
        temperature: file.float("general.sampling.temp")?.filter(|t| *t >= 0.0),
        top_p: file.float("general.sampling.top_p")?.filter(|p| (0.0..=1.0).contains(p)),
        top_k: file.uint("general.sampling.top_k")?,
        min_p: file.float("general.sampling.min_p")?.filter(|p| *p > 0.0 && *p <= 1.0),
        repetition_penalty: file.float("general.sampling.penalty_repeat")?.filter(|p| *p > 0.0 && *p != 1.0),
    })
}
