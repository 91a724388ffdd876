//! The drawing of a program's regions; the guide shows it.

use crate::fuse::build;
use crate::te::{self, Expr, TeError};
use crate::{Device, DeviceTensor};

#[test]
fn a_drawing_has_products_kernels_and_reasons() -> Result<(), TeError> {
    let tokens = te::var("tokens");
    let [q, k, v] = ["q", "k", "v"].map(|name| te::placeholder([tokens.into(), Expr::from(64)], name));
    let scores = te::ops::einsum("id,jd->ij", &[&q, &k])?;
    let weights = te::ops::softmax(&scores, 1)?;
    let mixed = te::ops::einsum("ij,jd->id", &[&weights, &v])?;
    let positive = te::compute(mixed.shape(), "positive", |[i, d]| te::relu(mixed.at([i, d])))?;
    let device = Device::cpu();
    let regions = build(&[&positive])?.regions(&device)?;
    let lines = "einsum with largest, exponentials, softmax: a product, f32 × f32\n\
                 einsum with positive: a product, f32 × f32\n";
    assert_eq!(regions.to_string(), lines);
    let drawing = concat!(env!("CARGO_MANIFEST_DIR"), "/src/guide/pictures/regions.svg");
    expect_test::expect_file![drawing].assert_eq(&regions.to_svg());

    // What is no product, what stays apart, and weights.
    let shifted =
        te::compute(mixed.shape(), "shifted", |[i, d]| mixed.at([i.into(), (Expr::from(d) + 1) % 64]) * v.at([i, d]))?;
    let r = te::reduce_axis((0, 64), "r");
    let least = te::compute([tokens, tokens], "least", |[i, j]| te::min(q.at([i, r]) + k.at([j, r]), [r]))?;
    let given: DeviceTensor = device.zeros::<f32>([3, 64])?;
    let regions = build(&[&shifted, &least])?.weights([(&v, &given)]).regions(&device)?;
    let text = regions.to_string();
    assert!(text.contains("a product, f32 × f32, 1 weight\n"), "{text}");
    assert!(
        text.contains("shifted is computed after einsum and not with it: it reads einsum at other places"),
        "{text}"
    );
    assert!(text.contains("\nleast is no product: "), "{text}");
    let svg = regions.to_svg();
    assert!(svg.contains(">kernels of te::auto</text>") && svg.contains(">least is no product: "), "{svg}");
    assert!(!svg.contains(">v</text>") && svg.contains(">q</text>"), "{svg}");
    assert!(regions.to_dot().starts_with("digraph \"shifted, least\" {"));
    Ok(())
}
