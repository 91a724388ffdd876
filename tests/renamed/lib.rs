//! A crate that has the library under another name, re-exports it, and makes epilogues by a macro of its own.

/// The library, for this crate's users.
pub mod parts {
    pub use gemm_library as fused;
}

/// Makes the epilogue `accum + bias`, clamped at 0; its users need no dependency on the library.
#[macro_export]
macro_rules! bias_relu {
    ($name:ident) => {
        #[$crate::parts::fused::epilogue(name = $name, crate = $crate::parts::fused)]
        fn bias_relu(accum: Accum, bias: RowVector) -> Tensor {
            let d = (accum + bias).max(0.0);
            d
        }
    };
}
