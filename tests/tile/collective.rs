//! Reductions over a block's threads: executes the printed plans.

use epilogue::tile::collective::{CollectiveText, CombineText};
use epilogue::tile::{Collective, CollectivePlan, headers};
use epilogue_runtime::{Device, DeviceTensor, Error, KernelArgument, Launch, Source};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

/// Block extents and the indices reduced over, the slowest rank first.
const SHAPES: [(&[u32], &[usize]); 16] = [
    (&[16, 32], &[0]),
    (&[8, 5], &[0]),
    (&[2, 4, 7], &[1, 0]),
    (&[32, 4], &[0]),
    (&[12], &[0]),
    (&[1, 31], &[1]),
    (&[64, 3], &[0]),
    (&[100], &[0]),
    (&[97], &[0]),
    (&[1024], &[0]),
    (&[16, 8], &[1]),
    (&[37, 3], &[0]),
    (&[5, 6, 7], &[2, 0]),
    (&[5, 6, 7], &[0, 1, 2]),
    (&[9, 4], &[]),
    (&[33, 31], &[1, 0]),
];

/// A kernel in which every thread loads its state, reduces it twice, and stores the result. The second time, the state
/// is the first result combined with what was loaded.
fn kernel(plan: &CollectivePlan, types: &[&str], combine: &CombineText<'_>) -> Source {
    let names: Vec<String> = (0..types.len()).map(|i| format!("x{i}")).collect();
    let state: Vec<(&str, &str)> = types.iter().copied().zip(names.iter().map(String::as_str)).collect();
    let body = plan.cuda(&CollectiveText { prefix: "all", state: &state, combine, arrays: None });
    let parameters: Vec<String> =
        types.iter().enumerate().map(|(i, t)| format!("const {t}* in{i}, {t}* out{i}")).collect();
    let each = |f: &dyn Fn(usize, &str) -> String| -> String {
        types.iter().enumerate().map(|(i, t)| f(i, t)).collect::<Vec<_>>().join(" ")
    };
    let extents = [plan.extents(), &[1, 1]].concat();
    let code = format!(
        "{}\nusing namespace epilogue;\nextern \"C\" __global__ void reduce({}) {{\n    \
         const int thread = threadIdx.x + {} * (threadIdx.y + {} * threadIdx.z);\n    {}\n    \
         for (int time = 0; time < 2; ++time) {{\n{body}        {}\n    }}\n}}\n",
        headers(),
        parameters.join(", "),
        extents[0],
        extents[1],
        each(&|i, t| format!("{t} x{i} = in{i}[thread];")),
        each(&|i, _| format!(
            "out{i}[thread + time * {}] = x{i}; x{i} = in{i}[thread];",
            plan.group_size() * plan.groups()
        )),
    );
    Source::new("collective.cu", "reduce", code)
}

fn run(device: &Device, plan: &CollectivePlan, source: &Source, tensors: &[(DeviceTensor, DeviceTensor)]) {
    let launched = launch(device, plan, source, tensors);
    launched.unwrap_or_else(|e| panic!("{e}\n{plan}\n{}", source.code));
}

fn launch(
    device: &Device,
    plan: &CollectivePlan,
    source: &Source,
    tensors: &[(DeviceTensor, DeviceTensor)],
) -> Result<(), Error> {
    let kernel = device.compile(source).unwrap_or_else(|e| panic!("{e}\n{}", source.code));
    let mut block = [1; 3];
    block[..plan.extents().len()].copy_from_slice(plan.extents());
    let arguments: Vec<KernelArgument<'_>> =
        tensors.iter().flat_map(|(i, o)| [KernelArgument::Input(i), KernelArgument::Output(o)]).collect();
    let launch = Launch { block, ..Launch::default() };
    kernel.launch(&launch, &arguments, &device.default_stream())
}

/// For every thread, the threads of its group in the order of ranks.
fn groups(plan: &CollectivePlan) -> Vec<Vec<usize>> {
    let [x, y, z] = [0, 1, 2].map(|i| plan.extents().get(i).copied().unwrap_or(1));
    let threads: Vec<[u32; 3]> =
        (0..z).flat_map(|k| (0..y).flat_map(move |j| (0..x).map(move |i| [i, j, k]))).collect();
    let of = |a: &[u32; 3]| {
        let mut members: Vec<usize> =
            (0..threads.len()).filter(|&b| plan.group().at(&threads[b]) == plan.group().at(a)).collect();
        members.sort_by_key(|&b| plan.rank().at(&threads[b]));
        members
    };
    threads.iter().map(of).collect()
}

/// Products of 2×2 matrices of wrapping integers: associative, not commutative, exact.
#[test]
fn products_of_matrices_keep_their_order() {
    let Some(device) = super::device("collective::products_of_matrices_keep_their_order") else { return };
    let product = |a: &[String], b: &[String]| -> Vec<String> {
        let entry = |i: usize, j: usize| format!("{} * {} + {} * {}", a[2 * i], b[j], a[2 * i + 1], b[2 + j]);
        vec![entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)]
    };
    SHAPES.par_iter().for_each(|(extents, reduced)| {
        let plan = Collective::new(extents, reduced).state(&[4; 4]).associative_only().plan().expect("a plan");
        let groups = groups(&plan);
        let threads = groups.len();
        let mut random = fastrand::Rng::with_seed(threads as u64);
        let matrices: Vec<[i32; 4]> = (0..threads).map(|_| [(); 4].map(|()| random.i32(-3..4))).collect();
        let tensors: Vec<_> = (0..4)
            .map(|i| {
                let entries: Vec<i32> = matrices.iter().map(|m| m[i]).collect();
                (device.tensor(&entries, [threads]).expect("valid"), device.zeros::<i32>([2 * threads]).expect("valid"))
            })
            .collect();
        run(&device, &plan, &kernel(&plan, &["int"; 4], &product), &tensors);
        let results: Vec<Vec<i32>> = tensors.iter().map(|(_, out)| out.to_vec().expect("a result")).collect();
        for (thread, group) in groups.iter().enumerate() {
            let multiply = |a: [i32; 4], b: [i32; 4]| {
                let entry =
                    |i: usize, j: usize| a[2 * i].wrapping_mul(b[j]).wrapping_add(a[2 * i + 1].wrapping_mul(b[2 + j]));
                [entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)]
            };
            let all = group.iter().map(|&member| matrices[member]).reduce(multiply).expect("valid");
            for time in 0..2 {
                let given = [0, 1, 2, 3].map(|i| results[i][thread + time * threads]);
                assert_eq!(given, all, "thread {thread}, {extents:?} over {reduced:?}");
            }
        }
    });
}

/// The largest value with its lowest index: two values of different sizes that change together.
#[test]
fn largest_value_and_its_place() {
    let Some(device) = super::device("collective::largest_value_and_its_place") else { return };
    let larger = |a: &[String], b: &[String]| {
        let first = format!("({0} > {1} || ({0} == {1} && {2} < {3}))", a[0], b[0], a[1], b[1]);
        vec![format!("{first} ? {} : {}", a[0], b[0]), format!("{first} ? {} : {}", a[1], b[1])]
    };
    SHAPES.par_iter().for_each(|(extents, reduced)| {
        let plan = Collective::new(extents, reduced).state(&[8, 1]).plan().expect("a plan");
        let groups = groups(&plan);
        let threads = groups.len();
        let mut random = fastrand::Rng::with_seed(threads as u64);
        let values: Vec<f64> = (0..threads).map(|_| f64::from(random.u32(0..20))).collect();
        let places: Vec<u8> = (0..threads).map(|i| (i % 251) as u8).collect();
        let doubles =
            (device.tensor(&values, [threads]).expect("valid"), device.zeros::<f64>([2 * threads]).expect("valid"));
        let bytes =
            (device.tensor(&places, [threads]).expect("valid"), device.zeros::<u8>([2 * threads]).expect("valid"));
        let source = kernel(&plan, &["double", "unsigned char"], &larger);
        let tensors = [doubles, bytes];
        run(&device, &plan, &source, &tensors);
        let (largest, place) =
            (tensors[0].1.to_vec::<f64>().expect("a result"), tensors[1].1.to_vec::<u8>().expect("a result"));
        for (thread, group) in groups.iter().enumerate() {
            let most = group.iter().map(|&m| values[m]).fold(0.0, f64::max);
            let first = group.iter().filter(|&&m| values[m] == most).map(|&m| places[m]).min().expect("valid");
            for time in [0, threads] {
                assert_eq!(
                    (largest[thread + time], place[thread + time]),
                    (most, first),
                    "{extents:?} over {reduced:?}"
                );
            }
        }
    });
}

/// Executed again without the barrier that orders the reuse of shared memory, it has a race, which is found.
#[test]
fn repetition_needs_the_last_barrier() {
    let Some(device) = super::device("collective::repetition_needs_the_last_barrier") else { return };
    let sum = |a: &[String], b: &[String]| vec![format!("{} + {}", a[0], b[0])];
    for (extents, reduced) in [(&[64, 3], &[0]), (&[16, 8], &[1])] {
        let tensors = [(device.zeros::<f32>([192]).expect("valid"), device.zeros::<f32>([384]).expect("valid"))];
        let collective = Collective::new(extents, reduced);
        let plan = collective.clone().plan().expect("a plan");
        run(&device, &plan, &kernel(&plan, &["float"], &sum), &tensors);
        let plan = collective.executed_once().plan().expect("a plan");
        let found = launch(&device, &plan, &kernel(&plan, &["float"], &sum), &tensors);
        assert!(matches!(found, Err(Error::Races { .. })), "{found:?}");
    }
}
