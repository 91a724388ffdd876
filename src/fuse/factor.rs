//! The factors of a product as tensors of a run: elements at plain indices, windows of images, or rows that an index picks.
//!
//! A window slides along a dimension if its index is `output · stride + tap · dilation + start`. The output is an axis of
//! the result, the tap one of the sum. Outside of the image it is 0, as a `select` says. So it is found by its
//! indices, whatever function made the expression. A product reads windows and picked rows as its left factor only, and
//! images with their channels last: other images are copied into that order first.
//!
//! A factor that is none of these becomes a tensor of its own, over its axes, in its own type: that is how a product
//! multiplies it.

use super::kept::Kept;
use super::role::{Role, exact};
use crate::ElementType;
use crate::te::arith::{coefficient, equal, simplify};
use crate::te::auto::is_size;
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::tensor::Tensor;
use crate::te::expr::var::Var;
use crate::te::{DType, TeError, compute_over};

/// The index of a dimension of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Index {
    /// An axis of the product, by its place among the product's axes.
    Axis(usize),
    /// An axis of the product, counted from 0 wherever that begins.
    FromZero(usize),
    /// One value, made of sizes.
    At(Expr),
    /// A window.
    Slides(Slide<usize>),
    /// The element of another tensor.
    Picked(Box<View>),
}

/// How a window slides along a dimension: it has element `output · stride + tap · dilation + start`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slide<A> {
    pub(super) output: A,
    pub(super) tap: A,
    pub(super) stride: usize,
    pub(super) dilation: usize,
    pub(super) start: i64,
    /// Whether elements before the first one and after the last one are 0, and are not read.
    pub(super) zeros: [bool; 2],
}

/// A tensor as a product sees it: the index of every dimension.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    pub(super) tensor: Tensor,
    pub(super) indices: Vec<Index>,
}

impl View {
    /// The tensor that picks its rows.
    pub(super) fn index(&self) -> Option<&Self> {
        self.indices.iter().find_map(|index| match index {
            Index::Picked(index) => Some(&**index),
            _ => None,
        })
    }

    /// Whether windows slide over it.
    pub(super) fn slides(&self) -> bool {
        self.indices.iter().any(|index| matches!(index, Index::Slides(_)))
    }
}

/// A factor of what is summed.
#[derive(Clone)]
pub(super) struct Factor {
    x: Expr,
    /// Its axes.
    axes: Vec<Axis>,
    /// The tensor that it is an element of.
    direct: Option<(Tensor, Vec<Direct>)>,
}

/// The index of a dimension, before axes have places.
#[derive(Clone)]
enum Direct {
    Axis(Axis),
    At(Expr),
    Slides(Slide<Axis>),
    Picked(Box<Factor>),
}

impl Direct {
    fn is_plain(&self) -> bool {
        matches!(self, Self::Axis(_) | Self::At(_))
    }

    /// The place of an axis among those of this index.
    fn place(&self, axis: &Axis) -> Option<usize> {
        match self {
            Self::Axis(own) => (own == axis).then_some(0),
            Self::At(_) => None,
            Self::Slides(slide) => (slide.output == *axis || slide.tap == *axis).then_some(0),
            Self::Picked(index) if index.is_there() => index.place(axis).map(|(dimension, _)| dimension),
            Self::Picked(index) => index.axes.iter().position(|own| own == axis),
        }
    }
}

impl Factor {
    /// A factor of a sum over `depth` axes for a result of `outputs`.
    pub(super) fn of(x: &Expr, [outputs, depth]: [&[Axis]; 2], kept: &Kept) -> Self {
        let x = exact(x).clone();
        let written_out = exact(&kept.inlined(&x)).clone();
        let direct = direct(&written_out, [outputs, depth], kept).or_else(|| direct(&x, [outputs, depth], kept));
        let own = |axis: &&Axis| match &direct {
            Some((_, indices)) => indices.iter().any(|index| index.place(axis).is_some()),
            None => written_out.uses(axis.var()),
        };
        let axes = outputs.iter().chain(depth).filter(own).copied().collect();
        Self { x, axes, direct }
    }

    pub(super) fn has(&self, axis: &Axis) -> bool {
        self.axes.contains(axis)
    }

    pub(super) fn dtype(&self) -> DType {
        self.direct.as_ref().map_or(self.x.dtype(), |(tensor, _)| tensor.dtype())
    }

    /// Whether it is the element of a tensor that is there.
    pub(super) fn is_there(&self) -> bool {
        self.direct.is_some()
    }

    /// Whether it is windows of images, or rows that an index picks.
    pub(super) fn is_read_specially(&self) -> bool {
        self.direct.as_ref().is_some_and(|(_, indices)| !indices.iter().all(Direct::is_plain))
    }

    /// Where an axis is in the tensor: the dimension, and the place there.
    pub(super) fn place(&self, axis: &Axis) -> Option<(usize, usize)> {
        let (_, indices) = self.direct.as_ref()?;
        indices.iter().enumerate().find_map(|(dimension, index)| Some((dimension, index.place(axis)?)))
    }

    /// This factor as one that is computed, into a tensor in the product's order.
    pub(super) fn computed(&self) -> Self {
        Self { direct: None, ..self.clone() }
    }

    /// This factor as the left one: computed unless a product reads it so. Images are copied if their channels aren't
    /// last.
    pub(super) fn as_left(&self, name: &str, roles: &[(Axis, Role)]) -> Result<Self, TeError> {
        let Some((tensor, indices)) = self.direct.as_ref().filter(|_| self.is_read_specially()) else {
            return Ok(self.clone());
        };
        let role = |axis: &Axis| roles.iter().find(|(own, _)| own == axis).map(|(_, role)| *role);
        if !indices.iter().all(|index| index.is_of_rows(&role)) {
            return Ok(self.computed());
        }
        let kept: Vec<usize> = (0..indices.len()).filter(|d| !matches!(indices[*d], Direct::At(_))).collect();
        if indices.iter().any(|index| matches!(index, Direct::Picked(_))) {
            // Rows of elements that lie one after another.
            let is_first = matches!(kept.first().map(|d| &indices[*d]), Some(Direct::Picked(_)));
            let alone = kept[1..].iter().all(|d| indices[*d].rank(&role) == 2);
            return Ok(if is_first && alone { self.clone() } else { self.computed() });
        }
        if indices.iter().filter(|index| matches!(index, Direct::Slides(_))).count() > 3 {
            return Ok(self.computed());
        }
        let mut order = kept.clone();
        order.sort_by_key(|d| indices[*d].rank(&role));
        if order == kept {
            return Ok(self.clone());
        }
        let shape: Vec<Expr> = order.iter().map(|d| tensor.shape()[*d].clone()).collect();
        let mut made = compute_over(shape, &format!("{name}_image"), |axes| {
            let at = indices.iter().enumerate().map(|(d, index)| match index {
                Direct::At(x) => x.clone(),
                _ => order.iter().position(|own| *own == d).map_or(Expr::int(0), |place| axes[place].into()),
            });
            vec![tensor.at(at.collect::<Vec<Expr>>())]
        })?;
        let indices = order.iter().map(|d| indices[*d].clone()).collect();
        Ok(Self { direct: Some((made.swap_remove(0), indices)), ..self.clone() })
    }

    /// This factor as the right one, beside a left one: computed unless it is read at plain indices, and its axes of the
    /// depth lie as the left one's do.
    pub(super) fn as_right(&self, left: &Self, depth: &[Axis]) -> Self {
        let in_order = |factor: &Self| {
            let mut order: Vec<&Axis> = depth.iter().collect();
            order.sort_by_key(|axis| factor.place(axis));
            order.into_iter().copied().collect::<Vec<Axis>>()
        };
        let is_alike = !left.is_there() || !self.is_there() || in_order(left) == in_order(self);
        if is_alike && !self.is_read_specially() { self.clone() } else { self.computed() }
    }

    /// The factor as a tensor: the one that is there, or a new one, over its axes in the product's order.
    pub(super) fn view(&self, name: &str, axes: &[(Axis, Role)], side: &str) -> Result<View, TeError> {
        let place = |axis: &Axis| axes.iter().position(|(own, _)| own == axis);
        if let Some((tensor, indices)) = &self.direct {
            let mut made = Vec::with_capacity(indices.len());
            for index in indices {
                made.extend(match index {
                    Direct::Axis(axis) => place(axis).map(Index::Axis),
                    Direct::At(x) => Some(Index::At(x.clone())),
                    Direct::Slides(slide) => place(&slide.output)
                        .zip(place(&slide.tap))
                        .map(|(output, tap)| Index::Slides(slide.with_axes(output, tap))),
                    Direct::Picked(index) => Some(Index::Picked(Box::new(index.view(name, axes, "index")?))),
                });
            }
            return Ok(View { tensor: tensor.clone(), indices: made });
        }
        let own: Vec<Axis> = axes.iter().map(|(axis, _)| *axis).filter(|axis| self.has(axis)).collect();
        let domains: Vec<_> = own.iter().filter_map(|axis| axis.domain()).collect();
        let extents: Vec<Expr> = domains.iter().map(|domain| domain.extent.clone()).collect();
        let mut made = compute_over(extents, &format!("{name}_{side}"), |made| {
            let value = |var: Var| {
                let d = own.iter().position(|axis| axis.var() == var)?;
                Some(if domains[d].min.as_int() == Some(0) {
                    Expr::from(made[d])
                } else {
                    made[d] + domains[d].min.clone()
                })
            };
            vec![self.x.substitute(&value)]
        })?;
        let indices = own.iter().filter_map(place).map(Index::FromZero).collect();
        Ok(View { tensor: made.swap_remove(0), indices })
    }
}

impl Direct {
    /// Whether a product of rows and a depth reads it.
    fn is_of_rows(&self, role: &impl Fn(&Axis) -> Option<Role>) -> bool {
        match self {
            Self::Axis(axis) => matches!(role(axis), Some(Role::Row | Role::Depth)),
            Self::At(_) => true,
            Self::Slides(slide) => role(&slide.output) == Some(Role::Row) && role(&slide.tap) == Some(Role::Depth),
            Self::Picked(index) => index.axes.iter().all(|axis| role(axis) == Some(Role::Row)),
        }
    }

    /// Where it is among the dimensions of images with their channels last.
    fn rank(&self, role: &impl Fn(&Axis) -> Option<Role>) -> usize {
        match self {
            Self::Axis(axis) if role(axis) == Some(Role::Depth) => 2,
            Self::Slides(_) => 1,
            _ => 0,
        }
    }
}

impl<A> Slide<A> {
    fn with_axes<B>(&self, output: B, tap: B) -> Slide<B> {
        let Self { stride, dilation, start, zeros, .. } = *self;
        Slide { output, tap, stride, dilation, start, zeros }
    }
}

/// The tensor that an expression is an element of, if every index is an axis, made of sizes, a window or picked. An axis
/// is in one index only.
fn direct(x: &Expr, [outputs, depth]: [&[Axis]; 2], kept: &Kept) -> Option<(Tensor, Vec<Direct>)> {
    let (inside, element) = match x.kind() {
        Kind::Select(inside, element, zero) if is_zero(zero) => (Some(inside), exact(element)),
        _ => (None, x),
    };
    let Kind::Read(tensor, indices) = element.kind() else { return None };
    let mut made: Vec<Direct> = Vec::with_capacity(indices.len());
    for index in indices {
        let index = simplify(index);
        let axis = outputs.iter().chain(depth).find(|axis| index.as_var() == Some(axis.var()));
        made.push(match axis {
            Some(axis) => Direct::Axis(*axis),
            None if is_size(&index) => Direct::At(index),
            None => {
                slide(&index, outputs, depth).map(Direct::Slides).or_else(|| picked(&index, [outputs, depth], kept))?
            }
        });
    }
    let is_once = |axis: &Axis| made.iter().filter(|index| index.place(axis).is_some()).count() <= 1;
    if !outputs.iter().chain(depth).all(is_once) {
        return None;
    }
    let count = |is: fn(&Direct) -> bool| made.iter().filter(|index| is(index)).count();
    let (slides, picks) =
        (count(|index| matches!(index, Direct::Slides(_))), count(|index| matches!(index, Direct::Picked(_))));
    if picks > 1 || (picks == 1 && slides > 0) {
        return None;
    }
    if let Some(inside) = inside {
        guard(inside, tensor, indices, &mut made)?;
    }
    let reads_before = |index: &Direct| matches!(index, Direct::Slides(slide) if slide.start < 0 && !slide.zeros[0]);
    (!made.iter().any(reads_before)).then(|| (tensor.clone(), made))
}

fn is_zero(x: &Expr) -> bool {
    match x.kind() {
        Kind::Float(value) => value.to_bits() == 0,
        Kind::Int(value) => *value == 0,
        _ => false,
    }
}

/// A window along a dimension with this index.
fn slide(index: &Expr, outputs: &[Axis], depth: &[Axis]) -> Option<Slide<Axis>> {
    let only = |axes: &[Axis]| {
        let mut own = axes.iter().filter(|axis| index.uses(axis.var()));
        let axis = *own.next()?;
        let begins_at_0 = axis.domain().is_some_and(|domain| domain.min.as_int() == Some(0));
        (begins_at_0 && own.next().is_none()).then_some(axis)
    };
    let (output, tap) = (only(outputs)?, only(depth)?);
    let by = |axis: Axis| coefficient(index, axis.var()).and_then(|by| usize::try_from(by).ok()).filter(|by| *by > 0);
    let (stride, dilation) = (by(output)?, by(tap)?);
    let start = simplify(&(index - output * stride - tap * dilation)).as_int()?;
    Some(Slide { output, tap, stride, dilation, start, zeros: [false; 2] })
}

/// An index that another tensor holds, for axes of the result.
fn picked(index: &Expr, [outputs, depth]: [&[Axis]; 2], kept: &Kept) -> Option<Direct> {
    let index = exact(index);
    let holds = index.contains(|x| matches!(x.kind(), Kind::Read(..)));
    if !holds || index.dtype() != DType::Number(ElementType::I32) || depth.iter().any(|axis| index.uses(axis.var())) {
        return None;
    }
    let factor = Factor::of(index, [outputs, &[]], kept);
    Some(Direct::Picked(Box::new(if factor.is_read_specially() { factor.computed() } else { factor })))
}

/// Notes where a condition makes windows 0; `None` if it says something else.
fn guard(inside: &Expr, tensor: &Tensor, indices: &[Expr], made: &mut [Direct]) -> Option<()> {
    let mut pending = vec![inside];
    while let Some(x) = pending.pop() {
        if let Kind::Binary(Binary::And, a, b) = x.kind() {
            pending.extend([a, b]);
            continue;
        }
        // What is at least 0 where the condition holds.
        let Kind::Binary(op, a, b) = x.kind() else { return None };
        let room = match op {
            Binary::Ge => a - b,
            Binary::Gt => a - b - 1,
            Binary::Le => b - a,
            Binary::Lt => b - a - 1,
            _ => return None,
        };
        let bound = indices.iter().zip(tensor.shape()).zip(&mut *made).find_map(|((index, extent), made)| {
            let Direct::Slides(slide) = made else { return None };
            let sides = [equal(&room, index), equal(&room, &(extent - 1 - index))];
            sides.iter().position(|is| *is).map(|side| (slide, side))
        });
        let (slide, side) = bound?;
        slide.zeros[side] = true;
    }
    Some(())
}
