//! JSON as entries are written: for people, and for tools that compare lines.

use std::io;

use serde::Serialize;

use crate::quick::lines;

/// The text of a value that stands in an object: the first two levels of it by lines.
pub(super) fn to_string(value: &impl Serialize) -> String {
    at_depth(value, 1)
}

/// Appends what [`to_string`] writes for the list of a text's lines in an object.
pub(super) fn list_of_lines(text: &str, out: &mut String) {
    let mut before = "[";
    for line in lines(text) {
        out.push_str(before);
        out.push_str("\n      ");
        // no branch per byte
        let special = |b: u8| (b < b' ') | (b == b'"') | (b == b'\\');
        match line.bytes().fold(false, |any, b| any | special(b)) {
            false => out.extend(["\"", line, "\""]),
            true => out.push_str(&serde_json::to_string(line).expect("a string is JSON")),
        }
        before = ",";
    }
    out.push_str(if before == "[" { "[]" } else { "\n    ]" });
}

/// The text of a value on one line.
pub(super) fn to_line(value: &impl Serialize) -> String {
    at_depth(value, Lines::DEPTH)
}

fn at_depth(value: &impl Serialize, depth: usize) -> String {
    let mut out = Vec::new();
    let lines = Lines { depth, first: true };
    let mut writer = serde_json::Serializer::with_formatter(&mut out, lines);
    value
        .serialize(&mut writer)
        .expect("what is written has string keys only, and a vector takes all");
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// One line per item down to [`Lines::DEPTH`], the rest of an item on its line.
struct Lines {
    depth: usize,
    /// Is the collection that was opened last still empty?
    first: bool,
}

impl Lines {
    const DEPTH: usize = 3;
    const INDENT: &[u8; 1 + 2 * Lines::DEPTH] = b"\n      ";

    fn open(&mut self) {
        self.depth += 1;
        self.first = true;
    }

    fn close<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.depth -= 1;
        let empty = std::mem::replace(&mut self.first, false);
        if self.depth < Self::DEPTH && !empty {
            self.newline(w)?;
        }
        Ok(())
    }

    fn item<W: ?Sized + io::Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        self.first = false;
        if !first {
            w.write_all(b",")?;
        }
        if self.depth <= Self::DEPTH {
            self.newline(w)
        } else if first {
            Ok(())
        } else {
            w.write_all(b" ")
        }
    }

    fn newline<W: ?Sized + io::Write>(&self, w: &mut W) -> io::Result<()> {
        w.write_all(&Lines::INDENT[..1 + 2 * self.depth])
    }
}

impl serde_json::ser::Formatter for Lines {
    fn begin_array<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.open();
        w.write_all(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.close(w)?;
        w.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.item(w, first)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.open();
        w.write_all(b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.close(w)?;
        w.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.item(w, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(b": ")
    }
}
