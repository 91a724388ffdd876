//! Processes that are ended together with everything that they started.

use std::process::{Child, Command};

/// Puts the process, and everything that it starts, in its own group.
pub(crate) fn in_a_group(command: &mut Command) -> &mut Command {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    command
}

/// Ends a child that was started [`in_a_group`], and its children.
pub(crate) fn end(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // It may have ended by itself.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Ends this process, which was started [`in_a_group`], and its children.
pub(crate) fn end_own_group() {
    #[cfg(unix)]
    let _ = rustix::process::kill_current_process_group(rustix::process::Signal::KILL);
    std::process::exit(1);
}
