//! System calls of kernels: `vprintf`, failed assertions.

use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lanes::Operation;
use crate::memory::window;
use crate::program::Instruction;

/// The longest text that is read from memory.
const TEXT_LIMIT: usize = 1 << 16;
/// The most bytes that one launch can print; the default size of the hardware's buffer.
const OUTPUT_LIMIT: usize = 1 << 20;

impl Context<'_> {
    /// Reads bytes of a lane's generic memory; false if they don't exist.
    fn peek(&mut self, lane: usize, address: u64, to: &mut [u8]) -> bool {
        let length = to.len() as u64;
        let Ok(address) = self.own_address(lane, address) else { return false };
        match address {
            window::LOCAL..window::SHARED => {
                let size = self.program.local_bytes as usize;
                let start = (address - window::LOCAL) as usize;
                let own = &self.warp.local[lane * size..(lane + 1) * size];
                match own.get(start..start + to.len()) {
                    Some(found) => to.copy_from_slice(found),
                    None => return false,
                }
            }
            window::SHARED..window::SHARED_END => {
                let start = (address - window::SHARED) as usize;
                let block = self.block;
                match self.cluster.blocks[block].shared.bytes_mut().get(start..start + to.len()) {
                    Some(found) => to.copy_from_slice(found),
                    None => return false,
                }
            }
            _ => match self.allocation(address).filter(|a| a.size - (address - a.base) >= length) {
                Some(allocation) => allocation.read(address - allocation.base, to),
                None => return false,
            },
        }
        true
    }

    /// Reads a text that ends with a zero byte.
    fn text(&mut self, lane: usize, address: u64) -> Option<String> {
        let mut bytes = vec![];
        while bytes.len() < TEXT_LIMIT {
            let mut byte = [0];
            if !self.peek(lane, address + bytes.len() as u64, &mut byte) {
                return None;
            }
            if byte == [0] {
                return Some(String::from_utf8_lossy(&bytes).into_owned());
            }
            bytes.push(byte[0]);
        }
        None
    }
}

/// `vprintf`: row `a` has the address of the format, row `b` that of the values, which follow each other at their
/// natural alignment. Row `d` gets the number of values, or -1.
pub(crate) struct Print;

impl Operation for Print {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        for lane in lanes_of(mask) {
            let (format, values) = (context.get::<u64>(i.a, lane), context.get::<u64>(i.b, lane));
            let Some(format) = context.text(lane, format) else {
                return context.invalid(Some(lane), "the format of printf is not text in memory");
            };
            let mut at = values;
            let printed = crate::exec::host::printf::format(&format, |wanted| match wanted {
                crate::exec::host::printf::Wanted::Text(address) => {
                    context.text(lane, address).map(crate::exec::host::printf::Given::Text)
                }
                crate::exec::host::printf::Wanted::Value { bytes } => {
                    at = at.next_multiple_of(bytes as u64);
                    let mut raw = [0; 8];
                    let there = context.peek(lane, at, &mut raw[..bytes]);
                    at += bytes as u64;
                    there.then(|| crate::exec::host::printf::Given::Value(u64::from_le_bytes(raw)))
                }
            });
            let (text, count) = match printed {
                Ok(printed) => printed,
                Err(message) => return context.invalid(Some(lane), message),
            };
            context.lanes_mut::<u32>(i.d)[lane] = count;
            let mut output = context.launch.printed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if output.len() + text.len() <= OUTPUT_LIMIT {
                output.push_str(&text);
            }
        }
        Flow::Next
    }
}

/// `__assertfail`: rows `a`, `b` and `c` have the addresses of the condition, the file and the function; row `d` has
/// the line.
pub(crate) struct AssertionFailed;

impl Operation for AssertionFailed {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let lane = mask.trailing_zeros() as usize;
        let mut text = |row| {
            let address = context.get::<u64>(row, lane);
            context.text(lane, address).unwrap_or_else(|| "?".to_owned())
        };
        let (condition, file, function) = (text(i.a), text(i.b), text(i.c));
        let line = context.get::<u32>(i.d, lane);
        context.invalid(Some(lane), format!("assertion `{condition}` failed in `{function}` at {file}:{line}"))
    }
}
