//! A name server over UDP that answers what a test says, as often and as differently as it says.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};

use tokio::net::UdpSocket;

/// What a name leads to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Record {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    /// Another name, to which the records behind it belong.
    Cname(&'static str),
}

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;

/// A question: the name in lower case, whether it is for version 6, and how often it was put before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) name: String,
    pub(crate) v6: bool,
    pub(crate) nth: usize,
}

type Zone = dyn Fn(&Question) -> Option<Vec<Record>> + Send + Sync;

/// The server; it lives as long as the test's runtime.
#[derive(Clone)]
pub(crate) struct FakeDns {
    /// `127.0.0.1:port`.
    pub(crate) server: String,
    asked: Arc<Mutex<Vec<Question>>>,
}

impl FakeDns {
    /// Starts one. `None` is no answer at all, an empty list is an answer without records.
    pub(crate) async fn start(
        zone: impl Fn(&Question) -> Option<Vec<Record>> + Send + Sync + 'static,
    ) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let server = socket.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&asked);
        #[expect(clippy::disallowed_methods, reason = "a fake peer ends with its test")]
        tokio::spawn(async move { serve(&socket, &shared, &zone).await });
        Self { server, asked }
    }

    /// The questions so far, in order.
    pub(crate) fn asked(&self) -> Vec<Question> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(socket: &UdpSocket, asked: &Mutex<Vec<Question>>, zone: &Zone) {
    let mut packet = [0; 1_500];
    loop {
        let (length, peer) = socket.recv_from(&mut packet).await.unwrap();
        let (name, question, kind) = read(&packet[..length]);
        let found = {
            let mut asked = asked.lock().unwrap();
            let v6 = kind == AAAA;
            let nth = asked.iter().filter(|other| other.name == name && other.v6 == v6).count();
            let question = Question { name, v6, nth };
            asked.push(question.clone());
            zone(&question)
        };
        if let Some(records) = found {
            let answer = answer([packet[0], packet[1]], question, &records, kind);
            socket.send_to(&answer, peer).await.unwrap();
        }
    }
}

/// The name that is asked for, the question as it stands in the packet, and the type.
fn read(packet: &[u8]) -> (String, &[u8], u16) {
    let mut labels = Vec::new();
    let mut at = 12;
    while packet[at] != 0 {
        let end = at + 1 + usize::from(packet[at]);
        labels.push(String::from_utf8(packet[at + 1..end].to_vec()).unwrap().to_lowercase());
        at = end;
    }
    let kind = u16::from_be_bytes([packet[at + 1], packet[at + 2]]);
    (labels.join("."), &packet[12..at + 5], kind)
}

/// Records of a type that was not asked for are left out, but for other names.
fn answer(id: [u8; 2], question: &[u8], records: &[Record], kind: u16) -> Vec<u8> {
    let mut owner = question[..question.len() - 4].to_vec();
    let mut answers = Vec::new();
    let mut count: u16 = 0;
    for record in records {
        let (of, data) = match record {
            Record::A(address) => (A, address.octets().to_vec()),
            Record::Aaaa(address) => (AAAA, address.octets().to_vec()),
            Record::Cname(name) => (CNAME, encoded(name)),
        };
        if of != kind && of != CNAME {
            continue;
        }
        answers.extend_from_slice(&owner);
        answers.extend(of.to_be_bytes());
        answers.extend([0, 1, 0, 0, 0, 1]);
        answers.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        answers.extend_from_slice(&data);
        count += 1;
        if of == CNAME {
            owner = data;
        }
    }
    let [high, low] = count.to_be_bytes();
    let head = [id[0], id[1], 0x81, 0x80, 0, 1, high, low, 0, 0, 0, 0];
    [&head, question, &answers].concat()
}

fn encoded(name: &str) -> Vec<u8> {
    let labels = name
        .split('.')
        .flat_map(|label| [&[u8::try_from(label.len()).unwrap()], label.as_bytes()].concat());
    labels.chain([0]).collect()
}
