//! Asking for rows before they are added.

use std::fmt;

/// A cache line.
const LINE: usize = 64;

/// How far ahead rows are asked for, and how many of their lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefetch {
    /// Enough to cover memory's latency, few enough to be there still when they are used.
    ahead_bytes: usize,
    /// Bytes that come with one line that is asked for.
    step: usize,
}

impl Prefetch {
    /// Ways that were the fastest on some core, with random rows of 512 bytes: into the second level cache, and with `step` of two
    /// lines where the hardware fetches each line's neighbour by itself.
    pub const ALL: &[Prefetch] =
        &[Prefetch::of(16, 2 * LINE), Prefetch::of(24, LINE), Prefetch::of(48, LINE), Prefetch::of(128, LINE)];

    const fn of(ahead_rows: usize, step: usize) -> Prefetch {
        Prefetch { ahead_bytes: ahead_rows * 512, step }
    }

    /// What is usually the fastest on cores of this vendor.
    pub fn of_this_cpu() -> Prefetch {
        match vendor() {
            Some(b"GenuineIntel") => Prefetch::of(128, LINE),
            _ => Prefetch::of(24, LINE),
        }
    }

    /// Rows to ask for ahead, where the largest are this long.
    pub fn distance(&self, row_bytes: usize) -> usize {
        (self.ahead_bytes / row_bytes.max(1)).clamp(4, 512)
    }

    /// Bytes from one line to ask for to the next, in rows this long: a power of two.
    pub fn step(&self, row_bytes: usize) -> usize {
        // A neighbour that lies outside of the row costs as much as one inside: rows that are not made of pairs are asked for line by
        // line.
        if row_bytes.is_multiple_of(self.step) { self.step } else { LINE }
    }
}

/// Calls `ask` with the lines of a row, `step` bytes apart. Pairs of lines start at multiples of their size.
#[inline(always)]
pub(crate) fn for_each_line(row: *const u8, row_bytes: usize, step: usize, mut ask: impl FnMut(*const u8)) {
    let within = row.addr() & (step - 1);
    let first = row.wrapping_sub(within);
    let mut at = 0;
    while at < within + row_bytes {
        ask(first.wrapping_add(at));
        at += step;
    }
}

impl fmt::Display for Prefetch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes ahead, every {} bytes", self.ahead_bytes, self.step)
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn vendor() -> Option<&'static [u8; 12]> {
    let id = std::arch::x86_64::__cpuid(0);
    let name = [id.ebx, id.edx, id.ecx].map(u32::to_le_bytes).concat();
    [b"GenuineIntel"].into_iter().find(|known| name == known.as_slice())
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn vendor() -> Option<&'static [u8; 12]> {
    None
}

#[cfg(test)]
mod tests {
    use super::{LINE, Prefetch, for_each_line};

    fn lines(step: usize, row: usize, row_bytes: usize) -> Vec<usize> {
        let step = Prefetch { ahead_bytes: 0, step }.step(row_bytes);
        let mut lines = Vec::new();
        for_each_line(std::ptr::without_provenance(row), row_bytes, step, |line| lines.push(line.addr()));
        lines
    }

    #[test]
    fn all_lines_that_a_row_touches_are_asked_for_once() {
        assert_eq!(lines(LINE, 4096, 128), [4096, 4160]);
        assert_eq!(lines(LINE, 4096, 129), [4096, 4160, 4224]);
        assert_eq!(lines(LINE, 4096 + 60, 8), [4096, 4160]);
        assert_eq!(lines(LINE, 4096 + 63, 1), [4096]);
    }

    #[test]
    fn one_line_of_each_pair_is_asked_for_where_rows_are_pairs() {
        assert_eq!(lines(2 * LINE, 4096, 512), [4096, 4224, 4352, 4480]);
        assert_eq!(lines(2 * LINE, 4096 + 64, 256), [4096, 4224, 4352]);
        assert_eq!(lines(2 * LINE, 4096, 136), [4096, 4160, 4224]);
    }

    #[test]
    fn says_what_it_is() {
        assert_eq!(Prefetch::of(24, LINE).to_string(), "12288 bytes ahead, every 64 bytes");
    }

    #[test]
    fn rows_ahead_follow_the_size_of_rows_unless_they_are_given() {
        let prefetch = Prefetch { ahead_bytes: 8192, step: LINE };
        assert_eq!([64, 512, 4096, 1].map(|bytes| prefetch.distance(bytes)), [128, 16, 4, 512]);
    }
}
