//! The tensors and scalars of a run: shapes alone, or random values.

use epilogue::evt::reference::encode;
use epilogue::evt::{BroadcastClass, Form, OutputKind, ParameterClass, ValidOutput};
use epilogue::{Argument, Device, DeviceTensor, ElementType, Gemm};

use crate::failure::Failure;
use crate::options::{Layout, ProductOptions};
use crate::plan::{Operand, stored, viewed};

/// The most elements of a tensor that is filled with random values.
const MOST_ELEMENTS: usize = 1 << 26;

/// The arguments of a run, in the epilogue's order, each under its name.
pub(crate) struct Arguments(Vec<(&'static str, Value)>);

enum Value {
    Scalar(f64),
    Input(DeviceTensor),
    Output(DeviceTensor),
}

/// A maker of tensors: of random values, or of nothing but a shape.
pub(crate) enum Maker<'d> {
    Shapes(&'d Device),
    Random(&'d Device, fastrand::Rng),
}

impl Maker<'_> {
    /// A packed tensor; floating-point numbers of about this size.
    fn tensor(&mut self, element: ElementType, shape: &[usize], scale: f64) -> Result<DeviceTensor, Failure> {
        match self {
            Self::Shapes(device) => Ok(device.without_memory(element, shape)?),
            Self::Random(device, random) => {
                let elements = shape.iter().try_fold(1_usize, |product, extent| product.checked_mul(*extent));
                let elements = elements.filter(|elements| *elements <= MOST_ELEMENTS).ok_or_else(|| {
                    let most = format!("at most {MOST_ELEMENTS} elements are filled with random values");
                    Failure::refused(format_args!("a tensor of shape {shape:?}: {most}; give smaller extents"))
                })?;
                let values: Vec<f64> = (0..elements).map(|_| value(random, element, scale)).collect();
                Ok(device.tensor_from_bytes(element, &encode(element, &values), shape)?)
            }
        }
    }

    /// A and this many B, laid out as the options say. Products of random ones are of about the size 1.
    pub(crate) fn operands(
        &mut self,
        options: &ProductOptions,
        count: usize,
    ) -> Result<(DeviceTensor, Vec<DeviceTensor>), Failure> {
        let a = self.operand(options, Operand::A)?;
        let b = (0..count).map(|_| self.operand(options, Operand::B)).collect::<Result<_, _>>()?;
        Ok((a, b))
    }

    fn operand(&mut self, options: &ProductOptions, operand: Operand) -> Result<DeviceTensor, Failure> {
        let (shape, layout, element) = operand.of(options);
        let k = options.shape[2].max(1) as f64;
        let scale = if operand == Operand::B { 1.0 / k.sqrt() } else { 1.0 };
        viewed(self.tensor(element, &stored(shape, layout, options.batch), scale)?, layout)
    }

    /// The arguments of a plan. Scalars are 0, random, or as `set` says.
    pub(crate) fn arguments(
        &mut self,
        gemm: &Gemm,
        options: &ProductOptions,
        set: &[(String, f64)],
    ) -> Result<Arguments, Failure> {
        let tree = gemm.tree();
        let scalars: Vec<&str> =
            tree.parameters().iter().filter(|p| p.class == ParameterClass::Scalar).map(|p| p.name).collect();
        for (i, (name, _)) in set.iter().enumerate() {
            if !scalars.contains(&name.as_str()) {
                let there = if scalars.is_empty() { "it has none".to_owned() } else { scalars.join(", ") };
                return Err(Failure::refused(format_args!(
                    "`{name}` is no `Scalar` of `{}`; those are: {there}",
                    tree.name()
                )));
            }
            if set[..i].iter().any(|(other, _)| other == name) {
                return Err(Failure::refused(format_args!("`--set {name}=…` is given twice")));
            }
        }
        let mut arguments = Vec::new();
        for parameter in tree.parameters() {
            let name = parameter.name;
            let value = match parameter.class {
                ParameterClass::Scalar => {
                    let given = set.iter().find(|(set, _)| set == name).map(|(_, value)| *value);
                    Value::Scalar(given.unwrap_or_else(|| self.scalar()))
                }
                ParameterClass::Seed => Value::Input(self.tensor(ElementType::I64, &[2], 1.0)?),
                ParameterClass::Bits => {
                    let shape = bits(options);
                    let tensor = match self {
                        Self::Shapes(device) => device.without_memory(ElementType::U8, &shape)?,
                        Self::Random(device, random) => {
                            let bytes: Vec<u8> = (0..shape.iter().product::<usize>()).map(|_| random.u8(..)).collect();
                            device.tensor_from_bytes(ElementType::U8, &bytes, &shape)?
                        }
                    };
                    Value::Input(tensor)
                }
                class => {
                    let shape = shape(class.broadcast_class(), options);
                    let tensor = self.tensor(parameter.element, &shape, 1.0)?;
                    if class == ParameterClass::TensorMut { Value::Output(tensor) } else { Value::Input(tensor) }
                }
            };
            arguments.push((name, value));
        }
        for output in tree.outputs().iter().filter(|output| output.parameter.is_none()) {
            let shape = output_shape(gemm, output, options)?;
            let tensor = match self {
                Self::Shapes(device) => device.without_memory(output.element, &shape)?,
                Self::Random(device, _) => device.zeros_of(output.element, &shape)?,
            };
            arguments.push((output.name, Value::Output(tensor)));
        }
        Ok(Arguments(arguments))
    }

    fn scalar(&mut self) -> f64 {
        match self {
            Self::Shapes(_) => 0.0,
            // One that every arithmetic type holds.
            Self::Random(_, random) => f64::from(random.i32(-8..=8)) / 8.0,
        }
    }
}

impl Arguments {
    /// The list that a plan takes.
    pub(crate) fn list(&mut self) -> Vec<Argument<'_>> {
        self.0
            .iter_mut()
            .map(|(_, value)| match value {
                Value::Scalar(value) => Argument::Scalar(*value),
                Value::Input(tensor) => Argument::Input(tensor),
                Value::Output(tensor) => Argument::Output(tensor),
            })
            .collect()
    }

    /// The value of every host scalar, by its name.
    pub(crate) fn scalars(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.0.iter().filter_map(|(name, value)| match value {
            Value::Scalar(value) => Some((*name, *value)),
            Value::Input(_) | Value::Output(_) => None,
        })
    }

    /// The tensor of a name that is written.
    pub(crate) fn output(&self, name: &str) -> Option<&DeviceTensor> {
        self.0.iter().find_map(|(known, value)| match value {
            Value::Output(tensor) if *known == name => Some(tensor),
            _ => None,
        })
    }
}

/// A random value of an element type: normal, or a small integer.
fn value(random: &mut fastrand::Rng, element: ElementType, scale: f64) -> f64 {
    match element {
        ElementType::Bool => f64::from(u8::from(random.bool())),
        ElementType::U8 => f64::from(random.u8(0..8)),
        ElementType::I64 | ElementType::I32 | ElementType::I8 => f64::from(random.i8(-4..=4)),
        _ => {
            let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
            scale * radius * (std::f64::consts::TAU * random.f64()).cos()
        }
    }
}

/// The shape of a class, with the batch in front.
pub(crate) fn shape(class: BroadcastClass, options: &ProductOptions) -> Vec<usize> {
    let [m, n, _] = options.shape;
    match class {
        BroadcastClass::Scalar => options.batch.into_iter().collect(),
        BroadcastClass::RowVector => options.batch.into_iter().chain([n]).collect(),
        BroadcastClass::ColumnVector => options.batch.into_iter().chain([m]).collect(),
        BroadcastClass::Tensor => stored([m, n], Layout::Row, options.batch),
    }
}

/// The shape of truth values with eight columns in a byte.
pub(crate) fn bits(options: &ProductOptions) -> Vec<usize> {
    let [m, n, _] = options.shape;
    stored([m, n.div_ceil(8)], Layout::Row, options.batch)
}

/// The shape of an output.
pub(crate) fn output_shape(gemm: &Gemm, output: &ValidOutput, options: &ProductOptions) -> Result<Vec<usize>, Failure> {
    match output.kind {
        OutputKind::Reduce(reduction) if reduction.form == Form::Partial => Ok(gemm.partials_shape(output.name)?),
        OutputKind::Reduce(reduction) if reduction.batch => {
            let [m, n, _] = options.shape;
            Ok(match output.class {
                BroadcastClass::Scalar => vec![],
                BroadcastClass::RowVector => vec![n],
                BroadcastClass::ColumnVector => vec![m],
                BroadcastClass::Tensor => vec![m, n],
            })
        }
        OutputKind::Store if output.packed => Ok(bits(options)),
        OutputKind::Store | OutputKind::Reduce(_) => Ok(shape(output.class, options)),
    }
}
