//! Programs of operations from seeds, on an index of every key space (`fuzz/fuzz_targets/operations.rs` has them from a
//! fuzzer). What fails is made as short as it can be.

#[path = "common/operations/mod.rs"]
mod program;

use program::{Program, Space, Tally};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::any::Any;
use std::thread;

/// Bytes of a program: some two hundred operations.
const LENGTH: usize = 1200;

/// What came of a program; else what the failure says. Each has a thread of its own: what fails leaves locks behind.
fn run(program: &Program) -> Result<Tally, String> {
    let told = |panic: Box<dyn Any + Send>| match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => panic.downcast::<&str>().map_or_else(|_| "no words".into(), |message| message.to_string()),
    };
    thread::scope(|scope| scope.spawn(|| program.run()).join()).map_err(told)
}

/// The same failure, or another, with as few operations as half a thousand tries lead to.
fn shorten(mut program: Program, mut message: String) -> (Program, String) {
    let (mut tries, mut many) = (500, program.operations.len() / 2);
    while many > 0 && tries > 0 {
        let mut at = 0;
        while at < program.operations.len() && tries > 0 {
            let mut shorter = program.clone();
            shorter.operations.drain(at..(at + many).min(program.operations.len()));
            tries -= 1;
            match run(&shorter) {
                Ok(_) => at += many,
                Err(failure) => (program, message) = (shorter, failure),
            }
        }
        many /= 2;
    }
    (program, message)
}

/// Runs programs on an index of this key space, and says what they reached.
fn programs(space: Space, count: u64) -> Tally {
    let mut sum = Tally::default();
    for seed in 0..count {
        let mut bytes = vec![0; LENGTH];
        StdRng::seed_from_u64(seed << 8 | space as u64).fill(&mut bytes[..]);
        let mut program = Program::parse(&bytes).expect("a program");
        program.setup.space = space;
        match run(&program) {
            Ok(tally) => sum += tally,
            Err(failure) => {
                let (program, message) = shorten(program, failure);
                let operations: Vec<String> = program.operations.iter().map(|all| format!("    {all:?}\n")).collect();
                panic!("seed {seed}: {message}\n{:?}\n{}", program.setup, operations.concat());
            }
        }
    }
    println!("{space:?}: {sum:?}");
    sum
}

macro_rules! programs {
    ($($name:ident($space:ident);)*) => {$(
        #[test]
        fn $name() {
            let tally = programs(Space::$space, 24);
            // Rows that carry something seldom carry the same.
            let has_runs = tally.runs > 0 || matches!(Space::$space, Space::Carrying | Space::OpaqueCarrying);
            assert!(tally.rows > 10_000 && tally.levels > 2 && has_runs, "{tally:?}");
            // The smallest pages of narrow keys hold more of them, and so there are fewer.
            let has_cut = tally.cut_pages > 0 || matches!(Space::$space, Space::U32 | Space::Descending);
            assert!(tally.deleted > 100 && tally.folded > 0 && tally.merged > 20 && tally.compacted > 50 && has_cut, "{tally:?}");
            assert!(tally.made_room > 50 && tally.refused > 50 && tally.pages > 200, "{tally:?}");
            assert!(tally.crashes > 20 && tally.cut_off > 4 && tally.incomplete > 2, "{tally:?}");
        }
    )*};
}

programs! {
    on_u32(U32);
    on_u64(U64);
    on_u128(U128);
    on_descending_u64(Descending);
    on_text(Text);
    on_several_columns(Columns);
    on_text_that_carries(Carrying);
    on_strings_that_a_function_orders(Opaque);
    on_such_strings_that_carry(OpaqueCarrying);
}
