//! Prefetch policies: which lines of a node are asked for before it is used, and in what order (thesis §5.3).

use super::hint::Hint;
use super::node::{COUNT, Layout, Line};
use std::collections::VecDeque;
use std::hint::black_box;
use std::marker::PhantomData;

/// A policy, chosen at compile time.
pub trait Policy {
    /// What it is called.
    const NAME: &'static str;

    /// The policy, and the tables it needs, for nodes of this layout.
    fn new(layout: Layout) -> Self;

    /// Prefetches a node.
    fn prefetch<H: Hint>(&self, node: &[Line]);
}

/// Every line is waited for when it is first read.
pub struct NoPrefetch;

impl Policy for NoPrefetch {
    const NAME: &'static str = "none";

    fn new(_: Layout) -> Self {
        NoPrefetch
    }

    #[inline(always)]
    fn prefetch<H: Hint>(&self, _: &[Line]) {}
}

/// All lines, left to right. How many is known to the compiler, which therefore needs no loop.
pub struct Linear;

impl Policy for Linear {
    const NAME: &'static str = "linear";

    fn new(_: Layout) -> Self {
        Linear
    }

    #[inline(always)]
    fn prefetch<H: Hint>(&self, node: &[Line]) {
        node.iter().for_each(H::prefetch);
    }
}

/// All lines, left to right, in a loop of one line a turn (thesis §5.2).
pub struct Looped;

impl Policy for Looped {
    const NAME: &'static str = "regular loop";

    fn new(_: Layout) -> Self {
        Looped
    }

    #[inline(always)]
    fn prefetch<H: Hint>(&self, node: &[Line]) {
        // The compiler does not know how many lines there are, and so leaves the loop as it is.
        node[..black_box(node.len())].iter().for_each(H::prefetch);
    }
}

/// All lines, left to right, in a loop of eight lines a turn, and then what is left: what Duff's device is for (thesis
/// §5.2, Figure 5.3).
pub struct Unrolled;

impl Policy for Unrolled {
    const NAME: &'static str = "unrolled loop";

    fn new(_: Layout) -> Self {
        Unrolled
    }

    #[inline(always)]
    fn prefetch<H: Hint>(&self, node: &[Line]) {
        let (eights, rest) = node[..black_box(node.len())].as_chunks::<8>();
        eights.iter().for_each(|eight| eight.iter().for_each(H::prefetch));
        rest.iter().for_each(H::prefetch);
    }
}

/// Some lines at once, and when the header has arrived, those of the others that have entries.
pub struct Selective<O> {
    first: Box<[u16]>,
    /// By how many entries the node has.
    rest: Box<[Box<[u16]>]>,
    order: PhantomData<O>,
}

/// Header and first half of the keys; then the other keys and all pointers, left to right.
pub type HalfLinear = Selective<HalfLinearOrder>;
/// Nothing before the header is there; then keys, and then pointers, in the order in which a binary search may need
/// them.
pub type Binary = Selective<BinaryOrder>;
/// Header and first halves of keys and pointers, then what is left; each in the order of a binary search.
pub type HalfBinary = Selective<HalfBinaryOrder>;

/// Which lines a [`Selective`] policy wants. It asks for none twice.
pub trait Order {
    /// What the policy is called.
    const NAME: &'static str;

    /// The lines to prefetch before it is known how many entries a node has.
    fn first(layout: Layout) -> Vec<usize>;

    /// All lines that are wanted of a node with `count` entries.
    fn all(layout: Layout, count: usize) -> Vec<usize>;
}

impl<O: Order> Policy for Selective<O> {
    const NAME: &'static str = O::NAME;

    fn new(layout: Layout) -> Self {
        let first = without(&[], O::first(layout));
        // Reading the header brings its line, whether it was prefetched or not.
        let known = [&[0], &first[..]].concat();
        let rest = (0..=layout.capacity).map(|count| without(&known, O::all(layout, count))).collect();
        Selective { first, rest, order: PhantomData }
    }

    #[inline(always)]
    fn prefetch<H: Hint>(&self, node: &[Line]) {
        self.first.iter().for_each(|&line| H::prefetch(&node[line as usize]));
        let count = node[0][COUNT] as usize;
        self.rest[count].iter().for_each(|&line| H::prefetch(&node[line as usize]));
    }
}

/// Lines in their order, each once, except those that are known.
fn without(known: &[u16], lines: Vec<usize>) -> Box<[u16]> {
    let mut distinct = Vec::new();
    for line in lines {
        let line = u16::try_from(line).expect("a node of reasonable width");
        if !known.contains(&line) && !distinct.contains(&line) {
            distinct.push(line);
        }
    }
    distinct.into()
}

/// The places that a binary search of `count` keys may look at, breadth first.
fn probes(count: usize) -> Vec<usize> {
    let (mut ranges, mut order) = (VecDeque::from([(0, count)]), Vec::new());
    while let Some((from, to)) = ranges.pop_front() {
        if from < to {
            let middle = (from + to) / 2;
            order.push(middle);
            ranges.extend([(from, middle), (middle + 1, to)]);
        }
    }
    order
}

/// The lines of the keys at these places, and then of the pointers.
fn lines(layout: Layout, places: &[usize]) -> Vec<usize> {
    let keys = places.iter().flat_map(|&at| layout.key_lines(at));
    keys.chain(places.iter().map(|&at| layout.pointer_line(at))).collect()
}

/// The order of [`HalfLinear`].
pub struct HalfLinearOrder;

impl Order for HalfLinearOrder {
    const NAME: &'static str = "half-linear";

    fn first(layout: Layout) -> Vec<usize> {
        (0..=*layout.key_lines(layout.capacity / 2 - 1).end()).collect()
    }

    fn all(layout: Layout, count: usize) -> Vec<usize> {
        lines(layout, &Vec::from_iter(0..count))
    }
}

/// The order of [`Binary`].
pub struct BinaryOrder;

impl Order for BinaryOrder {
    const NAME: &'static str = "binary";

    fn first(_: Layout) -> Vec<usize> {
        Vec::new()
    }

    fn all(layout: Layout, count: usize) -> Vec<usize> {
        lines(layout, &probes(count))
    }
}

/// The order of [`HalfBinary`].
pub struct HalfBinaryOrder;

impl Order for HalfBinaryOrder {
    const NAME: &'static str = "half-binary";

    fn first(layout: Layout) -> Vec<usize> {
        let mut first = vec![0];
        first.extend(lines(layout, &probes(layout.capacity / 2)));
        first
    }

    fn all(layout: Layout, count: usize) -> Vec<usize> {
        BinaryOrder::all(layout, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::pb::node::{LINE_WORDS, PLAIN_HEADER};
    use std::cell::RefCell;

    thread_local!(static ASKED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) });

    /// Remembers the lines it was asked for.
    struct Recorder;

    impl Hint for Recorder {
        const NAME: &'static str = "recorder";

        fn prefetch(line: &Line) {
            ASKED.with_borrow_mut(|asked| asked.push(line.as_ptr() as usize));
        }
    }

    const WIDTH: usize = 8;

    /// The lines that a policy asks for, in order.
    fn asked<P: Policy>(count: usize) -> Vec<usize> {
        let mut node = [[0; LINE_WORDS]; WIDTH];
        node[0][COUNT] = count as u32;
        P::new(Layout::new(WIDTH, PLAIN_HEADER, 1)).prefetch::<Recorder>(&node);
        let start = node.as_ptr() as usize;
        ASKED.take().into_iter().map(|address| (address - start) / size_of::<Line>()).collect()
    }

    /// The lines that entries are in. The header is in the first.
    fn used(count: usize) -> Vec<usize> {
        let mut used = vec![0];
        used.extend(lines(Layout::new(WIDTH, PLAIN_HEADER, 1), &Vec::from_iter(0..count)));
        used.sort();
        used.dedup();
        used
    }

    fn sorted(mut lines: Vec<usize>) -> Vec<usize> {
        lines.sort();
        lines
    }

    #[test]
    fn selective_policies_ask_for_what_is_used() {
        let capacity = Layout::new(WIDTH, PLAIN_HEADER, 1).capacity;
        for count in capacity / 2..=capacity {
            assert_eq!(sorted(asked::<HalfLinear>(count)), used(count), "{count}");
            assert_eq!(sorted(asked::<HalfBinary>(count)), used(count), "{count}");
            let mut binary = asked::<Binary>(count);
            assert!(!binary.contains(&0), "the header is read before");
            binary.push(0);
            assert_eq!(sorted(binary), used(count), "{count}");
        }
    }

    #[test]
    fn lines_come_in_the_order_of_the_policy() {
        assert_eq!(asked::<NoPrefetch>(63), []);
        assert_eq!(asked::<Linear>(0), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(asked::<Looped>(0), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(asked::<Unrolled>(0), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(asked::<HalfLinear>(1), [0, 1, 2, 4]);
        assert_eq!(asked::<HalfLinear>(63), [0, 1, 2, 3, 4, 5, 6, 7]);
        // The keys at 31, 15 and 47 come first, which are in lines 2, 1 and 3, and the last key is alone in line 4.
        assert_eq!(asked::<Binary>(63), [2, 1, 3, 4, 6, 5, 7]);
        assert_eq!(asked::<HalfBinary>(63), [0, 1, 2, 5, 4, 3, 6, 7]);
    }

    #[test]
    fn a_binary_search_looks_at_the_middle_first() {
        assert_eq!(probes(7), [3, 1, 5, 0, 2, 4, 6]);
        assert_eq!(probes(0), []);
    }
}
