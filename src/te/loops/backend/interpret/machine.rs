//! The interpreter's threads, their memory, and what each statement does.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use epilogue_runtime::DataError;

use super::scalar::Scalar;
use crate::ElementType;
use crate::expr::{Body, ExprNode, Function, Op};
use crate::te::dtype::DType;
use crate::te::error::{LoweringError, RunError, TeError};
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::node::Id;
use crate::te::expr::thread::Thread as Index;
use crate::te::expr::var::Var;
use crate::te::loops::ir::stmt::{AllReduce, Stmt};
use crate::te::text::expression;

type Memory = Rc<RefCell<Vec<Option<Scalar>>>>;

/// The identity of a memory.
type MemoryId = *const RefCell<Vec<Option<Scalar>>>;

/// The values of nodes of the current expression.
type Known = HashMap<Id, Scalar>;

/// One thread: its variables, its indices, and the memory that it can access.
#[derive(Clone)]
struct Thread {
    vars: HashMap<Var, Scalar>,
    place: BTreeMap<Index, i64>,
    memory: HashMap<Buffer, Memory>,
}

/// The host's thread, from which launches make other threads.
pub(super) struct Machine {
    host: Thread,
}

impl Machine {
    pub(super) fn new(sizes: HashMap<Var, Scalar>) -> Self {
        Self { host: Thread { vars: sizes, place: BTreeMap::new(), memory: HashMap::new() } }
    }

    pub(super) fn give(&mut self, buffer: &Buffer, elements: Vec<Option<Scalar>>) {
        self.host.memory.insert(buffer.clone(), Rc::new(RefCell::new(elements)));
    }

    pub(super) fn take(&mut self, buffer: &Buffer) -> Vec<Option<Scalar>> {
        self.host.memory.remove(buffer).map(|memory| memory.take()).unwrap_or_default()
    }

    /// Evaluates an expression on the host.
    pub(super) fn host(&self, x: &Expr) -> Result<Scalar, TeError> {
        self.host.value(x)
    }

    pub(super) fn run(&mut self, body: &Stmt) -> Result<(), TeError> {
        let mut threads = vec![self.host.clone()];
        run(body, &mut threads, &[0])
    }
}

/// Runs a statement for the active threads, in lockstep. Each kind of statement has a function of its own. This
/// function calls itself at every level of nesting, so it must use little of the stack.
fn run(statement: &Stmt, threads: &mut Vec<Thread>, active: &[usize]) -> Result<(), TeError> {
    if active.is_empty() {
        return Ok(());
    }
    match statement {
        Stmt::Seq(statements) => statements.iter().try_for_each(|s| run(s, threads, active)),
        Stmt::For { var, extent, body, .. } => repeat(*var, extent, body, threads, active),
        Stmt::If { condition, then } => {
            let inside = those_that_hold(condition, threads, active)?;
            run(then, threads, &inside)
        }
        Stmt::Let { var, value, body } => {
            let before = values(*var, threads, active);
            name(*var, value, threads, active)?;
            run(body, threads, active)?;
            restore(*var, before, threads, active);
            Ok(())
        }
        Stmt::Store { buffer, indices, value } => store(buffer, indices, value, threads, active),
        Stmt::Allocate { buffer, body } => {
            allocate(buffer, threads, active)?;
            run(body, threads, active)
        }
        Stmt::Launch { thread, var, extent, body } => launch((*thread, *var), extent, body, threads, active),
        Stmt::AllReduce(reduce) => all_reduce(reduce, threads, active),
        Stmt::Note { body, .. } => run(body, threads, active),
        Stmt::Barrier | Stmt::Prefetch { .. } => Ok(()),
    }
}

fn repeat(var: Var, extent: &Expr, body: &Stmt, threads: &mut Vec<Thread>, active: &[usize]) -> Result<(), TeError> {
    let extents =
        active.iter().map(|thread| threads[*thread].integer(extent)).collect::<Result<Vec<i64>, TeError>>()?;
    let before = values(var, threads, active);
    for i in 0..extents.iter().copied().max().unwrap_or(0) {
        let inside: Vec<usize> =
            active.iter().zip(&extents).filter(|(_, extent)| i < **extent).map(|(thread, _)| *thread).collect();
        for &thread in &inside {
            threads[thread].vars.insert(var, Scalar::Int(i));
        }
        run(body, threads, &inside)?;
    }
    restore(var, before, threads, active);
    Ok(())
}

/// The values that threads have for a variable.
fn values(var: Var, threads: &[Thread], active: &[usize]) -> Vec<Option<Scalar>> {
    active.iter().map(|thread| threads[*thread].vars.get(&var).copied()).collect()
}

/// Restores a variable's values from before the statement that changed them; it may have had none.
fn restore(var: Var, before: Vec<Option<Scalar>>, threads: &mut [Thread], active: &[usize]) {
    for (&thread, value) in active.iter().zip(before) {
        match value {
            Some(value) => threads[thread].vars.insert(var, value),
            None => threads[thread].vars.remove(&var),
        };
    }
}

fn those_that_hold(condition: &Expr, threads: &[Thread], active: &[usize]) -> Result<Vec<usize>, TeError> {
    let mut inside = Vec::new();
    for &thread in active {
        if threads[thread].value(condition)?.holds() {
            inside.push(thread);
        }
    }
    Ok(inside)
}

fn name(var: Var, value: &Expr, threads: &mut [Thread], active: &[usize]) -> Result<(), TeError> {
    for &thread in active {
        let value = threads[thread].value(value)?;
        threads[thread].vars.insert(var, value);
    }
    Ok(())
}

/// All values are read before any is written, so that writes of other threads at the same time are not seen.
fn store(
    buffer: &Buffer,
    indices: &[Expr],
    value: &Expr,
    threads: &mut [Thread],
    active: &[usize],
) -> Result<(), TeError> {
    let mut writes = Vec::with_capacity(active.len());
    for &thread in active {
        let at = threads[thread].offset(buffer, indices)?;
        writes.push((thread, at, threads[thread].value(value)?.in_type(buffer.dtype())?));
    }
    for (thread, at, value) in writes {
        threads[thread].write(buffer, at, value)?;
    }
    Ok(())
}

/// Allocates private memory of each thread, or memory that the threads of a block share.
fn allocate(buffer: &Buffer, threads: &mut [Thread], active: &[usize]) -> Result<(), TeError> {
    let mut blocks: BTreeMap<Vec<i64>, Memory> = BTreeMap::new();
    for &thread in active {
        let mut len: i64 = 1;
        for extent in &buffer.allocation() {
            len = len.saturating_mul(threads[thread].integer(extent)?.max(0));
        }
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let elements = super::unwritten(len).ok_or_else(|| RunError::Failed {
            reason: format!("there is no memory for {len} elements of {}", buffer.name()),
        })?;
        let fresh = || Rc::new(RefCell::new(elements));
        let block = |index: &Index| matches!(index, Index::Block(_));
        let memory = match buffer.scope() {
            Scope::Local => fresh(),
            Scope::Global => blocks.entry(Vec::new()).or_insert_with(fresh).clone(),
            Scope::Shared | Scope::Warp => {
                let key = threads[thread].place.iter().filter(|(index, _)| block(index)).map(|(_, i)| *i).collect();
                blocks.entry(key).or_insert_with(fresh).clone()
            }
        };
        threads[thread].memory.insert(buffer.clone(), memory);
    }
    Ok(())
}

/// Blocks run one after another; threads of a block run together, even if a block index is inside a thread index.
fn launch(
    (index, var): (Index, Var),
    extent: &Expr,
    body: &Stmt,
    threads: &[Thread],
    active: &[usize],
) -> Result<(), TeError> {
    let mut all = Vec::new();
    for &parent in active {
        all.extend((0..threads[parent].integer(extent)?).map(|i| (i, parent)));
    }
    let is_block = matches!(index, Index::Block(_));
    if is_block {
        all.sort_by_key(|(i, _)| *i);
    }
    let before = contents(index, threads, active);
    let mut copies: HashMap<(i64, MemoryId), Memory> = HashMap::new();
    for group in all.chunk_by(|(a, _), (b, _)| !is_block || a == b) {
        let mut together = Vec::with_capacity(group.len());
        for (i, parent) in group {
            let mut thread = threads[*parent].clone();
            thread.vars.insert(var, Scalar::Int(*i));
            thread.place.insert(index, *i);
            // The first thread continues after the launch, with its memory.
            for (buffer, memory) in thread.memory.iter_mut().filter(|(buffer, _)| *i > 0 && is_private(buffer, index)) {
                let old = Rc::as_ptr(memory);
                let fresh = || Rc::new(RefCell::new(before.get(&old).cloned().unwrap_or_default()));
                // Threads of a block share the memory that was shared before.
                *memory = match buffer.scope() {
                    Scope::Local => fresh(),
                    _ => copies.entry((*i, old)).or_insert_with(fresh).clone(),
                };
            }
            together.push(thread);
        }
        let active: Vec<usize> = (0..together.len()).collect();
        run(body, &mut together, &active)?;
    }
    Ok(())
}

/// Whether threads that differ in an index have separate memory.
fn is_private(buffer: &Buffer, index: Index) -> bool {
    match buffer.scope() {
        Scope::Global => false,
        Scope::Shared | Scope::Warp => matches!(index, Index::Block(_)),
        Scope::Local => true,
    }
}

/// The content, before a launch, of the memory that the launch copies for each thread or block.
fn contents(index: Index, threads: &[Thread], active: &[usize]) -> HashMap<MemoryId, Vec<Option<Scalar>>> {
    let memories = active.iter().flat_map(|thread| &threads[*thread].memory);
    let own = memories.filter(|(buffer, _)| is_private(buffer, index));
    own.map(|(_, memory)| (Rc::as_ptr(memory), memory.borrow().clone())).collect()
}

/// Combines the values of the threads that differ only in the reduced indices.
fn all_reduce(reduce: &AllReduce, threads: &mut [Thread], active: &[usize]) -> Result<(), TeError> {
    let reduced: Vec<Index> = reduce.threads.iter().filter_map(|axis| axis.thread()).collect();
    let mut groups: BTreeMap<Vec<i64>, Vec<usize>> = BTreeMap::new();
    for &thread in active {
        let place = &threads[thread].place;
        let key = place.iter().filter(|(index, _)| !reduced.contains(index)).map(|(_, i)| *i).collect();
        groups.entry(key).or_default().push(thread);
    }
    for members in groups.into_values() {
        let mut total = Vec::new();
        for identity in &reduce.combiner.identity {
            total.push(threads[members[0]].value(identity)?);
        }
        for &member in &members {
            let thread = &mut threads[member];
            if !thread.value(&reduce.condition)?.holds() {
                continue;
            }
            let mut scope = thread.clone();
            for (i, source) in reduce.source.iter().enumerate() {
                scope.vars.insert(reduce.combiner.left[i], total[i]);
                scope.vars.insert(reduce.combiner.right[i], thread.value(source)?);
            }
            total = reduce.combiner.result.iter().map(|x| scope.value(x)).collect::<Result<_, _>>()?;
        }
        for &member in &members {
            for (result, value) in reduce.results.iter().zip(&total) {
                threads[member].write(result, 0, *value)?;
            }
        }
    }
    Ok(())
}

impl Thread {
    fn integer(&self, x: &Expr) -> Result<i64, TeError> {
        self.integer_once(x, &mut Known::default())
    }

    fn integer_once(&self, x: &Expr, known: &mut Known) -> Result<i64, TeError> {
        match self.once(x, known)? {
            Scalar::Int(value) => Ok(value),
            Scalar::Float(_) => Err(RunError::Failed { reason: format!("{} is not an integer", expression(x)) }.into()),
        }
    }

    /// The place of an element in a buffer's memory.
    fn offset(&self, buffer: &Buffer, indices: &[Expr]) -> Result<usize, TeError> {
        self.offset_once(buffer, indices, &mut Known::default())
    }

    fn offset_once(&self, buffer: &Buffer, indices: &[Expr], known: &mut Known) -> Result<usize, TeError> {
        let at = match indices {
            [index] => self.integer_once(index, known)?,
            _ => {
                let mut at: i64 = 0;
                for (index, stride) in indices.iter().zip(buffer.strides()) {
                    let step = self.integer_once(index, known)?.checked_mul(self.integer(stride)?);
                    at = step.and_then(|step| at.checked_add(step)).ok_or(RunError::IntegerRange)?;
                }
                at
            }
        };
        let len = self.memory.get(buffer).map_or(0, |memory| memory.borrow().len());
        usize::try_from(at).ok().filter(|at| *at < len).ok_or_else(|| {
            let index: Vec<String> = indices.iter().map(expression).collect();
            let access = format!("{}[{}]", buffer.name(), index.join(", "));
            let count = i64::try_from(len).unwrap_or(i64::MAX);
            DataError::Element { access, element: at, count }.into()
        })
    }

    fn write(&mut self, buffer: &Buffer, at: usize, value: Scalar) -> Result<(), TeError> {
        let missing = || RunError::Failed { reason: format!("{} has no memory here", buffer.name()) };
        let memory = self.memory.get(buffer).ok_or_else(missing)?;
        if let Some(slot) = memory.borrow_mut().get_mut(at) {
            *slot = Some(value);
        }
        Ok(())
    }

    fn value(&self, x: &Expr) -> Result<Scalar, TeError> {
        self.once(x, &mut Known::default())
    }

    /// The value of a node, computed once however often it is used. Nothing changes while one expression is evaluated.
    fn once(&self, x: &Expr, known: &mut Known) -> Result<Scalar, TeError> {
        if !x.is_met_again() {
            return self.computed(x, known);
        }
        if let Some(value) = known.get(&x.id()) {
            return Ok(*value);
        }
        let value = self.computed(x, known)?;
        known.insert(x.id(), value);
        Ok(value)
    }

    /// Computes a node. Each kind of node has a function of its own. This function calls itself at every level of an
    /// expression, so it must use little of the stack.
    fn computed(&self, x: &Expr, known: &mut Known) -> Result<Scalar, TeError> {
        match x.kind() {
            Kind::Int(_) | Kind::Float(_) | Kind::Var(_) => self.leaf(x),
            Kind::Binary(op, a, b) => self.binary(*op, a, b, known),
            Kind::Not(a) => self.once(a, known).map(|value| Scalar::Int(i64::from(!value.holds()))),
            Kind::Select(c, a, b) => self.once(c, known).and_then(|c| self.once(if c.holds() { a } else { b }, known)),
            Kind::Cast(a) => self.once(a, known).and_then(|value| value.in_type(x.dtype())),
            Kind::Likely(a) => self.once(a, known),
            Kind::Apply(op, operands) => self.apply(*op, operands, x.dtype(), known),
            Kind::Call(function, operands) => self.call(function, operands, x.dtype(), known),
            Kind::Load(buffer, indices) => self.load(buffer, indices, known),
            Kind::Read(..) | Kind::Reduce(..) => Err(LoweringError::NotLowered { what: expression(x) }.into()),
            Kind::Invalid(error) => Err(error.clone()),
        }
    }

    fn leaf(&self, x: &Expr) -> Result<Scalar, TeError> {
        match x.kind() {
            Kind::Int(value) => Ok(Scalar::Int(*value)),
            Kind::Float(value) => Scalar::constant(*value, x.dtype()),
            Kind::Var(var) => {
                let missing = || LoweringError::Unbound { variable: var.name().to_owned() }.into();
                self.vars.get(var).copied().ok_or_else(missing)
            }
            _ => Err(TeError::Internal { what: format!("{} has operands", expression(x)) }),
        }
    }

    fn binary(&self, op: Binary, a: &Expr, b: &Expr, known: &mut Known) -> Result<Scalar, TeError> {
        let first = self.once(a, known)?;
        if matches!(op, Binary::And | Binary::Or) {
            return if first.holds() == (op == Binary::And) { self.once(b, known) } else { Ok(first) };
        }
        Scalar::binary(op, first, self.once(b, known)?, a.dtype())
    }

    fn apply(&self, op: Op, operands: &[Expr], dtype: DType, known: &mut Known) -> Result<Scalar, TeError> {
        let operands = operands.iter().map(|x| self.once(x, known).map(Scalar::to_f64));
        Scalar::apply(op, &operands.collect::<Result<Vec<_>, _>>()?, dtype)
    }

    fn call(&self, function: &Function, operands: &[Expr], dtype: DType, known: &mut Known) -> Result<Scalar, TeError> {
        let operands = operands.iter().map(|x| self.once(x, known)).collect::<Result<Vec<_>, _>>()?;
        call(function, &operands, dtype)
    }

    fn load(&self, buffer: &Buffer, indices: &[Expr], known: &mut Known) -> Result<Scalar, TeError> {
        let at = self.offset_once(buffer, indices, known)?;
        let memory = self.memory.get(buffer).and_then(|memory| memory.borrow().get(at).copied().flatten());
        memory.ok_or_else(|| {
            RunError::Failed { reason: format!("{} is read at element {at}, which was not written", buffer.name()) }
                .into()
        })
    }
}

/// An elementwise function, by its definition: computed in the arithmetic type, and rounded once to the element type.
fn call(function: &Function, operands: &[Scalar], dtype: DType) -> Result<Scalar, TeError> {
    let real = if dtype == DType::from(ElementType::F64) { dtype } else { DType::F32 };
    let mut values: Vec<Scalar> = Vec::new();
    let expression = match function.body() {
        Body::Primitive(op) => {
            let operands: Vec<f64> = operands.iter().map(|x| x.to_f64()).collect();
            return Scalar::apply(*op, &operands, dtype);
        }
        Body::Expression(expression) => expression,
    };
    for node in expression.nodes() {
        let value = match node {
            ExprNode::Parameter(place) => operands[*place],
            ExprNode::Literal(value) => Scalar::constant(*value, real)?,
            ExprNode::Apply(Op::Select, ids) => {
                values[if values[ids[0].index()].holds() { ids[1] } else { ids[2] }.index()]
            }
            ExprNode::Apply(op, ids) if op.is_comparison() => {
                let (a, b) = (values[ids[0].index()].to_f64(), values[ids[1].index()].to_f64());
                Scalar::Int(i64::from(crate::expr::fold::compare(*op, a, b).unwrap_or(false)))
            }
            ExprNode::Apply(op, ids) => {
                let operands: Vec<f64> = ids.iter().map(|id| values[id.index()].to_f64()).collect();
                Scalar::apply(*op, &operands, real)?
            }
            ExprNode::Call(inner, ids) => {
                let operands: Vec<Scalar> = ids.iter().map(|id| values[id.index()]).collect();
                call(inner, &operands, real)?
            }
            // In the language of epilogues a cast to an integer rounds; in a tensor expression it truncates.
            ExprNode::Cast(element, id) if !element.is_float() => {
                let rounded = Scalar::Float(values[id.index()].to_f64().round_ties_even());
                Scalar::Float(rounded.in_type((*element).into())?.to_f64()).in_type(real)?
            }
            ExprNode::Cast(element, id) => values[id.index()].in_type((*element).into())?,
        };
        values.push(value);
    }
    values[expression.root().index()].in_type(dtype)
}
