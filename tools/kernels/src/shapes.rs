//! The shapes of the table of choices, each with what it takes to ask the model.

use std::error::Error;

use epilogue::ElementType;
use epilogue::evt::{Tree, Types, ValidTree};
use epilogue::gemm::{Arithmetic, Candidate, Major, Offer, OperandLayout, Problem};

use super::epilogues::{bias_gelu_residual, everything, plain, row_reduction};
use super::families::Family;

/// A line of the table: M, N, K, the operands and the epilogue; and what other libraries choose there, as far as it is
/// known (kernels' names in profiles of cuBLAS 12 and 13 on an H100; nvMatmulHeuristics 0.1 for an H200).
type Line = (usize, usize, usize, &'static str, &'static str, &'static str);

const TABLE: [Line; 68] = [
    (1024, 1024, 1024, "bf16", "plain", "nvMatmulHeuristics 64x128, clusters of 2x1"),
    (1536, 1536, 1536, "bf16", "plain", ""),
    (2048, 2048, 2048, "bf16", "plain", "nvMatmulHeuristics 256x128, clusters of 1x2"),
    (3072, 3072, 3072, "bf16", "plain", "nvMatmulHeuristics 128x192, clusters of 2x1"),
    (4096, 4096, 4096, "bf16", "plain", "nvMatmulHeuristics 256x128, clusters of 1x2"),
    (5120, 5120, 5120, "bf16", "plain", ""),
    (6144, 6144, 6144, "bf16", "plain", ""),
    (8192, 8192, 8192, "bf16", "plain", "cuBLAS 128x256, 4 stages, clusters of 2x1; or 256x128, 1x2; or 192x192, 2x1"),
    (16384, 16384, 16384, "bf16", "plain", ""),
    (1024, 1024, 1024, "bf16", "bias_gelu_residual", ""),
    (1536, 1536, 1536, "bf16", "bias_gelu_residual", ""),
    (2048, 2048, 2048, "bf16", "bias_gelu_residual", ""),
    (3072, 3072, 3072, "bf16", "bias_gelu_residual", ""),
    (4096, 4096, 4096, "bf16", "bias_gelu_residual", ""),
    (5120, 5120, 5120, "bf16", "bias_gelu_residual", ""),
    (6144, 6144, 6144, "bf16", "bias_gelu_residual", ""),
    (8192, 8192, 8192, "bf16", "bias_gelu_residual", ""),
    (16384, 16384, 16384, "bf16", "bias_gelu_residual", ""),
    (2048, 2048, 2048, "bf16", "row_reduction", ""),
    (4096, 4096, 4096, "bf16", "row_reduction", ""),
    (8192, 8192, 8192, "bf16", "row_reduction", ""),
    (2048, 2048, 2048, "bf16", "everything", ""),
    (4096, 4096, 4096, "bf16", "everything", ""),
    (8192, 8192, 8192, "bf16", "everything", ""),
    (1, 4096, 4096, "bf16", "plain", ""),
    (16, 4096, 4096, "bf16", "plain", "nvMatmulHeuristics 64x32 of 128 of K, 8 stages, clusters of 1x2"),
    (32, 4096, 4096, "bf16", "plain", "nvMatmulHeuristics 64x32 of 128 of K, 8 stages, clusters of 1x2"),
    (64, 4096, 4096, "bf16", "plain", "nvMatmulHeuristics 64x32 of 128 of K, 8 stages, clusters of 1x2"),
    (128, 4096, 4096, "bf16", "plain", "nvMatmulHeuristics 64x64"),
    (1, 28672, 8192, "bf16", "plain", ""),
    (16, 14336, 4096, "bf16", "plain", "nvMatmulHeuristics 64x128, clusters of 1x4"),
    (32, 28672, 8192, "bf16", "plain", ""),
    (64, 14336, 4096, "bf16", "plain", "nvMatmulHeuristics 64x128, clusters of 1x4"),
    (64, 4096, 14336, "bf16", "plain", "nvMatmulHeuristics 64x32"),
    (64, 2112, 7168, "bf16", "plain", "nvMatmulHeuristics 64x16"),
    (128, 14336, 4096, "bf16", "plain", "nvMatmulHeuristics 128x128, clusters of 1x4"),
    (128, 28672, 8192, "bf16", "bias_gelu_residual", ""),
    (256, 4096, 4096, "bf16", "plain", "nvMatmulHeuristics 128x64"),
    (512, 4096, 4096, "bf16", "plain", "nvMatmulHeuristics 128x128, clusters of 2x1"),
    (1024, 4096, 4096, "bf16", "plain", "nvMatmulHeuristics 256x128"),
    (4096, 14336, 4096, "bf16", "plain", "nvMatmulHeuristics 256x128"),
    (4096, 4096, 14336, "bf16", "plain", "nvMatmulHeuristics 256x128"),
    (4096, 2112, 7168, "bf16", "plain", "nvMatmulHeuristics 128x192, clusters of 4x1"),
    (16384, 3072, 768, "bf16", "bias_gelu_residual", ""),
    (16384, 768, 3072, "bf16", "bias_gelu_residual", ""),
    (768, 3072, 16384, "bf16", "plain", ""),
    (128, 128, 16384, "bf16", "plain", "nvMatmulHeuristics split-K of 10"),
    (256, 256, 32768, "bf16", "plain", "nvMatmulHeuristics split-K of 7"),
    (4096, 4096, 64, "bf16", "plain", ""),
    (4096, 4096, 256, "bf16", "plain", ""),
    (4096, 4096, 1024, "bf16", "plain", ""),
    (4096, 4096, 1024, "bf16", "bias_gelu_residual", ""),
    (4096, 4096, 16384, "bf16", "plain", ""),
    (8192, 8192, 8192, "e4m3", "plain", ""),
    (8192, 8192, 8192, "e4m3 fast", "plain", ""),
    (4096, 4096, 4096, "e4m3", "plain", ""),
    (4096, 4096, 7168, "e4m3", "plain", ""),
    (4096, 7168, 16384, "e4m3", "plain", ""),
    (4096, 2112, 7168, "e4m3", "plain", ""),
    (128, 7168, 16384, "e4m3", "plain", ""),
    (64, 24576, 1536, "e4m3", "plain", ""),
    (8192, 8192, 8192, "e4m3", "bias_gelu_residual", ""),
    (1, 4096, 4096, "bf16 by i8", "plain", ""),
    (16, 14336, 4096, "bf16 by i8", "plain", ""),
    (64, 14336, 4096, "bf16 by i8", "plain", ""),
    (64, 4096, 14336, "bf16 by i8", "plain", ""),
    (512, 4096, 4096, "bf16 by i8", "plain", ""),
    (4096, 4096, 4096, "bf16 by i8", "plain", ""),
];

fn tree(name: &str) -> Tree {
    match name {
        "plain" => plain(),
        "row_reduction" => row_reduction(),
        "everything" => everything(),
        _ => bias_gelu_residual(),
    }
}

/// One line of the table.
pub(crate) struct Shape {
    pub(crate) problem: Problem,
    /// The operands and the epilogue, as the table names them.
    pub(crate) types: &'static str,
    pub(crate) epilogue: &'static str,
    /// Choices of other libraries, as far as they are known.
    pub(crate) others: &'static str,
    pub(crate) arithmetic: Arithmetic,
    pub(crate) tree: ValidTree,
}

/// Both operands contiguous along K, in rows of whole 16 bytes.
pub(crate) const PACKED: OperandLayout = OperandLayout::packed(Major::K);

impl Shape {
    fn of((m, n, k, types, epilogue, others): Line) -> Result<Self, Box<dyn Error>> {
        let (a, b) = match types {
            "bf16" => (ElementType::BF16, ElementType::BF16),
            "bf16 by i8" => (ElementType::BF16, ElementType::I8),
            _ => (ElementType::F8E4M3, ElementType::F8E4M3),
        };
        let arithmetic = if types == "e4m3 fast" { Arithmetic::FastFp8 } else { Arithmetic::Exact };
        let tree = tree(epilogue).validate(Types::new(a, b))?;
        Ok(Self { problem: Problem::new(m, n, k), types, epilogue, others, arithmetic, tree })
    }

    /// All lines of the table.
    pub(crate) fn all() -> Result<Vec<Self>, Box<dyn Error>> {
        TABLE.into_iter().map(Self::of).collect()
    }

    /// M, N and K, the operands and the epilogue.
    pub(crate) fn name(&self) -> String {
        let Problem { m, n, k, .. } = self.problem;
        format!("{m}x{n}x{k} {} {}", self.types, self.epilogue)
    }

    /// The product, as every family prices it.
    pub(crate) const fn offer(&self) -> Offer<'_> {
        let Self { problem, arithmetic, tree, .. } = self;
        Offer { problem: *problem, layouts: (PACKED, PACKED), arithmetic: *arithmetic, tree }
    }

    /// A family's kernels on its GPU, best first: never none.
    pub(crate) fn ranked(&self, family: &dyn Family) -> Result<Vec<Candidate>, Box<dyn Error>> {
        let ranked = self.offer().candidates_of(family.arch(), &family.gpu().1);
        if ranked.is_empty() { Err("a kernel for every shape of the table".into()) } else { Ok(ranked) }
    }
}
