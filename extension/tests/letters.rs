//! The order of texts by their letters, which needs no server, and so no link to one.

#[allow(dead_code, reason = "packed letters are the library's")]
#[path = "../src/values/letters.rs"]
mod letters;
