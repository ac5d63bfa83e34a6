//! Servers as child processes that end with the test.

use super::{ACCESS_KEY, BUCKET, SECRET_KEY};
use crate::skip::{Missing, skip};
use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a server may take to answer.
const START_MAX: Duration = Duration::from_secs(60);
/// The shell holds a pipe from the test. When the test ends in any way, the read ends, and the
/// shell kills the server.
const KEEPER: &str = r#""$@" & pid=$!; read -r _; kill -9 $pid"#;

/// A server that may be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SeaweedFS, which obeys conditional puts.
    SeaweedFs,
    /// The file system server of s3s, which obeys conditional puts.
    S3sFs,
    /// `rclone serve s3`, which ignores the conditions of puts.
    Rclone,
}

/// A server that is running.
#[derive(Debug)]
pub struct Server {
    keeper: Child,
    pipe: Option<ChildStdin>,
    address: SocketAddr,
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Self::SeaweedFs => "weed",
            Self::S3sFs => "s3s-fs",
            Self::Rclone => "rclone",
        }
    }

    fn find(self) -> Option<PathBuf> {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/s3-servers");
        let root = env::var_os("LMC_S3_SERVERS").map_or(own, PathBuf::from);
        Some(root.join("bin").join(self.program())).filter(|path| path.is_file())
    }

    /// Starts it on files in `folder`; none if it is not installed, which is reported.
    pub fn start(self, folder: &Path) -> Option<Server> {
        let Some(program) = self.find() else {
            let why = format!("no {} here: tools/s3-servers installs it", self.program());
            skip(if self == Self::S3sFs { Missing::MoreS3 } else { Missing::S3 }, &why);
            return None;
        };
        fs::create_dir_all(folder).expect("a folder for the server");
        let (port, filer) = (free_port(), free_port());
        let command = self.command(&program, folder, port, filer);
        let server = Server::start(command, port, folder);
        if self == Self::SeaweedFs {
            // Its buckets are folders of its own file system.
            let made = ask(filer, &format!("POST /buckets/{BUCKET}/"));
            assert_eq!(made.ok().as_deref(), Some("201"), "a bucket");
        }
        Some(server)
    }

    fn command(self, program: &Path, folder: &Path, port: u16, filer: u16) -> Vec<String> {
        let data = folder.join("data");
        fs::create_dir_all(&data).expect("a folder for the data");
        let text = |path: &Path| path.to_str().expect("a plain path").to_string();
        let mut command = vec![text(program)];
        let mut add = |arguments: &[&str]| {
            command.extend(arguments.iter().map(|argument| (*argument).to_string()));
        };
        match self {
            Self::SeaweedFs => {
                let config = folder.join("s3.json");
                fs::write(&config, seaweed_config()).expect("a configuration");
                let dir = format!("-dir={}", text(&data));
                let config = format!("-s3.config={}", text(&config));
                let ports = ["-s3.port", "-master.port", "-volume.port", "-filer.port"];
                let others = [port, free_port(), free_port(), filer];
                // By default it would use a port number 10,000 higher, which may be out of range or
                // taken.
                let grpc = ["-s3.port.grpc", "-master.port.grpc", "-volume.port.grpc"];
                add(&["server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3"]);
                add(&[&dir, &config, "-master.volumeSizeLimitMB=64", "-volume.max=100"]);
                add(&["-volume.minFreeSpace=1", "-s3.port.iceberg=0", "-s3.port.lance=0"]);
                for (name, port) in ports.iter().zip(others) {
                    add(&[&format!("{name}={port}")]);
                }
                for name in grpc.iter().chain(&["-filer.port.grpc"]) {
                    add(&[&format!("{name}={}", free_port())]);
                }
            }
            Self::S3sFs => {
                add(&["--host", "127.0.0.1", "--port", &port.to_string()]);
                add(&["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY, &text(&data)]);
            }
            Self::Rclone => {
                let keys = format!("{ACCESS_KEY},{SECRET_KEY}");
                let address = format!("127.0.0.1:{port}");
                add(&["serve", "s3", "--addr", &address, "--auth-key", &keys]);
                add(&["--vfs-cache-mode", "off", &text(&data)]);
            }
        }
        // If a bucket is just a folder, it is created that way.
        if self != Self::SeaweedFs {
            fs::create_dir_all(data.join(BUCKET)).expect("a bucket");
        }
        command
    }
}

impl Server {
    fn start(command: Vec<String>, port: u16, folder: &Path) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let log = fs::File::create(folder.join("log")).expect("a log");
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .args(&command)
            .current_dir(folder)
            .env("HOME", folder)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("a shell");
        let pipe = keeper.stdin.take();
        let server = Self { keeper, pipe, address };
        let start = Instant::now();
        while !server.is_ready() {
            if start.elapsed() > START_MAX {
                let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
                panic!("{command:?} does not answer; its log ends:\n{}", tail(&log));
            }
            sleep(Duration::from_millis(100));
        }
        server
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Environment variables that make a program talk to the server, or to a proxy for it, at
    /// `address`.
    pub fn environment(address: SocketAddr) -> [(&'static str, String); 6] {
        [
            ("AWS_ENDPOINT_URL", format!("http://{address}")),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_string()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_string()),
            ("AWS_REGION", "us-east-1".to_string()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_string()),
            ("no_proxy", "127.0.0.1".to_string()),
        ]
    }

    /// Whether it answers like S3: a request without a key is refused, or gets a listing of the
    /// bucket.
    fn is_ready(&self) -> bool {
        let status = ask(self.address.port(), &format!("GET /{BUCKET}?list-type=2"));
        status.is_ok_and(|status| matches!(&status[..], "200" | "400" | "401" | "403"))
    }

    /// Kills it immediately, like a crash.
    pub fn kill(&mut self) {
        drop(self.pipe.take());
        let _ = self.keeper.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A user who is not an administrator: for an administrator, a put would create a missing bucket.
fn seaweed_config() -> String {
    format!(
        r#"{{"identities": [{{"name": "test",
            "credentials": [{{"accessKey": "{ACCESS_KEY}", "secretKey": "{SECRET_KEY}"}}],
            "actions": ["Read", "Write", "List", "Tagging"]}}]}}"#
    )
}

/// The status of a server's answer to a request without a body.
fn ask(port: u16, request: &str) -> std::io::Result<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "{request} HTTP/1.1\r\nHost: {address}\r\n")?;
    write!(stream, "Content-Length: 0\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split(' ').nth(1).unwrap_or_default().to_string())
}

/// A free port, a different one each time.
///
/// It is below the range that the system uses for connections: a port in that range could be taken
/// again before the server asks for it.
fn free_port() -> u16 {
    const PORTS: std::ops::Range<u32> = 12_000..32_000;
    static ASKED: AtomicU32 = AtomicU32::new(0);
    // Different processes start far apart.
    let start = std::process::id().wrapping_mul(7919);
    let port = || {
        let next = start.wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + next % (PORTS.end - PORTS.start);
        u16::try_from(port).expect("a port")
    };
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    std::iter::repeat_with(port).take(1000).find(is_free).expect("a free port")
}

fn tail(text: &str) -> &str {
    let start = text.len().saturating_sub(2000);
    text.get(start..).unwrap_or(text)
}
