//! Matrix fragments with the document's formulas for each shape (PTX ISA 9.7.14.5), and plain products.

/// Row and column of element `i` of a lane's A fragment.
pub fn a_place(shape: &str, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    match shape {
        // 16-bit elements.
        "m16n8k8.16" => (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1)),
        "m16n8k16.16" => (
            if i < 2 || (4..6).contains(&i) { group } else { group + 8 },
            thread * 2 + (i & 1) + if i >= 4 { 8 } else { 0 },
        ),
        // .tf32 and .f64.
        "m16n8k4.32" | "m16n8k4.64" => (if i == 0 { group } else { group + 8 }, thread),
        "m16n8k8.32" | "m16n8k8.64" => {
            (if i == 0 || i == 2 { group } else { group + 8 }, if i < 2 { thread } else { thread + 4 })
        }
        "m16n8k16.64" => {
            if i & 1 == 0 {
                (group, i * 2 + thread)
            } else {
                (group + 8, i * 2 - 2 + thread)
            }
        }
        "m8n8k4.64" => (group, thread),
        // 8-bit elements.
        "m8n8k16.8" => (group, thread * 4 + i),
        "m16n8k16.8" => (if i < 4 { group } else { group + 8 }, thread * 4 + (i & 3)),
        "m16n8k32.8" => (
            if i < 4 || (8..12).contains(&i) { group } else { group + 8 },
            thread * 4 + (i & 3) + if i >= 8 { 16 } else { 0 },
        ),
        other => unreachable!("no shape {other}"),
    }
}

/// Row and column of element `i` of a lane's B fragment.
pub fn b_place(shape: &str, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    let row = match shape {
        "m16n8k8.16" => thread * 2 + i,
        "m16n8k16.16" => thread * 2 + (i & 1) + if i >= 2 { 8 } else { 0 },
        "m16n8k4.32" | "m16n8k4.64" | "m8n8k4.64" => thread,
        "m16n8k8.32" | "m16n8k8.64" | "m16n8k16.64" => i * 4 + thread,
        "m8n8k16.8" | "m16n8k16.8" => thread * 4 + i,
        "m16n8k32.8" => thread * 4 + (i & 3) + if i >= 4 { 16 } else { 0 },
        other => unreachable!("no shape {other}"),
    };
    (row, group)
}

/// Row and column of element `i` of a lane's C or D fragment.
pub fn c_place(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1))
}

/// The chain of fused multiply-adds in `f32` of the fast arithmetic.
pub fn chain(a: &[f32], b: &[f32], c: f32) -> f32 {
    a.iter().zip(b).fold(c, |sum, (x, y)| x.mul_add(*y, sum))
}
