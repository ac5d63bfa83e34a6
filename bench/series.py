#!/usr/bin/env python3
"""Series of checkpoints in a store of lmc and in other tools: the space after the last save.

Usage: bench/series.py FOLDER [--only SERIES ...] [--ways WAY ...] [--work DIR] [--json OUT]
       [--files] [--results bench/RESULTS.md]

FOLDER has a folder for each series, and that has one for each step, in the order of their names, as
series_data.py makes them. Each way keeps a series as it would be kept: saved step by step. Every
step is then restored and compared by SHA-256. --files lists how lmc and the others that keep each
file for itself did on each file. --results replaces the section of RESULTS.md that this script
makes. Figures that OUT already has are kept. lmc is taken from LMC or from the PATH; restic, borg
and zstd from the PATH; ZipNN needs its package. A way that is not installed is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import multiprocessing
import platform
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import history
from history import LMC, run, size_of

SECTION = "## Series of other formats"
# Endings of files that are mostly tensors, and therefore given to ZipNN.
WEIGHTS = {".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".distcp", ".tar"}


@dataclass
class Step:
    """One step of a series: its folder, and the SHA-256 of each file by its path."""

    folder: Path
    number: int
    previous: Step | None
    hashes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.hashes = hashes(self.folder)

    @property
    def snapshot(self) -> dict[str, object]:
        """What the tools of history.py take."""
        return {"path": str(self.folder), "run": "run", "step": self.number, "parent": "auto"}

    def before(self, name: str) -> Path | None:
        """The file of the step before: of that name, or else the largest of the same ending."""
        if self.previous is None:
            return None
        if name in self.previous.hashes:
            return self.previous.folder / name
        ending = Path(name).suffix
        found = [self.previous.folder / n for n in self.previous.hashes if n.endswith(ending)]
        return max(found, key=lambda path: path.stat().st_size, default=None)


def hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file of a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    digest = lambda path: hashlib.sha256(path.read_bytes()).hexdigest()
    return {path.relative_to(folder).as_posix(): digest(path) for path in paths}


def series_of(folder: Path) -> list[Step]:
    """The steps of a series."""
    steps: list[Step] = []
    for number, path in enumerate(sorted(path for path in folder.iterdir() if path.is_dir())):
        steps.append(Step(path, number + 1, steps[-1] if steps else None))
    return steps


# --- the ways ----------------------------------------------------------------------------------


class Tool:
    """A tool of history.py: a store of lmc, restic or borg."""

    def __init__(self, kind: type, work: Path) -> None:
        self.tool = kind(str(work))

    def save(self, step: Step) -> None:
        """Keeps a step."""
        self.tool.save(step.number, step.snapshot)

    def restore(self, step: Step, target: Path) -> None:
        """Restores a step."""
        self.tool.restore(step.number, step.snapshot, str(target))

    def size(self) -> int:
        """The bytes of all that was kept."""
        return self.tool.size()

    def sizes(self) -> dict[str, int]:
        """The bytes of each file, where files are kept for themselves."""
        return {}


class PerFile:
    """A way that keeps each file of each step for itself: `pack` and `unpack` are the codec."""

    def __init__(self, work: Path) -> None:
        self.folder = work / "files"

    def pack(self, source: Path, target: Path, step: Step, name: str) -> None:
        """Writes a file in its kept form."""
        raise NotImplementedError

    def unpack(self, source: Path, target: Path, step: Step, name: str) -> None:
        """Restores a file."""
        raise NotImplementedError

    def save(self, step: Step) -> None:
        """Keeps a step."""
        for name in step.hashes:
            target = self.folder / step.folder.name / name
            target.parent.mkdir(parents=True, exist_ok=True)
            self.pack(step.folder / name, target, step, name)

    def restore(self, step: Step, target: Path) -> None:
        """Restores a step."""
        for name in step.hashes:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            self.unpack(self.folder / step.folder.name / name, target / name, step, name)

    def size(self) -> int:
        """The bytes of all that was kept."""
        return size_of(str(self.folder))

    def sizes(self) -> dict[str, int]:
        """The bytes of each file."""
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path.stat().st_size for path in paths}


class Zstd(PerFile):
    """zstd on each file."""

    options: tuple[str, ...] = ("-3",)

    def base(self, step: Step, name: str) -> list[str]:
        """The options that name a base."""
        return []

    def pack(self, source: Path, target: Path, step: Step, name: str) -> None:
        base = self.base(step, name)
        run("zstd", "-q", *self.options, *base, str(source), "-o", str(target))

    def unpack(self, source: Path, target: Path, step: Step, name: str) -> None:
        base = self.base(step, name)
        run("zstd", "-q", "-d", "--long=31", *base, str(source), "-o", str(target))


class Zstd19(Zstd):
    """The same at level 19."""

    options = ("-19",)


class ZstdPatch(Zstd19):
    """The same, each file against that of the step before."""

    def base(self, step: Step, name: str) -> list[str]:
        found = step.before(name)
        return [f"--patch-from={found}"] if found else []


class Zipnn(PerFile):
    """ZipNN on files of tensors, as float32; zstd -3 on others, and where that is smaller.

    ZipNN crashes on floats that are not whole, so the last bytes of a file that does not end on a
    whole one are kept as they are. As a crash takes the process with it, each call has its own, and
    a file that it does not take or does not restore is left to zstd. The marks of the kept forms
    are in their names and not counted.
    """

    def __init__(self, work: Path) -> None:
        super().__init__(work)
        # Here, so that not every process has to.
        importlib.import_module("zipnn")

    def pack(self, source: Path, target: Path, step: Step, name: str) -> None:
        import zstandard

        data = source.read_bytes()
        forms = {".s": zstandard.compress(data, 3)}
        if data and Path(name).suffix in WEIGHTS:
            for mark, base in self.bases(len(data), step, name).items():
                coded = in_child(zipnn_compress, data, base)
                if coded and in_child(zipnn_decompress, coded, base) == data:
                    forms[mark] = coded
                else:
                    print(f"ZipNN does not take {source} {mark}", file=sys.stderr, flush=True)
        mark = min(forms, key=lambda mark: len(forms[mark]))
        target.with_name(target.name + mark).write_bytes(forms[mark])

    def bases(self, size: int, step: Step, name: str) -> dict[str, bytes]:
        """What ZipNN tries: a mark, and the base, which is empty if there is none."""
        return {".z": b""}

    def unpack(self, source: Path, target: Path, step: Step, name: str) -> None:
        import zstandard

        paths = (source.with_name(source.name + mark) for mark in (".s", ".z", ".d"))
        (found,) = filter(Path.exists, paths)
        base = step.before(name).read_bytes() if found.suffix == ".d" else b""
        if found.suffix == ".s":
            target.write_bytes(zstandard.decompress(found.read_bytes()))
        else:
            target.write_bytes(in_child(zipnn_decompress, found.read_bytes(), base))


class ZipnnDelta(Zipnn):
    """The same, and ZipNN's delta against the file of the step before where that is smaller."""

    def bases(self, size: int, step: Step, name: str) -> dict[str, bytes]:
        before = step.before(name)
        same_size = before is not None and before.stat().st_size == size
        return {".z": b""} | ({".d": before.read_bytes()} if same_size else {})


def zipnn_of(base: bytes) -> tuple[Any, dict[str, bytes]]:
    """A ZipNN, and the options of its calls."""
    from zipnn import ZipNN

    base = base[: len(base) - len(base) % 4]
    delta = {"delta_compressed_type": "byte"} if base else {}
    packer = ZipNN(input_format="byte", bytearray_dtype="float32", threads=1, **delta)
    return packer, {"delta_second_data": base} if base else {}


def zipnn_compress(data: bytes, base: bytes) -> bytes:
    """ZipNN's form of a file; it reorders its input in place."""
    packer, more = zipnn_of(base)
    whole = len(data) - len(data) % 4
    tail = data[whole:]
    coded = bytes(packer.compress(bytearray(data[:whole]), **more))
    return bytes([len(tail)]) + tail + coded


def zipnn_decompress(coded: bytes, base: bytes) -> bytes:
    """The file again."""
    packer, more = zipnn_of(base)
    tail, coded = coded[1 : coded[0] + 1], coded[coded[0] + 1 :]
    return bytes(packer.decompress(coded, **more)) + tail


def in_child(function: Callable[[bytes, bytes], bytes], data: bytes, base: bytes) -> bytes | None:
    """What a function returns in a process of its own; None if that fails."""
    ours, theirs = multiprocessing.Pipe(duplex=False)

    def body() -> None:
        theirs.send_bytes(function(data, base))

    child = multiprocessing.get_context("fork").Process(target=body)
    child.start()
    theirs.close()
    try:
        result = ours.recv_bytes()
    except EOFError:
        result = None
    child.join()
    return result if child.exitcode == 0 else None


class Compress:
    """`lmc compress` on each step alone."""

    with_base = False

    def __init__(self, work: Path) -> None:
        self.folder = work / "lmc-files"
        self.folder.mkdir()

    def path(self, step: Step) -> Path:
        """Where a step is kept."""
        return self.folder / (step.folder.name + ".lmc")

    def base(self, step: Step) -> list[str]:
        """The options that name a base."""
        if not self.with_base or step.previous is None:
            return []
        bases = [self.path(step.previous)]
        for name in step.hashes:
            before = step.before(name)
            if name not in step.previous.hashes and before:
                inside = before.relative_to(step.previous.folder).as_posix()
                bases.append(self.path(step.previous) / (inside + ".lmc"))
        return [word for base in bases for word in ("--base", str(base))]

    def save(self, step: Step) -> None:
        """Keeps a step."""
        run(LMC, "compress", "-q", str(step.folder), "-o", str(self.path(step)), *self.base(step))

    def restore(self, step: Step, target: Path) -> None:
        """Restores a step."""
        run(LMC, "decompress", "-q", str(self.path(step)), "-o", str(target), *self.base(step))

    def size(self) -> int:
        """The bytes of all that was kept."""
        return size_of(str(self.folder))

    def sizes(self) -> dict[str, int]:
        """The bytes of each file."""
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        name = lambda path: path.relative_to(self.folder).as_posix().replace(".lmc", "")
        return {name(path): path.stat().st_size for path in paths}


class CompressBase(Compress):
    """`lmc compress` on each step against the step before."""

    with_base = True


WAYS = {
    "lmc save": lambda work: Tool(history.Lmc, work),
    "lmc save --max": lambda work: Tool(history.LmcMax, work),
    "lmc compress": Compress,
    "lmc compress --base": CompressBase,
    "zstd -3": Zstd,
    "zstd -19": Zstd19,
    "zstd -19 --patch-from": ZstdPatch,
    "restic": lambda work: Tool(history.Restic, work),
    "borg": lambda work: Tool(history.Borg, work),
    "ZipNN": Zipnn,
    "ZipNN delta": ZipnnDelta,
}


def installed(way: str) -> bool:
    """Whether what a way needs is there."""
    if way.startswith("ZipNN"):
        return all(map(importlib.util.find_spec, ("zipnn", "zstandard")))
    return shutil.which(LMC if way.startswith("lmc") else way.split()[0]) is not None


# --- the measurement ---------------------------------------------------------------------------


def measure(way: str, steps: list[Step], work: Path) -> tuple[int, dict[str, int]]:
    """Saves all steps, restores and compares them; the bytes kept, in all and of each file."""
    with tempfile.TemporaryDirectory(dir=work) as name:
        folder = Path(name)
        tool = WAYS[way](folder)
        for step in steps:
            tool.save(step)
        size, sizes = tool.size(), tool.sizes()
        for step in steps:
            target = folder / "restored"
            tool.restore(step, target)
            if hashes(target) != step.hashes:
                raise SystemExit(f"{way}: step {step.folder} is not the same when restored")
            shutil.rmtree(target)
        return size, sizes


def versions() -> list[str]:
    """The versions of what is compared."""
    shown = []
    for name, option in {LMC: "-V", "zstd": "-V", "restic": "version", "borg": "-V"}.items():
        if shutil.which(name):
            number = re.search(r"\d+(\.\d+)+", run(name, option))
            shown.append(f"{'lmc' if name == LMC else name} {number[0]}")
    for package in ("zipnn", "torch", "transformers", "lightning"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            shown.append(f"{package} {importlib.metadata.version(package)}")
    return shown


def cpu() -> str:
    """The name of the CPU."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def table(results: dict[str, dict[str, int]]) -> Iterator[str]:
    """The lines of the Markdown table: a row for each way, a column for each series."""
    yield "| MB | " + " | ".join(results) + " |"
    yield "|---" * (len(results) + 1) + "|"
    yield "| steps | " + " | ".join(str(row["steps"]) for row in results.values()) + " |"
    for way in ("files", *WAYS):
        cells = []
        for row in results.values():
            least = min((row[w] for w in row if w in WAYS), default=None)
            text = f"{row[way] / 1e6:.2f}" if way in row else "-"
            cells.append(f"**{text}**" if way in WAYS and row.get(way) == least else text)
        if any(way in row for row in results.values()):
            yield f"| {'the files' if way == 'files' else way} | " + " | ".join(cells) + " |"


def verdict(results: dict[str, dict[str, int]]) -> Iterator[str]:
    """For each series, the store of lmc beside the smallest of the others."""
    for name, row in results.items():
        peers = {way: row[way] for way in WAYS if way in row and not way.startswith("lmc")}
        if "lmc save" in row and peers:
            best = min(peers, key=peers.get)
            change = 100 * (row["lmc save"] / peers[best] - 1)
            word = "less" if change < 0 else "more"
            yield f"* {name}: {abs(change):.1f} % {word} than {best}, the smallest of the others."
    alone = ("zstd -3", "zstd -19", "ZipNN")
    behind = []
    for name, row in results.items():
        least = min((row[way] for way in alone if way in row), default=0)
        if least and row.get("lmc compress", 0) > least:
            behind.append(f"{name} ({100 * (row['lmc compress'] / least - 1):.1f} %)")
    yield ""
    yield "Without the step before, `lmc compress` is larger than the smallest of the others that"
    yield f"have only the step ({', '.join(alone)}) on: {', '.join(behind) or 'none'}."


def section(results: dict[str, dict[str, int]]) -> str:
    """The section of RESULTS.md."""
    intro = f"""Checkpoints that `series_data.py` makes, saved step by step by `series.py`;
    [README.md](README.md#series) describes the series and the ways. Sizes are those of all files
    that were written, in MB (10^6 bytes), after the last save. Every step was restored and compared
    by SHA-256. The smallest of each series is in bold. Machine: {cpu()}. Versions:
    {", ".join(versions())}."""
    words = " ".join(intro.split())
    text = textwrap.fill(words, 120, break_on_hyphens=False, break_long_words=False)
    rows = [*table(results), "", "The store of lmc (`lmc save`) takes:", ""]
    return "\n".join([SECTION, "", text, "", *rows, *verdict(results), ""])


def write_section(path: Path, text: str) -> None:
    """Replaces the section in a file, or adds it at the end."""
    before, _, rest = path.read_text().partition(SECTION)
    after = re.search(r"^## .*", rest, re.MULTILINE | re.DOTALL)
    parts = [before.rstrip("\n") + "\n\n" + text]
    parts += ["\n" + after[0]] if after else []
    path.write_text("".join(parts))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", help="the series to measure")
    parser.add_argument("--ways", nargs="*", choices=WAYS, help="measured, even if OUT has them")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument(
        "--json", type=Path, metavar="OUT", help="what it has is not measured again"
    )
    parser.add_argument("--files", action="store_true", help="also list what each file takes")
    parser.add_argument("--results", type=Path, help="replace the section of this file")
    options = parser.parse_args()
    known: dict[str, dict[str, int]] = {}
    if options.json and options.json.exists():
        known = json.loads(options.json.read_text())
    names = sorted(path.name for path in options.folder.iterdir() if path.is_dir())
    for name in options.only if options.only is not None else names:
        steps = series_of(options.folder / name)
        row = known.setdefault(name, {})
        row |= {"steps": len(steps), "files": sum(size_of(str(step.folder)) for step in steps)}
        wanted = options.ways or [way for way in WAYS if way not in row]
        for way in filter(installed, wanted):
            row[way], sizes = measure(way, steps, options.work)
            print(f"{name}: {way}: {row[way]}", file=sys.stderr, flush=True)
            for path, size in sizes.items() if options.files else ():
                print(f"{name}\t{path}\t{way}\t{size}")
            if options.json:
                options.json.write_text(json.dumps(known, indent=1) + "\n")
    print(section(known))
    if options.results:
        write_section(options.results, section(known))


if __name__ == "__main__":
    main()
