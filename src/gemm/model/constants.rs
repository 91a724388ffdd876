//! The constants of the model: numbers that were estimated or measured elsewhere, as data with names and units.
//!
//! A program can vary one and see how the choices change, or fit all to measured times. Facts of the hardware are not
//! among them: tensor cores' rates, 128 bytes of shared memory and 128 lanes per clock.

/// Declares a struct of constants, their values, and where each is. Each family declares its own.
macro_rules! constants {
    ($(#[doc = $about:literal])* $name:ident, $family:literal;
     $($(#[doc = $doc:literal])+ $field:ident: $unit:literal = $value:literal;)*) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $doc])+ #[doc = concat!("\n\nUnit: ", $unit, ".")] pub $field: f64,)*
        }

        impl $name {
            pub(crate) const ESTIMATED: Self = Self { $($field: $value,)* };

            /// The name and the unit of each.
            pub(crate) const NAMES: &[(&'static str, &'static str)] =
                &[$((concat!($family, ".", stringify!($field)), $unit),)*];

            /// The constant of this index.
            pub(crate) fn at(&mut self, index: usize) -> &mut f64 {
                const PLACES: &[fn(&mut $name) -> &mut f64] = &[$(|constants| &mut constants.$field,)*];
                PLACES[index](self)
            }
        }
    };
}
pub(crate) use constants;

constants! {
    /// The constants of launches and copies before and after a product.
    LaunchConstants, "launches";
    /// The cost of a launch beside its work: its start, and the end of the work before it. An estimate.
    launch: "us" = 3.0;
    /// The share of the memory's bandwidth that copies of single words, and the launches after a product's, reach. An
    /// estimate.
    copy_share: "of the bandwidth" = 0.8;
    /// If power limits the clock: the clock of launches with gaps, over that of launches that follow at once. (DeepGEMM
    /// writes 8 GB before each launch, and times 820 to 830 TFLOP/s on an H100.)
    burst_clock: "of the power's clock" = 1.075;
}
