//! Rotary scalings: which keys reach the operation.

use crate::tiny::*;
use tallow_frontends::families;
use tallow_ir::Op;
use tallow_ir::ops::Scaling;

/// The rotation of layer 0, as the text form shows it.
fn rope(tiny: &Tiny) -> Op {
    op(&tiny.build().graph, "layer0.q_rope").clone()
}

/// The rotation of a llama with this scaling table.
fn scaled(table: &str) -> Op {
    rope(&Tiny::with("llama", format!("rope_scaling = {{ {table} }}").leak()))
}

fn refused(table: &str) -> String {
    Tiny::with("llama", format!("rope_scaling = {{ {table} }}").leak()).error()
}

fn phi3(extra: &'static str) -> Tiny {
    Tiny { fused: true, ..Tiny::with("phi3", extra) }
}

/// Scaling, factor, original, low, high, attention factor.
fn facts(op: &Op) -> (Scaling, f32, u32, f32, f32, f32) {
    match op {
        Op::RopeScaled { scaling, factor, original, low, high, attention_factor, .. } => {
            (*scaling, factor.get(), *original, low.get(), high.get(), attention_factor.get())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn default_is_plain_and_theta_in_the_table_wins() {
    assert!(matches!(scaled("rope_type = \"default\""), Op::Rope { base, .. } if base.get() == 1e4));
    assert!(matches!(scaled("type = \"default\", factor = 4"), Op::Rope { .. }));
    let both = Tiny::with("llama", "rope_theta = 5\nrope_parameters = { rope_theta = 7.0 }");
    assert!(matches!(rope(&both), Op::Rope { base, .. } if base.get() == 7.0));
    // A table of scalings replaces the other one.
    let both =
        Tiny::with("llama", "rope_parameters = { rope_theta = 7.0 }\nrope_scaling = { type = \"linear\", factor = 2 }");
    assert!(matches!(rope(&both), Op::RopeScaled { base, .. } if base.get() == 1e4));
    let empty = Tiny::with("llama", "rope_parameters = { rope_theta = 7.0 }\nrope_scaling = {}");
    assert!(matches!(rope(&empty), Op::Rope { base, .. } if base.get() == 7.0));
}

#[test]
fn linear_and_dynamic() {
    assert_eq!(facts(&scaled("rope_type = \"linear\", factor = 4")).0, Scaling::Linear);
    assert_eq!(facts(&scaled("type = \"linear\", factor = 4.0")).1, 4.0);
    let dynamic = facts(&scaled("rope_type = \"dynamic\", factor = 2.5"));
    assert_eq!((dynamic.0, dynamic.1, dynamic.2), (Scaling::Dynamic, 2.5, 64));
    assert!(refused("rope_type = \"linear\"").contains("architecture.rope_scaling.factor"));
    assert!(refused("rope_type = \"linear\", factor = 0").contains("above 0"));
}

#[test]
fn llama3_takes_four_numbers() {
    let table = "rope_type = \"llama3\", factor = 32.0, low_freq_factor = 1.0, high_freq_factor = 4.0, original_max_position_embeddings = 16";
    assert_eq!(facts(&scaled(table)), (Scaling::Llama3, 32.0, 16, 1.0, 4.0, 1.0));
    let top = Tiny::with(
        "llama",
        "original_max_position_embeddings = 20\nrope_scaling = { rope_type = \"llama3\", factor = 32.0, low_freq_factor = 1.0, high_freq_factor = 4.0, original_max_position_embeddings = 16 }",
    );
    assert_eq!(facts(&rope(&top)).2, 20);
    let error = refused("rope_type = \"llama3\", factor = 32.0, low_freq_factor = 1.0");
    assert!(error.contains("high_freq_factor") && error.contains("Add it"), "{error}");
}

#[test]
fn yarn_works_out_its_attention_factor() {
    let g = |m: f64, f: f64| 0.1 * m * f.ln() + 1.0;
    let plain = facts(&scaled("rope_type = \"yarn\", factor = 4, original_max_position_embeddings = 32"));
    assert_eq!(plain, (Scaling::Yarn, 4.0, 32, 1.0, 32.0, g(1.0, 4.0) as f32));
    let full = "rope_type = \"yarn\", factor = 4, beta_fast = 16, beta_slow = 2, truncate = false, mscale = 0.7, mscale_all_dim = 0.9";
    assert_eq!(facts(&scaled(full)), (Scaling::YarnExact, 4.0, 64, 2.0, 16.0, (g(0.7, 4.0) / g(0.9, 4.0)) as f32));
    let given = "rope_type = \"yarn\", factor = 4, attention_factor = 1.5, mscale = 2, mscale_all_dim = 3";
    assert_eq!(facts(&scaled(given)).5, 1.5);
    // With one of the two at zero they do not count; a factor of 1 or less gains nothing.
    assert_eq!(
        facts(&scaled("rope_type = \"yarn\", factor = 4, mscale = 2, mscale_all_dim = 0")).5,
        g(1.0, 4.0) as f32
    );
    assert_eq!(facts(&scaled("rope_type = \"yarn\", factor = 1")).5, 1.0);
    assert_eq!(facts(&scaled("rope_type = \"yarn\", original_max_position_embeddings = 16")).1, 4.0);
}

#[test]
fn longrope_takes_a_list_for_each_side() {
    let table = "rope_type = \"longrope\", short_factor = [1, 1.5], long_factor = [2.0, 4.0], original_max_position_embeddings = 16";
    let Op::RopeScaled { short, long, attention_factor, original, scaling, .. } = scaled(table) else { panic!() };
    let list = |l: &[tallow_ir::ops::Real]| l.iter().map(|x| x.get()).collect::<Vec<_>>();
    assert_eq!((list(&short), list(&long)), (vec![1.0, 1.5], vec![2.0, 4.0]));
    assert_eq!((original, scaling), (16, Scaling::LongRope));
    // F = 64/16.
    let expected = (1.0 + 4f64.ln() / 16f64.ln()).sqrt() as f32;
    assert_eq!(attention_factor.get(), expected);
    let error = refused("rope_type = \"longrope\", short_factor = [1], long_factor = [2.0, 4.0]");
    assert!(error.contains("2 pairs are rotated"), "{error}");
    let error = refused("rope_type = \"longrope\", short_factor = [1, 1]");
    assert!(error.contains("long_factor"), "{error}");
    let error = refused("rope_type = \"longrope\", short_factor = [1, -1], long_factor = [1, 1]");
    assert!(error.contains("above 0"), "{error}");
}

#[test]
fn phi3_knows_longrope_under_three_names_with_its_own_original_length() {
    for kind in ["longrope", "su", "yarn"] {
        let extra = format!(
            "rope_scaling = {{ type = \"{kind}\", short_factor = [1, 1], long_factor = [2, 2], original_max_position_embeddings = 8 }}\noriginal_max_position_embeddings = 16"
        );
        let facts = facts(&rope(&phi3(extra.leak())));
        assert_eq!((facts.0, facts.2), (Scaling::LongRope, 16));
    }
    let silent = "rope_scaling = { type = \"longrope\", short_factor = [1, 1], long_factor = [2, 2] }";
    let inside = "rope_scaling = { type = \"longrope\", short_factor = [1, 1], long_factor = [2, 2], original_max_position_embeddings = 8 }";
    assert_eq!(facts(&rope(&phi3(inside))).2, 8);
    let silent = facts(&rope(&phi3(silent)));
    assert_eq!((silent.2, silent.5), (4096, 1.0));
    let error = phi3("rope_scaling = { type = \"linear\", factor = 2 }").error();
    assert!(error.contains("known scalings are default and longrope"), "{error}");
    let half =
        "partial_rotary_factor = 0.5\nrope_scaling = { type = \"longrope\", short_factor = [1], long_factor = [2] }";
    assert!(matches!(rope(&phi3(half)), Op::RopeScaled { rope_dim: 2, .. }));
}

#[test]
fn factors_divide_each_frequency() {
    let Op::RopeScaled { scaling, short, .. } = scaled("rope_type = \"factors\", factors = [1.0, 8.0]") else {
        panic!()
    };
    assert_eq!(scaling, Scaling::Factors);
    assert_eq!(short[1].get(), 8.0);
    assert!(refused("rope_type = \"factors\"").contains("factors"));
}

#[test]
fn unknown_scalings_and_keys_are_named() {
    let tiny = Tiny::with("llama", "rope_scaling = { rope_type = \"spiral\" }");
    let error = families::build(&tiny.config(), &tiny.shapes()).unwrap_err();
    assert!(error.is_unsupported());
    let text = error.to_string();
    assert!(text.contains("`architecture.rope_scaling.rope_type` = \"spiral\""), "{text}");
    assert!(text.contains("yarn, llama3"), "{text}");
    let error = refused("rope_type = \"linear\", factor = 2, twist = 3");
    assert!(error.contains("`architecture.rope_scaling.twist`"), "{error}");
}

#[test]
fn partial_factors_are_noted_refused_or_checked() {
    let family = Tiny::with("llama", "partial_rotary_factor = 0.5").build();
    assert!(family.notes[0].contains("has no effect"), "{:?}", family.notes);
    assert!(matches!(op(&family.graph, "layer0.q_rope"), Op::Rope { rope_dim: 4, .. }));
    let scaled = "partial_rotary_factor = 0.5\nrope_scaling = { type = \"linear\", factor = 2 }";
    let error = Tiny::with("llama", scaled).error();
    assert!(error.contains("rotates whole heads"), "{error}");
    assert!(phi3("partial_rotary_factor = 0.25").error().contains("in pairs"));
    assert!(phi3("partial_rotary_factor = 1.5").error().contains("up to 1"));
}

#[test]
fn extreme_numbers_do_not_reach_the_graph() {
    for table in [
        "rope_type = \"linear\", factor = 1e300",
        "rope_type = \"linear\", factor = 1e-300",
        "rope_type = \"linear\", factor = -1",
        "rope_type = \"yarn\", factor = 2, beta_fast = -1",
        "rope_type = \"yarn\", factor = 2, rope_theta = 1",
        "rope_type = \"longrope\", factor = 2, short_factor = [1, 1], long_factor = [1, 1], original_max_position_embeddings = 1",
        "rope_type = \"dynamic\", factor = 2, rope_theta = 1e300",
        "rope_type = 7",
    ] {
        let error = refused(table);
        assert!(error.contains("architecture.rope_scaling."), "{table}: {error}");
    }
}
