//! Everything that is generated. All numbers are multiples of powers of two with at most 8 bits. So bf16 and f32 have
//! them exactly, and the loops compute with the same ones.

/// How large a block is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) tokens: usize,
    /// Columns of a token.
    pub(crate) columns: usize,
    /// Columns between an expert's two layers.
    pub(crate) hidden: usize,
    pub(crate) experts: usize,
    /// Experts that each token takes.
    pub(crate) top: usize,
}

impl Sizes {
    /// Rows that experts compute: each token's, for each of its experts.
    pub(crate) const fn rows(&self) -> usize {
        self.tokens * self.top
    }

    /// Multiplications of a block's products, forward and backward. An expert's three matrices are multiplied three times:
    /// by rows, by gradients of rows, and as gradients.
    pub(crate) const fn multiplications(&self) -> usize {
        let router = self.tokens * self.columns * self.experts;
        3 * (router + self.rows() * 3 * self.columns * self.hidden)
    }
}

/// How the router spreads tokens over experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Case {
    Even,
    /// Each expert is liked less than the one before.
    Skewed,
    /// Every second expert is never taken, as long as there are others.
    Empty,
}

impl Case {
    pub(crate) const ALL: [Self; 3] = [Self::Even, Self::Skewed, Self::Empty];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Skewed => "skewed",
            Self::Empty => "empty experts",
        }
    }

    /// The number that is added to an expert's score for every token.
    fn bias(self, expert: usize, sizes: &Sizes) -> f64 {
        match self {
            Self::Even => 0.0,
            Self::Skewed => -(expert.min(100) as f64) / 2.0,
            Self::Empty if expert % 2 == 1 && sizes.experts.div_ceil(2) >= sizes.top => -64.0,
            Self::Empty => 0.0,
        }
    }
}

/// The tokens, the weights, and the gradient of the block's result.
pub(crate) struct Data {
    pub(crate) sizes: Sizes,
    /// `[tokens, columns]`; the first column is 1, so that the router's first row is a bias.
    pub(crate) x: Vec<f64>,
    /// `[columns, experts]`
    pub(crate) router: Vec<f64>,
    /// `[experts, columns, 2 · hidden]`: the gate's columns, then those that it lets up.
    pub(crate) gate_up: Vec<f64>,
    /// `[experts, hidden, columns]`
    pub(crate) down: Vec<f64>,
    /// `[tokens, columns]`
    pub(crate) d_out: Vec<f64>,
}

impl Data {
    pub(crate) fn new(sizes: Sizes, case: Case, seed: u32) -> Self {
        let Sizes { tokens, columns, hidden, experts, .. } = sizes;
        let mut x = uniform(seed, 0, tokens * columns, 1.0);
        x.iter_mut().step_by(columns).for_each(|first| *first = 1.0);
        let mut router = uniform(seed, 1, columns * experts, 2.0 * step_of(columns));
        for (expert, weight) in router[..experts].iter_mut().enumerate() {
            *weight = case.bias(expert, &sizes);
        }
        Self {
            sizes,
            x,
            router,
            gate_up: uniform(seed, 2, experts * columns * 2 * hidden, 2.0 * step_of(columns)),
            down: uniform(seed, 3, experts * hidden * columns, 2.0 * step_of(hidden)),
            d_out: uniform(seed, 4, tokens * columns, 1.0),
        }
    }
}

/// A power of two near one over the root of a number of inputs.
fn step_of(inputs: usize) -> f64 {
    2f64.powi(-((inputs as f64).log2() / 2.0).round() as i32)
}

/// Odd multiples of `scale / 256` between `-scale` and `scale`.
fn uniform(seed: u32, stream: u32, count: usize, scale: f64) -> Vec<f64> {
    let key = mixed(mixed(seed).wrapping_add(stream));
    let number = |i: u32| f64::from(2 * (mixed(key ^ i) >> 24)) - 255.0;
    (0..count).map(|i| number(i as u32) / 256.0 * scale).collect()
}

/// The last steps of MurmurHash3 (Appleby): a bijection of 32 bits in which each bit depends on all.
fn mixed(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x85EB_CA6B);
    x = (x ^ (x >> 13)).wrapping_mul(0xC2B2_AE35);
    x ^ (x >> 16)
}
