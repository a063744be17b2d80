//! A proxy in front of Postgres that reads along and does harm: it delays, cuts, falls silent, loses an
//! answer, answers with a failure of its own, or changes a statement on its way.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::unix;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

/// What is done when a statement is about to be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Harm {
    /// The client loses its connection before the statement is sent.
    CutBefore,
    /// The statement is executed, and the client loses its connection instead of the answer.
    LoseAnswer,
    /// The statement is executed, and the client hears nothing more, ever.
    Mute,
    /// The statement is kept until the proxy is told to let go.
    Hold,
    /// The statement is not executed and answered with this SQLSTATE.
    Fail(&'static str),
}

/// A harm to the next so many statements that contain a text.
#[derive(Debug)]
struct Trap {
    text: String,
    harm: Harm,
    left: usize,
}

#[derive(Debug)]
struct Shared {
    upstream: Mutex<String>,
    traps: Mutex<Vec<Trap>>,
    /// Statements that are changed: how they begin, a text, and what stands in its place.
    changes: Mutex<Vec<[&'static str; 3]>>,
    sprung: watch::Sender<usize>,
    /// Whether held statements are kept.
    holds: watch::Sender<bool>,
    /// Whether nothing passes in either direction.
    silent: watch::Sender<bool>,
    /// Grows each time all connections are cut.
    cuts: watch::Sender<usize>,
    opened: Mutex<usize>,
    /// The SQLSTATE of every failure that the server told.
    failures: Mutex<Vec<String>>,
}

impl Shared {
    /// The harm that waits for a statement.
    fn spring(&self, sql: &str) -> Option<Harm> {
        let mut traps = lock(&self.traps);
        let trap = traps.iter_mut().find(|trap| trap.left > 0 && sql.contains(&trap.text))?;
        trap.left -= 1;
        self.sprung.send_modify(|n| *n += 1);
        Some(trap.harm.clone())
    }

    fn changed(&self, sql: &str) -> Option<String> {
        let changes = lock(&self.changes);
        let fits = |change: &&[&str; 3]| sql.contains(change[0]) && sql.contains(change[1]);
        let [_, from, to] = changes.iter().find(fits)?;
        self.sprung.send_modify(|n| *n += 1);
        Some(sql.replace(from, to))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

/// The proxy. It lives as long as the test's runtime.
#[derive(Debug, Clone)]
pub(crate) struct PgProxy {
    /// Where the database is, seen through the proxy.
    pub(crate) url: String,
    shared: Arc<Shared>,
}

impl PgProxy {
    /// A proxy to the database at a URL that names a directory of sockets.
    pub(crate) async fn to(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (path, database) = parts_of(url);
        let shared = Arc::new(Shared {
            upstream: Mutex::new(path),
            traps: Mutex::default(),
            changes: Mutex::default(),
            sprung: watch::Sender::new(0),
            holds: watch::Sender::new(true),
            silent: watch::Sender::new(false),
            cuts: watch::Sender::new(0),
            opened: Mutex::new(0),
            failures: Mutex::default(),
        });
        let url = format!("postgres://agentling@{address}/{database}?sslmode=disable");
        start(accept(listener, Arc::clone(&shared)));
        Self { url, shared }
    }

    /// From now on new connections lead to another server.
    pub(crate) fn lead_to(&self, url: &str) {
        *lock(&self.shared.upstream) = parts_of(url).0;
    }

    /// The directory of the socket of the server.
    pub(crate) fn socket_dir(&self) -> PathBuf {
        Path::new(&*lock(&self.shared.upstream)).parent().unwrap().to_owned()
    }

    /// Does harm to the next so many statements that contain a text.
    pub(crate) fn trap(&self, text: &str, harm: Harm, times: usize) {
        lock(&self.shared.traps).push(Trap { text: text.to_owned(), harm, left: times });
    }

    /// Changes a text, wherever it stands, in every statement that contains it and a mark, and is prepared
    /// from now on.
    pub(crate) fn change(&self, mark: &'static str, from: &'static str, to: &'static str) {
        lock(&self.shared.changes).push([mark, from, to]);
    }

    /// How often harm was done or a statement was changed.
    pub(crate) fn times(&self) -> usize {
        *self.shared.sprung.borrow()
    }

    /// Waits until that was so often.
    pub(crate) async fn sprung(&self, times: usize) {
        let mut sprung = self.shared.sprung.subscribe();
        sprung.wait_for(|n| *n >= times).await.unwrap();
    }

    /// Lets every held statement go.
    pub(crate) fn let_go(&self) {
        self.shared.holds.send_replace(false);
    }

    /// Forwards nothing any more, or everything again.
    pub(crate) fn silence(&self, silent: bool) {
        self.shared.silent.send_replace(silent);
    }

    /// Cuts every connection that is open.
    pub(crate) fn cut(&self) {
        self.shared.cuts.send_modify(|n| *n += 1);
    }

    /// The SQLSTATE of every failure that the server told so far.
    pub(crate) fn failures(&self) -> Vec<String> {
        lock(&self.shared.failures).clone()
    }

    /// How many connections were opened so far.
    pub(crate) fn opened(&self) -> usize {
        *lock(&self.shared.opened)
    }
}

/// The socket and the database of a URL that names a directory of sockets.
fn parts_of(url: &str) -> (String, String) {
    let url = url::Url::parse(url).unwrap();
    let host = url.query_pairs().find(|(name, _)| name == "host").expect("it names one").1;
    (format!("{host}/.s.PGSQL.5432"), url.path().trim_start_matches('/').to_owned())
}

fn start(task: impl Future<Output = ()> + Send + 'static) {
    #[expect(clippy::disallowed_methods, reason = "a fake peer ends with its test")]
    tokio::spawn(task);
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        client.set_nodelay(true).unwrap();
        *lock(&shared.opened) += 1;
        start(serve(client, Arc::clone(&shared)));
    }
}

async fn serve(client: TcpStream, shared: Arc<Shared>) {
    let mut cuts = shared.cuts.subscribe();
    cuts.borrow_and_update();
    let upstream = lock(&shared.upstream).clone();
    let Ok(server) = UnixStream::connect(upstream).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mood = watch::Sender::new(Mood::Open);
    let session = Session { shared: Arc::clone(&shared), to_server, mood: mood.clone() };
    let answers = answers(from_server, to_client, mood, Arc::clone(&shared));
    tokio::select! {
        _ = session.run(from_client) => {}
        _ = answers => {}
        _ = cuts.changed() => {}
    }
}

/// What becomes of the answers of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mood {
    /// They are forwarded.
    Open,
    /// They are dropped up to the end of the next one, and then the connection is.
    Losing,
    /// They are dropped, and nothing ever comes.
    Mute,
    /// This comes before those to come.
    Instead(Vec<u8>),
}

/// A message: its type and what follows its length.
type Message = (u8, Vec<u8>);

async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Message> {
    let kind = from.read_u8().await?;
    let length = from.read_u32().await? as usize;
    let mut body = vec![0; length - 4];
    from.read_exact(&mut body).await?;
    Ok((kind, body))
}

fn bytes((kind, body): &Message) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[*kind][..], &length.to_be_bytes(), body].concat()
}

async fn answers(
    mut from: unix::OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mood: watch::Sender<Mood>,
    shared: Arc<Shared>,
) -> io::Result<()> {
    let mut moods = mood.subscribe();
    loop {
        let message = tokio::select! {
            biased;
            _ = moods.wait_for(|mood| matches!(mood, Mood::Instead(_))) => None,
            message = read(&mut from) => Some(message?),
        };
        if let Some((b'E', fields)) = &message {
            lock(&shared.failures).push(state_of(fields));
        }
        shared.silent.subscribe().wait_for(|silent| !silent).await.unwrap();
        let now = moods.borrow_and_update().clone();
        match (message, now) {
            (None, Mood::Instead(answer)) => {
                mood.send_replace(Mood::Open);
                to.write_all(&answer).await?;
            }
            (Some((b'Z', _)), Mood::Losing) => return Ok(()),
            (None, _) | (Some(_), Mood::Losing | Mood::Mute | Mood::Instead(_)) => {}
            (Some(message), Mood::Open) => to.write_all(&bytes(&message)).await?,
        }
    }
}

/// The SQLSTATE among the fields of a failure.
fn state_of(fields: &[u8]) -> String {
    let mut fields = fields.split(|byte| *byte == 0);
    let state = fields.find_map(|field| field.strip_prefix(b"C")).unwrap_or_default();
    String::from_utf8_lossy(state).into_owned()
}

/// One connection, as the client drives it.
struct Session {
    shared: Arc<Shared>,
    to_server: unix::OwnedWriteHalf,
    mood: watch::Sender<Mood>,
}

impl Session {
    async fn run(mut self, mut from: OwnedReadHalf) -> io::Result<()> {
        let length = from.read_u32().await?;
        let mut hello = vec![0; length as usize - 4];
        from.read_exact(&mut hello).await?;
        self.to_server.write_all(&length.to_be_bytes()).await?;
        self.to_server.write_all(&hello).await?;
        let mut statements: BTreeMap<Vec<u8>, String> = BTreeMap::new();
        loop {
            let mut message = read(&mut from).await?;
            let sql = match message.0 {
                b'P' => {
                    prepare(&self.shared, &mut message, &mut statements);
                    None
                }
                b'Q' => Some(text(&message.1).0),
                b'B' => {
                    let name = text_bytes(text_bytes(&message.1).1).0;
                    statements.get(name).cloned()
                }
                _ => None,
            };
            let harm = sql.and_then(|sql| self.shared.spring(&sql));
            if self.suffer(harm, &message, &mut from).await? {
                continue;
            }
            self.shared.silent.subscribe().wait_for(|silent| !silent).await.unwrap();
            self.to_server.write_all(&bytes(&message)).await?;
        }
    }

    /// Does the harm; whether the message is dealt with.
    async fn suffer(
        &mut self,
        harm: Option<Harm>,
        message: &Message,
        from: &mut OwnedReadHalf,
    ) -> io::Result<bool> {
        match harm {
            None => {}
            Some(Harm::CutBefore) => return Err(io::ErrorKind::ConnectionReset.into()),
            Some(Harm::LoseAnswer) => drop(self.mood.send_replace(Mood::Losing)),
            Some(Harm::Mute) => drop(self.mood.send_replace(Mood::Mute)),
            Some(Harm::Hold) => {
                let mut holds = self.shared.holds.subscribe();
                holds.wait_for(|holds| !holds).await.unwrap();
            }
            Some(Harm::Fail(state)) => {
                // The rest of the statement is not sent either.
                let mut kind = message.0;
                while !matches!(kind, b'S' | b'Q') {
                    kind = read(from).await?.0;
                }
                self.mood.send_replace(Mood::Instead(failure(state)));
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Notes what a statement is called, and changes it where that is asked for.
fn prepare(shared: &Shared, message: &mut Message, statements: &mut BTreeMap<Vec<u8>, String>) {
    let (name, rest) = text_bytes(&message.1);
    let (sql, types) = text(rest);
    if let Some(changed) = shared.changed(&sql) {
        let body = [name, &[0], changed.as_bytes(), &[0], types].concat();
        statements.insert(name.to_vec(), changed);
        message.1 = body;
    } else {
        statements.insert(name.to_vec(), sql);
    }
}

/// What stands before the next zero, and what after it.
fn text_bytes(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap();
    (&bytes[..end], &bytes[end + 1..])
}

fn text(bytes: &[u8]) -> (String, &[u8]) {
    let (text, rest) = text_bytes(bytes);
    (String::from_utf8(text.to_vec()).unwrap(), rest)
}

/// A failure, and the end of the answer.
fn failure(state: &str) -> Vec<u8> {
    let fields = format!("SERROR\0VERROR\0C{state}\0Ma fault of the proxy\0\0");
    let failed = bytes(&(b'E', fields.into_bytes()));
    // A transaction counts as failed, so that the client rolls it back.
    [failed, bytes(&(b'Z', b"E".to_vec()))].concat()
}
