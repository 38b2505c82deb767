//! The `program` section: the pipeline as source text, from the program library.

use tallow_format::ProgramFormat;

/// A program of the library.
#[derive(Debug)]
pub struct LibraryProgram {
    /// Its file in `programs/`.
    pub name: &'static str,
    /// Its language.
    pub format: ProgramFormat,
    /// Its text.
    pub source: &'static str,
    /// The types of model that it is right for: its graph is that of the family, where there is one.
    pub types: &'static [&'static str],
}

macro_rules! library {
    ($($name:literal $format:ident $types:expr;)*) => {
        /// Every program of the library.
        pub const LIBRARY: &[LibraryProgram] = &[$(LibraryProgram {
            name: $name,
            format: ProgramFormat::$format,
            source: include_str!(concat!("../../programs/", $name)),
            types: $types,
        }),*];
    };
}

library! {
    "decoder.rs" Rs &["llama", "mistral", "qwen2", "qwen3", "smollm3"];
    "decoder.tri" Tri &[];
    "detector.rs" Rs &[];
    "dit.rs" Rs &[];
    "dit_video.rs" Rs &[];
    "encoder.rs" Rs &[];
    "fasttext.rs" Rs &[];
    "gemma.rs" Rs &["gemma", "gemma3"];
    "resnet.rs" Rs &[];
    "tagger.rs" Rs &["audio-spectrogram-transformer"];
    "video_decoder.rs" Rs &[];
    "vision_language.rs" Rs &["llava"];
    "vit.rs" Rs &[];
    "vits.rs" Rs &["vits"];
    "whisper.rs" Rs &[];
}

/// The program that says what a type of model computes, where the library has one that is right for it.
pub fn for_type(model_type: &str) -> Option<(ProgramFormat, String)> {
    // The joined projections of phi3 and the factors of granite are in no program.
    let found = LIBRARY.iter().find(|p| p.types.contains(&model_type))?;
    Some((found.format, found.source.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_holds_every_program_and_one_for_each_type() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs");
        let mut files: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        assert_eq!(files, LIBRARY.iter().map(|p| p.name.to_owned()).collect::<Vec<_>>());
        assert!(LIBRARY.iter().all(|p| p.source.lines().count() <= 150 && p.source.starts_with("//")));
        let mut types: Vec<&str> = LIBRARY.iter().flat_map(|p| p.types.iter().copied()).collect();
        let count = types.len();
        types.sort_unstable();
        types.dedup();
        assert_eq!(types.len(), count);
    }
}
