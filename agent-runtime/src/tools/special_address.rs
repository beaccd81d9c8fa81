//! Addresses that are no service's: those of the pod itself, of its node, and of the cloud's metadata. Pure.
//!
//! <https://www.iana.org/assignments/iana-ipv4-special-registry>. Private networks are none of them: services of a
//! cluster have their addresses there.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Addresses of clouds' metadata beside the link-local ones.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];
const METADATA_V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

/// An address that is no service's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} is {kind}; name another host, or set allowSpecialAddresses if the tool is meant to be there")]
pub struct SpecialAddress {
    /// The address.
    pub address: IpAddr,
    /// What it is.
    pub kind: SpecialKind,
}

/// What a special address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialKind {
    /// The pod itself.
    Loopback,
    /// The link of its node.
    LinkLocal,
    /// The cloud's metadata, with its credentials.
    Metadata,
    /// No address; systems take it for their own.
    Unspecified,
    /// Several hosts.
    Multicast,
}

impl fmt::Display for SpecialKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "the address of a cloud's metadata",
            Self::Unspecified => "an unspecified address",
            Self::Multicast => "a multicast or broadcast address",
        })
    }
}

impl SpecialAddress {
    /// Refuses an address that is no service's, in whatever form it is written.
    ///
    /// # Errors
    /// What it is.
    pub fn refuse(address: IpAddr) -> Result<(), Self> {
        let kind = match address {
            IpAddr::V4(v4) => kind_of_v4(v4),
            IpAddr::V6(v6) => kind_of_v6(v6),
        };
        kind.map_or(Ok(()), |kind| Err(Self { address, kind }))
    }
}

fn kind_of_v4(address: Ipv4Addr) -> Option<SpecialKind> {
    match address {
        _ if address == Ipv4Addr::new(169, 254, 169, 254) || METADATA_V4.contains(&address) => {
            Some(SpecialKind::Metadata)
        }
        _ if address.octets()[0] == 0 => Some(SpecialKind::Unspecified),
        _ if address.is_loopback() => Some(SpecialKind::Loopback),
        _ if address.is_link_local() => Some(SpecialKind::LinkLocal),
        _ if address.is_multicast() || address.is_broadcast() => Some(SpecialKind::Multicast),
        _ => None,
    }
}

fn kind_of_v6(address: Ipv6Addr) -> Option<SpecialKind> {
    match address {
        _ if METADATA_V6.contains(&address) => Some(SpecialKind::Metadata),
        _ if address.is_unspecified() => Some(SpecialKind::Unspecified),
        _ if address.is_loopback() => Some(SpecialKind::Loopback),
        _ if address.is_unicast_link_local() => Some(SpecialKind::LinkLocal),
        _ if address.is_multicast() => Some(SpecialKind::Multicast),
        _ => embedded(address).and_then(kind_of_v4),
    }
}

/// The IPv4 address that an IPv6 address stands for: mapped, compatible, of NAT64 and of 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(of(high, low)),
        [0x2002, high, low, ..] => Some(of(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("127.0.0.1", SpecialKind::Loopback)]
    #[case("127.255.0.9", SpecialKind::Loopback)]
    #[case("::1", SpecialKind::Loopback)]
    #[case("::ffff:127.0.0.1", SpecialKind::Loopback)]
    #[case("::127.0.0.1", SpecialKind::Loopback)]
    #[case("64:ff9b::7f00:1", SpecialKind::Loopback)]
    #[case("2002:7f00:1::", SpecialKind::Loopback)]
    #[case("0.0.0.0", SpecialKind::Unspecified)]
    #[case("0.1.2.3", SpecialKind::Unspecified)]
    #[case("::", SpecialKind::Unspecified)]
    #[case("169.254.1.1", SpecialKind::LinkLocal)]
    #[case("fe80::1", SpecialKind::LinkLocal)]
    #[case("169.254.169.254", SpecialKind::Metadata)]
    #[case("::ffff:169.254.169.254", SpecialKind::Metadata)]
    #[case("100.100.100.200", SpecialKind::Metadata)]
    #[case("168.63.129.16", SpecialKind::Metadata)]
    #[case("192.0.0.192", SpecialKind::Metadata)]
    #[case("fd00:ec2::254", SpecialKind::Metadata)]
    #[case("fd20:ce::254", SpecialKind::Metadata)]
    #[case("224.0.0.1", SpecialKind::Multicast)]
    #[case("255.255.255.255", SpecialKind::Multicast)]
    #[case("ff02::1", SpecialKind::Multicast)]
    fn an_address_that_is_no_services_is_refused(#[case] address: IpAddr, #[case] kind: SpecialKind) {
        assert_eq!(SpecialAddress::refuse(address), Err(SpecialAddress { address, kind }));
    }

    #[rstest]
    #[case("10.96.0.10")]
    #[case("172.16.0.1")]
    #[case("192.168.1.1")]
    #[case("100.64.0.1")]
    #[case("203.0.113.7")]
    #[case("fd00::1")]
    #[case("2001:db8::1")]
    #[case("::ffff:10.0.0.1")]
    fn addresses_of_services_and_of_private_networks_are_taken(#[case] address: IpAddr) {
        assert_eq!(SpecialAddress::refuse(address), Ok(()));
    }
}
