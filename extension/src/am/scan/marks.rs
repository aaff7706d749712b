//! Places that a scan comes back to.

use super::conditions::Searched;
use super::state::ScanState;
use crate::pg::memory::zeroed_value;

impl<K: Searched> ScanState<K> {
    /// Copies the page's matches away, for the mark that is in it; the page's pin, if it is kept, becomes the mark's.
    pub(super) unsafe fn keep_marked(&mut self) {
        // SAFETY: the copy lives as long as the state.
        unsafe {
            if self.mark.copy.is_null() {
                self.mark.copy = zeroed_value(self.context);
            }
            (*self.mark.copy).copy_from(&self.matches);
            (self.mark.here, self.mark.block, self.mark.seen) = (false, self.block, self.seen);
            self.mark.cursor.copy_from(&self.cursor);
            self.mark.pin = self.pin.take();
        }
    }

    /// Forgets the mark and gives its pin back.
    pub(super) fn unmark(&mut self) {
        if let Some(pin) = self.mark.pin.take() {
            pin.unpin(&self.store);
        }
        self.mark.set = false;
    }

    /// Goes back to the mark, which stays; a pin of its own becomes the page's.
    pub(super) unsafe fn restore(&mut self) {
        // SAFETY: the scan is ours, and the copy of a mark's matches was made when its page was left.
        unsafe {
            self.stop_looking_ahead();
            if self.mark.set && self.mark.here {
                self.at = self.mark.at;
                return;
            }
            self.leave_page();
            self.positioned = self.mark.set;
            if self.mark.set {
                self.matches.copy_from(&*self.mark.copy);
                (self.at, self.block, self.seen) = (self.mark.at, self.mark.block, self.mark.seen);
                self.cursor.copy_from(&self.mark.cursor);
                self.pin = self.mark.pin.take();
                self.mark.here = true;
            }
        }
    }

    /// Notes the place that the scan is at.
    pub(super) fn set_mark(&mut self) {
        self.unmark();
        if self.positioned {
            (self.mark.set, self.mark.here, self.mark.at) = (true, true, self.at);
        }
    }
}
