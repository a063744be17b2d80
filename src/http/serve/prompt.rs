//! A connection whose first bytes have to come soon, and whose requests have to be plain.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::scan::Scan;

/// As many bytes as it takes to tell HTTP/2 from HTTP/1. Only after them does the parser mind the
/// time by itself.
const OPENING_BYTES: usize = 24;

/// A stream that fails when its opening is late; what comes over it is scanned.
#[derive(Debug)]
pub(super) struct Prompt<T> {
    stream: T,
    missing: usize,
    deadline: Pin<Box<Sleep>>,
    scan: Scan,
}

impl<T> Prompt<T> {
    /// The opening has this much time from now.
    pub(super) fn new(stream: T, time: Duration) -> Self {
        let deadline = Box::pin(tokio::time::sleep(time));
        Self { stream, missing: OPENING_BYTES, deadline, scan: Scan::new() }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Prompt<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.missing > 0 && this.deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if let Some(end) = this.scan.instead(buffer.remaining()) {
            buffer.put_slice(end);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        let new = buffer.filled_mut().get_mut(before..).unwrap_or_default();
        this.missing = this.missing.saturating_sub(new.len());
        let kept = this.scan.pass(new);
        buffer.set_filled(before + kept);
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Prompt<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
