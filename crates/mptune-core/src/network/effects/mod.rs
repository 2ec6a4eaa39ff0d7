//! What happens to packets on the wire beside independent losses, delay, jitter and copies: one file per effect.

mod gilbert;
mod reorder;

pub use gilbert::GilbertElliottSpec;
pub use reorder::ReorderSpec;

pub(super) use gilbert::GilbertElliott;
pub(super) use reorder::Reorder;
