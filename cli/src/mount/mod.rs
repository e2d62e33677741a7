//! The options of `mount` and `unmount`.

pub mod options;
