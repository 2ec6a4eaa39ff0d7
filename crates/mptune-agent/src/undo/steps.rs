//! The places where being killed matters: right after every system call that changes something.
//!
//! Tests let the process stop at one of them by its number, and kill it there (`places::reached`).

use crate::undo::places;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

static WHO: OnceLock<&'static str> = OnceLock::new();
static COUNT: AtomicU32 = AtomicU32::new(0);

/// From now on steps are those of this role.
pub fn begin(who: &'static str) {
    let _ = WHO.set(who);
}

/// A system call has changed something outside of this process.
pub fn changed() {
    let number = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    if let Some(who) = WHO.get() {
        places::reached(who, &number.to_string());
    }
}
