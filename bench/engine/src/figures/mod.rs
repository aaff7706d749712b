//! All figures: a folder for every paper, and what is ours alone.

mod fpb;
mod kiss;
mod modular;
mod nodes;
mod sentinel;
mod sort;
mod thesis;

use fpbtree_lab::figure::Figure;

/// The figures of every paper, and ours.
pub const ALL: &[&[Figure]] =
    &[fpb::FIGURES, modular::FIGURES, kiss::FIGURES, thesis::FIGURES, sentinel::FIGURES, nodes::FIGURES, sort::FIGURES];
