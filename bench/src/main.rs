//! Sends requests to an address, a given number of them or so many a second, and tells how long the answers took.
//!
//! `bench-load count ADDRESS PATH REQUESTS CONNECTIONS [POST_BYTES]`
//! `bench-load rate ADDRESS PATH PER_SECOND SECONDS CONNECTIONS [POST_BYTES]`
//!
//! A thread for each connection, so that what is measured is a read that blocks and nothing of a scheduler of our own.
use std::{
    env,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

/// What is sent, and to whom.
#[derive(Clone)]
struct Aim {
    address: SocketAddr,
    request: Vec<u8>,
}

/// One keep-alive connection.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

fn main() -> ExitCode {
    match run() {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("bench-load: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, String> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize| -> Result<usize, String> {
        let it = arguments.get(at).ok_or_else(|| format!("argument {} is missing", at + 1))?;
        it.parse().map_err(|why| format!("{it}: {why}"))
    };
    let (Some(kind), Some(address), Some(path)) = (arguments.first(), arguments.get(1), arguments.get(2)) else {
        return Err("usage: bench-load count|rate ADDRESS PATH ...".into());
    };
    let address = address.parse().map_err(|why| format!("{address}: {why}"))?;
    let body = |at: usize| if arguments.len() > at { number(at) } else { Ok(0) };
    match kind.as_str() {
        "count" => {
            let (requests, connections) = (number(3)?, number(4)?.max(1));
            let taken = all(connections, &Aim::new(address, path, body(5)?), |aim, at| {
                let own = requests / connections + usize::from(at < requests % connections);
                aim.count(own)
            })?;
            Ok(summary(taken))
        }
        "rate" => {
            let (rate, seconds, connections) = (number(3)?.max(1), number(4)?, number(5)?.max(1));
            let step = Duration::from_secs_f64(connections as f64 / rate as f64);
            let end = Instant::now() + Duration::from_secs(seconds as u64);
            let begin = Instant::now();
            let taken = all(connections, &Aim::new(address, path, body(6)?), |aim, at| {
                // Evenly spread, so that the connections do not ask in step.
                aim.paced(begin + step.mul_f64(at as f64 / connections as f64), step, end)
            })?;
            Ok(summary(taken))
        }
        it => Err(format!("{it}: neither count nor rate")),
    }
}

/// Runs `work` on a thread for each connection; gives all times together.
fn all(connections: usize, aim: &Aim, work: impl Fn(&Aim, usize) -> io::Result<Vec<Duration>> + Sync) -> Result<Vec<Duration>, String> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|at| {
                let work = &work;
                scope.spawn(move || work(aim, at))
            })
            .collect();
        let mut taken = Vec::new();
        for it in threads {
            let times = it.join().map_err(|_| "a thread panicked".to_string())?;
            taken.extend(times.map_err(|why| why.to_string())?);
        }
        Ok(taken)
    })
}

fn summary(mut taken: Vec<Duration>) -> String {
    taken.sort_unstable();
    let at =
        |share: f64| taken.get(((taken.len() as f64 * share) as usize).min(taken.len().saturating_sub(1))).copied().unwrap_or_default();
    let micros = |it: Duration| it.as_secs_f64() * 1e6;
    format!("{{\"requests\": {}, \"p50\": {:.1}, \"p99\": {:.1}}}", taken.len(), micros(at(0.5)), micros(at(0.99)))
}

impl Aim {
    fn new(address: SocketAddr, path: &str, body: usize) -> Self {
        let mut request = format!(
            "{} {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: bench-load\r\nAccept: */*\r\nOrigin: https://shop.example.com\r\n",
            if body > 0 { "POST" } else { "GET" }
        )
        .into_bytes();
        if body > 0 {
            request.extend_from_slice(format!("Content-Type: text/plain\r\nContent-Length: {body}\r\n").as_bytes());
        }
        request.extend_from_slice(b"\r\n");
        request.resize(request.len() + body, b'x');
        Self { address, request }
    }

    fn connect(&self) -> io::Result<Connection> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Connection { stream, buffer: vec![0; 64 * 1024] })
    }

    /// One request after the other.
    fn count(&self, requests: usize) -> io::Result<Vec<Duration>> {
        let mut connection = self.connect()?;
        let mut taken = Vec::with_capacity(requests);
        for _ in 0..requests {
            let sent = Instant::now();
            connection.exchange(&self.request)?;
            taken.push(sent.elapsed());
        }
        Ok(taken)
    }

    /// A request every `step`. One that is sent late because the answer before it was late counts from when it was due:
    /// a stall is not hidden by what it keeps from being asked.
    fn paced(&self, first: Instant, step: Duration, end: Instant) -> io::Result<Vec<Duration>> {
        let mut connection = self.connect()?;
        connection.exchange(&self.request)?;
        let mut taken = Vec::new();
        let mut due = first;
        while due < end {
            let now = Instant::now();
            let from = if now < due {
                #[expect(clippy::disallowed_methods, reason = "paces the load on a thread of its own")]
                thread::sleep(due - now);
                Instant::now()
            } else {
                due
            };
            connection.exchange(&self.request)?;
            taken.push(from.elapsed());
            due += step;
        }
        Ok(taken)
    }
}

impl Connection {
    /// Sends the request and reads the whole answer, which must be a 200 with a length.
    fn exchange(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request)?;
        let mut filled = 0;
        let whole = loop {
            filled += self.read(filled)?;
            if let Some(it) = whole(&self.buffer[..filled])? {
                break it;
            }
        };
        while filled < whole {
            let size = self.stream.read(&mut self.buffer)?;
            if size == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += size;
        }
        if filled > whole { Err(io::Error::other("more bytes than the answer has")) } else { Ok(()) }
    }

    fn read(&mut self, from: usize) -> io::Result<usize> {
        match self.stream.read(&mut self.buffer[from..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            it => Ok(it),
        }
    }
}

/// The bytes of head and body together, once the head is there.
fn whole(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") else { return Ok(None) };
    let head = String::from_utf8_lossy(&bytes[..end]);
    if !head.starts_with("HTTP/1.1 200") {
        return Err(io::Error::other(format!("not a 200: {}", head.lines().next().unwrap_or_default())));
    }
    let length = head.lines().filter_map(|it| it.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|(_, it)| it.trim().parse::<usize>().ok());
    length.map(|it| Some(end + 4 + it)).ok_or_else(|| io::Error::other("an answer without a length"))
}
