"""The functions of safetensors: what they do here is what they do there."""

from __future__ import annotations

from pathlib import Path

import lmckpt
import ml_dtypes
import numpy
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch
import torch
from lmckpt import _lmckpt, errors, safe_open
from lmckpt import numpy as lmc_numpy
from lmckpt import torch as lmc_torch
from lmckpt._lmckpt import HEADER_JSON_LEN_MAX
from lmckpt.safetensors import dtypes
from lmckpt.safetensors.dtypes import torch_dtypes
from lmckpt.safetensors.torch import serialize

DTYPES = [*torch_dtypes().name_of, *torch_dtypes().words_of]


def values(dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """Every bit pattern may be there: NaNs with payloads, denormals, -0."""
    size = torch.empty(0, dtype=dtype).element_size()
    count = size
    for n in shape:
        count *= n
    data = torch.randint(0, 256, (count,), dtype=torch.uint8)
    if dtype == torch.bool:
        data %= 2
    if not count:
        return torch.empty(shape, dtype=dtype)
    return data.view(dtype).reshape(shape)


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are the same, bit by bit."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    words = [t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (one, other)]
    return torch.equal(*words)


def test_the_table_of_types_agrees_with_torch_and_numpy() -> None:
    for row in dtypes.TABLE:
        if row.torch is not None and (found := dtypes.torch_dtype(row.torch)) is not None:
            assert found.itemsize * 8 == (8 if row.name in dtypes.PACKED else row.bits), row
            assert torch_dtypes().name_of[found] == row.name
        if row.numpy is not None:
            assert numpy.dtype(row.numpy).itemsize * 8 == row.bits, row
            assert dtypes.NAME_OF_NUMPY[row.numpy] == row.name
    assert len(dtypes.BITS) == len(dtypes.TABLE)
    for found, words in torch_dtypes().words_of.items():
        assert found.itemsize * 8 % dtypes.BITS[words] == 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type(dtype: torch.dtype, tmp_path) -> None:
    shapes = [(4,), (3, 50), (2, 3, 4), (0, 7), (1000, 30)]
    if dtype not in torch_dtypes().packed:
        shapes.append(())
    tensors = {f"t{i}": values(dtype, shape) for i, shape in enumerate(shapes)}
    lmc_torch.save_file(tensors, tmp_path / "x.lmc", {"step": "7"})
    for found in (
        lmc_torch.load_file(tmp_path / "x.lmc"),
        lmc_torch.load(lmc_torch.save(tensors)),
    ):
        assert found.keys() == tensors.keys()
        assert all(same(found[name], tensors[name]) for name in tensors)
    with safe_open(tmp_path / "x.lmc", "pt") as file:
        assert file.metadata()["step"] == "7"
        assert all(same(file.get_tensor(name), tensors[name]) for name in file)


def test_layouts(tmp_path) -> None:
    """What safetensors refuses is saved as it looks: strided, shared, a view of another."""
    base = torch.randn(40, 30)
    tensors = {
        "t": base.t(),
        "strided": base[::2, 3:9],
        "shared": base,
        "again": base,
        "expanded": torch.randn(1, 5).expand(4, 5),
        "parameter": torch.nn.Parameter(torch.randn(3)),
        "conjugate": torch.randn(4, dtype=torch.complex64).conj(),
        "channels": torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    }
    lmc_torch.save_file(tensors, tmp_path / "x.lmc")
    found = lmc_torch.load_file(tmp_path / "x.lmc")
    for name, tensor in tensors.items():
        assert same(found[name], tensor.detach().resolve_conj().contiguous()), name
    assert all(found[name].is_contiguous() for name in found)
    lazy = torch.nn.LazyLinear(2).weight
    for bad in (torch.randn(3, 3).to_sparse(), torch.empty(3, device="meta"), lazy):
        with pytest.raises(errors.InvalidError, match="^bad: "):
            lmc_torch.save({"bad": bad})


def test_inner_file_is_safetensors(tmp_path) -> None:
    """The original is a safetensors file that safetensors itself reads, and the other way round."""
    import lmckpt

    tensors = {
        "a": torch.randn(5, 6),
        "b": torch.randn(7).bfloat16(),
        "c": torch.ones(3, dtype=torch.int8),
    }
    lmc_torch.save_file(tensors, tmp_path / "x.lmc", {"k": "v"})
    plain = lmckpt.decompress_file(tmp_path / "x.lmc", tmp_path / "x.safetensors")
    with safetensors.safe_open(plain, "pt") as file:
        assert file.metadata() == {"k": "v"}
        assert all(same(file.get_tensor(name), tensors[name]) for name in tensors)
    # Byte for byte what safetensors writes.
    assert Path(plain).read_bytes() == safetensors.torch.save(tensors, {"k": "v"})
    safetensors.torch.save_file(tensors, tmp_path / "y.safetensors")
    found = lmc_torch.load_file(tmp_path / "y.safetensors")
    assert all(same(found[name], tensors[name]) for name in tensors)


def test_numpy(tmp_path) -> None:
    arrays = {
        f"{dtype}": (numpy.random.default_rng(1).random((20, 3)) * 50).astype(dtype)
        for dtype in [
            "bool",
            "u1",
            "i1",
            "u2",
            "i2",
            "f2",
            "u4",
            "i4",
            "f4",
            "c8",
            "u8",
            "i8",
            "f8",
        ]
    }
    arrays["bf16"] = numpy.ones((4, 4), ml_dtypes.bfloat16)
    arrays["fp8"] = numpy.ones((4, 4), ml_dtypes.float8_e4m3fn)
    arrays["transposed"] = arrays["f4"].T
    arrays["scalar"] = numpy.array(3.5)
    arrays["big"] = numpy.arange(5, dtype=">i4")
    lmc_numpy.save_file(arrays, tmp_path / "x.lmc", {"k": "v"})
    for found in (lmc_numpy.load_file(tmp_path / "x.lmc"), lmc_numpy.load(lmc_numpy.save(arrays))):
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            assert found[name].shape == array.shape, name
            assert found[name].dtype == array.dtype.newbyteorder("="), name
            assert numpy.array_equal(found[name], array), name
    with safe_open(tmp_path / "x.lmc", "np") as file:
        assert numpy.array_equal(file.get_tensor("f4"), arrays["f4"])
    for bad in (numpy.array(["text"]), numpy.array([None]), [1, 2]):
        with pytest.raises(errors.InvalidError):
            lmc_numpy.save({"bad": bad})


SLICES = [
    slice(None), slice(2, 5), slice(-3, None), slice(0, 0), slice(None, None, 3), 4, -1,
    (slice(1, 4), slice(2, 3)), (slice(None), 0), (5, slice(None, 2)), (slice(3, 1),), Ellipsis,
    (slice(None), slice(None), 1), (2, 3, 1),
]  # fmt: skip


@pytest.mark.parametrize("index", SLICES, ids=repr)
def test_slices(index, tmp_path) -> None:
    tensor = torch.randn(10, 6, 4)
    lmc_torch.save_file({"x": tensor}, tmp_path / "x.lmc")
    safetensors.torch.save_file({"x": tensor}, tmp_path / "x.safetensors")
    with safe_open(tmp_path / "x.lmc", "pt") as file:
        found = file.get_slice("x")
        assert found.get_shape() == [10, 6, 4] and found.get_dtype() == "F32"
        assert same(found[index], tensor[index])


def test_slice_reads_little(tmp_path) -> None:
    """Rows are read without the rest, also through a base."""
    base = torch.randn(20_000, 200).bfloat16()
    tensor = base.clone()
    tensor[::7] += 0.01
    lmc_torch.save_file({"x": base}, tmp_path / "base.lmc")
    lmc_torch.save_file({"x": tensor}, tmp_path / "x.lmc", base=tmp_path / "base.lmc")
    whole = bytearray((tmp_path / "x.lmc").read_bytes())
    # Most of the body is damaged: the rows at its start do not care.
    middle = len(whole) // 2
    whole[middle : middle + 1000] = bytes(1000)
    (tmp_path / "x.lmc").write_bytes(whole)
    with safe_open(tmp_path / "x.lmc", "pt") as file:
        assert same(file.get_slice("x")[10:20], tensor[10:20])
        with pytest.raises(errors.CorruptError):
            file.get_tensor("x")


def test_behaviour(tmp_path) -> None:
    """What the documentation of safetensors says of wrong calls."""
    tensors = {"b": torch.ones(2), "a": torch.zeros(3)}
    path = tmp_path / "x.lmc"
    lmc_torch.save_file(tensors, path)
    with safe_open(path, framework="pt", device="cpu") as file:
        assert file.keys() == ["a", "b"] and len(file) == 2 and "a" in file and "z" not in file
        assert file.metadata() is None
        assert {name: file.get_tensor(name).sum().item() for name in file} == {"a": 0, "b": 2}
        with pytest.raises(errors.NotFoundError, match="no tensor z"):
            file.get_tensor("z")
        with pytest.raises(IndexError):
            file.get_slice("a")[3]
    with pytest.raises(errors.InvalidError, match="closed"):
        file.get_tensor("a")
    with pytest.raises(errors.InvalidError, match="framework"):
        safe_open(path, "jax")
    with pytest.raises(FileNotFoundError):
        safe_open(tmp_path / "nowhere", "pt")
    with pytest.raises(errors.InvalidError, match="metadata"):
        lmc_torch.save(tensors, {"step": 3})
    with pytest.raises(errors.InvalidError, match="dict"):
        lmc_torch.save([torch.ones(1)])
    with pytest.raises(errors.InvalidError, match="tensor"):
        lmc_torch.save({"x": 3})
    assert lmc_torch.load(lmc_torch.save({})) == {}
    # An older file stays as it was if the new one cannot be written.
    before = path.read_bytes()
    with pytest.raises(errors.InvalidError):
        lmc_torch.save_file({"x": 3}, path)
    assert path.read_bytes() == before


def test_save_over_what_is_loaded(tmp_path) -> None:
    """Tensors own their memory: the file that they came from may be written again."""
    path = tmp_path / "x.lmc"
    lmc_torch.save_file({"x": torch.arange(1000.0)}, path)
    tensors = lmc_torch.load_file(path)
    lmc_torch.save_file(tensors, path)
    assert torch.equal(lmc_torch.load_file(path)["x"], torch.arange(1000.0))


def padded(json_len: int) -> dict[str, str]:
    """Metadata with which a header of one tensor named "a" has this many bytes."""
    plain = int.from_bytes(serialize({"a": torch.ones(2)}, {"pad": ""})[0][:8], "little")
    header = serialize({"a": torch.ones(2)}, {"pad": "x" * (json_len - plain)})[0]
    # Headers are filled up to eight bytes.
    fill = len(header) - len(header.rstrip(b" "))
    return {"pad": "x" * (json_len - plain + fill)}


def test_what_can_be_saved_can_be_loaded_up_to_the_longest_header(tmp_path) -> None:
    """A header of as many bytes as may be loads from every form; one with a byte more is
    refused."""
    limit = HEADER_JSON_LEN_MAX
    assert limit == 100_000_000  # As in safetensors.
    metadata = padded(limit)
    assert int.from_bytes(serialize({"a": torch.ones(2)}, metadata)[0][:8], "little") == limit
    file = tmp_path / "a.lmc"
    lmc_torch.save_file({"a": torch.ones(2)}, file, metadata, level="fast")
    assert torch.equal(lmc_torch.load_file(file)["a"], torch.ones(2))
    with safe_open(file, "pt") as opened:
        assert opened.keys() == ["a"] and opened.metadata() == metadata
    more = {"pad": metadata["pad"] + "x"}
    with pytest.raises(errors.InvalidError, match="save the tensors in several files"):
        lmc_torch.save_file({"a": torch.ones(2)}, file, more)
    assert torch.equal(lmc_torch.load_file(file)["a"], torch.ones(2))


def test_states_with_long_headers_are_loaded(tmp_path) -> None:
    """A header of 20 MB, such as that of 200,000 tensors with short names, fits into a store."""
    values = torch.arange(20_000, dtype=torch.float32)
    tensors = {f"{i}.{'x' * 1000}": value for i, value in enumerate(values)}
    store = lmckpt.Store.init(tmp_path / "store")
    store.save({"optimizer": tensors}, level="fast")
    found = store.load()["optimizer"]
    assert list(found) == list(tensors)
    assert torch.equal(torch.stack(list(found.values())), values)


def test_what_is_compressed_in_memory_is_verified(monkeypatch) -> None:
    """Everything that compresses decodes and compares unless it is told not to."""
    asked = []
    monkeypatch.setattr(_lmckpt, "compress", lambda *_, **options: asked.append(options) or b"")
    monkeypatch.setattr(_lmckpt, "compress_into", lambda *_, **options: asked.append(options) or 0)
    tensors, arrays = {"a": torch.ones(2)}, {"a": numpy.ones(2)}
    for verify in (True, False):
        for options in ({}, {"verify": True}) if verify else ({"verify": False},):
            asked.clear()
            lmckpt.compress(b"x", **options)
            lmckpt.compress(b"x", into=bytearray(9), **options)
            lmckpt.delta(tensors, tensors, **options)
            lmc_torch.save(tensors, **options)
            lmc_numpy.save(arrays, **options)
            assert [found["verify"] for found in asked] == [verify] * 5


def test_a_file_never_replaces_what_it_needs(tmp_path, monkeypatch) -> None:
    """Not its base, by whatever name, not what that is on, and not what it is restored from."""
    monkeypatch.chdir(tmp_path)
    x, y = torch.randn(300, 300), torch.randn(300, 300)
    lmc_torch.save_file({"x": x}, "a.lmc")
    lmc_torch.save_file({"x": x, "y": y}, "b.lmc", base="a.lmc")
    Path("link.lmc").symlink_to("a.lmc")
    before = Path("a.lmc").read_bytes()
    for state, base in (({"x": x}, "a.lmc"), ({"x": x}, "link.lmc"), ({"x": x}, "b.lmc")):
        with pytest.raises(errors.LmcError, match="would replace"):
            lmc_torch.save_file(state, "a.lmc", base=base)
    # Nothing of a is needed for it, but b cannot be opened without.
    with pytest.raises(errors.LmcError, match="would replace"):
        lmc_torch.save_file({"y": y}, "a.lmc", base="b.lmc")
    lmckpt.decompress_file("a.lmc", "a")
    with pytest.raises(errors.LmcError, match="would replace"):
        lmckpt.compress_file("a", "a.lmc", bases=["a.lmc"], overwrite=True)
    with pytest.raises(errors.LmcError, match="its own"):
        lmckpt.compress_file("a", "c.lmc", bases=["a"])
    with pytest.raises(errors.LmcError, match="the same file"):
        lmckpt.decompress_file("a.lmc", "a.lmc", overwrite=True)
    Path("a").unlink()
    with pytest.raises(errors.LmcError, match="would replace"):
        lmckpt.decompress_file("b.lmc", "a.lmc", overwrite=True)
    assert Path("a.lmc").read_bytes() == before
    assert torch.equal(lmc_torch.load_file("b.lmc")["y"], y)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.lmc", "b.lmc", "link.lmc"]
