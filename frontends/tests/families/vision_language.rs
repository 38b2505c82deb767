//! Models that see and write: what settings do to the two graphs, and what is refused.

use crate::tiny::{op, ops};
use indexmap::IndexMap;
use tallow_format::Config;
use tallow_frontends::families::{self, Family, FamilyError};
use tallow_ir::{Graph, Op};

const TEXT: &str = "hidden_size = 24\nintermediate_size = 16\nnum_hidden_layers = 2\nnum_attention_heads = 3\nnum_key_value_heads = 1\nvocab_size = 12\n";
const ROPE: &str = "[architecture.rope_scaling]\ntype = \"mrope\"\nmrope_section = [1, 1, 2]\n";
const TOWER: &str = "[architecture.vision]\ndepth = 2\nnum_heads = 2\npatch_size = 2\n";
const QWEN2: &str = "embed_dim = 16\nhidden_size = 24\nmlp_ratio = 2\n";
const QWEN2_5: &str =
    "hidden_size = 16\nout_hidden_size = 24\nintermediate_size = 20\nwindow_size = 8\nfullatt_block_indexes = [1]\n";

fn config(kind: &str, text: &str, rope: &str, vision: &str) -> Config {
    let own = if kind == "qwen2_vl" { QWEN2 } else { QWEN2_5 };
    // A line of the same key later takes its place.
    let mut lines: Vec<String> = format!("{TOWER}{own}{vision}").lines().map(str::to_owned).collect();
    let key = |line: &str| line.split(" = ").next().unwrap_or_default().to_owned();
    let all = lines.clone();
    let mut at = 0;
    lines.retain(|line| {
        at += 1;
        !all[at..].iter().any(|later| key(later) == key(line))
    });
    let vision = lines.join("\n");
    Config::parse(&format!("model_type = \"{kind}\"\n[architecture]\n{TEXT}{text}{rope}{vision}\n")).unwrap()
}

fn shapes(config: &Config) -> IndexMap<String, Vec<u64>> {
    let mut found: IndexMap<String, Vec<u64>> = IndexMap::new();
    if let Err(FamilyError::Tensors(faults)) = families::build(config, &found) {
        found.extend(faults.missing);
    }
    found
}

fn built(kind: &str, text: &str, vision: &str) -> Family {
    let config = config(kind, text, ROPE, vision);
    families::build(&config, &shapes(&config)).unwrap()
}

fn refused(kind: &str, text: &str, rope: &str, vision: &str) -> String {
    let config = config(kind, text, rope, vision);
    families::build(&config, &shapes(&config)).unwrap_err().to_string()
}

fn inputs(graph: &Graph) -> Vec<&str> {
    graph.inputs().map(|(name, _)| name).collect()
}

#[test]
fn the_tower_gives_what_the_text_takes() {
    let older = built("qwen2_vl", "", "");
    let once = older.once.as_ref().unwrap();
    assert_eq!(inputs(once), ["pixel_values", "patch_places", "frames"]);
    assert_eq!(once.outputs().map(|(name, _)| name).collect::<Vec<_>>(), ["picture"]);
    let takes = inputs(&older.graph);
    assert!(["input_ids", "picture", "places", "picture_rows"].iter().all(|n| takes.contains(n)), "{takes:?}");
    assert!(older.notes.is_empty() && older.driver.is_none() && older.unread_tensors.is_empty(), "{:?}", older.notes);
    let sight = older.sight.unwrap();
    assert_eq!((sight.image, sight.cell(), sight.patch_values(), sight.window), (151_655, 4, 24, None));
    let newer = built("qwen2_5_vl", "", "");
    assert_eq!(inputs(newer.once.as_ref().unwrap()), ["pixel_values", "patch_places", "frames", "windows", "order"]);
    assert_eq!(newer.sight.unwrap().window, Some(2));
    // Without windows nothing is put in another order.
    let whole = built("qwen2_5_vl", "", "fullatt_block_indexes = [0, 1]");
    assert_eq!(inputs(whole.once.as_ref().unwrap()), ["pixel_values", "patch_places", "frames"]);
}

#[test]
fn positions_have_three_axes_in_the_text_and_two_in_the_tower() {
    let family = built("qwen2_vl", "rope_theta = 500.0\n", "");
    let Op::RopeMulti { sections, restart, base, .. } = op(&family.graph, "layer1.k_rope") else { panic!() };
    assert_eq!((sections.as_slice(), *restart, base.get()), (&[1, 1, 2][..], false, 500.0));
    let once = family.once.as_ref().unwrap();
    let Op::RopeMulti { sections, restart, base, .. } = op(once, "block1.q_rope") else { panic!() };
    assert_eq!((sections.as_slice(), *restart, base.get()), (&[2, 2][..], true, 10_000.0));
    let rope = "rope_parameters = { rope_type = \"axial\", rope_theta = 99.0 }";
    let family = built("qwen2_vl", "", rope);
    let Op::RopeMulti { base, .. } = op(family.once.as_ref().unwrap(), "block0.k_rope") else { panic!() };
    assert_eq!(base.get(), 99.0);
}

#[test]
fn the_tower_of_either_type_has_its_own_parts() {
    let count = |family: &Family, name: &str| {
        let once = family.once.as_ref().unwrap();
        ops(once).iter().filter(|op| op.name() == name).count()
    };
    let older = built("qwen2_vl", "", "");
    assert_eq!((count(&older, "LayerNorm"), count(&older, "RmsNorm"), count(&older, "QuickGelu")), (5, 0, 2));
    let newer = built("qwen2_5_vl", "", "");
    assert_eq!((count(&newer, "LayerNorm"), count(&newer, "RmsNorm"), count(&newer, "SwiGlu")), (0, 5, 2));
    // The norms of the text keep their own ε.
    let Op::RmsNorm { eps } = op(&newer.graph, "layer0.attn_norm") else { panic!() };
    assert_eq!(eps.get(), 1e-5);
}

#[test]
fn names_of_newer_files_are_taken_too() {
    let config = config("qwen2_vl", "", ROPE, "");
    let new = |name: &str| match name.strip_prefix("visual.") {
        Some(rest) => format!("model.visual.{rest}"),
        None => name.replacen("model.", "model.language_model.", 1),
    };
    let shapes: IndexMap<String, Vec<u64>> = shapes(&config).into_iter().map(|(n, s)| (new(&n), s)).collect();
    let family = families::build(&config, &shapes).unwrap();
    assert!(family.unread_tensors.is_empty(), "{:?}", family.unread_tensors);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let section = |list: &str| ROPE.replace("[1, 1, 2]", list);
    for (kind, text, rope, vision, parts) in [
        ("qwen2_vl", "", section("[2, 3, 3]").as_str(), "", ["mrope_section", "[2, 3, 3]", "4 pairs"]),
        ("qwen2_vl", "", &section("[1, 1, 1, 1]"), "", ["mrope_section", "[1, 1, 1, 1]", "three numbers"]),
        ("qwen2_5_vl", "", &section("[0, 2, 2]"), "", ["mrope_section", "[0, 2, 2]", "above 0"]),
        ("qwen2_vl", "", "", "", ["mrope_section", "[16, 24, 24]", "heads of 8"]),
        ("qwen2_vl", "", &ROPE.replace("mrope\"", "yarn\""), "", ["rope_type", "yarn", "three axes"]),
        ("qwen2_vl", "head_dim = 16\n", ROPE, "", ["head_dim", "16", "hidden_size"]),
        ("qwen2_vl", "logit_scale = 2.0\n", ROPE, "", ["logit_scale", "qwen2_vl", "not read"]),
        ("qwen2_vl", "", ROPE, "deepstack = 3", ["vision.deepstack", "qwen2_vl", "not read"]),
        ("qwen2_vl", "", ROPE, "window_size = 8", ["vision.window_size", "qwen2_vl", "not read"]),
        ("qwen2_vl", "", ROPE, "hidden_size = 32", ["vision.hidden_size", "32", "24 wide"]),
        ("qwen2_vl", "", ROPE, "num_heads = 3", ["vision.num_heads", "3", "embed_dim"]),
        ("qwen2_vl", "", ROPE, "num_heads = 8", ["vision.num_heads", "heads of 2", "multiple of 4"]),
        ("qwen2_vl", "", ROPE, "in_channels = 1", ["vision.in_channels", "1", "3 channels"]),
        ("qwen2_5_vl", "", ROPE, "window_size = 3", ["vision.window_size", "3", "2 × 2 patches"]),
        ("qwen2_5_vl", "", ROPE, "patch_size = 4096", ["vision.patch_size", "4096", "1024"]),
        (
            "qwen2_5_vl",
            "",
            ROPE,
            "spatial_merge_size = 1024\nhidden_size = 16777216",
            ["spatial_merge_size", "1024", "rows of"],
        ),
    ] {
        let error = refused(kind, text, rope, vision);
        assert!(parts.iter().all(|part| error.contains(part)), "{parts:?}: {error}");
    }
    let bare = Config::parse(&format!("model_type = \"qwen2_vl\"\n[architecture]\n{TEXT}{ROPE}")).unwrap();
    let error = families::build(&bare, &shapes(&bare)).unwrap_err().to_string();
    assert!(error.contains("architecture.vision"), "{error}");
    let config = config("qwen2_5_vl", "", ROPE, "");
    let mut shapes = shapes(&config);
    shapes.shift_remove("visual.merger.mlp.2.weight");
    shapes.insert("visual.blocks.0.attn.qkv.bias".into(), vec![16]);
    let error = families::build(&config, &shapes).unwrap_err().to_string();
    assert!(error.contains("visual.merger.mlp.2.weight") && error.contains("visual.blocks.0.attn.qkv.bias"), "{error}");
}
