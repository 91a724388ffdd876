//! The shapes that are measured first, and predicted.

/// M, N, K: sizes from small to large, a transformer's, small M, long K, odd.
pub const HEADLINE: [[usize; 3]; 12] = [
    [8192, 8192, 8192],
    [4096, 4096, 4096],
    [2048, 2048, 2048],
    [1024, 1024, 1024],
    [4096, 4096, 1024],
    [8192, 28672, 8192],
    [8192, 8192, 28672],
    [16, 8192, 8192],
    [64, 28672, 8192],
    [256, 8192, 8192],
    [1024, 1024, 65536],
    [4095, 4097, 1000],
];
