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
    "E0101" Syntax "the text does not follow the grammar" "The message says what was expected, and points at the place where the text stopped making sense; the mistake is there or just before it.";
    "E0102" Nesting "the nesting is too deep" "Brackets, blocks, prefix operators and types may nest 256 deep, and chains of operators and method calls may be 10,000 long. Give parts names with `let`, or move them into functions.";
    #[unsupported] "E0103" NotInLanguage "this part of the syntax is not in the language" "Programs describe computations on tensors, numbers and text. What has no meaning there is refused by name: `unsafe`, traits, `async`, macros other than `vec!`, `format!`, `assert!` and `panic!` and their kin, and crates and modules other than those of the languages.";
    "E0104" Literal "a literal cannot be read" "A number is past the largest that any type holds, or a text has an unknown escape or is written in a form that programs do not have.";
    "E0105" Twice "a name is defined twice" "Functions, structs, enums, constants, their fields and variants, and the parameters of one function need names of their own. There is no overloading: one of the two gets another name. A variable may be brought again by `let`.";

    "E0201" UnknownName "there is nothing with this name" "No variable, parameter, function, constant, struct or variant goes by this name here. A program is one file: helper functions stand in it. Variables of one function are not seen in another; pass them on.";
    "E0202" UnknownConfigKey "the config has no such key" "Programs read their numbers from the config. Correct the name, or add the key to the config. A key that models may lack is asked for with `.unwrap_or(default)`, `.is_some()`, `if let Some(x) = a.key` or `.get(\"key\")`, which are no error.";
    "E0203" UnknownMethod "values of this type have no such method" "The message names what the value is, and the nearest method. [languages.md](languages.md) lists the methods of every type. Code that works on run-time text alone is checked for names that no value has; whether a method fits its value shows when it runs.";
    "E0204" UnknownField "the value has no such field" "The message names the fields that the struct, tuple or variant has. A struct literal gives every field, or takes the rest from another one by `..base`.";
    "E0205" Arity "the number of arguments does not fit" "The message shows how many arguments the function, method, closure or struct takes; for a builtin it shows the signature, in which brackets hold what may be left out.";
    "E0206" NoEntry "the program has no `forward`" "A program is entered by `pub fn forward(…)`, which takes the inputs, the config and the weights, and stands outside of any `impl`.";
    "E0207" Parameter "a parameter of `forward` has a type that tells no input" "Inputs are found by type: `&str` is text, `&[f32]` samples, `&[u32]` token ids, `&Tensor` a tensor; `&Config`, `&Tokenizer` and `&Weights` stand for the model itself. Settings such as a temperature belong into the config.";

    "E0301" Type "a value has another type than is needed" "The message names what is needed and what was found. Nothing is converted on the way: a number is no truth value, a text is no number, and a list is no tensor.";
    "E0302" Arithmetic "arithmetic has no result" "A division by zero, or a result past the range of its type. An integer without a type has no limit that matters; with one (`u32`) it does not wrap around, as in a debug build of Rust. Where that is meant, as in hashes, use the `wrapping_…` methods or `as`.";
    "E0303" IntWidth "the width of an integer is not known" "What wrapping and bit methods give depends on the number of bits. Write the type as a suffix (`5u32`), with `as u32`, or at the variable (`let x: u32 = 5`).";
    "E0304" Index "an index is out of range" "Indexes count from 0, so the last is the length less one; a range ends before its second number. The message shows both sides.";
    "E0305" Pattern "no pattern matches" "A `match`, a `let` or a parameter met a value that its patterns do not cover. Add an arm `_ => …`, or take an `Option` apart with `if let Some(x) = … { } else { }`.";
    "E0306" Panic "the program gives up" "A `panic!`, a failed `assert!` or an `unwrap` of nothing was met while compiling. It is the program's own check, mostly of the config: the message is the program's.";
    "E0307" Assign "this cannot be assigned to" "Only variables, and fields and elements of them, can be assigned to; not constants, results of calls or other expressions.";
    "E0308" Format "a value cannot be written into a text" "Names of weights are made with `format!` from numbers and texts that are known while compiling. Tensors and sampled tokens have no text then; lists and structs are written with `{:?}`.";

    "E0401" MissingWeight "the model has no such tensor" "A name is looked up in the tensor index as it is, then with `.weight` behind it. Compare it with the names of the index, which `tallow inspect` shows; a layer too many shows here as well. `w.has(name)` asks whether a tensor is there.";
    "E0402" WeightShape "a tensor has another shape than the call needs" "The message shows the shape in the tensor index, and the one that follows from the arguments of the call and from what it is applied to. Weights of linear layers are `[out, in]`, those of convolutions `[out, in / groups, kernel…]`.";

    "E0501" Shape "the shapes do not fit" "The message comes from the rule of the operation, which [operations.md](operations.md) describes, and shows the types of the operands. Letters such as `S` stand for sizes that are known only when running.";
    "E0502" Rank "the number of dimensions does not fit" "Programs on tokens have no batch: rows are `[S, D]`. Pictures are `[N, C, H, W]`, sound is `[N, C, T]`, video is `[N, C, D, H, W]`. `unsqueeze` and `reshape` add dimensions, `squeeze` and `select` drop them.";
    "E0503" Axis "there is no such dimension" "Dimensions count from 0, so that a tensor of two has 0 and 1; negative numbers count from the end, so that -1 is the last one.";
    "E0504" InputShape "the shape of an input is not known here" "The shape of a `&Tensor` input follows from its first use: a `reshape`, a convolution, a `linear`. Where that does not tell, say it first: `let x = x.reshape([…])`, where -1 stands for a size that is known only when running.";
    #[unsupported] "E0505" RunTimeSize "this needs a size that is known only when running" "The number of tokens, and sizes given as -1, are known only when running. The graph can work with them, and sizes made from them by `+ - * /` too; the number of rounds of a loop, the length of a list and the shape of a weight must be known while compiling.";

    "E0601" Steps "the program takes too many steps" "Loops are unrolled while compiling, up to 4 million statements, calls and rounds. A program that needs more most likely has a loop without end: look whether what the condition reads changes.";
    "E0602" CallDepth "calls are nested too deeply" "Functions may be 256 calls deep inside each other, and a constant may not need itself. A recursion that stays below is fine, as long as it ends.";
    "E0603" Bounded "a loop runs past its bound" "`bounded N` promises at most N rounds, and the config asks for more. Raise the bound.";
    "E0604" Escape "`break`, `continue` or `return` has nowhere to go" "`break` and `continue` leave a loop of the same function or closure; a label must be that of a loop around. `return` leaves a function.";
    "E0605" Memory "a value grows too large" "A list or text has at most 4 million elements or bytes, and a program makes at most 16 million in all. Large data belongs into tensors: `Tensor::zeros`, or a weight of the model.";

    #[unsupported] "E0701" RunTimeBranch "a branch depends on what is known only when running" "A condition on tensors picks between two tensors, element by element, and both are computed; one on run-time text or numbers makes the whole `if` run with the model, apart from the graph. Neither can leave a loop or function, or read weights in one branch alone. Compute both results, then choose; or move code on text and numbers into a function of its own.";
    #[unsupported] "E0702" RunTimeLoop "a loop depends on what is known only when running" "The graph is made once, before any input is known, so a loop over tensors needs a known number of rounds. A loop that appends a sampled token to a list becomes generation; a loop on text and numbers alone belongs into a function of its own, which runs with the model.";
    #[unsupported] "E0703" Generation "this is not possible in a loop over generated tokens" "A loop over generated tokens becomes a driver that runs a graph for each token. A round samples one token and appends it to one list; `if next == END { break; }` or the length of the list ends the loop; attention keeps what it needs of earlier tokens. Anything else that would pass from round to round has no place there.";
    #[unsupported] "E0704" RunTimeValue "this value is known only when running" "A known value is needed here: a name, an axis, a number of heads. Text and numbers that are known only when running, and sampled tokens, come too late for it.";
    "E0705" NoResult "`forward` gives nothing that can be an output" "`forward` ends with its result: a tensor, a tuple, list or struct of them, what `topk` gives, decoded text, or ordinary values made from `to_vec` and run-time text. A semicolon after the last expression takes the result away. In `.tri`, text is written by chat functions, whose first parameter is `&[Message]`.";

    "E0801" LayerBody "the layer body does not follow the scheme" "Weights have no names in this language, so that a norm is known by its place: the first one in the body of a layer is that before attention, the second that before the feed-forward. A layer with more is written in `.rs`.";
    "E0802" Role "the role of a matrix cannot be told" "Weights have no names in this language: a `matvec` is the projection of queries, keys or values because `flash_attention` takes it as its first, second or third argument. Each feeds exactly one attention in one place.";
    "E0803" Layer "the layers of a step do not agree" "The second argument of `matvec` is the number of its layer. Queries, keys and values that meet in one attention come from one layer.";
    #[unsupported] "E0805" FamilyConfig "the config cannot be read as a decoder's" "`flash_attention`, and all of `.tri`, stand for parts of the decoder that the config describes. The config names a decoder that Tallow does not know, or the program contradicts it; read heads and sizes from the config.";
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
