//! A window's numbers, whatever the number of its axes.

/// The most axes of an image that a window slides along.
pub(crate) const MOST_AXES: usize = 3;

/// A [`Window`](super::window::Window) of any number of axes, as if it had three.
///
/// For output p, element r of the window is at `p * stride - before + r * dilation`. The image's elements are
/// `input_dilation` apart, with zeros between and around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sliding {
    /// The number of axes, which are the last of the three. More than three are refused, and have no numbers here.
    pub(crate) axes: usize,
    pub(crate) size: [usize; MOST_AXES],
    pub(crate) stride: [usize; MOST_AXES],
    /// Zeros around the image; negative if the window never reaches its first or last elements.
    pub(crate) before: [isize; MOST_AXES],
    pub(crate) after: [isize; MOST_AXES],
    pub(crate) dilation: [usize; MOST_AXES],
    pub(crate) input_dilation: [usize; MOST_AXES],
    /// How many groups the channels are in.
    pub(crate) groups: usize,
    pub(crate) kind: PatchMatrix,
}

/// The matrix that is made of a window's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchMatrix {
    /// A row for each place of the window: a convolution.
    Rows,
    /// A column for each: the gradient of its filters.
    Columns,
    /// A row for each element of the images that the window slid over. Its columns are the output positions whose
    /// window has that element: the images' gradient. The extents are the images'.
    Gradient([usize; MOST_AXES]),
}

impl Sliding {
    /// Whether every patch is one element of the image, one after another.
    pub(crate) fn is_single(&self) -> bool {
        let Self { size, stride, before, after, input_dilation, .. } = self;
        (size, stride, before, after) == (&[1; 3], &[1; 3], &[0; 3], &[0; 3]) && *input_dilation == [1; 3]
    }

    /// Whether there are zeros between the image's elements.
    pub(crate) fn is_spread(&self) -> bool {
        self.input_dilation != [1; MOST_AXES]
    }

    /// From the window's first element to its last.
    pub(crate) fn reach(&self, axis: usize) -> usize {
        (self.size[axis] - 1).saturating_mul(self.dilation[axis]).saturating_add(1)
    }

    /// The window that slides over `outputs` of this one to give the gradient of images of these extents.
    ///
    /// Output p had element `h = p * stride - before + r * dilation` at r. Let the outputs be `stride` apart. Then
    /// element h had r in the output at `h + before - r * dilation`, if there is one. Counting r from the other end,
    /// this is a window that moves by 1. Both extents have been counted.
    pub(crate) fn mirrored(&self, outputs: &[usize; MOST_AXES], images: &[usize; MOST_AXES]) -> Self {
        let mut this = Self { stride: [1; MOST_AXES], ..*self };
        for axis in 0..MOST_AXES {
            let further = self.reach(axis).cast_signed() - 1;
            // There is nothing between the elements of one.
            this.input_dilation[axis] = if outputs[axis] > 1 { self.stride[axis] } else { 1 };
            let picture = (outputs[axis].max(1) - 1) * this.input_dilation[axis] + 1;
            this.before[axis] = further - self.before[axis];
            this.after[axis] = images[axis].cast_signed() + further - picture.cast_signed() - this.before[axis];
        }
        this
    }

    /// Numbers of the axes that there are.
    pub(crate) fn own(&self, numbers: &[usize; MOST_AXES]) -> Vec<usize> {
        numbers[MOST_AXES - self.axes.min(MOST_AXES)..].to_vec()
    }
}
