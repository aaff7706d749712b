//! The engine and the papers' structures, measured without PostgreSQL. `fpbtree-lab FIGURE [NAME=NUMBER …]` prints what
//! comes of a figure; `--full` takes more time for it, `--json` prints it for the report and says on standard error how
//! far it has come. Without a figure, the list of them (`--json`, too). Run it on a machine that does nothing else.

mod figures;

use std::process::ExitCode;

use fpbtree_lab::figure::{Figure, Run};
use serde_json::json;

fn main() -> ExitCode {
    let (flags, words): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let has = |flag: &str| flags.iter().any(|given| given == flag);
    let figure = words.first().map(|name| figures::ALL.iter().copied().flatten().find(|figure| figure.name == *name));
    let numbers: Option<Vec<(String, usize)>> = words.iter().skip(1).map(|word| parse(word)).collect();
    let known = flags.iter().all(|flag| ["--full", "--json"].contains(&flag.as_str()));
    match (figure, numbers) {
        (None, Some(_)) if known => list(has("--json")),
        (Some(Some(figure)), Some(numbers)) if known => measure(figure, has("--full"), has("--json"), numbers),
        _ => {
            eprintln!("usage: fpbtree-lab [--full] [--json] [FIGURE [NAME=NUMBER ...]]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// `name=number`.
fn parse(word: &str) -> Option<(String, usize)> {
    let (name, number) = word.split_once('=')?;
    Some((name.to_owned(), number.parse().ok()?))
}

fn list(as_json: bool) {
    for Figure { name, title, source, seconds, .. } in figures::ALL.iter().copied().flatten() {
        if as_json {
            println!("{}", json!({"name": name, "title": title, "source": source, "seconds": [seconds.0, seconds.1]}));
        } else {
            println!("{name:<22} {title} ({source})");
        }
    }
}

fn measure(figure: &Figure, full: bool, as_json: bool, numbers: Vec<(String, usize)>) {
    let progress: Box<dyn FnMut(f64)> =
        if as_json { Box::new(|part| eprintln!("done {part:.3}")) } else { Box::new(|_| ()) };
    let outcome = (figure.run)(&mut Run::new(full, numbers, progress));
    if as_json {
        println!("{}", serde_json::to_string(&outcome).expect("plain data"));
    } else {
        print!("{}\n{}\n{}", figure.title, figure.source, outcome.print());
    }
}
