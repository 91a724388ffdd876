//! Makes the tree of one part.

use super::super::validate::guards;
use super::super::{
    Cost, OutputKind, ParameterClass, ParameterId, Site, ValidOutput, ValidParameter, ValidTree, Value, ValueId,
    ValueKind,
};
use super::delivery::{Delivery, deliveries, roots};
use super::{PartBinding, PhasePart, Slot};

/// The slots' name, for places that ask for one; no user gives one.
const HIDDEN: &str = "kept from one phase to the next";

/// The part of a phase.
pub(super) fn part(tree: &ValidTree, phase: usize, slots: &[Slot]) -> PhasePart {
    let deliveries = deliveries(tree);
    let mut builder = Builder::new(tree, phase, slots, &deliveries);
    let bindings = (0..tree.parameters().len()).map(PartBinding::Argument);
    let mut bindings: Vec<PartBinding> =
        bindings.chain(builder.reads.iter().map(|slot| PartBinding::Slot(*slot))).collect();
    for (i, delivery) in deliveries.iter().enumerate().filter(|(_, delivery)| delivery.phase == phase) {
        let output = &tree.outputs()[i];
        builder.output(delivery.value, ValidOutput { kind: delivery.kind, ..output.clone() });
        if output.parameter.is_none() {
            bindings.push(PartBinding::Argument(tree.output_argument(i)));
        }
    }
    for (place, slot) in slots.iter().enumerate() {
        let value = tree.value(slot.value);
        let (of, kind) = match value.kind {
            ValueKind::Reduce(reduction, x) if value.phase == phase + 1 => (x, OutputKind::Reduce(reduction)),
            ValueKind::Reduce(..) => continue,
            _ if value.phase == phase => (slot.value, OutputKind::Store),
            _ => continue,
        };
        let (class, element, site) = (slot.class, slot.element, value.site);
        builder.output(
            of,
            ValidOutput { name: HIDDEN, value: of, kind, class, element, packed: false, parameter: None, site },
        );
        bindings.push(PartBinding::Slot(place));
    }
    PhasePart { tree: builder.finish(), bindings }
}

struct Builder<'a> {
    tree: &'a ValidTree,
    /// The place of every value of the whole tree that the part has.
    places: Vec<Option<ValueId>>,
    values: Vec<Value>,
    parameters: Vec<ValidParameter>,
    /// The slots that are read, in the order of their parameters.
    reads: Vec<usize>,
    outputs: Vec<ValidOutput>,
}

impl<'a> Builder<'a> {
    fn new(tree: &'a ValidTree, phase: usize, slots: &[Slot], deliveries: &[Delivery]) -> Self {
        let mut kept = vec![false; tree.values().len()];
        slots.iter().for_each(|slot| kept[slot.value.index()] = true);
        let from_slot = |id: ValueId| match tree.value(id).kind {
            ValueKind::Reduce(..) => true,
            _ => kept[id.index()] && tree.value(id).phase < phase,
        };
        let mut needed = vec![false; tree.values().len()];
        for root in roots(tree, phase, deliveries, &kept_values(tree, &kept)) {
            needed[root.index()] = true;
        }
        for (id, value) in tree.enumerate().collect::<Vec<_>>().into_iter().rev() {
            if needed[id.index()] && !from_slot(id) {
                value.kind.operands().iter().for_each(|operand| needed[operand.index()] = true);
            }
        }
        let parameters = tree.parameters().iter().map(|p| ValidParameter { value: None, ..p.clone() }).collect();
        let places = vec![None; tree.values().len()];
        let mut this = Self { tree, places, values: Vec::new(), parameters, reads: Vec::new(), outputs: Vec::new() };
        for (id, value) in tree.enumerate().filter(|(id, _)| needed[id.index()]) {
            let kind = match slots.iter().position(|slot| slot.value == id) {
                Some(place) if from_slot(id) => this.read(place, &slots[place], value.site),
                _ => this.moved(&value.kind),
            };
            this.push(id, Value { kind, uses: 0, phase: 0, ..value.clone() });
        }
        this
    }

    /// A parameter that reads a slot.
    fn read(&mut self, place: usize, slot: &Slot, site: Site) -> ValueKind {
        let parameter = ParameterId::new(self.parameters.len());
        let class = slot.class.in_memory();
        self.parameters.push(ValidParameter { name: HIDDEN, class, element: slot.element, value: None, site });
        self.reads.push(place);
        if class == ParameterClass::Tensor { ValueKind::Load(parameter) } else { ValueKind::Broadcast(parameter) }
    }

    fn place(&self, id: ValueId) -> ValueId {
        self.places[id.index()].unwrap_or(id)
    }

    fn moved(&self, kind: &ValueKind) -> ValueKind {
        let mut kind = kind.clone();
        kind.operands_mut().into_iter().for_each(|operand| *operand = self.place(*operand));
        kind
    }

    fn push(&mut self, id: ValueId, value: Value) {
        let place = ValueId::new(self.values.len());
        for operand in value.kind.operands() {
            self.values[operand.index()].uses += 1;
        }
        if let ValueKind::Load(p) | ValueKind::Broadcast(p) = value.kind {
            self.parameters[p.index()].value = Some(place);
        }
        self.places[id.index()] = Some(place);
        self.values.push(value);
    }

    /// Adds an output of a value, which is counted as the whole tree's.
    fn output(&mut self, of: ValueId, mut output: ValidOutput) {
        output.value = self.place(of);
        self.values[output.value.index()].uses += 1;
        self.outputs.push(output);
    }

    fn finish(self) -> ValidTree {
        let Self { tree, values, parameters, outputs, .. } = self;
        let guards = guards(&values, &outputs, &parameters);
        let cost = Cost::of(tree.types(), &values, &parameters, &outputs);
        ValidTree { values, parameters, outputs, guards, cost, ..tree.clone() }
    }
}

/// Marks the M×N values among the values that slots hold.
fn kept_values(tree: &ValidTree, in_slot: &[bool]) -> Vec<bool> {
    let is_reduction = |value: &Value| matches!(value.kind, ValueKind::Reduce(..));
    tree.values().iter().zip(in_slot).map(|(value, kept)| *kept && !is_reduction(value)).collect()
}
