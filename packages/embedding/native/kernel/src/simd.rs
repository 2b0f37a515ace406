//! Vectors of float32, one implementation an instruction set.

/// An instruction set that kernels are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What every CPU has.
    Scalar,
    /// x86-64 with AVX2 and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW and VL.
    Avx512,
    /// AArch64.
    Neon,
}

impl Level {
    /// Those this CPU runs, slowest first.
    pub fn available() -> Vec<Level> {
        #[allow(unused_mut)]
        let mut levels = vec![Level::Scalar];
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") {
            levels.push(Level::Avx2);
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl")
            {
                levels.push(Level::Avx512);
            }
        }
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        levels.push(Level::Neon);
        levels
    }

    /// The fastest this CPU runs.
    pub fn best() -> Level {
        Level::available().pop().unwrap_or(Level::Scalar)
    }

    /// For people, and for choosing one by name.
    pub fn name(self) -> &'static str {
        match self {
            Level::Scalar => "scalar",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Neon => "neon",
        }
    }
}

impl Level {
    /// Asks for the cache line at `line`, which may be any address.
    pub(crate) fn prefetch(self, line: *const u8) {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a prefetch of any address is harmless.
            Level::Avx2 | Level::Avx512 => unsafe { Avx2::prefetch(line) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above.
            Level::Neon => unsafe { Neon::prefetch(line) },
            _ => _ = line,
        }
    }
}

/// Operations on `WIDTH` float32 lanes. All loads are of any alignment.
///
/// # Safety
/// Every method needs the instruction set of the implementation, and pointers to as many elements as it reads or writes.
pub(crate) trait Simd {
    type Vector: Copy;
    const WIDTH: usize;
    /// Vectors that the accumulators of one pass over a bag may take: what leaves room for the operands.
    const ACCUMULATORS: usize;

    unsafe fn splat(value: f32) -> Self::Vector;
    unsafe fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    unsafe fn mul(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    unsafe fn div(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    unsafe fn store(to: *mut f32, value: Self::Vector);
    unsafe fn load_f32(from: *const u8) -> Self::Vector;
    unsafe fn load_f16(from: *const u8) -> Self::Vector;
    unsafe fn load_bf16(from: *const u8) -> Self::Vector;
    /// `WIDTH` uint8 codes.
    unsafe fn load_u8(from: *const u8) -> Self::Vector;
    /// `WIDTH` uint4 codes from element `at` on, a multiple of `WIDTH`; `from` is where the row starts.
    unsafe fn load_u4(from: *const u8, at: usize) -> Self::Vector;
    /// Asks for the cache line at `from`, which may be any address.
    unsafe fn prefetch(from: *const u8);
}

/// One lane: for tails of rows and for CPUs without vectors.
pub(crate) struct Scalar;

impl Simd for Scalar {
    type Vector = f32;
    const WIDTH: usize = 1;
    const ACCUMULATORS: usize = 8;

    #[inline(always)]
    unsafe fn splat(value: f32) -> f32 {
        value
    }
    #[inline(always)]
    unsafe fn add(a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    unsafe fn mul(a: f32, b: f32) -> f32 {
        a * b
    }
    #[inline(always)]
    unsafe fn div(a: f32, b: f32) -> f32 {
        a / b
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, value: f32) {
        // SAFETY: the caller's promise.
        unsafe { to.write(value) }
    }
    #[inline(always)]
    unsafe fn load_f32(from: *const u8) -> f32 {
        // SAFETY: the caller's promise.
        f32::from_le_bytes(unsafe { from.cast::<[u8; 4]>().read() })
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u8) -> f32 {
        // SAFETY: the caller's promise.
        f16_to_f32(u16::from_le_bytes(unsafe { from.cast::<[u8; 2]>().read() }))
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u8) -> f32 {
        // SAFETY: the caller's promise.
        f32::from_bits(u32::from(u16::from_le_bytes(unsafe { from.cast::<[u8; 2]>().read() })) << 16)
    }
    #[inline(always)]
    unsafe fn load_u8(from: *const u8) -> f32 {
        // SAFETY: the caller's promise.
        f32::from(unsafe { from.read() })
    }
    #[inline(always)]
    unsafe fn load_u4(from: *const u8, at: usize) -> f32 {
        // SAFETY: the caller's promise.
        f32::from((unsafe { from.add(at / 2).read() } >> (at % 2 * 4)) & 0xf)
    }
    #[inline(always)]
    unsafe fn prefetch(_from: *const u8) {}
}

/// 2^-24, the smallest binary16 above 0.
const SMALLEST_F16: f32 = 1.0 / 16_777_216.0;

/// A binary16 by its bits, exactly.
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10 & 0x1f);
    let fraction = u32::from(bits & 0x3ff);
    match exponent {
        0 => f32::from_bits(sign | (fraction as f32 * SMALLEST_F16).to_bits()),
        // Infinity, and NaN made quiet as hardware does.
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13 | if fraction == 0 { 0 } else { 0x40_0000 }),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Simd;
    use std::arch::x86_64::*;

    /// Eight lanes.
    pub(crate) struct Avx2;

    impl Simd for Avx2 {
        type Vector = __m256;
        const WIDTH: usize = 8;
        const ACCUMULATORS: usize = 16;

        #[inline(always)]
        unsafe fn splat(value: f32) -> __m256 {
            // SAFETY: the caller has AVX2; no memory.
            unsafe { _mm256_set1_ps(value) }
        }
        #[inline(always)]
        unsafe fn add(a: __m256, b: __m256) -> __m256 {
            // SAFETY: the caller has AVX2; no memory.
            unsafe { _mm256_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn mul(a: __m256, b: __m256) -> __m256 {
            // SAFETY: the caller has AVX2; no memory.
            unsafe { _mm256_mul_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn div(a: __m256, b: __m256) -> __m256 {
            // SAFETY: the caller has AVX2; no memory.
            unsafe { _mm256_div_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, value: __m256) {
            // SAFETY: the caller's promise.
            unsafe { _mm256_storeu_ps(to, value) }
        }
        #[inline(always)]
        unsafe fn load_f32(from: *const u8) -> __m256 {
            // SAFETY: the caller's promise.
            unsafe { _mm256_loadu_ps(from.cast()) }
        }
        #[inline(always)]
        unsafe fn load_f16(from: *const u8) -> __m256 {
            // SAFETY: the caller's promise.
            unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
        }
        #[inline(always)]
        unsafe fn load_bf16(from: *const u8) -> __m256 {
            // SAFETY: the caller's promise.
            unsafe {
                let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
            }
        }
        #[inline(always)]
        unsafe fn load_u8(from: *const u8) -> __m256 {
            // SAFETY: the caller's promise.
            unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()))) }
        }
        #[inline(always)]
        unsafe fn load_u4(from: *const u8, at: usize) -> __m256 {
            // SAFETY: the caller's promise: eight codes are four bytes.
            unsafe {
                let packed = from.add(at / 2).cast::<i32>().read_unaligned();
                let shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
                let codes = _mm256_srlv_epi32(_mm256_set1_epi32(packed), shifts);
                _mm256_cvtepi32_ps(_mm256_and_si256(codes, _mm256_set1_epi32(0xf)))
            }
        }
        #[inline(always)]
        unsafe fn prefetch(from: *const u8) {
            // SAFETY: a prefetch of any address is harmless.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast()) }
        }
    }

    /// Sixteen lanes.
    pub(crate) struct Avx512;

    impl Simd for Avx512 {
        type Vector = __m512;
        const WIDTH: usize = 16;
        const ACCUMULATORS: usize = 24;

        #[inline(always)]
        unsafe fn splat(value: f32) -> __m512 {
            // SAFETY: the caller has AVX-512; no memory.
            unsafe { _mm512_set1_ps(value) }
        }
        #[inline(always)]
        unsafe fn add(a: __m512, b: __m512) -> __m512 {
            // SAFETY: the caller has AVX-512; no memory.
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn mul(a: __m512, b: __m512) -> __m512 {
            // SAFETY: the caller has AVX-512; no memory.
            unsafe { _mm512_mul_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn div(a: __m512, b: __m512) -> __m512 {
            // SAFETY: the caller has AVX-512; no memory.
            unsafe { _mm512_div_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, value: __m512) {
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_ps(to, value) }
        }
        #[inline(always)]
        unsafe fn load_f32(from: *const u8) -> __m512 {
            // SAFETY: the caller's promise.
            unsafe { _mm512_loadu_ps(from.cast()) }
        }
        #[inline(always)]
        unsafe fn load_f16(from: *const u8) -> __m512 {
            // SAFETY: the caller's promise.
            unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
        }
        #[inline(always)]
        unsafe fn load_bf16(from: *const u8) -> __m512 {
            // SAFETY: the caller's promise.
            unsafe {
                let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
            }
        }
        #[inline(always)]
        unsafe fn load_u8(from: *const u8) -> __m512 {
            // SAFETY: the caller's promise.
            unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))) }
        }
        #[inline(always)]
        unsafe fn load_u4(from: *const u8, at: usize) -> __m512 {
            // SAFETY: the caller's promise: sixteen codes are eight bytes.
            unsafe {
                let packed = from.add(at / 2);
                let low = packed.cast::<i32>().read_unaligned();
                let high = packed.add(4).cast::<i32>().read_unaligned();
                let both = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(_mm256_set1_epi32(low)), _mm256_set1_epi32(high));
                let shifts = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
                let codes = _mm512_srlv_epi32(both, shifts);
                _mm512_cvtepi32_ps(_mm512_and_si512(codes, _mm512_set1_epi32(0xf)))
            }
        }
        #[inline(always)]
        unsafe fn prefetch(from: *const u8) {
            // SAFETY: a prefetch of any address is harmless.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast()) }
        }
    }
}

#[cfg(target_arch = "aarch64")]
pub(crate) use arm::Neon;

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::{Simd, f16_to_f32};
    use std::arch::aarch64::*;

    /// Four lanes.
    pub(crate) struct Neon;

    impl Simd for Neon {
        type Vector = float32x4_t;
        const WIDTH: usize = 4;
        const ACCUMULATORS: usize = 24;

        #[inline(always)]
        unsafe fn splat(value: f32) -> float32x4_t {
            // SAFETY: every AArch64 CPU has NEON; no memory.
            unsafe { vdupq_n_f32(value) }
        }
        #[inline(always)]
        unsafe fn add(a: float32x4_t, b: float32x4_t) -> float32x4_t {
            // SAFETY: every AArch64 CPU has NEON; no memory.
            unsafe { vaddq_f32(a, b) }
        }
        #[inline(always)]
        unsafe fn mul(a: float32x4_t, b: float32x4_t) -> float32x4_t {
            // SAFETY: every AArch64 CPU has NEON; no memory.
            unsafe { vmulq_f32(a, b) }
        }
        #[inline(always)]
        unsafe fn div(a: float32x4_t, b: float32x4_t) -> float32x4_t {
            // SAFETY: every AArch64 CPU has NEON; no memory.
            unsafe { vdivq_f32(a, b) }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, value: float32x4_t) {
            // SAFETY: the caller's promise.
            unsafe { vst1q_f32(to, value) }
        }
        #[inline(always)]
        unsafe fn load_f32(from: *const u8) -> float32x4_t {
            // SAFETY: the caller's promise; a byte load has no alignment.
            unsafe { vreinterpretq_f32_u8(vld1q_u8(from)) }
        }
        #[inline(always)]
        unsafe fn load_f16(from: *const u8) -> float32x4_t {
            // The vector conversion is not in stable Rust yet.
            // SAFETY: the caller's promise.
            let halves = unsafe { from.cast::<[u16; 4]>().read_unaligned() };
            let floats = halves.map(|half| f16_to_f32(u16::from_le(half)));
            // SAFETY: four floats.
            unsafe { vld1q_f32(floats.as_ptr()) }
        }
        #[inline(always)]
        unsafe fn load_bf16(from: *const u8) -> float32x4_t {
            // SAFETY: the caller's promise.
            unsafe { vreinterpretq_f32_u32(vshll_n_u16::<16>(vreinterpret_u16_u8(vld1_u8(from)))) }
        }
        #[inline(always)]
        unsafe fn load_u8(from: *const u8) -> float32x4_t {
            // SAFETY: the caller's promise: four bytes.
            unsafe {
                let packed = from.cast::<u32>().read_unaligned();
                let bytes = vreinterpret_u8_u32(vdup_n_u32(packed));
                vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))))
            }
        }
        #[inline(always)]
        unsafe fn load_u4(from: *const u8, at: usize) -> float32x4_t {
            const SHIFTS: [i32; 4] = [0, -4, -8, -12];
            // SAFETY: the caller's promise: four codes are two bytes.
            unsafe {
                let packed = u32::from(from.add(at / 2).cast::<u16>().read_unaligned());
                let codes = vshlq_u32(vdupq_n_u32(packed), vld1q_s32(SHIFTS.as_ptr()));
                vcvtq_f32_u32(vandq_u32(codes, vdupq_n_u32(0xf)))
            }
        }
        #[inline(always)]
        unsafe fn prefetch(from: *const u8) {
            // SAFETY: a prefetch of any address is harmless.
            unsafe { std::arch::asm!("prfm pldl2keep, [{}]", in(reg) from, options(nostack, readonly, preserves_flags)) }
        }
    }
}
