//! The engine against models, faults, crashes and interleavings: one program, because what is generic in it is compiled but
//! once then. What a test does to its whole process goes into a program of its own.

mod bytes;
mod bytes_faults;
mod common;
mod crash;
mod faults;
mod garbage;
mod hot_keys;
mod interleaving;
mod load;
mod modular;
mod operations;
mod page;
mod picture;
mod queue;
mod removal;
mod scan;
mod sizing;
mod sort;
mod tallies;
mod tree;
mod unique;
mod words;
