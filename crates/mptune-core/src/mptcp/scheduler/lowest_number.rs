//! Lowest number: the ready subflow that was created first. A toy that shows what adding a scheduler takes.

use super::{Choice, Scheduler};

/// Lowest number has no state.
#[derive(Debug, Clone, Default)]
pub struct LowestNumber;

impl Scheduler for LowestNumber {
    #[inline]
    fn select(&mut self, choice: Choice<'_>) -> Option<usize> {
        Some(choice.ready.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{choice, subflow};
    use super::*;

    #[test]
    fn takes_the_first_of_the_ready() {
        let subflows = [subflow(30, 10, 0), subflow(10, 10, 0), subflow(20, 10, 0)];
        let select = |ready| LowestNumber.select(Choice { ready, ..choice(&subflows, 1, 1) });
        assert_eq!(select(0b111), Some(0));
        assert_eq!(select(0b110), Some(1));
    }
}
