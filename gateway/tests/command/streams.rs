//! Where the command writes: colours, pipes that break, disks that are full.
use std::{fs::File, process::Stdio};

use crate::bench::{Bench, UPSTREAM, ended};

const FAULT: &str = "kind: Upstream\nname: a\nnods: []\n";

#[test]
fn colours_are_only_for_terminals_unless_they_are_forced() {
    let bench = Bench::new(&[
        ("routes/a.yaml", FAULT),
        ("old.yaml", "kind: Plan\nname: a\nrate: 1/s\n"),
        ("new.yaml", "kind: Plan\nname: b\nrate: 1/s\n"),
    ]);
    let check = |arguments: &[&str], variables: &[(&str, &str)], coloured: bool| {
        let mut command = bench.command(arguments);
        command.envs(variables.iter().copied());
        let it = ended(command);
        let whole = format!("{}{}", it.out, it.err);
        assert_eq!(whole.contains("\x1b["), coloured, "{arguments:?} {variables:?}: {whole:?}");
    };
    for arguments in [&["check"][..], &["diff", "old.yaml", "new.yaml"], &["explain", "nothing"]] {
        check(arguments, &[], false);
        check(arguments, &[("CLICOLOR_FORCE", "1")], true);
        check(arguments, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false);
    }
    check(&["check", "--format", "json"], &[("CLICOLOR_FORCE", "1")], false);
}

#[test]
fn a_reader_that_leaves_is_no_fault() {
    let bench = Bench::new(&[("routes/a.yaml", UPSTREAM)]);
    for (arguments, code) in
        [(&["schema"][..], 0), (&["routes"], 0), (&["convert", "routes", "-"], 0), (&["--help"], 0), (&["explain", "orders"], 0)]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = bench.command(arguments);
        command.stdout(Stdio::from(writer));
        let it = ended(command);
        assert_eq!((it.code, it.err.as_str()), (code, ""), "{arguments:?}");
    }
    // Nobody hears of faults, but the exit code still says that there are some.
    bench.write("routes/b.yaml", FAULT);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = bench.command(&["check"]);
    command.stderr(Stdio::from(writer));
    assert_eq!(ended(command).code, 1);
}

#[test]
fn output_that_cannot_be_written_ends_with_3() {
    let Ok(full) = File::options().write(true).open("/dev/full") else { return };
    let mut command = Bench::new(&[]).command(&["schema"]);
    command.current_dir("/").stdout(Stdio::from(full));
    let it = ended(command);
    assert!(it.code == 3 && it.err.contains("cannot be written"), "{it:?}");
}

#[test]
fn a_file_cannot_steer_the_terminal() {
    let bench = Bench::new(&[("routes/a.yaml", "kind: Upstream\nname: a\nnodes: []\n\"\\e[31mkey\": 1\n")]);
    assert!(!bench.check(&["check"], 1).err.contains('\x1b'));
    assert!(!bench.check(&["explain", "\x1b[31mred"], 1).err.contains('\x1b'));
}
