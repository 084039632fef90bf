//! What the compiler says of programs that must not compile: `tests/ui`.
