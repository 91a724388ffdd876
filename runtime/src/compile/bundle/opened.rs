//! A bundle that was read and checked, and how a device finds kernels in its bundles.

use std::borrow::Cow;
use std::fmt;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use super::error::BundleError;
use super::file::{self, BundleEntry};
use super::identity::{self, KernelId, text_of};
use super::recorder::version;
use crate::compile::arch::Arch;
use crate::compile::cache::CacheKey;
use crate::compile::compiler::compiled;
use crate::compile::source::{Compiled, Output, Source};
use crate::compile::{stored, trust};
use crate::error::Error;
use crate::trace;

/// The most bytes of a bundle; a longer file is refused.
const LONGEST: u64 = 1 << 32;

/// Compiled kernels, opened and checked. Cloning gives another handle.
#[derive(Clone)]
pub struct Bundle(Arc<Content>);

struct Content {
    bytes: Cow<'static, [u8]>,
    made_by: String,
    /// The kernels, in ascending order.
    entries: Vec<BundleEntry>,
    /// The keys that kernels were generated from, in ascending order, each with the place of its kernel.
    origins: Vec<(CacheKey, usize)>,
}

/// A kernel of a bundle, for listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bundled<'a> {
    /// Its symbol.
    pub name: &'a str,
    /// The architecture that it was compiled for.
    pub arch: Arch,
    /// Machine code, or PTX for an emulated device.
    pub form: Output,
    /// Bytes that it takes in the bundle.
    pub bytes: usize,
}

impl Bundle {
    /// Reads a file, and checks all of it.
    ///
    /// # Errors
    /// [`BundleError`]: a file that can't be read, is not a bundle, is damaged, or may be written by other users.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, BundleError> {
        let path = path.as_ref();
        let io = |error: std::io::Error| BundleError::File { path: path.to_owned(), reason: error.to_string() };
        let file = trust::open(path).map_err(io)?;
        let data = file.metadata().map_err(io)?;
        if !data.is_file() {
            return Err(BundleError::File { path: path.to_owned(), reason: "it is not a file".to_owned() });
        }
        if !trust::is_private(&data) {
            return Err(BundleError::Untrusted { path: path.to_owned() });
        }
        if data.len() > LONGEST {
            return Err(BundleError::TooLong { bytes: data.len(), most: LONGEST });
        }
        let mut bytes = Vec::new();
        file.take(LONGEST).read_to_end(&mut bytes).map_err(io)?;
        Self::from_bytes(bytes)
    }

    /// Reads a bundle from memory, for example from `include_bytes!`.
    ///
    /// # Errors
    /// [`BundleError`]: bytes that are not a bundle, or are damaged.
    pub fn from_bytes(bytes: impl Into<Cow<'static, [u8]>>) -> Result<Self, BundleError> {
        let bytes = bytes.into();
        let _span = trace::span!(DEBUG, "read bundle", bytes = bytes.len());
        let (made_by, entries) = file::read(&bytes)?;
        let listed =
            |(place, entry): (usize, &BundleEntry)| entry.origins.iter().map(move |origin| (*origin, place)).collect();
        let mut origins: Vec<(CacheKey, usize)> = entries.iter().enumerate().flat_map::<Vec<_>, _>(listed).collect();
        origins.sort_unstable();
        Ok(Self(Arc::new(Content { bytes, made_by, entries, origins })))
    }

    /// Whether it has a kernel that a device of this architecture, which runs this form, can run.
    pub(super) fn serves(&self, arch: Arch, form: Output) -> bool {
        self.0.entries.iter().any(|entry| entry.id.serves(arch, form))
    }

    /// A description of what its kernels were compiled for.
    pub(super) fn all_targets(&self) -> String {
        self.targets(|_| true)
    }

    /// The kernels in it.
    pub fn kernels(&self) -> impl ExactSizeIterator<Item = Bundled<'_>> {
        self.0.entries.iter().map(|entry| Bundled {
            name: &entry.name,
            arch: entry.id.arch,
            form: entry.id.form,
            bytes: entry.content.len(),
        })
    }

    /// Its makers: this library's version and NVRTC's.
    #[must_use]
    pub fn made_by(&self) -> &str {
        &self.0.made_by
    }

    /// A description of what the kernels that `wanted` accepts were compiled for.
    fn targets(&self, wanted: impl Fn(&BundleEntry) -> bool) -> String {
        let mut targets: Vec<(Arch, Output)> =
            self.0.entries.iter().filter(|entry| wanted(entry)).map(|entry| (entry.id.arch, entry.id.form)).collect();
        targets.sort_unstable();
        targets.dedup();
        let words: Vec<String> = targets.into_iter().map(|(arch, form)| identity::target(arch, form)).collect();
        if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
    }

    /// The kernel of a text that suits a device best: of several architectures, the newest.
    fn find(&self, text: CacheKey, arch: Arch, form: Output) -> Option<&BundleEntry> {
        let entries = &self.0.entries;
        let first = entries.partition_point(|entry| entry.id.text < text);
        let of_text = entries[first..].iter().take_while(|entry| entry.id.text == text);
        of_text.filter(|entry| entry.id.serves(arch, form)).max_by_key(|entry| entry.id.arch)
    }

    fn compiled(&self, entry: &BundleEntry, source: &Source) -> Option<Compiled> {
        Some(compiled(stored::decode(&self.0.bytes[entry.content.clone()])?, source, true))
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bundle({} kernels, made by {})", self.0.entries.len(), self.0.made_by)
    }
}

/// Whether one of a device's bundles lists a kernel of this origin that the device can run.
pub(crate) fn lists(bundles: &[Bundle], origin: CacheKey, arch: Arch, form: Output) -> bool {
    bundles.iter().any(|Bundle(content)| {
        let first = content.origins.partition_point(|(listed, _)| *listed < origin);
        let places = content.origins[first..].iter().take_while(|(listed, _)| *listed == origin);
        places.into_iter().any(|(_, place)| content.entries[*place].id.serves(arch, form))
    })
}

/// A kernel from the first of a device's bundles that has it.
pub(crate) fn take(bundles: &[Bundle], source: &Source, arch: Arch, form: Output) -> Result<Compiled, Error> {
    let text = text_of(source);
    let found = bundles.iter().find_map(|bundle| bundle.compiled(bundle.find(text, arch, form)?, source));
    found.ok_or_else(|| {
        let id = KernelId { text, arch, form };
        let needed = identity::target(arch, form);
        Error::NotInBundle { kernel: source.entry.clone(), advice: advice(bundles, source, id, &needed), needed }
    })
}

/// Describes what the bundles have instead, and what to do.
fn advice(bundles: &[Bundle], source: &Source, id: KernelId, needed: &str) -> String {
    let of_text = |entry: &BundleEntry| entry.id.text == id.text;
    if let Some(bundle) = bundles.iter().find(|bundle| bundle.0.entries.iter().any(of_text)) {
        let others = bundle.targets(of_text);
        return format!("it is there for {others} only: make the bundle for {needed}, too");
    }
    let of_name = |entry: &BundleEntry| entry.name == source.entry && entry.id.serves(id.arch, id.form);
    if let Some(bundle) = bundles.iter().find(|bundle| bundle.0.entries.iter().any(of_name)) {
        let (by, this) = (bundle.made_by(), version());
        return format!(
            "one of this name is there with another text, as for other layouts, stages or shapes, or from other code \
             (that bundle was made by {by}; this is {this}): plan or prepare this very case on the target for {needed} when \
             the bundle is made"
        );
    }
    let count: usize = bundles.iter().map(|bundle| bundle.0.entries.len()).sum();
    format!("of {count} kernels there, none has this name: plan it on the target for {needed} when the bundle is made")
}
