//! Storage of packets while the network carries their handles.
//!
//! A slot is taken for a packet and released at its delivery. The network drops packets silently, so when slots run
//! out, unused ones are collected: the owner marks those in use.

/// Bytes of a slot: a packet of 1500 bytes and its prefix.
pub(crate) const SLOT: usize = 2048;
/// Slots allocated at once; memory is touched only when they are used.
const CHUNK: usize = 512;

/// A slot's number.
pub(crate) type Slot = u32;

/// Slots, a multiple of [`CHUNK`] of them.
#[derive(Debug)]
pub(crate) struct Slab {
    chunks: Vec<Box<[u8]>>,
    /// Slots without a packet; the last one is taken next, while it is still in the cache.
    free: Vec<Slot>,
    /// Most chunks allowed.
    limit: usize,
}

/// The slots in use.
#[derive(Debug)]
pub(crate) struct Marks(Vec<bool>);

impl Marks {
    /// Marks a slot as in use.
    pub fn mark_used(&mut self, slot: Slot) {
        self.0[slot as usize] = true;
    }
}

impl Slab {
    /// An empty slab that will never have more than about `limit` slots.
    pub fn new(limit: usize) -> Self {
        Self { chunks: Vec::new(), free: Vec::new(), limit: limit.div_ceil(CHUNK) }
    }

    /// A free slot; if none, [`Self::collect`] should be called.
    #[inline]
    pub fn take(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    /// Returns a slot.
    #[inline]
    pub fn release(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Frees all slots except those that `mark` marks. If fewer than a quarter become free, their number
    /// doubles, so the effort per packet stays constant.
    pub fn collect(&mut self, mark: impl FnOnce(&mut Marks)) {
        let mut marks = Marks(vec![false; self.chunks.len() * CHUNK]);
        mark(&mut marks);
        self.free.clear();
        let unused = marks.0.iter().zip(0..).filter(|(used, _)| !**used).map(|(_, slot)| slot);
        self.free.extend(unused);
        let slots = self.chunks.len() * CHUNK;
        if self.free.len() * 4 <= slots {
            let more = self.chunks.len().max(1).min(self.limit - self.chunks.len());
            self.chunks.extend((0..more).map(|_| vec![0; CHUNK * SLOT].into_boxed_slice()));
            self.free.extend((slots..slots + more * CHUNK).map(|slot| slot as Slot));
        }
    }

    /// The bytes of a slot.
    #[inline]
    pub fn bytes(&self, slot: Slot) -> &[u8] {
        let at = slot as usize % CHUNK * SLOT;
        &self.chunks[slot as usize / CHUNK][at..at + SLOT]
    }

    /// The bytes of a slot, to be written.
    #[inline]
    pub fn bytes_mut(&mut self, slot: Slot) -> &mut [u8] {
        let at = slot as usize % CHUNK * SLOT;
        &mut self.chunks[slot as usize / CHUNK][at..at + SLOT]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        /// Take, release, or silently lose a slot; 1 in 4 of each, the rest are taken.
        #[test]
        fn no_slot_is_given_twice_none_is_lost_and_the_limit_holds(
            steps in prop::collection::vec(0u8..4, 0..4000), limit in 1usize..4,
        ) {
            let mut slab = Slab::new(limit * CHUNK);
            let mut used: Vec<Slot> = Vec::new();
            for step in steps {
                match step {
                    0 if !used.is_empty() => slab.release(used.remove(0)),
                    1 if !used.is_empty() => drop(used.remove(0)),
                    _ => {
                        let slot = slab.take().or_else(|| {
                            slab.collect(|marks| used.iter().for_each(|&slot| marks.mark_used(slot)));
                            slab.take()
                        });
                        prop_assert_eq!(slot.is_none(), used.len() == limit * CHUNK);
                        if let Some(slot) = slot {
                            slab.bytes_mut(slot)[..4].copy_from_slice(&slot.to_ne_bytes());
                            used.push(slot);
                        }
                    }
                }
            }
            let distinct: HashSet<_> = used.iter().collect();
            prop_assert_eq!(distinct.len(), used.len());
            for slot in used {
                prop_assert_eq!(&slab.bytes(slot)[..4], &slot.to_ne_bytes());
            }
        }
    }
}
