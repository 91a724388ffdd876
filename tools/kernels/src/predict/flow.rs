//! A kernel's control flow, from its machine code: stretches without branches, the loops around the products, and which
//! part of the code is executed how often.

use std::collections::BTreeSet;
use std::ops::Range;

use super::super::sass::{Instruction, Sass, is, is_product};

/// Instructions in a row: what is entered at its beginning only, and left at its end only.
struct Stretch {
    range: Range<usize>,
    next: Vec<usize>,
}

/// A kernel's stretches; the first is where it begins.
pub(crate) struct Flow<'a> {
    code: &'a [Instruction],
    stretches: Vec<Stretch>,
}

/// The parts of a kernel's code, each as the indices of its instructions in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Before the first product, of those warps that multiply.
    pub(crate) prologue: Vec<usize>,
    /// One turn of the innermost loop of products.
    pub(crate) product: Vec<usize>,
    /// Code that is executed once for each tile: between the loops of products and, outside of them, the epilogue.
    pub(crate) tile: Vec<usize>,
    /// After the last tile.
    pub(crate) end: Vec<usize>,
    /// For the warps that only load: one turn of their loop. Empty where all warps load.
    pub(crate) producer: Vec<usize>,
    /// Loops inside `tile` whose number of turns the code does not tell, and that wait for nothing: counted once.
    pub(crate) counted_once: usize,
}

/// Where a branch goes, and whether it may be not taken. The lanes of a warp stay together, so a branch for those that
/// don't (`BRA.DIV`) is no branch here. A call that keeps no return address may be a far branch; it may also return.
fn branch(sass: &Sass, instruction: &Instruction) -> Option<(usize, bool)> {
    let far = instruction.opcode == "CALL.REL.NOINC";
    if !(far || is(&instruction.opcode, "BRA")) || instruction.opcode.contains(".DIV") {
        return None;
    }
    let (before, rest) = instruction.operands.split_once("`(")?;
    let target = sass.label(rest.split_once(')')?.0)?;
    if far {
        return Some((target, true));
    }
    // `BRA.U UP0, …` and `BRA P0, …` depend on a predicate without being predicated.
    Some((target, instruction.predicated || !before.trim().is_empty()))
}

fn ends(instruction: &Instruction) -> bool {
    ["EXIT", "RET", "BRX", "KILL"].iter().any(|name| is(&instruction.opcode, name)) && !instruction.predicated
}

/// Whether it multiplies on tensor cores.
pub(crate) fn multiplies(instruction: &Instruction) -> bool {
    is_product(instruction) || ["HMMA", "IMMA", "DMMA"].iter().any(|name| is(&instruction.opcode, name))
}

fn loads_operands(instruction: &Instruction) -> bool {
    is(&instruction.opcode, "UTMALDG") || is(&instruction.opcode, "LDGSTS")
}

impl<'a> Flow<'a> {
    pub(crate) fn of(sass: &'a Sass) -> Self {
        let code = sass.instructions();
        let mut begins: BTreeSet<usize> = [0].into();
        for (place, instruction) in code.iter().enumerate() {
            if let Some((target, _)) = branch(sass, instruction) {
                begins.extend([target, place + 1]);
            } else if ends(instruction) {
                begins.insert(place + 1);
            }
        }
        begins.retain(|begin| *begin < code.len());
        let starts: Vec<usize> = begins.into_iter().collect();
        let ends_at = starts.iter().skip(1).copied().chain([code.len()]);
        let at = |target: usize| starts.binary_search(&target).ok();
        let stretches = starts.iter().zip(ends_at).map(|(&start, end)| {
            let last = &code[end - 1];
            let next = match branch(sass, last) {
                Some((target, true)) => [at(target), at(end)].into_iter().flatten().collect(),
                Some((target, false)) => at(target).into_iter().collect(),
                None if ends(last) => Vec::new(),
                None => at(end).into_iter().collect(),
            };
            Stretch { range: start..end, next }
        });
        Self { code, stretches: if code.is_empty() { Vec::new() } else { stretches.collect() } }
    }

    /// Stretches that can be reached from some, themselves included.
    fn reached(&self, from: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open: Vec<usize> = from.into_iter().collect();
        while let Some(one) = open.pop() {
            if found.insert(one) {
                open.extend(&self.stretches[one].next);
            }
        }
        found
    }

    /// Stretches that can reach one of some, themselves included.
    fn reaching(&self, to: &BTreeSet<usize>) -> BTreeSet<usize> {
        let mut found = to.clone();
        loop {
            let more = |i: &usize| !found.contains(i) && self.stretches[*i].next.iter().any(|n| found.contains(n));
            let new: Vec<usize> = (0..self.stretches.len()).filter(more).collect();
            if new.is_empty() {
                return found;
            }
            found.extend(new);
        }
    }

    /// The loops among some stretches that contain `inside`, the outermost first: sets of stretches that reach
    /// each other. Within a loop, the next one is what is left without the way back to its beginning.
    fn loops(&self, mut among: BTreeSet<usize>, inside: usize) -> Vec<BTreeSet<usize>> {
        let mut loops = Vec::new();
        let mut cut: BTreeSet<usize> = BTreeSet::new();
        loop {
            let within = |from: usize, forward: bool| {
                let mut found = BTreeSet::new();
                let mut open = vec![from];
                while let Some(one) = open.pop() {
                    let edges: Vec<usize> = if forward {
                        self.stretches[one].next.clone()
                    } else {
                        among.iter().copied().filter(|i| self.stretches[*i].next.contains(&one)).collect()
                    };
                    for other in edges {
                        // A way back to the beginning of an outer loop is not taken.
                        let to = if forward { other } else { one };
                        if among.contains(&other) && !cut.contains(&to) && found.insert(other) {
                            open.push(other);
                        }
                    }
                }
                found
            };
            let around: BTreeSet<usize> = within(inside, true).intersection(&within(inside, false)).copied().collect();
            if !around.contains(&inside) {
                return loops;
            }
            // The beginning: where the loop is entered from outside, or else its first stretch.
            let outside: BTreeSet<usize> = (0..self.stretches.len()).filter(|i| !around.contains(i)).collect();
            let entered = |i: &&usize| outside.iter().any(|o| self.stretches[*o].next.contains(i));
            let Some(begin) = around.iter().find(entered).or_else(|| around.first()).copied() else { return loops };
            cut.insert(begin);
            loops.push(around.clone());
            among = around;
        }
    }

    fn has(&self, stretch: usize, what: impl Fn(&Instruction) -> bool) -> bool {
        self.code[self.stretches[stretch].range.clone()].iter().any(what)
    }

    /// Whether it waits for a barrier by asking again and again: how often is not a property of the code.
    fn spins(&self, stretch: usize) -> bool {
        let works = |x: &Instruction| multiplies(x) || loads_operands(x);
        self.stretches[stretch].next.contains(&stretch)
            && self.has(stretch, |x| is(&x.opcode, "SYNCS"))
            && !self.has(stretch, works)
    }

    fn instructions(&self, stretches: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let counted = stretches.into_iter().filter(|i| !self.spins(*i));
        let mut all: Vec<usize> = counted.flat_map(|i| self.stretches[i].range.clone()).collect();
        all.sort_unstable();
        all
    }

    /// The parts of a kernel with a loop of products; `None` if it has none.
    pub(crate) fn parts(&self) -> Option<Parts> {
        if self.stretches.is_empty() {
            return None;
        }
        let live = self.reached([0]);
        let with = |what: fn(&Instruction) -> bool| -> BTreeSet<usize> {
            live.iter().copied().filter(|i| self.has(*i, what)).collect()
        };
        let (products, loads) = (with(multiplies), with(loads_operands));
        let count = |i: usize| self.code[self.stretches[i].range.clone()].iter().filter(|x| multiplies(x)).count();
        let in_loops = |i: &usize| self.loops(live.clone(), *i);
        // Of several loops of products the one that multiplies most.
        let (_, around) = products
            .iter()
            .map(|i| (count(*i), in_loops(i)))
            .filter(|(_, loops)| !loops.is_empty())
            .max_by_key(|(count, loops)| (loops.len(), *count))?;
        let innermost = around.last()?.clone();
        let outermost = if around.len() > 1 { around[0].clone() } else { BTreeSet::new() };
        let before: BTreeSet<usize> = self.reaching(&products);
        let after: BTreeSet<usize> = self.reached(products.iter().copied());
        let shares = !innermost.is_disjoint(&loads);
        // Other loops of products are other ways to do the same.
        let other_loops: BTreeSet<usize> = products
            .iter()
            .filter(|i| !innermost.contains(i))
            .flat_map(|i| in_loops(i).into_iter().skip(usize::from(!outermost.is_empty())).take(1).flatten())
            .filter(|i| !innermost.contains(i))
            .collect();
        let of_tile = |i: &usize| {
            let here =
                if outermost.is_empty() { after.contains(i) && !before.contains(i) } else { outermost.contains(i) };
            here && !innermost.contains(i) && !other_loops.contains(i)
        };
        let tile: BTreeSet<usize> = live.iter().copied().filter(of_tile).collect();
        let taken = |i: &usize| innermost.contains(i) || tile.contains(i) || other_loops.contains(i);
        let others: Vec<usize> = live.iter().copied().filter(|i| !taken(i)).collect();
        let prologue = others.iter().copied().filter(|i| before.contains(i) && !after.contains(i));
        let end = others.iter().copied().filter(|i| after.contains(i));
        // The loop of the warps that load: around a load that no product comes after or before.
        let mut producer = BTreeSet::new();
        if !shares {
            let alone = loads.iter().filter(|i| !before.contains(i) && !after.contains(i));
            let waiting = |found: &BTreeSet<usize>| found.iter().any(|i| self.has(*i, |x| is(&x.opcode, "SYNCS")));
            producer = alone.filter_map(|i| in_loops(i).into_iter().rfind(waiting)).next().unwrap_or_default();
        }
        // A wait ends, and a loop over the lanes' values of a register has one turn where all have the same.
        let waits = |i: usize| {
            self.has(i, |x| ["SYNCS", "NANOSLEEP"].iter().any(|name| is(&x.opcode, name)) || x.opcode == "BRA.U.ANY")
        };
        let mut inner: Vec<BTreeSet<usize>> = tile
            .iter()
            .filter_map(|i| self.loops(tile.clone(), *i).into_iter().next())
            .filter(|found| !found.iter().any(|i| waits(*i)))
            .collect();
        inner.sort();
        inner.dedup();
        Some(Parts {
            prologue: self.instructions(prologue),
            product: self.instructions(innermost.iter().copied()),
            tile: self.instructions(tile),
            end: self.instructions(end),
            producer: self.instructions(producer),
            counted_once: inner.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel with a producer and consumers: 0-2 for all; 3-6 load; 8 begins a tile, 9-11 multiply, 12-13 are its
    /// epilogue, 14 is the end.
    const TEXT: &str = "
        /*0000*/ S2R R0, SR_TID.X ;
        /*0010*/ ISETP.GE.AND P0, PT, R0, 0x80, PT ;
        /*0020*/ @P0 BRA `(.L_consumer) ;
        .L_load:
        /*0030*/ SYNCS.ARRIVE.TRANS64 RZ, [R9+URZ], R6 ;
        .L_lanes:
        /*0034*/ UTMALDG.2D [UR8], [UR4] ;
        /*0038*/ @P0 BRA.U.ANY `(.L_lanes) ;
        /*0040*/ @P1 BRA `(.L_load) ;
        /*0050*/ EXIT ;
        .L_consumer:
        /*0060*/ MOV R2, RZ ;
        .L_product:
        /*0070*/ SYNCS.PHASECHK.TRANS64.TRYWAIT P2, [UR6], R3 ;
        /*0080*/ HGMMA.64x64x16.F32.BF16 R24, gdesc[UR12], R24, gsb0 ;
        /*0090*/ @P1 BRA `(.L_product) ;
        /*00a0*/ F2FP.BF16.F32.PACK_AB R4, R25, R24 ;
        /*00b0*/ @P3 BRA `(.L_consumer) ;
        /*00c0*/ EXIT ;
        .L_never:
        /*00d0*/ BRA `(.L_never) ;
        ";

    #[test]
    fn parts_are_found_by_the_branches() {
        let sass = Sass::parse(TEXT);
        let parts = Flow::of(&sass).parts().expect("a loop of products");
        let expected = Parts {
            prologue: vec![0, 1, 2],
            product: vec![9, 10, 11],
            tile: vec![8, 12, 13],
            end: vec![14],
            producer: vec![3, 4, 5, 6],
            counted_once: 0,
        };
        assert_eq!(parts, expected);
        assert_eq!(Flow::of(&Sass::parse("/*0000*/ EXIT ;")).parts(), None);
        assert_eq!(Flow::of(&Sass::parse("")).parts(), None);
    }

    /// Without a loop over tiles, the epilogue is what comes after the products; a loop in it is counted once.
    #[test]
    fn a_block_of_one_tile_has_an_epilogue_after_its_products() {
        let sass = Sass::parse(
            "/*0000*/ S2R R0, SR_TID.X ;\n.L_product:\n/*0010*/ LDGSTS.E.128 [R2], [R4.64] ;\n\
             /*0020*/ HMMA.16816.F32 R8, R4, R6, R8 ;\n/*0030*/ @P0 BRA `(.L_product) ;\n.L_step:\n\
             /*0040*/ STG.E.128 [R2], R8 ;\n/*0050*/ BRA.U UP0, `(.L_step) ;\n/*0060*/ EXIT ;",
        );
        let parts = Flow::of(&sass).parts().expect("a loop of products");
        assert_eq!((parts.prologue, parts.product), (vec![0], vec![1, 2, 3]));
        assert_eq!((parts.tile, parts.producer, parts.counted_once), (vec![4, 5, 6], vec![], 1));
    }
}
