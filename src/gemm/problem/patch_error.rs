//! Why images, window and filters do not form a convolution.

/// Why images, a window and filters are no convolution. Nothing has been written when a run returns one.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The window has too many axes, or none.
    #[error("the window has {axes} axes: give 1, 2 or 3, as in `Window::of([3, 3])`")]
    Axes {
        /// How many it has.
        axes: usize,
    },
    /// The images have another number of axes than the window.
    #[error(
        "x has shape {given:?}, and the window {axes} axes: give {}",
        ["[N, W, C]", "[N, H, W, C]", "[N, D, H, W, C]"][(*axes).clamp(1, 3) - 1]
    )]
    Rank {
        /// The shape of the images.
        given: Vec<usize>,
        /// How many axes the window has.
        axes: usize,
    },
    /// A window without elements, or one that doesn't move.
    #[error("the window's {what} is {given:?}: give at least 1 for every axis")]
    Zero {
        /// `size`, `stride` or `dilation`.
        what: &'static str,
        /// The given value.
        given: Vec<usize>,
    },
    /// The window is larger than the image with its padding.
    #[error(
        "the window reaches over {reach} elements along {axis}, and the image has {extent} there with {before} before them and \
         {after} after them: give a smaller window, a smaller dilation, or more padding"
    )]
    Beyond {
        /// `D`, `H` or `W`.
        axis: &'static str,
        /// From the window's first element to its last.
        reach: usize,
        /// The image's extent.
        extent: usize,
        /// The padding before it.
        before: usize,
        /// The padding after it.
        after: usize,
    },
    /// An image with its padding that is too large to be counted.
    #[error("{axis} with its padding has {extent} elements; the largest possible is {limit}: give parts of the images")]
    Padded {
        /// `D`, `H` or `W`.
        axis: &'static str,
        /// The image's extent with its padding.
        extent: usize,
        /// The limit.
        limit: usize,
    },
    /// An image that is larger than what kernels count along this axis.
    #[error(
        "along {axis} the window begins at up to {given}, and kernels count to {limit} there (along W further): give parts of \
         the images, or exchange the axes"
    )]
    Position {
        /// `D` or `H`.
        axis: &'static str,
        /// The padding, or where the last window begins.
        given: usize,
        /// The limit.
        limit: usize,
    },
    /// Channels that groups don't share evenly, or no groups.
    #[error(
        "x has shape {given:?}, whose {channels} channels don't divide into {groups} groups: give `.groups(…)` a divisor of \
         {channels}, 1 for a convolution without groups"
    )]
    ChannelGroups {
        /// The shape of the images, or of the outputs' gradient.
        given: Vec<usize>,
        /// Their channels.
        channels: usize,
        /// The window's groups.
        groups: usize,
    },
    /// Columns or filters that groups don't share evenly, or no groups.
    #[error(
        "B has shape {b:?}, whose {count} {what} don't divide into {groups} groups: give each group as many filters"
    )]
    Shares {
        /// B's shape, or the filters'.
        b: Vec<usize>,
        /// How many there are.
        count: usize,
        /// `columns` or `filters`.
        what: &'static str,
        /// The groups.
        groups: usize,
    },
    /// A gradient's filter for other groups.
    #[error(
        "the filter is laid out for groups of channels, {given} of them, and the window has {needed}: make it by \
         `gradient_filter_in_groups(&w, {needed})?`"
    )]
    GradientGroups {
        /// The filter's.
        given: usize,
        /// The window's.
        needed: usize,
    },
    /// A B that was packed as one matrix.
    #[error(
        "B was packed as one matrix, and the window has {groups} groups of channels: pack a matrix for each, \
         [{groups}, R·S·C/{groups}, K/{groups}], as `Window::groups` says"
    )]
    PackedInGroups {
        /// The window's.
        groups: usize,
    },
    /// B has not as many rows as a patch has elements.
    #[error(
        "patches of images of shape {images:?} have {elements} elements, {} of the window for each of {channels} channels{}, and B \
         of shape {b:?} has {rows} rows: give filters of as many channels",
        elements / (*channels).max(1),
        of_group(*groups)
    )]
    Channels {
        /// The shape of the images.
        images: Vec<usize>,
        /// Elements of a patch.
        elements: usize,
        /// Channels of the images, those of each group.
        channels: usize,
        /// The window's groups of channels.
        groups: usize,
        /// B's shape.
        b: Vec<usize>,
        /// Its rows.
        rows: usize,
    },
    /// B has not as many rows as a patch of a gradient has elements.
    #[error(
        "patches of a gradient of shape {gradient:?} have {elements} elements, {} of the window for each of {filters} filters{}, \
         and B of shape {b:?} has {rows} rows: give the filters that made these outputs",
        elements / (*filters).max(1),
        of_group(*groups)
    )]
    Filters {
        /// The shape of the outputs' gradient.
        gradient: Vec<usize>,
        /// Elements of a patch.
        elements: usize,
        /// How many filters made the outputs, those of each group.
        filters: usize,
        /// The window's groups of channels.
        groups: usize,
        /// B's shape.
        b: Vec<usize>,
        /// Its rows.
        rows: usize,
    },
    /// B is no gradient of the window's outputs.
    #[error(
        "the window has outputs {outputs:?} in images of shape {images:?}, and B has shape {b:?}: give the gradient of these \
         outputs, of their shape with the filters behind it, or as a matrix"
    )]
    Outputs {
        /// The shape of the images.
        images: Vec<usize>,
        /// Images, and outputs along each axis.
        outputs: Vec<usize>,
        /// B's shape.
        b: Vec<usize>,
    },
    /// A gradient of outputs that is no matrix.
    #[error(
        "the outputs' gradient of shape {shape:?} has strides {strides:?}, and its pixels must lie one stride apart: give a \
         contiguous copy"
    )]
    OutputStrides {
        /// Its shape.
        shape: Vec<usize>,
        /// Its strides, in elements.
        strides: Vec<isize>,
    },
    /// A gradient of other outputs than the window has in the images.
    #[error(
        "the window has outputs {needed:?} in images of {image:?}, and their gradient is of {given:?}: give the extents of the \
         images that the outputs were made of"
    )]
    GradientExtents {
        /// Extents of the images whose gradient it is to be.
        image: Vec<usize>,
        /// Extents of the given gradient.
        given: Vec<usize>,
        /// The window's outputs.
        needed: Vec<usize>,
    },
    /// Strides whose product is larger than what kernels count.
    #[error(
        "the window moves by {given:?}, and kernels of a gradient count the product of these to {limit}: give smaller strides, or \
         compute it on the CPU"
    )]
    Strides {
        /// The strides.
        given: Vec<usize>,
        /// The limit.
        limit: usize,
    },
    /// A filter for other patches.
    #[error("B is a filter of another kind than A's patches: multiply {needed}")]
    FilterKind {
        /// The needed B.
        needed: &'static str,
    },
    /// A filter that is not as large as the window.
    #[error("a filter of {given:?} elements and a window of {needed:?}: give a window of the filter's size")]
    FilterSize {
        /// The filter's.
        given: Vec<usize>,
        /// The window's.
        needed: Vec<usize>,
    },
    /// Filters that are none.
    #[error(
        "filters have shape {given:?}: give [K, S, C], [K, R, S, C] or [K, T, R, S, C], with the channels of x last"
    )]
    FilterShape {
        /// The given shape.
        given: Vec<usize>,
    },
    /// Filters whose elements are not one after another.
    #[error(
        "filters of shape {shape:?} have strides {strides:?}, and the elements of one must lie one after another: give a \
         contiguous copy"
    )]
    FilterStrides {
        /// Their shape.
        shape: Vec<usize>,
        /// Their strides, in elements.
        strides: Vec<isize>,
    },
    /// B is a filter, and A is no patches.
    #[error("B is a filter, and A is no images under a window: give `patches(&x, window)`, or the filter's `matrix()`")]
    NoWindow,
    /// B has a batch axis, and that is not of the window's groups.
    #[error("A is patches, and B has shape {b:?}: give one matrix, [K, N], for all images{}", or_for_each(*groups))]
    Batches {
        /// B's shape.
        b: Vec<usize>,
        /// The window's groups of channels.
        groups: usize,
    },
    /// The images' product is to have groups.
    #[error("A is patches, and the product has {divided}: give patches without groups, or a matrix with groups")]
    Groups {
        /// The divided extent.
        divided: super::groups::Divided,
    },
    /// An index is to pick rows of the images' patches.
    #[error("A is patches, and their rows are to be picked: give all patches, or a matrix whose rows an index picks")]
    Picked,
    /// An argument with axes of images that do not fit the GEMM's rows and columns.
    #[error("argument `{name}`: {reason}")]
    Argument {
        /// Its name.
        name: &'static str,
        /// Why.
        reason: String,
    },
}

epilogue_runtime::message::debug!(PatchError);

fn of_group(groups: usize) -> String {
    if groups == 1 { String::new() } else { format!(" of each of {groups} groups") }
}

fn or_for_each(groups: usize) -> String {
    if groups == 1 { String::new() } else { format!(", or one for each of {groups} groups") }
}
