//! Wrong programs with all that is said of them, and right programs.
//!
//! A file of `wrong/` is named after a code and holds cases of it, one of `right/` holds programs
//! of one theme. A case starts with `//# its name`. Below a line of a wrong program, `//~` lines
//! underline what is wrong in it: `^^^ EIN0001` the primary place, `---` the second one, and
//! `//~<<< EIN0001` as many characters from the line's first. They are comments, so the program is
//! the case's text as it stands. Lines between `//@ ein path` and `//@ end` are another `ein!`.
//! Behind the program, `//|` lines hold the rendered errors.
//!
//! `EINDECOMP_BLESS=1 cargo test …` writes the `//|` lines anew, and the `//~` lines where a case
//! has none (with `=marks`, everywhere); both are to be read before they are committed.

mod case;
mod edited;
mod right;
mod wrong;
