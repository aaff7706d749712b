//! What is remembered of comparisons, which needs no server, and so no link to one.

#[path = "../src/values/compare_cache.rs"]
mod compare_cache;
