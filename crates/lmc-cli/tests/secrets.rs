//! Who reads a terminal, a log or JSON learns no password, key or signature of a store's URL.

#[cfg(feature = "s3")]
use crate::common::answers;
use std::net::{SocketAddr, TcpListener};
use std::process::Output;

use crate::common::{Folder, code, command, stderr};

/// Parts of the URLs below that nobody may see.
const SECRETS: [&str; 8] = [
    "hunter2",
    "signed-by-me",
    "TheKeyName",
    "hunter3",
    "X-Amz-Signature=",
    "endpoint-user",
    "lmc-test-secret",
    "token-of-mine",
];
const URL: &str = "s3://TheKeyName:hunter2@bucket/runs?X-Amz-Signature=signed-by-me&sig=hunter3";
/// One that is not refused at once.
#[cfg(feature = "s3")]
const USABLE_URL: &str = "s3://bucket/runs?X-Amz-Signature=signed-by-me&sig=hunter3";

/// Every command that takes a store, and where it takes it.
#[cfg(feature = "s3")]
fn commands(url: &str) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<&str>> = vec![
        vec!["init", url],
        vec!["copy", url, "here"],
        vec!["copy", "here", url],
        vec!["repair", "--store", "here", "--from", url],
    ];
    let with_option: [&[&str]; 18] = [
        &["init"],
        &["save", "file"],
        &["log"],
        &["show", "latest"],
        &["ls", "latest"],
        &["restore", "latest", "out"],
        &["diff", "latest", "main@1"],
        &["stats"],
        &["report", "--check"],
        &["check"],
        &["repair"],
        &["forget", "--keep-last", "1"],
        &["prune"],
        &["rebase", "latest"],
        &["tag", "latest", "t"],
        &["export", "latest", "-o", "out"],
        &["log", "--run", "none"],
        &["save", "none"],
    ];
    all.extend(with_option.map(|args| [args, &["--store", url]].concat()));
    let with_json = all.iter().map(|args| [&args[..], &["--json"]].concat()).collect::<Vec<_>>();
    let owned = |args: Vec<&str>| args.into_iter().map(str::to_string).collect();
    all.into_iter().chain(with_json).map(owned).collect()
}

fn check(what: &dyn std::fmt::Debug, output: &Output) {
    for printed in [&output.stdout, &output.stderr] {
        let printed = String::from_utf8_lossy(printed);
        for secret in SECRETS {
            assert!(!printed.contains(secret), "{what:?} shows {secret}: {printed}");
        }
    }
}

/// Runs every command on `url` with a server at `address`, which does not do what it is asked.
#[cfg(feature = "s3")]
fn try_all(folder: &Folder, url: &str, address: &str) {
    let server: SocketAddr = "127.0.0.1:1".parse().expect("an address");
    for args in commands(url) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = command(&folder.path(""), &args)
            .envs(lmc_testkit::s3::Server::environment(server))
            .env("AWS_ENDPOINT_URL", address)
            .env("AWS_SESSION_TOKEN", "token-of-mine")
            .env("LMC_RETRIES", "0")
            .output()
            .expect("lmc starts");
        assert_ne!(code(&output), 0, "{args:?}");
        check(&args, &output);
        assert!(!stderr(&output).is_empty(), "{args:?} says nothing");
    }
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("file", b"bytes");
    folder.ok(&["init", "here"]);
    folder.ok(&["save", "file", "--store", "here"]);
    folder
}

/// A port where nobody listens.
fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// A server that cannot be reached is reported without the secrets of the store's URL, and without
/// those of the server's.
#[test]
#[cfg(feature = "s3")]
fn an_unreachable_server_is_named_without_secrets() {
    let folder = folder();
    let port = closed_port();
    try_all(&folder, USABLE_URL, &format!("http://127.0.0.1:{port}"));
    try_all(
        &folder,
        "s3://bucket/runs",
        &format!("http://endpoint-user:hunter2@127.0.0.1:{port}/?sig=hunter3"),
    );
}

/// A user or a password in a URL is refused before anyone is asked, with words that say what to do
/// and do not repeat it: nobody would use them, and they can be read by others where they stand.
#[test]
#[cfg(feature = "s3")]
fn a_user_or_a_password_in_a_url_is_refused() {
    let folder = folder();
    let port = closed_port();
    for url in [URL, "s3://TheKeyName@bucket/runs", "gs://TheKeyName:hunter2@bucket"] {
        for args in commands(url) {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let output = command(&folder.path(""), &args)
                .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"))
                .env("GOOGLE_SKIP_SIGNATURE", "true")
                .env("https_proxy", format!("http://127.0.0.1:{port}"))
                .env("LMC_RETRIES", "0")
                .output()
                .expect("lmc starts");
            check(&args, &output);
            let said = stderr(&output);
            assert_eq!(code(&output), 1, "{args:?}: {said}");
            assert!(said.contains("no user and no password"), "{args:?}: {said}");
        }
    }
}

/// A URL that makes no sense is refused without its secrets.
#[test]
fn a_url_that_makes_no_sense_is_refused_without_its_secrets() {
    let folder = folder();
    for url in [
        "nosuch://TheKeyName:hunter2@bucket/runs?X-Amz-Signature=signed-by-me",
        "s3://TheKeyName:hunter2@bu cket/runs?X-Amz-Signature=signed-by-me",
        "s3://TheKeyName:hunter2@/runs?sig=hunter3",
        "s3://TheKeyName:hunter2/hunter3@bucket/runs",
        "s3://TheKeyName:hunter2?hunter3@bucket/runs",
        "s3:/TheKeyName:hunter2@bucket/runs?sig=hunter3",
        "https://TheKeyName:hunter2@example.invalid/runs?sig=hunter3#signed-by-me",
        "az://TheKeyName:hunter2@container/runs?sig=hunter3",
        "gs://TheKeyName:hunter2@[bucket/runs?sig=hunter3",
        " s3://TheKeyName:hunter2@bucket/runs?sig=hunter3",
        "s3://TheKeyName:hunter2@bucket/runs\t",
        "s3:\t//TheKeyName:hunter2@bucket/runs",
        "s3:/\n/TheKeyName:hunter2@bucket/runs",
        "\u{200b}s3://TheKeyName:hunter2@bucket/runs",
        "s3: //TheKeyName:hunter2@bucket/runs",
        "s3:TheKeyName:hunter2@bucket/runs",
    ] {
        let closed: SocketAddr = ([127, 0, 0, 1], closed_port()).into();
        for args in [
            vec!["init", url],
            vec!["log", "--store", url],
            vec!["log", "--json", "--store", url],
            vec!["save", "file", "--store", url],
            vec!["copy", url, "here"],
            vec!["copy", "here", url],
            vec!["repair", "--store", "here", "--from", url],
        ] {
            let output = command(&folder.path(""), &args)
                .env("LMC_RETRIES", "0")
                .envs(lmc_testkit::s3::Server::environment(closed))
                .env("AZURE_STORAGE_ACCOUNT_NAME", "account")
                .env("AZURE_STORAGE_ACCOUNT_KEY", "aHVudGVyMg==")
                .env("AZURE_STORAGE_ENDPOINT", format!("https://{closed}"))
                .env("GOOGLE_SKIP_SIGNATURE", "true")
                .env("https_proxy", format!("http://{closed}"))
                .output()
                .expect("lmc starts");
            assert_ne!(code(&output), 0, "{args:?}");
            check(&args, &output);
        }
    }
}

/// What a server says of a request, its signature and its query with it, is not passed on.
#[test]
#[cfg(feature = "s3")]
fn the_words_of_a_server_are_shown_without_signatures() {
    let folder = folder();
    for status in ["403 Forbidden", "400 Bad Request", "500 Internal Server Error"] {
        let address = answers::serve(move |head| {
            let signature = head.split("Signature=").nth(1).unwrap_or_default();
            let signature = signature.split_whitespace().next().unwrap_or("none");
            let body = format!(
                "<?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code><Message>look at \
                 http://TheKeyName:hunter2@host/x?X-Amz-Signature=signed-by-me, or at \
                 /x?X-Amz-Signature=signed-by-me</Message><SignatureProvided>signed-by-me \
                 {signature}</SignatureProvided><StringToSign>hunter3</StringToSign></Error>"
            );
            (status.to_string(), body)
        });
        try_all(&folder, USABLE_URL, &format!("http://{address}"));
    }
}

/// A directory gets no name with a secret in it: the query of a URL is refused, and so is a URL
/// whose colon was forgotten. What was meant as a directory is named so.
#[test]
fn no_directory_is_named_by_a_secret() {
    let folder = folder();
    let path = folder.path("made").display().to_string();
    let query = format!("file://{path}?X-Amz-Signature=signed-by-me");
    let user = format!("file://TheKeyName:hunter2@host{path}");
    for url in [&query, &user, "s3//TheKeyName:hunter2@bucket"] {
        for args in [&["init", url][..], &["init", url, "--json"], &["copy", "here", url]] {
            let output = folder.lmc(args);
            assert_ne!(code(&output), 0, "{args:?}");
            check(&args, &output);
        }
    }
    let names = std::fs::read_dir(folder.path(".")).unwrap().map(|e| e.unwrap().file_name());
    let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    let is_made =
        |name: &String| name.contains("made") || name.contains("s3") || name.contains(':');
    assert!(!names.iter().any(is_made), "{names:?}");
    assert_eq!(code(&folder.lmc(&["init", &format!("file://{path}")])), 0);
    assert_eq!(code(&folder.lmc(&["init", "./s3//made"])), 0);
}

/// A URL in the wrong place, as a command, an option, a file or a snapshot, is not repeated whole.
#[test]
fn a_url_in_the_wrong_place_is_named_without_secrets() {
    let folder = folder();
    for args in [
        vec![URL],
        vec!["log", URL],
        vec!["log", "--sotre", URL],
        vec!["log", "--store", "here", "--run", URL],
        vec!["show", "--store", "here", URL],
        vec!["compress", URL],
        vec!["decompress", URL],
        vec!["list", URL],
        vec!["inspect", URL],
        vec!["save", "--store", "here", URL],
        vec!["restore", "--store", "here", "latest", URL],
        vec!["export", "--store", "here", "latest", "-o", URL],
        vec!["prune", "--store", "here", "--grace", URL],
    ] {
        let output = folder.lmc(&args);
        check(&args, &output);
    }
}
