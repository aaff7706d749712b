//! Changes applied to pages: the forward path and redo do it with the same functions.

use super::*;
use crate::log::{BlockEdits, RecordKind, insertion, series};

impl Change<'_> {
    /// Applies the `index`-th page's edits to it and notes what they wrote. Reads nothing but that page and the change.
    /// The change fits the page: it was planned on it, or [`fits`](Change::fits) said so.
    pub fn apply(&self, index: usize, page: &mut PageBytes, ranges: &mut Ranges) {
        // Only a damaged page may have no room for what was planned on it.
        let _ = self.edits(index).all(|edit| apply(edit, page, ranges));
    }

    /// Whether the `index`-th page's edits can be applied to this page: what redo asks before it trusts a record.
    pub fn fits(&self, index: usize, page: &PageBytes) -> bool {
        self.redo(index, &mut page.clone())
    }

    /// Applies the `index`-th page's edits to it one after the other, as far as they fit. Whether all did.
    #[must_use]
    pub fn redo(&self, index: usize, page: &mut PageBytes) -> bool {
        redo(self.edits(index).copied(), page)
    }
}

impl BlockEdits {
    /// Asks the hardware for what [`BlockEdits::redo`] will change of a page, if the part is an insertion. The page may
    /// be anything by now: it is only a hint.
    pub fn prefetch(kind: RecordKind, bytes: &[u8], page: &PageBytes) {
        if let (true, [node, ..]) = (kind.is_insertion(), bytes) {
            super::edit::prefetch_node(page, *node);
        }
    }

    /// Makes the change to a page as it was then. `false` if it was another: what it is now is of no use.
    pub fn redo(&self, page: &mut PageBytes) -> bool {
        redo(self.edits(), page)
    }

    /// Does what [`decode`](BlockEdits::decode) and [`redo`](BlockEdits::redo) do, if the record [is of one
    /// insertion](RecordKind::is_insertion), without memory of its own.
    pub fn redo_insertion(kind: RecordKind, bytes: &[u8], page: &mut PageBytes) -> bool {
        kind.is_insertion() && insertion(bytes).is_some_and(|edit| redo([edit], page))
    }
}

/// Applies edits to a page one after the other, as far as they fit it. Whether all did.
fn redo<'a>(edits: impl IntoIterator<Item = Edit<'a>>, bytes: &mut PageBytes) -> bool {
    // Nobody asks for them.
    let mut ranges = Ranges::whole();
    edits.into_iter().all(|edit| {
        if let Edit::Insert { place, .. } = edit {
            edit::prefetch_insertion(bytes, place.node);
        }
        apply(&edit, bytes, &mut ranges)
    })
}

/// Makes an edit of a page. Whether the page was one that it fits.
fn apply(edit: &Edit<'_>, bytes: &mut PageBytes, ranges: &mut Ranges) -> bool {
    match *edit {
        Edit::New(image) | Edit::Image(image) => PageMut::replace(bytes, image, ranges),
        // What generic records hold is what edits have written, equal or not: DEAD flags of a standby's own are undone by it.
        Edit::Series { page: Some(made), .. } if ranges.whole_page() => bytes[10..].copy_from_slice(&made[10..]),
        _ => return PageMut::open(bytes, ranges).is_some_and(|mut page| make(edit, &mut page)),
    }
    true
}

/// Makes an edit of a page that stays what it is.
fn make(edit: &Edit<'_>, page: &mut PageMut<'_>) -> bool {
    match *edit {
        Edit::Insert { place, lane, tid, child, cell } => return page.insert(place, lane, tid, child, cell),
        Edit::Series { edits, .. } => return series(edits).all(|edit| edit.is_some_and(|edit| make(&edit, page))),
        Edit::SplitNode { node, keep } => return page.split_node(node, keep),
        Edit::Balance { left, keep } => return page.balance(left, keep),
        Edit::Reserve { bytes } => return page.reserve(bytes),
        Edit::Repack(counts) => return page.repack(counts),
        Edit::Halve { counts, right, high } => return page.halve(counts, right, high),
        Edit::Remove { node, mask } => return page.remove(node, mask),
        Edit::RemoveSet(nodes) => {
            return nodes.windows(2).all(|pair| pair[1].0 < pair[0].0)
                && nodes.iter().all(|&(node, mask)| page.remove(node, mask));
        }
        Edit::New(_) | Edit::Image(_) | Edit::Conflict(_) => {}
        Edit::SetLeft(block) => page.set_left(block),
        Edit::SetRight(block) => page.set_right(block),
        Edit::SetLow(key) => page.set_low(key),
        Edit::SetIncomplete(incomplete) => page.set_incomplete(incomplete),
        Edit::GiveAway => page.give_away(),
        Edit::Delete { time } => page.delete(time),
    }
    true
}
