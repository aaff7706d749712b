//! Jónsson: Practical Performance Considerations for the Prefetching B+-Tree, 2006.

use fpbtree_lab::figure::Figure;

/// The figures, in the paper's order.
pub const FIGURES: &[Figure] = &[];
