#!/usr/bin/env bash
# Times our cases against other libraries', alternately, in one sitting.
# usage: benches/compare.sh PEERS_DIR [CASE…]
#   PEERS_DIR   has {numpy,torch,jax}_bench.py, which print JSON lines like `--example bench -- --json`
# environment: PYTHON (default: PEERS_DIR/peers-venv/bin/python), PAIRS (9), THREADS (2), DEVICES (1)
#
# First each library runs each case once; the quickest then meets us PAIRS times. Printed are both medians,
# the median of the pairs' ratios peer / ours (above 1: we are quicker) and its 95 % interval, by order
# statistics, and what other processes used meanwhile, in cores: above 0.1, times are not to be trusted.
# `l2dist` is compared with programs that are written like ours, not by hand as a product.
set -euo pipefail
peers=$(cd "${1:?usage: benches/compare.sh PEERS_DIR [CASE…]}" && pwd)
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-$peers/peers-venv/bin/python}
pairs=${PAIRS:-9} threads=${THREADS:-2} devices=${DEVICES:-1}

cargo build --quiet --release --example bench
ours() { target/release/examples/bench "$1" --threads "$threads" --devices "$devices" --repeats 5 --json; }
# Set by some machines for old programs; they slow a current numpy.
peer() { env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE "$python" "$peers/$1_bench.py" "${@:2}" --threads "$threads" --repeats 5 2>/dev/null; }
# The script, with its options, that prints the lines of a library.
script() { case $1 in torch*compile*) echo torch --compile ;; torch*) echo torch ;; jax*) echo jax ;; *) echo numpy ;; esac; }

cases=("$@")
[ $# -gt 0 ] || cases=(matmul_1024 matmul_2048 matmul_4096 chain_2048 block_b1_s512 block_b4_s128 ffnn_step
    l2dist_2048x128 maxplus_512 logsumexp_512 attn_scores tensor4d_32 decode)
printf '%-16s %-22s %9s %9s %7s  %-14s %s\n' case 'quickest peer' 'peer ms' 'ours ms' ratio '95 % interval' others
for case in "${cases[@]}"; do
    best=$({ peer numpy "$case"; peer torch "$case" --compile; peer jax "$case"; } | "$python" -c '
import json, sys
lines = [json.loads(l) for l in sys.stdin if l.startswith("{")]
lines = [l for l in lines if "error" not in l and not (l["case"].startswith("l2dist") and "gram" in l["peer"])]
print(min(lines, key=lambda l: l["median_ms"])["peer"])')
    for ((pair = 0; pair < pairs; pair++)); do
        ours "$case"
        # shellcheck disable=SC2046
        peer $(script "$best") "$case"
    done | "$python" -c '
import json, statistics, sys
from math import comb
case, best = sys.argv[1:]
lines = [json.loads(l) for l in sys.stdin if l.startswith("{")]
ours = [l for l in lines if l["peer"] == "eindecomp"]
peer = [l for l in lines if l["peer"] == best]
ratios = sorted(p["median_ms"] / o["median_ms"] for p, o in zip(peer, ours))
n = len(ratios)
low = max((k for k in range((n + 1) // 2) if sum(comb(n, i) for i in range(k)) * 2 / 2**n <= 0.05), default=1)
low = max(low, 1)
ms = lambda lines: statistics.median(l["median_ms"] for l in lines)
others = statistics.median(l["other_cpus"] for l in ours + peer)
interval = "%.2f to %.2f" % (ratios[low - 1], ratios[n - low])
print("%-16s %-22s %9.2f %9.2f %7.2f  %-14s %.2f" % (case, best, ms(peer), ms(ours), statistics.median(ratios), interval, others))
' "$case" "$best"
done
