//! The instructions that sm_90 adds: mbarriers, `wgmma`, clusters, proxy fences (PTX ISA §9.7.13, §9.7.15). Bulk copies
//! are in `bulk`.

use super::bind::bulk::tensor_map::MapFence;
use super::bind::clusters::{ClusterArrive, ClusterWait, MapAddress, RankOf};
use super::bind::control::Nothing;
use super::bind::mbarrier::{Arrive, CopyArrive, Init, Invalidate, TestWait, Transactions, pending_count};
use super::bind::proxy;
use super::bind::wgmma::{WarpgroupGroup, WarpgroupMultiply};
use super::bind::{handler, scalar_handler};
use super::decoder::{Decoder, SINK};
use super::opcode::Opcode;
use super::operands::elements_of;
use crate::error::ParseError;
use crate::numerics::descriptor::Major;
use crate::numerics::wgmma::Wgmma;
use crate::program::flags::{AccessFlags, ClusterFlags, GENERIC, MbarrierFlags, ProxyFlags, WgmmaFlags, Widths, when};
use crate::program::forms::WgmmaForm;
use crate::syntax::ast::{Operand, ScalarType};

impl<'a> Decoder<'a> {
    /// Decodes an instruction that sm_90 adds; false if it is another one.
    pub(super) fn hopper(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<bool, ParseError> {
        match opcode.base() {
            "mbarrier" => self.mbarrier(opcode, operands)?,
            "cp" if opcode.text.contains("mbarrier.arrive") => self.copy_arrive(opcode, operands)?,
            "cp" if opcode.text.contains("bulk") => self.bulk(opcode, operands)?,
            "st" | "red" if opcode.take("async") => self.asynchronous_store(opcode, operands)?,
            "wgmma" => self.warpgroup(opcode, operands)?,
            "mapa" | "getctarank" => self.map_address(opcode, operands)?,
            "griddepcontrol" => {
                let wait = opcode.take_any(&["wait", "launch_dependents"]) == Some("wait");
                let run = if wait { scalar_handler::<proxy::DependencyWait>() } else { handler::<Nothing>() };
                self.push(self.with(run));
            }
            "tensormap" => self.tensor_map_change(opcode, operands)?,
            "fence" => self.special_fence(opcode, operands)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn special_fence(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Result<(), ParseError> {
        if opcode.take("mbarrier_init") {
            opcode.take("release");
            opcode.take("cluster");
            self.push(self.with(scalar_handler::<proxy::InitFence>()));
            return Ok(());
        }
        if !opcode.take("proxy") {
            return Err(opcode.error("only fences between proxies and of mbarriers are expected here"));
        }
        match opcode.take_any(&["async", "tensormap::generic", "alias"]) {
            Some("async") => {
                let mut i = self.with(scalar_handler::<proxy::ProxyFence>());
                i.flags = match opcode.take_any(&["global", "shared::cta", "shared::cluster"]) {
                    None => ProxyFlags::all().bits(),
                    Some("global") => ProxyFlags::GLOBAL.bits(),
                    Some(_) => ProxyFlags::SHARED.bits(),
                };
                self.push(i);
            }
            // The machine has one view of memory, so a fence between proxies orders like any other fence. A missing one
            // of aliases is not found.
            Some("alias") => self.fence(3, false),
            Some(_) => {
                let acquires = opcode.take_any(&["acquire", "release"]) == Some("acquire");
                let scope = self.scope(opcode, None)?;
                self.count(opcode, operands, if acquires { 2..=2 } else { 0..=0 })?;
                if acquires {
                    self.fence(scope, false);
                    let map = self.address(&operands[0])?;
                    let mut i = self.with(scalar_handler::<MapFence<true>>());
                    (i.a, i.imm, i.flags) = (map.row, map.offset, map.flag());
                    self.push(i);
                } else {
                    // The release of the other fence contains this one.
                    self.push(self.with(scalar_handler::<MapFence<false>>()));
                    self.fence(scope, false);
                }
            }
            None => return Err(opcode.error("this proxy is not supported")),
        }
        Ok(())
    }

    /// The order, scope and space of an mbarrier instruction as flags.
    fn mbarrier_flags(&mut self, opcode: &mut Opcode<'a>) -> u32 {
        let relaxed = opcode.take_any(&["release", "acquire", "relaxed"]) == Some("relaxed");
        let block = opcode.take_any(&["cta", "cluster"]) == Some("cta");
        let generic = self.space(opcode) == GENERIC;
        let relaxed = when(MbarrierFlags::RELAXED, relaxed);
        relaxed | when(MbarrierFlags::BLOCK_SCOPE, block) | when(AccessFlags::GENERIC_SHARED, generic)
    }

    fn mbarrier(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        if opcode.take("pending_count") {
            opcode.take("b64");
            self.count(opcode, operands, 2..=2)?;
            let mut i = self.empty();
            i.a = self.source(&operands[1], ScalarType::B64)?;
            i.d = self.destination(&operands[0], ScalarType::U32)?;
            i.flags = Widths::WIDE_A.bits();
            self.push_general(i, |[state, ..]| pending_count(state));
            return Ok(());
        }
        let Some(operation) = opcode.take_any(&[
            "init",
            "inval",
            "arrive",
            "arrive_drop",
            "test_wait",
            "try_wait",
            "expect_tx",
            "complete_tx",
        ]) else {
            return Err(opcode.error("this operation is not supported"));
        };
        let expects = matches!(operation, "arrive" | "arrive_drop") && opcode.take("expect_tx");
        opcode.take("noComplete");
        let parity = opcode.take("parity");
        let mut flags = self.mbarrier_flags(opcode);
        opcode.take("b64");
        match operation {
            "init" => {
                self.count(opcode, operands, 2..=2)?;
                let mut i = self.with(scalar_handler::<Init>());
                i.b = self.source(&operands[1], ScalarType::U32)?;
                self.push_mbarrier(i, &operands[0], flags)
            }
            "inval" => {
                self.count(opcode, operands, 1..=1)?;
                self.push_mbarrier(self.with(scalar_handler::<Invalidate>()), &operands[0], flags)
            }
            "arrive" | "arrive_drop" => {
                self.count(opcode, operands, 1..=3)?;
                let has_state = !matches!(operands[0], Operand::Address { .. });
                let rest = if has_state { &operands[1..] } else { operands };
                let Some(address) = rest.first() else { return Err(opcode.error("the address is missing")) };
                let mut i = self.with(scalar_handler::<Arrive>());
                if let Some(value) = rest.get(1) {
                    let row = self.source(value, ScalarType::U32)?;
                    if expects {
                        i.c = row;
                        flags |= MbarrierFlags::EXPECTS.bits();
                    } else {
                        i.b = row;
                        flags |= MbarrierFlags::COUNTED.bits();
                    }
                } else if expects {
                    return Err(opcode.error("the number of bytes is missing"));
                }
                if has_state {
                    i.d = self.destination(&operands[0], ScalarType::B64)?;
                }
                flags |= when(MbarrierFlags::DROPS, operation == "arrive_drop");
                self.push_mbarrier(i, address, flags)
            }
            "expect_tx" | "complete_tx" => {
                self.count(opcode, operands, 2..=2)?;
                let mut i = self.with(scalar_handler::<Transactions>());
                i.c = self.source(&operands[1], ScalarType::U32)?;
                flags |= when(MbarrierFlags::DROPS, operation == "complete_tx");
                self.push_mbarrier(i, &operands[0], flags)
            }
            _ => {
                self.count(opcode, operands, 3..=4)?;
                let mut i = self.with(scalar_handler::<TestWait>());
                let Operand::Name(name) = operands[0] else {
                    return Err(opcode.error("a predicate is expected as destination"));
                };
                i.p = self.predicate_destination(name)?;
                let waited = if parity { ScalarType::U32 } else { ScalarType::B64 };
                i.b = self.source(&operands[2], waited)?;
                flags |= when(MbarrierFlags::PARITY, parity);
                flags |= when(MbarrierFlags::SUSPENDS, operation == "try_wait");
                self.push_mbarrier(i, &operands[1], flags)
            }
        }
    }

    fn push_mbarrier(
        &mut self,
        mut i: crate::program::Instruction,
        address: &Operand<'_>,
        flags: u32,
    ) -> Result<(), ParseError> {
        let address = self.address(address)?;
        (i.a, i.imm) = (address.row, address.offset);
        i.flags = flags | address.flag();
        self.push(i);
        Ok(())
    }

    fn copy_arrive(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        opcode.take("async");
        opcode.take("mbarrier");
        opcode.take("arrive");
        let mut flags = when(MbarrierFlags::COUNTED, opcode.take("noinc"));
        flags |= self.mbarrier_flags(opcode);
        opcode.take("b64");
        self.count(opcode, operands, 1..=1)?;
        self.push_mbarrier(self.with(scalar_handler::<CopyArrive>()), &operands[0], flags)
    }

    fn map_address(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let generic = self.space(opcode) == GENERIC;
        let scalar = opcode.scalar()?;
        let wide = scalar.bytes() == 8;
        let mut flags = when(ClusterFlags::WIDE, wide);
        flags |= when(ClusterFlags::GENERIC, generic);
        if opcode.base() == "getctarank" {
            self.count(opcode, operands, 2..=2)?;
            let mut i = self.with(scalar_handler::<RankOf>());
            i.flags = flags;
            // The type is that of the address; the rank has 32 bits.
            let address = self.register_of(&operands[1]).map_or(scalar, |r| r.scalar);
            i.flags = when(ClusterFlags::WIDE, address.bytes() == 8);
            return self.fill(i, operands, [ScalarType::U32, address]);
        }
        self.count(opcode, operands, 3..=3)?;
        let mut i = self.with(scalar_handler::<MapAddress>());
        i.flags = flags;
        self.fill(i, operands, [scalar, scalar, ScalarType::U32])
    }

    /// `barrier.cluster.arrive` and `.wait`.
    pub(super) fn cluster_barrier(&mut self, opcode: &mut Opcode<'a>) -> Result<(), ParseError> {
        let arrive = opcode.take_any(&["arrive", "wait"]) == Some("arrive");
        let order = opcode.take_any(if arrive { &["release", "relaxed"] } else { &["acquire"] });
        opcode.take("aligned");
        let run = if arrive { scalar_handler::<ClusterArrive>() } else { scalar_handler::<ClusterWait>() };
        let mut i = self.with(run);
        i.flags = when(ClusterFlags::RELAXED, order == Some("relaxed"));
        self.push(i);
        Ok(())
    }

    fn warpgroup(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let Some(operation) = opcode.take_any(&["fence", "commit_group", "wait_group", "mma_async"]) else {
            return Err(opcode.error("this operation is not supported"));
        };
        self.sync_aligned(opcode)?;
        if operation == "mma_async" {
            return self.warpgroup_multiply(opcode, operands);
        }
        let mut i = self.with(scalar_handler::<WarpgroupGroup>());
        match operation {
            "fence" => i.flags = WgmmaFlags::FENCE.bits(),
            "commit_group" => i.flags = WgmmaFlags::COMMIT.bits(),
            _ => {
                self.count(opcode, operands, 1..=1)?;
                i.imm = self.literal(opcode, &operands[0])?;
                self.warpgroup_waits.push(self.code.len());
            }
        }
        self.push(i);
        Ok(())
    }

    fn warpgroup_multiply(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        if opcode.take("sp") {
            return Err(opcode.error("sparse products are not supported; expand A and leave out `.sp`"));
        }
        if opcode.text.split('.').any(|part| part == "b1") {
            return Err(opcode.error("products of 1-bit elements are not supported; widen them to 8 bits"));
        }
        let sizes: Vec<(usize, String)> =
            [8, 16, 32].iter().flat_map(|k| (8..=256).step_by(8).map(move |n| (n, format!("m64n{n}k{k}")))).collect();
        let Some((n, shape)) = sizes.iter().find(|s| opcode.take(&s.1)) else {
            return Err(opcode.error("this shape is not supported"));
        };
        let saturate = opcode.take("satfinite");
        let (d, a, b) = (opcode.scalar()?, opcode.scalar()?, opcode.scalar()?);
        let formats =
            (super::matrix::operand_format(a), super::matrix::operand_format(b), super::matrix::accumulator(d));
        let (Some(a), Some(b), Some(d)) = formats else {
            return Err(opcode.error("this type is not supported"));
        };
        let product = Wgmma::new(*n, a, b, d, saturate).map_err(|e| opcode.error(e.to_string()))?;
        if !shape.ends_with(&format!("k{}", product.k())) {
            return Err(opcode.error(format!("products of this type have k{}", product.k())));
        }
        self.count(opcode, operands, 4..=8)?;
        let a_in_registers = matches!(operands[1], Operand::Vector(_));
        let accumulators = elements_of(&operands[0]);
        if accumulators.len() != product.d_registers() {
            let (given, wanted) = (accumulators.len(), product.d_registers());
            return Err(opcode.error(format!("a vector of {given} registers where {wanted} are expected")));
        }
        let mut i = self.with(scalar_handler::<WarpgroupMultiply>());
        let mut rows = vec![];
        for register in accumulators {
            // The accumulators are read, too, unless scale-d is 0.
            self.source(register, ScalarType::B32)?;
            rows.push(self.destination(register, ScalarType::B32)?);
        }
        self.accumulators.extend(rows.iter().filter(|&&row| row != SINK));
        if a_in_registers {
            let registers = elements_of(&operands[1]);
            if registers.len() != 4 {
                return Err(opcode.error("A has four registers"));
            }
            for register in registers {
                rows.push(self.source(register, ScalarType::B32)?);
            }
            // They must not be written before the wait, so their rows must not be reused before, either.
            self.accumulators.extend(&rows[product.d_registers()..]);
        } else {
            i.a = self.source(&operands[1], ScalarType::B64)?;
        }
        i.b = self.source(&operands[2], ScalarType::B64)?;
        let scale = self.predicate(&operands[3])?;
        i.p = scale.index;
        i.flags = when(WgmmaFlags::NEGATED, scale.negated);
        let immediate = |n: usize| operands.get(n).map_or(Ok(None), |o| self.literal(opcode, o).map(Some));
        let (negate_a, negate_b) = (immediate(4)? == Some(-1), immediate(5)? == Some(-1));
        // If A is in registers, only B can be K-major or MN-major.
        let (trans_a, trans_b) = if a_in_registers { (None, immediate(6)?) } else { (immediate(6)?, immediate(7)?) };
        let major = |trans: Option<i64>| if trans == Some(1) { Major::Mn } else { Major::K };
        let form =
            WgmmaForm { product, a_in_registers, negate_a, negate_b, a_major: major(trans_a), b_major: major(trans_b) };
        i.list = self.list(&rows);
        i.imm = self.warpgroup_products.len() as i64;
        self.warpgroup_products.push(form);
        self.push(i);
        Ok(())
    }
}
