//! The kernels for sm_100a on the emulated device, with the race detector on.

use epilogue::Device;
use epilogue::evt::Tree;
use epilogue::evt::random::Choices;
use epilogue::gemm::sm90::{Cluster, Request, Schedule};
use epilogue::gemm::{Builder, Major, Problem};
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::{Arch, testing};
use epilogue_testing::case::Kernel;

use crate::hopper::{BF16, plain, tile, tree};

fn device(completion: Completion, seed: u64) -> Device {
    let options = Options::default().detector(Detector::On).completion(completion).seed(seed);
    Device::emulated_with(Arch::SM_100A, options).expect("an emulated device")
}

fn planned(device: &Device, tree: Tree, request: Request, majors: (Major, Major)) -> Kernel {
    let name = tree.name();
    let builder = Builder::new(device, tree).problem(64, 64, 64).multiprocessors(4).sm100(request);
    let kernel = Kernel::planned(builder, &BF16, majors);
    kernel.unwrap_or_else(|error| panic!("{name}: {request}: {error}"))
}

/// Every kind of tile, with A and B swapped and not, of every layout.
#[test]
fn tiles_of_every_kind() {
    if testing::compiler("tensor_memory::tiles_of_every_kind").is_none() {
        return;
    }
    let (together, in_turns) = (Schedule::Cooperative, Schedule::PingPong);
    let tiles = [
        (64, 64, together, false),
        (128, 64, together, false),
        (128, 96, in_turns, false),
        (128, 64, together, true),
        (256, 64, together, false),
        (64, 64, in_turns, true),
    ];
    for (i, (rows, columns, schedule, swap_ab)) in tiles.into_iter().enumerate() {
        let completion = [Completion::Lazy, Completion::Random, Completion::Eager][i % 3];
        let device = device(completion, i as u64);
        let majors =
            [(Major::K, Major::K), (Major::Mn, Major::K), (Major::K, Major::Mn), (Major::Mn, Major::Mn)][i % 4];
        let cluster = Some(if i % 2 == 0 { Cluster::NONE } else { Cluster { m: 2, n: 1 } });
        let request = Request {
            tile: Some(tile(rows, columns, schedule)),
            swap_ab: Some(swap_ab),
            cluster,
            ..Request::default()
        };
        for tree in [plain(), tree()] {
            let kernel = planned(&device, tree, request, majors);
            for (j, (m, n, k)) in [(rows + 33, columns + 40, 200), (5, 8, 0), (300, 260, 65)].into_iter().enumerate() {
                let result = kernel.product(Problem::new(m, n, k), &mut Choices::new(&[i as u32, j as u32, 4]));
                result.unwrap_or_else(|error| panic!("{request}: {m}x{n}x{k}: {error}"));
            }
        }
    }
}
