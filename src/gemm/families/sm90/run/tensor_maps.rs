//! Makes the tensor maps of a kernel. They are made from a run's tensors, so they are here and not in `kernel`.

use epilogue_runtime::{DeviceTensor, Im2colMap, L2Promotion, Swizzle, TensorMap, TiledMap};
use smallvec::SmallVec;

use crate::evt::{BroadcastClass, MAX_ACCUMULATORS, ParameterClass, ValidTree};
use crate::gemm::families::sm90::kernel::Sm90Key;
use crate::gemm::families::sm90::kernel::reach::{in_place, takes_groups, too_narrow};
use crate::gemm::families::sm90::kernel::shared::{
    MAX_SHARED_BYTES, MapOf, SharedMap, Traffic, copied_box, table_bytes,
};
use crate::gemm::kernel::ReadingShape;
use crate::gemm::kernel::launch::{MapDescription, Memory};
use crate::gemm::kernel::loading::takes;
use crate::gemm::kernel::views::bit;
use crate::gemm::problem::channels::StepsOfB;
use crate::gemm::problem::digits::{has_batch_digits, has_digits};
use crate::gemm::problem::patches::Patches;
use crate::gemm::problem::sliding::MOST_AXES;
use crate::gemm::problem::{Error, Major, OperandLayout, OperandView, Problem};
use crate::{Argument, ElementType};

/// The arguments of a run that tensor copies of a kernel can't reach; see [`Sm90Key::direct`].
pub(crate) fn direct(tree: &ValidTree, key: &Sm90Key, problem: &Problem, arguments: &[Argument<'_>]) -> u64 {
    let mut direct = 0;
    for (i, argument) in arguments.iter().enumerate() {
        let tensor = match argument {
            Argument::Scalar(_) | Argument::Seed(..) => continue,
            Argument::Input(tensor) => *tensor,
            Argument::Output(tensor) => &**tensor,
        };
        // Bits are never copied.
        let outputs = tree.stores().filter(|(_, output)| output.class == BroadcastClass::Tensor && !output.packed);
        let is_matrix = |class: ParameterClass| matches!(class, ParameterClass::Tensor | ParameterClass::TensorMut);
        let is_output = outputs.map(|(output, _)| tree.output_argument(output)).any(|argument| argument == i);
        let is_matrix = is_output || tree.parameters().get(i).is_some_and(|p| is_matrix(p.class));
        // Rows that an index places are stored by lanes, and batches of two digits are accessed by them.
        let holds_boxes = || !has_digits(tensor) || holds_boxes(tensor, key, problem);
        let reached = || !has_batch_digits(tensor) && reaches(tensor) && holds_boxes();
        if is_matrix && (!reached() || (is_output && problem.placing.is_scattered())) {
            direct |= bit(i);
        }
    }
    direct
}

/// Whether tensor copies reach a tensor of M×N elements, with or without a batch axis: its rows must be contiguous and
/// begin at multiples of 16 bytes. Where rows and columns have two digits each, all strides but the last are multiples, too.
fn reaches(tensor: &DeviceTensor) -> bool {
    let size = tensor.element_type().size();
    let (shape, strides) = (tensor.shape(), tensor.strides());
    let Some(last) = shape.len().checked_sub(1) else { return false };
    let aligned = |axis: usize| {
        let bytes = strides[axis].unsigned_abs() * size;
        shape[axis] <= 1 || (strides[axis] >= 0 && bytes.is_multiple_of(16) && (bytes as u64) < 1 << 40)
    };
    size <= 4
        && (strides[last] == 1 || shape[last] <= 1)
        && tensor.device_address().is_multiple_of(16)
        && (0..last).all(aligned)
}

/// Whether no box goes beyond a lower digit: where there is an upper one, lower digits have whole boxes. (Groups of rows begin
/// anywhere.)
fn holds_boxes(tensor: &DeviceTensor, key: &Sm90Key, problem: &Problem) -> bool {
    let (rows, columns) = copied_box(key, tensor.element_type());
    let extents = &tensor.shape()[tensor.rank() - 4..];
    let whole = |upper: usize, lower: usize, of_box: usize| upper <= 1 || lower.is_multiple_of(of_box);
    !key.cores.rows_are_apart(&key.tile)
        && problem.reading.grouping().is_none()
        && whole(extents[0], extents[1], rows)
        && whole(extents[2], extents[3], columns)
}

/// Whether an argument, which has `rank` axes without the batch axis, differs from batch to batch.
pub(crate) fn is_batched(tensor: &DeviceTensor, rank: usize) -> bool {
    tensor.rank() > rank && tensor.shape()[0] > 1
}

/// Something for each dimension of a tensor map. There are three, or five where rows and columns have two digits.
type Dimensions<T> = SmallVec<[T; 5]>;

/// A matrix as tensor copies see it: innermost extent first, with strides in elements behind the first. The stride of an axis
/// with one element may be any allowed value.
struct Matrix<'a> {
    tensor: &'a DeviceTensor,
    extents: Dimensions<usize>,
    strides: Dimensions<isize>,
}

/// The parts of a tensor map.
struct Map<'a> {
    tensor: &'a DeviceTensor,
    extents: Dimensions<u64>,
    strides: Dimensions<u64>,
    box_extents: Dimensions<u32>,
    swizzle: Swizzle,
}

impl Map<'_> {
    fn encode(&self) -> Result<TensorMap, Error> {
        let Self { tensor, extents, strides, box_extents, swizzle } = self;
        let l2_promotion = L2Promotion::Bytes256;
        Ok(TensorMap::new(&TiledMap { tensor, extents, strides, box_extents, swizzle: *swizzle, l2_promotion })?)
    }
}

impl<'a> Matrix<'a> {
    /// `box_extents` are those of the first dimensions; of the others a box has one element.
    fn map(&self, box_extents: &[usize], swizzle: Swizzle) -> Map<'a> {
        let size = self.tensor.element_type().size() as u64;
        let extents: Dimensions<u64> = self.extents.iter().map(|extent| (*extent).max(1) as u64).collect();
        let walked = self.strides.iter().zip(&extents[1..]);
        let strides = walked.map(|(stride, extent)| if *extent > 1 { stride.unsigned_abs() as u64 * size } else { 16 });
        let strides = strides.collect();
        let box_extents = box_extents.iter().map(|extent| *extent as u32).chain(std::iter::repeat(1));
        let box_extents = box_extents.take(extents.len()).collect();
        Map { tensor: self.tensor, extents, strides, box_extents, swizzle }
    }
}

/// The tensors of a run.
pub(crate) struct Tensors<'a> {
    pub(crate) tree: &'a ValidTree,
    pub(crate) problem: Problem,
    pub(crate) a: &'a DeviceTensor,
    /// The Bs of the live accumulators.
    pub(crate) b: &'a [DeviceTensor],
    pub(crate) arguments: &'a [Argument<'a>],
    /// Where A's elements are, if it is patches.
    pub(crate) patches: Option<Patches>,
}

impl Tensors<'_> {
    /// The bytes of all maps, in the order of [`Traffic::maps`]. Zeros if the product has no elements: then the kernel
    /// copies nothing.
    pub(crate) fn maps(&self, key: &Sm90Key, traffic: &Traffic) -> Result<Vec<u8>, Error> {
        let maps = traffic.maps(key);
        let mut bytes = vec![0; maps.len() * TensorMap::BYTES];
        if self.problem.m == 0 || self.problem.n == 0 {
            return Ok(bytes);
        }
        for (map, to) in maps.into_iter().zip(bytes.chunks_exact_mut(TensorMap::BYTES)) {
            // Without K there is nothing to load, nor perhaps any memory.
            if !matches!(map, MapOf::A | MapOf::B(_)) || self.problem.k > 0 {
                let encoded = match &self.patches {
                    Some(patches) if map == MapOf::A => patch_map(key, self.a, patches)?,
                    _ => self.map(key, map).encode()?,
                };
                to.copy_from_slice(encoded.as_bytes());
            }
        }
        Ok(bytes)
    }

    /// The maps' parts, for encoding. (A product without elements or without K uses none,
    /// and [`maps`](Self::maps) encodes none; these can be encoded all the same.)
    pub(crate) fn described(&self, key: &Sm90Key, traffic: &Traffic) -> Vec<MapDescription> {
        let described = |map| {
            let of = match map {
                MapOf::A => Memory::A,
                MapOf::B(i) => Memory::B(self.tree.live_accumulators().nth(i).unwrap_or(0)),
                MapOf::Input(argument) | MapOf::Output(argument) => Memory::Argument(argument),
            };
            let Map { tensor, extents, strides, box_extents, swizzle } = self.map(key, map);
            let (extents, strides, box_extents) = (extents.to_vec(), strides.to_vec(), box_extents.to_vec());
            MapDescription { of, element: tensor.element_type(), extents, strides, box_extents, swizzle }
        };
        traffic.maps(key).into_iter().map(described).collect()
    }

    fn map(&self, key: &Sm90Key, map: MapOf) -> Map<'_> {
        match map {
            MapOf::A => self.operand(key, self.a, OperandView::of_a(self.a), !key.swap_ab),
            MapOf::B(i) => self.operand(key, &self.b[i], OperandView::of_b(&self.b[i]), key.swap_ab),
            MapOf::Input(argument) | MapOf::Output(argument) => self.argument(key, argument),
        }
    }

    /// How far the boxes of B are from group to group of the images' channels.
    pub(crate) fn steps_of_b(&self) -> Option<StepsOfB> {
        let views: SmallVec<[OperandView; MAX_ACCUMULATORS]> = self.b.iter().map(OperandView::of_b).collect();
        StepsOfB::of(&views)
    }

    /// `first`: whether it is the instruction's first operand.
    fn operand<'t>(&self, key: &Sm90Key, tensor: &'t DeviceTensor, view: OperandView, first: bool) -> Map<'t> {
        let (first_major, second_major) = key.mma_majors();
        let major = if first { first_major } else { second_major };
        let tile_k = key.instruction.tile_k();
        let mut outer = view.outer_extent;
        let filters = self.patches.as_ref().filter(|patches| !patches.are_columns());
        let (k, batches, batch) = match filters {
            None => (view.k_extent, view.batch_extent, view.batch),
            // Each element of the window has a matrix of its own, with the columns of all groups; or that of each group has.
            Some(Patches { channels, window, groups, .. }) => {
                let taps = window.size.iter().product::<usize>();
                let [columns, of_taps] = self.steps_of_b().unwrap_or(StepsOfB::Taps).counts(*groups, *groups);
                outer *= columns.max(1);
                (*channels, taps * of_taps.max(1), view.k.saturating_mul(*channels as isize))
            }
        };
        // Of one column in each group.
        let across = if view.outer_extent == 1 && outer > 1 { view.batch } else { view.outer };
        let (extents, strides, box_extents) = match major {
            Major::K => ([k, outer, batches], [across, batch], [tile_k, key.box_rows(first)]),
            Major::Mn => ([outer, k, batches], [view.k, batch], [64, tile_k]),
        };
        let line = box_extents[0] * tensor.element_type().size();
        Matrix { tensor, extents: extents.into_iter().collect(), strides: strides.into_iter().collect() }
            .map(&box_extents, Swizzle::of_row(line))
    }

    fn argument(&self, key: &Sm90Key, argument: usize) -> Map<'_> {
        let tensor = match &self.arguments[argument] {
            Argument::Input(tensor) => *tensor,
            Argument::Output(tensor) => &**tensor,
            Argument::Scalar(_) | Argument::Seed(..) => self.a, // never: `Traffic::of` lists only matrices
        };
        let element: ElementType = tensor.element_type();
        let (rows, columns) = copied_box(key, element);
        let (own, of_box): (_, &[usize]) =
            if has_digits(tensor) { (4, &[columns, 1, rows]) } else { (2, &[columns, rows]) };
        // Behind the batch, the last axis first.
        let front = tensor.rank() - own;
        let (batch, of_batch) = if is_batched(tensor, own) { (tensor.shape()[0], tensor.strides()[0]) } else { (1, 0) };
        let extents = tensor.shape()[front..].iter().rev().copied().chain([batch]).collect();
        let strides = tensor.strides()[front..].iter().rev().skip(1).copied().chain([of_batch]).collect();
        Matrix { tensor, extents, strides }.map(of_box, Swizzle::of_row(columns * element.size()))
    }
}

/// The map of A's patches: of one element of the window, some channels of a box's rows, or, if they are transposed, of a k-tile's
/// columns.
fn patch_map(key: &Sm90Key, x: &DeviceTensor, patches: &Patches) -> Result<TensorMap, Error> {
    let Patches { images, inputs, channels, groups, window, image, steps, .. } = patches;
    let (axes, size) = (window.axes.clamp(1, MOST_AXES), x.element_type().size());
    // Innermost first: the last axis is.
    let own = || (MOST_AXES - axes..MOST_AXES).rev();
    let extents = std::iter::once(channels * groups).chain(own().map(|i| inputs[i])).chain([*images]);
    let extents: Vec<u64> = extents.map(|extent| extent.max(1) as u64).collect();
    let strides = own().map(|i| steps[i]).chain([*image]).zip(&extents[1..]);
    let strides: Vec<u64> =
        strides.map(|(stride, extent)| if *extent > 1 { (stride.unsigned_abs() * size) as u64 } else { 16 }).collect();
    let corner = |number: isize| i32::try_from(number).unwrap_or(i32::MAX);
    let lower: Vec<i32> = own().map(|i| -corner(window.before[i])).collect();
    let reach = |i: usize| (window.size[i] - 1).saturating_mul(window.dilation[i]).cast_signed();
    let upper: Vec<i32> = own().map(|i| corner(window.after[i]).saturating_sub(corner(reach(i)))).collect();
    let of_window: Vec<u32> = own().map(|i| u32::try_from(window.stride[i]).unwrap_or(u32::MAX)).collect();
    Ok(TensorMap::im2col(&Im2colMap {
        tensor: x,
        extents: &extents,
        strides: &strides,
        lower_corner: &lower,
        upper_corner: &upper,
        steps: &of_window,
        channels: key.box_channels() as u32,
        pixels: if key.reading.is_transposed() { key.instruction.tile_k() } else { key.box_rows(true) } as u32,
        swizzle: Swizzle::Bytes128,
        l2_promotion: L2Promotion::Bytes256,
    })?)
}

/// The variant of a kernel for other layouts and other arguments without tensor copies; everything that the model chose
/// stays. `None` if tensor copies can't load the operands, or shared memory has no room, also for the problem's groups.
pub(crate) fn variant(
    tree: &ValidTree,
    key: &Sm90Key,
    (a, b): (OperandLayout, OperandLayout),
    direct: u64,
    problem: &Problem,
) -> Option<Sm90Key> {
    let direct = direct | too_narrow(tree, key.staging.step, key.swap_ab) | in_place(tree, problem.reading.divided());
    let reading = ReadingShape::of(problem.reading, a.major, problem.boxed().map_or(0, |boxes| boxes.axes));
    let key = Sm90Key { a: a.major, b: b.major, direct, reading, ..*key };
    let (a_along_m, b_along_n) = key.instruction.takes_mn_major();
    let loads = takes(a_along_m, a) && takes(b_along_n, b) && key.holds_accumulators() && key.divides_among_cluster();
    let table = table_bytes(key.reading.divided(), problem.batch);
    let loads = loads && takes_groups(problem.reading.grouping(), key.a, key.b);
    let fits = SharedMap::of(&key, &Traffic::of(tree, direct)).bytes().saturating_add(table) <= MAX_SHARED_BYTES;
    (loads && fits).then_some(key)
}

#[cfg(test)]
mod tests {
    use epilogue_runtime::ptx_vm::{Detector, Module, Options};
    use epilogue_runtime::{Arch, Device, testing};

    use super::*;
    use crate::evt::TreeBuilder;
    use crate::expr::Op;
    use crate::gemm::sm90::{Request, Tile};
    use crate::gemm::{Builder, Gemm, KernelKey};

    /// Elements along the axes of `[L, H, B, S, D]`: of the sequences and heads, two boxes each.
    const EXTENTS: [usize; 5] = [2, 2, 2, 128, 128];
    const K: usize = 64;

    /// The sum of a product of zeros and a view with rows `(b, s)` and columns `(h, d)`.
    fn result(gemm: &Gemm<()>, values: &[u8]) -> Result<Vec<u8>, Error> {
        let [batch, h, b, s, d] = EXTENTS;
        let device = gemm.device();
        let zeros = |rows: usize, columns: usize| device.zeros_of(ElementType::F16, [batch, rows, columns]);
        let (left, right) = (zeros(b * s, K)?, zeros(h * d, K)?.transpose()?);
        let view = |tensor: &DeviceTensor| tensor.as_batched_matrix(&[0], &[2, 3], &[1, 4]);
        let c = view(&device.tensor_from_bytes(ElementType::F16, values, EXTENTS)?)?;
        let whole = device.zeros_of(ElementType::F16, EXTENTS)?;
        let mut view = view(&whole)?;
        let arguments = [Argument::Input(&c), Argument::Output(&mut view)];
        gemm.run_arguments(&device.default_stream(), &left, &right, &arguments)?;
        Ok(whole.to_bytes()?)
    }

    /// A kernel's text in which the boxes of one direction have another coordinate in the place of this one.
    fn mistaken(ptx: &str, opcode: &str, coordinate: usize) -> (String, usize) {
        let mut boxes = 0;
        let edited = ptx.lines().map(|line| {
            let Some((before, list, after)) =
                line.split_once('{').filter(|_| line.contains(opcode)).and_then(|(x, rest)| {
                    let (list, after) = rest.split_once('}')?;
                    Some((x, list, after))
                })
            else {
                return line.to_owned();
            };
            boxes += 1;
            let mut list: Vec<&str> = list.split(',').map(str::trim).collect();
            list[coordinate] = list[(coordinate + 1) % 5];
            format!("{before}{{{}}}{after}", list.join(", "))
        });
        (edited.collect::<Vec<_>>().join("\n"), boxes)
    }

    /// Boxes of matrices of two digits are copied, in both directions, and each of their five coordinates matters.
    #[test]
    fn every_coordinate_of_a_box_matters() {
        if testing::compiler("tensor_maps::every_coordinate_of_a_box_matters").is_none() {
            return;
        }
        let device = Device::emulated_with(Arch::SM_90A, Options::default().detector(Detector::On)).expect("a device");
        let mut tree = TreeBuilder::new("heads", "heads.rs");
        let accum = tree.accum("accum");
        let c = tree.parameter("c", ParameterClass::Tensor, None);
        let d = tree.apply(Op::Add, &[accum, c]);
        tree.output("d", d, BroadcastClass::Tensor, None);
        let tile = Tile::all().iter().find(|tile| (tile.rows, tile.columns) == (128, 128)).copied();
        let request = Request { tile, swap_ab: Some(false), ..Request::default() };
        let builder = Builder::<()>::new(&device, tree.finish()).elements(ElementType::F16, ElementType::F16);
        let gemm = builder.problem(256, 256, K).batch(2).sm90(request).plan().expect("a plan");
        let count: usize = EXTENTS.iter().product();
        // Small integers, which follow one another in no regular way.
        let values: Vec<u8> =
            (0..count).flat_map(|i| half::f16::from_f64((i * 7 % 1021) as f64).to_le_bytes()).collect();
        assert!(result(&gemm, &values).expect("a result") == values);
        let variant =
            gemm.inner().executable.compiled_variant(&|variant| variant.views.digits != 0).expect("a variant");
        let KernelKey::Sm90(key) = &variant.key else { panic!("{}", variant.key) };
        assert_eq!(key.direct, 0);
        let (ptx, name) = (variant.kernel.ptx(), variant.kernel.name());
        for opcode in
            ["cp.async.bulk.tensor.5d.shared::cluster.global.tile", "cp.async.bulk.tensor.5d.global.shared::cta.tile"]
        {
            for coordinate in 0..5 {
                let (mutant, boxes) = mistaken(ptx, opcode, coordinate);
                assert!(boxes > 0, "{opcode}");
                device.substitute(name, Some(Module::parse(&mutant).expect("a module"))).expect("an emulated device");
                let lives = result(&gemm, &values).is_ok_and(|result| result == values);
                assert!(!lives, "{opcode}: nobody sees another coordinate {coordinate}");
                // The mistake was the reason.
                device.substitute(name, None).expect("an emulated device");
                assert!(result(&gemm, &values).expect("a result") == values);
            }
        }
    }
}
