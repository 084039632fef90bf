//! `cargo eindecomp`: plans of a crate's blocks, made and checked outside of the program.

fn main() -> std::process::ExitCode {
    eindecomp::cli::main()
}
