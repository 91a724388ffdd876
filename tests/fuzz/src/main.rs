//! Writes the readers' seeds into folders: `epilogue-fuzz FOLDER` makes `FOLDER/ptx/0`, `FOLDER/ptx/1` and so on, with
//! which a coverage-guided fuzzer begins.

#![allow(clippy::print_stderr, reason = "a command")]

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use epilogue_fuzz::Target;

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let (Some(folder), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: epilogue-fuzz FOLDER");
        return ExitCode::from(2);
    };
    match write(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the seeds can't be written to {}: {error}", Path::new(&folder).display());
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path) -> io::Result<()> {
    for target in Target::ALL {
        let own = folder.join(target.name());
        fs::create_dir_all(&own)?;
        for (at, seed) in target.seeds().into_iter().enumerate() {
            fs::write(own.join(at.to_string()), seed)?;
        }
    }
    Ok(())
}
