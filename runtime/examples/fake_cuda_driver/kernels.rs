//! The kernels of `tests/devices/`, as what they do to the driver's memory.

use std::ffi::c_uint;
use std::sync::Arc;

use super::api::{Config, attribute};
use super::{Address, Memory, Work};

/// The kernels of `tests/devices/`.
pub(super) fn kernel(name: &str, config: &Config, arguments: &[Vec<u8>], status: Option<Address>) -> Work {
    let count = |size: [c_uint; 3]| size.iter().product::<c_uint>() as usize;
    let (threads, blocks) = (count(config.block), count(config.grid));
    let address = |i: usize| u64::from_ne_bytes(arguments[i][..8].try_into().unwrap());
    let int = |i: usize| i32::from_ne_bytes(arguments[i][..4].try_into().unwrap());
    let float = |i: usize, at: usize| f32::from_ne_bytes(arguments[i][at..at + 4].try_into().unwrap());
    match name {
        "affine" => {
            let (x, y, scale, shift) = (address(0), address(1), float(2, 0), float(2, 4));
            let n = i32::from_ne_bytes(arguments[3][..4].try_into().unwrap()) as usize;
            let n = n.min(threads * blocks);
            Arc::new(move |memory: &mut Memory| {
                let values: Vec<f32> = memory.floats(x, n).iter().map(|v| scale * v + shift).collect();
                memory.bytes(y, n * 4).copy_from_slice(bytemuck::cast_slice(&values));
            })
        }
        "reverse_blocks" => {
            let x = address(0);
            Arc::new(move |memory: &mut Memory| {
                let mut values = memory.floats(x, threads * blocks);
                values.chunks_mut(threads).for_each(<[f32]>::reverse);
                memory.bytes(x, threads * blocks * 4).copy_from_slice(bytemuck::cast_slice(&values));
            })
        }
        "cluster_shape" => {
            let x = address(0);
            let cluster = attribute(config, 4).unwrap_or([1; 16]);
            let dependent = attribute(config, 6).is_some_and(|value| value[0] == 1);
            let words = [cluster[0], cluster[1], cluster[2], u32::from(dependent)];
            Arc::new(move |memory: &mut Memory| memory.bytes(x, 16).copy_from_slice(bytemuck::cast_slice(&words)))
        }
        // A box of a tensor map of this driver's making, clipped, row by row.
        "copy_box" => {
            let words: Vec<u64> = arguments[0].chunks_exact(8).map(bytemuck::pod_read_unaligned).collect();
            let (to, x, y) = (address(1), int(2), int(3));
            let (from, extents, stride) = (words[2], [words[4] as i32, words[5] as i32], words[9]);
            let sizes = [words[13] & 1023, words[13] >> 10 & 1023].map(|size| size as i32);
            Arc::new(move |memory: &mut Memory| {
                for row in 0..sizes[1] {
                    for column in 0..sizes[0] {
                        let inside = (0..extents[0]).contains(&(x + column)) && (0..extents[1]).contains(&(y + row));
                        let place = || from + (y + row) as u64 * stride + (x + column) as u64 * 4;
                        let value = if inside { memory.floats(place(), 1)[0] } else { 0.0 };
                        let at = to + ((row * sizes[0] + column) * 4) as u64;
                        memory.bytes(at, 4).copy_from_slice(&value.to_ne_bytes());
                    }
                }
            })
        }
        // Pixels of a map in im2col mode, of images [N, H, W, C] of floats.
        "copy_pixels" => {
            let words: Vec<u64> = arguments[0].chunks_exact(8).map(bytemuck::pod_read_unaligned).collect();
            let (to, begin) = (address(1), [int(2), int(3), int(4)]);
            let offsets = int(5);
            let (from, channels, pixels) = (words[2], words[3] as u32, words[3] >> 32);
            let extents = [5, 6, 7].map(|i| words[i] as i32);
            let bytes = 4 * u64::from(channels) * words[5..8].iter().product::<u64>();
            assert_eq!(words[1] >> 21 & 1 == 1, bytes >= 128 << 10, "the bit of small images");
            let axis = |i: usize| [0, 16, 32].map(|at| i32::from((words[i] >> at) as i16));
            let ([low_w, up_w, step_w], [low_h, up_h, step_h]) = (axis(13), axis(14));
            Arc::new(move |memory: &mut Memory| {
                let [mut w, mut h, mut n] = begin;
                for pixel in 0..pixels {
                    let place = [w + (offsets & 0xffff), h + (offsets >> 16), n];
                    let inside = place.iter().zip(extents).all(|(at, extent)| (0..extent).contains(at));
                    for channel in 0..u64::from(channels) {
                        let start = from + 4 * channel;
                        let further = (0..3).map(|i| (place[i] as u64).wrapping_mul(words[9 + i]));
                        let value =
                            if inside { memory.floats(further.fold(start, u64::wrapping_add), 1)[0] } else { 0.0 };
                        let at = to + 4 * (pixel * u64::from(channels) + channel);
                        memory.bytes(at, 4).copy_from_slice(&value.to_ne_bytes());
                    }
                    w += step_w;
                    if w > extents[0] - 1 + up_w {
                        (w, h) = (low_w, h + step_h);
                    }
                    if h > extents[1] - 1 + up_h {
                        (h, n) = (low_h, n + 1);
                    }
                }
            })
        }
        "pick" => {
            let (x, index, y, n, count) = (address(0), address(1), address(2), int(3), int(4));
            Arc::new(move |memory: &mut Memory| {
                for i in 0..count as u64 {
                    let word =
                        |memory: &mut Memory, at: Address| -> u64 { bytemuck::pod_read_unaligned(memory.bytes(at, 8)) };
                    let at = bytemuck::pod_read_unaligned::<i32>(memory.bytes(index + 4 * i, 4));
                    if (0..n).contains(&at) {
                        let value = memory.bytes(x + 4 * at as u64, 4).to_vec();
                        memory.bytes(y + 4 * i, 4).copy_from_slice(&value);
                    } else if let Some(status) = status {
                        let (record, kernel) = (word(memory, status), word(memory, status + 8));
                        if word(memory, record) as u32 == 0 {
                            let fields = [2u64 | 1 << 32, kernel, i64::from(at) as u64, n as u64];
                            memory.bytes(record, 32).copy_from_slice(bytemuck::cast_slice(&fields));
                        }
                    }
                }
            })
        }
        _ => {
            let x = address(0);
            Arc::new(move |memory: &mut Memory| memory.bytes(x, 8).fill(7))
        }
    }
}

/// Bytes of each parameter of a kernel of `tests/devices/`.
pub(super) fn parameter_bytes(name: &str) -> Option<&'static [usize]> {
    match name {
        "affine" => Some(&[8, 8, 16, 4]),
        "reverse_blocks" => Some(&[8]),
        "spin" => Some(&[8, 4]),
        "cluster_shape" => Some(&[8]),
        "pick" => Some(&[8, 8, 8, 4, 4]),
        "copy_box" => Some(&[128, 8, 4, 4]),
        "copy_pixels" => Some(&[128, 8, 4, 4, 4, 4]),
        _ => None,
    }
}
