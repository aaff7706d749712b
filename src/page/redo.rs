//! Changes applied to pages: the forward path and redo do it with the same functions.

use super::*;
use crate::log::{BlockEdits, RecordKind, insertion};

impl Change<'_> {
    /// Applies the `index`-th page's edits to it and notes what they wrote. Reads nothing but that page and the change.
    /// The change fits the page: it was planned on it, or [`fits`](Change::fits) said so.
    pub fn apply(&self, index: usize, page: &mut PageBytes, ranges: &mut Ranges) {
        for edit in self.edits(index) {
            apply(edit, page, ranges);
        }
    }

    /// Whether the `index`-th page's edits can be applied to this page: what redo asks before it trusts a record.
    pub fn fits(&self, index: usize, page: &PageBytes) -> bool {
        self.redo(index, &mut page.clone())
    }

    /// Applies the `index`-th page's edits to it one after the other, as far as they fit. Whether all did.
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
    edits.into_iter().all(|edit| match edit {
        Edit::New(image) | Edit::Image(image) => {
            PageMut::replace(bytes, image, &mut ranges);
            true
        }
        edit => PageMut::open(bytes, &mut ranges).is_some_and(|mut page| {
            page.expect();
            let fits = fits(&edit, &page);
            if fits {
                make(&edit, &mut page);
            }
            fits
        }),
    })
}

fn apply(edit: &Edit<'_>, bytes: &mut PageBytes, ranges: &mut Ranges) {
    if let Edit::New(image) | Edit::Image(image) = *edit {
        PageMut::replace(bytes, image, ranges);
    } else if let Some(mut page) = PageMut::open(bytes, ranges) {
        make(edit, &mut page);
    }
}

/// Makes an edit of a page that stays what it is.
fn make(edit: &Edit<'_>, page: &mut PageMut<'_>) {
    match *edit {
        Edit::New(_) | Edit::Image(_) | Edit::Conflict(_) => {}
        Edit::Insert { place, lane, tid, child, cell } => page.insert(place, lane, tid, child, cell),
        Edit::SplitNode { node, keep } => page.split_node(node, keep),
        Edit::Balance { left, keep } => page.balance(left, keep),
        Edit::Reserve { bytes } => page.reserve(bytes),
        Edit::Repack(counts) => page.repack(counts),
        Edit::Halve { counts, right, high } => page.halve(counts, right, high),
        Edit::Remove { node, mask } => page.remove(node, mask),
        Edit::RemoveSet(nodes) => nodes.iter().for_each(|&(node, mask)| page.remove(node, mask)),
        Edit::SetLeft(block) => page.set_left(block),
        Edit::SetRight(block) => page.set_right(block),
        Edit::SetLow(key) => page.set_low(key),
        Edit::SetIncomplete(incomplete) => page.set_incomplete(incomplete),
        Edit::Delete { time } => page.delete(time),
    }
}

/// Whether an edit can be made of a page that stays what it is.
fn fits(edit: &Edit<'_>, page: &PageMut<'_>) -> bool {
    match *edit {
        Edit::Insert { place, lane, tid, child, cell } => page.can_insert(place, lane, tid, child, cell),
        Edit::SplitNode { node, keep } => page.can_split(node, keep),
        Edit::Balance { left, keep } => page.can_balance(left, keep),
        Edit::Reserve { bytes } => page.can_reserve(bytes),
        Edit::Repack(counts) => page.can_repack(counts),
        Edit::Halve { counts, .. } => page.can_halve(counts),
        Edit::Remove { node, .. } => page.can_remove(node),
        Edit::RemoveSet(nodes) => {
            nodes.iter().all(|&(node, _)| page.can_remove(node)) && nodes.windows(2).all(|pair| pair[1].0 < pair[0].0)
        }
        _ => true,
    }
}
