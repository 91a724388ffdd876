//! Calls of functions that the device's system provides: `vprintf`, `__assertfail` (CUDA C++ programming guide,
//! "Formatted output", "Assertion"). Every other function without a body is refused by name.

use super::bind::load_store::{Load, Store};
use super::bind::system::{AssertionFailed, Print};
use super::bind::{handler, scalar_handler};
use super::decoder::Decoder;
use super::symbols::SymbolPlace;
use crate::error::ParseError;
use crate::memory::window;
use crate::program::SpecialSource;
use crate::program::flags::{AccessFlags, LOCAL};

impl<'a> Decoder<'a> {
    /// Decodes a call of a function that is only declared.
    pub(super) fn system_call(
        &mut self,
        name: &str,
        returns: &[SymbolPlace],
        arguments: &[SymbolPlace],
    ) -> Result<(), ParseError> {
        match (name, arguments) {
            ("vprintf", &[format, values]) => {
                let rows = [self.argument(format, true)?, self.argument(values, true)?];
                let result = self.register(false);
                let mut i = self.with(scalar_handler::<Print>());
                ([i.a, i.b], i.d) = (rows, result);
                self.uses.extend(rows);
                self.defs.push(result);
                self.push(i);
                if let Some(&place) = returns.first() {
                    let mut store = self.with(handler::<Store<u32, 1, LOCAL>>());
                    (store.a, store.flags) = (self.place_address(place)?, AccessFlags::WIDE_ADDRESS.bits());
                    store.b = result;
                    self.uses.push(result);
                    self.push(store);
                }
                Ok(())
            }
            ("__assertfail", &[message, file, line, function, _]) => {
                let rows = [
                    self.argument(message, true)?,
                    self.argument(file, true)?,
                    self.argument(function, true)?,
                    self.argument(line, false)?,
                ];
                let mut i = self.with(scalar_handler::<AssertionFailed>());
                [i.a, i.b, i.c, i.d] = rows;
                self.uses.extend(rows);
                self.push_ending(i);
                Ok(())
            }
            _ => Err(self.unsupported(missing(name))),
        }
    }

    fn place_address(&mut self, place: SymbolPlace) -> Result<u32, ParseError> {
        match place {
            SymbolPlace::Local(start) => {
                Ok(self.fixed(SpecialSource::Constant(window::LOCAL + u64::from(start)), true))
            }
            _ => Err(self.name_error("a `.param` variable of the caller is expected")),
        }
    }

    /// A register with an argument's value.
    fn argument(&mut self, place: SymbolPlace, wide: bool) -> Result<u32, ParseError> {
        let run = if wide { handler::<Load<u64, 1, LOCAL>>() } else { handler::<Load<u32, 1, LOCAL>>() };
        let mut i = self.with(run);
        i.a = self.place_address(place)?;
        i.flags = AccessFlags::WIDE_ADDRESS.bits();
        i.d = self.register(wide);
        self.defs.push(i.d);
        let row = i.d;
        self.push(i);
        Ok(row)
    }
}

/// The error for a call of a function without a body.
fn missing(name: &str) -> String {
    if name.starts_with("__nv_") {
        return format!(
            "`{name}` has no body: it belongs to libdevice, the compiler's library of mathematical functions; link it into \
             the PTX (clang does so with --cuda-path and without -nocudalib, NVRTC by itself)"
        );
    }
    match name {
        "malloc" | "free" | "__nv_aligned_device_malloc" => {
            format!("`{name}` has no body: memory that a kernel allocates is not supported; pass a buffer instead")
        }
        _ if name.starts_with("cudaGraph") || name.starts_with("cudaLaunch") || name.starts_with("__cudaCDP") => {
            format!("`{name}` has no body: launches by a kernel are not supported")
        }
        _ => format!(
            "`{name}` has no body: modules are not linked with others; of the system's functions there are `vprintf` and \
             `__assertfail`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn refusals_name_the_library() {
        assert!(missing("__nv_expf").contains("libdevice"));
        assert!(missing("malloc").contains("pass a buffer"));
        assert!(missing("other").contains("`other` has no body"));
    }
}
