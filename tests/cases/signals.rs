//! How a whole process ends; each case runs this very program once more.
use std::{
    env,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    process::{Child, Command, ExitCode, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use gateway::app;
use tests::folder::Folder;

/// Set where this program is to be a gateway; the value is its settings.
const SETTINGS: &str = "ALLIUM_TEST_OF_SIGNALS";

fn start(folder: &Folder) -> Child {
    let settings = "listen: [{address: \"127.0.0.1:0\"}]\nadmin: {address: \"127.0.0.1:0\"}\ndefinitions: {dir: routes}\nworkers: 1\n\
                    limits: {drain: {wait: 1ms, time: 60s}}\ntelemetry: {access_log: {enabled: false}}\n";
    let api = "kind: Api\ninfo: {name: a, version: v1}\ninbound: {match: \"POST /a\"}\n\
               proxy: {respond: {status: 200, body: {x: \"${body.x}\"}}}\n";
    folder.write("routes/api.yaml", api);
    let path = folder.write("allium.yaml", settings);
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", "signals::gateway_in_a_process_of_its_own", "--nocapture"]).env(SETTINGS, path);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a process")
}

/// The first line of the log that holds this.
fn line(log: &mut impl BufRead, with: &str) -> String {
    log.lines().map_while(Result::ok).find(|it| it.contains(with)).unwrap_or_else(|| panic!("the log ends without: {with}"))
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|it| it.success()), "kill is there, and so is the process");
}

/// No test of its own: what the others start.
#[test]
fn gateway_in_a_process_of_its_own() -> ExitCode {
    let Some(path) = env::var_os(SETTINGS) else { return ExitCode::SUCCESS };
    let loaded = app::settings_of(path.as_ref()).unwrap_or_else(|why| panic!("{why}"));
    app::run(loaded, plugins::ALL)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "this thread serves nobody, and another process tells nobody how far it is")]
fn a_second_signal_of_either_kind_does_not_wait_for_the_last_request() {
    for (first, second, code) in [("TERM", "TERM", Some(5)), ("INT", "TERM", Some(5)), ("TERM", "INT", Some(5)), ("TERM", "HUP", None)] {
        let folder = Folder::new();
        let mut child = start(&folder);
        let mut log = BufReader::new(child.stderr.take().expect("a pipe"));
        let address = line(&mut log, "listening on");
        let address = address.split("listening on ").nth(1).and_then(|it| it.split('"').next()).expect("an address").to_owned();
        // A request whose body never comes holds up the end.
        let mut wire = TcpStream::connect(address.trim()).expect("a connection");
        wire.write_all(b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n").expect("a request");
        sleep(Duration::from_millis(200));
        signal(&child, first);
        line(&mut log, "not ready any more");
        sleep(Duration::from_millis(100));
        assert_eq!(child.try_wait().expect("a child"), None, "it waits for the request");
        signal(&child, second);
        let end = Instant::now() + if code.is_some() { Duration::from_secs(10) } else { Duration::from_millis(300) };
        let mut ended = None;
        while ended.is_none() && Instant::now() < end {
            ended = child.try_wait().expect("a child");
            sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        let _ = child.wait();
        assert_eq!(ended.and_then(|it| it.code()), code, "{first}, then {second}");
    }
}
