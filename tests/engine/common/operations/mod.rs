//! Programs of operations on an index, beside a model that says what it holds. Their bytes come from a fuzzer or a
//! seed.
//!
//! Rows live, die and are gone: what dies stays in the index until VACUUM or an insertion that needs room removes it,
//! so the index holds all that lives and some of what is dead. With a log, a crash leads back to any of its positions.

mod machine;

pub use self::machine::Tally;
use self::machine::run;
use crate::common::bytes::{self, SMALL_KEY, TINY_KEY, Taste};
use crate::common::*;
use fpbtree_engine::format::Lane;
use fpbtree_engine::keys::bytes::MOST_KEY;
use fpbtree_engine::keys::digits::{DigitKind, DigitShape, ValueLength};
use fpbtree_engine::keys::{Column, KeyShape};
use fpbtree_engine::store::memory::Form;

/// Pages there is room for, and how many are left for what an insertion takes.
const CAPACITY: usize = 400;
const RESERVE: u32 = 20;
/// Operations of a program, and rows that it makes.
const MOST_OPERATIONS: usize = 400;
const MOST_ROWS: u64 = 4000;

/// What index a program is about.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub space: Space,
    /// Small pages, more often than those that an index gets.
    is_normal: bool,
    /// How keys are spread, or of which sort their strings are.
    flavour: u8,
    /// Bytes in which the store remembers leaves.
    descents: usize,
    logs: bool,
}

/// A key space, and columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    U32,
    U64,
    U128,
    /// A column of u64 whose NULLs come first.
    Descending,
    Text,
    Columns,
    Carrying,
    Opaque,
    OpaqueCarrying,
}

impl Space {
    pub const ALL: [Space; 9] = [
        Space::U32,
        Space::U64,
        Space::U128,
        Space::Descending,
        Space::Text,
        Space::Columns,
        Space::Carrying,
        Space::Opaque,
        Space::OpaqueCarrying,
    ];
}

/// Keys one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    domain: Domain,
    start: u16,
    stride: i8,
    count: u8,
    /// How their rows lie in the table.
    rows: u8,
}

/// Where keys are from.
#[derive(Clone, Copy, Debug)]
enum Domain {
    Four,
    Hundreds,
    All,
    Null,
    Largest,
    /// Beyond those that grew before.
    Growing,
    Shrinking,
}

/// Some of the living rows: from a part of all on, a part of all, or one of so many of these.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    from: u16,
    length: u16,
    step: u8,
}

/// How a scan begins that goes on while others change the index.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    scan: u8,
    backward: bool,
    wish: u16,
    skip_dead: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Insert {
        keys: Keys,
        adds_version: bool,
        /// As a batch, in order.
        together: bool,
    },
    /// `passes` says whether a living row with the same key is no obstacle.
    InsertUnique {
        keys: Keys,
        passes: bool,
    },
    /// Looks at the rows with a row's key.
    Look {
        row: u16,
    },
    /// Rows get new versions, and the old ones die.
    Update {
        row: u16,
        count: u8,
        adds_version: bool,
    },
    Die(Part),
    /// A scan marks what is dead, at once or after keys were inserted.
    Notice {
        late: Option<Keys>,
    },
    /// Rows die, and VACUUM removes what is dead, or half of it.
    Vacuum {
        part: Part,
        memory: u8,
        spares: bool,
    },
    Scan {
        wish: u16,
        skip_dead: bool,
    },
    ScanBetween {
        low: u16,
        high: u16,
    },
    Open(Opening),
    Read {
        scan: u8,
        pages: u8,
    },
    Turn {
        scan: u8,
    },
    Mark {
        scan: u8,
    },
    Restore {
        scan: u8,
        turns: bool,
    },
    /// Whether what is free is looked for afterwards.
    Crash {
        at: u16,
        versions: u16,
        form: Form,
        reclaims: bool,
    },
    CutOff {
        /// Whether pages in use are moved to the front first.
        compacts: bool,
    },
    /// The index is built anew, in parts or not.
    Build {
        fill: u8,
        parts: u8,
    },
    /// The map of free pages names a page that may be in use.
    Mislead {
        block: u16,
    },
    ForgetLeaves,
    Check,
}

/// A setup, and operations.
#[derive(Clone, Debug)]
pub struct Program {
    pub setup: Setup,
    pub operations: Vec<Operation>,
}

/// Bytes that are read from the front, as long as there are any.
struct Tape<'d>(&'d [u8]);

impl Tape<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn word(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes([self.byte()?, self.byte()?]))
    }

    fn bit(&mut self) -> Option<bool> {
        Some(self.byte()? & 1 != 0)
    }

    fn setup(&mut self) -> Option<Setup> {
        let (space, what) = (self.byte()?, self.byte()?);
        Some(Setup {
            space: Space::ALL[space as usize % Space::ALL.len()],
            is_normal: what & 7 == 0,
            flavour: what >> 3 & 7,
            descents: [8 << 10, 1 << 20, 0][usize::from(what >> 6) % 3],
            logs: what & 7 != 1,
        })
    }

    fn opening(&mut self) -> Option<Opening> {
        Some(Opening { scan: self.byte()?, backward: self.bit()?, wish: self.word()?, skip_dead: self.bit()? })
    }

    fn keys(&mut self) -> Option<Keys> {
        let what = self.byte()?;
        let domain = match what & 15 {
            0 => Domain::Null,
            1 => Domain::Largest,
            2..5 => Domain::Four,
            5..8 => Domain::Hundreds,
            8..10 => Domain::Growing,
            10 => Domain::Shrinking,
            _ => Domain::All,
        };
        let (start, stride, count) = (self.word()?, self.byte()? as i8, self.byte()? % 48 + 1);
        Some(Keys { domain, start, stride, count, rows: what >> 4 & 3 })
    }

    fn part(&mut self) -> Option<Part> {
        Some(Part { from: self.word()?, length: self.word()?, step: self.byte()? % 8 + 1 })
    }

    fn operation(&mut self) -> Option<Operation> {
        Some(match self.byte()? % 42 {
            0..10 => {
                let (keys, how) = (self.keys()?, self.byte()?);
                Operation::Insert { keys, adds_version: how & 1 != 0, together: how & 2 != 0 }
            }
            10..13 => Operation::InsertUnique { keys: self.keys()?, passes: self.byte()? & 3 == 0 },
            13 => Operation::Look { row: self.word()? },
            14..17 => Operation::Update { row: self.word()?, count: self.byte()? % 40 + 1, adds_version: self.bit()? },
            17 => Operation::Die(self.part()?),
            18 => Operation::Notice { late: None },
            19 => Operation::Notice { late: Some(self.keys()?) },
            20..23 => Operation::Vacuum { part: self.part()?, memory: self.byte()?, spares: self.byte()? & 7 == 0 },
            23 => Operation::Scan { wish: self.word()?, skip_dead: self.bit()? },
            24 => Operation::ScanBetween { low: self.word()?, high: self.word()? },
            25 | 26 => Operation::Open(self.opening()?),
            27..32 => Operation::Read { scan: self.byte()?, pages: self.byte()? % 8 + 1 },
            32 => Operation::Turn { scan: self.byte()? },
            33 => Operation::Mark { scan: self.byte()? },
            34 => Operation::Restore { scan: self.byte()?, turns: self.bit()? },
            35 => Operation::Crash {
                at: self.word()?,
                versions: self.word()?,
                form: if self.bit()? { Form::Own } else { Form::Generic },
                reclaims: self.bit()?,
            },
            36 => Operation::CutOff { compacts: false },
            37 => Operation::CutOff { compacts: true },
            38 => Operation::Build { fill: self.byte()?, parts: self.byte()? % 4 },
            39 => Operation::Mislead { block: self.word()? },
            40 => Operation::ForgetLeaves,
            _ => Operation::Check,
        })
    }
}

impl Program {
    /// The program that some bytes say; `None` if they are too few.
    pub fn parse(bytes: &[u8]) -> Option<Program> {
        let mut tape = Tape(bytes);
        let setup = tape.setup()?;
        let operations = std::iter::from_fn(|| tape.operation()).take(MOST_OPERATIONS).collect();
        Some(Program { setup, operations })
    }

    /// Runs the program. Panics where the index is not what the model says.
    pub fn run(&self) -> Tally {
        match self.setup.space {
            Space::U32 => run(self, lanes::<u32>(&self.setup, false)),
            Space::U64 => run(self, lanes::<u64>(&self.setup, false)),
            Space::U128 => run(self, lanes::<u128>(&self.setup, false)),
            Space::Descending => run(self, lanes::<u64>(&self.setup, true)),
            _ => run(self, strings(&self.setup)),
        }
    }
}

fn lanes<L: Lane>(setup: &Setup, descending: bool) -> Lanes<L> {
    let mut column: Column = one_column::<L>().columns()[0];
    (column.descending, column.nulls_first) = (descending, descending);
    let shape = KeyShape::new(&[column]).expect("one column fits");
    let geometry = if setup.is_normal { normal::<L>() } else { small::<L>() };
    // Keys beyond these are the largest.
    let spread = [KEYS - 1, 3, 400, KEYS][usize::from(setup.flavour) % 4];
    Lanes::new(exact(shape, geometry), spread.into())
}

fn strings(setup: &Setup) -> Taste {
    let opaque = |prefix, value| DigitKind::Opaque { prefix, value };
    let kinds: &[DigitKind] = match setup.space {
        Space::Columns => &[DigitKind::Numeric, DigitKind::Bytes, DigitKind::Fixed(2)],
        Space::Opaque => &[opaque(0, ValueLength::Variable), DigitKind::Fixed(2)],
        Space::OpaqueCarrying => &[opaque(3, ValueLength::CString)],
        _ => &[DigitKind::Text],
    };
    let descends = setup.space == Space::OpaqueCarrying;
    let column = |kind: &DigitKind| DigitShape { kind: *kind, descending: descends, nulls_first: descends };
    let carried = [0, 30][usize::from(matches!(setup.space, Space::Carrying | Space::OpaqueCarrying))];
    let flavour = u32::from(setup.flavour % 5);
    let most = match (setup.is_normal, setup.flavour) {
        // A few entries fill a page.
        (true, 4) => MOST_KEY,
        (_, 5..) => SMALL_KEY,
        _ => TINY_KEY,
    };
    let taste = Taste::new(kinds.iter().map(column).collect(), carried, most, &[flavour], 1);
    let carries = taste.shape.has_payload();
    if setup.is_normal { taste.on(bytes::normal(carries)) } else { taste }
}
