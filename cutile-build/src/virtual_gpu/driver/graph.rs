//! Graphs: work captured from streams, instantiated, and replayed.

use crate::table::Table;
use crate::work::Work;
use crate::{CUresult, Checked, Handle, answer, errors, lock, put, stream};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub(crate) type CaptureId = u64;

struct Capture {
    /// The stream that it was begun in, and must be ended in.
    origin: Handle,
    nodes: Vec<Work>,
    is_valid: bool,
}

struct Captures {
    begun: CaptureId,
    open: BTreeMap<CaptureId, Capture>,
}

static CAPTURES: Mutex<Captures> = Mutex::new(Captures { begun: 0, open: BTreeMap::new() });
static GRAPHS: Table<Arc<[Work]>> = Table::new();
static EXECUTABLES: Table<Arc<[Work]>> = Table::new();

pub(crate) fn begin(origin: Handle) -> CaptureId {
    let mut captures = lock(&CAPTURES);
    captures.begun += 1;
    let id = captures.begun;
    captures.open.insert(id, Capture { origin, nodes: Vec::new(), is_valid: true });
    id
}

pub(crate) fn add(capture: CaptureId, work: Work) -> Checked<()> {
    match lock(&CAPTURES).open.get_mut(&capture) {
        Some(capture) if capture.is_valid => {
            capture.nodes.push(work);
            Ok(())
        }
        _ => Err(errors::STREAM_CAPTURE_INVALIDATED),
    }
}

pub(crate) fn invalidate(capture: CaptureId) {
    if let Some(capture) = lock(&CAPTURES).open.get_mut(&capture) {
        capture.is_valid = false;
    }
}

pub(crate) fn is_open(capture: CaptureId) -> bool {
    lock(&CAPTURES).open.contains_key(&capture)
}

/// `CUstreamCaptureStatus`: 1 active, 2 invalidated.
pub(crate) fn status(capture: CaptureId) -> u32 {
    let is_valid = lock(&CAPTURES).open.get(&capture).is_some_and(|capture| capture.is_valid);
    if is_valid { 1 } else { 2 }
}

pub(crate) fn end(id: CaptureId, ended_in: Handle) -> Checked<Handle> {
    let mut captures = lock(&CAPTURES);
    if captures.open.get(&id).is_some_and(|capture| capture.origin != ended_in) {
        return Err(errors::STREAM_CAPTURE_UNMATCHED);
    }
    let capture = captures.open.remove(&id);
    drop(captures);
    stream::leave(id);
    match capture {
        Some(capture) if capture.is_valid => Ok(GRAPHS.insert(capture.nodes.into())),
        _ => Err(errors::STREAM_CAPTURE_INVALIDATED),
    }
}

/// # Safety
/// As the CUDA driver API: `executable` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphInstantiateWithFlags(
    executable: *mut Handle,
    graph: Handle,
    _flags: u64,
) -> CUresult {
    answer(GRAPHS.with(graph, |nodes| nodes.clone()).and_then(|nodes| {
        if executable.is_null() {
            return Err(errors::INVALID_VALUE);
        }
        // SAFETY: forwarded from this function's contract.
        unsafe { put(executable, EXECUTABLES.insert(nodes)) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphUpload(executable: Handle, stream: Handle) -> CUresult {
    answer(EXECUTABLES.with(executable, |_| ()).and(stream::device_of(stream)).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(executable: Handle, stream: Handle) -> CUresult {
    answer(EXECUTABLES.with(executable, |nodes| nodes.clone()).and_then(|nodes| {
        stream::device_of(stream)?;
        nodes.iter().try_for_each(|node| stream::submit(stream, node.clone()).map(|_| ()))
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphExecDestroy(executable: Handle) -> CUresult {
    answer(EXECUTABLES.remove(executable).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(graph: Handle) -> CUresult {
    answer(GRAPHS.remove(graph).map(|_| ()))
}
