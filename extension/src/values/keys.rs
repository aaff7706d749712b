//! Rows and keys: what the engine's key spaces take of a row, and give back of an entry.

use core::cmp::Ordering;
use core::ops::Deref;

use fpbtree_engine::format::{Lane, NO_BLOCK, Position, Tid};
use fpbtree_engine::keys::KeyShape;
use fpbtree_engine::keys::bytes::{
    BytesOrder, BytesShape, CompareValues, KeyBuffer, MOST_KEY, MOST_PARTS, Opened, OwnedKey, Stored,
};
use fpbtree_engine::keys::digits::{Buffer, DigitShape};
use fpbtree_engine::page::{Bytes, Entry, Shape};
use fpbtree_engine::scan::Scannable;
use fpbtree_engine::tree::load::Loadable;
use pgrx::PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED;
use pgrx::pg_sys::{self, Datum, FmgrInfo, ItemPointerData, Relation};

use crate::pg::errors::{Name, Text};
use crate::pg::tid::heap_place;
use crate::pg::{errors, ffi, memory};
use crate::values::codec::{Codec, DatumBuffer, Payload};
use crate::values::column;
use crate::values::compare_cache::{CompareCache, PlaceCache};
use crate::values::compare_counts::CompareCounts;
use crate::values::tuple::Tuple;
use crate::values::varlena::{MOST_SHORT, short_header};

/// A key space whose entries are made of rows.
pub trait Keyed: Loadable + Scannable {
    /// What is known of the index's columns. Plain memory; it stays where it is while an order borrows from it.
    type Columns: Clone;
    /// What makes an entry.
    type RowEntry;

    /// What is known of the columns of an index of this key space.
    fn columns(columns: &IndexColumns) -> Self::Columns;

    /// What is known of the columns of an index whose meta page is not there yet, as long as the current memory context is
    /// there.
    ///
    /// # Safety
    /// `rel` is the open index. May raise.
    unsafe fn new_columns(rel: Relation) -> Self::Columns {
        // SAFETY: `rel` is open.
        unsafe { Self::columns(&IndexColumns::of(rel, None)) }
    }

    /// How keys are compared beyond what their bytes say.
    fn order(columns: &Self::Columns) -> Self::Order<'_>;

    /// Room for a row's entry-to-be.
    fn new_row() -> Self::RowEntry;

    /// Makes a row's entry-to-be, in place: it may be large. Refuses one whose key is longer than keys may be.
    ///
    /// # Safety
    /// `rel` is the open index, `values` and `nulls` have an element for each of its columns, `tid` is the row's. May
    /// raise: the caller's frames own no destructors.
    #[inline]
    unsafe fn put_row(
        columns: &Self::Columns,
        rel: Relation,
        values: *const Datum,
        nulls: *const bool,
        tid: *const ItemPointerData,
        row: &mut Self::RowEntry,
    ) {
        // SAFETY: the caller's.
        unsafe {
            let size = Self::measure_row(columns, rel, values, nulls, tid, row);
            if size > MOST_KEY {
                refuse_size(rel, size, tid);
            }
        }
    }

    /// As [`put_row`](Keyed::put_row), but returns how many bytes the key has, with what goes beside it. If these are more
    /// than [`MOST_KEY`], the row has no entry.
    ///
    /// # Safety
    /// As for [`put_row`](Keyed::put_row).
    unsafe fn measure_row(
        columns: &Self::Columns,
        rel: Relation,
        values: *const Datum,
        nulls: *const bool,
        tid: *const ItemPointerData,
        row: &mut Self::RowEntry,
    ) -> usize;

    /// The entry of a row.
    fn entry(row: &Self::RowEntry) -> Entry<'_, Self>;

    /// The places before and behind all entries with the key of a row, whatever their TIDs.
    fn around(columns: &Self::Columns, row: &Self::RowEntry, low: &mut Self::OwnedKey, high: &mut Self::OwnedKey);

    /// The place behind all entries with the key of an entry. `None` if the entry is damaged.
    fn beyond(columns: &Self::Columns, entry: &Entry<'_, Self>, place: &mut Self::OwnedKey) -> Option<()>;

    /// The index tuple of an entry: a value for each column of the index. None if the entry is damaged.
    ///
    /// # Safety
    /// The caller's frames own no destructors: may raise when out of memory.
    unsafe fn index_tuple(
        columns: &Self::Columns,
        entry: &Entry<'_, Self>,
        tuple: &mut Tuple,
    ) -> Option<*mut pg_sys::IndexTupleData>;

    /// Puts what the bytes of a separator, an inner page's entry or a fence, tell of the first columns into a tuple; of how
    /// many that is.
    ///
    /// # Safety
    /// The caller's frames own no destructors: may raise when out of memory.
    unsafe fn put_separator(columns: &Self::Columns, separator: &Entry<'_, Self>, tuple: &mut Tuple) -> usize;

    /// Shows `each` what is stored of an entry's key, piece by piece, and with it what the entry carries.
    fn for_each_piece(entry: &Entry<'_, Self>, each: &mut dyn FnMut(&[u8]));

    /// Whether two entries that compare as equal are the same but for hints, byte by byte. Opaque expressions need not
    /// be: a whole row that has gained a column comes in other bytes than those kept.
    fn is_same(columns: &Self::Columns, a: &Entry<'_, Self>, b: &Entry<'_, Self>) -> bool;

    /// The rank that NULLs have in an index of one column on exact lanes.
    fn ranks(columns: &Self::Columns) -> Option<bool>;
}

/// Runs the expression with `$keys` naming the key space of that kind of lane.
macro_rules! with_keys {
    ($kind:expr, $keys:ident => $run:expr) => {
        match $kind {
            fpbtree_engine::format::LaneKind::U32 => {
                type $keys = u32;
                $run
            }
            fpbtree_engine::format::LaneKind::U64 => {
                type $keys = u64;
                $run
            }
            fpbtree_engine::format::LaneKind::U128 => {
                type $keys = u128;
                $run
            }
            fpbtree_engine::format::LaneKind::Prefix | fpbtree_engine::format::LaneKind::PrefixPayload => {
                type $keys = fpbtree_engine::page::Bytes;
                $run
            }
        }
    };
}
pub(crate) use with_keys;

/// How the columns of an index make keys, as the catalogs say: exact lanes if all of them fit, else byte strings.
#[expect(clippy::large_enum_variant, reason = "kept once for each index")]
pub enum IndexColumns {
    /// Lanes.
    Exact(KeyShape),
    /// Byte strings.
    Bytes(BytesColumns),
}

impl IndexColumns {
    /// The columns of an index, whose keys are made as `stored` says if it is there. Then they are to be used as long as it is
    /// open, else as long as the current memory context is there.
    ///
    /// # Safety
    /// `rel` is an open index of ours. May raise: the caller's frames own no destructors.
    pub unsafe fn of(rel: Relation, stored: Option<&Shape>) -> IndexColumns {
        // SAFETY: `rel` is open.
        unsafe {
            match column::exact_shape(rel) {
                Some(shape) => IndexColumns::Exact(shape),
                None => IndexColumns::Bytes(BytesColumns::new(rel, stored.map(Shape::digits))),
            }
        }
    }

    /// How they make keys, as the meta page has it.
    pub fn shape(&self) -> Shape {
        match self {
            IndexColumns::Exact(shape) => Shape::Exact(*shape),
            IndexColumns::Bytes(columns) => Shape::Bytes(*columns.shape()),
        }
    }
}

/// A row's TID. A heap offset that no heap page of this block size has is refused.
unsafe fn tid_of(rel: Relation, rank: bool, negative: bool, tid: *const ItemPointerData) -> Tid {
    // SAFETY: `tid` points to a TID.
    let (block, offset) = unsafe { heap_place(tid) };
    if offset > Tid::MAX_OFFSET {
        errors::raise(
            ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format_args!("row {offset} of block {block} cannot be in index \"{}\"", Name(rel)),
            Some(format_args!("fpbtree takes {} rows a block at most.", Tid::MAX_OFFSET)),
            None,
        );
    }
    Tid::new(rank, block, offset, negative)
}

/// The trait says the same of all exact lanes.
macro_rules! keyed {
    ($($lane:ident)*) => {$(
        impl Keyed for $lane {
            type Columns = KeyShape;
            type RowEntry = ($lane, Tid);

            #[inline(always)]
            fn columns(columns: &IndexColumns) -> KeyShape {
                match columns {
                    IndexColumns::Exact(shape) => *shape,
                    IndexColumns::Bytes(_) => unreachable!("lanes of this kind are exact"),
                }
            }

            fn order(_columns: &KeyShape) -> Self::Order<'_> {}

            #[inline(always)]
            fn new_row() -> ($lane, Tid) {
                (0, Tid::MIN)
            }

            #[inline]
            unsafe fn measure_row(
                shape: &KeyShape,
                rel: Relation,
                values: *const Datum,
                nulls: *const bool,
                tid: *const ItemPointerData,
                row: &mut ($lane, Tid),
            ) -> usize {
                let columns = shape.columns();
                // SAFETY: the server gives a value and a null flag for each column; a value that is not NULL is of the
                // column's type.
                let image = |c: usize| unsafe { (!*nulls.add(c)).then(|| column::image(columns[c].ty, *values.add(c))) };
                let packed = if columns.len() == 1 {
                    shape.pack(&[image(0)])
                } else {
                    let mut images = [None; KeyShape::MAX_COLUMNS];
                    (0..columns.len()).for_each(|c| images[c] = image(c));
                    shape.pack(&images[..columns.len()])
                };
                // SAFETY: `rel` is open, and `tid` points to a TID.
                *row = ($lane::from_u128(packed.lane), unsafe { tid_of(rel, packed.rank, packed.negative, tid) });
                size_of::<$lane>()
            }

            fn entry(row: &($lane, Tid)) -> Entry<'_, $lane> {
                Entry { key: row.0, tid: row.1, child: NO_BLOCK }
            }

            fn around(_shape: &KeyShape, row: &($lane, Tid), low: &mut Self::OwnedKey, high: &mut Self::OwnedKey) {
                let (lane, rank) = (row.0, row.1.rank());
                (low.lane, low.tid) = (lane, Tid::first(rank));
                (high.lane, high.tid) = (lane, Tid::last(rank));
            }

            fn beyond(_shape: &KeyShape, entry: &Entry<'_, $lane>, place: &mut Self::OwnedKey) -> Option<()> {
                (place.lane, place.tid) = (entry.key, Tid::last(entry.tid.rank()));
                Some(())
            }

            unsafe fn index_tuple(
                shape: &KeyShape,
                entry: &Entry<'_, $lane>,
                tuple: &mut Tuple,
            ) -> Option<*mut pg_sys::IndexTupleData> {
                tuple.clear();
                for (c, column) in shape.columns().iter().enumerate() {
                    match shape.unpack(entry.key.to_u128(), entry.tid, c) {
                        None => tuple.put_null(),
                        // SAFETY: the image is of the column's type.
                        Some(image) => unsafe { tuple.put_exact(column.ty, image)? },
                    }
                }
                Some(tuple.form(entry.tid))
            }

            unsafe fn put_separator(shape: &KeyShape, separator: &Entry<'_, $lane>, tuple: &mut Tuple) -> usize {
                let (lane, tid) = (separator.key.to_u128(), separator.tid);
                // A fence has the least TID, whose rank says nothing but beside the lane of NULL.
                let is_ranked = shape.columns().len() == 1 && lane != shape.pack(&[None]).lane;
                let tid = if is_ranked { Tid::first(!shape.null_rank()) } else { tid };
                // SAFETY: no frame here owns a destructor.
                match unsafe { Self::index_tuple(shape, &Entry { tid, ..*separator }, tuple) } {
                    Some(_) => shape.columns().len(),
                    None => 0,
                }
            }

            fn for_each_piece(entry: &Entry<'_, $lane>, each: &mut dyn FnMut(&[u8])) {
                each(&entry.key.to_be_bytes());
            }

            fn is_same(_shape: &KeyShape, a: &Entry<'_, $lane>, b: &Entry<'_, $lane>) -> bool {
                a.key == b.key && a.tid.alive() == b.tid.alive()
            }

            fn ranks(shape: &KeyShape) -> Option<bool> {
                (shape.columns().len() == 1).then(|| shape.null_rank())
            }
        }
    )*};
}

keyed!(u32 u64 u128);

/// An index's only column, beside which entries carry nothing, so that its value is had in a few copies.
#[derive(Clone, Copy)]
enum Only {
    /// A text in byte order: its bytes are the normal part behind a marker.
    Text,
    /// An opaque value: its bytes are the value part behind a marker.
    Value,
}

/// The columns of an index whose keys are byte strings, and what was asked of their functions last.
#[derive(Clone)]
pub struct BytesColumns {
    known: *const KnownColumns,
    /// What the functions said last. Not of an index being built: sorting asks for a pair but once.
    cache: Option<CompareCache>,
    places: PlaceCache,
}

/// What is known of such columns. It is large, and so in a place of its own that those who use it share.
pub struct KnownColumns {
    shape: BytesShape,
    codecs: [Codec; KeyShape::MAX_COLUMNS],
    keys: usize,
    payloads: [Option<Payload>; KeyShape::MAX_COLUMNS],
    all: usize,
    /// The comparison functions of opaque columns, which the relation cache keeps.
    functions: [*mut FmgrInfo; KeyShape::MAX_COLUMNS],
    /// Whether an opaque column is an expression.
    computes: bool,
    /// How an only column's value is stored, if there is no other and nothing beside it.
    only: Option<Only>,
    /// How many columns, from the first one on, are [words](Codec::is_word).
    words: usize,
    /// Whether behind these there is but a text, as it is told by its digit.
    ends_in_text: bool,
    /// What is asked of the functions, if there are any.
    counts: Option<&'static CompareCounts>,
}

impl Deref for BytesColumns {
    type Target = KnownColumns;

    #[inline(always)]
    fn deref(&self) -> &KnownColumns {
        // SAFETY: it was put there, is not changed, and is there as long as whoever made these columns has promised.
        unsafe { &*self.known }
    }
}

impl KnownColumns {
    /// What the catalogs say of the columns, and of what an index that is there has stored of them.
    ///
    /// # Safety
    /// `rel` is an open index of ours. May raise.
    unsafe fn of(rel: Relation, stored: &[DigitShape]) -> KnownColumns {
        // SAFETY: `rel` is open; every operator class has an order function.
        unsafe {
            let keys = (*(*rel).rd_index).indnkeyatts as usize;
            let all = (*(*rel).rd_index).indnatts as usize;
            let mut codecs = [Codec::of(rel, 0, stored.first()); KeyShape::MAX_COLUMNS];
            let mut functions = [core::ptr::null_mut(); KeyShape::MAX_COLUMNS];
            let (mut is_opaque, mut computes) = (false, false);
            for (c, codec) in codecs.iter_mut().enumerate().take(keys) {
                let found = Codec::of(rel, c, stored.get(c));
                *codec = if is_opaque { found.without_prefix() } else { found };
                if found.shape.is_opaque() {
                    is_opaque = true;
                    computes |= column::is_expression(rel, c);
                    functions[c] = ffi::index_getprocinfo(rel, c as i16 + 1, column::ORDER_FUNCTION as u16);
                }
            }
            let mut payloads = [None; KeyShape::MAX_COLUMNS];
            for (c, payload) in payloads.iter_mut().enumerate().take(all).skip(keys) {
                *payload = Some(Payload::of(rel, c));
            }
            let carries = all > keys || codecs[..keys].iter().any(Codec::has_residue);
            let digits = codecs.map(|codec| codec.shape);
            let shape = BytesShape::new(&digits[..keys], carries).expect("an index has columns, and not too many");
            // An index of btree's is only asked what it would be as one of ours.
            let is_ours = (*(*rel).rd_rel).relam != pg_sys::BTREE_AM_OID;
            let counts = (is_opaque && is_ours).then(|| CompareCounts::of_session((*rel).rd_id));
            let only = match codecs[0].is_stored_whole() {
                _ if all > 1 || carries => None,
                true if is_opaque => Some(Only::Value),
                true => Some(Only::Text),
                false => None,
            };
            let words = codecs[..keys].iter().take_while(|codec| codec.is_word()).count();
            let ends_in_text =
                matches!(&codecs[words..keys], [last] if !last.shape.is_opaque() && last.is_stored_whole());
            KnownColumns { shape, codecs, keys, payloads, all, functions, computes, only, words, ends_in_text, counts }
        }
    }
}

impl BytesColumns {
    /// Those of an index that is there, of which `stored` is known, as long as it is open; or of one to be made, as long as
    /// the current memory context is there.
    ///
    /// # Safety
    /// `rel` is an open index of ours. May raise.
    unsafe fn new(rel: Relation, stored: Option<&[DigitShape]>) -> BytesColumns {
        // SAFETY: `rel` is open. The relation cache keeps that context as long as the index is open, whatever else it
        // drops (`RelationReloadIndexInfo`).
        unsafe {
            let found = KnownColumns::of(rel, stored.unwrap_or(&[]));
            let memory = if stored.is_some() { (*rel).rd_indexcxt } else { pg_sys::CurrentMemoryContext };
            let known: *mut KnownColumns = memory::allocate(memory, 1, false);
            known.write(found);
            BytesColumns { known, cache: stored.map(|_| CompareCache::new()), places: PlaceCache::new() }
        }
    }

    /// How keys are made of the columns.
    pub fn shape(&self) -> &BytesShape {
        &self.shape
    }

    /// How many columns the index has, those beside the key among them.
    pub fn count(&self) -> usize {
        self.all
    }

    /// Puts the first columns of an entry into a tuple. None if the entry is damaged.
    ///
    /// # Safety
    /// The caller's frames own no destructors: may raise when out of memory.
    #[inline(always)]
    pub unsafe fn put_first(&self, count: usize, entry: &Entry<'_, Bytes>, tuple: &mut Tuple) -> Option<()> {
        let mut room = KeyBuffer::new();
        let Opened { mut normal, mut value, mut carried } = self.shape.open(&entry.key, &mut room)?;
        tuple.clear();
        // SAFETY: no frame here owns a destructor.
        unsafe {
            for (c, codec) in self.codecs[..self.keys.min(count)].iter().enumerate() {
                let key = if c < self.shape.opaque_from() { &mut normal } else { &mut value };
                codec.get(key, &mut carried, tuple)?;
            }
            for payload in self.payloads[self.keys..count.max(self.keys)].iter().flatten() {
                payload.get(&mut carried, tuple)?;
            }
        }
        Some(())
    }

    /// The values of the first columns of an entry, as many as there is room for, where most are of a common kind and none is
    /// NULL; what is passed by reference is in `key`, or in the entry. None if they are not: [`put_first`](Self::put_first)
    /// has all.
    #[inline(always)]
    pub fn in_place(&self, entry: &Entry<'_, Bytes>, key: &mut KeyBuffer, values: &mut [Datum]) -> Option<()> {
        if let (Some(Only::Value), [value]) = (self.only, &mut *values) {
            *value = self.codecs[0].whole_datum(entry.key.payload)?;
            return Some(());
        }
        let (words, behind) = values.split_at_mut(self.words.min(values.len()));
        let mut at = 0;
        for (codec, value) in self.codecs.iter().zip(words) {
            *value = codec.word(&entry.key, &mut at)?;
        }
        match behind {
            [] => {}
            [value] if self.ends_in_text => *value = text_in_place(key.unpadded(&entry.key)?.get_mut(at..)?)?,
            _ if self.shape.opaque_from().min(self.keys) < self.words + behind.len() => return None,
            _ => {
                let mut carried = entry.key.payload.get(self.shape.value_length(entry.key.payload)?..)?;
                let key = self.shape.normal(&entry.key, key)?;
                for (codec, value) in self.codecs[self.words..].iter().zip(behind) {
                    *value = codec.in_place(key, &mut at, &mut carried)?;
                }
            }
        }
        Some(())
    }

    /// Becomes the place before or behind all keys with an entry's values in the first columns. None if the entry is damaged.
    pub fn set_to_front(
        &self,
        entry: &Entry<'_, Bytes>,
        count: usize,
        above: bool,
        place: &mut OwnedKey,
    ) -> Option<()> {
        let mut room = KeyBuffer::new();
        let digits = self.shape.join(&entry.key, &mut room)?;
        place.set_to_place(&self.shape, &digits[..self.shape.front_length(digits, count)?], above);
        Some(())
    }

    /// How a key column's values become digits.
    pub fn codec(&self, column: usize) -> &Codec {
        &self.codecs[column]
    }
}

/// The value of a text that is all of a key behind a marker.
#[inline(always)]
fn text_in_place(key: &mut [u8]) -> Option<Datum> {
    let length = key.len().checked_sub(1).filter(|length| *length <= MOST_SHORT)?;
    let marker = core::mem::replace(key.first_mut()?, short_header(length));
    (marker == DigitShape::VALUE).then(|| Datum::from(key.as_ptr()))
}

impl CompareValues for BytesColumns {
    fn compare(&self, column: usize, a: &[u8], b: &[u8]) -> Ordering {
        if a == b {
            return Ordering::Equal;
        }
        let at_sight = self.codecs[column].order_at_sight(a, b);
        let known = at_sight.or_else(|| self.cache.as_ref().and_then(|cache| cache.find(column, a, b)));
        known.unwrap_or_else(|| {
            let order = self.ask(column, a, b);
            if let Some(cache) = &self.cache {
                cache.note(column, a, b, order);
            }
            order
        })
    }

    #[inline]
    fn is_costly(&self, column: usize) -> bool {
        !self.codecs[column].is_ordered_at_sight()
    }

    fn hint(&self, column: usize, value: &[u8], out: &mut [u8]) -> usize {
        self.codecs[column].hint(value, out)
    }

    #[inline]
    fn has_brief_hints(&self, column: usize) -> bool {
        self.codecs[column].has_hints()
    }

    #[inline]
    fn brief_hint(&self, column: usize, value: &[u8], skip: usize) -> u64 {
        self.codecs[column].brief_hint(value, skip)
    }

    fn guess(&self, column: usize, a: (&[u8], u64), b: &[u8], skip: usize) -> Ordering {
        self.codecs[column].guess(a, b, skip)
    }

    #[inline]
    fn long_hint(&self, column: usize, value: &[u8]) -> u128 {
        self.codecs[column].long_hint(value)
    }

    fn common(&self, column: usize, a: &[u8], b: &[u8]) -> usize {
        self.codecs[column].common(a, b)
    }

    #[inline]
    fn remembered(&self, value: &[u8], page: usize) -> Option<Position> {
        self.places.find(value, page)
    }

    #[inline]
    fn note_place(&self, value: &[u8], page: usize, place: Position) {
        self.places.note(value, page, place);
    }

    #[inline]
    fn note_guess(&self, is_proved: bool) {
        if let Some(counts) = self.counts {
            counts.add_guess(is_proved);
        }
    }
}

impl BytesColumns {
    /// Calls the operator class's function. May raise.
    fn ask(&self, column: usize, a: &[u8], b: &[u8]) -> Ordering {
        let codec = &self.codecs[column];
        let (mut first, mut second) = (DatumBuffer::new(), DatumBuffer::new());
        let (Some(a), Some(b)) = (codec.datum(a, &mut first), codec.datum(b, &mut second)) else {
            return Ordering::Less;
        };
        if let Some(counts) = self.counts {
            counts.add_call();
        }
        // SAFETY: the operator class's function, and two values of its type.
        unsafe { codec.compare(self.functions[column], a, b) }
    }
}

/// A row's key and what goes with it.
pub struct BytesRowEntry {
    digits: Buffer<MOST_KEY>,
    normal: usize,
    payload: Buffer<MOST_PARTS>,
    tid: Tid,
}

impl BytesRowEntry {
    /// The key's digits.
    pub fn digits(&self) -> &[u8] {
        self.digits.as_slice()
    }
}

impl Keyed for Bytes {
    type Columns = BytesColumns;
    type RowEntry = BytesRowEntry;

    fn columns(columns: &IndexColumns) -> BytesColumns {
        match columns {
            IndexColumns::Bytes(columns) => columns.clone(),
            IndexColumns::Exact(_) => unreachable!("lanes of this kind are prefixes"),
        }
    }

    fn order(columns: &BytesColumns) -> Option<BytesOrder<'_>> {
        columns.shape.is_opaque().then_some(BytesOrder { shape: &columns.shape, columns })
    }

    #[inline(always)]
    fn new_row() -> BytesRowEntry {
        BytesRowEntry { digits: Buffer::new(), normal: 0, payload: Buffer::new(), tid: Tid::MIN }
    }

    #[inline]
    unsafe fn measure_row(
        columns: &BytesColumns,
        rel: Relation,
        values: *const Datum,
        nulls: *const bool,
        tid: *const ItemPointerData,
        row: &mut BytesRowEntry,
    ) -> usize {
        row.digits.clear();
        row.payload.clear();
        let mut carried = Buffer::<MOST_KEY>::new();
        // SAFETY: `rel` is open, and there is a value and a null flag for each column; `tid` points to a TID.
        unsafe {
            for (c, codec) in columns.codecs.iter().enumerate().take(columns.keys) {
                codec.put(*values.add(c), *nulls.add(c), &mut row.digits, &mut carried);
            }
            for (c, payload) in columns.payloads.iter().enumerate().take(columns.all) {
                if let Some(payload) = payload {
                    payload.put(*values.add(c), *nulls.add(c), &mut carried);
                }
            }
            let parts = columns.shape.parts(row.digits.as_slice());
            row.normal = parts.normal.len();
            row.payload.put(parts.marker);
            row.payload.put(parts.value);
            row.payload.put(carried.as_slice());
            row.tid = tid_of(rel, false, false, tid);
            row.digits.len() + carried.len()
        }
    }

    fn entry(row: &BytesRowEntry) -> Entry<'_, Bytes> {
        let normal = &row.digits.as_slice()[..row.normal];
        Entry { key: Stored::whole(normal, row.payload.as_slice()), tid: row.tid, child: NO_BLOCK }
    }

    fn around(columns: &BytesColumns, row: &BytesRowEntry, low: &mut Self::OwnedKey, high: &mut Self::OwnedKey) {
        low.set_to_place(&columns.shape, row.digits(), false);
        high.set_to_place(&columns.shape, row.digits(), true);
    }

    fn beyond(columns: &BytesColumns, entry: &Entry<'_, Bytes>, place: &mut Self::OwnedKey) -> Option<()> {
        columns.set_to_front(entry, columns.keys, true, place)
    }

    #[inline(always)]
    unsafe fn index_tuple(
        columns: &BytesColumns,
        entry: &Entry<'_, Bytes>,
        tuple: &mut Tuple,
    ) -> Option<*mut pg_sys::IndexTupleData> {
        if let Some(only) = columns.only {
            let Stored { prefix, head, suffix, payload } = entry.key;
            // SAFETY: no frame here owns a destructor.
            let formed = unsafe {
                match only {
                    Only::Text => tuple.form_text(DigitShape::VALUE, (prefix, head, suffix), entry.tid),
                    Only::Value => match columns.codecs[0].whole_value(payload) {
                        Some(value) => tuple.form_value(value, entry.tid),
                        None => None,
                    },
                }
            };
            if formed.is_some() {
                return formed;
            }
        }
        // SAFETY: the caller's.
        unsafe { columns.put_first(columns.all, entry, tuple)? };
        Some(tuple.form(entry.tid))
    }

    unsafe fn put_separator(columns: &BytesColumns, separator: &Entry<'_, Bytes>, tuple: &mut Tuple) -> usize {
        let (shape, mut room) = (&columns.shape, KeyBuffer::new());
        let (there, has_value) = (separator.key.normal_length(), !separator.key.payload.is_empty());
        tuple.clear();
        let Some(normal) = shape.normal(&separator.key, &mut room) else { return 0 };
        let (whole, mut key) = (normal.len(), &*normal);
        for (c, codec) in columns.codecs[..shape.opaque_from().min(columns.keys)].iter().enumerate() {
            let begin = whole - key.len();
            // Only a key that goes on behind its normal part has all columns there.
            if begin >= there && !has_value {
                return c;
            }
            // SAFETY: no frame here owns a destructor.
            if unsafe { codec.get_cut(&mut key, there - begin.min(there), tuple) }.is_none() {
                return c;
            }
        }
        let mut value = separator.key.payload;
        for (c, codec) in columns.codecs[..columns.keys].iter().enumerate().skip(shape.opaque_from()) {
            let there = value.len();
            // SAFETY: no frame here owns a destructor.
            if there == 0 || unsafe { codec.get_cut(&mut value, there, tuple) }.is_none() {
                return c;
            }
        }
        columns.keys
    }

    fn for_each_piece(entry: &Entry<'_, Bytes>, each: &mut dyn FnMut(&[u8])) {
        let mut normal = [0; MOST_PARTS];
        if let Some(length) = entry.key.copy_normal(&mut normal) {
            each(&normal[..length]);
        }
        each(entry.key.payload);
    }

    fn is_same(columns: &BytesColumns, a: &Entry<'_, Bytes>, b: &Entry<'_, Bytes>) -> bool {
        let values =
            |key: &Stored<'_>| if columns.computes { columns.shape.value_length(key.payload) } else { Some(0) };
        let carries_same = match (values(&a.key), values(&b.key)) {
            (Some(in_a), Some(in_b)) => a.key.payload.get(in_a..) == b.key.payload.get(in_b..),
            _ => false,
        };
        carries_same && a.key.common(&b.key) == usize::MAX && a.tid.alive() == b.tid.alive()
    }

    fn ranks(_columns: &BytesColumns) -> Option<bool> {
        None
    }
}

#[cold]
unsafe fn refuse_size(rel: Relation, size: usize, tid: *const ItemPointerData) -> ! {
    // SAFETY: an open index, and a valid TID.
    unsafe {
        let (block, offset) = heap_place(tid);
        let table = ffi::table_open((*(*rel).rd_index).indrelid, pg_sys::NoLock as i32);
        let detail =
            Text::new(format_args!("Index row references tuple ({block},{offset}) in relation \"{}\".", Name(table)));
        errors::raise_constraint(
            ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format_args!("index row size {size} exceeds fpbtree maximum {MOST_KEY} for index \"{}\"", Name(rel)),
            detail.as_c_str().as_ptr(),
            Some(
                c"Values larger than 1/5 of a buffer page cannot be indexed.\nConsider a function index of an MD5 hash of \
                  the value, or use full text indexing.",
            ),
            table,
            rel,
        )
    }
}
