"""Buffers and files, there and back, and what goes wrong."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
import threading

import lmckpt
import numpy
import pytest
import torch
from lmckpt import errors


def weights(count: int, seed: int = 0) -> numpy.ndarray:
    """Values like those of a layer, in bf16, as words of 16 bits."""
    values = torch.randn(count, generator=torch.Generator().manual_seed(seed)) * 0.02
    return values.to(torch.bfloat16).view(torch.uint16).numpy()


@pytest.mark.parametrize("level", ["fast", "default", "max"])
def test_buffers(level: str) -> None:
    data = weights(300_000)
    for source in (data, data.tobytes(), bytearray(data), memoryview(data), torch.from_numpy(data)):
        packed = lmckpt.compress(source, level=level, threads=2)
        assert len(packed) < 0.8 * data.nbytes
        assert lmckpt.decompress(packed) == data.tobytes()
    into = numpy.zeros_like(data)
    assert lmckpt.decompress(packed, into=into) is None
    assert (into == data).all()
    assert lmckpt.decompress(lmckpt.compress(b"")) == b""


def test_into_memory_that_is_there() -> None:
    data = weights(2_000_000)
    room = bytearray(data.nbytes + data.nbytes // 1000 + 65_536)
    for source in (data, data[:1000], random.Random(1).randbytes(2_000_000), b""):
        packed = lmckpt.compress(source, into=room)
        assert packed.obj is room and packed == lmckpt.compress(source)
        assert lmckpt.decompress(packed) == bytes(source)
    with pytest.raises(errors.LimitError, match="do not fit into 1000"):
        lmckpt.compress(data, into=bytearray(1000))
    with pytest.raises(errors.InvalidError, match="share memory"):
        lmckpt.compress(data, into=data.view(numpy.uint8)[100_000:])
    with pytest.raises(errors.InvalidError, match="read-only"):
        lmckpt.compress(data, into=bytes(10))


def test_lengths_of_results() -> None:
    """Results that are much shorter than the data, nearly as long, and longer."""
    noise = random.Random(1).randbytes(3_000_000)
    for data in (bytes(5_000_000), noise, weights(3_000_000).tobytes() + noise):
        packed = lmckpt.compress(data, threads=3)
        assert packed == lmckpt.compress(data, threads=1)
        assert lmckpt.decompress(packed) == data
    assert len(lmckpt.compress(noise)) > len(noise)


def test_bases() -> None:
    old = weights(200_000)
    new = old.copy()
    new[::50] += 1
    alone, packed = lmckpt.compress(new), lmckpt.compress(new, bases=[old])
    assert len(packed) < len(alone) / 4
    assert lmckpt.decompress(packed, bases=[old]) == new.tobytes()
    with pytest.raises(errors.LmcError, match="base"):
        lmckpt.decompress(packed)
    with pytest.raises(errors.LmcError, match="base"):
        lmckpt.decompress(packed, bases=[new])


def test_files(tmp_path) -> None:
    source, data = tmp_path / "state.bin", weights(100_000).tobytes()
    source.write_bytes(data)
    packed = lmckpt.compress_file(source)
    assert packed == f"{source}.lmc"
    with pytest.raises(errors.ExistsError):
        lmckpt.compress_file(source)
    lmckpt.compress_file(source, overwrite=True)
    source.unlink()
    assert lmckpt.decompress_file(packed) == str(source)
    assert source.read_bytes() == data
    with pytest.raises(errors.NotFoundError, match="nowhere"):
        lmckpt.compress_file(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="name a target"):
        lmckpt.decompress_file(source)


def test_bad_input() -> None:
    packed = lmckpt.compress(weights(50_000))
    for end in [0, 1, 20, len(packed) // 2, len(packed) - 1]:
        with pytest.raises(errors.CorruptError):
            lmckpt.decompress(packed[:end])
    rng = random.Random(1)
    for _ in range(300):
        bad = bytearray(packed)
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        with pytest.raises(errors.LmcError):
            lmckpt.decompress(bad)
    with pytest.raises(errors.LimitError, match="the limit of 1000; max_size allows more"):
        lmckpt.decompress(packed, max_size=1000)
    for into in (bytearray(99_999), bytearray(100_001)):
        with pytest.raises(errors.InvalidError, match="100000 bytes"):
            lmckpt.decompress(packed, into=into)
    with pytest.raises(errors.InvalidError, match="read-only"):
        lmckpt.decompress(packed, into=bytes(100_000))
    with pytest.raises(errors.InvalidError, match="contiguous"):
        lmckpt.compress(numpy.zeros((10, 10))[:, ::2])
    with pytest.raises(errors.InvalidError, match="not a buffer"):
        lmckpt.compress("text")
    with pytest.raises(errors.InvalidError, match="level"):
        lmckpt.compress(b"x", level="best")


def test_errors_pickle() -> None:
    for name in dir(errors):
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, errors.LmcError):
            again = pickle.loads(pickle.dumps(kind("why")))
            assert type(again) is kind and str(again) == "why"
    with pytest.raises(errors.CorruptError) as caught:
        lmckpt.decompress(b"no file at all")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_threads() -> None:
    """The interpreter continues while the library works, and calls from many threads are right."""
    data = [weights(200_000, seed) for seed in range(4)]
    packed = [b""] * 4

    def work(i: int) -> None:
        for _ in range(3):
            packed[i] = lmckpt.compress(data[i], threads=1)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [lmckpt.decompress(p) for p in packed] == [d.tobytes() for d in data]


def test_fork() -> None:
    data = weights(100_000)
    packed = lmckpt.compress(data)
    child = os.fork()
    if child == 0:
        is_right = lmckpt.decompress(packed) == data.tobytes() and lmckpt.compress(data) == packed
        os._exit(0 if is_right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_command() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from lmckpt._cli import main; sys.exit(main())",
            "--help",
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "compress" in done.stdout


def test_no_torch_needed() -> None:
    script = (
        "import sys, lmckpt; assert 'torch' not in sys.modules and 'numpy' not in sys.modules;"
        "assert lmckpt.decompress(lmckpt.compress(b'abc' * 100)) == b'abc' * 100"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
