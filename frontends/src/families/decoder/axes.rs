//! Rotary embedding by a position on each of three axes: time, height and width.

use super::Rope;
use super::rope::{KEYS, Rules};
use crate::families::{FamilyError, Settings};

/// The axes.
pub(crate) const AXES: usize = 3;

/// Reads the rotation of a type whose tokens have three positions: `rope_scaling`, else `rope_parameters`, with
/// `mrope_section`, the pairs of a head that turn by each axis; `sections` where that is missing. No other scaling is
/// known beside it.
pub(super) fn read(settings: &mut Settings<'_>, rules: Rules, sections: [i64; AXES]) -> Result<Rope, FamilyError> {
    let beside = settings.positive("rope_theta")?.unwrap_or(rules.theta);
    // Both keys count as read, whichever gives the table.
    let (scaling, parameters) = (settings.table("rope_scaling")?, settings.table("rope_parameters")?);
    let Some(table) = scaling.filter(|t| !t.is_empty()).or(parameters) else {
        return rope(settings, rules, beside, &sections);
    };
    let theta = table.positive("rope_theta")?.unwrap_or(beside);
    let (kind, old) = (table.text("rope_type")?, table.text("type")?);
    if let Some(kind) = kind.or(old).filter(|kind| !["default", "mrope"].contains(&kind.as_str())) {
        return Err(table.unsupported(
            "rope_type",
            format!("\"{}\"", kind.chars().take(60).collect::<String>()),
            "with positions on three axes only `default` and `mrope` are known",
            "Use a program or a graph section for another scaling",
        ));
    }
    let given = table.integers("mrope_section")?;
    let rope = rope(&table, rules, theta, given.as_deref().unwrap_or(&sections))?;
    settings.absorb(table, KEYS);
    Ok(rope)
}

/// The rotation whose pairs are divided so; `table` is where `mrope_section` belongs.
fn rope(table: &Settings<'_>, rules: Rules, theta: f64, sections: &[i64]) -> Result<Rope, FamilyError> {
    let sizes: Vec<u32> = sections.iter().filter_map(|&n| u32::try_from(n).ok()).filter(|&n| n > 0).collect();
    let pairs = rules.head_dim / 2;
    let sum = sizes.iter().map(|&n| u64::from(n)).sum::<u64>();
    if sizes.len() != sections.len() || sizes.len() != AXES || sum != u64::from(pairs) {
        return Err(table.bad(
            "mrope_section",
            format!("{sections:?}"),
            format!("heads of {} have {pairs} pairs, which three numbers above 0 divide", rules.head_dim),
            "Give numbers for time, height and width that make up all pairs",
        ));
    }
    Ok(Rope { sections: sizes, ..Rope::plain(rules.head_dim, theta as f32) })
}
