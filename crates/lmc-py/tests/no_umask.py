"""Every call that makes files, in a process that the kernel kills if it asks for its umask.

no_umask.py FOLDER STORE makes them. The umask belongs to all threads of a process: one that sets
it, if only to read it, changes the files that others are making.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from pathlib import Path

# Ended with this by main if the kernel has no such filters.
NO_FILTERS = 77
# Of the kernel's headers: the number of umask, and the name of the processor for seccomp.
UMASK = {"x86_64": (95, 0xC000003E), "aarch64": (166, 0xC00000B7)}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2
KILL_PROCESS, ALLOW = 0x80000000, 0x7FFF0000
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06


def forbid_umask() -> bool:
    """Has the kernel kill this process when it calls umask; false if it cannot."""
    if sys.platform != "linux" or platform.machine() not in UMASK:
        return False
    number, processor = UMASK[platform.machine()]
    steps = [
        (LOAD, 0, 0, 4),
        (JUMP_EQUAL, 1, 0, processor),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, 0),
        (JUMP_EQUAL, 0, 1, number),
        (RETURN, 0, 0, KILL_PROCESS),
        (RETURN, 0, 0, ALLOW),
    ]
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    memory = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(steps), ctypes.addressof(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(PR_SET_SECCOMP, FILTER, program, 0, 0) == 0)


def main(folder: Path, url: Path) -> None:
    """Makes files in every way."""
    import lmckpt
    import numpy
    from lmckpt.numpy import save_file

    if not forbid_umask():
        sys.exit(NO_FILTERS)
    data = numpy.arange(1000, dtype="f4")
    save_file({"x": data}, folder / "a.lmc")
    save_file({"x": data}, folder / "a.lmc")
    (folder / "plain").write_bytes(data.tobytes())
    lmckpt.compress_file(folder / "plain", overwrite=True)
    lmckpt.decompress_file(folder / "plain.lmc", folder / "again", overwrite=True)
    store = lmckpt.Store(url, create=True)
    store.save({"model": {"x": data}}, step=1)
    (folder / "directory").mkdir()
    (folder / "directory" / "file").write_bytes(b"text")
    store.save(folder / "directory", run="files")
    store.restore("main@1", folder / "state")
    store.restore("files@latest", folder / "files")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
