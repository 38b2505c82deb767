#!/usr/bin/env python3
"""Makes the goldens of speech: tiny random models of the type whisper, and what the library hears with them.

    python scripts/make-speech-goldens.py [--out tests/goldens-speech] [NAME ...]

Needs what `make-goldens.py` needs, whose helpers it uses, and `tokenizers`. The sounds in `sounds/` are made by
`make-sounds.py` and read here. Each case becomes a Hugging Face folder with a tokenizer; beside its files lie

    golden.safetensors    features.SOUND        f32 [mels, frames]   of the library's feature extractor
                          decoder_input_ids     i64 [S]              a text so far
                          logits                f32 [S, vocab]       after the first sound
    golden.json           a list of runs of `generate`: which sound, what was asked for, and the language, the text and the
                          segments with their times and tokens that came out

A window is a second long here instead of thirty. Every parameter and buffer is random. The seed of a case is the first
whose runs show all that `wanted` asks for, so that no rule is there without being used.
"""

import importlib.util
import json
import shutil
import sys
import wave
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("goldens", HERE / "make-goldens.py")
goldens = importlib.util.module_from_spec(spec)
spec.loader.exec_module(goldens)

import numpy as np  # noqa: E402
import torch  # noqa: E402
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers  # noqa: E402
from transformers import (  # noqa: E402
    GenerationConfig, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration)

RATE, SECONDS, STEP = 16_000, 1, 0.02
TIMES = int(SECONDS / STEP) + 1
TEXT = "the quick brown fox jumps over the lazy dog and then the other fox says that it is done with all of this"
MARKS = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|fr|>", "<|translate|>", "<|transcribe|>",
         "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]


def tokenizer():
    """Byte-level BPE with whisper's marks and times behind the words, begun as whisper's own files begin texts."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator([TEXT], trainers.BpeTrainer(
        vocab_size=290, initial_alphabet=alphabet, show_progress=False))
    made.add_special_tokens(MARKS)
    made.add_tokens([AddedToken(f"<|{i * STEP:.2f}|>", special=False, normalized=False) for i in range(TIMES)])
    begin = ["<|startoftranscript|>", "<|notimestamps|>"]
    made.post_processor = processors.TemplateProcessing(
        single=" ".join(begin) + " $A <|endoftext|>", pair=None,
        special_tokens=[(t, made.token_to_id(t)) for t in [*begin, "<|endoftext|>"]])
    return made


WORDS = tokenizer()
ID = {mark: WORDS.token_to_id(mark) for mark in MARKS}
END, FIRST = ID["<|endoftext|>"], ID["<|notimestamps|>"] + 1
SMALL = dict(
    vocab_size=WORDS.get_vocab_size(), num_mel_bins=80, d_model=16, encoder_layers=1, decoder_layers=2,
    encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24,
    max_source_positions=50 * SECONDS, max_target_positions=32, pad_token_id=END, bos_token_id=END, eos_token_id=END,
    decoder_start_token_id=ID["<|startoftranscript|>"],
)
# Marks, as whisper has them; `begin`: neither an end nor a space first.
SUPPRESS = dict(suppress_tokens=[ID[m] for m in MARKS[1:10]], begin_suppress_tokens=[WORDS.token_to_id("Ġ"), END])
LANGUAGES = dict(
    is_multilingual=True, lang_to_id={m: ID[m] for m in MARKS[2:5]},
    task_to_id={"transcribe": ID["<|transcribe|>"], "translate": ID["<|translate|>"]})
GENERATION = dict(
    max_length=SMALL["max_target_positions"], no_timestamps_token_id=FIRST - 1, max_initial_timestamp_index=25,
    return_timestamps=False, pad_token_id=END, bos_token_id=END, eos_token_id=END,
    decoder_start_token_id=ID["<|startoftranscript|>"], **SUPPRESS)


def run(sound, language=None, task=None, timestamps=None):
    return dict(sound=sound, language=language, task=task, timestamps=timestamps)


CASES = {
    "multilingual": dict(
        config={}, generation={**GENERATION, **LANGUAGES},
        runs=[
            run("short", language="german"), run("short"), run("noise"), run("short", task="translate"),
            run("short", language="<|fr|>", timestamps=True), run("noise", timestamps=True), run("silence"),
            run("long", language="en", timestamps=True), run("long", task="translate", timestamps=True)],
        wanted=["two languages", "four windows", "pair", "single", "ends early", "no pair"]),
    # As the first files were: pairs in place of languages, of which the first is to be found out.
    "multilingual-old": dict(
        config=dict(num_mel_bins=16, activation_function="relu"),
        generation={**GENERATION, **LANGUAGES, "forced_decoder_ids": [[1, None], [2, ID["<|transcribe|>"]]]},
        runs=[run("short"), run("noise", timestamps=True), run("short", language="fr"), run("long", timestamps=True)],
        wanted=["four windows", "pair"]),
    # What the first run would begin with is among what no text begins with.
    "english": dict(
        not_first=True,
        config=dict(num_mel_bins=128, encoder_layers=2, decoder_layers=1, scale_embedding=True),
        generation={**GENERATION, "is_multilingual": False, "forced_decoder_ids": [[1, FIRST - 1]],
                    "max_initial_timestamp_index": 1},
        runs=[run("short"), run("noise", timestamps=True), run("long", timestamps=True)],
        wanted=["four windows", "pair"]),
}


def sound(out, name):
    """Samples of one of the sounds."""
    with wave.open(str(out / "sounds" / f"{name}.wav")) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE, 1, 2), name
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768


def features(samples, mels):
    """`[mels, frames]`: a short sound filled up to a window, a long one whole."""
    extractor = WhisperFeatureExtractor(feature_size=mels, chunk_length=SECONDS)
    how = dict(padding="max_length") if len(samples) <= RATE * SECONDS else dict(padding="longest", truncation=False)
    made = extractor(samples, sampling_rate=RATE, return_tensors="pt", **how)
    return made.input_features[0]


def randomise(model, generator):
    with torch.no_grad():
        goldens.overwrite(model, generator, dict(kind="whisper", embed=0.6, sharp=0.0), None)
        state = model.state_dict()
        for name, tensor in state.items():
            # What is heard and where a token stands weigh as much as the token before.
            if "encoder_attn.out_proj.weight" in name or "decoder.embed_positions" in name:
                tensor.mul_(4)
            # An end is likelier than a word, and times together are not always.
            if name == "model.decoder.embed_tokens.weight":
                tensor[END] = torch.round(tensor[END] * 1.3 * 65536) / 65536
                tensor[FIRST:] = torch.round(tensor[FIRST:] * 0.7 * 65536) / 65536


@torch.no_grad()
def generate(model, samples, asked):
    config = model.config
    given = features(samples, config.num_mel_bins)[None]
    long = given.shape[-1] > 2 * config.max_source_positions
    how = dict(language=asked["language"], task=asked["task"], return_timestamps=asked["timestamps"])
    if long:
        how["return_timestamps"] = True
    made = model.generate(given, return_segments=True, **{k: v for k, v in how.items() if v is not None})
    heard = None
    if hasattr(model.generation_config, "lang_to_id"):
        heard = {v: k for k, v in model.generation_config.lang_to_id.items()}
        if asked["language"] is None:
            heard = heard[int(model.detect_language(given, num_segment_frames=2 * config.max_source_positions)[0])]
        else:
            heard = f"<|{dict(german='de').get(asked['language'], asked['language'].strip('<|>'))}|>"
    segments = [dict(start=float(s["start"]), end=float(s["end"]), tokens=s["tokens"].tolist()) for s in made["segments"][0]]
    tokens = [t for s in segments for t in s["tokens"]]
    assert tokens == made["sequences"][0].tolist()
    text = WORDS.decode([t for t in tokens if t < FIRST], skip_special_tokens=True)
    return dict(**asked, heard=heard and heard.strip("<|>"), text=text, segments=segments)


def shows(results):
    """What the runs have in them."""
    found = set()
    if len({r["heard"] for r in results if r["language"] is None}) > 1:
        found.add("two languages")
    for r in results:
        ends = [s["tokens"][-2:] for s in r["segments"] if len(s["tokens"]) > 1]
        times = [[t >= FIRST for t in e] for e in ends]
        if r["sound"] == "long":
            if len(r["segments"]) >= 4 and len(r["text"]) > 8:
                found.add("four windows")
            if [True, True] in times:
                found.add("pair")
            if any(s["tokens"] and s["tokens"][-1] >= FIRST and t != [True, True]
                   for s, t in zip([s for s in r["segments"] if len(s["tokens"]) > 1], times)):
                found.add("single")
            if [False, False] in times:
                found.add("no pair")
        if any(len(s["tokens"]) < 20 for s in r["segments"][:1]):
            found.add("ends early")
    return found


def make(name, case, out):
    seed = zlib.crc32(name.encode())
    folder = out / name
    for attempt in range(400):
        generator = torch.Generator().manual_seed(seed + attempt)
        torch.manual_seed(seed + attempt)
        config = WhisperConfig(**{**SMALL, **case["config"]})
        config._attn_implementation = "eager"
        model = WhisperForConditionalGeneration(config).to(torch.float32).eval()
        randomise(model, generator)
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder)
        (folder / "generation_config.json").write_text(json.dumps(case["generation"], indent=1) + "\n")
        model = WhisperForConditionalGeneration.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager").eval()
        if case.get("not_first"):
            asked = case["runs"][0]
            first = generate(model, sound(out, asked["sound"]), asked)["segments"][0]["tokens"][0]
            without = [*case["generation"]["begin_suppress_tokens"], first]
            text = json.dumps({**case["generation"], "begin_suppress_tokens": without}, indent=1)
            (folder / "generation_config.json").write_text(text + "\n")
            model = WhisperForConditionalGeneration.from_pretrained(
                folder, dtype=torch.float32, attn_implementation="eager").eval()
            assert generate(model, sound(out, asked["sound"]), asked)["segments"][0]["tokens"][0] != first
        results = [generate(model, sound(out, r["sound"]), r) for r in case["runs"]]
        missing = set(case["wanted"]) - shows(results)
        if not missing:
            break
    else:
        sys.exit(f"{name}: no seed shows {missing}")
    WORDS.save(str(folder / "tokenizer.json"))
    names = dict.fromkeys(r["sound"] for r in case["runs"])
    made = {f"features.{n}": features(sound(out, n), config.num_mel_bins) for n in names if n != "long"}
    ids = torch.randint(0, config.vocab_size, (20,), generator=generator)
    first = made[f"features.{case['runs'][0]['sound']}"]
    with torch.no_grad():
        logits = model(input_features=first[None], decoder_input_ids=ids[None], use_cache=False).logits[0]
        other = model(input_features=torch.zeros_like(first)[None], decoder_input_ids=ids[None]).logits[0]
    change = (logits - other).abs().max().item()
    assert change > 0.1, f"{name}: the sound changes the logits by {change} only"
    made.update(decoder_input_ids=ids, logits=logits)
    # Floats as short as they are exact.
    (folder / "golden.json").write_text(json.dumps(results, separators=(",", ":")).replace("},{\"sound", "},\n{\"sound") + "\n")
    size = goldens.store(folder, {k: v.contiguous() for k, v in made.items()})
    print(f"{name}: {size} bytes, seed +{attempt}, the sound changes logits by {change:.2f}", flush=True)
    for r in results:
        print("   ", {k: v for k, v in r.items() if k != "segments"}, [(s["start"], s["end"], len(s["tokens"])) for s in r["segments"]])


if __name__ == "__main__":
    goldens.run(__doc__, "goldens-speech", CASES, make)
