"""Files of torch, and of torch.distributed.checkpoint."""

from __future__ import annotations

import collections
import io
import os
import pathlib
import pickle
import random
from collections.abc import Iterator

from common import Tensor, any_name, any_shape, write_list

TORCH = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16",
    "float8_e4m3fn": "f8_e4m3", "float8_e5m2": "f8_e5m2", "float8_e4m3fnuz": "f8_e4m3fnuz",
    "float8_e5m2fnuz": "f8_e5m2fnuz", "float8_e8m0fnu": "f8_e8m0", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
    "uint64": "u64", "bool": "bool", "complex32": "c32", "complex64": "c64", "complex128": "c128",
    "float4_e2m1fn_x2": "f4_e2m1",
}  # fmt: skip


def torch_tensor(rng: random.Random, old: bool = False):
    """A tensor with random bits; some are views."""
    import torch

    # Files of the old format with other types are written, but torch itself cannot read them.
    is_new = ("uint16", "uint32", "uint64", "float8", "float4", "complex32")
    name = rng.choice([n for n in TORCH if not (old and n.startswith(is_new))])
    dtype = getattr(torch, name)
    shape = any_shape(rng)
    count = 1
    for dim in shape:
        count *= dim
    size = dtype.itemsize
    raw = torch.frombuffer(bytearray(rng.randbytes(count * size + size)), dtype=torch.uint8)
    if name == "bool":
        raw = raw & 1
    flat = raw.view(dtype)
    kind = rng.randrange(6)
    if kind == 0:
        return flat[1:].view(shape)
    if name == "float32" and kind == 1:
        return torch.quantize_per_tensor(
            torch.rand(shape), 0.1, 3, rng.choice([torch.qint8, torch.quint8, torch.qint32])
        )
    whole = flat[: len(flat) - 1].clone() if kind < 5 else flat[: len(flat) - 1]
    whole = whole.view(shape)
    if kind == 1 and len(shape) > 1:
        return whole.transpose(0, -1)
    if kind == 2:
        return torch.nn.Parameter(whole, requires_grad=dtype.is_floating_point)
    if kind == 3 and len(shape) > 0 and shape[0] > 1:
        return whole[1:]
    return whole


def torch_state(rng: random.Random, depth: int = 0, old: bool = False):
    """Dicts and lists of tensors, some of them twice."""
    import torch

    def one():
        roll = rng.random()
        if depth < 3 and roll < 0.25:
            return torch_state(rng, depth + 1, old)
        if roll < 0.35:
            return rng.choice([None, 1.5, "text", 2**70, b"bytes", True, torch.float32])
        return torch_tensor(rng, old)

    items = [one() for _ in range(rng.randrange(1, 6))]
    if rng.random() < 0.3:
        items.append(items[0])
    if rng.random() < 0.2:
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4)).to(torch.bfloat16)
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(2, 3, dtype=torch.bfloat16)).sum().backward()
        optimizer.step()
        items += [model.state_dict(), optimizer.state_dict()]
    match rng.randrange(3):
        case 0:
            return items
        case 1:
            return tuple(items)
    return {rng.choice([any_name(rng), rng.randrange(-5, 99)]): item for item in items}


def torch_walk(value, path: str = "") -> Iterator[Tensor]:
    """The tensors of a state with their paths."""
    import torch

    def below(key) -> str:
        return f"{path}.{key}" if path else str(key)

    if isinstance(value, torch.Tensor):
        dtype = TORCH[str(value.dtype).removeprefix("torch.").replace("q", "")]
        shape = list(value.shape)
        if dtype == "f4_e2m1":
            shape = [*shape[:-1], 2 * shape[-1]] if shape else [2]
        data: bytes | str = "Strided"
        if value.is_contiguous():
            start = value.storage_offset() * value.element_size()
            end = start + value.numel() * value.element_size()
            data = bytes(value.untyped_storage()[start:end]) if start < end else b""
        yield path, dtype, shape, data
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from torch_walk(item, below(key))
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from torch_walk(item, below(i))


def write_torch(folder: pathlib.Path, rng: random.Random, i: int) -> None:
    import torch

    for zipped in [True, False]:
        path = folder / f"{i}.{'pt' if zipped else 'legacy.pt'}"
        protocol = rng.choice([2, 2, 3, 4, 5])
        torch.save(
            torch_state(rng, old=not zipped),
            path,
            pickle_protocol=protocol,
            _use_new_zipfile_serialization=zipped,
        )
        label = "torch.save" if zipped else "torch.save (legacy)"
        write_list(path, label, list(torch_walk(torch.load(path, weights_only=False))))


def write_dcp_lists(folder: pathlib.Path) -> None:
    """Lists what each file of a checkpoint holds, by the names in its metadata."""
    import torch

    metadata = pickle.loads((folder / ".metadata").read_bytes())
    entries = metadata.storage_data.items()
    shards = collections.Counter(index.fqn for index, _ in entries)
    for path in folder.glob("*.distcp"):
        file, rows = path.read_bytes(), []
        if not file:
            # A thread that had nothing to write.
            continue
        for index, info in entries:
            if info.relative_path == path.name:
                is_shard = index.offset is not None and shards[index.fqn] > 1
                name = f"{index.fqn} {list(index.offset)}" if is_shard else index.fqn
                data = io.BytesIO(file[info.offset : info.offset + info.length])
                rows += torch_walk(torch.load(data, weights_only=False), name)
        write_list(path, "torch.distributed.checkpoint", rows)


def write_dcp(folder: pathlib.Path, rng: random.Random, i: int) -> None:
    import torch.distributed.checkpoint as dcp

    folder = folder / f"dcp-{i}"
    count, is_single = rng.choice([1, 2, 5]), rng.random() < 0.3
    writer = dcp.FileSystemWriter(folder, single_file_per_rank=is_single, thread_count=count)
    state = {"model": torch_state(rng, old=True), "step": i, "extra": {"x": torch_tensor(rng)}}
    dcp.save(state, storage_writer=writer, no_dist=True)
    write_dcp_lists(folder)


def write_shards(rank: int, folder: pathlib.Path) -> None:
    """Checkpoints of two processes with half of each tensor."""
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    rng = random.Random("shards")
    for i in range(10):
        state = {}
        for k in range(rng.randrange(1, 9)):
            shape = [rng.randrange(1, 20), rng.randrange(1, 20)]
            data = bytearray(rng.randbytes(4 * shape[0] * shape[1]))
            whole = torch.frombuffer(data, dtype=torch.int32)
            state[f"layer.{k}"] = distribute_tensor(whole.view(shape), mesh, [Shard(k % 2)])
        dcp.save(state, checkpoint_id=folder / f"shards-{i}")
        if rank == 0:
            write_dcp_lists(folder / f"shards-{i}")
        dist.barrier()
    dist.destroy_process_group()
