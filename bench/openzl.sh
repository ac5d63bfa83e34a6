#!/bin/sh
# Times OpenZL's graphs beside our levels and a copy in one interleaved run, with AVX-512 and with
# AVX2, and prints two tables. Arguments go to the program: bench/openzl.sh --repeats 20
# RECORD=FOLDER keeps the rows too, as FOLDER/DATE-openzl-avx512.json and -avx2.json.
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
# clang makes faster code of OpenZL than gcc; CC names another compiler.
CC=${CC:-$(command -v clang-22 > /dev/null && echo clang-22 || echo clang)}
export CC CFLAGS="-march=x86-64-v3 -include $bench/openzl/keep_cpuid.h"
cargo build --release --manifest-path "$bench/openzl/Cargo.toml"
program=$bench/openzl/target/release/lmc-bench-openzl

# Freed memory stays mapped, so that OpenZL does not pay for page faults in every call.
export MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=1099511627776
echo "OpenZL built by: $("$CC" --version | head -n 1)"
for simd in avx512 avx2; do
    echo "$simd; load: $(cut -d ' ' -f 1-3 /proc/loadavg)"
    json=${RECORD:+--json $RECORD/$(date +%F)-openzl-$simd.json}
    LMC_SIMD=$simd "$program" $json "$@"
    echo
done
