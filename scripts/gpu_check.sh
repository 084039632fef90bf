#!/usr/bin/env bash
# usage: scripts/gpu_check.sh pack FOLDER     here: builds what is carried to a machine with a GPU
#        scripts/gpu_check.sh run FOLDER      there: runs it, and writes one table to FOLDER/table.md
# `run` needs no network and no cargo: a GPU, its driver, and the Python packages with CUDA 13's libraries (nvidia-cuda-nvrtc,
# nvidia-cublas), or these on LD_LIBRARY_PATH; with the package torch it is compared. It ends within 8 minutes.
set -euo pipefail

pack() {
    cd "$(dirname "${BASH_SOURCE[0]}")/.."
    mkdir -p "$1"
    # Bindings for 12.8 never look for libraries of CUDA 13.
    export CUDARC_CUDA_VERSION=13000 CARGO_PROFILE_RELEASE_STRIP=symbols
    cargo build --locked --release --features cuda --example bench
    local test
    test=$(cargo test --locked --release --features cuda --test conformance --no-run --message-format json |
        sed -n 's/.*"executable":"\([^"]*conformance[^"]*\)".*/\1/p' | tail -n 1)
    cp "${CARGO_TARGET_DIR:-target}/release/examples/bench" "$1/bench"
    cp "$test" "$1/conformance"
    mkdir -p "$1/cases"
    cp tests/data/cases/*.jsonl "$1/cases"
    cp scripts/gpu_check.sh "$1"
    du -sh "$1"
}

# A step of at most so many seconds, whose last line is its row.
row() {
    local name=$1 limit=$2 out status=0
    shift 2
    left=$((480 - SECONDS))
    [ "$left" -gt 5 ] || { printf '| %s | not run: 8 minutes are over |\n' "$name" | tee -a table.md; return; }
    out=$(timeout "$((limit < left ? limit : left))" "$@" 2>&1) || status=$?
    printf '%s\n' "$out" > "${name//[^a-zA-Z0-9]/_}.log"
    printf '| %s | %s (exit %d) |\n' "$name" "$(printf '%s' "$out" | grep -v '^$' | tail -n 1 | tr '|' ' ')" "$status" | tee -a table.md
}

run() {
    cd "$1"
    local folders
    folders=$(python3 -c '
import glob, os, site, sys
roots = site.getsitepackages() + [site.getusersitepackages()] + sys.path
print(":".join(sorted({os.path.dirname(f) for r in roots for n in ("libnvrtc.so*", "libcublasLt.so*")
                       for f in glob.glob(os.path.join(r, "nvidia", "**", n), recursive=True)})))' || true)
    export LD_LIBRARY_PATH=$folders${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    EINDECOMP_CACHE=$(mktemp -d)
    export EINDECOMP_CACHE
    {
        date -u +%F
        nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || true
        printf '\n| what | result |\n|---|---|\n'
    } | tee table.md
    for devices in 1 2 4 8; do
        row "conformance, $devices virtual devices" 90 env EINDECOMP_GPUS="$devices" EINDECOMP_CASES="$PWD/cases" ./conformance
    done
    if command -v compute-sanitizer > /dev/null; then
        row 'compute-sanitizer memcheck, a subset' 60 compute-sanitizer --target-processes all --error-exitcode 9 env EINDECOMP_GPUS=2 ./conformance es00
    fi
    for case in matmul_4096 block_b1_s512 block_b4_s128 decode; do
        row "$case, ms GFLOP/s" 60 ./bench "$case" --gpus --repeats 20
        row "$case on 8 virtual devices" 60 ./bench "$case" --gpus --devices 8 --repeats 20
    done
    row 'torch, f32 matmul 4096, ms' 60 python3 -c '
import torch, time
a, b = (torch.rand(4096, 4096, device="cuda") for _ in range(2))
torch.backends.cuda.matmul.allow_tf32 = False
for _ in range(3): a @ b
torch.cuda.synchronize()
times = []
for _ in range(20):
    start = time.perf_counter(); a @ b; torch.cuda.synchronize(); times.append(time.perf_counter() - start)
print(sorted(times)[10] * 1e3)'
}

case ${1:-} in
    pack | run) "$1" "${2:?a folder}" ;;
    *) sed -n '2,5s/^# \?//p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
