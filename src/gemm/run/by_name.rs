//! Arguments by name: in any order, each exactly once, and no others.

use crate::Argument;
use crate::evt::ValidTree;
use crate::gemm::problem::{Error, NameMistake};

/// The arguments in the order in which a run takes them.
///
/// # Errors
/// [`Error::ArgumentNames`].
pub(crate) fn by_name<'a>(
    tree: &ValidTree,
    given: impl IntoIterator<Item = (impl AsRef<str>, Argument<'a>)>,
) -> Result<Vec<Argument<'a>>, Error> {
    let names: Vec<&'static str> = tree.argument_names().collect();
    let refuse = |mistake| Err(Error::ArgumentNames { mistake, epilogue: tree.name(), names: names.clone() });
    let mut places: Vec<Option<Argument<'a>>> = names.iter().map(|_| None).collect();
    for (name, argument) in given {
        let Some(place) = names.iter().position(|known| *known == name.as_ref()) else {
            return refuse(NameMistake::Unknown(name.as_ref().to_owned()));
        };
        if places[place].replace(argument).is_some() {
            return refuse(NameMistake::Twice(names[place]));
        }
    }
    let missing: Vec<&'static str> =
        names.iter().zip(&places).filter(|(_, place)| place.is_none()).map(|(name, _)| *name).collect();
    if missing.is_empty() { Ok(places.into_iter().flatten().collect()) } else { refuse(NameMistake::Missing(missing)) }
}
