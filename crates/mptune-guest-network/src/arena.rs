//! The allocator: memory of the machine, not of the guest.
//!
//! The kernel's own allocators may wait, which a device's packets and timers may not; and what the network needs must
//! not change the guest's memory, from which limits of its buffers follow. Small pieces have sizes of powers of two, and
//! freed ones are kept by size; a large piece is a mapping of its own. Memory that is not touched costs nothing.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::{self, null_mut};

/// Smallest piece, bytes: room for the pointer that links free ones, and for every alignment of ordinary types.
const SMALLEST: usize = 16;
/// Largest piece that is not a mapping.
const LARGEST: usize = 1 << 16;
/// Sizes of pieces: 16 bytes to 64 KiB.
const SIZES: usize = (LARGEST / SMALLEST).ilog2() as usize + 1;
/// Bytes that are mapped at once for small pieces.
const CHUNK: usize = 1 << 20;
/// Alignment of a mapping.
const PAGE: usize = 4096;

/// The allocator. It is used by one thread at a time: the driver calls everything under one lock.
#[derive(Debug)]
pub struct Arena(UnsafeCell<State>);

#[derive(Debug)]
struct State {
    /// The first free piece of each size; each begins with the address of the next.
    free: [*mut u8; SIZES],
    /// Rest of the last chunk.
    rest: *mut u8,
    left: usize,
}

// SAFETY: see the type: whoever uses it guarantees that no two threads do so at a time.
unsafe impl Sync for Arena {}

impl Arena {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        Self(UnsafeCell::new(State { free: [null_mut(); SIZES], rest: null_mut(), left: 0 }))
    }
}

impl Default for Arena {
    fn default() -> Self {
        Self::new()
    }
}

/// The index of the smallest size that holds a layout; none for a mapping. A piece is aligned to its size.
fn size_class(layout: Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).max(SMALLEST).next_power_of_two();
    (size <= LARGEST).then(|| (size / SMALLEST).ilog2() as usize)
}

/// The bytes of a mapping for a large layout.
fn pages(size: usize) -> usize {
    size.next_multiple_of(PAGE)
}

/// Maps zeroed memory; null if the machine has none, or for an alignment beyond a page.
fn map(size: usize, align: usize) -> *mut u8 {
    if align > PAGE {
        return null_mut();
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at a place that the machine chooses touches no existing memory.
    let memory = unsafe { libc::mmap(null_mut(), size, protection, flags, -1, 0) };
    if memory == libc::MAP_FAILED { null_mut() } else { memory.cast() }
}

impl State {
    /// A piece of a size; null if the machine has no memory.
    fn take(&mut self, class: usize) -> *mut u8 {
        let piece = self.free[class];
        if !piece.is_null() {
            // SAFETY: a free piece is ours, large and aligned enough for a pointer, and begins with the next one's
            // address.
            self.free[class] = unsafe { piece.cast::<*mut u8>().read() };
            return piece;
        }
        let size = SMALLEST << class;
        // Chunks begin at a multiple of a page, so this aligns to every size up to one; larger ones are aligned to
        // pages only, and no layout here asks for more.
        let skip = self.rest.align_offset(size.min(PAGE));
        if self.left < skip + size {
            self.rest = map(CHUNK, PAGE);
            self.left = if self.rest.is_null() { 0 } else { CHUNK };
            if self.left == 0 {
                return null_mut();
            }
        } else {
            self.skip(skip);
        }
        let piece = self.rest;
        self.skip(size);
        piece
    }

    fn skip(&mut self, bytes: usize) {
        // SAFETY: the caller has checked that so much of the chunk is left.
        self.rest = unsafe { self.rest.add(bytes) };
        self.left -= bytes;
    }

    /// Keeps a piece for the next one of its size.
    fn give(&mut self, piece: *mut u8, class: usize) {
        // SAFETY: its owner gives it up, and it is large and aligned enough for a pointer.
        unsafe { piece.cast::<*mut u8>().write(self.free[class]) };
        self.free[class] = piece;
    }
}

// SAFETY: pieces are distinct, as large as their layout and aligned to it; a mapping begins at a page, and larger
// alignments are refused. Nothing here panics.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match size_class(layout).filter(|_| layout.align() <= PAGE) {
            // SAFETY: one thread at a time, and nothing of the state is borrowed across calls.
            Some(class) => unsafe { &mut *self.0.get() }.take(class),
            None => map(pages(layout.size()), layout.align()),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those of this function.
        let piece = unsafe { self.alloc(layout) };
        // A mapping is zero already, and stays untouched.
        if size_class(layout).is_some() && !piece.is_null() {
            // SAFETY: the piece is new and at least so large.
            unsafe { ptr::write_bytes(piece, 0, layout.size()) };
        }
        piece
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        match size_class(layout) {
            // SAFETY: as in `alloc`.
            Some(class) => unsafe { &mut *self.0.get() }.give(piece, class),
            // SAFETY: a large piece is a mapping of this size, which its owner gives up.
            None => unsafe {
                libc::munmap(piece.cast(), pages(layout.size()));
            },
        }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size is not 0 and does not overflow with this alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (size_class(layout), size_class(wanted)) {
            (Some(old), Some(new)) if old == new => piece,
            (None, None) => {
                let (old, new) = (pages(layout.size()), pages(size));
                // SAFETY: the piece is a mapping of its own, and may move.
                let moved = unsafe { libc::mremap(piece.cast(), old, new, libc::MREMAP_MAYMOVE) };
                if moved == libc::MAP_FAILED { null_mut() } else { moved.cast() }
            }
            _ => {
                // SAFETY: the new piece is distinct from the old one, and both hold what is copied.
                unsafe {
                    let new = self.alloc(wanted);
                    if !new.is_null() {
                        ptr::copy_nonoverlapping(piece, new, layout.size().min(size));
                        self.dealloc(piece, layout);
                    }
                    new
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A piece in use, and the byte it is full of.
    struct Used {
        piece: *mut u8,
        layout: Layout,
        fill: u8,
    }

    impl Used {
        fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: the piece is that large and belongs to this test alone.
            unsafe { std::slice::from_raw_parts_mut(self.piece, self.layout.size()) }
        }

        fn check(&mut self) {
            let fill = self.fill;
            assert!(self.bytes().iter().all(|&byte| byte == fill));
            assert_eq!(self.piece.align_offset(self.layout.align()), 0);
        }
    }

    fn layout() -> impl Strategy<Value = Layout> {
        let size = prop_oneof![1usize..300, 1usize..200_000];
        (size, 0u32..13)
            .prop_map(|(size, power)| Layout::from_size_align(size, 1 << power).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

        /// Allocate, allocate zeroed, grow or shrink, or free, at random.
        #[test]
        fn pieces_are_aligned_and_keep_their_content(steps in prop::collection::vec((0u8..5, layout(), any::<u8>()), 1..200)) {
            let arena = Arena::new();
            let mut used: Vec<Used> = Vec::new();
            for (step, layout, fill) in steps {
                // SAFETY: sizes are not 0, and every piece is passed on with its own layout.
                unsafe {
                    match step {
                        0 if !used.is_empty() => {
                            let mut one = used.swap_remove(usize::from(fill) % used.len());
                            one.check();
                            arena.dealloc(one.piece, one.layout);
                        }
                        1 if !used.is_empty() => {
                            let number = usize::from(fill) % used.len();
                            let one = &mut used[number];
                            one.check();
                            one.piece = arena.realloc(one.piece, one.layout, layout.size());
                            let kept = one.layout.size().min(layout.size());
                            one.layout = Layout::from_size_align(layout.size(), one.layout.align()).unwrap();
                            let was = one.fill;
                            prop_assert!(one.bytes()[..kept].iter().all(|&byte| byte == was));
                            one.bytes().fill(was);
                        }
                        2 => {
                            let mut one = Used { piece: arena.alloc_zeroed(layout), layout, fill: 0 };
                            one.check();
                            one.bytes().fill(fill);
                            used.push(Used { fill, ..one });
                        }
                        _ => {
                            let mut one = Used { piece: arena.alloc(layout), layout, fill };
                            one.bytes().fill(fill);
                            used.push(one);
                        }
                    }
                }
            }
            used.iter_mut().for_each(Used::check);
        }
    }

    #[test]
    fn a_freed_piece_is_the_next_one_of_its_size() {
        let (arena, layout) = (Arena::new(), Layout::from_size_align(100, 8).unwrap());
        // SAFETY: the piece is freed with its layout, and not used afterwards.
        unsafe {
            let piece = arena.alloc(layout);
            arena.dealloc(piece, layout);
            assert_eq!(arena.alloc(Layout::from_size_align(128, 8).unwrap()), piece);
        }
    }

    #[test]
    fn an_alignment_beyond_a_page_is_refused() {
        let arena = Arena::new();
        // SAFETY: nothing is done with what it returns.
        let piece = unsafe { arena.alloc(Layout::from_size_align(10, 2 * PAGE).unwrap()) };
        assert!(piece.is_null());
    }
}
