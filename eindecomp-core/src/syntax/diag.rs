//! What can be wrong with a program: one code per way, one table of codes.

use std::fmt;

use super::token::Span;

mod render;

pub use render::Rendered;

macro_rules! codes {
    ($($number:literal $name:ident $title:literal,)*) => {
        /// A stable error code, `EIN0001` and up. A number is never reused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = $title] $name = $number,)*
        }

        impl Code {
            /// Every code, in order.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// What the code means, in a line.
            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }
        }
    };
}

codes! {
    1 ExtentMismatch "an index has two different extents",
    2 UnboundIndex "an index is neither on the left nor reduced",
    3 RankMismatch "an access has too many or too few indices",
    4 UnknownExtent "nothing gives an index its extent",
    5 UnprovenExtent "two extents are not provably equal",
    6 OutOfRange "an access may leave its axis",
    7 MergedAxis "a merged axis may not divide evenly",
    8 Narrowing "a value would be narrowed implicitly",
    9 GatherIndex "an index value is not an integer",
    10 UndefinedName "a name is used before it is defined, or never defined",
    11 CallExtent "an argument's axis disagrees with the block's",
    12 Bind "the inputs' sizes do not fit the program",
    13 Syntax "the program is not well formed",
    15 ResultType "a result does not have the declared type",
    16 CallAnnotation "the annotation of a call disagrees with the block called",
    17 CarriedType "a loop-carried tensor changes its type",
    18 ReducedOutput "an index is both on the left and reduced",
    19 ResultNotName "the result of a block must be a name",
    20 MissingElse "an `if` needs an `else`",
    21 FactorInReduction "a factor inside a reduction does not depend on the reduced indices",
    22 NestedReduction "a reduction stands unparenthesised inside another, or rebinds its index",
    23 NarrowingFactor "a cast narrows only the last factor of a reduction",
    24 Duplicate "a name is declared twice",
    25 ReservedName "a name that is an aggregation or a keyword is declared as something else",
    26 UnknownAgg "there is no such aggregation",
    27 UnknownFunction "there is no such function or block",
    28 Arity "a call has too many or too few arguments",
    29 NoCommonDtype "two operands have no common dtype",
    30 IntegerLiteral "an integer literal stands where a float is needed",
    31 DtypeRule "an operator is not defined for this dtype",
    32 UnknownType "there is no such dtype or struct",
    33 UnknownField "a struct has no such field",
    34 CalleeClause "a clause of the called block cannot be proved",
    35 ParamRole "`#[state]` must agree between caller and callee",
    36 Argument "an argument must be a name, a field, a literal or a host value",
    37 StoreTarget "only state can be stored into",
    38 StoreNotInjective "a store may write one element twice",
    39 Recursion "a block calls itself",
    40 Tuple "a tuple stands outside an access and an aggregation's arguments",
    41 TooDeep "the program is nested too deeply",
    42 Literal "a literal is malformed, out of range or carries a suffix",
    43 Attribute "an attribute is unknown, misplaced or malformed",
    44 NotMutable "a name is assigned in a loop but not declared `mut`",
    45 DimValue "a Rust const used as a value needs a cast",
    46 Extent "an extent is negative, or not an integer polynomial of dims",
    47 Loop "a `for` needs a struct array or a constant range",
    48 Pattern "a pattern does not fit what it is bound to",
    49 ClauseFalse "a `where` clause or a condition can never hold",
    50 OutOfScope "this is outside the language",
    51 Splits "a dim in `splits` is no axis of its own in the results",
    52 TooLarge "a block is too many statements when its loops and calls are written out",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EIN{:04}", *self as u16)
    }
}

impl Code {
    /// The page of the documentation that explains the code.
    pub fn page(self) -> String {
        format!("eindecomp::errors::{self}")
    }
}

/// A change of the program that removes an error.
#[derive(Clone, Debug, PartialEq)]
pub struct Fix {
    /// What it does, with the code to write in it.
    pub help: String,
    /// What to write in place of which tokens; an empty span is an insertion. None overlap.
    pub edits: Vec<(Span, String)>,
}

impl Fix {
    /// `text` in place of `span`. In `help`, `{}` stands for the text.
    pub fn replace(span: Span, text: impl Into<String>, help: &str) -> Fix {
        let text = text.into();
        Fix {
            help: help.replace("{}", &format!("`{}`", text.trim())),
            edits: vec![(span, text)],
        }
    }

    /// `text` before `span`.
    pub fn before(span: Span, text: impl Into<String>, help: &str) -> Fix {
        Fix::replace(Span::new(span.start, span.start), text, help)
    }

    /// `text` behind `span`.
    pub fn after(span: Span, text: impl Into<String>, help: &str) -> Fix {
        Fix::replace(Span::new(span.end, span.end), text, help)
    }

    /// Brackets around `span`, which then reads `shown`: that is what `{}` in `help` stands for.
    pub fn wrap(span: Span, open: &str, close: &str, shown: &str, help: &str) -> Fix {
        Fix::before(span, open, &help.replace("{}", &format!("`{shown}`")))
            .and(Span::new(span.end, span.end), close)
    }

    /// One more edit.
    pub fn and(mut self, span: Span, text: impl Into<String>) -> Fix {
        self.edits.push((span, text.into()));
        self
    }

    /// The change that has to follow, made too.
    pub(crate) fn then(mut self, next: Fix) -> Fix {
        let end = if self.help.ends_with('`') { "." } else { "" };
        self.help = format!("{}{end} Then {}", self.help, next.help);
        self.edits.extend(next.edits);
        self
    }

    /// The program with the change made, for spans that are byte offsets into it.
    pub fn apply(&self, source: &str) -> String {
        let mut edits: Vec<&(Span, String)> = self.edits.iter().collect();
        edits.sort_by_key(|(span, _)| *span);
        let (mut out, mut at) = (String::new(), 0);
        for (span, text) in edits {
            let (start, end) = (span.start as usize, span.end as usize);
            out += source.get(at..start).unwrap_or_default();
            out += text;
            at = end.max(at);
        }
        out + source.get(at..).unwrap_or_default()
    }
}

/// An error: its code, what is wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Diag {
    /// The kind of error.
    pub code: Code,
    /// What is wrong, in the user's own names.
    pub message: String,
    /// The user's tokens that are wrong.
    pub primary: Span,
    /// The other place, where two places disagree, and what to say of it.
    pub secondary: Option<(Span, String)>,
    /// Changes of which each one removes the error.
    pub fixes: Vec<Fix>,
    /// What to do, where no change can be written down.
    pub help: Option<String>,
}

impl Diag {
    /// An error with a code, a place and a message.
    pub fn new(code: Code, primary: Span, message: impl Into<String>) -> Self {
        Diag {
            code,
            message: message.into(),
            primary,
            secondary: None,
            fixes: Vec::new(),
            help: None,
        }
    }

    /// Adds the second place.
    pub fn secondary(mut self, span: Span, message: impl Into<String>) -> Self {
        self.secondary = Some((span, message.into()));
        self
    }

    /// Adds a change that removes the error.
    pub fn fix(mut self, fix: Fix) -> Self {
        self.fixes.push(fix);
        self
    }

    /// Adds changes that each remove the error.
    pub fn fixes(mut self, fixes: impl IntoIterator<Item = Fix>) -> Self {
        self.fixes.extend(fixes);
        self
    }

    /// Adds advice that is no change of the program's text.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Every text of it put in other words.
    pub(crate) fn reword(&mut self, word: &dyn Fn(&str) -> String) {
        let change = |text: &mut String| *text = word(text);
        change(&mut self.message);
        self.secondary.iter_mut().for_each(|(_, text)| change(text));
        self.help.iter_mut().for_each(change);
        for fix in &mut self.fixes {
            change(&mut fix.help);
            fix.edits.iter_mut().for_each(|(_, text)| change(text));
        }
    }

    /// What to do, a line each.
    pub fn helps(&self) -> impl Iterator<Item = &str> {
        let fixes = self.fixes.iter().map(|fix| &*fix.help);
        fixes.chain(self.help.as_deref())
    }

    /// Shows the error with the lines of `source`, for spans that are byte offsets into it.
    pub fn render<'a>(&'a self, source: &'a str) -> Rendered<'a> {
        Rendered::new(self, source)
    }
}

impl fmt::Display for Diag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        if let Some((_, message)) = &self.secondary {
            write!(f, "\nnote: {message}")?;
        }
        for help in self.helps() {
            write!(f, "\nhelp: {help}")?;
        }
        write!(f, "\ndocs: {}", self.code.page())
    }
}

impl std::error::Error for Diag {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_numbered_once_and_in_order() {
        assert!(Code::ALL.windows(2).all(|w| (w[0] as u16) < w[1] as u16));
        assert_eq!(Code::ALL[0].to_string(), "EIN0001");
    }

    #[test]
    fn renders_both_places() {
        let source = "let é = a[m, k]\n  * b[k, n];\n";
        let at = source.rfind('k').unwrap() as u32;
        let first = source.find('k').unwrap() as u32;
        let diag = Diag::new(
            Code::ExtentMismatch,
            Span::new(at, at + 1),
            "index `k` differs",
        )
        .secondary(Span::new(first, first + 1), "512 here")
        .help("use two indices");
        let text = diag.render(source).to_string();
        assert_eq!(
            text,
            "error[EIN0001]: index `k` differs\n --> 2:7\n2 |   * b[k, n];\n  |       ^\n --> 1:14\n\
             1 | let é = a[m, k]\n  |              - 512 here\n  help: use two indices\n  docs: eindecomp::errors::EIN0001\n"
        );
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let source = format!("{}é{}", "a".repeat(5000), "b".repeat(5000));
        let diag = Diag::new(Code::Syntax, Span::new(5000, 5002), "here");
        let text = diag.render(&source).to_string();
        let lines: Vec<&str> = text.lines().collect();
        let (left, right) = ("a".repeat(40), "b".repeat(119));
        assert_eq!(lines[1], " --> 1:5001");
        assert_eq!(lines[2], format!("1 | …{left}é{right}…"));
        assert_eq!(lines[3], format!("  | {}^", " ".repeat(41)));
    }

    #[test]
    fn spans_past_the_source_do_not_panic() {
        let text = Diag::new(Code::Syntax, Span::new(90, 95), "x")
            .render("é")
            .to_string();
        assert!(text.contains("1:2"), "{text}");
    }
}
