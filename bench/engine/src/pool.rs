//! A buffer pool: pages of one size in frames, of which CLOCK gives those away that have not been used for longest.
//! What is read is counted. The disk behind it is memory, so only the numbers of reads mean anything, not the time they
//! take.

use fpbtree_engine::paging::prefer_large;
use memmap2::{MmapOptions, MmapRaw};
use std::slice;

/// A page's number. 0 is the first one allocated.
pub type Block = u32;

/// No page.
pub const NO_BLOCK: Block = u32::MAX;

const NO_FRAME: u32 = u32::MAX;

/// The pool.
pub struct Pool {
    page_size: usize,
    memory: MmapRaw,
    frames: Vec<Frame>,
    /// The frame of each page that has one.
    frame_of: Vec<u32>,
    disk: Vec<Option<Box<[u8]>>>,
    free: Vec<Block>,
    hand: usize,
    reads: u64,
}

#[derive(Clone, Copy)]
struct Frame {
    block: Block,
    /// How often it is pinned: it is not given away before that is 0.
    pins: u16,
    used: bool,
    dirty: bool,
}

impl Frame {
    const EMPTY: Frame = Frame { block: NO_BLOCK, pins: 0, used: false, dirty: false };
}

impl Pool {
    /// A pool of `frames` frames, two at least, for pages of `page_size` bytes. Its memory is mapped by large pages
    /// where the system has them, as servers map theirs.
    ///
    /// # Panics
    /// If there is no memory for it.
    pub fn new(page_size: usize, frames: usize) -> Self {
        let memory = MmapOptions::new().len(page_size * frames.max(2)).map_anon().expect("memory for a pool");
        prefer_large(memory.as_ptr().cast_mut(), memory.len());
        // A server's pool has been used before. Where this cannot be had, memory comes when it is touched first.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::PopulateWrite);
        Pool {
            page_size,
            memory: memory.into(),
            frames: vec![Frame::EMPTY; frames.max(2)],
            frame_of: Vec::new(),
            disk: Vec::new(),
            free: Vec::new(),
            hand: 0,
            reads: 0,
        }
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// Pages that are allocated.
    pub fn pages(&self) -> usize {
        self.disk.len() - self.free.len()
    }

    /// Numbers of pages given out so far: those of released pages, too.
    pub fn blocks(&self) -> Block {
        self.disk.len() as Block
    }

    /// Pages read from disk since the last [`forget`](Pool::forget).
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Writes all pages out, and empties the frames and the count of reads.
    pub fn forget(&mut self) {
        for frame in 0..self.frames.len() {
            self.vacate(frame);
        }
        (self.hand, self.reads) = (0, 0);
    }

    /// A new page, of zeros.
    pub fn allocate(&mut self) -> Block {
        let block = self.free.pop().unwrap_or_else(|| {
            self.frame_of.push(NO_FRAME);
            self.disk.push(None);
            self.disk.len() as Block - 1
        });
        let frame = self.take_frame(block);
        self.bytes(frame).fill(0);
        self.frames[frame].dirty = true;
        block
    }

    /// Gives a page back.
    pub fn release(&mut self, block: Block) {
        let frame = self.frame_of[block as usize];
        if frame != NO_FRAME {
            self.frames[frame as usize] = Frame::EMPTY;
            self.frame_of[block as usize] = NO_FRAME;
        }
        self.disk[block as usize] = None;
        self.free.push(block);
    }

    /// A page, to be read.
    #[inline]
    pub fn page(&mut self, block: Block) -> &[u8] {
        let frame = self.frame(block);
        self.bytes(frame)
    }

    /// A page, to be changed.
    #[inline]
    pub fn page_mut(&mut self, block: Block) -> &mut [u8] {
        let frame = self.frame(block);
        self.frames[frame].dirty = true;
        self.bytes(frame)
    }

    /// Two pages, to be changed.
    ///
    /// # Panics
    /// If they are the same.
    pub fn two_pages_mut(&mut self, a: Block, b: Block) -> (&mut [u8], &mut [u8]) {
        assert_ne!(a, b);
        self.frame(a);
        let second = self.frame(b);
        // Reading b may have cost a its frame, but not the other way round: b has just been used.
        let first = self.frame(a);
        assert_eq!(self.frame_of[b as usize] as usize, second);
        self.frames[first].dirty = true;
        self.frames[second].dirty = true;
        let [first, second] = [first, second].map(|frame| self.address(frame));
        // SAFETY: two frames, of pages that are not the same, borrowed for as long as the pool is.
        unsafe { (slice::from_raw_parts_mut(first, self.page_size), slice::from_raw_parts_mut(second, self.page_size)) }
    }

    /// Keeps a page where it is until it is [unpinned](Pool::unpin) as often as it was pinned. Returns its frame.
    #[inline]
    pub fn pin(&mut self, block: Block) -> usize {
        let frame = self.frame(block);
        self.frames[frame].pins += 1;
        frame
    }

    /// Gives a pin back.
    #[inline]
    pub fn unpin(&mut self, frame: usize) {
        self.frames[frame].pins -= 1;
    }

    /// Says that a pinned page is changed.
    pub fn soil(&mut self, frame: usize) {
        self.frames[frame].dirty = true;
    }

    /// Where in memory a frame's page is. As long as it is pinned, the pool itself leaves it alone.
    #[inline]
    pub fn address(&self, frame: usize) -> *mut u8 {
        assert!(frame < self.frames.len(), "a frame of the pool");
        self.memory.as_mut_ptr().wrapping_add(frame * self.page_size)
    }

    fn bytes(&mut self, frame: usize) -> &mut [u8] {
        // SAFETY: a frame of the pool, which is borrowed as long.
        unsafe { slice::from_raw_parts_mut(self.address(frame), self.page_size) }
    }

    /// The frame that a page is in, into which it is read if it has to be.
    #[inline]
    fn frame(&mut self, block: Block) -> usize {
        let frame = self.frame_of[block as usize];
        if frame == NO_FRAME {
            return self.read(block);
        }
        self.frames[frame as usize].used = true;
        frame as usize
    }

    #[cold]
    fn read(&mut self, block: Block) -> usize {
        let frame = self.take_frame(block);
        let stored = self.disk[block as usize].take().expect("a page that was allocated");
        self.bytes(frame).copy_from_slice(&stored);
        self.disk[block as usize] = Some(stored);
        self.reads += 1;
        frame
    }

    /// Gives a page a frame.
    ///
    /// # Panics
    /// If all frames' pages are pinned.
    fn take_frame(&mut self, block: Block) -> usize {
        let mut turns = 0;
        while self.frames[self.hand].used || self.frames[self.hand].pins > 0 {
            turns += 1;
            assert!(turns <= 2 * self.frames.len(), "a page is not pinned");
            self.frames[self.hand].used = false;
            self.hand = (self.hand + 1) % self.frames.len();
        }
        let frame = self.hand;
        self.hand = (frame + 1) % self.frames.len();
        self.vacate(frame);
        self.frames[frame] = Frame { block, used: true, ..Frame::EMPTY };
        self.frame_of[block as usize] = frame as u32;
        frame
    }

    /// Empties a frame, whose page is written if it was changed.
    fn vacate(&mut self, frame: usize) {
        let Frame { block, pins, dirty, .. } = self.frames[frame];
        assert_eq!(pins, 0, "page {block} is pinned");
        if block == NO_BLOCK {
            return;
        }
        if dirty {
            let stored: Box<[u8]> = self.bytes(frame).into();
            self.disk[block as usize] = Some(stored);
        }
        self.frame_of[block as usize] = NO_FRAME;
        self.frames[frame] = Frame::EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_outlive_their_frames() {
        let mut pool = Pool::new(4096, 3);
        let blocks: Vec<Block> = (0..10).map(|_| pool.allocate()).collect();
        for &block in &blocks {
            pool.page_mut(block)[4095] = block as u8 + 1;
        }
        pool.forget();
        for &block in &blocks {
            assert_eq!(pool.page(block)[4095], block as u8 + 1);
        }
        assert_eq!(pool.reads(), 10);
        assert_eq!(pool.page(9)[0], 0);
        assert_eq!(pool.reads(), 10);
    }

    #[test]
    fn two_pages_are_there_at_once() {
        let mut pool = Pool::new(4096, 2);
        let blocks: Vec<Block> = (0..5).map(|_| pool.allocate()).collect();
        for &a in &blocks {
            for &b in blocks.iter().filter(|&&b| b != a) {
                let (first, second) = pool.two_pages_mut(a, b);
                (first[0], second[0]) = (a as u8, b as u8);
            }
        }
        assert!(blocks.iter().all(|&block| pool.page(block)[0] == block as u8));
    }

    #[test]
    fn pinned_pages_stay() {
        let mut pool = Pool::new(4096, 3);
        let blocks: Vec<Block> = (0..10).map(|_| pool.allocate()).collect();
        let [first, second] = [3, 5].map(|block| pool.pin(block));
        for &block in &blocks {
            pool.page_mut(block)[0] = block as u8 + 1;
        }
        // SAFETY: both are pinned.
        assert_eq!(unsafe { (*pool.address(first), *pool.address(second)) }, (4, 6));
        pool.unpin(first);
        pool.unpin(second);
        pool.forget();
        assert!(blocks.iter().all(|&block| pool.page(block)[0] == block as u8 + 1));
    }

    #[test]
    fn released_pages_are_used_again() {
        let mut pool = Pool::new(4096, 2);
        let first = pool.allocate();
        pool.page_mut(first)[7] = 1;
        pool.release(first);
        assert_eq!(pool.pages(), 0);
        let second = pool.allocate();
        assert_eq!((second, pool.page(second)[7]), (first, 0));
    }
}
