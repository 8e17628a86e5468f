//! The list of the families that the gateway itself writes.
use super::exposition::{Exposition, Kind};

/// The gateway's own families: name, help, kind. The list of the manual, too.
#[rustfmt::skip]
pub const OURS: [(&str, &str, Kind); 38] = [
    ("allium_requests_total", "Requests answered, by Api, method and status.", Kind::Counter),
    ("allium_request_duration_seconds", "From a request's head to its answer's last byte.", Kind::Histogram),
    ("allium_requests_in_flight", "Requests on their way.", Kind::Gauge),
    ("allium_received_bytes_total", "Bytes of request bodies.", Kind::Counter),
    ("allium_sent_bytes_total", "Bytes of answers' bodies.", Kind::Counter),
    ("allium_upstream_requests_total", "Calls to nodes, each attempt, by outcome.", Kind::Counter),
    ("allium_upstream_duration_seconds", "From a call's begin to its answer's head.", Kind::Histogram),
    ("allium_upstream_retries_total", "Calls that were repeated.", Kind::Counter),
    ("allium_upstream_retries_refused_total", "Calls that were not repeated because of the budget.", Kind::Counter),
    ("allium_upstream_ejections_total", "Nodes that were spared for a while because their calls failed.", Kind::Counter),
    ("allium_breaker_refused_total", "Calls that were not made because a breaker refused them.", Kind::Counter),
    ("allium_breaker_opened_total", "Circuits of breakers that opened.", Kind::Counter),
    ("allium_breaker_refusing", "Circuits of breakers that refuse calls now, or some of them.", Kind::Gauge),
    ("allium_upstream_nodes", "Nodes of an Upstream, by state.", Kind::Gauge),
    ("allium_upstream_connects_total", "Connections made to nodes, or not made.", Kind::Counter),
    ("allium_upstream_connections", "Connections to nodes that are open.", Kind::Gauge),
    ("allium_upstream_tls_handshakes_total", "TLS handshakes with nodes, by result: full, resumed, failed, timeout.", Kind::Counter),
    ("allium_connections", "Connections of clients that are open.", Kind::Gauge),
    ("allium_connections_accepted_total", "Connections of clients that were accepted.", Kind::Counter),
    ("allium_connections_refused_total", "Connections of clients that were closed at once because of a limit.", Kind::Counter),
    ("allium_tls_handshakes_total", "TLS handshakes of clients, by result: ok, failed, timeout.", Kind::Counter),
    ("allium_http2_connections_ended_total", "Connections of HTTP/2 that were ended for what their client did, by reason.", Kind::Counter),
    ("allium_proxy_headers_refused_total", "Connections closed because of the PROXY protocol: no header, a bad one, or from a stranger.", Kind::Counter),
    ("allium_refused_total", "Answers that the gateway made itself, by reason.", Kind::Counter),
    ("allium_reloads_total", "Reloads of the definitions, by result.", Kind::Counter),
    ("allium_definitions", "Definitions, by kind and state.", Kind::Gauge),
    ("allium_definitions_revision_info", "What the source calls the definitions that are served.", Kind::Info),
    ("allium_config_last_success_timestamp_seconds", "When definitions were last taken over, in seconds since 1970.", Kind::Gauge),
    ("allium_access_log_dropped_total", "Lines of the access log that were given up.", Kind::Counter),
    ("allium_access_log_written_total", "Lines of the access log that were handed on.", Kind::Counter),
    ("allium_meter_refused_total", "Figures of plugins that were refused: a bad name, or one too many.", Kind::Counter),
    ("allium_build_info", "The version of the gateway.", Kind::Info),
    ("allium_process_start_time_seconds", "When the process started, in seconds since 1970.", Kind::Gauge),
    ("allium_process_resident_memory_bytes", "Memory of the process that is resident.", Kind::Gauge),
    ("allium_process_threads", "Threads of the process.", Kind::Gauge),
    ("allium_process_cpu_seconds_total", "CPU time of the process, user and system.", Kind::Counter),
    ("allium_process_open_fds", "File descriptors that are open.", Kind::Gauge),
    ("allium_process_max_fds", "How many file descriptors the process may open.", Kind::Gauge),
];

/// Begins one of the families of [`OURS`].
pub(super) fn begin(to: &mut Exposition, name: &str) {
    if let Some((name, help, kind)) = OURS.iter().find(|it| it.0 == name) {
        to.family(name, help, *kind);
    }
}
