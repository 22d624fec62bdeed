//! Streams and events.

use crate::graph::{self, CaptureId};
use crate::table::Table;
use crate::work::{self, Callback, HostFunction, Work};
use crate::{CUresult, Checked, Handle, answer, context, device, errors, put};
use std::ffi::{c_int, c_void};
use std::time::Instant;

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`; like 0 they are streams of the current context.
const LAST_BUILT_IN: Handle = 2;
const EVENT_DISABLE_TIMING: u32 = 2;

struct Stream {
    device: c_int,
    flags: u32,
    priority: c_int,
    last: u64,
    capture: Option<CaptureId>,
}

struct Event {
    timed: bool,
    recorded: Option<(u64, Instant)>,
    /// The capture that it was last recorded in.
    capture: Option<CaptureId>,
}

static STREAMS: Table<Stream> = Table::new();
static EVENTS: Table<Event> = Table::new();

fn is_built_in(stream: Handle) -> bool {
    stream <= LAST_BUILT_IN
}

/// The device of a stream.
pub(crate) fn device_of(stream: Handle) -> Checked<c_int> {
    device::all()?;
    if is_built_in(stream) {
        return context::current_device();
    }
    STREAMS.with(stream, |stream| stream.device)
}

/// The capture that a stream takes part in.
pub(crate) fn capture_of(stream: Handle) -> Checked<Option<CaptureId>> {
    device_of(stream)?;
    if is_built_in(stream) {
        return Ok(None);
    }
    STREAMS.with(stream, |stream| stream.capture)
}

/// Ends a capture in all streams that joined it.
pub(crate) fn leave(capture: CaptureId) {
    STREAMS.each(|stream| {
        stream.capture.take_if(|of| *of == capture);
    });
}

/// Submits to a stream, or adds to the graph being captured from it.
pub(crate) fn submit(stream: Handle, work: Work) -> Checked<Option<u64>> {
    if let Some(capture) = capture_of(stream)? {
        return graph::add(capture, work).map(|()| None);
    }
    let position = work::submit(work);
    if !is_built_in(stream) {
        STREAMS.with(stream, |stream| stream.last = stream.last.max(position))?;
    }
    Ok(Some(position))
}

/// Submits, and waits unless it was captured.
pub(crate) fn submit_and_wait(stream: Handle, work: Work) -> Checked<()> {
    submit(stream, work)?.map_or(Ok(()), work::wait_for)
}

/// # Safety
/// As the CUDA driver API: `stream` is null or valid for writing.
unsafe fn create(stream: *mut Handle, flags: u32, priority: c_int) -> Checked<()> {
    let device = context::current_device()?;
    if stream.is_null() || flags > 1 {
        return Err(errors::INVALID_VALUE);
    }
    let priority = priority.clamp(-5, 0);
    let handle = STREAMS.insert(Stream { device, flags, priority, last: 0, capture: None });
    // SAFETY: forwarded from this function's contract.
    unsafe { put(stream, handle) }
}

/// # Safety
/// As the CUDA driver API: `stream` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut Handle, flags: u32) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(unsafe { create(stream, flags, 0) })
}

/// # Safety
/// As the CUDA driver API: `stream` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreateWithPriority(
    stream: *mut Handle,
    flags: u32,
    priority: c_int,
) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(unsafe { create(stream, flags, priority) })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: Handle) -> CUresult {
    answer(STREAMS.remove(stream).map(|stream| {
        if let Some(capture) = stream.capture {
            graph::invalidate(capture);
        }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: Handle) -> CUresult {
    answer(capture_of(stream).and_then(|capture| {
        if let Some(capture) = capture {
            graph::invalidate(capture);
            return Err(errors::STREAM_CAPTURE_UNSUPPORTED);
        }
        if is_built_in(stream) {
            return work::wait_for_all();
        }
        work::wait_for(STREAMS.with(stream, |stream| stream.last)?)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(stream: Handle) -> CUresult {
    answer(capture_of(stream).and_then(|capture| {
        if let Some(capture) = capture {
            graph::invalidate(capture);
            return Err(errors::STREAM_CAPTURE_UNSUPPORTED);
        }
        let finished = if is_built_in(stream) {
            work::all_finished()
        } else {
            work::is_finished(STREAMS.with(stream, |stream| stream.last)?)
        };
        if finished { Ok(()) } else { Err(errors::NOT_READY) }
    }))
}

/// # Safety
/// As the CUDA driver API: `context` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetCtx(stream: Handle, context: *mut Handle) -> CUresult {
    let handle = device_of(stream).and_then(context::primary);
    // SAFETY: forwarded from this function's contract.
    answer(handle.and_then(|handle| unsafe { put(context, handle) }))
}

/// # Safety
/// As the CUDA driver API: `priority` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetPriority(stream: Handle, priority: *mut c_int) -> CUresult {
    let found = device_of(stream).and_then(|_| match is_built_in(stream) {
        true => Ok(0),
        false => STREAMS.with(stream, |stream| stream.priority),
    });
    // SAFETY: forwarded from this function's contract.
    answer(found.and_then(|found| unsafe { put(priority, found) }))
}

/// # Safety
/// As the CUDA driver API: `flags` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetFlags(stream: Handle, flags: *mut u32) -> CUresult {
    let found = device_of(stream).and_then(|_| match is_built_in(stream) {
        true => Ok(0),
        false => STREAMS.with(stream, |stream| stream.flags),
    });
    // SAFETY: forwarded from this function's contract.
    answer(found.and_then(|found| unsafe { put(flags, found) }))
}

/// All streams share one queue, so there is nothing to wait for; a stream that waits for an
/// event of a capture joins that capture.
#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: u32) -> CUresult {
    answer(capture_of(stream).and_then(|own| {
        let other = EVENTS.with(event, |event| event.capture)?;
        match (own, other) {
            (_, None) => Ok(()),
            (Some(own), Some(other)) if own == other => Ok(()),
            (Some(own), Some(_)) => {
                graph::invalidate(own);
                Err(errors::STREAM_CAPTURE_MERGE)
            }
            (None, Some(_)) if is_built_in(stream) => Err(errors::STREAM_CAPTURE_UNSUPPORTED),
            (None, Some(other)) if !graph::is_open(other) => Err(errors::CAPTURED_EVENT),
            (None, Some(other)) => STREAMS.with(stream, |stream| stream.capture = Some(other)),
        }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(stream: Handle, mode: u32) -> CUresult {
    answer(capture_of(stream).and_then(|capture| match capture {
        _ if mode > 2 => Err(errors::INVALID_VALUE),
        _ if is_built_in(stream) => Err(errors::STREAM_CAPTURE_UNSUPPORTED),
        Some(_) => Err(errors::ILLEGAL_STATE),
        None => STREAMS.with(stream, |of| of.capture = Some(graph::begin(stream))),
    }))
}

/// # Safety
/// As the CUDA driver API: `status` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamIsCapturing(stream: Handle, status: *mut u32) -> CUresult {
    let found = capture_of(stream).map(|capture| capture.map_or(0, graph::status));
    // SAFETY: forwarded from this function's contract.
    answer(found.and_then(|found| unsafe { put(status, found) }))
}

/// # Safety
/// As the CUDA driver API: `graph` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) -> CUresult {
    answer(capture_of(stream).and_then(|capture| {
        let ended = graph::end(capture.ok_or(errors::ILLEGAL_STATE)?, stream);
        // SAFETY: forwarded from this function's contract.
        let written = unsafe { put(graph, ended.unwrap_or(0)) };
        ended.and(written)
    }))
}

/// # Safety
/// As the CUDA driver API: `function` may be called with `data`, from another thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchHostFunc(
    stream: Handle,
    function: Option<HostFunction>,
    data: *mut c_void,
) -> CUresult {
    answer(function.ok_or(errors::INVALID_VALUE).and_then(|function| {
        let data = data.expose_provenance();
        submit(stream, Work::Host { function, data }).map(|_| ())
    }))
}

/// # Safety
/// As [`cuLaunchHostFunc`]; how a host thread waits makes no difference here.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchHostFunc_v2(
    stream: Handle,
    function: Option<HostFunction>,
    data: *mut c_void,
    sync_mode: u32,
) -> CUresult {
    if sync_mode > 1 {
        return errors::INVALID_VALUE;
    }
    // SAFETY: forwarded from this function's contract.
    unsafe { cuLaunchHostFunc(stream, function, data) }
}

/// # Safety
/// As the CUDA driver API: `function` may be called with `data`, from another thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamAddCallback(
    stream: Handle,
    function: Option<Callback>,
    data: *mut c_void,
    flags: u32,
) -> CUresult {
    answer(capture_of(stream).and_then(|capture| match function {
        _ if capture.is_some() => Err(errors::STREAM_CAPTURE_UNSUPPORTED),
        Some(function) if flags == 0 => {
            let data = data.expose_provenance();
            submit(stream, Work::Callback { function, stream, data }).map(|_| ())
        }
        _ => Err(errors::INVALID_VALUE),
    }))
}

/// # Safety
/// As the CUDA driver API: `event` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut Handle, flags: u32) -> CUresult {
    answer(context::current_device().and_then(|_| {
        if event.is_null() || flags > 7 {
            return Err(errors::INVALID_VALUE);
        }
        let timed = flags & EVENT_DISABLE_TIMING == 0;
        let handle = EVENTS.insert(Event { timed, recorded: None, capture: None });
        // SAFETY: forwarded from this function's contract.
        unsafe { put(event, handle) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: Handle) -> CUresult {
    answer(EVENTS.remove(event).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> CUresult {
    answer(capture_of(stream).and_then(|capture| {
        EVENTS.with(event, |_| ())?;
        let position = submit(stream, Work::Mark)?;
        EVENTS.with(event, |event| {
            event.capture = capture;
            event.recorded = position.map(|position| (position, Instant::now()));
        })
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecordWithFlags(event: Handle, stream: Handle, _flags: u32) -> CUresult {
    cuEventRecord(event, stream)
}

/// Where an event was recorded; one that never was counts as complete.
fn recorded(event: Handle) -> Checked<Option<(u64, Instant)>> {
    device::all()?;
    EVENTS.with(event, |event| match event.capture {
        Some(_) => Err(errors::CAPTURED_EVENT),
        None => Ok(event.recorded),
    })?
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: Handle) -> CUresult {
    answer(recorded(event).and_then(|recorded| match recorded {
        Some((position, _)) if !work::is_finished(position) => Err(errors::NOT_READY),
        _ => Ok(()),
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(event: Handle) -> CUresult {
    answer(recorded(event).and_then(|recorded| match recorded {
        Some((position, _)) => work::wait_for(position),
        None => Ok(()),
    }))
}

/// # Safety
/// As the CUDA driver API: `milliseconds` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime_v2(
    milliseconds: *mut f32,
    start: Handle,
    end: Handle,
) -> CUresult {
    let elapsed = || {
        let mut instants = [Instant::now(); 2];
        for (event, instant) in [start, end].into_iter().zip(&mut instants) {
            let timed = EVENTS.with(event, |event| event.timed)?;
            let (position, at) =
                recorded(event)?.filter(|_| timed).ok_or(errors::INVALID_HANDLE)?;
            if !work::is_finished(position) {
                return Err(errors::NOT_READY);
            }
            *instant = at;
        }
        let elapsed = instants[1].saturating_duration_since(instants[0]);
        // SAFETY: forwarded from this function's contract.
        unsafe { put(milliseconds, elapsed.as_secs_f32() * 1e3) }
    };
    answer(elapsed())
}

/// # Safety
/// As [`cuEventElapsedTime_v2`].
#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime(
    milliseconds: *mut f32,
    start: Handle,
    end: Handle,
) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    unsafe { cuEventElapsedTime_v2(milliseconds, start, end) }
}
