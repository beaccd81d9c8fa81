//! Addresses at which services of tools may be. Pure.
//!
//! The registries of special addresses:
//! <https://www.iana.org/assignments/iana-ipv4-special-registry> and
//! <https://www.iana.org/assignments/iana-ipv6-special-registry>. A cluster's Services have private addresses, so these
//! give no reason to refuse; addresses of the pod itself, of its node's link and of a cloud's metadata are.

use core::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// The word for every address of the internet.
pub(crate) const PUBLIC: &str = "Public";
/// Where clouds answer with metadata and credentials.
const METADATA: [IpNetwork; 6] = [
    IpNetwork::v4([169, 254, 169, 254], 32),
    IpNetwork::v4([100, 100, 100, 200], 32),
    IpNetwork::v4([168, 63, 129, 16], 32),
    IpNetwork::v4([192, 0, 0, 192], 32),
    IpNetwork::v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32),
    IpNetwork::v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128),
];
/// Networks of IPv4 that the internet does not reach.
const PRIVATE_V4: [IpNetwork; 12] = [
    IpNetwork::v4([10, 0, 0, 0], 8),
    IpNetwork::v4([100, 64, 0, 0], 10),
    IpNetwork::v4([172, 16, 0, 0], 12),
    IpNetwork::v4([192, 0, 0, 0], 24),
    IpNetwork::v4([192, 0, 2, 0], 24),
    IpNetwork::v4([192, 88, 99, 0], 24),
    IpNetwork::v4([192, 168, 0, 0], 16),
    IpNetwork::v4([198, 18, 0, 0], 15),
    IpNetwork::v4([198, 51, 100, 0], 24),
    IpNetwork::v4([203, 0, 113, 0], 24),
    IpNetwork::v4([233, 252, 0, 0], 24),
    IpNetwork::v4([240, 0, 0, 0], 4),
];
/// The part of IPv6 that is the internet's, and what of it is not.
const GLOBAL_V6: IpNetwork = IpNetwork::v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);
const PRIVATE_V6: [IpNetwork; 3] = [
    IpNetwork::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    IpNetwork::v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    IpNetwork::v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
];

/// The networks that a tool's service may be in. None means any but those of special addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedNetworks(Vec<Allowed>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowed {
    Public,
    Network(IpNetwork),
}

/// Addresses that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IpNetwork {
    address: IpAddr,
    bits: u32,
}

/// Why an entry cannot be read as a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Neither an address with its length nor the word.
    #[error("{entry:?} is not a network; write it as 10.0.0.0/8, fd00::/8 or {PUBLIC}")]
    Malformed {
        /// What stands there.
        entry: String,
    },
    /// Bits are set behind the length.
    #[error("{entry:?} is an address in a network; write {network}")]
    HostBits {
        /// What stands there.
        entry: String,
        /// The network that holds it.
        network: String,
    },
}

/// An address that a tool must not call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForbiddenAddress {
    /// Services have other addresses.
    #[error("{address} is {kind}; name another host, or add its network to allowedNetworks")]
    Special {
        /// The address.
        address: IpAddr,
        /// What it is.
        kind: SpecialAddress,
    },
    /// Networks are listed, and none holds it.
    #[error("{address} is in none of allowedNetworks; add its network, or name another host")]
    NotListed {
        /// The address.
        address: IpAddr,
    },
}

/// What an address is that services do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialAddress {
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

impl fmt::Display for SpecialAddress {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Special(SpecialAddress),
    Private,
    Public,
}

impl AllowedNetworks {
    /// Reads a list of networks, each such as `10.0.0.0/8` or the word `Public`.
    ///
    /// # Errors
    /// The first entry that cannot be read.
    pub fn parse(entries: &[String]) -> Result<Self, NetworkError> {
        entries.iter().map(|entry| Allowed::parse(entry)).collect::<Result<_, _>>().map(Self)
    }

    /// Checks an address, in whatever form it is written: IPv6 has several for one of IPv4.
    ///
    /// # Errors
    /// Why it must not be called.
    pub fn check(&self, address: IpAddr) -> Result<(), ForbiddenAddress> {
        let address = address.to_canonical();
        let kind = kind_of(address);
        match (self.0.as_slice(), kind) {
            ([], Kind::Special(kind)) => Err(ForbiddenAddress::Special { address, kind }),
            ([], Kind::Private | Kind::Public) => Ok(()),
            (listed, _) if listed.iter().any(|allowed| allowed.holds(address, kind)) => Ok(()),
            _ => Err(ForbiddenAddress::NotListed { address }),
        }
    }
}

impl Allowed {
    fn parse(entry: &str) -> Result<Self, NetworkError> {
        if entry == PUBLIC {
            return Ok(Self::Public);
        }
        let malformed = || NetworkError::Malformed { entry: entry.to_owned() };
        let (address, bits) = entry.split_once('/').ok_or_else(malformed)?;
        let address: IpAddr = address.parse().map_err(|_| malformed())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let is_plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = bits.parse().ok().filter(|bits| is_plain && *bits <= longest).ok_or_else(malformed)?;
        let network = IpNetwork { address, bits };
        if network.first() != address {
            let network = format!("{}/{bits}", network.first());
            return Err(NetworkError::HostBits { entry: entry.to_owned(), network });
        }
        Ok(Self::Network(network))
    }

    fn holds(self, address: IpAddr, kind: Kind) -> bool {
        match self {
            Self::Public => kind == Kind::Public,
            Self::Network(network) => network.holds(address),
        }
    }
}

impl IpNetwork {
    const fn v4([a, b, c, d]: [u8; 4], bits: u32) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits }
    }

    const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], bits: u32) -> Self {
        Self { address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), bits }
    }

    fn first(self) -> IpAddr {
        match self.address {
            IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & high_bits_v4(self.bits)).into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & high_bits_v6(self.bits)).into(),
        }
    }

    fn holds(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(first), IpAddr::V4(v4)) => (first.to_bits() ^ v4.to_bits()) & high_bits_v4(self.bits) == 0,
            (IpAddr::V6(first), IpAddr::V6(v6)) => (first.to_bits() ^ v6.to_bits()) & high_bits_v6(self.bits) == 0,
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

fn high_bits_v4(bits: u32) -> u32 {
    u32::MAX.checked_shl(32 - bits).unwrap_or_default()
}

fn high_bits_v6(bits: u32) -> u128 {
    u128::MAX.checked_shl(128 - bits).unwrap_or_default()
}

fn kind_of(address: IpAddr) -> Kind {
    match address {
        _ if METADATA.iter().any(|network| network.holds(address)) => Kind::Special(SpecialAddress::Metadata),
        IpAddr::V4(v4) => kind_of_v4(v4),
        IpAddr::V6(v6) => kind_of_v6(v6),
    }
}

fn kind_of_v4(address: Ipv4Addr) -> Kind {
    match address {
        _ if address.octets()[0] == 0 => Kind::Special(SpecialAddress::Unspecified),
        _ if address.is_loopback() => Kind::Special(SpecialAddress::Loopback),
        _ if address.is_link_local() => Kind::Special(SpecialAddress::LinkLocal),
        _ if address.is_multicast() || address.is_broadcast() => Kind::Special(SpecialAddress::Multicast),
        _ if PRIVATE_V4.iter().any(|network| network.holds(address.into())) => Kind::Private,
        _ => Kind::Public,
    }
}

fn kind_of_v6(address: Ipv6Addr) -> Kind {
    match address {
        _ if address.is_unspecified() => Kind::Special(SpecialAddress::Unspecified),
        _ if address.is_loopback() => Kind::Special(SpecialAddress::Loopback),
        _ if address.is_unicast_link_local() => Kind::Special(SpecialAddress::LinkLocal),
        _ if address.is_multicast() => Kind::Special(SpecialAddress::Multicast),
        _ => match embedded(address).map(|v4| kind_of(v4.into())) {
            Some(kind) => kind,
            None if GLOBAL_V6.holds(address.into()) && !PRIVATE_V6.iter().any(|n| n.holds(address.into())) => {
                Kind::Public
            }
            None => Kind::Private,
        },
    }
}

/// The IPv4 address that an IPv6 address leads to: compatible, translated, of NAT64, of 6to4 and of Teredo. Mapped ones
/// have become IPv4 before.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => Some(of(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 1, _, _, _, high, low] => Some(of(high, low)),
        [0x2002, high, low, ..] => Some(of(high, low)),
        [0x2001, 0, _, _, _, _, high, low] => Some(of(!high, !low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    fn networks(entries: &[&str]) -> Result<AllowedNetworks, String> {
        let entries: Vec<_> = entries.iter().map(|entry| (*entry).to_owned()).collect();
        AllowedNetworks::parse(&entries).map_err(|error| error.to_string())
    }

    #[rstest]
    #[case("127.0.0.1", SpecialAddress::Loopback)]
    #[case("127.255.0.9", SpecialAddress::Loopback)]
    #[case("::1", SpecialAddress::Loopback)]
    #[case("::127.0.0.1", SpecialAddress::Loopback)]
    #[case("::ffff:0:127.0.0.1", SpecialAddress::Loopback)]
    #[case("64:ff9b::7f00:1", SpecialAddress::Loopback)]
    #[case("64:ff9b:1::7f00:1", SpecialAddress::Loopback)]
    #[case("2002:7f00:1::", SpecialAddress::Loopback)]
    #[case("2001:0:102:304::80ff:fffe", SpecialAddress::Loopback)]
    #[case("0.0.0.0", SpecialAddress::Unspecified)]
    #[case("0.1.2.3", SpecialAddress::Unspecified)]
    #[case("::", SpecialAddress::Unspecified)]
    #[case("169.254.1.1", SpecialAddress::LinkLocal)]
    #[case("fe80::1", SpecialAddress::LinkLocal)]
    #[case("febf::1", SpecialAddress::LinkLocal)]
    #[case("169.254.169.254", SpecialAddress::Metadata)]
    #[case("64:ff9b::a9fe:a9fe", SpecialAddress::Metadata)]
    #[case("100.100.100.200", SpecialAddress::Metadata)]
    #[case("64:ff9b::6464:64c8", SpecialAddress::Metadata)]
    #[case("168.63.129.16", SpecialAddress::Metadata)]
    #[case("192.0.0.192", SpecialAddress::Metadata)]
    #[case("fd00:ec2::254", SpecialAddress::Metadata)]
    #[case("fd00:ec2::23", SpecialAddress::Metadata)]
    #[case("fd20:ce::254", SpecialAddress::Metadata)]
    #[case("224.0.0.1", SpecialAddress::Multicast)]
    #[case("255.255.255.255", SpecialAddress::Multicast)]
    #[case("ff02::1", SpecialAddress::Multicast)]
    fn an_address_that_is_no_services_is_refused(#[case] address: IpAddr, #[case] kind: SpecialAddress) {
        let refused = Err(ForbiddenAddress::Special { address, kind });
        assert_eq!(AllowedNetworks::default().check(address), refused);
    }

    #[test]
    fn an_address_of_ipv4_is_the_same_in_the_form_of_ipv6() {
        let refused = |address: &str| {
            let address: IpAddr = address.parse().expect("it is an address");
            AllowedNetworks::default().check(address)
        };
        assert_eq!(refused("::ffff:169.254.169.254"), refused("169.254.169.254"));
        assert_eq!(refused("::ffff:127.0.0.1"), refused("127.0.0.1"));
        let inside = networks(&["10.0.0.0/8"]).expect("it is a network");
        assert_eq!(inside.check("::ffff:10.1.2.3".parse().expect("it is an address")), Ok(()));
    }

    #[rstest]
    #[case("10.96.0.10")]
    #[case("172.16.0.1")]
    #[case("192.168.1.1")]
    #[case("100.64.0.1")]
    #[case("240.0.0.7")]
    #[case("203.0.113.7")]
    #[case("8.8.8.8")]
    #[case("fd00::1")]
    #[case("2001:db8::1")]
    #[case("2606:4700::1111")]
    #[case("::ffff:10.0.0.1")]
    fn services_of_a_cluster_and_of_the_internet_are_taken(#[case] address: IpAddr) {
        assert_eq!(AllowedNetworks::default().check(address), Ok(()));
    }

    #[rstest]
    #[case("8.8.8.8", true)]
    #[case("2606:4700::1111", true)]
    #[case("64:ff9b::808:808", true)]
    #[case("10.0.0.1", false)]
    #[case("100.127.255.255", false)]
    #[case("172.31.255.255", false)]
    #[case("172.32.0.0", true)]
    #[case("192.168.0.1", false)]
    #[case("198.19.0.1", false)]
    #[case("203.0.113.7", false)]
    #[case("240.0.0.1", false)]
    #[case("127.0.0.1", false)]
    #[case("169.254.169.254", false)]
    #[case("64:ff9b::a00:1", false)]
    #[case("2002:a00:1::1", false)]
    #[case("fd12::1", false)]
    #[case("fec0::1", false)]
    #[case("100::1", false)]
    #[case("2001:20::1", false)]
    #[case("2001:db8::1", false)]
    #[case("3fff::1", false)]
    #[case("5f00::1", false)]
    fn public_is_the_internet_alone(#[case] address: IpAddr, #[case] is_public: bool) {
        let public = networks(&["Public"]).expect("it is the word");
        assert_eq!(public.check(address).is_ok(), is_public);
    }

    #[test]
    fn listed_networks_are_the_only_ones_and_may_be_special() {
        let listed = networks(&["127.0.0.0/8", "10.2.0.0/15", "fd00:1::/32", "192.0.2.1/32"]).expect("networks");
        let taken = ["127.0.0.1", "10.2.0.1", "10.3.255.255", "fd00:1:ffff::1", "192.0.2.1"];
        let refused = ["10.4.0.0", "10.1.255.255", "fd00:2::1", "::1", "192.0.2.2", "8.8.8.8", "169.254.169.254"];
        for (addresses, is_taken) in [(&taken[..], true), (&refused[..], false)] {
            for address in addresses {
                let address: IpAddr = address.parse().expect("it is an address");
                assert_eq!(listed.check(address).is_ok(), is_taken, "{address}");
            }
        }
        let everything = networks(&["0.0.0.0/0", "::/0"]).expect("networks");
        assert_eq!(everything.check(Ipv4Addr::LOCALHOST.into()), Ok(()));
        assert_eq!(everything.check(Ipv6Addr::LOCALHOST.into()), Ok(()));
    }

    #[rstest]
    #[case("10.0.0.1")]
    #[case("10.0.0.0/33")]
    #[case("10.0.0.0/+8")]
    #[case("10.0.0.0/")]
    #[case("fd00::/129")]
    #[case("facts.agents.svc")]
    #[case("public")]
    fn what_is_no_network_is_refused_with_examples(#[case] entry: &str) {
        let message = format!("{entry:?} is not a network; write it as 10.0.0.0/8, fd00::/8 or Public");
        assert_eq!(networks(&[entry]), Err(message));
    }

    #[rstest]
    #[case("10.1.2.3/8", "10.0.0.0/8")]
    #[case("fd00::1/8", "fd00::/8")]
    fn an_address_in_a_network_is_refused_with_the_network(#[case] entry: &str, #[case] network: &str) {
        assert_eq!(networks(&[entry]), Err(format!("{entry:?} is an address in a network; write {network}")));
    }
}
