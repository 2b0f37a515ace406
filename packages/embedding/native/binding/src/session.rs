//! One thread's use of a store.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use dlrm_embedding_kernel::{
    Call, Feature, Level, Outcome, Plan, Pooling, Scratch, Store, Update, find_out_of_vocabulary, gather,
};
use napi::bindgen_prelude::Unknown;
use napi::{Env, Result, ValueType};
use napi_derive::napi;

use crate::arrays::{Elements, Registered};
use crate::loader::error;

/// Stores of this process that some thread uses, for other threads to find.
static STORES: Mutex<Vec<Weak<Store>>> = Mutex::new(Vec::new());

/// Results of gathering below 0; others are the index of an id that is refused.
const DONE: f64 = -1.0;
const CLOSED: f64 = -2.0;
const BAD_ARRAY: f64 = -3.0;
const TOO_SHORT: f64 = -4.0;

fn result_of(outcome: Outcome) -> f64 {
    match outcome {
        Outcome::Done => DONE,
        Outcome::OutOfVocabulary(at) => at as f64,
        Outcome::TooShort => TOO_SHORT,
        Outcome::WrongStore => CLOSED,
    }
}

struct State {
    /// `None` once closed.
    store: Option<Arc<Store>>,
    scratch: Scratch,
    arrays: Vec<Option<Registered>>,
    free: Vec<u32>,
}

/// A thread's use of a store.
#[napi]
pub struct Session {
    state: Rc<RefCell<State>>,
}

/// The store with this id, used by one more thread; nothing if no thread uses it any more.
#[cfg_attr(test, allow(dead_code))]
#[napi(catch_unwind)]
pub fn attach(id: f64) -> Option<Session> {
    let stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    let store = stores.iter().filter_map(Weak::upgrade).find(|store| store.id() as f64 == id)?;
    Some(Session::over(store))
}

impl Session {
    pub(crate) fn new(store: Arc<Store>) -> Session {
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|store| store.strong_count() > 0);
        stores.push(Arc::downgrade(&store));
        Session::over(store)
    }

    fn over(store: Arc<Store>) -> Session {
        let scratch = Scratch::new(Level::best());
        let state = State { store: Some(store), scratch, arrays: Vec::new(), free: Vec::new() };
        Session { state: Rc::new(RefCell::new(state)) }
    }
}

#[napi]
impl Session {
    /// For `attach`; 0 once closed.
    #[napi(getter, catch_unwind)]
    pub fn id(&self) -> f64 {
        self.state.borrow().store.as_ref().map_or(0.0, |store| store.id() as f64)
    }

    /// The instruction set in use.
    #[napi(getter, catch_unwind)]
    pub fn level(&self) -> &'static str {
        self.state.borrow().scratch.level().name()
    }

    /// How rows are asked for before they are added; empty once closed.
    #[napi(getter, catch_unwind)]
    pub fn prefetch(&self) -> String {
        self.state.borrow().store.as_ref().map_or_else(String::new, |store| store.prefetch_text())
    }

    /// How many updates the tables have seen.
    #[napi(getter, catch_unwind)]
    pub fn epoch(&self) -> f64 {
        self.state.borrow().store.as_ref().map_or(0.0, |store| store.epoch() as f64)
    }

    /// Prefetches this many rows ahead; 0: as many as fit the rows.
    #[napi(catch_unwind)]
    pub fn set_prefetch_distance(&self, rows: u32) {
        self.state.borrow_mut().scratch.set_distance(rows as usize);
    }

    /// A plan for features given as [table, hot size, pooling (0: sum, 1: mean)] each, in a Uint32Array.
    #[napi(catch_unwind)]
    pub fn create_plan(&self, env: Env, features: Unknown<'_>) -> Result<NativePlan> {
        let Some(numbers) = Elements::of(&env, &features).and_then(Elements::to_u32s) else {
            return Err(error("invalid_argument", "features are no Uint32Array"));
        };
        let features: Vec<_> = numbers
            .chunks_exact(3)
            .map(|feature| Feature {
                table: feature[0],
                hot_size: feature[1],
                pooling: if feature[2] == 1 { Pooling::Mean } else { Pooling::Sum },
            })
            .collect();
        let state = self.state.borrow();
        let Some(store) = &state.store else { return Err(error("closed", "the embedding store is closed")) };
        match Plan::new(store, &features) {
            Some(plan) => Ok(NativePlan { state: self.state.clone(), plan }),
            None => Err(error("invalid_argument", "features do not fit the tables")),
        }
    }

    /// Remembers where an array over a SharedArrayBuffer is, and keeps its buffer; the number to name it by, or -1 if it is not one.
    #[napi(catch_unwind)]
    pub fn register_array(&self, env: Env, array: Unknown<'_>) -> i32 {
        let registered = Elements::of(&env, &array).and_then(|elements| Registered::new(&env, elements));
        let Some(registered) = registered else { return -1 };
        let mut state = self.state.borrow_mut();
        match state.free.pop() {
            Some(slot) => {
                state.arrays[slot as usize] = Some(registered);
                slot as i32
            }
            None => {
                state.arrays.push(Some(registered));
                state.arrays.len() as i32 - 1
            }
        }
    }

    /// Forgets an array.
    #[napi(catch_unwind)]
    pub fn release_array(&self, slot: u32) {
        let mut state = self.state.borrow_mut();
        if state.arrays.get_mut(slot as usize).and_then(Option::take).is_some() {
            state.free.push(slot);
        }
    }

    /// Replaces rows of several tables at once: tables and first rows in a Uint32Array of pairs, their bytes in an array beside.
    #[napi(catch_unwind)]
    pub fn update(&self, env: Env, places: Unknown<'_>, bytes: Vec<Unknown<'_>>) -> Result<f64> {
        let Some(places) = Elements::of(&env, &places).and_then(Elements::to_u32s) else {
            return Err(error("invalid_argument", "places are no Uint32Array"));
        };
        let mut updates = Vec::with_capacity(bytes.len());
        for (place, bytes) in places.chunks_exact(2).zip(&bytes) {
            // SAFETY: used within this call only, which no JavaScript of this thread interrupts.
            let Some(bytes) = Elements::of(&env, bytes).and_then(|elements| unsafe { elements.as_bytes() }) else {
                return Err(error("invalid_argument", "rows are no Uint8Array"));
            };
            updates.push(Update { table: place[0] as usize, first_row: place[1], bytes });
        }
        let Some(store) = self.state.borrow().store.clone() else {
            return Err(error("closed", "the embedding store is closed"));
        };
        store.update(&updates).map(|epoch| epoch as f64).map_err(|message| error("invalid_argument", message))
    }

    /// Ends this use; plans answer that they are closed.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        let mut state = self.state.borrow_mut();
        state.store = None;
        state.arrays.clear();
        state.free.clear();
    }
}

/// Features laid out over the tables of a session's store.
#[napi]
pub struct NativePlan {
    state: Rc<RefCell<State>>,
    plan: Plan,
}

#[napi]
impl NativePlan {
    /// Gathers between arrays that are registered.
    #[napi(catch_unwind)]
    pub fn gather_registered(&self, ids: u32, batch: u32, output: u32, output_row: u32) -> f64 {
        let state = &mut *self.state.borrow_mut();
        let Some(store) = &state.store else { return CLOSED };
        let elements = |slot: u32| state.arrays.get(slot as usize)?.as_ref().map(|array| array.elements);
        // SAFETY: the state keeps both buffers, which cannot be detached, and they are used within this call only.
        let places = unsafe {
            let ids = elements(ids).and_then(|elements| elements.as_ids());
            ids.zip(elements(output).and_then(|elements| elements.as_output()))
        };
        let Some((ids, output)) = places else { return BAD_ARRAY };
        let (batch, output_row) = (batch as usize, output_row as usize);
        let call = Call { ids, lengths: None, weights: None, batch, output, output_row };
        result_of(gather(store, &self.plan, &mut state.scratch, call))
    }

    /// Gathers between any arrays; `lengths` and `weights` are null where there are none.
    #[napi(catch_unwind)]
    #[allow(clippy::too_many_arguments)]
    pub fn gather(
        &self,
        env: Env,
        ids: Unknown<'_>,
        lengths: Unknown<'_>,
        weights: Unknown<'_>,
        batch: u32,
        output: Unknown<'_>,
        output_row: u32,
    ) -> Result<f64> {
        let is_null = |array: &Unknown<'_>| array.get_type().map(|kind| kind == ValueType::Null);
        let (no_lengths, no_weights) = (is_null(&lengths)?, is_null(&weights)?);
        let state = &mut *self.state.borrow_mut();
        let Some(store) = &state.store else { return Ok(CLOSED) };
        let elements = |array: &Unknown<'_>| Elements::of(&env, array);
        // SAFETY: all arrays are arguments of this call, are used within it only, and no JavaScript of this thread, which alone
        // could detach their buffers, runs meanwhile.
        let (ids, output, lengths, weights) = unsafe {
            (
                elements(&ids).and_then(|elements| elements.as_ids()),
                elements(&output).and_then(|elements| elements.as_output()),
                elements(&lengths).and_then(|elements| elements.as_ids()),
                elements(&weights).and_then(|elements| elements.as_weights()),
            )
        };
        if (lengths.is_none() && !no_lengths) || (weights.is_none() && !no_weights) {
            return Ok(BAD_ARRAY);
        }
        let Some((ids, output)) = ids.zip(output) else { return Ok(BAD_ARRAY) };
        let call = Call { ids, lengths, weights, batch: batch as usize, output, output_row: output_row as usize };
        Ok(result_of(gather(store, &self.plan, &mut state.scratch, call)))
    }

    /// The index of the first id that is refused.
    #[napi(catch_unwind)]
    pub fn find_out_of_vocabulary(&self, env: Env, ids: Unknown<'_>, batch: u32) -> f64 {
        // SAFETY: as in `gather`.
        let Some(ids) = Elements::of(&env, &ids).and_then(|elements| unsafe { elements.as_ids() }) else {
            return BAD_ARRAY;
        };
        result_of(find_out_of_vocabulary(&self.plan, ids, batch as usize))
    }
}
