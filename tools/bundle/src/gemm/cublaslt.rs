//! NVIDIA's cuBLASLt: every algorithm that its heuristic lists is timed, as a careful user would do, and the fastest is
//! used.
#![allow(unsafe_code, reason = "cuBLASLt is a C library")]

use std::ffi::c_void;
use std::path::PathBuf;
use std::ptr;

use cudarc::cublaslt::{result, sys};
use epilogue::gemm::Major;
use epilogue::{Device, DeviceTensor, ElementType};

use super::shapes::Shape;
use super::workload::PeerBuffers;
use crate::Outcome;
use crate::timing::{Contender, Timer};

/// The workspace that NVIDIA recommends for Hopper (cuBLAS documentation, "cublasSetWorkspace").
const WORKSPACE: usize = 32 * 1024 * 1024;

/// The number of algorithms that the heuristic is asked for, and of those that are timed to the end.
const ASKED: usize = 64;

/// `CUBLAS_OP_N` and `CUBLAS_OP_T` (cuBLAS documentation, "cublasOperation_t").
const AS_STORED: u32 = 0;
const TRANSPOSED: u32 = 1;

/// Which of cuBLASLt's own epilogues is fused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fused {
    None,
    Bias,
    GeluBias,
}

/// The types of a product's operands, sums and output in cuBLASLt.
struct Kinds {
    operands: sys::cudaDataType_t,
    compute: sys::cublasComputeType_t,
    scale: sys::cudaDataType_t,
    output: sys::cudaDataType_t,
}

impl Kinds {
    fn of(element: ElementType) -> Outcome<Self> {
        use sys::cublasComputeType_t::{CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32I};
        use sys::cudaDataType_t::{CUDA_R_8F_E4M3, CUDA_R_8I, CUDA_R_16BF, CUDA_R_16F, CUDA_R_32F, CUDA_R_32I};
        let float = |operands, output| Self { operands, compute: CUBLAS_COMPUTE_32F, scale: CUDA_R_32F, output };
        Ok(match element {
            ElementType::F16 => float(CUDA_R_16F, CUDA_R_16F),
            ElementType::BF16 => float(CUDA_R_16BF, CUDA_R_16BF),
            ElementType::F32 => Self { compute: CUBLAS_COMPUTE_32F_FAST_TF32, ..float(CUDA_R_32F, CUDA_R_32F) },
            ElementType::F8E4M3 => float(CUDA_R_8F_E4M3, CUDA_R_16BF),
            ElementType::I8 => {
                Self { operands: CUDA_R_8I, compute: CUBLAS_COMPUTE_32I, scale: CUDA_R_32I, output: CUDA_R_32I }
            }
            other => return Err(format!("cuBLASLt is not compared on {other}").into()),
        })
    }
}

/// The library, on one device.
pub(crate) struct Cublaslt {
    handle: sys::cublasLtHandle_t,
    workspace: DeviceTensor,
}

impl Cublaslt {
    /// Loads the library from the loader's path, CUDA's folders, or Python's site-packages. The error says what is
    /// missing.
    pub(crate) fn open(device: &Device) -> Result<Self, String> {
        let load = |place: PathBuf| {
            // SAFETY: loading NVIDIA's library runs its initialisers, which have no requirements.
            unsafe { libloading::Library::new(&place) }.ok()
        };
        // Python is started only if necessary.
        let found = places().into_iter().find_map(load).or_else(|| places_of_python().into_iter().find_map(load));
        // Never unloaded, so cudarc finds it by its name.
        std::mem::forget(found.ok_or("libcublasLt was not found")?);
        // SAFETY: as above; cudarc asks the loader for the names that it knows.
        if !unsafe { sys::is_culib_present() } {
            return Err("libcublasLt is of a version that cudarc does not know".into());
        }
        // cuBLASLt works in the calling thread's context, which must be the one that the runtime uses.
        crate::machine::bind_primary_context()?;
        let handle = result::create_handle().map_err(|error| format!("cuBLASLt: {error:?}"))?;
        let workspace = device.zeros::<u8>([WORKSPACE]).map_err(|error| error.to_string())?;
        Ok(Self { handle, workspace })
    }
}

impl Cublaslt {
    /// Its version, such as 130100.
    pub(crate) fn version(&self) -> usize {
        // SAFETY: the library is loaded; it takes no argument.
        unsafe { sys::cublasLtGetVersion() }
    }
}

impl Drop for Cublaslt {
    fn drop(&mut self) {
        // SAFETY: the handle was created here, and what borrowed it is gone.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// The library's names, newest first.
const NAMES: [&str; 3] = ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"];

/// Where the library may be: the loader's paths, CUDA's folder.
fn places() -> Vec<PathBuf> {
    let folder = PathBuf::from("/usr/local/cuda/lib64");
    NAMES.iter().map(PathBuf::from).chain(NAMES.map(|name| folder.join(name))).collect()
}

/// The folders of Python's wheels that may have it.
fn places_of_python() -> Vec<PathBuf> {
    let text = crate::machine::said(
        "python3",
        &["-c", "import site; print('\\n'.join(site.getsitepackages() + [site.getusersitepackages()]))"],
    );
    let wheels = ["nvidia/cu13/lib", "nvidia/cublas/lib"];
    let text = text.unwrap_or_default();
    let folders = text.lines().flat_map(|line| wheels.map(|folder| PathBuf::from(line).join(folder)));
    folders.flat_map(|folder| NAMES.map(|name| folder.join(name))).collect()
}

/// One product, with its descriptors and the algorithms that can compute it.
pub(crate) struct Product<'l> {
    library: &'l Cublaslt,
    operation: sys::cublasLtMatmulDesc_t,
    weights: sys::cublasLtMatrixLayout_t,
    activations: sys::cublasLtMatrixLayout_t,
    output: sys::cublasLtMatrixLayout_t,
    algorithms: Vec<sys::cublasLtMatmulHeuristicResult_t>,
    /// Whether alpha and beta are integers.
    integers: bool,
}

/// cuBLASLt stores matrices by columns: its product is our D transposed, N×M = weights · activations. In its terms a
/// linear layer's weights are K×N and transposed; its activations are K×M.
impl<'l> Product<'l> {
    /// With `fast`, FP8 products are summed in as few bits as the tensor cores keep.
    pub(crate) fn new(
        library: &'l Cublaslt,
        shape: &Shape,
        fused: Fused,
        fast: bool,
        buffers: &PeerBuffers,
    ) -> Outcome<Self> {
        let kinds = Kinds::of(shape.element)?;
        let (m, n, k) = (shape.m as u64, shape.n as u64, shape.k as u64);
        let layout =
            |data, rows, columns| result::create_matrix_layout(data, rows, columns, rows as i64).map_err(error);
        // Stored by columns, a matrix that is contiguous along K has K rows.
        let stored = |major, outer| match major {
            Major::K => layout(kinds.operands, k, outer),
            Major::Mn => layout(kinds.operands, outer, k),
        };
        let operation = result::create_matmul_desc(kinds.compute, kinds.scale).map_err(error)?;
        let mut product = Self {
            library,
            operation,
            weights: stored(shape.majors.1, n)?,
            activations: stored(shape.majors.0, m)?,
            output: layout(kinds.output, n, m)?,
            algorithms: Vec::new(),
            integers: shape.element == ElementType::I8,
        };
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        let turned = |major, with_k_rows, else_| if major == Major::K { with_k_rows } else { else_ };
        let (weights, activations) =
            (turned(shape.majors.1, TRANSPOSED, AS_STORED), turned(shape.majors.0, AS_STORED, TRANSPOSED));
        product.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &weights)?;
        product.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &activations)?;
        if shape.element == ElementType::F8E4M3 {
            let scale = buffers.sets[0].scale.device_address();
            product.set(Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &scale)?;
            product.set(Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &scale)?;
            product.set(Attribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM, &i8::from(fast))?;
        }
        let epilogue = match fused {
            Fused::None => None,
            Fused::Bias => Some(sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS),
            Fused::GeluBias => Some(sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_GELU_BIAS),
        };
        if let Some(epilogue) = epilogue {
            product.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &(epilogue as u32))?;
            let bias = buffers.sets[0].bias.device_address();
            product.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)?;
        }
        product.list()?;
        Ok(product)
    }

    fn set<T>(&self, attribute: sys::cublasLtMatmulDescAttributes_t, value: &T) -> Outcome<()> {
        // SAFETY: the descriptor lives, and the attribute has T's size: 4 bytes for enumerations, 8 for pointers, 1 for
        // the flag of fast sums.
        let set = unsafe {
            result::set_matmul_desc_attribute(
                self.operation,
                attribute,
                ptr::from_ref(value).cast::<c_void>(),
                size_of::<T>(),
            )
        };
        Ok(set.map_err(error)?)
    }

    /// Asks the heuristic once, like a user who keeps the descriptors.
    fn list(&mut self) -> Outcome<()> {
        let preference = result::create_matmul_pref().map_err(error)?;
        let mut count = 0;
        // SAFETY: every handle lives; `algorithms` has room for what is asked; the preference takes a usize.
        unsafe {
            result::set_matmul_pref_attribute(
                preference,
                sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                ptr::from_ref(&WORKSPACE).cast(),
                size_of::<usize>(),
            )
            .map_err(error)?;
            self.algorithms = vec![std::mem::zeroed(); ASKED];
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.library.handle,
                self.operation,
                self.weights,
                self.activations,
                self.output,
                self.output,
                preference,
                ASKED as i32,
                self.algorithms.as_mut_ptr(),
                &raw mut count,
            )
            .result()
            .map_err(error)?;
            result::destroy_matmul_pref(preference).map_err(error)?;
        }
        self.algorithms.truncate(count as usize);
        self.algorithms.retain(|found| found.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        if self.algorithms.is_empty() { Err("cuBLASLt has no algorithm for this product".into()) } else { Ok(()) }
    }

    /// Queues algorithm number `which` on set number `i`.
    fn run(&self, buffers: &PeerBuffers, which: usize, i: usize) -> Outcome<()> {
        let set = &buffers.sets[i % buffers.sets.len()];
        let stream = buffers.stream.cuda_handle().ok_or("cuBLASLt needs a CUDA stream")?;
        // The bits of an f32 or an i32.
        let (one, zero) = (if self.integers { 1_u32 } else { 1.0_f32.to_bits() }, 0_u32);
        let at = |tensor: &DeviceTensor| tensor.device_address() as *mut c_void;
        // SAFETY: the descriptors say what the buffers hold; these and the workspace outlive the stream's work, which
        // the timer waits for.
        unsafe {
            result::matmul(
                self.library.handle,
                self.operation,
                ptr::from_ref(&one).cast(),
                ptr::from_ref(&zero).cast(),
                at(&set.b),
                self.weights,
                at(&set.a),
                self.activations,
                at(&set.d),
                self.output,
                at(&set.d),
                self.output,
                &raw const self.algorithms[which].algo,
                at(&self.library.workspace),
                WORKSPACE,
                stream.cast(),
            )
            .map_err(error)?;
        }
        Ok(())
    }

    /// The index of the fastest algorithm; each is timed in turn.
    pub(crate) fn fastest(&self, timer: &Timer, buffers: &PeerBuffers) -> Outcome<usize> {
        let mut best = (f64::INFINITY, 0);
        for which in 0..self.algorithms.len() {
            // An algorithm that the heuristic lists may still refuse these pointers.
            if let Ok(times) = timer.glance(&mut self.contender("", which, buffers)) {
                best = if times < best.0 { (times, which) } else { best };
            }
        }
        Ok(best.1)
    }

    pub(crate) fn contender<'a>(&'a self, name: &str, which: usize, buffers: &'a PeerBuffers) -> Contender<'a> {
        Contender { name: name.to_owned(), run: Box::new(move |i| self.run(buffers, which, i)) }
    }
}

impl Drop for Product<'_> {
    fn drop(&mut self) {
        // SAFETY: all four were created by `new` and nothing else holds them.
        unsafe {
            let _ = result::destroy_matmul_desc(self.operation);
            for layout in [self.weights, self.activations, self.output] {
                let _ = result::destroy_matrix_layout(layout);
            }
        }
    }
}

fn error(error: result::CublasError) -> String {
    format!("cuBLASLt: {error:?}")
}
