//! The byte ranges a change wrote in a page, as the server's generic log records want them.

use arrayvec::ArrayVec;

use crate::format::{PAGE_SIZE, PageBytes};

/// Ranges remembered before a whole page image is cheaper to log.
const MOST: usize = 64;
/// Bytes beyond which a whole page image is logged instead.
const MOST_BYTES: usize = PAGE_SIZE / 2;

/// Byte ranges written in one page. No allocation, nothing to drop: it is filled inside critical sections.
#[derive(Clone)]
pub struct Ranges {
    ranges: ArrayVec<(u16, u16), MOST>,
    bytes: usize,
    whole: bool,
}

impl Default for Ranges {
    fn default() -> Self {
        Ranges::new()
    }
}

impl Ranges {
    /// Nothing written.
    pub const fn new() -> Ranges {
        Ranges { ranges: ArrayVec::new_const(), bytes: 0, whole: false }
    }

    /// All of the page, which nothing can be added to.
    pub const fn whole() -> Ranges {
        Ranges { ranges: ArrayVec::new_const(), bytes: 0, whole: true }
    }

    /// Bytes `delta` may need.
    pub const DELTA_SIZE: usize = MOST_BYTES + 4 * MOST;

    /// Notes that `length` bytes from `start` on were written.
    pub fn add(&mut self, start: usize, length: usize) {
        if length == 0 || self.whole {
            return;
        }
        if let Some((at, len)) = self.ranges.last_mut()
            && (*at as usize..=*at as usize + *len as usize).contains(&start)
        {
            let end = (start + length).max(*at as usize + *len as usize);
            self.bytes += end - *at as usize - *len as usize;
            *len = (end - *at as usize) as u16;
        } else if self.ranges.try_push((start as u16, length as u16)).is_ok() {
            self.bytes += length;
        } else {
            self.whole = true;
        }
        self.whole |= self.bytes > MOST_BYTES;
    }

    /// Notes that the page was rewritten.
    pub fn add_whole_page(&mut self) {
        self.whole = true;
    }

    /// Whether a full image has to be logged.
    pub fn whole_page(&self) -> bool {
        self.whole
    }

    /// Writes what the ranges hold now as fragments `offset, length, bytes`, the body of a generic record for one
    /// block (PostgreSQL's generic_xlog.c), and says how many bytes that took. `out` has room for [`Self::DELTA_SIZE`].
    pub fn delta(&self, page: &PageBytes, out: &mut [u8]) -> usize {
        let mut at = 0;
        for &(start, length) in &self.ranges {
            let (from, len) = (start as usize, length as usize);
            out[at..at + 2].copy_from_slice(&start.to_ne_bytes());
            out[at + 2..at + 4].copy_from_slice(&length.to_ne_bytes());
            out[at + 4..at + 4 + len].copy_from_slice(&page[from..from + len]);
            at += 4 + len;
        }
        at
    }
}
