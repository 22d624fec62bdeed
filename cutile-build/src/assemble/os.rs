//! What the standard library has no call for.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// The jobserver of the cargo that started this process.
#[must_use]
pub fn inherited_jobserver() -> Option<jobserver::Client> {
    // SAFETY: the descriptors that the variable names are cargo's, open since this process started
    // and for nobody else's use in it: a build script owns no descriptor by number. The crate
    // checks that they are open before it takes them.
    unsafe { jobserver::Client::from_env() }
}

/// Gives the child a process group of its own, so that it can be killed with its children, and
/// has it killed when this process dies: a group of its own is out of reach of Ctrl-C.
pub(crate) fn own_group(command: &mut Command) {
    command.process_group(0);
    #[cfg(target_os = "linux")]
    {
        let parent = std::process::id();
        let die_with_parent = move || {
            // SAFETY: both are system calls without memory arguments, and async-signal-safe, as
            // what runs between fork and exec has to be.
            let orphaned = unsafe {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                    return Err(io::Error::last_os_error());
                }
                // The parent may have died before the call.
                libc::getppid().unsigned_abs() != parent
            };
            match orphaned {
                true => Err(io::Error::from_raw_os_error(libc::ESRCH)),
                false => Ok(()),
            }
        };
        // SAFETY: the closure allocates nothing and takes no lock.
        unsafe { command.pre_exec(die_with_parent) };
    }
}

/// Whether a child has ended. It is not waited for: its id stays its own, and that of its group.
pub(super) fn has_ended(child: &Child) -> io::Result<bool> {
    // SAFETY: all-zero is a value of the type, which is plain data.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the pointer is to a local of the type that is asked for.
    match unsafe { libc::waitid(libc::P_PID, child.id(), &mut info, options) } {
        0 => Ok(info.si_signo != 0),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Kills a child that is not waited for yet, with its group. Its id cannot belong to another group:
/// it is free again only after the wait.
pub(crate) fn kill_group(child: &mut Child) {
    if let Ok(group) = libc::pid_t::try_from(child.id()) {
        // SAFETY: a system call without memory arguments.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
    // Where the group is not made yet.
    let _ = child.kill();
}
