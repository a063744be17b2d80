//! Which addresses no tenant may reach: everything that is not public unicast.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Networks of version 4 that are never connected to, as first address and prefix length.
const FORBIDDEN_V4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// The public part of version 6. Loopback, link-local, site-local, unique-local, multicast, the
/// translation prefixes `64:ff9b::` and the discard prefix `100::` all lie outside of it.
const PUBLIC_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Networks within [`PUBLIC_V6`] that are not public after all.
const FORBIDDEN_V6: &[(Ipv6Addr, u32)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Any port: nothing is sent to it.
const DISCARD: u16 = 9;

/// Addresses that begin alike: one address, or all that share so many bits with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    len: u32,
}

impl Network {
    /// All addresses that share their first `len` bits with this one.
    pub const fn new(address: IpAddr, len: u32) -> Self {
        Self { address, len }
    }

    /// Whether the address, or the one it embeds, belongs to it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let inner = match address {
            IpAddr::V6(v6) => embedded_v4(v6).map_or(address, IpAddr::V4),
            IpAddr::V4(_) => address,
        };
        match (self.address, inner) {
            (IpAddr::V4(net), IpAddr::V4(v4)) => v4_is_within(v4, (net, self.len)),
            (IpAddr::V6(net), IpAddr::V6(v6)) => v6_is_within(v6, (net, self.len)),
            _ => false,
        }
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        Self { address, len: bits(address) }
    }
}

const fn bits(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => Ipv4Addr::BITS,
        IpAddr::V6(_) => Ipv6Addr::BITS,
    }
}

/// Whether the address is one of this machine's, however public: the system then takes it as the source
/// of what it would send there. Nothing is sent.
pub(super) fn is_own(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, DISCARD))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}

/// Whether no tenant may reach the address.
pub(super) fn is_forbidden(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4_is_forbidden(v4),
        IpAddr::V6(v6) => embedded_v4(v6).map_or_else(|| v6_is_forbidden(v6), v4_is_forbidden),
    }
}

fn v4_is_forbidden(address: Ipv4Addr) -> bool {
    FORBIDDEN_V4.iter().any(|net| v4_is_within(address, *net))
}

const fn v4_is_within(address: Ipv4Addr, (net, len): (Ipv4Addr, u32)) -> bool {
    (address.to_bits() ^ net.to_bits()).leading_zeros() >= len
}

fn v6_is_forbidden(address: Ipv6Addr) -> bool {
    !v6_is_within(address, PUBLIC_V6) || FORBIDDEN_V6.iter().any(|net| v6_is_within(address, *net))
}

const fn v6_is_within(address: Ipv6Addr, (net, len): (Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ net.to_bits()).leading_zeros() >= len
}

/// The inner address of the mapped (`::ffff:a.b.c.d`) and compatible (`::a.b.c.d`) forms; `::` and
/// `::1` become `0.0.0.0` and `0.0.0.1`, which are forbidden as well.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, _, _] => {
            let [.., a, b, c, d] = address.octets();
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    }
}
