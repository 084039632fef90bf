//! Plans that come by git are noticed, too.

fn main() {
    println!("cargo::rerun-if-changed=plans");
}
