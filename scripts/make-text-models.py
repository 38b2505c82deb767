#!/usr/bin/env python3
"""Makes the encoders on which texts are run to vectors, labels, tagged tokens and words for masks.

    python scripts/make-text-models.py [--out tests/text] [NAME ...]

Needs `torch`, `transformers` (5.24 made the committed ones) and `safetensors`; it is not part of the tests.
Without a NAME it makes every case of `CASES`. The same files come out each time.

Each case becomes a folder that import reads once a tokenizer lies in it: `expected.json` names one of
`tests/tokenizers/`, and holds what `transformers` makes of each text alone:

    embeddings   [text, vector]                              pooled and normalised as modules.json says
    labels       [text, second text or null, probabilities]  in the order of the labels
    tags         [text, [[token id, label, probability]]]    without the tokens around the text
    masks        [text, [[[token id, probability] x 5]]]     for each mask

Every parameter is random, as for the goldens, and a multiple of 1/65536.
"""

import argparse
import importlib.util
import json
import shutil
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("goldens", HERE / "make-goldens.py")
goldens = importlib.util.module_from_spec(spec)
spec.loader.exec_module(goldens)

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import AutoConfig, PreTrainedTokenizerFast  # noqa: E402

SMALL = dict(
    hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=40,
    type_vocab_size=2, pad_token_id=0,
)
TEXTS = ["The quick brown fox", "", "naïve café 日本語, don't!", "a", "the dog " * 20, "Who's there? It's me."]
MASKED = ["the {} brown fox", "{} and {} 12 apples", "a{}", "the {}"]
EMOTIONS = {"0": "joy", "1": "anger", "2": "fear"}
ENTITIES = {"0": "O", "1": "B-PER", "2": "I-PER", "3": "B-LOC"}


def case(task, kind="bert", head="AutoModel", tokenizer="wordpiece-uncased", modules=None, length=None, **config):
    """One model: what is expected of it, its type and head, its tokenizer, and the modules of a folder of
    sentence-transformers: how vectors are pooled, and whether they are normalised."""
    return dict(task=task, kind=kind, head=head, tokenizer=tokenizer, modules=modules, length=length,
                config={**SMALL, **config})


CLASSES = "AutoModelForSequenceClassification"
CASES = {
    "vectors": case("embeddings", modules=("mean", True), length=24),
    "vectors-cls": case("embeddings", modules=("cls", False), length=30),
    "vectors-max": case("embeddings", modules=("max", False), length=24),
    "vectors-bare": case("embeddings"),
    "labels": case("labels", head=CLASSES, id2label=EMOTIONS),
    "labels-many": case("labels", head=CLASSES, id2label=EMOTIONS, problem_type="multi_label_classification"),
    "labels-one": case("labels", head=CLASSES, id2label={"0": "relevant"}),
    "tags": case("tags", head="AutoModelForTokenClassification", id2label=ENTITIES),
    "masks": case("masks", head="AutoModelForMaskedLM"),
    "masks-roberta": case("masks", kind="roberta", head="AutoModelForMaskedLM", tokenizer="bpe-roberta",
                          type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2),
}


def write_modules(folder, modules, length):
    pooling, normalize = modules
    place = "sentence_transformers.models."
    parts = [("", "Transformer"), ("1_Pooling", "Pooling")] + ([("2_Normalize", "Normalize")] if normalize else [])
    listed = [{"idx": n, "name": str(n), "path": path, "type": place + of} for n, (path, of) in enumerate(parts)]
    (folder / "modules.json").write_text(json.dumps(listed, indent=1) + "\n")
    flags = {"word_embedding_dimension": SMALL["hidden_size"]}
    for key, name in [("cls_token", "cls"), ("mean_tokens", "mean"), ("max_tokens", "max"), ("mean_sqrt_len_tokens", "")]:
        flags["pooling_mode_" + key] = pooling == name
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(flags, indent=1) + "\n")
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": length, "do_lower_case": False}) + "\n")


def pooled(states, modules):
    pooling, normalize = modules or ("mean", False)
    vector = {"cls": lambda s: s[0], "mean": lambda s: s.mean(0), "max": lambda s: s.amax(0)}[pooling](states)
    return torch.nn.functional.normalize(vector, dim=0) if normalize else vector


def rounded(values):
    return [float(f"{v:.8g}") for v in values]


@torch.no_grad()
def expected(model, tokenizer, spec):
    limit = spec["length"] or (SMALL["max_position_embeddings"] - (2 if spec["kind"] == "roberta" else 0))
    limit = min(limit, tokenizer.model_max_length)

    def run(text, second=None):
        given = tokenizer(text, second, truncation=True, max_length=limit, return_tensors="pt",
                          return_special_tokens_mask=True)
        around = given.pop("special_tokens_mask")[0].bool()
        return model(**given), given["input_ids"][0], around

    rows = []
    if spec["task"] == "embeddings":
        for text in TEXTS:
            out, _, _ = run(text)
            rows.append([text, rounded(pooled(out.last_hidden_state[0], spec["modules"]).tolist())])
    elif spec["task"] == "labels":
        for text, second in [(text, None) for text in TEXTS] + [("a fox", "the dog " * 20), ("Who's there?", "12")]:
            logits = run(text, second)[0].logits[0]
            one = spec["config"].get("problem_type") is None and len(logits) > 1
            rows.append([text, second, rounded((logits.softmax(0) if one else logits.sigmoid()).tolist())])
    elif spec["task"] == "tags":
        for text in TEXTS:
            out, ids, around = run(text)
            best = out.logits[0].softmax(-1).max(-1)
            rows.append([text, [[i, spec["config"]["id2label"][str(n)], rounded([p])[0]] for i, n, p, skip in zip(
                ids.tolist(), best.indices.tolist(), best.values.tolist(), around.tolist()) if not skip]])
    else:
        for text in MASKED:
            text = text.replace("{}", tokenizer.mask_token)
            out, ids, _ = run(text)
            masks = []
            for at in (ids == tokenizer.mask_token_id).nonzero().flatten().tolist():
                best = out.logits[0, at].softmax(-1).topk(5)
                masks.append([[i, rounded([p])[0]] for i, p in zip(best.indices.tolist(), best.values.tolist())])
            rows.append([text, masks])
    return {"tokenizer": spec["tokenizer"], spec["task"]: rows}


def make(name, spec, out):
    seed = zlib.crc32(name.encode())
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    source = HERE.parent / "tests" / "tokenizers" / spec["tokenizer"]
    settings = json.loads((source / "tokenizer_config.json").read_text())
    settings = {k: v["content"] if isinstance(v, dict) else v for k, v in settings.items()}
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(source / "tokenizer.json"), **settings)
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    config = dict(spec["config"], vocab_size=len(tokenizer))
    if "id2label" in config:
        config["id2label"] = {int(k): v for k, v in config["id2label"].items()}
        config["label2id"] = {v: k for k, v in config["id2label"].items()}
    config = AutoConfig.for_model(spec["kind"], **config)
    config._attn_implementation = "eager"
    extra = {"add_pooling_layer": False} if spec["head"] == "AutoModel" else {}
    model = getattr(transformers, spec["head"]).from_config(config, **extra).to(torch.float32).eval()
    with torch.no_grad():
        goldens.overwrite(model, generator, dict(kind=spec["kind"], sharp=0.5, embed=0.5), None)
        for key, value in model.state_dict().items():
            if key.endswith("embeddings.weight"):
                value.copy_(torch.round(value * 4 * 65536) / 65536)
            # LayerNorm is no "norm" to the helper.
            if key.endswith("LayerNorm.weight") or key.endswith("layer_norm.weight"):
                value.copy_(torch.round((1 + 0.3 * value) * 65536) / 65536)
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if spec["modules"]:
        write_modules(folder, spec["modules"], spec["length"])
    again = getattr(transformers, spec["head"]).from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", **extra).eval()
    made = expected(again, tokenizer, spec)
    assert made == expected(model, tokenizer, spec), f"{name}: saving changed the results"
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in made[spec["task"]])
    text = f'{{"tokenizer": {json.dumps(spec["tokenizer"])},\n"{spec["task"]}": [\n{lines}\n]}}\n'
    (folder / "expected.json").write_text(text)
    for file in folder.rglob("*"):
        if file.is_file():
            file.chmod(0o644)
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    assert size <= 160_000, f"{name}: {size} bytes"
    print(f"{name}: {size} bytes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE.parent / "tests" / "text")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    for name in arguments.names or CASES:
        make(name, CASES[name], arguments.out)


if __name__ == "__main__":
    main()
