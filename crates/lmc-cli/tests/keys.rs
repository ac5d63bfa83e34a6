//! A bucket without keys in the environment: those of the machine are used where it has some, and
//! elsewhere the error says what to set, soon.
#![cfg(feature = "s3")]

use crate::common::answers;
use crate::common::{Folder, code, command, stderr};
use std::net::{SocketAddr, TcpListener};
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Variables that name keys, or where to get some.
const KEYS: [&str; 6] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

/// Looks at a store in a bucket without keys; `machine` is asked for some, unless that is
/// forbidden.
fn log(server: SocketAddr, machine: SocketAddr, is_forbidden: bool) -> Output {
    let folder = Folder::new();
    let mut command = command(&folder.path(""), &["log", "--store", "s3://bucket/runs"]);
    for name in KEYS {
        command.env_remove(name);
    }
    command
        .env("AWS_ENDPOINT_URL", format!("http://{server}"))
        .env("AWS_METADATA_ENDPOINT", format!("http://{machine}"))
        .env("AWS_EC2_METADATA_DISABLED", is_forbidden.to_string())
        .env("AWS_REGION", "us-east-1")
        .env("no_proxy", "127.0.0.1");
    command.output().expect("lmc starts")
}

fn check_no_keys(output: &Output) {
    let text = stderr(output);
    assert_eq!(code(output), 1, "{text}");
    assert!(text.contains("there are no keys") && text.contains("AWS_ACCESS_KEY_ID"), "{text}");
    assert!(text.contains("s3://bucket/runs"), "{text}");
}

/// A server that must not be asked for anything.
fn unasked() -> SocketAddr {
    answers::serve(|head| panic!("a request without keys: {head}"))
}

/// A machine that answers nonsense, and one that has no keys to give, is asked twice at most.
#[test]
fn a_machine_without_keys_is_not_asked_for_long() {
    for status in ["404 Not Found", ""] {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let machine = answers::serve(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            (status.to_string(), String::new())
        });
        check_no_keys(&log(unasked(), machine, false));
        let asked = asked.load(Ordering::SeqCst);
        assert!((1..=2).contains(&asked), "asked {asked} times, {status}");
    }
}

/// A machine that takes a question and never answers does not hold up a command, which would wait
/// for a server for minutes.
#[test]
fn a_machine_that_is_silent_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = listener.local_addr().expect("an address");
    check_no_keys(&log(unasked(), silent, false));
}

/// A machine that must not be asked is not.
#[test]
fn a_machine_is_not_asked_where_that_is_forbidden() {
    check_no_keys(&log(unasked(), unasked(), true));
}

/// The keys of a machine are used where a user has set none.
#[test]
fn the_keys_of_a_machine_are_used() {
    let machine = answers::serve(|head| {
        let keys = r#"{"AccessKeyId": "KEY-OF-THE-MACHINE", "SecretAccessKey": "secret",
            "Token": "token", "Expiration": "2099-01-01T00:00:00Z"}"#;
        let body = match head.split(' ').nth(1) {
            Some("/latest/api/token") => "session",
            Some("/latest/meta-data/iam/security-credentials/") => "role",
            Some("/latest/meta-data/iam/security-credentials/role") => keys,
            other => panic!("asked for {other:?}"),
        };
        ("200 OK".to_string(), body.to_string())
    });
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = heads.clone();
    let server = answers::serve(move |head| {
        seen.lock().expect("a lock").push(head.to_string());
        ("404 Not Found".to_string(), "<Error><Code>NoSuchKey</Code></Error>".to_string())
    });
    let output = log(server, machine, false);
    assert_eq!(code(&output), 10, "{}", stderr(&output));
    let heads = heads.lock().expect("a lock");
    assert!(!heads.is_empty());
    assert!(heads.iter().all(|head| head.contains("KEY-OF-THE-MACHINE")), "{heads:?}");
}
