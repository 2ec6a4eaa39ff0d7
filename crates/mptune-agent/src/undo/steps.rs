//! The places where being killed matters: right after every system call that changes something.
//!
//! Tests let the process stop at one of them by its number, and kill it there.

use crate::kernel::sys;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A role and the number of the step at which it stops.
pub const STOP_AT: &str = "MPTUNE_STOP_AT";

static WHO: OnceLock<&'static str> = OnceLock::new();
static COUNT: AtomicU32 = AtomicU32::new(0);

/// From now on steps are those of this role.
pub fn begin(who: &'static str) {
    let _ = WHO.set(who);
}

/// A system call has changed something outside of this process.
pub fn changed() {
    let number = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    reached(&number.to_string());
}

/// A step with a name: nothing has changed yet.
pub fn reached(step: &str) {
    if let Some(who) = WHO.get()
        && std::env::var(STOP_AT).is_ok_and(|chosen| chosen == format!("{who} {step}"))
    {
        sys::stop_here();
    }
}
