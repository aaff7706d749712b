//! The KISS-tree's protocol under a model checker: every access to the shared words is a point where another thread may
//! go on, and many thousand interleavings are tried.

use fpbtree_engine::cache::word::Word;
use fpbtree_lab::memory::kiss::{KissTree, Participant};
use shuttle::sync::atomic::AtomicU64 as Modelled;
use shuttle::thread;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// Interleavings tried of each kind.
const TRIED: usize = 400;

/// A word of the tree.
enum ModelWord {
    /// The model sees every access.
    Seen(Modelled),
    /// The same, but epochs are not stored: this is how a mistake is put into the protocol.
    Silent(Modelled),
    /// The rest of the first level, which no thread changes: the model would be slow with it.
    Rest(AtomicU64),
}

impl Word for ModelWord {
    fn load(&self) -> u64 {
        match self {
            Self::Seen(word) | Self::Silent(word) => word.load(SeqCst),
            Self::Rest(word) => word.load(SeqCst),
        }
    }

    fn store(&self, value: u64) {
        match self {
            Self::Seen(word) => word.store(value, SeqCst),
            Self::Silent(word) if value < 2 => word.store(value, SeqCst),
            Self::Silent(_) => {}
            Self::Rest(word) => word.store(value, SeqCst),
        }
    }

    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        match self {
            Self::Seen(word) | Self::Silent(word) => word.compare_exchange(current, new, SeqCst, SeqCst),
            Self::Rest(word) => word.compare_exchange(current, new, SeqCst, SeqCst),
        }
    }

    fn fence() {}

    fn pause(_: u32) {
        thread::yield_now();
    }
}

/// The participants' words; each has a cache line.
const PARTICIPANTS: usize = 96;
const THREADS: usize = 3;
/// The first level follows them. Only its first word is used.
const FIRST_LEVEL: usize = PARTICIPANTS + 8 * THREADS;

/// The words of a tree that was made outside the model.
fn image(fill: impl Fn(&mut Participant)) -> Arc<Vec<u64>> {
    let words: Vec<AtomicU64> = (0..38_500).map(|_| AtomicU64::new(0)).collect();
    let tree = KissTree::create(&words, THREADS).unwrap();
    fill(&mut tree.join(0).unwrap());
    while tree.collect() {}
    Arc::new(words.into_iter().map(AtomicU64::into_inner).collect())
}

type Work = fn(&mut Participant<'_, ModelWord>);

/// Lets `work` run side by side on the tree of `image`, in many ways, and `check` what is left each time. The thread
/// `silent` announces nothing.
fn model(image: &Arc<Vec<u64>>, silent: Option<usize>, work: [Work; THREADS], check: Work) {
    let image = image.clone();
    let run = move || {
        let word = |(index, value): (usize, &u64)| match index.checked_sub(PARTICIPANTS) {
            Some(place) if silent.is_some_and(|slot| place == 8 * slot) => ModelWord::Silent(Modelled::new(*value)),
            _ if (FIRST_LEVEL + 1..FIRST_LEVEL + 32768).contains(&index) => ModelWord::Rest(AtomicU64::new(*value)),
            _ => ModelWord::Seen(Modelled::new(*value)),
        };
        let words: Arc<Vec<ModelWord>> = Arc::new(image.iter().enumerate().map(word).collect());
        let threads: Vec<_> = (0..THREADS)
            .map(|slot| {
                let words = words.clone();
                thread::spawn(move || work[slot](&mut KissTree::attach(&words).unwrap().join(slot).unwrap()))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        check(&mut KissTree::attach(&words).unwrap().join(0).unwrap());
        let now: Vec<AtomicU64> = words.iter().map(|word| AtomicU64::new(word.load())).collect();
        let tree = KissTree::attach(&now).unwrap();
        tree.verify().unwrap();
        // Everything can be taken away again, and then no memory is in use.
        tree.join(0).unwrap().clear();
        while tree.collect() {}
        assert_eq!(tree.verify().unwrap().pages, 0);
    };
    shuttle::check_random(run.clone(), TRIED);
    shuttle::check_pct(run, TRIED, 3);
}

/// A value that tells its key.
fn value(key: u32, number: u64) -> u64 {
    u64::from(key) << 32 | number
}

fn see(key: u32, found: Option<u64>) {
    assert!(found.is_none_or(|found| (found >> 32) as u32 == key), "the value of another key: {found:x?}");
}

fn collect(participant: &mut Participant<'_, ModelWord>) {
    participant.collect();
}

fn put(participant: &mut Participant<'_, ModelWord>, key: u32, number: u64) {
    participant.insert(key, value(key, number)).unwrap();
}

fn nothing(_: &mut Participant<'_, ModelWord>) {}

/// Two keys share a node.
fn pair() -> Arc<Vec<u64>> {
    image(|participant| {
        participant.insert(1, value(1, 0)).unwrap();
        participant.insert(2, value(2, 0)).unwrap();
    })
}

/// Reads a key whose neighbours come and go, so that its node's memory is used again at another place of the same node.
const REUSE: [Work; THREADS] = [
    |reader| {
        let stays = |found: Option<u64>| see(2, Some(found.expect("a key that stays")));
        stays(reader.get(2));
        let mut found = [None; 2];
        reader.get_many(&[2, 1], &mut found);
        stays(found[0]);
        see(1, found[1]);
    },
    |writer| {
        writer.remove(1).unwrap();
        collect(writer);
        put(writer, 3, 0);
        collect(writer);
    },
    nothing,
];

#[test]
fn no_reader_sees_memory_used_again() {
    model(&pair(), None, REUSE, nothing);
}

#[test]
fn a_reader_that_announces_nothing_is_found_out() {
    let found = catch_unwind(|| model(&pair(), Some(0), REUSE, nothing)).unwrap_err();
    let message = found.downcast_ref::<String>().map_or("", String::as_str);
    assert!(message.contains("the value of another key"), "{message}");
}

#[test]
fn a_writer_that_announces_nothing_is_found_out() {
    let work: [Work; THREADS] = [
        |writer| count(writer, 1),
        |writer| {
            count(writer, 1);
            collect(writer);
            count(writer, 1);
        },
        nothing,
    ];
    let found = catch_unwind(|| model(&pair(), Some(0), work, |last| assert_eq!(number(last, 1), 3))).unwrap_err();
    let message = found.downcast_ref::<String>().map_or("", String::as_str);
    assert!(message.contains("right: 3"), "{message}");
}

fn count(writer: &mut Participant<'_, ModelWord>, key: u32) {
    writer.alter(key, |old| Some(old.unwrap_or(value(key, 0)) + 1)).unwrap();
}

fn number(participant: &mut Participant<'_, ModelWord>, key: u32) -> u64 {
    participant.get(key).unwrap() & u64::from(u32::MAX)
}

#[test]
fn no_update_is_lost() {
    let work: [Work; THREADS] = [
        |writer| {
            count(writer, 1);
            collect(writer);
            count(writer, 1);
        },
        |writer| {
            count(writer, 1);
            collect(writer);
            count(writer, 2);
        },
        |reader| see(2, reader.get(2)),
    ];
    model(&pair(), None, work, |last| assert_eq!((number(last, 1), number(last, 2)), (3, 1)));
}

#[test]
fn second_level_nodes_come_and_go() {
    let work: [Work; THREADS] = [
        |writer| {
            put(writer, 100, 0);
            writer.remove(100).unwrap();
            collect(writer);
            put(writer, 101, 0);
        },
        |writer| {
            put(writer, 200, 0);
            assert_eq!(writer.remove(200), Ok(Some(value(200, 0))));
            collect(writer);
            assert_eq!(writer.remove(200), Ok(None));
        },
        |writer| {
            see(101, writer.get(101));
            put(writer, 300, 0);
            assert_eq!(writer.get(300), Some(value(300, 0)));
        },
    ];
    model(&image(|_| {}), None, work, |last| {
        assert!([101, 300].iter().all(|key| last.get(*key) == Some(value(*key, 0))));
        assert!([100, 200].iter().all(|key| last.get(*key).is_none()));
    });
}

#[test]
fn of_two_that_take_one_away_one_succeeds() {
    let work: [Work; THREADS] = [
        |writer| {
            if writer.compare_remove(1, value(1, 0)).unwrap() {
                put(writer, 1000, 0);
            }
        },
        |writer| {
            if writer.evict(1) == 2 {
                put(writer, 1000, 0);
                put(writer, 1001, 0);
            }
        },
        |writer| put(writer, 2, 1),
    ];
    model(&pair(), None, work, |last| {
        assert!(last.get(1000).is_some() || last.get(1).is_none());
        assert_eq!(last.get(1), None);
        see(2, last.get(2));
    });
}
