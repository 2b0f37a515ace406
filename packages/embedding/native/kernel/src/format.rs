//! How rows of each dtype are read.

use crate::simd::{Scalar, Simd};

/// Reads elements of a row.
///
/// # Safety
/// Pointers are to whole rows of this format with `dim` elements, and elements asked for lie in them.
pub(crate) trait Format {
    /// Bits of an element.
    const BITS: usize;
    /// Whether elements are `scale * code + bias`.
    const QUANTIZED: bool;
    /// Whether loading takes more than a load.
    const CONVERTS: bool = true;

    /// `S::WIDTH` elements (or codes) from `at` on, a multiple of `S::WIDTH`.
    unsafe fn load<S: Simd>(row: *const u8, at: usize) -> S::Vector;

    /// Scale and bias of a row.
    #[inline(always)]
    unsafe fn scale_and_bias(_row: *const u8, _dim: usize) -> (f32, f32) {
        (1.0, 0.0)
    }
}

pub(crate) struct Float32;
pub(crate) struct Float16;
pub(crate) struct Bfloat16;
pub(crate) struct Int8;
pub(crate) struct Int4;

impl Format for Float32 {
    const BITS: usize = 32;
    const QUANTIZED: bool = false;
    const CONVERTS: bool = false;

    #[inline(always)]
    unsafe fn load<S: Simd>(row: *const u8, at: usize) -> S::Vector {
        // SAFETY: the caller's promise.
        unsafe { S::load_f32(row.add(at * 4)) }
    }
}

impl Format for Float16 {
    const BITS: usize = 16;
    const QUANTIZED: bool = false;

    #[inline(always)]
    unsafe fn load<S: Simd>(row: *const u8, at: usize) -> S::Vector {
        // SAFETY: the caller's promise.
        unsafe { S::load_f16(row.add(at * 2)) }
    }
}

impl Format for Bfloat16 {
    const BITS: usize = 16;
    const QUANTIZED: bool = false;

    #[inline(always)]
    unsafe fn load<S: Simd>(row: *const u8, at: usize) -> S::Vector {
        // SAFETY: the caller's promise.
        unsafe { S::load_bf16(row.add(at * 2)) }
    }
}

impl Format for Int8 {
    const BITS: usize = 8;
    const QUANTIZED: bool = true;

    #[inline(always)]
    unsafe fn load<S: Simd>(row: *const u8, at: usize) -> S::Vector {
        // SAFETY: the caller's promise.
        unsafe { S::load_u8(row.add(at)) }
    }

    #[inline(always)]
    unsafe fn scale_and_bias(row: *const u8, dim: usize) -> (f32, f32) {
        // SAFETY: the caller's promise: eight bytes follow the codes.
        unsafe { (Scalar::load_f32(row.add(dim)), Scalar::load_f32(row.add(dim + 4))) }
    }
}

impl Format for Int4 {
    const BITS: usize = 4;
    const QUANTIZED: bool = true;

    #[inline(always)]
    unsafe fn load<S: Simd>(row: *const u8, at: usize) -> S::Vector {
        // SAFETY: the caller's promise.
        unsafe { S::load_u4(row, at) }
    }

    #[inline(always)]
    unsafe fn scale_and_bias(row: *const u8, dim: usize) -> (f32, f32) {
        let codes = dim.div_ceil(2);
        // SAFETY: the caller's promise: four bytes follow the codes.
        unsafe { (Scalar::load_f16(row.add(codes)), Scalar::load_f16(row.add(codes + 2))) }
    }
}
