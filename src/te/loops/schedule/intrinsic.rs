//! Tensor intrinsics: pieces of a computation that the user implements.
//!
//! An intrinsic declares what it computes as a tensor expression, so that `Stage::tensorize` can check that the loops
//! it replaces compute the same. It implements this by statements built by hand (`te::Stmt`). These are in the
//! program's own terms, so the interpreter, native code and the placement of barriers understand them. On CUDA it may
//! call a device function instead.

use std::sync::Arc;

use crate::te::error::{ExpressionError, ScheduleError, TeError};
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::tensor::{Indices, Operation, Tensor};
use crate::te::expr::var::Var;
use crate::te::loops::ir::device_call::{CallArgument, DeviceCall};
use crate::te::loops::ir::stmt::{Note, Stmt};

/// How an intrinsic sees the part of a tensor that it works on.
#[derive(Clone, Debug)]
pub struct BufferDecl {
    pub(crate) tensor: Tensor,
    pub(crate) buffer: Buffer,
    pub(crate) strides: Vec<Expr>,
    pub(crate) offset: Option<Var>,
    pub(crate) offset_factor: i64,
    pub(crate) scope: Option<Scope>,
}

/// Declares how an intrinsic sees a tensor of its expression. By default every stride is a separate variable, which
/// gets the value of the actual stride, so any layout is accepted. (TVM's declaration without strides demands a dense
/// layout.)
#[must_use]
pub fn decl_buffer(tensor: &Tensor, name: &str) -> BufferDecl {
    let strides: Vec<Expr> = tensor.shape().iter().map(|_| Var::new("stride", crate::te::DType::I32).into()).collect();
    let buffer = Buffer::new(name, tensor.dtype(), tensor.shape(), strides.clone(), Scope::Global);
    BufferDecl { tensor: tensor.clone(), buffer, strides, offset: None, offset_factor: 1, scope: None }
}

impl BufferDecl {
    /// Sets the strides, in elements. A variable gets the actual stride; a constant must be equal to it.
    #[must_use]
    pub fn strides(mut self, strides: impl Indices) -> Self {
        self.strides = strides.expressions();
        let Self { tensor, buffer, .. } = &self;
        self.buffer = Buffer::new(buffer.name(), tensor.dtype(), tensor.shape(), self.strides.clone(), buffer.scope());
        self
    }

    /// Sets a variable for the distance, in elements, from the beginning of the memory to the first element of the
    /// part.
    #[must_use]
    pub fn element_offset(mut self, offset: Var) -> Self {
        self.offset = Some(offset);
        self
    }

    /// Demands that the part begins at a multiple of `factor` elements.
    #[must_use]
    pub fn offset_factor(mut self, factor: i64) -> Self {
        self.offset_factor = factor;
        self
    }

    /// Demands a memory scope: `global`, `shared` or `local`.
    ///
    /// # Errors
    /// [`ScheduleError::Scope`].
    pub fn scope(mut self, scope: &str) -> Result<Self, TeError> {
        self.scope = Some(Scope::parse(scope).ok_or_else(|| ScheduleError::Scope { name: scope.to_owned() })?);
        Ok(self)
    }

    /// The buffer that the statements load from and store to.
    #[must_use]
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }
}

/// The implementation of an intrinsic. `body` computes the whole. Loops of a reduction around the intrinsic are done in
/// one of two ways: `reset` writes the identities and `update` accumulates, or `body` does the first iteration and
/// `update` the others.
#[derive(Clone, Debug, Default)]
pub struct IntrinBody {
    /// The whole computation.
    pub body: Option<Stmt>,
    /// Writes the reduction's identities.
    pub reset: Option<Stmt>,
    /// One step of a reduction whose loops are around the intrinsic.
    pub update: Option<Stmt>,
}

/// A tensor intrinsic. It is a cheap handle.
#[derive(Clone, Debug)]
pub struct TensorIntrin(Arc<Intrinsic>);

#[derive(Debug)]
struct Intrinsic {
    operation: Arc<Operation>,
    inputs: Vec<BufferDecl>,
    outputs: Vec<BufferDecl>,
    implementation: IntrinBody,
}

/// Declares an intrinsic that computes `output`. `binds` declare how it sees the tensors of the expression; the others
/// are seen as by [`decl_buffer`]. `implement` gets the buffers of the inputs, in the order in which the expression
/// first reads them, and those of the outputs.
///
/// ```
/// use epilogue::te::{self, Array, IntrinBody, Stmt};
/// # fn main() -> Result<(), te::TeError> {
/// let a = te::placeholder([4], "a");
/// let b = te::compute([4], "add_one", |[i]| a.at([i]) + 1.0)?;
/// let add_one = te::decl_tensor_intrin(&b, &[], |ins, outs| {
///     let body = Stmt::for_range("i", 4, |i| outs[0].store([i], ins[0].load([i]) + 1.0));
///     Ok(IntrinBody { body: Some(body), ..IntrinBody::default() })
/// })?;
///
/// let n = te::var("n");
/// let x = te::placeholder((n, 8), "X");
/// let y = te::compute((n, 8), "Y", |[i, j]| x.at((i, j)) + 1.0)?;
/// let mut schedule = te::create_schedule(&[&y]);
/// let (_, inner) = schedule.stage(&y)?.split(y.axis(1)?, 4)?;
/// schedule.stage(&y)?.tensorize(inner, &add_one)?;
/// let program = te::lower(&schedule, &[&x, &y], "main")?;
/// # use epilogue::ElementType::F32;
/// # let mut arguments = [Array::new(F32, &[1, 8], &[2.0; 8])?, Array::unwritten(F32, &[1, 8])];
/// # program.interpret(&mut arguments)?;
/// # assert_eq!(arguments[1].values(), [3.0; 8]);
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`ScheduleError::Intrinsic`] for an output that is not computed; for a declaration of a tensor that the expression
/// doesn't have, or with the wrong number of strides; for an empty implementation, or one that stores to an input,
/// reads a tensor, uses memory or a variable from elsewhere, or contains threads. Any mistake made in building it.
pub fn decl_tensor_intrin(
    output: &Tensor,
    binds: &[BufferDecl],
    implement: impl FnOnce(&[Buffer], &[Buffer]) -> Result<IntrinBody, TeError>,
) -> Result<TensorIntrin, TeError> {
    let operation = output.operation().clone();
    let name = operation.name().to_owned();
    let refuse = |reason: String| Err(ScheduleError::Intrinsic { intrinsic: name.clone(), reason }.into());
    if operation.as_compute().is_none() {
        return refuse("it is not a computation; an intrinsic computes a tensor expression".to_owned());
    }
    let inputs = operation.inputs();
    let outputs: Vec<Tensor> = (0..operation.values()).map(|value| Tensor::new(operation.clone(), value)).collect();
    for bind in binds {
        if !inputs.contains(&bind.tensor) && !outputs.contains(&bind.tensor) {
            return refuse(format!("the declared {} is neither its output nor read by it", bind.tensor.name()));
        }
        if bind.strides.len() != bind.tensor.rank() {
            let (given, needed) = (bind.strides.len(), bind.tensor.rank());
            return refuse(format!(
                "{given} strides were declared for {}, which has {needed} dimensions",
                bind.tensor.name()
            ));
        }
        if bind.offset_factor < 1 {
            return refuse(format!(
                "{} can't begin at a multiple of {} elements",
                bind.tensor.name(),
                bind.offset_factor
            ));
        }
    }
    let declared = |tensor: &Tensor| {
        let bind = binds.iter().find(|bind| bind.tensor == *tensor);
        bind.cloned().unwrap_or_else(|| decl_buffer(tensor, &tensor.name()))
    };
    let inputs: Vec<BufferDecl> = inputs.iter().map(declared).collect();
    let outputs: Vec<BufferDecl> = outputs.iter().map(declared).collect();
    let buffers = |decls: &[BufferDecl]| -> Vec<Buffer> { decls.iter().map(|decl| decl.buffer.clone()).collect() };
    let implementation = implement(&buffers(&inputs), &buffers(&outputs))?;
    let parts = [&implementation.body, &implementation.reset, &implementation.update];
    if parts.iter().all(|part| part.is_none()) {
        return refuse("it has no implementation; give `body`, or `reset` and `update`".to_owned());
    }
    let mut known = Known { intrinsic: &name, loads: buffers(&inputs), stores: buffers(&outputs), vars: Vec::new() };
    known.loads.extend(buffers(&outputs));
    for decl in inputs.iter().chain(&outputs) {
        known.vars.extend(decl.offset);
        decl.tensor.shape().iter().chain(&decl.strides).for_each(|x| x.visit(&mut |x| known.vars.extend(x.as_var())));
    }
    for part in parts.into_iter().flatten() {
        known.check(part)?;
    }
    Ok(TensorIntrin(Arc::new(Intrinsic { operation, inputs, outputs, implementation })))
}

impl TensorIntrin {
    /// The operation that it computes.
    #[must_use]
    pub fn operation(&self) -> &Arc<Operation> {
        &self.0.operation
    }

    pub(crate) fn inputs(&self) -> &[BufferDecl] {
        &self.0.inputs
    }

    pub(crate) fn outputs(&self) -> &[BufferDecl] {
        &self.0.outputs
    }

    pub(crate) fn implementation(&self) -> &IntrinBody {
        &self.0.implementation
    }
}

/// Buffers and variables that an implementation may use.
struct Known<'a> {
    intrinsic: &'a str,
    loads: Vec<Buffer>,
    stores: Vec<Buffer>,
    vars: Vec<Var>,
}

impl Known<'_> {
    fn refuse<T>(&self, reason: impl Into<String>) -> Result<T, TeError> {
        Err(ScheduleError::Intrinsic { intrinsic: self.intrinsic.to_owned(), reason: reason.into() }.into())
    }

    fn check(&mut self, statement: &Stmt) -> Result<(), TeError> {
        statement.expressions().into_iter().try_for_each(|x| self.expression(x))?;
        let (memory, vars) = (self.loads.len(), self.vars.len());
        match statement {
            Stmt::Launch { .. } | Stmt::AllReduce(_) | Stmt::Barrier => {
                return self.refuse("it holds threads or a barrier; an intrinsic is what one thread does");
            }
            Stmt::Store { buffer, .. } if !self.stores.contains(buffer) => {
                let name = buffer.name();
                return self.refuse(format!("it stores to {name}, which is none of its outputs or own memory"));
            }
            Stmt::For { var, .. } | Stmt::Let { var, .. } => self.vars.push(*var),
            Stmt::Allocate { buffer, .. } => {
                buffer.shape().iter().try_for_each(|extent| self.expression(extent))?;
                self.loads.push(buffer.clone());
                self.stores.push(buffer.clone());
            }
            Stmt::Note { note: Note::Call(call), .. } => self.pointers(call)?,
            _ => {}
        }
        let result = statement.children().into_iter().try_for_each(|child| self.check(child));
        self.stores.truncate(self.stores.len() - (self.loads.len() - memory));
        self.loads.truncate(memory);
        self.vars.truncate(vars);
        result
    }

    fn pointers(&self, call: &DeviceCall) -> Result<(), TeError> {
        for argument in &call.arguments {
            if let CallArgument::Pointer(buffer, indices) = argument {
                if !self.loads.contains(buffer) {
                    return self.refuse(format!("a call is given {}, memory of somewhere else", buffer.name()));
                }
                if indices.len() != buffer.shape().len() {
                    let (needed, given) = (buffer.shape().len(), indices.len());
                    return Err(ExpressionError::Rank { tensor: buffer.name().to_owned(), needed, given }.into());
                }
            }
        }
        Ok(())
    }

    fn expression(&self, x: &Expr) -> Result<(), TeError> {
        let mut mistake = Ok(());
        x.visit(&mut |x| {
            if mistake.is_err() {
                return;
            }
            mistake = match x.kind() {
                Kind::Invalid(error) => Err(error.clone()),
                Kind::Read(tensor, _) => self.refuse(format!(
                    "it reads the tensor {}; load from the buffers that `implement` is given",
                    tensor.name()
                )),
                Kind::Reduce(..) => self.refuse("it holds a reduction; write the loop"),
                Kind::Load(buffer, _) if !self.loads.contains(buffer) => {
                    self.refuse(format!("it loads from {}, memory of somewhere else", buffer.name()))
                }
                Kind::Var(var) if !self.vars.contains(var) => self.refuse(format!(
                    "it uses {}, which is not a loop of its own and in no shape or stride of its tensors",
                    var.name()
                )),
                _ => Ok(()),
            };
        });
        mistake
    }
}
