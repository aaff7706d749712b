//! What a scan looks for: a set of slots for each column, whose product is a sorted list of key ranges. Equality,
//! ranges, lists of either, NULL tests and left-out columns are all one mechanism.

use super::ranges::{Direction, Range, Wanted};
use crate::format::{Key, Lane, Tid};
use crate::keys::KeyShape;

/// The slots (places in index order) one column may have.
#[derive(Clone, Copy, Debug)]
enum Slots<'a> {
    /// From one slot to another, both included.
    Interval(u128, u128),
    /// Any of these, ascending.
    Points(&'a [u128]),
    /// From one slot to another, both included, as far as they are in these intervals: ascending and disjoint.
    Parts(u128, u128, &'a [(u128, u128)]),
}

/// Which of a single column's entries may match: NULL lies outside its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nulls {
    Included,
    Only,
    Excluded,
}

/// The keys a scan wants: for each column an interval, a list of values or of intervals, NULL or not.
#[derive(Clone, Debug)]
pub struct Selection<'a> {
    shape: &'a KeyShape,
    slots: [Slots<'a>; KeyShape::MAX_COLUMNS],
    nulls: Nulls,
    nothing: bool,
    /// The lanes wanted are none but those from one to another, both included.
    bounds: Option<(u128, u128)>,
}

/// A range of keys, both ends included, in which every key is wanted.
#[derive(Clone, Copy, Debug)]
struct Span<L> {
    first: Key<L>,
    last: Key<L>,
}

impl<L: Lane> Wanted<L> for Selection<'_> {
    #[inline]
    fn at_or_after(&self, place: &Key<L>, out: &mut Range<L>) -> bool {
        let Some((first, after)) = self.bounding_keys() else {
            return self.range_from(Direction::Forward, *place, out);
        };
        self.range_from(Direction::Forward, first.max(*place), out) && {
            out.after = out.after.min(after);
            out.first < out.after
        }
    }

    fn before(&self, place: &Key<L>, out: &mut Range<L>) -> bool {
        let bounds = self.bounding_keys();
        let place = bounds.map_or(*place, |(_, after)| after.min(*place));
        let Some(last) = place.predecessor() else { return false };
        self.range_from(Direction::Backward, last, out) && {
            out.first = bounds.map_or(out.first, |(first, _)| first.max(out.first));
            out.first < out.after
        }
    }

    fn null_rank(&self) -> bool {
        self.shape.null_rank()
    }

    fn wants_keys(&self) -> bool {
        true
    }
}

impl<L: Lane> Span<L> {
    fn range(&self) -> Range<L> {
        Range { first: self.first, after: self.last.successor() }
    }

    /// What of it is left from `key` on.
    fn from(self, direction: Direction, key: Key<L>) -> Option<Span<L>> {
        match direction {
            Direction::Forward => (self.last >= key).then(|| Span { first: self.first.max(key), ..self }),
            Direction::Backward => (self.first <= key).then(|| Span { last: self.last.min(key), ..self }),
        }
    }
}

impl Slots<'_> {
    /// The first wanted slot from one on, upwards or downwards.
    fn nearest(&self, direction: Direction, slot: u128) -> Option<u128> {
        match (self, direction) {
            (Slots::Interval(low, high), Direction::Forward) => (slot <= *high).then_some(slot.max(*low)),
            (Slots::Interval(low, high), Direction::Backward) => (slot >= *low).then_some(slot.min(*high)),
            (Slots::Points(points), Direction::Forward) => {
                points.get(points.partition_point(|&point| point < slot)).copied()
            }
            (Slots::Points(points), Direction::Backward) => {
                points[..points.partition_point(|&point| point <= slot)].last().copied()
            }
            (Slots::Parts(low, high, parts), Direction::Forward) => {
                let slot = slot.max(*low);
                let part = parts.get(parts.partition_point(|part| part.1 < slot))?;
                Some(slot.max(part.0)).filter(|slot| slot <= high)
            }
            (Slots::Parts(low, high, parts), Direction::Backward) => {
                let slot = slot.min(*high);
                let part = parts[..parts.partition_point(|part| part.0 <= slot)].last()?;
                Some(slot.min(part.1)).filter(|slot| slot >= low)
            }
        }
    }

    /// Where the run of wanted slots that `slot` is in ends for a scan that goes this way.
    fn run_end(&self, direction: Direction, slot: u128) -> u128 {
        let (low, high) = match self {
            Slots::Interval(low, high) => (*low, *high),
            Slots::Points(_) => (slot, slot),
            Slots::Parts(low, high, parts) => {
                let part = &parts[parts.partition_point(|part| part.1 < slot)];
                (part.0.max(*low), part.1.min(*high))
            }
        };
        if direction == Direction::Forward { high } else { low }
    }
}

impl<'a> Selection<'a> {
    /// Everything in an index of this shape.
    pub fn new(shape: &'a KeyShape) -> Self {
        let mut selection = Selection {
            shape,
            slots: [Slots::Interval(0, 0); KeyShape::MAX_COLUMNS],
            nulls: Nulls::Included,
            nothing: false,
            bounds: None,
        };
        selection.clear();
        selection
    }

    /// Wants everything again.
    pub fn clear(&mut self) {
        for c in 0..self.shape.columns().len() {
            self.slots[c] = Slots::Interval(0, self.largest(c));
        }
        self.nulls = Nulls::Included;
        self.nothing = false;
        self.bounds = None;
    }

    /// The shape of the index scanned.
    pub fn shape(&self) -> &'a KeyShape {
        self.shape
    }

    /// The lane of all that is wanted, and all values that have it, if it is one.
    #[inline]
    pub fn one_lane(&self) -> Option<u128> {
        let mut lane = 0;
        for c in 0..self.shape.columns().len() {
            let Slots::Interval(low, high) = self.slots[c] else { return None };
            if low != high {
                return None;
            }
            lane |= low << self.shape.slot(c).shift;
        }
        let has_no_nulls = !self.single() || self.nulls == Nulls::Excluded;
        (has_no_nulls && !self.nothing && self.bounds.is_none()).then_some(lane)
    }

    /// Whether nothing can match.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// Wants nothing.
    pub fn nothing(&mut self) {
        self.nothing = true;
    }

    fn single(&self) -> bool {
        self.shape.columns().len() == 1
    }

    fn largest(&self, c: usize) -> u128 {
        ones(self.shape.slot(c).width)
    }

    /// Wants column `c` to be a value whose field (`ColumnType::encode`) is between two, both included. `u128::MAX` is
    /// no upper bound at all.
    pub fn between(&mut self, c: usize, low: u128, high: u128) {
        let high = high.min(ones(self.shape.columns()[c].ty.bits()));
        if low > high {
            return self.nothing();
        }
        self.not_null(c);
        let (low, high) = (self.shape.slot_of(c, low), self.shape.slot_of(c, high));
        self.intersect(c, low.min(high), low.max(high));
    }

    /// Wants column `c` to be a value whose field is one of these. The slice is the scan's to rewrite.
    pub fn any_of(&mut self, c: usize, fields: &'a mut [u128]) {
        self.not_null(c);
        for field in fields.iter_mut() {
            *field = self.shape.slot_of(c, *field);
        }
        fields.sort_unstable();
        let mut kept = 0;
        for at in 0..fields.len() {
            let point = fields[at];
            if self.slots[c].nearest(Direction::Forward, point) == Some(point)
                && (kept == 0 || fields[kept - 1] != point)
            {
                fields[kept] = point;
                kept += 1;
            }
        }
        self.nothing |= kept == 0;
        self.slots[c] = Slots::Points(&fields[..kept]);
    }

    /// Wants column `c` to be a value whose field is in one of these intervals, from one field to another, both
    /// included. `room` is the scan's to write: as many intervals, and [`parts`](Self::parts) of the column.
    pub fn any_between(&mut self, c: usize, fields: &mut [(u128, u128)], room: &'a mut [(u128, u128)]) {
        self.not_null(c);
        for interval in fields.iter_mut() {
            let (a, b) = (self.shape.slot_of(c, interval.0), self.shape.slot_of(c, interval.1));
            *interval = (a.min(b), a.max(b));
        }
        fields.sort_unstable();
        let wanted = self.slots[c];
        let mut kept = 0;
        // The first slot after those kept.
        let mut free = Some(0);
        for &(low, high) in fields.iter() {
            while let Some(first) = free.and_then(|free| wanted.nearest(Direction::Forward, free.max(low)))
                && first <= high
            {
                let last = wanted.run_end(Direction::Forward, first).min(high);
                match room[..kept].last_mut() {
                    Some(part) if free == Some(first) => part.1 = last,
                    _ => {
                        room[kept] = (first, last);
                        kept += 1;
                    }
                }
                free = last.checked_add(1);
            }
        }
        self.nothing |= kept == 0;
        self.slots[c] = Slots::Parts(0, self.largest(c), &room[..kept]);
    }

    /// How many intervals column `c`'s wanted values are in.
    pub fn parts(&self, c: usize) -> usize {
        match self.slots[c] {
            Slots::Interval(..) => 1,
            Slots::Points(points) => points.len(),
            Slots::Parts(_, _, parts) => parts.len(),
        }
    }

    /// Wants column `c` to be NULL.
    pub fn null(&mut self, c: usize) {
        match self.shape.null_place(c) {
            Some(place) => self.intersect(c, place, place),
            None if self.nulls == Nulls::Excluded => self.nothing(),
            None => self.nulls = Nulls::Only,
        }
    }

    /// Wants column `c` to be anything but NULL.
    pub fn not_null(&mut self, c: usize) {
        match self.shape.null_place(c) {
            // A null's slot is the smallest or (with its field bits 0) the first of the upper half.
            Some(0) => self.intersect(c, ones(self.shape.slot(c).width - 1) + 1, self.largest(c)),
            Some(place) => self.intersect(c, 0, place - 1),
            None if self.nulls == Nulls::Only => self.nothing(),
            None => self.nulls = Nulls::Excluded,
        }
    }

    fn intersect(&mut self, c: usize, low: u128, high: u128) {
        match self.slots[c] {
            Slots::Interval(l, h) if l.max(low) <= h.min(high) => {
                self.slots[c] = Slots::Interval(l.max(low), h.min(high));
            }
            Slots::Interval(..) => self.nothing(),
            Slots::Points(points) => {
                let from = points.partition_point(|&point| point < low);
                let to = points.partition_point(|&point| point <= high);
                self.nothing |= from >= to;
                self.slots[c] = Slots::Points(&points[from.min(to)..to]);
            }
            Slots::Parts(l, h, parts) => {
                self.slots[c] = Slots::Parts(l.max(low), h.min(high), parts);
                self.nothing |= self.slots[c].nearest(Direction::Forward, 0).is_none();
            }
        }
    }

    /// Wants no lanes but those from one to another, both included.
    pub fn bound_lanes(&mut self, low: u128, high: u128) {
        debug_assert!(low <= high, "lanes from {low} to {high}");
        let (least, most) = self.bounds.unwrap_or((0, u128::MAX));
        self.bounds = Some((least.max(low), most.min(high)));
    }

    /// The first key within the bounds, and the place behind the last.
    #[inline]
    fn bounding_keys<L: Lane>(&self) -> Option<(Key<L>, Key<L>)> {
        let (low, high) = self.bounds?;
        let after = if high < L::MAX.to_u128() { Key::new(L::from_u128(high + 1), Tid::MIN) } else { Key::MAX };
        Some((Key::new(L::from_u128(low), Tid::MIN), after))
    }

    fn range_from<L: Lane>(&self, direction: Direction, key: Key<L>, out: &mut Range<L>) -> bool {
        self.span_from(direction, key).inspect(|span| *out = span.range()).is_some()
    }

    /// The range of wanted keys that a scan comes to first from `key` on, `key` included, or what is left of the one it
    /// is in.
    fn span_from<L: Lane>(&self, direction: Direction, key: Key<L>) -> Option<Span<L>> {
        if self.nothing {
            return None;
        }
        if !self.single() {
            let lane = self.nearest(direction, key.lane.to_u128())?;
            let end = L::from_u128(self.run_end(direction, lane));
            let is_same = lane == key.lane.to_u128();
            let lane = L::from_u128(lane);
            return Some(match direction {
                Direction::Forward => {
                    Span { first: if is_same { key } else { Key::new(lane, Tid::MIN) }, last: Key::new(end, Tid::MAX) }
                }
                Direction::Backward => {
                    Span { first: Key::new(end, Tid::MIN), last: if is_same { key } else { Key::new(lane, Tid::MAX) } }
                }
            });
        }
        let values = self.values_from(direction, key);
        let nulls = self.null_range().and_then(|nulls| nulls.from(direction, key));
        self.join(values, nulls, |a, b| match direction {
            Direction::Forward => a.first <= b.first,
            Direction::Backward => a.last >= b.last,
        })
    }

    /// Of the values' and the NULLs' next range the one that comes first; both as one where nothing parts them.
    fn join<L: Lane>(
        &self,
        values: Option<Span<L>>,
        nulls: Option<Span<L>>,
        first: impl Fn(&Span<L>, &Span<L>) -> bool,
    ) -> Option<Span<L>> {
        match (values, nulls) {
            (Some(values), Some(nulls)) if self.is_everything() => {
                Some(Span { first: values.first.min(nulls.first), last: values.last.max(nulls.last) })
            }
            (Some(values), Some(nulls)) => Some(if first(&values, &nulls) { values } else { nulls }),
            (values, nulls) => values.or(nulls),
        }
    }

    fn is_everything(&self) -> bool {
        matches!(self.slots[0], Slots::Interval(0, high) if high == self.largest(0))
    }

    /// A single column's NULLs.
    fn null_range<L: Lane>(&self) -> Option<Span<L>> {
        let rank = self.shape.null_rank();
        let lane = if rank { L::MAX } else { L::MIN };
        (self.nulls != Nulls::Excluded)
            .then(|| Span { first: Key::new(lane, Tid::first(rank)), last: Key::new(lane, Tid::last(rank)) })
    }

    /// A single column's values from `key` on.
    fn values_from<L: Lane>(&self, direction: Direction, key: Key<L>) -> Option<Span<L>> {
        let rank = !self.shape.null_rank();
        let (first_tid, last_tid) = (Tid::first(rank), Tid::last(rank));
        let lane = key.lane.to_u128();
        let lane = match direction {
            Direction::Forward if key.tid > last_tid => lane.checked_add(1)?,
            Direction::Backward if key.tid < first_tid => lane.checked_sub(1)?,
            _ => lane,
        };
        let near = self.value_slots()?.nearest(direction, lane)?;
        let far = self.slots[0].run_end(direction, near);
        let (low, high) = (L::from_u128(near.min(far)), L::from_u128(near.max(far)));
        Span { first: Key::new(low, first_tid), last: Key::new(high, last_tid) }.from(direction, key)
    }

    fn value_slots(&self) -> Option<&Slots<'a>> {
        (self.nulls != Nulls::Only).then_some(&self.slots[0])
    }

    fn digit(&self, lane: u128, c: usize) -> u128 {
        let slot = self.shape.slot(c);
        lane >> slot.shift & ones(slot.width)
    }

    /// `lane` with column `c`'s slot replaced, and every later column's too, by the wanted one that a scan comes to
    /// first.
    fn with_digit(&self, direction: Direction, lane: u128, c: usize, digit: u128) -> Option<u128> {
        let mut lane = self.before(lane, c) | digit << self.shape.slot(c).shift;
        for later in c + 1..self.shape.columns().len() {
            let outermost = if direction == Direction::Forward { 0 } else { self.largest(later) };
            lane |= self.slots[later].nearest(direction, outermost)? << self.shape.slot(later).shift;
        }
        Some(lane)
    }

    /// The bits of the columns before column `c`.
    fn before(&self, lane: u128, c: usize) -> u128 {
        let slot = self.shape.slot(c);
        let above = slot.shift + slot.width;
        if above < 128 { lane >> above << above } else { 0 }
    }

    /// The first lane from `lane` on, upwards or downwards, whose columns are all wanted.
    fn nearest(&self, direction: Direction, lane: u128) -> Option<u128> {
        let columns = self.shape.columns().len();
        let lane = if direction == Direction::Backward { lane & self.all_bits() } else { lane };
        let mut c = 0;
        while c < columns {
            let digit = self.digit(lane, c);
            match self.slots[c].nearest(direction, digit) {
                Some(same) if same == digit => c += 1,
                Some(other) => return self.with_digit(direction, lane, c, other),
                None => break,
            }
        }
        if c == columns {
            return Some(lane);
        }
        (0..c).rev().find_map(|c| {
            let digit = self.digit(lane, c);
            let next = match direction {
                Direction::Forward => digit.checked_add(1).filter(|&next| next <= self.largest(c))?,
                Direction::Backward => digit.checked_sub(1)?,
            };
            self.with_digit(direction, lane, c, self.slots[c].nearest(direction, next)?)
        })
    }

    /// All bits that the columns use.
    fn all_bits(&self) -> u128 {
        let first = self.shape.slot(0);
        ones(first.shift + first.width)
    }

    /// The column from which on everything is wanted, less one: the last that restricts anything.
    fn last_restricted(&self) -> usize {
        let restricts = |c: &usize| !matches!(self.slots[*c], Slots::Interval(0, high) if high == self.largest(*c));
        (0..self.shape.columns().len()).rev().find(restricts).unwrap_or(0)
    }

    /// Where the run of wanted lanes that the wanted `lane` is in ends for a scan that goes this way.
    fn run_end(&self, direction: Direction, lane: u128) -> u128 {
        let c = self.last_restricted();
        let shift = self.shape.slot(c).shift;
        let end = self.before(lane, c) | self.slots[c].run_end(direction, self.digit(lane, c)) << shift;
        if direction == Direction::Forward { end | ones(shift) } else { end }
    }
}

/// The lowest `bits` bits set.
fn ones(bits: u32) -> u128 {
    if bits >= 128 { u128::MAX } else { (1 << bits) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Column, ColumnType};
    use proptest::prelude::*;

    /// What is wanted before a key.
    fn span_before<L: Lane>(selection: &Selection<'_>, key: Key<L>) -> Option<Span<L>> {
        selection.span_from(Direction::Backward, key.predecessor()?)
    }

    /// What a column is asked for, in fields.
    #[derive(Clone, Debug)]
    enum Condition {
        Between(u128, u128),
        AnyOf(Vec<u128>),
        AnyBetween(Vec<(u128, u128)>),
        Null,
        NotNull,
    }

    impl Condition {
        fn holds(&self, field: Option<u128>) -> bool {
            match (self, field) {
                (Condition::Null, field) => field.is_none(),
                (_, None) => false,
                (Condition::NotNull, Some(_)) => true,
                (Condition::Between(low, high), Some(field)) => (*low..=*high).contains(&field),
                (Condition::AnyOf(fields), Some(field)) => fields.contains(&field),
                (Condition::AnyBetween(intervals), Some(field)) => {
                    intervals.iter().any(|(low, high)| (*low..=*high).contains(&field))
                }
            }
        }

        /// `room` has exactly what the selection asks for.
        fn tell<'a>(&'a mut self, selection: &mut Selection<'a>, c: usize, room: &'a mut Vec<(u128, u128)>) {
            match self {
                Condition::Between(low, high) => selection.between(c, *low, *high),
                Condition::AnyOf(fields) => selection.any_of(c, fields),
                Condition::AnyBetween(intervals) => {
                    room.resize(intervals.len() + selection.parts(c), (0, 0));
                    selection.any_between(c, intervals, room);
                }
                Condition::Null => selection.null(c),
                Condition::NotNull => selection.not_null(c),
            }
        }
    }

    fn interval() -> impl Strategy<Value = (u128, u128)> {
        (0..256u128, 0..256u128).prop_map(|(a, b)| (a.min(b), a.max(b)))
    }

    fn condition() -> impl Strategy<Value = Condition> {
        prop_oneof![
            3 => interval().prop_map(|(low, high)| Condition::Between(low, high)),
            2 => prop::collection::vec(0..256u128, 0..40).prop_map(Condition::AnyOf),
            9 => prop::collection::vec(interval(), 0..6).prop_map(Condition::AnyBetween),
            9 => prop::collection::vec((0..256u128, 0..9u128), 0..9).prop_map(|pairs| {
                Condition::AnyBetween(pairs.into_iter().map(|(low, more)| (low, (low + more).min(255))).collect())
            }),
            1 => Just(Condition::Null),
            1 => Just(Condition::NotNull),
        ]
    }

    /// Columns "char", alone or beside a bool on either side.
    fn shape() -> impl Strategy<Value = (KeyShape, usize)> {
        (0..3usize, any::<[bool; 4]>()).prop_map(|(kind, [a, b, c, d])| {
            let char = Column { ty: ColumnType::Char, descending: a, nulls_first: b };
            let bool = Column { ty: ColumnType::Bool, descending: c, nulls_first: d };
            let columns: &[Column] = match kind {
                0 => &[char],
                1 => &[char, bool],
                _ => &[bool, char],
            };
            (KeyShape::new(columns).unwrap(), usize::from(kind == 2))
        })
    }

    /// Every row there can be, in fields, and its key; in order.
    fn rows<L: Lane>(shape: &KeyShape) -> Vec<(Key<L>, Vec<Option<u128>>)> {
        let mut rows = vec![vec![]];
        for column in shape.columns() {
            let images: Vec<_> = (0..1 << column.ty.bits()).map(Some).chain([None]).collect();
            rows = rows
                .iter()
                .flat_map(|row| images.iter().map(move |image| [row.as_slice(), &[*image]].concat()))
                .collect();
        }
        // The first entry of each, so that between two of them there is no other.
        let keyed = |images: Vec<Option<u128>>| {
            let packed = shape.pack(&images);
            let key = Key::new(L::from_u128(packed.lane), Tid::new(packed.rank, 0, 0, packed.negative));
            let fields = images.iter().zip(shape.columns());
            (key, fields.map(|(image, column)| image.map(|image| column.ty.encode(image).0)).collect())
        };
        let mut rows: Vec<_> = rows.into_iter().map(keyed).collect();
        rows.sort_by_key(|row: &(Key<L>, Vec<_>)| row.0);
        rows
    }

    /// Looks from every row both ways for the next one for which all conditions hold.
    fn check<L: Lane>(shape: &KeyShape, conditions: &[(usize, Condition)]) {
        let mut told = conditions.to_vec();
        let mut rooms = vec![Vec::new(); told.len()];
        let mut selection = Selection::new(shape);
        for ((c, condition), room) in told.iter_mut().zip(&mut rooms) {
            condition.tell(&mut selection, *c, room);
        }
        let rows = rows::<L>(shape);
        let keys: Vec<_> = rows.iter().map(|row| row.0).collect();
        let holds = |fields: &[Option<u128>]| conditions.iter().all(|(c, condition)| condition.holds(fields[*c]));
        let wanted: Vec<bool> = rows.iter().map(|row| holds(&row.1)).collect();
        for (at, &key) in keys.iter().enumerate() {
            let next = (at..keys.len()).find(|&at| wanted[at]);
            assert_eq!(next_row(&selection, &keys, key), next, "at or after {key:?}");
            let previous = (0..at).rfind(|&at| wanted[at]);
            assert_eq!(previous_row(&selection, &keys, key), previous, "before {key:?}");
            for range in [selection.span_from(Direction::Forward, key), span_before(&selection, key)].iter().flatten() {
                let inside = |key| (range.first..=range.last).contains(key);
                let all_wanted = keys.iter().zip(&wanted).all(|(key, wanted)| *wanted || !inside(key));
                assert!(all_wanted, "{range:?} beside {key:?}");
            }
        }
    }

    /// Goes on as a scan does: a range may be without rows, if its slots are no value's.
    fn next_row<L: Lane>(selection: &Selection<'_>, keys: &[Key<L>], mut from: Key<L>) -> Option<usize> {
        loop {
            let range = selection.span_from(Direction::Forward, from)?;
            let at = keys.iter().position(|key| *key >= range.first)?;
            if keys[at] <= range.last {
                return Some(at);
            }
            from = keys[at];
        }
    }

    fn previous_row<L: Lane>(selection: &Selection<'_>, keys: &[Key<L>], mut to: Key<L>) -> Option<usize> {
        loop {
            let range = span_before(selection, to)?;
            let at = keys.iter().rposition(|key| *key <= range.last)?;
            if keys[at] >= range.first {
                return Some(at);
            }
            to = keys[at].successor();
        }
    }

    proptest! {
        #[test]
        fn wanted_are_exactly_the_rows_for_which_every_condition_holds(
            (shape, char) in shape(),
            on_char in prop::collection::vec(condition(), 0..4),
            on_bool in prop::option::of(prop_oneof![
                Just(Condition::Null), Just(Condition::NotNull), Just(Condition::Between(1, 1)),
                Just(Condition::AnyBetween(vec![(0, 0), (1, 1)])),
            ]),
        ) {
            let mut conditions: Vec<_> = on_char.into_iter().map(|condition| (char, condition)).collect();
            if shape.columns().len() == 1 {
                check::<u32>(&shape, &conditions);
            } else {
                conditions.extend(on_bool.map(|condition| (1 - char, condition)));
                check::<u64>(&shape, &conditions);
            }
        }
    }

    #[test]
    fn intervals_of_two_conditions_meet_in_more_intervals_than_either_has() {
        let column = Column { ty: ColumnType::Int4, descending: false, nulls_first: false };
        let shape = KeyShape::new(&[column]).unwrap();
        let (mut first, mut first_room) = ([(7, 20), (0, 5)], [(0, 0); 3]);
        let (mut second, mut second_room) = ([(3, 8), (10, 30)], [(0, 0); 4]);
        let mut selection = Selection::new(&shape);
        selection.any_between(0, &mut first, &mut first_room);
        selection.any_between(0, &mut second, &mut second_room);
        let mut from = Key::<u32>::MIN;
        for (low, high) in [(3, 5), (7, 8), (10, 20)] {
            let range = selection.span_from(Direction::Forward, from).unwrap();
            assert_eq!((range.first.lane, range.last.lane), (low, high));
            from = range.last.successor();
        }
        assert!(selection.span_from(Direction::Forward, from).is_none());
    }

    #[test]
    fn lanes_are_bounded() {
        let column = Column { ty: ColumnType::Int2, descending: false, nulls_first: false };
        let shape = KeyShape::new(&[column, column]).unwrap();
        let lanes = |selection: &Selection<'_>, direction| {
            let (mut place, mut found) = ([Key::<u64>::MIN, Key::MAX], Vec::new());
            let mut range = Range::<u64>::fresh();
            let at = usize::from(direction == Direction::Backward);
            while selection.next(direction, &place[at], &mut range) {
                found.push((range.first.lane, range.after.lane));
                place = [range.after, range.first];
            }
            found
        };
        let mut room = [(0, 0); 2];
        let mut selection = Selection::new(&shape);
        selection.any_between(1, &mut [(5, 6)], &mut room);
        let lane =
            |first: u128, second: u128| shape.slot_of(0, first) << shape.slot(0).shift | shape.slot_of(1, second);
        selection.bound_lanes(lane(3, 6), u128::MAX);
        selection.bound_lanes(0, lane(5, 5));
        let expected = [(3, 6, 6), (4, 5, 6), (5, 5, 5)];
        let expected = expected.map(|(a, low, high)| (lane(a, low) as u64, lane(a, high) as u64 + 1));
        assert_eq!(lanes(&selection, Direction::Forward), expected);
        assert_eq!(lanes(&selection, Direction::Backward), [expected[2], expected[1], expected[0]]);
        assert_eq!(selection.one_lane(), None);
        selection.bound_lanes(lane(6, 0), u128::MAX);
        assert_eq!(lanes(&selection, Direction::Forward), []);
        assert_eq!(lanes(&selection, Direction::Backward), []);
    }

    #[test]
    fn no_interval_wants_nothing() {
        let column = Column { ty: ColumnType::Uuid, descending: true, nulls_first: true };
        let shape = KeyShape::new(&[column]).unwrap();
        let mut selection = Selection::new(&shape);
        selection.any_between(0, &mut [], &mut []);
        assert!(selection.is_nothing());
        let (mut all, mut room) = ([(0, u128::MAX), (5, u128::MAX)], [(0, 0); 3]);
        let mut selection = Selection::new(&shape);
        selection.any_between(0, &mut all, &mut room);
        assert_eq!(selection.parts(0), 1);
        assert_eq!(span_before(&selection, Key::<u128>::MAX).unwrap().last.lane, u128::MAX);
    }
}
