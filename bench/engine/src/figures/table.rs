//! Tables of medians.

use cpu_time::ThreadTime;

fn median(samples: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = samples.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Prints a row for every name, with the median of its samples in every column, and in brackets the median of the first
/// row's advantage: sample by sample, as the samples of one turn were taken under the same conditions.
pub fn print<'a>(names: impl Iterator<Item = &'a str>, columns: &[(&str, Vec<Vec<f64>>)]) {
    print!("{:<34}", "");
    columns.iter().for_each(|(column, _)| print!("{column:>18}"));
    for (row, name) in names.enumerate() {
        print!("\n{name:<34}");
        for (_, samples) in columns {
            let (first, own) = (&samples[0], &samples[row]);
            let ahead = median(first.iter().zip(own).map(|(first, own)| first / own));
            print!("{:>8.2} ({ahead:>5.2} x)", median(own.iter().copied()));
        }
    }
    println!();
}

/// Millions of operations in a second of this thread's processor time, of `n` that `work` does.
pub fn throughput(n: usize, work: impl FnOnce()) -> f64 {
    let start = ThreadTime::now();
    work();
    n as f64 / start.elapsed().as_secs_f64() / 1e6
}
