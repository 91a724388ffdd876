//! Where ranks get the id that their communicator begins with: a file that all see, or a port of rank 0.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::compile::trust;
use crate::error::Result;
use crate::error::ranks::CommunicatorError;

/// Bytes before an id, so that nothing else is taken for one.
const MAGIC: [u8; 16] = *b"epilogue ranks 1";
/// How long one waits before looking again.
const PAUSE: Duration = Duration::from_millis(20);

/// Where ranks that begin get NCCL's id from rank 0.
///
/// ```
/// use epilogue_runtime::Rendezvous;
///
/// let by_file: Rendezvous = "file:/shared/job-4711.id".parse()?; // fresh for every job, seen by all computers
/// let by_port: Rendezvous = "tcp:node0:29400".parse()?; // rank 0 is on node0, and listens there
/// assert_eq!(by_port.to_string(), "tcp:node0:29400");
/// # let _ = by_file;
/// # Ok::<(), epilogue_runtime::Error>(())
/// ```
///
/// Whoever can read the file or reach the port gets the id, with which one could join: as NCCL itself, it is for networks
/// whose computers trust each other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rendezvous {
    /// A file, which must not exist when rank 0 begins. Rank 0 writes it; nobody removes it.
    File(PathBuf),
    /// A host and port on which rank 0 listens until all others have come.
    Tcp(String),
}

impl Rendezvous {
    /// The place that `EPILOGUE_RENDEZVOUS` says: `file:PATH` or `tcp:HOST:PORT`. (`MASTER_PORT` of `torchrun` is taken
    /// by its own store.)
    ///
    /// # Errors
    /// [`CommunicatorError::Environment`] if the variable is not set, or says something else.
    pub fn from_environment() -> Result<Self> {
        std::env::var("EPILOGUE_RENDEZVOUS").unwrap_or_default().parse()
    }

    /// The bytes that rank 0 has made, on every rank.
    #[cfg_attr(not(any(test, feature = "nccl")), allow(dead_code, reason = "there is nothing to share"))]
    pub(super) fn share<const N: usize>(
        &self,
        rank: usize,
        ranks: usize,
        timeout: Duration,
        make: impl FnOnce() -> Result<[u8; N], CommunicatorError>,
    ) -> Result<[u8; N], CommunicatorError> {
        let deadline = Instant::now() + timeout;
        let failed = |reason: String| CommunicatorError::Rendezvous { place: self.to_string(), reason };
        if rank == 0 {
            let id = make()?;
            let given = match self {
                _ if ranks == 1 => Ok(()),
                Self::File(path) => write(path, &id),
                Self::Tcp(address) => serve(address, &id, ranks, deadline),
            };
            return given.map(|()| id).map_err(failed);
        }
        loop {
            let got = match self {
                Self::File(path) => read(path, MAGIC.len() + N),
                Self::Tcp(address) => fetch(address, deadline, MAGIC.len() + N),
            };
            let id = got.as_ref().ok().and_then(|bytes| bytes.strip_prefix(&MAGIC)).map(<[u8; N]>::try_from);
            if let Some(Ok(id)) = id {
                return Ok(id);
            }
            if Instant::now() >= deadline {
                let what = got.map_or_else(|error| error.to_string(), |_| "it holds something else".to_owned());
                return Err(failed(format!(
                    "rank 0 has given no id in {} s ({what}): is it there?",
                    timeout.as_secs()
                )));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// A file's content, up to one byte more than is needed. No pipe is waited for.
fn read(path: &std::path::Path, needed: usize) -> io::Result<Vec<u8>> {
    let file = trust::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(needed as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a new file, complete from the moment at which it exists.
fn write(path: &std::path::Path, id: &[u8]) -> Result<(), String> {
    let part = path.with_extension(format!("{}.part", std::process::id()));
    fs::write(&part, [&MAGIC[..], id].concat()).map_err(|error| error.to_string())?;
    // Unlike a renaming, a link replaces nothing.
    let made = fs::hard_link(&part, path);
    let _ = fs::remove_file(&part);
    made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => "the file exists, of another job: give every job a new one".to_owned(),
        _ => error.to_string(),
    })
}

/// Gives the id to all other ranks that come.
fn serve(address: &str, id: &[u8], ranks: usize, deadline: Instant) -> Result<(), String> {
    let listener = TcpListener::bind(address).map_err(|error| format!("rank 0 can't listen there: {error}"))?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    let message = [&MAGIC[..], id].concat();
    let mut given = 1;
    while given < ranks {
        match listener.accept() {
            Ok((stream, _)) => given += usize::from(give(stream, &message).is_ok()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PAUSE / 4),
            Err(error) => return Err(error.to_string()),
        }
        if Instant::now() >= deadline {
            return Err(format!("only {given} of {ranks} ranks have come"));
        }
    }
    Ok(())
}

/// Gives the id to a rank, which says the magic words first and last: others that connect are not counted.
fn give(mut stream: TcpStream, message: &[u8]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.set_write_timeout(Some(Duration::from_secs(2)))?;
    for answer in [Some(message), None] {
        let mut said = MAGIC;
        stream.read_exact(&mut said)?;
        if said != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        answer.map_or(Ok(()), |message| stream.write_all(message))?;
    }
    Ok(())
}

fn fetch(address: &str, deadline: Instant, length: usize) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    let left = deadline.saturating_duration_since(Instant::now()).max(PAUSE);
    stream.set_read_timeout(Some(left))?;
    stream.write_all(&MAGIC)?;
    let mut message = vec![0; length];
    stream.read_exact(&mut message)?;
    stream.write_all(&MAGIC)?;
    Ok(message)
}

impl FromStr for Rendezvous {
    type Err = crate::error::Error;

    fn from_str(text: &str) -> Result<Self> {
        let file = text.strip_prefix("file:").filter(|path| !path.is_empty()).map(|path| Self::File(path.into()));
        let tcp = text.strip_prefix("tcp:").filter(|address| address.contains(':'));
        file.or_else(|| tcp.map(|address| Self::Tcp(address.to_owned()))).ok_or_else(|| {
            let (variable, value) = ("EPILOGUE_RENDEZVOUS", text.to_owned());
            CommunicatorError::Environment { variable, value, needed: "`file:PATH` or `tcp:HOST:PORT`" }.into()
        })
    }
}

impl fmt::Display for Rendezvous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(place: &Rendezvous, ranks: usize) -> Vec<Result<[u8; 3], CommunicatorError>> {
        std::thread::scope(|scope| {
            let ranks = (0..ranks)
                .rev()
                .map(|rank| scope.spawn(move || place.share(rank, ranks, Duration::from_secs(20), || Ok([1, 2, 3]))));
            ranks.collect::<Vec<_>>().into_iter().map(|rank| rank.join().expect("no panic")).collect()
        })
    }

    #[test]
    fn all_ranks_get_what_rank_0_has_made() {
        let folder = std::env::temp_dir().join(format!("epilogue-ranks-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let by_file: Rendezvous = format!("file:{}", folder.join("id").display()).parse().expect("understood");
        assert_eq!(shared(&by_file, 4), vec![Ok([1, 2, 3]); 4]);
        let again = by_file.share(0, 4, Duration::ZERO, || Ok([0; 3])).expect_err("of another job");
        assert!(again.to_string().ends_with("give every job a new one"), "{again}");
        fs::remove_dir_all(&folder).expect("removed");

        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let by_port: Rendezvous = format!("tcp:127.0.0.1:{port}").parse().expect("understood");
        assert_eq!(shared(&by_port, 4), vec![Ok([1, 2, 3]); 4]);
        let alone = by_port.share(1, 2, Duration::ZERO, || Ok([0; 3])).expect_err("nobody listens");
        assert!(alone.to_string().contains("rank 0 has given no id"), "{alone}");
    }

    #[test]
    fn nothing_else_is_a_rendezvous() {
        for text in ["", "file:", "tcp:node", "http://node"] {
            let said = text.parse::<Rendezvous>().expect_err("refused").to_string();
            assert_eq!(said, format!("EPILOGUE_RENDEZVOUS is `{text}`; it must be `file:PATH` or `tcp:HOST:PORT`"));
        }
    }

    /// A file that never ends, and a pipe that nobody writes to.
    #[cfg(unix)]
    #[test]
    fn only_files_are_read_and_only_as_far_as_an_id() {
        let pipe = std::env::temp_dir().join(format!("epilogue-rendezvous-pipe-{}", std::process::id()));
        trust::make_pipe(&pipe);
        let long = pipe.with_extension("long");
        fs::write(&long, [&MAGIC[..], &[7; 1000]].concat()).unwrap();
        for (path, said) in
            [(&pipe, "it is not a file"), (&PathBuf::from("/dev/zero"), "it is not a file"), (&long, "something else")]
        {
            let refused = Rendezvous::File(path.clone()).share(1, 2, PAUSE, || Ok([0u8; 3])).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
        assert_eq!(read(&long, MAGIC.len() + 3).unwrap().len(), MAGIC.len() + 4);
        fs::remove_file(pipe).unwrap();
        fs::remove_file(long).unwrap();
    }
}
