//! A window's numbers, whatever the number of its axes.

/// The most axes of an image that a window slides along.
pub(crate) const MOST_AXES: usize = 3;

/// A [`Window`](super::window::Window) of any number of axes, as if it had three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sliding {
    /// How many there are: the last ones. Of more than three there are no numbers, and they are refused.
    pub(crate) axes: usize,
    pub(crate) size: [usize; MOST_AXES],
    pub(crate) stride: [usize; MOST_AXES],
    pub(crate) before: [usize; MOST_AXES],
    pub(crate) after: [usize; MOST_AXES],
    pub(crate) dilation: [usize; MOST_AXES],
}

impl Sliding {
    /// Whether every patch is one element of the image, one after another.
    pub(crate) fn is_single(&self) -> bool {
        let Self { size, stride, before, after, .. } = self;
        (size, stride, before, after) == (&[1; 3], &[1; 3], &[0; 3], &[0; 3])
    }

    /// Numbers of the axes that there are.
    pub(crate) fn own(&self, numbers: &[usize; MOST_AXES]) -> Vec<usize> {
        numbers[MOST_AXES - self.axes.min(MOST_AXES)..].to_vec()
    }
}
