"""Files of models: GGUF and ONNX."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator

from common import Tensor, any_name, any_shape, write_list

GGUF = {
    "F32": "f32", "F16": "f16", "F64": "f64", "BF16": "bf16", "I8": "i8", "I16": "i16",
    "I32": "i32", "I64": "i64",
}  # fmt: skip


def write_gguf(folder: pathlib.Path, rng: random.Random, i: int) -> None:
    import gguf
    import numpy

    path = folder / f"{i}.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    if rng.random() < 0.5:
        writer.add_custom_alignment(rng.choice([8, 32, 64, 4096]))
    writer.add_array("tokens", [f"<{k}>" * rng.randrange(9) for k in range(rng.randrange(1, 9000))])
    writer.add_array("scores", [rng.random() for _ in range(1 + rng.randrange(999))])
    writer.add_bool("is_odd", bool(i % 2))
    writer.add_uint64("big", 2**60)
    writer.add_float64("eps", 1e-6)
    for k in range(rng.randrange(1, 20)):
        kind = rng.choice(list(gguf.GGMLQuantizationType))
        kind = (
            kind if rng.random() < 0.4 else getattr(gguf.GGMLQuantizationType, rng.choice([*GGUF]))
        )
        block, size = gguf.GGML_QUANT_SIZES[kind]
        rows = [rng.randrange(1, 7) for _ in range(rng.randrange(4))]
        columns = block * rng.randrange(1, 9)
        shape = [*rows, columns // block * size]
        raw = rng.randbytes(int(numpy.prod(shape)))
        array = numpy.frombuffer(raw, numpy.uint8).reshape(shape)
        writer.add_tensor(f"blk.{k}.{any_name(rng)}", array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    rows = []
    for tensor in gguf.GGUFReader(path).tensors:
        dtype, shape = GGUF.get(tensor.tensor_type.name), tensor.shape.tolist()[::-1]
        data = tensor.data.tobytes() if dtype else "UnknownType"
        rows.append((tensor.name, dtype, shape, data))
    write_list(path, "GGUF", rows)


ONNX = {
    "FLOAT": "f32", "UINT8": "u8", "INT8": "i8", "UINT16": "u16", "INT16": "i16", "INT32": "i32",
    "INT64": "i64", "BOOL": "bool", "FLOAT16": "f16", "DOUBLE": "f64", "UINT32": "u32",
    "UINT64": "u64", "COMPLEX64": "c64", "COMPLEX128": "c128", "BFLOAT16": "bf16",
    "FLOAT8E4M3FN": "f8_e4m3", "FLOAT8E4M3FNUZ": "f8_e4m3fnuz", "FLOAT8E5M2": "f8_e5m2",
    "FLOAT8E5M2FNUZ": "f8_e5m2fnuz", "FLOAT8E8M0": "f8_e8m0", "FLOAT4E2M1": "f4_e2m1",
    "INT4": None, "UINT4": None, "STRING": None,
}  # fmt: skip


def onnx_tensor(rng: random.Random, name: str):
    """A tensor whose values are in one of the fields that there are for them."""
    import onnx

    tensor = onnx.TensorProto(name=name)
    label = rng.choice([*ONNX])
    if rng.random() < 0.5:
        label = rng.choice(["FLOAT", "INT64", "DOUBLE", "FLOAT16"])
    tensor.data_type = onnx.TensorProto.DataType.Value(label)
    shape = any_shape(rng)
    if label == "FLOAT4E2M1":
        shape = [*shape, 2]
    tensor.dims.extend(shape)
    count = 1
    for dim in shape:
        count *= dim
    kind = rng.randrange(4)
    if label == "STRING":
        tensor.string_data.extend([b"text"] * count)
    elif kind == 0 and label in {"FLOAT", "COMPLEX64"}:
        tensor.float_data.extend([1.5] * (count * (2 if label == "COMPLEX64" else 1)))
    elif kind == 0 and label in {"DOUBLE", "COMPLEX128"}:
        tensor.double_data.extend([2.5] * (count * (2 if label == "COMPLEX128" else 1)))
    elif kind == 0 and label == "INT64":
        tensor.int64_data.extend([rng.randrange(2**40)] * count)
    else:
        bits = {"FLOAT4E2M1": 4, "INT4": 4, "UINT4": 4}.get(label)
        size = (count * bits + 7) // 8 if bits else count * onnx_size(label)
        tensor.raw_data = bytes(size) if label == "BOOL" else rng.randbytes(size)
    return tensor


def onnx_size(label: str) -> int:
    name = ONNX[label] or ""
    if name == "bool" or name.startswith("f8"):
        return 1
    return int(name.lstrip("bfuic")) // 8


def onnx_graph(rng: random.Random, depth: int = 0):
    """A graph with tensors, nodes with constants, and graphs in them."""
    import onnx

    graph = onnx.GraphProto(name="graph")
    graph.initializer.extend(
        onnx_tensor(rng, any_name(rng) + f"_{k}") for k in range(rng.randrange(6))
    )
    for k in range(rng.randrange(4)):
        node = graph.node.add(op_type="Constant", output=[f"out_{depth}_{k}_{any_name(rng)}"])
        value = node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR)
        value.t.CopyFrom(onnx_tensor(rng, rng.choice(["", "", any_name(rng)])))
    if depth < 3 and rng.random() < 0.5:
        node = graph.node.add(op_type="If", input=["condition"], output=["result"])
        branch = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH)
        branch.g.CopyFrom(onnx_graph(rng, depth + 1))
    return graph


def onnx_rows(graph) -> Iterator[Tensor]:
    import onnx

    def row(tensor, name: str) -> Tensor:
        label = onnx.TensorProto.DataType.Name(tensor.data_type)
        shape, dtype = list(tensor.dims), ONNX[label]
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            return name, dtype, shape, "Elsewhere"
        if tensor.int64_data or tensor.string_data:
            return name, dtype, shape, "Encoded"
        if dtype is None:
            return name, dtype, shape, "UnknownType"
        # The library unpacks this type to a byte for each value.
        is_packed = dtype == "f4_e2m1"
        array = onnx.numpy_helper.to_array(tensor)
        return name, dtype, shape, tensor.raw_data if is_packed else array.tobytes()

    for tensor in graph.initializer:
        yield row(tensor, tensor.name)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield row(attribute.t, attribute.t.name or node.output[0])
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from onnx_rows(attribute.g)


def write_onnx(folder: pathlib.Path, rng: random.Random, i: int) -> None:
    import onnx

    path = folder / f"{i}.onnx"
    model = onnx.helper.make_model(onnx_graph(rng), producer_name=rng.choice(["", "pytorch"]))
    if i % 5 == 0:
        onnx.save(model, path, save_as_external_data=True, location=f"{i}.data", size_threshold=64)
    else:
        onnx.save(model, path)
    write_list(path, "ONNX", list(onnx_rows(onnx.load(path, load_external_data=False).graph)))
