//! Sasaki and Araki: Modularizing B+-Trees: Three-Level B+-Trees Work Fine.

use fpbtree_lab::figure::Figure;

/// The figures, in the paper's order.
pub const FIGURES: &[Figure] = &[];
