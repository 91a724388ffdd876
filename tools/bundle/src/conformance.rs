//! Every PTX instruction that ptx-vm executes, on this GPU: micro-kernels whose results are compared with ptx-vm's
//! oracles bit for bit (or within a bound, for approximate functions), and kept in `conformance.jsonl`.
#![allow(unsafe_code, reason = "modules are loaded and launched through the driver itself")]

use std::ffi::c_void;
use std::fmt;
use std::io::Write as _;
use std::ptr;

use cudarc::driver::sys;
use ptx_vm::numerics::im2col::Im2col;
use ptx_vm::numerics::swizzle::Swizzle;
use ptx_vm::numerics::tensor_map::{MapElement, Tiled};
use ptx_vm::{Arch, Options};
use ptx_vm_conformance::device::{Device, Emulated, Shape};
use ptx_vm_conformance::record::{Agreement, SEEDS, record};
use ptx_vm_conformance::{Case, cases};
use serde_json::{Value, json};

use crate::Outcome;
use crate::machine::Machine;
use crate::options::On;
use crate::step::Step;

/// The number of steps among which cases are divided, so that a case that faults affects only its share.
const PARTS: usize = 32;

pub(crate) fn steps() -> Vec<Step> {
    let step = |part| {
        Step::new(format!("conformance/{part}"), 1, 5, move |machine: &Machine| run(machine, part)).without_nvrtc()
    };
    (0..PARTS).map(step).collect()
}

fn run(machine: &Machine, part: usize) -> Outcome<Vec<Value>> {
    let mut share: Vec<Case> = cases::all().into_iter().skip(part).step_by(PARTS).collect();
    if machine.is_rehearsal() {
        share.truncate(4);
    }
    match machine.on {
        On::Cuda => all_on(&Gpu::open(machine)?, Gpu::goes_on, machine, &share),
        On::Emulated => all_on(&Emulated::new(Arch::Sm90a, Options::default()), || true, machine, &share),
        On::Cpu => Ok(vec![json!({"kind": "skipped", "why": "the CPU runs no PTX"})]),
    }
}

/// `goes_on` says whether, after a failure, the device can still run anything in this process.
fn all_on<D: Device>(device: &D, goes_on: impl Fn() -> bool, machine: &Machine, share: &[Case]) -> Outcome<Vec<Value>> {
    let path = machine.out.join("conformance.jsonl");
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    let (mut right, mut records) = (0, Vec::new());
    'cases: for (number, case) in share.iter().enumerate() {
        for seed in SEEDS {
            match record(device, case, seed) {
                Ok(None) => {}
                Ok(Some(made)) => {
                    if let Agreement::Differs(slot) = made.agreement {
                        let what = format!("{} seed {seed} differs from slot {slot} on", case.name);
                        records.push(json!({"kind": "wrong", "family": "conformance", "what": what}));
                    } else {
                        right += 1;
                    }
                    // Written at once, because other parts append to the same file.
                    file.write_all(format!("{}\n", made.to_json()).as_bytes())?;
                }
                Err(error) => {
                    records.push(json!({"kind": "wrong", "family": "conformance", "what": error.to_string()}));
                    if !goes_on() {
                        let why = format!("{} cases after one that took the GPU's context", share.len() - number - 1);
                        records.push(json!({"kind": "skipped", "why": why}));
                        break 'cases;
                    }
                }
            }
        }
    }
    records.push(json!({"kind": "correct", "family": "conformance", "cases": right}));
    Ok(records)
}

/// The GPU, through the driver.
struct Gpu {
    name: String,
    /// As the driver counts: CUDA 13.1 is 13010.
    version: i32,
    driver: String,
    capability: (u32, u32),
}

/// An error of the driver.
#[derive(Debug)]
struct DriverError {
    call: &'static str,
    status: sys::CUresult,
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.call, self.status)
    }
}

impl std::error::Error for DriverError {}

fn check(call: &'static str, status: sys::CUresult) -> Result<(), DriverError> {
    if status == sys::CUresult::CUDA_SUCCESS { Ok(()) } else { Err(DriverError { call, status }) }
}

/// A module, unloaded when dropped.
struct Loaded {
    module: sys::CUmodule,
    function: sys::CUfunction,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: the module was loaded by `load`, and what it ran is done: its output has been read.
        unsafe { sys::cuModuleUnload(self.module) };
    }
}

/// Device memory, freed when dropped.
struct Memory(sys::CUdeviceptr);

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated by `allocate`; freeing waits for the device.
        unsafe { sys::cuMemFree_v2(self.0) };
    }
}

impl Gpu {
    /// Whether the context still works after everything that ran in it.
    fn goes_on() -> bool {
        // SAFETY: the calling thread's context, which `open` made current.
        unsafe { sys::cuCtxSynchronize() == sys::CUresult::CUDA_SUCCESS }
    }

    /// The device that the machine has open, in its primary context.
    fn open(machine: &Machine) -> Outcome<Self> {
        crate::machine::bind_primary_context()?;
        let mut version = 0;
        // SAFETY: a place for the number.
        check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&raw mut version) })?;
        let capability = machine.device.arch().map_or((8, 0), epilogue::Arch::capability);
        let capability = (u32::from(capability.0), u32::from(capability.1));
        let name = machine.device.properties().name.clone();
        Ok(Self { name, version, driver: format!("CUDA {}.{}", version / 1000, version % 1000 / 10), capability })
    }
}

impl Device for Gpu {
    type Module = Loaded;
    type Buffer = Memory;
    type Error = DriverError;

    fn name(&self) -> String {
        self.name.clone()
    }

    fn driver(&self) -> String {
        self.driver.clone()
    }

    fn capability(&self) -> (u32, u32) {
        self.capability
    }

    fn load(&self, ptx: &str) -> Result<Loaded, DriverError> {
        let text = [ptx.as_bytes(), &[0]].concat();
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: a text that ends with 0; the driver copies it. The function belongs to the module, which outlives it.
        unsafe {
            check("cuModuleLoadData", sys::cuModuleLoadData(&raw mut module, text.as_ptr().cast::<c_void>()))?;
            let status = sys::cuModuleGetFunction(&raw mut function, module, c"test".as_ptr());
            let loaded = Loaded { module, function };
            check("cuModuleGetFunction", status)?;
            Ok(loaded)
        }
    }

    fn allocate(&self, bytes: usize) -> Result<Memory, DriverError> {
        let mut address = 0;
        // SAFETY: a place for the address.
        check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes.max(1)) })?;
        Ok(Memory(address))
    }

    fn address(&self, buffer: &Memory) -> u64 {
        buffer.0
    }

    fn write(&self, buffer: &Memory, bytes: &[u8]) -> Result<(), DriverError> {
        // SAFETY: the buffer was allocated with at least as many bytes.
        check("cuMemcpyHtoD", unsafe { sys::cuMemcpyHtoD_v2(buffer.0, bytes.as_ptr().cast(), bytes.len()) })
    }

    fn read(&self, buffer: &Memory, bytes: &mut [u8]) -> Result<(), DriverError> {
        // SAFETY: likewise; the copy waits for the launches before it.
        check("cuMemcpyDtoH", unsafe { sys::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), buffer.0, bytes.len()) })
    }

    fn tensor_map(&self, tensor: &Tiled<'_>) -> Result<[u8; 128], DriverError> {
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        // SAFETY: lists of one entry for each dimension (strides: all but the first), as the case has them.
        let status = unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut map,
                data_type(tensor.element),
                tensor.sizes.len() as u32,
                tensor.address as *mut c_void,
                tensor.sizes.as_ptr(),
                tensor.strides.as_ptr(),
                tensor.box_sizes.as_ptr(),
                tensor.element_strides.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle(tensor.swizzle),
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        check("cuTensorMapEncodeTiled", status)?;
        Ok(bytemuck::cast(map.opaque))
    }

    /// With the correction that `runtime/src/device/cuda/tensor_map.rs` makes: of tensors under 128 KiB, by drivers up to CUDA 13.1.
    fn im2col_map(&self, images: &Im2col<'_>) -> Result<[u8; 128], DriverError> {
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        // SAFETY: lists of one entry for each dimension (strides: all but the first, corners: all but the first and the
        // last), as the case has them.
        let status = unsafe {
            sys::cuTensorMapEncodeIm2col(
                &raw mut map,
                data_type(images.element),
                images.sizes.len() as u32,
                images.address as *mut c_void,
                images.sizes.as_ptr(),
                images.strides.as_ptr(),
                images.lower_corner.as_ptr(),
                images.upper_corner.as_ptr(),
                images.channels_per_pixel,
                images.pixels_per_column,
                images.element_strides.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle(images.swizzle),
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        check("cuTensorMapEncodeIm2col", status)?;
        let mut words: [u64; 16] = bytemuck::cast(map.opaque);
        let bytes = images.element.bytes() as u64 * images.sizes.iter().product::<u64>();
        if bytes < 128 << 10 && self.version <= 13_010 {
            words[1] &= !(1 << 21);
        }
        Ok(bytemuck::cast(words))
    }

    fn launch(&self, module: &Loaded, shape: Shape, arguments: &[&[u8]]) -> Result<(), DriverError> {
        let mut pointers: Vec<*mut c_void> = arguments.iter().map(|bytes| bytes.as_ptr() as *mut c_void).collect();
        // SAFETY: an all-zero attribute is a valid one; the value that is read is the one that the id names.
        let mut cluster: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
        cluster.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        cluster.value.clusterDim.x = shape.cluster;
        cluster.value.clusterDim.y = 1;
        cluster.value.clusterDim.z = 1;
        let config = sys::CUlaunchConfig {
            gridDimX: shape.blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: shape.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: ptr::null_mut(),
            attrs: &raw mut cluster,
            numAttrs: u32::from(shape.cluster > 1),
        };
        // SAFETY: one pointer for each of the kernel's parameters, which the driver copies before it returns.
        let status = unsafe {
            sys::cuLaunchKernelEx(&raw const config, module.function, pointers.as_mut_ptr(), ptr::null_mut())
        };
        check("cuLaunchKernelEx", status)
    }
}

const fn data_type(element: MapElement) -> sys::CUtensorMapDataType {
    use sys::CUtensorMapDataType as Type;
    match element {
        MapElement::U8 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        MapElement::U16 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        MapElement::U32 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        MapElement::S32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
        MapElement::U64 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        MapElement::S64 => Type::CU_TENSOR_MAP_DATA_TYPE_INT64,
        MapElement::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        MapElement::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        MapElement::F64 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        MapElement::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    }
}

const fn swizzle(swizzle: Swizzle) -> sys::CUtensorMapSwizzle {
    use sys::CUtensorMapSwizzle as Type;
    match swizzle {
        Swizzle::None => Type::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::Bytes32 => Type::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::Bytes64 => Type::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::Bytes128 => Type::CU_TENSOR_MAP_SWIZZLE_128B,
    }
}
