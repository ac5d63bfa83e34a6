//! The location of a store: as the user wrote it, to open it, and without its secrets, to show it.

use super::open;
use lmc_format::{Error, Result};
use std::fmt;

/// A directory or a URL. A URL is shown without user, password, query and fragment: they may hold
/// keys and signatures that must not end up in a log. URLs of Azure have the container in the place
/// of the user, and it is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Location(String);

impl Location {
    /// The whole location, including secrets: to open it, never to print it.
    pub fn with_secrets(&self) -> &str {
        &self.0
    }
}

impl From<String> for Location {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Location {
    fn from(text: &str) -> Self {
        Self(text.to_string())
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Location({:?})", shown(&self.0))
    }
}

/// Text in which every URL is shown as a [`Location`] shows it.
pub fn without_secrets(text: &str) -> String {
    map_words(text, |word| match as_read(word) {
        read if !read.contains(":/") => word.to_string(),
        word => {
            let colon = word.find(":/").unwrap_or_default();
            let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
            let before = word[..colon].trim_end_matches(is_scheme);
            let url = &word[before.len()..];
            // Brackets and full stops after a URL belong to the sentence.
            let end = url.trim_end_matches(|c: char| ").,;:'`]}".contains(c)).len();
            format!("{before}{}{}", shown(&url[..end]), &url[end..])
        }
    })
}

/// Text with each of its words replaced. Words end at blanks, line ends, quotation marks and angle
/// brackets, none of which occurs in a URL. Programs that read URLs leave out other control
/// characters, so these do not end a word.
pub(super) fn map_words(text: &str, map: impl Fn(&str) -> String) -> String {
    let is_blank = |c: char| c == '\n' || c.is_whitespace() && !c.is_control();
    let is_end = |c: char| is_blank(c) || "\"<>".contains(c);
    let parts = text.split_inclusive(is_end);
    let mapped = parts.map(|part| {
        let word = part.trim_end_matches(is_end);
        map(word) + &part[word.len()..]
    });
    mapped.collect()
}

/// A URL without its secrets; any other text is returned as it is.
fn shown(text: &str) -> String {
    let url = as_read(text);
    match split_scheme(&url) {
        Some((scheme, rest)) => without_hidden(scheme, rest),
        // If the URL is not valid, nobody knows where its secrets are.
        None if is_meant_as_url(&url) => "...".to_string(),
        None => text.to_string(),
    }
}

/// The URL made of these two parts, without its secrets.
fn without_hidden(scheme: &str, rest: &str) -> String {
    let (head, hidden) = split_at_any(rest, &['?', '#']);
    let (authority, path) = split_at_any(head, &['/']);
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let container = match may_name_container(scheme) && !user.is_empty() && !user.contains(':') {
        true => format!("{user}@"),
        false => String::new(),
    };
    // A password that contains `/`, `?` or `#` does not end where it seems to, and a second URL may
    // follow. Then everything is hidden.
    let is_odd = authority.contains([':', '@']) || path.contains(":/");
    let is_cut = is_odd && (path.contains('@') || hidden.contains('@'));
    match is_cut || !has_port_or_none(host) {
        true => format!("{scheme}..."),
        false => format!("{scheme}{container}{host}{path}"),
    }
}

/// Whether a URL with this scheme may have a container in the place of a user.
fn may_name_container(scheme: &str) -> bool {
    ["az", "abfs", "abfss"].contains(&scheme.trim_end_matches(['/', ':']))
}

/// A text as programs read URLs: without blanks at its ends, and without control characters.
fn as_read(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_string()
}

/// Whether a text is meant as a URL, valid or not: it starts like one, with the colon or with
/// something else before two slashes.
fn is_meant_as_url(text: &str) -> bool {
    let is_scheme = |name: &str| {
        let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_ascii_lowercase();
        open::is_scheme(&name)
    };
    let before = |end: &str| text.split_once(end).map(|(name, _)| name);
    // A leading dot or slash says that it is a directory.
    let is_path = text.starts_with(['.', '/']);
    let begins = [":", "//"].into_iter().filter_map(before).any(is_scheme);
    text.contains("://") || begins && !is_path
}

/// Fails if a location is almost a URL, or is a URL with a user or a password. With a leading blank
/// or a tab in it, it would be a directory name to us and a URL to others, and we would look for
/// its secrets in the wrong place.
pub(super) fn check(location: &str) -> Result<()> {
    let url = as_read(location);
    if !is_meant_as_url(&url) {
        return Ok(());
    }
    if url == location && split_scheme(&url).is_some_and(|(scheme, _)| scheme.ends_with("://")) {
        return refuse_user(&url).and_then(|()| refuse_query(&url));
    }
    let message = format!(
        "{}: the URL of a store is written as s3://BUCKET/PREFIX, without spaces at its ends and \
         without control characters; write ./NAME for a directory of such a name",
        shown(location)
    );
    Err(Error::invalid(message))
}

/// Fails if a URL has a user or a password. They are not used, so they would be ignored silently;
/// and others can read them in a command line or a file.
fn refuse_user(url: &str) -> Result<()> {
    let Some((scheme, rest)) = split_scheme(url) else { return Ok(()) };
    let (authority, _) = split_at_any(rest, &['/', '?', '#']);
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    if user.is_none_or(|user| may_name_container(scheme) && !user.contains(':')) {
        return Ok(());
    }
    let url = shown(url);
    let message = format!(
        "{url}: the URL of a store must have no user and no password; set AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY, or the variables of your cloud"
    );
    Err(Error::invalid(message))
}

/// Fails if the URL of a directory has a query or a fragment: it would become part of the name, and
/// may hold secrets.
fn refuse_query(url: &str) -> Result<()> {
    if !open::is_directory_url(url) || !url.contains(['?', '#']) {
        return Ok(());
    }
    let message = format!(
        "{}: the URL of a directory must have no query and no fragment; write /PATH or ./NAME for \
         a directory with ? or # in its name",
        shown(url)
    );
    Err(Error::invalid(message))
}

/// Whether the text after a colon is a port and not half of a password.
fn has_port_or_none(host: &str) -> bool {
    let port = host.rsplit_once(':').filter(|_| !host.ends_with(']'));
    port.is_none_or(|(_, port)| port.bytes().all(|c| c.is_ascii_digit()))
}

/// The start of a URL, such as `s3://`, and the rest. One slash is enough, since it is probably a
/// typing error.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once(":/")?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c));
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    is_name.then(|| text.split_at(text.len() - rest.len()))
}

fn split_at_any<'a>(text: &'a str, ends: &[char]) -> (&'a str, &'a str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users, passwords, queries and fragments are not shown; the rest of the location is.
    #[test]
    fn urls_are_shown_without_secrets() {
        for (given, wanted) in [
            ("s3://bucket/runs", "s3://bucket/runs"),
            ("s3://bucket/run@3", "s3://bucket/run@3"),
            ("s3://key:word@bucket/runs?sig=x#y", "s3://bucket/runs"),
            ("s3://key@bucket", "s3://bucket"),
            ("s3://bucket?sig=a@b", "s3://bucket"),
            ("https://host:9000/x", "https://host:9000/x"),
            ("file:///data/store", "file:///data/store"),
            ("abfss://box@account.host/x?sig=y", "abfss://box@account.host/x"),
            ("az://box@account/x", "az://box@account/x"),
            ("abfss://key:word@account/x", "abfss://account/x"),
            ("abfss://@account/x", "abfss://account/x"),
            ("http://[::1]/x", "http://[::1]/x"),
            ("http://[::1]:9000/x", "http://[::1]:9000/x"),
            ("http://key:word", "http://..."),
            ("s3://key:wo/rd@bucket", "s3://..."),
            ("s3://key:wo?rd@bucket", "s3://..."),
            ("s3://key:w@o/rd@bucket", "s3://..."),
            ("s3:/key:word@bucket", "s3:/bucket"),
            ("/data/what?/a@b", "/data/what?/a@b"),
            ("dir:with/colon@x", "dir:with/colon@x"),
            (" dir ", " dir "),
            ("a\tb", "a\tb"),
            (" s3://key:word@bucket/runs", "s3://bucket/runs"),
            ("s3://key:word@bucket/runs\n", "s3://bucket/runs"),
            ("s3:\t//key:word@bucket", "s3://bucket"),
            ("s\r3:/\0/key:w\x1bord@bucket", "s3://bucket"),
            ("\u{200b}s3://key:word@bucket", "..."),
            ("s3 ://key:word@bucket", "..."),
            ("s3: //key:word@bucket", "..."),
            ("s3:key:word@bucket", "..."),
            ("s3:\\\\key:word@bucket", "..."),
            ("", ""),
        ] {
            assert_eq!(Location::from(given).to_string(), wanted, "{given}");
        }
        let debug = format!("{:?}", Location::from("s3://key:word@bucket"));
        assert_eq!(debug, "Location(\"s3://bucket\")");
    }

    /// A user or a password is refused and not repeated; a container of Azure is accepted.
    #[test]
    fn users_and_passwords_are_refused() {
        for url in [
            "s3://TheKey:hunter2@bucket/runs",
            "s3://TheKey@bucket",
            "s3://TheKey:hunter2@bucket?sig=hunter2",
            "gs://TheKey:hunter2@bucket",
            "https://TheKey@host/x",
            "az://TheKey:hunter2@account/x",
            "s3://@bucket",
        ] {
            let said = refuse_user(url).expect_err(url).to_string();
            assert!(said.contains("no user") && !said.contains("TheKey"), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
        for url in [
            "s3://bucket/run@3",
            "s3://bucket?a@b",
            "az://box@account",
            "abfss://box@account.host/x",
        ] {
            assert!(refuse_user(url).is_ok(), "{url}");
        }
    }

    /// A location that is almost a URL is refused, and its secrets are not repeated. URLs and
    /// directories are accepted.
    #[test]
    fn what_is_nearly_a_url_is_refused() {
        for url in [
            " s3://TheKey:hunter2@bucket",
            "s3://TheKey:hunter2@bucket ",
            "\u{a0}s3://TheKey:hunter2@bucket",
            "s3:\t//TheKey:hunter2@bucket",
            "s3:/\n/TheKey:hunter2@bucket",
            "\0s3://TheKey:hunter2@bucket",
            "s3://TheKey:hun\x1bter2@bucket",
            "\u{200b}s3://TheKey:hunter2@bucket",
            "s3 ://TheKey:hunter2@bucket",
            "s3: //TheKey:hunter2@bucket",
            "S3:/TheKey:hunter2@bucket",
            "s3:TheKey:hunter2@bucket",
            "https:\\\\TheKey:hunter2@host",
            "file://\t/data",
            " s3://bucket",
        ] {
            let said = check(url).expect_err(url).to_string();
            assert!(said.contains("is written as"), "{said}");
            assert!(!said.contains("TheKey") && !said.contains("ter2"), "{said}");
        }
        for url in [
            "s3//TheKey:hunter2@bucket",
            "S3//TheKey:hunter2@bucket",
            "https;//TheKey:hunter2@host",
            "file:/data?sig=hunter2",
            "file:///data?sig=hunter2",
            "file:///data#hunter2",
            "FILE:///data?sig=hunter2",
            "file://TheKey:hunter2@host/data",
        ] {
            let said = check(url).expect_err(url).to_string();
            assert!(!said.contains("TheKey") && !said.contains("ter2"), "{said}");
            assert!(!Location::from(url).to_string().contains("ter2"), "{url}");
        }
        for location in [
            "./s3//key:word@bucket",
            "data/s3//x",
            "/data/what?",
            "s3/x",
            "s3://bucket/my runs",
            "file:///data/a b",
            "/data/a\tb ",
            " dir ",
            "dir:/x",
            "./s3:/x",
            "a:b@c",
            "",
        ] {
            assert!(check(location).is_ok(), "{location}");
        }
        assert!(check("s3://TheKey@bucket").is_err());
    }

    /// URLs in a sentence lose their secrets; the rest of the sentence stays.
    #[test]
    fn sentences_lose_the_secrets_of_urls() {
        for (given, wanted) in [
            ("no URL: a/b?c=d e@f", "no URL: a/b?c=d e@f"),
            ("see (http://u:p@h:1/x?sig=y), again", "see (http://h:1/x), again"),
            ("\"s3://u:p@b\" and url=s3://u:p@c\n.", "\"s3://b\" and url=s3://c\n."),
            ("<a>http://u:p@h</a>", "<a>http://h</a>"),
            ("http://a,http://u:p@b", "http://..."),
            ("http://a/x,http://u:p@b", "http://..."),
            ("http://a/x\thttp://u:p@b", "http://..."),
            ("cannot open s3:\t//u:p@b: why\tso", "cannot open s3://b: why\tso"),
        ] {
            assert_eq!(without_secrets(given), wanted);
        }
    }
}
