//! A gateway in the test's own process, with definitions in a folder of its own and ports that the system chose.
use std::{fmt::Display, net::SocketAddr, time::Duration};

use gateway::app::{self, App};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    folder::Folder,
    message::PATIENCE,
    wire::{self, Answer, Wire},
};

/// Where the definitions lie, below the folder of the settings.
pub const ROUTES: &str = "routes";

/// For tests of many requests: the access log is written, but nobody has to read it.
pub const SILENT: &str = "telemetry: {access_log: {file: /dev/null}}";

/// What a gateway is started with.
pub struct Setup {
    folder: Folder,
    settings: String,
    /// Further keys of a second listener.
    second: Option<String>,
}

/// A running gateway; stops when dropped.
pub struct Gateway {
    app: Option<App>,
    pub folder: Folder,
    pub address: SocketAddr,
    pub admin: SocketAddr,
}

impl Setup {
    /// One more file of definitions, or one that they name.
    pub fn file(self, name: &str, text: &str) -> Self {
        self.folder.write(name, text);
        self
    }

    /// Further lines of `allium.yaml`.
    pub fn settings(mut self, lines: &str) -> Self {
        self.settings.push_str(lines);
        self.settings.push('\n');
        self
    }

    /// A second listener, on another port, with these keys.
    pub fn listen(mut self, keys: &str) -> Self {
        self.second = Some(keys.into());
        self
    }

    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    pub async fn start(self) -> Gateway {
        self.try_start().await.unwrap_or_else(|why| panic!("{why}"))
    }

    /// For tests of a start that fails.
    pub async fn try_start(self) -> Result<Gateway, String> {
        let second = self.second.as_ref().map_or_else(String::new, |it| format!(", {{address: \"127.0.0.1:0\", {it}}}"));
        let fixed = format!("listen: [{{address: \"127.0.0.1:0\"}}{second}]\ndefinitions: {{dir: routes}}\n");
        // What most tests want, unless one says otherwise: one thread, and an end without a wait for load balancers.
        let usual = ["admin: {address: \"127.0.0.1:0\"}\n", "workers: 1\n", "limits: {drain: {wait: 1ms, time: 2s}}\n"];
        let stated = |it: &str| it.split_once(':').is_some_and(|(key, _)| self.settings.contains(&format!("{key}:")));
        let usual: String = usual.into_iter().filter(|it| !stated(it)).collect();
        let path = self.folder.write("allium.yaml", &format!("{fixed}{usual}{}", self.settings));
        // Starting builds runtimes, which must not happen on a runtime's thread.
        let started = tokio::task::spawn_blocking(move || {
            let settings = app::settings_of(&path).map_err(|why| why.to_string())?;
            App::start(settings, plugins::ALL).map_err(|why| why.to_string())
        });
        let app = started.await.expect("the start does not panic")?;
        let (address, admin) = (app.address(0), app.admin_address().expect("an admin listener"));
        Ok(Gateway { app: Some(app), folder: self.folder, address, admin })
    }
}

impl Gateway {
    pub fn with(definitions: &str) -> Setup {
        let folder = Folder::new();
        folder.write("routes/api.yaml", definitions);
        Setup { folder, settings: String::new(), second: None }
    }

    pub async fn serving(definitions: &str) -> Self {
        Self::with(definitions).start().await
    }

    /// With everything that lies in a folder, as another gateway has left it.
    pub async fn again(folder: Folder) -> Self {
        Setup { folder, settings: String::new(), second: None }.start().await
    }

    /// Where the second listener is.
    pub fn second(&self) -> SocketAddr {
        self.app.as_ref().expect("it runs").address(1)
    }

    /// One request on a connection of its own: `ask("POST /x", &["a: b"], "body")`.
    pub async fn ask(&self, start: &str, headers: &[&str], body: impl AsRef<[u8]>) -> Answer {
        wire::ask(self.address, start, headers, body).await
    }

    pub async fn get(&self, target: &str) -> Answer {
        self.ask(&format!("GET {target}"), &[], "").await
    }

    pub async fn wire(&self) -> Wire {
        Wire::open(self.address).await
    }

    /// Asks the admin listener.
    pub async fn admin(&self, target: &str) -> Answer {
        wire::ask(self.admin, &format!("GET {target}"), &["host: localhost"], "").await
    }

    /// The figures, once each of these is in one of their lines: an answer is counted right after its last byte has left.
    pub async fn figures(&self, wanted: &[&str]) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = self.admin("/metrics").await.is(200).text();
            match wanted.iter().find(|it| !text.contains(**it)) {
                None => return text,
                Some(it) => assert!(Instant::now() < end, "never {it} in\n{text}"),
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// What `/ready?verbose` reports.
    pub async fn report(&self) -> Value {
        self.admin("/ready?verbose").await.json()
    }

    /// Makes a change in the folder of definitions, and waits until the gateway reports another revision or other faults.
    pub async fn reload(&self, change: impl FnOnce(&Folder)) -> Value {
        let before = self.report().await;
        change(&self.folder);
        let end = Instant::now() + PATIENCE;
        loop {
            let now = self.report().await;
            if now["revision"] != before["revision"] || now["faults"] != before["faults"] {
                return now;
            }
            assert!(Instant::now() < end, "nothing changed in {before}");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Puts definitions in the place of `api.yaml`, at once, and waits until they are served.
    ///
    /// Written in place, a busy machine may show half of it for a while, which is another report than the one that is waited for.
    pub async fn redefine(&self, definitions: &str) -> Value {
        self.reload(|it| it.replace("routes/api.yaml", definitions)).await
    }

    /// Drains and waits for the end.
    pub async fn stop(mut self) {
        let app = self.app.take().expect("it runs");
        tokio::task::spawn_blocking(|| app.stop()).await.expect("the stop does not panic");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(app) = self.app.take() {
            // Draining waits for backends that live on this thread, so it is left to another.
            std::thread::spawn(|| app.stop());
        }
    }
}

/// Puts values where `$1`, `$2`, … stand: definitions are full of braces, which `format!` would want doubled.
pub fn fill(text: &str, values: &[&dyn Display]) -> String {
    let numbered = values.iter().enumerate().rev();
    numbered.fold(text.to_string(), |text, (at, value)| text.replace(&format!("${}", at + 1), &value.to_string()))
}

/// An Upstream `echo` and one Api `a` that proxies this pattern to it, with further lines of the Api.
pub fn echo_api(backend: SocketAddr, pattern: &str, more: &str) -> String {
    let proxy = if more.contains("proxy:") { "" } else { "proxy: {http: {upstream: echo}}\n" };
    let inbound = if more.contains("inbound:") { String::new() } else { format!("inbound: {{match: \"{pattern}\"}}\n") };
    let text = "kind: Upstream\nname: echo\nnodes: [{address: $1}]\n---\nkind: Api\ninfo: {name: a, version: v1}\n$2$3$4\n";
    fill(text, &[&backend, &inbound, &proxy, &more])
}
