#!/usr/bin/env bash
# usage: scripts/campaign.sh NAME...
# Runs the full count of a long campaign, of which `cargo test` runs a sample, and adds a dated
# line on it to benches/RESULTS.md. Tests are built as for `cargo test`, with overflow checks.
# CASES=n changes the number of cases. One test runs at a time, at low priority.
#   runtime  random graphs × plans and placements × memory modes against the reference
#   strings  random einsum strings against written-out sums, on reference and runtime
#   parse    edited dumps and programs: read or refused
#   search   exact against exhaustive search, on random problems and random graphs, bounds against their proofs; optimised
#   workloads  each workload's plan against every named strategy on up to 64 devices, planned bytes against measured ones
#            on up to 16, with tables; optimised
#   loader   edited plan cache entries, under wrong and right hashes; optimised
#   cache    every bit of a plan cache entry flipped
#   programs random well-typed programs x devices x placements x memory modes x runs against the reference
#   gpu      random graphs x plans, programs of the language and examples on the kernels for GPUs, run as C++; with EINDECOMP_NVRTC, compiled for every architecture
#   ranks    every conformance case on 1, 2, 3, 4 and 8 ranks; needs MPI
#   gpus     every conformance case on 1, 2, 4 and 8 fake GPUs in 1,000 orders that streams and events permit
#   events   each event of random plans on fake GPUs left out
#   fuzz     edited and random programs and tokens through parser, checker and macro; optimised
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

renice -n 19 -p $$ > /dev/null
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-1}
results=benches/RESULTS.md
log=$(mktemp)
trap 'rm -f "$log"' EXIT

campaign() {
    local name=$1 cases=$2 passed=passed
    shift 2
    export PROPTEST_CASES=${CASES:-$cases}
    cargo test --locked --no-run "$@" # the time is that of the tests
    local start=$SECONDS
    cargo test --locked "$@" -- --nocapture 2>&1 | tee "$log" || passed=FAILED
    local counts
    counts=$(awk '/^test result:/ { pass += $4; fail += $6 }
                  END { printf "%d tests passed, %d failed", pass, fail }' "$log")
    local line
    line=$(printf '| %s | %s | %s | %s: %s | %d s on %d cores | %s |' \
        "$(date -u +%F)" "$name" "$PROPTEST_CASES" "$passed" "$counts" \
        $((SECONDS - start)) "$(nproc)" "$(git rev-parse --short HEAD)")
    # the last line of the first table
    awk -v line="$line" '/^\|/ { table = 1 } table && !/^\|/ && !done { print line; done = 1 } { print }' \
        "$results" > "$log"
    cat "$log" > "$results"
    echo "$line"
    [ "$passed" = passed ]
}

[ $# -gt 0 ] || { sed -n '2,19s/^# \?//p' "${BASH_SOURCE[0]}"; exit 2; }
for name in "$@"; do
    case $name in
        loader)
            campaign loader 1000000 --package eindecomp-core --lib --features testing \
                --config profile.dev.package.eindecomp-core.opt-level=3 no_file_breaks_the_loader
            ;;
        workloads)
            WORKLOADS=all campaign workloads 1 --package eindecomp-core --package eindecomp --lib --test all \
                --config profile.dev.package.eindecomp-core.opt-level=3 workloads_
            ;;
        runtime) campaign runtime 20000 --test all runtime:: ;;
        strings) campaign strings 5000 --test all einsum_strings:: ;;
        parse) campaign parse 100000 --test all edited_texts ;;
        search)
            campaign search 10000 --package eindecomp-core --lib \
                --config profile.dev.package.eindecomp-core.opt-level=3 -- plan::search plan::communication plan::place
            ;;
        cache) campaign cache 1000000000 --test all flipped_bits ;;
        programs) campaign programs 10000 --test all programs:: ;;
        gpu)
            export EINDECOMP_GPU_ARCHS=sm_80,sm_90,sm_100 EINDECOMP_GPU_GRAPHS=${CASES:-1000}
            campaign gpu "$EINDECOMP_GPU_GRAPHS" --test all gpu_kernels::
            campaign 'gpu: programs of the language' 1 --test all language::
            EVERY_CASE=1 campaign gpu 1 --test conformance
            ;;
        ranks) EVERY_CASE=1 campaign ranks 1 --features cli,mpi --test mpi conformance ;;
        gpus) EINDECOMP_ORDERS=${CASES:-1000} campaign gpus 1000 --test conformance ;;
        events) campaign events 1000 --test all gpus::no_event ;;
        fuzz)
            # No assertion of the standard library, which are half of the time; overflow checks stay.
            campaign fuzz 1000000 --package eindecomp-macros --lib \
                --config profile.dev.opt-level=3 --config profile.dev.incremental=false \
                --config profile.dev.debug-assertions=false --config profile.dev.overflow-checks=true \
                --config profile.dev.package.eindecomp-macros.opt-level=3 \
                --config profile.dev.build-override.opt-level=3 --config 'profile.dev.package."*".opt-level=3' nothing_panics
            ;;
        *) echo "no campaign is called $name" >&2; exit 2 ;;
    esac
done
