//! A page: its in-page tree above, the same bytes in the order of the file below.

use super::{Area, MARGIN, Many, Number, Percent, Short, Svg, WIDTH};
use crate::format::{Block, FIRST_LINE, LINE, PAGE_SIZE, SPACE_END, is_link};
use crate::page::{Description, NodeDescription};
use core::fmt::{self, Arguments, Write};
use core::ops::Range;

/// A page of the tree, and what keys are in words.
#[derive(Clone, Copy)]
pub struct PageView<'v> {
    /// The index's name.
    pub index: &'v str,
    /// The page's place in the file.
    pub block: Block,
    /// What is in it.
    pub page: &'v Description,
    /// The low fence; `None` before all keys.
    pub low: Option<&'v str>,
    /// The high fence; `None` behind all keys.
    pub high: Option<&'v str>,
    /// The first key of each node.
    pub firsts: &'v [&'v str],
}

/// A page that is not in the tree: what is said of it, a name and a value for each.
#[derive(Clone, Copy)]
pub struct Named<'v> {
    /// The index's name.
    pub index: &'v str,
    /// The page's place in the file.
    pub block: Block,
    /// What kind of page it is.
    pub kind: &'v str,
    /// What is known of it.
    pub facts: &'v [(&'v str, &'v str)],
}

/// Where things are in the picture.
struct Plan {
    card: Area,
    root: Area,
    /// The first node; the others are to the right of it, `step` from each other.
    node: Area,
    step: f64,
    strip: Area,
    height: f64,
}

/// The room on the left for what the rows below nodes are.
const LABELS: f64 = 92.0;
/// How high a node is drawn, at most.
const NODE_HEIGHT: f64 = 170.0;
/// How wide nodes are, at most.
const NODE_WIDTH: f64 = 66.0;
/// Letters of a key below its node, at most, and how much room each takes, turned upwards.
const KEY_LETTERS: usize = 28;
const LETTER: f64 = 6.7;
/// Where keys begin below nodes.
const BELOW: f64 = 68.0;
/// How wide nodes have to be for what is written below them to be beside each other.
const WIDE: f64 = 20.0;

impl Plan {
    fn of(view: &PageView<'_>) -> Plan {
        let page = view.page;
        let card = Area::new(MARGIN, 92.0, WIDTH - 2.0 * MARGIN, 0.0);
        let left = card.x + LABELS;
        let count = page.nodes.len().max(1) as f64;
        let step = ((card.width - LABELS - 16.0) / count).min(NODE_WIDTH + 14.0);
        let width = (step * 0.84).min(NODE_WIDTH);
        let lines = (page.node_size / LINE) as f64;
        let line = (NODE_HEIGHT / lines).min(34.0);
        let root_lines = (page.root.len() / LINE) as f64;
        let root_width = (root_lines * width).clamp(160.0, card.width - 500.0);
        // The same area for a byte, as far as there is room for that.
        let root_height = (root_lines * width * line / root_width).clamp(18.0, 46.0);
        let middle = card.x + card.width / 2.0;
        let root = Area::new(middle - root_width / 2.0, card.y + 52.0, root_width, root_height);
        let begin = left + (card.width - LABELS - 16.0 - step * count) / 2.0;
        let node = Area::new(begin + (step - width) / 2.0, root.y + root.height + 84.0, width, lines * line);
        let letters = view.firsts.iter().map(|first| first.chars().count().min(KEY_LETTERS)).max().unwrap_or(0);
        let keys = LETTER * letters as f64;
        let card = Area { height: node.y + node.height + BELOW + keys + 22.0 - card.y, ..card };
        let strip = Area::new(MARGIN, card.y + card.height + 68.0, WIDTH - 2.0 * MARGIN, 40.0);
        Plan { card, root, node, step, strip, height: strip.y + strip.height + 78.0 }
    }

    fn node(&self, number: usize) -> Area {
        Area { x: self.node.x + self.step * number as f64, ..self.node }
    }

    /// Where a byte is in the strip.
    fn byte(&self, at: usize) -> f64 {
        self.strip.x + self.strip.width * at as f64 / PAGE_SIZE as f64
    }

    fn bytes(&self, range: Range<usize>) -> Area {
        Area { x: self.byte(range.start), width: self.byte(range.end) - self.byte(range.start), ..self.strip }
    }
}

/// Draws a page of the tree.
pub fn draw_page(view: &PageView<'_>, out: &mut dyn Write) -> fmt::Result {
    let (page, plan) = (view.page, Plan::of(view));
    let mut svg = Svg::begin(out, plan.height, format_args!("{}, block {}", view.index, view.block))?;
    heading(&mut svg, view)?;
    svg.rect("card", plan.card, 10.0)?;
    fences(&mut svg, view, plan.card)?;
    root(&mut svg, page, &plan)?;
    for (number, node) in page.nodes.iter().enumerate() {
        link(&mut svg, &plan, number, page)?;
        draw_node(&mut svg, view, &plan, number, node)?;
    }
    row_labels(&mut svg, page, &plan)?;
    strip(&mut svg, page, &plan)?;
    legend(&mut svg, page, plan.height - 22.0)?;
    svg.end()
}

/// Draws a page that is not in the tree.
pub fn draw_named(named: &Named<'_>, out: &mut dyn Write) -> fmt::Result {
    let rows = named.facts.len() as f64;
    let card = Area::new(MARGIN, 92.0, WIDTH - 2.0 * MARGIN, 28.0 + 26.0 * rows);
    let mut svg =
        Svg::begin(out, card.y + card.height + MARGIN, format_args!("{}, block {}", named.index, named.block))?;
    svg.heading(named.index, format_args!("block {} \u{b7} {}", Number(named.block.into()), named.kind))?;
    svg.rect("card", card, 10.0)?;
    for (row, (name, value)) in named.facts.iter().enumerate() {
        let y = card.y + 32.0 + 26.0 * row as f64;
        svg.text("l", card.x + 24.0, y, format_args!("{name}"))?;
        svg.text("b", card.x + 220.0, y, format_args!("{}", Short(value, 120)))?;
    }
    svg.end()
}

fn heading(svg: &mut Svg<'_>, view: &PageView<'_>) -> fmt::Result {
    let page = view.page;
    let [kind, one, many] = match page.level {
        0 => ["leaf", "entry", "entries"],
        _ => ["inner page", "child", "children"],
    };
    let state = if page.is_incomplete { " \u{b7} split not finished" } else { "" };
    svg.heading(
        view.index,
        format_args!(
            "block {} \u{b7} {kind}, level {} \u{b7} {} {} in {}{}{state}",
            Number(view.block.into()),
            page.level,
            Number(page.entries() as u64),
            if page.entries() == 1 { one } else { many },
            Many(page.nodes.len() as u64, "node"),
            Dead(page.dead()),
        ),
    )?;
    let bar = Area::new(WIDTH - MARGIN - 220.0, 54.0, 220.0, 10.0);
    svg.rect("rest", bar, 5.0)?;
    svg.rect("root", Area { width: bar.width * page.fill().min(1.0), ..bar }, 5.0)?;
    let (used, room) = (Number(page.used as u64), Number(page.room as u64));
    svg.text("s r", WIDTH - MARGIN, 44.0, format_args!("{} full", Percent(page.fill())))?;
    svg.text("l r", WIDTH - MARGIN, 80.0, format_args!("{used} of {room} bytes"))
}

/// How many entries are dead, if any are.
struct Dead(usize);

impl fmt::Display for Dead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 0 { write!(f, " \u{b7} {} dead", Number(self.0 as u64)) } else { Ok(()) }
    }
}

/// The fences, and the pages behind them.
fn fences(svg: &mut Svg<'_>, view: &PageView<'_>, card: Area) -> fmt::Result {
    let low = view.low.unwrap_or("before all keys");
    side(svg, card, card.x, ("l", "b"), ("low fence: from", low))?;
    let high = view.high.unwrap_or("behind all keys");
    side(svg, card, card.x + card.width, ("l r", "b r"), ("high fence: below", high))?;
    let (left, right, y) = (card.x + 18.0, card.x + card.width - 18.0, card.y + 72.0);
    match is_link(view.page.left) {
        true => svg.text("l", left, y, format_args!("\u{2190} block {}", Number(view.page.left.into())))?,
        false => svg.text("l", left, y, format_args!("no left sibling"))?,
    }
    match is_link(view.page.right) {
        true => svg.text("l r", right, y, format_args!("block {} \u{2192}", Number(view.page.right.into()))),
        false => svg.text("l r", right, y, format_args!("no right sibling")),
    }
}

/// An edge of the card, and the fence there.
fn side(svg: &mut Svg<'_>, card: Area, edge: f64, classes: (&str, &str), (name, fence): (&str, &str)) -> fmt::Result {
    let x = if edge == card.x { edge + 18.0 } else { edge - 18.0 };
    svg.rect("root", Area::new(edge - 2.0, card.y + 16.0, 4.0, card.height - 32.0), 2.0)?;
    svg.text(classes.0, x, card.y + 30.0, format_args!("{name}"))?;
    svg.begin_group(format_args!("{fence}"))?;
    svg.text(classes.1, x, card.y + 51.0, format_args!("{}", Short(fence, 44)))?;
    svg.end_group()
}

fn root(svg: &mut Svg<'_>, page: &Description, plan: &Plan) -> fmt::Result {
    let (area, count) = (plan.root, page.nodes.len());
    svg.begin_group(format_args!(
        "in-page root: {} bytes, room for {} nodes, separators of {} bytes",
        page.root.len(),
        page.fanout,
        page.lane
    ))?;
    svg.rect("rest", area, 4.0)?;
    svg.rect("root", Area { width: area.width * count as f64 / page.fanout as f64, ..area }, 4.0)?;
    svg.text(
        "k c",
        area.x + area.width / 2.0,
        area.y - 8.0,
        format_args!("in-page root, {count} of {} nodes", page.fanout),
    )?;
    svg.end_group()
}

/// The line from the in-page root to a node.
fn link(svg: &mut Svg<'_>, plan: &Plan, number: usize, page: &Description) -> fmt::Result {
    let (root, node) = (plan.root, plan.node(number));
    let x = root.x + root.width * (number as f64 + 0.5) / page.fanout as f64;
    let (y, to, end) = (root.y + root.height, node.x + node.width / 2.0, node.y);
    let half = (y + end) / 2.0;
    svg.put(format_args!(
        "<path class=\"line\" d=\"M{x:.1} {y:.1}C{x:.1} {half:.1} {to:.1} {half:.1} {to:.1} {end:.1}\"/>\n"
    ))
}

fn draw_node(
    svg: &mut Svg<'_>,
    view: &PageView<'_>,
    plan: &Plan,
    number: usize,
    node: &NodeDescription,
) -> fmt::Result {
    let (area, first) = (plan.node(number), view.firsts.get(number).copied().unwrap_or(""));
    svg.begin_group(format_args!(
        "node {}: {}, {}, {} dead; lanes in {} bytes, {} in {}, from block {} on; {} of {} bytes free; first key {first}",
        number + 1,
        Many(node.entries as u64, "slot"),
        Many(node.heads as u64, if node.is_grouped { "shared head" } else { "head" }),
        node.dead.count_ones(),
        node.lane,
        if node.child > 0 { "children" } else { "TIDs" },
        if node.child > 0 { node.child } else { node.tid },
        node.lowest,
        node.tids_at.start - node.heads_at.end,
        node.place.len(),
    ))?;
    bands(svg, area, node, 3.0)?;
    dead(svg, area, node)?;
    svg.rect("edge", area, 3.0)?;
    below(svg, area, node, first)?;
    if area.width >= WIDE {
        // Where the line to the node does not come from.
        let is_left = area.x < plan.root.x + plan.root.width / 2.0;
        let (class, x) = if is_left { ("k", area.x + 1.0) } else { ("k r", area.x + area.width - 1.0) };
        svg.text(class, x, area.y - 5.0, format_args!("{}", number + 1))?;
    }
    svg.end_group()
}

/// What of a node's area its parts take, from above in the order of its bytes.
fn bands(svg: &mut Svg<'_>, area: Area, node: &NodeDescription, radius: f64) -> fmt::Result {
    let part = |range: &Range<usize>| {
        let scale = area.height / node.place.len() as f64;
        let from = (range.start - node.place.start) as f64 * scale;
        Area { y: area.y + from, height: range.len() as f64 * scale, ..area }
    };
    svg.rect("free", area, radius)?;
    svg.rect("root", part(&(node.place.start..node.heads_at.start)), 0.0)?;
    svg.rect("head", part(&node.heads_at), 0.0)?;
    svg.rect("tid", part(&node.tids_at), 0.0)
}

/// The TIDs of entries that are dead.
fn dead(svg: &mut Svg<'_>, area: Area, node: &NodeDescription) -> fmt::Result {
    let scale = area.height / node.place.len() as f64;
    let (tid, start) = (node.tid as f64 * scale, (node.tids_at.start - node.place.start) as f64 * scale);
    let mut slot = 0;
    while slot < node.entries {
        let run = (!(node.dead >> slot)).trailing_zeros() as usize;
        if run > 0 {
            let y = area.y + start + tid * slot as f64;
            svg.rect("dead", Area { y, height: (tid * run as f64).max(0.6), ..area }, 0.0)?;
        }
        slot += run.max(1);
    }
    Ok(())
}

/// What is written below a node.
fn below(svg: &mut Svg<'_>, area: Area, node: &NodeDescription, first: &str) -> fmt::Result {
    let (middle, y) = (area.x + area.width / 2.0, area.y + area.height);
    if area.width >= WIDE {
        svg.text("b c", middle, y + 18.0, format_args!("{}", node.entries))?;
        let pointer = if node.child > 0 { node.child } else { node.tid };
        svg.text("k c", middle, y + 35.0, format_args!("{}", node.heads))?;
        svg.text("k c", middle, y + 52.0, format_args!("{}+{pointer}", node.lane))?;
    }
    svg.put(format_args!("<g transform=\"translate({:.1} {:.1})rotate(-90)\">", middle + 4.0, y + BELOW))?;
    svg.text("k m r", 0.0, 0.0, format_args!("{}", Short(first, KEY_LETTERS)))?;
    svg.put(format_args!("</g>\n"))
}

fn row_labels(svg: &mut Svg<'_>, page: &Description, plan: &Plan) -> fmt::Result {
    let (x, y) = (plan.card.x + 18.0, plan.node.y + plan.node.height);
    let pointer = if page.level == 0 { "TID" } else { "child" };
    if plan.node.width >= WIDE {
        svg.text("l", x, y + 18.0, format_args!("{}", if page.level == 0 { "entries" } else { "children" }))?;
        svg.text("l", x, y + 35.0, format_args!("heads"))?;
        svg.text("l", x, y + 52.0, format_args!("lane+{pointer}"))?;
    }
    svg.text("l", x, y + BELOW + 11.0, format_args!("first key"))?;
    svg.text("l", x, plan.node.y + 12.0, format_args!("nodes of"))?;
    svg.text("l", x, plan.node.y + 28.0, format_args!("{} bytes", page.node_size))
}

/// All of the page in the order of the file.
fn strip(svg: &mut Svg<'_>, page: &Description, plan: &Plan) -> fmt::Result {
    let area = plan.strip;
    svg.text("b", area.x, area.y - 26.0, format_args!("The same bytes in the order of the file"))?;
    svg.rect("free", area, 3.0)?;
    segment(svg, plan, "rest", 0..LINE.max(64), format_args!("header"))?;
    segment(svg, plan, "rest", 64..FIRST_LINE * LINE, format_args!("fences"))?;
    segment(svg, plan, "root", page.root.clone(), format_args!("in-page root"))?;
    for (number, node) in page.nodes.iter().enumerate() {
        svg.begin_group(format_args!("node {}, bytes {} to {}", number + 1, node.place.start, node.place.end - 1))?;
        segment_of_node(svg, plan, number, node)?;
        svg.end_group()?;
    }
    let live = page.cells.end - page.live_cells.min(page.cells.len());
    segment(svg, plan, "lost", page.cells.start..live, format_args!("cells that nothing refers to"))?;
    segment(svg, plan, "cell", live..page.cells.end, format_args!("cells: what of keys is not in nodes"))?;
    segment(svg, plan, "rest", SPACE_END..PAGE_SIZE, format_args!("special space"))?;
    svg.rect("edge", area, 3.0)?;
    scale(svg, plan)
}

fn segment(svg: &mut Svg<'_>, plan: &Plan, class: &str, range: Range<usize>, what: Arguments<'_>) -> fmt::Result {
    svg.begin_group(format_args!("{what}, {} bytes", range.len()))?;
    svg.rect(class, plan.bytes(range), 0.0)?;
    svg.end_group()
}

/// A node in the strip, with its number in key order: nodes are there in the order in which they were made.
fn segment_of_node(svg: &mut Svg<'_>, plan: &Plan, number: usize, node: &NodeDescription) -> fmt::Result {
    svg.rect("root", plan.bytes(node.place.start..node.heads_at.start), 0.0)?;
    svg.rect("head", plan.bytes(node.heads_at.clone()), 0.0)?;
    svg.rect("tid", plan.bytes(node.tids_at.clone()), 0.0)?;
    let area = plan.bytes(node.place.clone());
    svg.rect("edge", area, 0.0)?;
    if area.width >= 14.0 {
        svg.text("k c", area.x + area.width / 2.0, area.y - 6.0, format_args!("{}", number + 1))?;
    }
    Ok(())
}

fn scale(svg: &mut Svg<'_>, plan: &Plan) -> fmt::Result {
    let y = plan.strip.y + plan.strip.height;
    for at in (0..=PAGE_SIZE).step_by(PAGE_SIZE / 8) {
        let x = plan.byte(at);
        svg.put(format_args!("<path class=\"edge\" d=\"M{x:.1} {:.1}v5\"/>\n", y + 1.0))?;
        let class = if at == 0 {
            "k"
        } else if at == PAGE_SIZE {
            "k r"
        } else {
            "k c"
        };
        svg.text(class, x, y + 18.0, format_args!("{}", Number(at as u64)))?;
    }
    Ok(())
}

fn legend(svg: &mut Svg<'_>, page: &Description, y: f64) -> fmt::Result {
    const FRAMES: (&str, &str) = ("root", "in-page root, frames");
    const CELLS: [(&str, &str); 2] = [("cell", "cells: the rest of the keys"), ("lost", "dead cells")];
    const FREE: (&str, &str) = ("free", "free");
    let parts = match page.level {
        0 => [FRAMES, ("head", "heads: lanes of keys"), ("tid", "TIDs"), ("dead", "TIDs of dead entries")],
        _ => [FRAMES, ("head", "heads: lanes of keys, children"), ("tid", "TIDs that break ties"), FREE],
    };
    let rest: &[(&str, &str)] = match (page.level, page.cells.is_empty()) {
        (0, true) => &[FREE],
        (0, false) => &[CELLS[0], CELLS[1], FREE],
        (_, true) => &[],
        (_, false) => &CELLS,
    };
    let x = svg.legend(MARGIN, y, &parts)?;
    svg.legend(x, y, rest).map(drop)
}
