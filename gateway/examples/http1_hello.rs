//! Serves one connection with a fixed answer; what is left to measure is the codec and the connection loop.
use std::{convert::Infallible, time::Duration};

use bytes::{Bytes, BytesMut};
use contract::{Body, Problem};
use gateway::http1::{Counters, Drain, Handler, Incoming, Limits, Sent, serve};
use http::{HeaderValue, Response, header};
use tokio::net::TcpListener;

struct Hello(Bytes);

impl Handler for Hello {
    type Note = ();

    async fn call(&self, incoming: Incoming, (): &mut ()) -> Response<Body> {
        std::hint::black_box(&incoming.head);
        let mut response = Response::new(Body::Full(self.0.clone()));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    fn refuse(&self, problem: Box<Problem>, (): &mut ()) -> Response<Body> {
        let mut response = Response::new(Body::from(problem.message.to_string()));
        *response.status_mut() = problem.status();
        response
    }

    fn finished(&self, (): (), _: Sent) {}
}

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default())?;
    let served: Result<(), Infallible> = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:18099").await.expect("the port is free");
        let (stream, _) = listener.accept().await.expect("a client comes");
        let _ = stream.set_nodelay(true);
        let limits = Limits { requests: u32::MAX, age: Duration::MAX, ..Limits::default() };
        let hello = Hello(Bytes::from(vec![b'x'; 200]));
        let _ = tokio::task::spawn_local(async move {
            serve(stream, BytesMut::new(), &limits, &Counters::default(), &hello, &Drain::new()).await;
        })
        .await;
        Ok(())
    });
    let Ok(()) = served;
    Ok(())
}
