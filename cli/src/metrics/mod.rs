//! The statistics of this node's daemons as metrics of Prometheus, printed or served over HTTP.

mod collect;
pub mod families;
pub mod http;
mod numbers;
pub mod options;
mod text;

pub use self::collect::collect;
pub use self::text::encode;
