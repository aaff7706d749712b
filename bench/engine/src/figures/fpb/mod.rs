//! Chen, Gibbons, Mowry and Valentin: Fractal Prefetching B+-Trees, SIGMOD 2002.

use fpbtree_lab::figure::Figure;

/// The figures, in the paper's order.
pub const FIGURES: &[Figure] = &[];
