//! How mathematics and other languages spell what the language has: the tables, and what is said
//! of them.

use super::slips::WHERE;
use super::{Parse, Parser};
use crate::ein::DType;
use crate::syntax::ast::{BinaryOp, CmpOp};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::nearest;
use crate::syntax::token::{Delim, Span, Tok};

/// What other languages have in the place of punctuation, by its tokens.
const SUBSTITUTES: &[(&str, &[&[&str]])] = &[
    ("=", &[&[":", "="], &["<", "-"], &["=="], &["=>"]]),
    (":", &[&["="], &["::"], &["=>"]]),
    ("..", &[&[","], &[":"]]),
];

/// What stands in front of names in other languages: modules and number types.
const MODULES: &[&str] = &[
    "torch", "np", "numpy", "jnp", "jax", "lax", "nn", "tf", "keras", "math", "Math", "F", "mx",
    "cp", "xp", "einops", "std", "core", "ops",
];

/// What other languages call a set of types.
const CLASSES: &[(&str, &str)] = &[
    ("float", "Float"),
    ("Real", "Float"),
    ("Floating", "Float"),
    ("Num", "Float"),
    ("Number", "Float"),
    ("Numeric", "Float"),
    ("int", "Int"),
    ("Integer", "Int"),
    ("PrimInt", "Int"),
];

/// What to write instead of operations on bits.
const NO_BITS: &str =
    "`/`, `*` and `%` by powers of 2 move bits; logical operators are `&&` and `||`";

impl Parser {
    /// An operator in another language's spelling that stands here, and the number of its tokens.
    pub(super) fn foreign_operator(&self) -> Option<(BinaryOp, usize)> {
        let next = |punct| self.is_at(self.at + 1, punct);
        let compare = |op, tokens| (BinaryOp::Cmp(op), tokens);
        let (op, tokens) = match self.peek()? {
            Tok::Punct("==") if next("=") => compare(CmpOp::Eq, 2),
            Tok::Punct("!=" | "~") if next("=") => compare(CmpOp::Ne, 2),
            Tok::Punct("<") if next(">") => compare(CmpOp::Ne, 2),
            Tok::Punct("=") if next("<") => compare(CmpOp::Le, 2),
            Tok::Punct("=>") => compare(CmpOp::Ge, 1),
            Tok::Punct("&") => (BinaryOp::And, 1),
            Tok::Punct("|") => (BinaryOp::Or, 1),
            Tok::Ident(word) => match &**word {
                "and" => (BinaryOp::And, 1),
                "or" => (BinaryOp::Or, 1),
                "mod" => (BinaryOp::Rem, 1),
                "is" => compare(CmpOp::Eq, 1),
                _ => return None,
            },
            _ => return None,
        };
        let ends = matches!(
            self.peek_at(self.at + tokens),
            None | Some(Tok::Punct(";" | ",") | Tok::Close(_) | Tok::Open(Delim::Brace))
        );
        (!ends).then_some((op, tokens))
    }

    /// Does a `=` stand at `index`, or what is written in its place?
    pub(super) fn assigns(&self, index: usize) -> bool {
        self.is_at(index, "=") || self.substitute_at(index, "=").is_some()
    }

    /// The number of tokens of what stands here instead of `punct`.
    pub(super) fn substitute(&self, punct: &str) -> Option<usize> {
        self.substitute_at(self.at, punct)
    }

    fn substitute_at(&self, index: usize, punct: &str) -> Option<usize> {
        let (_, all) = SUBSTITUTES.iter().find(|(meant, _)| *meant == punct)?;
        let here = |tokens: &&&[&str]| {
            let mut tokens = tokens.iter().enumerate();
            tokens.all(|(n, text)| self.is_at(index + n, text))
        };
        all.iter().find(here).map(|tokens| tokens.len())
    }

    /// Reports an operator in another language's spelling, which was taken.
    pub(super) fn respelt(&mut self, span: Span, op: BinaryOp) -> Parse<()> {
        let before = self.at - 1;
        let bitwise = self.is_at(before, "&") || self.is_at(before, "|");
        if bitwise && matches!(self.peek(), Some(Tok::Literal(_))) {
            let diag = Diag::new(Code::Syntax, span, "there are no operations on bits");
            return Err(Box::new(diag.help(NO_BITS)));
        }
        let text = match op {
            BinaryOp::And | BinaryOp::Or => "logical operators are `&&`, `||` and `!`",
            BinaryOp::Cmp(CmpOp::Eq) => "a comparison is written `==`",
            BinaryOp::Cmp(_) => "comparisons are `==`, `!=`, `<`, `<=`, `>` and `>=`",
            _ => "the remainder is `%`",
        };
        let fix = Fix::replace(span, op.symbol(), "write {}");
        self.slip(span, text, fix);
        Ok(())
    }

    /// What is known of a token that belongs nowhere, such as this one.
    pub(super) fn hint(&self) -> Option<&'static str> {
        let before = self.at.checked_sub(1);
        let doubled = |punct| before.is_some_and(|at| self.is_at(at, punct));
        Some(match self.peek()? {
            Tok::Ident(word) => match &**word {
                "where" => WHERE,
                "while" | "loop" => {
                    "a loop is `for i in 0..N { … }`, with a number of rounds that is known"
                }
                "match" | "switch" => "a choice is `if … { … } else { … }`",
                "return" => "the last line of a block is its result, without `return`",
                "in" => "a range stands behind an index in brackets: `sum[i in N] …`",
                "fn" | "struct" => "items stand side by side, not in one another",
                "const" => "a Rust const stands outside of `ein!`",
                "let" => "a `let` is a statement of its own",
                _ => return None,
            },
            Tok::Literal(text) if text.starts_with('"') => "strings stand in attributes only",
            Tok::Punct("=") => "a comparison is `==`; arguments and fields have no defaults",
            Tok::Punct("||") => "a norm is written out: `sqrt(sum[i] sq(x[i]))`",
            Tok::Punct("|") if self.is_at(self.at + 2, "|") => {
                "an absolute value is `abs(…)`, and a function an item: `fn twice(x) = 2 * x;`"
            }
            Tok::Punct("|") => "an absolute value is `abs(…)`",
            Tok::Punct(":") if self.is_dtype_at(self.at + 1) => "a conversion is `x as f32`",
            Tok::Punct("!") if matches!(self.peek_at(before?), Some(Tok::Ident(_))) => {
                "what must hold stands behind the results: `where N % 2 == 0`"
            }
            Tok::Punct("<") if doubled("<") => NO_BITS,
            Tok::Punct(">") if doubled(">") => NO_BITS,
            Tok::Punct("~") => "logical operators are `&&`, `||` and `!`",
            Tok::Punct("'") => "a name has letters, digits and `_`: `t2`",
            Tok::Unknown('√') => "functions have names: `sqrt(…)`",
            _ => return None,
        })
    }
}

/// The keyword of an item that another language's word means.
pub(super) fn item(word: &str) -> Option<&'static str> {
    match word {
        "fn" | "struct" | "agg" | "extern" => None,
        "def" | "func" | "function" | "fun" | "block" | "kernel" | "define" => Some("fn"),
        "class" | "record" | "type" | "params" => Some("struct"),
        "aggregate" | "aggregation" | "reduce" | "reduction" => Some("agg"),
        other => nearest(other, ["fn", "struct", "agg"]),
    }
}

/// Is it what stands in front of functions in other languages?
pub(super) fn is_module(name: &str) -> bool {
    MODULES.contains(&name) || DType::from_name(name).is_some()
}

/// `Float` or `Int`, if that is what a bound is meant to say.
pub(super) fn class(name: &str) -> Option<&'static str> {
    match DType::from_name(name) {
        Some(dtype) if dtype.is_float() => Some("Float"),
        Some(dtype) if dtype.is_int() => Some("Int"),
        _ => {
            let named = |known: &str| known.eq_ignore_ascii_case(name);
            let direct = ["Float", "Int"].into_iter().find(|known| named(known));
            let other = CLASSES.iter().find(|(other, _)| named(other));
            direct.or(other.map(|(_, class)| *class))
        }
    }
}
