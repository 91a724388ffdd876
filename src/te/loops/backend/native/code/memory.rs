//! Reads and writes of buffers. Accesses that are not proved to stay inside are tested.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use cranelift_frontend::Variable;

use super::plan::first_lane;
use super::value::{lanes_per_vector, scalar_type, vector_type};
use super::{Memory, Site, Translator, Val, shown, unexpected};
use crate::ElementType;
use crate::te::arith::coefficient;
use crate::te::dtype::DType;
use crate::te::error::{RunError, TeError};
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::Expr;
use crate::te::loops::backend::native::argument::element_size;

/// The bytes of a buffer whose extents are constants.
pub(super) fn fixed_bytes(buffer: &Buffer) -> Option<usize> {
    let extent = |x: &Expr| x.as_int().and_then(|n| usize::try_from(n.max(0)).ok());
    let len = buffer.allocation().iter().try_fold(1usize, |len, x| len.checked_mul(extent(x)?))?;
    len.checked_mul(element_size(buffer.dtype()))
}

/// Elements that stay in registers while a loop runs.
#[derive(Clone, Debug)]
pub(super) struct Promoted {
    pub(super) buffer: Buffer,
    /// The index in lane 0 of the whole vectorised loop.
    pub(super) index: Expr,
    /// The index of the first element.
    pub(super) place: Expr,
    /// The number of lanes; 1 for a single element.
    pub(super) width: usize,
    pub(super) registers: Vec<Variable>,
}

/// The target of an access: the address of one element, or of the first of as many as there are lanes.
#[derive(Clone, Copy)]
struct AccessTarget {
    address: Value,
    memory: Memory,
    /// Whether the access stays inside; `None` if that is proved.
    inside: Option<Value>,
}

impl Translator<'_, '_, '_> {
    /// An element of a buffer, or one for each lane.
    pub(super) fn load(&mut self, buffer: &Buffer, indices: &[Expr]) -> Result<Val, TeError> {
        let index = only(buffer, indices)?;
        let dtype = buffer.dtype();
        if let Some(promoted) = self.promoted(buffer, index) {
            let values: Vec<Value> = promoted.registers.iter().map(|register| self.b.use_var(*register)).collect();
            let value = if promoted.width == 1 { Val::One(values[0]) } else { Val::Many(values) };
            return Ok(match (self.lanes.and_then(|lanes| lanes.single), &value) {
                (Some(lane), Val::Many(_)) => Val::One(self.lane(&value, lane, dtype)),
                _ => value,
            });
        }
        if !self.varies(index) {
            let target = self.target(buffer, index, 1)?;
            return Ok(Val::One(self.read_one(target, dtype)?));
        }
        let Some(lanes) = self.lanes else { return Err(unexpected("lanes outside a vectorised loop")) };
        if coefficient(index, lanes.var) == Some(1) {
            let target = self.target(buffer, index, lanes.count)?;
            return self.read_lanes(target, dtype, lanes.count);
        }
        self.lane_by_lane(&Expr::new(
            dtype,
            crate::te::expr::expression::Kind::Load(buffer.clone(), vec![index.clone()]),
        ))
    }

    /// Writes an element of a buffer, or one for each lane.
    pub(super) fn store(&mut self, buffer: &Buffer, indices: &[Expr], value: &Expr) -> Result<(), TeError> {
        let index = only(buffer, indices)?;
        let dtype = buffer.dtype();
        let whole = self.value(value)?;
        let whole = self.converted(whole, value.dtype(), dtype)?;
        if let Some(promoted) = self.promoted(buffer, index) {
            let parts = match whole {
                Val::One(value) if promoted.width == 1 => vec![value],
                value => self.spread(value, dtype),
            };
            for (register, part) in promoted.registers.iter().zip(parts) {
                self.b.def_var(*register, part);
            }
            return Ok(());
        }
        let Some(lanes) = self.lanes.filter(|_| self.varies(index)) else {
            let Val::One(value) = whole else { return Err(unexpected("several values for one element")) };
            let target = self.target(buffer, index, 1)?;
            return self.guarded(target, |this| this.write_one(target, value, dtype));
        };
        if coefficient(index, lanes.var) == Some(1) {
            let target = self.target(buffer, index, lanes.count)?;
            let vectors = self.spread(whole, dtype);
            return self.guarded(target, |this| this.write_lanes(target, &vectors, dtype));
        }
        for lane in 0..lanes.count {
            let value = self.lane(&whole, lane, dtype);
            self.lanes = Some(super::Lanes { single: Some(lane), ..lanes });
            let target = self.target(buffer, index, 1);
            self.lanes = Some(lanes);
            let target = target?;
            self.guarded(target, |this| this.write_one(target, value, dtype))?;
        }
        Ok(())
    }

    /// The registers that hold the elements of an access, if a loop keeps them there.
    fn promoted(&self, buffer: &Buffer, index: &Expr) -> Option<Promoted> {
        let promoted = self.promoted.iter().rev().filter(|promoted| promoted.buffer == *buffer);
        let (first, width) = match self.lanes {
            Some(lanes) if coefficient(index, lanes.var) == Some(1) => (first_lane(index, lanes.var), lanes.count),
            _ => (index.clone(), 1),
        };
        promoted.into_iter().find(|promoted| promoted.width == width && promoted.index == first).cloned()
    }

    /// Loads the elements that a loop keeps in registers.
    pub(super) fn fill(&mut self, promoted: &Promoted) -> Result<(), TeError> {
        let dtype = promoted.buffer.dtype();
        let target = self.target(&promoted.buffer, &promoted.place, promoted.width)?;
        let values = if promoted.width == 1 {
            vec![self.read_one(target, dtype)?]
        } else {
            match self.read_lanes(target, dtype, promoted.width)? {
                Val::Many(vectors) => vectors,
                Val::One(value) => vec![value],
            }
        };
        for (register, value) in promoted.registers.iter().zip(values) {
            self.b.def_var(*register, value);
        }
        Ok(())
    }

    /// Stores back what a loop kept in registers.
    pub(super) fn spill(&mut self, promoted: &Promoted) -> Result<(), TeError> {
        let dtype = promoted.buffer.dtype();
        let values: Vec<Value> = promoted.registers.iter().map(|register| self.b.use_var(*register)).collect();
        let target = self.target(&promoted.buffer, &promoted.place, promoted.width)?;
        self.guarded(target, |this| {
            if promoted.width == 1 {
                this.write_one(target, values[0], dtype)
            } else {
                this.write_lanes(target, &values, dtype)
            }
        })
    }

    /// Fresh registers for elements of a type.
    pub(super) fn registers(&mut self, dtype: DType, width: usize) -> Vec<Variable> {
        let (ty, count) =
            if width == 1 { (scalar_type(dtype), 1) } else { (vector_type(dtype), width / lanes_per_vector(dtype)) };
        (0..count).map(|_| self.b.declare_var(ty)).collect()
    }

    fn target(&mut self, buffer: &Buffer, index: &Expr, width: usize) -> Result<AccessTarget, TeError> {
        let missing = || RunError::Failed { reason: format!("{} has no memory here", buffer.name()) };
        let memory = *self.memory.get(buffer).ok_or_else(missing)?;
        let offset = self.index(index)?;
        let size = i64::try_from(element_size(buffer.dtype())).unwrap_or(1);
        let bytes = self.b.ins().imul_imm_u(offset, size);
        let address = self.b.ins().iadd(memory.pointer, bytes);
        if !self.unit.checked && !index.loads() {
            return Ok(AccessTarget { address, memory, inside: None });
        }
        let first = self.b.ins().icmp(IntCC::UnsignedLessThan, offset, memory.len);
        let last = self.b.ins().iadd_imm_u(offset, i64::try_from(width - 1).unwrap_or(0));
        let second = self.b.ins().icmp(IntCC::UnsignedLessThan, last, memory.len);
        let inside = self.b.ins().band(first, second);
        let outside = self.b.ins().bxor_imm_u(inside, 1);
        self.fail_if(outside, |this| {
            // The first element outside. With several lanes this may be a later one.
            let at = this.b.ins().select(first, memory.len, offset);
            (Site::Access(shown(buffer, index)), at, memory.len)
        });
        Ok(AccessTarget { address, memory, inside: Some(inside) })
    }

    /// Does something only if the access stays inside.
    fn guarded(
        &mut self,
        target: AccessTarget,
        write: impl FnOnce(&mut Self) -> Result<(), TeError>,
    ) -> Result<(), TeError> {
        let Some(inside) = target.inside else { return write(self) };
        let [good, join] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(inside, good, &[], join, &[]);
        self.b.switch_to_block(good);
        write(self)?;
        self.b.ins().jump(join, &[]);
        self.b.switch_to_block(join);
        Ok(())
    }

    /// An address that can be read: if the access is outside, the address of the frame's status.
    fn readable(&mut self, target: AccessTarget) -> Value {
        match target.inside {
            Some(inside) => self.b.ins().select(inside, target.address, self.status),
            None => target.address,
        }
    }

    /// Reads one element. Outside, the value is arbitrary; the run fails anyway.
    fn read_one(&mut self, target: AccessTarget, dtype: DType) -> Result<Value, TeError> {
        let (address, flags) = (self.readable(target), self.read_flags(target));
        let DType::Number(element) = dtype else {
            let byte = self.b.ins().load(types::I8, flags, address, 0);
            return Ok(self.b.ins().icmp_imm_u(IntCC::NotEqual, byte, 0));
        };
        let bits = match element {
            ElementType::F64 | ElementType::F32 | ElementType::I64 | ElementType::U64 | ElementType::I32 => {
                return Ok(self.b.ins().load(scalar_type(dtype), flags, address, 0));
            }
            ElementType::U32 => return Ok(self.b.ins().uload32(flags, address, 0)),
            ElementType::I16 => return Ok(self.b.ins().sload16(types::I32, flags, address, 0)),
            ElementType::I8 => return Ok(self.b.ins().sload8(types::I32, flags, address, 0)),
            ElementType::F16 | ElementType::BF16 | ElementType::U16 => {
                self.b.ins().uload16(types::I32, flags, address, 0)
            }
            _ => self.b.ins().uload8(types::I32, flags, address, 0),
        };
        match self.decoded(Val::One(bits), dtype)? {
            Val::One(value) => Ok(value),
            Val::Many(_) => Err(unexpected("lanes of one element")),
        }
    }

    fn read_flags(&self, target: AccessTarget) -> MemFlagsData {
        // A test decides which address is read, so the read must not move before it.
        if target.inside.is_some() { MemFlagsData::new().with_notrap() } else { target.memory.flags }
    }

    /// Reads as many consecutive elements as there are lanes.
    fn read_lanes(&mut self, target: AccessTarget, dtype: DType, count: usize) -> Result<Val, TeError> {
        if let Some(inside) = target.inside {
            // Outside, this many bytes may not be readable anywhere.
            let ty = vector_type(dtype);
            let vectors = count / lanes_per_vector(dtype);
            let [good, bad, join] = [(); 3].map(|()| self.b.create_block());
            for _ in 0..vectors {
                self.b.append_block_param(join, ty);
            }
            self.b.ins().brif(inside, good, &[], bad, &[]);
            self.b.switch_to_block(good);
            let value = self.read_lanes(AccessTarget { inside: None, ..target }, dtype, count)?;
            let values: Vec<_> = self.spread(value, dtype).into_iter().map(Into::into).collect();
            self.b.ins().jump(join, &values);
            self.b.switch_to_block(bad);
            let zero = self.constant(0.0, dtype);
            let zero = self.spread(Val::One(zero), dtype)[0];
            self.b.ins().jump(join, &vec![zero.into(); vectors]);
            self.b.switch_to_block(join);
            return Ok(Val::Many(self.b.block_params(join).to_vec()));
        }
        let flags = target.memory.flags;
        let element = dtype.in_memory();
        let width = lanes_per_vector(dtype);
        let mut vectors = Vec::with_capacity(count / width);
        for start in (0..count).step_by(width) {
            let at = i32::try_from(start * element_size(dtype)).unwrap_or(i32::MAX);
            vectors.push(match element {
                ElementType::F64 | ElementType::F32 | ElementType::I64 | ElementType::U64 | ElementType::I32 => {
                    self.b.ins().load(vector_type(dtype), flags, target.address, at)
                }
                ElementType::U32 => self.b.ins().uload32x2(flags, target.address, at),
                ElementType::I16 => self.b.ins().sload16x4(flags, target.address, at),
                ElementType::F16 | ElementType::BF16 | ElementType::U16 => {
                    self.b.ins().uload16x4(flags, target.address, at)
                }
                _ => {
                    let four = self.b.ins().load(types::I32, flags, target.address, at);
                    let four = self.b.ins().scalar_to_vector(types::I32X4, four);
                    let bytes = self.cast_bits(types::I8X16, four);
                    if element == ElementType::I8 {
                        let halves = self.b.ins().swiden_low(bytes);
                        self.b.ins().swiden_low(halves)
                    } else {
                        let halves = self.b.ins().uwiden_low(bytes);
                        self.b.ins().uwiden_low(halves)
                    }
                }
            });
        }
        let bits = Val::Many(vectors);
        if dtype == DType::Bool {
            let zero = self.b.ins().iconst(types::I32, 0);
            let zero = self.b.ins().splat(types::I32X4, zero);
            return Ok(self.each(bits, |this, x| this.b.ins().icmp(IntCC::NotEqual, x, zero)));
        }
        self.decoded(bits, dtype)
    }

    fn write_one(&mut self, target: AccessTarget, value: Value, dtype: DType) -> Result<(), TeError> {
        let flags = target.memory.flags;
        let bits = match self.encoded(Val::One(value), dtype)? {
            Val::One(bits) => bits,
            Val::Many(_) => return Err(unexpected("lanes for one element")),
        };
        match (element_size(dtype), scalar_type(dtype)) {
            (1, types::I8) => self.b.ins().store(flags, bits, target.address, 0),
            (1, _) => self.b.ins().istore8(flags, bits, target.address, 0),
            (2, _) => self.b.ins().istore16(flags, bits, target.address, 0),
            (4, types::I64) => self.b.ins().istore32(flags, bits, target.address, 0),
            _ => self.b.ins().store(flags, bits, target.address, 0),
        };
        Ok(())
    }

    fn write_lanes(&mut self, target: AccessTarget, vectors: &[Value], dtype: DType) -> Result<(), TeError> {
        let flags = target.memory.flags;
        let bits = match self.encoded(Val::Many(vectors.to_vec()), dtype)? {
            Val::Many(bits) => bits,
            Val::One(_) => return Err(unexpected("one value for several elements")),
        };
        let size = element_size(dtype);
        for (i, vector) in bits.into_iter().enumerate() {
            let at = i32::try_from(i * lanes_per_vector(dtype) * size).unwrap_or(i32::MAX);
            match size {
                // Puts the low bits of the lanes side by side. They are in range, so narrowing keeps them.
                1 => {
                    let vector = if dtype == DType::Bool { self.b.ins().ushr_imm_u(vector, 31) } else { vector };
                    let mask = self.b.ins().iconst(types::I32, 0xff);
                    let mask = self.b.ins().splat(types::I32X4, mask);
                    let vector = self.b.ins().band(vector, mask);
                    let halves = self.b.ins().unarrow(vector, vector);
                    let bytes = self.b.ins().unarrow(halves, halves);
                    let bytes = self.cast_bits(types::I32X4, bytes);
                    let four = self.b.ins().extractlane(bytes, 0);
                    self.b.ins().store(flags, four, target.address, at);
                }
                2 => {
                    let mask = self.b.ins().iconst(types::I32, 0xffff);
                    let mask = self.b.ins().splat(types::I32X4, mask);
                    let vector = self.b.ins().band(vector, mask);
                    let halves = self.b.ins().unarrow(vector, vector);
                    let halves = self.cast_bits(types::I64X2, halves);
                    let four = self.b.ins().extractlane(halves, 0);
                    self.b.ins().store(flags, four, target.address, at);
                }
                4 if scalar_type(dtype) == types::I64 => {
                    let halves = self.halved(vector, vector);
                    let halves = self.cast_bits(types::I64X2, halves);
                    let two = self.b.ins().extractlane(halves, 0);
                    self.b.ins().store(flags, two, target.address, at);
                }
                _ => {
                    self.b.ins().store(flags, vector, target.address, at);
                }
            }
        }
        Ok(())
    }
}

/// The index of an access. Lowering leaves exactly one.
fn only<'a>(buffer: &Buffer, indices: &'a [Expr]) -> Result<&'a Expr, TeError> {
    match indices {
        [index] => Ok(index),
        _ => Err(unexpected(&format!("an access of {} by {} indices", buffer.name(), indices.len()))),
    }
}
