#!/usr/bin/env python3
"""Makes the sounds of the goldens of speech, in tests/goldens-speech/sounds: 16-bit, one channel, 16 kHz.

    python scripts/make-sounds.py

Needs `numpy`; `flac` and `lame` for two more forms of one of them, and `espeak-ng` for speech. All are small: some are
shorter than a window of the tiny models (a second), one is longer than three.
"""

import subprocess
import tempfile
import wave
from pathlib import Path

import numpy as np

RATE = 16_000
OUT = Path(__file__).resolve().parent.parent / "tests" / "goldens-speech" / "sounds"


def sweep(seconds, low, high, loud=0.6):
    t = np.arange(int(seconds * RATE)) / RATE
    return loud * np.sin(2 * np.pi * (low * t + (high - low) * t * t / (2 * seconds)))


def noise(seconds, loud, seed):
    return loud * np.random.default_rng(seed).standard_normal(int(seconds * RATE))


def speech(text):
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        subprocess.run(["espeak-ng", "-s", "240", "-w", file.name, text], check=True)
        with wave.open(file.name) as spoken:
            rate, samples = spoken.getframerate(), np.frombuffer(spoken.readframes(spoken.getnframes()), "<i2")
    at = np.arange(0, len(samples) - 1, rate / RATE)
    return np.interp(at, np.arange(len(samples)), samples / 32768)


def write(name, samples):
    whole = np.clip(np.round(samples * 32767), -32768, 32767).astype("<i2")
    with wave.open(str(OUT / f"{name}.wav"), "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(RATE)
        file.writeframes(whole.tobytes())


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    write("short", np.concatenate([sweep(0.5, 200, 3000), noise(0.13, 0.05, 1), sweep(0.2, 900, 300, 0.3)]))
    write("noise", noise(1.0, 0.2, 2))
    write("silence", np.zeros(RATE // 2))
    parts = [speech("The fox says hello."), np.zeros(RATE // 4), sweep(0.6, 100, 5000), noise(0.4, 0.02, 3),
             speech("And goes home.")]
    write("long", np.concatenate(parts)[: int(3.37 * RATE)])
    source = OUT / "short.wav"
    subprocess.run(["flac", "-s", "-f", "--best", "--no-padding", source, "-o", OUT / "short.flac"], check=True)
    subprocess.run(["lame", "--quiet", "-V", "7", source, OUT / "short.mp3"], check=True)


if __name__ == "__main__":
    main()
