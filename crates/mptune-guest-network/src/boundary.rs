//! The functions that the kernel's driver calls, as `mptune_network.c` declares them.
//!
//! The driver holds one lock during each call, so that nothing here runs twice at a time. A panic ends the guest, with
//! its message on the console: a trial never has a number that follows from a fault.
#![allow(unsafe_code)]

use crate::model::Model;
use std::ffi::c_void;
use std::panic;
use std::sync::OnceLock;

/// Takes a frame for a device; false if there is no room for it.
pub type Send =
    extern "C" fn(context: *mut c_void, device: u32, frame: *const u8, length: usize) -> bool;
/// Takes the message of a panic, and does not return.
pub type Panicked = extern "C" fn(message: *const u8, length: usize);

static PANICKED: OnceLock<Panicked> = OnceLock::new();

/// A network without configuration. It is the caller's until [`mptune_model_free`].
#[unsafe(no_mangle)]
pub extern "C" fn mptune_model_new(panicked: Panicked) -> *mut Model {
    if PANICKED.set(panicked).is_ok() {
        panic::set_hook(Box::new(|about| {
            let message = about.to_string().replace('\n', " ");
            if let Some(panicked) = PANICKED.get() {
                panicked(message.as_ptr(), message.len());
            }
        }));
    }
    Box::into_raw(Box::default())
}

/// Replacement, in the object's build, of functions that a kernel does not have and nothing here calls: those
/// that unwind, and C's allocator.
#[unsafe(no_mangle)]
pub extern "C" fn mptune_model_fault() -> ! {
    panic!("a function was called that is not there")
}

/// # Safety
/// The model is one of [`mptune_model_new`], and not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mptune_model_free(model: *mut Model) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(model) });
}

/// # Safety
/// The model is one of [`mptune_model_new`] that nobody else uses; so many bytes can be read at `line`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mptune_model_tell(
    model: *mut Model,
    line: *const u8,
    length: usize,
    now: u64,
) -> u32 {
    // SAFETY: the caller's promise.
    let (model, line) = unsafe { (&mut *model, std::slice::from_raw_parts(line, length)) };
    model.tell(line, now) as u32
}

/// # Safety
/// The model is one of [`mptune_model_new`] that nobody else uses; so many bytes can be written at `to`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mptune_model_read(model: *mut Model, to: *mut u8, length: usize) -> usize {
    // SAFETY: the caller's promise.
    let (model, to) = unsafe { (&mut *model, std::slice::from_raw_parts_mut(to, length)) };
    model.read(to)
}

/// # Safety
/// The model is one of [`mptune_model_new`] that nobody else changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mptune_model_devices(model: *const Model) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { &*model }.devices() as u32
}

/// Room for a frame of up to [`crate::model::FRAME`] bytes, to be written before [`mptune_model_enter`].
///
/// # Safety
/// The model is one of [`mptune_model_new`] that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mptune_model_frame(model: *mut Model) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe { &mut *model }.frame().as_mut_ptr()
}

/// # Safety
/// The model is one of [`mptune_model_new`] that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mptune_model_enter(
    model: *mut Model,
    device: u32,
    length: usize,
    now: u64,
) {
    // SAFETY: the caller's promise.
    unsafe { &mut *model }.enter(device as usize, length, now);
}

/// # Safety
/// The model is one of [`mptune_model_new`] that nobody else uses, `send` included, which gets the context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mptune_model_deliver(
    model: *mut Model,
    now: u64,
    send: Send,
    context: *mut c_void,
) {
    // SAFETY: the caller's promise.
    unsafe { &mut *model }
        .deliver(now, |device, frame| send(context, device as u32, frame.as_ptr(), frame.len()));
}

/// The time of the next [`mptune_model_deliver`]; the largest number for never.
///
/// # Safety
/// The model is one of [`mptune_model_new`] that nobody else changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mptune_model_next(model: *const Model, now: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { &*model }.next_at(now).unwrap_or(u64::MAX)
}
