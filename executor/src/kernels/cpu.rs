//! The instruction set, found at run time, and compiling one body for several of them.

use super::KernelError;
use std::sync::OnceLock;

/// The variable that forces an instruction set, for comparison.
pub const ISA_VARIABLE: &str = "TALLOW_ISA";

/// The instruction set that a kernel runs on, each including those before it. Results are the same on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What the target always has.
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, VL, DQ and VNNI.
    Avx512,
    /// AVX-512 as above, and tiles of 8-bit integers (AMX-INT8).
    Amx,
}

impl Isa {
    /// All, from the plainest on.
    pub const ALL: [Isa; 4] = [Isa::Portable, Isa::Avx2, Isa::Avx512, Isa::Amx];

    /// The name in [`ISA_VARIABLE`].
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Amx => "amx",
        }
    }

    /// The set to use: the one that [`ISA_VARIABLE`] names, else the best that this machine has. Looked up once; where
    /// the variable is at fault, which [`Isa::check`] tells, the best one.
    pub fn detect() -> Self {
        static FOUND: OnceLock<Isa> = OnceLock::new();
        *FOUND.get_or_init(|| Self::asked().ok().flatten().unwrap_or_else(Self::best))
    }

    /// Checks the variable.
    ///
    /// # Errors
    /// [`KernelError::Attribute`] for a name that is none, or of a set that this machine has not.
    pub fn check() -> Result<(), KernelError> {
        Self::asked().map(|_| ())
    }

    /// The best set that this machine has; looked up once.
    pub fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            #[cfg(target_arch = "x86_64")]
            {
                use std::arch::is_x86_feature_detected as has;
                if !(has!("avx2") && has!("fma") && has!("f16c")) {
                    return Isa::Portable;
                }
                let wide = has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512dq");
                if !(wide && has!("avx512vnni")) {
                    return Isa::Avx2;
                }
                if super::packed::amx_allowed() { Isa::Amx } else { Isa::Avx512 }
            }
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Portable
        })
    }

    fn asked() -> Result<Option<Self>, KernelError> {
        match std::env::var(ISA_VARIABLE) {
            // Empty is as unset, as for the other variables.
            Ok(name) if !name.is_empty() => Self::named(&name, Self::best()).map(Some),
            _ => Ok(None),
        }
    }

    /// The set of this name, which a machine whose best set is `best` must have.
    fn named(name: &str, best: Self) -> Result<Self, KernelError> {
        let fault = |expected| KernelError::Attribute { what: ISA_VARIABLE, value: name.to_owned(), expected };
        match Self::ALL.into_iter().find(|isa| isa.name() == name) {
            Some(isa) if isa <= best => Ok(isa),
            _ => Err(fault(match best {
                Isa::Portable => "portable, which is all that this machine has",
                Isa::Avx2 => "portable or avx2, which this machine has",
                Isa::Avx512 => "portable, avx2 or avx512, which this machine has",
                Isa::Amx => "portable, avx2, avx512 or amx",
            })),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_sets_are_named_and_checked() {
        for isa in Isa::ALL {
            assert_eq!(Isa::named(isa.name(), Isa::Amx).unwrap(), isa);
        }
        for (name, best) in [("avx512", Isa::Avx2), ("amx", Isa::Avx512), ("neon", Isa::Amx), ("", Isa::Portable)] {
            let error = Isa::named(name, best).unwrap_err().to_string();
            assert!(error.contains(ISA_VARIABLE) && error.contains(name), "{error}");
        }
        assert!(Isa::best() >= Isa::detect());
    }
}
