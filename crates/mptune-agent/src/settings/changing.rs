//! Changing one setting, step by step, and seeing whether it was taken.

use super::kind::{Kind, State, words};

/// Brings a setting from one state to another.
///
/// # Errors
/// One line: which step the kernel refuses, or what it made of it.
pub fn bring(kind: &dyn Kind, from: &State, to: &State) -> Result<(), String> {
    let mut at = from.clone();
    for next in kind.way(from, to) {
        kind.step(&at, &next)?;
        let found = kind.read()?;
        if !kind.same(&found, &next) {
            let (next, found) = (words(&next), words(&found));
            return Err(format!(
                "{}: expected {next}, found {found} after it was set",
                kind.name()
            ));
        }
        at = next;
    }
    Ok(())
}
