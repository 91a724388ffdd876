//! The families of kernels as the checks and predictions see them: a folder each, and the list.
//!
//! The rest asks [`Family`] and [`Kernel`]. A new family adds its folder, an entry of [`FAMILIES`] and an arm of [`kernel`].

mod family;
mod sm80;
mod sm90;

use epilogue::gemm::KernelKey;

pub(crate) use self::family::{Family, Kernel, Measured};

/// All families, the oldest first.
pub(crate) const FAMILIES: [&dyn Family; 3] = [&sm80::Sm80, sm90::SM_90, sm90::SM_100];

/// A kernel, as its family answers for it.
pub(crate) const fn kernel(key: &KernelKey) -> &dyn Kernel {
    match key {
        KernelKey::Sm80(key) => key,
        KernelKey::Sm90(key) => key,
    }
}

/// The family whose oldest architecture has this name.
///
/// # Errors
/// The names that there are.
pub(crate) fn named(name: Option<&str>) -> Result<&'static dyn Family, String> {
    let names = FAMILIES.map(|family| family.arch().to_string());
    let found = names.iter().position(|known| Some(known.as_str()) == name);
    let given = name.unwrap_or("nothing");
    found.map(|i| FAMILIES[i]).ok_or_else(|| format!("--arch takes {}; {given} was given", names.join(" or ")))
}

/// The families whose kernels' times are predicted by their machine code, the newest first.
pub(crate) fn all_predicted() -> impl Iterator<Item = &'static dyn Family> {
    FAMILIES.into_iter().rev().filter(|family| family.is_predicted())
}

/// The family that is predicted unless another is named.
pub(crate) const fn predicted() -> &'static dyn Family {
    sm90::SM_90
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_those_of_the_library_from_the_oldest() {
        assert!(FAMILIES.iter().map(|family| family.arch().capability()).is_sorted());
        for family in FAMILIES {
            let subjects = family.covering();
            assert!(!subjects.is_empty() && subjects.iter().all(|subject| subject.key.family() == family.arch()));
        }
    }

    #[test]
    fn families_are_found_by_name() {
        assert!(FAMILIES.iter().all(|family| {
            named(Some(&family.arch().to_string())).is_ok_and(|found| found.arch() == family.arch())
        }));
        let refused = named(Some("sm_70")).map(Family::arch);
        assert_eq!(refused, Err("--arch takes sm_80 or sm_90a or sm_100a; sm_70 was given".to_owned()));
    }
}
