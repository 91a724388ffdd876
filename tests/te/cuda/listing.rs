//! The CUDA listing of TVM's reduction tutorial: the same text, except for two mistakes of that kernel.

use epilogue::te;
use epilogue_testing::tutorial::{cross_thread, row_sums};

use crate::case::{device, lacks_nvrtc};

const TVM: &str = include_str!("../../golden/te/reduction_cuda_tvm.cu");
const MENDED: &str = include_str!("../../golden/te/reduction_cuda.cu");

#[test]
fn cross_thread_reduction() -> Result<(), te::TeError> {
    if lacks_nvrtc("listing::cross_thread_reduction") {
        return Ok(());
    }
    let (a, b) = row_sums()?;
    let s = cross_thread(&b, 16, 32)?;
    let kernel = te::lower(&s, &[&a, &b], "default_function")?.build(device())?;
    assert_eq!(kernel.source(), MENDED, "ours:\n{}", kernel.source());
    Ok(())
}

/// Corrections to the listing, and their reasons; everything else is TVM's text.
#[test]
fn only_the_mask_and_the_guard_of_the_store_differ_from_tvm() {
    let words = |text: &'static str| text.lines().map(str::trim).collect::<Vec<_>>();
    let (tvm, mended) = (words(TVM), words(MENDED));
    let removed: Vec<&str> = tvm.iter().filter(|line| !mended.contains(line)).copied().collect();
    let added: Vec<&str> = mended.iter().filter(|line| !tvm.contains(line)).copied().collect();
    // The shift is by up to 496 bits: the mask of every warp but the first is 0, so no lane takes part in the shuffles
    // that it executes. All lanes of a warp get here together, so all take part.
    assert_eq!(removed, ["mask[0] = (__activemask() & ((uint)65535 << ((uint)16 * ((uint)((int)threadIdx.y)))));"]);
    assert_eq!(added, ["mask[0] = 0xffffffffu;"]);
    // Rows beyond the last were stored: the bound, which the loops already test, is tested once more at the end.
    let bound = "if (((((int)blockIdx.x) * 32) + ((int)threadIdx.y)) < n) {";
    let count = |lines: &[&str]| lines.iter().filter(|line| **line == bound).count();
    assert_eq!((count(&tvm), count(&mended)), (2, 3));
    assert_eq!(mended.len(), tvm.len() + 2);
}
