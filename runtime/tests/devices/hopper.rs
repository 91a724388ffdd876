//! Clusters and tensor maps.

use epilogue_runtime::{Device, KernelArgument, L2Promotion, Launch, Source, Swizzle, TensorMap, TiledMap};

use super::{ON_FAKE_DRIVER, devices};

/// Kernels that need compute capability 9.0. The box of `copy_box` has 8 rows of 16 floats.
const HOPPER_KERNELS: &str = r#"
extern "C" __global__ void cluster_shape(unsigned* out) {
    unsigned x, y, z;
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(x));
    asm("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(y));
    asm("mov.u32 %0, %%cluster_nctaid.z;" : "=r"(z));
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (blockIdx.x == 0) { out[0] = x; out[1] = y; out[2] = z; out[3] = 0; }
}

struct __align__(64) Map { unsigned long long words[16]; };

extern "C" __global__ void copy_box(const __grid_constant__ Map map, float* out, int x, int y) {
    __shared__ __align__(128) float box[128];
    __shared__ unsigned long long barrier;
    const unsigned to = (unsigned)__cvta_generic_to_shared(box);
    const unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" :: "r"(bar) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(bar) : "memory");
    }
    __syncthreads();
    asm volatile("{\n.reg .pred p;\nWAIT:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra WAIT;\n}" :: "r"(bar) : "memory");
    out[threadIdx.x] = box[threadIdx.x];
}
"#;

#[test]
fn clusters_and_tensor_maps() {
    let hopper = |device: &Device| device.arch().is_some_and(|arch| arch.capability() == (9, 0));
    for device in devices("clusters_and_tensor_maps").into_iter().filter(hopper) {
        let stream = device.default_stream();
        let kernel = |entry| device.compile(&Source::new("hopper.cu", entry, HOPPER_KERNELS)).unwrap();
        let (shape, copy) = (kernel("cluster_shape"), kernel("copy_box"));
        for (cluster, dependent) in [([1, 1, 1], false), ([2, 1, 1], true), ([2, 2, 1], false), ([1, 1, 4], true)] {
            let out = device.zeros::<i32>([4]).unwrap();
            let launch =
                Launch { grid: [4, 4, 4], cluster, programmatic_dependent_launch: dependent, ..Launch::default() };
            let clusters = shape.active_clusters(&launch).unwrap();
            assert!(
                clusters > 0 && clusters * cluster.iter().product::<u32>() <= device.properties().multiprocessors * 32
            );
            shape.launch(&launch, &[KernelArgument::Output(&out)], &stream).unwrap();
            let seen = out.to_vec::<i32>().unwrap();
            assert_eq!(seen[..3], cluster.map(|n| n as i32), "{device}");
            if std::env::var_os(ON_FAKE_DRIVER).is_some() {
                assert_eq!(seen[3], i32::from(dependent));
            }
        }
        let host: Vec<f32> = (0..20 * 12).map(|i| i as f32 + 1.0).collect();
        let tensor = device.tensor(&host, [12, 20]).unwrap();
        let map = TensorMap::new(&TiledMap {
            tensor: &tensor,
            extents: &[20, 12],
            strides: &[80],
            box_extents: &[16, 8],
            swizzle: Swizzle::None,
            l2_promotion: L2Promotion::Bytes128,
        })
        .unwrap();
        for (x, y) in [(0, 0), (8, 5), (-3, -2), (100, 0)] {
            let out = device.zeros::<f32>([8, 16]).unwrap();
            let (from, x_bytes, y_bytes) = (map.as_bytes(), i32::to_ne_bytes(x), i32::to_ne_bytes(y));
            let arguments = [
                KernelArgument::Value(from),
                KernelArgument::Output(&out),
                KernelArgument::Value(&x_bytes),
                KernelArgument::Value(&y_bytes),
                KernelArgument::Reads(&tensor),
            ];
            copy.launch(&Launch { block: [128, 1, 1], ..Launch::default() }, &arguments, &stream).unwrap();
            let at = |row: i32, column: i32| {
                let inside = (0..12).contains(&row) && (0..20).contains(&column);
                if inside { host[(row * 20 + column) as usize] } else { 0.0 }
            };
            let expected: Vec<f32> =
                (0..8).flat_map(|row| (0..16).map(move |column| at(y + row, x + column))).collect();
            assert_eq!(out.to_vec::<f32>().unwrap(), expected, "{device} at {x}, {y}");
        }
    }
}
