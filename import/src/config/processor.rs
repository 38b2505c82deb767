//! How pictures become the input of a model: `preprocessor_config.json`, or the `image_processor` of
//! `processor_config.json`, as the table `[architecture.processor]`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::picture_class::completed;
use crate::error::{ImportError, Result, clip};
use crate::json;

/// The table, for a type of model; `None` for a folder that says nothing of pictures.
pub fn read(folder: &Path, model_type: &str) -> Result<Option<Map<String, Value>>> {
    let Some((path, map)) = settings(folder)? else { return Ok(None) };
    let map = completed(&map, model_type).unwrap_or(map);
    // Those of sound say how many bands and samples there are.
    let pictures = ["image_mean", "do_rescale", "image_processor_type", "crop_size"];
    if !pictures.iter().any(|key| map.contains_key(*key)) {
        return Ok(None);
    }
    let reader = Reader { map: &map, path: &path };
    let mut table = Map::new();
    let patches = match map.get("image_processor_type").and_then(Value::as_str) {
        Some(class) => class.starts_with(PATCHES),
        None => matches!(model_type, "qwen2_vl" | "qwen2_5_vl"),
    };
    if patches {
        reader.patches(&mut table)?;
    }
    if reader.flag("do_resize", true)? {
        match patches {
            true => reader.pixels(&mut table)?,
            false => reader.size(&mut table)?,
        }
        let filter = match map.get("resample").filter(|v| !v.is_null()) {
            None => "bilinear",
            Some(found) => match found.as_u64() {
                Some(0) => "nearest",
                Some(1) => "lanczos",
                Some(2) => "bilinear",
                Some(3) => "bicubic",
                _ => return Err(reader.unknown("resample", found)),
            },
        };
        table.insert("resample".into(), filter.into());
    }
    if reader.flag("do_center_crop", false)? {
        match map.get("crop_size") {
            Some(Value::Object(sizes)) => {
                let sides = [sizes.get("height"), sizes.get("width")].map(|s| s.and_then(Value::as_u64));
                let [Some(height), Some(width)] = sides else {
                    return Err(reader.unknown("crop_size", &Value::Object(sizes.clone())));
                };
                table.insert("crop".into(), vec![height, width].into());
            }
            Some(side) if side.is_u64() => {
                table.insert("crop".into(), vec![side.clone(), side.clone()].into());
            }
            other => return Err(reader.unknown("crop_size", other.unwrap_or(&Value::Null))),
        }
    }
    if reader.flag("do_rescale", true)? {
        let factor = reader.share("rescale_factor")?.unwrap_or(1.0 / 255.0);
        table.insert("rescale_factor".into(), factor.into());
    }
    if reader.flag("do_normalize", true)? {
        for (key, name) in [("image_mean", "mean"), ("image_std", "deviation")] {
            let list = map.get(key).and_then(Value::as_array).filter(|l| l.iter().all(Value::is_number));
            let Some(list) = list else {
                return Err(reader.unknown(key, map.get(key).unwrap_or(&Value::Null)));
            };
            table.insert(name.into(), list.clone().into());
        }
    }
    if reader.flag("do_convert_rgb", false)? {
        table.insert("background".into(), "white".into());
    }
    for key in ["do_pad", "do_thumbnail", "do_align_long_axis", "do_flip_channel_order"] {
        if reader.flag(key, false)? {
            return Err(reader.unknown(key, &true.into()));
        }
    }
    Ok(Some(table))
}

/// The beginning of the names of processors that cut pictures of any size into patches.
const PATCHES: &str = "Qwen2VLImageProcessor";

/// The settings of a folder and the file that they stand in. Those inside a file for several kinds of input come first.
fn settings(folder: &Path) -> Result<Option<(PathBuf, Map<String, Value>)>> {
    let path = folder.join("processor_config.json");
    let mut all = json::read_optional(&path)?;
    if let Some(Value::Object(map)) = all.as_mut().and_then(|all| all.get_mut("image_processor")) {
        return Ok(Some((path, std::mem::take(map))));
    }
    let path = folder.join("preprocessor_config.json");
    Ok(match json::read_optional(&path)? {
        Some(Value::Object(map)) => Some((path, map)),
        _ => None,
    })
}

struct Reader<'a> {
    map: &'a Map<String, Value>,
    path: &'a Path,
}

impl Reader<'_> {
    fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.unknown(key, other)),
        }
    }

    /// A number above 0, of a size that means something.
    fn share(&self, key: &str) -> Result<Option<f64>> {
        match self.map.get(key).filter(|v| !v.is_null()) {
            None => Ok(None),
            Some(found) => match found.as_f64().filter(|x| *x > 0.0 && *x <= 1e6) {
                Some(x) => Ok(Some(x)),
                None => Err(self.unknown(key, found)),
            },
        }
    }

    /// `size`: both sides, the shortest one, or one number that means both or the shortest by `crop_pct` and cropping.
    fn size(&self, table: &mut Map<String, Value>) -> Result<()> {
        let Some(size) = self.map.get("size") else {
            return Err(self.unknown("size", &Value::Null));
        };
        let side = |key: &str| size.get(key).and_then(Value::as_u64);
        let crop_share = self.share("crop_pct")?;
        match (side("height"), side("width"), side("shortest_edge").or(size.as_u64())) {
            (Some(height), Some(width), _) => {
                table.insert("size".into(), vec![height, width].into());
            }
            // convnext: small pictures are made larger than wanted and cropped.
            (_, _, Some(edge)) if crop_share.is_some() => {
                let share = crop_share.unwrap_or(1.0);
                match edge < 384 && share > 0.0 {
                    true => {
                        table.insert("shortest_edge".into(), ((edge as f64 / share) as u64).into());
                        table.insert("crop".into(), vec![edge, edge].into());
                    }
                    false => {
                        table.insert("size".into(), vec![edge, edge].into());
                    }
                }
            }
            (_, _, Some(edge)) if size.is_object() || self.flag("do_center_crop", false)? => {
                table.insert("shortest_edge".into(), edge.into());
            }
            (_, _, Some(edge)) => {
                table.insert("size".into(), vec![edge, edge].into());
            }
            _ => return Err(self.unknown("size", size)),
        }
        Ok(())
    }

    /// Sizes of patches.
    fn patches(&self, table: &mut Map<String, Value>) -> Result<()> {
        for (key, name, usual) in
            [("patch_size", "patch", 14), ("merge_size", "merge", 2), ("temporal_patch_size", "frames", 2)]
        {
            table.insert(name.into(), self.count(key, self.map.get(key), usual)?.into());
        }
        Ok(())
    }

    /// The least and the most pixels of a picture: under keys of their own, or as the edges of `size`.
    fn pixels(&self, table: &mut Map<String, Value>) -> Result<()> {
        let size = self.map.get("size").filter(|v| !v.is_null());
        let names = [
            ("least_pixels", "min_pixels", "shortest_edge", 3136),
            ("most_pixels", "max_pixels", "longest_edge", 1_003_520),
        ];
        for (name, own, edge, usual) in names {
            let own_value = self.map.get(own).filter(|v| !v.is_null());
            let inside = size.and_then(|size| size.get(edge));
            if let (None, Some(size), None) = (own_value, size, inside) {
                return Err(self.unknown("size", size));
            }
            table.insert(name.into(), self.count(own, own_value.or(inside), usual)?.into());
        }
        Ok(())
    }

    /// A number above 0.
    fn count(&self, key: &str, value: Option<&Value>, usual: u64) -> Result<u64> {
        match value {
            None | Some(Value::Null) => Ok(usual),
            Some(value) => value.as_u64().filter(|n| *n > 0).ok_or_else(|| self.unknown(key, value)),
        }
    }

    fn unknown(&self, key: &str, found: &Value) -> ImportError {
        ImportError::unsupported(
            self.path,
            format!("setting `{key}`"),
            format!("{} is not read here", clip(&found.to_string())),
            "Remove the file to take prepared pixels alone, as `--input NAME=FILE`.",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn table(config: Value) -> std::result::Result<Value, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("preprocessor_config.json"), config.to_string()).unwrap();
        match read(folder.path(), "") {
            Ok(table) => Ok(table.map_or(Value::Null, Value::Object)),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn settings_of_pictures_become_a_table() {
        let plain = json!({"size": {"height": 8, "width": 9}, "resample": 2, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]});
        let mean = json!([0.5, 0.5, 0.5]);
        let third = 1.0 / 255.0;
        assert_eq!(
            table(plain).unwrap(),
            json!({"size": [8, 9], "resample": "bilinear", "rescale_factor": third, "mean": mean, "deviation": mean})
        );
        let clip = json!({"size": 224, "do_center_crop": true, "crop_size": 224, "resample": 3, "do_normalize": false, "rescale_factor": 0.5});
        assert_eq!(
            table(clip).unwrap(),
            json!({"shortest_edge": 224, "resample": "bicubic", "crop": [224, 224], "rescale_factor": 0.5})
        );
        let convnext = |edge: u64| {
            table(json!({"size": {"shortest_edge": edge}, "crop_pct": 0.875, "do_rescale": false, "do_normalize": false, "image_mean": []}))
                .unwrap()
        };
        assert_eq!(convnext(224), json!({"shortest_edge": 256, "crop": [224, 224], "resample": "bilinear"}));
        assert_eq!(convnext(384), json!({"size": [384, 384], "resample": "bilinear"}));
        // Settings of sound are none of pictures.
        assert_eq!(table(json!({"feature_size": 80, "sampling_rate": 16000})).unwrap(), Value::Null);
    }

    #[test]
    fn settings_inside_a_file_for_several_inputs_come_first_and_classes_fill_them_up() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, config: Value| std::fs::write(folder.path().join(name), config.to_string()).unwrap();
        let size = |model_type: &str| read(folder.path(), model_type).unwrap().unwrap()["size"].clone();
        write("preprocessor_config.json", json!({"size": 8, "image_mean": null}));
        assert_eq!(size("vit"), json!([8, 8]));
        write("processor_config.json", json!({"processor_class": "X"}));
        assert_eq!(size("vit"), json!([8, 8]));
        write("processor_config.json", json!({"image_processor": {"image_processor_type": "SiglipImageProcessor"}}));
        assert_eq!(size("vit"), json!([224, 224]));
    }

    #[test]
    fn patches_of_pictures_of_any_size() {
        let old = json!({"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 784, "max_pixels": 7840, "patch_size": 7, "do_normalize": false, "image_mean": []});
        let third = 1.0 / 255.0;
        assert_eq!(
            table(old).unwrap(),
            json!({"patch": 7, "merge": 2, "frames": 2, "least_pixels": 784, "most_pixels": 7840, "resample": "bicubic", "rescale_factor": third, "background": "white"})
        );
        let new = json!({"image_processor_type": "Qwen2VLImageProcessorFast", "size": {"shortest_edge": 9, "longest_edge": 99}, "merge_size": 1, "do_rescale": false});
        let mean = json!([0.48145466, 0.4578275, 0.40821073]);
        let made = table(new).unwrap();
        assert_eq!((&made["least_pixels"], &made["most_pixels"], &made["merge"]), (&json!(9), &json!(99), &json!(1)));
        assert_eq!(made["mean"], mean);
        // In the file of the whole processor.
        let folder = tempfile::tempdir().unwrap();
        let whole = json!({"image_processor": {"image_processor_type": "Qwen2VLImageProcessor"}, "processor_class": "Qwen2VLProcessor"});
        std::fs::write(folder.path().join("processor_config.json"), whole.to_string()).unwrap();
        assert_eq!(read(folder.path(), "").unwrap().unwrap()["patch"], 14);
        for (config, key) in [
            (json!({"image_processor_type": "Qwen2VLImageProcessor", "size": {"height": 8, "width": 8}}), "size"),
            (json!({"image_processor_type": "Qwen2VLImageProcessor", "patch_size": 0}), "patch_size"),
            (json!({"image_processor_type": "Qwen2VLImageProcessor", "max_pixels": "many"}), "max_pixels"),
        ] {
            let error = table(config).unwrap_err();
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn what_is_not_read_is_named() {
        for (config, key) in [
            (json!({"do_rescale": true, "size": {"longest_edge": 8}}), "size"),
            (json!({"do_rescale": true, "size": 8, "resample": 5}), "resample"),
            (json!({"do_rescale": true, "size": 8, "do_center_crop": true}), "crop_size"),
            (json!({"do_rescale": true, "size": 8}), "image_mean"),
            (json!({"do_resize": false, "do_rescale": 3}), "do_rescale"),
            (json!({"do_rescale": true, "do_resize": false, "do_normalize": false, "do_pad": true}), "do_pad"),
        ] {
            let error = table(config).unwrap_err();
            assert!(error.contains(key), "{error}");
        }
    }
}
