//! Whether neighbouring leaves agree about each other. Who goes from one to the next and does not come to where the
//! first one ended has met a concurrent split or deletion, or a page that is not the one that was written there last:
//! an older one, or half of one.

use super::Tree;
use crate::format::{Block, Error, Result};
use crate::page::{KeySpace, Side};
use crate::store::{Shared, Store};

/// What one of two neighbours says of the other.
struct End<K: KeySpace> {
    lsn: u64,
    is_live: bool,
    link: Block,
    fence: K::OwnedKey,
}

impl<S: Store, K: KeySpace> Tree<'_, S, K> {
    /// An error if one of two leaves says that the other is its neighbour, and that one does not, or not with the same
    /// fence. Nothing is locked or pinned before or after, nor both of the pages at once: what was seen twice with
    /// nothing changed in between was there at one moment.
    pub(crate) fn check_siblings(&self, left: Block, right: Block) -> Result<()> {
        let mut before = None;
        loop {
            let (a, b) = (self.end(left, Side::High)?, self.end(right, Side::Low)?);
            let agrees = match (a.link == right, b.link == left) {
                (true, true) => K::same_fence(K::fence_of(&a.fence), K::fence_of(&b.fence)),
                (one, other) => one == other,
            };
            if agrees || !a.is_live || !b.is_live {
                return Ok(());
            }
            if before == Some((a.lsn, b.lsn)) {
                let what = "page does not begin where the page left of it ends";
                return Err(Error::Corrupt { block: right, what });
            }
            before = Some((a.lsn, b.lsn));
            self.store.check_interrupts();
        }
    }

    fn end(&self, block: Block, side: Side) -> Result<End<K>> {
        let locked = self.lock::<Shared>(block)?;
        let page = self.page(&locked)?;
        let link = if side == Side::Low { page.left() } else { page.right() };
        let is_live = page.level() == 0 && !page.is_deleted();
        let mut end = End { lsn: locked.lsn(), is_live, link, fence: K::FIRST };
        K::set_to_fence(&mut end.fence, K::fence(&page, side));
        locked.release();
        Ok(end)
    }
}
