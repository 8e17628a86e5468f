//! What gRPC messages are made of, read from a file.
use std::{collections::HashMap, path::Path};

use prost_reflect::DescriptorPool;

/// The pools that one compilation has read, by the file's name.
pub type Pools = HashMap<Box<str>, Result<DescriptorPool, String>>;

/// Reads descriptors: a serialized set, or the text of a `.proto` with whatever it imports beside it.
pub fn read(root: &Path, file: &str, bytes: &[u8], text: bool) -> Result<DescriptorPool, String> {
    if !text {
        return DescriptorPool::decode(bytes).map_err(|error| format!("`{file}` is no FileDescriptorSet: {error}"));
    }
    // Its imports lie beside it, or in the folder of the settings.
    let folder = Path::new(file).parent().map(|it| root.join(it)).unwrap_or_default();
    let name = Path::new(file).file_name().unwrap_or_default();
    let failed = |error: protox::Error| format!("{error:?}").lines().map(str::trim_end).collect::<Vec<_>>().join(" ");
    let mut compiler = protox::Compiler::new([folder.as_path(), root]).map_err(failed)?;
    compiler.include_imports(true).open_file(name).map_err(failed)?;
    Ok(compiler.descriptor_pool())
}
