//! Products, equations and convolutions that are refused, with their messages.

use epilogue::te::ops::Convolution;
use epilogue::te::{self, EinsumError, ExpressionError, TeError, Tensor, ops, var};
use expect_test::{Expect, expect};
use proptest::prelude::*;

fn of(shape: &[usize], name: &str) -> Tensor {
    te::placeholder(shape.to_vec(), name)
}

pub(super) fn refused<T>(result: Result<T, TeError>, message: &Expect) {
    message.assert_eq(&result.err().expect("what doesn't fit was accepted").to_string());
}

#[test]
fn products_that_do_not_fit() {
    let x = of(&[3, 4], "x");
    refused(
        ops::matmul(&x, &x),
        &expect![
            "matmul: the right operand x is [3, 4]; it must be [4, 4], with as many rows as the left operand has columns"
        ],
    );
    refused(
        ops::matmul(&x, &of(&[], "s")),
        &expect!["matmul: the right operand s is []; it must be of 1 or more dimensions"],
    );
    refused(
        ops::matmul(&of(&[2, 3, 4], "b"), &of(&[3, 4, 5], "c")),
        &expect![
            "matmul: the right operand c is [3, 4, 5]; it must be [2, 4, 5], with the left operand's batches, or 1 in their place"
        ],
    );
    refused(
        ops::linear(&x, &of(&[5, 3], "w"), None),
        &expect!["linear: the weight w is [5, 3]; it must be [5, 4], [out, in] with the input's last extent"],
    );
    refused(
        ops::linear(&x, &of(&[5, 4, 1], "w"), None),
        &expect!["linear: the weight w is [5, 4, 1]; it must be [out, in]"],
    );
    refused(
        ops::linear(&x, &of(&[5, 4], "w"), Some(&of(&[4], "b"))),
        &expect!["linear: the bias b is [4]; it must be [5], as the weight's rows"],
    );
    refused(
        ops::linear(&of(&[], "s"), &of(&[5, 4], "w"), None),
        &expect!["linear: the input s is []; it must be […, in]"],
    );
    // Two sizes of one name are two sizes.
    let sized = || te::placeholder([var("n"), var("n")], "sized");
    refused(
        ops::matmul(&sized(), &sized()),
        &expect![
            "matmul: the right operand sized is [n, n]; it must be [n, n], with as many rows as the left operand has columns; sizes that are made apart are different ones, whatever their names: use one"
        ],
    );
}

#[test]
fn equations_that_do_not_fit() {
    let (x, y) = (of(&[3, 4], "x"), of(&[5, 4], "y"));
    refused(
        ops::einsum("ij,jk->ik", &[&x]),
        &expect![[
            r#"einsum of "ij,jk->ik": the equation has 2 operands, 1 were given; give one tensor for each, in order"#
        ]],
    );
    refused(
        ops::einsum("ij,jk->ik", &[&x, &y]),
        &expect![[
            r#"einsum of "ij,jk->ik": the axis j is 4 in x and 5 in y; all extents of an axis must be equal numbers or made of the same size variables"#
        ]],
    );
    refused(
        ops::einsum("ij->ik", &[&x]),
        &expect![[
            r#"einsum of "ij->ik": the output has the axis k, which no operand has; only axes of operands can be in it"#
        ]],
    );
    refused(
        ops::einsum("ij->ii", &[&x]),
        &expect![[r#"einsum of "ij->ii": the output has the axis i twice; it can have each axis once"#]],
    );
    refused(
        ops::einsum("ii", &[&x]),
        &expect![[
            r#"einsum of "ii": the axis i is 3 in x and 4 in x; all extents of an axis must be equal numbers or made of the same size variables"#
        ]],
    );
    refused(
        ops::einsum("ijk", &[&x]),
        &expect![[
            r#"einsum of "ijk": x has 2 dimensions, and the equation has 3 letters for it; give each dimension a letter"#
        ]],
    );
    refused(
        ops::einsum("i", &[&x]),
        &expect![[
            r#"einsum of "i": x has 2 dimensions, and the equation has 1 letters for it; give each dimension a letter"#
        ]],
    );
    refused(
        ops::einsum("...ijk", &[&x]),
        &expect![[
            r#"einsum of "...ijk": x has 2 dimensions, and the equation has 3 letters for it; give each dimension a letter"#
        ]],
    );
    refused(
        ops::einsum("......", &[&x]),
        &expect![[
            r#"einsum of "......": `...` stands twice in `......`; an operand, or the output, can have it once"#
        ]],
    );
    refused(
        ops::einsum("...j->j", &[&x]),
        &expect![[
            r#"einsum of "...j->j": x has dimensions for `...`, which the output lacks; add it to the output, or give the dimensions letters to sum them"#
        ]],
    );
    refused(
        ops::einsum("...,...", &[&x, &y]),
        &expect![[
            r#"einsum of "...,...": the axis 1 of `...`, counted from its last is 3 in x and 5 in y; all extents of an axis must be equal numbers or made of the same size variables"#
        ]],
    );
    for text in ["i1", "ij->", "i.j", "..ij", "i-j", "ij>i", "ij->i->j", "é", "ij;", "->", ""] {
        let result = ops::einsum(text, &[&of(&[], "s")]);
        let is_refused = matches!(result, Err(TeError::Expression(ExpressionError::Einsum { .. })));
        assert_eq!(is_refused, !matches!(text, "" | "->"), "{text:?}: {result:?}");
    }
    assert!(matches!(
        ops::einsum("ij;", &[&x]),
        Err(TeError::Expression(ExpressionError::Einsum { error: EinsumError::Character { character: ';' }, .. }))
    ));
    assert!(ops::einsum("", &[]).is_err());
}

proptest! {
    /// No text and no operands make it panic.
    #[test]
    fn any_text_is_read_or_refused(text in "[a-cA-C.,> \\-é]{0,12}", ranks in prop::collection::vec(0usize..4, 0..4)) {
        let tensors: Vec<Tensor> = ranks.iter().map(|rank| of(&vec![2; *rank], "x")).collect();
        let _ = ops::einsum(&text, &tensors.iter().collect::<Vec<_>>());
    }
}

#[test]
fn convolutions_that_do_not_fit() {
    let image = of(&[1, 6, 8, 8], "I");
    let plain = Convolution::new();
    refused(
        ops::conv2d(&image, &of(&[2, 3, 3, 3], "F"), plain),
        &expect!["conv2d: the filter F is [2, 3, 3, 3]; it must be [2, 6, 3, 3], with as many channels as the image"],
    );
    refused(
        ops::conv2d(&image, &of(&[2, 6, 9, 3], "F"), plain),
        &expect![
            "conv2d: the filter F is [2, 6, 9, 3]; it must be of 1 or more rows, and reach over no more than the image's 8"
        ],
    );
    refused(
        ops::conv2d(&image, &of(&[2, 6, 3, 0], "F"), plain),
        &expect![
            "conv2d: the filter F is [2, 6, 3, 0]; it must be of 1 or more columns, and reach over no more than the image's 8"
        ],
    );
    refused(
        ops::conv2d(&image, &of(&[2, 6, 3, 6], "F"), plain.dilation([1, 2]).padding([0, 1])),
        &expect![
            "conv2d: the filter F is [2, 6, 3, 6]; it must be of 1 or more columns, and reach over no more than the image's 10 with its padding"
        ],
    );
    refused(
        ops::conv2d(&image, &of(&[2, 6, 3, 3], "F"), plain.stride([1, 0])),
        &expect!["conv2d: the stride is 0; it must be from 1 to 2147483647"],
    );
    refused(
        ops::conv2d(&image, &of(&[2, 6, 3, 3], "F"), plain.dilation([0, 1])),
        &expect!["conv2d: the dilation is 0; it must be from 1 to 2147483647"],
    );
    refused(
        ops::conv2d(&image, &of(&[2, 6, 3, 3], "F"), plain.groups(0)),
        &expect!["conv2d: the number of groups is 0; it must be from 1 to 2147483647"],
    );
    refused(
        ops::conv2d(&image, &of(&[2, 2, 3, 3], "F"), plain.groups(2)),
        &expect![
            "conv2d: the filter F is [2, 2, 3, 3]; it must be with the channels of one of 2 groups, for the image's [1, 6, 8, 8]"
        ],
    );
    refused(
        ops::conv2d(&image, &of(&[3, 3, 3, 3], "F"), plain.groups(2)),
        &expect!["conv2d: the filter F is [3, 3, 3, 3]; it must be with a multiple of 2 features, for as many groups"],
    );
    refused(
        ops::conv2d(&of(&[3, 4], "x"), &image, plain),
        &expect!["conv2d: the image x is [3, 4]; it must be [batch, channels, height, width]"],
    );
    refused(
        ops::conv1d(&of(&[3, 4], "x"), &image, Convolution::new().channels_last()),
        &expect!["conv1d: the image x is [3, 4]; it must be [batch, width, channels]"],
    );
    refused(
        ops::conv2d(&image, &of(&[2, 6, 3], "F"), plain),
        &expect!["conv2d: the filter F is [2, 6, 3]; it must be [features, channels, rows, columns]"],
    );
    // Numbers that 32-bit indices can't have.
    let far = usize::MAX;
    let one = of(&[2, 6, 1, 1], "F");
    assert!(ops::conv2d(&image, &one, plain.padding([far, 0])).is_err());
    assert!(ops::conv2d(&image, &of(&[2, 6, 2, 1], "F"), plain.dilation([far, 1])).is_err());
    assert!(ops::conv2d(&image, &one, plain.groups(far)).is_err());
    assert!(ops::conv2d(&image, &one, plain.stride([far, 1])).is_err());
}
