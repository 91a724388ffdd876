//! The command line: runs a kernel of a PTX file and prints the results.
//!
//! Only reading of arguments and printing belong here. What a program that uses the library would also want belongs
//! there.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use ptx_vm::{Address, Arch, Argument, Completion, Detector, Launch, Machine, Module, Options, explore};

const USAGE: &str = "\
usage: ptx-vm run FILE.ptx [options]
       ptx-vm list FILE.ptx

  --kernel NAME            the kernel; may be left out when there is only one
  --grid X[,Y[,Z]]         blocks (1)
  --block X[,Y[,Z]]        threads of a block (1)
  --cluster X[,Y[,Z]]      blocks of a cluster (1)
  --shared BYTES           dynamic shared memory (0)
  --cooperative            blocks may wait for each other at barriers of the grid
  --arg VALUE              an argument, in order; VALUE is
                             u32:N  s32:N  u64:N  f32:X  f64:X
                             hex:BYTES            the parameter's bytes
                             zeros:BYTES          a buffer of zeros
                             fresh:BYTES          a buffer that nothing has written
                             file:PATH            a buffer with a file's contents
  --print INDEX:TYPE[:N]   afterwards, the first N (16) values of the buffer of argument INDEX (from 0);
                           TYPE is u8 u32 s32 u64 f32 f64 f16
  --save INDEX:PATH        afterwards, that buffer's bytes to a file
  --arch sm_80|sm_90a      the machine (sm_80)
  --workers N              threads (one per core)
  --explore N              run N schedules, say how many found what, and the fewest random choices that the first
                           finding needs; exit code 3 if there is any
  --seed N                 of everything random (0)
  --choices N              random choices that are made (all)
  --completion eager|lazy|random
                           when asynchronous work takes effect (random)
  --no-detector            don't look for races; otherwise exit code 3 if there are any
  --same-values            races in which both write the same value are races, too
  --no-memory-checks       allow reads of bytes that were never written
  --statistics             count instructions, bytes and bank conflicts
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match command(&arguments) {
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

/// What to run and how.
struct Command {
    kernel: Option<String>,
    launch: Launch,
    options: Options,
    arguments: Vec<String>,
    prints: Vec<String>,
    saves: Vec<String>,
    explore: u32,
}

/// One argument, ready for the launch.
enum Ready {
    Bytes(Vec<u8>),
    Buffer(Address, u64),
}

fn command(arguments: &[String]) -> Result<(String, bool), String> {
    let (verb, file) = match arguments {
        [verb, file, ..] => (verb.as_str(), file),
        _ => return Err(USAGE.into()),
    };
    let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let module = Module::parse(&text).map_err(|e| format!("{file}: {e}"))?;
    match verb {
        "list" => Ok((list(&module), false)),
        "run" => run(&module, &read(&arguments[2..])?),
        _ => Err(USAGE.into()),
    }
}

fn list(module: &Module) -> String {
    let mut text = String::new();
    for kernel in module.kernels() {
        let _ = writeln!(text, "{} ({} bytes of static shared memory)", kernel.name(), kernel.static_shared_bytes());
        for (index, parameter) in kernel.parameters().iter().enumerate() {
            let _ = writeln!(text, "  {index}: {} bytes, aligned to {}", parameter.size, parameter.alignment);
        }
    }
    text
}

fn read(arguments: &[String]) -> Result<Command, String> {
    let mut command = Command {
        kernel: None,
        launch: Launch::new([1, 1, 1], [1, 1, 1]),
        // By default it finds as much as possible; a program that needs speed asks for less.
        options: Options::default().detector(Detector::On).completion(Completion::Random),
        arguments: vec![],
        prints: vec![],
        saves: vec![],
        explore: 0,
    };
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        let mut value = || rest.next().map(String::as_str).ok_or_else(|| format!("{option} needs a value\n\n{USAGE}"));
        match option.as_str() {
            "--kernel" => command.kernel = Some(value()?.into()),
            "--grid" => command.launch.grid = triple(value()?)?,
            "--block" => command.launch.block = triple(value()?)?,
            "--cluster" => command.launch.cluster = triple(value()?)?,
            "--shared" => command.launch.shared_bytes = number(value()?)?,
            "--arg" => command.arguments.push(value()?.into()),
            "--print" => command.prints.push(value()?.into()),
            "--save" => command.saves.push(value()?.into()),
            "--arch" => {
                command.options.arch = match value()? {
                    "sm_80" => Arch::Sm80,
                    "sm_90a" => Arch::Sm90a,
                    other => return Err(format!("--arch {other}: sm_80 and sm_90a are known")),
                }
            }
            "--workers" => command.options.workers = number(value()?)?,
            "--seed" => command.options.seed = number(value()?)?,
            "--completion" => {
                command.options.completion = match value()? {
                    "eager" => Completion::Eager,
                    "lazy" => Completion::Lazy,
                    "random" => Completion::Random,
                    other => return Err(format!("--completion {other}: eager, lazy and random are known")),
                }
            }
            "--cooperative" => command.launch = command.launch.cooperative(true),
            "--explore" => command.explore = number(value()?)?,
            "--choices" => command.options.random_choices = number(value()?)?,
            "--detector" => command.options.detector = Detector::On,
            "--no-detector" => command.options.detector = Detector::Off,
            "--same-values" => command.options.same_values = true,
            "--no-memory-checks" => command.options.memory_checks = false,
            "--statistics" => command.options.statistics = true,
            _ => return Err(format!("{option} is not an option\n\n{USAGE}")),
        }
    }
    Ok(command)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number that fits here"))
}

fn triple(text: &str) -> Result<[u32; 3], String> {
    let mut result = [1; 3];
    let parts: Vec<_> = text.split(',').collect();
    if parts.len() > 3 {
        return Err(format!("`{text}` has more than three dimensions"));
    }
    for (value, part) in result.iter_mut().zip(parts) {
        *value = number(part)?;
    }
    Ok(result)
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
        _ => return Err(format!("--arg {text}: `{kind}` is not a kind of argument\n\n{USAGE}")),
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
    let machine = Machine::new(command.options.clone());
    let ready = prepare_all(&machine, command)?;
    let arguments = passed(&ready);
    let start = std::time::Instant::now();
    let report = machine.launch(module, &name, &command.launch, &arguments).map_err(|e| {
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
    prepare_all(&Machine::new(command.options.clone()), command)?;
    let exploration = explore(command.explore, &command.options, |options| {
        let machine = Machine::new(options.clone());
        let ready = match prepare_all(&machine, command) {
            Ok(ready) => ready,
            Err(message) => return vec![message],
        };
        let (races, error) = match machine.launch(module, name, &command.launch, &passed(&ready)) {
            Ok(report) => (report.races, None),
            Err(failure) => (failure.races, Some(failure.error.to_string())),
        };
        races.iter().map(ToString::to_string).chain(error).collect()
    });
    let mut text = format!("{name}: {} schedules\n", exploration.runs);
    for (found, runs) in &exploration.found {
        let _ = writeln!(text, "found by {runs} of {}: {found}", exploration.runs);
    }
    if let Some((_, schedule)) = exploration.first {
        let completion = format!("{:?}", schedule.completion).to_lowercase();
        let _ = write!(text, "the first again: --workers 1 --completion {completion} --seed {}", schedule.seed);
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
