//! What gRPC messages are made of, read from a file.
use std::{collections::HashMap, path::Path};

use prost_reflect::DescriptorPool;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver};

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
    let mut files = ChainFileResolver::new();
    files.add(IncludeFileResolver::new(folder));
    files.add(IncludeFileResolver::new(root.to_owned()));
    files.add(GoogleFileResolver::new());
    files.add(GoogleApi);
    let mut compiler = protox::Compiler::with_file_resolver(files);
    compiler.include_imports(true).open_file(name).map_err(failed)?;
    Ok(compiler.descriptor_pool())
}

/// The files that `google.api.http` comes from, for whoever has none beside his own: their messages alone.
struct GoogleApi;

impl FileResolver for GoogleApi {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let text = match name {
            "google/api/annotations.proto" => {
                "syntax = \"proto3\"; package google.api; import \"google/api/http.proto\"; import \"google/protobuf/descriptor.proto\";
                 extend google.protobuf.MethodOptions { HttpRule http = 72295728; }"
            }
            "google/api/http.proto" => {
                "syntax = \"proto3\"; package google.api;
                 message Http { repeated HttpRule rules = 1; bool fully_decode_reserved_expansion = 2; }
                 message HttpRule {
                   string selector = 1;
                   oneof pattern { string get = 2; string put = 3; string post = 4; string delete = 5; string patch = 6; CustomHttpPattern custom = 8; }
                   string body = 7; string response_body = 12; repeated HttpRule additional_bindings = 11;
                 }
                 message CustomHttpPattern { string kind = 1; string path = 2; }"
            }
            "google/api/httpbody.proto" => {
                "syntax = \"proto3\"; package google.api; import \"google/protobuf/any.proto\";
                 message HttpBody { string content_type = 1; bytes data = 2; repeated google.protobuf.Any extensions = 3; }"
            }
            _ => return Err(protox::Error::file_not_found(name)),
        };
        File::from_source(name, text)
    }
}
