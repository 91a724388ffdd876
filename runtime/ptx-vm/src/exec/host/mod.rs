//! Services of the host: `printf`, failed assertions, system calls.

mod printf;
pub(crate) mod system;
