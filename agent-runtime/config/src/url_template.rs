//! URL templates of HTTP tools: the host is fixed, placeholders stand in the path or the query only. Pure.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::BTreeMap;

/// A parsed URL template.
///
/// # Invariants
/// Every expansion has the template's scheme, authority and number of path segments. Arguments are percent-encoded (all
/// but RFC 3986 "unreserved"). An argument that would make a path segment empty, `.` or `..` is refused, because URL
/// parsers remove such segments even when they are encoded. The same holds for `..` between separators that an argument
/// holds: some servers decode them before they split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlTemplate {
    /// `scheme://authority`.
    origin: String,
    host: Host,
    path: Vec<Part>,
    query: Option<Vec<Part>>,
}

/// Where a URL leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// To this address.
    Address(IpAddr),
    /// To whatever addresses the name has.
    Name(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Argument(String),
}

/// Why a URL template cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlTemplateError {
    /// Not `http://` or `https://`.
    #[error("must begin with http:// or https://")]
    Scheme,
    /// No host, credentials in the URL, or a placeholder in the authority.
    #[error("the host must be written out, without user information or placeholders; use headersFrom for credentials")]
    Authority,
    /// A number for an address, such as `2130706433` or `0x7f.1`, or a host that is percent-encoded.
    #[error("the host {host:?} is another address than it seems; write a name, or an address as 10.1.2.3 or [fd00::1]")]
    Host {
        /// The host.
        host: String,
    },
    /// Not a port.
    #[error("the port {port:?} is not one; write a number from 1 to 65535")]
    Port {
        /// What stands there.
        port: String,
    },
    /// A fragment is never sent.
    #[error("must not have a fragment (#)")]
    Fragment,
    /// A space, a control character or one outside ASCII.
    #[error("has the character {character:?}; write it percent-encoded")]
    Character {
        /// The offending character.
        character: char,
    },
    /// `{` without `}`, an empty name, or `}` alone.
    #[error("has a brace without a parameter's name; write placeholders as {{name}}")]
    Brace,
}

/// Why a template could not be filled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpandUrlError {
    /// No such argument.
    #[error("argument {name:?} is missing")]
    Missing {
        /// The placeholder.
        name: String,
    },
    /// The arguments leave a path segment empty, `.` or `..`.
    #[error("an argument is empty or a dot path, which the address cannot hold")]
    PathSegment,
}

impl UrlTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// See [`UrlTemplateError`].
    pub fn parse(template: &str) -> Result<Self, UrlTemplateError> {
        let scheme_end = ["http://", "https://"]
            .iter()
            .find(|scheme| template.starts_with(**scheme))
            .map(|scheme| scheme.len())
            .ok_or(UrlTemplateError::Scheme)?;
        if let Some(character) = template.chars().find(|c| !c.is_ascii_graphic()) {
            return Err(UrlTemplateError::Character { character });
        }
        if template.contains('#') {
            return Err(UrlTemplateError::Fragment);
        }
        let authority_end = template[scheme_end..].find(['/', '?']).map_or(template.len(), |end| scheme_end + end);
        let authority = &template[scheme_end..authority_end];
        if authority.is_empty() || authority.contains(['@', '{', '}', '\\']) || authority.starts_with(':') {
            return Err(UrlTemplateError::Authority);
        }
        let host = host_of(authority)?;
        if let Some(port) = port_of(authority).filter(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)) {
            return Err(UrlTemplateError::Port { port: port.to_owned() });
        }
        let (path, query) = match template[authority_end..].split_once('?') {
            Some((path, query)) => (path, Some(parse_parts(query)?)),
            None => (&template[authority_end..], None),
        };
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self { origin: template[..authority_end].into(), host, path: parse_parts(path)?, query })
    }

    /// Where it leads, whatever its arguments.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The names in the template's placeholders, in order, repeated ones too.
    pub fn placeholders(&self) -> impl Iterator<Item = &str> {
        self.path.iter().chain(self.query.iter().flatten()).filter_map(|part| match part {
            Part::Argument(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// Fills the placeholders with percent-encoded arguments.
    ///
    /// # Errors
    /// A missing argument, or one that would change the shape of the path.
    pub fn expand(&self, arguments: &BTreeMap<String, String>) -> Result<String, ExpandUrlError> {
        let path = fill(&self.path, arguments)?;
        let literal = fill_with(&self.path, |_| Ok("x".into()))?;
        let broken = |(segment, literal): (&str, &str)| {
            (segment.is_empty() && !literal.is_empty()) || matches!(segment, "." | "..")
        };
        // A server that decodes before it splits sees the separators that arguments hold.
        let decoded = fill_with(&self.path, |name| argument(name, arguments).map(str::to_owned))?;
        let is_dots = |segment: &str| matches!(segment, "." | "..");
        let leaves = decoded.split(['/', '\\']).any(is_dots);
        if leaves || path.split('/').zip(literal.split('/')).any(broken) {
            return Err(ExpandUrlError::PathSegment);
        }
        let mut url = format!("{}{path}", self.origin);
        if let Some(query) = &self.query {
            url.push('?');
            url.push_str(&fill(query, arguments)?);
        }
        Ok(url)
    }
}

/// Parsers of URLs take a host whose last label is a number for an address of IPv4, in several notations.
fn host_of(authority: &str) -> Result<Host, UrlTemplateError> {
    let wrong = |host: &str| UrlTemplateError::Host { host: host.to_owned() };
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, _) = rest.split_once(']').ok_or_else(|| wrong(authority))?;
        return host.parse().map(|address| Host::Address(IpAddr::V6(address))).map_err(|_| wrong(host));
    }
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    if host.contains(['%', ':', '[', ']']) {
        return Err(wrong(host));
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Ok(Host::Address(address.into()));
    }
    let last = host.strip_suffix('.').unwrap_or(host).rsplit('.').next().unwrap_or_default();
    let is_hexadecimal = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hexadecimal = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    let is_decimal = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    if is_decimal || hexadecimal.is_some_and(is_hexadecimal) {
        return Err(wrong(host));
    }
    Ok(Host::Name(host.to_owned()))
}

/// What stands behind the host. Colons within brackets belong to an address of IPv6.
fn port_of(authority: &str) -> Option<&str> {
    authority.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'))
}

fn fill(parts: &[Part], arguments: &BTreeMap<String, String>) -> Result<String, ExpandUrlError> {
    fill_with(parts, |name| argument(name, arguments).map(percent_encode))
}

fn argument<'a>(name: &str, arguments: &'a BTreeMap<String, String>) -> Result<&'a str, ExpandUrlError> {
    arguments.get(name).map(String::as_str).ok_or_else(|| ExpandUrlError::Missing { name: name.into() })
}

fn fill_with(parts: &[Part], value: impl Fn(&str) -> Result<String, ExpandUrlError>) -> Result<String, ExpandUrlError> {
    parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => Ok(text.clone()),
            Part::Argument(name) => value(name),
        })
        .collect()
}

/// Percent-encodes every byte but the unreserved characters of RFC 3986, section 2.3.
fn percent_encode(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn parse_parts(text: &str) -> Result<Vec<Part>, UrlTemplateError> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find(['{', '}']) {
        let (before, from_brace) = rest.split_at(open);
        let inner = from_brace.strip_prefix('{').ok_or(UrlTemplateError::Brace)?;
        let (name, after) = inner.split_once('}').ok_or(UrlTemplateError::Brace)?;
        if name.is_empty() || name.contains('{') {
            return Err(UrlTemplateError::Brace);
        }
        if !before.is_empty() {
            parts.push(Part::Text(before.into()));
        }
        parts.push(Part::Argument(name.into()));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.into()));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn arguments(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn arguments_are_encoded_wherever_they_stand() {
        let template = UrlTemplate::parse("http://facts:8000/v1/{entity}/x?field={property}").unwrap();
        let url = template.expand(&arguments(&[("entity", "x/a b"), ("property", "../x&y=é")]));
        assert_eq!(url.unwrap(), "http://facts:8000/v1/x%2Fa%20b/x?field=..%2Fx%26y%3D%C3%A9");
    }

    #[rstest]
    #[case::dots("..")]
    #[case::dot(".")]
    #[case::empty("")]
    #[case::way_up("../../admin")]
    #[case::way_up_later("x/../../admin")]
    #[case::way_up_at_the_end("x/..")]
    #[case::way_up_backwards("..\\..\\admin")]
    #[case::present_place("x/./y")]
    fn an_argument_cannot_remove_its_path_segment(#[case] value: &str) {
        let template = UrlTemplate::parse("http://facts/a/{entity}/b").unwrap();
        assert_eq!(template.expand(&arguments(&[("entity", value)])), Err(ExpandUrlError::PathSegment));
    }

    #[rstest]
    #[case("http://facts.agents.svc:8000/{a}", Host::Name("facts.agents.svc".into()))]
    #[case("https://facts", Host::Name("facts".into()))]
    #[case("http://10.1.2.3:80?a={a}", Host::Address([10, 1, 2, 3].into()))]
    #[case("http://[fd00::7]:80/", Host::Address("fd00::7".parse().unwrap()))]
    #[case("http://[::ffff:127.0.0.1]/", Host::Address("::ffff:127.0.0.1".parse().unwrap()))]
    #[case("http://1.2.3.example/", Host::Name("1.2.3.example".into()))]
    fn the_host_is_known_without_arguments(#[case] template: &str, #[case] host: Host) {
        assert_eq!(UrlTemplate::parse(template).unwrap().host(), &host);
    }

    #[rstest]
    #[case("2130706433")]
    #[case("0x7f000001")]
    #[case("0177.0.0.1")]
    #[case("127.1")]
    #[case("127.0.0.1.")]
    #[case("127.0.0.0x1")]
    #[case("127%2e0.0.1")]
    #[case("[fe80::1%25eth0]")]
    #[case("[::1")]
    #[case("fd00::1")]
    fn a_host_in_disguise_is_refused(#[case] host: &str) {
        let message = UrlTemplate::parse(&format!("http://{host}/")).unwrap_err().to_string();
        assert!(message.contains("is another address than it seems"), "{message}");
    }

    #[test]
    fn a_missing_argument_is_named() {
        let template = UrlTemplate::parse("http://facts/{entity}").unwrap();
        let message = template.expand(&BTreeMap::new()).unwrap_err().to_string();
        assert_eq!(message, "argument \"entity\" is missing");
    }

    #[rstest]
    #[case("ftp://facts/{a}", "must begin with http:// or https://")]
    #[case("http://{host}/a", "the host must be written out")]
    #[case("http://me:secret@facts/{a}", "the host must be written out")]
    #[case("http:///{a}", "the host must be written out")]
    #[case("http://facts:65536/{a}", "the port \"65536\" is not one; write a number from 1 to 65535")]
    #[case("http://[fd00::1]:0/{a}", "the port \"0\" is not one; write a number from 1 to 65535")]
    #[case("http://facts:/{a}", "the port \"\" is not one; write a number from 1 to 65535")]
    #[case("http://facts/{a}#top", "must not have a fragment")]
    #[case("http://facts/a b", "has the character ' '")]
    #[case("http://facts/{a", "brace without a parameter's name")]
    #[case("http://facts/{}", "brace without a parameter's name")]
    #[case("http://facts/a}", "brace without a parameter's name")]
    fn bad_templates_say_what_to_change(#[case] template: &str, #[case] expected: &str) {
        let message = UrlTemplate::parse(template).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }

    proptest! {
        #[test]
        fn no_argument_changes_origin_segments_or_query(a in ".*", b in ".*", c in ".*") {
            let template = UrlTemplate::parse("http://facts:1/v1/{a}{b}/end?q={c}").unwrap();
            if let Ok(url) = template.expand(&arguments(&[("a", &a), ("b", &b), ("c", &c)])) {
                let rest = url.strip_prefix("http://facts:1/v1/").unwrap();
                let (path, query) = rest.split_once('?').unwrap();
                let segments: Vec<_> = path.split('/').collect();
                prop_assert_eq!(segments.len(), 2);
                prop_assert!(!matches!(segments[0], "" | "." | ".."));
                prop_assert_eq!(segments[1], "end");
                let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~%".contains(c);
                prop_assert!(query.strip_prefix("q=").unwrap().chars().all(allowed), "{}", query);
            }
        }
    }
}
