//! Experts in GGUF files.

use serde_json::{Map, Value as Json};

use super::Keys;
use crate::error::{ImportError, Result};
use crate::names::GgufArch;

/// The numbers of experts. Whether weights are renormalised is no key: each architecture has its way.
pub(super) fn read(
    out: &mut Map<String, Json>,
    keys: &Keys<'_>,
    arch: &GgufArch,
    count: u64,
    inner: u64,
) -> Result<()> {
    let used = keys.uint("expert_used_count")?;
    let Some(used) = used.filter(|&n| n > 0) else {
        return Err(ImportError::malformed(
            keys.file.path(),
            format!("key `{}.expert_used_count`", arch.name),
            "it is missing, or 0",
            "Convert the model again with a current converter.",
        ));
    };
    out.insert("num_experts_per_tok".into(), used.into());
    let width = keys.uint("expert_feed_forward_length")?.filter(|&n| n > 0);
    if arch.name == "llama" {
        out.insert("num_local_experts".into(), count.into());
        out.insert("intermediate_size".into(), width.unwrap_or(inner).into());
        return Ok(());
    }
    out.insert("num_experts".into(), count.into());
    // The readers of files without the key divide what the dense layers have.
    out.insert("moe_intermediate_size".into(), width.unwrap_or(inner / used).into());
    out.insert("norm_topk_prob".into(), (arch.name == "qwen3moe").into());
    if arch.name == "qwen2moe" {
        let shared = keys.uint("expert_shared_feed_forward_length")?.filter(|&n| n > 0);
        out.insert("shared_expert_intermediate_size".into(), shared.unwrap_or(inner).into());
    }
    Ok(())
}
