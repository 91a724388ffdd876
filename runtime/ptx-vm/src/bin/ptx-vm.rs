//! The command line: runs a kernel of a PTX file and prints the results.
//!
//! Only reading of arguments and printing belong here. Code that a program with the library would also want belongs
//! there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use ptx_vm::{Address, Arch, Argument, Completion, Detector, Launch, Machine, Module, Options, explore};

/// Executes PTX on the CPU, warp by warp, and finds its races.
#[derive(Parser)]
#[command(name = "ptx-vm", version, max_term_width = 100, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Runs a kernel and prints what it wrote, and its races; the status is 3 if there are any.
    Run(Box<Command>),
    /// Lists the kernels of a file, with their parameters, and those that have an instruction that is not supported.
    List {
        /// The PTX.
        #[arg(value_name = "FILE.ptx")]
        file: PathBuf,
    },
}

/// The kernel to run, and the way to run it.
#[derive(Args)]
struct Command {
    /// The PTX.
    #[arg(value_name = "FILE.ptx")]
    file: PathBuf,
    /// The kernel; may be left out when there is only one.
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Blocks.
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "1", value_parser = triple)]
    grid: Triple,
    /// Threads of a block.
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "1", value_parser = triple)]
    block: Triple,
    /// Blocks of a cluster.
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "1", value_parser = triple)]
    cluster: Triple,
    /// A cluster may have more than 8 blocks.
    #[arg(long)]
    non_portable_cluster: bool,
    /// Bytes of dynamic shared memory.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    shared: u32,
    /// Blocks may wait for each other at barriers of the grid.
    #[arg(long)]
    cooperative: bool,
    /// An argument, in order: `u32:N`, `s32:N`, `u64:N`, `f32:X`, `f64:X`; `hex:BYTES` (the parameter's bytes),
    /// `zeros:BYTES` (a buffer of zeros), `fresh:BYTES` (a buffer that nothing has written), `file:PATH` (a buffer with
    /// a file's contents).
    #[arg(long = "arg", value_name = "VALUE")]
    arguments: Vec<String>,
    /// Afterwards, the first N (16) values of the buffer of argument INDEX (from 0); TYPE is u8 u32 s32 u64 f32 f64 f16.
    /// With --explore: which values there were, after how many schedules.
    #[arg(long = "print", value_name = "INDEX:TYPE[:N]")]
    prints: Vec<String>,
    /// Afterwards, that buffer's bytes to a file.
    #[arg(long = "save", value_name = "INDEX:PATH", conflicts_with = "explore")]
    saves: Vec<String>,
    /// The machine.
    #[arg(long, default_value = "sm_80", value_parser = machines())]
    arch: Arch,
    /// Threads; one per core if it is not said. With weak memory there is one.
    #[arg(long, value_name = "N", conflicts_with = "explore")]
    workers: Option<usize>,
    /// Runs N schedules, says how many found what, and the fewest random choices that the first finding needs; the status
    /// is 3 if there is any.
    #[arg(long, value_name = "N", default_value_t = 0)]
    explore: u32,
    /// The seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Random choices that are made; all if it is not said.
    #[arg(long, value_name = "N", conflicts_with = "explore")]
    choices: Option<u64>,
    /// When asynchronous work takes effect.
    #[arg(long, default_value = "random", conflicts_with = "explore")]
    completion: Completions,
    /// Strong reads of global memory see the newest value, not an older one that the memory model allows, too.
    #[arg(long, conflicts_with = "explore")]
    no_weak_memory: bool,
    /// Doesn't look for races.
    #[arg(long, conflicts_with = "explore")]
    no_detector: bool,
    /// Races in which both write the same value are races, too.
    #[arg(long)]
    same_values: bool,
    /// Allows reads of bytes that were never written.
    #[arg(long)]
    no_memory_checks: bool,
    /// Counts instructions, bytes and bank conflicts.
    #[arg(long, conflicts_with = "explore")]
    statistics: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Completions {
    Eager,
    Lazy,
    Random,
}

/// Up to three extents.
#[derive(Clone, Copy)]
struct Triple([u32; 3]);

impl Command {
    fn launch(&self) -> Launch {
        let mut launch = Launch::new(self.grid.0, self.block.0).cooperative(self.cooperative);
        launch.cluster = self.cluster.0;
        launch.non_portable_cluster = self.non_portable_cluster;
        launch.shared_bytes = self.shared;
        launch
    }

    /// By default it finds as much as possible; a program that needs speed asks for less.
    fn options(&self) -> Options {
        let mut options = Options::default()
            .detector(if self.no_detector { Detector::Off } else { Detector::On })
            .completion(match self.completion {
                Completions::Eager => Completion::Eager,
                Completions::Lazy => Completion::Lazy,
                Completions::Random => Completion::Random,
            })
            .seed(self.seed);
        options.arch = self.arch;
        if let Some(workers) = self.workers {
            options.workers = workers;
        }
        if let Some(choices) = self.choices {
            options.random_choices = choices;
        }
        // Exploring mixes schedules with and without it.
        options.weak_memory = !self.no_weak_memory && self.explore == 0;
        options.same_values = self.same_values;
        options.memory_checks = !self.no_memory_checks;
        options.statistics = self.statistics;
        options
    }
}

fn main() -> ExitCode {
    let done = match CommandLine::parse().verb {
        Verb::List { file } => module(&file).map(|module| (list(&module), false)),
        Verb::Run(command) => module(&command.file).and_then(|module| run(&module, &command)),
    };
    match done {
        Ok((text, races)) => {
            let _ = std::io::stdout().write_all(text.as_bytes());
            if races { ExitCode::from(3) } else { ExitCode::SUCCESS }
        }
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "{message}");
            ExitCode::FAILURE
        }
    }
}

fn module(file: &Path) -> Result<Module, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    Module::parse(&text).map_err(|e| format!("{}: {e}", file.display()))
}

/// One argument, ready for the launch.
enum Ready {
    Bytes(Vec<u8>),
    Buffer(Address, u64),
}

fn list(module: &Module) -> String {
    let mut text = String::new();
    for kernel in module.kernels() {
        let _ = writeln!(text, "{} ({} bytes of static shared memory)", kernel.name(), kernel.static_shared_bytes());
        for (index, parameter) in kernel.parameters().iter().enumerate() {
            let _ = writeln!(text, "  {index}: {} bytes, aligned to {}", parameter.size, parameter.alignment);
        }
    }
    for (name, reason) in module.refused() {
        let _ = writeln!(text, "{name} can't be run: {reason}");
    }
    text
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number that fits here"))
}

/// Reads the name of a machine.
fn machines() -> impl TypedValueParser<Value = Arch> {
    PossibleValuesParser::new(Arch::ALL.map(Arch::name)).try_map(|name| name.parse::<Arch>())
}

fn triple(text: &str) -> Result<Triple, String> {
    let mut result = [1; 3];
    let parts: Vec<_> = text.split(',').collect();
    if parts.len() > 3 {
        return Err(format!("`{text}` has more than three dimensions"));
    }
    for (value, part) in result.iter_mut().zip(parts) {
        *value = number(part)?;
    }
    Ok(Triple(result))
}

fn prepare(machine: &Machine, index: usize, text: &str) -> Result<Ready, String> {
    let (kind, value) = text.split_once(':').ok_or_else(|| format!("--arg {text}: `type:value` is expected"))?;
    let buffer = |bytes: u64, contents: Option<&[u8]>| {
        let address = machine.allocate(bytes, &format!("argument {index}")).map_err(|e| e.to_string())?;
        if let Some(contents) = contents {
            machine.write(address, contents).map_err(|e| e.to_string())?;
        }
        Ok(Ready::Buffer(address, bytes))
    };
    Ok(Ready::Bytes(match kind {
        "u32" => number::<u32>(value)?.to_le_bytes().into(),
        "s32" => number::<i32>(value)?.to_le_bytes().into(),
        "u64" => number::<u64>(value)?.to_le_bytes().into(),
        "f32" => number::<f32>(value)?.to_le_bytes().into(),
        "f64" => number::<f64>(value)?.to_le_bytes().into(),
        "hex" => hex(value)?,
        "zeros" => {
            let bytes: u64 = number(value)?;
            let ready = buffer(bytes, None)?;
            if let Ready::Buffer(address, _) = ready {
                machine.fill(address, bytes, 0).map_err(|e| e.to_string())?;
            }
            return Ok(ready);
        }
        "fresh" => return buffer(number(value)?, None),
        "file" => {
            let contents = std::fs::read(value).map_err(|e| format!("{value}: {e}"))?;
            return buffer(contents.len() as u64, Some(&contents));
        }
        _ => return Err(format!("--arg {text}: `{kind}` is not a kind of argument; `ptx-vm run --help` lists them")),
    }))
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let bad = || format!("`{text}` is not an even number of hexadecimal digits");
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return Err(bad());
    }
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).map_err(|_| bad())).collect()
}

fn run(module: &Module, command: &Command) -> Result<(String, bool), String> {
    let name = match &command.kernel {
        Some(name) => name.clone(),
        None => {
            let mut kernels = module.kernels();
            match (kernels.next(), kernels.next()) {
                (Some(only), None) => only.name().to_owned(),
                _ => return Err("the file has not exactly one kernel: name one with --kernel".into()),
            }
        }
    };
    if command.explore > 0 {
        return explored(module, &name, command);
    }
    let machine = Machine::new(command.options());
    let ready = prepare_all(&machine, command)?;
    let arguments = passed(&ready);
    let start = std::time::Instant::now();
    let report = machine.launch(module, &name, &command.launch(), &arguments).map_err(|e| {
        let _ = std::io::stdout().write_all(e.printed.as_bytes());
        e.to_string()
    })?;
    let mut text = String::new();
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    text.push_str(&report.printed);
    let _ = writeln!(text, "{name}: {} warp instructions, {milliseconds:.3} ms", report.statistics.warp_instructions);
    for print in &command.prints {
        text.push_str(&printed(&machine, &ready, print)?);
    }
    for save in &command.saves {
        let (index, path) = save.split_once(':').ok_or_else(|| format!("--save {save}: `index:path` is expected"))?;
        let bytes = contents(&machine, &ready, index)?;
        std::fs::write(path, bytes).map_err(|e| format!("{path}: {e}"))?;
    }
    if !report.statistics.by_opcode.is_empty() {
        let s = &report.statistics;
        let mut counts: Vec<_> = s.by_opcode.iter().collect();
        counts.sort_by_key(|c| std::cmp::Reverse(c.1));
        for (opcode, count) in counts {
            let _ = writeln!(text, "{count:>12}  {opcode}");
        }
        for (what, bytes) in [("read", &s.bytes_read), ("written", &s.bytes_written)] {
            for (space, count) in bytes {
                let _ = writeln!(text, "{count:>12}  bytes of {space} memory {what}");
            }
        }
        let _ = writeln!(text, "{:>12}  bank conflicts", s.bank_conflicts);
    }
    for race in &report.races {
        let _ = writeln!(text, "{race}");
    }
    Ok((text, !report.races.is_empty()))
}

fn prepare_all(machine: &Machine, command: &Command) -> Result<Vec<Ready>, String> {
    command.arguments.iter().enumerate().map(|(index, text)| prepare(machine, index, text)).collect()
}

fn passed(ready: &[Ready]) -> Vec<Argument<'_>> {
    ready
        .iter()
        .map(|r| match r {
            Ready::Bytes(bytes) => Argument::Bytes(bytes),
            Ready::Buffer(address, _) => Argument::Address(*address),
        })
        .collect()
}

/// Runs many schedules, each on its own machine.
fn explored(module: &Module, name: &str, command: &Command) -> Result<(String, bool), String> {
    let machine = Machine::new(command.options());
    let ready = prepare_all(&machine, command)?;
    for print in &command.prints {
        printed(&machine, &ready, print)?;
    }
    let mut values = BTreeMap::<String, u32>::new();
    let mut left = command.explore;
    let exploration = explore(command.explore, &command.options(), |options| {
        let machine = Machine::new(options.clone());
        let ready = match prepare_all(&machine, command) {
            Ok(ready) => ready,
            Err(message) => return vec![message],
        };
        let (races, error) = match machine.launch(module, name, &command.launch(), &passed(&ready)) {
            Ok(report) => {
                // Schedules beyond those that were asked for make the first finding's smaller.
                for print in command.prints.iter().filter(|_| left > 0) {
                    let text = printed(&machine, &ready, print).unwrap_or_else(|error| error + "\n");
                    *values.entry(text).or_default() += 1;
                }
                (report.races, None)
            }
            Err(failure) => (failure.races, Some(failure.error.to_string())),
        };
        left = left.saturating_sub(1);
        races.iter().map(ToString::to_string).chain(error).collect()
    });
    let mut text = format!("{name}: {} schedules\n", exploration.runs);
    for (values, runs) in &values {
        let _ = write!(text, "after {runs} of {}: {values}", exploration.runs);
    }
    for (found, runs) in &exploration.found {
        let _ = writeln!(text, "found by {runs} of {}: {found}", exploration.runs);
    }
    if let Some((_, schedule)) = exploration.first {
        let completion = format!("{:?}", schedule.completion).to_lowercase();
        let _ = write!(text, "the first again: --workers 1 --completion {completion} --seed {}", schedule.seed);
        if !schedule.weak_memory {
            text.push_str(" --no-weak-memory");
        }
        if schedule.random_choices != u64::MAX {
            let _ = write!(text, " --choices {}", schedule.random_choices);
        }
        text.push('\n');
    }
    Ok((text, !exploration.found.is_empty()))
}

fn contents(machine: &Machine, ready: &[Ready], index: &str) -> Result<Vec<u8>, String> {
    match ready.get(number::<usize>(index)?) {
        Some(Ready::Buffer(address, bytes)) => {
            let mut contents = vec![0; *bytes as usize];
            machine.read(*address, &mut contents).map_err(|e| e.to_string())?;
            Ok(contents)
        }
        _ => Err(format!("argument {index} is not a buffer")),
    }
}

fn printed(machine: &Machine, ready: &[Ready], print: &str) -> Result<String, String> {
    let parts: Vec<_> = print.split(':').collect();
    let (index, kind, count) = match parts.as_slice() {
        [index, kind] => (index, *kind, 16),
        [index, kind, count] => (index, *kind, number(count)?),
        _ => return Err(format!("--print {print}: `index:type[:count]` is expected")),
    };
    let bytes = contents(machine, ready, index)?;
    fn show<const N: usize, T: std::fmt::Display>(bytes: &[u8], count: usize, read: fn([u8; N]) -> T) -> String {
        let values = bytes.chunks_exact(N).take(count).filter_map(|c| c.try_into().ok());
        values.map(|c| read(c).to_string()).collect::<Vec<_>>().join(" ")
    }
    let values = match kind {
        "u8" => show(&bytes, count, u8::from_le_bytes),
        "u32" => show(&bytes, count, u32::from_le_bytes),
        "s32" => show(&bytes, count, i32::from_le_bytes),
        "u64" => show(&bytes, count, u64::from_le_bytes),
        "f32" => show(&bytes, count, f32::from_le_bytes),
        "f64" => show(&bytes, count, f64::from_le_bytes),
        "f16" => show(&bytes, count, |b| ptx_vm::numerics::convert::f16_to_f32(u16::from_le_bytes(b))),
        _ => return Err(format!("--print {print}: `{kind}` is not a type that can be printed")),
    };
    Ok(format!("argument {index}: {values}\n"))
}
