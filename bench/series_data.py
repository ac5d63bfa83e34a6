#!/usr/bin/env python3
"""Makes the checkpoints of series.py: small models trained on the CPU, and published ones.

Usage: bench/series_data.py FOLDER [--only SERIES ...] [--wheels FOLDER]

FOLDER gets a folder for each series with one for each step. Needs torch and pip; hf-trainer needs
transformers and accelerate, lightning its package, and dcp lmckpt, which its example imports.
--wheels keeps the packages that are downloaded.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STEPS = 5
# Steps of training from one checkpoint to the next.
EVERY = 20
BATCH, CONTEXT = 8, 64

# Published models: the package, and the files of each step.
OPENFF = "openff/nagl_models/models/am1bcc/openff-gnn-am1bcc-"
SEVENN = "sevenn/pretrained_potentials/"
RXNFP = "rxnfp/models/transformers/"
PUBLISHED = {
    "openff-nagl": (
        "openff-nagl-models==2025.9.0",
        [
            f"{OPENFF}{version}.pt"
            for version in ("0.1.0-rc.1", "0.1.0-rc.2", "0.1.0-rc.3", "1.0.0")
        ],
    ),
    "chgnet": (
        "chgnet==0.4.2",
        [f"chgnet/pretrained/{version}/*.tar" for version in ("0.2.0", "0.3.0", "r2scan")],
    ),
    "sevenn": (
        "sevenn==0.13.0",
        [
            f"{SEVENN}{version}/*.pth"
            for version in (
                "SevenNet_0__22May2024",
                "SevenNet_0__11Jul2024",
                "SevenNet_MF_0",
                "SevenNet_l3i5",
            )
        ],
    ),
    "rxnfp": (
        "rxnfp==0.1.0",
        [f"{RXNFP}{model}/*.*" for model in ("bert_pretrained", "bert_ft", "bert_ft_10k_25s")],
    ),
}
# What rxnfp has beside the weights is text that never changes.
ENDINGS = (".pt", ".tar", ".pth", ".bin", ".json", ".txt")


def published(name: str, folder: Path, wheels: Path) -> None:
    """The steps of a published model."""
    package, patterns = PUBLISHED[name]
    found = list(wheels.glob(package.split("==")[0].replace("-", "_") + "-*.whl"))
    if not found:
        command = ["download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        command += ["--python-version", "3.11", "--dest", str(wheels), package]
        subprocess.run([sys.executable, "-m", "pip", *command], check=True)
        found = list(wheels.glob(package.split("==")[0].replace("-", "_") + "-*.whl"))
    with zipfile.ZipFile(found[0]) as wheel:
        for number, pattern in enumerate(patterns, 1):
            step = folder / f"step-{number}"
            step.mkdir(parents=True)
            for path in fnmatch.filter(wheel.namelist(), pattern):
                if path.endswith(ENDINGS):
                    (step / Path(path).name).write_bytes(wheel.read(path))


# --- training ----------------------------------------------------------------------------------


def text() -> Any:
    """The documents of the project as bytes."""
    import torch

    data = b"".join(path.read_bytes() for path in sorted((ROOT / "docs").glob("*.md")))
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).long()


def windows(count: int) -> list[dict[str, Any]]:
    """Windows of the text, as language models take them."""
    import torch

    data, draw = text(), torch.Generator().manual_seed(0)
    starts = torch.randint(len(data) - CONTEXT, (count,), generator=draw).tolist()
    parts = [data[start : start + CONTEXT] for start in starts]
    return [{"input_ids": part, "labels": part} for part in parts]


def trainer(folder: Path) -> None:
    """A small Llama in the Trainer of transformers, which writes a folder for each step."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=256,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=3,
        num_attention_heads=6,
        max_position_embeddings=CONTEXT,
    )
    with tempfile.TemporaryDirectory() as work:
        arguments = transformers.TrainingArguments(
            output_dir=work,
            max_steps=STEPS * EVERY,
            save_steps=EVERY,
            per_device_train_batch_size=BATCH,
            learning_rate=5e-4,
            logging_steps=EVERY,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        transformers.Trainer(
            model=transformers.LlamaForCausalLM(config),
            args=arguments,
            train_dataset=windows(STEPS * EVERY * BATCH),
        ).train()
        for number in range(1, STEPS + 1):
            shutil.move(Path(work) / f"checkpoint-{number * EVERY}", folder / f"step-{number}")


def lightning_steps(folder: Path) -> None:
    """The same data in a module of Lightning, with its ModelCheckpoint: one file for each step."""
    import lightning
    import torch
    from lightning.pytorch.callbacks import ModelCheckpoint
    from torch.nn import functional

    class Module(lightning.LightningModule):
        """A model of the next byte."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(256, 192)
            self.lstm = torch.nn.LSTM(192, 256, num_layers=2, batch_first=True)
            self.head = torch.nn.Linear(256, 256)

        def training_step(self, batch: dict[str, Any], _: int) -> Any:
            tokens = batch["input_ids"]
            logits = self.head(self.lstm(self.embed(tokens[:, :-1]))[0])
            return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    lightning.seed_everything(0)
    loader = torch.utils.data.DataLoader(windows(STEPS * EVERY * BATCH), BATCH, shuffle=True)
    with tempfile.TemporaryDirectory() as work:
        keep = ModelCheckpoint(work, every_n_train_steps=EVERY, save_top_k=-1)
        lightning.Trainer(
            accelerator="cpu",
            max_steps=STEPS * EVERY,
            callbacks=[keep],
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        ).fit(Module(), loader)
        made = sorted(Path(work).glob("*.ckpt"), key=lambda path: path.stat().st_mtime)
        for number, path in enumerate(made, 1):
            (folder / f"step-{number}").mkdir()
            shutil.move(path, folder / f"step-{number}" / path.name)


def rank_of_dcp(rank: int, port: int, folder: Path) -> None:
    """One of two ranks that train a small GPT with FSDP2 and save by torch.distributed."""
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn import functional

    sys.path.insert(0, str(ROOT / "examples"))
    from train_gpt import Gpt, batch

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data, model = text(), Gpt(192, 3, 3, CONTEXT)
    mesh = init_device_mesh("cpu", (2,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for number in range(1, STEPS + 1):
        for _ in range(EVERY):
            x, y = (part.chunk(2)[rank] for part in batch(data, CONTEXT, BATCH))
            loss = functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        weights, moments = get_state_dict(model, optimizer)
        step = folder / f"step-{number}"
        dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=str(step))
    dist.destroy_process_group()


def distributed(folder: Path) -> None:
    """Two ranks, each with its shard of the weights and of the moments of AdamW."""
    import torch

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    torch.multiprocessing.spawn(rank_of_dcp, (port, folder), nprocs=2)


TRAINED = {"hf-trainer": trainer, "lightning": lightning_steps, "dcp": distributed}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[*TRAINED, *PUBLISHED])
    parser.add_argument("--wheels", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.only:
            folder = options.folder / name
            folder.mkdir(parents=True)
            if name in TRAINED:
                TRAINED[name](folder)
            else:
                published(name, folder, options.wheels or Path(temporary))
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            print(f"{name}: {len(list(folder.iterdir()))} steps, {size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
