//! Text that printed expressions need before them: headers, functions, and types of registers.

use std::sync::Arc;

use epilogue_runtime::Site;

use crate::cuda::Register;
use crate::expr::cuda::Functions;
use crate::expr::{Function, Real};
use crate::te::dtype::{DType, Held};
use crate::te::error::{ScheduleError, TeError};
use crate::te::loops::ir::device_call::DeviceFunction;
use crate::{ElementType, device};

/// The headers and functions that printed expressions need.
#[derive(Debug)]
pub(crate) struct Library {
    pub(super) convert: bool,
    pub(super) math: bool,
    pub(super) arithmetic: bool,
    /// Whether functions in f32 may use approximate instructions, which is allowed for results of at most 11
    /// significant bits.
    pub(super) approximate: bool,
    lanes: bool,
    single: Functions,
    double: Functions,
    /// The functions that the user wrote.
    device_functions: Vec<Arc<DeviceFunction>>,
    /// The places in the code at which data can fail.
    sites: Vec<Site>,
}

impl Library {
    /// An empty library.
    pub(crate) fn new() -> Self {
        Self {
            convert: false,
            math: false,
            arithmetic: false,
            approximate: false,
            lanes: false,
            single: Functions::new(Real::F32, false),
            double: Functions::new(Real::F64, false),
            device_functions: Vec::new(),
            sites: Vec::new(),
        }
    }

    /// From here on, functions in f32 may use approximate instructions.
    pub(crate) const fn approximate(&mut self) {
        self.approximate = true;
    }

    /// The C++ type of an element in memory.
    pub(crate) fn memory_type(&mut self, dtype: DType) -> &'static str {
        match dtype {
            DType::Bool => "unsigned char",
            DType::Number(element) => match element {
                ElementType::F64 => "double",
                ElementType::F32 => "float",
                ElementType::I64 => "long long",
                ElementType::I32 => "int",
                ElementType::I16 => "short",
                ElementType::I8 => "signed char",
                ElementType::U64 => "unsigned long long",
                ElementType::U32 => "unsigned int",
                ElementType::U16 => "unsigned short",
                ElementType::U8 => "unsigned char",
                ElementType::F16 => self.converted("epilogue::f16"),
                ElementType::BF16 => self.converted("epilogue::bf16"),
                ElementType::F8E4M3 => self.converted("epilogue::f8e4m3"),
                _ => self.converted("epilogue::f8e5m2"),
            },
        }
    }

    fn converted(&mut self, name: &'static str) -> &'static str {
        self.convert = true;
        name
    }

    /// Notes that the text reads or writes several elements at a time.
    pub(crate) const fn needs_lanes(&mut self) {
        self.lanes = true;
    }

    /// Text that converts an element in memory to a value.
    pub(crate) fn load(&mut self, dtype: DType, element: String) -> String {
        if is_small_float(dtype) {
            self.convert = true;
            return format!("epilogue::widen<float>({element})");
        }
        match dtype {
            DType::Bool => format!("({element} != 0)"),
            _ if dtype.is_unsigned() && dtype.held() == Held::I64 => format!("((long long){element})"),
            DType::Number(_) => element,
        }
    }

    /// Text that converts a value to an element in memory.
    pub(crate) fn store(&mut self, dtype: DType, value: String) -> String {
        if is_small_float(dtype) {
            return format!("epilogue::narrow<{}>({value})", self.memory_type(dtype));
        }
        value
    }

    /// The name of an elementwise function, in the arithmetic of `dtype`; its definition is added to the library.
    pub(super) fn function(&mut self, function: &'static Function, dtype: DType) -> String {
        (self.math, self.convert) = (true, true);
        let functions = if real(dtype) == Real::F64 { &mut self.double } else { &mut self.single };
        let name = if self.approximate { functions.of_11_bits(function) } else { functions.accurate(function) };
        format!("epilogue::{name}")
    }

    /// The number, as text, of a place at which data can fail.
    pub(crate) fn site(&mut self, site: Site) -> String {
        let known = self.sites.iter().position(|other| *other == site);
        let number = known.unwrap_or_else(|| {
            self.sites.push(site);
            self.sites.len() - 1
        });
        format!("{number}u")
    }

    /// The places at which data can fail, by their numbers.
    pub(crate) fn sites(&self) -> Vec<Site> {
        self.sites.clone()
    }

    /// Adds a function that the user wrote.
    pub(crate) fn device_function(&mut self, function: &Arc<DeviceFunction>) -> Result<(), TeError> {
        match self.device_functions.iter().find(|known| known.name() == function.name()) {
            None => self.device_functions.push(Arc::clone(function)),
            Some(known) if known == function => {}
            Some(_) => {
                let reason = "another device function of the same name, with another definition, is called".to_owned();
                return Err(ScheduleError::Intrinsic { intrinsic: function.name().to_owned(), reason }.into());
            }
        }
        Ok(())
    }

    /// The text that goes before what was printed; empty if nothing is needed.
    pub(crate) fn text(&self) -> String {
        self.text_with(&[])
    }

    /// [`Library::text`] with additional headers.
    pub(crate) fn text_with(&self, more: &[&str]) -> String {
        let headers = [
            (self.convert, "convert.cuh"),
            (self.math, "math.cuh"),
            (self.arithmetic, "te/arithmetic.cuh"),
            (!self.sites.is_empty(), "te/status.cuh"),
            (self.lanes, "te/lanes.cuh"),
        ];
        let needed = headers.into_iter().filter(|(needed, _)| *needed).map(|(_, path)| path);
        let needed: Vec<&str> = needed.chain(more.iter().copied()).collect();
        let mut text = device::inlined(&needed);
        for functions in [&self.single, &self.double] {
            if !functions.definitions().is_empty() {
                text.push_str("namespace epilogue {\n");
                text.push_str(functions.definitions());
                text.push_str("}  // namespace epilogue\n");
            }
        }
        for function in &self.device_functions {
            text.push_str(function.text().trim_end());
            text.push('\n');
        }
        text
    }
}

/// The register that holds a value.
pub(crate) const fn register(dtype: DType) -> Register {
    match dtype.held() {
        Held::Bool => Register::Bool,
        Held::F64 => Register::F64,
        Held::I64 => Register::I64,
        Held::I32 => Register::I32,
        Held::F32 => Register::F32,
    }
}

pub(super) fn is_small_float(dtype: DType) -> bool {
    dtype.is_float() && dtype != DType::F32 && dtype != DType::from(ElementType::F64)
}

pub(super) fn real(dtype: DType) -> Real {
    if dtype == DType::from(ElementType::F64) { Real::F64 } else { Real::F32 }
}

/// Bytes of an element.
pub(crate) const fn bytes(dtype: DType) -> usize {
    dtype.in_memory().size()
}
