#!/usr/bin/env python3
"""ZipNN from file to file, for files.py: bench/zipnn_file.py compress|restore|start IN OUT THREADS

ZipNN's package comes without its file scripts. This does what they do (read all, one call, write
all), with their options; `start` ends where the work would begin.
"""

import sys
from pathlib import Path

from zipnn import ZipNN


def main() -> None:
    """The command line."""
    what, source, target, threads = sys.argv[1:]
    if what == "start":
        return
    zipnn = ZipNN(bytearray_dtype="bfloat16", is_streaming=True, threads=int(threads))
    # It reorders its input in place.
    data = bytearray(Path(source).read_bytes())
    Path(target).write_bytes(zipnn.compress(data) if what == "compress" else zipnn.decompress(data))


if __name__ == "__main__":
    main()
