//! Listeners where nobody may connect, which count who does.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

/// A listener on an address that tenants must not reach.
#[derive(Debug, Clone)]
pub(crate) struct Trap {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    hits: Arc<AtomicUsize>,
}

impl Trap {
    /// Sets one up; `None` where the machine has no such address or the port is taken.
    pub(crate) async fn at(address: IpAddr, port: u16) -> Option<Self> {
        let listener = TcpListener::bind((address, port)).await.ok()?;
        let address = listener.local_addr().unwrap();
        let hits = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&hits);
        #[expect(clippy::disallowed_methods, reason = "a fake peer ends with its test")]
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Some(Self { address, hits })
    }

    /// One on every address of this machine that is closed to tenants, all on one port.
    pub(crate) async fn everywhere() -> Vec<Self> {
        let first = Self::at("127.0.0.1".parse().unwrap(), 0).await.unwrap();
        let port = first.address.port();
        let mut traps = vec![first];
        for other in ["127.0.0.2", "127.255.255.254", "::1"].map(|text| text.parse().unwrap()) {
            traps.extend(Self::at(other, port).await);
        }
        for promised in given_addresses() {
            traps.push(Self::at(promised, port).await.expect("the machine has the address"));
        }
        if let Some(own) = own_address() {
            traps.extend(Self::at(own, port).await);
        }
        traps
    }

    /// How many have connected so far.
    pub(crate) fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }

    /// Fails unless nobody has connected so far; then connects, so that the count is seen to count.
    pub(crate) async fn assert_untouched(&self) {
        assert_eq!(self.hits.load(Ordering::SeqCst), 0, "somebody reached {}", self.address);
        drop(TcpStream::connect(self.address).await.expect("the trap is reachable"));
        let counted = async {
            while self.hits.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), counted).await.expect("the count counts");
    }
}

/// The closed addresses that this machine was given for the tests: some where they run in a network of
/// their own, else none.
#[expect(clippy::disallowed_methods, reason = "tests read the environment themselves")]
fn given_addresses() -> Vec<IpAddr> {
    let given = std::env::var("AGENTLING_TEST_ADDRESSES").unwrap_or_default();
    given.split(',').filter(|text| !text.is_empty()).map(|text| text.parse().unwrap()).collect()
}

/// The address under which others know this machine; nothing is sent to find it out.
pub(crate) fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.31.196.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|own| !own.is_loopback() && !own.is_unspecified())
}
