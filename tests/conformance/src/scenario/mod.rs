//! How each promise is tried. A function for each, in the order of the table.

pub mod check;
pub mod create;
pub mod cuts;
pub mod delete;
pub mod describe;
pub mod foreign;
pub mod get;
pub mod list;
pub mod places;
pub mod secrets;
pub mod time;
pub mod together;
pub mod trouble;
