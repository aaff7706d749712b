//! The order of arrays' and ranges' first bytes, which needs no server, and so no link to one.

#[allow(dead_code, reason = "an array's end and an unbounded range are the library's")]
#[path = "../src/values/front.rs"]
mod front;
