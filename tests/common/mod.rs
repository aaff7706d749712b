//! A tree in memory beside a sorted set that holds what the tree should.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod bytes;

use fpbtree_engine::format::{
    Block, Geometry, Key, Lane, LaneKind, MAX_PAGE_NODES, NO_BLOCK, PAGE_SIZE, PageBytes, Tid,
};
use fpbtree_engine::keys::{Column, ColumnType, KeyShape};
use fpbtree_engine::page::{Entry, LogKind, Meta, Shape, Side};
use fpbtree_engine::scan::{Cursor, Direction, JumpPointers, Matches, Range, Scannable, Selection, Wanted};
use fpbtree_engine::store::memory::MemoryStore;
use fpbtree_engine::store::{PageStore, Shared, Store};
use fpbtree_engine::tree::check::BlockSet;
use fpbtree_engine::tree::load::Loader;
use fpbtree_engine::tree::{DeadTids, Seek, Tree, VacuumStats};
use rand::Rng;
use rand::rngs::StdRng;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::mem::MaybeUninit;

pub const BUILD_ID: u64 = 0x0123_4567_89AB_CDEF;

/// Widths that make pages hold about a dozen entries, so that trees get many levels: the in-page root takes most of it.
pub fn small<L: Lane>() -> Geometry {
    let all = MAX_PAGE_NODES as u8;
    let widths = match L::KIND {
        LaneKind::U32 => [all - 2, 1, all - 3, 1],
        LaneKind::U64 => [all - 3, 1, all - 4, 2],
        LaneKind::U128 => [all - 4, 2, all - 4, 2],
        LaneKind::Prefix | LaneKind::PrefixPayload => unreachable!("exact lanes only"),
    };
    Geometry::with_widths(L::KIND, BUILD_ID, widths).expect("these widths fit")
}

/// The widths an index gets.
pub fn normal<L: Lane>() -> Geometry {
    Geometry::choose(L::KIND, BUILD_ID)
}

/// An ascending column, NULLs last, whose lane is `L`.
pub fn one_column<L: Lane>() -> KeyShape {
    let ty = match L::KIND {
        LaneKind::U32 => ColumnType::Oid,
        LaneKind::U64 => ColumnType::Xid8,
        LaneKind::U128 => ColumnType::Uuid,
        LaneKind::Prefix | LaneKind::PrefixPayload => unreachable!("exact lanes only"),
    };
    KeyShape::new(&[Column { ty, descending: false, nulls_first: false }]).expect("one column fits")
}

/// What an index on exact lanes is.
pub fn exact(shape: KeyShape, geometry: Geometry) -> Meta {
    Meta { shape: Shape::Exact(shape), geometry, log: LogKind::Generic }
}

/// How the columns of an index on exact lanes make keys.
pub fn shape_of(meta: &Meta) -> KeyShape {
    match meta.shape {
        Shape::Exact(shape) => shape,
        Shape::Bytes(_) => panic!("an index on exact lanes"),
    }
}

/// The rank of NULLs, where entries have ranks.
pub fn ranks(shape: &KeyShape) -> Option<bool> {
    (shape.columns().len() == 1).then(|| shape.null_rank())
}

/// A value's key.
pub fn key<L: Lane>(lane: u128, row: u64) -> (L, Tid) {
    (L::from_u128(lane), Tid::new(false, (row / 100) as u32, (row % 100) as u16 + 1, false))
}

/// A NULL's key, where NULLs come last.
pub fn null_key<L: Lane>(row: u64) -> (L, Tid) {
    (L::MAX, Tid::new(true, (row / 100) as u32, (row % 100) as u16 + 1, false))
}

/// The pages of a tree of these entries, loaded in bulk.
pub fn load<L: Lane>(meta: &Meta, fill: usize, entries: impl Iterator<Item = (L, Tid)>) -> Vec<PageBytes> {
    let mut pages = vec![meta.page()];
    let mut write = |block: u32, page: &PageBytes| {
        pages.resize(pages.len().max(block as usize + 1), [0; PAGE_SIZE]);
        assert!(pages[block as usize].iter().all(|&byte| byte == 0), "block {block} is written twice");
        pages[block as usize] = *page;
    };
    let mut memory = Box::new(MaybeUninit::<Loader<L>>::uninit());
    Loader::init(&mut memory, fill);
    // SAFETY: just initialised.
    let loader = unsafe { memory.assume_init_mut() };
    for (lane, tid) in entries {
        loader.add(&meta.geometry, (), &Entry { key: lane, tid, child: NO_BLOCK }, &mut write);
    }
    loader.finish(&meta.geometry, (), &mut write);
    pages
}

/// A tree, and the keys it should hold.
pub struct Bed<L> {
    pub store: MemoryStore,
    pub meta: Meta,
    pub model: BTreeSet<Key<L>>,
}

impl<L: Lane> Bed<L> {
    pub fn new(geometry: Geometry, capacity: usize) -> Self {
        let meta = exact(one_column::<L>(), geometry);
        Self::with(meta, |pages| MemoryStore::new(pages, capacity))
    }

    pub fn with(meta: Meta, store: impl FnOnce(&[PageBytes]) -> MemoryStore) -> Self {
        let pages = load::<L>(&meta, 90, std::iter::empty());
        Bed { store: store(&pages), meta, model: BTreeSet::new() }
    }

    pub fn tree(&self) -> Tree<'_, MemoryStore, L> {
        Tree::new(&self.store, &self.meta.geometry)
    }

    /// Inserts a key that is not there yet.
    pub fn insert(&mut self, (lane, tid): (L, Tid)) {
        if self.model.insert(Key::new(lane, tid)) {
            self.tree().insert(lane, tid, 90).expect("the insertion succeeds");
        }
    }

    /// Removes the rows that `is_dead` names.
    pub fn vacuum(&mut self, mut is_dead: impl FnMut(Tid) -> bool) -> VacuumStats {
        let before = self.model.len();
        self.model.retain(|key| !is_dead(key.tid));
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

    /// Everything is as it should be.
    pub fn check(&self) {
        assert!(self.store.is_quiet(), "a lock or a pin is left over");
        assert_eq!(problems(self.tree(), &shape_of(&self.meta)), Vec::<String>::new());
        let entries = entries(self.tree());
        assert!(entries.iter().map(Entry::key).eq(self.model.iter().copied()), "the tree holds something else");
        let census = self.tree().census().expect("the tree can be counted");
        assert_eq!(census.entries, self.model.len() as u64);
        assert_eq!(census.free_pages, self.store.free_pages(), "a page is lost");
    }
}

/// Memory for a VACUUM to ask about the rows of many leaves at a time, or of few, or of none. Every thread counts for
/// itself, so that what fails fails again whatever other tests run beside it.
pub fn memory_to_ask() -> Vec<u64> {
    thread_local!(static CALLS: Cell<usize> = const { Cell::new(0) });
    vec![0; [40_000, 0, 3000, 100][CALLS.replace(CALLS.get() + 1) % 4]]
}

/// What verification has to say.
pub fn problems<S: Store, L: Lane>(tree: Tree<'_, S, L>, shape: &KeyShape) -> Vec<String> {
    let mut words = vec![0; BlockSet::words(tree.store().block_count())];
    let mut found = Vec::new();
    tree.verify(ranks(shape), &mut BlockSet::new(&mut words), &mut |block, what, detail| {
        found.push(format!("block {block}: {what} ({detail})"));
    })
    .unwrap_or_else(|error| found.push(format!("{error:?}")));
    found
}

/// All leaf entries, by the right links.
pub fn entries<S: Store, L: Lane>(tree: Tree<'_, S, L>) -> Vec<Entry<'static, L>> {
    let mut all = Vec::new();
    let mut pin = tree.leaf(Seek::At(Key::MIN)).expect("there is a first leaf");
    loop {
        let page = tree.page(&pin).expect("a leaf");
        all.extend(page.iter().map(|entry| Entry { key: entry.key, tid: entry.tid, child: entry.child }));
        let right = page.right();
        pin.release();
        if right == 0 {
            return all;
        }
        pin = tree.lock(right).expect("a right sibling");
    }
}

/// What a scan finds, in its order.
pub fn scan<S: Store, L: Lane>(
    tree: Tree<'_, S, L>,
    selection: &Selection<'_>,
    direction: Direction,
    skip_dead: bool,
) -> Vec<Key<L>> {
    let mut cursor = Cursor::new(direction);
    let mut matches = Box::new(Matches::new());
    let mut found = Vec::new();
    while let Some(pin) = cursor.read_page(tree, selection, skip_dead, &mut matches).expect("the page can be read") {
        pin.unpin(tree.store());
        assert!(!matches.is_empty());
        found.extend(keys(&matches));
    }
    found
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
        let pin = tree.lock::<Shared>(block).expect("a leaf");
        let page = tree.page(&pin).expect("a leaf");
        let (mut edge, mut range) = (K::fresh(), Range::fresh());
        let meets = match direction {
            Direction::Forward => {
                K::set_to_fence(&mut edge, page.low());
                wanted.at_or_after(&edge, &mut range) && !page.is_beyond(K::borrow(&range.first, tree.order()))
            }
            Direction::Backward => {
                K::set_to_fence(&mut edge, page.high());
                wanted.before(&edge, &mut range)
                    && K::compare_fence(K::borrow(&range.after, tree.order()), &page, Side::Low).is_gt()
            }
        };
        // Between ranges a scan may have to look for the next key there is.
        assert!(meets || !wanted.is_one_range(), "leaf {block} has nothing that is wanted");
        pin.release();
    }
    let mut rest = foreseen.iter();
    while let Some(pin) = cursor.read_page(tree, wanted, false, &mut matches).expect("the page can be read") {
        let block = pin.block(tree.store());
        pin.unpin(tree.store());
        if tree.root_level().expect("a root") > 0 {
            assert!(rest.any(|&leaf| leaf == block), "leaf {block} was not foreseen, or too late: {foreseen:?}");
        }
    }
}

/// The keys of a page of matches.
pub fn keys<L: Lane>(matches: &Matches<L>) -> impl Iterator<Item = Key<L>> {
    (0..matches.len()).map(|at| Key::new(matches.lane(at), matches.tid(at)))
}

/// One of the keys a test plays with: `spread` lanes, the extreme ones among them, and some NULLs.
pub fn some_key<L: Lane>(random: &mut StdRng, spread: u128) -> (L, Tid) {
    let row = random.random_range(0..1 << 20);
    match random.random_range(0..40) {
        0 => null_key(row),
        1 => key(L::MAX.to_u128(), row),
        _ => key(random.random_range(0..spread) * (L::MAX.to_u128() / spread), row),
    }
}
