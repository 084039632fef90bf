//! Text to tokens, exactly as Rust's own lexer would hand them to the macro.

use super::diag::{Code, Diag, Fix};
use super::token::{Builder, Delim, Span, TokenBuffer};

/// Reads a text; spans are byte offsets. Problems are reported and reading goes on.
pub fn lex(source: &str) -> (TokenBuffer, Vec<Diag>) {
    lex_at(source, 0)
}

/// [`lex`], every span shifted by `base`.
pub fn lex_at(source: &str, base: u32) -> (TokenBuffer, Vec<Diag>) {
    // Spans are u32, so a longer text is refused rather than mislabelled.
    let end = u32::try_from(source.len()).ok();
    let Some(end) = end.and_then(|end| end.checked_add(base)) else {
        let diag = Diag::new(Code::Syntax, Span::default(), "the text is over 4 GiB");
        return (TokenBuffer::default(), vec![diag]);
    };
    let mut lexer = Lexer {
        source,
        base,
        at: 0,
        out: Builder::new(),
    };
    while lexer.token() {}
    lexer.out.finish(Span::new(end, end))
}

/// May start an identifier.
fn is_start(ch: char) -> bool {
    ch == '_' || ch.is_alphabetic()
}

/// May continue an identifier.
fn is_continue(ch: char) -> bool {
    ch == '_' || ch.is_alphanumeric()
}

struct Lexer<'a> {
    source: &'a str,
    base: u32,
    at: usize,
    out: Builder,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest().chars().nth(ahead)
    }

    fn eat_while(&mut self, accept: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|ch| !accept(ch)).unwrap_or(rest.len());
    }

    fn since(&self, start: usize) -> Span {
        self.span(start, self.at)
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.base + start as u32, self.base + end as u32)
    }

    /// Reads one token or gap; false at the end.
    fn token(&mut self) -> bool {
        self.eat_while(char::is_whitespace);
        let (start, rest) = (self.at, self.rest());
        let Some(ch) = rest.chars().next() else {
            return false;
        };
        if rest.starts_with("//") {
            self.line_comment();
        } else if is_hash_comment(rest) {
            let span = self.span(start, start + 1);
            let fix = Fix::replace(span, "//", "write {}");
            let diag = Diag::new(Code::Syntax, span, "a comment begins with `//`");
            self.out.slip(diag.fix(fix));
            self.line_comment();
        } else if rest.starts_with("/*") {
            self.block_comment();
        } else if let Some(hashes) = raw_string(rest) {
            self.raw_string(hashes);
        } else if rest.starts_with("r#") && self.peek(2).is_some_and(is_start) {
            self.at += 2;
            self.eat_while(is_continue);
            self.out
                .ident(&self.source[start..self.at], self.since(start));
        } else if is_start(ch) {
            self.eat_while(is_continue);
            self.out
                .ident(&self.source[start..self.at], self.since(start));
        } else if ch.is_ascii_digit() {
            self.number();
            self.out
                .literal(&self.source[start..self.at], self.since(start));
        } else if ch == '"' {
            self.string();
        } else {
            self.symbol(ch);
        }
        true
    }

    fn symbol(&mut self, ch: char) {
        let start = self.at;
        self.at += ch.len_utf8();
        let span = self.since(start);
        match ch {
            '(' => self.out.open(Delim::Paren, span),
            '[' => self.out.open(Delim::Bracket, span),
            '{' => self.out.open(Delim::Brace, span),
            ')' => self.out.close(Delim::Paren, span),
            ']' => self.out.close(Delim::Bracket, span),
            '}' => self.out.close(Delim::Brace, span),
            _ => {
                let next = self.rest();
                // Only operator characters fuse, and a comment ends an operator.
                let joint = !next.starts_with("//") && !next.starts_with("/*");
                let adjacent = next
                    .chars()
                    .next()
                    .is_some_and(|c| c.is_ascii_punctuation());
                self.out.punct(ch, joint && adjacent, span);
            }
        }
    }

    fn line_comment(&mut self) {
        let start = self.at;
        self.eat_while(|ch| ch != '\n');
        let text = &self.source[start..self.at];
        if let Some(doc) = text.strip_prefix("///").filter(|doc| !doc.starts_with('/')) {
            self.doc(doc.trim_end_matches('\r'), start);
        }
    }

    fn block_comment(&mut self) {
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            let rest = self.rest();
            if rest.starts_with("/*") {
                (depth, self.at) = (depth + 1, self.at + 2);
            } else if rest.starts_with("*/") {
                (depth, self.at) = (depth - 1, self.at + 2);
                if depth == 0 {
                    break;
                }
            } else if let Some(ch) = rest.chars().next() {
                self.at += ch.len_utf8();
            } else {
                let open = self.span(start, start + 2);
                self.out.error(Diag::new(
                    Code::Syntax,
                    open,
                    "this comment is never closed",
                ));
                return;
            }
        }
        let text = &self.source[start..self.at];
        if text.len() > 4 && text.starts_with("/**") && !text.starts_with("/***") {
            self.doc(&text[3..text.len() - 2], start);
        }
    }

    /// A doc comment is the attribute `#[doc = "…"]`, as in Rust.
    fn doc(&mut self, text: &str, start: usize) {
        let span = self.since(start);
        self.out.punct('#', false, span);
        self.out.open(Delim::Bracket, span);
        self.out.ident("doc", span);
        self.out.punct('=', false, span);
        self.out.literal(&format!("{text:?}"), span);
        self.out.close(Delim::Bracket, span);
    }

    fn number(&mut self) {
        let radix = ["0x", "0o", "0b"]
            .iter()
            .any(|prefix| self.rest().starts_with(prefix));
        self.eat_while(|ch| ch == '_' || ch.is_ascii_digit());
        if !radix {
            // `1..2` is a range and `1.x` a field, but `1.` and `1.5` are floats.
            let after_dot = self.peek(1);
            if self.peek(0) == Some('.') && !after_dot.is_some_and(|ch| ch == '.' || is_start(ch)) {
                self.at += 1;
                self.eat_while(|ch| ch == '_' || ch.is_ascii_digit());
            }
            if matches!(self.peek(0), Some('e' | 'E')) {
                let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
                if self.peek(1 + sign).is_some_and(|ch| ch.is_ascii_digit()) {
                    self.at += 1 + sign;
                }
            }
        }
        self.eat_while(is_continue);
    }

    fn string(&mut self) {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek(0) {
                Some('"') => break self.at += 1,
                Some('\\') => self.at += 1 + self.peek(1).map_or(0, char::len_utf8),
                Some(ch) => self.at += ch.len_utf8(),
                None => return self.open_string(start),
            }
        }
        self.out
            .literal(&self.source[start..self.at], self.since(start));
    }

    fn raw_string(&mut self, hashes: usize) {
        let start = self.at;
        let close = format!("\"{}", "#".repeat(hashes));
        let body = start + 2 + hashes;
        match self.source[body..].find(&close) {
            Some(length) => self.at = body + length + close.len(),
            None => {
                self.at = self.source.len();
                return self.open_string(start);
            }
        }
        self.out
            .literal(&self.source[start..self.at], self.since(start));
    }

    fn open_string(&mut self, start: usize) {
        let quote = self.span(start, start + 1);
        self.out.error(Diag::new(
            Code::Syntax,
            quote,
            "this string is never closed",
        ));
    }
}

/// Does a comment of Python start here? An attribute's `#` may stand apart from its bracket.
fn is_hash_comment(rest: &str) -> bool {
    let after = rest.strip_prefix("# ").map(str::trim_start);
    after.is_some_and(|after| !after.starts_with(['[', '!']))
}

/// The number of hashes, if a raw string starts here.
fn raw_string(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let body = after.trim_start_matches('#');
    body.starts_with('"').then(|| after.len() - body.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expect: &str) {
        let (buffer, diags) = lex(source);
        let mut tokens: Vec<String> = buffer.tokens().iter().map(|t| t.tok.to_string()).collect();
        tokens.extend(diags.iter().map(|d| format!("!{}", d.message)));
        assert_eq!(tokens.join(" "), expect, "{source}");
    }

    #[test]
    fn operators_fuse_only_when_adjacent() {
        check("a..b -> c == d", "a .. b -> c == d");
        check(": : . . - > a::b", ": : . . - > a :: b");
        check("x<-1&&y||!z", "x < - 1 && y || ! z");
        check("a /**/ =/**/= b", "a = = b");
    }

    #[test]
    fn numbers_as_in_rust() {
        check(
            "0..12 1.0..2 1. 1.5e-3 1e5 2.x",
            "0 .. 12 1.0 .. 2 1. 1.5e-3 1e5 2 . x",
        );
        check("0xff 1_000 1.0f32 3u8 1e", "0xff 1_000 1.0f32 3u8 1e");
    }

    #[test]
    fn comments_and_docs() {
        check("a // b\nc /* /* */ d */ e", "a c e");
        check("/// hi \"x\"\nfn", "# [ doc = \" hi \\\"x\\\"\" ] fn");
        check("/** hi */ //// no", "# [ doc = \" hi \" ]");
        check("a /* b", "a !this comment is never closed");
    }

    #[test]
    fn strings() {
        check(
            r####""a\"b" r#"c"d"# r"e" r#fn"####,
            r####""a\"b" r#"c"d"# r"e" r#fn"####,
        );
        check("a \"b\\", "a !this string is never closed");
        check("r#\"b\"", "!this string is never closed");
    }

    #[test]
    fn delimiters_are_balanced() {
        check("(a]", "( a ) !expected `)`, found `]`");
        check(
            "{a]",
            "{ a } !unexpected closing `]` !this `{` is never closed",
        );
        check("([a)]", "( [ a ] ) !this `[` is never closed");
        check("[(a]", "[ ( a ) ] !this `(` is never closed");
        check("}", "!unexpected closing `}`");
    }
}
