#!/usr/bin/env python3
"""Makes the folders with tokenizers in other files than `tokenizer.json` on which their reading is tested.

    python scripts/make-tokenizer-files.py [--out tests/tokenizer-files] [NAME ...]

Needs `tokenizers`, `transformers` (5.24 made the committed ones) and `sentencepiece`; it is not part of the
tests. Without a NAME it makes every case of `CASES`. The same files come out each time.

Each case becomes a folder with the files of a tokenizer as older models bring them, and `expected.json`, what
`transformers` makes of awkward texts with its class for such files:

    texts       pairs of a text and its ids, those around it included
    pairs       two texts and their ids
    decoded     the text that the ids of each text give, special tokens left out
    languages   the language of a text, the text and its ids, where the class has languages

Vocabularies are trained here on the sentences of `make-tokenizers.py`.
"""

import argparse
import importlib.util
import json
import random
import shutil
import tempfile
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as pb

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("tokenizers_", HERE / "make-tokenizers.py")
base = importlib.util.module_from_spec(spec)
spec.loader.exec_module(base)

import transformers  # noqa: E402

MARKS = [
    ">>ro<< Hello", ">>ro<<Hello  world", " >>ro<< x", ">>xx<< the dog", ">>ro<<", "a >>ro<< b", ">>ro the dog", "<<>>",
    "__en__ hello", "hello __ro__", "__xx__", "en_XX the dog ro_RO", "the </s> dog", "</s>", "<pad> <unk>", "the<unk>dog",
    " </s> the", "the  </s>  dog ", "<extra_id_0> the <extra_id_1>", "the<extra_id_9>dog", "ß ẞ ſ", "▁", " ▁ ▁▁", "▁the",
    "Q Ж 中 q", "ЖЖЖ ЖЖ", "e\u0301\u0300 a\u0301", "<mask>", "a <mask> b", "the<mask>", "<|endoftext|>", "<|startoftext|>a<|endoftext|>",
    "the <|im_start|>dog<|im_end|>", "don't you'll I've", "3.14 1,000", "a\n\n\nb", "  a   b", "a\t b", "x" * 300, "the dog " * 40,
]
TEXTS = list(dict.fromkeys(base.AWKWARD + MARKS))
LIMIT = 110_000  # bytes of one folder


def train(size, sentences, kind="unigram", rules=True, **options):
    """A SentencePiece model of these sentences, as its message."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "text").write_text("\n".join(sentences), encoding="utf-8")
        if rules:
            lines = "".join(f"{' '.join(f'{ord(c):X}' for c in a)}\t{' '.join(f'{ord(c):X}' for c in b)}\n" for a, b in base.RULES)
            (folder / "rules.tsv").write_text(lines, encoding="utf-8")
            options["normalization_rule_tsv"] = f"{folder}/rules.tsv"
        else:
            options.setdefault("normalization_rule_name", "identity")
        sentencepiece.SentencePieceTrainer.train(
            input=f"{folder}/text", model_prefix=f"{folder}/m", vocab_size=size, hard_vocab_limit=False, model_type=kind,
            num_threads=1, minloglevel=2, **options)
        model = pb.ModelProto()
        model.ParseFromString((folder / "m.model").read_bytes())
    # Paths of the training are of no interest.
    model.trainer_spec.ClearField("input")
    model.trainer_spec.ClearField("model_prefix")
    model.normalizer_spec.ClearField("normalization_rule_tsv")
    return model


def save(model, path):
    path.write_bytes(model.SerializeToString())


def dump(value, path):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


WORDS = [line for line in base.SENTENCES if line.isascii()]
OTHERS = [line for line in base.SENTENCES if not line.isascii()]


def marian(folder, kind="unigram", size=220, **options):
    """Two models, one vocabulary: pieces of either side, some of the source's left out, others that it does not know."""
    source, target = train(size, WORDS + OTHERS[:3], kind, **options), train(200, OTHERS, "unigram")
    pieces = [p.piece for model in (source, target) for p in model.pieces if p.type == 1]
    pieces = sorted(dict.fromkeys(pieces))
    random.Random(7).shuffle(pieces)
    dropped = set(pieces[5::23])
    tokens = ["</s>", "<unk>"] + [p for p in pieces if p not in dropped] + ["Ж", ">>ro<<", ">>de<<", "<pad>"]
    save(source, folder / "source.spm")
    save(target, folder / "target.spm")
    dump({token: n for n, token in enumerate(tokens)}, folder / "vocab.json")
    dump({"source_lang": "en", "target_lang": "ro", "model_max_length": 512, "tokenizer_class": "MarianTokenizer"},
         folder / "tokenizer_config.json")
    return transformers.MarianTokenizer.from_pretrained(folder)


def marian_bpe(folder):
    """The same with merges, byte fallback and a word that is always whole."""
    return marian(folder, "bpe", 480, byte_fallback=True, user_defined_symbols=["apples", "<tag>"])


def m2m_100(folder, kind="unigram", listed=True, **options):
    """A vocabulary of its own order, and a token for each of 100 languages behind it."""
    model = train(options.pop("size", 260), base.SENTENCES, kind, **options)
    pieces = [p.piece for p in model.pieces if p.type == 1]
    random.Random(3).shuffle(pieces)
    tokens = ["<s>", "<pad>", "</s>", "<unk>"] + pieces[:-9] + ["Ж", "x" * 4]
    save(model, folder / "sentencepiece.bpe.model")
    dump({token: n for n, token in enumerate(tokens)}, folder / "vocab.json")
    dump({"src_lang": None, "tgt_lang": None, "language_codes": "m2m100", "tokenizer_class": "M2M100Tokenizer"}, folder / "tokenizer_config.json")
    if listed:
        codes = transformers.models.m2m_100.tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
        special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>", "pad_token": "<pad>",
                   "additional_special_tokens": [f"__{code}__" for code in codes]}
        dump(special, folder / "special_tokens_map.json")
    return transformers.M2M100Tokenizer.from_pretrained(folder)


def m2m_100_bpe(folder):
    """The same with merges; spaces are kept as they are."""
    return m2m_100(folder, "bpe", remove_extra_whitespaces=False)


def alone(name, tokenizer, config=None, special=None, model_type=None, **options):
    """A case of a SentencePiece model under this name and nothing else but settings."""
    def made(folder):
        save(train(**{"size": 260, "sentences": base.SENTENCES, **options}), folder / name)
        if config is not None:
            dump(config, folder / "tokenizer_config.json")
        if special is not None:
            dump(special, folder / "special_tokens_map.json")
        if model_type is not None:
            dump({"model_type": model_type}, folder / "config.json")
            return transformers.AutoTokenizer.from_pretrained(folder)
        return getattr(transformers, tokenizer).from_pretrained(folder)
    return made


def merged(tokenizer, special, config, later=None, end="", **files):
    """A case of `vocab.json` with `merges.txt`: byte-level merges, with special tokens first."""
    def made(folder):
        trained = base.Tokenizer(base.models.BPE(end_of_word_suffix=end) if end else base.models.BPE())
        trained.pre_tokenizer = base.pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = base.pre_tokenizers.ByteLevel.alphabet()
        ends = [c + end for c in sorted(alphabet)] if end else []
        trained.train_from_iterator(base.SENTENCES, base.trainers.BpeTrainer(
            vocab_size=480 + len(ends), special_tokens=special + ends, initial_alphabet=alphabet, show_progress=False,
            **({"end_of_word_suffix": end} if end else {})))
        trained.model.save(str(folder))
        vocab = json.loads((folder / "vocab.json").read_text())
        dump(dict(sorted(vocab.items(), key=lambda item: item[1])), folder / "vocab.json")
        dump({**config, "tokenizer_class": tokenizer}, folder / "tokenizer_config.json")
        if later:
            dump({token: len(vocab) + n for n, token in enumerate(later)}, folder / "added_tokens.json")
        for name, value in files.items():
            dump(value, folder / f"{name}.json")
        return getattr(transformers, tokenizer).from_pretrained(folder)
    return made


def words(tokenizer, special, config=None, model_type=None, later=None, **files):
    """A case of `vocab.txt`: a token a line, special ones where older vocabularies have them, the mask last."""
    def made(folder):
        pieces = sorted(base.bert_pieces(True, None).get_vocab().items(), key=lambda item: item[1])
        lines = special[:-1] + [token for token, _ in pieces[5:]] + special[-1:]
        (folder / "vocab.txt").write_text("".join(token + "\n" for token in lines), encoding="utf-8")
        if later:
            dump({token: len(lines) + n for n, token in enumerate(later)}, folder / "added_tokens.json")
        if config is not None:
            dump(config, folder / "tokenizer_config.json")
        for name, value in files.items():
            dump(value, folder / f"{name}.json")
        if model_type is not None:
            dump({"model_type": model_type}, folder / "config.json")
            return transformers.AutoTokenizer.from_pretrained(folder)
        return getattr(transformers, tokenizer).from_pretrained(folder)
    return made


def nllb(folder):
    """Merges over words in `tokenizer.json`, with tokens of languages, of which one stands before a text."""
    with tempfile.TemporaryDirectory() as other:
        save(train(700, base.SENTENCES, "bpe"), Path(other) / "sentencepiece.bpe.model")
        codes = ["eng_Latn", "ron_Latn", "zho_Hans", "zho_Hant"]
        tokenizer = transformers.NllbTokenizer.from_pretrained(other, extra_special_tokens=codes)
        tokenizer.save_pretrained(folder)
    return transformers.NllbTokenizer.from_pretrained(folder)


T5 = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
DEBERTA = dict(pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]")
LLAMA = dict(kind="bpe", size=700, rules=False, byte_fallback=True, remove_extra_whitespaces=False)
GEMMA = dict(LLAMA, add_dummy_prefix=False, pad_id=0, eos_id=1, bos_id=2, unk_id=3, bos_piece="<bos>", eos_piece="<eos>",
             user_defined_symbols=["<mask>", "<start_of_turn>", "<end_of_turn>", "\n\n", "▁▁"])
FLAGS = dict(lstrip=True, rstrip=False, normalized=True, single_word=False)

MPNET = ["<s>", "<pad>", "</s>", "<unk>", "[CLS]", "[UNK]", "<mask>"]
WHISPER = ["<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>", "<|notimestamps|>"]

CASES = {
    "deberta-v2-spm": alone("spm.model", "DebertaV2Tokenizer", {"do_lower_case": True, "vocab_type": "spm"}, model_type="deberta-v2", **DEBERTA),
    "gemma-spm": alone("tokenizer.model", "GemmaTokenizer", {"add_bos_token": True, "tokenizer_class": "GemmaTokenizer"}, **GEMMA),
    "llama-legacy-spm": alone(
        "tokenizer.model", "LlamaTokenizer", {"add_bos_token": True, "add_eos_token": True, "legacy": True, "tokenizer_class": "LlamaTokenizer"},
        {"pad_token": "<pad>"}, user_defined_symbols=["apples", "<tag>"], control_symbols=["<ctl>"], **LLAMA),
    "llama-spm": alone("tokenizer.model", "LlamaTokenizer", {"add_bos_token": True, "legacy": False, "tokenizer_class": "LlamaTokenizer"}, **LLAMA),
    "mbart-spm": alone("sentencepiece.bpe.model", "MBartTokenizer", {"tokenizer_class": "MBartTokenizer"}),
    "mbart50-spm": alone("sentencepiece.bpe.model", "MBart50Tokenizer", {"tokenizer_class": "MBart50Tokenizer", "src_lang": "ro_RO"}),
    "mistral-spm": alone(
        "tokenizer.model", None, {"add_bos_token": True, "legacy": True, "tokenizer_class": "LlamaTokenizer"}, model_type="mistral", **LLAMA),
    "t5-spm": alone("spiece.model", "T5Tokenizer", {"extra_ids": 100, "tokenizer_class": "T5Tokenizer"}, **T5),
    "xlm-roberta-spm": alone(
        "sentencepiece.bpe.model", "XLMRobertaTokenizer",
        {"tokenizer_class": "XLMRobertaTokenizer", "mask_token": {"__type": "AddedToken", "content": "<mask>", **FLAGS}, "model_max_length": 512}),
    "bart-merges": merged("BartTokenizer", ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], {"add_prefix_space": True, "model_max_length": 1024}),
    "clip-merges": merged("CLIPTokenizer", ["<|startoftext|>", "<|endoftext|>"], {"model_max_length": 77}, end="</w>"),
    "gpt2-merges": merged("GPT2Tokenizer", ["<|endoftext|>"], {"model_max_length": 1024}, later=["<|new|>", "apples"]),
    "gpt_neox-merges": merged("GPTNeoXTokenizer", ["<|endoftext|>", "<|padding|>"], {"add_bos_token": True}),
    "electra-words": words(
        "BertTokenizer", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], {"do_lower_case": True}, model_type="electra",
        later=["apples", "[NEW]"], special_tokens_map={"mask_token": "[MASK]", "cls_token": "[SEP]", "sep_token": "[CLS]"}),
    "mpnet-words": words("MPNetTokenizer", MPNET, {"tokenizer_class": "MPNetTokenizer", "mask_token": "<mask>", "model_max_length": 512}),
    "mpnet-words-flags": words(
        "MPNetTokenizer", MPNET, {"do_lower_case": False, "tokenize_chinese_chars": False, "strip_accents": True}, model_type="mpnet",
        special_tokens_map={"mask_token": {"content": "<mask>", "lstrip": False, "rstrip": True, "normalized": False, "single_word": False},
                            "unk_token": "<unk>", "cls_token": "[CLS]", "sep_token": "</s>"}),
    "nllb": nllb,
    "qwen2-merges": merged(
        "Qwen2Tokenizer", [], {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "bos_token": None, "added_tokens_decoder": {
            str(n): {"content": token, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": n < 483}
            for n, token in enumerate(["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>"], 480)}}),
    "roberta-merges": merged(
        "RobertaTokenizer", ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], {"model_max_length": 512},
        special_tokens_map={"mask_token": {"content": "<mask>", **FLAGS}, "cls_token": "<s>"}),
    "whisper-merges": merged(
        "WhisperTokenizer", ["<|endoftext|>"], {"language": None, "task": None, "additional_special_tokens": WHISPER}, later=WHISPER),
    "marian": marian,
    "marian-bpe": marian_bpe,
    "m2m_100": m2m_100,
    "m2m_100-bpe": m2m_100_bpe,
}


def expected(tokenizer):
    ids = lambda *texts: tokenizer(*texts, truncation=False)["input_ids"]  # noqa: E731
    texts = [[text, ids(text)] for text in TEXTS]
    decoded = [tokenizer.decode(made, skip_special_tokens=True) for _, made in texts]
    made = {"texts": texts, "pairs": [[a, b, ids(a, b)] for a, b in base.PAIRS if b],  # an empty second text is none for the library
             "decoded": decoded}
    if isinstance(tokenizer, transformers.M2M100Tokenizer):
        made["languages"] = []
        for code in ["en", "ro", "zu", "af"]:
            tokenizer.src_lang = code
            made["languages"] += [[code, text, ids(text)] for text in TEXTS[6:9] + [""]]
    return made


def make(name, out):
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tokenizer = CASES[name](folder)
    base.write(folder / "expected.json", expected(tokenizer))
    size = sum(f.stat().st_size for f in folder.iterdir())
    assert size < LIMIT, f"{name}: {size} bytes"
    print(f"{name}: {type(tokenizer).__name__}, {len(tokenizer)} tokens, {size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--out", type=Path, default=HERE.parent / "tests" / "tokenizer-files")
    arguments = parser.parse_args()
    for name in arguments.names or CASES:
        make(name, arguments.out)


if __name__ == "__main__":
    main()
