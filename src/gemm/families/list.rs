//! The list of families: every type that has a part for each.
//!
//! Code that asks a kernel goes through [`FamilyKey`](super::family::FamilyKey); code that asks about a product goes through
//! [`Family`](super::family::Family). Nothing outside the families' folders looks into these types.

use super::sm80::kernel::key::Sm80Key;
use super::sm80::kernel::tile::Tile;
use super::sm80::model::constants::Sm80Constants;
use super::sm90::kernel::key::Sm90Key;
use super::sm90::kernel::request::Request;
use super::sm90::model::constants::Sm90Constants;
use crate::gemm::model::constants::LaunchConstants;

/// Everything that distinguishes the kernels of one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelKey {
    /// A kernel of the family for sm_80 and later.
    Sm80(Sm80Key),
    /// A kernel of the family for sm_90a.
    Sm90(Sm90Key),
    /// A kernel of a family that only tests have.
    #[cfg(test)]
    Toy(super::tests::toy::ToyKey),
}

/// Knobs that the user set and that one family has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pins {
    /// The tile of a kernel for sm_80 and later; on the CPU, that of per-tile partials.
    pub(crate) tile: Option<Tile>,
    /// Knobs of a kernel for sm_90a.
    pub(crate) sm90: Option<Request>,
    /// Knobs of a kernel for sm_100a.
    pub(crate) sm100: Option<Request>,
}

/// The constants of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Launches and copies before and after a product.
    pub launches: LaunchConstants,
    /// The kernels for sm_80 and later.
    pub sm80: Sm80Constants,
    /// The kernels for sm_90a.
    pub sm90: Sm90Constants,
}

/// One of the constants: its name, its unit, its index among those of its part, and where that index leads.
pub(crate) type Constant = (&'static str, &'static str, usize, fn(&mut Constants, usize) -> &mut f64);

impl Constants {
    pub(crate) const ESTIMATED: Self =
        Self { launches: LaunchConstants::ESTIMATED, sm80: Sm80Constants::ESTIMATED, sm90: Sm90Constants::ESTIMATED };

    /// Every constant, part by part.
    pub(crate) fn all() -> impl Iterator<Item = Constant> {
        let launches = LaunchConstants::NAMES.iter().enumerate();
        let launches = launches.map(|(i, (name, unit))| (*name, *unit, i, of_launches as _));
        let sm80 = Sm80Constants::NAMES.iter().enumerate().map(|(i, (name, unit))| (*name, *unit, i, of_sm80 as _));
        let sm90 = Sm90Constants::NAMES.iter().enumerate().map(|(i, (name, unit))| (*name, *unit, i, of_sm90 as _));
        launches.chain(sm80).chain(sm90)
    }
}

fn of_launches(constants: &mut Constants, index: usize) -> &mut f64 {
    constants.launches.at(index)
}

fn of_sm80(constants: &mut Constants, index: usize) -> &mut f64 {
    constants.sm80.at(index)
}

fn of_sm90(constants: &mut Constants, index: usize) -> &mut f64 {
    constants.sm90.at(index)
}
