//! A random kernel: a plan of a random epilogue. Random products are run on it (`product`) and compared with the
//! reference.

mod product;

use epilogue::evt::random::{self, Choices, Profile};
use epilogue::evt::{Types, ValidTree};
use epilogue::gemm::{Arithmetic, Builder, Divided, Instruction, Major, OperandLayout, Problem, SplitK, Tile, sm90};
use epilogue::{Device, ElementType, Gemm};

use self::product::Case;
use crate::divided::Groups;
use crate::placement::Batches;
use crate::scattering::Scattering;

/// A plan with everything that its cases need to know.
pub struct Kernel {
    gemm: Gemm,
    device: Device,
    elements: (ElementType, ElementType),
    arithmetic: Arithmetic,
    layouts: (OperandLayout, OperandLayout),
    largest: usize,
    /// Whether K may have many blocks: for kernels that cut it in one launch.
    long: bool,
    /// For the kernels for sm_90a, which tensors tensor copies can reach: bit `i % 8` is for argument `i`. It belongs
    /// to the kernel, since another set needs another kernel.
    reached: Option<u8>,
    /// Which matrices have rows and columns of two axes each, as `reached`; on the CPU it is drawn for each product.
    digits: Option<u8>,
    /// Which arguments, and whether operands, have batches of two axes, likewise.
    batches: Option<u8>,
    /// The extent of its products that is divided into groups, if one is.
    divided: Option<Divided>,
    /// Whether an index picks the rows of A.
    picked: bool,
    /// Whether the operands have scales of blocks.
    scaled: bool,
    /// Whether an index places the rows of its results.
    scattered: bool,
}

/// Kernels by what they multiply and how.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Element types of A and B.
    pub elements: (ElementType, ElementType),
    /// How they multiply.
    pub arithmetic: Arithmetic,
    /// Whether they are those for sm_90a or sm_100a.
    pub hopper: bool,
    /// Whether most operands of the kernels for sm_90a have layouts that must be copied first.
    pub repacked: bool,
}

/// Tensor cores of a device for which kernels load by TMA.
fn cores(device: &Device) -> sm90::TensorCores {
    device.arch().and_then(sm90::TensorCores::of).unwrap_or(sm90::TensorCores::Wgmma)
}

/// The tile, cluster and raster with this number. The blocks of a cluster take shares in atoms of 8 rows, or in boxes
/// of 64.
fn sm90_request(cores: sm90::TensorCores, number: usize) -> sm90::Request {
    let tiles: Vec<_> = sm90::Tile::all().iter().filter(|tile| cores.hold(tile)).copied().collect();
    let tile = tiles[tiles.len() - 1 - number % tiles.len()];
    let clusters = [(1, 1), (2, 1), (1, 2), (1, 1), (2, 2), (4, 1), (1, 4)];
    let (m, n) = if tile.rows.min(tile.columns) < 64 { (1, 1) } else { clusters[number % clusters.len()] };
    sm90::Request {
        tile: Some(tile),
        swap_ab: Some(number % 3 == 1),
        stages: Some(2 + number % 4),
        cluster: Some(sm90::Cluster { m, n }),
        raster: Some(sm90::Raster { group: 1 + number % 3, along_n: number % 2 == 1 }),
        ..sm90::Request::default()
    }
}

impl Kernel {
    /// A random epilogue on the tile, layout and split-K with this number: consecutive numbers cover all of them.
    pub fn random(
        device: &Device,
        family: &Family,
        number: usize,
        largest: usize,
        choices: &mut Choices<'_>,
    ) -> Result<Self, String> {
        let Family { elements, arithmetic, hopper, repacked } = *family;
        // Every fourth is computed from its own reductions.
        let tree =
            random::tree(choices, Profile { phases: number % 4 == 3, chance: true, bits: true, ..Profile::default() });
        let valid = tree.validate(Types::new(elements.0, elements.1));
        let of_one_phase = valid.as_ref().is_ok_and(|tree| tree.phases() == 1);
        let in_groups = of_one_phase && valid.as_ref().is_ok_and(Groups::take);
        let placed = valid.is_ok_and(|tree| Scattering::takes(&tree));
        let several = tree.accumulators().len() > 1;
        let mut builder = Builder::<()>::new(device, tree).elements(elements.0, elements.1).problem(64, 64, 64);
        builder = builder.arithmetic(arithmetic).fast_math(number % 7 == 6).ignore_unsupported_knobs();
        let of_16_bits = (elements.0.size(), elements.1.size()) == (2, 2);
        // Every fifth, so that those have every layout.
        let divided = match number % 15 {
            9 if !hopper && of_one_phase => Some(Divided::Depth),
            // Kernels for sm_90a take them of 16-bit operands, along K after a copy.
            5 | 9 | 10 if hopper && of_16_bits && of_one_phase => Some(Divided::Depth),
            2 if repacked && of_16_bits && of_one_phase => Some(Divided::Depth),
            // Kernels for sm_90a take them of an A that is contiguous along K.
            4 | 14 if in_groups && !(hopper && number % 2 == 1) => Some(Divided::Rows),
            _ => None,
        };
        builder = match divided {
            None => builder,
            Some(Divided::Rows) => builder.groups(3),
            Some(Divided::Depth) => builder.depth_groups(3),
        };
        // Kernels with an A that is contiguous along K.
        let picked = number % 4 == 2 && divided != Some(Divided::Depth);
        if picked {
            builder = builder.picked_rows();
        }
        let is_fp8 = |element| matches!(element, ElementType::F8E4M3 | ElementType::F8E5M2);
        let are_fp8 = is_fp8(elements.0) && is_fp8(elements.1) && arithmetic == Arithmetic::Exact;
        let sums_are_scaled = !hopper || cores(device) == sm90::TensorCores::Wgmma;
        let scaled = are_fp8 && sums_are_scaled && number % 3 != 2 && !picked && divided != Some(Divided::Depth);
        if scaled {
            builder = builder.block_scales();
        }
        let scattered = number % 3 == 2 && placed && divided != Some(Divided::Depth);
        if scattered {
            builder = builder.scattered_rows();
        }
        let size = elements.0.size();
        let direct = hopper && !repacked;
        let widths: Vec<usize> = [16, 8, 4].into_iter().filter(|width| *width > size).chain([size]).collect();
        let widths = if direct { vec![16] } else { widths };
        // Tensor copies load parts of K along M and N.
        let along_mn = direct && divided == Some(Divided::Depth);
        let major = |bit: usize, size| match bit {
            _ if along_mn => Major::Mn,
            1 if !direct || size == 2 => Major::Mn,
            _ => Major::K,
        };
        let a = OperandLayout { major: major(number % 2, size), copy_bytes: widths[number % widths.len()] };
        let of_b = elements.1.size();
        let copy_bytes = match widths[number / 3 % widths.len()] {
            single if single == size => of_b,
            wide => wide.max(of_b),
        };
        let b = OperandLayout { major: major(number / 2 % 2, of_b), copy_bytes };
        builder = builder.layouts(a, b);
        let splits = [SplitK::None, SplitK::Serial(3), SplitK::Parallel(3), SplitK::None, SplitK::Parallel(2)];
        let split_k = if number % 7 > 4 { SplitK::Stream } else { splits[number % splits.len()] };
        let split_k = if divided.is_none() { split_k } else { SplitK::None };
        // Few blocks at once, so that each computes several tiles.
        builder = builder.multiprocessors(4);
        if hopper {
            builder = builder.split_k(split_k);
            // Not every combination has a kernel: the blocks of a cluster take equal shares of their tiles, deep
            // pipelines need small tiles, and the largest tiles leave an epilogue few registers.
            let cores = cores(device);
            let asked = |builder: Builder, request| match cores {
                sm90::TensorCores::Wgmma => builder.sm90(request),
                sm90::TensorCores::Tcgen05 => builder.sm100(request),
            };
            let request = sm90_request(cores, number);
            // The converted operand is the tile's rows.
            let converted = elements.0.size() != elements.1.size();
            // Accumulators may share no rows.
            let shared = several && cores == sm90::TensorCores::Tcgen05;
            let swap_ab = if converted { Some(true) } else { request.swap_ab.filter(|_| !shared) };
            let request = sm90::Request { swap_ab, ..request };
            // Most by the kernel, if it can.
            let by_kernel = sm90::Request { picked: (picked && number % 12 != 6).then_some(true), ..request };
            let request = if asked(builder.clone(), by_kernel).choose().is_ok() { by_kernel } else { request };
            let alone = sm90::Request { cluster: Some(sm90::Cluster::NONE), stages: None, ..request };
            let any = sm90::Request { tile: None, ..alone };
            let possible = [request, alone].into_iter().find(|r| asked(builder.clone(), *r).choose().is_ok());
            builder = asked(builder, possible.unwrap_or(any));
        } else if let Some(instruction) = device.arch().and_then(|arch| {
            // The fastest.
            Instruction::on(arch, elements.0, elements.1, arithmetic).first().copied()
        }) {
            let tiles = Tile::all(instruction);
            // From the smallest tile up: a small one has more edges, where most can go wrong. Not every tile has room
            // for several accumulators.
            let from = |number: usize| builder.clone().tile(tiles[tiles.len() - 1 - number % tiles.len()]);
            let next =
                (number..number + tiles.len()).map(from).find(|tiled| !(several || scaled) || tiled.choose().is_ok());
            builder = next.unwrap_or_else(|| builder.clone()).split_k(split_k);
        }
        let gemm = builder.plan().map_err(|error| error.to_string())?;
        let reached = hopper.then_some([0xff, 0xff, 0x55, 0xfe, 0x00][number / 2 % 5]);
        let on_gpu = device.arch().is_some();
        let digits = on_gpu.then_some([0, 0, 0xff, 0, 0, 0, 0, 0x55][number % 8]);
        let batches = on_gpu.then_some([0, 0, 0, 0, 0xff, 0, 0x55, 0][number % 8]);
        let long = hopper || split_k == SplitK::Stream;
        Ok(Self {
            gemm,
            device: device.clone(),
            elements,
            arithmetic,
            layouts: (a, b),
            largest,
            long,
            reached,
            digits,
            batches,
            divided,
            picked,
            scaled,
            scattered,
        })
    }

    /// A plan for sm_90a all of whose tensors can be reached by tensor copies.
    pub fn planned(builder: Builder, family: &Family, majors: (Major, Major)) -> Result<Self, String> {
        let Family { elements, arithmetic, .. } = *family;
        let layouts = (OperandLayout::packed(majors.0), OperandLayout::packed(majors.1));
        let builder = builder.elements(elements.0, elements.1).arithmetic(arithmetic).layouts(layouts.0, layouts.1);
        let gemm = builder.plan().map_err(text)?;
        let device = gemm.device().clone();
        Ok(Self {
            gemm,
            device,
            elements,
            arithmetic,
            layouts,
            largest: 0,
            long: true,
            reached: Some(0xff),
            digits: Some(0),
            batches: Some(0),
            divided: None,
            picked: false,
            scaled: false,
            scattered: false,
        })
    }

    /// How a batch is cut, of argument `i` or of an operand, that has `own` axes behind it; one of the first `orders`.
    fn batches(&self, choices: &mut Choices<'_>, i: usize, batch: usize, own: usize, orders: usize) -> Option<Batches> {
        // On a GPU another set of these arguments needs another kernel.
        let cut = self.batches.map_or_else(|| choices.once_in(3), |bits| bits >> (i % 8) & 1 == 1);
        Batches::of(batch, own, choices.below(orders)).filter(|_| cut)
    }

    /// The plan.
    pub fn gemm(&self) -> &Gemm {
        &self.gemm
    }

    /// One product with the given extents; A and B have the batch axis, if there is one.
    pub fn product(&self, problem: Problem, choices: &mut Choices<'_>) -> Result<(), String> {
        Case::of(self, problem, if problem.batched { 0 } else { 3 }, choices)?
            .run()
            .map_err(|error| format!("{error}\n{}", self.gemm.choice()))
    }

    /// One product, wholly random.
    pub fn case(&self, choices: &mut Choices<'_>) -> Result<(), String> {
        let case = Case::new(self, choices)?;
        // Nothing can be reduced if there are no groups.
        let reduces_batch = self.gemm.tree().reductions().any(|(.., reduction)| reduction.batch);
        if case.problem.batch == 0 && case.groups.is_some() && reduces_batch {
            return match case.run() {
                Err(refused) if refused.contains("there are 0 batches") => Ok(()),
                other => other.and_then(|()| Err("a reduction of no groups ran".to_owned())),
            };
        }
        case.run().map_err(|error| format!("{error}\n{}\n{}", self.gemm.choice(), tree_text(self.gemm.tree())))
    }
}

fn tree_text(tree: &ValidTree) -> String {
    let values = tree.values().iter().map(|v| format!("  {} = {:?}\n", v.name, v.kind));
    let outputs = tree.outputs().iter().map(|o| format!("  -> {} {}: {:?} {:?}\n", o.name, o.element, o.kind, o.value));
    values.chain(outputs).collect()
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The random numbers that a product is drawn from.
pub fn choices(seed: u32) -> Vec<u32> {
    (0..60).map(|j: u32| j.wrapping_mul(2_654_435_761).wrapping_add(seed)).collect()
}
