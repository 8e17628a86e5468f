//! Puts the parts together; starts and stops them.
use std::{
    cell::RefCell,
    collections::HashMap,
    fmt,
    net::{IpAddr, SocketAddr},
    path::Path,
    process::ExitCode,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::BytesMut;
use contract::{catalog::Entry, exchange::NodeInfo};
use schemas::Fault;
use tokio::{
    net::TcpListener,
    runtime::{Handle, Runtime},
    sync::mpsc,
};

use crate::{
    admin::{self, Clerk, Door, Office, editor::Editor, openapi::Publisher, pace::Pace},
    compile::{Egress, Snapshot, StateKeeper, Workshop},
    http1::{self, Counters, Drain},
    http2,
    listen::{self, Desk, Gate, Terms, tls::Keys},
    registry::resolver::Resolver,
    reload::{Reloader, history::History, keep, last_good::LastGood},
    runtime::{self, Spawner, Workers},
    serve::{Shared, Worker},
    settings::{self, Loaded, listen::Accept, seen},
    source::{
        change::Changes,
        dir::{self, Dir},
    },
    telemetry::{
        access_log::{AccessLog, AccessLogWriter, Options},
        log::{Level, Log, Style},
        metrics::{GatewayMetrics, Limits as MetricLimits, histogram::Bounds},
        redact::{DEFAULT_NAMES, Redaction},
        sink::Destination,
    },
};

/// How often connections to backends that are gone are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// A gateway that runs.
pub struct App {
    addresses: Vec<SocketAddr>,
    admin: Option<SocketAddr>,
    status: Option<SocketAddr>,
    office: Arc<Office>,
    gate: Arc<Gate>,
    workers: Workers,
    clerks: Workers,
    background: Runtime,
    access: Option<AccessLog>,
    log: Log,
    drain_wait: Duration,
    drain_time: Duration,
}

/// Why a gateway did not start.
#[derive(Debug)]
pub enum StartError {
    /// The definitions have faults, and there is no last good version.
    Definitions(Vec<Fault>),
    Other(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Definitions(faults) => f.write_str(&schemas::render::text(faults, false)),
            Self::Other(it) => f.write_str(it),
        }
    }
}

impl std::error::Error for StartError {}

fn other<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> StartError {
    move |it| StartError::Other(format!("{what}: {it}"))
}

impl App {
    /// Starts everything. When it returns, listeners accept and the first definitions are served.
    pub fn start(loaded: Loaded, plugins: &'static [Entry]) -> Result<Self, StartError> {
        let log = log(&loaded)?;
        log.info("start", format_args!("{}", loaded.origin()), &[("version", &env!("CARGO_PKG_VERSION"))]);
        for it in &loaded.warnings {
            log.warn("settings", format_args!("{}:{}: {}", it.file, it.line, it.message), &[]);
        }
        let settings = &loaded.settings;
        let count = settings.workers.count();
        let background = runtime::background().map_err(other("the background threads cannot be started"))?;
        let workers = Workers::start(count).map_err(other("the workers cannot be started"))?;
        let clerks = Workers::start(1).map_err(other("the admin thread cannot be started"))?;
        let metrics = Arc::new(metrics(&loaded));
        let trusted: Box<[ipnet::IpNet]> = settings.trusted_proxies.iter().map(|it| it.0).collect();

        // Addresses first: a definition may not call the gateway itself.
        let sockets = if settings.accept == Accept::Balanced { 1 } else { count };
        let mut bound = Vec::new();
        for it in &settings.listen {
            bound.push(listen::bind(it.address.0, sockets).map_err(other(format!("{} cannot be listened on", it.address)))?);
        }
        let mut keys = Vec::new();
        for (it, bound) in settings.listen.iter().zip(&bound) {
            let load = |tls| Keys::load(bound.address.to_string(), tls, &loaded.folder);
            keys.push(it.tls.as_ref().map(load).transpose().map_err(other(format!("TLS of {} cannot be set up", it.address)))?);
        }
        let entered = background.enter();
        let admin_bound = bind_small(settings.admin.address.0)?;
        let status_bound = settings.status.as_ref().map(|it| bind_small(it.address.0)).transpose()?;
        drop(entered);
        let addresses: Vec<SocketAddr> = bound.iter().map(|it| it.address).collect();
        let (admin, status) = (admin_bound.local_addr().ok(), status_bound.as_ref().and_then(|it| it.local_addr().ok()));
        let egress = Egress::new(settings.egress.allow.iter().map(|it| it.0).collect());
        egress.set_own(addresses.iter().copied().chain(admin).chain(status).collect());

        let shop = Arc::new(Workshop {
            plugins,
            metrics: metrics.clone(),
            states: StateKeeper::default(),
            apps: Default::default(),
            spawn: Arc::new(Spawner::new(background.handle().clone())),
            log: log.clone(),
            egress,
            resolver: Resolver::new(settings.dns.servers.iter().map(|it| it.0).collect()),
            limits: settings.limits.clone(),
            node: Arc::new(NodeInfo { id: loaded.node_id().into(), zone: settings.node.zone.clone().unwrap_or_default().into() }),
            policy: loaded.secrets(),
            threads: count,
            background: Some(background.handle().clone()),
            without_secrets: false,
            first_seen: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs()),
            root: loaded.folder.clone(),
        });
        let folder = loaded.path(&settings.definitions.dir);
        let keep = keep(&loaded.folder, &settings.definitions.dir);
        let changes = Changes::new(folder.clone(), keep.clone());
        let first = dir::read_once(&folder, Some(changes.clone())).map_err(other("the definitions cannot be read"))?;

        let served = Arc::new(ArcSwap::from(nothing(&shop)));
        let current = Arc::new(ArcSwapOption::<Snapshot>::empty());
        let (old, gone) = mpsc::unbounded_channel();
        let swap = {
            let (served, current, apps) = (served.clone(), current.clone(), shop.apps.clone());
            move |it: &Arc<Snapshot>| {
                // Before the routes: none of them asks for an App that is not there yet.
                apps.publish(&it.apps);
                current.store(Some(it.clone()));
                // The former table is freed in the background, never by a worker that happens to hold it last.
                let _ = old.send(served.swap(it.served.clone()));
            }
        };
        background.spawn(free(gone, workers.all().to_vec()));
        let last_good = LastGood::new(&loaded.folder, &settings.definitions.dir);
        let openapi = Some(Publisher::new(shop.clone(), current.clone(), addresses.first().copied()));
        let history = History::new(&keep);
        let keeper = history.clone().keeper(log.clone()).map_err(other("the thread of the history cannot be started"))?;
        let mut reloader = Reloader::new(shop.clone(), folder.clone(), Some(last_good), swap).with_history(keeper);
        let serving = current.clone();
        let editor = Editor { shop, dir: folder.clone(), changes: changes.clone(), history, status: reloader.status(), current };
        let office = Arc::new(Office {
            metrics: metrics.clone(),
            status: reloader.status(),
            draining: AtomicBool::new(false),
            tokens: tokens(&loaded)?,
            node: loaded.node_id().into(),
            version: env!("CARGO_PKG_VERSION"),
            openapi,
            current: serving,
            // A single file of definitions has nowhere to put another.
            editor: folder.is_dir().then(|| Arc::new(editor)),
            pace: Pace::default(),
        });
        reloader.first(first).map_err(StartError::Definitions)?;

        let access = access(&loaded, &metrics, &log)?;
        let shared = Arc::new(Shared {
            served,
            metrics: metrics.clone(),
            log: log.clone(),
            trusted: trusted.clone(),
            keep_ids: settings.keep_ids,
            time: settings.limits.request.time.get(),
        });
        let most = settings.limits.connection.count.map_or_else(half_of_the_descriptors, |it| it as usize);
        let gate = Gate::new(
            count,
            most,
            settings.limits.connection.count_per_address as usize,
            trusted,
            (http1_limits(&settings.limits), http2_limits(&settings.limits.http2)),
            settings.limits.connection.tls_handshake.get(),
            log.clone(),
        );
        for worker in workers.all() {
            let (shared, writer) = (shared.clone(), access.as_ref().map(AccessLog::writer));
            worker.run_local(move |local| async move {
                let writer = writer.map(Rc::new);
                local.get_or(|| Desk { worker: Worker::new(shared, local.clone(), writer.clone()), drain: Drain::new() });
                if let Some(it) = writer {
                    AccessLogWriter::run(it).await;
                }
            });
        }
        for ((it, own), tls) in bound.into_iter().zip(&settings.listen).zip(keys) {
            let how = if tls.is_some() { " with TLS" } else { "" };
            log.info("listen", format_args!("listening on {}{how}", it.address), &[]);
            if let Some(it) = &tls {
                background.spawn(it.clone().follow(log.clone()));
            }
            let terms = Terms {
                tls,
                proxy_protocol: own.proxy_protocol,
                redirects: own.redirect_to_https,
                metrics: metrics.listener_metrics(&it.address.to_string()),
            };
            match settings.accept {
                Accept::Balanced => {
                    it.accept_balanced(background.handle(), workers.all(), &gate, &terms).map_err(other("a listener cannot be used"))?
                }
                Accept::Auto | Accept::PerCore => it.accept_on_workers(workers.all(), &gate, &terms),
            }
        }
        attend(&clerks, admin_bound, &office, Door::Admin)?;
        if let Some(it) = status_bound {
            attend(&clerks, it, &office, Door::Status)?;
        }
        if let Some(at) = admin {
            log.info("admin", format_args!("http://{at}/ready?verbose tells how it goes, http://{at}/metrics in figures"), &[]);
        }
        background.spawn(reloader.follow(Dir::new(folder, Some(changes))));
        background.spawn(tick(log.clone()));
        let drain = &settings.limits.drain;
        Ok(Self {
            addresses,
            admin,
            status,
            office,
            gate,
            workers,
            clerks,
            background,
            access,
            log,
            drain_wait: drain.wait.get(),
            drain_time: drain.time.get(),
        })
    }

    /// Where listener `at` accepts: a port of 0 has become a real one.
    pub fn address(&self, at: usize) -> SocketAddr {
        self.addresses[at]
    }

    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
    }

    pub fn status_address(&self) -> Option<SocketAddr> {
        self.status
    }

    /// Where background work runs: for those who start a gateway inside a program of their own.
    pub fn background(&self) -> &Handle {
        self.background.handle()
    }

    /// Reopens the access log's file: it was renamed.
    pub fn reopen_logs(&self) {
        if let Some(it) = &self.access {
            it.reopen();
        }
    }

    /// Not ready, wait, take what is waiting, let requests end; at last whatever is left is cut.
    pub fn stop(self) {
        self.office.draining.store(true, Relaxed);
        self.log.info("stop", format_args!("not ready any more; listeners close in {:?}", self.drain_wait), &[]);
        let wait = self.drain_wait;
        self.background.block_on(async move { tokio::time::sleep(wait).await });
        self.gate.close();
        let (tell, mut hear) = mpsc::unbounded_channel();
        for worker in self.workers.all() {
            let tell = tell.clone();
            worker.run_local(move |local| async move {
                // Listeners hand over what was waiting before connections are told to leave.
                tokio::time::sleep(Duration::from_millis(20)).await;
                if let Some(desk) = local.find::<Desk>() {
                    desk.drain.begin();
                    desk.drain.emptied().await;
                }
                let _ = tell.send(());
            });
        }
        drop(tell);
        let all = async { while hear.recv().await.is_some() {} };
        let time = self.drain_time;
        if self.background.block_on(async move { tokio::time::timeout(time, all).await }).is_err() {
            self.log.warn("stop", format_args!("{} connections did not end in {:?} and are cut", self.gate.open(), self.drain_time), &[]);
        }
        self.workers.stop();
        self.clerks.stop();
        self.background.shutdown_timeout(Duration::from_secs(1));
        if let Some(it) = self.access {
            it.flush(Duration::from_secs(2));
        }
        self.log.info("stop", format_args!("stopped"), &[]);
        self.log.flush(Duration::from_secs(2));
    }
}

/// Reads the settings of a file and of the process's environment: for programs that start a gateway themselves.
pub fn settings_of(file: &Path) -> Result<Loaded, StartError> {
    let environment: Vec<_> = std::env::vars_os().collect();
    settings::load(settings::Input { file: Some(file), environment: &environment, hidden: &DEFAULT_NAMES }).map_err(StartError::Definitions)
}

/// Runs a gateway until a signal ends it: SIGTERM and SIGINT drain, a second one ends at once; SIGHUP reopens log files.
pub fn run(loaded: Loaded, plugins: &'static [Entry]) -> ExitCode {
    let app = match App::start(loaded, plugins) {
        Ok(it) => it,
        Err(StartError::Definitions(faults)) => {
            use std::io::IsTerminal;
            eprint!("{}", schemas::render::text(&faults, std::io::stderr().is_terminal()));
            eprintln!("the gateway did not start: mend the definitions above; there is no last good version to serve instead");
            return ExitCode::from(1);
        }
        Err(fault) => {
            eprintln!("error: {fault}");
            return ExitCode::from(3);
        }
    };
    match wait(&app) {
        Ok(()) => (),
        Err(fault) => {
            eprintln!("error: signals cannot be received: {fault}");
            return ExitCode::from(3);
        }
    }
    app.stop();
    ExitCode::SUCCESS
}

/// Waits for the first signal that ends the gateway, and leaves somebody behind who waits for a second.
fn wait(app: &App) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    app.background().block_on(async {
        let (mut end, mut interrupt, mut reopen) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?);
        loop {
            tokio::select! {
                _ = end.recv() => break,
                _ = interrupt.recv() => break,
                _ = reopen.recv() => app.reopen_logs(),
            }
        }
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = end.recv() => break,
                    _ = interrupt.recv() => break,
                    // A rotation of log files while connections end is no reason to hurry.
                    _ = reopen.recv() => (),
                }
            }
            eprintln!("stopped at once: a second signal came before the drain had ended");
            #[expect(clippy::disallowed_methods, reason = "whoever asks twice does not want to wait for the drain")]
            std::process::exit(HURRIED);
        });
        Ok(())
    })
}

fn log(loaded: &Loaded) -> Result<Log, StartError> {
    let it = &loaded.settings.telemetry.log;
    let level = match it.level {
        seen::Level::Error => Level::Error,
        seen::Level::Warn => Level::Warn,
        seen::Level::Info => Level::Info,
        seen::Level::Debug => Level::Debug,
    };
    let style = match it.format {
        seen::Format::Auto => Style::of_stderr(),
        seen::Format::Text => Style::Text,
        seen::Format::Json => Style::Json,
    };
    Log::start(level, style).map_err(other("the log cannot be started"))
}

fn metrics(loaded: &Loaded) -> GatewayMetrics {
    let it = &loaded.settings.telemetry.metrics;
    let bounds = Bounds::new(it.bounds.iter().map(|it| it.get())).unwrap_or_default();
    GatewayMetrics::new(MetricLimits { bounds, routes: it.apis as usize, series: it.series as usize })
}

fn access(loaded: &Loaded, metrics: &GatewayMetrics, log: &Log) -> Result<Option<AccessLog>, StartError> {
    let telemetry = &loaded.settings.telemetry;
    let names: Vec<&str> = telemetry.hidden(&DEFAULT_NAMES).collect();
    let it = &telemetry.access_log;
    if !it.enabled {
        return Ok(None);
    }
    let options = Options {
        to: it.file.as_ref().map_or(Destination::Stdout, |it| Destination::File(loaded.path(it))),
        buffer: it.buffer.get() as usize,
        flush: it.flush.get(),
        queue: it.queue.get() as usize,
        headers: it.headers.iter().map(|it| it.0.clone()).collect(),
        redaction: Redaction::new(names),
    };
    AccessLog::start(options, metrics.access_log_written.clone(), metrics.access_log_dropped.clone(), log.clone())
        .map(Some)
        .map_err(other("the access log cannot be written"))
}

fn tokens(loaded: &Loaded) -> Result<Vec<(settings::secret::Hidden, bool)>, StartError> {
    let policy = loaded.secrets();
    let one = |it: &settings::listen::Token| {
        let token = policy.resolve_own(&it.token).map_err(other("an admin token cannot be read"))?;
        Ok((token, it.role == settings::listen::Role::Write))
    };
    loaded.settings.admin.tokens.iter().map(one).collect()
}

/// What is served before there are definitions.
fn nothing(shop: &Workshop) -> Arc<crate::route::api::Served> {
    match crate::compile::compile(shop, "", Vec::new(), &[], None).snapshot {
        Some(it) => it.served,
        None => unreachable!("no definitions have no faults"),
    }
}

/// Frees what was replaced, off the workers; then the workers let go of connections that nobody can ask for again.
async fn free<T: Send + 'static>(mut gone: mpsc::UnboundedReceiver<T>, workers: Vec<runtime::Worker>) {
    loop {
        // Now and then without a change too: a long request holds what it began with long after.
        if let Ok(it) = tokio::time::timeout(SWEEP_EVERY, gone.recv()).await {
            let Some(it) = it else { return };
            // Requests that began with it may hold it a little longer than we do.
            tokio::time::sleep(Duration::from_millis(100)).await;
            // Reloads in quick succession are freed together.
            let mut all = vec![it];
            while let Ok(it) = gone.try_recv() {
                all.push(it);
            }
            let _ = tokio::task::spawn_blocking(move || drop(all)).await;
        }
        for worker in &workers {
            worker.run_local(|local| async move {
                crate::proxy::http::sweep(&local);
                crate::proxy::http2::sweep(&local);
                crate::proxy::trpc::sweep(&local);
            });
        }
    }
}

async fn tick(log: Log) {
    loop {
        tokio::time::sleep(Duration::from_secs(5)).await;
        log.tick();
    }
}

fn bind_small(address: SocketAddr) -> Result<TcpListener, StartError> {
    let bind = || {
        let socket = if address.is_ipv6() { tokio::net::TcpSocket::new_v6() } else { tokio::net::TcpSocket::new_v4() }?;
        // Not shared: two gateways by mistake on one port are told here.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(128)
    };
    bind().map_err(other(format!("{address} cannot be listened on")))
}

/// How many connections one address may hold on an operator's listener.
const CALLS_PER_ADDRESS: usize = 64;

/// Who is connected to an operator's listener.
#[derive(Clone, Default)]
struct Callers(Rc<RefCell<HashMap<IpAddr, usize>>>);

/// One connection of a caller.
struct Caller(Callers, IpAddr);

impl Callers {
    fn enter(&self, ip: IpAddr) -> Option<Caller> {
        let mut all = self.0.borrow_mut();
        let count = all.entry(ip).or_default();
        if *count >= CALLS_PER_ADDRESS {
            return None;
        }
        *count += 1;
        Some(Caller(self.clone(), ip))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let mut all = self.0.0.borrow_mut();
        if let Some(count) = all.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.1);
            }
        }
    }
}

/// Serves an operator's listener on the admin thread.
fn attend(clerks: &Workers, listener: TcpListener, office: &Arc<Office>, door: Door) -> Result<(), StartError> {
    let (office, listener) = (office.clone(), listener.into_std().map_err(other("a listener cannot be used"))?);
    clerks.all()[0].run_local(move |_| async move {
        let Ok(listener) = TcpListener::from_std(listener) else { return };
        // Few and slow clients are all that belongs here; whoever holds connections takes none from the others.
        let limits = Rc::new(http1::Limits { body: admin::LARGEST_BODY as u64, idle: Duration::from_secs(15), ..http1::Limits::default() });
        let (counters, drain, callers) = (Rc::new(Counters::default()), Drain::new(), Callers::default());
        loop {
            match listener.accept().await {
                Ok((stream, peer)) if drain.open() < 256 => {
                    let Some(call) = callers.enter(peer.ip().to_canonical()) else { continue };
                    let (limits, counters, drain, clerk) =
                        (limits.clone(), counters.clone(), drain.clone(), Clerk { office: office.clone(), door, peer });
                    tokio::task::spawn_local(async move {
                        let _call = call;
                        let _ = stream.set_nodelay(true);
                        drop(http1::serve(stream, BytesMut::new(), &limits, &counters, &clerk, &drain).await);
                    });
                }
                Ok(_) => (),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    });
    Ok(())
}

/// The exit code of an end that did not wait for the last connections.
const HURRIED: i32 = 5;

fn half_of_the_descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|it| it.starts_with("Max open files"));
    let soft = line.and_then(|it| it.split_whitespace().nth(3)).and_then(|it| it.parse::<usize>().ok());
    soft.map_or(512, |it| (it / 2).max(16))
}

fn http1_limits(it: &settings::limits::Limits) -> http1::Limits {
    http1::Limits {
        request_line: it.request.line.get() as usize,
        headers: http1::fields::FieldBounds {
            total: it.request.headers.get() as usize,
            line: it.request.header.get() as usize,
            count: it.request.header_count as usize,
        },
        header_time: it.request.head_time.get(),
        idle: it.connection.idle.get(),
        requests: it.connection.requests,
        age: it.connection.age.get(),
        body: it.body.size.get(),
        body_idle: it.body.idle.get(),
        body_time: it.body.time.get(),
        body_rate: it.body.least_rate.get() as u32,
        body_grace: it.body.slow_after.get(),
        write_stall: it.connection.write_stall.get(),
        tunnel_idle: it.stream.idle.get(),
        prior_knowledge: true,
    }
}

fn http2_limits(it: &settings::limits::Http2) -> http2::Limits {
    http2::Limits {
        streams: it.streams,
        stream_window: it.stream_window.get() as u32,
        connection_window: it.connection_window.get() as u32,
        resets: it.resets,
        resets_in_all: it.resets_in_all,
        control: it.control,
        empty_data: it.empty_data,
        continuations: it.continuations,
    }
}
