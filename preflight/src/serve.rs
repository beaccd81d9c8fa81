//! Tells on loopback what the GPUs do. One question at a time, of one sidecar.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use slipway_vocabulary::telemetry::{PATH, PORT};

use crate::watch::{Watch, Working};

/// Pause between two looks: a clock that is lowered for less explains no slow request.
const PAUSE: Duration = Duration::from_millis(200);
/// Time for a question to arrive, and for its answer to leave.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of a question that are read.
const MOST_ASKED: usize = 4_096;

/// Looks at the GPUs and answers, until the process ends.
///
/// # Errors
/// When the port is taken.
pub fn run(gpus: &dyn Working) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT))?;
    let watch = Mutex::new(Watch::default());
    thread::scope(|scope| {
        scope.spawn(|| listener.incoming().flatten().for_each(|stream| answer(stream, &watch)));
        loop {
            let samples = gpus.sample();
            lock(&watch).count(now(), &samples);
            thread::sleep(PAUSE);
        }
    })
}

/// A client that goes away has no answer.
fn answer(mut stream: TcpStream, watch: &Mutex<Watch>) {
    let answered = (|| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let question = question(&mut stream)?;
        let response = response(&question, watch, now());
        stream.write_all(response.as_bytes())
    })();
    if let Err(error) = answered {
        eprintln!("a question was not answered: {error}");
    }
}

/// The first line of a request; its headers say nothing that matters.
fn question(stream: &mut impl Read) -> io::Result<String> {
    let mut asked = Vec::new();
    let mut part = [0; 512];
    while !asked.windows(4).any(|four| four == b"\r\n\r\n") && asked.len() < MOST_ASKED {
        match stream.read(&mut part)? {
            0 => break,
            read => asked.extend_from_slice(part.get(..read).unwrap_or_default()),
        }
    }
    let text = String::from_utf8_lossy(&asked);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn response(question: &str, watch: &Mutex<Watch>, now: u64) -> String {
    let target = question.strip_prefix("GET ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let after = query.strip_prefix("after=").and_then(|after| after.parse().ok());
    let told = (path == PATH).then(|| serde_json::to_string(&lock(watch).told(now, after)));
    let (status, body) = match told {
        Some(Ok(body)) => ("200 OK", body),
        Some(Err(error)) => ("500 Internal Server Error", error.to_string()),
        None => ("404 Not Found", format!("ask for {PATH}")),
    };
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn lock(watch: &Mutex<Watch>) -> std::sync::MutexGuard<'_, Watch> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::watch::Sample;

    #[test]
    fn the_windows_after_one_are_told_and_nothing_else() {
        let watch = Mutex::new(Watch::default());
        (100..130).for_each(|second| lock(&watch).count(second, &[Sample::default()]));
        let body = |question: &str| response(question, &watch, 130).split("\r\n\r\n").nth(1).map(str::to_owned);
        let asked = question(&mut "GET /slipway/v1/gpus?after=11 HTTP/1.1\r\nhost: x\r\n\r\n".as_bytes()).unwrap();
        let expected = r#"{"windows":[{"id":12,"gpus":[{"gpu":0,"samples":10}]}]}"#;
        assert_eq!(body(&asked).as_deref(), Some(expected));
        assert_eq!(body("GET / HTTP/1.1").as_deref(), Some("ask for /slipway/v1/gpus"));
        assert!(response("GET /slipway/v1/gpus HTTP/1.1", &watch, 130).starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(response("", &watch, 130).starts_with("HTTP/1.1 404 Not Found\r\n"));
    }
}
