//! What this core's memory gives without our kernels: sequential reads, and a plain loop over random 512-byte rows.
//!
//! `memory_baseline BYTES` answers each line of standard input (`sequential SECONDS`, `plain SECONDS`) by a line with bytes a second.

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

const ROW_FLOATS: usize = 128;

#[inline(always)]
fn sum_sequential(data: &[f32]) -> f32 {
    let mut sums = [0.0f32; 128];
    for chunk in data.chunks_exact(128) {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += value;
        }
    }
    sums.iter().sum()
}

/// Rows added one after the other, as a compiler makes of the plain loop.
#[inline(always)]
fn sum_rows(data: &[f32], rows: &[u32], output: &mut [f32; ROW_FLOATS]) {
    output.fill(0.0);
    for &row in rows {
        let row = &data[row as usize * ROW_FLOATS..][..ROW_FLOATS];
        for (sum, value) in output.iter_mut().zip(row) {
            *sum += value;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{ROW_FLOATS, sum_rows, sum_sequential};

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub fn sequential_avx512(data: &[f32]) -> f32 {
        sum_sequential(data)
    }
    #[target_feature(enable = "avx2")]
    pub fn sequential_avx2(data: &[f32]) -> f32 {
        sum_sequential(data)
    }
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub fn rows_avx512(data: &[f32], rows: &[u32], output: &mut [f32; ROW_FLOATS]) {
        sum_rows(data, rows, output);
    }
    #[target_feature(enable = "avx2")]
    pub fn rows_avx2(data: &[f32], rows: &[u32], output: &mut [f32; ROW_FLOATS]) {
        sum_rows(data, rows, output);
    }
}

fn sequential(data: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: just detected (BW and VL imply F).
            return unsafe { wide::sequential_avx512(data) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: just detected.
            return unsafe { wide::sequential_avx2(data) };
        }
    }
    sum_sequential(data)
}

fn plain(data: &[f32], rows: &[u32], output: &mut [f32; ROW_FLOATS]) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: just detected (BW and VL imply F).
            return unsafe { wide::rows_avx512(data, rows, output) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: just detected.
            return unsafe { wide::rows_avx2(data, rows, output) };
        }
    }
    sum_rows(data, rows, output);
}

/// Memory in huge pages where the system gives them.
fn allocate(floats: usize) -> Vec<f32> {
    let mut data = Vec::<f32>::with_capacity(floats + 524_288);
    #[cfg(target_os = "linux")]
    // SAFETY: whole huge pages inside the vector's own memory.
    unsafe {
        let from = (data.as_ptr() as usize).next_multiple_of(2 << 20);
        libc::madvise(from as *mut libc::c_void, floats * 4, libc::MADV_HUGEPAGE);
    }
    data.extend((0..floats).map(|i| (i % 1000) as f32));
    data
}

fn main() {
    let bytes: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3_200_000_000);
    let data = allocate(bytes / 4);
    let row_count = (data.len() / ROW_FLOATS) as u32;
    let mut seed = 88172645463325252u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 32) as u32
    };
    println!("ready");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let mut words = line.split_whitespace();
        let what = words.next().unwrap_or_default().to_owned();
        let limit = Duration::from_secs_f64(words.next().and_then(|text| text.parse().ok()).unwrap_or(1.0));
        // 200,000 bags are 800 MB of rows: no cache keeps them from one round to the next.
        let rows: Vec<[u32; 8]> = (0..200_000).map(|_| std::array::from_fn(|_| random() % row_count)).collect();
        let mut rounds = rows.chunks_exact(1000).cycle();
        let mut output = [0.0; ROW_FLOATS];
        let mut read = 0usize;
        let mut at = 0;
        let start = Instant::now();
        while start.elapsed() < limit {
            if what == "sequential" {
                let end = (at + (64 << 20) / 4).min(data.len());
                std::hint::black_box(sequential(&data[at..end]));
                read += (end - at) * 4;
                at = if end == data.len() { 0 } else { end };
            } else {
                let round = rounds.next().unwrap_or_default();
                for bag in round {
                    plain(&data, bag, &mut output);
                    std::hint::black_box(&output);
                }
                read += round.len() * 8 * ROW_FLOATS * 4;
            }
        }
        println!("{}", read as f64 / start.elapsed().as_secs_f64());
        std::io::stdout().flush().expect("stdout takes a line");
    }
}
