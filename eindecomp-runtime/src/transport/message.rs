//! Messages.

use std::sync::mpsc;

use super::{TEXT_TAGS, Transport};

/// Bytes that are sent or were received, aligned for every element type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    words: Vec<u64>,
    bytes: usize,
}

impl Message {
    /// So many bytes, all 0.
    pub fn zeros(bytes: usize) -> Message {
        let words = vec![0; bytes.div_ceil(size_of::<u64>())];
        Message { words, bytes }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.bytes]
    }

    /// The bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.bytes]
    }
}

impl From<&[u8]> for Message {
    fn from(bytes: &[u8]) -> Message {
        let mut message = Message::zeros(bytes.len());
        message.bytes_mut().copy_from_slice(bytes);
        message
    }
}

/// A message that is waited for.
pub struct Receive {
    /// The rank that sends it.
    pub from: u32,
    /// Its tag.
    pub tag: u32,
    /// Its size, which the sender keeps to.
    pub bytes: usize,
    /// What waits for it, for people.
    pub what: Box<dyn Fn() -> String + Send>,
    /// Called once, when it is here, by any thread; it does not wait.
    pub done: Box<dyn FnOnce(Message) + Send>,
}

/// Waits for one message.
pub fn wait(
    transport: &dyn Transport,
    from: u32,
    tag: u32,
    bytes: usize,
    what: impl Fn() -> String + Send + 'static,
) -> Message {
    let (sender, receiver) = mpsc::channel();
    transport.receive(Receive {
        from,
        tag,
        bytes,
        what: Box::new(what),
        done: Box::new(move |message| {
            let _ = sender.send(message);
        }),
    });
    match receiver.recv() {
        Ok(message) => message,
        Err(_) => transport.abort(&format!("the message of rank {from} was dropped")),
    }
}

/// Sends a text, or why there is none, from rank 0 to every other rank, which [waits](told) for it.
pub fn tell(transport: &dyn Transport, said: Result<&[u8], &str>) {
    let text = said.unwrap_or_else(str::as_bytes);
    let text = [&[u8::from(said.is_ok())], text].concat();
    let bytes = (text.len() as u64).to_le_bytes();
    for to in 1..transport.ranks() {
        transport.send(to, TEXT_TAGS[0], Message::from(&bytes[..]));
        transport.send(to, TEXT_TAGS[1], Message::from(&text[..]));
    }
}

/// Waits for the text of rank 0.
///
/// # Errors
/// Why rank 0 has none.
pub fn told(transport: &dyn Transport, what: &'static str) -> Result<Vec<u8>, String> {
    const BYTES: usize = size_of::<u64>();
    let bytes = wait(transport, 0, TEXT_TAGS[0], BYTES, move || what.into());
    let mut length = [0; BYTES];
    length.copy_from_slice(bytes.bytes());
    let length = u64::from_le_bytes(length) as usize;
    let text = wait(transport, 0, TEXT_TAGS[1], length, move || what.into());
    match text.bytes().split_first() {
        Some((1, text)) => Ok(text.to_vec()),
        Some((_, why)) => Err(String::from_utf8_lossy(why).into_owned()),
        None => transport.abort(&format!("rank 0 sent nothing of {what}")),
    }
}
