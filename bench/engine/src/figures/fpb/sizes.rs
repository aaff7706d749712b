//! Page sizes. The engine's pages have one size in a build of the lab, so what is measured at another size is measured
//! by a build for that size, if the environment says where it is: `FPBTREE_LAB_4K`, `_8K`, `_16K` and `_32K`. Without
//! it, this build measures the other trees alone at that size. Panels of the same title are put together.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use fpbtree_engine::format::PAGE_SIZE;
use fpbtree_lab::figure::{Outcome, Panel, Run, Series};

/// The paper's page sizes.
pub const ALL: [usize; 4] = [4096, 8192, 16384, 32768];

/// What `at` measures at these page sizes, or at the one that is given (`page=8192`), for the figure of this name.
pub fn measure(run: &mut Run, figure: &str, sizes: &[usize], at: fn(&mut Run, usize) -> Vec<Panel>) -> Vec<Panel> {
    let given = run.number("page", 0, 0);
    let sizes: Vec<usize> = if given > 0 { vec![given] } else { sizes.to_vec() };
    let mut panels = Vec::new();
    for (place, &size) in sizes.iter().enumerate() {
        run.begin(place as f64 / sizes.len() as f64, (place + 1) as f64 / sizes.len() as f64);
        let other = std::env::var(format!("FPBTREE_LAB_{}K", size / 1024)).ok();
        let measured = match other.filter(|_| given == 0 && size != PAGE_SIZE) {
            Some(build) => elsewhere(run, &build, figure, size),
            None => at(run, size),
        };
        merge(&mut panels, measured);
    }
    panels
}

/// What another build measures.
fn elsewhere(run: &mut Run, build: &str, figure: &str, size: usize) -> Vec<Panel> {
    let mut command = Command::new(build);
    command.args(["--json", figure]).args(run.full().then_some("--full"));
    command.args(run.given().iter().map(|(name, number)| format!("{name}={number}"))).arg(format!("page={size}"));
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the build for this page size");
    let (output, said) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let outcome = std::thread::spawn(|| std::io::read_to_string(output).expect("text"));
    for line in BufReader::new(said).lines() {
        let line = line.expect("text");
        match line.strip_prefix("done ").and_then(|part| part.parse().ok()) {
            Some(part) => run.done(part),
            None => eprintln!("{line}"),
        }
    }
    assert!(child.wait().expect("its end").success(), "{build} {figure}");
    serde_json::from_str::<Outcome>(&outcome.join().expect("text")).expect("an outcome").panels
}

/// Puts panels to others: the series of charts of the same title together.
fn merge(panels: &mut Vec<Panel>, more: Vec<Panel>) {
    for panel in more {
        let known = panels.iter_mut().find(|known| title(known) == title(&panel));
        match (known, panel) {
            (Some(Panel::Chart { series, .. }), Panel::Chart { series: more, .. }) => join(series, more),
            (_, panel) => panels.push(panel),
        }
    }
}

fn join(series: &mut Vec<Series>, more: Vec<Series>) {
    for one in more {
        match series.iter_mut().find(|known| known.name == one.name) {
            Some(known) => known.points.extend(one.points),
            None => series.push(one),
        }
    }
}

fn title(panel: &Panel) -> &str {
    match panel {
        Panel::Chart { title, .. } | Panel::Bars { title, .. } | Panel::Table { title, .. } => title,
    }
}

/// A number of a chart: of the series of this name, at this place.
pub fn value(panels: &[Panel], chart: &str, name: &str, place: f64) -> Option<f64> {
    let mut all = panels.iter().filter(|panel| title(panel) == chart);
    let Some(Panel::Chart { series, .. }) = all.next() else { return None };
    let one = series.iter().find(|one| one.name == name)?;
    one.points.iter().find(|point| point.0 == place).map(|point| point.1)
}
