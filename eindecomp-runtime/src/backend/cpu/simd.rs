//! One loop, compiled for several instruction sets; the best one that the machine has runs.
#![expect(
    unsafe_code,
    reason = "a function compiled for an instruction set is called after asking for it"
)]

/// A loop to compile for each instruction set. `run` and all it calls must be `inline(always)`.
pub(super) trait Loop {
    type Output;
    /// `FMA`: fused multiply-add is one instruction.
    fn run<const FMA: bool>(self) -> Self::Output;
}

/// Runs the loop with the best instruction set of the machine.
pub(super) fn vectorised<L: Loop>(work: L) -> L::Output {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("fma")
        && std::arch::is_x86_feature_detected!("bmi2")
    {
        // SAFETY: the machine has what `avx2` is compiled for.
        return unsafe { avx2(work) };
    }
    if cfg!(target_arch = "aarch64") {
        work.run::<true>()
    } else {
        work.run::<false>()
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi2")]
fn avx2<L: Loop>(work: L) -> L::Output {
    work.run::<true>()
}
