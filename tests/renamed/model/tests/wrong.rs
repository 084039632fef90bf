//! What the compiler says of wrong calls between crates.

use std::process::Command;

/// The compiler whose words the `.stderr` files are.
const COMPILER: &str = "rustc 1.95.0";

#[test]
fn programs_that_must_not_compile() {
    let version = Command::new("rustc").arg("--version").output();
    let version = version.unwrap().stdout;
    if String::from_utf8_lossy(&version).starts_with(COMPILER) {
        trybuild::TestCases::new().compile_fail("tests/wrong/*.rs");
    }
}
