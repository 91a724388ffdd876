//! Prints vectorised loops: neighbouring elements are read and written several at a time.
//!
//! Elements are copied to registers before the loop and back after it, by accesses of up to 16 bytes. An access needs
//! an address that is a multiple of its size (PTX ISA 9.7.9, "Data Movement and Conversion Instructions: ld") and
//! elements without gaps. Both depend on the strides and views of a run, so both versions of the loop are printed. A
//! test chooses between them: of addresses and strides, and of the loop's conditions for all iterations. The iterations
//! stay in order, and compute the same.

use super::lane_plan::LanePlan;
use super::print::KernelPrinter;
use crate::te::cuda::bytes;
use crate::te::error::TeError;
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::Expr;
use crate::te::expr::var::Var;
use crate::te::loops::ir::rewrite::redirect;
use crate::te::loops::ir::stmt::{LoopKind, Stmt};

impl KernelPrinter<'_> {
    /// A vectorised loop in which some accesses are done for several iterations at once.
    pub(super) fn in_lanes(
        &mut self,
        var: Var,
        extent: &Expr,
        body: &Stmt,
        plan: &LanePlan<'_>,
    ) -> Result<(), TeError> {
        let mut tests = plan.conditions.iter().map(|x| self.index(x)).collect::<Result<Vec<_>, _>>()?;
        let mut places = Vec::with_capacity(plan.accesses.len());
        for access in &plan.accesses {
            let at = self.index(&access.first)?;
            let place = format!("&{}", self.element(&access.buffer, &at)?);
            if let Some(stride) = access.stride {
                let test = format!("({} == 1)", self.index(&stride.into())?);
                if !tests.contains(&test) {
                    tests.push(test);
                }
            }
            let size = access.width * bytes(access.buffer.dtype());
            tests.push(format!("epilogue::te::is_aligned<{size}>({place})"));
            places.push(place);
        }
        writeln!(self.code, "if ({}) {{", tests.join(" && "));
        self.lanes_body(var, extent, plan, &places)?;
        writeln!(self.code, "}} else {{");
        self.repeat(var, extent, LoopKind::Serial, body)?;
        writeln!(self.code, "}}");
        Ok(())
    }

    fn lanes_body(&mut self, var: Var, extent: &Expr, plan: &LanePlan<'_>, places: &[String]) -> Result<(), TeError> {
        let accesses = &plan.accesses;
        let mut lanes: Vec<(Buffer, String)> = Vec::with_capacity(accesses.len());
        for (access, place) in accesses.iter().zip(places) {
            let (dtype, wanted) = (access.buffer.dtype(), format!("{}_lanes", access.buffer.name()));
            // The registers hold elements as memory does, in the element type.
            let held = Buffer::compact(&wanted, dtype, vec![extent.clone()], Scope::Shared);
            let name = self.lanes_of(&held, access.width)?;
            if access.read {
                writeln!(self.code, "epilogue::te::load_lanes({name}, {place});");
            }
            lanes.push((held, name));
        }
        let counter = [Expr::from(var)];
        let own = |buffer: &Buffer, indices: &[Expr]| {
            let at = accesses.iter().position(|a| a.buffer == *buffer && indices == std::slice::from_ref(&a.index))?;
            Some((lanes[at].0.clone(), counter.to_vec()))
        };
        self.repeat(var, extent, LoopKind::Unrolled, &redirect(plan.then.clone(), &own))?;
        for ((access, place), (_, name)) in accesses.iter().zip(places).zip(&lanes) {
            if access.written {
                writeln!(self.code, "epilogue::te::store_lanes({place}, {name});");
            }
        }
        Ok(())
    }
}
