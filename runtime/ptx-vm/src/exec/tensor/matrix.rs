//! `ldmatrix`, `stmatrix`, `movmatrix`, `mma.sync` (PTX ISA §9.7.14).

use crate::error::MemorySpace;
use crate::exec::check::observe::AccessKind;
use crate::exec::context::{Context, Flow};
use crate::exec::lanes::Operation;
use crate::exec::memory::access::Addresses;
use crate::exec::state::fault::FaultKind;
use crate::exec::state::undefined::ReadFrom;
use crate::memory::window;
use crate::numerics::fragment::{self, TileRows};
use crate::numerics::mma::Mma;
use crate::numerics::scaled_mma::ScaleSource;
use crate::program::flags::{AccessFlags, MatrixFlags};
use crate::program::{Instruction, Row};

impl Context<'_> {
    /// Checks that a whole warp executes a matrix instruction.
    #[inline(always)]
    pub(super) fn whole_warp(&mut self, mask: u32) -> Result<(), Flow> {
        if mask == u32::MAX {
            return Ok(());
        }
        Err(self.invalid(None, format!("all 32 lanes must execute it together, only {mask:#010x} do")))
    }

    /// The offsets of the rows whose addresses the lanes in `rows` give.
    #[inline(always)]
    fn row_offsets(&mut self, i: &Instruction, rows: u32) -> Result<(Addresses, [u32; 32]), Flow> {
        let mut addresses = self.addresses(i, i.a, i.has(AccessFlags::WIDE_ADDRESS), i.imm);
        if i.has(AccessFlags::GENERIC_SHARED) {
            for address in &mut addresses {
                *address = address.wrapping_sub(window::SHARED);
            }
        }
        match self.shared_offsets(&addresses, rows, 16, 16) {
            Some(offsets) => Ok((addresses, offsets)),
            None => Err(self.bad_row(&addresses, rows)),
        }
    }

    #[cold]
    fn bad_row(&mut self, addresses: &Addresses, rows: u32) -> Flow {
        for lane in crate::exec::context::lanes_of(rows) {
            let address = addresses[lane];
            if !address.is_multiple_of(16) {
                let kind = FaultKind::Misaligned { space: MemorySpace::Shared, address, alignment: 16 };
                return self.fail(Some(lane), kind);
            }
            if address > u64::from(self.shared_size) || u64::from(self.shared_size) - address < 16 {
                return self.out_of_bounds(lane, MemorySpace::Shared, address, 16);
            }
        }
        self.invalid(None, "a matrix row that is not in the block's own shared memory")
    }
}

/// The lanes whose register holds elements of these rows of an 8 × 8 matrix: four lanes for each row, or every fourth
/// lane if the matrix is transposed.
fn holders(rows: u32, transposed: bool) -> u32 {
    let of_row = |row: u32| if transposed { 0x1111_1111 << (row / 2) } else { 0xf << (4 * row) };
    (0..8).filter(|row| rows >> row & 1 != 0).fold(0, |lanes, row| lanes | of_row(row))
}

/// `ldmatrix…x{N}`. The registers are in `list`, or `d`.
pub(crate) struct LoadMatrix<const N: usize>;

impl<const N: usize> Operation for LoadMatrix<N> {
    #[inline(always)]
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let rows = u32::MAX >> (32 - 8 * N);
        if let Err(flow) = context.whole_warp(mask) {
            return flow;
        }
        let (addresses, offsets) = match context.row_offsets(i, rows) {
            Ok(found) => found,
            Err(flow) => return flow,
        };
        if context.is_observed() {
            context.observe_rows(&addresses, mask, rows, AccessKind::Read);
        }
        let unwritten = context.unwritten_shared(&offsets, rows, 16);
        if unwritten != 0 {
            let transposed = i.has(MatrixFlags::TRANSPOSED);
            let lane = unwritten.trailing_zeros() as usize;
            let from = ReadFrom::Shared { offset: offsets[lane], bytes: 16 };
            context.note_undefined(|n| holders(unwritten >> (8 * n) & 0xff, transposed), lane, from);
        }
        context.count_shared(true, &offsets, rows, 16);
        let data = context.shared;
        for n in 0..N {
            let mut tile: TileRows = [[0; 4]; 8];
            for (row, words) in tile.iter_mut().enumerate() {
                // SAFETY: the offset is a multiple of 16, and 16 bytes from there are inside the block's shared memory.
                // That memory is aligned to 16 bytes, and only this thread accesses it.
                *words = unsafe { data.add(offsets[n * 8 + row] as usize).cast::<[u32; 4]>().read() };
            }
            let values =
                if i.has(MatrixFlags::TRANSPOSED) { fragment::transpose_tile(&flatten(&tile)) } else { flatten(&tile) };
            let row = if N == 1 { i.d } else { context.list(i.list, N)[n] };
            context.put::<u32>(row, &values, u32::MAX);
        }
        Flow::Next
    }
}

/// The register whose lanes hold the tile's words in order. This is the layout without `.trans`.
#[inline(always)]
fn flatten(tile: &TileRows) -> [u32; 32] {
    std::array::from_fn(|lane| tile[lane / 4][lane % 4])
}

/// `stmatrix…x{N}`. The registers are in `list`, or `b`.
pub(crate) struct StoreMatrix<const N: usize>;

impl<const N: usize> Operation for StoreMatrix<N> {
    #[inline(always)]
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let rows = u32::MAX >> (32 - 8 * N);
        if let Err(flow) = context.whole_warp(mask) {
            return flow;
        }
        let (addresses, offsets) = match context.row_offsets(i, rows) {
            Ok(found) => found,
            Err(flow) => return flow,
        };
        if context.is_observed() {
            context.observe_rows(&addresses, mask, rows, AccessKind::Write);
        }
        if let Err(flow) = context.check_variables(&offsets, rows, 16) {
            return flow;
        }
        context.mark_shared_written(&offsets, rows, 16);
        if !context.warp.undefined.is_empty() {
            let registers: [Row; N] = std::array::from_fn(|n| if N == 1 { i.b } else { context.list(i.list, N)[n] });
            context.mark_undefined_matrix(&registers, &offsets, i.has(MatrixFlags::TRANSPOSED));
        }
        context.count_shared(false, &offsets, rows, 16);
        context.worker.writes += 1;
        let data = context.shared;
        for n in 0..N {
            let row = if N == 1 { i.b } else { context.list(i.list, N)[n] };
            let tile = fragment::store_tile(context.lanes::<u32>(row), i.has(MatrixFlags::TRANSPOSED));
            for (r, words) in tile.iter().enumerate() {
                // SAFETY: as in `LoadMatrix`.
                unsafe { data.add(offsets[n * 8 + r] as usize).cast::<[u32; 4]>().write(*words) };
            }
        }
        Flow::Next
    }
}

/// `movmatrix.sync.aligned.m8n8.trans.b16 d, a`.
pub(crate) struct MoveMatrix;

impl Operation for MoveMatrix {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        if let Err(flow) = context.whole_warp(mask) {
            return flow;
        }
        let values = fragment::transpose_tile(context.lanes::<u32>(i.a));
        context.put::<u32>(i.d, &values, u32::MAX);
        Flow::Next
    }
}

/// `mma.sync`. `imm` is its number among the program's products; `list` holds the registers of D, A, B and C.
pub(crate) struct Multiply;

impl Operation for Multiply {
    #[inline(always)]
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        if let Err(flow) = context.whole_warp(mask) {
            return flow;
        }
        let program = context.program;
        let mma = &program.products[i.imm as usize];
        let (a, b, c) = (mma.a_registers(), mma.b_registers(), mma.c_registers());
        let list = &program.rows[i.list as usize..i.list as usize + a + b + 2 * c];
        let (d_rows, sources) = list.split_at(c);
        let arithmetic = context.launch.arithmetic;
        // The largest shapes have 4 registers of A, 2 of B and 4 of C.
        let mut registers = [[0u32; 32]; 10];
        for (register, &row) in registers.iter_mut().zip(sources) {
            *register = *context.lanes::<u32>(row);
        }
        let mut d = [[0u32; 32]; 4];
        let (left, rest) = registers.split_at(a);
        let (right, rest) = rest.split_at(b);
        mma.execute(arithmetic, left, right, &rest[..c], &mut d[..c]);
        for (values, &row) in d.iter().zip(d_rows) {
            context.put::<u32>(row, values, u32::MAX);
        }
        Flow::Next
    }
}

/// `mma.sync` with block scales. `imm` is its number among the program's. `list` holds the registers of D, A, B and C. Then
/// it holds three of A and three of B: the scales, the byte, the thread.
pub(crate) struct MultiplyScaled;

impl Operation for MultiplyScaled {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        if let Err(flow) = context.whole_warp(mask) {
            return flow;
        }
        let program = context.program;
        let mma = &program.scaled_products[i.imm as usize];
        let list = &program.rows[i.list as usize..i.list as usize + 20];
        let (d_rows, sources) = list.split_at(4);
        let registers: Vec<[u32; 32]> = sources.iter().map(|&row| *context.lanes::<u32>(row)).collect();
        let scales = &registers[10..];
        for (of_b, scales) in [(false, &scales[..3]), (true, &scales[3..])] {
            let selectors = [scales[1].map(|x| x & 0xffff), scales[2].map(|x| x & 0xffff)];
            let [byte, thread] = selectors.map(|lanes| lanes[0]);
            if selectors.iter().any(|lanes| lanes.iter().any(|x| *x != lanes[0])) || !mma.selects(of_b, byte, thread) {
                let operand = if of_b { "B" } else { "A" };
                return context.invalid(
                    None,
                    format!("byte {byte} and thread {thread} select no scales of {operand}, or lanes select others"),
                );
            }
        }
        let source = |at: usize| ScaleSource {
            words: &scales[at],
            byte: scales[at + 1][0] & 0xffff,
            thread: scales[at + 2][0] & 0xffff,
        };
        let operands = (&registers[..4], &registers[4..6], &registers[6..10]);
        let mut d = [[0u32; 32]; 4];
        mma.execute(context.launch.arithmetic, operands, (source(0), source(3)), &mut d);
        for (values, &row) in d.iter().zip(d_rows) {
            context.put::<u32>(row, values, u32::MAX);
        }
        Flow::Next
    }
}

/// `mma.sync` of f64, like [`Multiply`].
pub(crate) struct MultiplyF64;

impl Operation for MultiplyF64 {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        if let Err(flow) = context.whole_warp(mask) {
            return flow;
        }
        let program = context.program;
        let mma: &Mma = &program.products[i.imm as usize];
        let (a, b, c) = (mma.a_registers(), mma.b_registers(), mma.c_registers());
        let list = &program.rows[i.list as usize..i.list as usize + a + b + 2 * c];
        let (d_rows, sources) = list.split_at(c);
        let registers: Vec<[u64; 32]> = sources.iter().map(|&row| *context.lanes::<u64>(row)).collect();
        let mut d = vec![[0u64; 32]; c];
        mma.execute_f64(&registers[..a], &registers[a..a + b], &registers[a + b..], &mut d);
        for (values, &row) in d.iter().zip(d_rows) {
            context.put::<u64>(row, values, u32::MAX);
        }
        Flow::Next
    }
}
