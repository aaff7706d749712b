//! Chen, Gibbons, Mowry and Valentin: Fractal Prefetching B+-Trees, SIGMOD 2002.
//!
//! The figures vary the page size, of which the engine has one in each build: see [`sizes`] for where the others come
//! from.

mod claims;
mod curves;
mod pages;
mod scan;
mod search;
mod sizes;
mod trees;
mod updates;
mod widths;

use fpbtree_lab::figure::Figure;

/// The figures, in the paper's order.
pub const FIGURES: &[Figure] = &[
    widths::TABLE_2,
    search::FIGURE_10,
    search::FIGURE_11,
    search::FIGURE_12,
    updates::FIGURE_13,
    updates::FIGURE_14,
    scan::FIGURE_15,
    pages::FIGURE_16,
    pages::FIGURE_18,
];
