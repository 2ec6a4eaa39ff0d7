//! A FIFO in a power-of-two array, also addressable by an ever-growing sequence number.
//!
//! `RangeSet` and `VecDeque` are used off the fast path; this is used for the packets in flight on a link, a sender's
//! scoreboard and its send queue, the hottest structures.

/// Elements `first..first + len`, numbered without wrap-around by the caller's sequence numbers.
#[derive(Debug, Clone)]
pub struct Ring<T> {
    slots: Vec<T>,
    first: u32,
    len: u32,
}

impl<T: Copy + Default> Ring<T> {
    /// An empty ring whose first element will have number 0.
    pub fn new() -> Self {
        Self { slots: vec![T::default(); 16], first: 0, len: 0 }
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// No elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn slot(&self, number: u32) -> usize {
        number as usize & (self.slots.len() - 1)
    }

    /// Appends an element; its number is that of the previous last one plus 1.
    #[inline]
    pub fn push(&mut self, value: T) {
        if self.len as usize == self.slots.len() {
            self.grow();
        }
        let slot = self.slot(self.first.wrapping_add(self.len));
        self.slots[slot] = value;
        self.len += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots = vec![T::default(); self.slots.len() * 2];
        let mask = slots.len() - 1;
        for offset in 0..self.len {
            let number = self.first.wrapping_add(offset);
            slots[number as usize & mask] = self.slots[self.slot(number)];
        }
        self.slots = slots;
    }

    /// The first element.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        (self.len > 0).then(|| &self.slots[self.slot(self.first)])
    }

    /// The first element.
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut T> {
        let first = self.first;
        (self.len > 0).then(|| self.at_mut(first))
    }

    /// The last element.
    #[inline]
    pub fn back(&self) -> Option<&T> {
        self.get(self.first.wrapping_add(self.len.wrapping_sub(1)))
    }

    /// The last element.
    #[inline]
    pub fn back_mut(&mut self) -> Option<&mut T> {
        let last = self.first.wrapping_add(self.len.wrapping_sub(1));
        (self.len > 0).then(|| self.at_mut(last))
    }

    /// Removes all elements.
    #[inline]
    pub fn clear(&mut self) {
        self.skip(self.len);
    }

    /// Removes and returns the first element.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let value = self.slots[self.slot(self.first)];
        self.first = self.first.wrapping_add(1);
        self.len -= 1;
        Some(value)
    }

    /// Removes that many elements from the front, which must be there.
    #[inline]
    pub fn skip(&mut self, elements: u32) {
        debug_assert!(elements <= self.len);
        self.first = self.first.wrapping_add(elements);
        self.len -= elements;
    }

    /// All elements, first to last.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).map(|offset| &self.slots[self.slot(self.first.wrapping_add(offset))])
    }

    /// The element with that number, if it is in the ring.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        (number.wrapping_sub(self.first) < self.len).then(|| &self.slots[self.slot(number)])
    }

    /// The element with that number, which must be in the ring.
    #[inline]
    pub fn at(&self, number: u32) -> &T {
        debug_assert!(number.wrapping_sub(self.first) < self.len);
        &self.slots[self.slot(number)]
    }

    /// The element with that number, which must be in the ring.
    #[inline]
    pub fn at_mut(&mut self, number: u32) -> &mut T {
        debug_assert!(number.wrapping_sub(self.first) < self.len);
        let slot = self.slot(number);
        &mut self.slots[slot]
    }
}

impl<T: Copy + Default> Default for Ring<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn behaves_like_a_deque_with_numbers(steps in prop::collection::vec(0u32..5, 0..500)) {
            let mut ring = Ring::new();
            let mut model = VecDeque::new();
            let mut next = 0u32;
            for step in steps {
                if step < 3 {
                    ring.push(next);
                    model.push_back(next);
                    next += 1;
                } else if step == 3 {
                    prop_assert_eq!(ring.pop(), model.pop_front());
                } else {
                    let most = model.len().min(2);
                    ring.skip(most as u32);
                    model.drain(..most);
                }
                prop_assert_eq!(ring.len(), model.len());
                prop_assert_eq!(ring.front(), model.front());
                prop_assert_eq!(ring.back(), model.back());
                prop_assert_eq!(ring.front_mut(), model.front_mut());
                prop_assert_eq!(ring.back_mut(), model.back_mut());
                prop_assert!(ring.iter().eq(&model));
                prop_assert_eq!(ring.get(next), None);
                prop_assert_eq!(ring.get(next.wrapping_sub(1)), model.back());
                for &number in &model {
                    prop_assert_eq!(*ring.at(number), number);
                }
            }
        }
    }
}
