//! Everything that is generated, from integers only, so that `train.py` has the same numbers: batches without end, and first
//! weights. Each is a word of 32 bits of its stream, by the hash below.

/// Rows of a batch.
pub(crate) const ROWS: usize = 256;
/// Columns of a batch. Its root is a power of two, as that of `HIDDEN`, so first weights are exact in f32.
pub(crate) const FEATURES: usize = 16;
pub(crate) const HIDDEN: usize = 256;
pub(crate) const CLASSES: usize = 4;

/// The last steps of MurmurHash3 (Appleby): a bijection of 32 bits in which each bit depends on all.
fn mixed(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x85EB_CA6B);
    x = (x ^ (x >> 13)).wrapping_mul(0xC2B2_AE35);
    x ^ (x >> 16)
}

/// The words of a stream, from its word `first` on.
fn words(seed: u32, stream: u32, first: u32) -> impl Iterator<Item = u32> {
    let key = mixed(mixed(seed).wrapping_add(stream));
    (0..).map(move |i| mixed(key ^ first.wrapping_add(i)))
}

/// The features, `[ROWS, FEATURES]`, and the class of each row.
///
/// Features are odd multiples of 1/256 between -1 and 1. The class says of the first four whether the first two agree
/// in sign, and whether the other two do: which no single layer can tell.
pub(crate) fn batch(seed: u32, step: u32) -> (Vec<f32>, Vec<i64>) {
    let count = (ROWS * FEATURES) as u32;
    let x: Vec<f32> = words(seed, 0, step.wrapping_mul(count))
        .take(count as usize)
        .map(|word| (2.0 * (word >> 24) as f32 - 255.0) / 256.0)
        .collect();
    let agree = |a: f32, b: f32| i64::from((a > 0.0) == (b > 0.0));
    let labels = x.chunks(FEATURES).map(|row| agree(row[0], row[1]) + 2 * agree(row[2], row[3])).collect();
    (x, labels)
}

/// Weights `[rows, columns]`, uniform within one over the root of the number of rows, which is the number of inputs.
pub(crate) fn first_weights(seed: u32, stream: u32, rows: usize, columns: usize) -> Vec<f32> {
    let bound = 1.0 / (rows as f32).sqrt();
    let uniform = |word: u32| (2 * (word >> 8) as i32 + 1 - (1 << 24)) as f32 / (1 << 24) as f32;
    words(seed, stream, 0).take(rows * columns).map(|word| uniform(word) * bound).collect()
}
