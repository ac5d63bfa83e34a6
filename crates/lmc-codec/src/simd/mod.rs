//! The only unsafe code in this crate: kernels, each for one instruction set, chosen at run time.
//!
//! Every kernel has a portable twin in safe Rust that defines its result. A kernel is called
//! through a safe function that takes an [`Isa`] and checks all lengths. An `Isa` can only come
//! from [`Isa::best`] or [`Isa::available`], which test the CPU, so holding one proves that its
//! instructions exist.
#![allow(unsafe_code, reason = "vector instructions need it; every block says why it is sound")]

/// Calls a function that has the width of a value, in bytes, as its constant.
macro_rules! for_width {
    ($width_log2:expr, $run:ident($($arg:expr),*)) => {
        match $width_log2 {
            0 => $run::<1>($($arg),*),
            1 => $run::<2>($($arg),*),
            2 => $run::<4>($($arg),*),
            _ => $run::<8>($($arg),*),
        }
    };
}

pub(crate) mod bins;
pub(crate) mod chain;
pub(crate) mod changes;
pub(crate) mod classes;
pub(crate) mod flags;
pub(crate) mod pack;
pub(crate) mod rans;
pub(crate) mod symbols;
pub(crate) mod tree;
pub(crate) mod words;

use std::sync::OnceLock;

/// An instruction set level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IsaKind {
    /// Safe Rust, no instruction beyond the target's baseline.
    Portable,
    /// AVX2, BMI2 with a fast `pdep`, POPCNT.
    Avx2,
    /// AVX-512 F, BW, DQ, VL, VBMI, VBMI2 and BITALG, and all of [`IsaKind::Avx2`].
    Avx512,
}

/// An instruction set that this CPU supports, as a test has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Isa(IsaKind);

impl Isa {
    /// The best set of this CPU, or the one named by the environment variable `LMC_SIMD`
    /// (`portable`, `avx2`, `avx512`), if the CPU has it.
    pub fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            let limit = match std::env::var("LMC_SIMD").as_deref() {
                Ok("portable") => IsaKind::Portable,
                Ok("avx2") => IsaKind::Avx2,
                _ => IsaKind::Avx512,
            };
            let usable = Self::available().into_iter().filter(|isa| isa.0 <= limit);
            usable.max().unwrap_or(Self::PORTABLE)
        })
    }

    /// The set that every CPU has.
    pub const PORTABLE: Self = Self(IsaKind::Portable);

    /// Which set this is.
    pub fn kind(self) -> IsaKind {
        self.0
    }

    /// Every set this CPU supports, the plainest first.
    pub fn available() -> Vec<Self> {
        let mut all = vec![Self::PORTABLE];
        #[cfg(target_arch = "x86_64")]
        {
            if x86::has_avx2() {
                all.push(Self(IsaKind::Avx2));
            }
            if x86::has_avx2() && x86::has_avx512() {
                all.push(Self(IsaKind::Avx512));
            }
        }
        all
    }
}

/// Prefetches the cache line at `address`, which need not be valid.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing and never faults; SSE is part of every x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// Prefetches all of `bytes`, which must be few. It affects only time.
pub(crate) fn prefetch_all(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64) {
        prefetch(line.as_ptr());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Makes streaming stores visible to other threads before any later store. Every use of streaming
/// ends with it.
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of every x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    /// AVX2 and a `pdep` worth using: AMD before family 19h runs it in microcode.
    pub(super) fn has_avx2() -> bool {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("lzcnt")
            && !is_old_amd()
    }

    pub(super) fn has_avx512() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("avx512bitalg")
            && is_x86_feature_detected!("avx512vpopcntdq")
    }

    fn is_old_amd() -> bool {
        use std::arch::x86_64::__cpuid;
        let vendor = __cpuid(0);
        let is_amd =
            (vendor.ebx, vendor.edx, vendor.ecx) == (0x6874_7541, 0x6974_6e65, 0x444d_4163);
        let version = __cpuid(1).eax;
        let family = (version >> 8 & 15) + (version >> 20 & 255);
        is_amd && family < 0x19
    }
}
