"""New weights for workers that have the old ones: a .lmc file with the old weights as its base."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _lmckpt
from .errors import InvalidError
from .files import Level
from .safetensors.buffers import check_target, is_torch, view
from .safetensors.header import Described, FileInMemory
from .safetensors.open import tensors_of
from .safetensors.overlap import check_apart, close_together

# The shape of a tensor, and its type in torch or numpy.
_Kind = tuple[Sequence[int], Any]


def _lay_out(tensors: Mapping[str, Any]) -> FileInMemory:
    if not isinstance(tensors, Mapping):
        raise InvalidError(f"expected a dict of tensors, found a {type(tensors).__name__}")
    if _has_torch(tensors):
        from .safetensors.torch import lay_out

        return lay_out(tensors)
    from .safetensors.numpy import lay_out as lay_out_arrays

    return lay_out_arrays(tensors)


def _has_torch(tensors: Mapping[str, Any]) -> bool:
    return any(is_torch(tensor) for tensor in tensors.values())


def delta(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    *,
    level: Level = "fast",
    threads: int = 0,
    verify: bool = True,
) -> bytes:
    """What turns ``old`` into ``new``: dicts of tensors or arrays of any types.

    Tensors may be added and left out. The result identifies ``old`` by a hash of all of it,
    names and shapes included. ``verify`` decodes everything as it is coded and compares.
    """
    return _lmckpt.compress(
        _lay_out(new).parts(),
        level=level,
        threads=threads,
        verify=verify,
        bases=[_lay_out(old).parts()],
        name_bases=True,
    )


def apply(
    old: Mapping[str, Any], data: Any, *, threads: int = 0, safe: bool = False
) -> dict[str, Any]:
    """Brings ``old`` up to date, in place, with what ``delta`` returned; returns all tensors.

    Tensors of the same name, shape and type are overwritten; the result has new ones for the
    others. Nothing is changed unless ``old`` is what the delta was made against, the delta is
    undamaged and its tensors fit. Then the weights are overwritten a little at a time, without a
    second copy of them. If that fails, they are partly old and partly new, and
    ``PartlyWrittenError`` says so; the same holds for Ctrl-C. With ``safe``, all of it is decoded
    to other memory and checked before anything is overwritten, so that a call that fails has
    changed nothing.
    """
    current = _lay_out(old)
    archive = _lmckpt.Archive(view(data), bases=[current.parts()], threads=threads)
    # Even if no block needs them: the delta is for these weights and no others.
    archive.check_named_bases()
    if safe:
        return _apply_whole(old, archive, threads)
    return _apply_in_place(old, current, archive, threads)


def _apply_whole(old: Mapping[str, Any], archive: _lmckpt.Archive, threads: int) -> dict[str, Any]:
    """Writes only when all of it is decoded."""
    if _has_torch(old):
        from .safetensors.torch import load_archive

        new: dict[str, Any] = load_archive(archive, threads=threads)
    else:
        from .safetensors.numpy import load_archive as load_arrays

        new = load_arrays(archive, threads)
    kinds = {name: (tensor.shape, tensor.dtype) for name, tensor in new.items()}
    targets = _targets(old, kinds)
    check_apart([(name, target, new[name]) for name, target in targets.items()])
    for name, target in targets.items():
        _write(target, new[name])
    return {**new, **targets}


def _apply_in_place(
    old: Mapping[str, Any],
    current: FileInMemory,
    archive: _lmckpt.Archive,
    threads: int,
) -> dict[str, Any]:
    """Decodes each tensor to where the old one is."""
    described, header = tensors_of(archive)
    kinds, make = _kinds(_has_torch(old), archive, described, header)
    targets = _targets(old, kinds)
    # What they become must be known before anything is overwritten.
    shared = close_together(targets.items())
    starts = current.starts()
    new: dict[str, Any] = {}
    places: list[tuple[Any, int | None]] = [(header, None)]
    for name, *_ in described:
        is_held = name in targets and name not in shared
        new[name] = current.held[name] if is_held else make(name)
        places.append((view(new[name], writable=True), starts[name] if is_held else None))

    def agree() -> None:
        check_apart([(name, targets[name], new[name]) for name in targets if name in shared])

    archive.update(places, agree, threads=threads)
    for name, target in targets.items():
        # Tensors that have no plain memory on the CPU were copied there, and the copy is new now.
        if _address(target) != _address(new[name]):
            _write(target, new[name])
    return {**new, **targets}


def _kinds(
    of_torch: bool, archive: _lmckpt.Archive, described: list[Described], header: bytearray
) -> tuple[dict[str, _Kind], Callable[[str], Any]]:
    """The shape and type of each tensor of an archive, and what makes memory for one."""
    if of_torch:
        from .safetensors.torch import new_tensor, shape_and_type, types_in

        others = types_in(archive, header)
        kinds: dict[str, _Kind] = {
            name: shape_and_type(dtype, shape, others.get(name))
            for name, dtype, shape, _, _ in described
        }
        return kinds, lambda name: new_tensor(*kinds[name])
    from .safetensors.numpy import dtype_of, new_array

    kinds = {name: (shape, dtype_of(dtype)) for name, dtype, shape, _, _ in described}
    return kinds, lambda name: new_array(*kinds[name])


def _targets(old: Mapping[str, Any], kinds: Mapping[str, _Kind]) -> dict[str, Any]:
    """The tensors that are overwritten: those that keep their shape and type."""
    targets = {name: old[name] for name, kind in kinds.items() if _is_like(old.get(name), kind)}
    for name, target in targets.items():
        check_target(target, name)
    return targets


def _is_like(tensor: Any, kind: _Kind) -> bool:
    shape, dtype = kind
    return tensor is not None and tuple(tensor.shape) == tuple(shape) and tensor.dtype == dtype


def _address(tensor: Any) -> int:
    return int(tensor.data_ptr() if is_torch(tensor) else tensor.ctypes.data)


def _write(target: Any, value: Any) -> None:
    if is_torch(target):
        target.data.copy_(value)
    else:
        target[...] = value
