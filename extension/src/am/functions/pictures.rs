//! `fpbtree_picture` and `fpbtree_map`: a page and an index, drawn.

use core::fmt::{Arguments, Write};
use core::mem::MaybeUninit;

use fpbtree_engine::format::{FORMAT, LaneKind, MAX_PAGE_NODES, Position};
use fpbtree_engine::page::{LogKind, Meta, Page, Side, Sight};
use fpbtree_engine::picture::{MapView, Named, PageView, draw_map, draw_named, draw_page};
use fpbtree_engine::store::PageStore;
use fpbtree_engine::tree::LevelMap;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, FunctionCallInfo, Oid, Relation};

use super::inside::{Copied, open};
use super::opened::{OpenedIndex, Privilege};
use super::result::{argument, version_1};
use super::shown::Shower;
use crate::pg::memory::zeroed_values;
use crate::pg::text::GrowingText;
use crate::storage::buffers::PgStore;
use crate::storage::index::Index;
use crate::storage::tree::tree;
use crate::values::keys::{Keyed, with_keys};

version_1!(pg_finfo_fpbtree_picture_wrapper);
version_1!(pg_finfo_fpbtree_map_wrapper);

/// `fpbtree_picture(index, block)`: a page as SVG.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_picture_wrapper(call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares.
    unsafe {
        let opened = open(call);
        let index = Index::of(opened.index);
        let mut out = GrowingText::new();
        with_keys!(index.kind, K => {
            let copy = Copied::<K>::new(opened.index, &index, argument(call, 1));
            put_picture(&copy, copy.look(), &mut out);
        });
        let picture = out.to_datum();
        opened.close();
        picture
    }
}

/// `fpbtree_map(index)`: an index as SVG.
///
/// # Safety
/// Called by the server.
#[unsafe(no_mangle)]
#[pg_guard]
pub unsafe extern "C-unwind" fn fpbtree_map_wrapper(call: FunctionCallInfo) -> Datum {
    // SAFETY: called by the server, as the install script declares. The maps of levels are made before they are looked at.
    unsafe {
        let index = Oid::from(argument(call, 0).value() as u32);
        let opened = OpenedIndex::new(index, pg_sys::AccessShareLock, Privilege::Read);
        let (index, name) = (Index::of(opened.index), name_of(opened.index));
        let store = PgStore::new(opened.index, core::ptr::null_mut());
        let levels: &[LevelMap] = with_keys!(index.kind, K => {
            let columns = Index::columns::<K>(opened.index);
            let tree = tree::<K>(&store, &index, &columns);
            let count = usize::from(store.expect(tree.root_level())) + 1;
            let levels = zeroed_values::<MaybeUninit<LevelMap>>(pg_sys::CurrentMemoryContext, count);
            for (level, map) in levels.iter_mut().rev().enumerate() {
                store.expect(tree.map(map.write(LevelMap::new(level as u8))));
            }
            levels.assume_init_ref()
        });
        let mut out = GrowingText::new();
        // What is written to takes everything.
        let _ = draw_map(&MapView { index: name, levels, blocks: store.block_count().into() }, &mut out);
        let picture = out.to_datum();
        opened.close();
        picture
    }
}

/// An index's name.
unsafe fn name_of(rel: Relation) -> &'static str {
    // SAFETY: an open relation's name is a C string. It is drawn before the function's memory goes.
    unsafe {
        let mut name = GrowingText::new();
        name.put_c_str((*(*rel).rd_rel).relname.data.as_ptr());
        name.into_str()
    }
}

/// Text for a picture.
unsafe fn words(words: Arguments<'_>) -> &'static str {
    // SAFETY: it is drawn before the function's memory goes.
    unsafe {
        let mut text = GrowingText::new();
        let _ = text.write_fmt(words);
        text.into_str()
    }
}

unsafe fn put_picture<K: Keyed>(copy: &Copied<'_, K>, sight: Sight<'_, K>, out: &mut GrowingText) {
    // SAFETY: no frame here owns a destructor.
    unsafe {
        let index = name_of(copy.rel);
        let mut put = |kind, facts: &[(&str, &str)]| {
            let _ = draw_named(&Named { index, block: copy.block, kind, facts }, out);
        };
        match sight {
            Sight::Meta(meta) => put("meta page", &facts_of(&meta)),
            Sight::New => put("new page", &[("state", "never written, may be used")]),
            Sight::Deleted(level) => put(
                "deleted page",
                &[("level", words(format_args!("{level}"))), ("state", "deleted by VACUUM, will be used again")],
            ),
            Sight::Live(page) => put_page(copy, &page, index, out),
        }
    }
}

/// What an index's meta page says.
unsafe fn facts_of(meta: &Meta) -> [(&'static str, &'static str); 7] {
    let keys = match meta.shape.lane_kind() {
        LaneKind::U32 => "lanes of 32 bits",
        LaneKind::U64 => "lanes of 64 bits",
        LaneKind::U128 => "lanes of 128 bits",
        LaneKind::Prefix => "byte strings",
        LaneKind::PrefixPayload => "byte strings, entries with payloads",
    };
    let [(w, x), (inner_w, inner_x)] = [meta.geometry.leaf, meta.geometry.inner].map(|layout| layout.widths());
    // SAFETY: drawn before the function's memory goes.
    unsafe {
        let log = match meta.log {
            LogKind::Generic => meta.log.name(),
            LogKind::Own { manager } => words(format_args!("{}, resource manager {manager}", meta.log.name())),
        };
        [
            ("format", words(format_args!("{FORMAT}"))),
            ("build id", words(format_args!("{:016x}", meta.geometry.build_id))),
            ("keys", keys),
            ("key columns", words(format_args!("{}", meta.shape.columns()))),
            ("leaves", words(format_args!("in-page root of {w} lines, nodes of {x}"))),
            ("inner pages", words(format_args!("in-page root of {inner_w} lines, nodes of {inner_x}"))),
            ("log", log),
        ]
    }
}

/// Draws a page of the tree.
unsafe fn put_page<K: Keyed>(copy: &Copied<'_, K>, page: &Page<'_, K>, index: &str, out: &mut GrowingText) {
    let about = page.describe();
    // SAFETY: no frame here owns a destructor; texts are drawn before the function's memory goes.
    unsafe {
        let mut shower = Shower::<K>::new(copy.rel, copy.columns.clone());
        let [low, high] = [Side::Low, Side::High].map(|side| shower.fence(page, side).map(|text| text.into_str()));
        let mut firsts = [""; MAX_PAGE_NODES];
        for (node, first) in firsts[..about.nodes.len()].iter_mut().enumerate() {
            let mut text = GrowingText::new();
            if let Some(entry) = page.entry(Position { node: node as u8, slot: 0 }) {
                shower.put_key(about.level, &entry, &mut text);
            }
            *first = text.into_str();
        }
        let view = PageView { index, block: copy.block, page: &about, low, high, firsts: &firsts };
        let _ = draw_page(&view, out);
    }
}
