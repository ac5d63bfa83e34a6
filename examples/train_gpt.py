"""Trains a small GPT on the text of a file and saves into a store every few steps. If it is killed,
the next start continues from the last save: the losses are those of a run that was never stopped,
bit for bit.

    python examples/train_gpt.py --store /tmp/store --steps 3000    # kill it whenever you like
    python examples/train_gpt.py --store /tmp/store --steps 3000    # continues from the last save

Needs lmckpt and torch; runs on a CPU in about a minute.
"""

from __future__ import annotations

import argparse
import pathlib

import lmckpt
import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Attention and a perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        parts = self.attention(self.norm1(x)).split(width, 2)
        query, key, value = (part.view(shape).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """Bytes in, the next byte out."""

    def __init__(self, width: int = 64, layers: int = 2, heads: int = 4, context: int = 64) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.embed(x) + self.place.weight[: x.shape[1]])))


def batch(
    text: torch.Tensor, context: int = 64, size: int = 8
) -> tuple[torch.Tensor, torch.Tensor]:
    """Bytes from random places of the text, and for each the byte that follows."""
    starts = torch.randint(len(text) - context - 1, (size,))
    rows = torch.stack([text[start : start + context + 1] for start in starts])
    return rows[:, :-1], rows[:, 1:]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Trains a small GPT that can be killed at any time."
    )
    parser.add_argument(
        "--store", required=True, help="where snapshots go; created if it does not exist"
    )
    parser.add_argument("--run", default="gpt")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=10, help="steps from one save to the next")
    parser.add_argument("--text", default=__file__, help="what to learn from")
    parser.add_argument("--losses", help="a file that each step's loss is added to")
    options = parser.parse_args()

    # Sums in another order would give other results.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    text = torch.frombuffer(bytearray(pathlib.Path(options.text).read_bytes()), dtype=torch.uint8)
    text = text.long()
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    start = 0
    with lmckpt.Store(options.store, create=True) as store:
        if store.latest(options.run) is not None:
            state = store.load(f"{options.run}@latest")
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            torch.set_rng_state(state["rng"])
            start = state["step"]
            print(f"continues after step {start}")
        for step in range(start + 1, options.steps + 1):
            x, y = batch(text)
            loss = functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
            if options.losses:
                with open(options.losses, "a") as file:
                    file.write(f"{step} {loss.item().hex()}\n")
            if step % options.every == 0 or step == options.steps:
                state = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "rng": torch.get_rng_state(),
                    "step": step,
                }
                store.save_async(state, run=options.run, step=step, meta={"loss": loss.item()})


if __name__ == "__main__":
    main()
