//! Typed arrays, seen in place.

use std::sync::atomic::AtomicI32;

use dlrm_embedding_kernel::OutputView;
use napi::bindgen_prelude::{JsValue, Unknown};
use napi::{Env, sys};

/// Kinds of elements that are understood.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    Uint8,
    Int32,
    Uint32,
    Float32,
}

/// Where the elements of a typed array are. Valid while its buffer lives and is not detached.
#[derive(Clone, Copy)]
pub(crate) struct Elements {
    pub element: Element,
    pub start: *mut u8,
    pub len: usize,
    buffer: sys::napi_value,
}

impl Elements {
    /// `None` if `value` is no typed array of an element that is understood.
    pub fn of(env: &Env, value: &Unknown<'_>) -> Option<Elements> {
        let value = value.value();
        let mut is_typed = false;
        // SAFETY: env and value come from the call being served; the result outlives the call to napi.
        let status = unsafe { sys::napi_is_typedarray(env.raw(), value.value, &mut is_typed) };
        if status != sys::Status::napi_ok || !is_typed {
            return None;
        }
        let mut kind = 0;
        let mut len = 0;
        let mut start = std::ptr::null_mut();
        let mut buffer = std::ptr::null_mut();
        let mut offset = 0;
        // SAFETY: value is a typed array; all results outlive the call to napi.
        let status = unsafe {
            sys::napi_get_typedarray_info(env.raw(), value.value, &mut kind, &mut len, &mut start, &mut buffer, &mut offset)
        };
        if status != sys::Status::napi_ok {
            return None;
        }
        let (element, bytes) = match kind {
            sys::TypedarrayType::uint8_array => (Element::Uint8, 1),
            sys::TypedarrayType::int32_array => (Element::Int32, 4),
            sys::TypedarrayType::uint32_array => (Element::Uint32, 4),
            sys::TypedarrayType::float32_array => (Element::Float32, 4),
            _ => return None,
        };
        // An empty array may have no memory at all.
        let start = if len == 0 { std::ptr::without_provenance_mut(bytes) } else { start.cast() };
        Some(Elements { element, start, len, buffer })
    }

    /// Elements as ids, which other threads may change at any time.
    ///
    /// # Safety
    /// The array's memory lives as long as the result is used.
    pub unsafe fn as_ids<'a>(self) -> Option<&'a [AtomicI32]> {
        // SAFETY: the memory is that of an Int32Array, so aligned, `len` long, and initialized; by the caller's promise it lives.
        // Others may write to it; atomics allow that.
        (self.element == Element::Int32).then(|| unsafe { std::slice::from_raw_parts(self.start.cast(), self.len) })
    }

    /// Elements as bits of weights, which other threads may change at any time.
    ///
    /// # Safety
    /// The array's memory lives as long as the result is used.
    pub unsafe fn as_weights<'a>(self) -> Option<&'a [AtomicI32]> {
        // SAFETY: as in `as_ids`, for a Float32Array.
        (self.element == Element::Float32).then(|| unsafe { std::slice::from_raw_parts(self.start.cast(), self.len) })
    }

    /// Elements as a place for pooled vectors.
    ///
    /// # Safety
    /// The array's memory lives as long as the result is used.
    pub unsafe fn as_output(self) -> Option<OutputView> {
        // SAFETY: the memory is that of a Float32Array; no Rust reference to it exists.
        (self.element == Element::Float32).then(|| unsafe { OutputView::new(self.start.cast(), self.len) })
    }

    /// Bytes of a Uint8Array.
    ///
    /// # Safety
    /// The array's memory lives as long as the result is used, and nothing writes to it meanwhile.
    pub unsafe fn as_bytes<'a>(self) -> Option<&'a [u8]> {
        // SAFETY: the caller's promise.
        (self.element == Element::Uint8).then(|| unsafe { std::slice::from_raw_parts(self.start, self.len) })
    }

    /// A copy of a Uint32Array's elements.
    pub fn to_u32s(self) -> Option<Vec<u32>> {
        if self.element != Element::Uint32 {
            return None;
        }
        // SAFETY: the memory is that of the array whose call is being served; reads need no alignment this way.
        Some((0..self.len).map(|at| unsafe { self.start.cast::<u32>().add(at).read_unaligned() }).collect())
    }
}

/// A typed array over a SharedArrayBuffer that is kept alive, so that its place may be remembered from call to call.
pub(crate) struct Registered {
    pub elements: Elements,
    env: sys::napi_env,
    reference: sys::napi_ref,
}

impl Registered {
    /// `None` if the elements are not in a SharedArrayBuffer: any other buffer can be detached, which frees its memory.
    pub fn new(env: &Env, elements: Elements) -> Option<Registered> {
        let mut is_detachable = true;
        // SAFETY: the buffer is a value of the call being served.
        let status = unsafe { sys::napi_is_arraybuffer(env.raw(), elements.buffer, &mut is_detachable) };
        if status != sys::Status::napi_ok || is_detachable {
            return None;
        }
        let mut reference = std::ptr::null_mut();
        // SAFETY: as above. A strong reference, deleted in `drop`.
        let status = unsafe { sys::napi_create_reference(env.raw(), elements.buffer, 1, &mut reference) };
        (status == sys::Status::napi_ok).then(|| Registered { elements, env: env.raw(), reference })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: made in `new`, deleted once. Values of a thread are dropped on it, while its environment is there: in a call,
        // or in a finalizer.
        unsafe { sys::napi_delete_reference(self.env, self.reference) };
    }
}
