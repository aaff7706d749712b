//! The paper's numbers and our goals beside what was measured. A number whose page size was not measured has no claim.

use fpbtree_lab::figure::{Claim, Panel};

use super::pages::{BULKLOADED, GROWN, RANGE_WAITS, WIDE, reads_title, space_title};
use super::scan::{BANDWIDTH, MEMORY};
use super::sizes::value;
use super::trees::Kind;
use super::{scan as scans, search as searches, updates};

/// What was measured, and the bounds that it agrees with.
struct Measured {
    what: String,
    paper: &'static str,
    goal: String,
    ours: Option<f64>,
    least: f64,
    most: f64,
    unit: &'static str,
}

impl Measured {
    /// The same where the paper's number is all there is to agree with.
    fn of_the_paper(self) -> Measured {
        Measured { goal: String::new(), ..self }
    }

    /// The claim, if there is a number. One sentence says why it is as it should be, another why not.
    fn claim(self, agrees: &str, differs: &str) -> Option<Claim> {
        let ours = self.ours?;
        let holds = (self.least..=self.most).contains(&ours);
        let why = if holds { agrees } else { differs }.to_owned();
        let (what, paper) = (self.what, self.paper.to_owned());
        Some(Claim { what, paper, goal: self.goal, ours: format!("{ours:.2}{}", self.unit), holds, why })
    }
}

/// How many times as fast as disk-optimised pages: at least the goal.
fn speed(
    panels: &[Panel],
    chart: &str,
    kind: Kind,
    page: f64,
    what: &str,
    paper: &'static str,
    least: f64,
) -> Measured {
    let what = format!("{what}, {page} KB: {} against disk-optimised pages", kind.name());
    let ours = value(panels, chart, kind.name(), page);
    Measured { what, paper, goal: format!("≥ {least} ×"), ours, least, most: f64::INFINITY, unit: " ×" }
}

/// Figure 10.
pub fn search(panels: &[Panel]) -> Vec<Claim> {
    let one = |kind, page, least| speed(panels, searches::SPEEDS, kind, page, "Search", "1.25–1.77 ×", least);
    let agrees = "A binary search in a large page misses the caches at most of its steps, one after another; narrow nodes \
                  miss once a level, and their other lines come along with the first";
    let differs = "A search waits for a page's root and then for its node, in a tree that is a quarter larger, as entries \
                   take ten bytes; the first steps of a binary search stay in caches far larger than the paper's";
    [
        one(Kind::DiskFirst, 8.0, 2.5).claim(agrees, differs),
        one(Kind::DiskFirst, 32.0, 3.5).claim(agrees, differs),
        one(Kind::CacheFirst, 8.0, 1.25).of_the_paper().claim(agrees, differs_little()),
        one(Kind::CacheFirst, 32.0, 1.25).of_the_paper().claim(agrees, differs_little()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Where a tree of few pairs was measured.
fn differs_little() -> &'static str {
    "The tree is about as small as this machine's caches, in which it does not matter how many lines a search touches"
}

/// Figure 13.
pub fn insertion(panels: &[Panel]) -> Vec<Claim> {
    let mature = |kind, page, paper, least| {
        speed(panels, updates::MATURE_SPEEDS, kind, page, "Insertion, 70 % full", paper, least)
    };
    let agrees = "Most of an insertion into a sorted page is moving half of its entries, and an in-page node has few";
    let differs = "This machine moves half a page in the time of a few of its cache misses, so that the search counts as \
                   much, and so does what a tree does besides";
    let full = speed(panels, updates::FULL_SPEEDS, Kind::DiskFirst, 8.0, "Insertion, 100 % full", "1.15–2.90 ×", 1.15);
    [
        mature(Kind::DiskFirst, 8.0, "4.67–35.6 ×", 3.0).claim(agrees, differs),
        mature(Kind::DiskFirst, 32.0, "4.67–35.6 ×", 6.0).claim(agrees, differs),
        mature(Kind::CacheFirst, 8.0, "4.67–35.6 ×", 3.0).of_the_paper().claim(agrees, differs),
        mature(Kind::CacheFirst, 32.0, "4.67–35.6 ×", 6.0).of_the_paper().claim(agrees, differs),
        full.of_the_paper().claim(
            "Page splits cost little more than moving entries does",
            "Most of these insertions split a page. The engine lays both halves out anew, node by node, after it has \
             looked for keys that repeat, and makes what it does a change that can be logged; a sorted page copies half \
             of two arrays",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Figure 14.
pub fn deletion(panels: &[Panel]) -> Vec<Claim> {
    let one =
        |kind, page| speed(panels, updates::DELETION_SPEEDS, kind, page, "Deletion, 100 % full", "3.2–20.4 ×", 3.2);
    let agrees = "Most of a deletion from a sorted page is moving half of its entries, and an in-page node has few";
    let differs = "This machine moves half a page in about the time of a few cache misses, so that the search counts more \
                   than it did";
    let all = [(Kind::DiskFirst, 8.0), (Kind::DiskFirst, 32.0), (Kind::CacheFirst, 8.0), (Kind::CacheFirst, 32.0)];
    all.into_iter().filter_map(|(kind, page)| one(kind, page).of_the_paper().claim(agrees, differs)).collect()
}

/// Figure 15.
pub fn scan(panels: &[Panel]) -> Vec<Claim> {
    let one = |kind, page, paper| speed(panels, scans::SPEEDS, kind, page, "Range scan of 1 M keys", paper, 1.0);
    let read = |page| value(panels, BANDWIDTH, Kind::DiskFirst.name(), page);
    let part = Measured {
        what: "Range scan, 8 KB: part of the read bandwidth of one core, disk-first".to_owned(),
        paper: "",
        goal: "≥ 0.8".to_owned(),
        ours: read(8.0).zip(value(panels, BANDWIDTH, MEMORY, 8.0)).map(|(ours, memory)| ours / memory),
        least: 0.8,
        most: f64::INFINITY,
        unit: "",
    };
    let agrees = "Scans of both read what lies in order, which the hardware prefetches by itself here";
    let differs = "The hardware prefetches sorted arrays by itself, which the paper's machine did not, and vectors add them \
                   up; what pages of nodes can win by prefetching is small then";
    let wider = "Its entries are ten bytes, not eight, and a row's place of six bytes is put together out of bits for each \
                 pair: by vectors, but a node at a time, of which the last pairs are left over. Asking for the next \
                 page's lines while one is read changes nothing here";
    [
        one(Kind::DiskFirst, 8.0, "4.2 × (16 KB)").claim(agrees, wider),
        one(Kind::DiskFirst, 16.0, "4.2 ×").claim(agrees, wider),
        one(Kind::CacheFirst, 16.0, "3.5 ×").of_the_paper().claim(agrees, differs),
        part.claim("Memory is what a scan waits for", wider),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Figures 16 and 17.
pub fn pages(panels: &[Panel]) -> Vec<Claim> {
    let one = |what: &str, chart: String, page: f64, paper, most| Measured {
        what: format!("{what}, {page} KB: disk-first against {WIDE}"),
        paper,
        goal: format!("≤ {most} ×"),
        ours: value(panels, &chart, Kind::DiskFirst.name(), page),
        least: 0.0,
        most,
        unit: " ×",
    };
    let space = |how, page| one(&format!("Pages, {how}"), space_title(how), page, "below 1.09 ×", 1.09);
    let reads =
        |how, page| one(&format!("Page reads of searches, {how}"), reads_title(how), page, "below 1.03 ×", 1.03);
    let agrees = "Against entries of the same size, only in-page roots and lines that no node fits into are lost";
    let fewer = "Where searches are many for the pages there are, they read about all of them, and so as many more as there \
                 are pages";
    let mut claims = Vec::new();
    for page in [8.0, 32.0] {
        claims.extend(
            space(BULKLOADED, page)
                .of_the_paper()
                .claim(agrees, "In-page roots, and lines that no node fits into, take more"),
        );
        claims.extend(space(GROWN, page).claim(agrees, "In-page roots, and lines that no node fits into, take more"));
        claims.extend(reads(BULKLOADED, page).claim("A search reads a page a level in both", fewer));
        claims.extend(reads(GROWN, page).claim("A search reads a page a level in both", fewer));
    }
    claims
}

/// Figure 18.
pub fn range_reads(panels: &[Panel]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for page in [8.0, 16.0] {
        let chart = format!("{RANGE_WAITS}, pages of {page} KB");
        let at = |kind: Kind| value(panels, &chart, kind.name(), 100_000.0);
        let measured = Measured {
            what: format!("Reads that wait for one another, 100 000 keys, {page} KB: fewer by"),
            paper: "6.2–6.9 × the speed on ten disks",
            goal: String::new(),
            ours: at(Kind::DiskOptimized).zip(at(Kind::DiskFirst)).map(|(plain, ahead)| plain / ahead),
            least: 6.2,
            most: f64::INFINITY,
            unit: " ×",
        };
        claims.extend(measured.claim(
            "The parents of the leaves list them, so that all can be asked for at once; how much time that saves is up to \
             the disks and to PostgreSQL, and is the benchmark of cold scans' to say",
            "The range has few leaf pages, of which the parents' reads are a large part",
        ));
    }
    claims
}
