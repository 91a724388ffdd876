//! Reductions in registers: loops in each thread, and a butterfly of shuffles where lanes share an output.

use super::TileReduction;
use super::emit::{Arithmetic, counters, index, loops};
use super::mapping::{DestinationForm, Mapping};
use crate::cuda::Writer;
use crate::tile::buffer::MemoryScope;

/// The statements of a reduction that has been checked.
pub(super) fn emit(reduction: &TileReduction, mapping: &Mapping) -> String {
    let local = Local::new(reduction, mapping);
    let body = if local.meets || !local.arithmetic.in_place() { local.through_total() } else { local.in_place() };
    loops(&counters("spa", &mapping.spatial), &mapping.spatial, local.unroll, body).text()
}

struct Local<'a> {
    mapping: &'a Mapping,
    arithmetic: Arithmetic,
    /// Whether lanes combine their values.
    meets: bool,
    accumulate: bool,
    /// Whether loops must be unrolled, because registers have no addresses.
    unroll: bool,
    from: String,
    to: String,
}

impl<'a> Local<'a> {
    fn new(reduction: &TileReduction, mapping: &'a Mapping) -> Self {
        let (spatial, reduced) = (counters("spa", &mapping.spatial), counters("red", &mapping.reduced));
        let outputs = || spatial.iter().cloned().zip(&mapping.spatial);
        let from = outputs().chain(reduced.iter().cloned().zip(&mapping.reduced)).map(|(name, l)| (name, l.source));
        let to = outputs().map(|(name, l)| (name, l.destination));
        let place = |name: &str, index: String| format!("{name}[{index}]");
        Self {
            mapping,
            arithmetic: Arithmetic::new(reduction.op(), reduction.source().element()),
            meets: !mapping.lanes.is_empty() && (mapping.form == DestinationForm::One || reduction.reduces_threads()),
            accumulate: reduction.accumulates(),
            unroll: reduction.source().scope() == MemoryScope::Local,
            from: place(reduction.source().name(), index(from, mapping.source_offset)),
            to: place(reduction.destination().name(), index(to, mapping.destination_offset)),
        }
    }

    /// Accumulates in the destination.
    fn in_place(&self) -> Writer {
        let Self { arithmetic, from, to, .. } = self;
        let mut code = Writer::new();
        if !self.accumulate {
            writeln!(code, "{to} = {};", arithmetic.identity());
        }
        self.each(&mut code, &format!("{to} = {};", arithmetic.combine(to, from)));
        code
    }

    /// A statement for each element that is reduced.
    fn each(&self, code: &mut Writer, statement: &str) {
        let (mut body, reduced) = (Writer::new(), &self.mapping.reduced);
        body.lines(statement);
        code.lines(&loops(&counters("red", reduced), reduced, self.unroll, body).text());
    }

    /// Accumulates in a variable, because its type is wider than the destination's, or because lanes combine.
    fn through_total(&self) -> Writer {
        let Self { mapping, arithmetic, from, to, .. } = self;
        let (ty, old) = (arithmetic.ty(), arithmetic.load(to));
        let start = if self.accumulate && !self.meets { old.clone() } else { arithmetic.identity() };
        // Braces give the variable its own scope, if no loop does.
        let bare = mapping.spatial.is_empty();
        let mut code = Writer::new();
        if bare {
            code.lines("{");
        }
        writeln!(code, "{ty} total = {start};");
        self.each(&mut code, &format!("total = {};", arithmetic.combine("total", &arithmetic.load(from))));
        if self.meets {
            for lanes in &mapping.lanes {
                let (functor, first, end) = (arithmetic.functor(), lanes.first, lanes.end);
                writeln!(code, "total = reduce_lanes<{functor}, {first}, {end}>(total);");
            }
            if self.accumulate {
                writeln!(code, "total = {};", arithmetic.combine(&old, "total"));
            }
        }
        writeln!(code, "{to} = {};", arithmetic.store("total"));
        if bare {
            code.lines("}");
        }
        code
    }
}
