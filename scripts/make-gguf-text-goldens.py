#!/usr/bin/env python3
"""Makes the goldens of GGUF files of text encoders, of t5, of gemma 4 and of deepseek, by llama.cpp's own converter.

    python scripts/make-gguf-text-goldens.py --llama-cpp FOLDER [--tests tests] [NAME ...]

FOLDER holds llama.cpp's sources (`conversion/`, `gguf-py/`); version 0.3.36 of llama-cpp-python brings those that made the
committed files. Needs what `make-encoder-goldens.py`, `make-seq2seq-goldens.py` and `make-tokenizers.py` need.

Each case becomes a folder like those of the encoder or seq2seq goldens, whose tests it takes part in, with more files:

    model.gguf          what the converter makes of the folder, in F32
    tokenizer.json      and tokenizer_config.json
    expected.json       ids of awkward texts and of pairs by the Hugging Face tokenizer, as in `tests/tokenizers`

Those of gemma 4 are files of `tests/goldens/gguf` made of the folders of their names in `tests/goldens`, with the tokenizer of
`tests/goldens/gguf/gemma4-tokenizer`. Those of deepseek lie there too, with a few words alone.

The converter runs as it is, but for two things. It knows pre-tokenisers by a hash of ids, which a tiny vocabulary does not
have: it is told a name, which readers of these vocabularies do not use. And it reads nomic_bert by the keys of the
model's first code alone, so that its config is given those too.
"""

import argparse
import importlib.util
import json
import shutil
import sys
import tempfile
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent


def module(name):
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), HERE / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


encoders, seq2seq, tokenizers = module("make-encoder-goldens"), module("make-seq2seq-goldens"), module("make-tokenizers")
goldens = encoders.goldens

import sentencepiece  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from sentencepiece import sentencepiece_model_pb2  # noqa: E402

LIMIT = 150_000  # bytes of one folder
SMALL = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, pad_token_id=0)
SPECIAL = {"[PAD]": "pad_token", "[UNK]": "unk_token", "[CLS]": "cls_token", "[SEP]": "sep_token", "[MASK]": "mask_token"}


def encoder(kind, tokenizer, pooling="mean", fillers=0, **config):
    """An encoder with one of the tokenizers in `tests/tokenizers`, and so many rows that no text stands for."""
    return dict(kind=kind, tokenizer=tokenizer, pooling=pooling, fillers=fillers, config={**({} if "dim" in config else SMALL), "max_position_embeddings": 40, **config})


def t5(sentinels, kind="t5", **config):
    """A t5 or mt5; with `sentinels` a file for the converter says which tokens the vocabulary of SentencePiece lacks."""
    small = dict(d_model=12, d_kv=5, d_ff=20, num_layers=2, num_heads=3, relative_attention_num_buckets=8,
                 pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
    return dict(kind=kind, sentinels=sentinels, config={**small, **config})


CASES = {
    "bert-gguf": encoder("bert", "wordpiece-uncased", layer_norm_eps=1e-5, fillers=3),
    "bert-gguf-cased": encoder("bert", "wordpiece-cased", "cls", num_hidden_layers=1),
    "distilbert-gguf": encoder("distilbert", "wordpiece-uncased", "cls", dim=16, hidden_dim=24, n_layers=1, n_heads=2),
    "nomic_bert-gguf": encoder("nomic_bert", "wordpiece-cased", rope_parameters={"rope_type": "default", "rope_theta": 50.0}),
    "xlm-roberta-gguf": encoder("xlm-roberta", "unigram-xlmr", None, pad_token_id=1, bos_token_id=0, eos_token_id=2,
                                type_vocab_size=1),
    "t5-gguf": t5(False),
    "t5-gguf-gated": t5(True, feed_forward_proj="gated-gelu", tie_word_embeddings=False, num_layers=2, num_decoder_layers=1,
                        decoder_start_token_id=3),
    "mt5-gguf": t5(False, "mt5", num_layers=1),
    "gemma4-joint-keys": None,
    "gemma4-shared": None,
    "gemma4-experts": None,
    # The library's config has no word for how scores come about; those of the models do.
    "deepseek_v2-plain": dict(extra=dict(scoring_func="softmax", norm_topk_prob=False)),
    "deepseek_v3-plain": dict(extra=dict(scoring_func="sigmoid")),
    "deepseek_v3-yarn": dict(extra=dict(scoring_func="sigmoid")),
}


def converter(folder):
    """The function of llama.cpp that turns a folder into a file."""
    sys.path[:0] = [str(folder), str(folder / "gguf-py")]
    import gguf
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class

    def convert(source, target, words=None):
        hparams = ModelBase.load_hparams(source, False)
        kind = get_model_class(get_model_architecture(hparams, ModelType.TEXT), mmproj=False)
        kind.get_vocab_base_pre = lambda self, tokenizer: "jina-v2-en"
        kind.set_vocab = words or kind.set_vocab
        with torch.inference_mode():
            kind(source, gguf.LlamaFileType.ALL_F32, target, model_name=source.name).write()

    return convert


def nomic_keys(config):
    """The keys of nomic_bert's first code."""
    return {
        "n_embd": config["hidden_size"], "n_layer": config["num_hidden_layers"],
        "n_head": config["num_attention_heads"], "n_inner": config["intermediate_size"], "n_positions": 8192, "max_trained_positions": 2048,
        "vocab_size": config["vocab_size"], "type_vocab_size": config["type_vocab_size"], "activation_function": "swiglu",
        "layer_norm_epsilon": config["layer_norm_eps"], "rotary_emb_base": config["rope_parameters"]["rope_theta"],
        "causal": False, "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "prenorm": False,
        "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
    }


def expected(folder, path):
    """What the tokenizer of a folder makes of awkward texts and of pairs."""
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizers.write(path, {
        "texts": [[text, tokenizer.encode(text).ids] for text in tokenizers.AWKWARD],
        "pairs": [[a, b, e.ids, e.type_ids] for a, b in tokenizers.PAIRS for e in [tokenizer.encode(a, b)]],
    })


def finish(name, folder, tensors, convert, files=(), config=None):
    """Converts the folder with some files more, and stores what is expected of it."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / name
        shutil.copytree(folder, source)
        for file, content in files:
            (source / file).parent.mkdir(exist_ok=True)
            (source / file).write_bytes(content)
        if config:
            goldens.write(source, config)
        convert(source, folder / "model.gguf")
    expected(folder, folder / "expected.json")
    size = goldens.store(folder, {key: value.contiguous().clone() for key, value in tensors.items()})
    assert size <= LIMIT, f"{name}: {size} bytes"
    print(f"{name}: {size} bytes", flush=True)


def seeded(name):
    seed = zlib.crc32(name.encode())
    torch.manual_seed(seed)
    return torch.Generator().manual_seed(seed)


def make_encoder(name, spec, tests, convert):
    generator, folder = seeded(name), tests / "goldens-encoder" / name
    source = tests / "tokenizers" / spec["tokenizer"]
    tokenizer = tokenizers.Tokenizer.from_file(str(source / "tokenizer.json"))
    words = tokenizer.get_vocab_size()
    config = transformers.AutoConfig.for_model(spec["kind"], vocab_size=words + spec["fillers"], **spec["config"])
    config._attn_implementation = "eager"
    extra = {} if spec["kind"] in ("nomic_bert", "distilbert") else {"add_pooling_layer": False}
    model = transformers.AutoModel.from_config(config, **extra).to(torch.float32).eval()
    encoders.overwrite(model, generator)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    state = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    if state["model"]["type"] == "Unigram":
        # The converter reads the map of characters there, where most files have it.
        state["normalizer"] = state["normalizer"]["normalizers"][0]
        # And it wants all tokens to be in the model.
        state["model"]["vocab"] += [[token["content"], 0.0] for token in state["added_tokens"] if token["id"] >= len(state["model"]["vocab"])]
    (folder / "tokenizer.json").write_text(json.dumps(state, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    settings = json.loads((source / "tokenizer_config.json").read_text())
    settings = {key: value["content"] if isinstance(value, dict) else value for key, value in settings.items()}
    usual = {key: text for text, key in SPECIAL.items() if tokenizer.token_to_id(text) is not None}
    kind = "PreTrainedTokenizerFast"
    if spec["kind"] == "xlm-roberta":
        usual, kind = {"unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}, "XLMRobertaTokenizer"
    settings = {**usual, **settings, "tokenizer_class": kind, "model_max_length": 36}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")

    texts = [torch.randint(5, words, (length,), generator=generator) for length in (9, 1, 14)]
    kinds = max(getattr(config, "type_vocab_size", 1), 1)
    types = [torch.randint(0, kinds, text.shape, generator=generator) for text in texts]
    # The reference reads no `pooling`: it is written for the importer, and in the words of sentence-transformers for the converter.
    how = {"head": "", "extra": {"pooling": spec["pooling"]} if spec["pooling"] else {}}
    wanted = encoders.outputs(model, how, texts, types)
    saved = goldens.read(folder)
    goldens.write(folder, {**saved, **how["extra"]})
    lengths = torch.tensor([0, *map(len, texts[:-1])]).cumsum(0)
    tensors = {"input_ids": torch.cat(texts), "starts": lengths, **wanted}
    if encoders.has_types(model):
        tensors["token_type_ids"] = torch.cat(types)
    files = []
    if spec["pooling"]:
        listed = [{"idx": 0, "name": "0", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
        flags = {f"pooling_mode_{key}": spec["pooling"] == of for key, of in [("cls_token", "cls"), ("mean_tokens", "mean")]}
        files = [("modules.json", json.dumps(listed).encode()), ("1_Pooling/config.json", json.dumps(flags).encode())]
    finish(name, folder, tensors, convert, files, {**saved, **nomic_keys(saved)} if spec["kind"] == "nomic_bert" else None)


def sentence_pieces():
    """A model of SentencePiece over the sentences of the tokenizers, with a map of characters."""
    with tempfile.TemporaryDirectory() as scratch:
        rules = "".join(f"{' '.join(f'{ord(c):X}' for c in a)}\t{' '.join(f'{ord(c):X}' for c in b)}\n" for a, b in tokenizers.RULES)
        (Path(scratch) / "rules.tsv").write_text(rules, encoding="utf-8")
        (Path(scratch) / "text").write_text("\n".join(tokenizers.SENTENCES), encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input=f"{scratch}/text", model_prefix=f"{scratch}/m", vocab_size=260, hard_vocab_limit=False,
            normalization_rule_tsv=f"{scratch}/rules.tsv", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2)
        return (Path(scratch) / "m.model").read_bytes()


def make_t5(name, spec, tests, convert):
    generator, folder = seeded(name), tests / "goldens-seq2seq" / name
    pieces = sentence_pieces()
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(pieces)
    vocab = [(piece.piece, piece.score) for piece in proto.pieces]
    extra = 2
    vocab += [(f"<extra_id_{n}>", 0.0) for n in reversed(range(extra))]
    tokenizer = transformers.T5Tokenizer(
        vocab=vocab, _spm_precompiled_charsmap=proto.normalizer_spec.precompiled_charsmap, extra_ids=extra)
    # Rows beyond the vocabulary, as in files in use.
    config = transformers.AutoConfig.for_model(spec["kind"], vocab_size=len(vocab) + 2, **spec["config"])
    config._attn_implementation = "eager"
    model = transformers.AutoModelForSeq2SeqLM.from_config(config).to(torch.float32).eval()
    with torch.no_grad():
        goldens.overwrite(model, generator, dict(kind="t5", embed=0.5, sharp=0.0), None)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokenizer.save_pretrained(folder)
    if spec["kind"] == "mt5":
        # The library ties the head in what it saves; the files in use have one of their own, which it reads.
        weights = encoders.load_file(folder / "model.safetensors")
        head = torch.randn(weights["shared.weight"].shape, generator=generator) * 0.5
        weights["lm_head.weight"] = torch.round(head * 65536) / 65536
        encoders.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    model = seq2seq.load(folder)
    assert (spec["kind"] == "mt5") == (model.lm_head.weight is not model.shared.weight), f"{name}: the head"
    top = len(proto.pieces)
    tensors = {
        "input_ids": torch.randint(3, top, (30,), generator=generator),
        "decoder_input_ids": torch.randint(3, top, (12,), generator=generator),
    }
    tensors["logits"] = seq2seq.forward(model, tensors)
    tensors["generated"] = seq2seq.generate(model, tensors, num_beams=1)
    for penalty in (1.0, -0.5):
        tensors[f"beams.{penalty}"] = seq2seq.generate(model, tensors, num_beams=3, length_penalty=penalty)
    files = [("spiece.model", pieces)]
    if spec["sentinels"]:
        added = {f"<extra_id_{extra - 1 - n}>": len(proto.pieces) + n for n in range(extra)}
        files.append(("added_tokens.json", json.dumps(added).encode()))
    finish(name, folder, tensors, convert, files)


def gemma_tokenizer(folder):
    """Gemma's kind of tokenizer: spaces become a sign, then merges over the whole text; bytes for what is unknown."""
    models, normalizers, decoders = tokenizers.models, tokenizers.normalizers, tokenizers.decoders
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    # Others are left to bytes.
    words = [f" {word}" for line in tokenizers.SENTENCES for word in line.split() if all(ord(c) < 0x100 for c in word)]
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<turn|>"]
    tokenizer.train_from_iterator(words, tokenizers.trainers.BpeTrainer(
        vocab_size=420, special_tokens=[*special, *bytes_], show_progress=False))
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] in special]
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(state))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos>:1 $B:1", special_tokens=[("<bos>", 2)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    state = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
    (folder / "tokenizer.json").write_text(state + "\n", encoding="utf-8")
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "<eos>", "bos_token": "<bos>",
                "unk_token": "<unk>", "extra_special_tokens": ["<turn|>"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")
    expected(folder, folder / "expected.json")


def make_gemma(name, tests, convert):
    target, words = tests / "goldens" / "gguf" / f"{name}.gguf", tests / "goldens" / "gguf" / "gemma4-tokenizer"
    gemma_tokenizer(words)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / name
        shutil.copytree(tests / "goldens" / name, source)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(words / file, source / file)
        convert(source, target)
    print(f"{name}: {target.stat().st_size} bytes", flush=True)


def few_words(self):
    """96 tokens of a byte-level BPE."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?'\"-:;()"
    pairs = ["Ġ t", "h e", "i n", "Ġ a", "e r", "o n", "r e", "Ġt he", "n d", "Ġa nd", "Ġ s", "o u", "a t", "i s", "Ġ o", "Ġo f", "in g", "Ġ w"]
    tokens = ["<s>", "</s>", "<unk>", "Ċ", "Ġ", *letters, *(p.replace(" ", "") for p in pairs)]
    assert len(tokens) == len(set(tokens)) == 96, len(tokens)
    writer = self.gguf_writer
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("deepseek-v3")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * 3 + [1] * (len(tokens) - 3))
    writer.add_token_merges(pairs)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(False)


def make_decoder(name, spec, tests, convert):
    """A file of the folder of its name, with what the library leaves out of the config."""
    target = tests / "goldens" / "gguf" / f"{name}.gguf"
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / name
        shutil.copytree(tests / "goldens" / name, source)
        goldens.write(source, {**goldens.read(source), **spec["extra"]})
        convert(source, target, few_words)
    print(f"{name}: {target.stat().st_size} bytes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llama-cpp", type=Path, required=True)
    parser.add_argument("--tests", type=Path, default=HERE.parent / "tests")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    unknown = [n for n in arguments.names if n not in CASES]
    if unknown:
        sys.exit(f"no such case: {', '.join(unknown)}; there are: {', '.join(CASES)}")
    convert = converter(arguments.llama_cpp.resolve())
    for name in arguments.names or CASES:
        spec = CASES[name]
        if spec is None:
            make_gemma(name, arguments.tests, convert)
        elif "extra" in spec:
            make_decoder(name, spec, arguments.tests, convert)
        else:
            (make_t5 if "sentinels" in spec else make_encoder)(name, spec, arguments.tests, convert)


if __name__ == "__main__":
    main()
