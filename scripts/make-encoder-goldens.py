#!/usr/bin/env python3
"""Makes the goldens of text encoders: tiny random models with what the reference makes of a batch of texts.

    python scripts/make-encoder-goldens.py [--out tests/goldens-encoder] [NAME ...]

Needs `torch`, `transformers` (5.24 made the committed ones) and `safetensors`; it is not part of the tests. Without a
NAME it makes every case of `CASES`. The same seed gives the same files.

Each case becomes a folder that any importer reads as a model: `config.json`, `model.safetensors`, no tokenizer. Beside
them lies `golden.safetensors`, with the texts one after another:

    input_ids                  i64 [S]          the tokens of all texts
    starts                     i64 [B]          the first token of each text
    token_type_ids             i64 [S]          where the type has token types
    last_hidden_state          f32 [S, D]       outputs: each that the model has
    pooler_output              f32 [B, D]
    logits                     f32 [B, labels], [S, labels] or [S, vocab]
    seq_relationship_logits    f32 [B, 2]
    embedding                  f32 [B, D]       without a head, pooled as the config says

The reference sees the texts as a batch that is padded on the right, with a mask; the rows of padding are left out here.
Every parameter is overwritten by random values, each a multiple of 1/65536.

Before a folder is written: it must reload to the very same outputs; each text alone must give what it gives in the
batch; and where a case names the switch it proves (`without`), the outputs without that switch must differ.
"""

import importlib.util
import shutil
import tempfile
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
SPEC = importlib.util.spec_from_file_location("goldens", HERE / "make-goldens.py")
goldens = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(goldens)

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

DROP, VOCAB = goldens.DROP, goldens.VOCAB
SMALL = dict(
    vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    max_position_embeddings=64, pad_token_id=0,
)
DISTIL = dict(vocab_size=VOCAB, dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=64, pad_token_id=0)
FAR = dict(
    relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=8, max_relative_positions=20,
    share_att_key=True, norm_rel_ebd="layer_norm", position_biased_input=False, type_vocab_size=0,
    pooler_hidden_size=32,
)
LABELS = {0: "north", 1: "east", 2: "south"}


def case(kind, head="", *, texts=(9, 1, 14), without=None, bare=(), twin=None, small=SMALL, inside=None, extra=None,
         **config):
    """One golden. `head`: the auto class behind `AutoModel`; `texts`: their lengths; `without`: keys that, put in place
    of the saved ones, must change the outputs (DROP removes a key); `bare`: keys to take out of the saved config, to
    prove what their absence means; `twin`: (folder, function of config and tensors), the same outputs from other files;
    `inside`: an id that stands in the middle of a text; `extra`: keys for the importer alone."""
    return dict(kind=kind, head=head, texts=texts, without=without, bare=bare, twin=twin, inside=inside,
                extra=extra or {}, config={**small, **config})


def older_names(config, tensors):
    """As files of the first years name norms, with the tied matrix and its bias written out."""
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in tensors.items()
    }
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
    tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].clone()
    return config, tensors


def without_prefix(config, tensors):
    """Names without the type before them, as a model saved without a head has."""
    prefix = {"bert": "bert.", "deberta-v2": "deberta.", "nomic_bert": "nomic_bert.", "modernbert": "model."}
    return config, {name.removeprefix(prefix[config["model_type"]]): value for name, value in tensors.items()}


def older_modernbert(config, tensors):
    """The keys that the first files of the type have."""
    config = dict(config)
    parameters = config.pop("rope_parameters")
    config["global_rope_theta"] = parameters["full_attention"]["rope_theta"]
    config["local_rope_theta"] = parameters["sliding_attention"]["rope_theta"]
    config.pop("layer_types")
    config["global_attn_every_n_layers"] = 3
    config["layer_norm_eps"] = config["norm_eps"]
    config["position_embedding_type"] = "absolute"
    return dict(sorted(config.items())), tensors


def thetas(full, sliding, **scaling):
    kind = {"rope_type": "default", **scaling}
    return {"full_attention": {**kind, "rope_theta": full}, "sliding_attention": {**kind, "rope_theta": sliding}}


MODERN = dict(num_hidden_layers=4, local_attention=6, rope_parameters=thetas(160000.0, 10000.0), texts=(20, 3, 11))

CASES = {
    # bert
    "bert-base": case("bert", hidden_act="relu", without=dict(hidden_act="gelu")),
    "bert-cls": case("bert", hidden_act="gelu_new", extra=dict(pooling="cls", normalize_embeddings=True)),
    "bert-max": case("bert", extra=dict(pooling="max")),
    "bert-bare": case(
        "bert", hidden_size=48, num_attention_heads=12, num_hidden_layers=1, bare=(
            "num_attention_heads", "hidden_act", "layer_norm_eps", "type_vocab_size", "pad_token_id",
            "tie_word_embeddings", "is_decoder"),
        without=dict(hidden_act="relu")),
    "bert-texts": case("bert", "ForSequenceClassification", id2label=LABELS),
    "bert-tokens": case("bert", "ForTokenClassification", id2label={n: f"T{n}" for n in range(5)}),
    "bert-words": case("bert", "ForMaskedLM", without=dict(hidden_act="relu")),
    "bert-pretraining": case("bert", "ForPreTraining", twin=("bert-older-names", older_names)),
    # roberta
    "roberta-base": case("roberta", pad_token_id=1, type_vocab_size=1, inside=1, without=dict(pad_token_id=5)),
    "roberta-pad": case("roberta", pad_token_id=7, inside=7, without=dict(pad_token_id=1)),
    "roberta-texts": case("roberta", "ForSequenceClassification", pad_token_id=1, id2label=LABELS),
    "roberta-tokens": case("roberta", "ForTokenClassification", pad_token_id=1, id2label=LABELS),
    "roberta-words": case("roberta", "ForMaskedLM", pad_token_id=1, hidden_act="relu"),
    "xlm-roberta-base": case("xlm-roberta", pad_token_id=1, bare=("pad_token_id",)),
    # distilbert
    "distilbert-base": case("distilbert", small=DISTIL, activation="relu", without=dict(activation="gelu")),
    "distilbert-texts": case("distilbert", "ForSequenceClassification", small=DISTIL, id2label=LABELS),
    "distilbert-tokens": case("distilbert", "ForTokenClassification", small=DISTIL, id2label=LABELS),
    "distilbert-words": case("distilbert", "ForMaskedLM", small=DISTIL),
    # mpnet
    "mpnet-base": case("mpnet", pad_token_id=1, texts=(40, 3, 13), inside=1, hidden_act="relu",
                       without=dict(hidden_act="gelu")),
    "mpnet-buckets": case("mpnet", pad_token_id=5, texts=(30, 2), relative_attention_num_buckets=36),
    "mpnet-texts": case("mpnet", "ForSequenceClassification", pad_token_id=1, id2label=LABELS),
    "mpnet-words": case("mpnet", "ForMaskedLM", pad_token_id=1),
    # electra
    "electra-base": case("electra", embedding_size=16, hidden_act="relu", without=dict(hidden_act="gelu")),
    "electra-same": case("electra", embedding_size=32),
    "electra-generator": case("electra", "ForMaskedLM", embedding_size=16),
    "electra-discriminator": case("electra", "ForPreTraining", embedding_size=16, hidden_act="gelu_new"),
    "electra-texts": case("electra", "ForSequenceClassification", embedding_size=16, id2label=LABELS),
    "electra-tokens": case("electra", "ForTokenClassification", embedding_size=16, id2label=LABELS),
    # nomic_bert
    "nomic_bert-base": case(
        "nomic_bert", rope_parameters=goldens.rope(theta=50.0), without=dict(rope_parameters=goldens.rope(theta=1000.0))),
    "nomic_bert-bare": case(
        "nomic_bert", bare=("rope_parameters", "hidden_act", "layer_norm_eps", "head_dim"),
        without=dict(rope_parameters=goldens.rope(theta=50.0))),
    "nomic_bert-texts": case("nomic_bert", "ForSequenceClassification", id2label=LABELS),
    "nomic_bert-words": case("nomic_bert", "ForMaskedLM", hidden_act="gelu"),
    # modernbert
    "modernbert-base": case(
        "modernbert", twin=("modernbert-older-keys", older_modernbert),
        without=dict(layer_types=["full_attention"] * 4), **MODERN),
    "modernbert-rope": case(
        "modernbert", **{**MODERN, "rope_parameters": thetas(20.0, 50.0, rope_type="linear", factor=2.5)},
        without=dict(rope_parameters=thetas(20.0, 50.0))),
    "modernbert-biases": case(
        "modernbert", "ForSequenceClassification", norm_bias=True, attention_bias=True, mlp_bias=True,
        classifier_bias=True, classifier_activation="relu", hidden_activation="gelu_new", id2label=LABELS,
        without=dict(classifier_activation="gelu"), **MODERN),
    "modernbert-mean": case(
        "modernbert", "ForSequenceClassification", classifier_pooling="mean", id2label=LABELS,
        without=dict(classifier_pooling="cls"), **MODERN),
    "modernbert-tokens": case("modernbert", "ForTokenClassification", id2label=LABELS, **MODERN),
    "modernbert-words": case("modernbert", "ForMaskedLM", **MODERN),
    "modernbert-words-plain": case("modernbert", "ForMaskedLM", decoder_bias=False, **MODERN),
    # deberta-v2
    "deberta-v2-base": case(
        "deberta-v2", texts=(30, 1, 12), without=dict(max_relative_positions=100), **FAR),
    "deberta-v2-far": case(
        "deberta-v2", texts=(20, 7), without=dict(pos_att_type="p2c"),
        **{**FAR, "position_buckets": -1, "max_relative_positions": 4, "share_att_key": False, "norm_rel_ebd": "none",
           "pos_att_type": "c2p|p2c", "position_biased_input": True, "type_vocab_size": 2}),
    "deberta-v2-queries": case(
        "deberta-v2", texts=(12, 7), without=dict(pos_att_type=["c2p"]), **{**FAR, "pos_att_type": ["p2c"]}),
    "deberta-v2-keys": case(
        "deberta-v2", texts=(12, 7), without=dict(norm_rel_ebd="none"),
        **{**FAR, "pos_att_type": ["c2p"], "share_att_key": False}),
    "deberta-v2-plain": case(
        "deberta-v2", without=dict(pos_att_type=None),
        **{**FAR, "relative_attention": False, "position_biased_input": True, "norm_rel_ebd": "none"}),
    "deberta-v2-convolution": case(
        "deberta-v2", embedding_size=16, conv_kernel_size=3, conv_act="gelu", without=dict(conv_act="tanh"), **FAR),
    "deberta-v2-texts": case("deberta-v2", "ForSequenceClassification", id2label=LABELS, pooler_hidden_act="relu",
                             without=dict(pooler_hidden_act="gelu"), **FAR),
    "deberta-v2-tokens": case("deberta-v2", "ForTokenClassification", id2label=LABELS, **FAR),
    "deberta-v2-words": case("deberta-v2", "ForMaskedLM", embedding_size=16, **FAR),
    "deberta-v2-words-new": case("deberta-v2", "ForMaskedLM", legacy=False, **FAR),
}

QUERIES_AND_KEYS = ("query", "key", "q_lin", "k_lin", "attn.q.", "attn.k.", "q_proj", "k_proj", "Wqkv")


@torch.no_grad()
def overwrite(model, generator):
    """Fills every parameter with random multiples of 1/65536."""
    norms = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, torch.nn.LayerNorm)}
    tables = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, torch.nn.Embedding)}
    for name, tensor in model.state_dict().items():
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
        if name.endswith("bias") and tensor.dim() == 1:
            value = 0.3 * noise
        elif name in norms:
            value = 1 + torch.rand(tensor.shape, generator=generator) * 0.6 - 0.3
        elif name in tables:
            value = 0.6 * noise
        else:
            fan_in = tensor[0].numel()
            value = (1.4 if any(part in name for part in QUERIES_AND_KEYS) else 1.0) * fan_in ** -0.5 * noise
        tensor.copy_(torch.round(value * 65536) / 65536)


def load(folder, spec):
    """The folder as the reference reads it, in f32 on the eager path."""
    kind = getattr(transformers, f"AutoModel{spec['head']}")
    return kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def pooled(hidden, pooling):
    """One text `[S, D]` as one row."""
    return {"cls": hidden[0], "mean": hidden.double().mean(0).float(), "max": hidden.amax(0)}[pooling]


@torch.no_grad()
def outputs(model, spec, texts, types):
    """What the reference makes of the texts as one padded batch: rows of tokens one after another."""
    longest = max(len(ids) for ids in texts)
    pad = model.config.pad_token_id or 0
    ids = torch.full((len(texts), longest), pad)
    mask, kinds = torch.zeros_like(ids), torch.zeros_like(ids)
    for row, (text, kind) in enumerate(zip(texts, types)):
        ids[row, :len(text)], mask[row, :len(text)], kinds[row, :len(text)] = text, 1, kind
    given = dict(input_ids=ids, attention_mask=mask)
    if has_types(model):
        given["token_type_ids"] = kinds
    base = getattr(model, model.base_model_prefix, model)
    inner = base(**given)
    rows = lambda x: torch.cat([x[b, :len(text)] for b, text in enumerate(texts)])
    found = {"last_hidden_state": rows(inner.last_hidden_state)}
    if getattr(inner, "pooler_output", None) is not None:
        found["pooler_output"] = inner.pooler_output
    if not spec["head"]:
        hidden = [inner.last_hidden_state[b, :len(text)] for b, text in enumerate(texts)]
        embedding = torch.stack([pooled(h, spec["extra"].get("pooling", "mean")) for h in hidden])
        if spec["extra"].get("normalize_embeddings"):
            embedding = torch.nn.functional.normalize(embedding, dim=-1)
        return {**found, "embedding": embedding}
    given_by_head = model(**given)
    logits = given_by_head.get("prediction_logits", given_by_head.get("logits"))
    if spec["head"] != "ForSequenceClassification":
        logits = rows(logits if logits.dim() == 3 else logits.unsqueeze(-1))
    found["logits"] = logits
    if "seq_relationship_logits" in given_by_head:
        found["seq_relationship_logits"] = given_by_head["seq_relationship_logits"]
    return {name: value.to(torch.float32) for name, value in found.items()}


def has_types(model):
    """Whether the model has a table of token types."""
    return any("token_type_embeddings" in name for name, _ in model.named_parameters())


def alone(model, spec, texts, types, wanted):
    """Fails unless each text alone gives what it gives in the batch."""
    start = 0
    for number, (text, kind) in enumerate(zip(texts, types)):
        own = {}
        for name, value in wanted.items():
            by_token = value.shape[0] == sum(len(t) for t in texts)
            own[name] = value[start:start + len(text)] if by_token else value[number:number + 1]
        goldens.same_tensors(f"text {number} alone", outputs(model, spec, [text], [kind]), own, 2e-5)
        start += len(text)


def change(folder, spec, texts, types, wanted):
    """The largest change of the last output when the keys of `without` replace the saved ones."""
    with tempfile.TemporaryDirectory() as scratch:
        other = Path(scratch) / "model"
        shutil.copytree(folder, other)
        config = goldens.read(other)
        for key, value in spec["without"].items():
            if value is DROP:
                config.pop(key, None)
            else:
                config[key] = value
        goldens.write(other, config)
        found = outputs(load(other, spec), spec, texts, types)
    name = "logits" if "logits" in wanted else "last_hidden_state"
    return (found[name] - wanted[name]).abs().max().item()


def make(name, spec, out):
    """Makes the folder(s) of one case under `out`; prints a line for each."""
    seed = zlib.crc32(name.encode())
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(spec["kind"], **spec["config"])
    config._attn_implementation = "eager"
    model = getattr(transformers, f"AutoModel{spec['head']}").from_config(config).to(torch.float32).eval()
    overwrite(model, generator)
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    saved = goldens.read(folder)
    missing = [key for key in spec["bare"] if key not in saved]
    assert not missing, f"{name}: the saved config has no {missing}"
    saved = {key: value for key, value in saved.items() if key not in spec["bare"]}
    goldens.write(folder, {**saved, **spec["extra"]})

    texts = [torch.randint(8, VOCAB, (length,), generator=generator) for length in spec["texts"]]
    if spec["inside"] is not None:
        for text in texts:
            if len(text) > 4:
                text[3] = spec["inside"]
    types = [torch.randint(0, max(getattr(config, "type_vocab_size", 1), 1), text.shape, generator=generator) for text in texts]
    again = load(folder, spec)
    wanted = outputs(again, spec, texts, types)
    goldens.same_tensors(name, outputs(model, spec, texts, types), wanted, 0.0)
    alone(again, spec, texts, types, wanted)
    if spec["extra"].get("pooling"):
        plain = outputs(again, {**spec, "extra": {}}, texts, types)["embedding"]
        assert (plain - wanted["embedding"]).abs().max() > 1e-2, f"{name}: the pooling changes nothing"
    note = ""
    if spec["without"]:
        moved = change(folder, spec, texts, types, wanted)
        assert moved > 1e-2, f"{name}: the switch changes the outputs by {moved} only"
        note = f", without the switch {moved:.3f}"
    lengths = torch.tensor([0, *spec["texts"][:-1]]).cumsum(0)
    tensors = {"input_ids": torch.cat(texts), "starts": lengths, **wanted}
    if has_types(again):
        tensors["token_type_ids"] = torch.cat(types)
    tensors = {key: value.contiguous().clone() for key, value in tensors.items()}
    size = goldens.store(folder, tensors)
    print(f"{name}: {size} bytes, {', '.join(wanted)}{note}", flush=True)

    if spec["twin"]:
        twin, rewrite = out / spec["twin"][0], spec["twin"][1]
        shutil.rmtree(twin, ignore_errors=True)
        shutil.copytree(folder, twin)
        config, weights = rewrite(goldens.read(folder), load_file(folder / "model.safetensors"))
        goldens.write(twin, config)
        save_file(weights, twin / "model.safetensors", metadata={"format": "pt"})
        goldens.same_tensors(twin.name, outputs(load(twin, spec), spec, texts, types), wanted, 0.0)
        print(f"{twin.name}: {goldens.store(twin, tensors)} bytes, the same outputs", flush=True)


if __name__ == "__main__":
    goldens.run(__doc__, "goldens-encoder", CASES, make)
