//! Devices that run the cases: the emulated machine here, a GPU elsewhere.

use ptx_vm::numerics::im2col::Im2col;
use ptx_vm::numerics::tensor_map::{Fill, MapElement, TensorMap, TensorMapError, Tiled};
use ptx_vm::{Address, Arch, Argument, Launch, LaunchFailure, Machine, MemoryError, Module, Options, ParseError};

use crate::case::{Case, Extra};

/// A device that loads PTX (or a cubin made of it), copies bytes and launches.
pub trait Device {
    /// A loaded module.
    type Module;
    /// Memory of the device.
    type Buffer;
    /// The error type.
    type Error: std::error::Error;

    /// Its name, under which results are recorded.
    fn name(&self) -> String;
    /// The version of the software that compiled and ran the kernels.
    fn driver(&self) -> String;
    /// The compute capability, such as `(9, 0)`.
    fn capability(&self) -> (u32, u32);
    /// Loads a module of one kernel, `test`.
    ///
    /// # Errors
    /// If the text is refused.
    fn load(&self, ptx: &str) -> Result<Self::Module, Self::Error>;
    /// Allocates bytes, at a multiple of 256.
    ///
    /// # Errors
    /// If there is not enough memory.
    fn allocate(&self, bytes: usize) -> Result<Self::Buffer, Self::Error>;
    /// The address for kernels.
    fn address(&self, buffer: &Self::Buffer) -> u64;
    /// Copies bytes to the start of a buffer.
    ///
    /// # Errors
    /// If the device fails.
    fn write(&self, buffer: &Self::Buffer, bytes: &[u8]) -> Result<(), Self::Error>;
    /// Copies bytes from the start of a buffer, after everything launched before.
    ///
    /// # Errors
    /// If the device fails, or an earlier launch has failed.
    fn read(&self, buffer: &Self::Buffer, bytes: &mut [u8]) -> Result<(), Self::Error>;
    /// A tensor map (`cuTensorMapEncodeTiled`), to be passed by value.
    ///
    /// # Errors
    /// If the driver refuses it.
    fn tensor_map(&self, tensor: &Tiled<'_>) -> Result<[u8; 128], Self::Error>;
    /// A tensor map in im2col mode (`cuTensorMapEncodeIm2col`), likewise.
    ///
    /// # Errors
    /// If the driver refuses it.
    fn im2col_map(&self, images: &Im2col<'_>) -> Result<[u8; 128], Self::Error>;
    /// Launches `test`. The arguments are given as their bytes.
    ///
    /// # Errors
    /// If the launch fails.
    fn launch(&self, module: &Self::Module, shape: Shape, arguments: &[&[u8]]) -> Result<(), Self::Error>;
}

/// The shape of a launch: blocks of the grid and of a cluster, and threads of a block, all in one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of blocks.
    pub blocks: u32,
    /// Number of blocks of a cluster; 1 for a launch without clusters.
    pub cluster: u32,
    /// Number of threads of a block.
    pub threads: u32,
}

/// The output of a case's kernel on a device.
///
/// # Errors
/// If the device fails.
pub fn output<D: Device>(device: &D, case: &Case, input: &[u8]) -> Result<Vec<u8>, D::Error> {
    let module = device.load(&case.module)?;
    let source = device.allocate(input.len().max(8))?;
    device.write(&source, input)?;
    let target = device.allocate(case.output_bytes)?;
    device.write(&target, &vec![0; case.output_bytes])?;
    let addresses = [device.address(&source).to_le_bytes(), device.address(&target).to_le_bytes()];
    let map = match case.extra {
        Extra::None => None,
        Extra::TensorMap(tensor) => Some(device.tensor_map(&Tiled {
            element: tensor.element,
            address: device.address(if tensor.over_output { &target } else { &source }),
            sizes: &tensor.sizes[..tensor.rank],
            strides: &tensor.strides[..tensor.rank - 1],
            box_sizes: &tensor.box_sizes[..tensor.rank],
            element_strides: &[1; 5][..tensor.rank],
            swizzle: tensor.swizzle,
            fill: Fill::Zero,
        })?),
        Extra::Images(images) => {
            let (rank, axes) = (images.rank, images.rank - 2);
            Some(device.im2col_map(&Im2col {
                element: MapElement::U16,
                address: device.address(&source),
                sizes: &images.sizes[..rank],
                strides: &images.strides()[..rank - 1],
                lower_corner: &images.corner(false)[..axes],
                upper_corner: &images.corner(true)[..axes],
                channels_per_pixel: images.channels,
                pixels_per_column: images.pixels,
                element_strides: &images.element_strides()[..rank],
                swizzle: images.swizzle,
                fill: Fill::Zero,
            })?)
        }
    };
    let mut arguments: Vec<&[u8]> = addresses.iter().map(<[u8; 8]>::as_slice).collect();
    arguments.extend(map.iter().map(<[u8; 128]>::as_slice));
    let shape = Shape { blocks: case.blocks, cluster: case.cluster, threads: case.threads };
    device.launch(&module, shape, &arguments)?;
    let mut bytes = vec![0; case.output_bytes];
    device.read(&target, &mut bytes)?;
    Ok(bytes)
}

/// The machine as a device.
pub struct Emulated {
    machine: Machine,
}

/// The reason why the machine did not run a case.
#[derive(Debug, thiserror::Error)]
pub enum EmulatedError {
    /// The text was refused.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The launch failed.
    #[error(transparent)]
    Launch(#[from] Box<LaunchFailure>),
    /// The race detector reports something, although the kernel is correct.
    #[error("{count} reports of races, the first: {first}")]
    Race {
        /// The number of reports.
        count: usize,
        /// The first report.
        first: String,
    },
    /// A call on the machine's memory failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The tensor map was refused.
    #[error(transparent)]
    Map(#[from] TensorMapError),
}

impl Emulated {
    /// A new machine for the cases of this architecture, with all other options as given.
    pub fn new(arch: Arch, options: Options) -> Self {
        Self { machine: Machine::new(options.arch(arch)) }
    }
}

impl Device for Emulated {
    type Module = Module;
    type Buffer = Address;
    type Error = EmulatedError;

    fn name(&self) -> String {
        format!("ptx-vm {:?}", self.machine.options().arch)
    }

    fn driver(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    fn capability(&self) -> (u32, u32) {
        self.machine.options().arch.capability()
    }

    fn load(&self, ptx: &str) -> Result<Module, EmulatedError> {
        Ok(Module::parse(ptx)?)
    }

    fn allocate(&self, bytes: usize) -> Result<Address, EmulatedError> {
        Ok(self.machine.allocate(bytes as u64, "buffer")?)
    }

    fn address(&self, buffer: &Address) -> u64 {
        buffer.0
    }

    fn write(&self, buffer: &Address, bytes: &[u8]) -> Result<(), EmulatedError> {
        Ok(self.machine.write(*buffer, bytes)?)
    }

    fn read(&self, buffer: &Address, bytes: &mut [u8]) -> Result<(), EmulatedError> {
        Ok(self.machine.read(*buffer, bytes)?)
    }

    fn tensor_map(&self, tensor: &Tiled<'_>) -> Result<[u8; 128], EmulatedError> {
        Ok(TensorMap::encode(tensor)?)
    }

    fn im2col_map(&self, images: &Im2col<'_>) -> Result<[u8; 128], EmulatedError> {
        Ok(TensorMap::encode_im2col(images)?)
    }

    fn launch(&self, module: &Module, shape: Shape, arguments: &[&[u8]]) -> Result<(), EmulatedError> {
        let launch = Launch::new([shape.blocks, 1, 1], [shape.threads, 1, 1]).cluster([shape.cluster, 1, 1]);
        let arguments: Vec<Argument<'_>> = arguments.iter().map(|bytes| Argument::Bytes(bytes)).collect();
        let report = self.machine.launch(module, "test", &launch, &arguments).map_err(Box::new)?;
        match report.races.first() {
            None => Ok(()),
            Some(first) => Err(EmulatedError::Race { count: report.races.len(), first: first.to_string() }),
        }
    }
}
