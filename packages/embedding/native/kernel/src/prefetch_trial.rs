//! Finds out, with the tables themselves, how rows are best asked for here. Cores of one vendor differ: one AMD core reads random rows
//! fastest when every other line is asked for, the next 1.7 times as fast when all are; and a host may have set what its guests cannot see.

use std::time::Instant;

use crate::memory::Memory;
use crate::prefetch::{Prefetch, for_each_line};
use crate::simd::Level;

/// Of less, caches may hold what a trial read before.
const LEAST_BYTES: usize = 256 << 20;
/// What is read at a time, at multiples of its own size: as long as a row of 128 float32.
const PIECE_BYTES: usize = 512;
/// Of one measurement: some 0.1 ms.
const PIECES: usize = 1024;
/// Measurements of each way, of which the median counts: one that was interrupted is none. All together take some milliseconds.
const ROUNDS: usize = 15;
/// After so long a trial is given up: what is read may be swapped out, and the usual way is as good as any there.
const MOST_NANOS: f64 = 250e6;
/// Another way than this CPU's usual one must take no more of its time than this.
const CLEARLY_FASTER: f64 = 0.95;

/// The fastest way to ask for rows of tables in these memories, all of which have been filled; the usual one if they are small.
pub(crate) fn fastest(memories: &[Memory], level: Level) -> Prefetch {
    let usual = Prefetch::of_this_cpu();
    let all = Pieces::of(memories);
    if all.count() < LEAST_BYTES / PIECE_BYTES || cfg!(miri) {
        return usual;
    }
    let ways: Vec<_> = std::iter::once(usual).chain(Prefetch::ALL.iter().copied().filter(|&way| way != usual)).collect();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut pieces = Vec::with_capacity(PIECES);
    try_all(&ways, |way| {
        all.pick(&mut random, &mut pieces);
        let start = Instant::now();
        // SAFETY: each piece lies in a memory that the caller has borrowed.
        std::hint::black_box(unsafe { read_pieces(&pieces, way, level) });
        start.elapsed().as_nanos() as f64
    })
}

/// The fastest of some ways by the nanoseconds that they take; the first if that would take too long to find out.
fn try_all(ways: &[Prefetch], mut nanos_of: impl FnMut(Prefetch) -> f64) -> Prefetch {
    let mut nanos = vec![Vec::with_capacity(ROUNDS); ways.len()];
    let mut total = 0.0;
    for _ in 0..ROUNDS {
        for (&way, nanos) in ways.iter().zip(&mut nanos) {
            let took = nanos_of(way);
            total += took;
            if total > MOST_NANOS {
                return ways[0];
            }
            nanos.push(took);
        }
    }
    choose(ways, &mut nanos)
}

/// The fastest by the median, if it is clearly faster than the first.
fn choose(ways: &[Prefetch], nanos: &mut [Vec<f64>]) -> Prefetch {
    let medians = nanos.iter_mut().map(|nanos| {
        nanos.sort_by(f64::total_cmp);
        nanos[nanos.len() / 2]
    });
    let medians: Vec<_> = medians.collect();
    let best = (0..ways.len()).min_by(|&a, &b| medians[a].total_cmp(&medians[b])).unwrap_or(0);
    if medians[best] <= CLEARLY_FASTER * medians[0] { ways[best] } else { ways[0] }
}

/// All whole pieces of some memories.
struct Pieces {
    /// Where a memory with pieces starts, and how many pieces it and those before it have.
    memories: Vec<(*const u8, usize)>,
}

impl Pieces {
    fn of(memories: &[Memory]) -> Pieces {
        let mut count = 0;
        let with_pieces = memories.iter().filter(|memory| memory.len() >= PIECE_BYTES).map(|memory| {
            count += memory.len() / PIECE_BYTES;
            (memory.as_ptr().cast_const(), count)
        });
        Pieces { memories: with_pieces.collect() }
    }

    fn count(&self) -> usize {
        self.memories.last().map_or(0, |&(_, count)| count)
    }

    /// Random ones, each as likely as any other; there must be some.
    fn pick(&self, random: &mut Random, pieces: &mut Vec<*const u8>) {
        pieces.clear();
        for _ in 0..PIECES {
            let piece = random.next() as usize % self.count();
            let at = self.memories.partition_point(|&(_, end)| end <= piece);
            let before = at.checked_sub(1).map_or(0, |before| self.memories[before].1);
            pieces.push(self.memories[at].0.wrapping_add((piece - before) * PIECE_BYTES));
        }
    }
}

/// Reads something of each line.
///
/// # Safety
/// Pieces are readable, and nobody writes to them.
unsafe fn read_pieces(pieces: &[*const u8], way: Prefetch, level: Level) -> u8 {
    let (distance, step) = (way.distance(PIECE_BYTES), way.step(PIECE_BYTES));
    let ask = |piece: *const u8| for_each_line(piece, PIECE_BYTES, step, |line| level.prefetch(line));
    pieces.iter().take(distance).for_each(|&piece| ask(piece));
    let mut sum = 0u8;
    for (at, &piece) in pieces.iter().enumerate() {
        if let Some(&ahead) = pieces.get(at + distance) {
            ask(ahead);
        }
        for line in (0..PIECE_BYTES).step_by(64) {
            // SAFETY: the caller's promise.
            sum = sum.wrapping_add(unsafe { *piece.add(line) });
        }
    }
    sum
}

/// Marsaglia's xorshift with 64 bits of state: the same pieces each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{LEAST_BYTES, MOST_NANOS, PIECE_BYTES, PIECES, Pieces, ROUNDS, Random, choose, fastest, try_all};
    use crate::memory::Memory;
    use crate::prefetch::Prefetch;
    use crate::simd::Level;

    #[test]
    fn pieces_lie_in_the_memories_and_come_from_all_of_them() {
        let memories = [PIECE_BYTES - 1, 3 * PIECE_BYTES + 17, PIECE_BYTES].map(|len| Memory::anonymous(len).expect("memory"));
        let mut pieces = Vec::new();
        let all = Pieces::of(&memories);
        assert_eq!(all.count(), 4);
        all.pick(&mut Random(1), &mut pieces);
        assert_eq!(pieces.len(), PIECES);
        let expected = [(1, 0), (1, 1), (1, 2), (2, 0)]
            .map(|(memory, piece): (usize, usize)| memories[memory].as_ptr().cast_const().wrapping_add(piece * PIECE_BYTES));
        assert!(pieces.iter().all(|piece| expected.contains(piece)));
        assert!(expected.iter().all(|piece| pieces.contains(piece)));
    }

    #[test]
    fn another_way_is_taken_only_if_it_is_clearly_faster() {
        let [usual, other] = [Prefetch::ALL[0], Prefetch::ALL[1]];
        // One interrupted measurement changes nothing.
        let mut clearly = [vec![100.0, 101.0, 99.0], vec![94.0, 95.0, 9000.0]];
        assert_eq!(choose(&[usual, other], &mut clearly), other);
        let mut hardly = [vec![100.0, 101.0, 99.0], vec![97.0, 96.0, 1.0]];
        assert_eq!(choose(&[usual, other], &mut hardly), usual);
    }

    #[test]
    fn all_ways_are_measured_unless_that_would_take_too_long() {
        let ways = [Prefetch::ALL[0], Prefetch::ALL[1]];
        let mut measured = 0;
        let mut try_with = |nanos: [f64; 2]| {
            measured = 0;
            let way = try_all(&ways, |way| {
                measured += 1;
                nanos[usize::from(way == ways[1])]
            });
            (way, measured)
        };
        assert_eq!(try_with([2e5, 1e5]), (ways[1], 2 * ROUNDS));
        assert_eq!(try_with([MOST_NANOS / 2.0, MOST_NANOS / 3.0]), (ways[0], 3));
    }

    #[test]
    fn small_tables_are_not_tried() {
        assert_eq!(fastest(&[], Level::best()), Prefetch::of_this_cpu());
        let small = [Memory::anonymous(LEAST_BYTES - 1).expect("memory")];
        assert_eq!(fastest(&small, Level::best()), Prefetch::of_this_cpu());
    }

    #[test]
    #[cfg_attr(miri, ignore = "half a million allocations")]
    fn tables_that_hold_no_piece_are_not_tried_however_many_they_are() {
        let len = PIECE_BYTES - 1;
        let tiny: Vec<_> = (0..LEAST_BYTES.div_ceil(len)).map(|_| Memory::anonymous(len).expect("memory")).collect();
        assert_eq!(fastest(&tiny, Level::best()), Prefetch::of_this_cpu());
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing is tried there")]
    fn large_tables_are_asked_for_in_one_of_the_known_ways() {
        let large = [Memory::anonymous(LEAST_BYTES).expect("memory")];
        let way = fastest(&large, Level::best());
        assert!(way == Prefetch::of_this_cpu() || Prefetch::ALL.contains(&way));
    }
}
