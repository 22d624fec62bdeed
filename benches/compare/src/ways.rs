//! The ways.

use crate::kernels::{KERNELS, TILE, generics, numbers};
use crate::{Figure, Result};
use cutile::api;
use cutile::cuda_async::device_context::with_device;
use cutile::cuda_core::{IntoResult as _, launch_kernel, sys};
use cutile::jit_cache::{self, FileSystemJitStore, JitStore as _, jit_backend_compile_count};
use cutile::prelude::*;
use cutile_embed::entry::EntryHeader;
use cutile_embed::index::{Index, IndexRow, IndexTarget, encode_rows};
use cutile_embed::key::key_text;
use cutile_embed::pack::PackWriter;
use cutile_embed::{Bundle, Disk, Installer, bundles};
use include_dir::{Dir, DirEntry, File};
use std::ffi::{CString, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

/// What the kernels are compiled for.
const TARGET: &str = "sm_90";

/// One figure, in a process that did nothing else.
pub(crate) fn run(way: &str, kernels: usize, folder: &Path) -> Result<Figure> {
    if kernels == 0 || kernels > KERNELS {
        return Err(format!("1 to {KERNELS} kernels, not {kernels}").into());
    }
    let y = vector()?;
    let mut images = images()?;
    images.truncate(kernels);
    let images = images;
    let of_jit = folder.join(format!("jit-{kernels}"));
    let all = |bytes: fn(&Image) -> usize| images.iter().map(|image| bytes(image) as u64).sum();
    let store = match way {
        "jit" => {
            std::fs::remove_dir_all(&of_jit).or_else(|error| match error.kind() {
                std::io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })?;
            Some(FileSystemJitStore::new(&of_jit)?)
        }
        "disk" => Some(FileSystemJitStore::new(&of_jit)?),
        "shipped" => Some(shipped(&folder.join("shipped"), &images)?),
        "embedded" | "raw" => None,
        other => return Err(format!("no way {other:?}").into()),
    };
    let bundle = bundle_of(&images)?;
    let start = Instant::now();
    match store {
        Some(store) => {
            jit_cache::enable(Arc::new(store));
            launches(y, kernels)?;
        }
        None if way == "raw" => raw(&y, &images)?,
        None => {
            let report = Installer::new().bundles(bundle).disk(Disk::Off).install();
            if report.kernels() != kernels {
                return Err(format!("not all kernels are ready:\n{report}").into());
            }
            launches(y, kernels)?;
        }
    }
    let us = start.elapsed().as_secs_f64() * 1e6;
    let bytes = match way {
        "embedded" => all(|image| image.stored),
        "raw" => all(|image| image.cubin.len()),
        "shipped" => all(|image| image.entry.len()),
        _ => 0,
    };
    let compiled = jit_backend_compile_count();
    let expected = if way == "jit" { kernels as u64 } else { 0 };
    if compiled != expected {
        return Err(format!("{compiled} kernels were compiled, and not {expected}").into());
    }
    Ok(Figure { way: way.to_owned(), kernels, us, bytes, compiled })
}

/// The operand of every launch. With it the context of the device is there, and current.
fn vector() -> Result<Tensor<i32>> {
    let vector = api::copy_host_vec_to_device(&Arc::new(vec![0; TILE])).sync()?;
    with_device(0, |context| context.bind_to_thread())??;
    Ok(vector)
}

/// First launches, each waited for.
fn launches(mut y: Tensor<i32>, kernels: usize) -> Result<()> {
    for number in 0..kernels {
        let launch = numbers::add(y.partition([TILE])).generics(generics(number));
        y = launch.sync()?.0.unpartition();
    }
    Ok(())
}

/// The same by the driver alone.
fn raw(y: &Tensor<i32>, images: &[Image]) -> Result<()> {
    let mut pointer = y.device_pointer().cu_deviceptr();
    let (mut len, mut stride, mut tile) = (TILE as i32, 1i32, TILE as i32);
    let len = (&raw mut len).cast::<c_void>();
    let stride = (&raw mut stride).cast();
    // A partition is pointer, shape, strides, and shape and strides of a tile.
    let mut parameters = [(&raw mut pointer).cast(), len, stride, (&raw mut tile).cast(), stride];
    for image in images {
        // SAFETY: a whole cubin, whose digest was compared when its payload was read, the parameters
        // of its kernel, and the launch is waited for while the vector is borrowed. The modules stay.
        unsafe {
            let (mut module, mut function) = (null_mut(), null_mut());
            sys::cuModuleLoadData(&mut module, image.cubin.as_ptr().cast()).result()?;
            sys::cuModuleGetFunction(&mut function, module, image.symbol.as_ptr()).result()?;
            launch_kernel(function, (1, 1, 1), (1, 1, 1), 0, null_mut(), &mut parameters)?;
            sys::cuStreamSynchronize(null_mut()).result()?;
        }
    }
    Ok(())
}

/// A folder with what is embedded, as a disk cache of upstream's.
fn shipped(folder: &Path, images: &[Image]) -> Result<FileSystemJitStore> {
    let store = FileSystemJitStore::new(folder)?;
    for image in images {
        if !store.contains(&image.key)? {
            store.put(&image.key, &image.entry)?;
        }
    }
    Ok(store)
}

/// A bundle of these kernels alone, as a crate with no others would embed it.
fn bundle_of(images: &[Image]) -> Result<&'static [Bundle]> {
    let whole = bundles()[0].index()?;
    let mut pack = PackWriter::new("some", "0.0.0").compress(-1);
    for image in images {
        pack.insert(image.row.image, image.entry.clone())?;
    }
    let rows: Vec<IndexRow> = images.iter().map(|image| image.row.clone()).collect();
    let encoded = encode_rows(&rows);
    let index = Index {
        package: "some",
        package_version: "0.0.0",
        cutile: whole.cutile,
        codegen: whole.codegen,
        prebuilt: false,
        skipped: None,
        kernels: images.len() as u32,
        targets: vec![IndexTarget::new(TARGET, &rows, &encoded)],
    };
    let pack_name: &'static str = format!("images-{TARGET}.pack").leak();
    let file = |name, bytes: Vec<u8>| DirEntry::File(File::new(name, bytes.leak()));
    let files = vec![file("index.bin", index.write()), file(pack_name, pack.finish())];
    // Bundles are part of the program and live as long.
    Ok(vec![Bundle::new(Box::leak(Box::new(Dir::new("", files.leak()))))].leak())
}

/// What is embedded of one kernel.
struct Image {
    row: IndexRow,
    key: String,
    symbol: CString,
    /// As upstream's cache has it.
    entry: Vec<u8>,
    cubin: Vec<u8>,
    /// Bytes in the pack.
    stored: usize,
}

fn images() -> Result<Vec<Image>> {
    let bundle = &bundles()[0];
    let index = bundle.index()?;
    let pack = bundle.images(TARGET).ok_or("no images are embedded")??;
    let rows = index.target(TARGET).ok_or("no kernels are embedded")?.rows()?;
    let image = |row: IndexRow| {
        let packed = pack.get(&row.image).ok_or("a row without an image")?;
        let entry = packed.payload()?.into_owned();
        Ok(Image {
            key: key_text(&row.image),
            symbol: CString::new(&*row.specialization.symbol)?,
            cubin: EntryHeader::parse(&entry)?.cubin().to_vec(),
            stored: packed.stored.len(),
            entry,
            row,
        })
    };
    let number = |image: &Image| {
        let number = image.row.specialization.generics.last();
        number.and_then(|number| number.parse::<usize>().ok())
    };
    let mut images = rows.into_iter().map(image).collect::<Result<Vec<Image>>>()?;
    images.sort_by_key(number);
    Ok(images)
}
