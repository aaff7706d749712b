//! Where the hints bring lines to: how long a line takes to read that was prefetched some time ago, on pages whose
//! translation the processor has at hand and on others (thesis §4.1.2, §5.1).

use std::hint::black_box;
use std::time::{Duration, Instant};

use fpbtree_lab::figure::{Claim, Panel, median};
use fpbtree_lab::memory::pb::hint::{Hint, Nta, T0, T1, T2};
use fpbtree_lab::memory::pb::node::Line;
use memmap2::{Advice, MmapMut};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use zerocopy::FromBytes;

use super::workload;

/// The hints.
pub const NAMES: [&str; 4] = [T0::NAME, T1::NAME, T2::NAME, Nta::NAME];

/// Lines that are prefetched and waited for, and then read one after the other.
const LINES: usize = 64;
/// How often that is done, each time with other lines.
const ROUNDS: usize = 500;
/// How long they have.
const PATIENCE: Duration = Duration::from_micros(20);
/// Memory they are in: far more than caches and small pages' translations have room for.
const REGION: usize = 1 << 28;

/// Nanoseconds to read a line, by hint.
pub struct Arrivals {
    /// On pages of 4 KB, of which there are too many.
    pub small: [f64; NAMES.len()],
    /// On large pages, if the system has them.
    pub large: [f64; NAMES.len()],
    /// T1: without a prefetch, on pages of 4 KB.
    pub missed: f64,
}

impl Arrivals {
    pub fn measure() -> Self {
        Arrivals {
            small: with_pages(Advice::NoHugePage),
            large: with_pages(Advice::HugePage),
            missed: workload::latency().first,
        }
    }

    pub fn panel(&self) -> Panel {
        let times = NAMES.iter().zip(self.small.iter().zip(&self.large));
        let row = |(name, (small, large)): (&&str, (&f64, &f64))| {
            vec![(*name).to_owned(), format!("{small:.1}"), format!("{large:.1}")]
        };
        let missed = vec!["not prefetched (T1)".to_owned(), format!("{:.1}", self.missed), String::new()];
        Panel::Table {
            title: "A line that was prefetched 20 microseconds ago is read in".to_owned(),
            heading: ["hint", "pages of 4 KB, ns", "large pages, ns"].map(str::to_owned).into(),
            rows: times.map(row).chain([missed]).collect(),
        }
    }

    /// That it is right not to let a prefetch be dropped when a translation is missing.
    pub fn claim(&self) -> Claim {
        let time = self.small[0];
        let holds = time < self.missed / 2.0;
        let why = if holds {
            "Lines whose address had to be translated first have arrived, too: t0 is what the Itanium calls faulting."
        } else {
            "Lines whose address would have to be translated first have not arrived, and x86 has no hint to ask for it."
        };
        Claim {
            what: "prefetches (t0) across misses of the translation buffers (the fault hint, Table 5.2)".to_owned(),
            paper: "chosen, though no difference was seen".to_owned(),
            ours: format!("read in {time:.1} ns, {:.1} without", self.missed),
            holds,
            why: why.to_owned(),
            ..Claim::default()
        }
    }
}

fn with_pages(pages: Advice) -> [f64; NAMES.len()] {
    let mut map = MmapMut::map_anon(REGION).expect("memory");
    // Where the system has no large pages, both columns are alike.
    let _ = map.advise(pages);
    map.fill(0);
    let lines = <[Line]>::ref_from_bytes(&map).expect("whole lines");
    [arrived::<T0>(lines), arrived::<T1>(lines), arrived::<T2>(lines), arrived::<Nta>(lines)]
}

/// Nanoseconds to read a line that was prefetched some time ago.
fn arrived<H: Hint>(lines: &[Line]) -> f64 {
    let mut random = SmallRng::seed_from_u64(2006);
    let samples = (0..ROUNDS).map(|_| {
        let places: Vec<usize> = (0..LINES).map(|_| random.random_range(0..lines.len())).collect();
        places.iter().for_each(|&place| H::prefetch(&lines[place]));
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE {
            std::hint::spin_loop();
        }
        let start = Instant::now();
        // Each place depends on the word before, which is zero.
        black_box(places.iter().fold(0, |zero, &place| lines[place + zero][0] as usize));
        start.elapsed().as_nanos() as f64 / LINES as f64
    });
    median(samples.collect())
}
