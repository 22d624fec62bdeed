//! Work of streams. All streams share one queue, so that every order that a program may rely on
//! holds. Work is done at once, in the thread that submits it, except host functions: those run
//! in a thread of the driver, as the real one's do, and what comes after one waits in the queue.

use crate::{Checked, Handle, errors, lock, memory, record};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// `CUhostFn`
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);
/// `CUstreamCallback`
pub(crate) type Callback = unsafe extern "C" fn(Handle, u32, *mut c_void);

/// One piece of work; also a node of a graph.
#[derive(Clone)]
pub(crate) enum Work {
    /// A position in the queue: an event.
    Mark,
    Launch {
        target: &'static str,
        function: Arc<str>,
    },
    Copy {
        to: usize,
        from: usize,
        bytes: usize,
    },
    Fill {
        at: usize,
        pattern: u32,
        width: usize,
        count: usize,
    },
    Free {
        at: usize,
    },
    Host {
        function: HostFunction,
        data: usize,
    },
    Callback {
        function: Callback,
        stream: Handle,
        data: usize,
    },
}

struct Queue {
    pending: VecDeque<Work>,
    submitted: u64,
    finished: u64,
    has_worker: bool,
}

static QUEUE: Mutex<Queue> =
    Mutex::new(Queue { pending: VecDeque::new(), submitted: 0, finished: 0, has_worker: false });
static ARRIVED: Condvar = Condvar::new();
static FINISHED: Condvar = Condvar::new();

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Submits work; the answer is its position, for [`wait_for`] and [`is_finished`].
pub(crate) fn submit(work: Work) -> u64 {
    let mut queue = lock(&QUEUE);
    queue.submitted += 1;
    let position = queue.submitted;
    let idle = queue.finished + 1 == position;
    if idle && !matches!(work, Work::Host { .. } | Work::Callback { .. }) {
        // Under the lock: nothing submitted by another thread can overtake it.
        run(work);
        queue.finished = position;
        return position;
    }
    queue.pending.push_back(work);
    if !queue.has_worker {
        queue.has_worker = true;
        std::thread::spawn(serve);
    }
    ARRIVED.notify_one();
    position
}

fn serve() {
    IS_WORKER.set(true);
    let mut queue = lock(&QUEUE);
    loop {
        match queue.pending.pop_front() {
            Some(work) => {
                drop(queue);
                run(work);
                queue = lock(&QUEUE);
                queue.finished += 1;
                FINISHED.notify_all();
            }
            None => queue = ARRIVED.wait(queue).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// Waits for all work up to a position. A host function may not wait, here as on a real driver.
pub(crate) fn wait_for(position: u64) -> Checked<()> {
    let mut queue = lock(&QUEUE);
    if queue.finished < position && IS_WORKER.get() {
        return Err(errors::NOT_PERMITTED);
    }
    while queue.finished < position {
        queue = FINISHED.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
    Ok(())
}

pub(crate) fn wait_for_all() -> Checked<()> {
    let position = lock(&QUEUE).submitted;
    wait_for(position)
}

pub(crate) fn is_finished(position: u64) -> bool {
    lock(&QUEUE).finished >= position
}

pub(crate) fn all_finished() -> bool {
    let queue = lock(&QUEUE);
    queue.finished == queue.submitted
}

fn run(work: Work) {
    match work {
        Work::Mark => {}
        Work::Launch { target, function } => record::launched(target, &function),
        Work::Copy { to, from, bytes } => memory::copy(to, from, bytes),
        Work::Fill { at, pattern, width, count } => memory::fill(at, pattern, width, count),
        Work::Free { at } => memory::free_now(at),
        // SAFETY: the program gave the function and its data, to be called once in order.
        Work::Host { function, data } => unsafe { function(data as *mut c_void) },
        // SAFETY: likewise.
        Work::Callback { function, stream, data } => unsafe {
            function(stream, errors::SUCCESS, data as *mut c_void);
        },
    }
}
