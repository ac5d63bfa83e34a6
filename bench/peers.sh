#!/bin/sh
# Times ZipNN, OpenZL, blosc2 and pcodec beside our levels, in one interleaved run.
# Arguments go to peers.py: bench/peers.sh --sets bf16,f32 --size-mib 1024 --repeats 3 --json FILE
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
venv=$bench/.venv-bench

cargo build --release --manifest-path "$bench/Cargo.toml"
target=$(cargo metadata --format-version 1 --no-deps --manifest-path "$bench/Cargo.toml" |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/')

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --requirement "$bench/requirements.txt"

# One thread for every library. Freed memory stays mapped, so that engines which allocate their
# own output do not pay for page faults in every round but the first.
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 BLOSC_NTHREADS=1
export MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=1099511627776
exec "$venv/bin/python" -W ignore "$bench/peers.py" --lmc-bench "$target/release/lmc-bench" "$@"
