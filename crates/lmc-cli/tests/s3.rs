//! Stores in buckets of real servers on loopback: commands, killed saves, bad lines, wrong keys.
//!
//! `tools/s3-servers` installs the servers; a test whose server is not there says so.
#![cfg(feature = "s3")]

use crate::common::bucket::{Bucket, same};
use crate::common::*;
use lmc_testkit::s3::{BUCKET, Fault, Kind, Proxy, Server};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// What every server that keeps its word must do.
fn all(kind: Kind) {
    let folder = Folder::new();
    let Some(mut server) = kind.start(&folder.path("server")) else { return };
    let bucket = |prefix: &str| Bucket::new(folder.path(prefix), server.address(), prefix);
    life(&bucket("life"));
    parts(&bucket("parts"), &server);
    copies(&bucket("copies"));
    killed(&bucket("killed"), &server);
    bad_line(&bucket("line"), &server);
    unheard_commit(&bucket("unheard"), &server);
    wrong_keys(&bucket("keys"));
    // This one takes any folder for a bucket and makes it.
    if kind != Kind::S3sFs {
        no_bucket(&bucket("none"), kind);
    }
    gone(&bucket("gone"), &mut server);
}

#[test]
fn seaweedfs() {
    all(Kind::SeaweedFs);
}

#[test]
fn s3s_fs() {
    all(Kind::S3sFs);
}

/// A server that ignores the conditions of puts is refused, and told why; no store is made.
#[test]
fn rclone_is_refused() {
    let folder = Folder::new();
    let Some(server) = Kind::Rclone.start(&folder.path("server")) else { return };
    let bucket = Bucket::new(folder.path("run"), server.address(), "runs");
    let output = bucket.lmc(&["init"]);
    assert_eq!(code(&output), 1);
    let text = stderr(&output);
    assert!(text.contains("If-None-Match") && text.contains("two writers"), "{text}");
    assert_eq!(code(&bucket.lmc(&["log"])), 10, "no store is there");
    no_bucket(&bucket, Kind::Rclone);
}

/// Saves, restores, retention and checks, from the first command to the last.
fn life(bucket: &Bucket) {
    bucket.ok(&["init"]);
    assert_eq!(code(&bucket.lmc(&["init"])), 1, "a store is made once");
    for step in 1..=4 {
        bucket.checkpoint(&format!("step-{step}"), step);
        bucket.ok(&["save", &format!("step-{step}"), "--run", "r", "--tag", &format!("t{step}")]);
    }
    for step in [3, 1, 4, 2] {
        bucket.check_restores(&format!("r@{step}"), &format!("step-{step}"));
    }
    let log = bucket.json(&["log", "--json"]);
    assert_eq!(log.as_array().map(Vec::len), Some(4), "{log}");
    bucket.ok(&["forget", "--keep-last", "2"]);
    assert_eq!(code(&bucket.lmc(&["restore", "r@1", "gone"])), 1);
    std::thread::sleep(Duration::from_secs(4));
    bucket.ok(&["prune", "--grace", "1s"]);
    let stats = bucket.json(&["stats", "--json"]);
    assert_eq!(stats["snapshots"], 2, "{stats}");
    for step in [3, 4] {
        bucket.check_restores(&format!("r@{step}"), &format!("step-{step}"));
    }
    bucket.ok(&["rebase", "r@4"]);
    bucket.check_restores("r@4", "step-4");
    bucket.ok(&["check", "--read-data"]);
}

/// One file of a large pack is read by ranges, not with the whole pack.
fn parts(bucket: &Bucket, server: &Server) {
    bucket.write("run/large.bin", &noise(8 << 20, 1));
    bucket.write("run/small.safetensors", &checkpoint());
    bucket.ok(&["init"]);
    bucket.ok(&["save", "run"]);
    let proxy = Proxy::start(server.address(), |_| Fault::None);
    let seen = bucket.at(proxy.address());
    seen.ok(&["restore", "latest", "part", "--only", "small.safetensors"]);
    assert_eq!(bucket.read("part/small.safetensors"), checkpoint());
    let requests = proxy.requests();
    let packs = requests.iter().filter(|request| request.target.contains("/packs/"));
    let ranges: Vec<(u64, u64)> = packs.filter_map(|request| request.range).collect();
    assert!(!ranges.is_empty(), "{requests:?}");
    let read: u64 = ranges.iter().map(|(from, to)| to + 1 - from).sum();
    assert!(read < 1 << 18, "{read} bytes for a file of 64 KiB: {ranges:?}");
    let whole = |request: &&lmc_testkit::s3::Request| {
        request.method == "GET" && request.target.contains("/packs/") && request.range.is_none()
    };
    assert_eq!(requests.iter().find(whole), None);
}

/// From a directory to a bucket and back, with tags, each snapshot once.
fn copies(bucket: &Bucket) {
    bucket.ok(&["init"]);
    bucket.ok(&["init", "local"]);
    bucket.ok(&["init", "back"]);
    for step in 1..=3 {
        bucket.checkpoint(&format!("step-{step}"), step);
        let path = format!("step-{step}");
        bucket.ok(&["save", &path, "--store", "local", "--tag", "kept"]);
    }
    let url = bucket.url();
    bucket.ok(&["copy", "local", &url]);
    let again = bucket.json(&["copy", "local", &url, "--json"]);
    assert_eq!(again["there_already"], 3, "{again}");
    bucket.ok(&["copy", &url, "back"]);
    for step in 1..=3 {
        bucket.check_restores(&format!("main@{step}"), &format!("step-{step}"));
        let target = format!("back-{step}");
        bucket.ok(&["restore", &format!("main@{step}"), &target, "--store", "back"]);
        same(&bucket.path(&target), &bucket.path(&format!("step-{step}")));
    }
    let log = bucket.json(&["log", "--store", "back", "--tag", "kept", "--json"]);
    assert_eq!(log.as_array().map(Vec::len), Some(3), "{log}");
}

/// A save of three packs that is killed when one is there; run again, it puts only the others.
fn killed(bucket: &Bucket, server: &Server) {
    bucket.write("run/step-1.bin", &noise(140 << 20, 7));
    bucket.ok(&["init"]);
    let proxy = Proxy::start(server.address(), |_| Fault::None);
    let mut child = bucket
        .at(proxy.address())
        .command(&["save", "run", "-T1"])
        .stderr(Stdio::null())
        .spawn()
        .expect("lmc starts");
    let start = Instant::now();
    while bucket.packs() == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "no pack came");
        assert!(child.try_wait().expect("a child").is_none(), "it was too fast to be killed");
    }
    child.kill().expect("it is killed");
    child.wait().expect("it is dead");
    let there = bucket.packs();
    assert_eq!(bucket.json(&["log", "--json"]).as_array().map(Vec::len), Some(0));
    let proxy = Proxy::start(server.address(), |_| Fault::None);
    let saved = bucket.at(proxy.address()).json(&["save", "run", "--json"]);
    let puts = proxy.requests();
    let puts = puts.iter().filter(|r| r.method == "PUT" && r.target.contains("/packs/")).count();
    // What was on its way when it was killed may have come after the count.
    let found = saved["packs_found"].as_u64().expect("a number") as usize;
    assert!(found >= there, "{saved}");
    assert_eq!(found + puts, 3, "{saved}");
    bucket.check_restores("latest", "run");
}

/// Every third request is hurt in one of four ways; all commands work all the same.
fn bad_line(bucket: &Bucket, server: &Server) {
    let mut count = 0;
    let proxy = Proxy::start(server.address(), move |_| {
        count += 1;
        let faults = [Fault::Busy, Fault::Lost, Fault::Unheard, Fault::Cut];
        if count % 3 == 0 { faults[count / 3 % 4] } else { Fault::None }
    });
    let bad = bucket.at(proxy.address());
    bad.ok(&["init"]);
    for step in 1..=3 {
        bucket.checkpoint(&format!("step-{step}"), step);
        bad.ok(&["save", &format!("step-{step}")]);
    }
    for step in 1..=3 {
        bad.check_restores(&format!("main@{step}"), &format!("step-{step}"));
    }
    bad.ok(&["forget", "--keep-last", "1"]);
    bad.ok(&["prune", "--grace", "0s"]);
    bad.ok(&["check", "--read-data"]);
    bucket.check_restores("latest", "step-3");
    let hurt = proxy.requests().iter().filter(|request| request.fault != Fault::None).count();
    assert!(hurt > 20, "{hurt} requests were hurt");
}

/// The answer to the first put of each object is lost; what was done is taken for what it is.
fn unheard_commit(bucket: &Bucket, server: &Server) {
    let mut seen = std::collections::HashSet::new();
    let proxy = Proxy::start(server.address(), move |request| {
        let is_first = request.method == "PUT" && seen.insert(request.target.clone());
        if is_first { Fault::Unheard } else { Fault::None }
    });
    bucket.checkpoint("step-1", 1);
    let bad = bucket.at(proxy.address());
    bad.ok(&["init"]);
    bad.ok(&["save", "step-1", "--tag", "a"]);
    let log = bucket.json(&["log", "--tag", "a", "--json"]);
    assert_eq!(log.as_array().map(Vec::len), Some(1), "{log}");
    bucket.check_restores("latest", "step-1");
    let unheard = proxy.requests().iter().filter(|r| r.fault == Fault::Unheard).count();
    assert!(unheard >= 6, "probe, configuration, lease, pack, tag, manifest: {unheard}");
}

/// Keys that the server does not know: the error names the bucket and the variables.
fn wrong_keys(bucket: &Bucket) {
    for (name, value) in [("AWS_SECRET_ACCESS_KEY", "wrong"), ("AWS_ACCESS_KEY_ID", "nobody")] {
        for args in [&["init"][..], &["log"], &["save", "."]] {
            let output = bucket.command(args).env(name, value).output().expect("lmc starts");
            let text = stderr(&output);
            assert_eq!(code(&output), 1, "{args:?}: {text}");
            assert!(text.contains(&bucket.url()), "{args:?}: {text}");
            assert!(text.contains("AWS_SECRET_ACCESS_KEY"), "{args:?}: {text}");
        }
    }
}

/// A bucket that is not there: the error names it and says to make it. SeaweedFS refuses a put to
/// it by those who may not make one.
fn no_bucket(bucket: &Bucket, kind: Kind) {
    let url = "s3://not-there-at-all/x";
    for command in [&["init"][..], &["log"]] {
        let output = bucket.lmc(&[command, &["--store", url]].concat());
        let text = stderr(&output);
        assert!(matches!(code(&output), 1 | 10), "{command:?}: {text}");
        let is_hidden = kind == Kind::SeaweedFs && text.contains("the name of the bucket");
        assert!(text.contains("no such bucket") || is_hidden, "{command:?}: {text}");
        assert!(text.contains(url), "{command:?}: {text}");
    }
}

/// The server goes in the middle of a save and of a restore: errors that name the bucket, no
/// snapshot, nothing half restored. Last, since the server does not come back.
fn gone(bucket: &Bucket, server: &mut Server) {
    bucket.checkpoint("step-1", 1);
    bucket.ok(&["init"]);
    bucket.ok(&["save", "step-1"]);
    bucket.checkpoint("step-2", 2);
    let dying = |bucket: &Bucket, requests: usize, args: &[&str]| {
        let mut left = requests;
        let proxy = Proxy::start(server.address(), move |_| {
            left = left.saturating_sub(1);
            if left == 0 { Fault::Lost } else { Fault::None }
        });
        bucket.at(proxy.address()).command(args).env("LMC_RETRIES", "1").output().expect("lmc")
    };
    let (mut failed, mut requests) = (0, 1);
    loop {
        let output = dying(bucket, requests, &["save", "step-2"]);
        let there = bucket.json(&["log", "--json"]).as_array().map_or(0, Vec::len);
        if code(&output) == 0 {
            break;
        }
        let text = stderr(&output);
        assert!(text.contains(&format!("s3://{BUCKET}")), "{text}");
        assert!(text.contains("does not answer"), "{text}");
        if there == 2 {
            break;
        }
        (failed, requests) = (failed + 1, requests + 1);
    }
    assert!(failed >= 5, "{failed} saves failed");
    bucket.check_restores("latest", "step-2");
    for requests in 1..=4 {
        let output = dying(bucket, requests, &["restore", "latest", "half"]);
        assert_eq!(code(&output), 1, "{}", stderr(&output));
        assert!(!bucket.path("half").exists());
    }
    server.kill();
    let output = bucket.command(&["log"]).env("LMC_RETRIES", "1").output().expect("lmc");
    let text = stderr(&output);
    assert!(text.contains("does not answer") && text.contains("AWS_ENDPOINT_URL"), "{text}");
    assert!(Path::new(&bucket.path("step-1")).exists());
}
