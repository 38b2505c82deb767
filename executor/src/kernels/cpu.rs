//! The instruction set, found at run time, and compiling one body for several of them.

use std::sync::OnceLock;

/// The instruction set that a kernel runs on. Results are the same on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// What the target always has.
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 (F, BW, VL, DQ, VNNI) beside these.
    Avx512,
    /// AMX with 8-bit integers beside these.
    Amx,
}

impl Isa {
    /// The best set that this machine has; looked up once.
    pub fn detect() -> Self {
        static FOUND: OnceLock<Isa> = OnceLock::new();
        *FOUND.get_or_init(|| {
            #[cfg(target_arch = "x86_64")]
            {
                use std::arch::is_x86_feature_detected as has;
                if has!("avx2") && has!("fma") && has!("f16c") {
                    let wide = has!("avx512f")
                        && has!("avx512bw")
                        && has!("avx512vl")
                        && has!("avx512dq")
                        && has!("avx512vnni");
                    return if wide { Isa::Avx512 } else { Isa::Avx2 };
                }
            }
            Isa::Portable
        })
    }
}

/// Defines a function whose body is compiled for each instruction set and chosen at run time.
/// The compiler vectorises it; it never joins a multiplication and an addition, so all forms
/// give the same bits.
macro_rules! multiversion {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(
            unsafe_code,
            reason = "a call into a function compiled for a found instruction set"
        )]
        #[allow(clippy::too_many_arguments)]
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn as_written($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments)]
            fn with_avx2($($arg: $ty),*) $(-> $ret)? {
                as_written($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")]
            #[allow(clippy::too_many_arguments)]
            fn with_avx512($($arg: $ty),*) $(-> $ret)? {
                as_written($($arg),*)
            }

            match $crate::kernels::Isa::detect() {
                // SAFETY: the features were found on this machine.
                #[cfg(target_arch = "x86_64")]
                $crate::kernels::Isa::Amx | $crate::kernels::Isa::Avx512 => unsafe { with_avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::kernels::Isa::Avx2 => unsafe { with_avx2($($arg),*) },
                _ => as_written($($arg),*),
            }
        }
    };
}

pub(super) use multiversion;
