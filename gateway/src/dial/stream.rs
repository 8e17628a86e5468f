//! The bytes of a connection, in the clear or inside of TLS.
use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

/// A connection to a node.
pub enum Stream {
    Tcp(TcpStream),
    // On the heap: the state of TLS is many times as large as a socket.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// The socket below.
    pub fn socket(&self) -> SockRef<'_> {
        SockRef::from(self.tcp())
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Tcp(it) => it,
            Self::Tls(it) => it.get_ref().0,
        }
    }

    /// Whether nothing came and the other side did not close, as far as the last look at the sockets told; costs no system call.
    /// What TLS says for itself, such as a ticket, is taken in.
    pub fn is_quiet(&mut self) -> bool {
        match self {
            Self::Tcp(it) => matches!(it.try_read(&mut [0; 1]), Err(error) if error.kind() == io::ErrorKind::WouldBlock),
            Self::Tls(it) => {
                let mut byte = [0; 1];
                // Nobody waits for an idle connection, so nobody's waker is lost.
                let mut cx = Context::from_waker(Waker::noop());
                Pin::new(&mut **it).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)).is_pending()
            }
        }
    }

    /// As [`Self::is_quiet`], asked of the kernel.
    pub fn is_surely_quiet(&self) -> bool {
        let peek = self.socket().peek(&mut [MaybeUninit::uninit(); 1]);
        matches!(peek, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends what TLS holds back; in the clear there is no such thing.
    pub fn poll_push(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) => Poll::Ready(Ok(())),
            Self::Tls(it) => Pin::new(&mut **it).poll_flush(cx),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(it) => Pin::new(it).poll_read(cx, buf),
            Self::Tls(it) => Pin::new(&mut **it).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(it) => Pin::new(it).poll_write(cx, buf),
            Self::Tls(it) => Pin::new(&mut **it).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(it) => Pin::new(it).poll_write_vectored(cx, bufs),
            Self::Tls(it) => Pin::new(&mut **it).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(it) => it.is_write_vectored(),
            Self::Tls(it) => it.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_push(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(it) => Pin::new(it).poll_shutdown(cx),
            Self::Tls(it) => Pin::new(&mut **it).poll_shutdown(cx),
        }
    }
}
