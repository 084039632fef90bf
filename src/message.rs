//! How an error of `ein!` is said by the evaluation of a const.

/// A message: as it is, or with the values of a condition's two sides.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    text: &'a str,
    sides: Option<(i64, &'a str, i64)>,
    more: &'a str,
}

impl<'a> Message<'a> {
    /// The message `text`.
    pub const fn new(text: &'a str) -> Message<'a> {
        Message {
            text,
            sides: None,
            more: "",
        }
    }

    /// `text`, then `left cmp right`, then `more`.
    pub const fn sides(
        text: &'a str,
        left: i64,
        cmp: &'a str,
        right: i64,
        more: &'a str,
    ) -> Message<'a> {
        Message {
            text,
            sides: Some((left, cmp, right)),
            more,
        }
    }
}

/// Fails the evaluation of a const, which is how an error of `ein!` shows two places.
#[track_caller]
pub const fn error(message: Message<'_>) -> ! {
    let Some((left, cmp, right)) = message.sides else {
        panic!("{}", message.text);
    };
    let mut out = Text::new();
    out.push(message.text);
    out.push(" `");
    out.number(left);
    out.push(" ");
    out.push(cmp);
    out.push(" ");
    out.number(right);
    out.push("`");
    out.push(message.more);
    panic!("{}", out.as_str())
}

/// A text of bounded length; what does not fit is left out.
struct Text {
    bytes: [u8; 4096],
    len: usize,
}

impl Text {
    const fn new() -> Text {
        Text {
            bytes: [0; 4096],
            len: 0,
        }
    }

    const fn push(&mut self, text: &str) {
        let text = text.as_bytes();
        if text.len() > self.bytes.len() - self.len {
            return;
        }
        let mut at = 0;
        while at < text.len() {
            self.bytes[self.len] = text[at];
            self.len += 1;
            at += 1;
        }
    }

    const fn number(&mut self, number: i64) {
        if number < 0 {
            self.push("-");
        }
        let mut unit = 1;
        let magnitude = number.unsigned_abs();
        while magnitude / unit >= 10 {
            unit *= 10;
        }
        while unit > 0 {
            let digit = (magnitude / unit % 10) as u8;
            if self.len < self.bytes.len() {
                self.bytes[self.len] = b'0' + digit;
                self.len += 1;
            }
            unit /= 10;
        }
    }

    const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_that_do_not_fit() {
        let mut out = Text::new();
        for number in [0, -7, 10, 909, i64::MIN, i64::MAX] {
            out.number(number);
            out.push(" ");
        }
        let wanted = format!("0 -7 10 909 {} {} ", i64::MIN, i64::MAX);
        assert_eq!(out.as_str(), wanted);
        out.push(&"x".repeat(4096));
        assert_eq!(out.as_str(), wanted);
    }
}
