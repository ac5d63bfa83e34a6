"""Sizes of ZipNN's delta on pairs of checkpoints: their list on stdin, sizes as JSON on stdout.

Run it with bench/pairs.sh, which gives both to lmc-bench.
"""

import json
import os
import sys

from peers import corpus_folder, peer_bits, read_safetensors

from engines import ZipnnDelta


def read_corpus(name):
    return read_safetensors(os.path.join(corpus_folder(), name + ".safetensors"))


def main():
    sizes = []
    for pair in json.load(sys.stdin):
        dtype, new = read_corpus(pair["new"])
        _, base = read_corpus(pair["base"])
        bits = peer_bits(ZipnnDelta(dtype, base), new)
        sizes.append({"pair": pair["name"], "level": "zipnn delta", "bytes_out": bits["bytes_out"]})
    json.dump(sizes, sys.stdout)


if __name__ == "__main__":
    main()
