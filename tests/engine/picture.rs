//! What pages and indexes are described as, and drawn as, beside what they hold.

use crate::common::bytes::Taste;
use crate::common::*;
use fpbtree_engine::format::{Block, Lane, META, PAGE_SIZE, PageBytes, ROOT};
use fpbtree_engine::keys::digits::DigitKind;
use fpbtree_engine::page::{Page, Sight, look};
use fpbtree_engine::picture::{MapView, Named, PageView, draw_map, draw_named, draw_page};
use fpbtree_engine::store::PageStore;
use fpbtree_engine::store::memory::MemoryStore;
use fpbtree_engine::tree::LevelMap;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

/// How many elements there are of each name and class, of XML that is well-formed, and ASCII.
fn elements(svg: &str) -> BTreeMap<String, usize> {
    assert!(svg.is_ascii() && svg.bytes().all(|byte| byte == b'\n' || byte >= b' '), "other than printable ASCII");
    let (mut counts, mut open, mut rest) = (BTreeMap::new(), Vec::new(), svg);
    while let Some((text, behind)) = rest.split_once('<') {
        assert!(!text.contains('>') && (!open.is_empty() || text.trim().is_empty()), "{text}");
        for reference in text.split('&').skip(1) {
            let (name, _) = reference.split_once(';').expect("a reference ends");
            let is_number = name.strip_prefix('#').is_some_and(|number| number.parse::<u32>().is_ok());
            assert!(is_number || ["amp", "lt", "gt", "quot"].contains(&name), "&{name};");
        }
        let (tag, behind) = behind.split_once('>').expect("a tag ends");
        rest = behind;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "what is open ends");
            continue;
        }
        let name = tag.split([' ', '/']).next().expect("a tag has a name");
        assert!(!name.is_empty() && tag.matches('"').count().is_multiple_of(2), "<{tag}>");
        let class =
            tag.split_once("class=\"").and_then(|(_, class)| class.split_once('"')).map_or("", |(class, _)| class);
        *counts.entry(format!("{name}.{class}")).or_insert(0) += 1;
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} are open, {rest} is behind");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "a number is none");
    counts
}

/// Draws a page, and checks that the picture shows what the page has.
fn check_picture(block: Block, page: &fpbtree_engine::page::Description) {
    let firsts: Vec<String> = page.nodes.iter().map(|node| format!("<{}> & \u{fc}", node.lowest)).collect();
    let firsts: Vec<&str> = firsts.iter().map(String::as_str).collect();
    let view = PageView { index: "a \"b\" <c>", block, page, low: None, high: Some("(\u{1f333}, 1)"), firsts: &firsts };
    let mut svg = String::new();
    draw_page(&view, &mut svg).expect("a string takes all");
    let counts = elements(&svg);
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    let nodes = page.nodes.len();
    assert_eq!(count("path.line"), nodes, "a line to each node");
    assert_eq!(count("rect.edge"), 2 * nodes + 1, "each node twice, and the strip");
    assert!(count("rect.head") >= page.nodes.iter().filter(|node| !node.heads_at.is_empty()).count());
    let runs = |dead: u128| (dead & !(dead << 1)).count_ones() as usize;
    let runs: usize = page.nodes.iter().map(|node| runs(node.dead)).sum();
    assert_eq!(count("rect.dead"), runs + usize::from(page.level == 0), "the dead, and what their colour means");
}

/// Checks what a page is described as.
fn check_page<M: KeyMaker>(taste: &M, bed: &AnyBed<M>, block: Block, bytes: &PageBytes) {
    let sight = look::<M::Keys>(bytes, &bed.meta.geometry, block, taste.ranks(), taste.order());
    let page: Page<'_, M::Keys> = match sight.expect("a sound page") {
        Sight::Meta(meta) => return assert!(block == META && meta == bed.meta),
        Sight::New => return assert!(bytes.iter().all(|&byte| byte == 0)),
        Sight::Deleted(_) => return,
        Sight::Live(page) => page,
    };
    let about = page.describe();
    assert_eq!((about.level, about.left, about.right), (page.level(), page.left(), page.right()));
    assert_eq!((about.entries(), about.nodes.len()), (page.entries(), page.nodes()));
    assert!((about.fill() - page.fill()).abs() < 1e-9 && about.used + about.free() == about.room);
    let dead = page.iter().filter(|entry| entry.tid.dead() && page.level() == 0).count();
    assert_eq!(about.dead(), dead);
    let listed: Vec<_> = page.listing().collect();
    assert_eq!(listed.len(), page.entries());
    for (number, node) in about.nodes.iter().enumerate() {
        assert_eq!(listed.iter().filter(|listed| listed.node == number).count(), node.entries);
        assert!(node.heads <= node.entries && (node.is_grouped || node.heads == node.entries));
        let inside = node.place.start <= node.heads_at.start && node.heads_at.end <= node.tids_at.start;
        assert!(inside && node.tids_at.end == node.place.end && node.place.len() == about.node_size);
    }
    for (listed, entry) in listed.iter().zip(page.iter()) {
        assert_eq!((listed.entry.tid, listed.entry.child), (entry.tid, entry.child));
    }
    let of_entries: usize = listed.iter().map(|listed| listed.bytes).sum();
    let fences = about.used - of_entries;
    assert!(fences <= about.live_cells && (fences == 0 || !about.cells.is_empty()), "{fences} bytes of fences");
    check_picture(block, &about);
}

fn check_map<M: KeyMaker>(bed: &AnyBed<M>) {
    let (tree, census) = (bed.tree(), bed.tree().census().unwrap());
    let mut levels = vec![];
    for level in (0..census.levels as u8).rev() {
        let mut map = LevelMap::new(level);
        tree.map(&mut map).expect("a sound tree");
        levels.push(map);
    }
    let leaves = levels.last().unwrap().total();
    assert_eq!((leaves.pages, leaves.entries, leaves.dead), (census.leaf_pages, census.entries, census.dead_entries));
    assert!((leaves.fill - census.fill).abs() < 1e-6);
    let inner: u64 = levels.iter().rev().skip(1).map(|level| level.total().pages).sum();
    assert_eq!(inner, census.inner_pages);
    let children: u64 = levels.iter().rev().skip(1).map(|level| level.total().entries).sum();
    assert_eq!(children + 1, census.leaf_pages + census.inner_pages, "each page but the root is a child");

    let view = MapView { index: "<b>", levels: &levels, blocks: bed.store.block_count().into() };
    let mut svg = String::new();
    draw_map(&view, &mut svg).expect("a string takes all");
    let counts = elements(&svg);
    let cells: usize = levels.iter().map(|level| level.groups().len()).sum();
    assert_eq!(counts["title."], 1 + cells + LevelMap::BINS);
    assert_eq!(counts["rect.card"], levels.len() + 1);
}

/// An index of random rows, some of them dead, some removed.
fn some_index<M: KeyMaker>(taste: M, count: u64) {
    let mut random = StdRng::seed_from_u64(count);
    let mut bed = AnyBed::empty(taste, |pages| MemoryStore::new(pages, 4000));
    for number in 0..count {
        let row = bed.taste.random_row(&mut random, number);
        bed.add(row);
    }
    let mut places = Vec::new();
    for_each_leaf(bed.tree(), |block, page| {
        for number in 0..page.nodes() {
            let node = page.node(number);
            let dead = (0..node.len()).filter(|slot| (slot / 3 + number).is_multiple_of(2));
            places.extend(dead.map(|slot| (block, node.tid_at(slot) as u16)));
        }
    });
    places.retain(|(block, _)| block % 3 != 0);
    places.iter().for_each(|(block, place)| mark_in(&bed.store, *block, &[*place]));
    check_all(&bed);
    bed.vacuum(|tid| tid.block() % 3 > 0);
    check_all(&bed);
    damaged(&bed, &mut random);
}

fn check_all<M: KeyMaker>(bed: &AnyBed<M>) {
    for block in 0..bed.store.block_count() {
        check_page(&bed.taste, bed, block, &bed.store.copy(block));
    }
    check_map(bed);
}

/// Of a damaged page it is said that it is, or something that can be drawn.
fn damaged<M: KeyMaker>(bed: &AnyBed<M>, random: &mut StdRng) {
    for _ in 0..400 {
        let block = random.random_range(0..bed.store.block_count());
        let mut bytes = bed.store.copy(block);
        for _ in 0..random.random_range(1..4) {
            bytes[random.random_range(0..PAGE_SIZE)] ^= random.random_range(1..=255u8);
        }
        let sight = look::<M::Keys>(&bytes, &bed.meta.geometry, block, bed.taste.ranks(), bed.taste.order());
        if let Ok(Sight::Live(page)) = sight {
            check_picture(block, &page.describe());
            assert_eq!(page.listing().count(), page.entries());
        }
    }
}

fn of_lanes<L: Lane>() {
    for spread in [1 << 30, 50] {
        some_index(Lanes::<L>::new(exact(one_column::<L>(), normal::<L>()), spread), 9000);
        some_index(Lanes::<L>::small(spread), 2000);
    }
}

#[test]
fn indexes_of_lanes_are_drawn_as_they_are() {
    of_lanes::<u32>();
    of_lanes::<u64>();
    of_lanes::<u128>();
}

#[test]
fn indexes_of_byte_strings_are_drawn_as_they_are() {
    let mut random = StdRng::seed_from_u64(3);
    some_index(Taste::of_kinds(&[DigitKind::Text, DigitKind::Fixed(4)], 60, 1, 1000).carrying(5), 2500);
    for _ in 0..4 {
        some_index(Taste::random(&mut random, 80), 1500);
    }
}

#[test]
fn an_empty_index_is_drawn() {
    let bed = AnyBed::empty(Lanes::<u64>::small(7), |pages| MemoryStore::new(pages, 20));
    assert_eq!(bed.store.block_count(), ROOT + 1);
    check_all(&bed);
}

#[test]
fn a_page_outside_the_tree_is_drawn() {
    let facts = [("format", "2"), ("key <space>", "&")];
    let mut svg = String::new();
    draw_named(&Named { index: "i", block: 0, kind: "meta page", facts: &facts }, &mut svg).unwrap();
    assert_eq!(elements(&svg)["text.b"], facts.len());
}
