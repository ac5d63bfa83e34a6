"""Times the Python peers beside our levels, one thread, interleaved; see bench/README.md.

Run it with bench/peers.sh, which makes the environment and builds lmc-bench.
"""

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "python"))
from engines import Engine, peers  # noqa: E402

GIB = 1 << 30
LENGTH_LEN = 4  # What a container needs for the length of a piece.
DTYPES = {s: s for s in ("bf16", "f32", "f16", "fp8")} | {"adam-m": "f32", "adam-v": "f32"}
FILE_DTYPES = {"BF16": "bf16", "F16": "f16", "F32": "f32", "F8_E4M3": "fp8"}
WORDS = {"bf16": np.uint16, "f16": np.uint16, "f32": np.uint32, "fp8": np.uint8}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lmc-bench", required=True, help="the lmc-bench binary")
    parser.add_argument("--sets", default="bf16,f32,adam-m,adam-v,f16,fp8")
    parser.add_argument("--size-mib", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--levels", default="fast,default", help="ours, timed in the same rounds")
    parser.add_argument("--json", help="write the rows to this file too")
    parser.add_argument("--no-corpus-bits", action="store_true", help="speed only")
    return parser.parse_args()


def run_lmc_bench(binary, *args):
    """Output of the Rust program; on a failure its message, or ours if there is no corpus."""
    done = subprocess.run([binary, *args], stdout=subprocess.PIPE, check=True, text=True)
    if done.stdout.startswith("no corpus"):
        print(done.stdout, end="")
        sys.exit(0)
    return done.stdout


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        names = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    return names[0] if names else platform.machine()


def cut(data, parts, dtype):
    """The tensors of a dumped buffer."""
    pieces, start = [], 0
    for part in parts:
        pieces.append(data[start : start + part["len"]].view(WORDS[dtype]))
        start += part["len"]
    return pieces


def first_pieces(pieces, len_max):
    """Whole pieces from the front, up to `len_max` bytes; one at least."""
    ends = np.cumsum([p.nbytes for p in pieces])
    return pieces[: max(1, int(np.searchsorted(ends, len_max, side="right")))]


def verify(engine: Engine, pieces, outputs):
    for piece, output in zip(pieces, outputs, strict=True):
        if engine.as_bytes(output) != memoryview(piece).cast("B"):
            raise SystemExit(f"{engine.name} {engine.level}: the output differs from the input")


def run_once(engine, pieces, outs, best):
    """One timed round trip; `best` keeps the fastest times."""
    prepared = engine.prepare(pieces)
    for out in outs if best["repeats"] == 0 else []:
        out.fill(1)  # What an earlier engine left there must not pass for a result.
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    coded = engine.compress(prepared)
    middle = time.perf_counter()
    outputs = engine.decompress(coded, outs)
    end = time.perf_counter()
    gc.enable()
    if best["repeats"] == 0:
        verify(engine, pieces, outputs)
    best["repeats"] += 1
    best["bytes_in"] = sum(p.nbytes for p in pieces)
    best["bytes_out"] = sum(len(memoryview(c).cast("B")) + LENGTH_LEN for c in coded)
    best["compress_s"] = min(best["compress_s"], middle - start)
    best["decompress_s"] = min(best["decompress_s"], end - middle)


def run_ours(args, path, set_name, best_rows):
    """One round of our levels in a process of their own, on the same file."""
    options = ["--file", path, "--parts", path + ".parts.json", "--dtype", DTYPES[set_name]]
    options += ["--levels", args.levels, "--repeats", "1", "--json", "-"]
    for row in json.loads(run_lmc_bench(args.lmc_bench, "time", *options))["rows"]:
        row["set"] = set_name
        row["engine"] = "memcpy-rs" if row["engine"] == "memcpy" else row["engine"]
        best = best_rows.setdefault((row["engine"], row["level"]), {**row, "repeats": 0})
        best["repeats"] += 1
        for key in ("compress_gib_s", "decompress_gib_s"):
            best[key] = max(best[key], row[key])


def peer_row(set_name, engine, best, width, bound):
    values = best["bytes_in"] // width
    return {
        "set": set_name,
        "engine": engine.name,
        "level": engine.level,
        "grouped": False,
        "base": False,
        "threads": 1,
        "bytes_in": best["bytes_in"],
        "bytes_out": best["bytes_out"],
        "bits_per_value": best["bytes_out"] * 8 / values,
        "bound_bits": bound / values,
        "compress_gib_s": best["bytes_in"] / GIB / best["compress_s"],
        "decompress_gib_s": best["bytes_in"] / GIB / best["decompress_s"],
        "repeats": best["repeats"],
        "machine": machine(),
        "simd": "",
    }


def time_set(args, set_name, folder):
    """All rows of one set: every round runs each peer once, then our levels once."""
    path = os.path.join(folder, set_name)
    size = ["--size-mib", str(args.size_mib)]
    run_lmc_bench(args.lmc_bench, "dump", "--set", set_name, *size, "--out", path)
    with open(path + ".parts.json", encoding="utf-8") as file:
        parts = json.load(file)
    pieces = cut(np.fromfile(path, np.uint8), parts, DTYPES[set_name])
    engines = peers(DTYPES[set_name], unsigned=set_name == "adam-v")
    samples = [first_pieces(pieces, engine.sample_len) for engine in engines]
    outs = [np.ones_like(p) for p in pieces]
    unmeasured = {"repeats": 0, "compress_s": float("inf"), "decompress_s": float("inf")}
    bests, ours = [dict(unmeasured) for _ in engines], {}
    for _ in range(args.repeats):
        for engine, sample, best in zip(engines, samples, bests):
            run_once(engine, sample, outs[: len(sample)], best)
        run_ours(args, path, set_name, ours)
    rows = []
    for engine, sample, best in zip(engines, samples, bests):
        bound = sum(part["bound_bits"] for part in parts[: len(sample)])
        rows.append(peer_row(set_name, engine, best, pieces[0].itemsize, bound))
    rows += ours.values()
    os.remove(path)
    return with_yardstick(rows)


def with_yardstick(rows):
    """The faster of the two copies is what everything is compared with."""
    memcpy = max(r["compress_gib_s"] for r in rows if r["engine"].startswith("memcpy"))
    return [{**row, "memcpy_gib_s": memcpy} for row in rows]


def print_rows(rows):
    for r in rows:
        above = (r["bits_per_value"] / r["bound_bits"] - 1) * 100
        print(
            f"{r['set']:7} {r['engine']:9} {r['level']:10} "
            f"{'yes' if r['grouped'] else 'no':7} {r['bytes_in']:11} "
            f"{r['bytes_out']:11} {r['bytes_in'] / r['bytes_out']:6.3f} "
            f"{r['bits_per_value']:7.3f} {above:+7.2f} {r['compress_gib_s']:8.3f} "
            f"{r['decompress_gib_s']:8.3f} {r['compress_gib_s'] / r['memcpy_gib_s']:7.3f} "
            f"{r['decompress_gib_s'] / r['memcpy_gib_s']:7.3f}",
            flush=True,
        )


def print_heading():
    print(f"machine: {machine()}; one thread, fastest round")
    print(
        f"{'set':7} {'engine':9} {'level':10} {'grouped':7} "
        f"{'bytes in':>11} {'bytes out':>11} {'ratio':>6} "
        f"{'bits':>7} {'to bnd%':>7} {'c GiB/s':>8} {'d GiB/s':>8} {'c xcpy':>7} {'d xcpy':>7}"
    )


def corpus_folder():
    beside = os.path.join(os.path.dirname(__file__), "../../shared/corpus")
    return os.environ.get("LMC_CORPUS", beside)


def read_safetensors(path):
    """The type and the tensors of a file in which all have one type."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = np.frombuffer(file.read(), np.uint8)
    header.pop("__metadata__", None)
    (dtype,) = {FILE_DTYPES[t["dtype"]] for t in header.values()}
    ranges = sorted(t["data_offsets"] for t in header.values())
    return dtype, [data[start:end].view(WORDS[dtype]) for start, end in ranges]


def peer_bits(engine, pieces):
    coded = engine.compress(engine.prepare(pieces))
    outs = [np.ones_like(p) for p in pieces]
    verify(engine, pieces, engine.decompress(coded, outs))
    bytes_out = sum(len(memoryview(c).cast("B")) + LENGTH_LEN for c in coded)
    values = sum(p.size for p in pieces)
    level = f"{engine.name} {engine.level}"
    return {"level": level, "bytes_out": bytes_out, "bits_per_value": bytes_out * 8 / values}


def corpus_bits(args):
    """Sizes of our levels and of the peers on each original corpus file."""
    files = json.loads(run_lmc_bench(args.lmc_bench, "corpus-bits", "--json", "-"))["corpus_bits"]
    files = [file for file in files if " as " not in file["file"]]
    for file in files:
        path = os.path.join(corpus_folder(), file["file"] + ".safetensors")
        dtype, pieces = read_safetensors(path)
        engines = peers(dtype, unsigned=path.endswith("adam-v.safetensors"))
        file["levels"] += [peer_bits(e, pieces) for e in engines if e.name != "memcpy"]
    return files


def print_corpus_bits(files):
    """One block of lines a file, since there are many engines."""
    print("corpus bits: whole files, tables and lengths included")
    for file in files:
        print(f"{file['file']}: {file['values']} values, bound {file['bound_bits']:.3f}")
        for level in sorted(file["levels"], key=lambda level: level["bits_per_value"]):
            above = (level["bits_per_value"] / file["bound_bits"] - 1) * 100
            print(f"    {level['level']:18} {level['bits_per_value']:7.3f} {above:+6.2f} %")
    print(flush=True)


def main():
    args = parse_args()
    files = [] if args.no_corpus_bits else corpus_bits(args)
    if files:
        print_corpus_bits(files)
    print_heading()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for set_name in args.sets.split(","):
            rows += time_set(args, set_name, folder)
            print_rows([row for row in rows if row["set"] == set_name])
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"rows": rows, "corpus_bits": files}, file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    main()
