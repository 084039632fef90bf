#!/usr/bin/env bash
# usage: scripts/iopddl.sh FOLDER [EVALUATOR]
# Solves the instances G, V, M, P, S and U of the ASPLOS 2025 / EuroSys 2025 contest on intra-operator parallelism
# (asplos-2025-iopddl-*.json.gz of github.com/google/iopddl in FOLDER) by `cargo eindecomp solve` within the contest's limits of
# time, reading included, and prints a table. EVALUATOR (a program: INSTANCE SOLUTION -> FILE COST) recounts each cost.
# SECONDS_EACH=n is a limit for all of them. It takes up to 23 minutes, of one core.
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2,6s/^# \?//p' "${BASH_SOURCE[0]}"; exit 2; }
folder=$(realpath "$1")
evaluator=${2:+$(realpath "$2")}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo build --locked --release --features cli --bin cargo-eindecomp
command=${CARGO_TARGET_DIR:-target}/release/cargo-eindecomp
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

echo '| instance | limit s | cost | bound | s | cost / best known | recounted |'
echo '|---|---|---|---|---|---|---|'
# limits and best known costs by the contest's organisers
while read -r name limit known; do
    limit=${SECONDS_EACH:-$limit}
    file=$folder/asplos-2025-iopddl-$name.json.gz
    gzip -dc "$file" | "$command" solve - --seconds "$limit" > "$out/$name" || true
    line=$(head -n 1 "$out/$name")
    number() { sed -n "s/.*[^a-z]$1 \([0-9][0-9.]*\).*/\1/p" <<< "$line"; }
    cost=$(number cost) recounted=–
    if [ -n "$evaluator" ] && [ -n "$cost" ]; then
        recounted=$(python3 "$evaluator" "$file" "$out/$name" | awk '{ print $2 }')
    fi
    echo "| $name | $limit | ${cost:-none} | $(number bound) | $(number in) |" \
        "$(awk -v c="${cost:-0}" -v k="$known" 'BEGIN { printf "%.4f", c / k }') | $recounted |"
done << 'END'
G 120 217039
V 300 1617084
M 180 49928157537
P 240 662197407330
S 240 1521949307
U 300 2443995952
END
