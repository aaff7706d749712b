//! Indexes in memory beside sorted sets of the rows that they should hold.

#![allow(dead_code, reason = "each program uses its part")]

pub mod bytes;
mod lanes;
pub mod nodes;

#[allow(unused_imports, reason = "each program uses its part")]
pub use lanes::*;

use fpbtree_engine::format::{Block, NO_BLOCK, PAGE_SIZE, PageBytes, Result, Tid};
use fpbtree_engine::log::Ranges;
use fpbtree_engine::page::{Entry, KeySpace, Keys, Meta, Page, PageMut, Side};
use fpbtree_engine::scan::{Cursor, Direction, JumpPointers, Matches, Range, Scannable, Wanted, kill};
use fpbtree_engine::store::memory::MemoryStore;
use fpbtree_engine::store::{PageStore, Shared, Store};
use fpbtree_engine::tree::check::BlockSet;
use fpbtree_engine::tree::load::{LeafWriter, Loadable, Loader, PartPages};
use fpbtree_engine::tree::{DeadTids, InsertOptions, Seek, Tree, VacuumStats};
use rand::rngs::StdRng;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::mem::MaybeUninit;

pub const BUILD_ID: u64 = 0x0123_4567_89AB_CDEF;

/// What the key of an index's rows is, and how rows are made of numbers: [`Lanes`] and [`bytes::Taste`].
pub trait KeyMaker {
    type Keys: Scannable + Loadable;
    /// A row. Rows are ordered as their entries are.
    type Row: Clone + Ord + Debug;
    /// All that is stored of a row.
    type Image: PartialEq + Debug;
    /// What a scan may be asked for.
    type Wish: Debug;

    fn meta(&self) -> Meta;
    fn order(&self) -> <Self::Keys as Keys>::Order<'_>;
    /// The rank of NULLs, where entries have ranks.
    fn ranks(&self) -> Option<bool>;

    /// A row with the key of one number, NULL for none, and the heap TID of another. Keys' numbers are ordered as they
    /// are or the other way round, as long as they are less than [`KEYS`].
    fn numbered(&self, key: Option<u64>, number: u64) -> Self::Row;
    /// A row with some key, and the heap TID that goes with this number.
    fn random_row(&self, random: &mut StdRng, number: u64) -> Self::Row;
    /// Another row with a row's key.
    fn version(&self, row: &Self::Row, number: u64) -> Self::Row;

    fn entry(row: &Self::Row) -> Entry<'_, Self::Keys>;
    /// Whether rows have the same key, their heap TIDs aside.
    fn same_key(a: &Self::Row, b: &Self::Row) -> bool;
    /// The places before and behind all rows with the key of this one.
    fn around(&self, row: &Self::Row) -> [<Self::Keys as Keys>::OwnedKey; 2];
    /// An entry's row, as it is stored, whether it is known to be dead or not.
    fn image(&self, entry: &Entry<'_, Self::Keys>) -> Self::Image;
    /// A match of a scan that wanted keys; `None` if it is damaged.
    fn matched(matches: &Matches<Self::Keys>, at: usize) -> Option<Entry<'_, Self::Keys>>;

    /// Some of these rows, others, or all.
    fn random_wish(&self, random: &mut StdRng, rows: &[Self::Row]) -> Self::Wish;
    fn holds(&self, wish: &Self::Wish, row: &Self::Row) -> bool;
    /// Makes a selection of a wish, keys and all, and hands it on.
    fn wanting<R>(&self, wish: &Self::Wish, then: impl FnOnce(AnyWanted<'_, Self::Keys>) -> R) -> R;

    fn tid(row: &Self::Row) -> Tid {
        Self::entry(row).tid
    }

    fn image_of(&self, row: &Self::Row) -> Self::Image {
        self.image(&Self::entry(row))
    }

    /// The images of all matches.
    fn images(&self, matches: &Matches<Self::Keys>) -> Vec<Self::Image> {
        let image = |at| self.image(&Self::matched(matches, at).expect("keys were wanted"));
        (0..matches.len()).map(image).collect()
    }

    /// The place of an entry's key; `None` if it is damaged.
    fn place(&self, entry: &Entry<'_, Self::Keys>) -> Option<<Self::Keys as Keys>::OwnedKey> {
        let mut place = Self::Keys::FIRST;
        Self::Keys::set_to_key(&mut place, entry, self.order())?;
        Some(place)
    }
}

/// Numbers of keys that are ordered are less.
pub const KEYS: u64 = 1 << 16;

/// Whatever a scan looks for.
pub struct AnyWanted<'w, K>(pub &'w dyn Wanted<K>);

impl<K: KeySpace> Wanted<K> for AnyWanted<'_, K> {
    fn at_or_after(&self, place: &K::OwnedKey, out: &mut Range<K>) -> bool {
        self.0.at_or_after(place, out)
    }

    fn before(&self, place: &K::OwnedKey, out: &mut Range<K>) -> bool {
        self.0.before(place, out)
    }

    fn is_one_range(&self) -> bool {
        self.0.is_one_range()
    }

    fn null_rank(&self) -> bool {
        self.0.null_rank()
    }

    fn wants_keys(&self) -> bool {
        self.0.wants_keys()
    }
}

/// Everything from one place to before another, keys and all.
pub struct Between<K: KeySpace> {
    pub ends: [K::OwnedKey; 2],
    pub null_rank: bool,
}

impl<K: KeySpace> Between<K> {
    /// In an index whose NULLs come last.
    pub fn new(ends: [K::OwnedKey; 2]) -> Self {
        Between { ends, null_rank: true }
    }
}

impl<K: KeySpace> Wanted<K> for Between<K> {
    fn at_or_after(&self, place: &K::OwnedKey, out: &mut Range<K>) -> bool {
        let [low, high] = &self.ends;
        K::copy(&mut out.first, if K::same(place, K::first()) { low } else { place });
        K::copy(&mut out.after, high);
        !K::same(place, high) && !K::same(place, K::last())
    }

    fn before(&self, place: &K::OwnedKey, out: &mut Range<K>) -> bool {
        let [low, high] = &self.ends;
        K::copy(&mut out.first, low);
        K::copy(&mut out.after, if K::same(place, K::last()) { high } else { place });
        !K::same(place, low) && !K::same(place, K::first())
    }

    fn is_one_range(&self) -> bool {
        true
    }

    fn null_rank(&self) -> bool {
        self.null_rank
    }

    fn wants_keys(&self) -> bool {
        true
    }
}

/// An index, and the rows it should hold.
pub struct AnyBed<M: KeyMaker> {
    pub store: MemoryStore,
    pub meta: Meta,
    pub taste: M,
    pub model: BTreeSet<M::Row>,
}

impl<M: KeyMaker> AnyBed<M> {
    /// Of pages that are there.
    pub fn of(taste: M, store: MemoryStore, model: BTreeSet<M::Row>) -> Self {
        AnyBed { store, meta: taste.meta(), taste, model }
    }

    /// Of no row.
    pub fn empty(taste: M, store: impl FnOnce(&[PageBytes]) -> MemoryStore) -> Self {
        let store = store(&load_rows(&taste, 90, [].into_iter()));
        Self::of(taste, store, BTreeSet::new())
    }

    pub fn tree(&self) -> Tree<'_, MemoryStore, M::Keys> {
        Tree::ordered(&self.store, &self.meta.geometry, self.taste.order())
    }

    /// Inserts a row, unless it is there. Whether it was not.
    pub fn add(&mut self, row: M::Row) -> bool {
        let is_new = !self.model.contains(&row);
        if is_new {
            let inserted = self.tree().insert_entry(&M::entry(&row), InsertOptions::filling(90));
            inserted.expect("the insertion succeeds");
            self.model.insert(row);
        }
        is_new
    }

    /// Removes the rows that `is_dead` names.
    pub fn vacuum(&mut self, mut is_dead: impl FnMut(Tid) -> bool) -> VacuumStats {
        let before = self.model.len();
        self.model.retain(|row| !is_dead(M::tid(row)));
        let mut leaves = 0;
        let stats = self
            .tree()
            .vacuum(&mut DeadTids::new(&mut memory_to_ask()), &mut is_dead, &mut |_, _, _| {}, &mut |_| leaves += 1)
            .expect("the vacuum succeeds");
        assert_eq!(stats.entries, self.model.len() as u64);
        assert_eq!(stats.removed, (before - self.model.len()) as u64);
        assert_eq!(stats.leaf_pages, leaves);
        stats
    }

    /// Cuts off what is free at the end of the file, after what is not has been moved.
    pub fn cut_off(&mut self) {
        let free = self.tree().file_end(Block::MAX, &mut |_| true).expect("the pages can be read");
        let end = self.tree().pack_file_end(&free).expect("the tree is sound");
        assert!(end >= self.store.block_count() - free.free());
        self.store.truncate(end);
    }

    /// Moves what is in use to the file's front, and cuts off the rest. Says how many pages that is.
    pub fn compact(&mut self) -> Block {
        let before = self.store.block_count();
        let end = self.tree().compact(&mut |_| true).expect("the tree is sound");
        self.store.truncate(end);
        before - end
    }

    /// What verification has to say.
    pub fn flaws(&self) -> Vec<String> {
        flaws(self.tree(), self.taste.ranks())
    }

    /// Everything is as it should be.
    pub fn check(&self) {
        assert!(self.store.is_quiet(), "a lock or a pin is left over");
        assert_eq!(self.flaws(), Vec::<String>::new());
        let mut expected = self.model.iter();
        for_each_entry(self.tree(), |entry| {
            let expected = expected.next().map(|row| self.taste.image_of(row));
            assert!(Some(self.taste.image(entry)) == expected, "the tree holds something else");
        });
        assert!(expected.next().is_none(), "the tree holds less");
        let census = self.tree().census().expect("the tree can be counted");
        assert_eq!(census.entries, self.model.len() as u64);
        assert_eq!(census.free_pages, self.store.free_pages(), "a page is lost");
    }
}

/// The pages of an index of these rows, which come in order, loaded in bulk.
pub fn load_rows<'r, M: KeyMaker>(taste: &M, fill: usize, rows: impl Iterator<Item = &'r M::Row>) -> Vec<PageBytes>
where
    M::Row: 'r,
{
    let meta = taste.meta();
    let mut pages = vec![meta.page()];
    let mut write = |block: u32, page: &PageBytes| {
        pages.resize(pages.len().max(block as usize + 1), [0; PAGE_SIZE]);
        assert!(pages[block as usize].iter().all(|&byte| byte == 0), "block {block} is written twice");
        pages[block as usize] = *page;
    };
    let mut memory = Box::new(MaybeUninit::<Loader<M::Keys>>::uninit());
    Loader::init(&mut memory, fill);
    // SAFETY: just initialised.
    let loader = unsafe { memory.assume_init_mut() };
    for row in rows {
        loader.add(&meta.geometry, taste.order(), &M::entry(row), &mut write);
    }
    loader.finish(&meta.geometry, taste.order(), &mut write);
    pages
}

/// What parts of an index write their leaves to.
struct Parts<K: KeySpace> {
    pages: Vec<PageBytes>,
    leaves: Vec<(K::OwnedKey, Block)>,
}

impl<K: Loadable> PartPages<K> for Parts<K> {
    fn take(&mut self) -> Block {
        self.pages.push([0; PAGE_SIZE]);
        self.pages.len() as Block - 1
    }

    fn write(&mut self, block: Block, low: &K::OwnedKey, page: &PageBytes) {
        assert!(self.pages[block as usize].iter().all(|&byte| byte == 0), "block {block} is written twice");
        self.pages[block as usize] = *page;
        self.leaves.push((*low, block));
    }
}

/// The same, loaded in parts that begin at these places, the last part first.
pub fn load_in_parts<M: KeyMaker>(
    taste: &M,
    fill: usize,
    rows: &[M::Row],
    places: &[<M::Keys as Keys>::OwnedKey],
) -> Vec<PageBytes> {
    let (meta, order) = (taste.meta(), taste.order());
    let geometry = &meta.geometry;
    let parts = places.len() + 1;
    let first = |part: usize| (2 + part) as Block;
    let mut written = Parts::<M::Keys> { pages: vec![[0; PAGE_SIZE]; 2 + parts], leaves: Vec::new() };
    written.pages[0] = meta.page();
    let begin = |part: usize| {
        let place = M::Keys::borrow(&places[part - 1], order);
        rows.partition_point(|row| M::Keys::compare_entry(place, &M::entry(row)).is_gt())
    };
    let mut of_parts = Vec::new();
    for part in (0..parts).rev() {
        let (low, from) = if part == 0 { (M::Keys::FIRST, 0) } else { (places[part - 1], begin(part)) };
        let (high, to) = places.get(part).map_or((M::Keys::LAST, rows.len()), |high| (*high, begin(part + 1)));
        let mut memory = Box::new(MaybeUninit::<LeafWriter<M::Keys>>::uninit());
        LeafWriter::init(&mut memory, fill, &low, first(part));
        // SAFETY: just initialised.
        let leaves = unsafe { memory.assume_init_mut() };
        rows[from..to].iter().for_each(|row| leaves.add(geometry, order, &M::entry(row), &mut written));
        let right = if part + 1 < parts { first(part + 1) } else { NO_BLOCK };
        let last = leaves.finish(geometry, order, (&high, right), &mut written);
        of_parts.insert(0, (last, std::mem::take(&mut written.leaves)));
    }
    for part in 1..parts {
        let page = &mut written.pages[first(part) as usize];
        PageMut::open(page, &mut Ranges::new()).expect("a leaf").set_left(of_parts[part - 1].0);
    }
    let mut pages = written.pages;
    let behind = pages.len() as Block;
    let mut write = |block: Block, page: &PageBytes| {
        pages.resize(pages.len().max(block as usize + 1), [0; PAGE_SIZE]);
        pages[block as usize] = *page;
    };
    let mut memory = Box::new(MaybeUninit::<Loader<M::Keys>>::uninit());
    Loader::init(&mut memory, fill);
    // SAFETY: just initialised.
    let loader = unsafe { memory.assume_init_mut() };
    for (low, block) in of_parts.iter().flat_map(|(_, leaves)| leaves) {
        loader.add_leaf(geometry, order, &M::Keys::downlink(low, *block), behind, &mut write);
    }
    loader.finish(geometry, order, &mut write);
    pages
}

/// Memory for a VACUUM to ask about the rows of many leaves at a time, or of few, or of none. Every thread counts for
/// itself, so that what fails fails again whatever other tests run beside it.
pub fn memory_to_ask() -> Vec<u64> {
    thread_local!(static CALLS: Cell<usize> = const { Cell::new(0) });
    vec![0; [40_000, 0, 3000, 100][CALLS.replace(CALLS.get() + 1) % 4]]
}

/// What verification has to say. `ranks` is the rank of NULLs, where entries have ranks.
pub fn flaws<S: Store, K: KeySpace>(tree: Tree<'_, S, K>, ranks: Option<bool>) -> Vec<String> {
    let mut words = vec![0; BlockSet::words(tree.store().block_count())];
    let mut found = Vec::new();
    tree.verify(ranks, &mut BlockSet::new(&mut words), &mut |block, what, detail| {
        found.push(format!("block {block}: {what} ({detail})"));
    })
    .unwrap_or_else(|error| found.push(format!("{error:?}")));
    found
}

/// Shows `look` a page, share-locked.
pub fn look_at<S: Store, K: KeySpace, R>(
    tree: Tree<'_, S, K>,
    block: Block,
    look: impl FnOnce(&Page<'_, K>) -> R,
) -> R {
    let locked = tree.lock::<Shared>(block).expect("a page");
    let result = look(&tree.page(&locked).expect("a page of the index"));
    locked.release();
    result
}

/// Shows `look` the leaves, by the right links.
pub fn for_each_leaf<S: Store, K: KeySpace>(tree: Tree<'_, S, K>, mut look: impl FnMut(Block, &Page<'_, K>)) {
    let first = tree.leaf(Seek::At(K::borrow(K::first(), tree.order()))).expect("there is a first leaf");
    let mut block = first.block();
    first.release();
    while block != NO_BLOCK {
        block = look_at(tree, block, |page| {
            look(block, page);
            page.right()
        });
    }
}

/// Shows `look` all leaf entries, by the right links.
pub fn for_each_entry<S: Store, K: KeySpace>(tree: Tree<'_, S, K>, mut look: impl FnMut(&Entry<'_, K>)) {
    for_each_leaf(tree, |_, page| page.iter().for_each(|entry| look(&entry)));
}

/// Reads on to the next page with matches. Nothing stays pinned. `None` at the end, else which page it is.
pub fn read_on<S: Store, K: Scannable>(
    tree: Tree<'_, S, K>,
    cursor: &mut Cursor<K>,
    wanted: &impl Wanted<K>,
    skip_dead: bool,
    matches: &mut Matches<K>,
) -> Result<Option<Block>> {
    let Some(pin) = cursor.read_page(tree, wanted, skip_dead, matches)? else {
        return Ok(None);
    };
    let block = pin.block(tree.store());
    pin.unpin(tree.store());
    Ok(Some(block))
}

/// Marks what was read of a page dead, where its flags are, if it is as it was then.
pub fn kill_in<S: Store>(store: &S, block: Block, lsn: u64, places: &[u16]) {
    let pin = store.pin(block).expect("a page");
    kill(store, pin, lsn, places).unpin(store);
}

/// Marks entries dead, where their flags are, whatever page it is.
pub fn mark_in<S: Store>(store: &S, block: Block, places: &[u16]) {
    let locked = store.pin(block).expect("a page").lock::<Shared>(store);
    locked.set_hint(places, Tid::DEAD);
    locked.release();
}

/// That the leaves foreseen are those a scan finds something on, and others only that may hold what it wants.
pub fn check_leaves<S: Store, K: Scannable>(tree: Tree<'_, S, K>, wanted: &impl Wanted<K>, direction: Direction) {
    let (mut cursor, mut matches) = (Cursor::new(direction), Box::new(Matches::new()));
    let mut leaves = JumpPointers::new();
    leaves.begin(direction, cursor.bound());
    let mut foreseen = Vec::new();
    while let Some(block) = leaves.next(tree, wanted).expect("the pages can be read") {
        assert!(!foreseen.contains(&block), "leaf {block} twice");
        foreseen.push(block);
        let (mut edge, mut range) = (K::fresh(), Range::fresh());
        let meets = look_at(tree, block, |page| match direction {
            Direction::Forward => {
                K::set_to_fence(&mut edge, page.low());
                wanted.at_or_after(&edge, &mut range) && !page.is_beyond(K::borrow(&range.first, tree.order()))
            }
            Direction::Backward => {
                K::set_to_fence(&mut edge, page.high());
                wanted.before(&edge, &mut range)
                    && K::compare_fence(K::borrow(&range.after, tree.order()), page, Side::Low).is_gt()
            }
        });
        // Between ranges a scan may have to look for the next key there is.
        assert!(meets || !wanted.is_one_range(), "leaf {block} has nothing that is wanted");
    }
    let mut rest = foreseen.iter();
    while let Some(block) = read_on(tree, &mut cursor, wanted, false, &mut matches).expect("the page can be read") {
        if tree.root_level().expect("a root") > 0 {
            assert!(rest.any(|&leaf| leaf == block), "leaf {block} was not foreseen, or too late: {foreseen:?}");
        }
    }
}
