//! Calls of one thread reuse what the first ones allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::AtomicI32;

use dlrm_embedding_kernel::{
    Builder, Call, Dtype, Feature, Level, Outcome, OutputView, Plan, Policy, Pooling, Scratch, Source, TableSpec, gather,
};

/// The system's allocator; counts what each thread asks for.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

fn atomics(values: impl Iterator<Item = i32>) -> Vec<AtomicI32> {
    values.map(AtomicI32::new).collect()
}

#[test]
fn a_gather_allocates_nothing() {
    const DIM: usize = 33;
    const HOT_SIZE: usize = 3;
    // 3,000 examples are several blocks.
    let batch = if cfg!(miri) { 4 } else { 3000 };
    let dtypes = [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16, Dtype::Int8, Dtype::Int4];
    let specs = dtypes.map(|dtype| TableSpec {
        name: format!("{dtype:?}"),
        rows: 50,
        dim: DIM as u32,
        dtype,
        policy: Policy::Zero,
        source: Source::Memory,
    });
    let store = Builder::new(specs.to_vec(), false, false).unwrap().finish();
    let features = [0, 1, 2, 3, 4].map(|table| Feature { table, hot_size: HOT_SIZE as u32, pooling: Pooling::Mean });
    let plan = Plan::new(&store, &features).unwrap();
    let count = batch * features.len() * HOT_SIZE;
    // Some ids have no row.
    let ids = atomics((0..count).map(|at| (at % 53) as i32));
    let lengths = atomics((0..batch * features.len()).map(|at| (at % 4) as i32));
    let weights = atomics((0..count).map(|at| (at as f32).to_bits() as i32));
    let mut output = vec![0.0f32; batch * plan.output_width()];
    // SAFETY: `output` is not used while a call runs.
    let view = unsafe { OutputView::new(output.as_mut_ptr(), output.len()) };
    for level in Level::available() {
        let mut scratch = Scratch::new(level);
        let mut gather_all = || {
            for lengths in [None, Some(&lengths[..])] {
                for weights in [None, Some(&weights[..])] {
                    let call = Call { ids: &ids, lengths, weights, batch, output: view, output_row: 0 };
                    assert_eq!(gather(&store, &plan, &mut scratch, call), Outcome::Done);
                }
            }
        };
        // The first calls make room.
        assert_ne!(allocations_of(&mut gather_all), 0);
        assert_eq!(allocations_of(|| (0..if cfg!(miri) { 1 } else { 10 }).for_each(|_| gather_all())), 0, "{level:?}");
    }
}
