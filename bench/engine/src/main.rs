//! The engine measured without PostgreSQL. `fpbtree-lab FIGURE [NAME=NUMBER …]` prints one table; without arguments,
//! the list of figures. Run it on a machine that does nothing else.

mod disk_search;
mod kiss;
mod modular;
mod sort;
mod table;

use std::process::ExitCode;

/// A figure's name, what it shows, and what prints it.
type Figure = (&'static str, &'static str, fn(&Arguments));

const FIGURES: [Figure; 5] = [
    ("disk-search", "searches in trees of pages, page size by page size (pairs=10000000)", disk_search::run),
    ("kiss", "lookups in the KISS-tree against adaptive radix trees and BTreeMap (keys=16000000)", kiss::run),
    ("modular", "modular B+-tree against BTreeMap and Abseil's B-tree (pairs=16000000)", modular::run),
    (
        "modular-selections",
        "modules of the modular B+-tree against each other (pairs=16000000)",
        modular::run_selections,
    ),
    ("sort", "the sort of builds against the standard library's (rows=10000000)", sort::run),
];

/// `name=number` from the command line.
struct Arguments(Vec<(String, usize)>);

impl Arguments {
    fn parse(words: impl Iterator<Item = String>) -> Option<Self> {
        let pair = |word: String| word.split_once('=').and_then(|(name, n)| Some((name.to_owned(), n.parse().ok()?)));
        words.map(pair).collect::<Option<_>>().map(Arguments)
    }

    /// The number given for `name`.
    pub fn get(&self, name: &str, default: usize) -> usize {
        self.0.iter().find(|(given, _)| given == name).map_or(default, |(_, n)| *n)
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let wanted = words.next().and_then(|name| FIGURES.iter().find(|figure| figure.0 == name));
    let (Some((.., run)), Some(arguments)) = (wanted, Arguments::parse(words)) else {
        eprintln!("usage: fpbtree-lab FIGURE [NAME=NUMBER ...]");
        for (name, shows, _) in FIGURES {
            eprintln!("  {name:<20} {shows}");
        }
        return ExitCode::from(2);
    };
    run(&arguments);
    ExitCode::SUCCESS
}
