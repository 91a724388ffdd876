//! Ranks agree on a description of a run before any of them writes.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::error::Error;
use crate::sync::lock;
use epilogue_runtime::{Communicator, CommunicatorError, Device, Stream};

/// Marks the reason of a rank that refuses.
const REFUSED: char = '!';

/// The descriptions that all ranks have agreed on.
#[derive(Debug, Default)]
pub(super) struct Agreement(Mutex<BTreeSet<String>>);

impl Agreement {
    /// Runs on the stream, and on the ranks' own, as soon as all ranks agree on `description`.
    ///
    /// `put` puts a run's work on two streams. Dry streams come first: they check everything and compile missing
    /// kernels. The other ranks therefore hear of a refusal before any rank writes.
    pub(super) fn run(
        &self,
        ranks: &Communicator,
        device: &Device,
        stream: &Stream,
        always: bool,
        put: impl Fn(&Stream, &Stream) -> Result<(), Error>,
        description: impl FnOnce() -> Result<String, Error>,
    ) -> Result<(), Error> {
        let dry = device.dry_stream();
        let checked = put(&dry, &dry);
        if stream.is_dry() {
            return checked;
        }
        self.reach(ranks, always, checked.and_then(|()| description()))?;
        put(stream, &ranks.stream(device))
    }

    /// Tells the other ranks what this one is about to do, or why it can't; gives the error that this rank's run ends with.
    ///
    /// A description that all have agreed on is not exchanged again, unless `always`: except between threads, where it costs
    /// nothing that the run doesn't cost anyway.
    fn reach(&self, ranks: &Communicator, always: bool, prepared: Result<String, Error>) -> Result<(), Error> {
        let text = match &prepared {
            Ok(text) if !always && !ranks.compares() && lock(&self.0).contains(text) => return Ok(()),
            Ok(text) => text.clone(),
            Err(error) => format!("{REFUSED}{error}"),
        };
        let exchanged = ranks.exchange(&text);
        let text = prepared?;
        compare(&exchanged?)?;
        if !ranks.compares() {
            lock(&self.0).insert(text);
        }
        Ok(())
    }
}

/// # Errors
/// [`CommunicatorError::Refused`]; [`CommunicatorError::Disagree`] with the first field that differs.
fn compare(texts: &[String]) -> Result<(), CommunicatorError> {
    let refused = texts.iter().enumerate().find_map(|(rank, text)| Some((rank, text.strip_prefix(REFUSED)?)));
    if let Some((rank, reason)) = refused {
        return Err(CommunicatorError::Refused { rank, reason: reason.to_owned() });
    }
    let fields: Vec<Vec<&str>> = texts.iter().map(|text| text.split(';').collect()).collect();
    let most = fields.iter().map(Vec::len).max().unwrap_or(0);
    for place in 0..most {
        let of_rank = |all: &Vec<&str>| all.get(place).copied().unwrap_or("nothing").to_owned();
        let values: Vec<String> = fields.iter().map(of_rank).collect();
        if values.iter().all(|value| *value == values[0]) {
            continue;
        }
        let what = values.iter().find_map(|value| value.split_once('=')).map_or("call", |(name, _)| name).to_owned();
        let value = |field: &String| field.split_once('=').map_or(field.as_str(), |(_, value)| value).to_owned();
        return Err(CommunicatorError::Disagree { what, values: values.iter().map(value).collect() });
    }
    Ok(())
}

/// A short word for a long text, the same on all ranks (FNV-1a, 64 bits).
pub(super) fn digest(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(texts: &[&str]) -> String {
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        compare(&texts).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(said(&["call=x;rows=4", "call=x;rows=4"]), "");
        assert!(
            said(&["call=x;rows=4;columns=8", "call=x;rows=4;columns=9"])
                .starts_with("the ranks disagree on the columns: rank 0 has 8, rank 1 has 9")
        );
        assert!(said(&["call=x;rows=4", "call=y;rows=5"]).starts_with("the ranks disagree on the call"));
        assert!(said(&["call=x;rows=4", "call=x"]).ends_with("all ranks must make the same calls in the same order"));
        assert!(
            said(&["call=x;rows=4", "!A is gone"])
                .starts_with("rank 1 refused its part, so nothing was done: A is gone")
        );
    }

    #[test]
    fn digests_differ() {
        assert_eq!(digest(""), "cbf29ce484222325");
        assert_ne!(digest("a"), digest("b"));
    }
}
