//! `epilogue choose`.

use std::fmt::Write as _;

use crate::failure::Failure;
use crate::options::ChooseOptions;
use crate::plan::{self, Product, validated};

pub(crate) fn choose(options: &ChooseOptions) -> Result<String, Failure> {
    let (text, epilogue) = plan::one(&options.source)?;
    validated(&text, &epilogue, options.product.operands.types)?;
    let (device, arch) = plan::target(&options.gpu)?;
    let choice = Product::of(&device, &epilogue, &options.product)?.choose()?;
    let [m, n, k] = options.product.shape;
    let mut printed = format!("`{}` of {m}x{n}x{k} on {}:\n{choice}\n", epilogue.name, arch);
    let others = choice.candidates().iter().filter(|candidate| Some(*candidate) != choice.kernel());
    let listed: Vec<String> = others.take(options.candidates).map(|candidate| format!("  {candidate}\n")).collect();
    if !listed.is_empty() {
        let _ = write!(printed, "behind it, of {}:\n{}", choice.candidates().len(), listed.concat());
    }
    Ok(printed)
}
