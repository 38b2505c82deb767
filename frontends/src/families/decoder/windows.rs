//! Which keys each layer sees.

use crate::families::{FamilyError, Settings};

/// `layer_types` as a list of "does this layer slide", if the key is there.
pub(super) fn layer_types(settings: &Settings<'_>, layers: u32) -> Result<Option<Vec<bool>>, FamilyError> {
    let key = "layer_types";
    let Some(list) = settings.texts(key)? else {
        return Ok(None);
    };
    if list.len() != layers as usize {
        return Err(settings.bad(
            key,
            format!("a list of {}", list.len()),
            format!("`num_hidden_layers` is {layers}"),
            "Give one entry per layer",
        ));
    }
    let slides = |(i, t): (usize, &String)| match t.as_str() {
        "sliding" | "sliding_attention" => Ok(true),
        "full" | "full_attention" => Ok(false),
        other => Err(settings.unsupported(
            key,
            format!("\"{}\" for layer {i}", other.chars().take(60).collect::<String>()),
            "known kinds of layer are `sliding` and `full`",
            "Use a program or a graph section for other kinds",
        )),
    };
    list.iter().enumerate().map(slides).collect::<Result<_, _>>().map(Some)
}

/// The windows of types that switch them on with `use_sliding_window`: on the layers that
/// `layer_types` names, else where `by_default` says.
pub(super) fn switched(
    settings: &Settings<'_>,
    layers: u32,
    window: Option<u32>,
    by_default: impl Fn(u32) -> bool,
) -> Result<Vec<Option<u32>>, FamilyError> {
    let on = settings.flag("use_sliding_window", false)?;
    let window = settings.window("sliding_window", window)?.filter(|_| on);
    let listed = layer_types(settings, layers)?;
    if window.is_none() && listed.iter().flatten().any(|slides| *slides) {
        return Err(no_window(settings, on));
    }
    Ok((0..layers)
        .map(|i| {
            let slides = match &listed {
                Some(list) => list[i as usize],
                None => by_default(i),
            };
            window.filter(|_| slides)
        })
        .collect())
}

/// The windows of types whose layers slide by `layer_types`, else where `by_default` says, and that
/// have no other switch.
pub(super) fn by_layer(
    settings: &Settings<'_>,
    layers: u32,
    window: Option<u32>,
    by_default: impl Fn(u32) -> bool,
) -> Result<Vec<Option<u32>>, FamilyError> {
    let slides = match layer_types(settings, layers)? {
        Some(list) => list,
        None => (0..layers).map(by_default).collect(),
    };
    let window = settings.window("sliding_window", window)?;
    if window.is_none() && slides.contains(&true) {
        return Err(no_window(settings, true));
    }
    Ok(slides.into_iter().map(|s| window.filter(|_| s)).collect())
}

fn no_window(settings: &Settings<'_>, on: bool) -> FamilyError {
    let (found, cause) = if on {
        ("none", "some layers slide, and have no window to slide")
    } else {
        ("switched off", "`layer_types` has sliding layers and `use_sliding_window` is false")
    };
    settings.bad("sliding_window", found, cause, "Set the window, or make every layer `full`")
}
