#!/usr/bin/env python3
"""Makes the goldens of pictures: small files, and what the image processors and a tiny classifier make of them.

    python scripts/make-picture-goldens.py [--out tests/goldens-pictures]

Needs what `make-goldens.py` needs, `torchvision` and `pillow`; it is not part of the tests. Each folder holds
`picture.png` (or .jpg), `preprocessor_config.json` as the library saves it, and `golden.safetensors` with
`pixel_values` f32 [1, 3, H, W]. The folder `vit` is a whole model, with `logits` f32 [1, labels] of its picture too.
"""

import argparse
import json
import shutil
import zlib
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import (
    CLIPImageProcessor, ConvNextImageProcessor, DeiTImageProcessor, SiglipImageProcessor, ViTConfig,
    ViTForImageClassification, ViTImageProcessor,
)


def picture(seed, width, height, mode="RGB"):
    """Something between a photograph and noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    layers = []
    for _ in range(4):
        f, g, p = rng.uniform(0.02, 0.4, 3)
        layers.append(127 + 90 * np.sin(f * x + g * y + 6 * p) + rng.normal(0, 18, (height, width)))
    data = np.clip(np.stack(layers, -1), 0, 255).astype(np.uint8)
    data = data[..., :{"RGB": 3, "RGBA": 4, "L": 1}[mode]]
    return Image.fromarray(data.squeeze(), mode)


CASES = {
    "squash-bilinear": (ViTImageProcessor(size={"height": 24, "width": 32}), (61, 45, "RGB"), "png"),
    "squash-larger": (ViTImageProcessor(size={"height": 40, "width": 40}, resample=3), (17, 29, "RGBA"), "png"),
    "crop-bicubic": (
        CLIPImageProcessor(size={"shortest_edge": 30}, crop_size={"height": 26, "width": 26}), (64, 41, "RGB"), "png"),
    "crop-odd": (
        DeiTImageProcessor(size={"height": 33, "width": 31}, crop_size={"height": 24, "width": 27}), (50, 50, "L"), "png"),
    "crop-padded": (
        CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 25, "width": 21}), (40, 40, "RGB"), "png"),
    "crop-share": (ConvNextImageProcessor(size={"shortest_edge": 28}, crop_pct=0.875), (47, 70, "RGB"), "jpg"),
    "lanczos": (ViTImageProcessor(size={"height": 20, "width": 20}, resample=1, do_normalize=False), (77, 50, "RGB"), "png"),
    "upright": (ViTImageProcessor(size={"height": 30, "width": 20}), (45, 31, "RGB"), "turned"),
    "on-white": (
        CLIPImageProcessor(size={"shortest_edge": 22}, crop_size={"height": 20, "width": 20}), (22, 25, "RGBA"), "alpha"),
    "on-white-squashed": (SiglipImageProcessor(size={"height": 24, "width": 20}), (45, 31, "RGBA"), "alpha"),
}


def put(folder, processor, size, kind, name):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    image = picture(zlib.crc32(name.encode()), *size)
    file = folder / ("picture.png" if kind in ("png", "alpha") else "picture.jpg")
    if kind == "turned":
        exif = Image.Exif()
        exif[0x0112] = 6
        image.save(file, quality=95, exif=exif)
    elif kind == "jpg":
        image.save(file, quality=95)
    else:
        image.save(file)
    processor.save_pretrained(folder)
    from transformers.image_utils import load_image
    # `load_image` drops the transparency that the processor of a picture as it is puts on white.
    image = Image.open(file) if kind == "alpha" else load_image(str(file))
    seen = processor(images=image, return_tensors="pt")["pixel_values"].to(torch.float32)
    return file, seen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = Path(__file__).resolve().parent.parent
    parser.add_argument("--out", type=Path, default=here / "tests" / "goldens-pictures")
    out = parser.parse_args().out
    for name, (processor, size, kind) in CASES.items():
        folder = out / name
        _, seen = put(folder, processor, size, kind, name)
        save_file({"pixel_values": seen}, folder / "golden.safetensors")
        print(name, tuple(seen.shape), sum(f.stat().st_size for f in folder.iterdir()), "bytes")

    processor = ViTImageProcessor(size={"height": 24, "width": 24})
    folder = out / "vit"
    _, seen = put(folder, processor, (61, 45, "RGB"), "png", "vit")
    torch.manual_seed(7)
    labels = ["tabby cat", "goldfinch", "acoustic guitar", "teapot", "lighthouse", "go-kart", "otter"]
    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=24, patch_size=8,
        id2label=dict(enumerate(labels)), label2id={n: i for i, n in enumerate(labels)})
    model = ViTForImageClassification(config).eval()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.copy_(torch.round(torch.randn(tensor.shape) * 0.3 * 65536) / 65536)
        model.save_pretrained(folder)
        logits = model(pixel_values=seen).logits
    save_file({"pixel_values": seen, "logits": logits}, folder / "golden.safetensors")
    for file in folder.iterdir():
        file.chmod(0o644)
    print("vit", json.dumps([round(x, 3) for x in torch.softmax(logits[0], -1).tolist()]))


if __name__ == "__main__":
    main()
