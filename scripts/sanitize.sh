#!/usr/bin/env bash
# Runs kernels and executors under a sanitizer, which sees what no test of results can.
# usage: scripts/sanitize.sh address|thread
#   address  reads and writes outside of what is allocated, or after it was freed
#   thread   accesses by several threads that nothing orders; needs `rustup component add rust-src`
# On x86-64 Linux. The sanitizers of rustc are unstable, but every toolchain has their libraries: RUSTC_BOOTSTRAP lets a
# stable compiler use them, here alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

sanitizer=${1:?usage: scripts/sanitize.sh address|thread}
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=$sanitizer" CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/$sanitizer
export CARGO_INCREMENTAL=0 PROPTEST_RNG_SEED=0 PROPTEST_CASES=${PROPTEST_CASES:-100}
run() { cargo test --locked --target x86_64-unknown-linux-gnu "$@"; }
case $sanitizer in
    address)
        # The pool of threads lives as long as the process: no leak.
        export ASAN_OPTIONS=detect_leaks=0
        run --package eindecomp-runtime --lib
        run --package eindecomp --test conformance
        ;;
    thread)
        # The standard library is built for it too: its locks are what orders accesses.
        run() { cargo test --locked -Zbuild-std --target x86_64-unknown-linux-gnu "$@"; }
        export TSAN_OPTIONS="suppressions=$PWD/scripts/thread.supp"
        ;;
    *) echo "unknown sanitizer: $sanitizer" >&2 && exit 2 ;;
esac
run --package eindecomp --test all -- packed:: runtime:: records:: state:: halo:: ranks:: dtypes::
