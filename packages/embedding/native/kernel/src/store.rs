//! The tables of a process, and their versions.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;

use crate::memory::{HUGE_PAGE_BYTES, Memory};
use crate::prefetch::Prefetch;
use crate::table::{Source, TableSpec};

/// Tables that any number of threads read, each gather from one version of all of them.
///
/// Rows live in chunks of at most 2 MiB. An update copies the chunks it touches, changes the copies and publishes a version that
/// points to them; chunks that no version in use points to are given back to the system.
pub struct Store {
    id: u64,
    tables: Vec<TableSpec>,
    current: ArcSwap<Version>,
    /// Held while a version is being made: updates are one after the other.
    writer: Mutex<()>,
    prefetch: Prefetch,
}

/// All rows of all tables, as of one update.
pub(crate) struct Version {
    pub epoch: u64,
    pub tables: Vec<Arc<TableVersion>>,
}

/// The rows of one table.
pub(crate) struct TableVersion {
    row_bytes: usize,
    /// log2 of the rows in a chunk.
    chunk_shift: u32,
    /// The first byte of each chunk. Valid while `owners` is.
    starts: Vec<*const u8>,
    /// The first byte of the first chunk, where all others follow it.
    contiguous: Option<*const u8>,
    owners: Vec<Arc<Chunk>>,
}

// SAFETY: the pointers are to memory that `owners` keeps alive and that nobody writes to once a version is published.
unsafe impl Send for TableVersion {}
// SAFETY: as above.
unsafe impl Sync for TableVersion {}

/// Memory of one chunk, given back when the last version that uses it goes.
struct Chunk {
    memory: Arc<Memory>,
    start: usize,
    len: usize,
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // While the memory has other chunks, only this one's pages can go.
        self.memory.discard(self.start, self.len);
    }
}

impl TableVersion {
    fn over(memory: Memory, spec: &TableSpec) -> TableVersion {
        let row_bytes = spec.row_bytes();
        let chunk_shift = chunk_shift(row_bytes);
        let chunk_bytes = row_bytes << chunk_shift;
        let memory = Arc::new(memory);
        let owners: Vec<_> = (0..spec.table_bytes())
            .step_by(chunk_bytes)
            .map(|start| {
                let len = chunk_bytes.min(spec.table_bytes() - start);
                Arc::new(Chunk { memory: memory.clone(), start, len })
            })
            .collect();
        TableVersion::of_chunks(row_bytes, chunk_shift, owners)
    }

    fn of_chunks(row_bytes: usize, chunk_shift: u32, owners: Vec<Arc<Chunk>>) -> TableVersion {
        let starts: Vec<_> = owners.iter().map(|chunk| chunk.memory.as_ptr().wrapping_add(chunk.start).cast_const()).collect();
        // Chunks of one memory lie in it in their order.
        let is_contiguous = owners.windows(2).all(|pair| {
            Arc::ptr_eq(&pair[0].memory, &pair[1].memory) && pair[0].start + (row_bytes << chunk_shift) == pair[1].start
        });
        let contiguous = starts.first().copied().filter(|_| is_contiguous);
        TableVersion { row_bytes, chunk_shift, starts, contiguous, owners }
    }

    /// The first byte of the first row, if each row follows the one before it; none once a part of a table was replaced.
    pub fn contiguous(&self) -> Option<*const u8> {
        self.contiguous
    }

    /// The first byte of a row.
    ///
    /// # Safety
    /// `row` is less than the table's rows.
    #[inline(always)]
    pub unsafe fn row(&self, row: u32) -> *const u8 {
        debug_assert!(((row >> self.chunk_shift) as usize) < self.starts.len());
        let within = (row & ((1 << self.chunk_shift) - 1)) as usize;
        // SAFETY: row < rows, so there is such a chunk, and it has such a row.
        unsafe { self.starts.get_unchecked((row >> self.chunk_shift) as usize).add(within * self.row_bytes) }
    }
}

/// Rows in a chunk: the largest power of two that fits a huge page, at least one.
fn chunk_shift(row_bytes: usize) -> u32 {
    (HUGE_PAGE_BYTES / row_bytes).max(1).ilog2()
}

/// Rows `first_row …` of a table, to be replaced.
pub struct Update<'a> {
    /// Index of the table.
    pub table: usize,
    /// The first row.
    pub first_row: u32,
    /// Whole rows, as the table stores them.
    pub bytes: &'a [u8],
}

impl Store {
    /// Unique in the process, never used again.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What the tables are.
    pub fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    /// Counts updates.
    pub fn epoch(&self) -> u64 {
        self.current.load().epoch
    }

    /// How rows are asked for before they are added, for people: what was the fastest when the tables had been loaded.
    pub fn prefetch_text(&self) -> String {
        self.prefetch.to_string()
    }

    pub(crate) fn prefetch(&self) -> Prefetch {
        self.prefetch
    }

    pub(crate) fn version(&self) -> arc_swap::Guard<Arc<Version>> {
        self.current.load()
    }

    /// Replaces rows: a gather sees all of `updates` or none. Refused, with nothing changed, if one is out of its table's range.
    pub fn update(&self, updates: &[Update<'_>]) -> Result<u64, String> {
        for update in updates {
            let Some(spec) = self.tables.get(update.table) else {
                return Err(format!("there is no table {}", update.table));
            };
            let row_bytes = spec.row_bytes();
            let rows = update.bytes.len() / row_bytes;
            if !update.bytes.len().is_multiple_of(row_bytes) {
                return Err(format!(
                    "{} bytes for table {:?} are not whole rows of {row_bytes} bytes",
                    update.bytes.len(),
                    spec.name
                ));
            }
            if rows as u64 + u64::from(update.first_row) > u64::from(spec.rows) {
                return Err(format!(
                    "rows {} … {} of table {:?} are out of range, expected 0 … {}",
                    update.first_row,
                    u64::from(update.first_row) + rows as u64 - 1,
                    spec.name,
                    spec.rows - 1
                ));
            }
        }
        let _writer = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let old = self.current.load_full();
        let mut tables = old.tables.clone();
        for (index, table) in tables.iter_mut().enumerate() {
            let own: Vec<_> = updates.iter().filter(|update| update.table == index && !update.bytes.is_empty()).collect();
            if !own.is_empty() {
                *table = Arc::new(updated(table, &own).map_err(|error| format!("no memory for the update: {error}"))?);
            }
        }
        let epoch = old.epoch + 1;
        self.current.store(Arc::new(Version { epoch, tables }));
        Ok(epoch)
    }
}

/// The table with `updates` made, in their order. Chunks that none touches are shared.
fn updated(table: &TableVersion, updates: &[&Update<'_>]) -> io::Result<TableVersion> {
    let chunk_bytes = table.row_bytes << table.chunk_shift;
    let mut owners = table.owners.clone();
    let mut is_new = vec![false; owners.len()];
    for update in updates {
        let start = update.first_row as usize * table.row_bytes;
        let end = start + update.bytes.len();
        for chunk in start / chunk_bytes..end.div_ceil(chunk_bytes) {
            let len = owners[chunk].len;
            if !is_new[chunk] {
                let memory = Memory::anonymous(len)?;
                // SAFETY: both are `len` bytes long, and the new one is not shared yet.
                unsafe { std::ptr::copy_nonoverlapping(table.starts[chunk], memory.as_ptr(), len) };
                owners[chunk] = Arc::new(Chunk { memory: Arc::new(memory), start: 0, len });
                is_new[chunk] = true;
            }
            let chunk_start = chunk * chunk_bytes;
            let from = start.max(chunk_start);
            let to = end.min(chunk_start + len);
            let bytes = &update.bytes[from - start..to - start];
            // SAFETY: from … to lies in this chunk, which is new and not shared yet.
            unsafe {
                let target = owners[chunk].memory.as_ptr().add(from - chunk_start);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
            }
        }
    }
    Ok(TableVersion::of_chunks(table.row_bytes, table.chunk_shift, owners))
}

/// Memory for tables that are being filled.
pub struct Builder {
    pub(crate) tables: Vec<TableSpec>,
    pub(crate) memories: Vec<Memory>,
    pub(crate) mapped: bool,
    /// How rows are asked for.
    pub(crate) prefetch: Prefetch,
}

impl Builder {
    /// Memory for all tables. With `map_files`, tables that come from files are mapped instead of read.
    pub fn new(tables: Vec<TableSpec>, map_files: bool, interleave: bool) -> Result<Builder, String> {
        let mut memories = Vec::with_capacity(tables.len());
        for spec in &tables {
            if spec.rows == 0 || spec.rows > i32::MAX as u32 || spec.dim == 0 || spec.dim > 1 << 20 {
                return Err(format!("table {:?} has {} rows of dim {}", spec.name, spec.rows, spec.dim));
            }
            let memory = match &spec.source {
                Source::File { path, offset } if map_files => map(path, *offset, spec.table_bytes()),
                _ => Memory::anonymous(spec.table_bytes()),
            };
            let memory = memory
                .map_err(|error| format!("no memory for the {} bytes of table {:?}: {error}", spec.table_bytes(), spec.name))?;
            if interleave {
                memory.interleave().map_err(|error| format!("cannot interleave table {:?}: {error}", spec.name))?;
            }
            memories.push(memory);
        }
        Ok(Builder { tables, memories, mapped: map_files, prefetch: Prefetch::of_this_cpu() })
    }

    /// Puts bytes into a table that comes from memory.
    pub fn write(&mut self, table: usize, at: usize, bytes: &[u8]) -> Result<(), String> {
        let Some(spec) = self.tables.get(table).filter(|spec| matches!(spec.source, Source::Memory)) else {
            return Err(format!("table {table} is not one that is given in memory"));
        };
        let memory = &self.memories[table];
        if at.checked_add(bytes.len()).is_none_or(|end| end > memory.len()) {
            return Err(format!("{} bytes at {at} do not fit table {:?} of {} bytes", bytes.len(), spec.name, memory.len()));
        }
        // SAFETY: the range is in the memory, which nobody else knows yet (`&mut self`), and anonymous, hence writable.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.as_ptr().add(at), bytes.len()) };
        Ok(())
    }

    /// The store, with what has been filled in.
    pub fn finish(self) -> Store {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let tables = self.tables.iter().zip(self.memories).map(|(spec, memory)| Arc::new(TableVersion::over(memory, spec)));
        Store {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            current: ArcSwap::from_pointee(Version { epoch: 0, tables: tables.collect() }),
            tables: self.tables,
            writer: Mutex::new(()),
            prefetch: self.prefetch,
        }
    }
}

fn map(path: &std::path::Path, offset: u64, len: usize) -> io::Result<Memory> {
    let file = std::fs::File::open(path)?;
    // Reading a page beyond the end of the file would end the process.
    let file_bytes = file.metadata()?.len();
    if offset.checked_add(len as u64).is_none_or(|end| end > file_bytes) {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("{} is truncated: {file_bytes} bytes, expected {}", path.display(), offset + len as u64),
        ));
    }
    Memory::map_file(&file, offset, len)
}
