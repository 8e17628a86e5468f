//! Compiles the messages without an installed protoc: Rust types, and the descriptors with their comments for run time.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=allium");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut compiler = protox::Compiler::new(["."])?;
    compiler.include_source_info(true).include_imports(true).open_file("allium/v1/definitions.proto")?;
    fs::write(out.join("descriptors.binpb"), compiler.encode_file_descriptor_set())?;

    // The options are read through descriptors alone; google's own types are not compiled.
    let mut set = compiler.file_descriptor_set();
    set.file.retain(|file| !matches!(file.name(), "google/protobuf/descriptor.proto" | "allium/v1/options.proto"));
    prost_build::Config::new().boxed(".allium.v1.Api.proxy").compile_fds(set)?;
    Ok(())
}
