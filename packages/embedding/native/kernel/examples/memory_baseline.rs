//! What this core's memory gives without our kernels: sequential reads, a plain loop that adds random 512-byte rows without prefetch,
//! and reads of such rows that add nothing, with the prefetch that is best here.
//!
//! `memory_baseline MAX_ROWS` answers each line of standard input, a JSON list, by a number: `["plain", SECONDS, THREADS]` and
//! `["random", SECONDS, THREADS]` by examples a second, `["sequential", SECONDS, THREADS]` by bytes a second, `["read", FILE, THREADS]`
//! by seconds.

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

/// An empty vector with room for `len` elements, in huge pages where the system gives them.
fn vec_in_huge_pages<T>(len: usize) -> Vec<T> {
    let vec = Vec::<T>::with_capacity(len);
    #[cfg(target_os = "linux")]
    {
        const HUGE: usize = 2 << 20;
        let from = (vec.as_ptr() as usize).next_multiple_of(HUGE);
        let to = (vec.as_ptr() as usize + len * size_of::<T>()) / HUGE * HUGE;
        if from < to {
            // SAFETY: whole huge pages inside the vector's own memory; advice only.
            unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_HUGEPAGE) };
        }
    }
    vec
}

const HOT_SIZES: [u32; 26] = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1];
const VOCABULARY_SIZES: [u32; 26] = [
    40_000_000, 39_060, 17_295, 7424, 20_265, 3, 7122, 1543, 63, 40_000_000, 3_067_956, 405_282, 10, 2209, 11_938, 155, 4, 976,
    14, 40_000_000, 40_000_000, 40_000_000, 590_152, 12_973, 108, 36,
];
/// Examples that are made before the clock starts: their rows are more than any cache holds.
const EXAMPLES: usize = 16_384;
const BATCH: usize = 16;

/// Rows of the whole memory, batch by batch, feature by feature.
fn random_rows(max_rows: u32, seed: u64) -> Vec<u32> {
    let mut state = seed | 1;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u32
    };
    let mut rows = Vec::new();
    for _ in 0..EXAMPLES / BATCH {
        let mut before = 0;
        for (&hot_size, &size) in HOT_SIZES.iter().zip(&VOCABULARY_SIZES) {
            let size = size.min(max_rows);
            rows.extend((0..BATCH as u32 * hot_size).map(|_| before + random() % size));
            before += size;
        }
    }
    rows
}

/// Reads rows, some of which it may have asked for before.
type ReadRows = fn(&[f32], &[u32]) -> f32;

/// Reads one element of each cache line of a row: the least that a row costs.
#[inline(always)]
fn read_row(data: &[f32], row: u32) -> f32 {
    let row = &data[row as usize * ROW_FLOATS..][..ROW_FLOATS];
    // Of each pair of lines the first, which may be the only one that was asked for; then the others.
    [0, 16].map(|first| row[first] + row[first + 32] + row[first + 64] + row[first + 96]).iter().sum()
}

fn read_rows(data: &[f32], rows: &[u32]) -> f32 {
    rows.iter().map(|&row| read_row(data, row)).sum()
}

#[cfg(target_arch = "x86_64")]
fn read_rows_ahead<const HINT: i32, const AHEAD: usize, const LINES_APART: usize>(data: &[f32], rows: &[u32]) -> f32 {
    let mut sum = 0.0;
    for (at, &row) in rows.iter().enumerate() {
        if let Some(&ahead) = rows.get(at + AHEAD) {
            for line in (0..ROW_FLOATS / 16).step_by(LINES_APART) {
                let line = data.as_ptr().wrapping_add(ahead as usize * ROW_FLOATS + line * 16);
                // SAFETY: a prefetch of any address is harmless, and every x86-64 CPU has it.
                unsafe { std::arch::x86_64::_mm_prefetch::<HINT>(line.cast()) };
            }
        }
        sum += read_row(data, row);
    }
    sum
}

/// Ways to read random rows, and what they are called.
fn ways_to_read() -> Vec<(String, ReadRows)> {
    #[allow(unused_mut)]
    let mut ways: Vec<(String, ReadRows)> = vec![("without prefetch".into(), read_rows)];
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_NTA, _MM_HINT_T0, _MM_HINT_T1};
        macro_rules! add {
            ($($hint:ident $ahead:literal $apart:literal),*) => {
                $(ways.push((
                    format!("{} {} rows ahead, {} of 8 lines", stringify!($hint), $ahead, 8 / $apart),
                    read_rows_ahead::<$hint, $ahead, $apart>,
                ));)*
            };
        }
        macro_rules! add_all {
            ($($ahead:literal),*) => {
                $(add!(
                    _MM_HINT_T0 $ahead 1, _MM_HINT_T0 $ahead 2, _MM_HINT_T1 $ahead 1, _MM_HINT_T1 $ahead 2,
                    _MM_HINT_NTA $ahead 1, _MM_HINT_NTA $ahead 2
                );)*
            };
        }
        add_all!(8, 16, 32, 64, 128, 192);
    }
    ways
}

/// The fastest way here, by a short try of each.
fn best_way_to_read(data: &[f32], max_rows: u32) -> ReadRows {
    const TRY: Duration = Duration::from_millis(60);
    let rows = random_rows(max_rows, 1);
    let mut tried: Vec<_> = ways_to_read().into_iter().map(|way| (0.0f64, way)).collect();
    for _ in 0..2 {
        for (rate, (_, read)) in &mut tried {
            *rate = rate.max(rate_of_reading(data, &rows, TRY, *read));
        }
    }
    let best = tried.into_iter().max_by(|(a, _), (b, _)| a.total_cmp(b));
    let (rate, (name, read)) = best.expect("there is a way without prefetch");
    eprintln!("random rows are read fastest {name}: {rate:.0} examples/s");
    read
}

fn rate_of_reading(data: &[f32], rows: &[u32], limit: Duration, read: ReadRows) -> f64 {
    let rows_per_batch = rows.len() / (EXAMPLES / BATCH);
    let mut batches = 0;
    let start = Instant::now();
    while start.elapsed() < limit {
        let first = batches % (EXAMPLES / BATCH) * rows_per_batch;
        std::hint::black_box(read(data, &rows[first..first + rows_per_batch]));
        batches += 1;
    }
    (batches * BATCH) as f64 / start.elapsed().as_secs_f64()
}

/// Examples a second of one thread.
fn measure_random(data: &[f32], max_rows: u32, limit: Duration, seed: u64, read: ReadRows) -> f64 {
    rate_of_reading(data, &random_rows(max_rows, seed), limit, read)
}

/// Examples a second of one thread.
fn measure_plain(data: &[f32], max_rows: u32, limit: Duration, seed: u64) -> f64 {
    let rows = random_rows(max_rows, seed);
    let rows_per_batch = rows.len() / (EXAMPLES / BATCH);
    let mut output = vec![[0.0; ROW_FLOATS]; BATCH * HOT_SIZES.len()];
    let mut batches = 0;
    let start = Instant::now();
    while start.elapsed() < limit {
        let first = batches % (EXAMPLES / BATCH) * rows_per_batch;
        let mut left = &rows[first..first + rows_per_batch];
        for (feature, &hot_size) in HOT_SIZES.iter().enumerate() {
            for b in 0..BATCH {
                let (bag, rest) = left.split_at(hot_size as usize);
                plain(data, bag, &mut output[b * HOT_SIZES.len() + feature]);
                left = rest;
            }
        }
        std::hint::black_box(&output);
        batches += 1;
    }
    (batches * BATCH) as f64 / start.elapsed().as_secs_f64()
}

/// Bytes a second of one thread.
fn measure_sequential(data: &[f32], limit: Duration) -> f64 {
    let mut read = 0usize;
    let mut at = 0;
    let start = Instant::now();
    while start.elapsed() < limit {
        let end = (at + (64 << 20) / 4).min(data.len());
        std::hint::black_box(sequential(&data[at..end]));
        read += (end - at) * 4;
        at = if end == data.len() { 0 } else { end };
    }
    read as f64 / start.elapsed().as_secs_f64()
}

/// Seconds to read a file into new memory.
fn measure_read(path: &str, threads: usize) -> f64 {
    const PIECE_BYTES: usize = 8 << 20;
    let start = Instant::now();
    let file = std::fs::File::open(path).expect("the file is there");
    let len = file.metadata().expect("a file has a size").len() as usize;
    let mut bytes = vec_in_huge_pages::<u8>(len);
    // SAFETY: every byte is read into below, or the program ends.
    unsafe { bytes.set_len(len) };
    let pieces = std::sync::Mutex::new(bytes.chunks_mut(PIECE_BYTES).enumerate());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let piece = pieces.lock().expect("no thread panics").next();
                    let Some((at, piece)) = piece else { return };
                    read_exact_at(&file, piece, (at * PIECE_BYTES) as u64);
                }
            });
        }
    });
    start.elapsed().as_secs_f64()
}

#[cfg(unix)]
fn read_exact_at(file: &std::fs::File, bytes: &mut [u8], offset: u64) {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset).expect("the file can be read");
}

#[cfg(not(unix))]
fn read_exact_at(_file: &std::fs::File, _bytes: &mut [u8], _offset: u64) {
    panic!("positioned reads are measured on Unix only");
}

fn main() {
    let max_rows: u32 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(850_000);
    let row_count: u32 = VOCABULARY_SIZES.iter().map(|&size| size.min(max_rows)).sum();
    let mut data = vec_in_huge_pages::<f32>(row_count as usize * ROW_FLOATS);
    data.extend((0..row_count as usize * ROW_FLOATS).map(|i| (i % 1000) as f32));
    let mut best_way = None;
    println!("true");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        // A JSON list of plain texts and numbers: [what, seconds or file, threads].
        let words: Vec<_> = line.trim_matches(['[', ']']).split(',').map(|word| word.trim_matches('"')).collect();
        let [what, argument, threads] = words[..] else { panic!("not a question: {line}") };
        let threads: usize = threads.parse().expect("threads are a number");
        let answer = if what == "read" {
            measure_read(argument, threads)
        } else {
            let limit = Duration::from_secs_f64(argument.parse().expect("seconds are a number"));
            let data = &data[..];
            let way =
                if what == "random" { *best_way.get_or_insert_with(|| best_way_to_read(data, max_rows)) } else { read_rows };
            let of_thread = move |at: usize| match what {
                "plain" => measure_plain(data, max_rows, limit, at as u64 + 1),
                "random" => measure_random(data, max_rows, limit, at as u64 + 1, way),
                _ => measure_sequential(data, limit),
            };
            std::thread::scope(|scope| {
                let running: Vec<_> = (0..threads).map(|at| scope.spawn(move || of_thread(at))).collect();
                running.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
            })
        };
        println!("{answer}");
        std::io::stdout().flush().expect("stdout takes a line");
    }
}
