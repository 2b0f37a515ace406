//! Memory that holds rows: anonymous in huge pages, or mapped from a file.

use std::io;
use std::ptr::NonNull;

/// The size of the pages asked for, and the alignment of anonymous memory.
pub const HUGE_PAGE_BYTES: usize = 2 * 1024 * 1024;

/// A range of memory this process owns until it is dropped.
pub struct Memory {
    start: NonNull<u8>,
    len: usize,
    kind: Kind,
}

enum Kind {
    /// Of `std::alloc`, where there is no mmap (and under Miri).
    #[cfg_attr(all(unix, not(miri)), allow(dead_code))]
    Heap,
    /// Of mmap: the whole mapping, which may start before `start`.
    #[cfg(all(unix, not(miri)))]
    Mapped { base: NonNull<u8>, len: usize, anonymous: bool },
}

// SAFETY: Memory is a plain range of bytes; nothing about it belongs to a thread.
unsafe impl Send for Memory {}
// SAFETY: through a shared reference it only gives out pointers.
unsafe impl Sync for Memory {}

impl Memory {
    /// The first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes that may be used.
    pub fn len(&self) -> usize {
        self.len
    }
}

#[cfg(any(not(unix), miri))]
impl Memory {
    fn layout(len: usize) -> std::alloc::Layout {
        let align = if len >= HUGE_PAGE_BYTES && !cfg!(miri) { HUGE_PAGE_BYTES } else { 64 };
        std::alloc::Layout::from_size_align(len.max(1), align).expect("a table's size fits a layout")
    }

    /// Zeroed memory.
    pub fn anonymous(len: usize) -> io::Result<Memory> {
        // SAFETY: the layout's size is not zero.
        let start = unsafe { std::alloc::alloc_zeroed(Memory::layout(len)) };
        let start = NonNull::new(start).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Memory { start, len, kind: Kind::Heap })
    }

    /// Not here: files are read, never mapped.
    pub fn map_file(_file: &std::fs::File, _offset: u64, _len: usize) -> io::Result<Memory> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "mapping files is not supported on this system"))
    }

    /// Gives pages back early; here only dropping does.
    pub fn discard(&self, _start: usize, _len: usize) {}

    /// Spreads pages over NUMA nodes; not here.
    pub fn interleave(&self) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "NUMA interleaving is not supported on this system"))
    }
}

#[cfg(any(not(unix), miri))]
impl Drop for Memory {
    fn drop(&mut self) {
        let Kind::Heap = self.kind;
        // SAFETY: allocated in `anonymous` with the same layout.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), Memory::layout(self.len)) }
    }
}

#[cfg(all(unix, not(miri)))]
impl Memory {
    /// Zeroed memory, aligned to huge pages and asking for them if it holds at least one.
    pub fn anonymous(len: usize) -> io::Result<Memory> {
        let align = if len >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { 1 };
        let mapped_len = len.max(1) + align - 1;
        // SAFETY: a new anonymous mapping touches no memory that exists.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | NO_RESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).expect("mmap gives no null");
        let skip = base.as_ptr().align_offset(align);
        // SAFETY: skip < align, and the mapping is len + align - 1 bytes long.
        let start = unsafe { base.add(skip) };
        let memory = Memory { start, len, kind: Kind::Mapped { base, len: mapped_len, anonymous: true } };
        if len >= HUGE_PAGE_BYTES {
            // Only advice: without huge pages the tables work, at more TLB misses.
            #[cfg(target_os = "linux")]
            // SAFETY: the range lies in the mapping just made.
            unsafe {
                libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE);
            }
        }
        Ok(memory)
    }

    /// `len` bytes of a file from `offset` on, read-only, shared with everything else that maps it.
    pub fn map_file(file: &std::fs::File, offset: u64, len: usize) -> io::Result<Memory> {
        use std::os::fd::AsRawFd;
        // SAFETY: a plain question.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        let skip = (offset % page) as usize;
        let mapped_len = len + skip;
        // SAFETY: a new mapping touches no memory that exists.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped_len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                (offset - skip as u64) as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).expect("mmap gives no null");
        // SAFETY: the range is the mapping just made. Rows are read at random: reading ahead would only evict others.
        unsafe {
            libc::madvise(base.as_ptr().cast(), mapped_len, libc::MADV_RANDOM);
        }
        // SAFETY: skip < mapped_len.
        let start = unsafe { base.add(skip) };
        Ok(Memory { start, len, kind: Kind::Mapped { base, len: mapped_len, anonymous: false } })
    }

    /// Gives the pages that lie wholly in this range back to the system. Nobody may read the range again.
    pub fn discard(&self, start: usize, len: usize) {
        let Kind::Mapped { anonymous: true, .. } = self.kind else { return };
        // SAFETY: a plain question.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let address = self.start.as_ptr() as usize;
        let from = (address + start).next_multiple_of(page);
        let to = (address + start + len) / page * page;
        if from < to && start + len <= self.len {
            // SAFETY: whole pages inside this mapping, which the caller has said nobody reads again.
            unsafe {
                libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_DONTNEED);
            }
        }
    }

    /// Spreads the pages (not touched yet) over all NUMA nodes.
    #[cfg(target_os = "linux")]
    pub fn interleave(&self) -> io::Result<()> {
        const MPOL_INTERLEAVE: libc::c_int = 3;
        let mut nodes = 0u64;
        for node in 0..64 {
            if std::path::Path::new(&format!("/sys/devices/system/node/node{node}")).exists() {
                nodes |= 1 << node;
            }
        }
        if nodes.count_ones() < 2 || self.len < HUGE_PAGE_BYTES {
            return Ok(());
        }
        // SAFETY: the range is this mapping; `nodes` outlives the call and has 64 bits.
        let failed = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start.as_ptr(),
                self.len,
                MPOL_INTERLEAVE,
                &raw const nodes,
                u64::BITS as libc::c_ulong + 1,
                0,
            )
        };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Not here.
    #[cfg(not(target_os = "linux"))]
    pub fn interleave(&self) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "NUMA interleaving is not supported on this system"))
    }
}

/// Tables larger than memory plus swap fail when their pages are touched, not here.
#[cfg(all(unix, not(miri)))]
const NO_RESERVE: libc::c_int = if cfg!(target_os = "linux") { libc::MAP_NORESERVE } else { 0 };

#[cfg(all(unix, not(miri)))]
impl Drop for Memory {
    fn drop(&mut self) {
        if let Kind::Mapped { base, len, .. } = self.kind {
            // SAFETY: mapped by this value, and nobody holds a pointer into it any more.
            unsafe {
                libc::munmap(base.as_ptr().cast(), len);
            }
        }
    }
}
