//! Undoing.

pub mod directory;
pub mod guardian;
pub mod journal;
pub mod kind;
pub mod lock;
pub mod places;
pub mod steps;
pub mod sysctl;
