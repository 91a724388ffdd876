//! Code for statements: loops, conditions, names and memory.

use std::collections::HashSet;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types};
use cranelift_module::Module;

use super::memory::{Promoted, fixed_bytes};
use super::plan::{VectorPlan, in_registers, limits, vector_plan, whole};
use super::{Binding, FrameSlot, Lanes, Pending, Site, Translator, Val, unexpected};
use crate::te::error::{RunError, TeError};
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::var::Var;
use crate::te::loops::backend::native::argument::element_size;
use crate::te::loops::backend::native::host;
use crate::te::loops::ir::stmt::{LoopKind, Stmt};

impl<'p> Translator<'_, '_, 'p> {
    pub(super) fn statement(&mut self, statement: &'p Stmt) -> Result<(), TeError> {
        match statement {
            Stmt::Seq(statements) => statements.iter().try_for_each(|s| self.statement(s)),
            Stmt::For { var, extent, kind, body } => self.for_loop(*var, extent, *kind, body),
            Stmt::If { condition, then } => {
                let condition = self.scalar(condition)?;
                self.if_then(condition, &mut |this| this.statement(then))
            }
            Stmt::Let { var, value, body } => {
                let value = self.value(value)?;
                let shadowed = self.vars.insert(*var, Binding::Named(value));
                let result = self.statement(body);
                match shadowed {
                    Some(binding) => self.vars.insert(*var, binding),
                    None => self.vars.remove(var),
                };
                result
            }
            Stmt::Store { buffer, indices, value } => self.store(buffer, indices, value),
            Stmt::Allocate { buffer, body } => self.allocate(buffer, body),
            // Removed before code generation.
            Stmt::Note { body, .. } => self.statement(body),
            Stmt::Prefetch { .. } => Ok(()),
            Stmt::Launch { .. } | Stmt::AllReduce(_) | Stmt::Barrier => Err(unexpected("threads inside one thread")),
        }
    }

    fn if_then(
        &mut self,
        condition: Value,
        then: &mut dyn FnMut(&mut Self) -> Result<(), TeError>,
    ) -> Result<(), TeError> {
        let [inside, join] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(condition, inside, &[], join, &[]);
        self.b.switch_to_block(inside);
        then(self)?;
        self.b.ins().jump(join, &[]);
        self.b.switch_to_block(join);
        Ok(())
    }

    fn for_loop(&mut self, var: Var, extent: &'p Expr, kind: LoopKind, body: &'p Stmt) -> Result<(), TeError> {
        let end = self.wide(extent)?;
        let (limits, inner) = limits(var, body);
        // A condition that differs between lanes can't end a loop.
        let limits = if limits.iter().any(|limit| self.varies(limit)) { Vec::new() } else { limits };
        let (mut whole_extent, mut body) = (Some(extent), body);
        let mut end = end;
        if !limits.is_empty() {
            for limit in &limits {
                let limit = self.index(limit)?;
                end = self.b.ins().smin(end, limit);
            }
            (whole_extent, body) = (None, inner);
        }
        match kind {
            LoopKind::Parallel if self.lanes.is_none() => return self.parallel(var, end, body),
            LoopKind::Vectorized if self.lanes.is_none() => {
                if let Some(plan) = vector_plan(var, extent, body) {
                    return self.vectorized(var, (whole_extent, end), body, &plan);
                }
            }
            _ => {}
        }
        let zero = self.integer(0);
        let lanes = self.lanes.map(|lanes| (lanes.var, lanes.count));
        let candidates = in_registers(var, body, lanes);
        if candidates.is_empty() {
            return self.counted(var, zero, end, &mut |this| this.statement(body));
        }
        // Elements that the loop accesses in every iteration may be read before the first iteration and written after
        // the last, if there is one.
        let runs = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, end, 0);
        self.if_then(runs, &mut |this| {
            let outside = this.promoted.len();
            let mut own = Vec::with_capacity(candidates.len());
            for candidate in &candidates {
                let registers = this.registers(candidate.buffer.dtype(), candidate.width);
                let promoted = Promoted {
                    buffer: candidate.buffer.clone(),
                    index: candidate.index.clone(),
                    place: candidate.place.clone(),
                    width: candidate.width,
                    registers,
                };
                // A loop around this one keeps them already; registers here would only be copies.
                if this.is_promoted(&promoted) {
                    continue;
                }
                this.fill(&promoted)?;
                own.push(promoted);
            }
            this.promoted.extend(own.iter().cloned());
            let zero = this.integer(0);
            this.counted(var, zero, end, &mut |this| this.statement(body))?;
            this.promoted.truncate(outside);
            own.iter().try_for_each(|promoted| this.spill(promoted))
        })
    }

    fn is_promoted(&self, other: &Promoted) -> bool {
        self.promoted.iter().any(|p| p.buffer == other.buffer && p.index == other.index && p.width == other.width)
    }

    /// A loop from `begin` to before `end`.
    pub(super) fn counted(
        &mut self,
        var: Var,
        begin: Value,
        end: Value,
        body: &mut dyn FnMut(&mut Self) -> Result<(), TeError>,
    ) -> Result<(), TeError> {
        self.stepped(begin, end, 1, &mut |this, counter| {
            let shadowed = this.vars.insert(var, Binding::Counter(counter));
            let result = body(this);
            match shadowed {
                Some(binding) => this.vars.insert(var, binding),
                None => this.vars.remove(&var),
            };
            result
        })
    }

    /// A loop over every `step`-th number from `begin` to before `end`, tested at its end.
    fn stepped(
        &mut self,
        begin: Value,
        end: Value,
        step: i64,
        body: &mut dyn FnMut(&mut Self, Value) -> Result<(), TeError>,
    ) -> Result<(), TeError> {
        let [inside, after] = [(); 2].map(|()| self.b.create_block());
        self.b.append_block_param(inside, types::I64);
        let any = self.b.ins().icmp(IntCC::SignedLessThan, begin, end);
        self.b.ins().brif(any, inside, &[begin.into()], after, &[]);
        self.b.switch_to_block(inside);
        let counter = self.b.block_params(inside)[0];
        body(self, counter)?;
        let next = self.b.ins().iadd_imm_u(counter, step);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, next, end);
        self.b.ins().brif(more, inside, &[next.into()], after, &[]);
        self.b.switch_to_block(after);
        Ok(())
    }

    /// Runs of lanes, then the remaining iterations one by one. Without an extent, the loop may end anywhere before its
    /// own.
    fn vectorized(
        &mut self,
        var: Var,
        (extent, end): (Option<&'p Expr>, Value),
        body: &'p Stmt,
        plan: &VectorPlan,
    ) -> Result<(), TeError> {
        let zero = self.integer(0);
        if extent.is_some_and(|extent| whole(plan, extent)) {
            return self.in_vectors(Lanes { var, base: zero, count: plan.lanes, single: None }, body);
        }
        let lanes = i64::try_from(plan.lanes).unwrap_or(i64::MAX);
        let length = self.integer(lanes);
        // `end - end % lanes`, or 0 if that is negative.
        let positive = self.b.ins().smax(end, zero);
        let rest = self.b.ins().srem(positive, length);
        let mut split = self.b.ins().isub(positive, rest);
        for distance in &plan.distances {
            let distance = self.index(distance)?;
            let absolute = self.b.ins().iabs(distance);
            let equal = self.b.ins().icmp_imm_s(IntCC::Equal, distance, 0);
            let far = self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, absolute, end);
            let apart = self.b.ins().bor(equal, far);
            split = self.b.ins().select(apart, split, zero);
        }
        self.stepped(zero, split, lanes, &mut |this, base| {
            this.in_vectors(Lanes { var, base, count: plan.lanes, single: None }, body)
        })?;
        self.counted(var, split, end, &mut |this| this.statement(body))
    }

    fn in_vectors(&mut self, lanes: Lanes, body: &'p Stmt) -> Result<(), TeError> {
        self.lanes = Some(lanes);
        let result = self.statement(body);
        self.lanes = None;
        result
    }

    /// Makes a function of the body, which the host's threads call for ranges of the counter.
    fn parallel(&mut self, var: Var, end: Value, body: &'p Stmt) -> Result<(), TeError> {
        let mut free = Free::default();
        free.statement(body);
        let mut slots: Vec<(FrameSlot, Value)> = Vec::new();
        for buffer in free.buffers.iter().filter(|buffer| !free.own.contains(buffer)) {
            let missing = || RunError::Failed { reason: format!("{} has no memory here", buffer.name()) };
            let memory = *self.memory.get(buffer).ok_or_else(missing)?;
            slots.push((FrameSlot::Pointer(buffer.clone()), memory.pointer));
            slots.push((FrameSlot::Length(buffer.clone()), memory.len));
        }
        for used in free.variables.iter().filter(|used| **used != var) {
            match self.vars.get(used) {
                Some(Binding::Counter(value)) => slots.push((FrameSlot::Counter(*used), *value)),
                Some(Binding::Named(Val::One(value))) => slots.push((FrameSlot::Value(*used), *value)),
                // Bound inside the body.
                _ => {}
            }
        }
        let bytes = u32::try_from(slots.len().max(1) * 8).unwrap_or(u32::MAX);
        let frame = self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4));
        let pointer = self.pointer();
        let address = self.b.ins().stack_addr(pointer, frame, 0);
        for (i, (_, value)) in slots.iter().enumerate() {
            let at = i32::try_from(i * 8).unwrap_or(i32::MAX);
            self.b.ins().store(MemFlagsData::trusted(), *value, address, at);
        }
        let id = self.unit.declare()?;
        let function = self.unit.module.declare_func_in_func(id, self.b.func);
        let code = self.b.ins().func_addr(pointer, function);
        let arguments = [(pointer, code), (pointer, address), (types::I64, end), (pointer, self.status)];
        self.call(host::parallel as *const () as usize, &arguments, None);
        let frame = slots.into_iter().map(|(slot, _)| slot).collect();
        self.unit.pending.push(Pending { id, body, counter: Some(var), frame });
        Ok(())
    }

    fn allocate(&mut self, buffer: &Buffer, body: &'p Stmt) -> Result<(), TeError> {
        let pointer = self.pointer();
        let size = i64::try_from(element_size(buffer.dtype())).unwrap_or(1);
        if let (Some(slot), Some(bytes)) = (self.slots.get(buffer).copied(), fixed_bytes(buffer)) {
            let address = self.b.ins().stack_addr(pointer, slot, 0);
            let len = self.integer(i64::try_from(bytes).unwrap_or(i64::MAX) / size);
            self.bind_memory(buffer, address, len);
            return self.statement(body);
        }
        let mut len = self.integer(1);
        let zero = self.integer(0);
        let mut fits = self.b.ins().iconst(types::I8, 1);
        for extent in &buffer.allocation() {
            let extent = self.wide(extent)?;
            let extent = self.b.ins().smax(extent, zero);
            let (product, overflow) = self.b.ins().umul_overflow(len, extent);
            len = product;
            let exact = self.b.ins().icmp_imm_u(IntCC::Equal, overflow, 0);
            fits = self.b.ins().band(fits, exact);
        }
        // The host refuses a negative number of bytes.
        let (bytes, overflow) = {
            let size = self.integer(size);
            self.b.ins().umul_overflow(len, size)
        };
        let exact = self.b.ins().icmp_imm_u(IntCC::Equal, overflow, 0);
        fits = self.b.ins().band(fits, exact);
        let impossible = self.integer(-1);
        let bytes = self.b.ins().select(fits, bytes, impossible);
        let address = self
            .call(host::allocate as *const () as usize, &[(types::I64, bytes)], Some(pointer))
            .ok_or_else(|| unexpected("a call without a result"))?;
        let none = self.b.ins().icmp_imm_u(IntCC::Equal, address, 0);
        self.fail_if(none, |_| (Site::Memory(buffer.name().to_owned()), bytes, bytes));
        let there = self.b.ins().icmp_imm_u(IntCC::NotEqual, address, 0);
        self.bind_memory(buffer, address, len);
        self.if_then(there, &mut |this| this.statement(body))?;
        self.call(host::release as *const () as usize, &[(pointer, address), (types::I64, bytes)], None);
        Ok(())
    }
}

/// The buffers and variables that a statement uses.
#[derive(Default)]
struct Free {
    /// In order of first use, so that the code is always the same.
    buffers: Vec<Buffer>,
    variables: Vec<Var>,
    /// Memory that it allocates itself.
    own: HashSet<Buffer>,
    seen: HashSet<Var>,
}

impl Free {
    fn statement(&mut self, statement: &Stmt) {
        statement.expressions().into_iter().for_each(|x| self.expression(x));
        match statement {
            Stmt::Store { buffer, .. } => self.buffer(buffer),
            Stmt::Allocate { buffer, .. } => {
                buffer.allocation().iter().for_each(|extent| self.expression(extent));
                self.own.insert(buffer.clone());
            }
            _ => {}
        }
        statement.children().into_iter().for_each(|child| self.statement(child));
    }

    fn expression(&mut self, x: &Expr) {
        x.visit(&mut |x| match x.kind() {
            Kind::Var(var) if self.seen.insert(*var) => self.variables.push(*var),
            Kind::Load(buffer, _) => self.buffer(buffer),
            _ => {}
        });
    }

    fn buffer(&mut self, buffer: &Buffer) {
        if !self.buffers.contains(buffer) {
            self.buffers.push(buffer.clone());
        }
    }
}
