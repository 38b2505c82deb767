"""Mel spectrograms, compared with the feature extractor of Whisper in transformers."""

import numpy as np
import torch
from transformers import WhisperFeatureExtractor
from transformers.audio_utils import mel_filter_bank

from common import bad, case, fault, rand, write


def features(samples, sample_rate, fft, hop, mels, low, high, scale, log):
    """In float64 throughout."""
    samples = samples.numpy()
    if samples.ndim == 2:
        return torch.stack([features(torch.from_numpy(s), sample_rate, fft, hop, mels, low, high, scale, log) for s in samples])
    padded = np.pad(samples, fft // 2, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(fft) / fft)
    frames = np.stack([padded[t * hop :][:fft] * window for t in range(len(samples) // hop)])
    power = np.abs(np.fft.rfft(frames)) ** 2
    norm = "slaney" if scale == "slaney" else None
    bank = mel_filter_bank(fft // 2 + 1, mels, low, high, sample_rate, norm=norm, mel_scale=scale)
    y = bank.T @ power.T
    if log == "natural":
        y = np.log(np.maximum(y, 1e-10))
    elif log == "whisper":
        y = np.log10(np.maximum(y, 1e-10))
        y = (np.maximum(y, y.max() - 8.0) + 4.0) / 4.0
    return torch.from_numpy(y)


def sound(n, rate=16000):
    """Two tones, one rising, and a little noise, as a recording holds them: about -1 to 1."""
    t = np.arange(n) / rate
    noise = rand(n, seed=4).numpy() * 1e-3
    wave = 0.5 * np.sin(2 * np.pi * 440 * t) + 0.3 * np.sin(2 * np.pi * (200 + 3000 * t) * t) + noise
    return torch.from_numpy(wave.astype(np.float32).astype(np.float64))


def mel(name, samples, sample_rate, fft, hop, mels, low, high, scale, log, kinds=("ordinary",), tolerance=1e-6):
    fields = dict(sample_rate=sample_rate, fft=fft, hop=hop, mels=mels, low=low, high=high, scale=scale, log=log)
    y = features(samples, **fields)
    case("LogMel", name, {k: str(v) for k, v in fields.items()}, {"samples": samples}, y, tolerance, kinds)


# One second through the extractor itself, which computes in complex64.
second = sound(16000)
extractor = WhisperFeatureExtractor(feature_size=80)
theirs = extractor._np_extract_fbank_features(second.numpy()[None], device="cpu")[0]
ours = features(second, 16000, 400, 160, 80, 0, 8000, "slaney", "whisper").numpy()
assert theirs.shape == ours.shape == (80, 100)
assert np.abs(theirs - ours).max() < 1e-5, np.abs(theirs - ours).max()
whisper = {
    "sample_rate": "16000",
    "fft": "400",
    "hop": "160",
    "mels": "80",
    "low": "0",
    "high": "8000",
    "scale": "slaney",
    "log": "whisper",
}
case("LogMel", "whisper_second", whisper, {"samples": second}, torch.from_numpy(theirs).double(), 1e-5)

mel("batch", torch.stack([sound(400), 0.01 * rand(400, seed=5)]), 16000, 64, 40, 12, 0, 8000, "slaney", "whisper")
mel("natural", sound(333), 8000, 100, 37, 9, 20, 3800, "slaney", "natural", kinds=("odd",))
mel("power_htk", sound(250), 16000, 128, 50, 10, 0, 8000, "htk", "none")
mel("natural_htk", sound(201), 11025, 50, 25, 7, 133.3333, 5000, "htk", "natural", kinds=("odd",))
mel("silence", torch.zeros(300, dtype=torch.float64), 16000, 100, 50, 8, 0, 8000, "slaney", "whisper", kinds=("extreme",))
mel("prime_window", sound(120), 16000, 62, 31, 5, 0, 8000, "slaney", "none", kinds=("odd",))
mel("one", sound(2), 16000, 2, 2, 1, 0, 8000, "htk", "none", kinds=("size_one",))
mel("hop_over_window", rand(1, 90, seed=6), 16000, 16, 40, 3, 0, 8000, "htk", "natural", kinds=("size_one",))

bad("LogMel", whisper, ["f32[200]"], "expected more than 200 (half of fft)")
bad("LogMel", whisper, ["f32[1, 1, 1000]"], "expected [N] or [B, N]")
bad("LogMel", whisper, ["i64[1000]"], "samples has the type i64")
bad("LogMel", whisper | {"fft": "401"}, ["f32[1000]"], "fft is 401, expected an even number")
bad("LogMel", whisper | {"fft": "4294967294"}, ["f32[1000]"], "fft is 4294967294")
bad("LogMel", whisper | {"hop": "0"}, ["f32[1000]"], "hop is 0")
bad("LogMel", whisper | {"mels": "0"}, ["f32[1000]"], "mels is 0")
bad("LogMel", whisper | {"mels": "100000"}, ["f32[1000]"], "mels is 100000")
bad("LogMel", whisper | {"sample_rate": "0"}, ["f32[1000]"], "sample_rate is 0")
bad("LogMel", whisper | {"high": "8001"}, ["f32[1000]"], "high 8001")
bad("LogMel", whisper | {"low": "-1"}, ["f32[1000]"], "low is -1")
bad("LogMel", whisper | {"scale": "bark"}, ["f32[1000]"], "`bark` is unknown")
bad("LogMel", whisper | {"log": "db"}, ["f32[1000]"], "`db` is unknown")

write()
