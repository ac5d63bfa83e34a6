"""One rank of a test of distributed checkpoints: dcp_worker.py RANK RANKS FOLDER JOBS."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from lmckpt import dcp as store_dcp
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

# Rows that 2 and 3 ranks share unevenly.
SHAPES = {"model.embed": (1001, 96), "model.norm": (640,), "optim.state.embed.exp_avg": (1001, 96)}


def full(name: str, step: int) -> torch.Tensor:
    """The values of a tensor at a step: most change a little."""
    generator = torch.Generator().manual_seed(len(name))
    first = torch.randn(SHAPES[name], generator=generator) * 0.02
    change = torch.randn(SHAPES[name], generator=generator)
    return (first + step * 1e-5 * change).to(torch.bfloat16 if "model" in name else torch.float32)


def state(step: int) -> dict[str, Any]:
    """A state whose matrices are sharded; the rest is the same on all ranks."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))

    def tensor(name: str) -> DTensor:
        placement = Replicate() if name == "model.norm" else Shard(0)
        return distribute_tensor(full(name, step), mesh, [placement])

    return {
        "model": {"embed": tensor("model.embed"), "norm": tensor("model.norm")},
        "optim": {
            "state": {"embed": {"exp_avg": tensor("optim.state.embed.exp_avg")}},
            "param_groups": [{"lr": 1e-3 * step, "betas": (0.9, 0.95), "names": ["embed"]}],
        },
        "step": step,
        "plain": torch.full((), float(step), dtype=torch.float64),
    }


def check(found: dict[str, Any], step: int) -> None:
    """Fails unless a state is that of a step."""
    for name in SHAPES:
        value: Any = found
        for part in name.split("."):
            value = value[part]
        assert torch.equal(value.full_tensor(), full(name, step)), name
    group = found["optim"]["param_groups"][0]
    assert group == {"lr": 1e-3 * step, "betas": (0.9, 0.95), "names": ["embed"]}, group
    assert found["step"] == step and found["plain"].item() == step


def save(folder: Path, options: dict[str, Any]) -> None:
    """Saves the state of a step."""
    writer = store_dcp.StoreWriter(options.get("url", folder / "store"), "run", options["step"])
    dcp.save(state(options["step"]), storage_writer=writer)
    assert (writer.snapshot is not None) == (dist.get_rank() == 0)


def load(folder: Path, options: dict[str, Any]) -> None:
    """Loads the state of a step and compares it."""
    found = state(0)
    reader = store_dcp.StoreReader(
        options.get("url", folder / "store"), options.get("name", f"run@{options['step']}")
    )
    dcp.load(found, storage_reader=reader)
    check(found, options["step"])


def save_async(folder: Path, options: dict[str, Any]) -> None:
    """Saves in the background with one writer while the tensors are changed."""
    kind = AsyncCheckpointerType[options["kind"]]
    writer = store_dcp.StoreWriter(folder / "store", "run")
    for step in options["steps"]:
        values = state(step)
        response = dcp.async_save(
            values,
            checkpoint_id=f"step-{step}",
            storage_writer=writer,
            async_checkpointer_type=kind,
        )
        saved = response if not hasattr(response, "upload_completion") else None
        if saved is None:
            response.staging_completion.result()
            saved = response.upload_completion
        # Staged: what happens to the tensors now is not saved.
        values["model"]["embed"].to_local().fill_(7)
        values["optim"]["state"]["embed"]["exp_avg"].to_local().fill_(7)
        saved.result()


def die(folder: Path, options: dict[str, Any]) -> None:
    """Saves, with one rank killed in the middle of its write."""
    if dist.get_rank() == options["rank"]:
        whole = store_dcp.StoreWriter.write_data

        def killed(self: Any, plan: Any, planner: Any) -> Any:
            if options["when"] == "after":
                whole(self, plan, planner)
            os.kill(os.getpid(), signal.SIGKILL)

        store_dcp.StoreWriter.write_data = killed  # type: ignore[method-assign]
    save(folder, options)


def save_again(folder: Path, options: dict[str, Any]) -> None:
    """Several saves with one writer and plans that are cached, the steps by checkpoint_id."""
    writer = store_dcp.StoreWriter(folder / "store", "run")
    for step in options["steps"]:
        planner = dcp.DefaultSavePlanner(enable_plan_caching=True)
        dcp.save(
            state(step), checkpoint_id=f"out/step-{step}", storage_writer=writer, planner=planner
        )


def main() -> None:
    """Runs jobs on one rank, one after the other: starting up takes longer than most of them."""
    rank, ranks, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    meeting, jobs = json.loads(sys.argv[4])
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/{meeting}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=60),
    )
    for name, options in jobs:
        globals()[name](folder, options)
        dist.barrier()
    dist.destroy_process_group()
    # As examples/train_fsdp.py does, which says why; the process of async_save is a child.
    for child in multiprocessing.active_children():
        child.terminate()
        child.join()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
