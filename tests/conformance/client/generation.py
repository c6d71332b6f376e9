"""Generate tokens with a small decoder, on a cluster or by the same model on the CPU backend.

    python generation.py --model llama --backend CSX --out result.json --mgmt-address localhost:9000

On a cluster the loop over positions is the client's `start_implicit_loop` and
`update_implicit_loop`. The CPU backend has neither; there the loop is written out, and every pass
runs the whole model, as the client's documentation of `update_implicit_loop` has it.

The result is JSON: the tokens of every batch and the seconds of each, the first one's included.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path

import cerebras.pytorch as cstorch
import torch
from torch import nn
from training import cancel_timers

HERE = Path(__file__).resolve().parent
START = 0
"""The start token, which also fills what is left of a sample."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder.

    Attributes:
        kind: `gpt2` has learned positions, LayerNorm and GELU; `llama` has rotary positions, RMS
            normalization, gated SiLU and fewer heads for keys and values.
    """

    kind: str
    vocabulary: int = 211
    width: int = 64
    heads: int = 4
    layers: int = 2
    positions: int = 96


class RmsNorm(nn.Module):
    """Divides by the root of the mean square, in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.to(torch.float32)
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (wide * scale).to(x.dtype) * self.weight.to(x.dtype)


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.kv_heads = shape.heads if shape.kind == "gpt2" else shape.heads // 2
        self.size = shape.width // shape.heads
        has_bias = shape.kind == "gpt2"
        self.query = nn.Linear(shape.width, shape.width, bias=has_bias)
        self.key = nn.Linear(shape.width, self.kv_heads * self.size, bias=has_bias)
        self.value = nn.Linear(shape.width, self.kv_heads * self.size, bias=has_bias)
        self.out = nn.Linear(shape.width, shape.width, bias=has_bias)

    def forward(self, x, mask, rotation):
        batch, length, width = x.shape
        heads = [
            layer(x).view(batch, length, count, self.size).transpose(1, 2)
            for layer, count in (
                (self.query, self.heads),
                (self.key, self.kv_heads),
                (self.value, self.kv_heads),
            )
        ]
        query, key, value = heads
        if rotation is not None:
            query, key = rotate(query, *rotation), rotate(key, *rotation)
            key, value = self.repeated(key), self.repeated(value)
        scores = torch.matmul(query, key.transpose(-1, -2)) * self.size**-0.5 + mask
        found = torch.matmul(torch.softmax(scores, -1), value)
        return self.out(found.transpose(1, 2).reshape(batch, length, width))

    def repeated(self, x):
        """Give each group of queries its keys or values."""
        batch, count, length, size = x.shape
        times = self.heads // count
        x = x.unsqueeze(2).expand(batch, count, times, length, size)
        return x.reshape(batch, self.heads, length, size)


def rotate(x, cosine, sine):
    """Rotate pairs of features by the position's angles."""
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


class Block(nn.Module):
    """One layer of a decoder."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        is_gpt = self.is_gpt = shape.kind == "gpt2"
        norm = nn.LayerNorm if is_gpt else RmsNorm
        self.norm1, self.norm2 = norm(shape.width), norm(shape.width)
        self.attention = Attention(shape)
        self.up = nn.Linear(shape.width, 4 * shape.width, bias=is_gpt)
        self.gate = None if is_gpt else nn.Linear(shape.width, 4 * shape.width, bias=False)
        self.down = nn.Linear(4 * shape.width, shape.width, bias=is_gpt)

    def forward(self, x, mask, rotation):
        x = x + self.attention(self.norm1(x), mask, rotation)
        y = self.norm2(x)
        if self.is_gpt:
            return x + self.down(nn.functional.gelu(self.up(y)))
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """A decoder that returns the logits of one position, or of all."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        is_gpt = shape.kind == "gpt2"
        self.positions = nn.Embedding(shape.positions, shape.width) if is_gpt else None
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width) if is_gpt else RmsNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)

    def forward(self, tokens, take=None):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x, rotation = self.embedding(tokens), None
        if self.positions is not None:
            x = x + self.positions(places)
        else:
            rotation = self.rotation(places, x.dtype)
        lowest = torch.tensor(torch.finfo(torch.float16).min, dtype=x.dtype)
        none = torch.tensor(0.0, dtype=x.dtype)
        mask = torch.where(places[None, :] > places[:, None], lowest, none)
        for block in self.blocks:
            x = block(x, mask, rotation)
        x = self.norm(x)
        return self.head(x if take is None else take(x))

    def rotation(self, places, dtype):
        """Return cosines and sines, shape (positions, size of a head)."""
        size = self.shape.width // self.shape.heads
        rates = 10000.0 ** (-torch.arange(0, size, 2, device=places.device).float() / size)
        angles = places[:, None].float() * rates[None, :]
        angles = torch.cat((angles, angles), -1)
        return torch.cos(angles).to(dtype), torch.sin(angles).to(dtype)


@dataclass(frozen=True)
class Rules:
    """How tokens are chosen, and when a sample is over."""

    temperature: float | None
    top_k: int
    top_p: float
    max_tokens: int | None


class Generator(nn.Module):
    """The step that a user traces."""

    def __init__(self, decoder: Decoder, rules: Rules) -> None:
        super().__init__()
        self.model, self.rules = decoder, rules

    def forward(self, batch):
        tokens = batch["input_ids"]
        index = cstorch.experimental.start_implicit_loop(tokens, loop_dim=1)

        def take(x):
            return cstorch.experimental.get_loop_iteration_slice(x, index)

        logits = self.model(tokens, take)
        return cstorch.experimental.update_implicit_loop(
            input_tensor=tokens,
            index_tensor=index,
            update_tensor=self.choose(logits, batch["rand_uniform"]),
            stop_sequences_tensor=batch["stop_sequences"],
            start_token=START,
            max_tokens=self.rules.max_tokens,
        )

    def choose(self, logits, random):
        """Choose a token of logits of shape (batch, 1, vocabulary)."""
        rules = self.rules
        if rules.temperature is None:
            return torch.argmax(logits, dim=-1).int()
        chances = torch.softmax(logits.squeeze(1) / rules.temperature, -1).to(torch.float32)
        best = cstorch.cirh.FusedTopK(chances, k=rules.top_k, dimension=1)
        share = torch.full_like(chances[:, 0:1], rules.top_p)
        count = torch.full_like(chances[:, 0:1], rules.top_k, dtype=torch.int32)
        return cstorch.cirh.FusedTopP(best, p=share, u=random, k=count).int()


def chosen_on_cpu(rules: Rules, logits, random):
    """Choose as `Generator.choose` does, with PyTorch's operations."""
    if rules.temperature is None:
        return torch.argmax(logits, dim=-1).int()
    chances = torch.softmax(logits / rules.temperature, -1)
    values, places = torch.sort(chances, dim=-1, descending=True, stable=True)
    values, places = values[:, : rules.top_k].double(), places[:, : rules.top_k]
    sums = values.cumsum(-1)
    inside = (sums - values) < rules.top_p  # a token is kept while those before do not reach p
    total = (values * inside).sum(-1, keepdim=True)
    number = ((sums <= random.double() * total) & inside).sum(-1, keepdim=True)
    number = torch.minimum(number, inside.sum(-1, keepdim=True) - 1)
    return places.gather(-1, number)[:, 0].int()


def generated_on_cpu(model, batch, rules: Rules):
    """Return the tokens of a batch: the loop over positions, sample by sample, on the CPU."""
    tokens = batch["input_ids"].clone()
    rows, length = tokens.shape
    first = [next((p for p in range(1, length) if row[p] == START), length) for row in tokens]
    counts, live = [0] * rows, [place < length for place in first]
    for position in range(length - 1):
        wants = [live[row] and first[row] <= position + 1 for row in range(rows)]
        if not any(wants):
            continue
        logits = model(tokens)[:, position]
        update = chosen_on_cpu(rules, logits, batch["rand_uniform"])
        for row in range(rows):
            if not wants[row]:
                continue
            tokens[row, position + 1] = update[row]
            counts[row] += 1
            made = tokens[row, first[row] : position + 2].tolist()
            stops = [[t for t in s if t != START] for s in batch["stop_sequences"][row].tolist()]
            ends = any(stop and made[-len(stop) :] == stop for stop in stops)
            live[row] = not ends and counts[row] != rules.max_tokens
    return tokens


def batches(options: argparse.Namespace, shape: Shape):
    """Yield batches of prompts of several lengths, the last sample of each without a start."""
    generator = torch.Generator().manual_seed(5)
    for _ in range(options.batches):
        size, length = options.batch_size, shape.positions
        tokens = torch.randint(1, shape.vocabulary, (size, length), generator=generator)
        for row in range(size):
            end = options.prompt + (3 * row if options.mixed else 0)
            if not (options.mixed and row == size - 1):
                tokens[row, end:] = START
        stop = torch.full((size, 2, 3), START)
        for row in range(size if options.stop else 0):
            stop[row, 0, :1] = torch.tensor(options.stop[:1])
            stop[row, 1, :2] = torch.tensor(options.stop[1:3])
        whole = {
            "input_ids": tokens.int(),
            "stop_sequences": stop.int(),
            "rand_uniform": torch.rand(size, 1, generator=generator),
        }
        start, count = share(size)
        yield {name: tensor[start : start + count] for name, tensor in whole.items()}


def share(size: int) -> tuple[int, int]:
    """Return where this process' samples of a batch begin, and their number."""
    if not cstorch.distributed.is_streamer():
        return 0, size
    sizes = cstorch.distributed.get_streaming_batch_size
    rank = cstorch.distributed.get_streaming_rank()
    return sum(sizes(size, other) for other in range(rank)), sizes(size, rank)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--model", choices=["gpt2", "llama"], required=True)
    add("--width", type=int, default=64)
    add("--layers", type=int, default=2)
    add("--positions", type=int, default=96)
    add("--backend", choices=["CPU", "CSX"], default="CPU")
    add("--out", type=Path, required=True)
    add("--mgmt-address")
    add("--num-csx", type=int, default=1)
    add("--batches", type=int, default=2)
    add("--batch-size", type=int, default=4)
    add("--prompt", type=int, default=8, help="tokens of the first sample's prompt")
    add("--mixed", action="store_true", help="prompts of several lengths, one without a start")
    add("--stop", type=int, nargs=3, help="a stop token, and a sequence of two")
    add("--max-tokens", type=int)
    add("--temperature", type=float)
    add("--top-k", type=int, default=20)
    add("--top-p", type=float, default=1.0)
    return parser.parse_args()


def run(options: argparse.Namespace, shape: Shape, rules: Rules) -> dict[str, list]:
    """Generate the tokens of all batches."""
    found: dict[str, list] = {"tokens": [], "seconds": []}
    torch.manual_seed(1)
    decoder = Decoder(shape)
    for parameter in decoder.parameters():  # so that the tokens differ
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.25)
    decoder.eval()
    loader = cstorch.utils.data.DataLoader(batches, options, shape)
    began = time.perf_counter()

    def note(tokens) -> None:
        nonlocal began
        now = time.perf_counter()
        found["tokens"].append(tokens.tolist())
        found["seconds"].append(now - began)
        print(f"batch {len(found['seconds'])}", flush=True)
        began = now

    if options.backend == "CPU":
        cpu_model = cstorch.compile(decoder)

        @cstorch.trace
        @torch.no_grad()
        def cpu_step(batch):
            note(generated_on_cpu(cpu_model, batch, rules))

        step = cpu_step
    else:
        model = cstorch.compile(Generator(decoder, rules))

        @cstorch.step_closure
        def report(tokens):
            note(tokens)

        @cstorch.trace
        @torch.no_grad()
        def csx_step(batch):
            report(model(batch))

        step = csx_step
    for batch in cstorch.utils.data.DataExecutor(loader, num_steps=options.batches):
        step(batch)
    return found


def main() -> None:
    """Generate and write the result."""
    options = parse()
    cluster = None
    if options.backend == "CSX":
        cluster = cstorch.distributed.ClusterConfig(
            mgmt_address=options.mgmt_address,
            num_csx=options.num_csx,
            python_paths=[str(HERE)],
        )
        cstorch.backend("CSX", artifact_dir="artifacts", cluster_config=cluster)
    else:
        cstorch.backend("CPU", artifact_dir="artifacts")
    shape = Shape(
        kind=options.model, width=options.width, layers=options.layers, positions=options.positions
    )
    rules = Rules(
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        max_tokens=options.max_tokens,
    )
    options.out.write_text(json.dumps(run(options, shape, rules)) + "\n")
    cancel_timers()


if __name__ == "__main__":
    main()
