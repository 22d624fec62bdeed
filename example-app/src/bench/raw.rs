//! The driver and nothing else: what a hand-written launcher over `include_bytes!` would call.

use cutile::cuda_async::device_context::with_device;
use cutile::cuda_core::{DriverError, IntoResult as _, launch_kernel, sys};
use cutile::error::Error;
use cutile::prelude::Tensor;
use cutile_embed::bundles;
use cutile_embed::entry::EntryHeader;
use cutile_embed::manifest::Specialization;
use std::ffi::{CStr, CString, c_void};
use std::ptr::null_mut;

/// A cubin and what it is of.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) cubin: Vec<u8>,
    pub(crate) symbol: CString,
    /// One of those that share it.
    pub(crate) specialization: Specialization,
}

/// Every image that the bundles of this program have for `target`, once.
pub(crate) fn images(target: &str) -> Vec<Image> {
    let mut images = Vec::new();
    for bundle in bundles() {
        let (Ok(index), Some(Ok(pack))) = (bundle.index(), bundle.images(target)) else { continue };
        let mut rows = index.target(target).and_then(|rows| rows.rows().ok()).unwrap_or_default();
        rows.sort_by_key(|row| row.image);
        rows.dedup_by_key(|row| row.image);
        for row in rows {
            let payload = pack.get(&row.image).and_then(|entry| entry.payload().ok());
            let Some(payload) = payload else { continue };
            let Ok(header) = EntryHeader::parse(&payload) else { continue };
            images.push(Image {
                cubin: header.cubin().to_vec(),
                symbol: CString::new(&*row.specialization.symbol).unwrap_or_default(),
                specialization: row.specialization,
            });
        }
    }
    images
}

/// A loaded module, unloaded when it is dropped.
#[derive(Debug)]
pub(crate) struct Loaded {
    module: sys::CUmodule,
    function: sys::CUfunction,
}

/// Makes the context of `device` the current one of this thread.
pub(crate) fn bind(device: usize) -> Result<(), Error> {
    with_device(device, |context| context.bind_to_thread())??;
    Ok(())
}

impl Loaded {
    /// `cuModuleLoadData` and `cuModuleGetFunction`.
    pub(crate) fn load(cubin: &[u8], symbol: &CStr) -> Result<Self, DriverError> {
        // SAFETY: a whole cubin, whose digest was compared when its payload was read, and a module
        // that was just loaded.
        unsafe {
            let (mut module, mut function) = (null_mut(), null_mut());
            sys::cuModuleLoadData(&mut module, cubin.as_ptr().cast()).result()?;
            let mut loaded = Self { module, function };
            sys::cuModuleGetFunction(&mut function, module, symbol.as_ptr()).result()?;
            loaded.function = function;
            Ok(loaded)
        }
    }

    /// One launch of `saxpy` over tiles of `tile` elements, and the wait for it.
    pub(crate) fn saxpy(
        &self,
        tile: usize,
        a: f32,
        y: &Tensor<f32>,
        x: &Tensor<f32>,
    ) -> Result<(), DriverError> {
        let len = y.shape()[0];
        let blocks = u32::try_from(len).unwrap_or(0).div_ceil(tile as u32);
        let mut y_pointer = y.device_pointer().cu_deviceptr();
        let mut x_pointer = x.device_pointer().cu_deviceptr();
        let (mut len, mut stride, mut tile, mut a) = (len, 1i32, tile as i32, a);
        let (len, stride) = ((&raw mut len).cast::<c_void>(), (&raw mut stride).cast());
        // As the launcher pushes them: a partition is pointer, shape, strides, and shape and strides
        // of a tile; a tensor is pointer, shape, strides.
        let mut parameters = [
            (&raw mut y_pointer).cast(),
            len,
            stride,
            (&raw mut tile).cast(),
            stride,
            (&raw mut a).cast(),
            (&raw mut x_pointer).cast(),
            len,
            stride,
        ];
        // SAFETY: the parameters are those of the kernel, both tensors are as long as it is told,
        // and the launch is waited for while they are borrowed.
        unsafe {
            let (grid, one) = ((blocks, 1, 1), (1, 1, 1));
            launch_kernel(self.function, grid, one, 0, null_mut(), &mut parameters)?;
            sys::cuStreamSynchronize(null_mut()).result()
        }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: every launch was waited for.
        let _ = unsafe { sys::cuModuleUnload(self.module) };
    }
}
