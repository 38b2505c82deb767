//! Which encoding a tensor gets, and what the report says about it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests stop at the first surprise")]

mod common;

use common::{Numbers, Safe, f32s, force, imported, refused_with, tiny_folder, tiny_tensors, values};
use tallow_format::Encoding;
use tallow_format::encoding::gguf::GgmlType;
use tallow_import::source::{Piece, RowOrder, Source, SourceTensor};
use tallow_import::{EncodingChoice, ImportOptions, ImportReport, MappedFile, encode};

fn tiny(
    change: impl FnOnce(&mut Vec<Safe<'static>>),
    choice: EncodingChoice,
) -> (ImportReport, tallow_format::ModelFile) {
    let folder = tempfile::tempdir().unwrap();
    let mut tensors = tiny_tensors();
    change(&mut tensors);
    tiny_folder(folder.path(), &tensors);
    imported(folder.path(), choice)
}

const EMBEDDING: &str = "model.embed_tokens.weight";

fn of<'a>(report: &'a ImportReport, name: &str) -> &'a tallow_import::TensorReport {
    report.tensors.iter().find(|t| t.name == name).unwrap()
}

#[test]
fn auto_goes_by_shape_and_size() {
    let (report, _) = tiny(|_| {}, EncodingChoice::Auto);
    // 1,024 rows of 32 are enough; the other matrices are below 4,096 values; vectors are never quantised.
    assert_eq!(of(&report, EMBEDDING).encoding, "q8");
    assert!(of(&report, EMBEDDING).relative_error < 0.01);
    assert_eq!(of(&report, "model.layers.0.mlp.up_proj.weight").encoding, "u32");
    assert_eq!(of(&report, "model.norm.weight").encoding, "u32");
}

#[test]
fn q8_that_loses_too_much_gives_way_or_warns() {
    // Weights of a size near q8's smallest step: 0.0001 to 0.0003.
    let small = |tensors: &mut Vec<Safe<'static>>| {
        let values: Vec<f32> = Numbers(5).take(1024 * 32).iter().map(|x| x * 3e-4).collect();
        tensors[0].data = f32s(&values);
    };
    let (report, _) = tiny(small, EncodingChoice::Auto);
    let tensor = of(&report, EMBEDDING);
    assert_eq!(tensor.encoding, "q8");
    assert!(tensor.relative_error > 0.015, "{tensor:?}");
    let warned = report.warnings.iter().any(|w| w.contains(EMBEDDING) && w.contains("too short for q6k"));
    assert!(warned, "{:?}", report.warnings);
    assert!(report.to_string().contains("warnings:"));
}

#[test]
fn a_forced_encoding_holds_for_matrices() {
    for encoding in [Encoding::Q8, Encoding::Q4, Encoding::U16, Encoding::U32, Encoding::Ternary] {
        let (report, model) = tiny(|_| {}, force(encoding));
        assert_eq!(of(&report, EMBEDDING).encoding, encoding.name());
        assert_eq!(of(&report, "model.layers.0.mlp.up_proj.weight").encoding, encoding.name());
        assert_eq!(of(&report, "model.norm.weight").encoding, "u32");
        assert_eq!(model.tensor(EMBEDDING).unwrap().encoding, encoding);
    }
    let options = ImportOptions { encoding: force(Encoding::Q6K), ..ImportOptions::default() };
    let folder = tempfile::tempdir().unwrap();
    tiny_folder(folder.path(), &tiny_tensors());
    let text = refused_with(folder.path(), &options).to_string();
    for part in [EMBEDDING, "rows of 32 values", "blocks of 256", "u32, u16, q8, q4, ternary"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn u16_warns_where_its_step_is_coarse() {
    let small = |tensors: &mut Vec<Safe<'static>>| {
        tensors[0].data = f32s(&Numbers(5).take(1024 * 32).iter().map(|x| x * 0.1).collect::<Vec<_>>());
    };
    let (report, _) = tiny(small, force(Encoding::U16));
    assert!(report.warnings.iter().any(|w| w.contains(EMBEDDING) && w.contains("u16")), "{:?}", report.warnings);
}

#[test]
fn ternary_keeps_rows_of_one_magnitude_exactly() {
    let signs = |tensors: &mut Vec<Safe<'static>>| {
        let mut n = Numbers(9);
        let mut data = Vec::new();
        for row in 0..1024 {
            let scale = (1 + row % 7) as f32 / 64.0;
            data.extend((0..32).map(|_| (n.bits() % 3) as f32 * scale - scale));
        }
        tensors[0].data = f32s(&data);
    };
    let (report, model) = tiny(signs, force(Encoding::Ternary));
    assert_eq!(of(&report, EMBEDDING).relative_error, 0.0);
    let scale = "model.embed_tokens.weight.scale";
    assert_eq!(of(&report, scale).shape, [1024]);
    let (signs, scales) = (values(&model, EMBEDDING), values(&model, scale));
    assert_eq!(scales[8], 2.0 / 64.0);
    assert!(signs.iter().all(|s| [-1.0, 0.0, 1.0].contains(s)));
    // Rounded rows: the error is that of signs × scale.
    let (report, model) = tiny(|_| {}, force(Encoding::Ternary));
    let (signs, scales) = (values(&model, EMBEDDING), values(&model, scale));
    let back: Vec<f32> = signs.iter().enumerate().map(|(n, s)| s * scales[n / 32]).collect();
    let source: Vec<f32> =
        tiny_tensors()[0].data.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    let error = tallow_format::encoding::relative_rms_error(&source, &back);
    assert!((error - of(&report, EMBEDDING).relative_error).abs() < 1e-9);
    assert!(error < 0.6);
}

#[test]
fn a_ternary_tensor_of_three_dimensions_has_a_scale_for_each_index_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("values");
    // Blocks larger than what is worked on at once, so that several chunks are put together.
    let shape = [3, 1100, 64];
    let data: Vec<f32> = (0..3 * 1100 * 64).map(|n| (n / (1100 * 64) + 1) as f32 * ((n % 3) as f32 - 1.0)).collect();
    std::fs::write(&path, f32s(&data)).unwrap();
    let tensor = SourceTensor {
        name: "experts".into(),
        source_name: "experts".into(),
        shape: shape.to_vec(),
        ty: GgmlType::F32,
        shift: 0.0,
        order: RowOrder::Plain,
        pieces: vec![Piece { file: 0, bytes: 0..data.len() * 4 }],
    };
    let source = Source::new(vec![MappedFile::open(&path).unwrap()], vec![tensor.clone()], Vec::new()).unwrap();
    let encoded = encode::encode(&source, &tensor, force(Encoding::Ternary)).unwrap();
    assert_eq!(encode::scale_rows(&tensor), 3);
    let mut scales = [0.0; 3];
    Encoding::U32.decode(&encoded.scales.unwrap(), &mut scales).unwrap();
    assert_eq!((scales, encoded.error), ([1.0, 2.0, 3.0], 0.0));
    let mut signs = vec![0.0; data.len()];
    Encoding::Ternary.decode(&encoded.bytes, &mut signs).unwrap();
    assert!(signs.iter().zip(&data).enumerate().all(|(n, (s, x))| s * scales[n / (1100 * 64)] == *x));
}

#[test]
fn a_forced_encoding_that_loses_much_is_told_once() {
    let (report, _) = tiny(|_| {}, force(Encoding::Q4));
    let told: Vec<&String> = report.warnings.iter().filter(|w| w.contains("more than 5 %")).collect();
    let bad = report.tensors.iter().filter(|t| t.relative_error > 0.05);
    let worst = bad.clone().max_by(|a, b| a.relative_error.total_cmp(&b.relative_error)).unwrap();
    let start = format!("{} tensors lose more than 5 % in q4, most of all `{}` with ", bad.count(), worst.name);
    assert!(told.len() == 1 && told[0].starts_with(&start), "{told:?}, not {start}");
    for choice in [EncodingChoice::Auto, force(Encoding::Q8)] {
        let (report, _) = tiny(|_| {}, choice);
        assert!(!report.warnings.iter().any(|w| w.contains("more than 5 %")), "{:?}", report.warnings);
    }
}

#[test]
fn a_value_beyond_q8_s_reach_goes_to_no_quiet_limit() {
    // 200 is beyond q8's 127.99, and rows of 32 are too short for q6k.
    let folder = tempfile::tempdir().unwrap();
    let mut tensors = tiny_tensors();
    tensors[0].data[..4].copy_from_slice(&200.0f32.to_le_bytes());
    tiny_folder(folder.path(), &tensors);
    let text = refused_with(folder.path(), &ImportOptions::default()).to_string();
    assert!(text.contains(EMBEDDING) && text.contains("200") && text.contains("row 0, column 0"), "{text}");
}

#[test]
fn encodings_are_read_by_name() {
    assert_eq!("auto".parse::<EncodingChoice>().unwrap(), EncodingChoice::Auto);
    assert_eq!("q4k".parse::<EncodingChoice>().unwrap(), force(Encoding::Q4K));
    let error = "int4".parse::<EncodingChoice>().unwrap_err().to_string();
    assert!(error.contains("`int4`") && error.contains("q6k"), "{error}");
}
