//! Loading: many files, their order, what names what.

use std::fs;

use schemas::{Input, Kind, Options, TextFault, folder, load};

#[test]
fn the_result_does_not_depend_on_the_number_of_threads() {
    let inputs = |count: usize| -> Vec<Input> {
        (0..count)
            .map(|n| {
                let broken = if n % 7 == 0 { "rat: 1/s\n" } else { "" };
                Input::new(format!("{n:04}.yaml"), format!("kind: Plan\nname: a{n}\n{broken}---\nkind: Plan\nname: b{n}\n"))
            })
            .collect()
    };
    let one = load(inputs(500), &Options { threads: 1, ..Options::default() });
    let many = load(inputs(500), &Options { threads: 5, ..Options::default() });
    assert_eq!(one.faults, many.faults);
    assert_eq!(one.documents.len(), 500 + 500 - 72);
    let names = |loaded: &schemas::Loaded| loaded.documents.iter().map(|document| document.id.clone()).collect::<Vec<_>>();
    assert_eq!(names(&one), names(&many));
}

#[test]
fn a_definition_that_stands_twice_is_told_at_the_second_with_the_first() {
    let api =
        |version: &str| format!("kind: Api\ninfo: {{name: a, version: {version}}}\ninbound: {{match: /}}\nproxy: {{respond: {{}}}}\n");
    let inputs = vec![Input::new("a.yaml", api("v1")), Input::new("b.yaml", format!("{}---\n{}", api("v2"), api("v1")))];
    let loaded = load(inputs, &Options::default());
    assert_eq!(loaded.documents.len(), 2);
    assert_eq!(loaded.faults.len(), 1);
    let fault = &loaded.faults[0];
    assert_eq!((&*fault.file, fault.line, fault.column, fault.code.as_ref()), ("b.yaml", 7, 14, "repeated-definition"));
    assert_eq!(fault.message, "Api a@v1 stands already in a.yaml:2");
}

#[test]
fn a_file_that_a_definition_names_is_no_definition() {
    let api = "kind: Api\ninfo: {name: a}\ninbound: {match: /, body: {schema: {file: routes/schemas/q.json}}}\nplugins: [{x: {file: routes/nodes.yaml}}]\nproxy: {respond: {}}\n";
    let inputs = vec![
        Input::new("/etc/allium/routes/a.yaml", api),
        Input::new("/etc/allium/routes/schemas/q.json", "{\"type\": \"object\"}"),
        Input::new("/etc/allium/./routes/nodes.yaml", "- a\n- b\n"),
        Input::new("/etc/allium/routes/other.json", "{}"),
    ];
    let loaded = load(inputs, &Options { root: Some(std::path::Path::new("/etc/allium")), ..Options::default() });
    assert_eq!(loaded.documents.len(), 1);
    assert_eq!(loaded.documents[0].files, ["routes/schemas/q.json", "routes/nodes.yaml"]);
    let told: Vec<_> = loaded.faults.iter().map(|fault| (&*fault.file, fault.code.as_ref())).collect();
    assert_eq!(told, [("/etc/allium/routes/other.json", "missing-kind")]);
}

#[test]
fn a_json_file_is_one_document_or_a_list_of_them() {
    let loaded = load(
        vec![Input::new("a.json", "[{\"kind\": \"Plan\", \"name\": \"a\"},\n {\"kind\": \"Plan\", \"name\": \"b\", \"rate\": 5}]")],
        &Options::default(),
    );
    assert_eq!(loaded.documents.len(), 1);
    assert_eq!((loaded.faults[0].line, loaded.faults[0].column, loaded.faults[0].code.as_ref()), (2, 40, "bad-unit"));
    assert_eq!(loaded.broken[0].name.as_deref(), Some("b"));
    assert_eq!(loaded.broken[0].kind, Some(Kind::Plan));
}

#[test]
fn later_stages_tell_their_faults_where_the_value_was_written() {
    let text = "kind: Api\ninfo: {name: a}\ninbound:\n  match: /\n  when: \"a == \\\"é\\\" && bad\"\nplugins:\n  - cors:\n      origins: [a, 'it''s bad']\n    when: |\n      one\n      bad\nproxy:\n  respond: {}\n";
    let document = load(vec![Input::new("a.yaml", text)], &Options::default()).documents.remove(0);
    let places = &document.places;
    let at = |pointer: &str| {
        let fault = places.fault(pointer, "c", "m");
        (fault.line, fault.column, fault.end.column)
    };
    assert_eq!(at("/inbound/match"), (4, 10, 11));
    assert_eq!(at("/plugins/0/cors/origins/1"), (8, 20, 31));
    assert_eq!(at("/proxy/respond"), (13, 3, 10), "a map is told at its key");
    assert_eq!(at("/proxy/http/path"), (12, 1, 6), "what is not there is told at what holds it");
    assert!(!places.find("/proxy/http/path").unwrap().whole);
    assert_eq!(places.key_fault("/inbound/when", "c", "m").column, 3);
    let inside = |pointer: &str, offset: usize| {
        let fault = places.text_fault(pointer, TextFault { offset, len: 3, code: "c", message: "m".to_owned(), help: None });
        (fault.line, fault.column, fault.end.column)
    };
    assert_eq!(inside("/inbound/when", "a == \"é\" && ".len()), (5, 24, 27));
    assert_eq!(inside("/plugins/0/cors/origins/1", "it's ".len()), (8, 27, 30));
    assert_eq!(inside("/plugins/0/when", "one\n".len()), (11, 7, 10));
}

#[test]
fn a_folder_is_read_through_links_but_not_through_hidden_names() {
    let folder = std::env::temp_dir().join(format!("allium-schemas-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    // As Kubernetes lays a volume out.
    fs::create_dir_all(folder.join("..2026_01/deep")).unwrap();
    fs::write(folder.join("..2026_01/a.yaml"), "kind: Plan\nname: a\n").unwrap();
    fs::write(folder.join("..2026_01/deep/b.yml"), "kind: Plan\nname: b\n").unwrap();
    fs::write(folder.join(".hidden.yaml"), "kind: [").unwrap();
    fs::write(folder.join("notes.txt"), "x").unwrap();
    std::os::unix::fs::symlink("..2026_01", folder.join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/a.yaml", folder.join("a.yaml")).unwrap();
    std::os::unix::fs::symlink("..data/deep", folder.join("deep")).unwrap();
    std::os::unix::fs::symlink(".", folder.join("circle")).unwrap();
    std::os::unix::fs::symlink("nowhere.yaml", folder.join("broken.yaml")).unwrap();
    let read = folder::collect(&folder);
    let names: Vec<String> =
        read.inputs.iter().map(|input| input.name.strip_prefix(folder.to_str().unwrap()).unwrap().to_owned()).collect();
    assert_eq!(names, ["/a.yaml", "/deep/b.yml"]);
    assert!(read.faults.is_empty());
    let missing = folder::collect(&folder.join("missing.yaml"));
    assert_eq!(missing.faults[0].code, "unreadable");
    fs::remove_dir_all(&folder).unwrap();
}
