//! `--extract`: the parts as files.
//!
//! ```text
//! DIR/<package>-<version>/
//!   manifest.json, index.bin, images-<target>.pack, shaders.pack    as cutile-build wrote them
//!   cubins/<target>/<module>.<function>.<start of the key>.cubin
//!   shaders/<path>.<start of the key>.<kind>
//! ```
//!
//! No path is taken from the file: of a name in it, what is no letter, digit, `-` or `_` becomes `_`.
//! Nothing that is there already is written over.

use crate::embedded::bundle::{Embedded, EmbeddedBundle};
use crate::embedded::scan::Located;
use crate::embedded::shader::ShaderEntry;
use crate::failure::Failure;
use crate::output::{count, size};
use cutile_embed::entry::EntryHeader;
use cutile_embed::key::key_text;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// What was written.
pub(super) struct Extracted {
    /// How many files, and how large.
    pub(super) text: String,
    /// What is damaged, and so has no file: a kernel with its target, or the key of a shader.
    pub(super) left_out: Vec<String>,
}

/// Writes all parts. Where one cannot be written, the folders that this made are removed again.
pub(super) fn extract(
    embedded: &Embedded<'_>,
    bytes: &[u8],
    folder: &Path,
) -> Result<Extracted, Failure> {
    let mut files = Files { count: 0, bytes: 0, left_out: Vec::new() };
    let mut homes = Vec::new();
    if let Err(failure) = all(embedded, bytes, folder, &mut files, &mut homes) {
        for home in &homes {
            // What is wrong is said already.
            let _ = fs::remove_dir_all(home);
        }
        return Err(failure);
    }
    let text = format!("{}, {}", count(files.count, "file"), size(files.bytes));
    Ok(Extracted { text, left_out: files.left_out })
}

/// `homes` gets the folders that it makes.
fn all(
    embedded: &Embedded<'_>,
    bytes: &[u8],
    folder: &Path,
    files: &mut Files,
    homes: &mut Vec<PathBuf>,
) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(Failure::io("create", folder))?;
    let mut used = BTreeSet::new();
    for bundle in &embedded.bundles {
        let package = &bundle.package;
        let name = format!("{}-{}", safe(&package.name, 60), safe_version(&package.version));
        // A universal binary has each bundle twice.
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !used.contains(name));
        let Some(name) = free else { continue };
        let home = folder.join(&name);
        used.insert(name);
        match fs::create_dir(&home) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Failure(format!(
                    "{} is already there, and nothing is written over: remove it, or name another \
                     folder",
                    home.display()
                )));
            }
            made => made.map_err(Failure::io("create", &home))?,
        }
        homes.push(home.clone());
        one(bundle, bytes, &home, files)?;
    }
    Ok(())
}

fn one(
    bundle: &EmbeddedBundle<'_>,
    bytes: &[u8],
    home: &Path,
    files: &mut Files,
) -> Result<(), Failure> {
    fn part<'b, T>(bytes: &'b [u8], part: &Located<T>) -> &'b [u8] {
        bytes.get(part.offset..part.offset + part.bytes).unwrap_or_default()
    }
    if let Some(manifest) = &bundle.manifest {
        files.write(home.join("manifest.json"), part(bytes, manifest))?;
    }
    if let Some(index) = &bundle.index {
        files.write(home.join("index.bin"), part(bytes, index))?;
    }
    for (at, target) in bundle.targets.iter().enumerate() {
        // What the index does not name may have the name of what it does.
        let more = if target.in_index { String::new() } else { format!("-{at}") };
        let name = format!("{}{more}", safe(&target.name, 20));
        let Some(pack) = &target.pack else { continue };
        files.write(home.join(format!("images-{name}.pack")), part(bytes, pack))?;
    }
    for (at, pack) in bundle.shaders.iter().enumerate() {
        let name = if at == 0 { "shaders.pack".into() } else { format!("shaders-{at}.pack") };
        files.write(home.join(name), part(bytes, pack))?;
    }
    cubins(bundle, home, files)?;
    shaders(bundle, home, files)
}

fn cubins(bundle: &EmbeddedBundle<'_>, home: &Path, files: &mut Files) -> Result<(), Failure> {
    let mut written = BTreeSet::new();
    for kernel in bundle.kernels() {
        for (target, image) in kernel.by_number() {
            let Some((_, entry)) = &image.entry else { continue };
            // Specializations share images.
            if !written.insert((target, image.key)) {
                continue;
            }
            let row = kernel.specialization;
            let payload = entry.payload().unwrap_or_default();
            let Ok(header) = EntryHeader::parse(&payload) else {
                files.left_out.push(format!("{} for {target}", row.name()));
                continue;
            };
            let name = format!(
                "{}.{}.{}.cubin",
                safe(&row.module, 60),
                safe(&row.function, 60),
                &key_text(&image.key)[..16]
            );
            let folder = home.join("cubins").join(safe(target, 20));
            files.write(folder.join(name), header.cubin())?;
        }
    }
    Ok(())
}

fn shaders(bundle: &EmbeddedBundle<'_>, home: &Path, files: &mut Files) -> Result<(), Failure> {
    let rows = bundle.manifest.as_ref().map_or(&[][..], |manifest| &manifest.part.shaders);
    for pack in &bundle.shaders {
        for entry in pack.part.entries() {
            let payload = entry.payload().unwrap_or_default();
            let Ok(found) = ShaderEntry::parse(&payload) else {
                files.left_out.push(format!("the shader {}", key_text(&entry.key)));
                continue;
            };
            let Some(request) = found.request else { continue };
            let sha256 = key_text(&request.text_sha256);
            let row = rows.iter().find(|row| row.sha256 == sha256);
            let path = row.map_or("shader", |row| row.path.as_str());
            let key = &key_text(&entry.key)[..16];
            let name = format!("{}.{key}.{}", safe(path, 120), safe(request.kind, 20));
            files.write(home.join("shaders").join(name), found.payload)?;
        }
    }
    Ok(())
}

struct Files {
    count: usize,
    bytes: u64,
    left_out: Vec<String>,
}

impl Files {
    fn write(&mut self, path: PathBuf, bytes: &[u8]) -> Result<(), Failure> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Failure::io("create", folder))?;
        }
        let written = File::create_new(&path).and_then(|mut file| file.write_all(bytes));
        written.map_err(Failure::io("write", &path))?;
        self.count += 1;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// A name that is one part of a path, whatever the file says.
fn safe(name: &str, most: usize) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
    let name: String = name.chars().take(most).map(letter).collect();
    if name.is_empty() { "_".into() } else { name }
}

/// As [`safe`], with the dots between numbers.
fn safe_version(version: &str) -> String {
    let parts: Vec<String> = version.split('.').take(8).map(|part| safe(part, 20)).collect();
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_file_leaves_the_folder() {
        for name in ["../../etc/passwd", "/etc/passwd", "..", "", "a/b", "a\\b", "c:x", "\0", "ü"]
        {
            let safe = safe(name, 60);
            assert!(!safe.contains(['/', '\\', '.', ':', '\0']) && !safe.is_empty(), "{safe}");
        }
        assert_eq!(safe("my-crate_2", 60), "my-crate_2");
        assert_eq!(safe_version("1.2.3-rc.1+x"), "1.2.3-rc.1_x");
        assert!(!safe_version("../..").contains('/'));
        assert_eq!(safe_version(".."), "_._._");
        assert_eq!(safe(&"x".repeat(300), 60).len(), 60);
    }
}
