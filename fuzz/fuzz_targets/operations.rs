//! Programs of operations chosen by the fuzzer, on an index of every key space: whatever is done in whatever order, the
//! index holds what it should, and crashes lead back to what it held. `TELL=1` says what a program is before it is run.

#![no_main]

#[path = "../../tests/engine/common/mod.rs"]
mod common;
#[path = "../../tests/engine/common/operations/mod.rs"]
mod operations;

use libfuzzer_sys::fuzz_target;
use operations::Program;

fuzz_target!(|data: &[u8]| {
    let Some(program) = Program::parse(data) else { return };
    if std::env::var_os("TELL").is_some() {
        eprintln!("{:?}", program.setup);
        program.operations.iter().for_each(|operation| eprintln!("{operation:?}"));
    }
    program.run();
});
