#!/bin/sh
# Times ZipNN, OpenZL, blosc2 and pcodec beside our levels, in one interleaved run.
# Arguments go to peers.py: bench/peers.sh --sets bf16,f32 --size-mib 1024 --repeats 3 --json FILE
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
. "$bench/setup.sh"
exec "$python" -W ignore "$bench/peers.py" --lmc-bench "$lmc_bench" "$@"
