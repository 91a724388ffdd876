//! Instructions that this family's kernels must consist of, and the registers with which they begin.

use epilogue::evt::ValidTree;
use epilogue::gemm::sm90::{Sm90Key, TensorCores, Traffic, Within};
use epilogue::gemm::{Divided, Major};
use epilogue_runtime::Resources;

use crate::gate::expect;
use crate::sass::{Sass, is_product, is_tensor_product};

/// Shared memory and registers are as the kernel's own code counts on.
pub(super) fn check_resources(findings: &mut Vec<String>, key: &Sm90Key, resources: &Resources) {
    if resources.shared_bytes != 0 {
        findings.push(format!("{} bytes of static shared memory move the rings", resources.shared_bytes));
    }
    // 65536 registers among the threads, in steps of 8.
    let entry = (65536 / key.threads() / 8 * 8).min(255);
    if key.tile.registers().is_some() && resources.registers as usize != entry {
        findings.push(format!("{} registers at entry; setmaxnreg counts on {entry}", resources.registers));
    }
}

pub(super) fn check(findings: &mut Vec<String>, key: &Sm90Key, tree: &ValidTree, sass: &Sass) {
    let traffic = Traffic::of(tree, key.direct);
    if tree.multiplies() {
        match key.cores {
            TensorCores::Wgmma => check_warpgroups(findings, key, sass),
            TensorCores::Tcgen05 => check_tensor_memory(findings, key, sass),
        }
        check_loads(findings, key, sass);
    }
    check_epilogue(findings, key, &traffic, sass);
}

/// Products of warpgroups: four instructions, for 32 bytes of K each, make a stage, for every 64 rows of a warpgroup; the loop is
/// not unrolled.
fn check_warpgroups(findings: &mut Vec<String>, key: &Sm90Key, sass: &Sass) {
    let per_stage = 4 * key.tile.warpgroup_rows() / 64;
    let products = sass.count_where(is_product);
    if products == 0 || products > 2 * per_stage || !products.is_multiple_of(per_stage) {
        findings.push(format!("{products} warpgroup products; {per_stage} make a stage"));
    }
    let shape = format!(".64x{}x", key.tile.columns);
    if sass.count_where(|i| is_product(i) && !i.opcode.contains(&shape)) > 0 {
        findings.push(format!("a warpgroup product is not of 64x{}", key.tile.columns));
    }
    let batches = sass.count_where(|i| is_product(i) && i.operands.contains("gsb0"));
    let arrivals = sass.count_where(|i| i.opcode == "WARPGROUP.ARRIVE");
    if batches != arrivals || batches == 0 {
        findings.push(format!("{batches} batches of products and {arrivals} WARPGROUP.ARRIVE"));
    }
    expect(findings, "WARPGROUP.DEPBAR", sass.count("WARPGROUP.DEPBAR"), true);
    for instruction in sass.writes_to_open_accumulators(key.tile.columns / 2) {
        findings.push(format!("{} {} writes an open accumulator", instruction.opcode, instruction.operands));
    }
    match sass.stray_between_products() {
        None => findings.push("no loop of products".to_owned()),
        Some(mut stray) => {
            // What threads have copied, products see behind a fence.
            stray.retain(|i| !(key.reading.is_picked() && i.opcode == "MEMBAR.ALL.CTA"));
            findings.extend(stray.iter().map(|i| format!("{} {} between products", i.opcode, i.operands)));
        }
    }
}

/// Products in tensor memory: four instructions for 32 bytes of K each make a stage, for every 128 rows of a tile. Each block of a
/// warpgroup's accumulators is loaded once.
fn check_tensor_memory(findings: &mut Vec<String>, key: &Sm90Key, sass: &Sass) {
    let per_stage = 4 * key.tile.rows.div_ceil(128);
    let products = sass.count_where(is_tensor_product);
    if products != per_stage {
        findings.push(format!("{products} products in tensor memory; {per_stage} make a stage"));
    }
    let (loads, blocks) = (sass.count("LDTM"), key.tile.warpgroup_rows() / 64);
    if loads == 0 || !loads.is_multiple_of(blocks) {
        findings.push(format!("{loads} loads of tensor memory, by {blocks} blocks of rows"));
    }
    // Of a stage, and of a tile's sums.
    let commits = sass.count("UTCBAR");
    if commits != 2 {
        findings.push(format!("{commits} commits; a stage and a tile have one each"));
    }
    for name in ["HGMMA", "WARPGROUP.ARRIVE", "WARPGROUP.DEPBAR"] {
        expect(findings, name, sass.count(name), false);
    }
}

/// Operands come by TMA, picked rows by threads.
fn check_loads(findings: &mut Vec<String>, key: &Sm90Key, sass: &Sass) {
    expect(findings, "UTMALDG", sass.count("UTMALDG"), true);
    let pixels = sass.count_where(|i| i.opcode.starts_with("UTMALDG") && i.opcode.contains("IM2COL"));
    let boxes = match (key.reading.patches(), key.a) {
        (None, _) => 0,
        (_, Major::K) => 1,
        // Of 64 rows each, of which a block loads its share.
        (_, Major::Mn) => key.tile.rows / 64 / key.mma_cluster().1,
    };
    if pixels != boxes {
        findings.push(format!("{pixels} UTMALDG.IM2COL, where {boxes} load a block's patches of a stage"));
    }
    let rows = if key.swap_ab { key.tile.columns } else { key.tile.rows };
    let (copies, meant) = (sass.count("LDGSTS"), if key.reading.is_picked() { 2 * (rows / 8) } else { 0 });
    if copies != meant {
        findings
            .push(format!("{copies} LDGSTS (cp.async), where {meant} copy a thread's part of a stage, whole or not"));
    }
    expect(findings, "ARRIVES.LDGSTSBAR", sass.count("ARRIVES.LDGSTSBAR"), key.reading.is_picked());
}

/// Copies, stores, barriers and registers, as the key says.
fn check_epilogue(findings: &mut Vec<String>, key: &Sm90Key, traffic: &Traffic, sass: &Sass) {
    let (along_rows, along_columns) = key.mma_cluster();
    let multicast = sass.count_where(|i| i.opcode.starts_with("UTMALDG") && i.opcode.contains("MULTICAST"));
    expect(findings, "UTMALDG.MULTICAST", multicast, along_rows * along_columns > 1);
    let stores = !traffic.outputs.is_empty();
    expect(findings, "UTMASTG", sass.count("UTMASTG"), stores);
    expect(findings, "UTMACMDFLUSH", sass.count("UTMACMDFLUSH"), stores);
    if stores {
        expect(findings, "FENCE.VIEW.ASYNC", sass.count("FENCE.VIEW.ASYNC"), true);
    }
    let halves = traffic.outputs.iter().any(|(_, element)| element.size() == 2);
    expect(findings, "STSM (stmatrix)", sass.count("STSM"), halves);
    let transposed = sass.count_where(|i| i.opcode.starts_with("STSM") && i.opcode.contains(".MT"));
    expect(findings, "STSM.MT88 (transposed)", transposed, halves && key.swap_ab);
    let exchanges = key.within() == Some(Within::Cluster);
    expect(findings, "STAS (st.async)", sass.count("STAS"), exchanges);
    expect(findings, "UBLKCP (cp.async.bulk)", sass.count("UBLKCP"), key.reading.divided() == Some(Divided::Depth));
    expect(findings, "SYNCS.PHASECHK (mbarrier waits)", sass.count("SYNCS.PHASECHK"), true);
    let sets = key.tile.registers().is_some();
    expect(findings, "USETMAXREG.DEALLOC", sass.count("USETMAXREG.DEALLOC"), sets);
    expect(findings, "USETMAXREG.TRY_ALLOC", sass.count("USETMAXREG.TRY_ALLOC"), sets);
    let (arrivals, waits) = (sass.count("UCGABAR_ARV"), sass.count("UCGABAR_WAIT"));
    expect(findings, "UCGABAR_ARV (cluster barriers)", arrivals, key.cluster.blocks() > 1);
    if arrivals != waits {
        findings.push(format!("{arrivals} cluster barriers are arrived at and {waits} waited for"));
    }
    expect(findings, "ACQBULK (griddepcontrol.wait)", sass.count("ACQBULK"), key.dependent_launch);
    expect(findings, "HMMA", sass.count("HMMA"), false);
}
