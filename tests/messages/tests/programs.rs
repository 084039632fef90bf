//! Programs that must not compile, and what the compiler says of them.

use std::path::Path;
use std::process::Command;

/// The compiler whose words the `.stderr` files are.
const COMPILER: &str = "rustc 1.95.0";

/// Set where this test is run again on copies of the cases, whose words may be any.
const COPIES: &str = "EINDECOMP_UI_COPIES";

/// On another compiler the cases must still fail to compile.
#[test]
fn programs_that_must_not_compile() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    if let Some(copies) = std::env::var_os(COPIES) {
        trybuild::TestCases::new().compile_fail(Path::new(&copies).join("*.rs"));
        return;
    }
    let version = Command::new("rustc")
        .arg("--version")
        .output()
        .unwrap()
        .stdout;
    if String::from_utf8_lossy(&version).starts_with(COMPILER) {
        trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
        return;
    }
    let copies = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ui");
    std::fs::create_dir_all(&copies).unwrap();
    for case in std::fs::read_dir(cases).unwrap() {
        let case = case.unwrap().path();
        if case.extension().is_some_and(|ext| ext == "rs") {
            std::fs::copy(&case, copies.join(case.file_name().unwrap())).unwrap();
        }
    }
    let copied = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "programs_that_must_not_compile"])
        .env(COPIES, &copies)
        .env("TRYBUILD", "overwrite")
        .status();
    assert!(copied.unwrap().success());
}
