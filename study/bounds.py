"""Bits per value that simple models of a tensor need, by torch, on a GPU or a CPU.

Goes in: a tensor of bf16 or f32 values, or two of them. Comes out: the entropies that `lmc analyze`
prints, by the same definitions (docs/analyze.md), for whole tensors. Several tensors give the mean
over their values, which is what a coder with one table per tensor pays.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

HALF = 1 << 16
# Classes are -33 to 33.
CLASSES = 128


def entropy(counts: torch.Tensor) -> torch.Tensor:
    """Bits per symbol; the last dimension are the symbols, weighted over the others."""
    counts = counts.double()
    terms = torch.special.xlogy(counts, counts).sum(-1)
    totals = counts.sum(-1)
    bits = torch.special.xlogy(totals, totals) - terms
    return bits.sum() / counts.sum() / torch.log(torch.tensor(2.0, dtype=torch.float64))


def halves(words: torch.Tensor) -> list[torch.Tensor]:
    """Histograms of 16 bits each, the lowest first: a cheap way to those of all smaller fields."""
    shifts = (0,) if words.dtype == torch.int16 else (0, 16)
    return [
        torch.bincount((words.int() >> shift & 0xFFFF).flatten(), minlength=HALF)
        for shift in shifts
    ]


def words_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.int16 if tensor.element_size() == 2 else torch.int32).flatten()


def planes(counts: list[torch.Tensor]) -> list[torch.Tensor]:
    """Entropy of each byte, the lowest first."""
    found = []
    for half in counts:
        table = half.view(256, 256)
        found += [entropy(table.sum(0)), entropy(table.sum(1))]
    return found


def alone(tensor: torch.Tensor) -> torch.Tensor:
    """Sign, exponent, mantissa, bound, then planes."""
    counts = halves(words_of(tensor))
    top = counts[-1].view(2, 256, 128)
    sign, exponent = entropy(top.sum((1, 2))), entropy(top.sum((0, 2)))
    mantissa = entropy(top.sum((0, 1)))
    bytes_of = planes(counts)
    if len(counts) == 2:
        mantissa = mantissa + bytes_of[0] + bytes_of[1]
    raw = 7 if len(counts) == 1 else 23
    bound = exponent + raw + (top.sum((1, 2)).min() > 0)
    return torch.stack([sign, exponent, mantissa, bound, *bytes_of])


ALONE = ("sign", "exponent", "mantissa", "bound")


def order(words: torch.Tensor) -> torch.Tensor:
    """Integers in the order of the values."""
    wide = words.long()
    mask = 0x7FFF if words.dtype == torch.int16 else 0x7FFF_FFFF
    return torch.where(wide < 0, -(wide & mask), wide)


def change(current: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
    """Shares and bits of the change from one tensor to another, then planes of XOR."""
    new, old = words_of(current), words_of(base)
    counts = halves(new ^ old)
    xor = planes(counts)
    top = counts[-1].view(2, 256, 128)
    exponent_changed = top[:, 1:].sum() / new.numel()
    difference = order(new) - order(old)
    length = torch.frexp(difference.abs().double()).exponent.long()
    symbol = length * difference.sign() + CLASSES // 2
    context = (old.int() >> (7 if new.dtype == torch.int16 else 23)) & 0xFF
    joint = torch.bincount(context * CLASSES + symbol, minlength=256 * CLASSES)
    joint = joint.view(256, CLASSES)
    payload = (length - 1).clamp(min=0).double().mean()
    unchanged = (new == old).double().mean()
    both = [entropy(joint.sum(0)) + payload, entropy(joint) + payload]
    return torch.stack([unchanged, exponent_changed, sum(xor), *both, *xor])


CHANGE = ("unchanged", "exponent_changed", "xor", "difference", "difference_given_exponent")


def mean(names: tuple[str, ...], parts: Iterable[tuple[int, torch.Tensor]]) -> dict[str, object]:
    """The mean over tensors, by their number of values, with names; the rest are planes."""
    parts = list(parts)
    total = sum(values for values, _ in parts)
    sums = sum(values * figures.cpu() for values, figures in parts) / total
    figures = [round(x, 6) for x in sums.tolist()]
    named = dict(zip(names, figures, strict=False))
    return {"values": total, **named, "planes": figures[len(names) :]}
