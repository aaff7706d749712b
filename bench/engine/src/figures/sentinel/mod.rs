//! Ye and Wang: Boosting the Search Performance of B+-tree for Non-volatile Memory with Sentinels, 2021.

use fpbtree_lab::figure::Figure;

/// The figures, in the paper's order.
pub const FIGURES: &[Figure] = &[];
