//! Tests what is emitted, and which predicate refuses what.

use epilogue_runtime::testing;
use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::ElementType::{F8E4M3, F16, F32, I32};
use crate::tile::TileAxis::{Lane, Memory, Warp as WarpId};
use crate::tile::{LayoutError, MemoryScope, TileLayout};
use ExecutionScope::{Cta, Thread, Warp, Warpgroup};
use TileOp::{Max, Sum};

fn lanes(name: &str, shape: &[usize], layout: TileLayout) -> TileBuffer {
    TileBuffer::new(name, F32, MemoryScope::Local, shape, layout).unwrap()
}

fn emitted(reduction: &TileReduction, expected: &Expect) {
    let code = reduction.emit().unwrap();
    expected.assert_eq(&format!("// {}\n{}", code.variant, code.function("reduce")));
}

/// The demonstration of TIRx's document: four elements of a thread's registers.
#[test]
fn four_elements() {
    let a = TileBuffer::local("A_local_ptr", F32, &[4]).unwrap();
    let b = TileBuffer::local("B_local_ptr", F32, &[1]).unwrap();
    let reduction = TileReduction::new(Sum, Thread, &b, &a, &[0]).unwrap();
    emitted(
        &reduction,
        &expect![[r#"
        // local
        __device__ __forceinline__ void reduce(float* B_local_ptr, const float* A_local_ptr) {
            B_local_ptr[0] = 0.0f;
        #pragma unroll
            for (int red = 0; red < 4; ++red)
                B_local_ptr[0] = B_local_ptr[0] + A_local_ptr[red];
        }
    "#]],
    );
    emitted(
        &reduction.accumulate(),
        &expect![[r#"
        // local
        __device__ __forceinline__ void reduce(float* B_local_ptr, const float* A_local_ptr) {
        #pragma unroll
            for (int red = 0; red < 4; ++red)
                B_local_ptr[0] = B_local_ptr[0] + A_local_ptr[red];
        }
    "#]],
    );
}

#[test]
fn registers() {
    let a = TileBuffer::local("a", F16, &[3, 4, 5]).unwrap();
    let b = TileBuffer::local("b", F16, &[4]).unwrap();
    emitted(
        &TileReduction::new(Max, Thread, &b, &a, &[0, 2]).unwrap().accumulate(),
        &expect![[r#"
        // local
        __device__ __forceinline__ void reduce(f16* b, const f16* a) {
        #pragma unroll
            for (int spa = 0; spa < 4; ++spa) {
                float total = widen<float>(b[spa]);
        #pragma unroll
                for (int red0 = 0; red0 < 3; ++red0)
        #pragma unroll
                    for (int red1 = 0; red1 < 5; ++red1)
                        total = larger(total, widen<float>(a[spa * 5 + red0 * 20 + red1]));
                b[spa] = narrow<f16>(total);
            }
        }
    "#]],
    );
}

#[test]
fn lanes_and_replicas() {
    let a = lanes("a", &[16, 8], TileLayout::shards([(2, 2, Memory), (8, 4, Lane), (4, 1, Lane), (2, 1, Memory)]));
    let rows = TileLayout::shards([(2, 1, Memory), (8, 4, Lane)]).replicas([(4, 1, Lane)]);
    let b = lanes("b", &[16], rows);
    emitted(
        &TileReduction::new(Sum, Warp, &b, &a, &[1]).unwrap().accumulate(),
        &expect![[r#"
        // local.warp
        __device__ __forceinline__ void reduce(float* b, const float* a) {
        #pragma unroll
            for (int spa = 0; spa < 2; ++spa) {
                float total = 0.0f;
        #pragma unroll
                for (int red = 0; red < 2; ++red)
                    total = total + a[spa * 2 + red];
                total = reduce_lanes<ReduceAdd, 1, 4>(total);
                total = b[spa] + total;
                b[spa] = total;
            }
        }
    "#]],
    );
}

#[test]
fn shared_memory() {
    let a = TileBuffer::shared("a", F32, &[32, 7]).unwrap();
    let b = TileBuffer::shared("b", F32, &[32]).unwrap();
    let reduction = TileReduction::new(Sum, Cta, &b, &a, &[1]).unwrap();
    emitted(
        &reduction.clone().block([256, 1, 1]).unwrap(),
        &expect![[r#"
        // shared
        __device__ __forceinline__ void reduce(float* b, const float* a) {
            {
                const int thread = static_cast<int>(threadIdx.x);
                const int rank = thread % 8, group = thread / 8;
                const int output = group;
                float total = 0.0f;
                for (int red = rank; red < 7; red += 8)
                    total = total + a[output * 7 + red];
                total = reduce_lanes<ReduceAdd, 1, 8>(total);
                if (rank == 0) b[output] = total;
                __syncthreads();  // the results can be read
            }
        }
    "#]],
    );
    emitted(
        &reduction.accumulate().block([100, 1, 1]).unwrap(),
        &expect![[r#"
        // shared
        __device__ __forceinline__ void reduce(float* b, const float* a) {
            {
                const int thread = static_cast<int>(threadIdx.x);
                const int rank = thread % 8, group = thread / 8;
                const unsigned int mask = thread / 32 == 3 ? 0x0000000fu : 0xffffffffu;
                for (int first = 0; first < 32; first += 12) {
                    const int output = first + group;
                    float total = 0.0f;
                    if (group < 12 && output < 32)
                        for (int red = rank; red < 7; red += 8)
                            total = total + a[output * 7 + red];
                    total = reduce_lanes<ReduceAdd, 1, 8>(total, mask);
                    if (rank == 0 && group < 12 && output < 32) b[output] = b[output] + total;
                }
                __syncthreads();  // the results can be read
            }
        }
    "#]],
    );
    let a = TileBuffer::shared("a", F16, &[6, 4, 5]).unwrap();
    let b = TileBuffer::shared("b", F16, &[6, 1, 5]).unwrap();
    let reduction = TileReduction::new(Max, Warpgroup, &b, &a, &[1]).unwrap();
    emitted(
        &reduction.block([256, 1, 1]).unwrap(),
        &expect![[r#"
        // shared
        __device__ __forceinline__ void reduce(f16* b, const f16* a) {
            {
                const int thread = (static_cast<int>(threadIdx.x)) % 128;
                const int rank = thread % 4, group = thread / 4;
                const int output = group;
                float total = Ends<float>::least();
                if (output < 30)
                    for (int red = rank; red < 4; red += 4)
                        total = larger(total, widen<float>(a[(output / 5) * 20 + (output % 5) + red * 5]));
                total = reduce_lanes<ReduceMax, 1, 4>(total);
                if (rank == 0 && output < 30) b[(output / 5) * 5 + (output % 5)] = narrow<f16>(total);
                named_barrier(8 + (static_cast<int>(threadIdx.x)) / 128, 128);  // the results can be read
            }
        }
    "#]],
    );
}

#[test]
fn one_output_of_many_elements() {
    let a = TileBuffer::shared("a", F16, &[1000]).unwrap();
    let b = TileBuffer::shared("b", F16, &[1]).unwrap();
    let reduction = TileReduction::new(Sum, Cta, &b, &a, &[0]).unwrap().accumulate();
    emitted(
        &reduction.block([32, 3, 1]).unwrap(),
        &expect![[r#"
        // shared.block
        __device__ __forceinline__ void reduce(f16* b, const f16* a) {
            {
                const int thread = static_cast<int>(threadIdx.x + 32 * threadIdx.y);
                for (int output = 0; output < 1; ++output) {
                    float total = 0.0f;
                    for (int red = thread; red < 1000; red += 96)
                        total = total + widen<float>(a[red]);
                    const int block_lane = (static_cast<int>(threadIdx.x) + static_cast<int>(threadIdx.y) * 32) % 32;
                    const int block_part = (static_cast<int>(threadIdx.x) + static_cast<int>(threadIdx.y) * 32) / 32;
                    const unsigned int block_mask = 0xffffffffu;
                    __shared__ float block_slots0[3];
                    {
                        const float block_y0 = shuffle_down(block_mask, total, 16, 32);
                        total = total + block_y0;
                    }
                    {
                        const float block_y0 = shuffle_down(block_mask, total, 8, 32);
                        total = total + block_y0;
                    }
                    {
                        const float block_y0 = shuffle_down(block_mask, total, 4, 32);
                        total = total + block_y0;
                    }
                    {
                        const float block_y0 = shuffle_down(block_mask, total, 2, 32);
                        total = total + block_y0;
                    }
                    {
                        const float block_y0 = shuffle_down(block_mask, total, 1, 32);
                        total = total + block_y0;
                    }
                    if (block_lane == 0) {
                        block_slots0[block_part] = total;
                    }
                    __syncthreads();  // the slots are written
                    if (block_lane < 3) {
                        total = block_slots0[block_lane];
                    }
                    {
                        const float block_y0 = shuffle_down(block_mask, total, 2, 32);
                        if (block_lane == 0) {
                            total = total + block_y0;
                        }
                    }
                    {
                        const float block_y0 = shuffle_down(block_mask, total, 1, 32);
                        total = total + block_y0;
                    }
                    total = shuffle_lane(block_mask, total, 0, 32);
                    __syncthreads();  // the slots have been read and may be written again
                    if (thread == 0) b[0] = narrow<f16>(widen<float>(b[0]) + total);
                }
                __syncthreads();  // the results can be read
            }
        }
    "#]],
    );
}

#[test]
fn the_table() {
    expect![[r#"
        variant      priority  predicates
        shared.block       20  exec_scope, storage_scope, element_type, apart, threads, layout, few_outputs, values
        local              10  exec_scope, storage_scope, element_type, apart, threads, layout, values
        local.warp         10  exec_scope, storage_scope, element_type, apart, threads, layout, values
        local.view         10  exec_scope, storage_scope, element_type, apart, threads, layout, values
        shared             10  storage_scope, element_type, apart, threads, layout, values
    "#]]
    .assert_eq(&DispatchTable::standard().to_string());
}

fn refused(reduction: &TileReduction) -> Vec<(String, String)> {
    match reduction.emit() {
        Err(TileError::NoVariant { refusals, .. }) => refusals.into_iter().map(|r| (r.variant, r.predicate)).collect(),
        other => panic!("{other:?}"),
    }
}

fn predicates(reduction: &TileReduction) -> String {
    let all: Vec<String> = refused(reduction).into_iter().map(|(v, p)| format!("{v}: {p}")).collect();
    all.join(", ")
}

#[test]
fn a_refusal_names_the_predicate() {
    let local = |shape: &[usize]| TileBuffer::local("a", F32, shape).unwrap();
    let to = |shape: &[usize]| TileBuffer::local("b", F32, shape).unwrap();
    let shared = |shape: &[usize]| TileBuffer::shared("b", F32, shape).unwrap();
    let new = |scope, b: &TileBuffer, a: &TileBuffer| TileReduction::new(Sum, scope, b, a, &[0]).unwrap();
    let check = |reduction: &TileReduction, expected: Expect| expected.assert_eq(&predicates(reduction));
    check(
        &new(Cta, &to(&[1]), &local(&[4])),
        expect![
            "shared.block: storage_scope, local: exec_scope, local.warp: exec_scope, local.view: exec_scope, shared: storage_scope"
        ],
    );
    check(
        &new(Thread, &shared(&[1]), &local(&[4])),
        expect![
            "shared.block: exec_scope, local: storage_scope, local.warp: exec_scope, local.view: exec_scope, shared: storage_scope"
        ],
    );
    check(
        &new(Thread, &to(&[2]), &local(&[4])),
        expect![
            "shared.block: exec_scope, local: layout, local.warp: exec_scope, local.view: exec_scope, shared: storage_scope"
        ],
    );
    check(
        &new(Thread, &local(&[1]), &local(&[4])),
        expect![
            "shared.block: exec_scope, local: apart, local.warp: exec_scope, local.view: exec_scope, shared: storage_scope"
        ],
    );
    let small = TileBuffer::local("b", F16, &[1]).unwrap();
    check(
        &new(Thread, &small, &local(&[4])),
        expect![
            "shared.block: exec_scope, local: element_type, local.warp: exec_scope, local.view: exec_scope, shared: storage_scope"
        ],
    );
    let bytes = |name| TileBuffer::local(name, F8E4M3, &[1]).unwrap();
    check(
        &new(Thread, &bytes("b"), &bytes("a")),
        expect![
            "shared.block: exec_scope, local: element_type, local.warp: exec_scope, local.view: exec_scope, shared: storage_scope"
        ],
    );
    // A warp of a block that has none but a part of one.
    let a = lanes("a", &[32], TileLayout::shards([(32, 1, Lane)]));
    let b = lanes("b", &[1], TileLayout::row_major(&[1]).replicas([(32, 1, Lane)]));
    check(
        &new(Warp, &b, &a).block([20, 1, 1]).unwrap(),
        expect![
            "shared.block: exec_scope, local: exec_scope, local.warp: threads, local.view: threads, shared: storage_scope"
        ],
    );
    // A result in fewer lanes than meet is asked for by `thread_reduce`.
    check(
        &new(Warp, &to(&[1]), &a),
        expect![
            "shared.block: exec_scope, local: exec_scope, local.warp: layout, local.view: layout, shared: storage_scope"
        ],
    );
    // Replicas where no lanes meet, and other lanes than those that do.
    let far = lanes("b", &[1], TileLayout::row_major(&[1]).replicas([(2, 1, WarpId)]));
    check(
        &new(Warp, &far, &a),
        expect![
            "shared.block: exec_scope, local: exec_scope, local.warp: layout, local.view: layout, shared: storage_scope"
        ],
    );
    assert_eq!(new(Warp, &to(&[1]), &a).thread_reduce().emit().unwrap().variant, "local.view");
    let two = lanes("a", &[2, 4], TileLayout::shards([(2, 1, Lane), (4, 1, Memory)]));
    let four = lanes("b", &[1, 4], TileLayout::shards([(4, 1, Memory)]).replicas([(4, 1, Lane)]));
    check(
        &new(Warp, &four, &two),
        expect![
            "shared.block: exec_scope, local: exec_scope, local.warp: values, local.view: layout, shared: storage_scope"
        ],
    );
    let rows = lanes("a", &[4, 8], TileLayout::shards([(4, 8, Lane), (8, 1, Lane)]));
    let wrong = lanes("b", &[1, 8], TileLayout::shards([(8, 4, Lane)]).replicas([(4, 1, Lane)]));
    check(
        &new(Warp, &wrong, &rows),
        expect![
            "shared.block: exec_scope, local: exec_scope, local.warp: layout, local.view: layout, shared: storage_scope"
        ],
    );
    let three = lanes("a", &[3, 4], TileLayout::shards([(3, 1, Lane), (4, 3, Lane)]));
    let of_three = lanes("b", &[1, 4], TileLayout::shards([(4, 3, Lane)]).replicas([(3, 1, Lane)]));
    check(
        &new(Warp, &of_three, &three),
        expect![
            "shared.block: exec_scope, local: exec_scope, local.warp: layout, local.view: layout, shared: storage_scope"
        ],
    );
    // A warpgroup's lanes don't meet.
    let view = lanes("b", &[32], TileLayout::shards([(32, 1, Lane)]));
    check(
        &new(Warpgroup, &view, &a).thread_reduce(),
        expect![
            "shared.block: exec_scope, local: exec_scope, local.warp: exec_scope, local.view: layout, shared: storage_scope"
        ],
    );
    // Warps that the scope doesn't have.
    let warps = lanes("a", &[4, 2], TileLayout::shards([(4, 1, WarpId), (2, 1, Memory)]));
    let of_warps = lanes("b", &[4], TileLayout::shards([(4, 1, WarpId)]));
    check(
        &TileReduction::new(Sum, Warp, &of_warps, &warps, &[1]).unwrap(),
        expect![
            "shared.block: exec_scope, local: exec_scope, local.warp: layout, local.view: layout, shared: storage_scope"
        ],
    );
    check(
        &new(Warpgroup, &lanes("b", &[2], TileLayout::row_major(&[2])), &warps),
        expect![
            "shared.block: exec_scope, local: exec_scope, local.warp: exec_scope, local.view: layout, shared: storage_scope"
        ],
    );
}

#[test]
fn a_refusal_says_why() {
    let a = TileBuffer::local("a", F32, &[4]).unwrap();
    let b = TileBuffer::shared("b", I32, &[1]).unwrap();
    let error = TileReduction::new(Sum, Thread, &b, &a, &[0]).unwrap().emit().unwrap_err();
    expect!["no variant reduces a: f32 [4] in local, S[4 : 1@m] into b: i32 [1] in shared, S[1 : 1@m]: shared.block: predicate exec_scope fails (it is executed by a cta, not by a thread); local: predicate storage_scope fails (b is shared, not local); local.warp: predicate exec_scope fails (it is executed by a warp, not by a thread); local.view: predicate exec_scope fails (it is executed by a warp or a warpgroup, not by a thread); shared: predicate storage_scope fails (a is local, not shared)"].assert_eq(&error.to_string());
}

#[test]
fn mistakes_at_the_call() {
    let a = TileBuffer::local("a", F32, &[4, 8]).unwrap();
    let b = TileBuffer::local("b", F32, &[4]).unwrap();
    let new = |axes: &[isize]| TileReduction::new(Sum, Thread, &b, &a, axes);
    let axis = |axis| TileError::Axis { axis, buffer: "a".to_owned(), rank: 2 };
    assert_eq!(new(&[2]).unwrap_err(), axis(2));
    assert_eq!(new(&[-3]).unwrap_err(), axis(-3));
    assert_eq!(new(&[1, -1]).unwrap_err(), TileError::RepeatedAxis { axis: 1, buffer: "a".to_owned() });
    let block = |block| new(&[1]).unwrap().block(block).unwrap_err();
    for given in [[0, 1, 1], [1025, 1, 1], [1, 1, 65], [u32::MAX; 3]] {
        assert_eq!(block(given), TileError::Block { block: given });
    }
    for name in ["", "1a", "a b", "total", "red0", "spa", "float", "a__b", "f16", "ABC", "block_mask"] {
        assert!(matches!(TileBuffer::local(name, F32, &[1]), Err(TileError::Name { .. })), "{name}");
    }
    let lanes = TileLayout::shards([(4, 1, Lane)]);
    let shared = TileBuffer::new("a", F32, MemoryScope::Shared, &[4], lanes.clone());
    assert!(matches!(shared, Err(TileError::SharedThreads { .. })));
    let other = TileBuffer::new("a", F32, MemoryScope::Local, &[5], lanes);
    assert!(matches!(other, Err(TileError::Layout { source: LayoutError::Count { .. }, .. })));
}

/// A variant by a user, for what the standard ones do differently or not at all.
#[test]
fn a_table_can_be_extended() {
    let mut table = DispatchTable::standard();
    let pairs = Variant::new("pairs", 25, |reduction| {
        let (a, b) = (reduction.source().name(), reduction.destination().name());
        Ok(format!("{b}[0] = {a}[0] + {a}[1];\n"))
    });
    let pairs = pairs.when("two_elements", |reduction| match reduction.source().shape() {
        [2] => Ok(()),
        other => Err(format!("the source has shape {other:?}, not [2]")),
    });
    table.register(pairs);
    assert_eq!(table.variants()[0].name(), "pairs");
    let b = TileBuffer::local("b", F32, &[1]).unwrap();
    let sum = |n| TileReduction::new(Sum, Thread, &b, &TileBuffer::local("a", F32, &[n]).unwrap(), &[0]).unwrap();
    assert_eq!(table.emit(&sum(2)).unwrap().body, "b[0] = a[0] + a[1];\n");
    assert_eq!(table.emit(&sum(3)).unwrap().variant, "local");
    let refusal = table.variants()[0].accepts(&sum(3)).unwrap_err();
    assert_eq!(refusal.to_string(), "pairs: predicate two_elements fails (the source has shape [3], not [2])");
    let failing = Variant::new("failing", 30, |_| Err("not today".to_owned()));
    table.register(failing);
    assert!(matches!(table.emit(&sum(2)), Err(TileError::Variant { .. })));
    let none = DispatchTable::empty().emit(&sum(2)).unwrap_err();
    assert!(none.to_string().contains("the table is empty"));
}

fn any_axis() -> impl Strategy<Value = crate::tile::TileAxis> {
    prop_oneof![4 => Just(Memory), 3 => Just(Lane), 1 => Just(WarpId)]
}

fn any_iters(most: usize) -> impl Strategy<Value = Vec<(usize, usize, crate::tile::TileAxis)>> {
    let extent = prop_oneof![8 => 1..5usize, 1 => Just(0), 1 => Just(8), 1 => Just(usize::MAX)];
    let stride = prop_oneof![8 => 0..9usize, 1 => Just(32), 1 => Just(usize::MAX)];
    prop::collection::vec((extent, stride, any_axis()), 0..=most)
}

fn any_buffer(name: &'static str) -> impl Strategy<Value = Result<TileBuffer, TileError>> {
    let shape = prop::collection::vec(prop_oneof![8 => 1..5usize, 1 => Just(0), 1 => Just(usize::MAX)], 0..4);
    let any_layout = (any_iters(4), any_iters(2), 0..3usize, any_axis());
    (shape, any_layout, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        move |(shape, (shards, replicas, offset, axis), own, fits, shared)| {
            let scope = if shared { MemoryScope::Shared } else { MemoryScope::Local };
            // Half of the shapes are those of the shards, so that many buffers are possible.
            let shape = if fits { shards.iter().map(|(extent, ..)| *extent).collect() } else { shape };
            let layout = match own {
                true => TileLayout::row_major(&shape),
                false => TileLayout::shards(shards).replicas(replicas).offset(offset, axis),
            };
            TileBuffer::new(name, F32, scope, &shape, layout)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: testing::cases(4000), ..ProptestConfig::default() })]

    /// Any input gives a result or an error, and no panic.
    #[test]
    fn nothing_panics(
        a in any_buffer("a"),
        b in any_buffer("b"),
        axes in prop::collection::vec(-5..5isize, 0..4),
        scope in prop::sample::select(vec![Thread, Warp, Warpgroup, Cta]),
        block in prop::array::uniform3(prop_oneof![8 => 1..65u32, 1 => Just(0), 1 => Just(u32::MAX)]),
        (accumulate, threads) in any::<(bool, bool)>(),
    ) {
        if let (Ok(a), Ok(b)) = (a, b) {
            let _ = a.layout().memory_len();
            if let Ok(reduction) = TileReduction::new(Sum, scope, &b, &a, &axes) {
                let reduction = if accumulate { reduction.accumulate() } else { reduction };
                let reduction = if threads { reduction.thread_reduce() } else { reduction };
                let _ = reduction.to_string();
                let _ = reduction.emit().map_err(|error| error.to_string());
                if let Ok(reduction) = reduction.block(block) {
                    let _ = reduction.emit();
                }
            }
        }
    }
}
