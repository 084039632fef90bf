//! What a thread says through `tracing`.

use std::cell::RefCell;
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// A span or event: its level, and its name or message.
pub type Seen = (Level, String);

thread_local! {
    static SEEN: RefCell<Option<Vec<Seen>>> = const { RefCell::new(None) };
}

/// Spans that are opened and events on this thread while `f` runs, in order.
///
/// The subscriber is the process' own. One for a scope would miss what another thread met first, since
/// `tracing` keeps who is interested in a place of the code.
pub fn seen<T>(f: impl FnOnce() -> T) -> (T, Vec<Seen>) {
    static SET: Once = Once::new();
    SET.call_once(|| tracing::subscriber::set_global_default(Listener).expect("the only one"));
    SEEN.set(Some(Vec::new()));
    let result = f();
    (result, SEEN.take().unwrap_or_default())
}

struct Listener;

fn note(metadata: &Metadata<'_>, text: String) {
    SEEN.with_borrow_mut(|seen| {
        seen.iter_mut()
            .for_each(|s| s.push((*metadata.level(), text.clone())))
    });
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        note(span.metadata(), span.metadata().name().into());
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        note(event.metadata(), message.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
