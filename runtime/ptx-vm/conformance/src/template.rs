//! The text of the micro-kernels: a header, registers, and the common code that finds a thread's input and output rows.

use crate::values::Kind;
use ptx_vm::Arch;

/// The registers of every micro-kernel, numbered from 0.
const REGISTERS: &str = "\
    .reg .pred %p<16>;
    .reg .b16 %h<64>;
    .reg .b32 %r<400>;
    .reg .f32 %f<400>;
    .reg .b64 %rd<64>;
    .reg .f64 %fd<64>;
";

/// A module with one kernel, `test`. For the body there is the global address of the thread's input row in `%rd60` and
/// of its output row in `%rd61`. The addresses of the whole buffers are in `%rd58` and `%rd59`. The thread's number in
/// the grid is in `%r390`, and in the block in `%r391`. `parameters` are further parameters, each with a comma before
/// it. `outside` is placed before the kernel.
pub fn module(
    target: Arch,
    outside: &str,
    parameters: &str,
    input_row: usize,
    output_row: usize,
    body: &str,
) -> String {
    let version = match target.capability().0 {
        8 if target == Arch::Sm80 => "7.8",
        ..=9 => "8.4",
        _ => "8.8",
    };
    format!(
        ".version {version}\n.target {}\n.address_size 64\n{outside}\n\
.visible .entry test(.param .u64 input, .param .u64 output{parameters})\n{{\n{REGISTERS}
    ld.param.u64 %rd58, [input];
    ld.param.u64 %rd59, [output];
    cvta.to.global.u64 %rd58, %rd58;
    cvta.to.global.u64 %rd59, %rd59;
    mov.u32 %r391, %tid.x;
    mov.u32 %r392, %ctaid.x;
    mov.u32 %r393, %ntid.x;
    mad.lo.s32 %r390, %r392, %r393, %r391;
    mul.wide.u32 %rd60, %r390, {input_row};
    add.s64 %rd60, %rd58, %rd60;
    mul.wide.u32 %rd61, %r390, {output_row};
    add.s64 %rd61, %rd59, %rd61;
{body}    ret;\n}}\n",
        target.name()
    )
}

/// Opcodes that every micro-kernel contains, so that each case tests them too.
pub const SCAFFOLD: [&str; 9] = [
    "ld.param.u64",
    "cvta.to.global.u64",
    "mov.u32",
    "mad.lo.s32",
    "mul.wide.u32",
    "add.s64",
    "ld.global.u32",
    "st.global.u64",
    "ret",
];

impl Kind {
    /// The prefix of the register class.
    pub(crate) const fn register(self) -> &'static str {
        match self {
            Kind::Predicate => "%p",
            Kind::B8 | Kind::B16 | Kind::F16 | Kind::Bf16 | Kind::Fp8x2 => "%h",
            Kind::B32 | Kind::Amount | Kind::F16x2 | Kind::Bf16x2 => "%r",
            Kind::F32 => "%f",
            Kind::B64 => "%rd",
            Kind::F64 => "%fd",
        }
    }

    /// The type for loads of it.
    pub(crate) const fn memory_type(self) -> &'static str {
        match self {
            Kind::Predicate => "u32",
            Kind::B8 => "u8",
            Kind::B16 | Kind::F16 | Kind::Bf16 | Kind::Fp8x2 => "u16",
            Kind::B32 | Kind::Amount | Kind::F16x2 | Kind::Bf16x2 => "u32",
            Kind::F32 => "f32",
            Kind::B64 => "u64",
            Kind::F64 => "f64",
        }
    }

    /// Text that loads it from a byte offset of the input row into register `index`.
    pub(crate) fn load(self, index: usize, offset: usize) -> String {
        match self {
            Kind::Predicate => format!(
                "    ld.global.u32 %r{r}, [%rd60+{offset}];\n    setp.ne.u32 %p{index}, %r{r}, 0;\n",
                r = 380 + index
            ),
            _ => format!("    ld.global.{} {}{index}, [%rd60+{offset}];\n", self.memory_type(), self.register()),
        }
    }

    /// Text that stores register `index` of it to a byte offset of the output row, zero-extended to 8 bytes.
    pub(crate) fn store(self, index: usize, offset: usize) -> String {
        let widen = match self {
            Kind::Predicate => {
                format!("    selp.u32 %r379, 1, 0, %p{index};\n    cvt.u64.u32 %rd57, %r379;\n")
            }
            Kind::B8 | Kind::B16 | Kind::F16 | Kind::Bf16 | Kind::Fp8x2 => {
                format!("    cvt.u64.u16 %rd57, %h{index};\n")
            }
            Kind::B32 | Kind::Amount | Kind::F16x2 | Kind::Bf16x2 => format!("    cvt.u64.u32 %rd57, %r{index};\n"),
            Kind::F32 => format!("    mov.b32 %r379, %f{index};\n    cvt.u64.u32 %rd57, %r379;\n"),
            Kind::B64 => format!("    mov.b64 %rd57, %rd{index};\n"),
            Kind::F64 => format!("    mov.b64 %rd57, %fd{index};\n"),
        };
        format!("{widen}    st.global.u64 [%rd61+{offset}], %rd57;\n")
    }

    /// Text that puts zero into register `index`.
    pub(crate) fn clear(self, index: usize) -> String {
        match self {
            Kind::Predicate => format!("    setp.ne.u32 %p{index}, 0, 0;\n"),
            Kind::B8 | Kind::B16 | Kind::F16 | Kind::Bf16 | Kind::Fp8x2 => format!("    mov.u16 %h{index}, 0;\n"),
            Kind::B32 | Kind::Amount | Kind::F16x2 | Kind::Bf16x2 => format!("    mov.u32 %r{index}, 0;\n"),
            Kind::F32 => format!("    mov.f32 %f{index}, 0f00000000;\n"),
            Kind::B64 => format!("    mov.u64 %rd{index}, 0;\n"),
            Kind::F64 => format!("    mov.f64 %fd{index}, 0d0000000000000000;\n"),
        }
    }
}
