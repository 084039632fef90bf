//! Ranks that are threads of one process, with a transport between them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use eindecomp_runtime::transport::{Message, Receive, Transport};

/// From, to, tag.
type Line = (u32, u32, u32);

/// What was sent and not asked for, and what was asked for and not sent.
#[derive(Default)]
struct Post {
    sent: HashMap<Line, VecDeque<Message>>,
    awaited: HashMap<Line, VecDeque<Receive>>,
}

/// One end of the transport.
pub struct Threads {
    rank: u32,
    ranks: u32,
    post: Arc<Mutex<Post>>,
}

impl Threads {
    /// The ends of `ranks` ranks.
    pub fn ends(ranks: u32) -> Vec<Arc<dyn Transport>> {
        let post = Arc::new(Mutex::new(Post::default()));
        let end = |rank| -> Arc<dyn Transport> {
            let post = post.clone();
            Arc::new(Threads { rank, ranks, post })
        };
        (0..ranks).map(end).collect()
    }
}

/// Hands a message over; nothing is locked meanwhile.
fn deliver(message: Message, receive: Receive) {
    assert_eq!(message.bytes().len(), receive.bytes, "{}", (receive.what)());
    (receive.done)(message);
}

impl Transport for Threads {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn max_tag(&self) -> u32 {
        32_767
    }

    fn send(&self, to: u32, tag: u32, message: Message) {
        let line = (self.rank, to, tag);
        let mut post = self.post.lock().expect("nobody panics with it");
        let awaited = post.awaited.get_mut(&line).and_then(VecDeque::pop_front);
        match awaited {
            None => post.sent.entry(line).or_default().push_back(message),
            Some(receive) => {
                drop(post);
                deliver(message, receive);
            }
        }
    }

    fn receive(&self, receive: Receive) {
        let line = (receive.from, self.rank, receive.tag);
        let mut post = self.post.lock().expect("nobody panics with it");
        let sent = post.sent.get_mut(&line).and_then(VecDeque::pop_front);
        match sent {
            None => post.awaited.entry(line).or_default().push_back(receive),
            Some(message) => {
                drop(post);
                deliver(message, receive);
            }
        }
    }

    fn abort(&self, why: &str) -> ! {
        panic!("rank {}: {why}", self.rank)
    }
}

/// What each rank says, of which each is a thread.
pub fn on_ranks<T: Send>(ranks: u32, rank: impl Fn(Arc<dyn Transport>) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let ends = Threads::ends(ranks).into_iter();
        let threads: Vec<_> = ends.map(|end| scope.spawn(|| rank(end))).collect();
        let said = threads.into_iter().map(|t| t.join());
        said.map(|said| said.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
