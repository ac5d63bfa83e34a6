#!/bin/sh
# Checkpoints against an earlier one: our levels, the published way, other compressors after XOR,
# and ZipNN's delta, in one table.
# Arguments go to lmc-bench: bench/pairs.sh --size-mib 512 --repeats 3 --json FILE
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
. "$bench/setup.sh"
others=$(mktemp)
trap 'rm -f "$others"' EXIT
"$lmc_bench" pairs --list | "$python" -W ignore "$bench/pairs.py" >"$others"
"$lmc_bench" pairs --others "$others" "$@"
