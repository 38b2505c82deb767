#!/usr/bin/env python3
"""Makes small picture files whose heads matter more than their pixels.

    python scripts/make-picture-files.py [--out tests/picture-files]

Needs `pillow` and `numpy`; it is not part of the tests. `moving.gif`, `moving.webp` and `moving.png` hold three pictures, of
which `still.*` is the first. `thumbnail.jpg` has a whole JPEG file inside of its EXIF segment.
"""

import argparse
import io
import struct
from pathlib import Path

import numpy as np
from PIL import Image


def pictures(count):
    rng = np.random.default_rng(7)
    y, x = np.mgrid[0:24, 0:32]
    for n in range(count):
        layers = [127 + 100 * np.sin(0.2 * x * (c + 1) + 0.3 * y + n) + rng.normal(0, 5, x.shape) for c in range(3)]
        yield Image.fromarray(np.clip(np.stack(layers, -1), 0, 255).astype(np.uint8))


def bytes_of(image, **options):
    out = io.BytesIO()
    image.save(out, **options)
    return out.getvalue()


def with_thumbnail(main, thumbnail):
    """A JPEG file with a segment APP1 that holds another one (Exif 2.3, section 4.5.5)."""
    second = 8 + 2 + 4
    at = second + 2 + 2 * 12 + 4
    entries = struct.pack("<HHII", 0x0201, 4, 1, at) + struct.pack("<HHII", 0x0202, 4, 1, len(thumbnail))
    tiff = b"II*\0" + struct.pack("<IHI", 8, 0, second) + struct.pack("<H", 2) + entries + struct.pack("<I", 0) + thumbnail
    segment = b"Exif\0\0" + tiff
    return main[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + main[2:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent.parent / "tests" / "picture-files")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    first, *rest = pictures(3)
    palette = first.quantize(64)
    moving = {"save_all": True, "duration": 50}
    for name, data in {
        "still.gif": bytes_of(palette, format="GIF"),
        "moving.gif": bytes_of(palette, format="GIF", append_images=[p.quantize(64) for p in rest], **moving),
        "still.png": bytes_of(first, format="PNG"),
        "moving.png": bytes_of(first, format="PNG", append_images=rest, **moving),
        "still.webp": bytes_of(first, format="WEBP", lossless=True),
        "moving.webp": bytes_of(first, format="WEBP", lossless=True, append_images=rest, **moving),
        "thumbnail.jpg": with_thumbnail(
            bytes_of(first.resize((96, 72)), format="JPEG", quality=90),
            bytes_of(first.resize((16, 12)), format="JPEG", quality=50),
        ),
    }.items():
        (out / name).write_bytes(data)


if __name__ == "__main__":
    main()
