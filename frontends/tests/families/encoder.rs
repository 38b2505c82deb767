//! Encoders: inputs and outputs by head, what switches leave in the graph, and what is refused.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure is a failed test")]

use crate::tiny::{count, has, op, ops};
use indexmap::IndexMap;
use tallow_format::Config;
use tallow_frontends::families::{self, Family, FamilyError};
use tallow_ir::Op;
use tallow_ir::ops::Reduction;

const SIZES: [&str; 6] = [
    "hidden_size = 8",
    "num_attention_heads = 2",
    "num_hidden_layers = 2",
    "intermediate_size = 16",
    "vocab_size = 12",
    "max_position_embeddings = 20",
];

/// Hidden 8, 2 heads of 4, feed-forward 16, vocabulary 12, two layers, 20 positions, in the layout of bert under `prefix`.
struct Tiny {
    kind: &'static str,
    shapes: IndexMap<String, Vec<u64>>,
    extra: String,
}

impl Tiny {
    fn bert(kind: &'static str, prefix: &str) -> Self {
        let mut shapes = IndexMap::new();
        let mut put = |name: String, shape: &[u64]| shapes.insert(format!("{prefix}{name}"), shape.to_vec());
        for (name, rows) in [("word", 12), ("position", 20), ("token_type", 2)] {
            put(format!("embeddings.{name}_embeddings.weight"), &[rows, 8]);
        }
        let mut norms = vec!["embeddings.LayerNorm".to_owned()];
        for layer in 0..2 {
            let at = format!("encoder.layer.{layer}.");
            for name in ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"]
            {
                put(format!("{at}{name}.weight"), &[8, 8]);
                put(format!("{at}{name}.bias"), &[8]);
            }
            for (name, rows, columns) in [("intermediate.dense", 16, 8), ("output.dense", 8, 16)] {
                put(format!("{at}{name}.weight"), &[rows, columns]);
                put(format!("{at}{name}.bias"), &[rows]);
            }
            norms.extend([format!("{at}attention.output.LayerNorm"), format!("{at}output.LayerNorm")]);
        }
        for name in norms {
            put(format!("{name}.weight"), &[8]);
            put(format!("{name}.bias"), &[8]);
        }
        Tiny { kind, shapes, extra: String::new() }
    }

    /// With linear maps and norms of these names and shapes, each with its bias.
    fn with(mut self, tensors: &[(&str, &[u64])]) -> Self {
        for (name, shape) in tensors {
            self.shapes.insert(format!("{name}.weight"), shape.to_vec());
            self.shapes.insert(format!("{name}.bias"), shape[..1].to_vec());
        }
        self
    }

    fn saying(mut self, extra: &str) -> Self {
        self.extra = extra.to_owned();
        self
    }

    fn try_build(&self) -> Result<Family, FamilyError> {
        // A line of `extra` replaces the usual one of the same key.
        let key = |line: &str| line.split(' ').next().unwrap().to_owned();
        let own: Vec<String> = self.extra.lines().map(key).collect();
        let usual = SIZES.iter().filter(|line| !own.contains(&key(line))).copied().collect::<Vec<_>>().join("\n");
        let text = format!("model_type = \"{}\"\n[architecture]\n{usual}\n{}\n", self.kind, self.extra);
        families::build(&Config::parse(&text).unwrap(), &self.shapes)
    }

    fn build(&self) -> Family {
        self.try_build().unwrap_or_else(|e| panic!("{e}"))
    }

    fn error(&self) -> String {
        self.try_build().map(|_| ()).unwrap_err().to_string()
    }
}

/// Inputs and outputs with their types.
fn signature(family: &Family) -> String {
    let g = &family.graph;
    let all = g.inputs().map(|(n, v)| format!("{n}: {}", g.ty(v)));
    let out = g.outputs().map(|(n, v)| format!("{n}: {}", g.ty(v)));
    format!("{} -> {}", all.collect::<Vec<_>>().join(", "), out.collect::<Vec<_>>().join(", "))
}

const IN: &str = "input_ids: i64[S], starts: i64[B], token_type_ids: i64[S]";
const HIDDEN: &str = "last_hidden_state: f32[S, 8]";

#[test]
fn heads_follow_from_tensors() {
    let base = Tiny::bert("bert", "");
    assert_eq!(signature(&base.build()), format!("{IN} -> {HIDDEN}, embedding: f32[B, 8]"));
    assert_eq!(count(&base.build().graph, "SegmentAttention"), 2);
    let pooler: (&str, &[u64]) = ("bert.pooler.dense", &[8, 8]);
    let classes: (&str, &[u64]) = ("classifier", &[3, 8]);
    let texts = Tiny::bert("bert", "bert.").with(&[pooler, classes]);
    let pooled = format!("{IN} -> {HIDDEN}, pooler_output: f32[B, 8]");
    assert_eq!(signature(&texts.build()), format!("{pooled}, logits: f32[B, 3]"));
    let tokens = Tiny::bert("bert", "bert.").with(&[classes]);
    assert_eq!(signature(&tokens.build()), format!("{IN} -> {HIDDEN}, logits: f32[S, 3]"));
    // Old files of token classifiers hold a pooler that does nothing.
    let tokens = texts.saying("architectures = [\"BertForTokenClassification\"]");
    assert_eq!(signature(&tokens.build()), format!("{pooled}, logits: f32[S, 3]"));
    let mut words = Tiny::bert("bert", "bert.")
        .with(&[("cls.predictions.transform.dense", &[8, 8]), ("cls.predictions.transform.LayerNorm", &[8])]);
    words.shapes.insert("cls.predictions.bias".into(), vec![12]);
    assert_eq!(signature(&words.build()), format!("{IN} -> {HIDDEN}, logits: f32[S, 12]"));
    // The decoder of its own, where the file has one, and its bias in place of the same one under another name.
    let words = words.with(&[("cls.predictions.decoder", &[12, 8])]);
    let family = words.build();
    let read: Vec<&str> = family.weights().map(|(n, _)| n).collect();
    assert!(read.contains(&"cls.predictions.decoder.weight") && read.contains(&"cls.predictions.decoder.bias"));
    assert!(family.unread_tensors.is_empty(), "{:?}", family.unread_tensors);
}

#[test]
fn embeddings_are_pooled_as_the_config_says() {
    let built = |extra: &str| Tiny::bert("bert", "").saying(extra).build();
    let g = built("").graph;
    assert_eq!(op(&g, "embedding"), &Op::SegmentReduce { how: Reduction::Mean });
    assert_eq!(op(&built("pooling = \"max\"").graph, "embedding"), &Op::SegmentReduce { how: Reduction::Max });
    assert_eq!(op(&built("pooling = \"cls\"").graph, "embedding"), &Op::Gather { axis: 0 });
    assert_eq!(op(&built("normalize_embeddings = true").graph, "embedding"), &Op::Div);
    let error = Tiny::bert("bert", "").saying("pooling = \"last\"").error();
    assert_eq!(
        error,
        "config: `architecture.pooling` = \"last\" is not supported for `bert`: known ways are cls, mean, max. Use a program or a graph section for another one."
    );
    let headed = Tiny::bert("bert", "").with(&[("classifier", &[3, 8])]).saying("pooling = \"cls\"").build();
    assert!(headed.notes[0].contains("`architecture.pooling` has no effect"), "{:?}", headed.notes);
}

#[test]
fn positions_count_places_or_words() {
    let bert = Tiny::bert("bert", "").build();
    assert_eq!(op(&bert.graph, "places"), &Op::Sub);
    assert_eq!(count(&bert.graph, "CumSum"), 0);
    for kind in ["roberta", "xlm-roberta"] {
        let roberta = Tiny::bert(kind, "roberta.").saying("pad_token_id = 3").build();
        assert_eq!(op(&roberta.graph, "places"), &Op::AddScalar { value: 3.0.into() });
        assert_eq!(count(&roberta.graph, "CumSum"), 1);
        assert_eq!(roberta.model_type, "roberta");
    }
    let default = Tiny::bert("roberta", "").build();
    assert_eq!(op(&default.graph, "places"), &Op::AddScalar { value: 1.0.into() });
    let error = Tiny::bert("roberta", "").saying("pad_token_id = 1.5").error();
    assert!(error.contains("`architecture.pad_token_id` = 1.5: expected the id of a token"), "{error}");
}

#[test]
fn what_is_not_built_is_refused_by_name() {
    for (extra, wanted) in [
        (
            "position_embedding_type = \"relative_key\"",
            "`architecture.position_embedding_type` = \"relative_key\" is not supported for `bert`: positions relative to each other are not built",
        ),
        ("is_decoder = true", "`architecture.is_decoder` = true is not supported for `bert`"),
        (
            "hidden_act = \"snake\"",
            "`architecture.hidden_act` = \"snake\" is not supported for `bert`: known activations are silu, ",
        ),
        ("relative_attention = true", "`architecture.relative_attention` is set but not read by the family of `bert`"),
        ("add_cross_attention = true", "`architecture.add_cross_attention` is set but not read"),
        ("num_attention_heads = 3", "`architecture.num_attention_heads` = 3: it must divide `hidden_size` = 8"),
        ("num_hidden_layers = 5000", "a model has at most 4096 layers"),
    ] {
        let error = Tiny::bert("bert", "").saying(extra).error();
        assert!(error.contains(wanted), "{error}");
    }
    let labels = Tiny::bert("bert", "").with(&[("classifier", &[3, 8])]).saying("labels = [\"a\", \"b\"]").error();
    assert!(labels.contains("`architecture.labels` = a list of 2: `classifier.weight` gives 3 labels"), "{labels}");
}

#[test]
fn missing_tensors_are_named_with_their_shapes() {
    let mut tiny = Tiny::bert("bert", "bert.");
    tiny.shapes.shift_remove("bert.encoder.layer.1.output.dense.bias");
    tiny.shapes.insert("bert.embeddings.LayerNorm.weight".into(), vec![9]);
    assert_eq!(
        tiny.error(),
        "`bert` needs 1 tensor that the model lacks: `bert.encoder.layer.1.output.dense.bias` [8]; 1 tensor does not fit the config: `bert.embeddings.LayerNorm.weight` has shape [9], expected [8]; `type_vocab_size` is not set, so it is 2, the default of `bert`. Check the sizes in [architecture], or add the tensors."
    );
    // What nothing reads is told: the heads of other tasks.
    let other = Tiny::bert("bert", "").with(&[("qa_outputs", &[2, 8])]).build();
    assert_eq!(other.unread_tensors, ["qa_outputs.weight", "qa_outputs.bias"]);
}

#[test]
fn distances_add_to_scores() {
    let mut mpnet = Tiny::bert("mpnet", "");
    let names: Vec<String> = mpnet.shapes.keys().cloned().collect();
    for name in names {
        let shape = mpnet.shapes.shift_remove(&name).unwrap();
        if name.contains("token_type") {
            continue;
        }
        let mut new = name.replace("attention.output.LayerNorm", "attention.LayerNorm");
        for (old, short) in [("self.query", "q"), ("self.key", "k"), ("self.value", "v"), ("output.dense", "o")] {
            new = new.replace(&format!("attention.{old}"), &format!("attention.attn.{short}"));
        }
        mpnet.shapes.insert(new, shape);
    }
    mpnet.shapes.insert("encoder.relative_attention_bias.weight".into(), vec![32, 2]);
    let family = mpnet.build();
    assert_eq!(count(&family.graph, "RelativePosEmbedding"), 1);
    let biased = |g: &tallow_ir::Graph| {
        let attends =
            |id: &tallow_ir::NodeId| matches!(&g.node(*id).kind, tallow_ir::NodeKind::Op(Op::SegmentAttention { .. }));
        g.nodes().filter(attends).map(|id| g.operands(id).len()).collect::<Vec<_>>()
    };
    assert_eq!(biased(&family.graph), [5, 5]);
    assert!(signature(&family).starts_with("input_ids: i64[S], starts: i64[B] ->"));
    let few = mpnet.saying("relative_attention_num_buckets = 16").error();
    assert!(few.contains("the type always uses 32 buckets"), "{few}");
    assert_eq!(biased(&Tiny::bert("bert", "").build().graph), [4, 4]);
}

/// deberta-v2 with these settings beside the sizes.
fn deberta(extra: &str) -> Tiny {
    let mut tiny = Tiny::bert("deberta-v2", "").saying(extra);
    let names: Vec<String> = tiny.shapes.keys().cloned().collect();
    for name in names {
        let shape = tiny.shapes.shift_remove(&name).unwrap();
        let mut new = name.clone();
        for part in ["query", "key", "value"] {
            new = new.replace(&format!("self.{part}"), &format!("self.{part}_proj"));
        }
        if !name.contains("token_type") {
            tiny.shapes.insert(new, shape);
        }
    }
    tiny.with(&[("encoder.LayerNorm", &[8])])
}

#[test]
fn deberta_multiplies_queries_and_keys_by_distances() {
    let far = "relative_attention = true\nposition_buckets = 4\nmax_relative_positions = 10\nshare_att_key = true\nnorm_rel_ebd = \"layer_norm\"\n";
    let table = |mut tiny: Tiny, rows: u64| {
        tiny.shapes.insert("encoder.rel_embeddings.weight".into(), vec![rows, 8]);
        tiny
    };
    let both = table(deberta(&format!("{far}pos_att_type = [\"c2p\", \"p2c\"]")), 8).build();
    assert_eq!((count(&both.graph, "GatherElements"), count(&both.graph, "BatchMatmul")), (4, 4));
    assert!(both.unread_tensors.is_empty(), "{:?}", both.unread_tensors);
    let scale = |family: &Family| match op(&family.graph, "layer0.attn") {
        Op::SegmentAttention { scale, .. } => scale.get(),
        other => panic!("{other:?}"),
    };
    assert_eq!(scale(&both), 1.0 / 12f32.sqrt());
    let one = table(deberta(&format!("{far}pos_att_type = \"p2c\"")), 8).build();
    assert_eq!((count(&one.graph, "GatherElements"), scale(&one)), (2, 1.0 / 8f32.sqrt()));
    // The kinds count for the scale even where there are no distances.
    let off = deberta("pos_att_type = \"c2p|p2c\"\nnorm_rel_ebd = \"layer_norm\"").build();
    assert_eq!((count(&off.graph, "BatchMatmul"), scale(&off)), (0, 1.0 / 12f32.sqrt()));
    for (extra, wanted) in [
        ("pos_att_type = [\"p2p\"]", "`architecture.pos_att_type` = \"p2p\" is not supported"),
        ("norm_rel_ebd = \"batch\"", "known norms are none, layer_norm"),
        ("conv_kernel_size = 4", "expected an odd number of tokens"),
        ("conv_kernel_size = 3\nconv_groups = 2", "a convolution in groups is not built"),
        ("relative_attention = true\nposition_buckets = 3", "need from 4 to twice as many buckets"),
        (
            "relative_attention = true\nposition_buckets = 64\nmax_relative_positions = 20",
            "need from 4 to twice as many",
        ),
    ] {
        let error = deberta(extra).error();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn modernbert_slides_but_for_each_third_layer() {
    let mut shapes = IndexMap::new();
    let mut put = |name: &str, shape: &[u64]| shapes.insert(format!("model.{name}.weight"), shape.to_vec());
    put("embeddings.tok_embeddings", &[12, 8]);
    put("embeddings.norm", &[8]);
    put("final_norm", &[8]);
    for layer in 0..4 {
        for (name, shape) in [
            ("attn.Wqkv", &[24, 8][..]),
            ("attn.Wo", &[8, 8]),
            ("mlp.Wi", &[32, 8]),
            ("mlp.Wo", &[8, 16]),
            ("attn_norm", &[8]),
            ("mlp_norm", &[8]),
        ] {
            if (layer, name) != (0, "attn_norm") {
                put(&format!("layers.{layer}.{name}"), shape);
            }
        }
    }
    let build = |extra: &str, shapes: &IndexMap<String, Vec<u64>>| {
        let text = format!(
            "model_type = \"modernbert\"\n[architecture]\nhidden_size = 8\nnum_attention_heads = 2\nnum_hidden_layers = 4\nintermediate_size = 16\nvocab_size = 12\n{extra}\n"
        );
        families::build(&Config::parse(&text).unwrap(), shapes)
    };
    let windows = |family: &Family| -> Vec<u32> {
        let window = |layer: usize| match op(&family.graph, &format!("layer{layer}.attn")) {
            Op::SegmentAttention { window, .. } => *window,
            other => panic!("{other:?}"),
        };
        (0..4).map(window).collect()
    };
    let family = build("", &shapes).unwrap();
    assert_eq!(windows(&family), [0, 64, 64, 0]);
    assert!(!has(&family.graph, "layer0.attn_norm") && has(&family.graph, "layer1.attn_norm"));
    let base = |layer: usize| match op(&family.graph, &format!("layer{layer}.q_rope")) {
        Op::Rope { base, .. } => base.get(),
        other => panic!("{other:?}"),
    };
    assert_eq!((base(0), base(1)), (160_000.0, 10_000.0));
    let family = build("global_attn_every_n_layers = 2\nlocal_attention = 10", &shapes).unwrap();
    assert_eq!(windows(&family), [0, 5, 0, 5]);
    let scaled = build("[architecture.rope_scaling]\nrope_type = \"linear\"\nfactor = 2.0", &shapes).unwrap();
    let scaled = ops(&scaled.graph).iter().filter(|op| matches!(op, Op::RopeScaled { .. })).count();
    assert_eq!(scaled, 8);
    for (extra, wanted) in [
        ("layer_types = [\"full_attention\"]", "`architecture.layer_types` = a list of 1: there are 4 layers"),
        ("layer_types = [\"a\", \"b\", \"c\", \"d\"]", "known kinds are full_attention, sliding_attention"),
        ("local_attention = 1", "half of it is what a token sees"),
        ("classifier_pooling = \"max\"", "known ways are cls, mean"),
        (
            "[architecture.rope_scaling]\nrope_type = \"dynamic\"\nfactor = 2.0",
            "`architecture.rope_scaling` = dynamic is not supported for `modernbert`: its frequencies would follow the length of a batch",
        ),
    ] {
        let error = build(extra, &shapes).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    for name in ["head.dense", "classifier"] {
        shapes.insert(format!("{name}.weight"), if name == "classifier" { vec![3, 8] } else { vec![8, 8] });
    }
    shapes.insert("classifier.bias".into(), vec![3]);
    shapes.insert("head.norm.weight".into(), vec![8]);
    let error = build("", &shapes).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("the classifier may be one of texts or one of tokens"), "{error}");
    let texts = build("architectures = [\"ModernBertForSequenceClassification\"]", &shapes).unwrap();
    assert!(signature(&texts).ends_with("logits: f32[B, 3]"));
    let tokens = build("architectures = [\"ModernBertForTokenClassification\"]", &shapes).unwrap();
    assert!(signature(&tokens).ends_with("logits: f32[S, 3]"));
}
