//! The one grammar of the language, used by the `ein!` macro and by the text form alike.
//!
//! Tokens come from Rust tokens (the macro) or from text (`lex`); everything after that
//! is the same code: `parse` makes an `ast`, `print` writes it back canonically.

pub mod ast;
pub mod check;
pub mod diag;
pub mod lex;
pub mod literal;
mod names;
pub mod parse;
pub mod print;
pub mod token;

pub use diag::{Code, Diag, Fix};
pub use parse::{parse, parse_text};
pub use token::Span;
