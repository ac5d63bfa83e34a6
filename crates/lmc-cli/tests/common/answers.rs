//! A server on loopback that answers every request in the same way.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Starts it; `answer` makes the status line and the body from the first line and the headers of a
/// request. It runs until the test process ends.
pub fn serve(answer: impl Fn(&str) -> (String, String) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away in the middle is not what is tested.
            let _ = respond(&stream, &answer);
        }
    });
    address
}

fn respond(stream: &TcpStream, answer: &impl Fn(&str) -> (String, String)) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut body_len) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some(len) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            body_len = len.trim().parse().unwrap_or(0);
        }
        head += &line;
    }
    reader.take(body_len).read_to_end(&mut Vec::new())?;
    let (status, body) = answer(&head);
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
