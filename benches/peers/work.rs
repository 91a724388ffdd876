//! The work of the contestants.

use std::fmt;

use crate::minilm;

/// The type of a product's operands and result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    F32,
    F16,
    Bf16,
}

/// The layout of the second operand in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weights {
    /// `[K, N]`.
    Kn,
    /// `[N, K]`, like the weights of linear layers.
    Nk,
}

/// The work after a product.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Nothing,
    /// `gelu(product + bias) + residual`, GELU by `tanh`.
    BiasGeluResidual,
    /// The product and the sum of each of its rows.
    RowSums,
}

/// A function of every pair of a row of `x` and a row of `y`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// The sum of `|a - b|`.
    Manhattan,
    /// The least `a + b`.
    MinPlus,
    /// The sum of `(a - b)²`, from the differences.
    Squared,
    /// For each row of `x`, the sum over all rows of `y` of `exp(-squared)`.
    Gaussian,
    /// For each row of `x`, the number of the row of `y` with the least squared distance.
    Nearest,
}

impl Pairs {
    const fn word(self) -> &'static str {
        match self {
            Self::Manhattan => "manhattan",
            Self::MinPlus => "min_plus",
            Self::Squared => "squared",
            Self::Gaussian => "gaussian",
            Self::Nearest => "nearest",
        }
    }

    const ALL: [Self; 5] = [Self::Manhattan, Self::MinPlus, Self::Squared, Self::Gaussian, Self::Nearest];
}

/// One row of the table. Matrices are `[rows, columns]`, of f32.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    Product {
        shape: [usize; 3],
        element: Type,
        weights: Weights,
        after: After,
    },
    /// 3×3 filters, as many as channels, over square images `[N, H, W, C]` of f32, with a padding of 1.
    Convolution {
        images: usize,
        extent: usize,
        channels: usize,
        /// Whether bias and ReLU follow.
        layer: bool,
    },
    ArgMax {
        shape: [usize; 2],
    },
    Softmax {
        shape: [usize; 2],
        axis: usize,
    },
    LayerNorm {
        shape: [usize; 2],
    },
    Cumsum {
        shape: [usize; 2],
        axis: usize,
    },
    /// `y[t] = a[t] * y[t - 1] + x[t]` down the columns.
    Recurrence {
        shape: [usize; 2],
    },
    Sum {
        shape: [usize; 2],
        axis: usize,
    },
    Variance {
        shape: [usize; 2],
        axis: usize,
    },
    /// Windows of 2×2 with a stride of 2, over square images `[N, C, H, W]`: the largest value, or the mean.
    Pool {
        images: usize,
        channels: usize,
        extent: usize,
        mean: bool,
    },
    /// Rows of a table `[n, m]`, picked by an index of `count`.
    Gather {
        shape: [usize; 2],
        count: usize,
    },
    /// Images `[N, C, H, W]` in 8 groups of channels.
    GroupNorm {
        images: usize,
        channels: usize,
        extent: usize,
    },
    CumMax {
        shape: [usize; 2],
        axis: usize,
    },
    /// The loss of each row of logits.
    CrossEntropy {
        shape: [usize; 2],
    },
    /// A function of `x[m, k]` and `y[n, k]`.
    Pairs {
        of: Pairs,
        shape: [usize; 3],
    },
    /// The vectors of sentences of this many tokens by all-MiniLM-L6-v2.
    MiniLm {
        sentences: usize,
        tokens: usize,
    },
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let along = |axis: &usize| ["down", "along"][*axis];
        match self {
            Self::Product { shape: [m, n, k], element, weights, after } => {
                let element = match element {
                    Type::F32 => "f32",
                    Type::F16 => "f16",
                    Type::Bf16 => "bf16",
                };
                write!(f, "{element} {m}×{n}×{k}")?;
                if *weights == Weights::Nk {
                    f.write_str(", weights [N, K]")?;
                }
                f.write_str(match after {
                    After::Nothing => "",
                    After::BiasGeluResidual => ", bias + GELU + residual",
                    After::RowSums => ", sums of rows",
                })
            }
            Self::Convolution { images, extent, channels, layer } => {
                let after = if *layer { ", bias + ReLU" } else { "" };
                write!(f, "3×3 convolution {images}×{extent}×{extent}×{channels}{after}")
            }
            Self::ArgMax { shape: [n, m] } => write!(f, "argmax along rows, {n}×{m}"),
            Self::Softmax { shape: [n, m], axis } => write!(f, "softmax {} {n}×{m}", along(axis)),
            Self::LayerNorm { shape: [n, m] } => write!(f, "layer norm {n}×{m}"),
            Self::Cumsum { shape: [n, m], axis } => write!(f, "cumsum {} {n}×{m}", along(axis)),
            Self::Recurrence { shape: [n, m] } => write!(f, "linear recurrence down {n}×{m}"),
            Self::Sum { shape: [n, m], axis } => write!(f, "sum {} {n}×{m}", along(axis)),
            Self::Variance { shape: [n, m], axis } => write!(f, "variance {} {n}×{m}", along(axis)),
            Self::Pool { images, channels, extent, mean } => {
                let of = if *mean { "average" } else { "max" };
                write!(f, "{of} pool 2×2, {images}×{channels}×{extent}×{extent}")
            }
            Self::Gather { shape: [n, m], count } => write!(f, "gather {count} rows of {n}×{m}"),
            Self::GroupNorm { images, channels, extent } => {
                write!(f, "group norm {images}×{channels}×{extent}×{extent}")
            }
            Self::CumMax { shape: [n, m], axis } => write!(f, "cummax {} {n}×{m}", along(axis)),
            Self::CrossEntropy { shape: [n, m] } => write!(f, "cross entropy {n}×{m}"),
            Self::Pairs { of, shape: [m, n, k] } => {
                let of = match of {
                    Pairs::Manhattan => "sum of |a − b|",
                    Pairs::MinPlus => "least a + b",
                    Pairs::Squared => "squared distances",
                    Pairs::Gaussian => "sums of exp(−squared distance)",
                    Pairs::Nearest => "nearest rows",
                };
                write!(f, "{of} {m}×{n}×{k}")
            }
            Self::MiniLm { sentences, tokens } => write!(f, "MiniLM, {sentences}×{tokens} tokens"),
        }
    }
}

impl Work {
    /// The words that describe it to a Python worker.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Product { shape: [m, n, k], element, weights, after } => {
                let element = match element {
                    Type::F32 => "f32",
                    Type::F16 => "f16",
                    Type::Bf16 => "bf16",
                };
                let weights = match weights {
                    Weights::Kn => "kn",
                    Weights::Nk => "nk",
                };
                let after = match after {
                    After::Nothing => "plain",
                    After::BiasGeluResidual => "fused",
                    After::RowSums => "row_sums",
                };
                format!("product {m} {n} {k} {element} {weights} {after}")
            }
            Self::Convolution { images, extent, channels, layer } => {
                format!("convolution {images} {extent} {channels} {}", u8::from(*layer))
            }
            Self::ArgMax { shape: [n, m] } => format!("argmax {n} {m}"),
            Self::Softmax { shape: [n, m], axis } => format!("softmax {n} {m} {axis}"),
            Self::LayerNorm { shape: [n, m] } => format!("layer_norm {n} {m}"),
            Self::Cumsum { shape: [n, m], axis } => format!("cumsum {n} {m} {axis}"),
            Self::Recurrence { shape: [n, m] } => format!("recurrence {n} {m}"),
            Self::Sum { shape: [n, m], axis } => format!("sum {n} {m} {axis}"),
            Self::Variance { shape: [n, m], axis } => format!("variance {n} {m} {axis}"),
            Self::Pool { images, channels, extent, mean } => {
                format!("pool {images} {channels} {extent} {}", u8::from(*mean))
            }
            Self::Gather { shape: [n, m], count } => format!("gather {n} {m} {count}"),
            Self::GroupNorm { images, channels, extent } => format!("group_norm {images} {channels} {extent}"),
            Self::CumMax { shape: [n, m], axis } => format!("cummax {n} {m} {axis}"),
            Self::CrossEntropy { shape: [n, m] } => format!("cross_entropy {n} {m}"),
            Self::Pairs { of, shape: [m, n, k] } => format!("pairs {m} {n} {k} {}", of.word()),
            Self::MiniLm { sentences, tokens } => format!("minilm {sentences} {tokens}"),
        }
    }

    /// The largest difference to another contestant's element, relative to 1 or to the element's magnitude.
    pub(crate) fn tolerance(&self) -> f32 {
        match self {
            Self::Product { element: Type::F16 | Type::Bf16, .. } => 0.05,
            // A plain loop rounds each of millions of sums.
            Self::Cumsum { .. } => 2e-2,
            // Half a unit in the last place of the sum of magnitudes, which are 1/2 on average.
            Self::Sum { shape, axis } => (shape[*axis] as f32 * f32::EPSILON / 4.0).max(2e-3),
            _ => 2e-3,
        }
    }

    /// All rows, in order.
    pub(crate) fn all() -> Vec<Self> {
        let product = |shape, element, weights, after| Self::Product { shape, element, weights, after };
        let mut all = Vec::new();
        for n in [256, 512, 1024, 2048] {
            for after in [After::Nothing, After::BiasGeluResidual, After::RowSums] {
                all.push(product([n, n, n], Type::F32, Weights::Kn, after));
            }
        }
        for m in [1, 8, 32] {
            all.push(product([m, 3072, 768], Type::F32, Weights::Nk, After::Nothing));
        }
        all.push(product([1, 3072, 768], Type::F32, Weights::Kn, After::Nothing));
        for after in [After::Nothing, After::BiasGeluResidual] {
            all.push(product([640, 384, 1536], Type::F32, Weights::Nk, after));
        }
        for n in [256, 512, 1024] {
            all.push(product([n, n, n], Type::Bf16, Weights::Kn, After::Nothing));
        }
        for m in [1, 8, 32] {
            all.push(product([m, 3072, 768], Type::Bf16, Weights::Nk, After::Nothing));
        }
        all.push(product([1, 3072, 768], Type::F16, Weights::Nk, After::Nothing));
        // As many multiplications each: layers of ResNet-50.
        for (extent, channels) in [(56, 64), (28, 128), (14, 256), (7, 512)] {
            for layer in [false, true] {
                all.push(Self::Convolution { images: 4, extent, channels, layer });
            }
        }
        all.extend([
            Self::ArgMax { shape: [4096, 1024] },
            Self::Softmax { shape: [4096, 1024], axis: 1 },
            Self::Softmax { shape: [16_384, 384], axis: 1 },
            Self::Softmax { shape: [4096, 1024], axis: 0 },
            Self::Softmax { shape: [8, 64], axis: 1 },
            Self::LayerNorm { shape: [4096, 1024] },
            Self::LayerNorm { shape: [16_384, 384] },
            Self::Cumsum { shape: [4096, 1024], axis: 0 },
            Self::Cumsum { shape: [4096, 1024], axis: 1 },
            Self::Cumsum { shape: [1, 1 << 22], axis: 1 },
            Self::Recurrence { shape: [4096, 1024] },
            Self::Sum { shape: [1, 64], axis: 1 },
            Self::Sum { shape: [4096, 4096], axis: 0 },
            Self::Sum { shape: [4096, 4096], axis: 1 },
            Self::Sum { shape: [10_000_000, 3], axis: 0 },
            Self::Sum { shape: [10_000_000, 3], axis: 1 },
            Self::ArgMax { shape: [4096, 4096] },
            Self::Variance { shape: [4096, 4096], axis: 0 },
            Self::Variance { shape: [4096, 4096], axis: 1 },
        ]);
        all.extend([
            Self::Pool { images: 8, channels: 64, extent: 112, mean: false },
            Self::Pool { images: 8, channels: 64, extent: 112, mean: true },
            Self::Gather { shape: [30_000, 384], count: 4096 },
            Self::GroupNorm { images: 8, channels: 64, extent: 56 },
            Self::CumMax { shape: [4096, 1024], axis: 0 },
            Self::CumMax { shape: [4096, 1024], axis: 1 },
            Self::CrossEntropy { shape: [1024, 10_000] },
        ]);
        for k in [3, 64] {
            all.extend(Pairs::ALL.map(|of| Self::Pairs { of, shape: [4096, 4096, k] }));
        }
        all.extend([Pairs::Manhattan, Pairs::MinPlus].map(|of| Self::Pairs { of, shape: [1024, 1024, 512] }));
        if minilm::is_there() {
            let batches = [(1, 12), (32, 20), (8, 256)];
            all.extend(batches.map(|(sentences, tokens)| Self::MiniLm { sentences, tokens }));
        }
        all
    }
}
