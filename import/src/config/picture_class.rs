//! What a missing key of `preprocessor_config.json` means: the attributes of the class that reads the file.

use serde_json::{Map, Value, json};

/// One class of image processors.
struct Class {
    /// Its name without what all of them end with.
    name: &'static str,
    /// The types of models that have it where the file names none.
    types: &'static [&'static str],
    /// Whether a size that is one number means both sides; else it is the shorter one.
    square: bool,
    /// Keys and values.
    defaults: fn() -> Value,
}

const CLASSES: &[Class] = &[
    Class { name: "Bit", types: &["dinov2"], square: false, defaults: shortest_and_crop },
    Class { name: "CLIP", types: &["clip", "clip_vision_model"], square: false, defaults: shortest_and_crop },
    Class {
        name: "ConvNext",
        types: &["convnext", "resnet"],
        square: false,
        defaults: || {
            json!({
                "size": {"shortest_edge": 384}, "resample": 3, "crop_pct": 0.875,
                "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
            })
        },
    },
    Class {
        name: "DeiT",
        types: &["deit"],
        square: true,
        defaults: || {
            json!({
                "size": {"height": 256, "width": 256}, "resample": 3, "do_center_crop": true, "crop_size": 224,
                "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
            })
        },
    },
    Class { name: "Qwen2VL", types: &["qwen2_vl", "qwen2_5_vl"], square: false, defaults: patches },
    Class {
        name: "Siglip",
        types: &["siglip", "siglip_vision_model"],
        square: false,
        defaults: || {
            json!({
                "size": {"height": 224, "width": 224}, "resample": 3, "do_convert_rgb": true,
                "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
            })
        },
    },
    Class {
        name: "ViT",
        types: &["vit"],
        square: true,
        defaults: || {
            json!({
                "size": {"height": 224, "width": 224}, "resample": 2,
                "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
            })
        },
    },
];

const CLIP_MEAN: [f64; 3] = [0.48145466, 0.4578275, 0.40821073];
const CLIP_DEVIATION: [f64; 3] = [0.26862954, 0.26130258, 0.27577711];

fn shortest_and_crop() -> Value {
    json!({
        "size": {"shortest_edge": 224}, "resample": 3, "do_center_crop": true, "crop_size": 224,
        "do_convert_rgb": true, "image_mean": CLIP_MEAN, "image_std": CLIP_DEVIATION,
    })
}

/// Without bounds, which have keys of their own.
fn patches() -> Value {
    json!({"resample": 3, "do_convert_rgb": true, "image_mean": CLIP_MEAN, "image_std": CLIP_DEVIATION})
}

/// What names of classes end with.
const ENDS: [&str; 4] = ["ImageProcessorFast", "ImageProcessorPil", "ImageProcessor", "FeatureExtractor"];

/// The settings with what the class says where they say nothing, or null; `None` for a class that is not known. The class
/// is that which the file names, or else that of the type.
pub(super) fn completed(map: &Map<String, Value>, model_type: &str) -> Option<Map<String, Value>> {
    let named = ["image_processor_type", "feature_extractor_type"].iter().find_map(|key| map.get(*key)?.as_str());
    let class = match named {
        Some(named) => {
            let name = ENDS.iter().find_map(|end| named.strip_suffix(end))?;
            CLASSES.iter().find(|class| class.name == name)?
        }
        None => CLASSES.iter().find(|class| class.types.contains(&model_type))?,
    };
    let mut all = match (class.defaults)() {
        Value::Object(defaults) => defaults,
        _ => Map::new(),
    };
    let shared = all.contains_key("crop_pct");
    // The share of a picture that is kept says something to one class alone.
    let says = |key: &str, value: &Value| !value.is_null() && (shared || key != "crop_pct");
    all.extend(map.iter().filter(|(key, value)| says(key, value)).map(|(key, value)| (key.clone(), value.clone())));
    if let Some(side) = all.get("size").and_then(Value::as_u64) {
        let size = match class.square {
            true => json!({"height": side, "width": side}),
            false => json!({"shortest_edge": side}),
        };
        all.insert("size".into(), size);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_key_is_what_the_class_says() {
        let of = |settings: Value, model_type: &str| {
            completed(settings.as_object().unwrap(), model_type).map(|map| {
                ["size", "crop_size", "crop_pct", "resample", "do_convert_rgb"]
                    .map(|key| map.get(key).cloned().unwrap_or_default())
            })
        };
        let null = Value::Null;
        let clip = of(json!({"feature_extractor_type": "CLIPFeatureExtractor", "size": 64, "crop_size": null}), "");
        assert_eq!(clip.unwrap(), [json!({"shortest_edge": 64}), json!(224), null.clone(), json!(3), json!(true)]);
        let deit = of(json!({"size": 64, "resample": 2, "crop_pct": 0.5}), "deit");
        assert_eq!(
            deit.unwrap(),
            [json!({"height": 64, "width": 64}), json!(224), null.clone(), json!(2), null.clone()]
        );
        let resnet = of(json!({"image_processor_type": "ConvNextImageProcessorFast", "crop_pct": 0.5}), "resnet");
        assert_eq!(resnet.unwrap(), [json!({"shortest_edge": 384}), null.clone(), json!(0.5), json!(3), null]);
        assert_eq!(of(json!({"image_processor_type": "OtherImageProcessor"}), "vit"), None);
        assert_eq!(of(json!({"feature_extractor_type": "WhisperFeatureExtractor"}), "whisper"), None);
        assert_eq!(of(json!({}), "llava"), None);
    }
}
