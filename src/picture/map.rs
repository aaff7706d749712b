//! An index: a band for each level, a cell for each page or group of pages, coloured by how full they are.

use super::{Area, MARGIN, Many, Number, Percent, Svg, WIDTH};
use crate::tree::{Group, LevelMap};
use core::fmt::{self, Display, Formatter, Write};

/// An index, and what its file has besides.
#[derive(Clone, Copy)]
pub struct MapView<'v> {
    /// The index's name.
    pub index: &'v str,
    /// The levels, that of the root first.
    pub levels: &'v [LevelMap],
    /// Pages of the file, those of the index that are free and the meta page among them.
    pub blocks: u64,
}

/// How a level's cells are laid out.
struct Grid {
    columns: usize,
    cell: Area,
    gap: f64,
}

/// What is left of a band for cells.
const INNER: f64 = WIDTH - 2.0 * MARGIN - 40.0;
/// Where the first band begins, and what is written above the cells of each.
const TOP: f64 = 96.0;
const BAND_HEAD: f64 = 44.0;
const BAND_FOOT: f64 = 18.0;
const BETWEEN: f64 = 14.0;
/// How high bars are.
const BARS: f64 = 96.0;

impl Grid {
    /// Few cells are large ones.
    fn of(level: &LevelMap) -> Grid {
        let (columns, height, gap) = match level.groups().len() {
            ..=36 => (36, 26.0, 3.0),
            37..=160 => (56, 20.0, 2.0),
            161..=480 => (80, 17.0, 1.5),
            _ => (120, 15.0, 1.0),
        };
        let step = INNER / columns as f64;
        Grid { columns, cell: Area::new(0.0, 0.0, step - gap, height), gap }
    }

    fn height(&self, cells: usize) -> f64 {
        cells.div_ceil(self.columns).max(1) as f64 * (self.cell.height + self.gap) - self.gap
    }

    /// A cell's area, in a band whose cells begin at a place. A single line is in the middle.
    fn area(&self, number: usize, of: usize, y: f64) -> Area {
        let (row, column) = (number / self.columns, number % self.columns);
        let (step, line) = (self.cell.width + self.gap, of.min(self.columns) as f64);
        let begin = (WIDTH - line * step + self.gap) / 2.0;
        Area { x: begin + step * column as f64, y: y + row as f64 * (self.cell.height + self.gap), ..self.cell }
    }
}

/// A colour for how full a page is.
struct Shade(f64);

/// Colours of pages that are so full, between which others are mixed.
const SHADES: [(f64, [u8; 3]); 6] = [
    (0.0, [253, 234, 205]),
    (0.3, [246, 205, 140]),
    (0.5, [196, 214, 158]),
    (0.7, [106, 190, 174]),
    (0.85, [52, 138, 178]),
    (1.0, [30, 82, 140]),
];

impl Display for Shade {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let fill = self.0.clamp(0.0, 1.0);
        let above = SHADES.iter().position(|(at, _)| fill <= *at).unwrap_or(SHADES.len() - 1).max(1);
        let ((low, from), (high, to)) = (SHADES[above - 1], SHADES[above]);
        let part = (fill - low) / (high - low);
        let mix = |at: usize| (f64::from(from[at]) + part * (f64::from(to[at]) - f64::from(from[at]))) as u8;
        write!(f, "#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
    }
}

/// Draws the map of an index.
pub fn draw_map(view: &MapView<'_>, out: &mut dyn Write) -> fmt::Result {
    let bands: f64 = view.levels.iter().map(|level| band_height(level) + BETWEEN).sum();
    let foot = TOP + bands;
    let mut svg = Svg::begin(out, foot + BARS + 86.0, format_args!("{}", view.index))?;
    heading(&mut svg, view)?;
    let mut y = TOP;
    for level in view.levels {
        band(&mut svg, level, y, level.level + 1 == view.levels.len() as u8)?;
        y += band_height(level) + BETWEEN;
    }
    if let Some(leaves) = view.levels.last() {
        bars(&mut svg, leaves, Area::new(MARGIN, foot, 420.0, BARS + 58.0))?;
    }
    legend(&mut svg, view, MARGIN + 460.0, foot + 26.0)?;
    svg.end()
}

fn band_height(level: &LevelMap) -> f64 {
    BAND_HEAD + Grid::of(level).height(level.groups().len()) + BAND_FOOT
}

fn heading(svg: &mut Svg<'_>, view: &MapView<'_>) -> fmt::Result {
    let leaves = view.levels.last().map(LevelMap::total);
    let pages: u64 = view.levels.iter().map(|level| level.total().pages).sum();
    // The meta page is in no level.
    let free = view.blocks.saturating_sub(pages + 1);
    let (entries, mean) = leaves.map_or((0, 0.0), |leaves| (leaves.entries, leaves.mean()));
    let (levels, pages) = (Many(view.levels.len() as u64, "level"), Many(pages, "page"));
    svg.heading(
        view.index,
        format_args!(
            "{levels} \u{b7} {pages} and {} free \u{b7} {} entries{} \u{b7} leaves {} full on the average",
            Number(free),
            Number(entries),
            Dead(leaves.map_or(0, |leaves| leaves.dead)),
            Percent(mean)
        ),
    )
}

/// How many entries are dead, if any are.
struct Dead(u64);

impl Display for Dead {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0 > 0 { write!(f, ", {} dead", Number(self.0)) } else { Ok(()) }
    }
}

fn band(svg: &mut Svg<'_>, level: &LevelMap, y: f64, is_top: bool) -> fmt::Result {
    svg.rect("card", Area::new(MARGIN, y, WIDTH - 2.0 * MARGIN, band_height(level)), 10.0)?;
    let total = level.total();
    let name = match (level.level, is_top) {
        (0, true) => "Level 0, the root is a leaf",
        (0, false) => "Level 0, leaves",
        (_, true) => "Level {}, the root",
        (_, false) => "Level {}",
    };
    let (before, behind) = name.split_once("{}").unwrap_or((name, ""));
    match name.contains("{}") {
        true => svg.text("b", MARGIN + 20.0, y + 27.0, format_args!("{before}{}{behind}", level.level))?,
        false => svg.text("b", MARGIN + 20.0, y + 27.0, format_args!("{name}"))?,
    }
    let (pages, full) = (Many(total.pages, "page"), Percent(total.mean()));
    match level.size() {
        1 => svg.text("l r", WIDTH - MARGIN - 20.0, y + 27.0, format_args!("{pages} \u{b7} {full} full"))?,
        size => svg.text(
            "l r",
            WIDTH - MARGIN - 20.0,
            y + 27.0,
            format_args!("{pages} \u{b7} {full} full \u{b7} a cell is {} pages", Number(size)),
        )?,
    }
    let (grid, groups) = (Grid::of(level), level.groups());
    groups
        .iter()
        .enumerate()
        .try_for_each(|(number, group)| cell(svg, grid.area(number, groups.len(), y + BAND_HEAD), group, level.level))
}

fn cell(svg: &mut Svg<'_>, area: Area, group: &Group, level: u8) -> fmt::Result {
    title(svg, group, level)?;
    shade(svg, area, group.mean())?;
    if group.pages > 1 {
        let height = area.height * 0.3;
        shade(svg, Area { y: area.y + area.height - height, height, ..area }, group.least)?;
    }
    if group.dead > 0 {
        let width = (area.width * group.dead as f64 / group.entries.max(1) as f64).max(1.5);
        svg.rect("dead", Area { width, height: 2.5, ..area }, 0.0)?;
    }
    svg.end_group()
}

fn title(svg: &mut Svg<'_>, group: &Group, level: u8) -> fmt::Result {
    let what = if level == 0 { "entries" } else { "children" };
    let (entries, dead) = (Number(group.entries), Dead(group.dead));
    match group.pages {
        1 => svg.begin_group(format_args!(
            "block {}: {} full, {entries} {what}{dead}",
            Number(group.first.into()),
            Percent(group.mean())
        )),
        pages => svg.begin_group(format_args!(
            "{} from block {} to block {}: {} full, the emptiest {}, {entries} {what}{dead}",
            Many(pages, "page"),
            Number(group.first.into()),
            Number(group.last.into()),
            Percent(group.mean()),
            Percent(group.least)
        )),
    }
}

fn shade(svg: &mut Svg<'_>, area: Area, fill: f64) -> fmt::Result {
    let Area { x, y, width, height } = area;
    svg.put(format_args!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{}\"/>\n",
        Shade(fill)
    ))
}

/// How many leaves are how full.
fn bars(svg: &mut Svg<'_>, leaves: &LevelMap, card: Area) -> fmt::Result {
    svg.rect("card", card, 10.0)?;
    svg.text("b", card.x + 20.0, card.y + 26.0, format_args!("Leaves by fill"))?;
    let bins = leaves.histogram();
    let most = bins.iter().copied().max().unwrap_or(0).max(1);
    let (left, base) = (card.x + 20.0, card.y + 34.0 + BARS);
    let step = (card.width - 40.0) / bins.len() as f64;
    for (bin, &pages) in bins.iter().enumerate() {
        let part = |at: usize| at as f64 / bins.len() as f64;
        let height = (BARS - 12.0) * pages as f64 / most as f64;
        let height = if pages > 0 { height.max(1.5) } else { 0.0 };
        svg.begin_group(format_args!(
            "{} to {}: {}",
            Percent(part(bin)),
            Percent(part(bin + 1)),
            Many(pages, "leaf page")
        ))?;
        let area = Area::new(left + step * bin as f64 + 1.0, base - height, step - 2.0, height);
        shade(svg, area, part(bin) + part(1) / 2.0)?;
        svg.end_group()?;
    }
    svg.put(format_args!("<path class=\"line\" d=\"M{left:.1} {:.1}h{:.1}\"/>\n", base + 0.5, card.width - 40.0))?;
    for (class, at) in [("k", 0.0), ("k c", 0.5), ("k r", 1.0)] {
        svg.text(class, left + at * (card.width - 40.0), base + 16.0, format_args!("{}", Percent(at)))?;
    }
    Ok(())
}

fn legend(svg: &mut Svg<'_>, view: &MapView<'_>, x: f64, y: f64) -> fmt::Result {
    svg.text("b", x, y, format_args!("How full a page is"))?;
    let (bar, steps) = (Area::new(x, y + 14.0, 360.0, 14.0), 60);
    for step in 0..steps {
        let width = bar.width / f64::from(steps);
        let area = Area { x: bar.x + width * f64::from(step), width: width + 0.4, ..bar };
        shade(svg, area, (f64::from(step) + 0.5) / f64::from(steps))?;
    }
    for (class, at) in [("k", 0.0), ("k c", 0.25), ("k c", 0.5), ("k c", 0.75), ("k r", 1.0)] {
        svg.text(class, bar.x + bar.width * at, bar.y + 30.0, format_args!("{}", Percent(at)))?;
    }
    let mut y = bar.y + 58.0;
    if view.levels.iter().any(|level| level.size() > 1) {
        shade(svg, Area::new(x, y - 11.0, 14.0, 14.0), 0.9)?;
        shade(svg, Area::new(x, y - 1.2, 14.0, 4.2), 0.2)?;
        svg.text("l", x + 22.0, y, format_args!("several pages: the mean, and below it the emptiest one"))?;
        y += 24.0;
    }
    if view.levels.iter().any(|level| level.total().dead > 0) {
        shade(svg, Area::new(x, y - 11.0, 14.0, 14.0), 0.8)?;
        svg.rect("dead", Area::new(x, y - 11.0, 7.0, 2.5), 0.0)?;
        svg.text("l", x + 22.0, y, format_args!("the part of the entries that are known to be dead"))?;
    }
    Ok(())
}
