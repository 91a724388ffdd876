//! Decodes one kernel: its parameters, its statements, and the program that they become.

use super::allocate;
use super::bind::{control, handler};
use super::blocks::{after, blocks};
use super::decoder::{Decoder, TRUE};
use super::effect::Successor;
use super::layout::allot;
use super::symbols::{Globals, Scope, Symbol, SymbolPlace};
use crate::error::ParseError;
use crate::program::flags::AccessFlags;
use crate::program::{Instruction, Kernel, Parameter, Program};
use crate::syntax::ast::{self, Function};

/// Decodes one kernel.
pub(super) fn kernel<'a>(
    module: &'a ast::Module<'a>,
    globals: &'a Globals<'a>,
    function: &'a Function<'a>,
) -> Result<Kernel, ParseError> {
    let mut decoder = Decoder::new(module, globals);
    let mut parameters = vec![];
    let mut used = 0;
    let mut scope = Scope::default();
    for parameter in &function.parameters {
        let offset = allot(&mut used, parameter, 32 * 1024)?;
        let size = parameter.bytes() as u32;
        scope.names.insert(parameter.name, Symbol::Variable(SymbolPlace::Parameter { offset, size }));
        let alignment = parameter.alignment as usize;
        parameters.push(Parameter { size: size as usize, alignment, offset: offset as usize });
    }
    decoder.scopes.push(scope);
    let Some(body) = &function.body else {
        let message = format!("kernel `{}` has no body", function.name);
        return Err(ParseError::Name { line: function.line, message });
    };
    decoder.block(body)?;
    let exit = Instruction { run: handler::<control::Exit>(), ..decoder.empty() };
    if decoder.opcodes.is_empty() {
        decoder.opcodes.push("exit".to_owned());
    }
    decoder.guard = (TRUE, false);
    decoder.push_ending(exit);
    let program = decoder.finish(function, used)?;
    Ok(Kernel { name: function.name.into(), parameters, program })
}

impl<'a> Decoder<'a> {
    fn finish(mut self, function: &Function<'a>, parameter_bytes: u32) -> Result<Program, ParseError> {
        let position = |label: u32| {
            self.labels[label as usize].ok_or_else(|| ParseError::Name {
                line: function.line,
                message: format!("a label of `{}` stands nowhere", function.name),
            })
        };
        let mut targets = vec![];
        for index in 0..self.code.len() {
            match &self.effects[index].successor {
                Successor::Label(label) => self.code[index].imm = position(*label)?.into(),
                Successor::Table(table) => {
                    self.code[index].list = targets.len() as u32;
                    for &label in &self.tables[*table] {
                        targets.push(position(label)?);
                    }
                }
                Successor::Next | Successor::None => {}
            }
        }
        // This is the first guess of a loop around `atom.cas` at the same address.
        let guesses = self.plain_loads.iter().filter(|(_, place)| self.compared.contains(place));
        guesses.for_each(|(load, _)| self.code[*load].flags |= AccessFlags::GUESS.bits());
        // A product may write its accumulators as late as at the wait, so their rows must not be reused before.
        self.accumulators.sort_unstable();
        self.accumulators.dedup();
        for &wait in &self.warpgroup_waits {
            self.effects[wait].uses.extend_from_slice(&self.accumulators);
        }
        let starts: Vec<u32> = self.labels.iter().map(|l| l.unwrap_or(0)).collect();
        let blocks = blocks(&self, &starts);
        let after_barriers = after(&self.block_barriers, &blocks);
        let after_collectives = after(&self.collectives, &blocks);
        let assignment = allocate::assign(&mut self, &blocks);
        let dataflow = self.dataflow(&assignment.rows);
        let predicates_at_entry = allocate::predicates_at_entry(&self, &blocks);
        let fills = assignment.fills;
        let dynamic_shared_start = self.shared.after_gap(self.globals.dynamic_shared_alignment);
        let (static_shared, shared_end) = (self.shared.bytes, self.shared.end);
        let local_declared = self.local.bytes;
        let (local, local_bytes) = self.local.finish();
        Ok(Program {
            code: self.code,
            origins: self.origins,
            opcodes: self.opcodes,
            needs: self.needs,
            rows: self.rows,
            functions: self.functions,
            products: self.products,
            scaled_products: self.scaled_products,
            warpgroup_products: self.warpgroup_products,
            tensor_products: self.tensor_products,
            tensor_copies: self.tensor_copies,
            tensor_moves: self.tensor_moves,
            bulk: self.bulk_forms,
            after_barriers,
            after_collectives,
            map_fields: self.map_fields,
            dataflow,
            rows_at_entry: assignment.at_entry,
            predicates_at_entry,
            targets,
            row_count: assignment.row_count,
            predicate_count: self.predicates as u16,
            fills,
            parameter_bytes,
            static_shared,
            shared_end,
            shared: self.shared.finish(dynamic_shared_start),
            dynamic_shared_start,
            dynamic_shared_alignment: self.globals.dynamic_shared_alignment,
            local,
            local_declared,
            local_bytes,
            max_threads: function.max_threads,
            max_registers: function.max_registers,
            min_blocks: function.min_blocks,
            required_block: function.required_block,
            required_cluster: function.required_cluster,
            files: self.module.files.iter().map(|f| (f.0, f.1.to_owned())).collect(),
        })
    }
}
