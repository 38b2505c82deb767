#!/usr/bin/env python3
"""Makes the goldens of pictures: tiny random models with what the reference makes of pixels, and of pictures in files.

    python scripts/make-vision-goldens.py [--out tests/goldens-vision] [NAME ...]

Needs what `make-goldens.py` needs, `torchvision`, `pillow`, and for the tokenizers what `make-tokenizers.py` needs; it
is not part of the tests. Without a NAME it makes every case of `CASES`. The same seed gives the same files.

Each case becomes a folder that any importer reads as a model: `config.json`, `model.safetensors`, and where a case has
a processor `preprocessor_config.json`. Beside them lies `golden.safetensors`:

    pixel_values         f32 [N, 3, H, W]   what goes in
    input_ids            i64 [S]            texts, one after another
    starts               i64 [B]            the first token of each
    last_hidden_state    f32 [N, T, D]      outputs: each that the model has, texts one after another
    pooler_output        f32 [N, D]
    logits               f32 [N, labels]
    image_embeds         f32 [N, D]         of a pair of towers, of the length 1; also text_embeds [B, D]
    logits_per_image     f32 [N, B]
    probabilities        f32 [N, B]

With a processor there is `picture.png`, and `picture.NAME` is the output NAME of the reference for it, prepared by
the reference's processor. With a tokenizer `texts.json` lists texts, and `texts.NAME` is the output NAME for them.

Every parameter and stored buffer is overwritten by random values, each a multiple of 1/65536. Before a folder is
written: it must reload to the very same outputs, each picture and text alone must give what it gives beside others, and
where a case names the switch it proves (`without`), the outputs without that switch must differ.
"""

import importlib.util
import json
import shutil
import tempfile
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent


def beside(name):
    """Another script of this folder as a module."""
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


goldens, pictures, tokenizers = map(
    beside, ["make-goldens", "make-picture-goldens", "make-tokenizers"])

import torch  # noqa: E402
import transformers  # noqa: E402
from PIL import Image  # noqa: E402

DROP = goldens.DROP
LABELS = {0: "tabby cat", 1: "goldfinch", 2: "teapot", 3: "otter", 4: "go-kart"}
TEXTS = ["A photo of a dog.", "the quick brown fox", "Numbers become vectors, and words numbers."]
VIT = dict(hidden_size=18, num_hidden_layers=2, num_attention_heads=3, intermediate_size=26, image_size=24, patch_size=8)
DINO = dict(hidden_size=18, num_hidden_layers=2, num_attention_heads=3, mlp_ratio=2, image_size=28, patch_size=4)
PAIR_VISION = dict(
    hidden_size=18, num_hidden_layers=2, num_attention_heads=3, intermediate_size=26, image_size=24, patch_size=8)
PAIR_TEXT = dict(
    hidden_size=12, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20, vocab_size=96,
    max_position_embeddings=20)
NET = dict(depths=[1, 2], hidden_sizes=[12, 20])


def case(model, config, settings, *, size=None, without=None, bare=(), processor=None, tokenizer=None,
         lengths=(), end=None, vision=None, text=None, extra=None, drop=(), twin=None):
    """One golden of the class `model` with its class of config. `size`: height and width of the pixels; `without`: keys
    that, put in place of the saved ones, must change the outputs (`vision.x` inside the picture tower); `bare`: keys to
    take out of the saved config, to prove what their absence means; `lengths`: of texts; `end`: the id that stands at
    their end; `vision`, `text`: settings of towers; `drop`: keys to take out of the saved processor; `twin`:
    (folder, function of the config), the same outputs from another config."""
    return dict(model=model, config=config, settings=settings, size=size, without=without, bare=bare, extra=extra or {},
                processor=processor, tokenizer=tokenizer, lengths=lengths, end=end, vision=vision, text=text, drop=drop, twin=twin)


def square(side):
    return {"height": side, "width": side}


def labels(**settings):
    return dict(settings, id2label=LABELS, label2id={name: number for number, name in LABELS.items()})


def older_settings(config):
    """As the first files of clip write their config: every setting of every class, and tables that say them again."""
    common = {
        "_name_or_path": "", "add_cross_attention": False, "architectures": None, "bad_words_ids": None,
        "chunk_size_feed_forward": 0, "cross_attention_hidden_size": None, "decoder_start_token_id": None,
        "diversity_penalty": 0.0, "do_sample": False, "dropout": 0.0, "early_stopping": False,
        "encoder_no_repeat_ngram_size": 0, "exponential_decay_length_penalty": None, "finetuning_task": None,
        "forced_bos_token_id": None, "forced_eos_token_id": None, "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
        "is_decoder": False, "is_encoder_decoder": False, "label2id": {"LABEL_0": 0, "LABEL_1": 1}, "length_penalty": 1.0,
        "max_length": 20, "min_length": 0, "no_repeat_ngram_size": 0, "num_beam_groups": 1, "num_beams": 1,
        "num_return_sequences": 1, "output_attentions": False, "output_hidden_states": False, "output_scores": False,
        "prefix": None, "problem_type": None, "pruned_heads": {}, "remove_invalid_values": False,
        "repetition_penalty": 1.0, "return_dict": True, "return_dict_in_generate": False, "sep_token_id": None,
        "task_specific_params": None, "temperature": 1.0, "tie_encoder_decoder": False, "tie_word_embeddings": True,
        "tokenizer_class": None, "top_k": 50, "top_p": 1.0, "torch_dtype": None, "torchscript": False,
        "transformers_version": "4.21.3", "typical_p": 1.0, "use_bfloat16": False,
    }
    vision = {**common, **config["vision_config"], "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    text = {**common, **config["text_config"]}
    # Beside the table that counts one that says less, and something wrong.
    replaced = {"hidden_size": 64, "num_hidden_layers": 1, "model_type": "clip_vision_model"}
    return {**config, "text_config": text, "text_config_dict": None, "vision_config": replaced, "vision_config_dict": vision}


CASES = {
    # vit
    "vit-base": case(
        "ViTModel", "ViTConfig", {**VIT, "hidden_act": "gelu_new", "pooler_act": "relu", "pooler_output_size": 14},
        without=dict(hidden_act="relu")),
    "vit-labels": case(
        "ViTForImageClassification", "ViTConfig", labels(**VIT), processor=("ViTImageProcessor", dict(size=square(24))),
        without=dict(layer_norm_eps=0.1)),
    "vit-plain": case(
        "ViTForImageClassification", "ViTConfig",
        labels(**{**VIT, "qkv_bias": False, "image_size": [24, 16], "patch_size": [8, 4]}), size=(24, 16)),
    "vit-bare": case(
        "ViTModel", "ViTConfig",
        {**VIT, "hidden_size": 24, "num_attention_heads": 12, "num_hidden_layers": 1},
        bare=("num_attention_heads", "hidden_act", "layer_norm_eps", "num_channels", "qkv_bias", "pooler_act",
              "pooler_output_size"),
        without=dict(hidden_act="relu")),
    # deit
    "deit-base": case("DeiTModel", "DeiTConfig", VIT, without=dict(pooler_act="relu")),
    "deit-labels": case(
        "DeiTForImageClassification", "DeiTConfig", labels(**VIT),
        processor=("DeiTImageProcessor", dict(size=square(30), crop_size=square(24))), drop=("do_center_crop", "resample")),
    "deit-teacher": case("DeiTForImageClassificationWithTeacher", "DeiTConfig", labels(**VIT)),
    # dinov2
    "dinov2-base": case("Dinov2Model", "Dinov2Config", DINO, size=(28, 28), without=dict(hidden_act="relu")),
    "dinov2-labels": case(
        "Dinov2ForImageClassification", "Dinov2Config", labels(**{**DINO, "qkv_bias": False}), size=(20, 20),
        processor=("BitImageProcessor", dict(size={"shortest_edge": 24}, crop_size=square(20)))),
    "dinov2-gated": case(
        "Dinov2Model", "Dinov2Config", {**DINO, "use_swiglu_ffn": True, "mlp_ratio": 3, "hidden_act": "relu"},
        size=(37, 22), processor=("BitImageProcessor", dict(size={"shortest_edge": 38}, crop_size={"height": 37, "width": 22}))),
    # clip
    "clip-pair": case(
        "CLIPModel", "CLIPConfig", dict(projection_dim=12),
        vision=PAIR_VISION, text={**PAIR_TEXT, "vocab_size": 700, "bos_token_id": 0, "eos_token_id": 1, "hidden_act": "gelu"},
        tokenizer="bpe_clip", lengths=(9, 3, 20), end=1,
        processor=("CLIPImageProcessor", dict(size={"shortest_edge": 24}, crop_size=square(24))),
        drop=("do_center_crop", "image_mean", "image_std", "resample"), without={"vision.hidden_act": "gelu"}),
    "clip-old": case(
        "CLIPModel", "CLIPConfig", dict(projection_dim=12), vision={**PAIR_VISION, "patch_size": 6},
        text={**PAIR_TEXT, "eos_token_id": 2}, lengths=(7, 12), end=95, without=dict(eos_token_id=94),
        twin=("clip-older", older_settings)),
    "clip-labels": case(
        "CLIPForImageClassification", "CLIPConfig", labels(projection_dim=12), vision=PAIR_VISION, text=PAIR_TEXT),
    "clip_vision_model-plain": case("CLIPVisionModel", "CLIPVisionConfig", PAIR_VISION, without=dict(hidden_act="gelu")),
    "clip_vision_model-projection": case(
        "CLIPVisionModelWithProjection", "CLIPVisionConfig", {**PAIR_VISION, "projection_dim": 12}),
    "clip_text_model-plain": case(
        "CLIPTextModel", "CLIPTextConfig", {**PAIR_TEXT, "eos_token_id": 94}, lengths=(7, 12, 2), end=94,
        without=dict(layer_norm_eps=0.1)),
    "clip_text_model-projection": case(
        "CLIPTextModelWithProjection", "CLIPTextConfig", {**PAIR_TEXT, "projection_dim": 12, "eos_token_id": 94},
        lengths=(7, 12, 2), end=94),
    # siglip
    "siglip-pair": case(
        "SiglipModel", "SiglipConfig", {}, vision=PAIR_VISION,
        text={**PAIR_TEXT, "vocab_size": 230, "max_position_embeddings": 30, "projection_size": 18, "pad_token_id": 1},
        tokenizer="unigram_siglip", lengths=(9, 3, 20), end=1, processor=("SiglipImageProcessor", dict(size=square(24))),
        without={"vision.hidden_act": "relu"}),
    "siglip-labels": case("SiglipForImageClassification", "SiglipConfig", labels(), vision=PAIR_VISION, text={
        **PAIR_TEXT, "hidden_size": 18, "num_attention_heads": 3}),
    "siglip_vision_model-head": case("SiglipVisionModel", "SiglipVisionConfig", PAIR_VISION),
    "siglip_vision_model-plain": case("SiglipVisionModel", "SiglipVisionConfig", {**PAIR_VISION, "vision_use_head": False}),
    "siglip_text_model-plain": case(
        "SiglipTextModel", "SiglipTextConfig", {**PAIR_TEXT, "pad_token_id": 5}, lengths=(7, 12, 1), end=3,
        without=dict(pad_token_id=7)),
    # convnext
    "convnext-labels": case(
        "ConvNextForImageClassification", "ConvNextConfig", labels(num_stages=2, **NET), size=(36, 29),
        processor=("ConvNextImageProcessor", dict(size={"shortest_edge": 28}, crop_pct=0.875))),
    "convnext-plain": case(
        "ConvNextModel", "ConvNextConfig",
        dict(num_stages=2, hidden_act="relu", layer_scale_init_value=0.0, patch_size=3, layer_norm_eps=0.5, **NET),
        size=(25, 31), without=dict(hidden_act="gelu")),
    # resnet
    "resnet-bottleneck": case(
        "ResNetForImageClassification", "ResNetConfig", labels(embedding_size=8, **NET), size=(33, 40),
        processor=("ConvNextImageProcessor", dict(size={"shortest_edge": 32}, crop_pct=0.875)),
        without=dict(downsample_in_bottleneck=True)),
    "resnet-early": case(
        "ResNetModel", "ResNetConfig",
        dict(embedding_size=8, downsample_in_first_stage=True, downsample_in_bottleneck=True, hidden_act="gelu", **NET),
        size=(48, 37), without=dict(hidden_act="relu")),
    "resnet-basic": case(
        "ResNetForImageClassification", "ResNetConfig", labels(embedding_size=8, layer_type="basic", **NET), size=(32, 32)),
}


@torch.no_grad()
def overwrite(model, generator):
    """Fills every parameter and stored buffer with random multiples of 1/65536."""
    norms = {f"{name}.weight" for name, module in model.named_modules()
             if isinstance(module, (torch.nn.LayerNorm, torch.nn.BatchNorm2d))}
    for name, tensor in model.state_dict().items():
        if not tensor.is_floating_point():
            continue
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
        flat = torch.rand(tensor.shape, generator=generator)
        if name in norms:
            value = 0.7 + 0.6 * flat
        elif name.endswith("running_var"):
            value = 0.5 + flat
        elif name.endswith(("bias", "running_mean")):
            value = 0.3 * noise
        elif name == "logit_scale":
            value = 1.0 + 0.3 * noise
        elif any(part in name for part in ("position_embedding", "token_embedding", "lambda1", "layer_scale")):
            value = 0.6 * noise
        elif any(part in name for part in ("cls_token", "distillation_token", "class_embedding", "probe", "mask_token")):
            value = noise
        else:
            sharp = any(part in name for part in ("query", "key", "q_proj", "k_proj", "in_proj"))
            value = (1.6 if sharp else 1.0) * tensor[0].numel() ** -0.5 * noise
        tensor.copy_(torch.round(value * 65536) / 65536)


def built(spec):
    """The model of a case."""
    settings = dict(spec["settings"])
    for tower in ("vision", "text"):
        if spec[tower]:
            settings[f"{tower}_config"] = dict(spec[tower])
    config = getattr(transformers, spec["config"])(**settings)
    config._attn_implementation = "eager"
    return getattr(transformers, spec["model"])(config).to(torch.float32).eval()


def load(folder, spec):
    """The folder as the reference reads it, in f32 on the eager path."""
    kind = getattr(transformers, spec["model"])
    return kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def padded(model, spec, texts):
    """Texts as the batch that the reference sees: clip's with a mask, siglip's filled up."""
    config = getattr(model.config, "text_config", model.config)
    if spec["model"].startswith("Siglip"):
        ids = torch.full((len(texts), config.max_position_embeddings), config.pad_token_id)
        for row, text in enumerate(texts):
            ids[row, :len(text)] = text
        return dict(input_ids=ids)
    ids = torch.full((len(texts), max(len(text) for text in texts)), 0)
    mask = torch.zeros_like(ids)
    for row, text in enumerate(texts):
        ids[row, :len(text)], mask[row, :len(text)] = text, 1
    return dict(input_ids=ids, attention_mask=mask)


@torch.no_grad()
def outputs(model, spec, pixels, texts):
    """What the reference gives, under our names."""
    given = {}
    if pixels is not None:
        given["pixel_values"] = pixels
    if texts:
        given.update(padded(model, spec, texts))
    made = model(**given)
    names = ["last_hidden_state", "pooler_output", "logits", "image_embeds", "text_embeds", "logits_per_image"]
    found = {name: made[name] for name in names if made.get(name) is not None}
    if "logits_per_image" in found:
        logits = found["logits_per_image"]
        found["probabilities"] = logits.softmax(1) if spec["model"] == "CLIPModel" else logits.sigmoid()
    if spec["model"].startswith("CLIPText"):
        # Here texts stand one after another.
        found["last_hidden_state"] = torch.cat([x[:len(t)] for x, t in zip(found["last_hidden_state"], texts)])
        if "pooler_output" not in found:
            found["pooler_output"] = model.text_model(**given).pooler_output
    if spec["model"] == "CLIPVisionModelWithProjection":
        found["pooler_output"] = model.vision_model(**given).pooler_output
    if "logits" in found and "last_hidden_state" not in found:
        base = getattr(model, model.base_model_prefix, None) or model.vision_model
        found["last_hidden_state"] = base(pixels).last_hidden_state
        if spec["model"].startswith(("ConvNext", "ResNet")):
            found["pooler_output"] = base(pixels).pooler_output
    if spec["model"].startswith("ResNet"):
        found["pooler_output"] = found["pooler_output"].flatten(1)
    return {name: value.to(torch.float32) for name, value in found.items()}


def change(folder, spec, pixels, texts, wanted):
    """The largest change of an output when the keys of `without` replace the saved ones."""
    with tempfile.TemporaryDirectory() as scratch:
        other = Path(scratch) / "model"
        shutil.copytree(folder, other)
        config = goldens.read(other)
        for key, value in spec["without"].items():
            tower, _, inner = key.rpartition(".")
            place = config[f"{tower}_config"] if tower else config.get("text_config", config)
            place[inner] = value
        goldens.write(other, config)
        found = outputs(load(other, spec), spec, pixels, texts)
    return max((found[name] - wanted[name]).abs().max().item() for name in wanted)


def picture_of(folder, spec, model, name, texts):
    """The file `picture.png`, its processor, and what the reference makes of it."""
    kind, settings = spec["processor"]
    processor = getattr(transformers, kind)(**settings)
    image = pictures.picture(zlib.crc32(name.encode()), 47, 39)
    image.save(folder / "picture.png")
    processor.save_pretrained(folder)
    path = folder / "preprocessor_config.json"
    saved = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in saved.items() if k not in spec["drop"]}, indent=2) + "\n")
    again = transformers.AutoImageProcessor.from_pretrained(folder)
    pixels = again(images=Image.open(folder / "picture.png").convert("RGB"), return_tensors="pt")["pixel_values"]
    found = outputs(model, spec, pixels.to(torch.float32), texts)
    wanted = ["logits", "image_embeds", "pooler_output"]
    main = next(name for name in wanted if name in found)
    return {f"picture.{main}": found[main]}, pixels


def texts_of(folder, spec, model, pixels):
    """The tokenizer of a pair, texts, and what the reference makes of them beside the picture of the file."""
    tokenizer, config = getattr(tokenizers, spec["tokenizer"])(folder)
    state = json.loads(tokenizer.to_str())
    text = json.dumps(state, ensure_ascii=False, separators=(",", ":"))
    (folder / "tokenizer.json").write_text(text + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    (folder / "texts.json").write_text(json.dumps(TEXTS, indent=1) + "\n")
    ids = [torch.tensor(tokenizer.encode(text).ids) for text in TEXTS]
    found = outputs(model, spec, pixels, ids)
    return {f"texts.{name}": found[name] for name in ("text_embeds", "probabilities")}


def make(name, spec, out):
    """Makes the folder of one case under `out`; prints a line for it."""
    seed = zlib.crc32(name.encode())
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model = built(spec)
    overwrite(model, generator)
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    saved = goldens.read(folder)
    missing = [key for key in spec["bare"] if key not in saved]
    assert not missing, f"{name}: the saved config has no {missing}"
    goldens.write(folder, {**{k: v for k, v in saved.items() if k not in spec["bare"]}, **spec["extra"]})

    pixels, tensors = None, {}
    if spec["vision"] or not spec["lengths"]:
        side = (spec["vision"] or spec["settings"]).get("image_size", 32)
        height, width = spec["size"] or (side, side)
        pixels = torch.randn((2, 3, height, width), generator=generator)
        tensors["pixel_values"] = pixels
    vocabulary = (spec["text"] or spec["settings"]).get("vocab_size", 0)
    texts = [torch.randint(3, min(vocabulary, 94), (length,), generator=generator) for length in spec["lengths"]]
    for text in texts:
        text[-1] = spec["end"]
        if len(text) > 6:
            text[-3] = spec["end"]
    if texts:
        tensors["input_ids"] = torch.cat(texts)
        tensors["starts"] = torch.tensor([0, *spec["lengths"][:-1]]).cumsum(0)

    again = load(folder, spec)
    wanted = outputs(again, spec, pixels, texts)
    goldens.same_tensors(name, outputs(model, spec, pixels, texts), wanted, 0.0)
    if pixels is not None:
        alone = outputs(again, spec, pixels[1:], texts)
        rows = {k: v[1:] if v.shape[0] == 2 and not k.startswith("text") else v for k, v in wanted.items()}
        goldens.same_tensors(f"{name}: a picture alone", alone, rows, 2e-5)
    note = ""
    if spec["without"]:
        moved = change(folder, spec, pixels, texts, wanted)
        assert moved > 1e-3, f"{name}: the switch changes the outputs by {moved} only"
        note = f", without the switch {moved:.3f}"
    if spec["processor"]:
        made, prepared = picture_of(folder, spec, again, name, texts)
        tensors.update(made)
        if spec["tokenizer"]:
            tensors.update(texts_of(folder, spec, again, prepared.to(torch.float32)))
    tensors.update(wanted)
    size = goldens.store(folder, {key: value.contiguous().clone() for key, value in tensors.items()})
    assert size < 150_000, f"{name}: {size} bytes"
    print(f"{name}: {size} bytes, {', '.join(wanted)}{note}", flush=True)
    if spec["twin"]:
        twin = out / spec["twin"][0]
        shutil.rmtree(twin, ignore_errors=True)
        shutil.copytree(folder, twin)
        goldens.write(twin, spec["twin"][1](goldens.read(folder)))
        goldens.same_tensors(twin.name, outputs(load(twin, spec), spec, pixels, texts), wanted, 0.0)
        print(f"{twin.name}: the same outputs", flush=True)


if __name__ == "__main__":
    goldens.run(__doc__, "goldens-vision", CASES, make)
