//! hyper as a client: an independent judge of the framing, for tests that do not care about bytes.
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// One kept-alive connection.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    pub async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("a handshake");
        // Ends with the sender.
        tokio::spawn(connection);
        Self { sender }
    }

    pub async fn send(&mut self, request: Request<impl Into<Bytes>>) -> hyper::Result<Response<Bytes>> {
        self.sender.ready().await?;
        let (parts, body) = self.sender.send_request(request.map(|it| Full::new(it.into()))).await?.into_parts();
        Ok(Response::from_parts(parts, body.collect().await?.to_bytes()))
    }

    pub async fn get(&mut self, target: &str) -> hyper::Result<Response<Bytes>> {
        self.send(Request::get(target).header("host", "gateway.test").body("").expect("a request")).await
    }
}
