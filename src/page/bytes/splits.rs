//! Splits of pages of byte strings, and pages made of entries: which keys come between pages, and what entries take where.

use super::*;

/// How long the shortest key is that is behind one entry and not behind the next: normal bytes, or all of both parts.
enum Separator {
    Front(usize),
    Whole,
}

impl Separator {
    fn between(last: &Stored<'_>, first: &Stored<'_>, level: u8) -> Separator {
        match last.common(first) {
            usize::MAX => Separator::Whole,
            _ if level > 0 => Separator::Whole,
            common => Separator::Front(common + 1),
        }
    }

    fn length(&self, first: &Stored<'_>) -> usize {
        match *self {
            Separator::Front(length) => length,
            Separator::Whole => first.normal_length() + first.payload.len(),
        }
    }
}

/// Becomes the fence between two entries that are neighbours on a level: the shortest in a leaf, the second one's key
/// in an inner page.
pub(super) fn set_separator(
    fence: &mut OwnedKey,
    last: &Entry<'_, Bytes>,
    first: &Entry<'_, Bytes>,
    level: u8,
    order: Option<BytesOrder<'_>>,
) {
    match Separator::between(&last.key, &first.key, level) {
        Separator::Front(length) => fence.keep_front(&first.key, length),
        Separator::Whole => {
            // A damaged value part is noticed by whoever reads the entry.
            let value = Bytes::value_length(first, level, order).unwrap_or(0);
            fence.keep(&first.key, value, first.tid);
            if level == 0
                && let Some(value) = fence.key(order).telling_value(&last.key)
            {
                fence.keep(&first.key, value, Tid::MIN);
            }
        }
    }
}

/// Becomes the fence before an entry that is not the first.
fn set_separator_at(fence: &mut OwnedKey, entries: &Joined<'_, Bytes>, at: usize, order: Option<BytesOrder<'_>>) {
    if let Some((last, first)) = entries.around(at) {
        set_separator(fence, &last, &first, entries.page().level(), order);
    }
}

impl PageSplits for Bytes {
    fn choose_split(
        entries: &Joined<'_, Bytes>,
        aim: Aim,
        order: Option<BytesOrder<'_>>,
        fence: &mut OwnedKey,
    ) -> usize {
        let page = entries.page();
        let (layout, level) = (page.layout, page.level());
        // Before each entry: the cells of those before it, as large as they are under the page's own prefix. And what
        // each would take more that shares a cell.
        let mut cells = [0usize; MAX_PAGE_ENTRIES + 2];
        let mut saved = [0usize; MAX_PAGE_ENTRIES + 1];
        let mut repeated = [false; MAX_PAGE_ENTRIES + 1];
        // How long the shortest fence before each is.
        let mut separators = [0u16; MAX_PAGE_ENTRIES + 1];
        let total = entries.len().min(MAX_PAGE_ENTRIES + 1);
        let mut measure = Measure::new(layout, page.prefix().len());
        for (index, entry) in entries.iter().take(total).enumerate() {
            separators[index] = measure.separator(&entry, level) as u16;
            let cell;
            (repeated[index], cell) = measure.next(&entry);
            saved[index] = measure.own(&entry) - cell;
            cells[index + 1] = cells[index] + cell;
        }
        let slot = arrange::used(page.bytes, layout).div_ceil(page.entries().max(1));
        let weight = |index: usize| cells[index] + index * slot;
        let wanted = weight(total) * aim.left / 100;
        let middle = (1..total).find(|&index| weight(index) >= wanted).unwrap_or(total - 1).clamp(1, total - 1);
        let fences = [page.low(), page.high()].map(|f| layout.cell_size(f.key.normal_length(), f.key.payload.len()));
        // Under another prefix lanes may differ in more bytes.
        let holds = |range: Range<usize>, cells: usize| {
            let most = layout.most_nodes(cells);
            range.len() * WIDEST <= most * (layout.node_room() - WIDEST) || {
                let items = entries.iter_from(range.start).take(range.len()).zip(&repeated[range.clone()]);
                let wide = items.scan(0, |lane, (entry, repeats)| {
                    *lane += if *repeats { 0 } else { 1 << 56 };
                    Some(Item { lane: *lane, tid: entry.tid, child: entry.child, cell: 0 })
                });
                Arrangement::packed(layout, &wide, layout.node_room(), most).is_some()
            }
        };
        let fits = |index: usize, separator: usize| {
            holds(0..index, cells[index] + fences[0] + separator + 4)
                && holds(index..total, cells[total] - cells[index] + saved[index] + fences[1] + separator + 4)
        };
        // The place with the shortest fence, of those at which both halves fit; the nearest, where several have such a
        // one. So it is seldom asked whether they fit, which looks at all entries.
        let shortest = |reach: usize| {
            let mut best: Option<(usize, usize)> = None;
            for index in split::outward(middle, reach, total) {
                let length = separators[index].into();
                if best.is_none_or(|(_, shortest)| length < shortest) && fits(index, length) {
                    best = Some((index, length));
                }
            }
            best.map(|(index, _)| index)
        };
        let sound = |index: &usize| (1..total).contains(index) && fits(*index, separators[*index].into());
        let near = shortest((total / 16).max(1));
        let changes = split::outward(middle, split::reach_of_changes(level, total), total).filter(|&at| !repeated[at]);
        let keep = aim
            .exactly
            .filter(sound)
            .or(near.filter(|&index| !repeated[index]))
            .or_else(|| changes.chain(aim.parting).find(sound))
            .or(near)
            .or_else(|| shortest(total));
        // Lanes seldom differ in all bytes.
        let keep = keep.or_else(|| {
            split::outward(middle, total, total).find(|&index| {
                set_separator_at(fence, entries, index, order);
                let middle = Bytes::fence_of(fence);
                let holds = |fences: [BytesFence<'_>; 2], range: Range<usize>| {
                    let of_half = entries.iter_from(range.start).take(range.len());
                    let under = Under::new(layout, fences, of_half.clone());
                    Arrangement::filled(layout, &under.items(of_half), 100, under.cells).is_some()
                };
                holds([page.low(), middle], 0..index) && holds([middle, page.high()], index..total)
            })
        });
        let keep = keep.unwrap_or(middle);
        set_separator_at(fence, entries, keep, order);
        keep
    }

    fn build<'a>(
        geometry: &Geometry,
        links: &Links<'_, Bytes>,
        total: usize,
        entries: impl Iterator<Item = Entry<'a, Bytes>> + Clone,
    ) -> Option<PageBytes> {
        let layout = *geometry.layout(links.level);
        let (low, high) = (links.low, links.high);
        let under = Under::new(&layout, [low, high], entries.clone().take(total));
        let items = under.items(entries.clone().take(total));
        let arrangement = Arrangement::filled(&layout, &items, links.fill(), under.cells)?;

        let mut bytes = edit::new_page(geometry, links);
        under.fill_in(&mut bytes, &layout, [low, high], arrangement.counts(), entries.take(total))?;
        Some(bytes)
    }

    /// The prefix that keys have in common grows, and with it all entries change.
    fn right_half(
        _page: &Page<'_, Bytes>,
        _geometry: &Geometry,
        _links: &Links<'_, Bytes>,
        _skip: usize,
    ) -> Option<PageBytes> {
        None
    }

    fn halve<'e>(
        page: &Page<'_, Bytes>,
        keep: usize,
        right: Block,
        high: &'e OwnedKey,
        arrangement: &'e mut Arrangement,
    ) -> Option<Edit<'e>> {
        let (layout, fences) = (page.layout, [page.low(), Bytes::fence_of(high)]);
        let prefix = Under::prefix_between(&fences);
        let under = Under::of(layout, prefix, fences, page.sharing(keep));
        let fill = if page.level() == 0 { Links::<Bytes>::HALF } else { 100 };
        *arrangement = Arrangement::filled(layout, &under.items(page.iter().take(keep)), fill, under.cells)?;
        let (normal, value, tid) = (high.normal(), high.value(), high.tid());
        let high = Fence::Bytes { normal, value, tid, prefix: prefix as u16 };
        Some(Edit::Halve { counts: arrangement.counts(), right, high })
    }

    fn lower<'e>(
        page: &Page<'_, Bytes>,
        geometry: &Geometry,
        low: BytesFence<'_>,
        left: Block,
        image: &'e mut PageBytes,
    ) -> Option<Edit<'e>> {
        let links = Links {
            level: page.level(),
            left,
            right: page.right(),
            low,
            high: page.high(),
            fill: Links::<Bytes>::HALF,
        };
        *image = Bytes::build(geometry, &links, page.entries(), page.iter())?;
        image[at::FLAGS] = page.bytes[at::FLAGS];
        Some(Edit::Image(image))
    }
}

/// Keeps a page's first entries, so many in each node, between its low fence and another high one, whose first bytes all
/// keys begin with then: `bytes` is the page, and `old` a copy. `None` if they are not that many, or do not fit.
pub(in crate::page) fn keep_first(
    bytes: &mut PageBytes,
    layout: &Layout,
    counts: &[u8],
    (high, prefix): (BytesFence<'_>, usize),
    old: &PageBytes,
) -> Option<()> {
    let page = Page::<Bytes> { bytes: old, layout, keys: PhantomData };
    let total: usize = counts.iter().map(|&count| usize::from(count)).sum();
    let fences = [page.low(), high];
    if total > page.entries() || fences.iter().any(|fence| fence.key.normal_length() < prefix) {
        return None;
    }
    bytes[bytes_at::PREFIX..SPACE_END].fill(0);
    let under = Under::of(layout, prefix, fences, page.sharing(total));
    under.fill_in(bytes, layout, fences, counts, page.iter().take(total))
}

impl<'a> Page<'a, Bytes> {
    /// The first so many entries, each with whether it shares the cell of the one before.
    fn sharing(&self, count: usize) -> impl Iterator<Item = (bool, Entry<'a, Bytes>)> + use<'a> {
        let mut entries = self.iter();
        let entries = core::iter::from_fn(move || entries.next_with_cell());
        let shared = entries.scan(0, |before, (cell, entry)| {
            let shares = cell != 0 && cell == *before;
            *before = cell;
            Some((shares, entry))
        });
        shared.take(count)
    }
}

/// What entries have outside their nodes in a page between two fences.
struct Under {
    /// Bytes that all keys of the page begin with.
    prefix: usize,
    /// Where each entry's cell will begin: those of the fences come first.
    cells_at: [u16; MAX_PAGE_ENTRIES],
    /// Bytes of all cells.
    cells: usize,
}

impl Under {
    fn new<'a>(layout: &Layout, fences: [BytesFence<'_>; 2], entries: impl Iterator<Item = Entry<'a, Bytes>>) -> Self {
        let prefix = Under::prefix_between(&fences);
        let mut measure = Measure::new(layout, prefix);
        Under::of(layout, prefix, fences, entries.map(|entry| (measure.repeats(&entry), entry)))
    }

    /// Bytes that all keys between two fences begin with.
    fn prefix_between([low, high]: &[BytesFence<'_>; 2]) -> usize {
        low.key.common(&high.key).min(low.key.normal_length())
    }

    /// Of entries each of which comes with whether it shares the cell of the one before.
    fn of<'a>(
        layout: &Layout,
        prefix: usize,
        fences: [BytesFence<'_>; 2],
        entries: impl Iterator<Item = (bool, Entry<'a, Bytes>)>,
    ) -> Self {
        let fences = fences.map(|f| layout.cell_size(f.key.normal_length(), f.key.payload.len()));
        let mut under = Under { prefix, cells_at: [0; MAX_PAGE_ENTRIES], cells: fences.iter().sum() };
        let (measure, mut last) = (Measure::new(layout, prefix), 0);
        for (at, (shares, entry)) in under.cells_at.iter_mut().zip(entries) {
            if !shares {
                let cell = measure.own(&entry);
                under.cells += cell;
                last = if cell == 0 { 0 } else { SPACE_END.saturating_sub(under.cells) as u16 };
            }
            *at = last;
        }
        under
    }

    /// Fills in a page of these entries, between these fences: what is behind its header, in which links are not
    /// touched. So many entries go to each node. `None` if they do not fit.
    fn fill_in<'a>(
        &self,
        bytes: &mut PageBytes,
        layout: &Layout,
        fences: [BytesFence<'_>; 2],
        counts: &[u8],
        entries: impl Iterator<Item = Entry<'a, Bytes>> + Clone,
    ) -> Option<()> {
        let mut scratch = [0; MOST_PARTS];
        write_u16(bytes, at::PD_UPPER, SPACE_END as u16);
        write_u16(bytes, bytes_at::PREFIX, self.prefix as u16);
        for (at, fence) in [bytes_at::LOW, bytes_at::HIGH].into_iter().zip(fences) {
            let length = fence.key.copy_normal(&mut scratch)?;
            let cell = put_cell(bytes, layout, FIRST_LINE * LINE, &scratch[..length], fence.key.payload)?;
            write_u16(bytes, at, cell);
            fence.tid.write(bytes, at + CELL);
        }
        let (mut last, behind) = (0, self.prefix + HEAD);
        for (entry, &cell) in entries.clone().zip(&self.cells_at) {
            if cell != last && cell != 0 {
                let suffix = scratch.get_mut(..entry.key.normal_length().saturating_sub(behind))?;
                entry.key.copy_from(behind, suffix);
                let put = put_cell(bytes, layout, FIRST_LINE * LINE, suffix, entry.key.payload);
                put.filter(|put| *put == cell)?;
            }
            last = cell;
        }
        let has_room = layout.first_node_line() + counts.len() * layout.x <= edit::space_end(bytes, layout) / LINE;
        (arrange::lay_out(bytes, layout, counts, &self.items(entries)) && has_room).then_some(())
    }

    /// The entries as their nodes have them.
    fn items<'a>(&self, entries: impl Iterator<Item = Entry<'a, Bytes>> + Clone) -> impl Iterator<Item = Item> + Clone {
        entries.zip(&self.cells_at).map(|(entry, &cell)| Item {
            lane: entry.key.word(self.prefix).into(),
            tid: entry.tid,
            child: entry.child,
            cell,
        })
    }
}

/// Bytes that an entry takes in its node at most.
const WIDEST: usize = HEAD + CELL + Tid::SIZE + size_of::<Block>();

/// Says what cells entries take under a prefix.
#[derive(Clone, Copy)]
struct Measure<'a, 'l> {
    layout: &'l Layout,
    prefix: usize,
    previous: Option<Stored<'a>>,
}

impl<'a, 'l> Measure<'a, 'l> {
    fn new(layout: &'l Layout, prefix: usize) -> Self {
        Measure { layout, prefix, previous: None }
    }

    /// How long the shortest fence between the one before and the next entry is; 0 if this is the first.
    fn separator(&self, next: &Entry<'a, Bytes>, level: u8) -> usize {
        self.previous.map_or(0, |previous| Separator::between(&previous, &next.key, level).length(&next.key))
    }

    /// Whether the next entry has the key of the one before it, and so its cell.
    fn repeats(&mut self, entry: &Entry<'a, Bytes>) -> bool {
        let repeats = self.previous.is_some_and(|previous| previous.is_same(&entry.key));
        self.previous = Some(entry.key);
        repeats
    }

    /// The same, and bytes of its own cell if not.
    fn next(&mut self, entry: &Entry<'a, Bytes>) -> (bool, usize) {
        let repeats = self.repeats(entry);
        (repeats, if repeats { 0 } else { self.own(entry) })
    }

    /// Bytes of an entry's cell that it does not share.
    fn own(&self, entry: &Entry<'_, Bytes>) -> usize {
        let suffix = entry.key.normal_length().saturating_sub(self.prefix + HEAD);
        self.layout.cell_size(suffix, entry.key.payload.len())
    }
}
