# Sourced by peers.sh and pairs.sh, which set $bench: builds lmc-bench and makes the Python
# environment. Sets $lmc_bench and $python.

cargo build --release --manifest-path "$bench/Cargo.toml"
target=$(cargo metadata --format-version 1 --no-deps --manifest-path "$bench/Cargo.toml" |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
lmc_bench=$target/release/lmc-bench

venv=$bench/.venv-bench
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --requirement "$bench/requirements.txt"
python=$venv/bin/python

# One thread for every library. Freed memory stays mapped, so that engines which allocate their
# own output do not pay for page faults in every round but the first.
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 BLOSC_NTHREADS=1
export MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=1099511627776
