use super::*;

const PTX: &str = "
.version 8.8
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 smem[];
.visible .entry k(
	.param .u64 k_param_0 // a comment; with a semicolon
)
.maxntid 128
{
	.reg .pred %p<3>;
	.reg .b32 %r<9>;
	.loc 1 10 2
	ld.param.u64 %rd1, [k_param_0];
	mbarrier.init.shared::cta.b64 [%r1], 2;
$L__BB0_1:
	mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;
	@!%p1 bra $L__BB0_1;
	@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r3;
	xor.b32 %r4, %r5, 16;
	st.shared.u32 [%r4], %r6; bar.sync 1, 64;
	fence.acq_rel.gpu;
	red.release.gpu.global.add.u32 [%rd1], 1;
	bar.warp.sync -1; bar.sync 3;
	ret;
}
";

fn of(operator: Operator) -> Vec<String> {
    mutations(PTX).filter(|m| m.operator == operator).map(|m| m.apply(PTX)).collect()
}

#[test]
fn statements_are_found_with_their_lines() {
    let found = statement::statements(PTX);
    let opcodes: Vec<_> = found.iter().map(|s| (s.line, s.opcode)).collect();
    assert_eq!(
        opcodes,
        [
            (14, "ld.param.u64"),
            (15, "mbarrier.init.shared::cta.b64"),
            (17, "mbarrier.try_wait.parity.shared::cta.b64"),
            (18, "bra"),
            (19, "mbarrier.arrive.expect_tx.shared::cta.b64"),
            (20, "xor.b32"),
            (21, "st.shared.u32"),
            (21, "bar.sync"),
            (22, "fence.acq_rel.gpu"),
            (23, "red.release.gpu.global.add.u32"),
            (24, "bar.warp.sync"),
            (24, "bar.sync"),
            (25, "ret"),
        ]
    );
    assert!(found[2].starts_block && !found[3].starts_block);
    assert_eq!(found[4].operands.iter().map(|(o, _)| *o).collect::<Vec<_>>(), ["_", "[%r1]", "%r3"]);
}

#[test]
fn each_operator_makes_the_edit_it_names() {
    let has = |operator, text: &str| {
        let mutants = of(operator);
        assert!(mutants.iter().any(|m| m.contains(text)), "{operator:?}: no {text:?} in {mutants:?}");
    };
    has(Operator::DropWait, "setp.eq.u32 %p1, 0, 0;");
    has(
        Operator::Phase,
        "{ .reg .b32 %mutant2; xor.b32 %mutant2, %r2, 1; mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %mutant2; }",
    );
    has(Operator::Count, "mbarrier.init.shared::cta.b64 [%r1], 1;");
    has(Operator::Count, "mbarrier.init.shared::cta.b64 [%r1], 3;");
    has(Operator::Count, "@%p2 add.u32 %mutant4, %r3, 16; @%p2 mbarrier.arrive.expect_tx");
    has(Operator::Count, "bar.sync 1, 32;");
    has(Operator::BarrierId, "bar.sync 3, 64;");
    has(Operator::BarrierId, "bar.sync 1;");
    has(Operator::Swizzle, "mov.b32 %r4, %r5;");
    has(Operator::WeakerOrder, "red.relaxed.gpu.global");
    has(Operator::NarrowerScope, "fence.acq_rel.cta;");
    has(Operator::NarrowerScope, "red.release.cta.global");
    has(Operator::Mask, "bar.warp.sync 65535;");
    has(Operator::Early, "bar.sync 1, 64; st.shared.u32 [%r4], %r6;");
    assert!(of(Operator::DropBarrier).iter().any(|m| !m.contains("bar.sync 1")));
    assert!(of(Operator::DropArrival).iter().any(|m| !m.contains("arrive")));
    assert!(of(Operator::DropFence).iter().any(|m| !m.contains("fence")));
}

#[test]
fn a_mutant_differs_from_its_kernel_and_from_its_siblings() {
    let mut seen = std::collections::HashSet::from([PTX.to_string()]);
    for (what, text) in mutants(PTX) {
        assert!(seen.insert(text), "{what} changes nothing new");
    }
    assert!(seen.len() > 15);
}

#[test]
fn any_text_is_accepted() {
    for cut in 0..PTX.len() {
        for (_, text) in mutants(&PTX[..cut]) {
            assert!(text.len() + 80 > cut);
        }
    }
}
