//! A product as te's own reduction, of the tensors that a product multiplies: so both round factors alike.

use std::sync::Arc;

use super::factor::{Index, View};
use super::product::Product;
use crate::te::DType;
use crate::te::auto::parts;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::reduce::Reduce;
use crate::te::expr::tensor::{Compute, Operation, OperationKind, Tensor};

/// The product as a reduction of what stands for its factors' tensors; `None` if nothing stands for one.
pub(super) fn alone(product: &Product, standing: &[(Tensor, Tensor)]) -> Option<Tensor> {
    let operation = &product.operation;
    let (compute, (_, reduce)) = (operation.as_compute()?, parts(operation)?);
    let dtype = reduce.source[0].dtype();
    let own = Standing { product, standing };
    let source = vec![own.value(&product.left, dtype)? * own.value(&product.right, dtype)?];
    let reduce = Arc::new(Reduce { source, ..Reduce::clone(reduce) });
    let body = vec![Expr::new(dtype, Kind::Reduce(reduce, 0))];
    let compute = Compute { axes: compute.axes.clone(), reduce_axes: compute.reduce_axes.clone(), body };
    Some(Tensor::new(Operation::new(operation.name(), OperationKind::Compute(compute)), 0))
}

/// A product, and what stands for its tensors.
struct Standing<'a> {
    product: &'a Product,
    standing: &'a [(Tensor, Tensor)],
}

impl Standing<'_> {
    /// A factor's value in the type of the sum.
    fn value(&self, view: &View, dtype: DType) -> Option<Expr> {
        let tensor = self.tensor(view)?;
        let at = self.indices(view)?;
        let element = tensor.at(at.clone()).cast(dtype);
        let extents = tensor.shape();
        let conditions = view.indices.iter().zip(at).zip(extents).flat_map(|((index, at), extent)| {
            let [before, after] = match index {
                Index::Slides(slide) => slide.zeros,
                _ => [false; 2],
            };
            before.then(|| at.greater_equal(0)).into_iter().chain(after.then(|| at.less(&extent)))
        });
        Some(match conditions.reduce(|all, one| all.and(one)) {
            Some(inside) => inside.select(element, Expr::constant(0.0, dtype)),
            None => element,
        })
    }

    fn tensor(&self, view: &View) -> Option<Tensor> {
        self.standing.iter().find(|(of, _)| *of == view.tensor).map(|(_, stands)| stands.clone())
    }

    fn indices(&self, view: &View) -> Option<Vec<Expr>> {
        let axis = |place: usize| self.product.axes[place].0;
        let index = |index: &Index| {
            Some(match index {
                Index::Axis(place) => axis(*place).into(),
                Index::FromZero(place) => {
                    let axis = axis(*place);
                    let min = axis.domain().map(|domain| domain.min).filter(|min| min.as_int() != Some(0));
                    min.map_or_else(|| axis.into(), |min| axis - min)
                }
                Index::At(x) => x.clone(),
                Index::Slides(slide) => {
                    let from = axis(slide.output) * slide.stride + axis(slide.tap) * slide.dilation;
                    from + Expr::int(slide.start)
                }
                Index::Picked(index) => self.tensor(index)?.at(self.indices(index)?),
            })
        };
        view.indices.iter().map(index).collect()
    }
}
