//! The codes of diagnostics: one table, from which `docs/errors.md` is made.

macro_rules! codes {
    ($($(#[$unsupported:ident])? $number:literal $name:ident $summary:literal $explanation:literal;)*) => {
        /// What kind of error a diagnostic is. Numbers are stable and never used again.
        #[allow(missing_docs)] // The table below says what each means.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($name),* }

        impl Code {
            /// Every code, by number.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// The number as it is shown: `E0101`.
            pub fn name(self) -> &'static str {
                match self { $(Code::$name => $number),* }
            }

            /// What is wrong, in a few words.
            pub fn summary(self) -> &'static str {
                match self { $(Code::$name => $summary),* }
            }

            /// Why it is wrong and what to do, in Markdown.
            pub fn explanation(self) -> &'static str {
                match self { $(Code::$name => $explanation),* }
            }

            /// Whether the program may be sound and this version does not compile it.
            pub fn is_unsupported(self) -> bool {
                match self { $(Code::$name => codes!(@flag $($unsupported)?)),* }
            }
        }
    };
    (@flag unsupported) => { true };
    (@flag) => { false };
}

codes! {
    "E0101" Syntax "the text does not follow the grammar" "The reader expected something else at this place; the message says what.";
    "E0102" Nesting "the nesting is too deep" "Brackets, blocks, prefix operators and types may nest 256 deep, and chains of operators and method calls may be 10,000 long. Give parts names with `let`, or move them into functions.";
    #[unsupported] "E0103" NotInLanguage "this part of the syntax is not in the language" "Programs describe computations. What has no meaning there (`unsafe`, traits, `async`, other macros than `vec!`, `format!`, `assert!`, `panic!`, other crates) is refused by name.";
    "E0104" Literal "a literal cannot be read" "A number is too large, or a text has an unknown escape.";
    "E0105" Twice "a name is defined twice" "Functions, structs, constants and parameters need names of their own.";

    "E0201" UnknownName "there is nothing with this name" "No variable, function, constant or struct goes by this name here.";
    "E0202" UnknownConfigKey "the config has no such key" "Programs read sizes from the config. The message lists the keys that the section has; add the key to the config, or ask for it with `get`, which gives an `Option`.";
    "E0203" UnknownMethod "values of this type have no such method" "The message names the type and the nearest method that it has; `docs/languages.md` lists all of them.";
    "E0204" UnknownField "the value has no such field" "The message lists the fields.";
    "E0205" Arity "the number of arguments does not fit" "The message shows the signature.";
    "E0206" NoEntry "the program has no `forward`" "Every program has `pub fn forward(…)`, which takes the inputs, the config and the weights.";
    "E0207" Parameter "a parameter of `forward` has a type that tells no input" "Parameters are found by type: `&Config`, `&Tokenizer`, `&Weights`, and as inputs `&str`, `&[f32]`, `&[u32]` and `&Tensor`.";

    "E0301" Type "a value has another type than is needed" "The message names both.";
    "E0302" Arithmetic "arithmetic has no result" "Division by zero, or a number past the range of its type; use the `wrapping_…` methods where overflow is meant.";
    "E0303" IntWidth "the width of an integer is not known" "Wrapping and bit methods depend on the width: write it as a suffix (`5u32`), with `as u32`, or as the type of the variable.";
    "E0304" Index "an index is out of range" "The message shows the index and the length.";
    "E0305" Pattern "no pattern matches" "A `match` or `let` met a value that none of its patterns covers.";
    "E0306" Panic "the program gives up" "A `panic!`, a failed `assert!` or `unwrap` of nothing was met while compiling.";
    "E0307" Assign "this cannot be assigned to" "Only variables, fields and elements can be assigned to.";
    "E0308" Format "a value cannot be written into a text" "Tensors and other run-time values have no text while compiling.";

    "E0401" MissingWeight "the model has no such tensor" "Names are looked up in the tensor index as given and with `.weight` added. The message names the nearest.";
    "E0402" WeightShape "a tensor has another shape than the call needs" "The message shows the shape in the tensor index and the one that the call asks for.";

    "E0501" Shape "the shapes do not fit" "The message comes from the rule of the operation and names the operands.";
    "E0502" Rank "the number of dimensions does not fit" "The message shows the type of the operand.";
    "E0503" Axis "there is no such dimension" "Dimensions count from 0; negative numbers count from the end.";
    "E0504" InputShape "the shape of an input is not known here" "The shape of a `&Tensor` input follows from its first use. Say it with `input.reshape([…])` before anything else, where -1 stands for a size that is known only when running.";
    #[unsupported] "E0505" RunTimeSize "this needs a size that is known only when running" "The message names the size.";

    "E0601" Steps "the program takes too many steps" "At most 4 million statements are unrolled. A loop may have no end.";
    "E0602" CallDepth "calls are nested too deeply" "A function may call itself 256 deep; this recursion may have no end.";
    "E0603" Bounded "a loop runs past its bound" "`bounded N` promises at most N rounds; the config asks for more.";
    "E0604" Escape "`break`, `continue` or `return` has nowhere to go" "They leave a loop or a function, and a label must be that of a loop around.";
    "E0605" Memory "a value grows too large" "Lists and texts of a program hold at most 4 million elements or bytes.";

    #[unsupported] "E0701" RunTimeBranch "a branch depends on what is known only when running" "Pick a tensor with `select`; or move code on text and numbers alone into a function of its own, which then runs when the model runs.";
    #[unsupported] "E0702" RunTimeLoop "a loop depends on what is known only when running" "Loops that append a sampled token to a list become generation; other loops need a known number of rounds, or belong into a function on text and numbers alone.";
    #[unsupported] "E0703" Generation "this is not possible in a loop over generated tokens" "Such a loop runs a graph for each token. It samples one token a round, appends it to one list, and ends by a comparison of the token, or by the length of the list.";
    #[unsupported] "E0704" RunTimeValue "this value is known only when running" "A known value is needed here: a name, a size, an axis.";
    "E0705" NoResult "`forward` gives nothing that can be an output" "The result is a tensor, several of them, decoded text, or values made from them.";

    "E0801" LayerBody "the layer body does not follow the scheme" "Weights have no names in this language: the first norm of a layer is the one before attention, the second the one before the feed-forward.";
    "E0802" Role "the role of a matrix cannot be told" "`matvec` becomes the projection of queries, keys or values by its place in `flash_attention`; each feeds exactly one.";
    "E0803" Layer "the layers of a step do not agree" "Queries, keys and values of one attention come from one layer.";
    "E0804" Residual "there is no residual stream here" "`residual_add` adds to the value that went into the last norm.";
    #[unsupported] "E0805" FamilyConfig "the config cannot be read as a decoder's" "The roles of this language stand for the parts of the decoder that the config describes.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_ascend_and_all_are_explained() {
        assert!(Code::ALL.windows(2).all(|w| w[0].name() < w[1].name()));
        assert!(Code::ALL.iter().all(|c| c.explanation().ends_with('.') && !c.summary().ends_with('.')));
    }
}
