//! A program as boxes and arrows: its inputs, its products with what is computed with each, other kernels, and outputs.

use std::fmt;

use epilogue_runtime::Device;

use super::cut::Step;
use super::program::{Request, Slot, Steps, names, remarks};
use crate::evt::draw::{Arrow, Box, Graph, Kind};
use crate::te::TeError;
use crate::te::expr::tensor::Tensor;
use crate::te::text::expression;

/// Parts that are computed together: a program's products with their epilogues, and the kernels beside them.
/// [`Fused::regions`](super::Fused::regions) finds them.
///
/// [`Display`](fmt::Display) writes a line for each step, in the order in which they run.
#[derive(Clone, Debug)]
pub struct Regions {
    title: String,
    graph: Graph,
    lines: Vec<String>,
    remarks: Vec<String>,
}

impl Regions {
    pub(super) fn of(request: &Request, device: &Device) -> Result<Self, TeError> {
        let steps = Steps::of(request, device)?;
        let outputs: Vec<String> = request.outputs.iter().map(Tensor::name).collect();
        let mut drawing = Drawing { steps: &steps, graph: Graph::default(), known: Vec::new() };
        let lines = (0..steps.steps.len()).map(|step| drawing.step(step)).collect();
        request.outputs.iter().enumerate().for_each(|(number, output)| drawing.output(number, output));
        let graph = drawing.graph;
        Ok(Self { title: outputs.join(", "), graph, lines, remarks: remarks(&steps.cut) })
    }

    /// A complete SVG document, with a legend. Below are the reasons for which contractions are no products, or values are
    /// not computed with one.
    #[must_use]
    pub fn to_svg(&self) -> String {
        self.graph.to_svg(&self.title, &self.remarks)
    }

    /// The boxes and arrows in Graphviz's language: `dot -Tsvg`. [`to_svg`](Self::to_svg) needs no Graphviz.
    #[must_use]
    pub fn to_dot(&self) -> String {
        self.graph.to_dot(&self.title)
    }
}

impl fmt::Display for Regions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().chain(&self.remarks).try_for_each(|line| writeln!(f, "{line}"))
    }
}

struct Drawing<'a> {
    steps: &'a Steps,
    graph: Graph,
    /// The box from which each tensor comes.
    known: Vec<(Tensor, usize)>,
}

impl Drawing<'_> {
    /// Adds a step with its inputs. Gives its line of text.
    fn step(&mut self, step: usize) -> String {
        let [read, written] = self.steps.tensors(step);
        let (weights, read): (Vec<&Tensor>, Vec<&Tensor>) = read.into_iter().partition(|input| self.steps.knows(input));
        let from: Vec<(usize, String)> = read.into_iter().map(|tensor| self.source(tensor)).collect();
        let (shown, line) = self.shown(step, weights.len());
        let place = self.graph.push(shown);
        for (from, label) in from {
            self.arrow(from, place, label);
        }
        self.known.extend(written.into_iter().map(|tensor| (tensor.clone(), place)));
        line
    }

    /// The box of a step, and its line of text.
    fn shown(&self, step: usize, weights: usize) -> (Box, String) {
        let slots: Vec<&Slot> = self.steps.slots.iter().filter(|slot| slot.step == Some(step)).collect();
        let mut stored: Vec<String> = Vec::new();
        for name in slots.iter().map(|slot| slot.of.name()) {
            if !stored.contains(&name) {
                stored.push(name);
            }
        }
        let and_weights = match weights {
            0 => String::new(),
            1 => ", 1 weight".to_owned(),
            count => format!(", {count} weights"),
        };
        match &self.steps.steps[step] {
            Step::Te(_) => {
                let name = few(&stored.iter().map(String::as_str).collect::<Vec<_>>());
                let line = format!("{name}: kernels of te::auto");
                let ty = slots.first().map(|slot| described(&slot.tensor)).unwrap_or_default() + &and_weights;
                (Box { kind: Kind::Kernels, name: Some(name), what: "kernels of te::auto".to_owned(), ty }, line)
            }
            Step::Product(unit) => {
                let unit = &self.steps.cut.units[*unit];
                let [products, with] = names(unit, &stored);
                let types = unit.first().types;
                let count = match products.len() {
                    1 => "a product".to_owned(),
                    count => format!("{count} products"),
                };
                let (products, ty) =
                    (products.join(" and "), format!("{count}, {} × {}{and_weights}", types.a, types.b));
                let what = if with.is_empty() { "alone".to_owned() } else { format!("with {}", few(&with)) };
                let line = format!("{products} {what}: {ty}");
                (Box { kind: Kind::Product, name: Some(products), what, ty }, line)
            }
        }
    }

    /// The box from which a tensor comes, and what an arrow from it says.
    fn source(&mut self, tensor: &Tensor) -> (usize, String) {
        if let Some((_, place)) = self.known.iter().find(|(known, _)| known == tensor) {
            let is_input = self.graph.boxes[*place].kind == Kind::Load;
            return (*place, if is_input { String::new() } else { tensor.name() });
        }
        let (name, ty) = (Some(tensor.name()), described(tensor));
        let place = self.graph.push(Box { kind: Kind::Load, name, what: "input".to_owned(), ty });
        self.known.push((tensor.clone(), place));
        (place, String::new())
    }

    fn output(&mut self, number: usize, output: &Tensor) {
        let Some(slot) = self.steps.slots.iter().find(|slot| slot.output == Some(number)) else { return };
        let (from, _) = self.source(&slot.tensor);
        let (name, ty) = (Some(output.name()), described(output));
        let place = self.graph.push(Box { kind: Kind::Store, name, what: "output".to_owned(), ty });
        self.arrow(from, place, String::new());
    }

    /// Adds an arrow, unless the same one is there.
    fn arrow(&mut self, from: usize, to: usize, label: String) {
        let is_there = |arrow: &Arrow| (arrow.from, arrow.to) == (from, to) && arrow.label == label;
        if !self.graph.arrows.iter().any(is_there) {
            self.graph.arrows.push(Arrow { from, to, label, dashed: false });
        }
    }
}

/// The first names, and how many more there are.
fn few(names: &[&str]) -> String {
    match names {
        [a, b, c, rest @ ..] if rest.len() > 1 => format!("{a}, {b}, {c} and {} more", rest.len()),
        all => all.join(", "),
    }
}

/// A tensor's type and shape.
fn described(tensor: &Tensor) -> String {
    let shape: Vec<String> = tensor.shape().iter().map(expression).collect();
    format!("{} [{}]", tensor.dtype(), shape.join(", "))
}
