//! Values of columns: into entries' keys, and back.

pub mod abbreviation;
pub mod bounds;
pub mod codec;
pub mod collation;
pub mod column;
pub mod compare_cache;
pub mod compare_counts;
pub mod elements;
pub mod exact;
pub mod front;
pub mod keys;
pub mod letters;
pub mod numeric_sum;
pub mod row;
pub mod sort_support;
pub mod tuple;
pub mod varlena;
