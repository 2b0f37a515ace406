//! Pooling of rows whose addresses are known.

use crate::format::{Bfloat16, Float16, Float32, Format, Int4, Int8};
use crate::plan::Pooling;
use crate::simd::{Level, Scalar, Simd};
use crate::table::Dtype;

macro_rules! per_dtype {
    ($dtype:expr, $function:ident) => {
        match $dtype {
            Dtype::Float32 => $function::<Float32>,
            Dtype::Float16 => $function::<Float16>,
            Dtype::Bfloat16 => $function::<Bfloat16>,
            Dtype::Int8 => $function::<Int8>,
            Dtype::Int4 => $function::<Int4>,
        }
    };
}

/// The bags of one feature.
pub(crate) struct Bags<'a> {
    /// Addresses of rows: those of these bags, and of bags that come after them.
    pub addresses: &'a [*const u8],
    /// Where the first bag starts in `addresses`.
    pub start: usize,
    /// Where each bag ends in `addresses`.
    pub ends: &'a [u32],
    /// How many rows ahead to prefetch.
    pub distance: usize,
    pub dim: usize,
    pub row_bytes: usize,
    pub pooling: Pooling,
    /// The first element of the first bag's pooled vector.
    pub output: *mut f32,
    /// Elements from one pooled vector to the next.
    pub output_stride: usize,
}

/// Pools bags of rows of one dtype with one instruction set.
///
/// # Safety
/// The CPU has the instruction set; `addresses[start .. last end]` are rows of the dtype and `dim`; ends do not decrease and
/// do not pass `addresses`; every pooled vector lies in memory that may be written.
pub(crate) type PoolBags = unsafe fn(&Bags<'_>);

/// The function for a dtype and an instruction set (which the caller knows is there).
pub(crate) fn pool_bags_of(level: Level, dtype: Dtype) -> PoolBags {
    match level {
        Level::Scalar => per_dtype!(dtype, scalar),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => per_dtype!(dtype, avx2),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => per_dtype!(dtype, avx512),
        #[cfg(target_arch = "aarch64")]
        Level::Neon => per_dtype!(dtype, neon),
        #[allow(unreachable_patterns)]
        _ => per_dtype!(dtype, scalar),
    }
}

unsafe fn scalar<F: Format>(bags: &Bags<'_>) {
    // SAFETY: the caller's promise.
    unsafe { pool_bags::<Scalar, F>(bags) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn avx2<F: Format>(bags: &Bags<'_>) {
    // SAFETY: the caller's promise.
    unsafe { pool_bags::<crate::simd::Avx2, F>(bags) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl")]
unsafe fn avx512<F: Format>(bags: &Bags<'_>) {
    // SAFETY: the caller's promise.
    unsafe { pool_bags::<crate::simd::Avx512, F>(bags) }
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
unsafe fn neon<F: Format>(bags: &Bags<'_>) {
    // SAFETY: the caller's promise.
    unsafe { pool_bags::<crate::simd::Neon, F>(bags) }
}

#[inline(always)]
unsafe fn pool_bags<S: Simd, F: Format>(bags: &Bags<'_>) {
    let mut start = bags.start;
    for (bag, &end) in bags.ends.iter().enumerate() {
        let end = end as usize;
        // SAFETY: the caller's promise, bag by bag.
        unsafe {
            let output = bags.output.add(bag * bags.output_stride);
            if start == end {
                std::ptr::write_bytes(output, 0, bags.dim);
            } else {
                pool_bag::<S, F>(bags, start, end, output);
            }
        }
        start = end;
    }
}

/// Pools one bag that is not empty: as many columns a pass as registers hold, the first pass prefetching.
#[inline(always)]
unsafe fn pool_bag<S: Simd, F: Format>(bags: &Bags<'_>, start: usize, end: usize, output: *mut f32) {
    let (dim, w) = (bags.dim, S::WIDTH);
    // A conversion needs registers of its own.
    let most = if F::CONVERTS { S::ACCUMULATORS / 2 } else { S::ACCUMULATORS };
    let mut at = 0;
    // SAFETY: for all passes, the caller's promise; columns at … at + N * WIDTH are in the row.
    unsafe {
        if most >= 16 && dim >= 16 * w {
            pass::<S, F, 16, true>(bags, start, end, output, 0);
            at = 16 * w;
            while dim - at >= 16 * w {
                pass::<S, F, 16, false>(bags, start, end, output, at);
                at += 16 * w;
            }
        } else if dim >= 8 * w {
            pass::<S, F, 8, true>(bags, start, end, output, 0);
            at = 8 * w;
        } else if dim >= 4 * w {
            pass::<S, F, 4, true>(bags, start, end, output, 0);
            at = 4 * w;
        } else if dim >= w {
            pass::<S, F, 1, true>(bags, start, end, output, 0);
            at = w;
        }
        while dim - at >= 8 * w {
            pass::<S, F, 8, false>(bags, start, end, output, at);
            at += 8 * w;
        }
        while dim - at >= 4 * w {
            pass::<S, F, 4, false>(bags, start, end, output, at);
            at += 4 * w;
        }
        while dim - at >= w {
            pass::<S, F, 1, false>(bags, start, end, output, at);
            at += w;
        }
        while dim - at >= 4 {
            pass::<Scalar, F, 4, false>(bags, start, end, output, at);
            at += 4;
        }
        while at < dim {
            pass::<Scalar, F, 1, false>(bags, start, end, output, at);
            at += 1;
        }
    }
}

/// Pools `N * WIDTH` columns from `at` on of one bag that is not empty.
#[inline(always)]
unsafe fn pass<S: Simd, F: Format, const N: usize, const PREFETCH: bool>(
    bags: &Bags<'_>,
    start: usize,
    end: usize,
    output: *mut f32,
    at: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let first = *bags.addresses.get_unchecked(start);
        if PREFETCH {
            prefetch_row::<S>(bags, start + bags.distance);
        }
        let (scale, mut shift) = F::scale_and_bias(first, bags.dim);
        let scales = S::splat(scale);
        let mut sums = [S::splat(0.0); N];
        for (n, sum) in sums.iter_mut().enumerate() {
            let value = F::load::<S>(first, at + n * S::WIDTH);
            *sum = if F::QUANTIZED { S::mul(scales, value) } else { value };
        }
        for index in start + 1..end {
            let row = *bags.addresses.get_unchecked(index);
            if PREFETCH {
                prefetch_row::<S>(bags, index + bags.distance);
            }
            let (scale, bias) = F::scale_and_bias(row, bags.dim);
            let scales = S::splat(scale);
            shift += bias;
            for (n, sum) in sums.iter_mut().enumerate() {
                let value = F::load::<S>(row, at + n * S::WIDTH);
                *sum = S::add(*sum, if F::QUANTIZED { S::mul(scales, value) } else { value });
            }
        }
        let shifts = S::splat(shift);
        let counts = S::splat((end - start) as f32);
        for (n, sum) in sums.iter().enumerate() {
            let mut value = *sum;
            if F::QUANTIZED {
                value = S::add(value, shifts);
            }
            if bags.pooling == Pooling::Mean {
                value = S::div(value, counts);
            }
            S::store(output.add(at + n * S::WIDTH), value);
        }
    }
}

/// Asks for all cache lines of the row whose address stands at `index`, if there is one.
#[inline(always)]
unsafe fn prefetch_row<S: Simd>(bags: &Bags<'_>, index: usize) {
    if let Some(&row) = bags.addresses.get(index) {
        let mut at = 0;
        while at < bags.row_bytes {
            // SAFETY: a prefetch of any address is harmless.
            unsafe { S::prefetch(row.wrapping_add(at)) };
            at += 64;
        }
    }
}

/// Asks for the first rows of a call, before there is anything to add.
///
/// # Safety
/// The CPU has the instruction set.
pub(crate) unsafe fn prefetch_first(level: Level, rows: &[*const u8], row_bytes: usize) {
    let ask = |row: &*const u8| {
        for at in (0..row_bytes).step_by(64) {
            let line = row.wrapping_add(at);
            match level {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: a prefetch of any address is harmless.
                Level::Avx2 | Level::Avx512 => unsafe { crate::simd::Avx2::prefetch(line) },
                #[cfg(target_arch = "aarch64")]
                // SAFETY: a prefetch of any address is harmless.
                Level::Neon => unsafe { crate::simd::Neon::prefetch(line) },
                _ => _ = line,
            }
        }
    };
    rows.iter().for_each(ask);
}
