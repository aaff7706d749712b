//! Memory under the model checker.

use fpbtree_engine::cache::word::Word;
use shuttle::sync::atomic::AtomicU64 as Modelled;
use std::sync::atomic::Ordering::SeqCst;

/// A word under the model checker: every access is a point where another thread may go on.
pub enum ModelWord {
    Seen(Modelled),
    /// The same, but what is written here is lost: this is how a mistake is put into the protocol.
    Deaf(Modelled),
}

impl Word for ModelWord {
    fn load(&self) -> u64 {
        let (Self::Seen(word) | Self::Deaf(word)) = self;
        word.load(SeqCst)
    }

    fn store(&self, value: u64) {
        if let Self::Seen(word) = self {
            word.store(value, SeqCst);
        }
    }

    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        match self {
            Self::Seen(word) => word.compare_exchange(current, new, SeqCst, SeqCst),
            Self::Deaf(_) => Ok(current),
        }
    }

    fn fence() {}

    fn pause(_: u32) {
        shuttle::thread::yield_now();
    }
}

/// A word that is zero.
pub fn seen() -> ModelWord {
    ModelWord::Seen(Modelled::new(0))
}

/// A word that stays zero.
pub fn deaf() -> ModelWord {
    ModelWord::Deaf(Modelled::new(0))
}
