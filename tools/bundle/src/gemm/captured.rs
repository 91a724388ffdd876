//! Runs in graphs: of this library's, and of the driver's own, as a program captures them that uses CUDA graphs by itself.

use std::ptr;

use cudarc::driver::CudaContext;
use cudarc::driver::sys;
use epilogue_runtime::{Device, DeviceKind, Graph, Stream};

use crate::Outcome;

/// Whatever launches the same run again.
pub(crate) enum Captured {
    Ours { graph: Graph, stream: Stream },
    Drivers { executable: sys::CUgraphExec, stream: Stream },
}

impl Captured {
    /// As many as the device has: none on the CPU, the driver's on a GPU only. Each is of its own stream, on which `work`
    /// has been done once before.
    pub(crate) fn all(device: &Device, mut work: impl FnMut(&Stream) -> Outcome<()>) -> Outcome<Vec<Self>> {
        if device.arch().is_none() {
            return Ok(Vec::new());
        }
        let graph = device.capture(&mut work)?;
        let mut all = vec![Self::Ours { graph, stream: device.new_stream()? }];
        if let DeviceKind::Cuda { ordinal } = device.kind() {
            let stream = device.new_stream()?;
            work(&stream)?;
            stream.synchronize()?;
            let executable = captured(ordinal, &stream, work)?;
            all.push(Self::Drivers { executable, stream });
        }
        Ok(all)
    }

    /// Launches it, after all that is on the default stream, and waits for it.
    pub(crate) fn launch(&self) -> Outcome<()> {
        match self {
            Self::Ours { graph, stream } => graph.launch(stream)?,
            Self::Drivers { executable, stream } => {
                // Of that order only its owner knows.
                stream.device().default_stream().synchronize()?;
                let handle = stream.cuda_handle().ok_or("a stream without a handle")?;
                // SAFETY: a live graph and a live stream; the plan and the tensors that it uses live as long.
                unsafe { sys::cuGraphLaunch(*executable, handle) }.result()?;
            }
        }
        self.stream().synchronize()?;
        Ok(())
    }

    /// The name of its launch.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Ours { .. } => "graph launch",
            Self::Drivers { .. } => "launch of a graph that the driver captured",
        }
    }

    fn stream(&self) -> &Stream {
        match self {
            Self::Ours { stream, .. } | Self::Drivers { stream, .. } => stream,
        }
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        if let Self::Drivers { executable, .. } = self {
            // SAFETY: a live graph, whose last launch has been waited for.
            let _ = unsafe { sys::cuGraphExecDestroy(*executable) };
        }
    }
}

/// The graph that the driver captures while `work` is done, in the mode that forbids the most.
fn captured(
    ordinal: usize,
    stream: &Stream,
    mut work: impl FnMut(&Stream) -> Outcome<()>,
) -> Outcome<sys::CUgraphExec> {
    let handle = stream.cuda_handle().ok_or("a stream without a handle")?;
    CudaContext::new(ordinal)?.bind_to_thread()?;
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    let (mut graph, mut executable) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: a live stream of the context that is current, valid places to write to.
    unsafe {
        sys::cuStreamBeginCapture_v2(handle, mode).result()?;
        let worked = work(stream);
        sys::cuStreamEndCapture(handle, &raw mut graph).result()?;
        worked?;
        sys::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0).result()?;
        sys::cuGraphDestroy(graph).result()?;
    }
    Ok(executable)
}
