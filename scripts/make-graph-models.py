"""Makes small models that are graphs only, for tests: tests/graphs/NAME/ with

- graph.txt: the graph in the text form, weights by the names of the PyTorch module,
- weights.safetensors: float32,
- inputs.safetensors, outputs.safetensors, and where there are more, inputs2.safetensors …: float32; the
  outputs are computed in float64 by PyTorch.

Their `model_type` is tiny_NAME, which no family of decoders knows.

Every parameter and every stored statistic is random, so that none can be left out unnoticed. The
same files come out each time. Run `python scripts/make-graph-models.py`; needs torch and safetensors.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

OUT = Path(__file__).resolve().parents[1] / "tests" / "graphs"


def save(name, graph, module, *sets):
    """`sets` are inputs of the module's forward by name, and its outputs by name."""
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    plain = lambda tensors: {k: v.detach().float().contiguous().clone() for k, v in tensors.items()}
    state = {k: v for k, v in module.state_dict().items() if v.is_floating_point()}
    (folder / "graph.txt").write_text(graph)
    save_file(plain(state), folder / "weights.safetensors")
    for i, (inputs, outputs) in enumerate(sets):
        suffix = str(i + 1) if i > 0 else ""
        save_file(plain(inputs), folder / f"inputs{suffix}.safetensors")
        save_file(plain(outputs), folder / f"outputs{suffix}.safetensors")
    for path in folder.iterdir():
        path.chmod(0o644)
    print(f"{name}: {sum(v.numel() for v in state.values())} parameters")


def randomise(module, seed):
    """Every floating-point value of a module; variances positive; each a multiple of 1/65536, which the
    fixed-point encoding of a model holds exactly."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if value.is_floating_point():
                width = (3.0 / max(1, value[0].numel())) ** 0.5 if value.dim() > 1 else 0.5
                random = (torch.rand(value.shape, generator=generator, dtype=torch.float64) * 2 - 1) * width
                if name.endswith(("norm.weight", "running_var")):
                    random = random + 1.0
                value.copy_(torch.round(random * 65536) / 65536)
    return module.double().eval()


class Block(nn.Module):
    """A convolution of each channel on its own, one across channels, and the way past both."""

    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.norm = nn.BatchNorm2d(channels)
        self.pointwise = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        return torch.relu(x + self.pointwise(torch.relu(self.norm(self.depthwise(x)))))


class Classifier(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.block = Block(8)
        self.wide = nn.Conv2d(8, 16, (3, 5), stride=(2, 1), padding=(1, 2))
        self.wide_norm = nn.BatchNorm2d(16, eps=1e-3)
        self.head = nn.Linear(16, classes)

    def forward(self, image):
        x = self.pool(torch.relu(self.stem_norm(self.stem(image))))
        x = torch.relu(self.wide_norm(self.wide(self.block(x))))
        logits = self.head(x.mean((2, 3)))
        return logits, torch.softmax(logits, -1)


def classifier():
    """Pictures of any size to ten probabilities."""
    half = {d: f"floor(({d} + 1)/2)" for d in "HW"}
    fourth = {d: f"floor(({d} + 3)/4)" for d in "HW"}
    stem, small = f"[B, 8, {half['H']}, {half['W']}]", f"[B, 8, {fourth['H']}, {fourth['W']}]"
    wide = f"[B, 16, floor((H + 7)/8), {fourth['W']}]"
    module = randomise(Classifier(), 20)
    lines = ["input %image: f32[B, 3, H, W]"]
    for name, value in module.state_dict().items():
        if value.is_floating_point():
            lines.append(f'weight %{name} = "{name}": f32{list(value.shape)}')

    def norm(x, name, shape, eps="1e-5"):
        parts = ", ".join(f"%{name}.{part}" for part in ("weight", "bias", "running_mean", "running_var"))
        return f"%{name}: f32{shape} = BatchNorm({x}, {parts}) {{ eps = {eps}, momentum = 0.1 }}"

    def conv(x, name, shape, kernel, stride, padding, bias=True):
        operands = f"{x}, %{name}.weight" + (f", %{name}.bias" if bias else "")
        fields = f"kernel = {kernel}, stride = {stride}, padding = {padding}, dilation = [1, 1], groups = 1"
        return f"%{name}: f32{shape} = Conv2d({operands}) {{ {fields} }}"

    lines += [
        conv("%image", "stem", stem, [3, 3], [2, 2], [1, 1], bias=False),
        norm("%stem", "stem_norm", stem),
        f"%0: f32{stem} = Relu(%stem_norm)",
        f"%pool: f32{small} = Pool(%0) {{ mode = max, kernel = [3, 3], stride = [2, 2], padding = [1, 1] }}",
        f"%block.depthwise: f32{small} = DepthwiseConv(%pool, %block.depthwise.weight, %block.depthwise.bias) {{ kernel = 3, stride = 1 }}",
        norm("%block.depthwise", "block.norm", small),
        f"%1: f32{small} = Relu(%block.norm)",
        conv("%1", "block.pointwise", small, [1, 1], [1, 1], [0, 0]),
        f"%2: f32{small} = Add(%pool, %block.pointwise)",
        f"%block: f32{small} = Relu(%2)",
        conv("%block", "wide", wide, [3, 5], [2, 1], [1, 2]),
        norm("%wide", "wide_norm", wide, "0.001"),
        f"%3: f32{wide} = Relu(%wide_norm)",
        "%mean: f32[B, 16] = Reduce(%3) { how = mean, axes = [2, 3], keep = false }",
        "%4: f32[B, 10] = Matmul(%mean, %head.weight)",
        "%logits: f32[B, 10] = Add(%4, %head.bias)",
        "%probabilities: f32[B, 10] = Softmax(%logits) { dim = -1 }",
        "output logits = %logits",
        "output probabilities = %probabilities",
    ]
    graph = "graph {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
    generator = torch.Generator().manual_seed(21)
    sets = []
    for size in [(3, 3, 21, 26), (1, 3, 9, 6)]:
        noise = torch.rand(*size, generator=generator, dtype=torch.float64) * 2 - 1
        # Each picture and colour with a brightness of its own, since the mean over a picture hides noise.
        bright = torch.rand(*size[:2], 1, 1, generator=generator, dtype=torch.float64) * 4 - 2
        image = (noise + bright).float().double()
        with torch.no_grad():
            logits, probabilities = module(image)
        sets.append(({"image": image}, {"logits": logits, "probabilities": probabilities}))
    save("classifier", graph, module, *sets)


if __name__ == "__main__":
    classifier()
