//! What a paper's figure is here: what measures it, and what comes of it, to be printed or put into the report.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

/// A figure or table of a paper, or one of our own.
pub struct Figure {
    /// Its name on the command line: the paper's, and the figure's number there, such as `fpb-figure10`.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Whose it is, such as "Chen et al., SIGMOD 2002, Figure 10".
    pub source: &'static str,
    /// About how many seconds it takes, quick and full.
    pub seconds: (u32, u32),
    /// Measures it.
    pub run: fn(&mut Run) -> Outcome,
}

/// How a figure is to be measured, and how far that has come.
pub struct Run {
    full: bool,
    given: Vec<(String, usize)>,
    progress: Box<dyn FnMut(f64)>,
    /// Of all the work, what [`done`](Run::done) speaks of.
    part: (f64, f64),
}

impl Run {
    /// A run in quick or full mode, with numbers `given` by name. `progress` is called with the part that is done.
    pub fn new(full: bool, given: Vec<(String, usize)>, progress: Box<dyn FnMut(f64)>) -> Self {
        Run { full, given, progress, part: (0.0, 1.0) }
    }

    /// Whether there is time for large structures and many samples.
    pub fn full(&self) -> bool {
        self.full
    }

    /// The number given for `name`, or else that of the mode.
    pub fn number(&self, name: &str, quick: usize, full: usize) -> usize {
        let given = self.given.iter().find(|(given, _)| given == name);
        given.map_or(if self.full { full } else { quick }, |(_, number)| *number)
    }

    /// The numbers given, by name.
    pub fn given(&self) -> &[(String, usize)] {
        &self.given
    }

    /// Says that this part of the work is done, from 0 to 1.
    pub fn done(&mut self, part: f64) {
        let (begin, end) = self.part;
        (self.progress)(begin + part * (end - begin));
    }

    /// Says which part of all the work follows: that is what is [`done`](Run::done) from 0 to 1 then.
    pub fn begin(&mut self, from: f64, to: f64) {
        self.part = (from, to);
    }
}

/// What came of a figure.
#[derive(Serialize, Deserialize, Default)]
pub struct Outcome {
    /// Charts and tables, in order.
    pub panels: Vec<Panel>,
    /// What the paper says beside what was measured.
    pub claims: Vec<Claim>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Panel {
    /// Lines over a quantity.
    Chart { title: String, x: Axis, y: Axis, series: Vec<Series> },
    /// Bars in groups: every series has one number for each of `groups`.
    Bars { title: String, groups: Vec<String>, y: Axis, series: Vec<(String, Vec<f64>)> },
    /// Rows under a heading.
    Table { title: String, heading: Vec<String>, rows: Vec<Vec<String>> },
}

#[derive(Serialize, Deserialize)]
pub struct Axis {
    /// What is along it, with its unit.
    pub label: String,
    /// Whether it is logarithmic.
    pub log: bool,
}

impl Axis {
    pub fn linear(label: &str) -> Self {
        Axis { label: label.to_owned(), log: false }
    }

    pub fn log(label: &str) -> Self {
        Axis { label: label.to_owned(), log: true }
    }
}

#[derive(Serialize, Deserialize)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// One number of a paper, or one goal of ours, beside what was measured.
#[derive(Serialize, Deserialize, Default)]
pub struct Claim {
    /// What the number is.
    pub what: String,
    /// The paper's, or empty.
    pub paper: String,
    /// Our goal, or empty.
    pub goal: String,
    /// What was measured.
    pub ours: String,
    /// Whether that agrees with the paper, or reaches the goal.
    pub holds: bool,
    /// One sentence on why it agrees or differs.
    pub why: String,
}

impl Outcome {
    /// As text.
    pub fn print(&self) -> String {
        let mut text = String::new();
        self.panels.iter().for_each(|panel| panel.print(&mut text));
        for claim in &self.claims {
            let verdict = if claim.holds { "holds" } else { "differs" };
            let Claim { what, paper, goal, ours, why, .. } = claim;
            let paper = if paper.is_empty() { String::new() } else { format!(" paper {paper};") };
            let goal = if goal.is_empty() { String::new() } else { format!(" goal {goal};") };
            let _ = writeln!(text, "{what}:{paper}{goal} here {ours}: {verdict}. {why}");
        }
        text
    }
}

impl Panel {
    fn print(&self, text: &mut String) {
        let (title, heading, rows) = match self {
            Panel::Table { title, heading, rows } => (title, heading.clone(), rows.clone()),
            Panel::Bars { title, groups, y, series } => {
                let heading = std::iter::once(y.label.clone()).chain(groups.iter().cloned()).collect();
                let row = |(name, values): &(String, Vec<f64>)| {
                    std::iter::once(name.clone()).chain(values.iter().map(|value| number(*value))).collect()
                };
                (title, heading, series.iter().map(row).collect())
            }
            Panel::Chart { title, x, y, series } => {
                let mut places: Vec<f64> =
                    series.iter().flat_map(|one| one.points.iter().map(|point| point.0)).collect();
                places.sort_by(f64::total_cmp);
                places.dedup();
                let first = format!("{} over {}", y.label, x.label);
                let heading = std::iter::once(first).chain(places.iter().map(|place| number(*place))).collect();
                let row = |one: &Series| {
                    let at = |place: &f64| {
                        let point = one.points.iter().find(|point| point.0 == *place);
                        point.map_or(String::new(), |point| number(point.1))
                    };
                    std::iter::once(one.name.clone()).chain(places.iter().map(at)).collect()
                };
                (title, heading, series.iter().map(row).collect())
            }
        };
        let _ = writeln!(text, "{title}");
        let width = |column: usize| {
            let cells = rows.iter().chain(std::iter::once(&heading)).filter_map(|row: &Vec<String>| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..heading.len()).map(width).collect();
        for row in std::iter::once(&heading).chain(&rows) {
            for (column, cell) in row.iter().enumerate() {
                let width = widths.get(column).copied().unwrap_or(0);
                let _ = if column == 0 { write!(text, "  {cell:<width$}") } else { write!(text, "  {cell:>width$}") };
            }
            text.push('\n');
        }
    }
}

/// A number with three digits that count.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The median of samples.
///
/// # Panics
/// If there are none.
pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_printed_as_a_table() {
        let series = |name: &str, points: &[(f64, f64)]| Series { name: name.to_owned(), points: points.to_vec() };
        let chart = Panel::Chart {
            title: "Time".to_owned(),
            x: Axis::log("keys"),
            y: Axis::linear("ns"),
            series: vec![series("a", &[(10.0, 1.5), (100.0, 123.4)]), series("b", &[(100.0, 0.25)])],
        };
        let mut text = String::new();
        chart.print(&mut text);
        assert_eq!(
            text,
            "Time\n  ns over keys    10    100\n  a             1.50    123\n  b                   0.250\n"
        );
    }

    #[test]
    fn numbers_are_the_modes_unless_given() {
        let run = Run::new(false, vec![("pairs".to_owned(), 5)], Box::new(|_| ()));
        assert_eq!((run.number("pairs", 1, 2), run.number("keys", 1, 2)), (5, 1));
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
