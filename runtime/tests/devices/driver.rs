//! A CUDA driver of our own, with and without a device.

use std::path::PathBuf;
use std::process::Command;

use epilogue_runtime::bundle::Builder;
use epilogue_runtime::{Absent, Device, Error, GpuModel, testing};

use super::{FROM_BUNDLE, ON_FAKE_DRIVER, source};

/// The variable with the message for the child process of `a_driver_without_a_device_is_absence`.
const EXPECTED_ABSENCE: &str = "EPILOGUE_TEST_EXPECTED_ABSENCE";

#[test]
fn a_driver_without_a_device_is_absence() {
    const NAME: &str = "driver::a_driver_without_a_device_is_absence";
    if let Ok(expected) = std::env::var(EXPECTED_ABSENCE) {
        let Err(Error::Absent(absent)) = Device::cuda(0) else { panic!("the driver has no device") };
        assert!(absent.to_string().contains(&expected), "{absent}");
        let Err(Error::Absent(of_another)) = Device::cuda(7) else { panic!("the driver has no device") };
        let is_counted = matches!(absent, Absent::Device { .. });
        assert!(!is_counted || of_another.to_string().starts_with("CUDA device 7 does not exist"), "{of_another}");
        assert_eq!(Device::best().unwrap(), Device::cpu());
        assert_eq!(Device::best_with_reason().unwrap(), (Device::cpu(), Some(absent)));
        return;
    }
    if std::env::var_os(ON_FAKE_DRIVER).is_some() || !cfg!(target_os = "linux") {
        return;
    }
    let driver = FakeDriver::new("absence");
    // CUDA_ERROR_NO_DEVICE; CUDA_ERROR_STUB_LIBRARY, as of the toolkit's stub; a driver that counts no device;
    // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH and CUDA_ERROR_UNKNOWN.
    for (status, devices, expected) in [
        ("100", "1", "this machine has 0"),
        ("34", "1", "cuInit failed"),
        ("0", "0", "this machine has 0"),
        ("803", "1", "restart the machine"),
        ("999", "1", "nvidia_uvm"),
    ] {
        let mut child = driver.command(&["--exact", NAME]);
        child.env("FAKE_DRIVER_INIT", status).env("FAKE_DRIVER_DEVICES", devices).env(EXPECTED_ABSENCE, expected);
        assert_success(&mut child);
    }
    let mut child = driver.command(&["--exact", NAME]);
    std::fs::write(driver.library(), b"no library").unwrap();
    assert_success(child.env(EXPECTED_ABSENCE, "no usable CUDA driver"));
}

/// Machine code that was compiled for a GPU which was not there, in a process without a compiler: with its parameters and
/// registers.
#[test]
fn a_gpu_runs_machine_code_from_a_bundle() {
    const NAME: &str = "driver::a_gpu_runs_machine_code_from_a_bundle";
    let is_child = [ON_FAKE_DRIVER, FROM_BUNDLE].iter().any(|name| std::env::var_os(name).is_some());
    if is_child || testing::compiler(NAME).is_none() || !cfg!(target_os = "linux") {
        return;
    }
    let (driver, builder) = (FakeDriver::new("bundle"), Builder::new());
    let target = builder.target(GpuModel::A100);
    target.compile(&source("affine")).unwrap();
    let path = driver.0.join("kernels.bundle");
    builder.write(&path).unwrap();
    let mut child = driver.command(&["--exact", "launches::kernels_compute"]);
    child.env(FROM_BUNDLE, path).env("FAKE_DRIVER_MAJOR", "8");
    assert_success(child.env("EPILOGUE_NVRTC", "no-such-library").env("EPILOGUE_CACHE", "off"));
}

/// A folder with the fake driver as `libcuda.so`.
pub(super) struct FakeDriver(PathBuf);

impl FakeDriver {
    pub(super) fn new(test: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let built = program.parent().unwrap().with_file_name("examples").join("libfake_cuda_driver.so");
        let folder = std::env::temp_dir().join(format!("epilogue-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let driver = Self(folder);
        std::fs::copy(&built, driver.library()).unwrap_or_else(|e| {
            panic!("{}: {e}; build it with `cargo build -p epilogue-runtime --examples`", built.display())
        });
        driver
    }

    pub(super) fn library(&self) -> PathBuf {
        self.0.join("libcuda.so")
    }

    /// This test program again, on the fake driver.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(arguments).env("LD_LIBRARY_PATH", &self.0);
        command
    }
}

impl Drop for FakeDriver {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn assert_success(command: &mut Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{text}");
}

/// Runs this file's tests again on a driver of our own, which delays all work for as long as it may. It shows what no
/// GPU shows reliably: an order that nobody asked for.
#[test]
fn the_cuda_code_runs_without_a_gpu() {
    const NAME: &str = "driver::the_cuda_code_runs_without_a_gpu";
    if std::env::var_os(ON_FAKE_DRIVER).is_some() || testing::compiler(NAME).is_none() || !cfg!(target_os = "linux") {
        return;
    }
    let driver = FakeDriver::new("devices");
    for (order, pools, major, cluster) in [
        ("lazy", "yes", "9", "16"),
        ("random", "yes", "8", "16"),
        ("lazy", "no", "8", "16"),
        ("random", "no", "9", "8"),
    ] {
        let mut child = driver.command(&["--test-threads=1", "--skip", NAME]);
        child
            .env(ON_FAKE_DRIVER, "1")
            .env("EPILOGUE_NCCL", driver.library())
            .env("FAKE_DRIVER_DEVICES", "2")
            .env("FAKE_DRIVER_MAJOR", major)
            .env("FAKE_DRIVER_CLUSTER", cluster)
            .env("FAKE_DRIVER_ORDER", order)
            .env("FAKE_DRIVER_POOLS", pools);
        assert_success(&mut child);
    }
}
