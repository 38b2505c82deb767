#!/usr/bin/env python3
"""Makes the goldens of models that see and write: tiny random Qwen2-VL and Qwen2.5-VL, and what the library makes of
pictures with them.

    python scripts/make-vl-goldens.py [--out tests/goldens-vl] [NAME ...]

Needs what `make-goldens.py` needs, whose helpers it uses, `tokenizers`, `torchvision` and `pillow`; it is not part of the
tests. Each case becomes a Hugging Face folder with tokenizer, chat template and picture settings; beside its files lie

    wide.png, tall.png    pictures
    golden.safetensors    pixels.PICTURE        f32 [P, values]     prepared by the library
                          grid.PICTURE          i64 [2]             patches down and across
                          tower                 f32 [M, hidden]     what the tower makes of both, wide first
                          RUN.ids               i64 [S]             the whole prompt
                          RUN.logits            f32 [S, vocab]      of one forward pass
                          RUN.generated         i64 [N]             greedy tokens that the library goes on with
    golden.json           of each run the pictures, the messages and the text that was generated

Runs: `text` alone, `one` picture, `two` pictures with words between. Every parameter is random, in bf16, and stored so.
The seed of a case is the first for which the library's tokens vary and are clear choices, so that rounding cannot change
them. A case whose switch (`without`) is taken away must give other logits.
"""

import importlib.util
import json
import shutil
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("goldens", HERE / "make-goldens.py")
goldens = importlib.util.module_from_spec(spec)
spec.loader.exec_module(goldens)

import numpy as np  # noqa: E402
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402
from transformers import (  # noqa: E402
    AutoConfig, AutoModelForImageTextToText, PreTrainedTokenizerFast, Qwen2VLImageProcessorPil, Qwen2VLProcessor,
    Qwen2VLVideoProcessor)

TEXT = [
    "what is there in the picture and in the other one?", "describe the pictures of a cat and a dog in words",
    "user\nwhat is there?", "system\nBe brief.", "assistant\n"]
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
# As the files of these models have it, without the counting of pictures.
TEMPLATE = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system\nBe brief.<|im_end|>\n"
    "{% endif %}<|im_start|>{{ message['role'] }}\n{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n"
    "{% else %}{% for content in message['content'] %}{% if content['type'] == 'image' or 'image' in content or 'image_url' in content %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% elif content['type'] == 'video' or 'video' in content %}"
    "<|vision_start|><|video_pad|><|vision_end|>{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
NEW = 10
PICTURES = {"wide": (45, 27), "tall": (13, 22)}
PICTURE, WORDS = {"type": "image"}, lambda text: {"type": "text", "text": text}
RUNS = {
    "text": ([], "what is there?"),
    "one": (["wide"], [PICTURE, WORDS("what is there?")]),
    "two": (["wide", "tall"], [PICTURE, WORDS(" and "), PICTURE, WORDS("?")]),
}


def tokenizer():
    """Byte-level BPE with the marks of these models behind the words."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=90, show_progress=False))
    made.add_special_tokens([AddedToken(m, special=True, normalized=False) for m in MARKS])
    return made


MADE = tokenizer()
ID = {mark: MADE.token_to_id(mark) for mark in MARKS}
VOCAB = MADE.get_vocab_size() + 3  # tables are longer than vocabularies
MARK_IDS = dict(
    image_token_id=ID["<|image_pad|>"], video_token_id=ID["<|video_pad|>"],
    vision_start_token_id=ID["<|vision_start|>"], vision_end_token_id=ID["<|vision_end|>"])
SECTIONS = dict(rope_type="default", mrope_section=[1, 1, 2], rope_theta=5000.0)
TOKENS = dict(bos_token_id=ID["<|endoftext|>"], eos_token_id=ID["<|im_end|>"])
TOWER = dict(depth=2, num_heads=2, patch_size=4, temporal_patch_size=2, spatial_merge_size=2)
TEXT_PART = dict(
    vocab_size=VOCAB, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=3,
    num_key_value_heads=1, max_position_embeddings=512, rope_parameters=SECTIONS, **TOKENS)
QWEN2 = dict(TOWER, embed_dim=16, hidden_size=24, mlp_ratio=3)
# Windows of 2 × 2 merged patches, which cut pictures of 5 × 3 and 2 × 3 of them raggedly.
QWEN2_5 = dict(
    TOWER, hidden_size=16, out_hidden_size=24, intermediate_size=20, window_size=16, depth=3, fullatt_block_indexes=[1])


def flat(config):
    """The layout of the first published files: settings of the text at the top, `rope_scaling`, idle keys."""
    text, vision = config.pop("text_config"), config.pop("vision_config")
    rope = text.pop("rope_parameters")
    for key in ("layer_types", "model_type", "dtype", "pad_token_id"):
        text.pop(key, None)
    for key in ("rope_parameters", "initializer_range", "dtype"):
        vision.pop(key, None)
    kind = config["model_type"]
    vision.update(in_chans=3, spatial_patch_size=vision["patch_size"], model_type=kind)
    vision.pop("in_channels")
    return {
        **config, **text, "vision_config": vision, "torch_dtype": "bfloat16", "rope_theta": rope["rope_theta"],
        "rope_scaling": {"type": "mrope", "mrope_section": rope["mrope_section"]}, "vision_token_id": 3}


def case(kind, vision, *, text=None, without=None, layout=None, names=None, tied=False, **processor):
    return dict(kind=kind, vision=vision, text={**TEXT_PART, **(text or {})}, without=without, layout=layout, names=names,
                tied=tied, processor=processor, embed=0.5, sharp=0.0)


NEW_NAMES = {"visual.": "model.visual.", "model.": "model.language_model."}
CASES = {
    "qwen2_vl-plain": case(
        "qwen2_vl", QWEN2, tied=True, without=dict(vision=dict(hidden_act="silu")),
        size={"shortest_edge": 256, "longest_edge": 1024}),
    "qwen2_vl-old": case(
        "qwen2_vl", QWEN2, layout=flat, text=dict(rms_norm_eps=0.01, hidden_act="gelu"), without=dict(text=dict(rms_norm_eps=1e-5)),
        min_pixels=384, max_pixels=1024),
    "qwen2_5_vl-plain": case(
        "qwen2_5_vl", QWEN2_5, names=NEW_NAMES, without=dict(vision=dict(window_size=64)),
        size={"shortest_edge": 256, "longest_edge": 1024}),
    "qwen2_5_vl-old": case(
        "qwen2_5_vl", {**QWEN2_5, "fullatt_block_indexes": [0, 2]}, layout=flat, tied=True,
        text=dict(use_sliding_window=True, sliding_window=7, max_window_layers=1),
        without=dict(vision=dict(fullatt_block_indexes=[1])), min_pixels=256, max_pixels=1024),
}


def picture(seed, width, height):
    """Something between a photograph and noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    layers = []
    for _ in range(3):
        f, g, p = rng.uniform(0.02, 0.4, 3)
        layers.append(127 + 90 * np.sin(f * x + g * y + 6 * p) + rng.normal(0, 12, (height, width)))
    return Image.fromarray(np.clip(np.stack(layers, -1), 0, 255).astype(np.uint8), "RGB")


def load(folder):
    return AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def renamed(folder, names):
    """The tensors of a folder under the names that newer files have."""
    file = folder / "model.safetensors"
    tensors = {}
    for name, tensor in load_file(file).items():
        old = next((o for o in names if name.startswith(o)), None)
        tensors[name if old is None else names[old] + name[len(old):]] = tensor
    save_file(tensors, file, metadata={"format": "pt"})


def prompts(processor, pictures):
    """What the processor makes of the messages of each run."""
    made = {}
    for name, (of, content) in RUNS.items():
        text = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False)
        made[name] = processor(text=[text], images=[pictures[p] for p in of] or None, return_tensors="pt")
    return made


@torch.no_grad()
def forward(model, inputs):
    return model(**inputs, use_cache=False).logits[0].to(torch.float32)


@torch.no_grad()
def generate(model, inputs):
    """The tokens that follow, and how clear the choices of all were."""
    out = model.generate(
        **inputs, do_sample=False, max_new_tokens=NEW, return_dict_in_generate=True, output_logits=True)
    best = torch.stack([row[0] for row in out.logits]).topk(2).values
    return out.sequences[0, inputs["input_ids"].shape[1]:], (best[:, 0] - best[:, 1]).min().item()


def build(name, spec, seed, folder):
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    config = AutoConfig.for_model(
        spec["kind"], text_config=spec["text"], vision_config=spec["vision"], tie_word_embeddings=spec["tied"], **MARK_IDS)
    config._attn_implementation = "eager"
    model = AutoModelForImageTextToText.from_config(config).to(torch.float32).eval()
    with torch.no_grad():
        goldens.overwrite(model, generator, spec, torch.bfloat16)
        for key, tensor in model.state_dict().items():
            # Wide enough for positions and windows to matter.
            if "attn.qkv.weight" in key:
                tensor.mul_(2)
    shutil.rmtree(folder, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    saved = goldens.read(folder)
    if spec["layout"]:
        goldens.write(folder, spec["layout"](saved))
    if spec["names"]:
        renamed(folder, spec["names"])


def put_processor(folder, spec):
    words = PreTrainedTokenizerFast(
        tokenizer_object=MADE, eos_token="<|im_end|>", pad_token="<|endoftext|>", clean_up_tokenization_spaces=False)
    pictures = Qwen2VLImageProcessorPil(patch_size=4, **spec["processor"])
    words.save_pretrained(folder)
    pictures.save_pretrained(folder)
    old = {k: v for k, v in spec["processor"].items() if k.endswith("_pixels")}
    if old:
        file = folder / "preprocessor_config.json"
        saved = json.loads(file.read_text())
        saved.pop("size")
        file.write_text(json.dumps({**saved, **old}, indent=2) + "\n")
        (folder / "chat_template.json").write_text(json.dumps({"chat_template": TEMPLATE}) + "\n")
    else:
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    return Qwen2VLProcessor(
        image_processor=pictures, tokenizer=words, video_processor=Qwen2VLVideoProcessor(), chat_template=TEMPLATE)


def make(name, spec, out):
    folder = out / name
    pictures = {p: picture(zlib.crc32(p.encode()), *size) for p, size in PICTURES.items()}
    for seed in range(1000):
        build(name, spec, 1000 * zlib.crc32(name.encode()) % 2**31 + seed, folder)
        processor = put_processor(folder, spec)
        runs, model = prompts(processor, pictures), load(folder)
        made = {run: generate(model, inputs) for run, inputs in runs.items()}
        texts = [ids.tolist() for ids, _ in made.values()]
        varied = len({tuple(ids) for ids in texts}) == 3 and all(len(set(ids)) > 3 for ids in texts)
        # Words alone, but for an end; ids without a token are never chosen.
        words = varied and all(max(ids[:-1]) < ID[MARKS[0]] and ids[-1] <= ID["<|im_end|>"] for ids in texts)
        if words and all(clear > 0.02 for _, clear in made.values()):
            break
    tensors, notes = {}, []
    for p, image in pictures.items():
        image.save(folder / f"{p}.png")
        seen = processor.image_processor(images=[image], return_tensors="pt")
        tensors[f"pixels.{p}"], tensors[f"grid.{p}"] = seen["pixel_values"], seen["image_grid_thw"][0, 1:].clone()
    both = runs["two"]
    with torch.no_grad():
        tensors["tower"] = torch.cat(list(model.get_image_features(both["pixel_values"], both["image_grid_thw"]).pooler_output))
    for run, inputs in runs.items():
        tensors[f"{run}.ids"] = inputs["input_ids"][0]
        tensors[f"{run}.logits"] = forward(model, inputs)
        tensors[f"{run}.generated"] = made[run][0]
        notes.append({
            "run": run, "pictures": RUNS[run][0], "content": RUNS[run][1],
            "text": processor.tokenizer.decode(made[run][0], skip_special_tokens=True)})
    saved = goldens.read(folder)
    changed = json.loads(json.dumps(saved))
    for part, change in spec["without"].items():
        changed.get(f"{part}_config", changed).update(change)
    goldens.write(folder, changed)
    change = (forward(load(folder), runs["two"]) - tensors["two.logits"]).abs().max().item()
    goldens.write(folder, saved)
    assert change > 1e-2, f"{name}: the switch changes the logits by {change} only"
    (folder / "golden.json").write_text(json.dumps(notes, indent=1) + "\n")
    size = goldens.store(folder, {k: v.contiguous() for k, v in tensors.items()})
    clear = min(clear for _, clear in made.values())
    print(f"{name}: {size} bytes, seed {seed}, choices clear by {clear:.3f}, without the switch {change:.3f}", flush=True)
    for note in notes:
        print("   ", note["run"], repr(note["text"]))


if __name__ == "__main__":
    goldens.run(__doc__, "goldens-vl", CASES, make)
