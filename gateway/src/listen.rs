//! Listeners: accepts connections on the workers, counts them, and lets them go when it is time.
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::BytesMut;
use contract::Scheme;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::{
    http1::{self, Counters, Drain},
    runtime,
    serve::{Connection, Worker},
    telemetry::{log::Log, metrics::ListenerMetrics},
};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 4096;
/// How long an acceptor pauses when the process has no file descriptor left.
const BREATH: Duration = Duration::from_millis(50);

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
    pub counters: Box<[Counters]>,
    pub log: Log,
    /// Told once, when it is time to stop accepting.
    closing: watch::Sender<bool>,
    warned: AtomicBool,
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
        limits: http1::Limits,
        log: Log,
    ) -> Arc<Self> {
        Arc::new(Self {
            open: AtomicUsize::new(0),
            most,
            per_address,
            trusted,
            addresses: std::array::from_fn(|_| Mutex::default()),
            loads: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            limits,
            counters: (0..workers).map(|_| Counters::default()).collect(),
            log,
            closing: watch::channel(false).0,
            warned: AtomicBool::new(false),
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
        let ip = ip.to_canonical();
        let counted = !self.trusted.iter().any(|it| it.contains(&ip));
        if counted {
            let mut shard = self.shard(ip);
            let count = shard.entry(ip).or_default();
            if *count >= self.per_address {
                drop(shard);
                self.open.fetch_sub(1, Relaxed);
                return None;
            }
            *count += 1;
        }
        self.loads[worker].fetch_add(1, Relaxed);
        Some(Place { gate: self.clone(), worker, address: counted.then_some(ip) })
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
    pub fn accept_on_workers(self, workers: &[runtime::Worker], gate: &Arc<Gate>, metrics: &ListenerMetrics) {
        for (socket, worker) in self.sockets.into_iter().zip(workers) {
            let (gate, metrics, at, local) = (gate.clone(), metrics.clone(), worker.index(), self.address);
            worker.run_local(move |desk| async move {
                let Some(desk) = desk.find::<Desk>() else { return };
                let Ok(listener) = TcpListener::from_std(socket.into()) else { return };
                let take = |stream: TcpStream, peer: SocketAddr| {
                    if let Some(place) = gate.enter(at, peer.ip()) {
                        tokio::task::spawn_local(talk(stream, peer, local, desk.clone(), place, metrics.accepted()));
                    } else {
                        metrics.refused();
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
        metrics: &ListenerMetrics,
    ) -> io::Result<()> {
        let Some(socket) = self.sockets.pop() else { return Ok(()) };
        let (gate, metrics, workers, local) = (gate.clone(), metrics.clone(), workers.to_vec(), self.address);
        let entered = background.enter();
        let listener = TcpListener::from_std(socket.into())?;
        drop(entered);
        background.spawn(async move {
            let take = |stream: TcpStream, peer: SocketAddr| {
                let at = gate.least_loaded();
                let Some(place) = gate.enter(at, peer.ip()) else { return metrics.refused() };
                let Ok(stream) = stream.into_std() else { return };
                let open = metrics.accepted();
                workers[at].run_local(move |desk| async move {
                    let (Some(desk), Ok(stream)) = (desk.find::<Desk>(), TcpStream::from_std(stream)) else { return };
                    talk(stream, peer, local, desk, place, open).await;
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

/// One connection, from accept to its end.
async fn talk(
    stream: TcpStream,
    peer: SocketAddr,
    listener: SocketAddr,
    desk: Rc<Desk>,
    place: Place,
    _open: crate::telemetry::metrics::Connection,
) {
    let _ = stream.set_nodelay(true);
    let local = stream.local_addr().unwrap_or(listener);
    let gate = place.gate.clone();
    let connection = Connection::new(desk.worker.clone(), peer, local, Scheme::Http);
    let closed = http1::serve(stream, BytesMut::new(), &gate.limits, &gate.counters[place.worker], &connection, &desk.drain).await;
    if closed.reset {
        // An answer that was cut off must not look complete.
        let _ = SockRef::from(&closed.io).set_linger(Some(Duration::ZERO));
    }
    drop(closed);
}
