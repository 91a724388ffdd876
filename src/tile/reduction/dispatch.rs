//! The table of variants: the variant that does a reduction, and its conditions.

use std::fmt;
use std::sync::Arc;

use super::emit::is_supported;
use super::mapping::{DestinationForm, Mapping};
use super::{TileCode, TileReduction, local, shared};
use crate::tile::buffer::{ExecutionScope, MemoryScope};
use crate::tile::error::{Refusal, TileError};
use crate::tile::layout::{TileAxis, TileIter};

type Test = dyn Fn(&TileReduction) -> Result<(), String> + Send + Sync;
type Emit = dyn Fn(&TileReduction) -> Result<String, String> + Send + Sync;

/// A condition that a variant needs.
#[derive(Clone)]
pub struct Predicate {
    name: String,
    test: Arc<Test>,
}

impl Predicate {
    /// A condition. `test` gives the reason if it doesn't hold.
    pub fn new(name: &str, test: impl Fn(&TileReduction) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { name: name.to_owned(), test: Arc::new(test) }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Predicate({})", self.name)
    }
}

/// A way to do a reduction.
#[derive(Clone)]
pub struct Variant {
    name: String,
    priority: i32,
    predicates: Vec<Predicate>,
    emit: Arc<Emit>,
}

impl Variant {
    /// A variant. `emit` writes the statements of a reduction for which all predicates hold, or gives the reason why it
    /// can't.
    pub fn new(
        name: &str,
        priority: i32,
        emit: impl Fn(&TileReduction) -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.to_owned(), priority, predicates: Vec::new(), emit: Arc::new(emit) }
    }

    /// Adds a predicate. Predicates are tested in order.
    #[must_use]
    pub fn when(
        mut self,
        name: &str,
        test: impl Fn(&TileReduction) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.predicates.push(Predicate::new(name, test));
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The priority: variants with a higher one are tried first.
    #[must_use]
    pub const fn priority(&self) -> i32 {
        self.priority
    }

    /// Its predicates, in the order in which they are tested.
    #[must_use]
    pub fn predicates(&self) -> &[Predicate] {
        &self.predicates
    }

    /// Whether all predicates hold.
    ///
    /// # Errors
    /// The first predicate that doesn't hold.
    pub fn accepts(&self, reduction: &TileReduction) -> Result<(), Refusal> {
        for predicate in &self.predicates {
            if let Err(reason) = (predicate.test)(reduction) {
                return Err(Refusal { variant: self.name.clone(), predicate: predicate.name.clone(), reason });
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variant({}, priority {}, {:?})", self.name, self.priority, self.predicates)
    }
}

/// A table of variants, in the order in which they are tried.
#[derive(Clone, Debug, Default)]
pub struct DispatchTable {
    variants: Vec<Variant>,
}

impl DispatchTable {
    /// A table without variants.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// The variants of this library.
    #[must_use]
    pub fn standard() -> Self {
        let mut table = Self::empty();
        for (name, scopes, layout) in [
            ("local", &[ExecutionScope::Thread][..], local_layout as fn(&TileReduction) -> Result<(), String>),
            ("local.warp", &[ExecutionScope::Warp], warp_layout),
            ("local.view", &[ExecutionScope::Warp, ExecutionScope::Warpgroup], view_layout),
        ] {
            let variant = Variant::new(name, 10, |reduction| Ok(local::emit(reduction, &Mapping::of(reduction)?)))
                .when("exec_scope", move |reduction| exec_scope(reduction, scopes))
                .when("storage_scope", |reduction| storage_scope(reduction, MemoryScope::Local));
            table.register(common(variant).when("layout", layout).when("values", values));
        }
        let variant = Variant::new("shared", 10, |reduction| Ok(shared::emit(reduction, &Mapping::of(reduction)?)))
            .when("storage_scope", |reduction| storage_scope(reduction, MemoryScope::Shared));
        table.register(common(variant).when("layout", shared_layout).when("values", values));
        let variant =
            Variant::new("shared.block", 20, |reduction| shared::emit_block(reduction, &Mapping::of(reduction)?));
        let variant = variant
            .when("exec_scope", |reduction| exec_scope(reduction, &[ExecutionScope::Cta]))
            .when("storage_scope", |reduction| storage_scope(reduction, MemoryScope::Shared));
        let variant = common(variant).when("layout", shared_layout);
        let few = |reduction: &TileReduction| shared::suits_block(reduction, &Mapping::of(reduction)?);
        table.register(variant.when("few_outputs", few).when("values", values));
        table
    }

    /// Adds a variant after the others of its priority.
    pub fn register(&mut self, variant: Variant) {
        let at = self.variants.partition_point(|other| other.priority >= variant.priority);
        self.variants.insert(at, variant);
    }

    /// The variants, in the order in which they are tried.
    #[must_use]
    pub fn variants(&self) -> &[Variant] {
        &self.variants
    }

    /// The first variant whose predicates hold.
    ///
    /// # Errors
    /// [`TileError::NoVariant`] with the reason of each variant.
    pub fn choose(&self, reduction: &TileReduction) -> Result<&Variant, TileError> {
        let mut refusals = Vec::new();
        for variant in &self.variants {
            match variant.accepts(reduction) {
                Ok(()) => return Ok(variant),
                Err(refusal) => refusals.push(refusal),
            }
        }
        let (source, destination) = (reduction.source(), reduction.destination());
        Err(TileError::NoVariant { source_buffer: source.to_string(), destination: destination.to_string(), refusals })
    }

    /// Chooses a variant, and emits it.
    ///
    /// # Errors
    /// The errors of [`choose`](Self::choose); [`TileError::Variant`] if the variant fails although its predicates
    /// hold.
    pub fn emit(&self, reduction: &TileReduction) -> Result<TileCode, TileError> {
        let variant = self.choose(reduction)?;
        let body =
            (variant.emit)(reduction).map_err(|reason| TileError::Variant { variant: variant.name.clone(), reason })?;
        let parameter = |buffer: &crate::tile::TileBuffer| (buffer.name().to_owned(), buffer.element());
        Ok(TileCode {
            variant: variant.name.clone(),
            body,
            destination: parameter(reduction.destination()),
            source: parameter(reduction.source()),
        })
    }
}

/// One variant on each line, in the order in which they are tried.
impl fmt::Display for DispatchTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<12} {:>8}  predicates", "variant", "priority")?;
        for variant in &self.variants {
            let predicates: Vec<&str> = variant.predicates.iter().map(Predicate::name).collect();
            writeln!(f, "{:<12} {:>8}  {}", variant.name, variant.priority, predicates.join(", "))?;
        }
        Ok(())
    }
}

/// Adds the predicates that all variants here need.
fn common(variant: Variant) -> Variant {
    variant.when("element_type", element_type).when("apart", apart).when("threads", threads)
}

fn exec_scope(reduction: &TileReduction, scopes: &[ExecutionScope]) -> Result<(), String> {
    if scopes.contains(&reduction.scope()) {
        return Ok(());
    }
    let names: Vec<String> = scopes.iter().map(|scope| format!("a {scope}")).collect();
    Err(format!("it is executed by {}, not by a {}", names.join(" or "), reduction.scope()))
}

fn storage_scope(reduction: &TileReduction, scope: MemoryScope) -> Result<(), String> {
    for buffer in [reduction.source(), reduction.destination()] {
        if buffer.scope() != scope {
            return Err(format!("{} is {}, not {scope}", buffer.name(), buffer.scope()));
        }
    }
    Ok(())
}

fn element_type(reduction: &TileReduction) -> Result<(), String> {
    let (from, to) = (reduction.source().element(), reduction.destination().element());
    if from != to {
        return Err(format!("the source has elements of {from}, the destination of {to}"));
    }
    if !is_supported(from) {
        return Err(format!("elements of {from} are not reduced; f64, f32, f16, bf16, i64 and i32 are"));
    }
    Ok(())
}

fn apart(reduction: &TileReduction) -> Result<(), String> {
    if reduction.source().name() == reduction.destination().name() {
        return Err(format!("{} is both read and written", reduction.source().name()));
    }
    Ok(())
}

fn threads(reduction: &TileReduction) -> Result<(), String> {
    let (threads, block) = (reduction.scope().threads(reduction.block_threads()), reduction.block_threads());
    if !block.is_multiple_of(threads) {
        return Err(format!("a block of {block} threads is not whole {}s of {threads}", reduction.scope()));
    }
    Ok(())
}

/// Both tiles must be in the registers of one thread.
fn local_layout(reduction: &TileReduction) -> Result<(), String> {
    for buffer in [reduction.source(), reduction.destination()] {
        if !buffer.layout().is_thread_local() {
            return Err(format!("{} runs along threads, of which there is one", buffer.name()));
        }
    }
    Mapping::of(reduction).map(drop)
}

fn along_threads(iters: &[TileIter]) -> impl Iterator<Item = &TileIter> {
    iters.iter().filter(|iter| iter.extent > 1 && iter.axis.is_thread())
}

/// The layouts must stay within the scope's warps.
fn warps(reduction: &TileReduction) -> Result<(), String> {
    let warps = reduction.scope().threads(reduction.block_threads()) / 32;
    for buffer in [reduction.source(), reduction.destination()] {
        let layout = buffer.layout();
        let iters = layout.shard_iters().iter().chain(layout.replica_iters());
        let along = iters.filter(|iter| iter.axis == TileAxis::Warp);
        let last: usize = along.map(|iter| (iter.extent - 1) * iter.stride).sum::<usize>() + layout.origin().warp;
        if last >= warps.max(1) {
            return Err(format!("{} reaches warp {last}; a {} has {warps}", buffer.name(), reduction.scope()));
        }
    }
    Ok(())
}

/// The lanes must hold replicas of the result.
fn warp_layout(reduction: &TileReduction) -> Result<(), String> {
    warps(reduction)?;
    let to = reduction.destination();
    if along_threads(to.layout().replica_iters()).next().is_none() {
        return Err(format!("{} has no replicas along lanes", to.name()));
    }
    Mapping::of(reduction).map(drop)
}

/// Each lane must have its part of the result.
fn view_layout(reduction: &TileReduction) -> Result<(), String> {
    warps(reduction)?;
    let to = reduction.destination();
    if let Some(iter) = along_threads(to.layout().replica_iters()).next() {
        return Err(format!("{} has {} replicas along {}", to.name(), iter.extent, iter.axis));
    }
    let mapping = Mapping::of(reduction)?;
    if reduction.reduces_threads() && reduction.scope() == ExecutionScope::Warpgroup {
        return Err("a warpgroup reduces within threads only; without `thread_reduce`, or warp by warp".to_owned());
    }
    if mapping.form == DestinationForm::One && !mapping.lanes.is_empty() && !reduction.reduces_threads() {
        return Err(format!("lanes share what {} has one element for; with `thread_reduce` they meet", to.name()));
    }
    Ok(())
}

fn shared_layout(reduction: &TileReduction) -> Result<(), String> {
    for buffer in [reduction.source(), reduction.destination()] {
        if buffer.layout().replica_iters().iter().any(|iter| iter.extent > 1) {
            return Err(format!("{} has replicas, which shared memory has no use for", buffer.name()));
        }
    }
    if reduction.reduces_threads() {
        return Err("threads share an output anyway; without `thread_reduce`".to_owned());
    }
    Mapping::of(reduction).map(drop)
}

/// Every result must be combined from the right elements.
fn values(reduction: &TileReduction) -> Result<(), String> {
    Mapping::of(reduction)?.verify(reduction)
}
