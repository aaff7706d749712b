//! The external jump-pointer array (§2.2, §3.3): the leaf pages' numbers in order, in a linked list of chunks with
//! empty slots spread over them. A chunk is a page. Each leaf page knows the chunk that it is in, so that a split of it
//! touches that chunk only.

use super::layout::{Array, Page, get_u32, integers, put_u32};
use super::load::{even_parts, filled};
use crate::pool::{Block, NO_BLOCK, Pool};

/// A chunk is the number of the next chunk, and slots, some of them empty.
const SLOTS: Array = Array { start: 4, size: 4 };
const EMPTY: u32 = NO_BLOCK;

fn next(chunk: &[u8]) -> Block {
    get_u32(chunk, 0)
}

fn slots(chunk: &[u8]) -> &[u32] {
    integers(&chunk[SLOTS.start..])
}

/// Makes the array for these leaf pages, its chunks filled as far as `fill` says.
pub fn load(pool: &mut Pool, leaf_pages: &[Block], fill: f64) {
    let room = slots(&vec![0; pool.page_size()]).len();
    let mut following = NO_BLOCK;
    let parts: Vec<_> = even_parts(leaf_pages.len(), filled(room, fill)).collect();
    for part in parts.into_iter().rev() {
        let chunk = pool.allocate();
        write(pool.page_mut(chunk), following, &leaf_pages[part.clone()]);
        assign(pool, chunk, &leaf_pages[part]);
        following = chunk;
    }
}

/// Adds a leaf page that follows the leaf page `after`.
pub fn insert(pool: &mut Pool, after: Block, leaf_page: Block) {
    let chunk = Page(pool.page(after)).chunk();
    if insert_into(pool.page_mut(chunk), after, leaf_page) {
        assign(pool, chunk, &[leaf_page]);
    } else {
        split(pool, chunk);
        insert(pool, after, leaf_page);
    }
}

/// The leaf pages from `first` to `last`.
pub fn list(pool: &mut Pool, first: Block, last: Block) -> Vec<Block> {
    let mut listed = Vec::new();
    let mut chunk = Page(pool.page(first)).chunk();
    loop {
        let page = pool.page(chunk);
        for &leaf_page in slots(page) {
            if leaf_page == EMPTY || listed.is_empty() && leaf_page != first {
                continue;
            }
            listed.push(leaf_page);
            if leaf_page == last {
                return listed;
            }
        }
        chunk = next(page);
    }
}

/// Makes a chunk of these leaf pages.
fn write(chunk: &mut [u8], following: Block, leaf_pages: &[Block]) {
    put_u32(chunk, 0, following);
    chunk[SLOTS.start..].fill(u8::MAX);
    let room = slots(chunk).len();
    for (number, &leaf_page) in leaf_pages.iter().enumerate() {
        put_u32(chunk, SLOTS.at(number * room / leaf_pages.len()), leaf_page);
    }
}

/// Tells leaf pages which chunk they are in.
fn assign(pool: &mut Pool, chunk: Block, leaf_pages: &[Block]) {
    for &leaf_page in leaf_pages {
        Page(pool.page_mut(leaf_page)).set_chunk(chunk);
    }
}

/// Adds a leaf page to a chunk if there is an empty slot, the nearest of which is used: what is between moves by one.
fn insert_into(chunk: &mut [u8], after: Block, leaf_page: Block) -> bool {
    let slots = slots(chunk);
    let at = slots.iter().position(|&other| other == after).expect("a leaf page in its chunk");
    let left = slots[..at].iter().rposition(|&other| other == EMPTY);
    let right = slots[at..].iter().position(|&other| other == EMPTY).map(|distance| at + distance);
    match left.into_iter().chain(right).min_by_key(|gap| gap.abs_diff(at)) {
        None => return false,
        Some(left) if left < at => {
            SLOTS.shift(chunk, left + 1..at + 1, left);
            put_u32(chunk, SLOTS.at(at), leaf_page);
        }
        Some(right) => {
            SLOTS.shift(chunk, at + 1..right, at + 2);
            put_u32(chunk, SLOTS.at(at + 1), leaf_page);
        }
    }
    true
}

/// Moves the second half of a full chunk to a new one, which follows it.
fn split(pool: &mut Pool, chunk: Block) {
    let page = pool.page(chunk);
    let (following, leaf_pages) = (next(page), slots(page).to_vec());
    let (stay, go) = leaf_pages.split_at(leaf_pages.len() / 2);
    let new = pool.allocate();
    write(pool.page_mut(new), following, go);
    write(pool.page_mut(chunk), new, stay);
    assign(pool, new, go);
}
