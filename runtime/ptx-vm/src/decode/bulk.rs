//! Bulk and tensor copies and reductions, `st.async`, `red.async` (PTX ISA §9.7.9.12, §9.7.9.25, §9.7.9.27, §9.7.13.8).

use super::atomics::reduced_element;
use super::bind::bulk::BulkCopy;
use super::bind::bulk::groups::{BulkCommit, BulkWait};
use super::bind::bulk::tensor_map::{MapFence, PublishMap, ReplaceField};
use super::bind::control::Nothing;
use super::bind::{handler, scalar_handler};
use super::decoder::{Decoder, SINK};
use super::opcode::Opcode;
use super::operands::elements_of;
use crate::error::ParseError;
use crate::numerics::reduction::Reduction;
use crate::numerics::tensor_field::MapField;
use crate::program::flags::{BulkGroupFlags, GENERIC, GLOBAL, MapFlags, SHARED, when};
use crate::program::forms::{self, BulkForm, BulkReduction, Direction};
use crate::syntax::ast::{Operand, ScalarType};

impl<'a> Decoder<'a> {
    /// Decodes `cp.async.bulk…` and `cp.reduce.async.bulk…`.
    pub(super) fn bulk(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        let reduces = opcode.take("reduce");
        opcode.take("async");
        opcode.take("bulk");
        if opcode.take("commit_group") {
            self.push(self.with(scalar_handler::<BulkCommit>()));
            return Ok(());
        }
        if opcode.take("wait_group") {
            let mut i = self.with(scalar_handler::<BulkWait>());
            i.flags = when(BulkGroupFlags::READ_ONLY, opcode.take("read"));
            self.count(opcode, operands, 1..=1)?;
            i.imm = self.literal(opcode, &operands[0])?.max(0);
            self.push(i);
            return Ok(());
        }
        if opcode.take_any(&["im2col::w", "im2col::w::128"]).is_some() {
            return Err(opcode.error("it needs sm_100; `.im2col` is executed"));
        }
        if opcode.take("im2col_no_offs") {
            return Err(opcode.error("stores in im2col mode are not supported; those by `.tile` maps are"));
        }
        if opcode.take("prefetch") {
            opcode.take("tensor");
            opcode.take_any(&["1d", "2d", "3d", "4d", "5d"]);
            opcode.take("L2");
            opcode.take("global");
            opcode.take_any(&["tile", "im2col"]);
            opcode.skip_cache_hints();
            self.push(self.with(handler::<Nothing>()));
            return Ok(());
        }
        self.bulk_copy(opcode, operands, reduces)
    }

    fn bulk_copy(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
        reduces: bool,
    ) -> Result<(), ParseError> {
        let tensor = opcode.take("tensor");
        let rank = match opcode.take_any(&["1d", "2d", "3d", "4d", "5d"]) {
            Some(rank) if tensor => usize::from(rank.as_bytes()[0] - b'0'),
            None if !tensor => 0,
            _ => return Err(opcode.error("the number of dimensions is missing")),
        };
        let spaces = ["global", "shared::cta", "shared::cluster"];
        let (Some(to), Some(from)) = (opcode.take_any(&spaces), opcode.take_any(&spaces)) else {
            return Err(opcode.error("the state spaces are missing"));
        };
        let im2col = opcode.take("im2col");
        if !im2col {
            opcode.take("tile");
        }
        let direction = match (to, from) {
            ("global", "shared::cta") => Direction::Store,
            ("shared::cta" | "shared::cluster", "global") => Direction::Load,
            ("shared::cluster", "shared::cta") if !tensor => Direction::Share,
            _ => return Err(opcode.error("this direction is not supported")),
        };
        if reduces && direction == Direction::Load {
            return Err(opcode.error("there is no reduction in this direction"));
        }
        if im2col && (direction != Direction::Load || rank < 3) {
            return Err(opcode.error("`.im2col` is a mode of loads of 3 to 5 dimensions"));
        }
        let completes = if direction == Direction::Store { "bulk_group" } else { "mbarrier::complete_tx::bytes" };
        if !opcode.take(completes) {
            return Err(opcode.error(format!("`.{completes}` is missing")));
        }
        let multicast = opcode.take("multicast::cluster");
        let hint = opcode.skip_cache_hints();
        let reduction = if reduces { Some(self.bulk_reduction(opcode, direction, tensor)?) } else { None };
        let mut rows = vec![SINK; forms::COORDINATE_ROW];
        let store = direction == Direction::Store;
        let (shared, global) =
            if store { (&operands.get(1), &operands.first()) } else { (&operands.first(), &operands.get(1)) };
        let (Some(shared), Some(global)) = (*shared, *global) else {
            return Err(opcode.error("operands are missing"));
        };
        let shared = self.bulk_address(shared, forms::SHARED_ROW, &mut rows)?;
        let (global, coordinates) = self.bulk_global(opcode, global, rank, &mut rows)?;
        let mut rest = operands[2..].iter();
        if !tensor {
            let Some(size) = rest.next() else { return Err(opcode.error("the size is missing")) };
            rows[forms::SIZE_ROW] = self.source(size, ScalarType::U32)?;
        }
        let mut mbarrier = None;
        if !store {
            let Some(operand) = rest.next() else { return Err(opcode.error("the mbarrier is missing")) };
            mbarrier = Some(self.bulk_address(operand, forms::MBARRIER_ROW, &mut rows)?);
        }
        let mut offsets = vec![];
        if im2col {
            let given = rest.next().map_or(&[][..], elements_of);
            if given.len() != rank - 2 {
                return Err(opcode.error(format!("{} offsets where {} are expected", given.len(), rank - 2)));
            }
            for offset in given {
                offsets.push(self.source(offset, ScalarType::U16)?);
            }
        }
        if multicast {
            let Some(mask) = rest.next() else { return Err(opcode.error("the multicast mask is missing")) };
            rows[forms::MULTICAST_ROW] = self.source(mask, ScalarType::U16)?;
        }
        if rest.count() != usize::from(hint) {
            return Err(opcode.error("too many operands"));
        }
        rows.extend(coordinates);
        rows.extend(&offsets);
        let (coordinates, offsets, has_map) = (rank, offsets.len(), tensor);
        let form =
            BulkForm { direction, coordinates, offsets, shared, global, mbarrier, multicast, has_map, reduction };
        self.push_bulk(form, &rows);
        Ok(())
    }

    /// `tensormap.replace` and `tensormap.cp_fenceproxy`.
    pub(super) fn tensor_map_change(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
    ) -> Result<(), ParseError> {
        if opcode.take("cp_fenceproxy") {
            return self.tensor_map_copy(opcode, operands);
        }
        if !opcode.take("replace") {
            return Err(opcode.error("this operation is not known"));
        }
        opcode.take("tile");
        const FIELDS: [&str; 11] = [
            "global_address",
            "rank",
            "box_dim",
            "global_dim",
            "global_stride",
            "element_stride",
            "elemtype",
            "interleave_layout",
            "swizzle_mode",
            "swizzle_atomicity",
            "fill_mode",
        ];
        let field = opcode.take_any(&FIELDS).and_then(MapField::from_name);
        let mut field = field.ok_or_else(|| opcode.error("the field is missing"))?;
        let space = self.space(opcode);
        opcode.take("b1024");
        let scalar = opcode.scalar()?;
        let dimension = usize::from(field.has_dimension());
        self.count(opcode, operands, 2 + dimension..=2 + dimension)?;
        if field.has_dimension() {
            let number = self.literal(opcode, &operands[1])?;
            let named = usize::try_from(number).ok().and_then(|number| field.of_dimension(number));
            field = named.ok_or_else(|| opcode.error(format!("there is no dimension {number}")))?;
        }
        // Before PTX ISA 8.5 the four lowest bits of a stride, which are zero, are left out.
        let shifted = matches!(field, MapField::GlobalStride(_)) && self.module.version < (8, 5);
        let address = self.address(&operands[0])?;
        let mut i = self.with(match space {
            SHARED => scalar_handler::<ReplaceField<SHARED>>(),
            GLOBAL => scalar_handler::<ReplaceField<GLOBAL>>(),
            _ => scalar_handler::<ReplaceField<GENERIC>>(),
        });
        (i.a, i.imm, i.flags) = (address.row, address.offset, address.flag());
        i.flags |= when(MapFlags::WIDE_VALUE, field.is_wide());
        i.flags |= when(MapFlags::SIXTEENTHS, shifted);
        i.b = self.source(&operands[1 + dimension], scalar)?;
        i.list = self.map_fields.len() as u32;
        self.map_fields.push(field);
        self.push(i);
        Ok(())
    }

    /// `tensormap.cp_fenceproxy [to], [from], 128`: the copy, then the fence.
    fn tensor_map_copy(&mut self, opcode: &mut Opcode<'a>, operands: &'a [Operand<'a>]) -> Result<(), ParseError> {
        for word in ["global", "shared::cta", "tensormap::generic", "release"] {
            if !opcode.take(word) {
                return Err(opcode.error(format!("`.{word}` is missing")));
            }
        }
        let scope = self.scope(opcode, None)?;
        opcode.take("sync");
        opcode.take("aligned");
        self.count(opcode, operands, 3..=3)?;
        if self.literal(opcode, &operands[2])? != 128 {
            return Err(opcode.error("128 bytes are expected"));
        }
        let to = self.address(&operands[0])?;
        let from = self.address(&operands[1])?;
        let mut i = self.with(scalar_handler::<PublishMap>());
        (i.a, i.imm, i.flags) = (to.row, to.offset, to.flag());
        i.flags |= when(MapFlags::WIDE_SOURCE, from.wide);
        i.b = from.row;
        let offset = i32::try_from(from.offset);
        i.list = offset.map_err(|_| opcode.error("the offset has more than 32 bits"))?.cast_unsigned();
        self.push(i);
        self.push(self.with(scalar_handler::<MapFence<false>>()));
        self.fence(scope, false);
        Ok(())
    }

    /// The operation of a `cp.reduce` and, without a tensor map, the type of its elements.
    fn bulk_reduction(
        &self,
        opcode: &mut Opcode<'a>,
        direction: Direction,
        tensor: bool,
    ) -> Result<BulkReduction, ParseError> {
        let name = opcode.take_any(&["add", "min", "max", "inc", "dec", "and", "or", "xor"]).unwrap_or("");
        let operation = Reduction::from_name(name).ok_or_else(|| opcode.error("the operation is missing"))?;
        if tensor {
            return Ok(BulkReduction { operation, element: None });
        }
        opcode.take("noftz");
        let scalar = opcode.scalar()?;
        let element = reduced_element(scalar).filter(|&element| {
            use ScalarType::{B32, Bf16, F16, S32, U32, U64};
            let listed = match (operation, direction) {
                (Reduction::And | Reduction::Or | Reduction::Xor, Direction::Store) => scalar.is_integer(),
                (Reduction::And | Reduction::Or | Reduction::Xor, _) => scalar == B32,
                (Reduction::Inc | Reduction::Dec, _) => scalar == U32,
                (Reduction::Add, Direction::Store) => !matches!(scalar, ScalarType::F16x2 | ScalarType::Bf16x2),
                (Reduction::Add, _) => matches!(scalar, U32 | S32 | U64),
                (_, Direction::Store) => matches!(scalar, U32 | S32 | U64 | ScalarType::S64 | F16 | Bf16),
                _ => matches!(scalar, U32 | S32),
            };
            listed && operation.function(element).is_some()
        });
        match element {
            Some(_) => Ok(BulkReduction { operation, element }),
            None => Err(opcode.error("this operation is not supported for this type")),
        }
    }

    /// `st.async` and `red.async`: write values of registers to shared memory of the cluster, and complete on an
    /// mbarrier.
    pub(super) fn asynchronous_store(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
    ) -> Result<(), ParseError> {
        let reduces = opcode.base() == "red";
        opcode.take(if reduces { "relaxed" } else { "weak" });
        if reduces {
            opcode.take("cluster");
        }
        opcode.take("shared::cluster");
        if !opcode.take("mbarrier::complete_tx::bytes") {
            return Err(opcode.error("only the form that completes on an mbarrier in shared memory is supported"));
        }
        let reduction =
            if reduces { Some(self.bulk_reduction(opcode, Direction::Share, false)?.operation) } else { None };
        let count = match opcode.take_any(&["v2", "v4"]) {
            None => 1,
            Some("v2") => 2,
            Some(_) => 4,
        };
        let scalar = match reduction {
            None => opcode.scalar()?,
            // `bulk_reduction` has read this already.
            Some(_) => opcode.text.rsplit('.').next().and_then(ScalarType::from_name).unwrap_or(ScalarType::B32),
        };
        if !matches!(scalar.bytes(), 4 | 8) || reduces && count > 1 {
            return Err(opcode.error("this type or vector is not supported"));
        }
        self.count(opcode, operands, 3..=3)?;
        let values = elements_of(&operands[1]);
        if values.len() != count {
            return Err(opcode.error(format!("{} registers for {count} elements", values.len())));
        }
        let mut rows = vec![SINK; forms::COORDINATE_ROW];
        let shared = self.bulk_address(&operands[0], forms::SHARED_ROW, &mut rows)?;
        let mbarrier = self.bulk_address(&operands[2], forms::MBARRIER_ROW, &mut rows)?;
        for value in values {
            rows.push(self.source(value, scalar)?);
        }
        let form = BulkForm {
            direction: Direction::Put { bytes: scalar.bytes() },
            coordinates: count,
            offsets: 0,
            shared,
            global: shared,
            mbarrier: Some(mbarrier),
            multicast: false,
            has_map: false,
            reduction: reduction.map(|operation| BulkReduction { operation, element: reduced_element(scalar) }),
        };
        self.push_bulk(form, &rows);
        Ok(())
    }

    fn push_bulk(&mut self, form: BulkForm, rows: &[u32]) {
        let mut i = self.with(scalar_handler::<BulkCopy>());
        i.list = self.list(rows);
        i.imm = self.bulk_forms.len() as i64;
        self.bulk_forms.push(form);
        self.push(i);
    }

    fn bulk_address(
        &mut self,
        operand: &Operand<'_>,
        place: usize,
        rows: &mut [u32],
    ) -> Result<forms::Operand, ParseError> {
        let address = self.address(operand)?;
        rows[place] = address.row;
        Ok(forms::Operand { place, wide: address.wide, offset: address.offset })
    }

    /// `[map, {x, y}]` or a plain address.
    fn bulk_global(
        &mut self,
        opcode: &Opcode<'_>,
        operand: &Operand<'_>,
        rank: usize,
        rows: &mut [u32],
    ) -> Result<(forms::Operand, Vec<u32>), ParseError> {
        let Operand::Address { base, offset, coordinates } = operand else {
            return Err(opcode.error("an address in brackets is expected"));
        };
        let address = self.address_of(base, *offset)?;
        rows[forms::GLOBAL_ROW] = address.row;
        let given = coordinates.first().map_or(&[][..], elements_of);
        if given.len() != rank || coordinates.len() > 1 {
            return Err(opcode.error(format!("{} coordinates where {rank} are expected", given.len())));
        }
        let mut result = vec![];
        for coordinate in given {
            result.push(self.source(coordinate, ScalarType::S32)?);
        }
        Ok((forms::Operand { place: forms::GLOBAL_ROW, wide: address.wide, offset: address.offset }, result))
    }
}
