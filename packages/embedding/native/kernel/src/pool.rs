//! Pooling of rows whose addresses are known.

use crate::format::{Bfloat16, Float16, Float32, Format, Int4, Int8};
use crate::plan::Pooling;
use crate::prefetch::for_each_line;
use crate::simd::{Level, Scalar, Simd};
use crate::table::Dtype;

macro_rules! per_dtype {
    ($dtype:expr, $weighted:expr, $function:ident) => {
        match ($dtype, $weighted) {
            (Dtype::Float32, false) => $function::<Float32, false>,
            (Dtype::Float16, false) => $function::<Float16, false>,
            (Dtype::Bfloat16, false) => $function::<Bfloat16, false>,
            (Dtype::Int8, false) => $function::<Int8, false>,
            (Dtype::Int4, false) => $function::<Int4, false>,
            (Dtype::Float32, true) => $function::<Float32, true>,
            (Dtype::Float16, true) => $function::<Float16, true>,
            (Dtype::Bfloat16, true) => $function::<Bfloat16, true>,
            (Dtype::Int8, true) => $function::<Int8, true>,
            (Dtype::Int4, true) => $function::<Int4, true>,
        }
    };
}

/// The bags of one feature.
pub(crate) struct Bags<'a> {
    /// Addresses of rows: those of these bags, and of bags that come after them.
    pub addresses: &'a [*const u8],
    /// The weight of each of these rows, where there are weights.
    pub weights: &'a [f32],
    /// Where the first bag starts in `addresses`.
    pub start: usize,
    /// Where each bag ends in `addresses`.
    pub ends: &'a [u32],
    /// How many rows ahead to prefetch.
    pub distance: usize,
    /// Bytes from one line that is asked for to the next.
    pub prefetch_step: usize,
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
/// do not pass `addresses`, nor, if rows have weights, `weights`; every pooled vector lies in memory that may be written.
pub(crate) type PoolBags = unsafe fn(&Bags<'_>);

/// The function for an instruction set (which the caller knows is there), a dtype, and rows with weights or without.
pub(crate) fn pool_bags_of(level: Level, dtype: Dtype, weighted: bool) -> PoolBags {
    match level {
        Level::Scalar => per_dtype!(dtype, weighted, scalar),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => per_dtype!(dtype, weighted, avx2),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => per_dtype!(dtype, weighted, avx512),
        #[cfg(target_arch = "aarch64")]
        Level::Neon => per_dtype!(dtype, weighted, neon),
        #[allow(unreachable_patterns)]
        _ => per_dtype!(dtype, weighted, scalar),
    }
}

unsafe fn scalar<F: Format, const WEIGHTED: bool>(bags: &Bags<'_>) {
    // SAFETY: the caller's promise.
    unsafe { pool_bags::<Scalar, F, WEIGHTED>(bags) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn avx2<F: Format, const WEIGHTED: bool>(bags: &Bags<'_>) {
    // SAFETY: the caller's promise.
    unsafe { pool_bags::<crate::simd::Avx2, F, WEIGHTED>(bags) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl")]
unsafe fn avx512<F: Format, const WEIGHTED: bool>(bags: &Bags<'_>) {
    // SAFETY: the caller's promise.
    unsafe { pool_bags::<crate::simd::Avx512, F, WEIGHTED>(bags) }
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
unsafe fn neon<F: Format, const WEIGHTED: bool>(bags: &Bags<'_>) {
    // SAFETY: the caller's promise.
    unsafe { pool_bags::<crate::simd::Neon, F, WEIGHTED>(bags) }
}

#[inline(always)]
unsafe fn pool_bags<S: Simd, F: Format, const WEIGHTED: bool>(bags: &Bags<'_>) {
    let mut start = bags.start;
    for (bag, &end) in bags.ends.iter().enumerate() {
        let end = end as usize;
        // SAFETY: the caller's promise, bag by bag.
        unsafe {
            let output = bags.output.add(bag * bags.output_stride);
            if start == end {
                std::ptr::write_bytes(output, 0, bags.dim);
            } else {
                pool_bag::<S, F, WEIGHTED>(bags, start, end, output);
            }
        }
        start = end;
    }
}

/// Pools one bag that is not empty: as many columns a pass as registers hold, the first pass prefetching.
#[inline(always)]
unsafe fn pool_bag<S: Simd, F: Format, const WEIGHTED: bool>(bags: &Bags<'_>, start: usize, end: usize, output: *mut f32) {
    let (dim, w) = (bags.dim, S::WIDTH);
    // A conversion or a product needs registers of its own.
    let most = if F::CONVERTS || WEIGHTED { S::ACCUMULATORS / 2 } else { S::ACCUMULATORS };
    let mut at = 0;
    // SAFETY: for all passes, the caller's promise; columns at … at + N * WIDTH are in the row.
    unsafe {
        if most >= 16 && dim >= 16 * w {
            pass::<S, F, WEIGHTED, 16, true>(bags, start, end, output, 0);
            at = 16 * w;
            while dim - at >= 16 * w {
                pass::<S, F, WEIGHTED, 16, false>(bags, start, end, output, at);
                at += 16 * w;
            }
        } else if dim >= 8 * w {
            pass::<S, F, WEIGHTED, 8, true>(bags, start, end, output, 0);
            at = 8 * w;
        } else if dim >= 4 * w {
            pass::<S, F, WEIGHTED, 4, true>(bags, start, end, output, 0);
            at = 4 * w;
        } else if dim >= w {
            pass::<S, F, WEIGHTED, 1, true>(bags, start, end, output, 0);
            at = w;
        }
        while dim - at >= 8 * w {
            pass::<S, F, WEIGHTED, 8, false>(bags, start, end, output, at);
            at += 8 * w;
        }
        while dim - at >= 4 * w {
            pass::<S, F, WEIGHTED, 4, false>(bags, start, end, output, at);
            at += 4 * w;
        }
        while dim - at >= w {
            pass::<S, F, WEIGHTED, 1, false>(bags, start, end, output, at);
            at += w;
        }
        while dim - at >= 4 {
            pass::<Scalar, F, WEIGHTED, 4, false>(bags, start, end, output, at);
            at += 4;
        }
        while at < dim {
            pass::<Scalar, F, WEIGHTED, 1, false>(bags, start, end, output, at);
            at += 1;
        }
    }
}

/// The vectors of a pass in the order in which they are added: of each pair of cache lines the first, then the second ones. What was
/// prefetched comes first, its neighbours, which the hardware fetches, later.
#[inline(always)]
const fn in_line_order<S: Simd, F: Format, const N: usize>(at: usize) -> usize {
    let per_line = 512 / (S::WIDTH * F::BITS);
    if per_line == 0 || per_line > N / 2 || !N.is_multiple_of(2 * per_line) {
        return at;
    }
    let (half, within) = (at / (N / 2), at % (N / 2));
    within / per_line * 2 * per_line + half * per_line + within % per_line
}

/// Pools `N * WIDTH` columns from `at` on of one bag that is not empty.
#[inline(always)]
unsafe fn pass<S: Simd, F: Format, const WEIGHTED: bool, const N: usize, const PREFETCH: bool>(
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
        let (scale, mut shift) = scale_and_bias::<F, WEIGHTED>(bags, start, first);
        let scales = S::splat(scale);
        let mut sums = [S::splat(0.0); N];
        for n in 0..N {
            let n = in_line_order::<S, F, N>(n);
            let value = F::load::<S>(first, at + n * S::WIDTH);
            sums[n] = if F::QUANTIZED || WEIGHTED { S::mul(scales, value) } else { value };
        }
        for index in start + 1..end {
            let row = *bags.addresses.get_unchecked(index);
            if PREFETCH {
                prefetch_row::<S>(bags, index + bags.distance);
            }
            let (scale, bias) = scale_and_bias::<F, WEIGHTED>(bags, index, row);
            let scales = S::splat(scale);
            shift += bias;
            for n in 0..N {
                let n = in_line_order::<S, F, N>(n);
                let value = F::load::<S>(row, at + n * S::WIDTH);
                sums[n] = S::add(sums[n], if F::QUANTIZED || WEIGHTED { S::mul(scales, value) } else { value });
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

/// What the elements of the row at `index` are multiplied by, and what is added to each.
#[inline(always)]
unsafe fn scale_and_bias<F: Format, const WEIGHTED: bool>(bags: &Bags<'_>, index: usize, row: *const u8) -> (f32, f32) {
    // SAFETY: the caller's promise: a row of the format, with a weight if there are weights.
    let (scale, bias) = unsafe { F::scale_and_bias(row, bags.dim) };
    if !WEIGHTED {
        return (scale, bias);
    }
    // SAFETY: as above.
    let weight = unsafe { *bags.weights.get_unchecked(index) };
    if F::QUANTIZED { (weight * scale, weight * bias) } else { (weight, 0.0) }
}

/// Asks for the row whose address stands at `index`, if there is one.
#[inline(always)]
unsafe fn prefetch_row<S: Simd>(bags: &Bags<'_>, index: usize) {
    if let Some(&row) = bags.addresses.get(index) {
        // SAFETY: a prefetch of any address is harmless.
        for_each_line(row, bags.row_bytes, bags.prefetch_step, |line| unsafe { S::prefetch(line) });
    }
}
