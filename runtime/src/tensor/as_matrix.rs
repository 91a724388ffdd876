//! Views of tensors of any rank as matrices and vectors.

use crate::error::Result;
use crate::layout::axes::{NamedAxes, WantedAxis, read};
use crate::tensor::DeviceTensor;

impl DeviceTensor {
    /// A view of the tensor as a matrix: of the given axes as its rows, and the others as its columns. The axes of a list are
    /// in the matrix's order, the last the fastest. Nothing is copied.
    ///
    /// The view may be an epilogue's argument, read or written. So a product writes attention's heads apart: its rows
    /// are `(b, s)` and its columns `(h, d)`, and they go to a tensor `[B, H, S, D]`.
    ///
    /// ```
    /// use epilogue_runtime::Device;
    ///
    /// let device = Device::cpu();
    /// let (b, h, s, d) = (2, 3, 4, 5);
    /// let values: Vec<f32> = (0..b * h * s * d).map(|i| i as f32).collect();
    /// let heads = device.tensor(&values, [b, h, s, d])?;
    /// let merged = heads.as_matrix(&[0, 2], &[1, 3])?; // (b, s) by (h, d)
    /// assert_eq!(merged.axes().map(|axes| axes.shape()), Some(vec![b * s, h * d]));
    /// assert_eq!(merged.to_vec::<f32>()?[..7], [0.0, 1.0, 2.0, 3.0, 4.0, 20.0, 21.0]); // row 0: head 0, then head 1
    ///
    /// // Axes that lie one after another are one axis: an ordinary matrix.
    /// assert_eq!(heads.as_matrix(&[0, 1, 2], &[3])?.shape(), [b * h * s, d]);
    /// // A mask [S, T] for every batch and head, as a matrix of (b, h, s) by t.
    /// let mask = device.zeros::<f32>([s, 7])?.broadcast_to([b, h, s, 7])?;
    /// assert_eq!(mask.as_matrix(&[0, 1, 2], &[3])?.axes().map(|axes| axes.shape()), Some(vec![b * h * s, 7]));
    /// # Ok::<(), epilogue_runtime::Error>(())
    /// ```
    ///
    /// Neighbouring axes of a list whose strides chain are merged. If one axis is left for the rows and one for the
    /// columns, the view has shape `[M, N]`. Else it has two of each, `[M / m, m, N / n, n]` (any of them may be 1).
    /// [`axes`](Self::axes) then tells that they are a matrix. A view of this view is an ordinary tensor again.
    ///
    /// # Errors
    /// [`LayoutError::Axis`](crate::LayoutError::Axis), [`AxisTwice`](crate::LayoutError::AxisTwice),
    /// [`AxisLeftOut`](crate::LayoutError::AxisLeftOut): every axis must be named once;
    /// [`Digits`](crate::LayoutError::Digits): more than two axes of a list are left.
    pub fn as_matrix(&self, rows: &[usize], columns: &[usize]) -> Result<Self> {
        self.read_as(&[WantedAxis::own("rows", rows), WantedAxis::own("columns", columns)])
    }

    /// A matrix with axes that are the batch in front of it: `[L, M, N]`.
    ///
    /// ```
    /// # use epilogue_runtime::Device;
    /// let scores = Device::cpu().zeros::<f32>([2, 3, 4, 5])?; // [B, S, H, T]
    /// let by_head = scores.as_batched_matrix(&[0], &[2, 1], &[3])?; // for each b, rows (h, s)
    /// assert_eq!(by_head.axes().map(|axes| axes.shape()), Some(vec![2, 12, 5]));
    /// // A mask of each b, which all heads share: its batch is (b, h), two axes that don't merge.
    /// let mask = Device::cpu().zeros::<f32>([2, 1, 3, 5])?.broadcast_to([2, 4, 3, 5])?;
    /// let by_head = mask.as_batched_matrix(&[0, 1], &[2], &[3])?;
    /// assert_eq!(by_head.axes().map(|axes| axes.shape()), Some(vec![8, 3, 5]));
    /// # Ok::<(), epilogue_runtime::Error>(())
    /// ```
    ///
    /// The batch has one axis of the view or two, whatever rows and columns have. A product's A and B may be batches of two
    /// axes, too.
    ///
    /// # Errors
    /// As [`as_matrix`](Self::as_matrix).
    pub fn as_batched_matrix(&self, batch: &[usize], rows: &[usize], columns: &[usize]) -> Result<Self> {
        self.read_as(&[WantedAxis::batch(batch), WantedAxis::own("rows", rows), WantedAxis::own("columns", columns)])
    }

    /// A view of the tensor as a vector with a value for each column, `[N]`. It has all axes in the given order, the
    /// last the fastest.
    ///
    /// ```
    /// # use epilogue_runtime::Device;
    /// let bias = Device::cpu().tensor(&[0f32, 1.0, 2.0, 3.0, 4.0, 5.0], [3, 2])?; // of each head
    /// assert_eq!(bias.as_row_vector(&[0, 1])?.shape(), [6]);
    ///
    /// // 0, 2, 4, 1, … are not one stride apart: a vector of two axes.
    /// let interleaved = bias.as_row_vector(&[1, 0])?;
    /// assert_eq!(interleaved.axes().map(|axes| axes.shape()), Some(vec![6]));
    /// assert_eq!(interleaved.to_vec::<f32>()?, [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
    /// # Ok::<(), epilogue_runtime::Error>(())
    /// ```
    ///
    /// Neighbouring axes whose strides chain are merged. If two are left, the view has shape `[N / n, n]`, and
    /// [`axes`](Self::axes) tells that it is a vector.
    ///
    /// # Errors
    /// As [`as_matrix`](Self::as_matrix): at most two axes may be left.
    pub fn as_row_vector(&self, axes: &[usize]) -> Result<Self> {
        self.read_as(&[WantedAxis::own("columns", axes)])
    }

    /// A vector with axes that are the batch in front of it: `[L, N]`.
    ///
    /// ```
    /// # use epilogue_runtime::Device;
    /// let bias = Device::cpu().zeros::<f32>([3, 2, 4])?; // [H, B, D]
    /// let by_batch = bias.as_batched_row_vector(&[1], &[0, 2])?; // for each b, columns (h, d)
    /// assert_eq!(by_batch.axes().map(|axes| axes.shape()), Some(vec![2, 12]));
    /// # Ok::<(), epilogue_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`as_row_vector`](Self::as_row_vector).
    pub fn as_batched_row_vector(&self, batch: &[usize], axes: &[usize]) -> Result<Self> {
        self.read_as(&[WantedAxis::batch(batch), WantedAxis::own("columns", axes)])
    }

    /// As [`as_row_vector`](Self::as_row_vector), with a value for each row, `[M]`.
    ///
    /// # Errors
    /// As [`as_row_vector`](Self::as_row_vector).
    pub fn as_column_vector(&self, axes: &[usize]) -> Result<Self> {
        self.read_as(&[WantedAxis::own("rows", axes)])
    }

    /// As [`as_batched_row_vector`](Self::as_batched_row_vector), with a value for each row, `[L, M]`.
    ///
    /// # Errors
    /// As [`as_batched_row_vector`](Self::as_batched_row_vector).
    pub fn as_batched_column_vector(&self, batch: &[usize], axes: &[usize]) -> Result<Self> {
        self.read_as(&[WantedAxis::batch(batch), WantedAxis::own("rows", axes)])
    }

    /// A view of the tensor as a value for each batch, `[L]`, of all its axes in the given order, the last the fastest.
    ///
    /// ```
    /// # use epilogue_runtime::Device;
    /// let scales = Device::cpu().tensor(&[0.5f32, 2.0], [2, 1])?.broadcast_to([2, 3])?; // of each b, for all its heads
    /// let by_head = scales.as_batched_scalar(&[0, 1])?;
    /// assert_eq!(by_head.axes().map(|axes| axes.shape()), Some(vec![6]));
    /// # Ok::<(), epilogue_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`as_row_vector`](Self::as_row_vector).
    pub fn as_batched_scalar(&self, batch: &[usize]) -> Result<Self> {
        self.read_as(&[WantedAxis::batch(batch)])
    }

    fn read_as(&self, wanted: &[WantedAxis<'_>]) -> Result<Self> {
        let (layout, axes): (_, NamedAxes) = read(self.layout(), wanted)?;
        Ok(self.named_view(layout, axes))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, DeviceTensor, Error, LayoutError};

    fn counting(shape: &[usize]) -> DeviceTensor {
        let values: Vec<f32> = (0..shape.iter().product()).map(|i: usize| i as f32).collect();
        Device::cpu().tensor(&values, shape).unwrap()
    }

    fn message(view: Result<DeviceTensor, Error>) -> String {
        view.unwrap_err().to_string()
    }

    /// Every order of four axes, cut into rows and columns anywhere: the elements of the matrix are those that nested loops
    /// over the axes reach, whether axes merge or not.
    #[test]
    fn every_order_of_axes_reaches_the_right_elements() {
        let (mut plain, mut with_digits, mut refused) = (0, 0, 0);
        for shape in [[2, 3, 4, 5], [3, 1, 4, 2], [1, 1, 5, 1]] {
            let tensor = counting(&shape);
            for code in 0..256usize {
                let order = [code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6];
                if (0..4).any(|axis| !order.contains(&axis)) {
                    continue;
                }
                let permuted = tensor.permute(&order).unwrap().to_vec::<f32>().unwrap();
                for cut in 0..=4 {
                    let (rows, columns) = order.split_at(cut);
                    let Ok(view) = tensor.as_matrix(rows, columns) else {
                        refused += 1;
                        continue;
                    };
                    let axes = view.axes().unwrap();
                    let wanted = [rows, columns].map(|axes| axes.iter().map(|axis| shape[*axis]).product::<usize>());
                    assert_eq!(axes.shape(), wanted);
                    assert_eq!(view.rank(), if axes.has_digits() { 4 } else { 2 });
                    assert_eq!(view.to_vec::<f32>().unwrap(), permuted, "{shape:?} {rows:?} {columns:?}");
                    *if axes.has_digits() { &mut with_digits } else { &mut plain } += 1;
                }
            }
        }
        assert!(plain > 50 && with_digits > 50 && refused > 10, "{plain} {with_digits} {refused}");
    }

    #[test]
    fn batches_vectors_and_broadcasts() {
        let tensor = counting(&[2, 3, 4, 5]);
        let batched = tensor.as_batched_matrix(&[0], &[2, 1], &[3]).unwrap();
        assert_eq!(batched.shape(), [2, 4, 3, 1, 5]);
        assert_eq!(batched.strides(), [60, 5, 20, 0, 1]);
        assert_eq!(tensor.as_batched_matrix(&[0, 1], &[2], &[3]).unwrap().shape(), [6, 4, 5]);
        assert_eq!(tensor.as_batched_matrix(&[], &[0, 1, 2], &[3]).unwrap().shape(), [1, 24, 5]);
        // Axes without a stride are one axis without one.
        let mask = counting(&[4, 5]).broadcast_to([2, 3, 4, 5]).unwrap().as_matrix(&[0, 1, 2], &[3]).unwrap();
        assert_eq!((mask.shape(), mask.strides()), (&[6, 4, 1, 5][..], &[0, 5, 0, 1][..]));
        let padded = counting(&[3, 8]).slice(1, 0..5).unwrap();
        let vector = padded.as_row_vector(&[0, 1]).unwrap();
        assert_eq!((vector.shape(), vector.strides()), (&[3, 5][..], &[8, 1][..]));
        assert_eq!(vector.axes().unwrap().shape(), [15]);
        let batched = counting(&[3, 2, 8]).slice(2, 0..5).unwrap();
        let rows = batched.as_batched_column_vector(&[1], &[0, 2]).unwrap();
        assert_eq!((rows.shape(), rows.strides()), (&[2, 3, 5][..], &[8, 16, 1][..]));
        assert_eq!(rows.axes().unwrap().shape(), [2, 15]);
        let merged = counting(&[2, 3, 8]).as_batched_row_vector(&[0], &[1, 2]).unwrap();
        assert_eq!((merged.shape(), merged.axes().unwrap().has_digits()), (&[2, 24][..], false));
        assert_eq!(padded.as_column_vector(&[0]).unwrap_err().to_string(), "axes [0] leave out axis 1");
        assert_eq!(counting(&[3, 8]).as_column_vector(&[0, 1]).unwrap().shape(), [24]);
        // Nothing is nothing, whatever lies around it.
        let empty = counting(&[2, 0, 4, 5]).as_matrix(&[0, 2], &[3, 1]).unwrap();
        assert_eq!((empty.axes().unwrap().shape(), empty.len()), (vec![8, 0], 0));
        let scalar = Device::cpu().zeros::<f32>([]).unwrap();
        assert_eq!(scalar.as_matrix(&[], &[]).unwrap().shape(), [1, 1]);
    }

    #[test]
    fn mistakes_are_named() {
        let tensor = counting(&[2, 3, 4, 5]);
        assert_eq!(message(tensor.as_matrix(&[0, 2], &[1, 2])), "axes [0, 2] and [1, 2] name axis 2 twice");
        assert_eq!(message(tensor.as_matrix(&[0, 2], &[3])), "axes [0, 2] and [3] leave out axis 1");
        let batched = tensor.as_batched_matrix(&[0], &[0, 2], &[3]);
        assert_eq!(message(batched), "axes [0], [0, 2] and [3] name axis 0 twice");
        let beyond = tensor.as_matrix(&[0, 4], &[1]);
        assert!(matches!(beyond, Err(Error::Layout(LayoutError::Axis { axis: 4, .. }))));
        assert_eq!(
            message(tensor.as_matrix(&[2, 1, 0], &[3])),
            "the rows, axes [2, 1, 0], are [4, 3, 2] with strides [5, 20, 60], which don't merge: at most 2 may be left; make \
             the tensor contiguous in this order (`permute`, then `contiguous()`), or name axes that lie one after another"
        );
        assert_eq!(
            message(tensor.as_column_vector(&[1, 0, 2, 3])),
            "the rows, axes [1, 0, 2, 3], are [3, 2, 20] with strides [20, 60, 1], which don't merge: at most 2 may be left; \
             make the tensor contiguous in this order (`permute`, then `contiguous()`), or name axes that lie one after another"
        );
    }

    /// Two halves of one tensor share no memory, whichever axis is cut; a half and the whole do.
    #[test]
    fn halves_do_not_overlap() {
        let whole = counting(&[4, 6, 8, 10]);
        for axis in 0..4 {
            let half = whole.shape()[axis] / 2;
            let part = |range| whole.slice(axis, range).unwrap().as_matrix(&[0, 2], &[1, 3]).unwrap();
            let (first, second) = (part(0..half), part(half..2 * half));
            assert!(!first.overlaps(&second) && !second.overlaps(&first), "{axis}");
            assert!(!first.has_internal_overlap());
            assert!(first.overlaps(&whole) && first.overlaps(&part(half - 1..2 * half - 1)), "{axis}");
        }
        // As large as in use: query, key and value of one projection, by heads.
        let device = Device::cpu();
        let packed = device.without_memory(crate::ElementType::BF16, [8, 2048, 3, 32, 128]).unwrap();
        let part = |i: usize| {
            let part = packed.slice(2, i..i + 1).unwrap().reshape([8, 2048, 32, 128]).unwrap();
            part.as_matrix(&[0, 2], &[1, 3]).unwrap()
        };
        let parts = [0, 1, 2].map(part);
        assert!(!parts[0].overlaps(&parts[1]) && !parts[1].overlaps(&parts[2]) && parts[1].overlaps(&parts[1]));
        assert!(parts.iter().all(|part| !part.has_internal_overlap()));
    }

    /// A view of a view is a tensor like any other.
    #[test]
    fn views_of_views_are_plain() {
        let view = counting(&[2, 3, 4, 5]).as_matrix(&[0, 2], &[1, 3]).unwrap();
        assert_eq!(view.shape(), [2, 4, 3, 5]);
        assert!(view.clone().axes().is_some());
        assert!(view.slice(0, 0..1).unwrap().axes().is_none());
        assert!(view.contiguous().unwrap().axes().is_none());
        let mut written = view.clone();
        written.copy_from(&(0..120).map(|i| i as f32).collect::<Vec<_>>()).unwrap();
        assert_eq!(view.to_vec::<f32>().unwrap()[..3], [0.0, 1.0, 2.0]);
    }
}
