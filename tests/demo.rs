//! The demo: the gateway with `routes/demo`, and its backends in the same process.
use std::{path::Path, process::ExitCode};

use gateway::app::{self, App};
use tests::demo::Backends;

const TRY: &str = "
The gateway serves routes/demo. In another terminal:

  curl -i 'http://127.0.0.1:8080/v2/customers/7?page=2'
  curl http://127.0.0.1:8080/v1/customers/7/overview
  curl 'http://127.0.0.1:8080/v2/customers/x?page=99'
  curl http://127.0.0.1:8080/hello/Ada

Change a file in routes/demo, save it, and ask again. Ctrl-C stops.
Each request writes one line of the access log here:
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("demo: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), String> {
    let _backends = Backends::in_place().await?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).join("allium.yaml");
    // Starting builds runtimes, which must not happen on a runtime's thread.
    let start = move || {
        let settings = app::settings_of(&path).map_err(|why| why.to_string())?;
        App::start(settings, plugins::ALL).map_err(|why| why.to_string())
    };
    let app = tokio::task::spawn_blocking(start).await.map_err(|why| why.to_string())??;
    println!("{TRY}");
    tokio::signal::ctrl_c().await.map_err(|why| why.to_string())?;
    println!("stopping");
    tokio::task::spawn_blocking(|| app.stop()).await.map_err(|why| why.to_string())
}
