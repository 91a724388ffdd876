//! No thread waits for a lock that is held further up its own stack.

use std::sync::mpsc;
use std::time::Duration;

use epilogue_runtime::{Device, testing};

use super::super::{Operands, Programs, choose_tile, execute};
use crate::evt::{BroadcastClass, Phases, Prices, Tree, TreeBuilder, Types};
use crate::{Argument, ElementType};

fn plain() -> Tree {
    let mut b = TreeBuilder::new("plain", file!());
    let accum = b.accum("accum");
    b.output("d", accum, BroadcastClass::Tensor, None);
    b.finish()
}

/// Jobs of one pool, and a thread outside of it, multiply a tensor that others write meanwhile. Suppose that a GEMM
/// waited in that pool with its tensors locked. Its thread could then be given a job that waits for these locks.
#[test]
fn products_and_writes_of_one_tensor_end_in_one_pool() {
    const EXTENT: usize = 512;
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let tree = plain().validate(Types::new(ElementType::F32, ElementType::F32)).expect("a valid tree");
        let ones = vec![1.0_f32; EXTENT * EXTENT];
        let shared = Device::cpu().tensor(&ones, [EXTENT, EXTENT]).expect("memory");
        let multiply = || {
            let tile = choose_tile((ElementType::F32, ElementType::F32), [EXTENT; 3], 1, 1, 0);
            let mut d = Device::cpu().zeros::<f32>([EXTENT, EXTENT]).expect("memory");
            execute(
                &Programs::default(),
                &Phases::of(tree.clone(), Prices::CPU),
                Operands::of(&shared, &[&shared]),
                None,
                &[Argument::Output(&mut d)],
                tile,
            )
            .expect("a product");
            let d = d.to_vec::<f32>().expect("values");
            assert!(d.iter().all(|x| *x == EXTENT as f32), "whatever is written is the same");
        };
        let write = || shared.clone().copy_from(&ones).expect("as many elements");
        let (multiply, write) = (&multiply, &write);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(8).build().expect("threads");
        std::thread::scope(|threads| {
            threads.spawn(|| (0..testing::cases(8)).for_each(|_| multiply()));
            threads.spawn(|| (0..testing::cases(32)).for_each(|_| write()));
            pool.scope(|jobs| {
                for job in 0..testing::cases(48) {
                    jobs.spawn(move |_| if job % 3 == 0 { write() } else { multiply() });
                }
            });
        });
        done.send(()).expect("somebody waits");
    });
    ended.recv_timeout(Duration::from_secs(120)).expect("it ends: no thread waits for itself");
}
