//! What the server asks of the access method, a file for each callback.

pub mod batch;
pub mod build;
pub mod constraints;
pub mod cost;
#[cfg(feature = "since_18")]
pub mod explain;
pub mod functions;
pub mod handler;
pub mod insert;
pub mod nodes;
pub mod planner;
pub mod scan;
pub mod sort;
pub mod unique;
pub mod vacuum;
