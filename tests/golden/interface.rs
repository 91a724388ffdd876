// What users can name: `cargo xtask interface > tests/golden/interface.rs` writes it.

// epilogue

#[derive(Debug)]
pub enum Argument<'a> {
    Scalar(f64),
    Seed(u64, u64),
    Input(&'a DeviceTensor),
    Output(&'a mut DeviceTensor),
}
impl<'a> Argument<'a> {
    #[must_use]
    pub fn seed(seed: Seed<'a>) -> Self {}
}
impl<'a> From<&'a DeviceTensor> for Argument<'a> {}
impl<'a> From<&'a mut DeviceTensor> for Argument<'a> {}
impl<'a> From<Seed<'a>> for Argument<'a> {}
pub trait Arguments<'a> {
    fn arguments(self) -> Vec<Argument<'a>>;
}
#[derive(Debug)]
pub struct Borrowed<'a>(_, _);
impl<'a> Fields for Borrowed<'a> {}
pub trait Epilogue {
    type Arguments<'a>: Arguments<'a>;
    fn tree() -> Tree;
}
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    Tree(TreeError),
    Runtime(epilogue_runtime::Error),
    Patches(super::patch_error::PatchError),
    Reference(crate::evt::reference::ReferenceError),
    Rows(RowsError),
    Scales(ScaleError),
    Scatter(ScatterError),
    NoOutput { name: String, outputs: Vec<&'static str> },
    OutsideBounds(super::comparison::Comparison),
    OperandRank { operand: &'static str, shape: Vec<usize> },
    InnerExtents { a: Vec<usize>, b: Vec<usize> },
    BatchExtents { a: usize, b: usize },
    SeedTensor { name: &'static str, element: ElementType, shape: Vec<usize> },
    RandomRows { rows: usize, batches: usize },
    NoPacking { device: String },
    PackedStrides { shape: Vec<usize>, strides: Vec<isize> },
    OtherPacking { given: String, needed: String },
    NoRight,
    RightCount { epilogue: &'static str, given: usize, names: Vec<&'static str> },
    RightElements { place: usize, given: ElementType, needed: ElementType },
    RightShapes { place: usize, given: Vec<usize>, needed: Vec<usize> },
    RightBatches { place: usize, given: usize, needed: usize },
    RightMajors { place: usize, given: &'static str, of: usize, needed: &'static str },
    GroupBounds { name: &'static str, given: Vec<usize>, needed: &'static str },
    GroupBoundsElement { name: &'static str, given: ElementType },
    GroupedMatrix { name: &'static str, given: Vec<usize>, groups: usize },
    GroupedDepth { operand: &'static str, given: Vec<usize> },
    GroupCount { place: usize, given: usize, groups: usize },
    GroupBound {
        name: &'static str,
        place: usize,
        given: i32,
        least: usize,
        rows: usize,
        along: &'static str,
    },
    GroupedReduction { name: &'static str, what: &'static str, advice: &'static str },
    GroupedPhases { epilogue: &'static str, divided: Divided },
    NotInTile { epilogue: &'static str, reason: String },
    NotInCluster { epilogue: &'static str, reason: String },
    BeyondTile {
        epilogue: &'static str,
        within: &'static str,
        tile_m: usize,
        tile_n: usize,
        m: usize,
        n: usize,
        lines: &'static str,
    },
    NothingToFinish { epilogue: &'static str },
    OtherGrouping { planned: Divided, given: Divided },
    ExtentTooLarge { axis: &'static str, extent: usize, limit: usize },
    TooManyBlocks { blocks: u128, limit: u128 },
    OperandTypes {
        a: ElementType,
        b: ElementType,
        device: String,
        advice: &'static str,
    },
    OperandElement { operand: &'static str, given: ElementType, needed: ElementType },
    Arithmetic {
        arithmetic: Arithmetic,
        needed: &'static str,
        operand: &'static str,
        given: ElementType,
    },
    CopyBytes { operand: &'static str, given: usize, element: ElementType },
    Tile { instruction: String, tile: String, allowed: String },
    Count { what: &'static str, given: usize, least: usize, most: usize },
    NoKnob { knob: Knob, device: String, reason: &'static str },
    Knob { knob: &'static str, given: String, allowed: String },
    NoKernel { kernel: String, reason: &'static str },
    NoLaunch { device: String, reason: &'static str },
    NoTile { reason: String },
    TooManyArguments { bytes: usize, limit: usize },
    ArgumentCount { epilogue: &'static str, given: usize, names: Vec<&'static str> },
    ArgumentNames {
        mistake: NameMistake,
        epilogue: &'static str,
        names: Vec<&'static str>,
    },
    ArgumentKind { name: &'static str, given: &'static str, needed: &'static str },
    ArgumentShape { name: &'static str, given: Vec<usize>, needed: String },
    ArgumentAxes {
        name: &'static str,
        axis: &'static str,
        needed: usize,
        given: Box<AxisList>,
    },
    ArgumentDigits {
        name: &'static str,
        shape: Vec<usize>,
        strides: Vec<isize>,
        what: &'static str,
        advice: &'static str,
    },
    BitsShape { name: &'static str, given: Vec<usize>, needed: String, columns: usize },
    ArgumentElement {
        name: &'static str,
        epilogue: &'static str,
        given: ElementType,
        needed: ElementType,
        advice: String,
    },
    ForeignDevice { name: &'static str, given: String, needed: String },
    OutputsOverlap { first: &'static str, second: &'static str },
    OutputRepeats { name: &'static str },
    OutputAliasesInput { output: &'static str, input: &'static str },
    BatchPartials { name: &'static str },
    NoBatches { name: &'static str },
    NoClock { device: String },
    Incomplete { what: &'static str, method: &'static str },
    NoPartials { name: String, epilogue: &'static str },
    ForeignStream { given: String, needed: String },
}
pub trait Fields {
    type Input;
    type Seed;
    type Output;
}
pub struct Gemm<E = ()> {}
#[derive(Clone, Copy, Debug)]
pub struct Seed<'a>(_);
#[derive(Debug)]
pub enum Unborrowed {}
impl Fields for Unborrowed {}
#[derive(Clone, Copy, Debug)]
pub struct Unset;
pub use epilogue_macros::epilogue_closure as epilogue;
pub use epilogue_runtime::Arch;
pub use epilogue_runtime::DataError;
pub use epilogue_runtime::Device;
pub use epilogue_runtime::DeviceTensor;
pub use epilogue_runtime::Element;
pub use epilogue_runtime::ElementType;
pub use epilogue_runtime::Event;
pub use epilogue_runtime::Graph;
pub use epilogue_runtime::Kernel;
pub use epilogue_runtime::PlainElement;
pub use epilogue_runtime::Source;
pub use epilogue_runtime::Stream;
pub use epilogue_runtime::bundle;
pub use epilogue_runtime::f8e4m3;
pub use epilogue_runtime::f8e5m2;
pub use epilogue_runtime as runtime;

// epilogue::distributed

pub struct ColumnParallel<E = ()> {}
impl<E: Epilogue> ColumnParallel<E> {
    pub fn run<'a, 'b>(
        &self,
        a: &DeviceTensor,
        b: impl Into<Right<'b>>,
        arguments: E::Arguments<'a>,
    ) -> Result<(), Error> {}
    pub fn run_on<'a, 'b>(
        &self,
        stream: &Stream,
        a: &DeviceTensor,
        b: impl Into<Right<'b>>,
        arguments: E::Arguments<'a>,
    ) -> Result<(), Error> {}
}
impl<E> ColumnParallel<E> {
    #[must_use]
    pub fn chunks(&self) -> usize {}
    #[must_use]
    pub fn product(&self) -> &Gemm<()> {}
}
impl<E> fmt::Debug for ColumnParallel<E> {}
impl ColumnParallel {
    pub fn plan<'b, E: Epilogue>(
        device: &Device,
        ranks: &Communicator,
        a: &DeviceTensor,
        b: impl Into<Right<'b>>,
    ) -> Result<ColumnParallel<E>, Error> {}
    pub fn plan_with<'b, E: Epilogue>(
        device: &Device,
        ranks: &Communicator,
        a: &DeviceTensor,
        b: impl Into<Right<'b>>,
        settings: ColumnSettings,
    ) -> Result<ColumnParallel<E>, Error> {}
}
#[derive(Clone, Copy, Debug, Default)]
pub struct ColumnSettings {}
impl ColumnSettings {
    #[must_use]
    pub fn gather_rows(self, gather_rows: bool) -> Self {}
    #[must_use]
    pub fn chunks(self, chunks: usize) -> Self {}
    #[must_use]
    pub fn arithmetic(self, arithmetic: Arithmetic) -> Self {}
    #[must_use]
    pub fn always_agree(self, always_agree: bool) -> Self {}
}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combine {
    AllReduce,
    ReduceScatter,
}
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    Gemm(gemm::Error),
    Runtime(runtime::Error),
    Matrix { operand: &'static str, shape: Vec<usize> },
    Rows { rows: usize, ranks: usize },
    Integers { element: ElementType },
    Local {
        epilogue: &'static str,
        what: String,
        part: &'static str,
        advice: &'static str,
    },
    Before { epilogue: &'static str, what: String },
    Chunks { epilogue: &'static str, chunks: usize, what: String },
    Name { name: &'static str },
}
impl From<runtime::CommunicatorError> for Error {}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    After,
    Before,
}
pub struct RowParallel<E = ()> {}
impl<E: Epilogue> RowParallel<E> {
    pub fn run<'a, 'b>(
        &self,
        a: &DeviceTensor,
        b: impl Into<Right<'b>>,
        arguments: E::Arguments<'a>,
    ) -> Result<(), Error> {}
    pub fn run_on<'a, 'b>(
        &self,
        stream: &Stream,
        a: &DeviceTensor,
        b: impl Into<Right<'b>>,
        arguments: E::Arguments<'a>,
    ) -> Result<(), Error> {}
}
impl<E> RowParallel<E> {
    #[must_use]
    pub fn chunks(&self) -> usize {}
    #[must_use]
    pub fn product(&self) -> &Gemm<()> {}
    #[must_use]
    pub fn epilogue(&self) -> Option<&Gemm<()>> {}
}
impl<E> fmt::Debug for RowParallel<E> {}
impl RowParallel {
    pub fn plan<'b, E: Epilogue>(
        device: &Device,
        ranks: &Communicator,
        a: &DeviceTensor,
        b: impl Into<Right<'b>>,
    ) -> Result<RowParallel<E>, Error> {}
    pub fn plan_with<'b, E: Epilogue>(
        device: &Device,
        ranks: &Communicator,
        a: &DeviceTensor,
        b: impl Into<Right<'b>>,
        settings: RowSettings,
    ) -> Result<RowParallel<E>, Error> {}
}
#[derive(Clone, Copy, Debug, Default)]
pub struct RowSettings {}
impl RowSettings {
    #[must_use]
    pub fn combine(self, combine: Combine) -> Self {}
    #[must_use]
    pub fn place(self, place: Place) -> Self {}
    #[must_use]
    pub fn chunks(self, chunks: usize) -> Self {}
    #[must_use]
    pub fn arithmetic(self, arithmetic: Arithmetic) -> Self {}
    #[must_use]
    pub fn always_agree(self, always_agree: bool) -> Self {}
}
pub use epilogue_runtime::Communicator;
pub use epilogue_runtime::CommunicatorError;
pub use epilogue_runtime::LaunchedRank;
pub use epilogue_runtime::Rendezvous;

// epilogue::evt

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    Row,
    Column,
    All,
}
impl Axis {
    #[must_use]
    pub const fn result_class(self) -> BroadcastClass {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BroadcastClass {
    Scalar,
    RowVector,
    ColumnVector,
    Tensor,
}
impl BroadcastClass {
    #[must_use]
    pub fn join(self, other: Self) -> Self {}
    #[must_use]
    pub const fn name(self) -> &'static str {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Composed {
    pub axis: Axis,
    pub batch: bool,
    pub op: ComposedOp,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComposedOp {
    Any,
    All,
    Mean,
    Variance,
    LogSumExp,
}
impl ComposedOp {
    pub const ALL: [Self; 5] = _;
    #[must_use]
    pub const fn name(self) -> &'static str {}
    #[must_use]
    pub const fn length(self) -> usize {}
    #[must_use]
    pub const fn of_truths(self) -> bool {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cost {
    pub accumulators: usize,
    pub loads: usize,
    pub stores: usize,
    pub packed: usize,
    pub bytes_read: usize,
    pub bytes_written: usize,
    pub row_vectors: usize,
    pub column_vectors: usize,
    pub device_scalars: usize,
    pub row_reductions: usize,
    pub column_reductions: usize,
    pub all_reductions: usize,
    pub simple_operations: usize,
    pub costly_operations: usize,
    pub later_sweeps: usize,
    pub element_registers: usize,
    pub scalar_registers: usize,
    pub row_vector_registers: usize,
    pub column_vector_registers: usize,
}
impl Cost {
    #[must_use]
    pub const fn products(&self) -> usize {}
    #[must_use]
    pub const fn bytes_per_element(&self) -> usize {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    Complete,
    Partial,
}
#[derive(Clone, Debug, PartialEq)]
pub struct InTile {}
impl InTile {
    #[must_use]
    pub fn of(tree: &ValidTree) -> Option<Self> {}
    #[must_use]
    pub const fn tree(&self) -> &ValidTree {}
    #[must_use]
    pub const fn lines(&self) -> WholeLines {}
    #[must_use]
    pub const fn sweeps(&self) -> usize {}
}
pub const MAX_ACCUMULATORS: usize = _;
pub const MAX_CHAIN: usize = _;
pub const MAX_WORDS: usize = _;
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Mistake {
    NothingReturned,
    Accumulators { given: usize },
    Derivative { reason: String },
    UndefinedOperand { what: String },
    UndefinedParameter { index: usize },
    Arity { function: String, needed: usize, given: usize },
    TruthValue { what: String },
    NumericCondition { what: String },
    NoTruthValue { operator: &'static str, what: String },
    MixedTypes { integer: String, number: String },
    IntegerGiven { function: String, what: String },
    IntegerOfValue { what: String },
    NoIntegers { name: &'static str, element: ElementType, class: ParameterClass },
    SeedAsValue { name: String },
    NoSeed { what: String },
    SeedElement { name: &'static str, element: ElementType },
    BitsElement { name: &'static str, element: ElementType },
    NoTruthPacked { name: &'static str },
    RealOfNumber { what: String },
    CastToBool { what: String },
    TruthReturned { name: &'static str, element: ElementType },
    IntegerReturned { name: &'static str, element: ElementType },
    NumberReturned { name: &'static str },
    MalformedFunction { function: &'static str, reason: String },
    LiteralOverflow { value: f64, real: Real },
    PartialsUsed { what: String, side: &'static str },
    LatePartials { what: String, of: String, side: &'static str },
    Reducer { name: &'static str, reason: String },
    ReductionChain { what: String, before: String },
    ComposedChain { what: String, op: &'static str, length: usize, before: String },
    ReducedAgain { what: String, class: BroadcastClass },
    IndexOfBatch { what: String },
    Partial { what: String, reason: &'static str },
    OutputClass { name: &'static str, declared: BroadcastClass, actual: BroadcastClass },
    DuplicateName { name: &'static str },
    ParameterReturned { name: &'static str, class: ParameterClass },
    TensorMutNotReturned { name: &'static str },
    TensorMutElement { name: &'static str, read: ElementType, written: ElementType },
    ScalarElement { name: &'static str, element: ElementType, real: Real },
    PartialElement { name: &'static str, element: ElementType, real: Real },
    OperandTypes {
        a: ElementType,
        b: ElementType,
        accumulator: ElementType,
        reason: &'static str,
    },
}
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Accum(usize),
    Load(ParameterId),
    Broadcast(ParameterId),
    Literal(f64),
    Integer(i64),
    Position(Position),
    Random(NodeId, u32),
    Apply(Op, SmallVec<[NodeId; 3]>),
    Logic(Logic, SmallVec<[NodeId; 3]>),
    ToInteger(NodeId),
    ToReal(NodeId),
    Call(&'static Function, SmallVec<[NodeId; 3]>),
    Cast(ElementType, NodeId),
    Reduce(Reduction, NodeId),
    Composed(Composed, NodeId),
}
impl Node {
    #[must_use]
    pub fn operands(&self) -> &[NodeId] {}
}
#[derive(Clone, Debug, PartialEq)]
pub struct NodeData {
    pub node: Node,
    pub name: Option<&'static str>,
    pub site: Site,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) _);
impl NodeId {
    #[must_use]
    pub const fn index(self) -> usize {}
}
pub type Operands = SmallVec<[ValueId; 3]>;
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub name: &'static str,
    pub node: NodeId,
    pub class: BroadcastClass,
    pub element: Option<ElementType>,
    pub packed: bool,
    pub parameter: Option<ParameterId>,
    pub site: Site,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputId(pub(crate) _);
impl OutputId {
    #[must_use]
    pub const fn index(self) -> usize {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputKind {
    Store,
    Reduce(Reduction),
}
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    pub name: &'static str,
    pub class: ParameterClass,
    pub element: Option<ElementType>,
    pub site: Site,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParameterClass {
    Tensor,
    TensorMut,
    RowVector,
    ColumnVector,
    Scalar,
    DeviceScalar,
    Seed,
    Bits,
}
impl ParameterClass {
    #[must_use]
    pub const fn broadcast_class(self) -> BroadcastClass {}
    #[must_use]
    pub const fn name(self) -> &'static str {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParameterId(pub(crate) _);
impl ParameterId {
    #[must_use]
    pub const fn index(self) -> usize {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    Row,
    Column,
    Batch,
    Rows,
    Columns,
}
impl Position {
    #[must_use]
    pub const fn class(self) -> BroadcastClass {}
    #[must_use]
    pub const fn name(self) -> &'static str {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    Add,
    Mul,
    Max,
    Min,
    AbsMax,
    SumSquares,
    ArgMax,
    ArgMin,
    User(&'static Reducer),
}
impl ReduceOp {
    #[must_use]
    pub const fn gives_index(self) -> bool {}
    #[must_use]
    pub const fn user(self) -> Option<&'static Reducer> {}
    #[must_use]
    pub const fn name(self) -> &'static str {}
}
#[derive(Clone, Debug)]
pub struct Reducer {}
impl Eq for Reducer {}
impl Hash for Reducer {}
impl PartialEq for Reducer {}
impl Reducer {
    #[must_use]
    pub fn new(
        name: &'static str,
        identity: &[f64],
        lift: Vec<Function>,
        combine: Vec<Function>,
        finish: Function,
    ) -> Self {}
    #[must_use]
    pub const fn name(&self) -> &'static str {}
    #[must_use]
    pub const fn words(&self) -> usize {}
    #[must_use]
    pub fn identity(&self) -> &[f64] {}
    #[must_use]
    pub fn lift(&self) -> &[Function] {}
    #[must_use]
    pub fn combine(&self) -> &[Function] {}
    #[must_use]
    pub const fn finish(&self) -> &Function {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reduction {
    pub axis: Axis,
    pub batch: bool,
    pub op: ReduceOp,
    pub form: Form,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Site {
    pub line: u32,
    pub column: u32,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {}
impl Tree {
    #[must_use]
    pub fn name(&self) -> &'static str {}
    #[must_use]
    pub fn file(&self) -> &'static str {}
    #[must_use]
    pub fn accumulators(&self) -> &[&'static str] {}
    #[must_use]
    pub fn nodes(&self) -> &[NodeData] {}
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {}
    #[must_use]
    pub fn outputs(&self) -> &[Output] {}
}
impl Tree {
    pub fn validate(&self, types: Types) -> Result<ValidTree, TreeError> {}
}
#[derive(Debug)]
pub struct TreeBuilder {}
impl TreeBuilder {
    #[must_use]
    pub fn new(name: &'static str, file: &'static str) -> Self {}
    pub fn at(&mut self, line: u32, column: u32) -> &mut Self {}
    pub fn accum(&mut self, name: &'static str) -> NodeId {}
    pub fn parameter(
        &mut self,
        name: &'static str,
        class: ParameterClass,
        element: Option<ElementType>,
    ) -> NodeId {}
    pub fn literal(&mut self, value: f64) -> NodeId {}
    pub fn integer_literal(&mut self, value: i64) -> NodeId {}
    pub fn position(&mut self, position: Position) -> NodeId {}
    pub fn random(&mut self, seed: NodeId, stream: u32) -> NodeId {}
    pub fn integer(&mut self, parameter: NodeId) -> NodeId {}
    pub fn real(&mut self, x: NodeId) -> NodeId {}
    pub fn logic(&mut self, logic: Logic, operands: &[NodeId]) -> NodeId {}
    pub fn apply(&mut self, op: Op, operands: &[NodeId]) -> NodeId {}
    pub fn call(&mut self, function: &'static Function, operands: &[NodeId]) -> NodeId {}
    pub fn cast(&mut self, to: ElementType, x: NodeId) -> NodeId {}
    pub fn reduce(&mut self, reduction: Reduction, x: NodeId) -> NodeId {}
    pub fn compose(&mut self, composed: Composed, x: NodeId) -> NodeId {}
    pub fn name(&mut self, id: NodeId, name: &'static str) {}
    pub fn output(
        &mut self,
        name: &'static str,
        node: NodeId,
        class: BroadcastClass,
        element: Option<ElementType>,
    ) {}
    pub fn output_bits(&mut self, name: &'static str, node: NodeId) {}
    #[must_use]
    pub fn finish(self) -> Tree {}
}
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct TreeError {
    pub epilogue: &'static str,
    pub file: &'static str,
    pub site: Site,
    pub mistake: Mistake,
}
impl fmt::Display for TreeError {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Types {
    pub a: ElementType,
    pub b: ElementType,
    pub accumulator: ElementType,
}
impl Types {
    #[must_use]
    pub const fn new(a: ElementType, b: ElementType) -> Self {}
    #[must_use]
    pub const fn real(self) -> Real {}
}
#[derive(Clone, Debug, PartialEq)]
pub struct ValidOutput {
    pub name: &'static str,
    pub value: ValueId,
    pub kind: OutputKind,
    pub class: BroadcastClass,
    pub element: ElementType,
    pub packed: bool,
    pub parameter: Option<ParameterId>,
    pub site: Site,
}
impl ValidOutput {
    #[must_use]
    pub const fn reduction(&self) -> Option<Reduction> {}
    #[must_use]
    pub fn is_partial(&self) -> bool {}
}
#[derive(Clone, Debug, PartialEq)]
pub struct ValidParameter {
    pub name: &'static str,
    pub class: ParameterClass,
    pub element: ElementType,
    pub value: Option<ValueId>,
    pub site: Site,
}
#[derive(Clone, Debug, PartialEq)]
pub struct ValidTree {}
impl ValidTree {
    #[must_use]
    pub const fn name(&self) -> &'static str {}
    #[must_use]
    pub const fn file(&self) -> &'static str {}
    #[must_use]
    pub const fn types(&self) -> Types {}
    #[must_use]
    pub fn has_chance(&self) -> bool {}
    #[must_use]
    pub fn has_bits(&self) -> bool {}
    #[must_use]
    pub const fn real(&self) -> Real {}
    #[must_use]
    pub fn values(&self) -> &[Value] {}
    pub fn enumerate(&self) -> impl Iterator<Item = (ValueId, &Value)> {}
    #[must_use]
    pub fn value(&self, id: ValueId) -> &Value {}
    #[must_use]
    pub fn parameters(&self) -> &[ValidParameter] {}
    #[must_use]
    pub fn parameter(&self, id: ParameterId) -> &ValidParameter {}
    #[must_use]
    pub fn outputs(&self) -> &[ValidOutput] {}
    #[must_use]
    pub fn output(&self, name: &str) -> Option<&ValidOutput> {}
    pub fn argument_names(&self) -> impl Iterator<Item = &'static str> {}
    #[must_use]
    pub fn output_argument(&self, output: usize) -> usize {}
    #[must_use]
    pub fn accumulators(&self) -> &[&'static str] {}
    pub fn live_accumulators(&self) -> impl Iterator<Item = usize> {}
    #[must_use]
    pub fn multiplies(&self) -> bool {}
    pub fn loads(&self) -> impl Iterator<Item = (ParameterId, ValueId)> {}
    pub fn broadcasts(&self) -> impl Iterator<Item = (ParameterId, ValueId)> {}
    pub fn stores(&self) -> impl Iterator<Item = (usize, &ValidOutput)> {}
    pub fn reductions(&self) -> impl Iterator<Item = (usize, &ValidOutput, Reduction)> {}
    #[must_use]
    pub fn keeps_integers(&self, output: &ValidOutput) -> bool {}
    #[must_use]
    pub fn kept_integers(&self, output: &ValidOutput) -> Option<usize> {}
    #[must_use]
    pub fn reduces(&self, axis: Axis) -> bool {}
    #[must_use]
    pub fn guard(&self, parameter: ParameterId) -> Option<&[ValueId]> {}
    #[must_use]
    pub fn phases(&self) -> usize {}
    #[must_use]
    pub const fn cost(&self) -> &Cost {}
}
impl ValidTree {
    #[must_use]
    pub fn to_dot(&self) -> String {}
}
impl ValidTree {
    #[must_use]
    pub fn to_svg(&self) -> String {}
}
impl Values for ValidTree {}
impl fmt::Display for ValidTree {}
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub kind: ValueKind,
    pub ty: ValueType,
    pub class: BroadcastClass,
    pub name: String,
    pub user_name: Option<&'static str>,
    pub site: Site,
    pub uses: usize,
    pub phase: usize,
    pub significand: u32,
}
impl Value {
    #[must_use]
    pub const fn is_leaf(&self) -> bool {}
    #[must_use]
    pub const fn registers(&self) -> usize {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub(crate) _);
impl ValueId {
    #[must_use]
    pub const fn index(self) -> usize {}
}
#[derive(Clone, Debug, PartialEq)]
pub enum ValueKind {
    Accum(usize),
    Load(ParameterId),
    Broadcast(ParameterId),
    Literal(f64),
    Integer(i64),
    Position(Position),
    Random(ValueId, u32),
    Logic(Logic, Operands),
    ToReal(ValueId),
    Apply(Op, Operands),
    Scaled { scalar: ValueId, x: ValueId },
    Call(&'static Function, Operands),
    Cast(ElementType, ValueId),
    Reduce(Reduction, ValueId),
}
impl ValueKind {
    #[must_use]
    pub fn operands(&self) -> Operands {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    Real(Real),
    Integer(Width),
    Bool,
    Seed,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct WholeLines {
    pub rows: bool,
    pub columns: bool,
}
impl WholeLines {
    #[must_use]
    pub const fn fit(self, _: (usize, usize), _: (usize, usize)) -> bool {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    Bits32,
    Bits64,
}
impl Width {
    #[must_use]
    pub const fn element(self) -> ElementType {}
}

// epilogue::evt::derive

#[derive(Clone, Debug)]
#[must_use]
pub struct Backward<'t> {}
impl<'t> Backward<'t> {
    pub fn of(forward: &'t Tree, through: &str) -> Self {}
    pub fn given(self, output: &str) -> Self {}
    pub fn saved(self, output: &str) -> Self {}
    pub fn gradient(self, parameter: &str) -> Self {}
    pub fn gradient_of_all(self, parameter: &str) -> Self {}
    pub fn all_parameters(self) -> Self {}
    pub fn tree(&self) -> Result<Tree, DeriveError> {}
}
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeriveError {
    Forward(TreeError),
    NoOutput { name: String, epilogue: &'static str, outputs: Vec<&'static str> },
    NoParameter { name: String, epilogue: &'static str, parameters: Vec<&'static str> },
    Output { name: &'static str, is: &'static str, advice: &'static str },
    NoGradient { name: &'static str, class: &'static str },
    BatchAlone { name: &'static str },
    Twice { name: String },
    Overwritten { name: &'static str },
    NameTaken { of: &'static str, name: &'static str },
    NoInfluence { name: &'static str },
    Accumulator { name: &'static str },
    Nothing { through: &'static str },
    Reduction { what: String, advice: &'static str },
    VectorSum { what: String, over: &'static str },
}

// epilogue::evt::reference

#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    Scalar(f64),
    Seed(u64, u64),
    Array(Array<'a>),
}
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    pub values: &'a [f64],
    pub offset: usize,
    pub strides: [isize; 3],
}
impl<'a> Array<'a> {
    #[must_use]
    pub fn packed(
        values: &'a [f64],
        class: BroadcastClass,
        extent: Extent,
        batched: bool,
    ) -> Self {}
}
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    pub low: f64,
    pub high: f64,
    pub nan: bool,
}
impl Bounds {
    #[must_use]
    pub const fn exact(x: f64) -> Self {}
    #[must_use]
    pub fn around(x: f64, error: f64) -> Self {}
    #[must_use]
    pub fn admit(&self, x: f64) -> bool {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    pub images: usize,
    pub inputs: [usize; 3],
    pub outputs: [usize; 3],
    pub channels: usize,
    pub groups: usize,
    pub window: [usize; 3],
    pub stride: [usize; 3],
    pub before: [usize; 3],
    pub dilation: [usize; 3],
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    pub m: usize,
    pub n: usize,
    pub l: usize,
}
impl Extent {
    #[must_use]
    pub const fn len(self) -> usize {}
    #[must_use]
    pub const fn is_empty(self) -> bool {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups<'a> {
    pub rows: &'a [Range<usize>],
    pub of_one_matrix: bool,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Multiplication {
    Exact,
    Tf32,
    FastBf16,
    FastFp8,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    pub tile: Option<(usize, usize)>,
    pub fast_math: bool,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub name: &'static str,
    pub shape: Vec<usize>,
    pub packed: bool,
    pub values: Vec<f64>,
    pub bounds: Vec<Bounds>,
}
impl Output {
    #[must_use]
    pub fn first_wrong(&self, results: &[f64]) -> Option<Wrong> {}
}
#[derive(Clone, Debug, PartialEq)]
pub struct Product {
    pub extent: Extent,
    pub values: Vec<f64>,
    pub errors: Vec<f64>,
}
impl Product {
    #[must_use]
    pub fn exact(extent: Extent, values: Vec<f64>) -> Self {}
    pub fn of_groups(
        types: Types,
        multiplication: Multiplication,
        extent: Extent,
        k: usize,
        _: (&Array<'_>, &Array<'_>),
        groups: Groups<'_>,
    ) -> Result<Self, ReferenceError> {}
    pub fn of_depths(
        types: Types,
        multiplication: Multiplication,
        extent: Extent,
        _: (&Array<'_>, &Array<'_>),
        depths: &[Range<usize>],
    ) -> Result<Self, ReferenceError> {}
    pub fn new(
        types: Types,
        multiplication: Multiplication,
        extent: Extent,
        k: usize,
        a: &Array<'_>,
        b: &Array<'_>,
    ) -> Result<Self, ReferenceError> {}
}
impl Product {
    pub fn of_convolution(
        types: Types,
        multiplication: Multiplication,
        convolution: &Convolution,
        images: &[f64],
        b: &Array<'_>,
        n: usize,
    ) -> Result<Self, ReferenceError> {}
}
impl Product {
    pub fn of_input_gradient(
        types: Types,
        multiplication: Multiplication,
        convolution: &Convolution,
        _: (&[f64], usize),
        b: &Array<'_>,
        n: usize,
    ) -> Result<Self, ReferenceError> {}
    pub fn of_filter_gradient(
        types: Types,
        multiplication: Multiplication,
        convolution: &Convolution,
        images: &[f64],
        b: &Array<'_>,
        n: usize,
    ) -> Result<Self, ReferenceError> {}
}
impl Product {
    pub fn of_scaled(
        types: Types,
        extent: Extent,
        k: usize,
        _: (&Array<'_>, &Array<'_>),
        scales: Scales<'_>,
        groups: Option<Groups<'_>>,
    ) -> Result<Self, ReferenceError> {}
}
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReferenceError {
    Arguments { given: usize, needed: usize },
    Kind { name: &'static str },
    Element { name: &'static str, index: [usize; 3] },
    Products { given: usize, needed: usize },
    Accumulator { given: usize, needed: usize },
    Tile { name: &'static str },
}
#[derive(Clone, Copy, Debug)]
pub struct Scales<'a> {
    pub a: Array<'a>,
    pub b: Array<'a>,
}
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wrong {
    pub place: usize,
    pub result: f64,
    pub value: f64,
    pub bounds: Bounds,
}
#[must_use]
pub fn decode(element: ElementType, bytes: &[u8]) -> Vec<f64> {}
#[must_use]
pub fn encode(element: ElementType, values: &[f64]) -> Vec<u8> {}
pub fn evaluate(
    tree: &ValidTree,
    products: &[Product],
    arguments: &[Argument<'_>],
    options: Options,
) -> Result<Vec<Output>, ReferenceError> {}
pub fn evaluate_grouped(
    tree: &ValidTree,
    products: &[Product],
    arguments: &[Argument<'_>],
    options: Options,
    groups: Option<Groups<'_>>,
) -> Result<Vec<Output>, ReferenceError> {}
#[must_use]
pub fn has_padding(bytes: &[u8], columns: usize) -> bool {}
#[must_use]
pub fn round(element: ElementType, x: f64) -> f64 {}
#[must_use]
pub fn unpack(bytes: &[u8], columns: usize) -> Vec<f64> {}

// epilogue::expr

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Primitive(Op),
    Expression(Expression),
}
pub trait Condition: Sized {
    type Value;
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExprId(_);
impl ExprId {
    #[must_use]
    pub const fn index(self) -> usize {}
}
#[derive(Clone, Debug)]
pub enum ExprNode {
    Parameter(usize),
    Literal(f64),
    Apply(Op, SmallVec<[ExprId; 3]>),
    Call(&'static Function, SmallVec<[ExprId; 3]>),
    Cast(ElementType, ExprId),
}
impl ExprNode {
    #[must_use]
    pub fn operands(&self) -> &[ExprId] {}
}
impl PartialEq for ExprNode {}
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {}
impl Expression {
    #[must_use]
    pub fn nodes(&self) -> &[ExprNode] {}
    #[must_use]
    pub fn name(&self, id: ExprId) -> Option<&'static str> {}
    #[must_use]
    pub fn names(&self) -> &[Option<&'static str>] {}
    #[must_use]
    pub fn root(&self) -> ExprId {}
}
#[derive(Clone, Debug, PartialEq)]
pub struct Function {}
impl Function {
    #[must_use]
    pub fn primitive(name: &'static str, parameters: &[&'static str], op: Op) -> Self {}
    #[must_use]
    pub fn with_cuda(self, body: &'static str) -> Self {}
    #[must_use]
    pub fn name(&self) -> &'static str {}
    #[must_use]
    pub fn parameters(&self) -> &[&'static str] {}
    #[must_use]
    pub fn body(&self) -> &Body {}
    #[must_use]
    pub fn cuda(&self) -> Option<&'static str> {}
}
#[derive(Debug)]
pub struct FunctionBuilder {}
impl FunctionBuilder {
    #[must_use]
    pub fn new(name: &'static str) -> Self {}
    pub fn parameter(&mut self, name: &'static str) -> ExprId {}
    pub fn literal(&mut self, value: f64) -> ExprId {}
    pub fn apply(&mut self, op: Op, operands: &[ExprId]) -> ExprId {}
    pub fn call(&mut self, function: &'static Function, operands: &[ExprId]) -> ExprId {}
    pub fn cast(&mut self, to: ElementType, x: ExprId) -> ExprId {}
    pub fn name(&mut self, id: ExprId, name: &'static str) {}
    #[must_use]
    pub fn finish(self, root: ExprId) -> Function {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Logic {
    And,
    Or,
    Not,
}
impl Logic {
    #[must_use]
    pub const fn arity(self) -> usize {}
    #[must_use]
    pub const fn symbol(self) -> &'static str {}
}
pub trait Number: Sized {
    type Value;
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Op {
    Neg,
    Abs,
    Exp,
    Exp2,
    Log,
    Log2,
    Log1p,
    Sqrt,
    Rsqrt,
    Recip,
    Tanh,
    Erf,
    Sin,
    Cos,
    Floor,
    Ceil,
    Round,
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    Pow,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    Fma,
    Select,
}
impl Op {
    pub const ALL: [Self; 32] = _;
    #[must_use]
    pub const fn arity(self) -> usize {}
    #[must_use]
    pub const fn is_comparison(self) -> bool {}
    #[must_use]
    pub const fn takes_integers(self) -> bool {}
    #[must_use]
    pub const fn is_costly(self) -> bool {}
    #[must_use]
    pub const fn symbol(self) -> &'static str {}
}
pub trait Operand<V>: Sized {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Real {
    F32,
    F64,
}
impl Real {
    #[must_use]
    pub const fn element(self) -> ElementType {}
    #[must_use]
    pub fn round(self, x: f64) -> f64 {}
    #[must_use]
    pub fn of_integer(self, x: i64) -> f64 {}
    #[must_use]
    pub const fn significand(self) -> u32 {}
}
impl fmt::Display for Real {}

// epilogue::expr::cuda

#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    Given,
    Literal(f64),
    Integer(i64),
    Logic(Logic, SmallVec<[usize; 3]>),
    Real(usize),
    Apply(Op, SmallVec<[usize; 3]>),
    Scaled { scalar: usize, x: usize },
    Call(&'static Function, SmallVec<[usize; 3]>),
    Cast(ElementType, usize),
}
#[derive(Debug)]
pub struct Functions {}
impl Functions {
    #[must_use]
    pub fn new(real: Real, fast: bool) -> Self {}
    #[must_use]
    pub const fn real(&self) -> Real {}
    pub fn accurate(&mut self, function: &'static Function) -> String {}
    pub fn of_11_bits(&mut self, function: &'static Function) -> String {}
    #[must_use]
    pub fn definitions(&self) -> &str {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    Real,
    I32,
    I64,
    Bool,
}
impl Scalar {
    #[must_use]
    pub const fn cuda(self, real: Real) -> &'static str {}
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub value: usize,
    pub ty: &'static str,
    pub name: String,
    pub expression: String,
    pub line: u32,
}
impl fmt::Display for Statement {}
pub trait Values {
    fn count(&self) -> usize;
    fn formula(&self, value: usize) -> Formula;
    fn scalar(&self, value: usize) -> Scalar {}
    fn name(&self, value: usize) -> &str;
    fn is_named(&self, value: usize) -> bool;
    fn uses(&self, value: usize) -> usize;
    fn significand(&self, value: usize) -> u32;
    fn line(&self, value: usize) -> u32;
}
#[must_use]
pub const fn element_name(element: ElementType) -> &'static str {}
#[must_use]
pub fn integer(value: i64, scalar: Scalar) -> String {}
#[must_use]
pub fn literal(value: f64, real: Real) -> String {}
#[must_use]
pub const fn real_name(real: Real) -> &'static str {}
pub fn reference(values: &impl Values, value: usize, real: Real) -> String {}
pub fn statements(
    values: &impl Values,
    here: impl Fn(usize) -> bool,
    functions: &mut Functions,
) -> Vec<Statement> {}

// epilogue::expr::identifier

#[must_use]
pub fn sanitize(name: &str) -> String {}

// epilogue::gemm

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Arithmetic {
    Exact,
    Tf32,
    FastBf16,
    FastFp8,
}
impl fmt::Display for Arithmetic {}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Arithmetic,
    SharedMemory,
    L2,
    Memory,
    Epilogue,
}
impl fmt::Display for Bound {}
pub struct Builder<E = ()> {}
impl<E> Builder<E> {
    #[must_use]
    pub fn new(device: &Device, tree: Tree) -> Self {}
    pub fn operands<'a, 'b>(
        self,
        a: impl Into<Left<'a>>,
        b: impl Into<Right<'b>>,
    ) -> Result<Self, Error> {}
    #[must_use]
    pub fn problem(self, m: usize, n: usize, k: usize) -> Self {}
    #[must_use]
    pub fn batch(self, batch: usize) -> Self {}
    #[must_use]
    pub fn groups(self, groups: usize) -> Self {}
    #[must_use]
    pub fn picked_rows(self) -> Self {}
    #[must_use]
    pub fn block_scales(self) -> Self {}
    #[must_use]
    pub fn scattered_rows(self) -> Self {}
    #[must_use]
    pub fn padded_groups(self, groups: usize) -> Self {}
    #[must_use]
    pub fn depth_groups(self, groups: usize) -> Self {}
    #[must_use]
    pub fn patches(self, elements: usize) -> Self {}
    #[must_use]
    pub fn patch_boxes(self, boxes: PatchBoxes) -> Self {}
    #[must_use]
    pub fn elements(self, a: ElementType, b: ElementType) -> Self {}
    #[must_use]
    pub fn layouts(self, a: OperandLayout, b: OperandLayout) -> Self {}
    #[must_use]
    pub fn arithmetic(self, arithmetic: Arithmetic) -> Self {}
    #[must_use]
    pub fn tile(self, tile: Tile) -> Self {}
    #[must_use]
    pub fn sm90(self, request: sm90::Request) -> Self {}
    #[must_use]
    pub fn candidate(self, candidate: &Candidate) -> Self {}
    #[must_use]
    pub fn stages(self, stages: usize) -> Self {}
    #[must_use]
    pub fn split_k(self, split_k: SplitK) -> Self {}
    #[must_use]
    pub fn finish(self, finish: Finish) -> Self {}
    #[must_use]
    pub fn multiprocessors(self, multiprocessors: usize) -> Self {}
    #[must_use]
    pub fn fast_math(self, fast_math: bool) -> Self {}
    #[must_use]
    pub fn dependent_launch(self, dependent_launch: bool) -> Self {}
    #[must_use]
    pub fn ignore_unsupported_knobs(self) -> Self {}
    pub fn choose(&self) -> Result<Choice, Error> {}
    pub fn plan(self) -> Result<Gemm<E>, Error> {}
}
impl<E> Clone for Builder<E> {}
impl<E> fmt::Debug for Builder<E> {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Byte {
    Int(Int8),
    Float(Fp8),
}
impl Byte {
    #[must_use]
    pub const fn element(self) -> ElementType {}
    #[must_use]
    pub const fn ptx(self) -> &'static str {}
}
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    pub key: KernelKey,
    pub split_k: SplitK,
    pub registers: usize,
    pub shared_bytes: usize,
    pub blocks_per_multiprocessor: usize,
    pub blocks: u128,
    pub repacking: Repacking,
    pub waves: f64,
    pub microseconds: f64,
    pub bound: Bound,
}
impl fmt::Display for Candidate {}
#[derive(Clone, Debug)]
pub struct Choice {}
impl Choice {
    #[must_use]
    pub fn tile(&self) -> (usize, usize) {}
    #[must_use]
    pub fn kernel(&self) -> Option<&Candidate> {}
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {}
    #[must_use]
    pub fn shortlist(&self) -> Vec<Candidate> {}
}
impl fmt::Display for Choice {}
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {}
impl Comparison {
    #[must_use]
    pub fn wrong(&self) -> Option<&Wrong> {}
    #[must_use]
    pub fn largest_error(&self) -> f64 {}
}
impl Comparison {
    pub fn check(self) -> Result<Self, Error> {}
}
impl fmt::Display for Comparison {}
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    pub launches: LaunchConstants,
    pub sm80: Sm80Constants,
    pub sm90: Sm90Constants,
}
#[derive(Clone, Copy, Debug)]
pub struct Depth<'a> {}
impl<'a> Depth<'a> {
    #[must_use]
    pub const fn in_groups(self, offsets: &'a DeviceTensor) -> Left<'a> {}
    #[must_use]
    pub const fn in_groups_to(self, ends: &'a DeviceTensor) -> Left<'a> {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Divided {
    Nothing,
    Rows,
    Depth,
}
impl fmt::Display for Divided {}
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    Tree(TreeError),
    Runtime(epilogue_runtime::Error),
    Patches(super::patch_error::PatchError),
    Reference(crate::evt::reference::ReferenceError),
    Rows(RowsError),
    Scales(ScaleError),
    Scatter(ScatterError),
    NoOutput { name: String, outputs: Vec<&'static str> },
    OutsideBounds(super::comparison::Comparison),
    OperandRank { operand: &'static str, shape: Vec<usize> },
    InnerExtents { a: Vec<usize>, b: Vec<usize> },
    BatchExtents { a: usize, b: usize },
    SeedTensor { name: &'static str, element: ElementType, shape: Vec<usize> },
    RandomRows { rows: usize, batches: usize },
    NoPacking { device: String },
    PackedStrides { shape: Vec<usize>, strides: Vec<isize> },
    OtherPacking { given: String, needed: String },
    NoRight,
    RightCount { epilogue: &'static str, given: usize, names: Vec<&'static str> },
    RightElements { place: usize, given: ElementType, needed: ElementType },
    RightShapes { place: usize, given: Vec<usize>, needed: Vec<usize> },
    RightBatches { place: usize, given: usize, needed: usize },
    RightMajors { place: usize, given: &'static str, of: usize, needed: &'static str },
    GroupBounds { name: &'static str, given: Vec<usize>, needed: &'static str },
    GroupBoundsElement { name: &'static str, given: ElementType },
    GroupedMatrix { name: &'static str, given: Vec<usize>, groups: usize },
    GroupedDepth { operand: &'static str, given: Vec<usize> },
    GroupCount { place: usize, given: usize, groups: usize },
    GroupBound {
        name: &'static str,
        place: usize,
        given: i32,
        least: usize,
        rows: usize,
        along: &'static str,
    },
    GroupedReduction { name: &'static str, what: &'static str, advice: &'static str },
    GroupedPhases { epilogue: &'static str, divided: Divided },
    NotInTile { epilogue: &'static str, reason: String },
    NotInCluster { epilogue: &'static str, reason: String },
    BeyondTile {
        epilogue: &'static str,
        within: &'static str,
        tile_m: usize,
        tile_n: usize,
        m: usize,
        n: usize,
        lines: &'static str,
    },
    NothingToFinish { epilogue: &'static str },
    OtherGrouping { planned: Divided, given: Divided },
    ExtentTooLarge { axis: &'static str, extent: usize, limit: usize },
    TooManyBlocks { blocks: u128, limit: u128 },
    OperandTypes {
        a: ElementType,
        b: ElementType,
        device: String,
        advice: &'static str,
    },
    OperandElement { operand: &'static str, given: ElementType, needed: ElementType },
    Arithmetic {
        arithmetic: Arithmetic,
        needed: &'static str,
        operand: &'static str,
        given: ElementType,
    },
    CopyBytes { operand: &'static str, given: usize, element: ElementType },
    Tile { instruction: String, tile: String, allowed: String },
    Count { what: &'static str, given: usize, least: usize, most: usize },
    NoKnob { knob: Knob, device: String, reason: &'static str },
    Knob { knob: &'static str, given: String, allowed: String },
    NoKernel { kernel: String, reason: &'static str },
    NoLaunch { device: String, reason: &'static str },
    NoTile { reason: String },
    TooManyArguments { bytes: usize, limit: usize },
    ArgumentCount { epilogue: &'static str, given: usize, names: Vec<&'static str> },
    ArgumentNames {
        mistake: NameMistake,
        epilogue: &'static str,
        names: Vec<&'static str>,
    },
    ArgumentKind { name: &'static str, given: &'static str, needed: &'static str },
    ArgumentShape { name: &'static str, given: Vec<usize>, needed: String },
    ArgumentAxes {
        name: &'static str,
        axis: &'static str,
        needed: usize,
        given: Box<AxisList>,
    },
    ArgumentDigits {
        name: &'static str,
        shape: Vec<usize>,
        strides: Vec<isize>,
        what: &'static str,
        advice: &'static str,
    },
    BitsShape { name: &'static str, given: Vec<usize>, needed: String, columns: usize },
    ArgumentElement {
        name: &'static str,
        epilogue: &'static str,
        given: ElementType,
        needed: ElementType,
        advice: String,
    },
    ForeignDevice { name: &'static str, given: String, needed: String },
    OutputsOverlap { first: &'static str, second: &'static str },
    OutputRepeats { name: &'static str },
    OutputAliasesInput { output: &'static str, input: &'static str },
    BatchPartials { name: &'static str },
    NoBatches { name: &'static str },
    NoClock { device: String },
    Incomplete { what: &'static str, method: &'static str },
    NoPartials { name: String, epilogue: &'static str },
    ForeignStream { given: String, needed: String },
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    Product { a: ElementType, b: ElementType, arithmetic: Arithmetic },
    Knob(Knob),
    Groups,
    Patches,
    BlockScales,
}
impl From<(ElementType, ElementType, Arithmetic)> for Feature {}
impl From<(ElementType, ElementType)> for Feature {}
impl From<Knob> for Feature {}
#[derive(Clone, Debug)]
pub struct Filter {}
impl Filter {
    #[must_use]
    pub const fn matrix(&self) -> &DeviceTensor {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finish {
    Tile,
    Cluster,
    SecondLaunch,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Float16 {
    F16,
    Bf16,
}
impl Float16 {
    #[must_use]
    pub const fn element(self) -> ElementType {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fp8 {
    E4M3,
    E5M2,
}
impl Fp8 {
    #[must_use]
    pub const fn element(self) -> ElementType {}
    #[must_use]
    pub const fn ptx(self) -> &'static str {}
}
pub struct Gemm<E = ()> {}
impl<E> Clone for Gemm<E> {}
impl<E> Gemm<E> {
    pub fn autotune<'a, 'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: E::Arguments<'a>,
    ) -> Result<Self, Error>
    where
        E: Epilogue,
    {}
    pub fn autotune_watched<'a, 'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: E::Arguments<'a>,
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Self, Error>
    where
        E: Epilogue,
    {}
    pub fn autotune_arguments<'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: &mut [Argument<'_>],
    ) -> Result<Self, Error> {}
    pub fn autotune_arguments_watched<'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: &mut [Argument<'_>],
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Self, Error> {}
}
impl<E> Gemm<E> {
    pub fn reference<'a, 'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: E::Arguments<'a>,
    ) -> Result<Reference, Error>
    where
        E: Epilogue,
    {}
    pub fn reference_arguments<'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: &[Argument<'_>],
    ) -> Result<Reference, Error> {}
}
impl<E> Gemm<E> {
    pub fn run<'a, 'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: E::Arguments<'a>,
    ) -> Result<(), Error>
    where
        E: Epilogue,
    {}
    pub fn pack(&self, b: &DeviceTensor) -> Result<Packed, Error> {}
    pub fn run_on<'a, 'l, 'r>(
        &self,
        stream: &Stream,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: E::Arguments<'a>,
    ) -> Result<(), Error>
    where
        E: Epilogue,
    {}
    pub fn run_bound<'a, 'l, 'r>(
        &self,
        stream: &Stream,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: impl IntoIterator<Item = (impl AsRef<str>, Argument<'a>)>,
    ) -> Result<(), Error> {}
    pub fn bind<'a>(
        &self,
        arguments: impl IntoIterator<Item = (impl AsRef<str>, Argument<'a>)>,
    ) -> Result<Vec<Argument<'a>>, Error> {}
    pub fn run_arguments<'l, 'r>(
        &self,
        stream: &Stream,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: &[Argument<'_>],
    ) -> Result<(), Error> {}
    pub fn describe_launch<'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: &[Argument<'_>],
    ) -> Result<LaunchDescription, Error> {}
    #[must_use]
    pub fn device(&self) -> &Device {}
    #[must_use]
    pub fn tree(&self) -> &ValidTree {}
    #[must_use]
    pub fn choice(&self) -> &Choice {}
    #[must_use]
    pub fn source(&self) -> &str {}
    #[must_use]
    pub fn kernel_source(&self) -> Option<&Source> {}
    pub fn later_sources(&self) -> impl Iterator<Item = &Source> {}
    #[must_use]
    pub fn is_fast_math(&self) -> bool {}
    #[must_use]
    pub fn kernel(&self) -> Option<&Kernel> {}
    pub fn partials_shape(&self, name: &str) -> Result<Vec<usize>, Error> {}
    pub fn partials_shape_of(
        &self,
        name: &str,
        problem: &Problem,
    ) -> Result<Vec<usize>, Error> {}
}
impl<E> fmt::Debug for Gemm<E> {}
impl Gemm<()> {
    pub fn plan<'a, 'b, E: Epilogue>(
        device: &Device,
        a: impl Into<Left<'a>>,
        b: impl Into<Right<'b>>,
    ) -> Result<Gemm<E>, Error> {}
    pub fn plan_for<'a, 'b, E: Epilogue>(
        device: &Device,
        a: impl Into<Left<'a>>,
        b: impl Into<Right<'b>>,
        _epilogue: &E,
    ) -> Result<Gemm<E>, Error> {}
    #[must_use]
    pub fn builder<E: Epilogue>(device: &Device) -> Builder<E> {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Grouping {
    None,
    Shared,
    Padded,
    Depth,
}
impl Grouping {
    #[must_use]
    pub const fn is_per_batch(self, class: BroadcastClass) -> bool {}
    #[must_use]
    pub const fn divided(self) -> Divided {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Instruction {
    MmaF16,
    MmaBf16,
    MmaTf32,
    MmaFastBf16,
    MmaF64,
    FmaF32,
    MmaInt8(Pair<Int8>),
    MmaFp8(Pair<Fp8>),
    MmaMixed(MixedInput),
}
impl Instruction {
    pub const ALL: [Self; 22] = _;
    #[must_use]
    pub fn of(a: ElementType, b: ElementType, arithmetic: Arithmetic) -> Option<Self> {}
    #[must_use]
    pub const fn elements(self) -> (ElementType, ElementType) {}
    #[must_use]
    pub const fn sizes(self) -> (usize, usize) {}
    #[must_use]
    pub const fn accumulator(self) -> ElementType {}
}
impl fmt::Display for Instruction {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Int8 {
    S8,
    U8,
}
impl Int8 {
    #[must_use]
    pub const fn element(self) -> ElementType {}
    #[must_use]
    pub const fn ptx(self) -> &'static str {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelKey {
    Sm80(Sm80Key),
    Sm90(Sm90Key),
}
impl KernelKey {
    #[must_use]
    pub const fn tile(&self) -> (usize, usize) {}
    #[must_use]
    pub const fn tile_k(&self) -> usize {}
    #[must_use]
    pub const fn family(&self) -> Arch {}
    #[must_use]
    pub const fn multiplication(&self) -> Multiplication {}
    #[must_use]
    pub const fn layouts(&self) -> (OperandLayout, OperandLayout) {}
    #[must_use]
    pub const fn in_tile(&self) -> bool {}
    #[must_use]
    pub const fn within(&self) -> Option<Within> {}
    #[must_use]
    pub const fn fast_math(&self) -> bool {}
}
impl fmt::Display for KernelKey {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Knob {
    Tile,
    Stages,
    SplitK,
    StreamK,
    Sm90,
    Candidate,
    Multiprocessors,
    FastMath,
    DependentLaunch,
    Finish,
}
impl Knob {
    pub const ALL: [Self; 10] = _;
}
impl fmt::Display for Knob {}
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {}
impl<'a> From<&&'a DeviceTensor> for Left<'a> {}
impl<'a> From<&'a DeviceTensor> for Left<'a> {}
impl<'a> From<&'a mut DeviceTensor> for Left<'a> {}
impl<'a> From<Rows<'a>> for Left<'a> {}
impl<'a> From<Scaled<'a>> for Left<'a> {}
impl<'a> Left<'a> {
    #[must_use]
    pub const fn tensor(&self) -> &'a DeviceTensor {}
}
pub const MAX_EXTENT: usize = _;
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    pub arch: Arch,
    pub multiprocessors: usize,
    pub shared_per_block: usize,
    pub shared: usize,
    pub registers: usize,
    pub threads: usize,
    pub clock: f64,
    pub l2_gigabytes_per_second: f64,
    pub l2_port_bytes_per_clock: f64,
    pub memory_bytes_per_clock: f64,
    pub constants: Constants,
}
impl Machine {
    #[must_use]
    pub const fn a100() -> Self {}
    #[must_use]
    pub const fn h100() -> Self {}
    #[must_use]
    pub const fn h200() -> Self {}
    #[must_use]
    pub fn of(properties: &Properties) -> Option<Self> {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Major {
    K,
    Mn,
}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    Accumulators { tile: String, accumulators: usize },
    Rows { columns: usize, most: usize },
    Columns { rows: usize, most: usize },
    Passes { tile: String },
    Scales { tile: String, accumulators: usize },
    SharedMemory { tile: String, needed: usize, limit: usize },
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MixedInput {
    pub a: Float16,
    pub b: Byte,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameMistake {
    Unknown(String),
    Twice(&'static str),
    Missing(Vec<&'static str>),
}
impl fmt::Display for NameMistake {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperandLayout {
    pub major: Major,
    pub copy_bytes: usize,
}
impl OperandLayout {
    #[must_use]
    pub const fn packed(major: Major) -> Self {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandView {
    pub address: u64,
    pub element: ElementType,
    pub outer_extent: usize,
    pub k_extent: usize,
    pub batch_extent: usize,
    pub outer: isize,
    pub k: isize,
    pub batch: isize,
}
impl OperandView {
    #[must_use]
    pub fn layout(&self) -> OperandLayout {}
    #[must_use]
    pub fn fits(&self, layout: OperandLayout) -> bool {}
}
#[derive(Clone)]
pub struct Packed {}
impl Packed {
    #[must_use]
    pub const fn tensor(&self) -> &DeviceTensor {}
}
impl fmt::Debug for Packed {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair<T> {
    pub a: T,
    pub b: T,
}
#[derive(Clone, Copy, Debug)]
pub struct Parameter(_);
impl Parameter {
    pub fn all() -> impl Iterator<Item = Self> {}
    #[must_use]
    pub const fn name(&self) -> &'static str {}
    #[must_use]
    pub const fn unit(&self) -> &'static str {}
    #[must_use]
    pub fn of(&self, machine: &Machine) -> f64 {}
    #[must_use]
    pub fn with(&self, machine: &Machine, value: f64) -> Machine {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PatchBoxes {
    pub axes: usize,
    pub taps: usize,
    pub channels: usize,
}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    Axes { axes: usize },
    Rank { given: Vec<usize>, axes: usize },
    Zero { what: &'static str, given: Vec<usize> },
    Beyond {
        axis: &'static str,
        reach: usize,
        extent: usize,
        before: usize,
        after: usize,
    },
    Padded { axis: &'static str, extent: usize, limit: usize },
    Position { axis: &'static str, given: usize, limit: usize },
    ChannelGroups { given: Vec<usize>, channels: usize, groups: usize },
    Shares { b: Vec<usize>, count: usize, what: &'static str, groups: usize },
    GradientGroups { given: usize, needed: usize },
    PackedInGroups { groups: usize },
    Channels {
        images: Vec<usize>,
        elements: usize,
        channels: usize,
        groups: usize,
        b: Vec<usize>,
        rows: usize,
    },
    Filters {
        gradient: Vec<usize>,
        elements: usize,
        filters: usize,
        groups: usize,
        b: Vec<usize>,
        rows: usize,
    },
    Outputs { images: Vec<usize>, outputs: Vec<usize>, b: Vec<usize> },
    OutputStrides { shape: Vec<usize>, strides: Vec<isize> },
    GradientExtents { image: Vec<usize>, given: Vec<usize>, needed: Vec<usize> },
    Strides { given: Vec<usize>, limit: usize },
    FilterKind { needed: &'static str },
    FilterSize { given: Vec<usize>, needed: Vec<usize> },
    FilterShape { given: Vec<usize> },
    FilterStrides { shape: Vec<usize>, strides: Vec<isize> },
    NoWindow,
    Batches { b: Vec<usize>, groups: usize },
    Groups { divided: super::groups::Divided },
    Picked,
    OtherReading { given: bool },
    Argument { name: &'static str, reason: String },
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub batch: usize,
    pub batched: bool,
    pub grouping: Grouping,
    pub patches: Option<usize>,
    pub boxes: Result<PatchBoxes, Unboxed>,
    pub input_dilated: bool,
    pub picked: bool,
    pub scaled: bool,
    pub scattered: bool,
}
impl Problem {
    #[must_use]
    pub const fn new(m: usize, n: usize, k: usize) -> Self {}
    #[must_use]
    pub const fn batched(self, batch: usize) -> Self {}
    #[must_use]
    pub const fn in_groups(self, groups: usize) -> Self {}
    #[must_use]
    pub const fn in_padded_groups(self, groups: usize) -> Self {}
    #[must_use]
    pub const fn in_depth_groups(self, groups: usize) -> Self {}
    #[must_use]
    pub const fn of_patches(self, elements: usize) -> Self {}
    #[must_use]
    pub const fn in_boxes(self, boxes: PatchBoxes) -> Self {}
    #[must_use]
    pub const fn with_input_dilation(self) -> Self {}
    #[must_use]
    pub const fn of_picked_rows(self) -> Self {}
    #[must_use]
    pub const fn of_scaled_operands(self) -> Self {}
    #[must_use]
    pub const fn of_scattered_rows(self) -> Self {}
    pub fn of<'a, 'b>(
        a: impl Into<Left<'a>>,
        b: impl Into<Right<'b>>,
    ) -> Result<Self, Error> {}
    #[must_use]
    pub const fn is_empty(&self) -> bool {}
}
#[derive(Clone, Debug)]
pub struct Reference {}
impl Reference {
    #[must_use]
    pub fn outputs(&self) -> &[Output] {}
    pub fn compare(
        &self,
        name: &str,
        actual: &DeviceTensor,
    ) -> Result<Comparison, Error> {}
}
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Repacking {
    pub a: Option<Unreachable>,
    pub b: Option<Unreachable>,
    pub microseconds: f64,
}
impl Repacking {
    #[must_use]
    pub const fn is_none(&self) -> bool {}
}
impl fmt::Display for Repacking {}
#[derive(Clone, Debug)]
pub struct Right<'a> {}
impl<'a, const COUNT: usize> From<&[&'a DeviceTensor; COUNT]> for Right<'a> {}
impl<'a, const COUNT: usize> From<[&'a DeviceTensor; COUNT]> for Right<'a> {}
impl<'a, const COUNT: usize> From<[&'a Filter; COUNT]> for Right<'a> {}
impl<'a, const COUNT: usize> From<[&'a Packed; COUNT]> for Right<'a> {}
impl<'a, const COUNT: usize> From<[Scaled<'a>; COUNT]> for Right<'a> {}
impl<'a> From<&&'a DeviceTensor> for Right<'a> {}
impl<'a> From<&'a DeviceTensor> for Right<'a> {}
impl<'a> From<&'a Filter> for Right<'a> {}
impl<'a> From<&'a Packed> for Right<'a> {}
impl<'a> From<&'a mut DeviceTensor> for Right<'a> {}
impl<'a> From<&[&'a DeviceTensor]> for Right<'a> {}
impl<'a> From<&[&'a Filter]> for Right<'a> {}
impl<'a> From<&[&'a Packed]> for Right<'a> {}
impl<'a> From<&[Scaled<'a>]> for Right<'a> {}
impl<'a> From<Scaled<'a>> for Right<'a> {}
impl<'a> Right<'a> {
    #[must_use]
    pub fn tensors(&self) -> &[&'a DeviceTensor] {}
}
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {}
impl<'a> Rows<'a> {
    #[must_use]
    pub const fn picked(self, index: &'a DeviceTensor) -> Self {}
    #[must_use]
    pub const fn scaled(self, scales: &'a DeviceTensor) -> Self {}
    #[must_use]
    pub const fn scattered(self, index: &'a DeviceTensor) -> Self {}
    #[must_use]
    pub const fn in_groups(self, offsets: &'a DeviceTensor) -> Left<'a> {}
    #[must_use]
    pub const fn in_groups_to(self, ends: &'a DeviceTensor) -> Left<'a> {}
    #[must_use]
    pub const fn in_groups_of(self, counts: &'a DeviceTensor) -> Left<'a> {}
}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowsError {
    Index { given: Vec<usize> },
    Element { given: ElementType },
    Matrix { given: Vec<usize> },
    Major,
    Groups { what: &'static str },
    Row { place: usize, given: i32, rows: usize },
    Other { given: bool },
}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScaleError {
    One { with: &'static str, without: &'static str },
    Element { operand: &'static str, given: ElementType },
    Shape {
        operand: &'static str,
        given: Vec<usize>,
        needed: Vec<usize>,
        of: Vec<usize>,
    },
    Operands { a: ElementType, b: ElementType },
    Arithmetic,
    With { what: &'static str },
    Other { given: bool },
}
#[derive(Clone, Copy, Debug)]
pub struct Scaled<'a> {}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScatterError {
    Index { given: Vec<usize>, rows: usize },
    Element { given: ElementType },
    Product { what: &'static str },
    Output { name: &'static str, what: &'static str, advice: &'static str },
    Nothing { epilogue: &'static str },
    Row { place: usize, given: i32, name: &'static str, rows: usize },
    Twice { first: usize, second: usize, given: i32 },
    Other { given: bool },
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm80Key {
    pub instruction: Instruction,
    pub tile: Tile,
    pub split_k: SplitKind,
    pub a: OperandLayout,
    pub b: OperandLayout,
    pub vector: usize,
    pub epilogue_passes: usize,
    pub accumulators: usize,
    pub divided: Divided,
    pub patches: bool,
    pub input_dilated: bool,
    pub picked: bool,
    pub in_tile: bool,
    pub scaled: bool,
    pub fast_math: bool,
}
impl Sm80Key {
    #[must_use]
    pub const fn product_tile(&self) -> (usize, usize) {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum SplitK {
    None,
    Serial(usize),
    Parallel(usize),
    Stream,
}
impl SplitK {
    #[must_use]
    pub const fn splits(self) -> usize {}
}
impl fmt::Display for SplitK {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SplitKind {
    None,
    Serial,
    Parallel,
    Stream,
}
impl From<SplitK> for SplitKind {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tile {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub warp_m: usize,
    pub warp_n: usize,
    pub stages: usize,
}
impl Tile {
    #[must_use]
    pub const fn all(instruction: Instruction) -> &'static [Self] {}
    #[must_use]
    pub const fn parts(accumulators: usize) -> usize {}
    #[must_use]
    pub const fn product_columns(&self, accumulators: usize) -> usize {}
    #[must_use]
    pub const fn has_room(
        &self,
        accumulators: usize,
        instruction: Instruction,
        b: Major,
    ) -> bool {}
    #[must_use]
    pub const fn takes_scales(&self, accumulators: usize) -> bool {}
    #[must_use]
    pub const fn warps(&self) -> (usize, usize) {}
    #[must_use]
    pub const fn threads(&self) -> usize {}
    #[must_use]
    pub const fn stage_bytes(&self, instruction: Instruction) -> usize {}
    #[must_use]
    pub const fn accumulator_bytes(&self, accumulator: ElementType) -> usize {}
    #[must_use]
    pub const fn accumulator_registers(&self, accumulator: ElementType) -> usize {}
    #[must_use]
    pub fn epilogue_passes(
        &self,
        accumulator: ElementType,
        pipeline_bytes: usize,
    ) -> usize {}
    #[must_use]
    pub fn shared_bytes(&self, instruction: Instruction) -> usize {}
}
impl fmt::Display for Tile {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unboxed {}
impl std::fmt::Display for Unboxed {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unreachable {
    Unaligned,
    Major,
    Picked,
    Parts,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window<const AXES: usize> {}
impl<const AXES: usize> Window<AXES> {
    #[must_use]
    pub const fn of(size: [usize; AXES]) -> Self {}
    #[must_use]
    pub const fn stride(self, stride: [usize; AXES]) -> Self {}
    #[must_use]
    pub const fn padding(self, padding: [usize; AXES]) -> Self {}
    #[must_use]
    pub const fn padding_around(self, padding: [(usize, usize); AXES]) -> Self {}
    #[must_use]
    pub const fn dilation(self, dilation: [usize; AXES]) -> Self {}
    #[must_use]
    pub const fn groups(self, groups: usize) -> Self {}
}
#[derive(Clone, Debug)]
pub struct Workload<'a> {
    pub problem: Problem,
    pub instruction: Instruction,
    pub a: OperandLayout,
    pub b: OperandLayout,
    pub epilogue: &'a evt::Cost,
    pub lines: Option<WholeLines>,
    pub needed: f64,
}
#[must_use]
pub const fn depth(a: &DeviceTensor) -> Depth<'_> {}
pub fn estimate(
    machine: &Machine,
    workload: &Workload<'_>,
    tile: Tile,
    split_k: SplitK,
) -> Result<Candidate, Misfit> {}
pub fn gradient_filter(filters: &DeviceTensor) -> Result<Filter, Error> {}
pub fn gradient_filter_in_groups(
    filters: &DeviceTensor,
    groups: usize,
) -> Result<Filter, Error> {}
#[must_use]
pub const fn gradient_patches<const AXES: usize>(
    gradient: &DeviceTensor,
    window: Window<AXES>,
    image: [usize; AXES],
) -> Left<'_> {}
#[must_use]
pub fn is_crowded(key: &KernelKey) -> bool {}
pub use model::LaunchConstants;
pub use model::Sm80Constants;
pub use model::Sm90Constants;
pub fn rank(
    machine: &Machine,
    workload: &Workload<'_>,
) -> Result<Vec<Candidate>, Misfit> {}
#[must_use]
pub const fn rows(a: &DeviceTensor) -> Rows<'_> {}
pub fn source(tree: &ValidTree, key: &KernelKey) -> Result<Source, Error> {}
pub fn supports(device: &Device, feature: impl Into<Feature>) -> Result<(), Error> {}
#[must_use]
pub const fn transposed_patches<const AXES: usize>(
    x: &DeviceTensor,
    window: Window<AXES>,
) -> Left<'_> {}

// epilogue::gemm::filter

#[derive(Clone, Debug)]
pub struct Filter {}
pub fn filter(filters: &DeviceTensor) -> Result<Filter, Error> {}
pub fn gradient_filter(filters: &DeviceTensor) -> Result<Filter, Error> {}
pub fn gradient_filter_in_groups(
    filters: &DeviceTensor,
    groups: usize,
) -> Result<Filter, Error> {}

// epilogue::gemm::launch

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue {
    Integer(u64),
    Address(Memory, u64),
    Scalar(usize),
    Map(usize),
}
#[derive(Clone, Debug)]
pub struct LaunchDescription {
    pub entry: String,
    pub launch: Launch,
    pub fields: Vec<ParameterField>,
    pub parameter_bytes: usize,
    pub parameter_alignment: usize,
    pub maps: Vec<MapDescription>,
    pub counter_bytes: usize,
    pub scratch_bytes: usize,
}
impl LaunchDescription {
    pub fn parameter<E>(
        &self,
        address: impl Fn(Memory) -> u64,
        scalar: impl Fn(usize) -> f64,
        map: impl FnMut(&MapDescription) -> Result<[u8; 128], E>,
    ) -> Result<Vec<u8>, E> {}
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapDescription {
    pub of: Memory,
    pub element: ElementType,
    pub extents: Vec<u64>,
    pub strides: Vec<u64>,
    pub box_extents: Vec<u32>,
    pub swizzle: Swizzle,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    A,
    B(usize),
    Bounds,
    Index,
    ScalesOfA,
    ScalesOfB(usize),
    Places,
    Argument(usize),
    Counters,
    Scratch,
}
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterField {
    pub name: String,
    pub offset: usize,
    pub bytes: usize,
    pub value: FieldValue,
}

// epilogue::gemm::scaled

#[derive(Clone, Copy, Debug)]
pub struct Scaled<'a> {}
#[must_use]
pub const fn scaled<'a>(
    operand: &'a DeviceTensor,
    scales: &'a DeviceTensor,
) -> Scaled<'a> {}

// epilogue::gemm::sm90

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cluster {
    pub m: usize,
    pub n: usize,
}
impl Cluster {
    pub const NONE: Self = _;
    #[must_use]
    pub const fn blocks(self) -> usize {}
}
impl fmt::Display for Cluster {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Hint {
    Normal,
    First,
    Last,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Hints {
    pub a: Hint,
    pub b: Hint,
    pub outputs: Hint,
}
impl fmt::Display for Hints {}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapOf {
    A,
    B(usize),
    Input(usize),
    Output(usize),
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub unit: usize,
    pub first: usize,
    pub k_tiles: usize,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Raster {
    pub group: usize,
    pub along_n: bool,
}
impl fmt::Display for Raster {}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub tile: Option<Tile>,
    pub swap_ab: Option<bool>,
    pub stages: Option<usize>,
    pub cluster: Option<Cluster>,
    pub raster: Option<Raster>,
    pub pending: Option<usize>,
    pub hints: Option<Hints>,
    pub split_k: Option<SplitK>,
    pub staging: Option<Staging>,
    pub picked: Option<bool>,
}
impl fmt::Display for Request {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Schedule {
    Cooperative,
    PingPong,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedMap {
    pub a: Range<usize>,
    pub b: Range<usize>,
    pub outputs: Range<usize>,
    pub inputs: Range<usize>,
    pub vectors: Range<usize>,
    pub reductions: Range<usize>,
    pub exchange: Range<usize>,
    pub control: Range<usize>,
    pub exchange_words: usize,
    pub output_stages: usize,
    pub input_stages: usize,
    pub output_stage_bytes: usize,
    pub input_stage_bytes: usize,
    pub input_transfer_bytes: usize,
}
impl SharedMap {
    #[must_use]
    pub fn of(key: &Sm90Key, traffic: &Traffic) -> Self {}
    #[must_use]
    pub const fn bytes(&self) -> usize {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm90Key {
    pub instruction: Wgmma,
    pub tile: Tile,
    pub swap_ab: bool,
    pub accumulators: usize,
    pub stages: usize,
    pub cluster: Cluster,
    pub raster: Raster,
    pub split_k: SplitKind,
    pub a: Major,
    pub b: Major,
    pub staging: Staging,
    pub direct: u64,
    pub pending: usize,
    pub hints: Hints,
    pub promoted: bool,
    pub dependent_launch: bool,
    pub divided: Divided,
    pub in_tile: bool,
    pub patches: usize,
    pub picked: bool,
    pub scaled: bool,
    pub fast_math: bool,
}
impl Sm90Key {
    #[must_use]
    pub const fn product_tile(&self) -> (usize, usize) {}
    #[must_use]
    pub const fn result_tile(&self) -> (usize, usize) {}
    #[must_use]
    pub const fn holds_accumulators(&self) -> bool {}
    #[must_use]
    pub const fn mma_cluster(&self) -> (usize, usize) {}
    #[must_use]
    pub const fn within(&self) -> Option<Within> {}
    #[must_use]
    pub const fn mma_majors(&self) -> (Major, Major) {}
    #[must_use]
    pub const fn mma_sizes(&self) -> (usize, usize) {}
    #[must_use]
    pub const fn line_bytes(&self) -> (usize, usize) {}
    #[must_use]
    pub const fn stage_bytes(&self) -> (usize, usize) {}
    #[must_use]
    pub const fn divides_among_cluster(&self) -> bool {}
    #[must_use]
    pub const fn threads(&self) -> usize {}
}
impl Sm90Key {
    #[must_use]
    pub fn epilogue_rounds(&self, epilogue: &Cost, traffic: &Traffic) -> usize {}
    #[must_use]
    pub fn configuration(&self, map: &SharedMap, epilogue_rounds: usize) -> String {}
}
impl fmt::Display for Sm90Key {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Staging {
    pub step: usize,
    pub output_stages: usize,
    pub input_stages: usize,
}
impl fmt::Display for Staging {}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    pub units: usize,
    pub streamed: usize,
    pub k_tiles: usize,
    pub clusters: usize,
}
impl Stream {
    #[must_use]
    pub fn of(units: usize, at_once: usize, k_tiles: usize) -> Self {}
    #[must_use]
    pub fn share(&self, cluster: usize) -> Range<usize> {}
    #[must_use]
    pub fn parts(&self, cluster: usize) -> Vec<Part> {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tile {
    pub rows: usize,
    pub columns: usize,
    pub schedule: Schedule,
    pub consumers: usize,
}
impl Tile {
    pub fn of(accumulators: usize) -> impl Iterator<Item = Self> {}
    #[must_use]
    pub const fn all() -> &'static [Self] {}
    #[must_use]
    pub const fn warpgroup_rows(&self) -> usize {}
    #[must_use]
    pub const fn accumulator_registers(&self) -> usize {}
    #[must_use]
    pub const fn threads(&self) -> usize {}
    #[must_use]
    pub const fn registers(&self) -> Option<(usize, usize)> {}
}
impl fmt::Display for Tile {}
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub further_accumulators: usize,
    pub inputs: Vec<(usize, ElementType)>,
    pub outputs: Vec<(usize, ElementType)>,
    pub row_vectors: usize,
    pub column_vectors: usize,
    pub row_reductions: usize,
    pub column_reductions: usize,
    pub all_reductions: usize,
    pub exchanged: usize,
}
impl Traffic {
    #[must_use]
    pub fn of(tree: &ValidTree, direct: u64) -> Self {}
    #[must_use]
    pub fn maps(&self, key: &Sm90Key) -> Vec<MapOf> {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    pub split: usize,
    pub batch: usize,
    pub tile_m: usize,
    pub tile_n: usize,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    pub tiles_m: usize,
    pub tiles_n: usize,
    pub batch: usize,
    pub splits: usize,
    pub cluster: Cluster,
    pub raster: Raster,
}
impl Units {
    #[must_use]
    pub fn of(key: &Sm90Key, problem: &Problem, splits: usize) -> Self {}
    #[must_use]
    pub const fn clusters(&self) -> (usize, usize) {}
    #[must_use]
    pub const fn count(&self) -> u128 {}
    #[must_use]
    pub fn turn(&self, unit: usize, rank: usize) -> Turn {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wgmma {
    F16,
    Bf16,
    Tf32,
    Fp8(Pair<Fp8>),
    Int8(Pair<Int8>),
    Mixed(MixedInput),
}
impl Wgmma {
    pub const ALL: [Self; 19] = _;
    #[must_use]
    pub fn of(a: ElementType, b: ElementType, arithmetic: Arithmetic) -> Option<Self> {}
    #[must_use]
    pub const fn elements(self) -> (ElementType, ElementType) {}
    #[must_use]
    pub const fn sizes(self) -> (usize, usize) {}
    #[must_use]
    pub const fn accumulator(self) -> ElementType {}
    #[must_use]
    pub const fn tile_k(self) -> usize {}
    #[must_use]
    pub const fn takes_mn_major(self) -> (bool, bool) {}
    #[must_use]
    pub const fn converts_b(self) -> bool {}
}
impl fmt::Display for Wgmma {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Within {
    Tile,
    Cluster,
}
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    pub problem: Problem,
    pub instruction: Wgmma,
    pub a: OperandLayout,
    pub b: OperandLayout,
    pub fast_fp8: bool,
    pub tree: &'a ValidTree,
    pub lines: Option<(WholeLines, Within)>,
    pub needed: f64,
}
#[must_use]
pub fn direct_when_packed(tree: &ValidTree, problem: &Problem, a: Major) -> u64 {}
#[must_use]
pub fn estimate(
    machine: &Machine,
    w: &Workload<'_>,
    key: &Sm90Key,
    split_k: SplitK,
) -> Candidate {}
#[must_use]
pub fn has_room(candidate: &Candidate) -> bool {}
#[must_use]
pub fn rank(
    machine: &Machine,
    w: &Workload<'_>,
    supported: impl Fn(&Sm90Key) -> bool,
) -> Vec<Candidate> {}

// epilogue::gemm::sm90::candidates

#[must_use]
pub fn candidates(
    machine: &Machine,
    w: &Workload<'_>,
    request: &Request,
    supported: impl Fn(&Sm90Key) -> bool,
) -> Vec<Candidate> {}
#[must_use]
pub fn has_room(candidate: &Candidate) -> bool {}
#[must_use]
pub fn rank(
    machine: &Machine,
    w: &Workload<'_>,
    supported: impl Fn(&Sm90Key) -> bool,
) -> Vec<Candidate> {}

// epilogue::language

#[derive(Debug)]
pub enum Accum {}
#[derive(Debug)]
pub enum Bits {}
#[derive(Debug)]
pub enum ColumnPartials {}
#[derive(Debug)]
pub struct ColumnVector<T = Unwritten>(_, _);
#[derive(Debug)]
pub struct DeviceScalar<T = Unwritten>(_, _);
pub trait InMemory {}
#[derive(Debug)]
pub enum RowPartials {}
#[derive(Debug)]
pub struct RowVector<T = Unwritten>(_, _);
#[derive(Debug)]
pub enum Scalar {}
#[derive(Clone, Copy, Debug)]
pub struct Seed<'a>(_);
impl<'a> From<&'a DeviceTensor> for Seed<'a> {}
impl<'a> Seed<'a> {
    #[must_use]
    pub const fn new(seed: u64) -> Self {}
    #[must_use]
    pub const fn with_offset(seed: u64, offset: u64) -> Self {}
    #[must_use]
    pub const fn in_memory(tensor: &'a DeviceTensor) -> Self {}
}
impl From<u64> for Seed<'_> {}
#[derive(Debug)]
pub struct Tensor<T = Unwritten>(_, _);
#[derive(Debug)]
pub struct TensorMut<T = Unwritten>(_, _);
#[derive(Debug)]
pub enum Unwritten {}
#[must_use]
pub const fn batch() -> i64 {}
#[must_use]
pub const fn column() -> i64 {}
#[must_use]
pub const fn columns() -> i64 {}
#[must_use]
pub fn integer(parameter: impl InMemory) -> i64 {}
#[must_use]
pub const fn random(seed: Seed<'_>) -> f32 {}
#[must_use]
pub const fn real(integer: i64) -> f32 {}
#[must_use]
pub const fn reduction_op(value: f32) -> f32 {}
#[must_use]
pub const fn row() -> i64 {}
#[must_use]
pub const fn rows() -> i64 {}

// epilogue::ops

pub fn abs_grad(x: f32) -> f32 {}
pub fn clamp(x: f32, low: f32, high: f32) -> f32 {}
pub fn cos_grad(x: f32) -> f32 {}
pub fn erf_grad(x: f32) -> f32 {}
pub fn exp_grad(x: f32) -> f32 {}
pub fn gelu(x: f32) -> f32 {}
pub fn gelu_grad(x: f32) -> f32 {}
pub fn gelu_tanh(x: f32) -> f32 {}
pub fn gelu_tanh_grad(x: f32) -> f32 {}
pub fn hardswish(x: f32) -> f32 {}
pub fn hardswish_grad(x: f32) -> f32 {}
pub fn leaky_relu(x: f32, slope: f32) -> f32 {}
pub fn leaky_relu_grad(x: f32, slope: f32) -> f32 {}
pub fn relu(x: f32) -> f32 {}
pub fn relu_grad(x: f32) -> f32 {}
#[must_use]
pub fn select<C: Condition>(
    condition: C,
    x: impl Operand<C::Value>,
    y: impl Operand<C::Value>,
) -> C::Value {}
pub fn sigmoid(x: f32) -> f32 {}
pub fn sigmoid_grad(x: f32) -> f32 {}
pub fn silu(x: f32) -> f32 {}
pub fn silu_grad(x: f32) -> f32 {}
pub fn sin_grad(x: f32) -> f32 {}
pub fn softplus(x: f32) -> f32 {}
pub fn softplus_grad(x: f32) -> f32 {}
pub fn square(x: f32) -> f32 {}
pub fn tanh_grad(x: f32) -> f32 {}

// epilogue::prelude

pub trait Epilogue {
    type Arguments<'a>: Arguments<'a>;
    fn tree() -> Tree;
}
pub struct Gemm<E = ()> {}
#[derive(Clone, Copy, Debug)]
pub struct Seed<'a>(_);
pub fn abs_grad(x: f32) -> f32 {}
pub fn clamp(x: f32, low: f32, high: f32) -> f32 {}
pub fn cos_grad(x: f32) -> f32 {}
pub use crate::Arch;
pub use crate::Device;
pub use crate::DeviceTensor;
pub use crate::Element;
pub use crate::ElementType;
pub use epilogue_macros::elementwise;
pub use epilogue_macros::epilogue;
pub use epilogue_macros::reducer;
pub use epilogue_runtime::f8e4m3;
pub use epilogue_runtime::f8e5m2;
pub fn erf_grad(x: f32) -> f32 {}
pub fn exp_grad(x: f32) -> f32 {}
pub fn gelu(x: f32) -> f32 {}
pub fn gelu_grad(x: f32) -> f32 {}
pub fn gelu_tanh(x: f32) -> f32 {}
pub fn gelu_tanh_grad(x: f32) -> f32 {}
pub use half::bf16;
pub use half::f16;
pub fn hardswish(x: f32) -> f32 {}
pub fn hardswish_grad(x: f32) -> f32 {}
pub fn leaky_relu(x: f32, slope: f32) -> f32 {}
pub fn leaky_relu_grad(x: f32, slope: f32) -> f32 {}
pub fn relu(x: f32) -> f32 {}
pub fn relu_grad(x: f32) -> f32 {}
#[must_use]
pub fn select<C: Condition>(
    condition: C,
    x: impl Operand<C::Value>,
    y: impl Operand<C::Value>,
) -> C::Value {}
pub fn sigmoid(x: f32) -> f32 {}
pub fn sigmoid_grad(x: f32) -> f32 {}
pub fn silu(x: f32) -> f32 {}
pub fn silu_grad(x: f32) -> f32 {}
pub fn sin_grad(x: f32) -> f32 {}
pub fn softplus(x: f32) -> f32 {}
pub fn softplus_grad(x: f32) -> f32 {}
pub fn square(x: f32) -> f32 {}
pub fn tanh_grad(x: f32) -> f32 {}

// epilogue::te

pub const AXIS_SEPARATOR: LayoutIndex = _;
#[derive(Clone, Debug, PartialEq)]
pub struct AllReduce {
    pub combiner: Combiner,
    pub source: Vec<Expr>,
    pub condition: Expr,
    pub threads: Vec<Axis>,
    pub results: Vec<Buffer>,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Array {}
impl Array {
    pub fn new(
        dtype: impl Into<DType>,
        shape: &[usize],
        values: &[f64],
    ) -> Result<Self, TeError> {}
    pub fn of_integers(
        dtype: impl Into<DType>,
        shape: &[usize],
        values: &[i64],
    ) -> Result<Self, TeError> {}
    pub fn unwritten(dtype: impl Into<DType>, shape: &[usize]) -> Self {}
    #[must_use]
    pub fn shape(&self) -> &[usize] {}
    #[must_use]
    pub fn values(&self) -> Vec<f64> {}
    #[must_use]
    pub fn integers(&self) -> Option<Vec<i64>> {}
    #[must_use]
    pub fn is_complete(&self) -> bool {}
}
#[derive(Clone, Debug)]
pub enum Attach {
    Root,
    Inline,
    At(Arc<Operation>, Axis),
    ScanInit(Arc<Operation>),
    ScanUpdate(Arc<Operation>),
}
#[derive(Clone, Copy)]
pub struct Axis {}
impl Axis {
    #[must_use]
    pub fn var(self) -> Var {}
    #[must_use]
    pub fn name(self) -> &'static str {}
    #[must_use]
    pub fn domain(self) -> Option<Domain> {}
    #[must_use]
    pub fn kind(self) -> AxisKind {}
    #[must_use]
    pub fn thread(self) -> Option<Thread> {}
}
impl Eq for Axis {}
impl PartialEq for Axis {}
impl fmt::Debug for Axis {}
impl std::hash::Hash for Axis {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AxisKind {
    Data,
    Thread,
    Reduce,
    Ordered,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    FloorMod,
    Min,
    Max,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    And,
    Or,
}
impl Binary {
    #[must_use]
    pub const fn is_truth(self) -> bool {}
}
#[derive(Clone)]
pub struct Buffer(_);
impl Buffer {
    #[must_use]
    pub fn is_compact(&self) -> bool {}
}
impl Buffer {
    #[must_use]
    pub fn separators(&self) -> &[usize] {}
    #[must_use]
    pub fn name(&self) -> &str {}
    #[must_use]
    pub fn dtype(&self) -> DType {}
    #[must_use]
    pub fn shape(&self) -> &[Expr] {}
    #[must_use]
    pub fn strides(&self) -> &[Expr] {}
    #[must_use]
    pub fn scope(&self) -> Scope {}
}
impl Buffer {
    pub fn load(&self, indices: impl Indices) -> Expr {}
    pub fn store(&self, indices: impl Indices, value: impl Into<Expr>) -> Stmt {}
}
impl Eq for Buffer {}
impl PartialEq for Buffer {}
impl fmt::Debug for Buffer {}
impl std::hash::Hash for Buffer {}
#[derive(Clone, Debug)]
pub struct BufferDecl {}
impl BufferDecl {
    #[must_use]
    pub fn strides(self, strides: impl Indices) -> Self {}
    #[must_use]
    pub fn element_offset(self, offset: Var) -> Self {}
    #[must_use]
    pub fn offset_factor(self, factor: i64) -> Self {}
    pub fn scope(self, scope: &str) -> Result<Self, TeError> {}
    #[must_use]
    pub fn buffer(&self) -> &Buffer {}
}
#[derive(Clone, Debug, PartialEq)]
pub enum CallArgument {
    Pointer(Buffer, Vec<Expr>),
    Value(Expr),
}
#[derive(Clone, PartialEq)]
pub struct Combiner {}
impl Combiner {
    #[must_use]
    pub fn identity(&self) -> &[Expr] {}
    #[must_use]
    pub fn is_commutative(&self) -> bool {}
}
impl fmt::Debug for Combiner {}
#[derive(Debug)]
pub struct Compute {
    pub axes: Vec<Axis>,
    pub reduce_axes: Vec<Axis>,
    pub body: Vec<Expr>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    Bool,
    Number(ElementType),
}
impl DType {
    pub const I32: Self = _;
    pub const I64: Self = _;
    pub const F32: Self = _;
    #[must_use]
    pub const fn is_integer(self) -> bool {}
    #[must_use]
    pub const fn is_float(self) -> bool {}
    #[must_use]
    pub const fn in_memory(self) -> ElementType {}
    #[must_use]
    pub const fn range(self) -> Option<(i64, i64)> {}
    #[must_use]
    pub const fn holds(self, value: i64) -> bool {}
    #[must_use]
    pub const fn script_name(self) -> &'static str {}
    #[must_use]
    pub fn least(self) -> f64 {}
    #[must_use]
    pub fn greatest(self) -> f64 {}
}
impl From<ElementType> for DType {}
impl fmt::Display for DType {}
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceCall {
    pub function: Arc<DeviceFunction>,
    pub arguments: Vec<CallArgument>,
}
#[derive(Clone, Debug, thiserror::Error)]
pub struct DeviceError(_);
impl DeviceError {
    #[must_use]
    pub fn get(&self) -> &epilogue_runtime::Error {}
}
impl PartialEq for DeviceError {}
#[derive(Debug, PartialEq, Eq)]
pub struct DeviceFunction {}
impl DeviceFunction {
    pub fn call(self: &Arc<Self>, arguments: Vec<CallArgument>, portable: Stmt) -> Stmt {}
}
impl DeviceFunction {
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Arc<Self> {}
    #[must_use]
    pub fn name(&self) -> &str {}
    #[must_use]
    pub fn text(&self) -> &str {}
}
#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    pub min: Expr,
    pub extent: Expr,
}
impl Domain {
    pub fn new(min: impl Into<Expr>, extent: impl Into<Expr>) -> Self {}
    pub fn up_to(extent: impl Into<Expr>) -> Self {}
}
#[derive(Clone)]
pub struct Expr(pub(crate) _);
impl Eq for Expr {}
impl Expr {
    #[must_use]
    pub fn int(value: i64) -> Self {}
    #[must_use]
    pub fn truth(value: bool) -> Self {}
    #[must_use]
    pub fn constant(value: f64, dtype: DType) -> Self {}
    #[must_use]
    pub fn kind(&self) -> &Kind {}
    #[must_use]
    pub fn dtype(&self) -> DType {}
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {}
    #[must_use]
    pub fn as_var(&self) -> Option<Var> {}
    #[must_use]
    pub fn binary(op: Binary, a: Self, b: Self) -> Self {}
    #[must_use]
    pub fn floor_div(&self, by: impl Into<Self>) -> Self {}
    #[must_use]
    pub fn floor_mod(&self, by: impl Into<Self>) -> Self {}
    #[must_use]
    pub fn min(&self, other: impl Into<Self>) -> Self {}
    #[must_use]
    pub fn max(&self, other: impl Into<Self>) -> Self {}
    #[must_use]
    pub fn less(&self, other: impl Into<Self>) -> Self {}
    #[must_use]
    pub fn less_equal(&self, other: impl Into<Self>) -> Self {}
    #[must_use]
    pub fn greater(&self, other: impl Into<Self>) -> Self {}
    #[must_use]
    pub fn greater_equal(&self, other: impl Into<Self>) -> Self {}
    #[must_use]
    pub fn equal(&self, other: impl Into<Self>) -> Self {}
    #[must_use]
    pub fn not_equal(&self, other: impl Into<Self>) -> Self {}
    #[must_use]
    pub fn and(&self, other: impl Into<Self>) -> Self {}
    #[must_use]
    pub fn or(&self, other: impl Into<Self>) -> Self {}
    #[must_use]
    pub fn select(&self, then: impl Into<Self>, otherwise: impl Into<Self>) -> Self {}
    #[must_use]
    pub fn cast(&self, to: impl Into<DType>) -> Self {}
    #[must_use]
    pub fn apply(op: Op, operands: Vec<Self>) -> Self {}
    #[must_use]
    pub fn call(function: &'static Function, operands: Vec<Self>) -> Self {}
}
impl From<&Self> for Expr {}
impl From<Axis> for Expr {}
impl From<Bound> for Expr {}
impl From<Var> for Expr {}
impl From<bool> for Expr {}
impl From<f32> for Expr {}
impl From<f64> for Expr {}
impl Hash for Expr {}
impl PartialEq for Expr {}
impl fmt::Debug for Expr {}
impl ops::Neg for Expr {}
impl ops::Not for Expr {}
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionError {
    MixedTypes { left: DType, right: DType },
    MixedOperands { function: String, first: DType, other: DType },
    OperandType { operation: String, given: DType },
    Arity { function: String, needed: usize, given: usize },
    Nested { most: u32 },
    Chained { tensor: String, most: u32 },
    Unfolded { most: usize },
    Unrepresentable { value: String, dtype: DType },
    AxisGivenUp { axis: String, kept: usize },
    Rank { tensor: String, needed: usize, given: usize },
    Shape { operation: &'static str, tensor: String, given: String, needed: String },
    Stride { operation: &'static str, given: i32 },
    IndexType { tensor: String, given: DType },
    NoSuchAxis { tensor: String, kind: &'static str, dimension: usize, count: usize },
    ForeignAxis { tensor: String, axis: String },
    EmptyBody { tensor: String },
    ReductionInside { tensor: String },
    TupleReduction { tensor: String },
    NotAReduceAxis { axis: String },
    RepeatedAxis { axis: String },
    ReducerArity { reducer: String, needed: usize, given: usize },
    ReducerType { reducer: String, needed: DType, given: DType },
    ReducerUses { reducer: String, part: &'static str, what: String },
    InitCount { needed: usize, given: usize },
    InitForm { given: DType },
    Extent { of: String, given: String },
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group(pub(crate) _);
pub trait Indices {
    fn expressions(self) -> Vec<Expr>;
}
pub trait IntoDomain {
    fn into_domain(self) -> Domain;
}
#[derive(Clone, Debug, Default)]
pub struct IntrinBody {
    pub body: Option<Stmt>,
    pub reset: Option<Stmt>,
    pub update: Option<Stmt>,
}
#[derive(Debug)]
pub struct Kernel {}
impl Kernel {
    #[must_use]
    pub fn device(&self) -> &Device {}
    #[must_use]
    pub fn program(&self) -> &Program {}
    #[must_use]
    pub fn source(&self) -> &str {}
    #[must_use]
    pub fn launches(&self) -> &[epilogue_runtime::Kernel] {}
    pub fn run_bound(
        &self,
        arguments: &[(&Tensor, Argument<'_>)],
    ) -> Result<(), TeError> {}
    pub fn run_bound_on(
        &self,
        stream: &Stream,
        arguments: &[(&Tensor, Argument<'_>)],
    ) -> Result<(), TeError> {}
    pub fn run(&self, arguments: &[Argument<'_>]) -> Result<(), TeError> {}
    pub fn run_on(
        &self,
        stream: &Stream,
        arguments: &[Argument<'_>],
    ) -> Result<(), TeError> {}
    pub fn prepare(&self, shapes: &[(&Tensor, &[usize])]) -> Result<(), TeError> {}
}
#[derive(Clone, Debug)]
pub enum Kind {
    Int(i64),
    Float(f64),
    Var(Var),
    Binary(Binary, Expr, Expr),
    Not(Expr),
    Select(Expr, Expr, Expr),
    Cast(Expr),
    Apply(Op, Vec<Expr>),
    Call(&'static Function, Vec<Expr>),
    Read(Tensor, Vec<Expr>),
    Load(Buffer, Vec<Expr>),
    Reduce(Arc<Reduce>, usize),
    Likely(Expr),
    Invalid(TeError),
}
impl PartialEq for Kind {}
#[derive(Clone, Debug)]
pub enum LayoutIndex {
    Index(Expr),
    Separator,
}
impl<T: Into<Expr>> From<T> for LayoutIndex {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoopKind {
    Serial,
    Parallel,
    Vectorized,
    Unrolled,
}
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoweringError {
    SplitRemainder { stage: String, axis: String, extent: String, condition: String },
    NestedLoops { stage: String, what: &'static str, given: usize, most: usize },
    Unroll { counter: String, extent: String, reason: &'static str },
    ThreadReduction { stage: String, reason: &'static str },
    AcrossBlocks { tensor: String },
    AcrossThreads {
        tensor: String,
        scope: &'static str,
        owner: &'static str,
        axis: String,
        thread: &'static str,
        wider: &'static str,
    },
    DivergentBarrier { condition: String },
    VirtualThread { axis: String, reason: &'static str },
    ThreadExtent { thread: &'static str, stage: String, needed: String, given: String },
    Bound { stage: String, axis: String, reason: &'static str },
    MissingArgument { tensor: String, what: &'static str },
    Unbound { variable: String },
    NotLowered { what: String },
    Target { what: String, target: &'static str },
}
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    DoubleBufferWrite(Buffer),
    Pragma(Axis, Pragma),
    Call(DeviceCall),
}
#[derive(Debug)]
pub struct Operation {}
impl Operation {
    #[must_use]
    pub fn body_text(&self) -> String {}
}
impl Operation {
    #[must_use]
    pub fn name(&self) -> &str {}
    #[must_use]
    pub fn kind(&self) -> &OperationKind {}
    #[must_use]
    pub fn as_compute(&self) -> Option<&Compute> {}
    pub fn axis(&self, dimension: usize) -> Result<Axis, TeError> {}
    pub fn reduce_axis(&self, place: usize) -> Result<Axis, TeError> {}
    #[must_use]
    pub fn as_scan(&self) -> Option<&Scan> {}
    #[must_use]
    pub fn values(&self) -> usize {}
}
#[derive(Debug)]
pub enum OperationKind {
    Placeholder { shape: Vec<Expr>, dtype: DType },
    Compute(Compute),
    Scan(Scan),
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pragma {
    AutoUnrollMaxStep(i64),
    UnrollExplicit(bool),
    DebugSkipRegion,
    ParallelLaunchPoint,
    ParallelStridePattern,
    ParallelBarrierWhenFinish,
}
impl Pragma {
    #[must_use]
    pub const fn key(self) -> &'static str {}
    #[must_use]
    pub fn value(self) -> i64 {}
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PragmaValue {
    None,
    Int(i64),
    Text(String),
}
impl From<&str> for PragmaValue {}
impl From<()> for PragmaValue {}
impl From<bool> for PragmaValue {}
impl From<i32> for PragmaValue {}
impl From<i64> for PragmaValue {}
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub name: String,
    pub arguments: Vec<(Tensor, Buffer)>,
    pub requirements: Vec<Requirement>,
    pub body: Stmt,
}
impl Program {
    #[must_use]
    pub fn primfn(&self) -> String {}
}
impl Program {
    #[must_use]
    pub fn script(&self, style: ScriptStyle) -> String {}
}
impl Program {
    pub fn build(&self, device: &Device) -> Result<Kernel, TeError> {}
}
impl Program {
    pub fn interpret_bound(
        &self,
        arguments: &mut [(&Tensor, &mut Array)],
    ) -> Result<(), TeError> {}
    pub fn interpret(&self, arguments: &mut [Array]) -> Result<(), TeError> {}
}
impl Program {
    pub fn unrolled(&self, config: &UnrollConfig) -> Result<Self, TeError> {}
}
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {}
#[derive(Clone)]
pub struct Reducer {}
impl Reducer {
    #[must_use]
    pub fn associative_only(self) -> Self {}
    #[must_use]
    pub fn name(&self) -> &str {}
    pub fn over(&self, source: impl Into<Expr>, axes: impl AsRef<[Axis]>) -> Expr {}
    pub fn over_all(&self, source: &[Expr], axes: impl AsRef<[Axis]>) -> Vec<Expr> {}
    pub fn over_where(
        &self,
        source: impl Into<Expr>,
        axes: impl AsRef<[Axis]>,
        condition: Expr,
    ) -> Expr {}
    pub fn over_from(
        &self,
        source: impl Into<Expr>,
        axes: impl AsRef<[Axis]>,
        init: impl Into<Expr>,
    ) -> Expr {}
    pub fn build(
        &self,
        source: &[Expr],
        axes: &[Axis],
        condition: Option<Expr>,
        init: Vec<Expr>,
    ) -> Vec<Expr> {}
}
#[derive(Clone, Debug)]
pub enum Relation {
    Split { parent: Axis, outer: Axis, inner: Axis, by: SplitBy, predicated: bool },
    Transform { from: Vec<Axis>, to: Vec<Axis>, extents: Vec<Expr>, values: Vec<Expr> },
    Fuse { outer: Axis, inner: Axis, fused: Axis },
    Singleton { axis: Axis },
}
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    pub condition: Expr,
    pub broken: TeError,
}
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    IntegerRange,
    ArgumentCount { given: usize, needed: Vec<String> },
    Argument { tensor: String, reason: String },
    Failed { reason: String },
}
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    Int(i64),
    Float(f64),
}
#[derive(Debug)]
pub struct Scan {
    pub axis: Axis,
    pub init: Vec<Tensor>,
    pub update: Vec<Tensor>,
    pub state: Vec<Tensor>,
    pub inputs: Vec<Tensor>,
}
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    Count { init: usize, update: usize, state: usize },
    State { tensor: String },
    Body { what: &'static str, tensor: String },
    Type { what: &'static str, needed: DType, given: DType },
    Rank { what: &'static str, needed: usize, given: usize },
    Shape {
        what: &'static str,
        tensor: String,
        dimension: usize,
        needed: String,
        given: String,
    },
    Read { stage: String, tensor: String, index: String, step: Option<i64> },
    Before { stage: String, tensor: String, index: String, back: i64, steps: i64 },
    Shared { tensor: String },
    Outside { stage: String, scan: String },
    Steps { tensor: String, most: usize },
}
#[derive(Clone, Debug)]
pub struct Schedule {}
impl Schedule {
    #[must_use]
    pub fn primitive_record(&self) -> Vec<&str> {}
}
impl Schedule {
    pub fn auto_inline_elem_wise(&mut self) {}
    pub fn auto_inline_broadcast(&mut self) {}
    pub fn auto_inline_injective(&mut self) {}
}
impl Schedule {
    pub fn cache_read(
        &mut self,
        tensor: &Tensor,
        scope: &str,
        readers: &[&Tensor],
    ) -> Result<Tensor, TeError> {}
}
impl Schedule {
    pub fn cache_write(
        &mut self,
        tensor: &Tensor,
        scope: &str,
    ) -> Result<Tensor, TeError> {}
    pub fn cache_write_all(
        &mut self,
        tensors: &[&Tensor],
        scope: &str,
    ) -> Result<Vec<Tensor>, TeError> {}
}
impl Schedule {
    pub fn create_group(
        &mut self,
        outputs: &[&Tensor],
        inputs: &[&Tensor],
        include_inputs: bool,
    ) -> Result<Group, TeError> {}
    pub fn group_compute_at(
        &mut self,
        group: Group,
        parent: &Tensor,
        axis: Axis,
    ) -> Result<(), TeError> {}
    pub fn group_compute_root(&mut self, group: Group) -> Result<(), TeError> {}
}
impl Schedule {
    pub fn normalize(&self) -> Result<Self, TeError> {}
}
impl Schedule {
    pub fn rfactor(&mut self, tensor: &Tensor, axis: Axis) -> Result<Tensor, TeError> {}
    pub fn rfactor_at(
        &mut self,
        tensor: &Tensor,
        axis: Axis,
        place: isize,
    ) -> Result<Vec<Tensor>, TeError> {}
}
impl Schedule {
    pub fn stage(&mut self, tensor: &Tensor) -> Result<&mut Stage, TeError> {}
    pub fn operation(&self, tensor: &Tensor) -> Result<&Arc<Operation>, TeError> {}
    pub fn compute_at(
        &mut self,
        tensor: &Tensor,
        parent: &Tensor,
        axis: Axis,
    ) -> Result<(), TeError> {}
    pub fn compute_root(&mut self, tensor: &Tensor) -> Result<(), TeError> {}
    pub fn compute_inline(&mut self, tensor: &Tensor) -> Result<(), TeError> {}
    pub fn set_scope(&mut self, tensor: &Tensor, scope: &str) -> Result<(), TeError> {}
}
impl Schedule {
    pub fn to_json(&self, tensors: &[&Tensor]) -> Result<String, TeError> {}
    pub fn from_json(text: &str) -> Result<(Self, Vec<Tensor>), TeError> {}
}
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    NotScheduled { tensor: String },
    NotALoop { axis: String, stage: String, split: bool },
    AxisKind { primitive: &'static str, axis: String, reason: &'static str },
    SplitFactor { axis: String, factor: String },
    NotConsecutive { first: String, second: String },
    NotAThread { name: String },
    ComputeAt { stage: String, parent: String, reason: &'static str },
    Inline { stage: String, reason: &'static str },
    Inlined { stage: String, most: usize },
    Json { reason: String },
    JsonSize { what: &'static str, given: usize, most: usize },
    Pragma { key: String, reason: String },
    Group { stage: String, reason: &'static str },
    Rfactor { stage: String, axis: String, reason: &'static str },
    Cache { tensor: String, reason: &'static str },
    Scope { name: String },
    Primitive { primitive: &'static str, stage: String, reason: String },
    Intrinsic { intrinsic: String, reason: String },
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    Global,
    Shared,
    Warp,
    Local,
}
impl Scope {
    #[must_use]
    pub const fn name(self) -> &'static str {}
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptStyle {
    pub global_symbol: bool,
    pub float_points: bool,
}
impl ScriptStyle {
    pub const EARLIER: Self = _;
    pub const LATER: Self = _;
}
#[derive(Clone, Debug)]
pub enum SplitBy {
    Factor(Expr),
    Parts(Expr),
}
#[derive(Clone, Debug)]
pub struct Stage {}
impl Stage {
    #[must_use]
    pub fn operation(&self) -> &Arc<Operation> {}
    #[must_use]
    pub fn loops(&self) -> &[Axis] {}
    #[must_use]
    pub fn place(&self) -> &Attach {}
}
impl Stage {
    pub fn fuse(&mut self, outer: Axis, inner: Axis) -> Result<Axis, TeError> {}
    pub fn fuse_all(&mut self, axes: &[Axis]) -> Result<Axis, TeError> {}
}
impl Stage {
    pub fn pragma(
        &mut self,
        axis: Axis,
        key: &str,
        value: impl Into<PragmaValue>,
    ) -> Result<(), TeError> {}
}
impl Stage {
    pub fn prefetch(
        &mut self,
        tensor: &Tensor,
        axis: Axis,
        offset: impl Into<Expr>,
    ) -> Result<(), TeError> {}
}
impl Stage {
    pub fn split(
        &mut self,
        axis: Axis,
        factor: impl Into<Expr>,
    ) -> Result<(Axis, Axis), TeError> {}
    pub fn split_parts(
        &mut self,
        axis: Axis,
        parts: impl Into<Expr>,
    ) -> Result<(Axis, Axis), TeError> {}
    pub fn split_by(
        &mut self,
        axis: Axis,
        by: SplitBy,
        disable_predication: bool,
    ) -> Result<(Axis, Axis), TeError> {}
    pub fn reorder(&mut self, order: &[Axis]) -> Result<(), TeError> {}
    pub fn tile(
        &mut self,
        x: Axis,
        y: Axis,
        x_factor: impl Into<Expr>,
        y_factor: impl Into<Expr>,
    ) -> Result<(Axis, Axis, Axis, Axis), TeError> {}
    pub fn bind(&mut self, axis: Axis, thread: Axis) -> Result<(), TeError> {}
    pub fn vectorize(&mut self, axis: Axis) -> Result<(), TeError> {}
    pub fn parallel(&mut self, axis: Axis) -> Result<(), TeError> {}
    pub fn unroll(&mut self, axis: Axis) -> Result<(), TeError> {}
    pub fn set_store_predicate(&mut self, condition: Expr) -> Result<(), TeError> {}
    pub fn env_threads(&mut self, threads: &[Axis]) -> Result<(), TeError> {}
}
impl Stage {
    pub fn storage_align(
        &mut self,
        axis: Axis,
        factor: i64,
        offset: i64,
    ) -> Result<(), TeError> {}
    pub fn double_buffer(&mut self) -> Result<(), TeError> {}
    pub fn rolling_buffer(&mut self) -> Result<(), TeError> {}
}
impl Stage {
    pub fn tensorize(
        &mut self,
        axis: Axis,
        intrin: &TensorIntrin,
    ) -> Result<(), TeError> {}
}
impl Stage {
    pub fn transform_layout(
        &mut self,
        map: impl FnOnce(&[Var]) -> Vec<LayoutIndex>,
    ) -> Result<Vec<Axis>, TeError> {}
}
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    For { var: Var, extent: Expr, kind: LoopKind, body: Box<Self> },
    If { condition: Expr, then: Box<Self> },
    Store { buffer: Buffer, indices: Vec<Expr>, value: Expr },
    Seq(Vec<Self>),
    Let { var: Var, value: Expr, body: Box<Self> },
    Allocate { buffer: Buffer, body: Box<Self> },
    Launch { thread: Thread, var: Var, extent: Expr, body: Box<Self> },
    AllReduce(Box<AllReduce>),
    Barrier,
    Prefetch { buffer: Buffer, indices: Vec<Expr> },
    Note { note: Note, body: Box<Self> },
}
impl Stmt {
    pub fn for_range(
        name: &str,
        extent: impl Into<Expr>,
        body: impl FnOnce(Var) -> Self,
    ) -> Self {}
    pub fn for_kind(
        kind: LoopKind,
        name: &str,
        extent: impl Into<Expr>,
        body: impl FnOnce(Var) -> Self,
    ) -> Self {}
    #[must_use]
    pub fn when(condition: Expr, then: Self) -> Self {}
    pub fn in_order(statements: impl IntoIterator<Item = Self>) -> Self {}
    pub fn with_local(
        name: &str,
        dtype: impl Into<DType>,
        shape: impl Indices,
        body: impl FnOnce(&Buffer) -> Self,
    ) -> Self {}
}
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TeError {
    Expression(ExpressionError),
    Scan(ScanError),
    Schedule(ScheduleError),
    Lowering(LoweringError),
    Run(RunError),
    Data(DataError),
    Device(DeviceError),
    Internal { what: String },
}
impl From<epilogue_runtime::Error> for TeError {}
#[derive(Clone)]
pub struct Tensor {}
impl Eq for Tensor {}
impl Hash for Tensor {}
impl PartialEq for Tensor {}
impl Tensor {
    #[must_use]
    pub fn operation(&self) -> &Arc<Operation> {}
    #[must_use]
    pub fn value(&self) -> usize {}
    #[must_use]
    pub fn name(&self) -> String {}
    #[must_use]
    pub fn dtype(&self) -> DType {}
    #[must_use]
    pub fn shape(&self) -> Vec<Expr> {}
    #[must_use]
    pub fn rank(&self) -> usize {}
    pub fn axis(&self, dimension: usize) -> Result<Axis, TeError> {}
    pub fn reduce_axis(&self, place: usize) -> Result<Axis, TeError> {}
    pub fn scan_axis(&self) -> Result<Axis, TeError> {}
}
impl Tensor {
    pub fn at(&self, indices: impl Indices) -> Expr {}
}
impl fmt::Debug for Tensor {}
#[derive(Clone, Debug)]
pub struct TensorIntrin(_);
impl TensorIntrin {
    #[must_use]
    pub fn operation(&self) -> &Arc<Operation> {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Thread {
    Block(u8),
    Thread(u8),
    Virtual,
}
impl Thread {
    #[must_use]
    pub const fn name(self) -> &'static str {}
}
#[derive(Clone, Debug)]
pub struct Trace {}
impl Trace {
    #[must_use]
    pub fn passes(&self) -> &[(&'static str, Program)] {}
    pub fn into_result(self) -> Result<Program, TeError> {}
}
impl fmt::Display for Trace {}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnrollConfig {
    pub auto_max_step: i64,
    pub auto_max_depth: i64,
    pub auto_max_extent: i64,
    pub explicit: bool,
}
impl Default for UnrollConfig {}
#[derive(Clone, Copy)]
pub struct Var {}
impl Eq for Var {}
impl PartialEq for Var {}
impl Var {
    #[must_use]
    pub fn new(name: &str, dtype: DType) -> Self {}
    #[must_use]
    pub fn name(self) -> &'static str {}
    #[must_use]
    pub fn dtype(self) -> DType {}
}
impl fmt::Debug for Var {}
impl std::hash::Hash for Var {}
pub fn all(source: impl Into<Expr>, axes: impl AsRef<[Axis]>) -> Expr {}
#[must_use]
pub fn all_reducer() -> Reducer {}
pub fn any(source: impl Into<Expr>, axes: impl AsRef<[Axis]>) -> Expr {}
#[must_use]
pub fn any_reducer() -> Reducer {}
pub fn comm_reducer(
    combine: impl Fn(Expr, Expr) -> Expr + Send + Sync + 'static,
    identity: impl Fn(DType) -> Expr + Send + Sync + 'static,
    name: &str,
) -> Reducer {}
pub fn compute<const N: usize, S: Indices>(
    shape: S,
    name: &str,
    body: impl FnOnce([Axis; N]) -> Expr,
) -> Result<Tensor, TeError> {}
pub fn compute_all<const N: usize, S: Indices>(
    shape: S,
    name: &str,
    body: impl FnOnce([Axis; N]) -> Vec<Expr>,
) -> Result<Vec<Tensor>, TeError> {}
pub fn compute_named<const N: usize, S: Indices>(
    shape: S,
    name: &str,
    axes: [&str; N],
    body: impl FnOnce([Axis; N]) -> Vec<Expr>,
) -> Result<Vec<Tensor>, TeError> {}
pub fn compute_over(
    shape: impl Indices,
    name: &str,
    body: impl FnOnce(&[Axis]) -> Vec<Expr>,
) -> Result<Vec<Tensor>, TeError> {}
#[must_use]
pub fn create_schedule(outputs: &[&Tensor]) -> Schedule {}
#[must_use]
pub fn decl_buffer(tensor: &Tensor, name: &str) -> BufferDecl {}
pub fn decl_tensor_intrin(
    output: &Tensor,
    binds: &[BufferDecl],
    implement: impl FnOnce(&[Buffer], &[Buffer]) -> Result<IntrinBody, TeError>,
) -> Result<TensorIntrin, TeError> {}
pub fn lower(
    schedule: &Schedule,
    arguments: &[&Tensor],
    name: &str,
) -> Result<Program, TeError> {}
#[must_use]
pub fn lower_traced(schedule: &Schedule, arguments: &[&Tensor], name: &str) -> Trace {}
pub fn max(source: impl Into<Expr>, axes: impl AsRef<[Axis]>) -> Expr {}
#[must_use]
pub fn max_reducer() -> Reducer {}
pub fn min(source: impl Into<Expr>, axes: impl AsRef<[Axis]>) -> Expr {}
#[must_use]
pub fn min_reducer() -> Reducer {}
pub fn placeholder(shape: impl Indices, name: &str) -> Tensor {}
pub fn placeholder_of(
    dtype: impl Into<DType>,
    shape: impl Indices,
    name: &str,
) -> Tensor {}
pub fn prod(source: impl Into<Expr>, axes: impl AsRef<[Axis]>) -> Expr {}
#[must_use]
pub fn reduce_axis(domain: impl IntoDomain, name: &str) -> Axis {}
pub fn scan(
    init: &Tensor,
    update: &Tensor,
    state: &Tensor,
    inputs: &[Tensor],
) -> Result<Tensor, TeError> {}
pub fn scan_all(
    init: &[Tensor],
    update: &[Tensor],
    state: &[Tensor],
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, TeError> {}
pub fn scan_fix_points(tensor: &Tensor) -> Result<Vec<Vec<bool>>, TeError> {}
pub fn sum(source: impl Into<Expr>, axes: impl AsRef<[Axis]>) -> Expr {}
#[must_use]
pub fn sum_reducer() -> Reducer {}
#[must_use]
pub fn thread_axis(name: &str) -> Axis {}
pub fn tuple_reducer(
    combine: impl Fn(&[Expr], &[Expr]) -> Vec<Expr> + Send + Sync + 'static,
    identity: impl Fn(&[DType]) -> Vec<Expr> + Send + Sync + 'static,
    name: &str,
) -> Reducer {}
#[must_use]
pub fn var(name: &str) -> Var {}

// epilogue::te::auto

#[derive(Debug)]
pub struct Automatic {}
impl Automatic {
    #[must_use]
    pub fn order(self, order: Order) -> Self {}
    #[must_use]
    pub fn parameters(&self) -> &[Tensor] {}
    #[must_use]
    pub fn is_parallel_in_time(&self) -> bool {}
    pub fn build(self, device: &Device) -> Result<Kernel, TeError> {}
}
pub struct Kernel {}
impl Kernel {
    #[must_use]
    pub fn parameters(&self) -> &[Tensor] {}
    #[must_use]
    pub fn inputs(&self) -> &[Tensor] {}
    #[must_use]
    pub fn outputs(&self) -> &[Tensor] {}
    #[must_use]
    pub fn device(&self) -> &Device {}
    pub fn run_bound(
        &self,
        arguments: &[(&Tensor, Argument<'_>)],
    ) -> Result<(), TeError> {}
    pub fn run_bound_on(
        &self,
        stream: &Stream,
        arguments: &[(&Tensor, Argument<'_>)],
    ) -> Result<(), TeError> {}
    pub fn run(&self, arguments: &[Argument<'_>]) -> Result<(), TeError> {}
    pub fn run_on(
        &self,
        stream: &Stream,
        arguments: &[Argument<'_>],
    ) -> Result<(), TeError> {}
    pub fn prepare(&self, shapes: &[(&Tensor, &[usize])]) -> Result<(), TeError> {}
    #[must_use]
    pub fn choice(&self) -> String {}
    #[must_use]
    pub fn source(&self) -> String {}
}
impl fmt::Debug for Kernel {}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    Device,
    Shape,
    Exact,
}
pub fn build(outputs: &[&Tensor]) -> Result<Automatic, TeError> {}
pub fn map(output: &Tensor) -> Result<Automatic, TeError> {}
pub fn map_all(outputs: &[&Tensor]) -> Result<Automatic, TeError> {}
pub fn reduce(output: &Tensor) -> Result<Automatic, TeError> {}
pub fn reduce_all(outputs: &[&Tensor]) -> Result<Automatic, TeError> {}
pub fn scan(output: &Tensor) -> Result<Automatic, TeError> {}
pub fn scan_all(outputs: &[&Tensor]) -> Result<Automatic, TeError> {}

// epilogue::te::native

#[derive(Debug)]
pub struct HostTensor<'a> {}
impl<'a> HostTensor<'a> {
    pub fn read<T: Element>(values: &'a [T], shape: &[usize]) -> Result<Self, TeError> {}
    pub fn write<T: PlainElement>(
        values: &'a mut [T],
        shape: &[usize],
    ) -> Result<Self, TeError> {}
    pub fn read_bytes(
        dtype: impl Into<DType>,
        bytes: &'a [u8],
        shape: &[usize],
    ) -> Result<Self, TeError> {}
    pub fn write_bytes(
        dtype: impl Into<DType>,
        bytes: &'a mut [u8],
        shape: &[usize],
    ) -> Result<Self, TeError> {}
    pub unsafe fn from_raw(
        pointer: *mut u8,
        len: usize,
        dtype: DType,
        shape: &[usize],
        writable: bool,
    ) -> Self {}
    pub fn with_strides(
        self,
        shape: &[usize],
        strides: &[usize],
    ) -> Result<Self, TeError> {}
}
#[derive(Debug)]
pub struct NativeKernel {}
impl NativeKernel {
    #[must_use]
    pub fn name(&self) -> &str {}
    pub fn run_bound(
        &self,
        arguments: Vec<(&Tensor, HostTensor<'_>)>,
    ) -> Result<(), TeError> {}
    pub fn run(&self, arguments: &mut [HostTensor<'_>]) -> Result<(), TeError> {}
}
pub fn compile(program: &Program) -> Result<NativeKernel, TeError> {}

// epilogue::te::ops

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimensions {}
impl<const N: usize> From<&[usize; N]> for Dimensions {}
impl<const N: usize> From<[usize; N]> for Dimensions {}
impl Dimensions {
    #[must_use]
    pub const fn all() -> Self {}
    #[must_use]
    pub fn kept(self) -> Self {}
}
impl From<&[usize]> for Dimensions {}
impl From<usize> for Dimensions {}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {}
impl From<usize> for Running {}
impl Running {
    #[must_use]
    pub const fn along(dimension: usize) -> Self {}
    #[must_use]
    pub const fn all() -> Self {}
    #[must_use]
    pub const fn exclusive(self) -> Self {}
    #[must_use]
    pub const fn reversed(self) -> Self {}
}
pub fn all(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {}
pub fn any(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {}
pub fn argmax(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {}
pub fn argmin(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {}
pub fn conv2d(input: &Tensor, filter: &Tensor, stride: i32) -> Result<Tensor, TeError> {}
pub fn cumprod(a: &Tensor, running: impl Into<Running>) -> Result<Tensor, TeError> {}
pub fn cumsum(a: &Tensor, running: impl Into<Running>) -> Result<Tensor, TeError> {}
pub fn gru_cell(
    input: &Tensor,
    state: &Tensor,
    hidden: &Tensor,
) -> Result<Tensor, TeError> {}
pub fn layer_norm(
    a: &Tensor,
    dimensions: impl Into<Dimensions>,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    epsilon: f64,
) -> Result<Tensor, TeError> {}
pub fn linear_recurrence(a: &Tensor, x: &Tensor) -> Result<Tensor, TeError> {}
pub fn log_softmax(a: &Tensor, dimension: usize) -> Result<Tensor, TeError> {}
pub fn logsumexp(
    a: &Tensor,
    dimensions: impl Into<Dimensions>,
) -> Result<Tensor, TeError> {}
pub fn lstm_cell(gates: &Tensor, cell: &Tensor) -> Result<(Tensor, Tensor), TeError> {}
pub fn max(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {}
pub fn mean(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {}
pub fn min(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {}
pub fn norm(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {}
pub fn prod(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {}
pub fn rms_norm(
    a: &Tensor,
    dimensions: impl Into<Dimensions>,
    weight: Option<&Tensor>,
    epsilon: f64,
) -> Result<Tensor, TeError> {}
pub fn selective_scan(
    x: &Tensor,
    delta: &Tensor,
    a: &Tensor,
    b: &Tensor,
) -> Result<Tensor, TeError> {}
pub fn selective_scan_output(
    x: &Tensor,
    delta: &Tensor,
    a: &Tensor,
    b: &Tensor,
    c: &Tensor,
    skip: Option<&Tensor>,
) -> Result<Tensor, TeError> {}
pub fn softmax(a: &Tensor, dimension: usize) -> Result<Tensor, TeError> {}
pub fn std(
    a: &Tensor,
    dimensions: impl Into<Dimensions>,
    correction: f64,
) -> Result<Tensor, TeError> {}
pub fn sum(a: &Tensor, dimensions: impl Into<Dimensions>) -> Result<Tensor, TeError> {}
pub fn var(
    a: &Tensor,
    dimensions: impl Into<Dimensions>,
    correction: f64,
) -> Result<Tensor, TeError> {}

// epilogue::tile

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    Single,
    SubWarp { width: u32 },
    GuardedWarp { threads: u32 },
    Warp,
    TwoStage { warps: u32 },
    SharedTree,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    Indices { given: usize },
    Threads { extents: Vec<u32>, threads: u64 },
    NoSuchIndex { axis: usize, indices: usize },
    RepeatedIndex { axis: usize },
    NoState,
    StateSize { bytes: usize },
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectivePlan {}
#[derive(Clone, Debug, Default)]
pub struct DispatchTable {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExecutionScope {
    Thread,
    Warp,
    Warpgroup,
    Cta,
}
impl ExecutionScope {
    #[must_use]
    pub const fn threads(self, block: usize) -> usize {}
}
impl fmt::Display for ExecutionScope {}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    Empty { shape: Vec<usize>, layout: String },
    Count { layout: String, places: usize, shape: Vec<usize>, elements: usize },
    TooLarge { layout: String, limit: usize },
    NoSuchLane { layout: String, element: usize, lane: usize },
    Overlap { layout: String, first: usize, second: usize, place: Place },
    Slice { layout: String, dimension: usize, reason: String },
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryScope {
    Local,
    Shared,
}
impl fmt::Display for MemoryScope {}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub warp: usize,
    pub lane: usize,
    pub memory: usize,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub variant: String,
    pub predicate: String,
    pub reason: String,
}
impl fmt::Display for Refusal {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TileAxis {
    Memory,
    Lane,
    Warp,
}
impl TileAxis {
    #[must_use]
    pub const fn is_thread(self) -> bool {}
}
impl fmt::Display for TileAxis {}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileBuffer {}
impl TileBuffer {
    pub fn new(
        name: &str,
        element: ElementType,
        scope: MemoryScope,
        shape: &[usize],
        layout: TileLayout,
    ) -> Result<Self, TileError> {}
    pub fn local(
        name: &str,
        element: ElementType,
        shape: &[usize],
    ) -> Result<Self, TileError> {}
    pub fn shared(
        name: &str,
        element: ElementType,
        shape: &[usize],
    ) -> Result<Self, TileError> {}
    pub fn slice(&self, part: &[Range<usize>]) -> Result<Self, TileError> {}
    #[must_use]
    pub fn name(&self) -> &str {}
    #[must_use]
    pub const fn element(&self) -> ElementType {}
    #[must_use]
    pub const fn scope(&self) -> MemoryScope {}
    #[must_use]
    pub fn shape(&self) -> &[usize] {}
    #[must_use]
    pub const fn layout(&self) -> &TileLayout {}
}
impl fmt::Display for TileBuffer {}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileCode {
    pub variant: String,
    pub body: String,
}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TileError {
    Name { name: String },
    Layout { buffer: String, source: LayoutError },
    SharedThreads { buffer: String, layout: String },
    Axis { axis: isize, buffer: String, rank: usize },
    RepeatedAxis { axis: usize, buffer: String },
    Block { block: [u32; 3] },
    NoVariant { source_buffer: String, destination: String, refusals: Vec<Refusal> },
    Variant { variant: String, reason: String },
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileIter {
    pub extent: usize,
    pub stride: usize,
    pub axis: TileAxis,
}
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TileLayout {}
impl TileLayout {
    #[must_use]
    pub fn shards(shards: impl IntoIterator<Item = (usize, usize, TileAxis)>) -> Self {}
    #[must_use]
    pub fn row_major(shape: &[usize]) -> Self {}
    #[must_use]
    pub fn replicas(
        self,
        replicas: impl IntoIterator<Item = (usize, usize, TileAxis)>,
    ) -> Self {}
    #[must_use]
    pub fn offset(self, by: usize, axis: TileAxis) -> Self {}
    #[must_use]
    pub fn shard_iters(&self) -> &[TileIter] {}
    #[must_use]
    pub fn replica_iters(&self) -> &[TileIter] {}
    #[must_use]
    pub const fn origin(&self) -> Place {}
    #[must_use]
    pub fn len(&self) -> usize {}
    #[must_use]
    pub fn is_empty(&self) -> bool {}
    #[must_use]
    pub fn is_thread_local(&self) -> bool {}
    #[must_use]
    pub fn places(&self, element: usize) -> Vec<Place> {}
    #[must_use]
    pub fn elements(&self) -> HashMap<Place, usize> {}
    #[must_use]
    pub fn memory_len(&self) -> usize {}
    pub fn check(&self, shape: &[usize]) -> Result<(), LayoutError> {}
    pub fn slice(
        &self,
        shape: &[usize],
        part: &[(usize, usize)],
    ) -> Result<Self, LayoutError> {}
}
impl fmt::Display for TileLayout {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileOp {
    Sum,
    Max,
    Min,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileReduction {}
#[derive(Clone)]
pub struct Variant {}
#[must_use]
pub fn headers() -> String {}

// epilogue::tile::collective

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    Single,
    SubWarp { width: u32 },
    GuardedWarp { threads: u32 },
    Warp,
    TwoStage { warps: u32 },
    SharedTree,
}
impl fmt::Display for Algorithm {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierReason {
    Written,
    Read,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {}
impl Collective {
    #[must_use]
    pub fn new(extents: &[u32], reduced: &[usize]) -> Self {}
    #[must_use]
    pub fn state(self, sizes: &[usize]) -> Self {}
    #[must_use]
    pub fn associative_only(self) -> Self {}
    #[must_use]
    pub fn executed_once(self) -> Self {}
    pub fn plan(&self) -> Result<CollectivePlan, CollectiveError> {}
}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    Indices { given: usize },
    Threads { extents: Vec<u32>, threads: u64 },
    NoSuchIndex { axis: usize, indices: usize },
    RepeatedIndex { axis: usize },
    NoState,
    StateSize { bytes: usize },
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectivePlan {}
impl CollectivePlan {
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {}
    #[must_use]
    pub fn extents(&self) -> &[u32] {}
    #[must_use]
    pub const fn thread(&self) -> &Linear {}
    #[must_use]
    pub const fn rank(&self) -> &Linear {}
    #[must_use]
    pub const fn group(&self) -> &Linear {}
    #[must_use]
    pub const fn group_size(&self) -> u32 {}
    #[must_use]
    pub const fn groups(&self) -> u32 {}
    #[must_use]
    pub const fn mask(&self) -> Mask {}
    #[must_use]
    pub fn steps(&self) -> &[Step] {}
    #[must_use]
    pub const fn slots(&self) -> u32 {}
    #[must_use]
    pub fn shared_arrays(&self) -> &[SharedArray] {}
    #[must_use]
    pub const fn shared_bytes(&self) -> usize {}
    #[must_use]
    pub fn state(&self) -> &[usize] {}
    #[must_use]
    pub const fn is_commutative(&self) -> bool {}
    #[must_use]
    pub fn quantity(&self, quantity: Quantity, indices: &[u32]) -> u32 {}
    #[must_use]
    pub fn uses(&self, quantity: Quantity) -> bool {}
}
impl CollectivePlan {
    #[must_use]
    pub fn cuda(&self, text: &CollectiveText<'_>) -> String {}
}
impl fmt::Display for CollectivePlan {}
pub struct CollectiveText<'a> {
    pub prefix: &'a str,
    pub state: &'a [(&'a str, &'a str)],
    pub combine: &'a CombineText<'a>,
    pub arrays: Option<&'a [&'a str]>,
}
pub type CombineText<'a> = dyn Fn(&[String], &[String]) -> Vec<String> + 'a;
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    Below(Quantity, u32),
    MultipleOf(Quantity, u32),
}
impl fmt::Display for Guard {}
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linear {
    pub terms: Vec<(usize, u32)>,
}
impl Linear {
    #[must_use]
    pub fn at(&self, indices: &[u32]) -> u32 {}
}
pub const MAX_THREADS: u32 = _;
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mask {
    Uniform(u32),
    PartialLast { warp: u32, lanes: u32 },
}
impl Mask {
    #[must_use]
    pub const fn of_warp(self, warp: u32) -> u32 {}
}
impl fmt::Display for Mask {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    Rank,
    Group,
    Lane,
    Part,
}
impl fmt::Display for Quantity {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedArray {
    pub offset: usize,
    pub value_bytes: usize,
}
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    pub terms: Vec<(Quantity, u32)>,
    pub constant: u32,
}
impl fmt::Display for Slot {}
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Shuffle { offset: u32, width: u32, guards: Vec<Guard> },
    Broadcast { width: u32 },
    Store { slot: Slot, guards: Vec<Guard> },
    Load { slot: Slot, guards: Vec<Guard> },
    Combine { slot: Slot, store: Option<Slot>, guards: Vec<Guard> },
    Barrier(BarrierReason),
}
impl fmt::Display for Step {}
pub const WARP: u32 = _;

// epilogue::tile::reduction

#[derive(Clone, Debug, Default)]
pub struct DispatchTable {}
impl DispatchTable {
    #[must_use]
    pub fn empty() -> Self {}
    #[must_use]
    pub fn standard() -> Self {}
    pub fn register(&mut self, variant: Variant) {}
    #[must_use]
    pub fn variants(&self) -> &[Variant] {}
    pub fn choose(&self, reduction: &TileReduction) -> Result<&Variant, TileError> {}
    pub fn emit(&self, reduction: &TileReduction) -> Result<TileCode, TileError> {}
}
impl fmt::Display for DispatchTable {}
#[derive(Clone)]
pub struct Predicate {}
impl Predicate {
    pub fn new(
        name: &str,
        test: impl Fn(&TileReduction) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {}
    #[must_use]
    pub fn name(&self) -> &str {}
}
impl fmt::Debug for Predicate {}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileCode {
    pub variant: String,
    pub body: String,
}
impl TileCode {
    #[must_use]
    pub fn function(&self, name: &str) -> String {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileOp {
    Sum,
    Max,
    Min,
}
impl fmt::Display for TileOp {}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileReduction {}
impl TileReduction {
    pub fn new(
        op: TileOp,
        scope: ExecutionScope,
        destination: &TileBuffer,
        source: &TileBuffer,
        axes: &[isize],
    ) -> Result<Self, TileError> {}
    #[must_use]
    pub fn accumulate(self) -> Self {}
    #[must_use]
    pub fn thread_reduce(self) -> Self {}
    pub fn block(self, block: [u32; 3]) -> Result<Self, TileError> {}
    pub fn emit(&self) -> Result<TileCode, TileError> {}
    #[must_use]
    pub const fn op(&self) -> TileOp {}
    #[must_use]
    pub const fn scope(&self) -> ExecutionScope {}
    #[must_use]
    pub const fn destination(&self) -> &TileBuffer {}
    #[must_use]
    pub const fn source(&self) -> &TileBuffer {}
    #[must_use]
    pub fn axes(&self) -> &[usize] {}
    #[must_use]
    pub const fn accumulates(&self) -> bool {}
    #[must_use]
    pub const fn reduces_threads(&self) -> bool {}
    #[must_use]
    pub const fn block_extents(&self) -> [u32; 3] {}
    #[must_use]
    pub fn block_threads(&self) -> usize {}
}
impl fmt::Display for TileReduction {}
#[derive(Clone)]
pub struct Variant {}
impl Variant {
    pub fn new(
        name: &str,
        priority: i32,
        emit: impl Fn(&TileReduction) -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {}
    #[must_use]
    pub fn when(
        self,
        name: &str,
        test: impl Fn(&TileReduction) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {}
    #[must_use]
    pub fn name(&self) -> &str {}
    #[must_use]
    pub const fn priority(&self) -> i32 {}
    #[must_use]
    pub fn predicates(&self) -> &[Predicate] {}
    pub fn accepts(&self, reduction: &TileReduction) -> Result<(), Refusal> {}
}
impl fmt::Debug for Variant {}

// epilogue_runtime

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Absent {
    Driver { reason: String },
    Device { ordinal: usize, count: usize },
    Nvrtc { searched: Vec<PathBuf>, untrusted: Vec<String> },
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activity {
    Compiling,
    Measuring,
    Done,
}
impl fmt::Display for Activity {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {}
impl Arch {
    pub const SM_80: Self = _;
    pub const SM_86: Self = _;
    pub const SM_89: Self = _;
    pub const SM_90: Self = _;
    pub const SM_90A: Self = _;
    pub const SM_100A: Self = _;
    #[must_use]
    pub const fn new(major: u8, minor: u8) -> Self {}
    #[must_use]
    pub const fn specific(self) -> Self {}
    #[must_use]
    pub const fn of_device(major: u8, minor: u8) -> Self {}
    #[must_use]
    pub const fn capability(self) -> (u8, u8) {}
    #[must_use]
    pub const fn number(self) -> u32 {}
    #[must_use]
    pub const fn is_specific(self) -> bool {}
    #[must_use]
    pub const fn runs(self, code: Self) -> bool {}
    #[must_use]
    pub fn virtual_name(self) -> String {}
}
impl FromStr for Arch {}
impl fmt::Display for Arch {}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisList {}
impl AxisList {
    #[must_use]
    pub const fn name(&self) -> &'static str {}
    #[must_use]
    pub fn axes(&self) -> &[usize] {}
    #[must_use]
    pub fn extents(&self) -> &[usize] {}
    #[must_use]
    pub fn elements(&self) -> usize {}
}
impl fmt::Display for AxisList {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey(_);
impl CacheKey {
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {}
}
#[derive(Clone)]
pub struct Communicator {}
impl Communicator {
    #[must_use]
    pub fn in_process(ranks: usize) -> Vec<Self> {}
    #[cfg(feature = "nccl")]
    pub fn nccl(device: &Device, me: &LaunchedRank, meet: &Rendezvous) -> Result<Self> {}
    #[cfg(feature = "nccl")]
    pub unsafe fn borrow_nccl(
        device: &Device,
        communicator: *mut std::ffi::c_void,
    ) -> Result<Self> {}
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {}
    #[must_use]
    pub fn rank(&self) -> usize {}
    #[must_use]
    pub fn ranks(&self) -> usize {}
    #[must_use]
    pub fn compares(&self) -> bool {}
    #[must_use]
    pub fn stream(&self, device: &Device) -> Stream {}
    pub fn exchange(&self, text: &str) -> Result<Vec<String>> {}
    pub fn all_reduce_in_place(
        &self,
        tensor: &mut DeviceTensor,
        stream: &Stream,
    ) -> Result<()> {}
    pub fn all_reduce(
        &self,
        from: &DeviceTensor,
        into: &mut DeviceTensor,
        stream: &Stream,
    ) -> Result<()> {}
    pub fn reduce_scatter(
        &self,
        from: &DeviceTensor,
        into: &mut DeviceTensor,
        stream: &Stream,
    ) -> Result<()> {}
    pub fn all_gather(
        &self,
        from: &DeviceTensor,
        into: &mut DeviceTensor,
        stream: &Stream,
    ) -> Result<()> {}
}
impl fmt::Debug for Communicator {}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommunicatorError {
    Absent { tried: Vec<String> },
    Nccl { call: &'static str, code: i32, message: String },
    Disagree { what: String, values: Vec<String> },
    Refused { rank: usize, reason: String },
    Gone { rank: usize },
    Timeout { seconds: u64, late: Vec<usize> },
    Broken { reason: String },
    Element { element: crate::ElementType },
    Gaps { shape: Vec<usize>, strides: Vec<isize> },
    Length { what: &'static str, given: usize, needed: usize, ranks: usize },
    Overlap,
    Rank { rank: usize, ranks: usize },
    Environment { variable: &'static str, value: String, needed: &'static str },
    Rendezvous { place: String, reason: String },
}
#[derive(Clone, Debug)]
pub struct CompileFailure {
    pub name: String,
    pub options: Vec<String>,
    pub log: CompileLog,
}
impl fmt::Display for CompileFailure {}
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompileLog {
    pub text: String,
    pub kernels: Vec<Resources>,
    pub diagnostics: Vec<Diagnostic>,
}
impl CompileLog {
    #[must_use]
    pub fn parse(text: &str) -> Self {}
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&Resources> {}
    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {}
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    pub cubin: Vec<u8>,
    pub ptx: String,
    pub log: crate::CompileLog,
    pub sites: Vec<Site>,
    pub cached: bool,
}
#[derive(Clone)]
pub struct Compiler {}
impl Compiler {
    pub fn find() -> Result<Self, Absent> {}
    #[must_use]
    pub fn with_cache(self, cache: Option<KernelCache>) -> Self {}
    #[must_use]
    pub fn version(&self) -> (u32, u32) {}
    #[must_use]
    pub fn path(&self) -> &Path {}
    pub fn compile(
        &self,
        source: &Source,
        arch: Arch,
        output: Output,
    ) -> Result<Compiled> {}
}
impl fmt::Debug for Compiler {}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    Index { tensor: String, dimension: usize, index: i64, extent: i64 },
    Element { access: String, element: i64, count: i64 },
    Bound { bound: i64, extent: i64 },
    DivisionByZero { divisor: Option<String> },
    Unknown,
}
#[derive(Clone)]
pub struct Device(_);
impl Device {
    #[must_use]
    pub fn cpu() -> Self {}
    pub fn cuda(ordinal: usize) -> Result<Self> {}
    pub fn best() -> Result<Self> {}
    #[cfg(feature = "emulated")]
    pub fn emulated(arch: Arch) -> Result<Self> {}
    #[cfg(feature = "emulated")]
    pub fn emulated_with(arch: Arch, options: ptx_vm::Options) -> Result<Self> {}
    #[cfg(feature = "emulated")]
    #[must_use]
    pub fn emulator(&self) -> Option<&ptx_vm::Machine> {}
    #[cfg(feature = "emulated")]
    pub fn substitute(
        &self,
        kernel: &str,
        module: Option<ptx_vm::Module>,
    ) -> Result<()> {}
    #[must_use]
    pub fn bundles(&self) -> Arc<[Bundle]> {}
    #[must_use]
    pub fn kept<T: Any + Send + Sync + Default>(&self) -> Arc<T> {}
    pub fn check(&self) -> Result<()> {}
    #[must_use]
    pub fn kind(&self) -> DeviceKind {}
    #[must_use]
    pub fn properties(&self) -> &Properties {}
    #[must_use]
    pub fn arch(&self) -> Option<Arch> {}
    pub fn compiler(&self) -> Result<&Compiler> {}
}
impl Device {
    #[must_use]
    pub fn default_stream(&self) -> Stream {}
    pub fn new_stream(&self) -> Result<Stream> {}
    #[must_use]
    pub fn dry_stream(&self) -> Stream {}
}
impl Device {
    pub fn capture<E: From<Error>>(
        &self,
        work: impl FnOnce(&Stream) -> Result<(), E>,
    ) -> Result<Graph, E> {}
}
impl Device {
    pub fn compile(&self, source: &Source) -> Result<Kernel> {}
    pub fn compiled(&self, source: &Source) -> Result<Compiled> {}
    #[must_use]
    pub fn is_bundled(&self, source: &Source) -> Option<bool> {}
    #[must_use]
    pub fn is_name_bundled(&self, symbol: &str) -> Option<bool> {}
    pub fn load(&self, compiled: Compiled, entry: &str) -> Result<Kernel> {}
}
impl Device {
    pub fn scope<'env, R>(&self, work: impl FnOnce(&Scope<'env>) -> R) -> R {}
}
impl Device {
    pub fn share_safetensors<O>(
        &self,
        file: &Arc<O>,
    ) -> Result<BTreeMap<String, DeviceTensor>>
    where
        O: AsRef<[u8]> + ?Sized + Send + Sync + 'static,
    {}
}
impl Device {
    pub fn take_array<T: Element, D: Dimension>(
        &self,
        array: Array<T, D>,
    ) -> Result<DeviceTensor> {}
}
impl Device {
    pub fn take_cuda_slice<T: Element>(
        &self,
        slice: CudaSlice<T>,
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {}
}
impl Device {
    pub fn take_vec<T: Element>(
        &self,
        values: Vec<T>,
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {}
    pub fn share<O, T>(
        &self,
        owner: Arc<O>,
        values: impl for<'a> FnOnce(&'a O) -> &'a [T],
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor>
    where
        O: ?Sized + Send + Sync + 'static,
        T: Element,
    {}
    pub fn share_bytes<O>(
        &self,
        owner: Arc<O>,
        element: ElementType,
        bytes: impl for<'a> FnOnce(&'a O) -> &'a [u8],
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor>
    where
        O: ?Sized + Send + Sync + 'static,
    {}
}
impl Device {
    pub fn tensor<T: Element>(
        &self,
        values: &[T],
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {}
    pub fn tensor_from_bytes(
        &self,
        element: ElementType,
        bytes: &[u8],
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {}
    pub fn zeros<T: Element>(&self, shape: impl AsRef<[usize]>) -> Result<DeviceTensor> {}
    pub fn zeros_of(
        &self,
        element: ElementType,
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {}
    pub fn without_memory(
        &self,
        element: ElementType,
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {}
    pub fn full<T: Element>(
        &self,
        shape: impl AsRef<[usize]>,
        value: T,
    ) -> Result<DeviceTensor> {}
}
impl Device {
    pub unsafe fn take_dlpack<M: Managed>(
        &self,
        managed: Owned<M>,
    ) -> Result<DeviceTensor> {}
}
impl Eq for Device {}
impl PartialEq for Device {}
impl fmt::Debug for Device {}
impl fmt::Display for Device {}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceKind {
    Cuda { ordinal: usize },
    Cpu,
    Emulated { arch: Arch },
    Target { arch: Arch },
}
#[derive(Clone, Debug)]
pub struct DeviceTensor {}
impl DeviceTensor {
    pub fn as_matrix(&self, rows: &[usize], columns: &[usize]) -> Result<Self> {}
    pub fn as_batched_matrix(
        &self,
        batch: &[usize],
        rows: &[usize],
        columns: &[usize],
    ) -> Result<Self> {}
    pub fn as_row_vector(&self, axes: &[usize]) -> Result<Self> {}
    pub fn as_batched_row_vector(
        &self,
        batch: &[usize],
        axes: &[usize],
    ) -> Result<Self> {}
    pub fn as_column_vector(&self, axes: &[usize]) -> Result<Self> {}
    pub fn as_batched_column_vector(
        &self,
        batch: &[usize],
        axes: &[usize],
    ) -> Result<Self> {}
}
impl DeviceTensor {
    pub fn contiguous(&self) -> Result<Self> {}
    pub fn copy_to(&self, device: &Device) -> Result<Self> {}
    pub fn copy_from_tensor(&mut self, source: &Self) -> Result<()> {}
}
impl DeviceTensor {
    pub fn into_cuda_slice<T: PlainElement>(self) -> Result<CudaSlice<T>, Box<Kept>> {}
}
impl DeviceTensor {
    pub fn into_vec<T: PlainElement>(self) -> Result<Vec<T>, Box<Kept>> {}
}
impl DeviceTensor {
    pub fn to_dlpack(&self) -> Result<Owned<DLManagedTensorVersioned>> {}
    pub fn to_dlpack_unversioned(&self) -> Result<Owned<DLManagedTensor>> {}
}
impl DeviceTensor {
    pub fn with_array<T: PlainElement, R>(
        &self,
        visit: impl FnOnce(ArrayViewD<'_, T>) -> R,
    ) -> Result<R> {}
    pub fn with_array_mut<T: PlainElement, R>(
        &mut self,
        visit: impl FnOnce(ArrayViewMutD<'_, T>) -> R,
    ) -> Result<R> {}
    pub fn into_array<T: PlainElement>(self) -> Result<ArrayD<T>, Box<Kept>> {}
}
impl DeviceTensor {
    pub fn with_bytes<R>(&self, visit: impl FnOnce(&[u8]) -> R) -> Result<R> {}
    pub fn with_bytes_mut<R>(
        &mut self,
        visit: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {}
    pub unsafe fn host_pointer(&self) -> Result<*mut u8> {}
}
impl DeviceTensor {
    pub unsafe fn from_raw_cuda(
        device: &Device,
        address: cudarc::driver::sys::CUdeviceptr,
        element: ElementType,
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
    ) -> Result<Self> {}
    #[must_use]
    pub fn element_type(&self) -> ElementType {}
    #[must_use]
    pub fn shape(&self) -> &[usize] {}
    #[must_use]
    pub fn strides(&self) -> &[isize] {}
    #[must_use]
    pub fn rank(&self) -> usize {}
    #[must_use]
    pub fn offset(&self) -> usize {}
    #[must_use]
    pub fn len(&self) -> usize {}
    #[must_use]
    pub fn is_empty(&self) -> bool {}
    #[must_use]
    pub fn has_memory(&self) -> bool {}
    #[must_use]
    pub fn device(&self) -> &Device {}
    #[must_use]
    pub fn is_contiguous(&self) -> bool {}
    #[must_use]
    pub fn device_address(&self) -> u64 {}
    #[must_use]
    pub fn alignment(&self) -> usize {}
    #[must_use]
    pub fn byte_range(&self) -> Range<u64> {}
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {}
    #[must_use]
    pub fn has_internal_overlap(&self) -> bool {}
    #[must_use]
    pub fn axes(&self) -> Option<&NamedAxes> {}
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Result<Self> {}
    pub fn permute(&self, order: &[usize]) -> Result<Self> {}
    pub fn transpose(&self) -> Result<Self> {}
    pub fn reshape(&self, shape: impl AsRef<[usize]>) -> Result<Self> {}
    pub fn broadcast_to(&self, shape: impl AsRef<[usize]>) -> Result<Self> {}
    pub fn unsqueeze(&self, axis: usize) -> Result<Self> {}
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {}
    pub fn to_bytes(&self) -> Result<Vec<u8>> {}
    pub fn copy_from<T: Element>(&mut self, values: &[T]) -> Result<()> {}
    pub fn copy_from_bytes(&mut self, bytes: &[u8]) -> Result<()> {}
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    pub location: Option<(String, u32)>,
    pub ptx_line: Option<u32>,
    pub code: Option<String>,
    pub message: String,
    pub excerpt: Option<String>,
}
impl fmt::Display for Diagnostic {}
pub trait Element: Copy + Send + Sync + sealed::Sealed + 'static {
    const TYPE: ElementType;
    type Memory: bytemuck::Pod;
    fn bytes(values: &[Self]) -> &[u8];
    fn from_memory(read: Vec<Self::Memory>) -> Vec<Self>;
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ElementType {
    F64,
    F32,
    BF16,
    F16,
    F8E4M3,
    F8E5M2,
    I64,
    I32,
    I8,
    U8,
    Bool,
}
impl ElementType {
    pub const ALL: [Self; 11] = _;
    #[must_use]
    pub const fn size(self) -> usize {}
    #[must_use]
    pub const fn is_float(self) -> bool {}
    #[must_use]
    pub const fn is_integer(self) -> bool {}
    #[must_use]
    pub const fn name(self) -> &'static str {}
}
impl fmt::Display for ElementType {}
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    Absent(Absent),
    Layout(LayoutError),
    Exchange(ExchangeError),
    Communicator(CommunicatorError),
    ElementType { held: ElementType, asked: ElementType },
    Device { what: &'static str, given: String, needed: String },
    Unsupported { device: String, operation: &'static str, advice: &'static str },
    OutOfMemory { device: String, bytes: usize },
    Driver { call: &'static str, code: u32, name: String, message: String },
    Data(DataError),
    Compile(Box<CompileFailure>),
    NotInBundle { kernel: String, needed: String, advice: String },
    Nvrtc { call: &'static str, message: String },
    TensorMap { reason: String },
    Launch { kernel: String, reason: String },
    Emulation { kernel: String, device: String, message: String },
    #[cfg(feature = "emulated")]
    Races { kernel: String, device: String, findings: Vec<ptx_vm::race::Finding> },
    EmulatedMemory { device: String, message: String },
    EmulatedModule { kernel: String, device: String, message: String },
    Capture { reason: String },
    Event { reason: &'static str },
}
impl From<Box<Kept>> for Error {}
#[derive(Clone)]
pub struct Event {}
impl Event {
    pub fn synchronize(&self) -> Result<()> {}
    pub fn elapsed_ms(&self, later: &Self) -> Result<f32> {}
}
impl fmt::Debug for Event {}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    Ended,
    ReadOnly,
    Gaps { shape: Vec<usize>, strides: Vec<isize> },
    Borrowed,
    InUse,
    NotTaken { asked: &'static str },
    PartialView { shape: Vec<usize>, strides: Vec<isize>, offset: usize },
    ElementType { given: String },
    Safetensors { reason: String },
    DlpackVersion { major: u32, minor: u32 },
    DlpackDevice { device_type: i32, device_id: i32, needed: String },
    DlpackTensor { reason: String },
}
pub struct Graph {}
impl Graph {
    pub fn launch(&self, stream: &Stream) -> Result<()> {}
    #[must_use]
    pub fn device(&self) -> &Device {}
    #[must_use]
    pub fn len(&self) -> usize {}
    #[must_use]
    pub fn is_empty(&self) -> bool {}
}
impl fmt::Debug for Graph {}
#[derive(Debug)]
pub struct HostAccess<'a> {}
impl<'a> HostAccess<'a> {
    pub fn lock(
        reads: &[&'a DeviceTensor],
        writes: &[&'a DeviceTensor],
    ) -> Result<Self> {}
    #[must_use]
    pub fn read_pointer(&self, i: usize) -> Option<*const u8> {}
    #[must_use]
    pub fn write_pointer(&self, i: usize) -> Option<*mut u8> {}
}
#[derive(Clone, Copy, Debug)]
pub struct Im2colMap<'a> {
    pub tensor: &'a DeviceTensor,
    pub extents: &'a [u64],
    pub strides: &'a [u64],
    pub lower_corner: &'a [i32],
    pub upper_corner: &'a [i32],
    pub steps: &'a [u32],
    pub channels: u32,
    pub pixels: u32,
    pub swizzle: Swizzle,
    pub l2_promotion: L2Promotion,
}
#[derive(Debug, thiserror::Error)]
pub struct Kept {
    pub tensor: DeviceTensor,
    pub reason: Error,
}
#[derive(Clone)]
pub struct KeptKernel {}
impl KeptKernel {
    #[must_use]
    pub fn attached(&self) -> Option<Kernel> {}
}
impl fmt::Debug for KeptKernel {}
#[derive(Clone)]
pub struct Kernel(_);
impl Kernel {
    #[must_use]
    pub fn device(&self) -> &Device {}
    #[must_use]
    pub fn name(&self) -> &str {}
    #[must_use]
    pub fn ptx(&self) -> &str {}
    #[must_use]
    pub fn log(&self) -> &CompileLog {}
    #[cfg(feature = "emulated")]
    #[must_use]
    pub fn emulated_module(&self) -> Option<&ptx_vm::Module> {}
    #[must_use]
    pub fn was_cached(&self) -> bool {}
    #[must_use]
    pub fn resources(&self) -> Option<&Resources> {}
    #[must_use]
    pub fn registers(&self) -> Option<u32> {}
    #[must_use]
    pub fn spill_bytes(&self) -> Option<u32> {}
    #[must_use]
    pub fn static_shared_bytes(&self) -> Option<u32> {}
    pub fn blocks_per_multiprocessor(&self, launch: &Launch) -> Result<Option<u32>> {}
    pub fn active_clusters(&self, launch: &Launch) -> Result<u32> {}
    pub fn launch(
        &self,
        launch: &Launch,
        arguments: &[KernelArgument<'_>],
        stream: &Stream,
    ) -> Result<()> {}
}
impl Kernel {
    #[must_use]
    pub fn kept(&self) -> Option<KeptKernel> {}
}
impl fmt::Debug for Kernel {}
#[derive(Clone, Copy, Debug)]
pub enum KernelArgument<'a> {
    Input(&'a DeviceTensor),
    Output(&'a DeviceTensor),
    Value(&'a [u8]),
    Reads(&'a DeviceTensor),
    Writes(&'a DeviceTensor),
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelCache {}
impl KernelCache {
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {}
    #[must_use]
    pub fn limited_to(self, bytes: u64) -> Self {}
    #[must_use]
    pub fn of_user() -> Option<Self> {}
    #[must_use]
    pub fn folder(&self) -> &Path {}
    pub fn place(&self) -> io::Result<PathBuf> {}
    #[must_use]
    pub fn load(&self, key: CacheKey) -> Option<Vec<u8>> {}
    pub fn store(&self, key: CacheKey, content: &[u8]) -> io::Result<()> {}
}
impl KernelCache {
    #[must_use]
    pub fn compiled(
        &self,
        source: &Source,
        arch: Arch,
        output: Output,
    ) -> Option<Compiled> {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum L2Promotion {
    None,
    Bytes128,
    Bytes256,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub shared_bytes: u32,
    pub programmatic_dependent_launch: bool,
}
impl Default for Launch {}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchedRank {
    pub rank: usize,
    pub ranks: usize,
    pub local_rank: usize,
}
impl Default for LaunchedRank {}
impl LaunchedRank {
    pub fn from_environment() -> Result<Option<Self>> {}
}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    TooLarge { shape: Vec<usize> },
    DataLength { shape: Vec<usize>, needed: usize, given: usize },
    Axis { axis: usize, shape: Vec<usize> },
    Range { axis: usize, start: usize, end: usize, shape: Vec<usize> },
    Permutation { order: Vec<usize>, shape: Vec<usize> },
    AxisTwice { lists: Vec<Vec<usize>>, axis: usize },
    AxisLeftOut { lists: Vec<Vec<usize>>, axis: usize },
    Digits {
        name: &'static str,
        axes: Vec<usize>,
        extents: Vec<usize>,
        strides: Vec<isize>,
        most: usize,
    },
    Transpose { shape: Vec<usize> },
    ElementCount { from: Vec<usize>, to: Vec<usize> },
    Reshape { from: Vec<usize>, strides: Vec<isize>, to: Vec<usize> },
    Broadcast { from: Vec<usize>, to: Vec<usize> },
    StrideCount { shape: Vec<usize>, strides: Vec<isize> },
    NegativeStride { strides: Vec<isize> },
    WriteToRepeated { shape: Vec<usize>, strides: Vec<isize> },
    TooShort { shape: Vec<usize>, strides: Vec<isize>, needed: usize, given: usize },
    Misaligned { address: u64, alignment: usize, element: ElementType },
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAxes {}
impl NamedAxes {
    #[must_use]
    pub fn lists(&self) -> &[AxisList] {}
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {}
    #[must_use]
    pub const fn has_digits(&self) -> bool {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Output {
    Cubin,
    Ptx,
}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ParseArchError(_);
pub trait PlainElement: Element<Memory = Self> + bytemuck::Pod {}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress<'a> {
    pub activity: Activity,
    pub kernel: &'a str,
    pub done: usize,
    pub total: Option<usize>,
}
impl<'a> Progress<'a> {
    #[must_use]
    pub fn new(activity: Activity, kernel: &'a str, done: usize) -> Self {}
    #[must_use]
    pub fn of(self, total: usize) -> Self {}
    #[must_use]
    pub fn fraction(&self) -> Option<f64> {}
}
impl fmt::Display for Progress<'_> {}
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Properties {
    pub name: String,
    pub arch: Option<Arch>,
    pub multiprocessors: u32,
    pub shared_bytes_per_block: u32,
    pub shared_bytes_per_multiprocessor: u32,
    pub registers_per_multiprocessor: u32,
    pub threads_per_multiprocessor: u32,
    pub l2_bytes: u64,
    pub memory_bytes: u64,
    pub clock_khz: u32,
    pub driver_version: u32,
}
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rendezvous {
    File(PathBuf),
    Tcp(String),
}
impl FromStr for Rendezvous {}
impl Rendezvous {
    pub fn from_environment() -> Result<Self> {}
}
impl fmt::Display for Rendezvous {}
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub kernel: String,
    pub registers: u32,
    pub stack_bytes: u32,
    pub spill_store_bytes: u32,
    pub spill_load_bytes: u32,
    pub barriers: u32,
    pub shared_bytes: u32,
}
pub type Result<T, E = Error> = std::result::Result<T, E>;
pub const STATUS_VARIABLE: &str = _;
pub struct Scope<'env> {}
impl<'env> Scope<'env> {
    #[must_use]
    pub fn device(&self) -> &Device {}
    pub fn borrow<T: Element>(
        &self,
        values: &'env [T],
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {}
    pub fn borrow_mut<T: PlainElement>(
        &self,
        values: &'env mut [T],
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {}
    pub fn borrow_strided<T: Element>(
        &self,
        values: &'env [T],
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
    ) -> Result<DeviceTensor> {}
    pub fn borrow_strided_mut<T: PlainElement>(
        &self,
        values: &'env mut [T],
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
    ) -> Result<DeviceTensor> {}
    pub fn borrow_bytes(
        &self,
        element: ElementType,
        bytes: &'env [u8],
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {}
    pub fn borrow_bytes_mut(
        &self,
        element: ElementType,
        bytes: &'env mut [u8],
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {}
}
impl<'env> Scope<'env> {
    pub fn borrow_array<T: Element, D: Dimension>(
        &self,
        array: ArrayView<'env, T, D>,
    ) -> Result<DeviceTensor> {}
    pub fn borrow_array_mut<T: PlainElement, D: Dimension>(
        &self,
        array: ArrayViewMut<'env, T, D>,
    ) -> Result<DeviceTensor> {}
}
impl<'env> Scope<'env> {
    pub fn borrow_cuda<T: Element>(
        &self,
        view: CudaView<'env, T>,
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {}
    pub fn borrow_cuda_strided<T: Element>(
        &self,
        view: CudaView<'env, T>,
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
    ) -> Result<DeviceTensor> {}
    pub fn borrow_cuda_mut<T: PlainElement>(
        &self,
        view: CudaViewMut<'env, T>,
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {}
}
impl<'env> Scope<'env> {
    pub fn borrow_safetensor(&self, tensor: &TensorView<'env>) -> Result<DeviceTensor> {}
}
impl Drop for Scope<'_> {}
impl fmt::Debug for Scope<'_> {}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
}
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Site {
    Index { tensor: String, dimension: usize },
    Element { access: String },
    Bound,
    Division { divisor: Option<String> },
}
impl Site {
    #[must_use]
    pub fn failure(&self, value: i64, limit: i64) -> DataError {}
}
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    pub name: String,
    pub code: String,
    pub entry: String,
    pub options: Vec<String>,
    pub sites: Vec<Site>,
}
impl Source {
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        entry: impl Into<String>,
        code: impl Into<String>,
    ) -> Self {}
    #[must_use]
    pub fn option(self, option: impl Into<String>) -> Self {}
}
#[derive(Clone)]
pub struct Stream {}
impl Stream {
    pub fn of_cudarc(device: &Device, stream: &Arc<CudaStream>) -> Result<Self> {}
}
impl Stream {
    pub fn zeros_of(
        &self,
        element: ElementType,
        shape: impl AsRef<[usize]>,
    ) -> Result<DeviceTensor> {}
}
impl Stream {
    pub unsafe fn borrow(
        device: &Device,
        stream: cudarc::driver::sys::CUstream,
    ) -> Result<Self> {}
    #[must_use]
    pub fn device(&self) -> &Device {}
    #[must_use]
    pub fn cuda_handle(&self) -> Option<cudarc::driver::sys::CUstream> {}
    pub fn key(&self) -> Result<StreamKey> {}
    #[must_use]
    pub fn is_dry(&self) -> bool {}
    pub fn synchronize(&self) -> Result<()> {}
    pub fn record(&self) -> Result<Event> {}
    pub fn wait(&self, event: &Event) -> Result<()> {}
}
impl fmt::Debug for Stream {}
#[derive(Clone)]
pub struct StreamKey {}
impl Eq for StreamKey {}
impl PartialEq for StreamKey {}
impl StreamKey {
    #[must_use]
    pub fn of_cuda(handle: usize, capture: Option<u64>) -> Self {}
    #[must_use]
    pub fn outside(&self) -> Self {}
    #[must_use]
    pub fn is_over(&self) -> bool {}
    #[must_use]
    pub fn is_of_others(&self) -> bool {}
}
impl fmt::Debug for StreamKey {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Swizzle {
    None,
    Bytes32,
    Bytes64,
    Bytes128,
}
impl Swizzle {
    #[must_use]
    pub const fn of_row(bytes: usize) -> Self {}
}
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TensorMap(_);
impl TensorMap {
    pub const BYTES: usize = _;
    pub fn new(map: &TiledMap<'_>) -> Result<Self> {}
    pub fn im2col(map: &Im2colMap<'_>) -> Result<Self> {}
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {}
}
impl fmt::Debug for TensorMap {}
#[derive(Clone, Copy, Debug)]
pub struct TiledMap<'a> {
    pub tensor: &'a DeviceTensor,
    pub extents: &'a [u64],
    pub strides: &'a [u64],
    pub box_extents: &'a [u32],
    pub swizzle: Swizzle,
    pub l2_promotion: L2Promotion,
}
pub use float8::f8e4m3;
pub use float8::f8e5m2;
pub use ptx_vm;

// epilogue_runtime::bundle

#[derive(Clone, Default)]
pub struct Builder(_);
impl Builder {
    #[must_use]
    pub fn new() -> Self {}
    pub fn target(&self, arch: Arch) -> Result<Device> {}
    pub fn emulated_target(&self, arch: Arch) -> Result<Device> {}
    #[must_use]
    pub fn on_progress(
        self,
        watcher: impl Fn(Progress<'_>) + Send + Sync + 'static,
    ) -> Self {}
    #[must_use]
    pub fn len(&self) -> usize {}
    #[must_use]
    pub fn is_empty(&self) -> bool {}
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {}
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), BundleError> {}
}
impl fmt::Debug for Builder {}
#[derive(Clone)]
pub struct Bundle(_);
impl Bundle {
    pub fn install(&self, device: &Device) -> Result<(), BundleError> {}
}
impl Bundle {
    pub fn open(path: impl AsRef<Path>) -> Result<Self, BundleError> {}
    pub fn from_bytes(
        bytes: impl Into<Cow<'static, [u8]>>,
    ) -> Result<Self, BundleError> {}
    pub fn kernels(&self) -> impl ExactSizeIterator<Item = Bundled<'_>> {}
    #[must_use]
    pub fn made_by(&self) -> &str {}
}
impl fmt::Debug for Bundle {}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    File { path: PathBuf, reason: String },
    Untrusted { path: PathBuf },
    NoBundle,
    Version { found: u32, known: u32 },
    Length { bytes: u64, needed: u64 },
    TooLong { bytes: u64, most: u64 },
    Damaged { what: String },
    NotForDevice { device: String, holds: String },
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bundled<'a> {
    pub name: &'a str,
    pub arch: Arch,
    pub form: Output,
    pub bytes: usize,
}

// epilogue_runtime::dlpack

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLDataType {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLDevice {
    pub device_type: i32,
    pub device_id: i32,
}
impl DLDevice {
    pub const CPU: i32 = _;
    pub const CUDA: i32 = _;
}
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensor {
    pub dl_tensor: DLTensor,
    pub manager_ctx: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}
impl Managed for DLManagedTensor {}
impl Structure for DLManagedTensor {}
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensorVersioned {
    pub version: DLPackVersion,
    pub manager_ctx: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    pub flags: u64,
    pub dl_tensor: DLTensor,
}
impl DLManagedTensorVersioned {
    pub const READ_ONLY: u64 = _;
}
impl Managed for DLManagedTensorVersioned {}
impl Structure for DLManagedTensorVersioned {}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLPackVersion {
    pub major: u32,
    pub minor: u32,
}
impl DLPackVersion {
    pub const OURS: Self = _;
}
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DLTensor {
    pub data: *mut c_void,
    pub device: DLDevice,
    pub ndim: i32,
    pub dtype: DLDataType,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}
pub trait Managed: sealed::Layout {}
pub struct Owned<M: Managed>(_);
impl<M: Managed> Drop for Owned<M> {}
impl<M: Managed> Owned<M> {
    #[must_use]
    pub unsafe fn from_raw(managed: NonNull<M>) -> Self {}
    #[must_use]
    pub fn into_raw(self) -> NonNull<M> {}
}
impl<M: Managed> Send for Owned<M> {}
impl<M: Managed> Sync for Owned<M> {}
impl<M: Managed> fmt::Debug for Owned<M> {}

// epilogue_runtime::testing

#[must_use]
pub fn cases(default: u32) -> u32 {}
#[must_use]
pub fn compiler(test: &str) -> Option<Compiler> {}
#[must_use]
pub fn nvdisasm(test: &str) -> Option<PathBuf> {}

// ptx_vm

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arch {
    Sm80,
    Sm90a,
}
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument<'a> {
    Bytes(&'a [u8]),
    Address(Address),
    U32(u32),
    I32(i32),
    U64(u64),
    F32(f32),
    F64(f64),
}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    Fast,
    Exact(Generation),
}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    Eager,
    Lazy,
    Random,
}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detector {
    Off,
    On,
}
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exploration {
    pub runs: u32,
    pub found: BTreeMap<String, u32>,
    pub first: Option<(String, Schedule)>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    Ampere,
    Hopper,
}
pub struct Kernel {}
impl Kernel {
    pub fn name(&self) -> &str {}
    pub fn parameters(&self) -> &[Parameter] {}
    pub fn static_shared_bytes(&self) -> u32 {}
    pub fn opcodes(&self) -> Vec<&str> {}
}
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Launch {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub non_portable_cluster: bool,
    pub shared_bytes: u32,
    pub overlaps_previous: bool,
    pub cooperative: bool,
    pub options: Option<Options>,
}
impl Launch {
    #[must_use]
    pub fn new(grid: [u32; 3], block: [u32; 3]) -> Self {}
    #[must_use]
    pub fn cluster(self, cluster: [u32; 3]) -> Self {}
    #[must_use]
    pub fn non_portable_cluster(self, allowed: bool) -> Self {}
    #[must_use]
    pub fn shared_bytes(self, bytes: u32) -> Self {}
    #[must_use]
    pub fn overlaps_previous(self, overlaps: bool) -> Self {}
    #[must_use]
    pub fn cooperative(self, cooperative: bool) -> Self {}
    #[must_use]
    pub fn options(self, options: Options) -> Self {}
}
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    UnknownKernel { name: String, available: String },
    BadLaunch { kernel: String, message: String },
    OutOfBounds {
        site: Box<Site>,
        space: MemorySpace,
        address: u64,
        bytes: u32,
        nearest: String,
    },
    Misaligned { site: Box<Site>, space: MemorySpace, address: u64, alignment: u32 },
    Uninitialised {
        site: Box<Site>,
        space: MemorySpace,
        address: u64,
        bytes: u32,
        buffer: String,
    },
    Invalid { site: Box<Site>, message: String },
    Trap { site: Box<Site> },
    Deadlock { waiting: Vec<Waiter> },
    InstructionLimit { site: Box<Site>, limit: u64 },
}
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchFailure {
    pub error: LaunchError,
    pub races: Vec<Finding>,
    pub printed: String,
}
impl From<LaunchError> for LaunchFailure {}
impl fmt::Display for LaunchFailure {}
impl std::error::Error for LaunchFailure {}
pub struct Machine {}
impl Machine {
    #[must_use]
    pub fn new(options: Options) -> Self {}
    pub fn options(&self) -> &Options {}
    pub fn allocate(&self, bytes: u64, name: &str) -> Result<Address, MemoryError> {}
    pub fn free(&self, address: Address) -> Result<(), MemoryError> {}
    pub fn write(&self, address: Address, bytes: &[u8]) -> Result<(), MemoryError> {}
    pub fn read(&self, address: Address, bytes: &mut [u8]) -> Result<(), MemoryError> {}
    pub fn fill(
        &self,
        address: Address,
        bytes: u64,
        value: u8,
    ) -> Result<(), MemoryError> {}
    pub fn launch(
        &self,
        module: &Module,
        kernel: &str,
        launch: &Launch,
        arguments: &[Argument<'_>],
    ) -> Result<Report, LaunchFailure> {}
    pub fn variable(&self, module: &Module, name: &str) -> Option<(Address, u64)> {}
}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    OutOfBounds { address: u64, bytes: u64, nearest: String },
    NotAllocated { address: u64 },
    TooLarge { bytes: u64, limit: u64 },
    OutOfMemory { bytes: u64 },
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemorySpace {
    Global,
    Shared,
    DistributedShared,
    Local,
    Parameter,
}
impl fmt::Display for MemorySpace {}
#[derive(Clone)]
pub struct Module {}
impl Module {
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {}
    pub fn refused(&self) -> impl Iterator<Item = (&str, &ParseError)> {}
    pub fn target(&self) -> &str {}
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {}
}
impl Module {
    pub fn parse(text: &str) -> Result<Self, ParseError> {}
}
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    pub arch: Arch,
    pub workers: usize,
    pub resident_blocks: usize,
    pub largest_cluster: u32,
    pub seed: u64,
    pub random_choices: u64,
    pub detector: Detector,
    pub memory_checks: bool,
    pub arithmetic: Arithmetic,
    pub completion: Completion,
    pub weak_memory: bool,
    pub same_values: bool,
    pub wgmma_registers: bool,
    pub statistics: bool,
    pub instruction_limit: u64,
}
impl Default for Options {}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub size: usize,
    pub alignment: usize,
    pub offset: usize,
}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    Syntax { line: u32, message: String },
    Unsupported { line: u32, opcode: String, message: String },
    Name { line: u32, message: String },
}
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    pub statistics: Statistics,
    pub races: Vec<Finding>,
    pub printed: String,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub completion: Completion,
    pub weak_memory: bool,
    pub seed: u64,
    pub random_choices: u64,
}
impl Schedule {
    #[must_use]
    pub fn apply(self, options: &Options) -> Options {}
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    pub kernel: String,
    pub line: u32,
    pub source: Option<String>,
    pub opcode: String,
    pub block: [u32; 3],
    pub warp: u32,
    pub lane: Option<u32>,
}
impl fmt::Display for Site {}
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    pub warp_instructions: u64,
    pub by_opcode: BTreeMap<String, u64>,
    pub bytes_read: BTreeMap<MemorySpace, u64>,
    pub bytes_written: BTreeMap<MemorySpace, u64>,
    pub bank_conflicts: u64,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    pub site: Site,
    pub lanes: u32,
    pub reason: String,
}
pub fn explore(
    runs: u32,
    options: &Options,
    run: impl FnMut(&Options) -> Vec<String>,
) -> Exploration {}

// ptx_vm::mutate

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    pub operator: Operator,
    pub line: usize,
    pub description: String,
}
impl Mutation {
    #[must_use]
    pub fn statement<'t>(&self, ptx: &'t str) -> &'t str {}
    #[must_use]
    pub fn apply(&self, ptx: &str) -> String {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    DropBarrier,
    DropFence,
    DropWait,
    DropCommit,
    DropArrival,
    LooserWait,
    Count,
    BarrierId,
    Phase,
    Mask,
    Swizzle,
    Early,
    WeakerOrder,
    NarrowerScope,
}
pub fn mutants(ptx: &str) -> impl Iterator<Item = (String, String)> {}
pub fn mutations(ptx: &str) -> impl Iterator<Item = Mutation> {}

// ptx_vm::numerics::approx

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    Ulp(f64),
    Relative(f64),
    Absolute(f64),
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    Ex2,
    Lg2,
    Rcp,
    Rsqrt,
    Sqrt,
    Sin,
    Cos,
    Tanh,
}
impl Function {
    pub const ALL: [Function; 8] = _;
    pub fn hardware_bound(self) -> Bound {}
    pub fn evaluate(self, x: f32, flush: bool) -> f32 {}
}
pub const ULP: f64 = _;
pub fn cos<const FLUSH: bool>(x: f32) -> f32 {}
pub fn div<const FLUSH: bool>(a: f32, b: f32, full: bool) -> f32 {}
pub fn ex2<const FLUSH: bool>(x: f32) -> f32 {}
pub fn ex2_half<T: Half>(bits: u16, flush: bool) -> u16 {}
pub fn lg2<const FLUSH: bool>(x: f32) -> f32 {}
pub fn rcp<const FLUSH: bool>(x: f32) -> f32 {}
pub fn rcp_f64(x: f64) -> f64 {}
pub fn rsqrt<const FLUSH: bool>(x: f32) -> f32 {}
pub fn rsqrt_f64(x: f64) -> f64 {}
pub fn sin<const FLUSH: bool>(x: f32) -> f32 {}
pub fn sqrt<const FLUSH: bool>(x: f32) -> f32 {}
pub fn tanh(x: f32) -> f32 {}
pub fn tanh_half<T: Half>(bits: u16) -> u16 {}

// ptx_vm::numerics::compare

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}
impl Comparison {
    pub const ALL: [Comparison; 14] = _;
    pub fn holds<T: PartialOrd + Copy>(self, a: T, b: T) -> bool {}
    pub fn holds_flushed(self, a: f32, b: f32) -> bool {}
    pub fn mask<T: PartialOrd + Copy>(self, a: &[T; 32], b: &[T; 32]) -> u32 {}
}

// ptx_vm::numerics::convert

#[derive(Debug, Clone, Copy)]
pub struct Bf16Type;
impl Half for Bf16Type {}
#[derive(Debug, Clone, Copy)]
pub struct F16Type;
impl Half for F16Type {}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FloatCast {
    pub rounding: Rounding,
    pub flush: bool,
    pub saturation: Saturation,
    pub relu: bool,
}
impl FloatCast {
    pub const fn rounding(rounding: Rounding) -> Self {}
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fp8 {
    E4M3,
    E5M2,
}
impl Fp8 {
    pub const fn format(self) -> Format {}
}
pub trait Half: Copy + Send + Sync + 'static {
    const FORMAT: Format;
    fn widen(bits: u16) -> f32;
    fn narrow(x: f32) -> u16;
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Integer {
    pub bits: u32,
    pub signed: bool,
}
impl Integer {
    pub const fn unsigned(bits: u32) -> Self {}
    pub const fn signed(bits: u32) -> Self {}
    pub const fn value(self, bits: u64) -> i128 {}
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Saturation {
    None,
    Unit,
    Finite,
}
pub fn bf16_to_f32(bits: u16) -> f32 {}
pub fn extended(kind: Integer, bits: u64) -> u64 {}
pub fn f16_to_f32(half: u16) -> f32 {}
pub fn f16_to_fp8(kind: Fp8, half: u16, relu: bool) -> u8 {}
pub fn f32_to_bf16(x: f32) -> u16 {}
pub fn f32_to_f16(x: f32) -> u16 {}
pub fn f32_to_fp8(kind: Fp8, x: f32, relu: bool) -> u8 {}
pub fn f32_to_s32_rni(x: f32) -> i32 {}
pub fn f32_to_s32_rzi(x: f32) -> i32 {}
pub fn f32_to_tf32(x: f32) -> u32 {}
pub fn f32_to_tf32_with(x: f32, cast: FloatCast) -> u32 {}
pub fn float_to_float(from: Format, to: Format, bits: u64, cast: FloatCast) -> u64 {}
pub fn float_to_integer(
    from: Format,
    to: Integer,
    bits: u64,
    rounding: Rounding,
    flush: bool,
) -> u64 {}
pub fn float_to_integral(from: Format, to: Format, bits: u64, cast: FloatCast) -> u64 {}
pub fn fp8_to_f16(kind: Fp8, bits: u8) -> u16 {}
pub fn fp8_to_f32(kind: Fp8, bits: u8) -> f32 {}
pub fn integer_to_float(from: Integer, to: Format, bits: u64, cast: FloatCast) -> u64 {}
pub fn integer_to_integer(from: Integer, to: Integer, bits: u64, saturate: bool) -> u64 {}
pub fn round_ties_even(x: f32) -> f32 {}
pub fn tf32_operand(register: u32) -> f32 {}

// ptx_vm::numerics::descriptor

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chunk {
    pub address: u32,
    pub index: usize,
    pub k: usize,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Descriptor {
    pub address: u32,
    pub leading: u32,
    pub stride: u32,
    pub swizzle: Swizzle,
}
impl Descriptor {
    pub fn decode(bits: u64) -> Result<Self, DescriptorError> {}
    pub fn encode(self) -> u64 {}
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorError {
    BaseOffset { descriptor: u64, base_offset: u32, atom: u32 },
    MajorOfType { operand: Operand },
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Major {
    K,
    Mn,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {}
impl Tile {
    pub fn new(
        descriptor: Descriptor,
        operand: Operand,
        major: Major,
        extent: usize,
    ) -> Result<Self, DescriptorError> {}
    pub const fn extent(&self) -> usize {}
    pub const fn k(&self) -> usize {}
    pub const fn operand(&self) -> Operand {}
    pub const fn major(&self) -> Major {}
    pub fn chunks(&self) -> impl Iterator<Item = Chunk> + '_ {}
}

// ptx_vm::numerics::dot

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Generation {
    Ampere,
    Hopper,
}
pub const LONGEST: usize = _;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {}
impl Unit {
    pub const fn mma_sync(
        generation: Generation,
        operand: Operand,
        accumulator: Accumulator,
        k: usize,
    ) -> Self {}
    pub const fn wgmma(operand: Operand, accumulator: Accumulator, k: usize) -> Self {}
}
#[derive(Debug, Clone)]
pub struct Vector {}
impl Vector {
    pub fn new(operand: Operand, elements: &[u32]) -> Self {}
}
pub fn multiply_add(unit: &Unit, a: &Vector, b: &Vector, c: u32) -> u32 {}
pub fn multiply_matrices(
    unit: &Unit,
    rows: &[Vector],
    columns: &[Vector],
    sums: &mut [[u32; 8]],
) {}

// ptx_vm::numerics::exact

pub fn add(format: Format, a: u64, b: u64, rounding: Rounding) -> u64 {}
pub fn add_exact(a: Exact, b: Exact, rounding: Rounding) -> Exact {}
pub fn divide(format: Format, a: u64, b: u64, rounding: Rounding) -> u64 {}
pub fn fma(format: Format, a: u64, b: u64, c: u64, rounding: Rounding) -> u64 {}
pub fn multiply(format: Format, a: u64, b: u64, rounding: Rounding) -> u64 {}
pub fn multiply_exact(a: Exact, b: Exact) -> Exact {}
pub fn sqrt(format: Format, a: u64, rounding: Rounding) -> u64 {}

// ptx_vm::numerics::float

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FloatMode {
    pub rounding: Rounding,
    pub flush: bool,
    pub saturate: bool,
}
impl FloatMode {
    pub fn add(self, a: f32, b: f32) -> f32 {}
    pub fn sub(self, a: f32, b: f32) -> f32 {}
    pub fn mul(self, a: f32, b: f32) -> f32 {}
    pub fn fma(self, a: f32, b: f32, c: f32) -> f32 {}
    pub fn div(self, a: f32, b: f32) -> f32 {}
    pub fn rcp(self, a: f32) -> f32 {}
    pub fn sqrt(self, a: f32) -> f32 {}
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MinMax {
    pub flush: bool,
    pub nan: bool,
    pub xorsign_abs: bool,
}
pub const NAN_F32: f32 = _;
pub fn add_f32<const FLUSH: bool, const SATURATE: bool>(a: f32, b: f32) -> f32 {}
pub fn canonical_f32(x: f32) -> f32 {}
pub fn div_f32<const FLUSH: bool>(a: f32, b: f32) -> f32 {}
pub fn flush_f32(x: f32) -> f32 {}
pub fn fma_f32<const FLUSH: bool, const SATURATE: bool>(a: f32, b: f32, c: f32) -> f32 {}
pub fn max_bits(format: Format, a: u64, b: u64, mode: MinMax) -> u64 {}
pub fn max_f32<const FLUSH: bool>(a: f32, b: f32) -> f32 {}
pub fn min_bits(format: Format, a: u64, b: u64, mode: MinMax) -> u64 {}
pub fn min_f32<const FLUSH: bool>(a: f32, b: f32) -> f32 {}
pub fn mul_f32<const FLUSH: bool, const SATURATE: bool>(a: f32, b: f32) -> f32 {}
pub fn saturate_f32(x: f32) -> f32 {}
pub fn sqrt_f32<const FLUSH: bool>(a: f32) -> f32 {}
pub fn sub_f32<const FLUSH: bool, const SATURATE: bool>(a: f32, b: f32) -> f32 {}

// ptx_vm::numerics::float::double

pub fn add(a: f64, b: f64, rounding: Rounding) -> f64 {}
pub fn div(a: f64, b: f64, rounding: Rounding) -> f64 {}
pub fn fma(a: f64, b: f64, c: f64, rounding: Rounding) -> f64 {}
pub fn mul(a: f64, b: f64, rounding: Rounding) -> f64 {}
pub fn sqrt(a: f64, rounding: Rounding) -> f64 {}
pub fn sub(a: f64, b: f64, rounding: Rounding) -> f64 {}

// ptx_vm::numerics::format

pub const BF16: Format = _;
pub const E4M3: Format = _;
pub const E5M2: Format = _;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exact {
    pub negative: bool,
    pub mantissa: u128,
    pub exponent: i32,
}
impl Exact {
    pub const fn zero(negative: bool) -> Self {}
    pub const fn integer(negative: bool, magnitude: u128) -> Self {}
    pub const fn is_zero(self) -> bool {}
}
pub const F16: Format = _;
pub const F32: Format = _;
pub const F64: Format = _;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    pub exponent_bits: u32,
    pub mantissa_bits: u32,
    pub specials: Specials,
}
impl Format {
    pub const fn bits(self) -> u32 {}
    pub const fn bias(self) -> i32 {}
    pub const fn minimum_exponent(self) -> i32 {}
    pub const fn sign_bit(self) -> u64 {}
    pub const fn infinity(self) -> Option<u64> {}
    pub const fn largest(self) -> u64 {}
    pub const fn canonical_nan(self) -> u64 {}
    pub const fn decode(self, bits: u64) -> Value {}
    pub fn encode(self, number: Exact, rounding: Rounding) -> u64 {}
    pub fn encode_value(self, value: Value, rounding: Rounding) -> u64 {}
    pub const fn is_subnormal(self, bits: u64) -> bool {}
    pub const fn flushed(self, bits: u64) -> u64 {}
    pub const fn is_nan(self, bits: u64) -> bool {}
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Rounding {
    NearestEven,
    NearestAway,
    TowardZero,
    Down,
    Up,
}
impl Rounding {
    pub const ALL: [Rounding; 5] = _;
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials {
    Ieee,
    OnlyNan,
}
pub const TF32: Format = _;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    Finite(Exact),
    Infinite(bool),
    Nan,
}

// ptx_vm::numerics::fragment

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Element {
    pub row: usize,
    pub column: usize,
}
pub const LANES: usize = _;
pub type Lanes = [u32; LANES];
pub type TileRows = [[u32; 4]; 8];
pub const fn a_element(
    rows: usize,
    width: usize,
    lane: usize,
    register: usize,
    part: usize,
) -> Element {}
pub const fn b_element(
    width: usize,
    lane: usize,
    register: usize,
    part: usize,
) -> Element {}
pub const fn c_element(lane: usize, register: usize) -> Element {}
pub const fn c_half_element(lane: usize, register: usize, part: usize) -> Element {}
pub fn load_tile(rows: &TileRows, transposed: bool) -> Lanes {}
pub fn store_tile(register: &Lanes, transposed: bool) -> TileRows {}
pub const fn tile_address_lane(tile: usize, row: usize) -> usize {}
pub const fn tile_element(lane: usize, part: usize, transposed: bool) -> Element {}
pub fn transpose_tile(register: &Lanes) -> Lanes {}
pub const fn wgmma_element(warp: usize, lane: usize, register: usize) -> Element {}

// ptx_vm::numerics::half

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HalfMode {
    pub flush: bool,
    pub saturate: bool,
    pub relu: bool,
}
pub fn abs<T: Half>(a: u16, flush: bool) -> u16 {}
pub fn add<T: Half>(a: u16, b: u16, mode: HalfMode) -> u16 {}
pub fn fma<T: Half>(a: u16, b: u16, c: u16, mode: HalfMode) -> u16 {}
pub fn max<T: Half>(a: u16, b: u16, mode: MinMax) -> u16 {}
pub fn min<T: Half>(a: u16, b: u16, mode: MinMax) -> u16 {}
pub fn mul<T: Half>(a: u16, b: u16, mode: HalfMode) -> u16 {}
pub fn neg<T: Half>(a: u16, flush: bool) -> u16 {}
pub fn sub<T: Half>(a: u16, b: u16, mode: HalfMode) -> u16 {}

// ptx_vm::numerics::im2col

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Im2col<'a> {
    pub element: MapElement,
    pub address: u64,
    pub sizes: &'a [u64],
    pub strides: &'a [u64],
    pub lower_corner: &'a [i32],
    pub upper_corner: &'a [i32],
    pub channels_per_pixel: u32,
    pub pixels_per_column: u32,
    pub element_strides: &'a [u32],
    pub swizzle: Swizzle,
    pub fill: Fill,
}
pub const MAXIMUM_AXES: usize = _;
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PixelBox {
    pub lower: [i16; MAXIMUM_AXES],
    pub upper: [i16; MAXIMUM_AXES],
    pub channels: u32,
    pub pixels: u32,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PixelError {
    Base { dimension: usize, given: i64, first: i64, last: i64 },
    Offset { dimension: usize, given: u16, limit: u32, rank: usize },
}

// ptx_vm::numerics::integer

pub fn dp2a(a: u32, a_signed: bool, b: u32, b_signed: bool, c: u32, high: bool) -> u32 {}
pub fn szext(a: u32, width: u32, signed: bool, clamp: bool) -> u32 {}

// ptx_vm::numerics::mma

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Accumulator {
    F16,
    F32,
    S32,
    F64,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Arithmetic {
    Fast,
    Exact(Generation),
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mma {}
impl Mma {
    pub fn new(
        shape: Shape,
        a: Operand,
        b: Operand,
        accumulator: Accumulator,
        saturate: bool,
    ) -> Result<Self, UnsupportedMma> {}
    pub const fn shape(&self) -> Shape {}
    pub const fn a(&self) -> Operand {}
    pub const fn b(&self) -> Operand {}
    pub const fn accumulator(&self) -> Accumulator {}
    pub const fn a_registers(&self) -> usize {}
    pub const fn b_registers(&self) -> usize {}
    pub const fn c_registers(&self) -> usize {}
    pub fn check(&self, arithmetic: Arithmetic) -> Result<(), UnsupportedMma> {}
    pub fn execute(
        &self,
        arithmetic: Arithmetic,
        a: &[Lanes],
        b: &[Lanes],
        c: &[Lanes],
        d: &mut [Lanes],
    ) {}
    pub fn execute_f64(
        &self,
        a: &[[u64; LANES]],
        b: &[[u64; LANES]],
        c: &[[u64; LANES]],
        d: &mut [[u64; LANES]],
    ) {}
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operand {
    F16,
    Bf16,
    Tf32,
    E4M3,
    E5M2,
    S8,
    U8,
    F64,
}
impl Operand {
    pub const fn bits(self) -> usize {}
    pub const fn per_register(self) -> usize {}
    pub const fn is_integer(self) -> bool {}
    pub const fn is_fp8(self) -> bool {}
    pub const fn format(self) -> Option<Format> {}
    pub fn to_f32(self, bits: u32) -> f32 {}
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct UnsupportedMma {
    pub shape: Shape,
    pub a: Operand,
    pub b: Operand,
    pub accumulator: Accumulator,
    pub exact: bool,
}

// ptx_vm::numerics::operand

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Accumulator {
    F16,
    F32,
    S32,
    F64,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operand {
    F16,
    Bf16,
    Tf32,
    E4M3,
    E5M2,
    S8,
    U8,
    F64,
}

// ptx_vm::numerics::packed

pub const TOWARD_ZERO: FloatCast = _;
pub fn f16_pair_from_fp8(kind: Fp8, pair: u16, relu: bool) -> u32 {}
pub fn fp8_pair(kind: Fp8, high: f32, low: f32, relu: bool) -> u16 {}
pub fn fp8_pair_from_f16(kind: Fp8, pair: u32, relu: bool) -> u16 {}
pub fn join(low: u16, high: u16) -> u32 {}
pub fn map1(a: u32, f: impl Fn(u16) -> u16) -> u32 {}
pub fn map2(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {}
pub fn map3(a: u32, b: u32, c: u32, f: impl Fn(u16, u16, u16) -> u16) -> u32 {}
pub fn narrow_pair<T: Half>(high: f32, low: f32) -> u32 {}
pub fn narrow_pair_with<T: Half>(high: f32, low: f32, cast: FloatCast) -> u32 {}

// ptx_vm::numerics::reduction

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    B32,
    U32,
    S32,
    B64,
    U64,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F32Flushed,
    F64,
}
impl Element {
    pub const fn bytes(self) -> u32 {}
}
pub type Function = fn(u64, u64) -> u64;
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduction {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
}
impl Reduction {
    pub fn from_name(name: &str) -> Option<Self> {}
    pub fn function(self, element: Element) -> Option<Function> {}
}

// ptx_vm::numerics::swizzle

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Swizzle {
    None,
    Bytes32,
    Bytes64,
    Bytes128,
}
impl Swizzle {
    pub const ALL: [Swizzle; 4] = _;
    pub const fn row_bytes(self) -> u32 {}
    pub const fn atom(self) -> u32 {}
    pub const fn apply(self, address: u32) -> u32 {}
}

// ptx_vm::numerics::tensor_box

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BoxRow {
    pub shared_offset: u32,
    pub bytes: u32,
    pub inside: Option<Inside>,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Inside {
    pub skip: u32,
    pub bytes: u32,
    pub address: u64,
}

// ptx_vm::numerics::tensor_field

pub const MAXIMUM_RANK: usize = _;
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MapField {
    GlobalAddress,
    Rank,
    BoxDim(usize),
    GlobalDim(usize),
    GlobalStride(usize),
    ElementStride(usize),
    ElementType,
    Interleave,
    SwizzleMode,
    SwizzleAtomicity,
    FillMode,
}
impl MapField {
    pub fn from_name(name: &str) -> Option<Self> {}
    pub fn of_dimension(self, dimension: usize) -> Option<Self> {}
    pub const fn has_dimension(self) -> bool {}
    pub const fn is_wide(self) -> bool {}
}

// ptx_vm::numerics::tensor_map

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fill {
    Zero,
    Nan,
}
pub const MAP_BYTES: usize = _;
pub const MAXIMUM_RANK: usize = _;
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MapElement {
    U8,
    U16,
    U32,
    S32,
    U64,
    S64,
    F16,
    F32,
    F64,
    Bf16,
}
impl MapElement {
    pub const ALL: [MapElement; 10] = _;
    pub const fn bytes(self) -> usize {}
    pub const fn reduced(self) -> Option<Element> {}
    pub const fn is_float(self) -> bool {}
    pub const fn fill_bytes(self, fill: Fill) -> [u8; 8] {}
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorMap {}
impl TensorMap {
    pub fn im2col(map: &Im2col<'_>) -> Result<Self, TensorMapError> {}
    pub fn encode_im2col(map: &Im2col<'_>) -> Result<[u8; MAP_BYTES], TensorMapError> {}
    pub fn pixels(
        &self,
        coordinates: &[i32],
        offsets: &[u16],
    ) -> Result<Vec<BoxRow>, PixelError> {}
}
impl TensorMap {
    pub fn new(tiled: &Tiled) -> Result<Self, TensorMapError> {}
    pub fn encode(tiled: &Tiled) -> Result<[u8; MAP_BYTES], TensorMapError> {}
    pub fn to_bytes(&self) -> [u8; MAP_BYTES] {}
    pub fn decode(bytes: &[u8; MAP_BYTES]) -> Result<Self, TensorMapError> {}
    pub const fn element(&self) -> MapElement {}
    pub const fn rank(&self) -> usize {}
    pub const fn address(&self) -> u64 {}
    pub fn size(&self, dimension: usize) -> u64 {}
    pub fn stride(&self, dimension: usize) -> u64 {}
    pub fn box_size(&self, dimension: usize) -> u32 {}
    pub fn element_stride(&self, dimension: usize) -> u32 {}
    pub fn moved(&self, dimension: usize) -> u32 {}
    pub const fn swizzle(&self) -> Swizzle {}
    pub const fn fill(&self) -> Fill {}
    pub fn shared_alignment(&self) -> u32 {}
    pub const fn pixel_box(&self) -> Option<PixelBox> {}
    pub fn row_bytes(&self) -> u32 {}
    pub fn box_bytes(&self) -> u32 {}
}
impl TensorMap {
    pub fn rows(&self, coordinates: &[i32]) -> impl Iterator<Item = BoxRow> + '_ {}
}
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorMapError {
    Rank(usize),
    Length { rank: usize, what: &'static str, expected: usize, given: usize },
    Address(u64),
    Size { dimension: usize, size: u64 },
    Stride { dimension: usize, stride: u64 },
    Box { dimension: usize, size: u32 },
    ElementStride { dimension: usize, stride: u32 },
    InnerMultiple { bytes: usize },
    InnerSwizzle { bytes: usize, limit: u32 },
    Fill(MapElement),
    Field { field: MapField, value: u64, allowed: &'static str },
    ImageRank(usize),
    Corner { dimension: usize, corner: i32, rank: usize, limit: i32 },
    NoPlace { dimension: usize, first: i64, last: i64 },
    Channels(u32),
    Pixels(u32),
    ImageStride(u32),
    ReplacedImages,
    NotAMap,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiled<'a> {
    pub element: MapElement,
    pub address: u64,
    pub sizes: &'a [u64],
    pub strides: &'a [u64],
    pub box_sizes: &'a [u32],
    pub element_strides: &'a [u32],
    pub swizzle: Swizzle,
    pub fill: Fill,
}

// ptx_vm::numerics::tensor_replace

pub fn replace(
    bytes: &mut [u8; MAP_BYTES],
    field: MapField,
    value: u64,
) -> Result<(), TensorMapError> {}

// ptx_vm::numerics::video

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Video {
    Add,
    Subtract,
    Average,
    AbsoluteDifference,
    Min,
    Max,
    Set(super::compare::Comparison),
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VideoForm {
    pub operation: Video,
    pub count: u32,
    pub signed: [bool; 3],
    pub saturate: bool,
    pub accumulate: bool,
    pub mask: u8,
    pub selectors: [[u8; 4]; 2],
}
impl VideoForm {
    pub fn apply(&self, a: u32, b: u32, c: u32) -> u32 {}
}

// ptx_vm::numerics::wgmma

#[derive(Debug, Clone)]
pub struct Columns {}
impl Columns {
    pub fn multiply(
        &self,
        a: &Elements,
        first_row: usize,
        scale_d: bool,
        d: &mut [Lanes],
    ) {}
}
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elements {}
impl Elements {
    pub fn from_shared<E>(
        tile: &Tile,
        read: impl FnMut(u32) -> Result<[u8; 16], E>,
    ) -> Result<Self, E> {}
    pub fn from_registers(operand: Operand, registers: &[Lanes]) -> Self {}
    pub fn negate(&mut self) {}
    pub fn extent(&self) -> usize {}
    pub const fn k(&self) -> usize {}
    pub fn row(&self, index: usize) -> &[u32] {}
}
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct UnsupportedWgmma {
    pub n: usize,
    pub a: Operand,
    pub b: Operand,
    pub accumulator: Accumulator,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wgmma {}
impl Wgmma {
    pub fn new(
        n: usize,
        a: Operand,
        b: Operand,
        accumulator: Accumulator,
        saturate: bool,
    ) -> Result<Self, UnsupportedWgmma> {}
    pub const fn n(&self) -> usize {}
    pub const fn k(&self) -> usize {}
    pub const fn a(&self) -> Operand {}
    pub const fn b(&self) -> Operand {}
    pub const fn accumulator(&self) -> Accumulator {}
    pub const fn d_registers(&self) -> usize {}
    pub fn columns(&self, arithmetic: Arithmetic, b: &Elements) -> Columns {}
}

// ptx_vm::race

#[derive(Clone, Copy)]
pub struct Access<'a> {
    pub space: Space,
    pub addresses: &'a [u64; 32],
    pub size: u32,
    pub element: u32,
    pub kind: Kind,
    pub order: Order,
    pub scope: Scope,
    pub rows: Option<u32>,
    pub same_value: Option<&'a dyn Fn(u32, u32) -> bool>,
    pub unchanged: Option<&'a dyn Fn(u32) -> bool>,
    pub non_coherent: bool,
    pub stale: u32,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    Read,
    Write,
    StrongRead(Scope),
    StrongWrite(Scope),
}
impl AccessKind {
    #[must_use]
    pub const fn writes(self) -> bool {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Agent {
    Threads,
    CopyAsync,
    BulkLoad { rank: u32, mbarrier: u32 },
    BulkStore,
    Wgmma,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub rank: u32,
    pub warp: u32,
    pub lanes: u32,
    pub pc: u32,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierArrival {
    pub id: u32,
    pub threads: u32,
    pub waits: bool,
    pub aligned: bool,
}
#[derive(Clone, Copy, Debug)]
pub struct Bulk<'a> {
    pub reads: Footprint<'a>,
    pub writes: &'a [BulkWrite<'a>],
    pub reduces: bool,
    pub generic: bool,
}
#[derive(Clone, Copy, Debug)]
pub struct BulkWrite<'a> {
    pub bytes: Footprint<'a>,
    pub mbarrier: Option<u64>,
}
#[derive(Debug)]
pub struct ClusterDetector {}
impl Drop for ClusterDetector {}
impl Observer for ClusterDetector {}
#[derive(Clone, Copy)]
pub struct CopyAsync<'a> {
    pub destinations: &'a [u64; 32],
    pub sources: &'a [u64; 32],
    pub size: u32,
    pub read: &'a [u32; 32],
}
#[derive(Debug)]
pub struct Detector {}
impl Detector {
    #[must_use]
    pub fn cluster(self: &Arc<Self>, index: u32) -> ClusterDetector {}
}
impl Detector {
    pub fn new(
        history: &Arc<GlobalHistory>,
        shape: LaunchShape,
    ) -> Result<Arc<Self>, GridTooLarge> {}
    #[must_use]
    pub fn findings(&self, names: &dyn Names) -> Vec<Finding> {}
}
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    DivergentBarrier { lanes: u32, expected: u32 },
    OverArrival { mbarrier: u32, pending: u32, arrivals: u32 },
    PhaseUnknown { mbarrier: u32 },
    PhaseOverrun { mbarrier: u32 },
    Transactions { mbarrier: u32, missing: i64 },
    NoMbarrier { mbarrier: u32 },
    ReInit { mbarrier: u32 },
    ExitBeforeBulkRead,
    ExitBeforeBulkLoad { mbarrier: u32 },
    ExitBeforeRemote,
    RemoteBeforeStart { rank: u32 },
    BarrierReused { id: u32, earlier: u32 },
    BarrierPassed { id: u32 },
    WgmmaFence,
    WgmmaRegister { writes: bool, product: u32 },
    RegisterDirection { before: u32, now: u32, grows: bool },
    RegistersOfOneWarp { warpgroup: u32 },
    RegisterPool { asked: u32, available: u32 },
    MbarrierOverwritten { mbarrier: u32 },
    TooFewBytes { mbarrier: u32, expected: i64, issued: i64 },
    BarrierCount { id: u32, earlier: u32, now: u32 },
    Limit { what: &'static str },
}
impl fmt::Display for Fault {}
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Finding {
    Race(Box<Race>),
    Fault { fault: Fault, block: [u32; 3], warp: Option<u32>, lanes: u32, site: Site },
}
impl Finding {
    #[must_use]
    pub fn list(findings: &[Self]) -> String {}
}
impl fmt::Display for Finding {}
#[derive(Clone, Copy, Debug)]
pub struct Footprint<'a> {
    pub space: Space,
    pub ranges: &'a [Range<u64>],
}
#[derive(Debug)]
pub struct GlobalHistory {}
impl Default for GlobalHistory {}
impl GlobalHistory {
    #[must_use]
    pub fn new() -> Self {}
    pub fn forget(&self, bytes: Range<u64>) {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct GridTooLarge {
    pub clusters: u32,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hazard {
    ReadAfterWrite,
    WriteAfterRead,
    WriteAfterWrite,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Read,
    Write,
    Atomic,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    pub clusters: u32,
    pub blocks_per_cluster: u32,
    pub threads_per_block: u32,
    pub overlaps_previous: bool,
    pub collectives_order: bool,
    pub same_values: bool,
    pub registers: u32,
}
#[derive(Clone, Copy)]
pub struct MbarrierArrival<'a> {
    pub addresses: &'a [u64; 32],
    pub count: &'a [u32; 32],
    pub expect: &'a [u32; 32],
    pub order: MbarrierOrder,
    pub drop: bool,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MbarrierOrder {
    Relaxed,
    Synchronises,
}
#[derive(Clone, Copy)]
pub struct MbarrierWait<'a> {
    pub addresses: &'a [u64; 32],
    pub order: MbarrierOrder,
    pub parity: bool,
}
pub trait Names {
    fn site(&self, pc: u32) -> Site;
    fn buffer(&self, space: Space, address: u64) -> Option<(String, u64)>;
}
pub trait Observer: Send {
    fn block_begin(&mut self, rank: u32, block: [u32; 3], threads: u32) {}
    fn exit(&mut self, at: At) {}
    fn block_end(&mut self, rank: u32) {}
    fn access(&mut self, at: At, access: &Access<'_>) {}
    fn observed(&mut self, at: At, access: &Access<'_>) {}
    fn fence(&mut self, at: At, scope: Scope) {}
    fn proxy_fence(&mut self, at: At, fence: ProxyFence) {}
    fn mbarrier_init_fence(&mut self, at: At) {}
    fn warp_sync(&mut self, at: At) {}
    fn collective(&mut self, at: At) {}
    fn barrier_arrive(&mut self, at: At, arrival: BarrierArrival) {}
    fn barrier_complete(&mut self, rank: u32, id: u32) {}
    fn barrier_passed(&mut self, at: At, id: u32) {}
    fn cluster_arrive(&mut self, at: At, order: MbarrierOrder, aligned: bool) {}
    fn cluster_complete(&mut self) {}
    fn cluster_wait(&mut self, at: At) {}
    fn copy_async(&mut self, at: At, copy: &CopyAsync<'_>) {}
    fn copy_commit(&mut self, at: At) {}
    fn copy_wait(&mut self, at: At, pending: u32) {}
    fn copy_arrive(&mut self, at: At, addresses: &[u64; 32]) {}
    fn mbarrier_init(&mut self, at: At, addresses: &[u64; 32], count: &[u32; 32]) {}
    fn mbarrier_inval(&mut self, at: At, addresses: &[u64; 32]) {}
    fn mbarrier_arrive(&mut self, at: At, arrival: &MbarrierArrival<'_>) {}
    fn mbarrier_expect(&mut self, at: At, addresses: &[u64; 32], bytes: &[u32; 32]) {}
    fn mbarrier_transaction(&mut self, address: u64, bytes: u32, pc: u32) {}
    fn mbarrier_count(&mut self, address: u64, arrivals: u32, pc: u32) {}
    fn mbarrier_phase(&mut self, address: u64) {}
    fn mbarrier_waited(&mut self, at: At, wait: &MbarrierWait<'_>) {}
    fn bulk(&mut self, at: At, copy: &Bulk<'_>) {}
    fn bulk_commit(&mut self, at: At) {}
    fn bulk_wait(&mut self, at: At, pending: u32, read: bool) {}
    fn wgmma(&mut self, at: At, reads: &[Range<u64>]) {}
    fn wgmma_unfenced(&mut self, at: At) {}
    fn wgmma_commit(&mut self, at: At) {}
    fn wgmma_wait(&mut self, at: At, pending: u32) {}
    fn wgmma_register(&mut self, at: At, product: u32, writes: bool) {}
    fn set_registers(&mut self, at: At, registers: u32, grows: bool) {}
    fn dependency_wait(&mut self, at: At) {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    Weak,
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
}
impl Order {
    #[must_use]
    pub const fn acquires(self) -> bool {}
    #[must_use]
    pub const fn releases(self) -> bool {}
    #[must_use]
    pub const fn is_strong(self) -> bool {}
}
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    pub agent: Option<Agent>,
    pub block: Option<[u32; 3]>,
    pub warp: Option<u32>,
    pub lanes: u32,
    pub access: AccessKind,
    pub site: Option<Site>,
}
impl fmt::Display for Party {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyFence {
    All,
    Shared,
    Global,
}
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Race {
    pub hazard: Hazard,
    pub cause: RaceCause,
    pub first: Party,
    pub second: Party,
    pub space: Space,
    pub address: u64,
    pub buffer: Option<(String, u64)>,
}
impl fmt::Display for Race {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RaceCause {
    Unordered,
    UnorderedLanes,
    SameInstruction,
    NotWaited,
    ProxyFence,
    NarrowScope,
    MixedSizes,
    PreviousKernel,
    EarlierKernel,
    NonCoherent,
    SameValue,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Block,
    Cluster,
    Gpu,
    System,
}
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    pub pc: u32,
    pub ptx_line: u32,
    pub source: Option<(String, u32)>,
    pub instruction: String,
}
impl fmt::Display for Site {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    Shared,
    Global,
}
#[must_use]
pub const fn shared_address(rank: u32, offset: u32) -> u64 {}
#[must_use]
pub const fn shared_offset(address: u64) -> u32 {}
#[must_use]
pub const fn shared_rank(address: u64) -> u32 {}
