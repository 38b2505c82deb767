//! Encoders of text: one description of everything that varies, one builder, one reader per type.
//!
//! | module | holds |
//! |---|---|
//! | `spec` | [`EncoderSpec`] |
//! | `builder` | embeddings and layers |
//! | `texts` | where the texts of a batch begin, and what follows from it |
//! | `relative` | what distances between tokens add to scores |
//! | `head` | from the last layer to embeddings, labels or words |
//! | `read` | what the readers of all types share |
//! | [`bert`], [`modern`], [`deberta`] | a reader for each type |
//!
//! The texts of a batch stand one after another without padding: `input_ids` (i64 `[S]`) are the tokens of all of them,
//! `starts` (i64 `[B]`) the place of the first token of each, and, where there is a table of token types,
//! `token_type_ids` (i64 `[S]`) the types. A text in a batch gives what it gives alone. Outputs are `last_hidden_state`
//! (`[S, hidden]`), and
//!
//! - with a head: `logits`, `[B, labels]` of a classifier of texts, `[S, labels]` of one of tokens, `[S, vocab]` of words;
//! - without: `embedding` (`[B, hidden]`), pooled as the settings `pooling` and `normalize_embeddings` say;
//! - with a pooler: `pooler_output` (`[B, hidden]`).

/// The setting that says what the scores of labels are, of a model that compares two texts: `sigmoid` or `logit`. It
/// changes nothing in the graph, which gives logits.
pub const LABEL_SCORE: &str = "label_score";

pub mod bert;
mod builder;
pub mod deberta;
mod head;
pub mod modern;
pub(super) mod read;
mod relative;
mod spec;
pub(super) mod texts;

pub use spec::{
    Attention, Convolution, Counting, Disentangled, Embeddings, EncoderSpec, FeedForward, Gating, Head, Layer, Names,
    Norm, Places, Pooling, Positions, Projection, Relative, Rows, Step,
};

/// Keys that no encoder reads: training, and what only other classes of a model look at.
pub const IGNORED: &[&str] = &[
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "cls_dropout",
    "cls_token_id",
    "deterministic_flash_attn",
    "directionality",
    "dropout",
    "embedding_dropout",
    "top_k",
    "initializer_cutoff_factor",
    // ModernBERT's files have it beside `norm_eps`, which counts.
    "layer_norm_eps",
    "mask_token_id",
    "mlp_dropout",
    "_num_labels",
    "num_labels",
    "output_past",
    "pooler_dropout",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    LABEL_SCORE,
    // Read where anything but `absolute` would matter.
    "position_embedding_type",
    "problem_type",
    "qa_dropout",
    "reference_compile",
    "repad_logits_with_grad",
    "sep_token_id",
    "seq_classif_dropout",
    "sinusoidal_pos_embds",
    "sparse_pred_ignore_index",
    "sparse_prediction",
    "summary_activation",
    "summary_first_dropout",
    "summary_last_dropout",
    "summary_type",
    "summary_use_proj",
    "tie_weights_",
];
