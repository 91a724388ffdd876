//! Tensor copies in im2col mode: what their maps do not allow, and which bytes the detector takes them to read. (What they
//! copy is judged by `conformance/`.)

#![allow(clippy::unwrap_used)]

use ptx_vm::numerics::im2col::Im2col;
use ptx_vm::numerics::swizzle::Swizzle;
use ptx_vm::numerics::tensor_map::{Fill, MapElement, TensorMap, Tiled};
use ptx_vm::{Address, Arch, Argument, Detector, Launch, Machine, Module, Options};

/// Thread 0 copies 4 pixels of 8 halves from column `w` of row 0 on, at an offset; thread 32 writes the word at `at`.
const TEXT: &str = ".version 8.0\n.target sm_90a\n.address_size 64
    .visible .entry k(.param .align 64 .b8 map[128], .param .u64 images, .param .u32 w, .param .u32 off, .param .u64 at) {
        .shared .align 128 .b8 tile[64]; .shared .align 8 .b64 full;
        .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<4>; .reg .b16 %h<3>;
        mov.u32 %r0, %tid.x; mov.u32 %r1, tile; mov.u32 %r2, full; mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
        ld.param.u64 %rd2, [images]; ld.param.u32 %r3, [w]; ld.param.u32 %r4, [off]; cvt.u16.u32 %h1, %r4; mov.u16 %h2, 0;
        ld.param.u64 %rd3, [at];
        setp.eq.u32 %p1, %r0, 32; add.u64 %rd4, %rd2, %rd3; @%p1 st.global.u32 [%rd4], 1;
        setp.ne.u32 %p2, %r0, 0; @%p2 bra END;
        mbarrier.init.shared::cta.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 64;
        cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes
            [%r1], [%rd1, {0, %r3, 0, 0}], [%r2], {%h1, %h2};
        TRY: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2], 0; @!%p3 bra TRY;
        END: ret; }";

/// Images of 2 rows, 10 columns, 8 halves: pixels of 16 bytes. The window begins between -1 and 8, in steps of 2.
fn images(address: Address) -> [u8; 128] {
    let images = Im2col {
        element: MapElement::F16,
        address: address.0,
        sizes: &[8, 10, 2, 1],
        strides: &[16, 160, 320],
        lower_corner: &[-1, 0],
        upper_corner: &[-1, 0],
        channels_per_pixel: 8,
        pixels_per_column: 4,
        element_strides: &[1, 2, 1, 1],
        swizzle: Swizzle::None,
        fill: Fill::Zero,
    };
    TensorMap::encode_im2col(&images).unwrap()
}

/// The error's text, or the number of races.
fn run(map: impl Fn(Address) -> [u8; 128], w: i32, offset: u32, at: u64) -> Result<usize, String> {
    let machine = Machine::new(Options::default().arch(Arch::Sm90a).detector(Detector::On));
    let address = machine.allocate(320, "images").unwrap();
    machine.write(address, &[0; 320]).unwrap();
    let (map, w, offset, at) = (map(address), w.to_le_bytes(), offset.to_le_bytes(), at.to_le_bytes());
    let arguments = [
        Argument::Bytes(&map),
        Argument::Address(address),
        Argument::Bytes(&w),
        Argument::Bytes(&offset),
        Argument::Bytes(&at),
    ];
    let module = Module::parse(TEXT).unwrap();
    let report = machine.launch(&module, "k", &Launch::new([1, 1, 1], [64, 1, 1]), &arguments);
    report.map(|report| report.races.len()).map_err(|failure| failure.error.to_string())
}

#[test]
fn a_copy_reads_its_pixels_and_no_others() {
    // Columns 4, 6, 8 of row 0, then column 0 of row 1: bases 3, 5, 7 and back to -1.
    for column in 0..20 {
        let read = [4, 6, 8, 10].contains(&column);
        assert_eq!(run(images, 3, 1, 16 * column + 12), Ok(usize::from(read)), "column {column}");
    }
}

#[test]
fn what_a_map_does_not_allow_is_an_error() {
    let refused = |w, offset| run(images, w, offset, 0).unwrap_err();
    for (w, offset, why) in [
        (-2, 0, "coordinate -2 of dimension 1 must be between the map's corners, -1 and 8"),
        (9, 0, "coordinate 9 of dimension 1 must be between the map's corners, -1 and 8"),
        (0, 256, "offset 256 of dimension 1 must be below 256 in a copy of 4 dimensions"),
    ] {
        let message = refused(w, offset);
        assert!(message.contains(why), "{message}");
    }
    assert!(run(images, 8, 255, 0).is_ok());
    let tiled = |address: Address| {
        let tiled = Tiled {
            element: MapElement::F16,
            address: address.0,
            sizes: &[8, 10, 2, 1],
            strides: &[16, 160, 320],
            box_sizes: &[8, 4, 1, 1],
            element_strides: &[1; 4],
            swizzle: Swizzle::None,
            fill: Fill::Zero,
        };
        TensorMap::encode(&tiled).unwrap()
    };
    let message = run(tiled, 0, 0, 0).unwrap_err();
    assert!(message.contains("a copy in mode `.im2col` by a tensor map of mode `.tile`"), "{message}");
}
