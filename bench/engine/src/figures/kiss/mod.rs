//! Kissinger, Schlegel, Habich and Lehner: KISS-Tree, DaMoN 2012.

use fpbtree_lab::figure::Figure;

/// The figures, in the paper's order.
pub const FIGURES: &[Figure] = &[];
