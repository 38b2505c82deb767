#!/usr/bin/env python3
"""Makes the tokenizers on which reading and encoding of text are tested.

    python scripts/make-tokenizers.py [--out tests/tokenizers] [NAME ...]

Needs `tokenizers`, `transformers` (5.24 made the committed ones) and `sentencepiece`; it is not part of the
tests. Without a NAME it makes every case of `CASES`.

Each case becomes a folder with the files of a tokenizer as models bring them, and `expected.json`, what the
reference makes of awkward texts:

    texts       pairs of a text and its ids, those around it included
    pairs       two texts, their ids and their types
    cut         two texts (the second null for one alone), a length, the ids and how many were left out
    decoded     the text that the ids of each text give, special tokens left out
    bare        a text with the ids for which texts of special tokens are plain text

The tokenizers are trained here on the sentences of `SENTENCES`, which leaves many characters unknown, so that
byte fallback and tokens for the unknown occur.
"""

import argparse
import json
import re
import shutil
import string
import tempfile
from pathlib import Path

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SENTENCES = [
    "The quick brown fox jumps over the lazy dog, and the dog doesn't mind.",
    "A model reads words; words become numbers, and numbers become vectors.",
    "Who's there? It's me - I'd like 12 apples, 3.50 each, please!",
    "Die schnelle braune Füchsin springt über den faulen Hund und läuft weiter.",
    "Le garçon a mangé une crème brûlée près de la fenêtre d'été.",
    "Быстрая лиса прыгает через ленивую собаку и бежит дальше.",
    "El niño comió piñas y bebió café con leche en la mañana.",
    "日本語の文章は単語の間に空白がありません。",
    "我们今天去公园散步,然后回家吃饭。",
    "Größe, Maß und Straße: naïve coöperation of façades.",
    "unbelievable unhappiness, tokenization, tokenizers, retokenizing, misunderstanding",
    "email: someone@example.com, https://example.com/a?b=c&d=e#f",
    "He said \"hello\" (twice) and left; she stayed [for a while].",
    "0123456789 10 100 1000 10,000 1e6 0x1F 50% $5 #1 @2 ~3 ^4 *5 +6 =7 |8 <9 >",
    "  two  spaces   three spaces\tand a tab\nand a line",
] * 3

# Every kind of space, script, joiner, control character and markup.
AWKWARD = [
    "", " ", "   ", "\t\n\r\n", "a", "A", "Hello, world!", "hello  world ", " leading and trailing ", "don't WON'T Can't",
    "naïve café, Ångström ÅNGSTRÖM", "e\u0301te\u0301 ñ n\u0303", "\u0301alone", "ﬁne ﬂow ½ ² ™ Ⅷ", "ＦＵＬＬ　ｗｉｄｔｈ",
    "日本語のテキスト", "我们今天", "中文mixed英文 text", "한국어 텍스트", "Привет, мир!", "שָׁלוֹם עולם", "مرحبا بالعالم", "हिन्दी ไทย",
    "😀 emoji 👩‍👩‍👧‍👦 🇫🇷 ❤️", "zero\u200bwidth\u200djoin\ufeff", "soft\u00adhyphen", "nul\u0000byte \u0007bell \u007fdel \u0085nel",
    "\ufffd replaced \U0010ffff", "line\nbreak\r\nand\u2028separators\u2029end", "no\u00a0break\u3000ideographic\u2003em",
    "x" * 99, "x" * 100, "x" * 101, "supercalifragilisticexpialidocious", "unbelievably misunderstood tokenizers",
    "a.b,c;d:e!f?g", "$5.00 + 3% = <tag> [MASK] {x} ~ ^ | \\ `code` ``quoted''", "http://a.b/c?d=e&f#g", "12345 1,234.5 ٣٤",
    "[CLS] the [SEP] dog [MASK] [UNK] [PAD]", "<s> the </s> dog <mask> <unk> <pad>", "the<mask>dog", "the <mask> dog", "▁the ▁▁dog",
    "<0x41> <0xFF>", "İstanbul ıI ſß ẞ ǅ", "\u1112\u1161\u11ab 한", "a\u0300\u0316\u0327b", "  [MASK]  ", "[MASK][MASK]", "the\tdog\nran",
]
PAIRS = [("the dog", "the fox"), ("", "x"), ("a", ""), ("Who's there?", "It's me, 12 apples."), ("日本語", "café ÅÅ 😀")]
LONG = "the quick brown fox jumps over the lazy dog"


def bert_pieces(lowercase, accents):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=accents)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(SENTENCES, trainers.WordPieceTrainer(vocab_size=420, special_tokens=special, show_progress=False))
    tokenizer.decoder = decoders.WordPiece(cleanup=lowercase)
    return tokenizer


def wordpiece_uncased(folder):
    """bert: null accents follow the lower case; a template; the length of the config."""
    tokenizer = bert_pieces(True, None)
    cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", cls), ("[SEP]", sep)])
    config = {"cls_token": "[CLS]", "mask_token": "[MASK]", "pad_token": "[PAD]", "sep_token": "[SEP]",
              "unk_token": "[UNK]", "model_max_length": 64}
    return tokenizer, config


def wordpiece_cased(folder):
    """bert-cased: nothing is lowered, accents stay; the older post-processor."""
    tokenizer = bert_pieces(False, None)
    cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", sep), ("[CLS]", cls))
    return tokenizer, {"mask_token": {"content": "[MASK]"}, "pad_token": "[PAD]", "model_max_length": int(1e30)}


def wordpiece_vocab_txt(folder):
    """A folder from before tokenizer.json: one token a line, and the flags of the config."""
    pieces = bert_pieces(True, None)
    tokens = sorted(pieces.get_vocab().items(), key=lambda item: item[1])
    (folder / "vocab.txt").write_text("".join(token + "\n" for token, _ in tokens), encoding="utf-8")
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "strip_accents": False, "tokenize_chinese_chars": True,
              "model_max_length": 32}
    from transformers import BertTokenizerFast

    reference = BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=True, strip_accents=False)
    return reference.backend_tokenizer, config


def charsmap(rules):
    """SentencePiece's map of some rules: it compiles those of the model that it trains."""
    with tempfile.TemporaryDirectory() as folder:
        lines = "".join(f"{' '.join(f'{ord(c):X}' for c in a)}\t{' '.join(f'{ord(c):X}' for c in b)}\n" for a, b in rules)
        (Path(folder) / "rules.tsv").write_text(lines, encoding="utf-8")
        (Path(folder) / "text").write_text("\n".join(SENTENCES), encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input=f"{folder}/text", model_prefix=f"{folder}/m", vocab_size=150, hard_vocab_limit=False,
            normalization_rule_tsv=f"{folder}/rules.tsv", minloglevel=2)
        from sentencepiece import sentencepiece_model_pb2 as pb

        model = pb.ModelProto()
        model.ParseFromString((Path(folder) / "m.model").read_bytes())
        return model.normalizer_spec.precompiled_charsmap


RULES = [("ﬁ", "fi"), ("ﬂ", "fl"), ("½", "1⁄2"), ("²", "2"), ("™", "TM"), ("Ⅷ", "VIII"), ("\u3000", " "), ("\u00a0", " "),
         ("\t", " "), ("\n", " "), ("\r", " "), ("\u2028", " "), ("\u200b", " "), ("\ufeff", ""), ("\u0007", ""), ("\u007f", ""), ("\u00ad", ""),
         ("e\u0301", "é"), ("n\u0303", "ñ"), ("\u1112\u1161\u11ab", "한"), ("…", "..."), ("İ", "i\u0307")] + [
             (chr(0xFF01 + i), chr(0x21 + i)) for i in range(94)]


def unigram(special, normalizer, pre, size, byte_fallback):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre
    tokenizer.train_from_iterator(
        SENTENCES, trainers.UnigramTrainer(vocab_size=size, special_tokens=special, unk_token="<unk>", show_progress=False))
    # Bytes are no tokens of the trainer: they are put behind its own, as SentencePiece would score them.
    state = json.loads(tokenizer.to_str())
    model = state["model"]
    if byte_fallback:
        model["vocab"] += [[f"<0x{byte:02X}>", 0.0] for byte in range(256)]
        model["byte_fallback"] = True
    return state


def unigram_xlmr(folder):
    """xlm-roberta: a character map, words at white space, <s> A </s></s> B </s>, a mask that takes spaces along."""
    normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap(RULES)), normalizers.Strip(left=False, right=True),
                                       normalizers.Replace(Regex(" {2,}"), "▁")])
    pre = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    state = unigram(["<s>", "<pad>", "</s>", "<unk>"], normalizer, pre, 350, False)
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer, {"mask_token": "<mask>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "model_max_length": 20}


def unigram_t5(folder):
    """t5: byte fallback, a space before the first stretch alone, A </s> B </s>."""
    normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    state = unigram(["<pad>", "</s>", "<unk>"], normalizer, pre_tokenizers.Metaspace(prepend_scheme="first"), 300, True)
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.add_special_tokens([AddedToken("<extra_id_0>", lstrip=True, rstrip=True)])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer, {"pad_token": "<pad>", "eos_token": "</s>"}


def unigram_siglip(folder):
    """siglip: lower case, no punctuation of ASCII, a space before text, A </s>; the end fills up, too."""
    normalizer = normalizers.Sequence([
        normalizers.Lowercase(), normalizers.Replace(Regex("[" + re.escape(string.punctuation) + "]"), ""),
        normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()])
    state = unigram(["<unk>", "</s>"], normalizer, pre_tokenizers.Metaspace(), 220, False)
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer, {"pad_token": "</s>", "eos_token": "</s>", "unk_token": "<unk>", "model_max_length": 64}


def bpe_roberta(folder):
    """roberta: bytes, a space before text, two </s> between two texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    special = ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(SENTENCES, trainers.BpeTrainer(
        vocab_size=420, special_tokens=special, initial_alphabet=alphabet, show_progress=False))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, {"mask_token": {"content": "<mask>", "lstrip": True}, "pad_token": "<pad>", "bos_token": "<s>",
                       "eos_token": "</s>", "model_max_length": 16}


def bpe_first(folder):
    """llama without `legacy`: SentencePiece-type merges, a space before the first stretch alone."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.train_from_iterator(
        [word for line in SENTENCES for word in line.split()],
        trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>", "<s>", "</s>", *bytes_], show_progress=False))
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if not token["content"].startswith("<0x")]
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer, {"bos_token": "<s>", "eos_token": "</s>"}


def bpe_clip(folder):
    """clip: lower case, words without white space, the last byte of a word marked."""
    tokenizer = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(SENTENCES, trainers.BpeTrainer(
        vocab_size=700, special_tokens=["<|startoftext|>", "<|endoftext|>", *(c + "</w>" for c in sorted(alphabet))],
        initial_alphabet=alphabet, end_of_word_suffix="</w>", show_progress=False))
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = state["added_tokens"][:2]
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.post_processor = processors.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0), trim_offsets=False, add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "model_max_length": 77}


CASES = {
    "wordpiece-uncased": wordpiece_uncased,
    "wordpiece-cased": wordpiece_cased,
    "wordpiece-vocab-txt": wordpiece_vocab_txt,
    "unigram-xlmr": unigram_xlmr,
    "unigram-siglip": unigram_siglip,
    "unigram-t5": unigram_t5,
    "bpe-roberta": bpe_roberta,
    "bpe-first": bpe_first,
    "bpe-clip": bpe_clip,
}
LIMIT = 60_000  # bytes of one folder


def cut(tokenizer, first, second, length):
    whole = tokenizer.encode(first, second) if second is not None else tokenizer.encode(first)
    tokenizer.enable_truncation(length)
    short = tokenizer.encode(first, second) if second is not None else tokenizer.encode(first)
    tokenizer.no_truncation()
    return [first, second, length, short.ids, len(whole.ids) - len(short.ids)]


def expected(tokenizer):
    texts = [[text, tokenizer.encode(text).ids] for text in AWKWARD]
    pairs = [[a, b, e.ids, e.type_ids] for a, b in PAIRS for e in [tokenizer.encode(a, b)]]
    lengths = [(LONG, None, 9), (LONG, None, 4), (LONG, "a dog", 12), ("a dog", LONG, 12), (LONG, LONG, 15), (LONG, LONG, 16)]
    decoded = [tokenizer.decode(ids, skip_special_tokens=True) for _, ids in texts]
    if getattr(tokenizer.model, "end_of_word_suffix", None):  # as transformers does
        decoded = [text.replace("</w>", " ").strip() for text in decoded]
    tokenizer.encode_special_tokens = True
    marked = "the [SEP] dog [MASK]" if tokenizer.token_to_id("[SEP]") is not None else "the </s> dog <mask>"
    bare = [marked, tokenizer.encode(marked, add_special_tokens=False).ids]
    tokenizer.encode_special_tokens = False
    return {"texts": texts, "pairs": pairs, "cut": [cut(tokenizer, *case) for case in lengths], "decoded": decoded, "bare": bare}


def write(path, value):
    # One line for each of the first two levels: small, and differences can be read.
    lines = []
    for key, entries in value.items():
        rows = ",\n".join("  " + json.dumps(entry, ensure_ascii=True, separators=(",", ":")) for entry in entries)
        lines.append(f"{json.dumps(key)}: [\n{rows}\n]")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def make(name, out):
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tokenizer, config = CASES[name](folder)
    if not (folder / "vocab.txt").exists():
        state = json.loads(tokenizer.to_str())
        (folder / "tokenizer.json").write_text(json.dumps(state, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    made = expected(tokenizer)
    unknown = sum(tokenizer.token_to_id(unk) in ids for _, ids in made["texts"] for unk in ["[UNK]", "<unk>"])
    write(folder / "expected.json", made)
    size = sum(f.stat().st_size for f in folder.iterdir())
    assert size < LIMIT, f"{name}: {size} bytes"
    print(f"{name}: {tokenizer.get_vocab_size()} tokens, {unknown} texts with unknown ones, {size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "tests" / "tokenizers")
    arguments = parser.parse_args()
    for name in arguments.names or CASES:
        make(name, arguments.out)


if __name__ == "__main__":
    main()
