//! Calls between threads, on the CPU and on an emulated device.

use half::f16;

use super::*;
use crate::compile::arch::Arch;

/// The results of the ranks' `work`, by rank.
fn on_ranks<R: Send>(ranks: usize, work: impl Fn(Communicator) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let work = &work;
        let all: Vec<_> =
            Communicator::in_process(ranks).into_iter().map(|end| scope.spawn(move || work(end))).collect();
        all.into_iter().map(|rank| rank.join().expect("no panic")).collect()
    })
}

#[test]
fn sums_and_parts_arrive() {
    for emulated in [false, true] {
        let all = on_ranks(3, |ranks| -> Result<_> {
            let device = if emulated { Device::emulated(Arch::SM_80)? } else { Device::cpu() };
            let (stream, mine) = (device.new_stream()?, ranks.rank() as f32);
            let x = device.tensor(&[1.0, mine, 10.0 * mine, 4.0, 5.0, mine], [3, 2])?;
            let (mut sum, mut part) = (device.zeros::<f32>([3, 2])?, device.zeros::<f32>([1, 2])?);
            let mut every = device.zeros::<f32>([9, 2])?;
            ranks.all_reduce(&x, &mut sum, &stream)?;
            ranks.reduce_scatter(&x, &mut part, &stream)?;
            ranks.all_gather(&x, &mut every, &stream)?;
            Ok((sum.to_vec::<f32>()?, part.to_vec::<f32>()?, every.slice(0, 3..6)?.to_vec::<f32>()?))
        });
        for (rank, got) in all.into_iter().enumerate() {
            let (sum, part, of_rank_1) = got.expect("all agree");
            assert_eq!(sum, [3.0, 3.0, 30.0, 12.0, 15.0, 3.0]);
            assert_eq!(part, sum[2 * rank..2 * rank + 2]);
            assert_eq!(of_rank_1, [1.0, 1.0, 10.0, 4.0, 5.0, 1.0]);
        }
    }
}

#[test]
fn ranks_that_disagree_all_fail_and_nothing_is_written() {
    let all = on_ranks(2, |ranks| -> Result<_> {
        let (device, odd) = (Device::cpu(), ranks.rank() == 1);
        let stream = device.default_stream();
        let mut x = device.full::<f32>([if odd { 3 } else { 4 }], 7.0)?;
        let lengths = ranks.all_reduce_in_place(&mut x, &stream).expect_err("refused");
        let mut half = device.full::<f16>([4], f16::ONE)?;
        let types = match odd {
            true => ranks.all_reduce_in_place(&mut half, &stream),
            false => ranks.all_reduce_in_place(&mut x, &stream),
        };
        let calls = if odd { ranks.exchange("now").map(drop) } else { ranks.all_reduce_in_place(&mut x, &stream) };
        // One rank's own mistake is told to the others.
        let mut column = device.zeros::<f32>([2, 2])?.slice(1, 0..1)?;
        let own = if odd {
            ranks.all_reduce_in_place(&mut column, &stream)
        } else {
            ranks.all_reduce_in_place(&mut x, &stream)
        };
        let errors = [lengths, types.expect_err("refused"), calls.expect_err("refused"), own.expect_err("refused")];
        // And they are still in step.
        let words = ranks.exchange(if odd { "b" } else { "a" })?;
        Ok((errors.map(|error| error.to_string()), x.to_vec::<f32>()?, words))
    });
    for (rank, got) in all.into_iter().enumerate() {
        let ([lengths, types, calls, own], x, words) = got.expect("the rest works");
        assert_eq!(
            lengths,
            "the ranks disagree on the call: rank 0 has all_reduce of 4 f32, rank 1 has all_reduce of 3 f32; all ranks \
             must make the same calls in the same order"
        );
        assert!(types.contains("rank 1 has all_reduce of 4 f16"), "{types}");
        assert!(calls.contains("rank 0 has all_reduce of 4 f32, rank 1 has exchange"), "{calls}");
        assert_eq!(own.starts_with("rank 1 refused its part"), rank == 0, "{own}");
        assert!(own.contains("ranks exchange packed tensors"), "{own}");
        assert!(x.iter().all(|value| *value == 7.0));
        assert_eq!(words, ["a", "b"]);
    }
}

#[test]
fn what_no_rank_can_do_is_refused_by_name() {
    let Ok([alone]) = <[Communicator; 1]>::try_from(Communicator::in_process(1)) else { panic!("one") };
    let (device, stream) = (Device::cpu(), Device::cpu().default_stream());
    let said = |result: Result<()>| result.expect_err("refused").to_string();
    let mut bytes = device.zeros::<u8>([4]).expect("memory");
    assert!(said(alone.all_reduce_in_place(&mut bytes, &stream)).starts_with("u8 can't be summed over ranks"));
    let (x, mut short) = (device.zeros::<f32>([4]).expect("memory"), device.zeros::<f32>([3]).expect("memory"));
    assert_eq!(
        said(alone.all_reduce(&x, &mut short, &stream)),
        "what is received has 3 elements, and 4 are needed for 1 ranks"
    );
    let mut same = x.clone();
    assert!(said(alone.all_gather(&x, &mut same, &stream)).starts_with("what is sent and what is received share"));
    let elsewhere = Device::emulated(Arch::SM_80).expect("a device");
    assert!(matches!(alone.all_reduce_in_place(&mut short, &elsewhere.default_stream()), Err(Error::Device { .. })));
    // On a dry stream nothing is done, and nobody waited for.
    let mut ends = Communicator::in_process(2);
    let first = ends.remove(0);
    first.all_reduce_in_place(&mut short, &device.dry_stream()).expect("checked only");
    drop(ends);
    assert!(said(first.exchange("").map(drop)).starts_with("rank 1 has left"));
    let long = format!("{}é", "x".repeat(TEXT_BYTES - 1));
    assert_eq!(alone.exchange(&long).expect("cut")[0].len(), TEXT_BYTES - 1);
}

#[cfg(feature = "nccl")]
#[test]
fn nccl_is_for_gpus() {
    let (me, place) = (LaunchedRank::default(), Rendezvous::File("id".into()));
    let refused = Communicator::nccl(&Device::cpu(), &me, &place).unwrap_err();
    assert!(refused.to_string().starts_with("the CPU can't use NCCL: use `Communicator::in_process`"), "{refused}");
}
