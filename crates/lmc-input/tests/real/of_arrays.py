"""Files of arrays: NumPy and HDF5."""

from __future__ import annotations

import pathlib
import random

from common import Tensor, any_name, any_shape, write_list

NUMPY = {
    "<f2": "f16", "<f4": "f32", "<f8": "f64", "|i1": "i8", "<i2": "i16", "<i4": "i32", "<i8": "i64",
    "|u1": "u8", "<u2": "u16", "<u4": "u32", "<u8": "u64", "|b1": "bool", "<c8": "c64",
    "<c16": "c128",
}  # fmt: skip
# Types that we do not have.
NUMPY_OTHERS = [">f4", ">i2", ">c16", "<U7", "|S3", "<M8[ns]", "<m8[s]", "<f16", "|V5"]


def numpy_array(rng: random.Random):
    """An array with random bits, in either order."""
    import ml_dtypes
    import numpy

    others = [numpy.dtype(name) for name in NUMPY_OTHERS]
    others += [numpy.dtype(ml_dtypes.bfloat16), numpy.dtype(ml_dtypes.float8_e4m3fn)]
    others.append(numpy.dtype([("a", "<f4"), ("b", "<i2", (2, 3)), ("c", [("d", "|u1")])]))
    ours = [numpy.dtype(name) for name in NUMPY]
    dtype = rng.choice(ours if rng.random() < 0.8 else others)
    shape = any_shape(rng)
    size = dtype.itemsize
    for dim in shape:
        size *= dim
    raw = rng.randbytes(size)
    if dtype.kind in "bUM":
        raw = bytes(size)
    array = numpy.frombuffer(raw, dtype).reshape(shape)
    return numpy.asfortranarray(array) if rng.random() < 0.3 else array


def numpy_row(name: str, array) -> Tensor:
    dtype, shape = NUMPY.get(array.dtype.str), list(array.shape)
    if dtype is None:
        return name, None, shape, "UnknownType"
    return name, dtype, shape, array.tobytes() if array.flags.c_contiguous else "Strided"


def write_numpy(folder: pathlib.Path, rng: random.Random, i: int) -> None:
    import numpy

    path = folder / f"{i}.npy"
    with path.open("wb") as file:
        version = rng.choice([None, None, (1, 0), (2, 0), (3, 0)])
        numpy.lib.format.write_array(file, numpy_array(rng), version=version)
    write_list(path, "NumPy npy", [numpy_row("array", numpy.load(path))])
    path = folder / f"{i}.npz"
    arrays = {any_name(rng): numpy_array(rng) for _ in range(rng.randrange(1, 7))}
    if i % 9 == 0:
        numpy.savez_compressed(path, **arrays)
        rows: list[Tensor] = [(name, None, [], "Packed") for name in arrays]
    else:
        numpy.savez(path, **arrays)
        rows = [numpy_row(name, array) for name, array in numpy.load(path).items()]
    write_list(path, "NumPy npz", rows)


# What NumPy calls the types that h5py has its own form for.
H5PY = [*NUMPY, ">f4", "|S3", "<f16"]


def h5_dataset(rng: random.Random, group, name: str) -> None:
    """A dataset in one of the layouts that there are."""
    import h5py
    import numpy

    dtype = numpy.dtype(rng.choice(H5PY))
    shape = tuple(any_shape(rng))
    size = dtype.itemsize
    for dim in shape:
        size *= dim
    raw = bytes(size) if dtype.kind in "bS" else rng.randbytes(size)
    array = numpy.frombuffer(raw, dtype).reshape(shape)
    match rng.randrange(8):
        case 0 if shape and size:
            group.create_dataset(name, data=array, chunks=True)
        case 1 if shape and size:
            group.create_dataset(name, data=array, compression="gzip")
        case 2 if size < 60_000:
            space, plist = h5py.h5s.create_simple(shape), h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_layout(h5py.h5d.COMPACT)
            type_id = h5py.h5t.py_create(dtype, logical=True)
            made = h5py.h5d.create(group.id, name.encode(), type_id, space, plist)
            made.write(h5py.h5s.ALL, h5py.h5s.ALL, array, type_id)
        case 3:
            group.create_dataset(name, shape, dtype)
        case 4:
            group.create_dataset(name, data="text", dtype=h5py.string_dtype())
        case _:
            group.create_dataset(name, data=array)


def h5_group(rng: random.Random, group, most: int, depth: int = 0) -> None:
    """Datasets, attributes, links, and groups in groups."""
    import h5py

    group.attrs["backend"] = "tensorflow"
    group.attrs["names"] = [b"kernel:0", b"bias:0"]
    count = rng.randrange(1, most)
    for k in range(count):
        h5_dataset(rng, group, f"{any_name(rng)}_{k}")
    if rng.random() < 0.3:
        group["soft"] = h5py.SoftLink("/nothing")
    if depth < 3 and rng.random() < 0.7:
        h5_group(rng, group.create_group(f"layer_{rng.randrange(99)}"), most, depth + 1)


def h5_row(name: str, dataset) -> Tensor:
    shape, layout = list(dataset.shape), dataset.id.get_create_plist().get_layout()
    dtype = NUMPY.get(dataset.dtype.str)
    if 0 not in shape:
        if layout == 2:
            return name, dtype, shape, "Packed" if dataset.compression else "Encoded"
        if layout == 1 and dataset.id.get_offset() is None:
            return name, dtype, shape, "Missing"
    return name, dtype, shape, dataset[()].tobytes() if dtype else "UnknownType"


def write_h5(folder: pathlib.Path, rng: random.Random, i: int) -> None:
    import h5py

    path = folder / f"{i}.h5"
    # Large groups of the new kind are not followed.
    libver, most = rng.choice([("earliest", 40), ("earliest", 4), ("latest", 5), ("v108", 5)])
    with h5py.File(path, "w", libver=libver) as file:
        h5_group(rng, file, most)
    rows: list[Tensor] = []
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                rows.append(h5_row(name, item)) if isinstance(item, h5py.Dataset) else None
            )
        )
    write_list(path, "HDF5", rows)
