//! A kernel's C header: its parameter as a struct, the shape of its launch, and functions that fill and launch it.
//!
//! A program may have several: a header's guard is made of its content, and its names begin with a prefix. So one that is
//! read twice is there once, and two of one prefix are refused by the compiler.
//!
//! Everything in it is of the launch's description (`epilogue::gemm::launch`), so it is what the library launches
//! itself. It declares the functions of the CUDA driver that it needs, if there is no `cuda.h` (`driver.h`).

pub(crate) mod names;

use std::fmt::Write as _;

use epilogue::evt::ParameterClass;
use epilogue::gemm::launch::{FieldValue, LaunchDescription, MapDescription, Memory, ParameterField};
use epilogue::runtime::Swizzle;
use epilogue::{Arch, ElementType, Gemm};

use crate::data;
use crate::options::{Layout, ProductOptions};
use names::Names;

/// Declarations of the driver's functions, for programs without `cuda.h`.
const DRIVER: &str = include_str!("driver.h");

/// The exported kernel.
pub(crate) struct Exported<'a> {
    pub(crate) gemm: &'a Gemm,
    pub(crate) product: &'a ProductOptions,
    pub(crate) arch: Arch,
    pub(crate) launch: &'a LaunchDescription,
    /// The beginning of its names, if it isn't the epilogue's name.
    pub(crate) prefix: Option<&'a str>,
}

/// The header of one kernel.
pub(crate) struct Header<'a> {
    exported: &'a Exported<'a>,
    /// The prefix of the names of types and functions.
    prefix: String,
    operands: Vec<Member>,
    arguments: Vec<Member>,
    /// A name for every field of the parameter.
    fields: Vec<String>,
}

/// A member of the arguments' struct.
struct Member {
    name: String,
    /// The C type.
    ty: &'static str,
    comment: String,
    /// Whether it is an address that the kernel is given.
    memory: Option<Memory>,
}

impl<'a> Header<'a> {
    pub(crate) fn of(exported: &'a Exported<'a>) -> Self {
        let tree = exported.gemm.tree();
        let mut names = Names::default();
        let operands = operands(exported, &mut names);
        let arguments = arguments(exported, &mut names);
        let mut names = Names::default();
        let fields = exported.launch.fields.iter().map(|field| names.unique(&field.name)).collect();
        let prefix = exported.prefix.map_or_else(|| names::identifier(tree.name()), str::to_owned);
        Self { exported, prefix, operands, arguments, fields }
    }

    /// The whole header.
    pub(crate) fn text(&self) -> String {
        let Self { prefix, exported, .. } = self;
        let head = self.head();
        let (constants, members) = (self.constants(), self.members());
        let (structure, fill, launch) = (self.structure(), self.fill(), self.launch());
        let entry = &exported.launch.entry;
        let upper = prefix.to_uppercase();
        let body = format!(
            "{DRIVER}\n{constants}\n{members}\n{structure}\n\
             /* Loads the kernel from the bytes of the cubin (or of PTX, with a zero behind them) into the current context. */\n\
             static inline CUresult {prefix}_load(CUmodule *module, CUfunction *kernel, const void *image) {{\n    \
             CUresult result = cuModuleLoadData(module, image);\n    \
             if (result == CUDA_SUCCESS) result = cuModuleGetFunction(kernel, *module, \"{entry}\");\n    \
             if (result == CUDA_SUCCESS)\n        \
             result = cuFuncSetAttribute(*kernel, EPILOGUE_DYNAMIC_SHARED_BYTES, {upper}_SHARED_BYTES);\n    \
             return result;\n}}\n\n{fill}\n{launch}\n"
        );
        let guard = format!("{upper}_{:016X}_H", fingerprint(&body));
        format!("{head}#ifndef {guard}\n#define {guard}\n\n{body}#endif\n")
    }

    fn head(&self) -> String {
        let Exported { gemm, product, arch, launch, .. } = self.exported;
        let [m, n, k] = product.shape;
        let batch = product.batch.map_or_else(String::new, |batch| format!(", {batch} times"));
        let tree = gemm.tree();
        format!(
            "/* The kernel `{entry}`: a matrix product of {m}x{n}x{k}{batch} with the epilogue `{name}` ({file}), for {arch}.\n *\n \
             * Written by `epilogue emit` {version}. It is for packed tensors of exactly this shape, each at a multiple of 16\n \
             * bytes, and goes with the cubin and the PTX that were written with it.\n *\n \
             *     CUmodule module; CUfunction kernel;\n \
             *     {prefix}_load(&module, &kernel, cubin);\n \
             *     {prefix}_launch(kernel, stream, &arguments, counters, scratch);\n *\n \
             * `counters` has {upper}_COUNTER_BYTES bytes that are 0 before the first launch; every launch leaves them 0.\n \
             * `scratch` has {upper}_SCRATCH_BYTES bytes at a multiple of 256. Both may be 0 where they have no bytes. Launches\n \
             * that may run at the same time need their own.\n */\n",
            entry = launch.entry,
            name = tree.name(),
            file = tree.file().replace("*/", "* /"),
            version = env!("CARGO_PKG_VERSION"),
            prefix = self.prefix,
            upper = self.prefix.to_uppercase(),
        )
    }

    fn constants(&self) -> String {
        let Exported { product, launch, .. } = self.exported;
        let [m, n, k] = product.shape;
        let shape = launch.launch;
        let upper = self.prefix.to_uppercase();
        let mut text = String::from("/* The product, and the shape of its launch. */\n");
        for (name, value) in [
            ("M", m),
            ("N", n),
            ("K", k),
            ("BATCH", product.batch.unwrap_or(1)),
            ("BLOCKS", shape.grid[0] as usize),
            ("THREADS", shape.block[0] as usize),
            ("CLUSTER", shape.cluster[0] as usize),
            ("SHARED_BYTES", shape.shared_bytes as usize),
        ] {
            let _ = writeln!(text, "#define {upper}_{name} {value}");
        }
        for (name, bytes) in [("COUNTER_BYTES", launch.counter_bytes), ("SCRATCH_BYTES", launch.scratch_bytes)] {
            let _ = writeln!(text, "#define {upper}_{name} ((size_t){bytes}u)");
        }
        text
    }

    /// The struct that a caller fills.
    fn members(&self) -> String {
        let mut text = format!(
            "/* What a launch works on: addresses in device memory, and host scalars. */\ntypedef struct {}_arguments {{\n",
            self.prefix
        );
        for Member { name, ty, comment, .. } in self.operands.iter().chain(&self.arguments) {
            let declaration = format!("{ty} {name};");
            let _ = writeln!(text, "    {declaration:<28} /* {comment} */");
        }
        let _ = writeln!(text, "}} {}_arguments;", self.prefix);
        text
    }

    /// The kernel's parameter.
    fn structure(&self) -> String {
        let Self { prefix, exported, .. } = self;
        let launch = exported.launch;
        let mut text = format!(
            "/* The kernel's one parameter, as the kernel reads it. */\ntypedef struct {prefix}_parameter {{\n"
        );
        let mut end = 0;
        let mut gaps = 0;
        let mut gap = |text: &mut String, bytes: usize| {
            if bytes > 0 {
                let _ = writeln!(text, "    unsigned char padding{gaps}[{bytes}];");
                gaps += 1;
            }
        };
        for (field, name) in launch.fields.iter().zip(&self.fields) {
            gap(&mut text, field.offset.saturating_sub(end));
            let _ = writeln!(text, "    {} {name};", field_type(field));
            end = field.offset + field.bytes;
        }
        gap(&mut text, launch.parameter_bytes.saturating_sub(end));
        let _ = writeln!(text, "}} {prefix}_parameter;\n");
        let what = "as the kernel reads it";
        let _ = writeln!(
            text,
            "EPILOGUE_STATIC_ASSERT(sizeof({prefix}_parameter) == {}, \"{what}\");",
            launch.parameter_bytes
        );
        for (field, name) in launch.fields.iter().zip(&self.fields) {
            let _ = writeln!(
                text,
                "EPILOGUE_STATIC_ASSERT(offsetof({prefix}_parameter, {name}) == {}, \"{what}\");",
                field.offset
            );
        }
        text
    }

    fn fill(&self) -> String {
        let Self { prefix, exported, .. } = self;
        let launch = exported.launch;
        let addresses: Vec<String> = self
            .operands
            .iter()
            .chain(&self.arguments)
            .filter(|member| member.memory.is_some())
            .map(|member| format!("x->{}", member.name))
            .collect();
        let mut text = format!(
            "/* Fills the kernel's parameter. */\n\
             static inline CUresult {prefix}_fill({prefix}_parameter *p, const {prefix}_arguments *x, CUdeviceptr counters,\n    \
             CUdeviceptr scratch) {{\n    \
             /* Of fewer than 16 bytes an argument's row is not loaded as it was planned. */\n    \
             if ((({}) & 15u) != 0 || (scratch & 255u) != 0) return CUDA_ERROR_INVALID_VALUE;\n    \
             memset(p, 0, sizeof *p);\n",
            addresses.join(" | ")
        );
        for (field, name) in launch.fields.iter().zip(&self.fields) {
            match field.value {
                FieldValue::Integer(0) => {}
                FieldValue::Integer(value) if field.bytes == 4 => {
                    // The bits of an i32, whose sign a literal of C would lose.
                    let value = i64::from(u32::try_from(value).unwrap_or(u32::MAX).cast_signed());
                    let _ = writeln!(text, "    p->{name} = {};", int(value));
                }
                FieldValue::Integer(value) => {
                    let _ = writeln!(text, "    p->{name} = {value}u;");
                }
                FieldValue::Address(of, plus) => {
                    let plus = if plus == 0 { String::new() } else { format!(" + {plus}u") };
                    let _ = writeln!(text, "    p->{name} = {}{plus};", self.address(of));
                }
                FieldValue::Scalar(argument) => {
                    let _ = writeln!(text, "    p->{name} = x->{};", self.argument_name(argument));
                }
                FieldValue::Map(i) => text.push_str(&self.map(name, &launch.maps[i])),
            }
        }
        text.push_str("    (void)counters;\n    return CUDA_SUCCESS;\n}\n");
        text
    }

    fn map(&self, name: &str, map: &MapDescription) -> String {
        let MapDescription { of, element, extents, strides, box_extents, swizzle } = map;
        let list = |numbers: &[u64]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let boxes: Vec<u64> = box_extents.iter().copied().map(u64::from).collect();
        let rank = extents.len();
        format!(
            "    {{\n        const cuuint64_t extents[{rank}] = {{{}}}, strides[{}] = {{{}}};\n        \
             const cuuint32_t box[{rank}] = {{{}}}, steps[{rank}] = {{{}}};\n        \
             CUtensorMap map;\n        \
             const CUresult result = cuTensorMapEncodeTiled(&map, (CUtensorMapDataType){}, {rank}, (void *)(uintptr_t){},\n            \
             extents, strides, box, steps, (CUtensorMapInterleave)0, (CUtensorMapSwizzle){},\n            \
             (CUtensorMapL2promotion)3, (CUtensorMapFloatOOBfill)0);\n        \
             if (result != CUDA_SUCCESS) return result;\n        \
             memcpy(&p->{name}, &map, sizeof p->{name});\n    }}\n",
            list(extents),
            strides.len(),
            list(strides),
            list(&boxes),
            list(&vec![1; rank]),
            data_type(*element),
            self.address(*of),
            swizzle_number(*swizzle),
        )
    }

    fn launch(&self) -> String {
        let Self { prefix, exported, .. } = self;
        let shape = exported.launch.launch;
        let upper = prefix.to_uppercase();
        let mut attributes = String::new();
        let mut count = 0;
        if shape.cluster != [1; 3] {
            let _ = write!(
                attributes,
                "    attributes[{count}].id = EPILOGUE_CLUSTER_DIMENSION;\n    \
                 attributes[{count}].value.clusterDim.x = {upper}_CLUSTER;\n    \
                 attributes[{count}].value.clusterDim.y = 1;\n    \
                 attributes[{count}].value.clusterDim.z = 1;\n"
            );
            count += 1;
        }
        if shape.programmatic_dependent_launch {
            let _ = write!(
                attributes,
                "    attributes[{count}].id = EPILOGUE_PROGRAMMATIC_SERIALIZATION;\n    \
                 attributes[{count}].value.programmaticStreamSerializationAllowed = 1;\n"
            );
            count += 1;
        }
        format!(
            "/* Puts one launch on a stream. */\n\
             static inline CUresult {prefix}_launch(CUfunction kernel, CUstream stream, const {prefix}_arguments *x,\n    \
             CUdeviceptr counters, CUdeviceptr scratch) {{\n    \
             {prefix}_parameter parameter;\n    \
             void *parameters[1];\n    \
             CUlaunchConfig config;\n    \
             CUlaunchAttribute attributes[2];\n    \
             const CUresult result = {prefix}_fill(&parameter, x, counters, scratch);\n    \
             if (result != CUDA_SUCCESS) return result;\n    \
             parameters[0] = &parameter;\n    \
             memset(&config, 0, sizeof config);\n    \
             memset(attributes, 0, sizeof attributes);\n\
             {attributes}    \
             config.gridDimX = {upper}_BLOCKS;\n    \
             config.gridDimY = 1;\n    \
             config.gridDimZ = 1;\n    \
             config.blockDimX = {upper}_THREADS;\n    \
             config.blockDimY = 1;\n    \
             config.blockDimZ = 1;\n    \
             config.sharedMemBytes = {upper}_SHARED_BYTES;\n    \
             config.hStream = stream;\n    \
             config.attrs = attributes;\n    \
             config.numAttrs = {count};\n    \
             return cuLaunchKernelEx(&config, kernel, parameters, NULL);\n}}\n"
        )
    }

    /// Whose address it is, as an expression in C.
    fn address(&self, of: Memory) -> String {
        match of {
            Memory::Counters => "counters".to_owned(),
            Memory::Scratch => "scratch".to_owned(),
            of => self
                .operands
                .iter()
                .chain(&self.arguments)
                .find(|member| member.memory == Some(of))
                .map_or_else(|| "0".to_owned(), |member| format!("x->{}", member.name)),
        }
    }

    fn argument_name(&self, argument: usize) -> &str {
        self.arguments.get(argument).map_or("", |member| &member.name)
    }
}

fn operands(exported: &Exported<'_>, names: &mut Names) -> Vec<Member> {
    let Exported { gemm, product, .. } = exported;
    let [m, n, k] = product.shape;
    let accumulators = gemm.tree().accumulators();
    let comment = |name: &str, element: ElementType, rows: usize, columns: usize, layout: Layout| {
        let order = match layout {
            Layout::Row => "rows",
            Layout::Column => "columns",
        };
        let shape = product.batch.into_iter().chain([rows, columns]).collect::<Vec<_>>();
        format!("{name}: {shape:?} of {element}, {order} are contiguous")
    };
    let (a, b) = product.operands.types;
    let mut members = vec![Member {
        name: names.unique("A"),
        ty: "CUdeviceptr",
        comment: comment("A", a, m, k, product.a),
        memory: Some(Memory::A),
    }];
    for (i, accumulator) in accumulators.iter().enumerate() {
        let name = if accumulators.len() == 1 { "B".to_owned() } else { format!("B_{accumulator}") };
        members.push(Member {
            name: names.unique(&name),
            ty: "CUdeviceptr",
            comment: comment("B", b, k, n, product.b),
            memory: Some(Memory::B(i)),
        });
    }
    members
}

fn arguments(exported: &Exported<'_>, names: &mut Names) -> Vec<Member> {
    let tree = exported.gemm.tree();
    let mut members = Vec::new();
    for (i, parameter) in tree.parameters().iter().enumerate() {
        let (class, element) = (parameter.class, parameter.element);
        let scalar = class == ParameterClass::Scalar;
        let unread = if parameter.value.is_none() { "; nothing reads it" } else { "" };
        let use_ = if class == ParameterClass::TensorMut { "read and written" } else { "read" };
        members.push(Member {
            name: names.unique(parameter.name),
            ty: match (scalar, element) {
                (true, ElementType::F64) => "double",
                (true, _) => "float",
                (false, _) => "CUdeviceptr",
            },
            comment: if scalar {
                format!("Scalar{unread}")
            } else {
                match class {
                    ParameterClass::Bits => {
                        let shape = data::bits(exported.product);
                        format!("Bits: u8 {shape:?}, eight columns in a byte, {use_}{unread}")
                    }
                    ParameterClass::Seed => format!("Seed: i64 [2], a seed and an offset, read{unread}"),
                    _ => {
                        let shape = data::shape(class.broadcast_class(), exported.product);
                        format!("{}<{element}> {shape:?}, {use_}{unread}", class.name())
                    }
                }
            },
            memory: (!scalar).then_some(Memory::Argument(i)),
        });
    }
    for (i, output) in tree.outputs().iter().enumerate().filter(|(_, output)| output.parameter.is_none()) {
        let shape = data::output_shape(exported.gemm, output, exported.product).unwrap_or_default();
        let class = match output.is_partial() {
            true => "per-tile partials".to_owned(),
            false if output.packed => "Bits, eight columns in a byte: u8".to_owned(),
            false => format!("{}<{}>", output.class.name(), output.element),
        };
        members.push(Member {
            name: names.unique(output.name),
            ty: "CUdeviceptr",
            comment: format!("{class} {shape:?}, written"),
            memory: Some(Memory::Argument(tree.output_argument(i))),
        });
    }
    members
}

fn field_type(field: &ParameterField) -> &'static str {
    match (field.value, field.bytes) {
        (FieldValue::Map(_), _) => "epilogue_tensor_map",
        (FieldValue::Scalar(_), 4) => "float",
        (FieldValue::Scalar(_), _) => "double",
        (_, 4) => "int32_t",
        _ => "uint64_t",
    }
}

/// A number of a text: FNV-1a of 64 bits.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// An `i32` as C writes it.
fn int(value: i64) -> String {
    // The literal 2147483648 has another type, and so its negation.
    if value == i64::from(i32::MIN) { "-2147483647 - 1".to_owned() } else { value.to_string() }
}

/// `CUtensorMapDataType`. Tensor copies move bits: FP8 goes as bytes.
const fn data_type(element: ElementType) -> u32 {
    match element {
        ElementType::F64 => 8,
        ElementType::F32 => 7,
        ElementType::BF16 => 9,
        ElementType::F16 => 6,
        ElementType::I64 => 5,
        ElementType::I32 => 3,
        // The 8-bit ones.
        _ => 0,
    }
}

/// `CUtensorMapSwizzle`.
const fn swizzle_number(swizzle: Swizzle) -> u32 {
    match swizzle {
        Swizzle::None => 0,
        Swizzle::Bytes32 => 1,
        Swizzle::Bytes64 => 2,
        Swizzle::Bytes128 => 3,
    }
}
