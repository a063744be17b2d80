//! Bodies of answers: taken while they arrive, and unpacked here, so that a small answer cannot become a
//! large one.

use std::io::Write as _;

use flate2::write::MultiGzDecoder;
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, HeaderMap, HeaderValue};

/// What requests say about the packing of their answers.
pub(super) const ACCEPTED: HeaderValue = HeaderValue::from_static("gzip");

/// How many bytes may come out of one that came in.
const MAX_RATIO: usize = 100;
/// Bytes up to which the ratio does not count: so few cost nothing.
const FREE: usize = 64 * 1024;
/// Bytes that are unpacked at once. Each yields about a thousand at most.
const PIECE: usize = 1024;

/// How a body ended.
#[derive(Debug)]
pub(super) enum End {
    /// It is whole.
    Reached,
    /// It has more bytes than are taken.
    Beyond,
    /// It becomes larger by unpacking than it may.
    Inflated,
    /// It is packed in a way that is not known, or is not what it says.
    Unreadable,
    /// The connection ended first.
    Broken(reqwest::Error),
}

/// Takes a body while it arrives, up to a bound on what comes out of it.
pub(super) async fn gather(response: &mut Response, bound: usize) -> (Vec<u8>, End) {
    let Some(mut body) = Body::of(response.headers(), bound) else {
        return (Vec::new(), End::Unreadable);
    };
    let end = loop {
        match response.chunk().await {
            Ok(None) => break body.finish().err().unwrap_or(End::Reached),
            Err(error) => break End::Broken(error),
            Ok(Some(chunk)) => {
                if let Err(end) = body.take(&chunk) {
                    break end;
                }
            }
        }
    };
    (body.into_bytes(), end)
}

/// A body as far as it came.
#[derive(Debug)]
struct Body {
    coding: Coding,
    bound: usize,
    taken: usize,
}

#[derive(Debug)]
enum Coding {
    Plain(Vec<u8>),
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
}

impl Body {
    /// `None` when it is packed in a way that is not known.
    fn of(headers: &HeaderMap, bound: usize) -> Option<Self> {
        let mut codings = headers.get_all(CONTENT_ENCODING).iter();
        let coding = match (codings.next(), codings.next()) {
            (None, _) => Coding::Plain(Vec::new()),
            (Some(coding), None) => coding_of(coding)?,
            (Some(_), Some(_)) => return None,
        };
        Some(Self { coding, bound, taken: 0 })
    }

    fn take(&mut self, chunk: &[u8]) -> Result<(), End> {
        chunk.chunks(PIECE).try_for_each(|piece| {
            self.taken += piece.len();
            match &mut self.coding {
                Coding::Plain(bytes) => bytes.extend_from_slice(piece),
                Coding::Gzip(packed) => packed.write_all(piece).map_err(|_| End::Unreadable)?,
            }
            self.judge()
        })
    }

    fn judge(&self) -> Result<(), End> {
        let came_out = match &self.coding {
            Coding::Plain(bytes) => bytes.len(),
            Coding::Gzip(packed) => packed.get_ref().len(),
        };
        if came_out > FREE && came_out > self.taken.saturating_mul(MAX_RATIO) {
            return Err(End::Inflated);
        }
        if came_out > self.bound { Err(End::Beyond) } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), End> {
        // An answer without a body may be declared as packed all the same.
        if let (Coding::Gzip(packed), 1..) = (&mut self.coding, self.taken) {
            packed.try_finish().map_err(|_| End::Unreadable)?;
        }
        self.judge()
    }

    fn into_bytes(self) -> Vec<u8> {
        let mut bytes = match self.coding {
            Coding::Plain(bytes) => bytes,
            Coding::Gzip(mut packed) => std::mem::take(packed.get_mut()),
        };
        bytes.truncate(self.bound);
        bytes
    }
}

fn coding_of(name: &HeaderValue) -> Option<Coding> {
    match name.to_str().ok()?.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Some(Coding::Plain(Vec::new())),
        "gzip" | "x-gzip" => Some(Coding::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))),
        _ => None,
    }
}
