//! Bytes that GNU's assembler makes of the instructions, with the prefix VEX of three bytes or EVEX, and distances of four.

use super::X86;
use super::assembler::{Assembler, Constant, General, Opcode, SAVED, STREAMS, Width, opcode};
use super::instruction::{self, Encoding};
use crate::jit::body::{Binary, Unary};
use crate::jit::isa::{Address, Counter, Isa as _, JitOperand, MemoryOperand, Vector};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn made(write: impl FnOnce(&mut Assembler)) -> String {
    let mut assembler = Assembler::default();
    write(&mut assembler);
    hex(&assembler.finish(&[])).trim_end_matches("cc").to_owned()
}

/// The code of vectors of 256 bits without its end.
fn made_by(write: impl FnOnce(&mut X86)) -> String {
    let mut code = X86::new(Width::Bits256);
    write(&mut code);
    hex(&code.finish()).trim_end_matches("cc").to_owned()
}

fn vector(number: u8) -> JitOperand {
    JitOperand::Vector(Vector(number))
}

const LANE: Counter = Counter::Lane;
const CYCLE: Counter = Counter::Cycle;

/// Lanes at a number of bytes from an address and a counter.
fn indexed(width: Width, base: u8, counter: Counter, bytes: usize, offset: usize) -> JitOperand {
    let vectors = offset / (width.lanes() * bytes);
    JitOperand::Memory(MemoryOperand::Lanes { base: address(base), counter, bytes, vectors })
}

/// The number of a general register among those for addresses.
fn address(base: u8) -> Address {
    Address(STREAMS.iter().position(|stream| *stream == General(base)).expect("it is one") as u8)
}

fn stack(width: Width, offset: usize) -> JitOperand {
    JitOperand::Memory(MemoryOperand::Slot(offset / width.bytes()))
}

#[test]
fn operands_are_encoded_wherever_they_are() {
    type Case = (Opcode, u8, Option<u8>, JitOperand, Option<u8>, &'static str, &'static str);
    let base = JitOperand::Memory(MemoryOperand::After(address(1), 0));
    let at = |base, counter, bytes, offset| indexed(Width::Bits256, base, counter, bytes, offset);
    let slot = |offset| stack(Width::Bits256, offset);
    let cases: [Case; 24] = [
        (opcode::MOVE, 1, None, vector(9), None, "vmovaps ymm1, ymm9", "c4c17c28c9"),
        (opcode::LOAD, 0, None, at(1, LANE, 4, 0), None, "vmovups ymm0, [rcx + rax*4]", "c4e17c100481"),
        (opcode::LOAD, 15, None, at(13, LANE, 4, 0), None, "vmovups ymm15, [r13 + rax*4]", "c4417c10bc8500000000"),
        (opcode::LOAD, 8, None, at(12, CYCLE, 4, 96), None, "vmovups ymm8, [r12 + rdx*4 + 96]", "c4417c10849460000000"),
        (
            opcode::STORE,
            14,
            None,
            at(15, LANE, 4, 32),
            None,
            "vmovups [r15 + rax*4 + 32], ymm14",
            "c4417c11b48720000000",
        ),
        (opcode::STORE, 3, None, slot(3552), None, "vmovups [rsp + 3552], ymm3", "c4e17c119c24e00d0000"),
        (opcode::STORE.half(), 5, None, at(7, LANE, 2, 0), None, "vmovups [rdi + rax*2], xmm5", "c4e178112c47"),
        (opcode::STORE_PAST, 11, None, at(3, LANE, 4, 0), None, "vmovntps [rbx + rax*4], ymm11", "c4617c2b1c83"),
        (opcode::STORE_PAST.half(), 11, None, at(3, LANE, 2, 0), None, "vmovntps [rbx + rax*2], xmm11", "c461782b1c43"),
        (opcode::STORE_8, 11, None, at(3, LANE, 1, 0), None, "vmovq [rbx + rax], xmm11", "c46179d61c03"),
        (opcode::BROADCAST, 0, None, base, None, "vbroadcastss ymm0, [rcx]", "c4e27d188100000000"),
        (opcode::BROADCAST_I32, 12, None, vector(12), None, "vpbroadcastd ymm12, xmm12", "c4427d58e4"),
        (opcode::FROM_GENERAL, 12, None, vector(0), None, "vmovd xmm12, eax", "c461796ee0"),
        (opcode::WIDEN_F16, 9, None, at(8, LANE, 2, 0), None, "vcvtph2ps ymm9, [r8 + rax*2]", "c4427d130c40"),
        (
            opcode::WIDEN_U16,
            9,
            None,
            at(9, LANE, 2, 16),
            None,
            "vpmovzxwd ymm9, [r9 + rax*2 + 16]",
            "c4427d338c4110000000",
        ),
        (opcode::WIDEN_I8, 9, None, at(10, LANE, 1, 0), None, "vpmovsxbd ymm9, [r10 + rax]", "c4427d210c02"),
        (
            opcode::WIDEN_U8,
            9,
            None,
            at(11, LANE, 1, 8),
            None,
            "vpmovzxbd ymm9, [r11 + rax + 8]",
            "c4427d318c0308000000",
        ),
        (opcode::SHIFT, 6, Some(1), vector(10), Some(16), "vpslld ymm1, ymm10, 16", "c4c17572f210"),
        (opcode::PACK_U8, 1, Some(1), vector(1), None, "vpackuswb ymm1, ymm1, ymm1", "c4e17567c9"),
        (opcode::PERMUTE_I64, 1, None, vector(1), Some(8), "vpermq ymm1, ymm1, 8", "c4e3fd00c908"),
        (opcode::EXTRACT_HALF, 13, None, vector(2), Some(1), "vextractf128 xmm2, ymm13, 1", "c4637d19ea01"),
        (opcode::SELECT, 1, Some(2), vector(3), Some(12 << 4), "vblendvps ymm1, ymm2, ymm3, ymm12", "c4e36d4acbc0"),
        (
            opcode::SELECT,
            1,
            Some(2),
            slot(64),
            Some(4 << 4),
            "vblendvps ymm1, ymm2, [rsp + 64], ymm4",
            "c4e36d4a8c244000000040",
        ),
        (opcode::FMA, 8, Some(9), slot(32), None, "vfmadd213ps ymm8, ymm9, [rsp + 32]", "c46235a8842420000000"),
    ];
    for (opcode, to, first, last, byte, text, want) in cases {
        assert_eq!(made(|code| code.vector(opcode, Vector(to), first.map(Vector), last, byte)), want, "{text}");
    }
}

#[test]
fn operations_are_the_instructions_that_do_them() {
    let unary = [
        (Unary::Sqrt, "vsqrtps ymm1, ymm11", "c4c17c51cb"),
        (Unary::Round(1), "vroundps ymm1, ymm11, 9", "c4c37d08cb09"),
        (Unary::Float, "vcvtdq2ps ymm1, ymm11", "c4c17c5bcb"),
        (Unary::Truncate, "vcvttps2dq ymm1, ymm11", "c4c17e5bcb"),
        (Unary::ShiftLeft(23), "vpslld ymm1, ymm11, 23", "c4c17572f317"),
        (Unary::ShiftRight(16), "vpsrld ymm1, ymm11, 16", "c4c17572d310"),
        (Unary::ShiftSigned(1), "vpsrad ymm1, ymm11, 1", "c4c17572e301"),
        (Unary::ToF16, "vcvtps2ph xmm11, ymm1, 0", "c4c37d1dcb00"),
        (Unary::FromF16, "vcvtph2ps ymm1, xmm11", "c4c27d13cb"),
        (Unary::WidenLow, "vcvtps2pd ymm1, xmm11", "c4c17c5acb"),
        (Unary::Narrow, "vcvtpd2ps xmm1, ymm11", "c4c17d5acb"),
        (Unary::SqrtF64, "vsqrtpd ymm1, ymm11", "c4c17d51cb"),
    ];
    for (op, text, want) in unary {
        let (opcode, form) = instruction::unary(op, Width::Bits256);
        let (to, first, byte) = match form {
            Encoding::Plain(byte) => (Vector(1), None, byte),
            Encoding::Part(part, byte) => (Vector(part), Some(Vector(1)), Some(byte)),
            Encoding::Reversed(byte) => (Vector(1), None, byte),
            Encoding::HighHalf | Encoding::Packed { .. } => panic!("{op:?} is several instructions"),
        };
        assert_eq!(made(|code| code.vector(opcode, to, first, vector(11), byte)), want, "{text}");
    }
    let binary = [
        (Binary::Add, "vaddps ymm9, ymm2, ymm11", "c4416c58cb"),
        (Binary::Sub, "vsubps ymm9, ymm2, ymm11", "c4416c5ccb"),
        (Binary::Mul, "vmulps ymm9, ymm2, ymm11", "c4416c59cb"),
        (Binary::Div, "vdivps ymm9, ymm2, ymm11", "c4416c5ecb"),
        (Binary::FirstLess, "vminps ymm9, ymm2, ymm11", "c4416c5dcb"),
        (Binary::FirstGreater, "vmaxps ymm9, ymm2, ymm11", "c4416c5fcb"),
        (Binary::And, "vandps ymm9, ymm2, ymm11", "c4416c54cb"),
        (Binary::Without, "vandnps ymm9, ymm2, ymm11", "c4416c55cb"),
        (Binary::Or, "vorps ymm9, ymm2, ymm11", "c4416c56cb"),
        (Binary::Xor, "vxorps ymm9, ymm2, ymm11", "c4416c57cb"),
        (Binary::Less, "vcmpps ymm9, ymm2, ymm11, 17", "c4416cc2cb11"),
        (Binary::LessEqual, "vcmpps ymm9, ymm2, ymm11, 18", "c4416cc2cb12"),
        (Binary::Equal, "vcmpps ymm9, ymm2, ymm11, 0", "c4416cc2cb00"),
        (Binary::NotEqual, "vcmpps ymm9, ymm2, ymm11, 4", "c4416cc2cb04"),
        (Binary::Unordered, "vcmpps ymm9, ymm2, ymm11, 3", "c4416cc2cb03"),
        (Binary::AddI32, "vpaddd ymm9, ymm2, ymm11", "c4416dfecb"),
        (Binary::SubI32, "vpsubd ymm9, ymm2, ymm11", "c4416dfacb"),
        (Binary::MulI32, "vpmulld ymm9, ymm2, ymm11", "c4426d40cb"),
        (Binary::LeastI32, "vpminsd ymm9, ymm2, ymm11", "c4426d39cb"),
        (Binary::GreatestI32, "vpmaxsd ymm9, ymm2, ymm11", "c4426d3dcb"),
        (Binary::EqualI32, "vpcmpeqd ymm9, ymm2, ymm11", "c4416d76cb"),
        (Binary::GreaterI32, "vpcmpgtd ymm9, ymm2, ymm11", "c4416d66cb"),
        (Binary::AddF64, "vaddpd ymm9, ymm2, ymm11", "c4416d58cb"),
        (Binary::MulF64, "vmulpd ymm9, ymm2, ymm11", "c4416d59cb"),
        (Binary::DivF64, "vdivpd ymm9, ymm2, ymm11", "c4416d5ecb"),
        (Binary::Join, "vinsertf128 ymm9, ymm2, xmm11, 1", "c4436d18cb01"),
    ];
    for (op, text, want) in binary {
        let (opcode, byte) = instruction::binary(op, Width::Bits256);
        assert_eq!(made(|code| code.vector(opcode, Vector(9), Some(Vector(2)), vector(11), byte)), want, "{text}");
    }
}

#[test]
fn wide_vectors_have_the_prefix_evex() {
    type Case = (Opcode, u8, Option<u8>, JitOperand, Option<u8>, &'static str, &'static str);
    let base = JitOperand::Memory(MemoryOperand::After(address(1), 0));
    let at = |base, counter, bytes, offset| indexed(Width::Bits512, base, counter, bytes, offset);
    let slot = |offset| stack(Width::Bits512, offset);
    let lanes = |base, scale, offset| at(base, LANE, scale, offset);
    let cases: [Case; 22] = [
        (opcode::MOVE, 1, None, vector(25), None, "vmovaps zmm1, zmm25", "62917c4828c9"),
        (opcode::LOAD, 0, None, lanes(1, 4, 0), None, "vmovups zmm0, [rcx + rax*4]", "62f17c48100481"),
        (opcode::LOAD, 31, None, lanes(13, 4, 0), None, "vmovups zmm31, [r13 + rax*4]", "62417c4810bc8500000000"),
        (
            opcode::LOAD,
            8,
            None,
            at(12, CYCLE, 4, 192),
            None,
            "vmovups zmm8, [r12 + rdx*4 + 192]",
            "62517c48108494c0000000",
        ),
        (
            opcode::STORE,
            30,
            None,
            lanes(15, 4, 64),
            None,
            "vmovups [r15 + rax*4 + 64], zmm30",
            "62417c4811b48740000000",
        ),
        (opcode::STORE, 3, None, slot(3520), None, "vmovups [rsp + 3520], zmm3", "62f17c48119c24c00d0000"),
        (opcode::STORE_PAST.half(), 27, None, lanes(3, 2, 0), None, "vmovntps [rbx + rax*2], ymm27", "62617c282b1c43"),
        (opcode::STORE.half(), 21, None, lanes(7, 2, 0), None, "vmovups [rdi + rax*2], ymm21", "62e17c28112c47"),
        (opcode::STORE.least(), 11, None, lanes(3, 1, 0), None, "vmovups [rbx + rax], xmm11", "62717c08111c03"),
        (opcode::BROADCAST, 16, None, base, None, "vbroadcastss zmm16, [rcx]", "62e27d48188100000000"),
        (opcode::BROADCAST_I32, 12, None, vector(28), None, "vpbroadcastd zmm12, xmm28", "62127d4858e4"),
        (opcode::FROM_GENERAL, 12, None, vector(0), None, "vmovd xmm12, eax", "62717d086ee0"),
        (opcode::WIDEN_F16, 25, None, lanes(8, 2, 0), None, "vcvtph2ps zmm25, [r8 + rax*2]", "62427d48130c40"),
        (
            opcode::WIDEN_U16,
            9,
            None,
            lanes(9, 2, 32),
            None,
            "vpmovzxwd zmm9, [r9 + rax*2 + 32]",
            "62527d48338c4120000000",
        ),
        (opcode::WIDEN_I8, 9, None, lanes(10, 1, 0), None, "vpmovsxbd zmm9, [r10 + rax]", "62527d48210c02"),
        (
            opcode::WIDEN_U8,
            9,
            None,
            lanes(11, 1, 16),
            None,
            "vpmovzxbd zmm9, [r11 + rax + 16]",
            "62527d48318c0310000000",
        ),
        (opcode::SHIFT, 6, Some(17), vector(10), Some(16), "vpslld zmm17, zmm10, 16", "62d1754072f210"),
        (opcode::EXTRACT_256, 29, None, vector(2), Some(1), "vextractf64x4 ymm2, zmm29, 1", "6263fd481bea01"),
        (opcode::TERNARY, 1, Some(18), vector(27), Some(202), "vpternlogd zmm1, zmm18, zmm27, 202", "62936d4025cbca"),
        (
            opcode::TERNARY,
            1,
            Some(2),
            slot(64),
            Some(202),
            "vpternlogd zmm1, zmm2, [rsp + 64], 202",
            "62f36d48258c2440000000ca",
        ),
        (opcode::FMA, 24, Some(9), slot(64), None, "vfmadd213ps zmm24, zmm9, [rsp + 64]", "62623548a8842440000000"),
        (opcode::FROM_MASK, 20, None, vector(1), None, "vpmovm2d zmm20, k1", "62e27e4838e1"),
    ];
    let wide = |opcode, to: u8, first: Option<u8>, last, byte| {
        let mut assembler = Assembler::new(Width::Bits512);
        assembler.vector(opcode, Vector(to), first.map(Vector), last, byte);
        hex(&assembler.finish(&[])).trim_end_matches("cc").to_owned()
    };
    for (opcode, to, first, last, byte, text, want) in cases {
        assert_eq!(wide(opcode, to, first, last, byte), want, "{text}");
    }
    let unary = [
        (Unary::Sqrt, "vsqrtps zmm17, zmm11", "62c17c4851cb"),
        (Unary::Round(1), "vrndscaleps zmm17, zmm11, 9", "62c37d4808cb09"),
        (Unary::Float, "vcvtdq2ps zmm17, zmm11", "62c17c485bcb"),
        (Unary::Truncate, "vcvttps2dq zmm17, zmm11", "62c17e485bcb"),
        (Unary::ShiftSigned(1), "vpsrad zmm17, zmm11, 1", "62d1754072e301"),
        (Unary::ToF16, "vcvtps2ph ymm11, zmm17, 0", "62c37d481dcb00"),
        (Unary::FromF16, "vcvtph2ps zmm17, ymm11", "62c27d4813cb"),
        (Unary::Pack16, "vpmovdw ymm11, zmm17", "62c27e4833cb"),
        (Unary::Pack8, "vpmovdb xmm11, zmm17", "62c27e4831cb"),
        (Unary::WidenLow, "vcvtps2pd zmm17, ymm11", "62c17c485acb"),
        (Unary::Narrow, "vcvtpd2ps ymm17, zmm11", "62c1fd485acb"),
        (Unary::SqrtF64, "vsqrtpd zmm17, zmm11", "62c1fd4851cb"),
    ];
    for (op, text, want) in unary {
        let (opcode, form) = instruction::unary(op, Width::Bits512);
        let (to, first, byte) = match form {
            Encoding::Plain(byte) => (17, None, byte),
            Encoding::Part(part, byte) => (part, Some(17), Some(byte)),
            Encoding::Reversed(byte) => (17, None, byte),
            Encoding::HighHalf | Encoding::Packed { .. } => panic!("{op:?} is several instructions"),
        };
        assert_eq!(wide(opcode, to, first, vector(11), byte), want, "{text}");
    }
    let binary = [
        (Binary::Add, 25, "vaddps zmm25, zmm2, zmm11", "62416c4858cb"),
        (Binary::FirstLess, 25, "vminps zmm25, zmm2, zmm11", "62416c485dcb"),
        (Binary::Without, 25, "vandnps zmm25, zmm2, zmm11", "62416c4855cb"),
        (Binary::MulI32, 25, "vpmulld zmm25, zmm2, zmm11", "62426d4840cb"),
        (Binary::GreatestI32, 25, "vpmaxsd zmm25, zmm2, zmm11", "62426d483dcb"),
        (Binary::AddF64, 25, "vaddpd zmm25, zmm2, zmm11", "6241ed4858cb"),
        (Binary::DivF64, 25, "vdivpd zmm25, zmm2, zmm11", "6241ed485ecb"),
        (Binary::Scale, 25, "vscalefps zmm25, zmm2, zmm11", "62426d482ccb"),
        (Binary::Join, 25, "vinsertf64x4 zmm25, zmm2, ymm11, 1", "6243ed481acb01"),
        (Binary::Less, 1, "vcmpps k1, zmm2, zmm11, 17", "62d16c48c2cb11"),
        (Binary::GreaterI32, 1, "vpcmpgtd k1, zmm2, zmm11", "62d16d4866cb"),
    ];
    for (op, to, text, want) in binary {
        let (opcode, byte) = instruction::binary(op, Width::Bits512);
        assert_eq!(wide(opcode, to, Some(2), vector(11), byte), want, "{text}");
    }
}

#[test]
fn a_function_s_frame_and_loop_are_encoded() {
    let saved = [SAVED[0], SAVED[4]];
    // push rbp; mov rbp, rsp; sub rsp, 104; and rsp, -32; mov [rbp - 8], rbx; mov [rbp - 16], r15
    assert_eq!(made(|code| code.enter(64, &saved)), "554889e54881ec680000004883e4e048895df84c897df0");
    // mov rbx, [rbp - 8]; mov r15, [rbp - 16]; vzeroupper; mov rsp, rbp; pop rbp; ret
    assert_eq!(made(|code| code.leave(&saved)), "488b5df84c8b7df0c5f8774889ec5dc3");
    // mov rcx, [rdi + 16]; mov r15, [rdi]
    assert_eq!(made(|code| code.load_argument(General(1), 2)), "488b8f10000000");
    assert_eq!(made(|code| code.load_argument(General(15), 0)), "4c8bbf00000000");
    // mov rdx, rax; and edx, 63
    assert_eq!(made_by(|code| code.cycle(64)), "4889c281e23f000000");
    // mov dword ptr [rsp + 36], 1
    assert_eq!(made(|code| code.store_immediate(36, 1)), "c784242400000001000000");
    // lea rdx, [rax + 32]; cmp rdx, rsi; ja (to the end); xor eax, eax; add rax, 32; lea rdx, [rax + 32]; cmp rdx, rsi;
    // jbe (to the xor)
    let whole = made_by(|code| {
        let start = code.begin_loop(32);
        code.first_lane();
        code.end_loop(start);
    });
    assert_eq!(whole, "488d50204839f20f871300000031c04883c020488d50204839f20f86edffffff");
}

#[test]
fn constants_lie_behind_the_code() {
    let mut assembler = Assembler::default();
    let bits: Constant = 0x3f80_0000_3f80_0000;
    assembler.vector(opcode::LOAD, Vector(0), None, JitOperand::Memory(MemoryOperand::Constant(0)), None);
    let code = assembler.finish(&[bits]);
    // vmovups ymm0, [rip + 23]: the instruction has 9 bytes, the constant begins after 32.
    assert_eq!(hex(&code[..9]), "c4e17c100517000000");
    assert_eq!(code[32..], [bits.to_le_bytes(); 4].concat());
}

#[test]
fn what_only_row_programs_use_is_encoded() {
    type Case = (Width, Option<bool>, Opcode, u8, Option<u8>, JitOperand, Option<u8>, &'static str, &'static str);
    let (narrow, wide) = (Width::Bits256, Width::Bits512);
    let base = JitOperand::Memory(MemoryOperand::After(address(1), 0));
    let lanes = |width: Width, bytes| indexed(width, 1, LANE, bytes, width.lanes() * bytes);
    let greatest = instruction::binary(Binary::GreatestU32, wide).0;
    let add = instruction::binary(Binary::Add, wide).0;
    let cases: [Case; 20] = [
        (narrow, None, opcode::PERMUTE, 9, None, vector(11), Some(0xb1), "vpermilps ymm9, ymm11, 0xb1", "c4437d04cbb1"),
        (
            narrow,
            None,
            opcode::PERMUTE_128,
            9,
            Some(2),
            vector(11),
            Some(1),
            "vperm2f128 ymm9, ymm2, ymm11, 1",
            "c4436d06cb01",
        ),
        (
            narrow,
            None,
            opcode::LOAD_WHERE,
            9,
            Some(2),
            lanes(narrow, 4),
            None,
            "vmaskmovps ymm9, ymm2, […]",
            "c4626d2c8c8120000000",
        ),
        (
            narrow,
            None,
            opcode::STORE_WHERE,
            9,
            Some(2),
            lanes(narrow, 4),
            None,
            "vmaskmovps […], ymm2, ymm9",
            "c4626d2e8c8120000000",
        ),
        (narrow, None, opcode::STORE_FIRST, 9, None, base, None, "vmovss […], xmm9", "c4617a118900000000"),
        (narrow, None, opcode::STORE_FIRST_16, 9, None, base, Some(0), "vpextrw […], xmm9, 0", "c4637915890000000000"),
        (narrow, None, opcode::STORE_FIRST_8, 9, None, base, Some(0), "vpextrb […], xmm9, 0", "c4637914890000000000"),
        (narrow, None, greatest, 9, Some(2), vector(11), None, "vpmaxud ymm9, ymm2, ymm11", "c4426d3fcb"),
        (
            wide,
            None,
            opcode::PERMUTE,
            25,
            None,
            vector(11),
            Some(0xb1),
            "vpermilps zmm25, zmm11, 0xb1",
            "62437d4804cbb1",
        ),
        (
            wide,
            None,
            opcode::SHUFFLE_128,
            25,
            Some(2),
            vector(11),
            Some(0x4e),
            "vshuff32x4 zmm25, zmm2, zmm11, 0x4e",
            "62436d4823cb4e",
        ),
        (wide, None, opcode::STORE_FIRST, 25, None, base, None, "vmovss […], xmm25", "62617e08118900000000"),
        (
            wide,
            None,
            opcode::STORE_FIRST_16,
            25,
            None,
            base,
            Some(0),
            "vpextrw […], xmm25, 0",
            "62637d0815890000000000",
        ),
        (wide, None, opcode::STORE_FIRST_8, 25, None, base, Some(0), "vpextrb […], xmm25, 0", "62637d0814890000000000"),
        (
            wide,
            Some(true),
            opcode::LOAD,
            25,
            None,
            lanes(wide, 4),
            None,
            "vmovups zmm25{k2}{z}, […]",
            "62617cca108c8140000000",
        ),
        (
            wide,
            Some(false),
            opcode::STORE,
            25,
            None,
            lanes(wide, 4),
            None,
            "vmovups […]{k2}, zmm25",
            "62617c4a118c8140000000",
        ),
        (
            wide,
            Some(false),
            opcode::STORE_I16,
            25,
            None,
            lanes(wide, 2),
            None,
            "vmovdqu16 […]{k2}, ymm25",
            "6261ff2a7f8c4120000000",
        ),
        (
            wide,
            Some(false),
            opcode::STORE_I8,
            25,
            None,
            lanes(wide, 1),
            None,
            "vmovdqu8 […]{k2}, xmm25",
            "62617f0a7f8c0110000000",
        ),
        (wide, Some(false), add, 25, Some(2), vector(25), None, "vaddps zmm25{k2}, zmm2, zmm25", "62016c4a58c9"),
        (wide, None, greatest, 25, Some(2), vector(11), None, "vpmaxud zmm25, zmm2, zmm11", "62426d483fcb"),
        (
            wide,
            Some(true),
            opcode::WIDEN_U16,
            25,
            None,
            lanes(wide, 2),
            None,
            "vpmovzxwd zmm25{k2}{z}, […]",
            "62627dca338c4120000000",
        ),
    ];
    for (width, masked, opcode, to, first, last, byte, text, want) in cases {
        let mut assembler = Assembler::new(width);
        if let Some(zero) = masked {
            assembler.where_masked(zero);
        }
        assembler.vector(opcode, Vector(to), first.map(Vector), last, byte);
        assert_eq!(hex(&assembler.finish(&[])).trim_end_matches("cc"), want, "{text}");
    }
    // mov eax, 0x7f; kmovw k2, eax
    assert_eq!(made(|code| code.set_mask(0x7f)), "b87f000000c5f892d0");
    // add rax, 0x100; cmp rax, 0x400; jb to the beginning
    assert_eq!(made_by(|code| code.repeat(0, 0x100, 0x400)), "480500010000483d000400000f82eeffffff");
    // mov rcx, [rsi + 24]; add [rdi + 24], rcx
    assert_eq!(made_by(|code| code.next_address(3)), "488b8e1800000048018f18000000");
    // mov r9, [rdi + 24]; add r9, [rsi + 24]
    assert_eq!(made_by(|code| code.load_next(Address(2), 3)), "4c8b8f180000004c038e18000000");
    // prefetcht0 [r9 + rax*4 + 64]; prefetcht0 [rbx + rax*2 + 64]
    assert_eq!(made_by(|code| code.prefetch(Address(2), 4, 64)), "410f188c8140000000");
    assert_eq!(made_by(|code| code.prefetch(Address(6), 2, 64)), "0f188c4340000000");
    // sub rdx, 1; jnz to the beginning
    assert_eq!(made_by(|code| code.next_row(0)), "4883ea010f85f6ffffff");
}

#[test]
fn operations_on_64_bits_are_encoded() {
    let (narrow, wide) = (Width::Bits256, Width::Bits512);
    let binary = [
        (narrow, Binary::SubF64, 9, "vsubpd ymm9, ymm2, ymm11", "c4416d5ccb"),
        (narrow, Binary::FirstLessF64, 9, "vminpd ymm9, ymm2, ymm11", "c4416d5dcb"),
        (narrow, Binary::FirstGreaterF64, 9, "vmaxpd ymm9, ymm2, ymm11", "c4416d5fcb"),
        (narrow, Binary::LessF64, 9, "vcmppd ymm9, ymm2, ymm11, 17", "c4416dc2cb11"),
        (narrow, Binary::LessEqualF64, 9, "vcmppd ymm9, ymm2, ymm11, 18", "c4416dc2cb12"),
        (narrow, Binary::EqualF64, 9, "vcmppd ymm9, ymm2, ymm11, 0", "c4416dc2cb00"),
        (narrow, Binary::NotEqualF64, 9, "vcmppd ymm9, ymm2, ymm11, 4", "c4416dc2cb04"),
        (narrow, Binary::UnorderedF64, 9, "vcmppd ymm9, ymm2, ymm11, 3", "c4416dc2cb03"),
        (narrow, Binary::AddI64, 9, "vpaddq ymm9, ymm2, ymm11", "c4416dd4cb"),
        (narrow, Binary::SubI64, 9, "vpsubq ymm9, ymm2, ymm11", "c4416dfbcb"),
        (narrow, Binary::MulU32, 9, "vpmuludq ymm9, ymm2, ymm11", "c4416df4cb"),
        (narrow, Binary::EqualI64, 9, "vpcmpeqq ymm9, ymm2, ymm11", "c4426d29cb"),
        (narrow, Binary::GreaterI64, 9, "vpcmpgtq ymm9, ymm2, ymm11", "c4426d37cb"),
        (wide, Binary::SubF64, 25, "vsubpd zmm25, zmm2, zmm11", "6241ed485ccb"),
        (wide, Binary::FirstLessF64, 25, "vminpd zmm25, zmm2, zmm11", "6241ed485dcb"),
        (wide, Binary::FirstGreaterF64, 25, "vmaxpd zmm25, zmm2, zmm11", "6241ed485fcb"),
        (wide, Binary::LessF64, 1, "vcmppd k1, zmm2, zmm11, 17", "62d1ed48c2cb11"),
        (wide, Binary::AddI64, 25, "vpaddq zmm25, zmm2, zmm11", "6241ed48d4cb"),
        (wide, Binary::SubI64, 25, "vpsubq zmm25, zmm2, zmm11", "6241ed48fbcb"),
        (wide, Binary::MulI64, 25, "vpmullq zmm25, zmm2, zmm11", "6242ed4840cb"),
        (wide, Binary::MulU32, 25, "vpmuludq zmm25, zmm2, zmm11", "6241ed48f4cb"),
        (wide, Binary::LeastI64, 25, "vpminsq zmm25, zmm2, zmm11", "6242ed4839cb"),
        (wide, Binary::GreatestI64, 25, "vpmaxsq zmm25, zmm2, zmm11", "6242ed483dcb"),
        (wide, Binary::EqualI64, 1, "vpcmpeqq k1, zmm2, zmm11", "62d2ed4829cb"),
        (wide, Binary::GreaterI64, 1, "vpcmpgtq k1, zmm2, zmm11", "62d2ed4837cb"),
    ];
    let of = |width, masked: Option<bool>, opcode, to: u8, first: Option<u8>, last, byte| {
        let mut assembler = Assembler::new(width);
        if let Some(zero) = masked {
            assembler.where_masked(zero);
        }
        assembler.vector(opcode, Vector(to), first.map(Vector), last, byte);
        hex(&assembler.finish(&[])).trim_end_matches("cc").to_owned()
    };
    for (width, op, to, text, want) in binary {
        let (opcode, byte) = instruction::binary(op, width);
        assert_eq!(of(width, None, opcode, to, Some(2), vector(11), byte), want, "{text}");
    }
    let shifts = [
        (narrow, Unary::ShiftRight64(32), 1, "vpsrlq ymm1, ymm11, 32", "c4c17573d320"),
        (narrow, Unary::ShiftLeft64(32), 1, "vpsllq ymm1, ymm11, 32", "c4c17573f320"),
        (wide, Unary::ShiftRight64(32), 17, "vpsrlq zmm17, zmm11, 32", "62d1f54073d320"),
        (wide, Unary::ShiftLeft64(32), 17, "vpsllq zmm17, zmm11, 32", "62d1f54073f320"),
    ];
    for (width, op, to, text, want) in shifts {
        let (opcode, Encoding::Part(part, byte)) = instruction::unary(op, width) else { panic!("{op:?} has a part") };
        assert_eq!(of(width, None, opcode, part, Some(to), vector(11), Some(byte)), want, "{text}");
    }
    type Case = (Width, Option<bool>, Opcode, u8, Option<u8>, JitOperand, &'static str, &'static str);
    let base = JitOperand::Memory(MemoryOperand::After(address(1), 0));
    let lanes = |base, bytes| indexed(wide, base, LANE, bytes, 0);
    let cases: [Case; 14] = [
        (narrow, None, opcode::FMA.wide(), 8, Some(9), vector(2), "vfmadd213pd ymm8, ymm9, ymm2", "c462b5a8c2"),
        (narrow, None, opcode::ADD_PRODUCT, 8, Some(9), vector(2), "vfmadd231ps ymm8, ymm9, ymm2", "c46235b8c2"),
        (narrow, None, opcode::ADD_PRODUCT.wide(), 8, Some(9), vector(2), "vfmadd231pd ymm8, ymm9, ymm2", "c462b5b8c2"),
        (narrow, None, opcode::WIDEN_F32, 9, None, lanes(8, 4), "vcvtps2pd ymm9, [r8 + rax*4]", "c4417c5a0c80"),
        (narrow, None, opcode::BROADCAST_F64, 0, None, base, "vbroadcastsd ymm0, [rcx]", "c4e27d198100000000"),
        (wide, None, opcode::FMA.wide(), 24, Some(9), vector(2), "vfmadd213pd zmm24, zmm9, zmm2", "6262b548a8c2"),
        (
            wide,
            None,
            opcode::ADD_PRODUCT.wide(),
            24,
            Some(9),
            vector(2),
            "vfmadd231pd zmm24, zmm9, zmm2",
            "6262b548b8c2",
        ),
        (wide, None, opcode::FROM_MASK.wide(), 20, None, vector(1), "vpmovm2q zmm20, k1", "62e2fe4838e1"),
        (wide, None, opcode::BROADCAST_F64, 16, None, base, "vbroadcastsd zmm16, [rcx]", "62e2fd48198100000000"),
        (wide, None, opcode::WIDEN_F32, 25, None, lanes(8, 4), "vcvtps2pd zmm25, [r8 + rax*4]", "62417c485a0c80"),
        (wide, Some(true), opcode::WIDEN_F32, 25, None, lanes(1, 4), "vcvtps2pd zmm25{k2}{z}, […]", "62617cca5a0c81"),
        (wide, Some(true), opcode::LOAD_F64, 25, None, lanes(1, 8), "vmovupd zmm25{k2}{z}, […]", "6261fdca100cc1"),
        (wide, Some(false), opcode::STORE_F64, 25, None, lanes(1, 8), "vmovupd […]{k2}, zmm25", "6261fd4a110cc1"),
        (wide, Some(false), opcode::MOVE_F64, 25, None, vector(2), "vmovapd zmm25{k2}, zmm2", "6261fd4a28ca"),
    ];
    for (width, masked, opcode, to, first, last, text, want) in cases {
        assert_eq!(of(width, masked, opcode, to, first, last, None), want, "{text}");
    }
}
