//! Listeners: accepts connections on the workers, counts them, and lets them go when it is time.
mod der;
pub mod proxy_header;
pub mod tls;

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::BytesMut;
use contract::{Scheme, exchange::Caller};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::server::TlsStream;

use crate::{
    http1::{self, Counters, Drain},
    http2, runtime,
    serve::{Arrival, Connection, Worker},
    telemetry::{
        log::Log,
        metrics::{Handshake, ListenerMetrics},
    },
};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 4096;
/// How long an acceptor pauses when the process has no file descriptor left.
const BREATH: Duration = Duration::from_millis(50);
/// How long the last word of TLS may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// What all listeners of the process share.
pub struct Gate {
    open: AtomicUsize,
    most: usize,
    per_address: usize,
    trusted: Box<[ipnet::IpNet]>,
    /// By client address; an entry is there while it has connections. Sharded, so that workers seldom meet.
    addresses: [Mutex<HashMap<IpAddr, usize>>; SHARDS],
    /// How many connections each worker has.
    loads: Box<[AtomicUsize]>,
    pub limits: http1::Limits,
    /// Of connections of HTTP/2.
    pub http2: http2::Limits,
    /// How long a TLS handshake may take.
    handshake: Duration,
    pub counters: Box<[Counters]>,
    pub log: Log,
    /// Told once, when it is time to stop accepting.
    closing: watch::Sender<bool>,
    warned: AtomicBool,
    begun: Instant,
    /// When a flood was last told, in seconds since `begun`, and one more; 0 for never.
    told: AtomicU64,
}

const SHARDS: usize = 64;

/// One connection's place; given back when it is dropped.
struct Place {
    gate: Arc<Gate>,
    worker: usize,
    address: Option<IpAddr>,
}

/// One address that clients connect to, bound on as many sockets as there are acceptors.
pub struct Bound {
    pub address: SocketAddr,
    sockets: Vec<Socket>,
}

/// How a listener takes its connections.
#[derive(Clone)]
pub struct Terms {
    /// Its TLS, where it has one.
    pub tls: Option<Arc<tls::Keys>>,
    /// Whether a connection begins with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// Whether everything is sent to HTTPS.
    pub redirects: bool,
    pub metrics: ListenerMetrics,
}

/// What each worker's thread keeps for its connections.
pub struct Desk {
    pub worker: Rc<Worker>,
    pub drain: Drain,
}

impl Gate {
    pub fn new(
        workers: usize,
        most: usize,
        per_address: usize,
        trusted: Box<[ipnet::IpNet]>,
        limits: (http1::Limits, http2::Limits),
        handshake: Duration,
        log: Log,
    ) -> Arc<Self> {
        Arc::new(Self {
            open: AtomicUsize::new(0),
            most,
            per_address,
            trusted,
            addresses: std::array::from_fn(|_| Mutex::default()),
            loads: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            limits: limits.0,
            http2: limits.1,
            handshake,
            counters: (0..workers).map(|_| Counters::default()).collect(),
            log,
            closing: watch::channel(false).0,
            warned: AtomicBool::new(false),
            begun: Instant::now(),
            told: AtomicU64::new(0),
        })
    }

    /// Open connections, of all listeners.
    pub fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Listeners take what is waiting, and close.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    fn enter(self: &Arc<Self>, worker: usize, ip: IpAddr) -> Option<Place> {
        if self.open.fetch_add(1, Relaxed) >= self.most {
            self.open.fetch_sub(1, Relaxed);
            if !self.warned.swap(true, Relaxed) {
                self.log.warn(
                    "listen",
                    format_args!("{} connections are open, which is the limit: further ones are closed at once", self.most),
                    &[],
                );
            }
            return None;
        }
        self.loads[worker].fetch_add(1, Relaxed);
        let mut place = Place { gate: self.clone(), worker, address: None };
        place.count(ip).then_some(place)
    }

    /// A client of HTTP/2 was cut off. Counted always, told once a second: a flood must not become one of lines.
    fn cut_off(&self, ending: http2::Ending, client: SocketAddr, metrics: &ListenerMetrics) {
        let Some(flood) = ending else { return };
        metrics.flood(flood as usize);
        let second = self.begun.elapsed().as_secs() + 1;
        if self.told.swap(second, Relaxed) != second {
            let client = client.ip().to_canonical();
            self.log.warn(
                "listen",
                format_args!("a connection of HTTP/2 was ended: {}", flood.word()),
                &[("reason", &flood.word()), ("client_ip", &client)],
            );
        }
    }

    fn trusts(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.trusted.iter().any(|it| it.contains(&ip))
    }

    fn shard(&self, ip: IpAddr) -> std::sync::MutexGuard<'_, HashMap<IpAddr, usize>> {
        let at = match ip {
            IpAddr::V4(it) => it.octets()[3] as usize,
            IpAddr::V6(it) => it.octets()[15] as usize ^ it.octets()[7] as usize,
        };
        self.addresses[at % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker with the fewest connections.
    fn least_loaded(&self) -> usize {
        (0..self.loads.len()).min_by_key(|it| self.loads[*it].load(Relaxed)).unwrap_or(0)
    }
}

impl Place {
    /// Counts the connection to `ip`, unless that is a trusted proxy. False where it has too many.
    fn count(&mut self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        if self.address.is_some() || self.gate.trusts(ip) {
            return true;
        }
        let mut shard = self.gate.shard(ip);
        let count = shard.entry(ip).or_default();
        if *count >= self.gate.per_address {
            return false;
        }
        *count += 1;
        drop(shard);
        self.address = Some(ip);
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gate.open.fetch_sub(1, Relaxed);
        self.gate.loads[self.worker].fetch_sub(1, Relaxed);
        if let Some(ip) = self.address {
            let mut shard = self.gate.shard(ip);
            if let Some(count) = shard.get_mut(&ip) {
                *count -= 1;
                if *count == 0 {
                    shard.remove(&ip);
                }
            }
        }
    }
}

/// Binds `address` on `count` sockets that share it.
///
/// Errors: the address is taken by somebody else, or is none of this machine.
pub fn bind(address: SocketAddr, count: usize) -> io::Result<Bound> {
    let mut it = Bound { address, sockets: Vec::new() };
    for _ in 0..count.max(1) {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        if address.is_ipv6() {
            // `[::]` takes IPv4 too, as most expect.
            let _ = socket.set_only_v6(false);
        }
        socket.set_nonblocking(true)?;
        socket.bind(&it.address.into())?;
        socket.listen(BACKLOG)?;
        // Port 0 becomes a real one with the first socket; the others share it.
        it.address = socket.local_addr()?.as_socket().unwrap_or(it.address);
        it.sockets.push(socket);
    }
    Ok(it)
}

impl Bound {
    /// Every worker accepts for itself, and the kernel spreads connections.
    pub fn accept_on_workers(self, workers: &[runtime::Worker], gate: &Arc<Gate>, terms: &Terms) {
        for (socket, worker) in self.sockets.into_iter().zip(workers) {
            let (gate, terms, at, local) = (gate.clone(), terms.clone(), worker.index(), self.address);
            worker.run_local(move |desk| async move {
                let Some(desk) = desk.find::<Desk>() else { return };
                let Ok(listener) = TcpListener::from_std(socket.into()) else { return };
                let take = |stream: TcpStream, peer: SocketAddr| {
                    if let Some(place) = gate.enter(at, peer.ip()) {
                        tokio::task::spawn_local(talk(stream, Ends { peer, local }, desk.clone(), place, terms.clone()));
                    } else {
                        terms.metrics.refused();
                    }
                };
                accept(listener, &gate, take).await;
            });
        }
    }

    /// One acceptor hands each connection to the worker with the fewest.
    pub fn accept_balanced(
        mut self,
        background: &tokio::runtime::Handle,
        workers: &[runtime::Worker],
        gate: &Arc<Gate>,
        terms: &Terms,
    ) -> io::Result<()> {
        let Some(socket) = self.sockets.pop() else { return Ok(()) };
        let (gate, terms, workers, local) = (gate.clone(), terms.clone(), workers.to_vec(), self.address);
        let entered = background.enter();
        let listener = TcpListener::from_std(socket.into())?;
        drop(entered);
        background.spawn(async move {
            let take = |stream: TcpStream, peer: SocketAddr| {
                let at = gate.least_loaded();
                let Some(place) = gate.enter(at, peer.ip()) else { return terms.metrics.refused() };
                let Ok(stream) = stream.into_std() else { return };
                let terms = terms.clone();
                workers[at].run_local(move |desk| async move {
                    let (Some(desk), Ok(stream)) = (desk.find::<Desk>(), TcpStream::from_std(stream)) else { return };
                    talk(stream, Ends { peer, local }, desk, place, terms).await;
                });
            };
            accept(listener, &gate, take).await;
        });
        Ok(())
    }
}

/// Accepts until it is time to close, and then whatever is waiting: closing a socket resets what sits in its queue.
async fn accept(listener: TcpListener, gate: &Gate, mut take: impl FnMut(TcpStream, SocketAddr)) {
    let mut closing = gate.closing.subscribe();
    loop {
        let accepted = tokio::select! {
            it = listener.accept() => it,
            _ = closing.wait_for(|it| *it) => break,
        };
        match accepted {
            Ok((stream, peer)) => take(stream, peer),
            Err(fault) => {
                // A client that left before it was accepted is nothing to tell.
                if !matches!(fault.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted) {
                    gate.log.error("listen", format_args!("connections cannot be accepted: {fault}"), &[]);
                    tokio::time::sleep(BREATH).await;
                }
            }
        }
    }
    while let Ok(Ok((stream, peer))) = tokio::time::timeout(Duration::from_millis(1), listener.accept()).await {
        take(stream, peer);
    }
}

/// The two ends of a connection, as far as the socket knows them.
struct Ends {
    peer: SocketAddr,
    local: SocketAddr,
}

/// One connection, from accept to its end.
async fn talk(mut stream: TcpStream, ends: Ends, desk: Rc<Desk>, mut place: Place, terms: Terms) {
    let _open = terms.metrics.accepted();
    let _ = stream.set_nodelay(true);
    let gate = place.gate.clone();
    let (mut addr, mut local) = (ends.peer, stream.local_addr().unwrap_or(ends.local));
    if terms.proxy_protocol {
        // Whoever is not trusted could claim to be anybody.
        let read = async { if gate.trusts(addr.ip()) { proxy_header::read(&mut stream).await.ok() } else { None } };
        match tokio::time::timeout(gate.limits.header_time, read).await {
            Ok(Some(proxy_header::Said::Itself)) => {}
            Ok(Some(proxy_header::Said::Proxied { client, to })) => (addr, local) = (client, to),
            Ok(None) | Err(_) => return terms.metrics.proxy_header_refused(),
        }
        if !place.count(addr.ip()) {
            return terms.metrics.refused();
        }
    }
    let arrival = |scheme, certificate| Arrival { addr, local, scheme, certificate, redirects: terms.redirects };
    let Some(keys) = &terms.tls else {
        let arrival = arrival(Scheme::Http, None);
        let connection = Connection::new(desk.worker.clone(), arrival);
        let closed = answer(stream, &connection, &desk, &place).await;
        if let Some(received) = closed.http2 {
            answer_streams(closed.io, received, connection, addr, &desk, &place, &terms.metrics).await;
        } else if closed.reset {
            cut(&closed.io);
        }
        return;
    };
    let Some(stream) = shake(stream, keys, &gate, &terms.metrics).await else { return };
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let caller: Option<Arc<Caller>> = certificate.and_then(tls::caller).map(Arc::new);
    if certificate.is_some() && caller.is_none() {
        // Verified, but with a name that cannot be read: nobody that an expression could judge.
        return terms.metrics.handshake(Handshake::Failed);
    }
    terms.metrics.handshake(Handshake::Ok);
    let http2 = stream.get_ref().1.alpn_protocol() == Some(tls::HTTP2);
    let connection = Connection::new(desk.worker.clone(), arrival(Scheme::Https, caller));
    if http2 {
        return answer_streams(stream, BytesMut::new(), connection, addr, &desk, &place, &terms.metrics).await;
    }
    let mut closed = answer(stream, &connection, &desk, &place).await;
    if closed.reset {
        cut(closed.io.get_ref().0);
    } else {
        // The end is told inside of TLS, so that nobody else can say it (RFC 8446 §6.1).
        let _ = tokio::time::timeout(GOODBYE, closed.io.shutdown()).await;
    }
}

/// The handshake, within its time.
async fn shake(stream: TcpStream, keys: &tls::Keys, gate: &Gate, metrics: &ListenerMetrics) -> Option<TlsStream<TcpStream>> {
    match tokio::time::timeout(gate.handshake, keys.acceptor().accept(stream)).await {
        Ok(Ok(it)) => Some(it),
        Ok(Err(_)) => {
            metrics.handshake(Handshake::Failed);
            None
        }
        Err(_) => {
            metrics.handshake(Handshake::Timeout);
            None
        }
    }
}

/// Answers what comes, until the connection is over.
async fn answer<IO: AsyncRead + AsyncWrite + Unpin>(io: IO, connection: &Connection, desk: &Desk, place: &Place) -> http1::Closed<IO> {
    http1::serve(io, BytesMut::new(), &place.gate.limits, &place.gate.counters[place.worker], connection, &desk.drain).await
}

/// The same by HTTP/2. `received` is what was already read.
async fn answer_streams<IO: AsyncRead + AsyncWrite + Unpin>(
    io: IO,
    received: BytesMut,
    connection: Connection,
    client: SocketAddr,
    desk: &Desk,
    place: &Place,
    metrics: &ListenerMetrics,
) {
    let gate = &place.gate;
    let (limits, counters) = ((&gate.limits, &gate.http2), &gate.counters[place.worker]);
    // On the heap: a connection of HTTP/1 holds no room for it.
    let ending = Box::pin(http2::serve(io, received, limits, counters, Rc::new(connection), &desk.drain)).await;
    gate.cut_off(ending, client, metrics);
}

/// An answer that was cut off must not look complete: the connection ends with a reset.
fn cut(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::FLOODS;

    #[test]
    fn every_reason_to_end_a_connection_has_its_figure() {
        let words: Vec<_> = http2::Flood::ALL.iter().map(|it| it.word()).collect();
        assert_eq!(words, FLOODS);
        assert!(http2::Flood::ALL.iter().enumerate().all(|(at, it)| *it as usize == at));
    }
}
