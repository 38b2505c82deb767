//! Pictures: what settings do to the graphs, and what is refused.

use crate::tiny::ops;
use indexmap::IndexMap;
use tallow_format::Config;
use tallow_frontends::families::{self, Family, FamilyError};
use tallow_ir::Op;

fn config(model_type: &str, settings: &str) -> Config {
    Config::parse(&format!("model_type = \"{model_type}\"\n[architecture]\n{settings}")).unwrap()
}

/// Every tensor that a config asks for beside those of `more`.
fn shapes(config: &Config, more: &[(&str, &[u64])]) -> IndexMap<String, Vec<u64>> {
    let mut found: IndexMap<String, Vec<u64>> = more.iter().map(|(n, s)| ((*n).to_owned(), s.to_vec())).collect();
    if let Err(FamilyError::Tensors(faults)) = families::build(config, &found) {
        found.extend(faults.missing);
    }
    found
}

fn built(model_type: &str, settings: &str, more: &[(&str, &[u64])]) -> Family {
    let config = config(model_type, settings);
    families::build(&config, &shapes(&config, more)).unwrap()
}

fn refused(model_type: &str, settings: &str) -> String {
    let config = config(model_type, settings);
    families::build(&config, &shapes(&config, &[])).unwrap_err().to_string()
}

fn outputs(family: &Family) -> Vec<&str> {
    family.graph.outputs().map(|(name, _)| name).collect()
}

fn count(family: &Family, of: impl Fn(&Op) -> bool) -> usize {
    ops(&family.graph).into_iter().filter(|op| of(op)).count()
}

const VIT: &str = "hidden_size = 8\nnum_hidden_layers = 1\nnum_attention_heads = 2\nintermediate_size = 12\nimage_size = 8\npatch_size = 4\n";
const DINO: &str = "hidden_size = 8\nnum_hidden_layers = 1\nnum_attention_heads = 2\nimage_size = 8\npatch_size = 4\n";
const NET: &str = "depths = [1, 1]\nhidden_sizes = [8, 12]\n";
const CLIP: &str = "hidden_size = 8\nnum_hidden_layers = 1\nnum_attention_heads = 2\nintermediate_size = 12\nvocab_size = 10\nmax_position_embeddings = 6\nprojection_dim = 6\n";
const VISION: &str = "[architecture.vision]\nhidden_size = 8\nnum_hidden_layers = 1\nnum_attention_heads = 2\nintermediate_size = 12\nimage_size = 8\npatch_size = 4\n";

#[test]
fn tensors_decide_what_comes_out() {
    assert_eq!(outputs(&built("vit", VIT, &[])), ["last_hidden_state", "embedding"]);
    let pooler: (&str, &[u64]) = ("pooler.dense.weight", &[8, 8]);
    // Without the prefix, as a model is saved without a head.
    let plain: (&str, &[u64]) = ("embeddings.patch_embeddings.projection.weight", &[8, 3, 4, 4]);
    assert_eq!(outputs(&built("vit", VIT, &[plain, pooler])), ["last_hidden_state", "pooler_output"]);
    let classifier: (&str, &[u64]) = ("classifier.weight", &[5, 8]);
    let family = built("vit", &format!("{VIT}labels = [\"a\", \"b\", \"c\", \"d\", \"e\"]"), &[classifier]);
    assert_eq!(outputs(&family), ["last_hidden_state", "logits"]);
    // The pooler of a file with a classifier says nothing.
    let idle: (&str, &[u64]) = ("vit.pooler.dense.weight", &[8, 8]);
    assert!(built("vit", VIT, &[classifier, idle]).unread_tensors.is_empty());
    let pair = built("clip", &format!("{CLIP}{VISION}"), &[]);
    assert_eq!(outputs(&pair), ["text_embeds", "logits_per_image", "probabilities"]);
    let once = pair.once.unwrap();
    assert_eq!(once.outputs().map(|(name, _)| name).collect::<Vec<_>>(), ["image_embeds"]);
    assert!(pair.notes.is_empty(), "{:?}", pair.notes);
    let seen = built("clip", &format!("{CLIP}{VISION}"), &[classifier]);
    assert_eq!((outputs(&seen), seen.once.is_some()), (vec!["last_hidden_state", "logits"], false));
}

#[test]
fn positions_are_interpolated_for_the_size_that_the_processor_makes() {
    let resized = |settings: &str| {
        let family = built("dinov2", &format!("{DINO}{settings}"), &[]);
        count(&family, |op| matches!(op, Op::BatchMatmul { .. }))
    };
    assert_eq!(resized(""), 0);
    assert_eq!(resized("[architecture.processor]\ncrop = [8, 8]"), 0);
    assert_eq!(resized("[architecture.processor]\ncrop = [12, 8]"), 2);
    assert_eq!(resized("[architecture.processor]\nsize = [16, 16]\ncrop = [8, 8]"), 0);
    assert_eq!(resized("[architecture.processor]\nshortest_edge = 20"), 0);
}

#[test]
fn clip_finds_the_end_of_a_text_by_its_id_or_by_the_largest() {
    let reductions = |settings: &str| {
        let family = built("clip", &format!("{CLIP}{settings}{VISION}"), &[]);
        count(&family, |op| matches!(op, Op::SegmentReduce { .. }))
    };
    assert_eq!((reductions(""), reductions("eos_token_id = 7\n"), reductions("eos_token_id = 2\n")), (1, 1, 2));
}

#[test]
fn what_is_wrong_or_not_read_is_named() {
    let pair = |root: &str, vision: &str| format!("{CLIP}{root}{VISION}{vision}");
    let heads = VIT.replace("heads = 2", "heads = 3");
    for (model_type, settings, parts) in [
        ("vit", format!("{VIT}hidden_act = \"mish\""), ["architecture.hidden_act", "\"mish\""]),
        ("vit", format!("{VIT}pooler_act = \"mish\""), ["architecture.pooler_act", "\"mish\""]),
        ("vit", heads, ["architecture.num_attention_heads", "`hidden_size` = 8"]),
        ("vit", format!("{VIT}skew = 3"), ["architecture.skew", "family of `vit`"]),
        ("vit", VIT.replace("patch_size = 4", "patch_size = 9"), ["architecture.image_size", "9 × 9"]),
        ("vit", VIT.replace("patch_size = 4", "patch_size = [4, 4, 4]"), ["architecture.patch_size", "[4, 4, 4]"]),
        ("vit", VIT.replace("image_size = 8", "image_size = 40000"), ["architecture.image_size", "[40000]"]),
        ("vit", format!("{VIT}[architecture.processor]\nsize = [8, 12]"), ["architecture.processor", "8 × 12"]),
        ("deit", format!("{VIT}[architecture.processor]\nsize = 9\ncrop = 12"), ["architecture.processor", "12 × 12"]),
        ("dinov2", format!("{DINO}mlp_ratio = 1e9"), ["architecture.mlp_ratio", "lanes"]),
        ("dinov2", format!("{DINO}use_swiglu_ffn = 3"), ["architecture.use_swiglu_ffn", "`true` or `false`"]),
        ("dinov2", format!("{DINO}[architecture.processor]\nsize = 2"), ["architecture.processor", "2 × 2"]),
        (
            "dinov2",
            format!("{DINO}[architecture.processor]\nsize = 12").replace("image_size = 8", "image_size = [8, 4]"),
            ["architecture.image_size", "no squares"],
        ),
        ("convnext", format!("{NET}num_stages = 3"), ["architecture.num_stages", "2 stages"]),
        ("convnext", "depths = [1]".to_owned(), ["architecture.depths", "4 stages"]),
        ("convnext", "depths = [1, 0]\nhidden_sizes = [4, 4]".to_owned(), ["architecture.depths", "[1, 0]"]),
        ("convnext", "depths = []".to_owned(), ["architecture.depths", "[]"]),
        ("resnet", format!("{NET}layer_type = \"wide\""), ["architecture.layer_type", "basic or bottleneck"]),
        ("resnet", NET.replace("12", "10"), ["architecture.hidden_sizes", "divides"]),
        ("resnet", format!("{NET}groups = 4"), ["architecture.groups", "family of `resnet`"]),
        ("clip", pair("", "hidden_act = \"mish\""), ["architecture.vision.hidden_act", "\"mish\""]),
        ("clip", pair("", "skew = 3"), ["architecture.vision.skew", "family of `clip`"]),
        ("clip", pair("skew = 3\n", ""), ["architecture.skew", "family of `clip`"]),
        (
            "clip",
            pair("", "[architecture.processor]\ncrop = 16"),
            ["architecture.processor", "`vision.image_size` is 8 × 8"],
        ),
        ("clip", pair("", "").replace("embeddings = 6", "embeddings = 99999"), ["max_position_embeddings", "99999"]),
        (
            "siglip",
            pair("", "vision_use_head = false").replace("projection_dim = 6\n", ""),
            ["vision.vision_use_head", "head"],
        ),
        (
            "siglip",
            pair("projection_size = 4\n", "").replace("projection_dim = 6\n", ""),
            ["projection_size", "8 values"],
        ),
        ("clip_vision_model", VIT.replace("heads = 2", "heads = 5"), ["num_attention_heads", "hidden_size"]),
    ] {
        let error = refused(model_type, &settings);
        assert!(parts.iter().all(|part| error.contains(part)), "{model_type} {parts:?}: {error}");
    }
}

#[test]
fn tensors_that_are_missing_or_do_not_fit_are_named() {
    let config = config("clip", &format!("{CLIP}{VISION}"));
    let mut found = shapes(&config, &[]);
    found.shift_remove("vision_model.pre_layrnorm.weight");
    found.insert("text_projection.weight".into(), vec![6, 9]);
    let error = families::build(&config, &found).unwrap_err().to_string();
    for part in ["`vision_model.pre_layrnorm.weight` [8]", "`text_projection.weight` has shape [6, 9], expected [6, 8]"]
    {
        assert!(error.contains(part), "{error}");
    }
    // Labels are as many as the classifier gives.
    let classifier: (&str, &[u64]) = ("classifier.weight", &[5, 8]);
    let config = self::config("vit", &format!("{VIT}labels = [\"a\"]"));
    let error = families::build(&config, &shapes(&config, &[classifier])).unwrap_err().to_string();
    assert!(error.contains("architecture.labels") && error.contains("5 labels"), "{error}");
}

#[test]
fn settings_that_no_type_reads_but_files_hold_are_no_error() {
    let idle = "encoder_stride = 16\nproblem_type = \"single_label_classification\"\ndrop_path_rate = 0.1\n";
    built("vit", &format!("{VIT}{idle}attention_probs_dropout_prob = 0.1"), &[]);
    built(
        "dinov2",
        &format!("{DINO}{idle}layerscale_value = 0.5\nuse_mask_token = true\nout_features = [\"stage2\"]"),
        &[],
    );
    let family = built("clip", &format!("{CLIP}logit_scale_init_value = 2.6\n{VISION}projection_dim = 512"), &[]);
    assert_eq!(family.model_type, "clip");
    // Towers alone.
    let settings = format!("{VIT}projection_dim = 6\n");
    let projection: (&str, &[u64]) = ("visual_projection.weight", &[6, 8]);
    let tower = built("clip_vision_model", &settings, &[projection]);
    assert_eq!(outputs(&tower), ["last_hidden_state", "pooler_output", "image_embeds"]);
}
