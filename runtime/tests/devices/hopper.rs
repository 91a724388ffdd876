//! Clusters and tensor maps.

use epilogue_runtime::{Device, Im2colMap, KernelArgument, L2Promotion, Launch, Source, Swizzle, TensorMap, TiledMap};

use super::{ON_FAKE_DRIVER, devices};

/// Kernels that need compute capability 9.0. The box of `copy_box` has 8 rows of 16 floats, that of `copy_pixels` 32 pixels
/// of 4.
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

extern "C" __global__ void copy_pixels(const __grid_constant__ Map map, float* out, int w, int h, int n, int offsets) {
    __shared__ __align__(128) float box[128];
    __shared__ unsigned long long barrier;
    const unsigned to = (unsigned)__cvta_generic_to_shared(box);
    const unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" :: "r"(bar) : "memory");
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
                     :: "r"(to), "l"(&map), "r"(0), "r"(w), "r"(h), "r"(n), "r"(bar),
                        "h"((unsigned short)offsets), "h"((unsigned short)(offsets >> 16)) : "memory");
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
        // The kernel may have clusters of more than 8 blocks once it was asked for one, so those come last.
        for (cluster, dependent) in [
            ([1, 1, 1], false),
            ([2, 1, 1], true),
            ([2, 2, 1], false),
            ([1, 1, 4], true),
            ([2, 2, 2], false),
            ([4, 1, 4], true),
        ] {
            let out = device.zeros::<i32>([4]).unwrap();
            let launch =
                Launch { grid: [4, 4, 4], cluster, programmatic_dependent_launch: dependent, ..Launch::default() };
            let (clusters, blocks) = (shape.active_clusters(&launch).unwrap(), cluster.iter().product::<u32>());
            assert!(clusters * blocks <= device.properties().multiprocessors * 32);
            let no_room = std::env::var("FAKE_DRIVER_CLUSTER").is_ok_and(|most| most == "8") && blocks > 8;
            assert!(std::env::var_os(ON_FAKE_DRIVER).is_none() || (clusters == 0) == no_room, "{cluster:?}");
            if clusters == 0 {
                assert!(blocks > 8 && shape.launch(&launch, &[KernelArgument::Output(&out)], &stream).is_err());
                continue;
            }
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

/// Images on both sides of 128 KiB, below which drivers encode a map that must be mended.
#[test]
fn copies_of_pixels() {
    let hopper = |device: &Device| device.arch().is_some_and(|arch| arch.capability() == (9, 0));
    for device in devices("copies_of_pixels").into_iter().filter(hopper) {
        let stream = device.default_stream();
        let copy = device.compile(&Source::new("hopper.cu", "copy_pixels", HOPPER_KERNELS)).unwrap();
        for [images, rows, columns] in [[3, 6, 7], [2, 80, 60]] {
            let host: Vec<f32> = (0..images * rows * columns * 4).map(|i| i as f32 + 1.0).collect();
            let tensor = device.tensor(&host, [images, rows, columns, 4]).unwrap();
            let (wide, high, all) = (columns as u64, rows as u64, images as u64);
            // A window of 3x3 that moves by 2 along the rows, with a padding of 1 around; 2 behind the last row.
            let map = TensorMap::im2col(&Im2colMap {
                tensor: &tensor,
                extents: &[4, wide, high, all],
                strides: &[16, 16 * wide, 16 * wide * high],
                lower_corner: &[-1, -1],
                upper_corner: &[-1, 0],
                steps: &[2, 1],
                channels: 4,
                pixels: 32,
                swizzle: Swizzle::None,
                l2_promotion: L2Promotion::None,
            });
            let map = map.unwrap();
            let places = |from: i32, last: i32, step: usize| (from..=last).step_by(step);
            let (last_w, last_h) = (columns as i32 - 2, rows as i32 - 1);
            for (w, h, n, off) in [(-1, -1, 0, (0, 0)), (3, 2, 0, (2, 1)), (1, last_h, images as i32 - 1, (0, 2))] {
                let out = device.zeros::<f32>([32, 4]).unwrap();
                let numbers = [w, h, n, off.0 | off.1 << 16].map(i32::to_ne_bytes);
                let mut arguments = vec![KernelArgument::Value(map.as_bytes()), KernelArgument::Output(&out)];
                arguments.extend(numbers.iter().map(|number| KernelArgument::Value(number)));
                arguments.push(KernelArgument::Reads(&tensor));
                copy.launch(&Launch { block: [128, 1, 1], ..Launch::default() }, &arguments, &stream).unwrap();
                let all = (0..images as i32 + 40).flat_map(|n| {
                    places(-1, last_h, 1).flat_map(move |h| places(-1, last_w, 2).map(move |w| [w, h, n]))
                });
                let expected: Vec<f32> = all
                    .skip_while(|place| *place != [w, h, n])
                    .take(32)
                    .flat_map(|[w, h, n]| {
                        let [w, h] = [w + off.0, h + off.1];
                        let inside = (0..columns as i32).contains(&w)
                            && (0..rows as i32).contains(&h)
                            && (0..images as i32).contains(&n);
                        let first = ((n * rows as i32 + h) * columns as i32 + w) * 4;
                        (0..4).map(move |c| if inside { (first + c + 1) as f32 } else { 0.0 })
                    })
                    .collect();
                assert_eq!(out.to_vec::<f32>().unwrap(), expected, "{device}: {images} images at {w}, {h}, {n}");
            }
        }
    }
}
