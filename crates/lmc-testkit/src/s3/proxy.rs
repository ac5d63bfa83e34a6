//! An unreliable connection to a good server: requests are counted, and some are disturbed.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a late request takes.
const LATE: Duration = Duration::from_millis(200);
/// Longest head of a request.
const HEAD_LEN_MAX: usize = 1 << 16;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The client is told that the server is too busy.
    Busy,
    /// The connection breaks before the request is sent on.
    Lost,
    /// The server does what was requested, but the client gets no answer.
    Unheard,
    /// The answer breaks off in the middle.
    Cut,
    /// The request is delayed.
    Late,
}

/// A request that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// GET, PUT and so on.
    pub method: String,
    /// The path with the query.
    pub target: String,
    /// First and last byte, both included, if only a range was requested.
    pub range: Option<(u64, u64)>,
    /// What happened to it.
    pub fault: Fault,
}

type FaultScript = dyn FnMut(&Request) -> Fault + Send;

/// A proxy that ends with the test.
pub struct Proxy {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Proxy {
    /// Starts a proxy for `server`; `script` decides what happens to each request.
    pub fn start(
        server: SocketAddr,
        script: impl FnMut(&Request) -> Fault + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let script: Arc<Mutex<Box<FaultScript>>> = Arc::new(Mutex::new(Box::new(script)));
        let seen = requests.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, script) = (seen.clone(), script.clone());
                // An error here is just another fault of the connection.
                thread::spawn(move || drop(serve(stream, server, &seen, &script)));
            }
        });
        Self { address, requests }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Handles one request per connection: the server is told that there will be no other.
fn serve(
    mut client: TcpStream,
    server: SocketAddr,
    seen: &Mutex<Vec<Request>>,
    script: &Mutex<Box<FaultScript>>,
) -> io::Result<()> {
    let (head, body) = read_head(&mut client)?;
    let mut words = head.split(' ');
    let mut word = || words.next().unwrap_or_default().to_string();
    let range = field(&head, "range").and_then(|range| {
        let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
        Some((from.parse().ok()?, to.parse().ok()?))
    });
    let mut request = Request { method: word(), target: word(), range, fault: Fault::None };
    request.fault = script.lock().unwrap_or_else(PoisonError::into_inner)(&request);
    let fault = request.fault;
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    match fault {
        Fault::Busy => return refuse(client, &head, body.len()),
        Fault::Lost => return client.shutdown(Shutdown::Both),
        Fault::Late => thread::sleep(LATE),
        Fault::None | Fault::Unheard | Fault::Cut => {}
    }
    let mut there = TcpStream::connect(server)?;
    let (line, rest) = head.split_once("\r\n").unwrap_or((&head, ""));
    write!(there, "{line}\r\nConnection: close\r\n{rest}")?;
    there.write_all(&body)?;
    let (mut from, mut to) = (client.try_clone()?, there.try_clone()?);
    thread::spawn(move || drop(io::copy(&mut from, &mut to)));
    match fault {
        Fault::Unheard => {
            // The first byte of the answer arrives when the server is done.
            there.read_exact(&mut [0])?;
            client.shutdown(Shutdown::Both)
        }
        Fault::Cut => {
            let mut start = vec![0; 700];
            let count = there.read(&mut start)?;
            client.write_all(&start[..count.saturating_sub(10)])?;
            client.shutdown(Shutdown::Both)
        }
        _ => {
            io::copy(&mut there, &mut client)?;
            client.shutdown(Shutdown::Both)
        }
    }
}

/// Reads all of a request and answers 503.
fn refuse(mut client: TcpStream, head: &str, mut have: usize) -> io::Result<()> {
    let len: usize = field(head, "content-length").and_then(|len| len.parse().ok()).unwrap_or(0);
    let mut buffer = vec![0; 1 << 16];
    while have < len {
        match client.read(&mut buffer)? {
            0 => break,
            count => have += count,
        }
    }
    let answer = "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    client.write_all(answer.as_bytes())?;
    client.shutdown(Shutdown::Both)
}

/// A field in the head of a request.
fn field(head: &str, name: &str) -> Option<String> {
    let lower = head.to_ascii_lowercase();
    let mut fields = lower.lines().filter_map(|line| line.split_once(": "));
    fields.find(|(field, _)| *field == name).map(|(_, value)| value.to_string())
}

/// The head of a request with its empty line, and the bytes that came after it.
fn read_head(client: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = client.read(&mut buffer)?;
        bytes.extend_from_slice(&buffer[..count]);
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let body = bytes.split_off(end + 4);
            let head = String::from_utf8(bytes).map_err(io::Error::other)?;
            return Ok((head, body));
        }
        if count == 0 || bytes.len() > HEAD_LEN_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}
