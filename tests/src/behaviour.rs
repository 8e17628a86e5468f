//! The ways in which backends behave.
use std::{io, time::Duration};

use tokio::{net::TcpStream, time::sleep};

use crate::{
    backend::{Received, Record},
    message::{Line, framing_of_request},
    websocket::{self, Frame},
};

/// What a backend does with each request of a connection.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// Answers with JSON of exactly what it received.
    Echo,
    /// Answers with what the request asked for, and nothing that differs from one request to the next.
    Summary,
    /// Echoes after a while.
    Slow(Duration),
    /// Reads the request and never answers.
    Stall,
    /// Sends half an answer and stops there.
    StallsInside,
    /// Reads the request and resets the connection.
    Reset,
    /// Announces a hundred bytes, sends ten and closes.
    Truncates,
    /// Ends a chunked body without its last chunk.
    TruncatesChunks,
    /// Server-sent events, one each time, until `events` are sent or the client leaves; `usize::MAX` never ends.
    Sse { every: Duration, events: usize },
    /// Accepts the upgrade and echoes each message.
    Websocket,
    /// Answers in chunks, with trailers.
    Trailers,
    /// Says 103 before 200.
    EarlyHints,
    /// Answers with the JSON of the first path that the request's begins with, else 404.
    ByPath(&'static [(&'static str, &'static str)]),
    /// Reads each request to its end and answers with these bytes.
    Answers(Vec<u8>),
    /// Answers the first request of a connection, then closes it when the second comes.
    ClosesIdle,
    /// Does exactly this, once a connection.
    Script(Vec<Step>),
}

/// One step of a script.
#[derive(Clone, Debug)]
pub enum Step {
    /// Reads a head and its body.
    Read,
    /// Reads a head and leaves the body.
    ReadHead,
    Send(Vec<u8>),
    Wait(Duration),
    /// Closes with a reset.
    Reset,
    /// Waits until the gateway ends the connection.
    Hold,
}

impl Behaviour {
    /// A 200 with these header lines and this body, which needs no thought about framing.
    pub fn answers(status: &str, headers: &[&str], body: &str) -> Self {
        let headers: String = headers.iter().map(|it| format!("{it}\r\n")).collect();
        Self::Answers(format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes())
    }
}

impl Step {
    pub fn send(text: &str) -> Self {
        Self::Send(text.as_bytes().to_vec())
    }
}

/// Behaves until the connection ends.
pub async fn converse(line: &mut Line<TcpStream>, behaviour: &Behaviour, record: &Record, connection: usize) -> io::Result<()> {
    if let Behaviour::Script(steps) = behaviour {
        return script(line, steps, record, connection).await;
    }
    let mut answered = 0;
    while let Some(received) = read(line, connection, true).await? {
        record.received(received.clone());
        match behaviour {
            Behaviour::Echo => echo(line, &received).await?,
            Behaviour::Summary => summary(line, &received).await?,
            Behaviour::Slow(time) => {
                tokio::select! {
                    () = sleep(*time) => echo(line, &received).await?,
                    _ = line.some() => return left(record),
                }
            }
            Behaviour::Stall => return hold(line, record).await,
            Behaviour::StallsInside => {
                line.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nten bytes!").await?;
                return hold(line, record).await;
            }
            Behaviour::Reset => return line.stream.set_zero_linger(),
            Behaviour::Truncates => return line.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nten bytes!").await,
            Behaviour::TruncatesChunks => {
                return line.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\na\r\nten bytes!\r\n").await;
            }
            Behaviour::Sse { every, events } => {
                line.send(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\ntransfer-encoding: chunked\r\n\r\n",
                )
                .await?;
                for id in 1..=*events {
                    let event = format!("id: {id}\ndata: event {id}\n\n");
                    line.send(format!("{:x}\r\n{event}\r\n", event.len())).await?;
                    tokio::select! {
                        () = sleep(*every) => {}
                        _ = line.some() => return left(record),
                    }
                }
                line.send("0\r\n\r\n").await?;
            }
            Behaviour::Websocket => return websocket_echo(line, &received, record).await,
            Behaviour::Trailers => {
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-checksum, x-rows\r\n\r\n";
                line.send(format!("{head}5\r\nhello\r\n6\r\n world\r\n0\r\nx-checksum: 5eb63bbb\r\nx-rows: 2\r\n\r\n")).await?;
            }
            Behaviour::EarlyHints => {
                line.send("HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload; as=style\r\n\r\n").await?;
                sleep(Duration::from_millis(20)).await;
                echo(line, &received).await?;
            }
            Behaviour::Answers(bytes) => line.send(bytes).await?,
            Behaviour::ByPath(answers) => {
                let found = answers.iter().find(|it| received.head.target().starts_with(it.0)).map(|it| it.1);
                let (status, body) = found.map_or(("404 Not Found", "{}"), |it| ("200 OK", it));
                let length = body.len();
                line.send(format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")).await?;
            }
            Behaviour::ClosesIdle if answered == 0 => echo(line, &received).await?,
            Behaviour::ClosesIdle => return Ok(()),
            Behaviour::Script(_) => unreachable!("a script has been followed above"),
        }
        answered += 1;
        if received.head.all("connection").iter().any(|it| it.eq_ignore_ascii_case("close")) {
            return Ok(());
        }
    }
    Ok(())
}

async fn read(line: &mut Line<TcpStream>, connection: usize, body: bool) -> io::Result<Option<Received>> {
    let Some(head) = line.head().await? else { return Ok(None) };
    let framing = framing_of_request(&head)?;
    if head.get("expect").is_some_and(|it| it.eq_ignore_ascii_case("100-continue")) && body {
        line.send("HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    let content = if body { line.content(framing).await } else { Default::default() };
    Ok(Some(Received { head, content, connection }))
}

async fn echo(line: &mut Line<TcpStream>, received: &Received) -> io::Result<()> {
    let body = received.to_json().to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    line.send(if received.head.method() == "HEAD" { head } else { head + &body }).await
}

async fn summary(line: &mut Line<TcpStream>, received: &Received) -> io::Result<()> {
    let asked = format!("{} {}", received.head.method(), received.head.target());
    let body = String::from_utf8_lossy(&received.content.bytes);
    let body =
        if body.is_empty() { serde_json::json!({"backend_got": asked}) } else { serde_json::json!({"backend_got": asked, "body": body}) };
    let body = format!("{body}\n");
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nserver: demo-backend\r\ncontent-length: {}\r\n\r\n", body.len());
    line.send(if received.head.method() == "HEAD" { head } else { head + &body }).await
}

/// Waits for the gateway to go.
async fn hold(line: &mut Line<TcpStream>, record: &Record) -> io::Result<()> {
    while !line.some().await.unwrap_or_default().is_empty() {}
    left(record)
}

fn left(record: &Record) -> io::Result<()> {
    record.abandoned();
    Ok(())
}

async fn websocket_echo(line: &mut Line<TcpStream>, received: &Received, record: &Record) -> io::Result<()> {
    if received.head.get("upgrade").is_none_or(|it| !it.eq_ignore_ascii_case("websocket")) {
        return line.send("HTTP/1.1 426 Upgrade Required\r\nupgrade: websocket\r\ncontent-length: 0\r\n\r\n").await;
    }
    let accept = websocket::ACCEPT;
    line.send(format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: {accept}\r\n\r\n"
    ))
    .await?;
    while let Some(frame) = Frame::read(line).await? {
        let closing = frame.opcode == websocket::CLOSE;
        line.send(frame.unmasked()).await?;
        if closing {
            return Ok(());
        }
    }
    left(record)
}

async fn script(line: &mut Line<TcpStream>, steps: &[Step], record: &Record, connection: usize) -> io::Result<()> {
    for step in steps {
        match step {
            Step::Read | Step::ReadHead => match read(line, connection, matches!(step, Step::Read)).await? {
                Some(it) => record.received(it),
                None => return Ok(()),
            },
            Step::Send(bytes) => line.send(bytes).await?,
            Step::Wait(time) => sleep(*time).await,
            Step::Reset => return line.stream.set_zero_linger(),
            Step::Hold => return hold(line, record).await,
        }
    }
    Ok(())
}
