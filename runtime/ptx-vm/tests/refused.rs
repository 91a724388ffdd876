//! Instructions that are not supported: each refuses its own kernel, with the reason, and no other.

#![allow(clippy::unwrap_used)]

use ptx_vm::Module;

const REFUSED: [(&str, &str); 35] = [
    ("mma.sync.aligned.m16n8k32.row.col.f32.e2m1.e4m3.f32 {%f1}, {%r1}, {%r1}, {%f1}", "`.kind::f8f6f4`"),
    ("mma.sync.aligned.m16n8k16.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32 {%f1}, {%r1}, {%r1}, {%f1}", "`.m16n8k32` of"),
    (
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0 \
         {%f1}, {%r1}, {%r1}, {%f1}, {%r1}, {0, 0}, {%r1}, {0, 0}",
        "mxf4nvf4 with Ue8m0 and 2 or 4",
    ),
    ("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1}, [%rd1]", "`mma.sync` with `ldmatrix` is"),
    ("multimem.ld_reduce.relaxed.sys.global.add.f32 %f1, [%rd1]", "several devices"),
    ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%r1}, {%r1}, {%r1}, {%r1}", "`mma.sync` with `ldmatrix` is"),
    ("multimem.red.relaxed.sys.global.add.f32 [%rd1], %f1", "several devices"),
    ("alloca.u64 %rd1, %rd2", "`.local` array"),
    ("stacksave.u64 %rd1", "`.local` array"),
    ("stackrestore.u64 %rd1", "`.local` array"),
    ("st.bulk.weak.shared::cta [%rd1], 64, 0", "sm_100"),
    ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%rd1]", "sm_100a"),
    ("shfl.down.b32 %r1, %r2, 1, 31", "sm_70"),
    ("vote.ballot.b32 %r1, %p1", "sm_70"),
    ("atom.global.cas.b128 %q1, [%rd1], %q1, %q1", "128 bits"),
    ("atom.global.exch.b128 %q1, [%rd1], %q1", "128 bits"),
    ("fence.release.sync_restrict::shared::cta.cluster", "`fence.acq_rel.cluster`"),
    ("fence.acquire.sync_restrict::shared::cluster.cluster", "`fence.acq_rel.cluster`"),
    ("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%r1}, {%r1}, {%r1}, {%r1}, %r1, 0", "sparse"),
    ("mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%r1, %r2}, {%r1}, {%r1}, {%r1, %r2}", "4-bit"),
    ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc {%r1}, {%r1}, {%r1}, {%r1}", "1-bit"),
    ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%r1}, {%r1}, {%r1}, {%r1}", "`.m16n8k8`"),
    ("mma.sync.aligned.m8n8k4.col.row.f16.f16.f16.f16 {%r1}, {%r1}, {%r1}, {%r1}", "`.m16n8k8`"),
    ("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f1}, %rd1, %rd1, %r1, 0, 1, 1, 1, 0, 0", "sparse"),
    ("wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {%r1}, %rd1, %rd1, 1", "1-bit"),
    ("redux.sync.add.f32 %f1, %f2, 0xffffffff", "sm_100a"),
    ("cp.async.bulk.prefetch.tensor.3d.L2.global.im2col::w [%rd1, {%r1, %r1, %r1}], {%h1, %h1}", "sm_100"),
    (
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w::128.mbarrier::complete_tx::bytes \
         [%r1], [%rd1, {%r1, %r1, %r1}], [%r1], {%h1, %h1}",
        "sm_100",
    ),
    (
        "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%rd1, {%r1, %r1, %r1}], [%r1]",
        "`.tile` maps are",
    ),
    (
        "cp.async.bulk.tensor.2d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes \
         [%r1], [%rd1, {%r1, %r1}], [%r1], {%h1}",
        "3 to 5 dimensions",
    ),
    (
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes \
         [%r1], [%rd1, {%r1, %r1, %r1, %r1}], [%r1], {%h1}",
        "1 offsets where 2 are expected",
    ),
    ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}]", "textures"),
    ("tcgen05.shift.cta_group::1.down [%r1]", "one lane down"),
    ("{ .param .b64 x; call (x), malloc, (x); }", "malloc"),
    ("call (), %rd1, (), proto", "pointers"),
];

#[test]
fn each_refuses_its_own_kernel_only() {
    for (instruction, reason) in REFUSED {
        let end = if instruction.starts_with('{') { "" } else { ";" };
        let text = format!(
            ".version 8.6\n.target sm_90a\n.address_size 64\n.extern .func (.param .b64 p) malloc(.param .b64 q);\n\
             .visible .entry fine() {{ ret; }}\n.visible .entry strange() {{ .reg .b16 %h<3>; .reg .b32 %r<9>; \
             .reg .b64 %rd<9>; .reg .b128 %q<3>; .reg .f32 %f<9>; .reg .pred %p<3>;\n{instruction}{end}\nret; }}\n"
        );
        let module = Module::parse(&text).unwrap_or_else(|error| panic!("{instruction}: {error}"));
        assert!(module.kernel("fine").is_some() && module.kernel("strange").is_none(), "{instruction}");
        let (name, error) = module.refused().next().unwrap();
        let message = error.to_string();
        assert!(name == "strange" && message.contains(reason), "{instruction}: {message}");
        assert!(message.contains("line 7"), "{instruction}: {message}");
    }
}
